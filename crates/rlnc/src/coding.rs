//! Interface between the roles of a broadcast and a code, so that one set of roles serves all codes.

use std::fmt::Debug;
use std::sync::Arc;

use rand_chacha::rand_core::Rng;

use crate::coefficients::Distribution;
use crate::error::{DecodeError, PieceError};
use crate::header::{
    CHUNKS_MAX, ELEMENT_PAYLOAD_BYTES, ELEMENTS_MAX, Header, HeaderError, SHARD_BYTES_MAX,
    SHARDS_TOTAL_MAX, Strategy, Subject,
};
use crate::merkle::{Hash, path_len};
use crate::pedersen::{Verdicts, Weights};

/// How a payload is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of source chunks of a generation, or of data shards.
    pub chunks: u16,
    /// Total number of shards, a power of two; 0 for the random linear code.
    pub shards_total: u16,
    /// Number of generations; 1 for Reed-Solomon.
    pub generations: u16,
}

impl Cut {
    /// Minimum size of a chunk in bytes: below this, coefficients or Merkle path exceed 7 % of it.
    const CHUNK_BYTES_MIN: usize = 3500;
    /// Minimum number of chunks in the automatic choice.
    const CHUNKS_MIN: usize = 16;

    /// The automatic choice for a payload of `len` bytes: 16 to 64 pieces of at least 3.5 kB, so that up to 900 kB a
    /// piece fits the initial window of a cold connection (RFC 6928). Beyond that the pieces get longer, then more
    /// numerous.
    pub fn auto(strategy: Strategy, len: usize) -> Cut {
        let chunks_max = usize::from(CHUNKS_MAX);
        let chunks = (len / Self::CHUNK_BYTES_MIN).clamp(Self::CHUNKS_MIN, chunks_max) / 8 * 8;
        match strategy {
            Strategy::Rlnc => {
                let generation_bytes =
                    chunks * ELEMENT_PAYLOAD_BYTES as usize * ELEMENTS_MAX as usize;
                let generations = len.div_ceil(generation_bytes).max(1);
                let generations = u16::try_from(generations).unwrap_or(u16::MAX);
                Cut {
                    chunks: chunks as u16,
                    shards_total: 0,
                    generations,
                }
            }
            Strategy::Rs => {
                let data = chunks.max(len.div_ceil(SHARD_BYTES_MAX as usize));
                Cut::rs(u16::try_from(data).unwrap_or(u16::MAX))
            }
        }
    }

    /// One generation of N chunks.
    pub fn rlnc(chunks: u16) -> Cut {
        Cut {
            chunks,
            shards_total: 0,
            generations: 1,
        }
    }

    /// k data shards, and four times as many in total, rounded up to a power of two.
    pub fn rs(shards_data: u16) -> Cut {
        let total = (4 * u32::from(shards_data)).next_power_of_two();
        let total = u16::try_from(total)
            .unwrap_or(u16::MAX)
            .min(SHARDS_TOTAL_MAX);
        Cut {
            chunks: shards_data,
            shards_total: total,
            generations: 1,
        }
    }
}

/// Status of a piece before it is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceStatus {
    /// It adds a dimension to the accepted pieces and those waiting for verification.
    Innovative,
    /// It adds nothing to the waiting pieces, but something to the accepted ones: hold it until those are verified.
    Held,
    /// It adds nothing to the accepted pieces.
    Dependent,
    /// Its generation is complete.
    Full,
}

/// What a source derives from a payload.
#[derive(Clone, Debug)]
pub struct Published<C: Coding> {
    /// The header to sign.
    pub header: Header,
    /// The commitments that pieces are verified against, one list per generation.
    pub commitments: Vec<C::Commitments>,
    /// Everything there is to send.
    pub decoder: C::Decoder,
}

