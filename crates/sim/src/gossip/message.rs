//! Messages between neighbours, and their encoding.
//!
//! Little-endian: `version u8, tag u8`, then for tags 1 and 2 (data, relay) `length u32, payload`,
//! for tags 3 to 5 (IHAVE, IWANT, IDONTWANT) `count u16, names of 20 bytes, ascending`, for tags 6
//! and 7 (GRAFT, PRUNE) nothing. The name of a payload is not sent: the receiver computes it.

use super::{ContentId, ID_BYTES};
use alphorn_scheme::Bytes;
use alphorn_types::{DecodeError, Reader, Writer};
use std::sync::Arc;

/// Version of the encoding.
pub const VERSION: u8 = 1;

/// Bytes of version and tag.
const HEAD_BYTES: u64 = 2;

/// What is published: opaque here but for its size.
pub trait Payload: Clone {
    /// Bytes on the wire.
    fn wire_bytes(&self) -> u64;
}

impl Payload for Bytes {
    fn wire_bytes(&self) -> u64 {
        self.len() as u64
    }
}

/// Names in ascending order without repetition, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids<I>(List<I>);

/// One name needs no memory of its own: IDONTWANT is sent for every large message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum List<I> {
    One([I; 1]),
    Many(Arc<[I]>),
}

impl<I: Copy + Ord> Ids<I> {
    /// One name.
    pub const fn one(id: I) -> Self {
        Self(List::One([id]))
    }

    /// The names of a list, in any order; none if it is empty.
    pub fn new(mut ids: Vec<I>) -> Option<Self> {
        ids.sort_unstable();
        ids.dedup();
        match ids[..] {
            [] => None,
            [id] => Some(Self::one(id)),
            _ => Some(Self(List::Many(ids.into()))),
        }
    }

    /// The names.
    pub fn as_slice(&self) -> &[I] {
        match &self.0 {
            List::One(id) => id,
            List::Many(ids) => ids,
        }
    }
}

/// What neighbours send each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<I, P> {
    /// A published message.
    Data {
        /// Its name.
        id: I,
        /// The message.
        payload: P,
    },
    /// A published message that the receiver forwards once, as [`Message::Data`] ([`Grid`] only).
    ///
    /// [`Grid`]: super::Grid
    Relay {
        /// Its name.
        id: I,
        /// The message.
        payload: P,
    },
    /// Announces messages that can be asked for.
    IHave(Ids<I>),
    /// Asks for messages.
    IWant(Ids<I>),
    /// Says that copies of these messages would be wasted.
    IDontWant(Ids<I>),
    /// Puts sender and receiver into each other's mesh.
    Graft,
    /// Takes them out, for the time of the back-off.
    Prune,
}

impl<I: Copy + Ord, P: Payload> Message<I, P> {
    /// Bytes of the encoding.
    pub fn wire_bytes(&self) -> u64 {
        let ids_bytes = |ids: &Ids<I>| 2 + ID_BYTES as u64 * ids.as_slice().len() as u64;
        HEAD_BYTES
            + match self {
                Self::Data { payload, .. } | Self::Relay { payload, .. } => {
                    4 + payload.wire_bytes()
                }
                Self::IHave(ids) | Self::IWant(ids) | Self::IDontWant(ids) => ids_bytes(ids),
                Self::Graft | Self::Prune => 0,
            }
    }

    /// The name of the kind, for traces and counters.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Data { .. } => "data",
            Self::Relay { .. } => "relay",
            Self::IHave(_) => "ihave",
            Self::IWant(_) => "iwant",
            Self::IDontWant(_) => "idontwant",
            Self::Graft => "graft",
            Self::Prune => "prune",
        }
    }
}

/// Bounds of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a payload, at most.
    pub payload_bytes_max: u32,
    /// Names in a message, at most; announcements have no more.
    pub ids_max: u16,
}

impl Default for Limits {
    /// 16 MiB, the greatest message of any topic, and 3,000 names: 60 kB, within the 64 KiB of
    /// control messages that networks allow.
    fn default() -> Self {
        Self {
            payload_bytes_max: 16 << 20,
            ids_max: 3000,
        }
    }
}

