//! The proposer: a block of the collections that credit most signers who are not credited yet.

use alphorn_scheme::{self as scheme, Bytes, Outcome, Role, SignItem, SignJob};
use alphorn_types::{Bitfield, Slot};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::effects::Request;
use super::machine::Horn;
use super::pool::Kept;
use super::task::Purpose;
use crate::contract::Class;
use crate::job::{Product, Work};
use crate::slot::Phase;
use crate::wire::{
    BLOCK_BYTES_MAX, Block, Body, Entry, HEADER_BYTES, Header, Kind, Root, Topic, digest,
};

/// Bytes of a block before, between and after its entries, but for signature and filler: version,
/// kind, header, number of entries, length of the filler.
pub(super) const BLOCK_FIXED_BYTES: usize = 2 + HEADER_BYTES + 4 + 4;

/// A collection in the proposer's queue: greatest gain first, then the newer slot, the lower
/// committee, the lower digest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    gain: usize,
    slot: Slot,
    committee: Reverse<u16>,
    digest: Reverse<[u8; 32]>,
    /// Index of the collection among the candidates.
    index: usize,
}

impl Horn {
    /// An accepted collection may go into a block.
    pub(super) fn keep_for_blocks(&mut self, entry: Entry) {
        let digest = entry.digest(&self.format);
        let kept = Kept { entry, digest };
        let dropped = self.pool.insert(kept, self.config.collections_bytes_max);
        self.fx.counters.collections_dropped += dropped;
    }

    /// Proposes the block of a slot, if its proposer is local. Slot 0 has the genesis block.
    pub(super) fn propose(&mut self, slot: Slot) {
        let proposer = self.chain.proposer(slot);
        if slot == Slot(0) || !self.local.validators.get(proposer.0 as usize) {
            return;
        }
        let parent = self.chain.head();
        let entries = self.choose_entries(slot, &parent);
        let body = Body {
            entries,
            filler: vec![0; self.config.filler_bytes].into(),
        };
        let references = |vote: &_, committee| self.reference(vote, committee);
        let Ok(encoded) = body.encode(&self.format, &references) else {
            return;
        };
        let header = Header {
            slot,
            proposer,
            parent,
            body: digest::body_digest(&encoded),
        };
        let root = header.root();
        let Some(state) = self.slots.get(&slot) else {
            return;
        };
        let item = SignItem {
            validator: proposer,
            role: Role::Block,
            message: digest::block_message(self.config.network(), &root),
            guard: None,
        };
        let request = Request {
            session: state.sessions.duty,
            message: root,
            committee: None,
            subcommittee: None,
            class: Class::Duty,
            soft: self.clock.phase_start(slot, Phase::Vote),
            hard: self.clock.slot_start(slot.next()),
            work: Work::Scheme(scheme::Work::Sign(SignJob::new(slot, vec![item]))),
        };
        let block = Block {
            header,
            signature: Bytes::from([]),
            body,
        };
        self.fx.spawn(
            request,
            Purpose::SignBlock {
                block: Box::new(block),
            },
        );
    }

    pub(super) fn block_signed(&mut self, mut block: Block, outcome: Outcome<Product>) {
        let bytes = self.info.sizes.duty_signature_bytes;
        let Some(mut signatures) = self.signatures(outcome, 1, bytes) else {
            return;
        };
        if let Some(signature) = signatures.pop() {
            block.signature = signature;
        }
        let references = |vote: &_, committee| self.reference(vote, committee);
        let encoded = block.encode(&self.format, &references);
        let in_time = self.now < self.clock.slot_start(block.header.slot.next());
        let (Ok(data), true) = (encoded, in_time) else {
            self.fx.counters.stale += 1;
            return;
        };
        let data: Bytes = data.into();
        let slot = block.header.slot;
        let late = self.now >= self.clock.phase_start(slot, Phase::Vote);
        self.fx.publish(slot, late, Topic::Block, data.clone());
        if self.local.trust_own {
            self.fx.seen(Kind::Block);
            self.take_block(None, block, data);
        } else {
            self.receive(None, Topic::Block, data);
        }
    }

    /// Repeatedly the collection that adds most signers who are not credited in the chain of
    /// `parent`, until none adds any or the block is full. A gain only shrinks as others are
    /// chosen, so an outdated one at the top of the queue is recomputed and put back.
    fn choose_entries(&self, slot: Slot, parent: &Root) -> Vec<Entry> {
        let candidates = self.candidates(slot, parent);
        let mut credited: BTreeMap<(Slot, u16), Bitfield> = BTreeMap::new();
        let mut offers = BinaryHeap::new();
        for (index, Kept { entry, digest }) in candidates.iter().enumerate() {
            let (slot, committee) = (entry.vote.slot, entry.committee);
            let set = credited
                .entry((slot, committee))
                .or_insert_with(|| self.chain.credited(parent, slot, committee));
            offers.push(Offer {
                gain: entry.evidence.support.signers().count_and_not(set),
                slot,
                committee: Reverse(committee),
                digest: Reverse(*digest),
                index,
            });
        }
        let mut room = Room::new(self);
        let mut entries = Vec::new();
        while let Some(mut offer) = offers.pop() {
            let entry = &candidates[offer.index].entry;
            let Some(set) = credited.get_mut(&(entry.vote.slot, entry.committee)) else {
                continue;
            };
            let signers = entry.evidence.support.signers();
            let gain = signers.count_and_not(set);
            if gain == 0 {
                continue;
            }
            if gain < offer.gain {
                offer.gain = gain;
                offers.push(offer);
                continue;
            }
            if entries.len() >= usize::from(self.config.collections_per_block_max) {
                break;
            }
            if room.takes(self, entry) {
                set.union_with(&signers);
                entries.push(entry.clone());
            }
        }
        entries
    }

    /// Collections that a block of `slot` on top of `parent` can include.
    fn candidates(&self, slot: Slot, parent: &Root) -> Vec<&Kept> {
        let includable = |kept: &&Kept| {
            let vote = &kept.entry.vote;
            self.committees_of(vote).is_some()
                && self.chain.check_inclusion(vote, slot, parent).is_ok()
        };
        self.pool.iter().filter(includable).collect()
    }
}

/// What is left of a block's size.
struct Room {
    wire_bytes: usize,
    raw_bytes: usize,
}

impl Room {
    fn new(horn: &Horn) -> Self {
        let config = &horn.config;
        let around = BLOCK_FIXED_BYTES + horn.format.duty_signature_bytes + config.filler_bytes;
        Self {
            wire_bytes: config.block_bytes_max.saturating_sub(around),
            raw_bytes: BLOCK_BYTES_MAX,
        }
    }

    /// Takes an entry if it fits; one that does not is skipped, a smaller one may still fit.
    fn takes(&mut self, horn: &Horn, entry: &Entry) -> bool {
        let references = |vote: &_, committee| horn.reference(vote, committee);
        let Ok(wire) = entry.encoded_bytes(&horn.format, &references) else {
            return false;
        };
        let raw = entry.raw_bytes();
        let fits = wire <= self.wire_bytes && raw <= self.raw_bytes;
        if fits {
            self.wire_bytes -= wire;
            self.raw_bytes -= raw;
        }
        fits
    }
}
