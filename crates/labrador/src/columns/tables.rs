//! The prover's side of the sumcheck.
//!
//! | rounds | over | table |
//! |---|---|---|
//! | 3 upper bits of a coefficient | sums over all columns, from the numbers themselves | bilinear forms of 8 by 8 |
//! | 3 lower bits | columns, rows | 8 elements of `F` per row |
//! | bits of the row | rows, columns | one element per row |
//! | bits of the column | columns | one element |
//!
//! From the lower bits on, eight columns are processed side by side. A table of the lower bits belongs to the
//! columns of a task, so that it stays in the cache of its core while it is read and bound.

use std::borrow::Cow;

use alphorn_exec::{Exec, Stopped};

use super::layout::Layout;
use super::relation::{FieldMultiplier, Relation, Transposed};
use super::sumcheck::{Drawn, Point, challenge};
use crate::field::{COORDINATES, F, eq_table};
use crate::kernel::{Dispatch, Pass, SQUARE, Square, Vectors, transpose};
use crate::lanes::{Fx8, LANES, eq_lanes, joined};
use crate::prove::{Prover, lie_at};
use crate::ring::{DEGREE, Small};

/// Blocks per row, and coefficients per block: the upper and the lower bits of a coefficient.
const BLOCKS: usize = 8;
const WIDTH: usize = DEGREE / BLOCKS;
const _: () = assert!(WIDTH == LANES, "a block is eight coefficients side by side");

/// A bilinear form of blocks, for the rounds of the upper bits.
type Bilinear = Vec<Vec<F>>;

/// The sums of products of short numbers and the halves of elements of `F`: for each half of each
/// coordinate, those of all coefficients.
type Halves = [Vec<i64>; 2 * COORDINATES];

/// What one task sums over its columns.
struct Moments {
    /// `eq(tau, i) (sum s[a] s[b] + xi sum w[a] s2[b])` over the blocks `a`, `b`, with all `b` side by side.
    square: [Fx8; BLOCKS],
    /// `sum eq(tau, i) s1_i`, and the same for `v`.
    sums: [Halves; 2],
    /// The `w_i` of the columns, eight coefficients side by side.
    products: Vec<Fx8>,
}

/// Sums over some columns.
struct OfColumns<'a> {
    layout: &'a Layout,
    relation: &'a Relation<'a>,
    u: &'a FieldMultiplier,
    drawn: &'a Drawn,
    weights: &'a [F],
    s: &'a [Small],
    columns: std::ops::Range<usize>,
}

impl OfColumns<'_> {
    #[inline(always)]
    fn row(&self, row: usize, column: usize) -> &[i16; DEGREE] {
        &self.s[self.layout.place(row, column)].0
    }
}

