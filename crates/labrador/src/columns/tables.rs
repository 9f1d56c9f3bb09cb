//! The prover's end of the sumcheck.
//!
//! | rounds | over | table |
//! |---|---|---|
//! | 3 upper bits of a coefficient | sums over all columns, from the numbers themselves | bilinear forms of 8 by 8 |
//! | 3 lower bits | columns, rows | 8 elements of `F` a row |
//! | bits of the row | rows, columns | one element a row |
//! | bits of the column | columns | one element |

use alphorn_exec::{Exec, Stopped};

use super::layout::Layout;
use super::relation::{FieldMultiplier, Relation, Transposed};
use super::sumcheck::{Drawn, Point, challenge};
use crate::field::{COORDINATES, F, eq_table, joined};
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::prove::{Prover, lie_at};
use crate::ring::{DEGREE, Small, reduce};

/// Blocks of a row, and coefficients of a block: the upper and the lower bits of a coefficient.
const BLOCKS: usize = 8;
const WIDTH: usize = DEGREE / BLOCKS;

/// A bilinear form of blocks: the rounds of upper bits.
type Square = Vec<Vec<F>>;

/// Products of a short number and the halves of an element of `F`, coordinate by coordinate.
type Halves = [[i64; 2]; COORDINATES];

fn of_halves(halves: &Halves) -> F {
    F(halves.map(|[low, high]| joined(low, high)))
}

/// What one task sums of its columns.
struct Moments {
    /// `eq(tau, i) (sum s[a] s[b] + xi sum w[a] s2[b])` over the blocks `a`, `b`.
    square: Square,
    /// `sum eq(tau, i) s1_i`, and the same of `v`.
    sums: [Vec<Halves>; 2],
    /// The `w_i` of the columns.
    products: Vec<F>,
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

    /// `sum s[a] s[b]` over the rows that count for the norm.
    #[inline(always)]
    fn gram(&self, column: usize) -> [[i64; BLOCKS]; BLOCKS] {
        let mut out = [[0i64; BLOCKS]; BLOCKS];
        for row in (0..self.layout.rows()).filter(|&row| self.layout.is_normed(row)) {
            let blocks = self.row(row, column).as_chunks::<WIDTH>().0;
            for a in 0..BLOCKS {
                for b in a..BLOCKS {
                    let products = blocks[a].iter().zip(&blocks[b]);
                    let sum: i64 = products.map(|(&x, &y)| i64::from(x) * i64::from(y)).sum();
                    out[a][b] += sum;
                }
            }
        }
        out
    }

    /// `sum w[a] s2[b]`.
    #[inline(always)]
    fn mixed(&self, column: usize, w: &[F]) -> [[F; BLOCKS]; BLOCKS] {
        let e = self.layout.extension;
        let mut halves = vec![[[[0i32; WIDTH]; BLOCKS]; 2 * COORDINATES]; e];
        for (row, halves) in halves.iter_mut().enumerate() {
            for k in 0..DEGREE {
                for (c, (low, high)) in w[row * DEGREE + k].halves().into_iter().enumerate() {
                    halves[2 * c][k / WIDTH][k % WIDTH] = low;
                    halves[2 * c + 1][k / WIDTH][k % WIDTH] = high;
                }
            }
        }
        let mut out = [[F::ZERO; BLOCKS]; BLOCKS];
        for (a, out) in out.iter_mut().enumerate() {
            for (b, out) in out.iter_mut().enumerate() {
                let mut sums = [[0i64; 2]; COORDINATES];
                for (c, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
                    let mut lanes = [0i64; WIDTH];
                    for (row, halves) in halves.iter().enumerate() {
                        let s = &self.row(e + row, column)[b * WIDTH..(b + 1) * WIDTH];
                        for ((lane, &w), &s) in lanes.iter_mut().zip(&halves[c][a]).zip(s) {
                            *lane += i64::from(w) * i64::from(s);
                        }
                    }
                    *sum = lanes.iter().sum();
                }
                *out = of_halves(&sums);
            }
        }
        out
    }
}

