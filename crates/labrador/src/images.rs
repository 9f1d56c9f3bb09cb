//! How a level shows that its witness is short: by the image of the whole witness under one dense
//! projection, or by committed images of blocks and a projection of those images.
//!
//! A dense projection costs the verifier a product of all its 256 rows with every element, or with half of the
//! elements where two [`Parts`] of the witness share one matrix and have an image each. With blocks that share one
//! matrix `J` it costs that only for the positions of a block and for the images, and a factor of `160^2 / 28^2` in
//! the norm instead of `128 / 30`. (The committed block-diagonal projection is that of RoKoko; the second projection,
//! in clear, is LaBRADOR's.)
//!
//! A **group** is a run of pieces with a joint norm bound. Its images `y` are stored after the pieces as
//! digits `y = y_0 + 2^b y_1`, and a matrix `Pi` of its own maps `(y_0; y_1)` to 256 numbers `p`. What
//! `p` shows about the digits bounds `y`: `||y||^2 <= (1 + 4^b) ||(y_0; y_1)||^2` by Cauchy-Schwarz,
//! which loses next to nothing if the upper digits carry the norm; so `b` is small.

use alphorn_exec::{Backend, Exec, Stopped};

use crate::cut::Cut;
use crate::digits::decompose;
use crate::projection::{
    LIFTS, Lifts, Projection, ROWS, SignWeights, Weights, image_variance, weigh, weights,
};
use crate::ring::{DEGREE, Ntt, Q, Rq, Small, Transforms, add_mod, mul_mod, norm_sq};
use crate::transcript::{Transcript, is_left_out};

/// Permitted bits of the lower digits of images.
const BASES: std::ops::RangeInclusive<u32> = 3..=10;

/// Maximum number of blocks of a piece.
const BLOCKS_MAX: usize = 32;

/// Ring elements of one digit of an image.
const QUARTERS: usize = ROWS / DEGREE;

/// An image is accepted up to this multiple of the squared norm of its preimage; one image in 256 exceeds
/// it.
pub(crate) const IMAGE_FACTOR: u128 = 160;

/// Minimum ratio of an image's squared norm to that norm by the projection lemma, for an error of `2^-132.8`.
const LEMMA_FACTOR: u128 = 28;

/// Pieces with a joint bound on their squared norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Number of pieces.
    pub(crate) pieces: usize,
    /// The bound.
    pub(crate) norm_sq: u128,
    /// Bits of the lower digits of the images.
    pub(crate) base: u32,
    /// Bound on the squared norm of the digits.
    pub(crate) digits_norm_sq: u128,
}

impl Group {
    /// Creates a group of `pieces` pieces with `blocks` blocks each. Chooses the base that minimises the
    /// extracted norm, taking into account what the digits add to the norm.
    fn new(pieces: usize, norm_sq: u128, blocks: usize) -> Self {
        let of_base = |base| Self {
            pieces,
            norm_sq,
            base,
            digits_norm_sq: digits_norm_sq(norm_sq, pieces * blocks * ROWS, base),
        };
        let harm = |group: &Self| {
            let all = group.norm_sq + group.digits_norm_sq;
            // Saturates because a base that is far too small only has to lose the comparison.
            group.extracted_norm_sq().saturating_mul(all)
        };
        let least = BASES.map(of_base).min_by_key(harm);
        least.unwrap_or_else(|| of_base(*BASES.end()))
    }

    /// Returns the squared norm of the pieces that the verifier may rely on: `||y||^2 / 28` for each block, where `y`
    /// is bounded by what the second projection guarantees.
    fn extracted_norm_sq(&self) -> u128 {
        self.extracted_images_norm_sq() / LEMMA_FACTOR + 1
    }

    /// The same for the images.
    fn extracted_images_norm_sq(&self) -> u128 {
        let digits = self.extracted_digits_norm_sq();
        digits.saturating_mul(1 + (1 << (2 * self.base)))
    }

