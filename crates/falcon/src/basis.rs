//! Checks that the bytes of a secret key are a basis that can sign.
//!
//! The decoder of `fn-dsa` accepts any short `f`, `g`, `F` with a short `G = g F / f` modulo `q`. With
//! bases other than those of key generation a signer may try forever. A key from outside must therefore meet
//! the conditions of key generation (Falcon specification, version 1.2, algorithms 5 and 6):
//! `f G - g F = q` over the integers, and neither vector of the orthogonalised basis longer than
//! `1.17 sqrt(q)`.

use std::f64::consts::PI;

use zeroize::{Zeroize, Zeroizing};

use crate::ring::Polys;
use crate::{Flavour, MODULUS, Parameters, PublicKey};

/// Bits per coefficient of `F`.
const LONG_BITS: usize = 8;

/// Returns the bytes of `f`, and of `g`, in a degree.
pub(crate) const fn short_bytes(degree: usize) -> usize {
    degree * Parameters::of(degree).short_bits / 8
}

/// Returns the bytes of the header, `f`, `g` and `F` in a degree. The draft appends the digest of the public key.
pub(crate) const fn basis_bytes(degree: usize) -> usize {
    1 + 2 * short_bytes(degree) + degree * LONG_BITS / 8
}

/// Maximum absolute value of a coefficient of `G`.
const LONG_MAX: i16 = 127;

/// `1.17^2 q`, with room for the rounding of sums.
const NORM_SQ_MAX: f64 = 1.17 * 1.17 * MODULUS as f64 * (1.0 + 1e-9);

pub(crate) type Coefficients<const N: usize> = Zeroizing<[i16; N]>;

/// Whether the encoded secret key of `public` is a basis that can sign.
pub(crate) fn signs<const N: usize>(bytes: &[u8], public: &PublicKey<N>) -> bool {
    let parameters = const { Parameters::of(N) };
    let flavour = public.flavour();
    let digest: &[u8] = match flavour {
        Flavour::FnDsa => public.digest(),
        Flavour::Original | Flavour::Slot => &[],
    };
    if bytes.len() != basis_bytes(N) + digest.len() {
        return false;
    }
    let (basis, rest) = bytes.split_at(basis_bytes(N));
    let (f, more) = basis[1..].split_at(short_bytes(N));
    let (g, long) = more.split_at(short_bytes(N));
    let f = numbers(flavour, f, parameters.short_bits);
    let g = numbers(flavour, g, parameters.short_bits);
    let f_long = numbers(flavour, long, LONG_BITS);
    // The encoding has no `G`. Modulo `q` it is `h F`; that the centred product is `G` itself, the determinant shows.
    let g_long = times_key(public, &f_long);
    basis[0] == parameters.secret_header()
        && rest == digest
        && g_long.iter().all(|c| c.abs() <= LONG_MAX)
        && determinant_is_q(&f, &g_long, &g, &f_long)
        && vectors_are_short(&f, &g)
}

/// Reads numbers in two's complement, with the bit order of a flavour.
pub(crate) fn numbers<const N: usize>(
    flavour: Flavour,
    bytes: &[u8],
    bits: usize,
) -> Coefficients<N> {
    let mut out = Zeroizing::new([0; N]);
    for (i, number) in out.iter_mut().enumerate() {
        let mut value = 0i16;
        for k in 0..bits {
            let at = i * bits + k;
            let (shift, place) = if flavour.is_little_endian() {
                (at % 8, k)
            } else {
                (7 - at % 8, bits - 1 - k)
            };
            value |= i16::from(bytes[at / 8] >> shift & 1) << place;
        }
        let unused = 16 - bits;
        // The arithmetic shift copies the sign into the unused bits.
        *number = value << unused >> unused;
    }
    out
}

/// Returns `h a` modulo `q`, centred.
fn times_key<const N: usize>(public: &PublicKey<N>, a: &[i16; N]) -> Coefficients<N> {
    let (mut h, mut product) = (Polys::<1, N>::zero(), Polys::<1, N>::zero());
    h.load(0, public.values());
    product.load(0, a);
    product.reduce();
    product.forward();
    product.multiply(&h);
    product.inverse();
    product.centre();
    let mut out = Zeroizing::new([0; N]);
    product.store(0, &mut out);
    // The multiplicand is `F` of a secret key, and the product its `G`.
    product.zeroize();
    out
}

/// Whether `a d - b c = q` in `Z[Y]/(Y^N + 1)`.
fn determinant_is_q<const N: usize>(
    a: &[i16; N],
    d: &[i16; N],
    b: &[i16; N],
    c: &[i16; N],
) -> bool {
    let coefficient = |k: usize| -> i32 {
        let term = |j: usize| {
            let (index, sign) = if j <= k { (k - j, 1) } else { (N + k - j, -1) };
            // Coefficients have at most eight bits, so 1024 such terms fit 32 bits.
            let product = |x: i16, y: i16| i32::from(x) * i32::from(y);
            sign * (product(a[j], d[index]) - product(b[j], c[index]))
        };
        (0..N).map(term).sum()
    };
    let expected = |k: usize| if k == 0 { i32::from(MODULUS) } else { 0 };
    (0..N).fold(true, |all, k| all & (coefficient(k) == expected(k)))
}

