//! The files under `results/`: objects that a command wrote with `--json`, one or several runs of it.

use super::measure::{RECIPE, Recipe};
use crate::tree::Tree;
use anyhow::Context;
use serde_json::Value;
use std::collections::BTreeMap;

/// Folder of all files, and that of the recipe.
const FOLDER: &str = "results/";

/// Members of every report about the program that made it.
const OWN: [&str; 2] = ["elapsed_s", "load"];

/// All files of results.
pub(super) struct Results {
    /// By path; the runs of each.
    files: BTreeMap<String, Vec<Value>>,
    recipe: Recipe,
}

/// A value in each run of a file, and what kind of figure it is.
pub(super) struct Found<'a> {
    pub(super) values: Vec<&'a Value>,
    pub(super) kind: String,
    /// The largest share of the processors that other programs took in one of the runs.
    pub(super) others: f64,
}

impl Results {
    /// # Errors
    /// If a file is no JSON, or the recipe is none.
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
        let recipe = tree.files.iter().find(|file| file.path == RECIPE);
        let recipe = recipe.map(|file| Recipe::parse(&file.text)).transpose()?;
        let recipe = recipe.unwrap_or_default();
        Ok(Results { files, recipe })
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
        let code = |run: &Value| run.get("exit_code").is_none_or(|code| code == 0);
        let is_known = self.recipe.may_fail(file.trim_start_matches('/'));
        if !is_known && !runs.iter().all(code) {
            return Err(format!("{name}: a run of {path} failed"));
        }
        let mut values = Vec::new();
        let mut kind: Option<&str> = None;
        let mut others = 0.0_f64;
        for run in runs {
            let share = run.pointer("/load/others").and_then(Value::as_f64);
            others = others.max(share.unwrap_or(0.0));
            let steps: Vec<&str> = pointer.trim_start_matches('/').split('/').collect();
            let found = walk(run, &steps, None)
                .map_err(|missing| format!("{name}: {path} has no {missing}"))?;
            for (value, of) in found {
                values.push(value);
                // What the program itself took is measured, whatever its figures are.
                let is_own = OWN.contains(&steps[0]);
                let of = if is_own { Some("measured") } else { of };
                let of =
                    of.ok_or_else(|| format!("{name}: {path} does not say what kind it is"))?;
                match kind.replace(of) {
                    Some(other) if other != of => {
                        return Err(format!("{name}: {path} has it {other} and {of}"));
                    }
                    _ => {}
                }
            }
        }
        Ok(Found {
            values,
            kind: kind.unwrap_or_default().to_owned(),
            others,
        })
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

/// A value and its kind.
type Seen<'a> = (&'a Value, Option<&'a str>);

/// The value at a pointer, whose steps are names, numbers or `NAME[KEY=VALUE,..]` for the one entry of a list
/// that has these values, in itself or in what a sweep `set`, or for several if a value is `*`; and the kind
/// that stands nearest above it. Below what is null all is. The error is the step that is missing.
fn walk<'a>(
    here: &'a Value,
    steps: &[&str],
    above: Option<&'a str>,
) -> Result<Vec<Seen<'a>>, String> {
    let kind = here.get("kind").and_then(Value::as_str).or(above);
    let Some((step, rest)) = steps.split_first().filter(|_| !here.is_null()) else {
        return Ok(vec![(here, kind)]);
    };
    let missing = || (*step).to_owned();
    let (name, wanted) = match step.split_once('[') {
        Some((name, wanted)) => (name, Some(wanted.trim_end_matches(']'))),
        None => (*step, None),
    };
    let next = match name.parse::<usize>() {
        Ok(index) if here.is_array() => here.get(index),
        _ => here.get(name),
    }
    .ok_or_else(missing)?;
    let Some(wanted) = wanted else {
        return walk(next, rest, kind);
    };
    let has = |entry: &&Value| {
        wanted.split(',').all(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let set = || entry.get("set")?.get(key);
            let found = entry.get(key).or_else(set);
            found.is_some_and(|found| value == "*" || plain(found) == value)
        })
    };
    let entries: Vec<&Value> = next.as_array().into_iter().flatten().filter(has).collect();
    match entries.len() {
        0 => return Err(missing()),
        1 => {}
        _ if wanted.contains("=*") => {}
        _ => return Err(format!("one entry alone for {step}")),
    }
    let mut found = Vec::new();
    for entry in entries {
        found.extend(walk(entry, rest, kind)?);
    }
    Ok(found)
}

/// A value as a selector names it.
fn plain(value: &Value) -> String {
    match value {
        // What a sweep set is written as in TOML.
        Value::String(text) => text.trim_matches('"').to_owned(),
        other => other.to_string(),
    }
}
