//! Rows in reduced echelon form, added one at a time, and the rows waiting for verification.
//!
//! Each *settled* row has 1 at its own pivot and 0 at the pivots of the other settled rows, so the factors that reduce
//! a new row are read directly from that row, and one pass of the row kernel does the rest. A new row is not eliminated
//! from the others immediately: up to [`FRESH_MAX`] *fresh* rows are reduced only by those before them, and then
//! eliminated together, which saves most of the modular reductions of single eliminations.

use alphorn_exec::Backend;

use crate::coding::PieceStatus;
use crate::kernel::Dispatch;
use crate::row::Row;
use crate::scalar::Scalar;

/// Number of fresh rows that are eliminated together.
const FRESH_MAX: usize = 8;

/// The span of the accepted rows, and that of the waiting ones.
#[derive(Clone, Debug)]
pub(crate) struct Echelon {
    backend: Backend,
    width: usize,
    /// Each has `width` elements, followed by its history: the factors that combine it from the rows as received.
    rows: Vec<Row>,
    pivots: Vec<usize>,
    /// The first `settled` rows are zero at each other's pivots; each later row is zero at those before it.
    settled: usize,
    /// Waiting rows, each reduced by the accepted rows and by those before it, with its pivot.
    waiting: Vec<(usize, Row)>,
    /// Whether rows were accepted since the waiting ones were reduced.
    stale: bool,
}

