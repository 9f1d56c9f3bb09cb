use super::*;
use crate::chunk::RawChunk;
use crate::header::Id;
use crate::kernel::Dispatch;
use crate::known;
use crate::model16::Model16;
use proptest::prelude::*;
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

fn code(elements: u32) -> Ristretto {
    Ristretto::new(Generators::new(Backend::Portable, elements), MAX)
}

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn weights(counter: u64) -> Weights {
    Weights::new(&[3; 32], &Id([2; 32]), counter)
}

fn verify(code: &Ristretto, source: &Published<Ristretto>, pieces: &[Arc<Chunk>]) -> Vec<bool> {
    let commitments = &source.commitments[usize::from(pieces[0].generation)];
    code.verify(&source.header, commitments, pieces, &mut weights(0))
        .valid
}

/// Draws, sends over the wire, verifies and accepts until the receiver is complete.
fn transfer(
    code: &Ristretto,
    source: &Published<Ristretto>,
    from: &Decoder,
    to: &mut Decoder,
    rng: &mut ChaCha20Rng,
) {
    for generation in 0..source.header.generations {
        let mut useless = 0;
        while code.rank(to, generation) < code.rank(from, generation) {
            let piece = code
                .draw(from, generation, Distribution::Blend, rng)
                .unwrap();
            let mut bytes = Vec::new();
            code.encode_piece(&source.header, &piece, &mut bytes);
            assert_eq!(bytes.len(), code.piece_bytes(&source.header, &piece));
            let received = code.decode_piece(&source.header, &bytes).unwrap();
            assert_eq!(received, piece);
            assert_eq!(
                verify(code, source, std::slice::from_ref(&received)),
                [true]
            );
            let before = code.rank(to, generation);
            let piece_status = code.offer(to, &received);
            let raised = code.accept(to, received);
            assert_eq!(raised, piece_status == PieceStatus::Innovative);
            assert_eq!(code.rank(to, generation), before + u16::from(raised));
            useless += u32::from(!raised);
            assert!(useless < 20, "small coefficients fail once in 256");
        }
    }
}

#[test]
fn the_known_broadcast() {
    let code = code(4);
    let payload = known::counting_payload();
    let source = code.publish(SUBJECT, &payload, Cut::rlnc(2)).unwrap();
    let header = &source.header;
    assert_eq!((header.unit, header.len, header.generations), (4, 248, 1));
    assert_eq!(header.payload_hash, known::hash("payload_hash"));
    assert_eq!(header.commit_root, known::hash("commit_root"));
    let table = source.commitments[0].table();
    assert_eq!(table.encoded()[0], known::hash("commitment_0"));
    assert_eq!(table.encoded()[1], known::hash("commitment_1"));
    assert_eq!(table.leaf(0), header.commit_root);
    let network_id = [0; 32];
    assert_eq!(
        header.signing_root(&network_id),
        known::hash("signing_root")
    );
    assert_eq!(header.id(&network_id).0, known::hash("signing_root"));

    let factors = [Scalar::from(3_u64), Scalar::from(5_u64)];
    let rows: Vec<Row> = payload
        .chunks(124)
        .map(|bytes| Row::from_payload(bytes, 4))
        .collect();
    let chunk = Arc::new(Chunk {
        generation: 0,
        hop: 1,
        sender_rank: 2,
        coefficients: Row::from_scalars(&factors),
        data: code.backend().combine(&factors, &[&rows[0], &rows[1]]),
    });
    assert_eq!(
        chunk.data.get(0).to_bytes(),
        known::hash("chunk_first_element")
    );
    let mut message = vec![3];
    message.extend_from_slice(&header.id(&network_id).0);
    code.encode_piece(header, &chunk, &mut message);
    assert_eq!(message.len(), 169);
    let digest: [u8; 32] = Sha256::digest(&message).into();
    assert_eq!(digest, known::hash("chunk_message_sha256"));
    assert_eq!(verify(&code, &source, &[chunk]), [true]);
}

#[test]
fn payloads_come_back_through_chains_of_relays() {
    let code = code(64);
    let mut rng = rng(1);
    for (len, cut) in [
        (1, Cut::rlnc(1)),
        (31, Cut::rlnc(2)),
        (3000, Cut::rlnc(10)),
        (3100, Cut::rlnc(64)),
        (
            5000,
            Cut {
                chunks: 5,
                shards_total: 0,
                generations: 3,
            },
        ),
    ] {
        let payload: Vec<u8> = (0..len).map(|i| (i * 7 + i / 256) as u8).collect();
        let source = code.publish(SUBJECT, &payload, cut).unwrap();
        let mut sender = source.decoder.clone();
        for _ in 0..6 {
            let mut relay = code.decoder(&source.header);
            transfer(&code, &source, &sender, &mut relay, &mut rng);
            assert!(code.is_full(&relay));
            let (decoded, complete) = code.decode(&source.header, &relay).unwrap();
            assert_eq!(decoded, payload);
            assert_eq!(code.rank(&complete, 0), source.header.chunks);
            sender = relay;
        }
    }
}

