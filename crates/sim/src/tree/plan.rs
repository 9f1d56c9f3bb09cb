//! Data known to all nodes of a tree: assignments, voters and costs.

use super::Tree;
use super::message::Piece;
use crate::latency::mix;
use crate::voters::Voters;
use alphorn_proto::wire::VOTE_BYTES;
use alphorn_scheme::model::CostTable;
use alphorn_scheme::{Layer, Op, Overlap};
use alphorn_types::support_code::{self, Coding};
use alphorn_types::{Bitfield, Support};
use std::ops::Range;

const VOTER: u64 = 0x7472_6565_0001;
const PLACE: u64 = 0x7472_6565_0002;

/// Data shared by all nodes.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The parameters.
    pub config: Tree,
    /// Nodes by level, position and index at the position.
    pub places: Vec<Vec<Vec<u32>>>,
    table: CostTable,
    /// Which validators vote, and on which node.
    pub voters: Voters,
}

impl Plan {
    /// Draws voters and assignments; the parameters must have passed [`Tree::check`].
    pub(crate) fn new(config: Tree, table: CostTable, nodes: u32, seed: u64) -> Self {
        let (validators, ppm) = (config.validators, config.participation_ppm);
        let voters = Voters::draw(validators, nodes, ppm, [seed, VOTER]);
        let mut places = Vec::new();
        let mut count = config.validators.div_ceil(config.leaf);
        loop {
            let level = places.len() as u64;
            let at = |position: u32| {
                let first = mix([seed, PLACE, level, position.into()]);
                // Different nodes, as long as there are enough.
                let apart = |i: u32| ((first + u64::from(i)) % u64::from(nodes)) as u32;
                (0..config.replicas.min(nodes)).map(apart).collect()
            };
            places.push((0..count).map(at).collect());
            if count == 1 {
                break;
            }
            count = count.div_ceil(config.fanout);
        }
        Plan {
            config,
            places,
            table,
            voters,
        }
    }

    /// The level of the root.
    pub(crate) fn root(&self) -> u32 {
        self.places.len() as u32 - 1
    }

    /// The leaf of a validator.
    pub(crate) fn leaf_of(&self, validator: u32) -> u32 {
        validator / self.config.leaf
    }

    /// The validators below a position.
    pub(crate) fn below(&self, level: u32, position: u32) -> Range<u32> {
        // In 64 bits, as the root may be wider than all validators by almost a factor of the fan-out.
        let width = u64::from(self.config.leaf) * u64::from(self.config.fanout).pow(level);
        let end = |position: u64| (position * width).min(self.config.validators.into()) as u32;
        end(position.into())..end(u64::from(position) + 1)
    }

    /// Positions of the level below that are children of a position.
    pub(crate) fn children(&self, level: u32, position: u32) -> Range<u32> {
        let all = self.places[level as usize - 1].len() as u32;
        let first = position * self.config.fanout;
        first..all.min(first + self.config.fanout)
    }

    /// Nodes above a position; none above the root.
    pub(crate) fn above(&self, level: u32, position: u32) -> &[u32] {
        let parents = self.places.get(level as usize + 1);
        parents.map_or(&[], |parents| {
            &parents[(position / self.config.fanout) as usize]
        })
    }

    /// Size of a vote in bytes.
    pub(crate) fn vote_bytes(&self) -> u32 {
        let bytes = VOTE_BYTES as u64 + self.table.sizes.signature;
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Cost of an operation, in nanoseconds of one core.
    pub(crate) fn cost_ns(&self, op: Op, n: u64, m: u64) -> u64 {
        self.table.cost(op, n, m).ns
    }

    /// Cost of verifying pieces: their senders and their contents.
    pub(crate) fn verify_ns<'a>(&self, pieces: impl ExactSizeIterator<Item = &'a Piece>) -> u64 {
        let senders_ns = self.cost_ns(Op::DutyVerify, pieces.len() as u64, 0);
        let evidence_ns = pieces.map(|piece| self.evidence_ns(piece));
        evidence_ns.fold(senders_ns, u64::saturating_add)
    }

    fn evidence_ns(&self, piece: &Piece) -> u64 {
        let op = match piece.level {
            0 => Op::VerifyAggregates,
            _ => Op::VerifyCollections,
        };
        let each = u64::from(piece.count / piece.parts);
        // Merged proofs are verified one by one, all others of the piece together.
        let merges_ns = u64::from(piece.merges) * self.table.merged_verify_ns(each);
        match u64::from(piece.parts - piece.merges) {
            0 => merges_ns,
            rest if piece.merges == 0 => self.cost_ns(op, rest, piece.count.into()),
            rest => merges_ns.saturating_add(self.cost_ns(op, rest, rest * each)),
        }
    }

    /// The piece that a leaf makes from verified votes, and its cost.
    pub(crate) fn leaf_piece(&self, position: u32, signers: Bitfield) -> (Piece, u64) {
        let count = signers.count_ones() as u64;
        let evidence_bytes = self.table.evidence_bytes(Layer::Aggregate, count);
        let cost_ns = self.cost_ns(Op::Aggregate, count, 0);
        (
            self.piece(0, position, signers, 1, 0, evidence_bytes),
            cost_ns,
        )
    }

    /// The piece that a position makes from the verified pieces of its children, and its cost.
    pub(crate) fn inner_piece(&self, level: u32, position: u32, pieces: &[&Piece]) -> (Piece, u64) {
        let below = self.below(level, position);
        let mut signers = Bitfield::new(below.len());
        for piece in pieces {
            let start = self.below(piece.level, piece.position).start - below.start;
            signers.write_range(start as usize, &piece.signers);
        }
        let count = signers.count_ones() as u64;
        let parts: u32 = pieces.iter().map(|piece| piece.parts).sum();
        let abilities = &self.table.abilities;
        let fits = abilities
            .committee_max
            .is_none_or(|max| count <= u64::from(max));
        // Level 1 makes a collection of aggregates, as every scheme can. Above it, collections are merged if they can
        // be.
        let merges = level == 1 || abilities.overlap(Layer::Collection) != Overlap::None;
        // A single piece is passed on unchanged.
        if !(fits && merges) || (level > 1 && parts == 1) {
            // To put the children's proofs into one list costs nothing.
            let bytes = pieces.iter().map(|piece| piece.evidence_bytes).sum();
            let merges = pieces.iter().map(|piece| piece.merges).sum();
            return (
                self.piece(level, position, signers, parts, merges, bytes),
                0,
            );
        }
        let (cost_ns, bytes) = match level {
            1 => (
                self.cost_ns(Op::Collect, parts.into(), count),
                self.table.evidence_bytes(Layer::Collection, count),
            ),
            _ => (
                self.cost_ns(Op::Merge, parts.into(), 0),
                self.table.merged_bytes(count),
            ),
        };
        (
            self.piece(level, position, signers, 1, u32::from(level > 1), bytes),
            cost_ns,
        )
    }

    fn piece(
        &self,
        level: u32,
        position: u32,
        signers: Bitfield,
        parts: u32,
        merges: u32,
        evidence_bytes: u64,
    ) -> Piece {
        let support = Support::from_bits(signers.clone());
        let code = support_code::encode(&support, Coding::Rice, None).len() as u64;
        let around = VOTE_BYTES as u64 + self.table.sizes.duty_signature;
        Piece {
            level,
            position,
            count: signers.count_ones() as u32,
            signers,
            // Costs divide by it.
            parts: parts.max(1),
            merges,
            evidence_bytes,
            bytes: around + code + evidence_bytes,
        }
    }
}
