//! Observations by bucket, as plain data: the loop adds, a snapshot copies, a scrape shows.

/// Counts of values below fixed bounds, with their sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One more than bounds: the last is of what is above all of them.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// None yet. The bounds must ascend.
    pub fn new(bounds: &'static [f64]) -> Self {
        debug_assert!(bounds.is_sorted());
        Histogram {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    /// Adds a value; one that is no number is left out.
    pub fn observe(&mut self, value: f64) {
        self.observe_each(value, 1);
    }

    /// Adds the same value so many times: what a batch took, divided evenly among its inputs.
    pub fn observe_each(&mut self, value: f64, times: u64) {
        if value.is_finite() {
            let bucket = self.bounds.partition_point(|bound| *bound < value);
            self.counts[bucket] += times;
            self.sum += value * times as f64;
        }
    }

    /// Values in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Each bound with the number of values up to it and above the bound before; infinity last.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_below_the_first_bound_that_it_does_not_pass() {
        let mut times = Histogram::new(&[1.0, 2.0]);
        for value in [0.0, 1.0, 1.5, 2.0, 9.0, f64::NAN, f64::INFINITY] {
            times.observe(value);
        }
        assert_eq!(times.buckets(), [(1.0, 2), (2.0, 2), (f64::INFINITY, 1)]);
        assert_eq!((times.count(), times.sum()), (5, 13.5));
        times.observe_each(0.5, 4);
        assert_eq!((times.buckets()[0].1, times.sum()), (6, 15.5));
        times.observe_each(3.0, 0);
        assert_eq!(times.count(), 9);
    }
}
