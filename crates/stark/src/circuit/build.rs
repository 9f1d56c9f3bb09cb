//! How nodes depend on cells, and the rows that follow.

use std::collections::BTreeMap;

use super::Id;
use crate::arith::DIGEST;
use crate::extension::{DEGREE, Ext};
use crate::poseidon::WIDTH_16;

/// A sum of more terms than this is written out, so that no form is walked through too often.
const TERMS_MAX: u32 = 384;

/// Where cells of a circuit lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// All cells.
    pub(crate) cells: usize,
    /// The cell that is one.
    pub(crate) one: usize,
    /// The first cell that is free for variables.
    pub(crate) free: usize,
    /// Permutations that there is room for.
    pub(crate) permutations: usize,
    /// Rows that there is room for.
    pub(crate) rows: usize,
    /// A linear form with more cells than this becomes a variable when it is used.
    pub(crate) form_max: usize,
}

/// How a node depends on cells.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Not at all.
    Constant(Ext),
    /// It is a cell.
    Cell(u32),
    /// It is Σ_t X^t·cell of five cells.
    Variable(u32),
    /// Σ_t X^t·node_t.
    Join([Id; DEGREE]),
    /// A sum.
    Add(Id, Id),
    /// A difference.
    Sub(Id, Id),
    /// A node times a constant.
    Scale(Id, Ext),
    /// A linear form, ascending in cells.
    Form(Vec<(u32, Ext)>),
}

/// Cell `cell` has component `component` of the value of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) cell: u32,
    pub(crate) node: Id,
    pub(crate) component: usize,
}

/// A coefficient of a sparse matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The row.
    pub(crate) row: u32,
    /// The cell.
    pub(crate) cell: u32,
    /// The coefficient.
    pub(crate) factor: Ext,
}

/// The matrices of a circuit, each ascending in rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Row 16·p + i: input i of permutation p.
    pub(crate) inputs: Vec<Entry>,
    /// Row 8·p + i: output i of permutation p, without the input.
    pub(crate) outputs: Vec<Entry>,
    /// A, B, C of the rows (A·z)(B·z) = C·z.
    pub(crate) products: [Vec<Entry>; 3],
}

/// What was built.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) layout: Layout,
    pub(crate) places: Vec<Place>,
    pub(crate) rows: Rows,
    /// Permutations that are used.
    #[cfg(test)]
    pub(crate) permutations: usize,
    /// The cell after the last one that is used.
    pub(crate) end: usize,
}

/// A circuit that is being built.
#[derive(Debug)]
pub(super) struct Build {
    layout: Layout,
    nodes: Vec<Node>,
    /// Whether a node is a base element.
    base: Vec<bool>,
    /// An upper bound of the terms that a node has.
    sizes: Vec<u32>,
    places: Vec<Place>,
    rows: Rows,
    permutations: usize,
    products: usize,
    end: usize,
}

impl Build {
    pub(super) fn new(layout: Layout) -> Build {
        Build {
            layout,
            nodes: Vec::new(),
            base: Vec::new(),
            sizes: Vec::new(),
            places: Vec::new(),
            rows: Rows::default(),
            permutations: 0,
            products: 0,
            end: layout.free,
        }
    }

    pub(super) fn push(&mut self, node: Node, base: bool) {
        let size = |id: &Id| self.sizes[*id as usize];
        let size = match &node {
            Node::Constant(_) | Node::Cell(_) => 1,
            Node::Variable(_) => DEGREE as u32,
            Node::Join(ids) => ids.iter().map(size).sum(),
            Node::Add(a, b) | Node::Sub(a, b) => size(a) + size(b),
            Node::Scale(a, _) => size(a),
            Node::Form(form) => form.len() as u32,
        };
        self.nodes.push(node);
        self.base.push(base);
        self.sizes.push(size);
        if size > TERMS_MAX {
            let id = self.nodes.len() as Id - 1;
            let form = self.form(id);
            self.set(id, Node::Form(form));
            self.used(id);
        }
    }

    fn set(&mut self, id: Id, node: Node) {
        self.sizes[id as usize] = match &node {
            Node::Variable(_) => DEGREE as u32,
            Node::Form(form) => form.len() as u32,
            _ => 1,
        };
        self.nodes[id as usize] = node;
    }

