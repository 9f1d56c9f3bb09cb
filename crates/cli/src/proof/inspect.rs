//! `alphorn proof inspect`: shows the content of a proof, without verifying it.

use crate::error::Result;
use crate::files::proof_file::{ProofFile, read};
use crate::files::{bundle, shown};
use crate::machine::Machine;
use crate::overwrite::check_apart;
use crate::report::{Report, Sink, json_target, table};
use crate::text;
use alphorn_xmss::{ChildKind, MergeShape, Proofs, Set, preset_of_evidence};
use anyhow::{Context, anyhow};
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Show header, statement and the sizes of all parts of a proof
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn proof inspect aggregate.json
  alphorn proof inspect aggregate.json --json -

Reads an XMSS aggregate written by `aggregate --form proof`, a merge or a bundle. The format of the
proof is checked: header, lengths, elements below the modulus. `verify` decides whether it holds.

Elements have 31 bits. The maximum size of a part follows from the header; rows and paths have fewer
elements where openings overlap, because the overlap is sent once. More signatures than one proof
takes (1472 with the set compact, 1024 with prod) are several proofs with disjoint supports. For a
merge, its level and the kinds of its children are shown.")]
pub(super) struct Args {
    /// Aggregate whose evidence is a proof
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the result as one JSON object, - for standard output
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(json_target))]
    json: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("proof inspect", 0);
    let sink = Sink::new(args.json.clone());
    check_apart([args.file.as_path()], sink.path())?;
    let path = args.file.display();
    let machine = Machine::here(1, BTreeMap::new());
    let config = json!({ "file": shown(&args.file) });
    if let Some((said, fields)) = bundle::described(&args.file)? {
        sink.say(&said);
        return sink.write(&report.object(&machine, "measured", &config, fields)?);
    }
    let file = read(&args.file)?;
    let set = file.set;
    let preset = preset_of_evidence(file.signers.len(), &file.evidence)
        .ok_or_else(|| anyhow!("{path}: the evidence begins with no header of a proof"))?;
    let proofs = Proofs::new(set, preset);
    let parts = proofs
        .evidence_parts(&file.signers, &file.evidence)
        .with_context(|| format!("{path}"))?;
    sink.say(&statement(&file, set, &proofs));
    let mut cases = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let own = |error| anyhow!("{path}: part {number}: {error}");
        let signers = part.signers.count_ones();
        if let Some(shape) = proofs.merge_shape(part.proof).map_err(own)? {
            sink.say(&format!("\n{}", of_merge(&shape, signers)));
            cases.push(merge_case(&shape, signers, part.proof.len()));
            continue;
        }
        let proof = proofs.decode(part.proof).map_err(own)?;
        let (got, want) = (proof.groups, signers.div_ceil(proofs.group()));
        if got != want {
            let what = format!("a proof of {got} groups, its {signers} signers need {want}");
            return Err(anyhow!("{path}: part {number}: {what}").into());
        }
        sink.say(&format!(
            "\nproof {} of {}\n{}",
            number + 1,
            parts.len(),
            sizes(&proofs, signers, part.proof.len())
        ));
        let elements = proof.elements.len();
        cases.push(case(&proofs, signers, elements, part.proof.len()));
    }
    let fields = json!({
        "set": set.name(),
        "preset": preset.name,
        "slot": file.slot,
        "message": file.message,
        "registry_keys": file.signers.len(),
        "keys_digest": file.keys_digest.map(hex::encode),
        "signers": file.signers.count_ones(),
        "evidence_bytes": file.evidence.len(),
        "cases": cases,
    });
    sink.write(&report.object(&machine, "measured", &config, fields)?)
}

/// Describes the header of a merge.
fn of_merge(shape: &MergeShape, signers: usize) -> String {
    let count = |kind| {
        shape
            .kinds
            .iter()
            .filter(|of_child| **of_child == kind)
            .count()
    };
    let (merges, bundles) = (count(ChildKind::Merge), count(ChildKind::Bundle));
    format!(
        "a merge of level {} of {} proofs, {merges} of them merges and {bundles} bundles of which an \
         entry was kept: {signers} signers, {} elements",
        shape.level,
        shape.kinds.len(),
        shape.elements
    )
}

fn merge_case(shape: &MergeShape, signers: usize, bytes: usize) -> Value {
    json!({
        "signers": signers,
        "proof_kind": "merge",
        "level": shape.level,
        "children": shape.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
        "elements": shape.elements,
        "proof_bytes": bytes,
    })
}

/// Describes what the file claims to prove.
fn statement(file: &ProofFile, set: Set, proofs: &Proofs) -> String {
    let keys = match file.keys_digest {
        Some(digest) => format!("the public keys with digest 0x{}", hex::encode(digest)),
        None => "the listed signers".to_owned(),
    };
    let slot = file.slot.map_or("-".to_owned(), |slot| slot.to_string());
    let lines = [
        ("set", set.name().to_owned()),
        ("preset", proofs.preset().name.to_owned()),
        ("slot", slot),
        ("message", file.message.clone()),
        ("registry", format!("{} keys: {keys}", file.signers.len())),
        ("signers", file.signers.count_ones().to_string()),
        ("evidence", text::bytes(file.evidence.len() as u64)),
    ];
    let line = |(name, value): &(&str, String)| format!("{name:9} {value}");
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Formats the header's numbers, the bytes of the proof, and the maximum of each part.
fn sizes(proofs: &Proofs, signers: usize, bytes_here: usize) -> String {
    let sizes = proofs.sizes(signers);
    let bytes = |elements: usize| elements as f64 * 31.0 / 8.0;
    let row = |name: &str, elements: String, bytes: f64| {
        let share = format!("{:.1} %", 100.0 * bytes / sizes.bytes as f64);
        vec![name.to_owned(), elements, text::bytes(bytes as u64), share]
    };
    let mut rows = vec![row("header", "-".into(), sizes.header_bytes as f64)];
    rows.extend(
        proofs
            .parts(signers)
            .into_iter()
            .map(|part| row(part.name, part.elements.to_string(), bytes(part.elements))),
    );
    rows.push(row("all", sizes.elements.to_string(), sizes.bytes as f64));
    format!(
        "{signers} signers in {} groups, {} slices of the commitment, {}\n{}",
        sizes.groups,
        sizes.slices,
        text::bytes(bytes_here as u64),
        table(&["part, at most", "elements", "bytes", "share"], &rows)
    )
}

fn case(proofs: &Proofs, signers: usize, elements: usize, bytes: usize) -> Value {
    let sizes = proofs.sizes(signers);
    let part = |part: alphorn_stark::proof::PartSize| json!({ "name": part.name, "elements_max": part.elements });
    json!({
        "signers": signers,
        "groups": sizes.groups,
        "slices": sizes.slices,
        "class": if sizes.slices <= 64 { 64 } else { 256 },
        "proof_kind": "leaf",
        "elements": elements,
        "elements_max": sizes.elements,
        "header_bytes": sizes.header_bytes,
        "proof_bytes": bytes,
        "proof_bytes_max": sizes.bytes,
        "parts": proofs.parts(signers).into_iter().map(part).collect::<Vec<_>>(),
    })
}
