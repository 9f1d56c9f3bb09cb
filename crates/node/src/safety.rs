//! The record of what was signed, on disk before a signature leaves.
//!
//! With a one-time scheme a second signature with an index leaks the key, and with every scheme a second vote in a slot
//! is an equivocation. The mark of a slot is therefore durable before the signature is made. It is in a file of its
//! own, because a bulk commit of network data must not delay a vote, and data from peers must not share pages with it.
//!
//! The steps of a signature:
//!
//! 1. Well before the phase, `SafetyStore::reserve_slot` moves the mark of every local key and role past the slot, in
//!    one durable transaction. The right to sign stays in memory.
//! 2. At the phase, `SafetyStore::grant` takes those rights out of memory, each once. If a vote's source moved forward,
//!    that is made durable too, since no later vote may go back before it (minimal rule of EIP-3076).
//! 3. A crash between the two burns the slot: a vote is missed, never made twice.
//!
//! After a start nothing is signed below [`SafetyStore::first_slot`]. If a copy of the folder is restored later, every
//! slot it could sign has passed.

mod known;
mod marks;
#[cfg(test)]
mod tests;

use crate::file::{DataFile, is_damage};
use alphorn_scheme::{Refused, Reservation, Role, SignItem, VoteGuard, Watermark};
use alphorn_types::{Slot, Validator};
pub(crate) use known::Known;
pub use known::Witness;
use marks::{Mark, Marks};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots for which unused rights are kept, so that a late result can still be signed.
pub(crate) const SALVAGE_SLOTS: u64 = 32;

/// Slots that a node skips after its start before it signs.
pub(crate) const START_SLOTS: u64 = 2;

/// Most local keys of a node.
pub(crate) const KEYS_MAX: usize = 1 << 20;

/// SHA-256 of a public key: identifies it in the store, whatever the key length of its scheme.
pub type KeyId = [u8; 32];

/// The store could not be opened, or could not make something durable.
#[derive(Debug, thiserror::Error)]
pub enum SafetyError {
    /// The file cannot be read or written.
    #[error("{what} failed in the safety store: {source}")]
    Storage {
        /// The failed operation.
        what: &'static str,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A record does not have the length of its kind: the file was written by another program.
    #[error("the safety store holds a mark of {bytes} bytes, {expected} expected")]
    Malformed {
        /// Its length.
        bytes: usize,
        /// The length of a mark.
        expected: usize,
    },
    /// A mark is not what was written: the file was changed.
    #[error("the safety store holds a mark whose checksum is wrong")]
    Checksum,
    /// The file is missing although keys signed here before.
    #[error(
        "{path} is missing, and keys of this folder have signed up to slot {next}; bring that file back, or see --accept-new-safety-file"
    )]
    Missing {
        /// Its expected path.
        path: String,
        /// The first slot that was not signed, as far as known.
        next: u64,
    },
    /// The file is older than the one used last.
    #[error(
        "{path} has slot {found} as the next one, and this folder has signed up to slot {next}: it was set back or is another file; bring the last one back, or see --accept-new-safety-file"
    )]
    SetBack {
        /// Its path.
        path: String,
        /// The first unsigned slot by this file.
        found: u64,
        /// The first slot that was not signed.
        next: u64,
    },
    /// The file was changed after it was written.
    #[error(
        "{path} is damaged: {why}; bring back the last whole copy of it, or see --accept-new-safety-file"
    )]
    Damaged {
        /// Its path.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// Too many keys.
    #[error("{value} local keys, must be at most {KEYS_MAX}")]
    Keys {
        /// Their number.
        value: usize,
    },
    /// Two validators share a key, so that one would use up the other's slots.
    #[error("validators {first} and {second} have the same key")]
    SharedKey {
        /// One of them.
        first: u32,
        /// The other.
        second: u32,
    },
    /// The file reopened after a failure has lost marks: it is not the one that was written.
    #[error(
        "the safety store has slot {next} as the next of validator {validator}, {known} was durable"
    )]
    Lost {
        /// The validator whose mark was lost.
        validator: u32,
        /// The mark in the file.
        next: u64,
        /// The mark that was durable before.
        known: u64,
    },
    /// The clock is before the last time at which this store was used.
    #[error(
        "the clock says {now_ms} ms, this store was last used at {last_ms} ms: set the clock right, or see --resume-signing"
    )]
    ClockBehind {
        /// The clock now, milliseconds since 1970.
        now_ms: u64,
        /// The highest clock in the store.
        last_ms: u64,
    },
}

