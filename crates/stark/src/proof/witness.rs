//! The prover's side of a relation: cells, traces and counts.

#[cfg(test)]
pub(crate) mod violation;

use std::collections::BTreeMap;
use std::sync::Arc;

use alphorn_exec::{Exec, Stopped};

use crate::error::ProveError;
use crate::field::Fp;
use crate::poseidon::{RowTrace, STATES, Trace};
use crate::poseidon_gkr::skip::ROWS;
use crate::relation::{Entry, Form, Part, Relation, Table, Tuple};

/// The cells of groups of instances: `[cell][instance]` for each group. Cells of cubes may hold any value, because
/// the prover computes them.
#[derive(Clone, Debug)]
pub struct Witness {
    pub(super) groups: Vec<Vec<Fp>>,
    /// The traces of all rows, if they were made together with the cells, and the public values they are for.
    made: Option<(Vec<Fp>, Arc<Vec<Traced>>)>,
}

impl Witness {
    /// A witness of these groups.
    ///
    /// # Errors
    /// [`ProveError::Capacity`] for more groups than the shape has, [`ProveError::Cells`] for a group of
    /// another size.
    pub(crate) fn new(relation: &Relation, groups: Vec<Vec<Fp>>) -> Result<Witness, ProveError> {
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
            None => Ok(Witness { groups, made: None }),
        }
    }

    /// Whether the trace made together with the cells matches the cells.
    #[cfg(test)]
    pub(crate) fn trace_is_of_cells(&self, exec: Exec<'_>, relation: &Relation) -> bool {
        let Some((publics, made)) = &self.made else {
            return false;
        };
        let parts = relation.parts(self.groups.len()).into_iter();
        let traced = parts.map(|part| Traced::new(exec, relation, publics, part, &self.groups));
        traced.collect::<Result<Vec<Traced>, Stopped>>().as_ref() == Ok(made)
    }

    /// A witness whose cells were filled together with the permutations of all rows of each width, group by group.
    pub(crate) fn filled(
        exec: Exec<'_>,
        relation: &Relation,
        publics: Vec<Fp>,
        groups: Vec<(Vec<Fp>, Vec<Vec<RowTrace>>)>,
    ) -> Result<Witness, ProveError> {
        let parts = relation.parts(groups.len());
        let mut of_parts: Vec<Vec<RowTrace>> = parts.iter().map(|_| Vec::new()).collect();
        let mut cells = Vec::with_capacity(groups.len());
        for (of_group, of_widths) in groups {
            cells.push(of_group);
            for (all, rows) in of_parts.iter_mut().zip(of_widths) {
                all.extend(rows);
            }
        }
        let pairs = parts.into_iter().zip(of_parts);
        let traced = pairs.map(|(part, rows)| Traced {
            part,
            trace: Trace::of_rows(exec, &rows),
        });
        let made = Some((publics, Arc::new(traced.collect())));
        let witness = Witness::new(relation, cells)?;
        Ok(Witness { made, ..witness })
    }
}

/// Rows of one width, traced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Traced {
    pub(super) part: Part,
    pub(super) trace: Trace,
}

impl Traced {
    /// The trace of the rows of a part, for cells whose cubes may hold any value.
    fn new(
        exec: Exec<'_>,
        relation: &Relation,
        publics: &[Fp],
        part: Part,
        groups: &[Vec<Fp>],
    ) -> Result<Traced, Stopped> {
        let (units, lanes) = (&part.units, relation.shape.lanes());
        let blocks = exec.try_map(units.blocks(), |block| {
            let cells = &groups[block / units.places.len()];
            let place = units.places[block % units.places.len()];
            let rows = &relation.rows[part.rows.start + place * ROWS..][..ROWS];
            let rows = rows.iter().map(|row| {
                let mut inputs = vec![Fp::ZERO; units.kind.lanes() * lanes];
                let forms = row.iter().flat_map(|row| &row.inputs);
                for (form, out) in forms.zip(inputs.chunks_exact_mut(lanes)) {
                    form.add_to(publics, cells, out);
                }
                RowTrace::new(units.kind, exec.backend(), lanes, inputs)
            });
            rows.collect::<Vec<RowTrace>>()
        })?;
        let rows: Vec<RowTrace> = blocks.into_iter().flatten().collect();
        let trace = Trace::of_rows(exec, &rows);
        Ok(Traced { part, trace })
    }

    /// Fills in the cubes of group g.
    fn fill_cubes(&self, relation: &Relation, g: usize, cells: &mut [Fp]) {
        let (units, lanes) = (&self.part.units, self.trace.instances);
        for (i, place) in units.places.iter().enumerate() {
            let block = g * units.places.len() + i;
            let rows = &relation.rows[self.part.rows.start + place * ROWS..][..ROWS];
            for (h, row) in rows.iter().enumerate() {
                let Some(row) = row else { continue };
                for (k, cell) in row.cubes.iter().enumerate() {
                    let from = ((block * ROWS + h) * units.kind.cubes() + k) * lanes;
                    cells[cell * lanes..][..lanes]
                        .copy_from_slice(&self.trace.cubes[from..][..lanes]);
                }
            }
        }
    }
}

