//! The mark of a key in a file: no slot is given out twice, also after a crash.
//!
//! A reservation is returned only when the new mark is on the disk: written beside the old one,
//! synced, renamed, folder synced. A crash before the rename leaves the old mark and no signature;
//! a crash after it may burn a slot. While a file is open, a lock beside it refuses every other
//! process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use alphorn_scheme::{Refused, Reservation, Role, VoteGuard, Watermark};
use alphorn_types::{DecodeError, Reader};
use alphorn_types::{Slot, Validator};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::durable::{seal, unseal, write_durably};
use crate::signature::PublicKey;

const MAGIC: &[u8; 4] = b"AXW1";

/// Why there is no store.
#[derive(Debug, Error)]
pub enum WatermarkError {
    /// The file system refused.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another process holds the store.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// There is a store already; it must not be replaced by an emptier one.
    #[error("{0} exists already")]
    Exists(PathBuf),
    /// The content is damaged.
    #[error("{path}: {error}; sign nothing before a floor above every signed slot is known")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: MarksError,
    },
}

/// Why bytes are no marks of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MarksError {
    /// The content does not fit its checksum.
    #[error("the checksum does not fit")]
    Checksum,
    /// The file begins otherwise.
    #[error("not a watermark file")]
    Magic,
    /// The marks belong to another key.
    #[error("the marks of another key")]
    OtherKey,
    /// A field is missing or too much.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// The mark of one role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    slot_next: u64,
    source_max: u64,
    target_max: u64,
    /// SHA-256 of the message of the last slot; zero if it is not known.
    last: [u8; 32],
}

/// The marks of all roles of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    key: [u8; 32],
    marks: [Mark; Role::ALL.len()],
}

impl Marks {
    /// The marks of a key that signs nothing below `floor`.
    pub fn new(key: &PublicKey, floor: Slot) -> Marks {
        let mark = Mark {
            slot_next: floor.0,
            ..Mark::default()
        };
        Marks {
            key: Sha256::digest(key.to_bytes()).into(),
            marks: [mark; Role::ALL.len()],
        }
    }

    /// The least slot that is free in a role.
    pub fn slot_next(&self, role: Role) -> Slot {
        Slot(self.marks[role as usize].slot_next)
    }

    /// Whether they are the marks of a key.
    pub fn belong_to(&self, key: &PublicKey) -> bool {
        self.key[..] == Sha256::digest(key.to_bytes())[..]
    }

    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.key);
        for mark in &self.marks {
            for value in [mark.slot_next, mark.source_max, mark.target_max] {
                out.extend(value.to_le_bytes());
            }
            out.extend_from_slice(&mark.last);
        }
        seal(out)
    }

    /// The marks of a file's content.
    ///
    /// # Errors
    /// [`MarksError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Marks, MarksError> {
        if !bytes.starts_with(MAGIC) {
            return Err(MarksError::Magic);
        }
        let mut reader = Reader::new(unseal(bytes).ok_or(MarksError::Checksum)?);
        reader.bytes(MAGIC.len())?;
        let key = reader.array()?;
        let mut marks = [Mark::default(); Role::ALL.len()];
        for mark in &mut marks {
            *mark = Mark {
                slot_next: reader.u64()?,
                source_max: reader.u64()?,
                target_max: reader.u64()?,
                last: reader.array()?,
            };
        }
        match reader.left() {
            0 => Ok(Marks { key, marks }),
            bytes => Err(DecodeError::Trailing { bytes }.into()),
        }
    }
}

/// A store of the marks of one key.
pub struct FileWatermark {
    path: PathBuf,
    validator: Validator,
    /// None after a write that failed: what is on the disk is not known then.
    marks: Mutex<Option<Marks>>,
    /// Held as long as the store is open.
    _lock: File,
}

impl FileWatermark {
    /// Makes the file of a key that signs nothing below `floor`; a key that is restored from a backup
    /// needs a floor above every slot it ever signed.
    ///
    /// # Errors
    /// [`WatermarkError`].
    pub fn create(
        path: &Path,
        validator: Validator,
        key: &PublicKey,
        floor: Slot,
    ) -> Result<FileWatermark, WatermarkError> {
        let lock = lock(path)?;
        if path.exists() {
            return Err(WatermarkError::Exists(path.to_owned()));
        }
        let marks = Marks::new(key, floor);
        write_durably(path, &marks.to_bytes()).map_err(|error| io_error(path, error))?;
        Ok(FileWatermark::of(path, validator, marks, lock))
    }

