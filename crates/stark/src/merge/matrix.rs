//! Sparse matrices over the cells of a circuit, in batches of rows that vectors multiply.
//!
//! Most entries belong to variables of five cells, whose coefficients are 1, X, …, X^4 times one: they are
//! one term, a multiple of X^power · Σ_t X^t·cell_t. What terms multiply, variables and single cells, are
//! the *values* of a circuit, one list for all its matrices, in the order in which they are first needed.
//! Rows with as many terms of one power are taken together, sixteen at a time, each in a lane of its own.

use std::collections::BTreeMap;

use alphorn_exec::Backend;

use super::layout::PRODUCTS_LOG2;
use crate::circuit::Entry;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::{Dispatch, Packed, Pass};
use crate::vector::{Planes, Vector};

/// Rows of a batch that are taken together: a multiple of the lanes of each kernel.
const LANES: usize = 16;

/// X · x.
fn times_x(x: Ext) -> Ext {
    let [a, b, c, d, e] = x.0;
    Ext([e, a, b - e, c, d])
}

/// X^power · x.
fn shifted(mut x: Ext, power: u8) -> Ext {
    for _ in 0..power {
        x = times_x(x);
    }
    x
}

/// The values of a circuit: where they are among its cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    /// The first cells of the variables.
    pub(super) variables: Vec<u32>,
    /// Single cells, numbered after the variables.
    pub(super) cells: Vec<u32>,
}

/// A term of a row: which value, and its coefficient without the power.
pub(super) type Term = (u32, Fp);

/// Rows with as many terms of one power.
#[derive(Clone, Debug)]
struct Batch {
    power: u8,
    /// Terms of a row.
    terms: usize,
    /// The rows; those that fill the last lanes up have coefficients of zero.
    rows: Vec<u32>,
    /// The values' numbers, for each sixteen rows by term, then by lane.
    at: Vec<u32>,
    /// The coefficients in the same order; none if all are one.
    scales: Vec<Fp>,
}

/// A matrix over the values of a circuit.
#[derive(Clone, Debug, Default)]
pub(super) struct Matrix(Vec<Batch>);

