//! Errors, as a code that a program can act on and a text for its log.

use alphorn_bls::{BlsError, KeyTableError, RegistryError, SumError};
use alphorn_rlnc::HeaderError;
use alphorn_scheme::Refused;
use alphorn_types::BitfieldError;
use alphorn_xmss::{
    BytesError, KeyError, KeyFileError, ProofError, ProveError, SignError, WatermarkError,
};
use thiserror::Error as ThisError;

/// What a caller can do about an error. The numbers never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// An argument is out of range: a mistake by the caller.
    Argument = 1,
    /// The bytes are not a valid key, signature, proof, header or piece.
    Decode = 2,
    /// A signature or proof does not verify.
    Invalid = 3,
    /// The store of marks refuses a permit, or the key cannot sign there.
    Refused = 4,
    /// The computation was asked to stop.
    Stopped = 5,
    /// The file system returned an error.
    Io = 6,
    /// More input is needed first: pieces of a broadcast are missing.
    Incomplete = 7,
}

/// An error of this library.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[error("{message}")]
pub struct Error {
    code: Code,
    message: String,
}

impl Error {
    /// Creates an error with a text.
    pub fn new(code: Code, message: impl ToString) -> Error {
        Error {
            code,
            message: message.to_string(),
        }
    }

    /// An unexpected length.
    pub(crate) fn length(what: &str, got: usize, want: impl ToString) -> Error {
        let want = want.to_string();
        Error::new(
            Code::Argument,
            format!("length of {what} = {got} bytes, must be {want}"),
        )
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }
}

/// Maps all errors of a type to one code.
macro_rules! coded {
    ($($error:ty => $code:expr),* $(,)?) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::new($code, error)
            }
        }
    )*};
}

coded! {
    alphorn_bls::DecodeError => Code::Decode,
    BytesError => Code::Decode,
    BitfieldError => Code::Argument,
    KeyTableError => Code::Argument,
    SumError => Code::Argument,
    HeaderError => Code::Decode,
    KeyFileError => Code::Decode,
    Refused => Code::Refused,
}

impl From<BlsError> for Error {
    fn from(error: BlsError) -> Error {
        let code = match error {
            BlsError::Decode(_) => Code::Decode,
            BlsError::Empty | BlsError::KeyMaterial { .. } => Code::Argument,
        };
        Error::new(code, error)
    }
}

impl From<RegistryError> for Error {
    fn from(error: RegistryError) -> Error {
        let code = match error {
            RegistryError::Key { .. } => Code::Decode,
            RegistryError::Possession { .. } => Code::Invalid,
            RegistryError::Duplicate { .. } | RegistryError::TooMany { .. } => Code::Argument,
        };
        Error::new(code, error)
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Error {
        let code = match error {
            KeyError::Range { .. } => Code::Argument,
            KeyError::Stopped => Code::Stopped,
        };
        Error::new(code, error)
    }
}

impl From<SignError> for Error {
    fn from(error: SignError) -> Error {
        let code = match error {
            SignError::Role { .. } | SignError::Inactive { .. } | SignError::NoCode { .. } => {
                Code::Refused
            }
            SignError::Stopped => Code::Stopped,
        };
        Error::new(code, error)
    }
}

impl From<WatermarkError> for Error {
    fn from(error: WatermarkError) -> Error {
        let code = match error {
            WatermarkError::Io { .. } => Code::Io,
            WatermarkError::Damaged { .. } => Code::Decode,
            WatermarkError::InUse(_)
            | WatermarkError::Exists(_)
            | WatermarkError::Behind { .. }
            | WatermarkError::Unknown { .. } => Code::Refused,
        };
        Error::new(code, error)
    }
}

impl From<ProofError> for Error {
    fn from(error: ProofError) -> Error {
        let code = match error {
            ProofError::Decode(_) => Code::Decode,
            ProofError::Bitfield { .. } => Code::Argument,
            _ => Code::Invalid,
        };
        Error::new(code, error)
    }
}

impl From<ProveError> for Error {
    fn from(error: ProveError) -> Error {
        let code = match error {
            ProveError::Stopped => Code::Stopped,
            ProveError::InvalidSignatures { .. } => Code::Invalid,
            ProveError::Part { error, part } => {
                let inner = Error::from(error);
                return Error::new(inner.code, format!("proof {part}: {inner}"));
            }
            _ => Code::Argument,
        };
        Error::new(code, error)
    }
}
