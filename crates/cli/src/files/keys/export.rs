//! `alphorn keys export`: a copy of a keystore under another password.

use super::KdfOptions;
use crate::error::Result;
use crate::files::fields::to_json;
use crate::files::hex::Hex;
use crate::files::input::is_stdin;
use crate::files::keyfile::Located;
use crate::files::keystore::Keystore;
use crate::files::output::{Access, Staged};
use crate::files::scheme::FileScheme;
use crate::files::secret::Password;
use crate::files::{FileOptions, SecretOptions, shown};
use crate::overwrite::check_apart;
use crate::progress::Bars;
use crate::report::Report;
use serde_json::json;
use std::path::PathBuf;

/// Copy a keystore under another password
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn keys export keystore-0.json --password-file old.txt \\
      --new-password-file new.txt --out copy.json
  alphorn keys export interop-7.json --new-password-file new.txt \\
      --out interop-7-keystore.json

The copy is an EIP-2335 keystore that other clients can read; path, description and uuid are kept. A
copy of an XMSS key does not sign: use `keys import`, which moves the key and the record of its used
slots.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) options: FileOptions,
    /// Key to copy
    pub(super) key: PathBuf,
    /// File with its password (- for standard input); an interop key has none
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// File with the password of the copy (- for standard input)
    #[arg(long, value_name = "FILE")]
    new_password_file: PathBuf,
    /// File for the copy
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    kdf: KdfOptions,
    #[command(flatten)]
    secret: SecretOptions,
    /// Replace the file if it exists; a key in it is lost
    #[arg(long)]
    force: bool,
}

impl Args {
    /// Returns the password files.
    pub(super) fn secrets(&self) -> Vec<PathBuf> {
        let new = self.new_password_file.clone();
        self.password_file.iter().cloned().chain([new]).collect()
    }
}

pub(super) fn run<S: FileScheme>(args: &Args) -> Result<()> {
    let report = Report::begin("keys export", 0);
    let sink = args.options.sink();
    let mut staged = Staged::new(args.force);
    check_apart(
        args.secrets().iter().map(PathBuf::as_path),
        [args.out.as_path()],
    )?;
    staged.check(&args.out, Access::Private)?;
    let permissions = args.secret.permissions();
    if is_stdin(&args.new_password_file) && args.password_file.as_deref().is_some_and(is_stdin) {
        return Err(anyhow::anyhow!("standard input can be only one of the passwords").into());
    }
    let located = Located::read::<S>(&args.key)?;
    let old = match &args.password_file {
        Some(file) => Some(Password::read(file, permissions)?),
        None => None,
    };
    let new = Password::read_new(&args.new_password_file, permissions)?;
    let scheme: S = args.options.open()?;
    let mut bars = Bars::new();
    let pair = located.unlock(&scheme, old.as_ref(), permissions, &mut bars)?;
    bars.clear();
    let keystore = Keystore::seal(
        &pair.secret,
        &pair.public.public_key,
        &new,
        args.kdf.protection(),
        located.about(),
        S::KEYSTORE.declared,
    )?;
    staged.add(&args.out, Access::Private, &to_json(&keystore)?)?;
    staged.commit()?;
    let public_key = Hex::<true>(pair.public.public_key);
    sink.say(&format!("{}: {public_key}", args.out.display()));
    let fields = json!({ "public_key": public_key, "file": shown(&args.out) });
    let config = json!({ "key": shown(&args.key), "out": shown(&args.out) });
    args.options.write(&scheme, &report, &sink, config, fields)
}
