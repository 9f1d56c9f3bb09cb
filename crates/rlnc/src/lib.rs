//! Codes a payload into chunks that every relay can verify, recode and forward.
//!
//! | module | what it holds |
//! |---|---|
//! | `chunk` | coded chunks and their encoding |
//! | `coding` | interface between the roles of a broadcast and a code |
//! | `coefficients` | widths of coefficients, and the distributions from which they are drawn |
//! | `echelon` | rows in reduced echelon form, added one at a time |
//! | `expand` | hash to group, and the generators derived with it |
//! | `field`, `scalar`, `inverse`, `point` | the arithmetic of Ristretto255 |
//! | `header` | the signed header of a broadcast |
//! | `kernel` | sums of points and combinations of rows, per instruction set |
//! | `merkle` | SHA-256 Merkle trees |
//! | `model`, `model16`, `model_rs` | codes without data, for simulations |
//! | `payload` | conversion of a payload to elements and back |
//! | `pedersen` | commitments to source chunks, and the check of chunks against them |
//! | `ristretto` | the random linear code, authenticated by Pedersen commitments |
//! | `row` | rows of scalars in the memory layout of the kernels |
//! | `rs` | Reed-Solomon shards under a Merkle root |
//!
#![doc = include_str!("LECTURE.md")]
#![deny(unsafe_code)]

mod chunk;
mod coding;
mod coefficients;
mod echelon;
mod error;
mod expand;
mod field;
mod header;
mod inverse;
mod kernel;
#[cfg(test)]
mod known;
mod merkle;
mod model;
mod model16;
mod model_rs;
mod payload;
mod pedersen;
mod point;
mod ristretto;
mod row;
mod rs;
mod scalar;

pub use chunk::Chunk;
pub use coding::{Coding, Cut, PieceStatus, Published};
pub use coefficients::{Distribution, Mode};
pub use error::{DecodeError, InvalidSource, PieceError};
pub use header::{
    CHUNKS_MAX, ELEMENT_PAYLOAD_BYTES, ELEMENTS_MAX, GENERATIONS_MAX, HEADER_BYTES, Header,
    HeaderError, Id, PAYLOAD_BYTES_MAX, SHARD_BYTES_MAX, SHARDS_TOTAL_MAX, Strategy, Subject,
};
pub use kernel::KERNELS;
pub use merkle::Hash;
pub use model_rs::{ModelRs, ModelShard, ModelShards};
pub use model16::{Model16, ModelChunk, ModelCommitments, ModelDecoder};
pub use pedersen::{CommitmentTable, Generators, VERIFY_BATCH_MAX, Verdicts, Weights};
pub use ristretto::{Commitments, Decoder, Ristretto};
pub use row::Row;
pub use rs::{Rs, Shard, ShardDecoder};
pub use scalar::Scalar;

/// Compiles the example from the package README together with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
