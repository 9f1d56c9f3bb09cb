//! The path of a message: onto the wire, through loss and partitions, into the receiver's downlink.

use super::queue::{Flight, mark};
use super::{BIN_NS, Direction, NONE, Net, Next, Outgoing, PART, Sent, event};
use crate::latency::mix;
use crate::windows::{Departure, Event, Windows};

/// Bytes of a packet, the unit of loss.
const PACKET_BYTES: u64 = 1448;
const JITTER: u64 = 1;
const LOSS: u64 = 2;
const TAIL: u64 = 3;

/// What happens to a transmission on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Its first bit arrives after this many nanoseconds.
    Arrives(u64),
    Lost,
}

impl<M: Clone> Net<M> {
    /// Puts a flight onto the wire.
    #[inline]
    pub(super) fn launch(&mut self, queue: &mut Windows, now: u64, from: u32, flight: &Flight) {
        let mut flight = *flight;
        let (message, end) = (flight.message, flight.end);
        let direction = Direction {
            node: from,
            end: end as usize,
        };
        let (wait_ns, handshake) = match self.dials.is_empty() {
            true => (0, 0),
            false => self.dial(now, direction),
        };
        flight.bytes += handshake;
        self.balance.offered += handshake;
        let bytes = flight.bytes;
        let bin = self.bin(now);
        let sent = &mut self.series[bin + usize::from(flight.kind)];
        sent.messages += u64::from(message != NONE);
        sent.bytes += bytes;
        let wire_ns = self.occupy(queue, now, from, &flight);
        if wait_ns > 0 || handshake > 0 {
            let left_ns = now.saturating_add(wait_ns).saturating_add(wire_ns);
            self.dials.keep_until(end, left_ns);
        }
        let to = self.graph.peer(direction.end);
        let mut delay_ns = self.latency.base_ns(from, to);
        if !self.draws.is_empty() || !self.cuts.is_empty() {
            match self.way(now, direction, bytes, wire_ns) {
                Way::Arrives(ns) => delay_ns = ns,
                Way::Lost => return self.lose(message, bytes),
            }
        }
        // Windows are this long at most: a shorter way could end in the one that is open.
        let on_way_ns = delay_ns.max(self.least_ns).saturating_add(wait_ns);
        let mut first_ns = now.saturating_add(on_way_ns);
        if self.windowed {
            first_ns = self.track(queue, now, first_ns, wire_ns, direction, bytes);
        }
        let back = self.graph.back(direction.end);
        let bytes = u32::try_from(bytes).expect("messages are bounded below 4 GiB");
        let hot = &mut self.hot[from];
        hot.number = hot.number.wrapping_add(1);
        let sent = Departure {
            wire_ns,
            number: hot.number,
        };
        if self.hot.numbers().contains(&to) {
            return queue.arrive(first_ns, sent, to, message.min(PART), [back, bytes]);
        }
        self.outgoing_ns = self.outgoing_ns.min(first_ns);
        // Spans have their messages to themselves, so it goes along.
        let message = (message != NONE).then(|| self.messages.redeem(message));
        self.outgoing[(to / self.span_nodes) as usize].push(Outgoing {
            time_ns: first_ns,
            sent,
            node: to,
            back,
            bytes,
            message,
        });
    }

    /// Queues what other spans sent to nodes of this one.
    pub(crate) fn enqueue(
        &mut self,
        queue: &mut Windows,
        incoming: impl Iterator<Item = Outgoing<M>>,
    ) {
        for Outgoing {
            time_ns,
            sent,
            node,
            back,
            bytes,
            message,
        } in incoming
        {
            let index = match message {
                None => Some(PART),
                Some(message) => self.messages.insert(message, 1),
            };
            match index {
                Some(index) => queue.arrive(time_ns, sent, node, index, [back, bytes]),
                None => self.full = true,
            }
        }
    }

    /// Occupies the uplink for a transmission, and returns for how long.
    #[inline]
    fn occupy(&mut self, queue: &mut Windows, now: u64, from: u32, flight: &Flight) -> u64 {
        let bytes = flight.bytes;
        let wire_ns = self.up_ns(self.hot[from].rate, bytes);
        let hot = &mut self.hot[from];
        let free_ns = now.saturating_add(wire_ns);
        hot.up_free_ns = free_ns;
        self.tally[from].transmit(now, wire_ns, bytes);
        self.loads.at(now, from).up += bytes;
        self.balance.started += bytes;
        if flight.marks & mark::PACED != 0 && flight.message != NONE {
            assert!(!self.lazy, "a network knows whether messages are paced");
            hot.next = Next::GoesOn;
            let peer = self.peer_number(from, flight.end);
            queue.push(free_ns, from, event::UPLINK, peer + 1);
        }
        wire_ns
    }

    /// Reserves the slot of a transmission in its receiver's downlink, starting at `now` at the earliest, and
    /// returns when it ends.
    #[inline]
    fn take_place(&mut self, now: u64, to: u32, bytes: u64) -> u64 {
        let wire_ns = self.down_ns(self.hot[to].rate, bytes);
        let hot = &mut self.hot[to];
        hot.down_free_ns = hot.down_free_ns.max(now).saturating_add(wire_ns);
        hot.down_free_ns
    }

    /// Index in the series where the kinds of a bin start.
    #[inline]
    fn bin(&mut self, now: u64) -> usize {
        let bin = (now / BIN_NS) as usize * self.kinds;
        if self.series.len() < bin + self.kinds {
            self.series.resize(bin + self.kinds, Sent::default());
        }
        bin
    }

