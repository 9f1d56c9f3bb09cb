//! Fills the cells of openings, a group at a time.

use alphorn_exec::Exec;

use super::{CAPACITY, DIGEST, LeanChains, PARAMETER, RANDOMNESS};
#[cfg(test)]
use crate::chains::cells::CellLie;
use crate::chains::cells::{Cells, Step};
use crate::chains::group::{Fill, Filling, KeyOpening, Opened};
use crate::chains::opening_layout::OpeningLayout;
use crate::error::ProveError;
use crate::field::{Fp, P};
use crate::poseidon::WIDTH_24;

/// An opening of a key of the lean specification.
pub type LeanOpening = KeyOpening<DIGEST, PARAMETER, RANDOMNESS>;

/// Eight lanes of a state, from one on.
fn digest(state: &[Fp; WIDTH_24], from: usize) -> [Fp; DIGEST] {
    std::array::from_fn(|x| state[from + x])
}

impl Fill<DIGEST, PARAMETER, RANDOMNESS> for LeanChains {
    fn at(&self) -> &OpeningLayout {
        &self.at
    }

    fn steps(&self) -> usize {
        self.parameters().steps
    }

    fn levels(&self) -> usize {
        self.parameters().levels
    }

    fn randomness(&self, x: usize) -> usize {
        LeanChains::randomness(self, x)
    }

    fn end(&self, chain: usize, x: usize) -> usize {
        LeanChains::end(self, chain, x)
    }

    fn set_place(&self, cells: &mut Cells<'_>, lane: usize, t: usize, step: Step) {
        let place = Fp::new((256 * step.chain + step.position) as u32);
        cells.set(self.at.step(DIGEST, t), lane, place);
        let upper = cells.public(self.upper_limb(step.chain, step.position));
        cells.set(self.at.step(DIGEST + 1, t), lane, upper);
    }

    fn encode(&self, filling: &mut Filling<'_>) {
        let Filling { cells, coded } = filling;
        let parameters = self.parameters();
        let hashed = cells.wide(self.at.sponge_row(parameters.blocks()));
        for (lane, state) in hashed.iter().enumerate() {
            for (limb, value) in state[..parameters.limbs()].iter().enumerate() {
                let value = value.canonical();
                // This value does not decode to digits.
                coded[lane] &= value != P - 1;
                cells.set(self.at.limb(limb), lane, Fp::new(value % 127));
                let last = limb + 1 == parameters.limbs();
                for (cell, factor) in self.digits_of(limb) {
                    let tail = last && (0..parameters.tails()).any(|t| self.tail(t) == cell);
                    // A tail is two digits in one cell.
                    let mask = if tail { 63 } else { 7 };
                    cells.set(cell, lane, Fp::new((value / 127 / factor) & mask));
                }
            }
        }
    }

    fn climb(
        &self,
        cells: &mut Cells<'_>,
        slot: u32,
        openings: &[&LeanOpening],
    ) -> Vec<[Fp; DIGEST]> {
        let blocks = self.parameters().blocks();
        for k in 1..blocks {
            for (lane, state) in cells.wide(self.at.sponge_row(k - 1)).iter().enumerate() {
                cells.set_all(lane, &state[..CAPACITY], |x| self.at.sponge(x, k));
            }
        }
        let leaves = cells.wide(self.at.sponge_row(blocks - 1));
        let mut current: Vec<_> = leaves.iter().map(|state| digest(state, CAPACITY)).collect();
        for level in 0..self.parameters().levels {
            let right = slot >> level & 1 == 1;
            let (own, other) = if right { (DIGEST, 0) } else { (0, DIGEST) };
            for (lane, node) in current.iter().enumerate() {
                cells.set_all(lane, node, |x| self.at.node(own + x, level));
                let sibling = &openings[lane].path[level];
                cells.set_all(lane, sibling, |x| self.at.node(other + x, level));
            }
            let parents = cells.wide(self.at.node_row(level));
            current = parents.iter().map(|state| digest(state, 0)).collect();
        }
        current
    }
}

impl LeanChains {
    /// The cells of openings at a slot, with the last group padded by the first opening, and whether each opening
    /// holds: its message has a code, and it leads to its root. All permutations are computed once, and are part
    /// of the witness.
    ///
    /// # Errors
    /// [`ProveError::Capacity`] for more openings than the shape has, or for one whose number of tips or siblings
    /// differs from the set's.
    pub fn opened(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp],
        openings: &[LeanOpening],
    ) -> Result<Opened, ProveError> {
        self.witness_of(exec, slot, message, openings)
    }

    /// The root that each opening leads to, which must be its own.
    ///
    /// # Errors
    /// See [`LeanChains::opened`].
    #[cfg(test)]
    pub(crate) fn roots(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp],
        openings: &[LeanOpening],
    ) -> Result<Vec<[Fp; DIGEST]>, ProveError> {
        self.roots_of(exec, slot, message, openings)
    }

    /// One group whose cells are changed as they are filled; everything that depends on them follows.
    #[cfg(test)]
    pub(crate) fn lying_group(
        &self,
        slot: u32,
        message: &[Fp],
        openings: &[LeanOpening],
        lies: &[CellLie],
    ) -> (Vec<Fp>, Vec<[Fp; DIGEST]>) {
        self.fill_lying(slot, message, openings, lies)
    }
}
