//! Memory budget of jobs.

use std::path::{Component, Path, PathBuf};

/// Budget in bytes below which a worker switches to low-memory mode by itself.
pub const LOW_MEMORY_BYTES: u64 = 4 << 30;

/// Maximum bytes of the inputs of waiting jobs in low-memory mode.
pub(crate) const LOW_MEMORY_QUEUE_BYTES: u64 = 64 << 20;

/// Percentage of the host's memory available to jobs.
const BUDGET_PERCENT: u64 = 60;

/// The default budget: 60 % of the host's memory, or of the limit of the process's control group or an enclosing one,
/// whichever is least. None if none is known.
pub(crate) fn budget_bytes() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.as_deref().and_then(meminfo_bytes);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = group_bytes(Path::new("/sys/fs/cgroup"), &groups);
    let bytes = machine.into_iter().chain(limit).min()?;
    Some(bytes / 100 * BUDGET_PERCENT)
}

/// The lowest limit of the control groups in `/proc/self/cgroup` and their ancestors, under the folder of the groups. A
/// systemd unit (`MemoryMax=`) has its limit deep below that folder. In a container the folder itself may be the group,
/// whatever path the process reports.
fn group_bytes(folder: &Path, groups: &str) -> Option<u64> {
    let path_of = |is_meant: &dyn Fn(&str, &str) -> bool| -> PathBuf {
        let path = groups.lines().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is_meant(number, controllers).then_some(path)
        });
        let parts = Path::new(path.unwrap_or_default()).components();
        let parts = parts.filter(|part| matches!(part, Component::Normal(_)));
        parts.collect()
    };
    let unified = path_of(&|number, controllers| number == "0" && controllers.is_empty());
    let own = path_of(&|_, controllers| controllers.split(',').any(|one| one == "memory"));
    let versions = [
        (folder.to_owned(), unified, "memory.max"),
        (folder.join("memory"), own, "memory.limit_in_bytes"),
    ];
    let limits = versions.iter().flat_map(|(base, path, file)| {
        let files = path
            .ancestors()
            .map(move |group| base.join(group).join(file));
        files.filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
    });
    limits.min()
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

    fn write(folder: &Path, file: &str, text: &str) {
        let file = folder.join(file);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(file, text).expect("written");
    }

    #[test]
    fn the_least_limit_of_a_group_and_of_those_around_it_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let unit = "0::/system.slice/node.service\n";
        assert_eq!(group_bytes(folder, unit), None);
        write(folder, "memory.max", "max\n");
        write(folder, "system.slice/memory.max", "max\n");
        write(folder, "system.slice/node.service/memory.max", "4096\n");
        write(folder, "system.slice/other.service/memory.max", "1\n");
        assert_eq!(group_bytes(folder, unit), Some(4096));
        assert_eq!(group_bytes(folder, ""), None);
        write(folder, "system.slice/memory.max", "2048\n");
        assert_eq!(group_bytes(folder, unit), Some(2048));
        // The group of a container is its root, even if the path on the host is shown.
        write(folder, "memory.max", "1024\n");
        for path in ["/", "/docker/0123", "/../..", "/system.slice"] {
            let groups = format!("0::{path}\n");
            assert_eq!(group_bytes(folder, &groups), Some(1024), "{path}");
        }
        // Version 1 has a folder for each controller.
        let old = "9:cpu,cpuacct:/a\n4:memory:/a/b\n1:name=systemd:/c\n0::/\n";
        write(
            folder,
            "memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        write(folder, "memory/a/b/memory.limit_in_bytes", "512\n");
        write(folder, "memory/c/memory.limit_in_bytes", "2\n");
        assert_eq!(group_bytes(folder, old), Some(512));
    }

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
