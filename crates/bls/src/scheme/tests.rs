use super::signers::TABLE_SIGNATURES_MIN;
use super::*;
use crate::kernel::KERNELS;
use crate::{InteropKey, SecretKey, sign};

struct Interop;

impl alphorn_scheme::battery::Fixture for Interop {
    type S = Bls;

    fn scheme(&self) -> Bls {
        Bls::new(Backend::Portable, Costs::default())
    }

    fn registry(&self, validators: u32) -> Registry {
        Registry::interop(validators, Exec::serial()).unwrap()
    }

    fn signers(&self, validators: u32) -> Signers {
        Signers::interop(0..validators, Exec::serial())
    }
}

alphorn_scheme::battery!(interop, Interop);

struct Real;

impl alphorn_scheme::battery::Fixture for Real {
    type S = Bls;

    fn scheme(&self) -> Bls {
        let backend = *KERNELS.available().last().unwrap();
        Bls::new(backend, Costs::default()).with_rlc_bits(RlcBits::Bits128)
    }

    fn registry(&self, validators: u32) -> Registry {
        let keys = (0..validators).map(|v| real_key(v).public_key()).collect();
        Registry::allowing_duplicates(keys, Exec::serial()).unwrap()
    }

    fn signers(&self, validators: u32) -> Signers {
        Signers::real((0..validators).map(|v| (Validator(v), real_key(v))))
    }
}

fn real_key(validator: u32) -> SecretKey {
    SecretKey::key_gen(&[validator as u8; 32]).unwrap()
}

alphorn_scheme::battery!(real, Real);

/// Runs `verify_claims` on two committees of three cells of interop keys 0 to 23.
fn verdicts(claims: &[Claim]) -> Vec<bool> {
    let layout = alphorn_types::Layout::new(24, 2, 3).unwrap();
    let members = (0..24).collect();
    let assignment = Assignment::new(alphorn_types::Epoch(0), layout, members).unwrap();
    let registry = Registry::interop(24, Exec::serial()).unwrap();
    let scheme = Bls::new(Backend::Portable, Costs::default());
    let mut scratch = Workspace::default();
    let ctx = &mut Ctx::single(&mut scratch);
    let (registry, assignment) = (Arc::new(registry), Arc::new(assignment));
    let keys = scheme.keys(&registry, &assignment, ctx).unwrap();
    let verdicts = alphorn_scheme::verify_claims(&scheme, &keys, claims, &[1; 32], ctx);
    for (claim, verdict) in claims.iter().zip(&verdicts) {
        assert_eq!(
            crate::peer::claim_holds(&keys, claim),
            *verdict,
            "{claim:?}"
        );
    }
    verdicts
}

/// The claim that the first `support.len()` positions from `first` on signed, which is true.
fn group(layer: Layer, first: u32, len: u32, multiplicities: &[u8]) -> Claim {
    let keys: Vec<InteropKey> = (0..24).map(InteropKey::new).collect();
    let signed = keys
        .iter()
        .skip(first as usize)
        .zip(multiplicities.iter().copied());
    let signature = InteropKey::weighted_sum(signed).map_or([0; 96], |sum| {
        sign(&sum.to_secret_key(), &[7; 32]).to_bytes()
    });
    Claim::Group {
        statement: Statement {
            layer,
            first,
            len,
            slot: Slot(1),
            message: [7; 32],
        },
        evidence: Evidence {
            support: Arc::new(Support::from_multiplicities(multiplicities).unwrap()),
            bytes: Arc::from(signature),
        },
    }
}

