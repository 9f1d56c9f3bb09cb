//! File formats, strict and bounded.
//!
//! Each of our files is one JSON object whose `schema` identifies its type. Unknown fields are errors;
//! byte strings are hex, written with `0x`. Keystores follow EIP-2335.

use super::bundle_file::BundleFile;
use super::choice::Choice;
use super::fields::{RegistryEntry, Schema, Signers, check_length, check_message, check_slot};
use super::hex::Hex;
use super::input::{ENTRIES_MAX, LIST_BYTES_MAX, Opened, check_count};
use super::keystore::{KEYSTORE_BYTES_MAX, Keystore};
use super::scheme::{FileScheme, Form};
use super::statement::Signed;
use crate::error::Result;
use alphorn_scheme::list::{TAG_MERGE, TAG_PROOF, TAG_PROOFS, list_bytes};
use anyhow::{Context, bail, ensure};
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The key of an interop validator. Anyone can compute it from its index, so the file holds no secret
/// and protects nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InteropKeyFile {
    pub(super) schema: Schema,
    pub(super) scheme: String,
    /// States this in the file.
    pub(super) warning: String,
    pub(super) index: u32,
    pub(super) public_key: Hex<true>,
    /// The slots that it signs in, if its scheme has slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) slots: Option<Slots>,
}

/// A range of consecutive slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Slots {
    pub(super) first: u64,
    /// Exclusive end.
    pub(super) end: u64,
}

/// The warning in every file with an interop key.
pub(super) const INTEROP_WARNING: &str =
    "INSECURE: everyone can compute this key from its index; for tests only";

/// Public keys in order of position, each with its proof of possession.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublicKeysFile {
    pub(super) schema: Schema,
    pub(super) scheme: String,
    pub(super) keys: Vec<PublicKeyEntry>,
}

/// A public key with its proof of possession.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublicKeyEntry {
    pub(super) public_key: Hex<true>,
    /// Absent if the scheme's keys need none.
    #[serde(default, skip_serializing_if = "Hex::is_empty")]
    pub(super) proof_of_possession: Hex<true>,
    /// The validator's key for duties, where its scheme has one in addition to the key for votes; only
    /// a network needs it.
    #[serde(default, skip_serializing_if = "Hex::is_empty")]
    pub(super) duty_key: Hex<true>,
}

/// One signature by one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignatureFile {
    pub(super) schema: Schema,
    pub(super) scheme: String,
    pub(super) public_key: Hex<true>,
    /// The slot, if keys sign once per slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) slot: Option<u64>,
    pub(super) message: Hex<true>,
    pub(super) signature: Hex<true>,
}

/// One message signed by many keys. Either `signers` or `registry` identifies them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AggregateFile {
    schema: Schema,
    scheme: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) slot: Option<u64>,
    pub(super) message: Hex<true>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signers: Option<Vec<SignerEntry>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registry: Option<RegistryEntry>,
    /// The sum of the signatures, or their list.
    pub(super) signature: Hex<true>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignerEntry {
    public_key: Hex<true>,
    multiplicity: u8,
}

/// Any file that the file tool can read.
#[derive(Debug)]
pub(super) enum Document {
    Keystore(Box<Keystore>),
    InteropKey(InteropKeyFile),
    PublicKeys(PublicKeysFile),
    Signature(SignatureFile),
    Aggregate(AggregateFile),
    Bundle(BundleFile),
}

/// The common fields of every file, which identify its type.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    crypto: Option<de::IgnoredAny>,
    /// A name, or an object in a keystore.
    scheme: Option<serde_json::Value>,
}

/// Returns the scheme that a file names, or that the lengths of a keystore imply.
pub(super) fn scheme_of(bytes: &[u8]) -> Option<Choice> {
    let head: Head = json(bytes).ok()?;
    match (head.schema, head.crypto) {
        (Some(_), _) => Choice::named(head.scheme?.as_str()?),
        (None, Some(_)) => Some(Choice::of_keystore(&json(bytes).ok()?)),
        (None, None) => None,
    }
}

impl Document {
    /// Returns its type in words.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Document::Keystore(_) => "keystore",
            Document::InteropKey(_) => "interop key",
            Document::PublicKeys(_) => "public keys",
            Document::Signature(_) => "signature",
            Document::Aggregate(_) => "aggregate",
            Document::Bundle(_) => "bundle",
        }
    }

    /// Reads a file, and validates it as far as possible without cryptography.
    pub(super) fn read<S: FileScheme>(path: &Path) -> Result<Self> {
        let opened = Opened::read(path, LIST_BYTES_MAX)?;
        Document::parse::<S>(&opened.bytes, path)
    }

    /// Like [`Document::read`], for bytes that came from `path`.
    pub(super) fn parse<S: FileScheme>(bytes: &[u8], path: &Path) -> Result<Self> {
        let named = || format!("{}", path.display());
        Ok(parse::<S>(bytes).with_context(named)?)
    }
}

