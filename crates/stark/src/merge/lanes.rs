//! Matrices of the parts of a circuit that are in lanes: each coefficient of the first lane stands for one of each
//! lane.
//!
//! The values of the first lane are numbered, and each is processed for all lanes at once: as a vector with one
//! element per lane, padded with zeros, of a value that each lane has or that all share. Rows and cells of
//! neighbouring lanes are neighbours, so nothing is gathered. Where only a sum over all rows is needed, it is
//! computed for one vector of lanes after the other, whose values stay in a near cache.

use alphorn_exec::Backend;

use super::cells::CellWeights;
use super::matrix::{Numbering, Sign, Terms};
use super::sources::Sources;
use crate::circuit::{Entry, IN_LANE, Section, place};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::{Dispatch, Packed, Pass};
use crate::vector::{Planes, Vector};

/// Lanes are padded to a multiple of this, which is a multiple of the vector length of each kernel.
const WIDTH: usize = 16;

/// A value of a lane.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A variable, by the first of its cells in the first lane.
    Variable(usize),
    /// A cell in the first lane.
    Cell(usize),
    /// A variable that all lanes share, by its first cell.
    SharedVariable(usize),
    /// A cell that all lanes share.
    SharedCell(usize),
}

/// A row of the first lane.
#[derive(Clone, Copy, Debug)]
struct Row {
    row: u32,
    power: u8,
    /// Number of terms whose coefficients, without the power, are one, are minus one, or are listed.
    terms: [u32; 3],
}

/// The rows of a matrix.
#[derive(Clone, Debug, Default)]
struct Rows {
    /// Ascending in rows, then in powers.
    rows: Vec<Row>,
    /// The numbers of the values of all terms.
    values: Vec<u32>,
    scales: Vec<Fp>,
}

/// The terms of a row: the numbers of values grouped by sign, and the listed coefficients.
#[derive(Clone, Copy)]
struct RowTerms<'a> {
    values: [&'a [u32]; 3],
    scales: &'a [Fp],
}

/// The matrices of a section.
#[derive(Clone, Debug)]
pub(super) struct LaneMatrices<const M: usize> {
    lanes: usize,
    sources: Vec<Source>,
    all: [Rows; M],
}

impl Source {
    /// Number of cells to which its coefficients 1, X, … belong, in the first lane or shared.
    fn coefficients(self) -> usize {
        match self {
            Source::Variable(_) | Source::SharedVariable(_) => DEGREE,
            Source::Cell(_) | Source::SharedCell(_) => 1,
        }
    }
}

impl<const M: usize> LaneMatrices<M> {
    /// The matrices of a section, with its entries.
    pub(super) fn new(
        sections: &[Section],
        section: &Section,
        entries: [&[Entry]; M],
    ) -> LaneMatrices<M> {
        let mut numbering = Numbering::default();
        let terms = entries.map(|entries| numbering.terms(entries));
        let numbered = numbering.sources();
        let at = |cell: u32| place(sections, cell) as usize;
        let variables = numbered.variables.iter().map(|cell| match cell & IN_LANE {
            0 => Source::SharedVariable(at(*cell)),
            _ => Source::Variable(at(*cell)),
        });
        let cells = numbered.cells.iter().map(|cell| match cell & IN_LANE {
            0 => Source::SharedCell(at(*cell)),
            _ => Source::Cell(at(*cell)),
        });
        LaneMatrices {
            lanes: section.lanes,
            sources: variables.chain(cells).collect(),
            all: terms.map(|terms| Rows::new(&terms, &numbered)),
        }
    }

    /// Its number of lanes.
    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    fn width(&self) -> usize {
        self.lanes.next_multiple_of(WIDTH)
    }

    /// The values, with weights as the contents of cells.
    pub(super) fn values(&self, backend: Backend, cells: &CellWeights) -> Planes {
        let mut values = backend.run(Values {
            of: self,
            cells: Cells::Weights(cells),
        });
        self.clear(&mut values);
        values
    }

