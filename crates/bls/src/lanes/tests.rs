//! Compares decoding, subgroup checks and hashing on each kernel with blst, including malformed inputs.

use proptest::prelude::*;

use super::*;
use crate::blst_ffi::field::Field;
use crate::blst_ffi::points::{g1, g2};
use crate::kernel::KERNELS;
use crate::subgroup::tests::point_of_order_13;
use crate::sums::KernelField;

fn check_decoding<F: KernelField + LaneField>(encoded: &[Vec<u8>]) {
    let expected: Vec<_> = encoded.iter().map(|bytes| F::decompress(bytes)).collect();
    for backend in KERNELS.available() {
        assert_eq!(
            decompress::<F, _>(encoded, Exec::new(backend, None)),
            expected
        );
    }
}

/// Sixteen good encodings, and each of them with some bytes and flags changed.
fn damaged(good: &[Vec<u8>], damage: &[(usize, u8)]) -> Vec<Vec<u8>> {
    let mut out = good.to_vec();
    for (i, (at, bits)) in damage.iter().enumerate() {
        let mut bytes = good[i % good.len()].clone();
        let at = at % bytes.len();
        bytes[at] ^= bits;
        out.push(bytes.clone());
        bytes[0] ^= bits & 0xe0;
        out.push(bytes);
    }
    out
}

fn multiples<F: KernelField + LaneField>(generator: Affine<F>, count: usize) -> Vec<Affine<F>> {
    let mut out = vec![generator];
    while out.len() < count {
        out.push(F::sum_naive(&[out[out.len() - 1], generator]));
    }
    out
}

fn encodings() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let keys = multiples(g1::generator(), 20);
    let signatures = multiples(g2::generator(), 20);
    (
        keys.iter().map(|p| g1::compress(p).to_vec()).collect(),
        signatures
            .iter()
            .map(|p| g2::compress(p).to_vec())
            .collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(feature = "soak") { 4096 } else { 64 }))]

    #[test]
    fn damaged_encodings_decode_as_blst_says(
        damage in prop::collection::vec((0usize..96, 0u8..), 0..60),
    ) {
        let (keys, signatures) = encodings();
        check_decoding::<Fp>(&damaged(&keys, &damage));
        check_decoding::<Fp2>(&damaged(&signatures, &damage));
    }

    /// Half of all x are on the curve.
    #[test]
    fn random_encodings_decode_as_blst_says(
        bytes in prop::collection::vec(prop::array::uniform32(0u8..), 3 * 24),
        top in 0u8..,
    ) {
        let take = |parts: usize, length: usize| -> Vec<Vec<u8>> {
            let all = bytes.concat();
            all.chunks(32 * parts)
                .map(|chunk| {
                    let mut out = chunk[..length].to_vec();
                    // Mostly well-formed, and below p in three of four.
                    out[0] = 0x80 | out[0] & 0x3f & (top | 0x2f);
                    out[0] &= if chunk[1] & 3 == 0 { 0xff } else { 0xaf };
                    if length == 96 {
                        out[48] &= 0x0f;
                    }
                    out
                })
                .collect()
        };
        check_decoding::<Fp>(&take(2, 48));
        check_decoding::<Fp2>(&take(3, 96));
    }

    #[test]
    fn messages_hash_as_blst_says(
        messages in prop::collection::vec(prop::collection::vec(0u8.., 0..200), 1..40),
        tag in prop::collection::vec(0u8.., 0..300),
    ) {
        let expected: Vec<G2Affine> = messages.iter().map(|m| pairing::hash_to_g2(m, &tag)).collect();
        for backend in KERNELS.available() {
            prop_assert_eq!(&hash_to_g2(&messages, &tag, Exec::new(backend, None)), &expected);
        }
    }
}

/// Sets the last 48 bytes to a number.
fn with_x(length: usize, x: [u64; 6], flags: u8) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (bytes, word) in bytes.rchunks_mut(8).zip(x) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    bytes[0] |= flags;
    bytes
}