#[test]
fn commitments_round_trip_and_are_checked_against_the_root() {
    let code = code(16);
    let cut = Cut {
        chunks: 3,
        shards_total: 0,
        generations: 5,
    };
    let source = code.publish(SUBJECT, &[9; 7000], cut).unwrap();
    let header = &source.header;
    for (generation, commitments) in (0..).zip(&source.commitments) {
        let mut bytes = Vec::new();
        code.encode_commitments(commitments, &mut bytes);
        assert_eq!(bytes.len(), code.commitments_bytes(header));
        let decoded = code.decode_commitments(header, generation, &bytes).unwrap();
        assert_eq!(decoded.table().encoded(), commitments.table().encoded());
        let wrong = code.decode_commitments(header, (generation + 1) % 5, &bytes);
        assert_eq!(wrong.unwrap_err(), PieceError::Path);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            let error = code
                .decode_commitments(header, generation, &changed)
                .unwrap_err();
            assert_eq!(error, PieceError::Path, "byte {at}");
        }
        assert!(matches!(
            code.decode_commitments(header, generation, &bytes[1..]),
            Err(PieceError::Length { .. })
        ));
    }
    assert!(matches!(
        code.decode_commitments(header, 5, &[]),
        Err(PieceError::Generation {
            found: 5,
            generations: 5
        })
    ));
}

/// Trap 4: the source itself may commit to bytes that are not points; the root is then valid, the list is not.
#[test]
fn trap_04_committed_bytes_that_are_no_points() {
    let code = code(4);
    let mut header = code
        .publish(SUBJECT, &[1; 248], Cut::rlnc(2))
        .unwrap()
        .header;
    let list = [[0xff; 32], [0; 32]];
    header.commit_root = commitment_leaf(0, &list);
    let error = code
        .decode_commitments(&header, 0, list.as_flattened())
        .unwrap_err();
    assert_eq!(error, PieceError::NonCanonicalPoint { index: 0 });
}

/// Trap 3: groups of 32 bytes would be reduced modulo ℓ and changed; 31 bytes never are.
#[test]
fn trap_03_payloads_of_ones_round_trip() {
    let code = code(8);
    let mut rng = rng(2);
    for len in 1..=400 {
        let payload = vec![0xff; len];
        let source = code.publish(SUBJECT, &payload, Cut::rlnc(2)).unwrap();
        let mut relay = code.decoder(&source.header);
        transfer(&code, &source, &source.decoder, &mut relay, &mut rng);
        assert_eq!(
            code.decode(&source.header, &relay).unwrap().0,
            payload,
            "{len} bytes"
        );
    }
}

fn encoded_chunk(code: &Ristretto, source: &Published<Ristretto>) -> Vec<u8> {
    let chunk = code
        .draw(&source.decoder, 0, Distribution::Fresh, &mut rng(3))
        .unwrap();
    let mut bytes = Vec::new();
    code.encode_piece(&source.header, &chunk, &mut bytes);
    bytes
}

/// Trap 4: scalars at and above ℓ are refused while bytes are read, before any sum.
#[test]
fn trap_04_scalars_must_be_canonical() {
    let code = code(4);
    let source = code
        .publish(SUBJECT, &known::counting_payload(), Cut::rlnc(2))
        .unwrap();
    let good = encoded_chunk(&code, &source);
    let order = {
        let mut bytes = (-Scalar::ONE).to_bytes();
        bytes[0] += 1;
        bytes
    };
    let mut above = order;
    above[0] += 1;
    let mut largest = [0xff; 32];
    largest[31] = 0x7f;
    for bad in [order, above, largest, [0xff; 32]] {
        for element in 0..4 {
            let mut bytes = good.clone();
            let at = bytes.len() - 32 * (4 - element);
            bytes[at..at + 32].copy_from_slice(&bad);
            let error = code.decode_piece(&source.header, &bytes).unwrap_err();
            assert_eq!(error, PieceError::NonCanonicalScalar { index: element });
            // The coefficients alone are valid: data is only parsed when needed.
            assert!(RawChunk::decode(&source.header, &bytes).is_ok());
        }
        let mut bytes = good[..5].to_vec();
        bytes.push(32);
        bytes.extend_from_slice(&Scalar::ONE.to_bytes());
        bytes.extend_from_slice(&bad);
        bytes.extend_from_slice(&good[good.len() - 128..]);
        let error = code.decode_piece(&source.header, &bytes).unwrap_err();
        assert_eq!(error, PieceError::NonCanonicalScalar { index: 1 });
    }
}

