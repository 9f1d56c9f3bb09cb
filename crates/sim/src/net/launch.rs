//! The way of a message: onto the wire, through loss and partitions, into the receiver's downlink.

use super::queue::{Flight, mark};
use super::{BIN_NS, NONE, Net, Rate, Sent, event};
use crate::calendar::{Event, EventQueue};
use crate::latency::mix;

/// Bytes of a packet, the unit of loss.
const PACKET_BYTES: u64 = 1448;
const JITTER: u64 = 1;
const LOSS: u64 = 2;
const TAIL: u64 = 3;

/// What the way does to a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Its first bit arrives after so many nanoseconds.
    Arrives(u64),
    Lost,
}

impl<M> Net<M> {
    /// Puts a flight and its train onto the wire.
    #[inline]
    pub(super) fn launch<Q: EventQueue>(&mut self, queue: &mut Q, now: u64, from: u32, first: u32) {
        if self.goes_directly(&self.flights[first]) {
            let flight = self.flights.remove(first);
            return self.launch_directly(queue, now, from, &flight);
        }
        let bytes = self.count_sent(now, first);
        let flight = self.flights[first];
        let Flight { to, end, .. } = flight;
        let wire_ns = self.occupy(queue, now, from, (&flight, bytes));
        let base_ns = self.latency.base_ns(from, to);
        let mut delay_ns = base_ns;
        if !self.draws.is_empty() || !self.cuts.is_empty() {
            match self.way(now, (from, end as usize), (bytes, wire_ns)) {
                Way::Arrives(ns) => delay_ns = ns,
                Way::Lost => return self.lose(first),
            }
        }
        let mut first_ns = now.saturating_add(delay_ns);
        if self.windowed {
            first_ns = self.track(queue, (now, first_ns, wire_ns), (from, end), bytes);
        }
        self.flights[first].last_ns = first_ns.saturating_add(wire_ns);
        if self.direct {
            self.settle(queue, first_ns, to, first);
        } else {
            queue.push(first_ns, to, event::ARRIVAL, first);
        }
    }

    /// Takes the uplink for a transmission; for how long.
    #[inline]
    fn occupy<Q: EventQueue>(
        &mut self,
        queue: &mut Q,
        now: u64,
        from: u32,
        (flight, bytes): (&Flight, u64),
    ) -> u64 {
        let hot = &mut self.hot[from as usize];
        let wire_ns = Rate::wire_ns(bytes, self.rates[usize::from(hot.rate)].up_bps);
        let free_ns = now.saturating_add(wire_ns);
        hot.up_free_ns = free_ns;
        self.tally[from as usize].transmit(now, wire_ns, bytes);
        self.loads.at(now, from).up += bytes;
        self.balance.started += bytes;
        if flight.marks & mark::PACED != 0 && flight.message != NONE {
            hot.called = true;
            let peer = self.peer_number(from, flight.end);
            queue.push(free_ns, from, event::UPLINK, peer + 1);
        }
        wire_ns
    }

    /// Whether all that will happen to a transmission is known when it starts, and an event can say it.
    #[inline]
    pub(super) fn goes_directly(&self, flight: &Flight) -> bool {
        let small = u32::try_from(flight.bytes).is_ok();
        self.direct && self.cuts.is_empty() && flight.next == NONE && small
    }

    /// Puts a message onto the wire that [goes directly](Net::goes_directly): it needs no flight there.
    #[inline]
    pub(super) fn launch_directly<Q: EventQueue>(
        &mut self,
        queue: &mut Q,
        now: u64,
        from: u32,
        flight: &Flight,
    ) {
        let Flight {
            bytes, to, back, ..
        } = *flight;
        let bin = self.bin(now);
        let sent = &mut self.series[bin + usize::from(flight.kind)];
        sent.messages += 1;
        sent.bytes += bytes;
        let wire_ns = self.occupy(queue, now, from, (flight, bytes));
        let first_ns = now.saturating_add(self.latency.base_ns(from, to));
        let last_ns = first_ns.saturating_add(wire_ns);
        let done_ns = self.take_place(first_ns, to, bytes).max(last_ns);
        let handled_ns = done_ns.saturating_add(self.handle_ns);
        let what = (event::MESSAGE, flight.message);
        queue.push_with(handled_ns, to, what, [back, bytes as u32]);
    }

    /// Takes the place of a transmission in the downlink of its receiver, where it begins at `now` at
    /// the earliest; when it ends.
    #[inline]
    fn take_place(&mut self, now: u64, to: u32, bytes: u64) -> u64 {
        let hot = &mut self.hot[to as usize];
        let wire_ns = Rate::wire_ns(bytes, self.rates[usize::from(hot.rate)].down_bps);
        hot.down_free_ns = hot.down_free_ns.max(now).saturating_add(wire_ns);
        hot.down_free_ns
    }

    /// Where the series has the kinds of a bin.
    #[inline]
    fn bin(&mut self, now: u64) -> usize {
        let bin = (now / BIN_NS) as usize * self.kinds;
        if self.series.len() < bin + self.kinds {
            self.series.resize(bin + self.kinds, Sent::default());
        }
        bin
    }

