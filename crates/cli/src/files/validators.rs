//! Validators with their own keys: the public keys of a network, and the keystores of a node.

use super::bls::Bls;
use super::document::{Document, PublicKeyEntry, PublicKeysFile};
use super::falcon::Falcon;
use super::falcon_flavours::FnDsa04;
use super::fields::to_json;
use super::hex::Hex;
use super::input::{Permissions, check_count, json_files};
use super::keyfile::Located;
use super::marks::{KeyMark, KeyMarks, open_mark};
use super::scheme::FileScheme;
use super::secret::{Password, fill_random};
use super::statement::Refusal;
use super::xmss::{CompactSet, Xmss};
use crate::error::Result;
use crate::progress::Bars;
use crate::report::write_whole;
use alphorn_bls::{Registration, Rlc, RlcBits};
use alphorn_types::Validator;
use alphorn_xmss::Purpose;
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Threads used to open keystores: a lost tree is rebuilt.
const THREADS: usize = 1;

/// Where the keys of a node lie.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct KeystoreOptions {
    /// Folder with one keystore per validator that the node hosts (two with XMSS), for a network whose
    /// validators have their own keys (ALPHORN_KEYS)
    #[arg(long, value_name = "DIR", requires = "password_file")]
    pub(crate) keystores: Option<PathBuf>,
    /// File with the password of the keystores (- for standard input)
    #[arg(long, value_name = "FILE", requires = "keystores")]
    pub(crate) password_file: Option<PathBuf>,
    /// Accept keystore and password files that other users can open
    #[arg(long)]
    insecure_key_permissions: bool,
}

/// A file of public keys. Those of BLS have proofs of possession, which are not yet verified.
pub(crate) struct PublicKeys {
    file: PublicKeysFile,
    path: PathBuf,
}

impl PublicKeys {
    /// Reads a file as written by `alphorn keys new`, of a scheme that networks support.
    pub(crate) fn read(scheme: &str, path: &Path) -> Result<Self> {
        match scheme {
            "bls" => Self::read_of::<Bls>(path),
            "falcon" => Self::read_of::<Falcon<FnDsa04>>(path),
            _ => Self::read_of::<Xmss<CompactSet>>(path),
        }
    }

    fn read_of<S: FileScheme>(path: &Path) -> Result<Self> {
        let shown = path.display();
        let file = match Document::read::<S>(path)? {
            Document::PublicKeys(file) => file,
            other => {
                let kind = other.kind();
                return Err(
                    anyhow!("{shown}: no list of public keys, but a file of kind {kind}").into(),
                );
            }
        };
        // Either all entries have one or none do.
        if S::DUTY_KEYS && file.keys.iter().any(|entry| entry.duty_key.0.is_empty()) {
            let name = S::NAME;
            return Err(anyhow!(
                "{shown}: no keys for duties, a validator of {name} has one: `keys new --duties`"
            )
            .into());
        }
        let path = path.to_owned();
        Ok(PublicKeys { file, path })
    }

    /// Returns the number of validators.
    pub(crate) fn len(&self) -> usize {
        self.file.keys.len()
    }

