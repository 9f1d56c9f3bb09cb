//! The verifier's amortised form, `sum_p c_p phi_p`, without any form over the whole witness.
//!
//! All weights are products, so a place of a piece costs a few products of ring elements and not
//! as many as there are pieces: the blocks share the columns of `J`, conjugates a scalar a column.
//! Only the linear forms touch every element ([`super::blend`]). The prover computes the same from
//! all lifts.

use alphorn_exec::{Exec, Stopped};

use super::TILE;
use super::blend::{Blend, Blended};
use super::layout::{BASE, PRODUCT_DIGITS};
use super::lift::{Lifts, Public};
use super::tile::{FormTile, Scalars, segments};
use crate::form::Weighted;
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::projection::LIFTS;
use crate::ring::{Matrix, Ntt, Rq, Transforms};

/// Tasks of the columns are at most this many.
const TASKS_MAX: usize = 16;

/// Places of a task behind the images.
const CHUNK: usize = 256;

/// What a place costs: products of challenges and weights that all columns share.
struct Shared<'a> {
    public: &'a Public<'a>,
    lifts: &'a Lifts,
    blend: Blend,
    weights: &'a [Ntt; LIFTS],
    /// For each block of a piece `- A_l sum_p c_p e_(p,b)`, and the columns of `J`.
    blocks: Vec<[Ntt; LIFTS]>,
    columns: [Vec<Ntt>; LIFTS],
    /// For each row of a piece the elements that the scalars of a column multiply.
    rows: Vec<SharedRow>,
}

struct SharedRow {
    /// `- A_l sigma(theta_l) sum_p c_p f_(p,row)` over `S0`.
    long: [Ntt; LIFTS],
    /// `A_l theta_l sum_p c_p f_(p,row)` over `S2`.
    conjugate: [Ntt; LIFTS],
    /// `A_l sum_d 2^(9 d) c_d`, and without `A_l` and negated: zero where no digits lie.
    products: [Ntt; LIFTS],
    norms: Ntt,
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
        weights: &'a [Ntt; LIFTS],
        challenges: &[Ntt],
        exec: Exec<'_>,
    ) -> Result<Self, Stopped> {
        let layout = &public.layout;
        let elements = exec.backend().elements(challenges);
        let blocks = (0..layout.piece_blocks()).map(|b| {
            std::array::from_fn(|l| {
                let scalar = |p: usize| lifts.each[l].blocks[p * layout.piece_blocks() + b];
                let pieces = (0..layout.first_pieces()).map(|p| (&elements[p], scalar(p)));
                Ntt::from_rq(&negative(&product(&weights[l], &combination(pieces))))
            })
        });
        Ok(Self {
            public,
            lifts,
            blend: Blend::new(layout, lifts, &elements),
            weights,
            blocks: blocks.collect(),
            columns: public.block_columns(lifts, exec)?,
            rows: (0..layout.stack)
                .map(|row| SharedRow::new(public, lifts, weights, &elements, row))
                .collect(),
        })
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
        let sum = combination(digits.map(|digit| (challenge(digit), power(digit))));
        let long = |l| Ntt::from_rq(&negative(&conjugation(l, 0, &theta(l).sigma())));
        let conjugate = |l| Ntt::from_rq(&conjugation(l, layout.first_pieces(), theta(l)));
        Self {
            long: std::array::from_fn(long),
            conjugate: std::array::from_fn(conjugate),
            products: std::array::from_fn(|l| Ntt::from_rq(&product(&weights[l], &sum))),
            norms: Ntt::from_rq(&negative(&sum)),
        }
    }
}

/// `sigma(alpha) long + alpha norms` for some columns.
struct Conjugation<'a> {
    alphas: &'a [Ntt],
    long: &'a [Ntt],
    norms: &'a Ntt,
}

impl Pass for Conjugation<'_> {
    type Output = Vec<Ntt>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Ntt> {
        let mut out = Vec::with_capacity(self.long.len());
        for (alpha, long) in self.alphas.iter().zip(self.long) {
            let turned = alpha.sigma();
            out.push(Ntt::dot_in::<V>([(&turned, long), (alpha, self.norms)]));
        }
        out
    }
}

