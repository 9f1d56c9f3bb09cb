//! Products of 52-bit limbs by fused multiply-adds of doubles. See the lecture of [`super`].

use super::{Fe, LIMB_BITS, LIMBS, MASK, Multiplier, P_INVERSE, P_LIMBS, TOP_INVERSE, finish};

/// Registers that can also hold doubles.
pub(super) trait Doubles: Multiplier {
    /// A register of doubles.
    type Double: Copy;

    /// Reinterprets words as doubles of the same bits.
    fn doubles(self, bits: Self::Word) -> Self::Double;
    /// The bits of doubles.
    fn bits(self, doubles: Self::Double) -> Self::Word;
    /// Bitwise or.
    fn or(self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// The bits of words from bit 52 up, as unsigned numbers.
    fn above(self, a: Self::Word) -> Self::Word;
    /// a - b, rounded to nearest.
    fn subtract(self, a: Self::Double, b: Self::Double) -> Self::Double;
    /// a·b + c, rounded to nearest once.
    fn multiply_add(self, a: Self::Double, b: Self::Double, c: Self::Double) -> Self::Double;
    /// a·b - c, rounded to nearest once.
    fn multiply_subtract(self, a: Self::Double, b: Self::Double, c: Self::Double) -> Self::Double;
    /// The larger of both.
    fn max(self, a: Self::Double, b: Self::Double) -> Self::Double;
}

/// 2^52: for a number below 2^52, combining the bits of both gives the bits of their sum.
const TWO_52: f64 = (1u64 << LIMB_BITS) as f64;
/// 2^104, to which an upper half is added.
const TWO_104: f64 = TWO_52 * TWO_52;
/// Two numbers whose product is 2^104 + 2^52 + 2^51, which no double can represent.
const FACTORS: (f64, f64) = ((5u64 << 51) as f64, 1_801_439_850_948_199.0);
/// The bits of an upper half of 0.
const HIGH: u64 = TWO_104.to_bits();
/// The bits of a lower half of 0.
const LOW: u64 = (TWO_52 * 1.5).to_bits();
/// The upper bits of a lower half.
const LOW_ABOVE: u64 = LOW >> LIMB_BITS;

/// Number of pairs of limbs (i, j) whose lower half goes to position k; with `without_first`, those with j = 0
/// do not count.
const fn pairs_at(place: usize, without_first: bool) -> u64 {
    let (mut count, mut i) = (0, 0);
    while i < LIMBS {
        if place >= i && place - i < LIMBS && !(without_first && place == i) {
            count += 1;
        }
        i += 1;
    }
    count
}

/// Initial value of each position of an accumulator for a sum of this many products: the negative of the bits
/// that all halves leave there in addition to their values.
const fn start(products: u64) -> [u64; 2 * LIMBS] {
    let mut out = [0u64; 2 * LIMBS];
    let mut k = 0;
    while k < 2 * LIMBS {
        // The lower half of a multiple's first product is added at the carry.
        let low = products * pairs_at(k, false) + pairs_at(k, true);
        let high = match k {
            0 => 0,
            _ => (products + 1) * pairs_at(k - 1, false),
        };
        let excess = LOW.wrapping_mul(low).wrapping_add(HIGH.wrapping_mul(high));
        // Each of the eight steps carries once, into positions 1 to 8.
        let carried = if k > 0 && k <= LIMBS { LOW_ABOVE } else { 0 };
        out[k] = 0u64.wrapping_sub(excess).wrapping_sub(carried);
        k += 1;
    }
    out
}

/// Values that every product keeps in registers.
#[derive(Clone, Copy)]
struct Constants<M: Doubles> {
    m: M,
    mask: M::Word,
    exponent: M::Word,
    two_51: M::Word,
    two_52: M::Double,
    two_104: M::Double,
    factors: (M::Double, M::Double),
}

impl<M: Doubles> Constants<M> {
    #[inline(always)]
    fn new(m: M) -> Self {
        Constants {
            m,
            mask: m.splat(MASK),
            exponent: m.splat(TWO_52.to_bits()),
            two_51: m.splat(1 << (LIMB_BITS - 1)),
            two_52: m.doubles(m.splat(TWO_52.to_bits())),
            two_104: m.doubles(m.splat(TWO_104.to_bits())),
            factors: (
                m.doubles(m.splat(FACTORS.0.to_bits())),
                m.doubles(m.splat(FACTORS.1.to_bits())),
            ),
        }
    }

    /// The low 52 bits of words.
    #[inline(always)]
    fn double(&self, word: M::Word) -> M::Double {
        let bits = self.m.or(self.m.and(word, self.mask), self.exponent);
        self.m.subtract(self.m.doubles(bits), self.two_52)
    }

