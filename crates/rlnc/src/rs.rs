//! Reed-Solomon shards over GF(2^16) under a Merkle root.

use std::sync::Arc;

use rand_chacha::rand_core::Rng;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use crate::coding::{Coding, Cut, PieceStatus, Published};
use crate::coefficients::Distribution;
use crate::error::{DecodeError, InvalidSource, PieceError};
use crate::header::{Header, HeaderError, Strategy, Subject, payload_hash};
use crate::merkle::{Hash, Tree, climb, leaf, path_len};
use crate::payload;
use crate::pedersen::{Verdicts, Weights};

/// Bytes before the Merkle path: index, hop, shards held by the sender.
pub(crate) const SHARD_FIXED_BYTES: usize = 5;

/// Reed-Solomon with a Merkle root: any k of K shards decode, relays forward shards unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Rs {
    payload_bytes_max: u32,
}

/// A shard with its Merkle path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Index below K.
    pub index: u16,
    /// Transmissions so far, saturating; not authenticated.
    pub hop: u8,
    /// Number of shards held by the sender; not authenticated.
    pub held: u16,
    body: Arc<Body>,
}

#[derive(Debug, PartialEq, Eq)]
struct Body {
    path: Vec<Hash>,
    bytes: Vec<u8>,
}

/// The shards held by a node.
#[derive(Clone, Debug)]
pub struct ShardDecoder {
    needed: u16,
    shards: Vec<Option<Shard>>,
    waiting: Vec<bool>,
    held: u16,
}

impl Rs {
    /// Creates the code for payloads up to `payload_bytes_max`.
    pub fn new(payload_bytes_max: u32) -> Rs {
        Rs { payload_bytes_max }
    }
}

/// Computes all K shards of a padded payload.
fn encode(header: &Header, padded: &[u8]) -> Vec<Vec<u8>> {
    let (data, bytes) = (usize::from(header.chunks), header.unit as usize);
    let recovery = usize::from(header.shards_total) - data;
    let mut shards: Vec<Vec<u8>> = padded.chunks_exact(bytes).map(<[u8]>::to_vec).collect();
    let mut encoder = ReedSolomonEncoder::new(data, recovery, bytes)
        .expect("a checked header has counts and lengths that the code supports");
    for shard in &shards {
        encoder
            .add_original_shard(shard)
            .expect("k shards of equal length");
    }
    let encoded = encoder.encode().expect("all k shards are there");
    shards.extend(encoded.recovery_iter().map(<[u8]>::to_vec));
    shards
}

fn tree(shards: &[Vec<u8>]) -> Tree {
    Tree::new(
        (0..)
            .zip(shards)
            .map(|(i, shard)| leaf(i, [shard.as_slice()]))
            .collect(),
    )
}

fn complete(header: &Header, shards: Vec<Vec<u8>>, tree: &Tree) -> ShardDecoder {
    let shard = |(index, bytes): (usize, Vec<u8>)| {
        Some(Shard {
            index: index as u16,
            hop: 1,
            held: header.chunks,
            body: Arc::new(Body {
                path: tree.path(index),
                bytes,
            }),
        })
    };
    ShardDecoder {
        needed: header.chunks,
        waiting: vec![true; shards.len()],
        held: header.shards_total,
        shards: shards.into_iter().enumerate().map(shard).collect(),
    }
}

/// Restores the padded payload from any k shards.
fn restore(header: &Header, decoder: &ShardDecoder) -> Vec<u8> {
    let (data, bytes) = (usize::from(header.chunks), header.unit as usize);
    let recovery = usize::from(header.shards_total) - data;
    let mut code = ReedSolomonDecoder::new(data, recovery, bytes)
        .expect("a checked header has counts and lengths that the code supports");
    let mut padded = vec![0; data * bytes];
    for shard in decoder.shards.iter().flatten() {
        let index = usize::from(shard.index);
        let added = if index < data {
            padded[index * bytes..(index + 1) * bytes].copy_from_slice(&shard.body.bytes);
            code.add_original_shard(index, &shard.body.bytes)
        } else {
            code.add_recovery_shard(index - data, &shard.body.bytes)
        };
        added.expect("distinct shards of equal length");
    }
    let restored = code.decode().expect("at least k shards");
    for (index, shard) in restored.restored_original_iter() {
        padded[index * bytes..(index + 1) * bytes].copy_from_slice(shard);
    }
    padded
}

/// Size of a shard with its path in bytes.
pub(crate) fn shard_bytes(header: &Header) -> usize {
    let path = path_len(usize::from(header.shards_total));
    SHARD_FIXED_BYTES + 32 * path + header.unit as usize
}

impl Coding for Rs {
    type Piece = Shard;
    type Commitments = ();
    type Decoder = ShardDecoder;

    fn strategy(&self) -> Strategy {
        Strategy::Rs
    }

