//! Whole proofs: completeness, mutations, and provers that lie at one step.

mod cheating;
mod complete;
mod known;
pub(crate) mod oracle;

use alphorn_exec::Exec;

use crate::ring::{DEGREE, Ntt, Rq, Small};
use crate::sis::Profile;
use crate::transcript::{Seed, Stream};
use crate::{Columns, Equation, Kind, LinearTerm, QuadraticTerm, Relation, Statement};

const MODULUS: i64 = 12_289;

/// Columns that satisfy a relation of their own, and its polynomials.
pub(crate) struct Sample {
    pub(crate) degree: usize,
    pub(crate) norm_sq: u64,
    pub(crate) h: Vec<Vec<i16>>,
    pub(crate) c: Vec<Vec<i16>>,
    pub(crate) witness: Vec<Small>,
}

fn centred(x: i64) -> i16 {
    let residue = x.rem_euclid(MODULUS);
    (residue - if residue > MODULUS / 2 { MODULUS } else { 0 }) as i16
}

/// `s1 + h s2` modulo `q`.
fn target(h: &[i16], s: &[Small]) -> Vec<i16> {
    let (s1, s2) = s.split_at(s.len() / 2);
    let degree = h.len();
    let mut out: Vec<i64> = s1.iter().flat_map(|s| s.0).map(i64::from).collect();
    for (i, &h) in h.iter().enumerate() {
        for (j, c) in s2.iter().flat_map(|s| s.0).enumerate() {
            let product = i64::from(h) * i64::from(c);
            match i + j {
                k if k < degree => out[k] += product,
                k => out[k - degree] -= product,
            }
        }
    }
    out.into_iter().map(centred).collect()
}

impl Sample {
    /// Columns of about three quarters of the norm.
    pub(crate) fn new(name: &str, columns: usize, degree: usize, norm_sq: u64) -> Self {
        let mut stream = Seed::of_name(name).stream();
        let each = 2 * degree / DEGREE;
        // A uniform coefficient in [-b, b] has a square of b^2 / 3.
        let bound = ((norm_sq as f64 * 2.2 / (2 * degree) as f64).sqrt() as i64).max(1);
        let mut element = |bound: i64| stream.element().centred().map(|c| c % (bound + 1));
        let witness: Vec<Small> = (0..columns * each)
            .map(|_| Small(element(bound).map(|c| c as i16)))
            .collect();
        let flat: Vec<i16> = (0..columns * each / 2)
            .flat_map(|_| element(6144).map(|c| c as i16))
            .collect();
        let h: Vec<Vec<i16>> = flat.chunks_exact(degree).map(<[i16]>::to_vec).collect();
        let mut out = Self {
            degree,
            norm_sq,
            h,
            c: Vec::new(),
            witness,
        };
        out.aim();
        out
    }

    /// Makes the relation one that the columns satisfy.
    pub(crate) fn aim(&mut self) {
        let each = 2 * self.degree / DEGREE;
        let columns = self.h.iter().zip(self.witness.chunks_exact(each));
        self.c = columns.map(|(h, s)| target(h, s)).collect();
    }

    pub(crate) fn relation(&self) -> Relation<'_> {
        Relation::new(
            self.degree,
            MODULUS as u64,
            self.h.iter().map(|x| &x[..]).collect(),
            self.c.iter().map(|x| &x[..]).collect(),
            Exec::serial(),
        )
        .expect("centred polynomials")
    }
}

pub(crate) fn statement<'a>(
    sample: &Sample,
    relation: &'a Relation<'a>,
    blocks: usize,
) -> Columns<'a> {
    let context = b"context".to_vec();
    Columns::new(sample.norm_sq, Profile::Core128, blocks, relation, context)
        .expect("within limits")
}

/// A vector of `count` elements with coefficients in `[-bound, bound]`.
fn short(stream: &mut Stream, count: usize, bound: i64) -> Vec<Small> {
    (0..count)
        .map(|_| {
            let wide = stream.element().centred();
            Small(std::array::from_fn(|i| (wide[i] % (bound + 1)) as i16))
        })
        .collect()
}

/// The same equation with the right side that the witness gives.
fn satisfied(mut equation: Equation, rank: usize, witness: &[Small]) -> Equation {
    let residues: Vec<Ntt> = witness.iter().map(Ntt::from_small).collect();
    let piece = |i: usize| &residues[i * rank..(i + 1) * rank];
    let mut sum = Rq::ZERO;
    for term in &equation.quadratic {
        let product = Ntt::dot(piece(term.i).iter().zip(piece(term.j))).refreshed();
        sum.add(&product.times(&Ntt::from_rq(&term.coefficient)).to_rq());
    }
    for term in &equation.linear {
        for (k, coefficient) in term.coefficients.iter().enumerate() {
            let element = &piece(term.piece)[term.start + k];
            sum.add(&Ntt::from_rq(coefficient).times(element).to_rq());
        }
    }
    equation.target = sum;
    equation
}

/// A random equation with two quadratic and two linear terms.
fn random_equation(stream: &mut Stream, kind: Kind, pieces: usize, rank: usize) -> Equation {
    let mut below = |n: usize| (stream.residue() % n as u64) as usize;
    let places: [usize; 6] = std::array::from_fn(|_| below(pieces));
    let start = below(rank);
    let quadratic = |i, j, coefficient| QuadraticTerm { i, j, coefficient };
    Equation {
        kind,
        quadratic: vec![
            quadratic(places[0], places[1], stream.element()),
            quadratic(places[2], places[3], stream.element()),
        ],
        linear: vec![
            LinearTerm {
                piece: places[4],
                start: 0,
                coefficients: (0..rank).map(|_| stream.element()).collect(),
            },
            LinearTerm {
                piece: places[5],
                start,
                coefficients: vec![stream.element(); rank - start],
            },
        ],
        target: Rq::ZERO,
    }
}

/// That the constant coefficient of the inner product of two vectors is `claimed`: their norm, if the second
/// is the conjugate of the first.
fn product_of_two(claimed: u128) -> Equation {
    Equation {
        kind: Kind::Constant,
        quadratic: vec![QuadraticTerm {
            i: 0,
            j: 1,
            coefficient: Rq::constant(1),
        }],
        linear: vec![],
        target: Rq::constant(i64::try_from(claimed).expect("small")),
    }
}

/// A statement with equations of both kinds and its witness.
fn sample(name: &str, pieces: usize, rank: usize, bound: i64) -> (Statement, Vec<Small>) {
    let mut stream = Seed::of_name(name).stream();
    let witness = short(&mut stream, pieces * rank, bound);
    let equations = [Kind::Ring, Kind::Constant, Kind::Ring, Kind::Constant]
        .map(|kind| random_equation(&mut stream, kind, pieces, rank))
        .map(|equation| satisfied(equation, rank, &witness));
    let norm_sq = crate::ring::norm_sq(&witness);
    let profile = Profile::Core128;
    let statement = Statement::new(pieces, rank, norm_sq, profile, equations.into());
    (statement.expect("well formed"), witness)
}
