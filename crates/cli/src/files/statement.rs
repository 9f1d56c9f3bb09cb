//! What is signed, proved, merged and claimed, and why a part of it is rejected.

use super::hex::Hex;
use alphorn_types::Support;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What is signed: a message, and a slot if keys sign once per slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signed {
    pub(super) slot: Option<u64>,
    pub(super) message: Hex<true>,
}

impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the message {}", self.message)?;
        self.slot
            .map_or(Ok(()), |slot| write!(f, " in slot {slot}"))
    }
}

/// An entry that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) signed: Signed,
    /// The digest of the file of public keys.
    pub(super) digest: [u8; 32],
    pub(super) support: Support,
}

/// Signatures over one message, and their keys in the same order as positions in a registry.
pub(super) struct ToProve<'a, K> {
    /// The keys.
    pub(super) keys: &'a [K],
    /// The message.
    pub(super) message: &'a [u8],
    /// The signatures.
    pub(super) signatures: &'a [&'a [u8]],
    /// The slot, if keys sign once per slot.
    pub(super) slot: Option<u64>,
    /// All keys of the file that names the signers, or the signers' own keys if they are listed.
    pub(super) registry: &'a [K],
    /// Which of them signed.
    pub(super) support: &'a Support,
}

/// Proofs over one message, with signers as positions in a registry.
pub(super) struct ToMerge<'a, K> {
    /// All keys of the file that names the signers.
    pub(super) registry: &'a [K],
    /// The slot, if keys sign once per slot.
    pub(super) slot: Option<u64>,
    /// The message.
    pub(super) message: &'a [u8],
    /// The signers and evidence of each piece.
    pub(super) pieces: &'a [(Support, Vec<u8>)],
    /// The files of the pieces.
    pub(super) paths: &'a [PathBuf],
}

/// Why an entry of a list is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The bytes do not decode.
    Malformed { index: usize, reason: String },
    /// The proof of possession is invalid.
    Possession { index: usize },
}

/// A statement to be verified. It has a slot if keys sign once per slot.
pub(super) enum Claim<'a, K> {
    /// One key signed.
    Single {
        key: K,
        slot: Option<u64>,
        message: &'a [u8],
        signature: &'a [u8],
    },
    /// Members of a group signed, each as often as the support says.
    Group {
        group: usize,
        support: &'a Support,
        slot: Option<u64>,
        message: &'a [u8],
        evidence: &'a [u8],
    },
}

/// What a key signs, and the path of its file.
pub(super) struct ToSign<'a> {
    /// The file of the key.
    pub(super) path: &'a Path,
    /// The slot, if keys sign once per slot.
    pub(super) slot: Option<u64>,
    /// The message.
    pub(super) message: &'a [u8],
}

/// Explains in words why an entry of a list is rejected.
pub(super) fn reason_of(refusal: &Refusal, what: &str) -> String {
    match refusal {
        Refusal::Malformed { index, reason } => format!("{what} {index}: {reason}"),
        Refusal::Possession { index } => {
            format!("the proof of possession of {what} {index} does not hold")
        }
    }
}

/// Describes slots in words.
pub(super) fn in_slots(slots: &Range<u64>) -> String {
    format!("slots {} to {}", slots.start, slots.end - 1)
}
