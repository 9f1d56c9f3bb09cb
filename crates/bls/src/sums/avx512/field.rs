//! Sixteen elements of Fp at once, in eight limbs of 52 bits, with AVX-512 IFMA.
//!
//! The mathematics, and the table of bounds that these functions keep, are in the lecture of
//! [`super`].

use core::arch::x86_64::*;

use crate::blst_ffi::field::P;

/// Bits of a limb.
pub(crate) const LIMB_BITS: usize = 52;
/// Limbs of an element: R = 2^416.
pub(crate) const LIMBS: usize = 8;
/// Elements of a vector of this kernel: two registers a limb, to hide the latency of `vpmadd52`.
pub(crate) const LANES: usize = 16;
const MASK: u64 = (1 << LIMB_BITS) - 1;
/// -1/p mod 2^52.
const P_INVERSE: u64 = inverse_mod_2_52();

/// Newton's iteration doubles the number of right bits.
const fn inverse_mod_2_52() -> u64 {
    let mut inverse = 1u64;
    let mut i = 0;
    while i < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(P[0].wrapping_mul(inverse)));
        i += 1;
    }
    inverse.wrapping_neg() & MASK
}

/// 384 bits in six words as eight limbs.
pub(crate) const fn split(words: &[u64; 6]) -> [u64; LIMBS] {
    let mut limbs = [0; LIMBS];
    let mut j = 0;
    while j < LIMBS {
        let (word, bit) = (j * LIMB_BITS / 64, j * LIMB_BITS % 64);
        limbs[j] = words[word] >> bit;
        if bit > 64 - LIMB_BITS && word < 5 {
            limbs[j] |= words[word + 1] << (64 - bit);
        }
        limbs[j] &= MASK;
        j += 1;
    }
    limbs
}

/// Eight limbs below 2^52, of a value below 2^384, as six words.
pub(crate) fn join(limbs: &[u64; LIMBS]) -> [u64; 6] {
    let mut words = [0; 6];
    for (j, limb) in limbs.iter().enumerate() {
        let (word, bit) = (j * LIMB_BITS / 64, j * LIMB_BITS % 64);
        words[word] |= limb << bit;
        if bit > 64 - LIMB_BITS && word < 5 {
            words[word + 1] |= limb >> (64 - bit);
        }
    }
    words
}

pub(crate) const P_LIMBS: [u64; LIMBS] = split(&P);

/// `multiple` · p in limbs; all but the last are below 2^52.
pub(crate) fn multiple_of_p(multiple: u64) -> [u64; LIMBS] {
    debug_assert!(multiple < 1 << 28, "the last limb stays below 2^52");
    let mut carry = 0u128;
    core::array::from_fn(|j| {
        let sum = carry + u128::from(P_LIMBS[j]) * u128::from(multiple);
        carry = sum >> LIMB_BITS;
        if j == LIMBS - 1 {
            sum as u64
        } else {
            sum as u64 & MASK
        }
    })
}

/// Multiples of p up to which [`Fe::canonical`] reduces.
pub(crate) const MULTIPLES_MAX: u64 = 1 << 12;

/// Sixteen numbers in limbs: `self.0[v][j]` is limb j of lanes 8v to 8v + 7.
///
/// Two readings: *wide*, where a limb is a signed 64-bit number and the value is Σ limb_j·2^(52j);
/// *narrow*, an operand of products, where only the low 52 bits of a limb count.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Fe(pub(crate) [[__m512i; LIMBS]; 2]);

impl Fe {
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn zero() -> Fe {
        Fe([[_mm512_setzero_si512(); LIMBS]; 2])
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn broadcast(limbs: &[u64; LIMBS]) -> Fe {
        let registers = limbs.map(|limb| _mm512_set1_epi64(limb as i64));
        Fe([registers; 2])
    }

    /// The limbs of one lane.
    pub(crate) fn lane(&self, lane: usize) -> [u64; LIMBS] {
        self.0[lane / 8].map(|register| words(register)[lane % 8])
    }

    /// `self + other`, wide.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn add(&self, other: &Fe) -> Fe {
        let mut out = *self;
        for v in 0..2 {
            for j in 0..LIMBS {
                out.0[v][j] = _mm512_add_epi64(self.0[v][j], other.0[v][j]);
            }
        }
        out
    }