/// Whether `(g, -f)` and the orthogonalised second vector are short. The values of `f` and `g` at the roots of
/// `Y^N + 1` give both lengths: the second is `q^2 / N` times the sum of `1 / (|f|^2 + |g|^2)` over all roots.
fn vectors_are_short<const N: usize>(f: &[i16; N], g: &[i16; N]) -> bool {
    let (mut first, mut second) = (0.0, 0.0);
    // The other half of the roots are conjugates.
    for j in 0..N / 2 {
        let root = PI * (2 * j + 1) as f64 / N as f64;
        let both = value_sq(f, root) + value_sq(g, root);
        first += 2.0 * both / N as f64;
        second += 2.0 / (N as f64 * both);
    }
    let q = f64::from(MODULUS);
    // A value of zero gives infinity, which is not short.
    first <= NORM_SQ_MAX && q * q * second <= NORM_SQ_MAX
}

/// Returns the squared absolute value of `a` at `exp(i angle)`, by Horner's rule.
fn value_sq(a: &[i16], angle: f64) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let (mut real, mut imaginary) = (0.0, 0.0);
    for &c in a.iter().rev() {
        (real, imaginary) = (
            real * cosine - imaginary * sine + f64::from(c),
            real * sine + imaginary * cosine,
        );
    }
    real * real + imaginary * imaginary
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OriginalKey, SecretKey};

    fn generated_keys_sign<const N: usize>() {
        for i in 0..3 {
            let (draft, original) = (SecretKey::<N>::interop(i), OriginalKey::<N>::interop(i));
            assert!(signs(draft.bytes(), draft.public()), "{i}");
            assert!(signs(original.bytes(), original.public()), "{i}");
            let cut = &draft.bytes()[..basis_bytes(N)];
            assert!(!signs(cut, original.public()), "{i}");
        }
    }

    #[test]
    fn generated_keys_sign_and_other_bases_do_not() {
        generated_keys_sign::<512>();
        generated_keys_sign::<1024>();
    }

    fn degenerate_keys_are_refused<const N: usize>() {
        let (draft, original) = (SecretKey::<N>::interop(1), OriginalKey::<N>::interop(1));
        let long = 1 + 2 * short_bytes(N)..basis_bytes(N);
        let mut zero = draft.bytes().to_vec();
        zero[long.clone()].fill(0);
        assert!(SecretKey::<N>::from_bytes(&zero).is_err());
        let mut zero = original.bytes().to_vec();
        zero[long].fill(0);
        assert!(OriginalKey::<N>::from_bytes(&zero).is_err());
        // The decoder of the draft does not check the digest, and would sign for another key.
        let mut other = draft.bytes().to_vec();
        other[basis_bytes(N)] ^= 1;
        assert!(SecretKey::<N>::from_bytes(&other).is_err());
        assert!(SecretKey::<N>::from_bytes(draft.bytes()).is_ok());
        assert!(OriginalKey::<N>::from_bytes(draft.bytes()).is_err());
        assert!(SecretKey::<N>::from_bytes(original.bytes()).is_err());
    }

    /// `F = 0` and `F = f` have a short `G` and pass the decoders of `fn-dsa`, but not the determinant check.
    #[test]
    fn degenerate_keys_are_refused_by_both_flavours() {
        degenerate_keys_are_refused::<512>();
        degenerate_keys_are_refused::<1024>();
    }

    #[test]
    fn keys_of_another_degree_are_refused() {
        let (short, long) = (SecretKey::<512>::interop(1), SecretKey::<1024>::interop(1));
        assert!(SecretKey::<1024>::from_bytes(short.bytes()).is_err());
        assert!(SecretKey::<512>::from_bytes(long.bytes()).is_err());
        let (short, long) = (
            OriginalKey::<512>::interop(1),
            OriginalKey::<1024>::interop(1),
        );
        assert!(OriginalKey::<1024>::from_bytes(short.bytes()).is_err());
        assert!(OriginalKey::<512>::from_bytes(long.bytes()).is_err());
    }

    fn long_vectors_are_no_basis<const N: usize>() {
        let (mut f, mut g) = ([0; N], [0; N]);
        f[0] = 1;
        g[0] = 1;
        // Far too short, so the other vector is too long by the same factor.
        assert!(!vectors_are_short(&f, &g));
        f.fill(4);
        assert!(!vectors_are_short(&f, &g));
        let key = SecretKey::<N>::interop(5);
        let (bits, bytes) = (Parameters::of(N).short_bits, short_bytes(N));
        let short =
            |i: usize| numbers::<N>(Flavour::FnDsa, &key.bytes()[1 + bytes * i..][..bytes], bits);
        assert!(vectors_are_short(&short(0), &short(1)));
    }

    /// Long `f`, `g` that are no problem for the determinant: `f = 31`, `g = 31`, `F = 0` has none.
    #[test]
    fn long_vectors_are_refused() {
        long_vectors_are_no_basis::<512>();
        long_vectors_are_no_basis::<1024>();
    }
}
