//! Sums of products of two vectors that lie in blocks of equal size, few of which are nonzero. Rounds of sumcheck
//! run first over the numbers of the blocks, then within a block.

use std::collections::BTreeMap;

use alphorn_exec::{Exec, Stopped};

use super::prover::{OpenSlices, Product, SlopeProduct};
use crate::extension::Ext;
use crate::kernel::Dispatch;
use crate::sumcheck::bind;
use crate::vector::Planes;

/// Two vectors, block by block.
type Pair = [Planes; 2];

/// Weights top(i)·low of all blocks i, including those whose values are zero.
pub(crate) struct Outer {
    /// By the number of the block.
    pub(crate) top: Vec<Ext>,
    /// Within a block.
    pub(crate) low: Planes,
    /// ⟨values, low⟩ by the number of the block.
    pub(crate) sums: Vec<Ext>,
}

/// Σ over all blocks of values · weights.
pub(crate) struct Blocks {
    /// Number of coordinates of the number of a block.
    coordinates: usize,
    blocks: BTreeMap<usize, Pair>,
    outer: Option<Outer>,
}

/// Two blocks whose numbers differ in the highest bit; one of them may be zero.
struct Halves<'a>(Option<&'a Pair>, Option<&'a Pair>);

impl Blocks {
    /// Blocks with numbers of this many bits: values and weights of each.
    pub(crate) fn new(coordinates: usize, blocks: BTreeMap<usize, Pair>) -> Blocks {
        Blocks {
            coordinates,
            blocks,
            outer: None,
        }
    }

    /// Blocks with their values, weighted by top(number)·low.
    pub(crate) fn of_outer(
        exec: Exec<'_>,
        coordinates: usize,
        values: BTreeMap<usize, Planes>,
        top: Vec<Ext>,
        low: Planes,
    ) -> Result<Blocks, Stopped> {
        let numbers: Vec<usize> = values.keys().copied().collect();
        let backend = exec.backend().fitting(low.len());
        let products = exec.try_map(numbers.len(), |i| {
            backend.run(Product(&values[&numbers[i]], &low))
        })?;
        let mut sums = vec![Ext::ZERO; top.len()];
        for (number, sum) in numbers.iter().zip(products) {
            sums[*number] = sum;
        }
        let zero = Planes::zero(low.len());
        let pairs = values
            .into_iter()
            .map(|(number, x)| (number, [x, zero.clone()]));
        let blocks = Blocks::new(coordinates, pairs.collect());
        Ok(blocks.with(Outer { top, low, sums }))
    }

    /// The same with additional weights common to all blocks.
    pub(crate) fn with(self, outer: Outer) -> Blocks {
        Blocks {
            outer: Some(outer),
            ..self
        }
    }

    fn pairs(&self) -> Vec<(usize, Halves<'_>)> {
        // A block whose partner is absent still forms a pair: its partner is zero, in both vectors.
        let half = 1 << (self.coordinates - 1);
        let mut numbers: Vec<usize> = self.blocks.keys().map(|number| number % half).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let pair = |number: usize| {
            let (low, high) = (self.blocks.get(&number), self.blocks.get(&(number + half)));
            (number, Halves(low, high))
        };
        numbers.into_iter().map(pair).collect()
    }

    /// The result when all coordinates are bound: one value of each vector.
    pub(crate) fn last(&self) -> [Ext; 2] {
        let last = self.blocks.get(&0);
        last.map_or([Ext::ZERO; 2], |pair| [pair[0].get(0), pair[1].get(0)])
    }

    /// When one block is left, folds the common weights into its own.
    fn join_outer(&mut self, exec: Exec<'_>) {
        if let (Some(outer), Some(pair)) = (self.outer.take(), self.blocks.get_mut(&0)) {
            let backend = exec.backend().fitting(outer.low.len());
            pair[1].add_scaled(backend, &outer.low, outer.top[0]);
        }
    }

    /// Σ values · weights.
    pub(crate) fn sum(&self, exec: Exec<'_>) -> Result<Ext, Stopped> {
        let pairs: Vec<&Pair> = self.blocks.values().collect();
        let sums = exec.try_map(pairs.len(), |i| product(exec, pairs[i]))?;
        let outer = self
            .outer
            .iter()
            .flat_map(|outer| outer.top.iter().zip(&outer.sums));
        let outer: Ext = outer.map(|(top, sum)| *top * *sum).sum();
        Ok(outer + sums.into_iter().sum())
    }
}

