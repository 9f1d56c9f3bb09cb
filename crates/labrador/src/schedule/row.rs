//! One row of a schedule and the conditions under which it is sound.

use crate::challenge::{CHALLENGE_NORM_SQ, OPERATOR_NORM};
use crate::cut::Cut;
use crate::images::{Images, Parts};
use crate::projection::image_variance;
use crate::ring::{DEGREE, Q};
use crate::sis::Profile;

/// What is known about the witness that a row works on.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) cut: Cut,
    /// The bound that the verifier may rely on.
    pub(super) norm_sq: u128,
    /// The norm that an extracted witness may have (`S`), see [`extracted_norm`].
    pub(super) extracted: u128,
    /// The block projection, or None if there is a dense one.
    pub(super) images: Option<Images>,
    /// The parts of a dense projection.
    pub(super) parts: Parts,
    /// Families of linear forms; 0 if each piece has its own.
    pub(super) families: usize,
    /// The expected squared norm of an honest witness; at the first level the bound.
    pub(super) energy: u128,
}

/// The parameters of a level that is followed by another level or by the tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// How its witness is divided.
    pub cut: Cut,
    /// Bound on the squared norm of its witness (`betasq` of the relation it starts from).
    pub norm_sq: u128,
    /// The block projection, if there is no dense one. The last pieces hold its images.
    pub images: Option<Images>,
    /// The parts of the dense projection; meaningless if there is none.
    pub parts: Parts,
    /// Families of linear forms that all pieces share; 0 if each piece has a form of its own.
    pub families: usize,
    /// Bound on the squared norm of the witness it produces.
    pub(crate) norm_sq_out: u128,
    /// Bits of the lower half of `z`.
    pub z_base: u32,
    /// Digits of an element of `R_Q`.
    pub t_digits: usize,
    /// Bits of a digit of an element of `R_Q`.
    pub(crate) t_base: u32,
    /// Rows of the inner commitment.
    pub kappa: usize,
    /// Rows of the outer commitments.
    pub kappa_outer: usize,
}

/// The parameters of the last level, whose responses are sent in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// How its witness is divided.
    pub cut: Cut,
    /// Bound on the squared norm of its witness.
    pub norm_sq: u128,
    /// The parts of its projection.
    pub parts: Parts,
    /// Bound on the squared norm of `z`.
    pub(crate) norm_sq_out: u128,
    /// The expected square of a coefficient of `z`.
    pub z_variance: u128,
    /// Rows of the inner commitment.
    pub kappa: usize,
}

/// All parameters of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The levels in order; the first works on the statement's vectors.
    pub levels: Vec<Level>,
    /// The last level.
    pub tail: Tail,
    /// How hard breaking a commitment is.
    pub profile: Profile,
    /// The predicted size of a proof.
    pub bytes: u64,
}

impl Schedule {
    /// Returns the lengths of the longest vectors that the inner key and the outer keys commit to, in ring
    /// elements.
    #[must_use]
    pub fn key_lengths(&self) -> (usize, usize) {
        let inner = self.levels.iter().map(|l| l.cut.rank).max().unwrap_or(0);
        let outer = self.levels.iter().map(Level::digits).max().unwrap_or(0);
        (inner.max(self.tail.cut.rank), outer)
    }

    /// Encodes every number of the schedule, for the transcript.
    #[must_use]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.profile.id()];
        for level in &self.levels {
            level.encode(&mut out);
        }
        self.tail.encode(&mut out);
        out
    }
}

/// The expected square of a uniform digit of `bits` bits is `(2^(2 bits) + 2) / 12`. Returned in twelfths.
pub(super) fn uniform_twelfths(bits: u32) -> u128 {
    (1 << (2 * bits)) + 2
}

/// How much longer an extracted witness may be than an honest one: an image of squared norm
/// `128 betasq` belongs to a vector of squared norm `128/30 betasq`.
pub(crate) fn with_slack(norm_sq: u128) -> u128 {
    norm_sq.saturating_mul(128).div_ceil(30)
}

/// Adds a margin to the prediction: 9/8, and 7/4 for ranks below 128, where the energy varies
/// more. An image of the projection, 256 values, then exceeds its bound once in a dozen times and
/// moves to the next nonce; a wider margin to avoid this would cost bytes in every proof.
pub(super) fn with_margin(energy: u128, rank: usize) -> u128 {
    let (numerator, denominator) = if rank >= 128 { (9, 8) } else { (7, 4) };
    energy * numerator / denominator + 1
}

