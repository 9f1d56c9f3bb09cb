//! The verifier's amortised form, `sum_p c_p phi_p`, without any form over the whole witness.
//!
//! All weights are products, so a place of a piece costs a few products of ring elements and not
//! as many as there are pieces: the blocks share the columns of `J`, conjugates a scalar a column.
//! Only the linear forms touch every element. The prover computes the same from all lifts.

use super::TILE;
use super::layout::{BASE, BLOCK, PRODUCT_DIGITS};
use super::lift::{Lifts, LinearTile, Public};
use crate::form::Weighted;
use crate::kernel::{Backend, Pass, Vectors};
use crate::projection::LIFTS;
use crate::prove::amortise;
use crate::ring::{Ntt, Rq};
use crate::schedule::Cut;

/// What a place costs: products of challenges and weights that all columns share.
struct Shared<'a> {
    public: &'a Public<'a>,
    lifts: &'a Lifts,
    /// `c_p A_l` for the pieces of `S0`, piece by piece.
    forms: Vec<[Ntt; LIFTS]>,
    /// For each block of a piece `- A_l sum_p c_p e_(p,b)`, and the columns of `J`.
    blocks: Vec<[Ntt; LIFTS]>,
    columns: [Vec<Ntt>; LIFTS],
    /// For each row of a piece the elements that the scalars of a column multiply.
    rows: Vec<SharedRow>,
}

struct SharedRow {
    /// `- A_l sigma(theta_l) sum_p c_p f_(p,row)` over `S0`.
    long: [Rq; LIFTS],
    /// `A_l theta_l sum_p c_p f_(p,row)` over `S2`.
    conjugate: [Rq; LIFTS],
    /// `A_l sum_d 2^(9 d) c_d`, and without `A_l` and negated, if digits lie in the row.
    products: Option<([Rq; LIFTS], Ntt)>,
}

/// `sum scalar x`.
fn combination<'a>(terms: impl Iterator<Item = (&'a Rq, u64)>) -> Rq {
    let mut sum = Rq::ZERO;
    for (x, scalar) in terms {
        sum.add(&x.scaled(scalar));
    }
    sum
}

fn negative(x: &Rq) -> Rq {
    let mut out = Rq::ZERO;
    out.sub(x);
    out
}

/// The product of a short element and any, refreshed.
fn product(short: &Ntt, x: &Rq) -> Rq {
    short.times(&Ntt::from_rq(x)).to_rq()
}

impl<'a> Shared<'a> {
    fn new(
        public: &'a Public<'a>,
        lifts: &'a Lifts,
        weights: &[Ntt; LIFTS],
        challenges: &[Ntt],
        backend: Backend,
    ) -> Self {
        let layout = &public.layout;
        let elements = backend.elements(challenges);
        let blocks = (0..layout.piece_blocks()).map(|b| {
            std::array::from_fn(|l| {
                let scalar = |p: usize| lifts.each[l].blocks[p * layout.piece_blocks() + b];
                let pieces = (0..layout.first_pieces()).map(|p| (&elements[p], scalar(p)));
                Ntt::from_rq(&negative(&product(&weights[l], &combination(pieces))))
            })
        });
        let span = BLOCK.min(layout.rank());
        let rows = lifts.each.each_ref().map(|lift| lift.rows);
        let columns = public.blocks.collapse(0..span, &rows, backend);
        Self {
            public,
            lifts,
            forms: (challenges[..layout.long_pieces()].iter())
                .map(|c| weights.each_ref().map(|weight| c.times(weight)))
                .collect(),
            blocks: blocks.collect(),
            columns: columns.map(|columns| backend.transforms(&columns)),
            rows: (0..layout.stack)
                .map(|row| SharedRow::new(public, lifts, weights, &elements, row))
                .collect(),
        }
    }
}

