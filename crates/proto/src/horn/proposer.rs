//! The proposer: makes a block of the collections that credit the most weight not credited yet. If one
//! piece of evidence proves them all, they are chosen and proved in the slot before.

mod bundle;

use alphorn_scheme::{Bytes, Class, Outcome, Product, Role as Signer, SignItem, SignJob, Work};
use alphorn_types::{Bitfield, Slot, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use self::bundle::{Bundle, Draft};
use super::effects::Request;
use super::pool::{Kept, Pool};
use super::role::{Role, Shared};
use super::store::Claimed;
use super::task::Purpose;
use crate::slot::Phase;
use crate::wire::{BLOCK_BYTES_MAX, Block, Body, Entry, HEADER_BYTES, Header, Root, digest};

/// Bytes of a block before, between and after its entries, excluding signature and filler: version, kind,
/// header, number of entries, length of the filler.
pub(super) const BLOCK_FIXED_BYTES: usize = 2 + HEADER_BYTES + 4 + 4;

/// A collection in the proposer's queue: greatest gain first, then the newer slot, the lower
/// committee, the lower digest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    gain: u64,
    slot: Slot,
    committee: Reverse<u16>,
    digest: Reverse<[u8; 32]>,
    /// Index of the collection among the candidates.
    index: usize,
}

/// Inputs of a proposer.
pub(super) enum Input {
    /// A collection was accepted, or made too late for gossip: a block may include it.
    Collection(Arc<Claimed>),
    /// A slot begins: collections that no block can include any more are dropped.
    Slot { slot: Slot },
    /// Start making the evidence of a slot's block, if one piece proves all its collections.
    Bundle { slot: Slot },
    /// The phase begins.
    Begin { slot: Slot },
    /// A job ended.
    Finished { job: Job, outcome: Outcome<Product> },
}

/// A job of a proposer.
pub(super) enum Job {
    /// Sign the block.
    Sign(Box<Block>),
    /// Make one piece of evidence of a block's collections.
    Bundle(Draft),
}

/// The proposers among the local validators, and the collections that their blocks may include.
#[derive(Default)]
pub(super) struct Proposer {
    pool: Pool,
    /// Collections for the next block made here, under one piece of evidence.
    bundle: Option<Bundle>,
    made: VecDeque<Block>,
}

impl Proposer {
    /// Bytes of the collections available for blocks.
    pub(super) fn bytes(&self) -> u64 {
        self.pool.bytes()
    }

    fn keep(&mut self, shared: &mut Shared<'_>, claimed: Arc<Claimed>) {
        // Against an empty set, as what a chain has credited depends on the block that a proposal builds
        // on.
        let nobody = Bitfield::new(claimed.signers.len());
        let weight = shared.gain(&claimed.entry, &nobody);
        let kept = Kept { claimed, weight };
        let dropped = self.pool.insert(kept, shared.config.collections_bytes_max);
        shared.fx.counters.collections_dropped += dropped;
    }

    /// Proposes the block of a slot, if its proposer is local. Slot 0 has the genesis block.
    fn propose(&mut self, shared: &mut Shared<'_>, slot: Slot) {
        let proposer = shared.chain.proposer(slot);
        let state = shared.slot(slot).filter(|_| slot > Slot(0));
        let is_local = shared.local.hosts(proposer);
        let Some(state) = state.filter(|_| is_local) else {
            return;
        };
        // By all known votes: a proposer does not freeze its own view (`chain::Policy`).
        let parent = shared.chain.proposal_parent();
        let (entries, bundle) = match shared.format.bundle {
            None => {
                let chosen = self.choose(shared, slot, &parent);
                let entries = chosen.iter().map(|claimed| claimed.entry.clone());
                (entries.collect(), Bytes::from([]))
            }
            Some(_) => self.take_bundle(shared, slot, &parent),
        };
        let body = Body {
            entries,
            bundle,
            filler: vec![0; shared.config.filler_bytes].into(),
        };
        let references = |vote: &_, committee| shared.chain.reference(vote, committee);
        // A support may refer to a block that went away with its branch.
        let Ok(encoded) = body.encode(shared.format, &references) else {
            return;
        };
        let header = Header {
            slot,
            proposer,
            parent,
            body: digest::body_digest(&encoded),
        };
        let root = header.root();
        let item = SignItem {
            validator: proposer,
            role: Signer::Block,
            message: digest::block_message(shared.config.network(), &root),
            guard: None,
        };
        let deadlines = shared.deadlines(Phase::Propose, slot);
        let request = Request {
            session: state.sessions.duty,
            message: root,
            committee: None,
            subcommittee: None,
            class: Class::Duty,
            soft: deadlines.wanted,
            hard: deadlines.signed,
            work: Work::Sign(SignJob::new(slot, vec![item])),
        };
        let block = Block {
            header,
            signature: Bytes::from([]),
            body,
        };
        let job = Job::Sign(Box::new(block));
        shared.fx.spawn(request, Purpose::Proposer(job));
    }

