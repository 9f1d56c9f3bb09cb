//! `alphorn node status`: shows the state of a running node on a terminal.

use super::client::{self, Api};
use super::files::read;
use super::lines::links;
use crate::error::{Error, Result};
use crate::options::Json;
use crate::report::table;
use crate::text;
use alphorn_node::telemetry::{DutyCounts, Summary};
use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Maximum number of peers listed.
const PEERS_MAX: usize = 16;

/// Show the state of a running node: duties, chain, peers, memory; exit code 1 if it is unhealthy
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    json: Json,
    #[command(flatten)]
    node: Which,
}

/// Which node is asked.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct Which {
    /// Address of its HTTP interface
    #[arg(long, value_name = "IP:PORT")]
    api: Option<SocketAddr>,
    /// Its data folder, whose ready.json has the address of its interface
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (address, name) = match (&args.node.api, &args.node.data_dir) {
        (Some(address), _) => (*address, None),
        (None, Some(folder)) => address_in(folder).map(|(address, name)| (address, Some(name)))?,
        (None, None) => return Err(anyhow!("--api or --data-dir must be given").into()),
    };
    let api = Api {
        address,
        token: String::new(),
        patience: client::PATIENCE,
    };
    let health = api.ask("/lean/v0/health").map_err(|error| {
        let why = format!("no node answers: {error:#}");
        Error::Check(why)
    })?;
    let get = |path: &str| -> Result<Value> {
        let read = |text: String| Ok(serde_json::from_str(&text)?);
        let answer = api.get(path).and_then(read);
        answer.map_err(|error| Error::Check(format!("http://{address}{path}: {error:#}")))
    };
    let summary = serde_json::from_value(get("/alphorn/v0/summary")?);
    let summary: Summary = summary.map_err(|error| {
        let what = "a summary of another version";
        Error::Check(format!("http://{address}: {what}: {error}"))
    })?;
    check_name(name.as_deref(), &summary.name, address)?;
    let peers = get("/alphorn/v0/peers")?;
    let sink = args.json.sink();
    sink.say(&shown(&summary, &health, &peers, address));
    sink.write(&json!({"health": health.0, "summary": summary, "peers": peers["peers"]}))?;
    match health.0 {
        200 => Ok(()),
        code => Err(Error::Check(format!("health {code}: {}", state(&health)))),
    }
}

/// Returns the interface address of the node of a data folder, and its name.
fn address_in(folder: &Path) -> Result<(SocketAddr, String)> {
    let path = folder.join("ready.json");
    if folder.is_dir() && !path.exists() {
        let why = format!("no node runs: there is no {}", path.display());
        return Err(Error::Check(why));
    }
    let ready: Value = read(&path)?;
    let address = ready["api"].as_str().unwrap_or_default();
    let address = address.parse();
    let address = address.with_context(|| format!("{}: api", path.display()))?;
    Ok((
        address,
        ready["name"].as_str().unwrap_or_default().to_owned(),
    ))
}

/// Makes sure that the answering node is that of the data folder: a killed node leaves its `ready.json`
/// behind, and its port to the next process that listens there.
fn check_name(wanted: Option<&str>, found: &str, address: SocketAddr) -> Result<()> {
    match wanted {
        Some(wanted) if wanted != found => Err(Error::Check(format!(
            "no node {wanted} answers: at {address} is {found}"
        ))),
        _ => Ok(()),
    }
}

/// Formats a health answer: a status, and the body, which may have reasons.
fn state((code, body): &(u16, String)) -> String {
    let said = match code {
        200 => "able to do its duties",
        206 => "catching up",
        _ => "not able to do its duties",
    };
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let reasons = body["reasons"].as_array().into_iter().flatten();
    let reasons = reasons.filter_map(|reason| reason["text"].as_str());
    let reasons: Vec<&str> = reasons.collect();
    match reasons.is_empty() {
        true => said.to_owned(),
        false => format!("{said}: {}", reasons.join("; ")),
    }
}

fn shown(summary: &Summary, health: &(u16, String), peers: &Value, api: SocketAddr) -> String {
    let behind = summary.slot.saturating_sub(summary.head_slot);
    let mut lines = vec![
        format!("{} ({}): {}", summary.name, summary.scheme, state(health)),
        format!(
            "slot {}, head {} ({behind} behind), justified {}, finalised {}",
            summary.slot, summary.head_slot, summary.justified_slot, summary.finalised_slot
        ),
        format!(
            "{} of {} validators here; memory {} of at most {}; the loop wakes {:.1} ms late at p99.9",
            summary.local_validators,
            summary.validators,
            text::bytes(summary.rss_bytes),
            text::bytes(summary.memory_bound_bytes),
            summary.probe_lag_ms.p999,
        ),
    ];
    if let Some(validator) = summary.doppelganger {
        lines.push(format!(
            "another machine signs for validator {validator}: this one signs nothing"
        ));
    }
    lines.push(duties(summary));
    lines.push(peers_table(summary, peers));
    lines.push(links(api));
    lines.join("\n")
}

