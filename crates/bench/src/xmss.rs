//! `alphorn bench xmss`: hashing, keys, signatures and verification, against the naive method.
//!
//! The naive method is the same mathematics without sharing: the portable kernel, one signature at a time.

use super::costs::permit;
use super::harness::{Bench, Column, count};
use alphorn_exec::{Backend, Exec};
use alphorn_lab::distinct::distinct;
use alphorn_lab::error::Result;
use alphorn_lab::machine::Machine;
use alphorn_lab::options::Plain;
use alphorn_lab::report::Report;
use alphorn_lab::text::{ratio, seconds};
use alphorn_lab::timing::least;
use alphorn_scheme::MemoryWatermark;
use alphorn_stark::{Fp, Permutations};
use alphorn_xmss::{Item, Purpose, SecretKey, Set, Signature, verify, verify_batch};
use anyhow::anyhow;
use serde_json::{Value, json};

/// Benchmark XMSS: hashing, key generation, signing, verification
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench xmss
  alphorn bench xmss --set prod --kernel portable,avx2,avx512
  alphorn bench xmss --set prod --slots 131072 --threads 2 --runs 1 --json -

Hashing, signing and verification run on one thread, key generation on --threads. Each time is the
minimum of --runs, except for signing, where each index needs its own number of tries: there it is
the mean over 64 indices, run once. `naive` is the portable kernel with one signature or index at a
time on one thread, in the same run. A key has --slots indices; the time for a full key of 131072 is
measured only with --slots 131072, and never by the naive method, which would take minutes.")]
pub(crate) struct Args {
    /// Parameter sets
    #[arg(
        long,
        value_name = "SET",
        default_value = "compact,prod",
        value_delimiter = ','
    )]
    set: Vec<Set>,
    /// Number of active indices of the generated key
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    slots: u32,
    /// Number of runs per operation except signing; the minimum time counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    #[command(flatten)]
    plain: Plain,
}

/// States hashed in one call.
const STATES: usize = 4096;
/// Signatures in a batch.
const BATCH: u64 = 64;
/// Indices of a key whose generation is reported separately: two bottom trees of 65,536.
const KEY_SLOTS: u64 = 131_072;
/// Indices of a key that the naive method makes.
const NAIVE_SLOTS: u64 = 16;

const COLUMNS: [Column; 6] = [
    ("operation, each", "/op", count),
    ("set", "/set", count),
    ("kernel", "/kernel", count),
    ("naive", "/naive_s", seconds),
    ("ours", "/ours_s", seconds),
    ("faster by", "/faster", ratio),
];

