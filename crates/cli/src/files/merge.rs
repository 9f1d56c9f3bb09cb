//! `alphorn merge`: aggregates over one message into one, with overlaps as multiplicities.

use super::aggregate::read_public_keys;
use super::combine::{About, Combination, combined, read_as, registry_keys};
use super::command::{Command, dispatch, with_keys};
use super::document::{AggregateFile, Document, check_signers};
use super::fields::{Signers, registry_digest};
use super::hex::Hex;
use super::scheme::{FileScheme, Form};
use super::statement::{Signed, ToMerge};
use super::{FileOptions, all_shown, shown};
use crate::error::Result;
use alphorn_scheme::list::{self, TAG_MERGE, TAG_PROOF, TAG_PROOFS};
use alphorn_types::{Bitfield, Support};
use anyhow::{Context, bail, ensure};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Merge aggregates over one message; a signer in several of them counts several times
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn merge a.json b.json --out merged.json
  alphorn merge a.proof.json b.proof.json --keys public-keys.json \\
      --out merged.json

The aggregates name their scheme. A signer in several aggregates gets the sum of its multiplicities,
at most 15 (the four bits of Horn's collections); lists of XMSS or Falcon signatures merge into
their union. XMSS proofs (preset fast, at most 768 signatures each, 448 with the set prod, or
merges) merge into one proof of the union: this needs all keys in --keys, takes a few tenths of a
second per proof, verifies every part and yields about 140 kB regardless of its parts. Falcon proofs
do not merge.

Aggregates by position must name the same file of public keys; aggregates that list their keys merge
only with each other. Apart from proofs, nothing is verified here: the merged aggregate holds if all
of its parts do, so run `verify` on the result, and on the parts if it fails.")]
pub(crate) struct Args {
    #[command(flatten)]
    options: FileOptions,
    /// Aggregates over the same message, or folders of them; at least two
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Public keys whose positions name the signers; required for proofs
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// File for the merged aggregate
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

impl Command for Args {
    fn options(&self) -> &FileOptions {
        &self.options
    }

    fn sources(&self) -> Result<Vec<PathBuf>> {
        with_keys(&self.files, &self.keys)
    }

    fn outputs(&self) -> Result<Vec<PathBuf>> {
        Ok(vec![self.out.clone()])
    }

    fn run_with<S: FileScheme>(&self) -> Result<()> {
        let combination =
            Combination::begin("merge", &self.options, &self.files, &self.out, self.force)?;
        let paths = &combination.paths.clone();
        check_parts(paths.len())?;
        let (first, mut signers) = read::<S>(&paths[0])?;
        let signed = first.signed();
        if S::MERGES && is_proof(&first.signature.0) {
            return merge_proofs::<S>(self, combination, first, signers);
        }
        let mut lists = BySigner::new();
        let mut sums = Vec::new();
        let mut keep = |path, signers: &Signers, evidence: Vec<u8>| match S::FORM {
            Form::Sum => {
                sums.push((path, evidence));
                Ok(())
            }
            Form::List => add_list::<S>(&mut lists, path, signers, &evidence),
        };
        keep(&paths[0], &signers, first.signature.0)?;
        for path in &paths[1..] {
            let (file, more) = read::<S>(path)?;
            check_signed(path, &file.signed(), &paths[0], &signed)?;
            let named = || format!("{}", path.display());
            signers = add::<S>(signers, &more).with_context(named)?;
            keep(path, &more, file.signature.0)?;
        }
        check_signers::<S>(signers.count())?;
        sums.extend(lists.into_values());
        let scheme: S = self.options.open()?;
        let most = signers.multiplicity_max();
        let about = About {
            said: format!(", greatest multiplicity {most}"),
            config: json!({ "files": all_shown(paths) }),
            fields: json!({ "multiplicity_max": most }),
        };
        let parts: Vec<(&Path, &[u8])> = sums
            .iter()
            .map(|(path, bytes)| (path.as_path(), bytes.as_slice()))
            .collect();
        let evidence = combined(&scheme, &parts)?;
        combination.finish(&scheme, signed, &signers, evidence, about)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    dispatch(args)
}

/// Whether evidence is proofs.
fn is_proof(evidence: &[u8]) -> bool {
    matches!(
        evidence.first(),
        Some(&TAG_PROOF | &TAG_PROOFS | &TAG_MERGE)
    )
}

/// Merges proofs into one of the union of their signers.
fn merge_proofs<S: FileScheme>(
    args: &Args,
    combination: Combination<'_>,
    first: AggregateFile,
    mut signers: Signers,
) -> Result<()> {
    let paths = &combination.paths.clone();
    let signed = first.signed();
    let keys = args
        .keys
        .as_ref()
        .with_context(|| format!("{}: a proof, whose merge needs --keys", paths[0].display()))?;
    let registry = read_public_keys::<S>(keys)?;
    let encoded: Vec<&[u8]> = registry.keys.iter().map(|k| &k.public_key.0[..]).collect();
    let named = registry_digest(encoded.iter().copied());
    let mut pieces = Vec::with_capacity(paths.len());
    let mut keep = |path: &Path, signers: &Signers, evidence: Vec<u8>| match signers {
        Signers::Registered { digest, support } if *digest == named => {
            ensure!(
                is_proof(&evidence),
                "{}: a list beside proofs",
                path.display()
            );
            pieces.push((support.clone(), evidence));
            Ok(())
        }
        _ => bail!(
            "{}: its signers are not named by positions in {}",
            path.display(),
            keys.display()
        ),
    };
    keep(&paths[0], &signers, first.signature.0)?;
    for path in &paths[1..] {
        let (file, more) = read::<S>(path)?;
        check_signed(path, &file.signed(), &paths[0], &signed)?;
        signers = add::<S>(signers, &more).with_context(|| format!("{}", path.display()))?;
        keep(path, &more, file.signature.0)?;
    }
    check_signers::<S>(signers.count())?;
    let scheme: S = args.options.open()?;
    let decoded = registry_keys(&scheme, &encoded)?;
    let evidence = scheme.merge_proofs(&ToMerge {
        registry: &decoded,
        slot: signed.slot,
        message: &signed.message.0,
        pieces: &pieces,
        paths,
    })?;
    let about = About {
        said: format!(", {} bytes of evidence", evidence.len()),
        config: json!({ "files": all_shown(paths), "keys": shown(keys) }),
        fields: json!({ "evidence_bytes": evidence.len(), "multiplicity_max": 1 }),
    };
    combination.finish(&scheme, signed, &signers, evidence, about)
}

/// The signatures of lists, by key or by position, each with the first file that it came from.
type BySigner<'a> = BTreeMap<SignerId, (&'a PathBuf, Vec<u8>)>;

/// How an aggregate identifies a signer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SignerId {
    Key(Vec<u8>),
    Position(usize),
}

/// Adds the signatures of a list that are not there yet.
fn add_list<'a, S: FileScheme>(
    lists: &mut BySigner<'a>,
    path: &'a PathBuf,
    signers: &Signers,
    evidence: &[u8],
) -> anyhow::Result<()> {
    let ids: Vec<SignerId> = match signers {
        Signers::Listed(listed) => listed.keys().cloned().map(SignerId::Key).collect(),
        Signers::Registered { support, .. } => {
            support.iter().map(|(i, _)| SignerId::Position(i)).collect()
        }
    };
    if is_proof(evidence) {
        let path = path.display();
        match S::MERGES {
            true => bail!(
                "{path}: a proof beside lists: make proofs of the lists first, by \
                 `aggregate --form proof`"
            ),
            false => bail!(
                "{path}: a proof, and proofs do not merge: the signatures that another one would \
                 need are gone"
            ),
        }
    }
    let signatures = list::split(evidence, ids.len(), S::SIGNATURE_BYTES)
        .with_context(|| format!("{}", path.display()))?;
    for (id, signature) in ids.into_iter().zip(signatures) {
        let entry = lists.entry(id);
        entry.or_insert_with(|| (path, signature.to_vec()));
    }
    Ok(())
}

