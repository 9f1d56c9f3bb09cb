//! What a Horn network agrees on, and what this machine does in it.

use alphorn_scheme::{Abilities, EvidenceLength, Form, Layer, Overlap, Scheme, Sizes, Statement};
use alphorn_types::support_code::Coding;
use alphorn_types::{Layout, Slot, Time, Unit};
use thiserror::Error;

use super::cover::Rule as Cover;
use super::state::Serving;
use crate::chain::{Policy, Weights};
use crate::slot::{Phase, Timing};
use crate::wire::{
    BLOCK_ENTRIES_MAX, Context, FormatError, Kind, NetworkDigest, WireFormat, cap_bytes,
};

mod check;
mod choice;
mod preset;

pub use choice::{ParseChoiceError, Publish, Selection, SubsetRule};
pub use preset::Preset;

/// Most expected publishers of a unit, and most messages taken of one.
pub(crate) const MEMBERS_MAX: u16 = 64;
/// Longest epoch, in slots.
pub(crate) const EPOCH_SLOTS_MAX: u64 = 4096;
/// Most distinct votes that can be tracked in a slot.
pub(crate) const VOTE_DATA_MAX: u16 = 64;
/// Longest wait between two ranks of staged publishing, in milliseconds.
pub(crate) const STAGE_MS_MAX: u64 = 60_000;
/// The whole of a unit, in the unit of [`Level::stage_gain_ppm`].
pub(crate) const PPM: u32 = 1_000_000;
/// Those who serve in a unit below the top by default, where its evidence is a proof: with 16 of them
/// whoever combines would verify a thousand proofs.
const PROOF_PUBLISHERS: u16 = 4;

/// What the roles know of a signature scheme; they branch on this and on nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeInfo {
    /// What it can do.
    pub abilities: Abilities,
    /// Sizes on the wire, in bytes.
    pub sizes: Sizes,
    /// Length of the evidence of each level, from level 1, over its largest unit.
    pub evidence: Vec<EvidenceLength>,
    /// Length of one piece of evidence of as many collections as it can prove; none if each needs its
    /// own.
    pub bundle: Option<EvidenceLength>,
}

impl SchemeInfo {
    /// What `scheme` is on `layout`.
    pub fn of<S: Scheme>(scheme: &S, layout: &Layout) -> Self {
        let abilities = scheme.abilities();
        let length = |level| {
            let layer = layer(&abilities, level, layout.levels());
            scheme.evidence_length(layer, layout.unit_len_max(level))
        };
        Self {
            evidence: (1..=layout.levels()).map(length).collect(),
            sizes: scheme.sizes(),
            bundle: abilities.bundle_max.map(|max| scheme.bundle_length(max)),
            abilities,
        }
    }

    /// What evidence of a level is to the scheme.
    pub fn layer(&self, level: u8) -> Layer {
        layer(&self.abilities, level, self.evidence.len() as u8)
    }

    /// How evidence of a level may overlap where it is combined.
    pub fn overlap(&self, level: u8) -> Overlap {
        self.abilities.overlap(self.layer(level))
    }
}

/// What evidence of a level is to a scheme: made of votes, or of other evidence. Proofs of lists that do
/// not merge are made once, at the top; up to there lists are united.
fn layer(abilities: &Abilities, level: u8, top: u8) -> Layer {
    let proved_once = abilities.form(Layer::Aggregate) == Form::List
        && abilities.form(Layer::Collection) == Form::Proof
        && abilities.overlap(Layer::Collection) == Overlap::None;
    match level {
        1 => Layer::Aggregate,
        _ if proved_once && level < top => Layer::Aggregate,
        _ => Layer::Collection,
    }
}