    /// Carries, and clears all but the digits. The value must not be negative.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn carried(mut self) -> Fe {
        for v in 0..2 {
            self.0[v] = carry::<true>(self.0[v]);
        }
        self
    }

    /// Clears what is not a digit of a narrow number.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn digits(mut self) -> Fe {
        let mask = _mm512_set1_epi64(MASK as i64);
        for register in self.0.iter_mut().flatten() {
            *register = _mm512_and_si512(*register, mask);
        }
        self
    }

    /// `other` in the lanes of `mask`, `self` in the others.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn select(&self, mask: u16, other: &Fe) -> Fe {
        let mut out = *self;
        for v in 0..2 {
            let mask = (mask >> (8 * v)) as u8;
            for j in 0..LIMBS {
                out.0[v][j] = _mm512_mask_blend_epi64(mask, self.0[v][j], other.0[v][j]);
            }
        }
        out
    }

    /// Which lanes hold exactly these digits.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn equals(&self, limbs: &[u64; LIMBS]) -> u16 {
        let mut masks = [!0u8; 2];
        for v in 0..2 {
            for j in 0..LIMBS {
                let limb = _mm512_set1_epi64(limbs[j] as i64);
                masks[v] &= _mm512_cmpeq_epi64_mask(self.0[v][j], limb);
            }
        }
        u16::from(masks[0]) | u16::from(masks[1]) << 8
    }

    /// The number below p of a carried and cleared number below 2p.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn reduce(&self) -> Fe {
        let mut less = *self;
        for v in 0..2 {
            for j in 0..LIMBS {
                less.0[v][j] = _mm512_sub_epi64(self.0[v][j], _mm512_set1_epi64(P_LIMBS[j] as i64));
            }
        }
        let less = less.carried();
        let mut negative = [0u8; 2];
        for v in 0..2 {
            negative[v] = _mm512_cmplt_epi64_mask(less.0[v][LIMBS - 1], _mm512_setzero_si512());
        }
        less.select(u16::from(negative[0]) | u16::from(negative[1]) << 8, self)
    }

    /// The number below p of a wide number from 0 to [`MULTIPLES_MAX`]·p.
    ///
    /// The quotient by p is estimated from the top limb t: floor(t·M / 2^52) with M = floor(2^52 /
    /// (p_7 + 1)) is never too large, and too small by less than 1 + (t + 1)/p_7 - t/(p_7 + 1) +
    /// t/2^52 < 1.05. What is left is below 1.05 p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn canonical(&self) -> Fe {
        const TOP_INVERSE: u64 = (1 << LIMB_BITS) / (P_LIMBS[LIMBS - 1] + 1);
        let zero = _mm512_setzero_si512();
        let top_inverse = _mm512_set1_epi64(TOP_INVERSE as i64);
        let p = P_LIMBS.map(|limb| _mm512_set1_epi64(limb as i64));
        let mut left = self.carried();
        for limbs in &mut left.0 {
            let q = _mm512_madd52hi_epu64(zero, limbs[LIMBS - 1], top_inverse);
            for j in 0..LIMBS {
                let mut product = _mm512_madd52lo_epu64(zero, q, p[j]);
                if j > 0 {
                    product = _mm512_madd52hi_epu64(product, q, p[j - 1]);
                }
                limbs[j] = _mm512_sub_epi64(limbs[j], product);
            }
            *limbs = carry::<true>(*limbs);
        }
        left.reduce()
    }

    /// Which lanes are 0 mod p; narrow.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(crate) fn is_zero_mod_p(&self) -> u16 {
        // (self · 1 + q · p) / R is at most p, and 0 mod p only if it is 0 or p.
        let one = Fe::broadcast(&[1, 0, 0, 0, 0, 0, 0, 0]);
        let mut reduced = Fe::zero();
        products::<1, DIGITS>([(self, &one)], &mut reduced);
        reduced.equals(&[0; LIMBS]) | reduced.equals(&P_LIMBS)
    }
}

/// The eight 64-bit words of a register.
pub(crate) fn words(register: __m512i) -> [u64; 8] {
    // SAFETY: both types are 64 bytes of plain data.
    unsafe { core::mem::transmute(register) }
}

/// A multiple of p that keeps differences from being negative, the same in all lanes.
#[derive(Clone, Copy)]
pub(crate) struct Offset([__m512i; LIMBS]);

impl Offset {
    #[target_feature(enable = "avx512f")]
    pub(crate) fn new(multiple: u64) -> Offset {
        Offset(multiple_of_p(multiple).map(|limb| _mm512_set1_epi64(limb as i64)))
    }
}

/// What every product keeps in registers.
#[derive(Clone, Copy)]
struct Constants {
    p: [__m512i; LIMBS],
    p_inverse: __m512i,
    /// 2^52 - 1: what a limb that is to vanish starts from (`LECTURE.md`, products).
    mask: __m512i,
}

impl Constants {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn new() -> Constants {
        Constants {
            p: P_LIMBS.map(|limb| _mm512_set1_epi64(limb as i64)),
            p_inverse: _mm512_set1_epi64(P_INVERSE as i64),
            mask: _mm512_set1_epi64(MASK as i64),
        }
    }