    /// A constant below 2^52.
    #[inline(always)]
    fn constant(&self, limb: u64) -> M::Double {
        let m = self.m;
        m.doubles(m.splat((limb as f64).to_bits()))
    }

    /// The bits of both halves of a·b; the upper half is too large by [`HIGH`], the lower by [`LOW`].
    #[inline(always)]
    fn halves(&self, a: M::Double, b: M::Double) -> (M::Word, M::Word) {
        let m = self.m;
        let high = m.multiply_add(a, b, self.two_104);
        let rest = m.multiply_subtract(self.factors.0, self.factors.1, high);
        // a·b less its upper half, plus 1.5·2^52: between 2^52 and 2^53, where every integer is a double.
        let low = m.multiply_add(a, b, rest);
        (m.bits(high), m.bits(low))
    }

    /// The q with t + q·p_0 = 0 mod 2^52.
    #[inline(always)]
    fn quotient(&self, t: M::Word) -> M::Double {
        let (_, low) = self.halves(self.double(t), self.constant(P_INVERSE));
        // The constant in the lower half has bit 51 set. Another 2^51 carries it out of the 52 bits that are read.
        self.double(self.m.add(low, self.two_51))
    }

    /// The carry from position t, which becomes 0 with the lower half of q·p_0; too large by LOW_ABOVE.
    #[inline(always)]
    fn carried(&self, t: M::Word, low: M::Word) -> M::Word {
        // t + q·p_0 is a multiple of 2^52, and the half in LOW does not reach the next one.
        self.m.above(self.m.add(t, low))
    }
}

/// The products of one limb of the second operands: all but the topmost half, which goes to `top`.
macro_rules! row {
    ($i:literal, $c:ident, $a:ident, $pairs:ident, $v:ident, $t:ident, $top:ident) => {
        for k in 0..K {
            let b = $c.double($pairs[k].1.limbs[$v][$i]);
            for j in 0..LIMBS {
                let (high, low) = $c.halves($a[k][j], b);
                $t[($i + j) % LIMBS] = $c.m.add($t[($i + j) % LIMBS], low);
                if j + 1 < LIMBS {
                    $t[($i + j + 1) % LIMBS] = $c.m.add($t[($i + j + 1) % LIMBS], high);
                } else {
                    $top = $c.m.add($top, high);
                }
            }
        }
    };
}

/// Adds the multiple of p that makes position I, formerly `$vanishing`, vanish.
macro_rules! multiple {
    ($i:literal, $c:ident, $t:ident, $q:ident, $vanishing:ident) => {
        let (high, low) = $c.halves($q, $c.constant(P_LIMBS[0]));
        let carry = $c.carried($vanishing, low);
        $t[($i + 1) % LIMBS] = $c.m.add($t[($i + 1) % LIMBS], $c.m.add(carry, high));
        for j in 1..LIMBS {
            let (high, low) = $c.halves($q, $c.constant(P_LIMBS[j]));
            $t[($i + j) % LIMBS] = $c.m.add($t[($i + j) % LIMBS], low);
            $t[($i + j + 1) % LIMBS] = $c.m.add($t[($i + j + 1) % LIMBS], high);
        }
    };
}

/// See [`Multiplier::products`].
#[inline(always)]
pub(super) fn products<M: Doubles, const K: usize, const FORM: u8>(
    m: M,
    pairs: [(&Fe<M>, &Fe<M>); K],
    out: &mut Fe<M>,
) {
    let c = Constants::new(m);
    for v in 0..M::REGISTERS {
        let places = const { start(K as u64) };
        let mut a = [[c.two_52; LIMBS]; K];
        for k in 0..K {
            for j in 0..LIMBS {
                a[k][j] = c.double(pairs[k].0.limbs[v][j]);
            }
        }
        let mut t = [m.splat(0); LIMBS];
        for j in 0..LIMBS {
            t[j] = m.splat(places[j]);
        }
        let mut top = m.splat(places[LIMBS]);
        row!(0, c, a, pairs, v, t, top);
        // The next row does not depend on the quotient, so it fills the quotient's latency.
        macro_rules! step {
            ($i:literal $(, $next:literal)?) => {
                let (q, vanishing) = (c.quotient(t[$i]), t[$i]);
                // The vanishing limb is free for the position eight above it, so eight accumulators suffice.
                t[$i] = top;
                $(
                    top = m.splat(places[LIMBS + $next]);
                    row!($next, c, a, pairs, v, t, top);
                )?
                multiple!($i, c, t, q, vanishing);
            };
        }
        step!(0, 1);
        step!(1, 2);
        step!(2, 3);
        step!(3, 4);
        step!(4, 5);
        step!(5, 6);
        step!(6, 7);
        step!(7);
        out.limbs[v] = finish::<M, FORM>(m, t);
    }
}

/// The products of limb I with itself and with the limbs above it, which count twice: all but the topmost half.
macro_rules! row_of_square {
    ($i:literal, $c:ident, $x:ident, $t:ident, $top:ident) => {
        for j in $i..LIMBS {
            let (mut high, mut low) = $c.halves($x[$i], $x[j]);
            if j > $i {
                // The offsets in their bits double, too, so `start` counts them as those of two products.
                (high, low) = ($c.m.add(high, high), $c.m.add(low, low));
            }
            $t[($i + j) % LIMBS] = $c.m.add($t[($i + j) % LIMBS], low);
            if j + 1 < LIMBS {
                $t[($i + j + 1) % LIMBS] = $c.m.add($t[($i + j + 1) % LIMBS], high);
            } else {
                $top = $c.m.add($top, high);
            }
        }
    };
}

/// See [`Multiplier::square`]: 36 products of limbs instead of 64, at the same positions.
#[inline(always)]
pub(super) fn square<M: Doubles, const FORM: u8>(m: M, a: &Fe<M>, out: &mut Fe<M>) {
    let c = Constants::new(m);
    for v in 0..M::REGISTERS {
        let places = const { start(1) };
        let mut x = [c.two_52; LIMBS];
        let mut t = [m.splat(0); LIMBS];
        for j in 0..LIMBS {
            x[j] = c.double(a.limbs[v][j]);
            t[j] = m.splat(places[j]);
        }
        let mut top = m.splat(places[LIMBS]);
        row_of_square!(0, c, x, t, top);
        macro_rules! step {
            ($i:literal $(, $next:literal)?) => {
                let (q, vanishing) = (c.quotient(t[$i]), t[$i]);
                t[$i] = top;
                $(
                    top = m.splat(places[LIMBS + $next]);
                    row_of_square!($next, c, x, t, top);
                )?
                multiple!($i, c, t, q, vanishing);
            };
        }
        step!(0, 1);
        step!(1, 2);
        step!(2, 3);
        step!(3, 4);
        step!(4, 5);
        step!(5, 6);
        step!(6, 7);
        step!(7);
        out.limbs[v] = finish::<M, FORM>(m, t);
    }
}

/// See [`Multiplier::take_multiple`].
#[inline(always)]
pub(super) fn take_multiple<M: Doubles>(m: M, mut limbs: [M::Word; LIMBS]) -> [M::Word; LIMBS] {
    let c = Constants::new(m);
    let top = c.double(limbs[LIMBS - 1]);
    // The upper half h of the product, rounded to nearest; then q = max(h - 1, 0), which is never too large.
    let nearest = m.multiply_add(top, c.constant(TOP_INVERSE), c.two_104);
    let nearest = m.subtract(nearest, c.two_104);
    let (one, zero) = (c.constant(1), c.constant(0));
    let scale = m.doubles(m.splat((1.0 / TWO_52).to_bits()));
    let q = m.max(m.multiply_subtract(nearest, scale, one), zero);
    for j in 0..LIMBS {
        let (high, low) = c.halves(q, c.constant(P_LIMBS[j]));
        limbs[j] = m.sub(limbs[j], m.sub(low, m.splat(LOW)));
        if j + 1 < LIMBS {
            limbs[j + 1] = m.sub(limbs[j + 1], m.sub(high, m.splat(HIGH)));
        }
    }
    limbs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value no double can represent: one and a half more than 2^104 / 2^52, in units of 2^52.
    #[test]
    fn both_factors_make_up_the_constant() {
        let (x, y) = (FACTORS.0 as u128, FACTORS.1 as u128);
        assert_eq!(x * y, (1 << 104) + (3 << 51));
        assert_eq!((x as f64, y as f64), FACTORS);
    }

    /// Halves of products whose lower half is zero, small, or a tie between two upper halves.
    #[test]
    fn both_halves_make_up_a_product() {
        let max = (1u64 << LIMB_BITS) - 1;
        let numbers = [
            0,
            1,
            2,
            3,
            1 << 25,
            1 << 26,
            1 << 51,
            (1 << 51) + 1,
            max - 1,
            max,
        ];
        for (a, b) in numbers.iter().flat_map(|a| numbers.map(|b| (*a, b))) {
            let (x, y) = (a as f64, b as f64);
            let high = x.mul_add(y, TWO_104);
            let rest = FACTORS.0.mul_add(FACTORS.1, -high);
            let low = x.mul_add(y, rest);
            let (h, l) = (
                high.to_bits().wrapping_sub(HIGH),
                low.to_bits().wrapping_sub(LOW) as i64,
            );
            assert!(l.unsigned_abs() <= 1 << 51, "{a} * {b}");
            let sum = (i128::from(h) << LIMB_BITS) + i128::from(l);
            assert_eq!(sum, i128::from(a) * i128::from(b), "{a} * {b}");
        }
    }
}