impl Pass for OfColumns<'_> {
    type Output = Moments;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Moments {
        let (layout, e) = (self.layout, self.layout.extension);
        let mut out = Moments {
            square: vec![vec![F::ZERO; BLOCKS]; BLOCKS],
            sums: [const { Vec::new() }; 2],
            products: Vec::with_capacity(self.columns.len() * e * DEGREE),
        };
        for sums in &mut out.sums {
            sums.resize(e * DEGREE, [[0; 2]; COORDINATES]);
        }
        for column in self.columns.clone() {
            let weight = self.weights[column];
            let w = Transposed(self.u, self.relation.factors()[column]).run::<V>();
            let (gram, mixed) = (self.gram(column), self.mixed(column, &w));
            out.products.extend_from_slice(&w);
            let linear = weight.times(self.drawn.xi);
            let normed = weight.times(self.drawn.norms);
            for a in 0..BLOCKS {
                for b in 0..BLOCKS {
                    let of_norms = normed.scaled(reduce(gram[a.min(b)][a.max(b)]));
                    let sum = of_norms.plus(linear.times(mixed[a][b]));
                    out.square[a][b] = out.square[a][b].plus(sum);
                }
            }
            let halves = weight.halves();
            for (sums, first) in out.sums.iter_mut().zip([0, layout.quotient_row()]) {
                for (row, sums) in sums.as_chunks_mut::<DEGREE>().0.iter_mut().enumerate() {
                    for (sum, &c) in sums.iter_mut().zip(self.row(first + row, column)) {
                        for (sum, (low, high)) in sum.iter_mut().zip(halves) {
                            sum[0] += i64::from(low) * i64::from(c);
                            sum[1] += i64::from(high) * i64::from(c);
                        }
                    }
                }
            }
        }
        out
    }
}

/// The tables of the lower bits: for each column and row as many elements as coefficients are left.
struct Lower {
    width: usize,
    /// Column by column, row by row.
    s: Vec<F>,
    /// The same of the `w_i`.
    w: Vec<F>,
    /// `u`, row by row.
    u: Vec<F>,
}

/// The tables of some columns after the upper bits are bound.
struct Bind<'a> {
    layout: &'a Layout,
    s: &'a [Small],
    /// Of these columns alone.
    w: &'a [F],
    /// For each block its weight.
    blocks: &'a [F],
    columns: std::ops::Range<usize>,
}

impl Pass for Bind<'_> {
    type Output = (Vec<F>, Vec<F>);

    #[inline(always)]
    fn run<V: Vectors>(self) -> (Vec<F>, Vec<F>) {
        let (layout, degree) = (self.layout, self.layout.extension * DEGREE);
        let mut halves = [[[0i32; 2]; COORDINATES]; BLOCKS];
        for (halves, weight) in halves.iter_mut().zip(self.blocks) {
            *halves = weight.halves().map(|(low, high)| [low, high]);
        }
        let mut s = Vec::with_capacity(self.columns.len() * layout.rows() * WIDTH);
        let mut w = Vec::with_capacity(self.columns.len() * layout.extension * WIDTH);
        for (column, of_column) in self.columns.zip(self.w.chunks_exact(degree)) {
            for row in 0..layout.rows() {
                let element = &self.s[layout.place(row, column)].0;
                let mut sums = [[[0i64; WIDTH]; 2]; COORDINATES];
                for (block, halves) in element.as_chunks::<WIDTH>().0.iter().zip(&halves) {
                    for (sums, halves) in sums.iter_mut().zip(halves) {
                        for (sums, &half) in sums.iter_mut().zip(halves) {
                            for (sum, &c) in sums.iter_mut().zip(block) {
                                *sum += i64::from(half) * i64::from(c);
                            }
                        }
                    }
                }
                for k in 0..WIDTH {
                    s.push(of_halves(&sums.map(|sums| sums.map(|sum| sum[k]))));
                }
            }
            w.extend(bound(of_column, self.blocks));
        }
        (s, w)
    }
}

/// Rows of 64 elements with their upper bits bound.
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

/// `x_0 + r (x_1 - x_0)` for the lower and the upper half of each `width` elements.
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

/// The sums of squares and of products of two linear polynomials, as coefficients of 1, `t`, `t^2`.
#[derive(Clone, Copy)]
struct Parts {
    square: [F; 3],
    linear: [F; 3],
}

