//! The queue from the driver to the network: bounded, never blocking.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::address::Address;
use crate::asking::Question;
use crate::error::Refused;
use crate::event::Peer;
use crate::key::NodeId;
use crate::status::{Counters, DropReason};
use alphorn_types::TopicName;

/// Commands that are neither publications, verdicts nor frames.
pub(crate) const CONTROL_MAX: usize = 8192;

/// Which publications are dropped first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Own proposals, votes and aggregates. They may use the reserved slots.
    Duty,
    /// Everything else of the current slot.
    Normal,
    /// Late results, which are dropped first.
    Backfill,
}

impl Priority {
    /// All priorities, best first.
    pub(crate) const ALL: [Self; 3] = [Self::Duty, Self::Normal, Self::Backfill];
}

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Forward it.
    Accept,
    /// Drop it. No peer is to blame.
    Ignore,
    /// Drop it and penalise every peer that sent it.
    Reject,
}

/// A message to publish.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) topic: TopicName,
    pub(crate) data: Arc<[u8]>,
}

/// Commands of the driver, other than publications and verdicts.
#[derive(Debug)]
pub(crate) enum Command {
    Subscribe(TopicName),
    Unsubscribe(TopicName),
    Request(Peer, Question),
    Report { peer: Peer, points: u32 },
    Block(NodeId, bool),
    Dial(Address),
}

/// Capacity of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) publications_max: usize,
    pub(crate) reserved: usize,
    pub(crate) publication_bytes_max: usize,
    pub(crate) verdicts_max: usize,
}

#[derive(Debug, Default)]
struct State {
    /// By priority, best first.
    publications: [VecDeque<Publication>; Priority::ALL.len()],
    /// Their bytes.
    publication_bytes: [usize; Priority::ALL.len()],
    verdicts: VecDeque<(u64, Verdict)>,
    control: VecDeque<Command>,
    shutdown: bool,
    closed: bool,
}

impl State {
    /// Publications of the highest priorities, and their bytes.
    fn load(&self, priorities: usize) -> (usize, usize) {
        let count = self.publications[..priorities].iter().map(VecDeque::len);
        let bytes = self.publication_bytes[..priorities].iter();
        (count.sum(), bytes.sum())
    }

    /// Drops the oldest of the least important publications.
    fn displace(&mut self) {
        let last = self
            .publications
            .iter()
            .rposition(|queue| !queue.is_empty());
        if let Some(last) = last
            && let Some(displaced) = self.publications[last].pop_front()
        {
            self.publication_bytes[last] -= displaced.data.len();
        }
    }
}

/// What is popped at once.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) publications: Vec<Publication>,
    pub(crate) verdicts: Vec<(u64, Verdict)>,
    pub(crate) control: Vec<Command>,
    pub(crate) shutdown: bool,
}

/// The queue. Any thread pushes, the network thread pops.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    ready: Notify,
    bounds: Bounds,
}

