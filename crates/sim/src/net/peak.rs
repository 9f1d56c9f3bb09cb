//! The busiest second of an amount that is spread over time.

const SECOND_NS: u64 = 1_000_000_000;

/// Maximum of an amount per second of the clock. Amounts must be added in order of their start times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peak {
    pub(super) sum: u64,
    most: u64,
    second: u32,
}

impl Peak {
    /// The maximum.
    pub(crate) fn most(&self) -> u64 {
        self.most.max(self.sum)
    }

    /// Spreads an amount over the seconds in which it occurs.
    #[inline]
    pub(crate) fn add(&mut self, start_ns: u64, for_ns: u64, amount: u64) {
        let second = start_ns / SECOND_NS;
        if u64::from(self.second) != second {
            self.begin(second);
        }
        let left_ns = (second + 1) * SECOND_NS - start_ns;
        if for_ns <= left_ns {
            self.sum += amount;
            return;
        }
        self.sum += share(amount, left_ns, for_ns);
        let end_ns = start_ns.saturating_add(for_ns);
        // Seconds that it fills have equal shares, so one of them is enough.
        if for_ns - left_ns >= SECOND_NS {
            self.most = self.most.max(share(amount, SECOND_NS, for_ns));
        }
        self.begin(end_ns / SECOND_NS);
        self.sum = share(amount, end_ns % SECOND_NS, for_ns);
    }

    fn begin(&mut self, second: u64) {
        self.most = self.most.max(self.sum);
        self.sum = 0;
        self.second = u32::try_from(second).unwrap_or(u32::MAX);
    }
}

/// The share of an amount that falls into part of its time.
#[inline]
pub(crate) fn share(amount: u64, part_ns: u64, of_ns: u64) -> u64 {
    (u128::from(amount) * u128::from(part_ns) / u128::from(of_ns.max(1))) as u64
}
