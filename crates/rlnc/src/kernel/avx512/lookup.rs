//! Location and loading of the table rows selected by digits.

use core::arch::x86_64::*;
use core::hint::black_box;
use core::marker::PhantomData;

use super::{Fe8, here, load, store};
use crate::kernel::lanes::Rows;
use crate::kernel::table::TableRow;
use crate::row::LANES;

/// The rows selected by eight digits: the addresses of their first lines, which are the second lines in the table if
/// the digit is negative. Every row starts at a multiple of 128, so bit 6 distinguishes the two.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(in crate::kernel) struct Located<'a> {
    lines: [u64; LANES],
    table: PhantomData<&'a TableRow>,
}

impl<'a> Located<'a> {
    /// The same row for all lanes.
    pub(super) fn of(row: &'a TableRow) -> Located<'a> {
        Located {
            lines: [core::ptr::from_ref(row).expose_provenance() as u64; LANES],
            table: PhantomData,
        }
    }

    /// Locates the row of |d_λ| in lane λ, or of its negative, for eight digits at once.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    pub(super) fn set(&mut self, rows: Rows<'a>, digits: &[i8; LANES]) {
        let word = |word: u64| _mm512_set1_epi64(word as i64);
        let bytes = i64::from_le_bytes(digits.map(|digit| digit as u8));
        let digits = _mm512_cvtepi8_epi64(_mm_cvtsi64_si128(bytes));
        let negative = _mm512_movepi64_mask(digits);
        let zero = _mm512_testn_epi64_mask(digits, digits);
        // No address is beyond the last row, whatever the digits.
        let magnitude = _mm512_min_epu64(_mm512_abs_epi64(digits), word(rows.rows.len() as u64));
        // Magnitude 1 selects the first row, so addresses count from a row before it.
        let before = rows.rows.as_ptr().expose_provenance() as u64 - size_of::<TableRow>() as u64;
        let lines = _mm512_add_epi64(_mm512_slli_epi64::<7>(magnitude), word(before));
        let lines = _mm512_mask_add_epi64(lines, negative, lines, word(64));
        let identity = core::ptr::from_ref(rows.identity).expose_provenance() as u64;
        self.lines = store(_mm512_mask_mov_epi64(lines, zero, word(identity)));
        // Through memory: extracting them from the register one by one would occupy the shuffle ports.
        black_box(&self.lines);
    }

    /// Prefetches both lines of a row.
    #[inline(always)]
    pub(super) fn fetch(&self, lane: usize) {
        let line = core::ptr::with_exposed_provenance::<i8>(self.lines[lane] as usize);
        // SAFETY: every processor of this kind has the instruction, which reads nothing and never fails.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line);
            _mm_prefetch::<_MM_HINT_T0>(line.map_addr(|line| line ^ 64));
        }
    }
}

/// The rows selected by eight digits, signs applied.
pub(in crate::kernel) struct NielsRows {
    pub(super) plus: Fe8,
    pub(super) minus: Fe8,
    pub(super) dxy: Fe8,
}

impl NielsRows {
    /// Lane λ gets sign(d_λ)·rows[λ].
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    pub(super) fn load(located: &Located<'_>) -> NielsRows {
        let zero = [_mm512_setzero_si512(); 5];
        let mut rows = NielsRows {
            plus: zero,
            minus: zero,
            dxy: zero,
        };
        let mut loading = Loading::new(located);
        for step in 0..20 {
            loading.step(step, &mut rows);
        }
        rows
    }
}

/// Loading of rows in twenty steps. This is most of the work that neither multiplies nor carries, so it is interleaved
/// with products that do not need the previous rows.
pub(super) struct Loading<'a> {
    located: &'a Located<'a>,
    /// Words of the quarter being transposed.
    parts: [__m512i; 4],
    /// Words of dxy or 2p - dxy in the first lines.
    first: [__m512i; 3],
}

