//! Options shared by many commands.

use alphorn_exec::{Backend, Kernels};

use anyhow::{Context, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;

use crate::distinct::distinct;
use crate::error::Result;
use crate::levels::levels;
use crate::machine::{Machine, cores};
use crate::report::{Sink, json_target};

/// Maximum number of threads: more than any host has, so a stray zero is caught.
const THREADS_MAX: usize = 1024;

/// Where the figures of a command go.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Json {
    /// Write the results as one JSON object, - for standard output
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(json_target))]
    json: Option<PathBuf>,
}

impl Json {
    /// Returns the destination of the JSON object.
    pub fn sink(&self) -> Sink {
        Sink::new(self.json.clone())
    }
}

/// How a command computes.
#[derive(clap::Args, Clone, Debug)]
pub struct Compute {
    /// Number of threads (default: all cores available to this process)
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Kernel: auto, portable, avx2, avx512dq or avx512, for all crates or for one, such as bls=portable;
    /// BLS benchmarks take a list, such as portable,avx512
    #[arg(long, value_name = "LEVEL", default_value = "auto")]
    kernel: String,
}

impl Compute {
    /// Returns the number of threads.
    pub fn threads(&self) -> Result<usize> {
        match self.threads {
            None => Ok(cores()),
            Some(n @ 1..=THREADS_MAX) => Ok(n),
            Some(n) => Err(anyhow::anyhow!("--threads {n}: allowed are 1 to {THREADS_MAX}").into()),
        }
    }

    /// Returns the requested kernel of a crate; for `auto`, the fastest one here by measurement.
    ///
    /// # Errors
    /// A list of several is a usage error here.
    pub fn kernel(&self, kernels: &Kernels) -> Result<Backend> {
        match self.kernels(kernels)?[..] {
            [kernel] => Ok(kernel),
            _ => Err(anyhow::anyhow!("--kernel {}: one kernel is used here", self.kernel).into()),
        }
    }

    /// Returns the kernels of a list, in order.
    fn kernels(&self, of: &Kernels) -> Result<Vec<Backend>> {
        let texts: Vec<String> = self.kernel.split(',').map(str::to_owned).collect();
        let kernels = levels(of, &texts, self.threads()?)?;
        distinct("--kernel", &kernels)?;
        Ok(kernels)
    }
}

/// Options of every command that measures.
#[derive(clap::Args, Clone, Debug)]
pub struct Common {
    /// All but the seed.
    #[command(flatten)]
    plain: Plain,
    /// Seed for all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Deref for Common {
    type Target = Plain;

    fn deref(&self) -> &Plain {
        &self.plain
    }
}

/// Options of a command that computes and draws nothing, or nothing that a seed may say.
#[derive(clap::Args, Clone, Debug)]
pub struct Plain {
    /// Threads and kernel.
    #[command(flatten)]
    pub compute: Compute,
    #[command(flatten)]
    json: Json,
}

impl Plain {
    /// Returns the destination of the JSON object.
    pub fn sink(&self) -> Sink {
        self.json.sink()
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> Result<usize> {
        self.compute.threads()
    }

    /// Creates a pool with that many threads.
    pub fn pool(&self) -> Result<rayon::ThreadPool> {
        pool(self.threads()?)
    }

    /// Returns the requested kernel of a crate; for `auto`, the fastest one here by measurement.
    ///
    /// # Errors
    /// A list of several is a usage error here.
    pub fn kernel(&self, kernels: &Kernels) -> Result<Backend> {
        self.compute.kernel(kernels)
    }

    /// Like `kernel`, for one of several crates; `--kernel CRATE=LEVEL` may name another one.
    ///
    /// # Errors
    /// A list of several is a usage error here.
    pub(crate) fn kernel_of(&self, kernels: &Kernels) -> Result<Backend> {
        self.for_crate(kernels.of).kernel(kernels)
    }

    /// Rejects a kernel option where no kernel is used.
    ///
    /// # Errors
    /// If a kernel was requested.
    pub(crate) fn check_no_kernel(&self, why: &str) -> Result<()> {
        match self.compute.kernel.as_str() {
            "auto" => Ok(()),
            kernel => Err(anyhow::anyhow!("--kernel {kernel}: {why}").into()),
        }
    }

    /// Returns the options that apply to a crate: a kernel named for another crate leaves this one's
    /// choice open.
    pub fn for_crate(&self, krate: &str) -> Self {
        const CRATES: [&str; 4] = ["bls", "labrador", "rlnc", "stark"];
        let named = self.compute.kernel.split_once('=').map(|(named, _)| named);
        let is_other = |named: &str| named != krate && CRATES.contains(&named);
        let kernel = match named.is_some_and(is_other) {
            true => "auto".to_owned(),
            false => self.compute.kernel.clone(),
        };
        let threads = self.compute.threads;
        Plain {
            compute: Compute { threads, kernel },
            ..self.clone()
        }
    }

    /// Returns the kernels of a list, in order.
    pub fn kernels(&self, of: &Kernels) -> Result<Vec<Backend>> {
        self.compute.kernels(of)
    }

    /// Describes this host with the kernel in use.
    pub fn machine(&self, kernel: Backend) -> Result<Machine> {
        self.machine_of(&[kernel])
    }

    /// Describes this host for a command that uses no kernel.
    ///
    /// # Errors
    /// If a kernel was requested.
    pub fn machine_without_kernels(&self) -> Result<Machine> {
        self.check_no_kernel("no kernel is used here")?;
        Ok(Machine::here(self.threads()?, BTreeMap::new()))
    }

    /// Describes this host with the kernels in use.
    pub fn machine_of(&self, kernels: &[Backend]) -> Result<Machine> {
        let threads = self.threads()?;
        Ok(Machine::with(threads, &alphorn_bls::KERNELS, kernels))
    }
}

/// Creates a pool of `threads` threads.
pub fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    Ok(rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .with_context(|| format!("cannot start {threads} threads"))?)
}

