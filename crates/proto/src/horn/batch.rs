//! Messages that wait for a verification job: batches form by load, not by a timer.
//!
//! A batch has at most one job. While it runs, the next messages queue; when it ends, they are the
//! next job. A batch that has work and no job is *due* at the end of the current instant, so
//! messages that arrive together are verified together.

use std::collections::VecDeque;

/// Messages of one key, in the order of their arrival.
pub(super) struct Batch<M> {
    waiting: VecDeque<M>,
    bytes: usize,
    running: bool,
    due: bool,
}

impl<M> Default for Batch<M> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            running: false,
            due: false,
        }
    }
}

/// What a batch may hold.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) items: usize,
    pub(super) bytes: usize,
}

impl<M> Batch<M> {
    /// Whether a message of `bytes` fits.
    pub(super) fn has_room(&self, bytes: usize, room: Room) -> bool {
        self.waiting.len() < room.items && self.bytes.saturating_add(bytes) <= room.bytes
    }

    /// Adds a message; true if the batch was not due before and is now.
    pub(super) fn push(&mut self, message: M, bytes: usize) -> bool {
        self.waiting.push_back(message);
        self.bytes += bytes;
        self.become_due()
    }

    /// Takes up to `max` messages that `fits` for a job, which from now on runs. None if nothing
    /// is to be done.
    pub(super) fn take(
        &mut self,
        max: usize,
        fits: impl Fn(&M) -> bool,
        bytes: impl Fn(&M) -> usize,
    ) -> Vec<M> {
        self.due = false;
        if self.running {
            return Vec::new();
        }
        let mut taken = Vec::with_capacity(self.waiting.len().min(max));
        let mut left = VecDeque::new();
        for message in self.waiting.drain(..) {
            if taken.len() < max && fits(&message) {
                self.bytes -= bytes(&message);
                taken.push(message);
            } else {
                left.push_back(message);
            }
        }
        self.waiting = left;
        self.running = !taken.is_empty();
        taken
    }

    /// The job ended; true if the batch is due again.
    pub(super) fn ended(&mut self) -> bool {
        self.running = false;
        !self.waiting.is_empty() && self.become_due()
    }

    /// Whether nothing waits and nothing runs.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.running
    }

    /// The first message that waits.
    pub(super) fn first(&self) -> Option<&M> {
        self.waiting.front()
    }

    /// Gives all waiting messages back.
    pub(super) fn drain(&mut self) -> Vec<M> {
        self.bytes = 0;
        self.waiting.drain(..).collect()
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

    #[test]
    fn one_job_at_a_time_and_nothing_is_lost() {
        let mut batch = Batch::default();
        assert!(batch.push(1, 10));
        assert!(!batch.push(2, 10), "already due");
        assert!(!batch.has_room(
            1,
            Room {
                items: 2,
                bytes: 100
            }
        ));
        assert!(!batch.has_room(
            81,
            Room {
                items: 3,
                bytes: 100
            }
        ));
        assert!(batch.has_room(
            80,
            Room {
                items: 3,
                bytes: 100
            }
        ));
        assert_eq!(batch.take(10, |_| true, |_| 10), [1, 2]);
        assert!(!batch.is_idle());
        assert!(!batch.push(3, 10), "a job runs");
        assert!(batch.take(10, |_| true, |_| 10).is_empty());
        assert!(batch.ended());
        assert_eq!(batch.take(10, |m| *m != 3, |_| 10), Vec::<i32>::new());
        assert!(batch.push(4, 10));
        assert_eq!(batch.take(1, |_| true, |_| 10), [3]);
        assert!(batch.ended());
        assert_eq!(batch.take(10, |_| true, |_| 10), [4]);
        assert!(!batch.ended());
        assert!(batch.is_idle());
    }
}
