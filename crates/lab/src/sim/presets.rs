//! Built-in scenarios. Their files are in `scenarios/`, which the crate includes as a link, so that
//! they are part of its package.

/// A scenario with a name.
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

/// Expands each name to its preset and file.
macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(Preset {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),*]
    };
}

/// All presets, in order of name.
pub(crate) const PRESETS: &[Preset] = presets![
    "answer-balance",
    "answer-ballots",
    "answer-bandwidth",
    "answer-bitfields",
    "answer-bounce",
    "answer-collectors",
    "answer-compression",
    "answer-consensus",
    "answer-late-block",
    "answer-reorg",
    "answer-tree",
    "broadcast-20",
    "classes-mixed",
    "classes-regions",
    "coded-20",
    "coded-20-16mb",
    "coded-20-1mb",
    "coded-devnet",
    "direct-uplink",
    "horn-16k",
    "horn-1m-10k",
    "horn-1m-1m",
    "horn-collectors",
    "horn-committees",
    "horn-dissemination",
    "horn-griefing",
    "horn-pq-1m-10k",
    "horn-pq-bandwidth",
    "horn-pq-cores",
    "horn-pq-mesh",
    "horn-pq-publishers",
    "horn-pq-slot-time",
    "horn-slot-time",
    "regress-crash",
    "regress-gossip",
    "regress-grid",
    "regress-loss",
    "regress-partition",
    "regress-partition-rlnc",
    "regress-partition-rs",
];

/// Files that presets refer to.
const FILES: &[(&str, &str)] = &[
    (
        "costs/bls-formula.json",
        include_str!("../../scenarios/costs/bls-formula.json"),
    ),
    (
        "costs/codes.json",
        include_str!("../../scenarios/costs/codes.json"),
    ),
    (
        "costs/xmss-cells.json",
        include_str!("../../scenarios/costs/xmss-cells.json"),
    ),
];

/// Returns the preset with a name.
pub(crate) fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// Returns a file that a preset refers to.
pub(crate) fn file(name: &str) -> Option<&'static str> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_scheme::model::{CodeOp, CodeTable};
    use alphorn_sim::scenario::Scenario;
    use alphorn_sim::sweep::Plan;

    #[test]
    fn codes_cost_something_at_every_size() {
        let codes = CodeTable::from_json(file("costs/codes.json").unwrap()).unwrap();
        for op in CodeOp::ALL {
            for n in [1, 2, 10, 33, 64] {
                for m in [1000, 20_000, 240_000, 30_000_000] {
                    assert!(codes.cost(op, n, m).ns > 0, "{} {n} {m}", op.name());
                }
            }
        }
        let ns = |op, n, m| codes.cost(op, n, m).ns;
        for m in [20_000, 240_000, 1_000_000] {
            // A quarter of the rows is less work, and an equal number of shards means an equal number
            // of hashes and paths.
            assert!(ns(CodeOp::RlncRecode, 16, m) < ns(CodeOp::RlncRecode, 64, m));
            assert!(ns(CodeOp::RsVerify, 64, m) > 20 * ns(CodeOp::RsVerify, 1, m));
        }
        // A hundredth of the smallest payload takes at least a hundredth of its time.
        let commit = |m| ns(CodeOp::RlncCommit, 64, m);
        assert!(commit(1188) * 100 >= commit(118_750));
    }

    #[test]
    fn every_preset_is_a_scenario_of_its_name_with_all_its_files() {
        assert!(PRESETS.is_sorted_by(|a, b| a.name < b.name));
        for preset in PRESETS {
            let mut scenario = Scenario::parse(preset.text, &[])
                .unwrap_or_else(|error| panic!("{}: {error}", preset.name));
            assert_eq!(scenario.name, preset.name);
            assert!(
                !scenario.about.is_empty(),
                "{} says what it shows",
                preset.name
            );
            let names: Vec<String> = scenario
                .files_swept()
                .iter()
                .map(|&n| n.to_owned())
                .collect();
            for name in names {
                let text = file(&name).unwrap_or_else(|| panic!("{}: {name}", preset.name));
                scenario.inputs.insert(name, text.to_owned());
            }
            let plan = Plan::of(&scenario, "test")
                .unwrap_or_else(|error| panic!("{}: {error}", preset.name));
            assert!(!plan.items.is_empty());
        }
    }
}
