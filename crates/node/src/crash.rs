//! Power failures at any write or sync, after which any subset of the unsynced sectors is on disk. Nothing that was
//! signed is signed again, and nothing that was acknowledged is lost.

use crate::blocks::{Blocks, Stored};
use crate::disk::Disk;
use crate::engine::Kept;
use crate::safety::{KeyId, Opening, START_SLOTS, SafetyStore};
use alphorn_proto::wire::Topic;
use alphorn_scheme::{Bytes, Role, SignItem, VoteGuard};
use alphorn_types::{Cell, Slot, Validator};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

/// Number of crashes tried.
const CASES: u64 = if cfg!(feature = "soak") {
    10_000
} else {
    1_000
};

/// Slots of a run.
const SLOTS: u64 = 4;

fn opening(slot: u64) -> Opening {
    Opening {
        now_ms: 1_000 * slot,
        slot: Slot(slot),
        before_genesis: true,
        resume: false,
    }
}

fn store(disk: &Disk, slot: u64) -> Result<SafetyStore, crate::safety::SafetyError> {
    let keys: BTreeMap<Validator, KeyId> =
        (0..2).map(|v| (Validator(v), [v as u8 + 1; 32])).collect();
    SafetyStore::open_backend(disk.opener(), keys, opening(slot))
}

/// Whether the store lets validator 0 vote in a slot.
fn votes(store: &SafetyStore, slot: u64, source: u64) -> bool {
    let item = SignItem {
        validator: Validator(0),
        role: Role::Vote,
        message: [7; 32],
        guard: Some(VoteGuard {
            source: Slot(source),
            target: Slot(slot),
        }),
    };
    store.grant(Slot(slot), &[item], 1_000 * slot).is_ok()
}

/// Reserves and votes until the power fails. Returns the slots that it may have signed. A new file gets its name once
/// it is complete (`crate::file`), so the power fails after that.
fn sign(disk: &Disk, fail_after: Option<u64>, rng: &mut SmallRng) -> BTreeSet<u64> {
    let (mut signed, mut source) = (BTreeSet::new(), 0);
    let store = store(disk, 0).unwrap();
    disk.fail_after(fail_after);
    for slot in 0..SLOTS {
        if store.reserve_slot(Slot(slot), slot * 1_000).is_ok() {
            source = rng.random_range(source..=slot);
            if votes(&store, slot, source) {
                signed.insert(slot);
            }
        }
    }
    signed
}

#[test]
fn no_crash_gives_a_slot_twice() {
    let whole = Disk::default();
    assert_eq!(sign(&whole, None, &mut SmallRng::seed_from_u64(0)).len(), 4);
    let operations = whole.operations();
    for seed in 0..CASES {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = Disk::default();
        let fail_after = rng.random_range(0..=operations);
        let signed = sign(&disk, Some(fail_after), &mut rng);
        let share = rng.random_range(0.0..=1.0);
        let left = disk.crashed(|| rng.random_bool(share));
        // The earliest time at which the store opens: it remembers the last one it was given.
        let mut times = signed.last().copied().unwrap_or(0)..SLOTS;
        let opened = times.find_map(|now| Some((now, store(&left, now).ok()?)));
        let (now, again) = opened.unwrap_or_else(|| panic!("seed {seed}: it does not open"));
        for slot in 0..SLOTS + START_SLOTS + 1 {
            again.reserve_slot(Slot(slot), now * 1_000).unwrap();
            let twice = votes(&again, slot, slot) && signed.contains(&slot);
            assert!(!twice, "seed {seed}: slot {slot}");
        }
    }
}

fn kept(slot: u64, tag: u64, rng: &mut SmallRng) -> Kept {
    let mut data = vec![0; rng.random_range(1..600)];
    rng.fill_bytes(&mut data);
    let cell = Cell {
        committee: 0,
        subcommittee: tag as u16,
    };
    Kept {
        slot: Slot(slot),
        topic: Topic::Vote { cell },
        data: Bytes::from(data),
        own: rng.random(),
    }
}

/// Writes blocks and messages until the power fails. Returns what was acknowledged.
fn keep(disk: &Disk, fail_after: Option<u64>, rng: &mut SmallRng) -> (Vec<Stored>, Vec<Kept>) {
    let mut acknowledged = (Vec::new(), Vec::new());
    let file = Blocks::open_backend(disk.opener()).unwrap();
    disk.fail_after(fail_after);
    for slot in 0..SLOTS {
        let block = Stored {
            slot: Slot(slot),
            root: [slot as u8; 32],
            data: Bytes::from(vec![3; rng.random_range(1..3_000)]),
        };
        let count = rng.random_range(0..20);
        let messages: Vec<Kept> = (0..count).map(|tag| kept(slot, tag, rng)).collect();
        if file.put(std::slice::from_ref(&block), &messages).is_ok() {
            acknowledged.0.push(block);
            acknowledged.1.extend(messages);
        }
    }
    acknowledged
}

#[test]
fn no_crash_loses_what_was_acknowledged() {
    let whole = Disk::default();
    let (blocks, messages) = keep(&whole, None, &mut SmallRng::seed_from_u64(0));
    assert!(blocks.len() == 4 && !messages.is_empty());
    let operations = whole.operations();
    for seed in 0..CASES {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = Disk::default();
        let fail_after = rng.random_range(0..=operations);
        let (blocks, messages) = keep(&disk, Some(fail_after), &mut rng);
        let share = rng.random_range(0.0..=1.0);
        let left = disk.crashed(|| rng.random_bool(share));
        let again = Blocks::open_backend(left.opener());
        let again = again.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let found = again.range(Slot(0), 100, &[]).unwrap();
        for block in &blocks {
            assert!(found.contains(block), "seed {seed}: block {}", block.slot);
        }
        let found = again.messages().unwrap();
        // Those of older slots were dropped when a newer one was written.
        let newest = found.iter().map(|kept| kept.slot.0).max().unwrap_or(0);
        let wanted = messages.iter().filter(|kept| kept.slot.0 + 2 >= newest);
        for message in wanted {
            assert!(found.contains(message), "seed {seed}: {message:?}");
        }
    }
}
