//! Worked examples, compared with Altair's own formulas.

use super::*;

/// Of a network of 2^20 validators with 32 ETH each.
const NETWORK: u64 = 32 << 20;

fn voters(range: std::ops::Range<u32>) -> Vec<Validator> {
    range.map(Validator).collect()
}

fn votes(slot: u64, voters: Vec<Validator>) -> Inclusion {
    Inclusion {
        slot: Slot(slot),
        matches: Matches::ALL,
        voters,
        aggregator: None,
        collector: None,
    }
}

fn ledger(validators: usize) -> Ledger {
    Ledger::new(Schedule::ALTAIR, &vec![32; validators], NETWORK).unwrap()
}

#[test]
fn the_base_reward_is_that_of_the_specification() {
    // integer_sqrt(33,554,432 ETH in gwei) = 183,179,234, and 64 * 10^9 / 183,179,234 = 349.
    let schedule = Schedule::ALTAIR;
    assert_eq!(schedule.base_reward_per_increment_gwei(NETWORK), 349);
    // 500,000 validators of 32 ETH: 16,000,000 ETH, whose root is 126,491,106.
    assert_eq!(schedule.base_reward_per_increment_gwei(16_000_000), 505);
    // A validator of 32 ETH, once in 32 slots; one of 2,048 ETH has 64 times as much.
    let ledger = Ledger::new(schedule, &[32, 2_048], NETWORK).unwrap();
    assert_eq!(ledger.base_reward(Validator(0)), 349 * GWEI);
    assert_eq!(ledger.base_reward(Validator(1)), 64 * 349 * GWEI);
}

#[test]
fn a_slot_in_which_all_vote_pays_all_weights() {
    let mut ledger = ledger(64);
    let all = Inclusion {
        aggregator: Some(Validator(10)),
        collector: Some(Validator(11)),
        ..votes(1, voters(0..64))
    };
    ledger.block(Slot(2), Validator(9), &[all]).unwrap();
    ledger.close(Slot(1));
    let base = 349 * GWEI as i128;
    let voter = ledger.accounts()[0];
    assert_eq!(
        (voter.source, voter.target),
        (base * 14 / 64, base * 26 / 64)
    );
    assert_eq!((voter.head, voter.penalty), (base * 14 / 64, 0));
    // Altair: the sum of base rewards and weights, by (64 - 8) * 64 / 8 = 448.
    assert_eq!(ledger.accounts()[9].inclusion, 64 * base * 54 / 448);
    assert_eq!(
        ledger.accounts()[10].aggregation,
        64 * base * 54 / (8 * 448)
    );
    assert_eq!(ledger.accounts()[11].collection, 64 * base * 54 / (8 * 448));
    // And with weights of sync committees in place of these two it would be all of the base reward.
    let paid: i128 = ledger.accounts().iter().map(Account::total).sum();
    let whole = 64 * base;
    assert!(
        paid > whole * 98 / 100 && paid <= whole,
        "{paid} of {whole}"
    );
}

#[test]
fn who_does_not_vote_pays_and_takes_from_the_others_too() {
    let mut ledger = ledger(64);
    let most = votes(1, voters(0..48));
    ledger.block(Slot(2), Validator(0), &[most]).unwrap();
    ledger.close(Slot(1));
    let base = 349 * GWEI as i128;
    let lazy = ledger.accounts()[63];
    assert_eq!(lazy.penalty, -(base * 14 / 64) - base * 26 / 64);
    assert_eq!(lazy.total(), lazy.penalty, "no penalty for a head");
    // Three quarters of the stake agree: three quarters of the reward.
    assert_eq!(ledger.accounts()[1].total(), 3 * (base * 54 / 64) / 4);
    // In a slot without a block nobody voted.
    ledger.close(Slot(2));
    assert_eq!(ledger.accounts()[63].penalty, 2 * lazy.penalty);
    assert!(ledger.accounts()[1].penalty < 0);
}

#[test]
fn late_votes_lose_their_head_then_their_source() {
    let base = 349 * GWEI as i128;
    let parts = [base * 14 / 64, base * 26 / 64, base * 14 / 64];
    for (delay, earned) in [
        (1, parts[0] + parts[1] + parts[2]),
        (2, parts[0] + parts[1]),
        (5, parts[0] + parts[1]),
        (6, parts[1] - parts[0]),
        (32, parts[1] - parts[0]),
        (33, -parts[0] - parts[1]),
    ] {
        let mut ledger = ledger(8);
        let all = votes(1, voters(0..8));
        ledger.block(Slot(1 + delay), Validator(7), &[all]).unwrap();
        ledger.close(Slot(1));
        assert_eq!(ledger.accounts()[0].total(), earned, "delay {delay}");
        let worth = match delay {
            1 => 54,
            2..=5 => 40,
            6..=32 => 26,
            _ => 0,
        };
        let inclusion = ledger.accounts()[7].inclusion;
        assert_eq!(inclusion, 8 * base * worth / 448, "delay {delay}");
    }
}

