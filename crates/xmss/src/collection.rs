//! Collections as proofs: from the lists of a committee's cells to evidence, and back to a verdict.

use alphorn_scheme::{Evidence, Part, Role, SchemeError, Statement, list};
use alphorn_types::{Bitfield, Support};

use crate::key::one_time_index;
use crate::proof::{Claimed, ProofError, ProofRegistry, Proofs, ProveError, Signed};
use crate::registry::EpochKeys;
use crate::signature::Signature;
use alphorn_stark::Exec;

/// Nanoseconds of a core to prove: some for any proof, some for each slice that a group commits to.
/// Priors: with the compact set's five slices they give 2.2 s for 1,000 signatures, which `alphorn
/// bench proof` measured on one thread of a Sapphire Rapids core (`docs/stark.md`). How they divide is
/// a guess from two threads, and other sets go by their slices. The worker learns the factor of the
/// machine at hand, the step from one group to the next stays.
const PROVE_NS: (u64, u64) = (800_000_000, 18_000_000);

/// Nanoseconds to verify a proof, whatever its set and size: measured in the same place at 10.4 to 14.
const VERIFY_NS: u64 = 11_000_000;

/// Bytes of memory to prove, in the same parts: at least the peak of a process that proves 1, 512, 1,000
/// and 1,472 signatures of the compact set there.
const PROVE_BYTES: (u64, u64) = (70 << 20, 6 << 20);

/// Nanoseconds of a core to merge: some for any merge, some for each child. Priors: twice what two threads
/// took for two, four and seven children of 512 signatures, which `alphorn bench proof --children 2,4,7
/// --threads 2` measured on a Sapphire Rapids core (`docs/stark.md`), and no less than that for any of them.
const MERGE_NS: (u64, u64) = (1_700_000_000, 300_000_000);

/// Nanoseconds to verify a merge: the most that was measured in the same place, on one thread.
const MERGE_VERIFY_NS: u64 = 70_000_000;

/// Bytes of memory to merge, in the same parts: at least the peaks measured there.
const MERGE_BYTES: (u64, u64) = (330 << 20, 75 << 20);

/// Memory of a verification: weights of the registry's rows, and the proof's elements.
const VERIFY_BYTES: u64 = 8 << 20;

/// What is to be proved or verified of a statement: its committee's registry and the index.
fn place<'k>(keys: &'k EpochKeys, statement: &Statement) -> Option<(&'k ProofRegistry, u32)> {
    let layout = keys.assignment.layout();
    let is_statement = |committee: &u16| {
        let range = layout.committee_range(*committee);
        range.start == statement.first && range.end - range.start == statement.len
    };
    let committee = (0..layout.committees()).find(is_statement)?;
    let registry = keys.committees.get(usize::from(committee))?;
    Some((registry, one_time_index(Role::Vote, statement.slot.0)?))
}

/// Whether evidence proves that exactly its support signed.
pub(crate) fn holds(
    proofs: &Proofs,
    exec: Exec<'_>,
    keys: &EpochKeys,
    statement: &Statement,
    evidence: &Evidence,
) -> bool {
    let Some((registry, slot)) = place(keys, statement) else {
        return false;
    };
    if evidence.support.max_multiplicity() > 1 {
        return false;
    }
    let signers: Bitfield = evidence.support.signers();
    let claimed = Claimed {
        slot,
        message: &statement.message,
        signers: &signers,
    };
    let verified = proofs.verify_evidence(exec, registry, &claimed, &evidence.bytes);
    verified.is_ok()
}

/// The proof of a union of lists, whose parts are asked for what is wrong with it.
pub(crate) fn prove(
    proofs: &Proofs,
    exec: Exec<'_>,
    keys: &EpochKeys,
    statement: &Statement,
    (union, parts): (&Evidence, &[Part]),
) -> Result<Evidence, SchemeError> {
    let unsupported = |what| SchemeError::Unsupported {
        scheme: "xmss",
        what,
    };
    let (registry, slot) = place(keys, statement)
        .ok_or_else(|| unsupported("prove the votes of a range that is no committee"))?;
    // The first part that has a position gave the union its signature.
    let part_of = |position: u32| {
        let has = |part: &Part| {
            let inside = position.checked_sub(part.offset).map(|p| p as usize);
            inside.is_some_and(|p| {
                p < part.evidence.support.len() && part.evidence.support.contains(p)
            })
        };
        SchemeError::Malformed(parts.iter().position(has).unwrap_or_default())
    };
    let each = proofs.set().params().signature_bytes;
    let count = union.support.signer_count();
    let list = list::split(&union.bytes, count, each).map_err(|_| SchemeError::Malformed(0))?;
    let positions = union.support.iter().map(|(position, _)| position as u32);
    let decoded = positions.zip(list).map(|(position, bytes)| {
        let signature = Signature::from_bytes(proofs.set(), bytes);
        signature
            .map(|signature| (position, signature))
            .map_err(|_| part_of(position))
    });
    let decoded: Vec<(u32, Signature)> = decoded.collect::<Result<_, _>>()?;
    let signed: Vec<Signed<'_>> = decoded
        .iter()
        .map(|(position, signature)| Signed {
            position: *position,
            signature,
        })
        .collect();
    let message = &statement.message;
    let proved = proofs.prove_evidence(exec, registry, slot, message, &signed);
    let bytes = proved.map_err(|error| match error {
        ProveError::Stopped => SchemeError::Stopped,
        ProveError::Empty => SchemeError::Empty,
        ProveError::InvalidSignatures { positions } => {
            part_of(positions.first().copied().unwrap_or_default())
        }
        _ => unsupported("prove these votes: its prover refuses them"),
    })?;
    Ok(Evidence {
        support: union.support.clone(),
        bytes: bytes.into(),
    })
}

