//! The relation of each column, `s1 + h s2 - q v = c` in `Z[Y]/(Y^d + 1)`, and products of `h`.

use std::ops::Range;

use alphorn_exec::Exec;

use crate::error::StatementError;
use crate::field::{COORDINATES, F};
use crate::kernel::{Pass, Vector, Vectors};
use crate::lanes::{Fx8, LANES, joined};
use crate::projection::two;
use crate::ring::{DEGREE, Ntt, Rq, Small};

/// The public polynomials of all columns: `h` and `c` for each, and `q`.
#[derive(Clone)]
pub struct Relation<'a> {
    degree: usize,
    modulus: u64,
    factors: Vec<&'a [i16]>,
    targets: Targets<'a>,
}

/// The targets of all columns.
#[derive(Clone)]
pub enum Targets<'a> {
    /// One for each column.
    Given(Vec<&'a [i16]>),
    /// Generated on use. The function returns the targets of a range of columns one after another, exactly one per
    /// column and each of full degree. A verifier reads each target once, so the whole set need not be in memory.
    Made(&'a (dyn Fn(Range<usize>) -> Vec<i16> + Sync)),
}

/// Polynomials whose coefficients are checked per task.
const CHECKED: usize = 256;

impl<'a> Relation<'a> {
    /// Creates a relation with a factor `h` and a target `c` for each column, of `degree` coefficients each, centred
    /// modulo `modulus`, which is odd and below `2^15`. The numbers are checked on the threads of `exec`.
    ///
    /// # Errors
    /// If the modulus is even or too large, the numbers of targets and factors differ, or one of them does not have
    /// this degree or is not centred.
    pub fn new(
        degree: usize,
        modulus: u64,
        factors: Vec<&'a [i16]>,
        targets: Vec<&'a [i16]>,
        exec: Exec<'_>,
    ) -> Result<Self, StatementError> {
        let out = Self::of_shape(degree, modulus, factors, Targets::Given(targets))?;
        out.check_residues(exec)?;
        Ok(out)
    }

    /// The same for numbers that the caller guarantees to be centred by construction: they are not read.
    ///
    /// # Errors
    /// Those of [`Relation::new`] except for numbers that are not centred. Targets that are generated are not
    /// checked.
    pub fn of_centred(
        degree: usize,
        modulus: u64,
        factors: Vec<&'a [i16]>,
        targets: Targets<'a>,
    ) -> Result<Self, StatementError> {
        let out = Self::of_shape(degree, modulus, factors, targets)?;
        debug_assert_eq!(out.check_residues(Exec::serial()), Ok(()));
        Ok(out)
    }

    fn of_shape(
        degree: usize,
        modulus: u64,
        factors: Vec<&'a [i16]>,
        targets: Targets<'a>,
    ) -> Result<Self, StatementError> {
        if modulus.is_multiple_of(2) || modulus >= 1 << 15 {
            return Err(StatementError::Modulus { modulus });
        }
        let given: &[&[i16]] = match &targets {
            Targets::Given(targets) => targets,
            Targets::Made(_) => &[],
        };
        let mut polynomials = factors.iter().chain(given);
        if let Some(other) = polynomials.find(|p| p.len() != degree) {
            let coefficients = other.len();
            return Err(StatementError::Polynomials {
                coefficients,
                degree,
            });
        }
        if matches!(targets, Targets::Given(_)) && factors.len() != given.len() {
            return Err(StatementError::Polynomials {
                coefficients: given.len() * degree,
                degree: factors.len() * degree,
            });
        }
        Ok(Self {
            degree,
            modulus,
            factors,
            targets,
        })
    }

    /// Whether all numbers are centred, except for generated ones.
    fn check_residues(&self, exec: Exec<'_>) -> Result<(), StatementError> {
        let half = (self.modulus / 2) as i16;
        let given: &[&[i16]] = match &self.targets {
            Targets::Given(targets) => targets,
            Targets::Made(_) => &[],
        };
        let all: Vec<&[i16]> = self.factors.iter().chain(given).copied().collect();
        let beyond = exec.map(all.len().div_ceil(CHECKED), |task| {
            let chunk = all.chunks(CHECKED).nth(task).unwrap_or_default();
            let within = chunk.iter().position(|polynomial| {
                // Finds the minimum and the maximum of many at once, on any processor.
                let ends = (polynomial.iter()).fold((0, 0), |(a, b), &c| (c.min(a), c.max(b)));
                ends.0 < -half || ends.1 > half
            });
            within.map(|within| task * CHECKED + within)
        });
        if let Some(&index) = beyond.iter().flatten().next() {
            let mut coefficients = all[index].iter();
            let beyond = coefficients.position(|c| c.unsigned_abs() > half as u16);
            let place = index * self.degree + beyond.unwrap_or(0);
            let modulus = self.modulus;
            return Err(StatementError::Residue { place, modulus });
        }
        Ok(())
    }

    /// Returns the number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.factors.len()
    }

    /// Returns `d`.
    pub(crate) fn degree(&self) -> usize {
        self.degree
    }

    /// Returns `q`.
    pub(crate) fn modulus(&self) -> u64 {
        self.modulus
    }

    /// Returns all `h`.
    pub(crate) fn factors(&self) -> &[&'a [i16]] {
        &self.factors
    }

    /// Applies a function to the `c` of some columns.
    ///
    /// # Panics
    /// If the caller's generator returns a different number of them.
    pub(crate) fn with_targets<T>(
        &self,
        columns: Range<usize>,
        use_them: impl FnOnce(&[&[i16]]) -> T,
    ) -> T {
        match &self.targets {
            Targets::Given(targets) => use_them(&targets[columns]),
            Targets::Made(make) => {
                let expected = columns.len() * self.degree;
                let made = make(columns);
                assert_eq!(made.len(), expected, "a target for each column");
                use_them(&made.chunks_exact(self.degree).collect::<Vec<_>>())
            }
        }
    }
}

