//! Four elements at a time: sums of products of pairs, their reduction, and the output formats.
//!
//! 256-bit instructions leave a multiplier free for the rounds of a hash; 512-bit instructions use both, and delay it.

use core::arch::x86_64::*;

use super::sha256::{Hashing, Rounds};
use crate::kernel::avx2::{ORDER_NEG_INVERSE51, ORDER51};
use crate::row::{Block, LANES, Row};
use crate::scalar::Scalar;

/// Elements at a time: half a block.
pub(super) const QUAD: usize = 4;

/// A scalar in each lane, in limbs of 51 bits.
pub(super) type Limbs = [__m256i; 5];

pub(super) const MASK51: u64 = (1 << 51) - 1;

/// (M + 1) / 2^51, where M is the multiple of ℓ that is -1 modulo 2^51.
const MULTIPLE51: [u64; 5] = [
    0x0000_f609_0442_5c62,
    0x0004_7c44_45de_7eb7,
    0x0000_0000_0035_62b7,
    0x0003_0000_0000_0000,
    0x0000_a3b4_624a_8fc3,
];

/// The sums of four elements of one result, in columns of 51 bits. Low and high halves are separate, so that no
/// addition waits for the previous one; a high half counts twice, in the next column.
///
/// A column takes five halves below 2^52 of each of 32 pairs, so `lo` and `hi` grow by less than 2^59.4 each. The
/// initial value of `lo` is at most 2^61 in magnitude: factors and elements have limbs below 2^51, so halves of their
/// own products are below 2^52 and 2^50, and each of both sums is below 2^60. With `hi` counted twice, a column is
/// below 2^62 in magnitude, of 2^63.
pub(super) struct Sums {
    lo: [__m256i; 10],
    hi: [__m256i; 10],
}

/// Adds (f + w')·(f' + w), and interleaves the steps `$from..$to` of a hash, a tenth at a time.
macro_rules! add_pair {
    ($sums:ident, $pair:expr, $factors:expr, $rounds:ident, $hash:ident, $from:literal, $to:literal) => {
        let ([first, second], [f, g]) = ($pair, $factors);
        let b = plus(first, g);
        add_pair!(@ $sums, second, f, b, $rounds, $hash, $from, $to, 0 0 1, 1 2 3, 2 4 5, 3 6 7, 4 8 9);
    };
    (@ $sums:ident, $second:ident, $f:ident, $b:ident, $rounds:ident, $hash:ident, $from:literal, $to:literal, $($i:literal $low:literal $high:literal),*) => {
        $(
            let a = _mm256_add_epi64($second[$i], _mm256_set1_epi64x($f[$i] as i64));
            for j in 0..5 {
                $sums.lo[$i + j] = _mm256_madd52lo_epu64($sums.lo[$i + j], a, $b[j]);
            }
            $rounds.tenth::<$hash, $from, $to, $low>(&mut $sums.lo[$i..]);
            for j in 0..5 {
                $sums.hi[$i + j] = _mm256_madd52hi_epu64($sums.hi[$i + j], a, $b[j]);
            }
            $rounds.tenth::<$hash, $from, $to, $high>(&mut $sums.hi[$i..]);
        )*
    };
}

impl Sums {
    /// Starts from the terms subtracted from all results, and from all elements: both are already negative.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn new(shared: &[__m256i; 10], own: &[u64; 10]) -> Sums {
        Sums {
            lo: std::array::from_fn(|k| {
                _mm256_add_epi64(shared[k], _mm256_set1_epi64x(own[k] as i64))
            }),
            hi: [_mm256_setzero_si256(); 10],
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn zero() -> Sums {
        let zero = _mm256_setzero_si256();
        Sums {
            lo: [zero; 10],
            hi: [zero; 10],
        }
    }

    /// The negative of the accumulated sum, in columns of 51 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn negative(&self) -> [__m256i; 10] {
        let zero = _mm256_setzero_si256();
        std::array::from_fn(|k| {
            let hi = if k > 0 { self.hi[k - 1] } else { zero };
            _mm256_sub_epi64(zero, _mm256_add_epi64(self.lo[k], _mm256_add_epi64(hi, hi)))
        })
    }

