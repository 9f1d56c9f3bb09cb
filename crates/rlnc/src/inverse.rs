//! Inverses modulo ℓ by divisions of 2-adic integers (Bernstein and Yang, "Fast constant-time gcd computation and
//! modular inversion", 2019), 62 steps at a time: their effect on two numbers depends only on the lowest bits.

/// ℓ = 2^252 + 27742317777372353535851937790883648493 (RFC 9496, section 4.4).
pub(crate) const ORDER: [u64; 4] = [
    0x5812_631a_5cf5_d3ed,
    0x14de_f9de_a2f7_9cd6,
    0,
    0x1000_0000_0000_0000,
];

/// Steps per batch, and bits per limb.
const STEPS: u32 = 62;
const MASK: u64 = (1 << STEPS) - 1;
/// 1/ℓ modulo 2^62.
const ORDER_INVERSE: u64 = {
    // Each round doubles the number of correct bits, initially three.
    let mut inverse = ORDER[0];
    let mut round = 0;
    while round < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(ORDER[0].wrapping_mul(inverse)));
        round += 1;
    }
    inverse & MASK
};

/// A signed integer in limbs of 62 bits, all non-negative except the last.
#[derive(Clone, Copy)]
struct Signed([i64; 5]);

const LIMBS_OF_ORDER: Signed = Signed::new(ORDER);

impl Signed {
    const fn new([a, b, c, d]: [u64; 4]) -> Signed {
        Signed([
            (a & MASK) as i64,
            (((a >> 62) | (b << 2)) & MASK) as i64,
            (((b >> 60) | (c << 4)) & MASK) as i64,
            (((c >> 58) | (d << 6)) & MASK) as i64,
            (d >> 56) as i64,
        ])
    }

    /// The words of a non-negative number.
    fn words(self) -> [u64; 4] {
        let [a, b, c, d, e] = self.0.map(|limb| limb as u64);
        [
            a | (b << 62),
            (b >> 2) | (c << 60),
            (c >> 4) | (d << 58),
            (d >> 6) | (e << 56),
        ]
    }

    fn is_negative(self) -> bool {
        self.0[4] < 0
    }

    /// self + factor · other, for a small factor.
    fn plus(self, factor: i64, other: Signed) -> Signed {
        let mut out = self;
        let mut carry = 0;
        for (i, limb) in out.0.iter_mut().enumerate() {
            let sum = *limb + factor * other.0[i] + carry;
            // The last limb keeps the sign.
            *limb = if i < 4 { sum & MASK as i64 } else { sum };
            carry = sum >> STEPS;
        }
        out
    }
}

/// The result of a batch on (f, g): (u·f + v·g, q·f + r·g) / 2^62. The sum of magnitudes in a row is at most 2^62.
#[derive(Clone, Copy)]
struct Batch {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

impl Batch {
    /// 62 steps on the lowest words of f, which is odd, and g; `eta` is minus the δ of the paper.
    fn new(eta: &mut i64, f: i64, g: i64) -> Batch {
        let (mut f, mut g) = (f as u64, g as u64);
        let (mut u, mut v, mut q, mut r) = (1_u64, 0_u64, 0_u64, 1_u64);
        let mut left = STEPS;
        loop {
            // All steps with an even g at once.
            // The bits set from `left` on end the count at the last step.
            let zeros = (g | (u64::MAX << left)).trailing_zeros();
            g >>= zeros;
            // The entries share the denominator 2^62: instead of halving the row of g, that of f is doubled.
            (u, v) = (u << zeros, v << zeros);
            *eta -= i64::from(zeros);
            left -= zeros;
            if left == 0 {
                let [u, v, q, r] = [u, v, q, r].map(|entry| entry as i64);
                return Batch { u, v, q, r };
            }
            if *eta < 0 {
                // The paper turns (f, g) into (g, g - f) here; the multiple added below supplies the g.
                *eta = -*eta;
                (f, g) = (g, f.wrapping_neg());
                (u, q) = (q, u.wrapping_neg());
                (v, r) = (r, v.wrapping_neg());
            }
            // The multiple of f that zeroes bits of g, as many as there are steps before f changes again, but at most
            // six, because f·(f² - 2) is -1/f modulo 2^6.
            let bits = (*eta as u64 + 1).min(u64::from(left)).min(6);
            let w = f
                .wrapping_mul(f.wrapping_mul(f).wrapping_sub(2))
                .wrapping_mul(g)
                & ((1 << bits) - 1);
            g = g.wrapping_add(f.wrapping_mul(w));
            q = q.wrapping_add(u.wrapping_mul(w));
            r = r.wrapping_add(v.wrapping_mul(w));
        }
    }

