//! What a Horn network agrees on, and what this machine does in it.

use alphorn_scheme::{Abilities, EvidenceLength, Form, Layer, Overlap, Scheme, Sizes};
use alphorn_types::support_code::Coding;
use alphorn_types::{Bitfield, Layout, Time};
use thiserror::Error;

use super::cover::Rule as Cover;
use super::selection::Post;
use super::state::Serving;
use crate::chain::{Policy, Weights};
use crate::slot::Timing;
use crate::wire::{BLOCK_ENTRIES_MAX, Context, FormatError, Kind, NetworkDigest, WireFormat};

mod choice;

pub use choice::{ParseChoiceError, Publish, Selection, SubsetRule};

/// Most expected members of a post, and most messages taken from one.
pub const MEMBERS_MAX: u16 = 64;
/// Longest epoch, in slots.
pub const EPOCH_SLOTS_MAX: u64 = 4096;
/// Most distinct votes that can be tracked in a slot.
pub const VOTE_DATA_MAX: u16 = 64;
/// Longest wait between two ranks of staged publishing, in milliseconds.
pub const STAGE_MS_MAX: u64 = 60_000;
/// The whole of a committee, in the unit of [`Config::stage_gain_ppm`].
pub const PPM: u32 = 1_000_000;
/// Aggregators of a cell by default where aggregates are proofs: with 16 of them a collector would
/// verify a thousand proofs.
const PROOF_AGGREGATORS: u16 = 4;

/// What the roles know of a signature scheme; they branch on this and on nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeInfo {
    /// What it can do.
    pub abilities: Abilities,
    /// Sizes on the wire, in bytes.
    pub sizes: Sizes,
    /// Length of the evidence of an aggregate over the largest cell.
    pub aggregate_evidence: EvidenceLength,
    /// Length of the evidence of a collection over the largest committee.
    pub collection_evidence: EvidenceLength,
}

impl SchemeInfo {
    /// What `scheme` is on `layout`.
    pub fn of<S: Scheme>(scheme: &S, layout: &Layout) -> Self {
        Self {
            abilities: scheme.abilities(),
            sizes: scheme.sizes(),
            aggregate_evidence: scheme.evidence_length(Layer::Aggregate, layout.cell_len_max()),
            collection_evidence: scheme
                .evidence_length(Layer::Collection, layout.committee_len_max()),
        }
    }

