//! Provers that lie in the opening and continue as if they had not. Each is rejected, and accepted once the rule
//! that it breaks is removed from the verifier, so it is the rule that rejects it.

use super::*;
use crate::error::VerifyError;
use crate::extension::DEGREE;
use crate::hash::DIGEST;
use crate::multilinear::eq_points;
use crate::poseidon::kernels::KERNELS;
use crate::test_random::Random;
use crate::transcript::{Channel, Lie as Said};
use crate::whir::weak::{Rule, without};
use crate::whir::{read_commitment, verify};
use alphorn_exec::Backend;

/// Three oracles: no security, all paths of the code.
const PRESET: Preset = Preset {
    id: 9,
    name: "test",
    oracles: &[
        parameters(12, 3, 9),
        parameters(9, 3, 7),
        parameters(8, 2, 5),
    ],
    query_bits: 8,
};
/// Coordinates of a slice, and slices.
const SLICE_LOG2: usize = 10;
const NUMBERS: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
const COORDINATES: usize = SLICE_LOG2 + 3;

const fn parameters(rows_log2: usize, slices_log2: usize, queries: usize) -> OracleParameters {
    OracleParameters {
        rows_log2,
        slices_log2,
        queries,
        fold_bits: 6,
        proximity_m: 10.0,
    }
}

/// The subject of a prover's lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    Nothing,
    /// A false claim, made true by another folded vector before the oracle with this number; the last
    /// polynomial is number 3.
    Folded(usize),
    /// The slices of an oracle have twice as many coefficients as they may have; what follows is the
    /// lower half.
    Degree(usize),
    /// The rows of the first oracle alternate between those of two codewords.
    Codewords,
    /// The value of an oracle at a random point.
    Sample(usize),
    /// The layer of the tree that is sent belongs to another tree.
    Cap(usize),
    /// The nonce before a round that folds the oracle with this number: an arbitrary one, without work.
    FoldWork(usize),
    /// The nonce before rows of the oracle preceding this one.
    RowsWork(usize),
}

fn exec() -> Exec<'static> {
    let widest = KERNELS.available().pop();
    Exec::new(widest.unwrap_or_default(), None)
}

fn product(a: &Planes, b: &Planes) -> Ext {
    (0..a.len()).map(|i| a.get(i) * b.get(i)).sum()
}

/// A proof of one claim ⟨f, eq(at, ·)⟩ = value, and the claim.
struct Proved {
    elements: Vec<Fp>,
    at: Vec<Ext>,
    value: Ext,
}

/// Slices encoded as an oracle, with the lies about it.
fn encoded(lie: Lie, slices: &[Vec<Fp>], number: usize) -> (Oracle, Vec<Fp>) {
    let mut random = Random::new(77);
    let parameters = &PRESET.oracles[number];
    let new = |slices: &[Vec<Fp>]| {
        let views: Vec<&[Fp]> = slices.iter().map(Vec::as_slice).collect();
        let (rows, cap) = (parameters.rows_log2, parameters.cap_log2());
        Oracle::new(exec(), &views, rows, cap, number).unwrap()
    };
    let mut other = slices.to_vec();
    other.iter_mut().for_each(|slice| slice[1] += random.fp());
    let longer = |slice: &Vec<Fp>| {
        let end = (0..slice.len()).map(|i| Fp::new(i as u32 + 1));
        slice.iter().copied().chain(end).collect()
    };
    let oracle = match lie {
        Lie::Degree(of) if of == number => new(&slices.iter().map(longer).collect::<Vec<_>>()),
        Lie::Codewords if number == 0 => {
            new(slices).mixed(&new(&other), exec(), parameters.cap_log2())
        }
        _ => new(slices),
    };
    let cap = match lie {
        Lie::Cap(of) if of == number => new(&other).cap(),
        _ => oracle.cap(),
    };
    (oracle, cap)
}

