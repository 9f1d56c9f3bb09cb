//! Openings constructed for tests; their keys need no key generation.

use alphorn_exec::{Backend, Exec};

use super::*;
use crate::field::{Fp, P};
use crate::hash::DIGEST;
use crate::poseidon::Permutations;
use crate::proof::{Statements, check};
use crate::registry::Registry;
use crate::relation::Shape;
use crate::statement::{Statement, registry_digest};
use crate::test_random::Random;

/// The compression of signatures.
fn compress(left: [Fp; DIGEST], right: [Fp; DIGEST]) -> [Fp; DIGEST] {
    let mut states = [std::array::from_fn(|i| {
        if i < DIGEST {
            left[i]
        } else {
            right[i - DIGEST]
        }
    })];
    Backend::Portable.compress_16(&mut states);
    std::array::from_fn(|i| states[0][i])
}

/// Four chains, two levels, four instances per group, at most two groups.
pub(crate) const MINI: Parameters = Parameters {
    id: 1,
    chains: 4,
    steps: 14,
    levels: 2,
    shape: Shape {
        lanes_log2: 2,
        positions_log2: 7,
        bus_groups_log2: 2,
        places_log2: 2,
        unit_groups_log2: 2,
        first_unit_group: 1,
        slices_log2: 3,
        first_slice: 0,
        tables_slice: 1,
        groups_slice: 2,
    },
};

pub(crate) fn exec() -> Exec<'static> {
    Exec::new(Backend::Portable, None)
}

/// The digits that randomness gives a message, if none of the limbs is p − 1.
fn digits(chains: &Chains, slot: u32, message: &[Fp], opening: &Opening) -> Option<Vec<u32>> {
    let publics = chains.publics(slot, message);
    let mut right = [Fp::ZERO; DIGEST];
    right[..6].copy_from_slice(&opening.randomness);
    right[6..].copy_from_slice(&publics[12..14]);
    let mut parameter = [Fp::ZERO; DIGEST];
    parameter[..4].copy_from_slice(&opening.parameter);
    let lanes = compress(
        compress(std::array::from_fn(|i| message[i]), right),
        parameter,
    )
    .map(Fp::canonical);
    let digit = |i: usize| lanes[i / 8] >> (3 * (i % 8)) & 7;
    (!lanes.contains(&(P - 1))).then(|| (0..64).map(digit).collect())
}

/// A random opening whose digits require `steps` steps, with the root that it leads to.
pub(crate) fn opening(
    chains: &Chains,
    slot: u32,
    message: &[Fp],
    index: usize,
    steps: usize,
) -> Opening {
    let mut random = Random::new(index as u64);
    let parameters = chains.parameters();
    let mut half = || std::array::from_fn(|_| random.fp());
    let mut opening = Opening {
        index,
        root: [Fp::ZERO; HALF],
        parameter: half(),
        randomness: [Fp::ZERO; RANDOMNESS],
        tips: (0..parameters.chains).map(|_| half()).collect(),
        path: (0..parameters.levels).map(|_| half()).collect(),
    };
    for counter in 0.. {
        opening.randomness[0] = Fp::new(counter);
        let digits = digits(chains, slot, message, &opening);
        let asked = |digits: &[u32]| digits.iter().map(|d| 7 - *d as usize).sum::<usize>();
        if digits.is_some_and(|d| asked(&d[..parameters.chains]) == steps) {
            break;
        }
    }
    let roots = chains.roots(exec(), slot, message, std::slice::from_ref(&opening));
    opening.root = roots.unwrap()[0];
    opening
}

/// A registry row.
pub(crate) fn key(opening: &Opening) -> [Fp; DIGEST] {
    std::array::from_fn(|i| match i < HALF {
        true => opening.root[i],
        false => opening.parameter[i - HALF],
    })
}

/// Openings, their registry with one additional key, and the statement that all of them are present.
#[derive(Clone)]
pub(crate) struct Example {
    pub(crate) chains: Chains,
    pub(crate) openings: Vec<Opening>,
    pub(crate) registry: Registry,
    pub(crate) statement: Statement,
}

pub(crate) const MESSAGE: [Fp; DIGEST] = [Fp::new(11); DIGEST];

impl Example {
    pub(crate) fn new(parameters: Parameters, count: usize, slot: u32) -> Example {
        let chains = Chains::new(parameters);
        let openings = (0..count)
            .map(|i| opening(&chains, slot, &MESSAGE, i, parameters.steps))
            .collect();
        Example::of(chains, slot, openings)
    }

