//! The Python package of alphorn: bytes and arrays in and out, with the interpreter lock released during computation.
//!
//! This is `alphorn._native`, which takes and gives bytes; arrays are made of them in `alphorn/`, in
//! Python. What computes runs detached from the interpreter.
#![forbid(unsafe_code)]

mod broadcast;
mod committees;
mod errors;
mod proofs;
mod watch;
mod xmss;

use alphorn_bindings::{Context, bls};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use errors::{Error, Raised};

/// Threads, kernels and the process's secret.
#[pyclass(frozen, module = "alphorn", name = "Context")]
struct PyContext(Context);

#[pymethods]
impl PyContext {
    #[new]
    #[pyo3(signature = (threads = 0))]
    fn new(threads: usize) -> Result<PyContext, Raised> {
        Ok(PyContext(Context::new(threads)?))
    }

    /// Threads in use.
    #[getter]
    fn threads(&self) -> usize {
        self.0.threads()
    }
}

type Given<'py> = Result<Bound<'py, PyBytes>, Raised>;

#[pyfunction]
fn bls_key_gen<'py>(py: Python<'py>, material: &[u8]) -> Given<'py> {
    Ok(PyBytes::new(py, &bls::key_gen(material)?))
}

#[pyfunction]
fn bls_interop_secret_key(py: Python<'_>, validator: u64) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &bls::interop_secret_key(validator))
}

#[pyfunction]
fn bls_public_key<'py>(py: Python<'py>, secret_key: &[u8]) -> Given<'py> {
    let key = bls::public_key(secret_key).map_err(alphorn_bindings::Error::from)?;
    Ok(PyBytes::new(py, &key))
}

#[pyfunction]
fn bls_sign<'py>(py: Python<'py>, secret_key: &[u8], message: &[u8]) -> Given<'py> {
    let made = py.detach(|| bls::sign(secret_key, message));
    Ok(PyBytes::new(
        py,
        &made.map_err(alphorn_bindings::Error::from)?,
    ))
}

#[pyfunction]
fn bls_verify(py: Python<'_>, public_key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    py.detach(|| bls::verify(public_key, message, signature))
}

#[pyfunction]
fn bls_pop_prove<'py>(py: Python<'py>, secret_key: &[u8]) -> Given<'py> {
    let made = py.detach(|| bls::pop_prove(secret_key));
    Ok(PyBytes::new(
        py,
        &made.map_err(alphorn_bindings::Error::from)?,
    ))
}

#[pyfunction]
fn bls_pop_verify(py: Python<'_>, public_key: &[u8], proof: &[u8]) -> bool {
    py.detach(|| bls::pop_verify(public_key, proof))
}

#[pyfunction]
fn bls_aggregate<'py>(py: Python<'py>, signatures: &[u8]) -> Given<'py> {
    let sum = py.detach(|| bls::aggregate(signatures))?;
    Ok(PyBytes::new(py, &sum))
}

/// The compiled part of the package `alphorn`.
#[pymodule(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<PyContext>()?;
    module.add_function(wrap_pyfunction!(bls_key_gen, module)?)?;
    module.add_function(wrap_pyfunction!(bls_interop_secret_key, module)?)?;
    module.add_function(wrap_pyfunction!(bls_public_key, module)?)?;
    module.add_function(wrap_pyfunction!(bls_sign, module)?)?;
    module.add_function(wrap_pyfunction!(bls_verify, module)?)?;
    module.add_function(wrap_pyfunction!(bls_pop_prove, module)?)?;
    module.add_function(wrap_pyfunction!(bls_pop_verify, module)?)?;
    module.add_function(wrap_pyfunction!(bls_aggregate, module)?)?;
    committees::add(module)?;
    xmss::add(module)?;
    proofs::add(module)?;
    broadcast::add(module)
}
