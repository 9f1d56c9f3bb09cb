//! Maps of a machine, most of which are empty: a million machines stand beside each other in a simulation.

use std::collections::BTreeMap;

/// Forgets what stands before `first`. A map that is empty then keeps no room: splitting one allocates room for
/// eleven entries, even where there are none.
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
