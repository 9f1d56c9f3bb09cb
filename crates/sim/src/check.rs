//! The checker of a run: it sees the stream of events and the published payloads, but no state of a node.
//!
//! Every delivered payload was published, is delivered once per node, and no faster than the lower bounds of
//! [`bounds`](crate::bounds) allow; no honest node ever has proof against another honest one.

#[cfg(test)]
mod tests;

use crate::bounds::LowerBounds;
use crate::report::Adversity;
use crate::role::{Delivery, Role};
use crate::world::Probe;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Maximum number of delay slots, one for each payload and node: 8 bytes each.
pub(crate) const DELAYS_MAX: u64 = 1 << 27;

/// A payload of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Publishing node.
    pub source: u32,
    /// Time of publication.
    pub published_ns: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Index of its lower bounds.
    pub lower_bounds: u32,
    /// Whether its source publishes a second payload for the same duty. The number of the second is that of this
    /// one plus the number of all payloads.
    pub equivocal: bool,
}

/// A rule violation, which must not occur in any run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A node delivered something that was never published.
    #[error("node {node} delivered payload {item} of {bytes} bytes, which nobody published")]
    Foreign {
        /// The node.
        node: u32,
        /// The number of the payload.
        item: u32,
        /// Size in bytes.
        bytes: u64,
    },
    /// A payload was delivered twice.
    #[error("node {node} delivered payload {item} twice")]
    Twice {
        /// The node.
        node: u32,
        /// The number of the payload.
        item: u32,
    },
    /// A delivery was faster than the lower bound of its node.
    #[error("node {node} delivered payload {item} after {value_ns} ns, the bound is {min_ns} ns")]
    Fast {
        /// The node.
        node: u32,
        /// The number of the payload.
        item: u32,
        /// Time taken.
        value_ns: u64,
        /// Minimum possible.
        min_ns: u64,
    },
    /// The nodes together were faster than their uplinks allow.
    #[error(
        "payload {item} was at {receivers} nodes after {value_ns} ns, the bound is {min_ns} ns"
    )]
    Capacity {
        /// The number of the payload.
        item: u32,
        /// Number of nodes that had it.
        receivers: u64,
        /// Time taken.
        value_ns: u64,
        /// Minimum possible.
        min_ns: u64,
    },
    /// An honest node has proof against another honest one.
    #[error("node {node} reports the honest node {about}: {reason}")]
    Accused {
        /// The reporting node.
        node: u32,
        /// The reported node.
        about: u32,
        /// The reason.
        reason: &'static str,
    },
}

/// Reports and findings of honest nodes about others.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    /// Reports by reason.
    reports: BTreeMap<&'static str, u64>,
    /// Nodes against which an honest node has proof.
    accused: BTreeSet<u32>,
    /// Honest nodes with proof against a source.
    evidence: BTreeSet<u32>,
}

impl Blame {
    /// Records that a node reported another one. Returns true if this is an honest node's proof against an honest
    /// one, which must not occur in any run.
    pub(crate) fn reported<R: Role>(
        &mut self,
        honest: &[bool],
        node: u32,
        about: u32,
        reason: &'static str,
    ) -> bool {
        // A faulty node may report anything.
        if !honest[node as usize] {
            return false;
        }
        *self.reports.entry(reason).or_default() += 1;
        let is_proof = R::is_proof(reason);
        if is_proof && !honest[about as usize] {
            self.accused.insert(about);
        }
        is_proof && honest[about as usize]
    }

    /// Records that a node has found a contradiction.
    pub(crate) fn evidence(&mut self, honest: &[bool], node: u32) {
        if honest[node as usize] {
            self.evidence.insert(node);
        }
    }

