//! Our steps of the authenticated random linear code, on one kernel.

use super::{SEED, SUBJECT, Shape, Step};
use crate::timing::median_ns;
use alphorn_exec::Backend;
use alphorn_rlnc::{
    Coding, Cut, Distribution, Generators, Id, PieceStatus, Published, Ristretto, Weights,
};
use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

type Piece = <Ristretto as Coding>::Piece;
type Decoder = <Ristretto as Coding>::Decoder;

/// Chunks of the batch that is timed in addition to single chunks.
pub(super) const BATCH: usize = 10;

/// A code, a published payload and a random generator.
pub(super) struct Bench {
    code: Ristretto,
    payload: Vec<u8>,
    cut: Cut,
    source: Published<Ristretto>,
    rng: ChaCha20Rng,
    /// Batches verified so far, each with its own weights.
    batch: u64,
}

impl Bench {
    /// Builds the tables and publishes a random payload.
    pub(super) fn new(kernel: Backend, shape: &Shape) -> Result<Bench> {
        let mut rng = ChaCha20Rng::seed_from_u64(SEED);
        let mut payload = vec![0; shape.payload_bytes];
        rng.fill_bytes(&mut payload);
        let generators = Generators::new(kernel, shape.elements);
        let code = Ristretto::new(generators, alphorn_rlnc::PAYLOAD_BYTES_MAX);
        let source = code
            .publish(SUBJECT, &payload, shape.cut)
            .context("cannot cut the payload")?;
        Ok(Bench {
            code,
            payload,
            cut: shape.cut,
            source,
            rng,
            batch: 0,
        })
    }

    /// Measures the steps of a source, a relay and a receiver.
    pub(super) fn steps(&mut self) -> Result<Vec<Step>> {
        let chunks = self.source.header.chunks;
        Ok(vec![
            ("propose", self.propose()),
            ("verify_single", self.verify(1)),
            ("verify_batch_10", self.verify(BATCH) / BATCH as f64),
            ("recode", self.recode(chunks)),
            ("decode", self.decode()),
            ("receive_all", self.receive_all()?),
        ])
    }

    /// Measures cutting, committing and everything else a source does before it can sign.
    pub(super) fn propose(&self) -> f64 {
        let publish = || self.code.publish(SUBJECT, &self.payload, self.cut);
        median_ns(|| (), |()| publish().map(|published| published.header))
    }

    /// Measures the verification of `count` fresh chunks in one call.
    pub(super) fn verify(&mut self, count: usize) -> f64 {
        let Bench {
            code,
            source,
            rng,
            batch,
            ..
        } = self;
        let pieces = || -> (Vec<Piece>, u64) {
            let draw = |_| code.draw(&source.decoder, 0, Distribution::Fresh, rng);
            *batch += 1;
            ((0..count).filter_map(draw).collect(), *batch)
        };
        let commitments = &source.commitments[0];
        median_ns(pieces, |(pieces, batch)| {
            let verdicts = code.verify(&source.header, commitments, pieces, &mut weights(*batch));
            let all_valid = verdicts.valid.iter().all(|valid| *valid);
            assert!(
                all_valid,
                "a verdict is wrong: the times would mean nothing"
            );
        })
    }

    /// Measures one combination by a relay that holds this many rows of a generation.
    pub(super) fn recode(&mut self, rows: u16) -> f64 {
        let relay = self.holding(rows);
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        median_ns(
            || (),
            |()| self.code.draw(&relay, 0, Distribution::Fresh, &mut rng),
        )
    }

    /// Measures decoding the payload from a full decoder.
    pub(super) fn decode(&mut self) -> f64 {
        let full = self.holding(self.source.header.chunks);
        median_ns(|| (), |()| self.code.decode(&self.source.header, &full))
    }

    /// Measures all that a receiver does, from bytes to the payload.
    fn receive_all(&mut self) -> Result<f64> {
        let mut batch = 0;
        let mut fresh = || {
            batch += 1;
            (bodies(&self.code, &self.source, &mut self.rng), batch)
        };
        let (code, source) = (&self.code, &self.source);
        let (sent, _) = fresh();
        ensure!(
            receive(code, source, &sent, 0).as_deref() == Some(self.payload.as_slice()),
            "the received payload differs from the sent one"
        );
        Ok(median_ns(fresh, |(bodies, batch)| {
            receive(code, source, bodies, *batch)
        }))
    }

    /// Returns a relay of this rank in every generation that has not decoded.
    fn holding(&mut self, rank: u16) -> Decoder {
        let Bench {
            code, source, rng, ..
        } = self;
        let mut decoder = code.decoder(&source.header);
        for generation in 0..source.header.generations {
            while code.rank(&decoder, generation) < rank {
                let drawn = code.draw(&source.decoder, generation, Distribution::Fresh, rng);
                let Some(piece) = drawn else { break };
                code.accept(&mut decoder, piece);
            }
        }
        decoder
    }
}

fn weights(batch: u64) -> Weights {
    Weights::new(&[1; 32], &Id([0; 32]), batch)
}

/// Returns twice as many combinations of each generation as it needs, so that a dependent one does no harm.
fn bodies(code: &Ristretto, source: &Published<Ristretto>, rng: &mut ChaCha20Rng) -> Vec<Vec<u8>> {
    let header = &source.header;
    let generations = 0..header.generations;
    let each = generations.flat_map(|generation| (0..2 * header.chunks).map(move |_| generation));
    let drawn = each
        .filter_map(|generation| code.draw(&source.decoder, generation, Distribution::Fresh, rng));
    let encode = |piece: Piece| {
        let mut body = Vec::new();
        code.encode_piece(header, &piece, &mut body);
        body
    };
    drawn.map(encode).collect()
}

/// Goes from bytes to the payload: parse, test for rank, verify in batches, insert, decode.
fn receive(
    code: &Ristretto,
    source: &Published<Ristretto>,
    bodies: &[Vec<u8>],
    batch: u64,
) -> Option<Vec<u8>> {
    let header = &source.header;
    let mut decoder = code.decoder(header);
    let mut waiting = vec![Vec::new(); usize::from(header.generations)];
    for body in bodies {
        let piece = code.decode_piece(header, body).ok()?;
        if code.offer(&mut decoder, &piece) == PieceStatus::Innovative {
            waiting[usize::from(code.generation(&piece))].push(piece);
        }
    }
    for (pieces, commitments) in waiting.into_iter().zip(&source.commitments) {
        let verdicts = code.verify(header, commitments, &pieces, &mut weights(batch));
        for (piece, valid) in pieces.into_iter().zip(verdicts.valid) {
            if valid {
                code.accept(&mut decoder, piece);
            }
        }
    }
    let decoded = code.decode(header, &decoder).ok()?;
    Some(decoded.0)
}
