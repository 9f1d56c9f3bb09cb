//! The two kernels: sums over a table of multiples of points, and linear combinations of rows.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod lanes;
pub(crate) mod portable;
pub(crate) mod table;

use std::time::{Duration, Instant};

use alphorn_exec::{Backend, InstructionSet, Kernels};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::point::{Point, weigh};
use crate::row::{LANES, Row};
use crate::scalar::Scalar;
use table::{Digits, Table, Window};

/// Rows that one linear combination may have: the bound under which no accumulator overflows.
pub(crate) const ROWS_MAX: usize = 64;

/// The kernels of this crate.
pub const KERNELS: Kernels = Kernels {
    of: "rlnc",
    sets: &[InstructionSet::Avx2Fma, InstructionSet::Avx512Ifma],
    work: "a sum over eight points",
    measure,
};

/// The least time of a sum over eight points.
fn measure(backend: Backend) -> Duration {
    let table = Table::new(Window::Bits4, &[crate::expand::generator(0); 8]);
    // Digits as they come: half of those of -1 are 0, which the portable kernel alone skips one by one.
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let row = Row::from_scalars(&[(); 8].map(|()| Scalar::random(&mut rng)));
    let once = || {
        let start = Instant::now();
        let sums = backend.accumulate(&table, &[Digits::new(Window::Bits4, &row)]);
        std::hint::black_box(sums);
        start.elapsed()
    };
    (0..8).map(|_| once()).min().unwrap_or(Duration::MAX)
}

/// What a backend does here.
pub(crate) trait Dispatch: Copy {
    /// For each digit vector and each of its windows the sum of the signed rows of the table, as
    /// points with the power of two that weighs them.
    fn accumulate(self, table: &Table, vectors: &[Digits]) -> Vec<Vec<(u32, Point)>>;

    /// Σ_j row[j] · point[j] for several rows.
    fn multiply(self, table: &Table, rows: &[&Row]) -> Vec<Point>;

    /// Σ_i factors[i] · rows[i].
    fn combine(self, factors: &[Scalar], rows: &[&Row]) -> Row;

    /// The first `len` elements of Σ_i factors[i] · rows[i], for rows that have at least so many.
    fn combine_prefix(self, factors: &[Scalar], rows: &[&Row], len: usize) -> Row;

    /// out[k] = Σ_i factors[k][i] · rows[i], each element canonical. Rows longer than the results leave
    /// their own elements in the last block of a result: see [`Dispatch::combine_prefix`].
    fn combine_into(self, factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]);
}

impl Dispatch for Backend {
    fn accumulate(self, table: &Table, vectors: &[Digits]) -> Vec<Vec<(u32, Point)>> {
        let window = table.window;
        for vector in vectors {
            assert_eq!(
                vector.window, window,
                "digits are made for the table's window"
            );
            assert!(vector.len() <= table.len(), "no more scalars than points");
        }
        let mut sums = vec![vec![Point::IDENTITY; window.groups() * LANES]; vectors.len()];
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2Fma(witness) => avx2::accumulate(witness, table, vectors, &mut sums),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Ifma(witness) => avx512::accumulate(witness, table, vectors, &mut sums),
            _ => portable::accumulate(table, vectors, &mut sums),
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

    fn multiply(self, table: &Table, rows: &[&Row]) -> Vec<Point> {
        let digits: Vec<Digits> = rows
            .iter()
            .map(|row| Digits::new(table.window, row))
            .collect();
        self.accumulate(table, &digits)
            .into_iter()
            .map(weigh)
            .collect()
    }

    fn combine(self, factors: &[Scalar], rows: &[&Row]) -> Row {
        self.combine_prefix(factors, rows, rows.first().map_or(0, |row| row.len()))
    }

    fn combine_prefix(self, factors: &[Scalar], rows: &[&Row], len: usize) -> Row {
        let mut out = [Row::zero(len)];
        self.combine_into(&[factors], rows, &mut out);
        let [mut row] = out;
        row.clear_tail();
        row
    }

    fn combine_into(self, factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
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
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2Fma(witness) => avx2::combine(witness, factors, rows, out),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Ifma(witness) => avx512::combine(witness, factors, rows, out),
            _ => portable::combine(factors, rows, out),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
