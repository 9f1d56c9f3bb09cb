//! Proofs that instances fulfil a relation.
//!
//! The prover commits to all cells, argues by the bus, the permutations and the union, and is left
//! with [claims](crate::claims) on what it committed to. A *succinct* proof opens them by the
//! polynomial commitment of [`crate::whir`] and goes over the wire. Over the *transparent*
//! commitment the prover shows everything, and the verifier recomputes the root and each claim: such
//! proofs are as long as the cells. They have the same arguments, and show what those are worth
//! without the commitment.

mod codec;
mod prover;
mod reduce;
mod sizes;
mod succinct;
#[cfg(test)]
mod tests;
mod weights;
mod witness;

pub use codec::{DecodeError, header_bytes};
pub(crate) use codec::{MAGIC, check_header, elements_bytes, read_elements, split, write_elements};
pub use prover::prove;
pub use reduce::{Deferred, Known, Reduced, reduce};
pub use sizes::{PartSize, succinct_parts};
pub(crate) use succinct::read_succinct;
pub use succinct::{SuccinctProof, prove_succinct, succinct_elements, verify_succinct};
pub use witness::{Violation, Witness, check};

use alphorn_exec::Exec;

#[cfg(test)]
use crate::arith::DIGEST;
use crate::arith::Native;
use crate::claims::Committed;
use crate::error::{ProveError, VerifyError};
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::Dispatch;
use crate::merkle::{Digest, commit};
use crate::multilinear::eq_table;
use crate::relation::Relation;
use crate::vector::Planes;

/// Public rows that tuples are looked up in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    columns: Vec<Vec<Fp>>,
    rows: usize,
    size: usize,
}

impl Registry {
    /// Rows of `width` elements, filled up with zeros to 2^`rows_log2`.
    ///
    /// # Errors
    /// [`ProveError::Capacity`] if there are more rows, or one has another width.
    pub fn new<R: AsRef<[Fp]>>(
        rows: &[R],
        width: usize,
        rows_log2: usize,
    ) -> Result<Registry, ProveError> {
        let capacity = |what, got, max| ProveError::Capacity { what, got, max };
        if rows.len() > 1 << rows_log2 {
            return Err(capacity("registry rows", rows.len(), 1 << rows_log2));
        }
        let mut widths = rows.iter().map(|row| row.as_ref().len());
        if let Some(got) = widths.find(|got| *got != width) {
            return Err(capacity("elements of a registry row", got, width));
        }
        let column = |k: usize| {
            let mut column: Vec<Fp> = rows.iter().map(|row| row.as_ref()[k]).collect();
            column.resize(1 << rows_log2, Fp::ZERO);
            column
        };
        Ok(Registry {
            columns: (0..width).map(column).collect(),
            rows: 1 << rows_log2,
            size: rows.len(),
        })
    }

    /// Rows that are not filling.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Rows with the filling: a power of two.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    /// Row i.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn row(&self, i: usize) -> Vec<Fp> {
        self.columns.iter().map(|column| column[i]).collect()
    }

    pub(crate) fn column(&self, k: usize) -> &[Fp] {
        &self.columns[k]
    }
}

/// A statement, as a relation sees it.
#[derive(Clone, Debug)]
pub struct Public<'a> {
    /// Binds all that follows, and what the public values are made of.
    pub digest: Digest,
    /// The public values of the relation.
    pub values: Vec<Fp>,
    /// The registry.
    pub registry: &'a Registry,
    /// For each row of the registry whether it is claimed to be used.
    pub bitfield: &'a [bool],
}

/// A proof over the transparent commitment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Groups of instances.
    pub groups: usize,
    /// What the prover says, in the order of the transcript.
    pub elements: Vec<Fp>,
    /// What it commits to.
    pub slices: Vec<Vec<Fp>>,
}

