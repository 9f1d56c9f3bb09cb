//! The cells and the inputs of the circuits are bound.

use super::*;
use crate::circuit::{Circuit, Recorder};
use crate::merge::child::record;

/// No cell of the circuits is free: changing any one violates a row, or enters a permutation.
#[test]
fn no_cell_of_a_child_is_free() {
    let setup = &*SETUP;
    let statement = setup.statement(0..6, 3);
    let below = setup.statement(0..6, 1);
    let (bundle, nested) = (&*bundle::BUNDLE, &*nested::NESTED);
    let entries = bundle.entries();
    let children = [
        leaf_child(&setup.leaves[0]),
        merge_child(&setup.merge, &below),
        bundle.child(&entries, 2),
    ];
    let prover = setup.prover_of(&statement, &children.map(|child| child.proof.kind()));
    let mut hints = setup.merges.hints(&statement, &children);
    // The circuit of bundles has three uses.
    hints.extend([nested.whole(), nested.keeps(&nested.proof, 1)]);
    setup.assert_no_free_cell(&prover.witnesses(&hints).unwrap());
}

impl Setup {
    /// Each cell of these witnesses' circuits is bound.
    pub(super) fn assert_no_free_cell(&self, witnesses: &[ChildWitness]) {
        for witness in witnesses {
            let plan = &self.merges.wiring().plans[witness.circuit];
            println!(
                "circuit {}: {} permutations, {} of {} cells",
                witness.circuit,
                plan.permuted.len(),
                plan.end,
                self.merges.dimensions.cells()
            );
            let rows = &plan.written_out();
            let mut values = [(); 3].map(|()| vec![Ext::ZERO; 1 << PRODUCTS_LOG2]);
            for (values, matrix) in values.iter_mut().zip(&rows.products) {
                for entry in matrix {
                    values[entry.row as usize] += entry.factor * witness.cells[entry.cell as usize];
                }
            }
            let [a, b, c] = &values;
            assert!(
                (0..a.len()).all(|r| a[r] * b[r] == c[r]),
                "an honest witness"
            );
            let mut bound = vec![false; plan.layout.cells];
            for entry in rows.inputs.iter().chain(&rows.outputs) {
                bound[entry.cell as usize] = true;
            }
            // The contribution of each cell to A, B and C in each row.
            let mut added: Vec<(u32, u32, usize, Ext)> = Vec::new();
            for (k, matrix) in rows.products.iter().enumerate() {
                let entries = matrix.iter().filter(|entry| !bound[entry.cell as usize]);
                added.extend(entries.map(|entry| (entry.cell, entry.row, k, entry.factor)));
            }
            added.sort_by_key(|(cell, row, ..)| (*cell, *row));
            for of_row in added.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
                let row = of_row[0].1 as usize;
                let mut changed = [a[row], b[row], c[row]];
                for (_, _, k, factor) in of_row {
                    changed[*k] += *factor * Fp::new(3);
                }
                if changed[0] * changed[1] != changed[2] {
                    bound[of_row[0].0 as usize] = true;
                }
            }
            let free: Vec<usize> = (layout::LAYOUT.free..plan.end)
                .filter(|i| !bound[*i])
                .collect();
            assert!(
                free.is_empty(),
                "{} free cells: {:?}",
                free.len(),
                &free[..free.len().min(9)]
            );
        }
    }

    /// The verdict of a circuit on a proof and hints.
    fn recorded(&self, elements: &[Fp], hints: &Hints) -> Result<(), VerifyError> {
        let circuit = Circuit::running();
        let setting = setting(self.merges.relation());
        record(Recorder::new(&circuit, elements), &setting, hints)
    }

    /// Each input, and each listed value, is bound in these uses of circuits: with another value, and everything
    /// else honest, the circuit rejects. The exceptions are those named by the use.
    pub(super) fn assert_bound(&self, uses: &[Use]) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.unwrap();
        let exec = Exec::new(KERNELS.measured(), Some(&pool));
        for Use { name, child, free } in uses {
            let (elements, honest) = (&child.elements, &child.hints);
            assert_eq!(self.recorded(elements, honest), Ok(()), "{name}");
            let mut other = honest.clone();
            let mut all = values(&mut other);
            let count = all.len();
            for input in free.iter().flat_map(|(inputs, _)| inputs.clone()) {
                *all[input - 1] -= Fp::ONE;
            }
            assert_eq!(self.recorded(elements, &other), Ok(()), "{name}: {free:?}");
            let is_free = |i: usize| free.iter().any(|(inputs, _)| inputs.contains(&(i + 1)));
            let asked: Vec<usize> = (0..count).filter(|i| !is_free(*i)).collect();
            let refused = exec.map(asked.len(), |i| {
                let mut other = honest.clone();
                *values(&mut other)[asked[i]] -= Fp::ONE;
                self.recorded(elements, &other).is_err()
            });
            let unbound = asked.iter().zip(refused).filter(|(_, refused)| !refused);
            let unbound: Vec<usize> = unbound.map(|(i, _)| i + 1).collect();
            assert_eq!(unbound, [], "{name}: free, of {count} values");
            println!("{name}: {} of {count} values", asked.len());
        }
    }
}