/// Numbers values while matrices are made.
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
    /// The terms of entries, which ascend in rows.
    pub(super) fn terms(&mut self, entries: &[Entry]) -> Terms {
        let mut terms: BTreeMap<(u32, u8), Vec<(Value, Fp)>> = BTreeMap::new();
        let mut rest = entries;
        while let Some(first) = rest.first() {
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

    /// Where the values are.
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
    /// The terms of each row and power by the numbers of sources.
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
        type Shape = (u8, usize, bool);
        let mut shapes: BTreeMap<Shape, Vec<(u32, Vec<Term>)>> = BTreeMap::new();
        for (row, power, terms) in terms.numbered(sources) {
            let ones = terms.iter().all(|(_, scale)| *scale == Fp::ONE);
            let shape = (power, terms.len(), ones);
            shapes.entry(shape).or_default().push((row, terms));
        }
        let batch = |((power, terms, ones), rows): (Shape, Vec<(u32, Vec<Term>)>)| {
            let (mut at, mut scales, mut of_rows) = (Vec::new(), Vec::new(), Vec::new());
            // What fills up takes the value behind the last, which is zero.
            let filling = (sources.len() as u32, Fp::ZERO);
            for rows in rows.chunks(LANES) {
                let lane = |lane: usize| rows.get(lane);
                of_rows.extend((0..LANES).map(|l| lane(l).map_or(0, |(row, _)| *row)));
                for j in 0..terms {
                    let term = |l: usize| lane(l).map_or(filling, |(_, terms)| terms[j]);
                    at.extend((0..LANES).map(|l| term(l).0));
                    if !ones {
                        scales.extend((0..LANES).map(|l| term(l).1));
                    }
                }
            }
            Batch {
                power,
                terms,
                rows: of_rows,
                at,
                scales,
            }
        };
        Matrix(shapes.into_iter().map(batch).collect())
    }

    /// Matrix · values.
    pub(super) fn rows(&self, backend: Backend, values: &[Ext]) -> Planes {
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

    /// Rows · matrix: what each value is weighed with, and something behind the last.
    pub(super) fn weighed(&self, sources: &Sources, rows: &Planes) -> Vec<Ext> {
        let mut values = vec![Ext::ZERO; sources.len() + 1];
        for batch in &self.0 {
            for (i, rows_of) in batch.rows.chunks_exact(LANES).enumerate() {
                let weight = |lane: usize| shifted(rows.get(rows_of[lane] as usize), batch.power);
                let weights: [Ext; LANES] = std::array::from_fn(weight);
                for j in 0..batch.terms {
                    let k = (i * batch.terms + j) * LANES;
                    let at = &batch.at[k..][..LANES];
                    match batch.scales.get(k..k + LANES) {
                        Some(scales) => {
                            for ((at, weight), scale) in at.iter().zip(&weights).zip(scales) {
                                values[*at as usize] += weight.scale(*scale);
                            }
                        }
                        None => {
                            for (at, weight) in at.iter().zip(&weights) {
                                values[*at as usize] += *weight;
                            }
                        }
                    }
                }
            }
        }
        values
    }

    /// Rows · matrix · values.
    pub(super) fn at(&self, backend: Backend, rows: &Planes, values: &[Ext]) -> Ext {
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

    /// Changes one coefficient, as a prover with circuits of its own would.
    #[cfg(test)]
    pub(super) fn change_an_entry(&mut self) {
        let with_scales = self.0.iter_mut().find(|batch| !batch.scales.is_empty());
        with_scales.expect("coefficients").scales[0] += Fp::ONE;
    }
}

impl Sources {
    fn len(&self) -> usize {
        self.variables.len() + self.cells.len()
    }

    /// The values where cells have weights, and a zero behind them.
    pub(super) fn values(&self, backend: Backend, cells: &Planes) -> Vec<Ext> {
        let mut list = backend.run(Variables {
            first: &self.variables,
            cells,
        });
        list.extend(self.cells.iter().map(|cell| cells.get(*cell as usize)));
        list.push(Ext::ZERO);
        list
    }

    /// The values of a witness, and a zero behind them.
    pub(super) fn values_of_base(&self, cells: &[Fp]) -> Vec<Ext> {
        let variables = self.variables.iter().map(|first| {
            let five = &cells[*first as usize..][..DEGREE];
            Ext(std::array::from_fn(|t| five[t]))
        });
        let single = self
            .cells
            .iter()
            .map(|cell| Ext::from(cells[*cell as usize]));
        variables.chain(single).chain([Ext::ZERO]).collect()
    }

    /// Adds what weights of values come to for cells.
    pub(super) fn spread(&self, values: &Planes, out: &mut Planes) {
        for (i, first) in self.variables.iter().enumerate() {
            let mut value = values.get(i);
            for cell in *first as usize..*first as usize + DEGREE {
                out.set(cell, out.get(cell) + value);
                value = times_x(value);
            }
        }
        for (i, cell) in self.cells.iter().enumerate() {
            let cell = *cell as usize;
            out.set(cell, out.get(cell) + values.get(self.variables.len() + i));
        }
    }
}

/// Elements in the lanes of a vector: coefficient k of lane l at k, l.
type Buffer = [[Fp; LANES]; DEGREE];

#[inline(always)]
fn load<V: Packed>(buffer: &Buffer) -> Vector<V> {
    let mut out = Vector::<V>::zero();
    for (out, lanes) in out.0.iter_mut().zip(buffer) {
        *out = V::load(lanes);
    }
    out
}

/// The elements of a list at these places.
#[inline(always)]
fn gather<V: Packed>(buffer: &mut Buffer, list: &[Ext], at: &[u32]) -> Vector<V> {
    for (lane, at) in at.iter().enumerate() {
        let x = &list[*at as usize];
        for (buffer, x) in buffer.iter_mut().zip(&x.0) {
            buffer[lane] = *x;
        }
    }
    load(buffer)
}

/// The elements of planes at places with an offset.
#[inline(always)]
fn gather_planes<V: Packed>(
    buffer: &mut Buffer,
    planes: &Planes,
    at: &[u32],
    offset: usize,
) -> Vector<V> {
    let all = planes.coefficients(0..planes.len());
    for (buffer, plane) in buffer.iter_mut().zip(&all) {
        for (x, at) in buffer.iter_mut().zip(at) {
            *x = plane[*at as usize + offset];
        }
    }
    load(buffer)
}

impl Batch {
    /// The sums of the terms of some of sixteen rows, from a lane on.
    #[inline(always)]
    fn sums<V: Packed>(
        &self,
        buffer: &mut Buffer,
        values: &[Ext],
        (sixteen, lane): (usize, usize),
    ) -> Vector<V> {
        let mut sum = Vector::<V>::zero();
        for j in 0..self.terms {
            let k = (sixteen * self.terms + j) * LANES + lane;
            let mut term = gather::<V>(buffer, values, &self.at[k..][..V::LANES]);
            if !self.scales.is_empty() {
                term = term.scale(V::load(&self.scales[k..]));
            }
            sum = sum.add(term);
        }
        sum
    }
}

/// Σ of rows of a batch, weighed, without its power.
struct At<'a> {
    batch: &'a Batch,
    values: &'a [Ext],
    rows: &'a Planes,
}

impl Pass for At<'_> {
    type Output = Ext;

    #[inline(always)]
    fn run<V: Packed>(self) -> Ext {
        let mut buffer = [[Fp::ZERO; LANES]; DEGREE];
        let mut total = Vector::<V>::zero();
        for x in (0..self.batch.rows.len()).step_by(V::LANES) {
            let place = (x / LANES, x % LANES);
            let sum = self.batch.sums::<V>(&mut buffer, self.values, place);
            let rows = &self.batch.rows[x..][..V::LANES];
            let weight = gather_planes::<V>(&mut buffer, self.rows, rows, 0);
            total = total.add(sum.mul(weight));
        }
        total.total()
    }
}

