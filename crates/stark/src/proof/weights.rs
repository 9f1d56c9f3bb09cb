//! The weights that claims give to cells: the same for prover and verifier, over any arithmetic.

use crate::arith::Arith;
use crate::claims::{Claim, Claimed, Column, Part};
use crate::extension::Ext;
use crate::field::Fp;
use crate::logup;
use crate::multilinear::{eq_table, powers};
use crate::poseidon::Kind;
use crate::poseidon_gkr::skip::{ROWS, lagrange};
use crate::poseidon_gkr::{self, LANES, OutputClaim, Point};
use crate::relation::{BUS_GROUPS_FIXED, Entry, Functional, Part as Rows, Relation, Table, Tuple};

/// Weights of the lanes of each row's output.
pub(super) type RowWeights<E> = Vec<[E; LANES]>;

/// The result of the wires of one width: a claim on cells and one on outputs.
pub(super) type Wired<E> = (Claim<E>, OutputClaim<E>);

/// The names of the claims on the outputs, cubes and inputs of rows of a width.
pub(super) const fn names(kind: Kind) -> [Claimed; 3] {
    match kind {
        Kind::Narrow | Kind::Own => [Claimed::Outputs, Claimed::Cubes, Claimed::Inputs],
        Kind::Wide => [
            Claimed::WideOutputs,
            Claimed::WideCubes,
            Claimed::WideInputs,
        ],
    }
}

/// A relation with the public values of a statement.
pub(super) struct Setting<'a, A: Arith> {
    pub(super) relation: &'a Relation,
    pub(super) publics: &'a [A::Base],
    /// 1 for each group that is used, 0 for others.
    pub(super) used: &'a [A::Base],
}

/// α and β: the tuple (tag; x_1, x_2, …) has the denominator α − tag − β·x_1 − β²·x_2 − ….
#[derive(Clone, Copy)]
pub(super) struct Denominators<E> {
    pub(super) alpha: E,
    pub(super) beta: E,
}

/// The weights that wires give to cells and outputs.
pub(super) struct WireWeights<E> {
    /// For the rows of each width T·(random weights) − Σ Ω·input of the wires.
    functionals: Vec<Functional<E>>,
    /// Ω for all rows: the weights on the bus plus the random ones.
    pub(super) outputs: RowWeights<E>,
}

/// The leaves of the bus as weights of cells and outputs.
pub(super) struct BusWeights<E> {
    /// eq(ρ, group) of each group of instances.
    pub(super) groups: Vec<E>,
    /// The point of the instances.
    pub(super) lanes: Vec<E>,
    /// The cells in the denominators.
    pub(super) cells: Functional<E>,
    /// The outputs in the denominators, with the opposite sign.
    pub(super) outputs: RowWeights<E>,
    /// Numerators of instances.
    numerators: E,
    /// The public part of the denominators, except for the registry's rows.
    denominators: E,
    /// eq(ρ, registry) and, for each column of the registry, its factor.
    registry: E,
    registry_factors: Vec<E>,
    /// Weights of the counts of the tables.
    tables: Vec<E>,
    /// The point within a group.
    within: Vec<E>,
}

fn sum<A: Arith>(arith: &A, terms: impl IntoIterator<Item = A::Ext>) -> A::Ext {
    terms
        .into_iter()
        .fold(arith.ext(Ext::ZERO), |sum, x| sum + x)
}

/// The value at a point of the function that numbers the vertices.
fn number_at<A: Arith>(arith: &A, point: &[A::Ext]) -> A::Ext {
    let zero = arith.ext(Ext::ZERO);
    point.iter().fold(zero, |value, r| value + value + *r)
}

/// Σ of the weights of instances over all groups.
pub(super) fn total<A: Arith>(arith: &A, groups: &[A::Ext]) -> A::Ext {
    sum(arith, groups.iter().copied())
}

