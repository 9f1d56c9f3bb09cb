//! Cells of openings, a group at a time: every hash is that of a row of the relation.

use alphorn_exec::Exec;

#[cfg(test)]
use super::cells::CellLie;
use super::cells::{Cells, steps};
use super::group::{Fill, Filled, KeyOpening, Opened};
use super::{Chains, HALF, LIMB_DIGITS, LIMBS, RANDOMNESS};
use crate::arith::DIGEST;
use crate::error::ProveError;
use crate::field::{Fp, P};
use crate::relation::Relation;

/// An opening of a key of the compact set.
pub type Opening = KeyOpening<HALF, HALF, RANDOMNESS>;

/// The cells of a group, being filled.
struct Filler<'a> {
    chains: &'a Chains,
    cells: Cells<'a>,
    /// Whether each lane's digits are those of a code.
    coded: Vec<bool>,
}

impl Filler<'_> {
    fn given(&mut self, openings: &[&Opening]) {
        let (chains, cells) = (self.chains, &mut self.cells);
        let encode = chains.last_sponge() + 1;
        for (lane, opening) in openings.iter().enumerate() {
            cells.set_all(lane, &opening.root, |x| chains.root(x));
            cells.set_all(lane, &opening.parameter, |x| chains.parameter(x));
            for (i, tip) in opening.tips.iter().enumerate() {
                cells.set_all(lane, tip, |x| chains.tip(i, x));
            }
            cells.set(chains.index(), lane, Fp::new(opening.index as u32));
            cells.set_all(lane, &opening.randomness, |x| {
                chains.sponge(DIGEST + x, encode)
            });
        }
    }

    fn encode(&mut self) {
        let (chains, cells) = (self.chains, &mut self.cells);
        let encode = chains.last_sponge() + 1;
        for (lane, state) in cells.narrow(chains.sponge_row(encode)).iter().enumerate() {
            cells.set_all(lane, &state[..DIGEST], |x| chains.sponge(x, encode + 1));
        }
        let hashed = cells.narrow(chains.sponge_row(encode + 1));
        for (lane, state) in hashed.iter().enumerate() {
            for (limb, value) in state[..LIMBS].iter().enumerate() {
                let value = value.canonical();
                // No digits are those of this one.
                self.coded[lane] &= value != P - 1;
                cells.set(chains.quotient(limb), lane, Fp::new(value >> 24));
                for t in 0..LIMB_DIGITS {
                    let digit = Fp::new(value >> (3 * t) & 7);
                    cells.set(chains.digit(LIMB_DIGITS * limb + t), lane, digit);
                }
            }
        }
    }

    fn walk(&mut self) {
        let (chains, cells) = (self.chains, &mut self.cells);
        let count = chains.parameters().chains;
        let mut asked = Vec::with_capacity(cells.lanes());
        for lane in 0..cells.lanes() {
            for i in 0..count {
                // The end of a chain that is not walked; the others come below.
                let tip: [Fp; HALF] = cells.get_all(lane, |x| chains.tip(i, x));
                cells.set_all(lane, &tip, |x| chains.end(i, x));
            }
            let digit = |i| cells.get(chains.digit(i), lane).canonical() as usize;
            let steps = steps((0..count).map(digit));
            self.coded[lane] &= steps.len() == chains.parameters().steps;
            asked.push(steps);
        }
        let mut digests = vec![[Fp::ZERO; HALF]; cells.lanes()];
        for t in 0..chains.parameters().steps {
            for (lane, steps) in asked.iter().enumerate() {
                // Too few steps: rows of zeros, which nothing asks for.
                let Some(step) = steps.get(t) else { continue };
                if step.tip {
                    digests[lane] = cells.get_all(lane, |x| chains.tip(step.chain, x));
                }
                let place = 8 * step.chain + step.position;
                cells.set(chains.step(HALF, t), lane, Fp::new(place as u32));
                cells.set_all(lane, &digests[lane], |x| chains.step(x, t));
            }
            for (lane, state) in cells.narrow(t).iter().enumerate() {
                digests[lane].copy_from_slice(&state[..HALF]);
                if let Some(step) = asked[lane].get(t).filter(|step| step.end) {
                    cells.set_all(lane, &state[..HALF], |x| chains.end(step.chain, x));
                }
            }
        }
    }

    /// Leaf and path; returns the roots.
    fn climb(&mut self, slot: u32, openings: &[&Opening]) -> Vec<[Fp; HALF]> {
        let (chains, cells) = (self.chains, &mut self.cells);
        let last = chains.last_sponge();
        for k in 0..last {
            for (lane, state) in cells.narrow(chains.sponge_row(k)).iter().enumerate() {
                cells.set_all(lane, &state[..DIGEST], |x| chains.sponge(x, k + 1));
            }
        }
        let mut current = cells.narrow(chains.sponge_row(last));
        for level in 0..chains.parameters().levels {
            let right = slot >> level & 1 == 1;
            let (own, other) = if right { (HALF, 0) } else { (0, HALF) };
            for (lane, state) in current.iter().enumerate() {
                cells.set_all(lane, &state[..HALF], |x| chains.node(own + x, level));
                let sibling = &openings[lane].path[level];
                cells.set_all(lane, sibling, |x| chains.node(other + x, level));
            }
            current = cells.narrow(chains.node_row(level));
        }
        let half = |state: &[Fp; 2 * DIGEST]| std::array::from_fn(|x| state[x]);
        current.iter().map(half).collect()
    }
}

impl Fill<HALF, HALF, RANDOMNESS> for Chains {
    fn relation(&self) -> &Relation {
        Chains::relation(self)
    }

    fn shape(&self) -> (usize, usize) {
        (self.parameters().chains, self.parameters().levels)
    }

    fn publics(&self, slot: u32, message: &[Fp]) -> Vec<Fp> {
        Chains::publics(self, slot, message)
    }

    fn fill_group(&self, cells: Cells<'_>, slot: u32, openings: &[&Opening]) -> Filled<HALF> {
        let mut filler = Filler {
            chains: self,
            coded: vec![true; cells.lanes()],
            cells,
        };
        filler.given(openings);
        filler.encode();
        filler.walk();
        let roots = filler.climb(slot, openings);
        let (cells, rows) = filler.cells.finish();
        Filled {
            cells,
            rows,
            roots,
            coded: filler.coded,
        }
    }
}

impl Chains {
    /// The cells of openings at a slot, the last group filled up with the first opening; and whether each opening
    /// holds: its message has a code, and it leads to its root. All permutations are computed once, and are part
    /// of the witness.
    ///
    /// # Errors
    /// [`ProveError::Capacity`] for more openings than the shape has, or for one with another
    /// number of tips or siblings than the set.
    pub fn opened(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp],
        openings: &[Opening],
    ) -> Result<Opened, ProveError> {
        self.witness_of(exec, slot, message, openings)
    }

    /// The root that each opening leads to: it must be its own.
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

    /// One group whose cells are changed as they are filled; what depends on them follows.
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
