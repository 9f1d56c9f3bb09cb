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

use crate::payload::Joiner;
use crate::point::{Point, weigh};
use crate::row::{LANES, Row};
use crate::scalar::{Scalar, Short};
use table::{Digits, Table, Window};

/// Maximum number of rows of a linear combination: the bound under which no accumulator overflows.
pub(crate) const ROWS_MAX: usize = 64;

/// The kernels of this crate.
pub const KERNELS: Kernels = Kernels {
    of: "rlnc",
    sets: &[InstructionSet::Avx2Fma, InstructionSet::Avx512Ifma],
    work: "a sum over eight points",
    measure,
};

/// The minimum time of a sum over eight points.
fn measure(backend: Backend) -> Duration {
    let table = Table::new(Window::Bits4, &[crate::expand::generator(0); 8]);
    // Realistic digits: half of those of -1 are 0, which only the portable kernel skips individually.
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let row = Row::from_scalars(&[(); 8].map(|()| Scalar::random(&mut rng)));
    let once = || {
        let start = Instant::now();
        let sums = backend.sums(&table, &[Digits::new(Window::Bits4, &row)]);
        std::hint::black_box(sums);
        start.elapsed()
    };
    // Interruptions only lengthen a run, so the shortest one is closest to the kernel's own time.
    (0..8).map(|_| once()).min().unwrap_or(Duration::MAX)
}

/// Operations of a backend.
pub(crate) trait Dispatch: Copy {
    /// For each digit vector, the sums of the signed rows of the table: by lane, group after group.
    fn sums(self, table: &Table, vectors: &[Digits]) -> Vec<Vec<Point>>;

    /// Σ 2^shift · point for lists of points with the same shifts, largest first.
    fn weigh(self, shifts: &[u32], lists: &[Vec<&Point>]) -> Vec<Point>;

    /// Whether it processes two lists in the time of one.
    fn weighs_pairs(self) -> bool;

    /// Σ_j row[j] · point[j] for several rows.
    fn multiply(self, table: &Table, rows: &[&Row]) -> Vec<Point>;

    /// The same for one row per table, summed over all tables.
    fn multiply_all(self, parts: &[(&Table, &Row)]) -> Point;

    /// Σ_i factors[i] · rows[i].
    fn combine(self, factors: &[Scalar], rows: &[&Row]) -> Row;

    /// Σ_i factors[i] · rows[i] for short factors.
    fn combine_short(self, factors: &[Short], rows: &[&Row]) -> Row;

    /// The first `len` elements of Σ_i factors[i] · rows[i], for rows with at least that many.
    fn combine_prefix(self, factors: &[Scalar], rows: &[&Row], len: usize) -> Row;

    /// out[k] = Σ_i factors[k][i] · rows[i], each element canonical. Rows longer than the results leave their own
    /// elements in the last block of a result: see [`Dispatch::combine_prefix`].
    fn combine_into(self, factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
        self.combine_and_join(factors, rows, out, None);
    }

    /// Like [`Dispatch::combine_into`]. The joiner takes all results in order, and a kernel may hash finished results
    /// while it computes others.
    fn combine_and_join(
        self,
        factors: &[&[Scalar]],
        rows: &[&Row],
        out: &mut [Row],
        joiner: Option<&mut Joiner>,
    );
}

