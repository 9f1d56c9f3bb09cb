//! Bodies of requests in SSZ (`ssz/simple-serialize.md` of the consensus specifications).
//!
//! ```text
//! class Votes(Container):                      # prove, verify-signatures
//!     registry: Bytes32
//!     slot: uint64
//!     message: Bytes32
//!     participants: Bitlist[2**15]
//!     signatures: List[Signature, 2**15]       # in the order of the participants
//!
//! class Proof(Container):                      # the lean specification's AggregatedSignatureProof
//!     participants: Bitlist[2**15]
//!     proof_data: ByteList[2**23]
//!
//! class Entry(Container):
//!     registry: Bytes32
//!     slot: uint64
//!     message: Bytes32
//!     proof: Proof
//!
//! class Entries(Container):                    # merge, bundle, verify
//!     entries: List[Entry, 256]
//!
//! class Bundled(Container):                    # split, verify-bundle; proof_data of its entries is empty
//!     entries: List[Entry, 256]
//!     proof_data: ByteList[2**23]
//! ```
//!
//! A signature is serialised as in the lean specification, with a length fixed by its set, so a list of
//! signatures has no offsets. A bitlist may be shorter than its registry: missing members did not sign.

use crate::job::{About, ENTRIES_MAX, Entry, Kind, Votes, Work};
use crate::registry::{Digest, Registry};
use alphorn_node::telemetry::bitlist;
use alphorn_types::{Bitfield, Reader, Writer};
use alphorn_xmss::EVIDENCE_BYTES_MAX;
use axum::body::Bytes;
use std::sync::Arc;

/// Finds a registry by its digest.
pub(crate) type Lookup<'a> = &'a dyn Fn(&Digest) -> Option<Arc<Registry>>;

/// Bytes of registry, slot and message.
const ABOUT_BYTES: usize = 32 + 8 + 32;
/// Bytes of an offset.
const OFFSET_BYTES: usize = 4;

/// Decodes the work that a body requests.
///
/// # Errors
/// What is wrong with it, with the value and its bound.
pub(crate) fn decode(
    kind: Kind,
    body: &Bytes,
    kept: usize,
    lookup: Lookup<'_>,
) -> Result<Work, String> {
    Ok(match kind {
        Kind::Prove => Work::Prove(votes(body, lookup)?),
        Kind::VerifySignatures => Work::VerifySignatures(votes(body, lookup)?),
        Kind::Merge => merged(entries_alone(body, lookup)?)?,
        Kind::Bundle => Work::Bundle(entries_alone(body, lookup)?),
        Kind::Verify => Work::Verify(entries_alone(body, lookup)?),
        Kind::Split => {
            let (entries, proof) = bundled(body, lookup)?;
            split(entries, proof, kept)?
        }
        Kind::VerifyBundle => {
            let (entries, proof) = bundled(body, lookup)?;
            Work::VerifyBundle { entries, proof }
        }
    })
}

/// Builds a merge of proofs over one message.
pub(crate) fn merged(entries: Vec<Entry>) -> Result<Work, String> {
    let of = |entry: &Entry| {
        let About {
            registry,
            slot,
            message,
        } = &entry.about;
        (registry.digest, *slot, *message)
    };
    let first = entries.first().map(of);
    match entries.iter().position(|entry| Some(of(entry)) != first) {
        None => Ok(Work::Merge(entries)),
        Some(i) => Err(format!(
            "entry {i} is of another registry, slot or message than entry 0: such proofs are bundled"
        )),
    }
}

/// Builds a split that keeps an existing entry.
pub(crate) fn split(entries: Vec<Entry>, proof: Bytes, kept: usize) -> Result<Work, String> {
    match entries.len() {
        count if kept < count => Ok(Work::Split {
            entries,
            proof,
            kept,
        }),
        count => Err(format!("kept is {kept}, must be below {count}")),
    }
}

/// Builds votes with as many signatures as signers.
pub(crate) fn voted(
    about: About,
    participants: Bitfield,
    signatures: Bytes,
) -> Result<Votes, String> {
    let (set, count) = (about.registry.set, participants.count_ones());
    let each = set.params().signature_bytes;
    if count == 0 {
        return Err("no participant".to_owned());
    }
    if signatures.len() != count * each {
        let bytes = signatures.len();
        return Err(format!(
            "{bytes} bytes of signatures, {count} of the set {set} are {}",
            count * each
        ));
    }
    Ok(Votes {
        about,
        participants,
        signatures,
    })
}

