//! Votes left out by aggregators, collectors and proposers, counted and paid for.

use super::super::Harm;
use super::attacks::{SLOTS, assert_harmless, attacked, plan};
use super::*;
use alphorn_types::Cell;

const RUN: [(&str, &str); 1] = [("protocol.slots", SLOTS)];
/// The attacked slot, and its duration in milliseconds.
const SLOT: usize = 1;
const LASTS: &str = "from_ms = 22000, until_ms = 44000";

/// A run with a fault, and its cost.
fn harm(changes: &[(&str, &str)], fault: &str) -> (HornRun, Harm) {
    let honest = slot(changes, 3).unwrap();
    let run = attacked(changes, fault);
    let ledger = Ledger::new(Schedule::ALTAIR, &[32; 2048], 1 << 25).unwrap();
    let harm = Harm::of(&honest, &run, &ledger).unwrap();
    (run, harm)
}

/// Number of honest voters in a cell of a run with a fault.
fn honest_of(run: &HornRun, cell: Cell) -> u64 {
    let plan = plan(&RUN, 3);
    let members = plan.assignment.cell_members(cell).iter();
    members
        .filter(|one| !run.attackers.get(**one as usize))
        .count() as u64
}

/// Number of votes lost in the attacked slot; no other slot loses any.
fn lost(run: &HornRun) -> u64 {
    for (at, of) in run.slots.iter().enumerate() {
        assert!(at == SLOT || of.in_chain == of.cast, "{of:?}");
    }
    run.slots[SLOT].cast - run.slots[SLOT].in_chain
}

#[test]
fn votes_that_some_aggregators_drop_are_in_the_aggregates_of_others() {
    let fault = format!("[{{ kind = \"drop_votes\", posts_pct = 50, units = [0, 5], {LASTS} }}]");
    let (run, harm) = harm(&RUN, &fault);
    assert_harmless(&run, "aggregators");
    assert_eq!((harm.lost, harm.late), (0, 0));
    // The attackers' aggregates are not carried, so others are paid for those votes.
    assert!(harm.attackers_wei >= 0 && harm.honest_wei <= 0, "{harm:?}");
    assert_eq!(harm.factor(), Some(0.0));
}

#[test]
fn votes_that_all_aggregators_of_a_cell_drop_are_lost() {
    let of_all = |percent: u64| {
        let fault = format!(
            "[{{ kind = \"drop_votes\", posts_pct = 100, units = [5], factor_pct = {percent}, {LASTS} }}]"
        );
        harm(&RUN, &fault)
    };
    let (run, whole) = of_all(100);
    let cell = plan(&RUN, 3).unit(5).cell().unwrap();
    let victims = honest_of(&run, cell);
    assert!(victims > 150 && lost(&run) == victims, "{victims}");
    assert_eq!(whole.lost, victims);
    // A victim loses the reward of its vote, and pays for source and target.
    let ledger = Ledger::new(Schedule::ALTAIR, &[32; 2048], 1 << 25).unwrap();
    let each = ledger.base_reward(Validator(0)) as i128 * (54 + 40) / 64;
    let least = each * i128::from(victims);
    assert!(
        whole.honest_wei > least && whole.honest_wei < 2 * least,
        "{whole:?}"
    );
    assert!(whole.victims >= victims && whole.most_wei >= each * 9 / 10);
    // The attackers' own votes count, but are worth less when fewer votes agree.
    let factor = whole.factor().expect("it costs something");
    assert!(whole.attackers_wei > 0 && factor > 1.0, "{whole:?}");

    let (half, halved) = of_all(50);
    assert_eq!(lost(&half), victims / 2);
    assert!(halved.honest_wei < whole.honest_wei);
}

#[test]
fn hidden_votes_buy_out_others_where_the_best_aggregate_counts_alone() {
    let fault = format!("[{{ kind = \"drop_votes\", share_pct = 20, hides = true, {LASTS} }}]");
    let best = [RUN[0], ("protocol.multiplicity_max", "1")];
    let (run, bought) = harm(&best, &fault);
    // For each cell in which one of its nodes aggregates, one fewer than its own votes.
    let plan = plan(&RUN, 3);
    let of_cell = |cell| {
        let own = plan.assignment.cell_members(cell).len() as u64 - honest_of(&run, cell);
        let servers = plan.servers_of(Slot(SLOT as u64), cell.into()).iter();
        let mut servers = servers.map(|one| run.attackers.get(one.validator as usize));
        if servers.any(|own| own) { own - 1 } else { 0 }
    };
    let expected: u64 = plan.config.layout.cells().map(of_cell).sum();
    assert!(expected > 200 && lost(&run) == expected, "{expected}");
    assert!(
        bought.factor().is_none_or(|factor| factor > 1.0),
        "{bought:?}"
    );

    let (run, answered) = harm(&RUN, &fault);
    assert_harmless(&run, "three aggregates of a cell");
    // The remaining difference is which validator was the first to carry a vote.
    assert!(
        answered.honest_wei < bought.honest_wei / 8,
        "{answered:?} {bought:?}"
    );
}

