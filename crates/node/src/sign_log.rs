//! A log of every signing right that was granted, to check that none was granted twice.
//!
//! The line of a right is written before the signature is made, so the log contains at least
//! everything that was signed, even after the process was killed. It is not part of the protection
//! itself, which is [`safety`](crate::safety).

use alphorn_scheme::{Role, SignJob};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

/// Longest line of a log, in bytes: three numbers and a digest.
const LINE_BYTES_MAX: u64 = 256;

/// A log that is being written.
#[derive(Debug)]
pub struct SignLog(Lines<File>);

/// The complete lines of a file.
#[derive(Debug)]
struct Lines<F> {
    file: F,
    /// Bytes of the complete lines.
    bytes: u64,
    /// Whether something may follow them: a disk that was full for a moment accepted a part.
    is_cut: bool,
}

/// A file that can be truncated.
trait Shorten: Write {
    fn shorten(&mut self, bytes: u64) -> io::Result<()>;
}

impl Shorten for File {
    fn shorten(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

impl<F: Shorten> Lines<F> {
    /// Adds lines, all or none of them.
    fn add(&mut self, lines: &str) -> io::Result<()> {
        if self.is_cut {
            self.file.shorten(self.bytes)?;
        }
        self.is_cut = true;
        if let Err(error) = self.file.write_all(lines.as_bytes()) {
            // If this fails as well, the next call tries again before it writes.
            self.is_cut = self.file.shorten(self.bytes).is_err();
            return Err(error);
        }
        self.is_cut = false;
        self.bytes += lines.len() as u64;
        Ok(())
    }
}

/// What a right is for: slot, validator, and role number.
pub type Signed = (u64, u32, u8);

/// A log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SignLogError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is not `slot validator role message`.
    #[error("line {line} is not `slot validator role message`")]
    Malformed {
        /// Its number, from 1.
        line: u64,
    },
}

impl SignLog {
    /// Starts a log. The file must not exist yet.
    ///
    /// # Errors
    /// If the file exists or cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let options = OpenOptions::new().append(true).create_new(true).open(path);
        options.map(|file| {
            SignLog(Lines {
                file,
                bytes: 0,
                is_cut: false,
            })
        })
    }

    /// Writes the rights of a job, before it runs.
    ///
    /// # Errors
    /// If they cannot be written. The job must not run in that case.
    pub(crate) fn add(&mut self, job: &SignJob) -> io::Result<()> {
        let mut lines = String::new();
        for item in &job.items {
            let (validator, role) = (item.validator.0, item.role as u8);
            let message = item.message.iter().map(|byte| format!("{byte:02x}"));
            let message = message.collect::<String>();
            lines.push_str(&format!("{} {validator} {role} {message}\n", job.slot.0));
        }
        self.0.add(&lines)
    }
}

/// Adds the rights in a log to the count of each. The last line may be cut off, since its job did
/// not run.
///
/// # Errors
/// [`SignLogError`].
pub fn count(path: &Path, rights: &mut BTreeMap<Signed, u64>) -> Result<(), SignLogError> {
    let mut source = BufReader::new(File::open(path)?);
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let mut bounded = io::Read::take(&mut source, LINE_BYTES_MAX);
        if bounded.read_until(b'\n', &mut text)? == 0 {
            break;
        }
        if text.last() != Some(&b'\n') {
            return match (text.len() as u64) < LINE_BYTES_MAX {
                true => Ok(()),
                false => Err(SignLogError::Malformed { line }),
            };
        }
        let signed = parse(&text).ok_or(SignLogError::Malformed { line })?;
        *rights.entry(signed).or_default() += 1;
    }
    Ok(())
}

