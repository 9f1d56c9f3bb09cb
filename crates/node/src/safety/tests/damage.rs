//! Files that are not what was written: single changed bytes, missing files, older copies.

use super::*;
use crate::blocks::{Blocks, Facts, Stored};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that are changed in each file, one at a time.
const FLIPS: u64 = if cfg!(feature = "soak") { 500 } else { 24 };
/// Number of snapshots restored.
const SNAPSHOTS: u64 = if cfg!(feature = "soak") { 50 } else { 5 };

struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        Folder {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn blocks(&self) -> Blocks {
        Blocks::open(&self.path("node.redb")).unwrap()
    }

    /// A start as the program does it: the store, and why a new file was created.
    fn start(
        &self,
        slot: u64,
        accept_new: bool,
    ) -> Result<(SafetyStore, Option<SafetyError>), SafetyError> {
        let node = self.path("node.redb");
        let was_used = node.exists();
        let known = Known {
            witness: self.blocks().witness().unwrap(),
            was_used,
            accept_new,
        };
        let opening = opening(slot, false);
        SafetyStore::open_known(&self.path("safety.redb"), keys(2), opening, known)
    }

    /// Signs some slots, and records it in the other file.
    fn sign(&self, from: u64, slots: u64) {
        let (store, _) = self.start(from, false).unwrap();
        for slot in from + START_SLOTS..from + START_SLOTS + slots {
            store.reserve_slot(Slot(slot), 1_000 * slot).unwrap();
            assert!(signs(&store, 0, Role::Vote, slot));
        }
        let block = Stored {
            slot: Slot(from),
            root: [from as u8; 32],
            data: vec![from as u8; 3_000].into(),
        };
        let facts = Facts {
            checkpoint: None,
            witness: Some(store.witness()),
        };
        self.blocks().put_with(&[block], &[], facts).unwrap();
    }
}

fn flipped(bytes: &[u8], at: usize, path: &Path) {
    let mut changed = bytes.to_vec();
    changed[at] ^= 1 << (at % 8);
    fs::write(path, changed).unwrap();
}

/// Random positions with data, since most of a new file is empty.
fn positions(bytes: &[u8]) -> Vec<usize> {
    let mut rng = SmallRng::seed_from_u64(9);
    let is_used = |at: &usize| bytes[*at & !63..].iter().take(64).any(|byte| *byte != 0);
    let draw = std::iter::repeat_with(|| rng.random_range(0..bytes.len()));
    draw.filter(is_used).take(FLIPS as usize).collect()
}

#[test]
fn a_changed_byte_of_the_marks_is_refused_or_changes_nothing() {
    let folder = Folder::new();
    folder.sign(0, 20);
    let path = folder.path("safety.redb");
    let whole = fs::read(&path).unwrap();
    let mut refused = 0;
    for at in positions(&whole) {
        flipped(&whole, at, &path);
        match folder.start(30, false) {
            Ok((store, why)) => {
                assert!(why.is_none());
                assert_eq!(store.witness().next, 22, "byte {at}");
                assert!(!signs(&store, 0, Role::Vote, 21), "byte {at}");
            }
            Err(error) => {
                refused += 1;
                let text = error.to_string();
                assert!(
                    text.contains("--accept-new-safety-file"),
                    "byte {at}: {text}"
                );
            }
        }
    }
    // Most of a file is pages of earlier commits, which are not read.
    assert!(refused > 0, "{refused} of {FLIPS}");
    // The way out: a new file, in which nothing is signed again.
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(
        folder.start(5, false),
        Err(SafetyError::Damaged { .. })
    ));
    let (store, why) = folder.start(5, true).unwrap();
    assert!(matches!(why, Some(SafetyError::Damaged { .. })));
    assert_eq!(store.first_slot(), Slot(22));
    assert!(folder.path("safety.redb.damaged").exists());
}

