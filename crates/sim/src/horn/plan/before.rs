//! The slot before the first one followed, for codes that refer to it: a block with its votes, which all nodes
//! have.

use super::{Plan, draw};
use crate::latency::mix;
use crate::scenario;
use alphorn_proto::chain::Chain;
use alphorn_proto::wire::{Block, Body, Entry, Header, Vote, digest};
use alphorn_scheme::{Bytes, Evidence, Layer};
use alphorn_types::{Bitfield, Slot, Support, Validator};
use std::sync::Arc;

/// Default share of votes in the previous slot that differ from this one's, per million. An assumption, the same as
/// in `alphorn horn traffic`.
const FLIP_PPM: u32 = 3000;
/// The slot whose votes the block has, and the block's own.
const SLOTS: [Slot; 2] = [Slot(0), Slot(1)];
const KNOWN: &str = "the chain knows its genesis";

impl Plan {
    /// The block with the votes of the previous slot. It is treated as verified before the run.
    pub(super) fn block_before(&self, horn: &scenario::Horn, chain: &Chain) -> Bytes {
        let [slot, own] = SLOTS;
        let genesis = chain.head();
        let vote = chain.vote(slot, &genesis);
        let vote = vote.expect(KNOWN);
        let voted = self.voted_before(horn).into_iter();
        let entry = |(committee, signers): (u16, Bitfield)| Entry {
            vote,
            committee,
            evidence: self.evidence_before(signers),
        };
        let voted = (0..).zip(voted).filter(|(_, signers)| !signers.none());
        let entries: Vec<Entry> = voted.map(entry).collect();
        let (entries, bundle) = match self.format.bundle.filter(|_| !entries.is_empty()) {
            None => (entries, 0),
            Some(length) => (
                // One piece of evidence for all of them: they have none of their own.
                entries.iter().map(Entry::bare).collect(),
                length.max_bytes(),
            ),
        };
        let body = Body {
            entries,
            bundle: vec![0; bundle].into(),
            filler: Bytes::from([]),
        };
        let references = |vote: &Vote, c| chain.reference(vote, c);
        let encoded = body.encode(&self.format, &references).expect(KNOWN);
        let header = Header {
            slot: own,
            proposer: chain.proposer(own),
            parent: genesis,
            body: digest::body_digest(&encoded),
        };
        let block = Block {
            header,
            signature: vec![0; self.format.duty_signature_bytes].into(),
            body,
        };
        let encoded = block.encode(&self.format, &references);
        encoded.expect(KNOWN).into()
    }

    /// The voters of the previous slot, by position in each committee.
    fn voted_before(&self, horn: &scenario::Horn) -> Vec<Bitfield> {
        let flip_ppm = u64::from(horn.flip_ppm.unwrap_or(FLIP_PPM));
        let voted = |position: u32| {
            let Validator(validator) = self.assignment.member(position);
            let flip = mix([self.seed, draw::FLIP, validator.into(), 0]) % 1_000_000;
            // Exclusive or: a validator that is drawn did the opposite of what it does now.
            self.voters.has(validator) != (flip < flip_ppm)
        };
        let layout = &self.config.layout;
        let committees = (0..layout.committees()).map(|c| layout.committee_range(c));
        let committee = |positions: std::ops::Range<u32>| {
            let mut bits = Bitfield::new(positions.len());
            let places = (0..positions.len()).zip(positions);
            let voters = places.filter(|(_, position)| voted(*position));
            voters.for_each(|(place, _)| bits.set(place));
            bits
        };
        committees.map(committee).collect()
    }

    /// Evidence of the right length, which is never verified.
    fn evidence_before(&self, signers: Bitfield) -> Evidence {
        let count = signers.count_ones() as u64;
        let bytes = self.table.evidence_bytes(Layer::Collection, count);
        Evidence {
            support: Arc::new(Support::from_bits(signers)),
            bytes: vec![0; bytes as usize].into(),
        }
    }
}
