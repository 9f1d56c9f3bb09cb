//! A code that counts instead of combining: what a code could do at best.

use alphorn_proto::rlnc::{
    CHUNK_FIXED_BYTES, Coding, Cut, DecodeError, Header, HeaderError, InvalidSource, Law, Mode,
    Model16, ModelAnchor, PieceError, Published, Standing, Strategy, Subject, Verdicts, Weights,
};
use rand_chacha::rand_core::Rng;
use std::sync::{Arc, OnceLock};

/// The random linear code without rows: every piece adds to the rank until it is full.
///
/// No code does better with the same pieces. Every real one does worse in the first hops, where pieces
/// of relays that were fed by one another are dependent with certainty, so this is a bound to compare
/// with and not a model. Pieces have the size of the source's, coefficients do not grow.
#[derive(Clone, Debug)]
pub(crate) struct Ideal {
    model: Model16,
    payload_bytes_max: u32,
    /// The payload of greatest length, made when it is first recovered.
    zeros: Arc<OnceLock<Arc<[u8]>>>,
}

/// A piece that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdealPiece {
    generation: u16,
    hop: u8,
    sender_rank: u16,
    /// What verification will find.
    pub valid: bool,
}

/// The counts of a broadcast.
#[derive(Clone, Debug)]
pub(crate) struct IdealBasket {
    needed: u16,
    generations: Vec<Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    accepted: u16,
    waiting: u16,
}

/// Generation, hop, rank and validity.
const BODY_BYTES: usize = 6;

impl Ideal {
    /// The code for payloads up to `payload_bytes_max`.
    pub(crate) fn new(payload_bytes_max: u32) -> Self {
        Ideal {
            model: Model16::new(payload_bytes_max),
            payload_bytes_max,
            zeros: Arc::default(),
        }
    }

    fn filled(header: &Header, accepted: u16) -> IdealBasket {
        let count = Count {
            accepted,
            waiting: 0,
        };
        IdealBasket {
            needed: header.chunks,
            generations: vec![count; usize::from(header.generations)],
        }
    }

    fn solve(header: &Header, basket: &IdealBasket) -> Result<IdealBasket, DecodeError> {
        for (generation, count) in (0..).zip(&basket.generations) {
            if count.accepted < basket.needed {
                return Err(DecodeError::Incomplete {
                    generation,
                    rank: count.accepted,
                    needed: basket.needed,
                });
            }
        }
        // As with the model: a root stands for a source that committed to no payload.
        match header.commit_root == [0; 32] {
            true => Ok(Self::filled(header, header.chunks)),
            false => Err(InvalidSource::NotACodeword.into()),
        }
    }
}

impl Coding for Ideal {
    type Piece = IdealPiece;
    type Anchor = ModelAnchor;
    type Basket = IdealBasket;

    fn strategy(&self) -> Strategy {
        Strategy::Rlnc
    }

    fn publish(
        &self,
        subject: Subject,
        payload: &[u8],
        cut: Cut,
    ) -> Result<Published<Ideal>, HeaderError> {
        let Published {
            header, anchors, ..
        } = self.model.publish(subject, payload, cut)?;
        let basket = Self::filled(&header, header.chunks);
        Ok(Published {
            header,
            anchors,
            basket,
        })
    }

    fn decode_header(&self, bytes: &[u8]) -> Result<Header, HeaderError> {
        self.model.decode_header(bytes)
    }

    fn anchors(&self, header: &Header) -> u16 {
        self.model.anchors(header)
    }

    fn anchor_bytes(&self, header: &Header) -> usize {
        self.model.anchor_bytes(header)
    }

    fn encode_anchor(&self, anchor: &ModelAnchor, out: &mut Vec<u8>) {
        self.model.encode_anchor(anchor, out);
    }

    fn decode_anchor(
        &self,
        header: &Header,
        generation: u16,
        bytes: &[u8],
    ) -> Result<ModelAnchor, PieceError> {
        self.model.decode_anchor(header, generation, bytes)
    }

