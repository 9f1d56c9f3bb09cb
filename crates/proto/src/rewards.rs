//! Validator earnings from votes, blocks, aggregates and collections, over the blocks of a run.
//!
//! Votes and their inclusion are paid as in Altair (consensus-specs, `specs/altair/beacon-chain.md`: participation
//! flags, `get_base_reward`, `get_flag_index_deltas`, `process_attestation`). A vote earns its weight of the base
//! reward for a source, a target and a head that its chain agrees with, if it is included in time, in proportion to the
//! stake that did the same. A validator whose source or target is not credited loses as much. The proposer that first
//! includes a vote gets a share of its worth.
//!
//! There are two differences. In Altair a validator votes once per epoch, here in every slot, so a vote is worth a part
//! of the base reward ([`Schedule::votes_per_base_reward`]). And aggregators and collectors get a share of what they
//! were the first to carry; Altair pays them nothing. The weights of [`Schedule::ALTAIR`] give them the share of the
//! sync committee, which does not exist here. This is an assumption. Inactivity leaks and slashing are left out.
//!
//! Amounts are in wei, so that the part for a vote is not lost to rounding.

use crate::wire::Entry;
use alphorn_types::{Slot, Validator};
use std::collections::BTreeMap;

/// Wei per gwei.
const GWEI: u128 = 1_000_000_000;
/// Maximum increments of a validator (EIP-7251: 2,048 ETH).
pub const INCREMENTS_MAX: u32 = crate::chain::INCREMENTS_MAX as u32;
/// Maximum number of open slots: as many as blocks include votes from.
const SLOTS_OPEN_MAX: usize = crate::chain::INCLUSION_SLOTS as usize + 1;

/// The reward schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Weight of a correct source (`TIMELY_SOURCE_WEIGHT`).
    pub source_weight: u32,
    /// Weight of a correct target (`TIMELY_TARGET_WEIGHT`).
    pub target_weight: u32,
    /// Weight of a correct head (`TIMELY_HEAD_WEIGHT`).
    pub head_weight: u32,
    /// Weight of inclusion (`PROPOSER_WEIGHT`).
    pub proposer_weight: u32,
    /// Weight for the first aggregator to carry a vote.
    pub aggregator_weight: u32,
    /// Weight for the first collector to carry it.
    pub collector_weight: u32,
    /// Maximum sum of all weights (`WEIGHT_DENOMINATOR`).
    pub weight_denominator: u32,
    /// `BASE_REWARD_FACTOR`.
    pub base_reward_factor: u64,
    /// Gwei per increment (`EFFECTIVE_BALANCE_INCREMENT`).
    pub increment_gwei: u64,
    /// Number of votes covered by a base reward: one per slot, over an Altair epoch.
    pub votes_per_base_reward: u32,
    /// Number of slots within which a vote must be included to count for its source: the square root of an epoch.
    pub source_slots_max: u64,
    /// The same for the target (`SLOTS_PER_EPOCH`).
    pub target_slots_max: u64,
    /// The same for the head (`MIN_ATTESTATION_INCLUSION_DELAY`).
    pub head_slots_max: u64,
}

impl Schedule {
    /// Altair's schedule, for votes in every slot of an epoch of 32.
    pub const ALTAIR: Schedule = Schedule {
        source_weight: 14,
        target_weight: 26,
        head_weight: 14,
        proposer_weight: 8,
        aggregator_weight: 1,
        collector_weight: 1,
        weight_denominator: 64,
        base_reward_factor: 64,
        increment_gwei: 1_000_000_000,
        votes_per_base_reward: 32,
        source_slots_max: 5,
        target_slots_max: 32,
        head_slots_max: 1,
    };

    /// The same for blocks that include votes at the earliest this many slots later, as when one piece of evidence
    /// proves all collections of a block.
    #[must_use]
    pub const fn later_by(self, slots: u64) -> Schedule {
        Schedule {
            source_slots_max: self.source_slots_max.saturating_add(slots),
            target_slots_max: self.target_slots_max.saturating_add(slots),
            head_slots_max: self.head_slots_max.saturating_add(slots),
            ..self
        }
    }

