//! Where everything of an opening lies: cells, rows, bus positions, tables.

use super::values::{
    ENCODING_TWEAK_AT, LAST, LEAF_TWEAK_AT, LEVEL_VALUES, LEVELS_AT, LeanParameters, MESSAGE_AT,
    PLACES, capacity,
};
use super::{CAPACITY, DIGEST, MESSAGE, PARAMETER, RANDOMNESS, RATE, kind as own};
use crate::chains::{LIMB_DIGITS, kind};
use crate::field::Fp;
use crate::poseidon::{WIDTH_16, WIDTH_24};
use crate::relation::{
    Entry, Form, ROW_CUBES, Relation, Row, Table, Tuple, UNIT_ROWS, WIDE_ROW_CUBES, Wire,
};

/// Columns of a chain row: digest, place, upper limb of the tweak, cubes.
const CHAIN_COLUMNS: usize = DIGEST + 2 + ROW_CUBES;
/// Columns of a tree row: left, right, cubes.
const NODE_COLUMNS: usize = 2 * DIGEST + WIDE_ROW_CUBES;
/// Columns of a row of sponge or encoding: inputs, cubes.
const SPONGE_COLUMNS: usize = WIDTH_24 + WIDE_ROW_CUBES;

/// A relation of openings, and where its parts lie.
#[derive(Clone, Debug)]
pub struct LeanChains {
    parameters: LeanParameters,
    relation: Relation,
    capacity: [Fp; CAPACITY],
    /// First cells of tree rows, and of sponge rows.
    nodes_at: usize,
    sponge_at: usize,
    /// Rows that a column of each kind has.
    step_rows: usize,
    level_rows: usize,
    sponge_rows: usize,
    /// First rows of tree and sponge.
    node_row: usize,
    sponge_row: usize,
    /// Cells that no row needs, in the order tips, digits, tails, remainders, root, parameter, index.
    free: Vec<usize>,
}

impl LeanChains {
    /// The relation of a set.
    ///
    /// # Panics
    /// If the set does not fit its shape.
    pub fn new(parameters: LeanParameters) -> LeanChains {
        let LeanParameters {
            id,
            chains,
            steps,
            levels,
            shape,
        } = parameters;
        assert!(chains.is_multiple_of(2) && levels <= 32);
        let units = |rows: usize| rows.div_ceil(UNIT_ROWS) * UNIT_ROWS;
        // The encoding's row comes behind the sponge's.
        let sponge = parameters.blocks() + 1;
        let (step_rows, level_rows) = (steps.next_power_of_two(), levels.next_power_of_two());
        let sponge_rows = sponge.next_power_of_two();
        let nodes_at = CHAIN_COLUMNS * step_rows;
        let sponge_at = nodes_at + NODE_COLUMNS * level_rows;
        let end = sponge_at + SPONGE_COLUMNS * sponge_rows;
        let digits = chains + parameters.tails() + parameters.limbs();
        let free_cells = DIGEST * chains + digits + DIGEST + PARAMETER + 1;
        let unused = (0..CHAIN_COLUMNS)
            .flat_map(|column| (steps..step_rows).map(move |row| column * step_rows + row));
        let free: Vec<usize> = unused.chain(end..).take(free_cells).collect();
        let last = free.iter().copied().max().unwrap_or_default().max(end - 1);
        let node_row = UNIT_ROWS << shape.places_log2;
        let wide = (units(levels) + units(sponge)).next_power_of_two();
        let publics = LEVELS_AT + LEVEL_VALUES * levels + LAST as usize * chains;
        let mut chains = LeanChains {
            parameters,
            capacity: capacity([PARAMETER, 2, chains, DIGEST]),
            nodes_at,
            sponge_at,
            step_rows,
            level_rows,
            sponge_rows,
            node_row,
            sponge_row: node_row + units(levels),
            free,
            relation: Relation {
                shape,
                id,
                cells: (last + 1).next_multiple_of(shape.slice() / shape.lanes()),
                rows: vec![None; node_row + wide],
                wires: Vec::new(),
                bus: Vec::new(),
                tables: Vec::new(),
                registry_tag: kind::REGISTRY,
                registry_width: DIGEST + PARAMETER,
                publics,
                message: MESSAGE,
            },
        };
        chains.add_rows();
        chains.add_wires();
        chains.add_bus();
        chains.add_tables();
        chains.relation.assert_consistent();
        chains
    }