impl Message<ContentId, Bytes> {
    /// The bytes of the message.
    ///
    /// # Panics
    ///
    /// If a payload has 4 GiB or a list more than 65,535 names; configurations allow less.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(self.wire_bytes() as usize);
        writer.u8(VERSION);
        let mut write_ids = |tag, ids: &Ids<ContentId>| {
            let ids = ids.as_slice();
            writer.u8(tag);
            writer.u16(u16::try_from(ids.len()).expect("lists are bounded by a u16"));
            ids.iter().for_each(|id| writer.bytes(&id.0));
        };
        match self {
            Self::IHave(ids) => write_ids(3, ids),
            Self::IWant(ids) => write_ids(4, ids),
            Self::IDontWant(ids) => write_ids(5, ids),
            Self::Data { payload, .. } => {
                writer.u8(1);
                writer.bytes_u32_prefixed(payload);
            }
            Self::Relay { payload, .. } => {
                writer.u8(2);
                writer.bytes_u32_prefixed(payload);
            }
            Self::Graft => writer.u8(6),
            Self::Prune => writer.u8(7),
        }
        writer.into_vec()
    }

    /// The message that `bytes` encode on the topic named `topic`.
    ///
    /// # Errors
    ///
    /// If they do not, or a length is above its limit, or a list is empty or not ascending.
    pub fn decode(bytes: &[u8], topic: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(DecodeError::UnknownTag {
                what: "gossip version",
                value: version.into(),
            });
        }
        let message = match reader.u8()? {
            1 => {
                let (id, payload) = read_payload(&mut reader, topic, limits)?;
                Self::Data { id, payload }
            }
            2 => {
                let (id, payload) = read_payload(&mut reader, topic, limits)?;
                Self::Relay { id, payload }
            }
            3 => Self::IHave(read_ids(&mut reader, limits)?),
            4 => Self::IWant(read_ids(&mut reader, limits)?),
            5 => Self::IDontWant(read_ids(&mut reader, limits)?),
            6 => Self::Graft,
            7 => Self::Prune,
            tag => {
                return Err(DecodeError::UnknownTag {
                    what: "gossip message",
                    value: tag.into(),
                });
            }
        };
        reader.finish()?;
        Ok(message)
    }
}

fn read_payload(
    reader: &mut Reader<'_>,
    topic: &[u8],
    limits: &Limits,
) -> Result<(ContentId, Bytes), DecodeError> {
    let payload = reader.bytes_u32_prefixed(limits.payload_bytes_max as usize)?;
    Ok((ContentId::of(topic, payload), payload.into()))
}

fn read_ids(reader: &mut Reader<'_>, limits: &Limits) -> Result<Ids<ContentId>, DecodeError> {
    let count = reader.u16()?;
    if count > limits.ids_max {
        return Err(DecodeError::TooLong {
            what: "list of names",
            value: count.into(),
            max: limits.ids_max.into(),
        });
    }
    let (names, _) = reader
        .bytes(ID_BYTES * usize::from(count))?
        .as_chunks::<ID_BYTES>();
    let canonical = names.is_sorted_by(|a, b| a < b);
    let ids = names.iter().map(|name| ContentId(*name)).collect();
    Ids::new(ids)
        .filter(|_| canonical)
        .ok_or(DecodeError::NotCanonical {
            what: "list of names",
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &[u8] = b"topic";

    fn limits() -> Limits {
        Limits {
            payload_bytes_max: 100,
            ids_max: 3,
        }
    }

    fn decode(bytes: &[u8]) -> Result<Message<ContentId, Bytes>, DecodeError> {
        Message::decode(bytes, TOPIC, &limits())
    }

    fn messages() -> Vec<Message<ContentId, Bytes>> {
        let payload: Bytes = vec![7; 100].into();
        let id = ContentId::of(TOPIC, &payload);
        let name = |i| ContentId([i; ID_BYTES]);
        let ids = Ids::new(vec![name(3), name(1), name(2), name(1)]).unwrap();
        vec![
            Message::Data {
                id,
                payload: payload.clone(),
            },
            Message::Relay { id, payload },
            Message::IHave(ids.clone()),
            Message::IWant(Ids::one(name(9))),
            Message::IDontWant(ids),
            Message::Graft,
            Message::Prune,
        ]
    }

    #[test]
    fn messages_are_what_their_bytes_say() {
        for message in messages() {
            let bytes = message.encode();
            assert_eq!(
                message.wire_bytes(),
                bytes.len() as u64,
                "{}",
                message.kind()
            );
            assert_eq!(decode(&bytes).as_ref(), Ok(&message));
            for len in 0..bytes.len() {
                assert!(decode(&bytes[..len]).is_err(), "{} cut", message.kind());
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(decode(&longer), Err(DecodeError::Trailing { bytes: 1 }));
        }
    }

    #[test]
    fn lists_are_bounded_and_canonical() {
        let list = |names: &[u8]| {
            let mut bytes = vec![VERSION, 3, names.len() as u8, 0];
            names.iter().for_each(|&i| bytes.extend([i; ID_BYTES]));
            decode(&bytes)
        };
        let not_canonical = DecodeError::NotCanonical {
            what: "list of names",
        };
        assert!(list(&[1, 2, 3]).is_ok());
        for names in [&[][..], &[1, 1], &[2, 1]] {
            assert_eq!(list(names), Err(not_canonical));
        }
        let too_long = DecodeError::TooLong {
            what: "list of names",
            value: 4,
            max: 3,
        };
        assert_eq!(list(&[1, 2, 3, 4]), Err(too_long));
        assert!(decode(&[VERSION, 1, 101, 0, 0, 0]).is_err());
        assert!(decode(&[VERSION, 1, 255, 255, 255, 255]).is_err());
        assert!(decode(&[VERSION, 8]).is_err());
        assert!(decode(&[2, 6]).is_err());
    }
}
