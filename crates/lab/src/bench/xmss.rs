//! `alphorn bench xmss`: hashing, keys, signatures and verification, beside the naive method.
//!
//! The naive method is the same mathematics with nothing shared: the portable kernel, one signature
//! at a time.

use super::least;
use crate::error::Result;
use crate::levels::levels;
use crate::machine::Machine;
use crate::options::{self, Json, distinct};
use crate::report::{Report, columns};
use crate::text;
use alphorn_exec::{Backend, Exec};
use alphorn_scheme::{MemoryWatermark, Role, SignItem, Watermark};
use alphorn_stark::{Fp, Permutations};
use alphorn_types::{Slot, Validator};
use alphorn_xmss::{Item, Purpose, SecretKey, Set, Signature, verify, verify_batch};
use anyhow::anyhow;
use serde_json::{Value, json};

/// XMSS: hashing, key generation, signing, verification
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench xmss
  alphorn bench xmss --set prod --kernel portable,avx2,avx512
  alphorn bench xmss --set prod --slots 131072 --threads 2 --runs 1 --json -

Hashing, signing and verification run on one thread, key generation on --threads. Each time is the
least of --runs, but for signing, where each index has its own number of tries: the mean over
--signatures indices, run once. `naive` is the portable kernel with one signature or index at a time
on one thread, in the same run. A key has --slots indices; the time of a whole one of 131072 is measured only with
--slots 131072, and by the naive method, which would take minutes, never.")]
pub(crate) struct Args {
    /// Parameter sets
    #[arg(
        long,
        value_name = "SET",
        default_value = "compact,prod",
        value_delimiter = ','
    )]
    set: Vec<Set>,
    /// Kernels: auto, portable, avx2 or avx512, a case each; or stark=LEVEL
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "auto",
        value_delimiter = ','
    )]
    kernel: Vec<String>,
    /// Signatures of a batch
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    signatures: u16,
    /// Active indices of the generated key
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    slots: u32,
    /// Threads of key generation; all cores that this process may use by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Runs of each operation but signing; the least time counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    #[command(flatten)]
    json: Json,
}

/// States that are hashed in one call.
const STATES: usize = 4096;

/// A figure: seconds of one operation.
struct Row {
    set: Option<Set>,
    kernel: Backend,
    op: &'static str,
    ours_s: f64,
    naive_s: Option<f64>,
}

/// Indices of a key whose generation is a figure of its own: two bottom trees of 65,536.
const KEY_SLOTS: u64 = 131_072;

/// Indices of a key that the naive method makes.
const NAIVE_SLOTS: u64 = 16;

/// A key, and signatures of it on one message at successive indices.
struct Signed {
    set: Set,
    key: SecretKey,
    message: [u8; 32],
    signatures: Vec<Signature>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench xmss", 0);
    distinct("--set", &args.set)?;
    let threads = args.threads.map_or_else(crate::machine::cores, usize::from);
    let kernels = levels(&alphorn_stark::KERNELS, &args.kernel, threads)?;
    let machine = Machine::with(threads, &alphorn_stark::KERNELS, &kernels);
    let pool = options::pool(threads)?;
    let mut rows = Vec::new();
    for kernel in &kernels {
        rows.extend(hashing(args, *kernel));
    }
    for set in &args.set {
        let fastest = Exec::new(alphorn_stark::KERNELS.measured(), Some(&pool));
        let signed = sign_all(args, *set, fastest)?;
        for kernel in &kernels {
            rows.extend(operations(args, &signed, *kernel)?);
            rows.extend(keys(args, *set, Exec::new(*kernel, Some(&pool)))?);
        }
    }
    let sink = args.json.sink();
    sink.say(&machine.line());
    sink.say(&format!("\n{}", printed(&rows)));
    let case = |row: &Row| {
        json!({
            "set": row.set.map(Set::name),
            "kernel": row.kernel.name(),
            "op": row.op,
            "ours_s": row.ours_s,
            "naive_s": row.naive_s,
        })
    };
    let cases = Value::Array(rows.iter().map(case).collect());
    let config = json!({
        "runs": args.runs,
        "signatures": args.signatures,
        "slots": args.slots,
        "threads": threads,
    });
    let fields = json!({ "cases": cases });
    sink.write(&report.object(&machine, "measured", &config, fields)?)
}

fn printed(rows: &[Row]) -> String {
    let row = |row: &Row| {
        let naive = row.naive_s.map_or("-".into(), text::seconds);
        let ratio = row.naive_s.map(|naive| text::ratio(naive / row.ours_s));
        vec![
            ("operation, each", row.op.into()),
            ("set", row.set.map_or("-".into(), |set| set.name().into())),
            ("kernel", row.kernel.to_string()),
            ("naive", naive),
            ("ours", text::seconds(row.ours_s)),
            ("faster by", ratio.unwrap_or_else(|| "-".into())),
        ]
    };
    columns(rows.iter().map(row))
}

