//! The direct check of a witness, which tests compare with the verdicts of verifiers.

use std::collections::{BTreeMap, BTreeSet};

use alphorn_exec::{Exec, Stopped};
use thiserror::Error;

use super::{Run, Witness, table_rows};
use crate::field::Fp;
use crate::proof::Public;
use crate::relation::Relation;

/// The first violation in a witness, or why it is not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Violation {
    /// An output differs from the form it is wired to.
    #[error("instance {instance}: output {lane} of row {row} is not what it is wired to")]
    Wire {
        /// The instance.
        instance: usize,
        /// The row.
        row: usize,
        /// The lane.
        lane: usize,
    },
    /// A tuple that no table or registry has, or that is not put on the bus as often as it is taken off.
    #[error("the bus has {excess} tuples too many of kind {tag}: {entries:?}")]
    Bus {
        /// The kind.
        tag: u32,
        /// The components.
        entries: Vec<u32>,
        /// How much more often it is put on than taken off.
        excess: i64,
    },
    /// A bit of the bitfield is set whose registry row is not used.
    #[error("bit {0} is set, and its registry row is not used")]
    Union(usize),
    /// The computation was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Evaluates the relation directly.
///
/// # Errors
/// The first [`Violation`].
pub(crate) fn check(
    exec: Exec<'_>,
    relation: &Relation,
    public: &Public<'_>,
    witness: &Witness,
) -> Result<(), Violation> {
    let run = Run::new(exec, relation, &public.values, witness)?;
    let lanes = relation.shape.lanes();
    for (g, cells) in run.groups.iter().enumerate() {
        for wire in &relation.wires {
            let mut expected = vec![Fp::ZERO; lanes];
            wire.form.add_to(run.publics, cells, &mut expected);
            let outputs = run.output(g, wire.row, wire.lane);
            for (x, expected) in expected.iter().enumerate() {
                if outputs[x] != *expected {
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
    let counts = run.registry_counts();
    let unused = |(_, (bit, count)): &(usize, (&bool, &Fp))| **bit && **count == Fp::ZERO;
    match public
        .statement
        .bitfield
        .iter()
        .zip(&counts)
        .enumerate()
        .find(unused)
    {
        Some((bit, _)) => Err(Violation::Union(bit)),
        None => Ok(()),
    }
}

fn check_bus(run: &Run<'_>, public: &Public<'_>) -> Result<(), Violation> {
    let mut balance: BTreeMap<(u32, Vec<u32>), i64> = BTreeMap::new();
    let tables: BTreeSet<(u32, Vec<u32>)> = run
        .relation
        .tables
        .iter()
        .flat_map(|table| table_rows(table, run.publics).map(move |row| (table.tag, row)))
        .collect();
    for (tuple, _, entries) in run.tuples(None) {
        for x in 0..run.relation.shape.lanes() {
            let values: Vec<u32> = entries.iter().map(|e| e[x].canonical()).collect();
            let tagged = (tuple.tag, values);
            let (first, rest) = tagged.1.split_at(1);
            let registered = tuple.tag == run.relation.registry_tag && {
                let row = first
                    .iter()
                    .find(|i| (**i as usize) < public.registry.rows());
                let row = row.map(|i| public.registry.row(*i as usize));
                row.is_some_and(|row| row.iter().map(|x| x.canonical()).eq(rest.iter().copied()))
            };
            if !registered && !tables.contains(&tagged) {
                let sign = if tuple.taken { -1 } else { 1 };
                *balance.entry(tagged).or_default() += sign;
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