    /// Checks that a ledger can use the schedule.
    ///
    /// # Errors
    ///
    /// [`RewardsError::Schedule`], which names the field.
    pub fn validate(&self) -> Result<(), RewardsError> {
        let weights = [
            self.source_weight,
            self.target_weight,
            self.head_weight,
            self.proposer_weight,
            self.aggregator_weight,
            self.collector_weight,
        ];
        let sum: u64 = weights.into_iter().map(u64::from).sum();
        let denominator = u64::from(self.weight_denominator);
        let votes = u64::from(self.votes_per_base_reward);
        let proposer = u64::from(self.proposer_weight);
        let checks = [
            ("weight_denominator", denominator, 1, 1 << 20),
            ("sum of all weights", sum, 0, denominator),
            (
                "proposer_weight",
                proposer,
                0,
                denominator.saturating_sub(1),
            ),
            ("base_reward_factor", self.base_reward_factor, 0, 1 << 20),
            ("increment_gwei", self.increment_gwei, 1, 1 << 40),
            ("votes_per_base_reward", votes, 1, 1 << 20),
        ];
        match checks
            .into_iter()
            .find(|(_, value, least, most)| !(*least..=*most).contains(value))
        {
            None => Ok(()),
            Some((name, value, least, most)) => Err(RewardsError::Schedule {
                name,
                value,
                least,
                most,
            }),
        }
    }

    /// Base reward per increment in gwei, with `increments` at stake in total (`get_base_reward_per_increment`).
    pub(crate) fn base_reward_per_increment_gwei(&self, increments: u64) -> u64 {
        let stake = u128::from(increments) * u128::from(self.increment_gwei);
        let paid = u128::from(self.increment_gwei) * u128::from(self.base_reward_factor);
        u64::try_from(paid / stake.isqrt().max(1)).unwrap_or(u64::MAX)
    }

    fn weights(&self) -> [u32; 3] {
        [self.source_weight, self.target_weight, self.head_weight]
    }
}

/// Why something cannot be paid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewardsError {
    /// A field of the schedule is out of range.
    #[error("{name} = {value}, must be {least} to {most}")]
    Schedule {
        /// The field.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Minimum legal value.
        least: u64,
        /// Maximum legal value.
        most: u64,
    },
    /// A validator has no increments, or more than [`INCREMENTS_MAX`].
    #[error("validator {validator} has {increments} increments, must be 1 to {INCREMENTS_MAX}")]
    Increments {
        /// The validator.
        validator: u32,
        /// Its increments.
        increments: u32,
    },
    /// There is no such validator.
    #[error("validator {0}, but there are {1}")]
    Validator(u32, usize),
    /// The votes of a slot were already paid for, or the slot is not before its block.
    #[error("votes of slot {0} in a block of slot {1}: paid for already, or not of a slot before")]
    Slot(Slot, Slot),
    /// More slots are open than blocks include votes from.
    #[error("{0} slots are open, must be at most {SLOTS_OPEN_MAX}")]
    Open(usize),
}

/// The parts of a vote that its chain agrees with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matches {
    /// Its source.
    pub(crate) source: bool,
    /// Its target.
    pub(crate) target: bool,
    /// Its head.
    pub(crate) head: bool,
}

impl Matches {
    /// All parts, as for every vote that a block of [`chain`](crate::chain) can include.
    pub const ALL: Matches = Matches {
        source: true,
        target: true,
        head: true,
    };
}

/// Votes of a slot included by a block and carried by one aggregator and one collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inclusion {
    /// The slot of the votes.
    pub slot: Slot,
    /// The parts of the votes that are correct.
    pub matches: Matches,
    /// The voters.
    pub voters: Vec<Validator>,
    /// The validator paid for the aggregate, if any.
    pub aggregator: Option<Validator>,
    /// The validator paid for the collection, if any.
    pub collector: Option<Validator>,
}

impl Inclusion {
    /// The votes of a block's entry; `members` are those of its committee, by position. A block does not record who
    /// carried them.
    pub fn of(entry: &Entry, members: &[u32]) -> Self {
        let signers = entry.evidence.support.signers();
        let voters = signers
            .iter_ones()
            .filter_map(|position| members.get(position));
        Inclusion {
            slot: entry.vote.slot,
            matches: Matches::ALL,
            voters: voters.map(|voter| Validator(*voter)).collect(),
            aggregator: None,
            collector: None,
        }
    }
}

