//! The one equation that remains of all equations of a level: a linear form and a right side over the
//! pieces of the witness.

use alphorn_exec::{Exec, Stopped};

use crate::challenge::many_weights;
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::projection::{LIFTS, NO_LIFTS};
use crate::ring::{Ntt, Rq, Small, mul_mod};
use crate::transcript::{Stream, is_left_out};

/// `sum <phi_i, s_i> = b`; `phi` runs over the elements of all pieces.
pub(crate) struct Form {
    pub(crate) phi: Vec<Rq>,
    pub(crate) rhs: Rq,
}

/// Returns the right side of the sum of the lifts, each times its weight.
pub(crate) fn right_side(weights: &[Ntt; LIFTS], values: &[Rq]) -> Rq {
    let values: Vec<Ntt> = values.iter().map(Ntt::from_rq).collect();
    Ntt::dot(weights.iter().zip(&values)).to_rq()
}

/// Elements per task.
const CHUNK: usize = 64;

/// Returns the sums of elements with the same index, each times its weight, computed on several threads.
pub(crate) fn weighted(
    weights: &[Ntt; LIFTS],
    vectors: [&[Rq]; LIFTS],
    exec: Exec<'_>,
) -> Result<Vec<Rq>, Stopped> {
    let parts = exec.try_map(vectors[0].len().div_ceil(CHUNK), |index| {
        let chunk = vectors.map(|vector| chunk(vector, index));
        exec.backend().run(Weighted(weights, chunk))
    })?;
    Ok(parts.concat())
}

/// Returns chunk `index` of a vector.
fn chunk<T>(vector: &[T], index: usize) -> &[T] {
    let rest = &vector[index * CHUNK..];
    &rest[..CHUNK.min(rest.len())]
}

/// [`weighted`] of a chunk.
struct Weighted<'a>(&'a [Ntt; LIFTS], [&'a [Rq]; LIFTS]);

impl Pass for Weighted<'_> {
    type Output = Vec<Rq>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Rq> {
        let mut out = Vec::with_capacity(self.1[0].len());
        let mut parts = NO_LIFTS;
        for index in 0..self.1[0].len() {
            for (part, lift) in parts.iter_mut().zip(self.1) {
                part.set_rq_in::<V>(&lift[index]);
            }
            let sum = Ntt::dot_in::<V>(self.0.iter().zip(&parts));
            out.push(sum.to_rq_in::<V>());
        }
        out
    }
}

/// Iterates over all pairs `i <= j` of pieces, upper triangle by rows: the order of linear garbage.
pub(crate) fn pairs(pieces: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..pieces).flat_map(move |i| (i..pieces).map(move |j| (i, j)))
}

/// Draws the weights of the elements that must be zero.
pub(crate) fn weights_of_padding(count: usize, stream: &mut Stream) -> Vec<Small> {
    let mut out = many_weights(stream, count);
    if is_left_out!(stream, Padding) {
        out.fill(Small::ZERO);
    }
    out
}

/// Returns `2^bits` modulo `Q`.
pub(crate) fn power(bits: u32) -> u64 {
    mul_mod(1 << (bits / 2), 1 << (bits - bits / 2))
}