impl Pass for OfColumns<'_> {
    type Output = Moments;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Moments {
        let (layout, e) = (self.layout, self.layout.extension);
        let mut out = Moments {
            square: [Fx8::ZERO; BLOCKS],
            sums: [const { [const { Vec::new() }; 2 * COORDINATES] }; 2],
            products: Vec::with_capacity(self.columns.len() * e * BLOCKS),
        };
        for sums in out.sums.as_flattened_mut() {
            sums.resize(e * DEGREE, 0);
        }
        let normed: Vec<usize> = (0..layout.rows())
            .filter(|&row| layout.is_normed(row))
            .collect();
        // Rows transposed, with blocks one below another, and rows as factors; `w` as factors, by block and row.
        let mut turned: Vec<Square> = vec![[[0; SQUARE]; SQUARE]; normed.len()];
        let mut factors = vec![[[0; SQUARE]; SQUARE]; normed.len()];
        let mut of_w = vec![[[0; LANES]; 2 * COORDINATES]; BLOCKS * e];
        for column in self.columns.clone() {
            let weight = self.weights[column];
            let w = Transposed(self.u, self.relation.factors()[column]).run::<V>();
            for ((turned, factors), &row) in turned.iter_mut().zip(&mut factors).zip(&normed) {
                let element = self.row(row, column);
                turned.copy_from_slice(element.as_chunks().0);
                transpose::<V>(turned);
                for (factor, &c) in factors.as_flattened_mut().iter_mut().zip(element) {
                    *factor = i32::from(c);
                }
            }
            for (index, w) in w.iter().enumerate() {
                of_w[index % BLOCKS * e + index / BLOCKS] = w.halves();
            }
            let mut gram = [[0; LANES]; BLOCKS];
            V::add_products(&mut gram, &factors, &turned);
            let linear = Fx8::splat(weight.times(self.drawn.xi));
            let norms = Fx8::splat(weight.times(self.drawn.norms));
            let of_blocks = out.square.iter_mut().zip(gram);
            for ((out, gram), w) in of_blocks.zip(of_w.chunks_exact(e)) {
                // Integers are the lower half of the first coordinate; all other halves are zero.
                let mut of_integers = [[0; LANES]; 2 * COORDINATES];
                of_integers[0] = gram;
                let mut mixed = [[0; LANES]; 2 * COORDINATES];
                // The rows of `s2` among the normed ones.
                V::add_products(&mut mixed, w, &turned[e..2 * e]);
                let squares = norms.times::<V>(&Fx8::joined(&of_integers));
                let products = linear.times::<V>(&Fx8::joined(&mixed));
                *out = out.plus(&squares.plus(&products));
            }
            out.products.extend_from_slice(&w);
            // On these rows `Phi` is the same for all columns. So the columns are summed under their weights first,
            // and `whole_square` multiplies by `u` once.
            let halves = weight.halves();
            for (sums, first) in out.sums.iter_mut().zip([0, layout.quotient_row()]) {
                for (sums, (low, high)) in sums.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
                    for (sums, half) in sums.iter_mut().zip([low, high]) {
                        for (row, sums) in sums.as_chunks_mut::<DEGREE>().0.iter_mut().enumerate() {
                            for (sum, &c) in sums.iter_mut().zip(self.row(first + row, column)) {
                                *sum += i64::from(half) * i64::from(c);
                            }
                        }
                    }
                }
            }
        }
        out
    }
}

/// The tables of the lower bits over the columns of a task: for every eight columns and each row, one element
/// per remaining coefficient.
struct Lower {
    s: Vec<Fx8>,
    /// The same for the `w_i`.
    w: Vec<Fx8>,
}

/// Computes the tables of some columns after the upper bits are bound.
struct Bind<'a> {
    layout: &'a Layout,
    s: &'a [Small],
    /// For these columns only, see [`Moments::products`].
    w: &'a [Fx8],
    /// The weight of each block.
    blocks: &'a [F],
    columns: std::ops::Range<usize>,
}

impl Pass for Bind<'_> {
    type Output = Lower;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Lower {
        let (layout, rows) = (self.layout, self.layout.rows());
        let (of_s, of_w) = (rows * WIDTH, layout.extension * WIDTH);
        let mut weights = Fx8::ZERO;
        for (lane, &weight) in self.blocks.iter().enumerate() {
            weights.set(lane, weight);
        }
        let factors = [weights.halves()];
        let eights = self.columns.len().div_ceil(LANES);
        let mut s = vec![Fx8::ZERO; eights * of_s];
        let mut w = vec![Fx8::ZERO; eights * of_w];
        for (index, column) in self.columns.enumerate() {
            let lane = index % LANES;
            for row in 0..rows {
                let element = self.s[layout.place(row, column)].0.as_chunks().0;
                let mut sums = [[0; LANES]; 2 * COORDINATES];
                V::add_products(&mut sums, &factors, element.as_chunks().0);
                let at = index / LANES * of_s + row * WIDTH;
                turn(&Fx8::joined(&sums), lane, &mut s[at..at + WIDTH]);
            }
            for row in 0..layout.extension {
                let first = (index * layout.extension + row) * BLOCKS;
                let mut sum = Fx8::ZERO;
                for (block, &weight) in self.w[first..first + BLOCKS].iter().zip(self.blocks) {
                    sum = sum.plus(&block.times::<V>(&Fx8::splat(weight)));
                }
                let at = index / LANES * of_w + row * WIDTH;
                turn(&sum, lane, &mut w[at..at + WIDTH]);
            }
        }
        Lower { s, w }
    }
}

