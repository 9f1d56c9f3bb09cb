//! Proofs over real signatures.

use super::*;
use crate::SecretKey;
use crate::budget::{errors, log2_sum};
use crate::plain::Opened;
use crate::{DEGREES, PROOF_BYTES_MAX};
use alphorn_exec::{Pulse, Stop};
use alphorn_labrador::columns::quotient_norm_sq;
use alphorn_labrador::{Invalid, KERNELS, ProveError};

struct World<const N: usize = DEGREE> {
    keys: Vec<SecretKey<N>>,
    messages: Vec<Vec<u8>>,
    signatures: Vec<Vec<u8>>,
}

impl<const N: usize> World<N> {
    /// Makes `n` signatures of a few keys over two messages.
    fn new(n: usize) -> Self {
        let keys: Vec<SecretKey<N>> = (0..n.min(5) as u64).map(SecretKey::interop).collect();
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

    fn items(&self) -> Vec<Item<'_, N>> {
        (0..self.signatures.len())
            .map(|i| Item {
                key: self.keys[i % self.keys.len()].public(),
                message: &self.messages[i],
                signature: &self.signatures[i],
            })
            .collect()
    }

    fn signed<'a>(&'a self, salts: &'a [[u8; SALT_BYTES]]) -> Vec<Signed<'a, N>> {
        (self.items().iter().zip(salts))
            .map(|(item, salt)| Signed {
                key: item.key,
                message: item.message,
                salt: Some(salt),
            })
            .collect()
    }
}

fn aggregator<const N: usize>(n: usize) -> Aggregator<N> {
    Aggregator::new(n, Profile::Core128, KERNELS.measured()).expect("within limits")
}

fn aggregates_verify<const N: usize>(sizes: &[usize]) {
    for &n in sizes {
        let world = World::<N>::new(n);
        let aggregator = aggregator(n);
        let (salts, proof) = aggregator.prove(&world.items(), b"c").expect("valid");
        let verdict = aggregator.verify(&world.signed(&salts), b"c", &proof);
        assert_eq!(verdict, Ok(()), "{n}");
        assert!(proof.len() < 75_000, "{n}: {} bytes", proof.len());
    }
}

/// All numbers up to 64 in soak tests, and those where pieces change their shape.
#[test]
fn aggregates_of_few_and_of_many_verify() {
    if cfg!(feature = "soak") {
        let sizes: Vec<usize> = (1..=64).chain([100, 511, 512, 2000, 4095, 4096]).collect();
        aggregates_verify::<512>(&sizes);
        aggregates_verify::<1024>(&sizes);
    } else {
        aggregates_verify::<512>(&[1, 2, 17, 48, 100]);
        aggregates_verify::<1024>(&[1, 2, 17, 100]);
    }
}

/// A proof of one degree is not a proof under keys of the other, whatever the number of signatures.
#[test]
fn degrees_do_not_mix() {
    let (short, long) = (World::<512>::new(2), World::<1024>::new(2));
    let (of_short, of_long) = (aggregator::<512>(2), aggregator::<1024>(2));
    let proved = of_short.prove(&short.items(), b"c").expect("valid");
    let (salts, proof) = of_long.prove(&long.items(), b"c").expect("valid");
    let refused = of_short.verify(&short.signed(&proved.0), b"c", &proof);
    assert!(
        matches!(refused, Err(AggregateError::Reject(_))),
        "{refused:?}"
    );
    let refused = of_long.verify(&long.signed(&salts), b"c", &proved.1);
    assert!(
        matches!(refused, Err(AggregateError::Reject(_))),
        "{refused:?}"
    );
    let cut = &proof[..proved.1.len().min(proof.len())];
    assert!(
        of_short
            .verify(&short.signed(&proved.0), b"c", cut)
            .is_err()
    );
}

