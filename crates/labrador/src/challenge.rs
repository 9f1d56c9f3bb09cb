//! The challenge sets, and the exact test of the operator norm.

use crate::ring::{DEGREE, Small};
use crate::transcript::{Bytes, Seed, Stream};

/// Number of coefficients `+-1` in a challenge.
const ONES: usize = 32;
/// Number of coefficients `+-2` in a challenge.
const TWOS: usize = 12;

/// `tau`, the squared Euclidean norm of every challenge.
pub(crate) const CHALLENGE_NORM_SQ: u128 = (ONES + 4 * TWOS) as u128;

/// `T`, the bound on the operator norm of every challenge.
pub(crate) const OPERATOR_NORM: u128 = 16;

/// A lower bound on `log2 |C|` in hundredths of a bit: `2^132.42` arrangements, of which some 19 %
/// pass the norm test; 16.3 % would be enough.
pub const CHALLENGE_LOG2_CENTI: u32 = 12_980;

/// `round(2^30 cos(pi m / 64))` for `m = 0..=32`.
const COSINES: [i64; 33] = [
    1_073_741_824,
    1_072_448_455,
    1_068_571_464,
    1_062_120_190,
    1_053_110_176,
    1_041_563_127,
    1_027_506_862,
    1_010_975_242,
    992_008_094,
    970_651_112,
    946_955_747,
    920_979_082,
    892_783_698,
    862_437_520,
    830_013_654,
    795_590_213,
    759_250_125,
    721_080_937,
    681_174_602,
    639_627_258,
    596_538_995,
    552_013_618,
    506_158_392,
    459_083_786,
    410_903_207,
    361_732_726,
    311_690_799,
    260_897_982,
    209_476_638,
    157_550_647,
    105_245_103,
    52_686_014,
    0,
];

/// `round(2^30 cos(pi m / 64))` for every `m` modulo 128.
const fn cosine(m: usize) -> i64 {
    match m % 128 {
        m @ 0..=32 => COSINES[m],
        m @ 33..=64 => -COSINES[64 - m],
        m @ 65..=96 => -COSINES[m - 64],
        m => COSINES[128 - m],
    }
}

/// `cosine(j k)` for odd `j` and `k` below 32, in rows of `j`; the first entry of a row is not read. Each fits
/// 32 bits, since `2^30` does.
static COSINE_ROWS: [[i32; DEGREE / 2]; DEGREE / 2] = {
    let mut rows = [[0; DEGREE / 2]; DEGREE / 2];
    let mut row = 0;
    while row < DEGREE / 2 {
        let mut k = 1;
        while k < DEGREE / 2 {
            rows[row][k] = cosine((2 * row + 1) * k) as i32;
            k += 1;
        }
        row += 1;
    }
    rows
};

/// Whether an element of the composition of `C` is a challenge.
///
/// With `a = c sigma(c)`, `|c(root_j)|^2 = a_0 + 2 sum_k a_k cos(pi j k / 64)` for odd `j`. The
/// sum is computed in integers with a table of 30 fractional bits, whose error is below
/// `31 * 80 < 2^12` in the last place; the limit is lower than `16^2` by that much. This integer rule is
/// the definition of the set, so both sides agree on every host, and it implies the norm.
fn operator_norm_holds(c: &Small) -> bool {
    // X^64 = -1: terms that wrap around are negated.
    let mut twice = [0i16; 2 * DEGREE];
    for (i, &x) in c.0.iter().enumerate() {
        (twice[i], twice[i + DEGREE]) = (x, -x);
    }
    // `a` is invariant under `sigma`, so `a_(64 - k) = -a_k` and `a_32 = 0`. The cosine also changes its sign for odd
    // `j`, so both halves of the sum are equal, and `k` below 32 suffices.
    let mut auto = [0i32; DEGREE / 2];
    for (k, a) in auto.iter_mut().enumerate() {
        let products = c.0.iter().zip(&twice[k..k + DEGREE]);
        // 64 products of at most 4.
        *a = i32::from(products.map(|(&x, &y)| x * y).sum::<i16>());
    }
    let limit = ((OPERATOR_NORM * OPERATOR_NORM) as i64) * (1 << 30) - (1 << 12);
    let first = i64::from(auto[0]) << 30;
    // `j` and `128 - j` are conjugate roots with the same absolute value, so 32 of the 64 roots are enough.
    COSINE_ROWS.iter().all(|row| {
        let terms = auto[1..].iter().zip(&row[1..]);
        let tail: i64 = terms.map(|(&a, &c)| i64::from(a) * i64::from(c)).sum();
        first + 2 * tail <= limit
    })
}

