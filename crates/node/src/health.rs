//! The health of a node: one list of possible problems, for the interface, the metrics and the log.
//!
//! A node is healthy if its clock, disks, threads, peers, duties and finality are. Each problem is a [`Reason`]. Some
//! of them stop signing, because a signature could be one too many.

use crate::clock::STEP_NS;
use serde::{Deserialize, Serialize};

/// Slots by which a head may be behind the clock before a node counts as catching up.
pub(crate) const BEHIND_SLOTS: u64 = 3;
/// Slots by which finality may be behind the clock: as many as votes wait for a block.
const FINALITY_SLOTS: u64 = 32;
/// Number of judged slots considered.
pub(crate) const JUDGED_SLOTS: usize = 8;
/// The share of missed duties in them above which they are unhealthy: one in this many.
const MISSED_ONE_IN: u64 = 10;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident, $name:literal, $text:literal;)+) => {
        /// Why a node is unhealthy.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Reason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Reason {
            /// All reasons.
            pub(crate) const ALL: &[Reason] = &[$(Reason::$variant,)+];

            /// Its name in responses, metrics and logs.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Reason::$variant => $name,)+
                }
            }

            /// Its description.
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Reason::$variant => $text,)+
                }
            }
        }
    };
}

reasons! {
    /// Another process signs with a local key.
    Doppelganger, "doppelganger",
        "another process signs with a key of this node; nothing is signed until --resume-signing";
    /// Marks cannot be made durable.
    SafetyFile, "safety_file", "safety.redb takes no marks: nothing is signed";
    /// The thread that authorises signatures has ended.
    SignerEnded, "signer_ended", "the thread that admits signatures has ended: nothing is signed";
    /// Peers report a later time.
    PeersAhead, "peers_ahead",
        "peers have blocks of slots that have not begun here: nothing is signed";
    /// Peers report an earlier time.
    PeersBehind, "peers_behind",
        "the clock is more than a slot ahead of most configured peers: nothing is signed";
    /// The thread of `node.redb` has ended.
    ArchiveEnded, "archive_ended", "the thread that keeps blocks has ended: nothing is signed";
    /// `node.redb` cannot be written.
    ArchiveFailing, "archive_failing", "node.redb cannot be written: is the disk full?";
    /// Long jobs are refused.
    Lanes, "lanes", "lanes did not come back: long jobs are refused";
    /// The wall clock differs from the time that the node uses.
    ClockStep, "clock_step", "the wall clock was set, and is doubted or waited for";
    /// Peers use a different time.
    ClockPeers, "clock_peers", "the clock differs from that of the peers by half a slot or more";
    /// Nothing is signed yet.
    Listening, "listening", "after the start the node listens before it signs";
    /// No peer is connected.
    NoPeers, "no_peers", "no peer is connected";
    /// The head is behind the clock.
    Behind, "behind", "the head is more than three slots behind the clock";
    /// Duties are missed.
    DutiesMissed, "duties_missed", "more than a tenth of the duties of the last slots were missed";
    /// No block becomes final.
    NoFinality, "no_finality", "nothing became final for 32 slots";
}

impl Reason {
    /// Whether it stops signing.
    pub(crate) fn stops_signing(self) -> bool {
        matches!(
            self,
            Reason::Doppelganger
                | Reason::SafetyFile
                | Reason::SignerEnded
                | Reason::PeersAhead
                | Reason::PeersBehind
                | Reason::ArchiveEnded
        )
    }
}

/// The facts from which health is assessed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// The slot by the clock, or none before genesis.
    pub(crate) slot: Option<u64>,
    pub(crate) slot_ns: u64,
    pub(crate) first_slot: u64,
    pub(crate) head_slot: u64,
    pub(crate) finalised_slot: u64,
    pub(crate) has_validators: bool,
    pub(crate) has_doppelganger: bool,
    pub(crate) signer_ended: bool,
    pub(crate) marks_broken: bool,
    pub(crate) archive_ended: bool,
    pub(crate) archive_broken: bool,
    pub(crate) lanes_degraded: bool,
    /// By how much the wall clock is ahead of protocol time.
    pub(crate) clock_wrong_ns: i64,
    /// By how much the peers' clocks are ahead.
    pub(crate) peers_ahead_ns: Option<i64>,
    /// Whether enough of them have heads in slots that have not begun.
    pub(crate) are_peers_ahead: bool,
    /// Whether enough of the configured ones have clocks in past slots.
    pub(crate) are_peers_behind: bool,
    /// The connected peers, and whether other nodes of the network are known.
    pub(crate) peers: u64,
    pub(crate) has_others: bool,
    /// Duties of the last judged slots, and the number missed.
    pub(crate) due: u64,
    pub(crate) missed: u64,
}

