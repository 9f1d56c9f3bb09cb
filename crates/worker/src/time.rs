//! Clock for workers whose embedder does not provide one.

use alphorn_types::Time;
use std::time::{Instant, SystemTime};

/// Time since the Unix epoch: read once from the wall clock, then advanced by a clock that is never
/// adjusted.
pub fn steady_time() -> impl Fn() -> Time + Clone + Send + Sync + 'static {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before 1970 is fine too: only differences matter.
    let wall = wall.unwrap_or_default();
    let begin = Instant::now();
    move || {
        let nanos = (wall + begin.elapsed()).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
