//! The marks next to keystores whose keys sign once per slot, and how they move into a node.
//!
//! A mark records which slots are free, and its exclusive holder may sign. A node keeps its own marks
//! in its safety store. A key is therefore moved in two steps: the store durably takes over its mark,
//! and then the mark next to the keystore is spent. A crash in between leaves both, and the next start
//! takes the greater one. From then on the keystore can be used only with this data folder.

use super::input::Opened;
use super::output::{Access, Staged};
use super::statement::{ToSign, in_slots};
use crate::error::{Error, Result};
use crate::report::{not_beside, note};
use alphorn_node::safety::SafetyStore;
use alphorn_scheme::{Refused, Reservation, Role, SignItem, Watermark};
use alphorn_types::{Slot, Validator};
use alphorn_xmss::{FileWatermark, KeyName, Marks, SecretKey, WatermarkError, raise_floor};
use anyhow::{Context, anyhow};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file tool holds one key per store.
pub(super) const OWNER: Validator = Validator(0);
/// Overrides the folder of the user's marks; by default it is the folder for program state.
const FOLDER_VARIABLE: &str = "ALPHORN_STATE_DIR";
/// Maximum size of a mark file in bytes; a typical one has about 300.
const MARK_BYTES_MAX: usize = 4096;

/// A key that signs once per slot.
pub(super) trait Marked {
    /// Returns its name in its marks.
    fn name(&self) -> KeyName;
    /// Whether anyone can compute it, in which case it needs no second mark.
    fn is_public(&self) -> bool;
    /// Returns the first slot in which it signs.
    fn first_slot(&self) -> Slot;
}

impl Marked for SecretKey {
    fn name(&self) -> KeyName {
        self.public_key().into()
    }

    fn is_public(&self) -> bool {
        self.is_interop()
    }

    fn first_slot(&self) -> Slot {
        Slot(self.slots().start)
    }
}

/// Returns the file next to a key, whose path may be a link.
pub(super) fn beside(path: &Path, extension: &str) -> PathBuf {
    let resolved = path.canonicalize();
    resolved
        .as_deref()
        .unwrap_or(path)
        .with_extension(extension)
}

/// Returns the folder of the user's marks; it need not exist.
fn state_folder() -> Result<PathBuf> {
    let folder = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
    let folder = match folder {
        Some(folder) => PathBuf::from(folder),
        None => {
            let project = directories::ProjectDirs::from("", "", "alphorn")
                .with_context(|| format!("no home folder: set {FOLDER_VARIABLE}"))?;
            let state = project.state_dir();
            state.unwrap_or(project.data_local_dir()).to_owned()
        }
    };
    Ok(folder.join("marks"))
}

/// Returns the folder of a key's second mark. A key that anyone can compute needs none.
fn state_of(key: &dyn Marked) -> Result<Option<PathBuf>> {
    match key.is_public() {
        true => Ok(None),
        false => state_folder().map(Some),
    }
}

/// Reads the content of a mark file, if it is valid.
fn read_marks(mark: &Path) -> Option<Marks> {
    let opened = Opened::read(mark, MARK_BYTES_MAX).ok()?;
    Marks::from_bytes(&opened.bytes).ok()
}

/// Creates the marks of a key at a new path. No slot below `floor` is free or, without a floor, none
/// below the key's first slot. Returns none if the same key already has its mark there, which is never
/// reset.
fn new_mark(key: &dyn Marked, mark: &Path, floor: Option<u64>) -> Result<Option<Marks>> {
    let public = key.name();
    if let Some(floor) = floor {
        return Ok(Some(Marks::new(public, Slot(floor))));
    }
    if read_marks(mark).is_some_and(|marks| marks.belong_to(public)) {
        return Ok(None);
    }
    let mut floor = key.first_slot();
    if let Some(state) = state_of(key)? {
        floor = raise_floor(&state, public, floor).map_err(explained)?;
    }
    Ok(Some(Marks::new(public, floor)))
}

