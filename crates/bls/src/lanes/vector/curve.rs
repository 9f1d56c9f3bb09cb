//! Sixteen points at once, in Jacobian coordinates, and the subgroup checks.

use super::element::{Element, constant};
use crate::sums::vector::convert::Coefficients;
use crate::vector::{LANES, LIMBS, Multiplier, Routine};

/// (X, Y, Z) stands for (X/Z², Y/Z³).
///
/// Formulas are incomplete, but exceptions are detectable. No point of either curve has order 2, so a doubling
/// gives Z = 0 only from Z = 0, and an addition gives it if the operands have the same x or one has Z = 0.
/// Z = 0 thus persists to the end of any chain of them, and a lane that ends with another Z has met no
/// exception.
#[derive(Clone, Copy)]
pub(super) struct Jacobian<M: Multiplier, const N: usize> {
    /// At most 20p.
    pub(super) x: Element<M, N>,
    /// At most 34p.
    pub(super) y: Element<M, N>,
    /// At most 6p.
    pub(super) z: Element<M, N>,
}

/// See [`Jacobian::double`].
struct Double<'a, M: Multiplier, const N: usize>(&'a mut Jacobian<M, N>);

impl<M: Multiplier, const N: usize> Routine for Double<'_, M, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Double(point) = self;
        let square = point.x.square();
        let slope = square.add(&square.shl::<1>()).carry();
        point.z = point.y.mul(&point.z).shl::<1>().carry();
        let yy = point.y.square().carry();
        let between = point.x.mul(&yy).shl::<2>().carry();
        // An offset is the bound of what is subtracted: 16p for 2·4 products of 2p, 20p for X, 32p for eight squares
        // of 4p.
        point.x = slope.square().sub::<16>(&between.shl::<1>()).carry();
        let run = between.sub::<20>(&point.x).carry();
        let eight = yy.square().shl::<3>();
        point.y = slope.mul(&run).sub::<32>(&eight).carry();
    }
}

/// See [`Jacobian::add`].
struct Add<'a, M: Multiplier, const N: usize>(&'a Jacobian<M, N>, &'a Jacobian<M, N>);

impl<M: Multiplier, const N: usize> Routine for Add<'_, M, N> {
    type Output = Jacobian<M, N>;

    #[inline(always)]
    fn run(self) -> Jacobian<M, N> {
        let Add(point, other) = self;
        let (z1z1, z2z2) = (point.z.square().carry(), other.z.square().carry());
        let (u1, u2) = (point.x.mul(&z2z2).carry(), other.x.mul(&z1z1));
        let s1 = point.y.mul(&other.z).carry().mul(&z2z2).carry();
        let s2 = other.y.mul(&point.z).carry().mul(&z1z1);
        let (h, r) = (u2.sub::<2>(&u1).carry(), s2.sub::<2>(&s1).carry());
        let hh = h.square().carry();
        let (hhh, v) = (h.mul(&hh).carry(), u1.mul(&hh).carry());
        // 6p for 2p of HHH and twice 2p of V; then X is at most 10p, as a square is at most 4p.
        let x = r.square().sub::<6>(&hhh.add(&v.shl::<1>())).carry();
        let run = v.sub::<10>(&x).carry();
        Jacobian {
            y: r.mul(&run).sub::<2>(&s1.mul(&hhh)).carry(),
            z: point.z.mul(&other.z).carry().mul(&h).carry(),
            x,
        }
    }
}

/// The parameter x of the curve is -0xd201000000010000: the bits below its top bit.
pub(super) const PARAMETER: u64 = 0xd201_0000_0001_0000;
pub(super) const PARAMETER_BITS: u32 = 63;

/// β with φ(x, y) = (β·x, y) = -[x²](x, y) on G1: a cube root of one.
const BETA: [u64; LIMBS] = constant([
    0x2e01_ffff_fffe_fffe,
    0xde17_d813_620a_0002,
    0xddb3_a93b_e6f8_9688,
    0xba69_c607_6a0f_77ea,
    0x5f19_672f_df76_ce51,
    0,
]);

