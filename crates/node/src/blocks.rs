//! The file `node.redb`: the checkpoint from which the next start begins, blocks for that start and for peers that
//! request them, and the messages of the last slots.
//!
//! A block becomes durable some tenths of a second after it was accepted, because several share a commit. Blocks lost
//! in a crash are requested from peers again. The file is a cache. If it is damaged, it is set aside, a new one is
//! created, and the node continues.
//!
//! It also remembers how far the marks of `safety.redb` were ([`Witness`]), so that an older copy of that file is
//! noticed.

use crate::engine::Kept;
use crate::file::{DataFile, is_damage, set_aside};
use crate::message_store;
use crate::safety::Witness;
use alphorn_proto::wire::Root;
use alphorn_scheme::Bytes;
use alphorn_types::Slot;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use sha2::{Digest, Sha256};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// (Slot, root) to the block in wire format.
const BLOCKS: TableDefinition<'_, (u64, &[u8; 32]), &[u8]> = TableDefinition::new("blocks");

/// `checkpoint` to its SHA-256 and its bytes. `witness` to the position of the marks.
const FACTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("facts");
const CHECKPOINT: &str = "checkpoint";
const WITNESS: &str = "witness";

/// Slots for which blocks are kept for other nodes. A node that was away longer needs a checkpoint. Blocks that the
/// next start depends on are kept however old they are.
pub(crate) const SLOTS_KEPT: u64 = 8_192;

/// Bytes of the file cached in memory.
pub(crate) const CACHE_BYTES: usize = 32 << 20;

/// Most blocks in one response.
pub(crate) const RANGE_MAX: usize = 256;

/// Most bytes in one response, unless its first block is larger.
pub(crate) const RANGE_BYTES_MAX: usize = 16 << 20;

/// A stored block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Its slot.
    pub(crate) slot: Slot,
    /// Its root.
    pub(crate) root: Root,
    /// Its bytes in wire format.
    pub(crate) data: Bytes,
}

/// A state from which a node can start, as stored and sent to other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The slot of its final checkpoint.
    pub(crate) slot: Slot,
    /// The slot of the block that all later ones build on.
    pub(crate) base: Slot,
    /// Its identifier: the SHA-256 of the bytes.
    pub(crate) digest: [u8; 32],
    /// Its encoding.
    pub(crate) bytes: Bytes,
}

impl Checkpoint {
    /// Creates a checkpoint from an encoding and its slots.
    pub(crate) fn new(slot: Slot, base: Slot, bytes: Vec<u8>) -> Self {
        Checkpoint {
            slot,
            base,
            digest: Sha256::digest(&bytes).into(),
            bytes: bytes.into(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let slots = [self.slot, self.base].map(|slot| slot.0.to_le_bytes());
        [&self.digest[..], slots.as_flattened(), &self.bytes].concat()
    }

    /// The inverse. None if the bytes are not what was written.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (digest, rest) = bytes.split_first_chunk::<32>()?;
        let (slot, rest) = rest.split_first_chunk()?;
        let (base, rest) = rest.split_first_chunk()?;
        let slot_of = |bytes| Slot(u64::from_le_bytes(bytes));
        let read = Self::new(slot_of(*slot), slot_of(*base), rest.to_vec());
        (read.digest == *digest).then_some(read)
    }
}

/// The last checkpoint stored, for readers.
#[derive(Clone, Debug, Default)]
pub struct Latest(Arc<Mutex<Option<Arc<Checkpoint>>>>);

impl Latest {
    /// Returns the checkpoint, if there is one.
    pub(crate) fn get(&self) -> Option<Arc<Checkpoint>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set(&self, checkpoint: Option<Checkpoint>) {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = checkpoint.map(Arc::new);
    }
}

/// Extra data written with blocks and messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts<'a> {
    /// A later checkpoint.
    pub(crate) checkpoint: Option<&'a Checkpoint>,
    /// The position of the marks.
    pub(crate) witness: Option<Witness>,
}

/// The file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{what} failed in the store of blocks: {source}")]
pub struct BlocksError {
    what: &'static str,
    #[source]
    source: redb::Error,
}

impl BlocksError {
    /// Whether the file's contents differ from what was written.
    pub(crate) fn is_damage(&self) -> bool {
        is_damage(&self.source)
    }
}

/// The file of blocks.
pub struct Blocks {
    file: DataFile,
    /// Why the previous file was set aside.
    damaged: Option<String>,
}

