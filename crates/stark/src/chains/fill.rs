//! Fills the cells of openings, a group at a time: every hash is that of a row of the relation.

use alphorn_exec::Exec;

#[cfg(test)]
use super::cells::CellLie;
use super::cells::{Cells, Step};
use super::group::{Fill, Filling, KeyOpening, Opened};
use super::opening_layout::OpeningLayout;
use super::{Chains, HALF, LIMB_DIGITS, LIMBS, RANDOMNESS};
use crate::error::ProveError;
use crate::field::{Fp, P};
use crate::hash::DIGEST;

/// An opening of a key of the compact set.
pub type Opening = KeyOpening<HALF, HALF, RANDOMNESS>;

impl Fill<HALF, HALF, RANDOMNESS> for Chains {
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
        self.at.sponge(DIGEST + x, self.last_sponge() + 1)
    }

    fn end(&self, chain: usize, x: usize) -> usize {
        Chains::end(self, chain, x)
    }

    fn set_place(&self, cells: &mut Cells<'_>, lane: usize, t: usize, step: Step) {
        let place = 8 * step.chain + step.position;
        cells.set(self.at.step(HALF, t), lane, Fp::new(place as u32));
    }

    fn encode(&self, filling: &mut Filling<'_>) {
        let Filling { cells, coded } = filling;
        let encode = self.last_sponge() + 1;
        for (lane, state) in cells.narrow(self.at.sponge_row(encode)).iter().enumerate() {
            cells.set_all(lane, &state[..DIGEST], |x| self.at.sponge(x, encode + 1));
        }
        let hashed = cells.narrow(self.at.sponge_row(encode + 1));
        for (lane, state) in hashed.iter().enumerate() {
            for (limb, value) in state[..LIMBS].iter().enumerate() {
                let value = value.canonical();
                // This value does not decode to digits.
                coded[lane] &= value != P - 1;
                cells.set(self.at.limb(limb), lane, Fp::new(value >> 24));
                for t in 0..LIMB_DIGITS {
                    let digit = Fp::new(value >> (3 * t) & 7);
                    cells.set(self.at.digit(LIMB_DIGITS * limb + t), lane, digit);
                }
            }
        }
    }

    fn climb(&self, cells: &mut Cells<'_>, slot: u32, openings: &[&Opening]) -> Vec<[Fp; HALF]> {
        let last = self.last_sponge();
        for k in 0..last {
            for (lane, state) in cells.narrow(self.at.sponge_row(k)).iter().enumerate() {
                cells.set_all(lane, &state[..DIGEST], |x| self.at.sponge(x, k + 1));
            }
        }
        let mut current = cells.narrow(self.at.sponge_row(last));
        for level in 0..self.parameters().levels {
            let right = slot >> level & 1 == 1;
            let (own, other) = if right { (HALF, 0) } else { (0, HALF) };
            for (lane, state) in current.iter().enumerate() {
                cells.set_all(lane, &state[..HALF], |x| self.at.node(own + x, level));
                let sibling = &openings[lane].path[level];
                cells.set_all(lane, sibling, |x| self.at.node(other + x, level));
            }
            current = cells.narrow(self.at.node_row(level));
        }
        let half = |state: &[Fp; 2 * DIGEST]| std::array::from_fn(|x| state[x]);
        current.iter().map(half).collect()
    }
}

impl Chains {
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
        openings: &[Opening],
    ) -> Result<Opened, ProveError> {
        self.witness_of(exec, slot, message, openings)
    }

    /// The root that each opening leads to, which must be its own.
    ///
    /// # Errors
    /// See [`Chains::opened`].
    pub fn roots(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp],
        openings: &[Opening],
    ) -> Result<Vec<[Fp; HALF]>, ProveError> {
        self.roots_of(exec, slot, message, openings)
    }

    /// One group whose cells are changed as they are filled; everything that depends on them follows.
    #[cfg(test)]
    pub(crate) fn lying_group(
        &self,
        slot: u32,
        message: &[Fp],
        openings: &[Opening],
        lies: &[CellLie],
    ) -> (Vec<Fp>, Vec<[Fp; HALF]>) {
        self.fill_lying(slot, message, openings, lies)
    }
}
