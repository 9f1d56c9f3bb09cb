//! How long a disk takes to make a write durable: a node signs nothing before that.

use crate::error::Result;
use crate::text;
use anyhow::Context;
use serde::Serialize;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of timed writes.
const WRITES: usize = 50;
/// Pause between two writes, so that the disk is used as a node uses it, without measuring its throughput.
const REST: Duration = Duration::from_millis(20);
/// A write: one page of the store of marks.
const PAGE: [u8; 4_096] = [0xa5; 4_096];

/// How long a written page takes to be durable.
#[derive(Serialize)]
pub(super) struct DiskLag {
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl DiskLag {
    /// Measures with a temporary file in a folder.
    pub(super) fn measure(folder: &Path) -> Result<Self> {
        let measure = || -> std::io::Result<Vec<f64>> {
            let mut file = tempfile::tempfile_in(folder)?;
            let mut times_ms = Vec::with_capacity(WRITES);
            for _ in 0..WRITES {
                std::thread::sleep(REST);
                let began = Instant::now();
                file.seek(SeekFrom::Start(0))?;
                file.write_all(&PAGE)?;
                file.sync_data()?;
                times_ms.push(began.elapsed().as_secs_f64() * 1e3);
            }
            Ok(times_ms)
        };
        let times = measure().with_context(|| format!("--data-dir {}", folder.display()));
        let mut times = times?;
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((WRITES - 1) as f64 * share) as usize];
        Ok(DiskLag {
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        })
    }

    /// Formats the row for the table.
    pub(super) fn row(&self) -> Vec<String> {
        let DiskLag {
            p50_ms,
            p99_ms,
            max_ms,
        } = self;
        let times = format!("{p50_ms:.1} / {p99_ms:.1} / {max_ms:.1} ms");
        vec!["disk remembers p50 / p99 / max".into(), times]
    }

    /// Explains why a node misses duties here, if it does.
    pub(super) fn complaint(&self, ahead_ns: u64) -> Option<String> {
        let ahead_ms = ahead_ns as f64 / 1e6;
        (self.max_ms > ahead_ms).then(|| {
            format!(
                "The disk took {}, marks have {} before their slot: a node misses duties here.",
                text::seconds(self.max_ms / 1e3),
                text::seconds(ahead_ms / 1e3)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_too_slow_is_complained_of() {
        let lag = |max_ms| DiskLag {
            p50_ms: 1.0,
            p99_ms: 2.0,
            max_ms,
        };
        assert_eq!(lag(500.0).complaint(500_000_000), None);
        let complaint = lag(501.0).complaint(500_000_000).unwrap();
        assert!(complaint.contains("misses duties"), "{complaint}");
    }

    #[test]
    fn a_disk_is_measured_and_nothing_is_left_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let lag = DiskLag::measure(folder.path()).unwrap();
        assert!(0.0 < lag.p50_ms && lag.p50_ms <= lag.p99_ms && lag.p99_ms <= lag.max_ms);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let error = DiskLag::measure(&folder.path().join("none")).err().unwrap();
        assert!(error.to_string().contains("--data-dir"), "{error}");
    }
}
