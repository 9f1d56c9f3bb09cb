//! The signed header of a broadcast: its content, how it is split, and what its pieces are checked against.

use std::fmt;

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::kernel::table::TableRow;
use crate::merkle::{Hash, path_len};
use crate::row::row_bytes;

/// Size of an encoded header in bytes.
pub const HEADER_BYTES: usize = 100;
/// Largest payload that any configuration may allow, in bytes.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// Maximum number of chunks per generation (random linear code).
pub const CHUNKS_MAX: u16 = 64;
/// Maximum number of elements per chunk (random linear code).
pub const ELEMENTS_MAX: u32 = 8192;
/// Maximum number of generations of a payload (random linear code).
pub const GENERATIONS_MAX: u16 = 16;
/// Maximum number of data shards (Reed-Solomon).
pub(crate) const SHARDS_DATA_MAX: u16 = 256;
/// Maximum total number of shards (Reed-Solomon).
pub const SHARDS_TOTAL_MAX: u16 = 1024;
/// Maximum total number of shards per data shard. A decoder computes all of them, so this bounds the cost of one
/// received shard to this many times the payload. `Cut::rs` takes 4 to 8.
const SHARDS_RATIO_MAX: u32 = 8;
/// Maximum size of a shard in bytes (Reed-Solomon).
pub const SHARD_BYTES_MAX: u32 = 262_144;
/// Payload bytes per element: each 31-byte string is below ℓ, so nothing is reduced or shifted.
pub const ELEMENT_PAYLOAD_BYTES: u32 = 31;

/// Memory of a piece in addition to its rows or its shard, in bytes: lengths, counts, allocator overhead.
const PIECE_BYTES: u64 = 256;
/// Memory of a commitment in bytes: its encoding and eight multiples of it.
const COMMITMENT_BYTES: usize = 32 + 8 * size_of::<TableRow>();

const VERSION: u8 = 1;
const SIGNING_DOMAIN: &[u8] = b"alphorn/broadcast/v1\0";

/// How a payload is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strategy {
    /// Random linear combinations over the Ristretto255 scalars under Pedersen commitments.
    Rlnc,
    /// Reed-Solomon shards under a Merkle root.
    Rs,
}

impl Strategy {
    /// The byte in the header.
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Strategy::Rlnc => 1,
            Strategy::Rs => 2,
        }
    }
}

/// Identifies one broadcast: its complete signing root. A source chooses its payloads, so it could find two headers
/// with the same half of a root (2^64 hashes), and pieces of one would be wrong under the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub Hash);

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Identifies the payload of a broadcast and its source. The meaning is defined by the protocol above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Kind of payload.
    pub kind: u8,
    /// Slot.
    pub slot: u64,
    /// Index of the source.
    pub source: u32,
    /// Number among the source's payloads of that kind.
    pub index: u32,
}

/// The header: fixed layout, 100 bytes, signed by the source.
///
/// [`Header::decode`] and the codes' `publish` only create headers with consistent geometry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The code.
    pub strategy: Strategy,
    /// The subject of the broadcast.
    pub subject: Subject,
    /// Payload size in bytes.
    pub len: u32,
    /// Number of source chunks of a generation N, or of data shards k.
    pub chunks: u16,
    /// Total number of shards K; 0 for the random linear code.
    pub shards_total: u16,
    /// Number of generations; 1 for Reed-Solomon.
    pub generations: u16,
    /// Number of elements of a chunk M, or of bytes of a shard c.
    pub unit: u32,
    /// SHA-256 of the payload.
    pub payload_hash: Hash,
    /// Merkle root over the commitments of the generations, or over the shards.
    pub commit_root: Hash,
}

/// Why bytes are not a header, or a payload cannot be split as requested.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Not exactly [`HEADER_BYTES`].
    #[error("header of {0} bytes, expected {HEADER_BYTES}")]
    Length(usize),
    /// Another version of the format.
    #[error("header version {0}, expected {VERSION}")]
    Version(u8),
    /// A strategy that no code here implements.
    #[error("unknown strategy {0}")]
    Strategy(u8),
    /// Reserved bytes that are not zero.
    #[error("reserved header bytes are not zero")]
    Reserved,
    /// Payload empty or above the configured maximum.
    #[error("payload of {len} bytes, allowed are 1 to {max}")]
    PayloadLength {
        /// Bytes of the payload.
        len: u64,
        /// The configured maximum.
        max: u32,
    },
    /// A count is out of range.
    #[error("{name} is {value}, allowed are {min} to {max}")]
    Range {
        /// The field.
        name: &'static str,
        /// Its value.
        value: u32,
        /// Minimum legal value.
        min: u32,
        /// Maximum legal value.
        max: u32,
    },
    /// The total number of shards is not a power of two.
    #[error("{0} shards in all, expected a power of two")]
    ShardsTotal(u16),
    /// The unit does not match length and counts.
    #[error("unit {found}, but length and counts give {expected}")]
    Unit {
        /// As in the header.
        found: u32,
        /// As computed.
        expected: u32,
    },
}

