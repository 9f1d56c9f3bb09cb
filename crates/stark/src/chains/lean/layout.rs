//! Layout of an opening: cells, rows, bus positions, tables.

use super::values::{
    ENCODING_TWEAK_AT, LAST, LEAF_TWEAK_AT, LEVEL_VALUES, LEVELS_AT, LeanParameters, MESSAGE_AT,
    PLACES, capacity,
};
use super::{CAPACITY, DIGEST, MESSAGE, PARAMETER, RANDOMNESS, RATE, kind as own};
use crate::chains::opening_layout::{OpeningLayout, Sizes};
use crate::chains::{LIMB_DIGITS, kind};
use crate::field::Fp;
use crate::poseidon::{WIDTH_16, WIDTH_24};
use crate::relation::{
    Entry, Form, ROW_CUBES, Relation, Row, Table, Tuple, UNIT_ROWS, WIDE_ROW_CUBES, Wire,
};

/// Number of columns of a chain row: digest, place, upper limb of the tweak, cubes.
const CHAIN_COLUMNS: usize = DIGEST + 2 + ROW_CUBES;
/// Number of columns of a tree row: left, right, cubes.
const NODE_COLUMNS: usize = 2 * DIGEST + WIDE_ROW_CUBES;
/// Number of columns of a sponge or encoding row: inputs, cubes.
const SPONGE_COLUMNS: usize = WIDTH_24 + WIDE_ROW_CUBES;

