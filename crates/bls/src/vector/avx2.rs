//! Registers of four words, with products by doubles.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use alphorn_exec::{Avx2Fma, rounding_to_nearest};

use super::doubles::{self, Doubles};
use super::{Fe, LANES, LIMB_BITS, LIMBS, Line, MASK, Multiplier, Routine, Vector};

/// Registers of 256 bits. The field is private and a witness, so all methods run only on processors that have
/// the instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2Doubles(Avx2Fma);

impl Avx2Doubles {
    pub(crate) fn new(witness: Avx2Fma) -> Self {
        Avx2Doubles(witness)
    }

    /// Four rows of four words, transposed.
    #[inline(always)]
    fn transpose(self, rows: [__m256i; 4]) -> [__m256i; 4] {
        // SAFETY: `self` holds a witness of the instructions, which touch no memory.
        unsafe {
            let [a, b, c, d] = rows;
            let (ab_even, ab_odd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
            let (cd_even, cd_odd) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
            [
                _mm256_permute2x128_si256::<0x20>(ab_even, cd_even),
                _mm256_permute2x128_si256::<0x20>(ab_odd, cd_odd),
                _mm256_permute2x128_si256::<0x31>(ab_even, cd_even),
                _mm256_permute2x128_si256::<0x31>(ab_odd, cd_odd),
            ]
        }
    }
}

/// Defines methods of one or a few instructions that touch no memory.
macro_rules! instructions {
    ($(fn $name:ident($($operand:ident: $type:ty),*) -> $out:ty $body:block)*) => {
        $(#[inline(always)]
        fn $name(self, $($operand: $type),*) -> $out {
            // SAFETY: `self` holds a witness of the instructions, which touch no memory.
            unsafe { $body }
        })*
    };
}

impl Vector for Avx2Doubles {
    type Word = __m256i;
    type Limbs = [[__m256i; LIMBS]; 4];

    const REGISTERS: usize = 4;

    #[inline(always)]
    fn run<T: Routine>(self, routine: T) -> T::Output {
        #[target_feature(enable = "avx2,fma")]
        #[inline(never)]
        fn enter<T: Routine>(routine: T) -> T::Output {
            routine.run()
        }
        // SAFETY: `self` holds a witness of these instruction sets.
        // Products by doubles are exact only with this rounding.
        rounding_to_nearest(|| unsafe { enter(routine) })
    }

    #[inline(always)]
    fn zero(self) -> Self::Limbs {
        [[self.splat(0); LIMBS]; 4]
    }

