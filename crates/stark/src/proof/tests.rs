use alphorn_exec::Stopped;

use super::prover::Sides;
use super::reduce::parameters;
use super::witness::Run;
use super::*;
use crate::arith::Native;
use crate::chains::tests::{Example, MESSAGE, MINI, exec};
use crate::chains::{Chains, Parameters};
use crate::claims::{Claimed, Committed};
use crate::error::ProveError;
use crate::hash::DIGEST;
use crate::poseidon::kernels::KERNELS;
use crate::transcript::{Lie, Sender};

mod forgery;
mod lean;
mod meter;
mod succinct;
mod transparent;

use transparent::{
    Proof, TRANSPARENT, elements_said, false_claims, prove, prove_sides, reduce, verify,
};

const SLOT: u32 = 2;

fn proved(example: &Example, exec: Exec<'_>) -> Proof {
    let Example { chains, .. } = example;
    let slot = example.statement.slot;
    let witness = chains
        .opened(exec, slot, &MESSAGE, &example.openings)
        .unwrap()
        .witness;
    let public = chains.public(&example.statement, &example.registry);
    prove(exec, chains.relation(), &public, &witness).unwrap()
}

fn verified(example: &Example, proof: &Proof) -> Result<(), VerifyError> {
    let public = example.chains.public(&example.statement, &example.registry);
    verify(exec(), example.chains.relation(), &public, proof)
}

#[test]
fn any_number_of_openings_is_proved_with_the_same_bytes_everywhere() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    for count in [1, 4, 5, 8] {
        let example = Example::new(MINI, count, SLOT);
        let proof = proved(&example, exec());
        assert_eq!(verified(&example, &proof), Ok(()), "{count} openings");
        assert_eq!(proof.groups, count.div_ceil(4));
        for backend in KERNELS.available() {
            let again = proved(&example, Exec::new(backend, Some(&pool)));
            assert!(again == proof, "{count} openings, {backend}");
        }
    }
}

#[test]
fn the_compact_set_is_proved() {
    let backend = KERNELS.measured();
    for count in [1, 65] {
        let example = Example::new(Parameters::COMPACT, count, 123_456_789);
        let start = std::time::Instant::now();
        let proof = proved(&example, Exec::new(backend, None));
        let proved = start.elapsed();
        assert_eq!(verified(&example, &proof), Ok(()), "{count} openings");
        let said = proof.elements.len();
        println!(
            "{count}: {backend}, {proved:?}, {:?}, {said}",
            start.elapsed()
        );
    }
}

/// The same key twice, and two openings of one key: one bit, however often it is used.
#[test]
fn openings_may_repeat() {
    let example = Example::new(MINI, 2, SLOT);
    let [a, b] = [example.openings[0].clone(), example.openings[1].clone()];
    let openings = vec![a.clone(), b.clone(), b.clone(), a, b.clone(), b];
    let repeated = Example {
        openings,
        ..example
    };
    assert_eq!(verified(&repeated, &proved(&repeated, exec())), Ok(()));
}

/// A statement may claim fewer bits than were used: nothing forces completeness.
#[test]
fn fewer_bits_may_be_claimed() {
    let mut example = Example::new(MINI, 3, SLOT);
    example.statement.bitfield[1] = false;
    assert_eq!(verified(&example, &proved(&example, exec())), Ok(()));
}

#[test]
fn a_proof_is_of_one_statement_only() {
    let honest = Example::new(MINI, 3, SLOT);
    let proof = proved(&honest, exec());
    let changes: [fn(&mut Example); 7] = [
        |e| e.statement.slot ^= 1,
        |e| e.statement.slot += 4,
        |e| e.statement.message[3] += Fp::ONE,
        |e| e.statement.set += 1,
        |e| e.statement.committee += 1,
        |e| e.statement.level += 1,
        |e| e.statement.registry[7] += Fp::ONE,
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut example = honest.clone();
        change(&mut example);
        assert!(verified(&example, &proof).is_err(), "change {i}");
    }
    for bit in 0..4 {
        let mut example = honest.clone();
        example.statement.bitfield[bit] ^= true;
        assert!(verified(&example, &proof).is_err(), "bit {bit}");
    }
    let mut example = honest.clone();
    let rows: Vec<_> = [1, 0, 2, 3].map(|i| honest.registry.row(i)).to_vec();
    example.registry = Registry::new(&rows, DIGEST, 9).unwrap();
    assert_eq!(verified(&example, &proof), Err(VerifyError::Registry));
}

