use super::*;
use crate::header::Id;
use crate::known;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

const MAX: u32 = 1 << 20;
const SUBJECT: Subject = Subject {
    kind: 1,
    slot: 7,
    source: 3,
    index: 0,
};

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * i + i / 7) as u8).collect()
}

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(1)
}

fn weights() -> Weights {
    Weights::new(&[0; 32], &Id([0; 32]), 0)
}

fn draw(decoder: &ShardDecoder, index: u16) -> Shard {
    Rs::new(MAX)
        .draw(decoder, index, Distribution::Fresh, &mut rng())
        .unwrap()
}

/// The construction of the code is part of the wire format: it must not change with the library.
#[test]
fn the_code_is_pinned() {
    let code = Rs::new(MAX);
    let cut = Cut {
        chunks: 4,
        shards_total: 16,
        generations: 1,
    };
    let source = code
        .publish(SUBJECT, &known::counting_payload(), cut)
        .unwrap();
    assert_eq!(source.header.unit, 64);
    let mut hash = Sha256::new();
    for index in 0..16 {
        hash.update(&draw(&source.decoder, index).body.bytes);
    }
    let digest: [u8; 32] = hash.finalize().into();
    assert_eq!(
        hex::encode(digest),
        hex::encode(known::hash("rs_shards_sha256"))
    );
    let root = hex::encode(source.header.commit_root);
    assert_eq!(root, hex::encode(known::hash("rs_commit_root")));
}

#[test]
fn any_k_shards_decode() {
    let code = Rs::new(MAX);
    for len in [1, 63, 64, 65, 1000, 4096] {
        let payload = payload(len);
        let cut = Cut {
            chunks: 3,
            shards_total: 8,
            generations: 1,
        };
        let source = code.publish(SUBJECT, &payload, cut).unwrap();
        for subset in (0_u32..256).filter(|subset| subset.count_ones() == 3) {
            let mut decoder = code.decoder(&source.header);
            for index in (0..8).filter(|i| subset >> i & 1 == 1) {
                assert!(!code.is_full(&decoder));
                let mut bytes = Vec::new();
                code.encode_piece(&source.header, &draw(&source.decoder, index), &mut bytes);
                assert_eq!(
                    bytes.len(),
                    code.piece_bytes(&source.header, &draw(&source.decoder, 0))
                );
                let shard = code.decode_piece(&source.header, &bytes).unwrap();
                let verdicts = code.verify(
                    &source.header,
                    &(),
                    std::slice::from_ref(&shard),
                    &mut weights(),
                );
                assert_eq!(verdicts.valid, [true]);
                assert_eq!(code.offer(&mut decoder, &shard), PieceStatus::Innovative);
                assert_eq!(code.offer(&mut decoder, &shard), PieceStatus::Held);
                assert!(code.accept(&mut decoder, shard.clone()));
                assert!(!code.accept(&mut decoder, shard));
            }
            let (decoded, complete) = code.decode(&source.header, &decoder).unwrap();
            assert_eq!(decoded, payload);
            assert_eq!(complete.held().count(), 8);
            assert_eq!(draw(&complete, 7).body, draw(&source.decoder, 7).body);
        }
    }
}

#[test]
fn changed_shards_and_paths_are_invalid() {
    let code = Rs::new(MAX);
    let source = code.publish(SUBJECT, &payload(700), Cut::rs(3)).unwrap();
    let header = &source.header;
    let mut bytes = Vec::new();
    code.encode_piece(header, &draw(&source.decoder, 5), &mut bytes);
    // Hop and held count are not authenticated, everything else is.
    for at in (0..bytes.len()).filter(|at| !(2..5).contains(at)) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let valid = code
            .decode_piece(header, &changed)
            .map(|shard| code.verify(header, &(), &[shard], &mut weights()).valid[0]);
        assert!(
            matches!(valid, Ok(false) | Err(PieceError::Shard { .. })),
            "byte {at}"
        );
    }
    assert!(matches!(
        code.decode_piece(header, &bytes[1..]),
        Err(PieceError::Length { .. })
    ));
    assert!(matches!(
        code.decode_piece(header, &[]),
        Err(PieceError::Length { .. })
    ));
    bytes[..2].copy_from_slice(&16_u16.to_le_bytes());
    assert_eq!(
        code.decode_piece(header, &bytes).unwrap_err(),
        PieceError::Shard {
            found: 16,
            shards_total: 16
        }
    );
}

/// Shards that are not a codeword under an honest tree, which only a malicious source can make.
fn non_codeword(header: &mut Header, payload: &[u8]) -> ShardDecoder {
    let mut padded = payload.to_vec();
    padded.resize(usize::from(header.chunks) * header.unit as usize, 0);
    let mut shards = encode(header, &padded);
    for shard in &mut shards[usize::from(header.chunks)..] {
        shard[0] ^= 1;
    }
    let tree = tree(&shards);
    header.commit_root = tree.root();
    complete(header, shards, &tree)
}

/// Trap 13: whichever k shards of a non-codeword arrive, the source is found invalid. Without the check, different
/// nodes would deliver different bytes, as the second half shows.
#[test]
fn trap_13_a_root_over_a_non_codeword_is_found_by_every_subset() {
    let code = Rs::new(MAX);
    let cut = Cut {
        chunks: 2,
        shards_total: 8,
        generations: 1,
    };
    let payload = payload(120);
    let mut header = code.publish(SUBJECT, &payload, cut).unwrap().header;
    let evil = non_codeword(&mut header, &payload);
    let mut restored = Vec::new();
    for subset in (0_u32..256).filter(|subset| subset.count_ones() == 2) {
        let mut decoder = code.decoder(&header);
        for index in (0..8).filter(|i| subset >> i & 1 == 1) {
            let shard = draw(&evil, index);
            assert!(
                code.verify(&header, &(), std::slice::from_ref(&shard), &mut weights())
                    .valid[0]
            );
            code.accept(&mut decoder, shard);
        }
        restored.push(restore(&header, &decoder));
        assert_eq!(
            code.decode(&header, &decoder).unwrap_err(),
            DecodeError::InvalidSource(InvalidSource::NotACodeword)
        );
    }
    restored.sort();
    restored.dedup();
    assert!(restored.len() > 1, "the subsets disagree about the payload");
}

#[test]
fn padding_and_hash_are_the_sources_business() {
    let code = Rs::new(MAX);
    let source = code.publish(SUBJECT, &payload(100), Cut::rs(2)).unwrap();
    let mut header = source.header.clone();
    header.payload_hash[0] ^= 1;
    assert_eq!(
        code.decode(&header, &source.decoder).unwrap_err(),
        DecodeError::InvalidSource(InvalidSource::PayloadHash)
    );
    let mut header = source.header.clone();
    header.len -= 1;
    assert_eq!(
        code.decode(&header, &source.decoder).unwrap_err(),
        DecodeError::InvalidSource(InvalidSource::Padding)
    );
    let empty = code.decoder(&source.header);
    let incomplete = DecodeError::Incomplete {
        generation: 0,
        rank: 0,
        needed: 2,
    };
    assert_eq!(code.decode(&source.header, &empty).unwrap_err(), incomplete);
}
