//! The random projection that shows that a vector is short (the modular Johnson-Lindenstrauss
//! lemma of LaBRADOR, eprint 2022/1341, section 4, as sharpened in eprint 2024/311).
//!
//! The entries are ternary: 0 with probability 1/2, +-1 with 1/4 each. Entries `+-1` would not
//! do: modulo `Q` the vector `(1/2, ..., 1/2)` has 64 halves in each element, any signed sum of
//! them is a small integer, and a vector that is far from short would pass.

use std::ops::Range;

use crate::kernel::{Backend, Pass, Vectors};
use crate::ring::{DEGREE, RESIDUE_BYTES, Rq, Small, centred, reduce};
use crate::transcript::{Seed, Stream};

/// Rows of a projection.
pub const ROWS: usize = 256;

/// Lifts of a level: each catches a false equation except with probability about `1/Q`.
pub const LIFTS: usize = 3;

/// Bytes of the stream that hold the entries of one ring element: two bits an entry.
const ELEMENT_BYTES: usize = ROWS * DEGREE / 4;

/// Bits of a limb of a weight, and limbs that hold 48 bits.
const LIMB_BITS: u32 = 7;
const LIMBS: u32 = 48u32.div_ceil(LIMB_BITS);

/// The four signs of a byte: the bits of its lower half less those of its upper half.
const SIGNS: [[i16; 4]; 256] = {
    let mut table = [[0; 4]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut k = 0;
        while k < 4 {
            table[byte][k] = (byte >> k & 1) as i16 - (byte >> (k + 4) & 1) as i16;
            k += 1;
        }
        byte += 1;
    }
    table
};

/// One random residue for each row.
pub type Weights = [u64; ROWS];

/// A projection matrix of 256 rows, known by its seed and never stored.
pub struct Projection(Seed);

impl Projection {
    /// The matrix of a seed.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self(seed)
    }

    /// The signs of ring element `index`: `signs[row][coefficient]`.
    ///
    /// The stream holds two planes of 2048 bytes; an entry is the difference of the bits
    /// `(row / 4) 256 + 4 coefficient + row mod 4` of both, least significant bit first, so a
    /// word of 64 bits covers 16 coefficients in four rows.
    #[inline(always)]
    fn signs(&self, index: usize) -> Box<[[i16; DEGREE]; ROWS]> {
        let mut bytes = [0u8; ELEMENT_BYTES];
        let mut stream = self.0.stream_at((index * ELEMENT_BYTES) as u64);
        stream.fill(&mut bytes);
        let (plus, minus) = bytes.split_at(ELEMENT_BYTES / 2);
        let mut signs = Box::new([[0i16; DEGREE]; ROWS]);
        let planes = plus.chunks_exact(32).zip(minus.chunks_exact(32));
        for (rows, (plus, minus)) in signs.as_chunks_mut::<4>().0.iter_mut().zip(planes) {
            for (pair, (&x, &y)) in plus.iter().zip(minus).enumerate() {
                let low = &SIGNS[usize::from(x & 15 | y << 4)];
                let high = &SIGNS[usize::from(x >> 4 | y & 0xf0)];
                for (k, row) in rows.iter_mut().enumerate() {
                    row[2 * pair] = low[k];
                    row[2 * pair + 1] = high[k];
                }
            }
        }
        signs
    }

    /// The product of the matrix and `vector`, as integers.
    #[must_use]
    pub fn project(&self, vector: &[Small], backend: Backend) -> [i64; ROWS] {
        self.project_from(0, vector, backend)
    }

    /// The product of the matrix from the columns of ring element `first` on and `vector`.
    #[must_use]
    pub fn project_from(&self, first: usize, vector: &[Small], backend: Backend) -> [i64; ROWS] {
        let blocks = [vector];
        let images = backend.run(Project {
            projection: self,
            first,
            blocks: &blocks,
        });
        images[0]
    }

    /// The images of all blocks of a vector under one copy of the matrix each: the vector is cut
    /// into pieces of `rank`, and each piece into blocks of `block`, the last of them shorter.
    ///
    /// # Panics
    /// If rank or block is zero.
    #[must_use]
    pub fn project_blocks(
        &self,
        vector: &[Small],
        rank: usize,
        block: usize,
        backend: Backend,
    ) -> Vec<[i64; ROWS]> {
        let pieces = vector.chunks(rank).flat_map(|piece| piece.chunks(block));
        let blocks: Vec<&[Small]> = pieces.collect();
        backend.run(Project {
            projection: self,
            first: 0,
            blocks: &blocks,
        })
    }

    /// For each lift and each index the ring element `phi` with `ct(phi s) = <weights, M s>` for
    /// every `s`, where `M` are the 64 columns of ring element `index`.
    #[must_use]
    pub fn collapse(
        &self,
        indices: Range<usize>,
        weights: &[Weights; LIFTS],
        backend: Backend,
    ) -> [Vec<Rq>; LIFTS] {
        backend.run(Collapse {
            projection: self,
            indices,
            weights,
        })
    }
}

