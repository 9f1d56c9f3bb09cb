//! A job's supervisor as the watch of a computation.

use alphorn_scheme::Pulse;
use alphorn_stark::Watch;

/// A pulse that beats, and says whether the job is stopped, whenever the computation asks.
pub(crate) struct Watched(pub(crate) Pulse);

impl Watch for Watched {
    fn stopped(&self) -> bool {
        self.0.beat_and_stopped()
    }
}
