mod follow;
mod network;

use super::*;
use alphorn_proto::horn::{Cover, Publish, SchemeInfo, Selection};
use alphorn_proto::slot::Timing;
use alphorn_proto::wire::Context;
use alphorn_scheme::model::{CostTable, Model, ModelRegistry, ModelSigners};
use alphorn_scheme::{Form, MemoryWatermark, Overlap, Role, SignItem};
use alphorn_types::{Bitfield, Cell, Coding, Layout, Slot, Validator};
use std::collections::BTreeMap;
use std::sync::Mutex;

fn model() -> Model {
    Model::new(CostTable::example()).unwrap()
}

/// The same costs for a scheme whose evidence has a different form.
fn model_of(form: Form, overlap: Overlap) -> Model {
    let mut table = CostTable::example();
    table.abilities.layers = [form; 2];
    table.abilities.overlap = [overlap; 2];
    table.abilities.unique = false;
    Model::new(table).unwrap()
}

fn config_of(scheme: &Model, layout: Layout, seed: u64) -> SlotConfig {
    let info = SchemeInfo::of(scheme, &layout);
    SlotConfig::new(Config::new(layout, &info), seed, 2)
}

fn config(validators: u32, seed: u64) -> SlotConfig {
    config_of(
        &model(),
        Layout::default_for(validators, None).unwrap(),
        seed,
    )
}

fn inputs(scheme: Model, layout: &Layout) -> SlotInputs {
    let validators = layout.validators();
    let registry = ModelRegistry { validators };
    SlotInputs::new(scheme, registry, ModelSigners { validators }, layout)
}

fn run_with(scheme: Model, config: SlotConfig) -> SlotOutcome {
    let inputs = inputs(scheme, &config.horn.layout);
    let outcome = run_slot(config, inputs).unwrap();
    assert_eq!(outcome.failures(), [], "{outcome:?}");
    outcome
}

fn run(config: SlotConfig) -> SlotOutcome {
    run_with(model(), config)
}

fn step<'a>(outcome: &'a SlotOutcome, stage: &str, op: &str) -> &'a Step {
    let found = outcome
        .steps
        .iter()
        .find(|step| step.stage == stage && step.op == op);
    found.unwrap_or_else(|| panic!("no step {stage}/{op} in {:?}", outcome.steps))
}

#[test]
fn every_vote_is_covered_at_every_size() {
    for validators in [1, 5, 2047, 2048, 4096] {
        let outcome = run(config(validators, 1));
        let all = u64::from(validators);
        let votes = outcome.votes;
        assert_eq!(
            (
                votes.cast,
                votes.verified,
                votes.in_collections,
                votes.in_block
            ),
            (all, all, all, all),
            "{validators} validators"
        );
        assert!(outcome.coverage_exact);
        assert_eq!(step(&outcome, "vote", "sign").meter.items, all);
        assert_eq!(
            step(&outcome, "vote", "verify_votes").meter.computed_items,
            all
        );
        assert_eq!(
            step(&outcome, "block", "duty_sign").meter.items,
            1,
            "no second lottery"
        );
        assert_eq!(outcome.block.accepted_nodes, 2);
        assert!(outcome.block.entries >= u64::from(outcome.layout.committees()));
        let verification = outcome.verification.unwrap();
        assert_eq!(verification.items, outcome.collections.messages);
        // Each has evidence, an envelope and, if there is a lottery, a proof of selection.
        assert!(verification.claims >= 2 * verification.items);
        assert!(verification.pooled_ns > verification.inner_pooled_ns);
        let stages: Vec<&str> = outcome.traffic.iter().map(|stage| stage.stage).collect();
        assert_eq!(stages, ["prepare", "vote", "aggregate", "collect", "block"]);
        let published: u64 = outcome
            .traffic
            .iter()
            .map(|stage| stage.published[1].messages)
            .sum();
        assert_eq!(published, outcome.aggregates.messages);
    }
}

/// In-memory results that outlive a run.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<[u8; 32], Vec<u8>>>>);

impl Results for Kept {
    fn load(&mut self, name: &[u8; 32]) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(name).cloned()
    }

    fn store(&mut self, name: &[u8; 32], result: &[u8]) -> std::io::Result<()> {
        self.0.lock().unwrap().insert(*name, result.to_vec());
        Ok(())
    }
}

fn run_keeping(config: &SlotConfig, kept: impl Results + 'static) -> SlotOutcome {
    let mut inputs = inputs(model(), &config.horn.layout);
    inputs.results = Some(Box::new(kept));
    run_slot(config.clone(), inputs).unwrap()
}

