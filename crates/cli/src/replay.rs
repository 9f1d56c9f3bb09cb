//! `alphorn replay`: feeds a node's recorded inputs to its state machines again.

use crate::error::{Error, Result};
use crate::node::files::{NetworkFile, NodeEntry};
use crate::node::scheme::info;
use crate::options::Common;
use crate::overwrite::check_apart;
use crate::report::{Report, table};
use alphorn_node::engine::Settings;
use alphorn_node::genesis::{Genesis, network_id};
use alphorn_node::record::{Record, Replayed, replay};
use alphorn_proto::horn::{Horn, Local, SchemeInfo};
use alphorn_types::{Bitfield, Slot, Validator};
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Instant;

/// Replay a node's recorded inputs through its state machines and check for the same outcome
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn devnet --record --keep --dir net
  alphorn replay net/node-0/inputs-0.record
  alphorn replay net/node-0/inputs-0.record --json -

A node started with --record FILE records every message, job completion and clock reading passed to
its state machines, and a digest of every action they requested. A replay needs no prover, key,
socket or clock. The record of a node that was killed has no end and is replayed as far as it goes.

Exit codes: 0 the outcome is the same, 1 the outcome differs, 2 the file is not a record.")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Record to replay
    file: PathBuf,
}

/// The header of a node's record: everything that its state machines depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// The commit of the binary.
    pub(crate) commit: String,
    pub(crate) network: NetworkFile,
    pub(crate) node: NodeEntry,
    /// SHA-256 over all public keys, in hexadecimal.
    pub(crate) keys: String,
    /// The first slot that the node signed.
    pub(crate) first_slot: u64,
    /// The slot in which it started, none before genesis.
    #[serde(default)]
    pub(crate) started: Option<u64>,
    /// The first slot that no earlier life of the node can have signed.
    #[serde(default)]
    pub(crate) used: u64,
    /// The local keys whose own marks were behind that.
    #[serde(default)]
    pub(crate) behind: BTreeMap<Validator, Slot>,
}

impl Header {
    /// Returns the state machines of the node, before their first input.
    fn horn(&self, common: &Common) -> Result<Horn> {
        let mut keys = [0; 32];
        hex::decode_to_slice(&self.keys, &mut keys).context("the digest of the keys")?;
        machines(
            &self.network,
            &self.node,
            keys,
            info(&self.network, common)?,
        )
    }
}

/// Builds the state machines of a node, both for `alphorn node` and for a replay of its record.
pub(crate) fn machines(
    network: &NetworkFile,
    own: &NodeEntry,
    keys: [u8; 32],
    info: SchemeInfo,
) -> Result<Horn> {
    let layout = network.layout()?;
    let mut horn = network.horn(&info)?;
    let scheme = network.scheme();
    let genesis = Genesis {
        scheme: &scheme,
        keys,
        code: network.alphorn_broadcast_code.strategy(),
    };
    horn.network_id = network_id(&horn, &genesis);
    let mut validators = Bitfield::new(layout.validators() as usize);
    for validator in own.hosted() {
        if validator.0 >= layout.validators() {
            let (v, count) = (validator.0, layout.validators());
            return Err(anyhow!("{} hosts validator {v}, there are {count}", own.name).into());
        }
        validators.set(validator.0 as usize);
    }
    let local = Local {
        voters: validators.clone(),
        validators,
        trust_own: true,
    };
    Ok(Horn::new(horn, info, local)?)
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("replay", args.common.seed);
    let sink = args.common.sink();
    check_apart([args.file.as_path()], sink.path())?;
    let name = || args.file.display().to_string();
    let file = File::open(&args.file).with_context(name)?;
    let record = Record::open(BufReader::with_capacity(1 << 20, file)).with_context(name)?;
    let header: Header = serde_json::from_slice(record.header()).with_context(name)?;
    let horn = header.horn(&args.common)?;
    let settings = Settings {
        first_slot: Slot(header.first_slot),
        started: header.started.map(Slot),
        used: Slot(header.used),
        behind: header.behind.clone(),
    };
    let clock = Instant::now();
    let replayed = replay(record, horn, settings).with_context(name)?;
    let took_s = clock.elapsed().as_secs_f64();
    sink.say(&say(&header, &replayed, took_s));
    let machine = crate::machine::Machine::here(1, Default::default());
    let fields = serde_json::json!({
        "node": header.node.name,
        "recorded_by": header.commit,
        "inputs": replayed.mark.inputs,
        "outputs": hex::encode(replayed.mark.outputs),
        "has_end": replayed.end.is_some(),
        "differs_before_input": replayed.differs.map(|mark| mark.inputs),
        "span_s": span_s(&replayed),
        "took_s": took_s,
        "finalised_slot": replayed.finalised_slot,
    });
    let config = serde_json::json!({ "file": name() });
    sink.write(&report.object(&machine, "measured", &config, fields)?)?;
    match replayed.differs {
        None => Ok(()),
        Some(mark) => Err(Error::Check(format!(
            "something else follows from the first {} inputs",
            mark.inputs
        ))),
    }
}

fn span_s(replayed: &Replayed) -> f64 {
    let span = replayed
        .times
        .map_or(0, |(first, last)| last.since_ns(first));
    span as f64 / 1e9
}

fn say(header: &Header, replayed: &Replayed, took_s: f64) -> String {
    let end = match (replayed.end, replayed.differs) {
        (_, Some(_)) => "something else follows",
        (Some(_), None) => "the same follows, to the end",
        (None, None) => "the same follows as far as it goes: the record has no end",
    };
    let rows = [
        ("node", header.node.name.clone()),
        ("recorded by commit", header.commit.clone()),
        ("inputs", replayed.mark.inputs.to_string()),
        ("effects, SHA-256", hex::encode(replayed.mark.outputs)),
        (
            "time that passed then",
            format!("{:.1} s", span_s(replayed)),
        ),
        ("time that it took now", format!("{took_s:.2} s")),
        ("finalised slot", replayed.finalised_slot.to_string()),
        ("verdict", end.to_owned()),
    ];
    let rows = rows.map(|(what, value)| vec![what.to_owned(), value]);
    table(&["", "replay"], &rows)
}
