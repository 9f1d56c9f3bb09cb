//! Command output: one JSON object on request, one table otherwise.

use crate::error::Result;
use crate::machine::{Busy, Machine, commit};
use crate::overwrite::{folder_of, holds_key};
use crate::text::printable;
use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Commands that report times as figures.
const TIMED: [&str; 3] = ["bench", "compare", "slot"];

/// Version of the JSON objects.
const SCHEMA: u32 = 1;

/// Collects the fields common to all JSON objects, from the start of a command.
pub struct Report {
    command: &'static str,
    seed: u64,
    started: SystemTime,
    clock: Instant,
    busy: Busy,
}

impl Report {
    /// Starts the report of a command.
    pub fn begin(command: &'static str, seed: u64) -> Self {
        Report {
            command,
            seed,
            started: SystemTime::now(),
            clock: Instant::now(),
            busy: Busy::now(),
        }
    }

    /// Returns the seconds since the command started.
    pub fn elapsed_s(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// Builds the JSON object: common fields, then those of the command. `kind` is `measured`,
    /// `modelled` or `cited`. For commands that report times as figures, it warns on standard error if
    /// the measurement was disturbed.
    pub fn object(
        &self,
        machine: &Machine,
        kind: &str,
        config: &impl Serialize,
        fields: impl Into<Value>,
    ) -> Result<Value> {
        let started = self
            .started
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let load = self.busy.since();
        if TIMED.iter().any(|name| self.command.starts_with(name))
            && let Some(warning) = load.warning()
        {
            note(&format!("alphorn: {warning}"));
        }
        // Command-line words may be arbitrary bytes.
        let words: Vec<String> = std::env::args_os()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let mut object = json!({
            "schema": SCHEMA,
            "command": self.command,
            "line": format!("alphorn {}", words.join(" ")),
            "version": env!("CARGO_PKG_VERSION"),
            "commit": commit(),
            "seed": self.seed,
            "started_unix": started,
            "elapsed_s": self.elapsed_s(),
            "config": config,
            "kind": kind,
            "machine": machine,
            "load": load,
        });
        if let (Value::Object(map), Value::Object(fields)) = (&mut object, fields.into()) {
            map.extend(fields);
        }
        Ok(object)
    }
}

/// Destination of the JSON object.
#[derive(Debug, Default)]
pub struct Sink {
    path: Option<PathBuf>,
    /// The first failure of [`Sink::say`], which [`Sink::write`] reports.
    failure: OnceCell<io::Error>,
}

impl Sink {
    /// `--json FILE`, `-` for standard output.
    pub fn new(path: Option<PathBuf>) -> Self {
        Sink {
            path,
            failure: OnceCell::new(),
        }
    }

    /// Returns the destination, if one was requested.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether standard output is reserved for the JSON object.
    pub fn is_stdout(&self) -> bool {
        self.path.as_deref() == Some(Path::new("-"))
    }

    /// Prints text for a human reader: to standard output, or to standard error if standard output is
    /// reserved.
    ///
    /// A closed pipe (`| head -1`) is not an error: the command still completes.
    pub fn say(&self, text: &str) {
        if self.is_stdout() {
            return note(text);
        }
        let text = printable(text, usize::MAX);
        if let Err(error) = writeln!(io::stdout(), "{text}") {
            // Only the first failure counts.
            let _ = self.failure.set(error);
        }
    }

    /// Writes the object, whole or not at all, and reports any earlier failure to print.
    pub fn write(&self, object: &Value) -> Result<()> {
        let text = serde_json::to_string_pretty(object)? + "\n";
        match &self.path {
            None => {}
            Some(_) if self.is_stdout() => {
                let outcome = io::stdout().write_all(text.as_bytes());
                unless_closed(outcome.err().as_ref())?;
            }
            Some(path) => write_whole(path, text.as_bytes())?,
        }
        unless_closed(self.failure.get())
    }
}

/// Prints text to standard output. A closed pipe is not an error.
///
/// # Errors
/// If printing fails, for example on a full disk.
pub fn say(text: &str) -> Result<()> {
    let sink = Sink::default();
    sink.say(text);
    unless_closed(sink.failure.get())
}

/// Prints text to standard error. Failures are ignored.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text, usize::MAX));
}

/// Returns a printing failure, unless the pipe was closed.
fn unless_closed(failure: Option<&io::Error>) -> Result<()> {
    match failure {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::anyhow!("cannot print: {error}").into())
        }
        _ => Ok(()),
    }
}

