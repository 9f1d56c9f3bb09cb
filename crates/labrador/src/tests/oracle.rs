//! The relation that each level leaves to the next, against its definition: schoolbook products over
//! 128-bit integers, keys from their streams, and no use of the residues.

use super::*;
use crate::adversary::Honest;
use crate::folded::{Folded, Linear};
use crate::form::pairs;
use crate::key::{FIRST, GARBAGE, INNER, OUTER};
use crate::prove::{Prover, cut_witness};
use crate::ring::{Ntt, Q, norm_sq};
use crate::wire::Sender;

/// Coefficients in `[0, Q)`.
type Element = [u64; DEGREE];

const ZERO: Element = [0; DEGREE];

fn reduced(x: i128) -> u64 {
    x.rem_euclid(i128::from(Q)) as u64
}

fn product(a: &Element, b: &Element) -> Element {
    let mut sums = [0i128; DEGREE];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            // 64 products below 2^96.
            let term = i128::from(x) * i128::from(y);
            match i + j {
                k if k < DEGREE => sums[k] += term,
                k => sums[k - DEGREE] -= term,
            }
        }
    }
    sums.map(reduced)
}

fn sum<'a>(terms: impl IntoIterator<Item = (u64, &'a Element)>) -> Element {
    let mut sums = [0i128; DEGREE];
    for (scalar, element) in terms {
        for (sum, &x) in sums.iter_mut().zip(element) {
            *sum = i128::from(reduced(*sum + i128::from(scalar) * i128::from(x)));
        }
    }
    sums.map(reduced)
}

fn plus(a: &Element, b: &Element) -> Element {
    sum([(1, a), (1, b)])
}

fn short(x: &Small) -> Element {
    x.0.map(|c| reduced(i128::from(c)))
}

/// `sum_d 2^(base d) x_d`.
fn of_digits(digits: &[Element], base: u32) -> Element {
    let power = |d: usize| reduced(1 << (base as usize * d));
    sum(digits.iter().enumerate().map(|(d, x)| (power(d), x)))
}

/// Returns the first `rows` coordinates of the products in `R[Y]/(Y^group - X)`, group by group.
fn committed(name: &str, rows: usize, vector: &[Element]) -> Vec<Element> {
    let group = rows.next_power_of_two();
    let mut stream = Seed::of_name(name).stream();
    let mut sums = vec![ZERO; group];
    for part in vector.chunks(group) {
        let key: Vec<Element> = (0..group)
            .map(|_| *stream.element().coefficients())
            .collect();
        for (i, s) in part.iter().enumerate() {
            for (j, k) in key.iter().enumerate() {
                let mut product = product(k, s);
                if i + j >= group {
                    product.rotate_right(1);
                    product[0] = reduced(-i128::from(product[0]));
                }
                let place = &mut sums[(i + j) % group];
                *place = plus(place, &product);
            }
        }
    }
    sums.truncate(rows);
    sums
}

fn elements(vector: &[Rq]) -> Vec<Element> {
    vector.iter().map(|x| *x.coefficients()).collect()
}

fn inner_product(a: &[Element], b: &[Element]) -> Element {
    let products: Vec<Element> = a.iter().zip(b).map(|(a, b)| product(a, b)).collect();
    sum(products.iter().map(|x| (1, x)))
}

/// The parts of a witness `(z_0 | z_1 | v)`.
struct Parts {
    z: Vec<Element>,
    /// Digits of `t`.
    outer: Vec<Element>,
    garbage: Vec<Element>,
    /// For each piece.
    t: Vec<Vec<Element>>,
    h: Vec<Element>,
}

fn parts(folded: &Folded<'_>, witness: &[Small]) -> Parts {
    let level = folded.level;
    let rank = level.cut.rank;
    let witness: Vec<Element> = witness.iter().map(short).collect();
    let z = (0..rank).map(|k| of_digits(&[witness[k], witness[rank + k]], level.z_base));
    let t_digits = level.cut.pieces * level.kappa * level.t_digits;
    let (outer, garbage) = witness[2 * rank..].split_at(t_digits);
    let many = |digits: &[Element]| -> Vec<Element> {
        let each = digits.chunks_exact(level.t_digits);
        each.map(|digits| of_digits(digits, level.t_base)).collect()
    };
    let t = many(outer);
    Parts {
        z: z.collect(),
        outer: outer.to_vec(),
        garbage: garbage.to_vec(),
        t: t.chunks_exact(level.kappa)
            .map(<[Element]>::to_vec)
            .collect(),
        h: many(garbage),
    }
}

