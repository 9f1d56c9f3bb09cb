//! The folder of a run: written whole or not at all, and read back.

use super::page::{Run, run_page};
use super::pictures::pictures;
use super::trace::{self, Told};
use crate::error::Result;
use crate::input;
use alphorn_sim::latency::REGIONS;
use alphorn_sim::report::manifest::Manifest;
use alphorn_sim::report::{self, Outcome};
use alphorn_sim::scenario::{Latency, Scenario, TEXT_BYTES_MAX};
use anyhow::{Context, anyhow, bail};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The run's own description.
const MANIFEST: &str = "manifest.json";
/// The scenario with every default filled in.
const SCENARIO: &str = "scenario.toml";
/// Files that the scenario names, by their hash.
const INPUTS: &str = "inputs";
/// All files of a run.
const FILES: [&str; 12] = [
    MANIFEST,
    SCENARIO,
    "nodes.csv",
    "summary.csv",
    "cdf.csv",
    "series.csv",
    "report.html",
    "trace.jsonl",
    "cdf.svg",
    "bytes.svg",
    "duplicates.svg",
    "series.svg",
];
/// The folders of a sweep's runs.
pub(crate) const RUNS: &str = "runs";
/// Files that a sweep writes in its folder, apart from its runs.
const TABLES: [&str; 4] = ["runs.csv", "points.csv", "frontier.svg", "report.html"];
/// Maximum bytes of a manifest, and of an input.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
const INPUT_BYTES_MAX: u64 = 256 << 20;

/// Everything in the folder of a run.
pub(crate) struct Finished<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) manifest: &'a Manifest,
    /// Absent for an aborted run.
    pub(crate) outcome: Option<&'a Outcome>,
    /// The trace recorded during the run.
    pub(crate) told: Option<&'a Told>,
}

/// Rejects a path where the folder of a run cannot be written: a file, a folder that cannot be
/// replaced, or one that contains anything but a run, which would be lost.
pub(crate) fn check(target: &Path) -> Result<()> {
    Ok(replaceable(target).with_context(|| format!("cannot write {}", target.display()))?)
}

fn replaceable(target: &Path) -> anyhow::Result<()> {
    if target.file_name().is_none() {
        bail!("a folder with a name of its own is needed");
    }
    let Some(entries) = entries(target)? else {
        return Ok(());
    };
    let mut is_empty = true;
    for entry in entries {
        let entry = entry?;
        let (name, is_folder) = (entry.file_name(), entry.file_type()?.is_dir());
        let of_run = name.to_str().is_some_and(|name| match is_folder {
            true => name == INPUTS,
            false => FILES.contains(&name),
        });
        if !of_run {
            let name = name.display();
            bail!("it has {name:?}; a run is written to a new folder or over another run");
        }
        is_empty = false;
    }
    if !is_empty {
        manifest(target).map_err(|error| {
            anyhow!("{error}; a run is written to a new folder or over another run")
        })?;
    }
    Ok(())
}

/// Returns the entries of a folder; none if it does not exist but can be created.
fn entries(target: &Path) -> anyhow::Result<Option<fs::ReadDir>> {
    match fs::read_dir(target) {
        Ok(entries) => Ok(Some(entries)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let there = target.ancestors().find(|folder| folder.is_dir());
            let parent = there.unwrap_or(Path::new("."));
            tempfile::tempfile_in(parent).with_context(|| parent.display().to_string())?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the files that a run or a sweep writes in its folder.
pub(crate) fn written(target: &Path, is_sweep: bool) -> Vec<PathBuf> {
    let names: &[&str] = if is_sweep { &TABLES } else { &FILES };
    names.iter().map(|name| target.join(name)).collect()
}

/// Rejects a path where a sweep cannot be written: a file, or a folder that contains anything but a
/// sweep. Files in it that are named on the command line, such as a plan, are allowed.
pub(crate) fn check_sweep<'a>(
    target: &Path,
    named: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    Ok(takes_sweep(target, named).with_context(|| format!("cannot write {}", target.display()))?)
}

fn takes_sweep<'a>(target: &Path, named: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    let Some(entries) = entries(target)? else {
        return Ok(());
    };
    let named: Vec<PathBuf> = named
        .into_iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let is_sweep = target.join(RUNS).is_dir();
    for entry in entries {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let of_sweep = name.to_str().is_some_and(|name| match path.is_dir() {
            true => name == RUNS,
            false => is_sweep && TABLES.contains(&name),
        });
        if !of_sweep && !path.canonicalize().is_ok_and(|path| named.contains(&path)) {
            let name = name.display();
            bail!("it has {name:?}; a sweep is written to a new folder or to its own");
        }
    }
    Ok(())
}

