//! The statement and both sides of its first level.

use alphorn_exec::Exec;

use super::layout::Layout;
use super::opening::{Opening, Shared, Weighted};
use super::relation::Relation;
use super::{sumcheck, tables, witness};
use crate::error::{Invalid, ProveError, Reject, StatementError};
use crate::folded::{Folded, Keys, Linear};
use crate::form::right_side;
use crate::images::ShownLifts;
use crate::pieces::Pieces;
use crate::prove::{Committed, Prover, cross_sums, lie_at};
use crate::ring::{Ntt, Rq, Small, Transforms, norm_sq};
use crate::schedule::{Level, Projections, PublicBounds};
use crate::sis::Profile;
use crate::transcript::Transcript;
use crate::verify::Verifier;

/// `N` columns `(s1, s2)`, each with an exact bound of `norm_sq` on its squared norm, that satisfy
/// `s1 + h s2 = c` modulo `q` with polynomials of their own.
pub struct Columns<'a> {
    layout: Layout,
    profile: Profile,
    projections: Projections,
    relation: &'a Relation<'a>,
    context: Vec<u8>,
}

impl<'a> Columns<'a> {
    /// The front end's byte on the wire. Smaller values belonged to front ends that have been removed.
    pub(crate) const ID: u8 = 5;

    /// Creates a statement. `context` is absorbed before anything is drawn and must bind the polynomials of
    /// the relation.
    ///
    /// # Errors
    /// If a number exceeds its limit, or norms or the relation might wrap around the modulus.
    pub fn new(
        norm_sq: u64,
        profile: Profile,
        projections: Projections,
        relation: &'a Relation<'a>,
        context: Vec<u8>,
    ) -> Result<Self, StatementError> {
        let layout = Layout::new(relation.columns(), relation.degree(), norm_sq)?;
        layout.check_modulus(relation.modulus())?;
        Ok(Self {
            layout,
            profile,
            projections,
            relation,
            context,
        })
    }

    /// Returns the bounds of all statements with these numbers, whatever their relation, from which a
    /// [`crate::System`] is made.
    ///
    /// # Errors
    /// If a number exceeds its limit.
    pub fn bounds_for(
        columns: usize,
        degree: usize,
        norm_sq: u64,
        profile: Profile,
        projections: Projections,
    ) -> Result<PublicBounds, StatementError> {
        Ok(Layout::new(columns, degree, norm_sq)?.bounds(profile, projections))
    }

    /// Returns what decides the parameters, which statements with the same numbers share.
    #[must_use]
    pub fn bounds(&self) -> PublicBounds {
        self.layout.bounds(self.profile, self.projections)
    }

    /// Absorbs the whole statement.
    pub(crate) fn absorb(&self, transcript: &mut Transcript) {
        let layout = &self.layout;
        let numbers = [
            layout.columns as u64,
            layout.extension as u64,
            layout.norm_sq,
            self.relation.modulus(),
        ];
        let data: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        transcript.absorb("statement", &data);
        transcript.absorb("context", &self.context);
    }

    /// Checks a witness directly; it holds `s1` and `s2` of the columns one after another.
    ///
    /// # Errors
    /// The first condition that does not hold, or that `exec` is stopped.
    pub(crate) fn check(&self, columns: &[Small], exec: Exec<'_>) -> Result<(), Invalid> {
        let layout = &self.layout;
        let expected = layout.columns * 2 * layout.extension;
        if columns.len() != expected {
            let elements = columns.len();
            return Err(Invalid::Shape { elements, expected });
        }
        for (column, elements) in columns.chunks_exact(2 * layout.extension).enumerate() {
            let norm_sq = norm_sq(elements);
            if norm_sq > u128::from(layout.norm_sq) {
                return Err(Invalid::Column {
                    column,
                    norm_sq,
                    max: layout.norm_sq,
                });
            }
        }
        witness::check(layout, self.relation, columns, exec)
    }

