//! Own messages for which the network's queue currently has no room. A signing job produces the votes of a whole
//! committee at once, which may be more than the queue holds.

use alphorn_net::Refused;
use alphorn_proto::horn::Horn;
use alphorn_proto::wire::{Kind, Topic};
use alphorn_scheme::Bytes;
use alphorn_types::Slot;
use std::collections::VecDeque;

/// Limits on what may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

/// Messages that wait in addition to the votes of local validators: their aggregates, collections and blocks.
const OTHERS_MAX: usize = 1_024;

impl Bounds {
    /// Room for the votes of all local validators in a slot, and for the longest message.
    pub(crate) fn of(horn: &Horn) -> Self {
        let bytes_max = |kind| horn.format().bytes_max(kind);
        let messages = horn.local().validators().len() + OTHERS_MAX;
        let longest = Kind::ALL.map(bytes_max).into_iter().fold(0, usize::max);
        Bounds {
            messages,
            bytes: messages.saturating_mul(bytes_max(Kind::Vote)) + longest,
        }
    }

    /// The maximum memory for that, in bytes.
    pub(crate) fn memory_max(self) -> u64 {
        (self.bytes + self.messages * size_of::<Waiting>()) as u64
    }
}

struct Waiting {
    slot: Slot,
    topic: Topic,
    data: Bytes,
}

/// See the [module](self).
pub(crate) struct Outgoing {
    bounds: Bounds,
    /// The current slot.
    slot: Slot,
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Outgoing {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Outgoing {
            bounds,
            slot: Slot(0),
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Sends a message to the network, after all that are waiting, and keeps it if there is no room. Returns how many
    /// were dropped.
    pub(crate) fn send(
        &mut self,
        topic: Topic,
        data: Bytes,
        put: impl FnOnce(Topic, Bytes) -> Result<(), Refused>,
    ) -> u64 {
        // Otherwise it would overtake those that wait, even if the queue has room again by now.
        if self.waiting.is_empty() {
            match put(topic, data.clone()) {
                Ok(()) => return 0,
                Err(Refused::Full { .. }) => {}
                // It will never accept this one.
                Err(_) => return 1,
            }
        }
        let bytes = self.bytes.saturating_add(data.len());
        if self.waiting.len() >= self.bounds.messages || bytes > self.bounds.bytes {
            return 1;
        }
        self.bytes = bytes;
        let slot = self.slot;
        self.waiting.push_back(Waiting { slot, topic, data });
        0
    }

    /// Offers waiting messages to the network in order, and drops those from past slots. Returns how many were dropped.
    pub(crate) fn offer(
        &mut self,
        slot: Slot,
        mut put: impl FnMut(Topic, Bytes) -> Result<(), Refused>,
    ) -> u64 {
        self.slot = slot;
        let mut given_up = 0;
        while let Some(first) = self.waiting.front() {
            let is_over = first.slot < slot;
            if !is_over {
                match put(first.topic, first.data.clone()) {
                    Ok(()) => {}
                    // Only room is worth waiting for. Any other refusal would repeat itself and hold up all that
                    // follow.
                    Err(Refused::Full { .. }) => break,
                    Err(_) => given_up += 1,
                }
            }
            given_up += u64::from(is_over);
            self.bytes -= first.data.len();
            self.waiting.pop_front();
        }
        given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        messages: 6,
        bytes: 100,
    };

    fn message(number: u8) -> Bytes {
        Bytes::from([number; 10].as_slice())
    }

    /// A network whose queue accepts this many more.
    #[derive(Default)]
    struct Net {
        room: usize,
        taken: Vec<u8>,
    }

    impl Net {
        fn put(&mut self, _: Topic, data: Bytes) -> Result<(), Refused> {
            let left = self.room.checked_sub(1);
            self.room = left.ok_or(Refused::Full {
                what: "publications",
                bound: 0,
            })?;
            self.taken.push(data[0]);
            Ok(())
        }

        fn send(&mut self, outgoing: &mut Outgoing, number: u8) -> u64 {
            let put = |topic, data| self.put(topic, data);
            outgoing.send(Topic::Block, message(number), put)
        }

        fn offer(&mut self, outgoing: &mut Outgoing, slot: u64) -> u64 {
            outgoing.offer(Slot(slot), |topic, data| self.put(topic, data))
        }
    }

    #[test]
    fn what_a_full_queue_refused_is_offered_again_in_its_order() {
        let (mut net, mut outgoing) = (Net::default(), Outgoing::new(BOUNDS));
        assert_eq!(net.offer(&mut outgoing, 3), 0);
        net.room = 2;
        assert_eq!((0..5).map(|n| net.send(&mut outgoing, n)).sum::<u64>(), 0);
        assert_eq!(net.taken, [0, 1]);
        net.room = 2;
        // There is room again, and a new message overtakes none.
        assert_eq!(net.send(&mut outgoing, 5), 0);
        assert_eq!(net.offer(&mut outgoing, 3), 0);
        assert_eq!(net.taken, [0, 1, 2, 3]);
        net.room = 9;
        assert_eq!(net.offer(&mut outgoing, 3), 0);
        assert_eq!(net.taken, [0, 1, 2, 3, 4, 5]);
        assert_eq!(outgoing.bytes, 0);
    }

    #[test]
    fn what_waits_is_bounded_and_given_up_when_its_slot_is_over() {
        let (mut net, mut outgoing) = (Net::default(), Outgoing::new(BOUNDS));
        assert_eq!((0..9).map(|n| net.send(&mut outgoing, n)).sum::<u64>(), 3);
        let long = outgoing.send(Topic::Block, Bytes::from([9; 41].as_slice()), |_, _| Ok(()));
        assert_eq!(long, 1, "of bytes");
        assert_eq!(net.offer(&mut outgoing, 0), 0);
        net.room = 1;
        assert_eq!(net.offer(&mut outgoing, 1), 6);
        assert_eq!(net.send(&mut outgoing, 7), 0);
        assert_eq!(net.taken, [7]);
    }

    #[test]
    fn what_the_network_never_takes_is_given_up_at_once() {
        let mut outgoing = Outgoing::new(BOUNDS);
        let closed = |_, _| Err(Refused::Closed);
        assert_eq!(outgoing.send(Topic::Block, message(1), closed), 1);
        assert_eq!(outgoing.offer(Slot(0), |_, _| panic!("again")), 0);
    }
}