/// Builds the statement that was signed, once its registry is found.
pub(crate) fn about(
    digest: &Digest,
    slot: u64,
    message: [u8; 32],
    lookup: Lookup<'_>,
) -> Result<About, String> {
    let registry = lookup(digest);
    let registry = registry.ok_or_else(|| {
        format!(
            "registry 0x{} is not here: upload it by POST /worker/v1/registries",
            hex::encode(digest)
        )
    })?;
    let end = registry.set.params().lifetime();
    match u32::try_from(slot) {
        Ok(index) if slot < end => Ok(About {
            registry,
            slot: index,
            message,
        }),
        _ => Err(format!("slot is {slot}, must be below {end}")),
    }
}

/// Returns the number of entries, if a job accepts that many.
pub(crate) fn counted(count: usize) -> Result<usize, String> {
    match count {
        1..=ENTRIES_MAX => Ok(count),
        _ => Err(format!("{count} entries, must be 1 to {ENTRIES_MAX}")),
    }
}

fn offset(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + OFFSET_BYTES)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
}

/// Returns the variable parts of a container whose offsets end its fixed part of `fixed` bytes.
fn parts<'a, const N: usize>(
    what: &str,
    bytes: &'a [u8],
    fixed: usize,
) -> Result<[&'a [u8]; N], String> {
    if bytes.len() < fixed {
        return Err(format!(
            "{what} has {} bytes, at least {fixed}",
            bytes.len()
        ));
    }
    let mut ends = [bytes.len(); N];
    let mut from = fixed;
    let starts: [usize; N] = std::array::from_fn(|i| {
        let at = fixed - (N - i) * OFFSET_BYTES;
        offset(bytes, at).unwrap_or_default()
    });
    for (i, start) in starts.iter().enumerate() {
        let is_first_elsewhere = i == 0 && *start != fixed;
        if is_first_elsewhere || *start < from || *start > bytes.len() {
            let end = bytes.len();
            return Err(format!(
                "{what}: offset {i} is {start}, must be {from} to {end}, and {fixed} if it is the first"
            ));
        }
        from = *start;
        if i > 0 {
            ends[i - 1] = *start;
        }
    }
    Ok(std::array::from_fn(|i| &bytes[starts[i]..ends[i]]))
}

/// Returns the elements of a list of variable-length elements.
fn elements(bytes: &[u8]) -> Result<Vec<&[u8]>, String> {
    let first = match offset(bytes, 0) {
        None if bytes.is_empty() => 0,
        None => return Err(format!("{} bytes are no list of entries", bytes.len())),
        Some(first) if first % OFFSET_BYTES == 0 && first <= bytes.len() => first,
        Some(first) => return Err(format!("entries: offset 0 is {first}, not one of a list")),
    };
    // The offsets come first, so where the first element begins says how many there are.
    let count = counted(first / OFFSET_BYTES)?;
    let mut found = Vec::with_capacity(count);
    let mut start = first;
    for i in 1..=count {
        let end = match i == count {
            true => bytes.len(),
            false => offset(bytes, i * OFFSET_BYTES).unwrap_or_default(),
        };
        let element = bytes.get(start..end);
        found.push(element.ok_or_else(|| {
            let max = bytes.len();
            format!("entries: offset {i} is {end}, must be {start} to {max}")
        })?);
        start = end;
    }
    Ok(found)
}

/// Decodes a bitlist into as many bits as the registry has members.
fn participants(bytes: &[u8], members: usize) -> Result<Bitfield, String> {
    let last = bytes.last().copied().unwrap_or_default();
    if last == 0 {
        return Err("participants: a bitlist ends with a byte that is not zero".to_owned());
    }
    // The highest bit set marks the end of the list and is none of its members.
    let bits = 8 * bytes.len() - 1 - last.leading_zeros() as usize;
    if bits > members {
        return Err(format!(
            "participants has {bits} bits, the registry {members} keys"
        ));
    }
    let mut field = Bitfield::new(members);
    for bit in 0..bits {
        if bytes[bit / 8] >> (bit % 8) & 1 == 1 {
            field.set(bit);
        }
    }
    Ok(field)
}

fn read_about(bytes: &[u8], lookup: Lookup<'_>) -> Result<About, String> {
    let mut r = Reader::new(bytes);
    let mut read = || Ok::<_, alphorn_types::DecodeError>((r.array()?, r.u64()?, r.array()?));
    let (registry, slot, message) = read().map_err(|error| error.to_string())?;
    about(&registry, slot, message, lookup)
}

fn put_about(w: &mut Writer, about: &About) {
    w.bytes(&about.registry.digest);
    w.u64(about.slot.into());
    w.bytes(&about.message);
}

fn votes(body: &Bytes, lookup: Lookup<'_>) -> Result<Votes, String> {
    let fixed = ABOUT_BYTES + 2 * OFFSET_BYTES;
    let [bits, signatures] = parts("the body", body, fixed)?;
    let about = read_about(body, lookup)?;
    let participants = participants(bits, about.registry.len())?;
    voted(about, participants, body.slice_ref(signatures))
}

