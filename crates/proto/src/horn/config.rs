//! Network-wide parameters of Horn, and the local settings of a node.

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

/// Maximum number of expected publishers of a unit, and of messages accepted per unit.
pub(crate) const MEMBERS_MAX: u16 = 64;
/// Longest epoch, in slots.
pub(crate) const EPOCH_SLOTS_MAX: u64 = 4096;
/// Maximum number of distinct votes that can be tracked in a slot.
pub(crate) const VOTE_DATA_MAX: u16 = 64;
/// Longest wait between two ranks of staged publishing, in milliseconds.
pub(crate) const STAGE_MS_MAX: u64 = 60_000;
/// A whole unit, in the scale of [`Level::stage_gain_ppm`].
pub(crate) const PPM: u32 = 1_000_000;
/// Default number of publishers of a unit below the top level where its evidence is a proof. With 16 of
/// them, a combiner would verify a thousand proofs.
const PROOF_PUBLISHERS: u16 = 4;

/// What the roles know about a signature scheme. They branch on this and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeInfo {
    /// The scheme's capabilities.
    pub abilities: Abilities,
    /// Sizes on the wire, in bytes.
    pub sizes: Sizes,
    /// Evidence length of each level, from level 1, over its largest unit.
    pub evidence: Vec<EvidenceLength>,
    /// Length of one piece of evidence for as many collections as it can prove. None if each collection
    /// needs its own.
    pub bundle: Option<EvidenceLength>,
}

impl SchemeInfo {
    /// Describes `scheme` on `layout`.
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

    /// Returns the scheme layer to which evidence of a level belongs.
    pub fn layer(&self, level: u8) -> Layer {
        layer(&self.abilities, level, self.evidence.len() as u8)
    }

    /// How evidence of a level may overlap when it is combined.
    pub fn overlap(&self, level: u8) -> Overlap {
        self.abilities.overlap(self.layer(level))
    }
}

/// Returns the scheme layer of a level's evidence: made of votes, or of other evidence. Proofs of lists
/// that do not merge are made once, at the top. Below that, lists are united.
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

/// Parameters of the evidence of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Expected publishers of a unit, 1 to 64.
    pub publishers: u16,
    /// Maximum number of messages accepted per unit and slot, 1 to 64.
    pub taken_max: u16,
    /// Which of the serving validators publish.
    pub publish: Publish,
    /// Under [`Publish::Staged`], the wait between two expected ranks, in milliseconds.
    pub stage_ms: u64,
    /// Under [`Publish::Staged`], the signers that evidence must add to the best one seen, in millionths
    /// of the unit; 0 = any.
    pub stage_gain_ppm: u32,
    /// How much later the publishers of the last committee would start than those of the first, in
    /// milliseconds. Committees in between are spread evenly. Evidence of all committees at once would
    /// fill the links of nodes that have no use for it before the phase ends. Local setting, not visible
    /// to other nodes.
    pub spread_ms: u64,
    /// Which evidence of each unit below is combined. Unused at level 1. Local setting, not visible to
    /// other nodes.
    pub cover: Cover,
}

