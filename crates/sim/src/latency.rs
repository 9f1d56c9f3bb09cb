//! Propagation delay, in integer arithmetic: constant or by region, with random jitter.

mod region_table;

use crate::scenario;
use region_table::{ONE_WAY_MS, WEIGHTS};

pub use region_table::REGIONS;

/// A keyed 64-bit mix (SplitMix64's finaliser over each word): equal keys give equal draws whatever else a
/// run draws, so that adding a node or a fault does not shift them.
#[inline]
pub(crate) fn mix(words: [u64; 4]) -> u64 {
    let mut state = 0x616c_7068_6f72_6e31;
    for word in words {
        state = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    state
}

/// A quick mix of two words, used only to distinguish things; nothing is drawn from it.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b ^ 0xbf58_476d_1ce4_e5b9);
    let folded = (wide as u64) ^ (wide >> 64) as u64;
    (folded ^ folded >> 32).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// Multiples of the mean in units of 2^-16, for 1024 equal parts of the probability: entry i is floor(2^16 *
/// -ln(1 - (2i + 1) / 2048)), so that the mean of all entries is 2^16 minus a fraction of a thousandth.
const EXPONENTIAL: [u32; 1024] = exponentials();

/// Computed in integers: -ln of x / 2048 is ln(2) * (11 - log2 x), with one bit of the logarithm from each
/// squaring.
const fn exponentials() -> [u32; 1024] {
    const SQUARINGS: u32 = 40;
    /// ln(2) in units of 2^-62.
    const LN_2: u128 = 0x2c5c_85fd_f473_de6a;
    let mut all = [0; 1024];
    let mut i = 0;
    while i < all.len() {
        let rest = 2047 - 2 * i as u128;
        let mut log2 = rest.ilog2() as u128;
        // Between 1 and 2, in units of 2^-62.
        let mut mantissa = rest << (62 - rest.ilog2());
        let mut bit = 0;
        while bit < SQUARINGS {
            mantissa = (mantissa * mantissa) >> 62;
            // If the square is 2 or more, the next bit of the logarithm is 1 and the square is halved.
            let carry = mantissa >> 63;
            mantissa >>= carry;
            log2 = 2 * log2 + carry;
            bit += 1;
        }
        // Units of 2^-40 times units of 2^-62, to units of 2^-16.
        all[i] = ((((11 << SQUARINGS) - log2) * LN_2) >> (62 + SQUARINGS - 16)) as u32;
        i += 1;
    }
    all
}

/// An exponentially distributed number with this mean.
#[inline]
pub(crate) fn exponential(mean: u64, draw: u64) -> u64 {
    let part = EXPONENTIAL[(draw >> 54) as usize];
    let value = (u128::from(mean) * u128::from(part)) >> 16;
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Point `index` of a two-dimensional sequence that fills the square evenly (M. Roberts' R2 sequence, from
/// the plastic number): each share gets its number of nodes with an error of a few, and adding a node does
/// not move the others.
pub(crate) fn spread(seed: u64, index: u32) -> (u64, u64) {
    let at = |step: u64, axis| {
        u64::from(index)
            .wrapping_mul(step)
            .wrapping_add(mix([seed, axis, 0, 0]))
    };
    // 2^64 divided by the plastic number, and by its square.
    (at(0xc13f_a9a9_02a6_328f, 1), at(0x91e1_0da5_c79e_7b1d, 2))
}

/// Index of the weight into whose interval a point falls; the point is in the unit interval, in units of
/// 2^-64.
pub(crate) fn choose(weights: impl Iterator<Item = u32> + Clone, point: u64) -> usize {
    let total: u64 = weights.clone().map(u64::from).sum();
    // Below the sum of the weights, so it falls into the interval of one of them.
    let mut rest = ((u128::from(point) * u128::from(total)) >> 64) as u64;
    let mut last = 0;
    for (i, weight) in weights.enumerate().filter(|(_, weight)| *weight > 0) {
        last = i;
        match rest.checked_sub(u64::from(weight)) {
            Some(left) => rest = left,
            None => break,
        }
    }
    last
}

/// One-way latencies between all nodes.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Nanoseconds from region to region.
    base_ns: Vec<u64>,
    regions: usize,
    region: Vec<u8>,
    jitter_pct: u32,
}

impl Latency {
    /// The latencies of a scenario, for nodes in these regions (`Latency::regions_of`).
    pub fn new(latency: &scenario::Latency, region: Vec<u8>) -> Self {
        let ms = |ms: u64| ms.saturating_mul(1_000_000);
        match latency {
            scenario::Latency::Constant {
                ms: one_way,
                jitter_pct,
            } => Latency {
                base_ns: vec![ms(*one_way)],
                regions: 1,
                region: vec![0; region.len()],
                jitter_pct: *jitter_pct,
            },
            scenario::Latency::Regions {
                intra_ms_min,
                jitter_pct,
                ..
            } => {
                let row = |(i, row): (usize, &[u64; 8])| {
                    let mut row = *row;
                    row[i] = row[i].max(*intra_ms_min);
                    row.map(ms)
                };
                Latency {
                    base_ns: ONE_WAY_MS.iter().enumerate().flat_map(row).collect(),
                    regions: REGIONS.len(),
                    region,
                    jitter_pct: *jitter_pct,
                }
            }
        }
    }

    /// The region of each node, all 0 without regions.
    pub(crate) fn regions_of(latency: &scenario::Latency, seed: u64, nodes: u32) -> Vec<u8> {
        match latency {
            scenario::Latency::Constant { .. } => vec![0; nodes as usize],
            scenario::Latency::Regions { .. } => (0..nodes)
                .map(|node| choose(WEIGHTS.into_iter(), spread(seed, node).1) as u8)
                .collect(),
        }
    }

    /// Minimum latency of any message, never zero.
    pub(crate) fn least_ns(&self) -> u64 {
        self.base_ns.iter().copied().min().unwrap_or(0).max(1)
    }

    /// Latency from one node to another in nanoseconds, without jitter.
    #[inline]
    pub(crate) fn base_ns(&self, from: u32, to: u32) -> u64 {
        if self.regions == 1 {
            return self.base_ns[0];
        }
        let (from, to) = (self.region[from as usize], self.region[to as usize]);
        self.base_ns[usize::from(from) * self.regions + usize::from(to)]
    }

    /// Mean of the jitter in percent of the latency; 0 for none.
    pub(crate) fn jitter_pct(&self) -> u32 {
        self.jitter_pct
    }

    /// Jitter to add to `base_ns`, from 64 random bits.
    #[inline]
    pub(crate) fn jitter_ns(&self, base_ns: u64, draw: u64) -> u64 {
        // Exact, since latencies are whole milliseconds.
        exponential(base_ns / 100 * u64::from(self.jitter_pct), draw)
    }

    /// The region of a node, 0 without regions.
    pub(crate) fn region(&self, node: u32) -> u8 {
        self.region[node as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_table_is_its_formula() {
        for (i, entry) in EXPONENTIAL.into_iter().enumerate() {
            let exact = 65536.0 * -(-(2.0 * i as f64 + 1.0) / 2048.0).ln_1p();
            assert!((exact - f64::from(entry)).abs() <= 1.0, "{i}");
        }
        // Every entry must stay the same, since runs produce the same bytes on all hosts.
        let digest = EXPONENTIAL
            .iter()
            .fold(0, |d, &e| fold(d ^ u64::from(e), 1));
        assert_eq!(digest, 0x5863_0f8f_e2b0_bd8a);
        let mean = EXPONENTIAL.iter().map(|&e| u64::from(e)).sum::<u64>() / 1024;
        assert!((65_480..=65_536).contains(&mean), "{mean}");
        assert_eq!(exponential(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(exponential(0, u64::MAX), 0);
    }

    #[test]
    fn regions_are_as_frequent_as_their_weights() {
        let latency = scenario::Latency::Regions {
            matrix: "libp2p-2025".into(),
            intra_ms_min: 15,
            jitter_pct: 5,
        };
        let regions = Latency::regions_of(&latency, 3, 100_000);
        let total: u32 = WEIGHTS.iter().sum();
        for (i, weight) in WEIGHTS.into_iter().enumerate() {
            let found = regions.iter().filter(|&&r| usize::from(r) == i).count();
            let expected = 100_000.0 * f64::from(weight) / f64::from(total);
            assert!(
                (found as f64 - expected).abs() <= 20.0,
                "{found} {expected}"
            );
        }
        // Adding a node moves none of the others.
        assert_eq!(
            Latency::regions_of(&latency, 3, 100_001)[..100_000],
            regions
        );
        let latency = Latency::new(&latency, vec![2, 2, 5, 6]);
        assert_eq!(latency.base_ns(0, 1), 15_000_000);
        assert_eq!(
            (latency.base_ns(2, 3), latency.base_ns(3, 2)),
            (195_000_000, 190_000_000)
        );
        assert_eq!((latency.base_ns(0, 2), latency.region(2)), (140_000_000, 5));
        assert_eq!(latency.least_ns(), 15_000_000);
        let mean: u64 = (0..1024)
            .map(|i| latency.jitter_ns(100_000_000, i << 54))
            .sum::<u64>()
            / 1024;
        assert!((4_990_000..=5_000_000).contains(&mean), "{mean}");
    }

    #[test]
    fn a_choice_never_falls_on_nothing() {
        for point in [0, 1, u64::MAX / 2, u64::MAX] {
            assert_eq!(choose([0, 3, 0].into_iter(), point), 1);
        }
        assert_eq!(choose([1, 1].into_iter(), u64::MAX), 1);
        assert_eq!(choose([1, 1].into_iter(), 0), 0);
    }
}