fn check_parts(parts: usize) -> anyhow::Result<()> {
    ensure!(parts >= 2, "{parts} aggregate: a merge takes at least 2");
    Ok(())
}

fn check_signed(
    path: &Path,
    signed: &Signed,
    first_path: &Path,
    first: &Signed,
) -> anyhow::Result<()> {
    ensure!(
        signed == first,
        "{} is over {signed}, {} over something else: {first}",
        path.display(),
        first_path.display()
    );
    Ok(())
}

fn read<S: FileScheme>(path: &Path) -> Result<(AggregateFile, Signers)> {
    let file = read_as::<S, _>(path, "aggregate", |document| match document {
        Document::Aggregate(file) => Ok(file),
        other => Err(other.kind()),
    })?;
    let signers = file.signers::<S>()?;
    Ok((file, signers))
}

/// Returns the signers of either.
fn union(one: &Support, other: &Support) -> Support {
    let mut bits = Bitfield::new(one.len());
    for (position, _) in one.iter().chain(other.iter()) {
        bits.set(position);
    }
    Support::from_bits(bits)
}

/// Returns the sum of both, signer by signer; for lists the union.
fn add<S: FileScheme>(signers: Signers, more: &Signers) -> anyhow::Result<Signers> {
    match (signers, more) {
        (Signers::Listed(mut signers), Signers::Listed(more)) => {
            for (key, multiplicity) in more {
                let sum = signers.entry(key.clone()).or_insert(0);
                if S::FORM == Form::List {
                    *sum = 1;
                    continue;
                }
                *sum = sum
                    .checked_add(*multiplicity)
                    .filter(|sum| *sum <= S::MULTIPLICITY_MAX)
                    .with_context(|| {
                        format!(
                            "sum of multiplicities of the key {} is {}: must be at most {}",
                            Hex::<true>(key.clone()),
                            u16::from(*sum) + u16::from(*multiplicity),
                            S::MULTIPLICITY_MAX
                        )
                    })?;
            }
            super::input::check_count("signers", signers.len())?;
            Ok(Signers::Listed(signers))
        }
        (
            Signers::Registered { digest, support },
            Signers::Registered {
                digest: other,
                support: more,
            },
        ) => {
            ensure!(
                digest == *other && support.len() == more.len(),
                "its positions are those of the registry {}, not {}",
                Hex::<true>(other.to_vec()),
                Hex::<true>(digest.to_vec())
            );
            let support = match S::FORM {
                Form::Sum => support.add(more, S::MULTIPLICITY_MAX)?,
                Form::List => union(&support, more),
            };
            Ok(Signers::Registered { digest, support })
        }
        _ => bail!("names its signers in another way: by position or by key, all alike"),
    }
}
