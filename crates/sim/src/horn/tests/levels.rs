//! One, three and four levels of evidence, and blocks with a single piece of evidence.

use super::super::Harm;
use super::*;
use alphorn_scheme::model::Merged;
use alphorn_scheme::{Form, Op, Overlap};

/// Proofs that merge, including those of a block.
pub(super) fn proofs() -> CostTable {
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
pub(super) fn levels(table: &CostTable, changes: &[(&str, &str)]) -> Scenario {
    let text = TEXT.replace("subcommittees = 4\n", "");
    let mut scenario = scenario_of(&text, changes);
    let table = serde_json::to_string(table).unwrap();
    scenario.inputs.insert("example.json".into(), table);
    scenario
}

fn run_of(table: &CostTable, changes: &[(&str, &str)]) -> Result<HornRun, RunError> {
    let scenario = levels(table, changes);
    let Protocol::Horn(horn) = &scenario.protocol else {
        unreachable!("the test's protocol");
    };
    run(&scenario, horn, 3, &mut ())
}

/// Every vote that was cast is in the block and in every chain.
#[track_caller]
pub(super) fn counts_all(run: &HornRun) {
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
    assert_eq!(run.unfinished, 0);
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

/// The status quo and the strawman as named presets: committees whose aggregates all nodes take, in slots of 12 s.
#[test]
fn protocols_of_one_level_count_every_vote() {
    for (name, committees) in [("today", 64), ("strawman", 2_048)] {
        let preset = format!("\"{name}\"");
        let changes = [
            ("protocol.preset", preset.as_str()),
            ("protocol.validators", "4096"),
            ("protocol.collectors", "2"),
        ];
        let text = TEXT.replace("committees = 2\n    subcommittees = 4\n", "");
        let scenario = scenario_of(&text, &changes);
        let Protocol::Horn(horn) = &scenario.protocol else {
            unreachable!("the test's protocol");
        };
        let run = run(&scenario, horn, 3, &mut ()).unwrap();
        assert_eq!((run.votes, run.unfinished), ([4096; 5], 0), "{name}");
        let (aggregates, collections) = run.published;
        assert_eq!((aggregates, collections), (0, 2 * committees), "{name}");
        // Voted for at 4 s, published at 8 s, in the block of the next slot.
        let at = run.at_proposer.at_ns[2].unwrap();
        assert!(
            (8_000_000_000..12_000_000_000).contains(&at),
            "{name}: {at}"
        );
    }
}

/// A node cuts a job to the inputs that there is time for, and so does a simulated one. The published evidence is
/// the sum of those.
#[test]
fn a_collector_that_is_too_slow_sums_fewer_cells() {
    let mut table = CostTable::example();
    for row in table
        .ops
        .iter_mut()
        .filter(|row| [Op::Collect, Op::Merge].contains(&row.op))
    {
        row.ns = row.n * 40_000_000_000;
    }
    let run = run_of(&table, &[("protocol.fan_out", "[4]")]).unwrap();
    let [cast, aggregated, collected, ..] = run.votes;
    assert_eq!((cast, aggregated), (2048, 2048));
    assert!((512..2048).contains(&collected), "{:?}", run.votes);
    assert!(run.published.1 > 0, "{:?}", run.published);
}

/// The preset with few validators: 98 cells in groups of seven, and a block with a single piece of evidence.
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
    // A vote, evidence of cells and groups, collections: merged evidence is longer than a vote.
    let longest = &run.longest;
    assert_eq!(longest.len(), 4);
    assert!(longest.iter().all(|bytes| *bytes > 96), "{longest:?}");
    let (entries, bytes) = run.block;
    // Collections with evidence of their own have this much each.
    assert_eq!(entries, 2);
    assert!(bytes < 3_000 + 2_000, "{bytes}");
    let own = [&changes[..], &[("protocol.bundled", "false")]].concat();
    let own = run_of(&table, &own).unwrap();
    counts_all(&own);
    assert_eq!(own.finalised, 3);
    // The aggregators are paid, whatever the level of the evidence.
    let increments = [32; 2048];
    let slots = run.slots.iter().map(|of| Slot(of.slot));
    assert_eq!(run.inclusion_slots_min, 2);
    let schedule = Schedule::ALTAIR.later_by(run.inclusion_slots_min - 1);
    let all = increments.iter().map(|one| u64::from(*one)).sum();
    let ledger = Ledger::new(schedule, &increments, all).unwrap();
    // A vote is not late if it is in the first block that can include it.
    let harm = Harm::of(&run, &run, &ledger).unwrap();
    assert_eq!((harm.lost, harm.late), (0, 0));
    let paid = pay(&run.blocks, slots, ledger).unwrap();
    let sum = |of: fn(&Account) -> i128| -> i128 { paid.accounts().iter().map(of).sum() };
    let (aggregation, collection) = (sum(|one| one.aggregation), sum(|one| one.collection));
    assert!(
        aggregation > 0 && aggregation.abs_diff(collection) < 512,
        "{aggregation} {collection}"
    );
}

/// Committees that publish in turn, and meshes of fewer peers, lower the peak cost and lose nothing.
#[test]
fn collections_are_spread_and_meshes_are_those_that_are_named() {
    let changes = [
        ("protocol.preset", "\"horn-pq\""),
        ("protocol.aggregate_dissemination", "\"direct\""),
    ];
    let run = |more: &[(&str, &str)]| {
        let run = run_of(&proofs(), &[&changes[..], more].concat()).unwrap();
        counts_all(&run);
        run
    };
    let at_once = run(&[]);
    let spread = run(&[("protocol.spread_ms", "4000")]);
    // Two committees: the second one starts two seconds later.
    let last_ns = |run: &HornRun, kind| {
        let sent = run.outcome.series.iter().filter(|bin| bin.kind == kind);
        sent.map(|bin| bin.from_ns).max().unwrap()
    };
    let [before, after] = [&at_once, &spread].map(|run| last_ns(run, "collection"));
    assert!(after >= before + 1_900_000_000, "{before} {after}");
    let [before, after] = [&at_once, &spread].map(|run| last_ns(run, "aggregate"));
    assert_eq!(before, after);
    let few = run(&[
        ("protocol.gossip.mesh", "3"),
        ("protocol.gossip.mesh_low", "2"),
    ]);
    let sent = |run: &HornRun| -> u64 { run.outcome.nodes.iter().map(|node| node.bytes_up).sum() };
    assert!(
        sent(&few) < sent(&at_once),
        "{} {}",
        sent(&few),
        sent(&at_once)
    );
    // The load of the classes is the sum over their nodes.
    let all = at_once.outcome.loads.all().unwrap();
    assert_eq!(all.nodes, 96);
    let slot_ns = 24_000_000_000_u128;
    let up = u128::from(sent(&at_once)) * 8 * 1_000_000_000 / 96 / slot_ns;
    let mean_up = (all.mean.up_mbps * 1e6) as u128;
    assert!(mean_up.abs_diff(up) <= up / 100, "{up}");
    let peaks = at_once
        .outcome
        .nodes
        .iter()
        .map(|node| node.peak_1s_down_bps);
    let peak_mbps = peaks.max().map(|bps| bps as f64 / 1e6);
    assert_eq!(peak_mbps, Some(all.most.down_mbps));
    let named: Vec<&str> = all.phases.iter().map(|own| &own.phase[..]).collect();
    assert_eq!(
        named,
        ["propose", "vote", "aggregate", "collect", "collect_3"]
    );
    assert!(all.phases[1].rates.up_mbps > 0.0, "votes");
    assert!(all.mean.cores > 0.0 && all.peak.cores > all.mean.cores);
}

/// Ranks wait as long as configured: a collector that waits for another's collection sends none of its own.
#[test]
fn ranks_wait_as_long_as_is_named() {
    let collections = |waits: &str| {
        let changes = [
            ("protocol.fan_out", "[4]"),
            ("protocol.publish", "\"staged\""),
            ("protocol.stage_ms", waits),
        ];
        let run = run_of(&proofs(), &changes).unwrap();
        counts_all(&run);
        run.published.1
    };
    let [at_once, waiting] = ["[0, 0]", "[0, 500]"].map(collections);
    assert!(waiting < at_once, "{waiting} {at_once}");
}

/// A seed gives the same run, whatever the queue and whatever else runs in parallel.
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
    let narrow = narrow(16, || one(()));
    assert_eq!(beside[0], beside[1]);
    assert_eq!(beside[0], narrow);
}

