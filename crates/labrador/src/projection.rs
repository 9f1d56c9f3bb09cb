//! The random projection that shows that a vector is short (the modular Johnson-Lindenstrauss
//! lemma of LaBRADOR, eprint 2022/1341, section 4, as sharpened in eprint 2024/311).
//!
//! The entries are ternary: 0 with probability 1/2, +-1 with 1/4 each. Entries `+-1` alone would not
//! work: modulo `Q` the vector `(1/2, ..., 1/2)` has 64 halves in each element, any signed sum of
//! them is a small integer, and a vector that is far from short would pass.

use std::any::Any;
use std::ops::Range;

use alphorn_exec::{Backend, Exec, Stopped};

use crate::kernel::{
    Dispatch, Pass, SIGN_GROUPS, SIGN_LIFTS, SIGN_ROWS, SignPlanes, Vector, Vectors,
};
use crate::ring::{DEGREE, Ntt, RESIDUE_BYTES, Rq, Small, centred, reduce};
use crate::transcript::{Seed, Stream};

/// Number of rows of a projection.
pub(crate) const ROWS: usize = 256;

/// Lifts per level: each catches a false equation except with probability about `1/Q`.
pub const LIFTS: usize = 3;

/// Bytes of the stream that hold the entries for one ring element: two bits per entry.
const ELEMENT_BYTES: usize = ROWS * DEGREE / 4;

/// One random residue per row.
pub(crate) type Weights = [u64; ROWS];

/// The weights of all lifts in the form that a kernel reads, prepared once for all tasks.
pub(crate) struct SignWeights(Box<dyn Any + Send + Sync>);

impl SignWeights {
    pub(crate) fn new(weights: &[Weights; LIFTS], backend: Backend) -> Self {
        backend.run(Prepare(weights))
    }

    /// Returns the weights of the kernel they were prepared for.
    #[inline(always)]
    fn of<V: Vectors>(&self) -> &V::SignWeights {
        let weights = self.0.downcast_ref();
        weights.expect("weights are read by the kernel that they were made for")
    }
}

struct Prepare<'a>(&'a [Weights; LIFTS]);

impl Pass for Prepare<'_> {
    type Output = SignWeights;

    #[inline(always)]
    fn run<V: Vectors>(self) -> SignWeights {
        SignWeights(V::sign_weights(self.0))
    }
}

/// A projection matrix of 256 rows, represented by its seed and never stored.
pub(crate) struct Projection(Seed);

impl Projection {
    /// Returns the matrix of a seed.
    #[must_use]
    pub(crate) fn new(seed: Seed) -> Self {
        Self(seed)
    }

    /// Returns the signs for ring elements from `first` on, as bit planes.
    fn planes(&self, first: usize) -> Planes {
        let stream = self.0.stream_at((first * ELEMENT_BYTES) as u64);
        Planes(stream, Box::new(Lines([[0; ELEMENT_BYTES / 2]; 2])))
    }

