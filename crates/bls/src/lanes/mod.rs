//! The steps around the sums, sixteen items at once: decoding, subgroup checks, hashing to G2.
//!
//! Variable time, on public data. What the lanes do, and why that is sound, is in [`crate::lecture`].

#[cfg(target_arch = "x86_64")]
mod expand;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::blst_ffi::curve::{Affine, G1Affine, G2Affine};
use crate::blst_ffi::curve_field::CurveField;
#[cfg(any(test, target_arch = "x86_64"))]
use crate::blst_ffi::field::P;
use crate::blst_ffi::field::{Fp, Fp2};
use crate::blst_ffi::pairing::{self, Miller};
use crate::dispatch::with_multiplier;
use crate::error::DecodeError;
use crate::keys::{decode_g1_unchecked, decode_g2_unchecked};
#[cfg(target_arch = "x86_64")]
use crate::vector::{LANES, Multiplier};
use alphorn_exec::{Backend, Exec};

/// Number of items from which a partial run costs less than blst: it takes as long as three to five items do.
#[cfg(target_arch = "x86_64")]
const LANES_MIN: usize = 6;
/// Number of items that are worth a thread.
#[cfg(target_arch = "x86_64")]
const ITEMS_MIN: usize = 4 * LANES;

/// Encodings decoded between two reads of the stop flag: some 3 ms.
#[cfg(target_arch = "x86_64")]
const DECODED_MAX: usize = 16 * LANES;
/// Messages hashed between two reads of the stop flag: some 3 ms.
#[cfg(target_arch = "x86_64")]
const HASHES_MAX: usize = 8 * LANES;

/// A compressed form of a finite point whose x is canonical and not 0.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compressed {
    /// Coefficients of x, six words each; Fp uses only the first.
    x: [[u64; 6]; 2],
    /// Whether y is the larger of the two roots.
    larger: bool,
}

/// A field whose curve has a lane implementation.
pub(crate) trait LaneField: CurveField {
    /// Number of coefficients of an element over Fp.
    #[cfg(target_arch = "x86_64")]
    const COEFFICIENTS: usize;

    /// Decodes a point of the curve from its compressed form with blst; subgroup not checked, identity allowed.
    fn decompress(bytes: &[u8]) -> Result<Affine<Self>, DecodeError>;

    /// Decodes sixteen points from their compressed forms, and returns the lanes that are correct.
    #[cfg(target_arch = "x86_64")]
    fn decompress_lanes<M: Multiplier>(
        m: M,
        forms: &[Compressed; LANES],
    ) -> ([Affine<Self>; LANES], u16);

    /// Returns lanes that are in the subgroup of prime order; other lanes may be in it too.
    #[cfg(target_arch = "x86_64")]
    fn in_group_lanes<M: Multiplier>(m: M, points: &[Affine<Self>; LANES]) -> u16;

    /// weights[i] · points[i] for weights of `bits` bits, and the lanes that are correct.
    #[cfg(target_arch = "x86_64")]
    fn multiply_lanes<M: Multiplier>(
        m: M,
        points: &[Affine<Self>; LANES],
        weights: &[u128; LANES],
        bits: usize,
    ) -> ([Affine<Self>; LANES], u16);
}

impl LaneField for Fp {
    #[cfg(target_arch = "x86_64")]
    const COEFFICIENTS: usize = 1;

    fn decompress(bytes: &[u8]) -> Result<G1Affine, DecodeError> {
        decode_g1_unchecked(bytes)
    }

    #[cfg(target_arch = "x86_64")]
    fn decompress_lanes<M: Multiplier>(
        m: M,
        forms: &[Compressed; LANES],
    ) -> ([G1Affine; LANES], u16) {
        m.run(vector::DecompressG1(m, forms))
    }

    #[cfg(target_arch = "x86_64")]
    fn in_group_lanes<M: Multiplier>(m: M, points: &[G1Affine; LANES]) -> u16 {
        m.run(vector::InG1(m, points))
    }

    #[cfg(target_arch = "x86_64")]
    fn multiply_lanes<M: Multiplier>(
        m: M,
        points: &[G1Affine; LANES],
        weights: &[u128; LANES],
        bits: usize,
    ) -> ([G1Affine; LANES], u16) {
        m.run(vector::Multiply {
            m,
            points,
            weights,
            bits,
        })
    }
}

impl LaneField for Fp2 {
    #[cfg(target_arch = "x86_64")]
    const COEFFICIENTS: usize = 2;

    fn decompress(bytes: &[u8]) -> Result<G2Affine, DecodeError> {
        decode_g2_unchecked(bytes)
    }

