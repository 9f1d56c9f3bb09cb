//! `alphorn bench bls ipa`: proofs of aggregate keys beside direct sums of the same columns.

use super::least;
use crate::error::{Error, Result};
use crate::options::Common;
use crate::progress::Bars;
use crate::report::{Report, table};
use crate::text;
use alphorn_bls::ipa::{Bases, Claim, Committee, IpaError, KEYS_MAX, Located, Proof};
use alphorn_bls::ipa::{locate, prove, verify, verify_batch};
use alphorn_bls::{
    Columns, CommitteeJob, Costs, KeyTable, PublicKey, Rlc, RlcBits, SumOptions, Workspace,
    interop_keys, sum_columns, vartime_interop_public_keys,
};
use alphorn_exec::{Backend, Exec};
use alphorn_types::Bitfield;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Map, Value, json};

/// Proofs of aggregate keys, a research topic, beside direct sums
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn bench bls ipa --n 1024
  alphorn bench bls ipa --n 32768 --batch 16 --forged 2 --json -")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Keys of the committee, a case each
    #[arg(long, value_delimiter = ',', default_value = "1024,32768",
          value_parser = clap::value_parser!(u32).range(1..=KEYS_MAX as i64))]
    n: Vec<u32>,
    /// Proofs of a batch, all of one committee
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    /// Proofs of the batch that are forged
    #[arg(long, default_value_t = 1)]
    forged: u16,
    /// Runs of everything but the proof and the search; the least time counts
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
}

/// Different proofs of a batch: it repeats them, which changes nothing in the work of its verifier.
/// The columns that are added directly are all different.
const PROOFS: usize = 2;
/// Planes of the multiplicities 0 to 3.
const PLANES: usize = 2;

/// A collection with its proof.
struct Collection {
    signers: Bitfield,
    aggregate: PublicKey,
    proof: Proof,
}

struct Case {
    n: u32,
    bases_s: f64,
    prove_s: f64,
    verify_s: f64,
    batch_s: f64,
    search_s: f64,
    found: Located,
    direct_s: f64,
}

impl Case {
    fn proof_bytes(&self) -> usize {
        Proof::bytes_len(self.n as usize)
    }