/// Earnings of a validator, in wei.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// For correct sources.
    pub source: i128,
    /// For correct targets.
    pub target: i128,
    /// For correct heads.
    pub head: i128,
    /// For sources and targets not credited; zero or less.
    pub penalty: i128,
    /// For including votes in blocks.
    pub inclusion: i128,
    /// For aggregates.
    pub aggregation: i128,
    /// For collections.
    pub collection: i128,
}

impl Account {
    /// The total.
    pub fn total(&self) -> i128 {
        let votes = self.source + self.target + self.head + self.penalty;
        votes + self.inclusion + self.aggregation + self.collection
    }
}

/// Earnings of all validators.
#[derive(Clone, Debug)]
pub struct Ledger {
    schedule: Schedule,
    increments: Vec<u32>,
    /// Total of these.
    at_stake: u64,
    /// Base reward per increment for one vote, in wei.
    base: u128,
    /// What was credited for votes of slots not yet closed: one bit per weight.
    open: BTreeMap<Slot, Vec<u8>>,
    closed: Option<Slot>,
    accounts: Vec<Account>,
}

impl Ledger {
    /// Creates a ledger of validators with these increments. They may be part of a network with `increments_all` at
    /// stake, which determines the base reward; shares of the stake are relative to their own total.
    ///
    /// # Errors
    ///
    /// [`RewardsError`]
    pub fn new(
        schedule: Schedule,
        increments: &[u32],
        increments_all: u64,
    ) -> Result<Self, RewardsError> {
        schedule.validate()?;
        let is_wrong = |increments: &u32| !(1..=INCREMENTS_MAX).contains(increments);
        if let Some(at) = increments.iter().position(is_wrong) {
            return Err(RewardsError::Increments {
                validator: at as u32,
                increments: increments[at],
            });
        }
        let at_stake: u64 = increments.iter().map(|one| u64::from(*one)).sum();
        let reward = schedule.base_reward_per_increment_gwei(increments_all.max(at_stake));
        let votes = u128::from(schedule.votes_per_base_reward);
        Ok(Ledger {
            at_stake,
            base: u128::from(reward) * GWEI / votes,
            open: BTreeMap::new(),
            closed: None,
            accounts: vec![Account::default(); increments.len()],
            increments: increments.to_vec(),
            schedule,
        })
    }

    /// Earnings by validator number.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Base reward of a validator for one vote, in wei; the weights are shares of it.
    ///
    /// # Panics
    ///
    /// If there is no such validator.
    pub fn base_reward(&self, validator: Validator) -> u128 {
        self.base * u128::from(self.increments[validator.0 as usize])
    }

    /// Processes a block of the chain; parents come before their children. Each vote counts once per weight, and its
    /// carriers at that time are paid for it.
    ///
    /// # Errors
    ///
    /// [`RewardsError`]; inclusions before the wrong one are counted, and the proposer is paid for them.
    pub fn block(
        &mut self,
        slot: Slot,
        proposer: Validator,
        inclusions: &[Inclusion],
    ) -> Result<(), RewardsError> {
        self.check(proposer)?;
        let mut included = 0;
        let mut all = inclusions.iter();
        let ended = all.try_for_each(|one| {
            included += self.include(slot, one)?;
            Ok(())
        });
        let inclusion = self.share(included, self.schedule.proposer_weight);
        self.accounts[proposer.0 as usize].inclusion += inclusion;
        ended
    }

    /// Credits an inclusion, pays the carriers of its votes, and returns the newly credited part, as wei times weights.
    fn include(&mut self, slot: Slot, one: &Inclusion) -> Result<u128, RewardsError> {
        // All of them before anything is credited, so that a wrong inclusion has no effect.
        let people = one.voters.iter();
        for validator in people.chain(&one.aggregator).chain(&one.collector) {
            self.check(*validator)?;
        }
        let worth = self.credit(slot, one)?;
        let share = |weight| self.share(worth, weight);
        let aggregation = share(self.schedule.aggregator_weight);
        let collection = share(self.schedule.collector_weight);
        if let Some(aggregator) = one.aggregator {
            self.accounts[aggregator.0 as usize].aggregation += aggregation;
        }
        if let Some(collector) = one.collector {
            self.accounts[collector.0 as usize].collection += collection;
        }
        Ok(worth)
    }