fn everything_is_bound<const N: usize>() {
    let world = World::<N>::new(6);
    let aggregator = aggregator(6);
    let (salts, proof) = aggregator.prove(&world.items(), b"c").expect("valid");
    let signed = world.signed(&salts);
    let rejected = |signed: &[Signed<'_, N>], context: &[u8], proof: &[u8]| {
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

/// All public data is bound: any change to it causes a rejection.
#[test]
fn everything_public_is_bound() {
    everything_is_bound::<512>();
    everything_is_bound::<1024>();
}

fn no_byte_can_change<const N: usize>() {
    let world = World::<N>::new(2);
    let aggregator = aggregator(2);
    let (salts, proof) = aggregator
        .prove(&world.items(), b"a context")
        .expect("valid");
    let signed = world.signed(&salts);
    let verify = |signed: &[Signed<'_, N>], context: &[u8], proof: &[u8]| {
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
    for index in sampled(Parameters::of(N).public_key_bytes, 12) {
        let changed = flipped(signed[0].key.bytes(), index);
        // Bytes that are not a key have no statement.
        if let Ok(key) = PublicKey::from_bytes(Flavour::FnDsa, &changed) {
            let mut other = signed.clone();
            other[0].key = &key;
            rejects(verify(&other, b"a context", &proof), "key", index);
        }
    }
}

/// Changing a byte of the proof, of a key, a salt, a message or the context causes a rejection, wherever
/// it is: every byte in soak tests, a sample otherwise.
#[test]
fn no_byte_of_a_proof_or_of_its_statement_can_change() {
    no_byte_can_change::<512>();
    no_byte_can_change::<1024>();
}

#[test]
fn flavours_do_not_mix_in_one_aggregate() {
    let world = World::<DEGREE>::new(2);
    let zero = crate::codec::encode_key::<DEGREE>(Flavour::Original, &[0; DEGREE]);
    let zero = PublicKey::from_bytes(Flavour::Original, &zero).expect("zero is a key");
    let salts = [[0; SALT_BYTES]; 2];
    let mut signed = world.signed(&salts);
    signed[1].key = &zero;
    let expected = AggregateError::Flavours {
        index: 1,
        found: "original",
        expected: "fn-dsa",
    };
    assert_eq!(
        aggregator::<DEGREE>(2).verify(&signed, b"", &[]),
        Err(expected)
    );
}

#[test]
fn bad_signatures_are_named_before_any_work() {
    let mut world = World::<DEGREE>::new(9);
    world.signatures[4][200] ^= 1;
    let refused = aggregator(9).prove(&world.items(), b"");
    assert!(
        matches!(refused, Err(AggregateError::Invalid { index: 4, .. })),
        "{refused:?}"
    );
}

/// Bytes that are not a proof are refused by length or header, before a message is hashed. Otherwise a verifier whose
/// result is no longer needed would have reported that it was stopped.
#[test]
fn what_is_no_proof_is_rejected_before_any_work() {
    let world = World::<DEGREE>::new(3);
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

/// A prover that skips admission gets no proof for a signature of another message.
#[test]
fn false_relations_have_no_proof() {
    let aggregator = aggregator(3);
    let world = World::<DEGREE>::new(3);
    let items = world.items();
    let opened: Vec<Opened<DEGREE>> = open_batch(&items, Backend::Portable)
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
    let digest = digest(flavour, &hashed(&signed), b"", aggregator.serial());
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

fn honest_quotients<const N: usize>() {
    let bound = quotient_norm_sq(N) as f64;
    let mut norms = Vec::new();
    for i in 0..24 {
        let key = SecretKey::<N>::interop(i);
        let signature = key.sign(b"m", &[0; 32]);
        let item = Item {
            key: key.public(),
            message: b"m",
            signature: &signature,
        };
        let opened = open_batch(&[item], Backend::Portable).remove(0);
        let opened = opened.expect("a signature");
        let h = key.public().coefficients();
        let mut sums: Vec<i64> = (opened.s1.iter().zip(&opened.target))
            .map(|(&s1, &c)| i64::from(s1) - i64::from(c))
            .collect();
        for (j, &s2) in opened.s2.iter().enumerate() {
            for (k, &h) in h.iter().enumerate() {
                let product = i64::from(s2) * i64::from(h);
                match j + k {
                    place if place < N => sums[place] += product,
                    place => sums[place - N] -= product,
                }
            }
        }
        assert!(sums.iter().all(|sum| sum % i64::from(MODULUS) == 0));
        let quotients = sums.iter().map(|sum| sum / i64::from(MODULUS));
        let largest = quotients.clone().map(i64::abs).max().expect("numbers");
        // Fits 16 bits with its sign.
        assert!(largest < 1 << 14, "degree {N}: {largest}");
        norms.push(quotients.map(|v| (v * v) as f64).sum::<f64>());
    }
    let mean = norms.iter().sum::<f64>() / norms.len() as f64;
    assert!((0.5..0.65).contains(&(mean / bound)), "degree {N}: {mean}");
    let longest = norms.into_iter().fold(0.0, f64::max);
    assert!(longest < 0.9 * bound, "degree {N}: {longest}");
}

/// Quotients under honest keys average `2^-0.8` of their bound in both degrees, and none comes near it.
#[test]
fn honest_quotients_are_shorter_than_their_bound() {
    honest_quotients::<512>();
    honest_quotients::<1024>();
}

fn numbers_beyond_the_limits<const N: usize>() {
    for n in [0, SIGNATURES_MAX + 1] {
        let refused = Aggregator::<N>::new(n, Profile::Core128, Backend::Portable).err();
        let expected = StatementError::Columns {
            columns: n,
            max: SIGNATURES_MAX,
        };
        assert_eq!(refused, Some(AggregateError::Statement(expected)));
    }
    for profile in Profile::ALL {
        for preset in Preset::ALL {
            assert!(preset.schedule_of(N, SIGNATURES_MAX, profile).is_ok());
        }
    }
}

#[test]
fn numbers_beyond_the_limits_have_no_aggregator() {
    numbers_beyond_the_limits::<512>();
    numbers_beyond_the_limits::<1024>();
}

/// The bytes of a small proof: changing them changes the protocol. They depend neither on
/// threads nor on kernels.
#[test]
fn a_small_proof_has_its_pinned_bytes() {
    let world = World::<DEGREE>::new(3);
    let (_, proof) = aggregator(3).prove(&world.items(), b"c").expect("valid");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
    let pool = pool.expect("three threads");
    for backend in KERNELS.available() {
        let other = Aggregator::<DEGREE>::new(3, Profile::Core128, backend).expect("within limits");
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

/// A later level may refuse every way to cut the output of the previous one; then some number of signatures
/// would have no parameters.
#[test]
fn every_number_of_signatures_has_parameters() {
    let numbers = (1..32).step_by(6).chain((100..20_480).step_by(1699));
    let numbers = numbers.chain([BLOCKS_FROM[0], BLOCKS_FROM[1], SIGNATURES_MAX]);
    for (n, degree) in numbers.flat_map(|n| DEGREES.map(|degree| (n, degree))) {
        for preset in Preset::ALL {
            let schedule = preset.schedule_of(degree, n, Profile::Core128);
            let schedule = schedule.expect("parameters");
            let bytes = schedule.bytes;
            assert!(
                bytes < PROOF_BYTES_MAX as u64,
                "{n}, degree {degree}: {bytes}"
            );
        }
    }
}

/// The lecture states that a proof over signatures of degree 1024 is wrong with probability at most `2^-121.2`.
#[test]
fn errors_of_degree_1024_are_those_of_the_lecture() {
    let edges = [31, 32, 149, 150, 299, 300, 511, 512, 849, 850, 999, 1000];
    let many = (1..200).step_by(19).chain((200..20_000).step_by(997));
    for n in many.chain(edges).chain([6143, 6144, SIGNATURES_MAX]) {
        for profile in Profile::ALL {
            for preset in Preset::ALL {
                let schedule = preset.schedule_of(1024, n, profile).expect("legal");
                let sum = log2_sum(&errors(1024, &schedule));
                assert!(sum < -121.2, "{n}: 2^{sum}");
            }
        }
    }
}

/// Both presets prove the same signatures. Where they differ, neither accepts the proof of the other, and
/// a changed byte, salt or context causes a rejection in each.
#[test]
fn both_presets_prove_the_same() {
    let few = World::<DEGREE>::new(20);
    let of = |preset, n| {
        Aggregator::with_preset(preset, n, Profile::Core128, KERNELS.measured()).expect("legal")
    };
    let of_few = Preset::ALL.map(|preset| of(preset, 20).prove(&few.items(), b"c"));
    let sizes = of_few.map(|of_few| of_few.expect("valid").1.len());
    assert!(sizes[1] < sizes[0], "{sizes:?}: small is smaller");
    let many = BLOCKS_FROM[1];
    let levels = |n| Preset::Fast.projections(n).block_levels;
    assert_eq!([511, 512, 999, many].map(levels), [0, 1, 1, 2]);
    let world = World::<DEGREE>::new(many);
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
