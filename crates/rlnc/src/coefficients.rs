//! Coefficients: their widths on the wire and the distributions from which sources and relays draw them.

use alphorn_exec::Backend;
use rand_chacha::rand_core::Rng;

use crate::error::PieceError;
use crate::kernel::Dispatch;
use crate::row::Row;
use crate::scalar::{Scalar, Short};

/// Legal widths of a coefficient on the wire, in bytes.
pub(crate) const WIDTHS: [u8; 8] = [1, 2, 3, 4, 6, 8, 16, 32];
/// Above this width a small row is not enough shorter to be useful.
const SMALL_WIDTH_MAX: u8 = 8;

/// Size of the coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Uniform scalars of 32 bytes.
    Full,
    /// Small non-negative integers that grow by 8 + log2(rank) bits with each recoding.
    Small,
}

impl Mode {
    /// Full if 32 bytes per coefficient are at most 4 % of the data, otherwise small.
    pub fn of(chunks: u16, elements: u32) -> Mode {
        // Full coefficients and elements have 32 bytes each, so 25 : 1 is 4 %.
        if u32::from(chunks) * 25 <= elements {
            Mode::Full
        } else {
            Mode::Small
        }
    }
}

/// The distribution of a source's small coefficients. Uniform scalars look the same at every depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Eight bits each.
    Fresh,
    /// Those sent by a relay of rank three: Σ α_i β_i over three rows β_i, all of eight bits.
    Blend,
}

/// The smallest legal width that fits every coefficient.
pub(crate) fn width_of(row: &Row) -> u8 {
    let bytes = row.bits().div_ceil(8);
    // A scalar has at most 253 bits, so 32 bytes always fit.
    WIDTHS
        .into_iter()
        .find(|&width| u32::from(width) >= bytes)
        .unwrap_or(32)
}

/// Appends the coefficients, as `width` little-endian bytes each.
pub(crate) fn encode(row: &Row, width: u8, out: &mut Vec<u8>) {
    for coefficient in row.iter() {
        let bytes = coefficient.to_bytes();
        assert!(
            bytes[usize::from(width)..].iter().all(|&b| b == 0),
            "the width fits the row"
        );
        out.extend_from_slice(&bytes[..usize::from(width)]);
    }
}

/// Reads `bytes.len() / width` coefficients of a legal width, each canonical, not all zero.
pub(crate) fn decode(bytes: &[u8], width: u8) -> Result<Row, PieceError> {
    let width = usize::from(width);
    let mut row = Row::zero(bytes.len() / width);
    for (index, group) in bytes.chunks_exact(width).enumerate() {
        let mut wide = [0; 32];
        wide[..width].copy_from_slice(group);
        let scalar = Scalar::from_canonical_bytes(&wide);
        row.set(
            index,
            scalar.ok_or(PieceError::NonCanonicalScalar { index })?,
        );
    }
    if row.is_zero() {
        Err(PieceError::ZeroRow)
    } else {
        Ok(row)
    }
}

/// Draws until not all are zero.
fn not_zero(mut draw: impl FnMut() -> Vec<Scalar>) -> Vec<Scalar> {
    loop {
        let factors = draw();
        // Receivers reject a row of zeros.
        if factors.iter().any(|factor| !factor.is_zero()) {
            return factors;
        }
    }
}

/// Integers of eight bits.
fn draw_small(len: usize, rng: &mut (impl Rng + ?Sized)) -> Vec<Scalar> {
    not_zero(|| {
        let mut bytes = vec![0; len];
        rng.fill_bytes(&mut bytes);
        let scalar = |byte| Scalar::from(u64::from(byte));
        bytes.into_iter().map(scalar).collect()
    })
}