    fn publish(
        &self,
        subject: Subject,
        payload: &[u8],
        cut: Cut,
    ) -> Result<Published<Rs>, HeaderError> {
        let max = self.payload_bytes_max;
        let (data, total) = (cut.chunks, cut.shards_total);
        let mut header = Header::rs(subject, payload.len(), data, total, max)?;
        let mut padded = payload.to_vec();
        padded.resize(usize::from(header.chunks) * header.unit as usize, 0);
        let shards = encode(&header, &padded);
        let tree = tree(&shards);
        header.payload_hash = payload_hash(payload);
        header.commit_root = tree.root();
        let decoder = complete(&header, shards, &tree);
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

    fn piece_bytes(&self, header: &Header, _piece: &Shard) -> usize {
        shard_bytes(header)
    }

    fn encode_piece(&self, header: &Header, piece: &Shard, out: &mut Vec<u8>) {
        out.reserve(self.piece_bytes(header, piece));
        out.extend_from_slice(&piece.index.to_le_bytes());
        out.push(piece.hop);
        out.extend_from_slice(&piece.held.to_le_bytes());
        out.extend_from_slice(piece.body.path.as_flattened());
        out.extend_from_slice(&piece.body.bytes);
    }

    fn decode_piece(&self, header: &Header, body: &[u8]) -> Result<Shard, PieceError> {
        let expected = shard_bytes(header);
        let wrong_length = PieceError::Length {
            found: body.len(),
            expected,
        };
        let Some((fixed, rest)) = body.split_first_chunk::<SHARD_FIXED_BYTES>() else {
            return Err(wrong_length);
        };
        if body.len() != expected {
            return Err(wrong_length);
        }
        let [i0, i1, hop, h0, h1] = *fixed;
        let index = u16::from_le_bytes([i0, i1]);
        if index >= header.shards_total {
            let shards_total = header.shards_total;
            return Err(PieceError::Shard {
                found: index,
                shards_total,
            });
        }
        let (path, bytes) = rest.split_at(rest.len() - header.unit as usize);
        let (path, _) = path.as_chunks::<32>();
        Ok(Shard {
            index,
            hop,
            held: u16::from_le_bytes([h0, h1]),
            body: Arc::new(Body {
                path: path.to_vec(),
                bytes: bytes.to_vec(),
            }),
        })
    }

    fn shard(&self, piece: &Shard) -> Option<u16> {
        Some(piece.index)
    }

    fn hop_and_rank(&self, piece: &Shard) -> (u8, u16) {
        (piece.hop, piece.held)
    }

    fn set_hop_and_rank(&self, piece: &mut Shard, hop: u8, rank: u16) {
        (piece.hop, piece.held) = (hop, rank);
    }

    fn decoder(&self, header: &Header) -> ShardDecoder {
        let total = usize::from(header.shards_total);
        ShardDecoder {
            needed: header.chunks,
            shards: vec![None; total],
            waiting: vec![false; total],
            held: 0,
        }
    }

    fn offer(&self, decoder: &mut ShardDecoder, piece: &Shard) -> PieceStatus {
        let index = usize::from(piece.index);
        if decoder.held >= decoder.needed {
            PieceStatus::Full
        } else if decoder.shards[index].is_some() {
            PieceStatus::Dependent
        } else if decoder.waiting[index] {
            PieceStatus::Held
        } else {
            decoder.waiting[index] = true;
            PieceStatus::Innovative
        }
    }

    fn withdraw(&self, decoder: &mut ShardDecoder) {
        decoder.waiting = decoder.shards.iter().map(Option::is_some).collect();
    }

    fn verify(
        &self,
        header: &Header,
        (): &(),
        pieces: &[Shard],
        _weights: &mut Weights,
    ) -> Verdicts {
        let valid = |shard: &Shard| {
            let leaf = leaf(shard.index, [shard.body.bytes.as_slice()]);
            climb(leaf, usize::from(shard.index), &shard.body.path) == header.commit_root
        };
        Verdicts {
            valid: pieces.iter().map(valid).collect(),
            sums: 0,
        }
    }

    fn accept(&self, decoder: &mut ShardDecoder, piece: Shard) -> bool {
        let index = usize::from(piece.index);
        if decoder.shards[index].is_some() {
            return false;
        }
        decoder.waiting[index] = true;
        decoder.shards[index] = Some(piece);
        decoder.held += 1;
        decoder.held <= decoder.needed
    }

    fn rank(&self, decoder: &ShardDecoder, _generation: u16) -> u16 {
        decoder.held.min(decoder.needed)
    }

    fn is_full(&self, decoder: &ShardDecoder) -> bool {
        decoder.held >= decoder.needed
    }

    fn draw<R: Rng + ?Sized>(
        &self,
        decoder: &ShardDecoder,
        selector: u16,
        _law: Distribution,
        _rng: &mut R,
    ) -> Option<Shard> {
        let mut shard = decoder.shards.get(usize::from(selector))?.clone()?;
        (shard.hop, shard.held) = (1, self.rank(decoder, 0));
        Some(shard)
    }

    fn decode(
        &self,
        header: &Header,
        decoder: &ShardDecoder,
    ) -> Result<(Vec<u8>, ShardDecoder), DecodeError> {
        if decoder.held < decoder.needed {
            let needed = decoder.needed;
            return Err(DecodeError::Incomplete {
                generation: 0,
                rank: decoder.held,
                needed,
            });
        }
        let padded = restore(header, decoder);
        // Without this check a source could commit to shards of which different subsets of k give
        // different payloads, and honest nodes would disagree.
        let shards = encode(header, &padded);
        let tree = tree(&shards);
        if tree.root() != header.commit_root {
            return Err(InvalidSource::NotACodeword.into());
        }
        let payload = payload::finish(header, padded).map_err(DecodeError::from)?;
        Ok((payload, complete(header, shards, &tree)))
    }
}

impl ShardDecoder {
    /// The indices of the shards held, in order.
    #[cfg(test)]
    pub(crate) fn held(&self) -> impl Iterator<Item = u16> + '_ {
        self.shards.iter().flatten().map(|shard| shard.index)
    }
}

#[cfg(test)]
mod tests;