    pub(crate) fn of(chains: Chains, slot: u32, openings: Vec<Opening>) -> Example {
        let parameters = *chains.parameters();
        let mut rows = vec![[Fp::new(99); DIGEST]; openings.len() + 1];
        let log2 = parameters.shape.column_log2();
        let mut bitfield = vec![false; 1 << log2];
        for opening in &openings {
            rows[opening.index] = key(opening);
            bitfield[opening.index] = true;
        }
        let registry = Registry::new(&rows, DIGEST, log2).unwrap();
        let statement = Statement {
            set: parameters.id,
            slot,
            message: MESSAGE.to_vec(),
            committee: 7,
            level: 0,
            registry: registry_digest(exec(), &registry, parameters.id, 7),
            bitfield,
        };
        Example {
            chains,
            openings,
            registry,
            statement,
        }
    }
}

/// An opening whose digits miss the target sum may still lead to its root: the owner of the key can make one.
#[test]
fn openings_without_a_code_or_to_another_root_do_not_hold() {
    let example = Example::new(MINI, 5, 3);
    let chains = &example.chains;
    let steps = |opening: &Opening| {
        let digits = digits(chains, 3, &MESSAGE, opening)?;
        let of_chains = digits[..MINI.chains].iter();
        Some(of_chains.map(|d| 7 - *d as usize).sum::<usize>())
    };
    let mut openings = example.openings.clone();
    for (opening, more) in openings[..2].iter_mut().zip([false, true]) {
        for counter in 0.. {
            opening.randomness[1] = Fp::new(counter);
            let missed = |steps: usize| steps != MINI.steps && (steps > MINI.steps) == more;
            if steps(opening).is_some_and(missed) {
                break;
            }
        }
        let roots = chains.roots(exec(), 3, &MESSAGE, std::slice::from_ref(opening));
        opening.root = roots.unwrap()[0];
    }
    openings[3].root[HALF - 1] += Fp::ONE;
    let Opened { witness, holds } = chains.opened(exec(), 3, &MESSAGE, &openings).unwrap();
    assert_eq!(holds, [false, false, true, false, true]);
    assert!(witness.trace_is_of_cells(exec(), chains.relation()));
}

#[test]
fn honest_openings_fulfil_the_relation() {
    for (parameters, count, slot) in [(MINI, 1, 0), (MINI, 5, 3), (Parameters::COMPACT, 1, 9)] {
        let example = Example::new(parameters, count, slot);
        let opened = example
            .chains
            .opened(exec(), slot, &MESSAGE, &example.openings);
        let Opened { witness, holds } = opened.unwrap();
        assert_eq!(holds, vec![true; count]);
        let public = example.chains.public(&example.statement, &example.registry);
        let relation = example.chains.relation();
        assert!(witness.trace_is_of_cells(exec(), relation));
        let checked = check(exec(), relation, &public, &witness);
        assert_eq!(checked, Ok(()));
    }
}

#[test]
fn the_compact_set_has_the_layout_of_the_specification() {
    let chains = Chains::new(Parameters::COMPACT);
    let relation = chains.relation();
    assert_eq!(relation.cells, 5120);
    assert_eq!(relation.group_slices(), 5);
    assert_eq!(relation.groups_max() * 64, 1472);
    assert_eq!(
        relation.slice_numbers(1),
        [128, 137, 138, 139, 140, 141, 142]
    );
    assert_eq!(chains.end(41, 3), chains.at.sponge(15, 21));
    assert_eq!((chains.at.node_row(0), chains.at.sponge_row(0)), (128, 160));
    let used = |place: usize| {
        relation.rows[16 * place..][..16]
            .iter()
            .any(Option::is_some)
    };
    let places: Vec<usize> = (0..16).filter(|place| used(*place)).collect();
    assert_eq!(places, [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11]);
    let kind = |position: usize| relation.bus[position].as_ref().map(|t| (t.tag, t.taken));
    assert_eq!(kind(109), Some((kind::CHAIN, false)));
    assert_eq!(kind(110), None);
    assert_eq!(kind(128), Some((kind::CHAIN, true)));
    assert_eq!(kind(256), Some((kind::CHAIN, false)));
    assert_eq!(kind(320), Some((kind::CHAIN, true)));
    assert_eq!(kind(384), Some((kind::OCTAL, false)));
    assert_eq!(kind(455), Some((kind::QUOTIENT, false)));
    assert_eq!(kind(456), Some((kind::REGISTRY, false)));
    assert_eq!(
        relation.bus.iter().flatten().count(),
        110 + 110 + 42 + 42 + 64 + 8 + 1
    );
}

