//! A sum of fractions is zero: the argument of all lookups.
//!
//! The fractions p_x/q_x lie on the vertices of a cube, in *groups* of equal size. The first few groups are used;
//! the others are 0/1. The fractions are added pairwise, layer by layer, without a division: p(x) = p(0,x)·q(1,x) +
//! p(1,x)·q(0,x) and q(x) = q(0,x)·q(1,x). The verifier goes from the root, where p must be 0 and q must not, to
//! one point of the leaves (Goldwasser, Kalai and Rothblum; Papini and Haböck, ePrint 2023/1284).
//!
//! The coordinates within a group are summed first, the highest first, then the groups. So vectors are added to
//! vectors, and unused groups never appear: a pair of two of them is 0/1 again.

use alphorn_exec::{Exec, Stopped};

use crate::arith::Arith;
use crate::error::VerifyError;
use crate::extension::Ext;
use crate::kernel::{Dispatch, Packed, Pass};
use crate::multilinear::eq_table;
use crate::sumcheck::{prove_small, quadratic, read_round, send_round};
use crate::transcript::{Channel, Sender};
use crate::vector::{Planes, Vector, eq_planes};

/// Number of elements a round's polynomial takes.
const DEGREE: usize = 2;

/// The cube of the fractions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cube {
    /// Number of coordinates that index the groups.
    pub(crate) groups_log2: usize,
    /// Number of coordinates within a group.
    pub(crate) within_log2: usize,
}

impl Cube {
    /// Number of extension elements that a proof sends.
    pub(crate) fn sent(&self) -> usize {
        let layers = self.groups_log2 + self.within_log2;
        1 + (0..layers).map(|layer| DEGREE * layer + 4).sum::<usize>()
    }
}

/// The remaining claim: the numerators and denominators at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaves<E> {
    /// The coordinates that index the group.
    pub(crate) groups: Vec<E>,
    /// The coordinates within a group.
    pub(crate) within: Vec<E>,
    /// Value of the numerators.
    pub(crate) numerator: E,
    /// Value of the denominators.
    pub(crate) denominator: E,
}

/// The fractions of a group, or their sums in a layer.
#[derive(Clone)]
pub(crate) struct Group {
    pub(crate) p: Planes,
    pub(crate) q: Planes,
}

/// Adds the upper half of a group to the lower one.
struct AddHalves<'a>(&'a Group);

impl Pass for AddHalves<'_> {
    type Output = Group;

    #[inline(always)]
    fn run<V: Packed>(self) -> Group {
        let half = self.0.p.len() / 2;
        let mut out = Group {
            p: Planes::zero(half),
            q: Planes::zero(half),
        };
        for x in (0..half).step_by(V::LANES) {
            let (p0, p1) = (self.0.p.load::<V>(x), self.0.p.load(half + x));
            let (q0, q1) = (self.0.q.load::<V>(x), self.0.q.load(half + x));
            out.p.store(x, p0.mul(q1).add(p1.mul(q0)));
            out.q.store(x, q0.mul(q1));
        }
        out
    }
}

/// p0, p1, q0, q1 of a group on the unbound part of the cube.
type Halves = [Planes; 4];

/// h(0), h(1) and the leading coefficient of h for p0·q1 + p1·q0 + λ·q0·q1.
struct RoundSums<'a> {
    halves: &'a Halves,
    weights: &'a Planes,
    lambda: Ext,
}

impl Pass for RoundSums<'_> {
    type Output = [Ext; 3];

    #[inline(always)]
    fn run<V: Packed>(self) -> [Ext; 3] {
        let half = self.weights.len();
        let lambda = Vector::<V>::splat(self.lambda);
        let mut sums = [Vector::<V>::zero(); 3];
        for x in (0..half).step_by(V::LANES) {
            let weight = self.weights.load::<V>(x);
            let mut low = [Vector::zero(); 4];
            let mut high = [Vector::zero(); 4];
            let mut slope = [Vector::zero(); 4];
            for i in 0..4 {
                low[i] = self.halves[i].load(x);
                high[i] = self.halves[i].load(half + x);
                slope[i] = high[i].sub(low[i]);
            }
            let points = [low, high, slope];
            for k in 0..3 {
                let [p0, p1, q0, q1] = points[k];
                let value = p0.mul(q1).add(q0.mul(p1.add(lambda.mul(q1))));
                sums[k] = sums[k].add(weight.mul(value));
            }
        }
        [sums[0].total(), sums[1].total(), sums[2].total()]
    }
}

