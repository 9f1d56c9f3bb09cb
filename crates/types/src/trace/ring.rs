//! A bounded buffer of the newest records, for readers that join late or fall behind.
//!
//! Pure data: no clock, no lock, no thread. A writer pushes records, each of which gets the next
//! position. A reader requests the lines after its position and is informed how many of them are
//! gone. Records of two rates are stored separately, so that a slot with thousands of aggregates
//! does not evict the head of the chain.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Event, Record, TraceError};

/// Bounds of a [`Ring`]. The memory of a ring is at most the sum of both byte bounds, the lines of
/// one set of cells, and some 60 bytes per line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// Maximum number of lines of kinds that occur with each job or message.
    pub high_lines_max: usize,
    /// Maximum bytes of these lines.
    pub high_bytes_max: usize,
    /// Maximum number of lines of kinds that occur a few times per slot.
    pub low_lines_max: usize,
    /// Maximum bytes of these lines.
    pub low_bytes_max: usize,
    /// Maximum number of high-rate lines in a snapshot.
    pub snapshot_high_max: usize,
}

impl Default for RingLimits {
    fn default() -> Self {
        Self {
            high_lines_max: 65_536,
            high_bytes_max: 32 << 20,
            low_lines_max: 4_096,
            low_bytes_max: 4 << 20,
            snapshot_high_max: 8_192,
        }
    }
}

/// A record as it is sent, shared by all readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its position among all lines that the ring ever held, from 1.
    pub position: u64,
    /// Name of the kind.
    pub kind: &'static str,
    /// The record in JSON, without a line end.
    pub json: Arc<str>,
}

/// The answer to a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The lines, in position order.
    pub lines: Vec<Line>,
    /// Number of lines before `position` that the reader did not receive and that are gone.
    pub dropped: u64,
    /// Whether low-rate lines are among them.
    pub dropped_low: bool,
    /// The reader's new position, to be passed in for the lines that follow.
    pub position: u64,
}

/// Lines of one rate.
#[derive(Debug, Default)]
struct Half {
    lines: VecDeque<Line>,
    bytes: usize,
    /// Position of the newest evicted line.
    gone: u64,
}

impl Half {
    fn push(&mut self, line: Line, lines_max: usize, bytes_max: usize) {
        self.bytes += line.json.len();
        self.lines.push_back(line);
        // A line that alone exceeds the bytes evicts even itself.
        while self.lines.len() > lines_max || self.bytes > bytes_max {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.json.len();
            self.gone = oldest.position;
        }
    }

    /// The lines after a position.
    fn after(&self, position: u64) -> impl Iterator<Item = &Line> {
        let from = self.lines.partition_point(|line| line.position <= position);
        self.lines.range(from..)
    }

    fn newest(&self, count: usize) -> impl Iterator<Item = &Line> {
        self.lines.range(self.lines.len().saturating_sub(count)..)
    }
}

/// Lines of two rates in two bounded rings with a common numbering.
#[derive(Debug)]
pub struct Lines {
    instance: u64,
    limits: RingLimits,
    newest: u64,
    high: Half,
    low: Half,
}

impl Lines {
    /// Starts without lines. `instance` distinguishes the positions of these lines from those of
    /// others, for example of the same node before a restart. The start time is suitable.
    #[must_use]
    pub fn new(instance: u64, limits: RingLimits) -> Self {
        Self {
            instance,
            limits,
            newest: 0,
            high: Half::default(),
            low: Half::default(),
        }
    }

    /// Identifies the numbering of these lines.
    #[must_use]
    pub const fn instance(&self) -> u64 {
        self.instance
    }

    /// Position of the newest line, 0 before the first.
    #[must_use]
    pub(crate) const fn newest(&self) -> u64 {
        self.newest
    }

    /// Maximum number of lines between a reader and the newest line before the reader must start
    /// again.
    #[must_use]
    pub const fn lag_max(&self) -> u64 {
        (self.limits.high_lines_max + self.limits.low_lines_max) as u64
    }

    /// Adds a text without line ends. The oldest lines of its rate are evicted as needed.
    pub fn push(&mut self, kind: &'static str, json: &str, is_high: bool) -> Line {
        self.newest += 1;
        let line = Line {
            position: self.newest,
            kind,
            json: Arc::from(json),
        };
        let limits = &self.limits;
        let (half, lines_max, bytes_max) = match is_high {
            true => (&mut self.high, limits.high_lines_max, limits.high_bytes_max),
            false => (&mut self.low, limits.low_lines_max, limits.low_bytes_max),
        };
        half.push(line.clone(), lines_max, bytes_max);
        line
    }

