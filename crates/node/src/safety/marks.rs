//! The marks as records of a redb file.

use super::{Cast, KeyId, SafetyError, storage};
use crate::file::DataFile;
use alphorn_scheme::{Refused, Role, VoteGuard};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};

/// (SHA-256 of the public key, role) to a [`Mark`] and its checksum.
const WATERMARK: TableDefinition<'_, (&[u8; 32], u8), &[u8]> = TableDefinition::new("watermark");
/// Facts about the file itself.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The layout of the file. A file of another layout is refused, except the first, whose marks had
/// no checksum and are given one.
const SCHEMA: u64 = 2;
const MARK_BYTES: usize = 24;
/// A mark with the first bytes of SHA-256 over key, role and mark.
const RECORD_BYTES: usize = MARK_BYTES + 8;

/// The first bytes of SHA-256 over a mark's key, role and contents.
fn checksum(key: &KeyId, role: u8, mark: &[u8]) -> [u8; 8] {
    let digest: [u8; 32] = Sha256::new()
        .chain_update(key)
        .chain_update([role])
        .chain_update(mark)
        .finalize()
        .into();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    first
}

/// How far a key was used in a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The lowest slot that was not reserved.
    pub(super) slot_next: u64,
    /// The greatest source of a vote.
    source_max: u64,
    /// The greatest target of a vote.
    target_max: u64,
}

impl Mark {
    /// The mark after a vote with these checkpoints.
    pub(super) fn guarded(self, guard: VoteGuard) -> Result<Self, Refused> {
        // Equal ones pass. A second vote with the same target in one slot is prevented by the right, which exists once.
        if guard.source.0 < self.source_max || guard.target.0 < self.target_max {
            return Err(Refused::Surrounds {
                source_slot: guard.source.0,
                target_slot: guard.target.0,
                source_min: self.source_max,
                target_min: self.target_max,
            });
        }
        Ok(Mark {
            source_max: guard.source.0,
            target_max: guard.target.0,
            ..self
        })
    }

    /// The mark after votes that the network shows and this file does not know of.
    pub(super) fn raised(self, cast: Cast) -> Self {
        Mark {
            slot_next: self.slot_next.max(cast.slot.next().0),
            source_max: self.source_max.max(cast.guard.source.0),
            target_max: self.target_max.max(cast.guard.target.0),
        }
    }

    fn encode(self, key: &KeyId, role: u8) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let words = [self.slot_next, self.source_max, self.target_max];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = checksum(key, role, &bytes[..MARK_BYTES]);
        bytes[MARK_BYTES..].copy_from_slice(&sum);
        bytes
    }

    fn decode(bytes: &[u8], key: &KeyId, role: u8) -> Result<Self, SafetyError> {
        let fixed: [u8; RECORD_BYTES] = bytes.try_into().map_err(|_| SafetyError::Malformed {
            bytes: bytes.len(),
            expected: RECORD_BYTES,
        })?;
        if fixed[MARK_BYTES..] != checksum(key, role, &fixed[..MARK_BYTES]) {
            return Err(SafetyError::Checksum);
        }
        let word = |i: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&fixed[8 * i..8 * i + 8]);
            u64::from_le_bytes(word)
        };
        Ok(Mark {
            slot_next: word(0),
            source_max: word(1),
            target_max: word(2),
        })
    }
}

/// The file.
pub(super) struct Marks {
    file: DataFile,
}

impl Marks {
    pub(super) fn open(file: DataFile) -> Result<Self, SafetyError> {
        let marks = Marks { file };
        marks.commit(|txn, _| {
            let mut table = txn.open_table(WATERMARK)?;
            let mut meta = txn.open_table(META)?;
            let schema = meta.get("schema")?.map(|schema| schema.value());
            if schema.is_none_or(|schema| schema == 1) {
                add_checksums(&mut table)?;
                meta.insert("schema", SCHEMA)?;
            }
            if meta.get("file_id")?.is_none() {
                // Random: hashers of the standard library are keyed from the system's entropy.
                let id = std::hash::RandomState::new().build_hasher().finish();
                meta.insert("file_id", id)?;
            }
            Ok(())
        })?;
        let schema = marks.meta("schema")?;
        if schema != SCHEMA {
            let text = format!("the file has schema {schema}, this version reads {SCHEMA}");
            return Err(storage("opening", text));
        }
        Ok(marks)
    }

    fn meta(&self, name: &str) -> Result<u64, SafetyError> {
        let read = |database: &Database, _| -> Result<u64, redb::Error> {
            let txn = database.begin_read()?;
            let meta = txn.open_table(META)?;
            Ok(meta.get(name)?.map_or(0, |value| value.value()))
        };
        let read = self.file.run(read);
        read.map_err(|error| storage("reading", error))
    }

    /// Identifies this file among all that ever existed.
    pub(super) fn file_id(&self) -> Result<u64, SafetyError> {
        self.meta("file_id")
    }

    /// The greatest mark of all keys that ever signed with this file, including those no longer
    /// here.
    pub(super) fn next_of_all(&self) -> Result<u64, SafetyError> {
        let read = |database: &Database, _| -> Result<u64, redb::Error> {
            let txn = database.begin_read()?;
            let mut next = 0;
            for entry in txn.open_table(WATERMARK)?.iter()? {
                let first = entry?.1.value().first_chunk().copied();
                next = next.max(first.map_or(0, u64::from_le_bytes));
            }
            Ok(next)
        };
        let read = self.file.run(read);
        read.map_err(|error| storage("reading", error))
    }