/// A chunk has only one encoding: coefficients are as narrow as possible.
#[test]
fn coefficients_wider_than_they_need_are_refused() {
    let code = code(4);
    let source = code
        .publish(SUBJECT, &known::counting_payload(), Cut::rlnc(2))
        .unwrap();
    let good = encoded_chunk(&code, &source);
    let data = &good[good.len() - 32 * source.header.unit as usize..];
    let with = |width: usize, first: u64| {
        let mut bytes = good[..5].to_vec();
        bytes.push(width as u8);
        for value in [first, 1] {
            bytes.extend_from_slice(&Scalar::from(value).to_bytes()[..width]);
        }
        bytes.extend_from_slice(data);
        RawChunk::decode(&source.header, &bytes).err()
    };
    assert_eq!(
        (with(1, 7), with(2, 700), with(32, 700)),
        (None, None, Some(PieceError::Width(32)))
    );
    for width in [2, 3, 4, 6, 8, 16, 32] {
        assert_eq!(with(width, 7), Some(PieceError::Width(width as u8)));
    }
}

/// Trap 5: the zero row verifies as 0 = 0 and must be refused before.
#[test]
fn trap_05_the_zero_row_is_refused() {
    let code = code(4);
    let source = code
        .publish(SUBJECT, &known::counting_payload(), Cut::rlnc(2))
        .unwrap();
    for width in crate::coefficients::WIDTHS {
        let mut bytes = vec![0, 0, 1, 2, 0, width];
        bytes.resize(6 + 2 * usize::from(width) + 128, 0);
        let error = code.decode_piece(&source.header, &bytes).unwrap_err();
        assert_eq!(error, PieceError::ZeroRow);
    }
    // Even if one were made by hand, it could not raise a rank.
    let mut decoder = code.decoder(&source.header);
    let zero = Arc::new(Chunk {
        generation: 0,
        hop: 1,
        sender_rank: 1,
        coefficients: Row::zero(2),
        data: Row::zero(4),
    });
    assert_eq!(code.offer(&mut decoder, &zero), PieceStatus::Dependent);
    assert!(!code.accept(&mut decoder, zero));
    assert_eq!(code.rank(&decoder, 0), 0);
}

/// Trap 6: a payload of zeros commits to identities, which are legal.
#[test]
fn trap_06_a_payload_of_zeros_is_delivered() {
    let code = code(8);
    let payload = vec![0; 700];
    let source = code.publish(SUBJECT, &payload, Cut::rlnc(3)).unwrap();
    assert!(
        source.commitments[0]
            .table()
            .encoded()
            .iter()
            .all(|c| *c == [0; 32])
    );
    let mut bytes = Vec::new();
    code.encode_commitments(&source.commitments[0], &mut bytes);
    code.decode_commitments(&source.header, 0, &bytes).unwrap();
    let mut relay = code.decoder(&source.header);
    transfer(&code, &source, &source.decoder, &mut relay, &mut rng(4));
    assert_eq!(code.decode(&source.header, &relay).unwrap().0, payload);
}

/// Trap 11: a bad row that spans an honest one only delays it.
#[test]
fn trap_11_waiting_rows_do_not_block_honest_ones() {
    let code = code(4);
    let source = code
        .publish(SUBJECT, &known::counting_payload(), Cut::rlnc(2))
        .unwrap();
    let mut decoder = code.decoder(&source.header);
    let honest = code
        .draw(&source.decoder, 0, Distribution::Fresh, &mut rng(5))
        .unwrap();
    let mut bad = honest.as_ref().clone();
    bad.data.set(0, bad.data.get(0) + Scalar::ONE);
    let bad = Arc::new(bad);
    assert_eq!(code.offer(&mut decoder, &bad), PieceStatus::Innovative);
    assert_eq!(code.offer(&mut decoder, &honest), PieceStatus::Held);
    assert_eq!(verify(&code, &source, &[bad]), [false]);
    code.withdraw(&mut decoder);
    assert_eq!(code.offer(&mut decoder, &honest), PieceStatus::Innovative);
    assert_eq!(
        verify(&code, &source, std::slice::from_ref(&honest)),
        [true]
    );
    assert!(code.accept(&mut decoder, honest.clone()));
    assert_eq!(code.offer(&mut decoder, &honest), PieceStatus::Dependent);
    assert_eq!(code.rank(&decoder, 0), 1);
}

