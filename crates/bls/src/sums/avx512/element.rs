//! Sixteen elements of Fp (`N` = 1) or Fp2 (`N` = 2) at once.

use core::arch::x86_64::*;

use super::field::{Fe, LANES, LIMBS, Offset, P_LIMBS, join, products, split};
use crate::blst_ffi::curve::CurveField;
use crate::blst_ffi::field::{Field, Fp, Fp2};

/// A field whose elements are `N` coefficients of Fp.
pub(crate) trait Coefficients<const N: usize>: CurveField {
    /// The coefficients.
    fn split(&self) -> [Fp; N];
    /// From the coefficients.
    fn join(coefficients: [Fp; N]) -> Self;
}

impl Coefficients<1> for Fp {
    fn split(&self) -> [Fp; 1] {
        [*self]
    }

    fn join([c0]: [Fp; 1]) -> Fp {
        c0
    }
}

impl Coefficients<2> for Fp2 {
    fn split(&self) -> [Fp; 2] {
        self.coefficients()
    }

    fn join([c0, c1]: [Fp; 2]) -> Fp2 {
        Fp2::new(c0, c1)
    }
}

/// 2^416 mod p: one in the kernel's Montgomery form.
const ONE: [u64; LIMBS] = split(&power_of_two(416));
/// Multiplying by this number (and dividing by 2^416) takes a·2^384 to a·2^416.
const ENTER: [u64; LIMBS] = split(&power_of_two(448));
/// Multiplying by this number (and dividing by 2^416) takes a·2^416 to a·2^384.
const LEAVE: [u64; LIMBS] = split(&power_of_two(384));
/// 2^448 mod p, read by blst as 2^64: takes the inverse of a·2^416 as blst computes it to a^-1·2^416.
const AFTER_INVERSE: Fp = Fp::from_limbs_reduced(power_of_two(448));

