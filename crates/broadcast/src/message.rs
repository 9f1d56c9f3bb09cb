//! Messages between neighbours, and their encoding.
//!
//! Little-endian, fixed layouts, no optional fields: `tag u8`, then
//!
//! | tag | message | body |
//! |---|---|---|
//! | 1 | HEADER | header 100, length of the authenticator u16, authenticator; with one generation its commitments |
//! | 2 | COMMITS | id 32, generation u16, commitments and Merkle path |
//! | 3 | CHUNK | id 32, body of [`Coding::encode_piece`] |
//! | 4 | SHARD | id 32, body of [`Coding::encode_piece`] |
//! | 5 | RANK | id 32, one u16 a generation, or the held shards, one bit each |
//! | 6 | DONE | id 32 |
//! | 7 | NEED | id 32, generation u16, pieces u16 or the wanted shards, one bit each |
//! | 8 | ASK | id 32 |
//!
//! All lengths except the authenticator's follow from the header. Every message but HEADER, DONE and ASK can therefore
//! be read only if its header is known; earlier ones are kept as bytes, see [`Unread`].

mod read;

use super::reject::Reject;
use super::shards::ShardSet;
use crate::rlnc::{Coding, HEADER_BYTES, Hash, Header, Id, Strategy};
use alphorn_scheme::Bytes;
use alphorn_types::Writer;
use std::sync::Arc;

/// Size of the longest message in bytes: a chunk has up to 258 KiB, a shard 257.
pub const MESSAGE_BYTES_MAX: usize = 320 << 10;

/// Size of tag and id in bytes.
pub(super) const HEAD_BYTES: u64 = 33;

const TAG_HEADER: u8 = 1;
const TAG_COMMITS: u8 = 2;
const TAG_CHUNK: u8 = 3;
const TAG_SHARD: u8 = 4;
const TAG_RANK: u8 = 5;
const TAG_DONE: u8 = 6;
const TAG_NEED: u8 = 7;
const TAG_ASK: u8 = 8;

/// A signed header with its accompanying data.
#[derive(Clone, Debug)]
pub struct Announce<C: Coding> {
    /// Id of the broadcast, derived from header and network.
    pub id: Id,
    /// The header.
    pub header: Header,
    /// The source's signature over [`Header::signing_root`].
    pub auth: Bytes,
    /// The commitments of a broadcast of one generation. None if they have their own messages, if there are none, or if
    /// the receiver already knew the broadcast.
    pub commitments: Option<C::Commitments>,
    wire_bytes: u32,
}

impl<C: Coding> Announce<C> {
    /// Creates an announcement with an authenticator and, if there is only one generation, its commitments.
    pub fn new(
        code: &C,
        id: Id,
        header: Header,
        auth: Bytes,
        commitments: Option<C::Commitments>,
    ) -> Announce<C> {
        let beside = if rides_along(code, &header) {
            code.commitments_bytes(&header)
        } else {
            0
        };
        Announce {
            id,
            // Commitments count even if there are none here: a receiver that knew the broadcast has skipped
            // them unread.
            wire_bytes: (1 + HEADER_BYTES + 2 + auth.len() + beside) as u32,
            header,
            auth,
            commitments,
        }
    }

    /// Header and authenticator in wire form: the proof that the source signed it.
    pub(crate) fn evidence(&self) -> Bytes {
        let mut writer = Writer::new();
        write_signed(&mut writer, &self.header, &self.auth);
        writer.into_vec().into()
    }
}

/// Whether the commitments of a broadcast are sent with its header, since there is one list of them.
pub(super) fn rides_along<C: Coding>(code: &C, header: &Header) -> bool {
    code.commitment_lists(header) == 1
}

/// What a node has of each generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// The rank of the only generation.
    One(u16),
    /// The rank of each generation.
    Many(Arc<[u16]>),
    /// The shards.
    Shards(ShardSet),
}

