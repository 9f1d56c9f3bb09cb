//! Chooses the method that sums the columns of a committee in the least time.

use core::ops::Range;

use super::base::Base;
use super::columns::CommitteeJob;
use super::costs::Costs;
use super::extract::{Group, Reference};
use super::method::{Method, SumOptions};
use super::tree::WIDTH_MAX;

/// Up to this many columns of a job are tried one by one against the bases.
const DELTA_COLUMNS_MAX: usize = 3;
/// Cost of halving a point, in running additions: a product by a scalar of 255 bits, which blst splits in two
/// halves, takes 128 doublings and about 50 additions.
const HALVE_ADDITIONS: f64 = 200.0;

/// How one job is summed.
#[derive(Debug)]
pub(crate) struct JobPlan {
    pub(crate) method: Method,
    /// Runs of columns that are summed together, each at most [`WIDTH_MAX`] wide.
    pub(crate) groups: Vec<Range<usize>>,
    /// The reference of each column; within a group either all have the same base, or none has one.
    pub(crate) references: Vec<Reference>,
    /// Positions that differ, over all groups; for naive sums, the number of additions.
    pub(crate) items: usize,
    cost_ns: f64,
}

/// The columns of a job: the planes of all its collections, in sequence.
pub(crate) struct JobColumns<'a> {
    pub(crate) columns: Vec<&'a [u64]>,
    pub(crate) positions: usize,
    /// The bases that fit.
    pub(crate) bases: Vec<&'a Base>,
}

impl<'a> JobColumns<'a> {
    pub(crate) fn new(job: &CommitteeJob<'a>, positions: usize, bases: Vec<&'a Base>) -> Self {
        let columns = job
            .collections
            .iter()
            .flat_map(|c| c.planes.iter().copied())
            .collect();
        JobColumns {
            columns,
            positions,
            bases,
        }
    }

