//! The state of a chain at its last final block, from which another chain can start: what a node
//! saves for its next start, and what a node that joins late receives.
//!
//! It holds the final block and the window of its ancestors that votes can still name
//! ([`TRUNK_MAX`] blocks): headers, included signers, and what each block has decided. Later blocks
//! depend on nothing else, so a chain that starts here and processes them reaches the same verdicts
//! as one that starts at genesis. If a chain dropped the blocks between its final block and a later
//! one ([`fold`](super::fold)), the last block of the trunk is that later one, its *base*.
//!
//! All chains that finalise a block have the same anchor there, byte for byte, unless one of them
//! ran out of memory and dropped the signers of its window. Operators can therefore compare
//! [`Anchor::digest`]. Nothing in the bytes proves that they are correct: a node that takes an
//! anchor from elsewhere trusts the party that vouches for its digest, as with every start that is
//! not from genesis (weak subjectivity).

use super::{Chain, INCLUSION_SLOTS, Included, Node, Room, included_bytes};
use crate::wire::{BLOCK_ENTRIES_MAX, Checkpoint, HEADER_BYTES, Header, Root, VOTE_BYTES, Vote};
use alphorn_types::{Bitfield, DecodeError, Layout, Reader, Slot, Writer};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Magic bytes at the start of an encoded anchor.
pub(crate) const ANCHOR_MAGIC: &[u8; 16] = b"alphorn-anchor1\n";

/// Maximum number of blocks: one per slot of the window, the one before it, and the base.
pub(crate) const TRUNK_MAX: usize = INCLUSION_SLOTS as usize + 2;

/// Maximum size of an encoded anchor in bytes. An anchor for a million validators whose votes are
/// included in all blocks of the window takes 5 MB.
pub const ANCHOR_BYTES_MAX: usize = 64 << 20;

/// Encoding of a signer set: the whole committee, a list of positions, or a bitmap. Only the
/// shortest form is legal; between equally short forms, the first.
const ALL: u8 = 0;
const LIST: u8 = 1;
const BITS: u8 = 2;

/// Errors for bytes that are not an anchor of this network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnchorError {
    /// They do not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The magic bytes are wrong.
    #[error("it does not begin as a checkpoint of this version")]
    Magic,
    /// The checkpoint belongs to another network.
    #[error("a checkpoint of another network: {} instead of {}", hex(.found), hex(.own))]
    Network {
        /// The first bytes of its network's identity.
        found: [u8; 4],
        /// The first bytes of this network's identity.
        own: [u8; 4],
    },
    /// The blocks are not a chain, or cannot have decided what they claim.
    #[error("block {index} of the checkpoint: {what}")]
    Inconsistent {
        /// The block, counted from 0.
        index: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A state machine that has already started cannot start elsewhere.
    #[error("the machine has begun already")]
    Begun,
}