    /// The same for the digits.
    fn extracted_digits_norm_sq(&self) -> u128 {
        IMAGE_FACTOR * self.digits_norm_sq / LEMMA_FACTOR + 1
    }
}

/// Bound on the squared norm of the digits of this many numbers, which an honest prover meets by retrying. The
/// upper digits have the squared norm of the images over `4^b`; the lower ones are uniform or shorter.
fn digits_norm_sq(norm_sq: u128, numbers: usize, base: u32) -> u128 {
    // A tenth, where uniform digits have a mean square of a twelfth: the margin that lets an honest prover succeed.
    let lower = (1 << (2 * base)) / 10 + 1;
    let upper = (IMAGE_FACTOR * norm_sq) >> (2 * base);
    upper + numbers as u128 * lower
}

/// The pieces of a level under the block projection, group by group, and where their images are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Ring elements per piece.
    pub(crate) rank: usize,
    /// Positions under one copy of the matrix.
    block: usize,
    /// All groups.
    pub groups: Vec<Group>,
}

/// Returns the block length for which a verifier generates the fewest columns of signs: those of a block, and those
/// of both digits of the images of all blocks.
fn best_block(rank: usize, pieces: usize) -> usize {
    let columns = |blocks: &usize| rank.div_ceil(*blocks) + 2 * QUARTERS * pieces * blocks;
    let blocks = (1..=BLOCKS_MAX.min(rank)).min_by_key(columns);
    rank.div_ceil(blocks.unwrap_or(1))
}

impl Images {
    /// Creates the layout for pieces of this rank, given each group's number of pieces and its bound on their squared
    /// norm.
    pub(crate) fn new(rank: usize, groups: &[(usize, u128)]) -> Self {
        let pieces = groups.iter().map(|(pieces, _)| pieces).sum();
        let block = best_block(rank, pieces);
        let blocks = rank.div_ceil(block);
        let group = |&(pieces, norm_sq): &(usize, u128)| Group::new(pieces, norm_sq, blocks);
        Self {
            rank,
            block,
            groups: groups.iter().map(group).collect(),
        }
    }

    /// Returns the positions per block; the last block of a piece may have fewer.
    #[must_use]
    pub(crate) fn block(&self) -> usize {
        self.block
    }

    /// Returns the number of pieces under the projection; the pieces of the images follow them.
    #[must_use]
    pub(crate) fn pieces(&self) -> usize {
        self.groups.iter().map(|group| group.pieces).sum()
    }

    /// Returns the number of blocks per piece.
    pub(crate) fn piece_blocks(&self) -> usize {
        self.rank.div_ceil(self.block)
    }

