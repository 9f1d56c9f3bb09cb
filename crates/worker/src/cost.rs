//! Predicts the run time of jobs, learned from past runs.
//!
//! A scheme knows the shape of its costs ([`Features::prior_ns`], including every padding step); a
//! host scales them by a factor. The factor is learned per kind and size class of job, number of
//! threads and number of busy lanes, as a normal distribution of its logarithm. With ρ = ln(actual
//! / prior), mean μ and variance σ², a sample moves μ by a fraction of ρ - μ, at most ln 2 at once,
//! and by more when samples deviate twice in a row in the same direction. An outlier is thus
//! tolerated and a slower host is learned.
//!
//! Logarithms and exponentials come from `libm`, so that the simulator's order of events is the
//! same on every platform.

use alphorn_scheme::Features;

/// Maximum number of keys remembered; the one with the oldest sample is dropped first.
pub(crate) const KEYS_MAX: usize = 256;

/// Number of slots without a sample after which the mean halves, repeatedly.
const FORGET_SLOTS: u64 = 64;

/// Deviation before any sample.
const SIGMA_START: f64 = 0.3;

/// Minimum deviation: no host is more regular.
const SIGMA_MIN: f64 = 0.05;

/// Number of deviations for a 90 % prediction. A normal distribution has 1.28, but the estimate
/// itself is noisy: with 8 % jitter and 1 % outliers 1.28 covers 86.6 % and 1.5 covers 89.8 %.
const T90_SIGMAS: f64 = 1.5;

/// Number of deviations for a 99 % prediction, and for a sample to count as deviating.
const T99_SIGMAS: f64 = 2.5;

/// The key of a learned factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CostKey {
    /// The operation, [`Features::kind`].
    pub kind: u16,
    /// The padded size class, [`Features::class`].
    pub class: u8,
    /// Number of threads of the lane.
    pub threads: u16,
    /// Number of busy lanes, including this one.
    pub lanes_busy: u16,
}

impl CostKey {
    /// Returns the key of a job on a lane.
    pub(crate) const fn new(features: &Features, threads: u16, lanes_busy: u16) -> Self {
        Self {
            kind: features.kind,
            class: features.class,
            threads,
            lanes_busy,
        }
    }
}

/// What is known of one key.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Factor {
    mean: f64,
    variance: f64,
    /// Number of consecutive deviating samples: positive above, negative below.
    streak: i8,
    /// Slot of the last sample.
    slot: u64,
}

const UNKNOWN: Factor = Factor {
    mean: 0.0,
    variance: SIGMA_START * SIGMA_START,
    streak: 0,
    slot: 0,
};

impl Factor {
    /// Returns the factor as estimated in `slot`: without samples it returns to the prior.
    fn aged(mut self, slot: u64) -> Self {
        let halvings = slot.saturating_sub(self.slot) / FORGET_SLOTS;
        self.mean = libm::scalbn(
            self.mean,
            // The mean is a logarithm of u64 ratios, below 2^6: 1,100 halvings are below the least
            // f64, 2^-1074.
            -i32::try_from(halvings).unwrap_or(i32::MAX).min(1100),
        );
        self
    }

    fn sigma(&self) -> f64 {
        libm::sqrt(self.variance)
    }

    fn learn(&mut self, rho: f64, slot: u64) {
        let residual = rho - self.mean;
        let sign = if residual > 0.0 { 1 } else { -1 };
        self.streak = match libm::fabs(residual) > T99_SIGMAS * self.sigma() {
            true if self.streak.signum() == sign => self.streak.saturating_add(sign),
            true => sign,
            false => 0,
        };
        let part = if self.streak.unsigned_abs() >= 2 {
            0.5
        } else {
            0.2
        };
        let delta = residual.clamp(-std::f64::consts::LN_2, std::f64::consts::LN_2);
        self.mean += part * delta;
        // The exponentially weighted variance with weight a = 0.2, (1 - a)(v + a d^2). With d^2 at
        // most 9v it grows at most to 0.8 (1 + 1.8) = 2.24 times, so one outlier widens sigma by at
        // most half.
        let square = (delta * delta).min(9.0 * self.variance);
        self.variance = (0.8 * (self.variance + 0.2 * square)).max(SIGMA_MIN * SIGMA_MIN);
        self.slot = slot;
    }
}

