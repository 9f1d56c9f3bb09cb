//! What stands between braces: `{FILE#/POINTER:FORMAT}`, `{A + B:FORMAT}` for a sum, `{A - B:FORMAT}` for a
//! difference, `{A // B:FORMAT}` for a ratio and `{A <= B:verdict}` for a target.
//!
//! Formats: `time` (seconds), `ms`, `us`, `ns` (that many of them), `bytes`, `count`, `pct` (a share), `odds` (a
//! share that may be tiny), `x` (a ratio), `num`, `int`, `text`, `commit`, `verdict`, and `range` (seconds, least to
//! most of all runs); `>8` behind a format fills up to eight letters. Of several runs the median counts. What is null never came: a time is `never`, all else `-`.

use super::Line;
use super::results::Results;
use serde_json::Value;

/// Kinds that need no word beside them.
const PLAIN: [&str; 2] = ["measured", "target"];

/// A block with its figures.
pub(super) struct Filled {
    pub(super) text: String,
    pub(super) figures: usize,
    pub(super) errors: Vec<(usize, String)>,
}

/// Fills a template.
pub(super) fn fill(folder: &str, template: &[Line<'_>], results: &Results) -> Filled {
    let mut filled = Filled {
        text: String::new(),
        figures: 0,
        errors: Vec::new(),
    };
    let is_row = |line: &str| line.trim_start().starts_with('|');
    let prose: String = template
        .iter()
        .filter(|(_, line)| !is_row(line))
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    let mut header = "";
    for (at, &(number, line)) in template.iter().enumerate() {
        let is_header = template
            .get(at + 1)
            .is_some_and(|(_, next)| next.starts_with("|-"));
        if is_header {
            header = line;
        }
        // What a figure of this line may be called by.
        let names = |column: usize| match is_row(line) {
            true => format!(
                "{prose}{line}{}",
                header.split('|').nth(column).unwrap_or("")
            ),
            false => prose.clone(),
        };
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('{') {
            filled.text.push_str(before);
            let Some((inside, after)) = after.split_once('}') else {
                filled
                    .errors
                    .push((number, "a brace without its end".into()));
                break;
            };
            let column = line[..line.len() - after.len()].matches('|').count();
            rest = after;
            filled.figures += 1;
            match figure(folder, inside, results) {
                Ok((text, kinds)) => {
                    filled.text.push_str(&text);
                    let names = names(column);
                    let hidden = |kind: &&String| {
                        !PLAIN.contains(&kind.as_str()) && !names.contains(kind.as_str())
                    };
                    for kind in kinds.iter().filter(hidden) {
                        let what = format!("{inside} is {kind}, and not called so");
                        filled.errors.push((number, what));
                    }
                }
                Err(what) => filled.errors.push((number, what)),
            }
        }
        filled.text.push_str(rest);
        filled.text.push('\n');
        if !is_header && has_figure_by_hand(line) {
            let what = format!("a number that no file of results has: {line}");
            filled.errors.push((number, what));
        }
    }
    filled
}

/// Whether a row of a table has a digit behind its first column, outside of braces.
pub(super) fn has_figure_by_hand(line: &str) -> bool {
    let Some(row) = line.trim_start().strip_prefix('|') else {
        return false;
    };
    let mut outside = String::new();
    let mut depth = 0_i32;
    for sign in row.chars() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            other if depth == 0 => outside.push(other),
            _ => {}
        }
    }
    let mut cells = outside.split('|').skip(1);
    cells.any(|cell| cell.contains(|sign: char| sign.is_ascii_digit()))
}

