//! Reed-Solomon shards under a Merkle root, beside the bare code.

use super::clock::measure;
use super::peers::Baseline;
use super::{Op, SUBJECT, Shape};
use alphorn_rlnc::{Coding, Cut, Id, Law, PAYLOAD_BYTES_MAX, Rs, Strategy, Weights};
use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// All operations, and what the bare code of the same crate takes without root, paths and checks.
pub(super) fn ops(shape: &Shape, seed: u64) -> Result<(Vec<Op>, Vec<Baseline>)> {
    let code = Rs::new(PAYLOAD_BYTES_MAX);
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut payload = vec![0; shape.payload_bytes];
    rng.fill_bytes(&mut payload);
    let cut = Cut::auto(Strategy::Rs, payload.len());
    let encode = measure(
        || (),
        |()| code.publish(SUBJECT, &payload, cut).map(|p| p.header),
    );
    let source = code
        .publish(SUBJECT, &payload, cut)
        .context("cannot cut the payload")?;
    // The last shards: all data shards are lost, the dearest case.
    let last = cut.shards_total - cut.chunks..cut.shards_total;
    let shards: Vec<_> = last
        .filter_map(|index| code.draw(&source.basket, index, Law::Fresh, &mut rng))
        .collect();
    let mut weights = Weights::new(&[1; 32], &Id([0; 32]), 0);
    let mut all_valid = true;
    // Up to 64 shards are one call.
    let group = &shards[..shards.len().min(alphorn_rlnc::VERIFY_BATCH_MAX)];
    let verify = measure(
        || (),
        |()| {
            let verdicts = code.verify(&source.header, &(), group, &mut weights);
            all_valid &= verdicts.valid.iter().all(|valid| *valid);
        },
    );
    let mut basket = code.basket(&source.header);
    for shard in &shards {
        code.accept(&mut basket, shard.clone());
    }
    let decode = measure(|| (), |()| code.decode(&source.header, &basket).is_ok());
    let decoded = code.decode(&source.header, &basket);
    ensure!(
        all_valid && decoded.is_ok_and(|(bytes, _)| bytes == payload),
        "Reed-Solomon shards do not give the payload back"
    );
    let bare = bare(&payload, &cut, source.header.unit as usize)?;
    let ops = vec![
        Op::new("rs_encode", encode),
        Op::new("rs_verify", verify.scaled(1.0 / group.len() as f64)),
        Op::new("rs_decode_checked", decode),
    ];
    Ok((ops, bare))
}

/// Encoding and decoding alone, by the public crate underneath.
fn bare(payload: &[u8], cut: &Cut, shard_bytes: usize) -> Result<Vec<Baseline>> {
    let data = usize::from(cut.chunks);
    let parity = usize::from(cut.shards_total) - data;
    let mut padded = payload.to_vec();
    padded.resize(data * shard_bytes, 0);
    let shards: Vec<&[u8]> = padded.chunks(shard_bytes).collect();
    let encode = measure(|| (), |()| reed_solomon_simd::encode(data, parity, &shards));
    let recovery = reed_solomon_simd::encode(data, parity, &shards).context("reed-solomon-simd")?;
    let lost_all: Vec<(usize, &Vec<u8>)> = recovery.iter().enumerate().rev().take(data).collect();
    let decode = measure(
        || (),
        |()| {
            let none: [(usize, &[u8]); 0] = [];
            reed_solomon_simd::decode(data, parity, none, lost_all.iter().copied())
        },
    );
    let named = |op, times: super::clock::Times| Baseline {
        op,
        name: "reed_solomon_simd_unauthenticated",
        median_ns: times.median_ns,
        least_ns: times.least_ns,
        kind: "measured",
    };
    Ok(vec![
        named("rs_encode", encode),
        named("rs_decode_checked", decode),
    ])
}
