//! Proofs of the relation with permutations of both widths, and provers that break one part of it.

use super::*;
use crate::chains::cells::CellLie;
use crate::chains::kind;
use crate::chains::lean::tests::{Example, MINI, SPOKEN, opening, unread};
use crate::chains::lean::{DIGEST, LeanChains, LeanParameters, PARAMETER, kind as own};
use crate::poseidon::kernels::KERNELS;
use crate::relation::{Entry, Form, ROW_CUBES, WIDE_ROW_CUBES};
use crate::test_random::Random;
use crate::whir::Preset;

const SLOT: u32 = 2;

fn proved(example: &Example, exec: Exec<'_>) -> Proof {
    let Example { chains, .. } = example;
    let slot = example.statement.slot;
    let opened = chains.opened(exec, slot, &SPOKEN, &example.openings);
    let public = chains.public(&example.statement, &example.registry);
    prove(exec, chains.relation(), &public, &opened.unwrap().witness).unwrap()
}

fn verified(example: &Example, proof: &Proof) -> Result<(), VerifyError> {
    let public = example.chains.public(&example.statement, &example.registry);
    verify(exec(), example.chains.relation(), &public, proof)
}

#[test]
fn any_number_of_openings_is_proved_with_the_same_bytes_everywhere() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = pool.unwrap();
    for count in [1, 5, 8] {
        let example = Example::new(MINI, count, SLOT);
        let proof = proved(&example, exec());
        assert_eq!(verified(&example, &proof), Ok(()), "{count} openings");
        for backend in KERNELS.available() {
            let again = proved(&example, Exec::new(backend, Some(&pool)));
            assert!(again == proof, "{count} openings, {backend}");
        }
    }
}

/// The upper limb of a tweak grows within a chain of this slot.
#[test]
fn the_lean_sets_are_proved_succinctly() {
    for (parameters, slot) in [(LeanParameters::TEST, 5), (LeanParameters::PROD, 127 * 700)] {
        let example = Example::new(parameters, 2, slot);
        let exec = Exec::new(KERNELS.measured(), None);
        let Example { chains, .. } = &example;
        let opened = chains.opened(exec, slot, &SPOKEN, &example.openings);
        let public = chains.public(&example.statement, &example.registry);
        let (relation, witness) = (chains.relation(), opened.unwrap().witness);
        let preset = Preset::FAST;
        let proof = prove_succinct(exec, relation, &preset, &public, &witness).unwrap();
        let said = verify_succinct(exec, relation, &preset, &public, &proof);
        assert_eq!(said, Ok(()));
        let mut other = public.clone();
        other.values[0] += Fp::ONE;
        assert!(verify_succinct(exec, relation, &preset, &other, &proof).is_err());
        let bytes = proof.to_bytes(relation, &preset);
        assert_eq!(
            SuccinctProof::from_bytes(relation, &preset, &bytes),
            Ok(proof)
        );
    }
}

#[test]
fn a_registry_of_another_width_is_refused() {
    let mut example = Example::new(MINI, 2, SLOT);
    let proof = proved(&example, exec());
    example.registry = Registry::new(&[[Fp::ONE; 8]; 3], 8, 9).unwrap();
    let refused = VerifyError::RegistryWidth { got: 8, want: 13 };
    assert_eq!(verified(&example, &proof), Err(refused));
}

#[test]
fn each_wrong_message_is_refused_though_the_prover_goes_on_from_it() {
    let example = honest();
    let relation = example.chains.relation();
    let public = example.chains.public(&example.statement, &example.registry);
    let witness = Witness::new(relation, vec![cells_of(&example)]).unwrap();
    refuses_wrong_messages(relation, &public, &witness);
}

type Lies = Vec<CellLie>;

fn lie(cell: usize, instance: usize, delta: Fp) -> CellLie {
    CellLie {
        cell,
        instance,
        delta,
    }
}

/// Four openings in one group.
fn honest() -> Example {
    Example::new(MINI, 4, SLOT)
}