impl Echelon {
    /// The zero space in `width` dimensions.
    pub(crate) fn new(backend: Backend, width: usize) -> Echelon {
        Echelon {
            backend,
            width,
            rows: Vec::new(),
            pivots: Vec::new(),
            settled: 0,
            waiting: Vec::new(),
            stale: false,
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() == self.width
    }

    /// Accepts the row if it is outside the accepted span. Returns whether it was.
    pub(crate) fn insert(&mut self, row: &Row) -> bool {
        if self.is_full() {
            return false;
        }
        let mut own = row.resized(2 * self.width);
        // Its history so far is the row itself, the next one accepted.
        own.set(self.width + self.rank(), Scalar::ONE);
        let reduced = self.reduced(&own, 2 * self.width);
        let Some(pivot) = self.pivot(&reduced) else {
            return false;
        };
        // Pivots become 1, so that the element of another row at this pivot is the factor to cancel.
        let factor = reduced.get(pivot).vartime_invert();
        self.rows.push(self.backend.combine(&[factor], &[&reduced]));
        self.pivots.push(pivot);
        if self.is_full() {
            // Nothing waits for a complete span.
            self.waiting = Vec::new();
        }
        // The waiting rows are reduced again only when another is offered.
        self.stale = !self.waiting.is_empty();
        // At full rank all at once, because the inverse is read from settled rows.
        if self.is_full() || self.rows.len() - self.settled == FRESH_MAX {
            self.settle();
        }
        true
    }

    /// Status of an unverified row. An innovative one waits from now on.
    pub(crate) fn offer(&mut self, row: &Row) -> PieceStatus {
        if self.is_full() {
            return PieceStatus::Full;
        }
        if self.stale {
            for (_, row) in std::mem::take(&mut self.waiting) {
                self.wait(&row);
            }
            self.stale = false;
        }
        self.wait(row)
    }

    /// Whether any rows are waiting.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Forgets the waiting rows.
    pub(crate) fn withdraw(&mut self) {
        self.waiting.clear();
        self.stale = false;
    }

    fn wait(&mut self, row: &Row) -> PieceStatus {
        // Without a history: a waiting row only shows whether later ones are independent.
        let mut left = self.reduced(row, self.width);
        if left.is_zero() {
            return PieceStatus::Dependent;
        }
        for (pivot, waiting) in &self.waiting {
            let factor = left.get(*pivot);
            if !factor.is_zero() {
                // Any nonzero multiple is sufficient, so no inverse is needed.
                let factors = [waiting.get(*pivot), -factor];
                left = self.backend.combine(&factors, &[&left, waiting]);
            }
        }
        match self.pivot(&left) {
            None => PieceStatus::Held,
            Some(pivot) => {
                self.waiting.push((pivot, left));
                PieceStatus::Innovative
            }
        }
    }

    /// The first `len` elements of the row minus its part in the accepted span.
    fn reduced(&self, row: &Row, len: usize) -> Row {
        let mut factors = vec![Scalar::ONE];
        let mut rows = vec![row];
        for (i, (earlier, &pivot)) in self.rows.iter().zip(&self.pivots).enumerate() {
            let mut factor = -row.get(pivot);
            if i >= self.settled {
                // The contribution of the factors so far to this pivot.
                for (before, earlier) in factors.iter().zip(&rows).skip(1) {
                    factor = factor - *before * earlier.get(pivot);
                }
            }
            if !factor.is_zero() {
                factors.push(factor);
                rows.push(earlier);
            }
        }
        self.backend.combine_prefix(&factors, &rows, len)
    }

    fn pivot(&self, reduced: &Row) -> Option<usize> {
        (0..self.width).find(|&i| !reduced.get(i).is_zero())
    }

    /// Eliminates the fresh rows from each other, starting with the last, and then from all settled ones.
    fn settle(&mut self) {
        for i in (0..self.rows.len()).rev() {
            // Fresh rows are zero at all earlier pivots, so they need only the later ones, while settled rows need
            // all fresh ones. Those are finished by then, so each factor is read off as it is.
            let done = self.settled.max(i + 1);
            let mut factors = vec![Scalar::ONE];
            let mut rows = vec![&self.rows[i]];
            for (fresh, &pivot) in self.rows[done..].iter().zip(&self.pivots[done..]) {
                let factor = self.rows[i].get(pivot);
                if !factor.is_zero() {
                    factors.push(-factor);
                    rows.push(fresh);
                }
            }
            if rows.len() > 1 {
                self.rows[i] = self.backend.combine(&factors, &rows);
            }
        }
        self.settled = self.rows.len();
    }

    /// At full rank: row i lists the factors that combine the received rows into unit vector i.
    pub(crate) fn inverse(&self) -> Option<Vec<Vec<Scalar>>> {
        if !self.is_full() {
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
    use crate::kernel::Dispatch;
    use crate::kernel::tests::kernels;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    fn unit(width: usize, i: usize) -> Row {
        let mut row = Row::zero(width);
        row.set(i, Scalar::ONE);
        row
    }

    fn check_inverse(backend: Backend, echelon: &Echelon, received: &[&Row]) {
        for (i, factors) in echelon.inverse().unwrap().iter().enumerate() {
            assert_eq!(backend.combine(factors, received), unit(received.len(), i));
        }
    }

    #[test]
    fn dependent_rows_are_known_and_the_inverse_is_right() {
        let rows = [[0, 2, 3], [0, 4, 6], [5, 0, 1], [1, 1, 1], [9, 9, 9]]
            .map(|row: [u64; 3]| Row::from_scalars(&row.map(Scalar::from)));
        for backend in kernels() {
            let mut echelon = Echelon::new(backend, 3);
            let innovative = rows.each_ref().map(|row| echelon.insert(row));
            assert_eq!(innovative, [true, false, true, true, false]);
            assert_eq!((echelon.rank(), echelon.is_full()), (3, true));
            check_inverse(backend, &echelon, &[&rows[0], &rows[2], &rows[3]]);
        }
    }

    /// Rows with many zeros, so that pivots occur in any order, over several settlings.
    #[test]
    fn sparse_rows_of_every_width_invert() {
        let mut rng = ChaCha20Rng::seed_from_u64(13);
        let backend = Backend::Portable;
        for width in [1, 2, 7, 8, 9, 17, 30] {
            let mut echelon = Echelon::new(backend, width);
            let mut received: Vec<Row> = Vec::new();
            while !echelon.is_full() {
                let mut row = Row::zero(width);
                for i in 0..width {
                    if rng.next_u32() % 3 == 0 {
                        row.set(i, Scalar::from(u64::from(rng.next_u32() % 4)));
                    }
                }
                let rank = echelon.rank();
                if echelon.insert(&row) {
                    received.push(row);
                }
                assert_eq!(echelon.rank(), received.len());
                assert!(echelon.rank() <= rank + 1);
                assert!(received.iter().all(|row| !echelon.clone().insert(row)));
            }
            check_inverse(backend, &echelon, &received.iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn waiting_rows_are_told_from_accepted_ones() {
        let backend = Backend::Portable;
        let row = |values: [u64; 4]| Row::from_scalars(&values.map(Scalar::from));
        let mut echelon = Echelon::new(backend, 4);
        assert_eq!(echelon.offer(&row([1, 2, 3, 4])), PieceStatus::Innovative);
        assert_eq!(echelon.offer(&row([2, 4, 6, 8])), PieceStatus::Held);
        assert_eq!(echelon.offer(&row([0, 1, 0, 0])), PieceStatus::Innovative);
        assert_eq!(echelon.offer(&row([1, 3, 3, 4])), PieceStatus::Held);
        assert!(echelon.insert(&row([0, 1, 0, 0])));
        assert_eq!(echelon.offer(&row([0, 5, 0, 0])), PieceStatus::Dependent);
        assert_eq!(echelon.offer(&row([1, 9, 3, 4])), PieceStatus::Held);
        assert!(echelon.insert(&row([1, 2, 3, 4])));
        assert_eq!(echelon.offer(&row([1, 9, 3, 4])), PieceStatus::Dependent);
        assert_eq!(echelon.offer(&row([0, 0, 1, 0])), PieceStatus::Innovative);
        echelon.withdraw();
        assert_eq!(echelon.offer(&row([0, 0, 1, 0])), PieceStatus::Innovative);
        assert!(echelon.insert(&row([0, 0, 1, 0])) && echelon.insert(&row([1, 0, 0, 0])));
        assert_eq!(echelon.offer(&row([1, 1, 1, 1])), PieceStatus::Full);
    }
}
