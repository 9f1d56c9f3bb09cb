//! Proofs that instances satisfy a relation.
//!
//! The prover commits to all cells, runs the arguments of the bus, the permutations and the union, and is left
//! with claims on the committed data. A *succinct* proof opens them with the polynomial commitment of
//! [`crate::whir`] and is sent over the network.

mod codec;
mod prover;
mod reduce;
mod sizes;
mod succinct;
#[cfg(test)]
mod tests;
mod weights;
mod witness;

pub use codec::{DecodeError, header_bytes, read_elements, write_elements};
pub(crate) use codec::{MAGIC, check_header, elements_bytes, split};
pub(crate) use reduce::{Deferred, Known};
pub use sizes::{PartSize, succinct_parts};
pub(crate) use succinct::read_succinct;
pub use succinct::{SuccinctProof, prove_succinct, succinct_elements, verify_succinct};
pub use witness::Witness;
#[cfg(test)]
pub(crate) use witness::violation::check;

use std::fmt::Debug;

use alphorn_exec::Exec;

use crate::error::VerifyError;
use crate::extension::{DEGREE, Ext};
use crate::field::{Fp, P};
use crate::hash::Digest;
use crate::kernel::Dispatch;
use crate::multilinear::eq_table;
pub use crate::registry::Registry;
use crate::relation::Relation;
use crate::statement::Statement;
use crate::vector::Planes;

/// A statement in the form a relation takes. The relation builds it, so that no caller can choose public values.
#[derive(Clone, Debug)]
pub struct Public<'a> {
    pub(crate) statement: &'a Statement,
    /// The statement's digest, which binds all that follows and the data from which the public values are derived.
    pub(crate) digest: Digest,
    /// The public values of the relation.
    pub(crate) values: Vec<Fp>,
    pub(crate) registry: &'a Registry,
}

/// A relation, with the public values that it derives from slots and messages.
pub trait Statements: Debug + Sync {
    /// The relation.
    fn relation(&self) -> &Relation;

    /// The public values of a slot and a message.
    ///
    /// # Panics
    /// If the message does not have as many elements as the relation requires; the caller must ensure this.
    fn publics(&self, slot: u32, message: &[Fp]) -> Vec<Fp>;

    /// A statement in the form the relation takes.
    ///
    /// # Panics
    /// See [`Statements::publics`].
    fn public<'a>(&self, statement: &'a Statement, registry: &'a Registry) -> Public<'a> {
        Public {
            digest: statement.digest(),
            values: self.publics(statement.slot, &statement.message),
            statement,
            registry,
        }
    }
}

/// Checks that a statement belongs to a relation.
pub(crate) fn check_statement(
    relation: &Relation,
    statement: &Statement,
) -> Result<(), VerifyError> {
    let (got, want) = (statement.set, relation.id);
    if got != want {
        return Err(VerifyError::Set { got, want });
    }
    let (got, want) = (statement.message.len(), relation.message);
    if got != want {
        return Err(VerifyError::Publics { got, want });
    }
    let (got, want) = (statement.bitfield.len(), 1 << relation.shape.column_log2());
    if got != want {
        return Err(VerifyError::StatementSize { got, want });
    }
    // Hashed as a field element, so n and n + p would be the same committee.
    match statement.committee {
        got if got < P => Ok(()),
        got => Err(VerifyError::Committee { got }),
    }
}

/// Checks that a registry belongs to a relation, and that a bitfield claims at least one row and none beyond it.
pub(crate) fn check_registry(
    relation: &Relation,
    registry: &Registry,
    bitfield: &[bool],
) -> Result<(), VerifyError> {
    let (got, want) = (registry.rows(), 1 << relation.shape.column_log2());
    if got != want {
        return Err(VerifyError::StatementSize { got, want });
    }
    let (got, want) = (registry.width(), relation.registry_width);
    if got != want {
        return Err(VerifyError::RegistryWidth { got, want });
    }
    match bitfield.iter().rposition(|bit| *bit) {
        None => Err(VerifyError::EmptySet),
        Some(last) if last >= registry.size() => Err(VerifyError::BitBeyondRegistry {
            bit: last,
            size: registry.size(),
        }),
        Some(_) => Ok(()),
    }
}

