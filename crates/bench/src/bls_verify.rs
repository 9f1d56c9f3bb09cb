//! `alphorn bench bls verify`: all collections of a slot, alone and with the claims that accompany them.

mod fixture;

use super::harness::{Bench, Column, count};
use super::supports::{Shape, Supports};
use alphorn_bls::peer::{PeerMethod, verify_batch, verify_each};
use alphorn_bls::{Bls, Costs, Workspace};
use alphorn_exec::{Exec, Stop};
use alphorn_lab::error::Result;
use alphorn_lab::options::Common;
use alphorn_lab::participation::{Participation, check_records};
use alphorn_lab::progress::Bars;
use alphorn_lab::report::Report;
use alphorn_lab::text::{ratio, seconds};
use alphorn_lab::timing::least;
use alphorn_scheme::{Claim, Ctx, Scheme};
use anyhow::anyhow;
use fixture::{Fixture, epoch_keys};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Benchmark the verification of all collections of a slot
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench bls verify
  alphorn bench bls verify --participation 0.99 --threads 1
  alphorn bench bls verify --bad 8

`inner` covers the collections alone, `full` also the proof of selection and the envelope of each. blst
runs on the same collections: each alone, with its keys summed one by one (naive), by blst's bulk addition
(bulk), or over the signers or the non-signers, whichever are fewer (subtract); and all together (batch),
with sums as in subtract, 64 random bits per item, Pippenger's buckets and one product of pairings.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    shape: Shape,
    /// Voters: a share (such as 0.5 or 95%) or a recorded epoch
    #[arg(
        long,
        value_name = "SHARE|FILE",
        default_value = "0.5",
        allow_negative_numbers = true
    )]
    participation: Participation,
    /// Number of collections whose signature is replaced by one of another message; at most all
    #[arg(long, default_value_t = 1)]
    bad: usize,
    /// Number of runs of our method; the minimum time counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
}

const COLUMNS: [Column; 7] = [
    ("", "/name", count),
    ("decode", "/decode_s", seconds),
    ("sums", "/sums_s", seconds),
    ("rlc", "/rlc_s", seconds),
    ("locate", "/locate_s", seconds),
    ("total", "/total_s", seconds),
    ("best", "/best_s", seconds),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let seed = args.common.seed;
    let report = Report::begin("bench bls verify", seed);
    let sink = args.common.sink();
    check_records(std::slice::from_ref(&args.participation), sink.path())?;
    let items = args.shape.all_collections();
    if args.bad > items {
        return Err(anyhow!("--bad {}: there are {items} items", args.bad).into());
    }
    let kernel = args.common.kernel(&alphorn_bls::KERNELS)?;
    let bench = Bench::new(report, sink, args.common.machine(kernel)?);
    let pool = args.common.pool()?;
    let layout = args.shape.layout()?;
    let supports = Supports::draw(&args.shape, &layout, &args.participation, seed)?;
    let mut bars = Bars::new();
    let scheme = Bls::new(kernel, Costs::measure(kernel));
    let keys = epoch_keys(&scheme, &layout, &pool, &mut bars)?;
    bars.show("signing", 0, 1);
    let mut fixture = Fixture::new(&keys, supports.all(), &pool);
    bars.clear();

    let verifier = Verifier {
        scheme: &scheme,
        secret: Sha256::digest(seed.to_le_bytes()).into(),
        pool: &pool,
        runs: usize::from(args.runs),
    };
    let unsigned = fixture.unsigned();
    let honest = verifier.measure(&fixture);
    let peers = Peers::of(
        &fixture,
        verifier.runs,
        seed,
        Exec::new(kernel, Some(&pool)),
    );
    let damaged = fixture.damage(args.bad);
    let bad = (!damaged.is_empty()).then(|| verifier.measure(&fixture));
    let agree = agree(&unsigned, &damaged, &honest, bad.as_ref(), &peers);

    let fields = fields(&honest, bad.as_ref(), &peers);
    bench.table(&rows(&fields), &COLUMNS);
    let ours_s = honest.inner.best_s;
    bench.say(&format!(
        "\n{items} items, {} messages: {}, {} the fastest way with blst, verdicts {}.",
        honest.inner.messages,
        seconds(ours_s),
        ratio(peers.strongest_s() / ours_s),
        if agree { "exact" } else { "wrong" }
    ));
    let config = json!({ "shape": &args.shape });
    let wrong = "verdicts are not those of verifying each item alone";
    bench.end(&config, fields, (!agree).then(|| wrong.to_owned()))
}

