//! `alphorn bench bls primitives`: single operations on this machine, ours beside blst's.

use super::least;
use crate::error::Result;
use crate::options::Common;
use crate::report::{Report, table};
use crate::text;
use alphorn_bls::{
    Costs, G1Affine, PublicKey, Rlc, RlcBits, SIGNATURE_DST, Signature, SignatureSet,
    VartimeInteropSigner, decode_public_keys, decode_signatures, encode_g1, encode_g2,
    hash_many_to_g2, hash_to_g2, interop_keys, outside_subgroup, peer, sign,
    vartime_interop_public_keys, verify, verify_sets,
};
use alphorn_exec::{Backend, Exec};
use serde_json::{Map, Value, json};

/// Single operations: points, pairings, decoding, signing
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  alphorn bench bls primitives\n  alphorn bench bls primitives --kernel portable --json -"
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Runs of each operation; the least time counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
}

/// Items of the bulk operations.
const ITEMS: usize = 4096;
/// Votes of a cell.
const CELL: usize = 512;

#[derive(Clone)]
struct Row {
    name: &'static str,
    ours_s: Option<f64>,
    blst_s: Option<f64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("bench bls primitives", args.common.seed);
    let kernels = args.common.kernels(&alphorn_bls::KERNELS)?;
    let machine = args.common.machine_of(&kernels)?;
    let on_kernel = |kernel: Backend| {
        let rows = [
            sums(args, kernel),
            points(args, kernel),
            signatures(args, kernel),
        ];
        rows.concat().into_iter().map(move |row| (kernel, row))
    };
    let rows: Vec<(Backend, Row)> = kernels.into_iter().flat_map(on_kernel).collect();

    let sink = args.common.sink();
    sink.say(&format!("{} (one thread each)", machine.line()));
    let cell = |seconds: Option<f64>| seconds.map_or("-".into(), text::seconds);
    let printed: Vec<Vec<String>> = rows
        .iter()
        .map(|(kernel, row)| {
            let ratio = row
                .blst_s
                .zip(row.ours_s)
                .map_or("-".into(), |(blst, ours)| text::ratio(blst / ours));
            vec![
                row.name.into(),
                kernel.to_string(),
                cell(row.blst_s),
                cell(row.ours_s),
                ratio,
            ]
        })
        .collect();
    sink.say(&format!(
        "\n{}",
        table(
            &["operation, each", "kernel", "blst", "ours", "faster by"],
            &printed
        )
    ));
    let cases = rows
        .iter()
        .map(|(kernel, row)| json!({ "kernel": kernel.name(), "op": row.name, "blst_s": row.blst_s, "ours_s": row.ours_s }));
    let fields = Map::from_iter([("cases".to_owned(), Value::Array(cases.collect()))]);
    sink.write(&report.object(&machine, "measured", &json!({ "runs": args.runs }), fields)?)
}

/// Seconds of one of `items` operations.
fn each<T>(args: &Args, items: usize, run: impl FnMut() -> T) -> Option<f64> {
    Some(least(usize::from(args.runs), run).0 / items as f64)
}

fn sums(args: &Args, kernel: Backend) -> Vec<Row> {
    let keys: Vec<G1Affine> = vartime_interop_public_keys(
        &interop_keys(0..ITEMS as u64, Exec::serial()),
        Exec::new(kernel, None),
    )
    .iter()
    .map(|key| *key.point())
    .collect();
    let costs = Costs::measure(kernel);
    vec![
        Row {
            name: "add a key to one running sum",
            ours_s: None,
            blst_s: each(args, ITEMS, || peer::sum_naive(&keys)),
        },
        Row {
            name: "add a key in a bulk sum",
            ours_s: Some(costs.add_ns * 1e-9),
            blst_s: each(args, ITEMS, || peer::sum_bulk(&keys)),
        },
    ]
}

