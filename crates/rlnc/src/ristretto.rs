//! The random linear code over the Ristretto255 scalars, authenticated by Pedersen commitments.

use std::sync::Arc;

use alphorn_exec::Backend;
use rand_chacha::rand_core::Rng;

use crate::chunk::Chunk;
use crate::coding::{Coding, Cut, PieceStatus, Published};
use crate::coefficients::{Distribution, Mode, draw_relay, draw_source};
use crate::echelon::Echelon;
use crate::error::{DecodeError, InvalidSource, PieceError};
use crate::header::{Header, HeaderError, Strategy, Subject, payload_hash};
use crate::kernel::Dispatch;
use crate::merkle::{Hash, Tree, climb};
use crate::payload::{self, Joiner};
use crate::pedersen::{CommitmentTable, Generators, Verdicts, Weights, commitment_leaf};
use crate::row::Row;
use crate::scalar::Scalar;

/// The random linear code with Pedersen commitments.
///
/// ```
/// use alphorn_exec::Backend;
/// use alphorn_rlnc::{Coding, Cut, Generators, Distribution, Ristretto, Subject, Weights};
/// use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};
///
/// let code = Ristretto::new(Generators::new(Backend::Portable, 8), 1 << 20);
/// let subject = Subject { kind: 1, slot: 7, source: 3, index: 0 };
/// let payload = b"a block, in fact rather short".repeat(8);
/// let source = code.publish(subject, &payload, Cut::rlnc(4))?;
///
/// // Somebody else: chunks arrive, are verified against the commitments, and raise the rank.
/// let mut rng = ChaCha20Rng::seed_from_u64(1);
/// let mut decoder = code.decoder(&source.header);
/// let id = source.header.id(&[0; 32]);
/// for batch in 0.. {
///     let chunk = code.draw(&source.decoder, 0, Distribution::Fresh, &mut rng).expect("a source has chunks");
///     let mut weights = Weights::new(&[9; 32], &id, batch);
///     let verdicts = code.verify(&source.header, &source.commitments[0], &[chunk.clone()], &mut weights);
///     assert!(verdicts.valid[0]);
///     code.accept(&mut decoder, chunk);
///     if code.is_full(&decoder) {
///         break;
///     }
/// }
/// assert_eq!(code.decode(&source.header, &decoder)?.0, payload);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ristretto {
    generators: Generators,
    payload_bytes_max: u32,
}

/// The commitments of one generation and their Merkle path to the header.
#[derive(Clone, Debug)]
pub struct Commitments {
    table: CommitmentTable,
    path: Arc<[Hash]>,
}

impl Commitments {
    /// The decoded commitments.
    pub fn table(&self) -> &CommitmentTable {
        &self.table
    }
}

/// What a node holds of a broadcast, by generation.
#[derive(Clone, Debug)]
pub struct Decoder {
    mode: Mode,
    /// Shared separately: a job that combines keeps a snapshot of one, and a chunk of another generation copies
    /// nothing.
    generations: Vec<Arc<Generation>>,
}

#[derive(Clone, Debug)]
struct Generation {
    rows: Echelon,
    /// The accepted chunks, in the order of the history of `rows`.
    chunks: Vec<Arc<Chunk>>,
    /// All source chunks, once known.
    source: Option<Arc<[Row]>>,
}

impl Generation {
    fn empty(backend: Backend, chunks: usize) -> Generation {
        Generation {
            rows: Echelon::new(backend, chunks),
            chunks: Vec::new(),
            source: None,
        }
    }

    fn complete(backend: Backend, source: Vec<Row>) -> Generation {
        let mut generation = Generation::empty(backend, source.len());
        generation.source = Some(source.into());
        generation
    }

    fn is_full(&self) -> bool {
        self.source.is_some() || self.rows.is_full()
    }
}

impl Ristretto {
    /// Creates the code with these generators, for payloads up to `payload_bytes_max`.
    pub fn new(generators: Generators, payload_bytes_max: u32) -> Ristretto {
        Ristretto {
            generators,
            payload_bytes_max,
        }
    }

    /// The generators.
    pub fn generators(&self) -> &Generators {
        &self.generators
    }

    fn backend(&self) -> Backend {
        self.generators.backend()
    }

    fn complete(&self, header: &Header, source: Vec<Vec<Row>>) -> Decoder {
        let complete = |rows| Arc::new(Generation::complete(self.backend(), rows));
        Decoder {
            mode: Mode::of(header.chunks, header.unit),
            generations: source.into_iter().map(complete).collect(),
        }
    }
}

