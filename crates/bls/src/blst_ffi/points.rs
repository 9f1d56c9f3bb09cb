//! Encodings, group membership, scalar multiples and sums of points, for both groups.

use core::ptr::{from_mut, from_ref};

use super::curve::{G1Affine, G2Affine};
use crate::error::DecodeError;

/// Flag of the first byte: the encoding is compressed.
const COMPRESSED: u8 = 0x80;
/// Flag of the first byte: the point is the identity.
const INFINITY: u8 = 0x40;
/// Flag of the first byte of a compressed form: y is the larger of the two roots.
const SIGN: u8 = 0x20;

const _: () = assert!(size_of::<G1Affine>() == size_of::<blst::blst_p1_affine>());
const _: () = assert!(align_of::<G1Affine>() == align_of::<blst::blst_p1_affine>());
const _: () = assert!(size_of::<G2Affine>() == size_of::<blst::blst_p2_affine>());
const _: () = assert!(align_of::<G2Affine>() == align_of::<blst::blst_p2_affine>());

pub(crate) fn raw_g1(point: &G1Affine) -> *const blst::blst_p1_affine {
    from_ref(point).cast()
}

pub(crate) fn raw_g2(point: &G2Affine) -> *const blst::blst_p2_affine {
    from_ref(point).cast()
}

/// Converts a point to blst's own type, for the benchmarks against other clients.
pub(crate) fn to_raw_g1(point: &G1Affine) -> blst::blst_p1_affine {
    // SAFETY: the layouts are the same, as asserted above.
    unsafe { *raw_g1(point) }
}

pub(crate) fn from_raw_g1(raw: blst::blst_p1_affine) -> G1Affine {
    let mut point = G1Affine::INFINITY;
    // SAFETY: `G1Affine` is two field elements in blst's layout (size and alignment are asserted
    // above), so a blst affine point may be written over it.
    unsafe {
        from_mut(&mut point)
            .cast::<blst::blst_p1_affine>()
            .write(raw)
    };
    point
}

pub(crate) fn from_raw_g2(raw: blst::blst_p2_affine) -> G2Affine {
    let mut point = G2Affine::INFINITY;
    // SAFETY: as in `from_raw_g1`.
    unsafe {
        from_mut(&mut point)
            .cast::<blst::blst_p2_affine>()
            .write(raw)
    };
    point
}

/// `map_to_curve` of RFC 9380 for two elements, added, with the cofactor cleared: the oracle for the vector
/// kernels.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) fn map_to_g2(u: &super::field::Fp2, v: &super::field::Fp2) -> G2Affine {
    let raw = |u: &super::field::Fp2| blst::blst_fp2 {
        fp: u.coefficients().map(|c| blst::blst_fp { l: *c.limbs() }),
    };
    let (mut point, mut affine) = (blst::blst_p2::default(), blst::blst_p2_affine::default());
    // SAFETY: all pointers are to initialised values of the named types.
    unsafe {
        blst::blst_map_to_g2(&mut point, &raw(u), &raw(v));
        blst::blst_p2_to_affine(&mut affine, &point);
    }
    from_raw_g2(affine)
}

/// Checks the first byte and, for an infinite point, the rest. Returns `true` for infinity.
fn check_flags(bytes: &[u8], flags_expected: u8, sign_allowed: bool) -> Result<bool, DecodeError> {
    let first = bytes[0];
    if first & COMPRESSED != flags_expected {
        return Err(DecodeError::Flags { flags: first >> 5 });
    }
    if first & INFINITY != 0 {
        // The identity has one encoding: no sign, and zeros to the end.
        let rest = bytes[1..].iter().fold(first & 0x3f, |any, byte| any | byte);
        return if rest == 0 {
            Ok(true)
        } else {
            Err(DecodeError::InfinityBits)
        };
    }
    if first & SIGN != 0 && !sign_allowed {
        return Err(DecodeError::Flags { flags: first >> 5 });
    }
    Ok(false)
}

/// Converts blst's verdict on an encoding whose flags were already checked.
fn verdict(error: blst::BLST_ERROR) -> Result<(), DecodeError> {
    match error {
        blst::BLST_ERROR::BLST_SUCCESS => Ok(()),
        blst::BLST_ERROR::BLST_POINT_NOT_ON_CURVE => Err(DecodeError::NotOnCurve),
        // x = 0: the two points there have order 3 in E(Fp), and are outside G2 in E'(Fp2).
        blst::BLST_ERROR::BLST_POINT_NOT_IN_GROUP => Err(DecodeError::NotInSubgroup),
        _ => Err(DecodeError::NotCanonical),
    }
}

