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

/// What a basket says of a sequence of shards, and the bytes of each.
fn history<C: Coding>(code: &C, payload: &[u8], indices: &[u16]) -> Vec<String> {
    let source = code.publish(SUBJECT, payload, Cut::rs(5)).unwrap();
    let header = &source.header;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut basket = code.basket(header);
    let mut said = vec![format!("{} {}", header.unit, header.shards_total)];
    for &index in indices {
        let drawn = code.draw(&source.basket, index, Law::Fresh, &mut rng);
        let piece = drawn.expect("a source has all");
        let mut body = Vec::new();
        code.encode_piece(header, &piece, &mut body);
        assert_eq!(body.len(), code.piece_bytes(header, &piece));
        let piece = code.decode_piece(header, &body).unwrap();
        let first = code.offer(&mut basket, &piece);
        let second = code.offer(&mut basket, &piece);
        let mut weights = Weights::new(&[0; 32], &Id([0; 32]), 0);
        let pieces = std::slice::from_ref(&piece);
        let verdicts = code.verify(header, &source.anchors[0], pieces, &mut weights);
        assert_eq!(verdicts.valid, [true]);
        let accepted = code.accept(&mut basket, piece.clone());
        let has = code.draw(&basket, index, Law::Fresh, &mut rng);
        let lacks = code.draw(&basket, index ^ 1, Law::Fresh, &mut rng);
        said.push(format!(
            "{} {first:?} {second:?} {accepted} {:?} {:?} {:?} {} {} {} {}",
            body.len(),
            code.generation(&piece),
            code.shard(&piece),
            has.map(|piece| code.hop_and_rank(&piece)),
            lacks.is_some(),
            code.rank(&basket, 0),
            code.is_full(&basket),
            code.decode(header, &basket).is_ok(),
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
    let piece = code.draw(&source.basket, 3, Law::Fresh, &mut rng).unwrap();
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
    assert!(code.decode_anchor(header, 1, &[]).is_err());
    assert!(code.decode_anchor(header, 0, &[1]).is_err());
    assert_eq!(code.decode_anchor(header, 0, &[]), Ok(()));
    // What waits is forgotten, what is held is not; nothing is drawn that is not there.
    let mut basket = code.basket(header);
    assert_eq!(code.offer(&mut basket, &piece), Standing::Innovative);
    code.withdraw(&mut basket);
    assert_eq!(code.offer(&mut basket, &piece), Standing::Innovative);
    assert!(code.accept(&mut basket, piece));
    code.withdraw(&mut basket);
    assert_eq!(code.offer(&mut basket, &piece), Standing::Dependent);
    assert_eq!(code.draw(&basket, u16::MAX, Law::Fresh, &mut rng), None);
    // A root stands for shards that are no codeword.
    source.header.commit_root = [1; 32];
    let error = code.decode(&source.header, &source.basket).unwrap_err();
    assert_eq!(error, InvalidSource::NotACodeword.into());
}