impl Coding for Ristretto {
    type Piece = Arc<Chunk>;
    type Commitments = Commitments;
    type Decoder = Decoder;

    fn strategy(&self) -> Strategy {
        Strategy::Rlnc
    }

    fn publish(
        &self,
        subject: Subject,
        payload: &[u8],
        cut: Cut,
    ) -> Result<Published<Ristretto>, HeaderError> {
        let max = self.payload_bytes_max;
        let header = Header::rlnc(subject, payload.len(), cut.chunks, cut.generations, max)?;
        let mut header = self.supported(header)?;
        header.payload_hash = payload_hash(payload);
        let source = payload::split(&header, payload);
        let commit = |rows: &Vec<Row>| {
            let rows: Vec<&Row> = rows.iter().collect();
            self.generators.commitment_table(&rows)
        };
        let tables: Vec<CommitmentTable> = source.iter().map(commit).collect();
        let tree = Tree::new((0..).zip(&tables).map(|(g, table)| table.leaf(g)).collect());
        header.commit_root = tree.root();
        let with_path = |(generation, table)| Commitments {
            table,
            path: tree.path(generation).into(),
        };
        let commitments = tables.into_iter().enumerate().map(with_path).collect();
        let decoder = self.complete(&header, source);
        Ok(Published {
            header,
            commitments,
            decoder,
        })
    }

    fn payload_bytes_max(&self) -> u32 {
        self.payload_bytes_max
    }

    /// Checks that there are generators for the elements of a chunk.
    fn supported(&self, header: Header) -> Result<Header, HeaderError> {
        let max = self.generators.elements_max();
        if header.unit > max {
            return Err(HeaderError::Range {
                name: "unit",
                value: header.unit,
                min: 1,
                max,
            });
        }
        Ok(header)
    }

    fn encode_commitments(&self, commitments: &Commitments, out: &mut Vec<u8>) {
        out.extend_from_slice(commitments.table.encoded().as_flattened());
        out.extend_from_slice(commitments.path.as_flattened());
    }

    fn read_commitments(
        &self,
        header: &Header,
        generation: u16,
        bytes: &[u8],
    ) -> Result<Commitments, PieceError> {
        let (list, path) = bytes.split_at(32 * usize::from(header.chunks));
        let (list_hashes, _) = list.as_chunks::<32>();
        let (path, _) = path.as_chunks::<32>();
        // Hashing comes first: a stranger cannot forge it, and decoding points is more expensive.
        let leaf = commitment_leaf(generation, list_hashes);
        if climb(leaf, usize::from(generation), path) != header.commit_root {
            return Err(PieceError::Path);
        }
        let table = CommitmentTable::decode(list, header.chunks)?;
        Ok(Commitments {
            table,
            path: path.into(),
        })
    }

    fn piece_bytes(&self, _header: &Header, piece: &Arc<Chunk>) -> usize {
        piece.encoded_bytes()
    }

    fn encode_piece(&self, _header: &Header, piece: &Arc<Chunk>, out: &mut Vec<u8>) {
        piece.encode(out);
    }

    fn decode_piece(&self, header: &Header, body: &[u8]) -> Result<Arc<Chunk>, PieceError> {
        Chunk::decode(header, body).map(Arc::new)
    }

    fn generation(&self, piece: &Arc<Chunk>) -> u16 {
        piece.generation
    }

    fn hop_and_rank(&self, piece: &Arc<Chunk>) -> (u8, u16) {
        (piece.hop, piece.sender_rank)
    }

    fn set_hop_and_rank(&self, piece: &mut Arc<Chunk>, hop: u8, rank: u16) {
        let chunk = Arc::make_mut(piece);
        (chunk.hop, chunk.sender_rank) = (hop, rank);
    }

    fn decoder(&self, header: &Header) -> Decoder {
        let chunks = usize::from(header.chunks);
        let empty = || Arc::new(Generation::empty(self.backend(), chunks));
        Decoder {
            mode: Mode::of(header.chunks, header.unit),
            generations: (0..header.generations).map(|_| empty()).collect(),
        }
    }

    fn offer(&self, decoder: &mut Decoder, piece: &Arc<Chunk>) -> PieceStatus {
        let generation = &mut decoder.generations[usize::from(piece.generation)];
        if generation.is_full() {
            return PieceStatus::Full;
        }
        Arc::make_mut(generation).rows.offer(&piece.coefficients)
    }