#[test]
fn edges_of_the_encodings_decode_as_blst_says() {
    let mut numbers = vec![[0; 6], [u64::MAX; 6], P];
    for delta in 1..6 {
        let mut number = P;
        number[0] -= delta;
        numbers.push(number);
        number[0] = P[0] + delta;
        numbers.push(number);
        numbers.push([delta, 0, 0, 0, 0, 0]);
    }
    let (mut keys, mut signatures) = encodings();
    for flags in (0..8).map(|flags| flags << 5) {
        for number in &numbers {
            keys.push(with_x(48, *number, flags));
            signatures.push(with_x(96, *number, flags));
            // The number as the other coefficient.
            let mut bytes = with_x(96, [3, 0, 0, 0, 0, 0], flags);
            bytes[..48].copy_from_slice(&with_x(48, *number, flags));
            signatures.push(bytes);
        }
    }
    for length in [0, 1, 47, 49, 95, 97, 192] {
        keys.push(vec![0x80; length]);
        signatures.push(vec![0x80; length]);
    }
    keys.extend(signatures.clone());
    signatures.extend(encodings().0);
    check_decoding::<Fp>(&keys);
    check_decoding::<Fp2>(&signatures);
}

/// x = a + b·u with 3a²b - b³ = -4 makes x³ + 4(1 + u) real: the formula of the lanes meets a zero where the
/// root is not real.
#[test]
fn roots_of_real_numbers_decode_as_blst_says() {
    let small = |n: u64| (0..n).fold(Fp::ZERO, |x, _| x.add(&Fp::ONE));
    let mut encoded = Vec::new();
    for b in 1..200 {
        let b = small(b);
        let square = b
            .square()
            .mul(&b)
            .sub(&small(4))
            .mul(&b.mul(&small(3)).inverse());
        // p = 3 mod 4: a root is the power (p + 1)/4, and bit i of (p - 3)/4 is bit i + 2 of p.
        let a = (0..379).rev().fold(Fp::ONE, |power, bit| {
            let power = power.square();
            if p_bit(bit + 2) {
                power.mul(&square)
            } else {
                power
            }
        });
        let a = a.mul(&square);
        if a.square() == square {
            let point = Affine {
                x: Fp2::new(a, b),
                y: Fp2::ONE,
            };
            let mut bytes = g2::serialize(&point)[..96].to_vec();
            bytes[0] |= 0x80;
            encoded.push(bytes.clone());
            bytes[0] |= 0x20;
            encoded.push(bytes);
        }
    }
    let decoded = encoded
        .iter()
        .filter(|bytes| Fp2::decompress(bytes).is_ok());
    assert!(decoded.count() > 100);
    check_decoding::<Fp2>(&encoded);
}

fn p_bit(bit: usize) -> bool {
    P[bit / 64] >> (bit % 64) & 1 == 1
}

fn check_groups<F: KernelField + LaneField>(generator: Affine<F>, torsion: Affine<F>) {
    let mut points = multiples(generator, 40);
    for i in (0..40).step_by(3) {
        points[i] = F::sum_naive(&[points[i], torsion]);
    }
    // Multiples of a point of small order meet the exceptions of every formula.
    points.extend(multiples(torsion, 20));
    points.push(Affine::INFINITY);
    let expected: Vec<usize> = (0..points.len())
        .filter(|&i| !F::in_group(&points[i]))
        .collect();
    assert!(expected.len() >= 14 + 13);
    for backend in KERNELS.available() {
        assert_eq!(outside_group(backend, &points), expected, "{backend}");
        // Around the smallest number of points in a run, eight, and the largest, sixteen.
        for n in [0, 1, 7, 8, 17] {
            let expected: Vec<usize> = expected.iter().copied().filter(|&i| i < n).collect();
            assert_eq!(outside_group(backend, &points[..n]), expected);
        }
    }
}

#[test]
fn points_outside_the_groups_are_named_exactly() {
    let two = Fp::ONE.add(&Fp::ONE);
    check_groups(
        g1::generator(),
        Affine {
            x: Fp::ZERO,
            y: two,
        },
    );
    check_groups(g2::generator(), point_of_order_13());
}

