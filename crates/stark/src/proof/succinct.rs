//! Proofs over the polynomial commitment, as sent over the network.

use alphorn_exec::{Exec, Stopped};

use super::prover::{Sides, argue, begin as begin_proof};
use super::reduce::{begin, parameters, read_arguments};
use super::witness::{Run, Witness};
use super::{Deferred, Known, Public, check_groups, check_public, check_stated, elements_argued};
use crate::arith::{Arith, Native};
use crate::claims::Ledger;
use crate::error::{ProveError, VerifyError};
use crate::extension::Ext;
use crate::field::Fp;
use crate::multilinear::powers;
use crate::relation::Relation;
use crate::transcript::{Channel, Sender};
use crate::whir::{self, Commitment, Committer, Preset, Rounds};

/// A proof whose length hardly depends on the number of instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuccinctProof {
    /// Number of groups of instances.
    pub groups: usize,
    /// The prover's messages in transcript order, with the opened rows and the nodes that lead from them to the
    /// cap, each once.
    pub elements: Vec<Fp>,
}

/// Maximum number of elements of F_p in a proof of this many groups.
pub fn succinct_elements(relation: &Relation, preset: &Preset, groups: usize) -> usize {
    let opening = whir::elements(preset, relation.shape.slice_log2(), relation.slices(groups));
    elements_argued(relation) + opening
}

/// Proves a statement over the commitment of a preset.
///
/// The witness is not checked beforehand.
///
/// # Errors
/// [`ProveError::Statement`] for a statement for which no proof is accepted, and in most cases for a witness that
/// does not satisfy the relation, because the prover reads its own arguments as the verifier will.
/// [`ProveError::Stopped`] if the computation is stopped.
pub fn prove_succinct(
    exec: Exec<'_>,
    relation: &Relation,
    preset: &Preset,
    public: &Public<'_>,
    witness: &Witness,
) -> Result<SuccinctProof, ProveError> {
    check_stated(relation, public)?;
    exec.enter(|| {
        let run = Run::new(exec, relation, &public.values, witness)?;
        let slices = run.slices(exec, &public.statement.bitfield)?;
        let sides = Sides {
            bus: &slices,
            union: &slices,
            committed: &slices,
        };
        let sender = Sender::new(parameters(relation, preset.id));
        let elements = prove_committed(exec, preset, public, &run, sides, sender)?;
        Ok(SuccinctProof {
            groups: run.groups.len(),
            elements,
        })
    })
}

/// Sends all messages and openings, on a transcript that has just begun.
pub(super) fn prove_committed(
    exec: Exec<'_>,
    preset: &Preset,
    public: &Public<'_>,
    run: &Run<'_>,
    sides: Sides<'_>,
    mut sender: Sender,
) -> Result<Vec<Fp>, ProveError> {
    let (relation, groups) = (run.relation, run.groups.len());
    let numbers = relation.slice_numbers(groups);
    let shape = &relation.shape;
    begin_proof(&mut sender, public, groups);
    let committed = sides.committed;
    let committer = Committer::new(
        &mut sender,
        exec,
        preset,
        shape.slice_log2(),
        committed,
        &numbers,
    )?;
    argue(exec, public, run, sides, &mut sender)?;
    exec.step("own reading")?;
    // The claims are those the verifier will derive: its own code runs on the messages sent so far.
    let known = Known {
        digest: public.digest,
        publics: public.values.clone(),
        used: vec![Fp::ONE; groups],
    };
    let arith = Native::new(sender.proof());
    let mut channel = begin(arith, relation, &known, preset.id);
    let coordinates = shape.slices_log2 + shape.slice_log2();
    whir::read_commitment(&mut channel, &preset.oracles[0], coordinates)?;
    let (ledger, _) = read_arguments(&mut channel, relation, &known)?;
    open_ledger(&mut sender, exec, relation, preset, committer, ledger)?;
    Ok(sender.finish())
}

