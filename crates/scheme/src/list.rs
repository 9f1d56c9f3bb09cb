//! List mode: an aggregate that consists of its signatures, in position order.
//!
//! Legal evidence for every scheme. It allows a scheme to be used throughout the project before its
//! prover exists, and is a fair baseline afterwards. Overlapping lists merge to the union: of two
//! signatures of one validator over the same message, either is valid and the first is kept.
//!
//! Encoding: tag 0, then the signatures, each of the scheme's fixed length.

use crate::{Claim, Evidence, Part, SchemeError, Statement};
use alphorn_exec::Exec;
use alphorn_types::{Assignment, Bitfield, DecodeError, Support, Validator};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// First byte of evidence in list mode.
pub const TAG_LIST: u8 = 0;
/// First byte of evidence that is one proof.
pub const TAG_PROOF: u8 = 1;
/// First byte of evidence that is a list of (support, proof) with disjoint supports.
pub const TAG_PROOFS: u8 = 2;

/// First byte of evidence that is one proof of proofs, whose supports may overlap.
pub const TAG_MERGE: u8 = 3;

/// Size of a list of `n` signatures in bytes.
pub fn list_bytes(n: usize, signature_bytes: usize) -> usize {
    1 + n * signature_bytes
}

/// Creates evidence from votes given as (position, signature), in ascending position order.
///
/// # Errors
/// [`SchemeError::Empty`]; [`SchemeError::Malformed`] for a signature of another length, a
/// position outside the statement or out of order.
pub fn aggregate<B: AsRef<[u8]>>(
    statement: &Statement,
    votes: &[(u32, B)],
    signature_bytes: usize,
) -> Result<Evidence, SchemeError> {
    let mut by_position = BTreeMap::new();
    for (i, (position, signature)) in votes.iter().enumerate() {
        let ascending = by_position
            .last_key_value()
            .is_none_or(|(last, _)| last < position);
        let signature = signature.as_ref();
        if !ascending || *position >= statement.len || signature.len() != signature_bytes {
            return Err(SchemeError::Malformed(i));
        }
        by_position.insert(*position, signature);
    }
    assemble(statement, &by_position, signature_bytes)
}

/// The verdict on each claim, when each signature is verified separately.
pub struct Verdicts(Vec<bool>);

impl Verdicts {
    /// Whether all claims of a range hold.
    pub fn hold(&self, range: Range<usize>) -> bool {
        self.0[range].iter().all(|holds| *holds)
    }

    /// Indices of the claims that do not hold.
    pub fn failed(&self) -> Vec<usize> {
        (0..self.0.len()).filter(|i| !self.0[*i]).collect()
    }
}

/// What a claim needs in order to hold.
pub enum Needed<T> {
    /// All of these signatures.
    Signatures(Vec<T>),
    /// The proof that its evidence is.
    Proof,
    /// It cannot hold, whatever its bytes are.
    Nothing,
}

/// Decides claims. Signatures are verified in chunks of `chunk` by `hold`, which returns a verdict for each, and
/// proofs one by one by `proof_holds`. Once `exec` is stopped, nothing that is left holds.
pub fn decide<'c, T: Sync>(
    claims: &'c [Claim],
    exec: Exec<'_>,
    chunk: usize,
    needed: impl Fn(usize, &'c Claim) -> Needed<T>,
    hold: impl Fn(&[T]) -> Vec<bool> + Sync,
    proof_holds: impl Fn(&Statement, &Evidence) -> bool + Sync,
) -> Verdicts {
    let mut holds = vec![true; claims.len()];
    // Signatures of all claims go into one list, which is cut into chunks whatever claims they belong to; `owners`
    // has the claim of each.
    let (mut owners, mut signatures, mut proofs) = (Vec::new(), Vec::new(), Vec::new());
    for (number, claim) in claims.iter().enumerate() {
        match needed(number, claim) {
            Needed::Signatures(own) => {
                owners.extend(vec![number; own.len()]);
                signatures.extend(own);
            }
            Needed::Proof => proofs.push(number),
            Needed::Nothing => holds[number] = false,
        }
    }
    let chunks: Vec<&[T]> = signatures.chunks(chunk).collect();
    // A stopped run is discarded as a whole, so these false verdicts blame nobody.
    let verdicts = exec.map(chunks.len(), |i| match exec.stopped() {
        true => vec![false; chunks[i].len()],
        false => hold(chunks[i]),
    });
    for (owner, verdict) in owners.into_iter().zip(verdicts.concat()) {
        holds[owner] &= verdict;
    }
    let verdicts = exec.map(proofs.len(), |i| match &claims[proofs[i]] {
        Claim::Group {
            statement,
            evidence,
        } => !exec.stopped() && proof_holds(statement, evidence),
        Claim::One { .. } | Claim::Selected { .. } => false,
    });
    for (number, verdict) in proofs.into_iter().zip(verdicts) {
        holds[number] = verdict;
    }
    Verdicts(holds)
}

