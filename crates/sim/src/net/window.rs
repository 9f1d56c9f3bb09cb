//! Connections with state: a congestion window, or a turn among others.
//!
//! With `transport = "window"`, bytes in flight are limited to the connection's window. The window starts at
//! `initial_window_bytes` (RFC 6928), grows by the bytes acknowledged, so it doubles per round trip (RFC 5681, slow
//! start), up to `window_bytes_max`, and starts over after `idle_reset_ms`. A message leaves in parts of at most a
//! quarter of the window or `initial_window_bytes`, whichever is more, so that a long transmission is acknowledged
//! along the way. With `uplink = "fair"`, connections send 64 KiB in turn.

use super::queue::{Flight, mark};
use super::{Direction, NONE, Net, event};
use crate::windows::{Event, Windows};

/// Bytes that a connection sends before the next one's turn, when connections share the uplink fairly.
const FAIR_PART_BYTES: u64 = 65_536;

impl<M: Clone> Net<M> {
    /// Queues a flight at its connection, and the connection for its turn.
    pub(super) fn wait(&mut self, from: u32, index: u32) {
        let end = self.flights[index].end as usize;
        let connection = &mut self.connections[end as u32];
        connection.waiting.push(&mut self.flights, index);
        if !connection.listed {
            self.list(from, end);
        }
    }

    /// Schedules the next turn of a connection: in the ring of a fair uplink, or through its first flight in the
    /// priority queue. Returns false if it has nothing waiting.
    pub(super) fn list(&mut self, from: u32, end: usize) -> bool {
        let connection = &mut self.connections[end as u32];
        if connection.waiting.is_empty() {
            return false;
        }
        connection.listed = true;
        match self.turns.get_mut(from) {
            Some(turns) => turns.push_back(end as u32),
            None => {
                if let Some(index) = connection.waiting.pop(&mut self.flights) {
                    let queue = &mut self.hot[from].queue;
                    // A started message goes on first, or else each of its parts would queue behind messages to others.
                    match self.flights[index].marks & mark::STARTED {
                        0 => queue.push(&mut self.flights, index),
                        _ => queue.push_front(&mut self.flights, index),
                    }
                }
            }
        }
        true
    }

    /// The next part that fits its window. What does not fit waits for an acknowledgement.
    pub(super) fn next_part(&mut self, now: u64, from: u32) -> Option<Flight> {
        loop {
            let index = match self.turns.get_mut(from) {
                Some(turns) => {
                    let end = turns.pop_front()?;
                    let connection = &mut self.connections[end];
                    connection.listed = false;
                    match connection.waiting.pop(&mut self.flights) {
                        Some(index) => index,
                        // Everything that had this turn was cancelled.
                        None => continue,
                    }
                }
                None => {
                    let index = self.hot[from].queue.pop(&mut self.flights)?;
                    let end = self.flights[index].end as usize;
                    self.connections[end as u32].listed = false;
                    index
                }
            };
            if let Some(part) = self.cut_part(now, from, index) {
                return Some(part);
            }
        }
    }

    /// Cuts off the part that the connection may send now, if any.
    fn cut_part(&mut self, now: u64, from: u32, index: u32) -> Option<Flight> {
        let flight = self.flights[index];
        let end = flight.end as usize;
        let fair = !self.turns.is_empty();
        let mut most = if fair { FAIR_PART_BYTES } else { u64::MAX };
        let connection = &mut self.connections[end as u32];
        if self.windowed {
            let idle_ns = self.link.idle_reset_ms.saturating_mul(1_000_000);
            let first = self.link.initial_window_bytes;
            if connection.flying == 0 && now > connection.active_ns.saturating_add(idle_ns) {
                connection.window = first;
            }
            let room = connection.window.saturating_sub(connection.flying);
            // Not less than the first window, so a cold connection sends that as one part.
            most = most.min(room).min(first.max(connection.window / 4));
            if room == 0 {
                // Not listed again: an acknowledgement does that.
                connection.waiting.push_front(&mut self.flights, index);
                return None;
            }
        }
        let bytes = flight.bytes.min(most);
        self.tally[from].queue_bytes -= bytes;
        let part = if bytes == flight.bytes {
            self.flights.remove(index)
        } else {
            let rest = &mut self.flights[index];
            rest.bytes -= bytes;
            rest.marks |= mark::STARTED;
            let waiting = &mut self.connections[end as u32].waiting;
            waiting.push_front(&mut self.flights, index);
            Flight {
                bytes,
                message: NONE,
                ..flight
            }
        };
        let connection = &self.connections[end as u32];
        // `track` counts these bytes as flying only when the part is launched.
        let room = !self.windowed || connection.window > connection.flying + bytes;
        if room {
            self.list(from, end);
        }
        Some(part)
    }

    /// Counts a part towards its window and schedules its acknowledgement. Returns when its first bit arrives,
    /// keeping the order of the stream.
    pub(super) fn track(
        &mut self,
        queue: &mut Windows,
        now: u64,
        first_ns: u64,
        wire_ns: u64,
        direction: Direction,
        bytes: u64,
    ) -> u64 {
        let to = self.graph.peer(direction.end);
        // Flights can name every end.
        let end = direction.end as u32;
        let connection = &mut self.connections[end];
        connection.flying += bytes;
        connection.active_ns = now.saturating_add(wire_ns);
        // The last bit does not overtake that of the part before.
        let first_ns = first_ns.max(connection.arrives_ns.saturating_sub(wire_ns));
        connection.arrives_ns = first_ns.saturating_add(wire_ns);
        // Known at once: an acknowledgement waits neither for the receiver's downlink, which another node changes, nor
        // for its uplink.
        let back_ns = self.latency.base_ns(to, direction.node);
        let at_ns = connection.arrives_ns.saturating_add(back_ns);
        // A part is smaller than a message.
        let receipt = [end, bytes as u32];
        queue.push_with(at_ns, direction.node, event::ACKNOWLEDGED, 0, receipt);
        first_ns
    }

    /// A part was acknowledged: the window grows, and flights waiting for room continue.
    pub(crate) fn acknowledged(&mut self, queue: &mut Windows, receipt: &Event) {
        let (now, from, end) = (receipt.time_ns, receipt.node, receipt.more[0]);
        let bytes = u64::from(receipt.more[1]);
        let connection = &mut self.connections[end];
        connection.flying -= bytes;
        connection.active_ns = connection.active_ns.max(now);
        let grown = connection.window.saturating_add(bytes);
        connection.window = grown.min(self.link.window_bytes_max).max(connection.window);
        if !connection.listed && !self.hot[from].down {
            self.list(from, end as usize);
            self.wake(queue, now, from);
        }
    }
}
