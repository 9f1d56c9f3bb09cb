//! Weights of claims: as vectors for the prover, at one point for the verifier.

use crate::arith::Arith;
use crate::claims::{Claim, Column, Part};
use crate::exec::Exec;
use crate::extension::Ext;
use crate::kernel::{Packed, Pass};
use crate::multilinear::{Scalar, eq_at, eq_table};
use crate::relation::Shape;
use crate::vector::{Planes, Vector};

/// The slice and the half of it where a column lies.
fn place(shape: &Shape, column: Column) -> (usize, usize) {
    match column {
        Column::Counts => (shape.first_slice, 0),
        Column::Inverses => (shape.first_slice, 1),
        Column::Tables => (shape.tables_slice, 0),
    }
}

/// Adds cell ⊗ eq, cell by cell.
struct AddCells<'a> {
    cells: &'a [Ext],
    eq: &'a Planes,
    out: &'a mut Planes,
}

impl Pass for AddCells<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        let lanes = self.eq.len();
        for (c, cell) in self.cells.iter().enumerate() {
            if *cell == Ext::ZERO {
                continue;
            }
            let cell = Vector::<V>::splat(*cell);
            for x in (0..lanes).step_by(V::LANES) {
                let at = c * lanes + x;
                let sum = self.out.load::<V>(at).add(cell.mul(self.eq.load(x)));
                self.out.store(at, sum);
            }
        }
    }
}

/// Adds scale · the weights of a claim to the weights of the slice of some number.
pub(super) fn add_claim(
    exec: Exec<'_>,
    shape: &Shape,
    scale: Ext,
    claim: &Claim<Ext>,
    (number, out): (usize, &mut Planes),
) {
    let mut add_column = |column: Column, table: &[Ext]| {
        let (slice, half) = place(shape, column);
        if slice == number {
            out.add_at(half << shape.column_log2(), &Planes::from_exts(table));
        }
    };
    for part in &claim.parts {
        match part {
            Part::Groups { .. } => {}
            Part::Point {
                column,
                scale: factor,
                point,
            } if place(shape, *column).0 == number => {
                add_column(*column, &eq_table(scale * *factor, point));
            }
            Part::Point { .. } => {}
            Part::Weights { column, weights } => {
                let scaled: Vec<Ext> = weights.iter().map(|w| scale * *w).collect();
                add_column(*column, &scaled);
            }
        }
    }
    let Some(at) = number.checked_sub(shape.groups_slice) else {
        return;
    };
    for part in &claim.parts {
        let Part::Groups {
            groups,
            cells,
            lanes,
        } = part
        else {
            continue;
        };
        let per_slice = shape.slice() >> lanes.len();
        let of_group = cells.len() / per_slice;
        if let Some(group) = groups.get(at / of_group) {
            let eq = Planes::from_exts(&eq_table(scale * *group, lanes));
            let cells = &cells[at % of_group * per_slice..][..per_slice];
            let eq = &eq;
            exec.backend_for(eq.len()).run(AddCells { cells, eq, out });
        }
    }
}

/// eq(a, b) of two points.
pub(super) fn eq_points<E: Scalar>(one: E, a: &[E], b: &[E]) -> E {
    a.iter().zip(b).fold(one, |product, (x, y)| {
        let both = *x * *y;
        product * (one - *x - *y + both + both)
    })
}

/// The weights of a claim at a point of all coordinates.
pub(super) fn claim_at<A: Arith>(
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