struct Project<'a> {
    projection: &'a Projection,
    first: usize,
    blocks: &'a [&'a [Small]],
}

impl Pass for Project<'_> {
    type Output = Vec<[i64; ROWS]>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<[i64; ROWS]> {
        let mut out = vec![[0i64; ROWS]; self.blocks.len()];
        let longest = self.blocks.iter().map(|block| block.len()).max();
        for index in 0..longest.unwrap_or(0) {
            let signs = self.projection.signs(self.first + index);
            for (image, block) in out.iter_mut().zip(self.blocks) {
                if let Some(element) = block.get(index) {
                    add_image(image, &signs, element);
                }
            }
        }
        out
    }
}

struct Collapse<'a> {
    projection: &'a Projection,
    indices: Range<usize>,
    weights: &'a [Weights; LIFTS],
}

impl Pass for Collapse<'_> {
    type Output = [Vec<Rq>; LIFTS];

    #[inline(always)]
    fn run<V: Vectors>(self) -> [Vec<Rq>; LIFTS] {
        let mut limbs = Box::new([[[0i16; ROWS]; LIMBS as usize]; LIFTS]);
        for (limbs, weights) in limbs.iter_mut().zip(self.weights) {
            for (limb, part) in limbs.iter_mut().enumerate() {
                for (part, weight) in part.iter_mut().zip(weights) {
                    *part = (weight >> (LIMB_BITS * limb as u32) & ((1 << LIMB_BITS) - 1)) as i16;
                }
            }
        }
        let mut out = [const { Vec::new() }; LIFTS];
        for index in self.indices {
            let signs = self.projection.signs(index);
            for (out, limbs) in out.iter_mut().zip(limbs.iter()) {
                let mut sums = [0i64; DEGREE];
                for (limb, parts) in limbs.iter().enumerate() {
                    let shift = LIMB_BITS * limb as u32;
                    for (sum, part) in sums.iter_mut().zip(limb_sums(&signs, parts)) {
                        *sum += i64::from(part) << shift;
                    }
                }
                out.push(Rq::from_integers(&sums).sigma());
            }
        }
        out
    }
}

#[inline(always)]
fn add_image(image: &mut [i64; ROWS], signs: &[[i16; DEGREE]; ROWS], element: &Small) {
    for (out, row) in image.iter_mut().zip(signs) {
        // 64 terms below 2^15 each.
        let sum = (row.iter().zip(&element.0)).fold(0i32, |sum, (&e, &c)| {
            sum.wrapping_add(i32::from(e).wrapping_mul(i32::from(c)))
        });
        *out += i64::from(sum);
    }
}

/// `sum_row signs[row] parts[row]`: 256 terms below `2^7` each stay below `2^15`, so sixteen bits
/// suffice.
#[inline(always)]
fn limb_sums(signs: &[[i16; DEGREE]; ROWS], parts: &[i16; ROWS]) -> [i16; DEGREE] {
    let mut sums = [0i16; DEGREE];
    for (row, &part) in signs.iter().zip(parts) {
        for (sum, &e) in sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(e.wrapping_mul(part));
        }
    }
    sums
}

