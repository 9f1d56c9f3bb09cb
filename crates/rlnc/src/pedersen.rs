//! Generators, commitments to source chunks, and verification of chunks against them.

use std::fmt;
use std::sync::Arc;

use alphorn_exec::Backend;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

use crate::chunk::Chunk;
use crate::error::PieceError;
use crate::expand::generator;
use crate::header::{ELEMENTS_MAX, Id};
use crate::kernel::table::{Table, Window};
use crate::kernel::{Dispatch, ROWS_MAX};
use crate::merkle::{self, Hash};
use crate::point::Point;
use crate::row::Row;
use crate::scalar::Scalar;

/// Up to this many generators have tables of 8-bit windows (16 KiB each), more have 6-bit windows (4 KiB).
const ELEMENTS_WIDE_MAX: usize = 2048;

/// The generators with their tables of multiples, shared by all broadcasts.
///
/// Memory: 16 KiB per generator for up to 2,048 of them, 4 KiB for more; never above 32 MiB.
#[derive(Clone, Debug)]
pub struct Generators {
    backend: Backend,
    table: Arc<Table>,
}

impl Generators {
    /// Hashes `elements_max` generators to the group and builds their tables (some 30 µs each).
    ///
    /// Panics above [`ELEMENTS_MAX`].
    pub fn new(backend: Backend, elements_max: u32) -> Generators {
        assert!(
            elements_max <= ELEMENTS_MAX,
            "{elements_max} generators, limit {ELEMENTS_MAX}"
        );
        let points: Vec<Point> = (0..elements_max).map(generator).collect();
        Generators::from_points(backend, &points)
    }

    fn from_points(backend: Backend, points: &[Point]) -> Generators {
        let window = if points.len() <= ELEMENTS_WIDE_MAX {
            Window::Bits8
        } else {
            Window::Bits6
        };
        Generators {
            backend,
            table: Arc::new(Table::new(window, points)),
        }
    }

    /// Maximum number of elements of a chunk.
    pub(crate) fn elements_max(&self) -> u32 {
        self.table.len() as u32
    }

    /// The kernels in use.
    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the commitment Σ_j v_j·G_j to each row, as 32-byte encodings. Rows must have equal length.
    pub fn commit(&self, rows: &[&Row]) -> Vec<[u8; 32]> {
        self.sums(rows).iter().map(Point::vartime_encode).collect()
    }

    /// Returns the commitments to the source chunks of one generation.
    pub(crate) fn commitment_table(&self, rows: &[&Row]) -> CommitmentTable {
        let points = self.sums(rows);
        let encoded = points.iter().map(Point::vartime_encode).collect();
        CommitmentTable::new(encoded, &points)
    }

    fn sums(&self, rows: &[&Row]) -> Vec<Point> {
        self.backend.multiply(&self.table, rows)
    }

    /// Σ_j data[j]·G_j - Σ_i coefficients[i]·C_i: zero in the group iff the row is valid.
    fn defect(&self, commitments: &CommitmentTable, coefficients: &Row, data: &Row) -> Point {
        let parts = [(&*self.table, data), (&*commitments.negated, coefficients)];
        self.backend.multiply_all(&parts)
    }

    /// Checks up to [`VERIFY_BATCH_MAX`] chunks of one generation at once.
    ///
    /// One chunk is checked directly. Several are checked as one combination with random weights. If it fails, halves
    /// are tried, and the defect of a right half is the difference of two known ones. A bad chunk passes with
    /// probability at most 2^-128; a good one never fails. Chunks of one sender should be adjacent, so that its bad
    /// ones are found with few sums.
    ///
    /// Panics on more chunks than that, and on chunks that do not match the shape of the commitments.
    pub fn verify(
        &self,
        commitments: &CommitmentTable,
        chunks: &[&Chunk],
        weights: &mut Weights,
    ) -> Verdicts {
        assert!(
            chunks.len() <= VERIFY_BATCH_MAX,
            "{} chunks in a batch",
            chunks.len()
        );
        let mut verdicts = Verdicts {
            valid: vec![true; chunks.len()],
            sums: 0,
        };
        if chunks.is_empty() {
            return verdicts;
        }
        let factors: Vec<Scalar> = match chunks {
            // There is no other defect that could cancel the one of a lone chunk.
            [_] => vec![Scalar::ONE],
            _ => chunks.iter().map(|_| weights.draw()).collect(),
        };
        let batch = Batch {
            generators: self,
            commitments,
            chunks,
            factors,
        };
        let defect = batch.defect(0, chunks.len(), &mut verdicts);
        batch.bisect(0, chunks.len(), &defect, &mut verdicts);
        verdicts
    }
}

/// Maximum number of chunks per verification.
pub const VERIFY_BATCH_MAX: usize = ROWS_MAX;

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// Validity of each chunk, in order.
    pub valid: Vec<bool>,
    /// Number of sums over the generators it took.
    pub sums: usize,
}

struct Batch<'a> {
    generators: &'a Generators,
    commitments: &'a CommitmentTable,
    chunks: &'a [&'a Chunk],
    factors: Vec<Scalar>,
}