    /// Returns the number of blocks of all pieces.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.pieces() * self.piece_blocks()
    }

    /// Returns the number of ring elements of one digit of all images.
    pub(crate) fn elements(&self) -> usize {
        self.blocks() * QUARTERS
    }

    /// Returns the number of pieces that the images take.
    pub(crate) fn image_pieces(&self) -> usize {
        (2 * self.elements()).div_ceil(self.rank)
    }

    /// Returns the position of the first element of the images.
    pub(crate) fn start(&self) -> usize {
        self.pieces() * self.rank
    }

    /// Returns the blocks of a group.
    fn blocks_of(&self, group: usize) -> std::ops::Range<usize> {
        let before: usize = self.groups[..group].iter().map(|g| g.pieces).sum();
        let each = self.piece_blocks();
        before * each..(before + self.groups[group].pieces) * each
    }

    /// Returns what the digits add to the squared norm of the witness.
    pub(crate) fn added_norm_sq(&self) -> u128 {
        self.groups.iter().map(|group| group.digits_norm_sq).sum()
    }

    /// Returns the squared norm of a group's pieces that the verifier may rely on.
    #[must_use]
    pub(crate) fn extracted_norm_sq(&self, group: usize) -> u128 {
        self.groups[group].extracted_norm_sq()
    }

    /// The same for all pieces and the digits.
    pub(crate) fn extracted_all_norm_sq(&self) -> u128 {
        let both = |g: &Group| g.extracted_norm_sq() + g.extracted_digits_norm_sq();
        self.groups.iter().map(both).sum()
    }

    /// Whether the modular projection lemma holds for images and digits.
    pub(crate) fn are_legal(&self) -> bool {
        let max = (u128::from(Q) / 125).pow(2);
        let mut groups = self.groups.iter();
        groups.all(|group| group.extracted_images_norm_sq() <= max)
    }

    /// Returns the first index and the number of a group's elements among those of a digit.
    pub(crate) fn span(&self, group: usize) -> (usize, usize) {
        let blocks = self.blocks_of(group);
        (blocks.start * QUARTERS, blocks.len() * QUARTERS)
    }

    /// Writes the digits of all images after the pieces. None if a digit does not fit.
    pub(crate) fn write_digits(&self, images: &[[i64; ROWS]], s: &mut [Small]) -> Option<()> {
        let (start, count) = (self.start(), self.elements());
        for group in 0..self.groups.len() {
            let base = self.groups[group].base;
            let elements = images[self.blocks_of(group)].iter();
            let elements = elements.flat_map(|image| image.as_chunks::<DEGREE>().0);
            for (index, element) in (self.span(group).0..).zip(elements) {
                let mut digits = decompose(element, base, 2)?.into_iter();
                s[start + index] = digits.next()?;
                s[start + count + index] = digits.next()?;
            }
        }
        Some(())
    }

    /// Returns the lower and the upper digits of a group.
    fn digits<'s>(&self, group: usize, s: &'s [Small]) -> [&'s [Small]; 2] {
        let ((first, count), start) = (self.span(group), self.start());
        [0, self.elements()].map(|digit| &s[start + digit + first..][..count])
    }

    /// Whether the digits of all groups are short enough.
    pub(crate) fn are_short(&self, s: &[Small]) -> bool {
        (0..self.groups.len()).all(|group| {
            let [low, high] = self.digits(group, s);
            norm_sq(low) + norm_sq(high) <= self.groups[group].digits_norm_sq
        })
    }

    /// Returns `Pi (y_0; y_1)` of a group.
    pub(crate) fn project(
        &self,
        group: usize,
        matrix: &Projection,
        s: &[Small],
        exec: Exec<'_>,
    ) -> Result<Vec<[i64; ROWS]>, Stopped> {
        let [low, high] = self.digits(group, s);
        let one = matrix.project_from(0, low, exec)?;
        let two = matrix.project_from(low.len(), high, exec)?;
        Ok(vec![std::array::from_fn(|i| one[i] + two[i])])
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        // The base and the bound on the digits follow from these numbers, and the level encodes the rank.
        out.extend((self.block as u64).to_le_bytes());
        for group in &self.groups {
            out.extend((group.pieces as u64).to_le_bytes());
            out.extend(group.norm_sq.to_le_bytes());
        }
    }
}

/// A witness under a dense projection, divided into parts of whole pieces that share one matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Pieces per part; the last part may have fewer.
    pub(crate) pieces: usize,
    /// Number of parts, each with an image of its own.
    pub count: usize,
}

impl Parts {
    /// Divides `pieces` pieces into at most `count_max` parts.
    pub(crate) fn of(pieces: usize, count_max: usize) -> Self {
        let each = pieces.div_ceil(count_max.max(1)).max(1);
        Self {
            pieces: each,
            count: pieces.div_ceil(each),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.pieces, self.count] {
            out.extend((number as u64).to_le_bytes());
        }
    }

    /// Returns the expected square of one number of the images of a witness of at most this squared norm, if it is
    /// spread evenly over the parts.
    #[must_use]
    pub(crate) fn image_variance(&self, norm_sq: u128) -> u128 {
        image_variance(norm_sq) / self.count as u128 + 1
    }
}