    /// Opens the file of a key.
    ///
    /// # Errors
    /// [`WatermarkError`].
    pub fn open(
        path: &Path,
        validator: Validator,
        key: &PublicKey,
    ) -> Result<FileWatermark, WatermarkError> {
        let lock = lock(path)?;
        let bytes = std::fs::read(path).map_err(|error| io_error(path, error))?;
        let marks = Marks::from_bytes(&bytes).and_then(|marks| match marks.belong_to(key) {
            true => Ok(marks),
            false => Err(MarksError::OtherKey),
        });
        match marks {
            Ok(marks) => Ok(FileWatermark::of(path, validator, marks, lock)),
            Err(error) => Err(WatermarkError::Damaged {
                path: path.to_owned(),
                error,
            }),
        }
    }

    fn of(path: &Path, validator: Validator, marks: Marks, lock: File) -> FileWatermark {
        FileWatermark {
            path: path.to_owned(),
            validator,
            marks: Mutex::new(Some(marks)),
            _lock: lock,
        }
    }

    /// The least slot that is free in a role; none if the store is of no use any more.
    pub fn slot_next(&self, role: Role) -> Option<Slot> {
        let marks = self.marks.lock().ok()?;
        marks.as_ref().map(|marks| marks.slot_next(role))
    }

    /// Gives out nothing any more, in no role: the key moves elsewhere. Returns the least slot above
    /// all that were given out, which is the floor of the new store.
    ///
    /// # Errors
    /// [`Refused::NotDurable`]: the file may or may not be retired.
    pub fn retire(&self) -> Result<Slot, Refused> {
        let mut known = self.marks.lock().map_err(|_| Refused::NotDurable)?;
        let mut marks = known.take().ok_or(Refused::NotDurable)?;
        let floor = marks.marks.iter().map(|mark| mark.slot_next).max();
        for mark in &mut marks.marks {
            (mark.slot_next, mark.last) = (u64::MAX, [0; 32]);
        }
        write_durably(&self.path, &marks.to_bytes()).map_err(|_| Refused::NotDurable)?;
        *known = Some(marks);
        Ok(Slot(floor.unwrap_or(u64::MAX)))
    }

    /// [`Watermark::reserve`] for a message: the last slot is given out again for the same message,
    /// since the same signature comes out.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn reserve_message(
        &self,
        role: Role,
        slot: Slot,
        message: &[u8; 32],
    ) -> Result<Reservation, Refused> {
        self.reserve_digest(role, slot, None, Sha256::digest(message).into())
    }

    /// Whether [`FileWatermark::reserve_message`] would refuse; nothing is given out.
    ///
    /// # Errors
    /// Those of [`FileWatermark::reserve_message`], except for a write that would fail.
    pub fn check_message(&self, role: Role, slot: Slot, message: &[u8; 32]) -> Result<(), Refused> {
        let known = self.marks.lock().map_err(|_| Refused::NotDurable)?;
        let marks = known.as_ref().ok_or(Refused::NotDurable)?;
        self.next(marks, role, slot, None, Sha256::digest(message).into())
            .map(|_| ())
    }

    fn reserve_digest(
        &self,
        role: Role,
        slot: Slot,
        guard: Option<VoteGuard>,
        last: [u8; 32],
    ) -> Result<Reservation, Refused> {
        let mut known = self.marks.lock().map_err(|_| Refused::NotDurable)?;
        let marks = known.as_ref().ok_or(Refused::NotDurable)?;
        if let Some(next) = self.next(marks, role, slot, guard, last)? {
            // While it is being written, the store is of no use: an error leaves it so.
            *known = None;
            write_durably(&self.path, &next.to_bytes()).map_err(|_| Refused::NotDurable)?;
            *known = Some(next);
        }
        Ok(Reservation::issue(self.validator, role, slot))
    }

    /// The marks once a slot is given out; none if they stay, since the last one is given out again.
    fn next(
        &self,
        marks: &Marks,
        role: Role,
        slot: Slot,
        guard: Option<VoteGuard>,
        last: [u8; 32],
    ) -> Result<Option<Marks>, Refused> {
        let mark = marks.marks[role as usize];
        let again = slot.0.checked_add(1) == Some(mark.slot_next) && last == mark.last;
        if again && last != [0; 32] && guard.is_none() {
            return Ok(None);
        }
        let next = slot.0.checked_add(1).filter(|_| slot.0 >= mark.slot_next);
        let slot_next = next.ok_or(Refused::Used {
            validator: self.validator.0,
            role,
            slot: slot.0,
            next: mark.slot_next,
        })?;
        let (source, target) = guard.map_or((mark.source_max, mark.target_max), |guard| {
            (guard.source.0, guard.target.0)
        });
        if source < mark.source_max || target < mark.target_max {
            return Err(Refused::Surrounds {
                source_slot: source,
                target_slot: target,
                source_min: mark.source_max,
                target_min: mark.target_max,
            });
        }
        let mut next = marks.clone();
        next.marks[role as usize] = Mark {
            slot_next,
            source_max: source,
            target_max: target,
            last,
        };
        Ok(Some(next))
    }
}

