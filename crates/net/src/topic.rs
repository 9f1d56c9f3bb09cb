//! Names of gossip topics: `/alphorn/{digest8}/{kind}/raw`.

use alphorn_types::{COMMITTEES_MAX, LEVELS_MAX, SUBCOMMITTEES_MAX};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Longest name of a topic, in bytes; longer text is not parsed.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// The network that a topic belongs to; as text, eight lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkDigest(pub [u8; 4]);

/// What a topic is about; limits, shares and counters are kept for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TopicKind {
    /// `block`.
    Block,
    /// `collection`.
    Collection,
    /// `aggregate_{level}_{committee}_{index}`.
    Aggregate,
    /// `vote_{committee}_{subcommittee}`.
    Vote,
}

impl TopicKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Block, Self::Collection, Self::Aggregate, Self::Vote];

    /// The word in names of topics and in labels of metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Collection => "collection",
            Self::Aggregate => "aggregate",
            Self::Vote => "vote",
        }
    }
}

/// A topic, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic {
    /// The network.
    pub network: NetworkDigest,
    /// The kind.
    pub kind: TopicKind,
    /// The level of the unit, 0 where the kind has none.
    pub level: u8,
    /// The committee, 0 where the kind has none.
    pub committee: u16,
    /// The subcommittee, or the unit of its level in the committee, 0 where the kind has none.
    pub subcommittee: u16,
}

/// Text that names no topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TopicError {
    /// Not of the form `/alphorn/{digest8}/{kind}/raw`.
    #[error("not of the form /alphorn/DIGEST/TOPIC/raw, or longer than {NAME_BYTES_MAX} bytes")]
    Form,
    /// The digest is not eight lower-case hexadecimal digits.
    #[error("network digest must be eight lower-case hexadecimal digits")]
    Digest,
    /// The topic is none of `block`, `collection`, `aggregate_LEVEL_C_I`, `vote_C_S`.
    #[error("topic must be block, collection, aggregate_LEVEL_C_I or vote_C_S")]
    Kind,
    /// No evidence is combined to that of the level.
    #[error("level = {0}, must be 2 to {LEVELS_MAX}")]
    Level(u16),
    /// No layout has so many committees.
    #[error("committee = {0}, must be below {COMMITTEES_MAX}")]
    Committee(u16),
    /// No layout has so many subcommittees.
    #[error("subcommittee = {0}, must be below {SUBCOMMITTEES_MAX}")]
    Subcommittee(u16),
}

impl fmt::Display for TopicKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for NetworkDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for NetworkDigest {
    type Err = TopicError;

    fn from_str(text: &str) -> Result<Self, TopicError> {
        let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 8 || !text.bytes().all(lower_hex) {
            return Err(TopicError::Digest);
        }
        let number = u32::from_str_radix(text, 16).map_err(|_| TopicError::Digest)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/alphorn/{}/{}", self.network, self.kind)?;
        match self.kind {
            TopicKind::Block | TopicKind::Collection => {}
            TopicKind::Aggregate => {
                write!(
                    f,
                    "_{}_{}_{}",
                    self.level, self.committee, self.subcommittee
                )?;
            }
            TopicKind::Vote => write!(f, "_{}_{}", self.committee, self.subcommittee)?,
        }
        f.write_str("/raw")
    }
}

impl FromStr for Topic {
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
        let word = parts.next().unwrap_or_default();
        let kind = TopicKind::ALL
            .into_iter()
            .find(|kind| kind.name() == word)
            .ok_or(TopicError::Kind)?;
        let mut number = || number(parts.next().ok_or(TopicError::Kind)?);
        let (level, committee, subcommittee) = match kind {
            TopicKind::Block | TopicKind::Collection => (0, 0, 0),
            TopicKind::Aggregate => (number()?, number()?, number()?),
            TopicKind::Vote => (0, number()?, number()?),
        };
        if parts.next().is_some() {
            return Err(TopicError::Kind);
        }
        let levels = 2..=u16::from(LEVELS_MAX);
        if kind == TopicKind::Aggregate && !levels.contains(&level) {
            return Err(TopicError::Level(level));
        }
        if committee >= COMMITTEES_MAX {
            return Err(TopicError::Committee(committee));
        }
        if subcommittee >= SUBCOMMITTEES_MAX {
            return Err(TopicError::Subcommittee(subcommittee));
        }
        Ok(Self {
            network,
            kind,
            level: level as u8,
            committee,
            subcommittee,
        })
    }
}

/// A number as `Display` writes it: no sign, no leading zero.
fn number(text: &str) -> Result<u16, TopicError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits || (text != "0" && text.starts_with('0')) {
        return Err(TopicError::Kind);
    }
    text.parse().map_err(|_| TopicError::Kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_grammar_and_parse_back() {
        for (kind, (level, committee, subcommittee), name) in [
            (TopicKind::Block, (0, 0, 0), "block"),
            (TopicKind::Collection, (0, 0, 0), "collection"),
            (TopicKind::Aggregate, (3, 511, 7), "aggregate_3_511_7"),
            (TopicKind::Vote, (0, 31, 7), "vote_31_7"),
        ] {
            let text = format!("/alphorn/0a1bff00/{name}/raw");
            let topic = Topic {
                network: NetworkDigest([0x0a, 0x1b, 0xff, 0x00]),
                kind,
                level,
                committee,
                subcommittee,
            };
            assert_eq!(topic.to_string(), text);
            assert_eq!(text.parse(), Ok(topic));
        }
    }

    #[test]
    fn every_other_text_is_refused() {
        for (text, error) in [
            ("", TopicError::Form),
            ("/alphorn/0a1bff00/block", TopicError::Form),
            ("/alphorn/0a1bff00/block/ssz_snappy", TopicError::Form),
            ("/alphorn/raw", TopicError::Form),
            ("/alphorn/0a1bff0/block/raw", TopicError::Digest),
            ("/alphorn/0A1BFF00/block/raw", TopicError::Digest),
            ("/alphorn/+a1bff00/block/raw", TopicError::Digest),
            ("/alphorn/0a1bff00//raw", TopicError::Kind),
            ("/alphorn/0a1bff00/block_1/raw", TopicError::Kind),
            ("/alphorn/0a1bff00/aggregate/raw", TopicError::Kind),
            ("/alphorn/0a1bff00/aggregate_2_1/raw", TopicError::Kind),
            ("/alphorn/0a1bff00/aggregate_2_01_0/raw", TopicError::Kind),
            ("/alphorn/0a1bff00/aggregate_2_+1_0/raw", TopicError::Kind),
            ("/alphorn/0a1bff00/aggregate_2__0/raw", TopicError::Kind),
            (
                "/alphorn/0a1bff00/aggregate_65536_0_0/raw",
                TopicError::Kind,
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
            ("/alphorn/0a1bff00/vote_1/raw", TopicError::Kind),
            ("/alphorn/0a1bff00/vote_1_2_3/raw", TopicError::Kind),
            ("/alphorn/0a1bff00/block/x/raw", TopicError::Kind),
        ] {
            assert_eq!(text.parse::<Topic>(), Err(error), "{text}");
        }
        let long = format!("/alphorn/0a1bff00/vote_{}/raw", "0".repeat(100));
        assert_eq!(long.parse::<Topic>(), Err(TopicError::Form));
    }
}
