//! What a machine knew before it was started again.

use alphorn_scheme::Bytes;

use super::machine::Horn;
use crate::wire::Reject;

impl Horn {
    /// Takes a block that this machine verified in an earlier run, after its parent and before the
    /// first input. Nothing of it is verified again: it must come from the machine's own store.
    ///
    /// # Errors
    ///
    /// If it does not decode, or does not fit the chain.
    pub fn restore(&mut self, data: &Bytes) -> Result<(), Reject> {
        let references = |vote: &_, committee| self.chain.reference(vote, committee);
        let block = self.store.read(data, &self.format, &references);
        self.import(&*block.map_err(Reject::from_decode)?)
    }
}
