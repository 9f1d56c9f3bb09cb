//! Whole proofs: completeness, mutations, and provers that lie at one step.

mod cheating;
mod complete;
mod known;
pub(crate) mod oracle;

use crate::ring::{Ntt, Rq, Small};
use crate::sis::Profile;
use crate::transcript::{Seed, Stream};
use crate::{Equation, Kind, LinearTerm, QuadraticTerm, Statement};

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