fn hex(bytes: &[u8; 4]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A chain at its last final block.
#[derive(Clone, Debug)]
pub struct Anchor {
    network_id: [u8; 32],
    finalised: Checkpoint,
    /// Parents before their children, the base last.
    pub(super) trunk: Vec<Node>,
}

impl Anchor {
    /// The highest final checkpoint.
    pub fn finalised(&self) -> Checkpoint {
        self.finalised
    }

    /// Slot of the block from which all later ones descend: only those are still missing.
    pub fn base_slot(&self) -> Slot {
        // A trunk is never empty.
        self.trunk.last().map_or(Slot(0), |node| node.header.slot)
    }

    /// Encodes the anchor; none if it would exceed [`ANCHOR_BYTES_MAX`].
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut w = Writer::with_capacity(64 << 10);
        w.bytes(ANCHOR_MAGIC);
        w.bytes(&self.network_id);
        put_checkpoint(&mut w, &self.finalised);
        // TRUNK_MAX is below 256.
        w.u8(self.trunk.len() as u8);
        for node in &self.trunk {
            w.bytes(&node.header.encode());
            put_checkpoint(&mut w, &node.justified);
            put_checkpoint(&mut w, &node.finalised);
            node.epoch_roots.iter().for_each(|root| w.bytes(root));
            w.u8(node.folded.into());
            w.u16(u16::try_from(node.included.len()).ok()?);
            for (vote, committees) in &*node.included {
                w.bytes(&vote.encode());
                w.u16(u16::try_from(committees.len()).ok()?);
                for (committee, signers) in committees {
                    w.u16(*committee);
                    put_signers(&mut w, signers);
                }
            }
            // After each block, so that the buffer exceeds the bound by one block at most.
            if w.as_slice().len() > ANCHOR_BYTES_MAX {
                return None;
            }
        }
        Some(w.into_vec())
    }

    /// Returns the digest of an encoded anchor: the SHA-256 of its bytes, which start with the
    /// magic string.
    pub fn digest(encoded: &[u8]) -> [u8; 32] {
        Sha256::digest(encoded).into()
    }

    /// The inverse of [`encode`](Self::encode), for a network with this identity and layout.
    ///
    /// # Errors
    ///
    /// [`AnchorError`]. Accepted bytes are the only encoding of the anchor, and a chain can start
    /// there.
    pub fn decode(
        bytes: &[u8],
        network_id: &[u8; 32],
        layout: &Layout,
    ) -> Result<Self, AnchorError> {
        if bytes.len() > ANCHOR_BYTES_MAX {
            return Err(AnchorError::Decode(DecodeError::TooLong {
                what: "checkpoint",
                value: bytes.len() as u64,
                max: ANCHOR_BYTES_MAX as u64,
            }));
        }
        let mut r = Reader::new(bytes);
        if r.array().ok().as_ref() != Some(ANCHOR_MAGIC) {
            return Err(AnchorError::Magic);
        }
        let found: [u8; 32] = r.array()?;
        if found != *network_id {
            let first = |id: &[u8; 32]| [id[0], id[1], id[2], id[3]];
            let (found, own) = (first(&found), first(network_id));
            return Err(AnchorError::Network { found, own });
        }
        let finalised = take_checkpoint(&mut r)?;
        let count = usize::from(r.u8()?);
        if count > TRUNK_MAX {
            return Err(AnchorError::Decode(DecodeError::TooLong {
                what: "blocks of the checkpoint",
                value: count as u64,
                max: TRUNK_MAX as u64,
            }));
        }
        let mut trunk = Vec::with_capacity(count);
        for _ in 0..count {
            trunk.push(take_node(&mut r, layout)?);
        }
        r.finish()?;
        let anchor = Anchor {
            network_id: found,
            finalised,
            trunk,
        };
        anchor.check()?;
        Ok(anchor)
    }

    /// Checks that the blocks form a chain that can have decided what they claim. The parent of a
    /// base other than the final block is missing.
    fn check(&self) -> Result<(), AnchorError> {
        let wrong = |index, what| Err(AnchorError::Inconsistent { index, what });
        let Some(last) = self.trunk.len().checked_sub(1) else {
            return wrong(0, "there is none");
        };
        let is_final = |node: &Node| node.root == self.finalised.root;
        for (index, node) in self.trunk.iter().enumerate() {
            let slot = node.header.slot;
            let before = index.checked_sub(1).map(|i| &self.trunk[i]);
            let follows = before.is_none_or(|before| {
                let is_base = index == last && !is_final(node) && slot > self.finalised.slot;
                slot > before.header.slot && (node.header.parent == before.root || is_base)
            });
            if !follows {
                return wrong(index, "it does not stand on the one before");
            }
            if node.finalised.slot > node.justified.slot || node.justified.slot > slot {
                return wrong(index, "its checkpoints are not in order");
            }
            let age = |vote: &Vote| slot.0.checked_sub(vote.slot.0);
            let mut ages = node.included.iter().map(|(vote, _)| age(vote));
            if !ages.all(|age| age.is_some_and(|age| (1..=INCLUSION_SLOTS).contains(&age))) {
                return wrong(index, "it includes votes of slots that it cannot include");
            }
            if node.folded && !node.included.is_empty() {
                return wrong(index, "it includes votes that it has forgotten");
            }
        }
        let base = &self.trunk[last];
        let stands = is_final(base) && self.finalised.slot >= base.header.slot
            || base.header.slot > self.finalised.slot;
        match stands {
            true => Ok(()),
            false => wrong(last, "the final block is none of them"),
        }
    }
}