fn duties(summary: &Summary) -> String {
    let row = |name: &str, counts: &DutyCounts| {
        let counts = [counts.due, counts.done, counts.late, counts.missed];
        let counts = counts.iter().map(u64::to_string);
        [name.to_owned()].into_iter().chain(counts).collect()
    };
    let mut rows: Vec<Vec<String>> = summary
        .duties
        .iter()
        .map(|(name, counts)| row(name, counts))
        .collect();
    rows.push(row("all", &summary.all_duties()));
    table(&["duty", "due", "done", "late", "missed"], &rows)
}

fn peers_table(summary: &Summary, peers: &Value) -> String {
    let all = peers["peers"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |peer: &Value, name: &str| peer[name].as_str().unwrap_or_default().to_owned();
    let bytes = |peer: &Value, name: &str| text::bytes(peer[name].as_u64().unwrap_or(0));
    let row = |peer: &Value| {
        let score = peer["score"].as_f64().unwrap_or(0.0);
        vec![
            // What a peer reports about itself is printable, as the network ensures.
            text(peer, "client"),
            text(peer, "address"),
            text(peer, "direction"),
            format!("{score:.1}"),
            bytes(peer, "bytes_in"),
            bytes(peer, "bytes_out"),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().take(PEERS_MAX).map(row).collect();
    let head = ["client", "address", "direction", "score", "in", "out"];
    let more = match all.len().saturating_sub(PEERS_MAX) {
        0 => String::new(),
        more => format!("\n{more} more peers"),
    };
    match rows.is_empty() {
        true => format!("{} peers", summary.peers),
        false => format!("{}{more}", table(&head, &rows)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_where_this_one_was_is_not_taken_for_it() {
        let address: SocketAddr = ([127, 0, 0, 1], 5052).into();
        assert!(check_name(Some("node-0"), "node-0", address).is_ok());
        assert!(
            check_name(None, "node-1", address).is_ok(),
            "asked by address"
        );
        assert!(matches!(
            check_name(Some("node-0"), "node-1", address),
            Err(Error::Check(why)) if why.contains("node-1")
        ));
        // The folder of a finished node does not record its address.
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            address_in(folder.path()),
            Err(Error::Check(why)) if why.contains("no node runs")
        ));
        let ready = r#"{"api": "127.0.0.1:5052", "name": "node-0"}"#;
        std::fs::write(folder.path().join("ready.json"), ready).unwrap();
        let ready = address_in(folder.path());
        assert!(ready.is_ok_and(|ready| ready == (address, "node-0".to_owned())));
    }

    #[test]
    fn a_node_is_shown_with_why_it_is_not_well() {
        let counts = DutyCounts {
            due: 5,
            done: 3,
            late: 1,
            missed: 1,
        };
        let summary = Summary {
            name: "node-2".into(),
            scheme: "bls".into(),
            slot: 9,
            head_slot: 7,
            peers: 17,
            duties: [("vote".to_owned(), counts)].into(),
            ..Summary::default()
        };
        let peer = json!({
            "client": "alphorn/0.1.0", "address": "192.0.2.1:9000", "direction": "inbound",
            "score": 1.25, "bytes_in": 10, "bytes_out": 20,
        });
        let peers = json!({"peers": vec![peer; 17]});
        let health = (
            503,
            r#"{"reasons": [{"text": "no peers"}, {"text": "the disk is full"}]}"#.to_owned(),
        );
        let text = shown(&summary, &health, &peers, ([127, 0, 0, 1], 5052).into());
        for part in [
            "node-2 (bls): not able to do its duties: no peers; the disk is full",
            "slot 9, head 7 (2 behind)",
            "192.0.2.1:9000",
            "1 more peers",
            "/dashboard/",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let vote = text.lines().find(|line| line.contains("vote")).unwrap();
        let words: Vec<&str> = vote.split_whitespace().collect();
        assert!(words.ends_with(&["5", "3", "1", "1"]), "{vote}");
        assert_eq!(state(&(200, String::new())), "able to do its duties");
    }
}