/// What holds for the evidence of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Expected publishers of a unit, 1 to 64.
    pub publishers: u16,
    /// Most messages taken of a unit in a slot, 1 to 64.
    pub taken_max: u16,
    /// Which of those who serve publish.
    pub publish: Publish,
    /// Under [`Publish::Staged`]: the wait between two expected ranks, in milliseconds.
    pub stage_ms: u64,
    /// Under [`Publish::Staged`]: signers that evidence must add to the best one seen, in millionths
    /// of the unit; 0 = any.
    pub stage_gain_ppm: u32,
    /// How much later than those of the first committee the publishers of the last one would begin, in
    /// milliseconds; those between are spread evenly. Evidence of all committees at once fills the links
    /// of nodes that have no use for it before the phase ends. Local: others cannot tell.
    pub spread_ms: u64,
    /// Which evidence of each unit below is combined; nothing to level 1. Local: others cannot tell.
    pub cover: Cover,
}

/// What all machines of a network agree on, except where a field says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Validators, committees, cells.
    pub layout: Layout,
    /// Length of a slot and of its phases.
    pub timing: Timing,
    /// When slot 0 begins.
    pub genesis: Time,
    /// SHA-256 of the canonical genesis parameters: keeps this network's signatures apart from
    /// those of others, and stands in its genesis block.
    pub network_id: [u8; 32],
    /// What holds for each level of evidence, from level 1.
    pub levels: Vec<Level>,
    /// How members come to serve.
    pub selection: Selection,
    /// Greatest multiplicity in evidence that is combined: 1, 3, 7 or 15.
    pub multiplicity_max: u8,
    /// Slots of an epoch, 1 to 4096.
    pub epoch_slots: u64,
    /// Most collections in a block, 1 to 2048.
    pub collections_per_block_max: u16,
    /// Whether one piece of evidence proves all collections of a block, which then includes votes two
    /// slots after theirs at the earliest; see [`Config::bundle`].
    pub bundled: bool,
    /// Most bytes of an own block. Local.
    pub block_bytes_max: usize,
    /// Meaningless bytes in an own block, for experiments with sizes. Local.
    pub filler_bytes: usize,
    /// Most distinct votes tracked in a slot, 1 to 64.
    pub vote_data_per_slot_max: u16,
    /// Where a message must add a signer to be forwarded.
    pub subset_rule: SubsetRule,
    /// What the fork choice does besides counting latest votes.
    pub fork_choice: Policy,
    /// How much each validator's vote weighs.
    pub weights: Weights,
    /// How supports are written.
    pub coding: Coding,
    /// What the code of a support may refer to.
    pub context: Context,
    /// Most bytes of collections kept for blocks; those that cover least go first. Local.
    pub collections_bytes_max: u64,
}