/// A table, the changes, and why they are refused.
type Case<'a> = (&'a CostTable, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn levels_that_cannot_be_are_named() {
    let (sums, proofs) = (CostTable::example(), proofs());
    let grief = "[{ kind = \"grief\", share_pct = 10 }]";
    let cases: [Case<'_>; 15] = [
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
            &[("protocol.combiners", "4"), ("protocol.fan_out", "[2]")],
            "protocol.combiners = 4: nobody serves so with 2 levels, of 3 and more somebody does",
        ),
        (
            &sums,
            &[("protocol.aggregators", "4"), ("protocol.fan_out", "[]")],
            "protocol.aggregators = 4: nobody serves so with 1 levels, of 2 and more somebody does",
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
            &[("protocol.spread_ms", "60001")],
            "protocol: spread_ms of level 2 = 60001, must be 0 to 60000",
        ),
        (
            &proofs,
            &[
                ("protocol.preset", "\"horn-pq\""),
                ("protocol.spread_ms", "8001"),
            ],
            "protocol: spread_ms of level 3 = 8001, must be at most the 8000 ms of its phase, collect_3",
        ),
        (
            &proofs,
            &[
                ("protocol.stage_ms", "[150]"),
                ("protocol.fan_out", "[2, 2]"),
            ],
            "protocol.stage_ms = [150]: must be 3 numbers, one a level",
        ),
        (
            &sums,
            &[
                ("protocol.stage_ms", "[150, 1500]"),
                ("protocol.fan_out", "[2]"),
            ],
            "protocol.stage_ms = [150, 1500]: no rank waits where all publish: give protocol.publish = \"staged\"",
        ),
        (
            &proofs,
            &[
                ("protocol.stage_ms", "[150, 60001]"),
                ("protocol.fan_out", "[2]"),
            ],
            "protocol: stage_ms of level 2 = 60001, must be 0 to 60000",
        ),
        (
            &proofs,
            &[
                ("protocol.gossip.mesh", "300"),
                ("protocol.gossip.mesh_high", "300"),
            ],
            "protocol.gossip: degree = 300, must be at most 128",
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
