//! Chihuahua: the norm of each signature as one quadratic equation between two pieces.

use alphorn_exec::{Exec, Stopped};

use super::columns::{check_columns, check_products};
use super::product::{Products, interleaved};
use crate::aggregate::Aggregate;
use crate::challenge::weight;
use crate::error::{Invalid, ProveError, Reject, StatementError};
use crate::folded::{Folded, Keys};
use crate::form::{Equations, Form};
use crate::joint::{COLUMN_NORM_SQ_MAX, witness::slack};
use crate::prove::Prover;
use crate::ring::{DEGREE, Ntt, Q, Rq, Small, add_mod, mul_mod, norm_sq};
use crate::schedule::{Cut, Level, PublicBounds, with_slack};
use crate::sis::Profile;
use crate::system::FrontEnd;
use crate::transcript::{Stream, Transcript};
use crate::verify::Verifier;

/// Columns of a statement are at most this many: garbage grows with their number.
pub(super) const COLUMNS_MAX: usize = 256;

/// Vectors of a signature: `s_1`, `s_2`, slack.
const PARTS: usize = 3;

/// `N` columns with a squared norm of at most `norm_sq` each, exactly, and products.
pub struct Chihuahua<'a> {
    layout: Layout,
    profile: Profile,
    products: &'a Products,
    context: Vec<u8>,
}

/// Where everything lies. Column `i` is the pair `(x, y)` of numbers below `G`; for each part there
/// are `G` pieces `A_x` and `G` pieces `B_y`. Block `i` of `A_x` is the part, that of `B_y` its
/// conjugate, all other blocks are zero: `<A_x, B_y>` is the part's norm. The last piece has the
/// quotients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) columns: usize,
    extension: usize,
    norm_sq: u64,
    /// `G`.
    side: usize,
}

impl Layout {
    pub(super) fn new(
        columns: usize,
        extension: usize,
        norm_sq: u64,
    ) -> Result<Self, StatementError> {
        if !(1..=COLUMNS_MAX).contains(&columns) {
            let max = COLUMNS_MAX;
            return Err(StatementError::Columns { columns, max });
        }
        if norm_sq > COLUMN_NORM_SQ_MAX {
            return Err(StatementError::ColumnNorm { norm_sq });
        }
        let root = columns.isqrt();
        let layout = Self {
            columns,
            extension,
            norm_sq,
            side: root + usize::from(root * root < columns),
        };
        // Both sides of an exact norm, and the projection.
        let all = with_slack(layout.norm_sq());
        if all + u128::from(norm_sq) >= u128::from(Q) || all > u128::from(Q / 125).pow(2) {
            return Err(StatementError::Wraps { columns });
        }
        Ok(layout)
    }

    fn rank(&self) -> usize {
        self.extension * self.columns
    }

    /// The piece `A_x` and the piece `B_y` of a part of a column.
    pub(super) fn pieces_of(&self, part: usize, column: usize) -> (usize, usize) {
        let (x, y) = (column / self.side, column % self.side);
        (part * self.side + x, (PARTS + part) * self.side + y)
    }

    /// The places of the block of a part in both pieces.
    pub(super) fn blocks(&self, part: usize, column: usize) -> (usize, usize) {
        let (a, b) = self.pieces_of(part, column);
        let start = |piece: usize| piece * self.rank() + column * self.extension;
        (start(a), start(b))
    }

    /// The place of the quotient of a column.
    pub(super) fn quotient(&self, column: usize) -> usize {
        2 * PARTS * self.side * self.rank() + column * self.extension
    }

    fn pieces(&self) -> usize {
        2 * PARTS * self.side + 1
    }

    /// The bound of the squared norm of the whole witness: parts and conjugates have exactly the
    /// norms of the columns.
    fn norm_sq(&self) -> u128 {
        2 * self.columns as u128 * u128::from(self.norm_sq)
            + Products::quotients_norm_sq(self.columns, self.extension, self.norm_sq)
    }

    fn bounds(&self, profile: Profile) -> PublicBounds {
        PublicBounds {
            pieces: self.pieces(),
            rank: self.rank(),
            norm_sq: self.norm_sq(),
            extracted_norm_sq: Some(with_slack(self.norm_sq())),
            openings: 1,
            quadratic: true,
            profile,
        }
    }
}

impl<'a> Chihuahua<'a> {
    /// A statement about the columns of `products`, 1 to `COLUMNS_MAX`. `context` is absorbed
    /// before anything is drawn.
    ///
    /// # Errors
    /// If a number is beyond its limit, or something might wrap around the modulus.
    pub fn new(
        norm_sq: u64,
        profile: Profile,
        products: &'a Products,
        context: Vec<u8>,
    ) -> Result<Self, StatementError> {
        let (columns, extension) = (products.columns(), products.extension());
        let layout = Layout::new(columns, extension, norm_sq)?;
        let (column_sq, quotient_sq) = (u128::from(norm_sq), with_slack(layout.norm_sq()));
        if !Products::fits(extension, products.modulus(), column_sq, quotient_sq, Q) {
            return Err(StatementError::Wraps { columns });
        }
        Ok(Self {
            layout,
            profile,
            products,
            context,
        })
    }

    /// The bounds of all statements with these numbers.
    ///
    /// # Errors
    /// If a number is beyond its limit.
    pub fn bounds_for(
        columns: usize,
        extension: usize,
        norm_sq: u64,
        profile: Profile,
    ) -> Result<PublicBounds, StatementError> {
        Ok(Layout::new(columns, extension, norm_sq)?.bounds(profile))
    }

