//! What is printed of a verification, for people and as JSON.

use super::world::World;
use super::{Args, Ours, Peers, Verified};
use crate::report::table;
use crate::text;
use alphorn_bls::peer::PeerMethod;
use alphorn_exec::Backend;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

fn steps(verified: &Verified) -> [(&'static str, f64); 5] {
    let timings = &verified.timings;
    [
        ("decode", timings.decode.as_secs_f64()),
        ("sums", timings.sums.as_secs_f64()),
        ("rlc", timings.rlc.as_secs_f64()),
        ("locate", verified.locate.as_secs_f64()),
        ("total", verified.total.as_secs_f64()),
    ]
}

pub(super) fn print(
    args: &Args,
    kernel: Backend,
    world: &World<'_>,
    honest: &Ours,
    peers: Option<&Peers>,
    bad: Option<&Ours>,
) -> String {
    let header = ["", "decode", "sums", "rlc", "locate", "total", "best"];
    let mut rows = Vec::new();
    let mut row = |name: &str, (seconds, verified): &(f64, Verified)| {
        let mut cells = vec![name.to_owned()];
        cells.extend(
            steps(verified)
                .iter()
                .map(|(_, value)| text::seconds(*value)),
        );
        cells.push(text::seconds(*seconds));
        rows.push(cells);
    };
    if let Some(inner) = &honest.inner {
        row("ours, inner", inner);
    }
    row("ours, full", &honest.full);
    if let Some(bad) = bad {
        row(&format!("with {} bad", args.bad), bad.inner());
    }
    if let Some(peers) = peers {
        let names = PeerMethod::ALL.iter().map(|method| method.name());
        let seconds = peers.seconds.into_iter().chain([peers.batch_s]);
        for (name, seconds) in names.chain(["subtract_batch"]).zip(seconds) {
            let mut cells = vec![format!("blst, {name}")];
            cells.extend(std::iter::repeat_n(String::new(), 5));
            cells.extend([text::seconds(seconds), text::seconds(seconds)]);
            rows.push(cells);
        }
    }
    let ours = honest.inner();
    let beside = peers.map_or(String::new(), |peers| {
        format!(
            ", {} the fastest way with blst",
            text::ratio(peers.strongest_s() / ours.0)
        )
    });
    let items = world.inner().len();
    let verdict = format!(
        "{items} items on kernel {kernel}, {} messages: {}{beside}, verdicts ",
        ours.1.messages,
        text::seconds(ours.0),
    );
    format!("\n{}\n\n{verdict}", table(&header, &rows))
}

pub(super) fn fields(
    kernel: Backend,
    honest: &Ours,
    peers: Option<&Peers>,
    bad: Option<&Ours>,
) -> Map<String, Value> {
    let block = |(seconds, verified): &(f64, Verified)| {
        let mut block: Map<String, Value> = steps(verified)
            .iter()
            .map(|(name, value)| (format!("{name}_s"), json!(value)))
            .collect();
        block.insert("best_s".into(), json!(seconds));
        Value::Object(block)
    };
    let digest = |verdicts: &mut dyn Iterator<Item = bool>| {
        hex::encode(Sha256::digest(verdicts.map(u8::from).collect::<Vec<_>>()))
    };
    let ours = honest.inner();
    let mut fields = Map::from_iter([("kernel".to_owned(), json!(kernel.name()))]);
    if let Some(inner) = &honest.inner {
        fields.insert("inner".into(), block(inner));
    }
    fields.insert("full".into(), block(&honest.full));
    fields.insert("messages".into(), json!(ours.1.messages));
    fields.insert(
        "verdict_digest".into(),
        json!(digest(
            &mut (0..ours.1.items).map(|i| ours.1.bad().binary_search(&i).is_err())
        )),
    );
    if let Some(peers) = peers {
        let methods = PeerMethod::ALL.iter().enumerate().flat_map(|(i, method)| {
            let verdicts = digest(&mut peers.verdicts[i].iter().copied());
            [
                (format!("{}_s", method.name()), json!(peers.seconds[i])),
                (format!("{}_verdict_digest", method.name()), json!(verdicts)),
            ]
        });
        let mut block: Map<String, Value> = methods.collect();
        block.insert("subtract_batch_s".into(), json!(peers.batch_s));
        block.insert("strongest_s".into(), json!(peers.strongest_s()));
        fields.insert("blst".into(), Value::Object(block));
    }
    if let Some(bad) = bad {
        let (seconds, verified) = bad.inner();
        let found = verified.bad();
        fields.insert(
            "bad".into(),
            json!({
                "k": found.len(),
                "located": found,
                "tests": verified.located.tests,
                "pairings": verified.located.miller_loops,
                "extra_s": seconds - ours.0,
                "ratio_honest": seconds / ours.0,
            }),
        );
    }
    fields
}