/// Adds the marks of a key at `path`, as returned by [`new_mark`].
pub(super) fn add_mark(
    key: &dyn Marked,
    path: &Path,
    floor: Option<u64>,
    staged: &mut Staged,
) -> Result<()> {
    let mark = path.with_extension("mark");
    match new_mark(key, &mark, floor)? {
        Some(marks) => staged.add(&mark, Access::Private, &marks.to_bytes()),
        None => Ok(()),
    }
}

/// Registers a key that moved to another path, where it signs from `floor` on; returns the floor in force.
pub(super) fn hand_over(key: &dyn Marked, held: Option<FileWatermark>, floor: u64) -> Result<u64> {
    let moves = held.is_some() && !key.is_public();
    if let Some(store) = held {
        let spent = store.retire(Slot(floor));
        spent.map_err(|refused| anyhow!("{}: {refused}", store.path().display()))?;
    }
    match moves {
        true => Ok(floor),
        false => {
            let raised = raise_floor(&state_folder()?, key.name(), Slot(floor));
            Ok(raised.map_err(explained)?.0)
        }
    }
}

/// Describes the state of a key according to the mark next to it.
pub(super) fn describe(path: &Path) -> Map<String, Value> {
    // A key signs in roles of one purpose; for the others its mark stays at the floor.
    let next = match read_marks(&beside(path, "mark")).map(|marks| marks.floor().0) {
        None => json!("none: no mark is there, it cannot sign"),
        Some(u64::MAX) => json!("none: the key moved elsewhere"),
        Some(slot) => json!(slot),
    };
    Map::from_iter([("slot_next".to_owned(), next)])
}

/// Slot and message of a vote.
pub(super) fn asked<'a>(what: &ToSign<'a>) -> anyhow::Result<(u64, &'a [u8; 32])> {
    let message = what.message.try_into().context("a message of 32 bytes")?;
    Ok((what.slot.context("a signature has a slot")?, message))
}

/// Opens the mark of a key exclusively for this process. It is writable and has the requested slot free.
pub(super) fn ready(key: &dyn Marked, what: &ToSign<'_>) -> Result<FileWatermark> {
    let (slot, message) = asked(what)?;
    let (mark, store) = open_mark(key, what.path)?;
    let store = store.ok_or_else(|| no_mark(&mark))?;
    let path = what.path.display();
    store
        .check(Slot(slot), &SignItem::new(OWNER, Role::Vote, *message))
        .map_err(|refused| Error::Check(format!("{path}: {}", reason(slot, &refused))))?;
    // The marks are replaced by new files.
    for folder in store.folders() {
        tempfile::tempfile_in(folder)
            .map_err(|error| not_beside(&folder.join("mark"), &error))
            .with_context(|| format!("cannot write in {}", folder.display()))?;
    }
    Ok(store)
}

/// Reserves the requested slot permanently.
pub(super) fn reserve(store: &FileWatermark, what: &ToSign<'_>) -> Result<Reservation> {
    let (slot, message) = asked(what)?;
    let path = what.path.display();
    let permit = store.reserve(Slot(slot), &SignItem::new(OWNER, Role::Vote, *message));
    permit.map_err(|refused| Error::Check(format!("{path}: {}", reason(slot, &refused))))
}

/// Opens the mark next to a key exclusively for this process; none if there is no such file.
pub(super) fn open_mark(key: &dyn Marked, path: &Path) -> Result<(PathBuf, Option<FileWatermark>)> {
    let mark = beside(path, "mark");
    let state = state_of(key)?;
    match open(key, &mark, state.as_deref()) {
        Ok(store) => Ok((mark, store)),
        Err(error) => Err(explained(error)),
    }
}