fn parse(line: &[u8]) -> Option<Signed> {
    let mut fields = std::str::from_utf8(line).ok()?.split_whitespace();
    let slot = fields.next()?.parse().ok()?;
    let validator = fields.next()?.parse().ok()?;
    let role: u8 = fields.next()?.parse().ok()?;
    let message = fields.next()?;
    let is_whole = message.len() == 64 && fields.next().is_none();
    (is_whole && Role::from_u8(role).is_some()).then_some((slot, validator, role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_scheme::SignItem;
    use alphorn_types::{Slot, Validator};

    fn job(slot: u64, validators: &[u32]) -> SignJob {
        let item = |v: &u32| SignItem {
            validator: Validator(*v),
            role: Role::Vote,
            message: [7; 32],
            guard: None,
        };
        SignJob::new(Slot(slot), validators.iter().map(item).collect())
    }

    #[test]
    fn rights_are_counted_over_all_lists_and_a_cut_line_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut rights = BTreeMap::new();
        for (name, validators) in [("a", &[1, 2][..]), ("b", &[2])] {
            let mut log = SignLog::create(&path(name)).unwrap();
            log.add(&job(5, validators)).unwrap();
            assert!(SignLog::create(&path(name)).is_err(), "it is there");
            count(&path(name), &mut rights).unwrap();
        }
        let vote = Role::Vote as u8;
        let expected = BTreeMap::from([((5, 1, vote), 1), ((5, 2, vote), 2)]);
        assert_eq!(rights, expected);
        let whole = std::fs::read(path("a")).unwrap();
        std::fs::write(path("a"), &whole[..whole.len() - 3]).unwrap();
        let mut cut = BTreeMap::new();
        count(&path("a"), &mut cut).unwrap();
        assert_eq!(cut, BTreeMap::from([((5, 1, vote), 1)]));
    }

    /// A disk with room for this many bytes, which optionally also refuses to truncate a file.
    #[derive(Default)]
    struct Disk {
        data: Vec<u8>,
        room: usize,
        is_stuck: bool,
    }

    impl Write for Disk {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            let taken = data.len().min(self.room - self.data.len());
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.data.extend_from_slice(&data[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shorten for Disk {
        fn shorten(&mut self, bytes: u64) -> io::Result<()> {
            if self.is_stuck {
                return Err(io::ErrorKind::Other.into());
            }
            self.data.truncate(bytes as usize);
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_was_full_for_a_moment_leaves_whole_lines() {
        let mut lines = Lines {
            file: Disk::default(),
            bytes: 0,
            is_cut: false,
        };
        lines.file.room = 7;
        lines.add("one\n").unwrap();
        assert!(lines.add("two\n").is_err());
        assert_eq!(lines.file.data, b"one\n");
        lines.file.is_stuck = true;
        assert!(lines.add("three\n").is_err());
        assert!(lines.add("four\n").is_err(), "nothing stands behind a part");
        assert_eq!(lines.file.data, b"one\nthr");
        (lines.file.is_stuck, lines.file.room) = (false, 99);
        lines.add("five\n").unwrap();
        assert_eq!(lines.file.data, b"one\nfive\n");
    }

    /// The same for a file.
    #[test]
    fn what_stands_behind_whole_lines_of_a_file_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = SignLog::create(&path).unwrap();
        log.add(&job(5, &[1])).unwrap();
        log.0.file.write_all(b"5 2").unwrap();
        log.0.is_cut = true;
        log.add(&job(6, &[1])).unwrap();
        let mut rights = BTreeMap::new();
        count(&path, &mut rights).unwrap();
        let vote = Role::Vote as u8;
        assert_eq!(
            rights,
            BTreeMap::from([((5, 1, vote), 1), ((6, 1, vote), 1)])
        );
    }

    #[test]
    fn what_is_no_list_is_an_error_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let good = format!("5 1 0 {}\n", "07".repeat(32));
        let long = "1".repeat(400);
        for wrong in ["\n", "5 1 0\n", "5 1 99 aa\n", "x 1 0 aa\n", long.as_str()] {
            std::fs::write(&path, format!("{good}{wrong}")).unwrap();
            let counted = count(&path, &mut BTreeMap::new());
            let named = matches!(counted, Err(SignLogError::Malformed { line: 2 }));
            assert!(named, "{wrong:?}: {counted:?}");
        }
        let missing = count(&folder.path().join("none"), &mut BTreeMap::new());
        assert!(matches!(missing, Err(SignLogError::Io(_))));
    }
}
