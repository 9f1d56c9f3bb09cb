//! Public rows to which instances refer: the keys of a committee.

use crate::error::ProveError;
use crate::field::Fp;

/// Public rows in which tuples are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    columns: Vec<Vec<Fp>>,
    rows: usize,
    size: usize,
}

impl Registry {
    /// Rows of `width` elements, padded with zero rows to 2^`rows_log2`.
    ///
    /// # Errors
    /// [`ProveError::Capacity`] if there are too many rows, or one has another width.
    pub fn new<R: AsRef<[Fp]>>(
        rows: &[R],
        width: usize,
        rows_log2: usize,
    ) -> Result<Registry, ProveError> {
        let capacity = |what, got, max| ProveError::Capacity { what, got, max };
        if rows.len() > 1 << rows_log2 {
            return Err(capacity("registry rows", rows.len(), 1 << rows_log2));
        }
        let mut widths = rows.iter().map(|row| row.as_ref().len());
        if let Some(got) = widths.find(|got| *got != width) {
            return Err(capacity("elements of a registry row", got, width));
        }
        let column = |k: usize| {
            let mut column: Vec<Fp> = rows.iter().map(|row| row.as_ref()[k]).collect();
            column.resize(1 << rows_log2, Fp::ZERO);
            column
        };
        Ok(Registry {
            columns: (0..width).map(column).collect(),
            rows: 1 << rows_log2,
            size: rows.len(),
        })
    }

    /// Number of rows without padding.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Number of rows with padding: a power of two.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of elements in a row.
    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    /// Row i.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, i: usize) -> Vec<Fp> {
        self.columns.iter().map(|column| column[i]).collect()
    }

    pub(crate) fn column(&self, k: usize) -> &[Fp] {
        &self.columns[k]
    }
}