#[test]
fn cells_that_some_collectors_leave_out_are_in_the_collections_of_others() {
    let fault = format!("[{{ kind = \"leave_cells\", factor_pct = 50, posts_pct = 50, {LASTS} }}]");
    let (run, some) = harm(&RUN, &fault);
    assert_harmless(&run, "collectors");
    assert_eq!((some.lost, some.factor()), (0, Some(0.0)));
    let fault = format!(
        "[{{ kind = \"leave_cells\", factor_pct = 50, posts_pct = 100, units = [1], {LASTS} }}]"
    );
    let (run, all) = harm(&RUN, &fault);
    let cells = (0..4).map(|subcommittee| Cell {
        committee: 1,
        subcommittee,
    });
    let mut honest: Vec<u64> = cells.map(|cell| honest_of(&run, cell)).collect();
    honest.sort_unstable();
    let (least, most) = (honest[0] + honest[1], honest[2] + honest[3]);
    assert!((least..=most).contains(&lost(&run)), "{honest:?} {run:?}");
    assert!(all.factor().is_none_or(|factor| factor > 1.0), "{all:?}");
}

#[test]
fn an_early_collection_is_paid_for_and_takes_no_vote() {
    for (way, delay_ms) in [("all", 1000), ("staged", 1000), ("all", 3995)] {
        let quoted = format!("\"{way}\"");
        let changes = [RUN[0], ("protocol.publish", &quoted)];
        let fault = format!(
            "[{{ kind = \"early_collection\", posts_pct = 7, delay_ms = {delay_ms}, {LASTS} }}]"
        );
        let (run, harm) = harm(&changes, &fault);
        assert_harmless(&run, way);
        let carried = |run: &HornRun| {
            let blocks = run.blocks.iter().flat_map(|block| &block.inclusions);
            let of_slot = blocks.filter(|one| one.slot == Slot(SLOT as u64));
            let own = |one: &&alphorn_proto::rewards::Inclusion| {
                (one.collector).is_some_and(|one| run.attackers.get(one.0 as usize))
            };
            of_slot
                .filter(own)
                .map(|one| one.voters.len())
                .sum::<usize>()
        };
        // With all aggregates of a committee, the early collection is the one that counts. Before they arrive,
        // there is none.
        assert_eq!(carried(&run) % 1024, 0, "{way}");
        if delay_ms == 1000 {
            assert_eq!(carried(&run), 2048, "{way}");
            // Attackers gain what other collectors would have been paid.
            assert!(harm.victims < 5 && harm.honest_wei > 0, "{way}: {harm:?}");
        } else {
            assert!(carried(&run) < 2048, "{way}");
        }
        assert_eq!(harm.attackers_wei, -harm.honest_wei, "{way}");
    }
}

#[test]
fn what_a_proposer_leaves_out_comes_with_the_next_block() {
    let fault = format!("[{{ kind = \"censor\", factor_pct = 50, posts_pct = 100, {LASTS} }}]");
    let (run, harm) = harm(&RUN, &fault);
    // The proposer at the start of the interval had the votes of the previous slot.
    let of = &run.slots[SLOT - 1];
    assert!(
        of.in_block < of.cast * 6 / 10 && of.in_chain == of.cast,
        "{of:?}"
    );
    assert_eq!((harm.lost, harm.late), (0, of.cast - of.in_block));
    // The victims lose their head rewards. The censor loses the reward for including them, which the next proposer
    // gets.
    let ledger = Ledger::new(Schedule::ALTAIR, &[32; 2048], 1 << 25).unwrap();
    let head = ledger.base_reward(Validator(0)) as i128 * 14 / 64;
    assert!(
        harm.victims >= harm.late && harm.most_wei >= head,
        "{harm:?}"
    );
    assert!(
        harm.attackers_wei > head * i128::from(harm.late) / 4,
        "{harm:?}"
    );
    assert_eq!(run.finalised, 3);
}

#[test]
fn nobody_is_no_attacker_and_everybody_is_too_many() {
    for (fault, text) in [
        (
            "kind = \"drop_votes\", posts_pct = 3",
            "fault drop_votes: 3 % of the aggregators are none: a cell, a committee or the run has at most 16 of \
             them while it lasts",
        ),
        (
            "kind = \"censor\", posts_pct = 100, from_ms = 200000",
            "fault censor: 100 % of the proposers are none: a cell, a committee or the run has at most 0 of them \
             while it lasts",
        ),
        (
            "kind = \"leave_cells\", posts_pct = 100, units = [2]",
            "fault leave_cells: unit 2, but collectors serve in 2",
        ),
        (
            "kind = \"drop_votes\", share_pct = 100",
            "fault drop_votes: all 96 nodes are its own",
        ),
        (
            "kind = \"drop_votes\", share_pct = 10, from_ms = 200000",
            "fault drop_votes: from_ms = 200000, must be below the end of the run, at 114000 ms",
        ),
        (
            "kind = \"censor\", share_pct = 1",
            "fault censor: 1 % of 96 nodes are none",
        ),
        (
            "kind = \"withhold\", share_pct = 1",
            "fault withhold: 1 % of 96 nodes are none",
        ),
    ] {
        let fault = format!("[{{ {fault} }}]");
        let error = slot(&[RUN[0], ("fault", &fault)], 3).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let changes = [
        ("protocol.selection", "\"lottery\""),
        ("protocol.vote_dissemination", "\"gossip\""),
        (
            "fault",
            "[{ kind = \"early_collection\", delay_ms = 9, share_pct = 10 }]",
        ),
    ];
    let error = slot(&changes, 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fault early_collection: needs protocol.selection = \"rank\""
    );
}
