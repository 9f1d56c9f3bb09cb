//! The code with which a network broadcasts.

use crate::calibration::{self, Kernel};
use crate::error::Result;
use crate::options::Plain;
use alphorn_broadcast::rlnc::{Generators, KERNELS, Strategy};
use alphorn_node::cast::{Code, ELEMENTS};
use serde::{Deserialize, Serialize};

/// How blocks and collections are coded that are too long for gossip; all nodes of a network do it alike.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BroadcastCode {
    /// Reed-Solomon shards under a Merkle root, which relays forward
    #[default]
    ReedSolomon,
    /// Random linear combinations under Pedersen commitments, which relays recombine
    Rlnc,
}

impl BroadcastCode {
    pub(crate) fn is_default(&self) -> bool {
        *self == BroadcastCode::default()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            BroadcastCode::ReedSolomon => "reed-solomon",
            BroadcastCode::Rlnc => "rlnc",
        }
    }

    /// Returns its name in headers.
    pub(crate) fn strategy(self) -> Strategy {
        match self {
            BroadcastCode::ReedSolomon => Strategy::Rs,
            BroadcastCode::Rlnc => Strategy::Rlnc,
        }
    }

    /// Builds the code, and returns the kernels that it chose from. Generators are made once, for a
    /// network that uses them, in some 0.1 s.
    pub(super) fn make(self, common: &Plain) -> Result<(Code, Vec<Kernel>)> {
        match self {
            BroadcastCode::ReedSolomon => Ok((Code::Rs, Vec::new())),
            BroadcastCode::Rlnc => {
                let common = common.for_crate(KERNELS.of);
                let generators = Generators::new(common.kernel(&KERNELS)?, ELEMENTS);
                Ok((
                    Code::Rlnc(generators),
                    calibration::of(&KERNELS, &common.compute)?,
                ))
            }
        }
    }
}
