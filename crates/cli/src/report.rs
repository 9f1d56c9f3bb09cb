//! What a command prints: one JSON object on request, one table otherwise.

use crate::error::Result;
use crate::machine::{COMMIT, Machine};
use anyhow::Context;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Version of the JSON objects.
const SCHEMA: u32 = 1;

/// Collects the fields that every JSON object has, from the start of a command.
pub(crate) struct Report {
    command: &'static str,
    seed: u64,
    started: SystemTime,
    clock: Instant,
}

impl Report {
    /// Begins the report of a command.
    pub(crate) fn begin(command: &'static str, seed: u64) -> Self {
        Report {
            command,
            seed,
            started: SystemTime::now(),
            clock: Instant::now(),
        }
    }

    /// Seconds since the command began.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// The JSON object: common fields, then those of the command. `kind` is `measured`,
    /// `modelled` or `cited`.
    pub(crate) fn object(
        &self,
        machine: &Machine,
        kind: &str,
        config: &impl Serialize,
        fields: Map<String, Value>,
    ) -> Result<Value> {
        let started = self
            .started
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let mut object = json!({
            "schema": SCHEMA,
            "command": self.command,
            "version": env!("CARGO_PKG_VERSION"),
            "commit": COMMIT,
            "seed": self.seed,
            "started_unix": started,
            "elapsed_s": self.elapsed_s(),
            "config": config,
            "kind": kind,
            "machine": machine,
        });
        if let Value::Object(map) = &mut object {
            map.extend(fields);
        }
        Ok(object)
    }
}

/// Where the JSON object goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sink(Option<PathBuf>);

impl Sink {
    /// `--json FILE`, `-` for standard output.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Sink(path)
    }

    /// Whether standard output belongs to the JSON object.
    pub(crate) fn is_stdout(&self) -> bool {
        self.0.as_deref() == Some(Path::new("-"))
    }

    /// Prints text for a person: to standard output, or to standard error if that is taken.
    pub(crate) fn say(&self, text: &str) {
        if self.is_stdout() {
            eprintln!("{text}");
        } else {
            println!("{text}");
        }
    }

    /// Writes the object, whole or not at all.
    pub(crate) fn write(&self, object: &Value) -> Result<()> {
        let text = serde_json::to_string_pretty(object)? + "\n";
        match &self.0 {
            None => Ok(()),
            Some(_) if self.is_stdout() => Ok(std::io::stdout().write_all(text.as_bytes())?),
            Some(path) => write_whole(path, text.as_bytes()),
        }
    }
}

/// Writes a file through a temporary one beside it, so that a reader never sees half of it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let named = || format!("cannot write {}", path.display());
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(named)?;
    file.write_all(bytes).with_context(named)?;
    file.persist(path).with_context(named)?;
    Ok(())
}

/// A table with a header, right-aligned figures.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
