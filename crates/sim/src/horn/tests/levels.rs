//! One level of evidence, three and four, and blocks of one piece of evidence.

use super::*;
use alphorn_scheme::model::Merged;
use alphorn_scheme::{Form, Overlap};

/// Proofs that merge, also those of a block.
fn proofs() -> CostTable {
    let mut table = CostTable::example();
    table.abilities.layers = [Form::Proof; 2];
    table.abilities.overlap = [Overlap::Union; 2];
    table.abilities.bundle_max = Some(49);
    table.merged = Some(Merged {
        bytes: 3_000,
        verify_ns: 30_000_000,
    });
    table
}

/// The scenario without its number of cells.
fn levels(table: &CostTable, changes: &[(&str, &str)]) -> Scenario {
    let text = TEXT.replace("subcommittees = 4\n", "");
    let mut scenario = scenario_of(&text, changes);
    let table = serde_json::to_string(table).unwrap();
    scenario.inputs.insert("example.json".into(), table);
    scenario
}

fn run_of(table: &CostTable, changes: &[(&str, &str)]) -> Result<HornRun, HornError> {
    let scenario = levels(table, changes);
    let Protocol::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    run(&scenario, horn, 3, &mut ())
}

/// Every vote that was cast is in the block and in every chain.
#[track_caller]
fn counts_all(run: &HornRun) {
    let cast = run.votes[0];
    assert_eq!(run.votes, [cast; 5]);
    for of in &run.slots {
        let expected = SlotVotes {
            slot: of.slot,
            cast,
            in_block: cast,
            in_chain: cast,
            imported: 96,
        };
        assert_eq!(*of, expected);
    }
    assert_eq!((run.unfinished, run.dropped_bytes), (0, 0));
}

#[test]
fn every_vote_is_in_the_block_on_every_number_of_levels() {
    for (fan_out, aggregates) in [
        ("[]", false),
        ("[4]", true),
        ("[2, 2]", true),
        ("[2, 2, 2]", true),
    ] {
        let changes = [
            ("protocol.fan_out", fan_out),
            ("protocol.participation_ppm", "950000"),
            ("protocol.slots", "2"),
        ];
        for table in [CostTable::example(), proofs()] {
            let run = run_of(&table, &changes).unwrap();
            counts_all(&run);
            assert_eq!(run.published.0 > 0, aggregates, "{fan_out}");
            assert_eq!(run.finalised, 0, "{fan_out}");
        }
    }
}

/// The preset, with few validators: 98 cells in groups of seven, and a block of one piece of evidence.
#[test]
fn a_network_of_three_levels_has_blocks_of_one_evidence() {
    let changes = [
        ("protocol.preset", "\"horn-pq\""),
        ("protocol.slots", "5"),
        ("protocol.participation_ppm", "990000"),
    ];
    let table = proofs();
    let run = run_of(&table, &changes).unwrap();
    counts_all(&run);
    // The votes of a slot are in the block after the next one, and final two blocks later.
    assert_eq!(run.finalised, 2);
    let (entries, bytes) = run.block;
    // Collections with evidence of their own have this much each.
    assert_eq!(entries, 2);
    assert!(bytes < 3_000 + 2_000, "{bytes}");
    let own = [&changes[..], &[("protocol.bundled", "false")]].concat();
    let own = run_of(&table, &own).unwrap();
    counts_all(&own);
    assert_eq!(own.finalised, 3);
    // Whoever aggregated is paid, of whatever level the evidence is.
    let increments = [32; 2048];
    let slots = run.slots.iter().map(|of| Slot(of.slot));
    let schedule = Schedule::ALTAIR.later_by(1);
    let all = increments.iter().map(|one| u64::from(*one)).sum();
    let ledger = Ledger::new(schedule, &increments, all).unwrap();
    let paid = pay(&run.blocks, slots, ledger).unwrap();
    let sum = |of: fn(&Account) -> i128| -> i128 { paid.accounts().iter().map(of).sum() };
    let (aggregation, collection) = (sum(|one| one.aggregation), sum(|one| one.collection));
    assert!(
        aggregation > 0 && aggregation.abs_diff(collection) < 512,
        "{aggregation} {collection}"
    );
}

/// A seed is one run, whatever the queue and whatever runs beside it.
#[test]
fn three_levels_are_the_same_run_each_time() {
    let changes = [
        ("protocol.preset", "\"horn-pq\""),
        ("protocol.participation_ppm", "900000"),
    ];
    let scenario = levels(&proofs(), &changes);
    let Protocol::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    let one = |_| run(&scenario, horn, 5, &mut ()).unwrap().outcome;
    let beside: Vec<_> = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(|| one(())));
        threads.map(|thread| thread.join().unwrap()).into()
    });
    let heap = run_with::<Heap>(&scenario, horn, 5, &mut ()).unwrap();
    assert_eq!(beside[0], beside[1]);
    assert_eq!(beside[0], heap.outcome);
}

/// A table, what is changed, and why it cannot be.
type Case<'a> = (&'a CostTable, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn levels_that_cannot_be_are_named() {
    let (sums, proofs) = (CostTable::example(), proofs());
    let grief = "[{ kind = \"grief\", share_pct = 10 }]";
    let cases: [Case<'_>; 7] = [
        (
            &sums,
            &[("protocol.preset", "\"beacon\"")],
            "protocol.preset = beacon: must be one of today, strawman, horn, horn-pq",
        ),
        (
            &sums,
            &[
                ("protocol.preset", "\"horn\""),
                ("protocol.fan_out", "[2, 2]"),
            ],
            "protocol.preset = horn with 3 levels: it has 2",
        ),
        (
            &sums,
            &[
                ("protocol.slot", "\"horn\""),
                ("protocol.fan_out", "[2, 2]"),
            ],
            "protocol: timing of 2 levels, the layout has 3",
        ),
        (
            &sums,
            &[("protocol.bundled", "true"), ("protocol.fan_out", "[2]")],
            "protocol: bundled blocks need a scheme that proves several collections together",
        ),
        (
            &proofs,
            &[
                ("protocol.bundled", "true"),
                ("protocol.committees", "50"),
                ("protocol.fan_out", "[2]"),
            ],
            "protocol: collections_per_block_max = 100, must be 1 to 49",
        ),
        (
            &proofs,
            &[("protocol.fan_out", "[256, 2]")],
            "protocol: subcommittees = 512, must be 1 to 256",
        ),
        (
            &proofs,
            &[("protocol.fan_out", "[2, 2]"), ("fault", grief)],
            "fault grief: protocol with 3 levels, it is for those of 2",
        ),
    ];
    for (table, changes, text) in cases {
        let error = run_of(table, changes).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}
