//! Tables and JSON objects of the codes.

use super::{CONTEXTS, Case, Times};
use crate::report::{columns, table};
use crate::text;
use serde_json::{Map, Value, json};

pub(super) fn size_table(cases: &[Case]) -> String {
    let header = [
        "participation",
        "flip",
        "raw",
        "snappy",
        "entropy",
        "rice none",
        "chain",
        "link",
        "range none",
        "chain",
        "link",
        "u1 / all planes",
    ];
    let kib = |bytes: u64| format!("{:.0}", bytes as f64 / 1024.0);
    let row = |case: &Case| {
        let sizes = &case.sizes;
        let mut row = vec![
            case.network.name.clone(),
            format!("{} %", case.flip * 100.0),
            kib(sizes.raw),
            sizes.snappy.map_or("-".into(), kib),
            kib(sizes.entropy[0] as u64),
        ];
        row.extend(
            sizes
                .rice
                .iter()
                .chain(&sizes.range)
                .map(|&bytes| kib(bytes)),
        );
        row.push(format!(
            "{:.0} / {:.0} B",
            sizes.mean(sizes.u1),
            sizes.mean(sizes.rice[0])
        ));
        row
    };
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    format!("KiB of all supports\n{}", table(&header, &rows))
}

pub(super) fn time_table(cases: &[Case]) -> String {
    let rows = cases.iter().flat_map(|case| {
        case.times.iter().map(|times| {
            let all_s = |one_us: f64| case.sizes.collections as f64 * one_us * 1e-6;
            vec![
                ("participation", case.network.name.clone()),
                ("code", times.name.to_owned()),
                ("encode", text::seconds(times.encode_us * 1e-6)),
                ("decode", text::seconds(times.decode_us * 1e-6)),
                ("all encoded", text::seconds(all_s(times.encode_us))),
                ("all decoded", text::seconds(all_s(times.decode_us))),
            ]
        })
    });
    format!("\nTime of one collection, and of all\n{}", columns(rows))
}

pub(super) fn case_json(case: &Case) -> Value {
    let sizes = &case.sizes;
    let contexts = |values: &[u64; 3]| -> Map<String, Value> {
        CONTEXTS
            .iter()
            .zip(values)
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect()
    };
    let entropy: Map<String, Value> = CONTEXTS
        .iter()
        .zip(&sizes.entropy)
        .map(|(name, bytes)| ((*name).to_owned(), json!(bytes)))
        .collect();
    let by_code = |value: &dyn Fn(&Times) -> f64| -> Map<String, Value> {
        case.times
            .iter()
            .map(|times| (times.name.to_owned(), json!(value(times))))
            .collect()
    };
    json!({
        "participation": case.network.name,
        "validators": case.network.layout.validators(),
        "committees": case.network.layout.committees(),
        "subcommittees": case.network.layout.subcommittees(),
        "flip": case.flip,
        "minority": case.minority,
        "collections": sizes.collections,
        "raw": sizes.raw,
        "snappy": sizes.snappy,
        "rice": contexts(&sizes.rice),
        "range": contexts(&sizes.range),
        "planes": { "u1": sizes.u1, "all": sizes.rice[0] },
        "entropy": entropy,
        "picks": sizes.picks,
        "encode_us": by_code(&|times| times.encode_us),
        "decode_us": by_code(&|times| times.decode_us),
        "equal": sizes.differences == 0,
    })
}
