//! What may be signed, and when. Crashes at any moment are in `crate::crash`.

mod damage;

use super::*;
use crate::disk::Disk;
use alphorn_scheme::VoteGuard;
use std::sync::atomic::{AtomicBool, Ordering};

fn keys(count: u32) -> BTreeMap<Validator, KeyId> {
    (0..count)
        .map(|v| (Validator(v), [v as u8 + 1; 32]))
        .collect()
}

fn opening(slot: u64, before_genesis: bool) -> Opening {
    Opening {
        now_ms: 1_000 * slot,
        slot: Slot(slot),
        before_genesis,
        resume: false,
    }
}

fn item(validator: u32, role: Role, guard: Option<(u64, u64)>) -> SignItem {
    SignItem {
        validator: Validator(validator),
        role,
        message: [7; 32],
        guard: guard.map(|(source, target)| VoteGuard {
            source: Slot(source),
            target: Slot(target),
        }),
    }
}

/// Whether the store lets a validator sign.
fn signs(store: &SafetyStore, validator: u32, role: Role, slot: u64) -> bool {
    let items = [item(validator, role, None)];
    match store.grant(Slot(slot), &items, 1_000 * slot) {
        Ok(grant) => {
            let other = SignItem::new(Validator(validator), role, [8; 32]);
            let other = grant.reserve(Slot(slot), &other);
            assert!(other.is_err(), "a right is of one message");
            let permit = grant.reserve(Slot(slot), &items[0]);
            assert!(permit.is_ok(), "a granted right is there");
            let again = grant.reserve(Slot(slot), &items[0]);
            assert!(again.is_err(), "and is there once");
            true
        }
        Err(_) => false,
    }
}

#[test]
fn a_right_is_reserved_first_and_used_once() {
    let store = SafetyStore::open_backend(Disk::default, keys(2), opening(0, true)).unwrap();
    assert_eq!(store.first_slot(), Slot(0));
    assert!(!signs(&store, 0, Role::Vote, 0), "nothing is reserved yet");
    store.reserve_slot(Slot(0), 0).unwrap();
    assert!(signs(&store, 0, Role::Vote, 0));
    assert!(!signs(&store, 0, Role::Vote, 0));
    assert!(signs(&store, 0, Role::Aggregate, 0));
    assert!(signs(&store, 1, Role::Vote, 0));
    assert!(!signs(&store, 2, Role::Vote, 0), "a stranger");
    store.reserve_slot(Slot(1), 1_000).unwrap();
    assert!(signs(&store, 1, Role::Collection, 0), "a late result");
    store.reserve_slot(Slot(SALVAGE_SLOTS + 1), 40_000).unwrap();
    assert!(!signs(&store, 1, Role::Block, 0), "too late");
    assert!(signs(&store, 1, Role::Block, 1));
    assert!(
        !signs(&store, 1, Role::Block, 5),
        "a slot that was passed over"
    );
}

#[test]
fn a_job_gets_all_of_its_rights_or_none() {
    let store = SafetyStore::open_backend(Disk::default, keys(2), opening(0, true)).unwrap();
    store.reserve_slot(Slot(0), 0).unwrap();
    assert!(signs(&store, 1, Role::Vote, 0));
    let both = [item(0, Role::Vote, None), item(1, Role::Vote, None)];
    let (index, refused) = store.grant(Slot(0), &both, 0).err().unwrap();
    assert_eq!(index, 1);
    assert!(matches!(refused, Refused::Used { validator: 1, .. }));
    assert!(signs(&store, 0, Role::Vote, 0), "a refusal takes nothing");
    let twice = [item(0, Role::Block, None), item(0, Role::Block, None)];
    assert!(store.grant(Slot(0), &twice, 0).is_err());
}

#[test]
fn sources_never_go_back_even_over_a_restart() {
    let disk = Disk::default();
    let store = SafetyStore::open_backend(disk.opener(), keys(1), opening(0, true)).unwrap();
    for slot in 0..=4 {
        store.reserve_slot(Slot(slot), 0).unwrap();
    }
    let vote = |store: &SafetyStore, slot, guard| {
        store
            .grant(Slot(slot), &[item(0, Role::Vote, Some(guard))], 0)
            .map(|_| ())
    };
    vote(&store, 3, (2, 3)).unwrap();
    let (_, refused) = vote(&store, 4, (1, 4)).unwrap_err();
    assert!(matches!(
        refused,
        Refused::Surrounds {
            source_min: 2,
            target_min: 3,
            ..
        }
    ));
    drop(store);
    let store =
        SafetyStore::open_backend(disk.crashed(|| false).opener(), keys(1), opening(4, false));
    let store = store.unwrap();
    store.reserve_slot(Slot(6), 0).unwrap();
    let (_, refused) = vote(&store, 6, (1, 6)).unwrap_err();
    assert!(matches!(refused, Refused::Surrounds { source_min: 2, .. }));
    vote(&store, 6, (2, 6)).unwrap();
}

