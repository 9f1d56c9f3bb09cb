//! Message kinds, topics, and their names on the wire, `/alphorn/{digest8}/{topic}/raw`.

use crate::{COMMITTEES_MAX, Cell, LEVELS_MAX, Layout, SUBCOMMITTEES_MAX, Unit};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Maximum length of a topic name in bytes; longer text is not parsed.
pub const TOPIC_BYTES_MAX: usize = 64;

/// Message kind as seen by the network. Limits, shares and counters are kept per kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// One or several votes of one cell.
    Vote,
    /// Evidence of a level below the top one, for the nodes that combine it.
    Aggregate,
    /// Evidence of the top level, that of a committee, for all nodes.
    Collection,
    /// A block.
    Block,
}

impl Kind {
    /// All kinds, indexed by number.
    pub const ALL: [Self; 4] = [Self::Vote, Self::Aggregate, Self::Collection, Self::Block];

    /// Name in traces, metrics and topics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vote => "vote",
            Self::Aggregate => "aggregate",
            Self::Collection => "collection",
            Self::Block => "block",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// First four bytes of the SHA-256 of the canonical genesis parameters; separates networks in
/// topics and in everything that is signed. As text: eight lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkDigest(pub [u8; 4]);

impl fmt::Display for NetworkDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl FromStr for NetworkDigest {
    type Err = TopicError;

    fn from_str(text: &str) -> Result<Self, TopicError> {
        // Parsing as a number would also take capitals and a sign, and a network would have several names.
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 8 || !text.bytes().all(digit) {
            return Err(TopicError::Digest);
        }
        let value = u32::from_str_radix(text, 16).map_err(|_| TopicError::Digest)?;
        Ok(Self(value.to_be_bytes()))
    }
}

/// A gossip topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Blocks, for all nodes.
    Block,
    /// Collections of all committees, for all nodes.
    Collection,
    /// Aggregates of the parts of one unit, for the nodes that combine them.
    Aggregate {
        /// The unit.
        unit: Unit,
    },
    /// Votes of one cell, for its aggregators.
    Vote {
        /// The cell.
        cell: Cell,
    },
}

impl Topic {
    /// Topic on which aggregates of a unit are published.
    pub fn of(layout: &Layout, unit: Unit) -> Self {
        match layout.parent(unit) {
            Some(unit) => Self::Aggregate { unit },
            None => Self::Collection,
        }
    }

    /// The only kind of message that the topic carries.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Block => Kind::Block,
            Self::Collection => Kind::Collection,
            Self::Aggregate { .. } => Kind::Aggregate,
            Self::Vote { .. } => Kind::Vote,
        }
    }

    /// Committee, and index of the cell or unit in it; 0 if the topic has none.
    pub const fn place(self) -> (u16, u16) {
        match self {
            Self::Block | Self::Collection => (0, 0),
            Self::Aggregate { unit } => (unit.committee, unit.index),
            Self::Vote { cell } => (cell.committee, cell.subcommittee),
        }
    }

    /// The topic's full name in a network.
    pub const fn named(self, network: NetworkDigest) -> TopicName {
        TopicName {
            network,
            topic: self,
        }
    }
}

/// A topic of a network; as text
/// `/alphorn/{digest8}/{block|collection|aggregate_{level}_{c}_{i}|vote_{c}_{s}}/raw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName {
    /// The network.
    pub network: NetworkDigest,
    /// The topic.
    pub topic: Topic,
}

/// Text that is not a topic name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TopicError {
    /// Not of the form `/alphorn/{digest8}/{kind}/raw`.
    #[error("not of the form /alphorn/DIGEST/TOPIC/raw, or longer than {TOPIC_BYTES_MAX} bytes")]
    Form,
    /// The digest is not eight lower-case hexadecimal digits.
    #[error("network digest must be eight lower-case hexadecimal digits")]
    Digest,
    /// The topic is not `block`, `collection`, `aggregate_LEVEL_C_I` or `vote_C_S`.
    #[error("topic must be block, collection, aggregate_LEVEL_C_I or vote_C_S")]
    Topic,
    /// No evidence is combined into that of this level.
    #[error("level = {0}, must be 2 to {LEVELS_MAX}")]
    Level(u16),
    /// No layout has this many committees.
    #[error("committee = {0}, must be below {COMMITTEES_MAX}")]
    Committee(u16),
    /// No layout has this many subcommittees.
    #[error("subcommittee = {0}, must be below {SUBCOMMITTEES_MAX}")]
    Subcommittee(u16),
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/alphorn/{}/{}", self.network, self.topic.kind())?;
        match self.topic {
            Topic::Block | Topic::Collection => {}
            Topic::Aggregate { unit } => {
                write!(f, "_{}_{}_{}", unit.level, unit.committee, unit.index)?;
            }
            Topic::Vote { cell } => write!(f, "_{}_{}", cell.committee, cell.subcommittee)?,
        }
        f.write_str("/raw")
    }
}

impl FromStr for TopicName {
    type Err = TopicError;