    #[cfg(target_arch = "x86_64")]
    fn decompress_lanes<M: Multiplier>(
        m: M,
        forms: &[Compressed; LANES],
    ) -> ([G2Affine; LANES], u16) {
        m.run(vector::DecompressG2(m, forms))
    }

    #[cfg(target_arch = "x86_64")]
    fn in_group_lanes<M: Multiplier>(m: M, points: &[G2Affine; LANES]) -> u16 {
        m.run(vector::InG2(m, points))
    }

    #[cfg(target_arch = "x86_64")]
    fn multiply_lanes<M: Multiplier>(
        m: M,
        points: &[G2Affine; LANES],
        weights: &[u128; LANES],
        bits: usize,
    ) -> ([G2Affine; LANES], u16) {
        m.run(vector::Multiply {
            m,
            points,
            weights,
            bits,
        })
    }
}

/// Size of a coordinate over Fp in bytes.
#[cfg(target_arch = "x86_64")]
const COEFFICIENT_BYTES: usize = 48;

/// Parses a well-formed encoding; `None` for any other encoding, the identity and x = 0.
#[cfg(target_arch = "x86_64")]
fn parse<F: LaneField>(bytes: &[u8]) -> Option<Compressed> {
    let first = *bytes.first()?;
    // Compressed, and not the identity.
    if bytes.len() != F::COEFFICIENTS * COEFFICIENT_BYTES || first & 0xc0 != 0x80 {
        return None;
    }
    let mut x = [[0; 6]; 2];
    // The first coefficient comes last.
    for (x, bytes) in x.iter_mut().zip(bytes.rchunks(COEFFICIENT_BYTES)) {
        for (word, bytes) in x.iter_mut().zip(bytes.rchunks(8)) {
            *word = bytes
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
    }
    // The flags are the upper three bits of the coefficient that comes first.
    x[F::COEFFICIENTS - 1][5] &= u64::MAX >> 3;
    let canonical = x.iter().all(|x| x.iter().rev().lt(P.iter().rev()));
    (canonical && x != [[0; 6]; 2]).then_some(Compressed {
        x,
        larger: first & 0x20 != 0,
    })
}

/// Decodes points of the curve from their compressed forms, with the same verdicts as blst; subgroup not
/// checked, identity allowed. If the task was asked to stop, the verdicts are arbitrary.
pub(crate) fn decompress<F: LaneField, B: AsRef<[u8]> + Sync>(
    encoded: &[B],
    exec: Exec<'_>,
) -> Vec<Result<Affine<F>, DecodeError>> {
    with_multiplier!(
        exec.backend(),
        m => {
            let chunks = exec.pieces(encoded.len(), ITEMS_MIN, DECODED_MAX);
            let parts = exec.map(chunks.len(), |c| match exec.stopped() {
                true => vec![Err(DecodeError::Infinity); chunks[c].len()],
                false => decompress_in_lanes(m, &encoded[chunks[c].clone()]),
            });
            parts.concat()
        },
        _ => exec.map(encoded.len(), |i| match exec.stopped() {
            true => Err(DecodeError::Infinity),
            false => F::decompress(encoded[i].as_ref()),
        }),
    )
}

#[cfg(target_arch = "x86_64")]
fn decompress_in_lanes<F: LaneField, B: AsRef<[u8]>>(
    m: impl Multiplier,
    encoded: &[B],
) -> Vec<Result<Affine<F>, DecodeError>> {
    let parsed: Vec<(usize, Compressed)> = encoded
        .iter()
        .enumerate()
        .filter_map(|(i, bytes)| Some((i, parse::<F>(bytes.as_ref())?)))
        .collect();
    let mut found = vec![None; encoded.len()];
    for (block, lanes) in runs(&parsed) {
        let (points, good) = F::decompress_lanes(m, &lanes.map(|(_, form)| form));
        for (lane, (i, _)) in block.iter().enumerate() {
            found[*i] = (good >> lane & 1 == 1).then_some(points[lane]);
        }
    }
    // blst decides what the lanes did not take or did not accept.
    found
        .into_iter()
        .zip(encoded)
        .map(|(point, bytes)| point.map_or_else(|| F::decompress(bytes.as_ref()), Ok))
        .collect()
}

/// Groups items by sixteen and pads the last group with one of its items; a last group too small to be worth a
/// run is left out.
#[cfg(target_arch = "x86_64")]
fn runs<T: Copy>(items: &[T]) -> impl Iterator<Item = (&[T], [T; LANES])> {
    items
        .chunks(LANES)
        .filter(|block| block.len() >= LANES_MIN)
        .map(|block| {
            let last = block.len() - 1;
            // Copies of an item meet no case that the item itself does not meet.
            (block, core::array::from_fn(|lane| block[lane.min(last)]))
        })
}

/// Positions of the points of the curve that are outside the subgroup of prime order, ascending; the identity
/// is inside. Exact.
pub(crate) fn outside_group<F: LaneField>(backend: Backend, points: &[Affine<F>]) -> Vec<usize> {
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_mut, reason = "only lanes find points inside")
    )]
    let mut inside = vec![false; points.len()];
    with_multiplier!(
        backend,
        m => {
            let indices: Vec<usize> = (0..points.len()).collect();
            for (block, lanes) in runs(&indices) {
                let good = F::in_group_lanes(m, &lanes.map(|i| points[i]));
                for (lane, i) in block.iter().enumerate() {
                    inside[*i] = good >> lane & 1 == 1;
                }
            }
        },
        _ => {}
    );
    (0..points.len())
        // A lane that was not found inside may only have met an exception.
        .filter(|&i| !inside[i] && !F::in_group(&points[i]))
        .collect()
}

