//! Proofs over the polynomial commitment.

use alphorn_exec::Watch;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::poseidon::kernels::KERNELS;
use crate::proof::succinct::prove_committed;
use crate::whir::{OracleParameters, Preset};

/// Two small oracles: no security, all paths of the code.
const SMALL: Preset = Preset {
    id: 9,
    name: "test",
    oracles: &[
        OracleParameters {
            rows_log2: 12,
            slices_log2: 3,
            queries: 9,
            fold_bits: 3,
            proximity_m: 10.0,
        },
        OracleParameters {
            rows_log2: 9,
            slices_log2: 4,
            queries: 5,
            fold_bits: 2,
            proximity_m: 10.0,
        },
    ],
    query_bits: 5,
};

fn proved_succinctly(example: &Example, exec: Exec<'_>, preset: &Preset) -> SuccinctProof {
    let Example { chains, .. } = example;
    let slot = example.statement.slot;
    let witness = chains
        .opened(exec, slot, &MESSAGE, &example.openings)
        .unwrap()
        .witness;
    let public = chains.public(&example.statement, &example.registry);
    prove_succinct(exec, chains.relation(), preset, &public, &witness).unwrap()
}

fn said(example: &Example, preset: &Preset, proof: &SuccinctProof) -> Result<(), VerifyError> {
    let public = example.chains.public(&example.statement, &example.registry);
    let relation = example.chains.relation();
    let result = verify_succinct(exec(), relation, preset, &public, proof);
    for backend in KERNELS.available() {
        let again = verify_succinct(Exec::new(backend, None), relation, preset, &public, proof);
        assert_eq!(again, result, "{backend}");
    }
    result
}

#[test]
fn any_number_of_openings_is_proved_succinctly_with_the_same_bytes() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    for count in [1, 5, 8] {
        let example = Example::new(MINI, count, SLOT);
        let proof = proved_succinctly(&example, exec(), &SMALL);
        assert_eq!(said(&example, &SMALL, &proof), Ok(()), "{count} openings");
        for backend in KERNELS.available() {
            let exec = Exec::new(backend, Some(&pool));
            assert!(
                proved_succinctly(&example, exec, &SMALL) == proof,
                "{backend}"
            );
        }
    }
}

#[test]
fn the_wide_shape_is_proved_succinctly() {
    let example = Example::new(Parameters::COMPACT_WIDE, 1, SLOT);
    let exec = Exec::new(KERNELS.measured(), None);
    let proof = proved_succinctly(&example, exec, &Preset::WIDE);
    assert_eq!(said(&example, &Preset::WIDE, &proof), Ok(()));
    let relation = example.chains.relation();
    let bytes = proof.to_bytes(relation, &Preset::WIDE);
    let body = (31 * proof.elements.len()).div_ceil(8);
    assert_eq!(bytes.len(), header_bytes(relation, 1) + body);
    let decoded = SuccinctProof::from_bytes(relation, &Preset::WIDE, &bytes);
    assert!(decoded.as_ref() == Ok(&proof));
    // A proof of the other shape proves another statement, even if lengths are made equal.
    let mut other = proof.clone();
    let standard = Example::new(Parameters::COMPACT, 1, SLOT);
    let want = succinct_elements(standard.chains.relation(), &Preset::FAST, 1);
    other.elements.resize(want, Fp::ZERO);
    assert!(said(&standard, &Preset::FAST, &other).is_err());
}

#[test]
fn the_compact_set_is_proved_succinctly() {
    let example = Example::new(Parameters::COMPACT, 2, 4_000_000_000);
    let exec = Exec::new(KERNELS.measured(), None);
    let start = std::time::Instant::now();
    let proof = proved_succinctly(&example, exec, &Preset::FAST);
    let proved = start.elapsed();
    assert_eq!(said(&example, &Preset::FAST, &proof), Ok(()));
    let (took, bits) = (start.elapsed() - proved, proof.elements.len() * 31);
    println!(
        "proved in {proved:?}, verified in {took:?}, {} bytes",
        bits / 8
    );
}

#[test]
fn a_succinct_proof_is_of_one_statement_and_one_preset() {
    let example = Example::new(MINI, 3, SLOT);
    let proof = proved_succinctly(&example, exec(), &SMALL);
    let mut other = example.clone();
    other.statement.slot ^= 1;
    assert!(said(&other, &SMALL, &proof).is_err());
    let mut other = example.clone();
    other.statement.bitfield[1] = false;
    assert!(said(&other, &SMALL, &proof).is_err());
    let renamed = Preset { id: 8, ..SMALL };
    assert!(said(&example, &renamed, &proof).is_err());
}