/// A relation of openings, and the layout of its parts.
#[derive(Clone, Debug)]
pub struct LeanChains {
    parameters: LeanParameters,
    pub(super) relation: Relation,
    capacity: [Fp; CAPACITY],
    /// Where cells and rows are.
    pub(crate) at: OpeningLayout,
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
        // The encoding's row comes after the sponge's.
        let sponge = parameters.blocks() + 1;
        let node_row = UNIT_ROWS << shape.places_log2;
        let at = OpeningLayout::new(&Sizes {
            digest: DIGEST,
            parameter: PARAMETER,
            chains,
            digits: chains + parameters.tails(),
            limbs: parameters.limbs(),
            rows: [steps, levels, sponge],
            columns: [CHAIN_COLUMNS, NODE_COLUMNS, SPONGE_COLUMNS],
            node_row,
        });
        let wide = (units(levels) + units(sponge)).next_power_of_two();
        let publics = LEVELS_AT + LEVEL_VALUES * levels + LAST as usize * chains;
        let mut chains = LeanChains {
            parameters,
            capacity: capacity([PARAMETER, 2, chains, DIGEST]),
            relation: Relation {
                shape,
                id,
                cells: at.end.next_multiple_of(shape.slice() / shape.lanes()),
                rows: vec![None; node_row + wide],
                wires: Vec::new(),
                bus: Vec::new(),
                tables: Vec::new(),
                registry_tag: kind::REGISTRY,
                registry_width: DIGEST + PARAMETER,
                publics,
                message: MESSAGE,
            },
            at,
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

    #[cfg(test)]
    pub(crate) fn relation_mut(&mut self) -> &mut Relation {
        &mut self.relation
    }

    /// Randomness x: an input of the encoding.
    pub(crate) fn randomness(&self, x: usize) -> usize {
        self.at.sponge(x, self.parameters.blocks())
    }

    /// The cell of element x of a chain's end: an input of the sponge.
    pub(crate) fn end(&self, chain: usize, x: usize) -> usize {
        let element = PARAMETER + 2 + DIGEST * chain + x;
        self.at.sponge(CAPACITY + element % RATE, element / RATE)
    }

    pub(crate) fn tail(&self, i: usize) -> usize {
        self.at.digit(self.parameters.chains + i)
    }

    /// Index of the public value that is the upper limb of the tweak at a position of a chain.
    pub(crate) fn upper_limb(&self, chain: usize, position: usize) -> usize {
        let first = LEVELS_AT + LEVEL_VALUES * self.parameters.levels;
        first + LAST as usize * chain + position
    }

    /// The digits of a limb with their factors: those of chains, then tails.
    pub(crate) fn digits_of(&self, limb: usize) -> impl Iterator<Item = (usize, u32)> {
        let (first, chains) = (LIMB_DIGITS * limb, self.parameters.chains);
        let end = first + LIMB_DIGITS;
        let of_chains = (first..end.min(chains)).map(|i| (self.at.digit(i), i));
        // Tails exist in the last limb only, two digits at a time.
        let last = end > chains;
        let tails = (0..self.parameters.tails()).filter(move |_| last);
        let tails = tails.map(move |t| (self.tail(t), chains + 2 * t));
        of_chains
            .chain(tails)
            .map(move |(cell, i)| (cell, 1 << (3 * (i - first))))
    }

    /// The node on the path at a level: left or right by the slot's bit.
    fn current(&self, level: usize, x: usize) -> Form {
        let bit = LEVELS_AT + LEVEL_VALUES * level + 2;
        let [left, right] = [x, DIGEST + x].map(|column| Form::cell(self.at.node(column, level)));
        let difference = right.plus(left.clone().times(-Fp::ONE)).times_public(bit);
        left.plus(difference)
    }

    fn parameter_forms(&self) -> Vec<Form> {
        let cell = |x| Form::cell(self.at.parameter(x));
        (0..PARAMETER).map(cell).collect()
    }

    /// Adds a row; inputs are padded with zeros.
    fn add_row(
        &mut self,
        row: usize,
        mut inputs: Vec<Form>,
        feed_forward: bool,
        cube: impl Fn(usize) -> usize,
    ) {
        let (width, cubes) = match row < self.at.node_row(0) {
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
            let digest = (0..DIGEST).map(|x| Form::cell(self.at.step(x, t)));
            // The lower limb of slot·2^24 + 256·(κ + 1) is a linear form modulo p. Only the carry into the upper
            // limb is not, hence a cell that is looked up.
            let place = Form::cell(self.at.step(DIGEST, t)).times(Fp::new(256));
            let lower = Form::public(0)
                .plus(place)
                .plus(Form::constant(Fp::new(256)));
            let tweak = vec![lower, Form::cell(self.at.step(DIGEST + 1, t))];
            let parts = [digest.collect(), parameter.clone(), tweak];
            let (at, rows) = (self.at.step(DIGEST + 2, t), self.at.column()[0]);
            self.add_row(t, parts.concat(), true, |k| at + k * rows);
        }
        for level in 0..self.parameters.levels {
            let tweak = publics(LEVELS_AT + LEVEL_VALUES * level, 2);
            let children = (0..2 * DIGEST).map(|x| Form::cell(self.at.node(x, level)));
            let parts = [parameter.clone(), tweak, children.collect()];
            let (at, rows) = (self.at.node(2 * DIGEST, level), self.at.column()[1]);
            self.add_row(self.at.node_row(level), parts.concat(), true, |k| {
                at + k * rows
            });
        }
        let (blocks, rows) = (self.parameters.blocks(), self.at.column()[2]);
        for k in 0..blocks {
            let at = self.at.sponge(WIDTH_24, k);
            let inputs = self.sponge_inputs(k);
            self.add_row(self.at.sponge_row(k), inputs, false, |c| at + c * rows);
        }
        let randomness = (0..RANDOMNESS).map(|x| Form::cell(self.randomness(x)));
        let parts = [
            publics(MESSAGE_AT, MESSAGE),
            parameter,
            publics(ENCODING_TWEAK_AT, 2),
            randomness.collect(),
        ];
        let at = self.at.sponge(WIDTH_24, blocks);
        self.add_row(self.at.sponge_row(blocks), parts.concat(), true, |c| {
            at + c * rows
        });
    }

    /// The inputs of row k of the sponge: the capacity, then parameter, tweak and ends.
    fn sponge_inputs(&self, k: usize) -> Vec<Form> {
        let head = PARAMETER + 2;
        let length = head + DIGEST * self.parameters.chains;
        // A sponge passes its capacity on. The other lanes are overwritten, so nothing wires the previous row's
        // outputs there.
        let capacity = |x: usize| match k {
            0 => Form::constant(self.capacity[x]),
            _ => Form::cell(self.at.sponge(x, k)),
        };
        let rate = |x: usize| match RATE * k + x {
            i if i < PARAMETER => Form::cell(self.at.parameter(i)),
            i if i < head => Form::public(LEAF_TWEAK_AT + i - PARAMETER),
            i if i < length => Form::cell(self.at.sponge(CAPACITY + x, k)),
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
                    false => Form::cell(self.at.root(x)),
                };
                wire(self.at.node_row(level), x, form);
            }
        }
        for k in 1..blocks {
            for x in 0..CAPACITY {
                wire(
                    self.at.sponge_row(k - 1),
                    x,
                    Form::cell(self.at.sponge(x, k)),
                );
            }
        }
        for x in 0..DIGEST {
            wire(
                self.at.sponge_row(blocks - 1),
                CAPACITY + x,
                self.current(0, x),
            );
        }
        for limb in 0..self.parameters.limbs() {
            let mut form = Form::cell(self.at.limb(limb));
            for (cell, factor) in self.digits_of(limb) {
                // 127·D + r with r < 127 and D < 2^24 is at most p − 2 over the integers. So D and r are unique, and
                // p − 1 cannot be written.
                form = form.plus(Form::cell(cell).times(Fp::new(127 * factor)));
            }
            wire(self.at.sponge_row(blocks), limb, form);
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
            let place = Form::cell(self.at.step(DIGEST, t));
            let next = place.clone().plus(Form::constant(Fp::ONE));
            let output = |lane| Entry::Output { row: t, lane };
            bus.push(chain(false, next, (0..DIGEST).map(output).collect()));
            let digest = (0..DIGEST).map(|x| form(self.at.step(x, t))).collect();
            bus.push(chain(true, place.clone(), digest));
            let upper = form(self.at.step(DIGEST + 1, t));
            // The table has only existing places, so this look-up also keeps a row from walking beyond position 6
            // of a chain.
            bus.push(put(own::TWEAK, vec![Entry::Form(place), upper]));
        }
        for i in 0..chains {
            let start = PLACES * i as u32;
            let first = Form::constant(Fp::new(start)).plus(Form::cell(self.at.digit(i)));
            let tip = (0..DIGEST).map(|x| form(self.at.tip(i, x))).collect();
            bus.push(chain(false, first, tip));
            let last = Form::constant(Fp::new(start + LAST));
            let end = (0..DIGEST).map(|x| form(self.end(i, x))).collect();
            bus.push(chain(true, last, end));
            bus.push(put(kind::OCTAL, vec![form(self.at.digit(i))]));
        }
        for t in 0..self.parameters.tails() {
            // If digits of no chain were free, D could be anything, and so could the digits of chains in the same
            // limb.
            bus.push(put(own::TAIL, vec![form(self.tail(t))]));
        }
        for limb in 0..self.parameters.limbs() {
            bus.push(put(kind::QUOTIENT, vec![form(self.at.limb(limb))]));
        }
        let root = (0..DIGEST).map(|x| self.at.root(x));
        let key = root.chain((0..PARAMETER).map(|x| self.at.parameter(x)));
        let entry = std::iter::once(self.at.index()).chain(key).map(form);
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