/// The cells of an honest group.
fn cells_of(example: &Example) -> Vec<Fp> {
    let openings = &example.openings;
    example
        .chains
        .lying_group(example.statement.slot, &SPOKEN, openings, &[])
        .0
}

/// The verifier's verdict on the cells of a lying group, whose keys are registered.
fn outcome(example: &Example, lies: &[CellLie]) -> Result<(), VerifyError> {
    let chains = &example.chains;
    let slot = example.statement.slot;
    let mut openings = example.openings.clone();
    let (_, roots) = chains.lying_group(slot, &SPOKEN, &openings, lies);
    for (opening, root) in openings.iter_mut().zip(roots) {
        opening.root = root;
    }
    let (cells, _) = chains.lying_group(slot, &SPOKEN, &openings, lies);
    let lanes = chains.relation().shape.lanes();
    for (lane, opening) in openings.iter_mut().enumerate() {
        opening.root = std::array::from_fn(|x| cells[chains.at.root(x) * lanes + lane]);
        opening.parameter = std::array::from_fn(|x| cells[chains.at.parameter(x) * lanes + lane]);
    }
    let example = Example::of(chains.clone(), slot, openings);
    let relation = example.chains.relation();
    let public = example.chains.public(&example.statement, &example.registry);
    said_to(relation, &public, cells)
}

/// Asserts that the lie is rejected with `error`, and accepted once `weaken` has removed what it breaks.
fn needs(example: &Example, lies: &Lies, error: VerifyError, weaken: impl Fn(&mut LeanChains)) {
    assert_eq!(outcome(example, lies), Err(error));
    let mut weak = example.clone();
    weaken(&mut weak.chains);
    assert_eq!(outcome(&weak, lies), Ok(()), "instead of {error}");
}

#[test]
fn each_wire_is_needed() {
    let example = honest();
    let chains = &example.chains;
    let publics = chains.publics(SLOT, &SPOKEN);
    let encode = chains.at.sponge_row(MINI.blocks());
    for (index, wire) in chains.relation().wires.iter().enumerate() {
        // The cell that the output flows into: of two, the one chosen by the slot's bit; of a limb, the remainder,
        // whose look-up a lie of 1 passes.
        let of = |cells: &[usize]| {
            let cell = |cell: usize| Fp::new(u32::from(cells.contains(&cell)));
            wire.form.value(&publics, cell)
        };
        let mut cells = wire.form.0.iter().filter_map(|term| term.cell);
        let cell = cells.find(|cell| of(&[*cell]) != of(&[])).unwrap();
        let mut delta = Fp::ONE;
        if wire.row == encode && cells_of(&example)[cell * 4 + index % 4] == Fp::new(126) {
            delta = -Fp::ONE;
        }
        let lies = vec![lie(cell, index % 4, delta)];
        needs(
            &example,
            &lies,
            VerifyError::WidePoseidonLayer(30),
            |chains| {
                chains.relation_mut().wires.remove(index);
            },
        );
    }
}

/// Removes the tuple that puts a single cell on the bus.
fn remove_look_up(chains: &mut LeanChains, cell: usize) {
    for position in &mut chains.relation_mut().bus {
        let looks_up = position
            .as_ref()
            .is_some_and(|tuple| match &tuple.entries[..] {
                [Entry::Form(form)] => *form == Form::cell(cell),
                _ => false,
            });
        if looks_up {
            *position = None;
        }
    }
}

