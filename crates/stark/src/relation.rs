//! The proved relation as data: permutations whose inputs and outputs are linear forms of cells, and a bus of
//! tuples that must balance.
//!
//! An *instance* has cells. Its rows permute linear forms of them, sixteen or, for *wide* rows, twenty-four. An
//! output of a row, which is permutation + input or the permutation alone, is *wired* to a form. At each bus
//! position an instance puts a tuple on the bus or takes one off. Fixed tables and a registry of public rows also
//! take tuples off, as often as committed counts say. Finally, each set bit of a public bitfield needs a registry
//! row that was used.
//!
//! Instances lie side by side in *groups*, as the lanes of vectors. Coefficients may be public values of the
//! statement, so that a single relation serves all statements.

use crate::arith::Arith;
use crate::extension::Ext;
use crate::field::Fp;
use crate::logup::Cube;
use crate::poseidon::Kind;
use crate::poseidon_gkr::Units;
use crate::poseidon_gkr::skip::ROWS;

/// Number of rows of a unit.
pub(crate) const UNIT_ROWS: usize = ROWS;

/// Committed cubes of a row of width 16.
pub(crate) const ROW_CUBES: usize = Kind::Narrow.cubes();

/// Committed cubes of a row of width 24.
pub(crate) const WIDE_ROW_CUBES: usize = Kind::Wide.cubes();

/// Number of groups of the bus that come before those of instances: registry and tables.
pub(crate) const BUS_GROUPS_FIXED: usize = 2;

/// The sizes of cubes. The protocol uses `Shape::STANDARD`; tests use smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of coordinates of an instance within its group.
    pub(crate) lanes_log2: usize,
    /// Number of coordinates of a bus position.
    pub(crate) positions_log2: usize,
    /// Number of coordinates of a group on the bus.
    pub(crate) bus_groups_log2: usize,
    /// Number of coordinates of a unit of an instance; units of wide rows have their own.
    pub(crate) places_log2: usize,
    /// Number of coordinates of a group of units.
    pub(crate) unit_groups_log2: usize,
    /// The first group of units that instances may use; earlier ones are for recursion.
    pub(crate) first_unit_group: usize,
    /// Number of coordinates of a slice of the commitment.
    pub(crate) slices_log2: usize,
    /// The slice of counts and inverses.
    pub(crate) first_slice: usize,
    /// The slice of the tables' counts.
    pub(crate) tables_slice: usize,
    /// The first slice of the groups.
    pub(crate) groups_slice: usize,
}

impl Shape {
    /// 64 instances per group, up to 23 groups of the compact set, a registry of 2^15 rows.
    // The compact set's limit is that of the slices, (256 − 138)/5. There are 24 groups of units and 30 of the bus.
    pub(crate) const STANDARD: Shape = Shape {
        lanes_log2: 6,
        positions_log2: 9,
        bus_groups_log2: 5,
        places_log2: 4,
        unit_groups_log2: 5,
        first_unit_group: 8,
        slices_log2: 8,
        first_slice: 128,
        tables_slice: 137,
        groups_slice: 138,
    };

    /// Up to 177 groups of the compact set in one proof, for measuring its cost. Its proofs are not sent in any
    /// message, and recursion cannot take them.
    pub(crate) const WIDE: Shape = Shape {
        bus_groups_log2: 8,
        unit_groups_log2: 8,
        slices_log2: 10,
        ..Shape::STANDARD
    };

    /// Number of instances in a group.
    pub(crate) fn lanes(&self) -> usize {
        1 << self.lanes_log2
    }

    /// Log2 of the rows of the registry, of the rows of a committed column, and of the fractions of a bus group.
    pub(crate) fn column_log2(&self) -> usize {
        self.positions_log2 + self.lanes_log2
    }

    /// Number of coordinates within a slice, which is two columns.
    pub(crate) fn slice_log2(&self) -> usize {
        self.column_log2() + 1
    }

    /// Number of elements in a slice.
    pub(crate) fn slice(&self) -> usize {
        1 << self.slice_log2()
    }

    pub(crate) fn bus(&self) -> Cube {
        Cube {
            groups_log2: self.bus_groups_log2,
            within_log2: self.column_log2(),
        }
    }
}

/// scale · public value · cell, where a missing factor is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// The cell.
    pub(crate) cell: Option<usize>,
    /// Index of the public value.
    pub(crate) public: Option<usize>,
    /// The constant.
    pub(crate) scale: Fp,
}

/// A sum of terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form(pub Vec<Term>);

