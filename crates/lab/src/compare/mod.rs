//! `alphorn compare`: the schemes side by side on the same votes.

mod forms;
mod measure;
mod million;
mod page;
mod tables;

use crate::distinct::distinct;
use crate::error::{Error, Result};
use crate::lattice::{LatticeOptions, flavour_name};
use crate::machine::Machine;
use crate::options::{self, Common};
use crate::overwrite::check_apart;
use crate::progress::Bars;
use crate::proof::{PresetName, proofs};
use crate::report::{Report, note, target, write_whole};
use crate::sim::table::csv;
use crate::{keycache, text};
use alphorn_bls::{Bls, Costs};
use alphorn_exec::{Backend, Exec};
use alphorn_falcon::{Collections, Falcon, Flavour};
use alphorn_scheme::Scheme;
use alphorn_xmss::{Set, Xmss};
use anyhow::anyhow;
use clap::builder::{OsStringValueParser, TypedValueParser};
use measure::{Case, Inputs, measure};
use million::{Million, Network};
use rayon::ThreadPool;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Slots in which the interop keys of one-time schemes sign.
const SLOTS: Range<u64> = 0..4;

/// Validators of a committee of Horn at 2^20 validators: one more size for sums, which are fast.
const SUMS: u32 = 1 << 15;

/// Compare the signature schemes on the same votes: bytes, times, memory, security
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn compare
  alphorn compare --validators 256,1024,4096 --html compare.html --csv compare.csv
  alphorn compare --scheme falcon,xmss --validators 512 --threads 1 --json -

All validators of one committee sign one message. Each scheme signs, verifies the votes directly in one
batch, aggregates each cell, makes the collection of the committee and verifies it, on one thread and on
all. There is one row per form: sums (BLS), lists of signatures, proofs of all votes of a committee at
once, and merged proofs: one of each cell, then of groups of up to seven, up to the committee. Then, if
the scheme can merge, two and four collections, each sharing half of its votes with the next, are merged
into one of all votes; a proof to be merged has at most 768 votes, so with larger committees the union has
fewer than all. Every collection and every merge must verify, and must fail to verify for another message
or without one of its signers. The default also runs sums with a committee of 32,768, the size that Horn
uses for 2^20 validators.

The last table composes 2^20 votes from committees of each size, one collection each, as with staged
publishing while the first collector is honest. It is modelled from times measured in the same run. Sizes
that a scheme does not support are left out.")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Committee sizes, 2 to 32768 (lattices: up to 20000; default: 1024)
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = options::validators)]
    validators: Vec<u32>,
    /// Schemes: bls, falcon, xmss
    #[arg(
        long,
        value_name = "SCHEME",
        value_delimiter = ',',
        default_value = "bls,falcon,xmss"
    )]
    scheme: Vec<SchemeName>,
    #[command(flatten)]
    lattice: LatticeOptions,
    /// Collectors per committee that publish in the worst case, for the last table
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    collectors: u16,
    /// Milliseconds within which every node must receive and verify them, for the last table
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=600_000))]
    window_ms: u32,
    /// Write a report with plots to a single HTML file
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    html: Option<PathBuf>,
    /// Write the results as a CSV table
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    csv: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum SchemeName {
    Bls,
    Falcon,
    Xmss,
}

impl SchemeName {
    /// Returns the largest committee that is measured.
    const fn committee_max(self) -> u32 {
        match self {
            SchemeName::Bls => SUMS,
            SchemeName::Falcon => alphorn_falcon::COMMITTEE_MAX,
            SchemeName::Xmss => alphorn_xmss::COMMITTEE_MAX,
        }
    }
}

/// A form of a scheme at a number of votes, and its results.
struct Row {
    /// The scheme and the form of its collections.
    name: &'static str,
    case: Case,
}

