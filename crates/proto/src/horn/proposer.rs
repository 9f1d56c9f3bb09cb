//! The proposer: a block of the collections that credit most signers who are not credited yet.

use alphorn_scheme::{self as scheme, Bytes, Outcome, Role, SignItem, SignJob};
use alphorn_types::{Bitfield, Slot};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::effects::Request;
use super::machine::Horn;
use super::task::Purpose;
use crate::chain::INCLUSION_SLOTS;
use crate::contract::Class;
use crate::job::{Product, Work};
use crate::slot::Phase;
use crate::wire::{
    BLOCK_BYTES_MAX, Block, Body, Entry, HEADER_BYTES, Header, Kind, Root, Topic, digest,
};

/// Collections kept of a committee once its slot is no longer the current or the previous one.
const KEPT_OLD: usize = 2;
/// Slots of which all accepted collections are kept.
const KEPT_ALL_SLOTS: u64 = 2;

/// Bytes of a block before, between and after its entries, but for signature and filler: version,
/// kind, header, number of entries, length of the filler.
const BLOCK_FIXED_BYTES: usize = 2 + HEADER_BYTES + 4 + 4;

/// Accepted collections that a block may include.
#[derive(Default)]
pub(super) struct Pool {
    /// At most those that the gate takes of a slot for two slots, two of a committee after that.
    by_group: BTreeMap<(Slot, u16), Vec<Entry>>,
    bytes: u64,
}

impl Pool {
    /// Keeps a collection; returns how many others had to go for it.
    fn insert(&mut self, entry: Entry, bytes_max: u64) -> u64 {
        self.bytes += entry.raw_bytes() as u64;
        self.by_group
            .entry((entry.vote.slot, entry.committee))
            .or_default()
            .push(entry);
        let mut dropped = 0;
        while self.bytes > bytes_max && self.drop_least() {
            dropped += 1;
        }
        dropped
    }

    /// Drops the collection with fewest signers, the older one of equal ones.
    fn drop_least(&mut self) -> bool {
        let all = self.by_group.iter().flat_map(|(group, entries)| {
            (0..)
                .zip(entries)
                .map(move |(i, entry)| (signers(entry), *group, i))
        });
        let Some((_, group, i)) = all.min() else {
            return false;
        };
        if let Some(entries) = self.by_group.get_mut(&group) {
            self.bytes -= entries.remove(i).raw_bytes() as u64;
        }
        self.by_group.retain(|_, entries| !entries.is_empty());
        true
    }

    /// Of slots before the previous one, the best two collections of a committee stay; of slots
    /// that no block can include any more, none.
    pub(super) fn prune(&mut self, now: Slot) {
        let oldest = now.saturating_sub(INCLUSION_SLOTS);
        self.by_group = self.by_group.split_off(&(oldest, 0));
        for (&(slot, _), entries) in &mut self.by_group {
            if slot.0 + KEPT_ALL_SLOTS <= now.0 && entries.len() > KEPT_OLD {
                keep_best(entries);
            }
        }
        self.bytes = self
            .by_group
            .values()
            .flatten()
            .map(|e| e.raw_bytes() as u64)
            .sum();
    }
}

/// Number of signers of a collection; each counts once, whatever its multiplicity.
fn signers(entry: &Entry) -> usize {
    entry.evidence.support.signer_count()
}

/// Keeps the collection with most signers, and the one that adds most to it.
fn keep_best(entries: &mut Vec<Entry>) {
    let mut covered: Option<Bitfield> = None;
    let mut best = Vec::with_capacity(KEPT_OLD);
    for _ in 0..KEPT_OLD {
        let gain = |entry: &Entry| match &covered {
            None => signers(entry),
            Some(covered) => entry.evidence.support.signers().count_and_not(covered),
        };
        let most = (0..entries.len()).max_by_key(|&i| (gain(&entries[i]), Reverse(i)));
        let Some(most) = most else {
            break;
        };
        let entry = entries.remove(most);
        match &mut covered {
            None => covered = Some(entry.evidence.support.signers()),
            Some(covered) => covered.union_with(&entry.evidence.support.signers()),
        }
        best.push(entry);
    }
    *entries = best;
}

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
        let dropped = self.pool.insert(entry, self.config.collections_bytes_max);
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
        self.fx.publish(Topic::Block, data.clone());
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
        for (index, entry) in candidates.iter().enumerate() {
            let (slot, committee) = (entry.vote.slot, entry.committee);
            let set = credited
                .entry((slot, committee))
                .or_insert_with(|| self.chain.credited(parent, slot, committee));
            let gain = entry.evidence.support.signers().count_and_not(set);
            let digest = Reverse(entry.digest(&self.format));
            offers.push(Offer {
                gain,
                slot,
                committee: Reverse(committee),
                digest,
                index,
            });
        }
        let mut room = Room::new(self);
        let mut entries = Vec::new();
        while let Some(mut offer) = offers.pop() {
            let entry = candidates[offer.index];
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
    fn candidates(&self, slot: Slot, parent: &Root) -> Vec<&Entry> {
        let ready = |slot: Slot| {
            self.epochs
                .ready(slot.epoch(self.config.epoch_slots))
                .is_some()
        };
        let groups = self
            .pool
            .by_group
            .iter()
            .filter(|((slot, _), _)| ready(*slot));
        let includable = |entry: &&Entry| {
            self.chain
                .check_inclusion(&entry.vote, slot, parent)
                .is_ok()
        };
        groups
            .flat_map(|(_, entries)| entries)
            .filter(includable)
            .collect()
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
