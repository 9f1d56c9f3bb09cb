use super::*;
use proptest::prelude::*;

/// SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Random operations on both queues; times now near, now far, with many ties.
fn agree(seed: u64, operations: u32, rebuild_every: u32) {
    let (mut calendar, mut heap) = (Calendar::default(), Heap::default());
    let (mut state, mut now) = (seed, 0);
    for i in 0..operations {
        let choice = draw(&mut state) % 100;
        // Phases that grow and phases that drain.
        let pushes = if i / 40_000 % 2 == 0 { 60 } else { 40 };
        if choice < pushes {
            let scale = [0, 1, 100, 1 << 13, 1 << 20, 1 << 27, 1 << 38, 1 << 50];
            let delay = match scale[(draw(&mut state) % 8) as usize] {
                0 => 0,
                scale => draw(&mut state) % scale,
            };
            // Rounded times collide.
            let time = (now + delay) / 64 * 64;
            let time = time.max(now);
            let kind = (draw(&mut state) % 16) as u8;
            calendar.push_with(time, i, (kind, i & ARG_MAX), [i, !i]);
            heap.push_with(time, i, (kind, i & ARG_MAX), [i, !i]);
        } else {
            if choice == 99 {
                assert_eq!(calendar.next_time_ns(), heap.next_time_ns());
            }
            let until = match choice % 2 {
                0 => u64::MAX,
                _ => now + (draw(&mut state) % 1000),
            };
            let (a, b) = (calendar.pop_until(until), heap.pop_until(until));
            assert_eq!(a, b, "operation {i}");
            now = a.map_or(now, |event| event.time_ns);
        }
        if i % rebuild_every == rebuild_every - 1 {
            calendar.rebuild((draw(&mut state) % 41) as u32);
        }
        assert_eq!(calendar.len(), heap.len());
    }
    while let Some(event) = heap.pop() {
        assert_eq!(calendar.pop(), Some(event));
    }
    assert_eq!((calendar.pop(), calendar.is_empty()), (None, true));
}

#[test]
fn a_million_operations_agree_with_the_heap() {
    agree(1, 1_000_000, u32::MAX);
    agree(2, 200_000, 20_011);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_seed_agrees_with_the_heap(seed: u64, rebuild in 50_u32..5000) {
        agree(seed, 20_000, rebuild);
    }
}

#[test]
fn events_come_by_time_then_order_of_scheduling() {
    let mut calendar = Calendar::default();
    for (i, time) in [5, 3, 5, 1 << 60, 3].into_iter().enumerate() {
        calendar.push(time, i as u32, 1, ARG_MAX);
    }
    let order: Vec<u32> = std::iter::from_fn(|| calendar.pop().map(|e| e.node)).collect();
    assert_eq!(order, [1, 4, 0, 2, 3]);
}

#[test]
fn what_is_scheduled_before_a_bucket_that_was_looked_at_still_comes_first() {
    let mut calendar = Calendar::default();
    calendar.push(1 << 45, 0, 0, 0);
    assert_eq!(calendar.next_time_ns(), Some(1 << 45));
    calendar.push(7, 1, 2, 3);
    let first = calendar.pop().unwrap();
    assert_eq!((first.node, first.kind(), first.arg()), (1, 2, 3));
    assert_eq!(calendar.pop().unwrap().node, 0);
}

#[test]
fn the_width_follows_the_density() {
    let mut calendar = Calendar::default();
    let mut state = 9;
    // A steady state of 10,000 events, one every 4 ns.
    for i in 0..10_000 {
        calendar.push(draw(&mut state) % 40_000, i, 0, 0);
    }
    for _ in 0..400_000 {
        let event = calendar.pop().unwrap();
        let delay = draw(&mut state) % 80_000;
        calendar.push(event.time_ns + delay, event.node, 0, 0);
    }
    assert!(
        (4..=9).contains(&calendar.width_bits),
        "{}",
        calendar.width_bits
    );
    // Events of one time cannot be parted: the width stays.
    let mut calendar = Calendar::default();
    for i in 0..1000 {
        calendar.push(0, i, 0, 0);
    }
    for _ in 0..200_000 {
        let event = calendar.pop().unwrap();
        calendar.push(event.time_ns + 1_000_000, event.node, 0, 0);
    }
    assert_eq!(calendar.width_bits, WIDTH_BITS);
}

#[test]
fn the_last_holder_gets_the_thing() {
    let mut slab = Slab::default();
    let a = slab.insert("a".to_owned(), 3).unwrap();
    let b = slab.insert("b".to_owned(), 1).unwrap();
    assert_eq!((slab.redeem(a), slab.release(a)), ("a".to_owned(), None));
    assert_eq!(slab.get(a), "a");
    assert_eq!(slab.release(a), Some("a".to_owned()));
    assert_eq!(slab.insert("c".to_owned(), 1), Some(a));
    assert_eq!((slab.get(b).as_str(), slab.len()), ("b", 2));
    slab.hold(b, 1);
    assert_eq!(
        (slab.release(b), slab.release(b)),
        (None, Some("b".to_owned()))
    );
}
