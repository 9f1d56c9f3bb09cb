//! Finds the bad inputs among many by testing groups.
//!
//! Generalised binary splitting (F. K. Hwang, "A method for detecting all defective members in a
//! population by group testing", 1972) with an estimate of the bad fraction that is updated during
//! the search. If more than 38 % are bad, testing one by one is best (P. Ungar, "The cutoff point
//! for group testing", 1960), and the search does that. Classic bisection needs twice as many
//! checks as inputs when all are bad.

use std::ops::Range;

/// The search among `n` inputs, as a state machine: [`Bisect::next`] returns the range to check,
/// [`Bisect::answer`] takes the result.
///
/// Ranges are of *places*: the inputs in the order of [`Bisect::order`], which is randomised so
/// that an adversary that chooses the order of the inputs does not choose the number of checks.
#[derive(Clone, Debug)]
pub struct Bisect {
    order: Vec<u32>,
    /// Everything below this is decided.
    decided: usize,
    /// The group being checked, or known to contain a bad input.
    group: Range<usize>,
    /// Whether `group` failed and its first bad input is being searched.
    failed: bool,
    bad: Vec<u32>,
    checks: u32,
}

impl Bisect {
    /// Creates a search among `inputs` inputs in an order drawn from `seed`.
    pub fn new(inputs: u32, seed: u64) -> Self {
        let mut search = Self::in_order(inputs);
        let mut state = seed;
        for i in (1..search.order.len()).rev() {
            search.order.swap(i, below(&mut state, i + 1));
        }
        search
    }

    /// Creates a search that takes the inputs in the given order. It is equally exact, but whoever
    /// orders the inputs influences the number of checks. For inputs that can be tested in no other
    /// order.
    pub fn in_order(inputs: u32) -> Self {
        let order: Vec<u32> = (0..inputs).collect();
        Self {
            group: 0..order.len(),
            order,
            decided: 0,
            failed: false,
            bad: Vec::new(),
            checks: 0,
        }
    }

    /// The input at each place.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Returns the range of places to check next for all being good. None when every input is
    /// decided.
    pub fn next(&self) -> Option<Range<usize>> {
        if self.group.is_empty() {
            None
        } else if self.failed {
            Some(self.group.start..self.middle())
        } else {
            Some(self.group.clone())
        }
    }

    /// Takes the result of the check requested by [`Bisect::next`]: whether all are good.
    ///
    /// # Panics
    ///
    /// If no check was requested.
    pub fn answer(&mut self, all_good: bool) {
        assert!(!self.group.is_empty(), "no check was asked for");
        self.checks += 1;
        match (self.failed, all_good) {
            (false, true) => self.decided = self.group.end,
            (false, false) => self.failed = true,
            // If the first half of a failed group is good, its bad input is in the second.
            (true, true) => self.group.start = self.middle(),
            // Nothing is known any more of the second half, which is checked again later as
            // undecided.
            (true, false) => self.group.end = self.middle(),
        }
        if self.failed && self.group.len() == 1 {
            let place = self.group.start;
            self.bad.push(self.order[place]);
            self.decided = place + 1;
            self.failed = false;
        }
        if !self.failed {
            let end = self.decided + self.group_size();
            self.group = self.decided..end.min(self.order.len());
        }
    }

    /// Number of checks answered.
    pub fn checks(&self) -> u32 {
        self.checks
    }

    /// The bad inputs found so far, ascending. Complete when [`Bisect::next`] returns none.
    pub fn bad(&self) -> Vec<u32> {
        let mut bad = self.bad.clone();
        bad.sort_unstable();
        bad
    }

    fn middle(&self) -> usize {
        self.group.start + self.group.len() / 2
    }

    /// Size of the next group: a power of two near ln 2 / p, with p = (f + 1/2) / (m + 1) where f
    /// of m decided inputs are bad, so that a group is good about half of the time.
    fn group_size(&self) -> usize {
        if self.bad.is_empty() {
            // The first check found everything good; all is decided, and the next group is empty.
            return self.order.len();
        }
        let (f, m) = (self.bad.len() as u64, self.decided as u64);
        // p >= 0.38, in integers.
        if 25 * (2 * f + 1) >= 19 * (m + 1) {
            return 1;
        }
        // 2 ln 2 = 1.386.
        let ratio = 1386 * (m + 1) / (1000 * (2 * f + 1));
        1 << ratio.max(1).ilog2()
    }
}

/// Returns a number below `bound` (SplitMix64).
fn below(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let wide = u128::from(z ^ (z >> 31)) * bound as u128;
    (wide >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search and returns the bad inputs and the number of checks.
    fn search(bad: &[bool], seed: u64) -> (Vec<u32>, u32) {
        let mut bisect = Bisect::new(bad.len() as u32, seed);
        while let Some(range) = bisect.next() {
            assert!(!range.is_empty());
            let inputs = &bisect.order()[range];
            let all_good = inputs.iter().all(|i| !bad[*i as usize]);
            bisect.answer(all_good);
        }
        (bisect.bad(), bisect.checks())
    }

    #[test]
    fn the_verdict_is_that_of_single_checks_for_every_subset() {
        for n in 0..=10_u32 {
            for subset in 0..1_u32 << n {
                let bad: Vec<bool> = (0..n).map(|i| subset >> i & 1 == 1).collect();
                let expected: Vec<u32> = (0..n).filter(|i| bad[*i as usize]).collect();
                for seed in 0..3 {
                    assert_eq!(search(&bad, seed).0, expected, "{n} inputs, {subset:b}");
                }
            }
        }
    }

    /// Mean and maximum of the checks over 200 random placements of `k` bad among 1,024.
    fn checks(k: usize) -> (u32, u32) {
        let mut state = 5;
        let counts: Vec<u32> = (0..200)
            .map(|seed| {
                let mut bad = vec![false; 1024];
                let mut left = k;
                while left > 0 {
                    let at = below(&mut state, bad.len());
                    left -= usize::from(!std::mem::replace(&mut bad[at], true));
                }
                search(&bad, seed).1
            })
            .collect();
        let mean = counts.iter().sum::<u32>() / counts.len() as u32;
        (mean, counts.into_iter().max().unwrap())
    }

    #[test]
    fn checks_stay_near_the_information_bound() {
        assert_eq!(checks(0), (1, 1));
        assert_eq!(checks(1024), (1034, 1034));
        // The information bounds are 10, 65, 341, 826 and 1,019.
        for (k, mean_max, max) in [
            (1, 18, 34),
            (8, 80, 100),
            (64, 370, 400),
            (256, 870, 890),
            (512, 1040, 1050),
        ] {
            let (mean, most) = checks(k);
            assert!(mean <= mean_max && most <= max, "{k} bad: {mean} {most}");
        }
    }
}
