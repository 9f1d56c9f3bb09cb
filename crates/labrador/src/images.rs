//! How a level shows that its witness is short: by the image of everything under one dense
//! projection, or by committed images of blocks and a projection of those.
//!
//! A dense projection costs the verifier a product of all its 256 rows with every element. Under
//! blocks of 1024 places that share one matrix `J` it costs that for a thousand elements and for the
//! images, and a factor `160^2 / 28^2` of the norm in place of `128 / 30`. (The committed
//! block-diagonal projection is that of RoKoko; the second projection, in clear, is LaBRADOR's.)
//!
//! A **group** is a run of pieces with one bound of the norm. Its images `y` lie behind the pieces as
//! digits `y = y_0 + 2^9 y_1`, and a matrix `Pi` of its own maps `(y_0; y_1; y)` to 256 numbers `p`.

use alphorn_exec::{Exec, Stopped};

use crate::digits::decompose;
use crate::projection::{LIFTS, Projection, ROWS, Weights, weigh, weights};
use crate::ring::{DEGREE, Ntt, Q, Rq, Small, add_mod, mul_mod};
use crate::transcript::{Transcript, is_left_out};

/// Places under one copy of the block projection.
pub(crate) const BLOCK: usize = 1024;

/// Bits of the lower digits of images.
pub(crate) const BASE: u32 = 9;

/// Ring elements of one digit of an image.
const QUARTERS: usize = ROWS / DEGREE;

/// An image is accepted up to this multiple of the squared norm of what it is an image of, which one
/// image in 256 exceeds.
pub(crate) const IMAGE_FACTOR: u128 = 160;

/// What the projection lemma guarantees of an image over that norm, for an error of `2^-132.8`.
const LEMMA_FACTOR: u128 = 28;

/// Pieces with one bound of their squared norm together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// How many pieces.
    pub pieces: usize,
    /// The bound.
    pub norm_sq: u128,
}

/// The pieces of a level under the block projection, group by group, and where their images lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Ring elements of a piece.
    pub rank: usize,
    /// All groups.
    pub groups: Vec<Group>,
}

