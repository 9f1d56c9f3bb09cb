//! Sparse matrices over the cells of a circuit, in batches of rows that are multiplied with vectors.
//!
//! Most entries belong to variables of five cells, whose coefficients are 1, X, …, X^4 times one factor. Such
//! entries form one term, a multiple of X^power · Σ_t X^t·cell_t. Terms multiply variables and single cells, the
//! *values* of a circuit. These are one list for all its matrices, in the order in which they are first needed.
//! Rows with the same number of terms of one power are taken together, sixteen at a time, each in its own lane.
//! Most coefficients are one or minus one, and terms are ordered such that sixteen rows add or subtract alike.
//! Most groups of sixteen rows are neighbours, as are many of their values.

use std::collections::BTreeMap;

use alphorn_exec::Backend;

use super::layout::PRODUCTS_LOG2;
use super::sources::{Buffer, LANES, Sources, load, times_x};
use crate::circuit::Entry;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::{Dispatch, Packed, Pass};
use crate::vector::{Planes, Vector};

/// X^power · x.
fn shifted(mut x: Ext, power: u8) -> Ext {
    for _ in 0..power {
        x = times_x(x);
    }
    x
}

/// A term of a row: the number of its value, and its coefficient without the power.
pub(super) type Term = (u32, Fp);

/// The common form of a term's coefficients in sixteen rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sign {
    /// All coefficients are one.
    Plus,
    /// All are minus one.
    Minus,
    /// They are listed.
    Any,
}

impl Sign {
    /// The sign of a coefficient.
    pub(super) fn of(scale: Fp) -> Sign {
        match scale {
            Fp::ONE => Sign::Plus,
            scale if scale == -Fp::ONE => Sign::Minus,
            _ => Sign::Any,
        }
    }
}

/// Rows with the same number of terms of one power.
#[derive(Clone, Debug)]
struct Batch {
    power: u8,
    /// Number of terms in a row.
    terms: usize,
    /// The rows; padding in the last lanes has a value of zero.
    rows: Vec<u32>,
    /// For each sixteen rows, whether they are neighbours.
    joined: Vec<bool>,
    /// The values' numbers, for each sixteen rows by term, then by lane.
    at: Vec<u32>,
    /// For each sixteen rows and each term, the form of the coefficients, and whether the values are neighbours.
    kinds: Vec<(Sign, bool)>,
    /// The coefficients that are listed, in the same order.
    scales: Vec<Fp>,
}

/// Whether numbers are successive.
fn successive(numbers: &[u32]) -> bool {
    numbers
        .windows(2)
        .all(|pair| pair[1] == pair[0].wrapping_add(1))
}

/// A matrix over the values of a circuit.
#[derive(Clone, Debug, Default)]
pub(super) struct Matrix(Vec<Batch>);

/// Numbers values while matrices are built.
#[derive(Default)]
pub(super) struct Numbering {
    variables: BTreeMap<u32, u32>,
    cells: BTreeMap<u32, u32>,
}

/// A value before all are numbered.
#[derive(Clone, Copy)]
enum Value {
    Variable(u32),
    Cell(u32),
}

/// Terms of a matrix by row and power.
pub(super) struct Terms(BTreeMap<(u32, u8), Vec<(Value, Fp)>>);

impl Numbering {
    /// The terms of entries, which ascend by row.
    pub(super) fn terms(&mut self, entries: &[Entry]) -> Terms {
        let mut terms: BTreeMap<(u32, u8), Vec<(Value, Fp)>> = BTreeMap::new();
        let mut rest = entries;
        while let Some(first) = rest.first() {
            // The recorder writes a variable of F as five entries with the factors f, X·f, …, X^4·f. Recognised
            // here, they become a single term, with a fifth of the products.
            let of_variable = rest.get(..DEGREE).filter(|five| {
                let mut factor = first.factor;
                five.iter().enumerate().all(|(t, entry)| {
                    let same = entry.row == first.row && entry.cell == first.cell + t as u32;
                    let fits = same && entry.factor == factor;
                    factor = times_x(factor);
                    fits
                })
            });
            let numbers = match of_variable {
                Some(_) => &mut self.variables,
                None => &mut self.cells,
            };
            let next = numbers.len() as u32;
            let number = *numbers.entry(first.cell).or_insert(next);
            let (value, used) = match of_variable {
                Some(_) => (Value::Variable(number), DEGREE),
                None => (Value::Cell(number), 1),
            };
            // A factor of F splits into base coefficients: the terms of a row are then scaled by base elements, and
            // X^power is applied to their sum.
            for (power, scale) in first.factor.0.into_iter().enumerate() {
                if scale != Fp::ZERO {
                    let of_row = terms.entry((first.row, power as u8)).or_default();
                    of_row.push((value, scale));
                }
            }
            rest = &rest[used..];
        }
        Terms(terms)
    }

    /// The locations of the values.
    pub(super) fn sources(&self) -> Sources {
        let by_number = |numbers: &BTreeMap<u32, u32>| {
            let mut cells = vec![0; numbers.len()];
            for (cell, number) in numbers {
                cells[*number as usize] = *cell;
            }
            cells
        };
        Sources {
            variables: by_number(&self.variables),
            cells: by_number(&self.cells),
        }
    }
}