impl Form {
    /// A cell.
    pub(crate) fn cell(cell: usize) -> Form {
        Form(vec![Term {
            cell: Some(cell),
            public: None,
            scale: Fp::ONE,
        }])
    }

    /// A constant.
    pub(crate) fn constant(scale: Fp) -> Form {
        Form(vec![Term {
            cell: None,
            public: None,
            scale,
        }])
    }

    /// A public value.
    pub(crate) fn public(public: usize) -> Form {
        Form(vec![Term {
            cell: None,
            public: Some(public),
            scale: Fp::ONE,
        }])
    }

    /// The sum of two forms.
    #[must_use]
    pub(crate) fn plus(mut self, other: Form) -> Form {
        self.0.extend(other.0);
        self
    }

    /// The form times a constant.
    #[must_use]
    pub(crate) fn times(mut self, factor: Fp) -> Form {
        self.0.iter_mut().for_each(|term| term.scale *= factor);
        self
    }

    /// The form, which has no public factor, times a public value.
    #[must_use]
    pub(crate) fn times_public(mut self, public: usize) -> Form {
        for term in &mut self.0 {
            term.public = Some(public);
        }
        self
    }

    /// The value of a form without cells, for public values.
    pub(crate) fn public_value<A: Arith>(&self, arith: &A, publics: &[A::Base]) -> A::Base {
        let zero = arith.base(Fp::ZERO);
        self.0.iter().fold(zero, |sum, term| {
            let scale = arith.base(term.scale);
            sum + term.public.map_or(scale, |i| scale * publics[i])
        })
    }

    /// Adds the values for all instances of a group, whose cells are `[cell][instance]`.
    pub(crate) fn add_to(&self, publics: &[Fp], cells: &[Fp], out: &mut [Fp]) {
        let lanes = out.len();
        for term in &self.0 {
            let factor = term.scale * term.public.map_or(Fp::ONE, |i| publics[i]);
            match term.cell {
                Some(cell) => {
                    let cells = &cells[cell * lanes..][..lanes];
                    out.iter_mut()
                        .zip(cells)
                        .for_each(|(o, x)| *o += factor * *x);
                }
                None => out.iter_mut().for_each(|o| *o += factor),
            }
        }
    }

    /// The value for cells and public values.
    pub(crate) fn value(&self, publics: &[Fp], cell: impl Fn(usize) -> Fp) -> Fp {
        let term = |term: &Term| {
            let public = term.public.map_or(Fp::ONE, |i| publics[i]);
            term.scale * public * term.cell.map_or(Fp::ONE, &cell)
        };
        self.0.iter().map(term).sum()
    }
}

/// A row: a permutation of sixteen forms, or of twenty-four if it is wide.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The forms that are permuted.
    pub(crate) inputs: Vec<Form>,
    /// The cells of the cubes of its partial rounds but the last.
    pub(crate) cubes: Vec<usize>,
    /// Whether an output is permutation + input; otherwise it is the permutation alone.
    pub(crate) feed_forward: bool,
}

/// Output `lane` of `row` equals a form.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// The row.
    pub(crate) row: usize,
    /// The lane of its output.
    pub(crate) lane: usize,
    /// The form it equals.
    pub(crate) form: Form,
}

/// A component of a tuple.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A form of cells.
    Form(Form),
    /// An output of a row of width 16.
    Output {
        /// The row.
        row: usize,
        /// The lane.
        lane: usize,
    },
    /// The number of the instance.
    Instance,
}

/// A tuple on the bus.
#[derive(Clone, Debug)]
pub(crate) struct Tuple {
    /// Whether it is taken off; otherwise it is put on.
    pub(crate) taken: bool,
    /// Distinguishes kinds of tuples.
    pub(crate) tag: u32,
    /// The components.
    pub(crate) entries: Vec<Entry>,
}

/// A table of public tuples whose first components are distinct constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// The kind of its tuples.
    pub(crate) tag: u32,
    /// The tuples: forms without cells.
    pub(crate) rows: Vec<Vec<Form>>,
    /// Offset of its counts in the column of counts, and of its fractions in their bus group.
    pub(crate) offset: usize,
}

impl Table {
    /// The numbers below `size`, each a tuple of one component.
    pub(crate) fn numbers(tag: u32, size: u32, offset: usize) -> Table {
        let row = |x: u32| vec![Form::constant(Fp::new(x))];
        Table {
            tag,
            rows: (0..size).map(row).collect(),
            offset,
        }
    }