    /// The numbers of the set.
    pub(crate) fn parameters(&self) -> &LeanParameters {
        &self.parameters
    }

    /// The relation.
    pub fn relation(&self) -> &Relation {
        &self.relation
    }

    #[cfg(test)]
    pub(crate) fn relation_mut(&mut self) -> &mut Relation {
        &mut self.relation
    }

    /// Digest column `column` (0 to 7), place (8), upper limb (9) or cube of chain row t.
    pub(crate) fn step(&self, column: usize, t: usize) -> usize {
        column * self.step_rows + t
    }

    /// Left (0 to 7), right (8 to 15) or cube of tree row l.
    pub(crate) fn node(&self, column: usize, level: usize) -> usize {
        self.nodes_at + column * self.level_rows + level
    }

    /// Input (0 to 23) or cube of row k of the sponge, then of the encoding.
    pub(crate) fn sponge(&self, column: usize, k: usize) -> usize {
        self.sponge_at + column * self.sponge_rows + k
    }

    /// Randomness x: an input of the encoding.
    pub(crate) fn randomness(&self, x: usize) -> usize {
        self.sponge(x, self.parameters.blocks())
    }

    /// The cell of end x of a chain: an input of the sponge.
    pub(crate) fn end(&self, chain: usize, x: usize) -> usize {
        let element = PARAMETER + 2 + DIGEST * chain + x;
        self.sponge(CAPACITY + element % RATE, element / RATE)
    }

    pub(crate) fn tip(&self, chain: usize, x: usize) -> usize {
        self.free[DIGEST * chain + x]
    }

    pub(crate) fn digit(&self, i: usize) -> usize {
        self.free[DIGEST * self.parameters.chains + i]
    }

    pub(crate) fn tail(&self, i: usize) -> usize {
        self.digit(self.parameters.chains + i)
    }

    pub(crate) fn remainder(&self, limb: usize) -> usize {
        self.tail(self.parameters.tails() + limb)
    }

    pub(crate) fn root(&self, x: usize) -> usize {
        self.remainder(self.parameters.limbs() + x)
    }

    pub(crate) fn parameter(&self, x: usize) -> usize {
        self.root(DIGEST + x)
    }

    pub(crate) fn index(&self) -> usize {
        self.parameter(PARAMETER)
    }

    pub(crate) fn node_row(&self, level: usize) -> usize {
        self.node_row + level
    }

    pub(crate) fn sponge_row(&self, k: usize) -> usize {
        self.sponge_row + k
    }

    /// Which public value the upper limb of the tweak at a position of a chain is.
    pub(crate) fn upper_limb(&self, chain: usize, position: usize) -> usize {
        let first = LEVELS_AT + LEVEL_VALUES * self.parameters.levels;
        first + LAST as usize * chain + position
    }

    /// The digits of a limb, with what multiplies them: those of chains, then tails.
    pub(crate) fn digits_of(&self, limb: usize) -> impl Iterator<Item = (usize, u32)> {
        let (first, chains) = (LIMB_DIGITS * limb, self.parameters.chains);
        let end = first + LIMB_DIGITS;
        let of_chains = (first..end.min(chains)).map(|i| (self.digit(i), i));
        let last = end > chains;
        let tails = (0..self.parameters.tails()).filter(move |_| last);
        let tails = tails.map(move |t| (self.tail(t), chains + 2 * t));
        of_chains
            .chain(tails)
            .map(move |(cell, i)| (cell, 1 << (3 * (i - first))))
    }

    /// The node that the path passes at a level: left or right by the slot's bit.
    fn current(&self, level: usize, x: usize) -> Form {
        let bit = LEVELS_AT + LEVEL_VALUES * level + 2;
        let [left, right] = [x, DIGEST + x].map(|column| Form::cell(self.node(column, level)));
        let difference = right.plus(left.clone().times(-Fp::ONE)).times_public(bit);
        left.plus(difference)
    }