#[test]
fn a_statement_must_name_a_cell_or_a_committee_and_fit_its_support() {
    let (cell, committee) = (Layer::Aggregate, Layer::Collection);
    let many = [0, 15, 3, 1, 8, 0, 2, 5, 0, 15, 15, 1];
    let good = [
        group(cell, 4, 4, &[0, 15, 3, 1]),
        group(committee, 12, 12, &many),
    ];
    assert_eq!(verdicts(&good), [true, true]);
    let bad = [
        group(committee, 4, 4, &[0, 15, 3, 1]),
        group(cell, 12, 12, &many),
        group(cell, 5, 4, &[1, 1, 1, 1]),
        group(cell, 4, 5, &[1, 1, 1, 1, 1]),
        group(cell, 4, 4, &[1, 1, 1]),
        group(cell, 4, 4, &[1, 1, 1, 1, 1]),
        group(cell, 4, 4, &[0; 4]),
        group(cell, 4, 0, &[]),
        group(cell, 4, u32::MAX, &[1, 1, 1, 1]),
        group(cell, 24, 4, &[1, 1, 1, 1]),
        group(committee, u32::MAX, u32::MAX, &[1; 12]),
    ];
    assert_eq!(verdicts(&bad), [false; 11]);
    // More claims on one cell than a job takes, with the bad ones at its boundaries.
    let mut flood = vec![good[0].clone(); 130];
    let seams = [0, 63, 64, 129];
    seams.iter().for_each(|i| flood[*i] = bad[6].clone());
    let expected: Vec<bool> = (0..130).map(|i| !seams.contains(&i)).collect();
    assert_eq!(verdicts(&flood), expected);
}

/// The table of a layout of three levels: a key is stored once, whatever the number of levels, and identical
/// units share one entry.
#[test]
fn units_of_all_levels_have_a_place_in_one_table() {
    let place = |layout: alphorn_types::Layout, layer, first, len| {
        let assignment = Assignment::new(alphorn_types::Epoch(0), layout, (0..24).collect());
        let registry = Registry::interop(24, Exec::serial()).unwrap();
        let scheme = Bls::new(Backend::Portable, Costs::default());
        let mut scratch = Workspace::default();
        let ctx = &mut Ctx::single(&mut scratch);
        let keys = scheme.keys(&Arc::new(registry), &Arc::new(assignment.unwrap()), ctx);
        let keys = keys.unwrap();
        assert_eq!(keys.table().keys().len(), 24);
        let place = keys.place(&Statement {
            layer,
            first,
            len,
            slot: Slot(1),
            message: [7; 32],
        });
        place.map(|place| (place, keys.table().committee(place).len()))
    };
    let (of_cells, above) = (Layer::Aggregate, Layer::Collection);
    let three = alphorn_types::Layout::with_fan_out(24, 2, &[2, 3]).unwrap();
    for (layer, first, len, expected) in [
        (above, 12, 12, Some((1, 12))),
        (above, 6, 6, Some((3, 6))),
        (of_cells, 6, 2, Some((9, 2))),
        // Lists of groups are aggregates; a cell is not a collection, a committee not an aggregate.
        (of_cells, 6, 6, Some((3, 6))),
        (above, 6, 2, None),
        (of_cells, 12, 12, None),
        (above, 8, 6, None),
        (above, 6, 12, None),
    ] {
        assert_eq!(place(three, layer, first, len), expected, "{first} {len}");
    }
    let one = alphorn_types::Layout::with_fan_out(24, 4, &[]).unwrap();
    assert_eq!(place(one, of_cells, 18, 6), Some((3, 6)));
    let alike = alphorn_types::Layout::with_fan_out(24, 2, &[1, 2, 1]).unwrap();
    assert_eq!(place(alike, of_cells, 12, 6), Some((4, 6)));
    assert_eq!(place(alike, above, 12, 12), Some((1, 12)));
}

#[test]
fn many_signatures_equal_those_one_by_one() {
    let count = 2 * TABLE_SIGNATURES_MIN as u32;
    // Three of four sign one message, one in eight another, the rest one each.
    let message = |i: u32| match i % 8 {
        0 => [i as u8; 32],
        1 => [254; 32],
        _ => [255; 32],
    };
    let items: Vec<_> = (0..count)
        .map(|i| (Validator(10 + i), message(i)))
        .collect();
    let signers = Signers::interop(10..10 + count, Exec::serial());
    let secret = |v: u32| InteropKey::new(v.into()).to_secret_key();
    let real = Signers::real((10..10 + count).map(|v| (Validator(v), secret(v))));
    for backend in KERNELS.available() {
        for signers in [&signers, &real] {
            let signed = signers.sign(&items, Exec::new(backend, None)).unwrap();
            for ((validator, message), signature) in items.iter().zip(signed) {
                assert_eq!(signature, sign(&secret(validator.0), message));
            }
        }
    }
    for outside in [9, 10 + count] {
        let refused = signers.sign(&[(Validator(outside), [0; 32])], Exec::serial());
        assert_eq!(refused.err(), Some(SchemeError::UnknownSigner(outside)));
    }
}

