//! Errors as Python raises them.

use alphorn_bindings::Code;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    alphorn,
    Error,
    PyException,
    "What went wrong; `code` is argument, decode, invalid, refused, stopped, io or incomplete."
);

/// What a function of the module raises.
pub(crate) enum Raised {
    /// An error of the library.
    Ours(alphorn_bindings::Error),
    /// An exception of a callback.
    Python(PyErr),
}

impl From<alphorn_bindings::Error> for Raised {
    fn from(error: alphorn_bindings::Error) -> Raised {
        Raised::Ours(error)
    }
}

impl From<PyErr> for Raised {
    fn from(error: PyErr) -> Raised {
        Raised::Python(error)
    }
}

impl From<Raised> for PyErr {
    fn from(raised: Raised) -> PyErr {
        let error = match raised {
            Raised::Python(error) => return error,
            Raised::Ours(error) => error,
        };
        let code = match error.code() {
            Code::Argument => "argument",
            Code::Decode => "decode",
            Code::Invalid => "invalid",
            Code::Refused => "refused",
            Code::Stopped => "stopped",
            Code::Io => "io",
            Code::Incomplete => "incomplete",
        };
        let made = Error::new_err(error.to_string());
        let named = Python::attach(|py| made.value(py).setattr("code", code));
        named.err().unwrap_or(made)
    }
}