struct Inner {
    /// Durable, unused rights.
    rights: BTreeSet<(u64, u32, u8)>,
    /// The marks on disk.
    marks: BTreeMap<(u32, u8), Mark>,
    /// The next slot to reserve.
    reserved_next: u64,
    /// For whom another process signed, and in which slot. Nothing is signed any more.
    stopped: Option<(u32, u64)>,
}

/// The durable marks of the local keys.
pub struct SafetyStore {
    disk: Marks,
    keys: BTreeMap<u32, KeyId>,
    first_slot: u64,
    file_id: u64,
    /// The first slot that no key of the file has reserved.
    next: AtomicU64,
    inner: Mutex<Inner>,
}

/// The maximum of a key's votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cast {
    pub(crate) slot: Slot,
    pub(crate) guard: VoteGuard,
}

impl Cast {
    /// The element-wise maximum.
    pub(crate) fn max(self, other: Cast) -> Cast {
        let (one, two) = (self.guard, other.guard);
        Cast {
            slot: self.slot.max(other.slot),
            guard: VoteGuard {
                source: one.source.max(two.source),
                target: one.target.max(two.target),
            },
        }
    }
}

/// The rights for one job. Each is granted once.
pub(crate) struct Grant {
    rights: Mutex<BTreeMap<(u32, u8), Reservation>>,
    slot: Slot,
}

/// The time at which a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Wall clock, milliseconds since 1970.
    pub now_ms: u64,
    /// The slot of that time; 0 before genesis.
    pub slot: Slot,
    /// Whether this is before genesis on a network that has never run here. The first slots are then signed. A store
    /// that holds any mark ignores this.
    pub before_genesis: bool,
    /// Whether the operator vouches that no other process signs with these keys and that the clock is right. If so, a
    /// stop is lifted, and a clock before the last recorded one is accepted.
    pub resume: bool,
}

/// Bytes of the file cached in memory.
pub(crate) const CACHE_BYTES: usize = 8 << 20;

impl SafetyStore {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// [`SafetyError`]. If another process holds the file, this is a storage error.
    pub fn open(
        path: &Path,
        keys: BTreeMap<Validator, KeyId>,
        opening: Opening,
    ) -> Result<Self, SafetyError> {
        let opened = DataFile::create(path, CACHE_BYTES);
        let opened = opened.map_err(|error| match is_damage(&error) {
            true => SafetyError::Damaged {
                path: path.display().to_string(),
                why: error.to_string(),
            },
            false => storage("opening", error),
        });
        let store = opened.and_then(|file| Self::with_file(file, keys, opening));
        store.map_err(|error| match error {
            SafetyError::Checksum | SafetyError::Malformed { .. } => SafetyError::Damaged {
                path: path.display().to_string(),
                why: error.to_string(),
            },
            other => other,
        })
    }

    /// The same on any storage, which `backend` provides again after a failure. For tests of what a crash leaves
    /// behind.
    ///
    /// # Errors
    /// [`SafetyError`].
    #[cfg(test)]
    pub(crate) fn open_backend<B: redb::StorageBackend>(
        backend: impl Fn() -> B + Send + Sync + 'static,
        keys: BTreeMap<Validator, KeyId>,
        opening: Opening,
    ) -> Result<Self, SafetyError> {
        let open = move || redb::Database::builder().create_with_backend(backend());
        let database = open().map_err(|error| storage("opening", error))?;
        Self::with_file(DataFile::with(database, open), keys, opening)
    }

