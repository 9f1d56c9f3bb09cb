//! The mark of a key in files: no slot is given out twice, even after a crash.
//!
//! Made for XMSS keys, and suitable for every scheme whose keys sign once per slot.
//!
//! A reservation is returned only once the new mark is on disk: it is written next to the old one, synced and
//! renamed, and the folder is synced. A crash before the rename leaves the old mark and no signature; a crash
//! after it may burn a slot. While a mark is open, a lock file next to it keeps out every other process.
//!
//! A mark next to a key's file travels with it: it can be linked, copied, or restored from a backup. So there is a
//! second mark in a folder of the user, under the name of the key ([`KeyName`]), with its own lock. It is written
//! after the first, so a crash can leave it behind the first but never ahead of it. A first mark that is behind
//! the second was not the last one written, and gives out nothing.

mod lock;
mod marks;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use alphorn_scheme::{Refused, Reservation, Role, SignItem, Watermark};
use alphorn_types::{Slot, Validator};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::durable::{move_into_place, write_beside};
use lock::Lock;
pub use marks::{KeyName, Marks, MarksError};

/// Why a store cannot be made or opened.
#[derive(Debug, Error)]
pub enum WatermarkError {
    /// A file system operation failed.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// Another process holds the store.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// A store already exists and must not be replaced by an emptier one.
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
    /// The mark next to the key is behind the user's mark: it was restored from a backup, or is a copy.
    #[error("{path} was copied or put back: slot {next} is free in it, slot {known} in {state}")]
    Behind {
        /// The file next to the key.
        path: PathBuf,
        /// The lowest free slot in it.
        next: Slot,
        /// The file in the user's folder.
        state: PathBuf,
        /// The lowest free slot in the user's file.
        known: Slot,
    },
    /// The user's folder has no mark of the key: the key comes from another host or from a backup.
    #[error("{path} is not known here: there is no {state}")]
    Unknown {
        /// The file next to the key.
        path: PathBuf,
        /// The file that is missing.
        state: PathBuf,
    },
}

/// A file of marks, locked against other processes.
struct Held {
    path: PathBuf,
    lock: Lock,
}

impl Held {
    fn of(path: PathBuf) -> Result<Held, WatermarkError> {
        let lock = Lock::of(&path)?;
        Ok(Held { path, lock })
    }

    /// The file of a key in the user's folder, created if it does not exist.
    fn in_state(folder: &Path, key: KeyName) -> Result<Held, WatermarkError> {
        let named = |error| io_error(folder, error);
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(named)?;
        let folder = folder.canonicalize().map_err(named)?;
        Held::of(folder.join(file_name(&key.name)))
    }

    /// The marks in a file of the user's folder, if there are any.
    fn find(&self, key: KeyName) -> Result<Option<Marks>, WatermarkError> {
        let before = self.path.with_file_name(file_name(&key.before));
        for path in [&self.path, &before] {
            match read(path, key) {
                Err(WatermarkError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {}
                found => return found.map(Some),
            }
        }
        Ok(None)
    }

    /// If the lock file was removed, another process may have got in, and its marks must not be replaced by older
    /// ones. So the lock is checked directly before the rename.
    fn write(&self, marks: &Marks) -> Result<(), WatermarkError> {
        let named = |error| io_error(&self.path, error);
        write_beside(&self.path, &marks.to_bytes()).map_err(named)?;
        match self.lock.is_held() {
            true => move_into_place(&self.path).map_err(named),
            false => Err(WatermarkError::InUse(self.path.clone())),
        }
    }
}

/// The file of a key in the user's folder.
fn file_name(name: &[u8; 32]) -> String {
    let digits = name.map(|byte| format!("{byte:02x}"));
    format!("{}.mark", digits.concat())
}

fn read(path: &Path, key: KeyName) -> Result<Marks, WatermarkError> {
    let bytes = std::fs::read(path).map_err(|error| io_error(path, error))?;
    let marks = Marks::from_bytes(&bytes).and_then(|marks| marks.renamed(key));
    marks.map_err(|error| WatermarkError::Damaged {
        path: path.to_owned(),
        error,
    })
}

/// Creates the mark of a key in the user's folder, or raises it: the key signs nothing below `floor`, nor below
/// what is known unless the mark is damaged. Returns the resulting floor.
/// # Errors
/// [`WatermarkError`]; [`WatermarkError::Behind`] for a key that moved, unless `floor` is above the slot at which
/// it moved: where it has signed since then is not known here.
pub fn raise_floor(
    state: &Path,
    key: impl Into<KeyName>,
    floor: Slot,
) -> Result<Slot, WatermarkError> {
    let key = key.into();
    let held = Held::in_state(state, key)?;
    let known = match held.find(key) {
        Err(WatermarkError::Damaged { .. }) => None,
        found => found?,
    };
    let marks = known.unwrap_or_else(|| Marks::new(key, floor));
    if marks.are_spent() && floor <= marks.floor_known() {
        return Err(WatermarkError::Behind {
            path: held.path.clone(),
            next: floor,
            state: held.path,
            known: marks.floor(),
        });
    }
    let floor = marks.floor_known().max(floor);
    held.write(&marks.raised_to(floor))?;
    Ok(floor)
}

/// A store of the marks of one key.
pub struct FileWatermark {
    validator: Validator,
    /// The file next to the key first, then the one in the user's folder.
    files: Vec<Held>,
    /// None after a failed write, because the state on disk is then unknown.
    marks: Mutex<Option<Marks>>,
}

impl FileWatermark {
    /// Creates the file of a key that signs nothing below `floor`. A key restored from a backup needs a floor
    /// above every slot it ever signed. Without a folder `state` there is no second mark, and the mark can be
    /// copied: only for keys that protect nothing.
    ///
    /// # Errors
    /// [`WatermarkError`].
    pub fn create(
        path: &Path,
        state: Option<&Path>,
        validator: Validator,
        key: impl Into<KeyName>,
        floor: Slot,
    ) -> Result<FileWatermark, WatermarkError> {
        let key = key.into();
        let held = Held::of(path.to_owned())?;
        // Without following links: a link that leads nowhere would be replaced by the rename.
        if path.symlink_metadata().is_ok() {
            return Err(WatermarkError::Exists(path.to_owned()));
        }
        // The user's mark first. After a crash in between there is no file yet, and it can be created again; in the
        // other order the key would be unknown here.
        let floor = match state {
            Some(folder) => raise_floor(folder, key, floor)?,
            None => floor,
        };
        held.write(&Marks::new(key, floor))?;
        // `open` takes the lock again, and it is exclusive.
        drop(held);
        FileWatermark::open(path, state, validator, key)
    }