    /// The q that makes limb i of t + q·p·2^(52i) vanish mod 2^52. What is left of limb i is carried,
    /// and its place is free.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn quotient<const LEN: usize>(&self, t: &mut [__m512i; LEN], i: usize) -> __m512i {
        // The limb is one too small mod 2^52: the accumulator makes up for it.
        let q = _mm512_madd52lo_epu64(self.p_inverse, t[i], self.p_inverse);
        let carry = _mm512_srli_epi64::<{ LIMB_BITS as u32 }>(t[i]);
        t[i] = _mm512_setzero_si512();
        t[(i + 1) % LEN] = _mm512_add_epi64(t[(i + 1) % LEN], carry);
        q
    }

    /// Adds q·p·2^(52i), but for the part that `quotient` has carried already.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn add_multiple<const LEN: usize>(&self, t: &mut [__m512i; LEN], i: usize, q: __m512i) {
        for j in 1..LIMBS {
            let limb = &mut t[(i + j) % LEN];
            *limb = _mm512_madd52lo_epu64(*limb, q, self.p[j]);
            *limb = _mm512_madd52hi_epu64(*limb, q, self.p[j - 1]);
        }
        let top = &mut t[(i + LIMBS) % LEN];
        *top = _mm512_madd52hi_epu64(*top, q, self.p[LIMBS - 1]);
    }
}

/// One of the eight steps of a Montgomery product: the upper halves of the products with limb I of the
/// second operands, the lower halves of those with the next limb, and a multiple of p.
macro_rules! step {
    ($i:literal, $v:ident, $pairs:ident, $t:ident, $constants:ident) => {
        let q = $constants.quotient(&mut $t, $i);
        for (a, b) in $pairs {
            for j in 0..LIMBS {
                let limb = &mut $t[($i + 1 + j) % LIMBS];
                *limb = _mm512_madd52hi_epu64(*limb, a.0[$v][j], b.0[$v][$i]);
                if $i + 1 < LIMBS {
                    *limb = _mm512_madd52lo_epu64(*limb, a.0[$v][j], b.0[$v][($i + 1) % LIMBS]);
                }
            }
        }
        $constants.add_multiple(&mut $t, $i, q);
    };
}

/// What is done with the accumulators of a product.
pub(crate) const WIDE: u8 = 0;
/// Carried: an operand of further products.
pub(crate) const NARROW: u8 = 1;
/// Carried, and nothing but digits left.
pub(crate) const DIGITS: u8 = 2;

/// Σ a·b / R mod p over the pairs; operands are narrow. Before a carry limbs are below K·2^57.
///
/// With Σ a·b < c·p·R the result is below (1 + c)·p.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline(never)]
pub(crate) fn products<const K: usize, const FORM: u8>(pairs: [(&Fe, &Fe); K], out: &mut Fe) {
    let constants = Constants::new();
    // One register a limb: with one pair all operands of a product fit into the registers.
    for v in 0..2 {
        let mut t = [constants.mask; LIMBS];
        for (a, b) in pairs {
            for j in 0..LIMBS {
                t[j] = _mm512_madd52lo_epu64(t[j], a.0[v][j], b.0[v][0]);
            }
        }
        step!(0, v, pairs, t, constants);
        step!(1, v, pairs, t, constants);
        step!(2, v, pairs, t, constants);
        step!(3, v, pairs, t, constants);
        step!(4, v, pairs, t, constants);
        step!(5, v, pairs, t, constants);
        step!(6, v, pairs, t, constants);
        step!(7, v, pairs, t, constants);
        out.0[v] = finish::<FORM>(t);
    }
}

/// a² / R mod p: as [`products`], with 200 multiplications instead of 256.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline(never)]
pub(crate) fn square<const FORM: u8>(a: &Fe, out: &mut Fe) {
    let constants = Constants::new();
    for v in 0..2 {
        let a = a.0[v];
        // Products of different limbs come twice: they are summed once and doubled.
        let mut t = [_mm512_setzero_si512(); 2 * LIMBS];
        for i in 0..LIMBS {
            for j in i + 1..LIMBS {
                t[i + j] = _mm512_madd52lo_epu64(t[i + j], a[i], a[j]);
                t[i + j + 1] = _mm512_madd52hi_epu64(t[i + j + 1], a[i], a[j]);
            }
        }
        for i in 0..LIMBS {
            let doubled = [t[2 * i], t[2 * i + 1]].map(|limb| _mm512_add_epi64(limb, limb));
            t[2 * i] = _mm512_madd52lo_epu64(doubled[0], a[i], a[i]);
            t[2 * i + 1] = _mm512_madd52hi_epu64(doubled[1], a[i], a[i]);
        }
        for j in 0..LIMBS {
            t[j] = _mm512_add_epi64(t[j], constants.mask);
        }
        macro_rules! reduce {
            ($($i:literal)*) => {
                $(let q = constants.quotient(&mut t, $i);
                constants.add_multiple(&mut t, $i, q);)*
            };
        }
        reduce!(0 1 2 3 4 5 6 7);
        out.0[v] = finish::<FORM>(core::array::from_fn(|j| t[LIMBS + j]));
    }
}

