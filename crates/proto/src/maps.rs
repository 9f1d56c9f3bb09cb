//! Helpers for per-node maps, most of which are empty: a simulation may hold a million nodes.

use std::collections::BTreeMap;

/// Drops entries before `first`. A map that becomes empty keeps no allocation: splitting one reserves space for eleven
/// entries, even if there are none.
pub(crate) fn forget_before<K: Ord, V>(map: &mut BTreeMap<K, V>, first: &K) {
    if map.first_key_value().is_some_and(|(key, _)| key < first) {
        *map = map.split_off(first);
    }
    if map.is_empty() {
        *map = BTreeMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_is_forgotten_and_nothing_else() {
        let map = BTreeMap::from([(1, 'a'), (3, 'b'), (4, 'c')]);
        for first in 0..6 {
            let mut left = map.clone();
            forget_before(&mut left, &first);
            assert!(left.iter().eq(map.range(first..)), "{first}");
        }
    }
}