    fn parameter_forms(&self) -> Vec<Form> {
        let cell = |x| Form::cell(self.parameter(x));
        (0..PARAMETER).map(cell).collect()
    }

    /// Puts in a row; inputs are filled up with zeros.
    fn add_row(
        &mut self,
        row: usize,
        mut inputs: Vec<Form>,
        feed_forward: bool,
        cube: impl Fn(usize) -> usize,
    ) {
        let (width, cubes) = match row < self.node_row {
            true => (WIDTH_16, ROW_CUBES),
            false => (WIDTH_24, WIDE_ROW_CUBES),
        };
        inputs.resize(width, Form::default());
        self.relation.rows[row] = Some(Row {
            inputs,
            cubes: (0..cubes).map(cube).collect(),
            feed_forward,
        });
    }

    fn add_rows(&mut self) {
        let publics = |at: usize, count| (at..at + count).map(Form::public).collect::<Vec<_>>();
        let parameter = self.parameter_forms();
        for t in 0..self.parameters.steps {
            let digest = (0..DIGEST).map(|x| Form::cell(self.step(x, t)));
            let place = Form::cell(self.step(DIGEST, t)).times(Fp::new(256));
            let lower = Form::public(0)
                .plus(place)
                .plus(Form::constant(Fp::new(256)));
            let tweak = vec![lower, Form::cell(self.step(DIGEST + 1, t))];
            let parts = [digest.collect(), parameter.clone(), tweak];
            let (at, rows) = (self.step(DIGEST + 2, t), self.step_rows);
            self.add_row(t, parts.concat(), true, |k| at + k * rows);
        }
        for level in 0..self.parameters.levels {
            let tweak = publics(LEVELS_AT + LEVEL_VALUES * level, 2);
            let children = (0..2 * DIGEST).map(|x| Form::cell(self.node(x, level)));
            let parts = [parameter.clone(), tweak, children.collect()];
            let (at, rows) = (self.node(2 * DIGEST, level), self.level_rows);
            self.add_row(self.node_row(level), parts.concat(), true, |k| {
                at + k * rows
            });
        }
        let (blocks, rows) = (self.parameters.blocks(), self.sponge_rows);
        for k in 0..blocks {
            let at = self.sponge(WIDTH_24, k);
            let inputs = self.sponge_inputs(k);
            self.add_row(self.sponge_row(k), inputs, false, |c| at + c * rows);
        }
        let randomness = (0..RANDOMNESS).map(|x| Form::cell(self.randomness(x)));
        let parts = [
            publics(MESSAGE_AT, MESSAGE),
            parameter,
            publics(ENCODING_TWEAK_AT, 2),
            randomness.collect(),
        ];
        let at = self.sponge(WIDTH_24, blocks);
        self.add_row(self.sponge_row(blocks), parts.concat(), true, |c| {
            at + c * rows
        });
    }

    /// What row k of the sponge permutes: the capacity, then parameter, tweak and ends.
    fn sponge_inputs(&self, k: usize) -> Vec<Form> {
        let head = PARAMETER + 2;
        let length = head + DIGEST * self.parameters.chains;
        let capacity = |x: usize| match k {
            0 => Form::constant(self.capacity[x]),
            _ => Form::cell(self.sponge(x, k)),
        };
        let rate = |x: usize| match RATE * k + x {
            i if i < PARAMETER => Form::cell(self.parameter(i)),
            i if i < head => Form::public(LEAF_TWEAK_AT + i - PARAMETER),
            i if i < length => Form::cell(self.sponge(CAPACITY + x, k)),
            _ => Form::default(),
        };
        (0..CAPACITY)
            .map(capacity)
            .chain((0..RATE).map(rate))
            .collect()
    }