#[test]
fn a_vote_is_paid_for_once_to_whoever_brought_it_first() {
    let mut ledger = ledger(64);
    let by = |collector: u32, range| Inclusion {
        collector: Some(Validator(collector)),
        ..votes(1, voters(range))
    };
    // The second one adds sixteen new votes; the third, in a later block, none.
    let first = [by(1, 0..32), by(2, 16..48)];
    ledger.block(Slot(2), Validator(0), &first).unwrap();
    ledger
        .block(Slot(3), Validator(4), &[by(3, 0..48)])
        .unwrap();
    let earned = |validator: usize| ledger.accounts()[validator].collection;
    assert_eq!(earned(1), 2 * earned(2));
    assert!(earned(2) > 0);
    assert_eq!((earned(3), ledger.accounts()[4].inclusion), (0, 0));
    // A vote for another head is credited only for its correct parts.
    let wrong = Inclusion {
        matches: Matches {
            head: false,
            ..Matches::ALL
        },
        ..votes(1, voters(48..64))
    };
    ledger.block(Slot(3), Validator(5), &[wrong]).unwrap();
    let base = 349 * GWEI as i128;
    assert_eq!(ledger.accounts()[5].inclusion, 16 * base * 40 / 448);
}

#[test]
fn shares_are_those_of_the_stake() {
    // One validator with as much stake as all others: votes it disagrees with halve its reward.
    let increments = [2_048, 1_024, 1_024];
    let mut ledger = Ledger::new(Schedule::ALTAIR, &increments, 0).unwrap();
    let one = votes(1, voters(0..1));
    ledger.block(Slot(2), Validator(1), &[one]).unwrap();
    ledger.close(Slot(1));
    let worth = ledger.base_reward(Validator(0)) as i128 * 26 / 64;
    assert_eq!(ledger.accounts()[0].target, worth / 2);
    let penalty = -(ledger.base_reward(Validator(1)) as i128 * 14 / 64)
        - ledger.base_reward(Validator(1)) as i128 * 26 / 64;
    assert_eq!(ledger.accounts()[1].penalty, penalty);
}

#[test]
fn what_cannot_be_is_refused() {
    let new = |increments: &[u32]| Ledger::new(Schedule::ALTAIR, increments, 0).map(|_| ());
    for increments in [0, INCREMENTS_MAX + 1] {
        let error = RewardsError::Increments {
            validator: 1,
            increments,
        };
        assert_eq!(new(&[32, increments]), Err(error));
    }
    let heavy = Schedule {
        collector_weight: 3,
        ..Schedule::ALTAIR
    };
    let error = Ledger::new(heavy, &[32], 0).map(|_| ()).unwrap_err();
    let text = "sum of all weights = 66, must be 0 to 64";
    assert_eq!(error.to_string(), text);
    let mut ledger = ledger(4);
    let stranger = ledger.block(Slot(2), Validator(0), &[votes(1, voters(3..5))]);
    assert_eq!(stranger, Err(RewardsError::Validator(4, 4)));
    let early = ledger.block(Slot(1), Validator(0), &[votes(1, voters(0..1))]);
    assert_eq!(early, Err(RewardsError::Slot(Slot(1), Slot(1))));
    ledger.close(Slot(1));
    let late = ledger.block(Slot(2), Validator(0), &[votes(1, voters(0..1))]);
    assert_eq!(late, Err(RewardsError::Slot(Slot(1), Slot(2))));
}

/// Inclusions before a wrong one are counted, so the proposer is paid for them.
#[test]
fn a_block_that_ends_in_a_wrong_inclusion_pays_for_what_stood_before_it() {
    let (mut right, mut wrong) = (ledger(64), ledger(64));
    let all = votes(1, voters(0..64));
    let stranger = votes(1, voters(64..65));
    right
        .block(Slot(2), Validator(9), std::slice::from_ref(&all))
        .unwrap();
    let ended = wrong.block(Slot(2), Validator(9), &[all.clone(), stranger, all]);
    assert_eq!(ended, Err(RewardsError::Validator(64, 64)));
    assert!(wrong.accounts()[9].inclusion > 0);
    assert_eq!(wrong.accounts(), right.accounts());
}
