//! Where a node starts if not at genesis, and how it handles files that are not as it left them.

use super::client;
use super::start::Start;
use crate::error::{Error, Result};
use alphorn_node::blocks::Blocks;
use alphorn_node::folder::Folder;
use alphorn_node::safety::SafetyStore;
use alphorn_proto::chain::{ANCHOR_BYTES_MAX, Anchor};
use alphorn_proto::horn::Horn;
use alphorn_scheme::Bytes;
use anyhow::{Context, anyhow};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::time::Duration;
use tracing::{info, warn};

/// Time limit for each step of fetching a checkpoint.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a node starts if not at genesis, and how it treats files that have changed since its last run
#[derive(clap::Args, Debug)]
pub(crate) struct RecoveryOptions {
    /// Start from the finalised state of another node: a file, or http://HOST:PORT/alphorn/v0/checkpoint
    /// of a node; a later state in --data-dir takes precedence
    #[arg(long, value_name = "FILE|URL", visible_alias = "checkpoint-sync-url")]
    pub(crate) checkpoint: Option<String>,
    /// Expected SHA-256 of the checkpoint, from a source you trust: nothing else shows that it belongs to
    /// the network; required with a URL
    #[arg(long, value_name = "HEX", requires = "checkpoint")]
    pub(crate) checkpoint_digest: Option<String>,
    /// Continue with a new safety.redb if the expected one is missing, damaged or an older copy. By this
    /// you assert that no process has signed with these keys since the slot named in the refusal; if one
    /// has, validators can be slashed and one-time keys disclosed
    #[arg(long)]
    pub(crate) accept_new_safety_file: bool,
    /// Resume signing after another process was heard signing with a key of this node, or with a clock
    /// earlier than the last one seen. By this you assert that the other process has exited and the clock
    /// is right
    #[arg(long)]
    pub(crate) resume_signing: bool,
}

/// A checkpoint that belongs to the network.
pub(super) struct Checked {
    slot: u64,
    digest: [u8; 32],
    bytes: Bytes,
    /// Whether its digest was given.
    is_known: bool,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.is_known {
            true => "as --checkpoint-digest says",
            false => "for which nobody vouched",
        };
        let digest = hex::encode(self.digest);
        write!(
            f,
            "the checkpoint of slot {}, digest {digest}, {whose}",
            self.slot
        )
    }
}

/// A checkpoint as received.
pub(super) struct Fetched<'a> {
    origin: &'a str,
    bytes: Vec<u8>,
    /// Whether its digest was given.
    is_known: bool,
}

impl Fetched<'_> {
    /// Decodes its content.
    ///
    /// # Errors
    /// If it is not a checkpoint, or belongs to another network.
    pub(super) fn read(self, machine: &Horn) -> Result<Checked> {
        let anchor = machine.read_anchor(&self.bytes);
        let anchor = anchor.with_context(|| format!("--checkpoint {}", self.origin))?;
        Ok(Checked {
            slot: anchor.finalised().slot.0,
            digest: Anchor::digest(&self.bytes),
            bytes: self.bytes.into(),
            is_known: self.is_known,
        })
    }
}

impl RecoveryOptions {
    /// Fetches the initial checkpoint, if one is given, without reading its content: its digest is
    /// checked if known.
    pub(super) fn fetched(&self) -> Result<Option<Fetched<'_>>> {
        let Some(origin) = &self.checkpoint else {
            return Ok(None);
        };
        let wanted = self.checkpoint_digest.as_deref().map(digest).transpose()?;
        let bytes = match origin.strip_prefix("http://") {
            Some(_) if wanted.is_none() => {
                let why = "--checkpoint: one from a URL needs --checkpoint-digest";
                return Err(
                    anyhow!("{why}, the SHA-256 that somebody whom you trust told you").into(),
                );
            }
            Some(rest) => fetch(rest).with_context(|| format!("--checkpoint {origin}"))?,
            None if origin.contains("://") => {
                let why = "must be a file or an http:// address";
                return Err(anyhow!("--checkpoint {origin}: {why}").into());
            }
            None => read(Path::new(origin)).with_context(|| format!("--checkpoint {origin}"))?,
        };
        // Of the bytes as they came: they are decoded only once a given digest is known to match.
        let found = Anchor::digest(&bytes);
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            let (name, wanted) = (hex::encode(found), hex::encode(wanted));
            let what = format!("--checkpoint {origin}: its digest is {name}");
            return Err(Error::Check(format!(
                "{what}, --checkpoint-digest says {wanted}"
            )));
        }
        let is_known = wanted.is_some();
        Ok(Some(Fetched {
            origin,
            bytes,
            is_known,
        }))
    }

    /// Returns the initial checkpoint, if one is given, and prints its digest.
    pub(super) fn checkpoint(&self, machine: &Horn) -> Result<Option<Bytes>> {
        let Some(fetched) = self.fetched()? else {
            return Ok(None);
        };
        let read = fetched.read(machine)?;
        let (slot, name) = (read.slot, hex::encode(read.digest));
        match read.is_known {
            true => info!(
                slot,
                digest = name,
                "checkpoint, as --checkpoint-digest says"
            ),
            false => warn!(
                slot,
                digest = name,
                "checkpoint whose digest nobody vouched for"
            ),
        }
        Ok(Some(read.bytes))
    }

    /// Opens the two files of a folder, and compares what they know of each other.
    pub(super) fn open(&self, folder: &Path, start: Start) -> Result<(SafetyStore, Blocks)> {
        let accept_new = self.accept_new_safety_file;
        let opened = Folder::open(folder, start.ids, start.opening, accept_new)?;
        if let Some(why) = opened.why {
            warn!("{why}; a new one was made, as --accept-new-safety-file says");
        }
        Ok((opened.safety, opened.blocks))
    }
}

fn digest(text: &str) -> Result<[u8; 32]> {
    let mut digest = [0; 32];
    let text = text.strip_prefix("0x").unwrap_or(text);
    hex::decode_to_slice(text, &mut digest)
        .with_context(|| format!("--checkpoint-digest {text}: must be 64 hexadecimal digits"))?;
    Ok(digest)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than a checkpoint may have, so that a longer file is rejected for its length.
    let limit = ANCHOR_BYTES_MAX as u64 + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Fetches `HOST:PORT/PATH`.
fn fetch(rest: &str) -> anyhow::Result<Vec<u8>> {
    let (host, path) = rest
        .split_once('/')
        .unwrap_or((rest, "alphorn/v0/checkpoint"));
    let named = match host.contains(':') {
        true => host.to_owned(),
        false => format!("{host}:80"),
    };
    let mut addresses = named.to_socket_addrs()?;
    let address = addresses.next().context("the name has no address")?;
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    client::fetch(
        address,
        &request,
        PATIENCE,
        // The head of the answer counts as well.
        ANCHOR_BYTES_MAX as u64 + (64 << 10),
    )
}
