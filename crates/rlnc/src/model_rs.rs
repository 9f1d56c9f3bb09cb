//! Reed-Solomon shards without bytes, for simulations of many nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rand_chacha::rand_core::Rng;

use crate::coding::{Coding, Cut, PieceStatus, Published};
use crate::coefficients::Distribution;
use crate::error::{DecodeError, InvalidSource, PieceError};
use crate::header::{Header, HeaderError, Strategy, Subject, payload_hash};
use crate::pedersen::{Verdicts, Weights};
use crate::rs::shard_bytes;

/// Maximum number of lengths for which payloads are kept; beyond it, all are created anew.
const LENGTHS_MAX: usize = 256;

/// The code of [`Rs`](crate::Rs) as indices and sizes: any k distinct shards of K are the payload.
///
/// This is all that the real code contributes to a simulation, so orders of events, bytes and ranks equal those of the
/// real code. It authenticates nothing and its payload decodes to zeros: it is for simulations only and is never
/// accepted from a network.
#[derive(Clone)]
pub struct ModelRs {
    payload_bytes_max: u32,
    /// Payloads by length, each created when first recovered and shared by all nodes.
    zeros: Arc<Mutex<BTreeMap<u32, Arc<[u8]>>>>,
}

/// A modelled shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelShard {
    /// Index below K.
    pub index: u16,
    /// Transmissions so far.
    pub hop: u8,
    /// Number of shards held by the sender.
    pub held: u16,
    /// The outcome of verification: a simulated adversary sends `false`.
    pub valid: bool,
}

/// The indices held by a node.
#[derive(Clone, Debug)]
pub struct ModelShards {
    needed: u16,
    held: u16,
    /// One bit per shard: those held, and those held or waiting.
    shards: Box<[u64]>,
    waiting: Box<[u64]>,
}

impl ModelShards {
    fn new(header: &Header) -> ModelShards {
        let words = usize::from(header.shards_total).div_ceil(64);
        ModelShards {
            needed: header.chunks,
            held: 0,
            shards: vec![0; words].into(),
            waiting: vec![0; words].into(),
        }
    }

    fn complete(header: &Header) -> ModelShards {
        let mut decoder = ModelShards::new(header);
        for index in 0..header.shards_total {
            insert(&mut decoder.shards, index);
        }
        decoder.waiting.clone_from(&decoder.shards);
        decoder.held = header.shards_total;
        decoder
    }
}

fn contains(bits: &[u64], index: u16) -> bool {
    bits[usize::from(index) / 64] >> (index % 64) & 1 == 1
}

fn insert(bits: &mut [u64], index: u16) {
    bits[usize::from(index) / 64] |= 1 << (index % 64);
}

impl ModelRs {
    /// Creates the code for payloads up to `payload_bytes_max`.
    pub fn new(payload_bytes_max: u32) -> ModelRs {
        ModelRs {
            payload_bytes_max,
            zeros: Arc::default(),
        }
    }

    /// Returns the payload of a length.
    fn payload(&self, len: u32) -> Arc<[u8]> {
        // Nothing under the lock can panic.
        let mut zeros = self.zeros.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = zeros.get(&len) {
            return known.clone();
        }
        if zeros.len() >= LENGTHS_MAX {
            zeros.clear();
        }
        let payload: Arc<[u8]> = vec![0; len as usize].into();
        zeros.insert(len, payload.clone());
        payload
    }

    /// Performs the checks of decoding.
    fn solve(header: &Header, decoder: &ModelShards) -> Result<ModelShards, DecodeError> {
        if decoder.held < decoder.needed {
            return Err(DecodeError::Incomplete {
                generation: 0,
                rank: decoder.held,
                needed: decoder.needed,
            });
        }
        if header.commit_root != [0; 32] {
            // Modelled headers have no root; one marks a source that did not commit to a codeword.
            return Err(InvalidSource::NotACodeword.into());
        }
        Ok(ModelShards::complete(header))
    }
}

impl Coding for ModelRs {
    type Piece = ModelShard;
    type Commitments = ();
    type Decoder = ModelShards;

    fn strategy(&self) -> Strategy {
        Strategy::Rs
    }

    fn publish(
        &self,
        subject: Subject,
        payload: &[u8],
        cut: Cut,
    ) -> Result<Published<ModelRs>, HeaderError> {
        let max = self.payload_bytes_max;
        let (data, total) = (cut.chunks, cut.shards_total);
        let mut header = Header::rs(subject, payload.len(), data, total, max)?;
        header.payload_hash = payload_hash(payload);
        let decoder = ModelShards::complete(&header);
        Ok(Published {
            header,
            commitments: vec![()],
            decoder,
        })
    }

    fn payload_bytes_max(&self) -> u32 {
        self.payload_bytes_max
    }

