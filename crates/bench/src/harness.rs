//! The harness of all benches: outputs, case tables, reports, and timed runs.

use crate::timing::Steps;
use alphorn_exec::{Backend, Kernels};
use alphorn_lab::error::{Error, Result};
use alphorn_lab::levels::levels;
use alphorn_lab::machine::Machine;
use alphorn_lab::options::Json;
use alphorn_lab::overwrite::check_apart;
use alphorn_lab::report::{Report, Sink, table, target, write_whole};
use alphorn_lab::text;
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde_json::Value;
use std::path::PathBuf;

/// Kernels that are cases, and where figures and costs go.
#[derive(clap::Args, Debug)]
pub(super) struct Output {
    /// Kernels: auto, portable, avx2, avx512dq or avx512, one case each; or CRATE=LEVEL
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "auto",
        value_delimiter = ','
    )]
    kernel: Vec<String>,
    #[command(flatten)]
    json: Json,
    /// Write a cost table for the simulator, measured on one thread with the last kernel
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(target))]
    pub(super) emit_costs: Option<PathBuf>,
}

impl Output {
    /// Starts a bench on at most this many threads; also returns its kernels.
    ///
    /// # Errors
    /// If a kernel is not one of the crate's, or if two outputs are the same file.
    pub(super) fn begin(
        &self,
        command: &'static str,
        threads: usize,
        of: &Kernels,
    ) -> Result<(Bench, Vec<Backend>)> {
        let report = Report::begin(command, 0);
        let sink = self.json.sink();
        let outputs = [self.emit_costs.as_deref(), sink.path()];
        check_apart([], outputs.into_iter().flatten())?;
        let kernels = levels(of, &self.kernel, threads)?;
        let machine = Machine::with(threads, of, &kernels);
        Ok((Bench::new(report, sink, machine), kernels))
    }

    /// Writes the cost table if requested.
    ///
    /// # Errors
    /// If it cannot be measured or written.
    pub(super) fn costs(&self, measured: impl FnOnce() -> Result<String>) -> Result<()> {
        match &self.emit_costs {
            None => Ok(()),
            Some(path) => write_whole(path, measured()?.as_bytes()),
        }
    }
}

/// A column of a table of cases: its name, the pointer to its figure, and its format.
pub(super) type Column = (&'static str, &'static str, fn(f64) -> String);

/// A running bench.
pub(super) struct Bench {
    report: Report,
    sink: Sink,
    pub(super) machine: Machine,
}

impl Bench {
    /// Prints what it runs on.
    pub(super) fn new(report: Report, sink: Sink, machine: Machine) -> Self {
        sink.say(&machine.line());
        Bench {
            report,
            sink,
            machine,
        }
    }

    /// Prints text for a human reader.
    pub(super) fn say(&self, text: &str) {
        self.sink.say(text);
    }

    /// Prints cases as a table.
    pub(super) fn table(&self, cases: &[Value], columns: &[Column]) {
        self.say(&format!("\n{}", cells(cases, columns)));
    }

    /// Writes the report, then fails if the bench found something wrong.
    ///
    /// # Errors
    /// If it cannot be written, or a failed check that says what is wrong.
    pub(super) fn end(&self, config: &Value, fields: Value, wrong: Option<String>) -> Result<()> {
        let object = self
            .report
            .object(&self.machine, "measured", config, fields)?;
        self.sink.write(&object)?;
        wrong.map_or(Ok(()), |wrong| Err(Error::Check(wrong)))
    }
}

/// Formats a table of cases.
fn cells(cases: &[Value], columns: &[Column]) -> String {
    let cell = |case: &Value, (_, pointer, read): &Column| match case.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.as_f64().map_or("-".into(), read),
        _ => "-".into(),
    };
    let row = |case: &Value| columns.iter().map(|column| cell(case, column)).collect();
    let rows: Vec<Vec<String>> = cases.iter().map(row).collect();
    let header: Vec<&str> = columns.iter().map(|(name, _, _)| *name).collect();
    table(&header, &rows)
}

/// Formats a whole number.
pub(super) fn count(value: f64) -> String {
    text::count(value.round() as u64)
}

/// Formats bytes.
pub(super) fn bytes(value: f64) -> String {
    text::bytes(value.round() as u64)
}

