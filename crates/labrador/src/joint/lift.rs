//! The equations on constant coefficients, each with random weights, as one form a lift.
//!
//! | equation | weights |
//! |---|---|
//! | images: `y_(p,b) = J s_(p,b)` for every block | a scalar a block, one a row of `J` |
//! | projection: `p = Pi (y; y_0; y_1)` | a scalar a row of `Pi` |
//! | conjugation: `S2 = alpha sigma(S0)` | a scalar a column, one a row, and an element `theta` |
//! | products: `ct(sum 2^(9 d) S1_d) = 0` | a scalar a column |
//! | zeros behind `Y` | a scalar a place, times `theta` |
//! | forms: `L_k(s) = tau_k + q v_k` | a scalar a form |
//!
//! A product of two independent uniform scalars, or of a scalar and `ct(theta x)`, is enough: if an
//! equation is false, a lift holds with probability of at most `3/Q`.

use alphorn_exec::{Exec, Stopped};

use super::DrawnForms;
use super::layout::{BASE, BLOCK, Layout};
use crate::projection::{LIFTS, Projection, ROWS, Weights, weigh, weights};
use crate::ring::{DEGREE, Ntt, Rq, Transforms, add_mod, mul_mod, reduce};
use crate::transcript::{Stream, Transcript};

/// The random weights of one lift.
pub(crate) struct Lift {
    /// For the rows of `J`.
    pub(crate) rows: Weights,
    pub(crate) blocks: Vec<u64>,
    pub(crate) columns: Vec<u64>,
    pub(crate) long_rows: Vec<u64>,
    pub(crate) products: Vec<u64>,
    pub(crate) padding: Vec<u64>,
    pub(crate) forms: Vec<u64>,
    pub(crate) theta: Rq,
}

/// The weights of all lifts.
pub(crate) struct Lifts {
    /// For the rows of `Pi`.
    pub(crate) projection: [Weights; LIFTS],
    pub(crate) each: [Lift; LIFTS],
}

/// Everything public that the lifts speak of.
pub(crate) struct Public<'a> {
    pub(crate) layout: Layout,
    pub(crate) modulus: u64,
    pub(crate) forms: &'a dyn DrawnForms,
    pub(crate) alphas: Vec<Ntt>,
    pub(crate) blocks: Projection,
    pub(crate) quotients: Vec<i64>,
    pub(crate) projection: Projection,
    pub(crate) image: [i64; ROWS],
}

impl Lift {
    fn draw(layout: &Layout, forms: usize, stream: &mut Stream) -> Self {
        let [rows, _, _] = weights(stream);
        let places = layout.elements() - layout.image_start() - 2 * layout.image_elements();
        let mut many = |count: usize| (0..count).map(|_| stream.residue()).collect();
        let (blocks, columns) = (many(layout.blocks()), many(layout.columns));
        let (long_rows, products) = (many(layout.long_rows()), many(layout.columns));
        let (padding, forms) = (many(places), many(forms));
        Self {
            rows,
            blocks,
            columns,
            long_rows,
            products,
            padding,
            forms,
            theta: stream.element(),
        }
    }
}

impl Lifts {
    pub(crate) fn draw(layout: &Layout, forms: usize, transcript: &Transcript) -> Self {
        let stream = |l: usize| transcript.seed("lift equations", l as u64).stream();
        Self {
            projection: weights(&mut transcript.seed("lift projection", 0).stream()),
            each: std::array::from_fn(|l| Lift::draw(layout, forms, &mut stream(l))),
        }
    }
}

impl Public<'_> {
    /// The constant coefficient of a lift: `<omega', p> + sum mu_k (tau_k + q v_k)`.
    pub(crate) fn constant(&self, lifts: &Lifts, lift: usize) -> u64 {
        let targets = self.forms.targets().iter().zip(&self.quotients);
        let values = targets.map(|(&tau, &v)| reduce(tau as i64 + self.modulus as i64 * v));
        let weighted = (values.zip(&lifts.each[lift].forms)).map(|(x, &mu)| mul_mod(x, mu));
        let start = weigh(&lifts.projection[lift], &self.image);
        weighted.fold(start, add_mod)
    }

    /// The columns of `J` under the weights of its rows, for each lift.
    pub(crate) fn block_columns(
        &self,
        lifts: &Lifts,
        exec: Exec<'_>,
    ) -> Result<[Vec<Ntt>; LIFTS], Stopped> {
        let rows = lifts.each.each_ref().map(|lift| lift.rows);
        let span = BLOCK.min(self.layout.rank());
        let columns = collapse(&self.blocks, span, &rows, exec)?;
        Ok(columns.map(|columns| exec.backend().transforms(&columns)))
    }

    /// The lifts over the digits of the images, where `y = y_0 + 2^9 y_1`:
    /// `e_(p,b) <omega, y_(p,b)> + <omega', Pi (y; y_0; y_1)>`.
    pub(crate) fn image_elements(
        &self,
        lifts: &Lifts,
        exec: Exec<'_>,
    ) -> Result<[Vec<Rq>; LIFTS], Stopped> {
        let count = self.layout.image_elements();
        let columns = collapse(&self.projection, 3 * count, &lifts.projection, exec)?;
        Ok(std::array::from_fn(|l| {
            let (lift, columns) = (&lifts.each[l], &columns[l]);
            let mut phi = vec![Rq::ZERO; 2 * count];
            for index in 0..count {
                let mut image = self.image_weights(lift, index);
                image.add(&columns[2 * count + index]);
                phi[index].clone_from(&columns[index]);
                phi[index].add(&image);
                phi[count + index].clone_from(&columns[count + index]);
                phi[count + index].add(&image.scaled(1 << BASE));
            }
            phi
        }))
    }

    /// The element whose product with element `index` of the images has the constant coefficient
    /// `e_(p,b) <omega, y>`.
    fn image_weights(&self, lift: &Lift, index: usize) -> Rq {
        let quarters = ROWS / DEGREE;
        let (block, quarter) = (index / quarters, index % quarters);
        let mut coefficients = [0; DEGREE];
        coefficients.copy_from_slice(&lift.rows[quarter * DEGREE..(quarter + 1) * DEGREE]);
        let element = Rq::from_canonical(coefficients).expect("weights are residues");
        element.sigma().scaled(lift.blocks[block])
    }
}

/// Elements of a task.
const CHUNK: usize = 64;

/// [`Projection::collapse`] of the first `count` elements, on threads.
fn collapse(
    projection: &Projection,
    count: usize,
    weights: &[Weights; LIFTS],
    exec: Exec<'_>,
) -> Result<[Vec<Rq>; LIFTS], Stopped> {
    let parts = exec.try_map(count.div_ceil(CHUNK), |task| {
        let range = task * CHUNK..count.min((task + 1) * CHUNK);
        projection.collapse(range, weights, exec.backend())
    })?;
    let mut out = [const { Vec::new() }; LIFTS];
    for mut part in parts {
        for (out, part) in out.iter_mut().zip(&mut part) {
            out.append(part);
        }
    }
    Ok(out)
}
