//! The known ways in which BLS batch verification goes wrong, each with its attack.

use alphorn_bls::{
    Batch, CollectionItem, DecodeError, G2Affine, InteropKey, KERNELS, KeyItem, KeyTable,
    ProofOfPossession, PublicKey, Registration, Registry, RejectReason, Rlc, RlcBits, SecretKey,
    Signature, SignatureSet, SumOptions, VartimeInteropSigner, VerifyOptions, Workspace, aggregate,
    aggregate_public_keys, bytes, decode_g1, decode_g2, decode_public_keys, decode_signatures,
    encode_g2, fast_aggregate_verify, hash_to_g2, interop_keys, pop_prove, pop_verify, sign,
    vartime_interop_public_keys, verify, verify_collections, verify_sets,
};
use alphorn_exec::{Backend, Exec, Watch};
use ark_bls12_381::g2::Config as ArkG2;
use ark_ec::{AffineRepr, CurveConfig};
use ark_ff::PrimeField;
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};
use std::sync::atomic::{AtomicUsize, Ordering};

const INFINITY_KEY: [u8; 48] = {
    let mut bytes = [0; 48];
    bytes[0] = 0xc0;
    bytes
};
const INFINITY_SIGNATURE: [u8; 96] = {
    let mut bytes = [0; 96];
    bytes[0] = 0xc0;
    bytes
};

fn rlc(seed: u8) -> Rlc {
    Rlc::new([seed; 32], RlcBits::Bits64)
}

/// `n` claims of interop keys over `messages` messages in turn, all good.
fn good_sets(n: usize, messages: &[Vec<u8>]) -> Vec<SignatureSet<'_>> {
    let keys = interop_keys(0..n as u64, Exec::serial());
    let public = vartime_interop_public_keys(&keys, Exec::serial());
    let mut sets = Vec::new();
    if let [message] = messages {
        let signer = VartimeInteropSigner::new(message, n, Backend::Portable);
        for (key, signature) in public
            .iter()
            .zip(signer.vartime_interop_sign(&keys, Exec::serial()))
        {
            sets.push(SignatureSet {
                key: *key,
                message,
                signature,
            });
        }
        return sets;
    }
    for (i, key) in public.iter().enumerate() {
        let message = &messages[i % messages.len()];
        sets.push(SignatureSet {
            key: *key,
            message,
            signature: sign(&keys[i].to_secret_key(), message),
        });
    }
    sets
}

fn one_message() -> Vec<Vec<u8>> {
    vec![b"the common vote".to_vec()]
}

/// Adds a point of ark to a signature.
fn shifted(signature: &Signature, delta: ark_bls12_381::G2Affine) -> Signature {
    let point = ark_bls12_381::G2Affine::deserialize_compressed(&signature.to_bytes()[..]).unwrap();
    let mut bytes = Vec::new();
    let sum: ark_bls12_381::G2Affine = (point + delta).into();
    sum.serialize_compressed(&mut bytes).unwrap();
    Signature::from_bytes(&bytes).unwrap()
}

fn delta(factor: i64) -> ark_bls12_381::G2Affine {
    let scalar = ark_bls12_381::Fr::from(factor.unsigned_abs());
    let scalar = if factor < 0 { -scalar } else { scalar };
    (ark_bls12_381::G2Affine::generator() * scalar).into()
}

