//! A cut vector whose residues are computed on use, a few positions of all pieces at a time.
//! Residues of short elements take seventeen times the space, which would be most of a prover's memory, and
//! recomputing them takes no longer than writing them and reading them back.

use std::ops::Range;

use alphorn_exec::{Exec, Stopped};

use crate::cut::Cut;
use crate::key::Key;
use crate::ring::{DEPTH, Matrix, Ntt, Rq, Small, Transforms};
use crate::sis::ROWS_MAX;

/// Maximum number of tasks of a sum over all positions: each task has its own sums and residues.
const TASKS_MAX: usize = 8;

/// Positions per tile: their residues, for some fifty pieces, fit the L2 cache of a core, packed ones
/// included.
const PLACES: usize = 16;
const _: () = assert!(PLACES <= DEPTH, "a sum takes a tile at once");

/// A cut vector: its elements piece by piece.
pub(crate) struct Pieces<'a> {
    pieces: usize,
    rank: usize,
    elements: Elements<'a>,
}

#[derive(Clone, Copy)]
enum Elements<'a> {
    Short(&'a [Small]),
    Wide(&'a [Rq]),
    Residues(&'a [Ntt]),
}

/// Residues of some positions of some pieces, piece after piece. A task reuses the memory from one tile to
/// the next.
#[derive(Default)]
struct Tile {
    places: usize,
    residues: Vec<Ntt>,
}

impl Tile {
    /// Returns position `k` of piece `i`, both relative to the start of the tile.
    #[inline(always)]
    fn at(&self, i: usize, k: usize) -> &Ntt {
        &self.residues[i * self.places + k]
    }
}

impl<'a> Pieces<'a> {
    fn new(cut: &Cut, elements: Elements<'a>) -> Self {
        Self {
            pieces: cut.pieces,
            rank: cut.rank,
            elements,
        }
    }

    /// Pieces of short elements. The last pieces may be missing if no sum reads them.
    pub(crate) fn short(cut: &Cut, s: &'a [Small]) -> Self {
        Self::new(cut, Elements::Short(s))
    }

    /// Pieces of residues.
    pub(crate) fn of_residues(cut: &Cut, x: &'a [Ntt]) -> Self {
        Self::new(cut, Elements::Residues(x))
    }

    /// Pieces of elements of `R_Q`.
    pub(crate) fn wide(cut: &Cut, phi: &'a [Rq]) -> Self {
        Self::new(cut, Elements::Wide(phi))
    }

    /// Reads these positions of some pieces.
    fn read(&self, tile: &mut Tile, pieces: Range<usize>, places: Range<usize>, exec: Exec<'_>) {
        tile.places = places.len();
        tile.residues.clear();
        for piece in pieces {
            let from = piece * self.rank;
            let places = from + places.start..from + places.end;
            match self.elements {
                Elements::Short(s) => exec.backend().add_residues(&s[places], &mut tile.residues),
                Elements::Wide(x) => exec
                    .backend()
                    .add_transforms(&x[places], &mut tile.residues),
                Elements::Residues(x) => tile.residues.extend_from_slice(&x[places]),
            }
        }
    }

    /// Covers all positions in tasks: `add` receives the positions of a tile and the value of its task. How tasks
    /// are cut does not depend on the number of threads.
    fn tasks<T: Send>(
        &self,
        exec: Exec<'_>,
        zero: impl Fn() -> T + Sync,
        add: impl Fn(&mut T, Range<usize>) + Sync,
    ) -> Result<Vec<T>, Stopped> {
        let chunks = self.rank.div_ceil(PLACES);
        let each = chunks.div_ceil(TASKS_MAX).max(1);
        exec.try_map(chunks.div_ceil(each), |task| {
            let mut value = zero();
            for chunk in task * each..((task + 1) * each).min(chunks) {
                // The value is then incomplete, but `try_map` checks once more at the end and discards it.
                if exec.stopped() {
                    break;
                }
                let first = chunk * PLACES;
                add(&mut value, first..self.rank.min(first + PLACES));
            }
            value
        })
    }

    /// Sums over all positions in the tasks of [`Pieces::tasks`], where each task keeps two tiles.
    fn sum(
        &self,
        exec: Exec<'_>,
        zero: impl Fn() -> Matrix + Sync,
        add: impl Fn(&mut Matrix, &mut [Tile; 2], Range<usize>) + Sync,
    ) -> Result<Matrix, Stopped> {
        let parts = self.tasks(
            exec,
            || (zero(), <[Tile; 2]>::default()),
            |(sum, tiles), places| add(sum, tiles, places),
        )?;
        let mut total = zero();
        for (part, _) in &parts {
            total.merge(part, exec.backend());
        }
        Ok(total)
    }

    /// Returns the commitment of `rows` rows to every piece in `pieces`, piece by piece.
    pub(crate) fn commit(
        &self,
        key: &Key,
        rows: usize,
        pieces: Range<usize>,
        exec: Exec<'_>,
    ) -> Result<Vec<Rq>, Stopped> {
        let sum = self.sum(
            exec,
            || Matrix::zero(pieces.len(), rows),
            |sum, [tile, _], places| {
                self.read(tile, pieces.clone(), places.clone(), exec);
                let columns = key.columns(rows, places.clone(), exec.backend());
                sum.add(
                    places.len(),
                    |i, k| tile.at(i, k),
                    |row, k| columns.entry(row, places.start + k),
                    exec.backend(),
                );
            },
        )?;
        Ok(sum.elements(exec.backend()))
    }

    /// Returns `<phi_i, s_j>` for all pieces of both.
    pub(crate) fn products(&self, s: &Pieces<'_>, exec: Exec<'_>) -> Result<Matrix, Stopped> {
        self.sum(
            exec,
            || Matrix::zero(self.pieces, s.pieces),
            |sum, [own, other], places| {
                let count = places.len();
                // Each residue is computed once and used in as many products as the other side has pieces.
                self.read(own, 0..self.pieces, places.clone(), exec);
                s.read(other, 0..s.pieces, places, exec);
                sum.add(
                    count,
                    |i, k| own.at(i, k),
                    |j, k| other.at(j, k),
                    exec.backend(),
                );
            },
        )
    }

    /// Returns `sum phi_k x_k` over the elements of the pieces from `from` on, for several forms over them. All
    /// forms end at the same position and are zero beyond it.
    pub(crate) fn evaluate(
        &self,
        from: usize,
        phis: &[&[Rq]],
        exec: Exec<'_>,
    ) -> Result<Vec<Rq>, Stopped> {
        let backend = exec.backend();
        let sum = self.sum(
            exec,
            || Matrix::zero(phis.len(), 1),
            |sum, [tile, forms], places| {
                for piece in from..self.pieces {
                    let start = (piece - from) * self.rank + places.start;
                    let count = places.len().min(phis[0].len().saturating_sub(start));
                    if count == 0 {
                        continue;
                    }
                    let places = places.start..places.start + count;
                    self.read(tile, piece..piece + 1, places, exec);
                    forms.places = count;
                    forms.residues.clear();
                    for phi in phis {
                        backend.add_transforms(&phi[start..start + count], &mut forms.residues);
                    }
                    sum.add(count, |l, k| forms.at(l, k), |_, k| tile.at(0, k), backend);
                }
            },
        )?;
        Ok(sum.elements(backend))
    }

    /// Returns `sum c_i x_i` over all pieces.
    pub(crate) fn amortise(&self, challenges: &[Ntt], exec: Exec<'_>) -> Result<Vec<Rq>, Stopped> {
        let parts = self.tasks(
            exec,
            || (Vec::new(), Tile::default()),
            |(out, tile), places| {
                let mut sum = Matrix::zero(places.len(), 1);
                self.read(tile, 0..self.pieces, places, exec);
                for piece in (0..self.pieces).step_by(DEPTH) {
                    sum.add(
                        DEPTH.min(self.pieces - piece),
                        |k, i| tile.at(piece + i, k),
                        |_, i| &challenges[piece + i],
                        exec.backend(),
                    );
                }
                out.extend(sum.elements(exec.backend()));
            },
        )?;
        Ok(parts.into_iter().flat_map(|(out, _)| out).collect())
    }
}

impl Key {
    /// Returns the commitment of `rows` rows to a short vector.
    ///
    /// # Panics
    /// If the vector is longer than the key, or there are more than [`ROWS_MAX`] rows.
    pub(crate) fn commit(
        &self,
        rows: usize,
        vector: &[Small],
        exec: Exec<'_>,
    ) -> Result<Vec<Rq>, Stopped> {
        assert!(rows <= ROWS_MAX && vector.len() <= self.length());
        let cut = Cut {
            z_pieces: 0,
            pieces: 1,
            rank: vector.len(),
        };
        Pieces::short(&cut, vector).commit(self, rows, 0..1, exec)
    }
}