/// Returns a polynomial as elements over `X = Y^e`: coefficient `e k + a` is number `k` of element `a`.
#[inline(always)]
fn turned<T: Copy + Default>(from: impl Fn(usize) -> T, e: usize) -> Vec<[T; DEGREE]> {
    let mut out = vec![[T::default(); DEGREE]; e];
    for (a, element) in out.iter_mut().enumerate() {
        for (k, c) in element.iter_mut().enumerate() {
            *c = from(e * k + a);
        }
    }
    out
}

/// A factor `x` of products in `R[Y]/(Y^e - X)`: its elements, and the same times `X`.
pub(crate) struct Multiplier {
    elements: Vec<Ntt>,
    /// The elements times `X`.
    wrapped: Vec<Ntt>,
}

impl Multiplier {
    /// Creates one from elements whose coefficients are at most `bound`.
    #[inline(always)]
    fn of_short<V: Vectors>(polynomial: impl Fn(usize) -> i16, e: usize, bound: u16) -> Self {
        let mut out = Self {
            elements: Vec::with_capacity(e),
            wrapped: Vec::with_capacity(e),
        };
        // No closure contains a step of a level: it would not be compiled for its instructions.
        for element in turned(polynomial, e) {
            let mut turned = element;
            turned.rotate_right(1);
            turned[0] = -turned[0];
            let (element, turned) = (Small(element), Small(turned));
            out.elements.push(Ntt::from_small_in::<V>(&element, bound));
            out.wrapped.push(Ntt::from_small_in::<V>(&turned, bound));
        }
        out
    }

    /// Creates one from residues modulo `Q`.
    fn of_residues(polynomial: impl Fn(usize) -> u64, e: usize) -> Self {
        let mut out = Self {
            elements: Vec::with_capacity(e),
            wrapped: Vec::with_capacity(e),
        };
        for element in turned(polynomial, e) {
            let element = Rq::from_canonical(element).expect("residues");
            let mut turned = element.centred();
            turned.rotate_right(1);
            turned[0] = -turned[0];
            out.elements.push(Ntt::from_rq(&element));
            out.wrapped.push(Ntt::from_rq(&Rq::from_integers(&turned)));
        }
        out
    }