    /// The index after its last count.
    pub(crate) fn end(&self) -> usize {
        self.offset + self.rows.len()
    }
}

/// The rows of one width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Their numbers.
    pub(crate) rows: std::ops::Range<usize>,
    /// Their units.
    pub(crate) units: Units,
}

/// A relation.
#[derive(Clone, Debug)]
pub struct Relation {
    /// The sizes.
    pub(crate) shape: Shape,
    /// Distinguishes relations in the transcript.
    pub id: u32,
    /// Number of cells of an instance: full slices in each group.
    pub cells: usize,
    /// 16 rows for each place, then, if there are wide rows, 16 for each of their places, a power of two. None
    /// stands for a permutation of zeros whose result is not used.
    pub(crate) rows: Vec<Option<Row>>,
    /// The wired outputs.
    pub(crate) wires: Vec<Wire>,
    /// The tuple of each bus position.
    pub(crate) bus: Vec<Option<Tuple>>,
    /// The tables.
    pub(crate) tables: Vec<Table>,
    /// The kind of tuples (index, row) that the registry takes off.
    pub(crate) registry_tag: u32,
    /// Number of field elements in a registry row, not counting its index.
    pub(crate) registry_width: usize,
    /// Number of public values in a statement.
    pub(crate) publics: usize,
    /// Number of elements in a statement's message.
    pub(crate) message: usize,
}

impl Part {
    /// The index of a row of the relation among the rows that a group has here; none if its unit is not used.
    pub(crate) fn row_of_group(&self, row: usize) -> Option<usize> {
        let at = row.checked_sub(self.rows.start)?;
        let unit = self
            .units
            .places
            .iter()
            .position(|p| *p == at / UNIT_ROWS)?;
        Some(unit * UNIT_ROWS + at % UNIT_ROWS)
    }
}

impl Relation {
    /// Number of instances of a group.
    pub fn lanes(&self) -> usize {
        self.shape.lanes()
    }

    /// Number of coordinates of a committed column, which has as many rows as the registry.
    pub fn column_log2(&self) -> usize {
        self.shape.column_log2()
    }

    /// Number of fractions of a proof of `groups` groups: of tuples, of registry rows and of table rows.
    pub fn fractions(&self, groups: usize) -> usize {
        let tuples = self.bus.iter().flatten().count();
        let tables: usize = self.tables.iter().map(|table| table.rows.len()).sum();
        groups * self.lanes() * tuples + (1 << self.column_log2()) + tables
    }

    /// Number of slices of a group.
    pub fn group_slices(&self) -> usize {
        self.cells * self.shape.lanes() / self.shape.slice()
    }

    /// Maximum number of groups of instances that fit units, bus and commitment.
    pub fn groups_max(&self) -> usize {
        let shape = &self.shape;
        let units = (1 << shape.unit_groups_log2) - shape.first_unit_group;
        let bus = (1 << shape.bus_groups_log2) - BUS_GROUPS_FIXED;
        let slices = (1 << shape.slices_log2) - shape.groups_slice;
        units.min(bus).min(slices / self.group_slices())
    }

    /// Number of slices in a commitment to `groups` groups.
    pub fn slices(&self, groups: usize) -> usize {
        2 + groups * self.group_slices()
    }

    /// The numbers of those slices.
    pub(crate) fn slice_numbers(&self, groups: usize) -> Vec<usize> {
        let cells = groups * self.group_slices();
        let groups = self.shape.groups_slice..self.shape.groups_slice + cells;
        [self.shape.first_slice, self.shape.tables_slice]
            .into_iter()
            .chain(groups)
            .collect()
    }

    /// The existing rows of each width, and their units.
    pub(crate) fn parts(&self, groups: usize) -> Vec<Part> {
        let narrow = UNIT_ROWS << self.shape.places_log2;
        let part = |kind, rows: std::ops::Range<usize>| {
            let used = |place: &usize| {
                let rows = &self.rows[rows.start + place * UNIT_ROWS..][..UNIT_ROWS];
                rows.iter().any(Option::is_some)
            };
            let places = rows.len() / UNIT_ROWS;
            Part {
                units: Units {
                    kind,
                    lanes_log2: self.shape.lanes_log2,
                    places_log2: places.ilog2() as usize,
                    groups_log2: self.shape.unit_groups_log2,
                    first_group: self.shape.first_unit_group,
                    groups,
                    // Units without a row are not computed. They count as unused, with constants for their states.
                    places: (0..places).filter(used).collect(),
                },
                rows,
            }
        };
        let mut parts = vec![part(Kind::Narrow, 0..narrow)];
        if self.rows.len() > narrow {
            parts.push(part(Kind::Wide, narrow..self.rows.len()));
        }
        parts
    }

