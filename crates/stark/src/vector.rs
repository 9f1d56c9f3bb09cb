//! Vectors of extension elements, as five planes of base elements.

use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::{Backend, Packed, Pass};

/// Many elements: one plane for each coefficient.
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

    /// Puts the elements of `from` at `offset`, `offset` + `stride`, …
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

    /// Adds other elements from a place on.
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

struct Dot<'a>(&'a Planes, &'a [Fp]);

impl Pass for Dot<'_> {
    type Output = Ext;

    #[inline(always)]
    fn run<V: Packed>(self) -> Ext {
        let mut sum = Vector::<V>::zero();
        for x in (0..self.0.len()).step_by(V::LANES) {
            sum = sum.add(self.0.load::<V>(x).scale(V::load(&self.1[x..])));
        }
        sum.total()
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
            let (low, high) = (self.0.load::<V>(i), self.0.load(half + i));
            out.store(i, low.add(x.mul(high.sub(low))));
        }
        out
    }
}

/// As many elements as a vector of the kernel has.
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
        for (x, y) in out.iter_mut().zip(other.0) {
            *x = x.add(y);
        }
        Vector(out)
    }

    #[inline(always)]
    pub(crate) fn sub(self, other: Self) -> Self {
        let mut out = self.0;
        for (x, y) in out.iter_mut().zip(other.0) {
            *x = x.sub(y);
        }
        Vector(out)
    }

    #[inline(always)]
    pub(crate) fn scale(self, factor: V) -> Self {
        let mut out = self.0;
        for x in &mut out {
            *x = x.mul(factor);
        }
        Vector(out)
    }

    #[inline(always)]
    pub(crate) fn mul(self, other: Self) -> Self {
        let mut product = [V::splat(Fp::ZERO); 2 * DEGREE - 1];
        for i in 0..DEGREE {
            for j in 0..DEGREE {
                product[i + j] = product[i + j].add(self.0[i].mul(other.0[j]));
            }
        }
        Self::reduced(product)
    }

    #[inline(always)]
    pub(crate) fn square(self) -> Self {
        let mut product = [V::splat(Fp::ZERO); 2 * DEGREE - 1];
        for i in 0..DEGREE {
            product[2 * i] = product[2 * i].add(self.0[i].mul(self.0[i]));
            let double = self.0[i].add(self.0[i]);
            for j in i + 1..DEGREE {
                product[i + j] = product[i + j].add(double.mul(self.0[j]));
            }
        }
        Self::reduced(product)
    }

    #[inline(always)]
    pub(crate) fn cube(self) -> Self {
        self.square().mul(self)
    }

    /// X^(5+k) = X^k − X^(2+k), from the top.
    #[inline(always)]
    fn reduced(mut product: [V; 2 * DEGREE - 1]) -> Self {
        for k in (0..DEGREE - 1).rev() {
            let high = product[DEGREE + k];
            product[k] = product[k].add(high);
            product[k + 2] = product[k + 2].sub(high);
        }
        Vector([product[0], product[1], product[2], product[3], product[4]])
    }

    /// The sum of the elements of the vector.
    #[inline(always)]
    pub(crate) fn total(self) -> Ext {
        let mut sums = [Fp::ZERO; DEGREE];
        let mut lanes = [Fp::ZERO; 16];
        for (sum, plane) in sums.iter_mut().zip(self.0) {
            plane.store(&mut lanes);
            for x in &lanes[..V::LANES] {
                *sum += *x;
            }
        }
        Ext(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn vectors_agree_with_single_elements() {
        let mut random = Random::new(5);
        for round in 0..50 {
            let (mut x, y) = (random.exts(16), random.exts(16));
            if round == 0 {
                x = vec![-Ext::ONE; 16];
            }
            let (a, b) = (Planes::from_exts(&x), Planes::from_exts(&y));
            for backend in Backend::available() {
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