fn product(exec: Exec<'_>, [values, weights]: &Pair) -> Ext {
    let backend = exec.backend().fitting(values.len());
    backend.run(Product(values, weights))
}

impl Outer {
    fn totals(&self) -> [Ext; 2] {
        let half = self.top.len() / 2;
        let slope = |x: &[Ext], i: usize| x[half + i] - x[i];
        (0..half).fold([Ext::ZERO; 2], |sum, i| {
            [
                sum[0] + self.top[i] * self.sums[i],
                sum[1] + slope(&self.top, i) * slope(&self.sums, i),
            ]
        })
    }
}

impl Halves<'_> {
    fn totals(&self, exec: Exec<'_>) -> [Ext; 2] {
        match self {
            Halves(Some(low), Some(high)) => {
                let backend = exec.backend().fitting(low[0].len());
                let slopes = SlopeProduct([&low[0], &high[0]], [&low[1], &high[1]]);
                [product(exec, low), backend.run(slopes)]
            }
            // With the other half zero the round is (1 − X)²·⟨low⟩: value at 0 and leading
            // coefficient are the same sum.
            Halves(Some(low), None) => [product(exec, low); 2],
            // X²·⟨high⟩: nothing at 0.
            Halves(None, Some(high)) => [Ext::ZERO, product(exec, high)],
            Halves(None, None) => [Ext::ZERO; 2],
        }
    }

    fn bind(&self, exec: Exec<'_>, x: Ext) -> Pair {
        [0, 1].map(|i| {
            let parts = [(self.0, Ext::ONE - x), (self.1, x)];
            let len = self.0.or(self.1).map_or(0, |pair| pair[i].len());
            let mut bound = Planes::zero(len);
            for (pair, factor) in parts {
                if let Some(pair) = pair {
                    bound.add_scaled(exec.backend().fitting(len), &pair[i], factor);
                }
            }
            bound
        })
    }
}

/// The halves of a pair.
fn split([values, weights]: &Pair) -> [Pair; 2] {
    let [f0, f1] = values.halves();
    let [w0, w1] = weights.halves();
    [[f0, w0], [f1, w1]]
}

impl OpenSlices for Blocks {
    fn totals(&self, exec: Exec<'_>) -> Result<[Ext; 2], Stopped> {
        let sums = if self.coordinates > 0 {
            let pairs = self.pairs();
            exec.try_map(pairs.len(), |i| pairs[i].1.totals(exec))?
        } else {
            let within = self.blocks.get(&0).into_iter();
            let within = within.map(|pair| {
                let [low, high] = split(pair);
                Halves(Some(&low), Some(&high)).totals(exec)
            });
            within.collect()
        };
        // Weights that all blocks share are summed over block numbers only, from products computed once: absent
        // blocks have a weight there, but take no memory.
        let outer = self.outer.iter().map(Outer::totals);
        let zero = [Ext::ZERO; 2];
        Ok(sums
            .into_iter()
            .chain(outer)
            .fold(zero, |sum, x| [sum[0] + x[0], sum[1] + x[1]]))
    }

    fn bind(&mut self, exec: Exec<'_>, x: Ext) -> Result<(), Stopped> {
        if self.coordinates > 0 {
            let pairs = self.pairs();
            let bound = exec.try_map(pairs.len(), |i| (pairs[i].0, pairs[i].1.bind(exec, x)))?;
            self.blocks = bound.into_iter().collect();
            self.coordinates -= 1;
            if let Some(outer) = &mut self.outer {
                bind(&mut outer.top, x);
                bind(&mut outer.sums, x);
            }
            if self.coordinates == 0 {
                self.join_outer(exec);
            }
        } else if let Some(pair) = self.blocks.get_mut(&0) {
            *pair = pair.each_ref().map(|planes| {
                let backend = exec.backend().fitting(planes.len() / 2);
                planes.fold(backend, x)
            });
        }
        Ok(())
    }

    fn finish(mut self, _: Exec<'_>, _: &[Ext]) -> Result<[Planes; 2], Stopped> {
        Ok(self
            .blocks
            .remove(&0)
            .unwrap_or_else(|| [0, 1].map(Planes::zero)))
    }
}