    /// The values of a witness.
    pub(super) fn values_of_base(&self, backend: Backend, cells: &[Fp]) -> Planes {
        let mut values = backend.run(Values {
            of: self,
            cells: Cells::Witness(cells),
        });
        self.clear(&mut values);
        values
    }

    /// Zeroes the lanes that are padding.
    fn clear(&self, values: &mut Planes) {
        for value in 0..self.sources.len() {
            // They hold the cells that follow, or what all lanes share. `add_rows` writes whole vectors, and would
            // add them to the rows that lie after those of the last lane.
            for lane in self.lanes..self.width() {
                values.set(value * self.width() + lane, Ext::ZERO);
            }
        }
    }

    /// Adds matrix · values.
    pub(super) fn add_rows(
        &self,
        backend: Backend,
        matrix: usize,
        values: &Planes,
        out: &mut Planes,
    ) {
        let (rows, width) = (&self.all[matrix], self.width());
        backend.run(AddRows {
            rows,
            width,
            values,
            out,
        });
    }

    /// Σ over matrices with factors of rows · matrix · values, given weights of cells and rows.
    pub(super) fn at(
        &self,
        backend: Backend,
        factors: &[Ext; M],
        weights: &Planes,
        cells: &CellWeights,
    ) -> Ext {
        let totals = backend.run(At {
            of: self,
            weights,
            cells,
        });
        let terms = factors.iter().zip(totals);
        terms.map(|(factor, total)| *factor * total).sum()
    }

    /// Rows · matrix: the weight of each value.
    pub(super) fn weighed(&self, backend: Backend, matrix: usize, weights: &Planes) -> Planes {
        let (rows, width) = (&self.all[matrix], self.width());
        let mut values = Planes::zero(self.sources.len() * width);
        backend.run(AddValues {
            rows,
            width,
            weights,
            values: &mut values,
        });
        // Padding took the weights of the rows that lie after these, and `spread` would add them to other cells.
        self.clear(&mut values);
        values
    }

    /// Distributes weights of values to their cells.
    pub(super) fn spread(&self, backend: Backend, values: &Planes, out: &mut Planes) {
        backend.run(Spread {
            of: self,
            values,
            out,
        });
    }
}

impl Rows {
    /// The rows of terms, with the numbers of sources.
    fn new(terms: &Terms, sources: &Sources) -> Rows {
        let mut all = Rows::default();
        for (row, power, mut terms) in terms.numbered(sources) {
            // By sign, so that a row is three runs of terms, and only the last needs coefficients.
            terms.sort_by_key(|(_, scale)| Sign::of(*scale));
            let of_sign = |sign| terms.iter().filter(|t| Sign::of(t.1) == sign).count() as u32;
            all.rows.push(Row {
                row,
                power,
                terms: [Sign::Plus, Sign::Minus, Sign::Any].map(of_sign),
            });
            all.values.extend(terms.iter().map(|(value, _)| *value));
            let listed = terms.iter().filter(|t| Sign::of(t.1) == Sign::Any);
            all.scales.extend(listed.map(|(_, scale)| *scale));
        }
        all
    }

    /// The rows with their terms.
    #[inline(always)]
    fn each(&self) -> impl Iterator<Item = (&Row, RowTerms<'_>)> {
        let (mut values, mut scales) = (&self.values[..], &self.scales[..]);
        self.rows.iter().map(move |row| {
            let [plus, minus, any] = row.terms.map(|terms| terms as usize);
            let (of_plus, rest) = values.split_at(plus);
            let (of_minus, rest) = rest.split_at(minus);
            let (of_any, rest) = rest.split_at(any);
            values = rest;
            let (own, rest) = scales.split_at(any);
            scales = rest;
            let terms = RowTerms {
                values: [of_plus, of_minus, of_any],
                scales: own,
            };
            (row, terms)
        })
    }
}