fn parse<S: FileScheme>(bytes: &[u8]) -> anyhow::Result<Document> {
    let head: Head = json(bytes).context("neither a keystore nor a file of ours")?;
    let Some(schema) = head.schema else {
        ensure!(
            head.crypto.is_some(),
            "neither a keystore (no field `crypto`) nor a file of ours (no field `schema`)"
        );
        ensure!(
            bytes.len() <= KEYSTORE_BYTES_MAX,
            "a keystore of {} bytes: at most {KEYSTORE_BYTES_MAX}",
            bytes.len()
        );
        let keystore: Keystore = json(bytes).context("not a keystore of EIP-2335")?;
        check_keystore::<S>(&keystore)?;
        keystore.check(S::KEYSTORE)?;
        if let Some(key) = keystore.public_key() {
            check_length("the public key", key, S::PUBLIC_KEY_BYTES)?;
        }
        return Ok(Document::Keystore(Box::new(keystore)));
    };
    let schema: Schema = serde_json::from_value(schema.into()).context("schema")?;
    let document = match schema {
        Schema::InteropKey => {
            let file: InteropKeyFile = json(bytes)?;
            check_scheme::<S>(&file.scheme)?;
            check_length("the public key", &file.public_key.0, S::PUBLIC_KEY_BYTES)?;
            check_slots::<S>(file.slots.as_ref())?;
            Document::InteropKey(file)
        }
        Schema::PublicKeys => {
            let file: PublicKeysFile = json(bytes)?;
            check_scheme::<S>(&file.scheme)?;
            check_public_keys::<S>(&file.keys)?;
            Document::PublicKeys(file)
        }
        Schema::Signature => {
            let file: SignatureFile = json(bytes)?;
            check_scheme::<S>(&file.scheme)?;
            check_length("the public key", &file.public_key.0, S::PUBLIC_KEY_BYTES)?;
            check_length("the signature", &file.signature.0, S::SIGNATURE_BYTES)?;
            check_message::<S>(&file.message.0)?;
            check_slot::<S>(file.slot)?;
            Document::Signature(file)
        }
        Schema::Aggregate => {
            let file: AggregateFile = json(bytes)?;
            check_scheme::<S>(&file.scheme)?;
            check_message::<S>(&file.message.0)?;
            check_slot::<S>(file.slot)?;
            let signers = file.signers::<S>()?.count();
            check_evidence::<S>(&file.signature.0, signers)?;
            Document::Aggregate(file)
        }
        Schema::Bundle => {
            let file: BundleFile = json(bytes)?;
            check_scheme::<S>(&file.scheme)?;
            file.entries::<S>()?;
            Document::Bundle(file)
        }
    };
    Ok(document)
}

/// Checks that a file names the scheme of the command.
fn check_scheme<S: FileScheme>(scheme: &str) -> anyhow::Result<()> {
    if scheme == S::NAME {
        return Ok(());
    }
    match (Choice::named(scheme), Choice::named(S::NAME)) {
        (Some(found), Some(wanted)) => bail!("a file of {found}, not of {wanted}"),
        _ => bail!("of the unknown scheme {scheme:?}, not of {}", S::NAME),
    }
}

/// Checks that a keystore belongs to the scheme of the command, as far as its lengths show.
fn check_keystore<S: FileScheme>(keystore: &Keystore) -> anyhow::Result<()> {
    let found = Choice::of_keystore(keystore);
    match Choice::named(S::NAME) {
        Some(wanted) if wanted.scheme() != found.scheme() => {
            bail!("a keystore of {found}, not of {wanted}")
        }
        _ => Ok(()),
    }
}

impl AggregateFile {
    /// Builds the file of an aggregate.
    pub(super) fn new<S: FileScheme>(
        signed: Signed,
        signers: &Signers,
        signature: Vec<u8>,
    ) -> Self {
        let (listed, registry) = match signers {
            Signers::Listed(signers) => {
                let entry = |(key, multiplicity): (&Vec<u8>, &u8)| SignerEntry {
                    public_key: Hex(key.clone()),
                    multiplicity: *multiplicity,
                };
                (Some(signers.iter().map(entry).collect()), None)
            }
            Signers::Registered { digest, support } => {
                (None, Some(RegistryEntry::new(digest, support)))
            }
        };
        AggregateFile {
            schema: Schema::Aggregate,
            scheme: S::NAME.to_owned(),
            slot: signed.slot,
            message: signed.message,
            signers: listed,
            registry,
            signature: Hex(signature),
        }
    }

    /// Returns the signers.
    pub(super) fn signers<S: FileScheme>(&self) -> anyhow::Result<Signers> {
        let signers = match (&self.signers, &self.registry) {
            (Some(listed), None) => listed_signers::<S>(listed)?,
            (None, Some(registry)) => registry.signers::<S>()?,
            _ => bail!("an aggregate has either `signers` or `registry`"),
        };
        let count = signers.count();
        ensure!(count > 0, "an aggregate of 0 signers: at least 1");
        check_signers::<S>(count)?;
        Ok(signers)
    }

    /// Returns what they signed.
    pub(super) fn signed(&self) -> Signed {
        Signed {
            slot: self.slot,
            message: self.message.clone(),
        }
    }
}

