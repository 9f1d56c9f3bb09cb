//! The prover: commits, and opens all claims.

use alphorn_exec::{Exec, Stopped};

pub(crate) use super::oracle::Oracle;
use super::verifier::Slices;
use super::{OracleParameters, Preset};
use crate::arith::Native;
use crate::extension::Ext;
use crate::field::Fp;
use crate::kernel::{Dispatch, Packed, Pass};
use crate::merkle::Sent;
use crate::multilinear::{eq_table, evaluate, powers};
use crate::sumcheck::prove_product_round;
use crate::transcript::Sender;
use crate::vector::{Planes, Vector, eq_planes};

/// Number of elements of a weight vector that one task fills.
const TASK: usize = 1024;

/// Σ a·b.
pub(crate) struct Product<'a>(pub(crate) &'a Planes, pub(crate) &'a Planes);

impl Pass for Product<'_> {
    type Output = Ext;

    #[inline(always)]
    fn run<V: Packed>(self) -> Ext {
        let mut sum = Vector::<V>::zero();
        for x in (0..self.0.len()).step_by(V::LANES) {
            sum = sum.add(self.0.load::<V>(x).mul(self.1.load(x)));
        }
        sum.total()
    }
}

/// The same for the differences of two pairs.
pub(super) struct SlopeProduct<'a>(pub(super) [&'a Planes; 2], pub(super) [&'a Planes; 2]);

impl Pass for SlopeProduct<'_> {
    type Output = Ext;

    #[inline(always)]
    fn run<V: Packed>(self) -> Ext {
        let mut sum = Vector::<V>::zero();
        for x in (0..self.0[0].len()).step_by(V::LANES) {
            let a = self.0[1].load::<V>(x).sub(self.0[0].load(x));
            let b = self.1[1].load::<V>(x).sub(self.1[0].load(x));
            sum = sum.add(a.mul(b));
        }
        sum.total()
    }
}

/// Σ_j weight_j · x_j^b for b in a range that begins at `start`.
struct PowerSums<'a> {
    points: &'a [(Ext, Fp)],
    start: usize,
    len: usize,
}

impl Pass for PowerSums<'_> {
    type Output = Planes;

    #[inline(always)]
    fn run<V: Packed>(self) -> Planes {
        let mut out = Planes::zero(self.len);
        let mut buffer = vec![Fp::ZERO; self.len];
        for (weight, x) in self.points {
            // Powers by doubling the existing part: products within a step are independent of each other, whereas
            // x·x·x… would be a dependency chain.
            buffer[0] = x.pow(self.start as u64);
            let (mut filled, mut step) = (1, *x);
            while filled < self.len {
                for i in 0..filled {
                    buffer[filled + i] = buffer[i] * step;
                }
                filled *= 2;
                step *= step;
            }
            let weight = Vector::<V>::splat(*weight);
            for b in (0..self.len).step_by(V::LANES) {
                let sum = out.load::<V>(b).add(weight.scale(V::load(&buffer[b..])));
                out.store(b, sum);
            }
        }
        out
    }
}

/// The first oracle, and the sample that pins the committed vector.
pub(crate) struct Committer<'a> {
    pub(crate) slices: &'a [Vec<Fp>],
    pub(crate) numbers: &'a [usize],
    pub(crate) oracle: Oracle,
    pub(crate) point: Vec<Ext>,
    pub(crate) value: Ext,
    /// ⟨f_i, eq(point's low part)⟩ by the number of the slice.
    pub(crate) slice_values: Vec<Ext>,
}

impl<'a> Committer<'a> {
    /// Commits to slices with these numbers.
    ///
    /// # Errors
    /// [`Stopped`] if the computation is stopped.
    pub(crate) fn new(
        sender: &mut Sender,
        exec: Exec<'_>,
        preset: &Preset,
        slice_log2: usize,
        slices: &'a [Vec<Fp>],
        numbers: &'a [usize],
    ) -> Result<Committer<'a>, Stopped> {
        let parameters = &preset.oracles[0];
        let views: Vec<&[Fp]> = slices.iter().map(Vec::as_slice).collect();
        let cap_log2 = parameters.cap_log2();
        let oracle = Oracle::new(exec, &views, parameters.rows_log2, cap_log2, 0)?;
        exec.step("samples")?;
        sender.send_base(&oracle.cap());
        let point = sender.challenges(parameters.slices_log2 + slice_log2);
        // The sample over a slice is a sum in base elements, the expensive half. It is kept per slice, because the
        // rounds over slices sum it again with other weights.
        let (top, low) = point.split_at(parameters.slices_log2);
        let weights = eq_planes(exec, Ext::ONE, low);
        let backend = exec.backend().fitting(weights.len());
        let sums = exec.try_map(slices.len(), |i| weights.dot(backend, &slices[i]))?;
        let mut slice_values = vec![Ext::ZERO; 1 << parameters.slices_log2];
        for (number, sum) in numbers.iter().zip(sums) {
            slice_values[*number] = sum;
        }
        let value = evaluate(&slice_values, top);
        sender.send(&[value]);
        Ok(Committer {
            slices,
            numbers,
            oracle,
            point,
            value,
            slice_values,
        })
    }
}

