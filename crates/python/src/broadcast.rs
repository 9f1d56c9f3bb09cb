//! Coded broadcast.

use std::sync::{Mutex, MutexGuard, PoisonError};

use alphorn_bindings::broadcast::{Broadcast, Subject, strategy_of};
use alphorn_bindings::{Code, Error};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Raised;
use crate::{Given, PyContext};

#[pyclass(frozen, module = "alphorn._native", name = "Broadcast")]
struct PyBroadcast(Mutex<Broadcast>);

impl PyBroadcast {
    fn lock(&self) -> MutexGuard<'_, Broadcast> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyBroadcast {
    #[staticmethod]
    fn publish(
        py: Python<'_>,
        context: &Bound<'_, PyContext>,
        code: &str,
        subject: (u8, u64, u32, u32),
        payload: &[u8],
    ) -> Result<PyBroadcast, Raised> {
        let context = context.get();
        let strategy = match code {
            "rlnc" => strategy_of(1)?,
            "reed-solomon" => strategy_of(2)?,
            _ => {
                let message = format!("code {code:?}, must be rlnc or reed-solomon");
                return Err(Error::new(Code::Argument, message).into());
            }
        };
        let (kind, slot, source, index) = subject;
        let subject = Subject {
            kind,
            slot,
            source,
            index,
        };
        let made = py.detach(|| Broadcast::publish(&context.0, strategy, subject, payload));
        Ok(PyBroadcast(Mutex::new(made?)))
    }

    #[staticmethod]
    fn receive(
        py: Python<'_>,
        context: &Bound<'_, PyContext>,
        header: &[u8],
        payload_bytes_max: u32,
    ) -> Result<PyBroadcast, Raised> {
        let context = context.get();
        let made = py.detach(|| Broadcast::receive(&context.0, header, payload_bytes_max));
        Ok(PyBroadcast(Mutex::new(made?)))
    }

    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.lock().header()))
    }

    fn signing_root<'py>(&self, py: Python<'py>, network: [u8; 32]) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.lock().signing_root(&network)))
    }

    #[getter]
    fn commitment_lists(&self, py: Python<'_>) -> u16 {
        py.detach(|| self.lock().commitment_lists())
    }

    fn commitments<'py>(&self, py: Python<'py>, generation: u16) -> Given<'py> {
        let commitments = py.detach(|| self.lock().commitments(generation))?;
        Ok(PyBytes::new(py, &commitments))
    }

    fn add_commitments(
        &self,
        py: Python<'_>,
        generation: u16,
        commitments: &[u8],
    ) -> Result<(), Raised> {
        Ok(py.detach(|| self.lock().add_commitments(generation, commitments))?)
    }

    #[getter]
    fn selectors(&self, py: Python<'_>) -> u16 {
        py.detach(|| self.lock().selectors())
    }

    fn piece<'py>(&self, py: Python<'py>, selector: u16) -> Given<'py> {
        let piece = py.detach(|| self.lock().piece(selector))?;
        Ok(PyBytes::new(py, &piece))
    }

    fn add(&self, py: Python<'_>, piece: &[u8]) -> Result<bool, Raised> {
        Ok(py.detach(|| self.lock().add(piece))?)
    }

    #[getter]
    fn is_full(&self, py: Python<'_>) -> bool {
        py.detach(|| self.lock().is_full())
    }

    fn payload<'py>(&self, py: Python<'py>) -> Given<'py> {
        let payload = py.detach(|| self.lock().payload())?;
        Ok(PyBytes::new(py, &payload))
    }
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyBroadcast>()
}
