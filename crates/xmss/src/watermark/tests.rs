//! Marks in files: crashes, locks, links, copies and backups.

use super::*;
use crate::durable::{seal, unseal};
use crate::key::SecretKey;
use crate::signature::PublicKey;
use crate::tests::compact_key;
use alphorn_scheme::VoteGuard;
use alphorn_types::DecodeError;
use std::fs;

const VOTE: Role = Role::Vote;
const ME: Validator = Validator(4);

fn key() -> PublicKey {
    *compact_key(0..1).public_key()
}

/// A folder for the files of a key, and one for the marks of a user.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("mark")
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn create(&self, floor: u64) -> FileWatermark {
        let (path, state) = (self.path(), self.state());
        FileWatermark::create(&path, Some(&state), ME, &key(), Slot(floor)).unwrap()
    }

    fn open_at(&self, name: &str) -> Result<FileWatermark, WatermarkError> {
        let path = self.0.path().join(name);
        FileWatermark::open(&path, Some(&self.state()), ME, &key())
    }

    fn open(&self) -> FileWatermark {
        self.open_at("mark").unwrap()
    }
}

fn item(role: Role, message: u8) -> SignItem {
    SignItem::new(ME, role, [message; 32])
}

/// Requests a vote.
fn vote(store: &FileWatermark, slot: u64, message: u8) -> Result<Reservation, Refused> {
    store.reserve(Slot(slot), &item(VOTE, message))
}

#[test]
fn a_mark_outlives_the_process() {
    let home = Home::new();
    let store = home.create(10);
    assert!(vote(&store, 9, 1).is_err(), "below the floor");
    assert!(vote(&store, 10, 1).is_ok());
    drop(store);
    let store = home.open();
    assert_eq!(store.slot_next(VOTE), Some(Slot(11)));
    assert!(vote(&store, 10, 2).is_err());
    let other = SignItem::new(Validator(5), VOTE, [1; 32]);
    assert!(store.reserve(Slot(11), &other).is_err());
    let block = store.reserve(Slot(10), &item(Role::Block, 2));
    assert!(block.is_ok(), "another role");
    assert!(vote(&store, u64::MAX, 1).is_err());
}

#[test]
fn only_the_same_message_is_signed_again() {
    let home = Home::new();
    let store = home.create(0);
    assert!(!vote(&store, 3, 1).unwrap().is_again());
    drop(store);
    let store = home.open();
    let permit = vote(&store, 3, 1).unwrap();
    assert_eq!(permit.message(), &[1; 32]);
    assert!(
        permit.is_again(),
        "a scheme that signs nothing again must know"
    );
    assert!(vote(&store, 3, 2).is_err());
    // A check does not consume anything.
    let asked = |slot, message| store.check(Slot(slot), &item(VOTE, message));
    assert!(asked(3, 1).is_ok());
    assert!(asked(3, 2).is_err());
    assert!(asked(4, 2).is_ok());
    assert_eq!(store.slot_next(VOTE), Some(Slot(4)));
    assert!(vote(&store, 4, 1).is_ok());
    assert!(vote(&store, 3, 1).is_err(), "only the last slot");
}

#[test]
fn a_second_opener_a_second_creation_and_another_key_are_refused() {
    let home = Home::new();
    let store = home.create(0);
    assert!(matches!(
        home.open_at("mark"),
        Err(WatermarkError::InUse(_))
    ));
    drop(store);
    let (path, state) = (home.path(), home.state());
    let second = FileWatermark::create(&path, Some(&state), ME, &key(), Slot(0));
    assert!(matches!(second, Err(WatermarkError::Exists(_))));
    let other = FileWatermark::open(&path, Some(&state), ME, KeyName::of(b"other"));
    let error = MarksError::OtherKey;
    assert!(matches!(other, Err(WatermarkError::Damaged { error: e, .. }) if e == error));
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        home.open_at("mark"),
        Err(WatermarkError::Io { .. })
    ));
}

