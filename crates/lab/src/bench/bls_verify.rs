//! `alphorn bench bls verify`: collections of a slot, aggregates of a committee, votes of a cell.

mod print;
mod world;

use super::columns::{Shape, Supports};
use super::least;
use crate::error::{Error, Result};
use crate::options::Common;
use crate::participation::{Participation, check_records};
use crate::progress::Bars;
use crate::report::Report;
use alphorn_bls::peer::{PeerMethod, verify_batch, verify_each};
use alphorn_bls::{Bls, Costs, Located, RlcBits, VerifyTimings, Workspace};
use alphorn_exec::{Backend, Exec, Stop};
use alphorn_scheme::{Claim, Ctx, Layer, Scheme};
use anyhow::anyhow;
use print::{fields, print};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::{World, epoch_keys};

/// Verification of all collections of a slot, aggregates of a committee, or votes of a cell
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench bls verify
  alphorn bench bls verify --participation 0.99 --threads 1
  alphorn bench bls verify --bad 8 --messages 32
  alphorn bench bls verify --topic vote

blst runs beside ours on the same items: each alone, its keys summed one by one (naive), by blst's bulk
addition (bulk), or over the signers or the others, whichever are fewer (subtract); and all together
(batch): sums as in subtract, 64 random bits an item, Pippenger's buckets, one product of pairings.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    shape: Shape,
    /// What is verified
    #[arg(long, value_enum, default_value_t = Topic::Collection)]
    topic: Topic,
    /// A share (as 0.5 or 95%) or a recorded epoch; 0.5 by default
    #[arg(long, value_name = "SHARE|FILE", allow_negative_numbers = true)]
    participation: Option<Participation>,
    /// Different vote messages among the items
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    messages: u16,
    /// Collections, aggregates or votes whose signature is swapped for one of another message; at most as
    /// many as there are
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
    let sink = args.common.sink();
    check_records(args.participation.as_slice(), sink.path())?;
    check_topic(args)?;
    let kernels = args.common.kernels(&alphorn_bls::KERNELS)?;
    let machine = args.common.machine_of(&kernels)?;
    let pool = args.common.pool()?;
    sink.say(&machine.line());
    let mut cases = Vec::new();
    let mut agree = true;
    for &kernel in &kernels {
        let case = on_kernel(args, kernel, &pool)?;
        sink.say(&case.text);
        agree &= case.agree;
        cases.push(case.fields);
    }
    let fields = match <[_; 1]>::try_from(cases) {
        Ok([fields]) => fields,
        Err(cases) => {
            let cases = cases.into_iter().map(Value::Object).collect();
            Map::from_iter([("cases".to_owned(), Value::Array(cases))])
        }
    };
    let config = json!({ "shape": &shape(args), "topic": format!("{:?}", args.topic).to_lowercase(), "rlc_bits": args.rlc_bits });
    sink.write(&report.object(&machine, "measured", &config, fields)?)?;
    if agree {
        Ok(())
    } else {
        Err(Error::Check(
            "verdicts are not those of verifying each item alone".into(),
        ))
    }
}

/// Refuses options that the topic has no use for, and more bad items than it has items.
fn check_topic(args: &Args) -> Result<()> {
    let (shape, own) = (&args.shape, Shape::default());
    let given = [
        ("--collections", shape.collections != own.collections),
        ("--multiplicity", shape.multiplicity != own.multiplicity),
        ("--corr", shape.corr.is_some()),
        ("--participation", args.participation.is_some()),
        ("--validators", shape.validators != own.validators),
        ("--committees", shape.committees != own.committees),
    ];
    let (unused, what) = match args.topic {
        Topic::Collection => (0, ""),
        // A committee's topic has so many aggregates of each cell, and none of them counts anybody twice.
        Topic::Aggregate => (2, "--topic aggregate has 16 aggregates of each cell"),
        Topic::Vote => (
            given.len(),
            "--topic vote has a vote of each of 512 validators",
        ),
    };
    if let Some((option, _)) = given[..unused].iter().find(|(_, is_given)| *is_given) {
        return Err(anyhow!("{option}: {what}").into());
    }
    let shape = self::shape(args);
    let items = match args.topic {
        Topic::Vote => VOTES_OF_A_CELL,
        _ => usize::from(shape.committees) * usize::from(shape.collections),
    };
    match args.bad > items {
        true => Err(anyhow!("--bad {}: there are {items} items", args.bad).into()),
        false => Ok(()),
    }
}

/// What one kernel came to.
struct Case {
    text: String,
    fields: Map<String, Value>,
    agree: bool,
}