fn listed_signers<S: FileScheme>(listed: &[SignerEntry]) -> anyhow::Result<Signers> {
    check_count("signers", listed.len())?;
    let mut signers = BTreeMap::new();
    for (i, entry) in listed.iter().enumerate() {
        let key = &entry.public_key;
        check_length(
            &format!("the public key of signer {i}"),
            &key.0,
            S::PUBLIC_KEY_BYTES,
        )?;
        ensure!(
            (1..=S::MULTIPLICITY_MAX).contains(&entry.multiplicity),
            "signer {i} has multiplicity {}: must be from 1 to {}",
            entry.multiplicity,
            S::MULTIPLICITY_MAX
        );
        let ascending = signers
            .last_key_value()
            .is_none_or(|(last, _)| *last < key.0);
        ensure!(
            ascending,
            "signer {i} is not in ascending order of the keys"
        );
        signers.insert(key.0.clone(), entry.multiplicity);
    }
    Ok(Signers::Listed(signers))
}

/// Checks a list of public keys: their lengths, and that there are no duplicates.
pub(super) fn check_public_keys<S: FileScheme>(keys: &[PublicKeyEntry]) -> anyhow::Result<()> {
    check_count("public keys", keys.len())?;
    let mut firsts = BTreeMap::new();
    for (i, entry) in keys.iter().enumerate() {
        check_length(
            &format!("public key {i}"),
            &entry.public_key.0,
            S::PUBLIC_KEY_BYTES,
        )?;
        check_length(
            &format!("proof of possession {i}"),
            &entry.proof_of_possession.0,
            S::POSSESSION_BYTES,
        )?;
        if let Some(first) = firsts.insert(&entry.public_key, i) {
            bail!("public key {i} repeats public key {first}");
        }
    }
    check_duty_keys::<S>(keys, firsts)
}

/// Checks that either all validators of a list have a duty key or none, and that there are no duplicate
/// keys.
fn check_duty_keys<'k, S: FileScheme>(
    keys: &'k [PublicKeyEntry],
    mut firsts: BTreeMap<&'k Hex<true>, usize>,
) -> anyhow::Result<()> {
    let with = keys.iter().filter(|entry| !entry.duty_key.is_empty());
    let with = with.count();
    ensure!(
        with == 0 || S::DUTY_KEYS,
        "a key for duties: {} signs them with the key of votes",
        S::NAME
    );
    ensure!(
        with == 0 || with == keys.len(),
        "{with} keys for duties, must be 0 or {}",
        keys.len()
    );
    for (i, entry) in keys.iter().enumerate().filter(|_| with > 0) {
        let (key, bytes) = (&entry.duty_key, S::PUBLIC_KEY_BYTES);
        check_length(&format!("the key for duties {i}"), &key.0, bytes)?;
        if let Some(first) = firsts.insert(key, i) {
            bail!("the key for duties {i} repeats a key of entry {first}");
        }
    }
    Ok(())
}

/// Checks the slots of an interop key.
fn check_slots<S: FileScheme>(slots: Option<&Slots>) -> anyhow::Result<()> {
    let limits = S::SLOTS.and_then(|limits| Some((limits.end, limits.ranges?)));
    let Some((all, ranges)) = limits else {
        ensure!(slots.is_none(), "slots: {} has no slots", S::NAME);
        return Ok(());
    };
    let Slots { first, end } = slots.with_context(|| format!("{} has slots", S::NAME))?;
    let max = ranges.interop_max;
    ensure!(
        first < end && *end <= all,
        "slots {first}..{end}: must be some of 0..{all}"
    );
    ensure!(
        end - first <= max,
        "{} slots of an interop key: at most {max}",
        end - first
    );
    Ok(())
}

/// Checks the length of the evidence of an aggregate.
fn check_evidence<S: FileScheme>(evidence: &[u8], signers: usize) -> anyhow::Result<()> {
    let exactly = match (S::FORM, S::PROOFS) {
        (Form::Sum, _) => S::SIGNATURE_BYTES,
        (Form::List, Some(limits))
            if matches!(
                evidence.first(),
                Some(&TAG_PROOF | &TAG_PROOFS | &TAG_MERGE)
            ) =>
        {
            let beside = 1 + signers * limits.beside_bytes;
            let (bytes, max) = (evidence.len(), beside + limits.proof_bytes_max);
            ensure!(
                bytes > beside && bytes <= max,
                "a proof of {signers} signers in {bytes} bytes: must have {} to {max}",
                beside + 1
            );
            return Ok(());
        }
        (Form::List, _) => list_bytes(signers, S::SIGNATURE_BYTES),
    };
    check_length("the signature", evidence, exactly)
}

/// Checks the number of signers of an aggregate.
pub(super) fn check_signers<S: FileScheme>(count: usize) -> anyhow::Result<()> {
    let max = S::SIGNERS_MAX;
    ensure!(count <= max, "{count} signers: at most {max}");
    Ok(())
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> anyhow::Result<T> {
    Ok(serde_json::from_slice(bytes)?)
}

const _: () = assert!(ENTRIES_MAX <= alphorn_types::VALIDATORS_MAX as usize);
