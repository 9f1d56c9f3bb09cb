//! Proofs that many signed, and their merges.

use alphorn_bindings::proofs::{Members, Part, preset_of};
use alphorn_bindings::{Code, Error};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::Raised;
use crate::watch::Progress;
use crate::xmss::set_named;
use crate::{Given, PyContext};

#[pyclass(frozen, module = "alphorn._native", name = "Members")]
struct PyMembers(Members);

#[pymethods]
impl PyMembers {
    #[new]
    fn new(
        py: Python<'_>,
        context: &Bound<'_, PyContext>,
        set: &str,
        preset: &str,
        keys: &[u8],
        number: u32,
    ) -> Result<PyMembers, Raised> {
        let (context, set) = (context.get(), set_named(set)?);
        let preset = match preset {
            "fast" => preset_of(1)?,
            "small" => preset_of(2)?,
            _ => {
                let message = format!("preset {preset:?}, must be fast or small");
                return Err(Error::new(Code::Argument, message).into());
            }
        };
        let made = py.detach(|| Members::new(&context.0, set, preset, keys, number));
        Ok(PyMembers(made?))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[getter]
    fn signatures_max(&self) -> usize {
        self.0.signatures_max()
    }

    #[getter]
    fn mergeable_max(&self) -> usize {
        self.0.mergeable_max()
    }

    fn prove<'py>(
        &self,
        py: Python<'py>,
        slot: u32,
        message: &[u8],
        positions: Vec<u32>,
        signatures: &[u8],
        progress: Option<Py<PyAny>>,
    ) -> Given<'py> {
        let watch = Progress::of(progress);
        let proof = py.detach(|| {
            self.0
                .prove(slot, message, &positions, signatures, Some(&watch))
        });
        Ok(PyBytes::new(py, &watch.outcome(proof)?))
    }

    fn merge<'py>(
        &self,
        py: Python<'py>,
        slot: u32,
        message: &[u8],
        parts: Vec<(PyBackedBytes, PyBackedBytes)>,
        progress: Option<Py<PyAny>>,
    ) -> Given<'py> {
        let watch = Progress::of(progress);
        let proof = py.detach(|| {
            let parts: Vec<Part<'_>> = parts
                .iter()
                .map(|(signers, proof)| Part { signers, proof })
                .collect();
            self.0.merge(slot, message, &parts, Some(&watch))
        });
        Ok(PyBytes::new(py, &watch.outcome(proof)?))
    }

    fn verify(
        &self,
        py: Python<'_>,
        slot: u32,
        message: &[u8],
        signers: &[u8],
        proof: &[u8],
    ) -> Result<(), Raised> {
        Ok(py.detach(|| self.0.verify(slot, message, signers, proof))?)
    }
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyMembers>()
}