/// A digit that is 8 greater, and one of no chain that is smaller by that amount: the same number.
#[test]
fn tails_and_remainders_must_be_in_range() {
    let example = honest();
    let (chains, cells) = (&example.chains, cells_of(&example));
    let at = |cell: usize, lane: usize| cells[cell * 4 + lane].canonical();
    // 64 more in the lower tail, 1 less in the upper one.
    let [low, high] = [chains.tail(0), chains.tail(1)];
    let lane = (0..4).find(|lane| at(high, *lane) > 0).unwrap();
    let lies = vec![lie(low, lane, Fp::new(64)), lie(high, lane, -Fp::ONE)];
    needs(&example, &lies, VerifyError::BusSum, |chains| {
        remove_look_up(chains, low)
    });
    // 127 more in the remainder, 1 less in what is multiplied by 127, taken from the tails.
    let remainder = chains.at.limb(0);
    let step = Fp::new(1 << 12);
    let lies = vec![
        lie(remainder, lane, Fp::new(127) * step),
        lie(low, lane, -Fp::ONE),
    ];
    let positive = (0..4).find(|lane| at(low, *lane) > 0).unwrap();
    let lies: Lies = lies
        .into_iter()
        .map(|l| CellLie {
            instance: positive,
            ..l
        })
        .collect();
    needs(&example, &lies, VerifyError::BusSum, |chains| {
        remove_look_up(chains, remainder)
    });
}

/// The abort rule: p − 1 has no digits and remainder, whatever is written for it.
#[test]
fn the_highest_element_has_no_digits() {
    let digits = u64::from(crate::field::P - 1) / 127;
    assert_eq!(digits, 1 << 24, "nine digits");
    assert_eq!(127 * ((1 << 24) - 1) + 126, crate::field::P - 2);
}

fn blind(chains: &mut LeanChains, tag: u32, component: usize) {
    for tuple in chains.relation_mut().bus.iter_mut().flatten() {
        if tuple.tag == tag {
            tuple.entries[component] = Entry::Form(Form::default());
        }
    }
}

#[test]
fn each_component_of_a_chain_tuple_is_needed() {
    let example = honest();
    let chains = &example.chains;
    for t in (0..MINI.steps).step_by(3) {
        let x = t % DIGEST;
        let digest = vec![lie(chains.at.step(x, t), t % 4, Fp::ONE)];
        needs(&example, &digest, VerifyError::BusSum, |chains| {
            blind(chains, kind::CHAIN, 2 + x)
        });
        let place = vec![lie(chains.at.step(DIGEST, t), t % 4, Fp::ONE)];
        assert_eq!(outcome(&example, &place), Err(VerifyError::BusSum));
    }
}

/// An upper limb that differs from the tweak's integer would give another hash if it were not looked up.
#[test]
fn the_upper_limb_of_each_tweak_is_looked_up() {
    for slot in [SLOT, 127 * 700] {
        let example = Example::new(MINI, 4, slot);
        for t in [0, 5, MINI.steps - 1] {
            let lies = vec![lie(example.chains.at.step(DIGEST + 1, t), t % 4, Fp::ONE)];
            needs(&example, &lies, VerifyError::BusSum, |chains| {
                let looks_up = |tuple: &crate::relation::Tuple| match &tuple.entries[..] {
                    [_, Entry::Form(form)] => {
                        tuple.tag == own::TWEAK
                            && *form == Form::cell(example.chains.at.step(DIGEST + 1, t))
                    }
                    _ => false,
                };
                for position in &mut chains.relation_mut().bus {
                    if position.as_ref().is_some_and(looks_up) {
                        *position = None;
                    }
                }
            });
        }
    }
}

/// A code with another sum: the number of chain rows is what enforces it.
#[test]
fn another_sum_of_digits_is_refused() {
    for steps in [MINI.steps - 1, MINI.steps + 1] {
        let chains = LeanChains::new(MINI);
        let openings = (0..4).map(|i| opening(&chains, SLOT, i, steps)).collect();
        let example = Example::of(chains, SLOT, openings);
        assert_eq!(outcome(&example, &[]), Err(VerifyError::BusSum));
        let chains = LeanChains::new(LeanParameters { steps, ..MINI });
        let example = Example::of(chains, SLOT, example.openings);
        assert_eq!(outcome(&example, &[]), Ok(()), "{steps} steps");
    }
}

