//! Our operations of the authenticated random linear code, for one kernel level.

use super::clock::{Times, measure};
use super::{Op, SUBJECT, Shape};
use alphorn_exec::Backend;
use alphorn_rlnc::{
    Chunk, Coding, Distribution, Generators, Header, Id, PieceStatus, Published, Ristretto, Row,
    Scalar, VERIFY_BATCH_MAX, Weights,
};
use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::time::Instant;

type Piece = <Ristretto as Coding>::Piece;
type Decoder = <Ristretto as Coding>::Decoder;

/// Chunks of the batch that is timed beside one chunk, and of the batch with a bad one.
pub(super) const BATCH: usize = 10;

/// A code, a published payload and what draws from it.
pub(super) struct Bench {
    code: Ristretto,
    payload: Vec<u8>,
    source: Published<Ristretto>,
    rng: ChaCha20Rng,
    tables_ns: f64,
}

impl Bench {
    /// Builds the tables and publishes a random payload.
    pub(super) fn new(backend: Backend, shape: &Shape, seed: u64) -> Result<Bench> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut payload = vec![0; shape.payload_bytes];
        rng.fill_bytes(&mut payload);
        let start = Instant::now();
        let generators = Generators::new(backend, shape.elements);
        let tables_ns = start.elapsed().as_secs_f64() * 1e9;
        let code = Ristretto::new(generators, alphorn_rlnc::PAYLOAD_BYTES_MAX);
        let source = code
            .publish(SUBJECT, &payload, shape.cut)
            .context("cannot cut the payload")?;
        Ok(Bench {
            code,
            payload,
            source,
            rng,
            tables_ns,
        })
    }

    /// All operations. `header_verify` is the caller's, whose scheme signs headers.
    pub(super) fn ops(&mut self) -> Result<Vec<Op>> {
        let mut ops = vec![
            Op::new("tables_build", once(self.tables_ns)),
            Op::new("propose", self.propose()),
            Op::new("commit_one", self.commit_one()),
        ];
        ops.extend(self.verification());
        ops.extend(self.linear_algebra()?);
        Ok(ops)
    }

    /// Cutting, committing and what else a source does before it can sign.
    pub(super) fn propose(&self) -> Times {
        let cut = self.shape();
        measure(
            || (),
            |()| {
                self.code
                    .publish(SUBJECT, &self.payload, cut)
                    .map(|published| published.header)
            },
        )
    }

    fn commit_one(&self) -> Times {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let elements = self.source.header.unit as usize;
        measure(
            || random_row(elements, &mut rng),
            |row| self.code.generators().commit(&[row]),
        )
    }

    fn shape(&self) -> alphorn_rlnc::Cut {
        let header = &self.source.header;
        alphorn_rlnc::Cut {
            chunks: header.chunks,
            shards_total: header.shards_total,
            generations: header.generations,
        }
    }

    fn verification(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        for (name, count) in [
            ("verify_single", 1),
            ("verify_batch_2", 2),
            ("verify_batch_10", BATCH),
            ("verify_batch_64", VERIFY_BATCH_MAX),
        ] {
            let times = self.verify(count, None).0;
            ops.push(Op::new(name, times.scaled(1.0 / count as f64)));
        }
        let (times, sums) = self.verify(BATCH, Some(BATCH / 2));
        ops.push(Op::new("verify_batch_one_bad_10", times).with_count("bisect_msm_count", sums));
        ops
    }

    /// Times the verification of `count` chunks of which one may be bad; also the sums of the last run.
    pub(super) fn verify(&mut self, count: usize, bad: Option<usize>) -> (Times, u64) {
        let Bench {
            code, source, rng, ..
        } = self;
        let mut sums = 0;
        let mut batch = 0;
        let times = measure(
            || {
                let mut pieces: Vec<Piece> =
                    (0..count).filter_map(|_| draw(code, source, rng)).collect();
                if let Some(bad) = bad {
                    pieces[bad] = spoiled(&pieces[bad]);
                }
                batch += 1;
                (pieces, batch)
            },
            |(pieces, batch)| {
                let verdicts = code.verify(
                    &source.header,
                    &source.anchors[0],
                    pieces,
                    &mut weights(*batch),
                );
                let wrong = |(i, valid): (usize, &bool)| *valid == (Some(i) == bad);
                assert!(
                    !verdicts.valid.iter().enumerate().any(wrong),
                    "a verdict is wrong: the times would mean nothing"
                );
                sums = verdicts.sums as u64;
            },
        );
        (times, sums)
    }

    /// One combination by a relay that holds so many rows of a generation.
    pub(super) fn recode(&mut self, rows: u16) -> Times {
        let relay = self.holding(rows);
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        measure(
            || (),
            |()| self.code.draw(&relay, 0, Distribution::Fresh, &mut rng),
        )
    }

    /// The payload from a full decoder.
    pub(super) fn decode(&mut self) -> Times {
        let full = self.holding(self.source.header.chunks);
        let header = &self.source.header;
        measure(|| (), |()| self.code.decode(header, &full))
    }

    fn linear_algebra(&mut self) -> Result<Vec<Op>> {
        let recode = self.recode(self.source.header.chunks);
        let decode = self.decode();
        let Bench {
            code,
            source,
            payload,
            rng,
            ..
        } = self;
        let header = &source.header;
        let count = 2 * usize::from(header.chunks) * usize::from(header.generations);
        let mut pieces = || -> Vec<Piece> { drawn(code, source, rng) };
        let inserts = measure(&mut pieces, |pieces| {
            let mut decoder = code.decoder(header);
            let accept = |piece: &&Piece| code.accept(&mut decoder, Piece::clone(piece));
            pieces.iter().filter(accept).count()
        });
        let mut batch = 0;
        let receive_all = measure(
            || {
                batch += 1;
                (encoded(code, header, &pieces()), batch)
            },
            |(bodies, batch)| receive(code, source, bodies, *batch),
        );
        let bodies = encoded(code, header, &pieces());
        ensure!(
            receive(code, source, &bodies, 0).as_deref() == Some(payload.as_slice()),
            "the received payload differs from the sent one"
        );
        Ok(vec![
            Op::new("recode", recode),
            Op::new("echelon_insert", inserts.scaled(1.0 / count as f64)),
            Op::new("decode", decode),
            Op::new("receive_all", receive_all),
        ])
    }

    /// A relay of this rank in every generation that has not decoded.
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

