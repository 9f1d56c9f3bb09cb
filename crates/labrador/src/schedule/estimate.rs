//! Estimates of proof sizes with other front ends, alongside those of this crate. Nothing here proves anything.

use super::bounds::{ParamError, Projections, PublicBounds};
use super::row::{Input, extracted_norm, norm_is_legal, uniform_twelfths, with_margin, with_slack};
use super::row::{Level, Schedule};
use super::search::{BASE_MAX, BASE_MIN, LATER_PIECES_MAX, best_from, cuts, level_bytes};
use crate::challenge::CHALLENGE_NORM_SQ;
use crate::columns::{Columns, quotient_norm_sq};
use crate::cut::Cut;
use crate::error::StatementError;
use crate::images::{Images, Parts};
use crate::ring::DEGREE;
use crate::sis::Profile;
use crate::wire::header::HEADER_BYTES;

/// A front end of LaBRADOR for columns under a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// This crate's front end, with the fewest bytes: [`crate::Columns`].
    Columns,
    /// Shows the norm of each column by products with a conjugate under a random challenge, as the library
    /// `lattice-dogs/labrador` does, with one exact norm and squares as slack. The relation modulo its small prime
    /// is shown by eleven linear forms in clear. This crate used it until commit 11bcf65b.
    Dachshund,
    /// The front end of eprint 2024/311: all conjugates and quotients are in the witness, which is reshaped into
    /// `6 ceil(sqrt N) + 1` vectors of `N` blocks each, nearly all of them zero.
    Chihuahua,
}

/// Columns whose proof is estimated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    columns: usize,
    degree: usize,
    norm_sq: u64,
    bounds: PublicBounds,
}

/// Estimate of a proof in which all levels after the first have a dense projection in one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Vectors of the first witness.
    pub pieces: usize,
    /// Ring elements per vector.
    pub rank: usize,
    /// Number of ring elements, excluding those that are zero whatever the columns are.
    pub elements: usize,
    /// Ring elements of garbage, linear and quadratic.
    pub garbage: usize,
    /// Products of ring elements that the prover computes for the garbage.
    pub products: u64,
    /// Ring elements of the second witness.
    pub second: usize,
    /// Bytes of the proof.
    pub bytes: u64,
}

/// Bytes of the clear numbers of the eleven forms of [`FrontEnd::Dachshund`], five bytes each.
const FORMS_BYTES: u64 = 11 * 5;

/// Bits per digit of the products `<s, sigma s>` in that front end, and number of digits.
const PRODUCT_BASE: u32 = 9;
const PRODUCT_DIGITS: usize = 3;

/// The 1-norm of a column's challenge in that front end.
const ALPHA_NORM_1: u128 = 56;

/// A first level as its front end builds it.
struct First {
    /// The witness; `energy` is the bound on its norm.
    input: Input,
    /// Number of ring elements, excluding those that are zero whatever the columns are.
    elements: usize,
    /// Elements of quadratic garbage; there is one element of linear garbage for each pair of pieces.
    quadratic: usize,
    /// The largest coefficient of quadratic garbage.
    product_max: u128,
    /// Products of ring elements for all garbage.
    products: u64,
    front_bytes: u64,
}

impl Batch {
    /// Describes `columns` columns of polynomials of this degree and with this bound on their squared norms.
    /// `profile` says how hard breaking a commitment must be.
    ///
    /// # Errors
    /// If a number exceeds the limit of [`Columns`].
    pub fn new(
        columns: usize,
        degree: usize,
        norm_sq: u64,
        profile: Profile,
    ) -> Result<Self, StatementError> {
        let projections = Projections::SMALLEST;
        Ok(Self {
            columns,
            degree,
            norm_sq,
            bounds: Columns::bounds_for(columns, degree, norm_sq, profile, projections)?,
        })
    }

    /// Estimates a proof of this crate.
    fn own(&self) -> Result<Estimate, ParamError> {
        let schedule = Schedule::derive(&self.bounds)?;
        let (pieces, rank) = (self.bounds.pieces, self.bounds.rank);
        let first = schedule.levels.first();
        let garbage = first.map_or(0, Level::garbage);
        Ok(Estimate {
            pieces,
            rank,
            elements: pieces * rank,
            garbage,
            products: (garbage * rank) as u64,
            second: first.map_or(0, |level| 2 * rank + level.digits()),
            bytes: schedule.bytes,
        })
    }
}

