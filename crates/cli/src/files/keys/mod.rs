//! `alphorn keys`: make, import, copy, list and inspect keys.

mod export;
mod import;
mod inspect;
mod list;
mod new;

use super::FileOptions;
use super::document::{PublicKeyEntry, PublicKeysFile};
use super::input::{expand, json_files};
use super::keystore::{COST_LOG2_DEFAULT, KdfName, Protection};
use super::scheme::{FileScheme, PublicHalf};
use crate::error::Result;
use crate::files::command::{Command, dispatch};
use crate::files::fields::Schema;
use crate::files::hex::Hex;
use clap::Subcommand;
use std::path::{Path, PathBuf};

/// Manage key files: create, import, export, list and inspect them
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn keys new --out keys --count 4 --password-file password.txt
  alphorn keys new --out test-keys --count 1000 --interop 0
  alphorn keys new --scheme xmss --out keys --password-file password.txt
  alphorn keys list keys")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Create keys: one keystore per key, and a file with all public keys and proofs of possession
    New(new::Args),
    /// Create a keystore from another keystore or from a secret key in hex
    Import(import::Args),
    /// Copy a keystore under another password
    Export(export::Args),
    /// List the keys in a folder
    List(list::Args),
    /// Show what files claim about their keys, never the secrets; join public keys into one list
    Inspect(inspect::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    dispatch(&args.what)
}

impl Command for What {
    fn options(&self) -> &FileOptions {
        match self {
            What::New(args) => &args.options,
            What::Import(args) => &args.options,
            What::Export(args) => &args.options,
            What::List(args) => &args.options,
            What::Inspect(args) => &args.options,
        }
    }

    fn sources(&self) -> Result<Vec<PathBuf>> {
        match self {
            What::New(_) => Ok(Vec::new()),
            What::Import(args) => Ok(vec![args.input.clone()]),
            What::Export(args) => Ok(vec![args.key.clone()]),
            What::List(args) => json_files(&args.folder),
            What::Inspect(args) => expand(&args.files),
        }
    }

    fn others(&self) -> Vec<PathBuf> {
        match self {
            What::New(args) => args.secrets(),
            What::Import(args) => args.secrets(),
            What::Export(args) => args.secrets(),
            What::List(_) => Vec::new(),
            What::Inspect(args) => args.password_file.iter().cloned().collect(),
        }
    }

    /// A key that is moved or copied may replace itself: [`import`] and [`export`] check the rest.
    fn outputs(&self) -> Result<Vec<PathBuf>> {
        match self {
            What::Inspect(args) => Ok(args.out.iter().cloned().collect()),
            What::New(_) | What::Import(_) | What::Export(_) | What::List(_) => Ok(Vec::new()),
        }
    }

    fn run_with<S: FileScheme>(&self) -> Result<()> {
        match self {
            What::New(args) => new::run::<S>(args),
            What::Import(args) => import::run::<S>(args),
            What::Export(args) => export::run::<S>(args),
            What::List(args) => list::run::<S>(args),
            What::Inspect(args) => inspect::run::<S>(args),
        }
    }
}

/// How the password of a new keystore is made hard to guess.
#[derive(clap::Args, Clone, Debug)]
struct KdfOptions {
    /// Key derivation of the new keystore
    #[arg(long, value_enum, default_value_t = KdfName::Scrypt)]
    kdf: KdfName,
    /// log2 of scrypt's n (with r = 8, p = 1) or of the number of PBKDF2 iterations
    #[arg(long, value_name = "LOG2", default_value_t = COST_LOG2_DEFAULT,
          value_parser = clap::value_parser!(u8).range(10..=20))]
    kdf_cost: u8,
}

impl KdfOptions {
    fn protection(&self) -> Protection {
        Protection {
            kdf: self.kdf,
            cost_log2: self.kdf_cost,
        }
    }
}

/// Returns the file of the duty key next to that of the voting key.
fn duty_path(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push("-duty.json");
    path.with_file_name(name)
}

/// Builds the file of some public keys.
fn public_keys_file<S: FileScheme>(keys: Vec<PublicKeyEntry>) -> PublicKeysFile {
    PublicKeysFile {
        schema: Schema::PublicKeys,
        scheme: S::NAME.to_owned(),
        keys,
    }
}

/// Builds the entry of a key, with its duty key if it has one.
fn public_key_entry(key: PublicHalf, duty: Option<PublicHalf>) -> PublicKeyEntry {
    PublicKeyEntry {
        public_key: Hex(key.public_key),
        proof_of_possession: Hex(key.possession),
        duty_key: Hex(duty.map(|duty| duty.public_key).unwrap_or_default()),
    }
}
