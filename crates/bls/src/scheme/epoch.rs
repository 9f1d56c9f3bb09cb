//! The public keys of an epoch.

use std::sync::{Arc, OnceLock};

use alphorn_scheme::{Layer, Statement};
use alphorn_types::{Assignment, Layout};

use crate::blst_ffi::curve::G1Affine;
use crate::kernel::Backend;
use crate::registry::Registry;
use crate::sums::KeyTable;

/// The public keys of an epoch in committee order.
pub struct EpochKeys {
    pub(super) registry: Arc<Registry>,
    pub(super) assignment: Arc<Assignment>,
    pub(super) committees: KeyTable,
    /// The same keys cut into cells; built when the first aggregate of a cell is verified.
    pub(super) cells: OnceLock<KeyTable>,
}

/// Keys in epoch order, in a table with these ranges as its committees.
pub(super) fn key_table(
    backend: Backend,
    registry: &Registry,
    assignment: &Assignment,
    sizes: &[usize],
) -> KeyTable {
    let keys: Vec<G1Affine> = assignment
        .members()
        .iter()
        .map(|&v| *registry.keys()[v as usize].point())
        .collect();
    KeyTable::new(backend, keys, sizes).expect("the layout's ranges cover the validators")
}

impl EpochKeys {
    /// The keys of all validators.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The committees that the table was made for.
    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// The table of a layer.
    pub(super) fn table(&self, layer: Layer) -> &KeyTable {
        match layer {
            Layer::Collection => &self.committees,
            Layer::Aggregate => self.cells.get_or_init(|| {
                let layout = self.assignment.layout();
                let sizes: Vec<usize> = layout
                    .cells()
                    .map(|cell| layout.cell_len(cell) as usize)
                    .collect();
                key_table(
                    self.committees.backend(),
                    &self.registry,
                    &self.assignment,
                    &sizes,
                )
            }),
        }
    }

    /// Index in the layer's table of the cell or committee that a statement names exactly.
    pub(crate) fn place(&self, statement: &Statement) -> Option<usize> {
        let layout: &Layout = self.assignment.layout();
        if statement.len == 0 || statement.first >= layout.validators() {
            return None;
        }
        let cell = layout.cell_of(statement.first);
        let (range, place) = match statement.layer {
            Layer::Collection => (
                layout.committee_range(cell.committee),
                usize::from(cell.committee),
            ),
            Layer::Aggregate => {
                let place = usize::from(cell.committee) * usize::from(layout.subcommittees())
                    + usize::from(cell.subcommittee);
                (layout.cell_range(cell), place)
            }
        };
        (range.start == statement.first && range.end - range.start == statement.len)
            .then_some(place)
    }
}
