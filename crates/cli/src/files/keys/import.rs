//! `alphorn keys import`: a keystore of ours from another keystore or from a secret key in hex.

use super::KdfOptions;
use crate::error::Result;
use crate::files::document::{Hex, to_json};
use crate::files::input::{self, is_stdin};
use crate::files::keyfile::{KeyPair, Located, secret_from_hex};
use crate::files::keystore::{About, KEYSTORE_BYTES_MAX, Keystore};
use crate::files::output::{Access, Staged};
use crate::files::scheme::FileScheme;
use crate::files::secret::Password;
use crate::files::{FileOptions, SecretOptions};
use crate::report::Report;
use anyhow::{bail, ensure};
use serde_json::json;
use std::path::PathBuf;

/// A keystore from another keystore or from a secret key in hex
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn keys import secret.hex --out keystore-0.json --password-file password.txt
  alphorn keys import --out keystore-0.json --password-file password.txt - < secret.hex
  alphorn keys import other.json --out keystore-0.json --password-file new.txt \\
      --input-password-file old.txt

The input is told by its first character: a keystore begins with a brace. Its public key is checked
against its secret.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) options: FileOptions,
    /// A keystore, or a secret key in hex (- for standard input)
    input: PathBuf,
    /// The new keystore
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Password of the new keystore (- for standard input)
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf,
    /// Password of the keystore that is read, if it is another one
    #[arg(long, value_name = "FILE")]
    input_password_file: Option<PathBuf>,
    #[command(flatten)]
    kdf: KdfOptions,
    #[command(flatten)]
    secret: SecretOptions,
    /// Replace the file if it exists; a key in it is lost
    #[arg(long)]
    force: bool,
}

pub(super) fn run<S: FileScheme>(args: &Args) -> Result<()> {
    let report = Report::begin("keys import", 0);
    let sink = args.options.sink()?;
    let scheme: S = args.options.open()?;
    let mut staged = Staged::new(args.force);
    staged.check(&args.out)?;
    check_stdin(args)?;
    let password = Password::read_new(&args.password_file, args.secret.permissions())?;
    let (pair, about) = read(&scheme, args, &password)?;
    let keystore = Keystore::seal(
        &pair.secret,
        &pair.public.public_key,
        &password,
        args.kdf.protection(),
        about,
    )?;
    staged.add(&args.out, Access::Private, &to_json(&keystore)?)?;
    staged.commit()?;
    let public_key = Hex::<true>(pair.public.public_key);
    sink.say(&format!("{}: {public_key}", args.out.display()));
    let fields = json!({ "public_key": public_key, "file": args.out });
    let config = json!({ "input": args.input, "out": args.out });
    args.options.write(&scheme, &report, &sink, config, fields)
}

fn check_stdin(args: &Args) -> anyhow::Result<()> {
    let sources = [
        Some(&args.input),
        Some(&args.password_file),
        args.input_password_file.as_ref(),
    ];
    let from_stdin = sources.into_iter().flatten().filter(|path| is_stdin(path));
    ensure!(
        from_stdin.count() <= 1,
        "standard input can be only one of secret key and passwords"
    );
    Ok(())
}

/// The key of the input, and what it says of it.
fn read<S: FileScheme>(scheme: &S, args: &Args, password: &Password) -> Result<(KeyPair, About)> {
    let permissions = args.secret.permissions();
    let bytes = input::read_secret(&args.input, KEYSTORE_BYTES_MAX, permissions)?;
    if bytes.trim_ascii_start().first() == Some(&b'{') {
        let located = Located::parse::<S>(&bytes, &args.input)?;
        let pair = match &args.input_password_file {
            Some(file) => {
                let old = Password::read(file, permissions)?;
                located.unlock(scheme, Some(&old), permissions)?
            }
            None => located.unlock(scheme, Some(password), permissions)?,
        };
        return Ok((pair, located.about()));
    }
    check_no_password(args)?;
    let pair = KeyPair::of(scheme, secret_from_hex::<S>(&bytes, &args.input)?)?;
    Ok((pair, About::default()))
}

fn check_no_password(args: &Args) -> anyhow::Result<()> {
    if args.input_password_file.is_some() {
        bail!("--input-password-file: a secret key in hex has no password");
    }
    Ok(())
}