fn on_kernel(args: &Args, kernel: Backend, pool: &rayon::ThreadPool) -> Result<Case> {
    let exec = Exec::new(kernel, Some(pool));
    let shape = shape(args);
    let layout = shape.layout()?;
    let supports = match args.topic {
        Topic::Vote => None,
        _ => Some(Supports::draw(
            &shape,
            &layout,
            args.participation
                .as_ref()
                .unwrap_or(&Participation::Share(0.5)),
            args.common.seed,
        )?),
    };
    let mut bars = Bars::new();
    let bits = match args.rlc_bits.as_str() {
        "64" => RlcBits::Bits64,
        _ => RlcBits::Bits128,
    };
    let scheme = Bls::new(kernel, Costs::measure(kernel)).with_rlc_bits(bits);
    let keys = epoch_keys(&scheme, &layout, pool, &mut bars)?;
    bars.show("signing", 0, 1);
    let messages = u64::from(args.messages);
    let layer = match args.topic {
        Topic::Collection => Layer::Collection,
        Topic::Aggregate | Topic::Vote => Layer::Aggregate,
    };
    let mut world = match &supports {
        Some(supports) => World::of_supports(&keys, layer, supports.all(), messages, pool),
        None => World::of_votes(&keys, messages, pool),
    };
    bars.clear();

    let verifier = Verifier {
        scheme: &scheme,
        secret: secret(args.common.seed),
        pool,
    };
    let runs = usize::from(args.runs);
    let mut workspace = Workspace::default();
    let honest = verifier.measure(&world, runs, &mut workspace);
    let unsigned = world.unsigned();
    let peers = supports
        .is_some()
        .then(|| peers(&world, runs, args.common.seed, exec));
    let damaged = world.damage(args.bad);
    let bad = if damaged.is_empty() {
        None
    } else {
        Some(verifier.measure(&world, runs, &mut workspace))
    };
    let known = Known::of(unsigned, damaged);
    let agree = known.agrees(&honest, bad.as_ref(), peers.as_ref());
    Ok(Case {
        text: print(args, kernel, &world, &honest, peers.as_ref(), bad.as_ref())
            + if agree { "exact." } else { "wrong." },
        fields: fields(kernel, &honest, peers.as_ref(), bad.as_ref()),
        agree,
    })
}

/// The secret of weights that a seed fixes.
fn secret(seed: u64) -> [u8; 32] {
    Sha256::digest(seed.to_le_bytes()).into()
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

/// Our verification: `inner` = the aggregates alone, `full` = with what stands beside them.
struct Ours {
    inner: Option<(f64, Verified)>,
    full: (f64, Verified),
}

impl Ours {
    /// Seconds and verdicts of the aggregates alone; of everything where there are none.
    fn inner(&self) -> &(f64, Verified) {
        self.inner.as_ref().unwrap_or(&self.full)
    }
}

/// What a verification found and what it took.
struct Verified {
    items: usize,
    messages: usize,
    timings: VerifyTimings,
    locate: Duration,
    total: Duration,
    located: Located,
}

impl Verified {
    /// Indices of the claims that do not hold, ascending.
    fn bad(&self) -> &[usize] {
        &self.located.bad
    }
}

/// Verifies as a node does.
struct Verifier<'a> {
    scheme: &'a Bls,
    secret: [u8; 32],
    pool: &'a rayon::ThreadPool,
}

impl Verifier<'_> {
    /// The steps of [`alphorn_scheme::verify_claims`], which a verify job of a node runs.
    fn verify(&self, world: &World<'_>, claims: &[Claim], workspace: &mut Workspace) -> Verified {
        let (scheme, keys) = (self.scheme, world.keys);
        // What one run finds of these very supports would be known to the next.
        keys.forget();
        let ctx = &mut Ctx::pooled(self.pool, Stop::default(), Arc::default(), workspace);
        let start = Instant::now();
        let prepared = scheme.prepare(keys, claims, &self.secret, ctx);
        let tested = Instant::now();
        let located = match scheme.check(keys, &prepared, 0..claims.len()) {
            true => Located::default(),
            false => prepared.locate(keys, ctx),
        };
        Verified {
            items: claims.len(),
            messages: prepared.message_count(),
            timings: *prepared.timings(),
            locate: tested.elapsed(),
            total: start.elapsed(),
            located,
        }
    }

    /// The least time of `runs` runs.
    fn measure(&self, world: &World<'_>, runs: usize, workspace: &mut Workspace) -> Ours {
        let mut timed = |claims: &[Claim]| least(runs, || self.verify(world, claims, workspace));
        let inner = (!world.groups.is_empty()).then(|| timed(&world.groups));
        let all = [world.groups.as_slice(), &world.singles].concat();
        Ours {
            inner,
            full: timed(&all),
        }
    }
}

