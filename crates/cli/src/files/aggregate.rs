//! `alphorn aggregate`: signatures over one message into one aggregate.

use super::combine::{About, Combination, combined, read_as, refused, registry_keys};
use super::command::{Command, dispatch, with_keys};
use super::document::{Document, PublicKeysFile, SignatureFile, check_signers};
use super::fields::{Signers, registry_digest};
use super::scheme::FileScheme;
use super::statement::{Claim, Signed, ToProve};
use super::{FileOptions, Proofs, all_shown, shown};
use crate::error::{Error, Result};
use crate::lattice::ProfileOptions;
use alphorn_lab::proof::ProofOptions;
use alphorn_types::{Bitfield, Support};
use anyhow::{anyhow, bail, ensure};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Aggregate signatures over one message
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn aggregate votes/*.signature.json --out aggregate.json
  alphorn aggregate votes --keys keys/public-keys.json --out aggregate.json
  alphorn aggregate --form proof votes --out proof.json
  alphorn aggregate --form proof votes --keys keys/public-keys.json \\
      --out proof.json

A folder stands for its .json files; the files name their scheme. Every signature is verified first:
if one is bad it is named, nothing is written, and the exit code is 1. Without --keys the aggregate
lists the public keys of its signers; with --keys it names them by their positions in that file, as
a committee does, in one bit or less per signer. Each key counts once; use `merge` to add
overlapping aggregates.

An XMSS aggregate is the list of its signatures in signer order, for one slot and one message. With
--form proof it is a proof of about 140 to 210 kB (from 100 kB with --preset small), or several
proofs above 1472 signers (1024 with the set prod). Verifying it requires all keys in --keys.

A Falcon aggregate is such a list (666 bytes per signature), or with --form proof the salts (40
bytes each) and one proof of 37 to 79 kB, which is smaller than the list from about 100 signers and
faster to verify from about 10,000. The proof is verified before it is written.")]
pub(crate) struct Args {
    #[command(flatten)]
    options: FileOptions,
    #[command(flatten)]
    profile: ProfileOptions,
    #[command(flatten)]
    preset: ProofOptions,
    /// Signatures over the same message, or folders of them
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Public keys whose positions name the signers
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Form of the aggregate: the list of its signatures, or one proof that they exist (default: list;
    /// with BLS always a sum)
    #[arg(long, value_enum, value_name = "FORM")]
    form: Option<FormName>,
    /// File for the aggregate
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// Names of the forms of evidence on the command line.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum FormName {
    /// The signatures themselves; lists merge
    List,
    /// One proof; it cannot be taken apart, and only XMSS proofs merge
    Proof,
}

impl FormName {
    fn name(self) -> &'static str {
        match self {
            FormName::List => "list",
            FormName::Proof => "proof",
        }
    }
}

impl Command for Args {
    fn options(&self) -> &FileOptions {
        &self.options
    }

    fn proofs(&self) -> Proofs {
        Proofs {
            profile: self.profile,
            preset: self.preset,
        }
    }

    fn sources(&self) -> Result<Vec<PathBuf>> {
        with_keys(&self.files, &self.keys)
    }

    fn outputs(&self) -> Result<Vec<PathBuf>> {
        Ok(vec![self.out.clone()])
    }

    fn run_with<S: FileScheme>(&self) -> Result<()> {
        if self.form != Some(FormName::Proof) {
            let why = "a list has none, only a proof (--form proof)";
            self.profile.check_unused(why)?;
            self.preset.check_unused(why)?;
        }
        let combination = Combination::begin(
            "aggregate",
            &self.options,
            &self.files,
            &self.out,
            self.force,
        )?;
        let paths = &combination.paths.clone();
        check_signers::<S>(paths.len())?;
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            files.push(read_signature::<S>(path)?);
        }
        check_together(paths, &files)?;
        let (signers, order, registry) = match &self.keys {
            None => listed(&files),
            Some(keys) => registered::<S>(keys, paths, &files)?,
        };
        if self.form == Some(FormName::Proof) {
            check_proofs::<S>()?;
        }
        let scheme = S::open(&self.options, self.proofs())?;
        let keys = verify_all(&scheme, paths, &files)?;
        let evidence = match self.form {
            Some(FormName::Proof) => prove(&scheme, &keys, &files, &order, &signers, &registry)?,
            None | Some(FormName::List) => {
                let part = |i: &usize| (paths[*i].as_path(), &files[*i].signature.0[..]);
                combined(&scheme, &order.iter().map(part).collect::<Vec<_>>())?
            }
        };
        let about = About {
            said: format!(", {} bytes of evidence", evidence.len()),
            config: json!({
                "files": all_shown(paths),
                "keys": self.keys.as_ref().map(shown),
                "form": self.form.map(FormName::name),
            }),
            fields: json!({ "evidence_bytes": evidence.len() }),
        };
        combination.finish(&scheme, signed(&files[0]), &signers, evidence, about)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    dispatch(args)
}

/// Rejects a proof for a scheme that has none, before any work.
fn check_proofs<S: FileScheme>() -> anyhow::Result<()> {
    ensure!(
        S::PROOFS.is_some(),
        "--form proof: {} has no proofs",
        S::NAME
    );
    Ok(())
}

/// Returns the proof of verified signatures, in the order of the signers.
fn prove<S: FileScheme>(
    scheme: &S,
    keys: &[S::Key],
    files: &[SignatureFile],
    order: &[usize],
    signers: &Signers,
    registry: &[Vec<u8>],
) -> Result<Vec<u8>> {
    let encoded: Vec<&[u8]> = registry.iter().map(Vec::as_slice).collect();
    let registry = registry_keys(scheme, &encoded)?;
    let support = match signers {
        Signers::Listed(_) => Support::from_bits(Bitfield::ones(registry.len())),
        Signers::Registered { support, .. } => support.clone(),
    };
    let keys: Vec<S::Key> = order.iter().map(|i| keys[*i].clone()).collect();
    let signatures = order.iter().map(|i| &files[*i].signature.0[..]);
    let what = ToProve {
        keys: &keys,
        message: &files[0].message.0,
        signatures: &signatures.collect::<Vec<_>>(),
        slot: files[0].slot,
        registry: &registry,
        support: &support,
    };
    scheme.prove(&what)
}

fn signed(file: &SignatureFile) -> Signed {
    Signed {
        slot: file.slot,
        message: file.message.clone(),
    }
}

fn read_signature<S: FileScheme>(path: &Path) -> Result<SignatureFile> {
    read_as::<S, _>(path, "signature", |document| match document {
        Document::Signature(file) => Ok(file),
        other => Err(other.kind()),
    })
}

/// Checks that there is one message, and no duplicate keys.
fn check_together(paths: &[PathBuf], files: &[SignatureFile]) -> anyhow::Result<()> {
    let mut firsts = BTreeMap::new();
    for (i, file) in files.iter().enumerate() {
        let (here, first) = (signed(file), signed(&files[0]));
        if here != first {
            bail!(
                "{} signs {here}, {} something else: {first}",
                paths[i].display(),
                paths[0].display(),
            );
        }
        if let Some(first) = firsts.insert(&file.public_key, i) {
            bail!(
                "{} is by the same key as {}: a key counts once, `merge` adds overlaps",
                paths[i].display(),
                paths[first].display()
            );
        }
    }
    Ok(())
}

/// Signers, the files in their order, and the keys that positions refer to.
type Named = (Signers, Vec<usize>, Vec<Vec<u8>>);

/// Returns the signers by their keys, and the files in that order.
fn listed(files: &[SignatureFile]) -> Named {
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|i| &files[*i].public_key);
    let signer = |file: &SignatureFile| (file.public_key.0.clone(), 1);
    let keys = order
        .iter()
        .map(|i| files[*i].public_key.0.clone())
        .collect();
    let signers = Signers::Listed(files.iter().map(signer).collect());
    (signers, order, keys)
}

/// Returns the positions of the signers in a public key file, and the files in that order.
fn registered<S: FileScheme>(
    keys: &Path,
    paths: &[PathBuf],
    files: &[SignatureFile],
) -> Result<Named> {
    let registry = read_public_keys::<S>(keys)?;
    let position_of: BTreeMap<&[u8], usize> = registry
        .keys
        .iter()
        .enumerate()
        .map(|(i, entry)| (&entry.public_key.0[..], i))
        .collect();
    let mut signers = Bitfield::new(registry.keys.len());
    let mut order = BTreeMap::new();
    for (i, (path, file)) in paths.iter().zip(files).enumerate() {
        let position = position_of.get(&file.public_key.0[..]).ok_or_else(|| {
            anyhow!(
                "{}: the key {} is not among the {} of {}",
                path.display(),
                file.public_key,
                registry.keys.len(),
                keys.display()
            )
        })?;
        signers.set(*position);
        order.insert(*position, i);
    }
    let signers = Signers::Registered {
        digest: registry_digest(registry.keys.iter().map(|entry| &entry.public_key.0[..])),
        support: Support::from_bits(signers),
    };
    let keys = registry.keys.into_iter().map(|entry| entry.public_key.0);
    Ok((signers, order.into_values().collect(), keys.collect()))
}

/// Reads a public key file.
pub(super) fn read_public_keys<S: FileScheme>(path: &Path) -> Result<PublicKeysFile> {
    read_as::<S, _>(path, "public keys", |document| match document {
        Document::PublicKeys(file) => Ok(file),
        other => Err(other.kind()),
    })
}

/// Verifies every signature, each under its own key, so no proof of possession is needed. Returns the
/// keys in the order of the files.
fn verify_all<S: FileScheme>(
    scheme: &S,
    paths: &[PathBuf],
    files: &[SignatureFile],
) -> Result<Vec<S::Key>> {
    let encoded: Vec<&[u8]> = files.iter().map(|file| &file.public_key.0[..]).collect();
    let keys = scheme
        .decode_keys(&encoded)
        .map_err(|refusal| refused(refusal, paths, "public key"))?;
    let claims: Vec<Claim<'_, S::Key>> = files
        .iter()
        .zip(&keys)
        .map(|(file, key)| Claim::Single {
            key: key.clone(),
            slot: file.slot,
            message: &file.message.0,
            signature: &file.signature.0,
        })
        .collect();
    let verdicts = scheme.verify(&[], &claims)?;
    let bad: Vec<String> = paths
        .iter()
        .zip(verdicts)
        .filter_map(|(path, verdict)| Some(format!("{}: {}", path.display(), verdict.err()?)))
        .collect();
    if bad.is_empty() {
        return Ok(keys);
    }
    Err(Error::Check(bad.join("\n")))
}
