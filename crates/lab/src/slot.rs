//! `alphorn slot`: one Horn slot end to end with real signatures.

mod blocks;
mod bls;
mod falcon;
mod griefing;
mod json;
mod kept;
mod levels;
mod print;
mod xmss;

use crate::error::{Error, Result};
use crate::fan_out::FanOut;
use crate::lattice::LatticeOptions;
use crate::machine::Machine;
use crate::options::{self, Common};
use crate::overwrite::check_apart;
use crate::participation::{FLAGS, Participation as Voters, Record, check_flag};
use crate::progress::Bars;
use crate::proof::{ProofOptions, check_set};
use crate::report::{Report, target};
use alphorn_proto::horn::{Config, Preset, SchemeInfo, Selection};
use alphorn_proto::slot::Timing;
use alphorn_scheme::Scheme;
use alphorn_sim::slot::{Participation, SlotConfig, SlotInputs, SlotOutcome, run_slot};
use alphorn_types::{Coding, Layout};
use alphorn_xmss::Set;
use clap::builder::{OsStringValueParser, TypedValueParser};
use print::{announce, header, result_table, steps_table, verdict};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Instant;

/// Run one Horn slot end to end with real signatures: votes, aggregates, collections, block
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn slot
  alphorn slot --validators 32768 --selection rank
  alphorn slot --participation 0.95 --seed 7 --json slot.json
  alphorn slot --scheme xmss --validators 512
  alphorn slot --scheme xmss --set prod --validators 512
  alphorn slot --scheme xmss --layers proof/proof --validators 64 --subcommittees 2
  alphorn slot --scheme falcon --validators 128
  alphorn slot --scheme falcon --layers list/list --validators 2000
  alphorn slot --participation vectors/goerli-epoch-148260
  alphorn slot --protocol today --validators 32768
  alphorn slot --validators 4096 --committees 2 --fan-out 4,4
  alphorn slot --protocol horn-pq --scheme xmss --layers proof/proof --validators 64 --committees 1 --fan-out 2,2
  alphorn slot --validators 4096 --blocks blocks.json
  alphorn slot --validators 4096 --verify blocks.json
  alphorn slot --griefing --validators 32768 --cover best1,quorum3 --split 1,3
  alphorn slot --griefing --scheme xmss --validators 128 --subcommittees 2

One node hosts every validator and verifies every message as if another node had sent it, so each is
verified once. A second node receives what every node of the network receives; the time it takes to
verify all collections is what a client would see. Votes, aggregates and collections carry real
signatures of interop keys. Network and clock are simulated; times are measured.

Evidence is made level by level. --fan-out gives the number of lower-level units in each unit, from
the committee down: 64 means two levels, 7,7 three (committees of 7 groups of 7 cells), none one. A
protocol sets committees, fan-out, timing and publishers; explicit options override it. Where one
proof can be made of all collections (XMSS, proof/proof), it is made a slot ahead, and the block
after the next one carries it and the votes; the protocols today, strawman and horn have none.

With --griefing every cell is attacked instead: Eve's aggregators withhold the votes of her voters
and drop victims, as `horn griefing` explains. Aggregates and collections carry real signatures and
are verified, and the collector's own rule picks the aggregates; there is no network. Each rule and
play is one row: votes cast, votes counted by the collections, honest votes lost. With XMSS every
aggregate is a proof and the collector merges what it picked, with at most 4096 validators in cells
of at most 768 (448 with the set prod); with --layers list/proof every aggregate is a list.

