//! The dissemination policy: how much each node sends, by payload size and network.

use crate::rlnc::{
    Cut, ELEMENT_PAYLOAD_BYTES, ELEMENTS_MAX, GENERATIONS_MAX, SHARD_BYTES_MAX, Strategy,
};

/// One chunk, in thousandths, for [`Policy::credit_milli`].
pub(crate) const CREDIT_ONE: u32 = 1000;

/// Payload bytes of the longest chunk.
pub const CHUNK_BYTES_MAX: u32 = ELEMENT_PAYLOAD_BYTES * ELEMENTS_MAX;

/// How far pieces are pushed without being requested.
///
/// A piece carries its hop h, the number of transmissions so far. On its first new piece a node sends one piece to each
/// peer in whose order it is among the first `burst[min(h, 3) - 1]` (see [`Place`](super::Place)), and for every later
/// new piece `credit_milli` thousandths of one more. The source sends `source_pieces` round robin and stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Number of source chunks of a generation N, or of data shards k; 0 = by size, see [`Cut::auto`].
    pub chunks: u16,
    /// Maximum payload bytes of a chunk: a longer payload takes more generations. If a transfer takes longer than the
    /// latency, a relay waits for a whole chunk before forwarding anything, and so does the next one. Does not apply to
    /// shards.
    pub chunk_bytes_max: u32,
    /// Pieces of the first burst after 1, 2, and 3 or more transmissions.
    pub burst: [u16; 3],
    /// Thousandths of a piece sent for each later new piece.
    pub credit_milli: u32,
    /// Maximum number of pieces of a generation that all relays together push to a node, in percent of what it needs.
    /// Each relay assumes that the peer has as many neighbours as itself. 0 = no bound. If a transfer takes longer than
    /// an answer, the bound stops in time what no answer can stop: the pieces in flight when a node is done.
    pub push_pct: u16,
    /// Number of pieces that the source sends of each generation.
    pub source_pieces: u16,
    /// Number of peers that send a node the header unasked once a piece was transmitted three times: this many of the
    /// first in its order. 0 = all of them. Earlier pieces always come with the header.
    pub headers: u16,
    /// Number of consecutive pieces that the source sends to a peer before turning to the next one.
    ///
    /// With one, the relays next to the source have nothing to mix. They forward the source's pieces, and so do the
    /// relays behind them, so where each node receives dozens of pieces many are duplicates. With two, every piece from
    /// there on is another combination.
    pub source_run: u8,
    /// Time in ns that a relay next to the source waits for the rest of its run.
    pub gather_ns: u64,
    /// Whether ranks are sent to all peers at the first piece and at half rank, and DONE at full rank. If not, only
    /// peers that send useless pieces are informed: where all bursts are in flight before an answer can arrive,
    /// informing everyone has a cost and no benefit.
    pub feedback: bool,
}

impl Policy {
    /// Transfer far below the latency: two bursts reach every node.
    pub(crate) const SMALL: Policy = Policy {
        chunks: 48,
        chunk_bytes_max: CHUNK_BYTES_MAX,
        burst: [120, 86, 0],
        credit_milli: 0,
        push_pct: 0,
        source_pieces: 240,
        headers: 3,
        source_run: 2,
        gather_ns: 8_000_000,
        feedback: false,
    };
    /// Transfer close to the latency.
    pub const MEDIUM: Policy = Policy {
        chunks: 64,
        chunk_bytes_max: CHUNK_BYTES_MAX,
        burst: [78, 78, 78],
        credit_milli: 100,
        push_pct: 0,
        source_pieces: 480,
        headers: 3,
        source_run: 1,
        gather_ns: 0,
        feedback: false,
    };
    /// Transfer far above the latency: a pipeline of short bursts of short chunks.
    pub const LARGE: Policy = Policy {
        chunks: 64,
        chunk_bytes_max: 63_000,
        burst: [4, 4, 4],
        credit_milli: 1500,
        push_pct: 125,
        source_pieces: 96,
        headers: 3,
        source_run: 1,
        gather_ns: 0,
        feedback: true,
    };