/// The remaining vector and its weights.
struct Opening<'a> {
    exec: Exec<'a>,
    sender: &'a mut Sender,
    /// ⟨values, weights⟩.
    claim: Ext,
    values: Planes,
    weights: Planes,
}

/// The rounds over the slices, as required by their claims.
pub(crate) trait OpenSlices {
    /// The sum at 0 and the leading coefficient of the next round.
    fn totals(&self, exec: Exec<'_>) -> Result<[Ext; 2], Stopped>;

    /// Binds the highest coordinate.
    fn bind(&mut self, exec: Exec<'_>, x: Ext) -> Result<(), Stopped>;

    /// The result when all slices are bound: Σ_i eq(α, i)·f_i and its weights.
    fn finish(self, exec: Exec<'_>, alphas: &[Ext]) -> Result<[Planes; 2], Stopped>;
}

/// Opens the claims on the committed vector, given their sum with the sample's value. The transcript matches the
/// verifier's up to the factors of the claims. Returns the point of all coordinates.
///
/// # Errors
/// [`Stopped`] if the computation is stopped.
pub(crate) fn open(
    sender: &mut Sender,
    exec: Exec<'_>,
    preset: &Preset,
    committer: Committer<'_>,
    claim: Ext,
    mut rounds: impl OpenSlices,
) -> Result<Vec<Ext>, Stopped> {
    exec.step("rounds over slices")?;
    let bits = Some(preset.oracles[0].fold_bits);
    let (mut alphas, mut claim) = (Vec::new(), claim);
    for _ in 0..preset.oracles[0].slices_log2 {
        exec.step("rounds over slices")?;
        let totals = rounds.totals(exec)?;
        let x = prove_product_round(sender, exec, &mut claim, totals, bits)?;
        rounds.bind(exec, x)?;
        alphas.push(x);
    }
    exec.step("rounds over slices")?;
    let [values, weights] = rounds.finish(exec, &alphas)?;
    let mut bound = alphas.clone();
    let mut opening = Opening {
        exec,
        sender,
        claim,
        values,
        weights,
    };
    let (mut oracle, mut slices) = (committer.oracle, Slices::Base(committer.numbers));
    for (number, parameters) in preset.oracles.iter().enumerate().skip(1) {
        let before = &preset.oracles[number - 1];
        // Commit, sample, query, join: the order in which the verifier reads. Each step draws challenges that the
        // previous one must not know.
        let next = opening.commit(parameters, number)?;
        let (point, value) = opening.sample()?;
        let rows = opening.query(before, &oracle, preset.query_bits)?;
        opening.join(Some((&point, value)), &rows, &alphas, slices)?;
        alphas = opening.fold(parameters.slices_log2, Some(parameters.fold_bits))?;
        bound.extend(&alphas);
        oracle = next;
        slices = Slices::Extension;
    }
    let last: Vec<Ext> = (0..opening.values.len())
        .map(|i| opening.values.get(i))
        .collect();
    opening.sender.send(&last);
    let before = &preset.oracles[preset.oracles.len() - 1];
    let rows = opening.query(before, &oracle, preset.query_bits)?;
    opening.join(None, &rows, &alphas, slices)?;
    bound.extend(opening.fold(last.len().ilog2() as usize, None)?);
    Ok(bound)
}

impl Opening<'_> {
    /// Commits to the values as the next oracle.
    fn commit(&mut self, parameters: &OracleParameters, number: usize) -> Result<Oracle, Stopped> {
        let len = self.values.len() >> parameters.slices_log2;
        // A slice of extension elements is five columns of base elements side by side, as `Slices::Extension` reads
        // a row.
        let slices: Vec<&[Fp]> = (0..1 << parameters.slices_log2)
            .flat_map(|i| self.values.coefficients(i * len..(i + 1) * len))
            .collect();
        let (rows, cap) = (parameters.rows_log2, parameters.cap_log2());
        let oracle = Oracle::new(self.exec, &slices, rows, cap, number)?;
        self.sender.send_base(&oracle.cap());
        Ok(oracle)
    }

    /// The value at a random point.
    fn sample(&mut self) -> Result<(Vec<Ext>, Ext), Stopped> {
        self.exec.step("samples")?;
        let point = self.sender.challenges(self.values.len().ilog2() as usize);
        let weights = eq_planes(self.exec, Ext::ONE, &point);
        let backend = self.exec.backend().fitting(weights.len());
        let value = backend.run(Product(&weights, &self.values));
        self.sender.send(&[value]);
        Ok((point, value))
    }

    /// Opens random rows; returns their points and contents.
    fn query(
        &mut self,
        parameters: &OracleParameters,
        oracle: &Oracle,
        bits: u32,
    ) -> Result<Vec<(Fp, Vec<Fp>)>, Stopped> {
        // The work comes before the indices: 14 or 20 bits that a prover looking for better rows pays for every
        // attempt.
        self.sender.grind(self.exec, bits)?;
        self.exec.step("opened rows")?;
        let indices = self
            .sender
            .queries(parameters.queries, parameters.rows_log2);
        // Rows that are requested twice are sent once, and of all paths only the nodes that do not follow from
        // others. The verifier derives from the indices which ones those are.
        let root = Fp::root_of_unity(parameters.rows_log2 as u32);
        let sent = Sent::new(&indices, oracle.height());
        for row in &sent.rows {
            self.sender.hint(&oracle.row(*row));
        }
        for (height, nodes) in sent.nodes.iter().enumerate() {
            for node in nodes {
                self.sender.hint(&oracle.node(height, *node));
            }
        }
        let opened = indices
            .iter()
            .map(|index| (root.pow(*index as u64), oracle.row(*index)));
        Ok(opened.collect())
    }

    /// Joins the claims of a sample, if there is one, and of opened rows to the current claim.
    fn join(
        &mut self,
        sample: Option<(&[Ext], Ext)>,
        rows: &[(Fp, Vec<Fp>)],
        alphas: &[Ext],
        slices: Slices<'_>,
    ) -> Result<(), Stopped> {
        self.exec.step("later rounds")?;
        let gamma = self.sender.challenge();
        let gammas = powers(gamma, gamma, rows.len() + 1);
        let weights = slices.weights(&eq_table(Ext::ONE, alphas));
        let arith = Native::new(&[]);
        for ((_, row), gamma) in rows.iter().zip(&gammas[1..]) {
            self.claim += *gamma * slices.fold(&arith, row, &weights);
        }
        if let Some((point, value)) = sample {
            self.claim += gamma * value;
            self.weights.add_assign(&eq_planes(self.exec, gamma, point));
        }
        let points: Vec<(Ext, Fp)> = gammas[1..]
            .iter()
            .copied()
            .zip(rows.iter().map(|r| r.0))
            .collect();
        // The weights of all rows are added in task-sized chunks: a table for each row would be a hundred times
        // the remaining vector.
        let len = TASK.min(self.weights.len());
        let backend = self.exec.backend().fitting(len);
        let parts = self.exec.try_map(self.weights.len() / len, |i| {
            backend.run(PowerSums {
                points: &points,
                start: i * len,
                len,
            })
        })?;
        for (i, part) in parts.iter().enumerate() {
            self.weights.add_at(i * len, part);
        }
        Ok(())
    }

    /// Binds the highest coordinates.
    fn fold(&mut self, rounds: usize, bits: Option<u32>) -> Result<Vec<Ext>, Stopped> {
        let round = |opening: &mut Self| {
            opening.exec.step("later rounds")?;
            let [f, w] = [&opening.values, &opening.weights].map(Planes::halves);
            let backend = opening.exec.backend().fitting(f[0].len());
            let totals = [
                backend.run(Product(&f[0], &w[0])),
                backend.run(SlopeProduct([&f[0], &f[1]], [&w[0], &w[1]])),
            ];
            let (exec, claim) = (opening.exec, &mut opening.claim);
            let x = prove_product_round(opening.sender, exec, claim, totals, bits)?;
            opening.values = opening.values.fold(backend, x);
            opening.weights = opening.weights.fold(backend, x);
            Ok(x)
        };
        (0..rounds).map(|_| round(self)).collect()
    }
}

#[cfg(test)]
mod tests;
