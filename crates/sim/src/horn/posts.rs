//! Which nodes a fault controls, when it is specified by the validators serving at a post.

use super::error::HornError;
use super::plan::{Plan, TopicId};
use crate::run::error::RunError;
use crate::scenario::{Fault, FaultKind, Post, Way, ordered};
use alphorn_proto::horn::Selection;
use alphorn_proto::slot::Phase;
use alphorn_types::{Slot, Time};

impl Plan {
    /// The nodes of a fault, drawn with `key`.
    ///
    /// # Errors
    /// If the fault cannot apply to these nodes, or applies to none.
    pub(super) fn members(&self, fault: &Fault, key: [u64; 3]) -> Result<Vec<u32>, RunError> {
        let name = fault.kind.name();
        let levels = self.config.layout.levels();
        let of_collections = fault.kind.post() == Some(Post::Collector);
        if levels != 2 && (of_collections || fault.kind.makes_collections()) {
            let fault = name;
            return Err(HornError::FaultLevels { fault, levels }.into());
        }
        if fault.kind.makes_collections() && self.config.selection == Selection::Lottery {
            return Err(HornError::EarlyTicket { fault: name }.into());
        }
        let topics = [self.collection_topic(), self.block_topic()];
        let is_direct = |topic: TopicId| self.topics[topic.0 as usize].way == Way::Direct;
        let divides = matches!(fault.kind, FaultKind::Balance | FaultKind::Bounce);
        if divides && !topics.into_iter().all(is_direct) {
            return Err(HornError::Forwarded { fault: name }.into());
        }
        let members = match fault.kind.post().filter(|_| fault.posts_pct > 0) {
            None => fault.members(key, self.nodes)?,
            Some(post) => self.hosts(fault, post, key)?,
        };
        if Time::from_millis(fault.from_ms) >= self.end() {
            return Err(HornError::AfterEnd {
                fault: name,
                from_ms: fault.from_ms,
                end_ms: self.end().as_nanos() / 1_000_000,
            }
            .into());
        }
        let kind = fault.kind;
        let is_attack = kind.post().is_some() || kind.makes_collections();
        let nodes = self.nodes;
        match is_attack && members.len() >= nodes as usize {
            true => Err(HornError::NoHonest { fault: name, nodes }.into()),
            false => Ok(members),
        }
    }

    /// The nodes hosting a share of the validators that serve at a post while a fault lasts, ascending.
    fn hosts(&self, fault: &Fault, post: Post, key: [u64; 3]) -> Result<Vec<u32>, HornError> {
        let (name, pct) = (fault.kind.name(), fault.posts_pct);
        let groups = self.groups(fault, post)?;
        let mut hosts = Vec::new();
        for (group, servers) in (0..).zip(&groups) {
            // Rounded in each group: the share is that of every cell or committee, not an average over them.
            let count = (servers.len() * pct as usize + 50) / 100;
            let order = ordered(servers.iter().copied(), [key[0], key[1] ^ group, key[2]]);
            hosts.extend(order[..count].iter().map(|validator| self.host(*validator)));
        }
        if hosts.is_empty() {
            return Err(HornError::NoPost {
                fault: name,
                posts_pct: pct,
                post: post.name(),
                of: groups.iter().map(Vec::len).max().unwrap_or(0),
            });
        }
        hosts.sort_unstable();
        hosts.dedup();
        Ok(hosts)
    }

    /// The validators that serve at a post while a fault lasts, grouped by cell or committee of each slot, or for
    /// all slots together.
    fn groups(&self, fault: &Fault, post: Post) -> Result<Vec<Vec<u32>>, HornError> {
        let interval = fault.interval();
        let layout = &self.config.layout;
        let lasts = |slot: &Slot, level| interval.contains(self.level_start(*slot, level));
        let (servers, level, units) = match post {
            Post::Aggregator => (self.serving(1), 1, layout.cells_count()),
            Post::Collector => {
                let top = layout.levels();
                (self.serving(top), top, layout.committees().into())
            }
            Post::Proposer => {
                let slots = self.followed().map(|slot| self.block_slot(slot));
                let slots = slots.filter(|slot| interval.contains(self.slot_start(*slot)));
                return Ok(vec![slots.map(|slot| self.proposer_of(slot)).collect()]);
            }
        };
        if let Some(unit) = fault.units.iter().find(|unit| **unit >= units) {
            return Err(HornError::NoUnit {
                fault: fault.kind.name(),
                unit: *unit,
                post: post.name(),
                units,
            });
        }
        let all: Vec<u32> = (0..units).collect();
        let asked = if fault.units.is_empty() {
            &all
        } else {
            &fault.units
        };
        let slots = self.followed().filter(|slot| lasts(slot, level));
        let posts = slots.flat_map(|slot| {
            let first = self.place(slot).map_or(0, |place| place * units);
            asked.iter().map(move |unit| first + unit)
        });
        let validators = |post: u32| {
            let servers = servers[post as usize].iter();
            servers.map(|server| server.validator).collect()
        };
        Ok(posts.map(validators).collect())
    }

    /// When the phase of a level starts in a slot.
    pub(crate) fn level_start(&self, slot: Slot, level: u8) -> Time {
        // Phases have the same offsets in all slots.
        let offset = self.phase_start(Phase::Level(level));
        let offset_ns = offset.since_ns(self.slot_start(self.slot));
        self.slot_start(slot).saturating_add_ns(offset_ns)
    }
}