    /// Returns the product of the matrix and `vector`, as integers.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn project(&self, vector: &[Small], backend: Backend) -> [i64; ROWS] {
        let image = self.project_from(0, vector, Exec::new(backend, None));
        image.expect("nothing stops the calling thread")
    }

    /// Returns the product of `vector` and the matrix columns that start at ring element `first`.
    pub(crate) fn project_from(
        &self,
        first: usize,
        vector: &[Small],
        exec: Exec<'_>,
    ) -> Result<[i64; ROWS], Stopped> {
        let images = self.project_all(first, &[vector], exec)?;
        Ok(images[0])
    }

    /// Returns the images of all blocks of a vector, each under one copy of the matrix. The vector is cut
    /// into pieces of `rank`, and each piece into blocks of `block`, the last of which is shorter.
    pub(crate) fn project_blocks(
        &self,
        vector: &[Small],
        rank: usize,
        block: usize,
        exec: Exec<'_>,
    ) -> Result<Vec<[i64; ROWS]>, Stopped> {
        let pieces = vector.chunks(rank).flat_map(|piece| piece.chunks(block));
        let blocks: Vec<&[Small]> = pieces.collect();
        self.project_all(0, &blocks, exec)
    }

    /// Returns the images of the parts of a vector, all under the first columns of the matrix. All parts but the
    /// last have this many elements.
    pub(crate) fn project_parts(
        &self,
        vector: &[Small],
        each: usize,
        exec: Exec<'_>,
    ) -> Result<Vec<[i64; ROWS]>, Stopped> {
        let parts: Vec<&[Small]> = vector.chunks(each).collect();
        self.project_all(0, &parts, exec)
    }

    fn project_all(
        &self,
        first: usize,
        blocks: &[&[Small]],
        exec: Exec<'_>,
    ) -> Result<Vec<[i64; ROWS]>, Stopped> {
        let longest = blocks.iter().map(|block| block.len()).max().unwrap_or(0);
        // The matrix is generated once for all blocks, so a task takes some positions of every block.
        let each = longest.div_ceil(TASKS_MAX).max(TILE);
        let parts = exec.try_map(longest.div_ceil(each), |task| {
            exec.backend().run(Project {
                projection: self,
                first,
                places: task * each..longest.min((task + 1) * each),
                blocks,
            })
        })?;
        let mut out = vec![[0; ROWS]; blocks.len()];
        for part in &parts {
            for (sum, &x) in out.as_flattened_mut().iter_mut().zip(part.as_flattened()) {
                *sum += x;
            }
        }
        Ok(out)
    }

    /// Returns, for each lift and each index, the ring element `phi` with `ct(phi s) = <weights, M s>` for
    /// every `s`, where `M` is the 64 columns of ring element `index`.
    #[must_use]
    pub(crate) fn collapse(
        &self,
        indices: Range<usize>,
        weights: &SignWeights,
        backend: Backend,
    ) -> [Vec<Rq>; LIFTS] {
        backend.run(Collapse {
            projection: self,
            indices,
            weights,
        })
    }
}

impl Projection {
    /// [`Projection::collapse`] for elements from `first` on, as residues, with the lifts of an element adjacent.
    pub(crate) fn collapse_residues(
        &self,
        first: usize,
        weights: &SignWeights,
        out: &mut [Lifts],
        backend: Backend,
    ) {
        backend.run(CollapseResidues {
            projection: self,
            first,
            weights,
            out,
        });
    }

    /// Adds to each sum the results of [`Projection::collapse`] for its element in each of several runs, each
    /// lift multiplied by its factor. A run is given by its first element and its factors.
    pub(crate) fn add_collapsed(
        &self,
        runs: &[(usize, &Lifts)],
        weights: &SignWeights,
        sums: &mut [Ntt],
        backend: Backend,
    ) {
        backend.run(AddCollapsed {
            projection: self,
            runs,
            weights,
            sums,
        });
    }
}

/// One number per lift.
pub(crate) type Lifts = [Ntt; LIFTS];

/// All zeros.
pub(crate) const NO_LIFTS: Lifts = [const { Ntt::zero() }; LIFTS];

/// The bit planes of successive ring elements.
struct Planes(Stream, Box<Lines>);

/// Bit planes aligned to cache lines; otherwise vectors of the stream would be stored across two.
#[repr(align(64))]
struct Lines(SignPlanes);

impl Planes {
    #[inline(always)]
    fn next(&mut self) -> &SignPlanes {
        self.0.fill(self.1.0.as_flattened_mut());
        &self.1.0
    }
}

/// Number of elements whose signs are unpacked at a time.
const TILE: usize = 16;

/// Maximum number of tasks of a projection.
const TASKS_MAX: usize = 8;

/// Some positions of the images of all blocks.
struct Project<'a> {
    projection: &'a Projection,
    first: usize,
    places: Range<usize>,
    blocks: &'a [&'a [Small]],
}