/// Every cell that some part of the relation reads.
fn cells_read(chains: &Chains) -> Vec<bool> {
    let relation = chains.relation();
    let mut read = vec![false; relation.cells];
    let mut forms: Vec<&crate::relation::Form> = Vec::new();
    for row in relation.rows.iter().flatten() {
        row.cubes.iter().for_each(|cell| read[*cell] = true);
        forms.extend(&row.inputs);
    }
    forms.extend(relation.wires.iter().map(|wire| &wire.form));
    for entry in relation.bus.iter().flatten().flat_map(|t| &t.entries) {
        if let crate::relation::Entry::Form(form) = entry {
            forms.push(form);
        }
    }
    for term in forms.iter().flat_map(|form| &form.0) {
        term.cell.into_iter().for_each(|cell| read[cell] = true);
    }
    read
}

/// No two parts share a cell, and the number of unread cells is what the layout leaves over.
#[test]
fn cells_that_nobody_reads_are_the_spare_ones() {
    let chains = Chains::new(Parameters::COMPACT);
    let unread = cells_read(&chains).iter().filter(|read| !**read).count();
    // Unused chain rows minus tips, digits, quotients, key and index; tree rows are all used.
    let chain_rows = 18 * 24 - (42 * 4 + 64 + 8 + 8 + 1);
    // Sponge: rows 24 to 31, the inputs of row 0, and eight and ten of the encoding's inputs.
    let sponge = 8 * 35 + 16 + 10 + 8;
    assert_eq!(unread, 64 + chain_rows + sponge);
}

/// Values of the specification of the compact set, made by an independent script.
#[test]
fn hashes_are_those_of_the_compact_set() {
    let chains = Chains::new(Parameters::COMPACT);
    let message = std::array::from_fn::<_, 8, _>(|i| Fp::new(100 + i as u32));
    let slot = 123_456_789;
    let publics = chains
        .publics(slot, &message)
        .iter()
        .map(|x| x.canonical())
        .collect::<Vec<_>>();
    assert_eq!(publics[10..14], [69_037_056, 52_501, 203_254_784, 52_501]);
    assert_eq!(publics[14..16], [135_181_313, 59_018]);
    let half = |from: u32| std::array::from_fn(|i| Fp::new(from + i as u32));
    let mut random = [Fp::ZERO; RANDOMNESS];
    random[0] = Fp::new(1438);
    let example = Opening {
        index: 0,
        root: half(0),
        parameter: half(1),
        randomness: random,
        tips: vec![half(10); 42],
        path: vec![half(5); 32],
    };
    let digits = digits(&chains, slot, &message, &example).unwrap();
    let text: String = digits[..42].iter().map(|d| d.to_string()).collect();
    assert_eq!(text, "040456564577466051643774402377351454647745");
    // A row of the relation, with some cells given.
    let publics = chains.publics(slot, &message);
    let output = |row: usize, given: &dyn Fn(usize) -> Fp| {
        let row = chains.relation().rows[row].as_ref().unwrap();
        let state: Vec<Fp> = row
            .inputs
            .iter()
            .map(|form| form.value(&publics, given))
            .collect();
        let [left, right] = [0, 8].map(|at| std::array::from_fn(|i| state[at + i]));
        compress(left, right)[..4]
            .iter()
            .map(|x| x.canonical())
            .collect::<Vec<_>>()
    };
    let find = |cell: usize, start: &dyn Fn(usize) -> usize, from: u32| {
        (0..4)
            .find(|x| start(*x) == cell)
            .map(|x| Fp::new(from + x as u32))
    };
    let parameter = |cell: usize| find(cell, &|x| chains.at.parameter(x), 1);
    let step = output(0, &|cell| {
        let place = (cell == chains.at.step(4, 0)).then(|| Fp::new(8 * 5 + 3));
        let digest = find(cell, &|x| chains.at.step(x, 0), 10);
        place.or(digest).or(parameter(cell)).unwrap()
    });
    assert_eq!(
        step,
        [502_720_936, 1_499_463_561, 135_206_793, 1_332_917_931]
    );
    let node = output(chains.at.node_row(0), &|cell| {
        let children = [
            find(cell, &|x| chains.at.node(x, 0), 1),
            find(cell, &|x| chains.at.node(4 + x, 0), 5),
        ];
        children[0].or(children[1]).or(parameter(cell)).unwrap()
    });
    assert_eq!(
        node,
        [295_434_993, 1_562_356_444, 1_536_237_409, 503_139_100]
    );
}

#[test]
fn openings_of_another_size_are_refused() {
    let example = Example::new(MINI, 2, 1);
    let too_many = vec![example.openings[0].clone(); 9];
    assert!(
        example
            .chains
            .opened(exec(), 1, &MESSAGE, &too_many)
            .is_err()
    );
    let mut short = example.openings.clone();
    short[1].tips.pop();
    assert!(example.chains.opened(exec(), 1, &MESSAGE, &short).is_err());
    let mut long = example.openings.clone();
    long[0].path.push([Fp::ZERO; HALF]);
    assert!(example.chains.opened(exec(), 1, &MESSAGE, &long).is_err());
}
