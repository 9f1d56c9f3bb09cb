//! Who sends how much: the dissemination policy, by size and network.

use crate::rlnc::{
    Cut, ELEMENT_PAYLOAD_BYTES, ELEMENTS_MAX, GENERATIONS_MAX, SHARD_BYTES_MAX, Strategy,
};

/// Thousandths in one chunk of [`Policy::credit_milli`].
pub(crate) const CREDIT_ONE: u32 = 1000;

/// Payload bytes of the longest chunk.
pub const CHUNK_BYTES_MAX: u32 = ELEMENT_PAYLOAD_BYTES * ELEMENTS_MAX;

/// How far pieces are pushed without being asked for.
///
/// A piece carries its hop h, the number of transmissions so far. On its first new piece a node
/// sends one piece to each peer in whose order it is among the first `burst[min(h, 3) - 1]` (see
/// [`Place`](super::Place)), and for every later new piece `credit_milli` thousandths of one more. The
/// source sends `source_pieces` round robin and stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Source chunks of a generation N, or data shards k; 0 = by size, see [`Cut::auto`].
    pub chunks: u16,
    /// Payload bytes of a chunk, at most: a longer payload takes more generations. Where a transfer
    /// takes longer than the latency, a relay waits for a whole chunk before it sends anything on, and
    /// so does the next one. Not of shards.
    pub chunk_bytes_max: u32,
    /// Pieces of the first burst after 1, 2, and 3 or more transmissions.
    pub burst: [u16; 3],
    /// Thousandths of a piece sent for each later new piece.
    pub credit_milli: u32,
    /// Pieces of a generation that all relays together push to a node, at most, in percent of what it
    /// needs; each takes the peer to have as many neighbours as itself. 0 = no bound. Where a transfer
    /// takes longer than an answer it ends in time what no answer stops: what is on the way when a node
    /// is done.
    pub push_pct: u16,
    /// Pieces that the source sends of each generation.
    pub source_pieces: u16,
    /// How many peers bring a node the header unasked once a piece was transmitted three times: as
    /// many of the first in its order. 0 = all of them. Earlier pieces always come with the header.
    pub headers: u16,
    /// Pieces that the source sends a peer in a row, before it turns to the next one.
    ///
    /// With one, the relays next to the source have nothing to mix: they forward the source's pieces,
    /// and so do those behind them, and where each node gets dozens of them many meet twice. With two,
    /// every piece from there on is another combination.
    pub source_run: u8,
    /// How long a relay next to the source waits for the rest of its run, in ns.
    pub gather_ns: u64,
    /// Whether ranks are told to all peers at the first piece and at half the rank, and at full rank
    /// that nothing more is needed. Without, only peers are told that send for nothing: where all
    /// bursts are on the way before an answer can come, telling everybody has a price and no use.
    pub feedback: bool,
}

impl Policy {
    /// Transfer of the payload far below the latency: two bursts reach everybody.
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
    /// Transfer and latency alike.
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
    pub(crate) const LARGE: Policy = Policy {
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

    /// The strategy of the proposal (ethresear.ch 21370): ten chunks, of which the source and every relay send
    /// one to each of so many peers, a relay when its first one comes; each brings the commitments.
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

    /// The policy for a payload of `len` bytes on links of `uplink_bps` bits a second and
    /// `latency_ns` one way: small up to a quarter of the latency, large above twice of it.
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

    /// Pieces of a generation that needs so many which a relay with so many peers pushes to one of them,
    /// at most.
    #[inline]
    pub(crate) fn peer_pieces_max(&self, needed: u16, peers: usize) -> u32 {
        match self.push_pct {
            0 => u32::MAX,
            pct => {
                let all = u32::from(needed) * u32::from(pct);
                let peers = u32::try_from(peers).unwrap_or(u32::MAX).clamp(1, 1 << 20);
                all.div_ceil(100 * peers)
            }
        }
    }

    /// How a payload of `len` bytes is cut: as many generations as its chunks need, or as many
    /// shards.
    pub fn cut(&self, strategy: Strategy, len: usize) -> Cut {
        if self.chunks == 0 {
            return Cut::auto(strategy, len);
        }
        match strategy {
            Strategy::Rlnc => {
                let chunk_bytes = self.chunk_bytes_max.clamp(1, CHUNK_BYTES_MAX) as usize;
                let generations = len.div_ceil(usize::from(self.chunks) * chunk_bytes);
                // Longer chunks where there may be no more generations; whether they fit is checked when
                // it is cut.
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

    /// The burst after `hop` transmissions.
    #[inline]
    pub(crate) fn burst_after(&self, hop: u8) -> u16 {
        self.burst[usize::from(hop.clamp(1, 3)) - 1]
    }

    /// The same policy for a node whose uplink is `own_bps` where the policy was made for
    /// `reference_bps`: bursts and credit in proportion, from a quarter to four times.
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

/// Which policy a machine follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChoice {
    /// By the length in the header, see [`Policy::auto`].
    Auto,
    /// The same for every length.
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
        // No more than there may be, whatever the length.
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