/// Returns the norm that an extracted witness may have, rounded up, for a witness with this bound under a dense
/// projection, or under blocks with these images.
pub(super) fn extracted_norm(norm_sq: u128, images: Option<&Images>) -> u128 {
    let of_blocks = images.map(Images::extracted_all_norm_sq);
    of_blocks.unwrap_or_else(|| with_slack(norm_sq)).isqrt() + 1
}

/// Whether an extracted witness stays below `Q / 2` in squared norm. Then the condition
/// `sqrt(128/30 betasq) <= Q / 125` of the modular projection lemma holds with plenty of room, and products of
/// the last response fit the residues.
pub(super) fn norm_is_legal(norm_sq: u128) -> bool {
    with_slack(norm_sq) < u128::from(Q / 2)
}

/// The same for an output that the next level puts under a block projection: somewhat above `(160 / 28)^2`,
/// which leaves room for what the digits of images lose. The search rejects a cut whose
/// [`Images::extracted_norm_sq`] is larger.
fn with_slack_of_blocks(norm_sq: u128) -> u128 {
    norm_sq.saturating_mul(SLACK_OF_BLOCKS)
}

/// See [`with_slack_of_blocks`].
const SLACK_OF_BLOCKS: u128 = 38;

/// Returns the elements of linear garbage of a level with such pieces.
pub(super) fn garbage_elements(cut: &Cut, families: usize) -> usize {
    match families {
        0 => cut.pairs(),
        families => families * cut.pieces,
    }
}

impl Input {
    /// Returns the number of rows that bind `z` (extracted squared norm `z_sq`): `max(8 T Z, 2 Z + 4 T S) < B_kappa`.
    /// None if no number of rows does.
    pub(super) fn rows_inner(&self, profile: Profile, z_sq: u128) -> Option<usize> {
        let first = z_sq.saturating_mul(64 * OPERATOR_NORM * OPERATOR_NORM);
        let second = 2 * (z_sq.isqrt() + 1) + 4 * OPERATOR_NORM * self.extracted;
        profile.rows_for(first.max(second.saturating_mul(second)))
    }

    /// Returns the expected square of a coefficient of `z`, rounded up.
    pub(super) fn z_variance(&self) -> u128 {
        (CHALLENGE_NORM_SQ * self.energy) / self.cut.coefficients() + 1
    }
}

impl Level {
    /// Plans the level for this input and base of `z`, and returns it with the squared norm of its honest output.
    /// None if no number of rows makes it sound.
    pub(super) fn plan(
        input: &Input,
        z_base: u32,
        blocks_follow: bool,
        profile: Profile,
    ) -> Option<(Self, u128)> {
        let mut level = Self::unplanned(input, z_base);
        // More rows make the output longer, which never needs fewer rows. So the smallest sufficient number is the
        // fixed point of this loop.
        loop {
            let energy = level.output(input);
            level.norm_sq_out = with_margin(energy, input.cut.rank);
            if !norm_is_legal(level.norm_sq_out) {
                return None;
            }
            let slack = match blocks_follow {
                true => level.slack_of_blocks(),
                false => with_slack(level.norm_sq_out),
            };
            // `||z_0 + 2^b z_1||^2 <= (1 + 4^b) (||z_0||^2 + ||z_1||^2)` by Cauchy-Schwarz.
            let z_sq = slack.saturating_mul(1 + (1 << (2 * z_base)));
            let rows = input.rows_inner(profile, z_sq)?;
            if rows <= level.kappa {
                // Two openings differ by at most twice the guaranteed norm.
                level.kappa_outer = profile.rows_for(slack.saturating_mul(4))?;
                return Some((level, energy));
            }
            level.kappa = rows;
        }
    }

    /// Returns the level for this input and base of `z`, with one inner row, no outer rows and no output bound yet.
    pub(super) fn unplanned(input: &Input, z_base: u32) -> Self {
        // The nearest number for which digits of `t` and `h` are as long as those of `z`.
        let t_digits = (48 + z_base / 2) / z_base;
        let t_base = 48u32.div_ceil(t_digits);
        Self {
            cut: input.cut,
            norm_sq: input.norm_sq,
            images: input.images.clone(),
            parts: input.parts,
            families: input.families,
            norm_sq_out: 0,
            z_base,
            t_digits: t_digits as usize,
            t_base,
            kappa: 1,
            kappa_outer: 0,
        }
    }

