//! The prover's side of a relation: cells, traces, counts, and the direct check of all of it.

use std::collections::BTreeMap;

use thiserror::Error;

use super::Public;
use crate::error::ProveError;
use crate::exec::Exec;
use crate::field::Fp;
use crate::poseidon::{CUBES, STATES, Trace, WIDTH_16, trace_16};
use crate::poseidon_gkr::Units;
use crate::poseidon_gkr::skip::ROWS;
use crate::relation::{Entry, Form, Relation, Tuple};

/// The cells of groups of instances: `[cell][instance]` for each group. Cells of cubes may have
/// any value: the prover computes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    pub(super) groups: Vec<Vec<Fp>>,
}

/// The first relation that a witness violates.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// An output is not what it is wired to.
    #[error("instance {instance}: output {lane} of row {row} is not what it is wired to")]
    Wire {
        /// The instance.
        instance: usize,
        /// The row.
        row: usize,
        /// The lane.
        lane: usize,
    },
    /// A tuple that no table or registry has, or that is not put on as often as taken off.
    #[error("the bus has {excess} tuples too many of kind {tag}: {entries:?}")]
    Bus {
        /// The kind.
        tag: u32,
        /// The components.
        entries: Vec<u32>,
        /// How often it is put on more than taken off.
        excess: i64,
    },
    /// A bit of the bitfield whose registry row is not used.
    #[error("bit {0} is set, and its registry row is not used")]
    Union(usize),
}

impl Witness {
    /// A witness of these groups.
    ///
    /// # Errors
    /// [`ProveError::Capacity`] for more groups than the shape has, [`ProveError::Cells`] for a group of
    /// another size.
    pub fn new(relation: &Relation, groups: Vec<Vec<Fp>>) -> Result<Witness, ProveError> {
        let max = relation.groups_max();
        if groups.len() > max {
            return Err(ProveError::Capacity {
                what: "groups of instances",
                got: groups.len(),
                max,
            });
        }
        let want = relation.cells * relation.shape.lanes();
        match groups.iter().find(|group| group.len() != want) {
            Some(group) => Err(ProveError::Cells {
                got: group.len(),
                want,
            }),
            None => Ok(Witness { groups }),
        }
    }
}

/// Cells with the trace of their rows.
pub(super) struct Run<'a> {
    pub(super) relation: &'a Relation,
    pub(super) publics: &'a [Fp],
    pub(super) units: Units,
    pub(super) trace: Trace,
    /// The groups, cubes filled in.
    pub(super) groups: Vec<Vec<Fp>>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        exec: Exec<'_>,
        relation: &'a Relation,
        publics: &'a [Fp],
        witness: &Witness,
    ) -> Run<'a> {
        let units = relation.units(witness.groups.len());
        let lanes = relation.shape.lanes();
        let blocks = exec.map(units.blocks(), |block| {
            let cells = &witness.groups[block / units.places.len()];
            let place = units.places[block % units.places.len()];
            let mut inputs = vec![Fp::ZERO; ROWS * WIDTH_16 * lanes];
            let rows = &relation.rows[place * ROWS..][..ROWS];
            for (row, out) in rows.iter().zip(inputs.chunks_exact_mut(WIDTH_16 * lanes)) {
                let Some(row) = row else { continue };
                for (form, out) in row.inputs.iter().zip(out.chunks_exact_mut(lanes)) {
                    fill(form, publics, cells, out);
                }
            }
            inputs
        });
        let mut run = Run {
            relation,
            publics,
            trace: trace_16(exec, lanes, blocks.concat()),
            groups: witness.groups.clone(),
            units,
        };
        run.fill_cubes();
        run
    }

    fn fill_cubes(&mut self) {
        let lanes = self.trace.instances;
        for block in 0..self.units.blocks() {
            let cells = &mut self.groups[block / self.units.places.len()];
            let place = self.units.places[block % self.units.places.len()];
            for (h, row) in self.relation.rows[place * ROWS..][..ROWS]
                .iter()
                .enumerate()
            {
                let Some(row) = row else { continue };
                for (k, cell) in row.cubes.iter().enumerate() {
                    let from = ((block * ROWS + h) * CUBES + k) * lanes;
                    cells[cell * lanes..][..lanes]
                        .copy_from_slice(&self.trace.cubes[from..][..lanes]);
                }
            }
        }
    }

    /// Output `lane` of `row`, permutation + input, in instance x of group g.
    pub(super) fn output(&self, g: usize, row: usize, lane: usize, x: usize) -> Fp {
        let places = &self.units.places;
        let place = places.iter().position(|place| *place == row / ROWS);
        let block = g * places.len() + place.unwrap_or_default();
        let at = ((block * ROWS + row % ROWS) * WIDTH_16 + lane) * self.trace.instances + x;
        self.trace.states[STATES - 1][at] + self.trace.states[0][at]
    }

    /// A component of a tuple for all instances of group g, whose cells are given.
    pub(super) fn entry(&self, g: usize, cells: &[Fp], entry: &Entry) -> Vec<Fp> {
        let lanes = self.trace.instances;
        let mut out = vec![Fp::ZERO; lanes];
        match entry {
            Entry::Form(form) => fill(form, self.publics, cells, &mut out),
            Entry::Output { row, lane } => {
                for (x, out) in out.iter_mut().enumerate() {
                    *out = self.output(g, *row, *lane, x);
                }
            }
            Entry::Instance => {
                for (x, out) in out.iter_mut().enumerate() {
                    *out = Fp::new((g * lanes + x) as u32);
                }
            }
        }
        out
    }

    /// All tuples of kind `tag` with their components: `[component][instance]`.
    fn tuples(&self, tag: Option<u32>) -> impl Iterator<Item = (&'a Tuple, usize, Vec<Vec<Fp>>)> {
        let tuples = self.relation.bus.iter().flatten();
        let wanted = tuples.filter(move |tuple| tag.is_none_or(|tag| tuple.tag == tag));
        wanted.flat_map(move |tuple| {
            self.groups.iter().enumerate().map(move |(g, cells)| {
                let entries = tuple.entries.iter();
                (tuple, g, entries.map(|e| self.entry(g, cells, e)).collect())
            })
        })
    }

    /// How often the first component of tuples of a kind is each number below `size`.
    fn counts(&self, tag: u32, size: usize) -> Vec<Fp> {
        let mut counts = vec![Fp::ZERO; size];
        for (_, _, entries) in self.tuples(Some(tag)) {
            for value in &entries[0] {
                // A number that no table has makes the bus unbalanced, whatever is counted.
                if let Some(count) = counts.get_mut(value.canonical() as usize) {
                    *count += Fp::ONE;
                }
            }
        }
        counts
    }

    /// The committed slices: counts and inverses, the tables' counts, cells.
    pub(super) fn slices(&self, bitfield: &[bool]) -> Vec<Vec<Fp>> {
        let shape = self.relation.shape;
        let rows = 1 << shape.column_log2();
        let counts = self.counts(self.relation.registry_tag, rows);
        let inverse = |(bit, count): (&bool, &Fp)| match bit {
            true => count.inverse().unwrap_or_default(),
            false => Fp::ZERO,
        };
        let inverses = bitfield.iter().zip(&counts).map(inverse).collect();
        let mut tables = vec![Fp::ZERO; 2 * rows];
        for table in &self.relation.tables {
            let counts = self.counts(table.tag, table.size);
            tables[table.offset..][..table.size].copy_from_slice(&counts);
        }
        let cells = self
            .groups
            .iter()
            .flat_map(|g| g.chunks_exact(shape.slice()));
        [[counts, inverses].concat(), tables]
            .into_iter()
            .chain(cells.map(<[Fp]>::to_vec))
            .collect()
    }
}