/// Seconds of one of `items` operations.
fn each<T>(args: &Args, items: usize, run: impl FnMut() -> T) -> f64 {
    least(usize::from(args.runs), run).0 / items as f64
}

fn hashing(args: &Args, kernel: Backend) -> Vec<Row> {
    let mut narrow = vec![[Fp::ONE; 16]; STATES];
    let mut wide = vec![[Fp::ONE; 24]; STATES];
    let row = |op, ours_s, naive_s| Row {
        set: None,
        kernel,
        op,
        ours_s,
        naive_s: Some(naive_s),
    };
    let naive = Backend::Portable;
    let narrow_s = |kernel: Backend, states: &mut [[Fp; 16]]| {
        each(args, STATES, || kernel.compress_16(states))
    };
    let wide_s = |kernel: Backend, states: &mut [[Fp; 24]]| {
        each(args, STATES, || kernel.compress_24(states))
    };
    vec![
        row(
            "Poseidon of width 16",
            narrow_s(kernel, &mut narrow),
            narrow_s(naive, &mut narrow),
        ),
        row(
            "Poseidon of width 24",
            wide_s(kernel, &mut wide),
            wide_s(naive, &mut wide),
        ),
    ]
}

/// Signs one message with one key at many indices.
fn sign_all(args: &Args, set: Set, exec: Exec<'_>) -> Result<Signed> {
    let lifetime = set.params().lifetime();
    let count = u64::from(args.signatures).min(lifetime);
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

fn sign(
    key: &SecretKey,
    message: &[u8; 32],
    slots: std::ops::Range<u64>,
    exec: Exec<'_>,
) -> Result<Vec<Signature>> {
    let store = MemoryWatermark::new(1);
    let sign = |slot| -> Result<Signature> {
        let permit = store
            .reserve(
                Slot(slot),
                &SignItem::new(Validator(0), Role::Vote, *message),
            )
            .map_err(|refused| anyhow!("slot {slot}: {refused}"))?;
        Ok(key.sign(permit, exec)?)
    };
    slots.map(sign).collect()
}

fn operations(args: &Args, signed: &Signed, kernel: Backend) -> Result<Vec<Row>> {
    let count = signed.signatures.len();
    let items: Vec<Item<'_>> = signed
        .signatures
        .iter()
        .enumerate()
        .map(|(i, signature)| Item {
            key: signed.key.public_key(),
            index: i as u32,
            message: &signed.message,
            signature,
        })
        .collect();
    let one_thread = Exec::new(kernel, None);
    let naive = Exec::new(Backend::Portable, None);
    let verdicts = verify_batch(signed.set, &items, one_thread);
    if verdicts.contains(&false) {
        return Err(anyhow!("a signature of its own key does not hold").into());
    }
    let alone_s = |kernel| each(args, 1, || verify(items[0], kernel));
    let naive_s = alone_s(Backend::Portable);
    let row = |op, ours_s, naive_s| Row {
        set: Some(signed.set),
        kernel,
        op,
        ours_s,
        naive_s: Some(naive_s),
    };
    // Each index has its own number of tries: the mean over all of them counts.
    let sign_s = |exec| {
        let (seconds, signed) = least(1, || sign(&signed.key, &[9; 32], 0..count as u64, exec));
        signed.map(|_| seconds / count as f64)
    };
    let batch_s = each(args, count, || verify_batch(signed.set, &items, one_thread));
    Ok(vec![
        row("verify one", alone_s(kernel), naive_s),
        row("verify in a batch", batch_s, naive_s),
        row("sign", sign_s(one_thread)?, sign_s(naive)?),
    ])
}

fn keys(args: &Args, set: Set, exec: Exec<'_>) -> Result<Vec<Row>> {
    let slots = u64::from(args.slots).min(set.params().lifetime());
    let make = || SecretKey::interop(set, Purpose::Vote, 1, 0..slots, exec);
    let (seconds, key) = least(usize::from(args.runs), make);
    let key = key?;
    let (tree, secret) = (key.to_tree_file(), key.to_secret_file());
    let kernel = exec.backend();
    let read = || SecretKey::from_files(&tree, &secret, kernel);
    let (start_s, again) = least(usize::from(args.runs), read);
    again?;
    let naive = Exec::new(Backend::Portable, None);
    let make = || SecretKey::interop(set, Purpose::Vote, 1, 0..NAIVE_SLOTS, naive);
    let naive_s = each(args, NAIVE_SLOTS as usize, make);
    let row = |op, ours_s, naive_s| Row {
        set: Some(set),
        kernel,
        op,
        ours_s,
        naive_s,
    };
    let mut rows = vec![row(
        "an index of a new key",
        seconds / slots as f64,
        Some(naive_s),
    )];
    if slots == KEY_SLOTS {
        rows.push(row("new key of 131072 indices", seconds, None));
    }
    rows.push(row("start of a key from its files", start_s, None));
    Ok(rows)
}
