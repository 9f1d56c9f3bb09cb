//! Residues modulo `Q`.

/// The modulus `2^48 - 59`: prime and 5 modulo 8, so `X^64 + 1` has two factors of degree 32 and
/// every element of Euclidean norm below `sqrt(Q)` is invertible (Lyubashevsky and Seiler,
/// eprint 2017/523, Corollary 1.2).
pub(crate) const Q: u64 = (1 << 48) - 59;

/// Bytes of one residue modulo [`Q`] on the wire.
pub(crate) const RESIDUE_BYTES: usize = 6;

/// Returns the residue in `[0, Q)` of a number below `2^96`.
#[must_use]
#[inline]
pub(crate) fn reduce_wide(x: u128) -> u64 {
    debug_assert!(x >> 96 == 0, "two folds need a number below 2^96");
    let low = (1 << 48) - 1;
    // 2^48 = 59 modulo Q: two folds leave less than 2^48 + 59^2.
    let once = (x & low) + 59 * (x >> 48);
    let twice = ((once & low) + 59 * (once >> 48)) as u64;
    if twice >= Q { twice - Q } else { twice }
}

/// Returns the residue in `[0, Q)` of any `i64`.
#[must_use]
#[inline(always)]
pub(crate) fn reduce(x: i64) -> u64 {
    let modulus = Q as i64;
    // 2^48 = 59 modulo Q: the fold lies in [-59 * 2^15, 2^48 + 59 * 2^15).
    let fold = (x & ((1 << 48) - 1)) + 59 * (x >> 48);
    let shifted = fold + if fold < 0 { modulus } else { 0 };
    (shifted - if shifted >= modulus { modulus } else { 0 }) as u64
}

/// Returns the product of two residues in `[0, Q)`.
#[must_use]
#[inline]
pub(crate) fn mul_mod(a: u64, b: u64) -> u64 {
    reduce_wide(u128::from(a) * u128::from(b))
}

/// Returns the sum of two residues in `[0, Q)`.
#[must_use]
#[inline]
pub(crate) fn add_mod(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= Q { sum - Q } else { sum }
}

/// Returns the representative of a residue in `[-(Q-1)/2, (Q-1)/2]`.
#[must_use]
#[inline(always)]
pub(crate) fn centred(x: u64) -> i64 {
    if x > Q / 2 {
        x as i64 - Q as i64
    } else {
        x as i64
    }
}

/// Returns the residue of a number below `2^100`. The first fold leaves less than `2^58`.
#[inline(always)]
pub(crate) fn fold(x: u128) -> u64 {
    debug_assert!(x >> 100 == 0, "two folds need a number below 2^100");
    let mask = (1 << 48) - 1;
    let once = (x as u64 & mask) + 59 * (x >> 48) as u64;
    // Below `2^48 + 59 * 2^10`, so one subtraction is enough.
    let twice = (once & mask) + 59 * (once >> 48);
    if twice >= Q { twice - Q } else { twice }
}