/// Checks that public data belongs to a relation, since another relation may have built it.
fn check_stated(relation: &Relation, public: &Public<'_>) -> Result<(), VerifyError> {
    check_statement(relation, public.statement)?;
    let (got, want) = (public.values.len(), relation.publics);
    if got != want {
        return Err(VerifyError::Publics { got, want });
    }
    check_registry(relation, public.registry, &public.statement.bitfield)
}

/// Number of coordinates in the lower part of a public column's point.
const LOW_LOG2: usize = 7;

/// eq of a point, as one table for the rows within a part of a column and one for the parts.
pub(crate) struct PublicPoint {
    high: Vec<Ext>,
    low: Planes,
}

impl PublicPoint {
    pub(crate) fn new(point: &[Ext]) -> PublicPoint {
        let (high, low) = point.split_at(point.len().saturating_sub(LOW_LOG2));
        PublicPoint {
            high: eq_table(Ext::ONE, high),
            low: Planes::from_exts(&eq_table(Ext::ONE, low)),
        }
    }

    /// The value of a public column.
    pub(crate) fn value(&self, exec: Exec<'_>, column: &[Fp]) -> Ext {
        let parts = column.chunks(self.low.len()).zip(&self.high);
        // A dot product takes four vectors at a time.
        let backend = exec.backend().fitting(self.low.len() / 4);
        parts
            .map(|(part, weight)| *weight * self.low.dot(backend, part))
            .sum()
    }
}

impl Registry {
    /// Its value as a single polynomial, at a point of rows and columns.
    pub fn at(&self, exec: Exec<'_>, point: &[Ext]) -> Ext {
        let columns = self.width().next_power_of_two().ilog2() as usize;
        let (row, column) = point.split_at(point.len().saturating_sub(columns));
        let (row, columns) = (PublicPoint::new(row), eq_table(Ext::ONE, column));
        // A row is padded with zeros to a power of two, which add nothing.
        let values = columns.iter().take(self.width()).enumerate();
        let values = values.map(|(k, weight)| *weight * row.value(exec, self.column(k)));
        values.sum()
    }
}

/// The value of a column at a point by a table of eq.
fn column_at(weights: &[Ext], column: impl Iterator<Item = Fp>) -> Ext {
    weights.iter().zip(column).map(|(w, x)| *w * x).sum()
}

pub(crate) fn bits(bitfield: &[bool]) -> Vec<Fp> {
    let bit = |bit: &bool| if *bit { Fp::ONE } else { Fp::ZERO };
    bitfield.iter().map(bit).collect()
}

/// Number of elements of F_p for bus, registry, sums of outputs, permutations and union.
fn elements_argued(relation: &Relation) -> usize {
    let (bus, permutations, union) = sizes::argued(relation);
    DEGREE * (bus + permutations + union)
}

fn check_groups(relation: &Relation, got: usize) -> Result<(), VerifyError> {
    let max = relation.groups_max();
    match got <= max {
        true => Ok(()),
        false => Err(VerifyError::Groups { got, max }),
    }
}

/// Checks the values that the proof claims for registry and bitfield.
fn check_public(
    exec: Exec<'_>,
    public: &Public<'_>,
    deferred: &Deferred<Ext>,
) -> Result<(), VerifyError> {
    let point = PublicPoint::new(&deferred.registry_at);
    for (k, value) in deferred.registry.iter().enumerate() {
        if point.value(exec, public.registry.column(k)) != *value {
            return Err(VerifyError::Registry);
        }
    }
    let point = PublicPoint::new(&deferred.bitfield_at);
    match point.value(exec, &bits(&public.statement.bitfield)) == deferred.bitfield {
        true => Ok(()),
        false => Err(VerifyError::Bitfield),
    }
}
