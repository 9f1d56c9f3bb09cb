//! The state of a connection: its congestion window, and what waits for it.

use super::queue::Queue;

/// State of one direction of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) window: u64,
    pub(super) flying: u64,
    /// Time of the last activity.
    pub(super) active_ns: u64,
    /// When the last part arrives, since a stream keeps its order.
    pub(super) arrives_ns: u64,
    pub(super) waiting: Queue,
    /// Whether it is listed among the turns, or has a flight in the node's queue.
    pub(super) listed: bool,
}

impl Connection {
    pub(super) fn new(window: u64) -> Self {
        Connection {
            window,
            flying: 0,
            active_ns: 0,
            arrives_ns: 0,
            waiting: Queue::EMPTY,
            listed: false,
        }
    }

    /// Reduces the window to seven tenths after a loss.
    pub(super) fn cut(&mut self, least: u64) {
        self.window = (self.window / 10).saturating_mul(7).max(least);
    }
}