/// How a file of a given name is written.
enum Destination {
    /// A regular file, existing or not: through a temporary file in the same folder, renamed to this path.
    Whole(PathBuf),
    /// Anything else, such as a terminal, a pipe, a null device or a dangling link, which renaming a
    /// file to its path would replace.
    Through,
}

impl Destination {
    fn of(path: &Path) -> io::Result<Self> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(_) if holds_key(path) => Err(io::Error::other("a key is there")),
            // The target of a link is replaced, not the link.
            Ok(found) if found.is_file() => Ok(Destination::Whole(std::fs::canonicalize(path)?)),
            Ok(_) => Ok(Destination::Through),
            Err(_) if path.is_symlink() => Ok(Destination::Through),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Destination::Whole(path.to_owned()))
            }
            Err(error) => Err(error),
        }
    }
}

/// Explains why no temporary file could be made in the folder of `path`, without the name it would have
/// had.
pub fn not_beside(path: &Path, error: &io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => {
            let folder = folder_of(path);
            let why = match folder.is_dir() {
                true => "no file can be made in",
                false => "there is no folder",
            };
            io::Error::new(error.kind(), format!("{why} {}", folder.display()))
        }
        kind => kind.into(),
    }
}

/// Creates a new file in the folder of `path`, with permissions given by the umask.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let made = builder.tempfile_in(folder_of(path));
    made.map_err(|error| not_beside(path, &error))
}

/// Writes a file through a temporary one next to it, so that a reader never sees a partial file. Never
/// overwrites a key.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(write_whole_with(path, |file| Ok(file.write_all(bytes)?))?)
}

/// Like `write_whole`, but writes incrementally.
pub(crate) fn write_whole_with(
    path: &Path,
    put: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let write = || -> anyhow::Result<()> {
        match Destination::of(path)? {
            Destination::Through => {
                let mut options = std::fs::OpenOptions::new();
                options.write(true).create(true).truncate(true);
                put(&mut options.open(path)?)
            }
            Destination::Whole(path) => {
                let mut file = beside(&path)?;
                // An I/O error of the file does not include its name.
                put(file.as_file_mut())?;
                file.persist(&path).map_err(|failed| failed.error)?;
                Ok(())
            }
        }
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Parses `--json FILE`, which may be `-` for standard output.
pub fn json_target(path: OsString) -> io::Result<PathBuf> {
    match path == "-" {
        true => Ok(path.into()),
        false => target(path),
    }
}

/// Parses the name of an output file: one that cannot be written is rejected before the work, not after it.
pub fn target(path: OsString) -> io::Result<PathBuf> {
    let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if path == "-" {
        return refuse("standard output has what is said: give the name of a file");
    }
    let is_folder = path.as_encoded_bytes().ends_with(b"/");
    let path = PathBuf::from(path);
    if is_folder || path.file_name().is_none() {
        return refuse("no name of a file");
    }
    if let Destination::Whole(file) = Destination::of(&path)? {
        drop(beside(&file)?);
    }
    Ok(path)
}

/// Formats a table with a header: figures right-aligned, words left-aligned. On a terminal that is too
/// narrow for it, words are wrapped; elsewhere a row is one line.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = match io::stdout().is_terminal() {
        true => comfy_table::Table::new().width(),
        false => None,
    };
    arranged(header, rows, width)
}

/// Formats a table of rows, at least one, whose cells carry the names of their columns.
pub fn columns<'a>(rows: impl IntoIterator<Item = Vec<(&'a str, String)>>) -> String {
    let (header, rows) = parted(rows);
    table(&header, &rows)
}

/// Separates the names of the columns from the rows.
pub(crate) fn parted<'a>(
    rows: impl IntoIterator<Item = Vec<(&'a str, String)>>,
) -> (Vec<&'a str>, Vec<Vec<String>>) {
    let mut header = Vec::new();
    let rows = rows.into_iter().map(|row| {
        let (names, cells) = row.into_iter().unzip();
        header = names;
        cells
    });
    let rows = rows.collect();
    (header, rows)
}

/// Minimum width of a column with wrapped words.
const WORDS_WIDTH_MIN: usize = 12;
/// A non-breaking space.
const HARD_SPACE: &str = "\u{a0}";

/// How a table is fitted to a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Each row on one line.
    Whole,
    /// Names and words are wrapped.
    Words,
    /// Pairs of figures are wrapped too, and columns are closer together.
    Pairs,
}

impl Fit {
    /// Returns the padding on either side of a cell.
    fn padding(self) -> (u16, u16) {
        match self {
            Fit::Whole | Fit::Words => (1, 1),
            Fit::Pairs => (0, 1),
        }
    }