#[test]
fn each_element_of_a_succinct_proof_counts() {
    let example = Example::new(MINI, 3, SLOT);
    let honest = proved_succinctly(&example, exec(), &SMALL);
    let relation = example.chains.relation();
    let cap = DIGEST << SMALL.oracles[0].cap_log2();
    let argued = cap + DEGREE + elements_argued(relation);
    let mut refused = std::collections::BTreeSet::new();
    let opening = (argued..honest.elements.len()).step_by(29);
    for index in (0..argued).step_by(101).chain(opening) {
        let mut proof = honest.clone();
        proof.elements[index] += Fp::ONE;
        let error = said(&example, &SMALL, &proof).expect_err("a changed proof");
        refused.insert(error.to_string());
    }
    for error in [
        VerifyError::Pow,
        VerifyError::Merkle { oracle: 0 },
        VerifyError::Merkle { oracle: 1 },
    ] {
        assert!(refused.contains(&error.to_string()), "{error}");
    }
    for length in [0, 1, honest.elements.len() - 1, honest.elements.len() + 1] {
        let mut proof = honest.clone();
        proof.elements.resize(length, Fp::ZERO);
        let error = said(&example, &SMALL, &proof).unwrap_err();
        assert!(matches!(error, VerifyError::Length { .. }));
    }
}

/// Another relation, here one with fewer levels, has other public values.
#[test]
fn what_another_relation_makes_public_is_refused() {
    let example = Example::new(MINI, 3, SLOT);
    let proof = proved_succinctly(&example, exec(), &SMALL);
    let Example { chains, .. } = &example;
    let lower = Chains::new(Parameters { levels: 1, ..MINI });
    let public = lower.public(&example.statement, &example.registry);
    let relation = chains.relation();
    let (got, want) = (lower.relation().publics, relation.publics);
    let refused = VerifyError::Publics { got, want };
    let said = verify_succinct(exec(), relation, &SMALL, &public, &proof);
    assert_eq!(said, Err(refused));
    let opened = chains.opened(exec(), SLOT, &MESSAGE, &example.openings);
    let witness = opened.unwrap().witness;
    let proved = prove_succinct(exec(), relation, &SMALL, &public, &witness);
    assert_eq!(proved, Err(ProveError::Statement(refused)));
}

/// A watch that counts how often it is asked, and stops after a number of times.
struct Waits {
    questions: AtomicUsize,
    patience: usize,
    steps: Mutex<Vec<&'static str>>,
}

impl Waits {
    fn new(patience: usize) -> Waits {
        Waits {
            questions: AtomicUsize::new(0),
            patience,
            steps: Mutex::default(),
        }
    }
}

impl Watch for Waits {
    fn stopped(&self) -> bool {
        self.questions.fetch_add(1, Ordering::Relaxed) >= self.patience
    }

    fn step(&self, name: &'static str) {
        self.steps.lock().unwrap().push(name);
    }
}

#[test]
fn a_prover_ends_wherever_it_is_stopped() {
    let example = Example::new(MINI, 5, SLOT);
    let Example { chains, .. } = &example;
    let public = chains.public(&example.statement, &example.registry);
    let prove = |watch: &Waits| {
        let exec = exec().with_watch(watch);
        let opened = chains.opened(exec, SLOT, &MESSAGE, &example.openings)?;
        prove_succinct(exec, chains.relation(), &SMALL, &public, &opened.witness)
    };
    let patient = Waits::new(usize::MAX);
    let proof = prove(&patient).unwrap();
    assert!(proof == proved_succinctly(&example, exec(), &SMALL));
    let steps = patient.steps.into_inner().unwrap();
    assert!(steps.len() > 20, "{steps:?}");
    let questions = patient.questions.into_inner();
    for patience in (0..questions).step_by(questions / 30) {
        let watch = Waits::new(patience);
        assert_eq!(prove(&watch), Err(ProveError::Stopped(Stopped)));
        // The additional question is the one answered with a stop.
        assert_eq!(watch.questions.into_inner(), patience + 1);
        let heard = watch.steps.into_inner().unwrap();
        assert!(steps.starts_with(&heard));
    }
}

/// The result of `prove_committed` when its sides differ, with the position of the lie.
fn cheated(
    example: &Example,
    changes: &[(usize, usize)],
    lies: Vec<Lie>,
) -> Result<(), VerifyError> {
    let relation = example.chains.relation();
    let public = example.chains.public(&example.statement, &example.registry);
    let witness = example
        .chains
        .opened(exec(), SLOT, &MESSAGE, &example.openings)
        .unwrap()
        .witness;
    let run = Run::new(exec(), relation, &public.values, &witness).unwrap();
    let honest = run.slices(exec(), &public.statement.bitfield).unwrap();
    let mut committed = honest.clone();
    for (slice, index) in changes {
        committed[*slice][*index] += Fp::ONE;
    }
    let sides = Sides {
        bus: &honest,
        union: &honest,
        committed: &committed,
    };
    let mut sender = Sender::new(parameters(relation, SMALL.id));
    sender.lies = lies;
    let elements = match prove_committed(exec(), &SMALL, &public, &run, sides, sender) {
        Err(ProveError::Statement(refused)) => return Err(refused),
        elements => elements.unwrap(),
    };
    let proof = SuccinctProof {
        groups: run.groups.len(),
        elements,
    };
    said(example, &SMALL, &proof)
}

