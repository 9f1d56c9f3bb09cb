//! Saves the inputs of jobs whose result failed its own verification, for debugging. A task that
//! uses secrets has no bytes, so no file contains any.

use crate::config::FaultFiles;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

/// File name extension.
const ENDING: &str = "fault";

impl FaultFiles {
    /// Writes the bytes of a task to a new file and removes the oldest files beyond the bounds.
    /// False if they alone exceed them.
    pub(crate) fn keep(&self, kind: u16, task: &[u8]) -> io::Result<bool> {
        let bytes = task.len() as u64;
        if self.files_max == 0 || bytes > self.bytes_max {
            return Ok(false);
        }
        fs::create_dir_all(&self.folder)?;
        let mut files = self.files()?;
        let mut kept: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        // Stops before the list is empty, since the new file alone is within both bounds.
        while files.len() >= self.files_max || kept.saturating_add(bytes) > self.bytes_max {
            let (oldest, bytes) = files.remove(0);
            fs::remove_file(oldest)?;
            kept = kept.saturating_sub(bytes);
        }
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let time_ns = time.map_or(0, |time| time.as_nanos());
        // Names sort by age.
        let name = format!("{time_ns:024}-{kind}.{ENDING}");
        fs::write(self.folder.join(name), task)?;
        Ok(true)
    }

    /// The existing files and their sizes, oldest first.
    fn files(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                let bytes = fs::metadata(&path)?.len();
                files.push((path, bytes));
            }
        }
        files.sort();
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_bytes_are_bounded_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let faults = FaultFiles {
            files_max: 3,
            bytes_max: 100,
            ..FaultFiles::new(folder.path().join("faults"))
        };
        let held = |faults: &FaultFiles| -> Vec<u8> {
            let files = faults.files().expect("readable");
            let firsts = files
                .iter()
                .map(|(path, _)| fs::read(path).expect("there")[0]);
            firsts.collect()
        };
        for first in 1..=5 {
            assert!(faults.keep(7, &[first; 10]).expect("written"));
        }
        assert_eq!(held(&faults), [3, 4, 5]);
        assert!(faults.keep(7, &[6; 85]).expect("written"));
        assert_eq!(held(&faults), [5, 6]);
        assert!(!faults.keep(7, &[7; 101]).expect("too long"));
        assert_eq!(held(&faults), [5, 6]);
    }
}