#[test]
fn statements_that_claim_nothing_or_too_much_are_refused() {
    let mut example = Example::new(MINI, 2, SLOT);
    let proof = proved(&example, exec());
    let rows = example.registry.size();
    example.statement.bitfield[rows + 3] = true;
    let refused = VerifyError::BitBeyondRegistry {
        bit: rows + 3,
        size: rows,
    };
    assert_eq!(verified(&example, &proof), Err(refused));
    example.statement.bitfield.fill(false);
    assert_eq!(verified(&example, &proof), Err(VerifyError::EmptySet));
    let public = example.chains.public(&example.statement, &example.registry);
    let opened = example
        .chains
        .opened(exec(), SLOT, &MESSAGE, &example.openings);
    let refused = prove(
        exec(),
        example.chains.relation(),
        &public,
        &opened.unwrap().witness,
    );
    assert_eq!(refused, Err(VerifyError::EmptySet.into()));
    example.statement.bitfield.push(true);
    let refused = VerifyError::StatementSize {
        got: 513,
        want: 512,
    };
    assert_eq!(verified(&example, &proof), Err(refused));
}

/// No opening at all: the bus runs nevertheless, otherwise counts would be free.
#[test]
fn a_bit_without_an_opening_is_refused() {
    let mut example = Example::new(MINI, 2, SLOT);
    example.openings.clear();
    let proof = proved(&example, exec());
    assert_eq!(proof.groups, 0);
    assert_eq!(verified(&example, &proof), Err(VerifyError::Union));
}

#[test]
fn each_element_of_a_proof_counts() {
    let example = Example::new(MINI, 5, SLOT);
    let honest = proved(&example, exec());
    for index in (0..honest.elements.len()).step_by(37) {
        let mut proof = honest.clone();
        proof.elements[index] += Fp::ONE;
        assert!(verified(&example, &proof).is_err(), "element {index}");
    }
    for (slice, index) in [(0, 0), (0, 700), (1, 40), (2, 5), (7, 1023)] {
        let mut proof = honest.clone();
        proof.slices[slice][index] += Fp::ONE;
        assert_eq!(
            verified(&example, &proof),
            Err(VerifyError::Merkle { oracle: 0 })
        );
    }
    let lengths: [fn(&mut Proof); 6] = [
        |p| p.elements.truncate(p.elements.len() - 1),
        |p| p.elements.push(Fp::ZERO),
        |p| p.slices.truncate(2),
        |p| p.slices[0].truncate(1000),
        |p| p.slices.clear(),
        |p| p.groups = 1,
    ];
    for (i, change) in lengths.iter().enumerate() {
        let mut proof = honest.clone();
        change(&mut proof);
        let refused = verified(&example, &proof).unwrap_err();
        assert!(matches!(refused, VerifyError::Length { .. }), "length {i}");
    }
    let mut proof = honest;
    proof.groups = 3;
    assert_eq!(
        verified(&example, &proof),
        Err(VerifyError::Groups { got: 3, max: 2 })
    );
}

/// A prover that sends one wrong message and continues honestly from the challenges that follow: every such proof
/// must be rejected.
fn refuses_wrong_messages(relation: &Relation, public: &Public<'_>, witness: &Witness) {
    let run = Run::new(exec(), relation, &public.values, witness).unwrap();
    let slices = run.slices(exec(), &public.statement.bitfield).unwrap();
    let sides = Sides {
        bus: &slices,
        union: &slices,
        committed: &slices,
    };
    for index in (0..elements_said(relation)).step_by(131) {
        let mut sender = Sender::new(parameters(relation, TRANSPARENT));
        sender.lies = vec![Lie {
            index,
            delta: Fp::new(5),
        }];
        prove_sides(exec(), public, &run, sides, &mut sender).unwrap();
        let proof = Proof {
            groups: 1,
            elements: sender.finish(),
            slices: slices.clone(),
        };
        let said = verify(exec(), relation, public, &proof);
        assert!(said.is_err(), "element {index}");
    }
}

#[test]
fn each_wrong_message_is_refused_though_the_prover_goes_on_from_it() {
    let example = Example::new(MINI, 2, SLOT);
    let Example { chains, .. } = &example;
    let public = chains.public(&example.statement, &example.registry);
    let opened = chains.opened(exec(), SLOT, &MESSAGE, &example.openings);
    refuses_wrong_messages(chains.relation(), &public, &opened.unwrap().witness);
}

/// The verifier's verdict on a group of these cells, which matches the definition.
fn said_to(relation: &Relation, public: &Public<'_>, cells: Vec<Fp>) -> Result<(), VerifyError> {
    let witness = Witness::new(relation, vec![cells]).unwrap();
    let proof = prove(exec(), relation, public, &witness).unwrap();
    let said = verify(exec(), relation, public, &proof);
    let checked = check(exec(), relation, public, &witness);
    assert_eq!(said.is_ok(), checked.is_ok(), "{checked:?}");
    said
}