#[test]
fn a_slot_goes_on_from_the_evidence_that_was_kept() {
    let config = config(4096, 3);
    let without = run(config.clone());
    let kept = Kept::default();
    let first = run_keeping(&config, kept.clone());
    let made = kept.0.lock().unwrap().len() as u64;
    assert_eq!((first.results_loaded, first.digest), (0, without.digest));
    assert!(made > 0);
    // One is missing, as if the run had been stopped before creating it.
    kept.0.lock().unwrap().pop_first();
    let second = run_keeping(&config, kept.clone());
    assert_eq!(second.results_loaded, made - 1);
    assert_eq!(
        (second.digest, second.failures()),
        (without.digest, Vec::new())
    );
    assert_eq!(kept.0.lock().unwrap().len() as u64, made);
}

/// Write access to the kept evidence is not enough to insert a vote that was never cast: the evidence
/// is verified like any other.
#[test]
fn evidence_that_was_exchanged_is_refused() {
    let config = config(4096, 3);
    let kept = Kept::default();
    run_keeping(&config, kept.clone());
    {
        let mut kept = kept.0.lock().unwrap();
        let mut results: Vec<Vec<u8>> = kept.values().cloned().collect();
        results.rotate_left(1);
        for (place, result) in kept.values_mut().zip(results) {
            *place = result;
        }
    }
    assert_ne!(run_keeping(&config, kept).failures(), []);
}

/// A result that cannot be kept ends the run with the reason.
#[test]
fn a_full_disk_is_said() {
    struct Full;
    impl Results for Full {
        fn load(&mut self, _: &[u8; 32]) -> Option<Vec<u8>> {
            None
        }
        fn store(&mut self, _: &[u8; 32], _: &[u8]) -> std::io::Result<()> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
    }
    let config = config(64, 3);
    let mut inputs = inputs(model(), &config.horn.layout);
    inputs.results = Some(Box::new(Full));
    let ended = run_slot(config, inputs);
    assert!(matches!(ended, Err(SlotError::Results(_))), "{ended:?}");
}

/// The number of levels is configurable: one as today, three as in Horn for proofs.
#[test]
fn every_vote_is_covered_on_one_to_four_levels() {
    for (fan_out, stages) in [
        (&[][..], &["aggregate"][..]),
        (&[2, 4], &["aggregate", "collect", "collect_3"]),
        (
            &[2, 2, 2],
            &["aggregate", "collect", "collect_3", "collect_4"],
        ),
    ] {
        let layout = Layout::with_fan_out(900, 2, fan_out).unwrap();
        let outcome = run(config_of(&model(), layout, 1));
        assert_eq!(outcome.failures(), []);
        assert_eq!((outcome.votes.cast, outcome.votes.in_block), (900, 900));
        let run: Vec<&str> = outcome.traffic.iter().map(|stage| stage.stage).collect();
        assert_eq!(run, [&["prepare", "vote"], stages, &["block"]].concat());
        let below = layout.levels() > 1;
        assert_eq!(outcome.aggregates.messages > 0, below, "{fan_out:?}");
        assert!(outcome.collections.messages > 0);
    }
}

/// The block after the next one has a single piece of evidence for the votes of the slot.
#[test]
fn every_vote_is_in_a_block_of_one_evidence() {
    let mut table = model_of(Form::Proof, Overlap::Union).table().clone();
    table.abilities.bundle_max = Some(49);
    let bundles = Model::new(table).unwrap();
    let layout = Layout::with_fan_out(900, 2, &[2, 4]).unwrap();
    let mut config = config_of(&bundles, layout, 1);
    config.horn.bundle(&SchemeInfo::of(&bundles, &layout));
    let outcome = run_with(bundles, config);
    assert_eq!((outcome.votes.cast, outcome.votes.in_block), (900, 900));
    assert_eq!(
        (outcome.block.entries, outcome.block.accepted_nodes),
        (2, 2)
    );
    for (op, items) in [("bundle", 2), ("verify_bundle", 2)] {
        assert!(step(&outcome, "block", op).meter.items >= items, "{op}");
    }
    let signs = |step: &&Step| step.stage == "block" && step.op == "sign";
    assert_eq!(outcome.steps.iter().find(signs).map(|step| step.op), None);
}

#[test]
fn a_rate_of_the_validators_votes() {
    let mut config = config(3000, 4);
    config.participation = Participation::Rate { ppm: 700_000 };
    let outcome = run(config);
    assert_eq!(outcome.votes.cast, 2100);
    assert_eq!(outcome.votes.in_block, 2100);
}

