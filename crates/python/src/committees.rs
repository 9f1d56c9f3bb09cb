//! Registries, committees and collections.

use alphorn_bindings::committees::{Collection, Committees, Registry};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::Raised;
use crate::{Given, PyContext};

#[pyclass(frozen, module = "alphorn._native", name = "Registry")]
struct PyRegistry(Registry);

#[pymethods]
impl PyRegistry {
    /// With proofs of possession, or without if they were verified before.
    #[new]
    fn new(
        py: Python<'_>,
        context: &Bound<'_, PyContext>,
        keys: &[u8],
        proofs: Option<&[u8]>,
    ) -> Result<PyRegistry, Raised> {
        let context = context.get();
        let made = py.detach(|| match proofs {
            Some(proofs) => Registry::new(&context.0, keys, proofs),
            None => Registry::proven(&context.0, keys),
        });
        Ok(PyRegistry(made?))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.digest())
    }
}

#[pyclass(frozen, module = "alphorn._native", name = "Committees")]
struct PyCommittees(Committees);

/// A committee's number, signers, message and signature.
type Item = (usize, PyBackedBytes, PyBackedBytes, PyBackedBytes);

#[pymethods]
impl PyCommittees {
    #[new]
    fn new(
        py: Python<'_>,
        registry: &Bound<'_, PyRegistry>,
        members: Option<Vec<u32>>,
        sizes: Vec<usize>,
    ) -> Result<PyCommittees, Raised> {
        let registry = registry.get();
        let made = py.detach(|| Committees::new(&registry.0, members.as_deref(), &sizes));
        Ok(PyCommittees(made?))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn size(&self, committee: usize) -> Option<usize> {
        self.0.size(committee)
    }

    fn sum<'py>(&self, py: Python<'py>, committee: usize, signers: &[u8]) -> Given<'py> {
        let sum = py.detach(|| self.0.sum(committee, signers))?;
        Ok(PyBytes::new(py, &sum))
    }

    /// One byte for each.
    fn verify<'py>(&self, py: Python<'py>, items: Vec<Item>) -> Given<'py> {
        let verdicts = py.detach(|| {
            let items: Vec<Collection<'_>> = items
                .iter()
                .map(|(committee, signers, message, signature)| Collection {
                    committee: *committee,
                    signers,
                    message,
                    signature,
                })
                .collect();
            self.0.verify(&items)
        });
        let verdicts: Vec<u8> = verdicts?.into_iter().map(|found| found as u8).collect();
        Ok(PyBytes::new(py, &verdicts))
    }
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyRegistry>()?;
    module.add_class::<PyCommittees>()
}
