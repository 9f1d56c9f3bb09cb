//! `alphorn sim merge`: the tables and the page of many runs.

use super::folder;
use super::print::print;
use super::sweep_page::{sweep_page, sweep_picture};
use crate::error::{Error, Result};
use crate::report::{say, write_whole};
use alphorn_sim::report::manifest::Manifest;
use alphorn_sim::sweep::Merged;
use anyhow::{Context, anyhow};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of runs merged.
const RUNS_MAX: usize = 1_000_000;

/// Write tables and page of many runs, with mean, standard deviation, minimum, maximum over seeds
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folder of a sweep, into which tables and page are written
    folder: PathBuf,
    /// Folders of other sweeps whose runs are included, such as shards from other hosts
    others: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let mut manifests = Vec::new();
    for folder in std::iter::once(&args.folder).chain(&args.others) {
        collect(&folder.join(folder::RUNS), &mut manifests)?;
    }
    let merged = Merged::of(manifests);
    let mut names: Vec<&str> = merged.runs.iter().map(|run| run.name.as_str()).collect();
    names.dedup();
    write(&args.folder, &names.join(", "), &merged)?;
    say(&print(&merged))?;
    let failed = merged.runs.iter().filter(|run| !run.holds).count();
    match failed {
        0 => Ok(()),
        _ => Err(Error::Check(format!(
            "{failed} of {} runs do not hold",
            merged.runs.len()
        ))),
    }
}

/// Collects the manifests of all runs in a folder.
fn collect(runs: &Path, manifests: &mut Vec<Manifest>) -> Result<()> {
    let entries = fs::read_dir(runs).with_context(|| format!("cannot read {}", runs.display()))?;
    let mut found = 0;
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // Left behind by an interrupted run.
        if name.starts_with(".alphorn-") {
            continue;
        }
        if manifests.len() >= RUNS_MAX {
            return Err(anyhow!("more than {RUNS_MAX} runs in {}", runs.display()).into());
        }
        manifests.push(folder::manifest(&path)?);
        found += 1;
    }
    match found {
        0 => Err(anyhow!("no runs in {}", runs.display()).into()),
        _ => Ok(()),
    }
}

/// Writes the tables and the page of a sweep.
pub(super) fn write(folder: &Path, name: &str, merged: &Merged) -> Result<()> {
    let points = merged.points.len();
    let lead = format!("{} runs at {points} points of {name}", merged.runs.len());
    write_whole(&folder.join("runs.csv"), merged.runs_csv().as_bytes())?;
    write_whole(&folder.join("points.csv"), merged.points_csv().as_bytes())?;
    if let Some(picture) = sweep_picture(merged) {
        write_whole(&folder.join("frontier.svg"), picture.as_bytes())?;
    }
    let page = sweep_page(name, &lead, merged);
    write_whole(&folder.join("report.html"), page.as_bytes())
}
