use super::*;
use crate::header::Id;
use crate::model::Span;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

const MAX: u32 = 1 << 20;
const SUBJECT: Subject = Subject {
    kind: 1,
    slot: 7,
    source: 3,
    index: 0,
};

#[test]
fn a_modelled_broadcast_runs_to_the_end_with_the_sizes_of_the_real_one() {
    let code = Model16::new(MAX);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for (chunks, generations) in [(1, 1), (10, 1), (32, 1), (5, 4)] {
        let cut = Cut {
            chunks,
            shards_total: 0,
            generations,
        };
        let source = code.publish(SUBJECT, &[1; 117_800], cut).unwrap();
        let header = code.decode_header(&source.header.encode()).unwrap();
        let mut bytes = Vec::new();
        code.encode_commitments(&source.commitments[0], &mut bytes);
        assert_eq!(bytes.len(), code.commitments_bytes(&header));
        assert_eq!(
            code.decode_commitments(&header, 0, &bytes).unwrap(),
            source.commitments[0]
        );
        let mut sender = source.decoder.clone();
        for hop in 0..4 {
            let mut relay = code.decoder(&header);
            let mut drawn = 0;
            while !code.is_full(&relay) {
                let piece = code
                    .draw(&sender, drawn % generations, Distribution::Fresh, &mut rng)
                    .unwrap();
                let mut bytes = Vec::new();
                code.encode_piece(&header, &piece, &mut bytes);
                let width = usize::from(piece.width());
                let real =
                    CHUNK_FIXED_BYTES + usize::from(chunks) * width + 32 * header.unit as usize;
                assert_eq!(bytes.len(), real);
                assert!(
                    width
                        == if 25 * u32::from(chunks) <= header.unit {
                            32
                        } else {
                            width
                        }
                );
                assert_eq!(code.decode_piece(&header, &bytes).as_ref(), Ok(&piece));
                code.offer(&mut relay, &piece);
                code.accept(&mut relay, piece);
                drawn += 1;
                assert!(drawn < 4 * chunks * generations, "hop {hop}");
            }
            assert_eq!(code.decode(&header, &relay).unwrap().0.len(), 117_800);
            sender = relay;
        }
    }
}

#[test]
fn small_widths_grow_with_recoding() {
    let code = Model16::new(MAX);
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let source = code.publish(SUBJECT, &[1; 117_800], Cut::rlnc(64)).unwrap();
    let mut sender = source.decoder;
    let mut widths = Vec::new();
    for _ in 0..6 {
        let mut relay = code.decoder(&source.header);
        while !code.is_full(&relay) {
            let piece = code
                .draw(&sender, 0, Distribution::Fresh, &mut rng)
                .unwrap();
            if relay.generations[0].rows.is_empty() {
                widths.push(piece.width());
            }
            code.accept(&mut relay, piece);
        }
        sender = relay;
    }
    assert_eq!(
        widths,
        [1, 3, 6, 8, 8, 32],
        "8, 22, 36, 50, 64 bits, then full scalars"
    );
}

/// Like those of `draw_relay`: long rows are left out while they are the minority.
#[test]
fn one_long_row_makes_no_others_long() {
    let code = Model16::new(MAX);
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let source = code.publish(SUBJECT, &[1; 117_800], Cut::rlnc(64)).unwrap();
    for (long, width) in [(0, 3), (1, 3), (5, 3), (6, 32), (10, 32)] {
        let mut relay = code.decoder(&source.header);
        for i in 0..10 {
            let mut piece = code
                .draw(&source.decoder, 0, Distribution::Fresh, &mut rng)
                .unwrap();
            if i < long {
                piece.bits = FULL_BITS;
            }
            assert!(code.accept(&mut relay, piece));
        }
        let piece = code.draw(&relay, 0, Distribution::Fresh, &mut rng).unwrap();
        assert_eq!(piece.width(), width, "{long} long rows of ten");
    }
}

#[test]
fn verdicts_follow_the_flag_and_sums_those_of_bisecting() {
    let code = Model16::new(MAX);
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let source = code.publish(SUBJECT, &[1; 1000], Cut::rlnc(10)).unwrap();
    let mut weights = Weights::new(&[0; 32], &Id([0; 32]), 0);
    let mut draw = |valid| {
        let mut piece = code
            .draw(&source.decoder, 0, Distribution::Fresh, &mut rng)
            .unwrap();
        piece.valid = valid;
        piece
    };
    let pieces: Vec<ModelChunk> = (0..10).map(|i| draw(i != 6)).collect();
    let verdicts = code.verify(
        &source.header,
        &source.commitments[0],
        &pieces,
        &mut weights,
    );
    assert!((0..10).all(|i| verdicts.valid[i] == (i != 6)));
    assert!((4..=5).contains(&verdicts.sums));
    let verdicts = code.verify(
        &source.header,
        &source.commitments[0],
        &pieces[..1],
        &mut weights,
    );
    assert_eq!(verdicts.sums, 1);
}

