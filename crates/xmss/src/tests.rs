//! Known answers, and inputs that must not be accepted from a forger.

use super::*;
use crate::key::one_time_index;
use crate::prf::Prf;
use alphorn_exec::{Backend, Exec};
use alphorn_scheme::{MemoryWatermark, Role, SignItem, Watermark};
use alphorn_stark::{Fp, KERNELS};
use alphorn_types::{Slot, Validator};
use sha2::{Digest, Sha256};

fn counting_bytes() -> [u8; 32] {
    std::array::from_fn(|i| i as u8)
}

fn canonical(elements: &[Fp]) -> Vec<u32> {
    elements.iter().map(|x| x.canonical()).collect()
}

fn exec() -> Exec<'static> {
    Exec::new(KERNELS.measured(), None)
}

/// The key of the known answers: seed 00..1f, parameter 1..5.
fn known_key(set: Set, active: std::ops::Range<u64>) -> SecretKey {
    let prf = Prf::new(set, &counting_bytes());
    let parameter = std::array::from_fn(|i| Fp::new(i as u32 + 1));
    SecretKey::with_parameter(Purpose::Vote, prf, set, parameter, active, exec(), &|_| ()).unwrap()
}

pub(crate) fn compact_key(active: std::ops::Range<u64>) -> SecretKey {
    SecretKey::generate(
        Set::Compact,
        Purpose::Vote,
        &[9; 32],
        active,
        exec(),
        &|_| (),
    )
    .unwrap()
}

fn holds(key: &SecretKey, index: u32, message: &[u8; 32], signature: &Signature) -> bool {
    let item = Item {
        key: key.public_key(),
        index,
        message,
        signature,
    };
    verify(item, KERNELS.measured())
}

#[test]
fn the_test_set_agrees_with_the_lean_specification() {
    let key = known_key(Set::Test, 0..256);
    let root = [
        1528428748, 731431087, 513452486, 1850760547, 504818763, 1849795054, 2050392753, 1688126473,
    ];
    assert_eq!(canonical(&key.public_key().root), root);
    let leaf = [
        1959132769, 1684602017, 1861286665, 222154671, 329933314, 1881690458, 1710451574,
        1320602761,
    ];
    assert_eq!(canonical(&key.resident().lowest_row()[0]), leaf);
    let known = [
        (
            0,
            "63b1076eeb77083ae15d4aeea953abc256c9e6ada22bce31ae6aaf24a4b72eda",
        ),
        (
            5,
            "69de2df22860b9bfa069c09f18195e626ca83ded5e9686b8dd8bf35f61f75bab",
        ),
        (
            255,
            "ea26f7c83dfb68e04a56b4072c5efeb12f3fb58727c5cd845fc0dea5001e850c",
        ),
    ];
    for (index, known) in known {
        let message = counting_bytes();
        let signature = key.sign_index(index, &message, exec()).unwrap();
        let bytes = signature.to_bytes();
        assert_eq!(hex::encode(Sha256::digest(&bytes)), known, "index {index}");
        assert_eq!(
            Signature::from_bytes(Set::Test, &bytes).as_ref(),
            Ok(&signature)
        );
        assert!(holds(&key, index, &message, &signature));
    }
}

#[test]
fn the_production_set_agrees_with_the_lean_specification() {
    let key = known_key(Set::Prod, 12345..12346);
    let message = counting_bytes();
    let signature = key.sign_index(12345, &message, exec()).unwrap();
    // The try with counter 1669 is the first whose code has the target sum.
    let randomness = [
        671621810, 1045295676, 647853205, 447783770, 1791614429, 360222264, 424886652,
    ];
    assert_eq!(canonical(&signature.randomness), randomness);
    assert!(holds(&key, 12345, &message, &signature));
}

