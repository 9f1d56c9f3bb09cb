//! Which implementation of the bulk sums runs: a witness that the processor can run it.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Level {
    Portable,
}

/// A kernel for bulk point arithmetic that this processor can run.
///
/// A value can only be made by a constructor that has checked the processor, so it is the proof
/// that the kernel's instructions exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backend(Level);

/// A kernel name that is unknown, or whose instructions this processor lacks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackendError {
    /// No kernel of this crate has that name.
    #[error("no BLS kernel is named {name:?}: expected `portable` or `avx512`")]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// The processor lacks instructions of this kernel.
    #[error("this processor cannot run the BLS kernel `{name}`")]
    Unavailable {
        /// The kernel that was asked for.
        name: &'static str,
    },
}

impl Backend {
    /// Scalar arithmetic of blst: runs everywhere, and is the oracle of the other kernels.
    pub fn portable() -> Backend {
        Backend(Level::Portable)
    }

    /// All kernels that this processor can run, the portable one first.
    pub fn available() -> Vec<Backend> {
        vec![Backend::portable()]
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "portable",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "portable" => Ok(Backend::portable()),
            "avx512" => Err(BackendError::Unavailable { name: "avx512" }),
            _ => Err(BackendError::Unknown {
                name: name.to_owned(),
            }),
        }
    }
}
