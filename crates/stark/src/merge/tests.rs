//! Merges of small leaves.

use std::sync::LazyLock;
use std::time::Instant;

use super::*;
use crate::chains::tests::{Example, MESSAGE};
use crate::chains::Parameters;
use crate::proof::{prove_succinct, verify_succinct_on};

const SLOT: u32 = 123_456_789;

fn exec() -> Exec<'static> {
    Exec::new(Backend::measured(), None)
}

/// Six members, and the circuits.
struct Setup {
    example: Example,
    merges: Merges<'static>,
    publics: Vec<Fp>,
}

static SETUP: LazyLock<Setup> = LazyLock::new(|| {
    let example = Example::new(Parameters::COMPACT, 6, SLOT);
    let relation: &'static Relation = Box::leak(Box::new(example.chains.relation().clone()));
    let start = Instant::now();
    let merges = Merges::new(relation);
    println!("circuits: {:?}", start.elapsed());
    for plan in &merges.wiring.plans {
        println!(
            "permutations {} rows {} cells {} ({} variables); nonzeros {} {} {} {} {}",
            plan.permutations,
            plan.products,
            plan.end,
            plan.end - layout::LAYOUT.free,
            plan.rows.inputs.len(),
            plan.rows.outputs.len(),
            plan.rows.products[0].len(),
            plan.rows.products[1].len(),
            plan.rows.products[2].len(),
        );
    }
    let publics = example.chains.publics(SLOT, &MESSAGE);
    Setup {
        example,
        merges,
        publics,
    }
});

impl Setup {
    fn statement(&self, bits: std::ops::Range<usize>, level: u32) -> Statement {
        let mut statement = self.example.statement.clone();
        statement.level = level;
        statement.bitfield.fill(false);
        statement.bitfield[bits].fill(true);
        statement
    }

    /// A leaf of some members, and its bitfield.
    fn leaf(&self, members: std::ops::Range<usize>) -> (SuccinctProof, Vec<bool>) {
        let statement = self.statement(members.clone(), 0);
        let chains = &self.example.chains;
        let openings = &self.example.openings[members];
        let witness = chains.witness(exec(), SLOT, &MESSAGE, openings).unwrap();
        let public = chains.public(&statement, &self.example.registry);
        let relation = chains.relation();
        let proof = prove_succinct(exec(), relation, &Preset::FAST, &public, &witness).unwrap();
        let verified = verify_succinct_on(exec(), relation, &Preset::FAST, &public, &proof);
        assert_eq!(verified, Ok(()));
        (proof, statement.bitfield)
    }

    fn prove(&self, statement: &Statement, children: &[Child<'_>]) -> Result<MergeProof, ProveError> {
        let spoken = (statement, &self.publics[..]);
        let registry = &self.example.registry;
        self.merges.prove(exec(), &Preset::MERGE, registry, spoken, children)
    }

    fn verify(&self, statement: &Statement, proof: &MergeProof) -> Result<(), VerifyError> {
        let spoken = (statement, &self.publics[..]);
        let registry = &self.example.registry;
        self.merges.verify(exec(), &Preset::MERGE, registry, spoken, proof)
    }
}

fn leaf_child<'a>((proof, bitfield): &'a (SuccinctProof, Vec<bool>)) -> Child<'a> {
    Child {
        proof: ChildProof::Leaf(proof),
        bitfield,
    }
}

#[test]
fn two_leaves_and_a_tree() {
    let setup = &*SETUP;
    let leaves = [setup.leaf(0..4), setup.leaf(2..6)];
    let statement = setup.statement(0..6, 1);
    let start = Instant::now();
    let first = setup.prove(&statement, &leaves.each_ref().map(leaf_child)).unwrap();
    println!("merged {:?}, {} elements", start.elapsed(), first.elements.len());
    let start = Instant::now();
    assert_eq!(setup.verify(&statement, &first), Ok(()));
    println!("verified {:?}", start.elapsed());
    let above = setup.statement(0..6, 2);
    let children = [
        Child {
            proof: ChildProof::Merge(&first),
            bitfield: &statement.bitfield,
        },
        leaf_child(&leaves[0]),
    ];
    let second = setup.prove(&above, &children).unwrap();
    assert_eq!(setup.verify(&above, &second), Ok(()));
}