    fn piece_bytes(&self, header: &Header, _: &IdealPiece) -> usize {
        let width = match Mode::of(header.chunks, header.unit) {
            Mode::Full => 32,
            Mode::Small => 1,
        };
        CHUNK_FIXED_BYTES + usize::from(header.chunks) * width + 32 * header.unit as usize
    }

    fn encode_piece(&self, header: &Header, piece: &IdealPiece, out: &mut Vec<u8>) {
        let end = out.len() + self.piece_bytes(header, piece);
        out.extend_from_slice(&piece.generation.to_le_bytes());
        out.push(piece.hop);
        out.extend_from_slice(&piece.sender_rank.to_le_bytes());
        out.push(u8::from(piece.valid));
        out.resize(end, 0);
    }

    fn decode_piece(&self, header: &Header, body: &[u8]) -> Result<IdealPiece, PieceError> {
        let wrong_length = |expected| PieceError::Length {
            found: body.len(),
            expected,
        };
        let fixed = body.first_chunk::<BODY_BYTES>();
        let [g0, g1, hop, r0, r1, valid] = *fixed.ok_or_else(|| wrong_length(BODY_BYTES))?;
        let piece = IdealPiece {
            generation: u16::from_le_bytes([g0, g1]),
            hop,
            sender_rank: u16::from_le_bytes([r0, r1]),
            valid: valid == 1,
        };
        let expected = self.piece_bytes(header, &piece);
        if body.len() != expected {
            return Err(wrong_length(expected));
        }
        let generations = header.generations;
        match piece.generation < generations {
            true => Ok(piece),
            false => Err(PieceError::Generation {
                found: piece.generation,
                generations,
            }),
        }
    }

    fn generation(&self, piece: &IdealPiece) -> u16 {
        piece.generation
    }

    fn shard(&self, _: &IdealPiece) -> Option<u16> {
        None
    }

    fn hop_and_rank(&self, piece: &IdealPiece) -> (u8, u16) {
        (piece.hop, piece.sender_rank)
    }

    fn set_hop_and_rank(&self, piece: &mut IdealPiece, hop: u8, rank: u16) {
        (piece.hop, piece.sender_rank) = (hop, rank);
    }

    fn basket(&self, header: &Header) -> IdealBasket {
        Self::filled(header, 0)
    }

    fn offer(&self, basket: &mut IdealBasket, piece: &IdealPiece) -> Standing {
        let needed = basket.needed;
        let count = &mut basket.generations[usize::from(piece.generation)];
        if count.accepted >= needed {
            Standing::Full
        } else if count.accepted + count.waiting < needed {
            count.waiting += 1;
            Standing::Innovative
        } else {
            Standing::Held
        }
    }

    fn withdraw(&self, basket: &mut IdealBasket) {
        for count in &mut basket.generations {
            count.waiting = 0;
        }
    }

    fn verify(
        &self,
        _: &Header,
        _: &ModelAnchor,
        pieces: &[IdealPiece],
        _: &mut Weights,
    ) -> Verdicts {
        Verdicts {
            valid: pieces.iter().map(|piece| piece.valid).collect(),
            sums: usize::from(!pieces.is_empty()),
        }
    }

    fn accept(&self, basket: &mut IdealBasket, piece: IdealPiece) -> bool {
        let needed = basket.needed;
        let count = &mut basket.generations[usize::from(piece.generation)];
        count.waiting = count.waiting.saturating_sub(1);
        let adds = count.accepted < needed;
        count.accepted += u16::from(adds);
        adds
    }

    fn rank(&self, basket: &IdealBasket, generation: u16) -> u16 {
        basket.generations[usize::from(generation)].accepted
    }

    fn is_full(&self, basket: &IdealBasket) -> bool {
        let mut counts = basket.generations.iter();
        counts.all(|count| count.accepted >= basket.needed)
    }