/// A configuration that no network can have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A number outside its bounds.
    #[error("{what} = {value}, must be {min} to {max}")]
    OutOfRange {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least legal value.
        min: u64,
        /// The greatest legal value.
        max: u64,
    },
    /// A number of a level outside its bounds.
    #[error("{what} of level {level} = {value}, must be {min} to {max}")]
    LevelOutOfRange {
        /// The level.
        level: u8,
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least legal value.
        min: u64,
        /// The greatest legal value.
        max: u64,
    },
    /// A spread that lasts longer than the phase in which the committees publish.
    #[error(
        "spread_ms of level {level} = {value}, must be at most the {max} ms of its phase, {phase}"
    )]
    Spread {
        /// The level.
        level: u8,
        /// The spread asked for, in milliseconds.
        value: u64,
        /// The length of the phase, in milliseconds.
        max: u64,
        /// The phase.
        phase: Phase,
    },
    /// Slots or settings for another number of levels than the layout has.
    #[error("{what} of {value} levels, the layout has {levels}")]
    Levels {
        /// What does not fit.
        what: &'static str,
        /// Its number of levels.
        value: usize,
        /// That of the layout.
        levels: u8,
    },
    /// Selection by lottery with a scheme whose signatures are not unique: a member could draw
    /// tickets until one wins.
    #[error("selection = lottery needs unique signatures, which the scheme lacks: use rank")]
    LotteryNotUnique,
    /// A multiplicity above what the scheme can count.
    #[error("multiplicity_max = {value}, the scheme takes at most {max}")]
    Multiplicity {
        /// The value asked for.
        value: u8,
        /// The greatest value that the scheme's ability to count allows.
        max: u8,
    },
    /// Blocks of one piece of evidence with a scheme that makes none.
    #[error("bundled blocks need a scheme that proves several collections together")]
    NoBundles,
    /// A cover that the scheme's evidence does not allow.
    #[error(
        "cover of level {level} = {value} does not fit evidence that overlaps as {overlap:?}: use {legal}"
    )]
    CoverOverlap {
        /// The level that combines.
        level: u8,
        /// The value asked for.
        value: Cover,
        /// What the scheme can merge.
        overlap: Overlap,
        /// Legal values.
        legal: &'static str,
    },
    /// `quorum` with a single pick loses more than `best1` to a malicious majority.
    #[error("cover = quorum with multiplicity_max = {value}, must be 3, 7 or 15")]
    QuorumOfOne {
        /// The multiplicity.
        value: u8,
    },
    /// Committees larger than the scheme takes.
    #[error(
        "committees of {value} validators, the scheme takes at most {max}: use {committees} committees or more"
    )]
    CommitteeSize {
        /// Validators of the largest committee.
        value: u32,
        /// What the scheme takes.
        max: u32,
        /// Committees that would do.
        committees: u32,
    },
    /// Messages that would not fit the cap of their kind.
    #[error(
        "{kind} of up to {value} bytes, must be at most {max}: a unit of level {level} may have at most about {members} validators"
    )]
    MessageSize {
        /// The kind of message.
        kind: Kind,
        /// Bytes in the worst case.
        value: usize,
        /// The cap.
        max: usize,
        /// The level whose units are too large.
        level: u8,
        /// Its nearest legal size, by proportion.
        members: u64,
    },
    /// Fields that the scheme fixes do not fit.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Balances of other validators than those of the layout.
    #[error("weights of {value} validators, the layout has {validators}")]
    WeightsLength {
        /// Validators with a weight.
        value: usize,
        /// Validators of the layout.
        validators: u32,
    },
    /// Nobody's vote weighs anything.
    #[error("total weight = 0, must be at least 1")]
    NoWeight,
    /// A set of local validators of another length than the layout.
    #[error("{what}: {value} bits for {validators} validators")]
    LocalLength {
        /// The set.
        what: &'static str,
        /// Its length.
        value: usize,
        /// Validators of the layout.
        validators: u32,
    },
    /// A voter who is not among the local validators.
    #[error("validator {0} votes here but is not local")]
    LocalVoter(usize),
}

impl Config {
    /// The defaults for a scheme on a layout: Horn's timing, or one with as many levels; lottery where
    /// signatures are unique, all publish but where collections are proofs, the strongest cover that the
    /// scheme allows.
    pub fn new(layout: Layout, info: &SchemeInfo) -> Self {
        let abilities = &info.abilities;
        let top = layout.levels();
        let overlap = info.overlap(1);
        Self {
            layout,
            timing: Timing::default_for(top),
            genesis: Time::ZERO,
            network_id: [0; 32],
            levels: (1..=top)
                .map(|level| Level::new(level, top, info))
                .collect(),
            selection: if abilities.unique {
                Selection::Lottery
            } else {
                Selection::Rank
            },
            multiplicity_max: match overlap {
                Overlap::Counted { max } if max >= 3 && top > 1 => 3,
                _ => 1,
            },
            epoch_slots: 32,
            collections_per_block_max: (2 * layout.committees())
                .clamp(64, BLOCK_ENTRIES_MAX as u16),
            bundled: false,
            block_bytes_max: cap_bytes(Kind::Block),
            filler_bytes: 0,
            vote_data_per_slot_max: 16,
            subset_rule: SubsetRule::Global,
            fork_choice: Policy::default(),
            weights: Weights::equal(layout.validators()),
            coding: Coding::Rice,
            context: Context::None,
            collections_bytes_max: 1 << 30,
        }
    }

