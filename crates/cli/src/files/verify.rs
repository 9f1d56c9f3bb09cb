//! `alphorn verify`: signatures, aggregates, bundles and proofs of possession, with a verdict for each
//! file.

use super::aggregate::read_public_keys;
use super::bundle::about;
use super::bundle_file::BundleFile;
use super::command::{Command, dispatch, with_keys};
use super::document::{AggregateFile, Document, PublicKeysFile, SignatureFile};
use super::fields::{Signers, registry_digest};
use super::hex::Hex;
use super::input::expand;
use super::scheme::FileScheme;
use super::statement::{Claim, Entry, Refusal, reason_of};
use super::verdict::{Checked, Verdict, verdict_table};
use super::{FileOptions, Proofs, all_shown, shown};
use crate::error::{Error, Result};
use crate::lattice::ProfileOptions;
use crate::report::Report;
use alphorn_types::{Support, VALIDATORS_MAX};
use anyhow::anyhow;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum number of signers in all listed aggregates of one command.
const LISTED_SIGNERS_MAX: usize = VALIDATORS_MAX as usize;
/// Verify signatures, aggregates, bundles and proofs of possession, with a verdict per file
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn verify hello.json
  alphorn verify votes aggregate.json --keys keys/public-keys.json
  alphorn verify keys/public-keys.json
  alphorn verify aggregate.json --trust-keys
  alphorn verify bundle.json --keys head-keys.json --keys late-keys.json

A folder stands for its .json files. The files name their scheme, which must be the same for all.
All files are verified together, and if that fails the bad ones are found: each verdict is that of
the file alone. Exit code 0 if all hold, 1 if one does not, 2 if one is malformed or cannot be decided.

Why an aggregate needs --keys: a signer that can choose its key freely can choose X minus the keys
of others, and then sign in their names (a rogue key). A proof of possession rules that out, so each
signer must be in a --keys file, and the proofs there are verified first. --trust-keys asserts that
this was done elsewhere; never use it with keys from strangers. A single signature needs neither.
An XMSS aggregate is a list in which each signature holds under its own key, or a proof that such
signatures exist: it needs no proofs of possession, and --keys only if positions name its signers.
A bundle is one proof of several votes and needs the keys of all of them. Verifying a merge or a
bundle of XMSS takes about half a second, because each command rebuilds the verification circuits,
which takes far longer than the verification. A long-running process, such as a node, builds them once.")]
pub(crate) struct Args {
    #[command(flatten)]
    options: FileOptions,
    #[command(flatten)]
    profile: ProfileOptions,
    /// Signatures, aggregates, bundles, public key files, or folders of them
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// File of public keys with proofs of possession, for aggregates; may be repeated
    #[arg(long, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Skip the proofs of possession of the signers of aggregates (see below)
    #[arg(long)]
    trust_keys: bool,
}

/// A public key file whose keys may sign aggregates.
struct Registry {
    digest: [u8; 32],
    position_of: BTreeMap<Vec<u8>, usize>,
}

/// A claim that is ready to be verified.
enum Item<K> {
    Single {
        key: K,
        file: SignatureFile,
    },
    Group {
        group: usize,
        support: Support,
        file: AggregateFile,
    },
    Bundle {
        /// Each with the group of its keys.
        entries: Vec<(usize, Entry)>,
        proof: Vec<u8>,
    },
}

/// The claims of the files, as far as they are collected.
struct Work<'a, S: FileScheme> {
    scheme: &'a S,
    trust_keys: bool,
    registries: Vec<Registry>,
    /// Keys of the registries, then of the listed aggregates.
    groups: Vec<Vec<S::Key>>,
    listed_signers: usize,
    /// The index of the file, and its claim.
    items: Vec<(usize, Item<S::Key>)>,
    verdicts: Vec<Verdict>,
}

impl Command for Args {
    fn options(&self) -> &FileOptions {
        &self.options
    }

    fn proofs(&self) -> Proofs {
        Proofs {
            profile: self.profile,
            ..Proofs::default()
        }
    }

    fn sources(&self) -> Result<Vec<PathBuf>> {
        with_keys(&self.files, &self.keys)
    }

