//! The scenarios that come with the program; their files are in `scenarios/`, which the crate has as a link, so
//! that its package takes them along.

/// A scenario with a name.
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

/// The preset and the file of each name.
macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(Preset {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),*]
    };
}

/// All of them, in the order of names.
pub(crate) const PRESETS: &[Preset] = presets![
    "answer-bandwidth",
    "answer-bitfields",
    "answer-collectors",
    "answer-compression",
    "answer-consensus",
    "answer-tree",
    "broadcast-20",
    "broadcast-20-16mb",
    "broadcast-20-1mb",
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

/// Files that presets name.
const FILES: &[(&str, &str)] = &[
    (
        "costs/bls-formula.json",
        include_str!("../../scenarios/costs/bls-formula.json"),
    ),
    (
        "costs/codes-sapphire-rapids.json",
        include_str!("../../scenarios/costs/codes-sapphire-rapids.json"),
    ),
    (
        "costs/xmss-cells.json",
        include_str!("../../scenarios/costs/xmss-cells.json"),
    ),
];

/// The preset of a name.
pub(crate) fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// A file that a preset names.
pub(crate) fn file(name: &str) -> Option<&'static str> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_sim::scenario::Scenario;
    use alphorn_sim::sweep::Plan;

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
