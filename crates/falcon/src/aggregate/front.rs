//! How signatures become short vectors: the default, and what it is compared with.

use alphorn_exec::Exec;
use alphorn_labrador::ring::Small;
use alphorn_labrador::schedule::PublicBounds;
use alphorn_labrador::sis::Profile;
use alphorn_labrador::{Chihuahua, Dachshund, DachshundJoint, FrontEnd, StatementError, System};

use super::AggregateError;
use crate::forms::Relation;
use crate::{DEGREE, NORM_SQ_MAX};

/// Ring elements of a polynomial.
const ELEMENTS: usize = DEGREE / alphorn_labrador::ring::DEGREE;

/// Ring elements of `s1` and `s2`.
const ROWS: usize = 2 * ELEMENTS;

/// How signatures become short vectors under equations. All of them prove the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Front {
    /// Slack as squares, the relation as forms modulo 12289 ([`DachshundJoint`]): what everything
    /// else here uses.
    #[default]
    Joint,
    /// Slack as bits, the relation as forms ([`Dachshund`]).
    Bits,
    /// Slack as bits, the relation over the integers with its quotients ([`Dachshund`]).
    Quotient,
    /// A quadratic equation for each norm ([`Chihuahua`]), quotients; up to 256 signatures.
    Chihuahua,
}

impl Front {
    /// All of them, the default first.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [Self::Joint, Self::Bits, Self::Quotient, Self::Chihuahua];

    /// What decides the parameters of a proof.
    ///
    /// # Errors
    /// If the front end has no statement of so many signatures.
    pub fn bounds(
        self,
        signatures: usize,
        profile: Profile,
    ) -> Result<PublicBounds, StatementError> {
        let dachshund = |quotient_rows| {
            Dachshund::bounds_for(signatures, ROWS, NORM_SQ_MAX, quotient_rows, profile)
        };
        match self {
            Self::Joint => DachshundJoint::bounds_for(signatures, ROWS, NORM_SQ_MAX, profile),
            Self::Bits => dachshund(0),
            Self::Quotient => dachshund(ELEMENTS),
            Self::Chihuahua => Chihuahua::bounds_for(signatures, ELEMENTS, NORM_SQ_MAX, profile),
        }
    }

    /// Hands the statement of a relation to one side. `digest` binds everything public.
    pub(super) fn with_statement<S: Side>(
        self,
        relation: &Relation<'_>,
        profile: Profile,
        digest: Vec<u8>,
        side: S,
    ) -> Result<S::Output, AggregateError> {
        let (columns, bound) = (relation.keys.len(), NORM_SQ_MAX);
        let dachshund = |relation, side: S| {
            let statement = Dachshund::new(columns, ROWS, bound, profile, relation, digest.clone());
            side.run(&statement?)
        };
        match self {
            Self::Joint => {
                let statement =
                    DachshundJoint::new(columns, ROWS, bound, profile, relation, digest);
                side.run(&statement?)
            }
            Self::Bits => dachshund(alphorn_labrador::Relation::Forms(relation), side),
            Self::Quotient => {
                let products = relation.products()?;
                dachshund(alphorn_labrador::Relation::Products(&products), side)
            }
            Self::Chihuahua => {
                let products = relation.products()?;
                side.run(&Chihuahua::new(bound, profile, &products, digest)?)
            }
        }
    }
}

/// The prover or the verifier, for a statement of any front end.
pub(super) trait Side {
    /// What the side ends with.
    type Output;

    fn run<F: FrontEnd<Witness = [Small]>>(
        self,
        statement: &F,
    ) -> Result<Self::Output, AggregateError>;
}

/// Proves what was verified plainly.
pub(super) struct Proving<'a> {
    pub(super) system: &'a System,
    pub(super) witness: &'a [Small],
    pub(super) exec: Exec<'a>,
}

impl Side for Proving<'_> {
    type Output = Vec<u8>;

    fn run<F: FrontEnd<Witness = [Small]>>(self, statement: &F) -> Result<Vec<u8>, AggregateError> {
        let (system, exec) = (self.system, self.exec);
        Ok(system.prove_unchecked_on(statement, self.witness, exec)?)
    }
}

/// Verifies a proof.
pub(super) struct Verifying<'a> {
    pub(super) system: &'a System,
    pub(super) proof: &'a [u8],
    pub(super) exec: Exec<'a>,
}

impl Side for Verifying<'_> {
    type Output = ();

    fn run<F: FrontEnd<Witness = [Small]>>(self, statement: &F) -> Result<(), AggregateError> {
        Ok((self.system).verify_on(statement, self.proof, self.exec)?)
    }
}
