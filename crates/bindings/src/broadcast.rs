//! Coded broadcast: a payload in pieces that every relay can verify; enough of them recover the payload. The
//! codes are random linear combinations, which relays recode, and Reed-Solomon shards, which they forward.

use alphorn_rlnc::{
    Coding, Cut, DecodeError, Distribution, ELEMENT_PAYLOAD_BYTES, HEADER_BYTES, Header,
    PieceError, Ristretto, Rs, Strategy, Weights,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

pub use alphorn_rlnc::{HEADER_BYTES as BROADCAST_HEADER_BYTES, PAYLOAD_BYTES_MAX, Subject};

use crate::{Code, Context, Error};

/// One broadcast, at its source or at a node that receives and relays it.
pub struct Broadcast(Kind);

enum Kind {
    Rlnc(Box<State<Ristretto>>),
    Rs(Box<State<Rs>>),
}

/// State of a node for one broadcast under one code.
struct State<C: Coding> {
    code: C,
    header: Header,
    /// The commitments of each generation; none before they arrived.
    commitments: Vec<Option<C::Commitments>>,
    decoder: C::Decoder,
    secret: [u8; 32],
    verified: u64,
    rng: ChaCha20Rng,
}

/// The code with this number: 1 random linear combinations, 2 Reed-Solomon.
///
/// # Errors
/// [`Code::Argument`] for any other number.
pub fn strategy_of(number: u32) -> Result<Strategy, Error> {
    match number {
        1 => Ok(Strategy::Rlnc),
        2 => Ok(Strategy::Rs),
        _ => {
            let message = format!("code {number}, must be 1 (rlnc) or 2 (reed-solomon)");
            Err(Error::new(Code::Argument, message))
        }
    }
}

impl Broadcast {
    /// Cuts a payload of 1 to [`PAYLOAD_BYTES_MAX`] bytes and commits to it. The source signs the header.
    ///
    /// # Errors
    /// [`Code::Argument`] for any other length.
    pub fn publish(
        context: &Context,
        strategy: Strategy,
        subject: Subject,
        payload: &[u8],
    ) -> Result<Broadcast, Error> {
        let (len, max) = (payload.len(), PAYLOAD_BYTES_MAX);
        if !(1..=max as usize).contains(&len) {
            return Err(Error::length("payload", len, format!("1 to {max}")));
        }
        let cut = Cut::auto(strategy, len);
        let kind = match strategy {
            Strategy::Rlnc => {
                let cells = usize::from(cut.chunks) * usize::from(cut.generations);
                let elements = len.div_ceil(cells * ELEMENT_PAYLOAD_BYTES as usize) as u32;
                let code = Ristretto::new(context.generators(elements), max);
                Kind::Rlnc(State::publish(context, code, subject, payload, cut)?)
            }
            Strategy::Rs => Kind::Rs(State::publish(
                context,
                Rs::new(max),
                subject,
                payload,
                cut,
            )?),
        };
        Ok(Broadcast(kind))
    }

    /// Starts receiving the payload that a header announces; payloads above `payload_bytes_max` are rejected.
    /// The caller verifies the source's signature of [`Broadcast::signing_root`] before anything is added.
    ///
    /// # Errors
    /// [`Code::Decode`] if the bytes are not a header, or the payload is longer.
    pub fn receive(
        context: &Context,
        header: &[u8],
        payload_bytes_max: u32,
    ) -> Result<Broadcast, Error> {
        let max = payload_bytes_max.min(PAYLOAD_BYTES_MAX);
        let header = Header::decode(header, max)?;
        let kind = match header.strategy {
            Strategy::Rlnc => {
                let code = Ristretto::new(context.generators(header.unit), max);
                Kind::Rlnc(State::receive(context, code, header)?)
            }
            Strategy::Rs => Kind::Rs(State::receive(context, Rs::new(max), header)?),
        };
        Ok(Broadcast(kind))
    }

    /// The header: 100 bytes.
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        match &self.0 {
            Kind::Rlnc(state) => state.header.encode(),
            Kind::Rs(state) => state.header.encode(),
        }
    }

    /// The root that the source signs: SHA-256 over the bytes of `alphorn/broadcast/v1` followed by a zero, the
    /// network's identifier and the header.
    pub fn signing_root(&self, network: &[u8; 32]) -> [u8; 32] {
        match &self.0 {
            Kind::Rlnc(state) => state.header.signing_root(network),
            Kind::Rs(state) => state.header.signing_root(network),
        }
    }

    /// Number of lists of commitments, which travel with the header: one for each generation of random linear
    /// combinations, none for shards.
    pub fn commitment_lists(&self) -> u16 {
        match &self.0 {
            Kind::Rlnc(state) => state.code.commitment_lists(&state.header),
            Kind::Rs(state) => state.code.commitment_lists(&state.header),
        }
    }

    /// The commitments of a generation, against which its pieces are verified.
    ///
    /// # Errors
    /// [`Code::Argument`] if there is no such generation, [`Code::Incomplete`] if they have not arrived.
    pub fn commitments(&self, generation: u16) -> Result<Vec<u8>, Error> {
        match &self.0 {
            Kind::Rlnc(state) => state.commitments(generation),
            Kind::Rs(state) => state.commitments(generation),
        }
    }

    /// Adds the commitments of a generation after checking them against the header.
    ///
    /// # Errors
    /// [`Code::Decode`] if the bytes are not commitments, [`Code::Invalid`] if they do not belong to the header.
    pub fn add_commitments(&mut self, generation: u16, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.0 {
            Kind::Rlnc(state) => state.add_commitments(generation, bytes),
            Kind::Rs(state) => state.add_commitments(generation, bytes),
        }
    }

    /// Number of different pieces that [`Broadcast::piece`] can return: generations, where each piece is a
    /// fresh combination, or shards.
    pub fn selectors(&self) -> u16 {
        match &self.0 {
            Kind::Rlnc(state) => state.header.generations,
            Kind::Rs(state) => state.header.shards_total,
        }
    }

    /// A piece to send: a fresh combination of a generation, or the shard with that number.
    ///
    /// # Errors
    /// [`Code::Argument`] for a selector that is not below [`Broadcast::selectors`], [`Code::Incomplete`] if
    /// this node has nothing of it.
    pub fn piece(&mut self, selector: u16) -> Result<Vec<u8>, Error> {
        let selectors = self.selectors();
        if selector >= selectors {
            let message = format!("selector {selector}, must be below {selectors}");
            return Err(Error::new(Code::Argument, message));
        }
        match &mut self.0 {
            Kind::Rlnc(state) => state.piece(selector),
            Kind::Rs(state) => state.piece(selector),
        }
    }

    /// Verifies a piece and keeps it if it is useful; returns whether it was.
    ///
    /// # Errors
    /// [`Code::Decode`] if the bytes are not a piece for the header, [`Code::Invalid`] if the piece is not the
    /// source's, [`Code::Incomplete`] before the commitments of its generation have arrived.
    pub fn add(&mut self, piece: &[u8]) -> Result<bool, Error> {
        match &mut self.0 {
            Kind::Rlnc(state) => state.add(piece),
            Kind::Rs(state) => state.add(piece),
        }
    }

    /// Returns whether the payload can be decoded.
    pub fn is_full(&self) -> bool {
        match &self.0 {
            Kind::Rlnc(state) => state.code.is_full(&state.decoder),
            Kind::Rs(state) => state.code.is_full(&state.decoder),
        }
    }

    /// Size of the payload in bytes, according to the header.
    pub fn payload_bytes(&self) -> usize {
        match &self.0 {
            Kind::Rlnc(state) => state.header.len as usize,
            Kind::Rs(state) => state.header.len as usize,
        }
    }

    /// The payload, after all checks. From then on this node can send everything that the source can.
    ///
    /// # Errors
    /// [`Code::Incomplete`] while pieces are missing, [`Code::Invalid`] if the source committed to something
    /// that is not a payload.
    pub fn payload(&mut self) -> Result<Vec<u8>, Error> {
        match &mut self.0 {
            Kind::Rlnc(state) => state.payload(),
            Kind::Rs(state) => state.payload(),
        }
    }
}