/// Opens all claims of a ledger on committed data.
fn open_ledger(
    sender: &mut Sender,
    exec: Exec<'_>,
    relation: &Relation,
    preset: &Preset,
    committer: Committer<'_>,
    ledger: Ledger<Ext>,
) -> Result<(), Stopped> {
    exec.step("rounds over slices")?;
    let gamma = sender.challenge();
    let claims = ledger.all();
    let gammas = powers(gamma, gamma, claims.len());
    let values = claims.iter().zip(&gammas).map(|(c, g)| *g * c.value);
    let claim = committer.value + values.sum();
    let shape = &relation.shape;
    let rounds = Rounds::new(exec, shape, &committer, &claims, &gammas)?;
    whir::open(sender, exec, preset, committer, claim, rounds)?;
    Ok(())
}

/// Verifies a proof over the commitment of a preset, on one thread.
///
/// # Errors
/// [`VerifyError`] of the first check that fails.
pub fn verify_succinct(
    exec: Exec<'_>,
    relation: &Relation,
    preset: &Preset,
    public: &Public<'_>,
    proof: &SuccinctProof,
) -> Result<(), VerifyError> {
    check_stated(relation, public)?;
    check_groups(relation, proof.groups)?;
    // At most: paths that share nodes are shorter. Reading ends in `finish`, which rejects leftover elements.
    let want = succinct_elements(relation, preset, proof.groups);
    if proof.elements.len() > want {
        return Err(VerifyError::Length {
            want,
            got: proof.elements.len(),
        });
    }
    let known = Known {
        digest: public.digest,
        publics: public.values.clone(),
        used: vec![Fp::ONE; proof.groups],
    };
    let arith = Native::on(exec.backend(), &proof.elements);
    let numbers = relation.slice_numbers(proof.groups);
    let check = |deferred: &_| check_public(exec, public, deferred);
    let (channel, _) = read_succinct(arith, relation, preset, &numbers, &known, check)?;
    channel.arith.finish()
}

/// Reads a whole proof over the commitment of a preset, in slices with these numbers. Leaves values of public
/// polynomials, which `check` receives before the claims are opened.
pub(crate) fn read_succinct<A: Arith>(
    arith: A,
    relation: &Relation,
    preset: &Preset,
    numbers: &[usize],
    known: &Known<A::Base>,
    check: impl FnOnce(&Deferred<A::Ext>) -> Result<(), VerifyError>,
) -> Result<(Channel<A>, Deferred<A::Ext>), VerifyError> {
    let shape = &relation.shape;
    let mut channel = begin(arith, relation, known, preset.id);
    let coordinates = shape.slices_log2 + shape.slice_log2();
    let commitment = whir::read_commitment(&mut channel, &preset.oracles[0], coordinates)?;
    let (ledger, deferred) = read_arguments(&mut channel, relation, known)?;
    check(&deferred)?;
    open_claims(&mut channel, relation, preset, numbers, commitment, ledger)?;
    Ok((channel, deferred))
}

/// Verifies all claims of a ledger on data committed in slices with these numbers.
fn open_claims<A: Arith>(
    channel: &mut Channel<A>,
    relation: &Relation,
    preset: &Preset,
    numbers: &[usize],
    commitment: Commitment<A>,
    ledger: Ledger<A::Ext>,
) -> Result<(), VerifyError> {
    let claims = ledger.all();
    let shape = &relation.shape;
    let values: Vec<A::Ext> = claims.iter().map(|claim| claim.value).collect();
    let slice_log2 = shape.slice_log2();
    let remaining = whir::verify(channel, preset, slice_log2, numbers, commitment, &values)?;
    let arith = &mut channel.arith;
    let zero = arith.ext(Ext::ZERO);
    let claims = claims.iter().zip(&remaining.factors);
    let weight = claims.fold(zero, |sum, (claim, factor)| {
        sum + *factor * whir::claim_at(arith, shape, claim, &remaining.point)
    });
    remaining.close(arith, weight)
}
