//! `alphorn sign`: a message with one key or with many.

use super::document::{
    Hex, MESSAGE_BYTES_MAX, Schema, SignatureFile, check_message, check_slot, to_json,
};
use super::input::{self, Opened, check_count};
use super::keyfile::Located;
use super::output::{Access, Staged};
use super::scheme::{Command, FileScheme, ToSign, dispatch};
use super::secret::Password;
use super::{FileOptions, SecretOptions};
use crate::error::Result;
use crate::progress::Bars;
use crate::report::Report;
use anyhow::{Context, ensure};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Bytes of a message in hex: the root that a vote is signed over.
const ROOT_BYTES: usize = 32;

/// Sign a message with one key or with many
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn sign --key keystore-0.json --password-file password.txt --text hello --out hello.json
  alphorn sign --key keys/interop-0.json keys/interop-1.json --out-dir votes \\
      --message 0x5656565656565656565656565656565656565656565656565656565656565656
  alphorn sign --scheme xmss --slot 7 --key keystore-0.json --password-file password.txt \\
      --message-file digest --out vote.json

The bytes of the message are signed as they are. One password opens all keystores. With --out-dir
the signature of KEY.json goes into DIR/KEY.signature.json. BLS signs in constant time.

XMSS signs a digest of 32 bytes, once in each --slot, and slots only grow: before a signature leaves
the process, KEY.mark beside KEY.json says on the disk that the slot is used. The same message in
the last slot gives the same signature again; any other is refused with exit code 1.")]
pub(crate) struct Args {
    #[command(flatten)]
    options: FileOptions,
    /// Keystores or interop keys
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    key: Vec<PathBuf>,
    #[command(flatten)]
    message: MessageArgs,
    /// The slot of the signature, for XMSS
    #[arg(long, value_name = "SLOT")]
    slot: Option<u64>,
    /// Password of the keystores (- for standard input)
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    secret: SecretOptions,
    /// Replace signatures that exist
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct MessageArgs {
    /// The message: 32 bytes in hex
    #[arg(long, value_name = "HEX32")]
    message: Option<String>,
    /// The message: the bytes of a file, at most 65536
    #[arg(long, value_name = "FILE")]
    message_file: Option<PathBuf>,
    /// The message: a text, in UTF-8
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct Place {
    /// The signature of the one key
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Folder for one signature of each key; it must be there
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
}

impl MessageArgs {
    fn bytes(&self) -> Result<Vec<u8>> {
        if let Some(file) = &self.message_file {
            return Ok(Opened::read(file, MESSAGE_BYTES_MAX)?.bytes);
        }
        if let Some(digits) = &self.message {
            return Ok(root(digits)?);
        }
        Ok(self.text.clone().unwrap_or_default().into_bytes())
    }
}

fn root(digits: &str) -> anyhow::Result<Vec<u8>> {
    let bytes = input::unhex(digits).with_context(|| format!("--message {digits}"))?;
    ensure!(
        bytes.len() == ROOT_BYTES,
        "--message has {} bytes: must have {ROOT_BYTES}; --message-file takes any",
        bytes.len()
    );
    Ok(bytes)
}

impl Command for Args {
    fn options(&self) -> &FileOptions {
        &self.options
    }

    fn run_with<S: FileScheme>(&self) -> Result<()> {
        run_with::<S>(self)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    dispatch(args)
}

fn run_with<S: FileScheme>(args: &Args) -> Result<()> {
    let report = Report::begin("sign", 0);
    let sink = args.options.sink()?;
    check_count("keys", args.key.len())?;
    let message = args.message.bytes()?;
    check_message::<S>(&message)?;
    check_slot::<S>(args.slot).context("--slot")?;
    let mut staged = Staged::new(args.force);
    let places = places(args)?;
    for place in &places {
        staged.check(place)?;
    }
    let permissions = args.secret.permissions();
    let password = match &args.password_file {
        Some(file) => Some(Password::read(file, permissions)?),
        None => None,
    };
    let scheme: S = args.options.open()?;
    let mut bars = Bars::new();
    let mut signed = Vec::new();
    for (i, (key, place)) in args.key.iter().zip(&places).enumerate() {
        bars.show("signatures", i as u64, args.key.len() as u64);
        let pair =
            Located::read::<S>(key)?.unlock(&scheme, password.as_ref(), permissions, &mut bars)?;
        let what = ToSign {
            path: key,
            slot: args.slot,
            message: &message,
        };
        let signature = scheme.sign(&pair.key, &what)?;
        let file = SignatureFile {
            schema: Schema::Signature,
            scheme: S::NAME.to_owned(),
            public_key: Hex(pair.public.public_key),
            slot: args.slot,
            message: Hex(message.clone()),
            signature: Hex(signature),
        };
        staged.add(place, Access::Public, &to_json(&file)?)?;
        signed.push(json!({
            "key": key,
            "file": place,
            "public_key": file.public_key,
            "signature": file.signature,
        }));
    }
    bars.clear();
    staged.commit()?;
    for place in &places {
        sink.say(&place.display().to_string());
    }
    let fields =
        json!({ "message": Hex::<true>(message), "slot": args.slot, "signatures": signed });
    let config = json!({ "keys": args.key });
    args.options.write(&scheme, &report, &sink, config, fields)
}

/// Where the signature of each key goes.
fn places(args: &Args) -> Result<Vec<PathBuf>> {
    if let Some(out) = &args.place.out {
        only_one(args.key.len())?;
        return Ok(vec![out.clone()]);
    }
    let folder = args.place.out_dir.as_deref().unwrap_or(Path::new("."));
    let place = |key: &PathBuf| {
        let stem = key.file_stem().unwrap_or_default().to_string_lossy();
        folder.join(format!("{stem}.signature.json"))
    };
    Ok(args.key.iter().map(place).collect())
}

fn only_one(keys: usize) -> anyhow::Result<()> {
    ensure!(
        keys == 1,
        "--out takes the signature of 1 key, there are {keys}: use --out-dir"
    );
    Ok(())
}
