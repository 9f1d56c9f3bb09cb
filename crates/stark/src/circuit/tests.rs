//! Small circuits: what a run computes satisfies the built circuit, and nothing else does.

use super::*;
use crate::arith::Arith;
use crate::circuit::plan::Entry;
use crate::error::VerifyError;
use crate::poseidon::Kind;

const LAYOUT: Layout = Layout {
    cells: 1024,
    one: 0,
    free: 8,
    permutations: 8,
    rows: 512,
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
    in_lanes(&mut recorder, &read, element, digest);
    let product = element * element + element * chosen;
    recorder.assert_nonzero(product, VerifyError::Rows)?;
    recorder.assert_zero(read[3] - chosen * public, VerifyError::Union)
}

/// Three lanes, in three sections: bits of a value of each lane, a hash, and a value that all share.
fn in_lanes<'a>(
    recorder: &mut Recorder<'a>,
    read: &[Wire<'a>],
    element: Wire<'a>,
    digest: [Wire<'a>; DIGEST],
) {
    let zero = recorder.base(Fp::ZERO);
    let own = recorder.in_lanes(read[..3].to_vec());
    let hashed = recorder.each(3, |recorder, lane| {
        let mut left = [zero; DIGEST];
        left[0] = own[lane];
        let out = recorder.compress(left, digest);
        (
            vec![own[lane] * out[1]],
            vec![element * element + element * out[2]],
        )
    });
    let last = recorder.each(3, |_, lane| {
        let (base, ext) = &hashed[lane];
        (Vec::new(), vec![ext[0] * (element + base[0])])
    });
    let total = last.iter().fold(zero, |sum, (_, ext)| sum + ext[0]);
    let square = total * total;
    let values = hashed.iter().zip(&last);
    let sum = values.fold(zero, |sum, ((base, _), (_, ext))| sum + base[0] + ext[0]);
    recorder
        .assert_nonzero(square + sum, VerifyError::Rows)
        .unwrap();
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
    let all = plan.written_out();
    let [a, b, c] = all
        .products
        .each_ref()
        .map(|m| apply(m, cells, LAYOUT.rows));
    let rows = (0..LAYOUT.rows).all(|r| a[r] * b[r] == c[r]);
    let inputs = apply(&all.inputs, cells, LAYOUT.permutations * WIDTH_16);
    let outputs = apply(&all.outputs, cells, LAYOUT.permutations * DIGEST);
    let exec = alphorn_exec::Exec::new(alphorn_exec::Backend::Portable, None);
    let permutations = (0..LAYOUT.permutations).all(|p| {
        let of = |i: usize, list: &[Ext]| list[i * LAYOUT.permutations + p];
        let x = (0..WIDTH_16).map(|i| of(i, &inputs).0[0]).collect();
        let trace = Kind::Own.trace(exec, 1, x);
        let out = &trace.states[crate::poseidon::STATES - 1];
        (0..DIGEST).all(|i| of(i, &outputs) == Ext::from(out[i]))
    });
    [rows, permutations]
}

#[test]
fn an_honest_run_fulfils_what_was_built() {
    let plan = built();
    for first in [0, 1, 5, crate::field::P - 1] {
        let (cells, permuted) = ran(&plan, first);
        assert_eq!(holds(&plan, &cells), [true, true], "{first}");
        assert_eq!(permuted.len(), plan.permuted.len());
        assert_eq!(permuted.len(), 4);
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

/// For small x, x + p has 31 bits as well; only one decomposition may be accepted.
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