impl Blocks {
    /// Opens or creates the file. A damaged file is set aside and replaced by a new one.
    ///
    /// # Errors
    /// [`BlocksError`].
    pub fn open(path: &Path) -> Result<Self, BlocksError> {
        let open = || -> Result<Self, BlocksError> {
            let (file, damaged) = DataFile::create_cache(path, CACHE_BYTES)
                .map_err(|error| failed("opening", error))?;
            Ok(Blocks {
                damaged,
                ..Self::with(file)?
            })
        };
        match open() {
            // It opened, but its tables are not those of this version. The next use recreates it.
            Err(error) if error.is_damage() => {
                set_aside(path).map_err(|error| failed("setting aside", error))?;
                let damaged = Some(error.to_string());
                Ok(Blocks { damaged, ..open()? })
            }
            opened => opened,
        }
    }

    /// What was wrong with the previous file, if it was set aside.
    pub(crate) fn damaged(&self) -> Option<&str> {
        self.damaged.as_deref()
    }

    /// The same on any storage, for tests.
    ///
    /// # Errors
    /// [`BlocksError`].
    #[cfg(test)]
    pub(crate) fn open_backend<B: redb::StorageBackend>(
        backend: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Self, BlocksError> {
        let open = move || Database::builder().create_with_backend(backend());
        let database = open().map_err(|error| failed("opening", error))?;
        Self::with(DataFile::with(database, open))
    }

    fn with(file: DataFile) -> Result<Self, BlocksError> {
        let blocks = Blocks {
            file,
            damaged: None,
        };
        blocks.write("opening", |_| Ok(()))?;
        Ok(blocks)
    }

    /// Adds blocks and messages, drops those that are too old relative to the newest, and returns when that is durable.
    ///
    /// # Errors
    /// [`BlocksError`]. Nothing has changed in that case.
    #[cfg(test)]
    pub(crate) fn put(&self, batch: &[Stored], messages: &[Kept]) -> Result<(), BlocksError> {
        self.put_with(batch, messages, Facts::default())
    }

    /// The same, with extra data.
    ///
    /// # Errors
    /// [`BlocksError`]. Nothing has changed in that case.
    pub(crate) fn put_with(
        &self,
        batch: &[Stored],
        messages: &[Kept],
        facts: Facts<'_>,
    ) -> Result<(), BlocksError> {
        self.write("writing", |txn| {
            // Facts first: which blocks are dropped depends on the checkpoint.
            put_facts(txn, facts)?;
            put_blocks(txn, batch)?;
            message_store::put(txn, messages)
        })
    }

    /// The votes and aggregates of earlier runs, newest slots first.
    ///
    /// # Errors
    /// [`BlocksError`].
    pub(crate) fn messages(&self) -> Result<Vec<Kept>, BlocksError> {
        self.read(message_store::read)
    }

    /// The checkpoint from which a start begins. None if there is none yet, or it is not what was written.
    ///
    /// # Errors
    /// [`BlocksError`].
    pub(crate) fn checkpoint(&self) -> Result<Option<Checkpoint>, BlocksError> {
        let found = self.fact(CHECKPOINT)?;
        Ok(found.and_then(|bytes| Checkpoint::decode(&bytes)))
    }

    /// The position of the marks when this file was last written.
    ///
    /// # Errors
    /// [`BlocksError`].
    pub(crate) fn witness(&self) -> Result<Option<Witness>, BlocksError> {
        let found = self.fact(WITNESS)?;
        Ok(found.and_then(|bytes| Witness::decode(&bytes)))
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, BlocksError> {
        self.read(|database: &Database| {
            let txn = database.begin_read()?;
            let found = txn.open_table(FACTS)?.get(name)?;
            Ok(found.map(|value| value.value().to_vec()))
        })
    }

    /// Returns a block, if present.
    ///
    /// # Errors
    /// [`BlocksError`].
    pub(crate) fn block(&self, slot: Slot, root: &Root) -> Result<Option<Stored>, BlocksError> {
        self.read(|database: &Database| {
            let txn = database.begin_read()?;
            let found = txn.open_table(BLOCKS)?.get((slot.0, root))?;
            let data = found.map(|value| Bytes::from(value.value()));
            let root = *root;
            Ok(data.map(|data| Stored { slot, root, data }))
        })
    }

    /// Blocks from a slot on, ordered by slot, including those in `wait` that have yet to be written. At most
    /// `count_max`, `RANGE_MAX` and `RANGE_BYTES_MAX`.
    ///
    /// # Errors
    /// [`BlocksError`].
    pub(crate) fn range(
        &self,
        from: Slot,
        count_max: usize,
        wait: &[Stored],
    ) -> Result<Vec<Stored>, BlocksError> {
        let count_max = count_max.min(RANGE_MAX);
        let mut blocks = self.written(Bound::Included((from.0, &[0; 32])), count_max)?;
        let wait = wait.iter().filter(|block| block.slot >= from);
        blocks.extend(wait.cloned());
        blocks.sort_by_key(|block| (block.slot, block.root));
        blocks.dedup_by_key(|block| (block.slot, block.root));
        blocks.truncate(count_max);
        let mut bytes = 0;
        let fits = blocks.iter().take_while(|block| {
            bytes += block.data.len();
            bytes <= RANGE_BYTES_MAX
        });
        let fits = fits.count();
        blocks.truncate(fits.max(1));
        Ok(blocks)
    }

    /// Written blocks, ordered by slot and root, after the one with this slot and root, or from the first on. Within
    /// the bounds of [`range`](Self::range).
    ///
    /// # Errors
    /// [`BlocksError`].
    pub(crate) fn after(&self, last: Option<(Slot, Root)>) -> Result<Vec<Stored>, BlocksError> {
        let from = match &last {
            Some((slot, root)) => Bound::Excluded((slot.0, root)),
            None => Bound::Unbounded,
        };
        self.written(from, RANGE_MAX)
    }

    fn written(
        &self,
        from: Bound<(u64, &Root)>,
        count_max: usize,
    ) -> Result<Vec<Stored>, BlocksError> {
        self.read(|database: &Database| {
            let txn = database.begin_read()?;
            let table = txn.open_table(BLOCKS)?;
            let (mut blocks, mut bytes) = (Vec::new(), 0);
            for entry in table.range((from, Bound::Unbounded))? {
                let (key, value) = entry?;
                let (slot, root) = key.value();
                bytes += value.value().len();
                let full = blocks.len() >= count_max || bytes > RANGE_BYTES_MAX;
                if full && !blocks.is_empty() {
                    break;
                }
                blocks.push(Stored {
                    slot: Slot(slot),
                    root: *root,
                    data: Bytes::from(value.value()),
                });
            }
            Ok(blocks)
        })
    }

    /// Reads from the file.
    pub(crate) fn read<T>(
        &self,
        act: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, BlocksError> {
        let read = self.file.run_cache(act);
        read.map_err(|error| failed("reading", error))
    }

    fn write(
        &self,
        what: &'static str,
        fill: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), BlocksError> {
        let write = |database: &Database| -> Result<(), redb::Error> {
            let mut txn = database.begin_write()?;
            txn.set_durability(Durability::Immediate)?;
            txn.set_quick_repair(true);
            // The tables exist, unless the file was recreated.
            txn.open_table(BLOCKS)?;
            txn.open_table(FACTS)?;
            message_store::open(&txn)?;
            fill(&txn)?;
            txn.commit()?;
            Ok(())
        };
        let written = self.file.run_cache(write);
        written.map_err(|error| failed(what, error))
    }
}

fn put_facts(txn: &redb::WriteTransaction, facts: Facts<'_>) -> Result<(), redb::Error> {
    let mut table = txn.open_table(FACTS)?;
    if let Some(checkpoint) = facts.checkpoint {
        table.insert(CHECKPOINT, checkpoint.encode().as_slice())?;
    }
    if let Some(witness) = facts.witness {
        table.insert(WITNESS, witness.encode().as_slice())?;
    }
    Ok(())
}

/// The oldest slot whose blocks the next start needs. Without a checkpoint all are needed.
fn needed(txn: &redb::WriteTransaction) -> Result<u64, redb::Error> {
    let table = txn.open_table(FACTS)?;
    let found = table.get(CHECKPOINT)?;
    let base = found.and_then(|bytes| {
        // After the digest, 32 bytes, and the slot, 8 bytes.
        let base = bytes.value().get(40..48)?;
        Some(u64::from_le_bytes(base.try_into().ok()?))
    });
    Ok(base.unwrap_or(0))
}

fn put_blocks(txn: &redb::WriteTransaction, batch: &[Stored]) -> Result<(), redb::Error> {
    let Some(newest) = batch.iter().map(|block| block.slot.0).max() else {
        return Ok(());
    };
    let mut table = txn.open_table(BLOCKS)?;
    for block in batch {
        table.insert((block.slot.0, &block.root), block.data.as_ref())?;
    }
    let oldest = newest.saturating_sub(SLOTS_KEPT).min(needed(txn)?);
    table.retain_in((0, &[0; 32])..(oldest, &[0; 32]), |_, _| false)?;
    Ok(())
}

fn failed(what: &'static str, source: impl Into<redb::Error>) -> BlocksError {
    BlocksError {
        what,
        source: source.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::InMemoryBackend;

    fn block(slot: u64, root: u8, bytes: usize) -> Stored {
        Stored {
            slot: Slot(slot),
            root: [root; 32],
            data: Bytes::from(vec![root; bytes].as_slice()),
        }
    }

    #[test]
    fn blocks_come_back_in_the_order_of_their_slots() {
        let blocks = Blocks::open_backend(InMemoryBackend::new).unwrap();
        let all = [
            block(7, 2, 10),
            block(3, 9, 10),
            block(7, 1, 10),
            block(5, 4, 0),
        ];
        blocks.put(&all, &[]).unwrap();
        let slots = |from, count| -> Vec<(u64, u8)> {
            let found = blocks.range(Slot(from), count, &[]).unwrap();
            found
                .iter()
                .map(|block| (block.slot.0, block.root[0]))
                .collect()
        };
        assert_eq!(slots(0, 10), [(3, 9), (5, 4), (7, 1), (7, 2)]);
        assert_eq!(slots(4, 2), [(5, 4), (7, 1)]);
        assert_eq!(slots(8, 2), []);
        assert_eq!(blocks.range(Slot(3), 1, &[]).unwrap()[0], block(3, 9, 10));
    }

    #[test]
    fn an_answer_has_a_bound_and_at_least_one_block() {
        let blocks = Blocks::open_backend(InMemoryBackend::new).unwrap();
        let half = RANGE_BYTES_MAX / 2 + 1;
        blocks
            .put(&[block(1, 1, half), block(2, 2, half), block(3, 3, 1)], &[])
            .unwrap();
        assert_eq!(blocks.range(Slot(0), 10, &[]).unwrap().len(), 1);
        assert_eq!(blocks.range(Slot(2), 10, &[]).unwrap().len(), 2);
        blocks
            .put(&[block(4, 4, RANGE_BYTES_MAX + 1)], &[])
            .unwrap();
        assert_eq!(blocks.range(Slot(4), 10, &[]).unwrap().len(), 1);
    }

    #[test]
    fn old_blocks_are_dropped_unless_the_next_start_stands_on_them() {
        let blocks = Blocks::open_backend(InMemoryBackend::new).unwrap();
        let slots = || -> Vec<u64> {
            let left = blocks.range(Slot(0), 10, &[]).unwrap();
            left.iter().map(|block| block.slot.0).collect()
        };
        let put = |block: Stored, base: Option<u64>| {
            let checkpoint = base.map(|base| Checkpoint::new(Slot(base + 1), Slot(base), vec![7]));
            let checkpoint = checkpoint.as_ref();
            let facts = Facts {
                checkpoint,
                witness: None,
            };
            blocks.put_with(&[block], &[], facts).unwrap();
        };
        put(block(1, 1, 1), None);
        put(block(5, 2, 1), None);
        put(block(9, 2, 1), None);
        put(block(SLOTS_KEPT + 50, 3, 1), None);
        assert_eq!(
            slots(),
            [1, 5, 9, SLOTS_KEPT + 50],
            "a start from genesis needs all"
        );
        put(block(SLOTS_KEPT + 51, 3, 1), Some(5));
        assert_eq!(slots(), [5, 9, SLOTS_KEPT + 50, SLOTS_KEPT + 51]);
        put(block(SLOTS_KEPT + 52, 3, 1), Some(SLOTS_KEPT + 50));
        assert_eq!(slots(), [SLOTS_KEPT + 50, SLOTS_KEPT + 51, SLOTS_KEPT + 52]);
        let found = blocks.checkpoint().unwrap().unwrap();
        assert_eq!(
            (found.slot, found.base),
            (Slot(SLOTS_KEPT + 51), Slot(SLOTS_KEPT + 50))
        );
        assert_eq!(&found.bytes[..], [7]);
        let mut changed = found.encode();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(Checkpoint::decode(&changed), None);
    }
}
