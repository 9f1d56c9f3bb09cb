//! A secret key from any file that holds one: a keystore, or the file of an interop key.

use super::document::{Document, INTEROP_WARNING, InteropKeyFile, Slots};
use super::fields::Schema;
use super::hex::Hex;
use super::input::{Opened, Permissions};
use super::keystore::{About, KEYSTORE_BYTES_MAX, Keystore};
use super::scheme::{FileScheme, PublicHalf};
use super::secret::{Password, Secret};
use crate::error::Result;
use crate::progress::Bars;
use crate::report::note;
use anyhow::{Context, anyhow, ensure};
use std::ops::Range;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A secret key and its public half.
pub(super) struct KeyPair<S: FileScheme> {
    pub(super) secret: Secret,
    pub(super) key: S::SecretKey,
    pub(super) public: PublicHalf,
}

impl<S: FileScheme> KeyPair<S> {
    /// Builds the pair of a secret key.
    pub(super) fn of(scheme: &S, (secret, key): (Secret, S::SecretKey)) -> Self {
        let public = scheme.public_half(&key);
        KeyPair {
            secret,
            key,
            public,
        }
    }
}

/// A file with a key whose secret has not been read yet.
#[derive(Debug)]
pub(super) enum KeyFile {
    Keystore(Box<Keystore>),
    Interop(InteropKeyFile),
}

/// A key file and its path.
pub(super) struct Located {
    pub(super) key: KeyFile,
    path: PathBuf,
    /// The open file with its permissions, unless they were already checked.
    opened: Option<Opened>,
}

impl Located {
    /// Reads a key file.
    pub(super) fn read<S: FileScheme>(path: &Path) -> Result<Self> {
        let opened = Opened::read(path, KEYSTORE_BYTES_MAX)?;
        let mut located = Located::parse::<S>(&opened.bytes, path)?;
        located.opened = Some(opened);
        Ok(located)
    }

    /// Like [`Located::read`], for bytes that came from a private `path`.
    pub(super) fn parse<S: FileScheme>(bytes: &[u8], path: &Path) -> Result<Self> {
        let key = match Document::parse::<S>(bytes, path)? {
            Document::Keystore(keystore) => KeyFile::Keystore(keystore),
            Document::InteropKey(file) => KeyFile::Interop(file),
            other => {
                let (path, kind) = (path.display(), other.kind());
                return Err(anyhow!("{path}: no secret key, but a file of kind {kind}").into());
            }
        };
        if let KeyFile::Keystore(keystore) = &key {
            for field in keystore.foreign_fields() {
                note(&format!(
                    "alphorn: {}: unknown field {field:?} ignored",
                    path.display()
                ));
            }
        }
        Ok(Located {
            key,
            path: path.to_owned(),
            opened: None,
        })
    }

    /// Returns the secret key. A keystore needs its password, and must be private.
    pub(super) fn unlock<S: FileScheme>(
        &self,
        scheme: &S,
        password: Option<&Password>,
        permissions: Permissions,
        bars: &mut Bars,
    ) -> Result<KeyPair<S>> {
        let named = || format!("{}", self.path.display());
        let (pair, declared) = match &self.key {
            KeyFile::Keystore(keystore) => {
                if let Some(opened) = &self.opened {
                    opened.check_private(permissions)?;
                }
                let password = password
                    .context("a keystore needs its password: --password-file")
                    .with_context(named)?;
                let secret = keystore.open(password, S::KEYSTORE).with_context(named)?;
                let key = scheme
                    .secret_key(&secret, &self.path, bars)
                    .map_err(|error| anyhow!("{}: {error}", named()))?;
                ((secret, key), keystore.public_key())
            }
            KeyFile::Interop(file) => {
                let slots = file.slots.as_ref().map(|slots| slots.first..slots.end);
                let pair = scheme.interop(file.index, slots)?;
                (pair, Some(&file.public_key.0[..]))
            }
        };
        let pair = KeyPair::of(scheme, pair);
        if let Some(declared) = declared {
            check_public_key(declared, &pair.public.public_key).with_context(named)?;
        }
        Ok(pair)
    }

    /// Returns what a copy of the keystore records about its key.
    pub(super) fn about(&self) -> About {
        match &self.key {
            KeyFile::Keystore(keystore) => keystore.about(),
            KeyFile::Interop(file) => About {
                description: Some(format!("interop key {}. {INTEROP_WARNING}", file.index)),
                ..About::default()
            },
        }
    }
}

fn check_public_key(declared: &[u8], derived: &[u8]) -> anyhow::Result<()> {
    ensure!(
        declared == derived,
        "names the public key {}, but that of its secret is {}",
        Hex::<true>(declared.to_vec()),
        Hex::<true>(derived.to_vec())
    );
    Ok(())
}

/// Builds the file of an interop key.
pub(super) fn interop_file<S: FileScheme>(
    index: u32,
    slots: Option<&Range<u64>>,
    public: &PublicHalf,
) -> InteropKeyFile {
    InteropKeyFile {
        schema: Schema::InteropKey,
        scheme: S::NAME.to_owned(),
        warning: INTEROP_WARNING.to_owned(),
        index,
        public_key: Hex(public.public_key.clone()),
        slots: slots.map(|slots| Slots {
            first: slots.start,
            end: slots.end,
        }),
    }
}

/// Parses a secret key from hex digits, ignoring surrounding white space.
pub(super) fn secret_from_hex<S: FileScheme>(text: &[u8], source: &Path) -> Result<Secret> {
    let named = || format!("{}", source.display());
    let digits = text.trim_ascii();
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    if digits.len() != 2 * S::SECRET_BYTES {
        return Err(anyhow!(
            "{}: {} hex digits, a secret key of {} has {}",
            named(),
            digits.len(),
            S::NAME,
            2 * S::SECRET_BYTES
        )
        .into());
    }
    // The decoder's error would print a character of the secret.
    let mut bytes = Zeroizing::new(vec![0; S::SECRET_BYTES]);
    hex::decode_to_slice(digits, &mut bytes)
        .map_err(|_| anyhow!("{}: a secret key is written in hex digits", named()))?;
    Ok(Secret::new(std::mem::take(&mut *bytes)))
}
