//! Vectors of extension elements, as five planes of base elements.

use alphorn_exec::{Backend, Exec};

use crate::extension::{DEGREE, Ext};
use crate::field::{Fp, P};
use crate::kernel::{Dispatch, Packed, Pass};
use crate::multilinear::eq_table;

/// Many elements, one plane for each coefficient.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planes([Vec<Fp>; DEGREE]);

impl Planes {
    pub(crate) fn zero(len: usize) -> Planes {
        Planes(std::array::from_fn(|_| vec![Fp::ZERO; len]))
    }

    pub(crate) fn from_exts(elements: &[Ext]) -> Planes {
        let mut planes = Planes::zero(elements.len());
        for (i, x) in elements.iter().enumerate() {
            planes.set(i, *x);
        }
        planes
    }

    pub(crate) fn from_base(elements: &[Fp]) -> Planes {
        let mut planes = Planes::zero(elements.len());
        planes.0[0].copy_from_slice(elements);
        planes
    }

    pub(crate) fn len(&self) -> usize {
        self.0[0].len()
    }

    pub(crate) fn get(&self, i: usize) -> Ext {
        Ext(std::array::from_fn(|k| self.0[k][i]))
    }

    pub(crate) fn set(&mut self, i: usize, value: Ext) {
        for (plane, x) in self.0.iter_mut().zip(value.0) {
            plane[i] = x;
        }
    }

    /// Writes the elements of `from` to `offset`, `offset` + `stride`, …
    pub(crate) fn scatter(&mut self, from: &Planes, offset: usize, stride: usize) {
        for (plane, from) in self.0.iter_mut().zip(&from.0) {
            for (i, x) in from.iter().enumerate() {
                plane[offset + i * stride] = *x;
            }
        }
    }

    /// Adds element by element.
    pub(crate) fn add_assign(&mut self, other: &Planes) {
        for (plane, other) in self.0.iter_mut().zip(&other.0) {
            plane.iter_mut().zip(other).for_each(|(x, y)| *x += *y);
        }
    }

    /// Binds the highest coordinate to x.
    pub(crate) fn fold(&self, backend: Backend, x: Ext) -> Planes {
        backend.run(Fold(self, x))
    }

    /// Adds other elements starting at an index.
    pub(crate) fn add_at(&mut self, at: usize, other: &Planes) {
        for (plane, other) in self.0.iter_mut().zip(&other.0) {
            plane[at..]
                .iter_mut()
                .zip(other)
                .for_each(|(x, y)| *x += *y);
        }
    }

    /// The coefficients of a range of elements, coefficient by coefficient.
    pub(crate) fn coefficients(&self, range: std::ops::Range<usize>) -> [&[Fp]; DEGREE] {
        self.0.each_ref().map(|plane| &plane[range.clone()])
    }

    /// Σ_i self_i · values_i.
    pub(crate) fn dot(&self, backend: Backend, values: &[Fp]) -> Ext {
        backend.run(Dot(self, values))
    }

    /// Adds factor · other.
    pub(crate) fn add_scaled(&mut self, backend: Backend, other: &Planes, factor: Ext) {
        backend.run(AddScaled(self, other, factor));
    }

    /// Concatenates planes.
    pub(crate) fn concat(parts: &[Planes]) -> Planes {
        Planes(std::array::from_fn(|k| {
            parts.iter().flat_map(|part| &part.0[k]).copied().collect()
        }))
    }

    /// Σ_i self_(at + i) · values_i, for a multiple of four vectors of values.
    #[inline(always)]
    pub(crate) fn dot_at<V: Packed>(&self, at: usize, values: &[Fp]) -> Ext {
        let mut sum = Vector::<V>::zero();
        for x in (0..values.len()).step_by(DOT_VECTORS * V::LANES) {
            let mut factors = [V::splat(Fp::ZERO).split(); DOT_VECTORS];
            for (i, factor) in factors.iter_mut().enumerate() {
                *factor = V::load(&values[x + i * V::LANES..]).split();
            }
            for (sum, plane) in sum.0.iter_mut().zip(&self.0) {
                let mut weights = factors;
                for (i, weight) in weights.iter_mut().enumerate() {
                    *weight = V::load(&plane[at + x + i * V::LANES..]).split();
                }
                *sum = sum.add(V::products(factors, weights));
            }
        }
        sum.total()
    }

    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> Planes {
        Planes(self.0.each_ref().map(|x| x[range.clone()].to_vec()))
    }