    /// The cut witness. None if a number does not fit.
    fn witness(&self, columns: &[Small]) -> Option<Vec<Small>> {
        let (layout, e) = (&self.layout, self.layout.extension);
        let mut s = vec![Small::ZERO; layout.pieces() * layout.rank()];
        for (i, column) in columns.chunks_exact(2 * e).enumerate() {
            let flat: Vec<i16> = column.iter().flat_map(|s| s.0).collect();
            let rest = u128::from(layout.norm_sq).saturating_sub(norm_sq(column)) as u64;
            let mut squares = vec![Small::ZERO; e];
            squares[0] = slack(rest);
            let halves = flat.chunks_exact(e * DEGREE);
            let mut parts: Vec<Vec<Small>> = halves.map(|half| interleaved(half, e)).collect();
            parts.push(squares);
            let (quotient, _) = self.products.quotient(i, &parts[0], &parts[1])?;
            s[layout.quotient(i)..][..e].clone_from_slice(&quotient);
            for (part, elements) in parts.into_iter().enumerate() {
                let (a, b) = layout.blocks(part, i);
                for (k, element) in elements.into_iter().enumerate() {
                    s[b + k] = element.sigma()?;
                    s[a + k] = element;
                }
            }
        }
        Some(s)
    }
}

impl Equations for Chihuahua<'_> {
    fn aggregate<'a>(
        &'a self,
        _: &Cut,
        stream: &mut Stream,
        form: &mut Form,
        _: Exec<'_>,
    ) -> Result<Option<Aggregate<'a>>, Stopped> {
        let (layout, e) = (&self.layout, self.layout.extension);
        for i in 0..layout.columns {
            let weights: Vec<Ntt> = (0..e)
                .map(|_| Ntt::from_small_bounded(&weight(stream), 2))
                .collect();
            let weighted = self.products.weighted(i, &weights);
            let starts = [
                layout.blocks(0, i).0,
                layout.blocks(1, i).0,
                layout.quotient(i),
            ];
            let factors = [&weighted.first, &weighted.second, &weighted.quotient];
            for (start, factors) in starts.into_iter().zip(factors) {
                for (phi, factor) in form.phi[start..].iter_mut().zip(factors) {
                    phi.add(factor);
                }
            }
            form.rhs.add(&weighted.rhs);
        }
        Ok(None)
    }

    fn lift(&self, _: &Cut, stream: &mut Stream, form: &mut Form) {
        let (layout, e) = (&self.layout, self.layout.extension);
        let theta = stream.element();
        let turned = theta.sigma();
        let rows: Vec<u64> = (0..PARTS * e).map(|_| stream.residue()).collect();
        let mut constant = form.rhs.coefficients()[0];
        for i in 0..layout.columns {
            let (column, norm) = (stream.residue(), stream.residue());
            for part in 0..PARTS {
                let (a, b) = layout.blocks(part, i);
                for (k, &row) in rows[part * e..(part + 1) * e].iter().enumerate() {
                    let scalar = mul_mod(column, row);
                    form.phi[a + k].sub(&turned.scaled(scalar));
                    form.phi[b + k].add(&theta.scaled(scalar));
                }
                let (a, b) = layout.pieces_of(part, i);
                form.add_quadratic(a, b, &Rq::constant(1).scaled(norm));
            }
            constant = add_mod(constant, mul_mod(norm, layout.norm_sq));
        }
        form.rhs.set_constant(constant);
    }

    fn has_linear_form(&self) -> bool {
        true
    }

    /// Everything outside the blocks: else the products of two pieces would run over it, and any
    /// norm could be forged.
    fn padding(&self, cut: &Cut) -> Vec<usize> {
        let layout = &self.layout;
        let mut used = vec![false; cut.pieces * cut.rank];
        for i in 0..layout.columns {
            let starts = (0..PARTS).flat_map(|part| {
                let (a, b) = layout.blocks(part, i);
                [a, b]
            });
            for start in starts.chain([layout.quotient(i)]) {
                used[start..start + layout.extension].fill(true);
            }
        }
        (0..used.len()).filter(|&index| !used[index]).collect()
    }
}

impl FrontEnd for Chihuahua<'_> {
    /// The columns one after another.
    type Witness = [Small];

    const ID: u8 = 3;

    fn bounds(&self) -> PublicBounds {
        self.layout.bounds(self.profile)
    }

    fn absorb(&self, transcript: &mut Transcript) {
        transcript.absorb("statement", &self.layout.norm_sq.to_le_bytes());
        transcript.absorb("relation", &self.products.encode());
        transcript.absorb("context", &self.context);
    }

    fn check(&self, columns: &[Small], _: Exec<'_>) -> Result<(), Invalid> {
        let layout = &self.layout;
        let (count, rows) = (layout.columns, 2 * layout.extension);
        check_columns(columns, count, rows, layout.norm_sq)?;
        check_products(self.products, columns)
    }

    fn prove<'k>(
        &self,
        prover: &mut Prover<'_>,
        keys: &'k Keys,
        level: &'k Level,
        columns: &[Small],
    ) -> Result<(Folded<'k>, Vec<Small>), ProveError> {
        prover.step("slack and products")?;
        let s = self.witness(columns);
        let s = s.ok_or_else(|| prover.margin("a product or a quotient"))?;
        prover.level(keys, level, self, s)
    }

    fn reduce<'k>(
        &self,
        verifier: &mut Verifier<'_>,
        keys: &'k Keys,
        level: &'k Level,
    ) -> Result<Folded<'k>, Reject> {
        verifier.level(keys, level, self)
    }
}