/// Small digits, where the lanes meet exceptions, and scalars that four digits cannot hold.
#[test]
fn multiples_equal_blst_s() {
    let number = |value: u64, shift: usize| {
        let mut scalar = [0; 32];
        scalar[shift..shift + 8].copy_from_slice(&value.to_le_bytes());
        scalar
    };
    let mut scalars = vec![[0; 32], [0xff; 32], [0x11; 32], number(1, 24)];
    scalars.extend((1..6).map(|k| number(k, 0)));
    // Multiples of the parameter, and numbers around it.
    scalars.extend([0xd201_0000_0001_0000, 0xd201_0000_0000_ffff].map(|x| number(x, 0)));
    scalars.extend((0..60u64).map(|i| {
        let word = |k: u64| {
            (4 * i + k + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_le_bytes()
        };
        let mut scalar = [0; 32];
        for (bytes, k) in scalar.chunks_exact_mut(8).zip(0..) {
            bytes.copy_from_slice(&word(k));
        }
        scalar[31] &= 0x3f;
        scalar
    }));
    let points = multiples(g2::generator(), scalars.len());
    for count in [0, 1, 7, 8, 16, 17, scalars.len()] {
        let items: Vec<_> = points
            .iter()
            .copied()
            .zip(scalars.iter().copied())
            .take(count)
            .collect();
        let expected: Vec<G2Affine> = items
            .iter()
            .map(|(point, scalar)| Fp2::multiply(point, scalar))
            .collect();
        for backend in KERNELS.available() {
            assert_eq!(
                vartime_multiples(&items, Exec::new(backend, None)),
                expected
            );
        }
    }
}

/// Pairs of multiples: of the generators and their negatives, some with an infinite point.
fn pairs(count: usize) -> Vec<(G1Affine, G2Affine)> {
    let keys = multiples::<Fp>(g1::generator(), count + 3);
    let hashes = multiples::<Fp2>(g2::generator(), 2 * count + 1);
    let pair = |i: usize| match i % 11 {
        7 => (Affine::INFINITY, hashes[i]),
        9 => (keys[i], Affine::INFINITY),
        10 => (keys[i].neg(), hashes[2 * i].neg()),
        i if i % 2 == 1 => (keys[i + 3].neg(), hashes[i]),
        _ => (keys[i + 3], hashes[2 * i]),
    };
    (0..count).map(pair).collect()
}

/// Compares the product of each kernel with blst's, however few pairs there are.
fn check_miller_loops(pairs: &[(G1Affine, G2Affine)]) {
    let finite: Vec<_> = pairs
        .iter()
        .copied()
        .filter(|(p, q)| !p.is_infinity() && !q.is_infinity())
        .collect();
    let expected = pairing::pairing_product(pairs);
    for backend in KERNELS.available() {
        let exec = Exec::new(backend, None);
        let mut found = vec![miller_product(pairs, exec)];
        if finite.len() <= LANES * vector::tower::BLOCKS_MAX {
            with_multiplier!(backend, m => found.push(miller_in_lanes(m, &finite, exec)), _ => {});
        }
        for found in found {
            let same = found.final_exp() == expected;
            assert!(same, "{} pairs, {backend}", pairs.len());
        }
    }
}

#[test]
fn products_of_miller_loops_are_blst_s_in_gt() {
    let all = pairs(620);
    // The last ones have as many blocks as a chunk can have.
    for count in [0, 1, 7, 8, 9, 10, 15, 16, 17, 20, 33, 100, 131, 620] {
        check_miller_loops(&all[..count]);
        check_miller_loops(&all[all.len() - count..]);
    }
    // The same pair in all lanes, and pairs that cancel.
    check_miller_loops(&[all[0]; 16]);
    let (p, q) = all[1];
    check_miller_loops(&[[(p, q); 8], [(p.neg(), q); 8]].concat());
}

/// e(a·g1, b·g2) = e(a·b·g1, g2), where only all pairs together give one.
#[test]
fn products_of_miller_loops_are_bilinear() {
    for backend in KERNELS.available() {
        let mut pairs: Vec<(G1Affine, G2Affine)> = (1..=99u64)
            .map(|i| {
                let (a, b) = (i.to_le_bytes(), (3 * i + 1).to_le_bytes());
                let key = g1::mul(&g1::generator(), &a, 64);
                (key, g2::mul(&g2::generator(), &b, 64))
            })
            .collect();
        let sum: u64 = (1..=99).map(|i| i * (3 * i + 1)).sum();
        let key = g1::mul(&g1::generator(), &sum.to_le_bytes(), 64);
        pairs.push((key.neg(), g2::generator()));
        let one = |pairs: &[_]| {
            let product = miller_product(pairs, Exec::new(backend, None));
            product.final_exp().is_one()
        };
        assert!(one(&pairs), "{backend}");
        assert!(!one(&pairs[..99]) && !one(&pairs[1..]), "{backend}");
    }
}

/// Points of small order meet a denominator of 0. Their product is still blst's, which may be 0.
#[test]
fn miller_loops_without_a_slope_are_blst_s() {
    let two = Fp::ONE.add(&Fp::ONE);
    let order_3 = Affine {
        x: Fp::ZERO,
        y: two,
    };
    let mut pairs = pairs(40);
    pairs[30].0 = order_3;
    check_miller_loops(&pairs);
    pairs[30] = (g1::generator(), point_of_order_13());
    check_miller_loops(&pairs);
}
