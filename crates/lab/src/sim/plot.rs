//! `alphorn sim plot`: the deliveries of several runs over time, in one picture.

use super::folder;
use crate::error::Result;
use crate::input;
use crate::overwrite::check_apart;
use crate::plot::{Axis, Layer, Plot, number, sheet};
use crate::report::{say, target, write_whole};
use alphorn_sim::report::manifest::Manifest;
use alphorn_sim::report::ms;
use anyhow::{Context, anyhow, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::path::{Path, PathBuf};

/// Maximum size in bytes of a table of deliveries.
const CDF_BYTES_MAX: u64 = 1 << 30;
/// More lines than this cannot be told apart.
const LINES_MAX: usize = 6;

/// Draw the deliveries of several runs over time in one picture
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folders of runs or of sweeps, optionally with a name for their lines: FOLDER or NAME=FOLDER. Runs
    /// of a sweep are labelled with their values
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<String>,
    /// File for the picture (SVG)
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    out: PathBuf,
    /// Title (default: the names of its lines)
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let mut runs = Vec::new();
    for folder in &args.folders {
        match folder.split_once('=') {
            Some((name, folder)) => collect(Path::new(folder), Some(name), &mut runs)?,
            None => collect(Path::new(folder), None, &mut runs)?,
        }
    }
    let inputs = runs
        .iter()
        .flat_map(|line| [&line.manifest, &line.deliveries].map(PathBuf::as_path));
    check_apart(inputs, [args.out.as_path()])?;
    if runs.len() > LINES_MAX {
        let why = format!(
            "{} runs, at most {LINES_MAX} lines can be told apart",
            runs.len()
        );
        return Err(anyhow!("{why}: give fewer seeds or values").into());
    }
    let mut layers = Vec::new();
    let mut words = Vec::new();
    for Line {
        name,
        deliveries: table,
        t99_ms,
        ..
    } in runs
    {
        let text = input::text(&table, CDF_BYTES_MAX)?;
        let points = deliveries(&text).with_context(|| table.display().to_string())?;
        let t99 = t99_ms.map_or("never".into(), |ms| format!("by {} ms", number(ms)));
        words.push(format!("{name}: 99 % {t99}"));
        layers.push(Layer::Steps { name, points });
    }
    let names: Vec<&str> = layers.iter().map(Layer::name).collect();
    let plot = Plot {
        title: args.title.clone().unwrap_or_else(|| names.join(", ")),
        about: format!(
            "Share of nodes that have the payload over time (modelled). {}",
            words.join("; ")
        ),
        x: Axis::from_zero("ms from publication (modelled)"),
        y: Axis {
            include: vec![0.0, 100.0],
            ..Axis::from_zero("% of deliveries")
        },
        layers,
        ..Plot::default()
    };
    write_whole(&args.out, sheet(&plot.titled_svg()).as_bytes())?;
    say(&format!("{}\n{}", args.out.display(), words.join("\n")))
}

/// A run drawn as a line.
struct Line {
    name: String,
    manifest: PathBuf,
    /// Its table of deliveries.
    deliveries: PathBuf,
    t99_ms: Option<f64>,
}

/// Returns the run of a folder, or all runs of a sweep in the order of their values and seeds.
fn collect(folder: &Path, name: Option<&str>, lines: &mut Vec<Line>) -> Result<()> {
    let runs = folder.join(folder::RUNS);
    if !runs.is_dir() {
        let manifest = folder::manifest(folder)?;
        lines.push(line(&manifest, name, folder));
        return Ok(());
    }
    let mut found = Vec::new();
    let entries = std::fs::read_dir(&runs).with_context(|| runs.display().to_string())?;
    for entry in entries {
        let path = entry.with_context(|| runs.display().to_string())?.path();
        if let Some(manifest) = folder::finished(&path) {
            found.push((manifest, path));
        }
    }
    found.sort_by(|(a, _), (b, _)| (&a.set, a.seed).cmp(&(&b.set, b.seed)));
    let seeds = found.iter().any(|(run, _)| run.seed != found[0].0.seed);
    for (manifest, path) in found {
        let mut line = line(&manifest, name, &path);
        if seeds {
            line.name.push_str(&format!(" #{}", manifest.seed));
        }
        lines.push(line);
    }
    Ok(())
}

/// Names a line by its values, words as they are and numbers with their key; without values, by its
/// scenario.
fn line(manifest: &Manifest, name: Option<&str>, path: &Path) -> Line {
    let mut parts: Vec<String> = name.map(str::to_owned).into_iter().collect();
    for (key, value) in &manifest.set {
        parts.push(
            match value
                .strip_prefix('"')
                .and_then(|word| word.strip_suffix('"'))
            {
                Some(word) => word.to_owned(),
                None => format!("{} {value}", key.rsplit('.').next().unwrap_or(key)),
            },
        );
    }
    if parts.is_empty() {
        parts.push(manifest.name.clone());
    }
    Line {
        name: parts.join(", "),
        manifest: folder::manifest_file(path),
        deliveries: folder::of(path).join("cdf.csv"),
        t99_ms: manifest
            .figures
            .as_ref()
            .and_then(|figures| figures.t99_ns.map(ms)),
    }
}

/// Returns delay in milliseconds and share in percent, from the lines of `cdf.csv`.
fn deliveries(text: &str) -> anyhow::Result<Vec<(f64, f64)>> {
    let mut lines = text.lines();
    if lines.next() != Some("delay_ns,delivered,of") {
        bail!("no table of deliveries");
    }
    let mut points = vec![(0.0, 0.0)];
    for (number, line) in (2..).zip(lines) {
        let cells: Vec<u64> = line.split(',').flat_map(str::parse).collect();
        let [delay_ns, delivered, of] = cells[..] else {
            return Err(anyhow!("line {number}: expected three numbers"));
        };
        let percent = 100.0 * delivered as f64 / of.max(1) as f64;
        points.push((delay_ns as f64 / 1e6, percent));
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_read_as_they_are_written() {
        let table = "delay_ns,delivered,of\n1000000,1,4\n2500000,3,4\n";
        let expected = [(0.0, 0.0), (1.0, 25.0), (2.5, 75.0)];
        assert_eq!(deliveries(table).unwrap(), expected);
        for wrong in [
            "",
            "a,b\n",
            "delay_ns,delivered,of\n1,2\n",
            "delay_ns,delivered,of\nx,1,2\n",
        ] {
            assert!(deliveries(wrong).is_err(), "{wrong:?}");
        }
    }
}
