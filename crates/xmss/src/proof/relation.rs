//! The relation of each set, and how a signature is represented in it.

use std::sync::LazyLock;

use alphorn_exec::Exec;
use alphorn_stark::Relation;
use alphorn_stark::chains::lean::{self, LeanChains, LeanOpening, LeanParameters};
use alphorn_stark::chains::{Chains, HALF, Opened, Opening, Parameters};
use alphorn_stark::proof::{Public, Registry as Rows, Statements};
use alphorn_stark::statement::Statement;
use alphorn_stark::{Fp, ProveError};

use super::{ProofRegistry, Signed};
use crate::params::Set;

/// The relation of a set.
#[derive(Clone, Debug)]
pub(super) enum SetRelation {
    /// The relation of the compact set.
    Compact(Chains),
    /// The relation of a set of the lean specification.
    Lean(LeanChains),
}

static COMPACT: LazyLock<SetRelation> =
    LazyLock::new(|| SetRelation::Compact(Chains::new(Parameters::COMPACT)));
static COMPACT_WIDE: LazyLock<SetRelation> =
    LazyLock::new(|| SetRelation::Compact(Chains::new(Parameters::COMPACT_WIDE)));
static PROD: LazyLock<SetRelation> =
    LazyLock::new(|| SetRelation::Lean(LeanChains::new(LeanParameters::PROD)));
static TEST: LazyLock<SetRelation> =
    LazyLock::new(|| SetRelation::Lean(LeanChains::new(LeanParameters::TEST)));

impl SetRelation {
    /// The relation of a set, made once.
    pub(super) fn of(set: Set) -> &'static SetRelation {
        match set {
            Set::Compact => &COMPACT,
            Set::Prod => &PROD,
            Set::Test => &TEST,
        }
    }

    /// The relation of the compact set in the wide shape.
    pub(super) fn wide() -> &'static SetRelation {
        &COMPACT_WIDE
    }

    /// The relation with the public values of statements.
    pub(super) fn statements(&self) -> &dyn Statements {
        match self {
            SetRelation::Compact(chains) => chains,
            SetRelation::Lean(chains) => chains,
        }
    }

    /// The relation as data.
    pub(super) fn relation(&self) -> &Relation {
        self.statements().relation()
    }

    /// Number of elements of a message as it is hashed.
    pub(super) fn message_elements(&self) -> usize {
        match self {
            SetRelation::Compact(_) => alphorn_stark::DIGEST,
            SetRelation::Lean(_) => lean::MESSAGE,
        }
    }

    /// A statement in the form the relation takes.
    pub(super) fn public<'a>(&self, statement: &'a Statement, registry: &'a Rows) -> Public<'a> {
        self.statements().public(statement, registry)
    }

    /// The cells of members' signatures, and which of the signatures hold.
    pub(super) fn opened(
        &self,
        exec: Exec<'_>,
        slot: u32,
        message: &[Fp],
        registry: &ProofRegistry,
        signed: &[Signed<'_>],
    ) -> Result<Opened, ProveError> {
        match self {
            SetRelation::Compact(chains) => {
                let openings: Vec<_> = signed.iter().map(|s| compact(registry, s)).collect();
                chains.opened(exec, slot, message, &openings)
            }
            SetRelation::Lean(chains) => {
                let openings: Vec<_> = signed.iter().map(|s| of_lean(registry, s)).collect();
                chains.opened(exec, slot, message, &openings)
            }
        }
    }
}

/// The first N elements of a row or of a part of a signature, which has at least that many.
fn first<const N: usize>(elements: &[Fp]) -> [Fp; N] {
    std::array::from_fn(|x| elements[x])
}

/// A signature of the compact set as an opening. The position must be that of a member.
fn compact(registry: &ProofRegistry, signed: &Signed<'_>) -> Opening {
    let index = signed.position as usize;
    let (row, signature) = (registry.rows().row(index), signed.signature);
    let half = |digest: &[Fp; 8]| first(digest);
    Opening {
        index,
        // Root and parameter are those of the registry, so an opening that holds is a signature under the
        // registered key.
        root: first(&row),
        parameter: first(&row[HALF..]),
        randomness: first(&signature.randomness),
        tips: signature.hashes.iter().map(half).collect(),
        path: signature.path.iter().map(half).collect(),
    }
}

/// A signature of a lean set as an opening. The position must be that of a member.
fn of_lean(registry: &ProofRegistry, signed: &Signed<'_>) -> LeanOpening {
    let index = signed.position as usize;
    let (row, signature) = (registry.rows().row(index), signed.signature);
    LeanOpening {
        index,
        root: first(&row),
        parameter: first(&row[lean::DIGEST..]),
        randomness: signature.randomness,
        tips: signature.hashes.clone(),
        path: signature.path.clone(),
    }
}