    fn draw<R: Rng + ?Sized>(
        &self,
        basket: &IdealBasket,
        selector: u16,
        _: Law,
        _: &mut R,
    ) -> Option<IdealPiece> {
        let count = basket.generations.get(usize::from(selector))?;
        (count.accepted > 0).then_some(IdealPiece {
            generation: selector,
            hop: 1,
            sender_rank: count.accepted,
            valid: true,
        })
    }

    fn decode(
        &self,
        header: &Header,
        basket: &IdealBasket,
    ) -> Result<(Vec<u8>, IdealBasket), DecodeError> {
        Ok((vec![0; header.len as usize], Self::solve(header, basket)?))
    }

    fn recover(
        &self,
        header: &Header,
        basket: &IdealBasket,
    ) -> Result<(Arc<[u8]>, IdealBasket), DecodeError> {
        let complete = Self::solve(header, basket)?;
        let zeros = || vec![0; header.len as usize].into();
        let payload = match header.len == self.payload_bytes_max {
            true => self.zeros.get_or_init(zeros).clone(),
            false => zeros(),
        };
        Ok((payload, complete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    const SUBJECT: Subject = Subject {
        kind: 1,
        slot: 2,
        source: 3,
        index: 0,
    };

    #[test]
    fn any_pieces_fill_a_basket_and_no_more_are_taken() {
        let code = Ideal::new(20_000);
        let published = code.publish(SUBJECT, &[0; 20_000], Cut::rlnc(8)).unwrap();
        let header = &published.header;
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut relay = code.basket(header);
        let mut drawn = |basket: &IdealBasket| code.draw(basket, 0, Law::Fresh, &mut rng);
        assert_eq!(drawn(&relay), None);
        let first = drawn(&published.basket).unwrap();
        assert_eq!(code.offer(&mut relay, &first), Standing::Innovative);
        assert!(code.accept(&mut relay, first));
        // What two relays of rank one send is one dimension to a real code, and two here.
        let mut sink = code.basket(header);
        for rank in 1..=8 {
            let piece = drawn(&relay).unwrap();
            assert_eq!(code.offer(&mut sink, &piece), Standing::Innovative);
            assert!(code.accept(&mut sink, piece));
            assert_eq!(
                (code.rank(&sink, 0), code.is_full(&sink)),
                (rank, rank == 8)
            );
        }
        assert_eq!(code.offer(&mut sink, &first), Standing::Full);
        assert!(!code.accept(&mut sink, first));
        let (payload, _) = code.recover(header, &sink).unwrap();
        assert_eq!(payload.len(), 20_000);
        assert!(code.decode(header, &relay).is_err());
    }

    #[test]
    fn what_waits_is_counted_until_it_is_withdrawn() {
        let code = Ideal::new(1000);
        let published = code.publish(SUBJECT, &[0; 1000], Cut::rlnc(2)).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let piece = code
            .draw(&published.basket, 0, Law::Fresh, &mut rng)
            .unwrap();
        let mut basket = code.basket(&published.header);
        let standings = [Standing::Innovative, Standing::Innovative, Standing::Held];
        for standing in standings {
            assert_eq!(code.offer(&mut basket, &piece), standing);
        }
        code.withdraw(&mut basket);
        assert_eq!(code.offer(&mut basket, &piece), Standing::Innovative);
    }

    #[test]
    fn pieces_are_read_as_they_were_written() {
        let code = Ideal::new(20_000);
        let published = code.publish(SUBJECT, &[0; 20_000], Cut::rlnc(8)).unwrap();
        let header = &published.header;
        let piece = IdealPiece {
            generation: 0,
            hop: 3,
            sender_rank: 700,
            valid: false,
        };
        let mut body = Vec::new();
        code.encode_piece(header, &piece, &mut body);
        assert_eq!(body.len(), code.piece_bytes(header, &piece));
        assert_eq!(code.decode_piece(header, &body), Ok(piece));
        assert!(code.decode_piece(header, &body[1..]).is_err());
        assert!(code.decode_piece(header, &body[..3]).is_err());
        body[0] = 1;
        assert!(code.decode_piece(header, &body).is_err());
    }
}