/// The text of one figure, and the kinds that it is made of.
fn figure(folder: &str, inside: &str, results: &Results) -> Result<(String, Vec<String>), String> {
    let (expression, format) = inside
        .rsplit_once(':')
        .ok_or_else(|| format!("{inside}: must be FILE#/POINTER:FORMAT"))?;
    if let Some((format, width)) = format.split_once('>') {
        let width: usize = width
            .parse()
            .map_err(|_| format!("{inside}: {width} is no width"))?;
        let (text, kinds) = figure(folder, &format!("{expression}:{format}"), results)?;
        return Ok((format!("{text:>width$}"), kinds));
    }
    let sides = |text: &str, sign: &str| -> Option<(String, String)> {
        let (left, right) = text.split_once(sign)?;
        Some((left.trim().to_owned(), right.trim().to_owned()))
    };
    if let Some((left, right)) = sides(expression, " // ") {
        let (left, kind) = numbers(folder, &left, results)?;
        let (right, other) = numbers(folder, &right, results)?;
        let ratios = match left.len() == right.len() {
            true => left.iter().zip(&right).map(|(a, b)| a / b).collect(),
            false => vec![median(&left) / median(&right)],
        };
        return Ok((written(&ratios, format, inside)?, vec![kind, other]));
    }
    if let Some((left, right)) = sides(expression, " <= ") {
        let (left, kind) = numbers(folder, &left, results)?;
        let (right, other) = numbers(folder, &right, results)?;
        let over = median(&left) / median(&right);
        let text = match over {
            _ if format != "verdict" => return Err(format!("{inside}: {format} is no verdict")),
            over if over <= 1.0 => "met".to_owned(),
            over if over < 2.0 => format!("missed by {:.0} %", (over - 1.0) * 100.0),
            over => format!("missed by {over:.1} times"),
        };
        return Ok((text, vec![kind, other]));
    }
    if matches!(format, "text" | "commit") {
        let found = results.find(folder, expression.trim())?;
        let text = match found.values.first() {
            Some(Value::String(text)) => text.as_str(),
            Some(Value::Bool(true)) => "yes",
            Some(Value::Bool(false)) => "no",
            Some(Value::Null) => "-",
            _ => return Err(format!("{inside}: no text")),
        };
        let most = if format == "commit" { 9 } else { text.len() };
        return Ok((text.chars().take(most).collect(), Vec::new()));
    }
    let (values, kind) = numbers(folder, expression.trim(), results)?;
    Ok((written(&values, format, inside)?, vec![kind]))
}

fn numbers(folder: &str, name: &str, results: &Results) -> Result<(Vec<f64>, String), String> {
    if let Some((left, right)) = name.split_once(" + ") {
        let (left, kind) = numbers(folder, left.trim(), results)?;
        let (right, other) = numbers(folder, right.trim(), results)?;
        if left.len() != right.len() || kind != other {
            return Err(format!("{name}: parts of different runs or kinds"));
        }
        let sums = left.iter().zip(&right).map(|(a, b)| a + b);
        return Ok((sums.collect(), kind));
    }
    if let Some((left, right)) = name.split_once(" - ") {
        let (left, kind) = numbers(folder, left.trim(), results)?;
        let (right, _) = numbers(folder, right.trim(), results)?;
        let right = median(&right);
        return Ok((left.iter().map(|value| value - right).collect(), kind));
    }
    let found = results.find(folder, name)?;
    let number = |value: &&Value| match value {
        Value::Null => Some(f64::INFINITY),
        // Of a list, how many.
        Value::Array(list) => Some(list.len() as f64),
        value => value.as_f64(),
    };
    let values: Option<Vec<f64>> = found.values.iter().map(number).collect();
    let values = values.ok_or_else(|| format!("{name}: no number"))?;
    Ok((values, found.kind))
}

/// The value in the middle; of two in the middle the lower.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .get((sorted.len().max(1) - 1) / 2)
        .copied()
        .unwrap_or(f64::NAN)
}

fn written(values: &[f64], format: &str, inside: &str) -> Result<String, String> {
    let value = median(values);
    Ok(match format {
        "time" | "ms" if value == f64::INFINITY => "never".to_owned(),
        _ if !value.is_finite() => "-".to_owned(),
        "time" => {
            let (unit, size) = unit_of(value);
            format!("{} {unit}", digits(value / size))
        }
        "ms" => {
            let (unit, size) = unit_of(value * 1e-3);
            format!("{} {unit}", digits(value * 1e-3 / size))
        }
        "us" => return written(&[value * 1e-6], "time", inside),
        "ns" => return written(&[value * 1e-9], "time", inside),
        "odds" if value > 0.0 && value < 0.01 => format!("1 in {}", grouped(1.0 / value)),
        "odds" => format!("{} %", digits(value * 100.0)),
        "range" => {
            let (unit, size) = unit_of(value);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            format!("{} to {} {unit}", digits(least / size), digits(most / size))
        }
        "bytes" => {
            let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
            match units.iter().find(|(_, size)| value >= *size) {
                Some((unit, size)) => format!("{} {unit}", digits(value / size)),
                None => format!("{value:.0} B"),
            }
        }
        "count" | "int" => grouped(value),
        "pct" => format!("{} %", digits(value * 100.0)),
        "x" if value < 10.0 => format!("{value:.1}x"),
        "x" => format!("{}x", grouped(value)),
        "num" if value >= 1000.0 => grouped(value),
        "num" => digits(value),
        other => return Err(format!("{inside}: no format {other}")),
    })
}

fn unit_of(seconds: f64) -> (&'static str, f64) {
    match seconds {
        s if s >= 1.0 => ("s", 1.0),
        s if s >= 1e-3 => ("ms", 1e-3),
        s if s >= 1e-6 => ("µs", 1e-6),
        _ => ("ns", 1e-9),
    }
}

/// Three digits.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Thousands in groups.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