/// What a node requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// This many combinations.
    Count(u16),
    /// Any of these shards, as many as are missing.
    Shards(ShardSet),
}

/// A message of a broadcast whose header was unknown when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Id of the broadcast.
    pub id: Id,
    /// The whole message.
    pub bytes: Bytes,
}

/// A message between neighbours. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Message<C: Coding> {
    /// A signed header.
    Header(Arc<Announce<C>>),
    /// The commitments of one of several generations.
    Commits {
        /// Id of the broadcast.
        id: Id,
        /// The generation.
        generation: u16,
        /// Its commitments; none if the receiver already had them.
        commitments: Option<C::Commitments>,
        /// Encoded size in bytes.
        wire_bytes: u32,
    },
    /// A chunk or shard.
    Piece {
        /// Id of the broadcast.
        id: Id,
        /// The chunk or shard.
        piece: C::Piece,
        /// Encoded size in bytes.
        wire_bytes: u32,
    },
    /// What the sender has.
    Rank {
        /// Id of the broadcast.
        id: Id,
        /// By generation.
        ranks: Ranks,
    },
    /// The sender needs nothing more.
    Done {
        /// Id of the broadcast.
        id: Id,
    },
    /// The sender requests pieces.
    Need {
        /// Id of the broadcast.
        id: Id,
        /// The generation; 0 for shards.
        generation: u16,
        /// What it requests.
        want: Want,
    },
    /// The sender holds pieces and requests the header.
    Ask {
        /// Id of the broadcast.
        id: Id,
    },
    /// Bytes waiting for their header.
    Unread(Arc<Unread>),
}

/// What a reader already knows.
pub trait Known {
    /// The header of a broadcast.
    fn header(&self, id: &Id) -> Option<&Header>;

    /// Whether the commitments of a generation are known: another peer's are then not worth decoding.
    fn has_commitments(&self, _id: &Id, _generation: u16) -> bool {
        false
    }

    /// Whether the authenticator of a known header was verified. The commitments of others wait unread.
    fn is_verified(&self, _id: &Id) -> bool {
        true
    }

    /// Whether a new header may be worth decoding its commitments, and its sender may have them decoded.
    ///
    /// # Errors
    ///
    /// The reason if not. Checked before any group arithmetic.
    fn admits(&self, header: &Header) -> Result<(), Reject>;
}

/// What decoding needs in addition to the code and the known headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The network, covered by every id.
    pub network_id: Hash,
    /// Maximum size of an authenticator in bytes.
    pub header_auth_bytes_max: u16,
}

impl<C: Coding> Message<C> {
    /// Builds a piece message.
    pub fn piece(code: &C, header: &Header, id: Id, piece: C::Piece) -> Message<C> {
        let body_bytes = code.piece_bytes(header, &piece) as u64;
        Message::Piece {
            id,
            piece,
            wire_bytes: (HEAD_BYTES + body_bytes) as u32,
        }
    }

    /// Builds the message with the commitments of one of several generations.
    pub fn commits(
        code: &C,
        header: &Header,
        id: Id,
        generation: u16,
        commitments: C::Commitments,
    ) -> Message<C> {
        Message::Commits {
            id,
            generation,
            commitments: Some(commitments),
            wire_bytes: (HEAD_BYTES + 2) as u32 + code.commitments_bytes(header) as u32,
        }
    }

    /// Encoded size in bytes.
    #[inline]
    pub fn wire_bytes(&self) -> u64 {
        match self {
            Message::Piece { wire_bytes, .. } | Message::Commits { wire_bytes, .. } => {
                u64::from(*wire_bytes)
            }
            Message::Header(announce) => u64::from(announce.wire_bytes),
            Message::Rank { ranks, .. } => {
                HEAD_BYTES
                    + match ranks {
                        Ranks::One(_) => 2,
                        Ranks::Many(ranks) => 2 * ranks.len() as u64,
                        Ranks::Shards(shards) => shards.wire_bytes() as u64,
                    }
            }
            Message::Done { .. } | Message::Ask { .. } => HEAD_BYTES,
            Message::Need { want, .. } => {
                HEAD_BYTES
                    + 2
                    + match want {
                        Want::Count(_) => 2,
                        Want::Shards(shards) => shards.wire_bytes() as u64,
                    }
            }
            Message::Unread(unread) => unread.bytes.len() as u64,
        }
    }