/// blst on the same items: every aggregate alone, by each of its ways to sum keys, and all of them
/// in one batch.
struct Peers {
    /// By the methods of [`PeerMethod::ALL`].
    seconds: [f64; 3],
    /// Seconds of [`verify_batch`], the fastest of all where every item holds.
    batch_s: f64,
    verdicts: [Vec<bool>; 3],
    batch_holds: bool,
}

impl Peers {
    /// Seconds of the fastest way.
    fn strongest_s(&self) -> f64 {
        self.seconds.iter().copied().fold(self.batch_s, f64::min)
    }
}

/// Slow ways run once, the batch as often as ours: its least time counts too.
fn peers(world: &World<'_>, runs: usize, seed: u64, exec: Exec<'_>) -> Peers {
    let items = world.items();
    let weight = |i: usize| {
        let digest = Sha256::digest([seed.to_le_bytes(), (i as u64).to_le_bytes()].concat());
        u64::from_le_bytes(digest[..8].try_into().expect("8 of 32 bytes")) | 1
    };
    let weights: Vec<u64> = (0..items.len()).map(weight).collect();
    let (batch_s, batch_holds) =
        least(runs, || verify_batch(world.table(), &items, &weights, exec));
    let each =
        PeerMethod::ALL.map(|method| least(1, || verify_each(world.table(), &items, method, exec)));
    Peers {
        seconds: [0, 1, 2].map(|i| each[i].0),
        batch_s,
        verdicts: each.map(|(_, verdicts)| verdicts),
        batch_holds,
    }
}

/// Which items do not hold, as is known from how they were made: their indices, ascending.
struct Known {
    /// Supports that nobody signed, before and after anything is damaged.
    unsigned: Vec<usize>,
    /// With those that were damaged.
    with_damaged: Vec<usize>,
}

impl Known {
    fn of(unsigned: Vec<usize>, damaged: Vec<usize>) -> Self {
        let all: BTreeSet<usize> = unsigned.iter().copied().chain(damaged).collect();
        Known {
            unsigned,
            with_damaged: all.into_iter().collect(),
        }
    }

    /// Whether exactly these were found, by our verification of the items alone and with their envelopes and
    /// proofs of selection, and by blst.
    fn agrees(&self, honest: &Ours, bad: Option<&Ours>, peers: Option<&Peers>) -> bool {
        // Items come first, and envelopes and proofs of selection hold.
        let found = |ours: &Ours, expected: &[usize]| {
            let inner = ours.inner.iter().chain([&ours.full]);
            inner
                .map(|(_, verified)| verified.bad())
                .all(|bad| bad == expected)
        };
        let alone = |verdicts: &Vec<bool>| {
            let bad = (0..verdicts.len()).filter(|i| !verdicts[*i]);
            bad.eq(self.unsigned.iter().copied())
        };
        found(honest, &self.unsigned)
            && bad.is_none_or(|bad| found(bad, &self.with_damaged))
            && peers.is_none_or(|peers| {
                peers.batch_holds == self.unsigned.is_empty() && peers.verdicts.iter().all(alone)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(bad: &[usize]) -> Ours {
        let verified = || Verified {
            items: 9,
            messages: 1,
            timings: VerifyTimings::default(),
            locate: Duration::ZERO,
            total: Duration::ZERO,
            located: Located {
                bad: bad.to_vec(),
                ..Located::default()
            },
        };
        Ours {
            inner: None,
            full: (0.0, verified()),
        }
    }

    /// Nothing else verifies votes: what is known decides alone.
    #[test]
    fn verdicts_are_held_against_what_is_known() {
        let known = Known::of(Vec::new(), vec![3, 5]);
        assert!(known.agrees(&ours(&[]), Some(&ours(&[3, 5])), None));
        // All refused, none found, one too many, and an honest one refused.
        for (honest, bad) in [
            (&[0, 1, 2, 3, 5][..], &[0, 1, 2, 3, 5][..]),
            (&[], &[]),
            (&[], &[3, 4, 5]),
            (&[1], &[1, 3, 5]),
        ] {
            assert!(
                !known.agrees(&ours(honest), Some(&ours(bad)), None),
                "{bad:?}"
            );
        }
        let unsigned = Known::of(vec![1], vec![1, 4]);
        assert!(unsigned.agrees(&ours(&[1]), Some(&ours(&[1, 4])), None));
        assert!(!unsigned.agrees(&ours(&[]), None, None));
    }
}
