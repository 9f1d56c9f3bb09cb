//! Claims on committed cells, and the ledger that ensures none is forgotten.

use alphorn_exec::Exec;

use crate::extension::Ext;
use crate::field::Fp;
use crate::multilinear::eq_table;
use crate::relation::Shape;

/// The subject of a claim; identifies the check that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Claimed {
    /// Counts of registry and tables, as numerators of the bus.
    BusNumerators,
    /// Cells, as components of tuples.
    BusCells,
    /// Cells that outputs are wired to, and the inputs of rows that outputs include.
    Outputs,
    /// Committed cubes.
    Cubes,
    /// Inputs of rows.
    Inputs,
    /// The counterpart of [`Claimed::Outputs`] for wide rows.
    WideOutputs,
    /// Committed cubes of wide rows.
    WideCubes,
    /// Inputs of wide rows.
    WideInputs,
    /// How often each registry row was used, in the union.
    UnionCounts,
    /// Inverses of those counts, in the union.
    UnionInverses,
}

/// A committed column as long as the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// How often each registry row is used.
    Counts,
    /// Their inverses where the bitfield has a bit.
    Inverses,
    /// How often each table entry is used.
    Tables,
}

/// A part of a claim's weights.
#[derive(Clone, Debug)]
pub(crate) enum Part<E> {
    /// Weight group · cell · eq(lanes, instance), for the cells of all groups.
    Groups {
        /// A weight for each group.
        groups: Vec<E>,
        /// A weight for each cell of an instance.
        cells: Vec<E>,
        /// A point of the instances.
        lanes: Vec<E>,
    },
    /// scale · eq(point, row) on a column.
    Point {
        /// The column.
        column: Column,
        /// The factor.
        scale: E,
        /// The point.
        point: Vec<E>,
    },
    /// Weights of the first elements of a column.
    Weights {
        /// The column.
        column: Column,
        /// The weights.
        weights: Vec<E>,
    },
}

/// Σ of the parts' weights times the committed values = value. It cannot be copied: a ledger hands it to the
/// opening.
#[derive(Debug)]
pub(crate) struct Claim<E> {
    /// Its subject.
    pub(crate) name: Claimed,
    /// The weights.
    pub(crate) parts: Vec<Part<E>>,
    /// The value.
    pub(crate) value: E,
}

/// All claims that remain in a proof. Only opening it consumes it.
#[derive(Debug)]
#[must_use = "a claim that is not opened proves nothing"]
pub(crate) struct Ledger<E>(Vec<Claim<E>>);

impl<E> Ledger<E> {
    /// A ledger without claims.
    pub(crate) fn new() -> Ledger<E> {
        Ledger(Vec::new())
    }

    /// Adds a claim.
    pub(crate) fn enter(&mut self, claim: Claim<E>) {
        debug_assert!(!claim.parts.is_empty(), "{:?} of nothing", claim.name);
        self.0.push(claim);
    }

    /// All claims, to be opened together.
    pub(crate) fn all(self) -> Vec<Claim<E>> {
        self.0
    }
}

/// The committed vector, slice by slice: two columns, the tables' counts, then the cells of each
/// group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed<'a> {
    /// The sizes.
    pub(crate) shape: Shape,
    /// The slices.
    pub(crate) slices: &'a [Vec<Fp>],
}

impl Committed<'_> {
    /// A column.
    pub(crate) fn column(&self, column: Column) -> &[Fp] {
        let rows = 1 << self.shape.column_log2();
        match column {
            Column::Counts => &self.slices[0][..rows],
            Column::Inverses => &self.slices[0][rows..],
            Column::Tables => &self.slices[1][..rows],
        }
    }

    /// The sum of a part.
    pub(crate) fn sum(&self, exec: Exec<'_>, part: &Part<Ext>) -> Ext {
        match part {
            Part::Groups {
                groups,
                cells,
                lanes,
            } => self.groups_sum(exec, groups, cells, lanes),
            Part::Point {
                column,
                scale,
                point,
            } => {
                let weights = eq_table(*scale, point);
                weighted(&weights, self.column(*column))
            }
            Part::Weights { column, weights } => weighted(weights, self.column(*column)),
        }
    }

    fn groups_sum(&self, exec: Exec<'_>, groups: &[Ext], cells: &[Ext], lanes: &[Ext]) -> Ext {
        let eq = eq_table(Ext::ONE, lanes);
        let group_slices = cells.len() * eq.len() / self.shape.slice();
        let sums = exec.map(groups.len(), |g| {
            let slices = &self.slices[2 + g * group_slices..][..group_slices];
            let rows = slices.iter().flat_map(|slice| slice.chunks_exact(eq.len()));
            // Cubes are most of the cells, and wires give them no weight.
            let used = cells.iter().zip(rows).filter(|(w, _)| **w != Ext::ZERO);
            let of_group: Ext = used.map(|(w, row)| *w * weighted(&eq, row)).sum();
            groups[g] * of_group
        });
        sums.into_iter().sum()
    }
}

fn weighted(weights: &[Ext], values: &[Fp]) -> Ext {
    weights.iter().zip(values).map(|(w, x)| *w * *x).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multilinear::evaluate;
    use crate::test_random::Random;
    use alphorn_exec::Backend;

    const SHAPE: Shape = Shape {
        lanes_log2: 1,
        positions_log2: 2,
        bus_groups_log2: 2,
        places_log2: 1,
        unit_groups_log2: 2,
        first_unit_group: 1,
        slices_log2: 3,
        first_slice: 0,
        tables_slice: 1,
        groups_slice: 2,
    };

    #[test]
    fn parts_are_weighted_sums_of_what_is_committed() {
        let mut random = Random::new(1);
        let exec = Exec::new(Backend::Portable, None);
        // Two groups of two slices: sixteen cells of two instances.
        let slices: Vec<Vec<Fp>> = (0..6)
            .map(|_| (0..16).map(|_| random.fp()).collect())
            .collect();
        let committed = Committed {
            shape: SHAPE,
            slices: &slices,
        };
        let point = random.exts(3);
        let scale = random.ext();
        for (column, values) in [
            (Column::Counts, &slices[0][..8]),
            (Column::Inverses, &slices[0][8..]),
            (Column::Tables, &slices[1][..8]),
        ] {
            let values: Vec<Ext> = values.iter().map(|x| Ext::from(*x)).collect();
            let point = point.clone();
            let part = Part::Point {
                column,
                scale,
                point: point.clone(),
            };
            assert_eq!(
                committed.sum(exec, &part),
                scale * evaluate(&values, &point)
            );
            let weights = vec![Ext::ZERO, scale];
            let part = Part::Weights { column, weights };
            assert_eq!(committed.sum(exec, &part), scale * values[1]);
        }
        let (groups, cells, lanes) = (random.exts(2), random.exts(16), random.exts(1));
        let mut expected = Ext::ZERO;
        for (g, group) in groups.iter().enumerate() {
            for (c, cell) in cells.iter().enumerate() {
                for (x, eq) in [Ext::ONE - lanes[0], lanes[0]].into_iter().enumerate() {
                    let value = slices[2 + 2 * g + c / 8][c % 8 * 2 + x];
                    expected += *group * *cell * eq * value;
                }
            }
        }
        let part = Part::Groups {
            groups,
            cells,
            lanes,
        };
        assert_eq!(committed.sum(exec, &part), expected);
    }
}
