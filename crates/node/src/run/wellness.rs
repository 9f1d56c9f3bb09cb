//! The current time, peers' reports of it, and the node's health.

use super::Node;
use crate::clock::Source;
use crate::health::{Facts, Reason};
use crate::sync::Status;
use crate::telemetry::{Event, Summary};
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::sync::atomic::Ordering;

/// A response that took longer says too little about the time.
const ANSWER_NS_MAX: u64 = 2_000_000_000;

impl<C: Source> Node<C> {
    /// The current protocol time.
    pub(super) fn keep_clock(&mut self) -> Time {
        let voices = &self.voices;
        let (now, step) = self.clock.now(|since_ns| voices.clock_ahead_ns(since_ns));
        self.ports.telemetry.at(now);
        if let Some(step) = step {
            self.emit(Event::ClockStep(step));
            // Earlier reports referred to a time that is now in doubt.
            self.sync.ask_all();
        }
        if self.clock.has_changed() {
            self.voices.forget();
            self.sync.ask_all();
        }
        // The running time, since lanes advance what they are given, while `now` may stand still.
        self.ports.lanes.keep_time(self.clock.running_now());
        let ms = now.as_nanos() / 1_000_000;
        self.clock_ms.store(ms, Ordering::Relaxed);
        now
    }

    /// A peer reported its status, requested at `since_ns`.
    pub(super) fn hear(&mut self, now: Time, peer: Peer, status: &Status, since_ns: u64) {
        let at_ns = self.clock.monotonic_ns();
        let took_ns = at_ns.saturating_sub(since_ns);
        let own = self.slots.slot_at(now).map_or(0, |slot| slot.0);
        let ahead = |theirs: u64, own: u64| {
            let ahead = i128::from(theirs) - i128::from(own);
            i64::try_from(ahead).unwrap_or(if ahead > 0 { i64::MAX } else { i64::MIN })
        };
        if took_ns <= ANSWER_NS_MAX {
            let theirs = status.time_ms.saturating_mul(1_000_000);
            // The peer read its clock half a round trip ago.
            let theirs = theirs.saturating_add(took_ns / 2);
            let clock_ns = ahead(theirs, now.as_nanos());
            let slot_ns = i64::try_from(self.slots.slot_ns()).unwrap_or(i64::MAX);
            // Before the first blocks only clocks say anything.
            let slots = ahead(status.head_slot.0, own).max(clock_ns / slot_ns.max(1));
            self.voices.said(peer, slots, clock_ns, at_ns);
            self.keep_hold();
        }
    }

    /// Updates whether something outside the signer forbids signing.
    pub(super) fn keep_hold(&mut self) {
        self.ports.are_peers_behind = self.voices.are_behind(self.slots.slot_ns());
        self.ports.hold = match () {
            () if self.voices.are_ahead() => Some("peers are ahead of the clock"),
            () if self.ports.are_peers_behind => Some("the clock is ahead of the peers"),
            () if self.voices.is_waiting(self.clock.monotonic_ns()) => {
                Some("the first peer has not said where it stands")
            }
            () => None,
        };
    }

    pub(super) fn facts(&self, now: Time, summary: &Summary) -> Facts {
        let (signer, archive) = (self.ports.signer.counters(), self.ports.archive.counters());
        let (due, missed) = Summary::last_duties(&self.ports);
        Facts {
            slot: self.slots.slot_at(now).map(|slot| slot.0),
            slot_ns: self.slots.slot_ns(),
            first_slot: summary.first_slot,
            head_slot: summary.head_slot,
            finalised_slot: summary.finalised_slot,
            has_validators: summary.local_validators > 0,
            has_doppelganger: summary.doppelganger.is_some(),
            signer_ended: signer.ended.load(Ordering::Relaxed),
            marks_broken: signer.broken.load(Ordering::Relaxed),
            archive_ended: archive.ended.load(Ordering::Relaxed),
            archive_broken: archive.broken.load(Ordering::Relaxed),
            lanes_degraded: summary.troubles.degraded,
            clock_wrong_ns: self.clock.wrong_ns(),
            peers_ahead_ns: self.voices.clock_ahead_ns(0),
            are_peers_ahead: self.voices.are_ahead(),
            are_peers_behind: self.ports.are_peers_behind,
            peers: summary.peers,
            has_others: !self.known.is_empty(),
            due,
            missed,
        }
    }

    /// Reports health problems that appeared or disappeared.
    pub(super) fn tell_health(&mut self, summary: &Summary) {
        if summary.files_rebuilt > self.rebuilt {
            self.rebuilt = summary.files_rebuilt;
            self.emit(Event::FilesRebuilt(summary.files_rebuilt));
        }
        let before = std::mem::replace(&mut self.health, summary.health.clone());
        for &reason in Reason::ALL {
            let is_on = summary.health.contains(&reason);
            if before.contains(&reason) != is_on {
                self.emit(Event::Health { reason, is_on });
            }
        }
    }
}
