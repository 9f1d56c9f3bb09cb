//! The public keys of an epoch.

use std::sync::{Arc, Mutex, PoisonError};

use alphorn_scheme::{Ctx, Layer, SchemeError, Statement};
use alphorn_types::{Assignment, Layout};

use super::bases::Known;
use crate::blst_ffi::curve::G1Affine;
use crate::kernel::Backend;
use crate::registry::Registry;
use crate::sums::{Base, KeyTable, Workspace};

/// The public keys of an epoch in committee order, and once more cut into cells.
///
/// Two tables of at most 224 bytes a key (470 MB in all for 2^20 validators on the wide kernel, 201
/// MB on the portable one), and of each committee at most two vectors whose sums are known.
pub struct EpochKeys {
    registry: Arc<Registry>,
    assignment: Arc<Assignment>,
    committees: KeyTable,
    cells: KeyTable,
    /// For each committee.
    known: Mutex<Vec<Known>>,
}

impl EpochKeys {
    /// Both tables.
    pub(super) fn new(
        backend: Backend,
        registry: &Arc<Registry>,
        assignment: &Arc<Assignment>,
        ctx: &Ctx<'_, Workspace>,
    ) -> Result<EpochKeys, SchemeError> {
        let layout = assignment.layout();
        let table = |sizes: &[usize]| {
            if ctx.checkpoint().is_err() {
                return Err(SchemeError::Stopped);
            }
            let keys: Vec<G1Affine> = assignment
                .members()
                .iter()
                .map(|&v| *registry.keys()[v as usize].point())
                .collect();
            Ok(KeyTable::new(backend, keys, sizes)
                .expect("the layout's ranges cover the validators"))
        };
        let committees: Vec<usize> = (0..layout.committees())
            .map(|c| layout.committee_len(c) as usize)
            .collect();
        let cells: Vec<usize> = layout
            .cells()
            .map(|cell| layout.cell_len(cell) as usize)
            .collect();
        Ok(EpochKeys {
            committees: table(&committees)?,
            cells: table(&cells)?,
            registry: registry.clone(),
            assignment: assignment.clone(),
            known: Mutex::new(vec![Known::default(); committees.len()]),
        })
    }

    /// The keys of all validators.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The committees that the table was made for.
    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// The table of a layer: of cells or of committees.
    pub fn table(&self, layer: Layer) -> &KeyTable {
        match layer {
            Layer::Collection => &self.committees,
            Layer::Aggregate => &self.cells,
        }
    }

    /// The tables of all layers, in their order.
    pub(super) fn tables(&self) -> [&KeyTable; 2] {
        [Layer::Aggregate, Layer::Collection].map(|layer| self.table(layer))
    }

    /// The vectors of all committees whose sums are known; cells have none.
    pub(super) fn bases(&self) -> Vec<Base> {
        self.with_known(|known| known.iter().flat_map(Known::bases).cloned().collect())
    }

    /// Forgets what earlier jobs found, for measurements that begin alike.
    pub fn forget(&self) {
        self.with_known(|known| known.fill(Known::default()));
    }

    /// Calls `f` with what is known of each committee.
    pub(super) fn with_known<T>(&self, f: impl FnOnce(&mut [Known]) -> T) -> T {
        // What a panic left behind is a valid list all the same: entries are replaced whole.
        f(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
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
