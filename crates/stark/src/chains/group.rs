//! The common part of the relations: openings, and filling groups of them on all threads.

use alphorn_exec::Exec;

#[cfg(test)]
use super::cells::CellLie;
use super::cells::{Cells, Step, steps};
use super::opening_layout::OpeningLayout;
use crate::error::ProveError;
use crate::field::Fp;
use crate::poseidon::RowTrace;
use crate::proof::{Statements, Witness};

/// An opening of one registry row at a slot: `D` field elements per digest, `P` for the parameter, `R` for the
/// randomness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOpening<const D: usize, const P: usize, const R: usize> {
    /// Index of the registry row.
    pub index: usize,
    /// Root of the tree.
    pub root: [Fp; D],
    /// The key's parameter, which enters all hashes.
    pub parameter: [Fp; P],
    /// Randomness of the encoding.
    pub randomness: [Fp; R],
    /// For each chain, the digest at the message's digit.
    pub tips: Vec<[Fp; D]>,
    /// The siblings of the path, from the leaf.
    pub path: Vec<[Fp; D]>,
}

/// A group that has been filled.
pub(super) struct Filled<const D: usize> {
    /// The cells.
    pub(super) cells: Vec<Fp>,
    /// The permutations of all rows of each width.
    pub(super) rows: Vec<Vec<RowTrace>>,
    /// The root that each opening leads to.
    pub(super) roots: Vec<[Fp; D]>,
    /// Whether the message has digits under the opening's randomness, and their sum is the target.
    pub(super) coded: Vec<bool>,
}

/// The representation of openings in the relation.
#[derive(Clone)]
pub struct Opened {
    /// The witness. Openings that do not hold have one too, but a proof made from it is rejected.
    pub witness: Witness,
    /// Whether each opening holds: its message has a code, and it leads to its root.
    pub holds: Vec<bool>,
}

/// A group that is being filled.
pub(super) struct Filling<'a> {
    pub(super) cells: Cells<'a>,
    /// Whether each lane's digits are those of a code.
    pub(super) coded: Vec<bool>,
}

/// A relation of chains whose groups can be filled. It defines where cells are and how it hashes; the provided
/// methods walk the chains and distribute the groups to threads.
pub(super) trait Fill<const D: usize, const P: usize, const R: usize>: Statements {
    /// Where cells and rows are.
    fn at(&self) -> &OpeningLayout;

    /// Chain steps of an opening, over all chains, and levels of its tree.
    fn steps(&self) -> usize;
    fn levels(&self) -> usize;

    /// The cells of element x of the randomness, and of a chain's end: inputs of the sponge.
    fn randomness(&self, x: usize) -> usize;
    fn end(&self, chain: usize, x: usize) -> usize;

