//! The random linear code without data, for simulations of many nodes.

mod generation;

use std::fmt;
use std::sync::{Arc, OnceLock};

use rand_chacha::rand_core::Rng;

use crate::chunk::CHUNK_FIXED_BYTES;
use crate::coding::{Coding, Cut, PieceStatus, Published};
use crate::coefficients::{Distribution, Mode, WIDTHS};
use crate::error::{DecodeError, InvalidSource, PieceError};
use crate::header::{Header, HeaderError, Strategy, Subject, payload_hash};
use crate::model::{MODULUS, WIDTH_MAX, combine};
use crate::pedersen::{Verdicts, Weights};
use generation::Generation;

/// The random linear code of [`Ristretto`](crate::Ristretto) with rows modulo 65521 and no data.
///
/// Ranks are exact for this field: a chunk is accidentally dependent once in 65521 at the last dimension, where full
/// scalars practically never are and small ones once in 256. Bodies have the sizes of the real code, with coefficient
/// widths that grow likewise. It authenticates nothing and its payload decodes to zeros: it is for simulations only and
/// is never accepted from a network.
#[derive(Clone)]
pub struct Model16 {
    payload_bytes_max: u32,
    /// The longest payload, created when first recovered: otherwise ten thousand nodes would spend all their time
    /// filling 16 MB with zeros each.
    zeros: Arc<OnceLock<Arc<[u8]>>>,
}

/// A modelled chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChunk {
    /// Generation.
    pub generation: u16,
    /// Transmissions so far.
    pub hop: u8,
    /// Rank of the sender.
    pub sender_rank: u16,
    /// The outcome of verification: a simulated adversary sends `false`.
    pub valid: bool,
    bits: u8,
    row: Arc<[u16]>,
}

/// A modelled list of commitments: only its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelCommitments {
    bytes: usize,
}

/// The ranks of a modelled broadcast.
#[derive(Clone, Debug)]
pub struct ModelDecoder {
    mode: Mode,
    chunks: u16,
    generations: Vec<Generation>,
}

/// Bits of a uniform scalar.
const FULL_BITS: u8 = 253;
/// Bits of the widest small coefficient.
const SMALL_BITS_MAX: u8 = 64;

impl ModelChunk {
    fn width(&self) -> u8 {
        let bytes = self.bits.div_ceil(8);
        WIDTHS
            .into_iter()
            .find(|&width| width >= bytes)
            .unwrap_or(32)
    }
}

impl Model16 {
    /// Creates the code for payloads up to `payload_bytes_max`.
    pub fn new(payload_bytes_max: u32) -> Model16 {
        Model16 {
            payload_bytes_max,
            zeros: Arc::default(),
        }
    }

    /// Performs the checks of decoding, and returns a decoder that can send like the source's.
    fn solve(&self, header: &Header, decoder: &ModelDecoder) -> Result<ModelDecoder, DecodeError> {
        for (g, generation) in (0..).zip(&decoder.generations) {
            if !generation.is_full() {
                let rank = generation.rank() as u16;
                return Err(DecodeError::Incomplete {
                    generation: g,
                    rank,
                    needed: header.chunks,
                });
            }
        }
        if header.commit_root != [0; 32] {
            // Modelled headers have no root; a real one means that the codes were mixed up.
            return Err(InvalidSource::NotACodeword.into());
        }
        Ok(Model16::complete(header, true))
    }

    fn complete(header: &Header, source: bool) -> ModelDecoder {
        ModelDecoder {
            mode: Mode::of(header.chunks, header.unit),
            chunks: header.chunks,
            generations: (0..header.generations)
                .map(|_| Generation::new(header.chunks, source))
                .collect(),
        }
    }
}

/// Row, validity and the fixed part must fit, which real sizes always allow, except for toy headers.
fn body_bytes(header: &Header, width: u8) -> usize {
    let chunks = usize::from(header.chunks);
    let real = CHUNK_FIXED_BYTES + chunks * usize::from(width) + 32 * header.unit as usize;
    real.max(CHUNK_FIXED_BYTES + 1 + 2 * chunks)
}

/// Bits of a recoding with small factors, if a relay with rows of these sizes makes one: computed over the rows that
/// are not long, if those are at least half of all.
fn small_recoding(widths: &[u8]) -> Option<u8> {
    let short = widths.iter().filter(|&&bits| bits <= SMALL_BITS_MAX);
    let count = short.clone().count();
    // A factor has 8 bits, and a sum has additional bits for its number of terms; a single row is forwarded unchanged.
    let growth = match count {
        1 => 0,
        _ => 8 + count.next_power_of_two().trailing_zeros() as u8,
    };
    let bits = short.max()?.saturating_add(growth);
    (2 * count >= widths.len() && bits <= SMALL_BITS_MAX).then_some(bits)
}