/// A use of a circuit: for which child, and which inputs it ignores, with the reason.
pub(super) struct Use {
    pub(super) name: &'static str,
    pub(super) child: Verified,
    pub(super) free: Vec<(Range<usize>, &'static str)>,
}

/// All inputs in order, and the listed values.
fn values(hints: &mut Hints) -> Vec<&mut Fp> {
    let mut values: Vec<&mut Fp> = hints.inputs.iter_mut().collect();
    if let Header::Bundled(bundled) = &mut hints.header {
        for listed in &mut bundled.listed {
            values.extend(listed.inputs.iter_mut().chain(&mut listed.bitfield));
        }
    }
    values
}

/// The inputs that a leaf ignores, below a merge or, if the digest of its bitfield is bound, below a bundle.
pub(super) fn free_of_leaf(at: Dimensions) -> Vec<(Range<usize>, &'static str)> {
    vec![
        (
            at.level()..at.level() + 1,
            "a leaf is of level 0, which is below each parent's: its statement's digest says so",
        ),
        (
            at.key()..at.key() + DIGEST,
            "a leaf has no children, and its transcript no digest of circuits",
        ),
        (
            at.whole()..at.whole() + 1,
            "only the circuit of bundles has two uses to tell apart",
        ),
    ]
}

/// The input that is free below a merge: the digest of the bitfield.
pub(super) fn free_below_merge(at: Dimensions) -> (Range<usize>, &'static str) {
    let why = "not bound here: the parent binds the words by the columns of bits";
    (at.bitfield()..at.end(), why)
}

/// The input that is free below a bundle: the flag for a bound digest may be 0 but is 1, since the bundle states it.
pub(super) fn free_below_bundle(at: Dimensions) -> (Range<usize>, &'static str) {
    let why = "0 binds nothing, and the parent's claim on inputs says that it is 1";
    (at.bound()..at.bound() + 1, why)
}

/// The inputs that are free if a bundle is proved as a whole.
pub(super) fn free_of_whole(at: Dimensions) -> Vec<(Range<usize>, &'static str)> {
    let why = "a bundle is stated by its digest in place of the message: the parent sets all else to zero";
    vec![
        (1..at.message().start, why),
        (at.message().start + DIGEST..at.level(), why),
        (at.bitfield()..at.end(), why),
    ]
}

#[test]
fn each_input_of_a_circuit_is_bound() {
    let setup = &*SETUP;
    let (merges, at) = (&setup.merges, setup.merges.dimensions);
    let (bundle, nested) = (&*bundle::BUNDLE, &*nested::NESTED);
    let entries = bundle.entries();
    let below = setup.statement(0..6, 1);
    let in_merge = |child: Child<'_>, level: u32| {
        let hints = merges.hints(&setup.statement(0..6, level), &[child]);
        hints.into_iter().next().unwrap()
    };
    let in_bundle = |entry: usize, child: Child<'_>| {
        merges.hints_of(merges.inputs_of_item(&entries[entry], 2), &child, &[])
    };
    let leaf = leaf_child(&setup.leaves[0]);
    let merge = merge_child(&setup.merge, &below);
    let uses = [
        Use {
            name: "leaf in a merge",
            child: in_merge(leaf, 1),
            free: [free_of_leaf(at), vec![free_below_merge(at)]].concat(),
        },
        Use {
            name: "leaf in a bundle",
            child: in_bundle(0, leaf),
            free: [free_of_leaf(at), vec![free_below_bundle(at)]].concat(),
        },
        Use {
            name: "merge in a merge",
            child: in_merge(merge, 2),
            free: vec![free_below_merge(at)],
        },
        Use {
            name: "merge in a bundle",
            child: in_bundle(2, merge),
            free: vec![free_below_bundle(at)],
        },
        Use {
            name: "bundle as a whole",
            child: nested.whole(),
            free: free_of_whole(at),
        },
        Use {
            name: "entry of a bundle",
            child: in_merge(bundle.child(&entries, 2), 3),
            free: vec![free_below_merge(at)],
        },
        Use {
            name: "entry of a bundle in a bundle",
            child: nested.keeps(&nested.proof, 1),
            free: vec![free_below_merge(at)],
        },
    ];
    setup.assert_bound(&uses);
}
