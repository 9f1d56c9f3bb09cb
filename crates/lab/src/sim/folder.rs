//! The folder of a run: written as a whole or not at all, and read again.

use super::source::read;
use super::trace::{self, Told};
use crate::error::Result;
use alphorn_sim::latency::REGIONS;
use alphorn_sim::report::manifest::Manifest;
use alphorn_sim::report::{self, Outcome, Run, pictures, run_page};
use alphorn_sim::scenario::{Latency, Scenario, TEXT_BYTES_MAX};
use anyhow::{Context, anyhow};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Its own account of a run.
const MANIFEST: &str = "manifest.json";
/// The scenario with every default.
const SCENARIO: &str = "scenario.toml";
/// Files that the scenario names, by their hash.
const INPUTS: &str = "inputs";
/// Most bytes of a manifest, and of an input.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
const INPUT_BYTES_MAX: u64 = 256 << 20;

/// Everything a folder holds.
pub(crate) struct Finished<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) manifest: &'a Manifest,
    /// Absent for a run that could not go on.
    pub(crate) outcome: Option<&'a Outcome>,
    /// What was told on the way.
    pub(crate) told: Option<&'a Told>,
}

/// Refuses a place where no folder of a run can be written: a file, or a folder of other things.
pub(crate) fn check(target: &Path) -> Result<()> {
    let other = match fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_some() && !target.join(MANIFEST).is_file(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(anyhow!("cannot use {}: {error}", target.display()).into()),
    };
    if other {
        let why =
            "is a folder of other things; a run is written to a new folder or over another run";
        return Err(anyhow!("{} {why}", target.display()).into());
    }
    Ok(())
}

/// The manifest of a folder, if it has one that can be read.
pub(crate) fn finished(target: &Path) -> Option<Manifest> {
    manifest(target).ok()
}

/// The manifest of a file or of its folder.
pub(crate) fn manifest(path: &Path) -> Result<Manifest> {
    let path = match path.is_dir() {
        true => path.join(MANIFEST),
        false => path.to_owned(),
    };
    let text = read(&path, MANIFEST_BYTES_MAX)?;
    Ok(serde_json::from_str(&text).with_context(|| path.display().to_string())?)
}

/// The folder of a manifest.
pub(crate) fn of(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.to_owned(),
        false => path.parent().unwrap_or(Path::new("")).to_owned(),
    }
}

/// The scenario of a run as it was, with its files.
pub(crate) fn scenario(folder: &Path, manifest: &Manifest) -> Result<Scenario> {
    let path = folder.join(SCENARIO);
    let text = read(&path, TEXT_BYTES_MAX as u64)?;
    let mut scenario = Scenario::parse(&text, &[]).with_context(|| path.display().to_string())?;
    for (name, hash) in &manifest.files {
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(anyhow!("files.{name} = {hash:?} is no SHA-256").into());
        }
        let text = read(&folder.join(INPUTS).join(hash), INPUT_BYTES_MAX)?;
        scenario.inputs.insert(name.clone(), text);
    }
    if scenario.hash() != manifest.scenario_hash {
        let why = "the scenario or its files are not those of the manifest";
        return Err(anyhow!("{}: {why}", folder.display()).into());
    }
    Ok(scenario)
}

/// Writes the folder beside its place, then moves it there.
pub(crate) fn write(target: &Path, finished: &Finished<'_>) -> Result<()> {
    check(target)?;
    let write = || -> anyhow::Result<()> {
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent)?;
        let new = tempfile::Builder::new()
            .prefix(".alphorn-")
            .tempdir_in(parent)?;
        // As readable as a folder that the user makes.
        let folder = new.path().join("run");
        fs::create_dir(&folder)?;
        fill(&folder, finished)?;
        if target.exists() {
            fs::rename(target, new.path().join("old"))?;
        }
        fs::rename(&folder, target)?;
        Ok(())
    };
    Ok(write().with_context(|| format!("cannot write {}", target.display()))?)
}

