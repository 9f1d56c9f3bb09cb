//! The residues of a cut vector, laid out as they are used: a few places of all pieces together.

use alphorn_exec::{Exec, Stopped};

use crate::key::Key;
use crate::ring::{DEPTH, Matrix, Ntt, Rq, Small, Transforms};
use crate::schedule::Cut;

/// Places of a tile.
const PLACES: usize = 2 * DEPTH;

/// Tasks of a sum over all tiles are at most this many: each has sums of its own.
const TASKS_MAX: usize = 8;

/// Residues of all pieces of a cut vector.
pub(crate) struct Tiles {
    pieces: usize,
    rank: usize,
    /// For each tile its places of the first piece, then of the second, and so on.
    tiles: Vec<Vec<Ntt>>,
}

/// The places of tile `index`, first and count.
fn span(rank: usize, index: usize) -> (usize, usize) {
    let first = index * PLACES;
    (first, PLACES.min(rank - first))
}

impl Tiles {
    /// No pieces yet, and room for those of a cut.
    fn none(cut: &Cut) -> Self {
        let tiles = (0..cut.rank.div_ceil(PLACES)).map(|index| {
            let (_, count) = span(cut.rank, index);
            Vec::with_capacity(count * cut.pieces)
        });
        Self {
            pieces: 0,
            rank: cut.rank,
            tiles: tiles.collect(),
        }
    }

    /// More pieces, up to `pieces` of them, behind those that there are: `residues` adds those of
    /// places `first..first + count` of the whole vector to a tile.
    fn grow(
        mut self,
        pieces: usize,
        exec: Exec<'_>,
        residues: impl Fn(usize, usize, &mut Vec<Ntt>) + Sync,
    ) -> Result<Self, Stopped> {
        let (before, rank) = (self.pieces, self.rank);
        exec.try_fill(&mut self.tiles, 1, |index, tile| {
            let (first, count) = span(rank, index);
            for piece in before..pieces {
                for tile in &mut *tile {
                    residues(piece * rank + first, count, tile);
                }
            }
        })?;
        self.pieces = pieces;
        Ok(self)
    }

    /// Of short elements, piece after piece.
    pub(crate) fn short(cut: &Cut, s: &[Small], exec: Exec<'_>) -> Result<Self, Stopped> {
        Self::first_short(cut, cut.pieces, s, exec)
    }

    /// Of the first pieces of short elements, with room for the others.
    pub(crate) fn first_short(
        cut: &Cut,
        pieces: usize,
        s: &[Small],
        exec: Exec<'_>,
    ) -> Result<Self, Stopped> {
        Self::none(cut).with_short(pieces, s, exec)
    }

    /// With the pieces of short elements that are missing, up to `pieces` of them.
    pub(crate) fn with_short(
        self,
        pieces: usize,
        s: &[Small],
        exec: Exec<'_>,
    ) -> Result<Self, Stopped> {
        self.grow(pieces, exec, |first, count, tile| {
            let elements = &s[first..first + count];
            exec.backend().add_residues(elements, tile);
        })
    }

    /// Of residues, piece after piece.
    pub(crate) fn of_residues(cut: &Cut, x: &[Ntt], exec: Exec<'_>) -> Result<Self, Stopped> {
        Self::none(cut).grow(cut.pieces, exec, |first, count, tile| {
            tile.extend_from_slice(&x[first..first + count]);
        })
    }

    /// Of elements of `R_Q`, piece after piece.
    pub(crate) fn wide(cut: &Cut, phi: &[Rq], exec: Exec<'_>) -> Result<Self, Stopped> {
        Self::none(cut).grow(cut.pieces, exec, |first, count, tile| {
            let elements = &phi[first..first + count];
            exec.backend().add_transforms(elements, tile);
        })
    }

    /// Place `k` of a piece.
    #[inline(always)]
    pub(crate) fn at(&self, piece: usize, k: usize) -> &Ntt {
        let index = k / PLACES;
        let (first, count) = span(self.rank, index);
        &self.tiles[index][piece * count + k - first]
    }

