//! `alphorn sim chart`: columns of a table as a picture.

use super::table::Table;
use crate::distinct::distinct;
use crate::error::Result;
use crate::options::finite;
use crate::overwrite::check_apart;
use crate::plot::{Axis, Bar, Layer, Plot, bars, sheet};
use crate::report::{say, target, write_whole};
use crate::text::each_once;
use anyhow::{Context, anyhow, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::path::PathBuf;

/// More lines than this cannot be told apart.
const LINES_MAX: usize = 6;
/// More bars than this do not fit a page.
const BARS_MAX: usize = 32;

/// Draw columns of a table: as lines over a column of numbers, as bars over a column of words
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Table: points.csv of a sweep, --csv of `explore` or `compare`, or a JSON report (.json)
    table: PathBuf,
    /// Array of a JSON report that holds the rows
    #[arg(long, value_name = "NAME", default_value = "cases")]
    rows: String,
    /// Column for the horizontal axis
    #[arg(long, value_name = "COLUMN")]
    x: String,
    /// Columns to draw, one line or bar each: COLUMN or COLUMN=NAME
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', required = true)]
    y: Vec<String>,
    /// Draw one line per value of this column
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,
    /// Use only rows with this value in this column; if repeated, all must match
    #[arg(long, value_name = "COLUMN=VALUE")]
    only: Vec<String>,
    /// Subtract this from the values of --y first, such as 8000 for times after 8 s
    #[arg(long, value_name = "VALUE", default_value_t = 0.0, value_parser = finite)]
    minus: f64,
    /// Then multiply them by this, such as 1e-6 for bytes to megabytes
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = finite)]
    scale: f64,
    /// Use a logarithmic vertical axis
    #[arg(long)]
    log: bool,
    /// Label of the horizontal axis (default: its column)
    #[arg(long, value_name = "TEXT")]
    x_label: Option<String>,
    /// Label of the vertical axis: what the values are, with their unit
    #[arg(long, value_name = "TEXT")]
    y_label: String,
    /// Title of the picture
    #[arg(long, value_name = "TEXT")]
    title: String,
    /// File for the picture (SVG)
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    out: PathBuf,
}

/// A value with its position and line.
struct Dot<'a> {
    x: &'a str,
    line: String,
    y: f64,
}

pub(super) fn run(args: &Args) -> Result<()> {
    check_apart([args.table.as_path()], [args.out.as_path()])?;
    distinct("--y", &args.y)?;
    let mut table = Table::open(&args.table, &args.rows)?;
    for only in &args.only {
        let (column, value) = only
            .split_once('=')
            .with_context(|| format!("--only {only}: expected COLUMN=VALUE"))?;
        table.only(column, value)?;
    }
    let svg = match dots(args, &table)? {
        dots if dots.is_empty() => return Err(anyhow!("no row has a number to draw").into()),
        dots if dots.iter().all(|dot| number_of(dot.x).is_some()) => lines(args, &dots)?,
        dots => words(args, &dots)?,
    };
    write_whole(&args.out, sheet(&svg).as_bytes())?;
    say(&args.out.display().to_string())
}

fn number_of(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Returns all values of all lines in the order of the rows; cells without a number are omitted.
fn dots<'a>(args: &Args, table: &'a Table) -> anyhow::Result<Vec<Dot<'a>>> {
    let xs = table.column(&args.x)?;
    let by = args.by.as_ref().map(|by| table.column(by)).transpose()?;
    let mut dots = Vec::new();
    for y in &args.y {
        let (column, name) = y.split_once('=').unwrap_or((y, y));
        for (i, value) in table.column(column)?.into_iter().enumerate() {
            let Some(value) = number_of(value) else {
                continue;
            };
            let group = by.as_ref().map(|by| by[i].trim_matches('"'));
            let line = match (group, args.y.len()) {
                (None, _) => name.to_owned(),
                (Some(group), 1) => group.to_owned(),
                (Some(group), _) => format!("{group}, {name}"),
            };
            let y = (value - args.minus) * args.scale;
            if !y.is_finite() {
                bail!(
                    "({value} - {}) * {} is no number to draw",
                    args.minus,
                    args.scale
                );
            }
            dots.push(Dot { x: xs[i], line, y });
        }
    }
    Ok(dots)
}