impl Batch<'_> {
    /// The weighted sum of the defects of chunks `from..to`.
    fn defect(&self, from: usize, to: usize, verdicts: &mut Verdicts) -> Point {
        verdicts.sums += 1;
        // A lone chunk is checked without a copy.
        if let [chunk] = &self.chunks[from..to]
            && self.factors[from] == Scalar::ONE
        {
            return self
                .generators
                .defect(self.commitments, &chunk.coefficients, &chunk.data);
        }
        let backend = self.generators.backend;
        let factors = &self.factors[from..to];
        let chunks = &self.chunks[from..to];
        let data: Vec<&Row> = chunks.iter().map(|chunk| &chunk.data).collect();
        let coefficients: Vec<&Row> = chunks.iter().map(|chunk| &chunk.coefficients).collect();
        self.generators.defect(
            self.commitments,
            &backend.combine(factors, &coefficients),
            &backend.combine(factors, &data),
        )
    }

    /// Finds the bad chunks in `from..to`, whose total defect is known.
    fn bisect(&self, from: usize, to: usize, defect: &Point, verdicts: &mut Verdicts) {
        if defect.vartime_is_identity() {
            return;
        }
        if to - from == 1 {
            verdicts.valid[from] = false;
            return;
        }
        let middle = from + (to - from) / 2;
        let left = self.defect(from, middle, verdicts);
        let right = defect.sub(&left);
        self.bisect(from, middle, &left, verdicts);
        self.bisect(middle, to, &right, verdicts);
    }
}

/// The decoded commitments of one generation, with a small table of their negatives.
#[derive(Clone, Debug)]
pub struct CommitmentTable {
    encoded: Arc<[Hash]>,
    negated: Arc<Table>,
}

impl CommitmentTable {
    /// Decodes N·32 bytes. The identity is legal: it is the commitment to a zero chunk.
    pub fn decode(bytes: &[u8], chunks: u16) -> Result<CommitmentTable, PieceError> {
        let expected = 32 * usize::from(chunks);
        if bytes.len() != expected {
            return Err(PieceError::Length {
                found: bytes.len(),
                expected,
            });
        }
        let mut encoded = Vec::with_capacity(usize::from(chunks));
        let mut points = Vec::with_capacity(usize::from(chunks));
        for (index, chunk) in bytes.chunks_exact(32).enumerate() {
            let encoding: [u8; 32] = chunk.try_into().expect("chunks of 32 bytes");
            let point = Point::vartime_decode(&encoding);
            points.push(point.ok_or(PieceError::NonCanonicalPoint { index })?);
            encoded.push(encoding);
        }
        Ok(CommitmentTable::new(encoded, &points))
    }

    fn new(encoded: Vec<[u8; 32]>, points: &[Point]) -> CommitmentTable {
        // Negative, so that a defect is one sum over both tables.
        let negated: Vec<Point> = points.iter().map(Point::neg).collect();
        let negated = Arc::new(Table::new(Window::Bits4, &negated));
        CommitmentTable {
            encoded: encoded.into(),
            negated,
        }
    }

    /// The encodings in order.
    pub(crate) fn encoded(&self) -> &[[u8; 32]] {
        &self.encoded
    }

    /// The leaf of generation `generation` under the commitment root of the header.
    pub(crate) fn leaf(&self, generation: u16) -> Hash {
        commitment_leaf(generation, &self.encoded)
    }
}

pub(crate) fn commitment_leaf(generation: u16, encoded: &[[u8; 32]]) -> Hash {
    merkle::leaf(generation, encoded.iter().map(<[u8; 32]>::as_slice))
}

/// The random weights of batches: a ChaCha20 stream with a key unknown to senders.
#[derive(Clone)]
pub struct Weights(Source);

#[derive(Clone)]
enum Source {
    /// Not drawn from yet: a single chunk needs no weight.
    Seed {
        secret: [u8; 32],
        id: Id,
        counter: u64,
    },
    Stream(Box<ChaCha20Rng>),
    /// All weights one, which must never be used outside tests.
    #[cfg(test)]
    Equal,
}

impl Weights {
    /// The weights of one batch: key SHA-256(secret ‖ id ‖ LE64(counter)), nonce 0. The secret must be unpredictable to
    /// senders of chunks, and a counter must not be reused.
    pub fn new(secret: &[u8; 32], id: &Id, counter: u64) -> Weights {
        Weights(Source::Seed {
            secret: *secret,
            id: *id,
            counter,
        })
    }

    #[cfg(test)]
    pub(crate) fn equal() -> Weights {
        Weights(Source::Equal)
    }

    /// 128 bits, never zero.
    fn draw(&mut self) -> Scalar {
        loop {
            match &mut self.0 {
                Source::Seed {
                    secret,
                    id,
                    counter,
                } => {
                    let mut hash = Sha256::new();
                    hash.update(secret);
                    hash.update(id.0);
                    hash.update(counter.to_le_bytes());
                    let stream = ChaCha20Rng::from_seed(hash.finalize().into());
                    self.0 = Source::Stream(Box::new(stream));
                }
                Source::Stream(stream) => {
                    let mut bytes = [0; 16];
                    stream.fill_bytes(&mut bytes);
                    let weight = u128::from_le_bytes(bytes);
                    // A chunk with weight zero would pass unchecked.
                    if weight != 0 {
                        return Scalar::from(weight);
                    }
                }
                #[cfg(test)]
                Source::Equal => return Scalar::ONE,
            }
        }
    }
}

impl fmt::Debug for Weights {
    /// Prints nothing: the weights would allow forgery.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Weights(..)")
    }
}

#[cfg(test)]
mod tests;