/// The verdict and cost of a verification.
struct Verified {
    messages: usize,
    /// Indices of the invalid claims, ascending.
    bad: Vec<usize>,
    tests: u64,
    miller_loops: u64,
    /// Steps of the last run.
    steps: Map<String, Value>,
    /// The least time of all runs.
    best_s: f64,
}

/// Our verification: `inner` = the collections alone, `full` = with their accompanying claims.
struct Ours {
    inner: Verified,
    full: Verified,
}

/// Verifies as a node does.
struct Verifier<'a> {
    scheme: &'a Bls,
    secret: [u8; 32],
    pool: &'a rayon::ThreadPool,
    runs: usize,
}

impl Verifier<'_> {
    /// Runs the steps of [`alphorn_scheme::verify_claims`], which a verify job of a node runs.
    fn verify(
        &self,
        fixture: &Fixture<'_>,
        claims: &[Claim],
        workspace: &mut Workspace,
    ) -> Verified {
        let (scheme, keys) = (self.scheme, fixture.keys);
        // Otherwise, what one run learns about these supports would be cached for the next.
        keys.forget();
        let ctx = &mut Ctx::pooled(self.pool, Stop::default(), Arc::default(), workspace);
        let start = Instant::now();
        let prepared = scheme.prepare(keys, claims, &self.secret, ctx);
        let tested = Instant::now();
        let located = match scheme.check(keys, &prepared, 0..claims.len()) {
            true => Default::default(),
            false => prepared.locate(keys, ctx),
        };
        let (locate, total) = (tested.elapsed(), start.elapsed());
        let timings = prepared.timings();
        let steps = [
            ("decode_s", timings.decode),
            ("sums_s", timings.sums),
            ("rlc_s", timings.rlc),
            ("locate_s", locate),
            ("total_s", total),
        ];
        let steps = steps.into_iter();
        Verified {
            messages: prepared.message_count(),
            bad: located.bad,
            tests: located.tests as u64,
            miller_loops: located.miller_loops as u64,
            steps: steps
                .map(|(name, took)| (name.to_owned(), json!(took.as_secs_f64())))
                .collect(),
            best_s: 0.0,
        }
    }

    /// Returns the least time of the runs.
    fn measure(&self, fixture: &Fixture<'_>) -> Ours {
        let mut workspace = Workspace::default();
        let mut timed = |claims: &[Claim]| {
            let verify = || self.verify(fixture, claims, &mut workspace);
            let (best_s, mut verified) = least(self.runs, verify);
            verified.best_s = best_s;
            verified
        };
        let all = [fixture.groups.as_slice(), &fixture.singles].concat();
        Ours {
            inner: timed(&fixture.groups),
            full: timed(&all),
        }
    }
}

/// blst on the same collections: each alone, by each of its ways to sum keys, and all of them in one batch.
struct Peers {
    /// Seconds and verdicts for the methods of [`PeerMethod::ALL`].
    each: [(f64, Vec<bool>); 3],
    /// The same for [`verify_batch`], the fastest of all where every item is valid.
    batch: (f64, bool),
}

impl Peers {
    /// Runs slow methods once, and the batch as often as ours, also taking the least time.
    fn of(fixture: &Fixture<'_>, runs: usize, seed: u64, exec: Exec<'_>) -> Peers {
        let items = fixture.items();
        let weight = |i: usize| {
            let digest = Sha256::digest([seed.to_le_bytes(), (i as u64).to_le_bytes()].concat());
            u64::from_le_bytes(digest[..8].try_into().expect("8 of 32 bytes")) | 1
        };
        let weights: Vec<u64> = (0..items.len()).map(weight).collect();
        let table = fixture.keys.table();
        let each = |method| least(1, || verify_each(table, &items, method, exec));
        Peers {
            batch: least(runs, || verify_batch(table, &items, &weights, exec)),
            each: PeerMethod::ALL.map(each),
        }
    }

    /// Returns the seconds of the fastest method.
    fn strongest_s(&self) -> f64 {
        let each = self.each.iter().map(|(seconds, _)| *seconds);
        each.fold(self.batch.0, f64::min)
    }
}