fn in_range(name: &'static str, value: u32, min: u32, max: u32) -> Result<(), HeaderError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(HeaderError::Range {
            name,
            value,
            min,
            max,
        })
    }
}

impl Header {
    /// The fixed layout, all integers little-endian.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&[VERSION, self.strategy.to_byte(), self.subject.kind, 0]);
        put(&self.subject.slot.to_le_bytes());
        put(&self.subject.source.to_le_bytes());
        put(&self.subject.index.to_le_bytes());
        put(&self.len.to_le_bytes());
        put(&self.chunks.to_le_bytes());
        put(&self.shards_total.to_le_bytes());
        put(&self.generations.to_le_bytes());
        put(&[0, 0]);
        put(&self.unit.to_le_bytes());
        put(&self.payload_hash);
        put(&self.commit_root);
        out
    }

    /// Reads a header and checks all its limits and that its counts match its length.
    pub fn decode(bytes: &[u8], payload_bytes_max: u32) -> Result<Header, HeaderError> {
        let bytes: &[u8; HEADER_BYTES] = bytes
            .try_into()
            .map_err(|_| HeaderError::Length(bytes.len()))?;
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let hash_at = |at: usize| {
            let mut hash = [0; 32];
            hash.copy_from_slice(&bytes[at..at + 32]);
            hash
        };
        if bytes[0] != VERSION {
            return Err(HeaderError::Version(bytes[0]));
        }
        let strategy = match bytes[1] {
            1 => Strategy::Rlnc,
            2 => Strategy::Rs,
            other => return Err(HeaderError::Strategy(other)),
        };
        // Not ignored: a header has only one encoding.
        if bytes[3] != 0 || u16_at(30) != 0 {
            return Err(HeaderError::Reserved);
        }
        let header = Header {
            strategy,
            subject: Subject {
                kind: bytes[2],
                slot: u64::from(u32_at(4)) | u64::from(u32_at(8)) << 32,
                source: u32_at(12),
                index: u32_at(16),
            },
            len: u32_at(20),
            chunks: u16_at(24),
            shards_total: u16_at(26),
            generations: u16_at(28),
            unit: u32_at(32),
            payload_hash: hash_at(36),
            commit_root: hash_at(68),
        };
        header.check(payload_bytes_max)?;
        Ok(header)
    }

    /// The geometry of a random linear code: a header with its hashes still zero.
    pub(crate) fn rlnc(
        subject: Subject,
        len: usize,
        chunks: u16,
        generations: u16,
        payload_bytes_max: u32,
    ) -> Result<Header, HeaderError> {
        let len = payload_len(len, payload_bytes_max)?;
        let mut header = Header {
            strategy: Strategy::Rlnc,
            subject,
            len,
            chunks,
            shards_total: 0,
            generations,
            unit: 0,
            payload_hash: [0; 32],
            commit_root: [0; 32],
        };
        header.check_counts()?;
        header.unit = header.expected_unit();
        header.check(payload_bytes_max)?;
        Ok(header)
    }

    /// The geometry of a Reed-Solomon code: a header with its hashes still zero.
    pub(crate) fn rs(
        subject: Subject,
        len: usize,
        shards_data: u16,
        shards_total: u16,
        payload_bytes_max: u32,
    ) -> Result<Header, HeaderError> {
        let len = payload_len(len, payload_bytes_max)?;
        let mut header = Header {
            strategy: Strategy::Rs,
            subject,
            len,
            chunks: shards_data,
            shards_total,
            generations: 1,
            unit: 0,
            payload_hash: [0; 32],
            commit_root: [0; 32],
        };
        header.check_counts()?;
        header.unit = header.expected_unit();
        header.check(payload_bytes_max)?;
        Ok(header)
    }

    /// What the source signs: network, subject, geometry, payload and commitments in one hash.
    pub fn signing_root(&self, network_id: &Hash) -> Hash {
        let mut hash = Sha256::new();
        hash.update(SIGNING_DOMAIN);
        hash.update(network_id);
        hash.update(self.encode());
        hash.finalize().into()
    }

    /// The id of the broadcast. It does not cover a signature, because signatures need not be unique.
    pub fn id(&self, network_id: &Hash) -> Id {
        Id(self.signing_root(network_id))
    }

    /// Memory of a chunk with its coefficients, or of a shard with its path, in bytes.
    pub fn piece_memory_bytes(&self) -> u64 {
        let bytes = match self.strategy {
            Strategy::Rlnc => row_bytes(self.unit as usize) + row_bytes(usize::from(self.chunks)),
            Strategy::Rs => self.unit as usize + 32 * path_len(usize::from(self.shards_total)),
        };
        PIECE_BYTES + bytes as u64
    }

    /// Memory of the spans of all generations and the tables of their commitments in bytes, in addition to pieces; zero
    /// for shards.
    pub fn span_memory_bytes(&self) -> u64 {
        let chunks = usize::from(self.chunks);
        // A row with its history, a waiting one, one of the inverse, a commitment and its multiples.
        let each = row_bytes(2 * chunks) + row_bytes(chunks) + 32 * chunks + COMMITMENT_BYTES;
        match self.strategy {
            Strategy::Rlnc => usize::from(self.generations) as u64 * (chunks * each) as u64,
            Strategy::Rs => 0,
        }
    }

    /// Memory of the commitments of one generation, with their tables, in bytes; zero for shards.
    pub fn commitments_memory_bytes(&self) -> u64 {
        match self.strategy {
            Strategy::Rlnc => PIECE_BYTES + u64::from(self.chunks) * COMMITMENT_BYTES as u64,
            Strategy::Rs => 0,
        }
    }

    fn check_counts(&self) -> Result<(), HeaderError> {
        let (chunks, total) = (u32::from(self.chunks), u32::from(self.shards_total));
        match self.strategy {
            Strategy::Rlnc => {
                in_range("chunks", chunks, 1, u32::from(CHUNKS_MAX))?;
                in_range("shards_total", total, 0, 0)?;
                let generations = u32::from(self.generations);
                in_range("generations", generations, 1, u32::from(GENERATIONS_MAX))
            }
            Strategy::Rs => {
                in_range("chunks", chunks, 1, u32::from(SHARDS_DATA_MAX))?;
                in_range(
                    "shards_total",
                    total,
                    chunks + 1,
                    u32::from(SHARDS_TOTAL_MAX).min(SHARDS_RATIO_MAX * chunks),
                )?;
                if !self.shards_total.is_power_of_two() {
                    return Err(HeaderError::ShardsTotal(self.shards_total));
                }
                in_range("generations", u32::from(self.generations), 1, 1)
            }
        }
    }

    /// The unit that follows from length and (checked) counts.
    fn expected_unit(&self) -> u32 {
        let chunks = u32::from(self.chunks);
        match self.strategy {
            Strategy::Rlnc => self
                .len
                .div_ceil(ELEMENT_PAYLOAD_BYTES * chunks * u32::from(self.generations)),
            Strategy::Rs => self.len.div_ceil(chunks).next_multiple_of(64),
        }
    }

    fn check(&self, payload_bytes_max: u32) -> Result<(), HeaderError> {
        payload_len(self.len as usize, payload_bytes_max)?;
        // First, because unchecked counts could be zero, by which `expected_unit` would divide, or overflow its
        // product.
        self.check_counts()?;
        let expected = self.expected_unit();
        if self.unit != expected {
            return Err(HeaderError::Unit {
                found: self.unit,
                expected,
            });
        }
        match self.strategy {
            Strategy::Rlnc => in_range("unit", self.unit, 1, ELEMENTS_MAX),
            Strategy::Rs => in_range("unit", self.unit, 64, SHARD_BYTES_MAX),
        }
    }
}

