//! Evidence as proofs: conversion of lists or proofs to evidence, and verification of evidence.
//!
//! All proofs are over the registry of the committee. Those of a lower unit have their signers in its part of the
//! registry, so that they merge into proofs of the unit above and finally of the committee. A proof that is to be
//! merged further must leave room for it. Merges of a committee have [`MERGE_LEVELS`] levels, above which two
//! levels of bundles prove all committees of a block. A proof of a cell at that height would keep out all others
//! of the committee.

pub(crate) mod block;
mod room;

use alphorn_exec::Exec;
use alphorn_scheme::{Evidence, Layer, Part, Role, SchemeError, Statement, list};
use alphorn_types::{Bitfield, Layout, Support, Unit};

use crate::key::one_time_index;
use crate::proof::{Claimed, Preset, ProofError, ProofRegistry, Proofs, ProveError, Signed};
use crate::registry::EpochKeys;
use crate::signature::Signature;
use alphorn_stark::merge::{MERGE_LEVELS, merge_level};
use room::{Piece, with_room};

/// Nanoseconds of a core to prove: a constant for any proof, and one for each slice that a group commits to.
/// Priors: with the compact set's five slices they are twice what two threads of a Zen 4 core took for 512, 1,000
/// and 1,472 signatures (`alphorn bench proof`, commit 1938f99); other sets scale by their slices. The worker
/// learns the factor of the local host, but the step from one group to the next stays.
const PROVE_NS: (u64, u64) = (200_000_000, 12_800_000);

/// Nanoseconds to verify a proof, whatever its set and size; measured in the same setup at 5.1 to 5.4.
const VERIFY_NS: u64 = 5_400_000;

/// Bytes of memory to prove, split in the same way: at least the peak of a process that proves 1, 512, 1,000 and
/// 1,472 signatures of the compact set there.
const PROVE_BYTES: (u64, u64) = (90 << 20, 6 << 20);

/// Nanoseconds of a core to merge: a constant for any merge, and one for each child. Priors: the time for merges
/// of three and of seven merges, 1.4 and 2.1 s (`alphorn slot --protocol horn-pq`, commit 30b8073, and `alphorn
/// bench proof --children 16`); merges of leaves take less.
const MERGE_NS: (u64, u64) = (900_000_000, 180_000_000);

/// Nanoseconds to verify a merge: the maximum measured in the same setup, for a merge of merges.
const MERGE_VERIFY_NS: u64 = 27_000_000;

/// Bytes of memory to merge, split in the same way: at least the peaks measured there.
const MERGE_BYTES: (u64, u64) = (330 << 20, 75 << 20);

/// Memory of a verification: weights of the registry's rows, and the proof's elements. The circuits of merges
/// count for the process ([`Proofs::make_circuits`]).
const VERIFY_BYTES: u64 = 8 << 20;

/// Whether proofs of cells are merged into collections.
pub(crate) fn merges_cells(proofs: &Proofs) -> bool {
    proofs.mergeable() && proofs.preset().id == Preset::FAST.id
}

/// Number of merge levels needed to make one proof of this many pieces.
fn merge_levels(proofs: &Proofs, mut pieces: u64) -> u32 {
    let mut levels = 0;
    while pieces > 1 {
        pieces = pieces.div_ceil(proofs.children_max() as u64);
        levels += 1;
    }
    levels
}

/// Maximum number of merge levels in evidence of a layout level, such that those of its committee can merge it
/// further. Levels that the layout does not need are divided among its levels, since publishers of one unit whose
/// signers differ are merged as well. None if the layout needs more merges than there are levels.
pub(crate) fn merges_max(proofs: &Proofs, layout: &Layout, level: u8) -> Option<u32> {
    let units = |level| u64::from(layout.units_of_committee(level));
    let leaves = u64::from(layout.unit_len_max(2)).div_ceil(proofs.mergeable_max() as u64);
    let needed = |of: u8| {
        // Lists of a unit of level 2 may need several proofs, however few its cells are.
        let least = if of == 2 { leaves } else { 0 };
        merge_levels(proofs, (units(of - 1) / units(of)).max(least))
    };
    let top = layout.levels();
    if top <= 2 {
        return Some(MERGE_LEVELS);
    }
    let spare = MERGE_LEVELS.checked_sub((2..=top).map(needed).sum())?;
    // Rounded down, so that what the levels below use never takes from those above. The top has all of it.
    let share = spare * (u32::from(level) - 1) / (u32::from(top) - 1).max(1);
    Some((2..=level).map(needed).sum::<u32>() + share)
}