/// (1 + u)^-((p - 1)/3), which has no real part.
const PSI_X: [[u64; LIMBS]; 2] = [
    [0; LIMBS],
    constant([
        0x8bfd_0000_0000_aaad,
        0x4094_27eb_4f49_fffd,
        0x897d_2965_0fb8_5f9b,
        0xaa0d_857d_8975_9ad4,
        0xec02_4086_63d4_de85,
        0x1a01_11ea_397f_e699,
    ]),
];

/// (1 + u)^-((p - 1)/2).
const PSI_Y: [[u64; LIMBS]; 2] = [
    constant([
        0xf1ee_7b04_121b_dea2,
        0x3044_66cf_3e67_fa0a,
        0xef39_6489_f61e_b45e,
        0x1c3d_edd9_30b1_cf60,
        0xe2e9_c448_d77a_2cd9,
        0x1352_03e6_0180_a68e,
    ]),
    constant([
        0xc810_84fb_ede3_cc09,
        0xee67_992f_72ec_05f4,
        0x77f7_6e17_0092_41c5,
        0x4839_5dab_c2d3_435e,
        0x6831_e36d_6bd1_7ffe,
        0x06af_0e04_37ff_400b,
    ]),
];

/// Collects the lanes for which `holds` is true.
pub(super) fn lanes(holds: impl Fn(usize) -> bool) -> u16 {
    (0..LANES).fold(0, |lanes, lane| lanes | u16::from(holds(lane)) << lane)
}

impl<M: Multiplier, const N: usize> Jacobian<M, N> {
    /// From affine coordinates of at most 20p.
    #[inline(always)]
    pub(super) fn from_affine(x: &Element<M, N>, y: &Element<M, N>) -> Jacobian<M, N> {
        Jacobian {
            x: *x,
            y: *y,
            z: Element::one(x.m()),
        }
    }

    /// The negative.
    #[inline(always)]
    pub(super) fn neg(&self) -> Jacobian<M, N> {
        Jacobian {
            y: self.y.neg::<34>(),
            ..*self
        }
    }

    /// Twice the point.
    #[inline(always)]
    pub(super) fn double(&mut self) {
        self.z.m().run(Double(self));
    }

    /// The sum of two points with different x.
    #[inline(always)]
    pub(super) fn add(&self, other: &Jacobian<M, N>) -> Jacobian<M, N> {
        self.z.m().run(Add(self, other))
    }

    /// |x| times the point, where x is the parameter of the curve: 63 doublings, 5 additions.
    #[inline(always)]
    pub(super) fn times_parameter(&self) -> Jacobian<M, N> {
        let mut sum = *self;
        for bit in (0..PARAMETER_BITS).rev() {
            sum.double();
            if PARAMETER >> bit & 1 == 1 {
                sum = sum.add(self);
            }
        }
        sum
    }

    /// `other` in the lanes of `mask`, `self` in the others.
    #[inline(always)]
    pub(super) fn select(&self, mask: u16, other: &Jacobian<M, N>) -> Jacobian<M, N> {
        Jacobian {
            x: self.x.select(mask, &other.x),
            y: self.y.select(mask, &other.y),
            z: self.z.select(mask, &other.z),
        }
    }