/// Locates through the public interface and compares with verifying each alone.
fn assert_located(sets: &[SignatureSet<'_>], bad: &[usize], rlc: &Rlc) {
    let all: Vec<_> = sets.iter().copied().map(Some).collect();
    let batch = Batch::new(&all, rlc, Exec::serial());
    assert_eq!(batch.check_all(Exec::serial()), bad.is_empty());
    assert_eq!(batch.locate(Exec::serial()).bad, bad);
    for (i, set) in sets.iter().enumerate().take(16) {
        assert_eq!(
            verify(&set.key, set.message, &set.signature),
            !bad.contains(&i)
        );
    }
}

#[test]
fn trap_05_points_outside_the_subgroup_are_rejected_one_by_one_in_bulk_and_in_batches() {
    // (0, 2) has order 3 in E(Fp).
    let mut order_3 = [0; 48];
    order_3[0] = 0x80;
    assert_eq!(decode_g1(&order_3), Err(DecodeError::NotInSubgroup));
    let order_13 = point_of_order_13();
    assert_eq!(decode_g2(&order_13), Err(DecodeError::NotInSubgroup));

    let messages = one_message();
    let sets = good_sets(512, &messages);
    let mut keys: Vec<[u8; 48]> = sets.iter().map(|set| set.key.to_bytes()).collect();
    let mut signatures: Vec<[u8; 96]> = sets.iter().map(|set| set.signature.to_bytes()).collect();
    // A signature plus a point of order 13: one in 13 weights would hide it.
    let tainted = add_encoded(&signatures[77], &order_13);
    for seed in 0..16 {
        let place = 31 * usize::from(seed);
        let (key, signature) = (keys[place], signatures[place]);
        keys[place] = order_3;
        signatures[place] = tainted;
        let decoded = decode_public_keys(&keys, &rlc(seed), Exec::serial());
        let found: Vec<usize> = (0..512).filter(|&i| decoded[i].is_err()).collect();
        assert_eq!(found, [place]);
        let decoded = decode_signatures(&signatures, &rlc(seed), Exec::serial());
        assert_eq!(decoded[place], Err(DecodeError::NotInSubgroup));
        assert_eq!(
            decoded
                .iter()
                .filter(|signature| signature.is_err())
                .count(),
            1
        );
        (keys[place], signatures[place]) = (key, signature);
    }
    let good = |i: usize| {
        (
            sets[i].key.to_bytes(),
            sets[i].message.to_vec(),
            sets[i].signature.to_bytes(),
        )
    };
    let (key, message, _) = good(77);
    assert!(!bytes::verify(&key, &message, &tainted));
    for seed in 0..32 {
        assert!(!bytes::batch_verify(
            &[key],
            &[&message],
            &[tainted],
            &rlc(seed)
        ));
    }
}

/// The signatures of a batch are checked by the sums of which its combination is made: those outside the subgroup are
/// named, no others, at every size and in every part.
#[test]
fn trap_05_points_outside_the_subgroup_are_named_among_the_claims_of_a_batch() {
    let messages: Vec<Vec<u8>> = (0..3u8).map(|i| vec![i; 32]).collect();
    let order_13 = point_of_order_13();
    let mut opposite = order_13;
    opposite[0] ^= 0x20;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    let kernels = [Backend::Portable, *KERNELS.available().last().unwrap()];
    for (count, outside) in [
        (40, vec![0, 39]),
        (170, vec![3, 4, 160]),
        (1300, vec![7, 500, 1299]),
    ] {
        let sets = good_sets(count, &messages);
        let mut signatures: Vec<[u8; 96]> =
            sets.iter().map(|set| set.signature.to_bytes()).collect();
        // Those at the ends of the list cancel each other in a sum.
        for (i, position) in outside.iter().enumerate() {
            let torsion = if i == 0 { &opposite } else { &order_13 };
            signatures[*position] = add_encoded(&signatures[*position], torsion);
        }
        // One is in the subgroup and wrong.
        signatures.swap(10, 11);
        let singles: Vec<KeyItem<'_>> = sets
            .iter()
            .zip(&signatures)
            .map(|(set, signature)| KeyItem {
                key: set.key,
                message: set.message,
                signature,
            })
            .collect();
        let expected: Vec<Result<(), RejectReason>> = (0..count)
            .map(|i| match i {
                i if outside.contains(&i) => Err(RejectReason::Decode(DecodeError::NotInSubgroup)),
                10 | 11 => Err(RejectReason::Signature),
                _ => Ok(()),
            })
            .collect();
        for (seed, bits) in [
            (1, RlcBits::Bits64),
            (2, RlcBits::Bits64),
            (3, RlcBits::Bits128),
        ] {
            for kernel in kernels {
                let rlc = Rlc::new([seed; 32], bits);
                let options = VerifyOptions {
                    rlc: &rlc,
                    sums: SumOptions::default(),
                    bases: &[],
                    exec: Exec::new(kernel, Some(&pool)),
                };
                let table = opposite_table(kernel);
                let workspace = &mut Workspace::default();
                let verdicts = verify_collections(&table, &[], &singles, &options, workspace);
                assert_eq!(verdicts.unwrap(), expected, "{count} {kernel}");
            }
        }
    }
}

fn add_encoded(signature: &[u8; 96], other: &[u8; 96]) -> [u8; 96] {
    let ark = |bytes: &[u8; 96]| {
        ark_bls12_381::G2Affine::deserialize_compressed_unchecked(&bytes[..]).unwrap()
    };
    let sum: ark_bls12_381::G2Affine = (ark(signature) + ark(other)).into();
    let mut out = Vec::new();
    sum.serialize_compressed(&mut out).unwrap();
    out.try_into().unwrap()
}

/// (h2 / 13^2) * r * P for a point P of the curve: of order 13 unless it is the identity, because
/// the 13-part of the group is Z13 x Z13.
fn point_of_order_13() -> [u8; 96] {
    let mut cofactor = ArkG2::COFACTOR.to_vec();
    for _ in 0..2 {
        let mut rest = 0u128;
        for limb in cofactor.iter_mut().rev() {
            let value = (rest << 64) | u128::from(*limb);
            *limb = (value / 13) as u64;
            rest = value % 13;
        }
        assert_eq!(rest, 0, "169 divides the cofactor of G2");
    }
    for x in 1u64..100 {
        let x = ark_bls12_381::Fq2::new(x.into(), 1u64.into());
        let Some(point) = ark_bls12_381::G2Affine::get_point_from_x_unchecked(x, false) else {
            continue;
        };
        let multiple = |point: ark_bls12_381::G2Affine, by: &[u64]| {
            ark_bls12_381::G2Affine::from(point.mul_bigint(by))
        };
        let small = multiple(multiple(point, &ark_bls12_381::Fr::MODULUS.0), &cofactor);
        if !small.is_zero() {
            assert!(multiple(small, &[13]).is_zero());
            let mut out = Vec::new();
            small.serialize_compressed(&mut out).unwrap();
            return out.try_into().unwrap();
        }
    }
    panic!("almost every point has a component of order 13")
}

#[test]
fn trap_06_infinity_alone_and_inside_a_good_batch() {
    assert_eq!(
        PublicKey::from_bytes(&INFINITY_KEY),
        Err(DecodeError::Infinity)
    );
    let infinite = Signature::from_bytes(&INFINITY_SIGNATURE).unwrap();
    let messages = one_message();
    let mut sets = good_sets(9, &messages);
    assert!(!verify(&sets[0].key, &messages[0], &infinite));
    sets[4].signature = infinite;
    assert!(!verify_sets(&sets, &rlc(1), Exec::serial()));
    assert!(!verify_sets(&sets[4..5], &rlc(1), Exec::serial()));
    assert_located(&sets, &[4], &rlc(1));

    // Keys P and -P: their sum is no key, alone and beside good items.
    let table = opposite_table(Backend::Portable);
    let pair = [0b11u64];
    let good = [0b100u64];
    let secret = InteropKey::new(7).to_secret_key();
    let signature = sign(&secret, b"m").to_bytes();
    let items = [
        item(&good, b"m", &signature),
        item(&pair, b"m", &INFINITY_SIGNATURE),
        item(&pair, b"m", &signature),
    ];
    let verdicts = check(&table, &items, &[]);
    assert_eq!(verdicts[0], Ok(()));
    assert_eq!(
        verdicts[1],
        Err(RejectReason::Decode(DecodeError::Infinity))
    );
    assert_eq!(verdicts[2], Err(RejectReason::KeyAtInfinity));
    let empty = [0u64];
    let verdicts = check(&table, &[item(&empty, b"m", &signature)], &[]);
    assert_eq!(verdicts, [Err(RejectReason::KeyAtInfinity)]);
}

/// Keys P, -P and the interop key 7 in one committee.
fn opposite_table(kernel: Backend) -> KeyTable {
    let key = *InteropKey::new(3).to_secret_key().public_key().point();
    let third = *InteropKey::new(7).to_secret_key().public_key().point();
    KeyTable::new(kernel, vec![key, key.neg(), third], &[3]).unwrap()
}

fn item<'a>(plane: &'a [u64; 1], message: &'a [u8], signature: &'a [u8]) -> CollectionItem<'a> {
    // One plane of one word: a committee of at most 64.
    let planes: &'a [&'a [u64]] = Box::leak(Box::new([plane.as_slice()]));
    CollectionItem {
        committee: 0,
        planes,
        message,
        signature,
    }
}

