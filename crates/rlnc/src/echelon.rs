//! Rows in reduced echelon form, grown one row at a time.
//!
//! Each stored row has 1 at its own pivot and 0 at the pivots of the others, so the factors that
//! reduce a new row are read off that row at once, and one pass of the row kernel does the rest.

use crate::kernel::Backend;
use crate::row::Row;
use crate::scalar::Scalar;

/// The span of the accepted rows.
#[derive(Clone, Debug)]
pub(crate) struct Echelon {
    backend: Backend,
    width: usize,
    /// Whether rows carry, behind their `width` elements, their history: how they are combined from
    /// the rows as received.
    history: bool,
    rows: Vec<Row>,
    pivots: Vec<usize>,
}

impl Echelon {
    /// The zero space in `width` dimensions; with `history` the inverse can be read at full rank.
    pub(crate) fn new(backend: Backend, width: usize, history: bool) -> Echelon {
        Echelon {
            backend,
            width,
            history,
            rows: Vec::new(),
            pivots: Vec::new(),
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() == self.width
    }

    /// Whether the row adds a dimension.
    pub(crate) fn is_innovative(&self, row: &Row) -> bool {
        !self.is_full() && self.pivot(&self.reduced(row)).is_some()
    }

    /// Adds the row if it is outside the span; says whether it was.
    pub(crate) fn insert(&mut self, row: &Row) -> bool {
        if self.is_full() {
            return false;
        }
        let mut reduced = self.reduced(row);
        let Some(pivot) = self.pivot(&reduced) else {
            return false;
        };
        let factor = reduced.get(pivot).vartime_invert();
        reduced = self.backend.combine(&[factor], &[&reduced]);
        for earlier in &mut self.rows {
            let factor = earlier.get(pivot);
            if !factor.is_zero() {
                *earlier = self
                    .backend
                    .combine(&[Scalar::ONE, -factor], &[earlier, &reduced]);
            }
        }
        self.rows.push(reduced);
        self.pivots.push(pivot);
        true
    }

    /// The row less its part in the span, followed by its history if that is kept.
    fn reduced(&self, row: &Row) -> Row {
        let mut own = row.resized(if self.history {
            2 * self.width
        } else {
            self.width
        });
        if self.history {
            own.set(self.width + self.rank(), Scalar::ONE);
        }
        let mut factors = vec![Scalar::ONE];
        let mut rows = vec![&own];
        for (earlier, &pivot) in self.rows.iter().zip(&self.pivots) {
            let factor = row.get(pivot);
            if !factor.is_zero() {
                factors.push(-factor);
                rows.push(earlier);
            }
        }
        self.backend.combine(&factors, &rows)
    }

    fn pivot(&self, reduced: &Row) -> Option<usize> {
        (0..self.width).find(|&i| !reduced.get(i).is_zero())
    }

    /// The same span, for tests of membership only.
    pub(crate) fn without_history(&self) -> Echelon {
        Echelon {
            backend: self.backend,
            width: self.width,
            history: false,
            rows: self
                .rows
                .iter()
                .map(|row| row.resized(self.width))
                .collect(),
            pivots: self.pivots.clone(),
        }
    }

    /// At full rank: row i lists the factors that combine the rows as received into unit vector i.
    pub(crate) fn inverse(&self) -> Option<Vec<Vec<Scalar>>> {
        if !self.history || !self.is_full() {
            return None;
        }
        let mut inverse = vec![Vec::new(); self.width];
        for (row, &pivot) in self.rows.iter().zip(&self.pivots) {
            inverse[pivot] = row.iter().skip(self.width).collect();
        }
        Some(inverse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_echelon_form_knows_spans_and_inverts() {
        let rows = [[0, 2, 3], [0, 4, 6], [5, 0, 1], [1, 1, 1], [9, 9, 9]]
            .map(|row: [u64; 3]| Row::from_scalars(&row.map(Scalar::from)));
        for backend in Backend::available() {
            let mut echelon = Echelon::new(backend, 3, true);
            let mut innovative = Vec::new();
            for row in &rows {
                let expected = echelon.is_innovative(row);
                assert_eq!(echelon.without_history().is_innovative(row), expected);
                assert_eq!(echelon.insert(row), expected);
                innovative.push(expected);
            }
            assert_eq!(innovative, [true, false, true, true, false]);
            assert_eq!((echelon.rank(), echelon.is_full()), (3, true));
            assert!(echelon.without_history().inverse().is_none());
            let inverse = echelon.inverse().unwrap();
            let received = [&rows[0], &rows[2], &rows[3]];
            for (i, factors) in inverse.iter().enumerate() {
                let mut unit = Row::zero(3);
                unit.set(i, Scalar::ONE);
                assert_eq!(backend.combine(factors, &received), unit);
            }
        }
    }
}