fn put_checkpoint(w: &mut Writer, checkpoint: &Checkpoint) {
    w.u64(checkpoint.slot.0);
    w.bytes(&checkpoint.root);
}

fn take_checkpoint(r: &mut Reader<'_>) -> Result<Checkpoint, DecodeError> {
    Ok(Checkpoint {
        slot: Slot(r.u64()?),
        root: r.array()?,
    })
}

/// Returns the shortest form of a set.
fn form(signers: &Bitfield) -> u8 {
    let ones = signers.count_ones();
    match ones {
        _ if ones == signers.len() => ALL,
        // The length of a list has two bytes.
        0..=0xffff if 2 + 4 * ones <= signers.len().div_ceil(8) => LIST,
        _ => BITS,
    }
}

fn put_signers(w: &mut Writer, signers: &Bitfield) {
    let form = form(signers);
    w.u8(form);
    match form {
        ALL => {}
        LIST => {
            w.u16((signers.count_ones() & 0xffff) as u16);
            signers.iter_ones().for_each(|seat| w.u32(seat as u32));
        }
        _ => w.bytes(&signers.to_bytes()),
    }
}

fn take_signers(r: &mut Reader<'_>, len: usize) -> Result<Bitfield, DecodeError> {
    let what = "signers";
    let tag = r.u8()?;
    let signers = match tag {
        ALL => Bitfield::ones(len),
        LIST => {
            let count = usize::from(r.u16()?);
            // Checks that the bytes are present before allocating.
            let mut seats = Reader::new(r.bytes(4 * count)?);
            let mut signers = Bitfield::new(len);
            let mut next = 0;
            for _ in 0..count {
                let max = (len as u32).saturating_sub(1);
                let seat = seats.u32_at_most("a position", max)?;
                if seat < next {
                    return Err(DecodeError::NotCanonical { what });
                }
                next = seat + 1;
                signers.set(seat as usize);
            }
            signers
        }
        BITS => {
            let bytes = r.bytes(len.div_ceil(8))?;
            let signers = Bitfield::from_bytes(bytes, len);
            signers.map_err(|_| DecodeError::NotCanonical { what })?
        }
        value => {
            let value = u64::from(value);
            return Err(DecodeError::UnknownTag { what, value });
        }
    };
    match signers.any() && form(&signers) == tag {
        true => Ok(signers),
        false => Err(DecodeError::NotCanonical { what }),
    }
}

fn take_node(r: &mut Reader<'_>, layout: &Layout) -> Result<Node, DecodeError> {
    let header = take_header(r, layout)?;
    let (justified, finalised) = (take_checkpoint(r)?, take_checkpoint(r)?);
    let epoch_roots = [r.array()?, r.array()?];
    let folded = r.u8()?;
    if folded > 1 {
        let (what, value) = ("a flag of a block", u64::from(folded));
        return Err(DecodeError::UnknownTag { what, value });
    }
    let included = take_included(r, layout)?;
    Ok(Node {
        root: header.root(),
        header,
        parent: None,
        bytes: included_bytes(&included),
        included,
        folded: folded == 1,
        further: false,
        built_on: None,
        justified,
        finalised,
        epoch_roots,
    })
}

fn take_header(r: &mut Reader<'_>, layout: &Layout) -> Result<Header, DecodeError> {
    let bytes: [u8; HEADER_BYTES] = r.array()?;
    let header = Header::decode(&bytes);
    let (value, max) = (header.proposer.0, layout.validators() - 1);
    match value <= max {
        true => Ok(header),
        false => Err(DecodeError::OutOfRange {
            what: "a proposer",
            value: value.into(),
            max: max.into(),
        }),
    }
}

