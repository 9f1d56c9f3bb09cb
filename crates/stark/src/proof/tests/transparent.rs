//! Proofs over the *transparent* commitment: the prover reveals everything it committed to, and the verifier
//! recomputes the root and each claim. They use the same arguments, and show the strength of those without the
//! polynomial commitment.

use super::super::prover::{argue, begin as begin_proof};
use super::super::reduce::{begin, read_arguments};
use super::*;
use crate::arith::Arith;
use crate::claims::Ledger;
use crate::merkle::tests::commit;

/// The preset of the transparent commitment.
pub(super) const TRANSPARENT: u32 = 0;

/// A proof over the transparent commitment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    /// Number of groups of instances.
    pub(super) groups: usize,
    /// The prover's messages, in transcript order.
    pub(super) elements: Vec<Fp>,
    /// The committed slices.
    pub(super) slices: Vec<Vec<Fp>>,
}

/// Proves a statement. A wrong witness results in a proof that the verifier rejects.
pub(super) fn prove(
    exec: Exec<'_>,
    relation: &Relation,
    public: &Public<'_>,
    witness: &Witness,
) -> Result<Proof, ProveError> {
    check_stated(relation, public)?;
    let run = Run::new(exec, relation, &public.values, witness)?;
    let slices = run.slices(exec, &public.statement.bitfield)?;
    let sides = Sides {
        bus: &slices,
        union: &slices,
        committed: &slices,
    };
    let mut sender = Sender::new(parameters(relation, TRANSPARENT));
    prove_sides(exec, public, &run, sides, &mut sender)?;
    Ok(Proof {
        groups: run.groups.len(),
        elements: sender.finish(),
        slices,
    })
}

/// Sends all messages, on a transcript that has just begun.
pub(super) fn prove_sides(
    exec: Exec<'_>,
    public: &Public<'_>,
    run: &Run<'_>,
    sides: Sides<'_>,
    sender: &mut Sender,
) -> Result<(), Stopped> {
    begin_proof(sender, public, run.groups.len());
    sender.send_base(&commit(exec, sides.committed, 0));
    argue(exec, public, run, sides, sender)
}

/// The remaining claims when a proof has been read.
pub(super) struct Reduced<A: Arith> {
    /// The root of the commitment.
    pub(super) root: [A::Base; DIGEST],
    pub(super) ledger: Ledger<A::Ext>,
    pub(super) deferred: Deferred<A::Ext>,
}

/// Reads a proof.
pub(super) fn reduce<A: Arith>(
    arith: A,
    relation: &Relation,
    known: &Known<A::Base>,
) -> Result<(Reduced<A>, A), VerifyError> {
    let mut channel = begin(arith, relation, known, TRANSPARENT);
    let root = channel.read_base(DIGEST)?;
    let (ledger, deferred) = read_arguments(&mut channel, relation, known)?;
    let reduced = Reduced {
        root: std::array::from_fn(|i| root[i]),
        ledger,
        deferred,
    };
    Ok((reduced, channel.arith))
}

/// The claims that are false for the committed data, and by how much.
pub(super) fn false_claims(
    ledger: Ledger<Ext>,
    relation: &Relation,
    slices: &[Vec<Fp>],
) -> Vec<(Claimed, Ext)> {
    let committed = Committed {
        shape: relation.shape,
        slices,
    };
    let claims = ledger.all().into_iter();
    let excesses = claims.map(|claim| {
        let parts = claim.parts.iter();
        let sum: Ext = parts.map(|part| committed.sum(exec(), part)).sum();
        (claim.name, sum - claim.value)
    });
    excesses
        .filter(|(_, excess)| *excess != Ext::ZERO)
        .collect()
}

/// Verifies a proof.
pub(super) fn verify(
    exec: Exec<'_>,
    relation: &Relation,
    public: &Public<'_>,
    proof: &Proof,
) -> Result<(), VerifyError> {
    check_stated(relation, public)?;
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
        return Err(VerifyError::Merkle { oracle: 0 });
    }
    match false_claims(reduced.ledger, relation, &proof.slices)[..] {
        [] => Ok(()),
        _ => Err(VerifyError::Weights),
    }
}

/// Number of elements of F_p in a proof: the root, then the arguments.
pub(super) fn elements_said(relation: &Relation) -> usize {
    DIGEST + elements_argued(relation)
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