impl Outbox {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            state: Mutex::default(),
            ready: Notify::new(),
            bounds,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under this lock cannot leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if the network is still running.
    fn open(&self) -> Result<MutexGuard<'_, State>, Refused> {
        let state = self.lock();
        if state.closed {
            return Err(Refused::Closed);
        }
        Ok(state)
    }

    pub(crate) fn publish(
        &self,
        publication: Publication,
        priority: Priority,
        counters: &Counters,
    ) -> Result<(), Refused> {
        let mut state = self.open()?;
        let reserved = if priority == Priority::Duty {
            0
        } else {
            self.bounds.reserved
        };
        let count_max = self.bounds.publications_max - reserved;
        let bytes = publication.data.len();
        let full = |count: usize, sum: usize| {
            count >= count_max || sum + bytes > self.bounds.publication_bytes_max
        };
        // Publications that are equally or more important stay.
        let (count, sum) = state.load(priority as usize + 1);
        if full(count, sum) {
            return Err(Refused::Full {
                what: "publications",
                bound: count_max,
            });
        }
        // Of the rest the oldest of the least important is dropped first.
        loop {
            let (count, sum) = state.load(Priority::ALL.len());
            if !full(count, sum) {
                break;
            }
            // Never one that is as important: with all less important ones gone it fits, as checked
            // above.
            state.displace();
            counters.dropped(DropReason::Displaced);
        }
        state.publications[priority as usize].push_back(publication);
        state.publication_bytes[priority as usize] += bytes;
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    pub(crate) fn verdict(&self, token: u64, verdict: Verdict) -> Result<(), Refused> {
        let mut state = self.open()?;
        if state.verdicts.len() >= self.bounds.verdicts_max {
            return Err(Refused::Full {
                what: "verdicts",
                bound: self.bounds.verdicts_max,
            });
        }
        state.verdicts.push_back((token, verdict));
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    pub(crate) fn command(&self, command: Command) -> Result<(), Refused> {
        let mut state = self.open()?;
        if state.control.len() >= CONTROL_MAX {
            return Err(Refused::Full {
                what: "commands",
                bound: CONTROL_MAX,
            });
        }
        state.control.push_back(command);
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// Signals the network to end.
    pub(crate) fn shut(&self) {
        self.lock().shutdown = true;
        self.ready.notify_one();
    }

    /// Pops what is waiting, at most `max` of each sort, publications by priority.
    pub(crate) fn take(&self, max: usize) -> Batch {
        let mut state = self.lock();
        let verdicts = state.verdicts.len().min(max);
        let control = state.control.len().min(max);
        let mut batch = Batch {
            publications: Vec::new(),
            verdicts: state.verdicts.drain(..verdicts).collect(),
            control: state.control.drain(..control).collect(),
            shutdown: state.shutdown,
        };
        for priority in 0..Priority::ALL.len() {
            let count = state.publications[priority].len();
            let count = count.min(max - batch.publications.len());
            let taken: Vec<_> = state.publications[priority].drain(..count).collect();
            let bytes: usize = taken.iter().map(|p| p.data.len()).sum();
            state.publication_bytes[priority] -= bytes;
            batch.publications.extend(taken);
        }
        let more = state.load(Priority::ALL.len()).0 > 0
            || !state.verdicts.is_empty()
            || !state.control.is_empty();
        drop(state);
        if more {
            self.ready.notify_one();
        }
        batch
    }

    /// Waits until there may be something to take.
    pub(crate) async fn wait(&self) {
        self.ready.notified().await;
    }

    /// Accepts nothing any more, and drops what is waiting.
    pub(crate) fn close(&self) {
        *self.lock() = State {
            closed: true,
            ..State::default()
        };
    }

    /// Waiting publications, and their bytes.
    pub(crate) fn load(&self) -> (u64, u64) {
        let (count, bytes) = self.lock().load(Priority::ALL.len());
        (count as u64, bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_types::{NetworkDigest, Topic};

    fn outbox() -> Outbox {
        Outbox::new(Bounds {
            publications_max: 8,
            reserved: 2,
            publication_bytes_max: 1000,
            verdicts_max: 3,
        })
    }

    fn publication(bytes: usize) -> Publication {
        Publication {
            topic: Topic::Block.named(NetworkDigest([0; 4])),
            data: vec![bytes as u8; bytes].into(),
        }
    }

    #[test]
    fn own_duties_have_reserved_places_and_displace_backfill() {
        let (outbox, counters) = (outbox(), Counters::default());
        let publish = |bytes, priority| outbox.publish(publication(bytes), priority, &counters);
        for bytes in 0..4 {
            assert_eq!(publish(bytes, Priority::Backfill), Ok(()));
        }
        for bytes in 10..12 {
            assert_eq!(publish(bytes, Priority::Normal), Ok(()));
        }
        let full = Err(Refused::Full {
            what: "publications",
            bound: 6,
        });
        assert_eq!(publish(9, Priority::Backfill), full);
        // The oldest backfill publication is dropped.
        assert_eq!(publish(12, Priority::Normal), Ok(()));
        assert_eq!(counters.status().dropped(DropReason::Displaced), 1);
        for bytes in 20..22 {
            assert_eq!(publish(bytes, Priority::Duty), Ok(()));
        }
        assert_eq!(counters.status().dropped(DropReason::Displaced), 1);
        assert_eq!(publish(900, Priority::Duty), Ok(()));
        assert_eq!(counters.status().dropped(DropReason::Displaced), 2);
        // A publication that would not fit even after evictions displaces nothing.
        assert!(publish(60, Priority::Duty).is_err());
        assert_eq!(counters.status().dropped(DropReason::Displaced), 2);
        assert_eq!(publish(50, Priority::Duty), Ok(()));
        assert_eq!(counters.status().dropped(DropReason::Displaced), 7);
        let lengths: Vec<_> = outbox.take(100).publications;
        let lengths: Vec<_> = lengths.iter().map(|p| p.data.len()).collect();
        assert_eq!(lengths, [20, 21, 900, 50]);
        assert_eq!(outbox.load(), (0, 0));
    }

    #[test]
    fn verdicts_have_a_bound_and_a_batch_takes_the_rest_later() {
        let outbox = outbox();
        for token in 0..3 {
            assert_eq!(outbox.verdict(token, Verdict::Accept), Ok(()));
        }
        assert!(outbox.verdict(3, Verdict::Accept).is_err());
        assert_eq!(outbox.take(2).verdicts.len(), 2);
        assert_eq!(outbox.take(2).verdicts, [(2, Verdict::Accept)]);
        assert!(!outbox.take(2).shutdown);
        outbox.shut();
        assert!(outbox.take(2).shutdown);
    }

    #[test]
    fn a_closed_queue_takes_nothing() {
        let outbox = outbox();
        assert_eq!(outbox.verdict(1, Verdict::Ignore), Ok(()));
        outbox.close();
        assert_eq!(outbox.verdict(2, Verdict::Ignore), Err(Refused::Closed));
        assert!(outbox.take(10).verdicts.is_empty());
    }
}