/// The states that a crash can leave: the temporary file is truncated, or complete but not renamed; or the first
/// mark is new and the user's is not.
#[test]
fn a_crash_at_any_step_loses_no_mark() {
    let home = Home::new();
    let store = home.create(0);
    assert!(vote(&store, 7, 1).is_ok());
    drop(store);
    let whole = Marks::new(&key(), Slot(9)).to_bytes();
    let beside = home.0.path().join("mark.new");
    for len in [0, 1, 50, whole.len() - 1, whole.len()] {
        fs::write(&beside, &whole[..len]).unwrap();
        assert_eq!(home.open().slot_next(VOTE), Some(Slot(8)));
    }
    // After the rename the new mark holds, and the user's follows it.
    let old = fs::read(home.path()).unwrap();
    fs::rename(&beside, home.path()).unwrap();
    assert_eq!(home.open().slot_next(VOTE), Some(Slot(9)));
    fs::write(home.path(), old).unwrap();
    let refused = home.open_at("mark").err();
    assert!(matches!(refused, Some(WatermarkError::Behind { .. })));
}

#[test]
fn a_retired_store_gives_out_nothing() {
    let home = Home::new();
    let store = home.create(3);
    assert!(vote(&store, 6, 1).is_ok());
    assert_eq!(store.floor(), Some(Slot(7)));
    assert_eq!(store.retire(Slot(20)), Ok(()));
    for slot in [6, 7, u64::MAX - 1, u64::MAX] {
        assert!(vote(&store, slot, 1).is_err(), "{slot}");
    }
    drop(store);
    let store = home.open();
    assert_eq!(store.slot_next(VOTE), Some(Slot(u64::MAX)));
    assert_eq!(store.slot_next(Role::Block), Some(Slot(u64::MAX)));
    drop(store);
    // At the new location it signs from the floor on, even if a lower one is requested.
    let floor = raise_floor(&home.state(), &key(), Slot(5)).unwrap();
    assert_eq!(floor, Slot(20));
    let moved = home.0.path().join("moved");
    fs::write(&moved, Marks::new(&key(), floor).to_bytes()).unwrap();
    let store = home.open_at("moved").unwrap();
    assert!(vote(&store, 19, 1).is_err());
    assert!(vote(&store, 20, 1).is_ok());
    assert_eq!(store.retire(Slot(u64::MAX)), Ok(()));
    drop(store);
    // It moved out of reach: an earlier copy does not sign, and only a floor helps.
    fs::write(&moved, Marks::new(&key(), Slot(50)).to_bytes()).unwrap();
    let refused = home.open_at("moved").err();
    let known = Slot(u64::MAX);
    assert!(matches!(refused, Some(WatermarkError::Behind { known: k, .. }) if k == known));
    let floor = raise_floor(&home.state(), &key(), Slot(50)).unwrap();
    assert_eq!(floor, Slot(50));
    assert!(vote(&home.open_at("moved").unwrap(), 50, 1).is_ok());
}