/// Parameters shared by all nodes of a network, except where a field says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of validators, committees, cells.
    pub layout: Layout,
    /// Length of a slot and its phases.
    pub timing: Timing,
    /// Start of slot 0.
    pub genesis: Time,
    /// SHA-256 of the canonical genesis parameters. Separates this network's signatures from those of
    /// other networks, and is part of its genesis block.
    pub network_id: [u8; 32],
    /// Parameters of each level of evidence, from level 1.
    pub levels: Vec<Level>,
    /// How members are selected to serve.
    pub selection: Selection,
    /// Maximum multiplicity in evidence that is combined: 1, 3, 7 or 15.
    pub multiplicity_max: u8,
    /// Slots per epoch, 1 to 4096.
    pub epoch_slots: u64,
    /// Maximum number of collections in a block, 1 to 2048.
    pub collections_per_block_max: u16,
    /// Whether one piece of evidence proves all collections of a block, which can then include votes two
    /// slots after theirs at the earliest. See [`Config::bundle`].
    pub bundled: bool,
    /// Maximum size of a block made here, in bytes. Local.
    pub block_bytes_max: usize,
    /// Padding bytes in a block made here, for experiments with sizes. Local.
    pub filler_bytes: usize,
    /// Maximum number of distinct votes tracked in a slot, 1 to 64.
    pub vote_data_per_slot_max: u16,
    /// Where a message is forwarded only if it adds a signer.
    pub subset_rule: SubsetRule,
    /// What the fork choice does in addition to counting latest votes.
    pub fork_choice: Policy,
    /// The weight of each validator's vote.
    pub weights: Weights,
    /// How supports are encoded.
    pub coding: Coding,
    /// What the encoding of a support may refer to.
    pub context: Context,
    /// Maximum bytes of collections kept for blocks. Those that cover least are dropped first. Local.
    pub collections_bytes_max: u64,
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A number outside its bounds.
    #[error("{what} = {value}, must be {min} to {max}")]
    OutOfRange {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The minimum legal value.
        min: u64,
        /// The maximum legal value.
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
        /// The minimum legal value.
        min: u64,
        /// The maximum legal value.
        max: u64,
    },
    /// A spread longer than the phase in which the committees publish.
    #[error(
        "spread_ms of level {level} = {value}, must be at most the {max} ms of its phase, {phase}"
    )]
    Spread {
        /// The level.
        level: u8,
        /// The requested spread, in milliseconds.
        value: u64,
        /// The length of the phase, in milliseconds.
        max: u64,
        /// The phase.
        phase: Phase,
    },
    /// Slots or settings for a different number of levels than the layout has.
    #[error("{what} of {value} levels, the layout has {levels}")]
    Levels {
        /// What does not fit.
        what: &'static str,
        /// Its number of levels.
        value: usize,
        /// The number of levels in the layout.
        levels: u8,
    },
    /// Selection by lottery with a scheme whose signatures are not unique. A member could draw tickets
    /// until one wins.
    #[error("selection = lottery needs unique signatures, which the scheme lacks: use rank")]
    LotteryNotUnique,
    /// A multiplicity higher than the scheme can count.
    #[error("multiplicity_max = {value}, the scheme takes at most {max}")]
    Multiplicity {
        /// The requested value.
        value: u8,
        /// The maximum value that the scheme's counting ability allows.
        max: u8,
    },
    /// Bundled blocks (one piece of evidence) with a scheme that cannot make such evidence.
    #[error("bundled blocks need a scheme that proves several collections together")]
    NoBundles,
    /// A cover that the scheme's evidence does not allow.
    #[error(
        "cover of level {level} = {value} does not fit evidence that overlaps as {overlap:?}: use {legal}"
    )]
    CoverOverlap {
        /// The level that combines.
        level: u8,
        /// The requested value.
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
    /// Committees larger than the scheme allows.
    #[error(
        "committees of {value} validators, the scheme takes at most {max}: use {committees} committees or more"
    )]
    CommitteeSize {
        /// Size of the largest committee, in validators.
        value: u32,
        /// The scheme's limit.
        max: u32,
        /// A number of committees that would work.
        committees: u32,
    },
    /// Messages that would exceed the cap of their kind.
    #[error(
        "{kind} of up to {value} bytes, must be at most {max}: a unit of level {level} may have at most about {members} validators"
    )]
    MessageSize {
        /// The kind of message.
        kind: Kind,
        /// Worst-case size in bytes.
        value: usize,
        /// The cap.
        max: usize,
        /// The level whose units are too large.
        level: u8,
        /// The nearest legal unit size, scaled proportionally.
        members: u64,
    },
    /// Fields fixed by the scheme do not fit.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Balances for a different number of validators than the layout has.
    #[error("weights of {value} validators, the layout has {validators}")]
    WeightsLength {
        /// Validators with a weight.
        value: usize,
        /// Validators of the layout.
        validators: u32,
    },
    /// All votes have zero weight.
    #[error("total weight = 0, must be at least 1")]
    NoWeight,
    /// A set of local validators whose length differs from the layout's.
    #[error("{what}: {value} bits for {validators} validators")]
    LocalLength {
        /// The set.
        what: &'static str,
        /// Its length.
        value: usize,
        /// Validators of the layout.
        validators: u32,
    },
    /// A voter that is not among the local validators.
    #[error("validator {0} votes here but is not local")]
    LocalVoter(usize),
}

impl Config {
    /// The defaults for a scheme on a layout: Horn's timing, or a timing with as many levels; lottery
    /// where signatures are unique; all serving validators publish, except where collections are proofs;
    /// and the strongest cover that the scheme allows.
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
                // A quorum of witnesses needs three picks of a cell.
                Overlap::Counted { max } if max >= 3 && top > 1 => 3,
                _ => 1,
            },
            epoch_slots: 32,
            // No overflow: a layout has at most 2,048 committees.
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

    /// Makes blocks carry one piece of evidence, if the scheme can prove at least as many collections
    /// together as there are committees. Also caps the collections per block at the scheme's limit.
    pub fn bundle(&mut self, info: &SchemeInfo) {
        if let Some(max) = info.abilities.bundle_max
            && max >= self.layout.committees()
        {
            self.bundled = true;
            self.collections_per_block_max = self.collections_per_block_max.min(max);
        }
    }

    /// Minimum number of slots between a slot and the block that carries its votes.
    pub fn inclusion_slots_min(&self) -> u64 {
        1 + u64::from(self.bundled)
    }

    /// Returns the parameters of a level of evidence.
    ///
    /// # Panics
    ///
    /// If there is no such level.
    pub fn level(&self, level: u8) -> &Level {
        &self.levels[usize::from(level) - 1]
    }

    /// The network digest used in topics and in everything that is signed: the first bytes of the
    /// network's id.
    pub fn network(&self) -> NetworkDigest {
        let [a, b, c, d, ..] = self.network_id;
        NetworkDigest([a, b, c, d])
    }

    /// The time at which a serving validator may publish, given the start of the phase.
    pub(super) fn turn(&self, start: Time, serving: &Serving) -> Time {
        let level = self.level(serving.unit.level);
        let stage_ms = match level.publish {
            Publish::All => 0,
            Publish::Staged => u64::from(serving.rank).saturating_mul(level.stage_ms),
        };
        let committees = u64::from(self.layout.committees().max(1));
        // Multiplied first: a spread of fewer milliseconds than committees would otherwise be lost.
        let spread_ms = level
            .spread_ms
            .saturating_mul(serving.unit.committee.into())
            / committees;
        let wait_ms = stage_ms.saturating_add(spread_ms);
        start.saturating_add_ns(wait_ms.saturating_mul(1_000_000))
    }

    /// The statement that evidence of a unit proves.
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

    /// How evidence of the level below is combined into evidence of `level`, which counts up to
    /// `multiplicity_max`: the rule, and the maximum number of picks per unit.
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
    /// The defaults of a level, given the top level `top`.
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