/// Writes the elements of all lanes to one lane of several.
#[inline(always)]
fn turn(from: &Fx8, lane: usize, to: &mut [Fx8]) {
    for (k, to) in to.iter_mut().enumerate() {
        for c in 0..COORDINATES {
            to.0[c][lane] = from.0[c][k];
        }
    }
}

/// Returns rows of 64 elements with their upper bits bound.
fn bound(rows: &[F], blocks: &[F]) -> Vec<F> {
    let of_row = |row: &[F; DEGREE]| -> [F; WIDTH] {
        std::array::from_fn(|k| {
            let terms = blocks.iter().enumerate();
            terms.fold(F::ZERO, |sum, (a, &x)| {
                sum.plus(x.times(row[a * WIDTH + k]))
            })
        })
    };
    let rows = rows.as_chunks::<DEGREE>().0.iter();
    rows.flat_map(of_row).collect()
}

/// Returns `x_0 + r (x_1 - x_0)` for the lower and the upper half of each `width` elements.
fn folded(table: &[F], width: usize, r: F) -> Vec<F> {
    let half = width / 2;
    let mut out = Vec::with_capacity(table.len() / 2);
    for row in table.chunks_exact(width) {
        for (&low, &high) in row[..half].iter().zip(&row[half..]) {
            out.push(low.plus(r.times(high.minus(low))));
        }
    }
    out
}

/// Computes the coefficients of 1 and of `t^2` for a table of the lower bits, summed over its columns.
struct Ends<'a> {
    layout: &'a Layout,
    modulus: F,
    drawn: &'a Drawn,
    tables: &'a Lower,
    /// `u`, row by row, with as many coefficients as the tables.
    u: &'a [F],
    width: usize,
    /// The weights of the columns.
    weights: &'a [Fx8],
}

impl Pass for Ends<'_> {
    type Output = [F; 2];

    #[inline(always)]
    fn run<V: Vectors>(self) -> [F; 2] {
        let (layout, width, half) = (self.layout, self.width, self.width / 2);
        let e = layout.extension;
        let of_s = self.tables.s.chunks_exact(layout.rows() * width);
        let of_w = self.tables.w.chunks_exact(e * width);
        // For squares, products, and products of quotients.
        let mut sums = [[Fx8::ZERO; 2]; 3];
        for ((s, w), weight) in of_s.zip(of_w).zip(self.weights) {
            let mut own = [[Fx8::ZERO; 2]; 3];
            for (row, s) in s.chunks_exact(width).enumerate() {
                let which = if row / e == 2 { 2 } else { 1 };
                for k in 0..half {
                    let ends = [s[k], s[half + k].minus(&s[k])];
                    if layout.is_normed(row) {
                        for (sum, end) in own[0].iter_mut().zip(&ends) {
                            *sum = sum.plus(&end.times::<V>(end));
                        }
                    }
                    let at = row % e * width + k;
                    let phi = match row / e {
                        0 | 2 => [self.u[at], self.u[half + at]].map(Fx8::splat),
                        1 => [w[at], w[half + at]],
                        _ => continue,
                    };
                    let phi = [phi[0], phi[1].minus(&phi[0])];
                    for ((sum, end), phi) in own[which].iter_mut().zip(&ends).zip(&phi) {
                        *sum = sum.plus(&end.times::<V>(phi));
                    }
                }
            }
            for (sums, own) in sums.as_flattened_mut().iter_mut().zip(own.as_flattened()) {
                *sums = sums.plus(&weight.times::<V>(own));
            }
        }
        let [square, linear, quotient] = sums.map(|ends| ends.map(|end| end.sum()));
        std::array::from_fn(|k| {
            let linear = linear[k].minus(self.modulus.times(quotient[k]));
            (self.drawn.norms.times(square[k])).plus(self.drawn.xi.times(linear))
        })
    }
}

/// Binds the highest remaining bit of each `width` elements, in place.
struct Fold<'a> {
    table: &'a mut Vec<Fx8>,
    width: usize,
    r: F,
}

impl Pass for Fold<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let (half, r) = (self.width / 2, Fx8::splat(self.r));
        let count = self.table.len() / self.width;
        for row in 0..count {
            for k in 0..half {
                // Writes never overtake reads.
                let at = row * self.width + k;
                let (low, high) = (self.table[at], self.table[at + half]);
                self.table[row * half + k] = low.plus(&r.times::<V>(&high.minus(&low)));
            }
        }
        self.table.truncate(count * half);
    }
}