/// A code: maps a payload to verifiable pieces, and back from any sufficiently large set of them.
///
/// Implementations: [`Ristretto`](crate::Ristretto) (random linear code over the Ristretto255
/// scalars), [`Model16`](crate::Model16) (the same rows modulo 65521, without data),
/// [`Rs`](crate::Rs) (Reed-Solomon) and [`ModelRs`](crate::ModelRs) (its indices, without bytes). Functions that read
/// bytes from peers return errors. Passing a decoder, commitments or piece of another header is a programming error.
pub trait Coding: Clone + Debug + Send + Sync + 'static {
    /// A chunk or shard, canonical but not yet verified. Cheap to clone.
    type Piece: Clone + Debug + Send + Sync + 'static;
    /// The source's commitments to one generation, which its pieces are verified against. Cheap to clone.
    type Commitments: Clone + Debug + Send + Sync + 'static;
    /// The accepted pieces of a broadcast and their span.
    type Decoder: Clone + Debug + Send + Sync + 'static;

    /// The strategy in the header.
    fn strategy(&self) -> Strategy;

    /// Maximum payload size in bytes.
    fn payload_bytes_max(&self) -> u32;

    /// Returns a header of this strategy if this object can code for it.
    fn supported(&self, header: Header) -> Result<Header, HeaderError> {
        Ok(header)
    }

    /// Splits and commits. Expensive: one sum over the generators per chunk, or one encoding.
    fn publish(
        &self,
        subject: Subject,
        payload: &[u8],
        cut: Cut,
    ) -> Result<Published<Self>, HeaderError>;

    /// Reads and checks a header of this strategy.
    fn decode_header(&self, bytes: &[u8]) -> Result<Header, HeaderError> {
        let header = Header::decode(bytes, self.payload_bytes_max())?;
        match header.strategy == self.strategy() {
            true => self.supported(header),
            false => Err(HeaderError::Strategy(header.strategy.to_byte())),
        }
    }

    /// Number of lists of commitments sent with the header: one per generation, or none.
    fn commitment_lists(&self, header: &Header) -> u16 {
        match self.strategy() {
            Strategy::Rlnc => header.generations,
            Strategy::Rs => 0,
        }
    }

    /// Size of the encoded commitments of a generation in bytes.
    fn commitments_bytes(&self, header: &Header) -> usize {
        let hashes = usize::from(header.chunks) + path_len(usize::from(header.generations));
        match self.strategy() {
            Strategy::Rlnc => size_of::<Hash>() * hashes,
            Strategy::Rs => 0,
        }
    }

    /// Appends the encoding of the commitments of a generation: a list and its Merkle path for the random linear code.
    fn encode_commitments(&self, commitments: &Self::Commitments, out: &mut Vec<u8>);

    /// Reads the commitments of a generation and checks them against the header.
    fn decode_commitments(
        &self,
        header: &Header,
        generation: u16,
        bytes: &[u8],
    ) -> Result<Self::Commitments, PieceError> {
        let (generations, expected) = (header.generations, self.commitments_bytes(header));
        match (generation, bytes.len()) {
            (found, _) if found >= generations => {
                Err(PieceError::Generation { found, generations })
            }
            (_, found) if found != expected => Err(PieceError::Length { found, expected }),
            _ => self.read_commitments(header, generation, bytes),
        }
    }

    /// Reads commitments whose generation and length match the header, and checks the rest.
    fn read_commitments(
        &self,
        header: &Header,
        generation: u16,
        bytes: &[u8],
    ) -> Result<Self::Commitments, PieceError>;

    /// Size of the encoded body of a piece in bytes.
    fn piece_bytes(&self, header: &Header, piece: &Self::Piece) -> usize;

    /// Appends the body of a piece message, without tag and broadcast id.
    fn encode_piece(&self, header: &Header, piece: &Self::Piece, out: &mut Vec<u8>);

    /// Reads the body of a piece message and checks everything except validity.
    fn decode_piece(&self, header: &Header, body: &[u8]) -> Result<Self::Piece, PieceError>;

    /// The generation of a piece; 0 for shards.
    fn generation(&self, _piece: &Self::Piece) -> u16 {
        0
    }

    /// The index of a shard; `None` for combinations, no two of which are alike.
    fn shard(&self, _piece: &Self::Piece) -> Option<u16> {
        None
    }

    /// Number of transmissions so far, and the rank claimed by the sender.
    fn hop_and_rank(&self, piece: &Self::Piece) -> (u8, u16);

    /// Sets the values that [`hop_and_rank`](Coding::hop_and_rank) reads.
    fn set_hop_and_rank(&self, piece: &mut Self::Piece, hop: u8, rank: u16);

    /// Creates an empty decoder.
    fn decoder(&self, header: &Header) -> Self::Decoder;

    /// Status of an unverified piece. An innovative one counts as waiting from now on.
    fn offer(&self, decoder: &mut Self::Decoder, piece: &Self::Piece) -> PieceStatus;

    /// Forgets the waiting pieces. After a bad piece the others, and those held, are offered again.
    fn withdraw(&self, decoder: &mut Self::Decoder);

    /// Verifies up to 64 pieces of one generation. Expensive.
    fn verify(
        &self,
        header: &Header,
        commitments: &Self::Commitments,
        pieces: &[Self::Piece],
        weights: &mut Weights,
    ) -> Verdicts;

    /// Adds a verified piece. Returns whether it raised the rank.
    fn accept(&self, decoder: &mut Self::Decoder, piece: Self::Piece) -> bool;

    /// Rank of a generation (distinct shards, at most k, for Reed-Solomon).
    fn rank(&self, decoder: &Self::Decoder, generation: u16) -> u16;

    /// Whether all generations have full rank.
    fn is_full(&self, decoder: &Self::Decoder) -> bool;

    /// Draws something to send, with hop 1 and the own rank: a fresh combination of generation `selector`, or the shard
    /// with index `selector`. `None` if there is nothing.
    fn draw<R: Rng + ?Sized>(
        &self,
        decoder: &Self::Decoder,
        selector: u16,
        distribution: Distribution,
        rng: &mut R,
    ) -> Option<Self::Piece>;

    /// Returns the payload, after all final checks, and a decoder that can send like a source. Expensive.
    fn decode(
        &self,
        header: &Header,
        decoder: &Self::Decoder,
    ) -> Result<(Vec<u8>, Self::Decoder), DecodeError>;

    /// Like [`decode`](Coding::decode), with a payload that can be shared.
    ///
    /// # Errors
    ///
    /// As [`decode`](Coding::decode).
    fn recover(
        &self,
        header: &Header,
        decoder: &Self::Decoder,
    ) -> Result<(Arc<[u8]>, Self::Decoder), DecodeError> {
        let (payload, decoder) = self.decode(header, decoder)?;
        Ok((payload.into(), decoder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automatic_cuts_are_legal_and_as_stated() {
        let subject = Subject {
            kind: 1,
            slot: 0,
            source: 0,
            index: 0,
        };
        let max = 32 << 20;
        for len in [
            1,
            1000,
            117_800,
            900_000,
            1 << 20,
            4 << 20,
            16 << 20,
            32 << 20,
        ] {
            let cut = Cut::auto(Strategy::Rlnc, len);
            Header::rlnc(subject, len, cut.chunks, cut.generations, max).unwrap();
            let cut = Cut::auto(Strategy::Rs, len);
            Header::rs(subject, len, cut.chunks, cut.shards_total, max).unwrap();
        }
        assert_eq!(Cut::auto(Strategy::Rlnc, 117_800), Cut::rlnc(32));
        assert_eq!(Cut::auto(Strategy::Rlnc, 1 << 20), Cut::rlnc(64));
        assert_eq!(Cut::auto(Strategy::Rlnc, 16 << 20).generations, 2);
        let cut = Cut::auto(Strategy::Rs, 117_800);
        assert_eq!((cut.chunks, cut.shards_total), (32, 128));
    }
}
