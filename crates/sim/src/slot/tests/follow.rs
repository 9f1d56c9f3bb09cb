//! Blocks received by a node that has seen nothing else.

use super::*;
use alphorn_scheme::Bytes;

fn follow_with(
    scheme: Model,
    config: &SlotConfig,
    blocks: &[Bytes],
) -> Result<Followed, SlotError> {
    let inputs = inputs(scheme, &config.horn.layout);
    follow(config.clone(), inputs, blocks)
}

fn bundles() -> Model {
    let mut table = CostTable::example();
    table.abilities.bundle_max = Some(49);
    Model::new(table).unwrap()
}

/// A slot whose block has a single piece of evidence.
fn bundled() -> SlotConfig {
    let layout = Layout::new(4096, 2, 2).unwrap();
    let mut config = config_of(&bundles(), layout, 1);
    config.horn.bundle(&SchemeInfo::of(&bundles(), &layout));
    config
}

#[test]
fn a_follower_takes_the_blocks_of_a_slot_and_finds_every_vote() {
    let participation = Participation::Rate { ppm: 900_000 };
    let plain = SlotConfig {
        participation,
        ..config(4096, 3)
    };
    for (scheme, config) in [(model as fn() -> Model, plain), (bundles, bundled())] {
        let outcome = run_with(scheme(), config.clone());
        let followed = follow_with(scheme(), &config, &outcome.blocks).unwrap();
        assert!(followed.holds(), "{followed:?}");
        assert_eq!(followed.rejects, BTreeMap::new());
        assert_eq!(followed.votes, outcome.votes.in_block);
        assert_eq!(
            (followed.block_bytes, followed.bundle_bytes),
            (outcome.block.bytes, outcome.block.bundle_bytes)
        );
    }
}

#[test]
fn a_follower_refuses_a_block_whose_evidence_is_another() {
    let config = bundled();
    let outcome = run_with(bundles(), config.clone());
    let last = outcome.blocks.last().unwrap();
    let bundle = outcome.block.bundle_bytes as usize;
    assert!(bundle > 0);
    let mut refused = 0;
    for i in 0..last.len() {
        let mut bytes = last.to_vec();
        bytes[i] ^= 1;
        let mut blocks = outcome.blocks.clone();
        *blocks.last_mut().unwrap() = bytes.into();
        let followed = follow_with(bundles(), &config, &blocks);
        assert!(!followed.is_ok_and(|followed| followed.holds()), "byte {i}");
        refused += 1;
    }
    assert_eq!(refused, last.len());
}

#[test]
fn a_follower_needs_every_block_and_those_of_its_own_network() {
    let config = bundled();
    let outcome = run_with(bundles(), config.clone());
    let without_last = &outcome.blocks[..outcome.blocks.len() - 1];
    let followed = follow_with(bundles(), &config, without_last).unwrap();
    assert!(!followed.holds() && followed.votes == 0, "{followed:?}");
    let other = SlotConfig {
        seed: config.seed + 1,
        ..config.clone()
    };
    let followed = follow_with(bundles(), &other, &outcome.blocks).unwrap();
    assert!(!followed.holds() && followed.accepted == 0, "{followed:?}");
    // Half of them were to vote, and all did.
    let half = SlotConfig {
        participation: Participation::Rate { ppm: 500_000 },
        ..config
    };
    let followed = follow_with(bundles(), &half, &outcome.blocks).unwrap();
    assert!(
        followed.accepted == followed.blocks && !followed.is_exact,
        "{followed:?}"
    );
}