/// The accumulators in one of the forms.
#[target_feature(enable = "avx512f")]
#[inline]
fn finish<const FORM: u8>(t: [__m512i; LIMBS]) -> [__m512i; LIMBS] {
    match FORM {
        WIDE => t,
        NARROW => carry::<false>(t),
        _ => carry::<true>(t),
    }
}

/// Carries: afterwards the low 52 bits of each limb are its digit, and with `CLEAR` nothing else is
/// left. The value must not be negative.
#[target_feature(enable = "avx512f")]
#[inline]
fn carry<const CLEAR: bool>(mut limbs: [__m512i; LIMBS]) -> [__m512i; LIMBS] {
    let mask = _mm512_set1_epi64(MASK as i64);
    for j in 0..LIMBS - 1 {
        let carry = _mm512_srai_epi64::<{ LIMB_BITS as u32 }>(limbs[j]);
        limbs[j + 1] = _mm512_add_epi64(limbs[j + 1], carry);
        if CLEAR {
            limbs[j] = _mm512_and_si512(limbs[j], mask);
        }
    }
    limbs
}

/// `out = a - b + offset`, carried.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn sub_carry<const CLEAR: bool>(out: &mut Fe, a: &Fe, b: &Fe, offset: &Offset) {
    for v in 0..2 {
        let mut limbs = a.0[v];
        for j in 0..LIMBS {
            limbs[j] = _mm512_sub_epi64(limbs[j], b.0[v][j]);
            limbs[j] = _mm512_add_epi64(limbs[j], offset.0[j]);
        }
        out.0[v] = carry::<CLEAR>(limbs);
    }
}

/// From xa and λ² to x = λ² - xa - xb + `offset`, wide and in the place of xa, and to
/// `run` = xa - x + `offset_next`, carried.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn advance_x<const CLEAR: bool>(
    xa: &mut Fe,
    run: &mut Fe,
    xb: &Fe,
    square: &Fe,
    offset: &Offset,
    offset_next: &Offset,
) {
    for v in 0..2 {
        let mut limbs = xa.0[v];
        for j in 0..LIMBS {
            let operands = _mm512_add_epi64(limbs[j], xb.0[v][j]);
            let x = _mm512_add_epi64(_mm512_sub_epi64(square.0[v][j], operands), offset.0[j]);
            xa.0[v][j] = x;
            limbs[j] = _mm512_add_epi64(_mm512_sub_epi64(limbs[j], x), offset_next.0[j]);
        }
        run.0[v] = carry::<CLEAR>(limbs);
    }
}

/// From ya to y = `product` - ya + `offset`, wide, in its place.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn advance_y(ya: &mut Fe, product: &Fe, offset: &Offset) {
    for v in 0..2 {
        for j in 0..LIMBS {
            let y = _mm512_sub_epi64(product.0[v][j], ya.0[v][j]);
            ya.0[v][j] = _mm512_add_epi64(y, offset.0[j]);
        }
    }
}

/// Transposes eight registers of eight words.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn transpose(rows: &[__m512i; 8]) -> [__m512i; 8] {
    let mut pairs = [_mm512_setzero_si512(); 8];
    for i in 0..4 {
        pairs[2 * i] = _mm512_unpacklo_epi64(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_epi64(rows[2 * i], rows[2 * i + 1]);
    }
    // pairs[2i + h] holds words h, 2 + h, 4 + h, 6 + h of rows 2i and 2i + 1, in 128-bit blocks.
    let mut quads = [_mm512_setzero_si512(); 8];
    for h in 0..2 {
        for g in 0..2 {
            let (low, high) = (pairs[4 * g + h], pairs[4 * g + 2 + h]);
            // Blocks 0, 2 of both, and blocks 1, 3 of both.
            quads[4 * g + h] = _mm512_shuffle_i64x2::<0b10_00_10_00>(low, high);
            quads[4 * g + 2 + h] = _mm512_shuffle_i64x2::<0b11_01_11_01>(low, high);
        }
    }
    let mut out = [_mm512_setzero_si512(); 8];
    for h in 0..2 {
        for parity in 0..2 {
            let (low, high) = (quads[2 * parity + h], quads[4 + 2 * parity + h]);
            // Word 2·block + h: blocks `parity` and `parity` + 2.
            out[2 * parity + h] = _mm512_shuffle_i64x2::<0b10_00_10_00>(low, high);
            out[2 * parity + 4 + h] = _mm512_shuffle_i64x2::<0b11_01_11_01>(low, high);
        }
    }
    out
}