/// Computes `x_0 + r (x_1 - x_0)` elementwise.
struct Mix<'a> {
    ends: [&'a [Fx8]; 2],
    r: F,
    out: &'a mut [Fx8],
}

impl Pass for Mix<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let r = Fx8::splat(self.r);
        let ends = self.ends[0].iter().zip(self.ends[1]);
        for (out, (low, high)) in self.out.iter_mut().zip(ends) {
            *out = low.plus(&r.times::<V>(&high.minus(low)));
        }
    }
}

/// The sums of squares and of products of two linear polynomials, as coefficients of 1, `t`, `t^2`.
#[derive(Clone, Copy)]
struct Parts<T> {
    square: [T; 3],
    linear: [T; 3],
}

impl Parts<F> {
    const ZERO: Self = Self {
        square: [F::ZERO; 3],
        linear: [F::ZERO; 3],
    };

    fn plus(mut self, other: Self) -> Self {
        let add = |a: &mut [F; 3], b: [F; 3]| {
            for (a, b) in a.iter_mut().zip(b) {
                *a = a.plus(b);
            }
        };
        add(&mut self.square, other.square);
        add(&mut self.linear, other.linear);
        self
    }
}

/// Computes the [`Parts`] of some positions from their weights, and both ends of `s` and of `phi`.
struct Sums<'a> {
    weights: &'a [Fx8],
    s: [&'a [Fx8]; 2],
    phi: [&'a [Fx8]; 2],
}

impl Pass for Sums<'_> {
    type Output = Parts<F>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Parts<F> {
        let mut sums = Parts {
            square: [Fx8::ZERO; 3],
            linear: [Fx8::ZERO; 3],
        };
        let of_s = self.s[0].iter().zip(self.s[1]);
        let of_phi = self.phi[0].iter().zip(self.phi[1]);
        for ((weight, s), phi) in self.weights.iter().zip(of_s).zip(of_phi) {
            let (ds, dphi) = (s.1.minus(s.0), phi.1.minus(phi.0));
            let (low, high) = (weight.times::<V>(s.0), weight.times::<V>(&ds));
            let mixed = low.times::<V>(&ds);
            let squares = [
                low.times::<V>(s.0),
                mixed.plus(&mixed),
                high.times::<V>(&ds),
            ];
            let linear = [
                low.times::<V>(phi.0),
                (low.times::<V>(&dphi)).plus(&high.times::<V>(phi.0)),
                high.times::<V>(&dphi),
            ];
            for k in 0..3 {
                sums.square[k] = sums.square[k].plus(&squares[k]);
                sums.linear[k] = sums.linear[k].plus(&linear[k]);
            }
        }
        Parts {
            square: sums.square.map(|x| x.sum()),
            linear: sums.linear.map(|x| x.sum()),
        }
    }
}

/// Returns both halves of a table over `2 half` columns.
fn ends(table: &[Fx8], half: usize) -> [Cow<'_, [Fx8]>; 2] {
    if half >= LANES {
        let (low, high) = table.split_at(half / LANES);
        return [low.into(), high.into()];
    }
    [0, half].map(|first| Cow::Owned(vec![table[0].part(first, half)]))
}

/// Returns a table with its highest bit bound, given its halves.
fn mixed(ends: [&[Fx8]; 2], r: F, exec: Exec<'_>) -> Result<Vec<Fx8>, Stopped> {
    let mut out = vec![Fx8::ZERO; ends[0].len()];
    exec.try_fill(&mut out, CHUNK, |task, out| {
        let own = task * CHUNK..task * CHUNK + out.len();
        let ends = ends.map(|end| &end[own.clone()]);
        exec.backend().run(Mix { ends, r, out });
    })?;
    Ok(out)
}

/// Positions per task.
const CHUNK: usize = 256;

/// The rounds of the prover, each of which sends its polynomial.
struct Rounds<'p, 'a> {
    prover: &'p mut Prover<'a>,
    challenges: Vec<F>,
}

