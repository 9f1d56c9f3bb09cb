//! What is held against machines, and who may not come in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use libp2p::PeerId;

use crate::gossip::fade;

/// Machines that anything is remembered of, in each of the three tables.
const MACHINES_MAX: usize = 1024;

/// Points at which a machine is banned.
const BAN_POINTS: f64 = 100.0;

/// Below it nothing is left of a machine's points.
const FORGOTTEN_POINTS: f64 = 0.5;

/// Points, bans and blocks, by machine: they outlive its connections.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    points: BTreeMap<PeerId, f64>,
    bans: BTreeMap<PeerId, Instant>,
    blocked: BTreeSet<PeerId>,
}

/// What follows from a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sentence {
    /// The score that the points make.
    Score(f64),
    /// The machine has to go.
    Ban,
}

impl Judge {
    /// Adds points; a ban takes them all.
    pub(crate) fn report(&mut self, id: PeerId, points: u32) -> Sentence {
        if !self.points.contains_key(&id) && self.points.len() >= MACHINES_MAX {
            let least = self.points.iter().min_by(|a, b| a.1.total_cmp(b.1));
            if let Some(least) = least.map(|(id, _)| *id) {
                self.points.remove(&least);
            }
        }
        let sum = self.points.entry(id).or_default();
        *sum += f64::from(points);
        if *sum >= BAN_POINTS {
            self.points.remove(&id);
            return Sentence::Ban;
        }
        Sentence::Score(-*sum)
    }

    /// The score that a machine's points make.
    pub(crate) fn score(&self, id: &PeerId) -> f64 {
        self.points.get(id).map_or(0.0, |points| -points)
    }

    /// Lets points fade for a time.
    pub(crate) fn fade(&mut self, time: Duration) {
        let factor = fade(time);
        self.points.retain(|_, points| {
            *points *= factor;
            *points >= FORGOTTEN_POINTS
        });
    }

    /// Bans a machine; returns one that is let in again because too many are banned.
    pub(crate) fn ban(&mut self, id: PeerId, until: Instant) -> Option<PeerId> {
        self.bans.insert(id, until);
        if self.bans.len() <= MACHINES_MAX {
            return None;
        }
        let first = self.bans.iter().min_by_key(|(_, until)| **until);
        let first = first.map(|(id, _)| *id)?;
        self.bans.remove(&first);
        Some(first)
    }

    /// The machines whose ban ended.
    pub(crate) fn released(&mut self, now: Instant) -> Vec<PeerId> {
        let over = self.bans.iter().filter(|(_, until)| **until <= now);
        let over: Vec<PeerId> = over.map(|(id, _)| *id).collect();
        for id in &over {
            self.bans.remove(id);
        }
        over
    }

    /// Blocks a machine or lets it in again; false if too many are blocked already.
    pub(crate) fn block(&mut self, id: PeerId, blocked: bool) -> bool {
        if !blocked {
            self.blocked.remove(&id);
            return true;
        }
        if self.blocked.len() >= MACHINES_MAX && !self.blocked.contains(&id) {
            return false;
        }
        self.blocked.insert(id);
        true
    }

    /// Whether a machine may not be connected.
    pub(crate) fn keeps_out(&self, id: &PeerId) -> bool {
        self.blocked.contains(id) || self.bans.contains_key(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_add_up_to_a_ban_and_fade_otherwise() {
        let mut judge = Judge::default();
        let id = PeerId::random();
        assert_eq!(judge.report(id, 50), Sentence::Score(-50.0));
        judge.fade(Duration::from_secs(60));
        let faded = judge.score(&id);
        assert!((-32.0..-31.0).contains(&faded), "{faded}");
        assert_eq!(judge.report(id, 69), Sentence::Ban);
        assert_eq!(judge.score(&id), 0.0);
        judge.report(id, 50);
        judge.fade(Duration::from_secs(600));
        judge.fade(Duration::from_secs(1));
        assert!(judge.points.is_empty());
        assert_eq!(judge.report(id, u32::MAX), Sentence::Ban);
    }

    #[test]
    fn bans_end_and_blocks_stay() {
        let mut judge = Judge::default();
        let (banned, blocked) = (PeerId::random(), PeerId::random());
        let now = Instant::now();
        judge.ban(banned, now + Duration::from_secs(1));
        assert!(judge.block(blocked, true) && judge.block(blocked, true));
        assert!(judge.keeps_out(&banned) && judge.keeps_out(&blocked));
        assert_eq!(judge.released(now), []);
        assert_eq!(judge.released(now + Duration::from_secs(1)), [banned]);
        assert!(!judge.keeps_out(&banned));
        assert!(judge.block(blocked, false));
        assert!(!judge.keeps_out(&blocked));
    }

    #[test]
    fn every_table_has_its_bound() {
        let mut judge = Judge::default();
        let now = Instant::now();
        let mut released = 0;
        for count in 0..2 * MACHINES_MAX as u32 {
            let id = PeerId::random();
            judge.report(id, 1 + count % 50);
            let until = now + Duration::from_millis(u64::from(count));
            released += usize::from(judge.ban(id, until).is_some());
            judge.block(id, true);
        }
        assert_eq!(released, MACHINES_MAX);
        assert_eq!(judge.points.len(), MACHINES_MAX);
        assert_eq!(judge.bans.len(), MACHINES_MAX);
        assert_eq!(judge.blocked.len(), MACHINES_MAX);
    }
}
