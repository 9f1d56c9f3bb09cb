//! How much memory jobs may have.

/// Below this budget a worker is in low-memory mode by itself, in bytes.
pub const LOW_MEMORY_BYTES: u64 = 4 << 30;

/// Bytes of the inputs of jobs that wait, at most, in low-memory mode.
pub const LOW_MEMORY_QUEUE_BYTES: u64 = 64 << 20;

/// Part of the machine's memory that jobs may have, in percent.
const BUDGET_PERCENT: u64 = 60;

/// The default budget: 60 % of the machine's memory or of the limit of the process's control group,
/// whichever is less. None where neither is known.
pub(crate) fn budget_bytes() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.as_deref().and_then(meminfo_bytes);
    let limits = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let limits = limits
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok());
    let limit = limits.filter_map(|text| text.trim().parse().ok()).min();
    let bytes = machine.into_iter().chain(limit).min()?;
    Some(bytes / 100 * BUDGET_PERCENT)
}

/// `MemTotal` of `/proc/meminfo`.
fn meminfo_bytes(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_what_linux_says() {
        let text = "MemFree:  12 kB\nMemTotal:       24576000 kB\n";
        assert_eq!(meminfo_bytes(text), Some(24_576_000 * 1024));
        assert_eq!(meminfo_bytes("MemTotal: lots"), None);
        if let Some(bytes) = budget_bytes() {
            assert!(bytes > 0 && bytes < 1 << 50, "{bytes}");
        }
    }
}
