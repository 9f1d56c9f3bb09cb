//! Proofs over real signatures.

use super::*;
use crate::PROOF_BYTES_MAX;
use crate::plain::Opened;
use crate::{SIGNATURE_BYTES, SecretKey};
use alphorn_exec::{Pulse, Stop};
use alphorn_labrador::{Invalid, KERNELS, ProveError};

struct World {
    keys: Vec<SecretKey>,
    messages: Vec<Vec<u8>>,
    signatures: Vec<[u8; SIGNATURE_BYTES]>,
}

impl World {
    /// `n` signatures of a few keys over two messages.
    fn new(n: usize) -> Self {
        let keys: Vec<SecretKey> = (0..n.min(5) as u64).map(SecretKey::interop).collect();
        let messages = (0..n).map(|i| vec![(i % 2) as u8; 32]).collect::<Vec<_>>();
        let signatures = (0..n)
            .map(|i| keys[i % keys.len()].sign(&messages[i], &[i as u8; 32]))
            .collect();
        Self {
            keys,
            messages,
            signatures,
        }
    }

    fn items(&self) -> Vec<Item<'_>> {
        (0..self.signatures.len())
            .map(|i| Item {
                key: self.keys[i % self.keys.len()].public(),
                message: &self.messages[i],
                signature: &self.signatures[i],
            })
            .collect()
    }

    fn signed<'a>(&'a self, salts: &'a [[u8; SALT_BYTES]]) -> Vec<Signed<'a>> {
        (self.items().iter().zip(salts))
            .map(|(item, salt)| Signed {
                key: item.key,
                message: item.message,
                salt: Some(salt),
            })
            .collect()
    }
}

fn aggregator(n: usize) -> Aggregator {
    Aggregator::new(n, Profile::Core128, KERNELS.measured()).expect("within limits")
}

/// All numbers up to 64 when soaking, and those where pieces change their shape.
#[test]
fn aggregates_of_few_and_of_many_verify() {
    let sizes: Vec<usize> = if cfg!(feature = "soak") {
        (1..=64).chain([100, 511, 512, 2000, 4095, 4096]).collect()
    } else {
        vec![1, 2, 17, 48, 100]
    };
    for n in sizes {
        let world = World::new(n);
        let aggregator = aggregator(n);
        let (salts, proof) = aggregator.prove(&world.items(), b"c").expect("valid");
        let verdict = aggregator.verify(&world.signed(&salts), b"c", &proof);
        assert_eq!(verdict, Ok(()), "{n}");
        assert!(proof.len() < 75_000, "{n}: {} bytes", proof.len());
    }
}

/// Whatever is public is bound: any change of it is a rejection.
#[test]
fn everything_public_is_bound() {
    let world = World::new(6);
    let aggregator = aggregator(6);
    let (salts, proof) = aggregator.prove(&world.items(), b"c").expect("valid");
    let signed = world.signed(&salts);
    let rejected = |signed: &[Signed<'_>], context: &[u8], proof: &[u8]| {
        matches!(
            aggregator.verify(signed, context, proof),
            Err(AggregateError::Reject(_))
        )
    };
    assert!(!rejected(&signed, b"c", &proof));
    assert!(rejected(&signed, b"d", &proof));
    let mut other = signed.clone();
    other.swap(0, 2);
    assert!(rejected(&other, b"c", &proof), "two signatures swapped");
    let mut other = signed.clone();
    (other[0].salt, other[1].salt) = (signed[1].salt, signed[0].salt);
    assert!(rejected(&other, b"c", &proof), "two salts swapped");
    let mut other = signed.clone();
    other[3].message = b"another";
    assert!(rejected(&other, b"c", &proof), "a message");
    let mut other = signed.clone();
    other[4].key = signed[0].key;
    assert!(rejected(&other, b"c", &proof), "a key");
    let mut changed = proof.clone();
    changed[proof.len() / 2] ^= 4;
    assert!(rejected(&signed, b"c", &changed), "a bit of the proof");
    let count = AggregateError::Count {
        signatures: 5,
        expected: 6,
    };
    assert_eq!(aggregator.verify(&signed[1..], b"c", &proof), Err(count));
}