impl Pass for Project<'_> {
    type Output = Vec<[i64; ROWS]>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<[i64; ROWS]> {
        let mut out = vec![[0i64; ROWS]; self.blocks.len()];
        let mut planes = self.projection.planes(self.first + self.places.start);
        let mut signs = vec![[[0i16; DEGREE]; ROWS]; TILE.min(self.places.len())];
        let mut place = self.places.start;
        while place < self.places.end {
            let count = TILE.min(self.places.end - place);
            for signs in &mut signs[..count] {
                V::unpack_signs(planes.next(), signs);
            }
            for (image, block) in out.iter_mut().zip(self.blocks) {
                // Shorter blocks end earlier.
                let rest = block.get(place..).unwrap_or_default();
                let elements = &rest[..rest.len().min(count)];
                add_image::<V::Wide>(image, &signs[..elements.len()], elements);
            }
            place += count;
        }
        out
    }
}

/// Returns two consecutive vectors.
#[inline(always)]
pub(crate) fn two<V: Vector>(row: &[i16; DEGREE], at: usize) -> (V, V) {
    (V::load(&row[at..]), V::load(&row[at + V::LANES..]))
}

/// Number of rows whose sums stay in registers.
const GROUP: usize = 8;

/// Adds the products of signs and coefficients for up to [`TILE`] elements. A 32-bit sum has at most
/// `16 * 8` terms below `2^15`.
#[inline(always)]
fn add_image<V: Vector>(
    image: &mut [i64; ROWS],
    signs: &[[[i16; DEGREE]; ROWS]],
    elements: &[Small],
) {
    for (group, out) in image.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let mut sums = [V::no_sums(); GROUP];
        for (signs, element) in signs.iter().zip(elements) {
            for at in (0..DEGREE).step_by(2 * V::LANES) {
                let right = two::<V>(&element.0, at);
                for (sum, row) in sums.iter_mut().zip(&signs[group * GROUP..]) {
                    *sum = V::accumulate(*sum, two::<V>(row, at), right);
                }
            }
        }
        for (out, sums) in out.iter_mut().zip(sums) {
            let mut parts = [0; 32];
            V::store_sums(sums, &mut parts);
            *out += parts.iter().map(|&x| i64::from(x)).sum::<i64>();
        }
    }
}

struct Collapse<'a> {
    projection: &'a Projection,
    indices: Range<usize>,
    weights: &'a SignWeights,
}

impl Pass for Collapse<'_> {
    type Output = [Vec<Rq>; LIFTS];

    #[inline(always)]
    fn run<V: Vectors>(self) -> [Vec<Rq>; LIFTS] {
        let weights = self.weights.of::<V>();
        let mut planes = self.projection.planes(self.indices.start);
        let mut out = [const { Vec::new() }; LIFTS];
        let mut sums = [[0; DEGREE]; LIFTS];
        for _ in self.indices {
            V::weigh_signs(planes.next(), weights, &mut sums);
            for (out, sums) in out.iter_mut().zip(&sums) {
                out.push(Rq::from_integers(&turned(sums)));
            }
        }
        out
    }
}

/// The same as residues, for sums that are read only once.
struct CollapseResidues<'a> {
    projection: &'a Projection,
    first: usize,
    weights: &'a SignWeights,
    out: &'a mut [Lifts],
}

impl Pass for CollapseResidues<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let weights = self.weights.of::<V>();
        let mut planes = self.projection.planes(self.first);
        collapse_residues::<V>(&mut planes, weights, self.out);
    }
}

#[inline(always)]
fn collapse_residues<V: Vectors>(planes: &mut Planes, weights: &V::SignWeights, out: &mut [Lifts]) {
    let mut sums = [[0; DEGREE]; LIFTS];
    for out in out {
        V::weigh_signs(planes.next(), weights, &mut sums);
        for (out, sums) in out.iter_mut().zip(&sums) {
            out.set_sums_in::<V>(&turned(sums));
        }
    }
}

/// See [`Projection::add_collapsed`].
struct AddCollapsed<'a> {
    projection: &'a Projection,
    runs: &'a [(usize, &'a Lifts)],
    weights: &'a SignWeights,
    sums: &'a mut [Ntt],
}

/// Elements of each run processed at a time: those of eight runs stay in the cache.
const NEAR: usize = 4;