    /// Writes the list again.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        write_whole(path, &to_json(&self.file)?)
    }

    /// Returns the registry of BLS keys, after checking all proofs of possession.
    pub(crate) fn bls(&self, exec: alphorn_exec::Exec<'_>) -> Result<alphorn_bls::Registry> {
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
        let registry = alphorn_bls::Registry::new(&registrations, &rlc, exec);
        Ok(registry.with_context(named)?)
    }

    /// Returns the registry of Falcon keys.
    pub(crate) fn falcon(&self, kernel: alphorn_exec::Backend) -> Result<alphorn_falcon::Registry> {
        let scheme = Falcon::<FnDsa04>::with_threads(THREADS, kernel)?;
        let keys = self.decode(&scheme, Purpose::Vote)?;
        Ok(alphorn_falcon::Registry::new(keys))
    }

    /// Returns the registry of XMSS keys, two per validator.
    pub(crate) fn xmss(&self, kernel: alphorn_exec::Backend) -> Result<alphorn_xmss::Registry> {
        let scheme = Xmss::<CompactSet>::with_threads(THREADS, kernel)?;
        let votes = self.decode(&scheme, Purpose::Vote)?;
        let duties = self.decode(&scheme, Purpose::Duty)?;
        Ok(alphorn_xmss::Registry::new(votes, duties))
    }

    fn decode<S: FileScheme>(&self, scheme: &S, purpose: Purpose) -> Result<Vec<S::Key>> {
        let encoded = |entry: &PublicKeyEntry| match purpose {
            Purpose::Vote => entry.public_key.clone(),
            Purpose::Duty => entry.duty_key.clone(),
        };
        let encoded: Vec<Hex<true>> = self.file.keys.iter().map(encoded).collect();
        let encoded: Vec<&[u8]> = encoded.iter().map(|key| key.0.as_slice()).collect();
        let path = self.path.display();
        let keys = scheme
            .decode_keys(&encoded)
            .map_err(|refusal| match refusal {
                Refusal::Malformed { index, reason } => anyhow!("{path}: key {index}: {reason}"),
                Refusal::Possession { index } => {
                    anyhow!("{path}: key {index}: the proof of possession does not hold")
                }
            });
        Ok(keys?)
    }
}

/// Identifies a key of a network by validator and purpose. Schemes with one key per validator use it
/// for votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeyOwner {
    validator: Validator,
    purpose: Purpose,
}

impl fmt::Display for KeyOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "validator {}", self.validator.0)?;
        match self.purpose {
            Purpose::Vote => Ok(()),
            Purpose::Duty => write!(f, " for duties"),
        }
    }
}

/// The validators whose secret keys a node has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hosted<'a> {
    /// The node's name.
    pub(crate) node: &'a str,
    /// Ascending.
    pub(crate) validators: &'a [Validator],
}

/// Secret keys with the file of each.
type Unlocked<K> = BTreeMap<KeyOwner, (PathBuf, K)>;

impl KeystoreOptions {
    /// Returns the secret keys of a node in a BLS network.
    pub(crate) fn bls(
        &self,
        folder: &Path,
        public: &PublicKeys,
        hosted: Hosted<'_>,
    ) -> Result<BTreeMap<Validator, alphorn_bls::SecretKey>> {
        let scheme = Bls::with_threads(THREADS)?;
        let keys = self.unlock(&scheme, folder, public, hosted)?.into_iter();
        Ok(keys
            .map(|(owner, (_, key))| (owner.validator, key))
            .collect())
    }

    /// Returns the secret keys of a node in a Falcon network.
    pub(crate) fn falcon(
        &self,
        folder: &Path,
        public: &PublicKeys,
        hosted: Hosted<'_>,
        kernel: alphorn_exec::Backend,
    ) -> Result<alphorn_falcon::Signers> {
        let scheme = Falcon::<FnDsa04>::with_threads(THREADS, kernel)?;
        let mut signers = alphorn_falcon::Signers::new();
        for (owner, (_, key)) in self.unlock(&scheme, folder, public, hosted)? {
            signers.insert(owner.validator, key);
        }
        Ok(signers)
    }

    /// Returns the secret keys of a node in an XMSS network, and the marks next to them.
    pub(crate) fn xmss(
        &self,
        folder: &Path,
        public: &PublicKeys,
        hosted: Hosted<'_>,
        kernel: alphorn_exec::Backend,
    ) -> Result<(alphorn_xmss::Signers, KeyMarks)> {
        let scheme = Xmss::<CompactSet>::with_threads(THREADS, kernel)?;
        let (mut signers, mut marks) = (alphorn_xmss::Signers::new(), Vec::new());
        for (owner, (path, key)) in self.unlock(&scheme, folder, public, hosted)? {
            if key.purpose() != owner.purpose {
                let (file, found) = (path.display(), key.purpose());
                return Err(anyhow!("{file}: a key of purpose {found:?}, that of {owner}").into());
            }
            let (path, store) = open_mark(&key, &path)?;
            marks.push(KeyMark {
                validator: owner.validator,
                path,
                slots: key.slots(),
                store,
            });
            signers.insert(owner.validator, key);
        }
        Ok((signers, KeyMarks::new(marks)))
    }