/// p0·q1 + p1·q0 + λ·q0·q1.
fn layer_value<E: crate::multilinear::Scalar>([p0, p1, q0, q1]: [E; 4], lambda: E) -> E {
    p0 * q1 + q0 * (p1 + lambda * q1)
}

/// Proves that the fractions of the used groups sum to zero.
///
/// # Errors
/// [`Stopped`] if the computation is stopped.
///
/// # Panics
/// If there are more groups than the cube has, or one has another size.
pub(crate) fn prove(
    sender: &mut Sender,
    exec: Exec<'_>,
    cube: Cube,
    groups: Vec<Group>,
) -> Result<Leaves<Ext>, Stopped> {
    assert!(groups.len() <= 1 << cube.groups_log2, "groups fit the cube");
    let mut layers = vec![groups];
    for log2 in (0..cube.within_log2).rev() {
        let above = &layers[layers.len() - 1];
        let backend = exec.backend().fitting(1 << log2);
        layers.push(exec.try_map(above.len(), |g| backend.run(AddHalves(&above[g])))?);
    }
    let mut tops = vec![group_sums(cube, &layers[cube.within_log2])];
    while tops[tops.len() - 1][0].len() > 1 {
        let [p, q] = &tops[tops.len() - 1];
        let half = p.len() / 2;
        let p_next = (0..half).map(|x| p[x] * q[half + x] + p[half + x] * q[x]);
        let q_next = (0..half).map(|x| q[x] * q[half + x]);
        tops.push([p_next.collect(), q_next.collect()]);
    }
    // Only q: the verifier takes p = 0, which is the statement.
    sender.send(&tops[cube.groups_log2][1]);
    let mut leaves = Leaves {
        groups: Vec::new(),
        within: Vec::new(),
        numerator: tops[cube.groups_log2][0][0],
        denominator: tops[cube.groups_log2][1][0],
    };
    for [p, q] in tops[..cube.groups_log2].iter().rev() {
        let lambda = sender.challenge();
        let half = p.len() / 2;
        let halves = [&p[..half], &p[half..], &q[..half], &q[half..]].map(<[Ext]>::to_vec);
        let (point, values) = prove_groups(sender, &leaves.groups, halves, lambda);
        leaves.groups = point;
        let mu = join_halves(sender, values, &mut leaves);
        leaves.groups.insert(0, mu);
    }
    for layer in layers[..cube.within_log2].iter().rev() {
        prove_layer(sender, exec, cube, layer, &mut leaves)?;
    }
    Ok(leaves)
}

/// The sums of the groups, unused ones 0/1.
fn group_sums(cube: Cube, groups: &[Group]) -> [Vec<Ext>; 2] {
    let mut sums = [
        vec![Ext::ZERO; 1 << cube.groups_log2],
        vec![Ext::ONE; 1 << cube.groups_log2],
    ];
    for (g, group) in groups.iter().enumerate() {
        sums[0][g] = group.p.get(0);
        sums[1][g] = group.q.get(0);
    }
    sums
}

/// Sends the four values of a layer and puts one random combination of the halves into `leaves`.
fn join_halves(sender: &mut Sender, [p0, p1, q0, q1]: [Ext; 4], leaves: &mut Leaves<Ext>) -> Ext {
    sender.send(&[p0, p1, q0, q1]);
    let mu = sender.challenge();
    leaves.numerator = p0 + mu * (p1 - p0);
    leaves.denominator = q0 + mu * (q1 - q0);
    mu
}

/// The rounds over the coordinates of the groups.
fn prove_groups(
    sender: &mut Sender,
    point: &[Ext],
    mut halves: [Vec<Ext>; 4],
    lambda: Ext,
) -> (Vec<Ext>, [Ext; 4]) {
    let values = |pairs: &[[Ext; 2]]| {
        let low: [Ext; 4] = std::array::from_fn(|i| pairs[i][0]);
        let high: [Ext; 4] = std::array::from_fn(|i| pairs[i][1]);
        let slope: [Ext; 4] = std::array::from_fn(|i| high[i] - low[i]);
        [low, high, slope].map(|four| layer_value(four, lambda))
    };
    let challenges = prove_small(sender, point, &mut halves, values, quadratic);
    let last = halves.map(|values| values[0]);
    (challenges, last)
}