impl FrontEnd {
    /// All front ends, starting with this crate's.
    pub const ALL: [Self; 3] = [Self::Columns, Self::Dachshund, Self::Chihuahua];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Columns => "columns",
            Self::Dachshund => "dachshund",
            Self::Chihuahua => "chihuahua",
        }
    }

    /// Estimates the proof of a batch.
    ///
    /// # Errors
    /// If no parameters are sound under the conditions that this crate imposes on its own levels.
    pub fn estimate(self, batch: &Batch) -> Result<Estimate, ParamError> {
        let first = match self {
            Self::Columns => return batch.own(),
            Self::Dachshund => dachshund(batch),
            Self::Chihuahua => chihuahua(batch),
        };
        let norm_sq = first.input.norm_sq;
        let outputs =
            (BASE_MIN..=BASE_MAX).filter_map(|base| first.estimate(base, batch.bounds.profile));
        let least = outputs.min_by_key(|estimate| estimate.bytes);
        least.ok_or(ParamError::Norm { norm_sq })
    }
}

/// Rows of `s_1`, `s_2` and slack; three digits of a product; the conjugates of the rows under a challenge for each
/// column; the images of all but the conjugates.
fn dachshund(batch: &Batch) -> First {
    let (columns, rows) = (batch.columns, 2 * batch.degree / DEGREE + 1);
    // Few pieces where garbage outweighs the witness. The thresholds are those that were best for 17 rows.
    let stack = match columns {
        0..48 => rows,
        48..512 => 6,
        512..4096 => 3,
        _ => 1,
    };
    let rank = stack * columns;
    let long = rows.div_ceil(stack);
    let shown = long + PRODUCT_DIGITS.div_ceil(stack);
    let column_sq = u128::from(batch.norm_sq);
    let (lower, top) = (
        1 << (2 * (PRODUCT_BASE - 1)),
        (column_sq >> (2 * PRODUCT_BASE)) + 1,
    );
    let shown_sq = columns as u128 * (column_sq + DEGREE as u128 * (2 * lower + top * top));
    let conjugates_sq = CHALLENGE_NORM_SQ * columns as u128 * column_sq / 8 * 9;
    let images = Images::new(rank, &[(shown, shown_sq)]);
    let norm_sq = shown_sq + conjugates_sq + images.added_norm_sq();
    let extracted =
        images.extracted_all_norm_sq() + images.extracted_norm_sq(0) * ALPHA_NORM_1 * ALPHA_NORM_1;
    let cut = Cut {
        z_pieces: 0,
        pieces: shown + long + images.image_pieces(),
        rank,
    };
    let pairs = cut.pairs();
    First {
        elements: (2 * rows + PRODUCT_DIGITS) * columns + 2 * images.elements(),
        quadratic: pairs,
        product_max: conjugates_sq,
        products: (cut.pieces * cut.pieces + pairs) as u64 * rank as u64,
        front_bytes: FORMS_BYTES,
        input: Input {
            cut,
            norm_sq,
            extracted: extracted.isqrt() + 1,
            images: Some(images),
            parts: Parts::of(cut.pieces, 1),
            families: 0,
            energy: norm_sq,
        },
    }
}

/// Pieces `A_x` with `s_1`, `s_2` and slack of the columns `(x, y)` at their blocks, pieces `B_y` with conjugates,
/// and one of quotients. Only products of an `A_x` and a `B_y`, and of parts of the same `x` or `y`, are nonzero.
/// Linear garbage covers all pairs, since forms show that everything outside the blocks is zero.
fn chihuahua(batch: &Batch) -> First {
    let (columns, extension) = (batch.columns, batch.degree / DEGREE);
    let root = columns.isqrt();
    let side = root + usize::from(root * root < columns);
    let column_sq = u128::from(batch.norm_sq);
    let quotient_sq = u128::from(quotient_norm_sq(batch.degree));
    let norm_sq = columns as u128 * (2 * column_sq + quotient_sq);
    let cut = Cut {
        z_pieces: 0,
        pieces: 6 * side + 1,
        rank: extension * columns,
    };
    let quadratic = 9 * side * side + 12 * side + 1;
    // Each form runs over the whole of the other vectors' blocks; a block meets only its own column.
    let linear_products = cut.pieces * (6 + 1) * cut.rank;
    let quadratic_products = 9 * cut.rank + 12 * cut.rank + cut.rank;
    First {
        elements: 7 * cut.rank,
        quadratic,
        product_max: quotient_sq * columns as u128,
        products: (linear_products + quadratic_products) as u64,
        front_bytes: 0,
        input: Input {
            cut,
            norm_sq,
            extracted: extracted_norm(norm_sq, None),
            images: None,
            parts: Parts::of(cut.pieces, 1),
            families: 0,
            energy: norm_sq,
        },
    }
}