/// One committee of this many interop keys.
const WORLD: u32 = 1024;

struct World {
    scheme: Bls,
    keys: EpochKeys,
}

impl World {
    fn new() -> World {
        let layout = alphorn_types::Layout::new(WORLD, 1, 1).unwrap();
        let assignment = Assignment::new(alphorn_types::Epoch(0), layout, (0..WORLD).collect());
        let registry = Registry::interop(WORLD, Exec::serial()).unwrap();
        let scheme = Bls::new(Backend::Portable, Costs::default());
        let mut scratch = Workspace::default();
        let ctx = &mut Ctx::single(&mut scratch);
        let keys = scheme
            .keys(&Arc::new(registry), &Arc::new(assignment.unwrap()), ctx)
            .unwrap();
        World { scheme, keys }
    }

    /// A collection with these multiplicities.
    fn claim(&self, slot: u64, multiplicity: impl Fn(u32) -> u8) -> Claim {
        let list: Vec<u8> = (0..WORLD).map(multiplicity).collect();
        let keys: Vec<InteropKey> = (0..u64::from(WORLD)).map(InteropKey::new).collect();
        let sum = InteropKey::weighted_sum(keys.iter().zip(list.iter().copied())).unwrap();
        Claim::Group {
            statement: Statement {
                layer: Layer::Collection,
                first: 0,
                len: WORLD,
                slot: Slot(slot),
                message: [7; 32],
            },
            evidence: Evidence {
                support: Arc::new(Support::from_multiplicities(&list).unwrap()),
                bytes: Arc::from(sign(&sum.to_secret_key(), &[7; 32]).to_bytes()),
            },
        }
    }

    /// The verdicts, compared with those of blst, and the methods that summed the keys.
    fn verify(&self, claims: &[Claim]) -> (Vec<bool>, PreparedClaims) {
        let mut scratch = Workspace::default();
        let ctx = &mut Ctx::single(&mut scratch);
        let prepared = self.scheme.prepare(&self.keys, claims, &[1; 32], ctx);
        let mut verdicts = vec![true; claims.len()];
        if !self.scheme.check(&self.keys, &prepared, 0..claims.len()) {
            let bad = self.scheme.locate(&self.keys, &prepared, ctx).unwrap();
            bad.into_iter().for_each(|i| verdicts[i] = false);
        }
        for (claim, verdict) in claims.iter().zip(&verdicts) {
            assert_eq!(crate::peer::claim_holds(&self.keys, claim), *verdict);
        }
        (verdicts, prepared)
    }

    fn bases(&self) -> Vec<usize> {
        let bases = self.keys.bases();
        let ones = |base: &crate::sums::Base| {
            let words = base.words().iter();
            words.map(|word| word.count_ones() as usize).sum()
        };
        bases.iter().map(ones).collect()
    }
}

fn offline(i: u32) -> bool {
    i.is_multiple_of(5)
}