impl Images {
    /// Pieces under the projection; behind them are those of the images.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.groups.iter().map(|group| group.pieces).sum()
    }

    /// Blocks of a piece.
    pub(crate) fn piece_blocks(&self) -> usize {
        self.rank.div_ceil(BLOCK)
    }

    /// Blocks of all pieces.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.pieces() * self.piece_blocks()
    }

    /// Ring elements of one digit of all images.
    pub(crate) fn elements(&self) -> usize {
        self.blocks() * QUARTERS
    }

    /// Pieces of the images.
    pub(crate) fn image_pieces(&self) -> usize {
        (2 * self.elements()).div_ceil(self.rank)
    }

    /// The place of the first element of the images.
    pub(crate) fn start(&self) -> usize {
        self.pieces() * self.rank
    }

    /// The blocks of a group.
    fn blocks_of(&self, group: usize) -> std::ops::Range<usize> {
        let before: usize = self.groups[..group].iter().map(|g| g.pieces).sum();
        let each = self.piece_blocks();
        before * each..(before + self.groups[group].pieces) * each
    }

    /// The bound of the squared norm of a group's images, which an honest prover meets by trying.
    fn images_norm_sq(&self, group: usize) -> u128 {
        IMAGE_FACTOR * self.groups[group].norm_sq
    }

    /// The bound of the squared norm of a group's digits: `|y_0| <= 2^8`, `|y_1| <= |y| / 2^9 + 1/2`.
    fn digits_only_norm_sq(&self, group: usize) -> u128 {
        let count = (self.blocks_of(group).len() * ROWS) as u128;
        (self.images_norm_sq(group) >> 17) + count * ((1 << (2 * (BASE - 1))) + 1)
    }

    /// The bound of the squared norm of `(y_0; y_1; y)`.
    pub(crate) fn digits_norm_sq(&self, group: usize) -> u128 {
        self.images_norm_sq(group) + self.digits_only_norm_sq(group)
    }

    /// What the digits add to the squared norm of the witness.
    pub(crate) fn added_norm_sq(&self) -> u128 {
        let groups = 0..self.groups.len();
        groups.map(|group| self.digits_only_norm_sq(group)).sum()
    }

    fn extracted_digits_norm_sq(&self, group: usize) -> u128 {
        IMAGE_FACTOR * self.digits_norm_sq(group) / LEMMA_FACTOR + 1
    }

    /// The squared norm of a group's pieces that the verifier may rely on: `||y||^2 / 28` of each
    /// block, and of `y` what the second projection guarantees.
    #[must_use]
    pub fn extracted_norm_sq(&self, group: usize) -> u128 {
        self.extracted_digits_norm_sq(group) / LEMMA_FACTOR + 1
    }

    /// The same of all pieces and of the digits.
    pub(crate) fn extracted_all_norm_sq(&self) -> u128 {
        let both = |g| self.extracted_norm_sq(g) + self.extracted_digits_norm_sq(g);
        (0..self.groups.len()).map(both).sum()
    }

    /// Whether the modular projection lemma holds for images and digits.
    pub(crate) fn are_legal(&self) -> bool {
        let max = (u128::from(Q) / 125).pow(2);
        (0..self.groups.len()).all(|group| self.extracted_digits_norm_sq(group) <= max)
    }

    /// The first and the number of the elements of a group among those of a digit.
    fn span(&self, group: usize) -> (usize, usize) {
        let blocks = self.blocks_of(group);
        (blocks.start * QUARTERS, blocks.len() * QUARTERS)
    }

    /// Writes the digits of all images behind the pieces. None if a digit does not fit.
    pub(crate) fn write_digits(&self, images: &[[i64; ROWS]], s: &mut [Small]) -> Option<()> {
        let (start, count) = (self.start(), self.elements());
        let elements = images
            .iter()
            .flat_map(|image| image.as_chunks::<DEGREE>().0);
        for (index, element) in elements.enumerate() {
            let mut digits = decompose(element, BASE, 2)?.into_iter();
            s[start + index] = digits.next()?;
            s[start + count + index] = digits.next()?;
        }
        Some(())
    }

    /// Whether the images of a group are short enough.
    pub(crate) fn are_short(&self, images: &[[i64; ROWS]]) -> bool {
        (0..self.groups.len()).all(|group| {
            let images = &images[self.blocks_of(group)];
            let sum: u128 = images.iter().map(crate::projection::image_norm_sq).sum();
            sum <= self.images_norm_sq(group)
        })
    }

    /// `Pi (y_0; y_1; y)` of a group.
    pub(crate) fn project(
        &self,
        group: usize,
        matrix: &Projection,
        s: &[Small],
        exec: Exec<'_>,
    ) -> Result<[i64; ROWS], Stopped> {
        let ((first, count), start) = (self.span(group), self.start());
        let low = &s[start + first..][..count];
        let high = &s[start + self.elements() + first..][..count];
        let one = matrix.project_from(0, low, exec)?;
        let two = matrix.project_from(count, high, exec)?;
        let whole = matrix.project_from(2 * count, low, exec)?;
        let upper = matrix.project_from(2 * count, high, exec)?;
        Ok(std::array::from_fn(|i| {
            one[i] + two[i] + whole[i] + (upper[i] << BASE)
        }))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for group in &self.groups {
            out.extend((group.pieces as u64).to_le_bytes());
            out.extend(group.norm_sq.to_le_bytes());
        }
    }
}

/// What was sent to show that a witness is short.
pub(crate) enum Shown {
    /// The image of everything.
    Dense(Projection, Box<[i64; ROWS]>),
    /// Images of blocks under a matrix, and for each group a matrix and the image of its digits.
    Blocks(Images, Projection, Vec<(Projection, [i64; ROWS])>),
}

/// Random weights of one lift for the equations of a block projection.
struct BlockLift {
    /// `e_(p,b) = e'_p e''_b`.
    pieces: Vec<u64>,
    blocks: Vec<u64>,
    /// For the rows of each `Pi`.
    groups: Vec<Weights>,
}

/// The equations of [`Shown`] under random weights, a form for each lift:
///
/// | equation | weights |
/// |---|---|
/// | `p = M s` | a scalar a row of `M` |
/// | `y_(p,b) = J s_(p,b)` for every block | a scalar a piece, one a block within and one a row of `J` |
/// | `p = Pi (y_0; y_1; y)` for every group | a scalar a row of `Pi` |
///
/// A false equation survives a lift with at most `3 / 2^47`: of a product of three independent
/// scalars one must be what it may not be.
pub(crate) struct ShownLifts {
    pub(crate) shown: Shown,
    /// For the rows of `M` or of `J`.
    pub(crate) rows: [Weights; LIFTS],
    blocks: Vec<BlockLift>,
}

