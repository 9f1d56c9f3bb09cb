//! The parameters that all nodes of a network agree on before its first slot, and the resulting identity.

use alphorn_broadcast::rlnc::Strategy;
use alphorn_proto::horn::Config;
use sha2::{Digest, Sha256};

/// First bytes of the hashed data: the version of the canonical form.
const DOMAIN: &[u8] = b"alphorn-genesis-v2";

/// The genesis parameters besides those of [`Config`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis<'a> {
    /// The name of the scheme.
    pub scheme: &'a str,
    /// SHA-256 over all public keys in the order of the validators.
    pub keys: [u8; 32],
    /// The code of broadcasts. Nodes with different codes cannot read each other's pieces.
    pub code: Strategy,
}

/// SHA-256 of the canonical genesis parameters: everything on which nodes must agree to understand and accept each
/// other's messages. Local choices (how to cover, how much to keep) are not included.
pub fn network_id(config: &Config, genesis: &Genesis<'_>) -> [u8; 32] {
    let layout = &config.layout;
    let mut hash = Sha256::new();
    // Each with its length, so that different lists of fields are never the same bytes.
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(DOMAIN);
    field(genesis.scheme.as_bytes());
    field(&genesis.keys);
    let numbers = [
        config.genesis.as_nanos(),
        config.timing.slot_ms(),
        u64::from(layout.validators()),
        u64::from(layout.committees()),
        u64::from(config.multiplicity_max),
        config.epoch_slots,
        u64::from(config.collections_per_block_max),
        u64::from(config.vote_data_per_slot_max),
        u64::from(layout.levels()),
        u64::from(config.bundled),
    ];
    let levels = config.levels.iter().flat_map(|level| {
        let numbers = [level.publishers, level.taken_max];
        numbers.map(u64::from)
    });
    let fan_out = layout.fan_out().into_iter().map(u64::from);
    let offsets = config.timing.offsets_ms().iter().copied();
    for number in numbers
        .into_iter()
        .chain(fan_out)
        .chain(levels)
        .chain(offsets)
    {
        field(&number.to_le_bytes());
    }
    for level in &config.levels {
        field(level.publish.to_string().as_bytes());
    }
    let words = [
        config.selection.to_string(),
        config.subset_rule.to_string(),
        format!("{:?}", config.coding),
        format!("{:?}", config.context),
        format!("{:?}", config.fork_choice),
    ];
    for word in words {
        field(word.as_bytes());
    }
    let weights = config.weights.increments().unwrap_or_default();
    let weights: Vec<u8> = weights.iter().flat_map(|one| one.to_le_bytes()).collect();
    field(&weights);
    // The default adds no word, so that networks keep the identity that they had before there were two codes.
    match genesis.code {
        Strategy::Rs => {}
        Strategy::Rlnc => field(b"rlnc"),
    }
    hash.finalize().into()
}

/// SHA-256 over public keys in the order of their validators, each with its length.
pub fn keys_digest<'k>(keys: impl IntoIterator<Item = &'k [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for key in keys {
        hash.update((key.len() as u64).to_le_bytes());
        hash.update(key);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_proto::chain::{Policy, Weights};
    use alphorn_proto::horn::{Cover, SchemeInfo, Selection};
    use alphorn_scheme::model::{CostTable, Model};
    use alphorn_types::Layout;
    use std::collections::BTreeSet;

    const VALIDATORS: u32 = 64;

    fn config(layout: Layout) -> Config {
        let model = Model::new(CostTable::example()).unwrap();
        Config::new(layout, &SchemeInfo::of(&model, &layout))
    }

    fn id(config: &Config) -> [u8; 32] {
        id_in(config, Strategy::Rs)
    }

    fn id_in(config: &Config, code: Strategy) -> [u8; 32] {
        let (scheme, keys) = ("model", [3; 32]);
        network_id(config, &Genesis { scheme, keys, code })
    }

    #[test]
    fn whatever_nodes_must_agree_on_makes_another_network() {
        let layout = Layout::new(VALIDATORS, 2, 4).unwrap();
        let base = config(layout);
        let changes: [fn(&mut Config); 8] = [
            |config| config.bundled = true,
            |config| config.levels[0].publishers += 1,
            |config| config.levels[1].taken_max += 1,
            |config| config.selection = Selection::Rank,
            |config| config.epoch_slots += 1,
            |config| config.fork_choice = Policy::ViewMerge,
            |config| config.weights = Weights::new(vec![2; VALIDATORS as usize]).unwrap(),
            |config| config.layout = Layout::with_fan_out(VALIDATORS, 2, &[2, 2]).unwrap(),
        ];
        let changed = changes.map(|change| {
            let mut config = base.clone();
            change(&mut config);
            id(&config)
        });
        let all: BTreeSet<_> = changed.into_iter().chain([id(&base)]).collect();
        assert_eq!(all.len(), 9);
        assert!(!all.contains(&id_in(&base, Strategy::Rlnc)));
        let mut local = base.clone();
        local.levels[1].cover = Cover::Best1;
        local.block_bytes_max /= 2;
        assert_eq!(id(&local), id(&base), "what only one node does");
    }
}