/// The signers of a group, by position. None if no list or proof of single signatures can hold: the statement is not
/// about a unit, or the support has another length, is empty or counts a signer twice.
pub fn signers<'a>(
    assignment: &'a Assignment,
    statement: &Statement,
    support: &'a Support,
) -> Option<impl Iterator<Item = Validator> + 'a> {
    let is_unit = statement.unit(assignment.layout()).is_some();
    let fits = support.len() == statement.len as usize && is_unit;
    if !fits || support.is_empty() || support.max_multiplicity() > 1 {
        return None;
    }
    // Every position is in bounds: the statement is about a unit, and the support is as long as that.
    let (members, first) = (assignment.members(), statement.first as usize);
    let signers = support.iter();
    Some(signers.map(move |(position, _)| Validator(members[first + position])))
}

/// Returns the union of lists.
///
/// # Errors
/// [`SchemeError::Empty`]; [`SchemeError::Malformed`] for a part that is not a list of its support
/// or is outside the statement.
pub fn union(
    statement: &Statement,
    parts: &[Part],
    signature_bytes: usize,
) -> Result<Evidence, SchemeError> {
    let mut by_position = BTreeMap::new();
    for (i, part) in parts.iter().enumerate() {
        let support = &part.evidence.support;
        let end = u64::from(part.offset) + support.len() as u64;
        if end > u64::from(statement.len) || support.max_multiplicity() > 1 {
            return Err(SchemeError::Malformed(i));
        }
        let signatures = split(
            &part.evidence.bytes,
            support.signer_count(),
            signature_bytes,
        )
        .map_err(|_| SchemeError::Malformed(i))?;
        // As many signatures as signers, which `split` has checked.
        for ((position, _), signature) in support.iter().zip(signatures) {
            by_position
                .entry(part.offset + position as u32)
                .or_insert(signature);
        }
    }
    assemble(statement, &by_position, signature_bytes)
}

/// Returns the signatures of list evidence over `signers` signers.
///
/// # Errors
/// [`DecodeError`] for another tag or length.
pub fn split(
    evidence: &[u8],
    signers: usize,
    signature_bytes: usize,
) -> Result<impl ExactSizeIterator<Item = &[u8]>, DecodeError> {
    let Some((tag, list)) = evidence.split_first() else {
        return Err(DecodeError::Truncated { needed: 1, left: 0 });
    };
    if *tag != TAG_LIST {
        return Err(DecodeError::UnknownTag {
            what: "evidence tag",
            value: u64::from(*tag),
        });
    }
    let needed = signers.saturating_mul(signature_bytes);
    if list.len() < needed {
        return Err(DecodeError::Truncated {
            needed,
            left: list.len(),
        });
    }
    // Surplus bytes would give one list many encodings, all of them valid.
    if list.len() > needed {
        return Err(DecodeError::Trailing {
            bytes: list.len() - needed,
        });
    }
    // `max(1)`, because chunks of length 0 would panic; there are then no bytes to cut.
    Ok(list.chunks_exact(signature_bytes.max(1)))
}

fn assemble(
    statement: &Statement,
    by_position: &BTreeMap<u32, &[u8]>,
    signature_bytes: usize,
) -> Result<Evidence, SchemeError> {
    if by_position.is_empty() {
        return Err(SchemeError::Empty);
    }
    let mut bits = Bitfield::new(statement.len as usize);
    let mut bytes = Vec::with_capacity(list_bytes(by_position.len(), signature_bytes));
    bytes.push(TAG_LIST);
    for (position, signature) in by_position {
        bits.set(*position as usize);
        bytes.extend_from_slice(signature);
    }
    Ok(Evidence {
        support: Arc::new(Support::from_bits(bits)),
        bytes: bytes.into(),
    })
}
