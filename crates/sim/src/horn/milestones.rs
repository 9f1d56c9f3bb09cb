//! When nodes have which share of the votes.

/// Shares of all votes that are timed, in thousandths.
pub(super) const SHARES_PERMILLE: [u64; 3] = [667, 900, 990];

/// When a node had which share of the votes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Milestones {
    /// When it had 2/3, 90 % and 99 % of them, from the start of the slot; absent if never.
    pub at_ns: [Option<u64>; SHARES_PERMILLE.len()],
}

impl Milestones {
    pub(super) fn note(&mut self, now_ns: u64, votes: u64, all: u64) {
        for (at, share) in self.at_ns.iter_mut().zip(SHARES_PERMILLE) {
            let enough = u128::from(votes) * 1000 >= u128::from(all) * u128::from(share);
            if at.is_none() && enough {
                *at = Some(now_ns);
            }
        }
    }
}
