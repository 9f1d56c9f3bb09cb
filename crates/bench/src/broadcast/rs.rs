//! Reed-Solomon shards under a Merkle root, against the bare code.

use super::{Peer, SEED, SUBJECT};
use crate::timing::median_ns;
use alphorn_rlnc::{Coding, Cut, Distribution, Id, PAYLOAD_BYTES_MAX, Published, Rs, Weights};
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
    pub(super) fn new(bytes: usize, cut: Cut) -> Result<Bench> {
        let code = Rs::new(PAYLOAD_BYTES_MAX);
        let mut rng = ChaCha20Rng::seed_from_u64(SEED);
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

    /// Returns the last shards: decoding is most expensive from as many of them as there are data
    /// shards, since all of those are then lost.
    fn last(&self, count: usize) -> &[Shard] {
        &self.shards[self.shards.len().saturating_sub(count)..]
    }

    pub(super) fn encode(&self) -> f64 {
        let publish = || self.code.publish(SUBJECT, &self.payload, self.cut);
        median_ns(|| (), |()| publish().map(|published| published.header))
    }

    /// Verifies shards in one call.
    pub(super) fn verify(&self, count: usize) -> Result<f64> {
        let group = self.last(count);
        let mut weights = Weights::new(&[1; 32], &Id([0; 32]), 0);
        let mut all_valid = group.len() == count;
        let times = median_ns(
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

    pub(super) fn decode(&self) -> Result<f64> {
        let header = &self.source.header;
        let mut decoder = self.code.decoder(header);
        for shard in self.last(self.cut.chunks.into()) {
            self.code.accept(&mut decoder, shard.clone());
        }
        let times = median_ns(|| (), |()| self.code.decode(header, &decoder).is_ok());
        let decoded = self.code.decode(header, &decoder);
        ensure!(
            decoded.is_ok_and(|(bytes, _)| bytes == self.payload),
            "Reed-Solomon shards do not give the payload back"
        );
        Ok(times)
    }

    /// Measures encoding and decoding without root, paths and checks, by the underlying public crate.
    pub(super) fn bare(&self) -> Result<Vec<Peer>> {
        let data = usize::from(self.cut.chunks);
        let parity = usize::from(self.cut.shards_total) - data;
        let shard_bytes = self.source.header.unit as usize;
        let mut padded = self.payload.clone();
        padded.resize(data * shard_bytes, 0);
        let shards: Vec<&[u8]> = padded.chunks(shard_bytes).collect();
        let encode = || reed_solomon_simd::encode(data, parity, &shards);
        let recovery = encode().context("reed-solomon-simd")?;
        let lost_all = recovery.iter().enumerate().rev().take(data);
        let lost_all: Vec<(usize, &Vec<u8>)> = lost_all.collect();
        let decode = || {
            let none: [(usize, &[u8]); 0] = [];
            reed_solomon_simd::decode(data, parity, none, lost_all.iter().copied())
        };
        let name = "reed_solomon_simd_unauthenticated";
        Ok(vec![
            ("rs_encode", name, median_ns(|| (), |()| encode())),
            ("rs_decode_checked", name, median_ns(|| (), |()| decode())),
        ])
    }
}
