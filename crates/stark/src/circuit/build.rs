//! How nodes depend on cells, and the resulting rows.

use std::collections::BTreeMap;

use super::Id;
use super::lanes::{Copied, Lanes};
use super::plan::{CellValue, Entry, IN_LANE, Layout, Plan, Rows, in_lane, place};
use crate::extension::{DEGREE, Ext};
use crate::hash::DIGEST;
use crate::poseidon::WIDTH_16;

/// A sum of more terms than this is expanded, so that no form is traversed too often.
const TERMS_MAX: u32 = 384;

/// How a node depends on cells.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// It does not depend on cells.
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
    /// A node that can be used in its own lane only.
    Hidden,
}

/// A circuit being built.
#[derive(Debug)]
pub(super) struct Build {
    layout: Layout,
    nodes: Vec<Node>,
    /// Whether a node is a base element.
    base: Vec<bool>,
    /// An upper bound of the number of terms of a node.
    sizes: Vec<u32>,
    places: Vec<CellValue>,
    rows: Rows,
    permutations: usize,
    products: usize,
    end: usize,
    lanes: Lanes,
    /// The permutations in the order of a run: section and lane, and their number there.
    order: Vec<(Option<(usize, usize)>, usize)>,
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
            lanes: Lanes::default(),
            order: Vec::new(),
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
            Node::Hidden => 0,
        };
        self.nodes.push(node);
        self.base.push(base);
        self.sizes.push(size);
        // `form` walks all terms below a node at each use, so a deep sum is flattened once, here, and shortened if
        // it is long.
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

    /// The constant value of a node.
    pub(super) fn constant(&self, id: Id) -> Option<Ext> {
        match self.node(id) {
            Node::Constant(value) => Some(*value),
            _ => None,
        }
    }

    /// A copy of the node, and whether it is a base element.
    pub(super) fn same(&self, id: Id) -> (Node, bool) {
        (self.node(id).clone(), self.is_base(id))
    }

    /// New cells for the components of a node, in its lane if one is recorded.
    pub(super) fn new_cells(&mut self, node: Id, count: usize) -> u32 {
        let first = match self.lanes.new_cells(count) {
            Some(first) => first,
            None => {
                self.end += count;
                (self.end - count) as u32
            }
        };
        for component in 0..count {
            self.place(first as usize + component, node, component);
        }
        first
    }

    /// Records which node's value a cell holds.
    pub(super) fn place(&mut self, cell: usize, node: Id, component: usize) {
        self.places.push(CellValue {
            cell: cell as u32,
            node,
            component,
        });
    }

    /// A node as a linear form.
    fn form(&self, id: Id) -> Vec<(u32, Ext)> {
        // A map, because a cell that is reached on several paths must become one coefficient, and forms ascend in
        // cells.
        let mut form: BTreeMap<u32, Ext> = BTreeMap::new();
        let mut rest = vec![(id, Ext::ONE)];
        while let Some((id, factor)) = rest.pop() {
            // Cells of a lane represent those of all lanes, so only forms in the lane may contain them.
            let of_lane = self.lanes.has(id);
            let mut add = |cell: u32, x: Ext| {
                assert!(
                    of_lane || cell & IN_LANE == 0,
                    "all lanes share what one has"
                );
                *form.entry(cell).or_default() += x;
            };
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
                Node::Hidden => unreachable!("a node of one lane"),
            }
        }
        // Terms that cancelled would be coefficients of zero in the matrix.
        form.into_iter().filter(|(_, x)| *x != Ext::ZERO).collect()
    }

    /// The form of a node that is used in a row: a long one becomes a variable.
    fn used(&mut self, id: Id) -> Vec<(u32, Ext)> {
        let form = self.form(id);
        if form.len() <= self.layout.form_max {
            return form;
        }
        // A form that all lanes share becomes a variable outside lanes.
        let paused = self.lanes.pause_for(id);
        let node = match self.is_base(id) {
            true => Node::Cell(self.new_cells(id, 1)),
            false => Node::Variable(self.new_cells(id, DEGREE)),
        };
        // Later uses of the node see the variable, so a long form is written out once.
        self.set(id, node);
        let variable = self.form(id);
        let one = vec![(self.layout.one as u32, Ext::ONE)];
        self.push_row([form, one, variable.clone()]);
        self.lanes.resume(paused);
        variable
    }

    /// Asserts left·right = out, or 0.
    pub(super) fn product(&mut self, left: Id, right: Id, out: Option<Id>) {
        let forms = [self.used(left), self.used(right)];
        let out = out.map_or(Vec::new(), |id| self.used(id));
        let [left, right] = forms;
        self.push_row([left, right, out]);
    }

    fn push_row(&mut self, forms: [Vec<(u32, Ext)>; 3]) {
        let (rows, products) = match self.lanes.open() {
            Some(section) => (&mut section.rows, &mut section.products),
            None => (&mut self.rows, &mut self.products),
        };
        for (matrix, form) in rows.products.iter_mut().zip(forms) {
            let entries = form.into_iter().map(|(cell, factor)| Entry {
                row: *products as u32,
                cell,
                factor,
            });
            matrix.extend(entries);
        }
        *products += 1;
    }

    /// A permutation whose outputs, with the inputs added, are cells.
    pub(super) fn permutation(&mut self, inputs: [Id; WIDTH_16], outputs: [Id; DIGEST]) {
        let inputs = inputs.map(|id| self.used(id));
        let outputs = outputs.map(|id| self.form(id));
        let section = self.lanes.number();
        let (rows, permutations) = match self.lanes.open() {
            Some(section) => (&mut section.rows, &mut section.permutations),
            None => (&mut self.rows, &mut self.permutations),
        };
        let p = *permutations;
        *permutations += 1;
        self.order.push((section.map(|section| (section, 0)), p));
        let entry = |i: usize, (cell, factor): (u32, Ext)| Entry {
            row: (i * self.layout.permutations + p) as u32,
            cell,
            factor,
        };
        for (i, form) in inputs.iter().enumerate() {
            rows.inputs.extend(form.iter().map(|term| entry(i, *term)));
            let Some(output) = outputs.get(i) else {
                continue;
            };
            // C adds its input to the permutation, and the argument is about the permutation alone, so the input is
            // subtracted from the output's cell.
            let mut terms: BTreeMap<u32, Ext> = form.iter().map(|(c, x)| (*c, -*x)).collect();
            for (cell, x) in output {
                *terms.entry(*cell).or_default() += *x;
            }
            rows.outputs
                .extend(terms.into_iter().map(|term| entry(i, term)));
        }
    }

    /// Begins recording the first of this many lanes.
    pub(super) fn begin_lanes(&mut self, lanes: usize) {
        self.lanes.begin(lanes, self.nodes.len() as Id);
    }

    /// Asserts that the cell of a lane's node equals, in each lane, the value of a node outside lanes.
    pub(super) fn copy(&mut self, cell: Id, from: Vec<Id>) {
        if let Node::Cell(cell) = self.node(cell) {
            self.lanes.copied.push(Copied { cell: *cell, from });
        }
    }

    /// Ends the first lane, which has these results; the others are copies of it. Returns the number of nodes in a
    /// lane.
    pub(super) fn end_lanes(&mut self, results: &[Id]) -> usize {
        // A long result becomes a variable here, in its lane.
        let results = results.iter().map(|id| (*id, self.used(*id)));
        let results: BTreeMap<Id, Vec<(u32, Ext)>> = results.collect();
        let (number, first, lanes) = self.lanes.end(self.nodes.len() as Id);
        assert!(
            results.keys().all(|id| *id >= first),
            "results are a lane's"
        );
        let nodes = self.nodes.len() - first as usize;
        let permutations = self.lanes.sections[number].permutations;
        for lane in 1..lanes {
            for i in 0..nodes {
                let id = first + i as Id;
                let node = results.get(&id).map(|form| {
                    let form = form.iter().map(|(cell, x)| (in_lane(*cell, lane), *x));
                    Node::Form(form.collect())
                });
                // The other lanes have nodes only so that numbers agree with those of a run. Only their results may
                // be used.
                self.push(node.unwrap_or(Node::Hidden), self.is_base(id));
            }
            let order = (0..permutations).map(|p| (Some((number, lane)), p));
            self.order.extend(order);
        }
        let one = vec![(self.layout.one as u32, Ext::ONE)];
        for Copied { cell, from } in std::mem::take(&mut self.lanes.copied) {
            for (lane, from) in from.into_iter().enumerate() {
                let copy = vec![(in_lane(cell, lane), Ext::ONE)];
                let from = self.used(from);
                self.push_row([from, one.clone(), copy]);
            }
        }
        nodes
    }

    /// The entries for unused permutations: they permute zeros, and their outputs are constants.
    fn unused(&self, first: usize) -> impl Iterator<Item = Entry> {
        let rest = &crate::poseidon::Kind::Own.permutation().rest;
        let rest = &rest.states[crate::poseidon::STATES - 1];
        let (one, room) = (self.layout.one as u32, self.layout.permutations);
        (0..DIGEST).flat_map(move |i| {
            (first..room).map(move |p| Entry {
                row: (i * room + p) as u32,
                cell: one,
                factor: Ext::from(rest[i]),
            })
        })
    }

    pub(super) fn finish(mut self) -> Plan {
        let layout = self.layout;
        // Sections come first, so that vectors reaching beyond a section's end stay within the cells and rows.
        let [cells, rows, permutations] = self.lanes.lay_out(layout.free);
        let (sections, shift) = (&self.lanes.sections, (cells - layout.free) as u32);
        // Cells outside lanes were numbered from `free` on before the size of the sections was known. Inputs and
        // outputs, below `free`, stay.
        let own = |cell: u32| match cell as usize >= layout.free && cell & IN_LANE == 0 {
            true => cell + shift,
            false => cell,
        };
        let used = permutations + self.permutations;
        assert!(used <= layout.permutations, "{used} permutations");
        let all_rows = rows + self.products;
        assert!(all_rows <= layout.rows, "{all_rows} rows");
        let end = self.end + shift as usize;
        assert!(end <= layout.cells, "{end} cells");
        let moved = |entries: &[Entry], by: usize| {
            let moved = entries.iter().map(|entry| Entry {
                row: entry.row + by as u32,
                cell: place(sections, own(entry.cell)),
                ..*entry
            });
            let mut moved: Vec<Entry> = moved.collect();
            moved.sort_by_key(|entry| (entry.row, entry.cell));
            moved
        };
        let mut all = Rows {
            inputs: moved(&self.rows.inputs, permutations),
            outputs: moved(&self.rows.outputs, permutations),
            products: self.rows.products.each_ref().map(|m| moved(m, rows)),
        };
        all.outputs.extend(self.unused(used));
        let places = self.places.iter().flat_map(|at| {
            let section = sections
                .iter()
                .find(|section| section.nodes.contains(&at.node));
            let section = section.filter(|_| at.cell & IN_LANE != 0);
            let (lanes, nodes) = section.map_or((1, 0), |s| (s.lanes, s.nodes.len()));
            (0..lanes).map(move |lane| CellValue {
                cell: place(sections, in_lane(own(at.cell), lane)),
                // A run leaves the nodes of one lane after those of the other.
                node: at.node + (lane * nodes) as Id,
                component: at.component,
            })
        });
        let mut places: Vec<CellValue> = places.collect();
        places.sort_by_key(|place| place.cell);
        let permuted = self.order.iter().map(|(section, p)| match section {
            Some((number, lane)) => {
                let section = &sections[*number];
                (section.first_permutation + p * section.lanes + lane) as u32
            }
            None => (permutations + p) as u32,
        });
        let permuted = permuted.collect();
        for section in &mut self.lanes.sections {
            section.finish(&layout, own);
        }
        Plan {
            layout,
            places,
            rows: all,
            sections: self.lanes.sections,
            permuted,
            end,
        }
    }
}
