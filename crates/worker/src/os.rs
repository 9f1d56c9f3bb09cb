//! Operating system calls. On systems other than Linux, priorities and limits are left unchanged, and memory is
//! unknown.

use std::num::NonZeroU32;

/// Lowers the priority of the calling thread by this much, relative to the process's first thread, whose priority is
/// set by the operator. A failure affects scheduling, not results.
pub(crate) fn nice_thread(niceness: u8) {
    nice_below(rustix::process::getpid(), niceness);
}

/// Like [`nice_thread`], for another process's first thread. A thread or child inherits the niceness of its creator,
/// which may already be that of a lane.
fn nice_below(process: rustix::process::Pid, niceness: u8) {
    #[cfg(target_os = "linux")]
    {
        let thread = rustix::thread::gettid();
        let base = rustix::process::getpriority_process(Some(process)).unwrap_or(0);
        let nice = base.saturating_add(i32::from(niceness)).min(19);
        let _ = rustix::process::setpriority_process(Some(thread), nice);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (process, niceness);
}

/// Processor time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(rustix::time::ClockId::ThreadCPUTime)
}

/// Processor time of this process in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    clock_ns(rustix::time::ClockId::ProcessCPUTime)
}

/// Processor time of another process, over all its threads, if the system reports it.
pub(crate) fn cpu_of(process: u32) -> Option<std::time::Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // After the name, which may contain anything: user and system time are fields 14 and 15 of proc(5).
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let mut ticks = || times.next()?.parse::<u64>().ok();
    let sum = ticks()?.checked_add(ticks()?)?;
    let a_second = rustix::param::clock_ticks_per_second().max(1);
    let ms = u128::from(sum) * 1_000 / u128::from(a_second);
    Some(std::time::Duration::from_millis(u64::try_from(ms).ok()?))
}

fn clock_ns(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// Limits this process as a child of `parent`: it dies with the parent's thread that started it, writes no core file,
/// is killed first when memory runs out, and gets `data_bytes_max` of memory (zero: no limit).
///
/// # Errors
///
/// If the parent is already gone.
pub(crate) fn limit_child(parent: u32, niceness: u8, data_bytes_max: u64) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, Signal, setrlimit};
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        let limit = |bytes| Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        let _ = setrlimit(Resource::Core, limit(0));
        if data_bytes_max > 0 {
            let _ = setrlimit(Resource::Data, limit(data_bytes_max));
        }
        let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = data_bytes_max;
    nice_below(
        rustix::process::getppid().unwrap_or_else(rustix::process::getpid),
        niceness,
    );
    // Compared only after the signal was requested: a parent that died before that would never cause it.
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    let named = NonZeroU32::new(parent).map(NonZeroU32::get);
    match now.and_then(|now| u32::try_from(now).ok()) == named {
        true => Ok(()),
        false => Err(format!("the parent {parent} is gone")),
    }
}

/// Resident memory of this process in bytes, current and peak since [`forget_peak`]; zeros if unknown.
pub(crate) fn resident_bytes() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    let now = field("VmRSS:").unwrap_or(0);
    (now, field("VmHWM:").unwrap_or(0).max(now))
}

/// Resets the peak of [`resident_bytes`], if the system allows it.
pub(crate) fn forget_peak() {
    // 5 resets the peak of the resident size, proc(5).
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