/// One layer whose groups have several elements.
fn prove_layer(
    sender: &mut Sender,
    exec: Exec<'_>,
    cube: Cube,
    layer: &[Group],
    leaves: &mut Leaves<Ext>,
) -> Result<(), Stopped> {
    let lambda = sender.challenge();
    let mut halves: Vec<Halves> = exec.map(layer.len(), |g| {
        let [p, q] = [&layer[g].p, &layer[g].q].map(Planes::halves);
        let [[p0, p1], [q0, q1]] = [p, q];
        [p0, p1, q0, q1]
    });
    let weights = eq_table(Ext::ONE, &leaves.groups);
    let mut within = Vec::with_capacity(leaves.within.len() + 1);
    for round in 0..leaves.within.len() {
        let rest = eq_planes(exec, Ext::ONE, &leaves.within[round + 1..]);
        let backend = exec.backend().fitting(rest.len());
        let sums = exec.try_map(halves.len(), |g| {
            let (halves, weights) = (&halves[g], &rest);
            backend.run(RoundSums {
                halves,
                weights,
                lambda,
            })
        })?;
        // Where p = 0 and q = 1 throughout, h is constant, so it is not sent.
        let mut total = [Ext::ZERO; 3];
        for (weight, sums) in weights.iter().zip(sums) {
            for (total, sum) in total.iter_mut().zip(sums) {
                *total += *weight * sum;
            }
        }
        let x = send_round(sender, &quadratic(total));
        halves = exec.map(halves.len(), |g| {
            halves[g].each_ref().map(|planes| planes.fold(backend, x))
        });
        within.push(x);
    }
    // p and q of unused groups, whose fractions are 0/1 in every layer.
    let mut dense =
        [Ext::ZERO, Ext::ZERO, Ext::ONE, Ext::ONE].map(|x| vec![x; 1 << cube.groups_log2]);
    for (g, halves) in halves.iter().enumerate() {
        for (dense, planes) in dense.iter_mut().zip(halves) {
            dense[g] = planes.get(0);
        }
    }
    let (groups, values) = prove_groups(sender, &leaves.groups, dense, lambda);
    let mu = join_halves(sender, values, leaves);
    within.insert(0, mu);
    (leaves.groups, leaves.within) = (groups, within);
    Ok(())
}

/// Verifies that fractions sum to zero, up to their values at one point.
///
/// # Errors
/// [`VerifyError::BusZeroDenominator`] if a denominator is zero, [`VerifyError::BusLayer`] if a layer does
/// not follow from the next, [`VerifyError::Length`] if the proof ends. If the sum is not zero,
/// the first layer does not follow.
pub(crate) fn verify<A: Arith>(
    channel: &mut Channel<A>,
    cube: Cube,
) -> Result<Leaves<A::Ext>, VerifyError> {
    // If denominators are zero, so is q, and with p = q = 0 every sum would pass.
    let denominator = channel.read_one()?;
    channel
        .arith
        .assert_nonzero(denominator, VerifyError::BusZeroDenominator)?;
    let mut leaves = Leaves {
        groups: Vec::new(),
        within: Vec::new(),
        numerator: channel.arith.ext(Ext::ZERO),
        denominator,
    };
    for layer in 0..cube.groups_log2 + cube.within_log2 {
        let lambda = channel.challenge();
        let mut claim = leaves.numerator + lambda * leaves.denominator;
        // Within groups first: while these coordinates are bound, the prover has only the used groups to touch.
        for coordinate in leaves.within.iter_mut().chain(&mut leaves.groups) {
            (claim, *coordinate) = read_round(channel, claim, *coordinate, DEGREE)?;
        }
        let values = channel.read(4)?;
        let [p0, p1, q0, q1] = [values[0], values[1], values[2], values[3]];
        let error = match layer {
            0 => VerifyError::BusSum,
            _ => VerifyError::BusLayer(layer),
        };
        let excess = layer_value([p0, p1, q0, q1], lambda) - claim;
        channel.arith.assert_zero(excess, error)?;
        let mu = channel.challenge();
        leaves.numerator = p0 + mu * (p1 - p0);
        leaves.denominator = q0 + mu * (q1 - q0);
        let part = match layer < cube.groups_log2 {
            true => &mut leaves.groups,
            false => &mut leaves.within,
        };
        // The halves differ in the highest coordinate of the groups, or within a group, and the highest comes first
        // in a point.
        part.insert(0, mu);
    }
    Ok(leaves)
}

#[cfg(test)]
mod tests;