impl RowTerms<'_> {
    /// The sum of values, each of which has `width`, in some lanes.
    #[inline(always)]
    fn sum<V: Packed>(&self, values: &Planes, width: usize, lane: usize) -> Vector<V> {
        let mut sum = Vector::<V>::zero();
        let [plus, minus, any] = self.values;
        for value in plus {
            sum = sum.add(values.load::<V>(*value as usize * width + lane));
        }
        for value in minus {
            sum = sum.sub(values.load::<V>(*value as usize * width + lane));
        }
        for (value, scale) in any.iter().zip(self.scales) {
            let term = values.load::<V>(*value as usize * width + lane);
            sum = sum.add(term.scale(V::splat(*scale)));
        }
        sum
    }
}

impl Row {
    /// X^power · x.
    #[inline(always)]
    fn shifted<V: Packed>(&self, mut x: Vector<V>) -> Vector<V> {
        for _ in 0..self.power {
            x = x.times_x();
        }
        x
    }
}

/// The contents of cells.
#[derive(Clone, Copy)]
enum Cells<'a> {
    Weights(&'a CellWeights),
    Witness(&'a [Fp]),
}

impl Cells<'_> {
    /// Σ_t X^t·(cell first + t) over some cells.
    fn get(self, first: usize, count: usize) -> Ext {
        match self {
            Cells::Weights(weights) => weights.get(first, count),
            Cells::Witness(cells) => {
                let cells = cells[first..first + count].iter().rev();
                cells.fold(Ext::ZERO, |sum, x| sum * Ext::X + Ext::from(*x))
            }
        }
    }

    /// The same over cells with a stride, for successive first cells.
    #[inline(always)]
    fn load<V: Packed>(
        self,
        table: Option<&Planes>,
        first: usize,
        count: usize,
        distance: usize,
    ) -> Vector<V> {
        match self {
            Cells::Weights(weights) => weights.load(table, first, count, distance),
            Cells::Witness(cells) => {
                let mut out = Vector::<V>::zero();
                for (t, out) in out.0.iter_mut().enumerate().take(count) {
                    *out = V::load(&cells[first + t * distance..]);
                }
                out
            }
        }
    }
}

impl<const M: usize> LaneMatrices<M> {
    /// The values that all lanes share, in all lanes of the values of a width.
    #[inline(always)]
    fn shared<V: Packed>(&self, cells: Cells<'_>, width: usize, out: &mut Planes) {
        for (i, source) in self.sources.iter().enumerate() {
            if let Source::SharedVariable(first) | Source::SharedCell(first) = *source {
                let value = Vector::<V>::splat(cells.get(first, source.coefficients()));
                for x in (0..width).step_by(V::LANES) {
                    out.store(i * width + x, value);
                }
            }
        }
    }

    /// The values that each lane has, in lanes from the given one on: value i at `width`·i + `at`.
    #[inline(always)]
    fn own<V: Packed>(
        &self,
        cells: Cells<'_>,
        lane: usize,
        width: usize,
        at: usize,
        out: &mut Planes,
    ) {
        let table = match cells {
            Cells::Weights(weights) => weights.table(self.lanes),
            Cells::Witness(_) => None,
        };
        for (i, source) in self.sources.iter().enumerate() {
            if let Source::Variable(first) | Source::Cell(first) = *source {
                let count = source.coefficients();
                // Cell c of lane l is at first + c·n + l, so the five cells of a variable are as far apart as there
                // are lanes.
                let values = cells.load::<V>(table, first + lane, count, self.lanes);
                out.store(i * width + at, values);
            }
        }
    }
}

/// All values.
struct Values<'a, const M: usize> {
    of: &'a LaneMatrices<M>,
    cells: Cells<'a>,
}

impl<const M: usize> Pass for Values<'_, M> {
    type Output = Planes;

    #[inline(always)]
    fn run<V: Packed>(self) -> Planes {
        let width = self.of.width();
        let mut out = Planes::zero(self.of.sources.len() * width);
        self.of.shared::<V>(self.cells, width, &mut out);
        for x in (0..width).step_by(V::LANES) {
            self.of.own::<V>(self.cells, x, width, x, &mut out);
        }
        out
    }
}

/// Adds rows · values.
struct AddRows<'a> {
    rows: &'a Rows,
    width: usize,
    values: &'a Planes,
    out: &'a mut Planes,
}