#[test]
fn a_changed_byte_of_the_blocks_costs_blocks_and_no_start() {
    let folder = Folder::new();
    for slot in [0, 30, 60] {
        folder.sign(slot, 2);
    }
    let path = folder.path("node.redb");
    let whole = fs::read(&path).unwrap();
    let all = folder.blocks().range(Slot(0), 10, &[]).unwrap();
    assert_eq!(all.len(), 3);
    let mut rebuilt = 0;
    for at in positions(&whole) {
        flipped(&whole, at, &path);
        let blocks = folder.blocks();
        let found = blocks.range(Slot(0), 10, &[]).unwrap();
        match blocks.damaged() {
            None => assert_eq!(found, all, "byte {at}"),
            Some(_) => {
                rebuilt += 1;
                assert_eq!(found, [], "byte {at}");
                // And it continues.
                blocks.put(&all, &[]).unwrap();
                assert_eq!(blocks.range(Slot(0), 10, &[]).unwrap(), all);
            }
        }
    }
    assert!(rebuilt > 0, "{rebuilt} of {FLIPS}");
}

#[test]
fn a_file_of_marks_that_is_gone_or_set_back_is_refused_with_the_way_out() {
    for seed in 0..SNAPSHOTS {
        let folder = Folder::new();
        let mut rng = SmallRng::seed_from_u64(seed);
        folder.sign(0, rng.random_range(1..10));
        let path = folder.path("safety.redb");
        let older = fs::read(&path).unwrap();
        folder.sign(20, rng.random_range(1..10));
        let next = folder.start(40, false).unwrap().0.witness().next;
        // An older copy, whatever the clock says.
        fs::write(&path, &older).unwrap();
        let Err(SafetyError::SetBack {
            found, next: known, ..
        }) = folder.start(41, false)
        else {
            panic!("seed {seed}: an older copy is taken");
        };
        assert!(found < known && known == next, "seed {seed}");
        // No file.
        fs::remove_file(&path).unwrap();
        let Err(SafetyError::Missing { next: known, .. }) = folder.start(42, false) else {
            panic!("seed {seed}: a new file is made without a word");
        };
        assert_eq!(known, next);
        // The file of another folder that is further ahead.
        let other = Folder::new();
        other.sign(1_000, 1);
        fs::copy(other.path("safety.redb"), &path).unwrap();
        assert!(matches!(
            folder.start(2_000, false),
            Err(SafetyError::SetBack { .. })
        ));
        let (store, why) = folder.start(2_000, true).unwrap();
        assert!(why.is_some());
        let first = Slot(2_000 + START_SLOTS);
        assert_eq!(store.first_slot(), first, "seed {seed}");
        store.reserve_slot(first, 0).unwrap();
        assert!(signs(&store, 0, Role::Vote, first.0));
    }
}

/// A file of the first layout, whose marks had no checksum, is given checksums. One with a wrong checksum is refused.
#[test]
fn marks_of_the_first_layout_are_taken_over_and_changed_ones_are_not() {
    use redb::{Database, TableDefinition};
    const MARKS: TableDefinition<'_, (&[u8; 32], u8), &[u8]> = TableDefinition::new("watermark");
    const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let folder = Folder::new();
    let path = folder.path("safety.redb");
    let write = |schema: u64, mark: &[u8]| {
        let _ = fs::remove_file(&path);
        let database = Database::create(&path).unwrap();
        let txn = database.begin_write().unwrap();
        txn.open_table(META)
            .unwrap()
            .insert("schema", schema)
            .unwrap();
        let mut table = txn.open_table(MARKS).unwrap();
        table.insert((&[1; 32], Role::Vote as u8), mark).unwrap();
        drop(table);
        txn.commit().unwrap();
    };
    let mark = [17u64.to_le_bytes(), [0; 8], [0; 8]].concat();
    write(1, &mark);
    for _ in 0..2 {
        let store = SafetyStore::open(&path, keys(2), opening(3, false)).unwrap();
        assert_eq!((store.first_slot(), store.witness().next), (Slot(17), 17));
    }
    // As if set back by hand.
    write(2, &[&mark[..], &[0; 8]].concat());
    let opened = SafetyStore::open(&path, keys(2), opening(3, false));
    assert!(matches!(
        opened.map(|_| ()),
        Err(SafetyError::Damaged { .. })
    ));
}