/// Runs the command.
///
/// # Errors
/// If it cannot be run, or if a check fails.
pub fn run(args: &Args) -> Result<()> {
    let report = Report::begin("compare", args.common.seed);
    distinct("--scheme", &args.scheme)?;
    distinct("--validators", &args.validators)?;
    if !args.scheme.contains(&SchemeName::Falcon) {
        args.lattice.check("what --scheme names")?;
    }
    let kernels = Kernels::of(args)?;
    let machine = Machine::here(args.common.threads()?, kernels.names());
    let sink = args.common.sink();
    let outputs = [args.csv.as_deref(), args.html.as_deref(), sink.path()];
    check_apart([], outputs.into_iter().flatten())?;
    let sizes = sizes(args)?;
    let mut bars = Bars::new();
    let rows = rows(args, &kernels, &sizes, &mut bars);
    bars.clear();
    let rows = rows?;
    let network = Network {
        collectors: args.collectors,
        window_s: f64::from(args.window_ms) / 1e3,
    };
    let million: Vec<Million> = million::of(&rows, network);
    sink.say(&machine.line());
    for (title, table) in tables::all(&rows, &million, network) {
        sink.say(&format!("\n{title}\n{table}"));
    }
    let verdict = tables::verdict(&rows, &million, network);
    sink.say(&format!("\n{}", verdict.join("\n")));
    let cases = tables::cases_json(&rows);
    if let Some(path) = &args.csv {
        write_whole(path, csv(&tables::lines(&cases)).as_bytes())?;
    }
    if let Some(path) = &args.html {
        let page = page::page(&rows, &json!(cases), &million, network, &machine, &verdict);
        write_whole(path, page.as_bytes())?;
    }
    let fields = json!({ "cases": cases, "million": tables::million_json(&million) });
    let config = json!({
        "validators": sizes,
        "collectors": args.collectors,
        "window_ms": args.window_ms,
        "flavour": flavour_name(args.lattice.flavour()),
        "profile": args.lattice.profile().name(),
    });
    sink.say(&format!("{} in all", text::seconds(report.elapsed_s())));
    sink.write(&report.object(&machine, "measured", &config, fields)?)
}

/// Returns the requested sizes, ascending.
fn sizes(args: &Args) -> Result<Vec<u32>> {
    let mut sizes = match args.validators.is_empty() {
        true => vec![1024],
        false => args.validators.clone(),
    };
    sizes.sort_unstable();
    let names = args.scheme.iter();
    let most = names.clone().map(|name| name.committee_max()).max();
    let most = most.unwrap_or(SUMS);
    if let Some(wrong) = sizes.iter().find(|n| !(2..=most).contains(*n)) {
        return Err(anyhow!("--validators {wrong}: 2 to {most}").into());
    }
    for name in names {
        let (most, word) = (name.committee_max(), format!("{name:?}").to_lowercase());
        for left_out in sizes.iter().filter(|votes| **votes > most) {
            note(&format!(
                "alphorn: {word} takes committees of at most {most}: none of {left_out}"
            ));
        }
    }
    Ok(sizes)
}

/// The kernel of each scheme.
struct Kernels {
    bls: alphorn_exec::Backend,
    labrador: alphorn_exec::Backend,
    stark: alphorn_exec::Backend,
}

impl Kernels {
    fn of(args: &Args) -> Result<Self> {
        Ok(Kernels {
            bls: args.common.kernel_of(&alphorn_bls::KERNELS)?,
            labrador: args.common.kernel_of(&alphorn_labrador::KERNELS)?,
            stark: args.common.kernel_of(&alphorn_stark::KERNELS)?,
        })
    }

    fn names(&self) -> std::collections::BTreeMap<&'static str, String> {
        [
            ("bls", self.bls.name()),
            ("labrador", self.labrador.name()),
            ("stark", self.stark.name()),
        ]
        .map(|(name, level)| (name, level.to_owned()))
        .into()
    }
}

/// Inputs common to all cases.
struct Bench<'a> {
    /// One with a single thread, and one with all.
    pools: Vec<ThreadPool>,
    message: [u8; 32],
    kernels: &'a Kernels,
    lattice: &'a LatticeOptions,
    rows: Vec<Row>,
}

