//! Arrival times of blocks and collections. With the summaries of several nodes on one host, which share a clock, they
//! show how fast messages travel.

use alphorn_proto::horn::cast;
use alphorn_proto::wire::{Topic, WireFormat};
use alphorn_proto::{Token, Verdict};
use alphorn_types::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Messages that wait for their verdict. The oldest are dropped first.
const WAITING_MAX: usize = 8_192;

/// A block or a collection, by its own contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// `block` or `collection`.
    pub kind: String,
    /// The slot.
    pub slot: u64,
    /// The validator that made it.
    pub source: u32,
    /// The committee of a collection.
    pub index: u32,
    /// Length of the message in bytes.
    pub bytes: u64,
    /// Whether this node made it.
    pub is_own: bool,
    /// When it was published, or first arrived: nanoseconds since 1970 by the node's clock.
    pub at_ns: u64,
}

impl Arrival {
    /// Messages remembered per verdict. The oldest slots are dropped first.
    pub const REMEMBERED_MAX: usize = 1_024;
}

/// Identifies a message: slot, kind, source, index.
type Name = (u64, String, u32, u32);

fn name(arrival: &Arrival) -> Name {
    let kind = arrival.kind.clone();
    (arrival.slot, kind, arrival.source, arrival.index)
}

/// The first arrival of each of the last messages.
pub(super) struct Arrivals {
    format: WireFormat,
    waiting: BTreeMap<Token, Arrival>,
    /// Own messages, and those that the protocol accepted.
    accepted: BTreeMap<Name, Arrival>,
    /// Messages that it ignored, verified or not. They may claim any slot and source, and displace only each other.
    ignored: BTreeMap<Name, Arrival>,
}

impl Arrivals {
    pub(super) fn new(format: WireFormat) -> Self {
        Arrivals {
            format,
            waiting: BTreeMap::new(),
            accepted: BTreeMap::new(),
            ignored: BTreeMap::new(),
        }
    }

    /// A message was published here.
    pub(super) fn published(&mut self, now: Time, topic: Topic, data: &[u8]) {
        if let Some(arrival) = self.read(now, topic, data, true) {
            keep(&mut self.accepted, arrival);
        }
    }

    /// A message arrived, and waits for its verdict.
    pub(super) fn received(&mut self, now: Time, topic: Topic, data: &[u8], token: Token) {
        if let Some(arrival) = self.read(now, topic, data, false) {
            self.waiting.insert(token, arrival);
            if self.waiting.len() > WAITING_MAX {
                self.waiting.pop_first();
            }
        }
    }

    /// The protocol's verdict on a message.
    pub(super) fn verdict(&mut self, token: Token, verdict: Verdict) {
        let Some(arrival) = self.waiting.remove(&token) else {
            return;
        };
        match verdict {
            Verdict::Accept => keep(&mut self.accepted, arrival),
            Verdict::Ignore => keep(&mut self.ignored, arrival),
            Verdict::Reject => {}
        }
    }

    fn read(&self, now: Time, topic: Topic, data: &[u8], is_own: bool) -> Option<Arrival> {
        let subject = cast::subject(topic, data, &self.format)?;
        Some(Arrival {
            kind: topic.kind().name().to_owned(),
            slot: subject.slot,
            source: subject.source,
            index: subject.index,
            bytes: data.len() as u64,
            is_own,
            at_ns: now.as_nanos(),
        })
    }

    /// All remembered messages, by slot.
    pub(super) fn all(&self) -> Vec<Arrival> {
        // Accepted ones last, so that they replace an ignored message of the same name.
        let mut all = self.ignored.clone();
        all.extend(self.accepted.clone());
        all.into_values().collect()
    }
}

fn keep(arrivals: &mut BTreeMap<Name, Arrival>, arrival: Arrival) {
    arrivals.entry(name(&arrival)).or_insert(arrival);
    if arrivals.len() > Arrival::REMEMBERED_MAX {
        arrivals.pop_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_proto::wire::{Context, VERSION};
    use alphorn_scheme::EvidenceLength;
    use alphorn_types::{Coding, Layout};

    fn arrivals() -> Arrivals {
        Arrivals::new(WireFormat {
            layout: Layout::new(64, 2, 2).unwrap(),
            signature_bytes: 96,
            duty_signature_bytes: 96,
            selection_proof_bytes: None,
            evidence: vec![EvidenceLength::Fixed(96); 2],
            multiplicity_max: 1,
            coding: Coding::Raw,
            context: Context::None,
            bundle: None,
        })
    }

    /// Bytes that begin like the block of a slot.
    fn block(slot: u64) -> Vec<u8> {
        let mut bytes = vec![VERSION, 4];
        bytes.extend(slot.to_le_bytes());
        bytes.extend(7_u32.to_le_bytes());
        bytes.resize(200, 0);
        bytes
    }

    fn of_slots(arrivals: &Arrivals) -> Vec<(u64, u64)> {
        let all = arrivals.all();
        all.iter().map(|one| (one.slot, one.at_ns)).collect()
    }

    #[test]
    fn the_first_arrival_of_what_is_accepted_counts() {
        let mut arrivals = arrivals();
        for (at, verdict) in [
            (1, Verdict::Reject),
            (2, Verdict::Ignore),
            (3, Verdict::Accept),
            (4, Verdict::Accept),
        ] {
            let token = Token(at);
            arrivals.received(Time::from_nanos(at), Topic::Block, &block(5), token);
            arrivals.verdict(token, verdict);
        }
        arrivals.received(Time::from_nanos(9), Topic::Block, &block(6), Token(9));
        assert_eq!(of_slots(&arrivals), [(5, 3)], "what waits is not counted");
        arrivals.published(Time::from_nanos(8), Topic::Block, &block(7));
        arrivals.verdict(Token(9), Verdict::Ignore);
        assert_eq!(of_slots(&arrivals), [(5, 3), (6, 9), (7, 8)]);
        assert!(arrivals.all()[2].is_own);
    }

    #[test]
    fn invented_messages_displace_none_that_was_accepted() {
        let mut arrivals = arrivals();
        arrivals.received(Time::from_nanos(1), Topic::Block, &block(5), Token(1));
        arrivals.verdict(Token(1), Verdict::Accept);
        for forged in 0..3 * Arrival::REMEMBERED_MAX as u64 {
            let token = Token(10 + forged);
            let data = block(1_000_000 + forged);
            arrivals.received(Time::from_nanos(2), Topic::Block, &data, token);
            arrivals.verdict(token, Verdict::Ignore);
        }
        let all = of_slots(&arrivals);
        assert_eq!((all[0], all.len()), ((5, 1), 1 + Arrival::REMEMBERED_MAX));
        for unanswered in 0..2 * WAITING_MAX as u64 {
            let token = Token(100_000 + unanswered);
            arrivals.received(Time::from_nanos(3), Topic::Block, &block(6), token);
        }
        assert_eq!(arrivals.waiting.len(), WAITING_MAX);
    }
}