#[test]
fn a_restart_signs_nothing_before_its_first_slot() {
    let disk = Disk::default();
    let store = SafetyStore::open_backend(disk.opener(), keys(1), opening(10, true)).unwrap();
    assert_eq!(store.first_slot(), Slot(0), "never ran");
    store.reserve_slot(Slot(10), 10_000).unwrap();
    drop(store);
    let restarted =
        SafetyStore::open_backend(disk.crashed(|| false).opener(), keys(1), opening(10, true));
    let restarted = restarted.unwrap();
    assert_eq!(restarted.first_slot(), Slot(12));
    restarted.reserve_slot(Slot(11), 11_000).unwrap();
    assert!(!signs(&restarted, 0, Role::Vote, 11));
    restarted.reserve_slot(Slot(12), 12_000).unwrap();
    assert!(signs(&restarted, 0, Role::Vote, 12));
    drop(restarted);
    let back =
        SafetyStore::open_backend(disk.crashed(|| false).opener(), keys(1), opening(3, false));
    assert!(matches!(
        back,
        Err(SafetyError::ClockBehind {
            last_ms: 10_000,
            ..
        })
    ));
}

#[test]
fn a_full_disk_signs_nothing_but_what_was_durable_before() {
    let disk = Disk::default();
    let store = SafetyStore::open_backend(disk.opener(), keys(1), opening(0, true)).unwrap();
    store.reserve_slot(Slot(0), 0).unwrap();
    disk.fill(true);
    assert!(store.reserve_slot(Slot(1), 0).is_err());
    assert!(!signs(&store, 0, Role::Vote, 1));
    let moved = [item(0, Role::Vote, Some((1, 1)))];
    let refused = store.grant(Slot(0), &moved, 0).err();
    assert_eq!(refused, Some((0, Refused::NotDurable)));
    assert!(
        signs(&store, 0, Role::Block, 0),
        "its mark was durable before"
    );
}

#[test]
fn a_store_goes_on_when_there_is_room_again_and_not_with_a_file_that_has_less() {
    let disk = Disk::default();
    let store = SafetyStore::open_backend(disk.opener(), keys(1), opening(0, true)).unwrap();
    store.reserve_slot(Slot(3), 0).unwrap();
    disk.fill(true);
    assert!(store.reserve_slot(Slot(4), 0).is_err());
    assert!(store.reserve_slot(Slot(4), 0).is_err(), "still full");
    disk.fill(false);
    store.reserve_slot(Slot(4), 0).unwrap();
    assert!(signs(&store, 0, Role::Vote, 4));
    assert!(!signs(&store, 0, Role::Vote, 4), "once");

    let disk = Disk::default();
    let (first, is_gone) = (disk.clone(), std::sync::Arc::new(AtomicBool::new(false)));
    let gone = is_gone.clone();
    let open = move || match gone.load(Ordering::Relaxed) {
        false => first.clone(),
        true => Disk::default(),
    };
    let store = SafetyStore::open_backend(open, keys(1), opening(0, true)).unwrap();
    store.reserve_slot(Slot(3), 0).unwrap();
    disk.fill(true);
    assert!(store.reserve_slot(Slot(4), 0).is_err());
    is_gone.store(true, Ordering::Relaxed);
    // Another file is there now.
    for _ in 0..2 {
        let lost = store.reserve_slot(Slot(4), 0);
        assert!(
            matches!(
                lost,
                Err(SafetyError::Lost {
                    validator: 0,
                    known: 4,
                    ..
                })
            ),
            "{lost:?}"
        );
    }
    assert!(!signs(&store, 0, Role::Vote, 4));
}

#[test]
fn keys_that_come_with_marks_sign_above_them_and_marks_never_go_back() {
    let disk = Disk::default();
    let open = |disk: &Disk, slot, before| {
        SafetyStore::open_backend(disk.opener(), keys(2), opening(slot, before)).unwrap()
    };
    let mut store = open(&disk, 0, true);
    assert!(!store.knows(Validator(0)).unwrap());
    let floors = BTreeMap::from([(Validator(0), Slot(4)), (Validator(1), Slot(0))]);
    store.take_over(&floors, 0).unwrap();
    assert!((0..2).all(|v| store.knows(Validator(v)).unwrap()));
    assert_eq!(store.first_slot(), Slot(4));
    for slot in [3, 4] {
        store.reserve_slot(Slot(slot), 0).unwrap();
    }
    assert!(!signs(&store, 0, Role::Vote, 3));
    assert!(signs(&store, 0, Role::Vote, 4) && signs(&store, 1, Role::Block, 4));
    drop(store);
    // It was durable before the first right: a crash keeps it, and a lower floor lowers nothing.
    let disk = disk.crashed(|| false);
    let mut store = open(&disk, 4, false);
    assert_eq!(store.first_slot(), Slot(6));
    let lower = BTreeMap::from([(Validator(1), Slot(1))]);
    store.take_over(&lower, 4_000).unwrap();
    assert_eq!(store.first_slot(), Slot(6));
    disk.fill(true);
    let higher = BTreeMap::from([(Validator(1), Slot(9))]);
    assert!(store.take_over(&higher, 4_000).is_err());
    drop(store);
    let disk = disk.crashed(|| false);
    let store = open(&disk, 4, false);
    assert_eq!(store.first_slot(), Slot(6), "nothing of what failed");
}