    /// Runs the first level of the prover; returns the remaining relation and its witness `(z_0 | z_1 | v)`.
    ///
    /// # Errors
    /// If quotients of columns are too long, or a predicted size is exceeded in every attempt.
    pub(crate) fn prove<'k>(
        &self,
        prover: &mut Prover<'_>,
        keys: &'k Keys,
        level: &'k Level,
        columns: &[Small],
    ) -> Result<(Folded<'k>, Vec<Small>), ProveError> {
        let (layout, exec) = (&self.layout, prover.exec);
        prover.step("slack and quotients")?;
        let mut s = witness::rows(layout, self.relation, columns, exec)?;
        let (committed, matrix) = prover.commit(keys, level, &mut s)?;
        let Committed { mut v, openings } = committed;
        prover.step("projection")?;
        let shown = prover.show(level, matrix, &s)?;
        let mut others: Option<Vec<Small>> = None;
        lie_at!(prover, Rows(&s, &mut others));
        let rows = others.as_deref().unwrap_or(&s);
        let (point, value) = tables::prove(layout, self.relation, rows, prover)?;
        prover.step("lifts")?;
        let transcript = &prover.sender.transcript;
        let lifts = ShownLifts::draw(shown, transcript);
        let opening = Opening::draw(layout, lifts, point, value, transcript, exec.backend());
        let pieces = Pieces::short(&level.cut, &s);
        let mut products = opening.products(&pieces, exec)?;
        let values = opening.values(&products, &pieces, exec)?;
        let values = prover.send_lifts(values, &opening.constants);
        let mut stream = prover.sender.transcript.seed("weights", 0).stream();
        prover.step("linear garbage")?;
        let Weighted {
            shared,
            coefficients,
            weights,
        } = opening.weighted(&mut stream, exec)?;
        products.extend(shared.image_products(&pieces, exec)?);
        let h = self.garbage(level, &coefficients, products, exec);
        let (u2, h) = prover.send_garbage(keys, level, h)?;
        v.extend(h);
        prover.step("response")?;
        let (challenges, witness) = prover.respond(level, &pieces, v)?;
        drop(s);
        prover.step("amortised form")?;
        let folded = Folded {
            level,
            keys,
            linear: self.linear(shared, coefficients, &challenges, exec)?,
            challenges,
            rhs: right_side(&weights, &values),
            openings,
            u2,
        };
        Ok((folded, witness))
    }

    /// Runs the first level of the verifier.
    ///
    /// # Errors
    /// If a message is malformed or a check of this level fails.
    pub(crate) fn reduce<'k>(
        &self,
        verifier: &mut Verifier<'_>,
        keys: &'k Keys,
        level: &'k Level,
    ) -> Result<Folded<'k>, Reject> {
        let (layout, exec) = (&self.layout, verifier.exec);
        let (openings, matrix) = verifier.commitments(level)?;
        let shown = verifier.shown(level, matrix)?;
        let (point, value) = sumcheck::verify(layout, self.relation, verifier)?;
        exec.step("lifts")?;
        let receiver = &mut verifier.receiver;
        let lifts = ShownLifts::draw(shown, &receiver.transcript);
        let opening = Opening::draw(
            layout,
            lifts,
            point,
            value,
            &receiver.transcript,
            exec.backend(),
        );
        let values = receiver.elements_with_constants("lifts", &opening.constants)?;
        // Seeded before the garbage is absorbed, as the prover does, who needs the weights to compute it.
        let mut stream = receiver.transcript.seed("weights", 0).stream();
        let (u2, challenges) = verifier.garbage_and_challenges(level)?;
        exec.step("amortised form")?;
        let Weighted {
            shared,
            coefficients,
            weights,
        } = opening.weighted(&mut stream, exec)?;
        Ok(Folded {
            level,
            keys,
            linear: self.linear(shared, coefficients, &challenges, exec)?,
            challenges,
            rhs: right_side(&weights, &values),
            openings,
            u2,
        })
    }

    /// Computes the linear garbage: inner products of families, or of pairs of pieces.
    fn garbage(
        &self,
        level: &Level,
        coefficients: &[Rq],
        products: Vec<Rq>,
        exec: Exec<'_>,
    ) -> Vec<Rq> {
        if self.layout.has_families() {
            return products;
        }
        let (pieces, backend) = (level.cut.pieces, exec.backend());
        let (a, x) = (
            backend.transforms(coefficients),
            backend.transforms(&products),
        );
        let families = coefficients.len() / pieces;
        let of_pair = |i: usize, j: usize| {
            let terms = (0..families).map(|f| (&a[f * pieces + i], &x[f * pieces + j]));
            terms.fold(Rq::ZERO, |mut sum, (a, x)| {
                sum.add(&backend.element(&backend.product(a, x)));
                sum
            })
        };
        cross_sums(&level.cut, of_pair)
    }

    fn linear(
        &self,
        shared: Shared,
        coefficients: Vec<Rq>,
        challenges: &[Ntt],
        exec: Exec<'_>,
    ) -> Result<Linear, alphorn_exec::Stopped> {
        Ok(if self.layout.has_families() {
            Linear::Families(shared.families(coefficients))
        } else {
            Linear::One(shared.amortised(&coefficients, challenges, exec)?)
        })
    }
}