impl Bench<'_> {
    /// Returns the pool with the most threads, for unmeasured work.
    fn pool(&self) -> Result<&ThreadPool> {
        let pool = self.pools.last();
        Ok(pool.ok_or_else(|| anyhow!("no threads"))?)
    }

    fn case<S: Scheme>(
        &mut self,
        name: &'static str,
        votes: u32,
        inputs: &Inputs<S>,
    ) -> Result<()> {
        let case = measure(inputs, votes, self.message, &self.pools)
            .map_err(|error| Error::Check(format!("{name}, {votes} votes: {error:#}")))?;
        self.rows.push(Row { name, case });
        Ok(())
    }

    fn bls(&mut self, votes: u32, bars: &mut Bars) -> Result<()> {
        let kernel = self.kernels.bls;
        let (registry, signers) = {
            let exec = alphorn_exec::Exec::new(kernel, Some(self.pool()?));
            (
                keycache::interop_registry(votes, exec, bars)?.registry,
                alphorn_bls::Signers::interop(0..votes, exec),
            )
        };
        let inputs = Inputs {
            scheme: Bls::new(kernel, Costs::measure(kernel)),
            registry: Arc::new(registry),
            signers: Arc::new(signers),
            mergeable_max: None,
            levels: None,
        };
        self.case("bls sum", votes, &inputs)
    }

    fn falcon(&mut self, votes: u32) -> Result<()> {
        let flavour = self.lattice.flavour();
        let (signers, registry) = alphorn_falcon::Signers::interop(
            flavour,
            votes,
            Exec::new(Backend::Portable, Some(self.pool()?)),
        );
        let (signers, registry) = (Arc::new(signers), Arc::new(registry));
        let [list, proof] = match flavour {
            Flavour::FnDsa => ["falcon list", "falcon proof"],
            Flavour::Original => ["falcon r3 list", "falcon r3 proof"],
            Flavour::Slot => ["falcon slot list", "falcon slot proof"],
        };
        for (name, form) in [(list, Collections::Lists), (proof, Collections::Proofs)] {
            let inputs = Inputs {
                scheme: Falcon::new(form, self.kernels.labrador)
                    .with_profile(self.lattice.profile())
                    .with_flavour(flavour),
                registry: registry.clone(),
                signers: signers.clone(),
                mergeable_max: None,
                levels: None,
            };
            self.case(name, votes, &inputs)?;
        }
        Ok(())
    }

    fn xmss(&mut self, votes: u32, set: Set, forms: &[(&'static str, Proved)]) -> Result<()> {
        let kernel = self.kernels.stark;
        let exec = Exec::new(kernel, Some(self.pool()?));
        let (signers, registry) = alphorn_xmss::Signers::interop(set, votes, SLOTS, exec)?;
        let (signers, registry) = (Arc::new(signers), Arc::new(registry));
        let proofs = proofs(set, PresetName::Fast);
        for (name, proved) in forms {
            let mergeable = proofs.mergeable().then(|| proofs.mergeable_max());
            let mut inputs = Inputs {
                scheme: match proved {
                    Proved::Nothing => Xmss::new(set, kernel),
                    Proved::Collections => Xmss::with_proofs(proofs, kernel),
                    Proved::Cells => Xmss::with_proofs_of_cells(proofs, kernel),
                },
                registry: registry.clone(),
                signers: signers.clone(),
                mergeable_max: mergeable.filter(|_| *proved == Proved::Collections),
                levels: None,
            };
            if *proved == Proved::Cells {
                // They are built once, and no step is charged for them.
                proofs.make_circuits();
                inputs.levels = Some((proofs.mergeable_max() as u32, proofs.children_max() as u16));
            }
            self.case(name, votes, &inputs)?;
        }
        Ok(())
    }
}

/// The level of evidence from which XMSS uses proofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proved {
    /// Only lists.
    Nothing,
    /// Collections, made from lists of cells.
    Collections,
    /// Cells too; their proofs are merged level by level.
    Cells,
}

/// Runs all cases in sequence.
fn rows(args: &Args, kernels: &Kernels, sizes: &[u32], bars: &mut Bars) -> Result<Vec<Row>> {
    let threads = args.common.threads()?;
    let mut pools = vec![options::pool(1)?];
    if threads > 1 {
        pools.push(options::pool(threads)?);
    }
    let mut bench = Bench {
        pools,
        message: Sha256::digest(format!("alphorn compare {}", args.common.seed)).into(),
        kernels,
        lattice: &args.lattice,
        rows: Vec::new(),
    };
    let mut plan: Vec<(SchemeName, u32)> = Vec::new();
    for name in &args.scheme {
        let fits = |votes: &&u32| **votes <= name.committee_max();
        plan.extend(sizes.iter().filter(fits).map(|votes| (*name, *votes)));
        let more = *name == SchemeName::Bls && args.validators.is_empty();
        plan.extend(more.then_some((*name, SUMS)));
    }
    let total = plan.len() as u64;
    for (at, (name, votes)) in plan.into_iter().enumerate() {
        bars.show(&format!("{name:?}").to_lowercase(), at as u64, total);
        match name {
            SchemeName::Bls => bench.bls(votes, bars)?,
            SchemeName::Falcon => bench.falcon(votes)?,
            SchemeName::Xmss => {
                let forms = [
                    ("xmss compact list", Proved::Nothing),
                    ("xmss compact proof", Proved::Collections),
                    ("xmss compact merged", Proved::Cells),
                ];
                bench.xmss(votes, Set::Compact, &forms)?;
                let forms = [
                    ("xmss prod list", Proved::Nothing),
                    ("xmss prod proof", Proved::Collections),
                    ("xmss prod merged", Proved::Cells),
                ];
                bench.xmss(votes, Set::Prod, &forms)?;
            }
        }
    }
    Ok(bench.rows)
}