/// Committees and cells of uneven size, cells without a vote, and a committee without any.
#[test]
fn a_record_is_reproduced_position_by_position() {
    let layout = Layout::new(1203, 3, 8).unwrap();
    let mut bits = Bitfield::ones(1203);
    let mut silence = |range: std::ops::Range<u32>| range.for_each(|i| bits.clear(i as usize));
    silence(layout.committee_range(1));
    for subcommittee in [0, 3, 7] {
        silence(layout.cell_range(Cell {
            committee: 2,
            subcommittee,
        }));
    }
    silence(100..150);
    let mut config = config_of(&model(), layout, 9);
    config.participation = Participation::Recorded(bits.clone());
    let outcome = run(config);
    for committee in &outcome.coverage {
        let range = layout.committee_range(committee.committee);
        let expected = bits.count_range(range.start as usize..range.end as usize) as u32;
        assert_eq!(
            (committee.expected, committee.in_collections),
            (expected, expected)
        );
        assert_eq!(committee.in_block, expected);
    }
    assert_eq!(outcome.coverage[1].in_collections, 0);
    assert_eq!(outcome.votes.cast, bits.count_ones() as u64);
}

#[test]
fn a_slot_in_which_nobody_votes_has_an_empty_block() {
    let mut config = config(600, 2);
    config.participation = Participation::Rate { ppm: 0 };
    let outcome = run(config);
    assert_eq!(outcome.votes, Votes::default());
    assert_eq!(
        (outcome.collections.messages, outcome.block.entries),
        (0, 0)
    );
    assert_eq!(outcome.verification, None);
}

#[test]
fn ranks_serve_in_exact_numbers() {
    let mut config = config(2048, 3);
    config.horn.selection = Selection::Rank;
    let outcome = run(config);
    // 1 committee of 4 cells: 16 aggregators in each cell, 16 collectors.
    assert_eq!(
        (outcome.aggregates.messages, outcome.collections.messages),
        (64, 16)
    );
}

#[test]
fn schemes_of_other_forms_pass_the_same_slot() {
    for (form, overlap) in [
        (Form::List, Overlap::Union),
        (Form::Proof, Overlap::None),
        (Form::Proof, Overlap::Union),
    ] {
        let layout = Layout::new(700, 2, 2).unwrap();
        let scheme = model_of(form, overlap);
        let config = config_of(&scheme, layout, 5);
        let outcome = run_with(scheme, config);
        assert_eq!(outcome.votes.in_block, 700, "{form:?} {overlap:?}");
    }
}

#[test]
fn covers_and_multiplicities_lose_no_honest_vote() {
    for (cover, multiplicity_max) in [(Cover::Best1, 1), (Cover::Greedy, 3), (Cover::Union, 15)] {
        let mut config = config(1500, 6);
        config.horn.levels[1].cover = cover;
        config.horn.multiplicity_max = multiplicity_max;
        assert_eq!(run(config).votes.in_block, 1500);
    }
}

#[test]
fn digests_follow_the_seed_and_nothing_else() {
    let digest = |seed, threads, cache_bytes_max| {
        let mut config = config(1100, seed);
        config.participation = Participation::Rate { ppm: 900_000 };
        config.compute = ComputeConfig {
            threads,
            cache_bytes_max,
        };
        run(config).digest
    };
    let first = digest(1, 1, 1 << 20);
    assert_eq!(digest(1, 2, 1 << 20), first);
    assert_eq!(digest(1, 2, 0), first, "the cache changes no byte");
    assert_ne!(digest(2, 1, 1 << 20), first);
}

#[test]
fn every_timing_latency_epoch_and_coding_keeps_all_votes() {
    type Change = fn(&mut SlotConfig);
    let changes: [(&str, Change); 9] = [
        ("lean", |c| c.horn.timing = Timing::LEAN),
        ("fast16", |c| c.horn.timing = Timing::FAST16),
        ("beacon", |c| c.horn.timing = Timing::BEACON),
        ("slow", |c| c.horn.timing = Timing::SLOW),
        ("latency", |c| c.latency_ms = 150),
        ("epochs of a slot", |c| c.horn.epoch_slots = 1),
        ("raw", |c| c.horn.coding = Coding::Raw),
        ("chain", |c| c.horn.context = Context::Chain),
        ("staged", |c| c.horn.levels[1].publish = Publish::Staged),
    ];
    for (name, change) in changes {
        let mut config = config(900, 11);
        config.participation = Participation::Rate { ppm: 800_000 };
        change(&mut config);
        let inputs = inputs(model(), &config.horn.layout);
        let outcome = run_slot(config, inputs).unwrap();
        assert_eq!(outcome.failures(), [], "{name}");
        assert_eq!(outcome.votes.in_block, 720, "{name}");
    }
}

/// The scheme without cryptography, at `ns` per item.
fn model_at(ns: u64) -> Model {
    let mut table = CostTable::example();
    table.ops.iter_mut().for_each(|row| row.ns = row.n * ns);
    Model::new(table).unwrap()
}