#[test]
fn sums_of_one_job_serve_the_next() {
    let world = World::new();
    let bits = |missing: u32| move |i: u32| u8::from(!offline(i) && i != missing);
    let first: Vec<Claim> = (0..4).map(|k| world.claim(1, bits(5 * k + 1))).collect();
    let (verdicts, prepared) = world.verify(&first);
    assert_eq!(verdicts, [true; 4]);
    assert_eq!(prepared.sums().methods.get(Method::Delta), 0);
    assert_eq!(world.bases(), [818], "one of four equally good bitfields");
    // A late one costs only the positions where it differs.
    let (verdicts, prepared) = world.verify(&[world.claim(1, bits(2))]);
    assert_eq!(
        (verdicts, prepared.sums().methods.get(Method::Delta)),
        (vec![true], 1)
    );
    // So does the next slot, many at once.
    let next: Vec<Claim> = (0..8).map(|k| world.claim(2, bits(5 * k + 3))).collect();
    let (verdicts, prepared) = world.verify(&next);
    assert_eq!(verdicts, [true; 8]);
    assert_eq!(prepared.sums().methods.get(Method::Based), 8);
    assert_eq!(world.bases(), [818, 818], "the best of each slot");
    // Forged claims, the fullest of all, are found, and nothing is kept from them.
    let Claim::Group {
        statement,
        evidence,
    } = world.claim(3, |_| 1)
    else {
        panic!("a collection");
    };
    let bytes = match &next[0] {
        Claim::Group { evidence, .. } => evidence.bytes.clone(),
        _ => panic!("a collection"),
    };
    let forged = Claim::Group {
        statement,
        evidence: Evidence { bytes, ..evidence },
    };
    let (verdicts, _) = world.verify(&[forged.clone(), world.claim(3, bits(7)), forged]);
    assert_eq!(verdicts, [false, true, false]);
    assert_eq!(world.bases(), [818, 818]);
    // A measurement can start again.
    world.keys.forget();
    assert!(world.bases().is_empty());
}

#[test]
fn planes_of_counted_supports_are_kept() {
    let world = World::new();
    let counted = |missing: u32| {
        move |i: u32| match i {
            i if offline(i) || i == missing => 0,
            i if i < 512 => 1,
            _ => 2 + u8::from(i % 64 == 1),
        }
    };
    let (verdicts, _) = world.verify(&[world.claim(1, counted(1)), world.claim(1, counted(2))]);
    assert_eq!(verdicts, [true; 2]);
    let odd = (0..WORLD).filter(|i| counted(1)(*i) % 2 == 1).count();
    let twice = (0..WORLD).filter(|i| counted(1)(*i) >= 2).count();
    assert_eq!(world.bases(), [odd, twice]);
    let (verdicts, prepared) = world.verify(&[world.claim(2, counted(6))]);
    assert_eq!(verdicts, [true]);
    // Only the two planes of the claim are summed.
    let methods = &prepared.sums().methods;
    assert_eq!(methods.get(Method::Delta) + methods.get(Method::Based), 2);
    assert_eq!(
        Method::ALL
            .map(|method| methods.get(method))
            .iter()
            .sum::<u64>(),
        2
    );
}

#[test]
fn a_retry_neither_uses_nor_leaves_bases() {
    let mut world = World::new();
    world.scheme = world.scheme.portable();
    let claim = world.claim(1, |i| u8::from(!offline(i)));
    for _ in 0..2 {
        let (verdicts, prepared) = world.verify(std::slice::from_ref(&claim));
        assert_eq!(
            (verdicts, prepared.sums().methods.get(Method::Naive)),
            (vec![true], 1)
        );
        assert!(world.bases().is_empty());
    }
}

/// A vote of the world's committee, valid if the bytes are those of its own signature.
fn vote(voter: u32, signature: &[u8]) -> Claim {
    Claim::One {
        validator: Validator(voter),
        role: alphorn_scheme::Role::Vote,
        slot: Slot(1),
        message: [7; 32],
        signature: Arc::from(signature),
    }
}

