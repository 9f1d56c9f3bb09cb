use super::*;
use proptest::prelude::*;
use std::cell::Cell;

thread_local! {
    /// Windows in a test are at most 2^this ns wide.
    pub(super) static BITS_MAX: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Runs something with windows of at most 2^`bits` ns: with 0, the events of all nodes are in a single order
/// of time.
pub(crate) fn narrow<T>(bits: u32, of: impl FnOnce() -> T) -> T {
    BITS_MAX.set(bits);
    let value = of();
    BITS_MAX.set(u32::MAX);
    value
}

impl Windows {
    /// Opens the next window.
    fn open_next(&mut self, until_ns: u64) -> bool {
        let window = self.next_window();
        window.is_some_and(|window| self.open(window, until_ns))
    }

    /// The next event in any window.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            if !self.is_open() && !self.open_next(u64::MAX) {
                return None;
            }
            if let Some(event) = self.pop() {
                return Some(event);
            }
        }
    }
}

/// SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const NODES: u32 = 60;

/// Nodes that schedule events for themselves at any time, and for others at least `least_ns` later. Returns
/// what each of them sees: the times, and whether another node sent the event.
fn play(seed: u64, least_ns: u64, pause_ns: u64) -> Vec<Vec<(u64, u8, u32)>> {
    let mut windows = Windows::new(least_ns, 0..NODES);
    let mut seen = vec![Vec::new(); NODES as usize];
    // Each node draws for itself, so the order of the nodes changes nothing.
    let mut states: Vec<u64> = (0..NODES)
        .map(|node| seed ^ u64::from(node) << 32)
        .collect();
    for node in 0..NODES {
        windows.push(u64::from(node % 7) * 10, node, 1, node);
    }
    let mut left = vec![300; NODES as usize];
    let mut until_ns = pause_ns;
    while windows.len() > 0 {
        if !windows.is_open() && !windows.open_next(until_ns) {
            assert!(windows.next_time_ns() >= Some(until_ns));
            until_ns = until_ns.saturating_add(pause_ns);
            continue;
        }
        let Some(event) = windows.pop() else {
            continue;
        };
        let (now, node) = (event.time_ns, event.node);
        seen[node as usize].push((now, event.kind(), event.arg()));
        assert!(now < until_ns);
        let state = &mut states[node as usize];
        for _ in 0..draw(state) % 3 {
            let left = &mut left[node as usize];
            if *left == 0 {
                break;
            }
            *left -= 1;
            let scale = [1, 64, 1 << 10, 1 << 14, 1 << 20, 1 << 40][(draw(state) % 6) as usize];
            let delay = draw(state) % scale / 8 * 8;
            let arg = (draw(state) % 1000) as u32;
            if draw(state).is_multiple_of(2) {
                windows.push(now + delay, node, 2, arg);
            } else {
                let to = (draw(state) % u64::from(NODES)) as u32;
                let sent = Departure {
                    wire_ns: draw(state) % 2,
                    number: 300 - *left as u16,
                };
                windows.arrive(now + least_ns + delay, sent, to, arg, [node, 0]);
            }
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn neither_the_width_nor_a_pause_decides_what_a_node_sees(
        seed: u64,
        least_ns in 1_u64..100_000,
        pause_ns in 1_000_u64..1_000_000_000,
    ) {
        let one_time_after_the_other = narrow(0, || play(seed, least_ns, 1 << 60));
        for node in &one_time_after_the_other {
            prop_assert!(node.is_sorted_by_key(|(now, ..)| *now));
        }
        prop_assert_eq!(&play(seed, least_ns, 1 << 60), &one_time_after_the_other);
        prop_assert_eq!(&play(seed, least_ns, pause_ns.max(1 << 32)), &one_time_after_the_other);
        prop_assert_eq!(&narrow(3, || play(seed, least_ns, 1 << 60)), &one_time_after_the_other);
    }
}

fn sent(wire_ns: u64, number: u16) -> Departure {
    Departure { wire_ns, number }
}

#[test]
fn own_events_come_before_those_of_others_and_these_by_their_senders() {
    let mut windows = Windows::new(100, 0..4);
    windows.arrive(500, sent(7, 0), 2, 0, [9, 0]);
    windows.arrive(500, sent(7, 1), 2, 1, [3, 0]);
    windows.push(500, 2, 4, 2);
    windows.push(500, 2, 4, 3);
    windows.push(499, 2, 4, 4);
    windows.push(100, 3, 4, 5);
    windows.push(510, 1, 4, 6);
    let order: Vec<u32> = std::iter::from_fn(|| windows.next().map(|event| event.arg())).collect();
    // 100 is in the window that starts at 64, 499 to 510 in the one that starts at 448, node by node.
    assert_eq!(order, [5, 6, 4, 2, 3, 1, 0]);
    assert_eq!((windows.len(), windows.next_time_ns()), (0, None));
}

#[test]
#[should_panic(expected = "no node reaches another one so soon")]
fn nobody_is_faster_than_the_least_latency() {
    let mut windows = Windows::new(100, 0..4);
    windows.push(70, 1, 0, 0);
    assert!(windows.open_next(u64::MAX));
    windows.arrive(127, sent(0, 0), 2, 0, [0, 0]);
}

#[test]
#[should_panic(expected = "a node schedules for itself")]
fn a_node_schedules_for_itself() {
    let mut windows = Windows::new(100, 0..4);
    windows.push(70, 1, 0, 0);
    assert!(windows.open_next(u64::MAX));
    windows.push(71, 2, 0, 0);
}
