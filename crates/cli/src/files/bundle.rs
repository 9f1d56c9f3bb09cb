//! `alphorn proof bundle` and `split`: one proof of votes over several messages.

use super::aggregate::read_public_keys;
use super::bundle_file::BundleFile;
use super::combine::read_as;
use super::document::{AggregateFile, Document};
use super::fields::{Schema, Signers, registry_digest, to_json};
use super::hex::Hex;
use super::input::{LIST_BYTES_MAX, Opened};
use super::output::{Access, Staged};
use super::proof_file::set_named;
use super::statement::Entry;
use super::xmss::{CompactSet, ProdSet, SetType, TestSet, Xmss};
use super::xmss_proof::{NUMBER, check_fast, signed};
use super::{all_shown, shown};
use crate::error::{Error, Result};
use crate::machine::{Machine, cores};
use crate::options::pool;
use crate::overwrite::check_apart;
use crate::report::{Report, Sink, json_target};
use alphorn_exec::{Backend, Exec};
use alphorn_scheme::list::{TAG_MERGE, TAG_PROOF, TAG_PROOFS};
use alphorn_types::Bitfield;
use alphorn_xmss::{
    BundleEntry, ChildKind, Claimed, Preset, ProofError, ProofRegistry, Proofs, ProveError,
    PublicKey, Set,
};
use anyhow::{Context, anyhow};
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Options of both commands.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Public keys whose positions name the signers; may be repeated, one file per registry
    #[arg(long, value_name = "FILE", required = true)]
    keys: Vec<PathBuf>,
    /// Number of threads (default: all cores available to this process)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Write the result as one JSON object, - for standard output
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(json_target))]
    json: Option<PathBuf>,
}

/// Where the new file goes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Output {
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

impl Output {
    /// Fails early if the file exists and is not to be replaced, or is one of the input files.
    fn check(&self, files: &[PathBuf], options: &Options) -> Result<()> {
        let read = files.iter().chain(&options.keys).map(PathBuf::as_path);
        let written = options.json.iter().chain([&self.out]);
        check_apart(read, written.map(PathBuf::as_path))?;
        Staged::new(self.force).check(&self.out, Access::Public)
    }

    fn write(&self, file: &impl Serialize) -> Result<()> {
        let mut staged = Staged::new(self.force);
        staged.add(&self.out, Access::Public, &to_json(file)?)?;
        staged.commit()
    }
}

/// Bundle proofs of votes over several messages into one proof
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn proof bundle head.json late.json --keys public-keys.json \\
      --out bundle.json
  alphorn proof bundle a.json b.json --keys 0.keys.json --keys 1.keys.json \\
      --out bundle.json

Takes up to 49 aggregates written by `aggregate --form proof` or `merge`: XMSS of one set, preset
fast, at most 768 signatures (448 with the set prod) or merges, over any slots, messages and
registries. More than seven make a bundle of bundles. Each aggregate is verified first: if one does
not hold it is named, and the exit code is 1. `verify` decides whether a bundle holds, `proof split`
extracts one of its entries.")]
pub(crate) struct BundleArgs {
    /// Aggregates whose evidence is one proof
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    output: Output,
}

/// Extract one entry from a bundle as a separate aggregate
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn proof split bundle.json --entry 0 --keys public-keys.json \\
      --out head.json

The aggregate is a proof that a bundle with this entry holds: `verify` and `merge` accept it like
any other, with only the keys of that entry. This command needs the keys of all entries.")]
pub(crate) struct SplitArgs {
    /// Bundle to split
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of the entry, from 0
    #[arg(long, value_name = "N")]
    entry: usize,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    output: Output,
}

/// A running command: its threads, registries, and the destination of its report.
struct Session<P> {
    report: Report,
    sink: Sink,
    pool: rayon::ThreadPool,
    kernel: Backend,
    proofs: Proofs,
    registries: BTreeMap<[u8; 32], ProofRegistry>,
    threads: usize,
    set: PhantomData<P>,
}