fn fill(folder: &Path, finished: &Finished<'_>) -> anyhow::Result<()> {
    let Finished {
        scenario,
        manifest,
        outcome,
        told,
    } = finished;
    let put = |name: &str, text: &str| fs::write(folder.join(name), text);
    let text = scenario.to_toml()?;
    put(SCENARIO, &text)?;
    if !scenario.inputs.is_empty() {
        fs::create_dir(folder.join(INPUTS))?;
        for input in scenario.inputs.values() {
            fs::write(folder.join(INPUTS).join(sha256(input)), input)?;
        }
    }
    if let Some(outcome) = outcome {
        let classes: Vec<&str> = scenario
            .class
            .iter()
            .map(|class| class.name.as_str())
            .collect();
        let regions: &[&str] = match scenario.latency {
            Latency::Regions { .. } => &REGIONS,
            Latency::Constant { .. } => &[],
        };
        put("nodes.csv", &report::nodes(outcome, &classes, regions))?;
        put(
            "summary.csv",
            &(report::SUMMARY_HEAD.to_owned() + &report::summary_row(outcome)),
        )?;
        put("cdf.csv", &report::cdf(outcome))?;
        put("series.csv", &report::series(outcome))?;
        for picture in pictures(scenario, outcome) {
            put(&format!("{}.svg", picture.name), &picture.file())?;
        }
        let run = Run {
            scenario,
            outcome,
            manifest,
            text: &text,
        };
        put("report.html", &run_page(&run))?;
    }
    trace::write(&folder.join("trace.jsonl"), scenario, *outcome, *told)?;
    put(MANIFEST, &(serde_json::to_string_pretty(manifest)? + "\n"))?;
    Ok(())
}

/// SHA-256 of a text in hexadecimal.
pub(crate) fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text);
    let mut hex = String::with_capacity(64);
    for byte in digest {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario_of(text: &str) -> Scenario {
        let base = "name = \"t\"\nschema = 1\n[sim]\nnodes = 40\n[[class]]\nname = \"full\"\nshare_pct = 100\n\
                    down_mbps = 50\nup_mbps = 15\n[protocol]\nkind = \"gossip\"\n";
        Scenario::parse(&format!("{base}{text}"), &[]).unwrap()
    }

    fn manifest_of(scenario: &Scenario) -> Manifest {
        let files = scenario.inputs.iter();
        Manifest {
            scenario_hash: scenario.hash(),
            files: files
                .map(|(name, text)| (name.clone(), sha256(text)))
                .collect(),
            ..Manifest::default()
        }
    }

    #[test]
    fn a_folder_is_read_as_it_was_written() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("a/b");
        let mut scenario = scenario_of("[graph]\nkind = \"file\"\npath = \"g\"\n");
        scenario.inputs.insert("g".into(), "0 1\n".into());
        let manifest = manifest_of(&scenario);
        let finished = Finished {
            scenario: &scenario,
            manifest: &manifest,
            outcome: Some(&Outcome::default()),
            told: None,
        };
        // Over itself, too.
        for _ in 0..2 {
            write(&target, &finished).unwrap();
            assert_eq!(super::manifest(&target).unwrap(), manifest);
            assert_eq!(super::scenario(&of(&target), &manifest).unwrap(), scenario);
        }
        let left: Vec<_> = fs::read_dir(place.path().join("a")).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary folder stays");
        for name in [
            "nodes.csv",
            "summary.csv",
            "cdf.csv",
            "series.csv",
            "trace.jsonl",
            "report.html",
            "cdf.svg",
            "bytes.svg",
            "duplicates.svg",
        ] {
            assert!(target.join(name).is_file(), "{name}");
        }
        fs::write(
            target.join(SCENARIO),
            scenario
                .to_toml()
                .unwrap()
                .replace("nodes = 40", "nodes = 41"),
        )
        .unwrap();
        let changed = super::scenario(&target, &manifest).unwrap_err().to_string();
        assert!(changed.contains("not those of the manifest"), "{changed}");
    }

    #[test]
    fn folders_of_other_things_are_left_alone() {
        let place = tempfile::tempdir().unwrap();
        assert!(check(place.path()).is_ok());
        fs::write(place.path().join("thesis.tex"), "").unwrap();
        let refused = check(place.path()).unwrap_err().to_string();
        assert!(refused.contains("other things"), "{refused}");
        assert!(check(&place.path().join("thesis.tex")).is_err());
    }
}
