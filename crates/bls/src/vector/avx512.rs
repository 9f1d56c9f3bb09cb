//! Registers of eight words: with the 52-bit multiply-add of IFMA, or with doubles.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::fmt;

use alphorn_exec::{Avx512Dq, Avx512Ifma, rounding_to_nearest};

use super::doubles::{self, Doubles};
use super::{
    Fe, LANES, LIMB_BITS, LIMBS, Line, MASK, Multiplier, P_INVERSE, P_LIMBS, Routine, TOP_INVERSE,
    Vector, finish,
};

/// A token for AVX-512 F, BW, DQ and VL, and for what its products need.
pub(crate) trait Token: Copy + Send + Sync + fmt::Debug + 'static {}

impl Token for Avx512Dq {}
impl Token for Avx512Ifma {}

/// Registers of 512 bits. The field is private and a token, so all methods run only on processors that have the
/// instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512<W>(W);

/// Products by `vpmadd52luq` and `vpmadd52huq`.
pub(crate) type Avx512Ifma52 = Avx512<Avx512Ifma>;
/// Products by fused multiply-adds of doubles.
pub(crate) type Avx512Doubles = Avx512<Avx512Dq>;

impl<W: Token> Avx512<W> {
    pub(crate) fn new(token: W) -> Self {
        Avx512(token)
    }
}

/// Defines methods of one or a few instructions that touch no memory.
macro_rules! instructions {
    ($(fn $name:ident($($operand:ident: $type:ty),*) -> $out:ty $(where const $s:ident)? $body:block)*) => {
        $(#[inline(always)]
        fn $name(self, $($operand: $type),*) -> $out {
            // SAFETY: `self` holds a token of the instructions, which touch no memory.
            unsafe { $body }
        })*
    };
}

impl<W: Token> Vector for Avx512<W> {
    type Word = __m512i;
    type Limbs = [[__m512i; LIMBS]; 2];

    const REGISTERS: usize = 2;

    #[inline(always)]
    fn run<T: Routine>(self, routine: T) -> T::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        #[inline(never)]
        fn enter<T: Routine>(routine: T) -> T::Output {
            routine.run()
        }
        // SAFETY: `self` holds a token of these instruction sets.
        rounding_to_nearest(|| unsafe { enter(routine) })
    }

    #[inline(always)]
    fn zero(self) -> Self::Limbs {
        [[self.splat(0); LIMBS]; 2]
    }

    instructions! {
        fn splat(word: u64) -> __m512i { _mm512_set1_epi64(word as i64) }
        fn add(a: __m512i, b: __m512i) -> __m512i { _mm512_add_epi64(a, b) }
        fn sub(a: __m512i, b: __m512i) -> __m512i { _mm512_sub_epi64(a, b) }
        fn and(a: __m512i, b: __m512i) -> __m512i { _mm512_and_si512(a, b) }
        fn select(mask: u8, a: __m512i, b: __m512i) -> __m512i { _mm512_mask_blend_epi64(mask, a, b) }
        fn equal(a: __m512i, b: __m512i) -> u8 { _mm512_cmpeq_epi64_mask(a, b) }
        fn negative(a: __m512i) -> u8 { _mm512_cmplt_epi64_mask(a, _mm512_setzero_si512()) }
    }

    #[inline(always)]
    fn shl<const S: u32>(self, a: __m512i) -> __m512i {
        // SAFETY: `self` holds a token of the instruction, which touches no memory.
        unsafe { _mm512_slli_epi64::<S>(a) }
    }

    #[inline(always)]
    fn carry<const CLEAR: bool>(self, mut limbs: [__m512i; LIMBS]) -> [__m512i; LIMBS] {
        let mask = self.splat(MASK);
        for j in 0..LIMBS - 1 {
            // SAFETY: `self` holds a token of the instruction, which touches no memory.
            let carry = unsafe { _mm512_srai_epi64::<{ LIMB_BITS as u32 }>(limbs[j]) };
            limbs[j + 1] = self.add(limbs[j + 1], carry);
            if CLEAR {
                limbs[j] = self.and(limbs[j], mask);
            }
        }
        limbs
    }

    #[inline(always)]
    fn gather(self, lines: &[&Line; LANES]) -> Self::Limbs {
        let mut out = self.zero();
        for v in 0..2 {
            let mut rows = [self.splat(0); 8];
            for i in 0..8 {
                // SAFETY: a line is 64 bytes, aligned to as many.
                rows[i] = unsafe { _mm512_load_si512(lines[8 * v + i].0.as_ptr().cast()) };
            }
            out[v] = transpose(self, &rows);
        }
        out
    }

    #[inline(always)]
    fn scatter(self, limbs: &Self::Limbs) -> [Line; LANES] {
        let mut out = [Line::ZERO; LANES];
        for v in 0..2 {
            let rows = transpose(self, &limbs[v]);
            for i in 0..8 {
                // SAFETY: a line is 64 bytes, aligned to as many.
                unsafe { _mm512_store_si512(out[8 * v + i].0.as_mut_ptr().cast(), rows[i]) };
            }
        }
        out
    }

    #[inline(always)]
    fn prefetch(self, line: &Line) {
        // SAFETY: the pointer comes from a reference, and a prefetch reads nothing. Newer compilers
        // know that it is safe.
        #[allow(unused_unsafe)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(line).cast());
        }
    }
}