impl Parts {
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

    /// Adds those of one place: the weight, and both ends of `s` and of `phi`.
    #[inline(always)]
    fn add(&mut self, weight: F, s: [F; 2], phi: [F; 2]) {
        let (ds, dphi) = (s[1].minus(s[0]), phi[1].minus(phi[0]));
        let (low, high) = (weight.times(s[0]), weight.times(ds));
        let mixed = low.times(ds);
        let terms = [low.times(s[0]), mixed.plus(mixed), high.times(ds)];
        let linear = [
            low.times(phi[0]),
            low.times(dphi).plus(high.times(phi[0])),
            high.times(dphi),
        ];
        for k in 0..3 {
            self.square[k] = self.square[k].plus(terms[k]);
            self.linear[k] = self.linear[k].plus(linear[k]);
        }
    }
}

/// Places of a task.
const CHUNK: usize = 256;

/// The rounds of the prover, which sends each polynomial.
struct Rounds<'p, 'a> {
    prover: &'p mut Prover<'a>,
    challenges: Vec<F>,
}

impl Rounds<'_, '_> {
    /// Sends the coefficients but the linear one.
    fn send(&mut self, mut coefficients: Vec<F>) -> F {
        lie_at!(self.prover, Round(&mut coefficients));
        let flat: Vec<u64> = coefficients.iter().flat_map(|c| c.0).collect();
        self.prover.sender.residues("round", &flat);
        let r = challenge(&self.prover.sender.transcript);
        self.challenges.push(r);
        r
    }