    /// Unlocks the secret keys of a node: exactly one keystore for each key of the validators that it
    /// hosts. A list of public keys may be in the same folder.
    fn unlock<S: FileScheme>(
        &self,
        scheme: &S,
        folder: &Path,
        public: &PublicKeys,
        hosted: Hosted<'_>,
    ) -> Result<Unlocked<S::SecretKey>> {
        let permissions = match self.insecure_key_permissions {
            true => Permissions::Any,
            false => Permissions::Private,
        };
        let password = match &self.password_file {
            Some(file) => Some(Password::read(file, permissions)?),
            None => None,
        };
        let owners = owners(public);
        let files = json_files(folder)?;
        let mut bars = Bars::new();
        let mut found = Unlocked::<S::SecretKey>::new();
        for (i, path) in files.iter().enumerate() {
            bars.show("keystores", i as u64, files.len() as u64);
            if let Document::PublicKeys(_) = Document::read::<S>(path)? {
                continue;
            }
            let located = Located::read::<S>(path)?;
            let pair = located.unlock(scheme, password.as_ref(), permissions, &mut bars)?;
            let (key, file) = (Hex::<true>(pair.public.public_key), path.display());
            let owner = owners.get(key.0.as_slice()).copied().ok_or_else(|| {
                anyhow!("{file}: the network has no validator with the key {key}")
            })?;
            if hosted.validators.binary_search(&owner.validator).is_err() {
                let node = hosted.node;
                return Err(anyhow!("{file}: {owner}, which {node} does not host").into());
            }
            if let Some((first, _)) = found.insert(owner, (path.clone(), pair.key)) {
                let first = first.display();
                return Err(anyhow!("{file}: the key of {owner}, as {first}").into());
            }
        }
        bars.clear();
        check_all::<S>(folder, hosted, &found)?;
        Ok(found)
    }
}

/// Returns the validator and purpose of each public key.
fn owners(public: &PublicKeys) -> BTreeMap<&[u8], KeyOwner> {
    let mut owners = BTreeMap::new();
    for (entry, v) in public.file.keys.iter().zip(0..) {
        let keys = [
            (Purpose::Vote, &entry.public_key),
            (Purpose::Duty, &entry.duty_key),
        ];
        for (purpose, key) in keys.into_iter().filter(|(_, key)| !key.0.is_empty()) {
            let validator = Validator(v);
            owners.insert(key.0.as_slice(), KeyOwner { validator, purpose });
        }
    }
    owners
}

/// Rejects a folder with missing keystores.
fn check_all<S: FileScheme>(
    folder: &Path,
    hosted: Hosted<'_>,
    found: &Unlocked<S::SecretKey>,
) -> anyhow::Result<()> {
    let Hosted { node, validators } = hosted;
    check_count("hosted validators", validators.len())?;
    let purposes: &[Purpose] = match S::DUTY_KEYS {
        true => &[Purpose::Vote, Purpose::Duty],
        false => &[Purpose::Vote],
    };
    let wanted = validators.iter().flat_map(|&validator| {
        let owner = move |&purpose| KeyOwner { validator, purpose };
        purposes.iter().map(owner)
    });
    match { wanted }.find(|owner| !found.contains_key(owner)) {
        None => Ok(()),
        Some(first) => Err(anyhow!(
            "{}: {} keystores, {node} hosts {} validators; that of {first} is not there",
            folder.display(),
            found.len(),
            validators.len(),
        )),
    }
}
