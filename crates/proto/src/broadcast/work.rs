//! The jobs of a broadcast, as data.

use super::message::Announce;
use crate::rlnc;
use crate::rlnc::{
    Coding, Cut, DecodeError, Distribution, Hash, Header, HeaderError, Published, Subject,
    Verdicts, Weights,
};
use alphorn_scheme::model::CodeOp;
use alphorn_scheme::{Bytes, Class};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::Arc;

/// What a machine asks for. Coding is done by [`Work::run`]; signatures are the driver's, who knows
/// the scheme.
#[derive(Clone, Debug)]
pub enum Work<C: Coding> {
    /// Cut a payload, commit to it or encode it.
    Commit {
        /// What it is.
        subject: Subject,
        /// The payload.
        payload: Bytes,
        /// How to cut it.
        cut: Cut,
    },
    /// Sign a header's root with the duty key of the source.
    Sign {
        /// What is signed for.
        subject: Subject,
        /// What is signed, see [`Header::signing_root`].
        root: Hash,
    },
    /// Verify the authenticator of a header.
    VerifyHeader {
        /// Header and authenticator; the signer is the source of the subject.
        announce: Arc<Announce<C>>,
        /// What was signed, see [`Header::signing_root`].
        root: Hash,
    },
    /// Verify pieces of one generation in one batch.
    VerifyPieces {
        /// The header.
        header: Arc<Header>,
        /// What they are verified against.
        anchor: C::Anchor,
        /// The pieces, those of one sender together.
        pieces: Vec<C::Piece>,
        /// Random weights of this batch.
        weights: Weights,
    },
    /// Draw a combination.
    Recode {
        /// The header.
        header: Arc<Header>,
        /// What is combined.
        decoder: Arc<C::Decoder>,
        /// Of which generation.
        generation: u16,
        /// The distribution of a source's coefficients.
        distribution: Distribution,
        /// Seed of the factors.
        seed: [u8; 32],
    },
    /// Recover the payload and check it.
    Decode {
        /// The header.
        header: Arc<Header>,
        /// Pieces of full rank.
        decoder: Arc<C::Decoder>,
    },
}

/// What comes back.
#[derive(Clone, Debug)]
pub enum Product<C: Coding> {
    /// Of [`Work::Commit`].
    Published(Result<Published<C>, HeaderError>),
    /// Of [`Work::Sign`]: the authenticator.
    Signed(Bytes),
    /// Of [`Work::VerifyHeader`]: whether it is valid.
    Header(bool),
    /// Of [`Work::VerifyPieces`].
    Verified(Verdicts),
    /// Of [`Work::Recode`].
    Drawn(Option<C::Piece>),
    /// Of [`Work::Decode`]: the payload, and a decoder that can send like the source's.
    Decoded(Result<(Bytes, C::Decoder), DecodeError>),
}

/// What coding work costs depends on: a row of a table of code costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSize {
    /// The operation.
    pub op: CodeOp,
    /// Chunks of a generation, shards, rows or pieces, see [`CodeOp`].
    pub n: u64,
    /// Payload bytes of a generation; of all of them where all are worked on.
    pub payload_bytes: u64,
}

impl<C: Coding> Work<C> {
    /// What it is about.
    pub fn subject(&self) -> Subject {
        match self {
            Work::Commit { subject, .. } | Work::Sign { subject, .. } => *subject,
            Work::VerifyHeader { announce, .. } => announce.header.subject,
            Work::VerifyPieces { header, .. }
            | Work::Recode { header, .. }
            | Work::Decode { header, .. } => header.subject,
        }
    }

    /// The name in traces and metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Work::Sign { .. } => "broadcast_sign",
            Work::VerifyHeader { .. } => "broadcast_header",
            _ => self.size().map_or("broadcast", |size| size.op.name()),
        }
    }

    /// The class in the queue of a worker.
    pub fn class(&self) -> Class {
        match self {
            Work::Commit { .. } | Work::Sign { .. } => Class::Duty,
            // The verdict on the payload waits for the decoding: as work of the slot, it would wait behind
            // the making of aggregates and, after its phase, behind everything.
            Work::VerifyHeader { .. } | Work::VerifyPieces { .. } | Work::Decode { .. } => {
                Class::Verdict
            }
            Work::Recode { .. } => Class::Current,
        }
    }

    /// What its cost depends on; none for signatures.
    pub fn size(&self) -> Option<CodeSize> {
        let of = |header: &Header, rlnc_op, rs_op, n: usize| {
            let generations = u64::from(header.generations.max(1));
            Some(CodeSize {
                op: match header.strategy {
                    rlnc::Strategy::Rlnc => rlnc_op,
                    rlnc::Strategy::Rs => rs_op,
                },
                n: n as u64,
                payload_bytes: u64::from(header.len).div_ceil(generations),
            })
        };
        match self {
            Work::Sign { .. } | Work::VerifyHeader { .. } => None,
            Work::Commit { payload, cut, .. } => Some(CodeSize {
                op: if cut.shards_total == 0 {
                    CodeOp::RlncCommit
                } else {
                    CodeOp::RsEncode
                },
                // What a commitment takes hangs on the elements, however many generations they are in.
                n: u64::from(cut.chunks),
                payload_bytes: payload.len() as u64,
            }),
            Work::VerifyPieces { header, pieces, .. } => {
                of(header, CodeOp::RlncVerify, CodeOp::RsVerify, pieces.len())
            }
            Work::Recode { header, .. } => of(
                header,
                CodeOp::RlncRecode,
                CodeOp::RlncRecode,
                usize::from(header.chunks),
            ),
            // All generations, each of as many products an element as it has chunks.
            Work::Decode { header, .. } => Some(CodeSize {
                op: match header.strategy {
                    rlnc::Strategy::Rlnc => CodeOp::RlncDecode,
                    rlnc::Strategy::Rs => CodeOp::RsDecode,
                },
                n: u64::from(header.chunks),
                payload_bytes: u64::from(header.len),
            }),
        }
    }

    /// Bytes of all shards that are made; 0 where none are.
    pub(super) fn shard_bytes(&self) -> u64 {
        match self {
            Work::Commit { payload, cut, .. } => {
                let chunks = usize::from(cut.chunks.max(1));
                let unit = payload.len().div_ceil(chunks).next_multiple_of(64);
                u64::from(cut.shards_total) * unit as u64
            }
            Work::Decode { header, .. } => u64::from(header.shards_total) * u64::from(header.unit),
            _ => 0,
        }
    }

    /// Does the work; nothing for signatures, which are the driver's.
    pub fn run(&self, code: &C) -> Option<Product<C>> {
        Some(match self {
            Work::Sign { .. } | Work::VerifyHeader { .. } => return None,
            Work::Commit {
                subject,
                payload,
                cut,
            } => Product::Published(code.publish(*subject, payload, *cut)),
            Work::VerifyPieces {
                header,
                anchor,
                pieces,
                weights,
            } => Product::Verified(code.verify(header, anchor, pieces, &mut weights.clone())),
            Work::Recode {
                decoder,
                generation,
                distribution,
                seed,
                ..
            } => {
                let mut rng = ChaCha20Rng::from_seed(*seed);
                Product::Drawn(code.draw(decoder, *generation, *distribution, &mut rng))
            }
            Work::Decode { header, decoder } => Product::Decoded(code.recover(header, decoder)),
        })
    }
}