/// The position of a statement: its unit in the registry of its committee, and the one-time index.
struct StatementContext<'k> {
    unit: Unit,
    /// Whether its evidence is not used further, because it is a collection of a whole committee.
    is_last: bool,
    merges_max: u32,
    registry: &'k ProofRegistry,
    /// First position and number of positions of the unit.
    offset: usize,
    len: usize,
    slot: u32,
}

impl StatementContext<'_> {
    fn of<'k>(
        proofs: &Proofs,
        keys: &'k EpochKeys,
        statement: &Statement,
    ) -> Option<StatementContext<'k>> {
        let layout = keys.assignment.layout();
        let unit = statement.unit(layout)?;
        Some(StatementContext {
            unit,
            is_last: unit.level > 1 && unit.level == layout.levels(),
            merges_max: merges_max(proofs, layout, unit.level).unwrap_or_default(),
            registry: keys.committees.get(usize::from(unit.committee))?,
            offset: layout.unit_in_committee(unit).start as usize,
            len: statement.len as usize,
            slot: one_time_index(Role::Vote, statement.slot.0)?,
        })
    }

    /// The signers of a support over a part of the unit, as positions of the whole committee; none if they are
    /// counted or the part ends beyond the unit.
    fn signers(&self, offset: usize, support: &Support) -> Option<Bitfield> {
        let fits =
            offset.checked_add(support.len())? <= self.len && support.max_multiplicity() <= 1;
        let at = self.offset + offset;
        fits.then(|| support.place(self.registry.len(), at).signers())
    }

    /// Whether proofs of this many signers may be evidence of the unit by their kind. Those of a committee may be
    /// whatever their tag says, and those of a lower unit must leave room for further merging. Evidence of a cell
    /// is never a merge.
    fn takes(&self, proofs: &Proofs, signers: usize, evidence: &[u8]) -> bool {
        let Some((tag, proof)) = evidence.split_first() else {
            return false;
        };
        match *tag {
            list::TAG_PROOF => self.is_last || signers <= proofs.mergeable_max(),
            list::TAG_PROOFS => self.is_last,
            list::TAG_MERGE if self.unit.level > 1 => {
                merge_level(proof).is_some_and(|level| level <= self.merges_max)
            }
            _ => false,
        }
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
    let Some(context) = StatementContext::of(proofs, keys, statement) else {
        return false;
    };
    let support = &evidence.support;
    if support.len() != context.len
        || !context.takes(proofs, support.signer_count(), &evidence.bytes)
    {
        return false;
    }
    let Some(signers) = context.signers(0, support) else {
        return false;
    };
    let claimed = Claimed {
        slot: context.slot,
        message: &statement.message,
        signers: &signers,
    };
    let verified = proofs.verify_evidence(exec, context.registry, &claimed, &evidence.bytes);
    verified.is_ok()
}

/// The first list that has a position, which is the one whose signature the union took.
pub(crate) fn part_with(lists: &[Part], position: u32) -> usize {
    let has = |part: &Part| {
        let inside = position.checked_sub(part.offset).map(|p| p as usize);
        inside.is_some_and(|p| p < part.evidence.support.len() && part.evidence.support.contains(p))
    };
    lists.iter().position(has).unwrap_or_default()
}

