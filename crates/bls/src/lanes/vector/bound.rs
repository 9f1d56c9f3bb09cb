//! Bounds of values and limbs, tracked alongside them in builds with debug assertions.

/// What is known about every coefficient in every lane, in builds with debug assertions.
///
/// No function outside this module branches on a lane's value, so the bounds of one run are those of all runs:
/// a debug build that passes once has checked every offset and every product for all inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// The value is not negative and at most this multiple of p.
    #[cfg(debug_assertions)]
    multiple: u64,
    /// Limbs are at most this multiple of 2^52 in magnitude.
    #[cfg(debug_assertions)]
    limbs: u64,
}

/// Limbs stay below 2^10 · 2^52, so that sums and carries fit 63 bits.
#[cfg(debug_assertions)]
const LIMBS_MAX: u64 = 1 << 10;

impl Bound {
    #[inline(always)]
    pub(super) fn new(multiple: u64, limbs: u64) -> Bound {
        #[cfg(debug_assertions)]
        {
            assert!(multiple < 1 << 28, "a value of {multiple} p");
            assert!(limbs <= LIMBS_MAX, "limbs of {limbs} x 2^52");
            Bound { multiple, limbs }
        }
        #[cfg(not(debug_assertions))]
        {
            let _ = (multiple, limbs);
            Bound {}
        }
    }

    /// The bound of a sum.
    #[inline(always)]
    pub(super) fn plus(self, other: Bound) -> Bound {
        #[cfg(debug_assertions)]
        return Bound::new(self.multiple + other.multiple, self.limbs + other.limbs);
        #[cfg(not(debug_assertions))]
        {
            let _ = other;
            self
        }
    }

    /// The bound of `self - other + offset·p`, which is not negative.
    #[inline(always)]
    pub(super) fn minus(self, other: Bound, offset: u64) -> Bound {
        #[cfg(debug_assertions)]
        {
            let subtracted = other.multiple;
            assert!(subtracted <= offset, "{subtracted} p, offset {offset} p");
            Bound::new(self.multiple + offset, self.limbs + other.limbs + 1)
        }
        #[cfg(not(debug_assertions))]
        {
            let _ = (other, offset);
            self
        }
    }

    /// The bound of `self · 2^bits`.
    #[inline(always)]
    pub(super) fn shifted(self, bits: u32) -> Bound {
        #[cfg(debug_assertions)]
        return Bound::new(self.multiple << bits, self.limbs << bits);
        #[cfg(not(debug_assertions))]
        {
            let _ = bits;
            self
        }
    }

    /// The bound of a value that is one or the other.
    #[inline(always)]
    pub(super) fn either(self, other: Bound) -> Bound {
        #[cfg(debug_assertions)]
        return Bound::new(
            self.multiple.max(other.multiple),
            self.limbs.max(other.limbs),
        );
        #[cfg(not(debug_assertions))]
        {
            let _ = other;
            self
        }
    }

    /// The bound after a carry.
    #[inline(always)]
    pub(super) fn carried(self) -> Bound {
        #[cfg(debug_assertions)]
        return Bound { limbs: 1, ..self };
        #[cfg(not(debug_assertions))]
        self
    }

    /// The bound of a sum of products: Σ a·b < 2^35·p², so that the result is below 2p.
    #[inline(always)]
    pub(super) fn of_products<const K: usize>(pairs: [(Bound, Bound); K]) -> Bound {
        #[cfg(debug_assertions)]
        {
            let sum: u64 = pairs.iter().map(|(a, b)| a.multiple * b.multiple).sum();
            assert!(sum <= 1 << 35, "a product of {sum} p²");
            for (a, b) in pairs {
                assert!(a.limbs == 1 && b.limbs == 1, "operands are carried");
            }
        }
        #[cfg(not(debug_assertions))]
        let _ = pairs;
        // Eight steps of four terms per pair, plus the initial value of the accumulator.
        Bound::new(2, 32 * K as u64 + 1)
    }
}