    /// How long a message waits for the connection of a direction, and the bytes of the handshake if it is the
    /// first message.
    fn dial(&self, now: u64, direction: Direction) -> (u64, u64) {
        if let Some(wait_ns) = self.dials.wait_ns(now, direction.end as u32) {
            return (wait_ns, 0);
        }
        let (from, to) = (direction.node, self.graph.peer(direction.end));
        let round_ns = self.latency.base_ns(from, to) + self.latency.base_ns(to, from);
        (round_ns * 3 / 2, self.dials.bytes())
    }

    /// Draws jitter and loss, and applies partitions.
    fn way(&mut self, now: u64, direction: Direction, bytes: u64, wire_ns: u64) -> Way {
        let Direction { node: from, end } = direction;
        let to = self.graph.peer(end);
        let base_ns = self.latency.base_ns(from, to);
        let mut delay_ns = base_ns;
        if let Some(draws) = self.draws.get_mut(end as u32) {
            let count = u64::from(*draws);
            // Counted for each end, so that no other traffic shifts its draws.
            *draws = draws.wrapping_add(1);
            let link = u64::from(from) << 32 | u64::from(to);
            let seed = self.seed;
            let draw = |what: u64| mix([seed, link, count, what]);
            if self.latency.jitter_pct() > 0 {
                delay_ns += self.latency.jitter_ns(base_ns, draw(JITTER));
            }
            let packets = bytes.div_ceil(PACKET_BYTES).max(1);
            let loss = probability(self.link.loss_ppm, packets);
            if loss > 0 && draw(LOSS) < loss {
                // Fast recovery takes a round trip; the loss of a tail waits for a timer.
                // Given that a packet is lost, the last one is with probability `one` / `loss`.
                let one = probability(self.link.loss_ppm, 1);
                let tail = u128::from(draw(TAIL)) * u128::from(loss) < u128::from(one) << 64;
                let round_ns = base_ns + self.latency.base_ns(to, from);
                let halves = if tail { 5 } else { 2 };
                delay_ns = delay_ns.saturating_add(round_ns * halves / 2);
                // A scenario with loss has windows, so the connection has a state.
                self.connections[end as u32].cut(2 * PACKET_BYTES);
            }
        }
        let arrives = |delay_ns: u64| now.saturating_add(delay_ns).saturating_add(wire_ns);
        for cut in &self.cuts {
            let apart = cut.parts(from, to);
            let at = arrives(delay_ns);
            // The last bit arrives before the cut begins, or the first one leaves after its end.
            if !apart || at <= cut.from_ns || now >= cut.until_ns {
                continue;
            }
            if cut.until_ns > cut.break_ns {
                return Way::Lost;
            }
            // The stream retransmits when the path is clear again.
            delay_ns = delay_ns.max((cut.until_ns - now).saturating_add(base_ns));
        }
        Way::Arrives(delay_ns)
    }

    /// Counts a transmission that will not be received.
    pub(crate) fn lose(&mut self, message: u32, bytes: u64) {
        self.balance.lost += bytes;
        if message < PART {
            self.messages.release(message);
        }
    }

    /// A first bit arrives: reserves the slot in the receiver's downlink, and returns when the message is complete
    /// and handled.
    #[inline]
    pub(crate) fn settle(&mut self, event: &Event) -> u64 {
        if !self.dials.is_empty() {
            let first = self.graph.first_end(event.node);
            self.dials.answer(first + event.more[0], event.time_ns);
        }
        let last_ns = event.time_ns.saturating_add(event.wire_ns());
        let done_ns = self.take_place(event.time_ns, event.node, event.more[1].into());
        done_ns.max(last_ns).saturating_add(self.handle_ns)
    }

    /// Takes the receiver's processor for a delivery that ends now. If it was busy for part of the time, returns
    /// when the delivery ends instead.
    #[inline]
    pub(crate) fn reserve(&mut self, now: u64, node: u32) -> Option<u64> {
        let hot = &mut self.hot[node];
        // The delivery was scheduled for the end of its handling on an idle processor.
        if hot.cpu_free_ns > now - self.handle_ns {
            hot.cpu_free_ns = hot.cpu_free_ns.saturating_add(self.handle_ns);
            return Some(hot.cpu_free_ns);
        }
        hot.cpu_free_ns = now;
        None
    }
}

/// The chance, in units of 2^-64, that at least one of some packets is lost.
fn probability(loss_ppm: u32, packets: u64) -> u64 {
    if loss_ppm == 0 {
        return 0;
    }
    // All arrive with probability (1 - p)^packets, by squaring, in units of 2^-63, rounded down.
    let one = 1_u128 << 63;
    let mut square = one * u128::from(1_000_000 - loss_ppm.min(1_000_000)) / 1_000_000;
    let (mut all, mut left) = (one, packets);
    while left > 0 {
        if left & 1 == 1 {
            all = (all * square) >> 63;
        }
        square = (square * square) >> 63;
        left >>= 1;
    }
    u64::try_from((one - all) << 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_of_a_loss_is_that_of_its_packets() {
        for (ppm, packets) in [
            (1, 1),
            (1, 1_000_000),
            (10_000, 100),
            (500_000, 1),
            (900_000, 3),
        ] {
            let exact = 1.0 - (1.0 - f64::from(ppm) / 1e6).powf(packets as f64);
            let found = probability(ppm, packets) as f64 / 2_f64.powi(64);
            assert!(
                (exact - found).abs() < 1e-9,
                "{ppm} ppm of {packets}: {found}"
            );
        }
        assert_eq!(probability(0, 5), 0);
        assert_eq!(probability(900_000, u64::MAX), u64::MAX);
    }
}