/// The proof of a list. `source` maps a position to the number of the part that supplied its signature, for error
/// reports.
pub(crate) fn prove(
    proofs: &Proofs,
    exec: Exec<'_>,
    keys: &EpochKeys,
    statement: &Statement,
    union: &Evidence,
    source: &dyn Fn(u32) -> usize,
) -> Result<Evidence, SchemeError> {
    let context = StatementContext::of(proofs, keys, statement)
        .ok_or_else(|| unsupported("prove the votes of a range that is no unit"))?;
    let malformed = |position| SchemeError::Malformed(source(position));
    let each = proofs.set().params().signature_bytes;
    let count = union.support.signer_count();
    if context.unit.level == 1 && count > proofs.mergeable_max() {
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
            position: context.offset as u32 + position,
            signature,
        })
        .collect();
    let proved = prove_signed(proofs, exec, &context, statement, &signed);
    let bytes = proved.map_err(|error| match error {
        ProveError::Stopped => SchemeError::Stopped,
        ProveError::Empty => SchemeError::Empty,
        ProveError::InvalidSignatures { positions } => {
            let first = positions.first().copied().unwrap_or_default();
            // The prover numbers positions in the committee, callers in the unit.
            malformed(first.saturating_sub(context.offset as u32))
        }
        _ => unsupported("prove these votes: its prover refuses them"),
    })?;
    Ok(Evidence {
        support: union.support.clone(),
        bytes: bytes.into(),
    })
}

/// The proof of signatures: one proof, or as many as they need, merged if they are to be merged further.
fn prove_signed(
    proofs: &Proofs,
    exec: Exec<'_>,
    context: &StatementContext<'_>,
    statement: &Statement,
    signed: &[Signed<'_>],
) -> Result<Vec<u8>, ProveError> {
    let (registry, slot, message) = (context.registry, context.slot, &statement.message);
    let prove =
        |signed: &[Signed<'_>]| proofs.prove_evidence(exec, registry, slot, message, signed);
    // Evidence that is used no further may be proofs of any size. Otherwise each must fit the circuit of leaves.
    if context.is_last || signed.len() <= proofs.mergeable_max() {
        return prove(signed);
    }
    let mut leaves: Vec<(Bitfield, Vec<u8>)> = Vec::new();
    for signed in signed.chunks(proofs.mergeable_max()) {
        let mut signers = Bitfield::new(registry.len());
        signed.iter().for_each(|s| signers.set(s.position as usize));
        leaves.push((signers, prove(signed)?));
    }
    let pieces: Vec<(&Bitfield, &[u8])> = leaves.iter().map(|(s, bytes)| (s, &**bytes)).collect();
    proofs.merge_evidence(exec, registry, slot, message, &pieces)
}

/// The merge of numbered proofs of the statement, and of what is proved in addition. A single proof is verified
/// and returned unchanged. If merges cannot take all proofs, those whose signers are mostly covered by others are
/// left out ([`with_room`]).
pub(crate) fn merge(
    proofs: &Proofs,
    exec: Exec<'_>,
    keys: &EpochKeys,
    statement: &Statement,
    proved: &[(usize, &Part)],
    listed: Option<Evidence>,
) -> Result<Evidence, SchemeError> {
    if statement.layer == Layer::Aggregate {
        return Err(unsupported("merge proofs to an aggregate"));
    }
    let context = StatementContext::of(proofs, keys, statement)
        .ok_or_else(|| unsupported("merge proofs over a range that is no unit"))?;
    let mut pieces: Vec<Piece<'_>> = Vec::with_capacity(proved.len() + 1);
    for (i, part) in proved {
        let signers = context.signers(part.offset as usize, &part.evidence.support);
        let signers = signers.ok_or(SchemeError::Malformed(*i))?;
        pieces.push(piece(
            proofs,
            &context,
            signers,
            &part.evidence.bytes,
            Some(*i),
        ));
    }
    if let Some(listed) = &listed {
        let support = listed.support.place(context.registry.len(), context.offset);
        pieces.push(piece(
            proofs,
            &context,
            support.signers(),
            &listed.bytes,
            None,
        ));
    }
    let fits = |level: u32, parts: u64| level + merge_levels(proofs, parts) <= context.merges_max;
    let pieces = with_room(exec, pieces, &fits)?;
    let mut signers = Bitfield::new(context.registry.len());
    for piece in &pieces {
        signers.union_with(&piece.signers);
    }
    let bytes = match pieces.as_slice() {
        [piece] => single(proofs, exec, &context, statement, piece),
        _ => merged(proofs, exec, &context, statement, &pieces),
    };
    let bytes = bytes.map_err(|error| match error {
        // Here `i` is the number of a piece.
        SchemeError::Malformed(i) => pieces[i].part.map_or(
            unsupported("merge its own proof of these lists"),
            SchemeError::Malformed,
        ),
        error => error,
    })?;
    let own = context.offset..context.offset + context.len;
    Ok(Evidence {
        support: Support::from_bits(signers.extract(own)).into(),
        bytes: bytes.into(),
    })
}

fn piece<'a>(
    proofs: &Proofs,
    context: &StatementContext<'_>,
    signers: Bitfield,
    bytes: &'a [u8],
    part: Option<usize>,
) -> Piece<'a> {
    // A piece that is not a proof is reported when it is merged.
    let parts = proofs.evidence_parts(&signers, bytes).unwrap_or_default();
    let levels = parts.iter().filter_map(|part| merge_level(part.proof));
    Piece {
        // Capped at the level at which nothing can be merged further, whatever a header says.
        level: levels.max().unwrap_or_default().min(context.merges_max),
        parts: parts.len().max(1),
        signers,
        bytes,
        part,
    }
}