    /// How aggregates may overlap where they are combined.
    pub fn overlap(&self) -> Overlap {
        self.abilities.overlap(Layer::Aggregate)
    }
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
    /// Expected aggregators of a cell, 1 to 64.
    pub aggregators_target: u16,
    /// Expected collectors of a committee, 1 to 64.
    pub collectors_target: u16,
    /// Most aggregates taken from a cell in a slot, 1 to 64.
    pub aggregates_per_cell_max: u16,
    /// Most collections taken from a committee in a slot, 1 to 64.
    pub collections_per_committee_max: u16,
    /// How members come to serve.
    pub selection: Selection,
    /// Which collectors publish.
    pub publish: Publish,
    /// Under [`Publish::Staged`]: the wait between two expected ranks, in milliseconds.
    pub stage_ms: u64,
    /// Under [`Publish::Staged`]: signers that a collection must add to the best one seen, in
    /// millionths of the committee; 0 = any.
    pub stage_gain_ppm: u32,
    /// Greatest multiplicity in a collection: 1, 3, 7 or 15.
    pub multiplicity_max: u8,
    /// Which aggregates of a cell a collector sums. Local: others cannot tell.
    pub cover: Cover,
    /// Slots of an epoch, 1 to 4096.
    pub epoch_slots: u64,
    /// Most collections in a block, 1 to 512.
    pub collections_per_block_max: u16,
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
    /// A cover that the scheme's aggregates do not allow.
    #[error("cover = {value} does not fit aggregates that overlap as {overlap:?}: use {legal}")]
    CoverOverlap {
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
        "{kind} of up to {value} bytes, must be at most {max}: a {part} may have at most about {members} validators"
    )]
    MessageSize {
        /// The kind of message.
        kind: Kind,
        /// Bytes in the worst case.
        value: usize,
        /// The cap.
        max: usize,
        /// What is too large.
        part: &'static str,
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
    /// The defaults for a scheme on a layout: Horn's timing, lottery where signatures are unique,
    /// all publish but where collections are proofs, the strongest cover that the scheme allows.
    pub fn new(layout: Layout, info: &SchemeInfo) -> Self {
        let abilities = &info.abilities;
        let (multiplicity_max, cover) = match info.overlap() {
            Overlap::Counted { max } if max >= 3 => (3, Cover::Quorum),
            Overlap::Counted { .. } | Overlap::None => (1, Cover::Best1),
            Overlap::Union => (1, Cover::Union),
        };
        let proof = |layer| abilities.form(layer) == Form::Proof;
        let aggregators_target = if proof(Layer::Aggregate) {
            PROOF_AGGREGATORS
        } else {
            16
        };
        Self {
            layout,
            timing: Timing::HORN,
            genesis: Time::ZERO,
            network_id: [0; 32],
            aggregators_target,
            collectors_target: 16,
            aggregates_per_cell_max: 48,
            collections_per_committee_max: 48,
            selection: if abilities.unique {
                Selection::Lottery
            } else {
                Selection::Rank
            },
            publish: if proof(Layer::Collection) {
                Publish::Staged
            } else {
                Publish::All
            },
            stage_ms: 150,
            stage_gain_ppm: 5_000,
            multiplicity_max,
            cover,
            epoch_slots: 32,
            collections_per_block_max: (2 * layout.committees()).clamp(64, 512),
            block_bytes_max: Kind::Block.cap_bytes(),
            filler_bytes: 0,
            vote_data_per_slot_max: 16,
            subset_rule: SubsetRule::Global,
            fork_choice: Policy::Lmd,
            weights: Weights::equal(layout.validators()),
            coding: Coding::Rice,
            context: Context::None,
            collections_bytes_max: 1 << 30,
        }
    }

    /// What stands in topics and in everything that is signed: the first bytes of the network's id.
    pub fn network(&self) -> NetworkDigest {
        let [a, b, c, d, ..] = self.network_id;
        NetworkDigest([a, b, c, d])
    }

    /// When a collector may publish, given the start of the phase.
    pub(super) fn turn(&self, start: Time, serving: &Serving) -> Time {
        match self.publish {
            Publish::All => start,
            Publish::Staged => {
                let wait_ms = u64::from(serving.rank).saturating_mul(self.stage_ms);
                start.saturating_add_ns(wait_ms.saturating_mul(1_000_000))
            }
        }
    }

    /// Members expected to serve at a post.
    pub(super) fn target(&self, post: Post) -> u16 {
        match post {
            Post::Aggregator(_) => self.aggregators_target,
            Post::Collector(_) => self.collectors_target,
        }
    }

    /// The lengths of all fields on the wire.
    pub fn format(&self, info: &SchemeInfo) -> WireFormat {
        let lottery = self.selection == Selection::Lottery;
        WireFormat {
            layout: self.layout,
            signature_bytes: info.sizes.signature_bytes,
            duty_signature_bytes: info.sizes.duty_signature_bytes,
            selection_proof_bytes: info.sizes.selection_proof_bytes.filter(|_| lottery),
            aggregate_evidence: info.aggregate_evidence,
            collection_evidence: info.collection_evidence,
            multiplicity_max: self.multiplicity_max,
            coding: self.coding,
            context: self.context,
        }
    }

    /// Refuses what cannot work, naming the value and the nearest legal one.
    ///
    /// # Errors
    ///
    /// The first [`ConfigError`].
    pub fn validate(&self, info: &SchemeInfo) -> Result<(), ConfigError> {
        self.check_ranges()?;
        self.check_weights()?;
        let committee = self.layout.committee_len_max();
        if let Some(max) = info.abilities.committee_max
            && committee > max
        {
            let committees = self.layout.validators().div_ceil(max.max(1));
            return Err(ConfigError::CommitteeSize {
                value: committee,
                max,
                committees,
            });
        }
        if self.selection == Selection::Lottery
            && (!info.abilities.unique || info.sizes.selection_proof_bytes.is_none())
        {
            return Err(ConfigError::LotteryNotUnique);
        }
        let format = self.format(info);
        format.check()?;
        self.check_cover(info.overlap())?;
        check_fit(&format, Kind::Aggregate, self.layout.cell_len_max())?;
        check_fit(&format, Kind::Collection, committee)
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
        let check = |what, value: u64, min, max| match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(ConfigError::OutOfRange {
                what,
                value,
                min,
                max,
            }),
        };
        for (what, value) in [
            ("aggregators_target", self.aggregators_target),
            ("collectors_target", self.collectors_target),
            ("aggregates_per_cell_max", self.aggregates_per_cell_max),
            (
                "collections_per_committee_max",
                self.collections_per_committee_max,
            ),
        ] {
            check(what, value.into(), 1, MEMBERS_MAX.into())?;
        }
        check("stage_ms", self.stage_ms, 0, STAGE_MS_MAX)?;
        check("stage_gain_ppm", self.stage_gain_ppm.into(), 0, PPM.into())?;
        check("epoch_slots", self.epoch_slots, 1, EPOCH_SLOTS_MAX)?;
        let entries_max = BLOCK_ENTRIES_MAX as u64;
        let entries = self.collections_per_block_max.into();
        check("collections_per_block_max", entries, 1, entries_max)?;
        let (bytes, bytes_max) = (self.block_bytes_max as u64, Kind::Block.cap_bytes() as u64);
        check("block_bytes_max", bytes, 1 << 10, bytes_max)?;
        check("filler_bytes", self.filler_bytes as u64, 0, bytes / 2)?;
        let votes = self.vote_data_per_slot_max.into();
        check("vote_data_per_slot_max", votes, 1, VOTE_DATA_MAX.into())
    }

    fn check_weights(&self) -> Result<(), ConfigError> {
        let validators = self.layout.validators();
        match self.weights.validators() {
            Some(value) if value != validators as usize => {
                Err(ConfigError::WeightsLength { value, validators })
            }
            _ if self.weights.total() == 0 => Err(ConfigError::NoWeight),
            _ => Ok(()),
        }
    }

    fn check_cover(&self, overlap: Overlap) -> Result<(), ConfigError> {
        let value = self.multiplicity_max;
        let max = match overlap {
            Overlap::Counted { max } => max,
            Overlap::None | Overlap::Union => 1,
        };
        if value > max {
            return Err(ConfigError::Multiplicity { value, max });
        }
        let (legal, names) = match overlap {
            Overlap::Counted { .. } => (true, ""),
            Overlap::Union => (self.cover == Cover::Union, "union"),
            Overlap::None => (self.cover == Cover::Best1, "best1"),
        };
        if !legal {
            return Err(ConfigError::CoverOverlap {
                value: self.cover,
                overlap,
                legal: names,
            });
        }
        if self.cover == Cover::Quorum && value < 3 {
            return Err(ConfigError::QuorumOfOne { value });
        }
        Ok(())
    }
}

