//! The code of a network.

use alphorn_broadcast::rlnc::{Generators, Strategy};

/// The code in which a network broadcasts, the same for all its nodes, with the data they need for it.
#[derive(Clone, Debug)]
pub enum Code {
    /// Reed-Solomon shards under a Merkle root.
    Rs,
    /// Random linear combinations under Pedersen commitments: [`ELEMENTS`](super::ELEMENTS) generators, which take some
    /// 30 µs each to make, and 24 MiB in total.
    Rlnc(Generators),
}

impl Code {
    /// The strategy of this code.
    pub fn strategy(&self) -> Strategy {
        match self {
            Code::Rs => Strategy::Rs,
            Code::Rlnc(_) => Strategy::Rlnc,
        }
    }
}
