//! The harness of all benches: their outputs, their cases as tables, their report, and runs that are timed.

use crate::error::{Error, Result};
use crate::levels::levels;
use crate::machine::Machine;
use crate::options::Json;
use crate::overwrite::check_apart;
use crate::report::{Report, Sink, table, target, write_whole};
use crate::text;
use crate::timing::Steps;
use alphorn_exec::{Backend, Kernels};
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde_json::Value;
use std::path::PathBuf;

/// Kernels that are cases, and where figures and costs go.
#[derive(clap::Args, Debug)]
pub(super) struct Output {
    /// Kernels: auto, portable, avx2, avx512dq or avx512, a case each; or CRATE=LEVEL
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
    /// Begins a bench on so many threads at most; also its kernels.
    ///
    /// # Errors
    /// If a kernel is none of the crate's, or if two outputs are one file.
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

    /// Writes the table of costs if it is asked for.
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

/// A column of a table of cases: its name, where a case has its figure, and how that reads.
pub(super) type Column = (&'static str, &'static str, fn(f64) -> String);

/// A bench that runs.
pub(super) struct Bench {
    report: Report,
    sink: Sink,
    pub(super) machine: Machine,
}

impl Bench {
    /// Says what it runs on.
    pub(super) fn new(report: Report, sink: Sink, machine: Machine) -> Self {
        sink.say(&machine.line());
        Bench {
            report,
            sink,
            machine,
        }
    }

    /// Says something to a person.
    pub(super) fn say(&self, text: &str) {
        self.sink.say(text);
    }

    /// Says cases as a table.
    pub(super) fn table(&self, cases: &[Value], columns: &[Column]) {
        self.say(&format!("\n{}", cells(cases, columns)));
    }

    /// Writes the report, then fails if the bench found something wrong.
    ///
    /// # Errors
    /// If it cannot be written, and a failed check with what is wrong.
    pub(super) fn end(&self, config: &Value, fields: Value, wrong: Option<String>) -> Result<()> {
        let object = self
            .report
            .object(&self.machine, "measured", config, fields)?;
        self.sink.write(&object)?;
        wrong.map_or(Ok(()), |wrong| Err(Error::Check(wrong)))
    }
}

/// The table of some cases.
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

/// A whole number.
pub(super) fn count(value: f64) -> String {
    text::count(value.round() as u64)
}

/// Bytes.
pub(super) fn bytes(value: f64) -> String {
    text::bytes(value.round() as u64)
}

/// Milliseconds.
pub(super) fn ms(value: f64) -> String {
    text::seconds(value * 1e-3)
}

/// Microseconds.
pub(super) fn us(value: f64) -> String {
    text::seconds(value * 1e-6)
}

/// Nanoseconds.
pub(super) fn ns(value: f64) -> String {
    text::seconds(value * 1e-9)
}

/// A share as percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Runs of one operation that all made the same bytes.
pub(super) struct Runs {
    pub(super) bytes: Vec<u8>,
    /// The first one, which may have made what the others found.
    cold: Steps,
    /// Those that count, the fastest first.
    counted: Vec<Steps>,
}

impl Runs {
    /// Makes something so many times, after a first one that does not count.
    ///
    /// # Errors
    /// If it cannot be made, or if two runs differ.
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

    /// Makes something so many times, of which the first counts as well.
    ///
    /// # Errors
    /// If it cannot be made, or if two runs differ.
    pub(super) fn all(runs: usize, make: impl FnMut() -> Result<(Vec<u8>, Steps)>) -> Result<Self> {
        let mut all = Runs::warm(runs.saturating_sub(1), make)?;
        let cold_s = all.cold_s();
        let at = all.counted.partition_point(|other| other.total_s < cold_s);
        all.counted.insert(at, all.cold.clone());
        Ok(all)
    }

    /// Seconds of the first run.
    pub(super) fn cold_s(&self) -> f64 {
        self.cold.total_s
    }

    /// The steps of the fastest run.
    pub(super) fn steps(&self) -> &Steps {
        self.counted.first().unwrap_or(&self.cold)
    }

    /// The value below which a share of the runs lies.
    pub(super) fn quantile_s(&self, share: f64) -> f64 {
        let last = self.counted.len().saturating_sub(1);
        let at = (share * last as f64).ceil() as usize;
        self.counted.get(at).unwrap_or(&self.cold).total_s
    }

    /// The value in the middle.
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