/// The merge of proofs of the statement, and of what is proved beside them.
pub(crate) fn merge(
    proofs: &Proofs,
    exec: Exec<'_>,
    keys: &EpochKeys,
    statement: &Statement,
    (proved, listed): (&[&Part], Option<Evidence>),
) -> Result<Evidence, SchemeError> {
    let unsupported = |what| SchemeError::Unsupported {
        scheme: "xmss",
        what,
    };
    let (registry, slot) = place(keys, statement)
        .ok_or_else(|| unsupported("merge proofs over a range that is no committee"))?;
    let mut pieces: Vec<(Bitfield, &[u8])> = Vec::with_capacity(proved.len() + 1);
    for (i, part) in proved.iter().enumerate() {
        if part.offset != 0 || part.evidence.support.len() != registry.len() {
            return Err(SchemeError::Malformed(i));
        }
        pieces.push((part.evidence.support.signers(), &part.evidence.bytes));
    }
    if let Some(listed) = &listed {
        pieces.push((listed.support.signers(), &listed.bytes));
    }
    let mut signers = Bitfield::new(registry.len());
    for (more, _) in &pieces {
        more.iter_ones().for_each(|i| signers.set(i));
    }
    let pieces: Vec<(&Bitfield, &[u8])> = pieces.iter().map(|(s, bytes)| (s, *bytes)).collect();
    let message = &statement.message;
    let merged = proofs.merge_evidence(exec, registry, slot, message, &pieces);
    let bytes = merged.map_err(|error| match error {
        ProveError::Stopped => SchemeError::Stopped,
        ProveError::Empty => SchemeError::Empty,
        ProveError::Evidence { piece, .. } => SchemeError::Malformed(piece),
        ProveError::Part { part, error } if !matches!(error, ProofError::TooLarge { .. }) => {
            SchemeError::Malformed(part.min(proved.len() - 1))
        }
        _ => unsupported("merge these proofs: their set, size or level has no circuit"),
    })?;
    Ok(Evidence {
        support: Support::from_bits(signers).into(),
        bytes: bytes.into(),
    })
}

/// Nanoseconds of proving the votes of so many signers, and bytes of memory.
pub(crate) fn prove_cost(proofs: &Proofs, signers: u64) -> (u64, u64) {
    let (group, most) = (proofs.group() as u64, proofs.signatures_max() as u64);
    let of_group = proofs.group_slices() as u64;
    let slices = signers.max(1).div_ceil(group).saturating_mul(of_group);
    let count = signers.max(1).div_ceil(most);
    let ns = PROVE_NS.0.saturating_mul(count);
    let ns = ns.saturating_add(PROVE_NS.1.saturating_mul(slices));
    // Proofs of one piece of evidence are made one after the other.
    let at_once = slices.min(most / group * of_group);
    (ns, PROVE_BYTES.0 + PROVE_BYTES.1 * at_once)
}

/// Nanoseconds of merging so many pieces, each of them one proof, and bytes of memory: as
/// [`Proofs::merge`] does it, level by level where one merge does not take all.
pub(crate) fn merge_cost(proofs: &Proofs, pieces: u64) -> (u64, u64) {
    let most = proofs.children_max() as u64;
    let (mut ns, mut left) = (0_u64, pieces.max(1));
    loop {
        let merges = left.div_ceil(most);
        let level_ns = MERGE_NS.0.saturating_mul(merges);
        ns = ns.saturating_add(level_ns.saturating_add(MERGE_NS.1.saturating_mul(left)));
        left = merges;
        if left == 1 {
            break;
        }
    }
    (ns, MERGE_BYTES.0 + MERGE_BYTES.1 * pieces.clamp(1, most))
}

/// Nanoseconds of verifying a merge, and bytes of memory.
pub(crate) fn merge_verify_cost() -> (u64, u64) {
    (MERGE_VERIFY_NS, VERIFY_BYTES)
}

/// Nanoseconds of verifying pieces with so many signers in all, and bytes of memory.
pub(crate) fn verify_cost(proofs: &Proofs, pieces: u64, signers: u64) -> (u64, u64) {
    let count = pieces.max(signers.div_ceil(proofs.signatures_max() as u64));
    (VERIFY_NS.saturating_mul(count), VERIFY_BYTES)
}
