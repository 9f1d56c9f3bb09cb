//! Figures of many runs: one line per run, one line per point over its seeds.

use crate::report::manifest::Manifest;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Statistics of a figure over the seeds of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Arithmetic mean; absent if a run lacks this time, because it then counts as infinitely late.
    pub mean: Option<f64>,
    /// Sample standard deviation, 0 for one run; absent if the mean is.
    pub sd: Option<f64>,
    /// Minimum of the values present.
    pub min: Option<f64>,
    /// Maximum; absent if the mean is.
    pub max: Option<f64>,
}

impl Spread {
    /// Statistics of these values, some of which may be infinite.
    pub fn of(values: &[Option<f64>]) -> Self {
        let present: Vec<f64> = values.iter().flatten().copied().collect();
        let min = present.iter().copied().reduce(f64::min);
        if present.len() < values.len() || present.is_empty() {
            return Spread {
                mean: None,
                sd: None,
                min,
                max: None,
            };
        }
        let count = present.len() as f64;
        let mean = present.iter().sum::<f64>() / count;
        let squares: f64 = present.iter().map(|value| (value - mean).powi(2)).sum();
        Spread {
            mean: Some(mean),
            sd: Some((squares / (count - 1.0).max(1.0)).sqrt()),
            min,
            max: present.iter().copied().reduce(f64::max),
        }
    }
}

/// A point of a sweep: one set of values, over its seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Name of the scenario.
    pub name: String,
    /// Its sweep values by path.
    pub set: BTreeMap<String, String>,
    /// Runs with figures.
    pub runs: usize,
    /// Number of runs that did not hold, with or without figures.
    pub failed: usize,
    /// Whether any run ended with messages in flight.
    pub truncated: bool,
    /// Each figure by its name, in the order of the tables.
    pub figures: Vec<(&'static str, Spread)>,
}

impl Point {
    /// A figure by name.
    pub fn figure(&self, name: &str) -> Option<Spread> {
        let found = self.figures.iter().find(|(known, _)| *known == name);
        found.map(|(_, spread)| *spread)
    }

    /// Its values in readable form.
    pub fn label(&self) -> String {
        let last = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
        let set: Vec<String> = self
            .set
            .iter()
            .map(|(path, value)| format!("{} {}", last(path), value.trim_matches('"')))
            .collect();
        match set.is_empty() {
            true => self.name.clone(),
            false => set.join(", "),
        }
    }
}

/// Merged runs.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// All runs, by their identities.
    pub runs: Vec<Manifest>,
    /// All points, by name and values.
    pub points: Vec<Point>,
}

impl Merged {
    /// Merges runs; those with the same identity count once.
    pub fn of(mut runs: Vec<Manifest>) -> Self {
        runs.sort_by(|a, b| a.id.cmp(&b.id));
        runs.dedup_by(|a, b| a.id == b.id);
        let mut groups: BTreeMap<(&str, &BTreeMap<String, String>), Vec<&Manifest>> =
            BTreeMap::new();
        for run in &runs {
            groups.entry((&run.name, &run.set)).or_default().push(run);
        }
        let points = groups.into_values().map(|mut group| {
            group.sort_by_key(|run| run.seed);
            point(&group)
        });
        let points = points.collect();
        Merged { runs, points }
    }

    /// `runs.csv`: one line per run, sorted by identity.
    pub fn runs_csv(&self) -> String {
        let paths = paths(self.runs.iter().map(|run| &run.set));
        let mut text = "id,name,seed".to_owned();
        for path in &paths {
            let _ = write!(text, ",{}", quoted(path));
        }
        let names = self.runs.iter().find_map(|run| run.figures.as_ref());
        let names: Vec<&str> = names
            .map(|figures| figures.columns().iter().map(|column| column.0).collect())
            .unwrap_or_default();
        for name in &names {
            let _ = write!(text, ",{name}");
        }
        text.push_str(",sent_truncated,event_hash,holds\n");
        for run in &self.runs {
            let _ = write!(text, "{},{},{}", run.id, run.name, run.seed);
            for path in &paths {
                let _ = write!(
                    text,
                    ",{}",
                    quoted(run.set.get(*path).map_or("", String::as_str))
                );
            }
            match &run.figures {
                Some(figures) => {
                    for (_, value) in figures.columns() {
                        let _ = write!(text, ",{}", cell(value));
                    }
                    let _ = write!(text, ",{},{}", figures.sent_truncated, figures.event_hash);
                }
                None => text.push_str(&",".repeat(names.len() + 2)),
            }
            let _ = writeln!(text, ",{}", run.holds);
        }
        text
    }

    /// `points.csv`: one line per point, with mean, standard deviation, minimum and maximum over
    /// its seeds.
    pub fn points_csv(&self) -> String {
        let paths = paths(self.points.iter().map(|point| &point.set));
        let mut text = "name".to_owned();
        for path in &paths {
            let _ = write!(text, ",{}", quoted(path));
        }
        text.push_str(",runs,failed,sent_truncated");
        let names = self.points.iter().find(|point| !point.figures.is_empty());
        let names: Vec<&str> = names
            .map(|point| point.figures.iter().map(|(name, _)| *name).collect())
            .unwrap_or_default();
        for name in &names {
            let _ = write!(text, ",{name}_mean,{name}_sd,{name}_min,{name}_max");
        }
        text.push('\n');
        for point in &self.points {
            text.push_str(&point.name);
            for path in &paths {
                let _ = write!(
                    text,
                    ",{}",
                    quoted(point.set.get(*path).map_or("", String::as_str))
                );
            }
            let _ = write!(text, ",{},{},{}", point.runs, point.failed, point.truncated);
            for (_, spread) in &point.figures {
                for value in [spread.mean, spread.sd, spread.min, spread.max] {
                    let _ = write!(text, ",{}", cell(value));
                }
            }
            if point.figures.is_empty() {
                text.push_str(&",".repeat(4 * names.len()));
            }
            text.push('\n');
        }
        text
    }
}

fn point(group: &[&Manifest]) -> Point {
    let figures: Vec<_> = group
        .iter()
        .filter_map(|run| run.figures.as_ref())
        .collect();
    let columns: Vec<_> = figures.iter().map(|figures| figures.columns()).collect();
    let spread = |i: usize| {
        let values: Vec<Option<f64>> = columns.iter().map(|columns| columns[i].1).collect();
        Spread::of(&values)
    };
    let names = columns.first().map(Vec::as_slice).unwrap_or_default();
    Point {
        name: group.first().map_or(String::new(), |run| run.name.clone()),
        set: group
            .first()
            .map_or_else(BTreeMap::new, |run| run.set.clone()),
        runs: figures.len(),
        failed: group.iter().filter(|run| !run.holds).count(),
        truncated: figures.iter().any(|figures| figures.sent_truncated),
        figures: names
            .iter()
            .enumerate()
            .map(|(i, (name, _))| (*name, spread(i)))
            .collect(),
    }
}

/// All paths that occur, in order.
fn paths<'a>(sets: impl Iterator<Item = &'a BTreeMap<String, String>>) -> Vec<&'a str> {
    let mut paths: Vec<&str> = sets
        .flat_map(|set| set.keys().map(String::as_str))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn cell(value: Option<f64>) -> String {
    value.map_or("none".into(), |value| format!("{value:.6}"))
}

/// A cell of comma-separated values (RFC 4180).
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
