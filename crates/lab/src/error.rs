//! How a command ends if it fails.

use std::fmt;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub enum Error {
    /// The checked property does not hold: exit code 1.
    Check(String),
    /// The command or its inputs are wrong: exit code 2.
    Usage(anyhow::Error),
    /// Another failure with its own exit code.
    Exit(u8, String),
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the program's exit code.
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
            Error::Usage(error) => {
                let mut said = error.to_string();
                for cause in error.chain().skip(1).map(ToString::to_string) {
                    // Errors of some libraries already include their cause.
                    if !said.ends_with(&cause) {
                        said += &format!(": {cause}");
                    }
                }
                f.write_str(&said)
            }
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Error {
    fn from(error: E) -> Self {
        Error::Usage(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use std::io;

    #[test]
    fn a_cause_is_said_once() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let file = serde_json::Error::io(full());
        assert_eq!(file.to_string(), full().to_string(), "it says its cause");
        let error = Error::from(anyhow!(file).context("a file"));
        assert_eq!(error.to_string(), format!("a file: {}", full()));
        let error = Err::<(), _>(full()).context("a file").context("a folder");
        let error = Error::from(error.unwrap_err());
        assert_eq!(error.to_string(), format!("a folder: a file: {}", full()));
    }
}
