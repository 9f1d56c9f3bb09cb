//! Pairs of contradicting statements of one validator, kept as proof.

use alphorn_proto::Evidence;
use alphorn_types::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of pairs, and of their bytes. The oldest are dropped, and all are counted.
const PAIRS_MAX: usize = 1_024;
pub(crate) const BYTES_MAX: usize = 16 << 20;

/// A pair, and when it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Counts the pairs of this run, from 1.
    pub(crate) number: u64,
    pub(crate) at: Time,
    pub(crate) evidence: Evidence,
}

impl Pair {
    fn bytes(&self) -> usize {
        self.evidence.first.len() + self.evidence.second.len()
    }
}

/// The newest pairs.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    kept: VecDeque<Arc<Pair>>,
    bytes: usize,
    count: u64,
    /// The readers' copy. None if the list changed since it was made.
    copy: Option<Arc<[Arc<Pair>]>>,
}

impl Pairs {
    pub(super) fn put(&mut self, at: Time, evidence: Evidence) {
        self.count += 1;
        let pair = Pair {
            number: self.count,
            at,
            evidence,
        };
        // It would displace all others and still not fit. Its number is used up, so readers see the gap.
        if pair.bytes() > BYTES_MAX {
            return;
        }
        self.bytes += pair.bytes();
        self.kept.push_back(Arc::new(pair));
        while self.kept.len() > PAIRS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.kept.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes();
        }
        self.copy = None;
    }

    /// The pairs, oldest first.
    pub(super) fn all(&mut self) -> Arc<[Arc<Pair>]> {
        let made = || self.kept.iter().cloned().collect();
        self.copy.get_or_insert_with(made).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_scheme::Bytes;

    #[test]
    fn the_newest_pairs_are_kept_within_their_bounds() {
        let mut pairs = Pairs::default();
        let pair = |bytes: usize| Evidence {
            first: Bytes::from(vec![1; bytes].as_slice()),
            second: Bytes::from(vec![2; bytes].as_slice()),
        };
        for ms in 0..2_000 {
            pairs.put(Time::from_millis(ms), pair(10));
        }
        let all = pairs.all();
        assert_eq!((all.len(), all[0].at), (PAIRS_MAX, Time::from_millis(976)));
        assert_eq!((all[0].number, all[PAIRS_MAX - 1].number), (977, 2_000));
        for ms in 2_000..2_100 {
            pairs.put(Time::from_millis(ms), pair(1 << 20));
        }
        assert!(pairs.bytes <= BYTES_MAX && pairs.all().len() == 8);
        pairs.put(Time::from_millis(3_000), pair(BYTES_MAX));
        assert_eq!(pairs.all().len(), 8, "what is too long is counted alone");
    }
}
