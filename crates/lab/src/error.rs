//! How a command ends when it does not succeed.

use std::fmt;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub enum Error {
    /// What was asked does not hold: exit code 1.
    Check(String),
    /// The question or its inputs are wrong: exit code 2.
    Usage(anyhow::Error),
    /// Another end that has an exit code of its own.
    Exit(u8, String),
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// With what the program ends.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Error::Check(_) => ExitCode::from(1),
            Error::Usage(_) => ExitCode::from(2),
            Error::Exit(code, _) => ExitCode::from(*code),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Check(what) | Error::Exit(_, what) => f.write_str(what),
            Error::Usage(error) => write!(f, "{error:#}"),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Error {
    fn from(error: E) -> Self {
        Error::Usage(error.into())
    }
}