/// Elements of which at least one is not zero; those beyond `len` are.
fn draw_row(len: usize, rng: &mut (impl Rng + ?Sized)) -> [u16; WIDTH_MAX] {
    let mut row = [0; WIDTH_MAX];
    loop {
        for element in &mut row[..len] {
            *element = (rng.next_u32() % MODULUS) as u16;
        }
        if row[..len].iter().any(|&element| element != 0) {
            return row;
        }
    }
}

impl Coding for Model16 {
    type Piece = ModelChunk;
    type Commitments = ModelCommitments;
    type Decoder = ModelDecoder;

    fn strategy(&self) -> Strategy {
        Strategy::Rlnc
    }

    fn publish(
        &self,
        subject: Subject,
        payload: &[u8],
        cut: Cut,
    ) -> Result<Published<Model16>, HeaderError> {
        let max = self.payload_bytes_max;
        let mut header = Header::rlnc(subject, payload.len(), cut.chunks, cut.generations, max)?;
        header.payload_hash = payload_hash(payload);
        let commitments = ModelCommitments {
            bytes: self.commitments_bytes(&header),
        };
        let commitments = vec![commitments; usize::from(header.generations)];
        let decoder = Model16::complete(&header, true);
        Ok(Published {
            header,
            commitments,
            decoder,
        })
    }

    fn payload_bytes_max(&self) -> u32 {
        self.payload_bytes_max
    }

    fn encode_commitments(&self, commitments: &ModelCommitments, out: &mut Vec<u8>) {
        out.resize(out.len() + commitments.bytes, 0);
    }

    fn read_commitments(
        &self,
        _header: &Header,
        _generation: u16,
        bytes: &[u8],
    ) -> Result<ModelCommitments, PieceError> {
        Ok(ModelCommitments { bytes: bytes.len() })
    }

    fn piece_bytes(&self, header: &Header, piece: &ModelChunk) -> usize {
        body_bytes(header, piece.width())
    }

    fn encode_piece(&self, header: &Header, piece: &ModelChunk, out: &mut Vec<u8>) {
        let end = out.len() + self.piece_bytes(header, piece);
        out.extend_from_slice(&piece.generation.to_le_bytes());
        out.push(piece.hop);
        out.extend_from_slice(&piece.sender_rank.to_le_bytes());
        out.push(piece.bits);
        out.push(u8::from(piece.valid));
        for element in piece.row.iter() {
            out.extend_from_slice(&element.to_le_bytes());
        }
        out.resize(end, 0);
    }

    fn decode_piece(&self, header: &Header, body: &[u8]) -> Result<ModelChunk, PieceError> {
        let least = body_bytes(header, 1);
        let Some(([g0, g1, hop, r0, r1, bits, valid], rest)) = body.split_first_chunk::<7>() else {
            return Err(PieceError::Length {
                found: body.len(),
                expected: least,
            });
        };
        let elements = rest.chunks_exact(2).take(usize::from(header.chunks));
        let row: Vec<u16> = elements
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .collect();
        let piece = ModelChunk {
            generation: u16::from_le_bytes([*g0, *g1]),
            hop: *hop,
            sender_rank: u16::from_le_bytes([*r0, *r1]),
            valid: *valid == 1,
            bits: *bits,
            row: row.into(),
        };
        if *bits == 0 || *bits > FULL_BITS {
            return Err(PieceError::Width(*bits));
        }
        let expected = self.piece_bytes(header, &piece);
        if body.len() != expected {
            return Err(PieceError::Length {
                found: body.len(),
                expected,
            });
        }
        let generations = header.generations;
        if piece.generation >= generations {
            return Err(PieceError::Generation {
                found: piece.generation,
                generations,
            });
        }
        if let Some(index) = piece.row.iter().position(|&x| u32::from(x) >= MODULUS) {
            return Err(PieceError::NonCanonicalScalar { index });
        }
        if piece.row.iter().all(|&x| x == 0) {
            return Err(PieceError::ZeroRow);
        }
        Ok(piece)
    }

    fn generation(&self, piece: &ModelChunk) -> u16 {
        piece.generation
    }

    fn hop_and_rank(&self, piece: &ModelChunk) -> (u8, u16) {
        (piece.hop, piece.sender_rank)
    }

    fn set_hop_and_rank(&self, piece: &mut ModelChunk, hop: u8, rank: u16) {
        (piece.hop, piece.sender_rank) = (hop, rank);
    }

