//! The two kernels: sums over a table of multiples of points, and linear combinations of rows.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod portable;
pub(crate) mod table;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::point::{Point, weigh};
use crate::row::{LANES, Row};
use crate::scalar::Scalar;
use table::{Digits, Table, Window};

/// Rows that one linear combination may have: the bound under which no accumulator overflows.
pub(crate) const ROWS_MAX: usize = 64;

/// Proof that this machine can run one set of kernels: only a check of the CPU makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend(Kernel);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
}

/// Why a name gives no [`Backend`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackendError {
    /// There is no such level.
    #[error("unknown kernel level {0:?}: expected auto, portable, avx2 or avx512")]
    Unknown(String),
    /// This machine lacks the instructions of the level.
    #[error("kernel level {0} needs instructions that this machine lacks")]
    Unavailable(String),
}

impl Backend {
    /// The portable kernels, which every machine has.
    pub fn portable() -> Backend {
        Backend(Kernel::Portable)
    }

    /// All levels that this machine can run, the portable one first.
    pub fn available() -> Vec<Backend> {
        let mut kernels = vec![Kernel::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(avx2::Avx2::detect().map(Kernel::Avx2));
            kernels.extend(avx512::Avx512::detect().map(Kernel::Avx512));
        }
        kernels.into_iter().map(Backend).collect()
    }

    /// The fastest level here, by measurements of a few milliseconds in all.
    pub fn measured() -> Backend {
        Backend::available()
            .into_iter()
            .min_by_key(|backend| backend.measure())
            .unwrap_or_else(Backend::portable)
    }

    /// `portable`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kernel::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => "avx512",
        }
    }

    /// The least time of a few sums over eight points on this machine, to compare levels by.
    pub fn measure(self) -> Duration {
        let table = Table::new(Window::Bits4, &[crate::expand::generator(0); 8]);
        let row = Row::from_scalars(&[-Scalar::ONE; 8]);
        let once = || {
            let start = Instant::now();
            let sums = self.accumulate(&table, &[Digits::new(Window::Bits4, &row)]);
            std::hint::black_box(sums);
            start.elapsed()
        };
        (0..8).map(|_| once()).min().unwrap_or(Duration::MAX)
    }

    /// For each digit vector and each of its windows the sum of the signed rows of the table, as
    /// points with the power of two that weighs them.
    pub(crate) fn accumulate(self, table: &Table, vectors: &[Digits]) -> Vec<Vec<(u32, Point)>> {
        let window = table.window;
        for vector in vectors {
            assert_eq!(
                vector.window, window,
                "digits are made for the table's window"
            );
            assert!(vector.len() <= table.len(), "no more scalars than points");
        }
        let mut sums = vec![vec![Point::IDENTITY; window.groups() * LANES]; vectors.len()];
        match self.0 {
            Kernel::Portable => portable::accumulate(table, vectors, &mut sums),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(token) => token.accumulate(table, vectors, &mut sums),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(token) => token.accumulate(table, vectors, &mut sums),
        }
        let weighed = |sums: Vec<Point>| {
            let shift = |i: usize| window.shift(i / LANES, i % LANES);
            let terms = sums.into_iter().enumerate();
            terms
                .filter_map(|(i, sum)| shift(i).map(|shift| (shift, sum)))
                .collect()
        };
        sums.into_iter().map(weighed).collect()
    }

    /// Σ_j row[j] · point[j] for several rows.
    pub(crate) fn multiply(self, table: &Table, rows: &[&Row]) -> Vec<Point> {
        let digits: Vec<Digits> = rows
            .iter()
            .map(|row| Digits::new(table.window, row))
            .collect();
        self.accumulate(table, &digits)
            .into_iter()
            .map(weigh)
            .collect()
    }

    /// Σ_i factors[i] · rows[i].
    pub(crate) fn combine(self, factors: &[Scalar], rows: &[&Row]) -> Row {
        self.combine_prefix(factors, rows, rows.first().map_or(0, |row| row.len()))
    }

    /// The first `len` elements of Σ_i factors[i] · rows[i], for rows that have at least so many.
    pub(crate) fn combine_prefix(self, factors: &[Scalar], rows: &[&Row], len: usize) -> Row {
        let mut out = [Row::zero(len)];
        self.combine_into(&[factors], rows, &mut out);
        let [mut row] = out;
        row.clear_tail();
        row
    }

    /// out[k] = Σ_i factors[k][i] · rows[i], each element canonical. Rows longer than the results leave
    /// their own elements in the last block of a result: see [`Backend::combine_prefix`].
    pub(crate) fn combine_into(self, factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
        assert!(
            rows.len() <= ROWS_MAX,
            "{} rows overflow the accumulators",
            rows.len()
        );
        assert_eq!(
            factors.len(),
            out.len(),
            "one list of factors for each result"
        );
        for list in factors {
            assert_eq!(list.len(), rows.len(), "one factor for each row");
        }
        if let Some(first) = out.first() {
            let len = first.len();
            assert!(
                out.iter().all(|row| row.len() == len),
                "results of one length"
            );
            assert!(
                rows.iter().all(|row| row.len() >= len),
                "rows at least as long"
            );
        }
        match self.0 {
            Kernel::Portable => portable::combine(factors, rows, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(token) => token.combine(factors, rows, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(token) => token.combine(factors, rows, out),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(name: &str) -> Result<Backend, BackendError> {
        match name {
            "auto" => Ok(Backend::measured()),
            "portable" | "avx2" | "avx512" => Backend::available()
                .into_iter()
                .find(|backend| backend.name() == name)
                .ok_or_else(|| BackendError::Unavailable(name.to_owned())),
            _ => Err(BackendError::Unknown(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