impl<C: Coding> State<C> {
    fn publish(
        context: &Context,
        code: C,
        subject: Subject,
        payload: &[u8],
        cut: Cut,
    ) -> Result<Box<Self>, Error> {
        let made = code.publish(subject, payload, cut)?;
        let commitments = made.commitments.into_iter().map(Some).collect();
        Ok(State::of(
            context,
            code,
            made.header,
            commitments,
            made.decoder,
        ))
    }

    fn receive(context: &Context, code: C, header: Header) -> Result<Box<Self>, Error> {
        let commitments = match code.commitment_lists(&header) {
            // Everything that shards are verified against is in the header.
            0 => vec![Some(
                code.decode_commitments(&header, 0, &[])
                    .map_err(piece_error)?,
            )],
            count => vec![None; usize::from(count)],
        };
        let decoder = code.decoder(&header);
        Ok(State::of(context, code, header, commitments, decoder))
    }

    fn of(
        context: &Context,
        code: C,
        header: Header,
        commitments: Vec<Option<C::Commitments>>,
        decoder: C::Decoder,
    ) -> Box<Self> {
        // Coefficients need not be secret, but must differ from everyone else's.
        let seed = context.fresh_seed(b"draw");
        Box::new(State {
            code,
            header,
            commitments,
            decoder,
            secret: context.secret_of(b"weights"),
            verified: 0,
            rng: ChaCha20Rng::from_seed(seed),
        })
    }