Exit code 1 if a vote is lost, a message of an honest sender is rejected, the block is not accepted
by all, or a second implementation disagrees with a sample of the verdicts; with --griefing if a
signature does not verify, or the rule union loses an honest vote.")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Signature scheme
    #[arg(long, default_value = "bls", value_parser = [BLS, FALCON, XMSS])]
    scheme: String,
    /// Parameter set of XMSS: compact, prod or test (default: compact)
    #[arg(long)]
    set: Option<Set>,
    #[command(flatten)]
    lattice: LatticeOptions,
    #[command(flatten)]
    proof: ProofOptions,
    /// Form of aggregates and of collections: list/list, list/proof (default with Falcon and XMSS), or
    /// proof/proof, which only XMSS has (its default with --griefing)
    #[arg(long, value_enum)]
    layers: Option<Layers>,
    /// Number of validators, such as 1048576 or 2^20 (default: 2^20 with BLS, 128 with Falcon or if cells
    /// are proved, 1000 with XMSS otherwise); a recorded epoch sets its own
    #[arg(long, value_parser = options::validators)]
    validators: Option<u32>,
    /// Use the levels, committees, timing and publishers of a protocol: today, strawman, horn or horn-pq
    #[arg(long, value_name = "NAME", value_parser = levels::protocol)]
    protocol: Option<Preset>,
    /// Number of committees (default: as many as the number of validators needs)
    #[arg(long)]
    committees: Option<u16>,
    /// Number of cells per committee, with two levels
    #[arg(long)]
    subcommittees: Option<u16>,
    /// Units of the next lower level in each unit, from the committee down, such as 7,7; none for one level
    #[arg(long, value_name = "N,N|none", conflicts_with = "subcommittees")]
    fan_out: Option<FanOut>,
    /// Voters: a share (such as 0.95 or 95%), or the folder or bit file of a recorded epoch
    #[arg(
        long,
        default_value = "1",
        value_name = "SHARE|FILE",
        allow_negative_numbers = true
    )]
    participation: Voters,
    /// Flag of a recorded epoch that counts as the vote: source, target or head (default: target)
    #[arg(long, value_name = "FLAG", value_parser = FLAGS)]
    flag: Option<String>,
    /// Selection of aggregators and collectors: lottery or rank
    #[arg(long)]
    selection: Option<Selection>,
    /// Rule by which a collector covers a cell: best1, greedy, quorum or union; with --griefing a list of
    /// the rules of `horn griefing`
    #[arg(long)]
    cover: Option<String>,
    /// Maximum multiplicity in a collection: 1, 3, 7 or 15
    #[arg(long)]
    multiplicity: Option<u8>,
    /// Encoding of supports: raw or rice (default: rice)
    #[arg(long, value_parser = ["raw", "rice"])]
    coding: Option<String>,
    /// Length of the slot and its phases: today for one level, horn, fast16, beacon, slow or lean for two,
    /// horn-pq for three, or custom:SLOT_MS:0,VOTE_MS,AGGREGATE_MS,COLLECT_MS,DECIDE_MS with one
    /// number per level (default: that of the protocol, or horn's for the same number of levels)
    #[arg(long)]
    timing: Option<Timing>,
    /// Save each proof in this folder as it is made, and reuse the proofs found there, so that an
    /// interrupted run can be resumed
    #[arg(long, value_name = "FOLDER", conflicts_with = "griefing")]
    resume: Option<PathBuf>,
    /// Write the blocks up to the one that carries the votes
    #[arg(long, value_name = "FILE", conflicts_with = "griefing",
          value_parser = OsStringValueParser::new().try_map(target))]
    blocks: Option<PathBuf>,
    /// Cast no votes; a node that has seen nothing else verifies the blocks written by --blocks with the
    /// same options, from their evidence and the public keys alone
    #[arg(long, value_name = "FILE", conflicts_with_all = ["griefing", "resume", "blocks"])]
    verify: Option<PathBuf>,
    #[command(flatten)]
    griefing: griefing::Options,
}

/// Name of the scheme on the command line.
const BLS: &str = "bls";
/// Name of the scheme on the command line.
const FALCON: &str = "falcon";
/// Name of the scheme on the command line.
const XMSS: &str = "xmss";

/// What aggregates and collections are.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Layers {
    /// Lists of signatures
    #[value(name = "list/list")]
    ListList,
    /// Aggregates are lists, collections are proofs
    #[value(name = "list/proof")]
    ListProof,
    /// Both are proofs; collections merge the proofs of cells
    #[value(name = "proof/proof")]
    ProofProof,
}

impl Args {
    /// Returns the parameter set of XMSS.
    fn set(&self) -> Set {
        self.set.unwrap_or(Set::Compact)
    }

    /// Returns the encoding of supports.
    fn coding(&self) -> &str {
        self.coding.as_deref().unwrap_or("rice")
    }