    fn with_file(
        file: DataFile,
        keys: BTreeMap<Validator, KeyId>,
        opening: Opening,
    ) -> Result<Self, SafetyError> {
        check_keys(&keys)?;
        let keys: BTreeMap<u32, KeyId> = keys.into_iter().map(|(v, id)| (v.0, id)).collect();
        let disk = Marks::open(file)?;
        let marks = disk.read(&keys)?;
        let last_ms = disk.last_clock_ms()?;
        if opening.now_ms < last_ms && !opening.resume {
            return Err(SafetyError::ClockBehind {
                now_ms: opening.now_ms,
                last_ms,
            });
        }
        // At once, so that a later start with an earlier clock is refused even if this one never reserves a slot. It
        // may go back here, since `resume` accepts an earlier clock for the starts that follow too.
        disk.note_clock(opening.now_ms)?;
        if opening.resume {
            disk.stop(None)?;
        }
        let next = disk.next_of_all()?;
        let used = marks.values().map(|mark| mark.slot_next).max();
        let fresh = used.is_none() && opening.before_genesis;
        let settled = if fresh {
            0
        } else {
            opening.slot.0.saturating_add(START_SLOTS)
        };
        let first_slot = settled.max(used.unwrap_or(0));
        Ok(SafetyStore {
            first_slot,
            file_id: disk.file_id()?,
            next: AtomicU64::new(next),
            inner: Mutex::new(Inner {
                rights: BTreeSet::new(),
                marks,
                // This alone enforces the first slot: `reserve_slot` refuses what is below, and without its rights
                // nothing is granted.
                reserved_next: first_slot,
                stopped: disk.stopped()?,
            }),
            disk,
            keys,
        })
    }

    /// The position of the marks, to be stored elsewhere.
    pub fn witness(&self) -> Witness {
        Witness {
            file: self.file_id,
            // Not under the lock, which is held while a commit of marks waits for the disk: the archive asks for this
            // before each commit of its own.
            next: self.next.load(Ordering::Relaxed),
        }
    }

    /// For whom another process signed, and in which slot. If set, nothing is signed.
    ///
    /// # Errors
    /// [`SafetyError`] if a thread died while it held the marks.
    pub(crate) fn stopped(&self) -> Result<Option<(Validator, Slot)>, SafetyError> {
        let stopped = self.lock()?.stopped;
        Ok(stopped.map(|(validator, slot)| (Validator(validator), Slot(slot))))
    }

    /// Signs nothing from now on, nor after the next start.
    ///
    /// # Errors
    /// [`SafetyError`] if that is not durable. Even so, this process signs nothing.
    pub(crate) fn stop(&self, validator: Validator, slot: Slot) -> Result<(), SafetyError> {
        let mut inner = self.lock()?;
        let stopped = Some((validator.0, slot.0));
        // Memory first, unlike a mark: if the write fails, this process still signs nothing.
        inner.stopped = stopped;
        inner.rights.clear();
        self.disk.stop(stopped)
    }

