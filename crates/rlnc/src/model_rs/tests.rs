use super::*;
use crate::header::Id;
use crate::rs::Rs;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

const MAX: u32 = 1 << 20;
const SUBJECT: Subject = Subject {
    kind: 1,
    slot: 7,
    source: 3,
    index: 0,
};

/// The responses of a decoder to a sequence of shards, and the bytes of each.
fn history<C: Coding>(code: &C, payload: &[u8], indices: &[u16]) -> Vec<String> {
    let source = code.publish(SUBJECT, payload, Cut::rs(5)).unwrap();
    let header = &source.header;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut decoder = code.decoder(header);
    let mut said = vec![format!("{} {}", header.unit, header.shards_total)];
    for &index in indices {
        let drawn = code.draw(&source.decoder, index, Distribution::Fresh, &mut rng);
        let piece = drawn.expect("a source has all");
        let mut body = Vec::new();
        code.encode_piece(header, &piece, &mut body);
        assert_eq!(body.len(), code.piece_bytes(header, &piece));
        let piece = code.decode_piece(header, &body).unwrap();
        let first = code.offer(&mut decoder, &piece);
        let second = code.offer(&mut decoder, &piece);
        let mut weights = Weights::new(&[0; 32], &Id([0; 32]), 0);
        let pieces = std::slice::from_ref(&piece);
        let verdicts = code.verify(header, &source.commitments[0], pieces, &mut weights);
        assert_eq!(verdicts.valid, [true]);
        let accepted = code.accept(&mut decoder, piece.clone());
        let has = code.draw(&decoder, index, Distribution::Fresh, &mut rng);
        let lacks = code.draw(&decoder, index ^ 1, Distribution::Fresh, &mut rng);
        said.push(format!(
            "{} {first:?} {second:?} {accepted} {:?} {:?} {:?} {} {} {} {}",
            body.len(),
            code.generation(&piece),
            code.shard(&piece),
            has.map(|piece| code.hop_and_rank(&piece)),
            lacks.is_some(),
            code.rank(&decoder, 0),
            code.is_full(&decoder),
            code.decode(header, &decoder).is_ok(),
        ));
    }
    said
}

#[test]
fn a_model_says_what_the_code_says() {
    for (len, indices) in [
        (1, vec![0, 1, 2, 3, 4, 5]),
        (5000, vec![31, 7, 7, 30, 2, 6, 2, 19, 20]),
    ] {
        let payload = vec![0; len];
        let model = history(&ModelRs::new(MAX), &payload, &indices);
        assert_eq!(model, history(&Rs::new(MAX), &payload, &indices));
        assert!(model.last().unwrap().ends_with("true true"));
    }
}

#[test]
fn what_is_wrong_is_found() {
    let code = ModelRs::new(MAX);
    let mut source = code.publish(SUBJECT, &[0; 5000], Cut::rs(5)).unwrap();
    let header = &source.header;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let piece = code
        .draw(&source.decoder, 3, Distribution::Fresh, &mut rng)
        .unwrap();
    let bad = ModelShard {
        valid: false,
        ..piece
    };
    let mut body = Vec::new();
    code.encode_piece(header, &bad, &mut body);
    assert_eq!(code.decode_piece(header, &body), Ok(bad));
    let mut weights = Weights::new(&[0; 32], &Id([0; 32]), 0);
    let verdicts = code.verify(header, &(), &[piece, bad], &mut weights);
    assert_eq!(verdicts.valid, [true, false]);
    assert!(code.decode_piece(header, &body[1..]).is_err());
    assert!(code.decode_piece(header, &body[..4]).is_err());
    body[0] = header.shards_total as u8;
    assert!(code.decode_piece(header, &body).is_err());
    assert!(code.decode_commitments(header, 1, &[]).is_err());
    assert!(code.decode_commitments(header, 0, &[1]).is_err());
    assert_eq!(code.decode_commitments(header, 0, &[]), Ok(()));
    // Waiting shards are forgotten, held ones are not; nothing is drawn that is not there.
    let mut decoder = code.decoder(header);
    assert_eq!(code.offer(&mut decoder, &piece), PieceStatus::Innovative);
    code.withdraw(&mut decoder);
    assert_eq!(code.offer(&mut decoder, &piece), PieceStatus::Innovative);
    assert!(code.accept(&mut decoder, piece));
    code.withdraw(&mut decoder);
    assert_eq!(code.offer(&mut decoder, &piece), PieceStatus::Dependent);
    assert_eq!(
        code.draw(&decoder, u16::MAX, Distribution::Fresh, &mut rng),
        None
    );
    // A root marks shards that are not a codeword.
    source.header.commit_root = [1; 32];
    let error = code.decode(&source.header, &source.decoder).unwrap_err();
    assert_eq!(error, InvalidSource::NotACodeword.into());
}
