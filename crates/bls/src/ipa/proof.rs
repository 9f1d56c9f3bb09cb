//! The proof and its encoding.

use super::IpaError;
use crate::blst_ffi::curve::G1Affine;
use crate::blst_ffi::fr::{Fr, SCALAR_BYTES};
use crate::keys::{PUBLIC_KEY_BYTES, PublicKey};

/// A proof of an aggregate key: V, W, a pair (L, R) for each halving, and two scalars.
///
/// No point is the identity: an honest prover produces none, and the decoder rejects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    pub(super) v: G1Affine,
    pub(super) w: G1Affine,
    pub(super) rounds: Vec<(G1Affine, G1Affine)>,
    pub(super) a: Fr,
    pub(super) c: Fr,
}

/// Number of halvings until one of `keys` keys is left: ceil(log2(keys)).
pub(super) fn rounds_of(keys: usize) -> usize {
    (usize::BITS - keys.saturating_sub(1).leading_zeros()) as usize
}

impl Proof {
    /// Size in bytes of a proof over a committee of `keys` keys: 2·ceil(log2(keys)) + 2 compressed points and
    /// two scalars; 1,600 for 2^15 keys.
    pub fn bytes_len(keys: usize) -> usize {
        (2 * rounds_of(keys) + 2) * PUBLIC_KEY_BYTES + 2 * SCALAR_BYTES
    }

    /// All points in encoding order.
    pub(super) fn points(&self) -> impl Iterator<Item = &G1Affine> {
        let rounds = self.rounds.iter().flat_map(|(left, right)| [left, right]);
        [&self.v, &self.w].into_iter().chain(rounds)
    }

    /// Encodes V, W and (L, R) from the first halving on as compressed points, then a and c big-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.points().flat_map(crate::keys::encode_g1).collect();
        bytes.extend(self.a.to_be_bytes());
        bytes.extend(self.c.to_be_bytes());
        bytes
    }

    /// Decodes the proof over a committee of `keys` keys; accepted bytes are canonical.
    ///
    /// # Errors
    /// If the number of keys is out of bounds, the length is wrong, a point is malformed, outside G1 or the
    /// identity, or a scalar is not below the group order.
    pub fn from_bytes(bytes: &[u8], keys: usize) -> Result<Proof, IpaError> {
        super::check_keys(keys)?;
        let expected = Proof::bytes_len(keys);
        if bytes.len() != expected {
            return Err(IpaError::ProofLength {
                got: bytes.len(),
                expected,
            });
        }
        let (points, scalars) = bytes.split_at(expected - 2 * SCALAR_BYTES);
        let points = points
            .chunks_exact(PUBLIC_KEY_BYTES)
            .enumerate()
            // The checks of a public key apply to every point here: in G1, and not the identity.
            .map(|(index, bytes)| match PublicKey::from_bytes(bytes) {
                Ok(point) => Ok(*point.point()),
                Err(error) => Err(IpaError::Point { index, error }),
            })
            .collect::<Result<Vec<G1Affine>, IpaError>>()?;
        let scalar = |index: usize| {
            let mut bytes = [0; SCALAR_BYTES];
            bytes.copy_from_slice(&scalars[index * SCALAR_BYTES..][..SCALAR_BYTES]);
            Fr::from_be_bytes(&bytes).ok_or(IpaError::Scalar { index })
        };
        Ok(Proof {
            v: points[0],
            w: points[1],
            rounds: points[2..]
                .chunks_exact(2)
                .map(|pair| (pair[0], pair[1]))
                .collect(),
            a: scalar(0)?,
            c: scalar(1)?,
        })
    }
}