impl Terms {
    /// The terms of each row and power, with sources by number.
    pub(super) fn numbered(&self, sources: &Sources) -> impl Iterator<Item = (u32, u8, Vec<Term>)> {
        self.0.iter().map(|((row, power), terms)| {
            let number = |value: Value| match value {
                Value::Variable(number) => number,
                Value::Cell(number) => sources.variables.len() as u32 + number,
            };
            let terms = terms.iter().map(|(v, s)| (number(*v), *s));
            (*row, *power, terms.collect())
        })
    }
}

impl Matrix {
    /// The matrix of terms over sources.
    pub(super) fn new(terms: &Terms, sources: &Sources) -> Matrix {
        type Shape = (u8, usize);
        type Rows = Vec<(u32, Vec<Term>)>;
        let mut shapes: BTreeMap<Shape, Rows> = BTreeMap::new();
        for (row, power, mut terms) in terms.numbered(sources) {
            terms.sort_by_key(|(_, scale)| Sign::of(*scale));
            let shape = (power, terms.len());
            shapes.entry(shape).or_default().push((row, terms));
        }
        let batch = |((power, terms), mut rows): (Shape, Rows)| {
            let signs = |terms: &[Term]| terms.iter().map(|t| Sign::of(t.1)).collect::<Vec<Sign>>();
            // Rows of the same signs together: sixteen that add and subtract alike need no
            // coefficient at all. Then by number, so that most groups of sixteen are neighbours
            // and are loaded, not gathered.
            rows.sort_by_cached_key(|(row, terms)| (signs(terms), *row));
            let mut batch = Batch {
                power,
                terms,
                rows: Vec::new(),
                joined: Vec::new(),
                at: Vec::new(),
                kinds: Vec::new(),
                scales: Vec::new(),
            };
            // Padding takes the value after the last one, which is zero. A padding lane must read something, and
            // must not change row 0, to which it is written, so it reads a zero.
            let filling = (sources.len() as u32, Fp::ZERO);
            for rows in rows.chunks(LANES) {
                let of_rows: [u32; LANES] =
                    std::array::from_fn(|l| rows.get(l).map_or(0, |(row, _)| *row));
                batch.joined.push(successive(&of_rows));
                batch.rows.extend(of_rows);
                for j in 0..terms {
                    let term = |l: usize| rows.get(l).map_or(filling, |(_, terms)| terms[j]);
                    let of_rows: [Term; LANES] = std::array::from_fn(term);
                    let at = of_rows.map(|(number, _)| number);
                    let sign = Sign::of(of_rows[0].1);
                    let alike = rows.iter().all(|(_, terms)| Sign::of(terms[j].1) == sign);
                    let sign = if alike { sign } else { Sign::Any };
                    if sign == Sign::Any {
                        batch.scales.extend(of_rows.map(|(_, scale)| scale));
                    }
                    batch.kinds.push((sign, successive(&at)));
                    batch.at.extend(at);
                }
            }
            batch
        };
        Matrix(shapes.into_iter().map(batch).collect())
    }

    /// Matrix · values.
    pub(super) fn rows(&self, backend: Backend, values: &Planes) -> Planes {
        let mut out = Planes::zero(1 << PRODUCTS_LOG2);
        for batch in &self.0 {
            backend.run(Rows {
                batch,
                values,
                out: &mut out,
            });
        }
        out
    }

    /// Rows · matrix: the weight of each value, with unused elements after the last.
    pub(super) fn weighed(&self, sources: &Sources, rows: &Planes) -> Vec<Ext> {
        // The last element takes what padding lanes add: they carry the weight of row 0, which is not zero.
        let mut values = vec![Ext::ZERO; sources.len() + 1];
        for batch in &self.0 {
            let mut scales = batch.scales.chunks_exact(LANES);
            let mut terms = batch.at.chunks_exact(LANES).zip(&batch.kinds);
            for rows_of in batch.rows.chunks_exact(LANES) {
                let weight = |lane: usize| shifted(rows.get(rows_of[lane] as usize), batch.power);
                let weights: [Ext; LANES] = std::array::from_fn(weight);
                for (at, (sign, _)) in terms.by_ref().take(batch.terms) {
                    let pairs = at.iter().zip(&weights);
                    match sign {
                        Sign::Plus => pairs.for_each(|(at, w)| values[*at as usize] += *w),
                        Sign::Minus => pairs.for_each(|(at, w)| values[*at as usize] -= *w),
                        Sign::Any => {
                            let scales = scales.next().unwrap_or_default();
                            for ((at, weight), scale) in pairs.zip(scales) {
                                values[*at as usize] += weight.scale(*scale);
                            }
                        }
                    }
                }
            }
        }
        values
    }

    /// Rows · matrix · values.
    pub(super) fn at(&self, backend: Backend, rows: &Planes, values: &Planes) -> Ext {
        let of_batch = |batch: &Batch| {
            let sum = backend.run(At {
                batch,
                values,
                rows,
            });
            shifted(sum, batch.power)
        };
        self.0.iter().map(of_batch).sum()
    }

