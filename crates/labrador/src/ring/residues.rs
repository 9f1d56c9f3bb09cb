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

/// Integers up to this absolute value are recovered exactly. It is 98 % of half the product, so that
/// the rounding of the quotient in [`super::lift::lift`] stays one hundredth away from its breaking
/// point.
pub(super) const BOUND: u128 = PRODUCT / 100 * 49;

/// One number per prime.
pub(super) type Row = [i16; PRIMES];

/// A constant multiplicand: in Montgomery form (times `2^16`, centred), and times the inverse of the
/// prime modulo `2^16`.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub(super) value: Row,
    pub(super) scaled: Row,
}

/// The constants of a transform, row after row.
pub(super) struct Roots {
    /// Constants of all butterflies.
    pub(super) each: Rows,
    /// Constants of the layer with blocks of two rows, each twice.
    pub(super) twice: Rows,
}

/// Rows of constants in the form of [`Factor`].
pub(super) struct Rows {
    pub(super) values: [i16; DEGREE * PRIMES],
    pub(super) scaled: [i16; DEGREE * PRIMES],
}

/// Everything that the kernels need to know about the primes.
pub(super) struct Tables {
    /// The primes.
    pub(super) p: Row,
    /// The inverses of the primes modulo `2^16`.
    pub(super) p_inv: Row,
    /// `round(2^27 / p)`.
    pub(super) barrett: Row,
    /// `2^16`: undoes the division in one product.
    pub(super) square: Factor,
    /// Powers of the roots in the order of the butterflies, and in the order of the inverse transform.
    pub(super) roots: Roots,
    pub(super) inverse_roots: Roots,
    /// The values of `X`.
    pub(super) turn: Rows,
    /// The inverse of 64 and of `PRODUCT / p`.
    pub(super) crt: Factor,
    /// `2^12, 2^24, 2^36`.
    pub(super) limbs: [Factor; 3],
    /// `PRODUCT / p` modulo [`Q`] in limbs of 12 bits, the top one signed, followed by `round(2^25 / p)`;
    /// each for two primes at a time.
    pub(super) parts: [[Row; PRIMES / 2]; LIFT_PARTS],
}

/// Number of sums over all primes that recover a number.
pub(super) const LIFT_PARTS: usize = 5;

/// The tables for all primes.
pub(super) static TABLES: Tables = {
    const NONE: Factor = Factor {
        value: [0; PRIMES],
        scaled: [0; PRIMES],
    };
    const NO_ROWS: Rows = Rows {
        values: [0; DEGREE * PRIMES],
        scaled: [0; DEGREE * PRIMES],
    };
    const NO_ROOTS: Roots = Roots {
        each: NO_ROWS,
        twice: NO_ROWS,
    };
    let mut tables = Tables {
        p: MODULI,
        p_inv: [0; PRIMES],
        barrett: [0; PRIMES],
        square: NONE,
        roots: NO_ROOTS,
        inverse_roots: NO_ROOTS,
        turn: NO_ROWS,
        crt: NONE,
        limbs: [NONE; 3],
        parts: [[[0; PRIMES]; PRIMES / 2]; LIFT_PARTS],
    };
    let mut k = 0;
    while k < PRIMES {
        fill(&mut tables, k);
        k += 1;
    }
    tables
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

/// Returns a root of order 128: the first power with the right exponent whose 64th power is -1.
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

/// Returns the inverse of an odd number modulo `2^16`.
const fn inverse(p: i16) -> i16 {
    let mut inverse = 1i16;
    let mut step = 0;
    // Newton's iteration doubles the correct bits: 1, 2, 4, 8, 16.
    while step < 4 {
        // Wrapping is the reduction modulo `2^16`.
        inverse = inverse.wrapping_mul(2i16.wrapping_sub(p.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// Sets the constant of one prime.
const fn set(factor: &mut Factor, k: usize, number: i64) {
    let p = MODULI[k];
    factor.value[k] = montgomery(number, p as i64);
    factor.scaled[k] = factor.value[k].wrapping_mul(inverse(p));
}

/// Sets the root of one prime in row `row`, and a second time if it is one of sixteen from `first` on.
const fn set_root(roots: &mut Roots, k: usize, row: usize, first: usize, root: i16) {
    let scaled = root.wrapping_mul(inverse(MODULI[k]));
    roots.each.values[row * PRIMES + k] = root;
    roots.each.scaled[row * PRIMES + k] = scaled;
    if row >= first && row < first + DEGREE / 4 {
        let place = 2 * (row - first) * PRIMES + k;
        roots.twice.values[place] = root;
        roots.twice.scaled[place] = scaled;
        roots.twice.values[place + PRIMES] = root;
        roots.twice.scaled[place + PRIMES] = scaled;
    }
}

/// Fills the column of one prime.
const fn fill(tables: &mut Tables, k: usize) {
    let p = MODULI[k] as i64;
    tables.p_inv[k] = inverse(MODULI[k]);
    tables.barrett[k] = (((1 << 27) + p / 2) / p) as i16;
    set(&mut tables.square, k, 1 << 16);
    let psi = root(p);
    let mut i = 0;
    while i < DEGREE {
        // The butterflies read their roots in bit-reversed order; an index has six of the eight bits.
        let reversed = (i as u8).reverse_bits() >> 2;
        let root = montgomery(power(psi, reversed as i64, p), p);
        set_root(&mut tables.roots, k, i, 16, root);
        // The roots of a layer, traversed backwards, are the negated inverses of its forward roots.
        set_root(&mut tables.inverse_roots, k, DEGREE - 1 - i, 32, root);
        // The last layer divides `X^2 - root^2`.
        if i >= DEGREE / 2 {
            let at = 2 * (i - DEGREE / 2) * PRIMES + k;
            let scaled = tables.roots.each.scaled[i * PRIMES + k];
            (tables.turn.values[at], tables.turn.scaled[at]) = (root, scaled);
            let (root, scaled) = (root.wrapping_neg(), scaled.wrapping_neg());
            (
                tables.turn.values[at + PRIMES],
                tables.turn.scaled[at + PRIMES],
            ) = (root, scaled);
        }
        i += 1;
    }
    let mut i = 0;
    while i < 3 {
        set(&mut tables.limbs[i], k, 1 << (12 * (i + 1)));
        i += 1;
    }
    let rest = PRODUCT / p as u128;
    // The inverse transform yields 64 times each coefficient; the same constant divides by it. By Fermat's little
    // theorem, the power of `p - 2` is the inverse.
    let product = DEGREE as i64 * (rest % p as u128) as i64 % p;
    set(&mut tables.crt, k, power(product, p - 2, p));
    let cofactor = centre((rest % Q as u128) as i64, Q as i64);
    let mut part = 0;
    while part < LIFT_PARTS {
        let number = match part {
            4 => ((1 << 25) + p / 2) / p,
            3 => cofactor >> 36,
            _ => (cofactor >> (12 * part)) & 0xfff,
        };
        // Interleaved vectors have two primes in turn, so their constants take turns too.
        let mut i = k % 2;
        while i < PRIMES {
            tables.parts[part][k / 2][i] = number as i16;
            i += 2;
        }
        part += 1;
    }
}
