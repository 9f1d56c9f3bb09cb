//! What the prover needs of all lifts: their inner products with every piece of the witness, by
//! one pass over the witness and without any form over all of it.
//!
//! The forms are sums of few fixed elements times parts that differ from place to place, and the
//! parts are shared by pieces, rows and blocks; so the products of the parts with the witness are
//! summed first, and the fixed elements multiply the sums.

use alphorn_exec::{Exec, Stopped};

use super::TILE;
use super::layout::{BASE, Layout, PRODUCT_DIGITS};
use super::lift::{Lifts, Public};
use super::tile::{FormTile, Linear, LinearTile, LinearWeights, Scalars, Turned, segments};
use crate::form::Weighted;
use crate::kernel::Dispatch;
use crate::projection::LIFTS;
use crate::ring::{DEPTH, Matrix, Ntt, Packed, Rq, Transforms};
use crate::tiles::Tiles;

/// Tasks of a sum over all columns are at most this many: each has sums of its own.
const TASKS_MAX: usize = 8;

/// Parts of the forms in one row of the pieces: for every lift the scalars of conjugation, those
/// turned by `alpha`, and the scalars of products; then `alpha` itself.
const SCALAR: usize = 0;
const TURNED: usize = LIFTS;
const PRODUCT: usize = 2 * LIFTS;
const ALPHA: usize = 3 * LIFTS;
const PARTS: usize = 3 * LIFTS + 1;

/// Long pieces whose linear forms are computed and multiplied at a time: with the lifts four rows
/// of the kernel at a time, and few enough to stay in a cache until they are used.
const GROUP: usize = 4;

/// Long pieces that have linear forms: slack has none.
fn linear_pieces(layout: &Layout) -> usize {
    layout.rows.div_ceil(layout.stack)
}

/// `sum_k part_k s_k` for all pieces `s`, one matrix for each place that parts differ by.
struct Parts {
    /// For each long piece and lift the linear forms, [`GROUP`] pieces in a matrix.
    linear: Vec<Matrix>,
    /// For each block the columns of `J`, by lift.
    blocks: Vec<Matrix>,
    /// For each row of a piece its [`PARTS`].
    rows: Vec<Matrix>,
}

impl Parts {
    fn zero(public: &Public<'_>) -> Self {
        let layout = &public.layout;
        let many = |count: usize, rows: usize| {
            let matrix = |_| Matrix::zero(rows, layout.pieces());
            (0..count).map(matrix).collect()
        };
        Self {
            linear: (0..linear_pieces(layout))
                .step_by(GROUP)
                .map(|first| GROUP.min(linear_pieces(layout) - first) * LIFTS)
                .map(|rows| Matrix::zero(rows, layout.pieces()))
                .collect(),
            blocks: many(layout.piece_blocks(), LIFTS),
            rows: many(layout.stack, PARTS),
        }
    }

    fn merge(&mut self, other: &Self, exec: Exec<'_>) {
        for (a, b) in self.linear.iter_mut().zip(&other.linear) {
            a.merge(b, exec.backend());
        }
        for (a, b) in self.blocks.iter_mut().zip(&other.blocks) {
            a.merge(b, exec.backend());
        }
        for (a, b) in self.rows.iter_mut().zip(&other.rows) {
            a.merge(b, exec.backend());
        }
    }
}

/// The inner products of all lifts: `<phi_(l,p), s_q>` for all pieces `p` and `q`.
pub(crate) struct Sums {
    pieces: usize,
    /// Lift by lift, `p` by `p`.
    products: [Vec<Rq>; LIFTS],
    /// What the equation of the norms, which has no lift, adds to these.
    norms: Vec<Rq>,
}

struct Worker<'a> {
    public: &'a Public<'a>,
    lifts: &'a Lifts,
    weights: LinearWeights,
    /// The columns of `J`, by lift.
    columns: [Vec<Ntt>; LIFTS],
    s: &'a Tiles,
    zero: Ntt,
    exec: Exec<'a>,
}

impl Sums {
    pub(crate) fn new(
        public: &Public<'_>,
        lifts: &Lifts,
        s: &Tiles,
        exec: Exec<'_>,
    ) -> Result<Self, Stopped> {
        let layout = &public.layout;
        let worker = Worker {
            public,
            lifts,
            weights: LinearWeights::new(lifts),
            columns: public.block_columns(lifts, exec)?,
            s,
            zero: Ntt::zero(),
            exec,
        };
        let tiles = layout.columns.div_ceil(TILE);
        let each = tiles.div_ceil(TASKS_MAX).max(1);
        let parts = exec.try_map(tiles.div_ceil(each), |task| {
            let mut parts = Parts::zero(public);
            let mut forms = FormTile::new(layout, lifts.each[0].forms.len());
            for tile in task * each..tiles.min((task + 1) * each) {
                if !exec.stopped() {
                    worker.add_tile(tile * TILE, &mut forms, &mut parts);
                }
            }
            parts
        })?;
        let mut total = Parts::zero(public);
        for part in &parts {
            total.merge(part, exec);
        }
        worker.assemble(&total)
    }

