//! All digests of the protocol, each with its own ASCII label as prefix, so that a signature or
//! name made for one purpose cannot serve another.
//!
//! Labels have different lengths, but none is a prefix of another, and all fields after a label
//! have a fixed or explicit length. Two different inputs therefore never hash the same bytes.

use alphorn_scheme::{Evidence, EvidenceLength};
use alphorn_types::support_code::{self, Coding};
use alphorn_types::{Epoch, Slot, Unit, Writer};
use sha2::{Digest, Sha256};

use super::{Aggregate, Header, NetworkDigest, Root, Vote, WireFormat};

/// SHA-256 of the concatenation of `parts`.
fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The message a voter signs: `SHA-256("alphorn-vote-v1" || network || vote)`. It names no
/// committee, so all voters that agree sign the same message (the point of EIP-7549).
pub fn vote_message(network: NetworkDigest, vote: &Vote) -> [u8; 32] {
    sha256(&[b"alphorn-vote-v1", &network.0, &vote.encode()])
}

/// The root of a block: `SHA-256("alphorn-block-v1" || header)`.
pub(crate) fn block_root(header: &Header) -> Root {
    sha256(&[b"alphorn-block-v1", &header.encode()])
}

/// The message a proposer signs: `SHA-256("alphorn-block-sign-v1" || network || root)`.
pub fn block_message(network: NetworkDigest, root: &Root) -> [u8; 32] {
    sha256(&[b"alphorn-block-sign-v1", &network.0, root])
}

/// The digest of a block's body that its header contains: `SHA-256("alphorn-body-v1" || encoding)`.
pub fn body_digest(encoding: &[u8]) -> [u8; 32] {
    sha256(&[b"alphorn-body-v1", encoding])
}

/// The seed of an epoch's committees: `SHA-256("alphorn-seed-v1" || le64(epoch) || mix)`.
pub fn epoch_seed(epoch: Epoch, mix: &[u8; 32]) -> [u8; 32] {
    sha256(&[b"alphorn-seed-v1", &epoch.0.to_le_bytes(), mix])
}

/// The mix of an epoch: `SHA-256("alphorn-mix-v1" || root || le64(epoch))`, where `root` is the
/// last block before the preceding epoch. Its proposer can grind it.
pub fn epoch_mix(epoch: Epoch, root: &Root) -> [u8; 32] {
    sha256(&[b"alphorn-mix-v1", root, &epoch.0.to_le_bytes()])
}

/// The message whose unique signature is a lottery ticket, the same for all validators of a slot
/// and level: `SHA-256("alphorn-select-v1" || network || seed || level u8 || le64(slot))`.
pub fn selection_message(
    network: NetworkDigest,
    seed: &[u8; 32],
    level: u8,
    slot: Slot,
) -> [u8; 32] {
    sha256(&[
        b"alphorn-select-v1",
        &network.0,
        seed,
        &[level],
        &slot.0.to_le_bytes(),
    ])
}

/// The seed of the order in which members of a unit serve: `SHA-256("alphorn-rank-v1" || seed ||
/// le64(slot) || level u8 || le16(c) || le16(index))`.
pub fn rank_seed(seed: &[u8; 32], slot: Slot, unit: Unit) -> [u8; 32] {
    sha256(&[
        b"alphorn-rank-v1",
        seed,
        &slot.0.to_le_bytes(),
        &[unit.level],
        &unit.committee.to_le_bytes(),
        &unit.index.to_le_bytes(),
    ])
}

/// The message that the sender of an aggregate signs: `SHA-256("alphorn-aggregate-v1" || network ||
/// all fields before the envelope)`, with the support in canonical raw planes.
pub fn aggregate_message(
    network: NetworkDigest,
    aggregate: &Aggregate,
    format: &WireFormat,
) -> [u8; 32] {
    let mut head = Writer::new();
    aggregate.write_head(&mut head, format);
    let label = [&b"alphorn-aggregate-v1"[..], &network.0].concat();
    let length = format.evidence(aggregate.unit.level);
    content_digest(&label, &head, &aggregate.evidence, length)
}

/// Identifies the claim of a collection or block entry, whoever sent it:
/// `SHA-256("alphorn-entry-v1" || vote || le16(committee) || support || evidence)`, with the
/// support in canonical raw planes. A claim verified under this digest need not be verified again.
pub(crate) fn entry_digest(
    vote: &Vote,
    committee: u16,
    evidence: &Evidence,
    format: &WireFormat,
) -> [u8; 32] {
    let mut head = Writer::new();
    head.bytes(&vote.encode());
    head.u16(committee);
    let length = format.evidence(format.layout.levels());
    content_digest(b"alphorn-entry-v1", &head, evidence, length)
}

/// Hashes label, fields, support and evidence. The parts are hashed in place: evidence has up to 16
/// MiB.
fn content_digest(
    label: &[u8],
    head: &Writer,
    evidence: &Evidence,
    length: EvidenceLength,
) -> [u8; 32] {
    // Whatever coding the network uses: what is signed must not depend on how it was sent.
    let support = support_code::encode(&evidence.support, Coding::Raw, None);
    let evidence_len = u32::try_from(evidence.bytes.len()).expect("evidence has at most 16 MiB");
    let prefix = evidence_len.to_le_bytes();
    // As on the wire: a length that the scheme fixes is not written.
    let prefix = match length {
        EvidenceLength::Fixed(_) => &[][..],
        EvidenceLength::Max(_) => &prefix,
    };
    sha256(&[label, head.as_slice(), &support, prefix, &evidence.bytes])
}