/// scalars[i] · points[i] for scalars of 32 little-endian bytes and points of prime order; variable time.
pub(crate) fn vartime_multiples(items: &[(G2Affine, [u8; 32])], exec: Exec<'_>) -> Vec<G2Affine> {
    with_multiplier!(
        exec.backend(),
        m => {
            let chunks = exec.pieces(items.len(), LANES, usize::MAX);
            exec.map(chunks.len(), |c| multiples_in_lanes(m, &items[chunks[c].clone()])).concat()
        },
        _ => exec.map(items.len(), |i| Fp2::multiply(&items[i].0, &items[i].1)),
    )
}

#[cfg(target_arch = "x86_64")]
fn multiples_in_lanes(m: impl Multiplier, items: &[(G2Affine, [u8; 32])]) -> Vec<G2Affine> {
    let mut out = Vec::with_capacity(items.len());
    for (block, lanes) in runs(items) {
        let (points, scalars) = (&lanes.map(|item| item.0), &lanes.map(|item| item.1));
        let (multiples, good) = m.run(vector::TimesScalars { m, points, scalars });
        out.extend((0..block.len()).map(|lane| match good >> lane & 1 {
            1 => multiples[lane],
            // An exception, or a scalar for which the lanes are not made.
            _ => Fp2::multiply(&points[lane], &scalars[lane]),
        }));
    }
    // The rest of a last run that was not worth it.
    let rest = &items[out.len()..];
    out.extend(
        rest.iter()
            .map(|(point, scalar)| Fp2::multiply(point, scalar)),
    );
    out
}

/// weights[i] · points[i] for non-zero weights of `bits` bits; the points have prime order.
#[cfg(target_arch = "x86_64")]
pub(crate) fn vartime_multiply<F: LaneField>(
    m: impl Multiplier,
    items: &[(Affine<F>, u128)],
    bits: usize,
) -> Vec<Affine<F>> {
    let mut out = Vec::with_capacity(items.len());
    for (block, lanes) in runs(items) {
        let (points, weights) = (lanes.map(|item| item.0), lanes.map(|item| item.1));
        let (points, good) = F::multiply_lanes(m, &points, &weights, bits);
        out.extend((0..block.len()).map(|lane| {
            if good >> lane & 1 == 1 {
                points[lane]
            } else {
                vartime_multiply_one(&block[lane], bits)
            }
        }));
    }
    // The rest of a last run that was not worth it.
    let rest = &items[out.len()..];
    out.extend(rest.iter().map(|item| vartime_multiply_one(item, bits)));
    out
}

#[cfg(target_arch = "x86_64")]
fn vartime_multiply_one<F: LaneField>(
    (point, weight): &(Affine<F>, u128),
    bits: usize,
) -> Affine<F> {
    let weight = weight.to_le_bytes();
    F::vartime_msm(core::slice::from_ref(point), &weight[..bits / 8], bits)
}

/// `hash_to_curve` of RFC 9380 for `BLS12381G2_XMD:SHA-256_SSWU_RO_`, for many messages. If the task was asked
/// to stop, the points are arbitrary.
pub(crate) fn hash_to_g2<B: AsRef<[u8]> + Sync>(
    messages: &[B],
    dst: &[u8],
    exec: Exec<'_>,
) -> Vec<G2Affine> {
    with_multiplier!(
        exec.backend(),
        m => {
            let chunks = exec.pieces(messages.len(), LANES, HASHES_MAX);
            let parts = exec.map(chunks.len(), |c| match exec.stopped() {
                true => vec![G2Affine::INFINITY; chunks[c].len()],
                false => hash_in_lanes(m, &messages[chunks[c].clone()], dst),
            });
            parts.concat()
        },
        _ => exec.map(messages.len(), |i| match exec.stopped() {
            true => G2Affine::INFINITY,
            false => pairing::hash_to_g2(messages[i].as_ref(), dst),
        }),
    )
}

