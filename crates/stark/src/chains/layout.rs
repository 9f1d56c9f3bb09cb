//! Layout of an opening: cells, rows, bus positions, public values.

use super::opening_layout::{OpeningLayout, Sizes};
use super::{HALF, LIMB_DIGITS, LIMBS, RANDOMNESS, kind};
use crate::field::Fp;
use crate::hash::DIGEST;
use crate::proof::Statements;
use crate::relation::{
    Entry, Form, ROW_CUBES, Relation, Row, Shape, Table, Tuple, UNIT_ROWS, Wire,
};

/// The numbers of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Distinguishes sets in the transcript.
    pub id: u32,
    /// v, the number of chains: an even number up to 64.
    pub chains: usize,
    /// Number of chain steps in an opening: 7·v minus the target sum of the digits.
    pub steps: usize,
    /// Number of levels of the tree, up to 32.
    pub levels: usize,
    /// Sizes of the cubes.
    pub(crate) shape: Shape,
}

impl Parameters {
    /// The compact set: 42 chains, target sum 184, 2^32 slots.
    pub const COMPACT: Parameters = Parameters {
        id: 3,
        chains: 42,
        steps: 110,
        levels: 32,
        shape: Shape::STANDARD,
    };

    /// The compact set in the wide shape.
    pub const COMPACT_WIDE: Parameters = Parameters {
        id: 19,
        shape: Shape::WIDE,
        ..Parameters::COMPACT
    };
}

/// Number of columns of a chain row: digest, place, cubes.
const CHAIN_COLUMNS: usize = HALF + 1 + ROW_CUBES;
/// Number of columns of a tree row: left, right, cubes.
const NODE_COLUMNS: usize = 2 * HALF + ROW_CUBES;
/// Number of columns of a sponge or encoding row: all inputs, cubes.
const SPONGE_COLUMNS: usize = 2 * DIGEST + ROW_CUBES;

/// Number of positions of a digest on its chain.
const BASE: u32 = 8;

/// First public values: slot low, slot high·2^10, message, tweaks of leaf and encoding.
const MESSAGE_AT: usize = 2;
const LEAF_TWEAK_AT: usize = MESSAGE_AT + DIGEST;
const ENCODING_TWEAK_AT: usize = LEAF_TWEAK_AT + 2;
const LEVELS_AT: usize = ENCODING_TWEAK_AT + 2;
/// Number of public values of a level: its tweak, its bit of the slot, and the complement of the bit.
const LEVEL_VALUES: usize = 4;

/// A relation of openings, and the layout of its parts.
#[derive(Clone, Debug)]
pub struct Chains {
    parameters: Parameters,
    relation: Relation,
    /// Where cells and rows are.
    pub(crate) at: OpeningLayout,
}

impl Chains {
    /// The relation of a set.
    ///
    /// # Panics
    /// If the set does not fit its shape.
    pub fn new(parameters: Parameters) -> Chains {
        let Parameters {
            chains,
            steps,
            levels,
            shape,
            id,
        } = parameters;
        assert!(chains.is_multiple_of(2) && chains <= LIMBS * LIMB_DIGITS && levels <= 32);
        let at = OpeningLayout::new(&Sizes {
            digest: HALF,
            parameter: HALF,
            chains,
            digits: LIMBS * LIMB_DIGITS,
            limbs: LIMBS,
            rows: [steps, levels, chains / 2 + 3],
            columns: [CHAIN_COLUMNS, NODE_COLUMNS, SPONGE_COLUMNS],
            node_row: steps.div_ceil(UNIT_ROWS).next_power_of_two() * UNIT_ROWS,
        });
        let mut chains = Chains {
            parameters,
            relation: Relation {
                shape,
                id,
                cells: at.end.next_multiple_of(shape.slice() / shape.lanes()),
                rows: vec![None; UNIT_ROWS << shape.places_log2],
                wires: Vec::new(),
                bus: vec![None; 1 << shape.positions_log2],
                tables: vec![
                    Table::numbers(kind::OCTAL, BASE, 0),
                    Table::numbers(kind::QUOTIENT, 127, 128),
                ],
                registry_tag: kind::REGISTRY,
                registry_width: DIGEST,
                publics: LEVELS_AT + LEVEL_VALUES * levels,
                message: DIGEST,
            },
            at,
        };
        chains.add_rows();
        chains.add_wires();
        chains.add_bus();
        chains.relation.assert_consistent();
        chains
    }

    /// The numbers of the set.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    #[cfg(test)]
    pub(crate) fn relation_mut(&mut self) -> &mut Relation {
        &mut self.relation
    }