/// How long a job is expected to take, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Half of such jobs take at most this long.
    pub t50_ns: u64,
    /// Nine in ten.
    pub t90_ns: u64,
    /// Ninety-nine in a hundred.
    pub t99_ns: u64,
}

/// Learned factors of at most `KEYS_MAX` keys.
#[derive(Clone, Debug, Default)]
pub struct CostModel {
    /// Ascending by key.
    factors: Vec<(CostKey, Factor)>,
}

impl CostModel {
    /// Creates a model without samples, which uses every prior as is.
    pub fn new() -> Self {
        Self::default()
    }

    /// Predicts a job with prior `prior_ns`, as of `slot`.
    pub fn predict(&self, key: &CostKey, prior_ns: u64, slot: u64) -> Prediction {
        let factor = self.factor(key, slot);
        let sigma = factor.sigma();
        let at = |sigmas: f64| scaled(prior_ns, factor.mean + sigmas * sigma);
        Prediction {
            t50_ns: at(0.0),
            t90_ns: at(T90_SIGMAS),
            t99_ns: at(T99_SIGMAS),
        }
    }

    /// Probability that the job takes at most `limit_ns`.
    pub fn within(&self, key: &CostKey, prior_ns: u64, limit_ns: u64, slot: u64) -> f64 {
        if limit_ns == 0 {
            return 0.0;
        }
        let factor = self.factor(key, slot);
        let ratio = limit_ns as f64 / prior_ns.max(1) as f64;
        let deviations = (libm::log(ratio) - factor.mean) / factor.sigma();
        0.5 * libm::erfc(-deviations / std::f64::consts::SQRT_2)
    }

    /// Learns from a job that ran to its end. A stopped or crashed one gives no information.
    pub fn learn(&mut self, key: CostKey, prior_ns: u64, actual_ns: u64, slot: u64) {
        let mut factor = self.factor(&key, slot);
        if self.place(&key).is_err() && self.factors.len() == KEYS_MAX {
            let places = self.factors.iter().enumerate();
            let oldest = places.min_by_key(|(_, (key, factor))| (factor.slot, *key));
            if let Some((oldest, _)) = oldest {
                self.factors.remove(oldest);
            }
        }
        let rho = libm::log(actual_ns.max(1) as f64 / prior_ns.max(1) as f64);
        factor.learn(rho, slot);
        match self.place(&key) {
            Ok(place) => self.factors[place].1 = factor,
            Err(place) => {
                // Most models have two or three keys.
                self.factors.reserve_exact(1);
                self.factors.insert(place, (key, factor));
            }
        }
    }

    fn place(&self, key: &CostKey) -> Result<usize, usize> {
        self.factors.binary_search_by_key(key, |(key, _)| *key)
    }

    fn factor(&self, key: &CostKey, slot: u64) -> Factor {
        let known = self
            .place(key)
            .map_or(UNKNOWN, |place| self.factors[place].1);
        known.aged(slot)
    }
}

