//! The loops of the [model](super), compiled for AVX2.
#![allow(unsafe_code)]

use alphorn_exec::Avx2;
use std::slice::ChunksExact;

use super::{Span, WIDTH_MAX};

/// See [`super::combine`].
pub(super) fn combine(_: Avx2, factors: &[u16], rows: ChunksExact<'_, u16>) -> [u16; WIDTH_MAX] {
    #[target_feature(enable = "avx2")]
    fn compiled(factors: &[u16], rows: ChunksExact<'_, u16>) -> [u16; WIDTH_MAX] {
        super::combine_here(factors, rows)
    }
    // SAFETY: the witness shows that this processor has AVX2, all that the callee is compiled for.
    unsafe { compiled(factors, rows) }
}

/// See [`Span::insert`].
pub(super) fn insert(_: Avx2, span: &mut Span, row: &[u16]) -> bool {
    #[target_feature(enable = "avx2")]
    fn compiled(span: &mut Span, row: &[u16]) -> bool {
        span.insert_here(row)
    }
    // SAFETY: the witness shows that this processor has AVX2, all that the callee is compiled for.
    unsafe { compiled(span, row) }
}

/// See [`Span::was_innovative`].
pub(super) fn was_innovative(_: Avx2, span: &Span, pivots: u64, row: &[u16]) -> bool {
    #[target_feature(enable = "avx2")]
    fn compiled(span: &Span, pivots: u64, row: &[u16]) -> bool {
        span.reduced(pivots, row).is_some()
    }
    // SAFETY: the witness shows that this processor has AVX2, all that the callee is compiled for.
    unsafe { compiled(span, pivots, row) }
}
