//! The ranks of one generation.

use std::sync::Arc;

use crate::coding::PieceStatus;
use crate::model::Span;

/// A generation of a decoder: the accepted and the waiting rows.
#[derive(Clone, Debug)]
pub(super) struct Generation {
    /// The span of accepted and waiting rows. A piece is reduced once, when it is offered. No waiting row is in the
    /// span of the accepted rows and the other waiting ones, so accepting it changes only the span of the accepted
    /// pieces, which is seldom needed.
    span: Span,
    /// Pivots of rows that alone generate the span of the first accepted pieces; there are as many pivots as pieces.
    settled: u64,
    /// Waiting rows, as offered.
    waiting: Vec<Arc<[u16]>>,
    /// Accepted rows, concatenated, and the bits of their coefficients.
    pub(super) rows: Vec<u16>,
    pub(super) bits: Vec<u8>,
    pub(super) source: bool,
}

impl Generation {
    pub(super) fn new(chunks: u16, source: bool) -> Generation {
        // A source has everything, and no rows of its own.
        let width = if source { 0 } else { usize::from(chunks) };
        Generation {
            span: Span::new(width),
            settled: 0,
            waiting: Vec::new(),
            rows: Vec::new(),
            bits: Vec::new(),
            source,
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.bits.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.source || self.rank() == self.span.width()
    }

    fn is_settled(&self) -> bool {
        self.settled.count_ones() as usize == self.rank()
    }

    /// Reorders the rows of the span so that the accepted ones are first.
    fn settle(&mut self) {
        if self.is_settled() {
            return;
        }
        let settled = self.settled.count_ones() as usize;
        self.span.go_back(self.settled);
        for row in self.rows.chunks_exact(self.span.width()).skip(settled) {
            self.span.insert(row);
        }
        self.settled = self.span.pivots();
        self.waiting.retain(|row| self.span.insert(row));
    }

    pub(super) fn offer(&mut self, row: &Arc<[u16]>) -> PieceStatus {
        if self.span.insert(row) {
            self.waiting.push(row.clone());
            return PieceStatus::Innovative;
        }
        if self.waiting.is_empty() {
            return PieceStatus::Dependent;
        }
        self.settle();
        match self.span.was_innovative(self.settled, row) {
            true => PieceStatus::Held,
            false => PieceStatus::Dependent,
        }
    }

    pub(super) fn withdraw(&mut self) {
        self.waiting.clear();
        self.settle();
        self.span.go_back(self.settled);
    }

    /// Accepts a row if it is outside the span of the accepted ones. Returns whether it was.
    pub(super) fn accept(&mut self, row: &Arc<[u16]>, bits: u8) -> bool {
        let place = self.waiting.iter().position(|waiting| waiting == row);
        if place.is_none() {
            // Never offered, or in the span of rows accepted since.
            self.settle();
            if !self.span.was_innovative(self.settled, row) {
                return false;
            }
        }
        self.rows.extend_from_slice(row);
        self.bits.push(bits);
        match place {
            None => self.settle(),
            Some(place) => {
                self.waiting.remove(place);
                if self.waiting.is_empty() {
                    self.settled = self.span.pivots();
                }
            }
        }
        true
    }
}
