//! The marks beside keystores whose keys sign once in each slot, and how they move into a node.
//!
//! A mark says which slots are free, and whoever holds it alone may sign. A node has marks of its
//! own, in its safety store. So a key moves: the store takes its mark over, durably, and then the one
//! beside the keystore is spent. A crash between the two leaves both, of which the next start takes
//! the greater one. From then on the keystore is of use to this data folder alone.

use super::document::in_slots;
use crate::error::Result;
use alphorn_node::safety::SafetyStore;
use alphorn_scheme::{Refused, Role};
use alphorn_types::{Slot, Validator};
use alphorn_xmss::{FileWatermark, SecretKey, WatermarkError};
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file tool holds one key a store.
const OWNER: Validator = Validator(0);

/// The file beside a key.
pub(super) fn beside(path: &Path, extension: &str) -> PathBuf {
    path.with_extension(extension)
}

/// The mark beside a key, for this process alone; none if there is no such file.
pub(super) fn open_mark(key: &SecretKey, path: &Path) -> Result<(PathBuf, Option<FileWatermark>)> {
    let mark = beside(path, "mark");
    match FileWatermark::open(&mark, OWNER, key.public_key()) {
        Ok(store) => Ok((mark, Some(store))),
        Err(WatermarkError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {
            Ok((mark, None))
        }
        Err(error) => Err(error.into()),
    }
}

/// The error of a key whose mark is not there.
pub(super) fn no_mark(mark: &Path) -> anyhow::Error {
    anyhow!(
        "{}: there is no mark of the slots that are signed; if the key signs nowhere else, \
         `keys import --floor SLOT` makes one above every signed slot",
        mark.display()
    )
}

/// Why a slot is not signed.
pub(super) fn reason(slot: u64, refused: &Refused) -> String {
    match refused {
        Refused::Used { next: u64::MAX, .. } => "the key moved elsewhere, it signs no more".into(),
        Refused::Used { next, .. } => format!(
            "slot {slot} is refused: the first free slot is {next}, and no slot is signed twice"
        ),
        other => format!("slot {slot} is refused: {other}"),
    }
}

/// The mark beside a keystore; no other process uses it meanwhile.
pub(crate) struct KeyMark {
    pub(super) validator: Validator,
    pub(super) path: PathBuf,
    /// The slots that the key was made for.
    pub(super) slots: Range<u64>,
    /// None if there is no file.
    pub(super) store: Option<FileWatermark>,
}

/// The marks of a node's keystores; none of a scheme whose keys have no slots.
#[derive(Default)]
pub(crate) struct KeyMarks(Vec<KeyMark>);

/// What a mark beside a keystore says.
enum Said {
    /// The key signs in this slot and above.
    Next(Slot),
    /// The key moved.
    Moved,
    /// Nothing: there is no mark.
    Missing,
}

impl KeyMark {
    fn said(&self) -> Result<Said> {
        let Some(store) = &self.store else {
            return Ok(Said::Missing);
        };
        let next = Role::ALL.map(|role| store.slot_next(role));
        let next = next.into_iter().max().flatten();
        match next.context("a mark without a slot")? {
            Slot(u64::MAX) => Ok(Said::Moved),
            slot => Ok(Said::Next(slot)),
        }
    }
}

impl KeyMark {
    fn spend(&self) -> Result<()> {
        if let Some(store) = &self.store {
            let spent = store.retire();
            spent.map_err(|refused| anyhow!("{}: {refused}", self.path.display()))?;
        }
        Ok(())
    }

    /// Says so if all slots of the key are over: the node runs, and the validator is silent.
    fn warn(&self, first: Slot) {
        if self.slots.end <= first.0 {
            let (path, slots) = (self.path.display(), in_slots(&self.slots));
            eprintln!("alphorn: {path}: the key signs in {slots}, the node from slot {first} on");
        }
    }
}

impl KeyMarks {
    pub(super) fn new(marks: Vec<KeyMark>) -> Self {
        KeyMarks(marks)
    }

    /// Moves the marks into the store of a node. Refuses keys of which neither a mark nor the store
    /// says where they signed, and those that moved elsewhere.
    pub(crate) fn move_into(self, safety: &mut SafetyStore, now_ms: u64) -> Result<()> {
        let mut floors = BTreeMap::<Validator, Slot>::new();
        for mark in &self.0 {
            let known = safety.knows(mark.validator)?;
            match mark.said()? {
                Said::Next(slot) => {
                    let floor = floors.entry(mark.validator).or_default();
                    *floor = slot.max(*floor);
                }
                Said::Moved | Said::Missing if known => {}
                Said::Moved => {
                    return Err(anyhow!(
                        "{}: the key moved elsewhere, and --data-dir has no marks of it; if it signs \
                         nowhere else, `keys import --floor SLOT` makes one above every signed slot",
                        mark.path.display()
                    )
                    .into());
                }
                Said::Missing => return Err(no_mark(&mark.path).into()),
            }
        }
        if !floors.is_empty() {
            safety.take_over(&floors, now_ms)?;
            for mark in &self.0 {
                mark.spend()?;
            }
        }
        for mark in &self.0 {
            mark.warn(safety.first_slot());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_node::safety::Opening;
    use alphorn_xmss::{Exec, Purpose, Set};

    const ME: Validator = Validator(3);

    fn store(folder: &Path) -> SafetyStore {
        let opening = Opening {
            now_ms: 0,
            slot: Slot(0),
            before_genesis: true,
        };
        let path = folder.join("safety.redb");
        SafetyStore::open(&path, BTreeMap::from([(ME, [7; 32])]), opening).unwrap()
    }

    /// Whatever a crash leaves of a move, the next start ends it, at the greater mark.
    #[test]
    fn a_move_that_was_cut_off_is_ended_by_the_next_start() {
        let home = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let exec = Exec::new(alphorn_stark::Backend::portable(), None);
        let keys = [(Purpose::Vote, 0..64), (Purpose::Duty, 0..64)]
            .map(|(purpose, active)| SecretKey::interop(Set::Test, purpose, 0, active, exec));
        let keys = keys.map(|key| key.unwrap());
        let path = |i: usize| home.path().join(format!("keystore-{i}.json"));
        for (i, floor) in [5, 2].into_iter().enumerate() {
            let mark = beside(&path(i), "mark");
            FileWatermark::create(&mark, OWNER, keys[i].public_key(), Slot(floor)).unwrap();
        }
        let marks = || {
            let mark = |i: usize| {
                let (path, store) = open_mark(&keys[i], &path(i)).unwrap();
                let slots = keys[i].slots();
                KeyMark {
                    validator: ME,
                    path,
                    slots,
                    store,
                }
            };
            KeyMarks::new(vec![mark(0), mark(1)])
        };
        let mut safety = store(home.path());
        // Taken over, and only one of both spent; then the other signed as a file.
        safety
            .take_over(&BTreeMap::from([(ME, Slot(5))]), 0)
            .unwrap();
        drop(safety);
        marks().0[0].spend().unwrap();
        let signed = marks().0.remove(1).store.unwrap();
        let reserved = signed.reserve_message(Role::Block, Slot(8), &[1; 32]);
        assert!(reserved.is_ok());
        drop(signed);
        let mut safety = store(home.path());
        marks().move_into(&mut safety, 0).unwrap();
        assert_eq!(safety.first_slot(), Slot(9));
        drop(safety);
        let mut safety = store(home.path());
        marks().move_into(&mut safety, 0).unwrap();
        // Another folder has no part in it.
        let refused = marks().move_into(&mut store(other.path()), 0).unwrap_err();
        assert!(refused.to_string().contains("the key moved elsewhere"));
        std::fs::remove_file(beside(&path(0), "mark")).unwrap();
        let refused = marks().move_into(&mut store(other.path()), 0).unwrap_err();
        assert!(refused.to_string().contains("there is no mark"));
        assert!(!store(other.path()).knows(ME).unwrap());
    }
}
