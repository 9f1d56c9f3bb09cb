//! Cells of openings, a group at a time.

use alphorn_exec::Exec;

use super::{CAPACITY, DIGEST, LeanChains, PARAMETER, RANDOMNESS};
#[cfg(test)]
use crate::chains::cells::CellLie;
use crate::chains::cells::{Cells, steps};
use crate::chains::group::{Fill, Filled, KeyOpening, Opened};
use crate::error::ProveError;
use crate::field::{Fp, P};
use crate::poseidon::WIDTH_24;
use crate::relation::Relation;

/// An opening of a key of the lean specification.
pub type LeanOpening = KeyOpening<DIGEST, PARAMETER, RANDOMNESS>;

/// The cells of a group, being filled.
struct Filler<'a> {
    chains: &'a LeanChains,
    cells: Cells<'a>,
    /// Whether each lane's digits are those of a code.
    coded: Vec<bool>,
}

/// Eight lanes of a state, from one on.
fn digest(state: &[Fp; WIDTH_24], from: usize) -> [Fp; DIGEST] {
    std::array::from_fn(|x| state[from + x])
}

impl Filler<'_> {
    fn given(&mut self, openings: &[&LeanOpening]) {
        let (chains, cells) = (self.chains, &mut self.cells);
        for (lane, opening) in openings.iter().enumerate() {
            cells.set_all(lane, &opening.root, |x| chains.root(x));
            cells.set_all(lane, &opening.parameter, |x| chains.parameter(x));
            for (i, tip) in opening.tips.iter().enumerate() {
                cells.set_all(lane, tip, |x| chains.tip(i, x));
            }
            cells.set(chains.index(), lane, Fp::new(opening.index as u32));
            cells.set_all(lane, &opening.randomness, |x| chains.randomness(x));
        }
    }

    fn encode(&mut self) {
        let (chains, cells) = (self.chains, &mut self.cells);
        let parameters = chains.parameters();
        let hashed = cells.wide(chains.sponge_row(parameters.blocks()));
        for (lane, state) in hashed.iter().enumerate() {
            for (limb, value) in state[..parameters.limbs()].iter().enumerate() {
                let value = value.canonical();
                // No digits are those of this one.
                self.coded[lane] &= value != P - 1;
                cells.set(chains.remainder(limb), lane, Fp::new(value % 127));
                let last = limb + 1 == parameters.limbs();
                for (cell, factor) in chains.digits_of(limb) {
                    let tail = last && (0..parameters.tails()).any(|t| chains.tail(t) == cell);
                    let mask = if tail { 63 } else { 7 };
                    cells.set(cell, lane, Fp::new((value / 127 / factor) & mask));
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
                let tip: [Fp; DIGEST] = cells.get_all(lane, |x| chains.tip(i, x));
                cells.set_all(lane, &tip, |x| chains.end(i, x));
            }
            let digit = |i| cells.get(chains.digit(i), lane).canonical() as usize;
            let steps = steps((0..count).map(digit));
            self.coded[lane] &= steps.len() == chains.parameters().steps;
            asked.push(steps);
        }
        let mut digests = vec![[Fp::ZERO; DIGEST]; cells.lanes()];
        for t in 0..chains.parameters().steps {
            for (lane, steps) in asked.iter().enumerate() {
                // Too few steps: rows of zeros, which nothing asks for.
                let Some(step) = steps.get(t) else { continue };
                if step.tip {
                    digests[lane] = cells.get_all(lane, |x| chains.tip(step.chain, x));
                }
                let place = Fp::new((256 * step.chain + step.position) as u32);
                cells.set(chains.step(DIGEST, t), lane, place);
                let upper = cells.public(chains.upper_limb(step.chain, step.position));
                cells.set(chains.step(DIGEST + 1, t), lane, upper);
                cells.set_all(lane, &digests[lane], |x| chains.step(x, t));
            }
            for (lane, state) in cells.narrow(t).iter().enumerate() {
                digests[lane].copy_from_slice(&state[..DIGEST]);
                if let Some(step) = asked[lane].get(t).filter(|step| step.end) {
                    cells.set_all(lane, &state[..DIGEST], |x| chains.end(step.chain, x));
                }
            }
        }
    }

    /// Leaf and path; returns the roots.
    fn climb(&mut self, slot: u32, openings: &[&LeanOpening]) -> Vec<[Fp; DIGEST]> {
        let (chains, cells) = (self.chains, &mut self.cells);
        let blocks = chains.parameters().blocks();
        for k in 1..blocks {
            for (lane, state) in cells.wide(chains.sponge_row(k - 1)).iter().enumerate() {
                cells.set_all(lane, &state[..CAPACITY], |x| chains.sponge(x, k));
            }
        }
        let leaves = cells.wide(chains.sponge_row(blocks - 1));
        let mut current: Vec<_> = leaves.iter().map(|state| digest(state, CAPACITY)).collect();
        for level in 0..chains.parameters().levels {
            let right = slot >> level & 1 == 1;
            let (own, other) = if right { (DIGEST, 0) } else { (0, DIGEST) };
            for (lane, node) in current.iter().enumerate() {
                cells.set_all(lane, node, |x| chains.node(own + x, level));
                let sibling = &openings[lane].path[level];
                cells.set_all(lane, sibling, |x| chains.node(other + x, level));
            }
            let parents = cells.wide(chains.node_row(level));
            current = parents.iter().map(|state| digest(state, 0)).collect();
        }
        current
    }
}

impl Fill<DIGEST, PARAMETER, RANDOMNESS> for LeanChains {
    fn relation(&self) -> &Relation {
        LeanChains::relation(self)
    }

    fn shape(&self) -> (usize, usize) {
        (self.parameters().chains, self.parameters().levels)
    }

    fn publics(&self, slot: u32, message: &[Fp]) -> Vec<Fp> {
        LeanChains::publics(self, slot, message)
    }

    fn fill_group(&self, cells: Cells<'_>, slot: u32, openings: &[&LeanOpening]) -> Filled<DIGEST> {
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

impl LeanChains {
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
        openings: &[LeanOpening],
    ) -> Result<Opened, ProveError> {
        self.witness_of(exec, slot, message, openings)
    }

    /// The root that each opening leads to: it must be its own.
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

    /// One group whose cells are changed as they are filled; what depends on them follows.
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