impl Opening<'_> {
    /// Changes the vector such that the claim becomes true for it.
    fn repair(&mut self) {
        let excess = self.claim - product(&self.values, &self.weights);
        assert_ne!(excess, Ext::ZERO, "a false claim");
        let place = 5;
        let factor = self.weights.get(place).inverse().unwrap();
        self.values
            .set(place, self.values.get(place) + excess * factor);
    }

    /// Changes the element that comes after this many.
    fn lie(&mut self, after: usize) {
        let (index, delta) = (self.sender.written() + after, Fp::ONE);
        self.sender.lies.push(Said { index, delta });
    }

    /// The rounds of folding an oracle; the first one's polynomial comes before its nonce.
    fn fold_lying(&mut self, lie: Lie, number: usize, rounds: usize) -> Vec<Ext> {
        if lie == Lie::FoldWork(number) {
            self.lie(2 * DEGREE);
        }
        let bits = PRESET.oracles.get(number).map(|oracle| oracle.fold_bits);
        self.fold(rounds, bits).unwrap()
    }

    /// Rows of the oracle preceding the one with a number; the nonce comes first.
    fn query_lying(&mut self, lie: Lie, number: usize, oracle: &Oracle) -> Vec<(Fp, Vec<Fp>)> {
        if lie == Lie::RowsWork(number) {
            self.lie(0);
        }
        let before = &PRESET.oracles[number - 1];
        self.query(before, oracle, PRESET.query_bits).unwrap()
    }

    /// The next oracle.
    fn commit_lying(&mut self, lie: Lie, number: usize) -> Oracle {
        let len = self.values.len() >> PRESET.oracles[number].slices_log2;
        let slices: Vec<Vec<Fp>> = (0..self.values.len() / len)
            .flat_map(|i| self.values.coefficients(i * len..(i + 1) * len))
            .map(<[Fp]>::to_vec)
            .collect();
        let (oracle, cap) = encoded(lie, &slices, number);
        self.sender.send_base(&cap);
        oracle
    }
}

/// The proof of a lying prover, for a verifier without a rule.
fn proved(lie: Lie, out: Option<Rule>) -> Proved {
    let mut random = Random::new(5);
    let mut sender = Sender::new([Fp::ZERO; DIGEST]);
    let mut slice = |_| (0..1 << SLICE_LOG2).map(|_| random.fp()).collect();
    let slices: Vec<Vec<Fp>> = NUMBERS.iter().map(&mut slice).collect();
    let at = random.exts(COORDINATES);
    let values = Planes::from_base(&slices.concat());
    let (mut oracle, cap) = encoded(lie, &slices, 0);
    sender.send_base(&cap);
    let point = sender.challenges(COORDINATES);
    let mut weights = eq_planes(exec(), Ext::ONE, &point);
    let sample = product(&values, &weights);
    sender.send(&[sample]);
    let gamma = sender.challenge();
    let claimed = eq_planes(exec(), Ext::ONE, &at);
    let mut value = product(&values, &claimed);
    if matches!(lie, Lie::Folded(_)) {
        value += Ext::ONE;
    }
    weights.add_assign(&eq_planes(exec(), gamma, &at));
    let mut opening = Opening {
        exec: exec(),
        sender: &mut sender,
        claim: sample + gamma * value,
        values,
        weights,
    };
    let mut alphas = opening.fold_lying(lie, 0, PRESET.oracles[0].slices_log2);
    let mut slices = Slices::Base(&NUMBERS);
    for number in 1..=PRESET.oracles.len() {
        if lie == Lie::Folded(number) {
            opening.repair();
        }
        let next = PRESET.oracles.get(number);
        let mut sample = None;
        let committed = next.map(|_| opening.commit_lying(lie, number));
        if next.is_some() {
            if lie == Lie::Sample(number) {
                opening.lie(0);
            }
            sample = Some(opening.sample().unwrap());
        } else {
            let last: Vec<Ext> = (0..opening.values.len())
                .map(|i| opening.values.get(i))
                .collect();
            opening.sender.send(&last);
        }
        let mut rows = opening.query_lying(lie, number, &oracle);
        if out == Some(Rule::Rows(number - 1)) {
            rows.clear();
        }
        let sample = sample
            .as_ref()
            .filter(|_| out != Some(Rule::Sample(number)));
        let sample = sample.map(|(point, value)| (&point[..], *value));
        opening.join(sample, &rows, &alphas, slices).unwrap();
        let rounds = next.map_or(opening.values.len().ilog2() as usize, |o| o.slices_log2);
        alphas = opening.fold_lying(lie, number, rounds);
        oracle = committed.unwrap_or(oracle);
        slices = Slices::Extension;
    }
    Proved {
        elements: sender.finish(),
        at,
        value,
    }
}