/// Returns the health problems.
pub(crate) fn assess(facts: &Facts) -> Vec<Reason> {
    let slot = facts.slot.unwrap_or(0);
    let half_slot = facts.slot_ns / 2;
    let differs = |ns: i64, by: u64| ns.unsigned_abs() > by;
    let is = |reason: &Reason| match reason {
        Reason::Doppelganger => facts.has_doppelganger,
        Reason::SafetyFile => facts.marks_broken,
        Reason::SignerEnded => facts.signer_ended,
        Reason::PeersAhead => facts.are_peers_ahead,
        Reason::PeersBehind => facts.are_peers_behind,
        Reason::ArchiveEnded => facts.archive_ended,
        Reason::ArchiveFailing => facts.archive_broken,
        Reason::Lanes => facts.lanes_degraded,
        Reason::ClockStep => differs(facts.clock_wrong_ns, STEP_NS),
        Reason::ClockPeers => {
            let ahead = facts.peers_ahead_ns;
            ahead.is_some_and(|ns| half_slot > 0 && ns.unsigned_abs() >= half_slot)
        }
        Reason::Listening => {
            facts.has_validators && facts.slot.is_some_and(|slot| slot < facts.first_slot)
        }
        Reason::NoPeers => facts.has_others && facts.peers == 0,
        Reason::Behind => facts.head_slot.saturating_add(BEHIND_SLOTS) < slot,
        Reason::DutiesMissed => facts.missed.saturating_mul(MISSED_ONE_IN) > facts.due,
        Reason::NoFinality => facts.finalised_slot.saturating_add(FINALITY_SLOTS) < slot,
    };
    Reason::ALL.iter().copied().filter(is).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> Facts {
        Facts {
            slot: Some(100),
            slot_ns: 4_000_000_000,
            head_slot: 99,
            finalised_slot: 97,
            has_validators: true,
            has_others: true,
            peers: 3,
            due: 80,
            ..Facts::default()
        }
    }

    #[test]
    fn each_thing_that_is_not_well_has_its_reason_and_no_other() {
        assert_eq!(assess(&well()), []);
        type Change = fn(&mut Facts);
        let changes: [(Reason, Change); 15] = [
            (Reason::Doppelganger, |facts| facts.has_doppelganger = true),
            (Reason::SafetyFile, |facts| facts.marks_broken = true),
            (Reason::SignerEnded, |facts| facts.signer_ended = true),
            (Reason::PeersAhead, |facts| facts.are_peers_ahead = true),
            (Reason::PeersBehind, |facts| facts.are_peers_behind = true),
            (Reason::ArchiveEnded, |facts| facts.archive_ended = true),
            (Reason::ArchiveFailing, |facts| facts.archive_broken = true),
            (Reason::Lanes, |facts| facts.lanes_degraded = true),
            (Reason::ClockStep, |facts| {
                facts.clock_wrong_ns = -600_000_000_000
            }),
            (Reason::ClockPeers, |facts| {
                facts.peers_ahead_ns = Some(-2_000_000_000)
            }),
            (Reason::Listening, |facts| facts.first_slot = 1_000),
            (Reason::NoPeers, |facts| facts.peers = 0),
            (Reason::Behind, |facts| facts.head_slot = 96),
            (Reason::DutiesMissed, |facts| facts.missed = 9),
            (Reason::NoFinality, |facts| facts.finalised_slot = 67),
        ];
        let named: Vec<Reason> = changes.iter().map(|(reason, _)| *reason).collect();
        assert_eq!(named, Reason::ALL, "each of them");
        for (reason, change) in changes {
            let mut facts = well();
            change(&mut facts);
            assert_eq!(assess(&facts), [reason]);
            let json = serde_json::to_value(reason).unwrap();
            assert_eq!(json, reason.name(), "one name");
        }
    }

    #[test]
    fn what_is_within_its_bounds_is_well() {
        let facts = Facts {
            head_slot: 97,
            finalised_slot: 68,
            missed: 8,
            clock_wrong_ns: STEP_NS as i64,
            peers_ahead_ns: Some(1_999_999_999),
            ..well()
        };
        assert_eq!(assess(&facts), []);
        // Alone in its network, before genesis.
        let facts = Facts {
            slot_ns: 4_000_000_000,
            ..Facts::default()
        };
        assert_eq!(assess(&facts), []);
    }
}