fn entries_alone(body: &Bytes, lookup: Lookup<'_>) -> Result<Vec<Entry>, String> {
    let [list] = parts("the body", body, OFFSET_BYTES)?;
    let entries = entries(body, list, lookup)?;
    match entries.iter().position(|entry| entry.proof.is_empty()) {
        None => Ok(entries),
        Some(i) => Err(format!("entry {i} has no proof")),
    }
}

fn bundled(body: &Bytes, lookup: Lookup<'_>) -> Result<(Vec<Entry>, Bytes), String> {
    let [list, proof] = parts("the body", body, 2 * OFFSET_BYTES)?;
    let entries = entries(body, list, lookup)?;
    without_proofs(&entries)?;
    Ok((entries, bounded(body.slice_ref(proof))?))
}

/// Rejects entries of a bundle that have proofs of their own.
pub(crate) fn without_proofs(entries: &[Entry]) -> Result<(), String> {
    match entries.iter().position(|entry| !entry.proof.is_empty()) {
        None => Ok(()),
        Some(i) => Err(format!(
            "entry {i} has a proof of its own, those of a bundle have none"
        )),
    }
}

/// Checks that a proof is within its size bound.
pub(crate) fn bounded(proof: Bytes) -> Result<Bytes, String> {
    match proof.len() {
        0..=EVIDENCE_BYTES_MAX => Ok(proof),
        bytes => Err(format!(
            "a proof of {bytes} bytes, at most {EVIDENCE_BYTES_MAX}"
        )),
    }
}

fn entries(body: &Bytes, list: &[u8], lookup: Lookup<'_>) -> Result<Vec<Entry>, String> {
    let entries = elements(list)?.into_iter().enumerate();
    let entries = entries
        .map(|(i, bytes)| entry(body, bytes, lookup).map_err(|why| format!("entry {i}: {why}")));
    entries.collect()
}

fn entry(body: &Bytes, bytes: &[u8], lookup: Lookup<'_>) -> Result<Entry, String> {
    let [proof] = parts("an entry", bytes, ABOUT_BYTES + OFFSET_BYTES)?;
    let [bits, proof] = parts("its proof", proof, 2 * OFFSET_BYTES)?;
    let about = read_about(bytes, lookup)?;
    Ok(Entry {
        participants: participants(bits, about.registry.len())?,
        about,
        proof: bounded(body.slice_ref(proof))?,
    })
}

/// Encodes the body that requests a work: the inverse of [`decode`], except that bitlists are as long
/// as their registries.
pub(crate) fn encode(work: &Work) -> Vec<u8> {
    let mut w = Writer::new();
    match work {
        Work::Prove(votes) | Work::VerifySignatures(votes) => {
            put_about(&mut w, &votes.about);
            let bits = votes.participants.len() / 8 + 1;
            let fixed = ABOUT_BYTES + 2 * OFFSET_BYTES;
            w.u32(fixed as u32);
            w.u32((fixed + bits) as u32);
            w.bytes(&bitlist(&votes.participants));
            w.bytes(&votes.signatures);
        }
        Work::Merge(entries) | Work::Bundle(entries) | Work::Verify(entries) => {
            w.u32(OFFSET_BYTES as u32);
            put_entries(&mut w, entries);
        }
        Work::Split { entries, proof, .. } | Work::VerifyBundle { entries, proof } => {
            let mut list = Writer::new();
            put_entries(&mut list, entries);
            w.u32(2 * OFFSET_BYTES as u32);
            w.u32((2 * OFFSET_BYTES + list.len()) as u32);
            w.bytes(list.as_slice());
            w.bytes(proof);
        }
    }
    w.into_vec()
}

fn put_entries(w: &mut Writer, entries: &[Entry]) {
    let bits = |entry: &Entry| entry.participants.len() / 8 + 1;
    // An entry has the offset of its proof, and the proof those of its bits and its bytes.
    let fixed = ABOUT_BYTES + 3 * OFFSET_BYTES;
    let mut start = entries.len() * OFFSET_BYTES;
    for entry in entries {
        w.u32(start as u32);
        start += fixed + bits(entry) + entry.proof.len();
    }
    for entry in entries {
        put_about(w, &entry.about);
        w.u32((ABOUT_BYTES + OFFSET_BYTES) as u32);
        w.u32(2 * OFFSET_BYTES as u32);
        w.u32((2 * OFFSET_BYTES + bits(entry)) as u32);
        w.bytes(&bitlist(&entry.participants));
        w.bytes(&entry.proof);
    }
}
