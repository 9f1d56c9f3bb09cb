//! The frames that wait to be sent: a bounded queue per peer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::error::Refused;
use crate::event::Peer;

#[derive(Debug)]
struct Waiting {
    id: u64,
    data: Arc<[u8]>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Frames that have not left: waiting or being written.
    count: usize,
    bytes: usize,
    closed: bool,
}

/// The queue to one peer.
#[derive(Debug, Default)]
pub(crate) struct FrameQueue {
    state: Mutex<State>,
    ready: Notify,
}

impl FrameQueue {
    /// The frames and bytes that have not left.
    #[cfg(test)]
    pub(crate) fn waits(&self) -> (usize, usize) {
        let state = self.lock();
        (state.count, state.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under this lock cannot leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next frame, or none when the peer is gone.
    pub(crate) async fn next(&self) -> Option<Arc<[u8]>> {
        loop {
            {
                let mut state = self.lock();
                if let Some(waiting) = state.waiting.pop_front() {
                    // A notification wakes one stream and they do not add up, so each stream passes it on.
                    if !state.waiting.is_empty() {
                        self.ready.notify_one();
                    }
                    return Some(waiting.data);
                }
                if state.closed {
                    // The other streams wait as well.
                    self.ready.notify_one();
                    return None;
                }
            }
            self.ready.notified().await;
        }
    }

    pub(crate) fn left(&self, bytes: usize) {
        let mut state = self.lock();
        state.count = state.count.saturating_sub(1);
        state.bytes = state.bytes.saturating_sub(bytes);
    }

    /// Drops what is waiting, and accepts nothing more.
    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.waiting.clear();
        self.ready.notify_one();
    }
}

/// The queues of all connected peers.
#[derive(Debug)]
pub(crate) struct FrameQueues {
    queues: Mutex<BTreeMap<Peer, Arc<FrameQueue>>>,
    frames_max: usize,
    bytes_max: usize,
}

impl FrameQueues {
    pub(crate) fn new(frames_max: usize, bytes_max: usize) -> Self {
        Self {
            queues: Mutex::default(),
            frames_max,
            bytes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Peer, Arc<FrameQueue>>> {
        // The map stays consistent even after a panic.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, peer: Peer) -> Option<Arc<FrameQueue>> {
        self.lock().get(&peer).cloned()
    }

    /// A peer connected. Frames may be sent to it.
    pub(crate) fn open(&self, peer: Peer, queue: Arc<FrameQueue>) {
        self.lock().insert(peer, queue);
    }

    /// A peer disconnected.
    pub(crate) fn close(&self, peer: Peer) {
        if let Some(queue) = self.lock().remove(&peer) {
            queue.close();
        }
    }

    /// Queues a frame.
    pub(crate) fn push(&self, peer: Peer, id: u64, data: Arc<[u8]>) -> Result<(), Refused> {
        let queue = self.queue(peer).ok_or(Refused::Peer(peer))?;
        let mut state = queue.lock();
        if state.closed {
            return Err(Refused::Peer(peer));
        }
        // Frames being written count as well, since they hold their bytes until they have left.
        if state.count >= self.frames_max {
            return Err(Refused::Full {
                what: "frames to the peer",
                bound: self.frames_max,
            });
        }
        if state.bytes + data.len() > self.bytes_max {
            return Err(Refused::Full {
                what: "bytes of frames to the peer",
                bound: self.bytes_max,
            });
        }
        state.count += 1;
        state.bytes += data.len();
        state.waiting.push_back(Waiting { id, data });
        drop(state);
        queue.ready.notify_one();
        Ok(())
    }

    /// Cancels frames whose sending has not begun, and returns their number.
    pub(crate) fn cancel(&self, peer: Peer, id: u64) -> u32 {
        let Some(queue) = self.queue(peer) else {
            return 0;
        };
        let mut state = queue.lock();
        let (mut count, mut bytes) = (0, 0);
        state.waiting.retain(|waiting| {
            let kept = waiting.id != id;
            if !kept {
                count += 1;
                bytes += waiting.data.len();
            }
            kept
        });
        state.count = state.count.saturating_sub(count as usize);
        state.bytes = state.bytes.saturating_sub(bytes);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Peer = 3;

    /// Queues with one for a peer, from which nothing is sent.
    fn queues(frames_max: usize, bytes_max: usize) -> FrameQueues {
        let queues = FrameQueues::new(frames_max, bytes_max);
        queues.open(PEER, Arc::default());
        queues
    }

    fn full(what: &'static str, bound: usize) -> Result<(), Refused> {
        Err(Refused::Full { what, bound })
    }

    #[test]
    fn a_queue_takes_bytes_and_frames_up_to_its_bounds() {
        let queues = queues(5, 100);
        let push = |length: usize| queues.push(PEER, 1, vec![0; length].into());
        assert_eq!(push(60), Ok(()));
        assert_eq!(push(41), full("bytes of frames to the peer", 100));
        assert_eq!(push(40), Ok(()));
        for _ in 0..3 {
            assert_eq!(push(0), Ok(()));
        }
        assert_eq!(push(0), full("frames to the peer", 5));
    }

    #[test]
    fn what_is_taken_back_leaves_room_for_as_much() {
        let queues = queues(4, 100);
        let push = |id: u64| queues.push(PEER, id, vec![0; 25].into());
        for id in [5, 6, 5, 5] {
            assert_eq!(push(id), Ok(()));
        }
        assert_eq!(queues.cancel(PEER, 7), 0);
        assert!(push(7).is_err());
        assert_eq!(queues.cancel(PEER, 5), 3);
        assert_eq!(queues.cancel(PEER, 5), 0);
        for _ in 0..3 {
            assert_eq!(push(7), Ok(()));
        }
        assert!(push(7).is_err());
        // Waiting frames of a departed peer are dropped, and none can be sent to it.
        let queue = queues.queue(PEER).unwrap();
        queues.close(PEER);
        assert!(queue.lock().waiting.is_empty());
        assert_eq!(push(7), Err(Refused::Peer(PEER)));
        assert_eq!(queues.cancel(PEER, 7), 0);
    }
}
