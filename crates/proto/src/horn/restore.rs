//! State from before a restart: where the chain begins, and the blocks after that.

use alphorn_scheme::Bytes;

use super::config::Config;
use super::machine::Horn;
use crate::chain::{Anchor, AnchorError, Chain};
use crate::wire::Reject;

/// The chain of a network at genesis.
pub(super) fn chain_of(config: &Config) -> Chain {
    Chain::new(config.network_id, config.layout, config.epoch_slots)
        .with_policy(config.fork_choice)
        .with_weights(config.weights.clone())
}

impl Horn {
    /// The state at the last finalised block, from which a node can start. It is the same for all nodes
    /// of the network that have finalised that block.
    pub fn anchor(&self) -> Anchor {
        self.chain.anchor(self.config.network_id)
    }

    /// Starts from an anchor instead of genesis, before the first block and the first input. The only
    /// check is that it belongs to this network. It must come from the node's own store, or a trusted
    /// party must have vouched for its digest.
    ///
    /// # Errors
    ///
    /// [`AnchorError`]; the state is then unchanged.
    pub fn begin_at(&mut self, encoded: &[u8]) -> Result<(), AnchorError> {
        if self.boundary.is_some() {
            return Err(AnchorError::Begun);
        }
        let anchor = self.read_anchor(encoded)?;
        let mut chain = chain_of(&self.config);
        chain.lend_supports(self.store.supports.clone());
        self.chain = chain.beginning_at(anchor);
        Ok(())
    }

    /// Reads an anchor of this network.
    ///
    /// # Errors
    ///
    /// [`AnchorError`].
    pub fn read_anchor(&self, encoded: &[u8]) -> Result<Anchor, AnchorError> {
        Anchor::decode(encoded, &self.config.network_id, &self.config.layout)
    }

    /// Restores a block verified in an earlier run, after its parent and before the first input. It is
    /// not verified again, so it must come from the node's own store.
    ///
    /// # Errors
    ///
    /// If it does not decode, or does not fit the chain.
    pub fn restore(&mut self, data: &Bytes) -> Result<(), Reject> {
        let references = |vote: &_, committee| self.chain.reference(vote, committee);
        let block = self.store.read(data, &self.format, &references);
        self.import(&*block.map_err(Reject::from_decode)?, true)
    }
}