impl Rounds<'_, '_> {
    /// Sends all coefficients except the linear one.
    fn send(&mut self, mut coefficients: Vec<F>) -> F {
        lie_at!(self.prover, Round(&mut coefficients));
        let flat: Vec<u64> = coefficients.iter().flat_map(|c| c.0).collect();
        self.prover.sender.residues("round", &flat);
        let r = challenge(&self.prover.sender.transcript);
        self.challenges.push(r);
        r
    }

    /// Runs the rounds of the upper bits of a coefficient.
    fn upper(&mut self, mut square: Bilinear) {
        while square.len() > 1 {
            let half = square.len() / 2;
            let trace = |a: usize, b: usize| {
                (0..half).fold(F::ZERO, |sum, k| {
                    sum.plus(square[a * half + k][b * half + k])
                })
            };
            // The product of `x_0 + t (x_1 - x_0)` and `y_0 + t (y_1 - y_0)`, summed: `t^2` has both equal pairs
            // minus both mixed ones.
            let (low, high) = (trace(0, 0), trace(1, 1));
            let mixed = trace(0, 1).plus(trace(1, 0));
            let r = self.send(vec![low, low.plus(high).minus(mixed)]);
            let fold = |low: F, high: F| low.plus(r.times(high.minus(low)));
            // Both factors of a product are bound to the same challenge, so the form is folded in both directions.
            let columns: Bilinear = (square.iter())
                .map(|row| (0..half).map(|b| fold(row[b], row[half + b])).collect())
                .collect();
            square = (0..half)
                .map(|a| {
                    let both = columns[a].iter().zip(&columns[half + a]);
                    both.map(|(&low, &high)| fold(low, high)).collect()
                })
                .collect();
        }
    }

    /// Runs the rounds of the lower bits, which leave one coefficient in the tables of all tasks and of `u`.
    fn lower(
        &mut self,
        layout: &Layout,
        drawn: &Drawn,
        weights: &[Fx8],
        modulus: F,
        tables: &mut [Lower],
        u: &mut Vec<F>,
    ) -> Result<(), Stopped> {
        let exec = self.prover.exec;
        let mut width = WIDTH;
        while width > 1 {
            let parts = exec.try_map(tables.len(), |task| {
                exec.backend().run(Ends {
                    layout,
                    modulus,
                    drawn,
                    tables: &tables[task],
                    u,
                    width,
                    weights: &weights[task * CHUNK / LANES..],
                })
            })?;
            let sum = parts.into_iter().fold([F::ZERO; 2], |sum, part| {
                std::array::from_fn(|k| sum[k].plus(part[k]))
            });
            let r = self.send(sum.to_vec());
            exec.try_fill(tables, 1, |_, tables| {
                for table in tables.iter_mut().flat_map(|t| [&mut t.s, &mut t.w]) {
                    exec.backend().run(Fold { table, width, r });
                }
            })?;
            *u = folded(u, width, r);
            width /= 2;
        }
        Ok(())
    }

    /// Runs the rounds of the row bits on tables whose upper index is the row.
    fn rows(
        &mut self,
        drawn: &Drawn,
        weights: &[Fx8],
        mut normed: Vec<F>,
        [mut s, mut phi]: [Vec<Fx8>; 2],
    ) -> Result<(F, [Vec<Fx8>; 2]), Stopped> {
        let (exec, columns) = (self.prover.exec, weights.len());
        while normed.len() > 1 {
            let half = normed.len() / 2;
            let of_s = s.split_at(half * columns);
            let of_phi = phi.split_at(half * columns);
            let parts = exec.try_map(half, |row| {
                let own = row * columns..(row + 1) * columns;
                let parts = exec.backend().run(Sums {
                    weights,
                    s: [&of_s.0[own.clone()], &of_s.1[own.clone()]],
                    phi: [&of_phi.0[own.clone()], &of_phi.1[own]],
                });
                let (low, d) = (normed[row], normed[half + row].minus(normed[row]));
                // `(low + d t) (a + b t + c t^2) + x + y t + z t^2`, without the linear coefficient.
                let [a, b, c] = parts.square;
                let [x, _, z] = parts.linear.map(|x| x.times(drawn.xi));
                [
                    low.times(a).plus(x),
                    low.times(c).plus(d.times(b)).plus(z),
                    d.times(c),
                ]
            })?;
            let sum = parts.into_iter().fold([F::ZERO; 3], |sum, part| {
                std::array::from_fn(|k| sum[k].plus(part[k]))
            });
            let r = self.send(sum.to_vec());
            let both = [of_s, of_phi].map(|(low, high)| mixed([low, high], r, exec));
            let [of_s, of_phi] = both;
            (s, phi) = (of_s?, of_phi?);
            normed = folded(&normed, 2 * half, r);
        }
        Ok((normed[0], [s, phi]))
    }