/// A broadcast of arbitrary elements, which only a malicious source can make.
fn evil_source(code: &Ristretto, header: &Header, rows: &[Row]) -> Published<Ristretto> {
    let encoded = code.generators.commit(&rows.iter().collect::<Vec<_>>());
    let mut header = header.clone();
    header.commit_root = commitment_leaf(0, &encoded);
    let table = CommitmentTable::decode(encoded.as_flattened(), header.chunks).unwrap();
    let commitments = vec![Commitments {
        table,
        path: Arc::new([]),
    }];
    let decoder = code.complete(&header, vec![rows.to_vec()]);
    Published {
        header,
        commitments,
        decoder,
    }
}

/// Trap 12: too large elements, nonzero padding and a wrong hash are the source's fault, and every node finds the same,
/// whichever chunks it has.
#[test]
fn trap_12_invalid_sources_are_found_alike_by_all() {
    let code = code(4);
    let honest = code
        .publish(SUBJECT, &known::counting_payload()[..240], Cut::rlnc(2))
        .unwrap();
    let rows: Vec<Row> = honest.decoder.generations[0]
        .source
        .as_ref()
        .unwrap()
        .to_vec();
    let mut large = rows.clone();
    large[1].set(2, Scalar([0, 0, 0, 1 << 56]));
    let mut padded = rows.clone();
    padded[1].set(3, Scalar([0, 0, 0, 1 << 55]));
    let mut other = rows.clone();
    other[0].set(0, Scalar::ONE);
    for (rows, expected) in [
        (
            large,
            InvalidSource::Element {
                chunk: 1,
                element: 2,
            },
        ),
        (padded, InvalidSource::Padding),
        (other, InvalidSource::PayloadHash),
    ] {
        let source = evil_source(&code, &honest.header, &rows);
        for seed in 0..8 {
            let mut node = code.decoder(&source.header);
            transfer(&code, &source, &source.decoder, &mut node, &mut rng(seed));
            let error = code.decode(&source.header, &node).unwrap_err();
            assert_eq!(error, DecodeError::InvalidSource(expected));
        }
    }
}

/// Trap 14, at the level of the code: a source with N-1 dimensions leaves all nodes incomplete, without an error.
#[test]
fn trap_14_a_rank_deficient_source_leaves_nodes_incomplete() {
    let code = code(4);
    let source = code
        .publish(SUBJECT, &known::counting_payload(), Cut::rlnc(3))
        .unwrap();
    let mut node = code.decoder(&source.header);
    for chunk in [0, 1] {
        let mut coefficients = Row::zero(3);
        coefficients.set(chunk, Scalar::ONE);
        let rows = source.decoder.generations[0].source.as_ref().unwrap();
        let data = rows[chunk].clone();
        let piece = Chunk {
            generation: 0,
            hop: 1,
            sender_rank: 3,
            coefficients,
            data,
        };
        assert!(code.accept(&mut node, Arc::new(piece)));
    }
    let incomplete = DecodeError::Incomplete {
        generation: 0,
        rank: 2,
        needed: 3,
    };
    assert_eq!(code.decode(&source.header, &node).unwrap_err(), incomplete);
}

/// Trap 21: more elements than generators, and counts that do not match, are errors.
#[test]
fn trap_21_more_elements_than_generators_are_refused() {
    let small = code(4);
    let large = code(8).publish(SUBJECT, &[1; 400], Cut::rlnc(2)).unwrap();
    let expected = HeaderError::Range {
        name: "unit",
        value: 7,
        min: 1,
        max: 4,
    };
    assert_eq!(
        small.decode_header(&large.header.encode()).unwrap_err(),
        expected
    );
    assert_eq!(
        small.publish(SUBJECT, &[1; 400], Cut::rlnc(2)).unwrap_err(),
        expected
    );
    let rs = crate::Rs::new(MAX)
        .publish(SUBJECT, &[1; 400], Cut::rs(2))
        .unwrap();
    assert_eq!(
        small.decode_header(&rs.header.encode()).unwrap_err(),
        HeaderError::Strategy(2)
    );
    assert_eq!(
        code(8).decode_header(&large.header.encode()).as_ref(),
        Ok(&large.header)
    );
}