impl Dispatch for Backend {
    fn sums(self, table: &Table, vectors: &[Digits]) -> Vec<Vec<Point>> {
        let window = table.window;
        for vector in vectors {
            assert_eq!(
                vector.window, window,
                "digits are made for the table's window"
            );
            assert!(vector.len() <= table.len(), "no more scalars than points");
        }
        // One sum per window, over all points: doublings come only at the end, once per window and not per point.
        let mut sums = vec![vec![Point::IDENTITY; window.groups() * LANES]; vectors.len()];
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2Fma(witness) => avx2::accumulate(witness, table, vectors, &mut sums),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Ifma(witness) => avx512::accumulate(witness, table, vectors, &mut sums),
            _ => portable::accumulate(table, vectors, &mut sums),
        }
        sums
    }

    fn weigh(self, shifts: &[u32], lists: &[Vec<&Point>]) -> Vec<Point> {
        for list in lists {
            assert_eq!(list.len(), shifts.len(), "one shift for each point");
        }
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Ifma(witness) => {
                let pair = |lists: &[Vec<&Point>]| {
                    let [first, .., last] = lists else {
                        // The kernel always takes two: a lone list is weighed twice.
                        return vec![avx512::weigh(witness, shifts, [&lists[0]; 2])[0]];
                    };
                    avx512::weigh(witness, shifts, [first, last]).to_vec()
                };
                lists.chunks(2).flat_map(pair).collect()
            }
            _ => lists.iter().map(|list| weigh(shifts, list)).collect(),
        }
    }

    fn multiply(self, table: &Table, rows: &[&Row]) -> Vec<Point> {
        let digits: Vec<Digits> = rows
            .iter()
            .map(|row| Digits::new(table.window, row))
            .collect();
        let order = order([table.window]);
        let shifts: Vec<u32> = order.iter().map(|(shift, _, _)| *shift).collect();
        let sums = self.sums(table, &digits);
        let lists: Vec<Vec<&Point>> = sums
            .iter()
            .map(|sums| order.iter().map(|(_, _, i)| &sums[*i]).collect())
            .collect();
        self.weigh(&shifts, &lists)
    }

    fn multiply_all(self, parts: &[(&Table, &Row)]) -> Point {
        let sums =
            |(table, row): &(&Table, &Row)| self.sums(table, &[Digits::new(table.window, row)]);
        let sums: Vec<Vec<Vec<Point>>> = parts.iter().map(sums).collect();
        let order = order(parts.iter().map(|(table, _)| table.window));
        let point = |&(_, part, i): &(u32, usize, usize)| &sums[part][0][i];
        if !self.weighs_pairs() {
            // One chain of doublings for the sums of all tables.
            let shifts: Vec<u32> = order.iter().map(|(shift, _, _)| *shift).collect();
            return self.weigh(&shifts, &[order.iter().map(point).collect()])[0];
        }
        // One list per table, with nothing to add for some of the shifts.
        let mut shifts = Vec::with_capacity(order.len());
        let mut lists = vec![Vec::with_capacity(order.len()); parts.len()];
        for terms in order.chunk_by(|a, b| a.0 == b.0) {
            shifts.push(terms[0].0);
            for list in &mut lists {
                list.push(&Point::IDENTITY);
            }
            for term in terms {
                lists[term.1][shifts.len() - 1] = point(term);
            }
        }
        let sums = self.weigh(&shifts, &lists).into_iter();
        sums.reduce(|a, b| a.add(&b)).unwrap_or(Point::IDENTITY)
    }

    fn weighs_pairs(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Ifma(_) => true,
            _ => false,
        }
    }

    fn combine(self, factors: &[Scalar], rows: &[&Row]) -> Row {
        self.combine_prefix(factors, rows, rows.first().map_or(0, |row| row.len()))
    }

    fn combine_short(self, factors: &[Short], rows: &[&Row]) -> Row {
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Ifma(witness) => {
                let len = rows.first().map_or(0, |row| row.len());
                check(rows, len);
                assert_eq!(factors.len(), rows.len(), "one factor for each row");
                avx512::combine_short(witness, factors, rows, len)
            }
            _ => {
                let factors: Vec<Scalar> = factors.iter().map(|&short| short.into()).collect();
                self.combine(&factors, rows)
            }
        }
    }

    fn combine_prefix(self, factors: &[Scalar], rows: &[&Row], len: usize) -> Row {
        let mut out = [Row::zero(len)];
        self.combine_into(&[factors], rows, &mut out);
        let [mut row] = out;
        // Rows longer than `len` leave elements in the last block, where comparisons and `is_zero` would see them.
        row.clear_tail();
        row
    }

    fn combine_and_join(
        self,
        factors: &[&[Scalar]],
        rows: &[&Row],
        out: &mut [Row],
        joiner: Option<&mut Joiner>,
    ) {
        assert_eq!(
            factors.len(),
            out.len(),
            "one list of factors for each result"
        );
        for list in factors {
            assert_eq!(list.len(), rows.len(), "one factor for each row");
        }
        let len = out.first().map_or(0, |row| row.len());
        check(rows, len);
        assert!(
            out.iter().all(|row| row.len() == len),
            "results of one length"
        );
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2Fma(witness) => avx2::combine(witness, factors, rows, out),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512Ifma(witness) => {
                return avx512::combine(witness, factors, rows, out, joiner);
            }
            _ => portable::combine(factors, rows, out),
        }
        if let Some(joiner) = joiner {
            joiner.take(out);
        }
    }
}

/// Checks that a kernel can combine these rows, up to `len` elements of each.
fn check(rows: &[&Row], len: usize) {
    assert!(
        rows.len() <= ROWS_MAX,
        "{} rows overflow the accumulators",
        rows.len()
    );
    assert!(
        rows.iter().all(|row| row.len() >= len),
        "rows at least as long"
    );
}

/// For sums over tables with these windows: the powers of two that weigh them, largest first, with the index of the
/// table and that of the sum.
fn order(windows: impl IntoIterator<Item = Window>) -> Vec<(u32, usize, usize)> {
    let sums = |(part, window): (usize, Window)| {
        let shift = move |i: usize| window.shift(i / LANES, i % LANES);
        (0..window.groups() * LANES).filter_map(move |i| Some((shift(i)?, part, i)))
    };
    let mut order: Vec<_> = windows.into_iter().enumerate().flat_map(sums).collect();
    order.sort_unstable_by_key(|&(shift, _, _)| std::cmp::Reverse(shift));
    order
}

#[cfg(test)]
pub(crate) mod tests;