#[test]
fn what_is_committed_is_what_is_argued_about() {
    let example = Example::new(MINI, 3, SLOT);
    assert_eq!(cheated(&example, &[], Vec::new()), Ok(()));
    let read = |cell: usize| (2 + cell / 256, cell % 256 * 4 + 1);
    let chains = &example.chains;
    let row = chains.relation().rows[2].as_ref().unwrap();
    for change in [
        (0, 1),
        (0, 513),
        (1, 4),
        read(row.cubes[3]),
        read(chains.at.tip(1, 2)),
        read(chains.at.node(5, 1)),
    ] {
        let refused = cheated(&example, &[change], Vec::new());
        assert_eq!(refused, Err(VerifyError::Weights), "{change:?}");
    }
}

/// A prover that sends one wrong message in the opening, and continues honestly.
#[test]
fn each_wrong_message_of_the_opening_is_refused() {
    let example = Example::new(MINI, 2, SLOT);
    let relation = example.chains.relation();
    let cap = DIGEST << SMALL.oracles[0].cap_log2();
    let argued = cap + DEGREE + elements_argued(relation);
    let lie = |index| {
        let delta = Fp::new(7);
        cheated(&example, &[], vec![Lie { index, delta }])
    };
    // Ten elements and a nonce per round. A prover may continue honestly from another valid nonce: that is another
    // proof of the same statement.
    let rounds = (0..3).flat_map(|round| argued + 12 * round..argued + 12 * round + 10);
    let sample = argued + 36 + 32..argued + 36 + 32 + DEGREE;
    for index in (cap..cap + DEGREE).chain(rounds).chain(sample) {
        assert!(lie(index).is_err(), "element {index}");
    }
    // A proof that ends before the rows of the first oracle is rejected for the missing rows; four rounds lie
    // between them and the last polynomial.
    let mut cut = proved_succinctly(&example, exec(), &SMALL);
    cut.elements.truncate(argued + 36 + 32 + DEGREE + 2);
    let Err(VerifyError::Length { want, .. }) = said(&example, &SMALL, &cut) else {
        panic!("a proof without rows");
    };
    let last = want + 4 * 12;
    for index in [last, last + 100, last + 64 * DEGREE - 1] {
        assert_eq!(lie(index), Err(VerifyError::Weights), "element {index}");
    }
}

/// Without a witness, a proof cannot be changed: caps and nonces are absorbed as a whole, rows and paths are bound
/// by caps. Every 61st byte is changed here, with `soak` every byte.
#[test]
fn no_byte_of_a_proof_can_be_changed() {
    let example = Example::new(MINI, 3, SLOT);
    let relation = example.chains.relation();
    let public = example.chains.public(&example.statement, &example.registry);
    let bytes = proved_succinctly(&example, exec(), &SMALL).to_bytes(relation, &SMALL);
    let step = if cfg!(feature = "soak") { 1 } else { 61 };
    let mut random = crate::test_random::Random::new(17);
    let (mut decoded, mut places) = (0, 0);
    for place in (0..bytes.len()).step_by(step) {
        let mut changed = bytes.clone();
        changed[place] ^= 1 + (random.fp().canonical() % 255) as u8;
        places += 1;
        let Ok(proof) = SuccinctProof::from_bytes(relation, &SMALL, &changed) else {
            continue;
        };
        decoded += 1;
        let accepted = verify_succinct(exec(), relation, &SMALL, &public, &proof).is_ok();
        assert!(!accepted, "byte {place}");
    }
    assert!(
        places > 100 && decoded > places / 2,
        "{decoded} of {places}"
    );
}

#[test]
fn bytes_have_one_form() {
    let example = Example::new(MINI, 5, SLOT);
    let relation = example.chains.relation();
    let proof = proved_succinctly(&example, exec(), &SMALL);
    let bytes = proof.to_bytes(relation, &SMALL);
    let decode = |bytes: &[u8]| SuccinctProof::from_bytes(relation, &SMALL, bytes);
    assert_eq!(decode(&bytes).as_ref(), Ok(&proof));
    let header = bytes.len() - (proof.elements.len() * 31).div_ceil(8);
    assert!(proof.elements.len() < succinct_elements(relation, &SMALL, 2));
    for index in 0..header {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        assert!(decode(&changed).is_err(), "byte {index} of the header");
    }
    for length in [0, 3, header - 1, header, bytes.len() - 1] {
        assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    let longer = [bytes.clone(), vec![0]].concat();
    assert!(matches!(decode(&longer), Err(DecodeError::Length { .. })));
    // All bits of the first element are ones, which is p + 2^24 − 2.
    let mut changed = bytes.clone();
    changed[header..header + 4].fill(0xff);
    assert_eq!(
        decode(&changed),
        Err(DecodeError::NonCanonical { index: 0 })
    );
    let used = proof.elements.len() * 31 % 8;
    if used > 0 {
        let mut changed = bytes;
        *changed.last_mut().unwrap() |= 0x80;
        assert_eq!(decode(&changed), Err(DecodeError::Padding));
    }
}