    fn ones(&self, column: usize) -> usize {
        self.columns[column]
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    fn distance(&self, column: usize, base: &Base) -> usize {
        let pairs = self.columns[column].iter().zip(base.words());
        pairs.map(|(a, b)| (a ^ b).count_ones() as usize).sum()
    }

    /// A group of these columns against their references; `flips` is filled and borrowed.
    pub(crate) fn group<'s>(
        &'s self,
        columns: Range<usize>,
        references: &[Reference],
        flips: &'s mut Vec<u64>,
    ) -> Group<'s> {
        let references = &references[columns.clone()];
        flips.clear();
        flips.extend(
            references
                .iter()
                .map(|r| if *r == Reference::Full { !0 } else { 0 }),
        );
        let columns = &self.columns[columns];
        let folded = references.first() == Some(&Reference::First);
        let base = match references.first() {
            Some(Reference::Base(i)) => Some(self.bases[*i].words()),
            Some(Reference::First) => Some(columns[0]),
            _ => None,
        };
        Group {
            columns,
            flips,
            base,
            folded,
            positions: self.positions,
        }
    }

    /// The plan with the least predicted time, or the best one for the method in `options`.
    ///
    /// A method that needs a base falls back to `Pattern` (`Based`) or `Subtract` (`Delta`) if no base fits,
    /// and `Folded` falls back to `Pattern` if there is only one column.
    pub(crate) fn plan(&self, options: &SumOptions) -> JobPlan {
        let costs = &options.costs;
        let ones: Vec<usize> = (0..self.columns.len()).map(|j| self.ones(j)).collect();
        match options.method {
            Some(Method::Naive) => self.naive(&ones, costs),
            Some(Method::Bulk) => self.single(Method::Bulk, &ones, costs),
            Some(Method::Subtract) => self.single(Method::Subtract, &ones, costs),
            Some(Method::Delta) => self.delta(&ones, costs),
            Some(Method::Pattern) => self.pattern(&ones, costs),
            Some(Method::Based) => self
                .based(costs)
                .unwrap_or_else(|| self.pattern(&ones, costs)),
            Some(Method::Folded) => self
                .folded(costs)
                .unwrap_or_else(|| self.pattern(&ones, costs)),
            None => {
                let single = self.single(Method::Subtract, &ones, costs);
                let mut plans = vec![self.naive(&ones, costs), single];
                if self.columns.len() > 1 {
                    plans.push(self.pattern(&ones, costs));
                    plans.extend(self.based(costs));
                    plans.extend(self.folded(costs));
                }
                if self.columns.len() <= DELTA_COLUMNS_MAX {
                    plans.push(self.delta(&ones, costs));
                }
                let best = plans
                    .into_iter()
                    .reduce(|a, b| if b.cost_ns < a.cost_ns { b } else { a });
                best.expect("there are plans")
            }
        }
    }

    fn naive(&self, ones: &[usize], costs: &Costs) -> JobPlan {
        let additions: usize = ones.iter().sum();
        JobPlan {
            method: Method::Naive,
            groups: Vec::new(),
            references: Vec::new(),
            items: additions,
            cost_ns: additions as f64 * costs.naive_add_ns + ones.len() as f64 * costs.naive_ns,
        }
    }

    /// Each column by itself: from zero, or from zero or the total, whichever is nearer.
    fn single(&self, method: Method, ones: &[usize], costs: &Costs) -> JobPlan {
        let reference = |d: &usize| match method {
            Method::Bulk => (Reference::Zero, *d),
            _ => majority(*d, self.positions),
        };
        self.column_by_column(method, ones.iter().map(reference), costs)
    }

    /// Each column by itself, from the nearest known vector.
    fn delta(&self, ones: &[usize], costs: &Costs) -> JobPlan {
        let reference = |(j, d): (usize, &usize)| {
            let known = self.bases.iter().enumerate();
            let known = known.map(|(i, base)| (Reference::Base(i), self.distance(j, base)));
            known.fold(
                majority(*d, self.positions),
                |a, b| if b.1 < a.1 { b } else { a },
            )
        };
        self.column_by_column(Method::Delta, ones.iter().enumerate().map(reference), costs)
    }

    fn column_by_column(
        &self,
        method: Method,
        chosen: impl Iterator<Item = (Reference, usize)>,
        costs: &Costs,
    ) -> JobPlan {
        let (references, distances): (Vec<_>, Vec<_>) = chosen.unzip();
        let items: usize = distances.iter().sum();
        JobPlan {
            method,
            groups: (0..self.columns.len()).map(|j| j..j + 1).collect(),
            references,
            items,
            cost_ns: costs.job_ns(items as f64, items as f64, self.columns.len()),
        }
    }

    fn pattern(&self, ones: &[usize], costs: &Costs) -> JobPlan {
        let chosen = ones.iter().map(|d| majority(*d, self.positions));
        let (references, distances): (Vec<_>, Vec<usize>) = chosen.unzip();
        let distance = distances.iter().sum();
        self.grouped(Method::Pattern, references, distance, costs)
    }

    fn based(&self, costs: &Costs) -> Option<JobPlan> {
        let columns = self.columns.len();
        let plans = self.bases.iter().enumerate().map(|(i, base)| {
            let distance = (0..columns).map(|j| self.distance(j, base)).sum();
            let references = vec![Reference::Base(i); columns];
            self.grouped(Method::Based, references, distance, costs)
        });
        plans.reduce(|a, b| if b.cost_ns < a.cost_ns { b } else { a })
    }

    /// Every group against its own first column; `None` for a single column.
    fn folded(&self, costs: &Costs) -> Option<JobPlan> {
        let (first, others) = self.columns.split_first()?;
        if others.is_empty() {
            return None;
        }
        let differing = |column: &&[u64]| -> usize {
            let pairs = column.iter().zip(*first);
            pairs.map(|(a, b)| (a ^ b).count_ones() as usize).sum()
        };
        let distance: usize = others.iter().map(differing).sum();
        // The first column does not differ from itself; counting it in proportion leaves the density unchanged.
        let distance = distance + distance / others.len();
        let references = vec![Reference::First; self.columns.len()];
        Some(self.grouped(Method::Folded, references, distance, costs))
    }

    /// The best groups, given the total distance of all columns from their references.
    fn grouped(
        &self,
        method: Method,
        references: Vec<Reference>,
        distance: usize,
        costs: &Costs,
    ) -> JobPlan {
        let columns = self.columns.len();
        let folded = method == Method::Folded;
        let width_min = if folded { 2 } else { 1 };
        let mut flips = Vec::new();
        let density = distance as f64 / (columns * self.positions).max(1) as f64;
        let bits = Bits {
            positions: self.positions as f64,
            density,
        };
        let fewest = columns.div_ceil(WIDTH_MAX);
        let candidates = [fewest, fewest + 1, 2 * fewest];
        // Each number once, and no group below the minimum width.
        let tried = candidates.into_iter().enumerate().filter(|(i, groups)| {
            width_min * *groups <= columns && !candidates[..*i].contains(groups)
        });
        let tried = tried.map(|(_, count)| {
            let groups = cut_evenly(columns, count);
            let (mut items, mut additions) = (0, 0.0);
            for group in &groups {
                let touched = self.group(group.clone(), &references, &mut flips).touched();
                items += touched;
                additions += match folded {
                    true => bits.folded_additions(group.len() as u32),
                    false => bits.additions(touched as f64, group.len() as u32, group.len() == 1),
                };
            }
            let halves = if folded { count } else { 0 };
            let halves_ns = halves as f64 * HALVE_ADDITIONS * costs.naive_add_ns;
            let cost_ns = costs.job_ns(additions, items as f64, count) + halves_ns;
            (cost_ns, groups, items)
        });
        let best = tried.reduce(|a, b| if b.0 < a.0 { b } else { a });
        let (cost_ns, groups, items) = best.unwrap_or_default();
        JobPlan {
            method,
            groups,
            references,
            items,
            cost_ns,
        }
    }
}

