//! The processor of a node: its cores and their speed.

/// Processors of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    /// Cores.
    pub(crate) cores: u16,
    /// Time that work takes, in percent of its cost.
    pub(crate) factor_pct: u64,
}

impl Processor {
    /// Core time for work of this cost.
    #[inline]
    pub(super) fn time_ns(&self, cost_ns: u64) -> u64 {
        let wide = u128::from(cost_ns) * u128::from(self.factor_pct);
        // Rounded up: work that costs anything takes time, unless the factor is 0.
        u64::try_from(wide.div_ceil(100)).unwrap_or(u64::MAX)
    }
}