impl Pass for AddCollapsed<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let weights = self.weights.of::<V>();
        let runs = self
            .runs
            .iter()
            .map(|(first, _)| self.projection.planes(*first));
        let mut planes: Vec<Planes> = runs.collect();
        let mut terms = vec![NO_LIFTS; NEAR * planes.len()];
        for sums in self.sums.chunks_mut(NEAR) {
            for (planes, terms) in planes.iter_mut().zip(terms.chunks_exact_mut(NEAR)) {
                collapse_residues::<V>(planes, weights, &mut terms[..sums.len()]);
            }
            for (k, sum) in sums.iter_mut().enumerate() {
                let terms = terms[k..].iter().step_by(NEAR).flatten();
                let factors = self.runs.iter().flat_map(|(_, factors)| *factors);
                sum.add_dot_in::<V>(terms.zip(factors));
            }
        }
    }
}

/// Applies `X -> X^-1` to the sums of 64 columns, which gives the element's coefficients before reduction.
#[inline(always)]
fn turned(sums: &[i64; DEGREE]) -> [i64; DEGREE] {
    let mut out = [0; DEGREE];
    out[0] = sums[0];
    for (out, &sum) in out[1..].iter_mut().rev().zip(&sums[1..]) {
        *out = -sum;
    }
    out
}

const _: () = assert!(SIGN_LIFTS == LIFTS && SIGN_GROUPS * SIGN_ROWS == ROWS);

/// Returns the expected square of one number of the image of a vector of at most this squared norm. Half of
/// the entries are zero, the others `+-1`.
pub(crate) fn image_variance(norm_sq: u128) -> u128 {
    norm_sq / 2
}

/// Returns the squared norm of images, saturating at the largest number. A sum that wrapped around would
/// accept images of any length as short.
#[must_use]
pub(crate) fn image_norm_sq(images: &[[i64; ROWS]]) -> u128 {
    let squares = (images.as_flattened().iter()).map(|&x| u128::from(x.unsigned_abs()).pow(2));
    squares.fold(0, u128::saturating_add)
}

/// Draws uniform weights for all lifts.
#[must_use]
pub(crate) fn weights(stream: &mut Stream) -> [Weights; LIFTS] {
    let mut bytes = vec![0; LIFTS * ROWS * RESIDUE_BYTES];
    stream.fill(&mut bytes);
    let mut residues = bytes.chunks_exact(RESIDUE_BYTES).map(|chunk| {
        let mut word = [0; 8];
        word[..RESIDUE_BYTES].copy_from_slice(chunk);
        u64::from_le_bytes(word) % crate::ring::Q
    });
    std::array::from_fn(|_| std::array::from_fn(|_| residues.next().unwrap_or(0)))
}