    /// Raises marks to votes that the network shows and this file does not know of, so that no key signs behind its
    /// own.
    ///
    /// # Errors
    /// [`SafetyError`] if the marks are not durable. Nothing is signed then until a later call succeeds.
    pub(crate) fn raise(
        &self,
        shown: &BTreeMap<Validator, Cast>,
        now_ms: u64,
    ) -> Result<(), SafetyError> {
        let mut inner = self.lock()?;
        let mut marks = BTreeMap::new();
        for (validator, cast) in shown {
            let key = (validator.0, Role::Vote as u8);
            let mark = inner.marks.get(&key).copied().unwrap_or_default();
            marks.insert(key, mark.raised(*cast));
        }
        // Before the write: if that fails, rights that the network shows as used stay withdrawn.
        inner.rights.retain(|(slot, validator, role)| {
            let cast = shown.get(&Validator(*validator));
            *role != Role::Vote as u8 || cast.is_none_or(|cast| *slot > cast.slot.0)
        });
        self.disk.write(&self.keys, &inner.marks, &marks, now_ms)?;
        inner.marks.extend(marks);
        // Only now, as in every other change of `next`: a witness ahead of the file would make the next start refuse
        // the file as set back.
        let last = shown.values().map(|cast| cast.slot.next().0).max();
        self.next.fetch_max(last.unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }

    /// The first slot that is signed after this start.
    pub fn first_slot(&self) -> Slot {
        Slot(self.first_slot)
    }

    /// Whether the store has marks of a validator's key, which signed with this file or was taken over by it.
    ///
    /// # Errors
    /// [`SafetyError`] if a thread died while it held the marks.
    pub fn knows(&self, validator: Validator) -> Result<bool, SafetyError> {
        let inner = self.lock()?;
        let roles = (validator.0, 0)..=(validator.0, u8::MAX);
        Ok(inner.marks.range(roles).next().is_some())
    }

    /// The local keys whose votes are not marked up to a slot, and the slot up to which they are marked. This applies
    /// to a key that is new here, or whose mark was not raised before the process ended.
    ///
    /// # Errors
    /// [`SafetyError`] if a thread died while it held the marks.
    pub fn behind(&self, slot: Slot) -> Result<BTreeMap<Validator, Slot>, SafetyError> {
        let inner = self.lock()?;
        let next = |&v: &u32| {
            let mark = inner.marks.get(&(v, Role::Vote as u8));
            (Validator(v), Slot(mark.map_or(0, |mark| mark.slot_next)))
        };
        let keys = self.keys.keys().map(next);
        Ok(keys.filter(|(_, next)| *next < slot).collect())
    }

    /// Takes over keys that come with their own marks. In no role does a key sign below its floor, and marks never go
    /// back. The node's first slot is not before any floor. Durable on return, after which the marks elsewhere can be
    /// used up.
    ///
    /// # Errors
    /// [`SafetyError`]. The file has either all marks or none of them in that case.
    ///
    /// # Panics
    /// If a floor belongs to a validator whose key is not here.
    pub fn take_over(
        &mut self,
        floors: &BTreeMap<Validator, Slot>,
        now_ms: u64,
    ) -> Result<(), SafetyError> {
        let mut inner = self.lock()?;
        let mut marks = inner.marks.clone();
        for (validator, floor) in floors {
            let v = validator.0;
            assert!(self.keys.contains_key(&v), "a floor of validator {v}");
            for role in Role::ALL {
                let mark = marks.entry((v, role as u8)).or_default();
                mark.slot_next = mark.slot_next.max(floor.0);
            }
        }
        self.disk.write(&self.keys, &inner.marks, &marks, now_ms)?;
        inner.marks = marks;
        let floor = floors.values().map(|floor| floor.0).max();
        self.next.fetch_max(floor.unwrap_or(0), Ordering::Relaxed);
        let first_slot = self.first_slot.max(floor.unwrap_or(0));
        inner.reserved_next = inner.reserved_next.max(first_slot);
        drop(inner);
        self.first_slot = first_slot;
        Ok(())
    }

    /// Moves the marks of every local key and role past `slot` durably, and keeps the rights for it. Skipped slots are
    /// burnt. Does nothing for a slot that is already reserved.
    ///
    /// # Errors
    /// [`SafetyError`] if the marks are not durable. Nothing in the slot can be signed then until a later call
    /// succeeds.
    pub(crate) fn reserve_slot(&self, slot: Slot, now_ms: u64) -> Result<(), SafetyError> {
        let mut inner = self.lock()?;
        // The last slot has no successor that a mark could name.
        let is_done = slot.0 < inner.reserved_next || slot.0 == u64::MAX;
        if is_done || self.keys.is_empty() || inner.stopped.is_some() {
            return Ok(());
        }
        let mut marks = inner.marks.clone();
        for &validator in self.keys.keys() {
            for role in Role::ALL {
                let mark = marks.entry((validator, role as u8)).or_default();
                mark.slot_next = mark.slot_next.max(slot.0 + 1);
            }
        }
        // Memory changes only after this, so that after an error it still agrees with the file.
        self.disk.write(&self.keys, &inner.marks, &marks, now_ms)?;
        let kept_from = slot.0.saturating_sub(SALVAGE_SLOTS);
        // Rights sort by slot first, so this drops exactly those of older slots.
        inner.rights = inner.rights.split_off(&(kept_from, 0, 0));
        for &validator in self.keys.keys() {
            let of_roles = Role::ALL.map(|role| (slot.0, validator, role as u8));
            inner.rights.extend(of_roles);
        }
        inner.marks = marks;
        inner.reserved_next = slot.0 + 1;
        self.next.fetch_max(slot.0 + 1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the rights for all items of a job, or none of them.
    ///
    /// # Errors
    /// The index of the first refused item, and the reason. [`Refused::NotDurable`] leaves the rights in place.
    pub(crate) fn grant(
        &self,
        slot: Slot,
        items: &[SignItem],
        now_ms: u64,
    ) -> Result<Grant, (usize, Refused)> {
        let mut inner = self.lock().map_err(|_| (0, Refused::NotDurable))?;
        if inner.stopped.is_some() {
            return Err((0, Refused::NotDurable));
        }
        let mut moved: BTreeMap<(u32, u8), Mark> = BTreeMap::new();
        let mut taken = BTreeMap::new();
        for (i, item) in items.iter().enumerate() {
            let (validator, role) = (item.validator.0, item.role as u8);
            let mark = inner.marks.get(&(validator, role)).copied();
            if !self.keys.contains_key(&validator) {
                return Err((i, Refused::UnknownKey(validator)));
            }
            let right = (slot.0, validator, role);
            // The second: two items of one job must not share a right.
            if !inner.rights.contains(&right) || taken.insert(right, item).is_some() {
                let next = mark.map_or(self.first_slot, |mark| mark.slot_next);
                return Err((i, used(item, slot, next)));
            }
            if let Some(guard) = item.guard {
                let mark = mark.unwrap_or_default();
                let mark = mark.guarded(guard).map_err(|refused| (i, refused))?;
                moved.insert((validator, role), mark);
            }
        }
        // Checkpoints that did not move are on disk already, and the vote need not wait for a commit.
        moved.retain(|key, mark| inner.marks.get(key) != Some(mark));
        if !moved.is_empty() {
            let written = self.disk.write(&self.keys, &inner.marks, &moved, now_ms);
            written.map_err(|_| (0, Refused::NotDurable))?;
            inner.marks.extend(moved);
        }
        // Rights are taken only now that every item has passed and its marks are durable.
        let issue = |(right, item): ((u64, u32, u8), &SignItem)| {
            inner.rights.remove(&right);
            ((right.1, right.2), Reservation::issue(slot, item))
        };
        Ok(Grant {
            rights: Mutex::new(taken.into_iter().map(issue).collect()),
            slot,
        })
    }

    fn lock(&self) -> Result<std::sync::MutexGuard<'_, Inner>, SafetyError> {
        self.inner
            .lock()
            // Unlike other locks: marks that may be half changed authorise nothing.
            .map_err(|_| storage("locking", "a thread died while it held the marks"))
    }
}

impl Watermark for Grant {
    /// The right of a granted item. There is none for another message.
    fn reserve(&self, slot: Slot, item: &SignItem) -> Result<Reservation, Refused> {
        let mut rights = self.rights.lock().map_err(|_| Refused::NotDurable)?;
        let key = (item.validator.0, item.role as u8);
        let wanted = Reservation::issue(slot, item);
        // Compared before it is taken: a request for another message must not use it up.
        let granted = rights.get(&key) == Some(&wanted);
        let permit = granted.then(|| rights.remove(&key)).flatten();
        permit.ok_or_else(|| used(item, slot, self.slot.0.saturating_add(1)))
    }
}

macro_rules! of_storage {
    ($($kind:ty),*) => {
        $(impl From<$kind> for SafetyError {
            fn from(error: $kind) -> Self {
                storage("a transaction", redb::Error::from(error))
            }
        })*
    };
}

of_storage!(
    redb::Error,
    redb::TableError,
    redb::StorageError,
    redb::CommitError
);

fn used(item: &SignItem, slot: Slot, next: u64) -> Refused {
    Refused::Used {
        validator: item.validator.0,
        role: item.role,
        slot: slot.0,
        next,
    }
}

fn check_keys(keys: &BTreeMap<Validator, KeyId>) -> Result<(), SafetyError> {
    if keys.len() > KEYS_MAX {
        return Err(SafetyError::Keys { value: keys.len() });
    }
    let mut owners: BTreeMap<&KeyId, u32> = BTreeMap::new();
    for (validator, id) in keys {
        if let Some(first) = owners.insert(id, validator.0) {
            return Err(SafetyError::SharedKey {
                first,
                second: validator.0,
            });
        }
    }
    Ok(())
}

fn storage(
    what: &'static str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SafetyError {
    SafetyError::Storage {
        what,
        source: source.into(),
    }
}
