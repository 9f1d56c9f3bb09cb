//! The time of a worker whose embedder keeps none of its own.

use alphorn_types::Time;
use std::time::{Instant, SystemTime};

/// Time since the Unix epoch: read from the wall clock now, and counted on from here by a clock that
/// nobody sets.
pub fn steady_time() -> impl Fn() -> Time + Clone + Send + Sync + 'static {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock from before 1970 serves as well: only differences matter.
    let wall = wall.unwrap_or_default();
    let begin = Instant::now();
    move || {
        let nanos = (wall + begin.elapsed()).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
