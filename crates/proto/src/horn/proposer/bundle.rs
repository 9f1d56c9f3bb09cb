//! One piece of evidence for the collections of a block.
//!
//! Making it takes seconds, so the next proposer starts in the slot before, with the collections
//! available then ([`BUNDLE_BEGINS`](crate::horn::deadlines::BUNDLE_BEGINS)): the block of a slot has the
//! votes of the slot before the last one. Collections that arrive or grow later are chosen, and proved,
//! for the block after it. The block never waits: it has what is ready, or nothing.

use alphorn_scheme::{BundleJob, Bytes, Class, Outcome, Product, Work};
use alphorn_types::{Bitfield, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Job, Proposer, is_includable};
use crate::horn::effects::Request;
use crate::horn::role::Shared;
use crate::horn::store::Claimed;
use crate::horn::task::Purpose;
use crate::wire::{Entry, Root};

/// Collections for one piece of evidence, in their order.
pub(in crate::horn) struct Draft {
    /// The slot of the block.
    slot: Slot,
    collections: Vec<Arc<Claimed>>,
}

/// Entries of a block with the evidence that proves them all.
pub(super) struct Bundle {
    /// The slot of the block for which it was made.
    slot: Slot,
    entries: Vec<Entry>,
    evidence: Bytes,
}

impl Proposer {
    /// Starts making the evidence of a slot's block, if its proposer is local.
    pub(super) fn begin_bundle(&mut self, shared: &mut Shared<'_>, slot: Slot) {
        let proposer = shared.chain.proposer(slot);
        if shared.format.bundle.is_none() || !shared.local.hosts(proposer) {
            return;
        }
        let parent = shared.chain.proposal_parent();
        let collections = self.choose(shared, slot, &parent);
        if collections.is_empty() {
            return;
        }
        let with_evidence = |claimed: &Arc<Claimed>| {
            let entry = &claimed.entry;
            (shared.bundle_entry(entry), entry.evidence.bytes.clone())
        };
        let job = BundleJob {
            collections: collections.iter().map(with_evidence).collect(),
        };
        let until = shared.clock.slot_start(slot);
        let request = Request {
            // A session of its own: the job begins in the slot before, and no slot's end may cancel it.
            session: shared.fx.session(slot),
            message: parent,
            committee: None,
            subcommittee: None,
            // Like evidence of the slot: cut to the collections that fit the time.
            class: Class::Current,
            soft: until,
            hard: until,
            work: Work::Bundle(job),
        };
        let job = Job::Bundle(Draft { slot, collections });
        shared.fx.spawn(request, Purpose::Proposer(job));
    }

    /// Handles the result of making evidence. A collection that cannot be bundled is useless to any
    /// block: others are chosen without it, while there is time.
    pub(super) fn bundled(
        &mut self,
        shared: &mut Shared<'_>,
        draft: Draft,
        outcome: Outcome<Product>,
    ) {
        let Draft { slot, collections } = draft;
        let fits = |bytes: &Bytes| {
            let length = shared.format.bundle;
            length.is_some_and(|length| length.fits(bytes.len()))
        };
        match outcome {
            Outcome::Done(Product::Bundle { count, bytes })
                if (1..=collections.len()).contains(&count) && fits(&bytes) =>
            {
                let entries = collections[..count].iter();
                let made = Bundle {
                    slot,
                    entries: entries.map(|claimed| claimed.entry.bare()).collect(),
                    evidence: bytes,
                };
                // A late one is for the next block made here, unless that has its own.
                if self.bundle.as_ref().is_none_or(|ready| ready.slot <= slot) {
                    self.bundle = Some(made);
                }
            }
            Outcome::Invalid(bad) if bad.iter().any(|i| *i < collections.len()) => {
                shared.fx.counters.jobs_failed += 1;
                for claimed in bad.iter().filter_map(|i| collections.get(*i)) {
                    // None of them is chosen again, so the attempts come to an end.
                    self.pool.remove(claimed);
                    shared.fx.counters.collections_dropped += 1;
                }
                if shared.now < shared.clock.slot_start(slot) {
                    self.begin_bundle(shared, slot);
                }
            }
            _ => shared.fx.counters.jobs_failed += 1,
        }
    }

    /// The entries of a slot's block on top of `parent`, and the evidence that proves them. Returns what
    /// is ready if the chain accepts all of it and some of it is new there, otherwise nothing.
    pub(super) fn take_bundle(
        &mut self,
        shared: &Shared<'_>,
        slot: Slot,
        parent: &Root,
    ) -> (Vec<Entry>, Bytes) {
        // Gone even if it is not used: what does not fit this parent is not offered again.
        let ready = self.bundle.take().filter(|ready| {
            let mut entries = ready.entries.iter();
            entries.all(|entry| is_includable(shared, entry, slot, parent))
                && adds_weight(shared, &ready.entries, parent)
        });
        ready.map_or_else(
            || (Vec::new(), Bytes::from([])),
            |ready| (ready.entries, ready.evidence),
        )
    }
}

/// Whether these entries credit more weight in a child of `parent`.
fn adds_weight(shared: &Shared<'_>, entries: &[Entry], parent: &Root) -> bool {
    let mut credited: BTreeMap<(Slot, u16), Bitfield> = BTreeMap::new();
    entries.iter().any(|entry| {
        let (slot, committee) = (entry.vote.slot, entry.committee);
        let set = credited
            .entry((slot, committee))
            .or_insert_with(|| shared.chain.credited(parent, slot, committee));
        shared.gain(entry, set) > 0
    })
}