/// The data sent to show that a witness is short.
pub(crate) enum Shown {
    /// The images of all parts under a matrix.
    Dense(Parts, Projection, Vec<[i64; ROWS]>),
    /// Images of blocks under a matrix, and for each group a matrix and the image of its digits.
    Blocks(Images, Projection, Vec<(Projection, [i64; ROWS])>),
}

/// Random weights of one lift for the equations of a block projection.
struct BlockLift {
    /// `e_(p,b) = e'_p e''_b`.
    pieces: Vec<u64>,
    blocks: Vec<u64>,
    /// Weights of the rows of each `Pi`.
    groups: Vec<Weights>,
}

/// The equations of [`Shown`] under random weights, one form per lift:
///
/// | equation | weights |
/// |---|---|
/// | `p_i = M s_i` for every part | a scalar per part, 1 for the first, and one per row of `M` |
/// | `y_(p,b) = J s_(p,b)` for every block | a scalar per piece, one per block within it and one per row of `J` |
/// | `p = Pi (y_0; y_1)` for every group | a scalar per row of `Pi` |
///
/// A false equation survives a lift with probability at most `3 / 2^47`: for that, one of three independent
/// scalars in a product must take its bad value.
pub(crate) struct ShownLifts {
    pub(crate) shown: Shown,
    /// Weights of the rows of `M` or of `J`.
    pub(crate) rows: [Weights; LIFTS],
    /// Scalars of the parts of a dense projection, lift by lift.
    parts: Vec<Vec<u64>>,
    blocks: Vec<BlockLift>,
}

impl Shown {
    /// Keeps, of the positions that no relation uses, those that do not hold digits of images.
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
        let (mut parts, mut blocks) = (Vec::new(), Vec::new());
        for l in 0..LIFTS {
            if let Shown::Dense(all, ..) = &shown {
                let mut stream = transcript.seed("lift parts", l as u64).stream();
                let mut scalars: Vec<u64> = (0..all.count).map(|_| stream.residue()).collect();
                // The weights of the rows already randomise the defects of each part; only the ratios between parts
                // are free. With 1, `forms` leaves the columns of the first part as they are.
                scalars[0] = 1;
                if is_left_out!(transcript, Parts) {
                    scalars.fill(1);
                }
                parts.push(scalars);
            }
            if let Shown::Blocks(images, ..) = &shown {
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
            parts,
            blocks,
        }
    }

    /// Returns the constant coefficient of a lift.
    pub(crate) fn constant(&self, lift: usize) -> u64 {
        match &self.shown {
            Shown::Dense(_, _, images) => (images.iter().zip(&self.parts[lift]))
                .map(|(image, &scalar)| mul_mod(scalar, weigh(&self.rows[lift], image)))
                .fold(0, add_mod),
            // `y - J s = 0` has no constant, since both sides are in the witness. So only what is in clear counts.
            Shown::Blocks(_, _, groups) => (groups.iter().zip(&self.blocks[lift].groups))
                .map(|((_, image), weights)| weigh(weights, image))
                .fold(0, add_mod),
        }
    }

    /// Returns the scalar of a part of a dense projection.
    pub(crate) fn of_part(&self, lift: usize, part: usize) -> u64 {
        self.parts[lift][part]
    }

    /// Returns the scalar of a piece under blocks, which is used with a negative sign.
    pub(crate) fn of_piece(&self, lift: usize, piece: usize) -> u64 {
        self.blocks[lift].pieces[piece]
    }

    /// Returns the scalar of a block within a piece.
    pub(crate) fn of_block(&self, lift: usize, block: usize) -> u64 {
        self.blocks[lift].blocks[block]
    }

    /// Returns the columns of `J` under the weights of its rows.
    pub(crate) fn columns(&self, exec: Exec<'_>) -> Result<[Vec<Rq>; LIFTS], Stopped> {
        match &self.shown {
            Shown::Dense(..) => Ok([const { Vec::new() }; LIFTS]),
            Shown::Blocks(images, matrix, _) => collapse(matrix, images.block, &self.rows, exec),
        }
    }