    /// The lower and the upper half.
    pub(crate) fn halves(&self) -> [Planes; 2] {
        let half = self.len() / 2;
        let part = |at: usize| Planes(self.0.each_ref().map(|x| x[at..at + half].to_vec()));
        [part(0), part(half)]
    }

    #[inline(always)]
    pub(crate) fn load<V: Packed>(&self, at: usize) -> Vector<V> {
        let mut out = [V::splat(Fp::ZERO); DEGREE];
        for (out, plane) in out.iter_mut().zip(&self.0) {
            *out = V::load(&plane[at..]);
        }
        Vector(out)
    }

    #[inline(always)]
    pub(crate) fn store<V: Packed>(&mut self, at: usize, value: Vector<V>) {
        for (value, plane) in value.0.iter().zip(&mut self.0) {
            value.store(&mut plane[at..]);
        }
    }
}

/// Words of extension weights, one row for each coefficient: factors of [`Packed::dot`].
pub(crate) type Words = [Vec<u64>; DEGREE];

pub(crate) fn words(weights: &[Ext]) -> Words {
    std::array::from_fn(|k| weights.iter().map(|w| u64::from(w.0[k].word())).collect())
}

/// Σ_i x_i · weight_i.
#[inline(always)]
pub(crate) fn dot_words<V: Packed>(x: &[V::Split], weights: &Words) -> Vector<V> {
    let [a, b, c, d, e] = weights;
    Vector(V::dot(x, [a, b, c, d, e].map(Vec::as_slice)))
}

/// Number of vectors that [`Planes::dot_at`] takes at a time.
// At most PRODUCTS_MAX products share a reduction, and four divides the lengths, which are powers of two. Where
// lengths may be short, callers choose a backend that fits a quarter of them.
const DOT_VECTORS: usize = 4;

struct Dot<'a>(&'a Planes, &'a [Fp]);

impl Pass for Dot<'_> {
    type Output = Ext;

    #[inline(always)]
    fn run<V: Packed>(self) -> Ext {
        self.0.dot_at::<V>(0, self.1)
    }
}

/// Number of inner coordinates of eq: a table of 2^this is computed element by element.
const EQ_INNER_LOG2: usize = 7;

/// scale · eq(point, x) for all x.
pub(crate) fn eq_planes(exec: Exec<'_>, scale: Ext, point: &[Ext]) -> Planes {
    let (outer, inner) = point.split_at(point.len().saturating_sub(EQ_INNER_LOG2));
    let inner = Planes::from_exts(&eq_table(Ext::ONE, inner));
    let outer = eq_table(scale, outer);
    exec.backend()
        .fitting(inner.len())
        .run(Outer(&outer, &inner))
}

/// outer ⊗ inner.
pub(crate) struct Outer<'a>(pub(crate) &'a [Ext], pub(crate) &'a Planes);

impl Pass for Outer<'_> {
    type Output = Planes;

    #[inline(always)]
    fn run<V: Packed>(self) -> Planes {
        let inner = self.1.len();
        let mut out = Planes::zero(self.0.len() * inner);
        for (i, weight) in self.0.iter().enumerate() {
            let weight = Vector::<V>::splat(*weight);
            for x in (0..inner).step_by(V::LANES) {
                out.store(i * inner + x, weight.mul(self.1.load(x)));
            }
        }
        out
    }
}

struct Fold<'a>(&'a Planes, Ext);

