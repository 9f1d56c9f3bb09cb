//! Blocks of a slot in a file, and their verification by a node.

use super::{Args, Plan, Ready, json};
use crate::error::{Error, Result};
use crate::input;
use crate::machine::peak_rss_bytes;
use crate::report::{Report, table, write_whole};
use crate::text;
use alphorn_scheme::Bytes;
use alphorn_sim::slot::{Followed, SlotConfig, SlotError, SlotOutcome, follow};
use anyhow::{Context, bail};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Maximum length of the file.
const FILE_BYTES_MAX: u64 = 1 << 28;

/// Version of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Schema {
    #[serde(rename = "alphorn-blocks/1")]
    Blocks,
}

/// The blocks of a slot, from the first to the one that carries the votes, and their inputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: Schema,
    seed: u64,
    /// The options that determine which validators vote on what, as in the JSON object of the command.
    config: Value,
    /// Each as sent on the wire, in Base64.
    blocks: Vec<String>,
}

/// Writes the blocks of a slot, whole or not at all.
pub(super) fn write(path: &Path, args: &Args, plan: &Plan, outcome: &SlotOutcome) -> Result<()> {
    let encode = |block: &Bytes| BASE64_STANDARD.encode(block);
    let file = File {
        schema: Schema::Blocks,
        seed: args.common.seed,
        config: json::config_json(args, plan),
        blocks: outcome.blocks.iter().map(encode).collect(),
    };
    write_whole(
        path,
        (serde_json::to_string_pretty(&file)? + "\n").as_bytes(),
    )
}

/// Reads blocks that were made with the same options.
pub(super) fn read(path: &Path, args: &Args, plan: &Plan) -> Result<Vec<Bytes>> {
    let named = || format!("--verify {}", path.display());
    Ok(parse(path, args, plan).with_context(named)?)
}

fn parse(path: &Path, args: &Args, plan: &Plan) -> anyhow::Result<Vec<Bytes>> {
    let file: File = serde_json::from_slice(&input::bytes(path, FILE_BYTES_MAX)?)?;
    if file.seed != args.common.seed {
        bail!("made with --seed {}, not {}", file.seed, args.common.seed);
    }
    let own = json::config_json(args, plan);
    let own = own.as_object().into_iter().flatten();
    // One by one, so that the error names the option that differs.
    for (name, own) in own {
        let made = &file.config[name];
        if made != own {
            bail!("made with {name} {made}, the options say {own}");
        }
    }
    if file.blocks.is_empty() {
        bail!("0 blocks, at least 1");
    }
    let decode = |(i, block): (usize, &String)| {
        let bytes = BASE64_STANDARD.decode(block);
        Ok(Bytes::from(bytes.with_context(|| format!("block {i}"))?))
    };
    file.blocks.iter().enumerate().map(decode).collect()
}

/// Lets a node that has seen nothing else verify the blocks of a file.
pub(super) fn verify(
    mut ready: Ready,
    args: &Args,
    blocks: &[Bytes],
    report: &Report,
) -> Result<()> {
    let config = SlotConfig {
        participation: ready.plan.participation.clone(),
        ..SlotConfig::new(ready.horn, args.common.seed, args.common.threads()?)
    };
    ready.inputs.progress = Box::new(ready.bars);
    let followed = match follow(config, ready.inputs, blocks) {
        Err(SlotError::Block(error)) => {
            return Err(Error::Check(format!("a block does not decode: {error}")));
        }
        followed => followed?,
    };
    let digest = blocks
        .last()
        .map(|block| hex::encode(Sha256::digest(block)));
    let sink = args.common.sink();
    sink.say(&super::print::header(args, &ready.plan, &ready.machine));
    sink.say(&followed_table(&followed, ready.keys_s, digest.as_deref()));
    let mut fields = Map::new();
    let values = serde_json::json!({
        "keys": { "seconds": ready.keys_s, "from_cache": ready.from_cache },
        "votes_expected": followed.expected,
        "votes_in_block": followed.votes,
        "coverage_exact": followed.is_exact,
        "blocks": followed.blocks,
        "blocks_accepted": followed.accepted,
        "block": { "bytes": followed.block_bytes, "bundle_bytes": followed.bundle_bytes, "sha256": digest },
        "verify_s": followed.verify_ns as f64 * 1e-9,
        "rejects": followed.rejects,
        "peak_rss_bytes": peak_rss_bytes(),
    });
    fields.extend(values.as_object().cloned().unwrap_or_default());
    let config = json::config_json(args, &ready.plan);
    sink.write(&report.object(&ready.machine, "measured", &config, fields)?)?;
    match failure(&followed) {
        None => Ok(()),
        Some(failure) => Err(Error::Check(failure)),
    }
}

fn failure(followed: &Followed) -> Option<String> {
    let (accepted, blocks) = (followed.accepted, followed.blocks);
    if accepted < blocks {
        let reasons: Vec<&str> = followed.rejects.keys().copied().collect();
        let reasons = match reasons.is_empty() {
            true => String::new(),
            false => format!(": {}", reasons.join(", ")),
        };
        return Some(format!("{accepted} of {blocks} blocks are valid{reasons}"));
    }
    (!followed.is_exact).then(|| {
        let (votes, expected) = (followed.votes, followed.expected);
        format!("the blocks carry {votes} votes, not those of the {expected} who were to vote")
    })
}

fn followed_table(followed: &Followed, keys_s: f64, digest: Option<&str>) -> String {
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    let evidence = match followed.bundle_bytes {
        0 => String::new(),
        bytes => format!(", one piece of evidence of {}", text::bytes(bytes)),
    };
    let rows = [
        line("make the public keys", text::seconds(keys_s)),
        line(
            "blocks that the node takes as valid",
            format!("{} of {}", followed.accepted, followed.blocks),
        ),
        line(
            "votes that they carry",
            format!(
                "{} of {}",
                text::count(followed.votes),
                text::count(followed.expected)
            ),
        ),
        line("block", text::bytes(followed.block_bytes) + &evidence),
        line(
            "SHA-256 of the block",
            digest.unwrap_or_default().to_owned(),
        ),
        line(
            "verify its evidence, keys evaluated",
            text::seconds(followed.verify_ns as f64 * 1e-9),
        ),
        line("peak memory", text::bytes(peak_rss_bytes())),
    ];
    table(&["result", ""], &rows)
}