/// Rejects options that were given without the option `of` that uses them.
pub(crate) fn check_unused(of: &str, given: &[(&str, bool)]) -> Result<()> {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(anyhow::anyhow!("{option} is of --{of}").into()),
        None => Ok(()),
    }
}

/// Parses a finite number.
pub(crate) fn finite(text: &str) -> std::result::Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| "a finite number, as 8000 or 1e-6".into())
}

/// Parses a number of validators such as `1048576`, `1_048_576`, `1,048,576` or `2^20`.
pub fn validators(text: &str) -> std::result::Result<u32, String> {
    const MAX: u32 = alphorn_types::VALIDATORS_MAX;
    let number = if let Some(power) = text.strip_prefix("2^") {
        power
            .parse::<u32>()
            .ok()
            .and_then(|power| 1u32.checked_shl(power))
    } else {
        let groups: Vec<&str> = text.split(['_', ',']).collect();
        let thousands = groups.iter().skip(1).all(|group| group.len() == 3);
        let number = groups.concat().parse::<u32>().ok();
        number.filter(|_| thousands && !groups[0].is_empty())
    };
    match number {
        Some(n) if (1..=MAX).contains(&n) => Ok(n),
        _ => Err(format!(
            "a number of validators from 1 to {MAX}, as 1048576 or 2^20"
        )),
    }
}

/// Parses a share such as 0.95 or 95%.
pub fn share(text: &str) -> anyhow::Result<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|value| value / 100.0),
        None => text.parse::<f64>(),
    };
    match value {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => bail!("{text:?} is no share from 0 to 1 (or 0% to 100%)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        assert_eq!(validators("2^20"), Ok(1 << 20));
        assert_eq!(validators("1,048,576"), Ok(1 << 20));
        assert_eq!(validators("1_000"), Ok(1000));
        for no_number in ["1,,2", "_5_", ",100", "1_00", ""] {
            assert!(validators(no_number).is_err(), "{no_number}");
        }
        for wrong in ["0", "2^23", "2^99", "-1", "", "4194305", "many"] {
            assert!(
                validators(wrong).unwrap_err().contains("4194304"),
                "{wrong}"
            );
        }
        assert_eq!(share("95%").unwrap(), 0.95);
        assert_eq!(share("0.5").unwrap(), 0.5);
        for wrong in ["1.5", "-0.1", "101%", "NaN", "half"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_have_nothing_twice() {
        distinct("--n", &[1, 2, 3]).unwrap();
        distinct::<u8>("--n", &[]).unwrap();
        let error = distinct("--n", &[0.5, 1.0, 0.5]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--n: entry 3 of the list is entry 1 once more"
        );
    }

    #[test]
    fn benches_take_a_list_of_kernels() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            common: Common,
        }
        let common = |kernel: &str| {
            <Cli as clap::Parser>::try_parse_from(["bench", "--kernel", kernel])
                .unwrap()
                .common
        };
        assert!(common("portable").kernel(&alphorn_bls::KERNELS).is_ok());
        assert!(common("bls=portable").kernel(&alphorn_bls::KERNELS).is_ok());
        let named = common("stark=portable");
        assert!(named.kernel_of(&alphorn_bls::KERNELS).is_ok());
        let stark = named.kernel_of(&alphorn_stark::KERNELS).unwrap();
        assert_eq!(stark, Backend::Portable);
        assert!(
            common("park=portable")
                .kernel_of(&alphorn_bls::KERNELS)
                .is_err()
        );
        assert!(
            named.machine_without_kernels().is_err()
                && common("auto").machine_without_kernels().is_ok()
        );
        let other = common("stark=avx2")
            .kernel(&alphorn_bls::KERNELS)
            .unwrap_err();
        assert!(other.to_string().contains("\"stark\""), "{other}");
        let every: Vec<&str> = alphorn_bls::KERNELS
            .available()
            .iter()
            .map(|b| b.name())
            .collect();
        let kernels = common(&every.join(","))
            .kernels(&alphorn_bls::KERNELS)
            .unwrap();
        assert_eq!(kernels, alphorn_bls::KERNELS.available());
        assert_eq!(
            common("auto").kernels(&alphorn_bls::KERNELS).unwrap().len(),
            1
        );
        for wrong in ["portable,portable", "portable,", ",", "portable,sse9"] {
            assert!(
                common(wrong).kernels(&alphorn_bls::KERNELS).is_err(),
                "{wrong}"
            );
        }
        assert!(
            common("portable,avx512")
                .kernel(&alphorn_bls::KERNELS)
                .is_err(),
            "one kernel is used"
        );
    }
}