impl Pass for Fold<'_> {
    type Output = Planes;

    #[inline(always)]
    fn run<V: Packed>(self) -> Planes {
        let half = self.0.len() / 2;
        let x = Vector::<V>::splat(self.1);
        let mut out = Planes::zero(half);
        for i in (0..half).step_by(V::LANES) {
            // The halves of the highest coordinate are contiguous: vectors are combined with vectors, whatever
            // their length.
            let (low, high) = (self.0.load::<V>(i), self.0.load(half + i));
            out.store(i, low.add(x.mul(high.sub(low))));
        }
        out
    }
}

struct AddScaled<'a>(&'a mut Planes, &'a Planes, Ext);

impl Pass for AddScaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        let factor = Vector::<V>::splat(self.2);
        for x in (0..self.0.len()).step_by(V::LANES) {
            let sum = self.0.load::<V>(x).add(factor.mul(self.1.load(x)));
            self.0.store(x, sum);
        }
    }
}

/// One vector of the kernel's elements.
#[derive(Clone, Copy)]
pub(crate) struct Vector<V>(pub(crate) [V; DEGREE]);

impl<V: Packed> Vector<V> {
    #[inline(always)]
    pub(crate) fn splat(value: Ext) -> Self {
        let mut out = [V::splat(Fp::ZERO); DEGREE];
        for (out, x) in out.iter_mut().zip(value.0) {
            *out = V::splat(x);
        }
        Vector(out)
    }

    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Vector([V::splat(Fp::ZERO); DEGREE])
    }

    #[inline(always)]
    pub(crate) fn add(self, other: Self) -> Self {
        let mut out = self.0;
        // By reference: an iterator over vectors themselves is compiled as a function without the instruction set.
        for (x, y) in out.iter_mut().zip(&other.0) {
            *x = x.add(*y);
        }
        Vector(out)
    }

    #[inline(always)]
    pub(crate) fn sub(self, other: Self) -> Self {
        let mut out = self.0;
        // By reference: an iterator over vectors themselves is compiled as a function without the instruction set.
        for (x, y) in out.iter_mut().zip(&other.0) {
            *x = x.sub(*y);
        }
        Vector(out)
    }

    /// X · self.
    #[inline(always)]
    pub(crate) fn times_x(self) -> Self {
        let [a, b, c, d, e] = self.0;
        // X^5 = 1 − X^2.
        Vector([e, a, b.sub(e), c, d])
    }

    #[inline(always)]
    pub(crate) fn scale(self, factor: V) -> Self {
        let mut out = self.0;
        for x in &mut out {
            *x = x.mul(factor);
        }
        Vector(out)
    }

    /// The coefficients as factors of sums of products.
    #[inline(always)]
    fn split(self) -> [V::Split; DEGREE] {
        let [a, b, c, d, e] = self.0;
        [a.split(), b.split(), c.split(), d.split(), e.split()]
    }

    /// Coefficient k of a·b is Σ_i a_i·(X^i·b)_k, and X·b = b_4·(1 − X²) + b_0·X + … + b_3·X^4: nine
    /// different factors, five sums of five products.
    #[inline(always)]
    pub(crate) fn mul(self, other: Self) -> Self {
        let a = self.split();
        let b = other.0;
        let [c0, c1, c2, c3, c4] = other.split();
        // (X·b)_2, (X²·b)_2, (X³·b)_2 and (X^4·b)_2.
        let d1 = b[1].sub(b[4]);
        let d2 = b[0].sub(b[3]);
        let e3 = b[4].sub(b[2]);
        let e4 = b[3].sub(d1);
        let [d1, d2, e3, e4] = [d1.split(), d2.split(), e3.split(), e4.split()];
        Vector([
            V::products(a, [c0, c4, c3, c2, d1]),
            V::products(a, [c1, c0, c4, c3, c2]),
            V::products(a, [c2, d1, d2, e3, e4]),
            V::products(a, [c3, c2, d1, d2, e3]),
            V::products(a, [c4, c3, c2, d1, d2]),
        ])
    }

    /// The square by seventeen products: equal ones are combined.
    #[inline(always)]
    pub(crate) fn square(self) -> Self {
        let [a0, a1, a2, a3, a4] = self.0;
        let twice = |x: V| x.add(x);
        let (t0, t1, t2) = (twice(a0), twice(a1), twice(a2));
        let t4 = twice(a4);
        let minus = V::splat(Fp::ZERO).sub(a4);
        let [s0, s1, s2, s3, s4] = self.split();
        let mixed = t1.sub(t4).split();
        Vector([
            V::products(
                [s0, s4, s3, s4],
                [s0, t1.split(), t2.split(), minus.split()],
            ),
            V::products([s1, s4, s3], [t0.split(), t2.split(), s3]),
            V::products(
                [s2, s1, s3, s4],
                [t0.split(), a1.sub(t4).split(), t4.sub(t2).split(), s4],
            ),
            V::products([s2, s3, s4], [mixed, t0.sub(a3).split(), s4]),
            V::products([s4, s3, s2], [t0.split(), mixed, s2]),
        ])
    }

    #[inline(always)]
    pub(crate) fn cube(self) -> Self {
        self.square().mul(self)
    }

    /// The sum of the elements of the vector.
    #[inline(always)]
    pub(crate) fn total(self) -> Ext {
        self.total_of(V::LANES)
    }

    /// The sum of its first elements, or of all if it has fewer.
    #[inline(always)]
    pub(crate) fn total_of(self, count: usize) -> Ext {
        let count = count.min(V::LANES);
        let mut sums = [Fp::ZERO; DEGREE];
        let mut lanes = [Fp::ZERO; 16];
        for (sum, plane) in sums.iter_mut().zip(&self.0) {
            plane.store(&mut lanes);
            // Words in Montgomery form add up like elements, and sixteen of them fit 64 bits, so one remainder is
            // enough.
            let words = lanes[..count].iter().map(|x| u64::from(x.word()));
            *sum = Fp::from_word((words.sum::<u64>() % u64::from(P)) as u32);
        }
        Ext(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poseidon::kernels::KERNELS;
    use crate::test_random::Random;

    struct Operations<'a>(&'a Planes, &'a Planes);

    impl Pass for Operations<'_> {
        type Output = (Vec<[Ext; 6]>, Ext);

        #[inline(always)]
        fn run<V: Packed>(self) -> Self::Output {
            let (a, b) = (self.0.load::<V>(0), self.1.load::<V>(0));
            let results = [
                a.add(b),
                a.sub(b),
                a.mul(b),
                a.square(),
                a.cube(),
                a.scale(b.0[0]),
            ];
            let mut planes = [(); 6].map(|()| Planes::zero(V::LANES));
            for (planes, result) in planes.iter_mut().zip(results) {
                planes.store(0, result);
            }
            let row = |i: usize| std::array::from_fn(|k| planes[k].get(i));
            ((0..V::LANES).map(row).collect(), a.total())
        }
    }

    #[test]
    fn eq_is_that_of_the_table() {
        let mut random = Random::new(6);
        for coordinates in [0, 1, 4, 7, 10] {
            let (scale, point) = (random.ext(), random.exts(coordinates));
            let expected = eq_table(scale, &point);
            for backend in KERNELS.available() {
                let planes = eq_planes(Exec::new(backend, None), scale, &point);
                let values: Vec<Ext> = (0..planes.len()).map(|i| planes.get(i)).collect();
                assert_eq!(values, expected, "{backend}");
            }
        }
    }

    #[test]
    fn vectors_agree_with_single_elements() {
        let mut random = Random::new(5);
        for round in 0..50 {
            let (mut x, y) = (random.exts(16), random.exts(16));
            if round == 0 {
                x = vec![-Ext::ONE; 16];
            }
            let (a, b) = (Planes::from_exts(&x), Planes::from_exts(&y));
            for backend in KERNELS.available() {
                let (rows, total) = backend.run(Operations(&a, &b));
                assert_eq!(total, x[..rows.len()].iter().copied().sum());
                for (i, row) in rows.iter().enumerate() {
                    let (a, b) = (x[i], y[i]);
                    let expected = [a + b, a - b, a * b, a * a, a * a * a, a * b.0[0]];
                    assert_eq!(*row, expected, "{backend}");
                }
            }
        }
    }
}