/// Transposes eight registers of eight words.
#[inline(always)]
fn transpose<W: Token>(m: Avx512<W>, rows: &[__m512i; 8]) -> [__m512i; 8] {
    let mut pairs = [m.splat(0); 8];
    let mut quads = pairs;
    let mut out = pairs;
    // SAFETY: `m` holds a token of the instructions, which touch no memory.
    unsafe {
        for i in 0..4 {
            pairs[2 * i] = _mm512_unpacklo_epi64(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm512_unpackhi_epi64(rows[2 * i], rows[2 * i + 1]);
        }
        // pairs[2i + h] holds words h, 2 + h, 4 + h, 6 + h of rows 2i and 2i + 1, in 128-bit blocks.
        for h in 0..2 {
            for g in 0..2 {
                let (low, high) = (pairs[4 * g + h], pairs[4 * g + 2 + h]);
                // Blocks 0, 2 of both, and blocks 1, 3 of both.
                quads[4 * g + h] = _mm512_shuffle_i64x2::<0b10_00_10_00>(low, high);
                quads[4 * g + 2 + h] = _mm512_shuffle_i64x2::<0b11_01_11_01>(low, high);
            }
        }
        for h in 0..2 {
            for parity in 0..2 {
                let (low, high) = (quads[2 * parity + h], quads[4 + 2 * parity + h]);
                // Word 2·block + h: blocks `parity` and `parity` + 2.
                out[2 * parity + h] = _mm512_shuffle_i64x2::<0b10_00_10_00>(low, high);
                out[2 * parity + 4 + h] = _mm512_shuffle_i64x2::<0b11_01_11_01>(low, high);
            }
        }
    }
    out
}

impl Doubles for Avx512Doubles {
    type Double = __m512d;

    instructions! {
        fn doubles(bits: __m512i) -> __m512d { _mm512_castsi512_pd(bits) }
        fn bits(doubles: __m512d) -> __m512i { _mm512_castpd_si512(doubles) }
        fn or(a: __m512i, b: __m512i) -> __m512i { _mm512_or_si512(a, b) }
        fn above(a: __m512i) -> __m512i { _mm512_srli_epi64::<{ LIMB_BITS as u32 }>(a) }
        fn subtract(a: __m512d, b: __m512d) -> __m512d { _mm512_sub_pd(a, b) }
        fn multiply_add(a: __m512d, b: __m512d, c: __m512d) -> __m512d { _mm512_fmadd_pd(a, b, c) }
        fn multiply_subtract(a: __m512d, b: __m512d, c: __m512d) -> __m512d { _mm512_fmsub_pd(a, b, c) }
        fn max(a: __m512d, b: __m512d) -> __m512d { _mm512_max_pd(a, b) }
    }
}

impl Multiplier for Avx512Doubles {
    #[inline(always)]
    fn products<const K: usize, const FORM: u8>(
        self,
        pairs: [(&Fe<Self>, &Fe<Self>); K],
        out: &mut Fe<Self>,
    ) {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        #[inline(never)]
        fn enter<const K: usize, const FORM: u8>(
            m: Avx512Doubles,
            pairs: [(&Fe<Avx512Doubles>, &Fe<Avx512Doubles>); K],
            out: &mut Fe<Avx512Doubles>,
        ) {
            doubles::products::<_, K, FORM>(m, pairs, out);
        }
        // SAFETY: `self` holds a token of these instruction sets.
        unsafe { enter::<K, FORM>(self, pairs, out) }
    }

    #[inline(always)]
    fn square<const FORM: u8>(self, a: &Fe<Self>, out: &mut Fe<Self>) {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        #[inline(never)]
        fn enter<const FORM: u8>(
            m: Avx512Doubles,
            a: &Fe<Avx512Doubles>,
            out: &mut Fe<Avx512Doubles>,
        ) {
            doubles::square::<_, FORM>(m, a, out);
        }
        // SAFETY: `self` holds a token of these instruction sets.
        unsafe { enter::<FORM>(self, a, out) }
    }

    #[inline(always)]
    fn take_multiple(self, limbs: [__m512i; LIMBS]) -> [__m512i; LIMBS] {
        doubles::take_multiple(self, limbs)
    }
}

impl Multiplier for Avx512Ifma52 {
    #[inline(always)]
    fn products<const K: usize, const FORM: u8>(
        self,
        pairs: [(&Fe<Self>, &Fe<Self>); K],
        out: &mut Fe<Self>,
    ) {
        // SAFETY: `self` holds a token of the instruction sets.
        unsafe { ifma_products::<K, FORM>(self, pairs, out) }
    }

    #[inline(always)]
    fn square<const FORM: u8>(self, a: &Fe<Self>, out: &mut Fe<Self>) {
        // SAFETY: `self` holds a token of the instruction sets.
        unsafe { ifma_square::<FORM>(self, a, out) }
    }

    #[inline(always)]
    fn take_multiple(self, limbs: [__m512i; LIMBS]) -> [__m512i; LIMBS] {
        // SAFETY: `self` holds a token of the instruction sets.
        unsafe { ifma_take_multiple(self, limbs) }
    }
}

/// See [`Multiplier::take_multiple`].
#[target_feature(enable = "avx512f,avx512ifma")]
fn ifma_take_multiple(m: Avx512Ifma52, mut limbs: [__m512i; LIMBS]) -> [__m512i; LIMBS] {
    let zero = m.splat(0);
    let q = _mm512_madd52hi_epu64(zero, limbs[LIMBS - 1], m.splat(TOP_INVERSE));
    for j in 0..LIMBS {
        let mut product = _mm512_madd52lo_epu64(zero, q, m.splat(P_LIMBS[j]));
        if j > 0 {
            product = _mm512_madd52hi_epu64(product, q, m.splat(P_LIMBS[j - 1]));
        }
        limbs[j] = _mm512_sub_epi64(limbs[j], product);
    }
    limbs
}

/// Values that every product keeps in registers.
#[derive(Clone, Copy)]
struct Constants {
    p: [__m512i; LIMBS],
    p_inverse: __m512i,
    /// 2^52 - 1, the initial value of a limb that is to vanish (`LECTURE.md`, products).
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

    /// The q that makes limb i of t + q·p·2^(52i) vanish mod 2^52. The rest of limb i is carried, and its slot
    /// is free.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn quotient<const LEN: usize>(&self, t: &mut [__m512i; LEN], i: usize) -> __m512i {
        // The limb is one too small mod 2^52; the accumulator compensates for it.
        let q = _mm512_madd52lo_epu64(self.p_inverse, t[i], self.p_inverse);
        let carry = _mm512_srli_epi64::<{ LIMB_BITS as u32 }>(t[i]);
        t[i] = _mm512_setzero_si512();
        t[(i + 1) % LEN] = _mm512_add_epi64(t[(i + 1) % LEN], carry);
        q
    }

    /// Adds q·p·2^(52i), except for the part that `quotient` has already carried.
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

/// One of the eight steps of a Montgomery product: the upper halves of the products with limb I of the second
/// operands, the lower halves of the products with the next limb, and a multiple of p.
macro_rules! step {
    ($i:literal, $v:ident, $pairs:ident, $t:ident, $constants:ident) => {
        let q = $constants.quotient(&mut $t, $i);
        for (a, b) in $pairs {
            for j in 0..LIMBS {
                let limb = &mut $t[($i + 1 + j) % LIMBS];
                *limb = _mm512_madd52hi_epu64(*limb, a.limbs[$v][j], b.limbs[$v][$i]);
                if $i + 1 < LIMBS {
                    *limb =
                        _mm512_madd52lo_epu64(*limb, a.limbs[$v][j], b.limbs[$v][($i + 1) % LIMBS]);
                }
            }
        }
        $constants.add_multiple(&mut $t, $i, q);
    };
}

/// See [`Multiplier::products`].
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline(never)]
fn ifma_products<const K: usize, const FORM: u8>(
    m: Avx512Ifma52,
    pairs: [(&Fe<Avx512Ifma52>, &Fe<Avx512Ifma52>); K],
    out: &mut Fe<Avx512Ifma52>,
) {
    let constants = Constants::new();
    // One register per limb: with one pair, all operands of a product fit into the registers.
    for v in 0..2 {
        let mut t = [constants.mask; LIMBS];
        for (a, b) in pairs {
            for j in 0..LIMBS {
                t[j] = _mm512_madd52lo_epu64(t[j], a.limbs[v][j], b.limbs[v][0]);
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
        out.limbs[v] = finish::<_, FORM>(m, t);
    }
}

/// See [`Multiplier::square`]: 200 multiplications instead of 256.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline(never)]
fn ifma_square<const FORM: u8>(m: Avx512Ifma52, a: &Fe<Avx512Ifma52>, out: &mut Fe<Avx512Ifma52>) {
    let constants = Constants::new();
    for v in 0..2 {
        let a = &a.limbs[v];
        // Products of different limbs occur twice, so they are summed once and doubled.
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
        // The accumulators that will vanish start from 2^52 - 1, see `Constants::mask`; the upper eight do not.
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
        out.limbs[v] = finish::<_, FORM>(m, core::array::from_fn(|j| t[LIMBS + j]));
    }
}