    /// Has blocks carry one piece of evidence, where the scheme makes it for as many collections as there
    /// are committees, and no more collections than it proves.
    pub fn bundle(&mut self, info: &SchemeInfo) {
        if let Some(max) = info.abilities.bundle_max
            && max >= self.layout.committees()
        {
            self.bundled = true;
            self.collections_per_block_max = self.collections_per_block_max.min(max);
        }
    }

    /// By how many slots the block that carries a slot's votes comes after them, at the earliest.
    pub fn inclusion_slots_min(&self) -> u64 {
        1 + u64::from(self.bundled)
    }

    /// What holds for a level of evidence.
    ///
    /// # Panics
    ///
    /// If there is no such level.
    pub fn level(&self, level: u8) -> &Level {
        &self.levels[usize::from(level) - 1]
    }

    /// What stands in topics and in everything that is signed: the first bytes of the network's id.
    pub fn network(&self) -> NetworkDigest {
        let [a, b, c, d, ..] = self.network_id;
        NetworkDigest([a, b, c, d])
    }

    /// When one who serves may publish, given the start of the phase.
    pub(super) fn turn(&self, start: Time, serving: &Serving) -> Time {
        let level = self.level(serving.unit.level);
        let stage_ms = match level.publish {
            Publish::All => 0,
            Publish::Staged => u64::from(serving.rank).saturating_mul(level.stage_ms),
        };
        let committees = u64::from(self.layout.committees().max(1));
        let spread_ms = level
            .spread_ms
            .saturating_mul(serving.unit.committee.into())
            / committees;
        let wait_ms = stage_ms.saturating_add(spread_ms);
        start.saturating_add_ns(wait_ms.saturating_mul(1_000_000))
    }

    /// What evidence of a unit proves.
    pub(super) fn statement(
        &self,
        info: &SchemeInfo,
        unit: Unit,
        slot: Slot,
        message: [u8; 32],
    ) -> Statement {
        let range = self.layout.unit_range(unit);
        Statement {
            layer: info.layer(unit.level),
            first: range.start,
            len: range.end - range.start,
            slot,
            message,
        }
    }

    /// How evidence of the level below is combined to evidence of `level`, which counts up to
    /// `multiplicity_max`: the rule, and most picks of a unit.
    pub(super) fn cover(
        &self,
        info: &SchemeInfo,
        level: u8,
        multiplicity_max: u8,
    ) -> (Cover, usize) {
        let rule = self.level(level).cover;
        rule.under(info.overlap(level - 1), multiplicity_max)
    }

    /// The lengths of all fields on the wire.
    pub fn format(&self, info: &SchemeInfo) -> WireFormat {
        let lottery = self.selection == Selection::Lottery;
        WireFormat {
            layout: self.layout,
            signature_bytes: info.sizes.signature_bytes,
            duty_signature_bytes: info.sizes.duty_signature_bytes,
            selection_proof_bytes: info.sizes.selection_proof_bytes.filter(|_| lottery),
            evidence: info.evidence.clone(),
            multiplicity_max: self.multiplicity_max,
            coding: self.coding,
            context: self.context,
            bundle: info.bundle.filter(|_| self.bundled),
        }
    }
}

impl Level {
    /// The defaults of a level where the top one is `top`.
    fn new(level: u8, top: u8, info: &SchemeInfo) -> Self {
        let proof = info.abilities.form(info.layer(level)) == Form::Proof;
        let cover = match info.overlap(level.max(2) - 1) {
            Overlap::Counted { max } if max >= 3 && level < 3 => Cover::Quorum,
            Overlap::Counted { max } if max >= 3 => Cover::Greedy,
            Overlap::Counted { .. } | Overlap::None => Cover::Best1,
            Overlap::Union => Cover::Union,
        };
        Self {
            publishers: match proof && level < top {
                true => PROOF_PUBLISHERS,
                false => 16,
            },
            taken_max: 48,
            publish: match proof && level == top {
                true => Publish::Staged,
                false => Publish::All,
            },
            stage_ms: 150,
            stage_gain_ppm: 5_000,
            spread_ms: 0,
            cover,
        }
    }
}

#[cfg(test)]
mod tests;