/// A piece that needs no merge, if it holds.
fn single(
    proofs: &Proofs,
    exec: Exec<'_>,
    context: &StatementContext<'_>,
    statement: &Statement,
    piece: &Piece<'_>,
) -> Result<Vec<u8>, SchemeError> {
    let claimed = Claimed {
        slot: context.slot,
        message: &statement.message,
        signers: &piece.signers,
    };
    // A merge would verify its pieces. A piece that is returned as it is must be verified here.
    match proofs.verify_evidence(exec, context.registry, &claimed, piece.bytes) {
        Ok(()) => Ok(piece.bytes.to_vec()),
        Err(_) => Err(SchemeError::Malformed(0)),
    }
}

/// The merge of pieces; [`SchemeError::Malformed`] carries the number of the piece.
fn merged(
    proofs: &Proofs,
    exec: Exec<'_>,
    context: &StatementContext<'_>,
    statement: &Statement,
    pieces: &[Piece<'_>],
) -> Result<Vec<u8>, SchemeError> {
    // Evidence of many signers is several proofs, each of which is a part of the merge.
    let piece_of: Vec<usize> = (0..)
        .zip(pieces)
        .flat_map(|(i, piece)| std::iter::repeat_n(i, piece.parts))
        .collect();
    let pieces: Vec<(&Bitfield, &[u8])> = pieces.iter().map(|p| (&p.signers, p.bytes)).collect();
    let (registry, message) = (context.registry, &statement.message);
    let merged = proofs.merge_evidence(exec, registry, context.slot, message, &pieces);
    merged.map_err(|error| match error {
        ProveError::Stopped => SchemeError::Stopped,
        ProveError::Empty => SchemeError::Empty,
        ProveError::Evidence { piece, .. } => SchemeError::Malformed(piece),
        // A proof that is too large is not malformed: it may hold, and has no circuit.
        ProveError::Part { part, error } if !matches!(error, ProofError::TooLarge { .. }) => {
            SchemeError::Malformed(piece_of.get(part).copied().unwrap_or_default())
        }
        _ => unsupported("merge these proofs: their set, size or level has no circuit"),
    })
}

/// Nanoseconds to prove the votes of this many signers, and bytes of memory.
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

/// Nanoseconds to merge this many pieces, each of them one proof, and bytes of memory. As in [`Proofs::merge`],
/// merging goes level by level where one merge cannot take all.
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

/// Nanoseconds to verify a merge, and bytes of memory.
pub(crate) fn merge_verify_cost() -> (u64, u64) {
    (MERGE_VERIFY_NS, VERIFY_BYTES)
}

/// Nanoseconds to verify pieces with this many signers in total, and bytes of memory.
pub(crate) fn verify_cost(proofs: &Proofs, pieces: u64, signers: u64) -> (u64, u64) {
    let count = pieces.max(signers.div_ceil(proofs.signatures_max() as u64));
    (VERIFY_NS.saturating_mul(count), VERIFY_BYTES)
}

/// The same if proofs of cells are merged: pieces of more signers than a mergeable proof has are merges.
pub(crate) fn verify_merging_cost(proofs: &Proofs, pieces: u64, signers: u64) -> (u64, u64) {
    let each = signers.div_ceil(pieces.max(1));
    let ns = match each <= proofs.mergeable_max() as u64 {
        true => VERIFY_NS,
        false => MERGE_VERIFY_NS,
    };
    (ns.saturating_mul(pieces), VERIFY_BYTES)
}