/// Draws lines over numbers.
fn lines(args: &Args, dots: &[Dot<'_>]) -> anyhow::Result<String> {
    let names = each_once(dots.iter().map(|dot| dot.line.as_str()));
    if names.len() > LINES_MAX {
        let count = names.len();
        bail!("{count} lines, at most {LINES_MAX} can be told apart: choose by --only");
    }
    let layer = |name: &str| {
        let own = dots.iter().filter(|dot| dot.line == name);
        let mut points: Vec<(f64, f64)> = own
            .filter_map(|dot| Some((number_of(dot.x)?, dot.y)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Layer::Line {
            name: name.to_owned(),
            points,
        }
    };
    let label = args.y_label.clone();
    let plot = Plot {
        title: args.title.clone(),
        about: about(args),
        x: Axis::from_zero(args.x_label.clone().unwrap_or_else(|| args.x.clone())),
        y: match args.log {
            true => Axis::log(label),
            false => Axis::from_zero(label),
        },
        layers: names.into_iter().map(layer).collect(),
        ..Plot::default()
    };
    Ok(plot.titled_svg())
}

/// Draws bars over words.
fn words(args: &Args, dots: &[Dot<'_>]) -> anyhow::Result<String> {
    if dots.len() > BARS_MAX {
        let count = dots.len();
        bail!("{count} bars, at most {BARS_MAX} fit a page: choose by --only");
    }
    if args.log {
        bail!("--log: bars begin at zero");
    }
    let several = args.y.len() > 1 || args.by.is_some();
    let bar = |dot: &Dot<'_>| Bar {
        name: match several {
            true => format!("{}, {}", dot.x.trim_matches('"'), dot.line),
            false => dot.x.trim_matches('"').to_owned(),
        },
        value: dot.y,
        range: None,
    };
    let all: Vec<Bar> = dots.iter().map(bar).collect();
    Ok(bars(&args.title, &about(args), &args.y_label, &all))
}

fn about(args: &Args) -> String {
    let x = args.x_label.as_ref().unwrap_or(&args.x);
    format!("{} over {x}.", args.y_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn picture(table: &str, options: &[&str]) -> Result<String> {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
        let (from, to) = (path("t.csv"), path("t.svg"));
        std::fs::write(&from, table).unwrap();
        let fixed = [
            "chart",
            &from,
            "--out",
            &to,
            "--title",
            "T",
            "--y-label",
            "ms",
        ];
        let line = fixed.iter().chain(options).copied();
        run(&Line::try_parse_from(line).unwrap().args)?;
        Ok(std::fs::read_to_string(to).unwrap())
    }

    #[test]
    fn numbers_are_lines_and_words_are_bars() {
        let table = "n,way,t\n1,a,5\n2,a,7\n1,b,6\n2,b,\n";
        let svg = picture(table, &["--x", "n", "--y", "t", "--by", "way"]).unwrap();
        assert_eq!(
            svg.matches("class=\"s0 thin\"").count(),
            2,
            "line and legend"
        );
        assert_eq!(svg.matches("class=\"full g0\"").count(), 2 + 1);
        assert!(svg.contains(">a</text>") && svg.contains(">T</text>"));
        let svg = picture(table, &["--x", "way", "--y", "t", "--only", "n=1"]).unwrap();
        assert_eq!(svg.matches("class=\"f0\"").count(), 2);
        for (options, part) in [
            (&["--x", "m", "--y", "t"][..], "no column \"m\""),
            (&["--x", "n", "--y", "way"][..], "no row has a number"),
            (
                &["--x", "n", "--y", "t", "--only", "n"][..],
                "expected COLUMN=VALUE",
            ),
            (
                &["--x", "way", "--y", "t", "--log"][..],
                "bars begin at zero",
            ),
        ] {
            let error = picture(table, options).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
