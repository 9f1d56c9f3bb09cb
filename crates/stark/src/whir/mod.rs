//! The polynomial commitment: an interleaved variant of WHIR (Arnon, Chiesa, Fenzi, Yogev,
//! ePrint 2024/1586).
//!
//! The committed vector f consists of slices f_i of 2^n elements; i are the highest coordinates. For each point x
//! of a domain, oracle 0 has the row of all Σ_b f_i\[b\]·x^b. Values are taken as coefficients, so each of these
//! is ⟨f_i, pow(x)⟩ with pow(x) = ⊗_t (1, x^(2^t)), a multilinear weight like all others.
//!
//! All claims ⟨W, f⟩ = v are joined by powers of a challenge and reduced by sumcheck. Rounds over the slices leave
//! g = Σ_i eq(α, i)·f_i with a claim. Then g is committed as the next oracle, with 16 slices, and rows of the
//! previous oracle are opened at random points. Each row is one more claim on g: ⟨g, pow(x)⟩ = Σ_i eq(α, i)·row_i.
//! At 256 elements g is sent, and rows of the last oracle are claims on it in the same way. Since slices are the
//! highest coordinates, the rows of an oracle share their x, and domains of different oracles need not be related.
//!
//! After each commitment one value at a random multilinear point pins down one of the few codewords near a wrong
//! oracle (out-of-domain sample).

pub(crate) mod blocks;
mod ntt;
mod oracle;
mod prover;
mod slices;
#[cfg(test)]
mod tests;
mod verifier;
#[cfg(test)]
pub(crate) mod weak;
mod weights;

pub(crate) use oracle::leaf_start;
pub(crate) use prover::{Committer, OpenSlices, open};
pub(crate) use slices::Rounds;
pub(crate) use verifier::{Commitment, Remaining, read_commitment, verify};
pub(crate) use weights::claim_at;

use crate::extension::DEGREE;
use crate::hash::DIGEST;
use crate::merkle::nodes_max;
use crate::multilinear::Scalar;

/// Log2 of the number of tree nodes that are sent.
const CAP_LOG2: usize = 2;

/// One oracle and how it is queried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OracleParameters {
    /// Log2 of the number of points in the domain.
    pub(crate) rows_log2: usize,
    /// Number of coordinates that index its slices.
    pub(crate) slices_log2: usize,
    /// Number of rows opened.
    pub(crate) queries: usize,
    /// Bits of proof of work for each round that folds it.
    pub(crate) fold_bits: u32,
    /// m: proximity is proved up to 1 − √ρ·(1 + 1/2m).
    pub(crate) proximity_m: f64,
}

impl OracleParameters {
    /// The layer of the tree that is sent has 2^this nodes. Nodes below it are sent once where paths share them,
    /// and in a circuit, selecting one of more nodes costs more than the hashes of longer paths.
    pub(crate) fn cap_log2(&self) -> usize {
        CAP_LOG2.min(self.rows_log2)
    }

    /// Maximum number of tree nodes sent with the opened rows.
    pub(crate) fn nodes_max(&self) -> usize {
        nodes_max(self.queries, self.rows_log2, self.cap_log2())
    }
}

/// A choice of oracles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Its number in headers; 0 is the transparent commitment of the tests.
    pub id: u32,
    /// Its name.
    pub name: &'static str,
    /// The oracles, of which the first is the commitment.
    pub(crate) oracles: &'static [OracleParameters],
    /// Bits of proof of work before rows are opened.
    pub(crate) query_bits: u32,
}

const fn oracle(
    rows_log2: usize,
    slices_log2: usize,
    queries: usize,
    fold_bits: u32,
    proximity_m: f64,
) -> OracleParameters {
    OracleParameters {
        rows_log2,
        slices_log2,
        queries,
        fold_bits,
        proximity_m,
    }
}

/// The oracles of the fast preset, the first with 2^`slices_log2` slices.
const fn fast(slices_log2: usize) -> [OracleParameters; 3] {
    [
        oracle(18, slices_log2, 112, 10, 20.0),
        oracle(15, 4, 74, 8, 18.0),
        oracle(13, 4, 44, 8, 16.0),
    ]
}

impl Preset {
    /// Rate 1/4: the fastest prover. Later oracles have short rows and rates of 1/8 and 1/32: of all choices with
    /// 122 bits and as few bytes, these cost the prover the fewest hashes.
    pub const FAST: Preset = Preset {
        id: 1,
        name: "fast",
        oracles: &fast(8),
        query_bits: 14,
    };

    /// Rate 1/16: a smaller proof, for four times the hashes. Later oracles have rates of 1/64 and
    /// 1/256.
    pub const SMALL: Preset = Preset {
        id: 2,
        name: "small",
        oracles: &[
            oracle(20, 8, 53, 10, 10.0),
            oracle(18, 4, 35, 11, 10.0),
            oracle(16, 4, 26, 12, 10.0),
        ],
        query_bits: 20,
    };

    /// The fast preset for merges, whose commitments have half as many slices.
    pub const MERGE: Preset = Preset {
        id: 4,
        name: "merge",
        oracles: &fast(7),
        ..Preset::FAST
    };

    /// The fast preset for the wide shape, whose first oracle has four times as many slices.
    pub const WIDE: Preset = Preset {
        id: 3,
        name: "wide",
        oracles: &fast(10),
        ..Preset::FAST
    };

    /// Number of coordinates of the committed vector within a slice, and of the polynomial sent last.
    pub(crate) fn last_log2(&self, slice_log2: usize) -> usize {
        let folded: usize = self.oracles[1..].iter().map(|o| o.slices_log2).sum();
        slice_log2 - folded
    }
}

/// Maximum number of elements of F_p in commitment and opening, for a first oracle of this many slices.
pub(crate) fn elements(preset: &Preset, slice_log2: usize, slices: usize) -> usize {
    const NONCE: usize = 2;
    let sample = DEGREE;
    let mut total = 0;
    for (number, oracle) in preset.oracles.iter().enumerate() {
        let width = match number {
            0 => slices,
            _ => DEGREE << oracle.slices_log2,
        };
        // A round sends two coefficients and the nonce of its work. The rounds over the last polynomial have no
        // work.
        let rounds = oracle.slices_log2 * (2 * DEGREE + NONCE);
        total += (DIGEST << oracle.cap_log2()) + sample + rounds;
        total += NONCE + oracle.queries * width + DIGEST * oracle.nodes_max();
    }
    let last_log2 = preset.last_log2(slice_log2);
    total + (DEGREE << last_log2) + last_log2 * 2 * DEGREE
}

/// Σ_b eq(ζ, b)·x^b: the weight pow(x) at a point.
pub(crate) fn power_at<E: Scalar + std::ops::Mul<B, Output = E>, B: Scalar>(
    one: E,
    point: &[E],
    x: B,
) -> E {
    // The last coordinate is the lowest bit of b, so its factor has x itself, and those before it x², x^4, ….
    let mut power = x;
    point.iter().rev().fold(one, |product, zeta| {
        let factor = one - *zeta + *zeta * power;
        power = power * power;
        product * factor
    })
}
