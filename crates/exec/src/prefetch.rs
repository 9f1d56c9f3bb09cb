//! Prefetches memory that is about to be read.

#[cfg(target_arch = "x86_64")]
use crate::avx2::touch;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches the first and the last cache line of a value, for a read a few hundred nanoseconds later. It has no
/// visible effect, and does nothing on architectures other than x86-64.
#[inline(always)]
pub fn prefetch<T: ?Sized>(thing: &T) {
    let first = std::ptr::from_ref(thing).cast::<u8>();
    let last = first.wrapping_add(size_of_val(thing).saturating_sub(1));
    touch(first);
    if first.addr() / LINE != last.addr() / LINE {
        touch(last);
    }
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
