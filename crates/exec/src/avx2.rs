//! The rounding of doubles, which kernels of AVX2 and wider ones compute exact products with, and the prefetch of a
//! cache line.
#![allow(unsafe_code)]

use core::arch::asm;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Rounds to nearest and hides all exceptions: what a process begins with.
const DEFAULT: u32 = 0x1f80;
/// The bits that say which exceptions there were.
const FLAGS: u32 = 0x3f;

/// Runs `work`, which is on this thread, with doubles that round to nearest. Callers from other languages may
/// have asked for something else, which threads inherit; they find it again afterwards.
#[inline(always)]
pub fn rounding_to_nearest<T>(work: impl FnOnce() -> T) -> T {
    let before = control();
    let is_other = before & !FLAGS != DEFAULT;
    if is_other {
        set_control(DEFAULT);
    }
    let out = work();
    if is_other {
        set_control(before);
    }
    out
}

#[inline(always)]
fn control() -> u32 {
    let mut control = 0_u32;
    // SAFETY: every processor of this architecture has the instruction; it writes four bytes, which
    // `control` has.
    unsafe {
        asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags));
    }
    control
}

#[inline(always)]
fn set_control(control: u32) {
    // SAFETY: every processor of this architecture has the instruction; it reads four bytes. The control
    // is the default, or what it was before: so no reserved bit is set, and compiled code finds nothing
    // else than when it was called.
    unsafe {
        asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags));
    }
}

/// Prefetches a cache line.
#[inline(always)]
pub(crate) fn touch(line: *const u8) {
    // SAFETY: every processor of this architecture has the instruction. It reads nothing that the program sees and
    // faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[inline(never)]
    fn more_than_one() -> f64 {
        black_box(1.0) + black_box(1e-30)
    }

    #[test]
    fn work_rounds_to_nearest_and_its_caller_as_before() {
        const UP: u32 = DEFAULT | 2 << 13;
        let thread = std::thread::spawn(|| {
            set_control(UP);
            let found = (more_than_one() > 1.0, rounding_to_nearest(more_than_one));
            let again = (more_than_one() > 1.0, control() & !FLAGS);
            set_control(DEFAULT);
            (found, again)
        });
        assert_eq!(thread.join().unwrap(), ((true, 1.0), (true, UP)));
        assert_eq!(rounding_to_nearest(more_than_one), 1.0);
    }
}
