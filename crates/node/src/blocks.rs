//! The file `node.redb`: blocks for peers that ask and for the next start, and the messages
//! of the last slots.
//!
//! A block is durable some tenths of a second after it was accepted: several share a commit. What
//! a crash loses is asked of peers again.

use crate::engine::Kept;
use crate::file::DataFile;
use crate::message_store;
use alphorn_proto::wire::Root;
use alphorn_scheme::Bytes;
use alphorn_types::Slot;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;

/// (Slot, root) to the block as it was on the wire.
const BLOCKS: TableDefinition<'_, (u64, &[u8; 32]), &[u8]> = TableDefinition::new("blocks");

/// Slots for which blocks are kept: a node that was away longer cannot follow from genesis.
pub(crate) const SLOTS_KEPT: u64 = 8_192;

/// Bytes of the file that are kept in memory.
pub(crate) const CACHE_BYTES: usize = 32 << 20;

/// Most blocks of one answer.
pub(crate) const RANGE_MAX: usize = 256;

/// Most bytes of one answer, unless its first block is larger.
pub(crate) const RANGE_BYTES_MAX: usize = 16 << 20;

/// A block as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Its slot.
    pub slot: Slot,
    /// Its name.
    pub root: Root,
    /// Its bytes on the wire.
    pub data: Bytes,
}

/// The file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{what} failed in the store of blocks: {source}")]
pub struct BlocksError {
    what: &'static str,
    #[source]
    source: redb::Error,
}

/// The file of blocks.
pub struct Blocks {
    file: DataFile,
}

impl Blocks {
    /// Opens or makes the file.
    ///
    /// # Errors
    /// [`BlocksError`].
    pub fn open(path: &Path) -> Result<Self, BlocksError> {
        let file = DataFile::create(path, CACHE_BYTES).map_err(|error| failed("opening", error))?;
        Self::with(file)
    }

    /// The same on any storage; for tests.
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
        let blocks = Blocks { file };
        blocks.write("opening", |txn| {
            txn.open_table(BLOCKS)?;
            message_store::open(txn)
        })?;
        Ok(blocks)
    }

    /// Adds blocks and messages, drops those that are too old for the newest, and returns when that
    /// is durable.
    ///
    /// # Errors
    /// [`BlocksError`]; then nothing has changed.
    pub(crate) fn put(&self, batch: &[Stored], messages: &[Kept]) -> Result<(), BlocksError> {
        self.write("writing", |txn| {
            put_blocks(txn, batch)?;
            message_store::put(txn, messages)
        })
    }

    /// A block, if it is there.
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

    /// Blocks from a slot on in the order of their slots, those that `wait` to be written among
    /// them; at most `count_max`, `RANGE_MAX` and `RANGE_BYTES_MAX`.
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
        let mut blocks = self.written(from, count_max)?;
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

    /// The same of those that are written.
    fn written(&self, from: Slot, count_max: usize) -> Result<Vec<Stored>, BlocksError> {
        self.read(|database: &Database| {
            let txn = database.begin_read()?;
            let table = txn.open_table(BLOCKS)?;
            let (mut blocks, mut bytes) = (Vec::new(), 0);
            for entry in table.range((from.0, &[0; 32])..)? {
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
        let read = self.file.run(|database, _| act(database));
        read.map_err(|error| failed("reading", error))
    }

    fn write(
        &self,
        what: &'static str,
        fill: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), BlocksError> {
        let write = |database: &Database, _| -> Result<(), redb::Error> {
            let mut txn = database.begin_write()?;
            txn.set_durability(Durability::Immediate)?;
            txn.set_quick_repair(true);
            fill(&txn)?;
            txn.commit()?;
            Ok(())
        };
        let written = self.file.run(write);
        written.map_err(|error| failed(what, error))
    }
}

fn put_blocks(txn: &redb::WriteTransaction, batch: &[Stored]) -> Result<(), redb::Error> {
    let Some(newest) = batch.iter().map(|block| block.slot.0).max() else {
        return Ok(());
    };
    let mut table = txn.open_table(BLOCKS)?;
    for block in batch {
        table.insert((block.slot.0, &block.root), block.data.as_ref())?;
    }
    let oldest = newest.saturating_sub(SLOTS_KEPT);
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
    fn old_blocks_are_dropped() {
        let blocks = Blocks::open_backend(InMemoryBackend::new).unwrap();
        blocks.put(&[block(1, 1, 1), block(9, 2, 1)], &[]).unwrap();
        blocks.put(&[block(SLOTS_KEPT + 5, 3, 1)], &[]).unwrap();
        let left = blocks.range(Slot(0), 10, &[]).unwrap();
        let slots: Vec<u64> = left.iter().map(|block| block.slot.0).collect();
        assert_eq!(slots, [9, SLOTS_KEPT + 5]);
    }
}