fn open(
    key: &dyn Marked,
    mark: &Path,
    state: Option<&Path>,
) -> std::result::Result<Option<FileWatermark>, WatermarkError> {
    match FileWatermark::open(mark, state, OWNER, key.name()) {
        Ok(store) => Ok(Some(store)),
        Err(WatermarkError::Io { path, error })
            if path == mark && error.kind() == ErrorKind::NotFound =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the first free slot of a key that is about to be moved, and the mark next to it. There is no
/// mark if the file is missing or the key was moved before; with a `floor`, also if the mark cannot be
/// trusted.
pub(super) fn hold(
    key: &dyn Marked,
    path: &Path,
    floor: Option<u64>,
) -> Result<(Option<u64>, Option<FileWatermark>)> {
    use WatermarkError::{Behind, Damaged, Unknown};
    let (mark, state) = (beside(path, "mark"), state_of(key)?);
    let store = match open(key, &mark, state.as_deref()) {
        Err(Behind { .. } | Unknown { .. } | Damaged { .. }) if floor.is_some() => None,
        Err(error) => return Err(explained(error)),
        Ok(store) => store,
    };
    if let Some(store) = store
        && let Some(slot) = store.floor().filter(|slot| slot.0 < u64::MAX)
    {
        return Ok((Some(slot.0), Some(store)));
    }
    // A mark with no slot to give out still says where the key signed, and a floor must not go below
    // that. It is not enough on its own, since it may be an older copy.
    let known = floor.and_then(|_| read_marks(&mark));
    let known = known.filter(|marks| marks.belong_to(key.name()));
    // At its new location it signed from its floor on.
    if let (Some(marks), Some(next)) = (&known, floor.map(Slot))
        && marks.floor() == Slot(u64::MAX)
        && next <= marks.floor_known()
    {
        return Err(explained(Behind {
            path: mark.clone(),
            next,
            state: mark,
            known: marks.floor(),
        }));
    }
    Ok((known.map(|marks| marks.floor_known().0), None))
}

/// Explains an invalid mark, and how to recover.
fn explained(error: WatermarkError) -> Error {
    const FLOOR: &str = "if no other copy signs, `keys import --floor SLOT` goes on above every slot \
                         that was ever signed";
    match error {
        WatermarkError::Behind { path, known, .. } if known == Slot(u64::MAX) => {
            let path = path.display();
            Error::Check(format!(
                "{path}: the key moved elsewhere, it signs no more; {FLOOR}"
            ))
        }
        WatermarkError::Behind {
            path, next, known, ..
        } => Error::Check(format!(
            "{}: the mark was copied or put back from a backup: it says that slot {next} is free, \
             but the key signed up to slot {}; {FLOOR}",
            path.display(),
            known.0.saturating_sub(1)
        )),
        WatermarkError::Unknown { path, state } => Error::Check(format!(
            "{}: this user never signed with the key: there is no {}; {FLOOR}",
            path.display(),
            state.display()
        )),
        error => error.into(),
    }
}

/// Returns the error for a key without a mark.
pub(super) fn no_mark(mark: &Path) -> anyhow::Error {
    anyhow!(
        "{}: there is no mark of the slots that are signed; if the key signs nowhere else, \
         `keys import --floor SLOT` makes one above every signed slot",
        mark.display()
    )
}

/// Explains why a slot is not signed.
pub(super) fn reason(slot: u64, refused: &Refused) -> String {
    match refused {
        Refused::Used { next, .. } => used(slot, *next),
        other => format!("slot {slot} is refused: {other}"),
    }
}

/// Explains why a slot below the first free one is not signed.
pub(super) fn used(slot: u64, next: u64) -> String {
    match next {
        u64::MAX => "the key moved elsewhere, it signs no more".into(),
        _ => format!(
            "slot {slot} is refused: the first free slot is {next}, and no slot is signed twice"
        ),
    }
}

/// The mark next to a keystore, held so that no other process uses it.
pub(crate) struct KeyMark {
    pub(super) validator: Validator,
    pub(super) path: PathBuf,
    /// The slots that the key was made for.
    pub(super) slots: Range<u64>,
    /// None if there is no file.
    pub(super) store: Option<FileWatermark>,
}

/// The marks of a node's keystores; none for a scheme whose keys have no slots.
#[derive(Default)]
pub(crate) struct KeyMarks(Vec<KeyMark>);

/// What the mark next to a keystore says.
enum Said {
    /// The key signs from this slot on.
    Next(Slot),
    /// The key moved.
    Moved,
    /// There is no mark.
    Missing,
}

impl KeyMark {
    fn said(&self) -> Result<Said> {
        let Some(store) = &self.store else {
            return Ok(Said::Missing);
        };
        match store.floor().context("a mark without a slot")? {
            Slot(u64::MAX) => Ok(Said::Moved),
            slot => Ok(Said::Next(slot)),
        }
    }
}

impl KeyMark {
    /// Notes that the node signs with the key from slot `first` on.
    fn spend(&self, first: Slot) -> Result<()> {
        if let Some(store) = &self.store {
            let spent = store.give_away(first);
            spent.map_err(|refused| anyhow!("{}: {refused}", self.path.display()))?;
        }
        Ok(())
    }

    /// Warns if all slots of the key are in the past: the node runs, but the validator is silent.
    fn warn(&self, first: Slot) {
        if self.slots.end <= first.0 {
            let (path, slots) = (self.path.display(), in_slots(&self.slots));
            note(&format!(
                "alphorn: {path}: the key signs in {slots}, the node from slot {first} on"
            ));
        }
    }
}

impl KeyMarks {
    pub(super) fn new(marks: Vec<KeyMark>) -> Self {
        KeyMarks(marks)
    }

    /// Moves the marks into a node's store. Rejects keys that have no record of where they signed in
    /// either a mark or the store, and keys that moved elsewhere.
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
                mark.spend(safety.first_slot())?;
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
    use alphorn_exec::Exec;
    use alphorn_node::safety::Opening;
    use alphorn_xmss::{Purpose, Set};

    const ME: Validator = Validator(3);

    fn store(folder: &Path) -> SafetyStore {
        let opening = Opening {
            now_ms: 0,
            slot: Slot(0),
            before_genesis: true,
            resume: false,
        };
        let path = folder.join("safety.redb");
        SafetyStore::open(&path, BTreeMap::from([(ME, [7; 32])]), opening).unwrap()
    }

    /// Whatever a crash leaves of a move, the next start completes it at the greater mark.
    #[test]
    fn a_move_that_was_cut_off_is_ended_by_the_next_start() {
        let home = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let exec = Exec::new(alphorn_exec::Backend::Portable, None);
        let keys = [(Purpose::Vote, 0..64), (Purpose::Duty, 0..64)]
            .map(|(purpose, active)| SecretKey::interop(Set::Test, purpose, 0, active, exec));
        let keys = keys.map(|key| key.unwrap());
        let path = |i: usize| home.path().join(format!("keystore-{i}.json"));
        for (i, floor) in [5, 2].into_iter().enumerate() {
            let mark = beside(&path(i), "mark");
            let key = keys[i].public_key();
            FileWatermark::create(&mark, None, OWNER, key, Slot(floor)).unwrap();
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
        // Taken over, but only one of the two spent; then the other signed as a file.
        safety
            .take_over(&BTreeMap::from([(ME, Slot(5))]), 0)
            .unwrap();
        drop(safety);
        marks().0[0].spend(Slot(5)).unwrap();
        let signed = marks().0.remove(1).store.unwrap();
        let item = SignItem::new(OWNER, Role::Block, [1; 32]);
        let reserved = signed.reserve(Slot(8), &item);
        assert!(reserved.is_ok());
        drop(signed);
        let mut safety = store(home.path());
        marks().move_into(&mut safety, 0).unwrap();
        assert_eq!(safety.first_slot(), Slot(9));
        drop(safety);
        let mut safety = store(home.path());
        marks().move_into(&mut safety, 0).unwrap();
        // Another folder is not involved.
        let refused = marks().move_into(&mut store(other.path()), 0).unwrap_err();
        assert!(refused.to_string().contains("the key moved elsewhere"));
        std::fs::remove_file(beside(&path(0), "mark")).unwrap();
        let refused = marks().move_into(&mut store(other.path()), 0).unwrap_err();
        assert!(refused.to_string().contains("there is no mark"));
        assert!(!store(other.path()).knows(ME).unwrap());
    }
}
