//! The clock type of protocol, worker, node and simulator.

use serde::{Deserialize, Serialize};

/// A point in time in nanoseconds: from the Unix epoch in the node, from genesis in the simulator.
///
/// All arithmetic saturates: a value read from a peer or a file can be shifted without a panic.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(u64);

impl Time {
    /// The latest representable time; a deadline that is never reached.
    pub const MAX: Self = Self(u64::MAX);

    /// Zero: genesis in the simulator, the Unix epoch in the node.
    pub const ZERO: Self = Self(0);

    /// The time `nanos` nanoseconds after zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The time `millis` milliseconds after zero, at most [`Time::MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since zero.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `ns` nanoseconds later, at most [`Time::MAX`].
    #[must_use]
    pub const fn saturating_add_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// `ns` nanoseconds earlier, at least zero.
    #[must_use]
    pub const fn saturating_sub_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }

    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is not earlier.
    #[must_use]
    pub const fn since_ns(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let t = Time::from_millis(4_000);
        assert_eq!(t.as_nanos(), 4_000_000_000);
        assert_eq!(t.saturating_add_ns(5).since_ns(t), 5);
        assert_eq!(t.since_ns(t.saturating_add_ns(5)), 0);
        assert_eq!(t.saturating_sub_ns(u64::MAX), Time::ZERO);
        assert_eq!(Time::MAX.saturating_add_ns(1), Time::MAX);
        assert_eq!(Time::from_millis(u64::MAX), Time::MAX);
    }
}
