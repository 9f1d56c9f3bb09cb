//! Eight elements of `F` side by side, for passes over long tables. A loop over lanes whose body is plain 64-bit
//! arithmetic is compiled to the vectors of its pass.

use alphorn_exec::Backend;

use crate::field::{COORDINATES, F, eq_table};
use crate::kernel::{Dispatch, Pass, Vector, Vectors};
use crate::ring::{Q, centred};

/// Number of elements in an [`Fx8`].
pub(crate) const LANES: usize = 8;

/// Eight elements, coordinate by coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Fx8(pub(crate) [[u64; LANES]; COORDINATES]);

const LOW_24: u64 = (1 << 24) - 1;
const LOW_48: u64 = (1 << 48) - 1;

/// Returns the product of numbers below `2^32`, which a vector computes in one instruction.
#[inline(always)]
fn product(a: u64, b: u64) -> u64 {
    (a & u64::from(u32::MAX)) * (b & u64::from(u32::MAX))
}

/// Returns `x` minus a multiple of `Q`: `2^48 = 59` modulo `Q`.
#[inline(always)]
fn fold(x: u64) -> u64 {
    (x & LOW_48) + product(x >> 48, 59)
}

/// Returns the residue of a number below `2 Q`.
#[inline(always)]
fn once(x: u64) -> u64 {
    // If `x` is below `Q`, the difference wraps around to a larger number. No branch, so it compiles to vectors.
    x.min(x.wrapping_sub(Q))
}

#[inline(always)]
fn add(a: u64, b: u64) -> u64 {
    once(a + b)
}

#[inline(always)]
fn sub(a: u64, b: u64) -> u64 {
    // As in `once`: of the two numbers, the one that did not wrap around is the smaller.
    let difference = a.wrapping_sub(b);
    difference.min(difference.wrapping_add(Q))
}

/// Returns the coordinates of the product of two elements with 24-bit coordinates: each is a sum of at most six
/// products.
#[inline(always)]
fn products(x: [u64; COORDINATES], y: [u64; COORDINATES]) -> [u64; COORDINATES] {
    let third = product(x[1], y[2]) + product(x[2], y[1]);
    let fourth = product(x[2], y[2]);
    [
        product(x[0], y[0]) + 2 * third,
        product(x[0], y[1]) + product(x[1], y[0]) + third + 2 * fourth,
        product(x[0], y[2]) + product(x[1], y[1]) + product(x[2], y[0]) + fourth,
    ]
}

/// Returns the product of two elements.
#[inline(always)]
fn times(x: [u64; COORDINATES], y: [u64; COORDINATES]) -> [u64; COORDINATES] {
    let (x0, y0) = (x.map(|c| c & LOW_24), y.map(|c| c & LOW_24));
    let (x1, y1) = (x.map(|c| c >> 24), y.map(|c| c >> 24));
    let (low, high) = (products(x0, y0), products(x1, y1));
    let (one, other) = (products(x0, y1), products(x1, y0));
    let mut out = [0; COORDINATES];
    for k in 0..COORDINATES {
        // Six products are below 2^51, so the sum is below 2^57.
        let middle = one[k] + other[k];
        let sum = low[k] + ((middle & LOW_24) << 24) + product(middle >> 24, 59) + 59 * high[k];
        // A fold leaves less than `2^48 + 2^9 * 59`, which is below `2 Q`.
        out[k] = once(fold(sum));
    }
    out
}

/// Returns `low + 2^24 high` modulo `Q` for numbers between `-2^60` and `2^60`, as are sums of products of
/// [`F::halves`].
#[inline(always)]
pub(crate) fn joined(low: i64, high: i64) -> u64 {
    // A multiple of `Q` just below `2^61`, so both numbers become positive and stay below `2^62`.
    const POSITIVE: i64 = (Q as i64) << 13;
    let (low, high) = ((low + POSITIVE) as u64, fold((high + POSITIVE) as u64));
    let sum = low + ((high & LOW_24) << 24) + product(high >> 24, 59);
    once(fold(sum))
}

impl Fx8 {
    pub(crate) const ZERO: Self = Self([[0; LANES]; COORDINATES]);

    /// Returns the same element in each lane.
    #[inline(always)]
    pub(crate) fn splat(x: F) -> Self {
        Self(x.0.map(|c| [c; LANES]))
    }