impl<A: Arith> Setting<'_, A> {
    /// Weights of the bus' leaves.
    pub(super) fn bus(
        &self,
        arith: &A,
        leaves: &logup::Leaves<A::Ext>,
        Denominators { alpha, beta }: Denominators<A::Ext>,
    ) -> BusWeights<A::Ext> {
        let relation = self.relation;
        let (zero, one) = (arith.ext(Ext::ZERO), arith.ext(Ext::ONE));
        let of_groups = eq_table(one, &leaves.groups);
        let (positions, lanes) = leaves.within.split_at(relation.shape.positions_log2);
        let groups = self.used_of(&of_groups[BUS_GROUPS_FIXED..]);
        let all = total(arith, &groups);
        let numbers = groups
            .iter()
            .enumerate()
            // Instance g·lanes + lane: the extension of its number is one of the groups plus one of the lanes.
            .map(|(g, weight)| *weight * arith.base(Fp::new((g * relation.shape.lanes()) as u32)));
        let instances = sum(arith, numbers) + all * number_at(arith, lanes);
        let betas = powers(beta, beta, relation.entries_max());
        let of_registry = &betas[1..=relation.registry_width];
        let mut weights = BusWeights {
            groups,
            lanes: lanes.to_vec(),
            cells: Functional::zero(arith, relation.cells),
            outputs: vec![[zero; LANES]; relation.rows.len()],
            numerators: zero,
            denominators: zero,
            registry: of_groups[0],
            registry_factors: of_registry.iter().map(|b| of_groups[0] * *b).collect(),
            tables: Vec::new(),
            within: leaves.within.clone(),
        };
        // The weight of all vertices that hold a fraction. The others are 0/1, so they add one minus this to the
        // denominators.
        let mut used = of_groups[0];
        let eq = eq_table(one, positions);
        for (weight, tuple) in eq.iter().zip(&relation.bus) {
            let Some(tuple) = tuple else { continue };
            let here = *weight * all;
            used = used + here;
            weights.numerators = match tuple.taken {
                true => weights.numerators - here,
                false => weights.numerators + here,
            };
            let tag = arith.ext(Ext::from(Fp::new(tuple.tag)));
            weights.denominators = weights.denominators + here * (alpha - tag);
            // All groups have the same tuples, so the weights of one are computed once, and the groups' are a
            // factor of the claim. The number of an instance is no cell, so its sum over all groups is passed
            // along.
            self.tuple(arith, tuple, [*weight, instances], &betas, &mut weights);
        }
        weights.denominators = weights.denominators + weights.cells.constant * all;
        let tag = arith.ext(Ext::from(Fp::new(relation.registry_tag)));
        // A row's index is its position, so it needs no cells. Its other components are the columns that the prover
        // claims.
        let index = number_at(arith, &leaves.within);
        weights.denominators = weights.denominators + of_groups[0] * (alpha - tag - beta * index);
        used = used + self.tables(arith, [of_groups[1], alpha], &betas, &mut weights);
        // Empty positions, unused groups and the rest of the tables' group.
        weights.denominators = weights.denominators + one - used;
        weights
    }

    /// The weights of groups that are used; others have none.
    fn used_of(&self, weights: &[A::Ext]) -> Vec<A::Ext> {
        let weights = weights.iter().zip(self.used);
        weights.map(|(weight, used)| *weight * *used).collect()
    }

    /// Adds the components of a tuple at a position with some weight.
    fn tuple(
        &self,
        arith: &A,
        tuple: &Tuple,
        [weight, instances]: [A::Ext; 2],
        betas: &[A::Ext],
        weights: &mut BusWeights<A::Ext>,
    ) {
        let zero = arith.ext(Ext::ZERO);
        for (entry, beta) in tuple.entries.iter().zip(betas) {
            let factor = weight * *beta;
            match entry {
                Entry::Form(form) => {
                    weights.cells.add(arith, self.publics, zero - factor, form);
                }
                Entry::Output { row, lane } => {
                    let output = &mut weights.outputs[*row][*lane];
                    *output = *output + factor;
                }
                Entry::Instance => {
                    weights.denominators = weights.denominators - factor * instances;
                }
            }
        }
    }

    /// The tables' part of the leaves; returns the weight of all their fractions.
    fn tables(
        &self,
        arith: &A,
        [group, alpha]: [A::Ext; 2],
        betas: &[A::Ext],
        weights: &mut BusWeights<A::Ext>,
    ) -> A::Ext {
        let (zero, one) = (arith.ext(Ext::ZERO), arith.ext(Ext::ONE));
        let ends = self.relation.tables.iter().map(Table::end);
        let size = ends.max().unwrap_or(1).next_power_of_two();
        let low = weights.within.len() - size.ilog2() as usize;
        // Tables fill the first positions of their group, so the coordinates above are zero, and only a short table
        // of eq is needed.
        let high = weights.within[..low]
            .iter()
            .fold(group, |w, r| w * (one - *r));
        let eq = eq_table(high, &weights.within[low..]);
        weights.tables = vec![zero; size];
        let mut used = zero;
        for table in &self.relation.tables {
            let tag = arith.ext(Ext::from(Fp::new(table.tag)));
            for (x, row) in table.rows.iter().enumerate() {
                let weight = eq[table.offset + x];
                let values = row
                    .iter()
                    .map(|form| form.public_value(arith, self.publics));
                let tuple = sum(arith, betas.iter().zip(values).map(|(b, x)| *b * x));
                weights.denominators = weights.denominators + weight * (alpha - tag - tuple);
                // Tables take tuples off, so their counts are negative numerators.
                weights.tables[table.offset + x] = zero - weight;
                used = used + weight;
            }
        }
        used
    }

    /// The weights that wires give to cells and outputs, given the bus weights of the outputs.
    pub(super) fn outputs(
        &self,
        arith: &A,
        mut outputs: RowWeights<A::Ext>,
        parts: &[Rows],
        tau: A::Ext,
    ) -> WireWeights<A::Ext> {
        let relation = self.relation;
        let mut used = vec![[false; LANES]; relation.rows.len()];
        let entries = relation.bus.iter().flatten().flat_map(|t| &t.entries);
        for entry in entries {
            if let Entry::Output { row, lane } = entry {
                used[*row][*lane] = true;
            }
        }
        // From τ on: the sum of outputs on the bus, which was read before, has the factor one.
        let taus = powers(tau, tau, relation.wires.len());
        for (wire, weight) in relation.wires.iter().zip(&taus) {
            let output = &mut outputs[wire.row][wire.lane];
            *output = *output + *weight;
            used[wire.row][wire.lane] = true;
        }
        let zero = arith.ext(Ext::ZERO);
        let functional = |part: &Rows| {
            let mut functional = Functional::zero(arith, relation.cells);
            let wires = relation.wires.iter().zip(&taus);
            for (wire, weight) in wires.filter(|(wire, _)| part.rows.contains(&wire.row)) {
                functional.add(arith, self.publics, *weight, &wire.form);
            }
            for i in part.rows.clone() {
                // The argument is about permutations. Wires and tuples are about permutation + input, so the
                // weighted inputs go to the side of the cells.
                let row = relation.rows[i].as_ref().filter(|row| row.feed_forward);
                let inputs = row.into_iter().flat_map(|row| &row.inputs);
                for (lane, form) in inputs.enumerate().filter(|(lane, _)| used[i][*lane]) {
                    functional.add(arith, self.publics, zero - outputs[i][lane], form);
                }
            }
            functional
        };
        WireWeights {
            functionals: parts.iter().map(functional).collect(),
            outputs,
        }
    }

    /// The claims on cells that result from the wires of each width, and those on outputs. The sum of outputs on
    /// the bus, which are narrow, belongs to the first.
    pub(super) fn wired(
        &self,
        arith: &A,
        parts: &[Rows],
        bus: &BusWeights<A::Ext>,
        weights: WireWeights<A::Ext>,
        mut on_bus: A::Ext,
        wired: &[A::Ext],
    ) -> Vec<Wired<A::Ext>> {
        let all = total(arith, &bus.groups);
        let mut claims = Vec::with_capacity(parts.len());
        for ((part, functional), wired) in parts.iter().zip(weights.functionals).zip(wired) {
            let claim = Claim {
                name: names(part.units.kind)[0],
                value: *wired - functional.constant * all,
                parts: vec![Part::Groups {
                    groups: bus.groups.clone(),
                    cells: functional.cells,
                    lanes: bus.lanes.clone(),
                }],
            };
            let output = OutputClaim {
                weights: poseidon_gkr::RowWeights::Table(
                    weights.outputs[part.rows.clone()].to_vec(),
                ),
                groups: bus.groups.clone(),
                lanes: bus.lanes.clone(),
                value: on_bus + *wired,
            };
            // Tuples contain outputs of narrow rows only, so the next width has none.
            on_bus = arith.ext(Ext::ZERO);
            claims.push((claim, output));
        }
        claims
    }

    /// The claim on the committed cubes of rows of one width, combined by powers of η.
    pub(super) fn cubes(
        &self,
        arith: &A,
        part: &Rows,
        point: &Point<A::Ext>,
        values: &[A::Ext],
        eta: A::Ext,
    ) -> Claim<A::Ext> {
        let one = arith.ext(Ext::ONE);
        // Powers from one on, for cubes and inputs alike: each claim is joined from values of its own, and the
        // opening separates the claims.
        let etas = powers(one, eta, values.len());
        let (groups, rows) = self.unit_weights(arith, part, point);
        let mut cells = Functional::zero(arith, self.relation.cells).cells;
        let mut active = arith.ext(Ext::ZERO);
        for (row, weight) in self.relation.rows[part.rows.clone()].iter().zip(&rows) {
            // A row without cells permutes zeros, and its cubes are known: `unused` below is its weight, with that
            // of unused units and groups.
            let Some(row) = row else { continue };
            active = active + *weight;
            for (cell, eta) in row.cubes.iter().zip(&etas) {
                cells[*cell] = cells[*cell] + *weight * *eta;
            }
        }
        let rest = etas.iter().zip(&part.units.kind.permutation().rest.cubes);
        let rest = sum(arith, rest.map(|(eta, rest)| *eta * arith.base(*rest)));
        let unused = one - total(arith, &groups) * active;
        let combined = sum(arith, etas.iter().zip(values).map(|(e, v)| *e * *v));
        Claim {
            name: names(part.units.kind)[1],
            value: combined - unused * rest,
            parts: vec![Part::Groups {
                groups,
                cells,
                lanes: point.lanes.clone(),
            }],
        }
    }

    /// The claim on the inputs of rows of one width, combined by powers of η.
    pub(super) fn inputs(
        &self,
        arith: &A,
        part: &Rows,
        point: &Point<A::Ext>,
        values: &[A::Ext],
        eta: A::Ext,
    ) -> Claim<A::Ext> {
        let etas = powers(arith.ext(Ext::ONE), eta, values.len());
        let (groups, rows) = self.unit_weights(arith, part, point);
        let mut functional = Functional::zero(arith, self.relation.cells);
        for (row, weight) in self.relation.rows[part.rows.clone()].iter().zip(&rows) {
            let Some(row) = row else { continue };
            for (form, eta) in row.inputs.iter().zip(&etas) {
                functional.add(arith, self.publics, *weight * *eta, form);
            }
        }
        let combined = sum(arith, etas.iter().zip(values).map(|(e, v)| *e * *v));
        // Unused permutations have zeros as inputs, so unlike cubes they add nothing.
        let constant = functional.constant * total(arith, &groups);
        Claim {
            name: names(part.units.kind)[2],
            value: combined - constant,
            parts: vec![Part::Groups {
                groups,
                cells: functional.cells,
                lanes: point.lanes.clone(),
            }],
        }
    }

    /// Weights of groups and of rows at a point.
    fn unit_weights(
        &self,
        arith: &A,
        part: &Rows,
        point: &Point<A::Ext>,
    ) -> (Vec<A::Ext>, Vec<A::Ext>) {
        let (one, units) = (arith.ext(Ext::ONE), &part.units);
        let (of_group, of_place) = point.high.split_at(units.groups_log2);
        let groups = eq_table(one, of_group);
        let places = eq_table(one, of_place);
        let basis = lagrange(arith, point.z);
        let row = |row: usize| places[row / ROWS] * basis[row % ROWS];
        (
            self.used_of(&groups[units.first_group..]),
            (0..part.rows.len()).map(row).collect(),
        )
    }
}

impl<E: crate::multilinear::Scalar> BusWeights<E> {
    /// The claim on the counts.
    pub(super) fn numerator_claim(&self, zero: E, numerator: E) -> Claim<E> {
        Claim {
            name: Claimed::BusNumerators,
            value: numerator - self.numerators,
            parts: vec![
                Part::Point {
                    column: Column::Counts,
                    scale: zero - self.registry,
                    point: self.within.clone(),
                },
                Part::Weights {
                    column: Column::Tables,
                    weights: self.tables.clone(),
                },
            ],
        }
    }

    /// The claim on the cells, from the denominator, the registry's columns and the outputs' sum.
    pub(super) fn cell_claim(&self, denominator: E, registry: &[E], outputs: E) -> Claim<E> {
        let terms = self.registry_factors.iter().zip(registry);
        let value = terms.fold(denominator - self.denominators + outputs, |v, (f, x)| {
            v + *f * *x
        });
        Claim {
            name: Claimed::BusCells,
            value,
            parts: vec![Part::Groups {
                groups: self.groups.clone(),
                cells: self.cells.cells.clone(),
                lanes: self.lanes.clone(),
            }],
        }
    }
}
