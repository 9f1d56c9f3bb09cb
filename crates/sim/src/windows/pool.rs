//! Memory for buckets: chunks of events, reused as soon as they are read.
//!
//! If each bucket had its own memory, it would be cold every time the ring comes round. Here the chunk read last is
//! written next, so only pending events occupy cache.

use super::event::Event;

/// Events per chunk, which is 1 KiB.
const CHUNK: usize = 31;
/// Marks the absence of a chunk.
pub(super) const NONE: u32 = u32::MAX;

/// Part of the events of a bucket.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Chunk {
    events: [Event; CHUNK],
    len: u32,
    /// The next chunk of the bucket, or the next free one.
    next: u32,
}

const _: () = assert!(
    size_of::<Chunk>() == 1024,
    "chunks lie on whole cache lines"
);

/// All chunks. A bucket is the number of its newest chunk.
#[derive(Debug)]
pub(super) struct Pool {
    chunks: Vec<Chunk>,
    free: u32,
}

impl Default for Pool {
    fn default() -> Self {
        Pool {
            chunks: Vec::new(),
            free: NONE,
        }
    }
}

impl Pool {
    /// Appends an event to a bucket.
    #[inline]
    pub(super) fn push(&mut self, bucket: &mut u32, event: Event) {
        // NONE is beyond all chunks, and a full chunk has no room: either way a chunk is started.
        if let Some(chunk) = self.chunks.get_mut(*bucket as usize)
            && let Some(place) = chunk.events.get_mut(chunk.len as usize)
        {
            *place = event;
            chunk.len += 1;
            return;
        }
        self.begin(bucket, event);
    }

    /// Starts the next chunk of a bucket.
    fn begin(&mut self, bucket: &mut u32, event: Event) {
        if self.free == NONE {
            self.free = self.chunks.len() as u32;
            self.chunks.push(Chunk {
                events: [Event::default(); CHUNK],
                len: 0,
                next: NONE,
            });
        }
        let index = self.free;
        let chunk = &mut self.chunks[index as usize];
        self.free = chunk.next;
        (chunk.events[0], chunk.len) = (event, 1);
        chunk.next = std::mem::replace(bucket, index);
    }

    /// The events of a bucket, in no particular order.
    pub(super) fn chunks(&self, mut bucket: u32) -> impl Iterator<Item = &[Event]> {
        std::iter::from_fn(move || {
            let chunk = self.chunks.get(bucket as usize)?;
            bucket = chunk.next;
            Some(&chunk.events[..chunk.len as usize])
        })
    }

    /// Number of events in a bucket. Counting stops at a chunk boundary once there are `enough`.
    pub(super) fn count(&self, bucket: u32, enough: u64) -> u64 {
        let mut count = 0;
        let mut chunks = self.chunks(bucket);
        while count < enough
            && let Some(chunk) = chunks.next()
        {
            count += chunk.len() as u64;
        }
        count
    }

    /// Distributes all events of a bucket to the buckets given by `of`. A chunk is reused as soon as it is read, so
    /// this takes little extra memory.
    pub(super) fn part(
        &mut self,
        bucket: &mut u32,
        into: &mut [u32],
        of: impl Fn(&Event) -> usize,
    ) {
        while let Some(chunk) = self.chunks.get(*bucket as usize) {
            let (len, next) = (chunk.len as usize, chunk.next);
            for place in 0..len {
                // Copied one by one, since `push` may move all chunks.
                let event = self.chunks[*bucket as usize].events[place];
                self.push(&mut into[of(&event)], event);
            }
            let chunk = &mut self.chunks[*bucket as usize];
            chunk.next = std::mem::replace(&mut self.free, *bucket);
            *bucket = next;
        }
    }

    /// Appends all events of a bucket to `into`, in no particular order.
    pub(super) fn drain(&mut self, bucket: &mut u32, into: &mut Vec<Event>) {
        self.chunks(*bucket)
            .for_each(|chunk| into.extend_from_slice(chunk));
        self.free(bucket);
    }

    /// Drops all events of a bucket.
    pub(super) fn free(&mut self, bucket: &mut u32) {
        while let Some(chunk) = self.chunks.get_mut(*bucket as usize) {
            let next = std::mem::replace(&mut chunk.next, self.free);
            self.free = std::mem::replace(bucket, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_keep_their_events_and_give_their_memory_back() {
        let event = |order| Event::new(1, order, 0, 0, 0, [0; 2]);
        let mut pool = Pool::default();
        for round in 0..3 {
            let (mut a, mut b) = (NONE, NONE);
            for order in 0..100 {
                pool.push(&mut a, event(order));
                pool.push(&mut b, event(1000 + order));
            }
            assert_eq!(
                [0, 30, 1000].map(|enough| pool.count(a, enough)),
                [0, 38, 100]
            );
            let mut found = Vec::new();
            pool.drain(&mut a, &mut found);
            found.sort_unstable();
            assert!(found.iter().map(|event| event.order).eq(0..100), "{round}");
            found.clear();
            pool.drain(&mut b, &mut found);
            assert_eq!((found.len(), a, b), (100, NONE, NONE));
            assert_eq!(pool.chunks.len(), 8, "round {round}");
            for order in 0..100 {
                pool.push(&mut a, event(order));
            }
            let mut parts = [NONE; 2];
            pool.part(&mut a, &mut parts, |event| (event.order % 2) as usize);
            for (rest, part) in (0..).zip(&mut parts) {
                found.clear();
                pool.drain(part, &mut found);
                found.sort_unstable();
                let orders = (0..100).filter(|order| order % 2 == rest);
                assert!(found.iter().map(|event| event.order).eq(orders));
            }
            assert_eq!((a, pool.chunks.len()), (NONE, 8), "round {round}");
        }
        pool.drain(&mut { NONE }, &mut Vec::new());
    }
}
