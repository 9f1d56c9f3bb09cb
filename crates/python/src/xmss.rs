//! One-time keys, marks and permits.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use alphorn_bindings::xmss::{self, Key, Marks, Permit, Purpose, Set, Vote};
use alphorn_bindings::{Code, Error};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Raised;
use crate::{Given, PyContext};

/// The set of a name.
pub(crate) fn set_named(name: &str) -> Result<Set, Error> {
    let found = Set::ALL.into_iter().find(|set| set.name() == name);
    found.ok_or_else(|| {
        let message = format!("set {name:?}, must be prod, test or compact");
        Error::new(Code::Argument, message)
    })
}

fn purpose_of(duties: bool) -> Purpose {
    match duties {
        true => Purpose::Duty,
        false => Purpose::Vote,
    }
}

#[pyclass(frozen, module = "alphorn._native", name = "Key")]
struct PyKey(Key);

#[pymethods]
impl PyKey {
    #[staticmethod]
    fn generate(
        py: Python<'_>,
        context: &Bound<'_, PyContext>,
        set: &str,
        duties: bool,
        seed: &[u8],
        active: (u64, u64),
    ) -> Result<PyKey, Raised> {
        let (context, set) = (context.get(), set_named(set)?);
        let active = active.0..active.1;
        let made =
            py.detach(|| Key::generate(&context.0, set, purpose_of(duties), seed, active, None));
        Ok(PyKey(made?))
    }

    #[staticmethod]
    fn interop(
        py: Python<'_>,
        context: &Bound<'_, PyContext>,
        set: &str,
        duties: bool,
        validator: u32,
        active: (u64, u64),
    ) -> Result<PyKey, Raised> {
        let (context, set) = (context.get(), set_named(set)?);
        let active = active.0..active.1;
        let made =
            py.detach(|| Key::interop(&context.0, set, purpose_of(duties), validator, active));
        Ok(PyKey(made?))
    }

    #[staticmethod]
    fn from_files(
        py: Python<'_>,
        context: &Bound<'_, PyContext>,
        secret: &[u8],
        tree: &[u8],
    ) -> Result<PyKey, Raised> {
        let context = context.get();
        Ok(PyKey(
            py.detach(|| Key::from_files(&context.0, secret, tree))?,
        ))
    }

    fn secret_file<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.secret_file())
    }

    fn tree_file<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.tree_file())
    }

    #[getter]
    fn public_key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.public_key())
    }

    #[getter]
    fn set(&self) -> &'static str {
        self.0.set().name()
    }

    #[getter]
    fn slots(&self) -> (u64, u64) {
        let slots = self.0.slots();
        (slots.start, slots.end)
    }

    fn sign<'py>(&self, py: Python<'py>, permit: &Bound<'_, PyPermit>) -> Given<'py> {
        let permit = permit.get().take()?;
        let signature = py.detach(|| self.0.sign(permit))?;
        Ok(PyBytes::new(py, &signature))
    }
}

#[pyclass(frozen, module = "alphorn._native", name = "Permit")]
struct PyPermit(Mutex<Option<Permit>>);

impl PyPermit {
    /// The permit, which is there once.
    fn take(&self) -> Result<Permit, Error> {
        let mut permit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        permit
            .take()
            .ok_or_else(|| Error::new(Code::Refused, "the permit was used"))
    }
}

/// None once they are closed.
#[pyclass(frozen, module = "alphorn._native", name = "Marks")]
struct PyMarks(Mutex<Option<Marks>>);

impl PyMarks {
    fn of(marks: Marks) -> PyMarks {
        PyMarks(Mutex::new(Some(marks)))
    }

    fn with<T>(&self, f: impl FnOnce(&Marks) -> Result<T, Error>) -> Result<T, Error> {
        let marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let marks = marks.as_ref();
        f(marks.ok_or_else(|| Error::new(Code::Refused, "the marks are closed"))?)
    }
}

#[pymethods]
impl PyMarks {
    #[staticmethod]
    fn create(
        path: PathBuf,
        state: Option<PathBuf>,
        key: &Bound<'_, PyKey>,
        floor: u64,
    ) -> Result<PyMarks, Raised> {
        let made = Marks::create(&path, state.as_deref(), &key.get().0, floor)?;
        Ok(PyMarks::of(made))
    }

    #[staticmethod]
    fn open(
        path: PathBuf,
        state: Option<PathBuf>,
        key: &Bound<'_, PyKey>,
    ) -> Result<PyMarks, Raised> {
        let opened = Marks::open(&path, state.as_deref(), &key.get().0)?;
        Ok(PyMarks::of(opened))
    }

    fn reserve(
        &self,
        py: Python<'_>,
        slot: u64,
        role: u8,
        message: &[u8],
    ) -> Result<PyPermit, Raised> {
        let permit = py.detach(|| self.with(|marks| marks.reserve(slot, role, message)))?;
        Ok(PyPermit(Mutex::new(Some(permit))))
    }

    fn slot_next(&self, py: Python<'_>, role: u8) -> Result<u64, Raised> {
        Ok(py.detach(|| self.with(|marks| marks.slot_next(role)))?)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

#[pyfunction]
fn xmss_sizes(set: &str) -> Result<(usize, usize), Raised> {
    let set = set_named(set)?;
    Ok((xmss::public_key_bytes(set), xmss::signature_bytes(set)))
}

/// One byte for each, 1 if it holds. Keys, messages and signatures stand one after the other.
#[pyfunction]
fn xmss_verify<'py>(
    py: Python<'py>,
    context: &Bound<'_, PyContext>,
    set: &str,
    keys: &[u8],
    indices: Vec<u32>,
    messages: &[u8],
    signatures: &[u8],
) -> Given<'py> {
    let (context, set) = (context.get(), set_named(set)?);
    let (key, signature) = (xmss::public_key_bytes(set), xmss::signature_bytes(set));
    let count = indices.len();
    let given = [
        ("keys", keys.len(), key),
        ("messages", messages.len(), xmss::MESSAGE_BYTES),
        ("signatures", signatures.len(), signature),
    ];
    if let Some((what, got, size)) = given
        .into_iter()
        .find(|(_, got, size)| *got != count * size)
    {
        let message = format!(
            "{what} of {got} bytes for {count} indices, must be {}",
            count * size
        );
        return Err(Error::new(Code::Argument, message).into());
    }
    let found = py.detach(|| {
        let keys = keys
            .chunks_exact(key)
            .zip(messages.chunks_exact(xmss::MESSAGE_BYTES));
        let rest = signatures.chunks_exact(signature).zip(indices);
        let votes = keys.zip(rest);
        let votes: Vec<Vote<'_>> = votes
            .map(|((public_key, message), (signature, index))| Vote {
                public_key,
                index,
                message,
                signature,
            })
            .collect();
        xmss::verify(&context.0, set, &votes)
    });
    let found: Vec<u8> = found.into_iter().map(u8::from).collect();
    Ok(PyBytes::new(py, &found))
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyKey>()?;
    module.add_class::<PyPermit>()?;
    module.add_class::<PyMarks>()?;
    module.add_function(wrap_pyfunction!(xmss_sizes, module)?)?;
    module.add_function(wrap_pyfunction!(xmss_verify, module)?)
}
