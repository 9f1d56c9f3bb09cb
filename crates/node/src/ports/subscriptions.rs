//! The topics that are wanted, and those requested from the network. They differ while its queue is full.

use alphorn_net::Refused;
use alphorn_proto::wire::Topic;
use std::collections::BTreeSet;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    wanted: BTreeSet<Topic>,
    taken: BTreeSet<Topic>,
    /// Some requests found no room.
    is_behind: bool,
}

impl Subscriptions {
    /// Sets exactly these topics as wanted from now on.
    pub(crate) fn want(&mut self, topics: &BTreeSet<Topic>) {
        self.wanted.clone_from(topics);
        self.is_behind = true;
    }

    /// Offers the network the outstanding changes: topics to subscribe to (true), or to unsubscribe from. Returns how
    /// many it did not accept.
    pub(crate) fn offer(&mut self, mut put: impl FnMut(Topic, bool) -> Result<(), Refused>) -> u64 {
        if !std::mem::take(&mut self.is_behind) {
            return 0;
        }
        let more = self
            .wanted
            .difference(&self.taken)
            .map(|topic| (*topic, true));
        let less = self
            .taken
            .difference(&self.wanted)
            .map(|topic| (*topic, false));
        let changes: Vec<(Topic, bool)> = more.chain(less).collect();
        let mut changes = changes.into_iter();
        let mut refused = 0;
        while let Some((topic, is_wanted)) = changes.next() {
            let put = put(topic, is_wanted);
            refused += u64::from(put.is_err());
            if matches!(put, Err(Refused::Full { .. })) {
                // The following ones find no room either. All of them are offered again.
                self.is_behind = true;
                return refused + changes.count() as u64;
            }
            // A topic that is not one of the network's never becomes one.
            match is_wanted {
                true => self.taken.insert(topic),
                false => self.taken.remove(&topic),
            };
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_types::Cell;

    fn votes(cells: impl Iterator<Item = u16>) -> BTreeSet<Topic> {
        let topic = |subcommittee| Topic::Vote {
            cell: Cell {
                committee: 0,
                subcommittee,
            },
        };
        cells.map(topic).collect()
    }

    /// A network whose queue accepts this many at a time.
    #[derive(Default)]
    struct Net {
        room: usize,
        received: BTreeSet<Topic>,
    }

    impl Net {
        fn put(&mut self, topic: Topic, is_wanted: bool) -> Result<(), Refused> {
            let left = self.room.checked_sub(1);
            self.room = left.ok_or(Refused::Full {
                what: "commands",
                bound: 0,
            })?;
            match is_wanted {
                true => assert!(self.received.insert(topic), "asked for twice"),
                false => assert!(self.received.remove(&topic), "never asked for"),
            }
            Ok(())
        }

        fn drained(&mut self, subscriptions: &mut Subscriptions) -> u64 {
            self.room = 3;
            subscriptions.offer(|topic, is_wanted| self.put(topic, is_wanted))
        }
    }

    #[test]
    fn what_a_full_queue_refused_is_offered_again() {
        let (mut net, mut subscriptions) = (Net::default(), Subscriptions::default());
        let first = votes(0..8);
        subscriptions.want(&first);
        let offered = [(); 4].map(|()| net.drained(&mut subscriptions));
        assert_eq!((offered, &net.received), ([5, 2, 0, 0], &first));
        // Topics of the next epoch are added, others removed, and there is one more change before all is done.
        subscriptions.want(&votes(6..12));
        assert_eq!(net.drained(&mut subscriptions), 7);
        let last = votes(4..10);
        subscriptions.want(&last);
        while net.drained(&mut subscriptions) > 0 {}
        assert_eq!(net.received, last);
    }

    /// A topic that can never be accepted is not retried for ever.
    #[test]
    fn what_is_no_topic_of_the_network_is_offered_once() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.want(&votes(0..2));
        assert_eq!(subscriptions.offer(|_, _| Err(Refused::OtherNetwork)), 2);
        assert_eq!(subscriptions.offer(|_, _| panic!("again")), 0);
    }
}
