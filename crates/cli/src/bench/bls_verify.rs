//! `alphorn bench bls verify`: collections of a slot, aggregates of a committee, votes of a cell.

use super::columns::{Participation, Shape, Supports};
use super::least;
use crate::error::{Error, Result};
use crate::keycache;
use crate::options::Common;
use crate::progress::Bars;
use crate::report::{Report, table};
use crate::text;
use alphorn_bls::peer::{PeerMethod, verify_each};
use alphorn_bls::{
    Backend, CollectionItem, Costs, Exec, InteropKey, KeyItem, KeyTable, PublicKey, Rlc, RlcBits,
    SIGNATURE_BYTES, SumOptions, Verified, VerifyOptions, Workspace, interop_keys, sign,
    verify_collections,
};
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

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
    #[arg(long, default_value = "0.5", value_name = "SHARE|FILE")]
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

/// Everything that is verified, owned.
struct World<'s> {
    key_table: KeyTable,
    supports: Vec<(usize, Vec<&'s [u64]>)>,
    messages: Vec<[u8; 32]>,
    signatures: Vec<[u8; SIGNATURE_BYTES]>,
    singles: Vec<(PublicKey, [u8; 32], [u8; SIGNATURE_BYTES])>,
}

impl World<'_> {
    fn items(&self) -> Vec<CollectionItem<'_>> {
        let item = |(i, (committee, planes)): (usize, &(usize, Vec<_>))| CollectionItem {
            committee: *committee,
            planes: &self.supports[i].1[..planes.len()],
            message: &self.messages[i],
            signature: &self.signatures[i],
        };
        self.supports.iter().enumerate().map(item).collect()
    }

    fn singles(&self) -> Vec<KeyItem<'_>> {
        self.singles
            .iter()
            .map(|(key, message, signature)| KeyItem {
                key: *key,
                message,
                signature,
            })
            .collect()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench bls verify", args.common.seed);
    let kernel = args.common.bls_kernel()?;
    let machine = args.common.machine(kernel)?;
    let pool = args.common.pool()?;
    let exec = Exec::new(Some(&pool));
    let mut bars = Bars::new();
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
    let points = keycache::interop_points(layout.validators(), kernel, exec, &mut bars)?;
    let sizes: Vec<usize> = (0..layout.committees())
        .map(|c| layout.committee_len(c) as usize)
        .collect();
    let key_table = KeyTable::new(kernel, points, &sizes)?;
    bars.show("signing", 0, 1);
    let mut world = sign_all(
        args,
        key_table,
        supports.as_ref().map(Supports::all).unwrap_or_default(),
        &pool,
    );
    bars.clear();

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

fn message(label: &str, i: u64) -> [u8; 32] {
    Sha256::new()
        .chain_update(label)
        .chain_update(i.to_le_bytes())
        .finalize()
        .into()
}