/// Work is not free: its cost determines when things happen, and work that is too slow is lost.
#[test]
fn costs_decide_what_is_in_time() {
    let outcome = |ns| {
        let scheme = model_at(ns);
        let layout = Layout::new(1000, 1, 2).unwrap();
        let config = config_of(&scheme, layout, 8);
        run_slot(config, inputs(scheme, &layout)).unwrap()
    };
    let [free, cheap, dear] = [0, 1_000, 1_000_000].map(outcome);
    for outcome in [&free, &cheap, &dear] {
        assert_eq!(outcome.failures(), []);
        assert_eq!(outcome.votes.in_block, 1000);
    }
    assert!(free.digest != cheap.digest && cheap.digest != dear.digest);
    let late = outcome(20_000_000);
    assert!(late.votes.in_block < 1000);
    assert!(
        late.failures().contains(&Failure::Coverage),
        "{:?}",
        late.failures()
    );
}

/// Eve has a quarter of the validators, and her victims are one fewer than her voters in a cell.
#[test]
fn a_griefer_takes_votes_from_the_best_aggregate_and_none_from_a_union() {
    let validators = 64;
    let layout = Layout::new(validators, 1, 1).unwrap();
    let set = |range: std::ops::Range<usize>| {
        let mut set = Bitfield::new(validators as usize);
        set.set_range(range);
        set
    };
    let griefing = Griefing {
        eve: set(0..16),
        victims: set(16..31),
    };
    let lost = |scheme: Model, cover, multiplicity_max| {
        let mut config = config_of(&scheme, layout, 4);
        config.horn.selection = Selection::Rank;
        config.horn.levels[1].cover = cover;
        config.horn.multiplicity_max = multiplicity_max;
        config.griefing = Some(griefing.clone());
        let outcome = run_slot(config, inputs(scheme, &layout)).unwrap();
        assert_eq!(outcome.nodes, 4);
        assert_eq!(outcome.votes.cast, 64);
        // Her votes do not reach the host.
        assert_eq!(outcome.votes.verified, 48);
        assert_eq!(outcome.block.accepted_nodes, 4);
        assert_eq!(outcome.votes.in_block, outcome.votes.in_collections);
        64 - outcome.votes.in_collections
    };
    assert_eq!(lost(model(), Cover::Best1, 1), 15, "the victims");
    assert_eq!(lost(model(), Cover::Union, 15), 0);
    for form in [Form::List, Form::Proof] {
        let scheme = model_of(form, Overlap::Union);
        assert_eq!(lost(scheme, Cover::Union, 1), 0, "{form:?}");
    }
    let alone = model_of(Form::Proof, Overlap::None);
    assert_eq!(lost(alone, Cover::Best1, 1), 15);
}

#[test]
fn an_attack_that_does_not_fit_is_refused() {
    let refusal = |eve: Bitfield, victims: Bitfield| {
        let mut config = config(300, 1);
        config.griefing = Some(Griefing { eve, victims });
        let inputs = inputs(model(), &config.horn.layout);
        let failed = run_slot(config, inputs);
        failed.unwrap_err().to_string()
    };
    let short = refusal(Bitfield::new(299), Bitfield::new(300));
    assert!(short.contains("eve: 299 bits for 300"), "{short}");
    let both = refusal(Bitfield::ones(300), Bitfield::ones(300));
    assert!(both.contains("validator 0"), "{both}");
}

/// Without an observer the host runs the same slot.
#[test]
fn the_observer_changes_nothing_for_the_host() {
    let outcome = |observer| {
        let mut config = config(1000, 7);
        config.observer = observer;
        run(config)
    };
    let (with, without) = (outcome(true), outcome(false));
    assert_eq!(with.votes, without.votes);
    assert_eq!(with.collections, without.collections);
    assert_eq!(with.block.bytes, without.block.bytes);
    assert_eq!((without.verification, without.nodes), (None, 1));
}

#[test]
fn a_key_that_has_signed_the_slot_stops_the_run() {
    let validators = 300;
    let watermark = MemoryWatermark::new(validators);
    let used = watermark.reserve(Slot(0), &SignItem::new(Validator(17), Role::Vote, [0; 32]));
    assert!(used.is_ok());
    let config = config(validators, 1);
    let inputs = SlotInputs {
        watermark: Arc::new(watermark),
        ..inputs(model(), &config.horn.layout)
    };
    let refused = run_slot(config, inputs).unwrap_err();
    let SlotError::Refused { stage, reason, .. } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(*stage, "vote");
    assert!(
        reason.contains("slot 0 is used") && reason.contains("validator 17"),
        "{reason}"
    );
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let refusal = |change: fn(&mut SlotConfig)| {
        let mut config = config(300, 1);
        change(&mut config);
        let inputs = inputs(model(), &config.horn.layout);
        let failed = run_slot(config, inputs);
        failed.unwrap_err().to_string()
    };
    assert!(refusal(|c| c.horn.levels[0].publishers = 65).contains("publishers of level 1 = 65"));
    assert!(
        refusal(|c| c.participation = Participation::Recorded(Bitfield::new(299)))
            .contains("299 positions")
    );
}