/// Slots at which the low limb of a chain's tweak wraps around p within one signature: 0.14 % of all.
#[test]
fn slots_whose_tweaks_carry_sign_and_verify() {
    let p = u64::from(alphorn_stark::field::P);
    let wraps = |slot: &u64| (slot << 24) % p + (45 << 16) + (7 << 8) >= p;
    let slots: Vec<u64> = (0..1 << 32).step_by(65_537).filter(wraps).take(6).collect();
    assert_eq!(slots.len(), 6);
    for slot in slots {
        let key = known_key(Set::Prod, slot..slot + 1);
        let signature = key.sign_index(slot as u32, &[3; 32], exec()).unwrap();
        assert!(holds(&key, slot as u32, &[3; 32], &signature));
    }
}

#[test]
fn every_kernel_and_thread_count_gives_the_same_key_and_signature() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    for set in Set::ALL {
        let mut known = None;
        for backend in KERNELS.available() {
            for pool in [None, Some(&pool)] {
                let exec = Exec::new(backend, pool);
                let key = SecretKey::interop(set, Purpose::Duty, 3, 5..70, exec).unwrap();
                let signature = key.sign_index(68, &[1; 32], exec).unwrap().to_bytes();
                let here = (key.public_key().to_bytes(), signature);
                assert_eq!(*known.get_or_insert(here.clone()), here, "{set} {backend}");
            }
        }
    }
}

#[test]
fn leaves_alone_are_those_beside_others() {
    for set in Set::ALL {
        let key = SecretKey::interop(set, Purpose::Duty, 3, 0..9, exec()).unwrap();
        for backend in KERNELS.available() {
            let all = key.source().leaves(backend, 0..9);
            for range in [0..1, 3..4, 1..9] {
                let leaves = key.source().leaves(backend, range.clone());
                let (start, end) = (range.start as usize, range.end as usize);
                assert_eq!(leaves, all[start..end], "{set} {backend} {range:?}");
            }
        }
    }
}

#[test]
fn a_short_and_a_long_range_have_the_same_nodes() {
    // With more than a thousand indices only the upper levels are kept; the rest is recomputed.
    let key = compact_key(1000..2300);
    assert_eq!(key.source().lowest(), 8);
    for index in [1000, 1023, 1024, 1535, 2299] {
        let signature = key.sign_index(index, &[8; 32], exec()).unwrap();
        assert!(holds(&key, index, &[8; 32], &signature), "{index}");
    }
    for index in [999, 2300] {
        let refused = key.warm(index, exec());
        assert!(matches!(refused, Err(SignError::Inactive { .. })));
    }
}

#[test]
fn each_change_of_statement_or_signature_is_refused() {
    for (set, index) in [(Set::Compact, 77), (Set::Prod, 77), (Set::Test, 77)] {
        let key = SecretKey::interop(set, Purpose::Vote, 1, 77..79, exec()).unwrap();
        let other = SecretKey::interop(set, Purpose::Vote, 2, 77..78, exec()).unwrap();
        let signature = key.sign_index(index, &[5; 32], exec()).unwrap();
        assert!(holds(&key, index, &[5; 32], &signature));
        assert!(!holds(&key, index + 1, &[5; 32], &signature));
        assert!(!holds(&other, index, &[5; 32], &signature));
        for bit in [0, 100, 255] {
            let mut message = [5; 32];
            message[bit / 8] ^= 1 << (bit % 8);
            assert!(!holds(&key, index, &message, &signature), "{set} bit {bit}");
        }
        // Every element of the signature, changed by one.
        let mut changed = Vec::new();
        let params = set.params();
        for i in 0..params.randomness {
            let mut signature = signature.clone();
            signature.randomness[i] += Fp::ONE;
            changed.push(signature);
        }
        for i in 0..params.chains * params.digest {
            let mut signature = signature.clone();
            signature.hashes[i / params.digest][i % params.digest] += Fp::ONE;
            changed.push(signature);
        }
        for i in 0..usize::from(params.log2_lifetime) * params.digest {
            let mut signature = signature.clone();
            signature.path[i / params.digest][i % params.digest] += Fp::ONE;
            changed.push(signature);
        }
        let mut items: Vec<Item<'_>> = changed
            .iter()
            .map(|signature| Item {
                key: key.public_key(),
                index,
                message: &[5; 32],
                signature,
            })
            .collect();
        let right = Item {
            signature: &signature,
            ..items[0]
        };
        items.insert(40, right);
        let verdicts = verify_batch(set, &items, exec());
        let good: Vec<usize> = (0..items.len()).filter(|i| verdicts[*i]).collect();
        assert_eq!(good, [40], "{set}");
    }
}

