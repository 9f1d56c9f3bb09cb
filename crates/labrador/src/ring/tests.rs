use super::*;
use crate::kernel::{Dispatch, KERNELS};
use proptest::prelude::*;

fn schoolbook(a: &[i64; DEGREE], b: &[i64; DEGREE]) -> Rq {
    let mut out = [0u64; DEGREE];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let product = mul_mod(reduce(x), reduce(y));
            let k = (i + j) % DEGREE;
            let signed = if i + j < DEGREE || product == 0 {
                product
            } else {
                Q - product
            };
            out[k] = add_mod(out[k], signed);
        }
    }
    Rq::from_canonical(out).expect("sums of residues are residues")
}

fn any_rq() -> impl Strategy<Value = Rq> {
    let coefficient = prop_oneof![
        0..Q,
        Just(0),
        Just(1),
        Just(Q - 1),
        Just(Q / 2),
        Just(Q / 2 + 1),
    ];
    proptest::collection::vec(coefficient, DEGREE).prop_map(|v| {
        Rq::from_canonical(v.try_into().expect("64 coefficients")).expect("all below Q")
    })
}

fn any_small() -> impl Strategy<Value = Small> {
    let coefficient = prop_oneof![any::<i16>(), Just(i16::MIN), Just(i16::MAX)];
    proptest::collection::vec(coefficient, DEGREE)
        .prop_map(|v| Small(v.try_into().expect("64 coefficients")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn residues_keep_the_value(x in any_rq(), s in any_small()) {
        prop_assert_eq!(Ntt::from_rq(&x).to_rq(), x);
        prop_assert_eq!(Ntt::from_small(&s).to_rq(), Rq::from_small(&s));
    }

    #[test]
    fn products_match_the_schoolbook(x in any_rq(), y in any_rq(), s in any_small()) {
        let (nx, ny, ns) = (Ntt::from_rq(&x), Ntt::from_rq(&y), Ntt::from_small(&s));
        prop_assert_eq!(nx.times(&ny).to_rq(), schoolbook(&x.centred(), &y.centred()));
        let widened = s.0.map(i64::from);
        let both = Ntt::dot([(&nx, &ns), (&ny, &ns)]);
        let mut expected = schoolbook(&x.centred(), &widened);
        expected.add(&schoolbook(&y.centred(), &widened));
        prop_assert_eq!(both.to_rq(), expected);
    }

    #[test]
    fn sigma_is_the_same_on_both_sides(x in any_rq()) {
        prop_assert_eq!(x.sigma().sigma(), x);
    }

    #[test]
    fn inner_products_are_constant_coefficients(x in any_rq(), s in any_small()) {
        let product = Ntt::from_rq(&x.sigma()).times(&Ntt::from_small(&s)).to_rq();
        prop_assert_eq!(inner_product(&x, &s), product.coefficients()[0]);
    }

    #[test]
    fn scalars_reduce(x in any::<i64>(), y in 0..Q, z in 0..Q) {
        prop_assert_eq!(i128::from(reduce(x)), i128::from(x).rem_euclid(i128::from(Q)));
        let wide = u128::from(y) * u128::from(z) % u128::from(Q);
        prop_assert_eq!(u128::from(mul_mod(y, z)), wide);
    }
}

#[test]
fn extreme_residues_do_not_overflow_long_sums() {
    let big = Ntt::from_rq(&Rq::from_integers(&[(Q / 2) as i64; DEGREE]));
    let small = Small([i16::MIN; DEGREE]);
    let short = Ntt::from_small(&small);
    let mut expected = Rq::ZERO;
    let one = schoolbook(&[(Q / 2) as i64; DEGREE], &small.0.map(i64::from));
    for _ in 0..1000 {
        expected.add(&one);
    }
    let sum = Ntt::dot((0..1000).map(|_| (&big, &short)));
    assert_eq!(sum.to_rq(), expected);
    assert_eq!(sum.refreshed().to_rq(), expected);
}

#[test]
#[should_panic(expected = "not refreshed")]
fn a_value_that_may_not_fit_is_refused_whatever_it_is() {
    let x = Ntt::from_rq(&Rq::ZERO);
    let product = x.times(&x);
    let mut sum = product.clone();
    for _ in 0..4 {
        sum.add(&product);
    }
    let _ = sum.to_rq();
}

#[test]
fn norms_of_the_least_integer_fit() {
    let mut x = Small::ZERO;
    x.0[5] = i16::MIN;
    assert_eq!(x.norm_sq(), 1 << 30);
    x.0[6] = -3;
    assert_eq!(norm_sq(&[x.clone(), x]), 2 * ((1 << 30) + 9));
}

/// Every level computes the same as the portable one, for extreme and for random elements.
#[test]
fn all_levels_agree() {
    use crate::kernel::{Pass, Vectors};
    use alphorn_exec::Backend;
    struct Sums<'a>(&'a [Ntt], &'a [Ntt]);
    impl Pass for Sums<'_> {
        type Output = Vec<Rq>;

        #[inline(always)]
        fn run<V: Vectors>(self) -> Vec<Rq> {
            let mut sum = Ntt::dot_in::<V>(self.0.iter().zip(self.1));
            let dot = sum.to_rq_in::<V>();
            sum.add_in::<V>(&self.0[0].times_in::<V>(&self.1[0]));
            vec![dot, sum.to_rq_in::<V>()]
        }
    }
    let mut stream = crate::transcript::Seed::of_name("levels").stream();
    let mut elements: Vec<Rq> = (0..70).map(|_| stream.element()).collect();
    for extreme in [0, 1, Q - 1, Q / 2, Q / 2 + 1] {
        elements.push(Rq([extreme; DEGREE]));
    }
    let mut small: Vec<Small> = (elements.iter())
        .map(|x| Small(x.0.map(|c| c as i16)))
        .collect();
    small.push(Small([i16::MIN; DEGREE]));
    small.push(Small([i16::MAX; DEGREE]));
    elements.extend_from_within(..2);
    let portable = Backend::Portable;
    let expected: Vec<Vec<Rq>> = (0..elements.len())
        .map(|n| {
            let (x, y) = (&elements[n..], &small[n..]);
            portable.run(Sums(&portable.transforms(x), &portable.residues(y)))
        })
        .collect();
    for backend in KERNELS.available() {
        for (n, expected) in expected.iter().enumerate() {
            let (x, y) = (
                backend.transforms(&elements[n..]),
                backend.residues(&small[n..]),
            );
            assert_eq!(&backend.run(Sums(&x, &y)), expected, "{backend} {n}");
            assert_eq!(backend.elements(&x), &elements[n..], "{backend} {n}");
        }
    }
}