#[test]
fn a_key_that_is_not_registered_there_is_refused() {
    let example = honest();
    for x in 0..DIGEST + PARAMETER {
        let mut other = example.clone();
        let mut rows: Vec<_> = (0..5).map(|i| example.registry.row(i)).collect();
        rows[2][x] += Fp::ONE;
        other.registry = Registry::new(&rows, DIGEST + PARAMETER, 9).unwrap();
        let said = verified(&other, &proved(&other, exec()));
        assert_eq!(said, Err(VerifyError::BusSum), "element {x}");
    }
}

/// Every cell, one at a time: only cells that the prover fills in and spare ones are free.
#[test]
fn every_cell_counts() {
    let example = honest();
    let chains = &example.chains;
    let cells = cells_of(&example);
    let relation = chains.relation();
    let public = chains.public(&example.statement, &example.registry);
    let mut free = 0;
    for cell in 0..relation.cells {
        let mut changed = cells.clone();
        changed[cell * 4 + cell % 4] += Fp::ONE;
        let witness = Witness::new(relation, vec![changed]).unwrap();
        // Cells of cubes are filled in by the prover, so a change there has no effect.
        free += usize::from(check(exec(), relation, &public, &witness).is_ok());
    }
    let wide = MINI.levels + MINI.blocks() + 1;
    let cubes = MINI.steps * ROW_CUBES + wide * WIDE_ROW_CUBES;
    assert_eq!(free, cubes + unread(chains));
}

/// The claims that fail when the committed data differs from the data argued about.
fn failing(example: &Example, cell: usize) -> Vec<Claimed> {
    let relation = example.chains.relation();
    let public = example.chains.public(&example.statement, &example.registry);
    let witness = Witness::new(relation, vec![cells_of(example)]).unwrap();
    let run = Run::new(exec(), relation, &public.values, &witness).unwrap();
    let honest = run.slices(exec(), &public.statement.bitfield).unwrap();
    let mut committed = honest.clone();
    committed[2 + cell / 256][cell % 256 * 4 + 1] += Fp::ONE;
    let sides = Sides {
        bus: &honest,
        union: &honest,
        committed: &committed,
    };
    let mut sender = Sender::new(parameters(relation, TRANSPARENT));
    prove_sides(exec(), &public, &run, sides, &mut sender).unwrap();
    let elements = sender.finish();
    let known = Known {
        digest: public.digest,
        publics: public.values.clone(),
        used: vec![Fp::ONE],
    };
    let (reduced, arith) = reduce(Native::new(&elements), relation, &known).unwrap();
    arith.finish().unwrap();
    let failed = false_claims(reduced.ledger, relation, &committed).into_iter();
    failed.map(|(name, _)| name).collect()
}

/// For each claim on the rows of either width, a lie that only this claim rejects, or only it and the claim on
/// inputs of which the cell is also part.
#[test]
fn each_claim_is_needed() {
    let example = honest();
    let chains = &example.chains;
    let relation = chains.relation();
    let cube = |row: usize| relation.rows[row].as_ref().unwrap().cubes[7];
    assert_eq!(failing(&example, cube(3)), [Claimed::Cubes]);
    assert_eq!(
        failing(&example, cube(chains.at.node_row(1))),
        [Claimed::WideCubes]
    );
    assert_eq!(
        failing(&example, chains.randomness(2)),
        [Claimed::WideInputs]
    );
    // A remainder occurs only on the bus and in the form a limb is wired to.
    let remainder = failing(&example, chains.at.limb(0));
    assert_eq!(remainder, [Claimed::BusCells, Claimed::WideOutputs]);
    // A state of the sponge is an output of one row and an input of the next.
    let state = failing(&example, chains.at.sponge(4, 1));
    assert_eq!(state, [Claimed::WideOutputs, Claimed::WideInputs]);
    // A digest of a chain is on the bus, and added to the output there.
    let digest = failing(&example, chains.at.step(1, 2));
    assert_eq!(
        digest,
        [Claimed::BusCells, Claimed::Outputs, Claimed::Inputs]
    );
    let mut random = Random::new(5);
    let cell = chains.at.step(0, random.below(MINI.steps));
    assert!(failing(&example, cell).contains(&Claimed::Inputs));
}