impl Watermark for FileWatermark {
    fn reserve(
        &self,
        validator: Validator,
        role: Role,
        slot: Slot,
        guard: Option<VoteGuard>,
    ) -> Result<Reservation, Refused> {
        if validator != self.validator {
            return Err(Refused::UnknownKey(validator.0));
        }
        self.reserve_digest(role, slot, guard, [0; 32])
    }
}

fn io_error(path: &Path, error: io::Error) -> WatermarkError {
    WatermarkError::Io {
        path: path.to_owned(),
        error,
    }
}

/// The mark's file is replaced at each write, so the lock is a file beside it.
fn lock(path: &Path) -> Result<File, WatermarkError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let file = options
        .open(&beside)
        .map_err(|error| io_error(&beside, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(WatermarkError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(io_error(&beside, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::compact_key;

    const VOTE: Role = Role::Vote;
    const ME: Validator = Validator(4);

    fn key() -> PublicKey {
        *compact_key(0..1).public_key()
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        (folder, path)
    }

    #[test]
    fn a_mark_outlives_the_process() {
        let (_folder, path) = folder();
        let store = FileWatermark::create(&path, ME, &key(), Slot(10)).unwrap();
        assert!(
            store.reserve(ME, VOTE, Slot(9), None).is_err(),
            "below the floor"
        );
        assert!(store.reserve(ME, VOTE, Slot(10), None).is_ok());
        drop(store);
        let store = FileWatermark::open(&path, ME, &key()).unwrap();
        assert_eq!(store.slot_next(VOTE), Some(Slot(11)));
        assert!(store.reserve(ME, VOTE, Slot(10), None).is_err());
        assert!(store.reserve(Validator(5), VOTE, Slot(11), None).is_err());
        assert!(
            store.reserve(ME, Role::Block, Slot(10), None).is_ok(),
            "another role"
        );
        assert!(store.reserve(ME, VOTE, Slot(u64::MAX), None).is_err());
    }

    #[test]
    fn only_the_same_message_is_signed_again() {
        let (_folder, path) = folder();
        let store = FileWatermark::create(&path, ME, &key(), Slot(0)).unwrap();
        assert!(store.reserve_message(VOTE, Slot(3), &[1; 32]).is_ok());
        drop(store);
        let store = FileWatermark::open(&path, ME, &key()).unwrap();
        assert!(store.reserve_message(VOTE, Slot(3), &[1; 32]).is_ok());
        assert!(store.reserve_message(VOTE, Slot(3), &[2; 32]).is_err());
        assert!(store.reserve(ME, VOTE, Slot(3), None).is_err());
        // To ask takes nothing away.
        assert!(store.check_message(VOTE, Slot(3), &[1; 32]).is_ok());
        assert!(store.check_message(VOTE, Slot(3), &[2; 32]).is_err());
        assert!(store.check_message(VOTE, Slot(4), &[2; 32]).is_ok());
        assert_eq!(store.slot_next(VOTE), Some(Slot(4)));
        assert!(store.reserve(ME, VOTE, Slot(4), None).is_ok());
        // Of slot 4 no message is known, so it is given out once.
        assert!(store.reserve(ME, VOTE, Slot(4), None).is_err());
        assert!(store.reserve_message(VOTE, Slot(3), &[1; 32]).is_err());
    }

    #[test]
    fn a_second_opener_a_second_creation_and_another_key_are_refused() {
        let (_folder, path) = folder();
        let store = FileWatermark::create(&path, ME, &key(), Slot(0)).unwrap();
        let second = FileWatermark::open(&path, ME, &key());
        assert!(matches!(second, Err(WatermarkError::InUse(_))));
        drop(store);
        let second = FileWatermark::create(&path, ME, &key(), Slot(0));
        assert!(matches!(second, Err(WatermarkError::Exists(_))));
        let other = FileWatermark::open(&path, ME, compact_key(1..2).public_key());
        let error = MarksError::OtherKey;
        assert!(matches!(other, Err(WatermarkError::Damaged { error: e, .. }) if e == error));
        std::fs::remove_file(&path).unwrap();
        let gone = FileWatermark::open(&path, ME, &key());
        assert!(matches!(gone, Err(WatermarkError::Io { .. })));
    }

    /// The states that a crash can leave: the file beside is cut off, or whole and not renamed.
    #[test]
    fn a_crash_at_any_step_loses_no_mark() {
        let (_folder, path) = folder();
        let store = FileWatermark::create(&path, ME, &key(), Slot(0)).unwrap();
        assert!(store.reserve(ME, VOTE, Slot(7), None).is_ok());
        drop(store);
        let mut whole = Marks::new(&key(), Slot(0));
        whole.marks[0].slot_next = 9;
        let whole = whole.to_bytes();
        let beside = path.with_extension("new");
        for len in [0, 1, 50, whole.len() - 1, whole.len()] {
            std::fs::write(&beside, &whole[..len]).unwrap();
            let store = FileWatermark::open(&path, ME, &key()).unwrap();
            assert_eq!(store.slot_next(VOTE), Some(Slot(8)));
        }
        // After the rename the new mark holds.
        std::fs::rename(&beside, &path).unwrap();
        let store = FileWatermark::open(&path, ME, &key()).unwrap();
        assert_eq!(store.slot_next(VOTE), Some(Slot(9)));
    }

    #[test]
    fn a_retired_store_gives_out_nothing() {
        let (_folder, path) = folder();
        let store = FileWatermark::create(&path, ME, &key(), Slot(3)).unwrap();
        assert!(store.reserve_message(VOTE, Slot(6), &[1; 32]).is_ok());
        assert_eq!(store.retire(), Ok(Slot(7)));
        for slot in [6, 7, u64::MAX - 1, u64::MAX] {
            let refused = store.reserve_message(VOTE, Slot(slot), &[1; 32]);
            assert!(refused.is_err(), "{slot}");
        }
        drop(store);
        let store = FileWatermark::open(&path, ME, &key()).unwrap();
        assert_eq!(store.slot_next(VOTE), Some(Slot(u64::MAX)));
        assert_eq!(store.slot_next(Role::Block), Some(Slot(u64::MAX)));
    }

    #[test]
    fn nothing_is_given_out_after_a_failed_write() {
        let (folder, path) = folder();
        let store = FileWatermark::create(&path, ME, &key(), Slot(0)).unwrap();
        std::fs::remove_dir_all(folder.path()).unwrap();
        for slot in [1, 2] {
            let refused = store.reserve(ME, VOTE, Slot(slot), None);
            assert_eq!(refused.unwrap_err(), Refused::NotDurable);
        }
        assert_eq!(store.slot_next(VOTE), None);
    }

    #[test]
    fn a_vote_never_goes_back() {
        let (_folder, path) = folder();
        let store = FileWatermark::create(&path, ME, &key(), Slot(0)).unwrap();
        let vote = |slot, source, target| {
            let (source, target) = (Slot(source), Slot(target));
            store.reserve(ME, VOTE, Slot(slot), Some(VoteGuard { source, target }))
        };
        assert!(vote(3, 1, 3).is_ok());
        assert!(matches!(vote(4, 0, 4), Err(Refused::Surrounds { .. })));
        assert!(matches!(vote(4, 1, 2), Err(Refused::Surrounds { .. })));
        assert!(vote(4, 1, 4).is_ok());
    }

    #[test]
    fn every_damaged_byte_of_the_marks_is_found() {
        let bytes = Marks::new(&key(), Slot(5)).to_bytes();
        assert_eq!(Marks::from_bytes(&bytes).unwrap().to_bytes(), bytes);
        for i in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[i] ^= 1;
            assert!(Marks::from_bytes(&changed).is_err(), "byte {i}");
            assert!(Marks::from_bytes(&bytes[..i]).is_err(), "{i} bytes");
        }
        let mut longer = unseal(&bytes).unwrap().to_vec();
        longer.push(0);
        let refused = Marks::from_bytes(&seal(longer));
        assert_eq!(
            refused,
            Err(MarksError::Decode(DecodeError::Trailing { bytes: 1 }))
        );
    }
}