    /// A sum over all places: `add` receives up to [`DEPTH`] of them, first and count, and the
    /// matrix of its task. The order of sums does not depend on threads.
    fn sum(
        &self,
        exec: Exec<'_>,
        zero: impl Fn() -> Matrix + Sync,
        add: impl Fn(&mut Matrix, usize, usize) + Sync,
    ) -> Result<Matrix, Stopped> {
        let chunks = self.rank.div_ceil(DEPTH);
        let each = chunks.div_ceil(TASKS_MAX).max(1);
        let parts = exec.try_map(chunks.div_ceil(each), |task| {
            let mut sum = zero();
            for chunk in task * each..((task + 1) * each).min(chunks) {
                if exec.stopped() {
                    break;
                }
                let first = chunk * DEPTH;
                add(&mut sum, first, DEPTH.min(self.rank - first));
            }
            sum
        })?;
        let mut total = zero();
        for part in &parts {
            total.merge(part, exec.backend());
        }
        Ok(total)
    }

    /// The commitment of `rows` rows to every piece of `pieces`, piece by piece.
    pub(crate) fn commit(
        &self,
        key: &Key,
        rows: usize,
        pieces: std::ops::Range<usize>,
        exec: Exec<'_>,
    ) -> Result<Vec<Rq>, Stopped> {
        let sum = self.sum(
            exec,
            || Matrix::zero(pieces.len(), rows),
            |sum, first, count| {
                sum.add(
                    count,
                    |i, k| self.at(pieces.start + i, first + k),
                    |row, k| key.entry(rows, row, first + k),
                    exec.backend(),
                );
            },
        )?;
        Ok(sum.elements(exec.backend()))
    }

    /// `<s_i, s_j>` for all pairs of pieces, upper triangle by rows.
    pub(crate) fn squares(&self, exec: Exec<'_>) -> Result<Vec<Rq>, Stopped> {
        let sum = self.sum(
            exec,
            || Matrix::triangle(self.pieces),
            |sum, first, count| {
                let place = |i, k| self.at(i, first + k);
                sum.add(count, place, place, exec.backend());
            },
        )?;
        Ok(sum.elements(exec.backend()))
    }

    /// `<phi_i, s_j>` for all pieces of both.
    pub(crate) fn products(&self, s: &Self, exec: Exec<'_>) -> Result<Matrix, Stopped> {
        self.sum(
            exec,
            || Matrix::zero(self.pieces, s.pieces),
            |sum, first, count| {
                sum.add(
                    count,
                    |i, k| self.at(i, first + k),
                    |j, k| s.at(j, first + k),
                    exec.backend(),
                );
            },
        )
    }

    /// `sum phi_k x_k` over the elements of the pieces from `from` on, for several forms over these.
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
            |sum, first, count| {
                for piece in from..self.pieces {
                    let start = (piece - from) * self.rank + first;
                    let forms = phis.iter().map(|phi| &phi[start..start + count]);
                    let forms: Vec<Vec<Ntt>> = forms.map(|phi| backend.transforms(phi)).collect();
                    let place = |_, k| self.at(piece, first + k);
                    sum.add(count, |l: usize, k: usize| &forms[l][k], place, backend);
                }
            },
        )?;
        Ok(sum.elements(backend))
    }

    /// `sum c_i x_i` over all pieces.
    pub(crate) fn amortise(&self, challenges: &[Ntt], exec: Exec<'_>) -> Result<Vec<Rq>, Stopped> {
        let parts = exec.try_map(self.tiles.len(), |index| {
            let (first, count) = span(self.rank, index);
            let mut sum = Matrix::zero(count, 1);
            for piece in (0..self.pieces).step_by(DEPTH) {
                sum.add(
                    DEPTH.min(self.pieces - piece),
                    |k, i| self.at(piece + i, first + k),
                    |_, i| &challenges[piece + i],
                    exec.backend(),
                );
            }
            sum.elements(exec.backend())
        })?;
        Ok(parts.concat())
    }
}