impl Shown {
    /// Of places that no relation uses, those that are no digits of images.
    pub(crate) fn without_digits(&self, mut places: Vec<usize>) -> Vec<usize> {
        if let Self::Blocks(images, ..) = self {
            let digits = images.start()..images.start() + 2 * images.elements();
            places.retain(|place| !digits.contains(place));
        }
        places
    }
}

impl ShownLifts {
    pub(crate) fn draw(shown: Shown, transcript: &Transcript) -> Self {
        let rows = weights(&mut transcript.seed("lift projection", 0).stream());
        let mut blocks = Vec::new();
        if let Shown::Blocks(images, ..) = &shown {
            for l in 0..LIFTS {
                let mut stream = transcript.seed("lift blocks", l as u64).stream();
                let groups = images.groups.iter().map(|_| weights(&mut stream)[0]);
                let groups = groups.collect();
                let mut many = |n: usize| (0..n).map(|_| stream.residue()).collect();
                let mut lift = BlockLift {
                    pieces: many(images.pieces()),
                    blocks: many(images.piece_blocks()),
                    groups,
                };
                if is_left_out!(transcript, Images) {
                    lift.pieces.fill(0);
                }
                if is_left_out!(transcript, Projections) {
                    lift.groups.fill([0; ROWS]);
                }
                blocks.push(lift);
            }
        }
        Self {
            shown,
            rows,
            blocks,
        }
    }

    /// The constant coefficient of a lift.
    pub(crate) fn constant(&self, lift: usize) -> u64 {
        match &self.shown {
            Shown::Dense(_, image) => weigh(&self.rows[lift], image),
            Shown::Blocks(_, _, groups) => (groups.iter().zip(&self.blocks[lift].groups))
                .map(|((_, image), weights)| weigh(weights, image))
                .fold(0, add_mod),
        }
    }

    /// The scalar of a piece under blocks, which counts negatively.
    pub(crate) fn of_piece(&self, lift: usize, piece: usize) -> u64 {
        self.blocks[lift].pieces[piece]
    }

    /// The scalar of a block within a piece.
    pub(crate) fn of_block(&self, lift: usize, block: usize) -> u64 {
        self.blocks[lift].blocks[block]
    }

    /// The columns of `J` under the weights of its rows.
    pub(crate) fn columns(&self, exec: Exec<'_>) -> Result<[Vec<Rq>; LIFTS], Stopped> {
        match &self.shown {
            Shown::Dense(..) => Ok([const { Vec::new() }; LIFTS]),
            Shown::Blocks(images, matrix, _) => {
                collapse(matrix, BLOCK.min(images.rank), &self.rows, exec)
            }
        }
    }

    /// The same as residues.
    pub(crate) fn residues(&self, exec: Exec<'_>) -> Result<[Vec<Ntt>; LIFTS], Stopped> {
        let mut out = [const { Vec::new() }; LIFTS];
        if let Shown::Blocks(images, matrix, _) = &self.shown {
            let count = BLOCK.min(images.rank);
            let parts = exec.try_map(count.div_ceil(CHUNK), |task| {
                let range = task * CHUNK..count.min((task + 1) * CHUNK);
                matrix.collapse_residues(range, &self.rows, exec.backend())
            })?;
            for mut part in parts {
                for (out, part) in out.iter_mut().zip(&mut part) {
                    out.append(part);
                }
            }
        }
        Ok(out)
    }

    /// The forms of all lifts over the digits of the images.
    pub(crate) fn of_images(&self, exec: Exec<'_>) -> Result<[Vec<Rq>; LIFTS], Stopped> {
        let Shown::Blocks(images, _, groups) = &self.shown else {
            return Ok([const { Vec::new() }; LIFTS]);
        };
        let count = images.elements();
        let columns = (groups.iter().enumerate()).map(|(group, (matrix, _))| {
            let weights = std::array::from_fn(|l| self.blocks[l].groups[group]);
            collapse(matrix, 3 * images.span(group).1, &weights, exec)
        });
        let columns: Vec<[Vec<Rq>; LIFTS]> = columns.collect::<Result<_, _>>()?;
        let lifts = exec.try_map(LIFTS, |l| {
            let mut out = vec![Rq::ZERO; 2 * count];
            for (group, columns) in columns.iter().enumerate() {
                let (first, each) = images.span(group);
                for index in 0..each {
                    let mut image = self.image_weights(images, l, first + index);
                    image.add(&columns[l][2 * each + index]);
                    let (low, high) = (first + index, count + first + index);
                    out[low].clone_from(&columns[l][index]);
                    out[low].add(&image);
                    out[high].clone_from(&columns[l][each + index]);
                    out[high].add(&image.scaled(1 << BASE));
                }
            }
            out
        })?;
        let mut lifts = lifts.into_iter();
        Ok(std::array::from_fn(|_| lifts.next().unwrap_or_default()))
    }

