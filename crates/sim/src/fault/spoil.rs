//! How to falsify the pieces and the commitments of each code.

use crate::latency::mix;
use alphorn_broadcast::rlnc::{
    Coding, Hash, Header, Model16, ModelRs, Published, Ristretto, Rs, Scalar,
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// A code whose pieces can be made invalid, and whose sources can commit to something that is not a payload.
pub(crate) trait Spoil: Coding {
    /// Alters the piece so that its verification fails.
    fn spoil(piece: &Self::Piece) -> Self::Piece;

    /// What a source sends to commit to no payload. Every piece verifies, and any node with enough pieces finds
    /// out, whichever they are.
    fn no_payload(&self, published: Published<Self>) -> Published<Self>;
}

/// Modelled headers have no root. In them, a root stands for a commitment to no payload.
fn with_root<C: Coding>(mut published: Published<C>) -> Published<C> {
    published.header.commit_root = [1; 32];
    published
}

impl Spoil for Model16 {
    fn spoil(piece: &Self::Piece) -> Self::Piece {
        let mut piece = piece.clone();
        piece.valid = false;
        piece
    }

    fn no_payload(&self, published: Published<Self>) -> Published<Self> {
        with_root(published)
    }
}

impl Spoil for ModelRs {
    /// Uses the same index as a spoiled shard of the real code, so that it blocks the same shard.
    fn spoil(piece: &Self::Piece) -> Self::Piece {
        let mut piece = *piece;
        piece.index ^= 1;
        piece.valid = false;
        piece
    }

    fn no_payload(&self, published: Published<Self>) -> Published<Self> {
        with_root(published)
    }
}

impl Spoil for Ristretto {
    fn spoil(piece: &Self::Piece) -> Self::Piece {
        let mut chunk = piece.as_ref().clone();
        let other = match chunk.data.get(0).is_zero() {
            true => Scalar::ONE,
            false => Scalar::ZERO,
        };
        chunk.data.set(0, other);
        Arc::new(chunk)
    }

    fn no_payload(&self, mut published: Published<Self>) -> Published<Self> {
        published.header.payload_hash[0] ^= 1;
        published
    }
}

impl Spoil for Rs {
    fn spoil(piece: &Self::Piece) -> Self::Piece {
        let mut shard = piece.clone();
        shard.index ^= 1;
        shard
    }

    fn no_payload(&self, published: Published<Self>) -> Published<Self> {
        no_codeword(self, published.header)
    }
}

/// Shards under a valid Merkle root (broadcast: leaves `0x00, index, shard`, inner nodes `0x01, left, right`) that
/// are not a codeword: different sets of k shards give different payloads.
fn no_codeword(code: &Rs, mut header: Header) -> Published<Rs> {
    let shard = |i: u16| -> Vec<u8> {
        (0..header.unit)
            .map(|at| mix([i.into(), at.into(), 0, 0]) as u8)
            .collect()
    };
    let shards: Vec<(u16, Vec<u8>)> = (0..header.shards_total).map(|i| (i, shard(i))).collect();
    let leaf = |(i, shard): &(u16, Vec<u8>)| -> Hash {
        let mut hash = Sha256::new();
        hash.update([0]);
        hash.update(i.to_le_bytes());
        hash.update(shard);
        hash.finalize().into()
    };
    let inner = |pair: &[Hash]| -> Hash {
        let mut hash = Sha256::new();
        hash.update([1]);
        pair.iter().for_each(|child| hash.update(child));
        hash.finalize().into()
    };
    let mut levels: Vec<Vec<Hash>> = vec![shards.iter().map(leaf).collect()];
    while levels[levels.len() - 1].len() > 1 {
        let below = &levels[levels.len() - 1];
        levels.push(below.chunks(2).map(inner).collect());
    }
    let top = levels.len() - 1;
    header.commit_root = levels[top][0];
    let mut decoder = code.decoder(&header);
    for (i, shard) in shards {
        let mut body = Vec::with_capacity(5 + 32 * top + shard.len());
        body.extend_from_slice(&i.to_le_bytes());
        // Hop and the number of shards held, which a sender sets anew.
        body.extend_from_slice(&[1, 0, 0]);
        // The number of shards is a power of two, so every node below the root has a sibling.
        for (height, level) in levels[..top].iter().enumerate() {
            body.extend_from_slice(&level[usize::from(i) >> height ^ 1]);
        }
        body.extend_from_slice(&shard);
        if let Ok(piece) = code.decode_piece(&header, &body) {
            code.accept(&mut decoder, piece);
        }
    }
    Published {
        header,
        commitments: vec![()],
        decoder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_broadcast::rlnc::{
        Cut, DecodeError, Distribution, InvalidSource, Strategy, Subject, Weights,
    };
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    /// Pieces verify, spoiled ones do not, and any k of them show that there is no payload.
    fn cheats<C: Spoil>(code: &C, cut: Cut) {
        let subject = Subject {
            kind: 1,
            slot: 0,
            source: 0,
            index: 0,
        };
        let payload = vec![0; 3000];
        let published = code.publish(subject, &payload, cut).unwrap();
        let published = code.no_payload(published);
        let header = &published.header;
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        for first in [0, 5] {
            let mut decoder = code.decoder(header);
            let mut next = first;
            while !code.is_full(&decoder) {
                let generation = match code.strategy() {
                    Strategy::Rs => next,
                    Strategy::Rlnc => 0,
                };
                next += 1;
                let drawn = code.draw(
                    &published.decoder,
                    generation,
                    Distribution::Fresh,
                    &mut rng,
                );
                let pieces = [drawn.clone().unwrap(), C::spoil(&drawn.unwrap())];
                let mut weights = Weights::new(&[1; 32], &header.id(&[0; 32]), 1);
                let verdicts =
                    code.verify(header, &published.commitments[0], &pieces, &mut weights);
                assert_eq!(verdicts.valid, [true, false]);
                code.accept(&mut decoder, pieces[0].clone());
            }
            let error = code.decode(header, &decoder).unwrap_err();
            let convicts = matches!(error, DecodeError::InvalidSource(_));
            assert!(convicts, "{error}");
            if code.strategy() == Strategy::Rs {
                let why = DecodeError::InvalidSource(InvalidSource::NotACodeword);
                assert_eq!(error, why);
            }
        }
    }

    #[test]
    fn sources_of_every_code_can_cheat() {
        use alphorn_broadcast::rlnc::Generators;
        use alphorn_exec::Backend;
        cheats(&Model16::new(1 << 16), Cut::rlnc(8));
        cheats(&Rs::new(1 << 16), Cut::rs(8));
        cheats(&ModelRs::new(1 << 16), Cut::rs(8));
        let generators = Generators::new(Backend::Portable, 64);
        cheats(&Ristretto::new(generators, 1 << 16), Cut::rlnc(8));
    }
}