    /// The same as residues, column by column with all lifts of a column adjacent.
    pub(crate) fn residues(&self, exec: Exec<'_>) -> Result<Vec<Ntt>, Stopped> {
        let Shown::Blocks(images, matrix, _) = &self.shown else {
            return Ok(Vec::new());
        };
        let rows = self.weights_of_rows(exec.backend());
        let mut out = vec![Ntt::zero(); LIFTS * images.block];
        exec.try_fill(&mut out, LIFTS * CHUNK, |task, out| {
            let columns = out.as_chunks_mut().0;
            matrix.collapse_residues(task * CHUNK, &rows, columns, exec.backend());
        })?;
        Ok(out)
    }

    /// Computes some of [`ShownLifts::residues`], starting at a column.
    pub(crate) fn some_residues(
        &self,
        first: usize,
        rows: &SignWeights,
        out: &mut [Lifts],
        backend: Backend,
    ) {
        if let Shown::Blocks(_, matrix, _) = &self.shown {
            matrix.collapse_residues(first, rows, out, backend);
        }
    }

    /// Returns the weights of the rows of `M` or of `J` in the form that a kernel reads.
    pub(crate) fn weights_of_rows(&self, backend: Backend) -> SignWeights {
        SignWeights::new(&self.rows, backend)
    }

    /// Returns the form over the digits of the images, given a factor per lift for each piece of images: the sums
    /// of [`ShownLifts::of_images`], each times its factor.
    pub(crate) fn images_under(
        &self,
        factors: &[Lifts],
        exec: Exec<'_>,
    ) -> Result<Vec<Ntt>, Stopped> {
        let Shown::Blocks(images, _, groups) = &self.shown else {
            return Ok(Vec::new());
        };
        let (count, backend) = (images.elements(), exec.backend());
        // For each piece, lift and quarter of an image, the factor times the weights of its rows.
        let quarters: Vec<[[Rq; QUARTERS]; LIFTS]> = (factors.iter())
            .map(|factors| {
                std::array::from_fn(|l| {
                    std::array::from_fn(|quarter| {
                        let rows = backend.transform(&self.row_weights(l, quarter));
                        backend.element(&backend.product(&rows, &factors[l]))
                    })
                })
            })
            .collect();
        let of_groups: Vec<SignWeights> = (0..groups.len())
            .map(|group| {
                let weights = std::array::from_fn(|l| self.blocks[l].groups[group]);
                SignWeights::new(&weights, backend)
            })
            .collect();
        let mut out = vec![Ntt::zero(); 2 * count];
        for (digit, out) in out.chunks_exact_mut(count).enumerate() {
            for (group, (matrix, _)) in groups.iter().enumerate() {
                let ((first, each), base) = (images.span(group), images.groups[group].base);
                let weights = &of_groups[group];
                exec.try_fill(&mut out[first..first + each], CHUNK, |task, out| {
                    let start = first + task * CHUNK;
                    let column = digit * each + task * CHUNK;
                    // Both digits of all images lie one after another from the start of the first piece of images.
                    let piece_of = |k: usize| (digit * count + start + k) / images.rank;
                    let of_image = |k: usize| {
                        let (scalars, quarter) = self.image_scalars(images, start + k);
                        let scalars = scalars.map(|c| mul_mod(c, 1 << (digit as u32 * base)));
                        let quarters = quarters[piece_of(k)].each_ref();
                        Rq::weighted(quarters.map(|of_lift| &of_lift[quarter]), &scalars)
                    };
                    let of_images: Vec<Rq> = (0..out.len()).map(of_image).collect();
                    out.clone_from_slice(&backend.transforms(&of_images));
                    let mut done = 0;
                    // A task may cross from one piece into the next, whose factor is another.
                    while done < out.len() {
                        let piece = piece_of(done);
                        let end = (piece + 1) * images.rank - (digit * count + start);
                        let end = end.min(out.len());
                        let out = &mut out[done..end];
                        let run = (column + done, &factors[piece]);
                        matrix.add_collapsed(&[run], weights, out, backend);
                        done += out.len();
                    }
                })?;
            }
        }
        Ok(out)
    }

