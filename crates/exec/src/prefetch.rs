//! Asks for memory before it is read.
#![allow(unsafe_code)]

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Has the first and the last line of something brought into the cache, for a read that comes some hundred
/// nanoseconds later. Changes nothing that a program sees; does nothing where the processor has no such
/// instruction here.
#[inline(always)]
pub fn prefetch<T: ?Sized>(thing: &T) {
    let first = std::ptr::from_ref(thing).cast::<u8>();
    let last = first.wrapping_add(size_of_val(thing).saturating_sub(1));
    touch(first);
    if first.addr() / LINE != last.addr() / LINE {
        touch(last);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn touch(line: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every processor of this architecture has the instruction. It reads nothing that the program sees and
    // faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn touch(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefetch_changes_nothing_and_takes_what_is_empty() {
        let numbers: Vec<u64> = (0..100).collect();
        prefetch(&numbers[..]);
        prefetch(&numbers[99]);
        prefetch::<[u64]>(&[]);
        prefetch(&());
        assert!(numbers.iter().copied().eq(0..100));
    }
}