    /// The cell of element x of a chain's end: an input of the sponge.
    pub(crate) fn end(&self, chain: usize, x: usize) -> usize {
        self.at
            .sponge(DIGEST + HALF * (chain % 2) + x, 1 + chain / 2)
    }

    /// Row k of the sponge's last block, and of the two calls of the encoding.
    pub(crate) fn last_sponge(&self) -> usize {
        self.parameters.chains / 2
    }

    /// The node on the path at a level: left or right by the slot's bit.
    fn current(&self, level: usize, x: usize) -> Form {
        let bit = LEVELS_AT + LEVEL_VALUES * level + 2;
        // The slot is public, so no multiplexer is needed. The complement of the bit is a public value too, which
        // makes this two terms instead of three.
        let left = Form::cell(self.at.node(x, level)).times_public(bit + 1);
        left.plus(Form::cell(self.at.node(HALF + x, level)).times_public(bit))
    }

    fn add_row(&mut self, row: usize, inputs: Vec<Form>, cube: impl Fn(usize) -> usize) {
        self.relation.rows[row] = Some(Row {
            inputs,
            cubes: (0..ROW_CUBES).map(cube).collect(),
            feed_forward: true,
        });
    }

    fn add_rows(&mut self) {
        let zeros = |count| vec![Form::default(); count];
        let cells = |cells: Vec<usize>| cells.into_iter().map(Form::cell).collect::<Vec<_>>();
        let publics = |at: usize, count| (at..at + count).map(Form::public).collect::<Vec<_>>();
        let parameter = cells((0..HALF).map(|x| self.at.parameter(x)).collect());
        for t in 0..self.parameters.steps {
            // A step's tweak has type 0 and its place as sub-index: slot_high·2^10 + place, then slot_low. A place
            // is below 8·64 < 2^10.
            let place = Form::public(1).plus(Form::cell(self.at.step(HALF, t)));
            let digest = cells((0..HALF).map(|x| self.at.step(x, t)).collect());
            let head = vec![place, Form::public(0)];
            let parts = [head, zeros(2), digest, parameter.clone(), zeros(HALF)];
            let at = self.at.step(HALF + 1, t);
            let [rows, _, _] = self.at.column();
            self.add_row(t, parts.concat(), |k| at + k * rows);
        }
        for level in 0..self.parameters.levels {
            let tweak = publics(LEVELS_AT + LEVEL_VALUES * level, 2);
            let children = cells((0..2 * HALF).map(|x| self.at.node(x, level)).collect());
            let parts = [tweak, zeros(2), parameter.clone(), children];
            let (at, rows) = (self.at.node(2 * HALF, level), self.at.column()[1]);
            self.add_row(self.at.node_row(level), parts.concat(), |k| at + k * rows);
        }
        let last = self.last_sponge();
        for k in 0..last + 3 {
            let inputs =
                |from: usize, to: usize| cells((from..to).map(|x| self.at.sponge(x, k)).collect());
            // The leaf's sponge begins with tweak and parameter instead of a digest. The last two calls are those
            // of the encoding.
            let parts = if k == 0 {
                vec![
                    publics(LEAF_TWEAK_AT, 2),
                    zeros(2),
                    parameter.clone(),
                    zeros(DIGEST),
                ]
            } else if k <= last {
                vec![inputs(0, 2 * DIGEST)]
            } else if k == last + 1 {
                let message = publics(MESSAGE_AT, DIGEST);
                let tweak = publics(ENCODING_TWEAK_AT, 2);
                vec![message, inputs(DIGEST, DIGEST + RANDOMNESS), tweak]
            } else {
                vec![inputs(0, DIGEST), parameter.clone(), zeros(HALF)]
            };
            let (at, rows) = (self.at.sponge(2 * DIGEST, k), self.at.column()[2]);
            self.add_row(self.at.sponge_row(k), parts.concat(), |c| at + c * rows);
        }
    }

