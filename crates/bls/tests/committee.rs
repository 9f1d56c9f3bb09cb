//! Verification of collections on key tables: many committees, multiplicities, single items beside
//! them, and the same verdicts as clients that verify each collection alone with blst.

use alphorn_bls::{
    CollectionItem, DecodeError, InteropKey, KeyItem, KeyTable, RejectReason, Rlc, RlcBits,
    SumOptions, VerifyOptions, Workspace, interop_keys, peer, sign, vartime_interop_public_keys,
    verify_collections,
};
use alphorn_exec::{Backend, Exec};
use proptest::prelude::*;

/// Members of each committee of the small world.
const SIZES: [usize; 3] = [70, 1, 64];

struct World {
    keys: Vec<InteropKey>,
    table: KeyTable,
}

/// A collection with its own memory.
#[derive(Clone)]
struct Owned {
    committee: usize,
    planes: Vec<Vec<u64>>,
    message: Vec<u8>,
    signature: Vec<u8>,
}

impl World {
    fn new() -> World {
        let total = SIZES.iter().sum::<usize>() as u64;
        let keys = interop_keys(0..total, Exec::serial());
        let points = vartime_interop_public_keys(&keys, Exec::serial());
        let points = points.iter().map(|key| *key.point()).collect();
        let table = KeyTable::new(Backend::Portable, points, &SIZES).unwrap();
        World { keys, table }
    }

    /// An honest collection with these multiplicities, from position 0 on.
    fn collection(&self, committee: usize, multiplicities: &[u8], message: &[u8]) -> Owned {
        let first: usize = SIZES[..committee].iter().sum();
        let words = SIZES[committee].div_ceil(64);
        let mut planes = vec![vec![0; words]; 4];
        for (i, m) in multiplicities.iter().enumerate() {
            for (j, plane) in planes.iter_mut().enumerate() {
                plane[i / 64] |= u64::from(m >> j & 1) << (i % 64);
            }
        }
        let signers = multiplicities
            .iter()
            .enumerate()
            .map(|(i, &m)| (&self.keys[first + i], m));
        let signature = InteropKey::weighted_sum(signers).map_or(vec![0xc0], |sum| {
            sign(&sum.to_secret_key(), message).to_bytes().to_vec()
        });
        Owned {
            committee,
            planes,
            message: message.to_vec(),
            signature,
        }
    }

    fn verify(
        &self,
        items: &[Owned],
        singles: &[KeyItem<'_>],
        exec: Exec<'_>,
    ) -> Vec<Result<(), RejectReason>> {
        let planes: Vec<Vec<&[u64]>> = items
            .iter()
            .map(|item| item.planes.iter().map(Vec::as_slice).collect())
            .collect();
        let items = borrowed(items, &planes);
        let rlc = Rlc::new([8; 32], RlcBits::Bits64);
        let options = VerifyOptions {
            rlc: &rlc,
            sums: SumOptions::default(),
            bases: &[],
            exec,
        };
        verify_collections(
            &self.table,
            &items,
            singles,
            &options,
            &mut Workspace::default(),
        )
        .unwrap()
    }

    fn verify_by_peer(&self, items: &[Owned], method: peer::PeerMethod) -> Vec<bool> {
        let planes: Vec<Vec<&[u64]>> = items
            .iter()
            .map(|item| item.planes.iter().map(Vec::as_slice).collect())
            .collect();
        peer::verify_each(
            &self.table,
            &borrowed(items, &planes),
            method,
            Exec::serial(),
        )
    }
}

/// Whether blst's batch holds, on one thread and on a pool.
fn holds_in_a_batch(world: &World, items: &[Owned], pool: &rayon::ThreadPool) -> [bool; 2] {
    let planes: Vec<Vec<&[u64]>> = items
        .iter()
        .map(|item| item.planes.iter().map(Vec::as_slice).collect())
        .collect();
    let items = borrowed(items, &planes);
    let weights: Vec<u64> = (0..items.len() as u64)
        .map(|i| 0x9e37_79b9 * i + 1)
        .collect();
    [Exec::serial(), Exec::new(Backend::Portable, Some(pool))]
        .map(|exec| peer::verify_batch(&world.table, &items, &weights, exec))
}

fn borrowed<'a>(items: &'a [Owned], planes: &'a [Vec<&'a [u64]>]) -> Vec<CollectionItem<'a>> {
    items
        .iter()
        .zip(planes)
        .map(|(item, planes)| CollectionItem {
            committee: item.committee,
            planes,
            message: &item.message,
            signature: &item.signature,
        })
        .collect()
}