    instructions! {
        fn splat(word: u64) -> __m256i { _mm256_set1_epi64x(word as i64) }
        fn add(a: __m256i, b: __m256i) -> __m256i { _mm256_add_epi64(a, b) }
        fn sub(a: __m256i, b: __m256i) -> __m256i { _mm256_sub_epi64(a, b) }
        fn and(a: __m256i, b: __m256i) -> __m256i { _mm256_and_si256(a, b) }
        fn select(mask: u8, a: __m256i, b: __m256i) -> __m256i {
            // AVX2 has no mask registers: lane i is chosen if bit i of the mask is set.
            let bits = _mm256_setr_epi64x(1, 2, 4, 8);
            let chosen = _mm256_and_si256(_mm256_set1_epi64x(i64::from(mask)), bits);
            _mm256_blendv_epi8(a, b, _mm256_cmpeq_epi64(chosen, bits))
        }
        fn equal(a: __m256i, b: __m256i) -> u8 {
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(a, b))) as u8
        }
        fn negative(a: __m256i) -> u8 { _mm256_movemask_pd(_mm256_castsi256_pd(a)) as u8 }
    }

    #[inline(always)]
    fn shl<const S: u32>(self, a: __m256i) -> __m256i {
        // SAFETY: `self` holds a witness of the instruction, which touches no memory.
        // A generic constant cannot be cast to the type that the immediate form takes.
        unsafe { _mm256_sll_epi64(a, _mm_cvtsi32_si128(S as i32)) }
    }

    /// AVX2 has no arithmetic shift of 64-bit words, so 2^63 is added to each limb. This leaves its digit
    /// unchanged and makes the carry 2^11 larger.
    #[inline(always)]
    fn carry<const CLEAR: bool>(self, mut limbs: [__m256i; LIMBS]) -> [__m256i; LIMBS] {
        const SIGN: u64 = 1 << 63;
        let (mask, sign) = (self.splat(MASK), self.splat(SIGN));
        // 2^63 for the next limb, minus the 2^11 that this limb's 2^63 adds to its carry.
        let next = self.splat(SIGN - (SIGN >> LIMB_BITS));
        limbs[0] = self.add(limbs[0], sign);
        for j in 0..LIMBS - 1 {
            let carry = self.above(limbs[j]);
            limbs[j + 1] = self.add(self.add(limbs[j + 1], next), carry);
            if CLEAR {
                limbs[j] = self.and(limbs[j], mask);
            }
        }
        if CLEAR {
            limbs[LIMBS - 1] = self.sub(limbs[LIMBS - 1], sign);
        }
        limbs
    }

    #[inline(always)]
    fn gather(self, lines: &[&Line; LANES]) -> Self::Limbs {
        let mut out = self.zero();
        for v in 0..4 {
            for half in 0..2 {
                let mut rows = [self.splat(0); 4];
                for i in 0..4 {
                    let line = &lines[4 * v + i].0[4 * half..4 * half + 4];
                    // SAFETY: half of a line is 32 bytes, aligned to as many.
                    rows[i] = unsafe { _mm256_load_si256(line.as_ptr().cast()) };
                }
                let columns = self.transpose(rows);
                for j in 0..4 {
                    out[v][4 * half + j] = columns[j];
                }
            }
        }
        out
    }

    #[inline(always)]
    fn scatter(self, limbs: &Self::Limbs) -> [Line; LANES] {
        let mut out = [Line::ZERO; LANES];
        for v in 0..4 {
            for half in 0..2 {
                let mut columns = [self.splat(0); 4];
                for j in 0..4 {
                    columns[j] = limbs[v][4 * half + j];
                }
                let rows = self.transpose(columns);
                for i in 0..4 {
                    let line = &mut out[4 * v + i].0[4 * half..4 * half + 4];
                    // SAFETY: half of a line is 32 bytes, aligned to as many.
                    unsafe { _mm256_store_si256(line.as_mut_ptr().cast(), rows[i]) };
                }
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

impl Doubles for Avx2Doubles {
    type Double = __m256d;

    instructions! {
        fn doubles(bits: __m256i) -> __m256d { _mm256_castsi256_pd(bits) }
        fn bits(doubles: __m256d) -> __m256i { _mm256_castpd_si256(doubles) }
        fn or(a: __m256i, b: __m256i) -> __m256i { _mm256_or_si256(a, b) }
        fn above(a: __m256i) -> __m256i { _mm256_srli_epi64::<{ LIMB_BITS as i32 }>(a) }
        fn subtract(a: __m256d, b: __m256d) -> __m256d { _mm256_sub_pd(a, b) }
        fn multiply_add(a: __m256d, b: __m256d, c: __m256d) -> __m256d { _mm256_fmadd_pd(a, b, c) }
        fn multiply_subtract(a: __m256d, b: __m256d, c: __m256d) -> __m256d { _mm256_fmsub_pd(a, b, c) }
        fn max(a: __m256d, b: __m256d) -> __m256d { _mm256_max_pd(a, b) }
    }
}

impl Multiplier for Avx2Doubles {
    #[inline(always)]
    fn products<const K: usize, const FORM: u8>(
        self,
        pairs: [(&Fe<Self>, &Fe<Self>); K],
        out: &mut Fe<Self>,
    ) {
        #[target_feature(enable = "avx2,fma")]
        #[inline(never)]
        fn enter<const K: usize, const FORM: u8>(
            m: Avx2Doubles,
            pairs: [(&Fe<Avx2Doubles>, &Fe<Avx2Doubles>); K],
            out: &mut Fe<Avx2Doubles>,
        ) {
            doubles::products::<_, K, FORM>(m, pairs, out);
        }
        // SAFETY: `self` holds a witness of these instruction sets.
        unsafe { enter::<K, FORM>(self, pairs, out) }
    }

    #[inline(always)]
    fn square<const FORM: u8>(self, a: &Fe<Self>, out: &mut Fe<Self>) {
        #[target_feature(enable = "avx2,fma")]
        #[inline(never)]
        fn enter<const FORM: u8>(m: Avx2Doubles, a: &Fe<Avx2Doubles>, out: &mut Fe<Avx2Doubles>) {
            doubles::square::<_, FORM>(m, a, out);
        }
        // SAFETY: `self` holds a witness of these instruction sets.
        unsafe { enter::<FORM>(self, a, out) }
    }

    #[inline(always)]
    fn take_multiple(self, limbs: [__m256i; LIMBS]) -> [__m256i; LIMBS] {
        doubles::take_multiple(self, limbs)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Products, with_each_multiplier};

    #[test]
    fn products_equal_blst_on_a_thread_that_rounds_up() {
        let round = |control: u32| {
            // SAFETY: the control is the default one but for the rounding; what runs under it is the code
            // under test.
            unsafe {
                core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack));
            }
        };
        let thread = std::thread::spawn(move || {
            round(0x5f80);
            with_each_multiplier!(m => m.run(Products(m, 4)));
            round(0x1f80);
        });
        thread.join().expect("products are right");
    }
}
