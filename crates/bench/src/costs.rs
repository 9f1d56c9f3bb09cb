//! Shared parts of the cost tables of schemes with proofs: signatures are in lists, collections are proofs.

use alphorn_lab::error::Result;
use alphorn_scheme::model::{
    CostTable, EvidenceBytes, FigureKind, Merged, OpCost, SCHEMA, TableSizes,
};
use alphorn_scheme::{MemoryWatermark, Op, Reservation, Role, Scheme, SignItem, Watermark};
use alphorn_types::{Slot, Validator};
use anyhow::{Context, anyhow};

/// Signatures that are verified or made together.
pub(super) const BATCH: usize = 64;

/// Pieces of evidence on a line.
pub(super) const MANY: u64 = 100;

/// A proof of this many signatures on one thread.
#[derive(Clone, Copy)]
pub(super) struct Proved {
    pub(super) signatures: u64,
    pub(super) prove_ns: u64,
    pub(super) verify_ns: u64,
    pub(super) bytes: u64,
}

/// Nanoseconds per signature.
pub(super) struct Lists {
    pub(super) sign_ns: u64,
    pub(super) verify_one_ns: u64,
    /// Verification in a batch.
    pub(super) verify_ns: u64,
    /// Preparation of its key; none means the scheme's own formula.
    pub(super) prepare_ns: Option<u64>,
}

/// Returns the right to sign a message as a validator in a slot in which it has not signed.
pub(super) fn permit(
    store: &MemoryWatermark,
    slot: u64,
    validator: u32,
    message: [u8; 32],
) -> anyhow::Result<Reservation> {
    let item = SignItem::new(Validator(validator), Role::Vote, message);
    let permit = store.reserve(Slot(slot), &item);
    permit.map_err(|refused| anyhow!("validator {validator}, slot {slot}: {refused}"))
}

pub(super) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Builds a row with the memory given by the scheme.
pub(super) fn row(scheme: &impl Scheme, op: Op, n: u64, m: u64, ns: u64) -> OpCost {
    OpCost {
        op,
        n,
        m,
        ns,
        memory_bytes: scheme.cost(op, n, m).memory_bytes,
    }
}

impl Lists {
    /// Returns the nanoseconds to verify this many at once.
    pub(super) fn verify(&self, count: u64) -> u64 {
        self.verify_one_ns.max(count.saturating_mul(self.verify_ns))
    }

    /// Returns the rows of everything but collections.
    pub(super) fn rows(&self, scheme: &impl Scheme) -> Vec<OpCost> {
        let mut rows = Vec::new();
        let mut row = |op, n: u64, m: u64, ns| rows.push(row(scheme, op, n, m, ns));
        for n in [1, BATCH as u64, 1000] {
            for op in [Op::Sign, Op::DutySign] {
                row(op, n, 0, n * self.sign_ns);
            }
            for op in [Op::VerifyVotes, Op::DutyVerify, Op::Aggregate] {
                row(op, n, 0, self.verify(n));
            }
            let own_ns = || scheme.cost(Op::Prepare, n, 0).ns;
            let prepare_ns = self.prepare_ns.map_or_else(own_ns, |ns| n * ns);
            row(Op::Prepare, n, 0, prepare_ns);
        }
        for n in [1, MANY] {
            for m in [n, 1000 * n] {
                // A message has three signatures and the list.
                row(Op::VerifyAggregates, n, m, self.verify(3 * n + m));
            }
        }
        rows
    }

    /// Returns the rows of collections that are proofs.
    pub(super) fn collections(&self, scheme: &impl Scheme, proofs: &[Proved]) -> Vec<OpCost> {
        let mut rows = Vec::new();
        let mut row = |op, n: u64, m: u64, ns| rows.push(row(scheme, op, n, m, ns));
        for proof in proofs {
            let signers = proof.signatures;
            // A proof is verified by its maker.
            row(Op::Collect, 1, signers, proof.prove_ns + proof.verify_ns);
            for n in [1, MANY] {
                let ns = self.verify(3 * n) + n * proof.verify_ns;
                row(Op::VerifyCollections, n, n * signers, ns);
            }
        }
        rows
    }
}

/// Returns the table as JSON.
pub(super) fn table(
    scheme: &impl Scheme,
    machine: String,
    evidence: Vec<EvidenceBytes>,
    merged: Option<Merged>,
    mut ops: Vec<OpCost>,
) -> Result<String> {
    ops.sort_by_key(|row| (row.op, row.n, row.m));
    let own = scheme.sizes();
    let table = CostTable {
        schema: SCHEMA,
        scheme: scheme.name().to_owned(),
        machine,
        kind: FigureKind::Measured,
        abilities: scheme.abilities(),
        sizes: TableSizes {
            public_key: own.public_key_bytes as u64,
            signature: own.signature_bytes as u64,
            duty_signature: own.duty_signature_bytes as u64,
            evidence,
        },
        merged,
        ops,
    };
    table.check().context("this program's own cost table")?;
    Ok(serde_json::to_string_pretty(&table)? + "\n")
}
