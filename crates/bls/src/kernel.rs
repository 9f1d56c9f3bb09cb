//! Which implementation of the bulk sums runs: a witness that the processor can run it.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

use crate::sums::Costs;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512Witness),
}

/// Only [`Backend::avx512`] makes one, after it has found the instructions.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Avx512Witness(());

/// A kernel for bulk point arithmetic that this processor can run.
///
/// A value can only be made by a constructor that has checked the processor, so it is the proof
/// that the kernel's instructions exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backend(Level);

/// A kernel name that is unknown, or whose instructions this processor lacks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackendError {
    /// No kernel of this crate has that name.
    #[error("no BLS kernel is named {name:?}: expected `portable` or `avx512`")]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// The processor lacks instructions of this kernel.
    #[error("this processor cannot run the BLS kernel `{name}`")]
    Unavailable {
        /// The kernel that was asked for.
        name: &'static str,
    },
}

impl Backend {
    /// Scalar arithmetic of blst: runs everywhere, and is the oracle of the other kernels.
    pub fn portable() -> Backend {
        Backend(Level::Portable)
    }

    /// Sixteen lanes of 52-bit limbs, where the processor and the operating system offer AVX-512
    /// with IFMA.
    pub fn avx512() -> Option<Backend> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512ifma")
        {
            return Some(Backend(Level::Avx512(Avx512Witness(()))));
        }
        None
    }

    /// All kernels that this processor can run, the portable one first.
    pub fn available() -> Vec<Backend> {
        [Some(Backend::portable()), Backend::avx512()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// The kernel that adds points fastest on this machine, by a measurement of at most 20 ms each.
    ///
    /// For programs that embed this crate; nothing in it measures by itself.
    pub fn measured() -> Backend {
        let timed = Backend::available()
            .into_iter()
            .map(|b| (Costs::measure(b).add_ns, b));
        let fastest = timed.reduce(|a, b| if b.0 < a.0 { b } else { a });
        fastest.map_or_else(Backend::portable, |(_, backend)| backend)
    }

    pub(crate) fn level(self) -> Level {
        self.0
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(_) => "avx512",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "portable" => Ok(Backend::portable()),
            "avx512" => Backend::avx512().ok_or(BackendError::Unavailable { name: "avx512" }),
            _ => Err(BackendError::Unknown {
                name: name.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// Where the processor cannot run the kernel, a line for each test that leaves it out, which a
    /// test that passes shows too: what the harness captures, nobody counts.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn witness() -> Option<Avx512Witness> {
        match Backend::avx512().map(Backend::level) {
            Some(Level::Avx512(witness)) => Some(witness),
            _ => {
                let test = std::thread::current();
                let test = test.name().unwrap_or("a test").to_owned();
                let told = writeln!(
                    std::io::stderr(),
                    "bls: {test} leaves out the kernel avx512: no avx512ifma here"
                );
                told.expect("standard error is open");
                None
            }
        }
    }

    #[test]
    fn kernels_under_test_are_named() {
        let names: Vec<&str> = Backend::available()
            .into_iter()
            .map(Backend::name)
            .collect();
        let told = writeln!(
            std::io::stderr(),
            "bls: kernels under test: {}",
            names.join(", ")
        );
        told.expect("standard error is open");
        assert_eq!(names[0], "portable");
        assert_eq!(names.contains(&"avx512"), Backend::avx512().is_some());
    }

    #[test]
    fn names_make_the_kernels_that_are_available() {
        for backend in Backend::available() {
            assert_eq!(backend.name().parse(), Ok(backend));
        }
        assert!(Backend::available().contains(&Backend::measured()));
        let error = "avx1024"
            .parse::<Backend>()
            .expect_err("there is no such kernel");
        assert!(error.to_string().contains("avx1024"));
        if Backend::avx512().is_none() {
            let error = "avx512".parse::<Backend>();
            assert_eq!(error, Err(BackendError::Unavailable { name: "avx512" }));
        }
    }
}