    /// The public notes' proof: 4·log2(n) points and one scalar, without the part that proves who
    /// signed.
    fn notes_bytes(&self) -> usize {
        let rounds = self.n.next_power_of_two().ilog2() as usize;
        4 * rounds * 48 + 32
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.forged > args.batch {
        let (forged, batch) = (args.forged, args.batch);
        return Err(anyhow::anyhow!("--forged {forged}: the batch has {batch} proofs").into());
    }
    let report = Report::begin("bench bls ipa", args.common.seed);
    let kernel = args.common.kernel(&alphorn_bls::KERNELS)?;
    let machine = args.common.machine(kernel)?;
    let pool = args.common.pool()?;
    let mut bars = Bars::new();
    let mut cases = Vec::new();
    for (i, &n) in args.n.iter().enumerate() {
        bars.show("cases", i as u64, args.n.len() as u64);
        cases.push(measure(args, n, kernel, &pool)?);
    }
    bars.clear();

    let sink = args.common.sink();
    sink.say(&machine.line());
    sink.say(&print(&cases, args));
    let fields = Map::from_iter([(
        "cases".to_owned(),
        Value::Array(cases.iter().map(|case| json_case(case, args)).collect()),
    )]);
    let config = json!({ "batch": args.batch, "forged": args.forged, "runs": args.runs });
    sink.write(&report.object(&machine, "measured", &config, fields)?)
}

fn measure(args: &Args, n: u32, kernel: Backend, pool: &rayon::ThreadPool) -> Result<Case> {
    let exec = Exec::new(kernel, Some(pool));
    let runs = usize::from(args.runs);
    let secrets = interop_keys(0..u64::from(n), exec);
    let keys = vartime_interop_public_keys(&secrets, exec);
    let committee = Committee::new(&keys)?;
    let (bases_s, bases) = least(1, || Bases::derive(n as usize, exec));
    let bases = bases?;
    let mut rng = ChaCha20Rng::seed_from_u64(args.common.seed);
    let mut prove_s = f64::INFINITY;
    let mut collections = Vec::new();
    let mut planes = Vec::new();
    for _ in 0..args.batch {
        let (multiplicities, signers, columns) = draw(n as usize, &mut rng);
        planes.push(columns);
        if collections.len() == PROOFS {
            continue;
        }
        let (seconds, proven) = least(1, || {
            prove(&bases, &committee, &multiplicities, &signers, exec)
        });
        let (aggregate, proof) = proven?;
        prove_s = prove_s.min(seconds);
        collections.push(Collection {
            signers,
            aggregate,
            proof,
        });
    }
    let batch: Vec<&Collection> = collections.iter().cycle().take(args.batch.into()).collect();
    let claims = claims(&committee, &batch, &[])?;
    let (verify_s, verdict) = least(runs, || verify(&bases, &claims[0], exec));
    holds(verdict)?;
    let (batch_s, verdict) = least(runs, || verify_batch(&bases, &claims, &weights(), exec));
    holds(verdict)?;

    let (search_s, found) = search(args, &bases, &committee, &batch, exec)?;
    let direct_s = direct(runs, &keys, &planes, &collections, kernel, pool)?;
    Ok(Case {
        n,
        bases_s,
        prove_s,
        verify_s,
        batch_s,
        search_s,
        found,
        direct_s,
    })
}

/// Weights of a batch.
fn weights() -> Rlc {
    Rlc::new([7; 32], RlcBits::Bits64)
}

/// Seconds of the search for the forged proofs of a batch, which must find exactly them.
fn search(
    args: &Args,
    bases: &Bases,
    committee: &Committee,
    batch: &[&Collection],
    exec: Exec<'_>,
) -> Result<(f64, Located)> {
    let step = batch.len() / usize::from(args.forged).max(1);
    let forged: Vec<usize> = (0..args.forged.into()).map(|i| i * step).collect();
    let broken = forged
        .iter()
        .map(|&i| forge(&batch[i].proof, committee.len()));
    let broken: Vec<Proof> = broken.collect::<Result<_>>()?;
    let replaced: Vec<(usize, &Proof)> = forged.iter().copied().zip(&broken).collect();
    let claims = claims(committee, batch, &replaced)?;
    let (seconds, found) = least(1, || locate(bases, &claims, &weights(), exec));
    let found = found?;
    if found.bad != forged {
        let bad = &found.bad;
        return Err(Error::Check(format!("forged {forged:?}, found {bad:?}")));
    }
    Ok((seconds, found))
}

/// Multiplicities 1 to 3 for 95 % of the positions, with the signers and the two planes.
fn draw(n: usize, rng: &mut ChaCha20Rng) -> (Vec<u32>, Bitfield, Vec<Bitfield>) {
    let mut multiplicities: Vec<u32> = (0..n)
        .map(|_| match rng.next_u32() % 20 {
            0 => 0,
            _ => 1 + rng.next_u32() % 3,
        })
        .collect();
    // Nobody is no signer set.
    multiplicities[0] = multiplicities[0].max(1);
    let field = |holds: &dyn Fn(u32) -> bool| {
        let mut bits = Bitfield::new(n);
        (0..n)
            .filter(|&i| holds(multiplicities[i]))
            .for_each(|i| bits.set(i));
        bits
    };
    let signers = field(&|m| m != 0);
    let planes = (0..PLANES).map(|j| field(&|m| m >> j & 1 == 1)).collect();
    (multiplicities, signers, planes)
}

/// The claims of a batch; some proofs are replaced.
fn claims<'a>(
    committee: &'a Committee,
    batch: &[&'a Collection],
    replaced: &[(usize, &'a Proof)],
) -> Result<Vec<Claim<'a>>> {
    let mut proofs: Vec<&Proof> = batch.iter().map(|collection| &collection.proof).collect();
    for (i, proof) in replaced {
        proofs[*i] = proof;
    }
    let claim = |(collection, proof): (&&'a Collection, &'a Proof)| {
        Claim::new(committee, &collection.signers, collection.aggregate, proof)
    };
    Ok(batch
        .iter()
        .zip(proofs)
        .map(claim)
        .collect::<std::result::Result<_, _>>()?)
}

/// A proof with another last scalar.
fn forge(proof: &Proof, keys: usize) -> Result<Proof> {
    let mut bytes = proof.to_bytes();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    Ok(Proof::from_bytes(&bytes, keys)?)
}

fn holds(verdict: std::result::Result<(), IpaError>) -> Result<()> {
    match verdict {
        Err(IpaError::Rejected) => Err(Error::Check("an honest proof is rejected".into())),
        other => Ok(other?),
    }
}

/// Seconds of summing the planes of all collections; the first sums must be the proven keys.
fn direct(
    runs: usize,
    keys: &[PublicKey],
    planes: &[Vec<Bitfield>],
    proven: &[Collection],
    kernel: Backend,
    pool: &rayon::ThreadPool,
) -> Result<f64> {
    let points = keys.iter().map(|key| *key.point()).collect();
    let key_table = KeyTable::new(kernel, points, &[keys.len()])?;
    let planes: Vec<Vec<&[u64]>> = planes
        .iter()
        .map(|planes| planes.iter().map(Bitfield::words).collect())
        .collect();
    let columns: Vec<Columns<'_>> = planes.iter().map(|planes| Columns { planes }).collect();
    let jobs = [CommitteeJob {
        committee: 0,
        collections: &columns,
        bases: &[],
    }];
    let options = SumOptions {
        method: None,
        costs: Costs::measure(kernel),
    };
    let mut workspace = Workspace::default();
    let (seconds, sums) = least(runs, || {
        sum_columns(
            &key_table,
            &jobs,
            &options,
            &mut workspace,
            Exec::new(kernel, Some(pool)),
        )
    });
    let keys = sums?.keys;
    let mut pairs = proven.iter().zip(&keys);
    if !pairs.all(|(collection, key)| collection.aggregate.point() == key) {
        return Err(Error::Check("a direct sum is not the proven key".into()));
    }
    Ok(seconds)
}

fn print(cases: &[Case], args: &Args) -> String {
    let batch = format!("verify {}", args.batch);
    let search = format!("find {} of {}", args.forged, args.batch);
    let direct = format!("sum {}", args.batch);
    let header = [
        "keys",
        "proof",
        "notes",
        "bases",
        "prove",
        "verify",
        &batch,
        &search,
        &direct,
        "slower by",
    ];
    let row = |case: &Case| {
        vec![
            text::count(case.n.into()),
            text::bytes(case.proof_bytes() as u64),
            text::bytes(case.notes_bytes() as u64),
            text::seconds(case.bases_s),
            text::seconds(case.prove_s),
            text::seconds(case.verify_s),
            text::seconds(case.batch_s),
            text::seconds(case.search_s),
            text::seconds(case.direct_s),
            text::ratio(case.batch_s / case.direct_s),
        ]
    };
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    let verdict = cases.iter().map(|case| {
        format!(
            "{} proofs over {} keys: {}, where adding the keys takes {}: proofs cost {} as much, \
             {} with {} forged.",
            args.batch,
            text::count(case.n.into()),
            text::seconds(case.batch_s),
            text::seconds(case.direct_s),
            text::ratio(case.batch_s / case.direct_s),
            text::ratio((case.batch_s + case.search_s) / case.direct_s),
            args.forged,
        )
    });
    let verdict: Vec<String> = verdict.collect();
    format!("\n{}\n\n{}", table(&header, &rows), verdict.join("\n"))
}

fn json_case(case: &Case, args: &Args) -> Value {
    json!({
        "n": case.n,
        "proof_bytes": case.proof_bytes(),
        "notes_bytes": case.notes_bytes(),
        "bases_s": case.bases_s,
        "prove_s": case.prove_s,
        "verify_s": case.verify_s,
        "batch": { "m": args.batch, "s": case.batch_s },
        "forged": {
            "k": args.forged,
            "s": case.search_s,
            "tests": case.found.tests,
            "sums": case.found.sums,
        },
        "direct_s": case.direct_s,
        "ratio": case.batch_s / case.direct_s,
        "ratio_forged": (case.batch_s + case.search_s) / case.direct_s,
    })
}
