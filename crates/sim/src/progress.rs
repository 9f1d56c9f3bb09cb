//! Progress reports of a run.

/// Receives the progress of a run; its actions never change the run.
pub trait Progress: Send {
    /// `done` of `total` units of the named work are finished. The total grows as work is added.
    fn phase(&mut self, name: &str, done: u64, total: u64);
}

/// The null receiver.
impl Progress for () {
    fn phase(&mut self, _name: &str, _done: u64, _total: u64) {}
}
