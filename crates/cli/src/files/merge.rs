//! `alphorn merge`: aggregates over one message into one, overlaps as multiplicities.

use super::FileOptions;
use super::bls::Bls;
use super::combine::{About, Combination, read_as};
use super::document::{AggregateFile, Document, Hex, Signers};
use super::scheme::{FileScheme, SchemeName};
use crate::error::Result;
use anyhow::{Context, bail, ensure};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Merge aggregates over one message; who is in several counts several times
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn merge a.json b.json --out merged.json

A signer of several aggregates gets the sum of its multiplicities, at most 15 (the four bits of
Horn's collections). Aggregates by position must name the same file of public keys; listed ones
merge with listed ones. Nothing is verified here: the merged aggregate holds if all of its parts
do, so run `verify` on the result, and on the parts if it fails.")]
pub(crate) struct Args {
    #[command(flatten)]
    options: FileOptions,
    /// Aggregates over the same message, or folders of them; at least two
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// The merged aggregate
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match args.options.scheme {
        SchemeName::Bls => run_with::<Bls>(args),
    }
}

fn run_with<S: FileScheme>(args: &Args) -> Result<()> {
    let combination =
        Combination::begin("merge", &args.options, &args.files, &args.out, args.force)?;
    let paths = &combination.paths;
    check_parts(paths.len())?;
    let (first, mut signers) = read::<S>(&paths[0])?;
    let message = first.message;
    let mut signatures = vec![first.signature.0];
    for path in &paths[1..] {
        let (file, more) = read::<S>(path)?;
        check_message(path, &file.message, &paths[0], &message)?;
        signers = add::<S>(signers, &more).with_context(|| format!("{}", path.display()))?;
        signatures.push(file.signature.0);
    }
    let scheme: S = args.options.open()?;
    let most = signers.multiplicity_max();
    let about = About {
        said: format!(", greatest multiplicity {most}"),
        config: json!({ "files": paths }),
        fields: json!({ "multiplicity_max": most }),
    };
    let parts: Vec<&[u8]> = signatures.iter().map(Vec::as_slice).collect();
    combination.finish(&scheme, message.0, &signers, &parts, about)
}

fn check_parts(parts: usize) -> anyhow::Result<()> {
    ensure!(parts >= 2, "{parts} aggregate: a merge takes at least 2");
    Ok(())
}

fn check_message(
    path: &Path,
    message: &Hex<true>,
    first_path: &Path,
    first: &Hex<true>,
) -> anyhow::Result<()> {
    ensure!(
        message == first,
        "{} is over the message {message}, {} over another: {first}",
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

/// The sum of both, signer by signer.
fn add<S: FileScheme>(signers: Signers, more: &Signers) -> anyhow::Result<Signers> {
    match (signers, more) {
        (Signers::Listed(mut signers), Signers::Listed(more)) => {
            for (key, multiplicity) in more {
                let sum = signers.entry(key.clone()).or_insert(0);
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
            let support = support.add(more, S::MULTIPLICITY_MAX)?;
            Ok(Signers::Registered { digest, support })
        }
        _ => bail!("names its signers in another way: by position or by key, all alike"),
    }
}
