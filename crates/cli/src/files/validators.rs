//! Validators with BLS keys of their own: the public keys of a network, and the keystores of a node.

use super::bls::Bls;
use super::document::{Document, Hex, PublicKeysFile, to_json};
use super::input::{Permissions, check_count, json_files};
use super::keyfile::Located;
use super::scheme::FileScheme;
use super::secret::{Password, fill_random};
use crate::error::Result;
use crate::progress::Bars;
use crate::report::write_whole;
use alphorn_bls::{Backend, Exec, Registration, Registry, Rlc, RlcBits, SecretKey};
use alphorn_types::Validator;
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Where the keys of a node lie.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct KeystoreOptions {
    /// Folder with a keystore for each validator that the node hosts, for a network whose validators
    /// have keys of their own (ALPHORN_KEYS)
    #[arg(long, value_name = "DIR", requires = "password_file")]
    pub(crate) keystores: Option<PathBuf>,
    /// File with the password of the keystores (- for standard input)
    #[arg(long, value_name = "FILE", requires = "keystores")]
    password_file: Option<PathBuf>,
    /// Read keystores and password from files that others may open too
    #[arg(long)]
    insecure_key_permissions: bool,
}

/// A file of public keys, each with a proof of possession that is still to be verified.
pub(crate) struct PublicKeys {
    file: PublicKeysFile,
    path: PathBuf,
}

impl PublicKeys {
    /// Reads a file as `alphorn keys new` writes it.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        match Document::read::<Bls>(path)? {
            Document::PublicKeys(file) => Ok(PublicKeys {
                file,
                path: path.to_owned(),
            }),
            other => {
                let (path, kind) = (path.display(), other.kind());
                Err(anyhow!("{path}: no list of public keys, but a file of kind {kind}").into())
            }
        }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.file.keys.len()
    }

    /// Writes the list anew.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        write_whole(path, &to_json(&self.file)?)
    }

    /// The registry of the keys, all of whose proofs hold.
    pub(crate) fn registry(&self, kernel: Backend, exec: Exec<'_>) -> Result<Registry> {
        let named = || self.path.display().to_string();
        let keys = self.file.keys.iter();
        let registrations: Option<Vec<Registration>> = keys
            .map(|entry| {
                Some(Registration {
                    public_key: entry.public_key.0.as_slice().try_into().ok()?,
                    proof: entry.proof_of_possession.0.as_slice().try_into().ok()?,
                })
            })
            .collect();
        let registrations = registrations
            .context("a key or a proof of another length")
            .with_context(named)?;
        let mut secret = Zeroizing::new([0; 32]);
        fill_random(&mut *secret)?;
        let rlc = Rlc::new(*secret, RlcBits::Bits64);
        let registry = Registry::new(&registrations, kernel, &rlc, exec);
        Ok(registry.with_context(named)?)
    }
}

impl KeystoreOptions {
    /// The secret keys of a node named `node` that hosts `hosted`: one keystore for each of them, and
    /// none besides. A list of public keys may lie in the same folder.
    pub(crate) fn unlock(
        &self,
        folder: &Path,
        registry: &Registry,
        node: &str,
        hosted: &[Validator],
    ) -> Result<BTreeMap<Validator, SecretKey>> {
        let permissions = match self.insecure_key_permissions {
            true => Permissions::Any,
            false => Permissions::Private,
        };
        let password = match &self.password_file {
            Some(file) => Some(Password::read(file, permissions)?),
            None => None,
        };
        let scheme = Bls::with_threads(1)?;
        let of_key: BTreeMap<[u8; Bls::PUBLIC_KEY_BYTES], Validator> = registry
            .keys()
            .iter()
            .zip(0..)
            .map(|(key, v)| (key.to_bytes(), Validator(v)))
            .collect();
        let files = json_files(folder)?;
        let mut bars = Bars::new();
        let mut found: BTreeMap<Validator, (PathBuf, SecretKey)> = BTreeMap::new();
        for (i, path) in files.iter().enumerate() {
            bars.show("keystores", i as u64, files.len() as u64);
            if let Document::PublicKeys(_) = Document::read::<Bls>(path)? {
                continue;
            }
            let located = Located::read::<Bls>(path)?;
            let pair = located.unlock(&scheme, password.as_ref(), permissions, &mut bars)?;
            let (key, file) = (Hex::<true>(pair.public.public_key), path.display());
            let validator = <[u8; Bls::PUBLIC_KEY_BYTES]>::try_from(key.0.as_slice());
            let validator = validator.ok().and_then(|key| of_key.get(&key).copied());
            let validator = validator.ok_or_else(|| {
                anyhow!("{file}: the network has no validator with the key {key}")
            })?;
            if hosted.binary_search(&validator).is_err() {
                let v = validator.0;
                return Err(anyhow!("{file}: validator {v}, which {node} does not host").into());
            }
            if let Some((first, _)) = found.insert(validator, (path.clone(), pair.key)) {
                let (v, first) = (validator.0, first.display());
                return Err(anyhow!("{file}: the key of validator {v}, as {first}").into());
            }
        }
        bars.clear();
        check_all(folder, node, hosted, &found)?;
        let keys = found.into_iter();
        Ok(keys.map(|(validator, (_, key))| (validator, key)).collect())
    }
}

/// Refuses a folder that lacks keystores.
fn check_all<T>(
    folder: &Path,
    node: &str,
    hosted: &[Validator],
    found: &BTreeMap<Validator, T>,
) -> anyhow::Result<()> {
    check_count("hosted validators", hosted.len())?;
    let mut lacking = hosted.iter().filter(|v| !found.contains_key(v));
    match lacking.next() {
        None => Ok(()),
        Some(first) => Err(anyhow!(
            "{}: {} keystores, {node} hosts {} validators; that of validator {} is not there",
            folder.display(),
            found.len(),
            hosted.len(),
            first.0
        )),
    }
}