    /// Changes one coefficient, like a prover with circuits of its own.
    #[cfg(test)]
    pub(super) fn change_an_entry(&mut self) {
        let with_scales = self.0.iter_mut().find(|batch| !batch.scales.is_empty());
        with_scales.expect("coefficients").scales[0] += Fp::ONE;
    }
}

/// The elements of planes at the given positions.
#[inline(always)]
fn gather_planes<V: Packed>(buffer: &mut Buffer, planes: &Planes, at: &[u32]) -> Vector<V> {
    let all = planes.coefficients(0..planes.len());
    for (buffer, plane) in buffer.iter_mut().zip(&all) {
        for (x, at) in buffer.iter_mut().zip(at) {
            *x = plane[*at as usize];
        }
    }
    load(buffer)
}

/// Sixteen rows of a batch.
struct Sixteen<'a> {
    rows: &'a [u32],
    joined: bool,
    at: &'a [u32],
    kinds: &'a [(Sign, bool)],
    scales: &'a [Fp],
}

impl Batch {
    /// Its rows, sixteen by sixteen.
    #[inline(always)]
    fn sixteens(&self) -> impl Iterator<Item = Sixteen<'_>> {
        let mut scales = &self.scales[..];
        let rows = self.rows.chunks_exact(LANES).zip(&self.joined);
        rows.enumerate().map(move |(i, (rows, joined))| {
            let kinds = &self.kinds[i * self.terms..][..self.terms];
            let listed = kinds.iter().filter(|(sign, _)| *sign == Sign::Any).count();
            let (own, rest) = scales.split_at(listed * LANES);
            scales = rest;
            Sixteen {
                rows,
                joined: *joined,
                at: &self.at[i * self.terms * LANES..][..self.terms * LANES],
                kinds,
                scales: own,
            }
        })
    }
}

impl Sixteen<'_> {
    /// The sums of the rows from a lane on, without the power.
    #[inline(always)]
    fn sums<V: Packed>(&self, buffer: &mut Buffer, values: &Planes, lane: usize) -> Vector<V> {
        let mut sum = Vector::<V>::zero();
        let mut scales = lane;
        for (j, (sign, joined)) in self.kinds.iter().enumerate() {
            let at = &self.at[j * LANES + lane..][..V::LANES];
            let term = match joined {
                true => values.load::<V>(at[0] as usize),
                false => gather_planes::<V>(buffer, values, at),
            };
            sum = match sign {
                Sign::Plus => sum.add(term),
                Sign::Minus => sum.sub(term),
                Sign::Any => {
                    let scale = V::load(&self.scales[scales..]);
                    scales += LANES;
                    sum.add(term.scale(scale))
                }
            };
        }
        sum
    }

    /// The elements of planes that belong to the rows from a lane on.
    #[inline(always)]
    fn of_rows<V: Packed>(&self, buffer: &mut Buffer, planes: &Planes, lane: usize) -> Vector<V> {
        let rows = &self.rows[lane..][..V::LANES];
        match self.joined {
            true => planes.load(rows[0] as usize),
            false => gather_planes(buffer, planes, rows),
        }
    }
}

/// Σ of weighted rows of a batch, without its power.
struct At<'a> {
    batch: &'a Batch,
    values: &'a Planes,
    rows: &'a Planes,
}

impl Pass for At<'_> {
    type Output = Ext;

    #[inline(always)]
    fn run<V: Packed>(self) -> Ext {
        let mut buffer = [[Fp::ZERO; LANES]; DEGREE];
        let mut total = Vector::<V>::zero();
        for sixteen in self.batch.sixteens() {
            for lane in (0..LANES).step_by(V::LANES) {
                let sum = sixteen.sums::<V>(&mut buffer, self.values, lane);
                let weight = sixteen.of_rows::<V>(&mut buffer, self.rows, lane);
                total = total.add(sum.mul(weight));
            }
        }
        total.total()
    }
}

/// Adds the rows of a batch.
struct Rows<'a> {
    batch: &'a Batch,
    values: &'a Planes,
    out: &'a mut Planes,
}

impl Pass for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        let mut buffer = [[Fp::ZERO; LANES]; DEGREE];
        for sixteen in self.batch.sixteens() {
            for lane in (0..LANES).step_by(V::LANES) {
                let mut sum = sixteen.sums::<V>(&mut buffer, self.values, lane);
                for _ in 0..self.batch.power {
                    sum = sum.times_x();
                }
                if sixteen.joined {
                    let at = sixteen.rows[lane] as usize;
                    self.out.store(at, self.out.load::<V>(at).add(sum));
                    continue;
                }
                for (plane, lanes) in sum.0.iter().zip(&mut buffer) {
                    plane.store(lanes);
                }
                for (l, row) in sixteen.rows[lane..][..V::LANES].iter().enumerate() {
                    let sum = Ext(std::array::from_fn(|k| buffer[k][l]));
                    // Rows of several powers, and padding of row 0, may write to the same row, so the sum is added
                    // and not stored.
                    let row = *row as usize;
                    self.out.set(row, self.out.get(row) + sum);
                }
            }
        }
    }
}
