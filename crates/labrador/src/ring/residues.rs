//! The eight primes of the residue system and their tables, all computed at compile time.

use super::{DEGREE, Q};

/// Number of primes.
pub(super) const PRIMES: usize = 8;

/// Primes below `2^14` that are 1 modulo 128: `X^64 + 1` splits into linear factors modulo each.
pub(super) const MODULI: [i16; PRIMES] = [7937, 7681, 7297, 6529, 4993, 4481, 13697, 13441];

/// The product of the primes, about `2^103.24`.
pub(super) const PRODUCT: u128 = {
    let mut product = 1u128;
    let mut i = 0;
    while i < PRIMES {
        product *= MODULI[i] as u128;
        i += 1;
    }
    product
};

/// Integers up to this absolute value are recovered exactly: 98 % of half the product, so that
/// the rounding of the quotient in [`super::portable::lift`] has a distance of one hundredth from
/// its breaking point.
pub(super) const BOUND: u128 = PRODUCT / 100 * 49;

/// Everything that the kernels need of one prime. "M" after a name: in Montgomery form, times
/// `2^16`, centred.
pub(super) struct Tables {
    /// The prime.
    pub(super) p: i16,
    /// Its inverse modulo `2^16`.
    pub(super) p_inv: i16,
    /// `round(2^27 / p)`.
    pub(super) barrett: i16,
    /// `2^32 mod p`, that is M of `2^16`: undoes the division of one product.
    pub(super) square: i16,
    /// Powers of the root in the order of the butterflies, M.
    pub(super) roots: [i16; DEGREE],
    /// The inverse of 64, M.
    pub(super) degree_inv: i16,
    /// `2^12, 2^24, 2^36`, M.
    pub(super) limbs: [i16; 3],
    /// The inverse of `PRODUCT / p`, M.
    pub(super) crt: i16,
    /// `PRODUCT / p` modulo [`Q`], centred.
    pub(super) cofactor: i64,
    /// `floor(2^40 / p)`.
    pub(super) reciprocal: i64,
}

/// The tables of all primes.
pub(super) static TABLES: [Tables; PRIMES] = {
    const NONE: Tables = tables(0);
    let mut all = [NONE; PRIMES];
    let mut i = 1;
    while i < PRIMES {
        all[i] = tables(i);
        i += 1;
    }
    all
};

/// The product of the primes modulo [`Q`], centred.
pub(super) const PRODUCT_MOD_Q: i64 = centre((PRODUCT % Q as u128) as i64, Q as i64);

const fn centre(x: i64, modulus: i64) -> i64 {
    if x > modulus / 2 { x - modulus } else { x }
}

const fn power(base: i64, exponent: i64, p: i64) -> i64 {
    let (mut result, mut square, mut left) = (1, base % p, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result * square % p;
        }
        square = square * square % p;
        left >>= 1;
    }
    result
}

const fn montgomery(x: i64, p: i64) -> i16 {
    centre((x % p) * ((1 << 16) % p) % p, p) as i16
}

/// A root of order 128: the first power of the right exponent whose 64th power is -1.
const fn root(p: i64) -> i64 {
    let mut base = 2;
    loop {
        let candidate = power(base, (p - 1) / 128, p);
        if power(candidate, 64, p) == p - 1 {
            return candidate;
        }
        base += 1;
    }
}

const fn tables(index: usize) -> Tables {
    let p = MODULI[index] as i64;
    let mut roots = [0i16; DEGREE];
    let psi = root(p);
    let mut i = 0;
    while i < DEGREE {
        let reversed = (i as u8).reverse_bits() >> 2;
        roots[i] = montgomery(power(psi, reversed as i64, p), p);
        i += 1;
    }
    let mut inverse = 1i16;
    let mut step = 0;
    // Newton's iteration doubles the correct bits: 1, 2, 4, 8, 16.
    while step < 4 {
        inverse = inverse.wrapping_mul(2i16.wrapping_sub((p as i16).wrapping_mul(inverse)));
        step += 1;
    }
    let rest = PRODUCT / p as u128;
    Tables {
        p: p as i16,
        p_inv: inverse,
        barrett: (((1 << 27) + p / 2) / p) as i16,
        square: montgomery(1 << 16, p),
        roots,
        degree_inv: montgomery(power(DEGREE as i64, p - 2, p), p),
        limbs: [
            montgomery(1 << 12, p),
            montgomery(1 << 24, p),
            montgomery(1 << 36, p),
        ],
        crt: montgomery(power((rest % p as u128) as i64, p - 2, p), p),
        cofactor: centre((rest % Q as u128) as i64, Q as i64),
        reciprocal: (1 << 40) / p,
    }
}
