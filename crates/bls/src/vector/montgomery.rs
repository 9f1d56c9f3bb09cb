//! Constants of the kernels' Montgomery form, a·2^416 mod p.

use super::{LIMBS, split};
use crate::blst_ffi::field::P;

/// 2^416 mod p: one in the kernel's Montgomery form.
pub(crate) const ONE: [u64; LIMBS] = split(&power_of_two(416));
/// Multiplying by this number (and dividing by 2^416) takes a·2^384 to a·2^416.
pub(crate) const ENTER: [u64; LIMBS] = split(&power_of_two(448));
/// Multiplying by this number (and dividing by 2^416) takes a·2^416 to a·2^384.
pub(crate) const LEAVE: [u64; LIMBS] = split(&power_of_two(384));

/// 2^exponent mod p.
pub(crate) const fn power_of_two(exponent: usize) -> [u64; 6] {
    times_power_of_two([1, 0, 0, 0, 0, 0], exponent)
}

/// value · 2^exponent mod p, by doubling; the value is below p.
pub(crate) const fn times_power_of_two(mut value: [u64; 6], exponent: usize) -> [u64; 6] {
    let mut step = 0;
    while step < exponent {
        let mut doubled = [0u64; 6];
        let mut less = [0u64; 6];
        let (mut carry, mut borrow) = (0, false);
        let mut i = 0;
        while i < 6 {
            // p has 381 bits, so nothing leaves the last word.
            doubled[i] = value[i] << 1 | carry;
            carry = value[i] >> 63;
            let (a, first) = doubled[i].overflowing_sub(P[i]);
            let (a, second) = a.overflowing_sub(borrow as u64);
            less[i] = a;
            borrow = first | second;
            i += 1;
        }
        value = if borrow { doubled } else { less };
        step += 1;
    }
    value
}