impl<'a> Loading<'a> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    pub(super) fn new(located: &'a Located<'a>) -> Loading<'a> {
        let zero = _mm512_setzero_si512();
        Loading {
            located,
            parts: [zero; 4],
            first: [zero; 3],
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    pub(super) fn step(&mut self, step: usize, rows: &mut NielsRows) {
        let quarter = step / 4;
        if quarter == 4 {
            // Nothing is left for the last four steps.
            return;
        }
        // Words `word` to `word + 3` of eight lines: word w of line v becomes word v of vector w.
        // Words 0 to 3 of both lines, then 4 to 7: dxy needs both lines, and comes last.
        let (second, word) = ([0, 64, 0, 64][quarter], [0, 0, 4, 4][quarter]);
        let four = |lane: usize| {
            let line = core::ptr::with_exposed_provenance::<u64>(
                (self.located.lines[lane] ^ second) as usize,
            );
            // SAFETY: the address is that of a line, 64 readable bytes, of rows borrowed for as long as this lives: the
            // first ones are set by `Located::set` or `Located::of`, and a row of 128 bytes starts at a multiple of
            // 128. The words are the first four of a line or the last four; the load needs no alignment.
            unsafe { _mm256_loadu_si256(line.add(word).cast()) }
        };
        let two = |low: usize, high: usize| {
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(four(low)), four(high))
        };
        match step % 4 {
            0 => (self.parts[0], self.parts[1]) = (two(0, 2), two(1, 3)),
            1 => (self.parts[2], self.parts[3]) = (two(4, 6), two(5, 7)),
            2 => {
                let [a, b, c, d] = self.parts;
                // Words 0 and 2, or 1 and 3, of lines 0 to 3, and of lines 4 to 7, in pairs of lines.
                self.parts = [
                    _mm512_unpacklo_epi64(a, b),
                    _mm512_unpackhi_epi64(a, b),
                    _mm512_unpacklo_epi64(c, d),
                    _mm512_unpackhi_epi64(c, d),
                ];
            }
            _ => {
                let [ab_even, ab_odd, cd_even, cd_odd] = self.parts;
                // Of the 128-bit parts, 0 and 2 (0x88) have words 0 or 1, and 1 and 3 (0xdd) have words 2 or 3.
                let words = [
                    _mm512_shuffle_i64x2::<0x88>(ab_even, cd_even),
                    _mm512_shuffle_i64x2::<0x88>(ab_odd, cd_odd),
                    _mm512_shuffle_i64x2::<0xdd>(ab_even, cd_even),
                    _mm512_shuffle_i64x2::<0xdd>(ab_odd, cd_odd),
                ];
                self.parts = words;
                let [a, b, c, d] = words;
                match quarter {
                    0 => rows.plus[..4].copy_from_slice(&words),
                    1 => rows.minus[..4].copy_from_slice(&words),
                    2 => {
                        rows.plus[4] = a;
                        self.first = [b, c, d];
                    }
                    _ => {
                        rows.minus[4] = a;
                        rows.dxy = self.signed([b, c, d]);
                        return;
                    }
                }
            }
        }
        let [a, b, c, d] = &mut self.parts;
        here(a, b);
        here(c, d);
    }

    /// dxy, whose words are in the first lines and these. If the digit is negative, the lines are swapped and dxy is
    /// subtracted from 2p.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn signed(&self, [u0, u1, u2]: [__m512i; 3]) -> Fe8 {
        let [t0, t1, t2] = self.first;
        // The address still says it: bit 6 is set if the second line comes first.
        let negative = _mm512_test_epi64_mask(load(&self.located.lines), _mm512_set1_epi64(64));
        let mut dxy = [t0, t1, t2, u0, u1];
        for (i, (limb, other)) in dxy.iter_mut().zip([u0, u1, u2, t0, t1]).enumerate() {
            // 2p - t has limbs between 0 and 2^52, because those of t are canonical.
            let twice_p = _mm512_set1_epi64((1 << 52) - if i == 0 { 38 } else { 2 });
            *limb = _mm512_mask_sub_epi64(*limb, negative, twice_p, other);
        }
        dxy
    }
}