/// Draws coefficients over the source chunks, for a holder of all of them.
pub(crate) fn draw_source(
    chunks: usize,
    mode: Mode,
    distribution: Distribution,
    rng: &mut (impl Rng + ?Sized),
) -> Vec<Scalar> {
    match (mode, distribution) {
        (Mode::Full, _) => not_zero(|| (0..chunks).map(|_| Scalar::random(rng)).collect()),
        (Mode::Small, Distribution::Fresh) => draw_small(chunks, rng),
        (Mode::Small, Distribution::Blend) => not_zero(|| {
            let outer = draw_small(3, rng);
            let mut sum = vec![Scalar::ZERO; chunks];
            for factor in outer {
                for (total, inner) in sum.iter_mut().zip(draw_small(chunks, rng)) {
                    *total = *total + factor * inner;
                }
            }
            sum
        }),
    }
}

/// The factors of a combination.
#[derive(Debug)]
pub(crate) enum Factors {
    Any(Vec<Scalar>),
    Short(Vec<Short>),
}

impl Factors {
    /// Σ_i factors[i] · rows[i].
    pub(crate) fn combine(&self, backend: Backend, rows: &[&Row]) -> Row {
        match self {
            Factors::Any(factors) => backend.combine(factors, rows),
            Factors::Short(factors) => backend.combine_short(factors, rows),
        }
    }
}