    fn from_str(text: &str) -> Result<Self, TopicError> {
        if text.len() > TOPIC_BYTES_MAX {
            return Err(TopicError::Form);
        }
        let (network, topic) = text
            .strip_prefix("/alphorn/")
            .and_then(|rest| rest.strip_suffix("/raw"))
            .and_then(|rest| rest.split_once('/'))
            .ok_or(TopicError::Form)?;
        let network = network.parse()?;
        let mut parts = topic.split('_');
        let kind = parts.next();
        let mut number = || number(parts.next().ok_or(TopicError::Topic)?);
        let topic = match kind {
            Some("block") => Topic::Block,
            Some("collection") => Topic::Collection,
            Some("aggregate") => Topic::Aggregate {
                unit: Unit::new(level(number()?)?, committee(number()?)?, part(number()?)?),
            },
            Some("vote") => Topic::Vote {
                cell: Cell {
                    committee: committee(number()?)?,
                    subcommittee: part(number()?)?,
                },
            },
            _ => return Err(TopicError::Topic),
        };
        // Further parts would give a topic many names.
        if parts.next().is_some() {
            return Err(TopicError::Topic);
        }
        Ok(Self { network, topic })
    }
}

/// A level above the first: the topics of parts start with it.
fn level(number: u16) -> Result<u8, TopicError> {
    let level = u8::try_from(number).ok();
    level
        .filter(|level| (2..=LEVELS_MAX).contains(level))
        .ok_or(TopicError::Level(number))
}

fn committee(number: u16) -> Result<u16, TopicError> {
    match number < COMMITTEES_MAX {
        true => Ok(number),
        false => Err(TopicError::Committee(number)),
    }
}

/// A cell of a committee, or a unit of a level.
fn part(number: u16) -> Result<u16, TopicError> {
    match number < SUBCOMMITTEES_MAX {
        true => Ok(number),
        false => Err(TopicError::Subcommittee(number)),
    }
}

/// A number as written by `Display`: no sign, no leading zero.
fn number(text: &str) -> Result<u16, TopicError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits || (text != "0" && text.starts_with('0')) {
        return Err(TopicError::Topic);
    }
    text.parse().map_err(|_| TopicError::Topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: NetworkDigest = NetworkDigest([0x0a, 0x1b, 0xff, 0x00]);

    #[test]
    fn names_are_those_of_the_grammar_and_parse_back() {
        let cell = Cell {
            committee: 31,
            subcommittee: 0,
        };
        for (topic, text) in [
            (Topic::Block, "/alphorn/0a1bff00/block/raw"),
            (Topic::Collection, "/alphorn/0a1bff00/collection/raw"),
            (
                Topic::Aggregate {
                    unit: Unit::new(2, 511, 7),
                },
                "/alphorn/0a1bff00/aggregate_2_511_7/raw",
            ),
            (Topic::Vote { cell }, "/alphorn/0a1bff00/vote_31_0/raw"),
        ] {
            let name = topic.named(NETWORK);
            assert_eq!(name.to_string(), text);
            assert_eq!(text.parse(), Ok(name));
        }
    }

    #[test]
    fn every_other_text_is_refused() {
        for (text, error) in [
            ("", TopicError::Form),
            ("/alphorn/0a1bff00/block", TopicError::Form),
            ("alphorn/0a1bff00/block/raw", TopicError::Form),
            ("/alphorn/0a1bff00/block/ssz_snappy", TopicError::Form),
            ("/alphorn/raw", TopicError::Form),
            ("/alphorn/0a1bff0/block/raw", TopicError::Digest),
            ("/alphorn/0A1BFF00/block/raw", TopicError::Digest),
            ("/alphorn/+a1bff00/block/raw", TopicError::Digest),
            ("/alphorn/0a1bff00//raw", TopicError::Topic),
            ("/alphorn/0a1bff00/block_1/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/aggregate/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/aggregate_2_1/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/aggregate_2_01_0/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/aggregate_2_+1_0/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/aggregate_2__0/raw", TopicError::Topic),
            (
                "/alphorn/0a1bff00/aggregate_65536_0_0/raw",
                TopicError::Topic,
            ),
            (
                "/alphorn/0a1bff00/aggregate_1_0_0/raw",
                TopicError::Level(1),
            ),
            (
                "/alphorn/0a1bff00/aggregate_5_0_0/raw",
                TopicError::Level(5),
            ),
            (
                "/alphorn/0a1bff00/aggregate_2_2048_0/raw",
                TopicError::Committee(2048),
            ),
            (
                "/alphorn/0a1bff00/vote_1_256/raw",
                TopicError::Subcommittee(256),
            ),
            ("/alphorn/0a1bff00/vote_1/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/vote_1_2_3/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/block/x/raw", TopicError::Topic),
        ] {
            assert_eq!(text.parse::<TopicName>(), Err(error), "{text}");
        }
        let long = format!("/alphorn/0a1bff00/vote_{}/raw", "0".repeat(100));
        assert_eq!(long.parse::<TopicName>(), Err(TopicError::Form));
    }
}
