//! The host that a figure was measured on.

use alphorn_exec::{Backend, Kernels};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Instant;

/// The build of the program, so that every figure can name it.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The commit, with the suffix `-dirty` if there were uncommitted changes.
    pub commit: &'static str,
    /// The compiler.
    pub compiler: &'static str,
}

/// Set once by the program: a library that embedded its commit would be recompiled for each one.
static BUILD: OnceLock<Build> = OnceLock::new();

impl Build {
    /// Registers the build of this program, before it is first queried; only the first call counts.
    pub fn say(self) {
        let _ = BUILD.set(self);
    }

    /// Returns the build of this program, with `unknown` for anything it did not register.
    pub fn here() -> Self {
        const UNKNOWN: Build = Build {
            commit: "unknown",
            compiler: "unknown",
        };
        *BUILD.get().unwrap_or(&UNKNOWN)
    }
}

/// Returns the commit that this program was built from.
pub fn commit() -> &'static str {
    Build::here().commit
}

/// The host details printed with every measured figure.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model name of the processor.
    pub cpu: String,
    /// Instruction sets that kernels may use.
    pub features: Vec<&'static str>,
    /// Cores that this process may use.
    pub cores: usize,
    /// Threads that the command used.
    pub threads: usize,
    /// Kernel of each crate.
    pub kernels: BTreeMap<&'static str, String>,
    /// Memory of the host in bytes, 0 if unknown.
    pub memory_bytes: u64,
    /// The commit of this binary.
    pub commit: &'static str,
}

impl Machine {
    /// Describes this host, with the threads and kernels of a command.
    pub fn here(threads: usize, kernels: BTreeMap<&'static str, String>) -> Self {
        Machine {
            cpu: proc_field("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.into()),
            features: features(),
            cores: cores(),
            threads,
            kernels,
            memory_bytes: kib_field("/proc/meminfo", "MemTotal"),
            commit: commit(),
        }
    }

    /// Like `here`, with these kernels of one crate.
    pub fn with(threads: usize, kernels: &Kernels, used: &[Backend]) -> Self {
        let names: Vec<&str> = used.iter().map(|kernel| kernel.name()).collect();
        Machine::here(threads, BTreeMap::from([(kernels.of, names.join(","))]))
    }

    /// Returns one line for tables: processor, threads, kernels if any are used, commit.
    pub fn line(&self) -> String {
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
        let kernels = match kernels.is_empty() {
            true => String::new(),
            false => format!(", kernels: {}", kernels.join(", ")),
        };
        format!("{}, {threads}{kernels}, commit {}", self.cpu, self.commit)
    }
}

/// Processor seconds since boot, to find out later how much other programs used.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    at: Instant,
    /// Used by all programs, and given by the hypervisor to other guests.
    all_s: f64,
    /// Used by this process and its finished children.
    own_s: f64,
    /// Mean number of programs that wanted a core, over the last minute.
    load: Option<f64>,
}

/// How much of a host other programs used while a command was measuring.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Load {
    /// Mean number of programs that wanted a core in the minute before; none if unknown.
    pub at_start: Option<f64>,
    /// Share of the processors used by others meanwhile, 0 to 1.
    pub others: f64,
}

/// Ticks per second in /proc (proc(5): `USER_HZ`, 100 on every Linux that has it).
const TICKS: f64 = 100.0;

impl Busy {
    /// Takes a reading; nothing is known where there is no /proc.
    pub fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let numbers = |text: &str| -> Vec<f64> {
            let words = text.split_whitespace();
            words.filter_map(|word| word.parse().ok()).collect()
        };
        let stat = read("/proc/stat");
        let cpu = numbers(stat.lines().next().unwrap_or_default());
        // user, nice, system; then idle and iowait, which are unused time; irq, softirq, steal.
        let all = [0, 1, 2, 5, 6, 7].map(|i| cpu.get(i).copied().unwrap_or(0.0));
        // After the name in brackets: state, then numbers; times are the 12th to the 15th.
        let own = read("/proc/self/stat");
        let own = numbers(own.rsplit(')').next().unwrap_or_default());
        let own = own.get(10..14).map_or(0.0, |times| times.iter().sum());
        Busy {
            at: Instant::now(),
            all_s: all.iter().sum::<f64>() / TICKS,
            own_s: own / TICKS,
            load: numbers(&read("/proc/loadavg")).first().copied(),
        }
    }

    /// Returns the load from other programs since then.
    pub fn since(&self) -> Load {
        let now = Busy::now();
        let others_s = (now.all_s - self.all_s) - (now.own_s - self.own_s);
        let had_s = (now.at - self.at).as_secs_f64() * cores() as f64;
        Load {
            at_start: self.load,
            others: (others_s / had_s.max(1.0 / TICKS)).clamp(0.0, 1.0),
        }
    }
}

impl Load {
    /// Returns a warning about measured times; none if hardly anything else ran.
    pub fn warning(&self) -> Option<String> {
        (self.others > 0.1).then(|| {
            format!(
                "other programs took {:.0} % of the processors meanwhile: times are upper bounds, no figures",
                self.others * 100.0
            )
        })
    }
}

/// Returns the number of cores that this process may use, by affinity and control group.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the peak resident memory of this process in bytes, 0 if unknown.
pub fn peak_rss_bytes() -> u64 {
    kib_field("/proc/self/status", "VmHWM")
}

/// Resets the peak to what is resident now, where the system supports it (Linux: proc(5),
/// `clear_refs`); elsewhere, the peak remains that of the whole process so far.
pub fn reset_peak_rss() {
    // Only the tightness of the bound depends on it, so a refusal is not an error.
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

/// Returns the instruction sets of this processor that kernels may use.
#[cfg(target_arch = "x86_64")]
pub fn features() -> Vec<&'static str> {
    let all = [
        ("bmi1", is_x86_feature_detected!("bmi1")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("adx", is_x86_feature_detected!("adx")),
        ("sha", is_x86_feature_detected!("sha")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ("avx512ifma", is_x86_feature_detected!("avx512ifma")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("avx512vbmi2", is_x86_feature_detected!("avx512vbmi2")),
    ];
    all.into_iter()
        .filter(|(_, here)| *here)
        .map(|(name, _)| name)
        .collect()
}

/// Returns the instruction sets of this processor that kernels may use.
#[cfg(not(target_arch = "x86_64"))]
pub fn features() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_take_is_told_from_what_this_process_takes() {
        let before = Busy::now();
        let start = Instant::now();
        // Busy for a while: however much that is, it counts as its own.
        while start.elapsed().as_millis() < 60 {
            std::hint::spin_loop();
        }
        let load = before.since();
        assert!((0.0..=1.0).contains(&load.others), "{load:?}");
        let quiet = Load {
            at_start: None,
            others: 0.02,
        };
        assert_eq!(quiet.warning(), None);
        let text = Load {
            others: 0.5,
            ..quiet
        }
        .warning();
        assert!(text.is_some_and(|text| text.contains("50 %")));
    }
}