    fn decoder(&self, header: &Header) -> ModelDecoder {
        Model16::complete(header, false)
    }

    fn offer(&self, decoder: &mut ModelDecoder, piece: &ModelChunk) -> PieceStatus {
        let generation = &mut decoder.generations[usize::from(piece.generation)];
        match generation.is_full() {
            true => PieceStatus::Full,
            false => generation.offer(&piece.row),
        }
    }

    fn withdraw(&self, decoder: &mut ModelDecoder) {
        for generation in &mut decoder.generations {
            generation.withdraw();
        }
    }

    fn verify(
        &self,
        _header: &Header,
        _commitments: &ModelCommitments,
        pieces: &[ModelChunk],
        _weights: &mut Weights,
    ) -> Verdicts {
        let valid: Vec<bool> = pieces.iter().map(|piece| piece.valid).collect();
        // As many sums as bisection takes.
        let sums = if pieces.is_empty() {
            0
        } else {
            1 + splits(&valid)
        };
        Verdicts { valid, sums }
    }

    fn accept(&self, decoder: &mut ModelDecoder, piece: ModelChunk) -> bool {
        let generation = &mut decoder.generations[usize::from(piece.generation)];
        !generation.source && generation.accept(&piece.row, piece.bits)
    }

    fn rank(&self, decoder: &ModelDecoder, generation: u16) -> u16 {
        let generation = &decoder.generations[usize::from(generation)];
        if generation.source {
            decoder.chunks
        } else {
            generation.rank() as u16
        }
    }

    fn is_full(&self, decoder: &ModelDecoder) -> bool {
        decoder.generations.iter().all(Generation::is_full)
    }

    fn draw<R: Rng + ?Sized>(
        &self,
        decoder: &ModelDecoder,
        selector: u16,
        distribution: Distribution,
        rng: &mut R,
    ) -> Option<ModelChunk> {
        let generation = decoder.generations.get(usize::from(selector))?;
        let full = decoder.mode == Mode::Full;
        let rank = self.rank(decoder, selector);
        let (row, bits) = if generation.source {
            let bits = match distribution {
                Distribution::Fresh => 8,
                Distribution::Blend => 18,
            };
            let chunks = usize::from(decoder.chunks);
            (
                draw_row(chunks, rng)[..chunks].into(),
                if full { FULL_BITS } else { bits },
            )
        } else {
            let chunks = usize::from(decoder.chunks);
            match *generation.bits {
                [] => return None,
                [bits] if !full => (generation.rows[..chunks].into(), bits),
                ref widths => {
                    let small = if full { None } else { small_recoding(widths) };
                    // Long rows are left out as in the real code.
                    let taken = |bits: u8| small.is_none() || bits <= SMALL_BITS_MAX;
                    let count = widths.iter().filter(|&&bits| taken(bits)).count();
                    let mut drawn = draw_row(count, rng).into_iter();
                    let factors: Vec<u16> = widths
                        .iter()
                        .map(|&bits| if taken(bits) { drawn.next() } else { None })
                        .map(Option::unwrap_or_default)
                        .collect();
                    let row = combine(&factors, generation.rows.chunks_exact(chunks));
                    (row[..chunks].into(), small.unwrap_or(FULL_BITS))
                }
            }
        };
        Some(ModelChunk {
            generation: selector,
            hop: 1,
            sender_rank: rank,
            valid: true,
            bits,
            row,
        })
    }

    fn decode(
        &self,
        header: &Header,
        decoder: &ModelDecoder,
    ) -> Result<(Vec<u8>, ModelDecoder), DecodeError> {
        let complete = self.solve(header, decoder)?;
        Ok((vec![0; header.len as usize], complete))
    }

    fn recover(
        &self,
        header: &Header,
        decoder: &ModelDecoder,
    ) -> Result<(Arc<[u8]>, ModelDecoder), DecodeError> {
        if header.len != self.payload_bytes_max {
            let (payload, complete) = self.decode(header, decoder)?;
            return Ok((payload.into(), complete));
        }
        let complete = self.solve(header, decoder)?;
        let zeros = || vec![0; header.len as usize].into();
        Ok((self.zeros.get_or_init(zeros).clone(), complete))
    }
}

impl fmt::Debug for Model16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Model16({} bytes at most)", self.payload_bytes_max)
    }
}

/// Number of sums beyond the first that bisection takes for these verdicts.
fn splits(valid: &[bool]) -> usize {
    if valid.len() < 2 || valid.iter().all(|&v| v) {
        return 0;
    }
    let (left, right) = valid.split_at(valid.len() / 2);
    1 + splits(left) + splits(right)
}

#[cfg(test)]
mod tests;