    /// Bytes of a flight and its train, counted by kind.
    #[inline]
    fn count_sent(&mut self, now: u64, first: u32) -> u64 {
        let bin = self.bin(now);
        let (mut bytes, mut index) = (0, first);
        while index != NONE {
            let flight = &self.flights[index];
            let sent = &mut self.series[bin + usize::from(flight.kind)];
            sent.messages += u64::from(flight.message != NONE);
            sent.bytes += flight.bytes;
            bytes += flight.bytes;
            index = flight.next;
        }
        bytes
    }

    /// Draws jitter and loss, and looks at partitions.
    fn way(&mut self, now: u64, (from, end): (u32, usize), (bytes, wire_ns): (u64, u64)) -> Way {
        let to = self.graph.peer(end);
        let base_ns = self.latency.base_ns(from, to);
        let mut delay_ns = base_ns;
        if let Some(draws) = self.draws.get_mut(end) {
            let count = u64::from(*draws);
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
                if !self.windowed {
                    return Way::Lost;
                }
                // Fast recovery takes a round trip, the loss of a tail waits for a timer.
                let one = probability(self.link.loss_ppm, 1);
                let tail = u128::from(draw(TAIL)) * u128::from(loss) < u128::from(one) << 64;
                let round_ns = base_ns + self.latency.base_ns(to, from);
                let halves = if tail { 5 } else { 2 };
                delay_ns = delay_ns.saturating_add(round_ns * halves / 2);
                self.connections[end].cut(2 * PACKET_BYTES);
            }
        }
        let arrives = |delay_ns: u64| now.saturating_add(delay_ns).saturating_add(wire_ns);
        for cut in &self.cuts {
            let apart = cut.parts(from, to);
            let at = arrives(delay_ns);
            if !apart || at <= cut.from_ns || now >= cut.until_ns {
                continue;
            }
            if cut.until_ns > cut.break_ns {
                return Way::Lost;
            }
            // The stream sends again when the way is free.
            delay_ns = delay_ns.max((cut.until_ns - now).saturating_add(base_ns));
        }
        Way::Arrives(delay_ns)
    }

    /// A transmission that nobody will receive.
    pub(crate) fn lose(&mut self, first: u32) {
        let mut index = first;
        while index != NONE {
            let flight = self.flights.remove(index);
            self.balance.lost += flight.bytes;
            if flight.message != NONE {
                self.messages.release(flight.message);
            }
            index = flight.next;
        }
    }

    /// A first bit arrives: takes the place in the receiver's downlink.
    #[inline]
    pub(crate) fn settle<Q: EventQueue>(&mut self, queue: &mut Q, now: u64, to: u32, first: u32) {
        let Flight {
            last_ns,
            bytes,
            next,
            ..
        } = self.flights[first];
        let (mut bytes, mut count, mut index) = (bytes, 1, next);
        while index != NONE {
            bytes += self.flights[index].bytes;
            index = self.flights[index].next;
            count += 1;
        }
        let done_ns = self.take_place(now, to, bytes).max(last_ns);
        let handled_ns = done_ns.saturating_add(self.handle_ns * count);
        queue.push(handled_ns, to, event::DELIVERY, first);
    }

    /// Whether the receiver's processor was free for a delivery that ends now; if not it is reserved,
    /// and the delivery comes again.
    #[inline]
    pub(crate) fn handles<Q: EventQueue>(
        &mut self,
        queue: &mut Q,
        now: u64,
        to: u32,
        first: u32,
    ) -> bool {
        let mut cost_ns = self.handle_ns;
        let mut index = self.flights[first].next;
        while index != NONE {
            cost_ns += self.handle_ns;
            index = self.flights[index].next;
        }
        if self.flights[first].marks & mark::RESERVED == 0
            && let Some(at_ns) = self.reserve(now, to, cost_ns)
        {
            self.flights[first].marks |= mark::RESERVED;
            queue.push(at_ns, to, event::DELIVERY, first);
            return false;
        }
        self.tally[to as usize].cpu_ns += cost_ns;
        self.loads.at(now, to).cpu_ns += cost_ns;
        true
    }

    /// The same for a message without a flight.
    #[inline]
    pub(crate) fn handles_message<Q: EventQueue>(&mut self, queue: &mut Q, event: &Event) -> bool {
        let (now, to) = (event.time_ns, event.node);
        if event.kind() == event::MESSAGE
            && let Some(at_ns) = self.reserve(now, to, self.handle_ns)
        {
            let what = (event::RESERVED, event.arg());
            queue.push_with(at_ns, to, what, event.more);
            return false;
        }
        self.tally[to as usize].cpu_ns += self.handle_ns;
        self.loads.at(now, to).cpu_ns += self.handle_ns;
        true
    }

    /// Takes a node's processor for what ends now if it is free all the time; if not, when it ends.
    #[inline]
    fn reserve(&mut self, now: u64, node: u32, cost_ns: u64) -> Option<u64> {
        let hot = &mut self.hot[node as usize];
        if hot.cpu_free_ns > now - cost_ns {
            hot.cpu_free_ns = hot.cpu_free_ns.saturating_add(cost_ns);
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
    // All arrive with (1 - p)^packets: by squaring, in units of 2^-63, rounded down.
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