#[test]
fn points_of_verified_votes_serve_aggregates_and_no_others_do() {
    let world = World::new();
    let bytes = |voter: u32, message: u8| {
        let secret = InteropKey::new(voter.into()).to_secret_key();
        sign(&secret, &[message; 32]).to_bytes()
    };
    let mut votes: Vec<(u32, [u8; 96])> = (0..40).map(|voter| (voter, bytes(voter, 7))).collect();
    // A good signature, but of another message: it must not be kept.
    votes[9].1 = bytes(9, 8);
    let claims: Vec<Claim> = votes
        .iter()
        .map(|(voter, bytes)| vote(*voter, bytes))
        .collect();
    let (verdicts, _) = world.verify(&claims);
    assert!(
        verdicts
            .iter()
            .enumerate()
            .all(|(i, valid)| *valid == (i != 9))
    );
    let known = world.keys.points_of_votes(0, &votes);
    assert!(
        known
            .iter()
            .enumerate()
            .all(|(i, point)| point.is_some() == (i != 9))
    );
    // Positions count from the first of the unit.
    let shifted: Vec<(u32, [u8; 96])> = votes[20..]
        .iter()
        .map(|(v, bytes)| (v - 20, *bytes))
        .collect();
    assert!(
        world
            .keys
            .points_of_votes(20, &shifted)
            .iter()
            .all(Option::is_some)
    );
    assert!(
        world
            .keys
            .points_of_votes(21, &shifted)
            .iter()
            .all(Option::is_none)
    );
    assert!(
        world
            .keys
            .points_of_votes(WORLD, &shifted)
            .iter()
            .all(Option::is_none)
    );

    let aggregate = |world: &World, votes: &[(u32, [u8; 96])]| {
        let mut scratch = Workspace::default();
        let statement = Statement {
            layer: Layer::Aggregate,
            first: 0,
            len: WORLD,
            slot: Slot(1),
            message: [7; 32],
        };
        let ctx = &mut Ctx::single(&mut scratch);
        world.scheme.aggregate(&world.keys, &statement, votes, ctx)
    };
    let fresh = World::new();
    assert_eq!(aggregate(&world, &votes), aggregate(&fresh, &votes));
    // The kept point of a validator does not apply to other bytes under its name.
    let other = votes.clone();
    votes[5].1 = bytes(5, 8);
    assert_eq!(aggregate(&world, &votes), aggregate(&fresh, &votes));
    assert_ne!(aggregate(&world, &votes), aggregate(&world, &other));
    votes[5].1 = [0; 96];
    assert_eq!(aggregate(&world, &votes), Err(SchemeError::Malformed(5)));
    // A later vote replaces the previous one, and a retry uses none.
    votes[5].1 = bytes(5, 8);
    let Claim::One { signature, .. } = vote(5, &votes[5].1) else {
        panic!("a vote");
    };
    let later = Claim::One {
        validator: Validator(5),
        role: alphorn_scheme::Role::Vote,
        slot: Slot(2),
        message: [8; 32],
        signature,
    };
    assert_eq!(world.verify(&[later]).0, [true]);
    let known = |votes: &[(u32, [u8; 96])]| world.keys.points_of_votes(0, votes)[5];
    assert!(known(&votes).is_some() && known(&other).is_none());
    world.keys.forget();
    assert!(known(&votes).is_none());
}

#[test]
fn a_request_to_stop_is_answered_soon_and_nothing_is_claimed() {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};
    let world = World::new();
    let secret = InteropKey::new(3).to_secret_key();
    // Each message is hashed and has its own Miller loop: half a second or more.
    let claims: Vec<Claim> = (0..2_000u64)
        .map(|i| {
            let mut message = [0; 32];
            message[..8].copy_from_slice(&i.to_le_bytes());
            Claim::One {
                validator: Validator(3),
                role: alphorn_scheme::Role::Vote,
                slot: Slot(1),
                message,
                signature: Arc::from(sign(&secret, &[9; 32]).to_bytes()),
            }
        })
        .collect();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    // Before it starts, while decoding, while hashing, and in the pairings or the search.
    for beats_before in [0, 900, 2_900, 4_290] {
        let (stop, beats) = (alphorn_exec::Stop::default(), Arc::new(AtomicU64::new(0)));
        let asked = std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                while beats.load(Ordering::Relaxed) < beats_before {
                    std::thread::sleep(Duration::from_micros(100));
                }
                stop.stop();
                Instant::now()
            });
            let mut scratch = Workspace::default();
            let ctx = &mut Ctx::pooled(&pool, stop.clone(), beats.clone(), &mut scratch);
            let verdicts =
                alphorn_scheme::verify_claims(&world.scheme, &world.keys, &claims, &[1; 32], ctx);
            assert!(ctx.stopped());
            assert_eq!(
                verdicts,
                vec![false; claims.len()],
                "nothing is said to hold"
            );
            asked.join().unwrap()
        });
        let waited = asked.elapsed();
        println!("asked after {beats_before} beats, answered within {waited:?}");
        // Ten milliseconds on a free core; other programs may hold the cores here.
        assert!(waited < Duration::from_millis(500), "{waited:?}");
    }
}