#[test]
fn what_cannot_be_a_set_of_keys_is_refused() {
    let shared = BTreeMap::from([(Validator(1), [1; 32]), (Validator(4), [1; 32])]);
    let opened = SafetyStore::open_backend(Disk::default, shared, opening(0, true));
    assert!(matches!(
        opened,
        Err(SafetyError::SharedKey {
            first: 1,
            second: 4
        })
    ));
}

#[test]
fn who_hears_a_doppelganger_signs_nothing_until_somebody_vouches_that_it_is_gone() {
    let disk = Disk::default();
    let open = |disk: &Disk, slot, resume| {
        let opening = Opening {
            resume,
            ..opening(slot, true)
        };
        SafetyStore::open_backend(disk.opener(), keys(2), opening).unwrap()
    };
    let store = open(&disk, 0, false);
    store.reserve_slot(Slot(0), 0).unwrap();
    assert!(signs(&store, 0, Role::Vote, 0));
    store.stop(Validator(1), Slot(7)).unwrap();
    assert!(!signs(&store, 1, Role::Vote, 0), "a right that it had");
    store.reserve_slot(Slot(1), 0).unwrap();
    assert!(!signs(&store, 0, Role::Vote, 1));
    drop(store);
    let disk = disk.crashed(|| false);
    let store = open(&disk, 8, false);
    assert_eq!(store.stopped().unwrap(), Some((Validator(1), Slot(7))));
    store.reserve_slot(Slot(10), 0).unwrap();
    assert!(!signs(&store, 0, Role::Vote, 10));
    drop(store);
    let disk = disk.crashed(|| false);
    let store = open(&disk, 9, true);
    assert_eq!(store.stopped().unwrap(), None);
    store.reserve_slot(Slot(11), 0).unwrap();
    assert!(signs(&store, 0, Role::Vote, 11));
    drop(store);
    assert_eq!(
        open(&disk.crashed(|| false), 10, false).stopped().unwrap(),
        None
    );
    // A clock that was once ahead is reset with the same flag, and marks are not.
    let disk = disk.crashed(|| false);
    let store = open(&disk, 3, true);
    assert_eq!(store.first_slot(), Slot(12));
}

#[test]
fn marks_rise_to_what_the_network_shows() {
    let disk = Disk::default();
    let store = SafetyStore::open_backend(disk.opener(), keys(2), opening(0, true)).unwrap();
    store.reserve_slot(Slot(3), 0).unwrap();
    let guard = VoteGuard {
        source: Slot(8),
        target: Slot(9),
    };
    let cast = |slot| {
        let slot = Slot(slot);
        Cast { slot, guard }
    };
    let shown = BTreeMap::from([(Validator(0), cast(9))]);
    store.raise(&shown, 0).unwrap();
    assert_eq!(store.witness().next, 10);
    assert!(
        !signs(&store, 0, Role::Vote, 3),
        "behind what it signed elsewhere"
    );
    assert!(signs(&store, 1, Role::Vote, 3), "its own marks alone");
    drop(store);
    let disk = disk.crashed(|| false);
    let store = SafetyStore::open_backend(disk.opener(), keys(2), opening(9, false)).unwrap();
    assert_eq!(store.first_slot(), Slot(11));
    // The mark of one key says nothing about the other's.
    let behind = BTreeMap::from([(Validator(1), Slot(4))]);
    assert_eq!(store.behind(Slot(store.witness().next)).unwrap(), behind);
    store.reserve_slot(Slot(11), 0).unwrap();
    // No vote surrounds the one that was shown.
    let lower = [item(0, Role::Vote, Some((7, 11)))];
    let (_, refused) = store.grant(Slot(11), &lower, 0).err().unwrap();
    assert!(matches!(
        refused,
        Refused::Surrounds {
            source_min: 8,
            target_min: 9,
            ..
        }
    ));
    disk.fill(true);
    let shown = BTreeMap::from([(Validator(1), cast(20))]);
    assert!(store.raise(&shown, 0).is_err());
}
