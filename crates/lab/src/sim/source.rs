//! Loads scenarios from a file or by the name of a preset, with the files that they refer to.

use super::presets;
use crate::error::Result;
use crate::input;
use crate::overwrite::folder_of;
use alphorn_sim::scenario::{Override, Scenario, Seeds, TEXT_BYTES_MAX, parse_override};
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum size in bytes of a file that a scenario refers to.
const INPUT_BYTES_MAX: u64 = 256 << 20;

/// What a user asks for: a scenario and values in place of its own.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Asked {
    /// Scenario file, or name of a preset (alphorn sim list)
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    /// Single seed, instead of the scenario's
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub(crate) seed: Option<u64>,
    /// Range of seeds, such as 1..20, both ends included
    #[arg(long, value_name = "A..B")]
    pub(crate) seeds: Option<Seeds>,
    /// Override a value of the scenario, such as traffic.bytes=1000000; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// What to compute in full: rank (sizes and ranks) or bytes (all bytes, few nodes)
    #[arg(long, value_name = "MODE", value_parser = ["rank", "bytes"])]
    pub(crate) mode: Option<String>,
}

impl Asked {
    /// Loads the scenario with its files.
    pub(crate) fn load(&self) -> Result<Scenario> {
        let mut changes = Vec::new();
        for text in &self.set {
            changes.push(parse_override(text).with_context(|| format!("--set {text}"))?);
        }
        if let Some(mode) = &self.mode {
            changes.push(parse_override(&format!("sim.mode={mode}"))?);
        }
        let mut scenario = load(&self.scenario, &changes)?;
        if let Some(seeds) = self.seeds.or(self.seed.map(Seeds::one)) {
            scenario.sim.seeds = seeds;
            scenario.check()?;
        }
        Ok(scenario)
    }

    /// Returns the files that were read for this scenario; none of a preset's own.
    pub(crate) fn files(&self, scenario: &Scenario) -> Vec<PathBuf> {
        let path = Path::new(&self.scenario);
        let is_file = path.is_file();
        let folder = match is_file {
            true => folder_of(path),
            false => Path::new(""),
        };
        let named = scenario.inputs.keys();
        let named = named.filter(|name| is_file || presets::file(name).is_none());
        let own = is_file.then(|| path.to_owned());
        own.into_iter()
            .chain(named.map(|name| folder.join(name)))
            .collect()
    }

    /// Returns the command that repeats one of the runs.
    pub(crate) fn command(&self, seed: u64, set: &BTreeMap<String, String>) -> String {
        let mut words = vec![
            "alphorn".to_owned(),
            "sim".into(),
            "run".into(),
            shell(&self.scenario),
        ];
        words.extend(["--seed".into(), seed.to_string()]);
        for text in &self.set {
            words.extend(["--set".into(), shell(text)]);
        }
        for (path, value) in set {
            words.extend(["--set".into(), shell(&format!("{path}={value}"))]);
        }
        if let Some(mode) = &self.mode {
            words.extend(["--mode".into(), mode.clone()]);
        }
        words.join(" ")
    }
}

/// Quotes a word so that a shell reads it unchanged.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+%@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Loads the scenario of a file or a preset.
pub fn load(name: &str, changes: &[Override]) -> Result<Scenario> {
    let path = Path::new(name);
    let (text, location) = if path.is_file() {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        (
            input::text(path, TEXT_BYTES_MAX as u64)?,
            Location::Folder(folder),
        )
    } else if let Some(preset) = presets::find(name) {
        (preset.text.to_owned(), Location::Presets)
    } else {
        let known = "neither a file nor a preset; presets are listed by: alphorn sim list";
        return Err(anyhow!("{name:?} is {known}").into());
    };
    let mut scenario = Scenario::parse(&text, changes).with_context(|| name.to_owned())?;
    scenario.inputs = inputs(&scenario, &location)?;
    Ok(scenario)
}

/// The location of a scenario's files.
enum Location {
    Folder(PathBuf),
    Presets,
}

/// Returns the texts of all files that a scenario or a point of its sweep refers to.
fn inputs(scenario: &Scenario, location: &Location) -> Result<BTreeMap<String, String>> {
    let mut inputs = BTreeMap::new();
    for name in scenario.files_swept() {
        let text = match location {
            Location::Folder(folder) => input::text(&folder.join(name), INPUT_BYTES_MAX)?,
            Location::Presets => match presets::file(name) {
                Some(text) => text.to_owned(),
                None => input::text(Path::new(name), INPUT_BYTES_MAX)?,
            },
        };
        inputs.insert(name.to_owned(), text);
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_a_shell_reads_them() {
        assert_eq!(shell("traffic.bytes=5"), "traffic.bytes=5");
        assert_eq!(shell("a b"), "'a b'");
        assert_eq!(shell("it's"), "'it'\\''s'");
        assert_eq!(shell(""), "''");
    }

    #[test]
    fn files_lie_beside_their_scenario() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let text = "name = \"t\"\nschema = 1\n[sim]\nnodes = 9\n[[class]]\nname = \"full\"\nshare_pct = 100\n\
                    down_mbps = 50\nup_mbps = 15\n[protocol]\nkind = \"gossip\"\n[graph]\nkind = \"file\"\npath = \"g.txt\"\n";
        std::fs::write(at("t.toml"), text).unwrap();
        let name = at("t.toml").to_str().unwrap().to_owned();
        let missing = load(&name, &[]).unwrap_err().to_string();
        assert!(missing.contains("g.txt"), "{missing}");
        std::fs::write(at("g.txt"), "0 1\n").unwrap();
        assert_eq!(load(&name, &[]).unwrap().inputs["g.txt"], "0 1\n");
        let unknown = load("no-such-preset", &[]).unwrap_err().to_string();
        assert!(unknown.contains("alphorn sim list"), "{unknown}");
    }
}