    fn commitments(&self, generation: u16) -> Result<Vec<u8>, Error> {
        let lists = self.code.commitment_lists(&self.header);
        if generation >= lists {
            let message = format!("commitments {generation} of {lists}");
            return Err(Error::new(Code::Argument, message));
        }
        let mut bytes = Vec::with_capacity(self.code.commitments_bytes(&self.header));
        let commitments = self.arrived(generation)?;
        self.code.encode_commitments(commitments, &mut bytes);
        Ok(bytes)
    }

    fn arrived(&self, generation: u16) -> Result<&C::Commitments, Error> {
        let commitments = self.commitments.get(usize::from(generation));
        commitments.and_then(Option::as_ref).ok_or_else(|| {
            let message = format!("the commitments of generation {generation} are missing");
            Error::new(Code::Incomplete, message)
        })
    }

    fn add_commitments(&mut self, generation: u16, bytes: &[u8]) -> Result<(), Error> {
        let commitments = self
            .code
            .decode_commitments(&self.header, generation, bytes);
        let commitments = commitments.map_err(piece_error)?;
        if let Some(known) = self.commitments.get_mut(usize::from(generation)) {
            *known = Some(commitments);
        }
        Ok(())
    }

    fn piece(&mut self, selector: u16) -> Result<Vec<u8>, Error> {
        let drawn = (self.code).draw(&self.decoder, selector, Distribution::Blend, &mut self.rng);
        let piece = drawn.ok_or_else(|| {
            let message = format!("no piece for selector {selector} is here");
            Error::new(Code::Incomplete, message)
        })?;
        let mut bytes = Vec::with_capacity(self.code.piece_bytes(&self.header, &piece));
        self.code.encode_piece(&self.header, &piece, &mut bytes);
        Ok(bytes)
    }

    fn add(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let piece = self.code.decode_piece(&self.header, bytes);
        let piece = piece.map_err(piece_error)?;
        let commitments = self.arrived(self.code.generation(&piece))?;
        let id = self.header.id(&[0; 32]);
        let mut weights = Weights::new(&self.secret, &id, self.verified);
        let pieces = std::slice::from_ref(&piece);
        let found = self
            .code
            .verify(&self.header, commitments, pieces, &mut weights);
        self.verified += 1;
        match found.valid.as_slice() {
            [true] => Ok(self.code.accept(&mut self.decoder, piece)),
            _ => Err(Error::new(
                Code::Invalid,
                "the piece is not one of the source's payload",
            )),
        }
    }

    fn payload(&mut self) -> Result<Vec<u8>, Error> {
        let decoded = self.code.decode(&self.header, &self.decoder);
        let (payload, decoder) = decoded.map_err(|error| {
            let code = match error {
                DecodeError::Incomplete { .. } => Code::Incomplete,
                DecodeError::InvalidSource(_) => Code::Invalid,
            };
            Error::new(code, error)
        })?;
        self.decoder = decoder;
        Ok(payload)
    }
}

fn piece_error(error: PieceError) -> Error {
    let code = match error {
        PieceError::Path => Code::Invalid,
        _ => Code::Decode,
    };
    Error::new(code, error)
}
