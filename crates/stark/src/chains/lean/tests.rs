//! Openings constructed for tests; their keys need no key generation.

use alphorn_exec::{Backend, Exec};

use super::*;
use crate::chains::Opened;
use crate::field::{Fp, P};
use crate::poseidon::Permutations;
use crate::proof::{Statements, check};
use crate::registry::Registry;
use crate::relation::{Entry, Form, Shape};
use crate::statement::{Statement, registry_digest};
use crate::test_random::Random;

/// Four chains, two levels, four instances per group, at most two groups.
pub(crate) const MINI: LeanParameters = LeanParameters {
    id: 2,
    chains: 4,
    steps: 14,
    levels: 2,
    shape: Shape {
        lanes_log2: 2,
        positions_log2: 7,
        bus_groups_log2: 2,
        places_log2: 1,
        unit_groups_log2: 2,
        first_unit_group: 1,
        slices_log2: 4,
        first_slice: 0,
        tables_slice: 1,
        groups_slice: 2,
    },
};

pub(crate) fn exec() -> Exec<'static> {
    Exec::new(Backend::Portable, None)
}

pub(crate) const SPOKEN: [Fp; MESSAGE] = [Fp::new(12); MESSAGE];

/// The limbs of the code that the encoding's row computes for one opening.
fn limbs_of(chains: &LeanChains, slot: u32, opening: &LeanOpening) -> Vec<u32> {
    let publics = chains.publics(slot, &SPOKEN);
    let row = chains.at.sponge_row(chains.parameters().blocks());
    let row = chains.relation().rows[row].as_ref().unwrap();
    let cell = |cell: usize| {
        let randomness = (0..RANDOMNESS).find(|x| chains.randomness(*x) == cell);
        let parameter = (0..PARAMETER).find(|x| chains.at.parameter(*x) == cell);
        let randomness = randomness.map(|x| opening.randomness[x]);
        randomness.unwrap_or_else(|| opening.parameter[parameter.unwrap()])
    };
    let mut state = [std::array::from_fn(|i| row.inputs[i].value(&publics, cell))];
    Backend::Portable.compress_24(&mut state);
    let limbs = chains.parameters().limbs();
    state[0][..limbs].iter().map(|x| x.canonical()).collect()
}

/// A random opening whose digits require `steps` steps, with the root that it leads to.
pub(crate) fn opening(chains: &LeanChains, slot: u32, index: usize, steps: usize) -> LeanOpening {
    let mut random = Random::new(70 + index as u64);
    let parameters = chains.parameters();
    let mut digest = || std::array::from_fn(|_| random.fp());
    let mut opening = LeanOpening {
        index,
        root: [Fp::ZERO; DIGEST],
        parameter: std::array::from_fn(|i| Fp::new((index + i) as u32 + 1)),
        randomness: [Fp::ZERO; RANDOMNESS],
        tips: (0..parameters.chains).map(|_| digest()).collect(),
        path: (0..parameters.levels).map(|_| digest()).collect(),
    };
    for counter in 0.. {
        opening.randomness[0] = Fp::new(counter);
        let limbs = limbs_of(chains, slot, &opening);
        let digit = |i: usize| ((limbs[i / 8] / 127) >> (3 * (i % 8))) & 7;
        let asked: u32 = (0..parameters.chains).map(|i| 7 - digit(i)).sum();
        if !limbs.contains(&(P - 1)) && asked as usize == steps {
            break;
        }
    }
    let roots = chains.roots(exec(), slot, &SPOKEN, std::slice::from_ref(&opening));
    opening.root = roots.unwrap()[0];
    opening
}

/// Openings, their registry with one additional key, and the statement that all of them are present.
#[derive(Clone)]
pub(crate) struct Example {
    pub(crate) chains: LeanChains,
    pub(crate) openings: Vec<LeanOpening>,
    pub(crate) registry: Registry,
    pub(crate) statement: Statement,
}

impl Example {
    pub(crate) fn new(parameters: LeanParameters, count: usize, slot: u32) -> Example {
        let chains = LeanChains::new(parameters);
        let openings = (0..count)
            .map(|i| opening(&chains, slot, i, parameters.steps))
            .collect();
        Example::of(chains, slot, openings)
    }

