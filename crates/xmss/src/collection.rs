//! Collections and aggregates as proofs: from lists or proofs to evidence, and back to a verdict.
//!
//! Both are proofs over the registry of the committee: an aggregate has its signers in one cell of it, so
//! that proofs of cells merge to one of the committee.

use alphorn_scheme::{Evidence, Layer, Part, Role, SchemeError, Statement, list};
use alphorn_types::{Bitfield, Support};

use crate::key::one_time_index;
use crate::proof::{Claimed, Preset, ProofError, ProofRegistry, Proofs, ProveError, Signed};
use crate::registry::EpochKeys;
use crate::signature::Signature;
use alphorn_stark::Exec;

/// Nanoseconds of a core to prove: some for any proof, some for each slice that a group commits to.
/// Priors: with the compact set's five slices they give 2.2 s for 1,000 signatures, which `alphorn
/// bench proof` measured on one thread of a Sapphire Rapids core before commit b0e1e17. How they divide is
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
/// --threads 2` measured on a Sapphire Rapids core before commit 7ed19d5, and no less than that for any of them.
const MERGE_NS: (u64, u64) = (1_700_000_000, 300_000_000);

/// Nanoseconds to verify a merge: the most that was measured in the same place, on one thread.
const MERGE_VERIFY_NS: u64 = 70_000_000;

/// Bytes of memory to merge, in the same parts: at least the peaks measured there.
const MERGE_BYTES: (u64, u64) = (330 << 20, 75 << 20);

/// Memory of a verification: weights of the registry's rows, and the proof's elements. The circuits of
/// merges are the process's ([`Proofs::make_circuits`]).
const VERIFY_BYTES: u64 = 8 << 20;

/// Whether proofs of cells merge to collections.
pub(crate) fn merges_cells(proofs: &Proofs) -> bool {
    proofs.mergeable() && proofs.preset().id == Preset::FAST.id
}

/// Where a statement stands: the registry of its committee, the first position there, the index.
struct Place<'k> {
    registry: &'k ProofRegistry,
    offset: usize,
    slot: u32,
}

impl Place<'_> {
    fn of<'k>(keys: &'k EpochKeys, statement: &Statement) -> Option<Place<'k>> {
        let layout = keys.assignment.layout();
        let (first, end) = (statement.first, statement.first.checked_add(statement.len)?);
        let has = |committee: &u16| {
            let range = layout.committee_range(*committee);
            match statement.layer {
                Layer::Aggregate => range.start <= first && first < end && end <= range.end,
                Layer::Collection => (range.start, range.end) == (first, end),
            }
        };
        let committee = (0..layout.committees()).find(has)?;
        Some(Place {
            registry: keys.committees.get(usize::from(committee))?,
            offset: (first - layout.committee_range(committee).start) as usize,
            slot: one_time_index(Role::Vote, statement.slot.0)?,
        })
    }

    /// The signers of a support over a part of the committee, over all of it; none if they are counted or
    /// the part ends beyond it.
    fn signers(&self, offset: usize, support: &Support) -> Option<Bitfield> {
        let size = self.registry.len();
        let fits = offset.checked_add(support.len())? <= size && support.max_multiplicity() <= 1;
        fits.then(|| support.place(size, offset).signers())
    }
}

fn unsupported(what: &'static str) -> SchemeError {
    SchemeError::Unsupported {
        scheme: "xmss",
        what,
    }
}

/// Whether evidence proves that exactly its support signed.
pub(crate) fn holds(
    proofs: &Proofs,
    exec: Exec<'_>,
    keys: &EpochKeys,
    statement: &Statement,
    evidence: &Evidence,
) -> bool {
    let Some(place) = Place::of(keys, statement) else {
        return false;
    };
    let support = &evidence.support;
    if support.len() != statement.len as usize || !fits_layer(statement.layer, &evidence.bytes) {
        return false;
    }
    let Some(signers) = place.signers(place.offset, support) else {
        return false;
    };
    let claimed = Claimed {
        slot: place.slot,
        message: &statement.message,
        signers: &signers,
    };
    let verified = proofs.verify_evidence(exec, place.registry, &claimed, &evidence.bytes);
    verified.is_ok()
}

/// Whether evidence of a layer may be what its tag says. An aggregate is a single proof of signatures: one
/// that is a merge already could be of the last level, and nothing that a collector makes of it would have
/// a circuit.
fn fits_layer(layer: Layer, evidence: &[u8]) -> bool {
    match evidence.first() {
        Some(&list::TAG_PROOF) => true,
        Some(&(list::TAG_PROOFS | list::TAG_MERGE)) => layer == Layer::Collection,
        _ => false,
    }
}

/// The first of the lists that has a position: the one that gave their union its signature.
pub(crate) fn part_with(lists: &[Part], position: u32) -> usize {
    let has = |part: &Part| {
        let inside = position.checked_sub(part.offset).map(|p| p as usize);
        inside.is_some_and(|p| p < part.evidence.support.len() && part.evidence.support.contains(p))
    };
    lists.iter().position(has).unwrap_or_default()
}