fn take_included(r: &mut Reader<'_>, layout: &Layout) -> Result<Included, DecodeError> {
    let too_many = |value: usize| DecodeError::TooLong {
        what: "entries of a block of the checkpoint",
        value: value as u64,
        max: BLOCK_ENTRIES_MAX as u64,
    };
    let mut included = Vec::new();
    let votes = usize::from(r.u16()?);
    let mut entries = 0;
    for _ in 0..votes {
        let bytes: [u8; VOTE_BYTES] = r.array()?;
        let vote = Vote::decode(&bytes);
        let last = included.last().map(|(last, _)| *last);
        let count = usize::from(r.u16()?);
        if count == 0 || last.is_some_and(|last| last >= vote) {
            let what = "votes of a block";
            return Err(DecodeError::NotCanonical { what });
        }
        entries += count;
        // Over all votes of the block and before any of their sets is read, as a set may take a
        // byte here and much memory.
        if entries > BLOCK_ENTRIES_MAX {
            return Err(too_many(entries));
        }
        let mut committees: BTreeMap<u16, Arc<Bitfield>> = BTreeMap::new();
        for _ in 0..count {
            let (committee, max) = (r.u16()?, layout.committees() - 1);
            if committee > max {
                return Err(DecodeError::OutOfRange {
                    what: "a committee",
                    value: committee.into(),
                    max: max.into(),
                });
            }
            let last = committees.last_key_value().map(|(last, _)| *last);
            if last.is_some_and(|last| last >= committee) {
                let what = "committees of a vote";
                return Err(DecodeError::NotCanonical { what });
            }
            let signers = take_signers(r, layout.committee_len(committee) as usize)?;
            committees.insert(committee, Arc::new(signers));
        }
        included.push((vote, committees));
    }
    Ok(included.into())
}

impl Chain {
    /// Returns the state from which another chain of the network can start. Signer sets are shared.
    pub fn anchor(&self, network_id: [u8; 32]) -> Anchor {
        // Only the window of the final block and the base are at or before this index.
        let trunk = self.nodes[..=self.base_index()].iter();
        let trunk = trunk.map(|node| Node {
            parent: None,
            further: false,
            built_on: None,
            ..node.clone()
        });
        Anchor {
            network_id,
            finalised: self.finalised,
            trunk: trunk.collect(),
        }
    }

    /// Restarts an empty chain at an anchor of its network.
    #[must_use]
    pub(crate) fn beginning_at(self, anchor: Anchor) -> Self {
        let mut nodes = anchor.trunk;
        let mut room = Room::default();
        let mut before: Option<Root> = None;
        for (index, node) in nodes.iter_mut().enumerate() {
            // The parent of a base other than the final block is missing.
            let stands = before.is_some_and(|before| before == node.header.parent);
            node.parent = index.checked_sub(1).filter(|_| stands);
            before = Some(node.root);
            for set in node
                .included
                .iter_mut()
                .flat_map(|(_, sets)| sets.values_mut())
            {
                *set = self.supports.intern(Cow::Borrowed(set));
            }
            room.add(node.bytes, false);
        }
        let by_root: BTreeMap<Root, usize> = (0..).zip(&nodes).map(|(i, n)| (n.root, i)).collect();
        let justified = nodes.iter().map(|node| node.justified);
        let justified = justified.filter(|checkpoint| by_root.contains_key(&checkpoint.root));
        Self {
            // The slots of a trunk ascend (`Anchor::check`), so none has two blocks.
            in_slot: nodes.iter().map(|node| (node.header.slot, 1)).collect(),
            base: before.unwrap_or(self.base),
            justified: justified.fold(anchor.finalised, Ord::max),
            finalised: anchor.finalised,
            nodes,
            by_root,
            room,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signers_come_back_whatever_their_number() {
        let len = 1 << 22;
        for ones in [1, 0xffff, 0x1_0000, 0x1_ffff, len] {
            let mut signers = Bitfield::new(len);
            (0..ones).for_each(|seat| signers.set(seat));
            let mut w = Writer::new();
            put_signers(&mut w, &signers);
            let bytes = w.into_vec();
            let mut r = Reader::new(&bytes);
            assert!(
                take_signers(&mut r, len).is_ok_and(|found| found == signers),
                "{ones}"
            );
        }
    }
}