/// Whether all methods found the collections that nobody signed, and ours also found the damaged ones:
/// alone and with their accompanying claims, which are valid.
fn agree(
    unsigned: &[usize],
    damaged: &[usize],
    honest: &Ours,
    bad: Option<&Ours>,
    peers: &Peers,
) -> bool {
    let found = |ours: &Ours, expected: &[usize]| {
        [&ours.inner, &ours.full]
            .iter()
            .all(|verified| verified.bad == expected)
    };
    let with_damaged: BTreeSet<usize> = unsigned.iter().chain(damaged).copied().collect();
    let with_damaged: Vec<usize> = with_damaged.into_iter().collect();
    let alone = |verdicts: &[bool]| {
        let bad = (0..verdicts.len()).filter(|i| !verdicts[*i]);
        bad.eq(unsigned.iter().copied())
    };
    found(honest, unsigned)
        && bad.is_none_or(|bad| found(bad, &with_damaged))
        && peers.batch.1 == unsigned.is_empty()
        && peers.each.iter().all(|(_, verdicts)| alone(verdicts))
}

fn fields(honest: &Ours, bad: Option<&Ours>, peers: &Peers) -> Value {
    let block = |verified: &Verified| {
        let mut block = verified.steps.clone();
        block.insert("best_s".into(), json!(verified.best_s));
        Value::Object(block)
    };
    let each = PeerMethod::ALL.iter().zip(&peers.each);
    let mut blst: Map<String, Value> = each
        .map(|(method, (seconds, _))| (format!("{}_s", method.name()), json!(seconds)))
        .collect();
    blst.insert("subtract_batch_s".into(), json!(peers.batch.0));
    blst.insert("strongest_s".into(), json!(peers.strongest_s()));
    let bad = bad.map(|bad| {
        let mut fields = block(&bad.inner);
        fields["k"] = json!(bad.inner.bad.len());
        fields["located"] = json!(bad.inner.bad);
        fields["tests"] = json!(bad.inner.tests);
        fields["pairings"] = json!(bad.inner.miller_loops);
        fields["extra_s"] = json!(bad.inner.best_s - honest.inner.best_s);
        fields
    });
    json!({
        "inner": block(&honest.inner),
        "full": block(&honest.full),
        "messages": honest.inner.messages,
        "blst": blst,
        "bad": bad,
    })
}

/// Returns a row for each of our verifications, and for each blst method.
fn rows(fields: &Value) -> Vec<Value> {
    let named = |name: String, mut row: Value| {
        row["name"] = json!(name);
        row
    };
    let ours = ["inner", "full", "bad"].iter();
    let ours = ours.filter(|name| !fields[**name].is_null());
    let ours = ours.map(|name| named(format!("ours, {name}"), fields[*name].clone()));
    let peers = fields["blst"].as_object().into_iter().flatten();
    let peers = peers.filter(|(name, _)| *name != "strongest_s");
    let peers = peers.map(|(name, seconds)| {
        let name = name.trim_end_matches("_s").to_owned();
        named(format!("blst, {name}"), json!({ "best_s": seconds }))
    });
    ours.chain(peers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(bad: &[usize]) -> Ours {
        let verified = || Verified {
            messages: 1,
            bad: bad.to_vec(),
            tests: 0,
            miller_loops: 0,
            steps: Map::new(),
            best_s: 0.0,
        };
        Ours {
            inner: verified(),
            full: verified(),
        }
    }

    #[test]
    fn verdicts_are_held_against_what_is_known() {
        let holds = |unsigned: &[usize], honest: &[usize], bad: &[usize]| {
            let verdicts: Vec<bool> = (0..9).map(|i| !unsigned.contains(&i)).collect();
            let peers = Peers {
                each: [0, 1, 2].map(|_| (0.0, verdicts.clone())),
                batch: (0.0, unsigned.is_empty()),
            };
            agree(unsigned, &[3, 5], &ours(honest), Some(&ours(bad)), &peers)
        };
        assert!(holds(&[], &[], &[3, 5]));
        assert!(holds(&[1], &[1], &[1, 3, 5]));
        // All rejected, none found, one too many, and an honest one rejected.
        assert!(!holds(&[], &[0, 1, 2, 3, 5], &[0, 1, 2, 3, 5]));
        assert!(!holds(&[], &[], &[]));
        assert!(!holds(&[], &[], &[3, 4, 5]));
        assert!(!holds(&[], &[1], &[1, 3, 5]));
        assert!(!holds(&[1], &[], &[1, 3, 5]));
    }
}