/// The proof of a list. `source` numbers what gave a position its signature, to name what is wrong.
pub(crate) fn prove(
    proofs: &Proofs,
    exec: Exec<'_>,
    keys: &EpochKeys,
    statement: &Statement,
    union: &Evidence,
    source: &dyn Fn(u32) -> usize,
) -> Result<Evidence, SchemeError> {
    let Place {
        registry,
        offset,
        slot,
    } = Place::of(keys, statement)
        .ok_or_else(|| unsupported("prove the votes of a range that is no committee"))?;
    let malformed = |position| SchemeError::Malformed(source(position));
    let each = proofs.set().params().signature_bytes;
    let count = union.support.signer_count();
    if statement.layer == Layer::Aggregate && count > proofs.mergeable_max() {
        return Err(unsupported(
            "prove more votes of a cell than a merged proof may have",
        ));
    }
    let list = list::split(&union.bytes, count, each).map_err(|_| SchemeError::Malformed(0))?;
    let positions = union.support.iter().map(|(position, _)| position as u32);
    let decoded = positions.zip(list).map(|(position, bytes)| {
        let signature = Signature::from_bytes(proofs.set(), bytes);
        signature
            .map(|signature| (position, signature))
            .map_err(|_| malformed(position))
    });
    let decoded: Vec<(u32, Signature)> = decoded.collect::<Result<_, _>>()?;
    let signed: Vec<Signed<'_>> = decoded
        .iter()
        .map(|(position, signature)| Signed {
            position: offset as u32 + position,
            signature,
        })
        .collect();
    let message = &statement.message;
    let proved = proofs.prove_evidence(exec, registry, slot, message, &signed);
    let bytes = proved.map_err(|error| match error {
        ProveError::Stopped => SchemeError::Stopped,
        ProveError::Empty => SchemeError::Empty,
        ProveError::InvalidSignatures { positions } => {
            let first = positions.first().copied().unwrap_or_default();
            malformed(first.saturating_sub(offset as u32))
        }
        _ => unsupported("prove these votes: its prover refuses them"),
    })?;
    Ok(Evidence {
        support: union.support.clone(),
        bytes: bytes.into(),
    })
}

/// The merge of proofs of the statement, numbered, and of what is proved beside them. A single proof is
/// verified and stays as it is.
pub(crate) fn merge(
    proofs: &Proofs,
    exec: Exec<'_>,
    keys: &EpochKeys,
    statement: &Statement,
    (proved, listed): (&[(usize, &Part)], Option<Evidence>),
) -> Result<Evidence, SchemeError> {
    if statement.layer == Layer::Aggregate {
        return Err(unsupported("merge proofs to an aggregate"));
    }
    let place = Place::of(keys, statement)
        .ok_or_else(|| unsupported("merge proofs over a range that is no committee"))?;
    let mut pieces: Vec<(Bitfield, &[u8])> = Vec::with_capacity(proved.len() + 1);
    for (i, part) in proved {
        let signers = place.signers(part.offset as usize, &part.evidence.support);
        pieces.push((
            signers.ok_or(SchemeError::Malformed(*i))?,
            &part.evidence.bytes,
        ));
    }
    if let Some(listed) = &listed {
        pieces.push((listed.support.signers(), &listed.bytes));
    }
    let mut signers = Bitfield::new(place.registry.len());
    for (more, _) in &pieces {
        signers.union_with(more);
    }
    let bytes = match pieces.as_slice() {
        [(signers, bytes)] => single(proofs, exec, &place, statement, (signers, *bytes)),
        _ => merged(proofs, exec, &place, statement, &pieces),
    };
    let bytes = bytes.map_err(|error| match error {
        // What was proved of lists comes last, and is ours.
        SchemeError::Malformed(i) => proved.get(i).map_or(
            unsupported("merge its own proof of these lists"),
            |(i, _)| SchemeError::Malformed(*i),
        ),
        error => error,
    })?;
    Ok(Evidence {
        support: Support::from_bits(signers).into(),
        bytes: bytes.into(),
    })
}

/// A piece that needs no merge, if it holds.
fn single(
    proofs: &Proofs,
    exec: Exec<'_>,
    place: &Place<'_>,
    statement: &Statement,
    (signers, bytes): (&Bitfield, &[u8]),
) -> Result<Vec<u8>, SchemeError> {
    let claimed = Claimed {
        slot: place.slot,
        message: &statement.message,
        signers,
    };
    match proofs.verify_evidence(exec, place.registry, &claimed, bytes) {
        Ok(()) => Ok(bytes.to_vec()),
        Err(_) => Err(SchemeError::Malformed(0)),
    }
}

/// The merge of pieces; [`SchemeError::Malformed`] has the number of the piece.
fn merged(
    proofs: &Proofs,
    exec: Exec<'_>,
    place: &Place<'_>,
    statement: &Statement,
    pieces: &[(Bitfield, &[u8])],
) -> Result<Vec<u8>, SchemeError> {
    // Evidence of many signers is several proofs, each of which is a part of the merge.
    let parts_of = |(signers, bytes): &(Bitfield, &[u8])| {
        let parts = proofs.evidence_parts(signers, bytes);
        parts.map_or(1, |parts| parts.len())
    };
    let counts = pieces.iter().map(parts_of);
    let piece_of: Vec<usize> = (0..)
        .zip(counts)
        .flat_map(|(i, count)| std::iter::repeat_n(i, count))
        .collect();
    let pieces: Vec<(&Bitfield, &[u8])> = pieces.iter().map(|(s, bytes)| (s, *bytes)).collect();
    let (registry, message) = (place.registry, &statement.message);
    let merged = proofs.merge_evidence(exec, registry, place.slot, message, &pieces);
    merged.map_err(|error| match error {
        ProveError::Stopped => SchemeError::Stopped,
        ProveError::Empty => SchemeError::Empty,
        ProveError::Evidence { piece, .. } => SchemeError::Malformed(piece),
        ProveError::Part { part, error } if !matches!(error, ProofError::TooLarge { .. }) => {
            SchemeError::Malformed(piece_of.get(part).copied().unwrap_or_default())
        }
        _ => unsupported("merge these proofs: their set, size or level has no circuit"),
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
