//! What an attack costs whom: the blocks of a run with it beside those of the same run without.

use super::{HornRun, pay};
use alphorn_proto::rewards::{Account, Ledger, RewardsError};
use alphorn_types::{Bitfield, Slot};
use std::collections::BTreeMap;

/// Votes and rewards that an attack takes; rewards in wei, and less than nothing where somebody gains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Harm {
    /// Votes that validators of honest nodes cast.
    pub cast: u64,
    /// Those of them that no block is paid for.
    pub lost: u64,
    /// Those for which a later block than the first that can have them is.
    pub late: u64,
    /// Validators of honest nodes.
    pub honest: u64,
    /// Those of them that earn less than without the attack.
    pub victims: u64,
    /// What honest validators earn less, all together.
    pub honest_wei: i128,
    /// What whoever loses most of them earns less.
    pub most_wei: i128,
    /// Validators of attackers.
    pub attackers: u64,
    /// What these earn less, all together.
    pub attackers_wei: i128,
}

impl Harm {
    /// What a run with attackers pays, beside the same one without. Both are paid for by the same `ledger`, in
    /// which nothing stands yet.
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

    /// What honest validators lose for each wei of the attackers'; 0 where they lose nothing, none where it costs
    /// the attackers nothing.
    pub fn factor(&self) -> Option<f64> {
        match (self.honest_wei > 0, self.attackers_wei > 0) {
            (false, _) => Some(0.0),
            (true, false) => None,
            (true, true) => Some(self.honest_wei as f64 / self.attackers_wei as f64),
        }
    }
}

/// Votes of honest validators that blocks are paid for, and those of them that the first block that can have them
/// lacks.
fn included(run: &HornRun) -> [u64; 2] {
    let mut seen: BTreeMap<Slot, Bitfield> = BTreeMap::new();
    let [mut included, mut late] = [0, 0];
    for block in &run.blocks {
        for one in &block.inclusions {
            let seen = seen.entry(one.slot);
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