    /// weights[i] times the point of lane i; weights are not 0 and have `bits` bits, an even number.
    ///
    /// An odd w is Σ d·4^i with odd digits from -3 to 3: d = (w mod 8) - 4 leaves (w - d)/4, which is odd
    /// again. Multiples of a point of large order meet no exception here: before an addition the sum is at
    /// least four times the point. An even weight is one less than an odd one.
    #[inline(always)]
    pub(super) fn vartime_multiply(&self, weights: &[u128; LANES], bits: usize) -> Jacobian<M, N> {
        let mut double = *self;
        double.double();
        let triple = double.add(self);
        let mut odd = weights.map(|weight| weight | 1);
        let digits: Vec<(u16, u16)> = (2..bits)
            .step_by(2)
            .map(|_| {
                let digits = odd.map(|weight| weight & 7);
                // (w - d)/4 is 2·(w >> 3) + 1.
                odd = odd.map(|weight| weight >> 2 | 1);
                let of = |digit: fn(u128) -> bool| lanes(|lane| digit(digits[lane]));
                (of(|digit| digit == 1 || digit == 7), of(|digit| digit < 4))
            })
            .collect();
        // What is left is the uppermost digit, 1 or 3.
        let mut sum = self.select(lanes(|lane| odd[lane] == 3), &triple);
        for (threes, negative) in digits.into_iter().rev() {
            sum.double();
            sum.double();
            let multiple = self.select(threes, &triple);
            sum = sum.add(&multiple.select(negative, &multiple.neg()));
        }
        let even = lanes(|lane| weights[lane] & 1 == 0);
        sum.select(even, &sum.add(&self.neg()))
    }

    /// Affine coordinates of the lanes with Z ≠ 0, and the mask of these lanes.
    #[inline(always)]
    pub(super) fn affine<F: Coefficients<N>>(&self) -> (Element<M, N>, Element<M, N>, u16) {
        let m = self.z.m();
        let infinite = self.z.is_zero();
        // All lanes are inverted through their product, which a single 0 would spoil.
        let (inverse, _) = self.z.select(infinite, &Element::one(m)).inverse::<F>();
        let square = inverse.square().carry();
        let x = self.x.mul(&square).carry();
        let y = self.y.mul(&square).carry().mul(&inverse).carry();
        (x, y, !infinite)
    }

    /// Lanes where this is the affine point (x, -y), and no exception was met while computing it.
    #[inline(always)]
    fn equals_negative(&self, x: &Element<M, N>, y: &Element<M, N>) -> u16 {
        let zz = self.z.square().carry();
        let zzz = zz.mul(&self.z).carry();
        let same_x = self.x.equals(&x.mul(&zz));
        let opposite_y = self.y.add(&y.mul(&zzz)).carry().is_zero();
        same_x & opposite_y & !self.z.is_zero()
    }
}

impl<M: Multiplier> Jacobian<M, 2> {
    /// The endomorphism ψ: untwist, Frobenius, twist.
    #[inline(always)]
    pub(super) fn psi(&self) -> Jacobian<M, 2> {
        let m = self.z.m();
        let (x, y) = (self.x.conjugate::<20>(), self.y.conjugate::<34>());
        Jacobian {
            x: x.mul(&Element::broadcast(m, &PSI_X)).carry(),
            y: y.mul(&Element::broadcast(m, &PSI_Y)).carry(),
            z: self.z.conjugate::<6>(),
        }
    }
}

/// Lanes whose point of the curve over Fp is in G1, except some for which the formulas do not hold. The test is
/// φ(P) = -[x²]P (Scott, "A note on group membership tests for G1, G2 and GT on BLS pairing-friendly curves",
/// 2021).
#[inline(always)]
pub(super) fn in_g1<M: Multiplier>(x: &Element<M, 1>, y: &Element<M, 1>) -> u16 {
    let multiple = Jacobian::from_affine(x, y)
        .times_parameter()
        .times_parameter();
    let x = x.mul(&Element::broadcast(x.m(), &[BETA])).carry();
    multiple.equals_negative(&x, y)
}

/// Lanes whose point of the curve over Fp2 is in G2, except some for which the formulas do not hold. The test
/// is ψ(P) = [x]P, and x is negative.
#[inline(always)]
pub(super) fn in_g2<M: Multiplier>(x: &Element<M, 2>, y: &Element<M, 2>) -> u16 {
    let point = Jacobian::from_affine(x, y);
    let image = point.psi();
    point.times_parameter().equals_negative(&image.x, &image.y)
}