/// Returns the manifest of a folder, if it has a readable one.
pub(crate) fn finished(target: &Path) -> Option<Manifest> {
    manifest(target).ok()
}

/// Returns the file of a manifest, given by its own path or by its folder.
pub(crate) fn manifest_file(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join(MANIFEST),
        false => path.to_owned(),
    }
}

/// Returns the files that a replay of the run reads.
pub(crate) fn files(path: &Path, manifest: &Manifest) -> Vec<PathBuf> {
    let folder = of(path);
    let inputs = manifest.files.values();
    let inputs = inputs.map(|hash| folder.join(INPUTS).join(hash));
    let own = [manifest_file(path), folder.join(SCENARIO)];
    own.into_iter().chain(inputs).collect()
}

/// Reads the manifest from its file or its folder.
pub(crate) fn manifest(path: &Path) -> Result<Manifest> {
    let path = manifest_file(path);
    let text = input::text(&path, MANIFEST_BYTES_MAX)?;
    Ok(serde_json::from_str(&text).with_context(|| path.display().to_string())?)
}

/// Returns the folder of a manifest.
pub(crate) fn of(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.to_owned(),
        false => path.parent().unwrap_or(Path::new("")).to_owned(),
    }
}

/// Restores the scenario of a run, with its files.
pub(crate) fn scenario(folder: &Path, manifest: &Manifest) -> Result<Scenario> {
    let path = folder.join(SCENARIO);
    let text = input::text(&path, TEXT_BYTES_MAX as u64)?;
    let mut scenario = Scenario::parse(&text, &[]).with_context(|| path.display().to_string())?;
    for (name, hash) in &manifest.files {
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(anyhow!("files.{name} = {hash:?} is no SHA-256").into());
        }
        let text = input::text(&folder.join(INPUTS).join(hash), INPUT_BYTES_MAX)?;
        scenario.inputs.insert(name.clone(), text);
    }
    if scenario.hash() != manifest.scenario_hash {
        let why = "the scenario or its files are not those of the manifest";
        return Err(anyhow!("{}: {why}", folder.display()).into());
    }
    Ok(scenario)
}

/// Writes the folder next to its final path, then moves it there.
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
        // With the permissions of a folder that the user creates.
        let folder = new.path().join("run");
        fs::create_dir(&folder)?;
        fill(&folder, finished)?;
        let old = new.path().join("old");
        let is_over = target.exists();
        if is_over {
            fs::rename(target, &old)?;
        }
        if let Err(error) = fs::rename(&folder, target) {
            if is_over && fs::rename(&old, target).is_err() {
                // Otherwise it would be deleted with the temporary folder.
                let kept = new.keep().join("old");
                bail!("{error}; the run that was there is {}", kept.display());
            }
            return Err(error.into());
        }
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
        let regions: &[&str] = match scenario.latency {
            Latency::Regions { .. } => &REGIONS,
            Latency::Constant { .. } => &[],
        };
        put(
            "nodes.csv",
            &report::nodes(outcome, &scenario.class_names(), regions),
        )?;
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

/// Returns the SHA-256 of a text in hexadecimal.
pub(crate) fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text))
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
        for name in FILES.into_iter().filter(|name| *name != "series.svg") {
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
        let refused = |target: &Path| check(target).unwrap_err().to_string();
        assert!(refused(place.path()).contains("thesis.tex"));
        assert!(check(&place.path().join("thesis.tex")).is_err());
        // Neither does a run make it one, nor a file that is named as a manifest.
        let target = place.path().join("run");
        let scenario = scenario_of("");
        let finished = Finished {
            scenario: &scenario,
            manifest: &manifest_of(&scenario),
            outcome: None,
            told: None,
        };
        write(&target, &finished).unwrap();
        assert!(check(&target).is_ok());
        fs::create_dir(target.join("runs")).unwrap();
        assert!(refused(&target).contains("\"runs\""));
        assert!(write(&target, &finished).is_err() && target.join("runs").is_dir());
        fs::remove_dir(target.join("runs")).unwrap();
        fs::write(target.join(MANIFEST), "{}").unwrap();
        assert!(refused(&target).contains(MANIFEST));
        for nowhere in [".", "..", "/", ""] {
            assert!(refused(Path::new(nowhere)).contains("name of its own"));
        }
    }
}
