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

/// Work requested by the state machine. Coding is done by [`Work::run`]; signatures are left to the driver, which knows
/// the scheme.
#[derive(Clone, Debug)]
pub enum Work<C: Coding> {
    /// Split a payload, and commit to it or encode it.
    Commit {
        /// The subject.
        subject: Subject,
        /// The payload.
        payload: Bytes,
        /// How to split it.
        cut: Cut,
    },
    /// Sign a header's root with the duty key of the source.
    Sign {
        /// The subject signed for.
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
        /// The commitments to verify them against.
        commitments: C::Commitments,
        /// The pieces, grouped by sender.
        pieces: Vec<C::Piece>,
        /// Random weights of this batch.
        weights: Weights,
    },
    /// Draw a combination.
    Recode {
        /// The header.
        header: Arc<Header>,
        /// The pieces to combine.
        decoder: Arc<C::Decoder>,
        /// The generation.
        generation: u16,
        /// The distribution of a source's coefficients.
        distribution: Distribution,
        /// Seed of the factors.
        seed: [u8; 32],
    },
    /// Recover the payload and verify it.
    Decode {
        /// The header.
        header: Arc<Header>,
        /// Pieces of full rank.
        decoder: Arc<C::Decoder>,
    },
}

/// Results of [`Work`].
#[derive(Clone, Debug)]
pub enum Product<C: Coding> {
    /// Result of [`Work::Commit`].
    Published(Result<Published<C>, HeaderError>),
    /// Result of [`Work::Sign`]: the authenticator.
    Signed(Bytes),
    /// Result of [`Work::VerifyHeader`]: whether it is valid.
    Header(bool),
    /// Result of [`Work::VerifyPieces`].
    Verified(Verdicts),
    /// Result of [`Work::Recode`].
    Drawn(Option<C::Piece>),
    /// Result of [`Work::Decode`]: the payload, and a decoder that can send like the source's.
    Decoded(Result<(Bytes, C::Decoder), DecodeError>),
}

/// The parameters that determine the cost of coding work: a row of a table of code costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSize {
    /// The operation.
    pub op: CodeOp,
    /// Number of chunks of a generation, shards, rows or pieces, see [`CodeOp`].
    pub n: u64,
    /// Payload bytes of a generation, or of all generations if all are processed.
    pub payload_bytes: u64,
}

impl<C: Coding> Work<C> {
    /// The subject.
    pub fn subject(&self) -> Subject {
        match self {
            Work::Commit { subject, .. } | Work::Sign { subject, .. } => *subject,
            Work::VerifyHeader { announce, .. } => announce.header.subject,
            Work::VerifyPieces { header, .. }
            | Work::Recode { header, .. }
            | Work::Decode { header, .. } => header.subject,
        }
    }

    /// Name in traces and metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Work::Sign { .. } => "broadcast_sign",
            Work::VerifyHeader { .. } => "broadcast_header",
            _ => self.size().map_or("broadcast", |size| size.op.name()),
        }
    }

    /// Class in a worker's queue.
    pub fn class(&self) -> Class {
        match self {
            Work::Commit { .. } | Work::Sign { .. } => Class::Duty,
            // The verdict on the payload waits for the decoding. As slot work it would queue behind the making of
            // aggregates and, after its phase, behind everything.
            Work::VerifyHeader { .. } | Work::VerifyPieces { .. } | Work::Decode { .. } => {
                Class::Verdict
            }
            Work::Recode { .. } => Class::Current,
        }
    }

    /// Parameters of its cost; none for signatures.
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
                // The cost of a commitment depends on the number of elements, not on how many generations they span.
                n: u64::from(cut.chunks),
                payload_bytes: payload.len() as u64,
            }),
            Work::VerifyPieces { header, pieces, .. } => {
                of(header, CodeOp::RlncVerify, CodeOp::RsVerify, pieces.len())
            }
            Work::Recode { header, .. } => of(
                header,
                CodeOp::RlncRecode,
                // Shards are never recoded, so the second operation is not used.
                CodeOp::RlncRecode,
                usize::from(header.chunks),
            ),
            // All generations, each with as many products per element as it has chunks.
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

    /// Total bytes of the shards produced; 0 if none are.
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

    /// Performs the work; none for signatures, which the driver makes.
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
                commitments,
                pieces,
                weights,
            } => Product::Verified(code.verify(header, commitments, pieces, &mut weights.clone())),
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