fn payload_len(len: usize, max: u32) -> Result<u32, HeaderError> {
    let max = max.min(PAYLOAD_BYTES_MAX);
    match u32::try_from(len) {
        Ok(short) if (1..=max).contains(&short) => Ok(short),
        _ => Err(HeaderError::PayloadLength {
            len: len as u64,
            max,
        }),
    }
}

/// SHA-256 of a payload.
pub(crate) fn payload_hash(payload: &[u8]) -> Hash {
    Sha256::digest(payload).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: Subject = Subject {
        kind: 1,
        slot: 7,
        source: 3,
        index: 0,
    };
    const MAX: u32 = 16 << 20;

    #[test]
    fn headers_round_trip() {
        for len in [1, 30, 31, 32, 117_800, 1 << 20] {
            for header in [
                Header::rlnc(SUBJECT, len, 10, 1, MAX).unwrap(),
                Header::rlnc(SUBJECT, len, 64, 4, MAX).unwrap(),
                Header::rs(SUBJECT, len, 32, 128, MAX).unwrap(),
            ] {
                assert_eq!(Header::decode(&header.encode(), MAX), Ok(header));
            }
        }
    }

    /// A single shard makes a decoder compute all of them.
    #[test]
    fn shards_are_at_most_eight_times_the_payload() {
        let len = SHARD_BYTES_MAX as usize;
        for (chunks, most) in [(1, 8), (7, 32), (100, 512), (128, 1024), (256, 1024)] {
            assert!(
                Header::rs(SUBJECT, len, chunks, most, MAX).is_ok(),
                "{chunks}"
            );
            if most < SHARDS_TOTAL_MAX {
                let more = Header::rs(SUBJECT, len, chunks, 2 * most, MAX);
                assert!(matches!(
                    more,
                    Err(HeaderError::Range {
                        name: "shards_total",
                        ..
                    })
                ));
            }
        }
    }

    /// Trap 21 (and 2): every single-byte change is either refused or changes what is signed.
    #[test]
    fn trap_02_every_byte_of_the_header_is_signed() {
        let header = Header::rlnc(SUBJECT, 117_800, 10, 1, MAX).unwrap();
        let network = [0; 32];
        let encoded = header.encode();
        let mut refused = 0;
        for at in 0..HEADER_BYTES {
            for flip in [1, 0x80, 0xff] {
                let mut changed = encoded;
                changed[at] ^= flip;
                match Header::decode(&changed, MAX) {
                    Ok(other) => {
                        assert_eq!(other.encode(), changed, "byte {at}");
                        assert_ne!(other.signing_root(&network), header.signing_root(&network));
                        assert_ne!(other.id(&network), header.id(&network));
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(
            refused > 30,
            "version, strategy, reserved bytes and counts are checked"
        );
        assert_ne!(header.signing_root(&network), header.signing_root(&[1; 32]));
    }

    /// Trap 21: counts out of range and a unit that does not match are errors, never panics.
    #[test]
    fn trap_21_inconsistent_geometry_is_refused() {
        let good = Header::rlnc(SUBJECT, 117_800, 10, 1, MAX).unwrap();
        let decode = |header: &Header| Header::decode(&header.encode(), MAX);
        let refused = |change: &dyn Fn(&mut Header)| {
            let mut header = good.clone();
            change(&mut header);
            decode(&header).unwrap_err()
        };
        assert_eq!(
            refused(&|h| h.unit = ELEMENTS_MAX + 1),
            HeaderError::Unit {
                found: 8193,
                expected: 380
            }
        );
        assert!(matches!(
            refused(&|h| h.chunks = 0),
            HeaderError::Range { name: "chunks", .. }
        ));
        assert!(matches!(
            refused(&|h| h.chunks = 65),
            HeaderError::Range { .. }
        ));
        assert!(matches!(
            refused(&|h| h.generations = 0),
            HeaderError::Range { .. }
        ));
        assert!(matches!(
            refused(&|h| h.generations = 17),
            HeaderError::Range { .. }
        ));
        assert!(matches!(
            refused(&|h| h.shards_total = 1),
            HeaderError::Range { .. }
        ));
        assert!(matches!(
            refused(&|h| h.len = 0),
            HeaderError::PayloadLength { len: 0, .. }
        ));
        assert!(matches!(
            refused(&|h| h.len = MAX + 1),
            HeaderError::PayloadLength { .. }
        ));
        assert!(matches!(
            refused(&|h| h.strategy = Strategy::Rs),
            HeaderError::Range { .. }
        ));
        assert_eq!(Header::decode(&[0; 99], MAX), Err(HeaderError::Length(99)));
        assert!(matches!(
            Header::rlnc(SUBJECT, 16 << 20, 10, 1, MAX),
            Err(HeaderError::Range {
                name: "unit",
                value: 54_121,
                ..
            })
        ));
        let rs = |data, total| Header::rs(SUBJECT, 1000, data, total, MAX);
        assert_eq!(rs(4, 24), Err(HeaderError::ShardsTotal(24)));
        assert!(matches!(rs(4, 4), Err(HeaderError::Range { .. })));
        assert!(matches!(rs(257, 1024), Err(HeaderError::Range { .. })));
        assert!(matches!(rs(1, 2).map(|h| h.unit), Ok(1024)));
    }
}
