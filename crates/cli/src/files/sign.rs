//! `alphorn sign`: a message with one key or with many.
//!
//! Everything that can fail does so before the first signature, because a key that signs once per slot
//! would otherwise lose the slot. So all keys are opened and checked first, and the disk space of each
//! signature is reserved with zeros before it is made.

use super::command::{Command, dispatch};
use super::document::SignatureFile;
use super::fields::{MESSAGE_BYTES_MAX, Schema, check_message, check_slot, to_json};
use super::hex::Hex;
use super::input::{self, Opened, check_count};
use super::keyfile::{KeyPair, Located};
use super::output::{Access, Staged};
use super::scheme::FileScheme;
use super::secret::Password;
use super::statement::ToSign;
use super::{FileOptions, SecretOptions, all_shown, shown};
use crate::error::Result;
use crate::progress::Bars;
use crate::report::Report;
use anyhow::{Context, anyhow, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Bytes of a message in hex: the root that a vote is signed over.
const ROOT_BYTES: usize = 32;
/// A generous bound on open files in addition to the marks of the keys.
const OPEN_FILES: u64 = 64;

/// Sign a message with one or more keys
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn sign --key keystore-0.json --password-file password.txt \\
      --text hello --out hello.json
  alphorn sign --key keys/interop-0.json keys/interop-1.json --out-dir votes \\
      --message 0x5656565656565656565656565656565656565656565656565656565656565656
  alphorn sign --slot 7 --message-file digest --key xmss/keystore-0.json \\
      --password-file password.txt --out vote.json

The keys determine the scheme. The message bytes are signed as they are. One password opens all
keystores. With --out-dir the signature of KEY.json goes into DIR/KEY.signature.json. BLS signs in
constant time.

XMSS signs a 32-byte digest, once per --slot, and slots only increase. Before a signature leaves the
process, KEY.mark next to KEY.json and a second mark in the folder ALPHORN_STATE_DIR (default: the
user's state folder) record on disk that the slot is used. The same message in the last slot gives
the same signature again; any other is refused with exit code 1. No slot is used before all keys are
unlocked, all slots are known to be free and there is disk space for all signatures.")]
pub(crate) struct Args {
    #[command(flatten)]
    options: FileOptions,
    /// Keystores or interop keys
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    key: Vec<PathBuf>,
    #[command(flatten)]
    message: MessageArgs,
    /// Slot of the signature, for XMSS and for Falcon without salts
    #[arg(long, value_name = "SLOT")]
    slot: Option<u64>,
    /// File with the password of the keystores (- for standard input)
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    secret: SecretOptions,
    /// Replace existing signatures
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct MessageArgs {
    /// Message: 32 bytes in hex
    #[arg(long, value_name = "HEX32")]
    message: Option<String>,
    /// Message: the bytes of a file, at most 65536
    #[arg(long, value_name = "FILE")]
    message_file: Option<PathBuf>,
    /// Message: a text in UTF-8
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct Destination {
    /// File for the signature, with one key
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Folder for one signature per key; created if missing
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

    fn sources(&self) -> Result<Vec<PathBuf>> {
        Ok(self.key.clone())
    }

    fn others(&self) -> Vec<PathBuf> {
        let others = [&self.password_file, &self.message.message_file];
        others.into_iter().flatten().cloned().collect()
    }

    fn outputs(&self) -> Result<Vec<PathBuf>> {
        outputs(self)
    }

    fn run_with<S: FileScheme>(&self) -> Result<()> {
        let report = Report::begin("sign", 0);
        let sink = self.options.sink();
        check_count("keys", self.key.len())?;
        let message = self.message.bytes()?;
        let outputs = outputs(self)?;
        // The keys must exist: they determine the scheme, and so whether a slot is needed.
        self.key
            .iter()
            .try_for_each(|key| input::check_there(key))?;
        check_message::<S>(&message)?;
        check_slot::<S>(self.slot).context("--slot")?;
        let mut staged = Staged::new(self.force);
        for output in &outputs {
            staged.check(output, Access::Public)?;
        }
        if let Some(folder) = &self.destination.out_dir {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        }
        staged.remove_when_signalled()?;
        let scheme: S = self.options.open()?;
        let mut bars = Bars::new();
        let ready = prepare(&scheme, self, &message, &mut bars)?;
        let file = |ready: &Ready<'_, S>, signature| {
            to_json(&SignatureFile {
                schema: Schema::Signature,
                scheme: S::NAME.to_owned(),
                public_key: Hex(ready.pair.public.public_key.clone()),
                slot: self.slot,
                message: Hex(message.clone()),
                signature: Hex(signature),
            })
        };
        for (ready, output) in ready.iter().zip(&outputs) {
            let blank = file(ready, vec![0; S::SIGNATURE_BYTES])?;
            staged.add(output, Access::Public, &blank)?;
        }
        let mut signed = Vec::with_capacity(ready.len());
        for (i, (mut ready, output)) in ready.into_iter().zip(&outputs).enumerate() {
            bars.show("signatures", i as u64, self.key.len() as u64);
            let what = to_sign(self, ready.path, &message);
            let prepared = ready.prepared.take().context("a key signs once")?;
            let signature = scheme.sign(&ready.pair.key, prepared, &what)?;
            staged.rewrite(i, &file(&ready, signature.clone())?)?;
            signed.push(json!({
                "key": shown(ready.path),
                "file": shown(output),
                "public_key": Hex::<true>(ready.pair.public.public_key),
                "signature": Hex::<true>(signature),
            }));
        }
        bars.clear();
        staged.commit()?;
        for output in &outputs {
            sink.say(&shown(output));
        }
        let fields =
            json!({ "message": Hex::<true>(message), "slot": self.slot, "signatures": signed });
        let config = json!({ "keys": all_shown(&self.key) });
        self.options.write(&scheme, &report, &sink, config, fields)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    dispatch(args)
}

/// A key that is ready for its signature.
struct Ready<'a, S: FileScheme> {
    path: &'a Path,
    pair: KeyPair<S>,
    /// Consumed by the signature.
    prepared: Option<S::Prepared>,
}

/// Returns what a key at a path signs.
fn to_sign<'a>(args: &Args, path: &'a Path, message: &'a [u8]) -> ToSign<'a> {
    ToSign {
        path,
        slot: args.slot,
        message,
    }
}

/// Unlocks all keys, and checks that each may sign.
fn prepare<'a, S: FileScheme>(
    scheme: &S,
    args: &'a Args,
    message: &[u8],
    bars: &mut Bars,
) -> Result<Vec<Ready<'a, S>>> {
    let permissions = args.secret.permissions();
    let password = match &args.password_file {
        Some(file) => Some(Password::read(file, permissions)?),
        None => None,
    };
    if S::SLOTS.is_some() {
        allow_open_files(args.key.len() as u64 + OPEN_FILES);
    }
    let mut all = Vec::with_capacity(args.key.len());
    for (i, path) in args.key.iter().enumerate() {
        bars.show("keys", i as u64, args.key.len() as u64);
        let located = Located::read::<S>(path)?;
        let pair = located.unlock(scheme, password.as_ref(), permissions, bars)?;
        let prepared = scheme.prepare(&pair.key, &to_sign(args, path, message))?;
        all.push(Ready {
            path,
            pair,
            prepared: Some(prepared),
        });
    }
    Ok(all)
}

/// Raises the process's limit on open files as far as allowed, since the marks of all keys are open.
fn allow_open_files(files: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < files) {
        limit.current = Some(limit.maximum.map_or(files, |maximum| maximum.min(files)));
        // If the limit is still too low, opening a file reports it.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Returns the path of each key's signature.
fn outputs(args: &Args) -> Result<Vec<PathBuf>> {
    if let Some(out) = &args.destination.out {
        only_one(args.key.len())?;
        return Ok(vec![out.clone()]);
    }
    let folder = args
        .destination
        .out_dir
        .as_deref()
        .unwrap_or(Path::new("."));
    let output = |key: &PathBuf| {
        let stem = key.file_stem().unwrap_or_default().to_string_lossy();
        folder.join(format!("{stem}.signature.json"))
    };
    let outputs: Vec<PathBuf> = args.key.iter().map(output).collect();
    let mut known = BTreeSet::new();
    if let Some(twice) = outputs.iter().find(|output| !known.insert(*output)) {
        let twice = twice.display();
        return Err(anyhow!("{twice} would be the signature of two keys").into());
    }
    Ok(outputs)
}

fn only_one(keys: usize) -> anyhow::Result<()> {
    ensure!(
        keys == 1,
        "--out takes the signature of 1 key, there are {keys}: use --out-dir"
    );
    Ok(())
}
