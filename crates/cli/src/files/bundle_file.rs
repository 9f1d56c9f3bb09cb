//! The file of a bundle.

use super::fields::{RegistryEntry, Schema, Signers, check_message, check_slot};
use super::hex::Hex;
use super::scheme::FileScheme;
use super::statement::{Entry, Signed};
use super::xmss::SetType;
use alphorn_xmss::{Preset, Proofs, Set};
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

/// Several votes and one proof of all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BundleFile {
    schema: Schema,
    pub(super) scheme: String,
    entries: Vec<EntryFile>,
    pub(super) proof: Hex<true>,
}

/// The signers and their statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryFile {
    slot: u64,
    message: Hex<true>,
    registry: RegistryEntry,
}

impl BundleFile {
    pub(super) fn new<P: SetType>(entries: &[Entry], proof: Vec<u8>) -> BundleFile {
        let entry = |entry: &Entry| EntryFile {
            slot: entry.signed.slot.unwrap_or_default(),
            message: entry.signed.message.clone(),
            registry: RegistryEntry::new(&entry.digest, &entry.support),
        };
        BundleFile {
            schema: Schema::Bundle,
            scheme: P::NAME.to_owned(),
            entries: entries.iter().map(entry).collect(),
            proof: Hex(proof),
        }
    }

    /// Returns the number of entries.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the entries, checked as far as possible without keys.
    pub(super) fn entries<S: FileScheme>(&self) -> anyhow::Result<Vec<Entry>> {
        let proofs = Set::ALL.map(|set| Proofs::new(set, Preset::FAST));
        let (got, max) = (self.entries.len(), proofs[0].entries_max());
        ensure!(
            (1..=max).contains(&got),
            "a bundle of {got} entries: must have 1 to {max}"
        );
        // Its scheme and exact length limit are checked with the keys.
        let max = proofs.map(|proofs| proofs.bundle_bytes_max(got));
        let (bytes, max) = (
            self.proof.0.len(),
            max.into_iter().max().unwrap_or_default(),
        );
        ensure!(bytes <= max, "a proof of {bytes} bytes: at most {max}");
        let entry = |(i, entry): (usize, &EntryFile)| {
            let named = || format!("entry {i}");
            check_message::<S>(&entry.message.0).with_context(named)?;
            check_slot::<S>(Some(entry.slot)).with_context(named)?;
            let Signers::Registered { digest, support } =
                entry.registry.signers::<S>().with_context(named)?
            else {
                bail!("entry {i}: its signers are not named by positions");
            };
            ensure!(
                support.signer_count() > 0,
                "entry {i}: 0 signers, at least 1"
            );
            Ok(Entry {
                signed: Signed {
                    slot: Some(entry.slot),
                    message: entry.message.clone(),
                },
                digest,
                support,
            })
        };
        self.entries.iter().enumerate().map(entry).collect()
    }
}