    /// (f, g) after the batch, divided exactly.
    fn divide(self, f: Signed, g: Signed) -> [Signed; 2] {
        self.apply(f, g, [0; 2])
    }

    /// The same modulo ℓ, for values strictly between -2ℓ and ℓ; the results are in that range, too.
    fn divide_modulo(self, d: Signed, e: Signed) -> [Signed; 2] {
        let rows = [[self.u, self.v], [self.q, self.r]];
        let multiples = rows.map(|[u, v]| {
            // The multiple that makes d and e positive, and then zeroes the lowest 62 bits.
            let start = if d.is_negative() { u } else { 0 } + if e.is_negative() { v } else { 0 };
            let low = u.wrapping_mul(d.0[0]).wrapping_add(v.wrapping_mul(e.0[0])) as u64;
            let less = ORDER_INVERSE.wrapping_mul(low).wrapping_add(start as u64) & MASK;
            start - less as i64
        });
        self.apply(d, e, multiples)
    }

    fn apply(self, a: Signed, b: Signed, multiples: [i64; 2]) -> [Signed; 2] {
        let mut out = [Signed([0; 5]); 2];
        let rows = [[self.u, self.v], [self.q, self.r]];
        for ((out, [u, v]), multiple) in out.iter_mut().zip(rows).zip(multiples) {
            let mut sum = 0_i128;
            for i in 0..5 {
                sum += i128::from(u) * i128::from(a.0[i])
                    + i128::from(v) * i128::from(b.0[i])
                    + i128::from(multiple) * i128::from(LIMBS_OF_ORDER.0[i]);
                // The lowest limb of the sum is zero and drops out.
                if i > 0 {
                    out.0[i - 1] = (sum as u64 & MASK) as i64;
                }
                sum >>= STEPS;
            }
            out.0[4] = sum as i64;
        }
        out
    }
}

/// The inverse of a number from 1 to ℓ - 1.
pub(crate) fn vartime_inverse(x: [u64; 4]) -> [u64; 4] {
    // f and g are d·x and e·x modulo ℓ.
    let (mut f, mut g) = (LIMBS_OF_ORDER, Signed::new(x));
    let (mut d, mut e) = (Signed([0; 5]), Signed([1, 0, 0, 0, 0]));
    let mut eta = -1;
    while g.0 != [0; 5] {
        let batch = Batch::new(&mut eta, f.0[0], g.0[0]);
        [d, e] = batch.divide_modulo(d, e);
        [f, g] = batch.divide(f, g);
    }
    // Now f is 1 or -1, because ℓ is a prime.
    if f.is_negative() {
        d = Signed([0; 5]).plus(-1, d);
    }
    // Now d is between -2ℓ and 2ℓ.
    while d.is_negative() {
        d = d.plus(1, LIMBS_OF_ORDER);
    }
    let less = d.plus(-1, LIMBS_OF_ORDER);
    let least = if less.is_negative() { d } else { less };
    least.words()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Scalar;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    /// Small numbers, their negatives, powers of two and their neighbours, sparse and random numbers.
    #[test]
    fn inverses_times_their_numbers_are_one() {
        let mut rng = ChaCha20Rng::seed_from_u64(18);
        let mut numbers: Vec<Scalar> = (1_u64..200).map(Scalar::from).collect();
        let mut power = Scalar::ONE;
        for _ in 0..600 {
            power = power + power;
            numbers.extend([power, power + Scalar::ONE, power - Scalar::ONE]);
        }
        numbers.extend((0..3000).map(|_| Scalar::random(&mut rng)));
        for _ in 0..1000 {
            let word = |rng: &mut ChaCha20Rng| rng.next_u64() & rng.next_u64() & rng.next_u64();
            let [a, b] = [0; 2].map(|_| Scalar::from(word(&mut rng)));
            numbers.push(a * power + b);
        }
        for x in numbers {
            for x in [x, -x] {
                if !x.is_zero() {
                    assert_eq!(Scalar(vartime_inverse(x.0)) * x, Scalar::ONE, "{x:?}");
                }
            }
        }
    }
}
