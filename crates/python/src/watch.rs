//! A callable of Python that hears of a computation's steps and may end it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use alphorn_bindings::Watch;
use pyo3::prelude::*;

use crate::errors::Raised;

/// The callable, and what it came to.
pub(crate) struct Progress {
    callable: Option<Py<PyAny>>,
    stopped: AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl Progress {
    pub(crate) fn of(callable: Option<Py<PyAny>>) -> Progress {
        Progress {
            callable,
            stopped: AtomicBool::new(false),
            raised: Mutex::new(None),
        }
    }

    /// The result, or what the callable raised.
    pub(crate) fn outcome<T>(
        self,
        result: Result<T, alphorn_bindings::Error>,
    ) -> Result<T, Raised> {
        let raised = self
            .raised
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        match raised {
            Some(error) => Err(error.into()),
            None => Ok(result?),
        }
    }
}

impl Watch for Progress {
    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn step(&self, name: &'static str) {
        let Some(callable) = &self.callable else {
            return;
        };
        let go_on = Python::attach(|py| -> PyResult<bool> {
            let answer = callable.call1(py, (name,))?.into_bound(py);
            Ok(answer.is_none() || answer.is_truthy()?)
        });
        if !matches!(go_on, Ok(true)) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        if let Err(error) = go_on {
            let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
            *raised = Some(error);
        }
    }
}
