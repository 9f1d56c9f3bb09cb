//! The cost of an attack to each side, comparing the blocks of a run with the attack and of the same run without.

use super::paid::pay;
use super::results::HornRun;
use alphorn_proto::rewards::{Account, Ledger, RewardsError};
use alphorn_types::{Bitfield, Slot};
use std::collections::BTreeMap;

/// Votes and rewards lost to an attack. Rewards are in wei, and negative for a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Harm {
    /// Votes cast by validators of honest nodes.
    pub cast: u64,
    /// Number of those that no block is paid for.
    pub lost: u64,
    /// Number of those paid for by a later block than the first that can include them.
    pub late: u64,
    /// Validators of honest nodes.
    pub honest: u64,
    /// Number of those that earn less than without the attack.
    pub victims: u64,
    /// Total loss of the honest validators.
    pub honest_wei: i128,
    /// Largest loss of a single honest validator.
    pub most_wei: i128,
    /// Validators of attackers.
    pub attackers: u64,
    /// Total loss of the attackers' validators.
    pub attackers_wei: i128,
}

impl Harm {
    /// Compares what a run with attackers pays with the same run without. Both are paid from copies of `ledger`,
    /// which must be empty.
    ///
    /// # Errors
    /// [`RewardsError`] for a ledger of fewer validators.
    pub fn of(honest: &HornRun, attacked: &HornRun, ledger: &Ledger) -> Result<Harm, RewardsError> {
        let paid = |run: &HornRun| {
            let slots = run.slots.iter().map(|of| Slot(of.slot));
            pay(&run.blocks, slots, ledger.clone())
        };
        let (before, after) = (paid(honest)?, paid(attacked)?);
        let cast = attacked.slots.iter().map(|of| of.cast).sum();
        let [included, late] = included(attacked);
        let mut harm = Harm {
            cast,
            lost: cast.saturating_sub(included),
            late,
            honest: 0,
            victims: 0,
            honest_wei: 0,
            most_wei: 0,
            attackers: 0,
            attackers_wei: 0,
        };
        let accounts = before.accounts().iter().zip(after.accounts());
        for (validator, (before, after)) in accounts.enumerate() {
            harm.count(attacked.attackers.get(validator), before, after);
        }
        Ok(harm)
    }

    fn count(&mut self, is_attacker: bool, before: &Account, after: &Account) {
        // Positive for a loss.
        let wei = before.total() - after.total();
        if is_attacker {
            self.attackers += 1;
            self.attackers_wei += wei;
            return;
        }
        self.honest += 1;
        self.victims += u64::from(wei > 0);
        self.honest_wei += wei;
        self.most_wei = self.most_wei.max(wei);
    }

    /// Honest validators' loss for each wei that the attackers lose; 0 if they lose nothing, none if it costs the
    /// attackers nothing.
    pub fn factor(&self) -> Option<f64> {
        match (self.honest_wei > 0, self.attackers_wei > 0) {
            (false, _) => Some(0.0),
            (true, false) => None,
            (true, true) => Some(self.honest_wei as f64 / self.attackers_wei as f64),
        }
    }
}

/// Number of honest validators' votes that blocks are paid for, and how many of them were missing from the first
/// block that can include them.
fn included(run: &HornRun) -> [u64; 2] {
    let mut seen: BTreeMap<Slot, Bitfield> = BTreeMap::new();
    let [mut included, mut late] = [0, 0];
    for block in &run.blocks {
        for one in &block.inclusions {
            let seen = seen.entry(one.slot);
            // Attackers' votes are marked as seen from the start, so only those of the honest count.
            let seen = seen.or_insert_with(|| run.attackers.clone());
            for voter in one.voters.iter().map(|voter| voter.0 as usize) {
                let is_new = !seen.get(voter);
                seen.set(voter);
                included += u64::from(is_new);
                late += u64::from(is_new && block.slot.0 > one.slot.0 + run.inclusion_slots_min);
            }
        }
    }
    [included, late]
}
