//! What a machine knew before it was started again: where its chain begins, and the blocks after it.

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
    /// The state at the last final block, from which a machine can begin: the same for all machines
    /// of the network that have finalised it.
    pub fn anchor(&self) -> Anchor {
        self.chain.anchor(self.config.network_id)
    }

    /// Begins at an anchor instead of genesis, before the first block and the first input. Nothing of
    /// it is verified but that it is one of this network: it comes from the machine's own store, or
    /// somebody who is trusted vouched for its digest.
    ///
    /// # Errors
    ///
    /// [`AnchorError`]; then the machine is as before.
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

    /// Takes a block that this machine verified in an earlier run, after its parent and before the
    /// first input. Nothing of it is verified again: it must come from the machine's own store.
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