    /// Returns the width of a column with its padding.
    fn width(self, column: &Column) -> usize {
        let (left, right) = self.padding();
        usize::from(left + right)
            + match self {
                Fit::Whole => column.cell.max(column.name),
                _ if column.is_words => column
                    .cell
                    .max(column.name)
                    .min(column.name_word.max(WORDS_WIDTH_MIN)),
                Fit::Words => column.cell.max(column.name_word),
                Fit::Pairs => column.part.max(column.name_word),
            }
    }

    /// Returns the first that fits this width; if none does, wrapping is left to the terminal.
    fn of(columns: &[Column], width: Option<u16>) -> Self {
        let Some(width) = width else {
            return Fit::Whole;
        };
        // The trailing space of a line is not printed.
        let fits = |fit: &Fit| {
            let all: usize = columns.iter().map(|column| fit.width(column)).sum();
            all <= usize::from(width) + 1
        };
        let all = [Fit::Whole, Fit::Words, Fit::Pairs];
        all.into_iter().find(fits).unwrap_or(Fit::Whole)
    }
}

/// Formats the table for a terminal of this width, if there is one.
fn arranged(header: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
    use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
    use comfy_table::{ColumnConstraint, Width};
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at));
    let columns: Vec<Column> = header
        .iter()
        .enumerate()
        .map(|(at, name)| Column::of(name, cells(at).map(String::as_str)))
        .collect();
    let fit = Fit::of(&columns, width);
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for row in rows {
        let cell = |(at, cell): (usize, &String)| match columns.get(at) {
            Some(column) if fit != Fit::Whole && !column.is_words => hard(cell),
            _ => cell.clone(),
        };
        table.add_row(row.iter().enumerate().map(cell));
    }
    if let Some(width) = width.filter(|_| fit != Fit::Whole) {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width.saturating_add(1));
    }
    for (at, (shape, column)) in columns.iter().zip(table.column_iter_mut()).enumerate() {
        column.set_padding(fit.padding());
        if at > 0 && !shape.is_words {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if fit != Fit::Whole && !shape.is_words {
            let width = u16::try_from(fit.width(shape)).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
    }
    table.trim_fmt().replace(HARD_SPACE, " ")
}

/// Makes spaces non-breaking, so that a figure wraps only between the figures of a pair, never before
/// its unit.
fn hard(cell: &str) -> String {
    let hard = cell.replace(' ', HARD_SPACE);
    hard.replace(&format!("/{HARD_SPACE}"), "/ ")
}

/// What a column of a table holds, and how many characters it needs.
struct Column {
    is_words: bool,
    /// Widths of the longest cell, the longest figure of a pair, the whole name, and the longest word
    /// of the name.
    cell: usize,
    part: usize,
    name: usize,
    name_word: usize,
}

impl Column {
    fn of<'c>(name: &str, cells: impl Iterator<Item = &'c str> + Clone) -> Self {
        let length = |text: &str| text.chars().count();
        let filled = cells.filter(|cell| !cell.is_empty());
        let begins = |cell: &str| cell.chars().next().is_some_and(char::is_alphabetic);
        // "12.3 s / 4.5 s" is a figure, "12 of 16 votes counted" is not.
        let is_text = |cell: &str| {
            let words = cell.split_whitespace();
            words
                .filter(|word| length(word) > 2 && begins(word))
                .count()
                > 1
        };
        Column {
            is_words: filled.clone().any(is_text)
                || (filled.clone().next().is_some() && filled.clone().all(begins)),
            cell: filled.clone().map(length).max().unwrap_or(0),
            part: filled
                .clone()
                .flat_map(|cell| hard(cell).split(' ').map(length).collect::<Vec<_>>())
                .max()
                .unwrap_or(0),
            name: length(name),
            name_word: name.split_whitespace().map(length).max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod table_tests {
    use super::arranged;

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row([
                "one",
                "1,048,576",
                "12.3 s / 4.5 s",
                "every vote that was cast is counted",
            ]),
            row(["another", "7", "-", "no"]),
        ]
    }

    const HEAD: [&str; 4] = ["preset", "votes of all", "first / last", "what it shows"];

    #[test]
    fn figures_are_at_the_right_and_words_at_the_left() {
        let wide = arranged(&HEAD, &rows(), None);
        let lines: Vec<&str> = wide.lines().collect();
        assert_eq!(lines.len(), 3, "{wide}");
        let at = |line: usize, part: &str| lines[line].rfind(part).unwrap();
        assert_eq!(at(0, "what it shows"), at(1, "every vote"));
        assert_eq!(at(2, "no"), at(1, "every vote"));
        assert_eq!(at(1, "1,048,576") + 8, at(2, "7"));
        assert_eq!(arranged(&HEAD, &rows(), Some(200)), wide);
    }

    #[test]
    fn a_narrow_terminal_wraps_words_and_leaves_figures_whole() {
        let narrow = arranged(&HEAD, &rows(), Some(60));
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 60),
            "{narrow}"
        );
        assert!(narrow.lines().count() > 3, "{narrow}");
        for whole in ["1,048,576", "12.3 s / 4.5 s"] {
            assert!(narrow.contains(whole), "{narrow}");
        }
        // Narrower still, pairs are wrapped between their figures.
        let pairs = arranged(&HEAD, &rows(), Some(46));
        assert!(
            pairs.lines().all(|line| line.chars().count() <= 46),
            "{pairs}"
        );
        assert!(
            pairs.contains("12.3 s /\n") || pairs.contains("12.3 s / "),
            "{pairs}"
        );
        assert!(
            pairs.contains("4.5 s") && !pairs.contains("12.3 s / 4.5 s"),
            "{pairs}"
        );
        // What cannot be wrapped is left to the terminal.
        assert_eq!(
            arranged(&HEAD, &rows(), Some(20)),
            arranged(&HEAD, &rows(), None)
        );
        assert_eq!(arranged(&[], &[], Some(20)), "");
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::overwrite::STORE;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    #[test]
    fn a_key_is_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let digits = "0x".to_owned() + &"5a".repeat(32);
        let hex = digits.as_bytes();
        let store = [STORE, &[0; 100_000]].concat();
        let cases: [(&[u8], u32, bool); 7] = [
            (&store, 0o644, true),
            (br#"{"crypto": {}, "version": 4}"#, 0o644, true),
            (br#"{"schema": 1}"#, 0o600, false),
            (hex, 0o600, true),
            (hex, 0o644, false),
            (&hex[..60], 0o600, false),
            (b"correct horse", 0o600, false),
        ];
        for (bytes, mode, is_key) in cases {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
            assert_eq!(holds_key(&path), is_key, "{shown}");
            let refused = json_target(path.clone().into_os_string()).is_err();
            assert_eq!(refused, is_key, "{shown}");
            assert_eq!(write_whole(&path, b"new").is_err(), is_key, "{shown}");
            let kept = std::fs::read(&path).unwrap() == bytes;
            assert_eq!(kept, is_key, "{shown}");
        }
    }

    #[test]
    fn files_are_replaced_and_everything_else_is_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write_whole(&at("file"), b"one").unwrap();
        symlink(at("file"), at("link")).unwrap();
        write_whole(&at("link"), b"two").unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(std::fs::read(at("file")).unwrap(), b"two");
        assert_ne!(
            std::fs::metadata(at("file")).unwrap().permissions().mode() & 0o066,
            0o600,
            "a report is as readable as the umask allows"
        );

        symlink(at("later"), at("dangling")).unwrap();
        write_whole(&at("dangling"), b"three").unwrap();
        assert_eq!(std::fs::read(at("later")).unwrap(), b"three");

        symlink("/dev/null", at("null")).unwrap();
        write_whole(&at("null"), b"four").unwrap();
        assert!(at("null").is_symlink());
        let null = std::fs::metadata("/dev/null").unwrap().file_type();
        assert!(null.is_char_device());

        let error = write_whole(folder.path(), b"five").unwrap_err();
        assert!(error.to_string().contains("directory"), "{error}");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            5,
            "no temporary file stays"
        );
    }

    #[test]
    fn places_that_cannot_be_written_are_refused_early() {
        let folder = tempfile::tempdir().unwrap();
        let target = |path: PathBuf| json_target(path.into_os_string());
        assert_eq!(target("-".into()).unwrap(), Path::new("-"));
        assert!(target(folder.path().join("new.json")).is_ok());
        assert!(!folder.path().join("new.json").exists());
        assert!(target(folder.path().into()).is_err());
        for no_file in ["", "new/", "..", "/"] {
            assert!(target(no_file.into()).is_err(), "{no_file:?}");
        }
        assert!(super::target("-".into()).is_err());
        let error = target(folder.path().join("missing/new.json")).unwrap_err();
        let folder = folder.path().join("missing");
        let expected = format!("there is no folder {}", folder.display());
        assert_eq!(error.to_string(), expected);
    }
}