fn check(
    table: &KeyTable,
    items: &[CollectionItem<'_>],
    singles: &[KeyItem<'_>],
) -> Vec<Result<(), RejectReason>> {
    let rlc = rlc(9);
    let options = VerifyOptions {
        rlc: &rlc,
        sums: SumOptions::default(),
        bases: &[],
        exec: Exec::serial(),
    };
    verify_collections(table, items, singles, &options, &mut Workspace::default()).unwrap()
}

#[test]
fn trap_07_keys_that_cancel_hurt_only_their_owner() {
    let key = InteropKey::new(3).to_secret_key();
    let mut negative = [0; 32];
    ark_negative(&key.to_bytes(), &mut negative);
    let opposite = SecretKey::from_bytes(&negative).unwrap();
    let votes = [sign(&key, b"m"), sign(&opposite, b"m")];
    let keys = [key.public_key(), opposite.public_key()];
    // Each vote is valid, their sum is nothing, and nobody may publish it.
    assert!(verify(&keys[0], b"m", &votes[0]) && verify(&keys[1], b"m", &votes[1]));
    let sum = aggregate(&votes).unwrap();
    assert!(sum.is_infinity());
    assert!(aggregate_public_keys(&keys).is_err());
    assert!(!fast_aggregate_verify(&keys, b"m", &sum));
    // The draft's AggregateVerify has no sum of keys to refuse.
    assert!(alphorn_bls::aggregate_verify(&keys, &[b"m", b"m"], &sum));
    assert!(!alphorn_bls::aggregate_verify(&keys, &[b"m", b"n"], &sum));
    // Infinity among others takes nothing away.
    let with_infinity = aggregate(&[sum, votes[0], sum, votes[1], votes[0]]).unwrap();
    assert_eq!(with_infinity, votes[0]);
    // Anyone may name the pair as signers beside an honest vote: accepted by design.
    let table = opposite_table(Backend::Portable);
    let signature = sign(&InteropKey::new(7).to_secret_key(), b"m").to_bytes();
    assert_eq!(
        check(&table, &[item(&[0b111], b"m", &signature)], &[]),
        [Ok(())]
    );
}

/// r - k, both big-endian.
fn ark_negative(scalar: &[u8; 32], out: &mut [u8; 32]) {
    let negative = -ark_bls12_381::Fr::from_be_bytes_mod_order(scalar);
    negative.serialize_compressed(&mut out[..]).unwrap();
    out.reverse();
}

#[test]
fn trap_08_errors_that_cancel_in_a_plain_sum_are_found_by_index() {
    for messages in [
        one_message(),
        vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()],
    ] {
        let mut sets = good_sets(31, &messages);
        sets[3].signature = shifted(&sets[3].signature, delta(5));
        sets[17].signature = shifted(&sets[17].signature, delta(-5));
        let plain: Vec<Signature> = sets.iter().map(|set| set.signature).collect();
        let before: Vec<Signature> = good_sets(31, &messages)
            .iter()
            .map(|set| set.signature)
            .collect();
        assert_eq!(
            aggregate(&plain),
            aggregate(&before),
            "the plain sum does not see it"
        );
        assert_located(&sets, &[3, 17], &rlc(2));
        sets[20].signature = shifted(&sets[20].signature, delta(2));
        sets[21].signature = shifted(&sets[21].signature, delta(3));
        sets[22].signature = shifted(&sets[22].signature, delta(-5));
        assert_located(&sets, &[3, 17, 20, 21, 22], &rlc(3));
    }
}

#[test]
fn trap_09_signatures_swapped_inside_a_message_are_caught() {
    let messages = one_message();
    for seed in 0..8 {
        let mut sets = good_sets(12, &messages);
        (sets[2].signature, sets[9].signature) = (sets[9].signature, sets[2].signature);
        assert_located(&sets, &[2, 9], &rlc(seed));
        let wide = Rlc::new([seed; 32], RlcBits::Bits128);
        assert_located(&sets, &[2, 9], &wide);
        assert_located(&sets, &[2, 9], &Rlc::reproducible());
    }
}

/// Breaks the claims at `bad` by exchanging their signatures for those of another message.
fn broken<'a>(
    sets: &[SignatureSet<'a>],
    bad: &[usize],
    wrong: &Signature,
) -> Vec<SignatureSet<'a>> {
    let mut sets = sets.to_vec();
    bad.iter().for_each(|&i| sets[i].signature = *wrong);
    sets
}

