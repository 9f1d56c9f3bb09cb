//! The kernels of a crate, and which of them runs.

use std::time::Duration;

use thiserror::Error;

use crate::{Backend, InstructionSet};

/// The kernels that a crate has beside its portable one, and how long a typical piece of its work
/// takes on one.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// The crate, as the command line names it.
    pub of: &'static str,
    /// The instruction sets for which it has kernels, the narrowest first.
    pub sets: &'static [InstructionSet],
    /// What `measure` takes the time of.
    pub work: &'static str,
    /// The least time of one such piece over a few milliseconds of runs.
    pub measure: fn(Backend) -> Duration,
}

/// Why a name gives no [`Backend`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackendError {
    /// The crate has no such kernel.
    #[error("{of} has no kernel {name:?}: expected {expected}")]
    Unknown {
        /// The crate.
        of: &'static str,
        /// What was asked for.
        name: String,
        /// The names that there are.
        expected: String,
    },
    /// This processor lacks instructions of the kernel.
    #[error("this processor cannot run the kernel {name} of {of}: no {missing}")]
    Unavailable {
        /// The crate.
        of: &'static str,
        /// What was asked for.
        name: &'static str,
        /// What it lacks.
        missing: String,
    },
}

impl Kernels {
    /// All that this processor can run, the portable one first.
    #[must_use]
    pub fn available(&self) -> Vec<Backend> {
        let wider = self.sets.iter().filter_map(|set| set.detect());
        std::iter::once(Backend::Portable).chain(wider).collect()
    }

    /// The fastest one here, by measurements of a few milliseconds in all. A wider one is chosen if
    /// it is faster by a twentieth: wide units slow some processors down, so a draw goes to the
    /// narrower one.
    #[must_use]
    pub fn measured(&self) -> Backend {
        let timed = self
            .available()
            .into_iter()
            .map(|backend| (backend, (self.measure)(backend)));
        let fastest = timed.reduce(|best, next| match next.1.mul_f64(1.05) < best.1 {
            true => next,
            false => best,
        });
        fastest.map_or(Backend::Portable, |(backend, _)| backend)
    }

    /// The kernel of a name; `auto` is [`Kernels::measured`].
    ///
    /// # Errors
    /// [`BackendError`] for a name that is not among them, or that this processor cannot run.
    pub fn parse(&self, name: &str) -> Result<Backend, BackendError> {
        match name {
            "auto" => return Ok(self.measured()),
            "portable" => return Ok(Backend::Portable),
            _ => {}
        }
        let Some(set) = self.sets.iter().find(|set| set.name() == name) else {
            let wider = self.sets.iter().map(|set| set.name());
            let names: Vec<&str> = ["auto", "portable"].into_iter().chain(wider).collect();
            return Err(BackendError::Unknown {
                of: self.of,
                name: name.to_owned(),
                expected: names.join(", "),
            });
        };
        set.detect().ok_or_else(|| BackendError::Unavailable {
            of: self.of,
            name: set.name(),
            missing: set.needs().join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: InstructionSet = InstructionSet::Avx512Ifma;

    fn kernels(measure: fn(Backend) -> Duration) -> Kernels {
        Kernels {
            of: "test",
            sets: &[InstructionSet::Avx2, WIDE],
            work: "nothing",
            measure,
        }
    }

    #[test]
    fn names_lead_back_to_what_this_processor_can_run() {
        let kernels = kernels(|_| Duration::from_nanos(1));
        let available = kernels.available();
        for backend in &available {
            assert_eq!(kernels.parse(backend.name()), Ok(*backend));
        }
        assert_eq!(available[0], Backend::Portable);
        assert_eq!(kernels.parse("avx512").is_ok(), WIDE.detect().is_some());
        let unknown = kernels.parse("sse9").unwrap_err().to_string();
        assert!(unknown.contains("sse9") && unknown.contains("auto, portable, avx2, avx512"));
    }

    #[test]
    fn a_draw_goes_to_the_narrower_kernel_and_a_gain_to_the_wider() {
        let draw = kernels(|_| Duration::from_nanos(1000));
        assert_eq!(draw.measured(), Backend::Portable);
        assert_eq!(draw.parse("auto"), Ok(Backend::Portable));
        let gain = kernels(|backend| match backend {
            Backend::Portable => Duration::from_nanos(1000),
            Backend::Avx2(_) => Duration::from_nanos(900),
            _ => Duration::from_nanos(800),
        });
        assert_eq!(gain.available().last(), Some(&gain.measured()));
    }
}