/// Cells with the traces of their rows.
pub(super) struct Run<'a> {
    pub(super) relation: &'a Relation,
    pub(super) publics: &'a [Fp],
    pub(super) traced: Arc<Vec<Traced>>,
    /// The groups, cubes filled in.
    pub(super) groups: Vec<Vec<Fp>>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        exec: Exec<'_>,
        relation: &'a Relation,
        publics: &'a [Fp],
        witness: &Witness,
    ) -> Result<Run<'a>, Stopped> {
        exec.step("trace")?;
        let parts = relation.parts(witness.groups.len()).into_iter();
        let traced = match &witness.made {
            // Coefficients of forms are public values, so a trace made for other ones is not that of this
            // statement.
            Some((of, made)) if of == publics => Arc::clone(made),
            _ => {
                let traced =
                    parts.map(|part| Traced::new(exec, relation, publics, part, &witness.groups));
                Arc::new(traced.collect::<Result<_, Stopped>>()?)
            }
        };
        let groups = exec.try_map(witness.groups.len(), |g| {
            let mut cells = witness.groups[g].clone();
            for traced in traced.iter() {
                traced.fill_cubes(relation, g, &mut cells);
            }
            cells
        })?;
        Ok(Run {
            relation,
            publics,
            traced,
            groups,
        })
    }

    /// Output `lane` of `row` in all instances of group g.
    pub(super) fn output(&self, g: usize, row: usize, lane: usize) -> Vec<Fp> {
        let holds = |traced: &&Traced| traced.part.rows.contains(&row);
        let traced = self.traced.iter().find(holds);
        let Some(Traced { part, trace }) = traced else {
            return Vec::new();
        };
        let (at, places) = (row - part.rows.start, &part.units.places);
        let place = places.iter().position(|place| *place == at / ROWS);
        let block = g * places.len() + place.unwrap_or_default();
        let lanes = part.units.kind.lanes();
        let from = ((block * ROWS + at % ROWS) * lanes + lane) * trace.instances;
        let mut out = trace.states[STATES - 1][from..][..trace.instances].to_vec();
        if self.relation.rows[row]
            .as_ref()
            .is_some_and(|row| row.feed_forward)
        {
            let inputs = &trace.states[0][from..];
            out.iter_mut().zip(inputs).for_each(|(o, x)| *o += *x);
        }
        out
    }

    /// A component of a tuple for all instances of group g, whose cells are given.
    pub(super) fn entry(&self, g: usize, cells: &[Fp], entry: &Entry) -> Vec<Fp> {
        let lanes = self.relation.shape.lanes();
        let mut out = vec![Fp::ZERO; lanes];
        match entry {
            Entry::Form(form) => form.add_to(self.publics, cells, &mut out),
            Entry::Output { row, lane } => out = self.output(g, *row, *lane),
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

    /// How often the first component of tuples of a kind denotes each of `size` rows; `row` maps a component to
    /// the number of its row.
    fn counts(&self, tag: u32, size: usize, row: impl Fn(Fp) -> Option<usize>) -> Vec<Fp> {
        let mut counts = vec![Fp::ZERO; size];
        for (_, _, entries) in self.tuples(Some(tag)) {
            for value in &entries[0] {
                // A value that belongs to no row leaves the bus unbalanced, whatever is counted.
                if let Some(count) = row(*value).and_then(|row| counts.get_mut(row)) {
                    *count += Fp::ONE;
                }
            }
        }
        counts
    }

    /// How often each row of the registry is used.
    fn registry_counts(&self) -> Vec<Fp> {
        let rows = 1 << self.relation.shape.column_log2();
        let row = |value: Fp| Some(value.canonical() as usize);
        self.counts(self.relation.registry_tag, rows, row)
    }

    /// How often each row of a table is used.
    fn table_counts(&self, table: &Table) -> Vec<Fp> {
        let rows: BTreeMap<u32, usize> = table_rows(table, self.publics)
            .enumerate()
            // The first components of a table are distinct. If the others differ, the bus is unbalanced, whatever
            // is counted.
            .map(|(i, row)| (row[0], i))
            .collect();
        let row = |value: Fp| rows.get(&value.canonical()).copied();
        self.counts(table.tag, table.rows.len(), row)
    }

    /// The committed slices: counts and inverses, the tables' counts, cells.
    ///
    /// # Errors
    /// [`Stopped`] if the computation is stopped.
    pub(super) fn slices(
        &self,
        exec: Exec<'_>,
        bitfield: &[bool],
    ) -> Result<Vec<Vec<Fp>>, Stopped> {
        let shape = self.relation.shape;
        let rows = 1 << shape.column_log2();
        let counts = self.registry_counts();
        let inverse = |(bit, count): (&bool, &Fp)| match bit {
            // A set bit whose row was never used has no inverse, and the verifier's union rejects the proof.
            true => count.inverse().unwrap_or_default(),
            false => Fp::ZERO,
        };
        let inverses = bitfield.iter().zip(&counts).map(inverse).collect();
        let mut tables = vec![Fp::ZERO; 2 * rows];
        for table in &self.relation.tables {
            let counts = self.table_counts(table);
            tables[table.offset..table.end()].copy_from_slice(&counts);
        }
        let of_group = self.relation.group_slices();
        let cells = exec.try_map(self.groups.len() * of_group, |i| {
            let from = i % of_group * shape.slice();
            self.groups[i / of_group][from..][..shape.slice()].to_vec()
        })?;
        let columns = [[counts, inverses].concat(), tables];
        Ok(columns.into_iter().chain(cells).collect())
    }
}

/// The rows of a table.
fn table_rows<'t>(table: &'t Table, publics: &'t [Fp]) -> impl Iterator<Item = Vec<u32>> + 't {
    let value = |form: &Form| form.value(publics, |_| Fp::ZERO).canonical();
    table
        .rows
        .iter()
        .map(move |row| row.iter().map(value).collect())
}