#[test]
fn trap_10_verdicts_equal_one_by_one_and_tests_stay_below_the_bound() {
    let messages = one_message();
    let all = good_sets(1024, &messages);
    let wrong = sign(&InteropKey::new(0).to_secret_key(), b"another message");
    for n in [1usize, 2, 31, 512, 1024] {
        for k in [0, 1, 8, 64, n / 2, n] {
            if k > n {
                continue;
            }
            let spread: Vec<usize> = (0..k).map(|i| i * n / k.max(1)).collect();
            let block: Vec<usize> = (n - k..n).collect();
            for bad in [spread, block] {
                let sets = broken(&all[..n], &bad, &wrong);
                let some: Vec<_> = sets.iter().copied().map(Some).collect();
                let batch = Batch::new(&some, &rlc(4), Exec::serial());
                let located = batch.locate(Exec::serial());
                assert_eq!(located.bad, bad, "n = {n}, k = {k}");
                let bound = if k == 0 {
                    1
                } else {
                    k * ((n / k).ilog2() as usize + 1)
                };
                if n.is_power_of_two() && k.max(1).is_power_of_two() {
                    assert!(
                        located.tests <= bound,
                        "n = {n}, k = {k}: {} tests",
                        located.tests
                    );
                }
                assert!(
                    located.tests <= n + n / 10 + 1,
                    "n = {n}, k = {k}: {} tests",
                    located.tests
                );
            }
        }
    }
}