    /// Summarises it, with the rejections of the honest nodes among these.
    pub(crate) fn adversity<'a, R: Role + 'a>(
        &self,
        honest: &[bool],
        roles: impl Iterator<Item = &'a R>,
    ) -> Adversity {
        let mut refused = BTreeMap::new();
        for (role, _) in roles.zip(honest).filter(|(_, honest)| **honest) {
            for (reason, count) in role.refusals().filter(|(_, count)| *count > 0) {
                *refused.entry(reason.to_owned()).or_default() += u64::from(count);
            }
        }
        let reports = self.reports.iter();
        Adversity {
            refused,
            reports: reports.map(|(of, n)| ((*of).to_owned(), *n)).collect(),
            accused: self.accused.len() as u32,
            evidence: self.evidence.len() as u32,
        }
    }
}

/// Marks a payload that was not delivered.
const NEVER: u64 = u64::MAX;

/// Records deliveries and checks them against the rules; see the [module](self).
pub(crate) struct Ledger {
    items: Vec<Item>,
    lower_bounds: Vec<LowerBounds>,
    honest: Vec<bool>,
    /// Nanoseconds from publication, by payload and node.
    delays_ns: Vec<u64>,
    /// Number of receivers of each payload so far.
    receivers: Vec<u64>,
    deliveries: u64,
    /// Number of deliveries of honest nodes, which the run waits for.
    honest_deliveries: u64,
    useful_bytes: u64,
    /// Number of deliveries of honest nodes at which the run ends.
    until: u64,
    violation: Option<Violation>,
    /// Which of the two payloads of an equivocal duty a node has, in bits 0 and 1.
    tales: BTreeMap<(u32, u32), u8>,
    /// Nodes that have lost the record of what they delivered.
    forgetful: BTreeSet<u32>,
    blame: Blame,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("items", &self.items.len())
            .field("deliveries", &self.deliveries)
            .field("violation", &self.violation)
            .finish_non_exhaustive()
    }
}

impl Ledger {
    /// A ledger of these payloads. `honest` nodes must follow the rules, and the run waits for them.
    ///
    /// # Panics
    /// If payloads times nodes exceed [`DELAYS_MAX`].
    pub(crate) fn new(items: Vec<Item>, lower_bounds: Vec<LowerBounds>, honest: Vec<bool>) -> Self {
        let nodes = honest.len();
        let places = items.len() * nodes;
        assert!(places as u64 <= DELAYS_MAX, "{places} delays");
        Ledger {
            delays_ns: vec![NEVER; places],
            receivers: vec![0; items.len()],
            items,
            lower_bounds,
            honest,
            deliveries: 0,
            honest_deliveries: 0,
            useful_bytes: 0,
            until: u64::MAX,
            violation: None,
            tales: BTreeMap::new(),
            forgetful: BTreeSet::new(),
            blame: Blame::default(),
        }
    }

    /// Ends the run once this percentage of all deliveries of honest nodes has happened.
    pub(crate) fn end_after(&mut self, percent: u64) {
        let nodes = self.honest.iter().filter(|honest| **honest).count() as u64;
        // A source does not deliver its own payload.
        let sources = self
            .items
            .iter()
            .filter(|item| self.honest[item.source as usize]);
        let all = nodes * self.items.len() as u64 - sources.count() as u64;
        // Rounded up: 99 % of fewer than a hundred deliveries are all of them.
        self.until = (all * percent).div_ceil(100);
    }

    /// The payloads.
    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    /// The first rule violation.
    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Number of deliveries so far.
    pub(crate) fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// Payload bytes delivered.
    pub(crate) fn useful_bytes(&self) -> u64 {
        self.useful_bytes
    }

    /// Time from publication to delivery of the last payload at a node; none if it never delivered it.
    pub(crate) fn last_delay_ns(&self, node: u32) -> Option<u64> {
        let row = self.delays_ns.chunks_exact(self.honest.len()).last()?;
        Some(row[node as usize]).filter(|&ns| ns != NEVER)
    }

    /// Reports and findings of honest nodes.
    pub(crate) fn blame(&self) -> &Blame {
        &self.blame
    }

