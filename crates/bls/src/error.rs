//! Why bytes are not a valid key, signature or cache file of this scheme.

/// Why bytes do not decode to a scalar or a point.
///
/// The encodings are those of the ZCash serialisation used by the IETF draft
/// `draft-irtf-cfrg-bls-signature`: big-endian x with three flag bits in the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The input has the wrong number of bytes.
    #[error("{got} bytes, the encoding has {expected}")]
    Length {
        /// Bytes given.
        got: usize,
        /// Bytes of the encoding.
        expected: usize,
    },
    /// The flag bits of the first byte do not match the encoding: the compression bit is clear in a compressed
    /// form, or set in an uncompressed one.
    #[error("flag bits {flags:#05b} do not fit this encoding")]
    Flags {
        /// The three most significant bits of the first byte.
        flags: u8,
    },
    /// The infinity bit is set and some other bit after the compression bit is not zero.
    #[error("the infinity flag is set beside non-zero bits")]
    InfinityBits,
    /// A coordinate is not below the field modulus.
    #[error("a coordinate is not below the field modulus")]
    NotCanonical,
    /// The coordinates do not satisfy the curve equation.
    #[error("the point is not on the curve")]
    NotOnCurve,
    /// The point is on the curve but outside the subgroup of prime order.
    #[error("the point is not in the subgroup of prime order")]
    NotInSubgroup,
    /// The point is the identity, which is not allowed here.
    #[error("the point is the identity")]
    Infinity,
    /// The task was asked to stop before the point was checked.
    #[error("the task ended before the point was checked")]
    Stopped,
    /// The secret scalar is zero.
    #[error("the secret key is zero")]
    ZeroScalar,
    /// The secret scalar is not below the group order.
    #[error("the secret key is not below the group order")]
    ScalarTooLarge,
}

/// Why an operation of the signature scheme has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlsError {
    /// An input does not decode.
    #[error("input does not decode: {0}")]
    Decode(#[from] DecodeError),
    /// There is nothing to aggregate.
    #[error("nothing to aggregate")]
    Empty,
    /// The input keying material is shorter than the draft's minimum.
    #[error("{got} bytes of keying material, at least {min} are needed")]
    KeyMaterial {
        /// Bytes given.
        got: usize,
        /// Bytes needed.
        min: usize,
    },
}