    /// The element whose product with element `index` of the images has the constant coefficient
    /// `e_(p,b) <omega, y>`.
    fn image_weights(&self, images: &Images, lift: usize, index: usize) -> Rq {
        let (block, quarter) = (index / QUARTERS, index % QUARTERS);
        let (piece, block) = (block / images.piece_blocks(), block % images.piece_blocks());
        let mut coefficients = [0; DEGREE];
        coefficients.copy_from_slice(&self.rows[lift][quarter * DEGREE..(quarter + 1) * DEGREE]);
        let element = Rq::from_canonical(coefficients).expect("weights are residues");
        let scalar = mul_mod(self.of_piece(lift, piece), self.of_block(lift, block));
        element.sigma().scaled(scalar)
    }

    /// The forms of all lifts over the whole cut witness of so many elements.
    pub(crate) fn forms(
        &self,
        elements: usize,
        exec: Exec<'_>,
    ) -> Result<[Vec<Rq>; LIFTS], Stopped> {
        let images = match &self.shown {
            Shown::Dense(matrix, _) => return collapse(matrix, elements, &self.rows, exec),
            Shown::Blocks(images, ..) => images,
        };
        let (columns, digits) = (self.columns(exec)?, self.of_images(exec)?);
        let mut out: [Vec<Rq>; LIFTS] = std::array::from_fn(|_| vec![Rq::ZERO; elements]);
        for (l, (out, columns)) in out.iter_mut().zip(&columns).enumerate() {
            exec.try_fill(&mut out[..images.start()], CHUNK, |task, out| {
                for (index, out) in (task * CHUNK..).zip(out) {
                    let (piece, place) = (index / images.rank, index % images.rank);
                    let block = self.of_block(l, place / BLOCK);
                    let scalar = mul_mod(self.of_piece(l, piece), block);
                    out.sub(&columns[place % BLOCK].scaled(scalar));
                }
            })?;
            out[images.start()..][..digits[l].len()].clone_from_slice(&digits[l]);
        }
        Ok(out)
    }

    /// `- A_l sum_p c_p e_(p,b)` for each block of a piece and each lift, where `factors` has
    /// `A_l c_p` for each piece: the multiples of the columns of `J`.
    pub(crate) fn of_blocks(&self, images: &Images, factors: &[[Ntt; LIFTS]]) -> Vec<[Ntt; LIFTS]> {
        let sums: [Rq; LIFTS] = std::array::from_fn(|l| {
            let mut sum = Rq::ZERO;
            for (piece, factors) in factors[..images.pieces()].iter().enumerate() {
                sum.sub(&factors[l].to_rq().scaled(self.of_piece(l, piece)));
            }
            sum
        });
        let of_block =
            |block| std::array::from_fn(|l| Ntt::from_rq(&sums[l].scaled(self.of_block(l, block))));
        (0..images.piece_blocks()).map(of_block).collect()
    }
}

/// Elements of a task.
const CHUNK: usize = 64;

/// [`Projection::collapse`] of the first `count` elements, on threads.
fn collapse(
    projection: &Projection,
    count: usize,
    weights: &[Weights; LIFTS],
    exec: Exec<'_>,
) -> Result<[Vec<Rq>; LIFTS], Stopped> {
    let parts = exec.try_map(count.div_ceil(CHUNK), |task| {
        let range = task * CHUNK..count.min((task + 1) * CHUNK);
        projection.collapse(range, weights, exec.backend())
    })?;
    let mut out = [const { Vec::new() }; LIFTS];
    for mut part in parts {
        for (out, part) in out.iter_mut().zip(&mut part) {
            out.append(part);
        }
    }
    Ok(out)
}
