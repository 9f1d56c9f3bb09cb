//! `alphorn slot`: one Horn slot end to end with real signatures.

use crate::bench::Participation as Voters;
use crate::error::{Error, Result};
use crate::keycache;
use crate::machine::{Machine, peak_rss_bytes};
use crate::options::{self, Common};
use crate::participation::Record;
use crate::progress::Bars;
use crate::report::{Report, table};
use crate::text;
use alphorn_bls::{Bls, Costs, EpochKeys, Exec, Signers, peer};
use alphorn_proto::horn::{Config, SchemeInfo, Selection};
use alphorn_proto::slot::Timing;
use alphorn_proto::wire::Kind;
use alphorn_scheme::{Claim, MemoryWatermark};
use alphorn_sim::compute::CrossCheck;
use alphorn_sim::slot::{Participation, SlotConfig, SlotInputs, SlotOutcome, Step, run_slot};
use alphorn_types::{Coding, Layout};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Instant;

/// One Horn slot end to end with real signatures: votes, aggregates, collections, block
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn slot
  alphorn slot --validators 32768 --selection rank
  alphorn slot --participation 0.95 --seed 7 --json slot.json
  alphorn slot --participation vectors/goerli-epoch-148260

One node hosts every validator and verifies every message as it would a stranger's, so that each is
verified once; a second node receives what every node of the network receives, and its verification
of all collections is the figure that a client would see. Votes, aggregates and collections carry
real signatures of interop keys. Network and clock are simulated; times are measured.

Exit code 1 if a vote is lost, a message of an honest sender is rejected, the block is not accepted
by all, or a second implementation disagrees with a sample of the verdicts.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Signature scheme
    #[arg(long, default_value = "bls", value_parser = ["bls"])]
    scheme: String,
    /// Number of validators, as 1048576 or 2^20; a record brings its own
    #[arg(long, value_parser = options::validators)]
    validators: Option<u32>,
    /// Committees; as many as the number of validators needs by default
    #[arg(long)]
    committees: Option<u16>,
    /// Cells of a committee
    #[arg(long)]
    subcommittees: Option<u16>,
    /// Who votes: a share (as 0.95 or 95%), or the folder or bit file of a recorded epoch
    #[arg(
        long,
        default_value = "1",
        value_name = "SHARE|FILE",
        allow_negative_numbers = true
    )]
    participation: Voters,
    /// Which flag of a recorded epoch counts as the vote
    #[arg(long, default_value = "target", value_name = "FLAG", value_parser = ["source", "target", "head"])]
    flag: String,
    /// How aggregators and collectors are selected: lottery or rank
    #[arg(long)]
    selection: Option<Selection>,
    /// How a collector covers a cell: best1, greedy, quorum or union
    #[arg(long)]
    cover: Option<String>,
    /// Greatest multiplicity in a collection: 1, 3, 7 or 15
    #[arg(long)]
    multiplicity: Option<u8>,
    /// How supports are written: raw or rice
    #[arg(long, default_value = "rice", value_parser = ["raw", "rice"])]
    coding: String,
    /// Length of the slot and its phases: horn, fast16, beacon, slow, lean, or
    /// custom:SLOT_MS:0,VOTE_MS,AGGREGATE_MS,COLLECT_MS,DECIDE_MS
    #[arg(long, default_value = "horn")]
    timing: Timing,
}

/// Decides a sample of all claims by blst alone.
struct BlstAlone;

impl CrossCheck<Bls> for BlstAlone {
    fn holds(&self, keys: &EpochKeys, claim: &Claim) -> Option<bool> {
        Some(peer::claim_holds(keys, claim))
    }
}

/// What the options come to.
struct Plan {
    layout: Layout,
    participation: Participation,
    /// In words, for the table.
    participation_name: String,
}

impl Args {
    /// The slot of a recorded epoch, everything else by default.
    pub(crate) fn recorded(common: Common, participation: String, flag: String) -> Self {
        Args {
            participation: Voters::File(participation.into()),
            flag,
            validators: None,
            ..Args::sized(common, 1)
        }
    }

    /// A slot in which all of `validators` vote, everything else by default.
    pub(crate) fn sized(common: Common, validators: u32) -> Self {
        Args {
            common,
            scheme: "bls".into(),
            validators: Some(validators),
            committees: None,
            subcommittees: None,
            participation: Voters::Share(1.0),
            flag: "target".into(),
            selection: None,
            cover: None,
            multiplicity: None,
            coding: "rice".into(),
            timing: Timing::HORN,
        }
    }
}