/// One bad item in each sixteen: without the shuffle no other places cost as much, and the search needs
/// all the tests of its bound, whatever the secret.
#[test]
fn trap_10_nobody_can_place_bad_items_where_they_cost_most() {
    let (n, k) = (256, 16);
    let messages = one_message();
    let wrong = sign(&InteropKey::new(0).to_secret_key(), b"another message");
    let bad: Vec<usize> = (0..k).map(|i| i * n / k).collect();
    let sets = broken(&good_sets(n, &messages), &bad, &wrong);
    let some: Vec<_> = sets.into_iter().map(Some).collect();
    let bound = k * ((n / k).ilog2() as usize + 1);
    let tests: Vec<usize> = (0..6)
        .map(|secret| {
            let located = Batch::new(&some, &rlc(secret), Exec::serial()).locate(Exec::serial());
            assert_eq!(located.bad, bad);
            located.tests
        })
        .collect();
    assert!(
        tests.iter().all(|tests| *tests < bound),
        "{tests:?} of {bound}"
    );
    assert!(tests.iter().any(|other| *other != tests[0]), "{tests:?}");
}

#[test]
fn trap_10_many_messages_with_many_bad_items_cost_little_more_than_one_by_one() {
    let messages: Vec<Vec<u8>> = (0..64u8).map(|i| vec![i; 32]).collect();
    let all = good_sets(64, &messages);
    let wrong = sign(&InteropKey::new(0).to_secret_key(), b"another message");
    for bad in [
        vec![],
        vec![5],
        (0..64).step_by(4).collect::<Vec<usize>>(),
        (0..64).collect(),
    ] {
        let sets = broken(&all, &bad, &wrong);
        assert_located(&sets, &bad, &rlc(5));
        let some: Vec<_> = sets.iter().copied().map(Some).collect();
        let batch = Batch::new(&some, &rlc(5), Exec::serial());
        let located = batch.locate(Exec::serial());
        // The first test has 65 Miller loops, one by one takes 128; slack and one overshoot.
        assert!(located.miller_loops <= 65 + 128 + 33 + 16, "{located:?}");
    }
}