/// A changed byte of the proof, of a key, a salt, a message or the context is a rejection, wherever
/// it lies: each byte when soaking, one in so many otherwise.
#[test]
fn no_byte_of_a_proof_or_of_its_statement_can_change() {
    let world = World::new(2);
    let aggregator = aggregator(2);
    let (salts, proof) = aggregator
        .prove(&world.items(), b"a context")
        .expect("valid");
    let signed = world.signed(&salts);
    let verify = |signed: &[Signed<'_>], context: &[u8], proof: &[u8]| {
        aggregator.verify(signed, context, proof)
    };
    assert_eq!(verify(&signed, b"a context", &proof), Ok(()));
    let rejects = |verdict: Result<(), AggregateError>, what: &str, index: usize| {
        let rejected = matches!(verdict, Err(AggregateError::Reject(_)));
        assert!(rejected, "{what}, byte {index}: {verdict:?}");
    };
    let flipped = |bytes: &[u8], index: usize| {
        let mut out = bytes.to_vec();
        out[index] ^= 1 << (index % 8);
        out
    };
    let sampled = |length: usize, count: usize| {
        let step = if cfg!(feature = "soak") {
            1
        } else {
            length.div_ceil(count)
        };
        (0..length).step_by(step).chain([length - 1])
    };
    for index in sampled(proof.len(), 60) {
        let changed = flipped(&proof, index);
        rejects(verify(&signed, b"a context", &changed), "proof", index);
    }
    for index in sampled(9, 3) {
        let changed = flipped(b"a context", index);
        rejects(verify(&signed, &changed, &proof), "context", index);
    }
    for index in sampled(SALT_BYTES, 8) {
        let changed = flipped(&salts[1], index).try_into().expect("a salt");
        let mut other = signed.clone();
        other[1].salt = Some(&changed);
        rejects(verify(&other, b"a context", &proof), "salt", index);
    }
    for index in sampled(signed[0].message.len(), 6) {
        let changed = flipped(signed[0].message, index);
        let mut other = signed.clone();
        other[0].message = &changed;
        rejects(verify(&other, b"a context", &proof), "message", index);
    }
    for index in sampled(crate::PUBLIC_KEY_BYTES, 12) {
        let changed = flipped(signed[0].key.bytes(), index);
        // What is no key at all has no statement.
        if let Ok(key) = PublicKey::from_bytes(Flavour::FnDsa, &changed) {
            let mut other = signed.clone();
            other[0].key = &key;
            rejects(verify(&other, b"a context", &proof), "key", index);
        }
    }
}

#[test]
fn flavours_do_not_mix_in_one_aggregate() {
    let world = World::new(2);
    let zero = crate::codec::encode_key(Flavour::Original, &[0; DEGREE]);
    let zero = PublicKey::from_bytes(Flavour::Original, &zero).expect("zero is a key");
    let salts = [[0; SALT_BYTES]; 2];
    let mut signed = world.signed(&salts);
    signed[1].key = &zero;
    let expected = AggregateError::Flavours {
        index: 1,
        found: "original",
        expected: "fn-dsa",
    };
    assert_eq!(aggregator(2).verify(&signed, b"", &[]), Err(expected));
}

#[test]
fn bad_signatures_are_named_before_any_work() {
    let mut world = World::new(9);
    world.signatures[4][200] ^= 1;
    let refused = aggregator(9).prove(&world.items(), b"");
    assert!(
        matches!(refused, Err(AggregateError::Invalid { index: 4, .. })),
        "{refused:?}"
    );
}

/// What is no proof is refused by its length or header, before a message is hashed: a verifier that nobody
/// waits for any more would else have said so.
#[test]
fn what_is_no_proof_is_rejected_before_any_work() {
    let world = World::new(3);
    let aggregator = aggregator(3);
    let (salts, proof) = aggregator.prove(&world.items(), b"").expect("valid");
    let signed = world.signed(&salts);
    let stop = Stop::default();
    stop.stop();
    let pulse = Pulse::new(stop, Arc::default());
    let exec = Exec::serial().with_watch(&pulse);
    let verify = |proof: &[u8]| aggregator.verify_on(&signed, b"", proof, exec);
    for bytes in [0, 3, 1000] {
        let expected = AggregateError::Reject(Reject::Length { bytes });
        assert_eq!(verify(&proof[..bytes]), Err(expected));
    }
    let mut other = proof.clone();
    other[6] += 1;
    let expected = AggregateError::Reject(Reject::Header { offset: 6 });
    assert_eq!(verify(&other), Err(expected));
    assert_eq!(verify(&proof), Err(AggregateError::Stopped(Stopped)));
}

/// A prover that skips admission gets no proof of a signature of another message.
#[test]
fn false_relations_have_no_proof() {
    let aggregator = aggregator(3);
    let world = World::new(3);
    let items = world.items();
    let opened: Vec<Opened> = open_batch(&items, Backend::Portable)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("valid");
    let signed: Vec<Signed<'_>> = (items.iter().zip(&opened))
        .map(|(item, opened)| Signed {
            key: item.key,
            message: if item.message[0] == 1 {
                b"other"
            } else {
                item.message
            },
            salt: opened.salt.as_ref(),
        })
        .collect();
    let flavour = aggregator.flavour(&signed).expect("one flavour");
    let targets = |columns: Range<usize>| targets(&signed[columns], Backend::Portable);
    let relation = relation(&signed, Targets::Made(&targets), aggregator.serial());
    let relation = relation.expect("centred");
    let digest = digest(flavour, &signed, b"", aggregator.serial());
    let statement = aggregator.statement(&relation, digest.expect("not stopped"));
    let statement = statement.expect("within limits");
    let columns = opened
        .iter()
        .flat_map(|o| o.s1.iter().chain(&o.s2).copied());
    let flat: Vec<i16> = columns.collect();
    let witness: Vec<Small> = flat.as_chunks().0.iter().map(|&c| Small(c)).collect();
    let system = &aggregator.system;
    let honest = system.prove(&statement, &witness);
    let named = ProveError::Witness(Invalid::Relation { column: 1 });
    assert_eq!(honest, Err(named));
    let proof = system.prove_unchecked_on(&statement, &witness, aggregator.serial());
    let verdict = aggregator.verify(&signed, b"", &proof.expect("a proof"));
    assert_eq!(verdict, Err(AggregateError::Reject(Reject::Sumcheck)));
}