#[test]
fn each_item_gets_its_own_reason() {
    let world = World::new();
    let good = world.collection(0, &[1, 0, 3, 15, 2], b"m");
    let mut malformed = good.clone();
    malformed.signature[0] &= 0x7f;
    let mut short = good.clone();
    short.signature.pop();
    let mut other_message = good.clone();
    other_message.message = b"n".to_vec();
    let mut other_multiplicity = good.clone();
    other_multiplicity.planes[0][0] ^= 1;
    let empty = world.collection(2, &[0; 64], b"m");
    let mut empty_signed = good.clone();
    empty_signed
        .planes
        .iter_mut()
        .for_each(|plane| plane.fill(0));
    let lone = world.collection(1, &[1], b"n");
    let items = [
        good.clone(),
        malformed,
        short,
        other_message,
        other_multiplicity,
        empty,
        empty_signed,
        lone,
        good,
    ];
    let single = world.keys[3].to_secret_key();
    let signature = sign(&single, b"envelope").to_bytes();
    let singles = [
        KeyItem {
            key: single.public_key(),
            message: b"envelope",
            signature: &signature,
        },
        KeyItem {
            key: single.public_key(),
            message: b"another",
            signature: &signature,
        },
    ];
    let verdicts = world.verify(&items, &singles, Exec::serial());
    let expected = [
        Ok(()),
        Err(RejectReason::Decode(DecodeError::Flags { flags: 0b001 })),
        Err(RejectReason::Decode(DecodeError::Length {
            got: 95,
            expected: 96,
        })),
        Err(RejectReason::Signature),
        Err(RejectReason::Signature),
        Err(RejectReason::Decode(DecodeError::Length {
            got: 1,
            expected: 96,
        })),
        Err(RejectReason::KeyAtInfinity),
        Ok(()),
        Ok(()),
        Ok(()),
        Err(RejectReason::Signature),
    ];
    for (i, (got, expected)) in verdicts.iter().zip(expected).enumerate() {
        match (got, expected) {
            // The flags of a flipped bit depend on the sign of the point.
            (
                Err(RejectReason::Decode(DecodeError::Flags { .. })),
                Err(RejectReason::Decode(_)),
            ) => {}
            _ => assert_eq!(*got, expected, "item {i}"),
        }
    }
    assert_eq!(verdicts.len(), expected.len());
}

#[test]
fn a_flood_on_one_committee_is_verified_and_each_verdict_kept() {
    let world = World::new();
    let good = world.collection(1, &[1], b"vote");
    let mut bad = good.clone();
    bad.message = b"other".to_vec();
    let count = alphorn_bls::COLLECTIONS_MAX + 1;
    let mut items = vec![good; count];
    for place in [0, 63, 64, count - 1] {
        items[place] = bad.clone();
    }
    let verdicts = world.verify(&items, &[], Exec::serial());
    let bad = (0..count).filter(|&i| verdicts[i] == Err(RejectReason::Signature));
    assert_eq!(bad.collect::<Vec<_>>(), [0, 63, 64, count - 1]);
    assert_eq!(
        verdicts.iter().filter(|verdict| verdict.is_err()).count(),
        4
    );
}

#[test]
fn a_shape_that_does_not_fit_is_an_error_and_not_a_verdict() {
    let world = World::new();
    let mut item = world.collection(1, &[1], b"m");
    item.planes[0][0] = 2;
    let planes: Vec<&[u64]> = item.planes.iter().map(Vec::as_slice).collect();
    let rlc = Rlc::reproducible();
    let options = VerifyOptions {
        rlc: &rlc,
        sums: SumOptions::default(),
        bases: &[],
        exec: Exec::serial(),
    };
    let collection = CollectionItem {
        committee: item.committee,
        planes: &planes,
        message: b"m",
        signature: &item.signature,
    };
    for wrong in [
        collection,
        CollectionItem {
            committee: 3,
            ..collection
        },
        CollectionItem {
            planes: &[],
            ..collection
        },
    ] {
        let result = verify_collections(
            &world.table,
            &[wrong],
            &[],
            &options,
            &mut Workspace::default(),
        );
        assert!(result.is_err(), "{wrong:?}");
    }
    let nothing = verify_collections(&world.table, &[], &[], &options, &mut Workspace::default());
    assert!(nothing.unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random supports, random lies: the verdicts are those of every peer.
    #[test]
    fn verdicts_equal_those_of_every_peer(
        items in prop::collection::vec((0usize..3, prop::collection::vec(0u8..16, 0..64), 0u8..6), 1..12),
    ) {
        let world = World::new();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let items: Vec<Owned> = items
            .into_iter()
            .map(|(committee, mut multiplicities, lie)| {
                multiplicities.truncate(SIZES[committee]);
                let mut item = world.collection(committee, &multiplicities, &[lie / 3; 32]);
                match lie {
                    1 => item.planes[3][0] ^= 1,
                    2 => item.signature = sign(&world.keys[0].to_secret_key(), b"x").to_bytes().to_vec(),
                    _ => {}
                }
                item
            })
            .collect();
        let ours = world.verify(&items, &[], Exec::serial());
        let pooled = world.verify(&items, &[], Exec::new(Backend::Portable, Some(&pool)));
        prop_assert_eq!(&ours, &pooled);
        let ours: Vec<bool> = ours.iter().map(Result::is_ok).collect();
        for method in peer::PeerMethod::ALL {
            prop_assert_eq!(&ours, &world.verify_by_peer(&items, method), "{}", method.name());
        }
        let all = ours.iter().all(|holds| *holds);
        prop_assert_eq!(holds_in_a_batch(&world, &items, &pool), [all; 2]);
        let good: Vec<Owned> = items
            .into_iter()
            .zip(&ours)
            .filter_map(|(item, holds)| holds.then_some(item))
            .collect();
        prop_assert_eq!(holds_in_a_batch(&world, &good, &pool), [true; 2]);
    }
}