    fn withdraw(&self, decoder: &mut Decoder) {
        // A job that holds the decoder has its own reference: decoders without waiting pieces are not copied.
        let waiting = decoder
            .generations
            .iter_mut()
            .filter(|generation| generation.rows.waits());
        for generation in waiting {
            Arc::make_mut(generation).rows.withdraw();
        }
    }

    fn verify(
        &self,
        _header: &Header,
        commitments: &Commitments,
        pieces: &[Arc<Chunk>],
        weights: &mut Weights,
    ) -> Verdicts {
        let chunks: Vec<&Chunk> = pieces.iter().map(Arc::as_ref).collect();
        self.generators.verify(&commitments.table, &chunks, weights)
    }

    fn accept(&self, decoder: &mut Decoder, piece: Arc<Chunk>) -> bool {
        let generation = &mut decoder.generations[usize::from(piece.generation)];
        if generation.source.is_some() {
            return false;
        }
        let generation = Arc::make_mut(generation);
        if !generation.rows.insert(&piece.coefficients) {
            return false;
        }
        generation.chunks.push(piece);
        true
    }

    fn rank(&self, decoder: &Decoder, generation: u16) -> u16 {
        let generation = &decoder.generations[usize::from(generation)];
        match &generation.source {
            Some(source) => source.len() as u16,
            None => generation.rows.rank() as u16,
        }
    }

    fn is_full(&self, decoder: &Decoder) -> bool {
        decoder
            .generations
            .iter()
            .all(|generation| generation.is_full())
    }

    fn draw<R: Rng + ?Sized>(
        &self,
        decoder: &Decoder,
        selector: u16,
        distribution: Distribution,
        rng: &mut R,
    ) -> Option<Arc<Chunk>> {
        let backend = self.backend();
        let generation = decoder.generations.get(usize::from(selector))?;
        let (coefficients, data) = if let Some(source) = &generation.source {
            let factors = draw_source(source.len(), decoder.mode, distribution, rng);
            let rows: Vec<&Row> = source.iter().collect();
            (
                Row::from_scalars(&factors),
                backend.combine(&factors, &rows),
            )
        } else {
            let rows: Vec<&Row> = generation.chunks.iter().map(|c| &c.coefficients).collect();
            if rows.is_empty() {
                return None;
            }
            let (factors, coefficients) = draw_relay(&rows, decoder.mode, backend, rng);
            let data: Vec<&Row> = generation.chunks.iter().map(|chunk| &chunk.data).collect();
            (coefficients, factors.combine(backend, &data))
        };
        Some(Arc::new(Chunk {
            generation: selector,
            hop: 1,
            sender_rank: self.rank(decoder, selector),
            coefficients,
            data,
        }))
    }

    fn decode(
        &self,
        header: &Header,
        decoder: &Decoder,
    ) -> Result<(Vec<u8>, Decoder), DecodeError> {
        let mut inverses = Vec::with_capacity(decoder.generations.len());
        for (g, generation) in (0..).zip(&decoder.generations) {
            inverses.push(match &generation.source {
                Some(_) => Vec::new(),
                None => {
                    let rows = &generation.rows;
                    rows.inverse().ok_or(DecodeError::Incomplete {
                        generation: g,
                        rank: rows.rank() as u16,
                        needed: header.chunks,
                    })?
                }
            });
        }
        let mut joiner = Joiner::new(header);
        let mut source = Vec::with_capacity(inverses.len());
        for (generation, inverse) in decoder.generations.iter().zip(inverses) {
            if let Some(rows) = &generation.source {
                joiner.take(rows);
                source.push(rows.to_vec());
                continue;
            }
            let factors: Vec<&[Scalar]> = inverse.iter().map(Vec::as_slice).collect();
            let data: Vec<&Row> = generation.chunks.iter().map(|chunk| &chunk.data).collect();
            let zero = |_| Row::zero(header.unit as usize);
            let mut rows: Vec<Row> = (0..header.chunks).map(zero).collect();
            self.backend()
                .combine_and_join(&factors, &data, &mut rows, Some(&mut joiner));
            source.push(rows);
        }
        let payload = joiner.finish(header, source.iter().flatten());
        let payload = payload.map_err(|invalid: InvalidSource| DecodeError::from(invalid))?;
        Ok((payload, self.complete(header, source)))
    }
}

#[cfg(test)]
mod tests;
