//! The matrices of lanes equal those of all entries, expanded.

use super::*;
use crate::merge::layout::MATRIX_LOG2;
use crate::merge::residual::CIRCUITS;
use crate::merge::wiring::{MATRICES, number};
use crate::multilinear::eq_table;
use crate::vector::Planes;

#[test]
fn the_wiring_is_the_sum_of_all_its_entries() {
    let setup = &*SETUP;
    let wiring = setup.merges.wiring();
    let mut random = Random::new(23);
    let mut point = |len: usize| random.exts(len);
    let (row, cell) = (point(layout::WIRING_LOG2), point(layout::CELLS_LOG2));
    let (of_matrix, of_row) = row.split_at(MATRIX_LOG2);
    let [matrices, rows] = [of_matrix, of_row].map(|at| eq_table(Ext::ONE, at));
    let cells = eq_table(Ext::ONE, &cell);
    let by_rows = wiring
        .rows(exec(), CIRCUITS, &wiring.used_cells(exec(), &cell))
        .unwrap();
    let (mut total, mut of_lanes, mut of_all) = (Ext::ZERO, 0, 0);
    for circuit in 0..CIRCUITS {
        let plan = &wiring.plans[circuit];
        let all = plan.written_out();
        let [a, b, c] = &all.products;
        for (matrix, entries) in [&all.inputs, &all.outputs, a, b, c].into_iter().enumerate() {
            let number = number(circuit, matrix);
            let mut sums = vec![Ext::ZERO; rows.len()];
            let mut columns = vec![Ext::ZERO; setup.merges.dimensions.cells()];
            for entry in entries {
                sums[entry.row as usize] += entry.factor * cells[entry.cell as usize];
                columns[entry.cell as usize] += entry.factor * rows[entry.row as usize];
            }
            let (_, got) = by_rows.iter().find(|(n, _)| *n == number).unwrap();
            assert!(
                (0..sums.len()).all(|i| got.get(i) == sums[i]),
                "rows {number}"
            );
            let weights = Planes::from_exts(&rows);
            let weighed = wiring.weighed(exec(), circuit, matrix, &weights);
            let got = wiring.cells(exec(), circuit, [(&weighed, Ext::ONE)]);
            let same = (0..columns.len()).all(|i| got.get(i) == columns[i]);
            assert!(same, "cells {number}");
            let terms = sums.iter().zip(&rows).map(|(x, weight)| *x * *weight);
            total += matrices[number] * terms.sum::<Ext>();
            of_all += entries.len();
        }
        let sections = plan.sections.iter();
        let sections = sections.map(|s| s.lanes * s.rows.products[0].len());
        of_lanes += sections.sum::<usize>();
        println!(
            "circuit {circuit}: {} rows in no lane",
            plan.rows.products[0].len()
        );
    }
    assert_eq!(wiring.at(exec(), &row, &cell), total);
    assert!(of_lanes > 0 && matrices.len() >= CIRCUITS * MATRICES);
    println!("{of_all} entries, {of_lanes} of A in lanes");
}