/// Adds the rows of a batch.
struct Rows<'a> {
    batch: &'a Batch,
    values: &'a [Ext],
    out: &'a mut Planes,
}

impl Pass for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        let mut buffer = [[Fp::ZERO; LANES]; DEGREE];
        for x in (0..self.batch.rows.len()).step_by(V::LANES) {
            let place = (x / LANES, x % LANES);
            let sum = self.batch.sums::<V>(&mut buffer, self.values, place);
            for (plane, lanes) in sum.0.iter().zip(&mut buffer) {
                plane.store(lanes);
            }
            for (lane, row) in self.batch.rows[x..][..V::LANES].iter().enumerate() {
                let sum = Ext(std::array::from_fn(|k| buffer[k][lane]));
                let row = *row as usize;
                let sum = shifted(sum, self.batch.power);
                self.out.set(row, self.out.get(row) + sum);
            }
        }
    }
}

/// The values of variables with these first cells.
struct Variables<'a> {
    first: &'a [u32],
    cells: &'a Planes,
}

impl Pass for Variables<'_> {
    type Output = Vec<Ext>;

    #[inline(always)]
    fn run<V: Packed>(self) -> Vec<Ext> {
        let mut buffer = [[Fp::ZERO; LANES]; DEGREE];
        let mut values = Vec::with_capacity(self.first.len());
        for first in self.first.chunks(V::LANES) {
            let mut sum = Vector::<V>::zero();
            for t in (0..DEGREE).rev() {
                let cells = gather_planes::<V>(&mut buffer, self.cells, first, t);
                sum = sum.times_x().add(cells);
            }
            for (plane, lanes) in sum.0.iter().zip(&mut buffer) {
                plane.store(lanes);
            }
            let lane = |lane: usize| Ext(std::array::from_fn(|k| buffer[k][lane]));
            values.extend((0..first.len()).map(lane));
        }
        values
    }
}
