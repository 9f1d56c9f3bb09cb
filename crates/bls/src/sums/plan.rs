//! Which method sums the columns of a committee in the least time.

use core::ops::Range;

use super::base::Base;
use super::columns::CommitteeJob;
use super::costs::Costs;
use super::extract::{Group, Reference};
use super::tree::WIDTH_MAX;
use super::{Method, SumOptions};

/// Up to this many columns of a job are tried one by one against the bases.
const DELTA_COLUMNS_MAX: usize = 3;

/// How one job is summed.
#[derive(Debug)]
pub(crate) struct JobPlan {
    pub(crate) method: Method,
    /// Runs of columns that are summed together, each at most [`WIDTH_MAX`] wide.
    pub(crate) groups: Vec<Range<usize>>,
    /// What each column is compared with; inside a group either all have the same base, or none.
    pub(crate) references: Vec<Reference>,
    /// Positions that differ, over all groups.
    pub(crate) items: usize,
    cost_ns: f64,
}

/// The columns of a job: the planes of all its collections, one after the other.
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

    /// A group of these columns against their references; `flips` is filled and lent.
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
        let base = match references.first() {
            Some(Reference::Base(i)) => Some(self.bases[*i].words()),
            _ => None,
        };
        Group {
            columns: &self.columns[columns],
            flips,
            base,
            positions: self.positions,
        }
    }

    /// The plan of least predicted time, or the best one of the method that `options` names.
    ///
    /// A method that needs a base falls back to `Pattern` (`Based`) or `Subtract` (`Delta`) where no
    /// base fits.
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
                .based(&ones, costs)
                .unwrap_or_else(|| self.pattern(&ones, costs)),
            None => {
                let mut plans = vec![
                    self.naive(&ones, costs),
                    self.single(Method::Subtract, &ones, costs),
                    self.pattern(&ones, costs),
                ];
                plans.extend(self.based(&ones, costs));
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
            items: 0,
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

    /// Each column by itself, from whatever known vector is nearest.
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
            cost_ns: costs.tree_ns(items as f64, items as f64, self.columns.len()),
        }
    }

    fn pattern(&self, ones: &[usize], costs: &Costs) -> JobPlan {
        let references = ones
            .iter()
            .map(|d| majority(*d, self.positions).0)
            .collect();
        self.grouped(Method::Pattern, references, costs)
    }

    fn based(&self, _ones: &[usize], costs: &Costs) -> Option<JobPlan> {
        let plans = (0..self.bases.len()).map(|i| {
            self.grouped(
                Method::Based,
                vec![Reference::Base(i); self.columns.len()],
                costs,
            )
        });
        plans.reduce(|a, b| if b.cost_ns < a.cost_ns { b } else { a })
    }

    fn grouped(&self, method: Method, references: Vec<Reference>, costs: &Costs) -> JobPlan {
        let mut flips = Vec::new();
        let mut touched =
            |columns: Range<usize>| self.group(columns, &references, &mut flips).touched();
        // The density of single columns bounds that of a group; all columns together bound it too.
        let single: usize = (0..self.columns.len()).map(|j| touched(j..j + 1)).sum();
        let density = single as f64 / (self.columns.len() * self.positions).max(1) as f64;
        let groups = widths(self.columns.len(), self.positions, density, costs);
        let (mut items, mut additions) = (0, 0.0);
        for group in &groups {
            let count = touched(group.clone());
            items += count;
            additions += tree_additions(count as f64, group.len() as u32, group.len() == 1);
        }
        let cost_ns = costs.tree_ns(additions, items as f64, groups.len());
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
pub(crate) fn random_widths(columns: usize, positions: usize, costs: &Costs) -> Vec<Range<usize>> {
    widths(columns, positions, 0.5, costs)
}

/// Cuts `columns` columns into groups of nearly equal width, of least predicted cost if a position
/// differs in each column independently with probability `density`.
fn widths(columns: usize, positions: usize, density: f64, costs: &Costs) -> Vec<Range<usize>> {
    let cost = |groups: usize| {
        let (narrow, wide) = (columns / groups, columns % groups);
        let one = |width: usize| {
            let touched = positions as f64 * (1.0 - (1.0 - density).powi(width as i32));
            let additions = tree_additions(touched, width as u32, width == 1);
            costs.tree_ns(additions, touched, 1)
        };
        (groups - wide) as f64 * one(narrow)
            + if wide == 0 {
                0.0
            } else {
                wide as f64 * one(narrow + 1)
            }
    };
    let fewest = columns.div_ceil(WIDTH_MAX);
    let best = (fewest..=columns)
        .map(|groups| (groups, cost(groups)))
        .fold((fewest, f64::INFINITY), |best, next| {
            if next.1 < best.1 { next } else { best }
        });
    let groups = best.0;
    (0..groups)
        .map(|i| columns * i / groups..columns * (i + 1) / groups)
        .collect()
}

/// Expected additions of the digit tree for `items` random values of `width` bits.
fn tree_additions(items: f64, width: u32, merged: bool) -> f64 {
    let values = f64::from(1u32 << width);
    let distinct = values * (1.0 - (-items / values).exp());
    let (low, high) = (width / 2, width - width / 2);
    if merged && width <= 4 {
        return f64::from(width) * (items / 2.0 - 1.0).max(0.0);
    }
    let halves = |items: f64| {
        let half = |width: u32| {
            let values = f64::from(1u32 << width);
            let touched = items * (1.0 - 1.0 / values);
            let distinct = values * (1.0 - (-touched / values).exp());
            touched - distinct + tree_additions(distinct, width, true)
        };
        half(low) + half(high)
    };
    if merged {
        return halves(items);
    }
    let merging = items - distinct + tree_additions(distinct, width, true);
    if width <= 8 {
        merging
    } else {
        merging.min(halves(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Horn (ethresear.ch): sixteen collections over 2^15 random bits; the four-Russians method
    /// alone takes 66.3 k additions in groups of 8 + 8.
    #[test]
    fn sixteen_random_columns_go_in_one_group_merged_first() {
        let groups = widths(16, 1 << 15, 0.5, &Costs::default());
        assert_eq!(groups, vec![0..16]);
        let additions = tree_additions(32768.0, 16, false);
        assert!((58_000.0..60_000.0).contains(&additions), "{additions}");
        assert!((32_800.0..33_000.0).contains(&tree_additions(32640.0, 8, false)));
    }

    #[test]
    fn widths_cover_all_columns_once() {
        for columns in [1, 2, 3, 16, 17, 32, 64, 100] {
            for (positions, density) in [(512, 0.5), (1 << 15, 0.5), (1 << 15, 0.01), (0, 0.0)] {
                let groups = widths(columns, positions, density, &Costs::default());
                assert!(groups.iter().all(|g| (1..=WIDTH_MAX).contains(&g.len())));
                assert!(groups.windows(2).all(|w| w[0].end == w[1].start));
                assert_eq!(
                    (groups[0].start, groups[groups.len() - 1].end),
                    (0, columns)
                );
            }
        }
    }
}