/// Draws one of `2^132.42` arrangements: 20 zeros, 32 of `+-1`, 12 of `+-2` at uniform positions with
/// uniform signs.
pub(crate) fn arrangement(bytes: &mut Bytes) -> Small {
    // 44 signs are needed, and six bytes have 48 bits.
    let mut signs = [0; 8];
    for sign in &mut signs[..6] {
        *sign = bytes.byte();
    }
    let signs = u64::from_le_bytes(signs);
    let mut out = Small::ZERO;
    // The inside-out form of the Fisher-Yates shuffle. It begins after the zeros, whose order makes no difference.
    for (placed, k) in (DEGREE - ONES - TWOS..DEGREE).enumerate() {
        let place = loop {
            let candidate = usize::from(bytes.byte() & 63);
            // A remainder instead of rejection would prefer the lower positions.
            if candidate <= k {
                break candidate;
            }
        };
        let size = if placed < ONES { 1 } else { 2 };
        out.0[k] = out.0[place];
        out.0[place] = if signs >> placed & 1 == 1 {
            -size
        } else {
            size
        };
    }
    out
}

/// Draws an element of `C` from its own stream: the first arrangement that passes the norm test, on
/// average about the fifth.
#[must_use]
pub(crate) fn challenge(seed: &Seed) -> Small {
    let mut bytes = seed.stream().bytes();
    loop {
        let candidate = arrangement(&mut bytes);
        if operator_norm_holds(&candidate) {
            return candidate;
        }
    }
}

/// Draws an aggregation weight: 64 independent coefficients in `{-2, -1, 0, 1}`. There are `2^128`
/// weights, and two of them differ by at most 24 in norm, which is invertible.
#[must_use]
pub(crate) fn weight(stream: &mut Stream) -> Small {
    let mut bytes = [0; WEIGHT_BYTES];
    stream.fill(&mut bytes);
    weight_of(&bytes)
}

/// Draws the next weights, as repeated calls of [`weight`] would.
#[must_use]
pub(crate) fn many_weights(stream: &mut Stream, count: usize) -> Vec<Small> {
    let mut bytes = vec![0; WEIGHT_BYTES * count];
    stream.fill(&mut bytes);
    let weights = bytes.as_chunks::<WEIGHT_BYTES>().0.iter();
    weights.map(weight_of).collect()
}

/// Two bits per coefficient.
const WEIGHT_BYTES: usize = DEGREE / 4;

fn weight_of(bytes: &[u8; WEIGHT_BYTES]) -> Small {
    let mut out = Small::ZERO;
    for (i, c) in out.0.iter_mut().enumerate() {
        *c = i16::from(bytes[i / 4] >> (2 * (i % 4)) & 3) - 2;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_cosines() {
        for (m, &c) in COSINES.iter().enumerate() {
            let exact = (std::f64::consts::PI * m as f64 / 64.0).cos() * f64::from(1 << 30);
            assert_eq!(c, exact.round() as i64, "cosine {m}");
        }
        for m in 0..256usize {
            let exact = (std::f64::consts::PI * m as f64 / 64.0).cos() * f64::from(1 << 30);
            assert!((cosine(m) as f64 - exact).abs() < 0.51, "cosine {m}");
        }
    }

    fn operator_norm_float(c: &Small) -> f64 {
        let value = |j: usize| {
            let (mut re, mut im) = (0.0, 0.0);
            for (k, &x) in c.0.iter().enumerate() {
                let angle = std::f64::consts::PI * (j * k % 128) as f64 / 64.0;
                re += f64::from(x) * angle.cos();
                im += f64::from(x) * angle.sin();
            }
            (re * re + im * im).sqrt()
        };
        (1..DEGREE).step_by(2).map(value).fold(0.0, f64::max)
    }

    #[test]
    fn the_integer_rule_agrees_with_the_norm() {
        let mut bytes = Seed::of_name("challenges").stream().bytes();
        let mut kept = 0;
        for _ in 0..3000 {
            let c = arrangement(&mut bytes);
            let norm = operator_norm_float(&c);
            // The rule may differ from the exact norm only inside its margin of 2^-18 in norm^2.
            let exact = norm <= OPERATOR_NORM as f64;
            let near = (norm * norm - 256.0).abs() < 1e-4;
            assert!(near || operator_norm_holds(&c) == exact, "norm {norm}");
            kept += u32::from(exact);
        }
        // 572 are expected; six standard deviations are 129.
        assert!((450..700).contains(&kept), "kept {kept}");
    }

    #[test]
    fn challenges_have_the_composition() {
        for i in 0..50 {
            let c = challenge(&Seed::of_name(&format!("challenge {i}")));
            let count = |size: i16| c.0.iter().filter(|x| x.abs() == size).count();
            assert_eq!((count(0), count(1), count(2)), (20, ONES, TWOS));
            assert_eq!(c.norm_sq(), CHALLENGE_NORM_SQ);
        }
    }

    #[test]
    fn weights_cover_their_range_evenly() {
        let mut stream = Seed::of_name("weights").stream();
        let mut counts = [0u32; 4];
        for _ in 0..1000 {
            for c in weight(&mut stream).0 {
                counts[usize::try_from(c + 2).expect("at least -2")] += 1;
            }
        }
        // 16,000 each, six standard deviations of 110.
        assert!(counts.iter().all(|c| (15_340..16_660).contains(c)));
    }
}