    /// Sets the columns of step t's row other than the digest: its place, and the values that follow from the
    /// place.
    fn set_place(&self, cells: &mut Cells<'_>, lane: usize, t: usize, step: Step);

    /// Hashes message and randomness to digits.
    fn encode(&self, filling: &mut Filling<'_>);

    /// Hashes the ends to a leaf and climbs the path; returns the roots.
    fn climb(
        &self,
        cells: &mut Cells<'_>,
        slot: u32,
        openings: &[&KeyOpening<D, P, R>],
    ) -> Vec<[Fp; D]>;

    /// Sets the cells given by openings.
    fn set_given(&self, cells: &mut Cells<'_>, openings: &[&KeyOpening<D, P, R>]) {
        let at = self.at();
        for (lane, opening) in openings.iter().enumerate() {
            cells.set_all(lane, &opening.root, |x| at.root(x));
            cells.set_all(lane, &opening.parameter, |x| at.parameter(x));
            for (i, tip) in opening.tips.iter().enumerate() {
                cells.set_all(lane, tip, |x| at.tip(i, x));
            }
            cells.set(at.index(), lane, Fp::new(opening.index as u32));
            cells.set_all(lane, &opening.randomness, |x| self.randomness(x));
        }
    }

    /// Walks all chains to their ends. The rows of steps are filled in the order of the chains, whatever digits a
    /// lane has: the relation fixes only their number, which is what enforces the sum of the digits.
    fn walk(&self, filling: &mut Filling<'_>) {
        let Filling { cells, coded } = filling;
        let (at, chains, rows) = (self.at(), self.at().chains(), self.steps());
        let mut asked = Vec::with_capacity(cells.lanes());
        for (lane, coded) in coded.iter_mut().enumerate() {
            for i in 0..chains {
                // The end of a chain without steps; the other ends are set below.
                let tip: [Fp; D] = cells.get_all(lane, |x| at.tip(i, x));
                cells.set_all(lane, &tip, |x| self.end(i, x));
            }
            let digit = |i| cells.get(at.digit(i), lane).canonical() as usize;
            let steps = steps((0..chains).map(digit));
            *coded &= steps.len() == rows;
            asked.push(steps);
        }
        let mut digests = vec![[Fp::ZERO; D]; cells.lanes()];
        for t in 0..rows {
            for (lane, steps) in asked.iter().enumerate() {
                // Too few steps: the remaining rows are zeros, which nothing requires.
                let Some(step) = steps.get(t) else { continue };
                if step.tip {
                    digests[lane] = cells.get_all(lane, |x| at.tip(step.chain, x));
                }
                self.set_place(cells, lane, t, *step);
                cells.set_all(lane, &digests[lane], |x| at.step(x, t));
            }
            for (lane, state) in cells.narrow(t).iter().enumerate() {
                digests[lane].copy_from_slice(&state[..D]);
                if let Some(step) = asked[lane].get(t).filter(|step| step.end) {
                    cells.set_all(lane, &state[..D], |x| self.end(step.chain, x));
                }
            }
        }
    }

    /// Fills the cells of a group whose lanes all have an opening.
    fn fill_group(
        &self,
        cells: Cells<'_>,
        slot: u32,
        openings: &[&KeyOpening<D, P, R>],
    ) -> Filled<D> {
        let mut filling = Filling {
            coded: vec![true; cells.lanes()],
            cells,
        };
        self.set_given(&mut filling.cells, openings);
        self.encode(&mut filling);
        self.walk(&mut filling);
        let roots = self.climb(&mut filling.cells, slot, openings);
        let (cells, rows) = filling.cells.finish();
        Filled {
            cells,
            rows,
            roots,
            coded: filling.coded,
        }
    }

    /// The cells of all groups as a witness with its trace, and which openings lead to their roots.
    fn witness_of(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp],
        openings: &[KeyOpening<D, P, R>],
    ) -> Result<Opened, ProveError> {
        let filled = self.fill_all(exec, slot, message, openings)?;
        let reached = filled.iter().flat_map(|of| of.roots.iter().zip(&of.coded));
        let pairs = openings.iter().zip(reached);
        // The zip ends with the openings, so padding is not reported.
        let holds = pairs.map(|(opening, (root, coded))| *coded && opening.root == *root);
        let holds = holds.collect();
        let groups = filled.into_iter().map(|of| (of.cells, of.rows)).collect();
        let publics = self.publics(slot, message);
        let witness = Witness::filled(exec, self.relation(), publics, groups)?;
        Ok(Opened { witness, holds })
    }

    /// The root that each opening leads to.
    fn roots_of(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp],
        openings: &[KeyOpening<D, P, R>],
    ) -> Result<Vec<[Fp; D]>, ProveError> {
        let filled = self.fill_all(exec, slot, message, openings)?;
        let roots = filled.into_iter().flat_map(|of| of.roots);
        Ok(roots.take(openings.len()).collect())
    }

    /// Fills all groups, with the last one padded by the first opening.
    fn fill_all(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp],
        openings: &[KeyOpening<D, P, R>],
    ) -> Result<Vec<Filled<D>>, ProveError> {
        self.check(openings)?;
        let lanes = self.relation().shape.lanes();
        let publics = self.publics(slot, message);
        let groups = openings.len().div_ceil(lanes);
        let filled = exec.try_map(groups, |g| {
            let padded: Vec<_> = (g * lanes..(g + 1) * lanes)
                // An empty lane would violate the relation. A copy only raises the count of its registry row, and a
                // bit needs no more than a count that is not zero.
                .map(|i| openings.get(i).unwrap_or(&openings[0]))
                .collect();
            self.fill_group(Cells::new(self.relation(), exec, &publics), slot, &padded)
        })?;
        Ok(filled)
    }

    fn check(&self, openings: &[KeyOpening<D, P, R>]) -> Result<(), ProveError> {
        let (chains, levels) = (self.at().chains(), self.levels());
        let capacity = |what, got, max| match got == max {
            true => Ok(()),
            false => Err(ProveError::Capacity { what, got, max }),
        };
        let max = self.relation().groups_max() * self.relation().shape.lanes();
        if openings.len() > max {
            return capacity("openings", openings.len(), max);
        }
        openings.iter().try_for_each(|opening| {
            capacity("tips of an opening", opening.tips.len(), chains)?;
            capacity("siblings of a path", opening.path.len(), levels)
        })
    }

    /// One group whose cells are changed as they are filled; everything that depends on them follows.
    #[cfg(test)]
    fn fill_lying(
        &self,
        slot: u32,
        message: &[Fp],
        openings: &[KeyOpening<D, P, R>],
        lies: &[CellLie],
    ) -> (Vec<Fp>, Vec<[Fp; D]>) {
        let exec = Exec::new(alphorn_exec::Backend::Portable, None);
        let publics = self.publics(slot, message);
        let mut cells = Cells::new(self.relation(), exec, &publics);
        cells.lies = lies.to_vec();
        let openings: Vec<_> = openings.iter().collect();
        let filled = self.fill_group(cells, slot, &openings);
        (filled.cells, filled.roots)
    }
}