    /// Returns the forms of all lifts over the digits of the images.
    pub(crate) fn of_images(&self, exec: Exec<'_>) -> Result<[Vec<Rq>; LIFTS], Stopped> {
        let Shown::Blocks(images, _, groups) = &self.shown else {
            return Ok([const { Vec::new() }; LIFTS]);
        };
        let count = images.elements();
        let columns = (groups.iter().enumerate()).map(|(group, (matrix, _))| {
            let weights = std::array::from_fn(|l| self.blocks[l].groups[group]);
            collapse(matrix, 2 * images.span(group).1, &weights, exec)
        });
        let columns: Vec<[Vec<Rq>; LIFTS]> = columns.collect::<Result<_, _>>()?;
        let lifts = exec.try_map(LIFTS, |l| {
            let mut out = vec![Rq::ZERO; 2 * count];
            for (group, columns) in columns.iter().enumerate() {
                let ((first, each), base) = (images.span(group), images.groups[group].base);
                for index in 0..each {
                    let image = self.image_weights(images, l, first + index);
                    let (low, high) = (first + index, count + first + index);
                    out[low].clone_from(&columns[l][index]);
                    out[low].add(&image);
                    out[high].clone_from(&columns[l][each + index]);
                    // `y = y_0 + 2^b y_1`, so the equation of `y` weighs the upper digit by `2^b`.
                    out[high].add(&image.scaled(1 << base));
                }
            }
            out
        })?;
        let mut lifts = lifts.into_iter();
        Ok(std::array::from_fn(|_| lifts.next().unwrap_or_default()))
    }

    /// Returns the element whose product with element `index` of the images has the constant coefficient
    /// `e_(p,b) <omega, y>`.
    fn image_weights(&self, images: &Images, lift: usize, index: usize) -> Rq {
        let (scalars, quarter) = self.image_scalars(images, index);
        self.row_weights(lift, quarter).scaled(scalars[lift])
    }

    /// Returns `e_(p,b)` of element `index` of the images for each lift, and which quarter of the image it is.
    fn image_scalars(&self, images: &Images, index: usize) -> ([u64; LIFTS], usize) {
        let (block, quarter) = (index / QUARTERS, index % QUARTERS);
        let (piece, block) = (block / images.piece_blocks(), block % images.piece_blocks());
        let scalar = |l| mul_mod(self.of_piece(l, piece), self.of_block(l, block));
        (std::array::from_fn(scalar), quarter)
    }

    /// Returns the element whose product with a quarter of an image has the constant coefficient `<omega, y>`.
    fn row_weights(&self, lift: usize, quarter: usize) -> Rq {
        let mut coefficients = [0; DEGREE];
        coefficients.copy_from_slice(&self.rows[lift][quarter * DEGREE..(quarter + 1) * DEGREE]);
        let element = Rq::from_canonical(coefficients).expect("weights are residues");
        element.sigma()
    }