    /// The strategy of the proposal (ethresear.ch 21370): ten chunks. The source and every relay send one to each of
    /// this many peers, a relay when its first one arrives. Each comes with the commitments.
    pub(crate) const fn proposal(peers: u16) -> Policy {
        Policy {
            chunks: 10,
            chunk_bytes_max: CHUNK_BYTES_MAX,
            burst: [peers; 3],
            credit_milli: 0,
            push_pct: 0,
            source_pieces: peers,
            headers: 0,
            source_run: 1,
            gather_ns: 0,
            feedback: false,
        }
    }

    /// The named policies, for configurations.
    pub const NAMED: [(&'static str, Policy); 5] = [
        ("small", Policy::SMALL),
        ("medium", Policy::MEDIUM),
        ("large", Policy::LARGE),
        ("proposal_40", Policy::proposal(40)),
        ("proposal_80", Policy::proposal(80)),
    ];

    /// The policy for a payload of `len` bytes on links of `uplink_bps` bits per second and `latency_ns` one way: small
    /// up to a quarter of the latency, large above twice the latency.
    pub fn auto(len: u32, uplink_bps: u64, latency_ns: u64) -> Policy {
        let bits = 8 * u128::from(len) * 1_000_000_000;
        let transfer_ns = bits / u128::from(uplink_bps.max(1));
        if 4 * transfer_ns <= u128::from(latency_ns) {
            Policy::SMALL
        } else if transfer_ns <= 2 * u128::from(latency_ns) {
            Policy::MEDIUM
        } else {
            Policy::LARGE
        }
    }

    /// Maximum number of pieces of a generation (`needed`) that a relay with this many peers pushes to one of them.
    #[inline]
    pub(crate) fn peer_pieces_max(&self, needed: u16, peers: usize) -> u32 {
        match self.push_pct {
            0 => u32::MAX,
            pct => {
                let all = u32::from(needed) * u32::from(pct);
                // The bound keeps a hundred times the number within 32 bits.
                let peers = u32::try_from(peers).unwrap_or(u32::MAX).clamp(1, 1 << 20);
                // Rounded up, so that a relay with many peers still pushes one piece to each.
                all.div_ceil(100 * peers)
            }
        }
    }

    /// How a payload of `len` bytes is split: into as many generations as its chunks need, or as many shards.
    pub fn cut(&self, strategy: Strategy, len: usize) -> Cut {
        if self.chunks == 0 {
            return Cut::auto(strategy, len);
        }
        match strategy {
            Strategy::Rlnc => {
                let chunk_bytes = self.chunk_bytes_max.clamp(1, CHUNK_BYTES_MAX) as usize;
                let generations = len.div_ceil(usize::from(self.chunks) * chunk_bytes);
                // Use longer chunks if the number of generations is at its maximum; whether they fit is checked when
                // the payload is split.
                let generations = generations.clamp(1, usize::from(GENERATIONS_MAX));
                Cut {
                    chunks: self.chunks,
                    shards_total: 0,
                    generations: generations as u16,
                }
            }
            Strategy::Rs => {
                let least = len.div_ceil(SHARD_BYTES_MAX as usize);
                let least = u16::try_from(least).unwrap_or(u16::MAX);
                Cut::rs(self.chunks.max(least))
            }
        }
    }

    /// Burst size after `hop` transmissions.
    #[inline]
    pub(crate) fn burst_after(&self, hop: u8) -> u16 {
        self.burst[usize::from(hop.clamp(1, 3)) - 1]
    }

    /// The same policy for a node with uplink `own_bps` when the policy was made for `reference_bps`: bursts and credit
    /// in proportion, between a quarter and four times.
    #[must_use]
    pub(crate) fn scaled(&self, own_bps: u64, reference_bps: u64) -> Policy {
        let reference = u128::from(reference_bps.max(1));
        let milli = (u128::from(own_bps) * 1000 / reference).clamp(250, 4000) as u32;
        let scale = |count: u16| {
            let scaled = (u32::from(count) * milli).div_ceil(1000);
            u16::try_from(scaled).unwrap_or(u16::MAX)
        };
        Policy {
            burst: self.burst.map(scale),
            credit_milli: (u64::from(self.credit_milli) * u64::from(milli) / 1000)
                .min(u64::from(u32::MAX)) as u32,
            ..*self
        }
    }
}

/// Policy selection of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChoice {
    /// By the length in the header, see [`Policy::auto`].
    Auto,
    /// The same policy for every length.
    Fixed(Policy),
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPLINK_BPS: u64 = 160_000_000;
    const LATENCY_NS: u64 = 70_000_000;

