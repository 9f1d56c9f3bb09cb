//! Cells of openings, a group at a time: every hash is that of a row of the relation.

use super::{Chains, HALF, LIMB_DIGITS, LIMBS, RANDOMNESS};
use crate::arith::DIGEST;
use crate::error::ProveError;
use crate::exec::Exec;
use crate::field::Fp;
use crate::proof::Witness;

/// An opening of one registry row at a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The row of the registry.
    pub index: usize,
    /// Root of the tree.
    pub root: [Fp; HALF],
    /// The key's parameter, which is in all hashes.
    pub parameter: [Fp; HALF],
    /// Randomness of the encoding.
    pub randomness: [Fp; RANDOMNESS],
    /// For each chain the digest at the message's digit.
    pub tips: Vec<[Fp; HALF]>,
    /// The siblings of the path, from the leaf.
    pub path: Vec<[Fp; HALF]>,
}

/// A cell of instances of all groups that is changed when it is filled.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellLie {
    pub(crate) cell: usize,
    pub(crate) instance: usize,
    pub(crate) delta: Fp,
}

/// The cells of a group, and the root that each opening leads to.
type Filled = (Vec<Fp>, Vec<[Fp; HALF]>);

/// A step of a chain: its place, and what it begins from.
#[derive(Clone, Copy)]
struct Step {
    place: usize,
    tip: bool,
    end: bool,
}

/// The cells of a group, being filled.
struct Filler<'a> {
    chains: &'a Chains,
    exec: Exec<'a>,
    publics: &'a [Fp],
    lanes: usize,
    cells: Vec<Fp>,
    #[cfg(test)]
    lies: Vec<CellLie>,
}

impl Filler<'_> {
    fn set(&mut self, cell: usize, lane: usize, value: Fp) {
        self.cells[cell * self.lanes + lane] = value;
        #[cfg(test)]
        for lie in &self.lies {
            if lie.cell == cell && lie.instance == lane {
                self.cells[cell * self.lanes + lane] = value + lie.delta;
            }
        }
    }

    fn get(&self, cell: usize, lane: usize) -> Fp {
        self.cells[cell * self.lanes + lane]
    }

    fn get_half(&self, lane: usize, cell: impl Fn(usize) -> usize) -> [Fp; HALF] {
        std::array::from_fn(|x| self.get(cell(x), lane))
    }

    /// The outputs of a row in all instances.
    fn row(&self, row: usize) -> Vec<[Fp; 2 * DIGEST]> {
        let Some(row) = &self.chains.relation().rows[row] else {
            return Vec::new();
        };
        let input =
            |lane: usize, i: usize| row.inputs[i].value(self.publics, |cell| self.get(cell, lane));
        let mut states: Vec<[Fp; 2 * DIGEST]> = (0..self.lanes)
            .map(|lane| std::array::from_fn(|i| input(lane, i)))
            .collect();
        self.exec.backend().compress_16(&mut states);
        states
    }

    fn given(&mut self, openings: &[&Opening]) {
        let chains = self.chains;
        for (lane, opening) in openings.iter().enumerate() {
            for x in 0..HALF {
                self.set(chains.root(x), lane, opening.root[x]);
                self.set(chains.parameter(x), lane, opening.parameter[x]);
                for (i, tip) in opening.tips.iter().enumerate() {
                    self.set(chains.tip(i, x), lane, tip[x]);
                }
            }
            self.set(chains.index(), lane, Fp::new(opening.index as u32));
            let encode = chains.last_sponge() + 1;
            for (x, rho) in opening.randomness.iter().enumerate() {
                self.set(chains.sponge(DIGEST + x, encode), lane, *rho);
            }
        }
    }

    fn encode(&mut self) {
        let chains = self.chains;
        let encode = chains.last_sponge() + 1;
        for (lane, state) in self.row(chains.sponge_row(encode)).iter().enumerate() {
            for (x, value) in state[..DIGEST].iter().enumerate() {
                self.set(chains.sponge(x, encode + 1), lane, *value);
            }
        }
        for (lane, state) in self.row(chains.sponge_row(encode + 1)).iter().enumerate() {
            for (limb, value) in state[..LIMBS].iter().enumerate() {
                let value = value.canonical();
                self.set(chains.quotient(limb), lane, Fp::new(value >> 24));
                for t in 0..LIMB_DIGITS {
                    let digit = Fp::new(value >> (3 * t) & 7);
                    self.set(chains.digit(LIMB_DIGITS * limb + t), lane, digit);
                }
            }
        }
    }

    /// The steps that an instance's digits ask for.
    fn steps(&self, lane: usize) -> Vec<Step> {
        let digits = (0..self.chains.parameters().chains)
            .map(|i| self.get(self.chains.digit(i), lane).canonical() as usize);
        let of_chain = |(i, digit): (usize, usize)| {
            (digit..7).map(move |k| Step {
                place: 8 * i + k,
                tip: k == digit,
                end: k == 6,
            })
        };
        digits.enumerate().flat_map(of_chain).collect()
    }

    fn walk(&mut self) {
        let chains = self.chains;
        for lane in 0..self.lanes {
            for i in 0..chains.parameters().chains {
                let tip = self.get_half(lane, |x| chains.tip(i, x));
                // The end of a chain that is not walked; the others come below.
                (0..HALF).for_each(|x| self.set(chains.end(i, x), lane, tip[x]));
            }
        }
        let steps: Vec<Vec<Step>> = (0..self.lanes).map(|lane| self.steps(lane)).collect();
        let mut digests = vec![[Fp::ZERO; HALF]; self.lanes];
        for t in 0..chains.parameters().steps {
            for (lane, steps) in steps.iter().enumerate() {
                // Too few steps: rows of zeros, which nothing asks for.
                let Some(step) = steps.get(t) else { continue };
                if step.tip {
                    digests[lane] = self.get_half(lane, |x| chains.tip(step.place / 8, x));
                }
                self.set(chains.step(HALF, t), lane, Fp::new(step.place as u32));
                for (x, value) in digests[lane].iter().enumerate() {
                    self.set(chains.step(x, t), lane, *value);
                }
            }
            for (lane, state) in self.row(t).iter().enumerate() {
                digests[lane].copy_from_slice(&state[..HALF]);
                if let Some(step) = steps[lane].get(t).filter(|step| step.end) {
                    for (x, value) in state[..HALF].iter().enumerate() {
                        self.set(chains.end(step.place / 8, x), lane, *value);
                    }
                }
            }
        }
    }

    /// Leaf and path; returns the roots.
    fn climb(&mut self, slot: u32, openings: &[&Opening]) -> Vec<[Fp; HALF]> {
        let chains = self.chains;
        let last = chains.last_sponge();
        for k in 0..last {
            for (lane, state) in self.row(chains.sponge_row(k)).iter().enumerate() {
                for (x, value) in state[..DIGEST].iter().enumerate() {
                    self.set(chains.sponge(x, k + 1), lane, *value);
                }
            }
        }
        let mut current = self.row(chains.sponge_row(last));
        for level in 0..chains.parameters().levels {
            let right = slot >> level & 1 == 1;
            for (lane, state) in current.iter().enumerate() {
                for (x, value) in state[..HALF].iter().enumerate() {
                    let sides = [chains.node(x, level), chains.node(HALF + x, level)];
                    let [own, other] = match right {
                        true => [sides[1], sides[0]],
                        false => sides,
                    };
                    self.set(own, lane, *value);
                    self.set(other, lane, openings[lane].path[level][x]);
                }
            }
            current = self.row(chains.node_row(level));
        }
        let half = |state: &[Fp; 2 * DIGEST]| std::array::from_fn(|x| state[x]);
        current.iter().map(half).collect()
    }
}