impl Pass for AddRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        for (row, terms) in self.rows.each() {
            for x in (0..self.width).step_by(V::LANES) {
                let at = row.row as usize + x;
                let sum = row.shifted(terms.sum::<V>(self.values, self.width, x));
                self.out.store(at, self.out.load::<V>(at).add(sum));
            }
        }
    }
}

/// Σ of weighted rows · values, for each matrix.
struct At<'a, const M: usize> {
    of: &'a LaneMatrices<M>,
    weights: &'a Planes,
    cells: &'a CellWeights,
}

impl<const M: usize> Pass for At<'_, M> {
    type Output = [Ext; M];

    #[inline(always)]
    fn run<V: Packed>(self) -> [Ext; M] {
        let lanes = self.of.lanes;
        let cells = Cells::Weights(self.cells);
        let mut totals = [Ext::ZERO; M];
        let mut values = Planes::zero(self.of.sources.len() * V::LANES);
        self.of.shared::<V>(cells, V::LANES, &mut values);
        for x in (0..lanes).step_by(V::LANES) {
            self.of.own::<V>(cells, x, V::LANES, 0, &mut values);
            for (rows, out) in self.of.all.iter().zip(&mut totals) {
                let mut total = Vector::<V>::zero();
                let mut sum = Vector::<V>::zero();
                let mut next = rows.rows.iter().skip(1).map(|row| row.row);
                for (row, terms) in rows.each() {
                    let of_power = row.shifted(terms.sum::<V>(&values, V::LANES, 0));
                    sum = sum.add(of_power);
                    // The powers of a row come one after the other.
                    if next.next() != Some(row.row) {
                        let weight = self.weights.load::<V>(row.row as usize + x);
                        total = total.add(sum.mul(weight));
                        sum = Vector::<V>::zero();
                    }
                }
                // The values here are not cleared, so only the lanes that exist are summed.
                *out += total.total_of(lanes - x);
            }
        }
        totals
    }
}

/// Adds the weights that rows give to values.
struct AddValues<'a> {
    rows: &'a Rows,
    width: usize,
    weights: &'a Planes,
    values: &'a mut Planes,
}

impl Pass for AddValues<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        for (row, terms) in self.rows.each() {
            let [plus, minus, any] = terms.values;
            for x in (0..self.width).step_by(V::LANES) {
                let weight = row.shifted(self.weights.load::<V>(row.row as usize + x));
                for value in plus {
                    let at = *value as usize * self.width + x;
                    self.values.store(at, self.values.load::<V>(at).add(weight));
                }
                for value in minus {
                    let at = *value as usize * self.width + x;
                    self.values.store(at, self.values.load::<V>(at).sub(weight));
                }
                for (value, scale) in any.iter().zip(terms.scales) {
                    let at = *value as usize * self.width + x;
                    let term = weight.scale(V::splat(*scale));
                    self.values.store(at, self.values.load::<V>(at).add(term));
                }
            }
        }
    }
}

/// Adds weights of values to those of cells.
struct Spread<'a, const M: usize> {
    of: &'a LaneMatrices<M>,
    values: &'a Planes,
    out: &'a mut Planes,
}

impl<const M: usize> Pass for Spread<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        let (lanes, width) = (self.of.lanes, self.of.width());
        for (i, source) in self.of.sources.iter().enumerate() {
            let count = source.coefficients();
            let mut total = Vector::<V>::zero();
            for x in (0..width).step_by(V::LANES) {
                let mut value = self.values.load::<V>(i * width + x);
                total = total.add(value);
                let (Source::Variable(first) | Source::Cell(first)) = *source else {
                    continue;
                };
                for t in 0..count {
                    // The weight of coefficient t of a variable is X^t times that of the variable. Padding lanes
                    // hold zeros and change nothing.
                    let at = first + t * lanes + x;
                    self.out.store(at, self.out.load::<V>(at).add(value));
                    value = value.times_x();
                }
            }
            if let Source::SharedVariable(first) | Source::SharedCell(first) = *source {
                let mut value = total.total();
                for cell in first..first + count {
                    self.out.set(cell, self.out.get(cell) + value);
                    value *= Ext::X;
                }
            }
        }
    }
}
