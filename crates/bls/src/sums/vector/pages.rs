//! Points in huge pages: sums read a table of many megabytes in an order that is hard on the TLB.
#![allow(unsafe_code)]

use core::ops::Deref;

use memmap2::{Advice, MmapMut};

use super::Point;

/// Points that do not move, in huge pages where the system grants them.
#[derive(Debug)]
pub(crate) struct PointPages<const N: usize> {
    memory: Memory<N>,
    len: usize,
}

#[derive(Debug)]
enum Memory<const N: usize> {
    Mapped(MmapMut),
    Heap(Vec<Point<N>>),
}

impl<const N: usize> PointPages<N> {
    /// Copies `points`; on the heap if no memory can be mapped.
    pub(crate) fn new(points: Vec<Point<N>>) -> Self {
        let len = points.len();
        let Ok(mut map) = MmapMut::map_anon(size_of_val(points.as_slice()).max(1)) else {
            return PointPages {
                memory: Memory::Heap(points),
                len,
            };
        };
        // If not granted, small pages work too, only more slowly.
        let _refused = map.advise(Advice::HugePage);
        // SAFETY: a fresh map is aligned to a page, which is more than a point asks for, holds the
        // bytes of `len` points, and overlaps nothing.
        unsafe { core::ptr::copy_nonoverlapping(points.as_ptr(), map.as_mut_ptr().cast(), len) };
        PointPages {
            memory: Memory::Mapped(map),
            len,
        }
    }
}

impl<const N: usize> Deref for PointPages<N> {
    type Target = [Point<N>];

    fn deref(&self) -> &[Point<N>] {
        match &self.memory {
            // SAFETY: `new` wrote `len` points to the start of the map, and nothing writes since.
            Memory::Mapped(map) => unsafe {
                core::slice::from_raw_parts(map.as_ptr().cast(), self.len)
            },
            Memory::Heap(points) => points,
        }
    }
}
