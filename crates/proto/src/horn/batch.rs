//! Messages awaiting a verification job. Batches form by load, not by a timer.
//!
//! A batch has at most one job. While it runs, further messages queue, and they form the next job when it
//! ends. A batch with work and no job is *due* at the end of the current instant, so messages that arrive
//! together are verified together.

use super::fair::{FairQueue, Room, Waits};

/// Messages of one key, in order of arrival.
pub(super) struct Batch<M> {
    queue: FairQueue<M>,
    running: bool,
    due: bool,
}

impl<M> Default for Batch<M> {
    fn default() -> Self {
        Self {
            queue: FairQueue::default(),
            running: false,
            due: false,
        }
    }
}

/// Result of adding a message.
pub(super) struct Taken<M> {
    /// The batch was not due before and is now.
    pub(super) due: bool,
    /// Messages displaced by it.
    pub(super) displaced: Vec<M>,
}

impl<M: Waits> Batch<M> {
    /// Adds a message, displacing others if necessary. None if there is no room for it, see
    /// [`FairQueue::offer`].
    pub(super) fn offer(&mut self, message: M, room: Room) -> Option<Taken<M>> {
        let displaced = self.queue.offer(message, room).ok()?;
        let due = self.become_due();
        Some(Taken { due, displaced })
    }

    /// Takes up to `max` messages for which `fits` holds and marks their job as running. Returns an empty
    /// list if there is nothing to do.
    pub(super) fn take(&mut self, max: usize, fits: impl Fn(&M) -> bool) -> Vec<M> {
        // Also while a job runs: its end makes the batch due again if messages wait.
        self.due = false;
        if self.running {
            return Vec::new();
        }
        let taken = self.queue.take(max, fits);
        self.running = !taken.is_empty();
        taken
    }

    /// Marks the job as ended. True if the batch is due again.
    pub(super) fn ended(&mut self) -> bool {
        self.running = false;
        !self.queue.is_empty() && self.become_due()
    }

    /// Bytes of all waiting messages.
    pub(super) fn bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Whether no message waits and no job runs.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.running
    }

    /// The first waiting message.
    pub(super) fn first(&self) -> Option<&M> {
        self.queue.first()
    }

    /// Removes and returns the waiting messages for which `gone` holds.
    pub(super) fn give_up(&mut self, gone: impl Fn(&M) -> bool) -> Vec<M> {
        let gone = self.queue.take(usize::MAX, gone);
        self.due &= !self.queue.is_empty();
        gone
    }

    fn become_due(&mut self) -> bool {
        let becomes = !self.running && !self.due;
        self.due |= becomes;
        becomes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_types::Peer;

    /// A message of a peer, with a number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Mail(u64, u32);

    impl Waits for Mail {
        fn peer(&self) -> Option<Peer> {
            Some(Peer(self.0))
        }

        fn held_bytes(&self) -> usize {
            10
        }
    }

    const ROOM: Room = Room {
        items: 8,
        bytes: 100,
    };

    fn numbers(mails: &[Mail]) -> Vec<u32> {
        mails.iter().map(|mail| mail.1).collect()
    }

    #[test]
    fn one_job_at_a_time_and_nothing_is_lost() {
        let mut batch = Batch::default();
        let offer = |batch: &mut Batch<Mail>, number| {
            batch.offer(Mail(1, number), ROOM).map(|taken| {
                assert_eq!(taken.displaced, []);
                taken.due
            })
        };
        assert_eq!(offer(&mut batch, 1), Some(true));
        assert_eq!(offer(&mut batch, 2), Some(false), "already due");
        assert_eq!(numbers(&batch.take(10, |_| true)), [1, 2]);
        assert!(!batch.is_idle());
        assert_eq!(offer(&mut batch, 3), Some(false), "a job runs");
        assert!(batch.take(10, |_| true).is_empty());
        assert!(batch.ended());
        assert!(batch.take(10, |mail| mail.1 != 3).is_empty());
        assert_eq!(offer(&mut batch, 4), Some(true));
        assert_eq!(numbers(&batch.take(1, |_| true)), [3]);
        assert!(batch.ended());
        assert_eq!(numbers(&batch.take(10, |_| true)), [4]);
        assert!(!batch.ended());
        assert_eq!(offer(&mut batch, 5), Some(true));
        assert_eq!(numbers(&batch.give_up(|mail| mail.1 == 5)), [5]);
        assert_eq!(offer(&mut batch, 6), Some(true), "what is gone is not due");
        assert_eq!(numbers(&batch.take(10, |_| true)), [6]);
        assert!(!batch.ended());
        assert!(batch.is_idle() && batch.bytes() == 0);
    }
}