    /// Returns the element in a lane.
    #[inline(always)]
    pub(crate) fn get(&self, lane: usize) -> F {
        F(self.coordinates(lane))
    }

    #[inline(always)]
    fn coordinates(&self, lane: usize) -> [u64; COORDINATES] {
        [self.0[0][lane], self.0[1][lane], self.0[2][lane]]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, lane: usize, x: F) {
        self.set_coordinates(lane, x.0);
    }

    #[inline(always)]
    fn set_coordinates(&mut self, lane: usize, x: [u64; COORDINATES]) {
        for (to, x) in self.0.iter_mut().zip(x) {
            to[lane] = x;
        }
    }

    /// Packs the elements in order, with zeros after the last.
    pub(crate) fn of_all(elements: &[F]) -> Vec<Self> {
        let lanes = elements.chunks(LANES).map(|chunk| {
            let mut out = Self::ZERO;
            for (lane, &x) in chunk.iter().enumerate() {
                out.set(lane, x);
            }
            out
        });
        lanes.collect()
    }

    /// Returns the lanes from `first` on, with zeros after the last of `count`.
    pub(crate) fn part(&self, first: usize, count: usize) -> Self {
        let mut out = Self::ZERO;
        for lane in 0..count {
            out.set(lane, self.get(first + lane));
        }
        out
    }

    /// Returns the halves of all elements as in [`F::halves`], in the order of [`Fx8::joined`].
    #[inline(always)]
    pub(crate) fn halves(&self) -> [[i32; LANES]; 2 * COORDINATES] {
        let mut out = [[0; LANES]; 2 * COORDINATES];
        for (out, x) in out.as_chunks_mut::<2>().0.iter_mut().zip(&self.0) {
            for lane in 0..LANES {
                let x = centred(x[lane]);
                out[0][lane] = (x & 0xff_ffff) as i32;
                out[1][lane] = (x >> 24) as i32;
            }
        }
        out
    }

    /// Returns the sum of all lanes.
    pub(crate) fn sum(&self) -> F {
        (0..LANES).fold(F::ZERO, |sum, lane| sum.plus(self.get(lane)))
    }

    #[inline(always)]
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut out = *self;
        for lane in 0..LANES {
            for k in 0..COORDINATES {
                out.0[k][lane] = add(self.0[k][lane], other.0[k][lane]);
            }
        }
        out
    }

    #[inline(always)]
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let mut out = *self;
        for lane in 0..LANES {
            for k in 0..COORDINATES {
                out.0[k][lane] = sub(self.0[k][lane], other.0[k][lane]);
            }
        }
        out
    }

    /// Multiplies lane by lane. Where vectors are short, 64-bit products are faster.
    #[inline(always)]
    pub(crate) fn times<V: Vectors>(&self, other: &Self) -> Self {
        let mut out = Self::ZERO;
        if V::Wide::LANES == 8 {
            for lane in 0..LANES {
                out.set(lane, self.get(lane).times(other.get(lane)));
            }
        } else {
            for lane in 0..LANES {
                let product = times(self.coordinates(lane), other.coordinates(lane));
                out.set_coordinates(lane, product);
            }
        }
        out
    }

    /// Returns `low + 2^24 high`, with both halves of the first coordinate first, then those of the next, for numbers
    /// between `-2^60` and `2^60`.
    #[inline(always)]
    pub(crate) fn joined(halves: &[[i64; LANES]; 2 * COORDINATES]) -> Self {
        let mut out = Self::ZERO;
        let halves = halves.as_chunks::<2>().0;
        for (out, [low, high]) in out.0.iter_mut().zip(halves) {
            for lane in 0..LANES {
                out[lane] = joined(low[lane], high[lane]);
            }
        }
        out
    }
}

/// [`eq_table`], eight entries side by side; padded with zeros if there are fewer than eight.
pub(crate) fn eq_lanes(point: &[F], backend: Backend) -> Vec<Fx8> {
    backend.run(EqLanes(point))
}

struct EqLanes<'a>(&'a [F]);

