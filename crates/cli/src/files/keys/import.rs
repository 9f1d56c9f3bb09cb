//! `alphorn keys import`: makes one of our keystores from another keystore or from a secret key in hex.

use super::KdfOptions;
use crate::error::Result;
use crate::files::fields::{check_slot, to_json};
use crate::files::hex::Hex;
use crate::files::input::{self, is_stdin};
use crate::files::keyfile::{KeyPair, Located, secret_from_hex};
use crate::files::keystore::{About, KEYSTORE_BYTES_MAX, Keystore};
use crate::files::output::{Access, Staged};
use crate::files::scheme::FileScheme;
use crate::files::secret::Password;
use crate::files::{FileOptions, SecretOptions, shown};
use crate::overwrite::check_apart;
use crate::progress::Bars;
use crate::report::Report;
use anyhow::{Context, bail, ensure};
use serde_json::json;
use std::path::PathBuf;

/// Create a keystore from another keystore or from a secret key in hex
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn keys import secret.hex --out keystore-0.json \\
      --password-file password.txt
  alphorn keys import - --out keystore-0.json --password-file password.txt \\
      < secret.hex
  alphorn keys import other.json --out keystore-0.json --password-file new.txt \\
      --input-password-file old.txt

The first character determines the kind of input: a keystore begins with a brace. Its public key is
checked against its secret key.

A keystore names its scheme; a key in hex needs --scheme, and so does input from standard input or a
pipe, unless it is a BLS key.

Importing an XMSS key moves it: once all new files are written, and before the new mark takes
effect, the mark beside the input is retired, so that two copies never sign. A key without its mark
(in hex, from a backup, from another host) needs --floor, a slot above every slot it has signed
in; with --out set to the key's own file and --force, the key stays where it is.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) options: FileOptions,
    /// Keystore, or file with a secret key in hex (- for standard input)
    pub(super) input: PathBuf,
    /// File for the new keystore
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// File with the password of the new keystore (- for standard input)
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf,
    /// File with the password of the input keystore, if it is different
    #[arg(long, value_name = "FILE")]
    input_password_file: Option<PathBuf>,
    /// Lowest slot in which the new key may sign, for XMSS and for Falcon without salts
    #[arg(long, value_name = "SLOT")]
    floor: Option<u64>,
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
        let new = self.password_file.clone();
        let old = self.input_password_file.iter().cloned();
        old.chain([new]).collect()
    }
}

pub(super) fn run<S: FileScheme>(args: &Args) -> Result<()> {
    let report = Report::begin("keys import", 0);
    let sink = args.options.sink();
    let scheme: S = args.options.open()?;
    let mut staged = Staged::new(args.force);
    check_apart(
        args.secrets().iter().map(PathBuf::as_path),
        [args.out.as_path()],
    )?;
    staged.check(&args.out, Access::Private)?;
    check_stdin(args)?;
    if let Some(floor) = args.floor {
        check_slot::<S>(Some(floor)).context("--floor")?;
    }
    let password = Password::read_new(&args.password_file, args.secret.permissions())?;
    let mut bars = Bars::new();
    let (pair, about) = read(&scheme, args, &password, &mut bars)?;
    bars.clear();
    let keystore = Keystore::seal(
        &pair.secret,
        &pair.public.public_key,
        &password,
        args.kdf.protection(),
        about,
        S::KEYSTORE.declared,
    )?;
    S::add_beside(&pair.key, &args.out, &mut staged)?;
    staged.add(&args.out, Access::Private, &to_json(&keystore)?)?;
    place(&scheme, args, &pair, staged)?;
    let public_key = Hex::<true>(pair.public.public_key);
    sink.say(&format!("{}: {public_key}", args.out.display()));
    let fields = json!({ "public_key": public_key, "file": shown(&args.out) });
    let config = json!({ "input": shown(&args.input), "out": shown(&args.out) });
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

/// Moves the files of the key to their final paths. A key with slots keeps signing at its old path until
/// all are written; its mark is written last, so that in between it signs nowhere.
fn place<S: FileScheme>(scheme: &S, args: &Args, pair: &KeyPair<S>, staged: Staged) -> Result<()> {
    if S::SLOTS.is_none() {
        return staged.commit();
    }
    let (known, held) = scheme.hold(&pair.key, &args.input, args.floor)?;
    let mut floor = known.max(args.floor).with_context(|| {
        format!(
            "{}: no mark beside it says which slots are signed: give --floor SLOT, above all of them",
            args.input.display()
        )
    })?;
    if held.is_none() {
        floor = scheme.hand_over(&pair.key, None, floor)?;
    }
    let mut mark = Staged::new(args.force);
    S::add_mark(&pair.key, &args.out, Some(floor), &mut mark)?;
    staged.commit()?;
    if held.is_some() {
        scheme.hand_over(&pair.key, held, floor)?;
    }
    mark.commit()
}

/// Returns the key of the input, and what the input records about it.
fn read<S: FileScheme>(
    scheme: &S,
    args: &Args,
    password: &Password,
    bars: &mut Bars,
) -> Result<(KeyPair<S>, About)> {
    let permissions = args.secret.permissions();
    let bytes = input::read_secret(&args.input, KEYSTORE_BYTES_MAX, permissions)?;
    if bytes.trim_ascii_start().first() == Some(&b'{') {
        let located = Located::parse::<S>(&bytes, &args.input)?;
        let pair = match &args.input_password_file {
            Some(file) => {
                let old = Password::read(file, permissions)?;
                located.unlock(scheme, Some(&old), permissions, bars)?
            }
            None => located.unlock(scheme, Some(password), permissions, bars)?,
        };
        return Ok((pair, located.about()));
    }
    check_no_password(args)?;
    let secret = secret_from_hex::<S>(&bytes, &args.input)?;
    let key = scheme.secret_key(&secret, &args.input, bars)?;
    let about = S::about(&key);
    Ok((KeyPair::of(scheme, (secret, key)), about))
}

fn check_no_password(args: &Args) -> anyhow::Result<()> {
    if args.input_password_file.is_some() {
        bail!("--input-password-file: a secret key in hex has no password");
    }
    Ok(())
}
