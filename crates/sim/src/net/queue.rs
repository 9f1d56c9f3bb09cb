//! Transmissions, and the queue of a node's uplink: one list in priority order.

/// No flight, or no message.
pub(crate) const NONE: u32 = u32::MAX;

/// Priority classes of an uplink, best first.
pub(crate) const PRIORITIES: usize = 4;

/// Marks of a [`Flight`].
pub(crate) mod mark {
    /// Its sender is notified when it has left the uplink.
    pub(crate) const PACED: u8 = 1;
    /// A part of it was sent.
    pub(crate) const STARTED: u8 = 2;
}

/// A message, or a part of one, waiting for its turn in an uplink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// Bytes on the wire, including overhead. For a message sent in parts, the bytes left.
    pub(crate) bytes: u64,
    /// The message; [`NONE`] for a part that is not the last.
    pub(crate) message: u32,
    /// The sender's end of the connection.
    pub(crate) end: u32,
    /// The next flight in the queue.
    pub(crate) next: u32,
    pub(crate) priority: u8,
    pub(crate) kind: u8,
    pub(crate) marks: u8,
}

/// Maximum number of further receivers of a flight.
pub(crate) const OTHERS: usize = 7;

/// A flight, and further receivers of the same message after its own. There is room for those of a mesh, so a
/// forwarded message waits only once.
#[derive(Clone, Copy, Debug)]
struct Fanout {
    flight: Flight,
    /// The sender's ends of these connections, the next one last.
    others: [u32; OTHERS],
    count: u8,
}

impl Fanout {
    fn new(flight: Flight, others: &[u32]) -> Self {
        let mut fanout = Fanout {
            flight,
            others: [NONE; OTHERS],
            count: others.len() as u8,
        };
        let ends = fanout.others.iter_mut().zip(others.iter().rev());
        ends.for_each(|(other, end)| *other = *end);
        fanout
    }

    fn others(&self) -> &[u32] {
        &self.others[..usize::from(self.count)]
    }

    /// Moves on to the next receiver; false if there is none.
    #[inline]
    fn turn(&mut self) -> bool {
        let Some(end) = self.others().last().copied() else {
            return false;
        };
        self.flight.end = end;
        self.count -= 1;
        true
    }

    /// Removes a receiver that is not the only one. Returns false if `end` is not a receiver or the only one.
    fn leave_out(&mut self, end: u32) -> bool {
        if self.flight.end == end {
            return self.turn();
        }
        let Some(at) = self.others().iter().position(|other| *other == end) else {
            return false;
        };
        self.others.copy_within(at + 1..usize::from(self.count), at);
        self.count -= 1;
        true
    }
}

/// All waiting flights, by number.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    fanouts: Vec<Fanout>,
    /// Free slots. They are not chained through the slots themselves, so taking one need not wait for its memory.
    free: Vec<u32>,
}

impl Flights {
    /// Stores a flight to its own end and at most [`OTHERS`] further ends. A world ends long before 2^32 flights
    /// wait.
    #[inline]
    pub(crate) fn insert(&mut self, flight: Flight, others: &[u32]) -> u32 {
        let fanout = Fanout::new(flight, others);
        if let Some(index) = self.free.pop() {
            self.fanouts[index as usize] = fanout;
            return index;
        }
        self.fanouts.push(fanout);
        self.fanouts.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Flight {
        self.free.push(index);
        // A free slot keeps its content until it is taken again.
        self.fanouts[index as usize].flight
    }

    /// Moves a flight on to its next receiver and returns the flight to the previous one; none if that is the last.
    #[inline]
    pub(crate) fn split(&mut self, index: u32) -> Option<Flight> {
        let fanout = &mut self.fanouts[index as usize];
        let flight = fanout.flight;
        fanout.turn().then_some(flight)
    }

    /// Removes a receiver of a flight that is not its only one. Returns false if `end` is not a receiver or the
    /// only one.
    pub(crate) fn leave_out(&mut self, index: u32, end: u32) -> bool {
        self.fanouts[index as usize].leave_out(end)
    }

    /// Number of waiting flights, counting one for all of its receivers.
    pub(crate) fn len(&self) -> usize {
        self.fanouts.len() - self.free.len()
    }
}

impl std::ops::Index<u32> for Flights {
    type Output = Flight;

    #[inline]
    fn index(&self, index: u32) -> &Flight {
        &self.fanouts[index as usize].flight
    }
}

impl std::ops::IndexMut<u32> for Flights {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Flight {
        &mut self.fanouts[index as usize].flight
    }
}

/// A list of flights in order of priority, then of insertion. The tails make insertion constant-time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub(crate) head: u32,
    tails: [u32; PRIORITIES],
}

impl Queue {
    pub(crate) const EMPTY: Queue = Queue {
        head: NONE,
        tails: [NONE; PRIORITIES],
    };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Inserts a flight after those of the same and of better priorities.
    #[inline]
    pub(crate) fn push(&mut self, flights: &mut Flights, index: u32) {
        let priority = usize::from(flights[index].priority);
        let before = self.tails[..=priority]
            .iter()
            .rev()
            .find(|&&tail| tail != NONE);
        let next = match before {
            Some(&before) => std::mem::replace(&mut flights[before].next, index),
            None => std::mem::replace(&mut self.head, index),
        };
        flights[index].next = next;
        self.tails[priority] = index;
    }