impl Chains {
    /// The cells of openings at a slot, the last group filled up with the first opening.
    ///
    /// # Errors
    /// [`ProveError::Capacity`] for more openings than the shape has, or for one with another
    /// number of tips or siblings than the set.
    pub fn witness(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp; DIGEST],
        openings: &[Opening],
    ) -> Result<Witness, ProveError> {
        let filled = self.fill(exec, slot, message, openings)?;
        let groups = filled.into_iter().map(|(cells, _)| cells).collect();
        Witness::new(self.relation(), groups)
    }

    /// The root that each opening leads to: it must be its own.
    ///
    /// # Errors
    /// See [`Chains::witness`].
    pub fn roots(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp; DIGEST],
        openings: &[Opening],
    ) -> Result<Vec<[Fp; HALF]>, ProveError> {
        let filled = self.fill(exec, slot, message, openings)?;
        let roots = filled.into_iter().flat_map(|(_, roots)| roots);
        Ok(roots.take(openings.len()).collect())
    }

    fn fill(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp; DIGEST],
        openings: &[Opening],
    ) -> Result<Vec<Filled>, ProveError> {
        self.check_openings(openings)?;
        let lanes = self.relation().shape.lanes();
        let publics = self.publics(slot, message);
        Ok(exec.map(openings.len().div_ceil(lanes), |g| {
            let padded: Vec<&Opening> = (g * lanes..(g + 1) * lanes)
                .map(|i| openings.get(i).unwrap_or(&openings[0]))
                .collect();
            let mut filler = self.filler(exec, &publics);
            filler.fill(slot, &padded)
        }))
    }

    fn filler<'a>(&'a self, exec: Exec<'a>, publics: &'a [Fp]) -> Filler<'a> {
        let lanes = self.relation().shape.lanes();
        Filler {
            chains: self,
            exec,
            publics,
            lanes,
            cells: vec![Fp::ZERO; self.relation().cells * lanes],
            #[cfg(test)]
            lies: Vec::new(),
        }
    }

    fn check_openings(&self, openings: &[Opening]) -> Result<(), ProveError> {
        let limits = self.parameters();
        let shape = limits.shape;
        let capacity = |what, got, max| match got == max {
            true => Ok(()),
            false => Err(ProveError::Capacity { what, got, max }),
        };
        let max = self.relation().groups_max() * shape.lanes();
        if openings.len() > max {
            return capacity("openings", openings.len(), max);
        }
        openings.iter().try_for_each(|opening| {
            capacity("tips of an opening", opening.tips.len(), limits.chains)?;
            capacity("siblings of a path", opening.path.len(), limits.levels)
        })
    }

    /// One group whose cells are changed as they are filled; what depends on them follows.
    #[cfg(test)]
    pub(crate) fn lying_group(
        &self,
        slot: u32,
        message: &[Fp; DIGEST],
        openings: &[Opening],
        lies: &[CellLie],
    ) -> Filled {
        let exec = Exec::new(crate::kernel::Backend::portable(), None);
        let publics = self.publics(slot, message);
        let mut filler = self.filler(exec, &publics);
        filler.lies = lies.to_vec();
        let openings: Vec<&Opening> = openings.iter().collect();
        filler.fill(slot, &openings)
    }
}

impl Filler<'_> {
    fn fill(&mut self, slot: u32, openings: &[&Opening]) -> Filled {
        self.given(openings);
        self.encode();
        self.walk();
        let roots = self.climb(slot, openings);
        (std::mem::take(&mut self.cells), roots)
    }
}