/// The nearer of the empty and the full vector, and the distance to it.
fn majority(ones: usize, positions: usize) -> (Reference, usize) {
    if 2 * ones > positions {
        (Reference::Full, positions - ones)
    } else {
        (Reference::Zero, ones)
    }
}

/// The best groups for columns of random bits.
pub(crate) fn random_groups(columns: usize, positions: usize, costs: &Costs) -> Vec<Range<usize>> {
    let cost = |groups: &Vec<Range<usize>>| -> f64 {
        let one = |group: &Range<usize>| {
            let touched = positions as f64 * (1.0 - 0.5f64.powi(group.len() as i32));
            let bits = Bits {
                positions: positions as f64,
                density: 0.5,
            };
            let additions = bits.additions(touched, group.len() as u32, group.len() == 1);
            costs.groups_ns(additions, touched, 1)
        };
        groups.iter().map(one).sum()
    };
    let candidates =
        (columns.div_ceil(WIDTH_MAX)..=columns).map(|count| cut_evenly(columns, count));
    let best = candidates
        .map(|groups| (cost(&groups), groups))
        .reduce(|a, b| if b.0 < a.0 { b } else { a });
    best.map(|(_, groups)| groups).unwrap_or_default()
}

/// `count` groups whose widths differ by at most one.
fn cut_evenly(columns: usize, count: usize) -> Vec<Range<usize>> {
    (0..count)
        .map(|i| columns * i / count..columns * (i + 1) / count)
        .collect()
}

/// Positions whose bits are set independently with one probability: the model behind the prediction.
#[derive(Clone, Copy)]
struct Bits {
    positions: f64,
    density: f64,
}

impl Bits {
    /// Expected number of distinct patterns of `width` bits, excluding 0.
    fn distinct(self, width: u32) -> f64 {
        let Bits { positions, density } = self;
        let (mut patterns, mut sum) = (1.0, 0.0);
        for ones in 1..=width {
            patterns *= f64::from(width - ones + 1) / f64::from(ones);
            let probability =
                density.powi(ones as i32) * (1.0 - density).powi((width - ones) as i32);
            // The chance that at least one position has the pattern, for a Poisson number of them.
            sum += patterns * (1.0 - (-positions * probability).exp());
        }
        sum
    }