/// Knowledge of a key does not end with its mark: wherever it went, and whatever floor is requested when it comes
/// back, no slot is given out twice.
#[test]
fn a_floor_outlives_the_move_of_a_key() {
    type Move = fn(&FileWatermark) -> Result<(), Refused>;
    // The slot that is free then, and whether the key left the user's folder.
    let moves: [(Move, u64, bool); 4] = [
        (|store| store.retire(Slot(u64::MAX)), 7, true),
        (|store| store.give_away(Slot(0)), 7, true),
        // The node that takes it over starts later.
        (|store| store.give_away(Slot(41)), 41, true),
        // A slot lower than the free one.
        (|store| store.retire(Slot(3)), 7, false),
    ];
    for (i, (gone, next, left)) in moves.into_iter().enumerate() {
        let home = Home::new();
        let store = home.create(0);
        assert!(vote(&store, 6, 1).is_ok());
        assert_eq!(gone(&store), Ok(()));
        assert_eq!(store.floor(), Some(Slot(u64::MAX)), "move {i}");
        drop(store);
        let beside = Marks::from_bytes(&fs::read(home.path()).unwrap()).unwrap();
        assert!(beside.are_spent() && beside.floor_known() == Slot(next));
        // When spent again, it keeps what it knows.
        assert_eq!(home.open().give_away(Slot(0)), Ok(()));
        let beside = Marks::from_bytes(&fs::read(home.path()).unwrap()).unwrap();
        assert_eq!(beside.floor_known(), Slot(next));
        // A key that left signed from its floor on, so that slot is no more free than the ones below.
        let back = home.0.path().join("back");
        for floor in [0, 3, next] {
            let raised = raise_floor(&home.state(), &key(), Slot(floor));
            if !left {
                assert_eq!(raised.unwrap(), Slot(next), "move {i}, floor {floor}");
                continue;
            }
            let made = FileWatermark::create(&back, Some(&home.state()), ME, &key(), Slot(floor));
            let gone = Slot(u64::MAX);
            for refused in [raised.err(), made.err()] {
                let moved =
                    matches!(refused, Some(WatermarkError::Behind { known, .. }) if known == gone);
                assert!(moved, "move {i}, floor {floor}");
            }
            assert!(!back.exists());
        }
        let raised = raise_floor(&home.state(), &key(), Slot(next + 1)).unwrap();
        assert_eq!(raised, Slot(next + 1));
        let raised = raise_floor(&home.state(), &key(), Slot(3)).unwrap();
        assert_eq!(raised, Slot(next + 1));
    }
    // If all slots have been given out, that is not a floor that a spent mark keeps.
    let mut last = Marks::new(&key(), Slot(u64::MAX));
    last.marks.iter_mut().for_each(|mark| mark.last = [1; 32]);
    assert_eq!(last.floor_known(), Slot(u64::MAX));
}

/// A seed has a single set of one-time keys, whatever public key the active indices and the tree file produce.
#[test]
fn all_keys_of_one_seed_have_one_mark() {
    let home = Home::new();
    let create = |name: &str, key: &SecretKey| {
        let (path, state) = (home.0.path().join(name), home.state());
        FileWatermark::create(&path, Some(&state), ME, key.public_key(), Slot(0)).unwrap()
    };
    let first = compact_key(0..2);
    let mut tree = unseal(&first.to_tree_file()).unwrap().to_vec();
    let node = tree.len() - 4;
    tree[node] ^= 1;
    let secret = first.to_secret_file();
    let patched = SecretKey::from_files(&seal(tree), &secret, alphorn_exec::Backend::Portable);
    let keys = [first, compact_key(0..4), patched.unwrap()];
    for (slot, key) in (0..).zip(&keys) {
        let others = keys.iter().filter(|k| k.public_key() == key.public_key());
        assert_eq!(others.count(), 1);
        let store = create(&format!("key-{slot}"), key);
        for used in 0..slot {
            assert!(vote(&store, used, 2).is_err(), "key {slot}, slot {used}");
        }
        assert!(vote(&store, slot, 1).is_ok());
    }
    let (path, state) = (home.0.path().join("key-0"), home.state());
    let refused = FileWatermark::open(&path, Some(&state), ME, keys[0].public_key());
    assert!(matches!(refused, Err(WatermarkError::Behind { .. })));
}