    /// Number of permutations of an instance that are proved: all rows of used units.
    pub fn permutations(&self) -> usize {
        let units = self.rows.chunks(UNIT_ROWS);
        let used = units.filter(|rows| rows.iter().any(Option::is_some));
        used.count() * UNIT_ROWS
    }

    /// Maximum number of components in a tuple.
    pub(crate) fn entries_max(&self) -> usize {
        let bus = self.bus.iter().flatten().map(|t| t.entries.len());
        let tables = self.tables.iter().flat_map(|t| t.rows.iter().map(Vec::len));
        // The tuples of the registry have its index in front.
        let all = bus.chain(tables).chain([1 + self.registry_width]);
        all.max().unwrap_or_default()
    }

    /// Checks that the parts fit the shape.
    ///
    /// # Panics
    /// If they do not, which is a programming error in the relation.
    pub(crate) fn assert_consistent(&self) {
        let narrow = UNIT_ROWS << self.shape.places_log2;
        let wide = self.rows.len() - narrow;
        // Coordinates number the units of each width, so there must be a power of two of them.
        assert!(wide == 0 || wide.is_multiple_of(UNIT_ROWS) && wide.is_power_of_two());
        assert_eq!(self.bus.len(), 1 << self.shape.positions_log2);
        assert_eq!(self.cells * self.shape.lanes() % self.shape.slice(), 0);
        assert!(self.shape.tables_slice < self.shape.groups_slice);
        let mut forms: Vec<&Form> = self.wires.iter().map(|wire| &wire.form).collect();
        for (i, row) in self.rows.iter().enumerate() {
            let Some(row) = row else { continue };
            let width = if i < narrow { Kind::Narrow } else { Kind::Wide };
            assert_eq!(row.inputs.len(), width.lanes());
            assert_eq!(row.cubes.len(), width.cubes());
            assert!(row.cubes.iter().all(|cell| *cell < self.cells));
            forms.extend(&row.inputs);
        }
        let wired = self.wires.iter().map(|wire| (wire.row, wire.lane));
        let mut outputs: Vec<_> = wired.collect();
        for entry in self.bus.iter().flatten().flat_map(|tuple| &tuple.entries) {
            match entry {
                Entry::Form(form) => forms.push(form),
                Entry::Output { row, lane } => {
                    assert!(*row < narrow);
                    outputs.push((*row, *lane));
                }
                Entry::Instance => {}
            }
        }
        for (row, lane) in outputs {
            let width = self.rows[row].as_ref().map(|row| row.inputs.len());
            assert!(width.is_some_and(|width| lane < width));
        }
        for term in forms.into_iter().flat_map(|form| &form.0) {
            assert!(term.cell.is_none_or(|cell| cell < self.cells));
            assert!(term.public.is_none_or(|public| public < self.publics));
        }
        for table in &self.tables {
            assert!(table.end() <= 1 << self.shape.column_log2());
            let terms = table.rows.iter().flatten().flat_map(|form| &form.0);
            for term in terms {
                assert!(term.cell.is_none());
                assert!(term.public.is_none_or(|public| public < self.publics));
            }
        }
    }
}

/// A weighted sum of forms as a functional of the cells of an instance, and a constant.
#[derive(Clone, Debug)]
pub(crate) struct Functional<E> {
    pub(crate) cells: Vec<E>,
    pub(crate) constant: E,
}

impl<E: crate::multilinear::Scalar> Functional<E> {
    pub(crate) fn zero<A: Arith<Ext = E>>(arith: &A, cells: usize) -> Functional<E> {
        let zero = arith.ext(Ext::ZERO);
        Functional {
            cells: vec![zero; cells],
            constant: zero,
        }
    }

    /// Adds weight · form.
    pub(crate) fn add<A: Arith<Ext = E>>(
        &mut self,
        arith: &A,
        publics: &[A::Base],
        weight: E,
        form: &Form,
    ) where
        E: std::ops::Mul<A::Base, Output = E>,
    {
        for term in &form.0 {
            let mut coefficient = arith.base(term.scale);
            if let Some(public) = term.public {
                coefficient = coefficient * publics[public];
            }
            let target = match term.cell {
                Some(cell) => &mut self.cells[cell],
                None => &mut self.constant,
            };
            *target = *target + weight * coefficient;
        }
    }
}