/// A time that was taken once.
fn once(ns: f64) -> Times {
    Times {
        least_ns: ns,
        p10_ns: ns,
        median_ns: ns,
        p90_ns: ns,
        iters: 1,
    }
}

fn weights(batch: u64) -> Weights {
    Weights::new(&[1; 32], &Id([0; 32]), batch)
}

fn random_row(elements: usize, rng: &mut ChaCha20Rng) -> Row {
    let scalars: Vec<Scalar> = (0..elements).map(|_| Scalar::random(rng)).collect();
    Row::from_scalars(&scalars)
}

/// A fresh combination of the first generation.
fn draw(code: &Ristretto, source: &Published<Ristretto>, rng: &mut ChaCha20Rng) -> Option<Piece> {
    code.draw(&source.decoder, 0, Distribution::Fresh, rng)
}

/// Twice as many combinations of each generation as it needs, so that a dependent one does no harm.
fn drawn(code: &Ristretto, source: &Published<Ristretto>, rng: &mut ChaCha20Rng) -> Vec<Piece> {
    let header = &source.header;
    (0..header.generations)
        .flat_map(|generation| (0..2 * header.chunks).map(move |_| generation))
        .filter_map(|generation| code.draw(&source.decoder, generation, Distribution::Fresh, rng))
        .collect()
}

/// The chunk with one element changed.
fn spoiled(piece: &Piece) -> Piece {
    let mut chunk = Chunk::clone(piece);
    chunk.data.set(0, chunk.data.get(0) + Scalar::ONE);
    Piece::new(chunk)
}

fn encoded(code: &Ristretto, header: &Header, pieces: &[Piece]) -> Vec<Vec<u8>> {
    let encode = |piece: &Piece| {
        let mut body = Vec::new();
        code.encode_piece(header, piece, &mut body);
        body
    };
    pieces.iter().map(encode).collect()
}

/// From bytes to the payload: parse, test for rank, verify in batches, insert, decode.
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
    for (pieces, anchor) in waiting.into_iter().zip(&source.anchors) {
        let verdicts = code.verify(header, anchor, &pieces, &mut weights(batch));
        for (piece, valid) in pieces.into_iter().zip(verdicts.valid) {
            if valid {
                code.accept(&mut decoder, piece);
            }
        }
    }
    code.decode(header, &decoder)
        .ok()
        .map(|(payload, _)| payload)
}
