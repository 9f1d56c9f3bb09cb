//! Decoding of many keys or signatures, with a bulk subgroup check.

use alphorn_exec::Exec;
use sha2::{Digest, Sha256};

use crate::blst_ffi::curve::Affine;
use crate::blst_ffi::field::{Fp, Fp2};
use crate::error::DecodeError;
use crate::keys::{PublicKey, Signature};
use crate::lanes::{LaneField, decompress};
use crate::rlc::Rlc;
use crate::subgroup::{outside_subgroup_with, subsets};
use crate::sums::KernelField;

/// Points below which a bulk subgroup check is not worth its own thread, and the maximum between two reads of
/// the stop flag: some 10 ms of blst.
pub(crate) const SUBGROUP_POINTS: (usize, usize) = (512, 2048);

/// A decoded point, or why it could not be decoded.
pub(crate) type Decoded<F> = Result<Affine<F>, DecodeError>;

/// Decodes signatures from their compressed forms. Verdicts are those of [`Signature::from_bytes`], but the
/// subgroup is checked in bulk (a point outside it passes with probability 2^-bits of `rlc`). All are
/// [`DecodeError::Stopped`] if `exec` was asked to stop.
pub fn decode_signatures<B: AsRef<[u8]> + Sync>(
    encoded: &[B],
    rlc: &Rlc,
    exec: Exec<'_>,
) -> Vec<Result<Signature, DecodeError>> {
    let mut points = decompress_signatures(encoded, exec);
    check_subgroup(&mut points, encoded, rlc, exec);
    points
        .into_iter()
        .map(|point| point.map(Signature::from_point))
        .collect()
}

/// Decodes public keys from their compressed forms. Verdicts are those of [`PublicKey::from_bytes`], but the
/// subgroup is checked in bulk (a point outside it passes with probability 2^-bits of `rlc`). All are
/// [`DecodeError::Stopped`] if `exec` was asked to stop.
pub fn decode_public_keys<B: AsRef<[u8]> + Sync>(
    encoded: &[B],
    rlc: &Rlc,
    exec: Exec<'_>,
) -> Vec<Result<PublicKey, DecodeError>> {
    let mut points: Vec<Decoded<Fp>> = decompress(encoded, exec);
    check_subgroup(&mut points, encoded, rlc, exec);
    points
        .into_iter()
        .map(|point| point.and_then(PublicKey::from_point))
        .collect()
}

/// Decompresses points of the curve of G2 without checking the subgroup.
pub(crate) fn decompress_signatures<B: AsRef<[u8]> + Sync>(
    encoded: &[B],
    exec: Exec<'_>,
) -> Vec<Decoded<Fp2>> {
    decompress(encoded, exec)
}

/// SHA-256 over the encodings with their lengths.
fn digest<B: AsRef<[u8]>>(encoded: &[B]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for bytes in encoded {
        hasher.update((bytes.as_ref().len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hasher.finalize().into()
}

/// Turns every decoded point outside the subgroup into [`DecodeError::NotInSubgroup`]. The subsets are drawn
/// after all encodings are fixed. If the task was asked to stop, no point is accepted.
fn check_subgroup<F: KernelField + LaneField, B: AsRef<[u8]>>(
    decoded: &mut [Decoded<F>],
    encoded: &[B],
    rlc: &Rlc,
    exec: Exec<'_>,
) {
    let seed = rlc.seed(&digest(encoded));
    let places: Vec<usize> = (0..decoded.len()).filter(|&i| decoded[i].is_ok()).collect();
    let points: Vec<Affine<F>> = decoded.iter().filter_map(|point| point.ok()).collect();
    let (least, most) = SUBGROUP_POINTS;
    let chunks = exec.pieces(points.len(), least, exec.most(most));
    let weights = subsets(&seed, points.len(), rlc.bits());
    let bytes = rlc.bits().bits() / 8;
    let outside = exec.map(chunks.len(), |c| {
        let chunk = if exec.stopped() {
            0..0
        } else {
            chunks[c].clone()
        };
        let weights = &weights[chunk.start * bytes..chunk.end * bytes];
        let found =
            outside_subgroup_with(exec.backend(), &points[chunk.clone()], weights, rlc.bits());
        found
            .into_iter()
            .map(move |i| chunk.start + i)
            .collect::<Vec<_>>()
    });
    for i in outside.into_iter().flatten() {
        decoded[places[i]] = Err(DecodeError::NotInSubgroup);
    }
    // Checked last: if the flag was set at any time before, it is still set now.
    if exec.stopped() {
        decoded.fill(Err(DecodeError::Stopped));
    }
}