/// The squared norm of an image.
#[must_use]
pub fn image_norm_sq(image: &[i64; ROWS]) -> u128 {
    image
        .iter()
        .map(|&x| u128::from(x.unsigned_abs()).pow(2))
        .sum()
}

/// Uniform weights of all lifts.
#[must_use]
pub fn weights(stream: &mut Stream) -> [Weights; LIFTS] {
    let mut bytes = vec![0; LIFTS * ROWS * RESIDUE_BYTES];
    stream.fill(&mut bytes);
    let mut residues = bytes.chunks_exact(RESIDUE_BYTES).map(|chunk| {
        let mut word = [0; 8];
        word[..RESIDUE_BYTES].copy_from_slice(chunk);
        u64::from_le_bytes(word) % crate::ring::Q
    });
    std::array::from_fn(|_| std::array::from_fn(|_| residues.next().unwrap_or(0)))
}

/// `<weights, image>` modulo `Q`: what the constant coefficient of a lift must be.
#[must_use]
pub fn weigh(weights: &Weights, image: &[i64; ROWS]) -> u64 {
    let sum: i128 = (weights.iter().zip(image))
        .map(|(&w, &x)| i128::from(centred(w)) * i128::from(centred(reduce(x))))
        .sum();
    sum.rem_euclid(i128::from(crate::ring::Q)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Q, add_mod, inner_product, norm_sq};

    fn vector(length: usize) -> Vec<Small> {
        let mut stream = Seed::of_name("projected").stream();
        (0..length)
            .map(|_| {
                let wide = stream.element().centred();
                Small(std::array::from_fn(|i| (wide[i] % 300) as i16))
            })
            .collect()
    }

    #[test]
    fn the_collapse_is_the_transpose_of_the_projection() {
        let projection = Projection::new(Seed::of_name("projection"));
        let vector = vector(7);
        let weights = weights(&mut Seed::of_name("weights").stream());
        let backend = Backend::measured();
        let image = projection.project(&vector, backend);
        for (lift, weight) in weights.iter().enumerate() {
            let collapsed = projection.collapse(0..vector.len(), &weights, backend);
            let sum = vector.iter().enumerate().fold(0, |sum, (i, s)| {
                let phi = &collapsed[lift][i];
                add_mod(sum, inner_product(&phi.sigma(), s))
            });
            assert_eq!(sum, weigh(weight, &image));
        }
    }

    #[test]
    fn images_have_half_the_energy_a_row() {
        let vector = vector(20);
        let norm = norm_sq(&vector) as f64;
        for i in 0..8 {
            let projection = Projection::new(Seed::of_name(&format!("projection {i}")));
            let ratio =
                image_norm_sq(&projection.project(&vector, Backend::portable())) as f64 / norm;
            // 128 with a standard deviation of 11.
            assert!((70.0..190.0).contains(&ratio), "ratio {ratio}");
        }
    }

    #[test]
    fn entries_are_ternary_with_half_zeros() {
        let projection = Projection::new(Seed::of_name("entries"));
        let signs = projection.signs(3);
        let count = |value: i16| signs.iter().flatten().filter(|&&e| e == value).count();
        assert_eq!(count(0) + count(1) + count(-1), ROWS * DEGREE);
        assert!((7800..8600).contains(&count(0)), "{}", count(0));
        assert!((3700..4500).contains(&count(1)), "{}", count(1));
    }

    /// The vector of halves: short after a projection by signs alone, long after ours.
    #[test]
    fn halves_do_not_pass_as_short() {
        let half = centred(Q.div_ceil(2));
        let projection = Projection::new(Seed::of_name("halves"));
        let signs = projection.signs(0);
        let long = |row: &[i16; DEGREE]| {
            let sum = row
                .iter()
                .fold(0i128, |s, &e| s + i128::from(e) * i128::from(half));
            centred(sum.rem_euclid(i128::from(Q)) as u64).unsigned_abs() > 1 << 40
        };
        assert!(signs.iter().filter(|row| long(row)).count() > 80);
        let without_zeros = signs.map(|row| row.map(|e| if e == 0 { 1 } else { e }));
        assert!(!without_zeros.iter().any(long));
    }
}
