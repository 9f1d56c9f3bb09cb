//! `alphorn bench bls verify`: collections of a slot, aggregates of a committee, votes of a cell.

mod print;
mod world;

use super::columns::{Participation, Shape, Supports};
use super::least;
use crate::error::{Error, Result};
use crate::keycache;
use crate::options::Common;
use crate::progress::Bars;
use crate::report::Report;
use alphorn_bls::peer::{PeerMethod, verify_each};
use alphorn_bls::{
    Backend, Costs, Exec, KeyItem, KeyTable, Rlc, RlcBits, SumOptions, Verified, VerifyOptions,
    Workspace, verify_collections,
};
use alphorn_types::Layout;
use print::{fields, print};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use world::{World, damage, sign_all};

/// Verification of all collections of a slot, aggregates of a committee, or votes of a cell
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench bls verify
  alphorn bench bls verify --participation 0.99 --threads 1
  alphorn bench bls verify --bad 8 --messages 32
  alphorn bench bls verify --topic vote")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    shape: Shape,
    /// What is verified
    #[arg(long, value_enum, default_value_t = Topic::Collection)]
    topic: Topic,
    /// A share (as 0.5 or 95%) or a recorded epoch
    #[arg(
        long,
        default_value = "0.5",
        value_name = "SHARE|FILE",
        allow_negative_numbers = true
    )]
    participation: Participation,
    /// Different vote messages among the items
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    messages: u16,
    /// Items whose signature is swapped for one of another message
    #[arg(long, default_value_t = 1)]
    bad: usize,
    /// Width of the random weights
    #[arg(long, default_value = "64", value_parser = ["64", "128"])]
    rlc_bits: String,
    /// Runs of our method; the least time counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    /// The global topic: all collections of a slot
    Collection,
    /// One committee's topic: its aggregates, with their proofs of selection and envelopes
    Aggregate,
    /// One cell's topic: 512 single votes
    Vote,
}

/// Cells of a committee, aggregates of a cell, and votes of a cell, as Horn has them at 2^20.
const CELLS: u16 = 64;
const AGGREGATES_OF_A_CELL: u16 = 16;
const VOTES_OF_A_CELL: usize = 512;

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench bls verify", args.common.seed);
    let kernel = args.common.bls_kernel()?;
    let machine = args.common.machine(kernel)?;
    let pool = args.common.pool()?;
    let exec = Exec::new(Some(&pool));
    let shape = shape(args);
    let layout = shape.layout()?;
    let supports = match args.topic {
        Topic::Vote => None,
        _ => Some(Supports::draw(
            &shape,
            &layout,
            &args.participation,
            args.common.seed,
        )?),
    };
    let mut world = {
        let supports = supports.as_ref().map(Supports::all).unwrap_or_default();
        prepare(args, &layout, supports, kernel, &pool)?
    };

    let rlc = Rlc::new(
        Sha256::digest(args.common.seed.to_le_bytes()).into(),
        rlc_bits(args),
    );
    let options = VerifyOptions {
        rlc: &rlc,
        sums: SumOptions {
            method: None,
            costs: Costs::measure(kernel),
        },
        bases: &[],
        exec,
    };
    let mut workspace = Workspace::default();
    let honest = measure(args, &world, &options, &mut workspace)?;
    let peers = (!world.supports.is_empty()).then(|| peers(&world, exec));
    let damaged = damage(args, &mut world);
    let bad = if damaged.is_empty() {
        None
    } else {
        Some(measure(args, &world, &options, &mut workspace)?)
    };
    let agree = verdicts_agree(&honest, bad.as_ref(), &damaged, peers.as_ref());

    let sink = args.common.sink();
    sink.say(&machine.line());
    sink.say(&print(
        args,
        kernel,
        &world,
        &honest,
        peers.as_ref(),
        bad.as_ref(),
    ));
    let fields = fields(&honest, peers.as_ref(), bad.as_ref());
    let config = json!({ "shape": &shape, "topic": format!("{:?}", args.topic).to_lowercase(), "rlc_bits": args.rlc_bits });
    sink.write(&report.object(&machine, "measured", &config, fields)?)?;
    if agree {
        Ok(())
    } else {
        Err(Error::Check(
            "verdicts are not those of verifying each item alone".into(),
        ))
    }
}