#[test]
fn check_of_any_range_agrees_with_the_items_in_it() {
    let messages = [b"a".to_vec(), b"b".to_vec()];
    let good = good_sets(10, &messages);
    let wrong = sign(&InteropKey::new(0).to_secret_key(), b"another message");
    let sets = broken(&good, &[2, 7], &wrong);
    let mut some: Vec<_> = sets.iter().copied().map(Some).collect();
    some[5] = None;
    let batch = Batch::new(&some, &rlc(6), Exec::serial());
    for from in 0..10 {
        for to in from..=10 {
            let expected = ![2, 5, 7].iter().any(|i| (from..to).contains(i));
            assert_eq!(
                batch.check(from..to, Exec::serial()),
                expected,
                "{from}..{to}"
            );
        }
    }
    assert_eq!(batch.locate(Exec::serial()).bad, [2, 5, 7]);
    // What does not decode costs no search.
    some[2] = None;
    some[7] = None;
    let located = Batch::new(&some, &rlc(6), Exec::serial()).locate(Exec::serial());
    assert_eq!((located.bad, located.tests), (vec![2, 5, 7], 1));
}

#[test]
fn verdicts_do_not_depend_on_threads() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    let messages = one_message();
    let wrong = sign(&InteropKey::new(0).to_secret_key(), b"another message");
    let sets = broken(&good_sets(300, &messages), &[0, 150, 299], &wrong);
    let some: Vec<_> = sets.iter().copied().map(Some).collect();
    let one = Batch::new(&some, &rlc(7), Exec::serial()).locate(Exec::serial());
    let exec = Exec::new(Backend::Portable, Some(&pool));
    assert_eq!(Batch::new(&some, &rlc(7), exec).locate(exec), one);
}

#[test]
fn trap_24_without_possession_a_rogue_key_forges_and_the_proof_stops_it() {
    let victim = InteropKey::new(1).to_secret_key().public_key();
    let attacker = SecretKey::key_gen(&[9; 32]).unwrap();
    // pk' = X - pk for the attacker's X = x * g1: nobody knows its secret.
    let ark = |key: &PublicKey| {
        ark_bls12_381::G1Affine::deserialize_compressed(&key.to_bytes()[..]).unwrap()
    };
    let rogue: ark_bls12_381::G1Affine = (ark(&attacker.public_key()) - ark(&victim)).into();
    let mut encoded = Vec::new();
    rogue.serialize_compressed(&mut encoded).unwrap();
    let rogue = PublicKey::from_bytes(&encoded).unwrap();
    // The attacker alone signs for both ...
    let forged = sign(&attacker, b"both of us say so");
    assert!(fast_aggregate_verify(
        &[victim, rogue],
        b"both of us say so",
        &forged
    ));
    // ... but cannot prove possession: not with its own key, not with the victim's proof.
    assert!(!pop_verify(&rogue, &pop_prove(&attacker)));
    let stolen = pop_prove(&InteropKey::new(1).to_secret_key());
    assert!(pop_verify(&victim, &stolen) && !pop_verify(&rogue, &stolen));
}