    /// Expected additions of the digit tree for `items` non-zero values of `width` bits.
    fn additions(self, items: f64, width: u32, merged: bool) -> f64 {
        if merged && width <= 4 {
            let values = f64::from(1u32 << width);
            // Of the 2^width - 1 values that are not 0, half of 2^width have a given bit.
            let bit_set = values / 2.0 / (values - 1.0);
            return f64::from(width) * (items * bit_set - 1.0).max(0.0);
        }
        let halves = |items: f64| {
            let half = |width: u32| {
                let touched = items * (1.0 - 1.0 / f64::from(1u32 << width));
                let digits = self.distinct(width).min(touched);
                touched - digits + self.additions(digits, width, true)
            };
            half(width / 2) + half(width - width / 2)
        };
        if merged {
            return halves(items);
        }
        let different = self.distinct(width).min(items);
        let merging = items - different + self.additions(different, width, true);
        if width <= 8 {
            merging
        } else {
            merging.min(halves(items))
        }
    }
}

impl Bits {
    /// Expected additions of a folded group whose columns differ from the first one with this density: every
    /// position is an item, and its value has one bit that is always set.
    fn folded_additions(self, width: u32) -> f64 {
        // One more than `distinct` counts: the pattern without differences.
        let different = (self.distinct(width - 1) + 1.0).min(self.positions);
        self.positions - different + self.additions(different, width, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Horn (ethresear.ch): sixteen collections over 2^15 random bits. The four-Russians method alone takes
    /// 66.3 k additions in groups of 8 + 8.
    #[test]
    fn sixteen_random_columns_go_in_one_group_merged_first() {
        let costs = Costs::default();
        assert_eq!(random_groups(16, 1 << 15, &costs), vec![0..16]);
        let bits = Bits {
            positions: 32768.0,
            density: 0.5,
        };
        let additions = bits.additions(32768.0, 16, false);
        assert!((58_000.0..60_000.0).contains(&additions), "{additions}");
        let additions = bits.additions(32640.0, 8, false);
        assert!((32_800.0..33_000.0).contains(&additions), "{additions}");
        // At 99 % hardly any pattern has more than two bits.
        let bits = Bits {
            positions: 32768.0,
            density: 0.01,
        };
        assert!(
            (130.0..160.0).contains(&bits.distinct(16)),
            "{}",
            bits.distinct(16)
        );
    }

    #[test]
    fn folding_saves_a_tenth_of_the_additions_of_random_columns() {
        let bits = Bits {
            positions: 32768.0,
            density: 0.5,
        };
        let additions = bits.folded_additions(16);
        assert!((53_000.0..54_500.0).contains(&additions), "{additions}");
    }

    #[test]
    fn groups_cover_all_columns_once() {
        for columns in [1, 2, 3, 16, 17, 32, 64, 100] {
            for positions in [512, 1 << 15, 0] {
                let groups = random_groups(columns, positions, &Costs::default());
                assert!(groups.iter().all(|g| (1..=WIDTH_MAX).contains(&g.len())));
                assert!(groups.windows(2).all(|w| w[0].end == w[1].start));
                assert_eq!(
                    (groups[0].start, groups[groups.len() - 1].end),
                    (0, columns)
                );
            }
        }
    }

    #[test]
    fn the_planner_follows_the_bits() {
        let positions = 2048;
        let words = positions / 64;
        let random = |seed: u64| -> Vec<u64> {
            let word = |i: u64| {
                (seed * 1000 + i)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(29)
            };
            (0..words as u64)
                .map(|i| word(i).wrapping_mul(0x94d0_49bb_1331_11eb))
                .collect()
        };
        let plan = |columns: Vec<Vec<u64>>| {
            let columns = columns.iter().map(Vec::as_slice).collect();
            let job = JobColumns {
                columns,
                positions,
                bases: Vec::new(),
            };
            job.plan(&SumOptions::default())
        };
        assert_eq!(plan((0..16).map(random).collect()).method, Method::Pattern);
        assert_eq!(plan(vec![random(1)]).method, Method::Subtract);
        let mut few = vec![0; words];
        few[3] = 7;
        assert_eq!(plan(vec![few]).method, Method::Naive);
        assert!(plan(Vec::new()).groups.is_empty());
    }
}