/// Formats milliseconds.
pub(super) fn ms(value: f64) -> String {
    text::seconds(value * 1e-3)
}

/// Formats microseconds.
pub(super) fn us(value: f64) -> String {
    text::seconds(value * 1e-6)
}

/// Formats nanoseconds.
pub(super) fn ns(value: f64) -> String {
    text::seconds(value * 1e-9)
}

/// Formats a share as percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Runs of one operation that all produced the same bytes.
pub(super) struct Runs {
    pub(super) bytes: Vec<u8>,
    /// The first one, which may have built what the others reused.
    cold: Steps,
    /// The counted runs, fastest first.
    counted: Vec<Steps>,
}

impl Runs {
    /// Repeats an operation this many times, after a warm-up run that does not count.
    ///
    /// # Errors
    /// If it fails, or if two runs differ.
    pub(super) fn warm(
        runs: usize,
        mut make: impl FnMut() -> Result<(Vec<u8>, Steps)>,
    ) -> Result<Self> {
        let (bytes, cold) = make()?;
        let mut counted = Vec::with_capacity(runs + 1);
        for _ in 0..runs {
            let (again, steps) = make()?;
            if again != bytes {
                return Err(Error::Check("two runs made different proofs".into()));
            }
            counted.push(steps);
        }
        counted.sort_by(|a, b| a.total_s.total_cmp(&b.total_s));
        Ok(Runs {
            bytes,
            cold,
            counted,
        })
    }

    /// Repeats an operation this many times, counting the first run as well.
    ///
    /// # Errors
    /// If it fails, or if two runs differ.
    pub(super) fn all(runs: usize, make: impl FnMut() -> Result<(Vec<u8>, Steps)>) -> Result<Self> {
        let mut all = Runs::warm(runs.saturating_sub(1), make)?;
        let cold_s = all.cold_s();
        let at = all.counted.partition_point(|other| other.total_s < cold_s);
        all.counted.insert(at, all.cold.clone());
        Ok(all)
    }

    /// Returns the seconds of the first run.
    pub(super) fn cold_s(&self) -> f64 {
        self.cold.total_s
    }

    /// Returns the steps of the fastest run.
    pub(super) fn steps(&self) -> &Steps {
        self.counted.first().unwrap_or(&self.cold)
    }

    /// Returns the value below which a share of the runs lies.
    pub(super) fn quantile_s(&self, share: f64) -> f64 {
        let last = self.counted.len().saturating_sub(1);
        let at = (share * last as f64).ceil() as usize;
        self.counted.get(at).unwrap_or(&self.cold).total_s
    }

    /// Returns the median.
    pub(super) fn median_s(&self) -> f64 {
        self.quantile_s(0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn runs_agree_and_the_fastest_is_known() {
        let run = |total_s| Steps {
            each: vec![("all", total_s)],
            total_s,
        };
        let taken = || [9.0, 30.0, 2.0, 15.0].map(run).into_iter();
        let made =
            |mut runs: std::array::IntoIter<Steps, 4>| move || Ok((vec![7], runs.next().unwrap()));
        let warm = Runs::warm(3, made(taken())).unwrap_or_else(|_| panic!("the same bytes"));
        assert_eq!((warm.cold_s(), &warm.bytes[..]), (9.0, &[7][..]));
        assert_eq!(warm.steps().total_s, 2.0);
        assert_eq!((warm.median_s(), warm.quantile_s(0.9)), (15.0, 30.0));
        let all = Runs::all(2, made(taken())).unwrap_or_else(|_| panic!("the same bytes"));
        assert_eq!((all.steps().total_s, all.quantile_s(1.0)), (9.0, 30.0));
        let mut at = 0;
        let differ = Runs::all(2, || {
            at += 1;
            Ok((vec![at], Steps::default()))
        });
        assert!(differ.is_err());
    }

    #[test]
    fn cells_are_words_figures_or_nothing() {
        let cases = [json!({ "name": "a", "took": { "s": 0.5 }, "peer": null })];
        let columns: [Column; 3] = [
            ("name", "/name", count),
            ("time", "/took/s", text::seconds),
            ("peer", "/peer", ns),
        ];
        let table = cells(&cases, &columns);
        assert!(table.contains("500 ms") && table.ends_with('-'), "{table}");
    }
}