    fn outputs(&self) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn run_with<S: FileScheme>(&self) -> Result<()> {
        let report = Report::begin("verify", 0);
        let sink = self.options.sink();
        let paths = expand(&self.files)?;
        let scheme = S::open(&self.options, self.proofs())?;
        let mut work = Work::new(&scheme, self)?;
        let mut checked = Vec::with_capacity(paths.len());
        let mut singles = Vec::new();
        for (place, path) in paths.iter().enumerate() {
            let (kind, signers) = work.add(place, path, &mut singles);
            checked.push(Checked {
                file: shown(path),
                kind,
                signers,
                verdict: "",
                reason: String::new(),
                entries: work.entries_of(place),
            });
        }
        work.add_singles(singles);
        for (row, verdict) in checked.iter_mut().zip(work.decide()?) {
            row.verdict = verdict.name();
            verdict.reason().clone_into(&mut row.reason);
        }

        sink.say(&verdict_table(&checked));
        let count = |verdict: &Verdict| {
            checked
                .iter()
                .filter(|row| row.verdict == verdict.name())
                .count()
        };
        let valid = count(&Verdict::Valid);
        let refused = count(&Verdict::Refused(String::new()));
        let fields = json!({
            "files": checked,
            "valid": valid,
            "invalid": count(&Verdict::Invalid(String::new())),
            "refused": refused,
        });
        let config = json!({ "keys": all_shown(&self.keys), "trust_keys": self.trust_keys });
        self.options
            .write(&scheme, &report, &sink, config, fields)?;
        let bad = checked.len() - valid;
        let summary = format!("{bad} of {} files do not verify", checked.len());
        match (bad, refused) {
            (0, _) => Ok(()),
            (_, 0) => Err(Error::Check(summary)),
            _ => Err(Error::Usage(anyhow!(
                "{summary}, {refused} of them malformed or undecided"
            ))),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    dispatch(args)
}

impl<'a, S: FileScheme> Work<'a, S> {
    /// Starts with the files of `--keys`. Errors if a proof of possession is invalid.
    fn new(scheme: &'a S, args: &Args) -> Result<Self> {
        let mut work = Work {
            scheme,
            trust_keys: args.trust_keys || S::POSSESSION_BYTES == 0,
            registries: Vec::new(),
            groups: Vec::new(),
            listed_signers: 0,
            items: Vec::new(),
            verdicts: Vec::new(),
        };
        for path in &args.keys {
            let file = read_public_keys::<S>(path)?;
            let keys = if work.trust_keys {
                let encoded: Vec<&[u8]> = public_keys(&file).collect();
                scheme.decode_keys(&encoded)
            } else {
                proven(scheme, &file)
            };
            let keys = keys.map_err(|refusal| {
                let reason = format!("{}: {}", path.display(), reason_of(&refusal, "public key"));
                match refusal {
                    Refusal::Possession { .. } => Error::Check(reason),
                    Refusal::Malformed { .. } => Error::Usage(anyhow!(reason)),
                }
            })?;
            work.groups.push(keys);
            let positions = public_keys(&file).map(<[u8]>::to_vec).zip(0..);
            work.registries.push(Registry {
                digest: registry_digest(public_keys(&file)),
                position_of: positions.collect(),
            });
        }
        Ok(work)
    }

    /// Adds a file: its claim, or its verdict if that is already clear. Returns its kind and its number
    /// of signers; single signatures go to `singles`.
    fn add(
        &mut self,
        place: usize,
        path: &Path,
        singles: &mut Vec<(usize, SignatureFile)>,
    ) -> (&'static str, usize) {
        let document = match Document::read::<S>(path) {
            Ok(document) => document,
            Err(error) => {
                self.verdicts.push(Verdict::Refused(error.to_string()));
                return ("?", 0);
            }
        };
        let kind = document.kind();
        let (verdict, signers) = match document {
            Document::Signature(file) => {
                singles.push((place, file));
                (Verdict::Valid, 1)
            }
            Document::PublicKeys(file) => (self.check_public_keys(&file), file.keys.len()),
            Document::Aggregate(file) => match self.add_aggregate(place, file) {
                Ok(signers) => (Verdict::Valid, signers),
                Err(verdict) => (verdict, 0),
            },
            Document::Bundle(file) => match self.add_bundle(place, file) {
                Ok(signers) => (Verdict::Valid, signers),
                Err(verdict) => (verdict, 0),
            },
            Document::Keystore(_) | Document::InteropKey(_) => {
                let reason =
                    "holds a secret key: nothing to verify; `keys inspect --pop` checks it";
                (Verdict::Refused(reason.into()), 0)
            }
        };
        self.verdicts.push(verdict);
        (kind, signers)
    }

    fn check_public_keys(&self, file: &PublicKeysFile) -> Verdict {
        match proven(self.scheme, file) {
            Ok(_) => Verdict::Valid,
            Err(refusal) => {
                let reason = reason_of(&refusal, "public key");
                match refusal {
                    Refusal::Possession { .. } => Verdict::Invalid(reason),
                    Refusal::Malformed { .. } => Verdict::Refused(reason),
                }
            }
        }
    }

    /// Adds the claim of an aggregate; returns its number of signers.
    fn add_aggregate(
        &mut self,
        place: usize,
        file: AggregateFile,
    ) -> std::result::Result<usize, Verdict> {
        let signers = file
            .signers::<S>()
            .map_err(|error| Verdict::Refused(format!("{error:#}")))?;
        let count = signers.count();
        let (group, support) = match signers {
            Signers::Registered { digest, support } => {
                (self.registry_of(&digest, support.len())?, support)
            }
            Signers::Listed(listed) => {
                self.listed_signers += listed.len();
                if self.listed_signers > LISTED_SIGNERS_MAX {
                    return Err(Verdict::Refused(format!(
                        "{} listed signers in all files so far: at most {LISTED_SIGNERS_MAX}",
                        self.listed_signers
                    )));
                }
                let keys = self.listed_keys(&listed)?;
                self.groups.push(keys);
                let multiplicities: Vec<u8> = listed.into_values().collect();
                let support = Support::from_multiplicities(&multiplicities)
                    .map_err(|error| Verdict::Refused(error.to_string()))?;
                (self.groups.len() - 1, support)
            }
        };
        let item = Item::Group {
            group,
            support,
            file,
        };
        self.items.push((place, item));
        Ok(count)
    }

    /// Adds the claim of a bundle; returns the number of signers of all its entries.
    fn add_bundle(
        &mut self,
        place: usize,
        file: BundleFile,
    ) -> std::result::Result<usize, Verdict> {
        let entries = file
            .entries::<S>()
            .map_err(|error| Verdict::Refused(format!("{error:#}")))?;
        let count = entries
            .iter()
            .map(|entry| entry.support.signer_count())
            .sum();
        let grouped = entries.into_iter().map(|entry| {
            let group = self.registry_of(&entry.digest, entry.support.len())?;
            Ok((group, entry))
        });
        let entries = grouped.collect::<std::result::Result<Vec<_>, Verdict>>()?;
        let proof = file.proof.0;
        self.items.push((place, Item::Bundle { entries, proof }));
        Ok(count)
    }

    /// Returns the report's entry for the votes of the last file added, if it is a bundle.
    fn entries_of(&self, place: usize) -> Value {
        match self.items.last() {
            Some((last, Item::Bundle { entries, .. })) if *last == place => {
                about(entries.iter().map(|(_, entry)| entry))
            }
            _ => Value::Null,
        }
    }

    /// Returns the group of the registry with a digest.
    fn registry_of(&self, digest: &[u8; 32], keys: usize) -> std::result::Result<usize, Verdict> {
        let found = self
            .registries
            .iter()
            .position(|registry| registry.digest == *digest);
        let Some(group) = found else {
            return Err(Verdict::Refused(format!(
                "its signers are positions in the public keys with digest {}: no file of --keys \
                 has it",
                Hex::<true>(digest.to_vec())
            )));
        };
        let have = self.groups[group].len();
        if have != keys {
            return Err(Verdict::Refused(format!(
                "its support is over {keys} keys, the file of --keys has {have}"
            )));
        }
        Ok(group)
    }

    /// Returns the keys of listed signers, with possession proven unless keys are trusted.
    fn listed_keys(
        &self,
        listed: &BTreeMap<Vec<u8>, u8>,
    ) -> std::result::Result<Vec<S::Key>, Verdict> {
        if self.trust_keys {
            let encoded: Vec<&[u8]> = listed.keys().map(Vec::as_slice).collect();
            let keys = self.scheme.decode_keys(&encoded);
            return keys.map_err(|refusal| Verdict::Refused(reason_of(&refusal, "signer")));
        }
        if self.registries.is_empty() {
            return Err(Verdict::Refused(
                "its keys come without proofs of possession: give --keys FILE or --trust-keys"
                    .into(),
            ));
        }
        listed
            .keys()
            .map(|key| {
                let found =
                    self.registries
                        .iter()
                        .zip(&self.groups)
                        .find_map(|(registry, keys)| {
                            Some(keys[*registry.position_of.get(key)?].clone())
                        });
                found.ok_or_else(|| {
                    Verdict::Invalid(format!(
                        "the signer {} has no proof of possession in the files of --keys",
                        Hex::<true>(key.clone())
                    ))
                })
            })
            .collect()
    }

    /// Adds the claims of single signatures, whose keys are decoded together if all are valid.
    fn add_singles(&mut self, singles: Vec<(usize, SignatureFile)>) {
        let encoded: Vec<&[u8]> = singles
            .iter()
            .map(|(_, file)| &file.public_key.0[..])
            .collect();
        let keys: Vec<std::result::Result<S::Key, Refusal>> =
            match self.scheme.decode_keys(&encoded) {
                Ok(keys) => keys.into_iter().map(Ok).collect(),
                Err(_) => encoded
                    .iter()
                    .map(|key| Ok(self.scheme.decode_keys(&[key])?.swap_remove(0)))
                    .collect(),
            };
        for ((place, file), key) in singles.into_iter().zip(keys) {
            match key {
                Ok(key) => self.items.push((place, Item::Single { key, file })),
                Err(Refusal::Malformed { reason, .. }) => {
                    self.verdicts[place] = Verdict::Refused(format!("public key: {reason}"));
                }
                Err(refusal @ Refusal::Possession { .. }) => {
                    self.verdicts[place] = Verdict::Invalid(reason_of(&refusal, "public key"));
                }
            }
        }
    }

    /// Verifies all claims together and returns the verdict of each file.
    fn decide(mut self) -> Result<Vec<Verdict>> {
        let (mut places, mut claims) = (Vec::new(), Vec::new());
        for (place, item) in &self.items {
            claims.push(match item {
                Item::Single { key, file } => Claim::Single {
                    key: key.clone(),
                    slot: file.slot,
                    message: &file.message.0,
                    signature: &file.signature.0,
                },
                Item::Group {
                    group,
                    support,
                    file,
                } => Claim::Group {
                    group: *group,
                    support,
                    slot: file.slot,
                    message: &file.message.0,
                    evidence: &file.signature.0,
                },
                Item::Bundle { entries, proof } => {
                    let holds = self.scheme.verify_bundle(&self.groups, entries, proof);
                    if let Err(reason) = holds {
                        self.verdicts[*place] = Verdict::Invalid(reason);
                    }
                    continue;
                }
            });
            places.push(*place);
        }
        let verdicts = self.scheme.verify(&self.groups, &claims)?;
        for (place, verdict) in places.into_iter().zip(verdicts) {
            if let Err(reason) = verdict {
                self.verdicts[place] = Verdict::Invalid(reason);
            }
        }
        Ok(self.verdicts)
    }
}

fn public_keys(file: &PublicKeysFile) -> impl Iterator<Item = &[u8]> {
    file.keys.iter().map(|entry| &entry.public_key.0[..])
}

/// Returns the keys of a file, after verifying every proof of possession.
pub(super) fn proven<S: FileScheme>(
    scheme: &S,
    file: &PublicKeysFile,
) -> std::result::Result<Vec<S::Key>, Refusal> {
    let encoded: Vec<(&[u8], &[u8])> = file
        .keys
        .iter()
        .map(|entry| (&entry.public_key.0[..], &entry.proof_of_possession.0[..]))
        .collect();
    scheme.decode_proven(&encoded)
}