/// Seconds of one operation, ours and by the naive method.
type Figure = (&'static str, f64, Option<f64>);

/// A key, and its signatures of one message at successive indices.
struct Signed {
    set: Set,
    key: SecretKey,
    message: [u8; 32],
    signatures: Vec<Signature>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench xmss", 0);
    distinct("--set", &args.set)?;
    let (of, threads) = (&alphorn_stark::KERNELS, args.plain.threads()?);
    let kernels = args.plain.kernels(of)?;
    let machine = Machine::with(threads, of, &kernels);
    let bench = Bench::new(report, args.plain.sink(), machine);
    let pool = args.plain.pool()?;
    let mut cases = Vec::new();
    let mut add = |set: Option<Set>, kernel: Backend, figures: Vec<Figure>| {
        cases.extend(figures.into_iter().map(|(op, ours_s, naive_s)| {
            json!({
                "set": set.map(Set::name),
                "kernel": kernel.name(),
                "op": op,
                "ours_s": ours_s,
                "naive_s": naive_s,
                "faster": naive_s.map(|naive_s| naive_s / ours_s),
            })
        }));
    };
    for &kernel in &kernels {
        add(None, kernel, hashing(args, kernel));
    }
    for &set in &args.set {
        let signed = sign_all(set, Exec::new(of.measured(), Some(&pool)))?;
        for &kernel in &kernels {
            add(Some(set), kernel, operations(args, &signed, kernel)?);
            add(
                Some(set),
                kernel,
                keys(args, set, Exec::new(kernel, Some(&pool)))?,
            );
        }
    }
    bench.table(&cases, &COLUMNS);
    let config = json!({ "runs": args.runs, "slots": args.slots, "threads": threads });
    bench.end(&config, json!({ "cases": Value::Array(cases) }), None)
}

/// Returns the seconds of one of `items` operations.
fn each<T>(args: &Args, items: usize, run: impl FnMut() -> T) -> f64 {
    least(usize::from(args.runs), run).0 / items as f64
}

fn hashing(args: &Args, kernel: Backend) -> Vec<Figure> {
    let mut narrow = vec![[Fp::ONE; 16]; STATES];
    let mut wide = vec![[Fp::ONE; 24]; STATES];
    let mut narrow_s = |kernel: Backend| each(args, STATES, || kernel.compress_16(&mut narrow));
    let mut wide_s = |kernel: Backend| each(args, STATES, || kernel.compress_24(&mut wide));
    let naive = Backend::Portable;
    vec![
        (
            "Poseidon of width 16",
            narrow_s(kernel),
            Some(narrow_s(naive)),
        ),
        ("Poseidon of width 24", wide_s(kernel), Some(wide_s(naive))),
    ]
}

/// Signs one message with one key at many indices.
fn sign_all(set: Set, exec: Exec<'_>) -> Result<Signed> {
    let count = BATCH.min(set.params().lifetime());
    let key = SecretKey::interop(set, Purpose::Vote, 0, 0..count, exec)?;
    let message = [7; 32];
    let signatures = sign(&key, &message, 0..count, exec)?;
    Ok(Signed {
        set,
        key,
        message,
        signatures,
    })
}

/// Signs a message in each of some slots, as the only validator.
pub(super) fn sign(
    key: &SecretKey,
    message: &[u8; 32],
    slots: std::ops::Range<u64>,
    exec: Exec<'_>,
) -> Result<Vec<Signature>> {
    let store = MemoryWatermark::new(1);
    let sign = |slot| Ok(key.sign(permit(&store, slot, 0, *message)?, exec)?);
    slots.map(sign).collect()
}

fn operations(args: &Args, signed: &Signed, kernel: Backend) -> Result<Vec<Figure>> {
    let count = signed.signatures.len();
    let item = |(index, signature)| Item {
        key: signed.key.public_key(),
        index,
        message: &signed.message,
        signature,
    };
    let items: Vec<Item<'_>> = (0u32..).zip(&signed.signatures).map(item).collect();
    let one_thread = Exec::new(kernel, None);
    if verify_batch(signed.set, &items, one_thread).contains(&false) {
        return Err(anyhow!("a signature of its own key does not hold").into());
    }
    let alone_s = |kernel| each(args, 1, || verify(items[0], kernel));
    let naive_s = Some(alone_s(Backend::Portable));
    // Each index needs its own number of tries, so the mean over all of them is used.
    let sign_s = |exec| {
        let (seconds, made) = least(1, || sign(&signed.key, &[9; 32], 0..count as u64, exec));
        made.map(|_| seconds / count as f64)
    };
    let batch_s = each(args, count, || verify_batch(signed.set, &items, one_thread));
    let naive_sign_s = sign_s(Exec::new(Backend::Portable, None))?;
    Ok(vec![
        ("verify one", alone_s(kernel), naive_s),
        ("verify in a batch", batch_s, naive_s),
        ("sign", sign_s(one_thread)?, Some(naive_sign_s)),
    ])
}

fn keys(args: &Args, set: Set, exec: Exec<'_>) -> Result<Vec<Figure>> {
    let slots = u64::from(args.slots).min(set.params().lifetime());
    let make = |slots, exec| SecretKey::interop(set, Purpose::Vote, 1, 0..slots, exec);
    let (seconds, key) = least(usize::from(args.runs), || make(slots, exec));
    let key = key?;
    let (tree, secret) = (key.to_tree_file(), key.to_secret_file());
    let read = || SecretKey::from_files(&tree, &secret, exec.backend());
    let (start_s, again) = least(usize::from(args.runs), read);
    again?;
    let naive = Exec::new(Backend::Portable, None);
    let naive_s = each(args, NAIVE_SLOTS as usize, || make(NAIVE_SLOTS, naive));
    let mut figures = vec![(
        "an index of a new key",
        seconds / slots as f64,
        Some(naive_s),
    )];
    if slots == KEY_SLOTS {
        figures.push(("new key of 131072 indices", seconds, None));
    }
    figures.push(("start of a key from its files", start_s, None));
    Ok(figures)
}