macro_rules! group {
    (
        $module:ident, $name:literal, $affine:ident, $raw:ident, $from_raw:ident, $compressed:literal,
        $uncompressed:literal, $p:ident, $p_affine:ident, $uncompress:ident, $deserialize:ident,
        $affine_compress:ident, $affine_serialize:ident, $in_group:ident, $mult:ident,
        $from_affine:ident, $to_affine:ident, $add_affine:ident, $bulk_add:ident,
        $scratch:ident, $pippenger:ident, $generator:ident, $double:ident
    ) => {
        #[doc = concat!("Points of ", $name, ".")]
        pub(crate) mod $module {
            use core::ptr::null;

            use blst::{
                $add_affine, $affine_compress, $affine_serialize, $bulk_add, $deserialize, $double,
                $from_affine, $generator, $in_group, $mult, $p, $p_affine, $pippenger, $scratch,
                $to_affine, $uncompress,
            };

            use super::{
                COMPRESSED, check_flags, verdict, $affine, $from_raw as from_raw, $raw as raw,
            };
            use crate::error::DecodeError;

            /// Size of the compressed form in bytes.
            pub(crate) const COMPRESSED_BYTES: usize = $compressed;
            /// Size of the uncompressed form in bytes.
            pub(crate) const UNCOMPRESSED_BYTES: usize = $uncompressed;

            /// Decodes a point of the curve from its compressed form; subgroup not checked, identity allowed.
            pub(crate) fn decompress(
                bytes: &[u8; COMPRESSED_BYTES],
            ) -> Result<$affine, DecodeError> {
                if check_flags(bytes, COMPRESSED, true)? {
                    return Ok($affine::INFINITY);
                }
                let mut out = $p_affine::default();
                // SAFETY: the input has the length of the compressed form.
                verdict(unsafe { $uncompress(&mut out, bytes.as_ptr()) })?;
                Ok(from_raw(out))
            }

            /// Decodes a point of the curve from its uncompressed form; subgroup not checked, identity allowed.
            pub(crate) fn deserialize(
                bytes: &[u8; UNCOMPRESSED_BYTES],
            ) -> Result<$affine, DecodeError> {
                if check_flags(bytes, 0, false)? {
                    return Ok($affine::INFINITY);
                }
                let mut out = $p_affine::default();
                // SAFETY: the input has the length of the uncompressed form.
                verdict(unsafe { $deserialize(&mut out, bytes.as_ptr()) })?;
                Ok(from_raw(out))
            }

            /// The compressed form.
            pub(crate) fn compress(point: &$affine) -> [u8; COMPRESSED_BYTES] {
                let mut out = [0; COMPRESSED_BYTES];
                // SAFETY: the output has the length of the compressed form.
                unsafe { $affine_compress(out.as_mut_ptr(), raw(point)) };
                out
            }

            /// The uncompressed form.
            pub(crate) fn serialize(point: &$affine) -> [u8; UNCOMPRESSED_BYTES] {
                let mut out = [0; UNCOMPRESSED_BYTES];
                // SAFETY: the output has the length of the uncompressed form.
                unsafe { $affine_serialize(out.as_mut_ptr(), raw(point)) };
                out
            }

            /// Returns whether the point has prime order or is the identity.
            pub(crate) fn in_group(point: &$affine) -> bool {
                // SAFETY: the pointer is to an initialised point of the curve.
                unsafe { $in_group(raw(point)) }
            }

            /// The generator of the group.
            pub(crate) fn generator() -> $affine {
                // SAFETY: blst returns a pointer to a constant.
                from_raw(unsafe { *$generator() })
            }

            fn affine(point: &$p) -> $affine {
                let mut out = $p_affine::default();
                // SAFETY: both pointers are to initialised values.
                unsafe { $to_affine(&mut out, point) };
                from_raw(out)
            }

            fn projective(point: &$affine) -> $p {
                let mut out = $p::default();
                // SAFETY: both pointers are to initialised values.
                unsafe { $from_affine(&mut out, raw(point)) };
                out
            }

            /// `scalar * point`, with a little-endian scalar of `bits` bits. The point must be in the subgroup,
            /// because blst splits long scalars by an endomorphism of it.
            pub(crate) fn mul(point: &$affine, scalar: &[u8], bits: usize) -> $affine {
                assert!(
                    scalar.len() * 8 >= bits && bits > 0,
                    "the scalar has `bits` bits"
                );
                let base = projective(point);
                let mut out = $p::default();
                // SAFETY: the scalar has at least `bits` bits, as asserted.
                unsafe { $mult(&mut out, &base, scalar.as_ptr(), bits) };
                affine(&out)
            }

            /// The sum, with one mixed addition per point: the loop that other clients use, for the benchmarks.
            pub(crate) fn sum_naive<'a>(points: impl IntoIterator<Item = &'a $affine>) -> $affine {
                let mut sum = $p::default();
                for point in points {
                    let before = sum;
                    // SAFETY: the pointers are to initialised values.
                    unsafe { $add_affine(&mut sum, &before, raw(point)) };
                }
                affine(&sum)
            }

            /// `sum 2^j * points[j]`.
            pub(crate) fn sum_of_doubled(points: &[$affine]) -> $affine {
                let mut sum = $p::default();
                for point in points.iter().rev() {
                    let mut double = $p::default();
                    // SAFETY: the pointers are to initialised values.
                    unsafe {
                        $double(&mut double, &sum);
                        $add_affine(&mut sum, &double, raw(point));
                    }
                }
                affine(&sum)
            }

            /// The sum by blst's bulk addition.
            pub(crate) fn sum_bulk(points: &[&$affine]) -> $affine {
                if points.is_empty() {
                    return $affine::INFINITY;
                }
                let pointers: Vec<*const $p_affine> =
                    points.iter().map(|point| raw(point)).collect();
                let mut out = $p::default();
                // SAFETY: there are as many valid pointers as the count says.
                unsafe { $bulk_add(&mut out, pointers.as_ptr(), pointers.len()) };
                affine(&out)
            }

            /// `sum scalars[i] * points[i]` by buckets; variable time.
            ///
            /// `scalars` holds `ceil(bits / 8)` little-endian bytes per point. Points must be of prime order
            /// and not the identity, because blst normalises small multiples in one batch.
            pub(crate) fn vartime_msm(points: &[$affine], scalars: &[u8], bits: usize) -> $affine {
                assert_eq!(
                    scalars.len(),
                    points.len() * bits.div_ceil(8),
                    "one scalar a point"
                );
                debug_assert!(points.iter().all(|point| !point.is_infinity()));
                if points.is_empty() {
                    return $affine::INFINITY;
                }
                let point_list = [raw(&points[0]), null()];
                let scalar_list = [scalars.as_ptr(), null()];
                let mut out = $p::default();
                // SAFETY: a null behind the first pointer tells blst that points and scalars are
                // consecutive; their number is asserted; the scratch has the size blst asks for.
                unsafe {
                    let mut scratch = vec![0u64; $scratch(points.len()) / 8];
                    $pippenger(
                        &mut out,
                        point_list.as_ptr(),
                        points.len(),
                        scalar_list.as_ptr(),
                        bits,
                        scratch.as_mut_ptr(),
                    );
                }
                affine(&out)
            }
        }
    };
}