#[cfg(target_arch = "x86_64")]
fn hash_in_lanes<B: AsRef<[u8]>>(m: impl Multiplier, messages: &[B], dst: &[u8]) -> Vec<G2Affine> {
    let tag = expand::Tag::new(dst);
    let mut found = vec![None; messages.len()];
    let indices: Vec<usize> = (0..messages.len()).collect();
    for (block, lanes) in runs(&indices) {
        let mut integers = [[expand::WideInteger::default(); 4]; LANES];
        for (integers, i) in integers.iter_mut().zip(lanes) {
            *integers = tag.hash_to_integers(messages[i].as_ref());
        }
        let (points, good) = m.run(vector::HashToG2(m, &integers));
        for (lane, i) in block.iter().enumerate() {
            found[*i] = (good >> lane & 1 == 1).then_some(points[lane]);
        }
    }
    found
        .into_iter()
        .zip(messages)
        .map(|(point, message)| point.unwrap_or_else(|| pairing::hash_to_g2(message.as_ref(), dst)))
        .collect()
}

/// Pairs below which Miller loops of blst are not worth a second thread, and the maximum between two reads of
/// the stop flag: 32 take 4 ms.
const MILLER_PAIRS: (usize, usize) = (4, 32);

/// Pairs per thread from which the lanes cost less than blst: the square and the inversion in each step cost
/// the same for a few pairs as for hundreds. Products of doubles take longer, so they need more pairs.
#[cfg(target_arch = "x86_64")]
fn miller_least(backend: Backend) -> usize {
    match backend {
        Backend::Avx512Ifma(_) => 10,
        Backend::Avx512Dq(_) => 16,
        _ => 48,
    }
}

/// The product of the Miller loops of the pairs, up to factors that the final exponentiation takes to 1; a pair
/// with an infinite point contributes one. If the task was asked to stop, the value is arbitrary.
pub(crate) fn miller_product(pairs: &[(G1Affine, G2Affine)], exec: Exec<'_>) -> Miller {
    let finite: Vec<(G1Affine, G2Affine)> = pairs
        .iter()
        .copied()
        .filter(|(p, q)| !p.is_infinity() && !q.is_infinity())
        .collect();
    let in_lanes = with_multiplier!(
        exec.backend(),
        m => (finite.len() >= exec.threads() * miller_least(exec.backend())).then(|| {
            let blocks = finite.len().div_ceil(LANES);
            // Chunks of equal size, even if a thread gets more than one.
            let most = blocks.div_ceil(blocks.div_ceil(vector::tower::BLOCKS_MAX));
            let chunks = exec.pieces(blocks, 1, most);
            product(exec.map(chunks.len(), |c| {
                let (from, to) = (chunks[c].start * LANES, chunks[c].end * LANES);
                miller_in_lanes(m, &finite[from..to.min(finite.len())], exec)
            }))
        }),
        _ => None,
    );
    in_lanes.unwrap_or_else(|| {
        let chunks = exec.pieces(finite.len(), MILLER_PAIRS.0, MILLER_PAIRS.1);
        product(exec.map(chunks.len(), |c| match exec.stopped() {
            true => product([]),
            false => pairing::miller_product(&finite[chunks[c].clone()]),
        }))
    })
}

/// The product of some values; one if there are none.
fn product(values: impl IntoIterator<Item = Miller>) -> Miller {
    let product = values.into_iter().reduce(|a, b| a.mul(&b));
    product.unwrap_or_else(|| pairing::miller_product(&[]))
}

/// The product for finite pairs, with as many blocks as a chunk has.
///
/// Exact for all points of both curves. Steps that no point of prime order meets (a tangent or chord without a
/// slope, and coordinates 0) show up as a denominator that is 0, and then blst computes the whole product.
#[cfg(target_arch = "x86_64")]
fn miller_in_lanes(m: impl Multiplier, pairs: &[(G1Affine, G2Affine)], exec: Exec<'_>) -> Miller {
    // Padding lanes of the last run do not count.
    let blocks: Vec<_> = runs(pairs)
        .map(|(block, lanes)| (lanes, u16::MAX >> (LANES - block.len())))
        .collect();
    // The rest of a last run that was not worth it.
    let rest = match pairs.len() % LANES {
        rest @ ..LANES_MIN => rest,
        _ => 0,
    };
    let (full, rest) = pairs.split_at(pairs.len() - rest);
    let found = m.run(vector::miller::MillerLoops {
        m,
        exec,
        blocks: &blocks,
    });
    let full = match found {
        // The lanes have the conjugates of blst's values.
        Some(lanes) => product(lanes).conjugate(),
        None => pairing::miller_product(full),
    };
    full.mul(&pairing::miller_product(rest))
}
