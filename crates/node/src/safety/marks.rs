//! The marks as records of a redb file.

use super::{KeyId, SafetyError, storage};
use crate::file::DataFile;
use alphorn_scheme::{Refused, Role, VoteGuard};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::BTreeMap;

/// (SHA-256 of the public key, role) to a [`Mark`].
const WATERMARK: TableDefinition<'_, (&[u8; 32], u8), &[u8]> = TableDefinition::new("watermark");
/// Facts about the file itself.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The layout of the file. A file of another one is refused.
const SCHEMA: u64 = 1;
const MARK_BYTES: usize = 24;

/// How far a key was used in a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The least slot that was not reserved.
    pub(super) slot_next: u64,
    /// The greatest source of a vote.
    source_max: u64,
    /// The greatest target of a vote.
    target_max: u64,
}

impl Mark {
    /// The mark after a vote with these checkpoints.
    pub(super) fn guarded(self, guard: VoteGuard) -> Result<Self, Refused> {
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

    fn encode(self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        let words = [self.slot_next, self.source_max, self.target_max];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, SafetyError> {
        let fixed: [u8; MARK_BYTES] = bytes.try_into().map_err(|_| SafetyError::Malformed {
            bytes: bytes.len(),
            expected: MARK_BYTES,
        })?;
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
            txn.open_table(WATERMARK)?;
            let mut meta = txn.open_table(META)?;
            if meta.get("schema")?.is_none() {
                meta.insert("schema", SCHEMA)?;
            }
            let starts = meta.get("starts")?.map_or(0, |starts| starts.value());
            meta.insert("starts", starts.saturating_add(1))?;
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

    pub(super) fn last_clock_ms(&self) -> Result<u64, SafetyError> {
        self.meta("clock_ms")
    }

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
        let decode = |(key, bytes): ((u32, u8), Vec<u8>)| Ok((key, Mark::decode(&bytes)?));
        records.into_iter().map(decode).collect()
    }

    /// Writes marks and the clock, and returns when they are durable. A file that was opened again
    /// must have the marks that are `known`: another one may lie there now.
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
                let id = keys.get(validator);
                let found = id.map(|id| table.get((id, *role))).transpose()?.flatten();
                let found = found.map(|found| Mark::decode(found.value())).transpose()?;
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
                    table.insert((id, *role), mark.encode().as_slice())?;
                }
            }
            let mut meta = txn.open_table(META)?;
            let last = meta.get("clock_ms")?.map_or(0, |clock| clock.value());
            meta.insert("clock_ms", last.max(now_ms))?;
            Ok(())
        })
    }

    /// A durable transaction. Two phases: the page checksum of redb is not cryptographic, and this
    /// file decides over keys. Quick repair: a restart does not walk the file.
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