/// Returns `<weights, image>` modulo `Q`: the required constant coefficient of a lift.
#[must_use]
pub(crate) fn weigh(weights: &Weights, image: &[i64; ROWS]) -> u64 {
    // 256 products of centred residues: below `2^102`.
    let sum: i128 = (weights.iter().zip(image))
        .map(|(&w, &x)| i128::from(centred(w)) * i128::from(centred(reduce(x))))
        .sum();
    sum.rem_euclid(i128::from(crate::ring::Q)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KERNELS;
    use crate::ring::{Q, Transforms, add_mod, inner_product, norm_sq};

    fn vector(length: usize) -> Vec<Small> {
        let mut stream = Seed::of_name("projected").stream();
        (0..length)
            .map(|_| {
                let wide = stream.element().centred();
                Small(std::array::from_fn(|i| (wide[i] % 300) as i16))
            })
            .collect()
    }

    struct Unpack<'a>(&'a SignPlanes);

    impl Pass for Unpack<'_> {
        type Output = Box<[[i16; DEGREE]; ROWS]>;

        #[inline(always)]
        fn run<V: Vectors>(self) -> Self::Output {
            let mut out = Box::new([[0; DEGREE]; ROWS]);
            V::unpack_signs(self.0, &mut out);
            out
        }
    }

    /// Unpacks the signs of a ring element, checking that all levels agree.
    fn unpacked(projection: &Projection, index: usize) -> Box<[[i16; DEGREE]; ROWS]> {
        let mut planes = projection.planes(index);
        let planes = planes.next();
        let signs = Backend::Portable.run(Unpack(planes));
        for backend in KERNELS.available() {
            assert_eq!(backend.run(Unpack(planes)), signs, "{backend}");
        }
        signs
    }

    #[test]
    fn the_collapse_is_the_transpose_of_the_projection() {
        let projection = Projection::new(Seed::of_name("projection"));
        let vector = vector(7);
        let weights = weights(&mut Seed::of_name("weights").stream());
        let portable = Backend::Portable;
        let image = projection.project(&vector, portable);
        let prepared = SignWeights::new(&weights, portable);
        let alone = projection.collapse(2..7, &prepared, portable);
        for backend in KERNELS.available() {
            let prepared = SignWeights::new(&weights, backend);
            assert_eq!(image, projection.project(&vector, backend));
            assert_eq!(projection.collapse(2..7, &prepared, backend), alone);
            let mut residues = vec![NO_LIFTS; 5];
            projection.collapse_residues(2, &prepared, &mut residues, backend);
            for (k, residues) in residues.iter().enumerate() {
                let elements = residues.each_ref().map(|x| backend.element(x));
                assert_eq!(elements, alone.each_ref().map(|alone| alone[k].clone()));
            }
            // Elements 2 + k and 3 + k and 4 + k.
            let factors: [Lifts; 3] = std::array::from_fn(|run| {
                std::array::from_fn(|l| Ntt::from_small(&vector[LIFTS * (run % 2) + l]))
            });
            let runs: Vec<(usize, &Lifts)> = (2..).zip(&factors).collect();
            let mut sums = vec![Ntt::from_rq(&alone[0][0]); 3];
            projection.add_collapsed(&runs, &prepared, &mut sums, backend);
            for (k, sum) in sums.iter().enumerate() {
                let mut expected = alone[0][0].clone();
                for (run, factors) in factors.iter().enumerate() {
                    for (alone, factor) in alone.iter().zip(factors) {
                        let term = Ntt::from_rq(&alone[run + k]).times(factor).to_rq();
                        expected.add(&term);
                    }
                }
                assert_eq!(sum.to_rq(), expected, "{backend}");
            }
        }
        for (lift, weight) in weights.iter().enumerate() {
            let collapsed = projection.collapse(0..vector.len(), &prepared, portable);
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
                image_norm_sq(&[projection.project(&vector, Backend::Portable)]) as f64 / norm;
            // 128 with a standard deviation of 11.
            assert!((70.0..190.0).contains(&ratio), "ratio {ratio}");
        }
    }

    /// Uses the largest numbers that the code can hold: 256 of their squares are 2^128.
    #[test]
    fn the_norm_of_long_images_does_not_go_round() {
        let far = [[1 << 60; ROWS]; 2];
        for count in 0..=2 {
            let norm = image_norm_sq(&far[..count]);
            assert_eq!(norm, if count == 0 { 0 } else { u128::MAX }, "{count}");
        }
        let mut one = [[0; ROWS]; 2];
        (one[0][3], one[1][3]) = (1 << 60, -3);
        assert_eq!(image_norm_sq(&one), (1 << 120) + 9);
    }

    #[test]
    fn entries_are_ternary_with_half_zeros() {
        let projection = Projection::new(Seed::of_name("entries"));
        let signs = unpacked(&projection, 3);
        let count = |value: i16| signs.iter().flatten().filter(|&&e| e == value).count();
        assert_eq!(count(0) + count(1) + count(-1), ROWS * DEGREE);
        assert!((7800..8600).contains(&count(0)), "{}", count(0));
        assert!((3700..4500).contains(&count(1)), "{}", count(1));
    }

    /// The vector of halves: short after a projection by signs alone, long after this one.
    #[test]
    fn halves_do_not_pass_as_short() {
        let half = centred(Q.div_ceil(2));
        let projection = Projection::new(Seed::of_name("halves"));
        let signs = unpacked(&projection, 0);
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
