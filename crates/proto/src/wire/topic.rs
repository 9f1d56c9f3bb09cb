//! Names of gossip topics.

use alphorn_types::{Cell, LEVELS_MAX, Layout, Unit};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

use super::{Kind, NetworkDigest};

/// Longest name of a topic, in bytes; longer text is not parsed.
const NAME_BYTES_MAX: usize = 64;

/// What is published where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Blocks, to all.
    Block,
    /// Collections of all committees, to all.
    Collection,
    /// Aggregates of the parts of one unit, to those who combine them.
    Aggregate {
        /// The unit.
        unit: Unit,
    },
    /// Votes of one cell, to its aggregators.
    Vote {
        /// The cell.
        cell: Cell,
    },
}

impl Topic {
    /// Where aggregates of a unit are published.
    pub fn of(layout: &Layout, unit: Unit) -> Self {
        match layout.parent(unit) {
            Some(unit) => Self::Aggregate { unit },
            None => Self::Collection,
        }
    }

    /// The kind of message that the topic carries, and no other.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Block => Kind::Block,
            Self::Collection => Kind::Collection,
            Self::Aggregate { .. } => Kind::Aggregate,
            Self::Vote { .. } => Kind::Vote,
        }
    }

    /// The topic's name in a network.
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

/// Text that names no topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TopicError {
    /// Not of the form `/alphorn/{digest8}/{topic}/raw`.
    #[error("not of the form /alphorn/DIGEST/TOPIC/raw, or longer than {NAME_BYTES_MAX} bytes")]
    Form,
    /// The digest is not eight lower-case hexadecimal digits.
    #[error("network digest must be eight lower-case hexadecimal digits")]
    Digest,
    /// The topic is none of `block`, `collection`, `aggregate_LEVEL_C_I`, `vote_C_S`.
    #[error("topic must be block, collection, aggregate_LEVEL_C_I or vote_C_S")]
    Topic,
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
        if text.len() > NAME_BYTES_MAX {
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
                unit: Unit::new(level(number()?)?, number()?, number()?),
            },
            Some("vote") => Topic::Vote {
                cell: Cell {
                    committee: number()?,
                    subcommittee: number()?,
                },
            },
            _ => return Err(TopicError::Topic),
        };
        if parts.next().is_some() {
            return Err(TopicError::Topic);
        }
        Ok(Self { network, topic })
    }
}

/// A level above the first: those of the parts begin with it.
fn level(number: u16) -> Result<u8, TopicError> {
    let level = u8::try_from(number).ok();
    level
        .filter(|level| (2..=LEVELS_MAX).contains(level))
        .ok_or(TopicError::Topic)
}

/// A number as `Display` writes it: no sign, no leading zero.
fn number(text: &str) -> Result<u16, TopicError> {
    let canonical =
        text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if !canonical {
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
            ("/alphorn/0a1bff00/aggregate_1/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/aggregate_1_0_0/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/aggregate_5_0_0/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/aggregate_2_01_0/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/aggregate_2_+1_0/raw", TopicError::Topic),
            ("/alphorn/0a1bff00/aggregate_2__0/raw", TopicError::Topic),
            (
                "/alphorn/0a1bff00/aggregate_2_65536_0/raw",
                TopicError::Topic,
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
