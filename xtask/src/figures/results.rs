//! The files under `results/`: objects that a command wrote with `--json`, one or several runs of it.

use crate::tree::Tree;
use anyhow::Context;
use serde_json::Value;
use std::collections::BTreeMap;

/// Folder of all files, and that of the recipe.
const FOLDER: &str = "results/";

/// All files of results.
pub(super) struct Results {
    /// By path; the runs of each.
    files: BTreeMap<String, Vec<Value>>,
}

/// A value in each run of a file, and what kind of figure it is.
pub(super) struct Found<'a> {
    pub(super) values: Vec<&'a Value>,
    pub(super) kind: String,
}

impl Results {
    /// # Errors
    /// If a file is no JSON.
    pub(super) fn read(tree: &Tree) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        let is_result = |path: &str| path.starts_with(FOLDER) && path.ends_with(".json");
        for file in tree.files.iter().filter(|file| is_result(&file.path)) {
            let value: Value = serde_json::from_str(&file.text)
                .with_context(|| format!("{} is no JSON", file.path))?;
            let runs = match value.get("runs").and_then(Value::as_array) {
                Some(runs) if value.get("commit").is_none() => runs.clone(),
                _ => vec![value],
            };
            files.insert(file.path.clone(), runs);
        }
        Ok(Results { files })
    }

    /// What stands at `FILE#POINTER`, FILE in `folder` or, with a slash before it, in `results/` itself.
    pub(super) fn find(&self, folder: &str, name: &str) -> Result<Found<'_>, String> {
        let (file, pointer) = name
            .split_once('#')
            .ok_or_else(|| format!("{name}: must be FILE#/POINTER"))?;
        let path = match file.strip_prefix('/') {
            Some(file) => format!("{FOLDER}{file}.json"),
            None => format!("{FOLDER}{folder}/{file}.json"),
        };
        let runs = self
            .files
            .get(&path)
            .ok_or_else(|| format!("{name}: there is no {path}"))?;
        let mut values = Vec::new();
        let mut kind = String::new();
        for run in runs {
            let (value, of) =
                walk(run, pointer).map_err(|missing| format!("{name}: {path} has no {missing}"))?;
            values.push(value);
            kind = of.ok_or_else(|| format!("{name}: {path} does not say what kind it is"))?;
        }
        Ok(Found { values, kind })
    }

    /// Commits of what was run, each with a file.
    pub(super) fn commits(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.files.iter();
        all.flat_map(|(path, runs)| {
            let commits = runs.iter().filter_map(|run| run.get("commit")?.as_str());
            commits.map(move |commit| (path.as_str(), commit))
        })
    }
}

/// The value at a pointer, whose steps are names, numbers or `NAME[KEY=VALUE,..]` for the one entry of a list
/// that has these values; and the kind that stands nearest above it. The error is the step that is missing.
fn walk<'a>(root: &'a Value, pointer: &str) -> Result<(&'a Value, Option<String>), String> {
    let mut here = root;
    let mut kind = None;
    let mut note = |value: &Value| {
        if let Some(of) = value.get("kind").and_then(Value::as_str) {
            kind = Some(of.to_owned());
        }
    };
    note(here);
    for step in pointer.trim_start_matches('/').split('/') {
        let missing = || step.to_owned();
        let (name, wanted) = match step.split_once('[') {
            Some((name, wanted)) => (name, Some(wanted.trim_end_matches(']'))),
            None => (step, None),
        };
        here = match name.parse::<usize>() {
            Ok(index) if here.is_array() => here.get(index),
            _ => here.get(name),
        }
        .ok_or_else(missing)?;
        if let Some(wanted) = wanted {
            let has = |entry: &&Value| {
                wanted.split(',').all(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    entry.get(key).is_some_and(|found| plain(found) == value)
                })
            };
            let mut all = here.as_array().into_iter().flatten().filter(has);
            here = all.next().ok_or_else(missing)?;
            if all.next().is_some() {
                return Err(format!("one entry alone for {step}"));
            }
        }
        note(here);
    }
    Ok((here, kind))
}

/// A value as a selector names it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