/// 2^exponent mod p, by doubling.
const fn power_of_two(exponent: usize) -> [u64; 6] {
    use crate::blst_ffi::field::P;
    let mut value = [1, 0, 0, 0, 0, 0];
    let mut step = 0;
    while step < exponent {
        let mut doubled = [0u64; 6];
        let mut less = [0u64; 6];
        let (mut carry, mut borrow) = (0, false);
        let mut i = 0;
        while i < 6 {
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

/// Sixteen numbers that may be added: limbs are signed, values are bounded per level.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Wide<const N: usize>(pub(super) [Fe; N]);

/// Sixteen operands of products: only the low 52 bits of a limb count (for `N` = 2 the rest is 0).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Narrow<const N: usize>([Fe; N]);

/// The multiples of p of one level of the tree (`LECTURE.md`).
pub(super) struct Level {
    /// B_L·p, more than any coordinate of this level.
    pub(super) bound: Offset,
    /// 2·B_L·p.
    pub(super) bound_doubled: Offset,
    /// B_(L+1)·p.
    pub(super) bound_next: Offset,
    /// 4·p, more than any product.
    product: Offset,
    /// Whether this level carries its results, so that limbs do not outgrow 64 bits.
    pub(super) carries: bool,
    /// B_L, for the checks of debug builds.
    pub(super) multiple: u64,
}

/// B_L: coordinates at level L are below B_L·p.
pub(super) const fn level_bound(level: usize) -> u64 {
    (1 << (level + 2)) - 2
}

/// B_(L+1) of a level.
pub(super) fn level_bound_next(level: &Level) -> u64 {
    2 * level.multiple + 2
}

/// Levels whose bounds hold: segments of up to 2^24 points.
pub(super) const LEVELS_MAX: usize = 24;

impl Level {
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(level: usize) -> Level {
        assert!(
            level < LEVELS_MAX,
            "segments have at most 2^{LEVELS_MAX} points"
        );
        let multiple = level_bound(level);
        Level {
            bound: Offset::new(multiple),
            bound_doubled: Offset::new(2 * multiple),
            bound_next: Offset::new(level_bound(level + 1)),
            product: Offset::new(4),
            carries: level % 4 == 3,
            multiple,
        }
    }
}

impl<const N: usize> Wide<N> {
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn zero() -> Self {
        Wide([Fe::zero(); N])
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn add(&self, other: &Self) -> Self {
        let mut out = *self;
        for c in 0..N {
            out.0[c] = self.0[c].add(&other.0[c]);
        }
        out
    }

    /// `self - other + offset`; the offset is a multiple of p.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn sub(&self, other: &Self, offset: &Offset) -> Self {
        let mut out = *self;
        for c in 0..N {
            out.0[c] = self.0[c].sub(&other.0[c], offset);
        }
        out
    }

    /// As an operand of products. `bound`: the value is below bound·p and not negative.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn narrow(&self, bound: u64) -> Narrow<N> {
        self.check(bound);
        let mut out = self.0;
        for c in 0..N {
            out[c] = if N == 1 {
                self.0[c].carry::<false>()
            } else {
                self.0[c].carry::<true>()
            };
        }
        Narrow(out)
    }

    /// `self - other`, which the caller knows not to be negative.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn minus(&self, other: &Self) -> Self {
        let mut out = *self;
        for c in 0..N {
            for v in 0..2 {
                for j in 0..LIMBS {
                    out.0[c].0[v][j] = _mm512_sub_epi64(self.0[c].0[v][j], other.0[c].0[v][j]);
                }
            }
        }
        out
    }

    /// As `narrow`, with nothing but the digits left.
    #[target_feature(enable = "avx512f")]
    pub(super) fn digits(&self, bound: u64) -> Narrow<N> {
        self.check(bound);
        Narrow(self.carried().0)
    }

    /// Lanes whose lowest limbs are equal: a quick look at canonical numbers.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn lowest_equal(&self, other: &Self) -> u16 {
        let mut mask = !0;
        for c in 0..N {
            let half = |v: usize| {
                u16::from(_mm512_cmpeq_epi64_mask(
                    self.0[c].0[v][0],
                    other.0[c].0[v][0],
                ))
            };
            mask &= half(0) | half(1) << 8;
        }
        mask
    }

    /// The numbers below p, one register per lane and coefficient.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn canonical(&self) -> [[__m512i; N]; LANES] {
        let mut out = [[_mm512_setzero_si512(); N]; LANES];
        let one = Fe::broadcast(&ONE);
        for c in 0..N {
            let narrow = self.0[c].carry::<true>();
            let reduced = products([(&narrow, &one)]).carry::<true>().reduce();
            for v in 0..2 {
                let lanes = super::field::transpose(&reduced.0[v]);
                for (lane, out) in lanes.into_iter().zip(&mut out[8 * v..]) {
                    out[c] = lane;
                }
            }
        }
        out
    }

    /// The same value with limbs below 2^52.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn carried(&self) -> Self {
        let mut out = *self;
        for c in 0..N {
            out.0[c] = self.0[c].carry::<true>();
        }
        out
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn select(&self, mask: u16, other: &Self) -> Self {
        let mut out = *self;
        for c in 0..N {
            out.0[c] = self.0[c].select(mask, &other.0[c]);
        }
        out
    }

    /// Debug builds: every lane is from 0 to bound·p, and limbs leave room for one more sum.
    #[inline]
    pub(super) fn check(&self, bound: u64) {
        if cfg!(debug_assertions) {
            for (fe, lane) in self
                .0
                .iter()
                .flat_map(|fe| (0..LANES).map(move |lane| (fe, lane)))
            {
                let limbs = fe.lane(lane).map(|limb| limb as i64);
                assert!(
                    limbs.iter().all(|limb| limb.unsigned_abs() < 1 << 62),
                    "a limb is too large"
                );
                let scale = |limbs: [i64; LIMBS]| {
                    limbs
                        .iter()
                        .rev()
                        .fold(0.0, |sum, limb| sum * (1u64 << 52) as f64 + *limb as f64)
                };
                let multiple = scale(limbs) / scale(P_LIMBS.map(|limb| limb as i64));
                assert!(
                    (-1e-9..bound as f64).contains(&multiple),
                    "{multiple} p, bound {bound} p"
                );
            }
        }
    }
}

impl<const N: usize> Narrow<N> {
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn one() -> Self {
        let mut out = [Fe::zero(); N];
        out[0] = Fe::broadcast(&ONE);
        Narrow(out)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn select(&self, mask: u16, other: &Self) -> Self {
        Narrow(Wide(self.0).select(mask, &Wide(other.0)).0)
    }

    /// Lanes that are 0 mod p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn is_zero(&self) -> u16 {
        self.0.iter().fold(!0, |mask, fe| mask & fe.is_zero_mod_p())
    }