    /// Time from publication to delivery, for each payload and each honest node except its source; none if never.
    pub(crate) fn delays_ns(&self) -> Vec<Option<u64>> {
        let nodes = self.honest.len();
        let mut delays = Vec::new();
        for (item, row) in self.items.iter().zip(self.delays_ns.chunks_exact(nodes)) {
            for (node, &delay) in row.iter().enumerate() {
                if !self.honest[node] || node == item.source as usize {
                    continue;
                }
                delays.push(Some(delay).filter(|delay| *delay != NEVER));
            }
        }
        delays
    }

    fn accuse(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// Records which of two payloads a node has; returns whether it already had that one.
    fn has_tale(&mut self, node: u32, item: u32, second: bool) -> bool {
        let tales = self.tales.entry((item, node)).or_default();
        let bit = 1 << u8::from(second);
        let again = *tales & bit != 0;
        *tales |= bit;
        // A node that has both holds the proof.
        if *tales == 3 {
            self.blame.evidence(&self.honest, node);
        }
        again
    }

    /// Checks a delivery against the payloads and the lower bounds, and records it.
    fn deliver(&mut self, now_ns: u64, node: u32, delivery: Delivery) {
        let Delivery { item, bytes } = delivery;
        let equivocal = |item: &u32| self.items.get(*item as usize).is_some_and(|p| p.equivocal);
        let second = item.checked_sub(self.items.len() as u32).filter(equivocal);
        let published = self.items.get(second.unwrap_or(item) as usize).copied();
        let known = |p: &Item| (p.bytes == bytes || second.is_some()) && p.published_ns <= now_ns;
        let Some(published) = published.filter(known) else {
            return self.accuse(Violation::Foreign { node, item, bytes });
        };
        let foreign = second.is_some();
        let item = second.unwrap_or(item);
        let again = match published.equivocal {
            true => self.has_tale(node, item, foreign),
            false => false,
        };
        let nodes = self.honest.len();
        let place = &mut self.delays_ns[item as usize * nodes + node as usize];
        if *place != NEVER {
            // Neither the other payload of a pair nor a delivery by a restarted node is a repetition.
            let excused = self.forgetful.contains(&node) || published.equivocal && !again;
            if !excused {
                self.accuse(Violation::Twice { node, item });
            }
            return;
        }
        let value_ns = now_ns - published.published_ns;
        *place = value_ns;
        self.deliveries += 1;
        self.honest_deliveries += u64::from(self.honest[node as usize]);
        self.useful_bytes += bytes;
        let receivers = &mut self.receivers[item as usize];
        *receivers += 1;
        let receivers = *receivers;
        if published.equivocal {
            // The lower bounds apply to a single payload.
            return;
        }
        let lower_bounds = &self.lower_bounds[published.lower_bounds as usize];
        let min_ns = lower_bounds.node_ns[node as usize];
        if value_ns < min_ns {
            return self.accuse(Violation::Fast {
                node,
                item,
                value_ns,
                min_ns,
            });
        }
        // Deliveries are shown in order of time, so none of these receivers had the payload later than now.
        let min_ns = lower_bounds.capacity_ns(receivers);
        if value_ns < min_ns {
            self.accuse(Violation::Capacity {
                item,
                receivers,
                value_ns,
                min_ns,
            });
        }
    }
}

impl<R: Role> Probe<R> for Ledger
where
    R::Delivery: Into<Delivery> + Copy,
{
    fn delivered(&mut self, now_ns: u64, node: u32, delivery: &R::Delivery) {
        self.deliver(now_ns, node, (*delivery).into());
    }

    fn reported(&mut self, _: u64, node: u32, about: u32, reason: &'static str) {
        if self.blame.reported::<R>(&self.honest, node, about, reason) {
            self.accuse(Violation::Accused {
                node,
                about,
                reason,
            });
        }
    }

    fn evidence(&mut self, _: u64, node: u32) {
        self.blame.evidence(&self.honest, node);
    }

    fn restarted(&mut self, _: u64, node: u32) {
        self.forgetful.insert(node);
    }

    #[inline]
    fn is_done(&self) -> bool {
        self.honest_deliveries >= self.until || self.violation.is_some()
    }
}
