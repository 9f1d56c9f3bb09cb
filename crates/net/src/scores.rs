//! Penalties of peers, and which peers are kept out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use libp2p::PeerId;

/// How long misbehaviour is remembered.
pub(crate) const FADE_TIME: Duration = Duration::from_secs(600);

/// What is left after [`FADE_TIME`] counts as zero.
pub(crate) const FADED: f64 = 0.01;

/// The factor applied to a counter after each `interval` so that it fades within [`FADE_TIME`].
pub(crate) fn fade(interval: Duration) -> f64 {
    FADED.powf(interval.as_secs_f64() / FADE_TIME.as_secs_f64())
}

/// Maximum number of peers in each of the three tables.
const REMEMBERED_MAX: usize = 1024;

/// Points at which a peer is banned.
const BAN_POINTS: f64 = 100.0;

/// Number of points below which they are dropped.
const FORGOTTEN_POINTS: f64 = 0.5;

/// Points, bans and blocks, by peer. They outlive its connections.
#[derive(Debug, Default)]
pub(crate) struct PeerScores {
    points: BTreeMap<PeerId, f64>,
    bans: BTreeMap<PeerId, Instant>,
    blocked: BTreeSet<PeerId>,
}

/// The consequence of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Consequence {
    /// The score that results from the points.
    Score(f64),
    /// The peer must be disconnected.
    Ban,
}

impl PeerScores {
    /// Adds points. A ban resets them.
    pub(crate) fn report(&mut self, id: PeerId, points: u32) -> Consequence {
        if !self.points.contains_key(&id) && self.points.len() >= REMEMBERED_MAX {
            // New names with a few points each cannot displace a peer that is close to its ban.
            let least = self.points.iter().min_by(|a, b| a.1.total_cmp(b.1));
            if let Some(least) = least.map(|(id, _)| *id) {
                self.points.remove(&least);
            }
        }
        let sum = self.points.entry(id).or_default();
        *sum += f64::from(points);
        if *sum >= BAN_POINTS {
            self.points.remove(&id);
            return Consequence::Ban;
        }
        Consequence::Score(-*sum)
    }

    /// The score that results from a peer's points.
    pub(crate) fn score(&self, id: &PeerId) -> f64 {
        self.points.get(id).map_or(0.0, |points| -points)
    }

    /// Fades points over a period.
    pub(crate) fn fade(&mut self, time: Duration) {
        let factor = fade(time);
        self.points.retain(|_, points| {
            *points *= factor;
            *points >= FORGOTTEN_POINTS
        });
    }

    /// Bans a peer. Returns one that is unbanned because too many are banned.
    pub(crate) fn ban(&mut self, id: PeerId, until: Instant) -> Option<PeerId> {
        self.bans.insert(id, until);
        if self.bans.len() <= REMEMBERED_MAX {
            return None;
        }
        let first = self.bans.iter().min_by_key(|(_, until)| **until);
        let first = first.map(|(id, _)| *id)?;
        self.bans.remove(&first);
        Some(first)
    }

    /// The peers whose ban ended.
    pub(crate) fn released(&mut self, now: Instant) -> Vec<PeerId> {
        let over = self.bans.iter().filter(|(_, until)| **until <= now);
        let over: Vec<PeerId> = over.map(|(id, _)| *id).collect();
        for id in &over {
            self.bans.remove(id);
        }
        over
    }

    /// Blocks or unblocks a peer. Returns false if too many are blocked already.
    pub(crate) fn block(&mut self, id: PeerId, blocked: bool) -> bool {
        if !blocked {
            self.blocked.remove(&id);
            return true;
        }
        if self.blocked.len() >= REMEMBERED_MAX && !self.blocked.contains(&id) {
            return false;
        }
        self.blocked.insert(id);
        true
    }

    /// Whether a peer must not be connected.
    pub(crate) fn keeps_out(&self, id: &PeerId) -> bool {
        self.blocked.contains(id) || self.bans.contains_key(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_add_up_to_a_ban_and_fade_otherwise() {
        let mut scores = PeerScores::default();
        let id = PeerId::random();
        assert_eq!(scores.report(id, 50), Consequence::Score(-50.0));
        scores.fade(Duration::from_secs(60));
        let faded = scores.score(&id);
        assert!((-32.0..-31.0).contains(&faded), "{faded}");
        assert_eq!(scores.report(id, 69), Consequence::Ban);
        assert_eq!(scores.score(&id), 0.0);
        scores.report(id, 50);
        scores.fade(Duration::from_secs(600));
        scores.fade(Duration::from_secs(1));
        assert!(scores.points.is_empty());
        assert_eq!(scores.report(id, u32::MAX), Consequence::Ban);
    }

    #[test]
    fn bans_end_and_blocks_stay() {
        let mut scores = PeerScores::default();
        let (banned, blocked) = (PeerId::random(), PeerId::random());
        let now = Instant::now();
        scores.ban(banned, now + Duration::from_secs(1));
        assert!(scores.block(blocked, true) && scores.block(blocked, true));
        assert!(scores.keeps_out(&banned) && scores.keeps_out(&blocked));
        assert_eq!(scores.released(now), []);
        assert_eq!(scores.released(now + Duration::from_secs(1)), [banned]);
        assert!(!scores.keeps_out(&banned));
        assert!(scores.block(blocked, false));
        assert!(!scores.keeps_out(&blocked));
    }

    #[test]
    fn every_table_has_its_bound() {
        let mut scores = PeerScores::default();
        let now = Instant::now();
        let mut released = 0;
        for count in 0..2 * REMEMBERED_MAX as u32 {
            let id = PeerId::random();
            scores.report(id, 1 + count % 50);
            let until = now + Duration::from_millis(u64::from(count));
            released += usize::from(scores.ban(id, until).is_some());
            scores.block(id, true);
        }
        assert_eq!(released, REMEMBERED_MAX);
        assert_eq!(scores.points.len(), REMEMBERED_MAX);
        assert_eq!(scores.bans.len(), REMEMBERED_MAX);
        assert_eq!(scores.blocked.len(), REMEMBERED_MAX);
    }
}