/// Draws factors over the accepted rows of a relay, and returns the resulting row.
///
/// In small mode a relay of rank one forwards its row unchanged: its span is a line, and a factor would only lengthen
/// the row. Long rows are left out while they are the minority, so that a neighbour that sends a multiple of a good
/// chunk by a random scalar does not lengthen all subsequent rows. If the row is long anyway, the factors are short, so
/// that it is computed with fewer limbs.
pub(crate) fn draw_relay(
    rows: &[&Row],
    mode: Mode,
    backend: Backend,
    rng: &mut (impl Rng + ?Sized),
) -> (Factors, Row) {
    if mode == Mode::Small {
        let taken = |row: &Row| rows.len() == 1 || width_of(row) <= SMALL_WIDTH_MAX;
        let count = rows.iter().filter(|row| taken(row)).count();
        if 2 * count >= rows.len() {
            let drawn = match count {
                1 => vec![Scalar::ONE],
                _ => draw_small(count, rng),
            };
            let mut drawn = drawn.into_iter();
            let factors: Vec<Scalar> = rows
                .iter()
                .map(|row| if taken(row) { drawn.next() } else { None })
                .map(Option::unwrap_or_default)
                .collect();
            let row = backend.combine(&factors, rows);
            // A sum that has outgrown the small widths is drawn again below, from all rows.
            if count == 1 || width_of(&row) <= SMALL_WIDTH_MAX {
                return (Factors::Any(factors), row);
            }
        }
    }
    let factors = loop {
        let drawn: Vec<Short> = rows.iter().map(|_| Short::random(rng)).collect();
        if drawn.iter().any(|factor| !factor.is_zero()) {
            break Factors::Short(drawn);
        }
    };
    let row = factors.combine(backend, rows);
    (factors, row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    /// The factors as scalars.
    fn scalars(factors: &Factors) -> Vec<Scalar> {
        match factors {
            Factors::Any(factors) => factors.clone(),
            Factors::Short(factors) => factors.iter().map(|&short| short.into()).collect(),
        }
    }

    fn round_trip(row: &Row, width: u8) -> Result<Row, PieceError> {
        let mut out = Vec::new();
        encode(row, width, &mut out);
        assert_eq!(out.len(), row.len() * usize::from(width));
        decode(&out, width)
    }

    #[test]
    fn the_least_width_fits_and_larger_ones_are_accepted() {
        let cases = [
            (255_u128, 1),
            (256, 2),
            (1 << 24, 4),
            ((1 << 24) - 1, 3),
            (1 << 40, 6),
        ];
        for (value, least) in cases.into_iter().chain([(1 << 48, 8), (1 << 64, 16)]) {
            let row = Row::from_scalars(&[Scalar::ONE, Scalar::from(value)]);
            assert_eq!(width_of(&row), least);
            for width in WIDTHS.into_iter().filter(|&width| width >= least) {
                assert_eq!(round_trip(&row, width).as_ref(), Ok(&row));
            }
        }
        assert_eq!(width_of(&Row::from_scalars(&[-Scalar::ONE])), 32);
    }

    #[test]
    fn modes_follow_the_four_percent_rule() {
        assert_eq!(Mode::of(10, 380), Mode::Full);
        assert_eq!(Mode::of(32, 119), Mode::Small);
        assert_eq!(Mode::of(64, 8192), Mode::Full);
    }

    #[test]
    fn small_rows_grow_no_faster_than_stated_and_then_turn_full() {
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        let backend = Backend::Portable;
        let chunks = 10;
        let mut rows: Vec<Row> = (0..chunks)
            .map(|_| {
                Row::from_scalars(&draw_source(
                    chunks,
                    Mode::Small,
                    Distribution::Fresh,
                    &mut rng,
                ))
            })
            .collect();
        // Worst case for ten rows: 8, 19.3, 30.6, 42, 53.3 bits.
        for width_max in [3, 4, 6, 8] {
            let refs: Vec<&Row> = rows.iter().collect();
            rows = (0..chunks)
                .map(|_| draw_relay(&refs, Mode::Small, backend, &mut rng).1)
                .collect();
            assert!(rows.iter().all(|row| width_of(row) <= width_max));
        }
        let refs: Vec<&Row> = rows.iter().collect();
        let (_, row) = draw_relay(&refs, Mode::Small, backend, &mut rng);
        let (_, row) = draw_relay(&[&row, &rows[0]], Mode::Small, backend, &mut rng);
        assert_eq!(width_of(&row), 32);
        let (factors, same) = draw_relay(&[&rows[0]], Mode::Small, backend, &mut rng);
        assert_eq!((scalars(&factors), &same), (vec![Scalar::ONE], &rows[0]));
    }

    /// A neighbour that multiplies a good row by a random scalar lengthens only its own.
    #[test]
    fn long_rows_are_left_out_while_they_are_the_fewer() {
        let mut rng = ChaCha20Rng::seed_from_u64(9);
        let backend = Backend::Portable;
        let fresh = draw_source(10, Mode::Small, Distribution::Fresh, &mut rng);
        let mut rows: Vec<Row> = (0..10)
            .map(|_| {
                Row::from_scalars(&draw_source(10, Mode::Small, Distribution::Fresh, &mut rng))
            })
            .collect();
        let factor = Scalar::random(&mut rng);
        let long: Vec<Scalar> = fresh.into_iter().map(|x| factor * x).collect();
        let long = Row::from_scalars(&long);
        for count in 1..10 {
            rows[10 - count] = long.clone();
            let refs: Vec<&Row> = rows.iter().collect();
            for _ in 0..10 {
                let (factors, row) = draw_relay(&refs, Mode::Small, backend, &mut rng);
                assert_eq!(factors.combine(backend, &refs), row);
                let factors = scalars(&factors);
                assert_eq!(factors.len(), 10);
                assert_eq!(backend.combine(&factors, &refs), row);
                let is_long = width_of(&row) > SMALL_WIDTH_MAX;
                assert_eq!(is_long, count > 5, "{count} long rows");
                let takes_long = factors[10 - count..].iter().any(|x| !x.is_zero());
                assert_eq!(takes_long, is_long);
            }
        }
        let (factors, same) = draw_relay(&[&long], Mode::Small, backend, &mut rng);
        assert_eq!((scalars(&factors), &same), (vec![Scalar::ONE], &long));
    }

    #[test]
    fn blended_rows_look_like_those_of_a_relay() {
        let mut rng = ChaCha20Rng::seed_from_u64(8);
        let row = Row::from_scalars(&draw_source(32, Mode::Small, Distribution::Blend, &mut rng));
        assert!((2..=3).contains(&width_of(&row)));
        let fresh = Row::from_scalars(&draw_source(32, Mode::Small, Distribution::Fresh, &mut rng));
        assert_eq!(width_of(&fresh), 1);
    }
}
