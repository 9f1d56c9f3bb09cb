//! Parameters that are a choice among a few keywords.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

use crate::chain::Policy;

/// How members of a cell or committee are selected to serve in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selection {
    /// By a ticket known only to its owner until it is used. Needs unique signatures.
    Lottery,
    /// By a publicly known shuffle.
    Rank,
}

/// Which collectors publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Publish {
    /// All serving validators, at once.
    All,
    /// One after the other, and only if the evidence adds enough to what was already seen.
    Staged,
}

/// Where a message is not forwarded if all its signers were seen in one accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubsetRule {
    /// For collections only.
    Global,
    /// For aggregates too, which hides witnesses from a collector's quorum count.
    Both,
    /// Nowhere.
    Off,
}

/// Text that matches none of the values.
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