    /// Opens the file of a key, following links, and its second mark in the folder `state`.
    ///
    /// # Errors
    /// [`WatermarkError`].
    pub fn open(
        path: &Path,
        state: Option<&Path>,
        validator: Validator,
        key: impl Into<KeyName>,
    ) -> Result<FileWatermark, WatermarkError> {
        let key = key.into();
        // Otherwise two links to one file would have two locks, and the rename would replace a link by a file.
        let resolved = path.canonicalize().map_err(|error| io_error(path, error))?;
        let held = Held::of(resolved)?;
        let mut marks = read(&held.path, key)?;
        let mut files = vec![held];
        // A spent mark is final, and the key may have another file here.
        if let Some(folder) = state.filter(|_| !marks.are_spent()) {
            let held = Held::in_state(folder, key)?;
            marks = joined(&files[0].path, &marks, &held, key)?;
            files.push(held);
        }
        Ok(FileWatermark {
            validator,
            files,
            marks: Mutex::new(Some(marks)),
        })
    }

    /// The file next to the key, with links resolved.
    pub fn path(&self) -> &Path {
        &self.files[0].path
    }

    /// The folders to which a reservation writes.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().filter_map(|held| held.path.parent())
    }

    /// The lowest free slot of a role; none if the store is no longer usable.
    pub fn slot_next(&self, role: Role) -> Option<Slot> {
        let marks = self.marks.lock().ok()?;
        marks.as_ref().map(|marks| marks.slot_next(role))
    }

    /// The lowest slot that is free in every role; none if the store is no longer usable.
    pub fn floor(&self) -> Option<Slot> {
        let marks = self.marks.lock().ok()?;
        marks.as_ref().map(Marks::floor)
    }

    /// Stops giving out slots in any role: the key moves to another file of this user. There it signs nothing
    /// below `next`, nor below what is known here.
    ///
    /// # Errors
    /// [`Refused::NotDurable`]: the files may or may not be retired. [`Refused::Unlocked`].
    pub fn retire(&self, next: Slot) -> Result<(), Refused> {
        self.spend(next, false)
    }

    /// The same for a key that moves to a location without a file of this user. Should it come back, it signs
    /// nothing below `next`, nor below what is known here, because the marks keep that floor.
    ///
    /// # Errors
    /// Those of [`FileWatermark::retire`].
    pub fn give_away(&self, next: Slot) -> Result<(), Refused> {
        self.spend(next, true)
    }