#[test]
fn trap_28_a_signature_under_another_tag_or_message_is_rejected() {
    let secret = InteropKey::new(2).to_secret_key();
    let key = secret.public_key();
    // The proof of possession hashes the key under its own tag: it is no signature of the key.
    let proof = pop_prove(&secret).to_bytes();
    assert!(pop_verify(
        &key,
        &ProofOfPossession::from_bytes(&proof).unwrap()
    ));
    assert!(!bytes::verify(&key.to_bytes(), &key.to_bytes(), &proof));
    let as_signature = sign(&secret, &key.to_bytes()).to_bytes();
    assert!(!bytes::pop_verify(&key.to_bytes(), &as_signature));
    // Tags of the other ciphersuites give other points.
    let nul = hash_to_g2(b"m", b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_");
    let own = hash_to_g2(b"m", alphorn_bls::SIGNATURE_DST);
    assert_ne!(nul, own);
    assert_ne!(encode_g2(&nul), encode_g2(&G2Affine::INFINITY));
    let signature = sign(&secret, b"network a");
    assert!(!verify(&key, b"network b", &signature));
}

/// Asks a task to end at one of its questions, and from then on.
struct EndsAt {
    question: usize,
    asked: AtomicUsize,
}

impl Watch for EndsAt {
    fn stopped(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.question
    }
}

/// What a check accepts if the task is asked to end at its first question, at its second one, and so on, up to the
/// first task that was not asked to end.
fn whenever_it_ends(accepts: impl Fn(Exec<'_>) -> bool) {
    for question in 0.. {
        let asked = AtomicUsize::new(0);
        let watch = EndsAt { question, asked };
        let accepted = accepts(Exec::serial().with_watch(&watch));
        assert!(!accepted, "asked to end at question {question}");
        if watch.asked.into_inner() <= question {
            assert!(question > 0, "it asks at all");
            return;
        }
    }
}

#[test]
fn trap_30_a_task_that_was_asked_to_end_accepts_nothing() {
    let messages = one_message();
    let mut sets = good_sets(24, &messages);
    sets[7].signature = shifted(&sets[7].signature, delta(1));
    whenever_it_ends(|exec| verify_sets(&sets, &rlc(1), exec));

    // A value of a task that ended is not the batch's.
    let all: Vec<_> = sets.iter().copied().map(Some).collect();
    let batch = Batch::new(&all, &rlc(1), Exec::serial());
    let (question, asked) = (0, AtomicUsize::new(0));
    let up = EndsAt { question, asked };
    assert!(!batch.check_all(Exec::serial().with_watch(&up)));
    assert!(!batch.check_all(Exec::serial()));

    let order_13 = point_of_order_13();
    whenever_it_ends(|exec| decode_signatures(&[order_13], &rlc(1), exec)[0].is_ok());
    let tainted = add_encoded(&sets[3].signature.to_bytes(), &order_13);
    let claim = KeyItem {
        key: sets[3].key,
        message: sets[3].message,
        signature: &tainted,
    };
    whenever_it_ends(|exec| {
        let rlc = rlc(1);
        let options = VerifyOptions {
            rlc: &rlc,
            sums: SumOptions::default(),
            bases: &[],
            exec,
        };
        let table = opposite_table(Backend::Portable);
        let workspace = &mut Workspace::default();
        let verdicts = verify_collections(&table, &[], &[claim], &options, workspace).unwrap();
        verdicts[0].is_ok()
    });
    let mut order_3 = [0; 48];
    order_3[0] = 0x80;
    whenever_it_ends(|exec| decode_public_keys(&[order_3], &rlc(1), exec)[0].is_ok());

    // A key that is another's, without its proof.
    let keys: Vec<_> = interop_keys(0..4, Exec::serial())
        .iter()
        .map(InteropKey::to_secret_key)
        .collect();
    let mut list: Vec<_> = keys
        .iter()
        .map(|key| Registration {
            public_key: key.public_key().to_bytes(),
            proof: pop_prove(key).to_bytes(),
        })
        .collect();
    list[2].proof = list[1].proof;
    whenever_it_ends(|exec| Registry::new(&list, &rlc(1), exec).is_ok());
}
