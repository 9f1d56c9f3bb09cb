//! What is published, with the bytes of its encoding.

use super::{Plan, draw};
use crate::horn::message::{AggregateBody, BlockBody, CollectionBody};
use crate::latency::mix;
use crate::scenario;
use alphorn_proto::wire::{self, Context, Kind};
use alphorn_scheme::{Evidence, Layer};
use alphorn_types::{Bitfield, Support, Validator};
use std::sync::Arc;

/// Votes of the slot before that were not as those of this one, in a million, if nothing is said: an
/// assumption, that of `alphorn horn traffic`.
const FLIP_PPM: u32 = 3000;

impl Plan {
    /// Who voted in the slot before, by position of each committee; empty where codes refer to nothing.
    pub(super) fn slot_before(&self, horn: &scenario::Horn) -> Vec<Bitfield> {
        if self.config.context == Context::None {
            return Vec::new();
        }
        let flip_ppm = u64::from(horn.flip_ppm.unwrap_or(FLIP_PPM));
        let voted = |position: u32| {
            let validator = self.assignment.member(position).0;
            let flip = mix([self.seed, draw::FLIP, validator.into(), 0]) % 1_000_000;
            self.votes(validator) != (flip < flip_ppm)
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

    /// Bytes of a vote.
    pub fn vote_bytes(&self) -> u32 {
        // At most 8 KiB.
        self.format.bytes_max(Kind::Vote) as u32
    }

    fn references(&self) -> impl Fn(&wire::Vote, u16) -> Option<Bitfield> + '_ {
        |_, committee| self.before.get(usize::from(committee)).cloned()
    }

    fn proof(&self) -> Option<alphorn_scheme::Bytes> {
        let bytes = self.format.selection_proof_bytes?;
        Some(vec![0; bytes].into())
    }

    fn envelope(&self) -> alphorn_scheme::Bytes {
        vec![0; self.format.duty_signature_bytes].into()
    }

    fn evidence(&self, layer: Layer, support: Support) -> Evidence {
        let bytes = self
            .table
            .evidence_bytes(layer, support.signer_count() as u64);
        Evidence {
            support: Arc::new(support),
            bytes: vec![0; bytes as usize].into(),
        }
    }

    /// An aggregate of these votes, with the bytes of its encoding.
    pub fn aggregate(&self, cell: u32, sender: u32, signers: Bitfield) -> AggregateBody {
        let message = wire::Aggregate {
            vote: wire::Vote::default(),
            cell: self.cell(cell),
            sender: Validator(sender),
            proof: self.proof(),
            evidence: self.evidence(Layer::Aggregate, Support::from_bits(signers.clone())),
            envelope: self.envelope(),
        };
        let encoded = message.encode(&self.format, &self.references());
        AggregateBody {
            cell,
            sender,
            signers,
            // A chain knows the slot before, and without a context no reference can be missing.
            bytes: encoded.map_or(0, |bytes| bytes.len() as u64),
        }
    }

    /// A collection of these aggregates, with the bytes of its encoding.
    pub fn collection(
        &self,
        committee: u16,
        sender: u32,
        support: Support,
        parts: Vec<Arc<AggregateBody>>,
    ) -> CollectionBody {
        let signers = support.signers();
        let votes = signers.count_ones() as u32;
        let message = wire::Collection {
            vote: wire::Vote::default(),
            committee,
            sender: Validator(sender),
            proof: self.proof(),
            evidence: self.evidence(Layer::Collection, support.clone()),
            envelope: self.envelope(),
        };
        let encoded = message.encode(&self.format, &self.references());
        let bytes = encoded.map_or(0, |bytes| bytes.len() as u64);
        // An entry has neither version, kind, sender and proof nor the envelope.
        let around = 2 + 4 + self.format.selection_proof_bytes.unwrap_or(0);
        let around = (around + self.format.duty_signature_bytes) as u64;
        CollectionBody {
            committee,
            sender,
            support,
            signers,
            votes,
            parts,
            bytes,
            entry_bytes: bytes.saturating_sub(around),
        }
    }

    /// A block of these collections.
    pub fn block(&self, entries: Vec<Arc<CollectionBody>>) -> BlockBody {
        let content: u64 = entries.iter().map(|entry| entry.entry_bytes).sum();
        BlockBody {
            bytes: self.block_bytes(content),
            entries,
        }
    }

    /// Bytes of a block whose entries have so many.
    pub fn block_bytes(&self, entries_bytes: u64) -> u64 {
        let around = 2 + wire::HEADER_BYTES + 4 + 4 + self.format.duty_signature_bytes;
        around as u64 + entries_bytes
    }
}