/// `prior_ns * e^log_factor`, at least 1.
fn scaled(prior_ns: u64, log_factor: f64) -> u64 {
    // The conversion saturates.
    ((prior_ns as f64 * libm::exp(log_factor)) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: CostKey = CostKey {
        kind: 2,
        class: 9,
        threads: 4,
        lanes_busy: 1,
    };
    const PRIOR_NS: u64 = 1_000_000_000;

    /// Times around `mean_ns` with a deviation of 8 %, nearly normal.
    struct Jitter(u64);

    impl Jitter {
        fn around(&mut self, mean_ns: u64) -> u64 {
            let mut permille = 1000 - 4 * 69;
            for _ in 0..4 {
                self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                permille += (self.0 >> 33) % 139;
            }
            mean_ns * permille / 1000
        }
    }

    #[test]
    fn the_prior_is_believed_until_there_are_samples() {
        let model = CostModel::new();
        let prediction = model.predict(&KEY, PRIOR_NS, 0);
        assert_eq!(prediction.t50_ns, PRIOR_NS);
        assert!((1_560_000_000..1_570_000_000).contains(&prediction.t90_ns));
        assert!((2_110_000_000..2_120_000_000).contains(&prediction.t99_ns));
        let half = model.within(&KEY, PRIOR_NS, PRIOR_NS, 0);
        assert!((0.499..0.501).contains(&half));
        assert!(model.within(&KEY, PRIOR_NS, prediction.t99_ns, 0) > 0.99);
        assert_eq!(model.within(&KEY, PRIOR_NS, 0, 0), 0.0);
    }

    #[test]
    fn a_machine_three_times_slower_is_learned_within_sixteen_jobs() {
        let (mut model, mut jitter) = (CostModel::new(), Jitter(1));
        for _ in 0..300 {
            model.learn(KEY, PRIOR_NS, jitter.around(PRIOR_NS), 0);
        }
        for _ in 0..16 {
            model.learn(KEY, PRIOR_NS, jitter.around(3 * PRIOR_NS), 0);
        }
        let t50 = model.predict(&KEY, PRIOR_NS, 0).t50_ns;
        assert!((2_700_000_000..3_300_000_000).contains(&t50), "{t50}");
    }

    #[test]
    fn one_slow_sample_does_not_lock_a_job_out() {
        let (mut model, mut jitter) = (CostModel::new(), Jitter(2));
        for _ in 0..50 {
            model.learn(KEY, PRIOR_NS, jitter.around(PRIOR_NS), 0);
        }
        let before = model.predict(&KEY, PRIOR_NS, 0);
        model.learn(KEY, PRIOR_NS, 100 * PRIOR_NS, 0);
        let after = model.predict(&KEY, PRIOR_NS, 0);
        assert!(after.t90_ns < before.t90_ns * 3 / 2, "{before:?} {after:?}");
    }

    #[test]
    fn ninety_percent_predictions_cover_about_as_many() {
        let (mut model, mut jitter) = (CostModel::new(), Jitter(3));
        let mut covered = 0;
        for _ in 0..500 {
            let actual = jitter.around(10 * PRIOR_NS);
            covered += u32::from(actual <= model.predict(&KEY, PRIOR_NS, 0).t90_ns);
            model.learn(KEY, PRIOR_NS, actual, 0);
        }
        assert!((425..=475).contains(&covered), "{covered} of 500");
    }

    #[test]
    fn a_key_without_samples_returns_to_the_prior() {
        let mut model = CostModel::new();
        for slot in 0..50 {
            model.learn(KEY, PRIOR_NS, 4 * PRIOR_NS, slot);
        }
        let at = |slot| model.predict(&KEY, PRIOR_NS, slot).t50_ns;
        assert_eq!(at(49), at(49 + 63));
        let (near, half, quarter) = (at(49), at(49 + 64), at(49 + 128));
        assert!(near > 3_800_000_000 && (1_900_000_000..2_100_000_000).contains(&half));
        assert!((1_380_000_000..1_450_000_000).contains(&quarter));
        assert_eq!(at(u64::MAX), PRIOR_NS);
    }

    #[test]
    fn keys_are_bounded_and_the_oldest_goes() {
        let mut model = CostModel::new();
        let key = |kind| CostKey { kind, ..KEY };
        for kind in 0..=KEYS_MAX as u16 {
            model.learn(key(kind), PRIOR_NS, 2 * PRIOR_NS, u64::from(kind));
        }
        assert_eq!(model.factors.len(), KEYS_MAX);
        assert!(model.place(&key(0)).is_err() && model.place(&key(1)).is_ok());
    }

    #[test]
    fn no_input_makes_a_prediction_that_is_no_number() {
        let mut model = CostModel::new();
        for (prior, actual) in [(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
            model.learn(KEY, prior, actual, 1);
            let prediction = model.predict(&KEY, u64::MAX, 1);
            assert!(prediction.t50_ns <= prediction.t90_ns);
            assert!((0.0..=1.0).contains(&model.within(&KEY, prior, actual, 1)));
        }
    }
}
