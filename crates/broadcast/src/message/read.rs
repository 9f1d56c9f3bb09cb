//! Reading messages.

use super::{
    Announce, HEAD_BYTES, Known, Limits, MESSAGE_BYTES_MAX, Message, Ranks, TAG_ASK, TAG_CHUNK,
    TAG_COMMITS, TAG_DONE, TAG_HEADER, TAG_NEED, TAG_RANK, TAG_SHARD, Unread, Want, piece_tag,
    rides_along,
};
use crate::reject::Reject;
use crate::rlnc::{Coding, HEADER_BYTES, Header, Id, Strategy};
use crate::shards::ShardSet;
use alphorn_types::Reader;
use std::sync::Arc;

impl<C: Coding> Message<C> {
    /// Decodes a message. If it needs a header that is not known, returns [`Message::Unread`].
    ///
    /// # Errors
    ///
    /// If the bytes are not a message. Trailing bytes are rejected, and nothing is allocated before
    /// a length is checked.
    pub fn decode(
        bytes: &[u8],
        code: &C,
        limits: &Limits,
        known: &(impl Known + ?Sized),
    ) -> Result<Message<C>, Reject> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(Reject::TooLong);
        }
        let mut reader = Reader::new(bytes);
        let tag = reader.u8().map_err(|_| Reject::Malformed)?;
        if tag == TAG_HEADER {
            return decode_header(reader, code, limits, known);
        }
        let needs_commitments = matches!(tag, TAG_COMMITS) && code.strategy() == Strategy::Rlnc;
        if !(matches!(tag, TAG_RANK | TAG_DONE | TAG_NEED | TAG_ASK) || needs_commitments)
            && tag != piece_tag(code)
        {
            return Err(Reject::Malformed);
        }
        let id = Id(reader.array().map_err(|_| Reject::BadLength)?);
        if matches!(tag, TAG_DONE | TAG_ASK) {
            reader.finish().map_err(|_| Reject::BadLength)?;
            return Ok(match tag {
                TAG_DONE => Message::Done { id },
                _ => Message::Ask { id },
            });
        }
        match known.header(&id) {
            // Points come after the signature check; otherwise a forged header could have them
            // decoded.
            Some(header) if tag != TAG_COMMITS || known.is_verified(&id) => {
                let here = |generation| known.has_commitments(&id, generation);
                decode_body(tag, id, reader, code, header, here)
            }
            _ => Ok(Message::Unread(Arc::new(Unread {
                id,
                bytes: bytes.into(),
            }))),
        }
    }
}

impl Unread {
    /// Reads the message now that its header is known.
    ///
    /// # Errors
    ///
    /// If the bytes are not a message of a known broadcast.
    pub(crate) fn read<C: Coding>(
        &self,
        code: &C,
        known: &(impl Known + ?Sized),
    ) -> Result<Message<C>, Reject> {
        let mut reader = Reader::new(&self.bytes);
        let tag = reader.u8().map_err(|_| Reject::Malformed)?;
        let id = Id(reader.array().map_err(|_| Reject::BadLength)?);
        if id != self.id {
            return Err(Reject::Malformed);
        }
        let header = known.header(&id).ok_or(Reject::UnknownId)?;
        let here = |generation| known.has_commitments(&id, generation);
        decode_body(tag, id, reader, code, header, here)
    }
}

fn decode_header<C: Coding>(
    mut reader: Reader<'_>,
    code: &C,
    limits: &Limits,
    known: &(impl Known + ?Sized),
) -> Result<Message<C>, Reject> {
    let fixed = reader.bytes(HEADER_BYTES).map_err(|_| Reject::BadLength)?;
    let header = code.decode_header(fixed).map_err(|e| Reject::from(&e))?;
    let auth_len = reader.u16().map_err(|_| Reject::BadLength)?;
    if auth_len > limits.header_auth_bytes_max {
        return Err(Reject::TooLong);
    }
    let auth = reader
        .bytes(usize::from(auth_len))
        .map_err(|_| Reject::BadLength)?;
    let along = rides_along(code, &header);
    let expected = if along {
        code.commitments_bytes(&header)
    } else {
        0
    };
    if reader.left() != expected {
        return Err(Reject::BadLength);
    }
    let id = header.id(&limits.network_id);
    // Each neighbour sends a header once; only the first is worth decoding points for.
    let commitments = if known.header(&id).is_some() || !along {
        None
    } else {
        known.admits(&header)?;
        let commitments = code.decode_commitments(&header, 0, reader.rest());
        Some(commitments.map_err(|e| Reject::from(&e))?)
    };
    let announce = Announce::new(code, id, header, auth.into(), commitments);
    Ok(Message::Header(Arc::new(announce)))
}

fn decode_body<C: Coding>(
    tag: u8,
    id: Id,
    mut reader: Reader<'_>,
    code: &C,
    header: &Header,
    has_commitments: impl Fn(u16) -> bool,
) -> Result<Message<C>, Reject> {
    let short = |_| Reject::BadLength;
    let message = match tag {
        TAG_COMMITS => {
            let generation = reader.u16().map_err(short)?;
            // Each neighbour sends it once, and decoding points is expensive.
            if has_commitments(generation) && reader.left() == code.commitments_bytes(header) {
                let wire_bytes = HEAD_BYTES as usize + 2 + reader.left();
                return Ok(Message::Commits {
                    id,
                    generation,
                    commitments: None,
                    wire_bytes: wire_bytes as u32,
                });
            }
            let commitments = code.decode_commitments(header, generation, reader.rest());
            let commitments = commitments.map_err(|e| Reject::from(&e))?;
            return Ok(Message::commits(code, header, id, generation, commitments));
        }
        TAG_CHUNK | TAG_SHARD if tag == piece_tag(code) => {
            let piece = code.decode_piece(header, reader.rest());
            let piece = piece.map_err(|e| Reject::from(&e))?;
            return Ok(Message::piece(code, header, id, piece));
        }
        TAG_RANK => Message::Rank {
            id,
            ranks: decode_ranks(&mut reader, header)?,
        },
        TAG_NEED => {
            let generation = reader.u16().map_err(short)?;
            let want = match header.strategy {
                Strategy::Rlnc => Want::Count(reader.u16().map_err(short)?),
                Strategy::Rs => Want::Shards(ShardSet::read(&mut reader, header.shards_total)?),
            };
            if generation >= header.generations {
                return Err(Reject::BadLength);
            }
            Message::Need {
                id,
                generation,
                want,
            }
        }
        _ => return Err(Reject::Malformed),
    };
    reader.finish().map_err(|_| Reject::BadLength)?;
    Ok(message)
}

fn decode_ranks(reader: &mut Reader<'_>, header: &Header) -> Result<Ranks, Reject> {
    if header.strategy == Strategy::Rs {
        return Ok(Ranks::Shards(ShardSet::read(reader, header.shards_total)?));
    }
    let generations = usize::from(header.generations);
    // Checked before anything is allocated.
    if reader.left() != 2 * generations {
        return Err(Reject::BadLength);
    }
    let ranks: Vec<u16> = (0..generations)
        .map(|_| reader.u16())
        .collect::<Result<_, _>>()
        .map_err(|_| Reject::BadLength)?;
    if ranks.iter().any(|&rank| rank > header.chunks) {
        return Err(Reject::BadLength);
    }
    Ok(match ranks[..] {
        [rank] => Ranks::One(rank),
        _ => Ranks::Many(ranks.into()),
    })
}
