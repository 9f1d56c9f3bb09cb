//! The header of a proof.

use crate::error::Reject;
use crate::sis::Profile;

/// The first bytes of every proof: the format and its version.
pub const MAGIC: [u8; 5] = *b"ALPR\x03";

/// Bytes before the first message: magic, front end, profile.
pub const HEADER_BYTES: usize = MAGIC.len() + 2;

/// Maximum size of a proof in bytes.
pub const PROOF_BYTES_MAX: usize = 1 << 20;

/// Returns the header of a proof.
pub(super) fn header(front_end: u8, profile: Profile) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..MAGIC.len()].copy_from_slice(&MAGIC);
    out[MAGIC.len()] = front_end;
    out[MAGIC.len() + 1] = profile.id();
    out
}

/// Checks what can be checked without parameters: the header, and that there are no more bytes than any
/// proof has.
pub(crate) fn check_header(front_end: u8, profile: Profile, bytes: &[u8]) -> Result<(), Reject> {
    if !(HEADER_BYTES..=PROOF_BYTES_MAX).contains(&bytes.len()) {
        return Err(Reject::Length { bytes: bytes.len() });
    }
    let expected = header(front_end, profile);
    match (0..HEADER_BYTES).find(|&i| bytes[i] != expected[i]) {
        Some(offset) => Err(Reject::Header { offset }),
        None => Ok(()),
    }
}