group!(
    g1,
    "G1",
    G1Affine,
    raw_g1,
    from_raw_g1,
    48,
    96,
    blst_p1,
    blst_p1_affine,
    blst_p1_uncompress,
    blst_p1_deserialize,
    blst_p1_affine_compress,
    blst_p1_affine_serialize,
    blst_p1_affine_in_g1,
    blst_p1_mult,
    blst_p1_from_affine,
    blst_p1_to_affine,
    blst_p1_add_or_double_affine,
    blst_p1s_add,
    blst_p1s_mult_pippenger_scratch_sizeof,
    blst_p1s_mult_pippenger,
    blst_p1_affine_generator,
    blst_p1_double
);

group!(
    g2,
    "G2",
    G2Affine,
    raw_g2,
    from_raw_g2,
    96,
    192,
    blst_p2,
    blst_p2_affine,
    blst_p2_uncompress,
    blst_p2_deserialize,
    blst_p2_affine_compress,
    blst_p2_affine_serialize,
    blst_p2_affine_in_g2,
    blst_p2_mult,
    blst_p2_from_affine,
    blst_p2_to_affine,
    blst_p2_add_or_double_affine,
    blst_p2s_add,
    blst_p2s_mult_pippenger_scratch_sizeof,
    blst_p2s_mult_pippenger,
    blst_p2_affine_generator,
    blst_p2_double
);