    /// Runs the rounds of the column bits; returns the value of `s` at the end.
    fn columns(
        &mut self,
        drawn: &Drawn,
        normed: F,
        [mut s, mut phi]: [Vec<Fx8>; 2],
    ) -> Result<F, Stopped> {
        let exec = self.prover.exec;
        let mut prefix = F::ONE;
        for (bit, &tau) in drawn.tau.iter().enumerate().rev() {
            let half = 1 << bit;
            let weights = eq_lanes(&drawn.tau[..bit], exec.backend());
            let (of_s, of_phi) = (ends(&s, half), ends(&phi, half));
            let parts = exec.try_map(weights.len().div_ceil(CHUNK), |task| {
                let own = task * CHUNK..weights.len().min((task + 1) * CHUNK);
                exec.backend().run(Sums {
                    weights: &weights[own.clone()],
                    s: of_s.each_ref().map(|end| &end[own.clone()]),
                    phi: of_phi.each_ref().map(|end| &end[own.clone()]),
                })
            })?;
            let parts = parts.into_iter().fold(Parts::ZERO, Parts::plus);
            let q: [F; 3] = std::array::from_fn(|k| {
                let linear = drawn.xi.times(parts.linear[k]);
                normed.times(parts.square[k]).plus(linear)
            });
            // Times eq(tau, t) = (1 - tau) + (2 tau - 1) t.
            let low = prefix.times(F::ONE.minus(tau));
            let step = prefix.times(tau.plus(tau).minus(F::ONE));
            let of_degree = |a: usize, b: usize| low.times(q[a]).plus(step.times(q[b]));
            let r = self.send(vec![low.times(q[0]), of_degree(2, 1), step.times(q[2])]);
            prefix = low.plus(step.times(r));
            let [of_s, of_phi] = [of_s, of_phi].map(|[low, high]| mixed([&low, &high], r, exec));
            (s, phi) = (of_s?, of_phi?);
        }
        Ok(s[0].get(0))
    }
}

/// Rearranges the tables of the tasks into tables whose upper index is the row.
fn by_rows(
    layout: &Layout,
    modulus: F,
    tables: &[Lower],
    u: &[F],
    exec: Exec<'_>,
) -> Result<[Vec<Fx8>; 2], Stopped> {
    let (rows, e) = (layout.rows(), layout.extension);
    let eights = (1usize << layout.column_bits()).div_ceil(LANES);
    let mut out = [const { Vec::new() }; 2];
    for (which, out) in out.iter_mut().enumerate() {
        let mut table = vec![Fx8::ZERO; eights << layout.row_bits()];
        exec.try_fill(&mut table, eights, |row, table| {
            // Where `Phi` is the same for all columns, it is the same beyond the last column too.
            match (which, row / e) {
                (1, 0) => table.fill(Fx8::splat(u[row])),
                (1, 2) => table.fill(Fx8::splat(F::ZERO.minus(modulus.times(u[row - 2 * e])))),
                _ => {}
            }
            for (table, of_task) in table.chunks_mut(CHUNK / LANES).zip(tables) {
                let (from, first, each) = match (which, row / e) {
                    (0, _) if row < rows => (&of_task.s, row, rows),
                    (1, 1) => (&of_task.w, row - e, e),
                    _ => continue,
                };
                let from = from[first..].iter().step_by(each);
                for (x, from) in table.iter_mut().zip(from) {
                    *x = *from;
                }
            }
        })?;
        *out = table;
    }
    Ok(out)
}