#[test]
fn chunk_lengths_are_exact() {
    let code = code(4);
    let source = code
        .publish(SUBJECT, &known::counting_payload(), Cut::rlnc(2))
        .unwrap();
    let good = encoded_chunk(&code, &source);
    for len in 0..good.len() {
        let error = code.decode_piece(&source.header, &good[..len]).unwrap_err();
        assert!(matches!(error, PieceError::Length { found, .. } if found == len));
    }
    let mut long = good.clone();
    long.push(0);
    assert!(matches!(
        code.decode_piece(&source.header, &long),
        Err(PieceError::Length {
            found: 137,
            expected: 136
        })
    ));
    let mut width = good.clone();
    width[5] = 5;
    assert_eq!(
        code.decode_piece(&source.header, &width).unwrap_err(),
        PieceError::Width(5)
    );
    let mut generation = good;
    generation[0] = 1;
    assert_eq!(
        code.decode_piece(&source.header, &generation).unwrap_err(),
        PieceError::Generation {
            found: 1,
            generations: 1
        }
    );
}

#[test]
fn a_node_that_is_full_takes_nothing_more() {
    let code = code(4);
    let source = code
        .publish(SUBJECT, &known::counting_payload(), Cut::rlnc(2))
        .unwrap();
    let mut node = code.decoder(&source.header);
    assert!(
        code.draw(&node, 0, Distribution::Fresh, &mut rng(6))
            .is_none()
    );
    assert!(
        code.draw(&node, 1, Distribution::Fresh, &mut rng(6))
            .is_none()
    );
    transfer(&code, &source, &source.decoder, &mut node, &mut rng(6));
    let late = code
        .draw(&source.decoder, 0, Distribution::Fresh, &mut rng(7))
        .unwrap();
    assert_eq!(code.offer(&mut node, &late), PieceStatus::Full);
    assert!(!code.accept(&mut node, late));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Random relay graphs: each node draws from random earlier ones. Ranks never fall, nothing invalid is ever
    /// produced, and every complete node decodes. The rows of the model have the same ranks.
    #[test]
    fn decoding_undoes_recoding_over_random_graphs(
        seed in any::<u64>(),
        chunks in 1_u16..9,
        len in 1_usize..1200,
        senders in proptest::collection::vec(any::<prop::sample::Index>(), 30..60),
    ) {
        let code = code(40);
        let model = Model16::new(MAX);
        let payload: Vec<u8> = (0..len).map(|i| (i as u64 ^ seed) as u8).collect();
        let source = code.publish(SUBJECT, &payload, Cut::rlnc(chunks)).unwrap();
        let modelled = model.publish(SUBJECT, &payload, Cut::rlnc(chunks)).unwrap();
        let mut nodes = vec![source.decoder.clone()];
        let mut models = vec![modelled.decoder.clone()];
        for _ in 0..6 {
            nodes.push(code.decoder(&source.header));
            models.push(model.decoder(&modelled.header));
        }
        let mut rng = rng(seed);
        for (step, sender) in senders.iter().enumerate() {
            let to = 1 + step % 6;
            let from = sender.index(to);
            let Some(piece) = code.draw(&nodes[from], 0, Distribution::Fresh, &mut rng) else { continue };
            prop_assert_eq!(verify(&code, &source, std::slice::from_ref(&piece)), [true]);
            let before = code.rank(&nodes[to], 0);
            let raised = code.accept(&mut nodes[to], piece);
            prop_assert_eq!(code.rank(&nodes[to], 0), before + u16::from(raised));
            let piece = model.draw(&models[from], 0, Distribution::Fresh, &mut rng).unwrap();
            model.accept(&mut models[to], piece);
        }
        for (node, modelled) in nodes.iter().zip(&models).skip(1) {
            match code.decode(&source.header, node) {
                Ok((decoded, _)) => prop_assert_eq!(&decoded, &payload),
                Err(error) => {
                    let incomplete = matches!(error, DecodeError::Incomplete { .. });
                    prop_assert!(incomplete, "{}", error);
                }
            }
            // Eight-bit coefficients fail once in 256, so ranks agree except for rare accidents.
            let (real, model) = (code.rank(node, 0), model.rank(modelled, 0));
            prop_assert!(real.abs_diff(model) <= 1, "{real} and {model}");
        }
    }

    #[test]
    fn arbitrary_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let code = code(4);
        let source = code.publish(SUBJECT, &known::counting_payload(), Cut::rlnc(2)).unwrap();
        if let Ok(piece) = code.decode_piece(&source.header, &bytes) {
            prop_assert_eq!(code.generation(&piece), 0);
        }
        prop_assert!(code.decode_commitments(&source.header, 0, &bytes).is_err());
        prop_assert!(code.decode_header(&bytes).is_err());
    }
}