impl SharedRow {
    fn new(
        public: &Public<'_>,
        lifts: &Lifts,
        weights: &[Ntt; LIFTS],
        challenges: &[Rq],
        row: usize,
    ) -> Self {
        let layout = &public.layout;
        let conjugation = |l: usize, first: usize, theta: &Rq| {
            let scalar = |p: usize| lifts.each[l].long_rows[p * layout.stack + row];
            let pieces = 0..layout.long_pieces();
            let sum = combination(pieces.map(|p| (&challenges[first + p], scalar(p))));
            let weighted = product(&weights[l], &sum);
            Ntt::from_rq(&weighted).times(&Ntt::from_rq(theta)).to_rq()
        };
        let theta = |l: usize| &lifts.each[l].theta;
        let digits = (0..PRODUCT_DIGITS).filter(|digit| digit % layout.stack == row);
        let challenge = |digit: usize| &challenges[layout.long_pieces() + digit / layout.stack];
        let power = |digit: usize| 1 << (BASE * digit as u32);
        let has_digits = digits.clone().next().is_some();
        let sum = combination(digits.map(|digit| (challenge(digit), power(digit))));
        Self {
            long: std::array::from_fn(|l| negative(&conjugation(l, 0, &theta(l).sigma()))),
            conjugate: std::array::from_fn(|l| conjugation(l, layout.first_pieces(), theta(l))),
            products: has_digits.then(|| {
                let weighted = std::array::from_fn(|l| product(&weights[l], &sum));
                (weighted, Ntt::from_rq(&negative(&sum)))
            }),
        }
    }
}

/// The places of a tile of columns.
struct Tile<'a> {
    shared: &'a Shared<'a>,
    linear: &'a LinearTile,
    first: usize,
    count: usize,
    phi: &'a mut [Rq],
}

impl Pass for Tile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let layout = &self.shared.public.layout;
        for (row, of_row) in self.shared.rows.iter().enumerate() {
            for column in 0..self.count {
                let place = row * layout.columns + self.first + column;
                let phi = self.place::<V>(row, of_row, column, place);
                self.phi[place].add(&phi);
            }
        }
    }
}

impl Tile<'_> {
    #[inline(always)]
    fn place<V: Vectors>(&self, row: usize, of_row: &SharedRow, column: usize, place: usize) -> Rq {
        let shared = self.shared;
        let layout = &shared.public.layout;
        let i = self.first + column;
        let alpha = &shared.public.alphas[i];
        let scaled = |elements: &[Rq; LIFTS], scalars: fn(&super::lift::Lift) -> &[u64]| {
            let lifts = elements.iter().zip(&shared.lifts.each);
            combination(lifts.map(|(x, lift)| (x, scalars(lift)[i])))
        };
        let blocks = &shared.blocks[place / BLOCK];
        let columns = shared.columns.each_ref().map(|c| &c[place % BLOCK]);
        let mut out = Ntt::dot_in::<V>(blocks.iter().zip(columns)).to_rq_in::<V>();
        out.add(&scaled(&of_row.conjugate, |lift| &lift.columns));

        let long = scaled(&of_row.long, |lift| &lift.columns);
        let mut sum = alpha.sigma().times_in::<V>(&Ntt::from_rq_in::<V>(&long));
        if let Some((weighted, negated)) = &of_row.products {
            out.add(&scaled(weighted, |lift| &lift.products));
            sum.add_in::<V>(&alpha.times_in::<V>(negated));
        }
        for (piece, weights) in shared.forms.iter().enumerate() {
            let row = piece * layout.stack + row;
            if row < layout.rows {
                for (l, weight) in weights.iter().enumerate() {
                    let element = Ntt::from_rq_in::<V>(&self.linear.element(l, column, row));
                    sum.add_dot_in::<V>([(weight, &element)]);
                }
            }
        }
        out.add(&sum.to_rq_in::<V>());
        out
    }
}

/// The amortised form of all lifts with their weights and of the equation of the norms.
pub(crate) fn amortised(
    public: &Public<'_>,
    lifts: &Lifts,
    weights: &[Ntt; LIFTS],
    challenges: &[Ntt],
    backend: Backend,
) -> Vec<Rq> {
    let layout = &public.layout;
    let images = public.image_forms(lifts, backend);
    let images = backend.run(Weighted(weights, images.each_ref().map(|x| &x[..])));
    let cut = Cut {
        z_pieces: 0,
        pieces: layout.pieces() - layout.image_piece(),
        rank: layout.rank(),
    };
    let own = &challenges[layout.image_piece()..];
    let amortised = amortise(&cut, own, &backend.transforms(&images), backend);
    let mut phi = backend.elements(&amortised);

    let shared = Shared::new(public, lifts, weights, challenges, backend);
    let mut linear = LinearTile::new(layout, lifts);
    for first in (0..layout.columns).step_by(TILE) {
        let count = TILE.min(layout.columns - first);
        linear.load(public.forms, first, count);
        backend.run(Tile {
            shared: &shared,
            linear: &linear,
            first,
            count,
            phi: &mut phi,
        });
    }
    phi
}