    /// Returns the forms of aggregates and collections, if the scheme has a choice.
    fn layers(&self) -> Option<Layers> {
        let default = match self.scheme.as_str() {
            BLS => return None,
            XMSS if self.griefing.griefing => Layers::ProofProof,
            _ => Layers::ListProof,
        };
        Some(self.layers.unwrap_or(default))
    }
}

/// The plan that results from the options.
struct Plan {
    layout: Layout,
    timing: Timing,
    participation: Participation,
    /// Description for the table.
    participation_name: String,
}

impl Args {
    /// Returns the options for the slot of a recorded epoch, everything else by default.
    pub(crate) fn recorded(common: Common, participation: String, flag: Option<String>) -> Self {
        Args {
            common,
            scheme: BLS.into(),
            set: None,
            lattice: LatticeOptions::default(),
            proof: ProofOptions::default(),
            layers: None,
            validators: None,
            committees: None,
            subcommittees: None,
            fan_out: None,
            protocol: None,
            participation: Voters::File(participation.into()),
            flag,
            selection: None,
            cover: None,
            multiplicity: None,
            coding: None,
            timing: None,
            resume: None,
            blocks: None,
            verify: None,
            griefing: griefing::Options::default(),
        }
    }
}

/// A slot that can be run, with its keys.
struct Ready {
    machine: Machine,
    plan: Plan,
    horn: Config,
    inputs: SlotInputs,
    bars: Bars,
    keys_s: f64,
    from_cache: bool,
}

impl Ready {
    /// Makes the keys now, which is timed.
    fn with_keys<S: Scheme>(
        args: &Args,
        plan: Plan,
        machine: Machine,
        scheme: S,
        keys: impl FnOnce(&rayon::ThreadPool, &mut Bars) -> Result<(S::Signers, S::Registry)>,
    ) -> Result<Self> {
        // Before the keys, which may take minutes: options that do not fit together are refused at once.
        let horn = horn_config(args, &plan, &scheme)?;
        announce(args, &plan, &machine);
        let mut bars = Bars::new();
        let clock = Instant::now();
        let (signers, registry) = keys(&args.common.pool()?, &mut bars)?;
        let keys_s = clock.elapsed().as_secs_f64();
        Ok(Ready {
            inputs: SlotInputs::new(scheme, registry, signers, &plan.layout),
            machine,
            plan,
            horn,
            bars,
            keys_s,
            from_cache: false,
        })
    }