    pub(crate) fn of(chains: LeanChains, slot: u32, openings: Vec<LeanOpening>) -> Example {
        let parameters = *chains.parameters();
        let mut rows = vec![vec![Fp::new(99); DIGEST + PARAMETER]; openings.len() + 1];
        let log2 = parameters.shape.column_log2();
        let mut bitfield = vec![false; 1 << log2];
        for opening in &openings {
            rows[opening.index] = [&opening.root[..], &opening.parameter[..]].concat();
            bitfield[opening.index] = true;
        }
        let registry = Registry::new(&rows, DIGEST + PARAMETER, log2).unwrap();
        let statement = Statement {
            set: parameters.id,
            slot,
            message: SPOKEN.to_vec(),
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

/// Slots whose upper limb grows within a chain at the first, at middle or at no places.
const SLOTS: [u32; 5] = [0, 3, 127 * 700, 127 * 66_000, u32::MAX];

#[test]
fn honest_openings_fulfil_the_relation() {
    let sets = [
        (MINI, 5),
        (LeanParameters::TEST, 1),
        (LeanParameters::PROD, 1),
    ];
    for (parameters, count) in sets {
        for slot in SLOTS {
            let slot = slot & ((1u64 << parameters.levels) - 1) as u32;
            let example = Example::new(parameters, count, slot);
            let Example { chains, .. } = &example;
            let mut openings = example.openings.clone();
            let opened = chains.opened(exec(), slot, &SPOKEN, &openings);
            let Opened { witness, holds } = opened.unwrap();
            assert_eq!(holds, vec![true; count]);
            assert!(witness.trace_is_of_cells(exec(), chains.relation()));
            let public = chains.public(&example.statement, &example.registry);
            let checked = check(exec(), chains.relation(), &public, &witness);
            openings[0].root[0] += Fp::ONE;
            let Opened { holds, .. } = chains.opened(exec(), slot, &SPOKEN, &openings).unwrap();
            assert!(!holds[0] && holds[1..].iter().all(|holds| *holds));
            assert_eq!(checked, Ok(()), "slot {slot}");
        }
    }
}

/// The tweak of a step is an integer: where it passes a multiple of p, the upper limb grows.
#[test]
fn limbs_of_tweaks_are_those_of_integers() {
    let chains = LeanChains::new(LeanParameters::PROD);
    let mut carries = 0;
    for slot in SLOTS {
        let publics = chains.publics(slot, &SPOKEN);
        for (chain, position) in (0..46).flat_map(|i| (0..7).map(move |k| (i, k))) {
            let tweak = (slot as u128) << 24 | (chain as u128) << 16 | (position as u128 + 1) << 8;
            let place = Fp::new((256 * chain + position) as u32);
            let lower = publics[0] + place * Fp::new(256) + Fp::new(256);
            let upper = publics[chains.upper_limb(chain, position)];
            assert_eq!(u128::from(lower.canonical()), tweak % u128::from(P));
            assert_eq!(u128::from(upper.canonical()), tweak / u128::from(P));
            carries += usize::from(upper != publics[chains.upper_limb(0, 0)]);
        }
    }
    assert!(carries > 100, "{carries} places behind a multiple of p");
}

#[test]
fn the_production_set_has_the_layout_of_the_specification() {
    let chains = LeanChains::new(LeanParameters::PROD);
    let relation = chains.relation();
    assert_eq!((relation.group_slices(), relation.groups_max()), (7, 16));
    assert_eq!(relation.bus.iter().flatten().count(), 512);
    assert_eq!(relation.permutations(), 128 + 64);
    assert_eq!(chains.parameters().blocks(), 25);
    assert_eq!(chains.end(45, 7), chains.at.sponge(23, 24));
    let test = LeanChains::new(LeanParameters::TEST);
    assert_eq!(test.relation().groups_max(), 24);
}

/// Number of cells that no part of a relation reads.
pub(crate) fn unread(chains: &LeanChains) -> usize {
    let relation = chains.relation();
    let mut read = vec![false; relation.cells];
    let mut forms: Vec<&Form> = relation.wires.iter().map(|wire| &wire.form).collect();
    for row in relation.rows.iter().flatten() {
        row.cubes.iter().for_each(|cell| read[*cell] = true);
        forms.extend(&row.inputs);
    }
    for entry in relation.bus.iter().flatten().flat_map(|t| &t.entries) {
        if let Entry::Form(form) = entry {
            forms.push(form);
        }
    }
    for term in forms.iter().flat_map(|form| &form.0) {
        term.cell.into_iter().for_each(|cell| read[cell] = true);
    }
    read.iter().filter(|read| !**read).count()
}

/// No two parts share a cell: the number of cells read is the total over all parts.
#[test]
fn cells_that_nobody_reads_are_the_spare_ones() {
    let chains = LeanChains::new(LeanParameters::PROD);
    let free = 8 * 46 + 46 + 1 + 6 + 8 + 5 + 1;
    let sponge = 25 * (9 + 22) - 9 + 8 * 46 + 7 + 22;
    let read = 122 * 29 + 32 * 38 + sponge + free;
    assert_eq!(unread(&chains), chains.relation().cells - read);
}

#[test]
fn openings_of_another_size_are_refused() {
    let example = Example::new(MINI, 2, 1);
    let refused = |openings: &[LeanOpening]| {
        let opened = example.chains.opened(exec(), 1, &SPOKEN, openings);
        assert!(opened.is_err());
    };
    refused(&vec![example.openings[0].clone(); 9]);
    let mut short = example.openings.clone();
    short[1].tips.pop();
    refused(&short);
    let mut long = example.openings.clone();
    long[0].path.push([Fp::ZERO; DIGEST]);
    refused(&long);
}
