//! Small circuits: what a run computes fulfils what was built, and nothing else does.

use super::build::Entry;
use super::*;
use crate::arith::Arith;
use crate::error::VerifyError;
use crate::poseidon::Kind;

const LAYOUT: Layout = Layout {
    cells: 512,
    one: 0,
    free: 8,
    permutations: 4,
    rows: 256,
    form_max: 8,
};

/// Reads four elements, hashes them, takes bits, multiplies and compares.
fn verifier(mut recorder: Recorder<'_>) -> Result<(), VerifyError> {
    recorder.input(0, Fp::ONE);
    let public = recorder.input(1, Fp::new(7));
    let read: Vec<Wire<'_>> = (0..4).map(|_| recorder.read().unwrap()).collect();
    let zero = recorder.base(Fp::ZERO);
    let mut left = [zero; DIGEST];
    left[..4].copy_from_slice(&read);
    let digest = recorder.compress(left, [public; DIGEST]);
    let bits = recorder.low_bits(read[0], 3);
    let chosen = read[1] + bits[0] * (read[2] - read[1]);
    let element = recorder.join(std::array::from_fn(|i| digest[i]));
    let product = element * element + element * chosen;
    recorder.assert_nonzero(product, VerifyError::Rows)?;
    recorder.assert_zero(read[3] - chosen * public, VerifyError::Union)
}

fn built() -> Plan {
    let circuit = Circuit::building(LAYOUT);
    verifier(Recorder::new(&circuit, &[])).unwrap();
    circuit.plan()
}

fn proof(first: u32) -> Vec<Fp> {
    let (a, b) = (11, 13);
    let chosen = if first & 1 == 1 { b } else { a };
    [first, a, b, 7 * chosen].map(Fp::new).to_vec()
}

fn ran(plan: &Plan, first: u32) -> (Vec<Fp>, Vec<[Fp; WIDTH_16]>) {
    let circuit = Circuit::running();
    verifier(Recorder::new(&circuit, &proof(first))).unwrap();
    circuit.witness(plan)
}

fn apply(entries: &[Entry], cells: &[Fp], rows: usize) -> Vec<Ext> {
    let mut out = vec![Ext::ZERO; rows];
    for entry in entries {
        out[entry.row as usize] += entry.factor * cells[entry.cell as usize];
    }
    out
}

/// Whether rows hold, and whether permutations do.
fn holds(plan: &Plan, cells: &[Fp]) -> [bool; 2] {
    let [a, b, c] = plan
        .rows
        .products
        .each_ref()
        .map(|m| apply(m, cells, LAYOUT.rows));
    let rows = (0..LAYOUT.rows).all(|r| a[r] * b[r] == c[r]);
    let inputs = apply(&plan.rows.inputs, cells, LAYOUT.permutations * WIDTH_16);
    let outputs = apply(&plan.rows.outputs, cells, LAYOUT.permutations * DIGEST);
    let exec = alphorn_exec::Exec::new(alphorn_exec::Backend::Portable, None);
    let permutations = inputs
        .chunks(WIDTH_16)
        .zip(outputs.chunks(DIGEST))
        .all(|(x, y)| {
            let x: Vec<Fp> = x.iter().map(|x| x.0[0]).collect();
            let trace = Kind::Own.trace(exec, 1, x);
            let out = &trace.states[crate::poseidon::STATES - 1];
            y.iter().zip(out).all(|(y, out)| *y == Ext::from(*out))
        });
    [rows, permutations]
}

#[test]
fn an_honest_run_fulfils_what_was_built() {
    let plan = built();
    for first in [0, 1, 5, crate::field::P - 1] {
        let (cells, permuted) = ran(&plan, first);
        assert_eq!(holds(&plan, &cells), [true, true], "{first}");
        assert_eq!(permuted.len(), plan.permutations);
    }
}

#[test]
fn no_cell_is_free() {
    let plan = built();
    let (honest, _) = ran(&plan, 5);
    for cell in (LAYOUT.free..plan.end).chain([0]) {
        let mut cells = honest.clone();
        cells[cell] += Fp::new(3);
        assert_ne!(holds(&plan, &cells), [true, true], "cell {cell}");
    }
}

/// x + p has 31 bits as well where x is small: only one decomposition is one.
#[test]
fn bits_are_those_of_the_canonical_integer() {
    let plan = built();
    for first in [0u32, 3, 1 << 23] {
        let (honest, _) = ran(&plan, first);
        let is = |bits: &[Fp], x: u32| {
            bits.iter()
                .enumerate()
                .all(|(k, bit)| *bit == Fp::new(x >> k & 1))
        };
        let runs: Vec<usize> = (LAYOUT.free..plan.end - 31)
            .filter(|start| is(&honest[*start..][..31], first))
            .collect();
        let mut refused = 0;
        for start in runs {
            let mut cells = honest.clone();
            for k in 0..31 {
                cells[start + k] = Fp::new((first + crate::field::P) >> k & 1);
            }
            refused += usize::from(!holds(&plan, &cells)[0]);
        }
        assert!(refused > 0, "{first}");
    }
}

#[test]
fn what_a_verifier_refuses_a_run_refuses() {
    let mut proof = proof(4);
    proof[3] += Fp::ONE;
    let circuit = Circuit::running();
    let refused = verifier(Recorder::new(&circuit, &proof));
    assert_eq!(refused, Err(VerifyError::Union));
    let circuit = Circuit::running();
    let short = Recorder::new(&circuit, &proof[..0]).read();
    assert_eq!(short.err(), Some(VerifyError::Length { want: 1, got: 0 }));
}
