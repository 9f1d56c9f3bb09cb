//! Kernel times in a file of the cache folder, by processor, build, crate and threads.

use crate::machine;
use alphorn_exec::{Backend, Kernels};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the times depend on in addition to the crate and the threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Of {
    cpu: String,
    features: String,
    cores: usize,
    commit: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Remembered {
    of: Of,
    /// Nanoseconds by `CRATE/THREADS` and level.
    times_ns: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Maximum size of the file: ten times what four crates need.
const BYTES_MAX: u64 = 1 << 16;

fn here() -> Option<Of> {
    let commit = machine::commit();
    // A build without a clean commit may have different kernels from the last one of that name.
    if commit == "unknown" || commit.ends_with("-dirty") {
        return None;
    }
    let machine = machine::Machine::here(1, BTreeMap::new());
    Some(Of {
        cpu: machine.cpu,
        features: machine.features.join(" "),
        cores: machine.cores,
        commit: commit.to_owned(),
    })
}

fn file(folder: &Path) -> PathBuf {
    folder.join("kernels.json")
}

fn name(kernels: &Kernels, threads: usize) -> String {
    format!("{}/{threads}", kernels.of)
}

fn read(folder: &Path, of: &Of) -> Option<Remembered> {
    let file = file(folder);
    let len = std::fs::metadata(&file).ok()?.len();
    let text = (len <= BYTES_MAX).then(|| std::fs::read(&file).ok())??;
    let remembered: Remembered = serde_json::from_slice(&text).ok()?;
    (remembered.of == *of).then_some(remembered)
}

/// Loads remembered times, if they are from this processor and build and cover every kernel that can
/// run here.
pub(super) fn load(
    folder: &Path,
    kernels: &Kernels,
    threads: usize,
) -> Option<Vec<(Backend, Duration)>> {
    load_of(folder, kernels, threads, &here()?)
}

fn load_of(
    folder: &Path,
    kernels: &Kernels,
    threads: usize,
    of: &Of,
) -> Option<Vec<(Backend, Duration)>> {
    let remembered = read(folder, of)?;
    let times = remembered.times_ns.get(&name(kernels, threads))?;
    let time = |backend: Backend| {
        let ns = times.get(backend.name())?;
        let time = Duration::try_from_secs_f64(ns * 1e-9).ok()?;
        Some((backend, time))
    };
    kernels.available().into_iter().map(time).collect()
}

/// Stores times. If the folder cannot be written, the next run measures again, and nothing worse happens.
pub(super) fn store(
    folder: &Path,
    kernels: &Kernels,
    threads: usize,
    times: &[(Backend, Duration)],
) {
    if let Some(of) = here() {
        store_of(folder, kernels, threads, times, of);
    }
}

fn store_of(
    folder: &Path,
    kernels: &Kernels,
    threads: usize,
    times: &[(Backend, Duration)],
    of: Of,
) {
    let mut remembered = read(folder, &of).unwrap_or_else(|| Remembered {
        of,
        times_ns: BTreeMap::new(),
    });
    let ns = |(backend, time): &(Backend, Duration)| {
        (backend.name().to_owned(), time.as_secs_f64() * 1e9)
    };
    let times = times.iter().map(ns).collect();
    remembered.times_ns.insert(name(kernels, threads), times);
    let Ok(text) = serde_json::to_vec_pretty(&remembered) else {
        return;
    };
    // Written to a temporary file first, so that two processes leave one complete file or the other.
    let part = folder.join(format!("kernels.json.{}", std::process::id()));
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&part, text))
        .and_then(|()| std::fs::rename(&part, file(folder)));
    if written.is_err() {
        let _gone = std::fs::remove_file(&part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_remembered_by_processor_build_crate_and_threads() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, kernels) = (folder.path().join("new"), &alphorn_bls::KERNELS);
        let of = Of {
            cpu: "one".into(),
            features: "avx2".into(),
            cores: 2,
            commit: "abc".into(),
        };
        let times: Vec<(Backend, Duration)> = (kernels.available().into_iter())
            .zip(1..)
            .map(|(backend, i)| (backend, Duration::from_nanos(100 * i)))
            .collect();
        assert_eq!(load_of(&folder, kernels, 2, &of), None);
        store_of(&folder, kernels, 2, &times, of.clone());
        store_of(&folder, &alphorn_stark::KERNELS, 2, &[], of.clone());
        assert_eq!(load_of(&folder, kernels, 2, &of), Some(times.clone()));
        assert_eq!(load_of(&folder, kernels, 1, &of), None);
        // A kernel that is not listed is measured.
        assert_eq!(load_of(&folder, &alphorn_stark::KERNELS, 2, &of), None);
        let other = Of {
            commit: "abd".into(),
            ..of.clone()
        };
        assert_eq!(load_of(&folder, kernels, 2, &other), None);
        // Entries of another build are replaced.
        store_of(&folder, kernels, 1, &times, other.clone());
        assert_eq!(load_of(&folder, kernels, 2, &of), None);
        assert_eq!(load_of(&folder, kernels, 1, &other), Some(times));
        std::fs::write(file(&folder), b"{ not json").unwrap();
        assert_eq!(load_of(&folder, kernels, 1, &other), None);
    }
}