    /// The upper bits of a coefficient.
    fn upper(&mut self, mut square: Square) {
        while square.len() > 1 {
            let half = square.len() / 2;
            let trace = |a: usize, b: usize| {
                (0..half).fold(F::ZERO, |sum, k| {
                    sum.plus(square[a * half + k][b * half + k])
                })
            };
            let (low, high) = (trace(0, 0), trace(1, 1));
            let mixed = trace(0, 1).plus(trace(1, 0));
            let r = self.send(vec![low, low.plus(high).minus(mixed)]);
            let fold = |low: F, high: F| low.plus(r.times(high.minus(low)));
            let columns: Square = (square.iter())
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

    /// The lower bits.
    fn lower(
        &mut self,
        layout: &Layout,
        drawn: &Drawn,
        weights: &[F],
        modulus: F,
        mut tables: Lower,
    ) -> Result<Lower, Stopped> {
        let exec = self.prover.exec;
        while tables.width > 1 {
            let parts = exec.try_map(layout.columns.div_ceil(CHUNK), |task| {
                let columns = task * CHUNK..layout.columns.min((task + 1) * CHUNK);
                columns.fold([F::ZERO; 2], |sum, column| {
                    let both = tables.ends(layout, modulus, drawn, column);
                    let weight = weights[column];
                    std::array::from_fn(|k| sum[k].plus(weight.times(both[k])))
                })
            })?;
            let sum = parts.into_iter().fold([F::ZERO; 2], |sum, part| {
                std::array::from_fn(|k| sum[k].plus(part[k]))
            });
            let r = self.send(sum.to_vec());
            let width = tables.width;
            tables = Lower {
                width: width / 2,
                s: on_threads(&tables.s, width, r, exec)?,
                w: on_threads(&tables.w, width, r, exec)?,
                u: folded(&tables.u, width, r),
            };
        }
        Ok(tables)
    }

    /// The bits of the row, of tables whose upper index is the row.
    fn rows(
        &mut self,
        drawn: &Drawn,
        weights: &[F],
        mut normed: Vec<F>,
        [mut s, mut phi]: [Vec<F>; 2],
    ) -> Result<(F, [Vec<F>; 2]), Stopped> {
        let (exec, columns) = (self.prover.exec, weights.len());
        while normed.len() > 1 {
            let half = normed.len() / 2;
            let parts = exec.try_map(half, |row| {
                let ends = |table: &[F], k: usize| {
                    let low = row * columns + k;
                    [table[low], table[half * columns + low]]
                };
                let mut parts = Parts::ZERO;
                for (k, &weight) in weights.iter().enumerate() {
                    parts.add(weight, ends(&s, k), ends(&phi, k));
                }
                let (low, d) = (normed[row], normed[half + row].minus(normed[row]));
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
            [s, phi] = [halved(&s, r, exec)?, halved(&phi, r, exec)?];
            normed = folded(&normed, 2 * half, r);
        }
        Ok((normed[0], [s, phi]))
    }

    /// The bits of the column; the value of `s` at the end.
    fn columns(
        &mut self,
        drawn: &Drawn,
        normed: F,
        [mut s, mut phi]: [Vec<F>; 2],
    ) -> Result<F, Stopped> {
        let exec = self.prover.exec;
        let mut prefix = F::ONE;
        for &tau in drawn.tau.iter().rev() {
            let half = s.len() / 2;
            let weights = eq_table(&drawn.tau[..half.ilog2() as usize]);
            let parts = exec.try_map(half.div_ceil(CHUNK), |task| {
                let mut parts = Parts::ZERO;
                for k in task * CHUNK..half.min((task + 1) * CHUNK) {
                    parts.add(weights[k], [s[k], s[half + k]], [phi[k], phi[half + k]]);
                }
                parts
            })?;
            let parts = parts.into_iter().fold(Parts::ZERO, Parts::plus);
            let q: [F; 3] = std::array::from_fn(|k| {
                let linear = drawn.xi.times(parts.linear[k]);
                normed.times(parts.square[k]).plus(linear)
            });
            // Times eq(tau, t) = (1 - tau) + (2 tau - 1) t.
            let low = prefix.times(F::ONE.minus(tau));
            let step = prefix.times(tau.plus(tau).minus(F::ONE));
            let mixed = |a: usize, b: usize| low.times(q[a]).plus(step.times(q[b]));
            let r = self.send(vec![low.times(q[0]), mixed(2, 1), step.times(q[2])]);
            prefix = low.plus(step.times(r));
            [s, phi] = [halved(&s, r, exec)?, halved(&phi, r, exec)?];
        }
        Ok(s[0])
    }
}

/// [`folded`] of a whole table, on threads.
fn halved(table: &[F], r: F, exec: Exec<'_>) -> Result<Vec<F>, Stopped> {
    let (low, high) = table.split_at(table.len() / 2);
    let mut out = vec![F::ZERO; low.len()];
    exec.try_fill(&mut out, 4 * CHUNK, |task, out| {
        let first = task * 4 * CHUNK;
        for (k, out) in out.iter_mut().enumerate() {
            let (low, high) = (low[first + k], high[first + k]);
            *out = low.plus(r.times(high.minus(low)));
        }
    })?;
    Ok(out)
}

/// [`folded`] on threads.
fn on_threads(table: &[F], width: usize, r: F, exec: Exec<'_>) -> Result<Vec<F>, Stopped> {
    let each = CHUNK * width;
    let parts = exec.try_map(table.len().div_ceil(each), |task| {
        let rows = &table[task * each..table.len().min((task + 1) * each)];
        folded(rows, width, r)
    })?;
    Ok(parts.concat())
}

impl Lower {
    /// The coefficients of 1 and of `t^2` of a column.
    fn ends(&self, layout: &Layout, modulus: F, drawn: &Drawn, column: usize) -> [F; 2] {
        let (width, half, e) = (self.width, self.width / 2, layout.extension);
        let all = layout.rows() * width;
        let s = &self.s[column * all..(column + 1) * all];
        let w = &self.w[column * e * width..(column + 1) * e * width];
        let (mut square, mut linear, mut quotient) = ([F::ZERO; 2], [F::ZERO; 2], [F::ZERO; 2]);
        for (row, s) in s.chunks_exact(width).enumerate() {
            let phi = match row / e {
                0 => &self.u[row * width..],
                1 => &w[(row - e) * width..],
                2 => &self.u[(row - 2 * e) * width..],
                _ => &[][..],
            };
            let sum = if row / e == 2 {
                &mut quotient
            } else {
                &mut linear
            };
            for k in 0..half {
                let (low, d) = (s[k], s[half + k].minus(s[k]));
                if layout.is_normed(row) {
                    square[0] = square[0].plus(low.square());
                    square[1] = square[1].plus(d.square());
                }
                if !phi.is_empty() {
                    let dphi = phi[half + k].minus(phi[k]);
                    sum[0] = sum[0].plus(low.times(phi[k]));
                    sum[1] = sum[1].plus(d.times(dphi));
                }
            }
        }
        std::array::from_fn(|k| {
            let linear = linear[k].minus(modulus.times(quotient[k]));
            drawn.norms.times(square[k]).plus(drawn.xi.times(linear))
        })
    }
}

/// Tables whose upper index is the row, of those of single columns.
fn by_rows(
    layout: &Layout,
    modulus: F,
    tables: &Lower,
    exec: Exec<'_>,
) -> Result<[Vec<F>; 2], Stopped> {
    let (columns, e) = (1usize << layout.column_bits(), layout.extension);
    let mut out = [const { Vec::new() }; 2];
    for (which, out) in out.iter_mut().enumerate() {
        let mut table = vec![F::ZERO; columns << layout.row_bits()];
        exec.try_fill(&mut table, columns, |row, table| {
            // Where `Phi` is the same for all columns it is so beyond the last one too.
            match (which, row / e) {
                (1, 0) => table.fill(tables.u[row]),
                (1, 2) => table.fill(F::ZERO.minus(modulus.times(tables.u[row - 2 * e]))),
                _ => {}
            }
            for (column, x) in table[..layout.columns].iter_mut().enumerate() {
                match (which, row / e) {
                    (0, _) if row < layout.rows() => *x = tables.s[column * layout.rows() + row],
                    (1, 1) => *x = tables.w[column * e + row - e],
                    _ => {}
                }
            }
        })?;
        *out = table;
    }
    Ok(out)
}

/// The prover's end: the point, and the value of `s` there, which this sends.
pub(super) fn prove(
    layout: &Layout,
    relation: &Relation<'_>,
    s: &[Small],
    prover: &mut Prover<'_>,
) -> Result<(Point, F), Stopped> {
    let exec = prover.exec;
    prover.step("sumcheck: sums of columns")?;
    let drawn = Drawn::new(layout, &prover.sender.transcript);
    let (u, weights) = (drawn.u(), eq_table(&drawn.tau));
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
    // Of each task by itself: side by side they would be there twice for a moment, an eighth of a gigabyte.
    let w: Vec<Vec<F>> = parts.into_iter().map(|part| part.products).collect();
    let mut rounds = Rounds {
        prover,
        challenges: Vec::new(),
    };
    rounds.upper(square);
    rounds.prover.step("sumcheck: coefficients")?;
    let upper: Vec<F> = rounds.challenges.iter().rev().copied().collect();
    let blocks = eq_table(&upper);
    let parts = exec.try_map(tasks, |task| {
        exec.backend().run(Bind {
            layout,
            s,
            w: &w[task],
            blocks: &blocks,
            columns: ranges(task),
        })
    })?;
    drop(w);
    let (of_s, of_w): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let tables = Lower {
        width: WIDTH,
        s: of_s.concat(),
        w: of_w.concat(),
        u: bound(&u, &blocks),
    };
    let tables = rounds.lower(layout, &drawn, &weights, modulus, tables)?;
    rounds.prover.step("sumcheck: rows and columns")?;
    let all = by_rows(layout, modulus, &tables, exec)?;
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

/// The bilinear form of all columns: what the tasks have, and the rows on which `Phi` is the same for
/// all columns.
fn whole_square(parts: &[Moments], u: &[F], modulus: F, xi: F) -> Square {
    let mut out = vec![vec![F::ZERO; BLOCKS]; BLOCKS];
    let mut sums = [vec![F::ZERO; u.len()], vec![F::ZERO; u.len()]];
    for part in parts {
        for (out, row) in out.iter_mut().zip(&part.square) {
            for (out, &x) in out.iter_mut().zip(row) {
                *out = out.plus(x);
            }
        }
        for (sums, part) in sums.iter_mut().zip(&part.sums) {
            for (sum, halves) in sums.iter_mut().zip(part) {
                *sum = sum.plus(of_halves(halves));
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