    /// Id of the broadcast.
    #[inline]
    pub fn id(&self) -> Id {
        match self {
            Message::Header(announce) => announce.id,
            Message::Unread(unread) => unread.id,
            Message::Commits { id, .. }
            | Message::Piece { id, .. }
            | Message::Rank { id, .. }
            | Message::Done { id }
            | Message::Ask { id }
            | Message::Need { id, .. } => *id,
        }
    }

    /// Name of the message kind, for traces and counters.
    pub const fn kind(&self) -> &'static str {
        match self {
            Message::Header(_) => "header",
            Message::Commits { .. } => "commits",
            Message::Piece { .. } => "piece",
            Message::Rank { .. } => "rank",
            Message::Done { .. } => "done",
            Message::Need { .. } => "need",
            Message::Ask { .. } => "ask",
            Message::Unread(_) => "unread",
        }
    }

    /// Encodes an ASK, which needs no header.
    pub(super) fn encode_ask(id: &Id) -> Vec<u8> {
        let mut writer = Writer::with_capacity(HEAD_BYTES as usize);
        writer.u8(TAG_ASK);
        writer.bytes(&id.0);
        writer.into_vec()
    }

    /// Encodes the message; `header` is that of its broadcast.
    pub fn encode(&self, code: &C, header: &Header) -> Vec<u8> {
        let mut writer = Writer::with_capacity(self.wire_bytes() as usize);
        let mut head = |tag: u8, id: &Id| {
            writer.u8(tag);
            writer.bytes(&id.0);
        };
        let mut body = Vec::new();
        match self {
            Message::Unread(unread) => return unread.bytes.to_vec(),
            Message::Header(announce) => {
                writer.u8(TAG_HEADER);
                write_signed(&mut writer, &announce.header, &announce.auth);
                if let Some(commitments) = &announce.commitments
                    && rides_along(code, header)
                {
                    code.encode_commitments(commitments, &mut body);
                }
            }
            Message::Commits {
                id,
                generation,
                commitments,
                ..
            } => {
                head(TAG_COMMITS, id);
                writer.u16(*generation);
                if let Some(commitments) = commitments {
                    code.encode_commitments(commitments, &mut body);
                }
            }
            Message::Piece { id, piece, .. } => {
                head(piece_tag(code), id);
                code.encode_piece(header, piece, &mut body);
            }
            Message::Rank { id, ranks } => {
                head(TAG_RANK, id);
                match ranks {
                    Ranks::One(rank) => writer.u16(*rank),
                    Ranks::Many(ranks) => ranks.iter().for_each(|&rank| writer.u16(rank)),
                    Ranks::Shards(shards) => shards.write(&mut writer),
                }
            }
            Message::Done { id } => head(TAG_DONE, id),
            Message::Ask { id } => return Self::encode_ask(id),
            Message::Need {
                id,
                generation,
                want,
            } => {
                head(TAG_NEED, id);
                writer.u16(*generation);
                match want {
                    Want::Count(count) => writer.u16(*count),
                    Want::Shards(shards) => shards.write(&mut writer),
                }
            }
        }
        writer.bytes(&body);
        writer.into_vec()
    }
}

fn piece_tag<C: Coding>(code: &C) -> u8 {
    match code.strategy() {
        Strategy::Rlnc => TAG_CHUNK,
        Strategy::Rs => TAG_SHARD,
    }
}

fn write_signed(writer: &mut Writer, header: &Header, auth: &[u8]) {
    writer.bytes(&header.encode());
    writer.u16(auth.len() as u16);
    writer.bytes(auth);
}

#[cfg(test)]
mod tests;