/// Refuses a format whose largest message of `kind`, over `members` validators, passes the cap.
fn check_fit(format: &WireFormat, kind: Kind, members: u32) -> Result<(), ConfigError> {
    let (length, part) = match kind {
        Kind::Aggregate => (format.aggregate_evidence, "cell"),
        _ => (format.collection_evidence, "committee"),
    };
    let max = kind.cap_bytes();
    let evidence = length.max_bytes();
    // The support's code and the fields around it stay below this part of the cap.
    let value = evidence
        .saturating_add(members as usize)
        .saturating_add(16 << 10);
    if evidence > 0 && value > max {
        let members = (u128::from(members) * max as u128 / value as u128) as u64;
        return Err(ConfigError::MessageSize {
            kind,
            value,
            max,
            part,
            members,
        });
    }
    Ok(())
}

/// What this machine does in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// By validator index: whose duties are done here.
    pub validators: Bitfield,
    /// Which of them cast votes.
    pub voters: Bitfield,
    /// Whether own messages are taken without verification. If not, they pass the whole
    /// validation like anyone's.
    pub trust_own: bool,
}

impl Local {
    /// A machine that validates and forwards for others only.
    pub fn observer(layout: &Layout) -> Self {
        let none = Bitfield::new(layout.validators() as usize);
        Self {
            validators: none.clone(),
            voters: none,
            trust_own: true,
        }
    }

    pub(super) fn check(&self, layout: &Layout) -> Result<(), ConfigError> {
        let validators = layout.validators();
        for (what, set) in [("validators", &self.validators), ("voters", &self.voters)] {
            if set.len() != validators as usize {
                return Err(ConfigError::LocalLength {
                    what,
                    value: set.len(),
                    validators,
                });
            }
        }
        let mut strangers = self.voters.clone();
        strangers.subtract(&self.validators);
        match strangers.iter_ones().next() {
            Some(voter) => Err(ConfigError::LocalVoter(voter)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
