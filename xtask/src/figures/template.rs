//! What stands between braces: `{FILE#/POINTER:FORMAT}`, `{A + B:FORMAT}` for a sum, `{A - B:FORMAT}` for a
//! difference, `{A // B:FORMAT}` for a ratio and `{A <= B:verdict}` for a target.
//!
//! Formats: `time` (seconds), `ms`, `us`, `ns` (that many of them), `bytes`, `count`, `pct` (a share), `odds` (a
//! share that may be tiny), `x` (a ratio), `num`, `int`, `text`, `commit`, `verdict`, and `range` (seconds, least to
//! most of all runs), `ns-range` and `x-range` (the same of nanoseconds and of ratios) and `mean` (seconds, mean
//! and standard deviation of all runs); `>8` behind a format fills up to eight letters. Of several runs the median
//! counts. Ratios of one file are taken run by run, and the median is that of the ratios; runs of two files do not
//! pair, and theirs is the ratio of the medians. What is null never came: a time is `never`, all else `-`.

use super::Line;
use super::results::Results;
use serde_json::Value;

/// Kinds that need no word beside them.
const PLAIN: [&str; 2] = ["measured", "target"];
/// Words of a sentence that speaks of everything in its block.
const ALL: [&str; 3] = ["all", "both", "everything"];
/// The share of the processors above which what others took makes a time a bound, as commands warn.
const OTHERS_MAX: f64 = 0.1;
/// What such a time has to be called.
const UPPER_BOUND: &str = "upper bound";
/// The head of a column with what others took, which says it too.
const OTHERS: &str = "other programs";
/// Formats of times, which alone grow with what other programs take.
const TIMES: [&str; 7] = ["time", "ms", "us", "ns", "range", "ns-range", "mean"];

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
    let leads = leads(template);
    let mut header = "";
    for (at, &(number, line)) in template.iter().enumerate() {
        let is_header = template
            .get(at + 1)
            .is_some_and(|(_, next)| next.starts_with("|-"));
        if is_header {
            header = line;
        }
        let words = without_braces(line);
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
                Ok(figure) => {
                    filled.text.push_str(&figure.text);
                    let head = header.split('|').nth(column).filter(|_| is_row(line));
                    let names = format!("{words}\n{}", head.unwrap_or(""));
                    let is_beside = is_row(line) && header.contains(OTHERS);
                    let what = unsaid(inside, &figure, &names, &leads, is_beside);
                    let what = what.into_iter().map(|what| (number, what));
                    filled.errors.extend(what);
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

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// Sentences of a block's paragraphs that speak of all its figures, as `All of this is *modelled*` does. One
/// that speaks of a column is no lead: the head of that column says it.
fn leads(template: &[Line<'_>]) -> String {
    let paragraphs = template.iter().filter(|(_, line)| !is_row(line));
    let mut leads = String::new();
    for (_, line) in paragraphs {
        let words = without_braces(line);
        let sentences = words.split(". ").filter(|sentence| {
            let mut words = sentence.split(|sign: char| !sign.is_alphabetic());
            words.any(|word| ALL.contains(&word.to_lowercase().as_str()))
        });
        for sentence in sentences {
            leads.push_str(sentence);
            leads.push('\n');
        }
    }
    leads
}

/// What a reader of a figure is not told: `names` are the words of its paragraph, or of its row and the head of
/// its column, `leads` what is said of the whole block; `is_beside`: what others took has a column of its own.
fn unsaid(inside: &str, figure: &Figure, names: &str, leads: &str, is_beside: bool) -> Vec<String> {
    let is_said = |word: &str| names.contains(word) || leads.contains(word);
    let hidden = |kind: &&String| !PLAIN.contains(&kind.as_str()) && !is_said(kind);
    let kinds = figure.kinds.iter().filter(hidden);
    let mut errors: Vec<String> = kinds
        .map(|kind| format!("{inside} is {kind}, and not called so"))
        .collect();
    if figure.others > OTHERS_MAX && !is_beside && !is_said(UPPER_BOUND) {
        let share = figure.others * 100.0;
        errors.push(format!(
            "{inside}: other programs took {share:.0} % of the processors, and it is not called an {UPPER_BOUND}"
        ));
    }
    errors
}

/// A line without what stands between braces: the name of a figure tells no reader anything.
fn without_braces(line: &str) -> String {
    let mut outside = String::new();
    let mut depth = 0_i32;
    for sign in line.chars() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            other if depth == 0 => outside.push(other),
            _ => {}
        }
    }
    outside
}

/// Whether a row of a table has a digit behind its first column, outside of braces.
pub(super) fn has_figure_by_hand(line: &str) -> bool {
    let Some(row) = line.trim_start().strip_prefix('|') else {
        return false;
    };
    let outside = without_braces(row);
    let mut cells = outside.split('|').skip(1);
    cells.any(|cell| cell.contains(|sign: char| sign.is_ascii_digit()))
}

/// One figure.
struct Figure {
    text: String,
    /// The kinds that it is made of.
    kinds: Vec<String>,
    /// If it is a measured time: the largest share of the processors that other programs took meanwhile.
    others: f64,
}

/// Numbers of all runs, what kind they are, and how busy other programs were.
struct Numbers {
    values: Vec<f64>,
    kind: String,
    others: f64,
    /// The file whose runs they are of, if it is one.
    file: Option<String>,
}

impl Numbers {
    /// As a figure with a text.
    fn figure(self, text: String, format: &str) -> Figure {
        let is_time = TIMES.contains(&format) && self.kind == "measured";
        Figure {
            text,
            kinds: vec![self.kind],
            others: if is_time { self.others } else { 0.0 },
        }
    }
}

/// Looks one figure up.
fn figure(folder: &str, inside: &str, results: &Results) -> Result<Figure, String> {
    let (expression, format) = inside
        .rsplit_once(':')
        .ok_or_else(|| format!("{inside}: must be FILE#/POINTER:FORMAT"))?;
    if let Some((format, width)) = format.split_once('>') {
        let width: usize = width
            .parse()
            .map_err(|_| format!("{inside}: {width} is no width"))?;
        let figure = figure(folder, &format!("{expression}:{format}"), results)?;
        let text = format!("{:>width$}", figure.text);
        return Ok(Figure { text, ..figure });
    }
    for sign in [" // ", " <= "] {
        let Some((left, right)) = expression.split_once(sign) else {
            continue;
        };
        let left = numbers(folder, left.trim(), results)?;
        let right = numbers(folder, right.trim(), results)?;
        let text = match sign {
            " // " => written(&ratios(&left, &right), format, inside)?,
            _ => verdict(&left.values, &right.values, format, inside)?,
        };
        let kinds = vec![left.kind.clone(), right.kind];
        return Ok(Figure {
            kinds,
            ..left.figure(text, format)
        });
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
        return Ok(Figure {
            text: text.chars().take(most).collect(),
            kinds: Vec::new(),
            others: 0.0,
        });
    }
    let numbers = numbers(folder, expression.trim(), results)?;
    let text = written(&numbers.values, format, inside)?;
    Ok(numbers.figure(text, format))
}

/// Run by run, or that of the medians where the runs do not pair: those of two files were other commands, maybe of
/// other commits, and the first of one has nothing to do with the first of the other.
fn ratios(left: &Numbers, right: &Numbers) -> Vec<f64> {
    let is_one_file = left.file.is_some() && left.file == right.file;
    let (left, right) = (&left.values, &right.values);
    match is_one_file && left.len() == right.len() {
        true => left.iter().zip(right).map(|(a, b)| a / b).collect(),
        false => vec![median(left) / median(right)],
    }
}

/// How a number stands to its target.
fn verdict(left: &[f64], right: &[f64], format: &str, inside: &str) -> Result<String, String> {
    let (left, right) = (median(left), median(right));
    match left / right {
        _ if format != "verdict" => Err(format!("{inside}: {format} is no verdict")),
        _ if !left.is_finite() || !right.is_finite() => Err(format!(
            "{inside}: one side never came, so there is no verdict"
        )),
        _ if left <= right => Ok("met".to_owned()),
        over if !over.is_finite() => Ok("missed".to_owned()),
        over if over < 2.0 => Ok(format!("missed by {:.0} %", (over - 1.0) * 100.0)),
        over => Ok(format!("missed by {over:.1} times")),
    }
}

fn numbers(folder: &str, name: &str, results: &Results) -> Result<Numbers, String> {
    for sign in [" + ", " - "] {
        let Some((left, right)) = name.split_once(sign) else {
            continue;
        };
        let left = numbers(folder, left.trim(), results)?;
        let right = numbers(folder, right.trim(), results)?;
        // A plan, such as the begin of a phase, may be taken off.
        let is_plan = sign == " - " && right.kind == "target";
        if left.kind != right.kind && !is_plan {
            return Err(format!("{name}: parts of different kinds"));
        }
        let file = left.file.clone().filter(|_| left.file == right.file);
        let values = match sign {
            " + "
                if left.values.len() != right.values.len()
                    || (left.values.len() > 1 && left.file != right.file) =>
            {
                return Err(format!("{name}: parts of different runs"));
            }
            " + " => left
                .values
                .iter()
                .zip(&right.values)
                .map(|(a, b)| a + b)
                .collect(),
            _ => {
                let right = median(&right.values);
                left.values.iter().map(|value| value - right).collect()
            }
        };
        return Ok(Numbers {
            values,
            kind: left.kind,
            others: left.others.max(right.others),
            // What is taken off is one number for all runs.
            file: left.file.filter(|_| sign == " - ").or(file),
        });
    }
    let found = results.find(folder, name)?;
    let number = |value: &&Value| match value {
        Value::Null => Some(f64::INFINITY),
        // Of a list, how many.
        Value::Array(list) => Some(list.len() as f64),
        value => value.as_f64(),
    };
    let values: Option<Vec<f64>> = found.values.iter().map(number).collect();
    Ok(Numbers {
        values: values.ok_or_else(|| format!("{name}: no number"))?,
        kind: found.kind,
        others: found.others,
        file: name
            .split_once('#')
            .map(|(file, _)| match file.strip_prefix('/') {
                Some(file) => file.to_owned(),
                None => format!("{folder}/{file}"),
            }),
    })
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
        "ns-range" => {
            let seconds: Vec<f64> = values.iter().map(|ns| ns * 1e-9).collect();
            return written(&seconds, "range", inside);
        }
        "x-range" => {
            let (least, most) = extremes(values);
            let least = written(&[least], "x", inside)?;
            format!("{least} to {}", written(&[most], "x", inside)?)
        }
        "odds" if value > 0.0 && value < 0.01 => format!("1 in {}", grouped(1.0 / value)),
        "odds" => format!("{} %", digits(value * 100.0)),
        "range" => {
            let (unit, size) = unit_of(value);
            let (least, most) = extremes(values);
            format!("{} to {} {unit}", digits(least / size), digits(most / size))
        }
        "mean" => {
            let (mean, deviation) = mean_and_deviation(values);
            let (unit, size) = unit_of(mean);
            let mean = digits(mean / size);
            let decimals = mean.split_once('.').map_or(0, |(_, behind)| behind.len());
            let deviation =
                deviation.map_or("-".to_owned(), |d| format!("{:.decimals$}", d / size));
            format!("{mean} ± {deviation} {unit}")
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

fn extremes(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(0.0, f64::max))
}

/// The mean and the standard deviation of a sample, which one value does not have.
fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (
        mean,
        (count > 1.0).then(|| (squares / (count - 1.0)).sqrt()),
    )
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
