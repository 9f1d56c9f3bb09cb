//! The trace of a run: spooled to an unnamed file while it runs, then written in order of time.

use crate::report::write_whole_with;
use alphorn_sim::report::{Outcome, trace};
use alphorn_sim::scenario::{Protocol, Scenario, TraceLevel};
use alphorn_sim::world::Traced;
use alphorn_types::trace::{Event, Record, TraceReader};
use anyhow::Result;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::Path;

/// What is traced while a run is in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Trace level of Horn's slots, recorded as on a live node.
    pub(crate) slots: TraceLevel,
    /// Nodes of which every event is traced.
    pub(crate) nodes: Option<Traced>,
}

impl Wanted {
    /// Traces nothing.
    pub(crate) const NOTHING: Self = Wanted {
        slots: TraceLevel::None,
        nodes: None,
    };

    /// What the trace in a scenario's folder contains: slots as on a live node, or every event at all
    /// nodes for other protocols.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let level = scenario.output.trace;
        match scenario.protocol {
            Protocol::Horn(_) => Wanted {
                slots: level,
                nodes: None,
            },
            _ => Wanted {
                nodes: (level == TraceLevel::Full).then_some(Traced::All),
                ..Wanted::NOTHING
            },
        }
    }

    fn is_nothing(self) -> bool {
        self.slots == TraceLevel::None && self.nodes.is_none()
    }
}

/// The trace recorded during a run, up to a maximum number of bytes.
#[derive(Debug)]
pub(super) struct Spool {
    wanted: Wanted,
    file: BufWriter<File>,
    bytes: u64,
    bytes_max: u64,
    full: bool,
    /// The first write error; it does not invalidate the run.
    error: Option<io::Error>,
}

impl Spool {
    /// Starts recording what is wanted; none if nothing is.
    pub(super) fn new(wanted: Wanted, bytes_max: u64) -> io::Result<Option<Self>> {
        if wanted.is_nothing() {
            return Ok(None);
        }
        Ok(Some(Spool {
            wanted,
            file: BufWriter::new(tempfile::tempfile()?),
            bytes: 0,
            bytes_max,
            full: false,
            error: None,
        }))
    }

    /// Returns the nodes still to be traced in detail.
    pub(super) fn nodes(&self) -> Option<Traced> {
        let nodes = self.wanted.nodes;
        nodes.filter(|_| !self.full && self.error.is_none())
    }

    /// Returns the trace level for slots.
    pub(super) fn slots(&self) -> TraceLevel {
        self.wanted.slots
    }

    pub(super) fn keep(&mut self, records: &[Record]) {
        for record in records {
            if self.full || self.error.is_some() {
                return;
            }
            // A record of the simulator is shorter than the maximum line length.
            let Ok(line) = record.to_line() else {
                continue;
            };
            self.bytes += line.len() as u64;
            self.full = self.bytes > self.bytes_max;
            if !self.full {
                self.error = self.file.write_all(line.as_bytes()).err();
            }
        }
    }

    /// Returns the recorded trace, from the start.
    pub(super) fn finish(mut self) -> io::Result<Told> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.file.flush()?;
        let mut file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(Told {
            file,
            cut: self.full,
        })
    }
}

/// A recorded trace.
#[derive(Debug)]
pub(crate) struct Told {
    file: File,
    /// Whether it was truncated.
    cut: bool,
}

impl Told {
    /// Returns its records, from the first one.
    pub(super) fn records(&self) -> Result<impl Iterator<Item = Result<Record>>> {
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        let reader = TraceReader::new(BufReader::new(file));
        Ok(reader.map(|record| Ok(record?)))
    }

    /// Whether it ends before the run.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }
}

/// Writes lines up to a maximum number of bytes; the last line then says so.
struct Lines<W: Write> {
    file: BufWriter<W>,
    bytes: u64,
    bytes_max: u64,
    left_out: u64,
    last: Option<Record>,
}

impl<W: Write> Lines<W> {
    fn put(&mut self, record: Record) -> Result<()> {
        let line = record.to_line()?;
        self.bytes += line.len() as u64;
        if self.bytes > self.bytes_max {
            self.left_out += 1;
        } else {
            self.file.write_all(line.as_bytes())?;
        }
        self.last = Some(record);
        Ok(())
    }