    /// Returns the forms of all lifts over the whole cut witness.
    pub(crate) fn forms(&self, cut: &Cut, exec: Exec<'_>) -> Result<[Vec<Rq>; LIFTS], Stopped> {
        let elements = cut.pieces * cut.rank;
        let images = match &self.shown {
            Shown::Dense(parts, matrix, _) => {
                let each = parts.pieces * cut.rank;
                let mut forms = collapse(matrix, each, &self.rows, exec)?;
                for (l, form) in forms.iter_mut().enumerate() {
                    let first = form.clone();
                    form.resize(elements, Rq::ZERO);
                    exec.try_fill(&mut form[first.len()..], CHUNK, |task, out| {
                        for (index, out) in (each + task * CHUNK..).zip(out) {
                            *out = first[index % each].scaled(self.of_part(l, index / each));
                        }
                    })?;
                }
                return Ok(forms);
            }
            Shown::Blocks(images, ..) => images,
        };
        let (columns, digits) = (self.columns(exec)?, self.of_images(exec)?);
        let mut out: [Vec<Rq>; LIFTS] = std::array::from_fn(|_| vec![Rq::ZERO; elements]);
        for (l, (out, columns)) in out.iter_mut().zip(&columns).enumerate() {
            exec.try_fill(&mut out[..images.start()], CHUNK, |task, out| {
                for (index, out) in (task * CHUNK..).zip(out) {
                    let (piece, place) = (index / images.rank, index % images.rank);
                    let block = self.of_block(l, place / images.block);
                    let scalar = mul_mod(self.of_piece(l, piece), block);
                    // The equation is `y - J s = 0`; the digits of `y` have the positive terms, see `of_images`.
                    out.sub(&columns[place % images.block].scaled(scalar));
                }
            })?;
            // The rest of the last piece stays zero: it is padding, which has equations of its own.
            out[images.start()..][..digits[l].len()].clone_from_slice(&digits[l]);
        }
        Ok(out)
    }

    /// Returns `A_l sum_i e_i c_(i,p)` for each piece `p` of a part and each lift, over the pieces `(i, p)` of all
    /// parts, where `factors` holds `A_l c` for each piece: the multiples of the columns of `M`.
    pub(crate) fn of_parts(&self, parts: Parts, factors: &[Lifts], backend: Backend) -> Vec<Lifts> {
        let of_piece = |piece: usize| -> Lifts {
            std::array::from_fn(|l| {
                let mut sum = Rq::ZERO;
                let of_parts = factors[piece..].iter().step_by(parts.pieces);
                for (part, factors) in of_parts.enumerate() {
                    let factor = backend.element(&factors[l]);
                    sum.add(&factor.scaled(self.of_part(l, part)));
                }
                backend.transform(&sum)
            })
        };
        (0..parts.pieces).map(of_piece).collect()
    }

    /// Returns `- A_l sum_p c_p e_(p,b)` for each block of a piece and each lift, where `factors` holds
    /// `A_l c_p` for each piece: the multiples of the columns of `J`.
    pub(crate) fn of_blocks(
        &self,
        images: &Images,
        factors: &[Lifts],
        backend: Backend,
    ) -> Vec<Lifts> {
        let sums: [Rq; LIFTS] = std::array::from_fn(|l| {
            let mut sum = Rq::ZERO;
            for (piece, factors) in factors[..images.pieces()].iter().enumerate() {
                let factor = backend.element(&factors[l]);
                sum.sub(&factor.scaled(self.of_piece(l, piece)));
            }
            sum
        });
        let of_block = |block| {
            std::array::from_fn(|l| backend.transform(&sums[l].scaled(self.of_block(l, block))))
        };
        (0..images.piece_blocks()).map(of_block).collect()
    }
}

/// Elements per task.
const CHUNK: usize = 64;

/// [`Projection::collapse`] of the first `count` elements, on several threads.
fn collapse(
    projection: &Projection,
    count: usize,
    weights: &[Weights; LIFTS],
    exec: Exec<'_>,
) -> Result<[Vec<Rq>; LIFTS], Stopped> {
    let weights = SignWeights::new(weights, exec.backend());
    let parts = exec.try_map(count.div_ceil(CHUNK), |task| {
        let range = task * CHUNK..count.min((task + 1) * CHUNK);
        projection.collapse(range, &weights, exec.backend())
    })?;
    let mut out = [const { Vec::new() }; LIFTS];
    for mut part in parts {
        for (out, part) in out.iter_mut().zip(&mut part) {
            out.append(part);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