    fn add_wires(&mut self) {
        let mut wires = Vec::new();
        let mut wire = |row, lane, form| wires.push(Wire { row, lane, form });
        let (levels, blocks) = (self.parameters.levels, self.parameters.blocks());
        for level in 0..levels {
            for x in 0..DIGEST {
                let form = match level + 1 < levels {
                    true => self.current(level + 1, x),
                    false => Form::cell(self.root(x)),
                };
                wire(self.node_row(level), x, form);
            }
        }
        for k in 1..blocks {
            for x in 0..CAPACITY {
                wire(self.sponge_row(k - 1), x, Form::cell(self.sponge(x, k)));
            }
        }
        for x in 0..DIGEST {
            wire(
                self.sponge_row(blocks - 1),
                CAPACITY + x,
                self.current(0, x),
            );
        }
        for limb in 0..self.parameters.limbs() {
            let mut form = Form::cell(self.remainder(limb));
            for (cell, factor) in self.digits_of(limb) {
                form = form.plus(Form::cell(cell).times(Fp::new(127 * factor)));
            }
            wire(self.sponge_row(blocks), limb, form);
        }
        self.relation.wires = wires;
    }

    fn add_bus(&mut self) {
        let form = |cell: usize| Entry::Form(Form::cell(cell));
        let chain = |taken, place: Form, digest: Vec<Entry>| Tuple {
            taken,
            tag: kind::CHAIN,
            entries: [vec![Entry::Instance, Entry::Form(place)], digest].concat(),
        };
        let put = |tag, entries| Tuple {
            taken: false,
            tag,
            entries,
        };
        let mut bus = Vec::new();
        let LeanParameters { chains, steps, .. } = self.parameters;
        for t in 0..steps {
            let place = Form::cell(self.step(DIGEST, t));
            let next = place.clone().plus(Form::constant(Fp::ONE));
            let output = |lane| Entry::Output { row: t, lane };
            bus.push(chain(false, next, (0..DIGEST).map(output).collect()));
            let digest = (0..DIGEST).map(|x| form(self.step(x, t))).collect();
            bus.push(chain(true, place.clone(), digest));
            let upper = form(self.step(DIGEST + 1, t));
            bus.push(put(own::TWEAK, vec![Entry::Form(place), upper]));
        }
        for i in 0..chains {
            let start = PLACES * i as u32;
            let first = Form::constant(Fp::new(start)).plus(Form::cell(self.digit(i)));
            let tip = (0..DIGEST).map(|x| form(self.tip(i, x))).collect();
            bus.push(chain(false, first, tip));
            let last = Form::constant(Fp::new(start + LAST));
            let end = (0..DIGEST).map(|x| form(self.end(i, x))).collect();
            bus.push(chain(true, last, end));
            bus.push(put(kind::OCTAL, vec![form(self.digit(i))]));
        }
        for t in 0..self.parameters.tails() {
            bus.push(put(own::TAIL, vec![form(self.tail(t))]));
        }
        for limb in 0..self.parameters.limbs() {
            bus.push(put(kind::QUOTIENT, vec![form(self.remainder(limb))]));
        }
        let root = (0..DIGEST).map(|x| self.root(x));
        let key = root.chain((0..PARAMETER).map(|x| self.parameter(x)));
        let entry = std::iter::once(self.index()).chain(key).map(form);
        bus.push(put(kind::REGISTRY, entry.collect()));
        let positions = 1 << self.parameters.shape.positions_log2;
        assert!(bus.len() <= positions, "a bus of {} positions", bus.len());
        self.relation.bus = bus.into_iter().map(Some).collect();
        self.relation.bus.resize_with(positions, || None);
    }

    fn add_tables(&mut self) {
        let mut rows = Vec::new();
        for chain in 0..self.parameters.chains {
            for position in 0..LAST {
                let place = Form::constant(Fp::new(PLACES * chain as u32 + position));
                let upper = Form::public(self.upper_limb(chain, position as usize));
                rows.push(vec![place, upper]);
            }
        }
        self.relation.tables = vec![
            Table::numbers(kind::OCTAL, 8, 0),
            Table::numbers(own::TAIL, 64, 64),
            Table::numbers(kind::QUOTIENT, 127, 128),
            Table {
                tag: own::TWEAK,
                rows,
                offset: 256,
            },
        ];
    }
}