    fn end(mut self, cut: bool) -> Result<()> {
        let (left, max) = (self.left_out, self.bytes_max);
        let detail = match (left, cut) {
            (0, false) => None,
            (left, false) => Some(format!("{left} records left out, trace_bytes_max = {max}")),
            (_, true) => Some(format!(
                "the trace ends before the run, trace_bytes_max = {max}"
            )),
        };
        if let (Some(detail), Some(last)) = (detail, self.last) {
            let event = Event::Fault {
                kind: "trace".into(),
                detail,
            };
            let end = Record { event, ..last };
            self.file.write_all(end.to_line()?.as_bytes())?;
        }
        self.file.flush()?;
        Ok(())
    }
}

/// Writes the trace of a run in order of time, combining the simulator's records of the whole run with
/// those recorded while it ran. Writes no file if there are none, and a complete one otherwise.
pub(super) fn write(
    path: &Path,
    scenario: &Scenario,
    outcome: Option<&Outcome>,
    told: Option<&Told>,
) -> Result<()> {
    let whole = outcome.map_or_else(Vec::new, |outcome| trace::records(scenario, outcome));
    if whole.is_empty() && told.is_none() {
        return Ok(());
    }
    write_whole_with(path, |file| put(file, scenario, whole, told))
}

fn put(
    file: &mut dyn Write,
    scenario: &Scenario,
    whole: Vec<Record>,
    told: Option<&Told>,
) -> Result<()> {
    let mut whole = whole.into_iter().peekable();
    let mut lines = Lines {
        file: BufWriter::new(file),
        bytes: 0,
        bytes_max: scenario.output.trace_bytes_max,
        left_out: 0,
        last: None,
    };
    if let Some(told) = told {
        for record in told.records()? {
            let record = record?;
            while let Some(first) = whole.next_if(|first| first.t <= record.t) {
                lines.put(first)?;
            }
            lines.put(record)?;
        }
    }
    for record in whole {
        lines.put(record)?;
    }
    lines.end(told.is_some_and(Told::is_cut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_sim::report::NodeRecord;
    use std::fs;

    fn scenario(output: &str) -> Scenario {
        let base = "name = \"t\"\nschema = 1\n[sim]\nnodes = 40\n[[class]]\nname = \"full\"\nshare_pct = 100\n\
                    down_mbps = 50\nup_mbps = 15\n[protocol]\nkind = \"gossip\"\n[output]\n";
        Scenario::parse(&format!("{base}{output}"), &[]).unwrap()
    }

    fn outcome(nodes: u32) -> Outcome {
        let node = |node| NodeRecord {
            node,
            done_ns: Some(1000 * u64::from(node)),
            ..NodeRecord::default()
        };
        Outcome {
            nodes: (0..nodes).map(node).collect(),
            ..Outcome::default()
        }
    }

    fn told(times: &[i64], bytes_max: u64) -> Told {
        let wanted = Wanted {
            nodes: Some(Traced::All),
            ..Wanted::NOTHING
        };
        let mut spool = Spool::new(wanted, bytes_max).unwrap().unwrap();
        let record = |t: &i64| Record {
            t: *t,
            n: "node-1".into(),
            event: Event::Fault {
                kind: "told".into(),
                detail: String::new(),
            },
        };
        let records: Vec<Record> = times.iter().map(record).collect();
        spool.keep(&records);
        spool.finish().unwrap()
    }

    #[test]
    fn a_trace_ends_at_its_bound_and_says_so() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("t");
        let scenario = scenario("trace_bytes_max = 2000\n");
        write(&path, &scenario, Some(&outcome(100)), None).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.len() < 2300, "{}", text.len());
        let last = text.lines().last().unwrap();
        let expected = "records left out, trace_bytes_max = 2000";
        assert!(last.contains(expected), "{last}");
        let told = told(&[5; 100], 300);
        assert!(told.is_cut());
        write(&path, &scenario, None, Some(&told)).unwrap();
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains("the trace ends before the run"), "{text}");
    }

    #[test]
    fn what_was_told_and_what_is_said_are_in_the_order_of_time() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("t");
        let told = told(&[0, 1500, 2500, 9000], 1 << 20);
        write(
            &path,
            &scenario("trace = \"full\"\n"),
            Some(&outcome(4)),
            Some(&told),
        )
        .unwrap();
        let file = BufReader::new(File::open(path).unwrap());
        let times: Vec<i64> = TraceReader::new(file)
            .map(|record| record.unwrap().t)
            .collect();
        assert!(times.is_sorted(), "{times:?}");
        let of_told = times.iter().filter(|t| [1500, 2500, 9000].contains(t));
        assert_eq!(of_told.count(), 3);
    }

    #[test]
    fn nothing_to_say_is_no_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("t");
        write(
            &path,
            &scenario("trace = \"none\"\n"),
            Some(&outcome(4)),
            None,
        )
        .unwrap();
        assert!(!path.exists());
    }
}