/// Keys and signatures of what is verified.
fn prepare<'s>(
    args: &Args,
    layout: &Layout,
    supports: Vec<(usize, Vec<&'s [u64]>)>,
    kernel: Backend,
    pool: &rayon::ThreadPool,
) -> Result<World<'s>> {
    let mut bars = Bars::new();
    let exec = Exec::new(Some(pool));
    let points = keycache::interop_points(layout.validators(), kernel, exec, &mut bars)?;
    let sizes: Vec<usize> = (0..layout.committees())
        .map(|c| layout.committee_len(c) as usize)
        .collect();
    let key_table = KeyTable::new(kernel, points, &sizes)?;
    bars.show("signing", 0, 1);
    let world = sign_all(args, key_table, supports, pool);
    bars.clear();
    Ok(world)
}

/// The shape of the topic: a committee's topic is measured as one committee whose cells are the
/// committees of the key table.
fn shape(args: &Args) -> Shape {
    let cell = args.shape.validators / u32::from(args.shape.committees);
    match args.topic {
        Topic::Collection => args.shape.clone(),
        Topic::Aggregate => Shape {
            validators: cell.max(u32::from(CELLS)),
            committees: CELLS,
            collections: AGGREGATES_OF_A_CELL,
            multiplicity: "1".into(),
            ..args.shape.clone()
        },
        Topic::Vote => Shape {
            validators: VOTES_OF_A_CELL as u32,
            committees: 1,
            collections: 1,
            ..args.shape.clone()
        },
    }
}

fn rlc_bits(args: &Args) -> RlcBits {
    if args.rlc_bits == "64" {
        RlcBits::Bits64
    } else {
        RlcBits::Bits128
    }
}

/// Our verification: `inner` = the aggregates alone, `full` = with what stands beside them.
struct Ours {
    inner: Option<(f64, Verified)>,
    full: (f64, Verified),
}

fn measure(
    args: &Args,
    world: &World<'_>,
    options: &VerifyOptions<'_>,
    workspace: &mut Workspace,
) -> Result<Ours> {
    let (items, singles) = (world.items(), world.singles());
    let mut timed = |singles: &[KeyItem<'_>]| -> Result<(f64, Verified)> {
        let (seconds, verified) = least(usize::from(args.runs), || {
            verify_collections(&world.key_table, &items, singles, options, workspace)
        });
        Ok((seconds, verified?))
    };
    Ok(Ours {
        inner: if items.is_empty() {
            None
        } else {
            Some(timed(&[])?)
        },
        full: timed(&singles)?,
    })
}

/// The peer verifies every aggregate alone, by each of its ways to sum keys.
struct Peers {
    seconds: [f64; 3],
    verdicts: [Vec<bool>; 3],
}

fn peers(world: &World<'_>, exec: Exec<'_>) -> Peers {
    let items = world.items();
    let runs = PeerMethod::ALL
        .map(|method| least(1, || verify_each(&world.key_table, &items, method, exec)));
    Peers {
        seconds: [0, 1, 2].map(|i| runs[i].0),
        verdicts: runs.map(|(_, verdicts)| verdicts),
    }
}

fn verdicts_agree(
    honest: &Ours,
    bad: Option<&Ours>,
    damaged: &[usize],
    peers: Option<&Peers>,
) -> bool {
    let of = |ours: &Ours| ours.inner.as_ref().unwrap_or(&ours.full).1.bad();
    // What was bad before (a support without signers) stays bad, damaged or not.
    let expected: BTreeSet<usize> = of(honest)
        .into_iter()
        .chain(damaged.iter().copied())
        .collect();
    let located = bad.is_none_or(|bad| expected.into_iter().eq(of(bad)));
    let same = |verdicts: &Vec<bool>| {
        let alone: Vec<usize> = (0..verdicts.len()).filter(|i| !verdicts[*i]).collect();
        alone == of(honest)
    };
    located && peers.is_none_or(|peers| peers.verdicts.iter().all(same))
}