fn said(proved: &Proved, backend: Backend) -> Result<(), VerifyError> {
    let arith = Native::on(backend, &proved.elements);
    let mut channel = Channel::new(arith, [Fp::ZERO; DIGEST]);
    let commitment = read_commitment(&mut channel, &PRESET.oracles[0], COORDINATES)?;
    let values = [proved.value];
    let remaining = verify(
        &mut channel,
        &PRESET,
        SLICE_LOG2,
        &NUMBERS,
        commitment,
        &values,
    )?;
    let weight = eq_points(Ext::ONE, &proved.at, &remaining.point);
    remaining.close(&mut channel.arith, remaining.factors[0] * weight)?;
    channel.arith.finish()
}

/// Asserts that a lie is rejected with the rule, on every kernel, and accepted without it.
fn needs(lie: Lie, rule: Rule, error: VerifyError) {
    let (lying, weakly) = (proved(lie, None), proved(lie, Some(rule)));
    for backend in KERNELS.available() {
        assert_eq!(said(&lying, backend), Err(error), "{lie:?}, {backend}");
        let accepted = without(rule, || said(&weakly, backend));
        assert_eq!(accepted, Ok(()), "{lie:?} without {rule:?}, {backend}");
        // Only the rule matters: the verifier without it accepts no other lie.
        assert!(said(&weakly, backend).is_err(), "{lie:?}, {backend}");
    }
}

#[test]
fn an_honest_opening_holds() {
    for backend in KERNELS.available() {
        assert_eq!(
            said(&proved(Lie::Nothing, None), backend),
            Ok(()),
            "{backend}"
        );
    }
}

#[test]
fn another_folded_vector_needs_the_claims_of_rows() {
    for before in 1..=PRESET.oracles.len() {
        let rule = Rule::Rows(before - 1);
        needs(Lie::Folded(before), rule, VerifyError::Weights);
    }
}

#[test]
fn a_degree_that_is_too_high_needs_the_claims_of_rows() {
    for number in 0..PRESET.oracles.len() {
        needs(
            Lie::Degree(number),
            Rule::Rows(number),
            VerifyError::Weights,
        );
    }
}

#[test]
fn two_codewords_in_one_oracle_need_the_claims_of_rows() {
    needs(Lie::Codewords, Rule::Rows(0), VerifyError::Weights);
}

#[test]
fn a_sample_of_another_codeword_needs_its_claim() {
    for number in 1..PRESET.oracles.len() {
        needs(
            Lie::Sample(number),
            Rule::Sample(number),
            VerifyError::Weights,
        );
    }
}

#[test]
fn a_nonce_without_work_needs_the_proof_of_work() {
    for number in 0..PRESET.oracles.len() {
        for lie in [Lie::FoldWork(number), Lie::RowsWork(number + 1)] {
            needs(lie, Rule::Work, VerifyError::Pow);
        }
    }
}

#[test]
fn another_cap_needs_the_paths() {
    for number in 0..PRESET.oracles.len() {
        let error = VerifyError::Merkle { oracle: number };
        needs(Lie::Cap(number), Rule::Paths, error);
    }
}