    fn run(mut self, args: &Args) -> Result<Executed> {
        if let Some(folder) = &args.resume {
            let preset = args.proof.preset().preset().name;
            let (set, layers) = (args.set().name(), args.layers());
            let profile = args.lattice.profile().name();
            // All that a proof depends on apart from its job: with other options it must not be found again.
            let forms = format!("{} {set} {preset} {profile} {layers:?}", args.scheme);
            self.inputs.results = Some(Box::new(kept::Folder::open(folder, &forms)?));
        }
        let config = SlotConfig {
            participation: self.plan.participation.clone(),
            ..SlotConfig::new(self.horn, args.common.seed, args.common.threads()?)
        };
        self.inputs.progress = Box::new(self.bars);
        let outcome = run_slot(config, self.inputs)?;
        Ok(Executed {
            machine: self.machine,
            outcome,
            plan: self.plan,
            keys_s: self.keys_s,
            from_cache: self.from_cache,
        })
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
    /// Returns every option and figure that a JSON object of this slot has.
    pub(crate) fn json(&self, args: &Args) -> (Value, Map<String, Value>) {
        (
            json::config_json(args, &self.plan),
            json::fields(&self.outcome, self.keys_s, self.from_cache),
        )
    }

    /// Returns exit code 1 if a property of an honest slot does not hold.
    pub(crate) fn check(&self) -> Result<()> {
        let failures = self.outcome.failures();
        if failures.is_empty() {
            return Ok(());
        }
        let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
        Err(Error::Check(failures.join("; ")))
    }
}

/// Runs the command.
///
/// # Errors
/// If it cannot be run, or if a check fails.
pub fn run(args: &Args) -> Result<()> {
    let report = Report::begin("slot", args.common.seed);
    check_scheme(args)?;
    check_flag(
        args.flag.as_deref(),
        std::slice::from_ref(&args.participation),
    )?;
    let sink = args.common.sink();
    let record = args.participation.files();
    let inputs = record.iter().map(PathBuf::as_path);
    let outputs = [args.blocks.as_deref(), sink.path()];
    check_apart(
        inputs.chain(args.verify.as_deref()),
        outputs.into_iter().flatten(),
    )?;
    if args.griefing.griefing {
        levels::check_griefing(args)?;
        return griefing::run(args, &report);
    }
    args.griefing.check_unused()?;
    if let Some(path) = &args.verify {
        let blocks = blocks::read(path, args, &plan(args)?)?;
        return blocks::verify(ready(args)?, args, &blocks, &report);
    }
    let executed = execute(args)?;
    if let Some(path) = &args.blocks {
        blocks::write(path, args, &executed.plan, &executed.outcome)?;
    }
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

/// Rejects options that belong to another scheme.
fn check_scheme(args: &Args) -> Result<()> {
    let scheme = &args.scheme;
    check_set(scheme, args.set)?;
    args.lattice.check(scheme)?;
    args.proof.check(scheme)?;
    match (scheme.as_str(), args.layers) {
        (BLS, Some(_)) => {
            Err(anyhow::anyhow!("--layers with {scheme}: its evidence has one form").into())
        }
        _ => Ok(()),
    }
}

/// Runs the slot given by the options.
pub(crate) fn execute(args: &Args) -> Result<Executed> {
    ready(args)?.run(args)
}

/// Prepares the slot given by the options, with its keys.
fn ready(args: &Args) -> Result<Ready> {
    match args.scheme.as_str() {
        FALCON => falcon::ready(args),
        XMSS => xmss::ready(args),
        _ => bls::ready(args),
    }
}

fn plan(args: &Args) -> Result<Plan> {
    let (default_validators, committee_max) = match args.scheme.as_str() {
        FALCON => (128, Some(alphorn_falcon::COMMITTEE_MAX)),
        XMSS => {
            let proved = args.layers() == Some(Layers::ProofProof);
            (
                if proved { 128 } else { 1000 },
                Some(alphorn_xmss::COMMITTEE_MAX),
            )
        }
        _ => (1 << 20, None),
    };
    let (share, record) = match &args.participation {
        Voters::Share(share) => (*share, None),
        Voters::File(path) => (1.0, Some(Record::read(path, args.flag.as_deref())?)),
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
        (None, asked) => asked.unwrap_or(default_validators),
    };
    let default = Layout::default_for(validators, committee_max)?;
    let recorded = record.as_ref().map(|r| (r.committees, r.subcommittees));
    let default = recorded.unwrap_or((default.committees(), default.subcommittees()));
    let layout = levels::layout(args, validators, default)?;
    let own = args.protocol.map(|protocol| protocol.timing);
    let timing = args.timing.or(own);
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
        timing: timing.unwrap_or(Timing::default_for(layout.levels())),
        participation,
        participation_name,
    })
}

fn horn_config<S: Scheme>(args: &Args, plan: &Plan, scheme: &S) -> Result<Config> {
    let info = SchemeInfo::of(scheme, &plan.layout);
    let mut horn = match args.protocol {
        Some(protocol) => protocol.config(plan.layout, &info),
        None => {
            let mut horn = Config::new(plan.layout, &info);
            // An attack changes what collections count.
            if !args.griefing.griefing {
                horn.bundle(&info);
            }
            horn
        }
    };
    horn.timing = plan.timing;
    horn.coding = match args.coding() {
        "raw" => Coding::Raw,
        _ => Coding::Rice,
    };
    if let Some(selection) = args.selection {
        horn.selection = selection;
    }
    if let Some(multiplicity) = args.multiplicity {
        horn.multiplicity_max = multiplicity;
    }
    if let Some(cover) = &args.cover {
        let level = horn.levels.get_mut(1);
        let level = level
            .ok_or_else(|| anyhow::anyhow!("--cover {cover}: nothing is combined on one level"))?;
        level.cover = cover
            .parse()
            .map_err(|error| anyhow::anyhow!("--cover {cover}: {error}"))?;
    }
    horn.validate(&info)?;
    Ok(horn)
}