    fn check(&self, validator: Validator) -> Result<(), RewardsError> {
        match (validator.0 as usize) < self.accounts.len() {
            true => Ok(()),
            false => Err(RewardsError::Validator(validator.0, self.accounts.len())),
        }
    }

    /// Credits votes and returns the newly credited part, as wei times weights.
    fn credit(&mut self, slot: Slot, one: &Inclusion) -> Result<u128, RewardsError> {
        let is_closed = self.closed.is_some_and(|closed| one.slot <= closed);
        let delay = slot.0.checked_sub(one.slot.0).filter(|delay| *delay > 0);
        let Some(delay) = delay.filter(|_| !is_closed) else {
            return Err(RewardsError::Slot(one.slot, slot));
        };
        if self.open.len() >= SLOTS_OPEN_MAX && !self.open.contains_key(&one.slot) {
            return Err(RewardsError::Open(self.open.len() + 1));
        }
        let schedule = &self.schedule;
        let timely = [
            one.matches.source && delay <= schedule.source_slots_max,
            one.matches.target && delay <= schedule.target_slots_max,
            one.matches.head && delay <= schedule.head_slots_max,
        ];
        let weights = schedule.weights();
        let validators = self.increments.len();
        let flags = self
            .open
            .entry(one.slot)
            .or_insert_with(|| vec![0; validators]);
        let mut worth = 0;
        for voter in &one.voters {
            let flags = &mut flags[voter.0 as usize];
            let base = self.base * u128::from(self.increments[voter.0 as usize]);
            for (bit, weight) in weights.iter().enumerate() {
                if timely[bit] && *flags & (1 << bit) == 0 {
                    *flags |= 1 << bit;
                    worth += base * u128::from(*weight);
                }
            }
        }
        Ok(worth)
    }

    /// Share of a weight in what was credited, computed like Altair's proposer reward.
    fn share(&self, worth: u128, weight: u32) -> i128 {
        let denominator = u128::from(self.schedule.weight_denominator);
        // Not 0: the weight of the proposer is below the denominator (`Schedule::validate`).
        let others = denominator - u128::from(self.schedule.proposer_weight);
        (worth * u128::from(weight) / (others * denominator)) as i128
    }

    /// Pays for the votes of a slot and all earlier ones, which no block can include any more.
    pub fn close(&mut self, slot: Slot) {
        let first = self.closed.map_or_else(
            || self.open.keys().next().copied().unwrap_or(slot),
            Slot::next,
        );
        let none = vec![0; self.increments.len()];
        let mut at = first;
        while at <= slot {
            // A slot of which no block included any vote is closed too: all its validators are penalised.
            let flags = self.open.remove(&at).unwrap_or_else(|| none.clone());
            self.pay(&flags);
            at = at.next();
        }
        // A call for an earlier slot must not open later ones again.
        self.closed = self.closed.max(Some(slot));
    }

    /// Pays for the votes of a slot according to what was credited.
    fn pay(&mut self, flags: &[u8]) {
        let denominator = u128::from(self.schedule.weight_denominator);
        for (bit, weight) in self.schedule.weights().into_iter().enumerate() {
            let has = |flags: &u8| flags & (1 << bit) != 0;
            let credited = flags.iter().zip(&self.increments);
            let credited = credited.filter(|(flags, _)| has(flags));
            let credited: u64 = credited.map(|(_, increments)| u64::from(*increments)).sum();
            let all = self.accounts.iter_mut().zip(&self.increments).zip(flags);
            for ((account, increments), flags) in all {
                let worth = self.base * u128::from(*increments) * u128::from(weight);
                let reward =
                    worth * u128::from(credited) / (u128::from(self.at_stake) * denominator);
                let penalty = (worth / denominator) as i128;
                match (bit, has(flags)) {
                    (0, true) => account.source += reward as i128,
                    (1, true) => account.target += reward as i128,
                    (_, true) => account.head += reward as i128,
                    (0 | 1, false) => account.penalty -= penalty,
                    // A head that was not credited costs nothing, as in Altair.
                    (_, false) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