    fn encode_commitments(&self, _commitments: &(), _out: &mut Vec<u8>) {}

    fn read_commitments(&self, _header: &Header, _: u16, _bytes: &[u8]) -> Result<(), PieceError> {
        Ok(())
    }

    fn piece_bytes(&self, header: &Header, _piece: &ModelShard) -> usize {
        shard_bytes(header)
    }

    /// A validity flag, then zeros, in place of path and bytes; a shard has at least 64 bytes.
    fn encode_piece(&self, header: &Header, piece: &ModelShard, out: &mut Vec<u8>) {
        let end = out.len() + self.piece_bytes(header, piece);
        out.extend_from_slice(&piece.index.to_le_bytes());
        out.push(piece.hop);
        out.extend_from_slice(&piece.held.to_le_bytes());
        out.push(u8::from(piece.valid));
        out.resize(end, 0);
    }

    fn decode_piece(&self, header: &Header, body: &[u8]) -> Result<ModelShard, PieceError> {
        let expected = shard_bytes(header);
        let wrong_length = PieceError::Length {
            found: body.len(),
            expected,
        };
        let Some([i0, i1, hop, h0, h1, valid]) = body.first_chunk::<6>() else {
            return Err(wrong_length);
        };
        if body.len() != expected {
            return Err(wrong_length);
        }
        let index = u16::from_le_bytes([*i0, *i1]);
        let shards_total = header.shards_total;
        if index >= shards_total {
            return Err(PieceError::Shard {
                found: index,
                shards_total,
            });
        }
        Ok(ModelShard {
            index,
            hop: *hop,
            held: u16::from_le_bytes([*h0, *h1]),
            valid: *valid == 1,
        })
    }

    fn shard(&self, piece: &ModelShard) -> Option<u16> {
        Some(piece.index)
    }

    fn hop_and_rank(&self, piece: &ModelShard) -> (u8, u16) {
        (piece.hop, piece.held)
    }

    fn set_hop_and_rank(&self, piece: &mut ModelShard, hop: u8, rank: u16) {
        (piece.hop, piece.held) = (hop, rank);
    }

    fn decoder(&self, header: &Header) -> ModelShards {
        ModelShards::new(header)
    }

    fn offer(&self, decoder: &mut ModelShards, piece: &ModelShard) -> PieceStatus {
        if decoder.held >= decoder.needed {
            PieceStatus::Full
        } else if contains(&decoder.shards, piece.index) {
            PieceStatus::Dependent
        } else if contains(&decoder.waiting, piece.index) {
            PieceStatus::Held
        } else {
            insert(&mut decoder.waiting, piece.index);
            PieceStatus::Innovative
        }
    }

    fn withdraw(&self, decoder: &mut ModelShards) {
        decoder.waiting.clone_from(&decoder.shards);
    }

    fn verify(
        &self,
        _header: &Header,
        (): &(),
        pieces: &[ModelShard],
        _weights: &mut Weights,
    ) -> Verdicts {
        Verdicts {
            valid: pieces.iter().map(|piece| piece.valid).collect(),
            sums: 0,
        }
    }

    fn accept(&self, decoder: &mut ModelShards, piece: ModelShard) -> bool {
        if contains(&decoder.shards, piece.index) {
            return false;
        }
        insert(&mut decoder.waiting, piece.index);
        insert(&mut decoder.shards, piece.index);
        decoder.held += 1;
        decoder.held <= decoder.needed
    }

    fn rank(&self, decoder: &ModelShards, _generation: u16) -> u16 {
        decoder.held.min(decoder.needed)
    }

    fn is_full(&self, decoder: &ModelShards) -> bool {
        decoder.held >= decoder.needed
    }

    fn draw<R: Rng + ?Sized>(
        &self,
        decoder: &ModelShards,
        selector: u16,
        _law: Distribution,
        _rng: &mut R,
    ) -> Option<ModelShard> {
        let there = usize::from(selector) < 64 * decoder.shards.len();
        (there && contains(&decoder.shards, selector)).then(|| ModelShard {
            index: selector,
            hop: 1,
            held: self.rank(decoder, 0),
            valid: true,
        })
    }

    fn decode(
        &self,
        header: &Header,
        decoder: &ModelShards,
    ) -> Result<(Vec<u8>, ModelShards), DecodeError> {
        let complete = ModelRs::solve(header, decoder)?;
        Ok((vec![0; header.len as usize], complete))
    }

    fn recover(
        &self,
        header: &Header,
        decoder: &ModelShards,
    ) -> Result<(Arc<[u8]>, ModelShards), DecodeError> {
        let complete = ModelRs::solve(header, decoder)?;
        Ok((self.payload(header.len), complete))
    }
}

impl fmt::Debug for ModelRs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelRs({} bytes at most)", self.payload_bytes_max)
    }
}

#[cfg(test)]
mod tests;
