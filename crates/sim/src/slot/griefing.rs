//! Reward griefing, carried out by the roles themselves.

use super::HOST;
use alphorn_proto::wire::Kind;
use alphorn_types::{Bitfield, Layout};

/// An adversary who withholds her votes from honest nodes and ignores her victims. Everything else
/// follows: her aggregators have her votes but not the victims', honest aggregators have all honest
/// votes, and every collector, hers or not, covers a cell with both by the protocol's own code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Griefing {
    /// Validators of the adversary, by index.
    pub eve: Bitfield,
    /// Honest validators whose votes do not reach the adversary's validators, by index.
    pub victims: Bitfield,
}

/// An attack that does not fit the layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GriefingError {
    /// A set with the wrong length for this network.
    #[error("{what}: {value} bits for {validators} validators")]
    Length {
        /// The set.
        what: &'static str,
        /// Its length.
        value: usize,
        /// Validators of the layout.
        validators: u32,
    },
    /// A victim that belongs to the adversary.
    #[error("validator {0} is the adversary's and a victim")]
    Both(usize),
}

impl Griefing {
    /// Checks that the attack fits the layout.
    ///
    /// # Errors
    /// [`GriefingError`].
    pub fn check(&self, layout: &Layout) -> Result<(), GriefingError> {
        let validators = layout.validators();
        for (what, set) in [("eve", &self.eve), ("victims", &self.victims)] {
            if set.len() != validators as usize {
                return Err(GriefingError::Length {
                    what,
                    value: set.len(),
                    validators,
                });
            }
        }
        match self.eve.iter_ones().find(|i| self.victims.get(*i)) {
            Some(both) => Err(GriefingError::Both(both)),
            None => Ok(()),
        }
    }

    /// Validators hosted on separate nodes, in the order of those nodes.
    pub(super) fn apart(&self) -> [&Bitfield; 2] {
        [&self.eve, &self.victims]
    }

    /// Votes that are withheld from nodes which would otherwise receive them; `eve` is the first of the
    /// two nodes.
    pub(super) fn withheld(eve: u32) -> Vec<(Kind, u32, u32)> {
        let victims = eve + 1;
        // Only votes. Aggregates of both kinds reach all collectors, which is where the attack has its effect.
        let withheld = [(eve, HOST), (eve, victims), (victims, eve)];
        withheld.map(|(from, to)| (Kind::Vote, from, to)).to_vec()
    }
}