impl<P: SetType> Session<P> {
    fn begin(command: &'static str, options: &Options) -> Result<Session<P>> {
        let report = Report::begin(command, 0);
        let threads = options.threads.map_or_else(cores, usize::from);
        let mut session = Session {
            report,
            sink: Sink::new(options.json.clone()),
            pool: pool(threads)?,
            kernel: alphorn_stark::KERNELS.measured(),
            proofs: Proofs::new(P::SET, Preset::FAST),
            registries: BTreeMap::new(),
            threads,
            set: PhantomData,
        };
        for path in &options.keys {
            session.add_keys(path)?;
        }
        Ok(session)
    }

    fn exec(&self) -> Exec<'_> {
        Exec::new(self.kernel, Some(&self.pool))
    }

    fn add_keys(&mut self, path: &Path) -> Result<()> {
        let file = read_public_keys::<Xmss<P>>(path)?;
        let encoded: Vec<&[u8]> = file.keys.iter().map(|key| &key.public_key.0[..]).collect();
        let digest = registry_digest(encoded.iter().copied());
        let decode = |(i, bytes): (usize, &&[u8])| {
            PublicKey::from_bytes(P::SET, bytes)
                .map_err(|error| anyhow!("{}: public key {i}: {error}", path.display()))
        };
        let keys = encoded.iter().enumerate().map(decode);
        let keys = keys.collect::<anyhow::Result<Vec<PublicKey>>>()?;
        let registry = self.proofs.registry(self.exec(), keys, NUMBER);
        let registry = registry.with_context(|| format!("{}", path.display()))?;
        self.registries.insert(digest, registry);
        Ok(())
    }

    /// Runs with the entries in the form that proofs take.
    fn with_entries<T>(
        &self,
        path: &dyn Fn(usize) -> String,
        entries: &[Entry],
        run: impl FnOnce(&[BundleEntry<'_>]) -> Result<T>,
    ) -> Result<T> {
        let signers: Vec<Bitfield> = entries.iter().map(|e| e.support.signers()).collect();
        let mut claims = Vec::with_capacity(entries.len());
        for (i, (entry, signers)) in entries.iter().zip(&signers).enumerate() {
            let registry = self.registries.get(&entry.digest).ok_or_else(|| {
                let digest = hex::encode(entry.digest);
                anyhow!("{}: no file of --keys has the digest 0x{digest}", path(i))
            })?;
            let (slot, message) = (entry.signed.slot, &entry.signed.message.0);
            let spoken = signed(slot, message, P::SET);
            let (slot, message) = spoken.map_err(|why| anyhow!("{}: {why}", path(i)))?;
            claims.push(BundleEntry {
                registry,
                claimed: Claimed {
                    slot,
                    message,
                    signers,
                },
            });
        }
        run(&claims)
    }

    /// Prints the result, and writes the report.
    fn finish(&self, said: &str, config: &Value, mut fields: Value) -> Result<()> {
        self.sink.say(said);
        let machine = Machine::with(self.threads, &alphorn_stark::KERNELS, &[self.kernel]);
        fields["scheme"] = json!(P::NAME);
        let object = self.report.object(&machine, "measured", config, fields)?;
        self.sink.write(&object)
    }
}

/// An invalid proof is a failed check, not a usage error.
fn refused(error: ProveError, path: impl Fn(usize) -> String) -> Error {
    match error {
        ProveError::Part {
            part,
            error: refused @ ProofError::Refused(_),
        } => Error::Check(format!("{}: {refused}", path(part))),
        ProveError::Part { part, error } => anyhow!("{}: {error}", path(part)).into(),
        error => anyhow!(error).into(),
    }
}

/// Describes entries in a report.
pub(super) fn about<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Value {
    let entry = |entry: &Entry| {
        json!({
            "slot": entry.signed.slot,
            "message": entry.signed.message,
            "keys_digest": Hex::<true>(entry.digest.to_vec()),
            "signers": entry.support.signer_count(),
        })
    };
    entries.into_iter().map(entry).collect()
}

/// Reads an aggregate as an entry, with its one proof.
fn read_entry<P: SetType>(path: &Path) -> Result<(Entry, Vec<u8>)> {
    let file: AggregateFile =
        read_as::<Xmss<P>, _>(path, "aggregate", |document| match document {
            Document::Aggregate(file) => Ok(file),
            other => Err(other.kind()),
        })?;
    let named = path.display();
    let Signers::Registered { digest, support } = file.signers::<Xmss<P>>()? else {
        return Err(anyhow!("{named}: its signers are listed: aggregate them with --keys").into());
    };
    let proof = match file.signature.0.split_first() {
        Some((&(TAG_PROOF | TAG_MERGE), proof)) => proof.to_vec(),
        Some((&TAG_PROOFS, _)) => {
            return Err(anyhow!("{named}: several proofs: merge them to one first").into());
        }
        _ => return Err(anyhow!("{named}: a list of signatures, no proof").into()),
    };
    check_fast(path, support.len(), &file.signature.0)?;
    let signed = file.signed();
    let entry = Entry {
        signed,
        digest,
        support,
    };
    Ok((entry, proof))
}

/// Runs `alphorn proof bundle` with the set that the first file names.
pub(crate) fn bundle(args: &BundleArgs) -> Result<()> {
    let paths = super::input::expand(&args.files)?;
    match paths.first().map(|path| set_named(path)).transpose()? {
        Some(Set::Prod) => bundle_of::<ProdSet>(args, &paths),
        Some(Set::Test) => bundle_of::<TestSet>(args, &paths),
        Some(Set::Compact) | None => bundle_of::<CompactSet>(args, &paths),
    }
}

fn bundle_of<P: SetType>(args: &BundleArgs, paths: &[PathBuf]) -> Result<()> {
    let session = Session::<P>::begin("proof bundle", &args.options)?;
    args.output.check(paths, &args.options)?;
    let (got, max) = (paths.len(), session.proofs.entries_max());
    if got > max {
        return Err(anyhow!("{got} aggregates: a bundle takes at most {max}").into());
    }
    let mut entries = Vec::with_capacity(got);
    let mut parts = Vec::with_capacity(got);
    for path in paths {
        let (entry, proof) = read_entry::<P>(path)?;
        entries.push(entry);
        parts.push(proof);
    }
    let path = |i: usize| paths[i].display().to_string();
    let proof = session.with_entries(&path, &entries, |claims| {
        let parts: Vec<(BundleEntry<'_>, &[u8])> = claims
            .iter()
            .zip(&parts)
            .map(|(claim, proof)| (*claim, &proof[..]))
            .collect();
        let bundled = session.proofs.bundle(session.exec(), &parts);
        bundled.map_err(|error| refused(error, path))
    })?;
    let bytes = proof.len();
    args.output.write(&BundleFile::new::<P>(&entries, proof))?;
    let out = &args.output.out;
    let said = format!("{}: {got} entries in {bytes} bytes", out.display());
    let config = json!({ "files": all_shown(paths), "keys": all_shown(&args.options.keys) });
    let fields = json!({ "entries": about(&entries), "proof_bytes": bytes, "file": shown(out) });
    session.finish(&said, &config, fields)
}

/// Reads the entries of a bundle and its proof.
fn read_bundle<P: SetType>(path: &Path) -> Result<(Vec<Entry>, Vec<u8>)> {
    let file = read_as::<Xmss<P>, _>(path, "bundle", |document| match document {
        Document::Bundle(file) => Ok(file),
        other => Err(other.kind()),
    })?;
    Ok((file.entries::<Xmss<P>>()?, file.proof.0))
}

/// The schema of a file.
#[derive(Deserialize)]
struct Named {
    schema: Option<Schema>,
}

/// Describes a bundle file, in words and as fields of a report; none if it is something else. Checks
/// the form of the proof, but not its validity.
pub(crate) fn described(path: &Path) -> Result<Option<(String, Value)>> {
    let opened = Opened::read(path, LIST_BYTES_MAX)?;
    // A file that is not ours is rejected when it is read as another type.
    let named = serde_json::from_slice::<Named>(&opened.bytes).ok();
    if named.and_then(|named| named.schema) != Some(Schema::Bundle) {
        return Ok(None);
    }
    let (set, (entries, proof)) = match set_named(path)? {
        Set::Compact => (Set::Compact, read_bundle::<CompactSet>(path)?),
        Set::Prod => (Set::Prod, read_bundle::<ProdSet>(path)?),
        Set::Test => (Set::Test, read_bundle::<TestSet>(path)?),
    };
    let named = path.display();
    let shape = Proofs::new(set, Preset::FAST)
        .bundle_shape(&proof)
        .map_err(|error| anyhow!("{named}: {error}"))?
        .ok_or_else(|| anyhow!("{named}: its proof is no bundle"))?;
    let bytes = proof.len();
    let of = |of: ChildKind| shape.kinds.iter().filter(|kind| **kind == of).count();
    let (merges, bundles) = (of(ChildKind::Merge), of(ChildKind::Bundle));
    let mut said = format!(
        "a bundle of level {} of {} entries, of {merges} merges and {bundles} bundles: {} elements, {bytes} bytes",
        shape.level,
        entries.len(),
        shape.elements
    );
    for (i, entry) in entries.iter().enumerate() {
        let signers = entry.support.signer_count();
        let keys = entry.support.len();
        said += &format!("\n{i}: {}, {signers} of {keys} keys", entry.signed);
    }
    let fields = json!({
        "proof_kind": "bundle",
        "level": shape.level,
        "children": shape.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
        "elements": shape.elements,
        "proof_bytes": bytes,
        "entries": about(&entries),
    });
    Ok(Some((said, fields)))
}

/// Runs `alphorn proof split`.
pub(crate) fn split(args: &SplitArgs) -> Result<()> {
    match set_named(&args.file)? {
        Set::Compact => split_of::<CompactSet>(args),
        Set::Prod => split_of::<ProdSet>(args),
        Set::Test => split_of::<TestSet>(args),
    }
}

fn split_of<P: SetType>(args: &SplitArgs) -> Result<()> {
    let session = Session::<P>::begin("proof split", &args.options)?;
    args.output
        .check(std::slice::from_ref(&args.file), &args.options)?;
    let (entries, bundle) = read_bundle::<P>(&args.file)?;
    let kept = entries.get(args.entry).ok_or_else(|| {
        let count = entries.len();
        anyhow!("--entry {}: the bundle has {count}, from 0", args.entry)
    })?;
    let path = |i: usize| format!("{}: entry {i}", args.file.display());
    let proof = session.with_entries(&path, &entries, |claims| {
        let split = session
            .proofs
            .split(session.exec(), claims, &bundle, args.entry);
        split.map_err(|error| refused(error, path))
    })?;
    let bytes = proof.len();
    let evidence = [&[TAG_MERGE], &proof[..]].concat();
    let signers = Signers::Registered {
        digest: kept.digest,
        support: kept.support.clone(),
    };
    let aggregate = AggregateFile::new::<Xmss<P>>(kept.signed.clone(), &signers, evidence);
    args.output.write(&aggregate)?;
    let out = &args.output.out;
    let count = kept.support.signer_count();
    let said = format!("{}: {count} signers in {bytes} bytes", out.display());
    let config = json!({
        "file": shown(&args.file), "entry": args.entry, "keys": all_shown(&args.options.keys),
    });
    let fields = json!({
        "entries": about([kept]),
        "proof_bytes": bytes,
        "file": shown(out),
    });
    session.finish(&said, &config, fields)
}
