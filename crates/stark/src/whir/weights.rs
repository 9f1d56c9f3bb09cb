//! Weights of claims at one point.

use crate::arith::Arith;
use crate::claims::{Claim, Column, Part};
use crate::extension::Ext;
use crate::multilinear::{eq_at, eq_points, eq_table};
use crate::relation::Shape;

/// The slice in which a column lies, and which half of it.
pub(super) fn place(shape: &Shape, column: Column) -> (usize, usize) {
    match column {
        Column::Counts => (shape.first_slice, 0),
        Column::Inverses => (shape.first_slice, 1),
        Column::Tables => (shape.tables_slice, 0),
    }
}

/// The weights of a claim at a point of all coordinates.
pub(crate) fn claim_at<A: Arith>(
    arith: &A,
    shape: &Shape,
    claim: &Claim<A::Ext>,
    point: &[A::Ext],
) -> A::Ext {
    let (zero, one) = (arith.ext(Ext::ZERO), arith.ext(Ext::ONE));
    let (top, low) = point.split_at(shape.slices_log2);
    let slice = |number: usize| eq_at(one, top, number);
    let column = |column: Column| {
        let (number, half) = place(shape, column);
        let side = if half == 1 { low[0] } else { one - low[0] };
        slice(number) * side
    };
    let parts = claim.parts.iter().map(|part| match part {
        Part::Groups {
            groups,
            cells,
            lanes,
        } => {
            let (cell_point, lane_point) = low.split_at(low.len() - lanes.len());
            let eq = eq_table(one, cell_point);
            // The coordinates above the lanes number the cells of a slice, and a group is a run of slices.
            let of_group = cells.len() / eq.len();
            let slices = cells.chunks_exact(eq.len()).map(|cells| {
                let terms = cells.iter().zip(&eq);
                terms.fold(zero, |sum, (w, e)| sum + *w * *e)
            });
            let slices: Vec<A::Ext> = slices.collect();
            let tops = eq_table(one, top);
            let mut sum = zero;
            for (g, group) in groups.iter().enumerate() {
                let numbers = tops[shape.groups_slice + g * of_group..].iter();
                let of_slices = numbers.zip(&slices);
                sum = sum + *group * of_slices.fold(zero, |s, (t, v)| s + *t * *v);
            }
            sum * eq_points(one, lanes, lane_point)
        }
        Part::Point {
            column: which,
            scale,
            point,
        } => *scale * column(*which) * eq_points(one, point, &low[1..]),
        Part::Weights {
            column: which,
            weights,
        } => {
            // Only the first elements have weights, so the coordinates above theirs are zero. low[0] tells the
            // halves of the slice apart.
            let tail = low.len() - weights.len().next_power_of_two().ilog2() as usize;
            let high = low[1..tail]
                .iter()
                .fold(one, |product, z| product * (one - *z));
            let eq = eq_table(high, &low[tail..]);
            let terms = weights.iter().zip(&eq);
            column(*which) * terms.fold(zero, |sum, (w, e)| sum + *w * *e)
        }
    });
    parts.fold(zero, |sum, part| sum + part)
}