/// Checks relations (1) to (6) of [`Folded`].
fn check_relation(folded: &Folded<'_>, witness: &[Small], what: &str) {
    let level = folded.level;
    let parts = parts(folded, witness);
    assert!(norm_sq(witness) <= level.norm_sq_out, "(1) {what}");
    assert_eq!(parts.h.len(), level.garbage(), "{what}");
    let (first, rest) = parts.outer.split_at(folded.openings.first_digits);
    let opened = committed(FIRST, folded.openings.u0.len().max(1), first);
    if !folded.openings.u0.is_empty() {
        assert_eq!(opened, elements(&folded.openings.u0), "(2) first, {what}");
    }
    let opened = committed(OUTER, level.kappa_outer, rest);
    assert_eq!(opened, elements(&folded.openings.u1), "(2) {what}");
    let opened = committed(GARBAGE, level.kappa_outer, &parts.garbage);
    assert_eq!(opened, elements(&folded.u2), "(3) {what}");
    let challenges: Vec<Element> = (folded.challenges.iter())
        .map(|c| *c.to_rq().coefficients())
        .collect();
    for (row, left) in committed(INNER, level.kappa, &parts.z).iter().enumerate() {
        let column: Vec<Element> = parts.t.iter().map(|t| t[row]).collect();
        assert_eq!(*left, inner_product(&challenges, &column), "(4) {what}");
    }
    let place = |i: usize, j: usize| {
        let found = pairs(level.cut.pieces).position(|pair| pair == (i.min(j), i.max(j)));
        found.expect("a pair")
    };
    let mut left = ZERO;
    match &folded.linear {
        Linear::One(_) => {
            for i in 0..level.cut.pieces {
                left = plus(&left, &parts.h[place(i, i)]);
            }
        }
        Linear::Families(families) => {
            let coefficients = elements(&families.coefficients);
            left = plus(&left, &inner_product(&coefficients, &parts.h));
        }
    }
    assert_eq!(left, *folded.rhs.coefficients(), "(5) {what}");
    match &folded.linear {
        Linear::One(phi) => {
            let mut right = ZERO;
            for ((i, j), x) in pairs(level.cut.pieces).zip(&parts.h) {
                let factor = product(&challenges[i], &challenges[j]);
                right = plus(&right, &product(&factor, x));
            }
            let left = inner_product(&elements(phi), &parts.z);
            assert_eq!(left, right, "(6) {what}");
        }
        Linear::Families(families) => {
            for (f, h) in parts.h.chunks_exact(level.cut.pieces).enumerate() {
                let mut factors = vec![Ntt::zero(); level.families];
                let mut one = Small::ZERO;
                one.0[0] = 1;
                factors[f] = Ntt::from_small_bounded(&one, 1);
                let exec = Exec::new(KERNELS.measured(), None);
                let form = families.forms.combine(&factors, exec);
                let form = elements(&form.expect("never stopped"));
                let left = inner_product(&form, &parts.z);
                assert_eq!(left, inner_product(&challenges, h), "(6) of {f}, {what}");
            }
        }
    }
}

/// Checks every level of an honest proof except the tail, whose four checks the verifier makes. Returns the
/// number of levels.
pub(crate) fn check_levels(system: &System, statement: &Columns<'_>, witness: &[Small]) -> usize {
    let schedule = system.schedule();
    let keys = system.keys();
    let mut prover = Prover {
        sender: Sender::new(system.start(statement), Columns::ID, schedule),
        tamper: &mut Honest,
        exec: Exec::new(KERNELS.measured(), None),
        number: 1,
    };
    let (first, later) = schedule.levels.split_first().expect("a first level");
    let made = statement.prove(&mut prover, keys, first, witness);
    let (mut folded, mut s) = made.expect("an honest witness");
    check_relation(&folded, &s, "level 1");
    for level in later {
        prover.number += 1;
        let cut = cut_witness(&level.cut, folded.level.cut.rank, s);
        let made = prover.level(keys, level, &folded, cut);
        (folded, s) = made.expect("an honest witness");
        check_relation(&folded, &s, &format!("level {}", prover.number));
    }
    prover.number
}
