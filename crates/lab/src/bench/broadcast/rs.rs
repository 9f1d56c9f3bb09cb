//! Reed-Solomon shards under a Merkle root, beside the bare code.

use super::clock::{Times, measure};
use super::peers::Baseline;
use super::{Op, SUBJECT, Shape};
use alphorn_rlnc::{
    Coding, Cut, Distribution, Id, PAYLOAD_BYTES_MAX, Published, Rs, Strategy, VERIFY_BATCH_MAX,
    Weights,
};
use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

type Shard = <Rs as Coding>::Piece;

/// A published payload and its shards.
pub(super) struct Bench {
    code: Rs,
    payload: Vec<u8>,
    cut: Cut,
    source: Published<Rs>,
    shards: Vec<Shard>,
}

impl Bench {
    /// Publishes a random payload.
    pub(super) fn new(bytes: usize, cut: Cut, seed: u64) -> Result<Bench> {
        let code = Rs::new(PAYLOAD_BYTES_MAX);
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut payload = vec![0; bytes];
        rng.fill_bytes(&mut payload);
        let source = code
            .publish(SUBJECT, &payload, cut)
            .context("cannot cut the payload")?;
        let shards = (0..cut.shards_total)
            .filter_map(|index| code.draw(&source.decoder, index, Distribution::Fresh, &mut rng))
            .collect();
        Ok(Bench {
            code,
            payload,
            cut,
            source,
            shards,
        })
    }

    /// The last shards: as many as data shards are the dearest to decode, as all of these are lost.
    fn last(&self, count: usize) -> &[Shard] {
        &self.shards[self.shards.len().saturating_sub(count)..]
    }

    pub(super) fn encode(&self) -> Times {
        let publish = || self.code.publish(SUBJECT, &self.payload, self.cut);
        measure(|| (), |()| publish().map(|published| published.header))
    }

    /// Verifies shards in one call.
    pub(super) fn verify(&self, count: usize) -> Result<Times> {
        let group = self.last(count);
        let mut weights = Weights::new(&[1; 32], &Id([0; 32]), 0);
        let mut all_valid = group.len() == count;
        let times = measure(
            || (),
            |()| {
                let verdicts = self
                    .code
                    .verify(&self.source.header, &(), group, &mut weights);
                all_valid &= verdicts.valid.iter().all(|valid| *valid);
            },
        );
        ensure!(all_valid, "{count} Reed-Solomon shards do not verify");
        Ok(times)
    }

    pub(super) fn decode(&self) -> Result<Times> {
        let header = &self.source.header;
        let mut decoder = self.code.decoder(header);
        for shard in self.last(self.cut.chunks.into()) {
            self.code.accept(&mut decoder, shard.clone());
        }
        let times = measure(|| (), |()| self.code.decode(header, &decoder).is_ok());
        let decoded = self.code.decode(header, &decoder);
        ensure!(
            decoded.is_ok_and(|(bytes, _)| bytes == self.payload),
            "Reed-Solomon shards do not give the payload back"
        );
        Ok(times)
    }
}

/// All operations, and what the bare code of the same crate takes without root, paths and checks.
pub(super) fn ops(shape: &Shape, seed: u64) -> Result<(Vec<Op>, Vec<Baseline>)> {
    let cut = Cut::auto(Strategy::Rs, shape.payload_bytes);
    let bench = Bench::new(shape.payload_bytes, cut, seed)?;
    let count = usize::from(cut.chunks).min(VERIFY_BATCH_MAX);
    let verify = bench.verify(count)?.scaled(1.0 / count as f64);
    let ops = vec![
        Op::new("rs_encode", bench.encode()),
        Op::new("rs_verify", verify),
        Op::new("rs_decode_checked", bench.decode()?),
    ];
    let unit = bench.source.header.unit as usize;
    Ok((ops, bare(&bench.payload, &cut, unit)?))
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
    let named = |op, times: Times| Baseline {
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