    /// Returns the product with a polynomial of short elements, element by element.
    #[inline(always)]
    fn times<V: Vectors>(&self, by: &[Ntt]) -> Vec<Rq> {
        let e = by.len();
        let mut out = Vec::with_capacity(e);
        for a in 0..e {
            let mut sum = Ntt::zero();
            let terms = by.iter().enumerate().map(|(c, by)| match a.checked_sub(c) {
                Some(b) => (by, &self.elements[b]),
                None => (by, &self.wrapped[a + e - c]),
            });
            sum.add_dot_in::<V>(terms);
            out.push(sum.to_rq_in::<V>());
        }
        out
    }
}

/// `h s` over the integers, for one column.
pub(crate) struct IntegerProduct<'a> {
    pub(crate) factor: &'a [i16],
    pub(crate) s: &'a [&'a Small],
}

impl Pass for IntegerProduct<'_> {
    type Output = Vec<i64>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<i64> {
        let e = self.s.len();
        let h = Multiplier::of_short::<V>(|y| self.factor[y], e, 1 << 14);
        let s = turned(|y| self.s[y / DEGREE].0[y % DEGREE], e);
        let mut by = Vec::with_capacity(e);
        for s in s {
            by.push(Ntt::from_small_in::<V>(&Small(s), 1 << 15));
        }
        let product = h.times::<V>(&by);
        let mut out = vec![0; e * DEGREE];
        for (a, element) in product.iter().enumerate() {
            // The integers themselves: 1024 products of at most `2^29` stay far below `Q / 2`.
            for (k, c) in element.centred().into_iter().enumerate() {
                out[e * k + a] = c;
            }
        }
        out
    }
}

/// Multiplies by a polynomial over `F`.
pub(crate) struct FieldMultiplier([Multiplier; COORDINATES]);

impl FieldMultiplier {
    pub(crate) fn new(u: &[F]) -> Self {
        let e = u.len() / DEGREE;
        Self(std::array::from_fn(|c| {
            Multiplier::of_residues(|y| u[y].0[c], e)
        }))
    }
}

/// Computes `w` with `<u, h s> = <w, s>` for all `s`: the product of `u` and `h(Y^-1)`, eight coefficients side
/// by side.
pub(crate) struct Transposed<'a>(pub(crate) &'a FieldMultiplier, pub(crate) &'a [i16]);

impl Pass for Transposed<'_> {
    type Output = Vec<Fx8>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Fx8> {
        let Self(u, h) = self;
        let (degree, e) = (h.len(), h.len() / DEGREE);
        let mut by = Vec::with_capacity(e);
        for element in turned(|y| if y == 0 { h[0] } else { -h[degree - y] }, e) {
            by.push(Ntt::from_small_in::<V>(&Small(element), 1 << 14));
        }
        let mut out = vec![Fx8::ZERO; degree / LANES];
        for (c, multiplier) in u.0.iter().enumerate() {
            for (a, element) in multiplier.times::<V>(&by).iter().enumerate() {
                for (k, &x) in element.coefficients().iter().enumerate() {
                    let y = e * k + a;
                    out[y / LANES].0[c][y % LANES] = x;
                }
            }
        }
        out
    }
}

/// How far ahead vectors are prefetched: memory latency equals the products of one or two.
const AHEAD: usize = 3;

/// Limbs per coordinate: 12 bits each, the top one signed.
const LIMBS: usize = 4;

/// A vector over `F` as short numbers, for inner products with vectors of short numbers. Stored coordinate by
/// coordinate, and for every 64 numbers one limb after another.
pub(crate) struct Limbs(Vec<OfBlock>);

/// Aligned to cache lines; otherwise vectors would be read from two lines.
#[repr(align(64))]
struct OfBlock([[i16; DEGREE]; LIMBS]);

