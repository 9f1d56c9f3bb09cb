//! The machine that a figure was measured on.

use serde::Serialize;
use std::collections::BTreeMap;

/// The commit that this binary was built from.
pub(crate) const COMMIT: &str = env!("ALPHORN_COMMIT");

/// What every measured figure is printed with.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Model name of the processor.
    pub(crate) cpu: String,
    /// Instruction sets that kernels may use.
    pub(crate) features: Vec<&'static str>,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// Threads that the command used.
    pub(crate) threads: usize,
    /// Kernel of each crate.
    pub(crate) kernels: BTreeMap<&'static str, String>,
    /// Memory of the machine in bytes, 0 if unknown.
    pub(crate) memory_bytes: u64,
    /// The commit of this binary.
    pub(crate) commit: &'static str,
}

impl Machine {
    /// This machine, with the threads and kernels of a command.
    pub(crate) fn here(threads: usize, kernels: BTreeMap<&'static str, String>) -> Self {
        Machine {
            cpu: proc_field("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.into()),
            features: features(),
            cores: cores(),
            threads,
            kernels,
            memory_bytes: kib_field("/proc/meminfo", "MemTotal"),
            commit: COMMIT,
        }
    }

    /// One line for tables: processor, threads, kernels, commit.
    pub(crate) fn line(&self) -> String {
        let kernels: Vec<String> = self
            .kernels
            .iter()
            .map(|(name, level)| format!("{name} {level}"))
            .collect();
        let threads = if self.threads == 1 {
            "1 thread".into()
        } else {
            format!("{} threads", self.threads)
        };
        format!(
            "{}, {threads}, kernels: {}, commit {}",
            self.cpu,
            kernels.join(", "),
            self.commit
        )
    }
}

/// Cores that this process may use, by affinity and control group.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Peak resident memory of this process in bytes, 0 if unknown.
pub(crate) fn peak_rss_bytes() -> u64 {
    kib_field("/proc/self/status", "VmHWM")
}

/// Lets the peak begin anew at what is resident now, where the system can (Linux: proc(5),
/// `clear_refs`); where it cannot, the peak stays that of the whole process so far.
pub(crate) fn reset_peak_rss() {
    // Nothing depends on it but how close the bound is, so a refusal is not an error.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn kib_field(path: &str, field: &str) -> u64 {
    let value = proc_field(path, field);
    let kib = value.and_then(|text| {
        text.split_whitespace()
            .next()
            .and_then(|number| number.parse::<u64>().ok())
    });
    kib.unwrap_or(0).saturating_mul(1024)
}

fn proc_field(path: &str, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .into_iter()
        .find(|(name, _)| name.trim() == field)
        .map(|(_, value)| value.trim().to_owned())
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    let all = [
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("adx", is_x86_feature_detected!("adx")),
        ("sha", is_x86_feature_detected!("sha")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512ifma", is_x86_feature_detected!("avx512ifma")),
        ("avx512vbmi2", is_x86_feature_detected!("avx512vbmi2")),
    ];
    all.into_iter()
        .filter(|(_, here)| *here)
        .map(|(name, _)| name)
        .collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn features() -> Vec<&'static str> {
    Vec::new()
}