#[test]
fn numbers_beyond_the_limits_have_no_aggregator() {
    for n in [0, alphorn_labrador::columns::COLUMNS_MAX + 1] {
        let refused = Aggregator::new(n, Profile::Core128, Backend::Portable).err();
        let expected = StatementError::Columns {
            columns: n,
            max: alphorn_labrador::columns::COLUMNS_MAX,
        };
        assert_eq!(refused, Some(AggregateError::Statement(expected)));
    }
}

/// The bytes of a small proof: a change of them is a change of protocol. They depend neither on
/// threads nor on kernels.
#[test]
fn a_small_proof_has_its_pinned_bytes() {
    let world = World::new(3);
    let (_, proof) = aggregator(3).prove(&world.items(), b"c").expect("valid");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
    let pool = pool.expect("three threads");
    for backend in KERNELS.available() {
        let other = Aggregator::new(3, Profile::Core128, backend).expect("within limits");
        let exec = Exec::new(backend, Some(&pool));
        let again = other.prove_on(&world.items(), b"c", exec);
        assert_eq!(again.expect("valid").1, proof, "{backend}");
    }
    let digest: String = (<sha2::Sha256 as sha2::Digest>::digest(&proof).iter())
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let bytes = proof.len();
    let line = format!("{{ name = \"proof.core128.3\", bytes = {bytes}, sha256 = \"{digest}\" }}");
    let pinned = include_str!("../../../../conformance.toml");
    assert!(pinned.contains(&line), "conformance.toml lacks {line}");
}

/// A later level may refuse every way to cut what is left of the one before; some number of signatures
/// would have no parameters then.
#[test]
fn every_number_of_signatures_has_parameters() {
    let numbers = (1..32).step_by(6).chain((100..20_480).step_by(1699));
    for n in numbers.chain([BLOCKS_FROM[0], BLOCKS_FROM[1], 20_480]) {
        for preset in Preset::ALL {
            let schedule = preset.schedule(n, Profile::Core128).expect("parameters");
            assert!(
                schedule.bytes < PROOF_BYTES_MAX as u64,
                "{n}: {}",
                schedule.bytes
            );
        }
    }
}

/// Both presets prove the same signatures, where they differ neither accepts the proof of the other, and
/// a changed byte, salt or context is a rejection in each.
#[test]
fn both_presets_prove_the_same() {
    let few = World::new(20);
    let of = |preset, n| {
        Aggregator::with_preset(preset, n, Profile::Core128, KERNELS.measured()).expect("legal")
    };
    let of_few = Preset::ALL.map(|preset| of(preset, 20).prove(&few.items(), b"c"));
    let sizes = of_few.map(|of_few| of_few.expect("valid").1.len());
    assert!(sizes[1] < sizes[0], "{sizes:?}: small is smaller");
    let many = BLOCKS_FROM[1];
    let levels = |n| Preset::Fast.projections(n).block_levels;
    assert_eq!([511, 512, 999, many].map(levels), [0, 1, 1, 2]);
    let world = World::new(many);
    let mut proofs = Vec::new();
    for preset in Preset::ALL {
        let aggregator = of(preset, many);
        let (salts, proof) = aggregator.prove(&world.items(), b"c").expect("valid");
        let signed = world.signed(&salts);
        let verdict = aggregator.verify(&signed, b"c", &proof);
        assert_eq!(verdict, Ok(()), "{preset:?}");
        assert!(aggregator.verify(&signed, b"d", &proof).is_err());
        let mut other = signed.clone();
        (other[0].salt, other[1].salt) = (signed[1].salt, signed[0].salt);
        let verdict = aggregator.verify(&other, b"c", &proof);
        assert!(verdict.is_err(), "{preset:?}");
        for index in (0..proof.len()).step_by(proof.len() / 9) {
            let mut changed = proof.clone();
            changed[index] ^= 16;
            let verdict = aggregator.verify(&signed, b"c", &changed);
            assert!(verdict.is_err(), "{preset:?}, byte {index}");
        }
        proofs.push((salts, proof));
    }
    assert!(proofs[1].1.len() < proofs[0].1.len(), "small is smaller");
    for (preset, (salts, _)) in Preset::ALL.into_iter().zip(&proofs) {
        let (_, other) = &proofs[(preset as usize + 1) % proofs.len()];
        let verdict = of(preset, many).verify(&world.signed(salts), b"c", other);
        assert!(verdict.is_err(), "{preset:?}");
    }
}
