//! Draws some of many numbers, such as the validators that an attack leaves out.

use crate::latency::mix;

/// Draws a percentage of `count` numbers, at least one, using a key; ascending.
pub(super) fn drawn(count: u32, percent: u64, key: u64) -> Vec<u32> {
    let some = (u64::from(count) * percent + 50) / 100;
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_by_key(|number| mix([key, (*number).into(), 0, 0]));
    order.truncate(some.max(1) as usize);
    order.sort_unstable();
    order
}
