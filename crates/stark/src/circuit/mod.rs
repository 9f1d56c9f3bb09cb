//! A verifier as a static circuit: rows, permutations and cells.
//!
//! [`Recorder`] is an [`Arith`]: a verifier that runs on it computes with values as it would natively, and each
//! call leaves a node. When a [`Circuit`] is *built*, a node also records how it depends on *cells*, base elements
//! of a witness. Everything nonlinear becomes a row (A·z)(B·z) = C·z over the extension, or a permutation whose
//! inputs are linear in the cells. The mapping of cells to nodes is part of the result ([`Plan`]), so a *run*
//! needs only the values of the nodes, in order. Since a verifier never branches on a value, the nodes of all runs
//! correspond.
//!
//! A row is over the extension and cells are base elements: a variable of the extension is
//! Σ_t X^t·cell_t, and one row can carry five base products with a common factor.

mod build;
mod lanes;
mod plan;
mod recorder;
#[cfg(test)]
mod tests;

pub(crate) use plan::{Entry, IN_LANE, Layout, Plan, Rows, Section, place};
pub(crate) use recorder::{FirstRows, Recorder, Wire};

use std::cell::RefCell;

use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::hash::{DIGEST, compress};
use crate::poseidon::WIDTH_16;
use build::{Build, Node};

/// The number of a node.
type Id = u32;

/// The result of a run: the value of each node, and the inputs of each permutation.
#[derive(Debug, Default)]
struct Inner {
    values: Vec<Ext>,
    permuted: Vec<[Fp; WIDTH_16]>,
    build: Option<Build>,
}

/// The nodes of one run of a verifier.
#[derive(Debug)]
pub(crate) struct Circuit {
    inner: RefCell<Inner>,
}

impl Circuit {
    /// A run that only computes.
    pub(crate) fn running() -> Circuit {
        Circuit {
            inner: RefCell::new(Inner::default()),
        }
    }

    /// A run that builds the circuit; the values do not matter, and nothing is rejected.
    pub(crate) fn building(layout: Layout) -> Circuit {
        let inner = Inner {
            build: Some(Build::new(layout)),
            ..Inner::default()
        };
        Circuit {
            inner: RefCell::new(inner),
        }
    }

    /// Whether the circuit is being built.
    fn builds(&self) -> bool {
        self.inner.borrow().build.is_some()
    }

    /// The built circuit.
    ///
    /// # Panics
    /// If the circuit was only run.
    pub(crate) fn plan(self) -> Plan {
        let build = self.inner.into_inner().build;
        build.expect("a circuit that is being built").finish()
    }

    /// The computed values: cells by a plan, and the inputs of the permutations.
    pub(crate) fn witness(self, plan: &Plan) -> (Vec<Fp>, Vec<[Fp; WIDTH_16]>) {
        let inner = self.inner.into_inner();
        let mut cells = vec![Fp::ZERO; plan.layout.cells];
        for place in &plan.places {
            cells[place.cell as usize] = inner.values[place.node as usize].0[place.component];
        }
        // The plan numbers its permutations without gaps. Those after the last permute zeros, as `Build::unused`
        // states.
        let mut permuted = vec![[Fp::ZERO; WIDTH_16]; plan.permuted.len()];
        for (at, state) in plan.permuted.iter().zip(inner.permuted) {
            permuted[*at as usize] = state;
        }
        (cells, permuted)
    }

    /// Begins recording the first of this many lanes of a circuit being built.
    fn begin_lanes(&self, lanes: usize) {
        if let Some(build) = &mut self.inner.borrow_mut().build {
            build.begin_lanes(lanes);
        }
    }

    /// Ends the lane: see [`Build::end_lanes`].
    fn end_lanes(&self, lanes: usize, results: &[Id]) -> usize {
        let mut inner = self.inner.borrow_mut();
        let Inner { values, build, .. } = &mut *inner;
        let nodes = build.as_mut().map_or(0, |build| build.end_lanes(results));
        // Values do not matter while a circuit is built, but node numbers do: in a run every lane leaves its nodes,
        // and the plan is read by their numbers.
        values.resize(values.len() + nodes * (lanes - 1), Ext::ZERO);
        nodes
    }

    /// Asserts that a new cell of a lane equals, in each lane, another node.
    fn copy(&self, cell: Id, from: Vec<Id>) {
        if let Some(build) = &mut self.inner.borrow_mut().build {
            build.copy(cell, from);
        }
    }

    fn push(&self, value: Ext, node: impl FnOnce(&mut Build, Id) -> (Node, bool)) -> Id {
        let mut inner = self.inner.borrow_mut();
        let id = inner.values.len() as Id;
        inner.values.push(value);
        if let Some(build) = &mut inner.build {
            let (node, base) = node(build, id);
            build.push(node, base);
        }
        id
    }

    fn value(&self, id: Id) -> Ext {
        self.inner.borrow().values[id as usize]
    }

    fn constant(&self, value: Ext) -> Wire<'_> {
        let base = value.0[1..].iter().all(|x| *x == Fp::ZERO);
        self.wire(self.push(value, |_, _| (Node::Constant(value), base)))
    }

    fn wire(&self, id: Id) -> Wire<'_> {
        Wire { circuit: self, id }
    }

    /// A base element that the prover chooses.
    fn hint(&self, value: Fp) -> Wire<'_> {
        let cell = |build: &mut Build, id| (Node::Cell(build.new_cells(id, 1)), true);
        self.wire(self.push(Ext::from(value), cell))
    }

    /// An element of the extension that the prover chooses.
    fn hint_ext(&self, value: Ext) -> Wire<'_> {
        let cells = |build: &mut Build, id| (Node::Variable(build.new_cells(id, DEGREE)), false);
        self.wire(self.push(value, cells))
    }

    /// A base element at a fixed cell.
    fn input(&self, cell: usize, value: Fp) -> Wire<'_> {
        let node = |build: &mut Build, id| {
            // Placed by the layout and not by the builder, because the parent's claim on inputs and outputs reads
            // these cells.
            build.place(cell, id, 0);
            (Node::Cell(cell as u32), true)
        };
        self.wire(self.push(Ext::from(value), node))
    }

    /// Asserts left·right = out.
    fn row(&self, left: Id, right: Id, out: Option<Id>) {
        if let Some(build) = &mut self.inner.borrow_mut().build {
            build.product(left, right, out);
        }
    }

    fn compress(&self, left: [Id; DIGEST], right: [Id; DIGEST]) -> [Id; DIGEST] {
        let inputs: [Id; WIDTH_16] = std::array::from_fn(|i| match i < DIGEST {
            true => left[i],
            false => right[i - DIGEST],
        });
        let values = inputs.map(|id| self.value(id).0[0]);
        let half = |at: usize| std::array::from_fn(|i| values[at + i]);
        let out = compress(half(0), half(DIGEST));
        // The outputs are cells like any hint. What binds them is no row but the argument about permutations, with
        // the entries that `Build::permutation` writes.
        let ids = out.map(|x| self.hint(x).id);
        let mut inner = self.inner.borrow_mut();
        inner.permuted.push(values);
        if let Some(build) = &mut inner.build {
            build.permutation(inputs, ids);
        }
        ids
    }
}