/// A code whose digits have a greater sum would let a forger walk chains further from known digests.
#[test]
fn codes_off_the_target_are_refused() {
    let key = compact_key(0..1);
    let mut signature = key.sign_index(0, &[5; 32], exec()).unwrap();
    // Other randomness gives another code, mostly none; in either case, the chains do not fit.
    for value in 0..200 {
        signature.randomness[0] = Fp::new(value);
        assert!(!holds(&key, 0, &[5; 32], &signature));
    }
}

#[test]
fn sets_are_not_mixed() {
    let key = compact_key(0..1);
    let test = known_key(Set::Test, 0..16);
    let signature = test.sign_index(0, &[5; 32], exec()).unwrap();
    assert!(!holds(&key, 0, &[5; 32], &signature));
    let beyond = Item {
        key: test.public_key(),
        index: 256,
        message: &[5; 32],
        signature: &signature,
    };
    assert!(!verify(beyond, Backend::Portable));
}

#[test]
fn a_permit_names_role_slot_and_message() {
    let store = MemoryWatermark::new(1);
    let item = |role| SignItem::new(Validator(0), role, [1; 32]);
    let permit = |role, slot| store.reserve(Slot(slot), &item(role)).unwrap();
    let duty = SecretKey::interop(Set::Compact, Purpose::Duty, 0, 64..96, exec()).unwrap();
    let signature = duty.sign(permit(Role::Aggregate, 9), exec()).unwrap();
    // Slot 9, duty 2.
    assert!(holds(&duty, 9 * 8 + 2, &[1; 32], &signature));
    let refused = duty.sign(permit(Role::Vote, 9), exec());
    assert!(matches!(refused, Err(SignError::Role { .. })));
    for slot in [12, 1 << 29, u64::MAX - 1] {
        let refused = duty.sign(permit(Role::Block, slot), exec());
        assert!(matches!(refused, Err(SignError::Inactive { .. })), "{slot}");
    }
    assert_eq!(
        one_time_index(Role::CollectionHeader, (1 << 29) - 1),
        Some(u32::MAX - 3)
    );
    assert_eq!(one_time_index(Role::Block, 1 << 29), None);
    assert_eq!(one_time_index(Role::Vote, 1 << 32), None);
    // A slot counts if all of its indices are active.
    let duties = |active| SecretKey::interop(Set::Compact, Purpose::Duty, 0, active, exec());
    assert_eq!(duties(16..32).unwrap().slots(), 2..4);
    assert_eq!(duties(17..31).unwrap().slots(), 3..3);
    assert_eq!(compact_key(3..5).slots(), 3..5);
}

#[test]
fn ranges_beyond_the_lifetime_are_refused() {
    for (start, end) in [(0, 0), (5, 5), (255, 257), (u64::MAX, 0)] {
        let key = SecretKey::interop(Set::Test, Purpose::Vote, 0, start..end, exec());
        let lifetime = 256;
        assert_eq!(
            key.err(),
            Some(KeyError::Range {
                start,
                end,
                lifetime
            })
        );
    }
}

#[test]
fn a_stopped_generation_makes_no_key() {
    let stop = alphorn_exec::Stop::default();
    let mut scratch = ();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let ctx = alphorn_scheme::Ctx::pooled(&pool, stop.clone(), Default::default(), &mut scratch);
    let pulse = ctx.pulse();
    let exec = Exec::new(Backend::Portable, None).with_watch(&pulse);
    stop.stop();
    for end in [10, 3000] {
        let key = SecretKey::interop(Set::Compact, Purpose::Vote, 0, 0..end, exec);
        assert_eq!(key.err(), Some(KeyError::Stopped));
    }
}