    /// Adds four pairs, and interleaves the hash of a block if `HASH`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,sha,sse4.1")]
    pub(super) fn add_four<const HASH: bool>(
        &mut self,
        pairs: &[[Limbs; 2]; 4],
        factors: &[[[u64; 5]; 2]; 4],
        rounds: &mut Rounds,
    ) {
        let sums = self;
        add_pair!(sums, &pairs[0], &factors[0], rounds, HASH, 0, 8);
        add_pair!(sums, &pairs[1], &factors[1], rounds, HASH, 8, 16);
        add_pair!(sums, &pairs[2], &factors[2], rounds, HASH, 16, 24);
        add_pair!(sums, &pairs[3], &factors[3], rounds, HASH, 24, 32);
    }

    /// Adds a pair.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,sha,sse4.1")]
    pub(super) fn add(&mut self, pair: &[Limbs; 2], factors: &[[u64; 5]; 2]) {
        const HASH: bool = false;
        let (sums, rounds) = (self, &mut Rounds::new(&[0; 8]));
        add_pair!(sums, pair, factors, rounds, HASH, 0, 0);
    }

    /// Adds the last pair, divides by 2^306 modulo ℓ, and writes the result; interleaves the hash of a block if `HASH`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,sha,sse4.1")]
    pub(super) fn finish<const HASH: bool>(
        self,
        pair: &[Limbs; 2],
        factors: &[[u64; 5]; 2],
        out: &mut Row,
        quad: usize,
        hashing: &mut Hashing<'_>,
    ) {
        let mut sums = self;
        let rounds = &mut hashing.rounds;
        add_pair!(sums, pair, factors, rounds, HASH, 0, 6);
        let mut value = canonical(sums.reduced::<HASH>(rounds));
        rounds.steps::<HASH, 24, 26>(&mut value);
        // Collected here and tested once at the end, instead of for every element.
        hashing.top = _mm256_or_si256(hashing.top, value[4]);
        let elements = out.len() - quad * QUAD;
        write(
            &mut out.blocks[quad * QUAD / LANES],
            quad * QUAD % LANES,
            &value,
        );
        rounds.steps::<HASH, 26, 28>(&mut value);
        let mut scalars = scalars(&value);
        rounds.steps::<HASH, 28, 30>(&mut scalars);
        hashing.take(&scalars, elements);
        hashing.rounds.steps::<HASH, 30, 32>(&mut scalars);
    }