/// The values of a form for all instances of a group.
fn fill(form: &Form, publics: &[Fp], cells: &[Fp], out: &mut [Fp]) {
    let lanes = out.len();
    for term in &form.0 {
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

/// Evaluates the relation directly.
///
/// # Errors
/// The first [`Violation`].
pub fn check(
    exec: Exec<'_>,
    relation: &Relation,
    public: &Public<'_>,
    witness: &Witness,
) -> Result<(), Violation> {
    let run = Run::new(exec, relation, &public.values, witness);
    let lanes = relation.shape.lanes();
    for (g, cells) in run.groups.iter().enumerate() {
        for wire in &relation.wires {
            let mut expected = vec![Fp::ZERO; lanes];
            fill(&wire.form, run.publics, cells, &mut expected);
            for (x, expected) in expected.iter().enumerate() {
                if run.output(g, wire.row, wire.lane, x) != *expected {
                    return Err(Violation::Wire {
                        instance: g * lanes + x,
                        row: wire.row,
                        lane: wire.lane,
                    });
                }
            }
        }
    }
    check_bus(&run, public)?;
    let rows = 1 << relation.shape.column_log2();
    let counts = run.counts(relation.registry_tag, rows);
    let unused = |(_, (bit, count)): &(usize, (&bool, &Fp))| **bit && **count == Fp::ZERO;
    match public.bitfield.iter().zip(&counts).enumerate().find(unused) {
        Some((bit, _)) => Err(Violation::Union(bit)),
        None => Ok(()),
    }
}

fn check_bus(run: &Run<'_>, public: &Public<'_>) -> Result<(), Violation> {
    let mut balance: BTreeMap<(u32, Vec<u32>), i64> = BTreeMap::new();
    for (tuple, _, entries) in run.tuples(None) {
        for x in 0..run.trace.instances {
            let values: Vec<u32> = entries.iter().map(|e| e[x].canonical()).collect();
            let first = values[0] as usize;
            let table = run.relation.tables.iter().find(|t| t.tag == tuple.tag);
            let found = match table {
                Some(table) => first < table.size,
                None if tuple.tag == run.relation.registry_tag => {
                    let row = (first < public.registry.rows()).then(|| public.registry.row(first));
                    row.is_some_and(|row| values[1..] == row.map(Fp::canonical))
                }
                None => false,
            };
            if !found {
                let sign = if tuple.taken { -1 } else { 1 };
                *balance.entry((tuple.tag, values)).or_default() += sign;
            }
        }
    }
    match balance.into_iter().find(|(_, excess)| *excess != 0) {
        Some(((tag, entries), excess)) => Err(Violation::Bus {
            tag,
            entries,
            excess,
        }),
        None => Ok(()),
    }
}