impl Shared<'_> {
    /// The form on the columns `first..first + columns`: for each segment its first place, and the
    /// elements.
    fn tile(&self, first: usize, forms: &mut FormTile, exec: Exec<'_>) -> Vec<(usize, Vec<Rq>)> {
        let (layout, backend) = (&self.public.layout, exec.backend());
        let columns = TILE.min(layout.columns - first);
        forms.load(self.public.forms, first, columns);
        let linear = backend.run(Blended {
            blend: &self.blend,
            forms,
            columns,
        });
        let scalars = Scalars::new(self.lifts, first, columns, backend);
        let mut out = Vec::new();
        for segment in segments(layout, first, columns) {
            let (row, count) = (&self.rows[segment.row], segment.count);
            let mut sum = Matrix::zero(count, 1);
            let of_forms = |k: usize, l: usize| linear.at(l, segment.row, segment.offset + k);
            sum.add(LIFTS, of_forms, |_, l| &self.weights[l], backend);
            let block = &self.blocks[segment.block];
            let of_block = |k: usize, l: usize| &self.columns[l][segment.under + k];
            sum.add(LIFTS, of_block, |_, l| &block[l], backend);
            let scalar = |k: usize, l: usize| &scalars.columns[l][segment.offset + k];
            sum.add(LIFTS, scalar, |_, l| &row.conjugate[l], backend);
            let product = |k: usize, l: usize| &scalars.products[l][segment.offset + k];
            sum.add(LIFTS, product, |_, l| &row.products[l], backend);

            let mut long = Matrix::zero(count, 1);
            long.add(LIFTS, scalar, |_, l| &row.long[l], backend);
            let long = backend.transforms(&long.elements(backend));
            let conjugation = backend.run(Conjugation {
                alphas: &self.public.alphas[segment.first..segment.first + count],
                long: &long,
                norms: &row.norms,
            });
            sum.add_to_rows(&conjugation, backend);
            out.push((segment.place, sum.elements(backend)));
        }
        out
    }
}

/// The amortised form of all lifts with their weights and of the equation of the norms.
pub(crate) fn amortised(
    public: &Public<'_>,
    lifts: &Lifts,
    weights: &[Ntt; LIFTS],
    challenges: &[Ntt],
    exec: Exec<'_>,
) -> Result<Vec<Rq>, Stopped> {
    let layout = &public.layout;
    let shared = Shared::new(public, lifts, weights, challenges, exec)?;
    let tiles = layout.columns.div_ceil(TILE);
    let each = tiles.div_ceil(TASKS_MAX).max(1);
    let parts = exec.try_map(tiles.div_ceil(each), |task| {
        let mut forms = FormTile::new(layout, lifts.each[0].forms.len());
        let mut out = Vec::new();
        for tile in task * each..tiles.min((task + 1) * each) {
            if !exec.stopped() {
                out.append(&mut shared.tile(tile * TILE, &mut forms, exec));
            }
        }
        out
    })?;
    let mut phi = vec![Rq::ZERO; layout.rank()];
    for (place, elements) in parts.into_iter().flatten() {
        for (phi, element) in phi[place..].iter_mut().zip(elements) {
            *phi = element;
        }
    }
    let own = &challenges[layout.image_piece()..];
    for (y, challenge) in own.iter().enumerate() {
        add_images(public, lifts, weights, y, challenge, &mut phi, exec)?;
    }
    Ok(phi)
}

/// Adds piece `y` of the images times its challenge: elements of their own, then random multiples
/// of the zeros behind.
fn add_images(
    public: &Public<'_>,
    lifts: &Lifts,
    weights: &[Ntt; LIFTS],
    y: usize,
    challenge: &Ntt,
    phi: &mut [Rq],
    exec: Exec<'_>,
) -> Result<(), Stopped> {
    let (layout, backend) = (&public.layout, exec.backend());
    let images = public.image_elements(lifts, exec)?;
    let rank = layout.rank();
    let end = images[0].len().saturating_sub(y * rank).min(rank);
    let factors = weights.each_ref().map(|weight| weight.times(challenge));
    if end > 0 {
        let own = images.each_ref().map(|x| &x[y * rank..y * rank + end]);
        let sums = backend.run(Weighted(&factors, own));
        for (phi, sum) in phi.iter_mut().zip(&sums) {
            phi.add(sum);
        }
    }
    let thetas: [Ntt; LIFTS] = std::array::from_fn(|l| {
        let theta = Ntt::from_rq(&lifts.each[l].theta);
        Ntt::from_rq(&theta.times(&factors[l]).to_rq())
    });
    exec.try_fill(&mut phi[end..], CHUNK, |task, phi| {
        let start = y * rank + end + task * CHUNK - images[0].len();
        let scalars = lifts.each.each_ref().map(|lift| {
            let padding = &lift.padding[start..start + phi.len()];
            Ntt::constants(padding, backend)
        });
        let mut sum = Matrix::zero(phi.len(), 1);
        let scalar = |k: usize, l: usize| &scalars[l][k];
        sum.add(LIFTS, scalar, |_, l| &thetas[l], backend);
        for (phi, sum) in phi.iter_mut().zip(sum.elements(backend)) {
            phi.add(&sum);
        }
    })
}
