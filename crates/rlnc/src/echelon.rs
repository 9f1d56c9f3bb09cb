//! Rows in reduced echelon form, grown one row at a time.
//!
//! Each stored row has 1 at its own pivot and 0 at the pivots of the others, so the factors that
//! reduce a new row are read off that row at once, and one pass of the row kernel does the rest.

use std::fmt::Debug;

/// Vectors over a field, and the one operation that elimination needs.
pub(crate) trait Space: Clone + Debug {
    type Factor: Copy + PartialEq + Debug;
    type Vector: Clone + Debug;

    const ZERO: Self::Factor;
    const ONE: Self::Factor;

    fn zero(&self, len: usize) -> Self::Vector;
    fn get(&self, vector: &Self::Vector, i: usize) -> Self::Factor;
    fn set(&self, vector: &mut Self::Vector, i: usize, value: Self::Factor);
    fn negative(&self, factor: Self::Factor) -> Self::Factor;
    /// The inverse of a factor that is not zero.
    fn inverse(&self, factor: Self::Factor) -> Self::Factor;
    /// Σ factors[i] · vectors[i].
    fn combine(&self, factors: &[Self::Factor], vectors: &[&Self::Vector]) -> Self::Vector;
}

/// The span of the accepted rows.
#[derive(Clone, Debug)]
pub(crate) struct Echelon<S: Space> {
    space: S,
    width: usize,
    /// Whether rows carry, behind their `width` elements, their history: how they are combined from
    /// the rows as received.
    history: bool,
    rows: Vec<S::Vector>,
    pivots: Vec<usize>,
}

impl<S: Space> Echelon<S> {
    /// The zero space in `width` dimensions; with `history` the inverse can be read at full rank.
    pub(crate) fn new(space: S, width: usize, history: bool) -> Echelon<S> {
        Echelon {
            space,
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
    pub(crate) fn is_innovative(&self, row: &S::Vector) -> bool {
        !self.is_full() && self.pivot(&self.reduced(row)).is_some()
    }

    /// Adds the row if it is outside the span; says whether it was.
    pub(crate) fn insert(&mut self, row: &S::Vector) -> bool {
        if self.is_full() {
            return false;
        }
        let mut reduced = self.reduced(row);
        let Some(pivot) = self.pivot(&reduced) else {
            return false;
        };
        let factor = self.space.inverse(self.space.get(&reduced, pivot));
        reduced = self.space.combine(&[factor], &[&reduced]);
        for earlier in &mut self.rows {
            let factor = self.space.get(earlier, pivot);
            if factor != S::ZERO {
                let factors = [S::ONE, self.space.negative(factor)];
                *earlier = self.space.combine(&factors, &[earlier, &reduced]);
            }
        }
        self.rows.push(reduced);
        self.pivots.push(pivot);
        true
    }

    /// The row less its part in the span, followed by its history if that is kept.
    fn reduced(&self, row: &S::Vector) -> S::Vector {
        let len = if self.history {
            2 * self.width
        } else {
            self.width
        };
        let mut own = self.space.zero(len);
        for i in 0..self.width {
            self.space.set(&mut own, i, self.space.get(row, i));
        }
        if self.history {
            self.space.set(&mut own, self.width + self.rank(), S::ONE);
        }
        let mut factors = vec![S::ONE];
        let mut vectors = vec![&own];
        for (vector, &pivot) in self.rows.iter().zip(&self.pivots) {
            let factor = self.space.get(row, pivot);
            if factor != S::ZERO {
                factors.push(self.space.negative(factor));
                vectors.push(vector);
            }
        }
        self.space.combine(&factors, &vectors)
    }

    fn pivot(&self, reduced: &S::Vector) -> Option<usize> {
        (0..self.width).find(|&i| self.space.get(reduced, i) != S::ZERO)
    }

    /// The same span, for tests of membership only.
    pub(crate) fn without_history(&self) -> Echelon<S> {
        let cut = |row: &S::Vector| {
            let mut short = self.space.zero(self.width);
            for i in 0..self.width {
                self.space.set(&mut short, i, self.space.get(row, i));
            }
            short
        };
        Echelon {
            space: self.space.clone(),
            width: self.width,
            history: false,
            rows: self.rows.iter().map(cut).collect(),
            pivots: self.pivots.clone(),
        }
    }

    /// At full rank: row i lists the factors that combine the rows as received into unit vector i.
    pub(crate) fn inverse(&self) -> Option<Vec<Vec<S::Factor>>> {
        if !self.history || !self.is_full() {
            return None;
        }
        let mut inverse = vec![Vec::new(); self.width];
        for (row, &pivot) in self.rows.iter().zip(&self.pivots) {
            let columns = self.width..2 * self.width;
            inverse[pivot] = columns.map(|i| self.space.get(row, i)).collect();
        }
        Some(inverse)
    }
}
