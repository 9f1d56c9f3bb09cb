//! Parameters that are a choice among a few words.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

use crate::chain::Policy;

/// How members of a cell or committee come to serve in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selection {
    /// By a ticket that only its owner knows before it is used; needs unique signatures.
    Lottery,
    /// By a shuffle that everybody knows.
    Rank,
}

/// Which collectors publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Publish {
    /// All who serve, at once.
    All,
    /// One after the other, and only who adds enough to what was seen.
    Staged,
}

/// Where a message whose signers were all seen in one accepted message is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubsetRule {
    /// Among collections only.
    Global,
    /// Among aggregates too, which hides witnesses from the quorum count of a collector.
    Both,
    /// Nowhere.
    Off,
}

/// Text that names none of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("must be one of {0}")]
pub struct ParseChoiceError(&'static str);

macro_rules! choice_text {
    ($type:ty, $all:literal, $($variant:path => $name:literal),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($variant => $name),+ })
            }
        }

        impl FromStr for $type {
            type Err = ParseChoiceError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text { $($name => Ok($variant),)+ _ => Err(ParseChoiceError($all)) }
            }
        }
    };
}

choice_text!(Selection, "lottery, rank", Selection::Lottery => "lottery", Selection::Rank => "rank");
choice_text!(Publish, "all, staged", Publish::All => "all", Publish::Staged => "staged");
choice_text!(SubsetRule, "global, both, off",
    SubsetRule::Global => "global", SubsetRule::Both => "both", SubsetRule::Off => "off");
choice_text!(Policy, "lmd, proposer-boost, view-merge",
    Policy::Lmd => "lmd", Policy::ProposerBoost => "proposer-boost",
    Policy::ViewMerge => "view-merge");