/// The prover's side: returns the point, and the value of `s` there, which it sends.
pub(super) fn prove(
    layout: &Layout,
    relation: &Relation<'_>,
    s: &[Small],
    prover: &mut Prover<'_>,
) -> Result<(Point, F), Stopped> {
    let exec = prover.exec;
    prover.step("sumcheck: sums of columns")?;
    let drawn = Drawn::new(layout, &prover.sender.transcript);
    let (mut u, weights) = (drawn.u(), eq_table(&drawn.tau));
    let modulus = F::of(relation.modulus() as i64);
    let multiplier = FieldMultiplier::new(&u);
    let ranges = |task: usize| task * CHUNK..layout.columns.min((task + 1) * CHUNK);
    let tasks = layout.columns.div_ceil(CHUNK);
    let parts = exec.try_map(tasks, |task| {
        exec.backend().run(OfColumns {
            layout,
            relation,
            u: &multiplier,
            drawn: &drawn,
            weights: &weights,
            s,
            columns: ranges(task),
        })
    })?;
    let square = whole_square(&parts, &u, modulus, drawn.xi);
    let w: Vec<Vec<Fx8>> = parts.into_iter().map(|part| part.products).collect();
    let mut rounds = Rounds {
        prover,
        challenges: Vec::new(),
    };
    rounds.upper(square);
    rounds.prover.step("sumcheck: coefficients")?;
    let upper: Vec<F> = rounds.challenges.iter().rev().copied().collect();
    let blocks = eq_table(&upper);
    let mut tables = exec.try_map(tasks, |task| {
        exec.backend().run(Bind {
            layout,
            s,
            w: &w[task],
            blocks: &blocks,
            columns: ranges(task),
        })
    })?;
    drop(w);
    u = bound(&u, &blocks);
    let weights = Fx8::of_all(&weights);
    rounds.lower(layout, &drawn, &weights, modulus, &mut tables, &mut u)?;
    rounds.prover.step("sumcheck: rows and columns")?;
    let all = by_rows(layout, modulus, &tables, &u, exec)?;
    drop(tables);
    let normed =
        (0..1 << layout.row_bits()).map(|row| match row < layout.rows() && layout.is_normed(row) {
            true => drawn.norms,
            false => F::ZERO,
        });
    let (normed, all) = rounds.rows(&drawn, &weights, normed.collect(), all)?;
    let value = rounds.columns(&drawn, normed, all)?;
    let Rounds { prover, challenges } = rounds;
    let mut value = vec![value];
    lie_at!(prover, Round(&mut value));
    prover.sender.residues("value", &value[0].0);
    Ok((Point::new(layout, &challenges), value[0]))
}

/// Returns the bilinear form of all columns, from the results of the tasks and the rows on which `Phi` is the same
/// for all columns.
fn whole_square(parts: &[Moments], u: &[F], modulus: F, xi: F) -> Bilinear {
    let mut out = vec![vec![F::ZERO; BLOCKS]; BLOCKS];
    let mut sums = [vec![F::ZERO; u.len()], vec![F::ZERO; u.len()]];
    for part in parts {
        for (out, row) in out.iter_mut().zip(&part.square) {
            for (b, out) in out.iter_mut().enumerate() {
                *out = out.plus(row.get(b));
            }
        }
        for (sums, part) in sums.iter_mut().zip(&part.sums) {
            for (y, sum) in sums.iter_mut().enumerate() {
                let coordinate = |c: usize| joined(part[2 * c][y], part[2 * c + 1][y]);
                *sum = sum.plus(F(std::array::from_fn(coordinate)));
            }
        }
    }
    let [first, quotient] = sums;
    let both = first.iter().zip(&quotient);
    let sums: Vec<F> = both.map(|(&s, &v)| s.minus(modulus.times(v))).collect();
    let rows = u.as_chunks::<DEGREE>().0.iter();
    for (u, sums) in rows.zip(sums.as_chunks::<DEGREE>().0) {
        for (a, out) in out.iter_mut().enumerate() {
            for (b, out) in out.iter_mut().enumerate() {
                for k in 0..WIDTH {
                    let product = u[a * WIDTH + k].times(sums[b * WIDTH + k]);
                    *out = out.plus(xi.times(product));
                }
            }
        }
    }
    out
}
