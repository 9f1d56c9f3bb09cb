//! Matrices of what a circuit does in lanes: each coefficient of the first lane stands for one of each lane.
//!
//! The values of the first lane are numbered, and each is taken for all lanes at once: a vector of as many
//! elements as there are lanes, filled up with zeros, of a value that each lane has or that all share. Rows and
//! cells of neighbouring lanes are neighbours, so nothing is gathered.

use alphorn_exec::Backend;

use super::matrix::{Numbering, Sources, Terms};
use crate::circuit::{Entry, IN_LANE, Section, place};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::{Dispatch, Packed, Pass};
use crate::vector::{Planes, Vector};

/// Lanes are filled up to a multiple of this: of the elements of a vector of each kernel.
const WIDTH: usize = 16;

/// A value of a lane.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A variable: the first of its cells in the first lane.
    Variable(usize),
    /// A cell in the first lane.
    Cell(usize),
    /// A variable that all lanes share: its first cell.
    SharedVariable(usize),
    /// A cell that all lanes share.
    SharedCell(usize),
}

/// A row of the first lane.
#[derive(Clone, Debug)]
struct Row {
    row: u32,
    power: u8,
    /// The numbers of values, and coefficients without the power.
    terms: Vec<(u32, Fp)>,
}

/// The matrices of a section.
#[derive(Clone, Debug)]
pub(super) struct LaneMatrices<const M: usize> {
    lanes: usize,
    sources: Vec<Source>,
    all: [Vec<Row>; M],
}

impl Source {
    /// The cells that its coefficients 1, X, … belong to, in the first lane or shared.
    fn coefficients(self) -> usize {
        match self {
            Source::Variable(_) | Source::SharedVariable(_) => DEGREE,
            Source::Cell(_) | Source::SharedCell(_) => 1,
        }
    }
}

