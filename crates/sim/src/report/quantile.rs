//! Quantiles of values, and of times that may be absent.

/// The value not exceeded by `permille` of the sorted values (nearest rank).
pub fn quantile<T: Copy>(sorted: &[T], permille: usize) -> Option<T> {
    // `max(1)`, so that a quantile of 0 is the smallest value.
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied()
}

/// The same for values in any order; 0 if there are none.
pub fn quantile_of(values: impl Iterator<Item = u64>, permille: usize) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    quantile(&values, permille).unwrap_or(0)
}

/// Times in ascending order; absent ones count as late.
pub(crate) struct Times(Vec<u64>);

impl Times {
    pub(crate) fn of(times: impl Iterator<Item = Option<u64>>) -> Self {
        // The maximum sorts last and stands for "never": a quantile that reaches it is absent.
        let mut times: Vec<u64> = times.map(|time| time.unwrap_or(u64::MAX)).collect();
        times.sort_unstable();
        Times(times)
    }

    /// The time not exceeded by `permille` of them; none if that one is absent.
    pub(crate) fn at(&self, permille: usize) -> Option<u64> {
        quantile(&self.0, permille).filter(|&time| time != u64::MAX)
    }
}