    /// The sums / 2^306 modulo ℓ, at most slightly above ℓ, interleaved with steps of a block of the hash.
    ///
    /// The value T is below 64·ℓ²·(1 + 2^-40), and not negative. With M as in [`MULTIPLE51`] and q = T modulo 2^51,
    /// (T + q·M) / 2^51 is T / 2^51, rounded down, plus q·(M + 1) / 2^51: no product is needed for this q. The value
    /// after four such steps is below 2^54·ℓ + 2^51·ℓ and slightly more, because M is below 2^51·ℓ. Two steps with ℓ
    /// itself leave less than 11·ℓ, and then less than ℓ·(1 + 2^-47).
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,sha,sse4.1")]
    fn reduced<const HASH: bool>(self, rounds: &mut Rounds) -> Limbs {
        let Sums { mut lo, mut hi } = self;
        let zero = _mm256_setzero_si256();
        let mask = _mm256_set1_epi64x(MASK51 as i64);
        let order = ORDER51.map(|limb| _mm256_set1_epi64x(limb as i64));
        let multiple = MULTIPLE51.map(|limb| _mm256_set1_epi64x(limb as i64));
        let inverse = _mm256_set1_epi64x(ORDER_NEG_INVERSE51 as i64);
        let twice = |high: __m256i| _mm256_slli_epi64::<1>(high);
        let mut below = zero;
        let mut above = zero;
        macro_rules! steps {
            ($with:ident $($i:literal)*) => {$(
                let column = _mm256_add_epi64(_mm256_add_epi64(lo[$i], above), twice(below));
                let column = steps!(@ $with $i column);
                (above, below) = (_mm256_srai_epi64::<51>(column), hi[$i]);
                rounds.tenth::<HASH, 6, 24, $i>(&mut lo[if $i < 5 { $i + 1 } else { 5 }..]);
            )*};
            (@ multiple $i:literal $column:ident) => {{
                let q = _mm256_and_si256($column, mask);
                for j in 0..5 {
                    lo[$i + 1 + j] = _mm256_madd52lo_epu64(lo[$i + 1 + j], q, multiple[j]);
                    hi[$i + 1 + j] = _mm256_madd52hi_epu64(hi[$i + 1 + j], q, multiple[j]);
                }
                $column
            }};
            (@ order $i:literal $column:ident) => {{
                // The product has 52 bits, of which 51 count here.
                let q = _mm256_and_si256(_mm256_madd52lo_epu64(zero, $column, inverse), mask);
                hi[$i] = _mm256_madd52hi_epu64(hi[$i], q, order[0]);
                // Limb 3 of ℓ is zero.
                for j in [1, 2, 4] {
                    lo[$i + j] = _mm256_madd52lo_epu64(lo[$i + j], q, order[j]);
                    hi[$i + j] = _mm256_madd52hi_epu64(hi[$i + j], q, order[j]);
                }
                // Its low 51 bits are now zero.
                _mm256_madd52lo_epu64($column, q, order[0])
            }};
        }
        steps!(multiple 0 1 2 3);
        steps!(order 4 5);
        let mut value = [zero; 5];
        macro_rules! limbs {
            ($($k:literal)*) => {$(
                let column = _mm256_add_epi64(_mm256_add_epi64(lo[6 + $k], above), twice(below));
                value[$k] = _mm256_and_si256(column, mask);
                (above, below) = (_mm256_srai_epi64::<51>(column), hi[6 + $k]);
                rounds.tenth::<HASH, 6, 24, { 6 + $k }>(&mut value);
            )*};
        }
        limbs!(0 1 2 3);
        // There is no column 10: all that is left belongs to the top limb.
        value[4] = _mm256_add_epi64(above, twice(below));
        value
    }
}

/// The canonical form of values below 2·ℓ. Those below 2^252 are canonical, and nearly all others are ℓ, where a
/// payload is zero.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn canonical(value: Limbs) -> Limbs {
    // The top limb starts at bit 204: above this, a value is at least 2^252.
    let top = _mm256_set1_epi64x((1 << 48) - 1);
    if _mm256_cmpgt_epi64_mask(value[4], top) == 0 {
        return value;
    }
    let mask = _mm256_set1_epi64x(MASK51 as i64);
    let mut less = value;
    let mut borrow = _mm256_setzero_si256();
    for (k, limb) in less.iter_mut().enumerate() {
        let order = _mm256_set1_epi64x(ORDER51[k] as i64);
        *limb = _mm256_add_epi64(_mm256_sub_epi64(*limb, order), borrow);
        borrow = _mm256_srai_epi64::<63>(*limb);
        if k < 4 {
            *limb = _mm256_and_si256(*limb, mask);
        }
    }
    let keep = _mm256_movepi64_mask(borrow);
    std::array::from_fn(|k| _mm256_mask_blend_epi64(keep, less[k], value[k]))
}

/// 2^612 modulo ℓ in limbs of 51 bits.
const SQUARE51: [u64; 5] = [
    0x0001_14dd_4e9a_8bb5,
    0x0000_beea_3c03_1c14,
    0x0003_95cf_96eb_bb88,
    0x0005_54bd_198d_a797,
    0x0000_f5be_65cb_5c63,
];