    /// Returns the expected squared norm of `(z_0, z_1, v)`.
    pub(super) fn output(&self, input: &Input) -> u128 {
        let coefficients = input.cut.coefficients();
        let degree = DEGREE as u128;
        let low = uniform_twelfths(self.z_base);
        let high = input.z_variance() * 12 / (1 << (2 * self.z_base)) + 1;
        let digit = uniform_twelfths(self.t_base);
        let top = uniform_twelfths(48 - (self.t_digits as u32 - 1) * self.t_base);
        let garbage = garbage_elements(&input.cut, input.families);
        let elements = (self.kappa * input.cut.pieces + garbage) as u128;
        let wide = elements * degree * ((self.t_digits as u128 - 1) * digit + top);
        (coefficients * (low + high) + wide) / 12 + 1
    }

    /// Returns the squared norm that the next level guarantees for the output if it has a block projection.
    pub(super) fn slack_of_blocks(&self) -> u128 {
        with_slack_of_blocks(self.norm_sq_out)
    }

    /// Returns the ring elements of `v`: the digits of `t` and `h`.
    #[must_use]
    pub fn digits(&self) -> usize {
        self.digits_outer() + self.t_digits * self.garbage()
    }

    /// Returns the ring elements of linear garbage.
    pub(crate) fn garbage(&self) -> usize {
        garbage_elements(&self.cut, self.families)
    }

    /// Returns the pieces under the first outer commitment, which is made before the others exist.
    pub(crate) fn first_pieces(&self) -> usize {
        self.images.as_ref().map_or(0, Images::pieces)
    }

    /// Returns the digits of `t`.
    #[must_use]
    pub(crate) fn digits_outer(&self) -> usize {
        self.t_digits * self.kappa * self.cut.pieces
    }

    /// Returns a cut of the output, with the images of its pieces if it is to have any.
    pub(super) fn with_images(&self, mut cut: Cut, blocks: bool) -> (Cut, Option<Images>) {
        let images = blocks.then(|| Images::new(cut.rank, &[(cut.pieces, self.norm_sq_out)]));
        cut.pieces += images.as_ref().map_or(0, Images::image_pieces);
        (cut, images)
    }

    /// Returns the expected square of a number of each projection that is sent, in order: the dense one, or
    /// one per group of pieces under blocks.
    #[must_use]
    pub fn projection_variances(&self) -> Vec<u128> {
        match &self.images {
            Some(images) => (images.groups.iter())
                .map(|group| image_variance(group.digits_norm_sq))
                .collect(),
            None => vec![self.parts.image_variance(self.norm_sq)],
        }
    }

    /// Returns the images per projection sent: one for each part of a dense projection.
    #[must_use]
    pub fn images_sent(&self) -> usize {
        self.images.as_ref().map_or(self.parts.count, |_| 1)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode_cut(&self.cut, out);
        out.extend(self.norm_sq.to_le_bytes());
        out.extend(self.norm_sq_out.to_le_bytes());
        let small = [
            self.t_digits,
            self.kappa,
            self.kappa_outer,
            self.z_base as usize,
            self.t_base as usize,
        ];
        out.extend(small.map(|x| x as u8));
        if let Some(images) = &self.images {
            images.encode(out);
            // Only the first level has families, and it always has images.
            out.extend((self.families as u64).to_le_bytes());
        } else {
            self.parts.encode(out);
        }
    }
}

/// The last query for the rows of a tail, and its answer: ways to cut one output differ in few norms.
pub(super) type KnownRows = Option<((u128, u128), Option<usize>)>;

impl Tail {
    /// Plans the tail for this input. None if no number of rows makes it sound.
    pub(super) fn plan(input: &Input, profile: Profile, known: &mut KnownRows) -> Option<Self> {
        let norm_sq_out = with_margin(CHALLENGE_NORM_SQ * input.energy, input.cut.rank);
        let asked = (norm_sq_out, input.extracted);
        let rows = || input.rows_inner(profile, norm_sq_out);
        let kappa = match known {
            Some((before, rows)) if *before == asked => *rows,
            _ => known.insert((asked, rows())).1,
        };
        Some(Self {
            cut: input.cut,
            norm_sq: input.norm_sq,
            parts: input.parts,
            norm_sq_out,
            z_variance: input.z_variance(),
            kappa: kappa?,
        })
    }

    /// Returns the expected square of a number of the images that are sent.
    #[must_use]
    pub fn projection_variance(&self) -> u128 {
        self.parts.image_variance(self.norm_sq)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode_cut(&self.cut, out);
        for wide in [self.norm_sq, self.norm_sq_out, self.z_variance] {
            out.extend(wide.to_le_bytes());
        }
        out.push(self.kappa as u8);
        self.parts.encode(out);
    }
}

fn encode_cut(cut: &Cut, out: &mut Vec<u8>) {
    for x in [cut.z_pieces, cut.pieces, cut.rank] {
        out.extend((x as u64).to_le_bytes());
    }
}