/// Up to version 0.1 a key was named by its whole public key, both in the files and in the name of the user's
/// file.
#[test]
fn marks_under_the_name_of_before_are_read() {
    let home = Home::new();
    let before = KeyName::of(&key().to_bytes());
    let (path, state) = (home.path(), home.state());
    drop(FileWatermark::create(&path, Some(&state), ME, before, Slot(7)).unwrap());
    let store = home.open();
    assert!(vote(&store, 6, 1).is_err());
    assert!(vote(&store, 7, 1).is_ok());
    drop(store);
    assert_eq!(home.open().slot_next(VOTE), Some(Slot(8)));
    let refused = FileWatermark::open(&path, Some(&state), ME, before);
    assert!(matches!(refused, Err(WatermarkError::Damaged { .. })));
    // The user's mark alone is found as well.
    let home = Home::new();
    raise_floor(&home.state(), before, Slot(9)).unwrap();
    assert_eq!(home.create(3).floor(), Some(Slot(9)));
}

/// The write of either mark fails. A slot recorded in the first is used up.
#[test]
fn nothing_is_given_out_after_a_failed_write() {
    for in_state in [false, true] {
        let home = Home::new();
        let store = home.create(0);
        // A folder in the position of the new file.
        let file = &store.files[usize::from(in_state)].path;
        let beside = PathBuf::from(format!("{}.new", file.display()));
        fs::create_dir(&beside).unwrap();
        for slot in [1, 2] {
            assert_eq!(vote(&store, slot, 1).err(), Some(Refused::NotDurable));
        }
        assert_eq!(store.slot_next(VOTE), None);
        fs::remove_dir(&beside).unwrap();
        drop(store);
        assert_eq!(vote(&home.open(), 1, 2).is_err(), in_state);
        assert!(vote(&home.open(), 1 + u64::from(!in_state), 1).is_ok());
    }
}

#[test]
fn links_lead_to_one_mark() {
    let home = Home::new();
    drop(home.create(0));
    std::os::unix::fs::symlink(home.path(), home.0.path().join("soft")).unwrap();
    fs::hard_link(home.path(), home.0.path().join("hard")).unwrap();
    let store = home.open_at("soft").unwrap();
    assert!(matches!(
        home.open_at("mark"),
        Err(WatermarkError::InUse(_))
    ));
    assert!(vote(&store, 4, 1).is_ok());
    drop(store);
    assert!(vote(&home.open(), 4, 2).is_err());
    // A hard link keeps the old content once the other name has a new file.
    let refused = home.open_at("hard").err();
    assert!(matches!(refused, Some(WatermarkError::Behind { .. })));
}

/// Two copies of a key are one key: the second process is rejected while the first holds the lock, and afterwards
/// if it does not know what was signed.
#[test]
fn copies_have_one_lock_and_one_mark() {
    let home = Home::new();
    drop(home.create(0));
    let copy = home.0.path().join("copy");
    fs::copy(home.path(), &copy).unwrap();
    let store = home.open_at("copy").unwrap();
    assert!(matches!(
        home.open_at("mark"),
        Err(WatermarkError::InUse(_))
    ));
    assert!(vote(&store, 4, 1).is_ok());
    drop(store);
    let refused = home.open_at("mark").err();
    let (next, known) = (Slot(0), Slot(5));
    assert!(matches!(
        refused,
        Some(WatermarkError::Behind { next: n, known: k, .. }) if (n, k) == (next, known)
    ));
    // For the same slot, with another message.
    let mut other = Marks::new(&key(), Slot(0));
    other.marks[0].slot_next = 5;
    other.marks[0].last = [3; 32];
    fs::write(home.path(), other.to_bytes()).unwrap();
    let refused = home.open_at("mark").err();
    assert!(matches!(refused, Some(WatermarkError::Behind { .. })));
    // Another user, or another host.
    let elsewhere = home.0.path().join("elsewhere");
    let refused = FileWatermark::open(&copy, Some(&elsewhere), ME, &key()).err();
    assert!(matches!(refused, Some(WatermarkError::Unknown { .. })));
}