impl First {
    /// Returns the smallest proof with this base of `z`. The conditions are those of [`Level::plan`], which has no
    /// quadratic garbage. None if no number of rows makes it sound.
    fn estimate(&self, z_base: u32, profile: Profile) -> Option<Estimate> {
        let (input, cut) = (&self.input, self.input.cut);
        let g_digits = (129 - self.product_max.leading_zeros()).div_ceil(z_base);
        let narrow = g_digits as usize * self.quadratic;
        let narrow_twelfths = (DEGREE * narrow) as u128 * uniform_twelfths(z_base);
        let mut level = Level::unplanned(input, z_base);
        loop {
            let energy = level.output(input) + narrow_twelfths / 12;
            level.norm_sq_out = with_margin(energy, cut.rank);
            if !norm_is_legal(level.norm_sq_out) {
                return None;
            }
            let slack = with_slack(level.norm_sq_out);
            let rows = input.rows_inner(profile, slack.saturating_mul(1 + (1 << (2 * z_base))))?;
            if rows > level.kappa {
                level.kappa = rows;
                continue;
            }
            level.kappa_outer = profile.rows_for(slack.saturating_mul(4))?;
            let extracted = extracted_norm(level.norm_sq_out, None);
            let digits = level.digits() + narrow;
            let outputs = cuts(cut.rank, digits).filter(|cut| cut.pieces <= LATER_PIECES_MAX);
            let outputs = outputs.map(|cut| Input {
                parts: Parts::of(cut.pieces, 1),
                cut,
                norm_sq: level.norm_sq_out,
                extracted,
                energy,
                images: None,
                families: 0,
            });
            let bytes = HEADER_BYTES as u64 + self.front_bytes + level_bytes(&level);
            let rest = best_from(outputs.collect(), bytes, profile, Projections::SMALLEST)?;
            return Some(Estimate {
                pieces: cut.pieces,
                rank: cut.rank,
                elements: self.elements,
                garbage: cut.pairs() + self.quadratic,
                products: self.products,
                second: 2 * cut.rank + digits,
                bytes: rest.bytes,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(columns: usize, profile: Profile) -> Batch {
        Batch::new(columns, 512, 34_034_726, profile).expect("within limits")
    }

    /// Without quadratic garbage, and with one form per piece, a first level is one of this crate.
    #[test]
    fn a_first_level_without_products_is_planned_as_ours() {
        for columns in [100, 1000, 10_000] {
            let bounds = PublicBounds {
                families: 0,
                front_bytes: 0,
                ..batch(columns, Profile::Core128).bounds
            };
            let cut = Cut {
                z_pieces: 0,
                pieces: bounds.pieces,
                rank: bounds.rank,
            };
            let first = First {
                elements: 0,
                quadratic: 0,
                product_max: 0,
                products: 0,
                front_bytes: 0,
                input: Input {
                    cut,
                    norm_sq: bounds.norm_sq,
                    extracted: extracted_norm(0, Some(&bounds.images)),
                    images: Some(bounds.images.clone()),
                    parts: Parts::of(cut.pieces, 1),
                    families: 0,
                    energy: bounds.norm_sq,
                },
            };
            let ours = Schedule::derive(&bounds).expect("short enough");
            let level = &ours.levels[0];
            let estimate = first.estimate(level.z_base, bounds.profile);
            let estimate = estimate.expect("short enough");
            assert_eq!(estimate.bytes, ours.bytes, "{columns}");
            assert_eq!(estimate.second, 2 * cut.rank + level.digits(), "{columns}");
        }
    }

    /// 37 rows per column, and some 68 kB for 10,000: the result of an independent search for this front end.
    #[test]
    fn dachshund_has_the_size_that_was_found_for_it() {
        let estimate = FrontEnd::Dachshund.estimate(&batch(10_000, Profile::Core128));
        let estimate = estimate.expect("short enough");
        assert!((370_000..372_000).contains(&estimate.elements));
        assert!((67_000..69_000).contains(&estimate.bytes), "{estimate:?}");
    }

    #[test]
    fn chihuahua_has_the_shape_of_the_paper() {
        for (columns, side) in [(1, 1), (2, 2), (4, 2), (100, 10), (101, 11), (10_000, 100)] {
            let estimate = FrontEnd::Chihuahua.estimate(&batch(columns, Profile::Core128));
            let estimate = estimate.expect("short enough");
            assert_eq!(estimate.pieces, 6 * side + 1);
            assert_eq!(estimate.rank, 8 * columns);
            assert_eq!(estimate.elements, 56 * columns);
            let pairs = (6 * side + 1) * (6 * side + 2) / 2;
            assert_eq!(estimate.garbage, pairs + 9 * side * side + 12 * side + 1);
        }
    }

    #[test]
    fn more_columns_and_harder_profiles_take_more() {
        for front_end in FrontEnd::ALL {
            let bytes = |columns, profile| {
                let estimate = front_end.estimate(&batch(columns, profile));
                estimate.expect("short enough").bytes
            };
            assert!(bytes(20, Profile::Core128) < bytes(4000, Profile::Core128));
            assert!(bytes(4000, Profile::Falcon) < bytes(4000, Profile::Core128));
            assert!(bytes(4000, Profile::Peer) < bytes(4000, Profile::Falcon));
        }
    }
}