#[test]
fn malformed_bodies_are_refused() {
    let code = Model16::new(MAX);
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let source = code.publish(SUBJECT, &[1; 1000], Cut::rlnc(10)).unwrap();
    let header = &source.header;
    let piece = code
        .draw(&source.decoder, 0, Distribution::Fresh, &mut rng)
        .unwrap();
    let mut good = Vec::new();
    code.encode_piece(header, &piece, &mut good);
    assert!(code.decode_piece(header, &good[1..]).is_err());
    for len in 0..good.len() {
        assert!(code.decode_piece(header, &good[..len]).is_err());
    }
    let change = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        code.decode_piece(header, &bytes)
    };
    assert!(matches!(
        change(0, 1),
        Err(PieceError::Generation { found: 1, .. })
    ));
    assert_eq!(change(5, 0), Err(PieceError::Width(0)));
    assert_eq!(change(5, 254), Err(PieceError::Width(254)));
    let mut zero = good.clone();
    zero[7..27].fill(0);
    assert_eq!(code.decode_piece(header, &zero), Err(PieceError::ZeroRow));
    let mut large = good.clone();
    large[9..11].fill(0xff);
    let expected = Err(PieceError::NonCanonicalScalar { index: 1 });
    assert_eq!(code.decode_piece(header, &large), expected);
}

/// The accepted rows, and those plus the waiting ones, each span recomputed from all its rows.
#[derive(Default)]
struct Naive {
    accepted: Vec<Arc<[u16]>>,
    waiting: Vec<Arc<[u16]>>,
}

impl Naive {
    fn is_outside<'a>(row: &[u16], rows: impl Iterator<Item = &'a Arc<[u16]>>) -> bool {
        let mut span = Span::new(row.len());
        rows.for_each(|row| {
            span.insert(row);
        });
        span.insert(row)
    }

    fn offer(&mut self, row: &Arc<[u16]>) -> PieceStatus {
        if self.accepted.len() == row.len() {
            return PieceStatus::Full;
        }
        if Naive::is_outside(row, self.accepted.iter().chain(&self.waiting)) {
            self.waiting.push(row.clone());
            return PieceStatus::Innovative;
        }
        match Naive::is_outside(row, self.accepted.iter()) {
            true => PieceStatus::Held,
            false => PieceStatus::Dependent,
        }
    }

    fn accept(&mut self, row: &Arc<[u16]>) -> bool {
        let accepts = Naive::is_outside(row, self.accepted.iter());
        if accepts {
            self.accepted.push(row.clone());
        }
        accepts
    }
}

proptest! {
    /// In any order: offered and accepted, accepted and never offered, offered and withdrawn.
    #[test]
    fn pieces_stand_where_spans_made_anew_say(
        steps in vec((0_u8..16, vec(0_u16..3, 4), any::<Index>()), 1..60),
    ) {
        let code = Model16::new(MAX);
        let cut = Cut { chunks: 4, shards_total: 0, generations: 1 };
        let source = code.publish(SUBJECT, &[1; 1000], cut).unwrap();
        let mut decoder = code.decoder(&source.header);
        let mut naive = Naive::default();
        let mut offered: Vec<ModelChunk> = Vec::new();
        for (what, row, which) in steps {
            let piece = ModelChunk {
                generation: 0,
                hop: 1,
                sender_rank: 0,
                valid: true,
                bits: 8,
                row: row.into(),
            };
            match what {
                0..8 => {
                    prop_assert_eq!(code.offer(&mut decoder, &piece), naive.offer(&piece.row));
                    offered.push(piece);
                }
                8..15 if !offered.is_empty() => {
                    let piece = offered.remove(which.index(offered.len()));
                    let accepts = naive.accept(&piece.row);
                    prop_assert_eq!(code.accept(&mut decoder, piece), accepts);
                }
                15 => {
                    naive.waiting.clear();
                    offered.clear();
                    code.withdraw(&mut decoder);
                }
                _ => {
                    let accepts = naive.accept(&piece.row);
                    prop_assert_eq!(code.accept(&mut decoder, piece), accepts);
                }
            }
            prop_assert_eq!(usize::from(code.rank(&decoder, 0)), naive.accepted.len());
        }
    }
}