impl Pass for EqLanes<'_> {
    type Output = Vec<Fx8>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Fx8> {
        // The lowest three bits of an index are the lane; each further bit doubles the table.
        let (within, across) = self.0.split_at(self.0.len().min(LANES.ilog2() as usize));
        let mut out = Fx8::of_all(&eq_table(within));
        out.reserve_exact((1 << across.len()) - 1);
        for &p in across {
            let p = Fx8::splat(p);
            for index in 0..out.len() {
                let high = out[index].times::<V>(&p);
                out[index] = out[index].minus(&high);
                out.push(high);
            }
        }
        out
    }
}

/// The inner product of two vectors, eight elements at a time.
pub(crate) struct DotLanes<'a>(pub(crate) &'a [Fx8], pub(crate) &'a [Fx8]);

impl Pass for DotLanes<'_> {
    type Output = F;

    #[inline(always)]
    fn run<V: Vectors>(self) -> F {
        let mut sum = Fx8::ZERO;
        for (x, y) in self.0.iter().zip(self.1) {
            sum = sum.plus(&x.times::<V>(y));
        }
        sum.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KERNELS;
    use crate::transcript::Seed;

    struct Times<'a>(&'a Fx8, &'a Fx8);

    impl Pass for Times<'_> {
        type Output = Fx8;

        #[inline(always)]
        fn run<V: Vectors>(self) -> Fx8 {
            self.0.times::<V>(self.1)
        }
    }

    #[test]
    fn lanes_are_elements_on_every_kernel() {
        let mut stream = Seed::of_name("lanes").stream();
        let mut elements: Vec<F> = (0..400).map(|_| F::draw(&mut stream)).collect();
        // The extremes of every coordinate meet each other in the first two groups of eight.
        let ends = [0, Q - 1];
        for (i, x) in elements[..2 * LANES].iter_mut().enumerate() {
            *x = F(std::array::from_fn(|k| ends[i >> k & 1]));
        }
        elements[LANES..2 * LANES].reverse();
        let lanes = Fx8::of_all(&elements);
        for pair in lanes.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            for lane in 0..LANES {
                let (x, y) = (a.get(lane), b.get(lane));
                assert_eq!(a.plus(b).get(lane), x.plus(y));
                assert_eq!(a.minus(b).get(lane), x.minus(y));
                for backend in KERNELS.available() {
                    assert_eq!(backend.run(Times(a, b)).get(lane), x.times(y), "{backend}");
                }
            }
        }
        let sum = elements[..LANES]
            .iter()
            .fold(F::ZERO, |sum, &x| sum.plus(x));
        assert_eq!(lanes[0].sum(), sum);
        assert_eq!(Fx8::splat(elements[20]).get(5), elements[20]);
        let part = lanes[3].part(5, 2);
        assert_eq!(
            [part.get(0), part.get(1), part.get(2)],
            [elements[29], elements[30], F::ZERO]
        );
    }

    #[test]
    fn tables_and_inner_products_are_those_of_elements_on_every_kernel() {
        let mut stream = Seed::of_name("tables").stream();
        for bits in [0, 1, 3, 4, 7] {
            let point: Vec<F> = (0..bits).map(|_| F::draw(&mut stream)).collect();
            let weights: Vec<F> = (0..1 << bits).map(|_| F::draw(&mut stream)).collect();
            let table = eq_table(&point);
            let terms = table.iter().zip(&weights);
            let dot = terms.fold(F::ZERO, |sum, (&x, &w)| sum.plus(x.times(w)));
            for backend in KERNELS.available() {
                let lanes = eq_lanes(&point, backend);
                assert_eq!(lanes, Fx8::of_all(&table), "{backend} {bits}");
                let found = backend.run(DotLanes(&lanes, &Fx8::of_all(&weights)));
                assert_eq!(found, dot, "{backend} {bits}");
            }
        }
    }

    #[test]
    fn halves_are_joined_up_to_their_bounds() {
        let most = (1i64 << 60) - 1;
        let numbers = [0, 1, -1, most, -most, 1 << 48, -(1 << 24), 12_345_678_901];
        for high in numbers {
            let both = [numbers, [high; LANES]];
            let joined = Fx8::joined(&std::array::from_fn(|half| both[half % 2]));
            for (lane, low) in numbers.into_iter().enumerate() {
                let expected = F::of(low).plus(F::of(high).times(F::of(1 << 24)));
                assert_eq!(joined.get(lane), F([expected.0[0]; COORDINATES]));
            }
        }
    }
}