    /// Inserts a flight before the others of its priority: it was the last one taken from there.
    pub(crate) fn push_front(&mut self, flights: &mut Flights, index: u32) {
        let priority = usize::from(flights[index].priority);
        let before = self.tails[..priority]
            .iter()
            .rev()
            .find(|&&tail| tail != NONE);
        let next = match before {
            Some(&before) => std::mem::replace(&mut flights[before].next, index),
            None => std::mem::replace(&mut self.head, index),
        };
        flights[index].next = next;
        if self.tails[priority] == NONE {
            self.tails[priority] = index;
        }
    }

    /// Takes the first flight.
    #[inline]
    pub(crate) fn pop(&mut self, flights: &mut Flights) -> Option<u32> {
        let index = self.head;
        if index == NONE {
            return None;
        }
        self.unlink(flights, NONE, index);
        Some(index)
    }

    /// Takes the first flight after `previous` that matches, and also returns its new predecessor.
    fn take(
        &mut self,
        flights: &mut Flights,
        mut previous: u32,
        fits: impl Fn(&Flight) -> bool,
    ) -> Option<(u32, u32)> {
        loop {
            let index = match previous {
                NONE => self.head,
                previous => flights[previous].next,
            };
            if index == NONE {
                return None;
            }
            if fits(&flights[index]) {
                self.unlink(flights, previous, index);
                return Some((previous, index));
            }
            previous = index;
        }
    }

    /// Takes all flights that match and chains them in front of `taken`, each before the ones ahead of it in the
    /// queue.
    pub(crate) fn take_all(
        &mut self,
        flights: &mut Flights,
        mut taken: u32,
        fits: impl Fn(&Flight) -> bool,
    ) -> u32 {
        let mut previous = NONE;
        while let Some((before, index)) = self.take(flights, previous, &fits) {
            flights[index].next = taken;
            // The search goes on behind the predecessor, with the flight that followed the one taken.
            (taken, previous) = (index, before);
        }
        taken
    }

    #[inline]
    fn unlink(&mut self, flights: &mut Flights, previous: u32, index: u32) {
        let Flight { next, priority, .. } = flights[index];
        match previous {
            NONE => self.head = next,
            previous => flights[previous].next = next,
        }
        if self.tails[usize::from(priority)] == index {
            // Classes are contiguous, so only the predecessor can be the new tail.
            let same = previous != NONE && flights[previous].priority == priority;
            self.tails[usize::from(priority)] = if same { previous } else { NONE };
        }
        flights[index].next = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(priority: u8, to: u32) -> Flight {
        Flight {
            bytes: 1,
            message: 0,
            end: to,
            next: NONE,
            priority,
            kind: 0,
            marks: 0,
        }
    }

    #[test]
    fn a_flight_to_a_mesh_is_less_than_a_cache_line() {
        assert_eq!((size_of::<Flight>(), size_of::<Fanout>()), (24, 56));
    }

    #[test]
    fn receivers_come_in_their_order_and_any_can_be_left_out() {
        let mut flights = Flights::default();
        let index = flights.insert(flight(0, 1), &[2, 3, 4, 5, 6, 7, 8]);
        for (end, is_there) in [(3, true), (3, false), (9, false), (1, true), (8, true)] {
            assert_eq!(flights.leave_out(index, end), is_there, "{end}");
        }
        let mut ends = Vec::new();
        while let Some(flight) = flights.split(index) {
            ends.push(flight.end);
        }
        assert!(!flights.leave_out(index, 7), "the only one");
        ends.push(flights.remove(index).end);
        assert_eq!((ends, flights.len()), (vec![2, 4, 5, 6, 7], 0));
    }

    #[test]
    fn classes_come_in_order_and_anything_can_be_taken_out() {
        let mut flights = Flights::default();
        let mut queue = Queue::EMPTY;
        for (to, priority) in [2, 0, 1, 2, 0, 3, 1].into_iter().enumerate() {
            let index = flights.insert(flight(priority, to as u32), &[]);
            queue.push(&mut flights, index);
        }
        let taken = queue.take(&mut flights, NONE, |f| f.end == 3);
        assert_eq!(taken.map(|(_, i)| flights.remove(i).end), Some(3));
        assert_eq!(queue.take(&mut flights, NONE, |f| f.end == 9), None);
        // The tail of priority 0 is taken, so the next flight goes after the one before it.
        let taken = queue.take(&mut flights, NONE, |f| f.end == 4).unwrap();
        assert_eq!(flights[taken.0].end, 1);
        flights.remove(taken.1);
        let index = flights.insert(flight(0, 10), &[]);
        queue.push(&mut flights, index);
        let first = queue.pop(&mut flights).unwrap();
        queue.push_front(&mut flights, first);
        let mut order = Vec::new();
        while let Some(index) = queue.pop(&mut flights) {
            order.push(flights.remove(index).end);
        }
        assert_eq!(order, [1, 10, 2, 6, 0, 5]);
        assert_eq!((flights.len(), queue.is_empty()), (0, true));
        let index = flights.insert(flight(1, 0), &[]);
        queue.push(&mut flights, index);
        assert_eq!(queue.head, index);
    }
}