/// Demands that a bitfield belong to the registry and claim something.
fn check_statement(relation: &Relation, public: &Public<'_>) -> Result<(), VerifyError> {
    let rows = 1 << relation.shape.column_log2();
    let sizes = [public.registry.rows(), public.bitfield.len()];
    if let Some(got) = sizes.into_iter().find(|got| *got != rows) {
        return Err(VerifyError::StatementSize { got, want: rows });
    }
    let (got, want) = (public.registry.width(), relation.registry_width);
    if got != want {
        return Err(VerifyError::RegistryWidth { got, want });
    }
    check_bitfield(public.registry, public.bitfield)
}

/// Demands that a bitfield claim something, and nothing beyond the registry.
pub(crate) fn check_bitfield(registry: &Registry, bitfield: &[bool]) -> Result<(), VerifyError> {
    match bitfield.iter().rposition(|bit| *bit) {
        None => Err(VerifyError::EmptySet),
        Some(last) if last >= registry.size() => Err(VerifyError::BitBeyondRegistry {
            bit: last,
            size: registry.size(),
        }),
        Some(_) => Ok(()),
    }
}

/// Coordinates of the lower part of a point of a public column.
const LOW_LOG2: usize = 7;

/// eq of a point, as a table for the rows of a part of a column and one for the parts.
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
        let backend = exec.backend().fitting(self.low.len() / 4);
        parts
            .map(|(part, weight)| *weight * self.low.dot(backend, part))
            .sum()
    }
}

impl Registry {
    /// Its value as one polynomial, at a point of rows and columns.
    pub fn at(&self, exec: Exec<'_>, point: &[Ext]) -> Ext {
        let columns = self.width().next_power_of_two().ilog2() as usize;
        let (row, column) = point.split_at(point.len().saturating_sub(columns));
        let (row, columns) = (PublicPoint::new(row), eq_table(Ext::ONE, column));
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

/// Verifies a proof.
///
/// # Errors
/// [`VerifyError`] of the first check that fails.
pub fn verify(
    exec: Exec<'_>,
    relation: &Relation,
    public: &Public<'_>,
    proof: &Proof,
) -> Result<(), VerifyError> {
    check_statement(relation, public)?;
    check_groups(relation, proof.groups)?;
    check_lengths(relation, proof)?;
    let known = Known {
        digest: public.digest,
        publics: public.values.clone(),
        used: vec![Fp::ONE; proof.groups],
    };
    let arith = Native::new(&proof.elements);
    let (reduced, arith) = reduce(arith, relation, &known)?;
    arith.finish()?;
    check_public(exec, public, &reduced.deferred)?;
    if commit(exec, &proof.slices, 0) != reduced.root {
        return Err(VerifyError::Commitment);
    }
    let committed = Committed {
        shape: relation.shape,
        slices: &proof.slices,
    };
    reduced.ledger.open(|claim| {
        let parts = claim.parts.iter();
        let sum: Ext = parts.map(|part| committed.sum(exec, part)).sum();
        match sum == claim.value {
            true => Ok(()),
            false => Err(VerifyError::Claim(claim.name)),
        }
    })
}

/// Elements of F_p that a proof over the transparent commitment says: the root, then the arguments.
#[cfg(test)]
pub(crate) fn elements_said(relation: &Relation) -> usize {
    DIGEST + elements_argued(relation)
}

/// Elements of F_p for bus, registry, sums of outputs, permutations and union.
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

fn check_lengths(relation: &Relation, proof: &Proof) -> Result<(), VerifyError> {
    let want = relation.slices(proof.groups) * relation.shape.slice();
    let got = proof.slices.iter().map(Vec::len).sum();
    let whole = proof
        .slices
        .iter()
        .all(|s| s.len() == relation.shape.slice());
    match whole && got == want {
        true => Ok(()),
        false => Err(VerifyError::Length { want, got }),
    }
}

/// Checks what the proof says about registry and bitfield.
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
    match point.value(exec, &bits(public.bitfield)) == deferred.bitfield {
        true => Ok(()),
        false => Err(VerifyError::Bitfield),
    }
}