impl Limbs {
    pub(crate) fn new(x: &[F]) -> Self {
        let blocks = x.as_chunks::<DEGREE>().0;
        let of_block = |coordinate: usize, block: &[F; DEGREE]| {
            OfBlock(std::array::from_fn(|limb| {
                let mask = if limb == LIMBS - 1 { -1 } else { 0xfff };
                let centred = block.map(|x| crate::ring::centred(x.0[coordinate]));
                centred.map(|x| ((x >> (12 * limb)) & mask) as i16)
            }))
        };
        let all = (0..COORDINATES).flat_map(|c| blocks.iter().map(move |block| of_block(c, block)));
        Self(all.collect())
    }
}

/// Computes `<x_i, w>` for vectors of centred residues modulo a number below `2^15`.
pub(crate) struct InnerProducts<'a>(pub(crate) &'a Limbs, pub(crate) &'a [&'a [i16]]);

impl Pass for InnerProducts<'_> {
    type Output = Vec<F>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<F> {
        let Self(limbs, vectors) = self;
        let mut out = Vec::with_capacity(vectors.len());
        for (index, vector) in vectors.iter().enumerate() {
            // Vectors are stored apart, so no processor would predict the next one.
            if let Some(next) = vectors.get(index + AHEAD) {
                V::prefetch(next);
            }
            let blocks = vector.as_chunks::<DEGREE>().0;
            let mut value = F::ZERO;
            let weights = limbs.0.chunks_exact(blocks.len());
            for (x, weights) in value.0.iter_mut().zip(weights) {
                let limbs = inner_products::<V::Wide>(blocks, weights);
                // A limb's total is at most `2^36` for degree 1024, so both halves are within the bounds of `joined`.
                let low = limbs[0] + (limbs[1] << 12);
                let high = limbs[2] + (limbs[3] << 12);
                *x = joined(low, high);
            }
            out.push(value);
        }
        out
    }
}

/// Returns the inner products with all limbs, which share the loads of `x`. A 32-bit sum takes 16 products before it
/// is totalled, whatever the vector: 64 / `LANES` of each block, and `LANES` / 4 blocks. None exceeds
/// `(2^14 - 1) (2^12 - 1)`, so two sums together are at most 2,146,828,320, below `2^31`.
#[inline(always)]
fn inner_products<V: Vector>(x: &[[i16; DEGREE]], w: &[OfBlock]) -> [i64; LIMBS] {
    let mut totals = [0; LIMBS];
    let summed = V::LANES / 4;
    for (x, w) in x.chunks(summed).zip(w.chunks(summed)) {
        let mut sums = [V::no_sums(); LIMBS];
        for (x, w) in x.iter().zip(w) {
            let mut at = 0;
            while at < DEGREE {
                let own = two::<V>(x, at);
                for (sum, w) in sums.iter_mut().zip(&w.0) {
                    *sum = V::accumulate(*sum, own, two::<V>(w, at));
                }
                at += 2 * V::LANES;
            }
        }
        for (total, sum) in totals.iter_mut().zip(V::totals(sums)) {
            *total += sum;
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Dispatch, KERNELS};

    /// The largest products of one sign, for polynomials of every degree: no 32-bit sum overflows.
    #[test]
    fn inner_products_of_extreme_numbers_are_exact_on_every_kernel() {
        let (number, limbs) = ((1i16 << 14) - 1, (1i64 << 36) - 1);
        for degree in [64, 128, 512, 1024] {
            let weights = vec![F([limbs as u64; COORDINATES]); degree];
            let sum = degree as i128 * i128::from(number) * i128::from(limbs);
            let of = |sum: i128| sum.rem_euclid(i128::from(crate::ring::Q)) as u64;
            let vectors = [vec![number; degree], vec![-number; degree]];
            let vectors = vectors.each_ref().map(|vector| &vector[..]);
            let expected = [sum, -sum].map(|sum| F([of(sum); COORDINATES]));
            for backend in KERNELS.available() {
                let found = backend.run(InnerProducts(&Limbs::new(&weights), &vectors));
                assert_eq!(found, expected, "{backend}, degree {degree}");
            }
        }
    }
}