    /// `self · other` where `self` is below `offset`, which is a multiple of p; below 1.02 p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn product(&self, other: &Self, offset: &Offset) -> Wide<N> {
        let (a, b) = (&self.0, &other.0);
        let mut out = [Fe::zero(); N];
        if N == 1 {
            out[0] = products([(&a[0], &b[0])]);
        } else {
            // u² = -1: a0·b0 + (-a1)·b1, and a0·b1 + a1·b0.
            let minus_a1 = Fe::zero().sub(&a[1], offset).carry::<true>();
            out[0] = products([(&a[0], &b[0]), (&minus_a1, &b[1])]);
            out[1] = products([(&a[0], &b[1]), (&a[1], &b[0])]);
        }
        Wide(out)
    }

    /// `self · other`, wide, where `self` is a product, so below 4 p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline(never)]
    pub(super) fn mul_wide(&self, other: &Self, level: &Level) -> Wide<N> {
        self.product(other, &level.product)
    }

    /// `self · other`, narrow, where `self` is a product, so below 4 p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline(never)]
    pub(super) fn mul(&self, other: &Self, level: &Level) -> Self {
        self.product(other, &level.product).narrow(2)
    }

    /// `self · self`, wide, where `self` is below the level's bound.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline(never)]
    pub(super) fn square_of_coordinate(&self, level: &Level) -> Wide<N> {
        self.product(self, &level.bound)
    }
}

/// Elements as blst keeps them, in the stored form of the kernel: canonical, R = 2^416, one register
/// per coefficient.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn enter<F: Coefficients<N>, const N: usize>(
    elements: &[F; LANES],
) -> [[__m512i; N]; LANES] {
    convert(
        elements.map(|e| e.split().map(|c| split(c.limbs()))),
        &ENTER,
    )
}

/// The way back.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn leave<F: Coefficients<N>, const N: usize>(
    stored: &[[__m512i; N]; LANES],
) -> [F; LANES] {
    let out = convert(stored.map(|e| e.map(super::field::words)), &LEAVE);
    out.map(|e| F::join(e.map(|c| Fp::from_limbs_reduced(join(&super::field::words(c))))))
}

/// Multiplies every coefficient by a constant and reduces it.
#[target_feature(enable = "avx512f,avx512ifma")]
fn convert<const N: usize>(
    elements: [[[u64; LIMBS]; N]; LANES],
    factor: &[u64; LIMBS],
) -> [[__m512i; N]; LANES] {
    let mut out = [[_mm512_setzero_si512(); N]; LANES];
    let factor = Fe::broadcast(factor);
    for c in 0..N {
        let mut lanes = Fe::zero();
        for v in 0..2 {
            let mut rows = [_mm512_setzero_si512(); 8];
            for (row, element) in rows.iter_mut().zip(&elements[8 * v..]) {
                *row = register(element[c]);
            }
            lanes.0[v] = super::field::transpose(&rows);
        }
        let reduced = products([(&lanes, &factor)]).carry::<true>().reduce();
        for v in 0..2 {
            for (row, out) in super::field::transpose(&reduced.0[v])
                .into_iter()
                .zip(&mut out[8 * v..])
            {
                out[c] = row;
            }
        }
    }
    out
}

#[target_feature(enable = "avx512f")]
#[inline]
fn register(words: [u64; 8]) -> __m512i {
    let [a, b, c, d, e, f, g, h] = words.map(|word| word as i64);
    _mm512_setr_epi64(a, b, c, d, e, f, g, h)
}

/// The inverses of sixteen products, none of them 0: one scalar inversion.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn invert<F: Coefficients<N>, const N: usize>(factors: &Narrow<N>) -> Narrow<N> {
    let mut reduced = factors.0;
    for fe in &mut reduced {
        *fe = fe.digits().reduce();
    }
    let lanes: [F; LANES] = core::array::from_fn(|lane| {
        F::join(core::array::from_fn(|c| {
            Fp::from_limbs_reduced(join(&reduced[c].lane(lane)))
        }))
    });
    let mut before = [F::ONE; LANES];
    let mut product = F::ONE;
    for (before, lane) in before.iter_mut().zip(&lanes) {
        *before = product;
        product = product.mul(lane);
    }
    let mut inverse = product.inverse();
    let factor = F::join(core::array::from_fn(|c| {
        if c == 0 { AFTER_INVERSE } else { Fp::ZERO }
    }));
    let mut out = [Fe::zero(); N];
    let mut columns = [[[0u64; LANES]; LIMBS]; N];
    for lane in (0..LANES).rev() {
        let inverted = inverse.mul(&before[lane]).mul(&factor).split();
        inverse = inverse.mul(&lanes[lane]);
        for (c, coefficient) in inverted.iter().enumerate() {
            for (j, limb) in split(coefficient.limbs()).into_iter().enumerate() {
                columns[c][j][lane] = limb;
            }
        }
    }
    for (fe, column) in out.iter_mut().zip(&columns) {
        for v in 0..2 {
            for j in 0..LIMBS {
                fe.0[v][j] = register(core::array::from_fn(|i| column[j][8 * v + i]));
            }
        }
    }
    Narrow(out)
}
