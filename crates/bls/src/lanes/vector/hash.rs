//! Maps pairs of elements of Fp2 to points of G2: `map_to_curve` twice, addition and `clear_cofactor` of RFC
//! 9380, suite `BLS12381G2_XMD:SHA-256_SSWU_RO_`.

use super::curve::Jacobian;
use super::element::{Element, constant, negative, odd, small};
use crate::blst_ffi::field::Fp2;
use crate::vector::{LIMBS, Multiplier, Routine};

/// y² = x³ + A·x + B is isogenous to the curve of G2; A = 240·u, B = 1012·(1 + u).
const A: [[u64; LIMBS]; 2] = [[0; LIMBS], small(240)];
const B: [[u64; LIMBS]; 2] = [small(1012); 2];
/// 60·u = A/4 and 253·(1 + u) = B/4.
const A_QUARTER: [[u64; LIMBS]; 2] = [[0; LIMBS], small(60)];
const B_QUARTER: [[u64; LIMBS]; 2] = [small(253); 2];
/// A square root of -5: 5 is the norm of Z, and neither it nor -1 is a square.
const ROOT_OF_MINUS_5: [[u64; LIMBS]; 1] = [constant([
    0x4d39_c9db_7b26_3cd4,
    0x6c12_a6d4_36be_fcf9,
    0xa014_c40b_ceb7_d230,
    0x4614_aa5e_2eeb_deb1,
    0x7a88_b0f9_99ab_2b50,
    0x1864_1730_2d5a_6534,
])];
/// -1.
const MINUS_ONE: [[u64; LIMBS]; 1] = [constant(negative([1, 0, 0, 0, 0, 0]))];
/// 6 - 6·u: minus the x of the points of order 3 that the isogeny maps to the identity.
const MINUS_KERNEL: [[u64; LIMBS]; 2] = [small(6), constant(negative([6, 0, 0, 0, 0, 0]))];
/// 48·u and 16·(1 + u), the coefficients of Vélu's formulas.
const VELU_V: [[u64; LIMBS]; 2] = [[0; LIMBS], small(48)];
const VELU_U: [[u64; LIMBS]; 2] = [small(16); 2];

impl<M: Multiplier> Element<M, 2> {
    /// Z · self, Z = -(2 + u) of the suite; self is at most 4p.
    #[inline(always)]
    fn times_z(&self) -> Element<M, 2> {
        let (a, b) = (self.coefficient(0), self.coefficient(1));
        // -(2 + u)·(a + b·u) = b - 2a - (a + 2b)·u: at most 8p and 12p are subtracted.
        let (c0, c1) = (
            b.sub::<8>(&a.shl::<1>()),
            Element::zero(self.m()).sub::<12>(&a.add(&b.shl::<1>())),
        );
        Element::from_halves(&c0.carry(), &c1.carry())
    }

    /// Lanes whose `sgn0` is 1.
    #[inline(always)]
    fn sign(&self) -> u16 {
        let [c0, c1] = self.integers();
        // The parity of the first coefficient, or of the second if the first is 0.
        odd(&c0) | c0.equals(&[0; LIMBS]) & odd(&c1)
    }
}

/// The simplified map of Shallue, van de Woestijne and Ulas, to affine points of y² = x³ + A·x + B, and the
/// lanes where the result is valid: all but those of u = 0 and a few more.
///
/// One exponentiation decides whether g(x1) = U/V is a square and yields both 1/V and the root of its norm; a
/// second one computes the root. n = N(U)·N(V), r = n^((p-3)/4), c = r·n, χ = c·r = ±1:
///
/// - 1/N(V) = χ·r²·N(U), and 1/V = conj(V)/N(V);
/// - s = c/N(V) has s² = χ·N(g(x1));
/// - χ = 1: y = √g(x1), from s. χ = -1: Z·g(x1) is a square, of norm 5·N(g(x1)), whose root is √-5·s; and
///   g(Z·u²·x1) = (Z·u²)³·g(x1) gives y = Z·u²·u·√(Z·g(x1)).
struct MapToIsogenous<'a, M: Multiplier>(&'a Element<M, 2>);