/// Removing a lock lets a second process in; the first then gives out nothing.
#[test]
fn a_lock_that_is_removed_ends_its_holder() {
    for in_state in [false, true] {
        let home = Home::new();
        let first = home.create(0);
        assert!(vote(&first, 1, 1).is_ok());
        let locks = |folder: PathBuf| {
            let files = fs::read_dir(folder)
                .unwrap()
                .map(|file| file.unwrap().path());
            files.filter(|path| path.extension().is_some_and(|e| e == "lock"))
        };
        locks(home.0.path().to_owned()).for_each(|lock| fs::remove_file(lock).unwrap());
        if in_state {
            locks(home.state()).for_each(|lock| fs::remove_file(lock).unwrap());
            let second = home.open();
            assert!(vote(&second, 9, 2).is_ok());
            let state = second.files[1].path.clone();
            drop(second);
            for refused in [first.retire(Slot(5)), first.give_away(Slot(5))] {
                assert_eq!(refused, Err(Refused::Unlocked));
            }
            // The result is the same if the locks are checked only once the new file is written.
            let old = first.files[1].write(&Marks::new(&key(), Slot(5)));
            assert!(matches!(old, Err(WatermarkError::InUse(_))));
            let marks = Marks::from_bytes(&fs::read(state).unwrap()).unwrap();
            assert_eq!(marks.floor(), Slot(10));
        } else {
            // The lock of the key itself still exists.
            assert!(matches!(
                home.open_at("mark"),
                Err(WatermarkError::InUse(_))
            ));
        }
        for slot in [1, 2, 3] {
            assert_eq!(
                vote(&first, slot, 1).err(),
                Some(Refused::Unlocked),
                "{slot}"
            );
        }
    }
}

#[test]
fn a_vote_never_goes_back() {
    let home = Home::new();
    let store = home.create(0);
    let vote = |store: &FileWatermark, slot, source, target| {
        let guard = VoteGuard {
            source: Slot(source),
            target: Slot(target),
        };
        let item = SignItem {
            guard: Some(guard),
            ..item(VOTE, 1)
        };
        store.reserve(Slot(slot), &item)
    };
    assert!(vote(&store, 3, 1, 3).is_ok());
    assert!(matches!(
        vote(&store, 4, 0, 4),
        Err(Refused::Surrounds { .. })
    ));
    assert!(matches!(
        vote(&store, 4, 1, 2),
        Err(Refused::Surrounds { .. })
    ));
    assert!(vote(&store, 4, 1, 4).is_ok());
    drop(store);
    // A new mark above all slots still has the checkpoints, taken from the user's mark.
    let floor = raise_floor(&home.state(), &key(), Slot(9)).unwrap();
    fs::write(home.path(), Marks::new(&key(), floor).to_bytes()).unwrap();
    let store = home.open();
    assert!(matches!(
        vote(&store, 9, 0, 9),
        Err(Refused::Surrounds { .. })
    ));
    assert!(vote(&store, 9, 1, 9).is_ok());
}

/// Files of six roles do not mention the two that came later, in which nothing was signed. However, a floor, which
/// covers what another process signed, applies to all roles.
#[test]
fn marks_of_six_roles_are_read() {
    const ROLE_BYTES: usize = 3 * 8 + 32;
    let before = |marks: &Marks| {
        let bytes = marks.to_bytes();
        let content = unseal(&bytes).unwrap();
        seal(content[..content.len() - 2 * ROLE_BYTES].to_vec())
    };
    let read = Marks::from_bytes(&before(&Marks::new(&key(), Slot(5)))).unwrap();
    let next = |read: &Marks| Role::ALL.map(|role| read.slot_next(role).0);
    assert_eq!(next(&read), [5; 8]);
    let mut signed = Marks::new(&key(), Slot(5));
    signed.marks[3].slot_next = 90;
    let read = Marks::from_bytes(&before(&signed)).unwrap();
    assert_eq!(next(&read), [5, 5, 5, 90, 5, 5, 5, 5]);
    assert!(read.belong_to(&key()) && !read.are_spent());
    let spent = before(&Marks::new(&key(), Slot(u64::MAX)));
    assert!(Marks::from_bytes(&spent).unwrap().are_spent());
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