    fn add_wires(&mut self) {
        let mut wires = Vec::new();
        let mut wire = |row, lane, form| wires.push(Wire { row, lane, form });
        let (levels, last) = (self.parameters.levels, self.last_sponge());
        for level in 0..levels {
            for x in 0..HALF {
                let form = match level + 1 < levels {
                    true => self.current(level + 1, x),
                    false => Form::cell(self.at.root(x)),
                };
                wire(self.at.node_row(level), x, form);
            }
        }
        for k in 0..last {
            for x in 0..DIGEST {
                wire(
                    self.at.sponge_row(k),
                    x,
                    Form::cell(self.at.sponge(x, k + 1)),
                );
            }
        }
        for x in 0..HALF {
            wire(self.at.sponge_row(last), x, self.current(0, x));
        }
        for x in 0..DIGEST {
            let pre = Form::cell(self.at.sponge(x, last + 2));
            wire(self.at.sponge_row(last + 1), x, pre);
        }
        for limb in 0..LIMBS {
            // By the look-ups digits are below 8 and the quotient below 127. So the sum is at most p − 2 over the
            // integers: the digits are unique, and p − 1 cannot be written.
            let quotient = Form::cell(self.at.limb(limb)).times(Fp::new(1 << 24));
            let form = (0..LIMB_DIGITS).fold(quotient, |form, t| {
                let digit = Form::cell(self.at.digit(LIMB_DIGITS * limb + t));
                form.plus(digit.times(Fp::new(1 << (3 * t))))
            });
            wire(self.at.sponge_row(last + 2), limb, form);
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
        let one = |tag, cell| Tuple {
            taken: false,
            tag,
            entries: vec![form(cell)],
        };
        let mut bus = vec![None; self.relation.bus.len()];
        let Parameters { chains, steps, .. } = self.parameters;
        let [step_rows, _, _] = self.at.column();
        for t in 0..steps {
            let place = Form::cell(self.at.step(HALF, t));
            // A row moves its tuple up by one place, so no path closes. The number of rows is thereby the sum of
            // all steps, which fixes the sum of the digits.
            let next = place.clone().plus(Form::constant(Fp::ONE));
            let output = |lane| Entry::Output { row: t, lane };
            bus[t] = Some(chain(false, next, (0..HALF).map(output).collect()));
            let digest = (0..HALF).map(|x| form(self.at.step(x, t))).collect();
            bus[step_rows + t] = Some(chain(true, place, digest));
        }
        let tips = 2 * step_rows;
        let ends = tips + chains.next_power_of_two();
        for i in 0..chains {
            // A path from tip i ends at some place 8j + 7 with j >= i, and all ends are reached. So each tip is
            // walked to the end of its own chain.
            let start = Form::constant(Fp::new(BASE * i as u32));
            let end = Form::constant(Fp::new(BASE * i as u32 + BASE - 1));
            let tip = (0..HALF).map(|x| form(self.at.tip(i, x))).collect();
            let first = start.plus(Form::cell(self.at.digit(i)));
            bus[tips + i] = Some(chain(false, first, tip));
            let digest = (0..HALF).map(|x| form(self.end(i, x))).collect();
            bus[ends + i] = Some(chain(true, end, digest));
        }
        let octal = ends + chains.next_power_of_two();
        for i in 0..LIMBS * LIMB_DIGITS {
            bus[octal + i] = Some(one(kind::OCTAL, self.at.digit(i)));
        }
        let quotients = octal + LIMBS * LIMB_DIGITS;
        for limb in 0..LIMBS {
            bus[quotients + limb] = Some(one(kind::QUOTIENT, self.at.limb(limb)));
        }
        let key = (0..HALF)
            .map(|x| self.at.root(x))
            .chain((0..HALF).map(|x| self.at.parameter(x)));
        bus[quotients + LIMBS] = Some(Tuple {
            taken: false,
            tag: kind::REGISTRY,
            entries: std::iter::once(self.at.index())
                .chain(key)
                .map(form)
                .collect(),
        });
        self.relation.bus = bus;
    }
}

impl Statements for Chains {
    fn relation(&self) -> &Relation {
        &self.relation
    }

    fn publics(&self, slot: u32, message: &[Fp]) -> Vec<Fp> {
        assert_eq!(message.len(), DIGEST, "a message is one block");
        let tweak = |kind: u32, sub: u32, index: u32| {
            let first = (kind << 26) + ((index >> 16) << 10) + sub;
            [Fp::new(first), Fp::new(index & 0xffff)]
        };
        let mut values = vec![Fp::new(slot & 0xffff), Fp::new((slot >> 16) << 10)];
        values.extend(message);
        values.extend(tweak(1, 0, slot));
        values.extend(tweak(3, 0, slot));
        for level in 0..self.parameters.levels as u32 {
            let parent = slot.checked_shr(level + 1).unwrap_or_default();
            values.extend(tweak(2, level + 1, parent));
            let bit = slot >> level & 1;
            values.extend([Fp::new(bit), Fp::new(1 - bit)]);
        }
        values
    }
}