    pub(super) fn node(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    pub(super) fn is_base(&self, id: Id) -> bool {
        self.base[id as usize]
    }

    /// The constant that a node is.
    pub(super) fn constant(&self, id: Id) -> Option<Ext> {
        match self.node(id) {
            Node::Constant(value) => Some(*value),
            _ => None,
        }
    }

    /// The same node again.
    pub(super) fn same(&self, id: Id) -> (Node, bool) {
        (self.node(id).clone(), self.is_base(id))
    }

    /// New cells for the components of a node.
    pub(super) fn new_cells(&mut self, node: Id, count: usize) -> u32 {
        let first = self.end;
        assert!(
            first + count <= self.layout.cells,
            "cells for all variables"
        );
        self.end += count;
        for component in 0..count {
            self.place(first + component, node, component);
        }
        first as u32
    }

    /// Says which node a cell has the value of.
    pub(super) fn place(&mut self, cell: usize, node: Id, component: usize) {
        self.places.push(Place {
            cell: cell as u32,
            node,
            component,
        });
    }

    /// A node as a linear form.
    fn form(&self, id: Id) -> Vec<(u32, Ext)> {
        let mut form: BTreeMap<u32, Ext> = BTreeMap::new();
        let mut rest = vec![(id, Ext::ONE)];
        while let Some((id, factor)) = rest.pop() {
            let mut add = |cell: u32, x: Ext| *form.entry(cell).or_default() += x;
            match self.node(id) {
                Node::Constant(value) => add(self.layout.one as u32, *value * factor),
                Node::Cell(cell) => add(*cell, factor),
                Node::Variable(first) => {
                    let mut factor = factor;
                    for cell in *first..first + DEGREE as u32 {
                        add(cell, factor);
                        factor *= Ext::X;
                    }
                }
                Node::Join(ids) => {
                    let mut factor = factor;
                    for id in ids {
                        rest.push((*id, factor));
                        factor *= Ext::X;
                    }
                }
                Node::Add(a, b) => rest.extend([(*a, factor), (*b, factor)]),
                Node::Sub(a, b) => rest.extend([(*a, factor), (*b, -factor)]),
                Node::Scale(a, scale) => rest.push((*a, factor * *scale)),
                Node::Form(terms) => terms.iter().for_each(|(c, x)| add(*c, factor * *x)),
            }
        }
        form.into_iter().filter(|(_, x)| *x != Ext::ZERO).collect()
    }

    /// The form of a node that is used in a row: a long one becomes a variable.
    fn used(&mut self, id: Id) -> Vec<(u32, Ext)> {
        let form = self.form(id);
        if form.len() <= self.layout.form_max {
            return form;
        }
        let node = match self.is_base(id) {
            true => Node::Cell(self.new_cells(id, 1)),
            false => Node::Variable(self.new_cells(id, DEGREE)),
        };
        self.set(id, node);
        let variable = self.form(id);
        let one = vec![(self.layout.one as u32, Ext::ONE)];
        self.push_row([form, one, variable.clone()]);
        variable
    }

    /// Demands left·right = out, or 0.
    pub(super) fn product(&mut self, left: Id, right: Id, out: Option<Id>) {
        let forms = [self.used(left), self.used(right)];
        let out = out.map_or(Vec::new(), |id| self.used(id));
        let [left, right] = forms;
        self.push_row([left, right, out]);
    }

    fn push_row(&mut self, forms: [Vec<(u32, Ext)>; 3]) {
        assert!(self.products < self.layout.rows, "rows for all products");
        for (matrix, form) in self.rows.products.iter_mut().zip(forms) {
            let entries = form.into_iter().map(|(cell, factor)| Entry {
                row: self.products as u32,
                cell,
                factor,
            });
            matrix.extend(entries);
        }
        self.products += 1;
    }

    /// A permutation whose outputs, with the inputs added, are cells.
    pub(super) fn permutation(&mut self, inputs: [Id; WIDTH_16], outputs: [Id; DIGEST]) {
        let p = self.permutations;
        assert!(p < self.layout.permutations, "room for all permutations");
        self.permutations += 1;
        for (i, input) in inputs.into_iter().enumerate() {
            let form = self.used(input);
            let entry = |row: usize, (cell, factor)| Entry {
                row: row as u32,
                cell,
                factor,
            };
            let row = p * WIDTH_16 + i;
            let entries = form.iter().map(|term| entry(row, *term));
            self.rows.inputs.extend(entries);
            let Some(output) = outputs.get(i) else {
                continue;
            };
            let mut terms: BTreeMap<u32, Ext> = form.iter().map(|(c, x)| (*c, -*x)).collect();
            for (cell, x) in self.form(*output) {
                *terms.entry(cell).or_default() += x;
            }
            let row = p * DIGEST + i;
            let entries = terms.into_iter().map(|term| entry(row, term));
            self.rows.outputs.extend(entries);
        }
    }

    pub(super) fn finish(mut self) -> Plan {
        // A permutation that nothing uses permutes zeros: its outputs are constants.
        let rest = crate::poseidon::Kind::Own.permutation();
        let rest = &rest.rest.states[crate::poseidon::STATES - 1];
        for row in self.permutations * DIGEST..self.layout.permutations * DIGEST {
            self.rows.outputs.push(Entry {
                row: row as u32,
                cell: self.layout.one as u32,
                factor: Ext::from(rest[row % DIGEST]),
            });
        }
        self.places.sort_by_key(|place| place.cell);
        Plan {
            layout: self.layout,
            places: self.places,
            rows: self.rows,
            #[cfg(test)]
            permutations: self.permutations,
            end: self.end,
        }
    }
}