    fn spend(&self, next: Slot, away: bool) -> Result<(), Refused> {
        let mut known = self.marks.lock().map_err(|_| Refused::NotDurable)?;
        let marks = known.as_ref().ok_or(Refused::NotDurable)?;
        let moved = marks.raised_to(next.max(marks.floor_known()));
        // Made from the raised marks, so that the floor it keeps is the raised one.
        let spent = moved.raised_to(Slot(u64::MAX));
        let second = if away { spent.clone() } else { moved };
        self.write(&mut known, [spent, second])
    }

    /// Writes marks, those next to the key first. The next process to take the locks reads them.
    fn write(&self, known: &mut Option<Marks>, marks: [Marks; 2]) -> Result<(), Refused> {
        self.check_locks()?;
        // While they are being written, the store is unusable; an error leaves it so.
        *known = None;
        // The file next to the key comes first: after a crash it may be ahead of the user's mark, which then
        // catches up. The other way round it would look like a copy.
        for (held, marks) in self.files.iter().zip(&marks) {
            held.write(marks).map_err(|error| match error {
                WatermarkError::InUse(_) => Refused::Unlocked,
                _ => Refused::NotDurable,
            })?;
        }
        let [first, _] = marks;
        *known = Some(first);
        // Checked once more, because a process that got in during the write may have read the older marks.
        self.check_locks()
    }

    /// Whether [`Watermark::reserve`] would refuse; gives out nothing.
    ///
    /// # Errors
    /// Those of [`Watermark::reserve`], except for a write that would fail.
    pub fn check(&self, slot: Slot, item: &SignItem) -> Result<(), Refused> {
        let known = self.marks.lock().map_err(|_| Refused::NotDurable)?;
        let marks = known.as_ref().ok_or(Refused::NotDurable)?;
        self.next(marks, slot, item)?;
        self.check_locks()
    }

    fn check_locks(&self) -> Result<(), Refused> {
        match self.files.iter().all(|held| held.lock.is_held()) {
            true => Ok(()),
            false => Err(Refused::Unlocked),
        }
    }

    /// The marks after a slot is given out; none if they do not change because the last slot is given out again:
    /// the same message has the same signature.
    fn next(&self, marks: &Marks, slot: Slot, item: &SignItem) -> Result<Option<Marks>, Refused> {
        if item.validator != self.validator {
            return Err(Refused::UnknownKey(item.validator.0));
        }
        let mark = marks.marks[item.role as usize];
        let last: [u8; 32] = Sha256::digest(item.message).into();
        let again = slot.0.checked_add(1) == Some(mark.slot_next) && last == mark.last;
        if again && item.guard.is_none() {
            return Ok(None);
        }
        // The last slot of 64 bits has no successor, so it is never given out.
        let next = slot.0.checked_add(1).filter(|_| slot.0 >= mark.slot_next);
        let slot_next = next.ok_or(Refused::Used {
            validator: self.validator.0,
            role: item.role,
            slot: slot.0,
            next: mark.slot_next,
        })?;
        let (source, target) = item
            .guard
            .map_or((mark.source_max, mark.target_max), |guard| {
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
        // Without checkpoints the greatest ones so far are kept, so that a later vote is still bound by them.
        let mut next = marks.clone();
        next.marks[item.role as usize] = marks::Mark {
            slot_next,
            source_max: source,
            target_max: target,
            last,
        };
        Ok(Some(next))
    }
}

impl Watermark for FileWatermark {
    /// The last slot is given out again for the same message without checkpoints.
    fn reserve(&self, slot: Slot, item: &SignItem) -> Result<Reservation, Refused> {
        let mut known = self.marks.lock().map_err(|_| Refused::NotDurable)?;
        let marks = known.as_ref().ok_or(Refused::NotDurable)?;
        let next = self.next(marks, slot, item)?;
        let again = next.is_none();
        match next {
            Some(next) => self.write(&mut known, [next.clone(), next])?,
            None => self.check_locks()?,
        }
        Ok(match again {
            true => Reservation::issue_again(slot, item),
            false => Reservation::issue(slot, item),
        })
    }
}

/// Compares the mark next to a key with the user's mark, and brings the second up to the first, since a crash may
/// have happened between the two writes.
fn joined(path: &Path, marks: &Marks, state: &Held, key: KeyName) -> Result<Marks, WatermarkError> {
    let (path, file) = (path.to_owned(), state.path.clone());
    let Some(known) = state.find(key)? else {
        return Err(WatermarkError::Unknown { path, state: file });
    };
    if let Some((next, known)) = marks.behind(&known) {
        return Err(WatermarkError::Behind {
            path,
            next,
            state: file,
            known,
        });
    }
    let marks = marks.with_guards_of(&known);
    if known != marks {
        state.write(&marks)?;
    }
    Ok(marks)
}

fn io_error(path: &Path, error: io::Error) -> WatermarkError {
    WatermarkError::Io {
        path: path.to_owned(),
        error,
    }
}