impl<M: Multiplier> Routine for MapToIsogenous<'_, M> {
    type Output = (Jacobian<M, 2>, u16);

    #[inline(always)]
    fn run(self) -> (Jacobian<M, 2>, u16) {
        let MapToIsogenous(u) = self;
        let m = u.m();
        let zuu = u.square().carry().times_z();
        let sum = zuu.square().add(&zuu).carry();
        // x1 = N/D with N = B·(sum + 1) and D = -A·sum, both divided by 4.
        let numerator = sum
            .add(&Element::one(m))
            .carry()
            .mul(&Element::broadcast(m, &B_QUARTER))
            .carry();
        let denominator = sum
            .mul(&Element::broadcast(m, &A_QUARTER))
            .carry()
            .neg::<2>();
        // g(x1) = U/V with V = D³ and U = N·(N² + A·D²) + B·V.
        let square = denominator.square().carry();
        let v = square.mul(&denominator).carry();
        let ax = square.mul(&Element::broadcast(m, &A)).carry();
        let g = numerator.square().add(&ax).carry().mul(&numerator);
        let g = g.add(&v.mul(&Element::broadcast(m, &B))).carry();

        let (norm_g, norm_v) = (g.norm(), v.norm());
        let n = norm_g.mul(&norm_v).carry();
        let r = n.inverse_root();
        let c = r.mul(&n).carry();
        let chi = c.mul(&r).carry();
        let is_square = chi.is_one();
        let is_other = chi.equals(&Element::broadcast(m, &MINUS_ONE)) & !is_square;
        let inverse = r.square().carry().mul(&norm_g).carry();
        let inverse = inverse.neg::<2>().select(is_square, &inverse);
        let inverse = Element::from_halves(&inverse, &Element::zero(m));
        let inverse_v = v.conjugate::<2>().mul(&inverse).carry();
        let s = c.mul(&inverse.coefficient(0)).carry();
        let g = g.mul(&inverse_v).carry();

        let other_s = s.mul(&Element::broadcast(m, &ROOT_OF_MINUS_5)).carry();
        let radicand = g.times_z().select(is_square, &g);
        let root = radicand.root(&other_s.select(is_square, &s));
        let good = (is_square | is_other) & root.square().carry().equals(&radicand);

        // N/D is N·D²/V.
        let x = inverse_v.mul(&square).carry().mul(&numerator).carry();
        let other_x = zuu.mul(&x).carry();
        let other_y = zuu.mul(u).carry().mul(&root).carry();
        let x = other_x.select(is_square, &x);
        let y = other_y.select(is_square, &root);
        let flip = y.sign() ^ u.sign();
        let y = y.select(flip, &y.neg::<4>());
        (Jacobian::from_affine(&x, &y), good)
    }
}

impl<M: Multiplier> Jacobian<M, 2> {
    /// The isogeny of degree 3 to y² = x³ + 4(1 + u), by Vélu's formulas and λ = -1/3:
    ///
    /// d = x + 6 - 6u; x' = (x + 48u/d + 16(1+u)/d²)/9; y' = -y·(1 - 48u/d² - 32(1+u)/d³)/27.
    ///
    /// Its kernel has no rational point except the identity, so d ≠ 0. The constants of RFC 9380, appendix E.3,
    /// are the coefficients of these fractions.
    #[inline(always)]
    fn isogeny(&self) -> Jacobian<M, 2> {
        let m = self.z.m();
        let zz = self.z.square().carry();
        let zzzz = zz.square().carry();
        let zzzzzz = zzzz.mul(&zz).carry();
        // D = d·Z².
        let d = zz
            .mul(&Element::broadcast(m, &MINUS_KERNEL))
            .add(&self.x)
            .carry();
        let dd = d.square().carry();
        let v = zzzz
            .mul(&Element::broadcast(m, &VELU_V))
            .carry()
            .mul(&d)
            .carry();
        let u = zzzzzz.mul(&Element::broadcast(m, &VELU_U)).carry();
        // λ³ is negative, and so is this factor.
        let y = v.add(&u.shl::<1>()).sub::<2>(&dd.mul(&d)).carry();
        let zd = self.z.mul(&d);
        Jacobian {
            x: self.x.mul(&dd).add(&v).add(&u).carry(),
            y: self.y.mul(&y).carry(),
            z: zd.add(&zd.shl::<1>()).carry(),
        }
    }

    /// h·P with the h of the suite: (x² - x - 1)·P + (x - 1)·ψ(P) + ψ²(2P) (Budroni and Pintore, "Efficient
    /// hash maps to G2 on BLS curves", 2017).
    #[inline(always)]
    fn clear_cofactor(&self) -> Jacobian<M, 2> {
        // x is negative: x·P = -|x|·P.
        let multiple = self.times_parameter().neg();
        let image = self.psi();
        let mut double = *self;
        double.double();
        // As x·(x·P + ψ(P)) + rest, the sum takes only two multiplications by x.
        let rest = double
            .psi()
            .psi()
            .add(&image.neg())
            .add(&multiple.neg())
            .add(&self.neg());
        multiple.add(&image).times_parameter().neg().add(&rest)
    }
}

/// The points for sixteen pairs (u0, u1), and the lanes where they are correct: all where no exceptional case
/// was met. Choosing messages cannot cause such a case.
#[inline(always)]
pub(super) fn map<M: Multiplier>(u: &[Element<M, 2>; 2]) -> (Element<M, 2>, Element<M, 2>, u16) {
    let (p, p_good) = u[0].m().run(MapToIsogenous(&u[0]));
    let (q, q_good) = u[1].m().run(MapToIsogenous(&u[1]));
    let (x, y, finite) = p.add(&q).isogeny().clear_cofactor().affine::<Fp2>();
    (x, y, p_good & q_good & finite)
}