    /// Why signing was stopped for good: for whom another process signed, and in which slot.
    pub(super) fn stopped(&self) -> Result<Option<(u32, u64)>, SafetyError> {
        match self.meta("stopped_validator")? {
            0 => Ok(None),
            above => Ok(Some(((above - 1) as u32, self.meta("stopped_slot")?))),
        }
    }

    /// Durably sets or clears the stop.
    pub(super) fn stop(&self, stopped: Option<(u32, u64)>) -> Result<(), SafetyError> {
        self.commit(|txn, _| {
            let mut meta = txn.open_table(META)?;
            // One above its index: 0, as which a missing entry is read, means none.
            let validator = stopped.map_or(0, |(validator, _)| u64::from(validator) + 1);
            meta.insert("stopped_validator", validator)?;
            meta.insert("stopped_slot", stopped.map_or(0, |(_, slot)| slot))?;
            Ok(())
        })
    }

    pub(super) fn last_clock_ms(&self) -> Result<u64, SafetyError> {
        self.meta("clock_ms")
    }

    /// Sets the last seen clock, even backwards.
    pub(super) fn note_clock(&self, now_ms: u64) -> Result<(), SafetyError> {
        self.commit(|txn, _| {
            let mut meta = txn.open_table(META)?;
            meta.insert("clock_ms", now_ms)?;
            Ok(())
        })
    }

    /// The marks of these keys that were ever written.
    pub(super) fn read(
        &self,
        keys: &BTreeMap<u32, KeyId>,
    ) -> Result<BTreeMap<(u32, u8), Mark>, SafetyError> {
        let mut records: Vec<((u32, u8), Vec<u8>)> = Vec::new();
        let read = |database: &Database, _| -> Result<(), redb::Error> {
            let txn = database.begin_read()?;
            let table = txn.open_table(WATERMARK)?;
            for (&validator, id) in keys {
                for role in Role::ALL {
                    if let Some(value) = table.get((id, role as u8))? {
                        records.push(((validator, role as u8), value.value().to_vec()));
                    }
                }
            }
            Ok(())
        };
        let read = self.file.run(read);
        read.map_err(|error| storage("reading", error))?;
        let decode = |(key, bytes): ((u32, u8), Vec<u8>)| {
            let id = keys.get(&key.0).ok_or(SafetyError::Checksum)?;
            Ok((key, Mark::decode(&bytes, id, key.1)?))
        };
        records.into_iter().map(decode).collect()
    }

    /// Writes marks and the clock, and returns when they are durable. A reopened file must have the
    /// marks in `known`, since it may have been replaced by another one.
    pub(super) fn write(
        &self,
        keys: &BTreeMap<u32, KeyId>,
        known: &BTreeMap<(u32, u8), Mark>,
        marks: &BTreeMap<(u32, u8), Mark>,
        now_ms: u64,
    ) -> Result<(), SafetyError> {
        self.commit(|txn, is_new| {
            let mut table = txn.open_table(WATERMARK)?;
            for ((validator, role), mark) in known.iter().filter(|_| is_new) {
                let Some(id) = keys.get(validator) else {
                    continue;
                };
                let found = table.get((id, *role))?;
                // A mark that is missing reads as 0, so an empty file instead of the old one is refused as well.
                let found = found.map(|found| Mark::decode(found.value(), id, *role));
                let found = found.transpose()?;
                let next = found.map_or(0, |found| found.slot_next);
                if next < mark.slot_next {
                    return Err(SafetyError::Lost {
                        validator: *validator,
                        next,
                        known: mark.slot_next,
                    });
                }
            }
            for ((validator, role), mark) in marks {
                if let Some(id) = keys.get(validator) {
                    table.insert((id, *role), mark.encode(id, *role).as_slice())?;
                }
            }
            let mut meta = txn.open_table(META)?;
            let last = meta.get("clock_ms")?.map_or(0, |clock| clock.value());
            // The highest clock ever seen, whatever this call says: the check at the next start relies on it.
            meta.insert("clock_ms", last.max(now_ms))?;
            Ok(())
        })
    }

    /// A durable transaction. Two-phase, because redb's page checksum is not cryptographic and the
    /// safety of keys depends on this file. With quick repair, so that a restart does not walk the
    /// file.
    fn commit(
        &self,
        fill: impl FnOnce(&redb::WriteTransaction, bool) -> Result<(), SafetyError>,
    ) -> Result<(), SafetyError> {
        self.file.run(|database, is_new| {
            let begin = || -> Result<redb::WriteTransaction, redb::Error> {
                let mut txn = database.begin_write()?;
                txn.set_durability(Durability::Immediate)?;
                txn.set_two_phase_commit(true);
                txn.set_quick_repair(true);
                Ok(txn)
            };
            let txn = begin()?;
            fill(&txn, is_new)?;
            Ok(txn.commit()?)
        })
    }
}

/// Adds checksums to marks of the first layout. A new file has none.
fn add_checksums(
    table: &mut Table<'_, (&'static [u8; 32], u8), &'static [u8]>,
) -> Result<(), SafetyError> {
    let mut old = Vec::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let ((id, role), mark) = (key.value(), value.value());
        if mark.len() != MARK_BYTES {
            return Err(SafetyError::Malformed {
                bytes: mark.len(),
                expected: MARK_BYTES,
            });
        }
        old.push((*id, role, mark.to_vec()));
    }
    for (id, role, mark) in old {
        let record = [&mark[..], &checksum(&id, role, &mark)].concat();
        table.insert((&id, role), record.as_slice())?;
    }
    Ok(())
}