    /// Returns the lines after a position, at most `lines_max` of them. A position in the future is
    /// treated as the newest.
    #[must_use]
    pub fn after(&self, position: u64, lines_max: usize) -> Batch {
        let position = position.min(self.newest);
        let lines: Vec<Line> = merge(self.high.after(position), self.low.after(position))
            .take(lines_max)
            .cloned()
            .collect();
        // A full batch ends with its last line, as more may follow. Otherwise the reader is up to date.
        let end = match lines.last() {
            Some(last) if lines.len() == lines_max => last.position,
            _ => self.newest,
        };
        Batch {
            // Positions have no gaps: what is missing in between is gone.
            dropped: end - position - lines.len() as u64,
            dropped_low: self.low.gone > position,
            position: end,
            lines,
        }
    }
}

/// The newest records of a trace, in two bounded rings with a common numbering.
#[derive(Debug)]
pub struct Ring {
    lines: Lines,
    genesis: Option<Line>,
    /// The newest line of cells, by its first cell.
    cells: BTreeMap<u32, Line>,
}

impl Ring {
    /// An empty ring; for `instance` see [`Lines::new`].
    #[must_use]
    pub fn new(instance: u64, limits: RingLimits) -> Self {
        Self {
            lines: Lines::new(instance, limits),
            genesis: None,
            cells: BTreeMap::new(),
        }
    }

    /// As [`Lines::instance`].
    #[must_use]
    pub const fn instance(&self) -> u64 {
        self.lines.instance()
    }

    /// As `Lines::newest`.
    #[must_use]
    pub const fn newest(&self) -> u64 {
        self.lines.newest()
    }

    /// As [`Lines::lag_max`].
    #[must_use]
    pub const fn lag_max(&self) -> u64 {
        self.lines.lag_max()
    }

    /// Adds a record and returns its position. The oldest lines of its rate are evicted as needed.
    ///
    /// # Errors
    ///
    /// As [`Record::to_line`]; the ring is then unchanged.
    pub fn push(&mut self, record: &Record) -> Result<u64, TraceError> {
        let json = record.to_line()?;
        let (kind, is_high) = (record.event.kind(), is_high_rate(&record.event));
        let line = self.lines.push(kind, json.trim_end(), is_high);
        let position = line.position;
        match &record.event {
            Event::Genesis { .. } => self.genesis = Some(line),
            Event::Cells { from, .. } => {
                // Cells cover a layout: an unexpected start must not let the map grow.
                let lines_max = self.lines.limits.low_lines_max as u64;
                self.cells
                    .retain(|_, old| position - old.position < lines_max);
                self.cells.insert(*from, line);
            }
            _ => {}
        }
        Ok(position)
    }

    /// As [`Lines::after`].
    #[must_use]
    pub fn after(&self, position: u64, lines_max: usize) -> Batch {
        self.lines.after(position, lines_max)
    }

    /// Everything a new reader needs: the genesis record, the newest cells, all low-rate lines and
    /// the newest high-rate ones.
    #[must_use]
    pub fn snapshot(&self) -> Batch {
        let mut lines: Vec<Line> = self
            .genesis
            .iter()
            .chain(self.cells.values())
            .cloned()
            .collect();
        let (high, low) = (&self.lines.high, &self.lines.low);
        let high = high.newest(self.lines.limits.snapshot_high_max);
        lines.extend(merge(high, low.lines.iter()).cloned());
        lines.sort_by_key(|line| line.position);
        // The genesis record and the cells may still be among the lines of their rate.
        lines.dedup_by_key(|line| line.position);
        Batch {
            dropped: self.newest() - lines.len() as u64,
            dropped_low: low.gone > 0,
            position: self.newest(),
            lines,
        }
    }
}

/// Kinds that occur with each job, message or tick; all others occur a few times per slot.
const fn is_high_rate(event: &Event) -> bool {
    matches!(
        event,
        Event::Cells { .. }
            | Event::Aggregate { .. }
            | Event::Collection { .. }
            | Event::Job { .. }
            | Event::Bytes { .. }
            | Event::Input { .. }
            | Event::Output { .. }
    )
}

/// Merges two sequences of lines by position.
fn merge<'a>(
    one: impl Iterator<Item = &'a Line>,
    other: impl Iterator<Item = &'a Line>,
) -> impl Iterator<Item = &'a Line> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(a), Some(b)) if a.position < b.position => one.next(),
        (_, Some(_)) => other.next(),
        _ => one.next(),
    })
}

#[cfg(test)]
mod tests;