/// Up to four factors times 2^306 modulo ℓ, in limbs of 51 bits. They may be slightly above ℓ, which is harmless here.
/// Also -f·f' of the first two and of the others, in columns of 51 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,sha,sse4.1")]
pub(super) fn raised(factors: &[Scalar]) -> ([[u64; 5]; QUAD], [[u64; 10]; 2]) {
    let mut limbs = [[0; QUAD]; 5];
    for (lane, factor) in factors.iter().enumerate() {
        let [a, b, c, d] = factor.0;
        let words = [
            a,
            (a >> 51) | (b << 13),
            (b >> 38) | (c << 26),
            (c >> 25) | (d << 39),
            d >> 12,
        ];
        for (limb, word) in limbs.iter_mut().zip(words) {
            limb[lane] = word & MASK51;
        }
    }
    let limbs = limbs.map(|[a, b, c, d]| _mm256_set_epi64x(d as i64, c as i64, b as i64, a as i64));
    let none = [0; 5];
    let mut sums = Sums::zero();
    // Times 2^612, which the reduction divides by 2^306.
    sums.add(&[limbs, [_mm256_setzero_si256(); 5]], &[SQUARE51, none]);
    let limbs = sums.reduced::<false>(&mut Rounds::new(&[0; 8]));
    // Exchanges neighbours, so that lanes 0 and 2 get f·f'.
    let others = limbs.map(|limb| _mm256_permutex_epi64::<0b10_11_00_01>(limb));
    let mut products = Sums::zero();
    products.add(&[limbs, others], &[none; 2]);
    let limbs = limbs.map(|limb| words(limb));
    let columns = products.negative().map(|column| words(column));
    (
        std::array::from_fn(|lane| limbs.map(|limb| limb[lane])),
        [0, 2].map(|lane| columns.map(|column| column[lane])),
    )
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn words(vector: __m256i) -> [u64; QUAD] {
    let mut out = [0; QUAD];
    // SAFETY: `out` is 32 writable bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), vector) }
    out
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn plus(limbs: &Limbs, factor: &[u64; 5]) -> Limbs {
    std::array::from_fn(|k| _mm256_add_epi64(limbs[k], _mm256_set1_epi64x(factor[k] as i64)))
}

/// Writes the elements as limbs of 52 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn write(block: &mut Block, lane: usize, [a, b, c, d, e]: &Limbs) {
    let limbs = [
        _mm256_or_si256(*a, _mm256_slli_epi64::<51>(*b)),
        _mm256_or_si256(_mm256_srli_epi64::<1>(*b), _mm256_slli_epi64::<50>(*c)),
        _mm256_or_si256(_mm256_srli_epi64::<2>(*c), _mm256_slli_epi64::<49>(*d)),
        _mm256_or_si256(_mm256_srli_epi64::<3>(*d), _mm256_slli_epi64::<48>(*e)),
        _mm256_srli_epi64::<4>(*e),
    ]
    .map(|limb| _mm256_and_si256(limb, _mm256_set1_epi64x((1 << 52) - 1)));
    for (limbs, out) in limbs.iter().zip(&mut block.limbs) {
        let out: &mut [u64; QUAD] = out[lane..].first_chunk_mut().expect("half a block");
        // SAFETY: `out` is 32 writable bytes; the store needs no alignment.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), *limbs) }
    }
}

/// The four individual elements, each in four words.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn scalars([a, b, c, d, e]: &Limbs) -> [__m256i; 4] {
    let words = [
        _mm256_or_si256(*a, _mm256_slli_epi64::<51>(*b)),
        _mm256_or_si256(_mm256_srli_epi64::<13>(*b), _mm256_slli_epi64::<38>(*c)),
        _mm256_or_si256(_mm256_srli_epi64::<26>(*c), _mm256_slli_epi64::<25>(*d)),
        _mm256_or_si256(_mm256_srli_epi64::<39>(*d), _mm256_slli_epi64::<12>(*e)),
    ];
    let low = [0, 2].map(|k| _mm256_unpacklo_epi64(words[k], words[k + 1]));
    let high = [0, 2].map(|k| _mm256_unpackhi_epi64(words[k], words[k + 1]));
    [
        _mm256_permute2x128_si256::<0x20>(low[0], low[1]),
        _mm256_permute2x128_si256::<0x20>(high[0], high[1]),
        _mm256_permute2x128_si256::<0x31>(low[0], low[1]),
        _mm256_permute2x128_si256::<0x31>(high[0], high[1]),
    ]
}