    /// The value of each lift.
    pub(crate) fn values(&self) -> Vec<Rq> {
        let value = |products: &Vec<Rq>| {
            let mut sum = Rq::ZERO;
            for p in 0..self.pieces {
                sum.add(&products[p * self.pieces + p]);
            }
            sum
        };
        self.products.iter().map(value).collect()
    }

    /// `<phi_p, s_q>` of the one equation that remains, row by row.
    pub(crate) fn combined(&self, weights: &[Ntt; LIFTS], exec: Exec<'_>) -> Vec<Rq> {
        let products = self.products.each_ref().map(|products| &products[..]);
        let mut sums = exec.backend().run(Weighted(weights, products));
        for (sum, norms) in sums.iter_mut().zip(&self.norms) {
            sum.add(norms);
        }
        sums
    }
}

impl Worker<'_> {
    fn add_tile(&self, first: usize, forms: &mut FormTile, parts: &mut Parts) {
        let (layout, backend) = (&self.public.layout, self.exec.backend());
        let columns = TILE.min(layout.columns - first);
        forms.load_columns(self.public.forms, first, columns, backend);
        let scalars = Scalars::new(self.lifts, first, columns, backend);
        let turned = scalars.columns.each_ref().map(|scalars| {
            backend.run(Turned {
                public: self.public,
                first,
                scalars,
            })
        });
        for segment in segments(layout, first, columns) {
            let count = segment.count;
            let s = |q: usize, k: usize| self.s.at(q, segment.place + k);
            let s = Packed::new(layout.pieces(), count, s, backend);
            for (group, sums) in parts.linear.iter_mut().enumerate() {
                let pieces = group * GROUP..linear_pieces(layout).min((group + 1) * GROUP);
                let rows = pieces.map(|p| p * layout.stack + segment.row);
                let rows: Vec<usize> = rows.filter(|&row| row < layout.rows).collect();
                let linear: LinearTile = backend.run(Linear {
                    weights: &self.weights,
                    forms,
                    rows: &rows,
                    columns: segment.offset..segment.offset + count,
                });
                let of_form = |i: usize, k: usize| match i / LIFTS < rows.len() {
                    true => linear.at(i % LIFTS, i / LIFTS, k),
                    false => &self.zero,
                };
                sums.add_packed(of_form, &s, backend);
            }
            let of_block = |l: usize, k: usize| &self.columns[l][segment.under + k];
            parts.blocks[segment.block].add_packed(of_block, &s, backend);
            let of_row = |i: usize, k: usize| match i {
                ALPHA => &self.public.alphas[segment.first + k],
                PRODUCT.. => &scalars.products[i - PRODUCT][segment.offset + k],
                TURNED.. => &turned[i - TURNED][segment.offset + k],
                _ => &scalars.columns[i - SCALAR][segment.offset + k],
            };
            parts.rows[segment.row].add_packed(of_row, &s, backend);
        }
    }

    /// The inner products from their parts.
    fn assemble(&self, parts: &Parts) -> Result<Sums, Stopped> {
        let layout = &self.public.layout;
        let (pieces, backend) = (layout.pieces(), self.exec.backend());
        let all = |matrices: &[Matrix]| -> Vec<Vec<Rq>> {
            matrices.iter().map(|m| m.elements(backend)).collect()
        };
        let linear = all(&parts.linear).concat();
        let (blocks, rows) = (all(&parts.blocks), all(&parts.rows));
        let images = self.public.image_elements(self.lifts, self.exec)?;
        let mut products = [const { Vec::new() }; LIFTS];
        for (l, (out, lift)) in products.iter_mut().zip(&self.lifts.each).enumerate() {
            out.resize(pieces * pieces, Rq::ZERO);
            let under = |block: usize, q: usize| &blocks[block][l * pieces + q];
            let (height, terms) = (layout.first_pieces(), layout.piece_blocks());
            let under = weighted_sums(&lift.blocks, height, terms, pieces, under, self.exec);
            let by_rows = |part: usize, theta: &Rq| {
                let sum = |row: usize, q: usize| &rows[row][(part + l) * pieces + q];
                let (height, terms) = (layout.long_pieces(), layout.stack);
                let sums = weighted_sums(&lift.long_rows, height, terms, pieces, sum, self.exec);
                backend.products(&Ntt::from_rq(theta), &backend.transforms(&sums))
            };
            let plain = by_rows(SCALAR, &lift.theta);
            let turned = by_rows(TURNED, &lift.theta.sigma());
            let images = self.image_products(l, &images[l])?;
            for q in 0..pieces {
                for p in 0..linear_pieces(layout) {
                    out[p * pieces + q].add(&linear[(p * LIFTS + l) * pieces + q]);
                }
                for p in 0..layout.long_pieces() {
                    out[p * pieces + q].sub(&turned[p * pieces + q]);
                    let second = layout.first_pieces() + p;
                    out[second * pieces + q].add(&plain[p * pieces + q]);
                }
                for p in 0..layout.first_pieces() {
                    out[p * pieces + q].sub(&under[p * pieces + q]);
                }
                for digit in 0..PRODUCT_DIGITS {
                    let (piece, row) = self.digit(digit);
                    let sum = &rows[row][(PRODUCT + l) * pieces + q];
                    out[piece * pieces + q].add(&sum.scaled(1 << (BASE * digit as u32)));
                }
                for (y, products) in images.iter().enumerate() {
                    out[(layout.image_piece() + y) * pieces + q].add(&products[q]);
                }
            }
        }
        let mut norms = vec![Rq::ZERO; pieces * pieces];
        for digit in 0..PRODUCT_DIGITS {
            let (piece, row) = self.digit(digit);
            for q in 0..pieces {
                let sum = &rows[row][ALPHA * pieces + q];
                norms[piece * pieces + q].sub(&sum.scaled(1 << (BASE * digit as u32)));
            }
        }
        Ok(Sums {
            pieces,
            products,
            norms,
        })
    }

    /// The piece of a digit of the products, and its row within.
    fn digit(&self, digit: usize) -> (usize, usize) {
        let layout = &self.public.layout;
        let (piece, row) = (digit / layout.stack, digit % layout.stack);
        (layout.long_pieces() + piece, row)
    }

    /// For each piece of `Y` the inner products of one lift with all pieces.
    fn image_products(&self, l: usize, elements: &[Rq]) -> Result<Vec<Vec<Rq>>, Stopped> {
        let (layout, exec) = (&self.public.layout, self.exec);
        let (rank, pieces, backend) = (layout.rank(), layout.pieces(), exec.backend());
        let padding = &self.lifts.each[l].padding;
        let theta = Ntt::from_rq(&self.lifts.each[l].theta);
        exec.try_map(pieces - layout.image_piece(), |y| {
            // Places below the end of the images have elements of their own, those behind scalars.
            let end = elements.len().saturating_sub(y * rank).min(rank);
            let mut own = Matrix::zero(1, pieces);
            let mut zeros = Matrix::zero(1, pieces);
            for first in (0..end).step_by(DEPTH) {
                let count = DEPTH.min(end - first);
                let start = y * rank + first;
                let phi = backend.transforms(&elements[start..start + count]);
                let s = |q: usize, k: usize| self.s.at(q, first + k);
                own.add(count, |_, k: usize| &phi[k], s, backend);
            }
            for first in (end..rank).step_by(DEPTH) {
                let count = DEPTH.min(rank - first);
                let start = y * rank + first - elements.len();
                let phi = Ntt::constants(&padding[start..start + count], backend);
                let s = |q: usize, k: usize| self.s.at(q, first + k);
                zeros.add(count, |_, k: usize| &phi[k], s, backend);
            }
            let zeros = backend.transforms(&zeros.elements(backend));
            let mut out = own.elements(backend);
            for (out, zeros) in out.iter_mut().zip(zeros) {
                out.add(&zeros.times(&theta).to_rq());
            }
            out
        })
    }
}

/// `sum_t weights[p terms + t] x(t, q)` for all `p` and `q`, with so many `p` and `t`.
fn weighted_sums<'a>(
    weights: &[u64],
    rows: usize,
    terms: usize,
    columns: usize,
    x: impl Fn(usize, usize) -> &'a Rq,
    exec: Exec<'_>,
) -> Vec<Rq> {
    let backend = exec.backend();
    let weights = Ntt::constants(&weights[..rows * terms], backend);
    let places = 0..columns * terms;
    let x: Vec<Rq> = places.map(|i| x(i % terms, i / terms).clone()).collect();
    let x = backend.transforms(&x);
    let mut sum = Matrix::zero(rows, columns);
    for first in (0..terms).step_by(DEPTH) {
        sum.add(
            DEPTH.min(terms - first),
            |p, t| &weights[p * terms + first + t],
            |q, t| &x[q * terms + first + t],
            backend,
        );
    }
    sum.elements(backend)
}

const _: () = assert!(TILE <= DEPTH, "a segment is one sum");