fn points(args: &Args, kernel: Backend) -> Vec<Row> {
    let keys = interop_keys(0..CELL as u64, Exec::serial());
    let signatures =
        VartimeInteropSigner::new(b"vote", kernel).vartime_interop_sign(&keys, Exec::serial());
    let publics = vartime_interop_public_keys(&keys, Exec::new(kernel, None));
    let (g1, g2): (Vec<_>, Vec<_>) = publics
        .iter()
        .zip(&signatures)
        .map(|(k, s)| (*k.point(), *s.point()))
        .unzip();
    let (g1_bytes, g2_bytes): (Vec<_>, Vec<_>) = g1
        .iter()
        .zip(&g2)
        .map(|(k, s)| (encode_g1(k), encode_g2(s)))
        .unzip();
    let seed = [9; 32];
    let rlc = Rlc::new(seed, RlcBits::Bits64);
    let alone = |args: &Args, run: &mut dyn FnMut(usize) -> bool| {
        each(args, CELL, || (0..CELL).filter(|i| run(*i)).count())
    };
    vec![
        Row {
            name: "decode and check a key, 512 in bulk",
            ours_s: each(args, CELL, || {
                decode_public_keys(&g1_bytes, &rlc, Exec::new(kernel, None))
            }),
            blst_s: alone(args, &mut |i| PublicKey::from_bytes(&g1_bytes[i]).is_ok()),
        },
        Row {
            name: "decode and check a signature, 512 in bulk",
            ours_s: each(args, CELL, || {
                decode_signatures(&g2_bytes, &rlc, Exec::new(kernel, None))
            }),
            blst_s: alone(args, &mut |i| Signature::from_bytes(&g2_bytes[i]).is_ok()),
        },
        Row {
            name: "subgroup check of a key, 512 in bulk",
            ours_s: each(args, CELL, || outside_subgroup(kernel, &g1, &seed)),
            blst_s: alone(args, &mut |i| peer::in_g1(&g1[i])),
        },
        Row {
            name: "subgroup check of a signature, 512 in bulk",
            ours_s: each(args, CELL, || outside_subgroup(kernel, &g2, &seed)),
            blst_s: alone(args, &mut |i| peer::in_g2(&g2[i])),
        },
    ]
}

fn signatures(args: &Args, kernel: Backend) -> Vec<Row> {
    let keys = interop_keys(0..CELL as u64, Exec::serial());
    let secret = keys[0].to_secret_key();
    let publics = vartime_interop_public_keys(&keys, Exec::new(kernel, None));
    let signer = VartimeInteropSigner::new(b"vote", kernel);
    let signatures = signer.vartime_interop_sign(&keys, Exec::serial());
    let sets: Vec<SignatureSet<'_>> = publics
        .iter()
        .zip(&signatures)
        .map(|(key, signature)| SignatureSet {
            key: *key,
            message: b"vote",
            signature: *signature,
        })
        .collect();
    let rlc = Rlc::new([3; 32], RlcBits::Bits64);
    let messages: Vec<[u8; 2]> = (0..CELL as u16).map(u16::to_le_bytes).collect();
    vec![
        Row {
            name: "hash a message to G2, 512 in bulk",
            ours_s: each(args, CELL, || {
                hash_many_to_g2(&messages, SIGNATURE_DST, Exec::new(kernel, None))
            }),
            blst_s: each(args, 1, || hash_to_g2(b"vote", SIGNATURE_DST)),
        },
        Row {
            name: "sign",
            ours_s: None,
            blst_s: each(args, 1, || sign(&secret, b"vote")),
        },
        Row {
            name: "sign with interop keys, 512 in bulk",
            ours_s: each(args, CELL, || {
                signer.vartime_interop_sign(&keys, Exec::serial())
            }),
            blst_s: each(args, 1, || sign(&secret, b"vote")),
        },
        Row {
            name: "verify, decoded, 512 of one message in a batch",
            ours_s: each(args, CELL, || {
                verify_sets(&sets, &rlc, Exec::new(kernel, None))
            }),
            blst_s: each(args, 1, || verify(&publics[0], b"vote", &signatures[0])),
        },
    ]
}