/// Real signatures for everything: sums by the sum of the signers' interop keys, and beside each
/// aggregate a proof of selection (one message for all) and an envelope (a message each).
fn sign_all<'s>(
    args: &Args,
    key_table: KeyTable,
    supports: Vec<(usize, Vec<&'s [u64]>)>,
    pool: &rayon::ThreadPool,
) -> World<'s> {
    let keys = interop_keys(0..key_table.keys().len() as u64, Exec::new(Some(pool)));
    let starts: Vec<usize> = (0..key_table.committees())
        .scan(0, |next, c| {
            let start = *next;
            *next += key_table.committee(c).len();
            Some(start)
        })
        .collect();
    let messages: Vec<[u8; 32]> = (0..supports.len())
        .map(|i| message("vote", i as u64 % u64::from(args.messages)))
        .collect();
    let single = |signer: usize, message: [u8; 32]| {
        let secret = keys[signer].to_secret_key();
        (
            secret.public_key(),
            message,
            sign(&secret, &message).to_bytes(),
        )
    };
    let signed = |i: usize| {
        let (committee, planes) = &supports[i];
        let start = starts[*committee];
        let signers = (0..key_table.committee(*committee).len()).map(|p| {
            let multiplicity = planes
                .iter()
                .enumerate()
                .fold(0, |m, (j, plane)| m | (plane[p / 64] >> (p % 64) & 1) << j);
            (&keys[start + p], multiplicity as u8)
        });
        // A support without signers has no signature: the identity's bytes, which nobody accepts.
        let sum = InteropKey::weighted_sum(signers);
        let signature = sum.map_or([0; SIGNATURE_BYTES], |sum| {
            sign(&sum.to_secret_key(), &messages[i]).to_bytes()
        });
        let sender = start + i % key_table.committee(*committee).len().max(1);
        (
            signature,
            [
                single(sender, message("select", 0)),
                single(sender, message("envelope", i as u64)),
            ],
        )
    };
    let (signatures, envelopes): (Vec<_>, Vec<_>) =
        pool.install(|| (0..supports.len()).into_par_iter().map(signed).unzip());
    let singles = match args.topic {
        Topic::Vote => pool.install(|| {
            (0..keys.len())
                .into_par_iter()
                .map(|i| single(i, message("vote", i as u64 % u64::from(args.messages))))
                .collect()
        }),
        _ => envelopes.into_iter().flatten().collect(),
    };
    World {
        key_table,
        supports,
        messages,
        signatures,
        singles,
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

/// Swaps signatures of some items for valid points that sign something else; their indices.
fn damage(args: &Args, world: &mut World<'_>) -> Vec<usize> {
    let other = sign(
        &InteropKey::new(u64::MAX).to_secret_key(),
        b"another message",
    )
    .to_bytes();
    let (n, aggregates) = match args.topic {
        Topic::Vote => (world.singles.len(), false),
        _ => (world.signatures.len(), true),
    };
    let bad = args.bad.min(n);
    let chosen: Vec<usize> = (0..bad).map(|k| (k * n / bad.max(1) + 7) % n).collect();
    for &i in &chosen {
        if aggregates {
            world.signatures[i] = other;
        } else {
            world.singles[i].2 = other;
        }
    }
    let mut chosen = chosen;
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

fn verdicts_agree(
    honest: &Ours,
    bad: Option<&Ours>,
    damaged: &[usize],
    peers: Option<&Peers>,
) -> bool {
    let of = |ours: &Ours| ours.inner.as_ref().unwrap_or(&ours.full).1.bad();
    let located = bad.is_none_or(|bad| {
        of(bad)
            .iter()
            .filter(|i| !of(honest).contains(i))
            .eq(damaged)
    });
    let same = |verdicts: &Vec<bool>| {
        let alone: Vec<usize> = (0..verdicts.len()).filter(|i| !verdicts[*i]).collect();
        alone == of(honest)
    };
    located && peers.is_none_or(|peers| peers.verdicts.iter().all(same))
}

fn steps(verified: &Verified) -> [(&'static str, f64); 6] {
    let timings = &verified.timings;
    [
        ("decode", timings.decode.as_secs_f64()),
        ("subgroup", timings.subgroup.as_secs_f64()),
        ("sums", timings.sums.as_secs_f64()),
        ("rlc", timings.rlc.as_secs_f64()),
        ("locate", timings.locate.as_secs_f64()),
        ("total", timings.total.as_secs_f64()),
    ]
}

fn print(
    args: &Args,
    kernel: Backend,
    world: &World<'_>,
    honest: &Ours,
    peers: Option<&Peers>,
    bad: Option<&Ours>,
) -> String {
    let header = [
        "", "decode", "subgroup", "sums", "rlc", "locate", "total", "best",
    ];
    let mut rows = Vec::new();
    let mut row = |name: &str, (seconds, verified): &(f64, Verified)| {
        let mut cells = vec![name.to_owned()];
        cells.extend(
            steps(verified)
                .iter()
                .map(|(_, value)| text::seconds(*value)),
        );
        cells.push(text::seconds(*seconds));
        rows.push(cells);
    };
    if let Some(inner) = &honest.inner {
        row("ours, inner", inner);
    }
    row("ours, full", &honest.full);
    if let Some(bad) = bad {
        row(
            &format!("with {} bad", args.bad),
            bad.inner.as_ref().unwrap_or(&bad.full),
        );
    }
    for (method, seconds) in PeerMethod::ALL
        .iter()
        .zip(peers.map(|peers| peers.seconds).unwrap_or_default())
    {
        if peers.is_some() {
            let mut cells = vec![format!("blst, {}", method.name())];
            cells.extend(std::iter::repeat_n(String::new(), 5));
            cells.extend([text::seconds(seconds), text::seconds(seconds)]);
            rows.push(cells);
        }
    }
    let ours = honest.inner.as_ref().unwrap_or(&honest.full);
    let beside = peers.map_or(String::new(), |peers| {
        format!(
            ", {} blst bulk, {} naive",
            text::ratio(peers.seconds[1] / ours.0),
            text::ratio(peers.seconds[0] / ours.0)
        )
    });
    let items = if world.supports.is_empty() {
        world.singles.len()
    } else {
        world.supports.len()
    };
    let verdict = format!(
        "{items} items on kernel {kernel}, {} messages: {}{beside}, verdicts {}.",
        ours.1.messages,
        text::seconds(ours.0),
        if peers.is_some() {
            "compared with verifying each alone"
        } else {
            "exact"
        }
    );
    format!("\n{}\n\n{verdict}", table(&header, &rows))
}

fn fields(honest: &Ours, peers: Option<&Peers>, bad: Option<&Ours>) -> Map<String, Value> {
    let block = |(seconds, verified): &(f64, Verified)| {
        let mut block: Map<String, Value> = steps(verified)
            .iter()
            .map(|(name, value)| (format!("{name}_s"), json!(value)))
            .collect();
        block.insert("best_s".into(), json!(seconds));
        Value::Object(block)
    };
    let digest = |verdicts: &mut dyn Iterator<Item = bool>| {
        hex::encode(Sha256::digest(verdicts.map(u8::from).collect::<Vec<_>>()))
    };
    let ours = honest.inner.as_ref().unwrap_or(&honest.full);
    let mut fields = Map::new();
    if let Some(inner) = &honest.inner {
        fields.insert("inner".into(), block(inner));
    }
    fields.insert("full".into(), block(&honest.full));
    fields.insert("messages".into(), json!(ours.1.messages));
    fields.insert(
        "verdict_digest".into(),
        json!(digest(
            &mut ours.1.verdicts.iter().map(|verdict| verdict.is_ok())
        )),
    );
    if let Some(peers) = peers {
        let methods = PeerMethod::ALL.iter().enumerate().flat_map(|(i, method)| {
            let verdicts = digest(&mut peers.verdicts[i].iter().copied());
            [
                (format!("{}_s", method.name()), json!(peers.seconds[i])),
                (format!("{}_verdict_digest", method.name()), json!(verdicts)),
            ]
        });
        fields.insert("blst".into(), Value::Object(methods.collect()));
    }
    if let Some(bad) = bad {
        let (seconds, verified) = bad.inner.as_ref().unwrap_or(&bad.full);
        let found = verified.bad();
        fields.insert(
            "bad".into(),
            json!({
                "k": found.len(),
                "located": found,
                "tests": verified.located.tests,
                "pairings": verified.located.miller_loops,
                "extra_s": seconds - ours.0,
                "ratio_honest": seconds / ours.0,
            }),
        );
    }
    fields
}