/// A slot that was run.
pub(crate) struct Executed {
    pub(crate) machine: Machine,
    pub(crate) outcome: SlotOutcome,
    plan: Plan,
    keys_s: f64,
    from_cache: bool,
}

impl Executed {
    /// Every line of the options and figures that a JSON object of this slot has.
    pub(crate) fn json(&self, args: &Args) -> (Value, Map<String, Value>) {
        (
            config_json(args, &self.plan),
            fields(&self.outcome, self.keys_s, self.from_cache),
        )
    }

    /// Exit code 1 if a property of an honest slot does not hold.
    pub(crate) fn check(&self) -> Result<()> {
        let failures = self.outcome.failures();
        if failures.is_empty() {
            return Ok(());
        }
        let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
        Err(Error::Check(failures.join("; ")))
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run_as(args, "slot")
}

/// `command` is the name that it was called by.
pub(crate) fn run_as(args: &Args, command: &'static str) -> Result<()> {
    let report = Report::begin(command, args.common.seed);
    let executed = execute(args)?;
    let sink = args.common.sink();
    let whole_s = report.elapsed_s();
    let outcome = &executed.outcome;
    sink.say(&header(args, &executed.plan, &executed.machine));
    sink.say(&steps_table(outcome, executed.keys_s, executed.from_cache));
    sink.say(&result_table(outcome));
    sink.say(&verdict(outcome, whole_s));
    let (config, fields) = executed.json(args);
    sink.write(&report.object(&executed.machine, "measured", &config, fields)?)?;
    executed.check()
}

/// Runs the slot of the options.
pub(crate) fn execute(args: &Args) -> Result<Executed> {
    let kernel = args.common.bls_kernel()?;
    let machine = args.common.machine(kernel)?;
    let plan = plan(args)?;
    let scheme = Arc::new(Bls::new(kernel, Costs::measure(kernel)));
    let horn = horn_config(args, &plan, &scheme)?;
    let mut bars = Bars::new();
    let clock = Instant::now();
    let validators = plan.layout.validators();
    let (registry, from_cache, signers) = {
        let pool = args.common.pool()?;
        let exec = Exec::new(Some(&pool));
        let interop = keycache::interop_registry(validators, kernel, exec, &mut bars)?;
        (
            interop.registry,
            interop.from_cache,
            Signers::interop(0..validators, exec),
        )
    };
    let keys_s = clock.elapsed().as_secs_f64();
    let config = SlotConfig {
        participation: plan.participation.clone(),
        ..SlotConfig::new(horn, args.common.seed, args.common.threads()?)
    };
    let inputs = SlotInputs {
        scheme,
        registry: Arc::new(registry),
        signers: Arc::new(signers),
        watermark: Arc::new(MemoryWatermark::new(validators)),
        cross_check: Some(Arc::new(BlstAlone)),
    };
    let outcome = run_slot(config, inputs, &mut bars)?;
    bars.clear();
    Ok(Executed {
        machine,
        outcome,
        plan,
        keys_s,
        from_cache,
    })
}

fn plan(args: &Args) -> Result<Plan> {
    const DEFAULT_VALIDATORS: u32 = 1 << 20;
    let (share, record) = match &args.participation {
        Voters::Share(share) => (*share, None),
        Voters::File(path) => (1.0, Some(Record::read(path, &args.flag)?)),
    };
    let validators = match (&record, args.validators) {
        (Some(record), Some(asked)) if asked != record.validators => {
            return Err(anyhow::anyhow!(
                "--validators {asked}: {} records {} validators",
                record.name,
                record.validators
            )
            .into());
        }
        (Some(record), _) => record.validators,
        (None, asked) => asked.unwrap_or(DEFAULT_VALIDATORS),
    };
    let default = Layout::default_for(validators, None)?;
    let shape = record
        .as_ref()
        .map_or((default.committees(), default.subcommittees()), |record| {
            (record.committees, record.subcommittees)
        });
    let layout = Layout::new(
        validators,
        args.committees.unwrap_or(shape.0),
        args.subcommittees.unwrap_or(shape.1),
    )?;
    let participation_name = match &record {
        Some(record) => {
            let share = record.bits.count_ones() as f64 / f64::from(record.validators);
            format!("{} ({:.1} % vote)", record.name, share * 100.0)
        }
        None => format!("{} %", share * 100.0),
    };
    let participation = match record {
        Some(record) => Participation::Recorded(record.bits),
        None => Participation::Rate {
            ppm: (share * 1e6).round() as u32,
        },
    };
    Ok(Plan {
        layout,
        participation,
        participation_name,
    })
}

fn horn_config(args: &Args, plan: &Plan, scheme: &Bls) -> Result<Config> {
    let mut horn = Config::new(plan.layout, &SchemeInfo::of(scheme, &plan.layout));
    horn.timing = args.timing;
    horn.coding = if args.coding == "raw" {
        Coding::Raw
    } else {
        Coding::Rice
    };
    if let Some(selection) = args.selection {
        horn.selection = selection;
    }
    if let Some(multiplicity) = args.multiplicity {
        horn.multiplicity_max = multiplicity;
    }
    if let Some(cover) = &args.cover {
        horn.cover = cover
            .parse()
            .map_err(|error| anyhow::anyhow!("--cover {cover}: {error}"))?;
    }
    horn.validate(&SchemeInfo::of(scheme, &plan.layout))?;
    Ok(horn)
}

fn header(args: &Args, plan: &Plan, machine: &Machine) -> String {
    format!(
        "One Horn slot, {} validators in {} committees of {} cells, participation {}, scheme {}, seed {}\n{}\n",
        text::count(u64::from(plan.layout.validators())),
        plan.layout.committees(),
        plan.layout.subcommittees(),
        plan.participation_name,
        args.scheme,
        args.common.seed,
        machine.line()
    )
}

fn steps_table(outcome: &SlotOutcome, keys_s: f64, from_cache: bool) -> String {
    let header = [
        "phase",
        "work",
        "jobs",
        "items",
        "core time",
        "wall time",
        "messages",
        "bytes",
    ];
    let keys = if from_cache {
        "keys from the cache"
    } else {
        "make the keys"
    };
    let mut rows = vec![vec![
        "keys".into(),
        keys.into(),
        String::new(),
        text::count(u64::from(outcome.layout.validators())),
        String::new(),
        text::seconds(keys_s),
        String::new(),
        String::new(),
    ]];
    for stage in &outcome.traffic {
        let steps: Vec<&Step> = outcome
            .steps
            .iter()
            .filter(|step| step.stage == stage.stage)
            .collect();
        for step in &steps {
            rows.push(vec![
                step.stage.into(),
                step.op.replace('_', " "),
                text::count(step.meter.computed_jobs),
                text::count(step.meter.computed_items),
                text::seconds(step.meter.busy_ns as f64 * 1e-9),
                text::seconds(step.meter.wall_ns as f64 * 1e-9),
                String::new(),
                String::new(),
            ]);
        }
        let published = stage
            .published
            .iter()
            .zip(Kind::ALL)
            .filter(|(traffic, _)| traffic.messages > 0);
        for (traffic, kind) in published {
            rows.push(vec![
                stage.stage.into(),
                format!("publish {}s", kind.name()),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                text::count(traffic.messages),
                text::bytes(traffic.bytes),
            ]);
        }
    }
    table(&header, &rows)
}

fn result_table(outcome: &SlotOutcome) -> String {
    let votes = outcome.votes;
    let share = |part: u64| {
        format!(
            "{} ({:.2} %)",
            text::count(part),
            100.0 * part as f64 / votes.expected.max(1) as f64
        )
    };
    let mut rows = vec![
        vec!["votes cast".into(), text::count(votes.cast)],
        vec!["votes verified".into(), share(votes.verified)],
        vec!["votes in collections".into(), share(votes.in_collections)],
        vec!["votes in the next block".into(), share(votes.in_block)],
        vec![
            "collections on the global topic".into(),
            format!(
                "{}, {}",
                text::count(outcome.collections.messages),
                text::bytes(outcome.collections.bytes)
            ),
        ],
        vec![
            "next block".into(),
            format!(
                "{} entries, {}",
                outcome.block.entries,
                text::bytes(outcome.block.bytes)
            ),
        ],
    ];
    if let Some(verification) = outcome.verification {
        let both = |pooled: u64, single: u64| {
            let seconds = |ns: u64| text::seconds(ns as f64 * 1e-9);
            format!(
                "{} on all threads, {} on one",
                seconds(pooled),
                seconds(single)
            )
        };
        rows.push(vec![
            "verify all collections".into(),
            both(verification.inner_pooled_ns, verification.inner_single_ns),
        ]);
        rows.push(vec![
            "with proofs of selection and envelopes".into(),
            both(verification.pooled_ns, verification.single_ns),
        ]);
    }
    if let Some(cross) = outcome.cross {
        rows.push(vec![
            "checked again by blst alone".into(),
            format!(
                "{} signatures, {} aggregates, {} differences",
                cross.signatures, cross.groups, cross.differences
            ),
        ]);
    }
    rows.push(vec!["peak memory".into(), text::bytes(peak_rss_bytes())]);
    format!("\n{}", table(&["result", ""], &rows))
}

fn verdict(outcome: &SlotOutcome, whole_s: f64) -> String {
    let failures = outcome.failures();
    if failures.is_empty() {
        let coverage = if outcome.coverage_exact {
            "every vote that was cast is counted, in every committee"
        } else {
            ""
        };
        return format!("\nHolds: {coverage}. Whole run {}.", text::seconds(whole_s));
    }
    let list: Vec<String> = failures
        .iter()
        .map(|failure| format!("\n  {failure}"))
        .collect();
    format!("\nDOES NOT HOLD:{}", list.concat())
}

fn config_json(args: &Args, plan: &Plan) -> Value {
    json!({
        "scheme": args.scheme,
        "validators": plan.layout.validators(),
        "committees": plan.layout.committees(),
        "subcommittees": plan.layout.subcommittees(),
        "participation": plan.participation_name,
        "selection": args.selection.map(|selection| selection.to_string()),
        "cover": args.cover,
        "multiplicity": args.multiplicity,
        "coding": args.coding,
        "timing": args.timing.to_string(),
    })
}

fn fields(outcome: &SlotOutcome, keys_s: f64, from_cache: bool) -> Map<String, Value> {
    let step = |step: &Step| {
        json!({
            "stage": step.stage,
            "op": step.op,
            "jobs": step.meter.jobs,
            "items": step.meter.items,
            "computed_jobs": step.meter.computed_jobs,
            "computed_items": step.meter.computed_items,
            "cpu_s": step.meter.busy_ns as f64 * 1e-9,
            "wall_s": step.meter.wall_ns as f64 * 1e-9,
        })
    };
    let mut bytes = [0u64; Kind::ALL.len()];
    let mut messages = [0u64; Kind::ALL.len()];
    for stage in &outcome.traffic {
        for (i, traffic) in stage.published.iter().enumerate() {
            bytes[i] += traffic.bytes;
            messages[i] += traffic.messages;
        }
    }
    let by_kind = |values: [u64; Kind::ALL.len()]| -> Map<String, Value> {
        Kind::ALL
            .iter()
            .zip(values)
            .map(|(kind, value)| (kind.name().to_owned(), json!(value)))
            .collect()
    };
    let committee = |coverage: &alphorn_sim::slot::CommitteeCoverage| {
        json!([
            coverage.committee,
            coverage.members,
            coverage.expected,
            coverage.in_collections,
            coverage.in_block
        ])
    };
    let votes = outcome.votes;
    let fields = json!({
        "keys": { "seconds": keys_s, "from_cache": from_cache },
        "steps": outcome.steps.iter().map(step).collect::<Vec<_>>(),
        "votes_expected": votes.expected,
        "votes_signed": votes.cast,
        "votes_verified": votes.verified,
        "votes_in_collections": votes.in_collections,
        "votes_in_block": votes.in_block,
        "aggregates": outcome.aggregates.messages,
        "collections": outcome.collections.messages,
        "coverage_exact": outcome.coverage_exact,
        "coverage_fields": ["committee", "members", "expected", "in_collections", "in_block"],
        "coverage": outcome.coverage.iter().map(committee).collect::<Vec<_>>(),
        "bytes": by_kind(bytes),
        "messages": by_kind(messages),
        "block": { "bytes": outcome.block.bytes, "entries": outcome.block.entries, "accepted_nodes": outcome.block.accepted_nodes },
        "verification": outcome.verification.map(|v| json!({
            "items": v.items,
            "claims": v.claims,
            "signers": v.signers,
            "all_valid": v.all_valid,
            "inner_pooled_s": v.inner_pooled_ns as f64 * 1e-9,
            "inner_single_s": v.inner_single_ns as f64 * 1e-9,
            "pooled_s": v.pooled_ns as f64 * 1e-9,
            "single_s": v.single_ns as f64 * 1e-9,
        })),
        "rejects": outcome.rejects,
        "cross_checked": outcome.cross.map(|c| json!({ "signatures": c.signatures, "apks": c.groups, "differences": c.differences })),
        "peak_rss_bytes": peak_rss_bytes(),
        "digest": outcome.digest.to_string(),
        "events": outcome.events,
    });
    fields.as_object().cloned().unwrap_or_default()
}