    #[test]
    fn regimes_follow_transfer_over_latency() {
        let auto = |len| Policy::auto(len, UPLINK_BPS, LATENCY_NS);
        assert_eq!(auto(121_600), Policy::SMALL);
        assert_eq!(auto(350_000), Policy::SMALL);
        assert_eq!(auto(350_001), Policy::MEDIUM);
        assert_eq!(auto(1 << 20), Policy::MEDIUM);
        assert_eq!(auto(2_800_001), Policy::LARGE);
        assert_eq!(auto(u32::MAX), Policy::LARGE);
        assert_eq!(Policy::auto(1, 0, 0), Policy::LARGE);
    }

    #[test]
    fn cuts_fit_the_limits_of_pieces() {
        let rlnc = |len| Policy::LARGE.cut(Strategy::Rlnc, len);
        assert_eq!((rlnc(1).chunks, rlnc(1).generations), (64, 1));
        assert_eq!(rlnc(64 * 63_000).generations, 1);
        assert_eq!(rlnc(64 * 63_000 + 1).generations, 2);
        assert_eq!(rlnc(16_000_000).generations, 4);
        let long = |len| Policy::MEDIUM.cut(Strategy::Rlnc, len).generations;
        assert_eq!((long(64 * 31 * 8192), long(64 * 31 * 8192 + 1)), (1, 2));
        // No more than the maximum, whatever the length.
        let short = Policy {
            chunk_bytes_max: 1,
            ..Policy::LARGE
        };
        assert_eq!(short.cut(Strategy::Rlnc, 16_000_000).generations, 16);
        let rs = Policy::SMALL.cut(Strategy::Rs, 117_800);
        assert_eq!((rs.chunks, rs.shards_total), (48, 256));
        assert_eq!(Policy::SMALL.cut(Strategy::Rs, 16 << 20).chunks, 64);
        let by_size = Policy {
            chunks: 0,
            ..Policy::SMALL
        };
        assert_eq!(by_size.cut(Strategy::Rlnc, 117_800), Cut::rlnc(32));
    }

    #[test]
    fn the_strategy_of_the_proposal_has_a_name() {
        let named = |name| Policy::NAMED.iter().find(|(known, _)| *known == name);
        for (name, peers) in [("proposal_40", 40), ("proposal_80", 80)] {
            let (_, policy) = named(name).unwrap();
            assert_eq!(policy.cut(Strategy::Rlnc, 118_750), Cut::rlnc(10));
            assert_eq!([1, 2, 3].map(|hop| policy.burst_after(hop)), [peers; 3]);
            assert_eq!((policy.source_pieces, policy.credit_milli), (peers, 0));
        }
    }

    #[test]
    fn peers_share_what_a_node_needs() {
        let shares = |peers| Policy::LARGE.peer_pieces_max(64, peers);
        assert_eq!([20, 8, 1, 120].map(shares), [4, 10, 80, 1]);
        assert_eq!(shares(0), 80);
        assert_eq!(shares(usize::MAX), 1);
        assert_eq!(Policy::SMALL.peer_pieces_max(64, 20), u32::MAX);
    }

    #[test]
    fn uplinks_scale_bursts_within_bounds() {
        let frugal = Policy {
            burst: [66, 66, 66],
            credit_milli: 200,
            ..Policy::MEDIUM
        };
        let scaled = |own| frugal.scaled(own, 100);
        assert_eq!(scaled(100), frugal);
        assert_eq!((scaled(50).burst[0], scaled(50).credit_milli), (33, 100));
        assert_eq!((scaled(1).burst[0], scaled(1).credit_milli), (17, 50));
        assert_eq!(
            (scaled(9999).burst[0], scaled(9999).credit_milli),
            (264, 800)
        );
        assert_eq!(scaled(50).source_pieces, 480);
        assert_eq!(Policy::SMALL.burst_after(0), 120);
        assert_eq!(Policy::SMALL.burst_after(2), 86);
        assert_eq!(Policy::SMALL.burst_after(255), 0);
    }
}