    fn signed(&mut self, shared: &mut Shared<'_>, mut block: Block, outcome: Outcome<Product>) {
        let bytes = shared.info.sizes.duty_signature_bytes;
        let signatures = shared.signatures(outcome, 1, bytes);
        let Some(signature) = signatures.and_then(|mut signatures| signatures.pop()) else {
            return;
        };
        block.signature = signature;
        // Judged again, since the signature may have waited behind other jobs until the slot was over.
        if shared.now < shared.deadlines(Phase::Propose, block.header.slot).signed {
            self.made.push_back(block);
        } else {
            shared.fx.counters.stale += 1;
        }
    }

    /// Repeatedly picks the collection that adds the most weight not credited in the chain of `parent`,
    /// until none adds any or the block is full. A gain only shrinks as others are chosen, so an outdated
    /// one at the top of the queue is recomputed and put back.
    fn choose(&self, shared: &Shared<'_>, slot: Slot, parent: &Root) -> Vec<Arc<Claimed>> {
        let candidates = self.candidates(shared, slot, parent);
        let mut credited: BTreeMap<(Slot, u16), Bitfield> = BTreeMap::new();
        let mut offers = BinaryHeap::new();
        for (index, Kept { claimed, .. }) in candidates.iter().enumerate() {
            let entry = &claimed.entry;
            let (slot, committee) = (entry.vote.slot, entry.committee);
            let set = credited
                .entry((slot, committee))
                .or_insert_with(|| shared.chain.credited(parent, slot, committee));
            offers.push(Offer {
                gain: shared.gain(entry, set),
                slot,
                committee: Reverse(committee),
                digest: Reverse(*claimed.digest),
                index,
            });
        }
        let mut room = Room::new(shared);
        let mut chosen = Vec::new();
        while let Some(mut offer) = offers.pop() {
            let claimed = &candidates[offer.index].claimed;
            let Claimed { entry, signers, .. } = &**claimed;
            let Some(set) = credited.get_mut(&(entry.vote.slot, entry.committee)) else {
                continue;
            };
            let gain = shared.gain(entry, set);
            if gain == 0 {
                continue;
            }
            if gain < offer.gain {
                offer.gain = gain;
                offers.push(offer);
                continue;
            }
            if chosen.len() >= usize::from(shared.config.collections_per_block_max) {
                break;
            }
            if room.takes(shared, entry) {
                set.union_with(signers);
                chosen.push(claimed.clone());
            }
        }
        chosen
    }

    /// Collections that a block of `slot` on top of `parent` can include.
    fn candidates(&self, shared: &Shared<'_>, slot: Slot, parent: &Root) -> Vec<&Kept> {
        let pool = self.pool.iter();
        pool.filter(|kept| is_includable(shared, &kept.claimed.entry, slot, parent))
            .collect()
    }
}

/// Whether a block of `slot` on top of `parent` can include an entry.
fn is_includable(shared: &Shared<'_>, entry: &Entry, slot: Slot, parent: &Root) -> bool {
    let vote = &entry.vote;
    shared.committees_of(vote).is_some() && shared.chain.check_inclusion(vote, slot, parent).is_ok()
}

impl Role for Proposer {
    type Input = Input;
    type Made = Block;

    fn handle(&mut self, shared: &mut Shared<'_>, input: Input) {
        match input {
            Input::Collection(claimed) => self.keep(shared, claimed),
            Input::Slot { slot } => {
                let gain = |entry: &Entry, credited: &Bitfield| shared.gain(entry, credited);
                self.pool.prune(slot, &gain);
            }
            Input::Bundle { slot } => self.begin_bundle(shared, slot),
            Input::Begin { slot } => self.propose(shared, slot),
            Input::Finished { job, outcome } => match job {
                Job::Sign(block) => self.signed(shared, *block, outcome),
                Job::Bundle(draft) => self.bundled(shared, draft, outcome),
            },
        }
    }

    fn poll_output(&mut self, _: &mut Shared<'_>) -> Option<Block> {
        self.made.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// Remaining size of a block.
struct Room {
    wire_bytes: usize,
    raw_bytes: usize,
}

impl Room {
    fn new(shared: &Shared<'_>) -> Self {
        let (config, format) = (shared.config, shared.format);
        let around = BLOCK_FIXED_BYTES + format.duty_signature_bytes + config.filler_bytes;
        let around = around + format.bundle_bytes_max();
        Self {
            wire_bytes: config.block_bytes_max.saturating_sub(around),
            // The decoder's bound on entries in raw planes (`Body::read`): a longer block would be
            // malformed.
            raw_bytes: BLOCK_BYTES_MAX,
        }
    }

    /// Takes an entry if it fits. One that does not fit is skipped, since a smaller one may still fit.
    fn takes(&mut self, shared: &Shared<'_>, entry: &Entry) -> bool {
        let references = |vote: &_, committee| shared.chain.reference(vote, committee);
        let bare = shared.format.bundle.map(|_| entry.bare());
        let entry = bare.as_ref().unwrap_or(entry);
        let Ok(wire) = entry.encoded_bytes(shared.format, &references) else {
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