impl<const M: usize> LaneMatrices<M> {
    /// The matrices of one of these sections, with its entries.
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
            all: terms.map(|terms| rows(&terms, &numbered)),
        }
    }

    fn width(&self) -> usize {
        self.lanes.next_multiple_of(WIDTH)
    }

    /// The values where cells have weights.
    pub(super) fn values(&self, backend: Backend, cells: &Planes) -> Planes {
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

    /// What fills lanes up is zero.
    fn clear(&self, values: &mut Planes) {
        for value in 0..self.sources.len() {
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
        let (rows, width) = (&self.all[matrix][..], self.width());
        backend.run(AddRows {
            rows,
            width,
            values,
            out,
        });
    }

    /// Rows · matrix · values.
    pub(super) fn at(
        &self,
        backend: Backend,
        matrix: usize,
        weights: &Planes,
        values: &Planes,
    ) -> Ext {
        let (rows, width) = (&self.all[matrix][..], self.width());
        backend.run(At {
            rows,
            width,
            values,
            weights,
        })
    }

    /// Rows · matrix: what each value is weighed with.
    pub(super) fn weighed(&self, backend: Backend, matrix: usize, weights: &Planes) -> Planes {
        let (rows, width) = (&self.all[matrix][..], self.width());
        let mut values = Planes::zero(self.sources.len() * width);
        backend.run(AddValues {
            rows,
            width,
            weights,
            values: &mut values,
        });
        self.clear(&mut values);
        values
    }

    /// Adds what weights of values come to for cells.
    pub(super) fn spread(&self, backend: Backend, values: &Planes, out: &mut Planes) {
        backend.run(Spread {
            of: self,
            values,
            out,
        });
    }
}

/// The rows of a matrix, with the numbers of sources.
fn rows(terms: &Terms, sources: &Sources) -> Vec<Row> {
    let rows = terms
        .numbered(sources)
        .map(|(row, power, terms)| Row { row, power, terms });
    rows.collect()
}

impl Row {
    /// The sums of its terms in some lanes.
    #[inline(always)]
    fn sum<V: Packed>(&self, values: &Planes, (width, lane): (usize, usize)) -> Vector<V> {
        let mut sum = Vector::<V>::zero();
        for (value, scale) in &self.terms {
            let mut term = values.load::<V>(*value as usize * width + lane);
            if *scale != Fp::ONE {
                term = term.scale(V::splat(*scale));
            }
            sum = sum.add(term);
        }
        self.shifted(sum)
    }

    /// X^power · x.
    #[inline(always)]
    fn shifted<V: Packed>(&self, mut x: Vector<V>) -> Vector<V> {
        for _ in 0..self.power {
            x = x.times_x();
        }
        x
    }
}

/// What cells have.
#[derive(Clone, Copy)]
enum Cells<'a> {
    Weights(&'a Planes),
    Witness(&'a [Fp]),
}

impl Cells<'_> {
    fn get(self, cell: usize) -> Ext {
        match self {
            Cells::Weights(weights) => weights.get(cell),
            Cells::Witness(cells) => Ext::from(cells[cell]),
        }
    }

    #[inline(always)]
    fn load<V: Packed>(self, cell: usize) -> Vector<V> {
        match self {
            Cells::Weights(weights) => weights.load(cell),
            Cells::Witness(cells) => {
                let mut out = Vector::<V>::zero();
                out.0[0] = V::load(&cells[cell..]);
                out
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
        let (lanes, width) = (self.of.lanes, self.of.width());
        let mut out = Planes::zero(self.of.sources.len() * width);
        for (i, source) in self.of.sources.iter().enumerate() {
            let count = source.coefficients();
            match *source {
                Source::Variable(first) | Source::Cell(first) => {
                    for x in (0..width).step_by(V::LANES) {
                        let mut sum = Vector::<V>::zero();
                        for t in (0..count).rev() {
                            let cell = self.cells.load::<V>(first + t * lanes + x);
                            sum = sum.times_x().add(cell);
                        }
                        out.store(i * width + x, sum);
                    }
                }
                Source::SharedVariable(first) | Source::SharedCell(first) => {
                    let mut sum = Ext::ZERO;
                    for t in (0..count).rev() {
                        sum = sum * Ext::X + self.cells.get(first + t);
                    }
                    let sum = Vector::<V>::splat(sum);
                    for x in (0..width).step_by(V::LANES) {
                        out.store(i * width + x, sum);
                    }
                }
            }
        }
        out
    }
}

/// Adds rows · values.
struct AddRows<'a> {
    rows: &'a [Row],
    width: usize,
    values: &'a Planes,
    out: &'a mut Planes,
}

impl Pass for AddRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        for row in self.rows {
            for x in (0..self.width).step_by(V::LANES) {
                let at = row.row as usize + x;
                let sum = row.sum::<V>(self.values, (self.width, x));
                self.out.store(at, self.out.load::<V>(at).add(sum));
            }
        }
    }
}

/// Σ of rows · values, weighed.
struct At<'a> {
    rows: &'a [Row],
    width: usize,
    values: &'a Planes,
    weights: &'a Planes,
}

impl Pass for At<'_> {
    type Output = Ext;

    #[inline(always)]
    fn run<V: Packed>(self) -> Ext {
        let mut total = Vector::<V>::zero();
        for row in self.rows {
            for x in (0..self.width).step_by(V::LANES) {
                let sum = row.sum::<V>(self.values, (self.width, x));
                let weight = self.weights.load::<V>(row.row as usize + x);
                total = total.add(sum.mul(weight));
            }
        }
        total.total()
    }
}

/// Adds what rows weigh values with.
struct AddValues<'a> {
    rows: &'a [Row],
    width: usize,
    weights: &'a Planes,
    values: &'a mut Planes,
}

impl Pass for AddValues<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        for row in self.rows {
            for x in (0..self.width).step_by(V::LANES) {
                let weight = row.shifted(self.weights.load::<V>(row.row as usize + x));
                for (value, scale) in &row.terms {
                    let at = *value as usize * self.width + x;
                    let mut term = weight;
                    if *scale != Fp::ONE {
                        term = term.scale(V::splat(*scale));
                    }
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
