//! What a run tells whoever waits for it.

/// Receives the progress of a run; what it does with it never changes the run.
pub trait Progress: Send {
    /// `done` of `total` units of the named work are finished. The total grows while work joins.
    fn phase(&mut self, name: &str, done: u64, total: u64);
}

/// Nobody is waiting.
impl Progress for () {
    fn phase(&mut self, _name: &str, _done: u64, _total: u64) {}
}
