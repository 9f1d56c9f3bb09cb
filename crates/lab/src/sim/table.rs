//! Tables for drawing: CSV as written by this program, or objects of a JSON report.

use crate::input;
use anyhow::{Context, bail};
use serde_json::Value;
use std::path::Path;

/// Maximum size of a table in bytes.
const TABLE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of rows.
const ROWS_MAX: usize = 100_000;

/// A table of texts, by column name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Opens a file: `.json` holds a report, in which `rows` names an array of objects; anything else
    /// is CSV.
    pub(super) fn open(path: &Path, rows: &str) -> anyhow::Result<Table> {
        let text = input::text(path, TABLE_BYTES_MAX)?;
        let table = match path.extension().is_some_and(|end| end == "json") {
            true => Self::json(&text, rows),
            false => Self::csv(&text),
        };
        let table = table.with_context(|| path.display().to_string())?;
        if table.rows.len() > ROWS_MAX {
            let count = table.rows.len();
            bail!("{}: {count} rows, at most {ROWS_MAX}", path.display());
        }
        Ok(table)
    }

    fn csv(text: &str) -> anyhow::Result<Table> {
        let mut lines = text.lines().map(fields);
        let columns = lines.next().context("no head of a table")?;
        let mut rows = Vec::new();
        for (number, row) in (2..).zip(lines) {
            if row.len() != columns.len() {
                let (have, need) = (row.len(), columns.len());
                bail!("line {number}: {have} fields, its head has {need}");
            }
            rows.push(row);
        }
        Ok(Table { columns, rows })
    }

    fn json(text: &str, rows: &str) -> anyhow::Result<Table> {
        let report: Value = serde_json::from_str(text)?;
        let items = report.get(rows).and_then(Value::as_array);
        let items = items.with_context(|| format!("no array {rows:?}"))?;
        Ok(Self::of(items))
    }

    /// Builds a table whose columns are the paths of non-object values, such as `loss.best1`.
    fn of(items: &[Value]) -> Table {
        let mut columns: Vec<String> = Vec::new();
        let mut cells: Vec<Vec<(String, String)>> = Vec::new();
        for item in items {
            let mut found = Vec::new();
            flatten("", item, &mut found);
            for (name, _) in &found {
                if !columns.contains(name) {
                    columns.push(name.clone());
                }
            }
            cells.push(found);
        }
        let row = |found: Vec<(String, String)>| {
            let cell = |column: &String| {
                let cell = found.iter().find(|(name, _)| name == column);
                cell.map_or(String::new(), |(_, value)| value.clone())
            };
            columns.iter().map(cell).collect()
        };
        let rows = cells.into_iter().map(row).collect();
        Table { columns, rows }
    }

    /// Keeps the rows with this value in the column.
    pub(super) fn only(&mut self, column: &str, value: &str) -> anyhow::Result<()> {
        let at = self.position(column)?;
        self.rows.retain(|row| row[at] == value);
        Ok(())
    }

    /// Returns the values of a column, row by row.
    pub(super) fn column(&self, name: &str) -> anyhow::Result<Vec<&str>> {
        let at = self.position(name)?;
        Ok(self.rows.iter().map(|row| row[at].as_str()).collect())
    }

    fn position(&self, name: &str) -> anyhow::Result<usize> {
        let at = self.columns.iter().position(|column| column == name);
        at.with_context(|| format!("no column {name:?}, there are {}", self.columns.join(", ")))
    }
}

/// Formats the cases of a report as CSV without their lists: one line each, by the paths of their fields.
pub(crate) fn csv(cases: &[Value]) -> String {
    let table = Table::of(cases);
    let is_listed = |name: &String| name.split('.').any(|part| part.parse::<usize>().is_ok());
    let is_kept: Vec<bool> = table.columns.iter().map(|name| !is_listed(name)).collect();
    let line = |cells: &Vec<String>| {
        let kept = cells.iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept);
        let kept: Vec<String> = kept.map(|(cell, _)| quoted(cell)).collect();
        kept.join(",") + "\n"
    };
    line(&table.columns) + &table.rows.iter().map(line).collect::<String>()
}

/// Quotes a text as a CSV field (RFC 4180).
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn flatten(path: &str, value: &Value, found: &mut Vec<(String, String)>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(&below(name), value, found);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                flatten(&below(&i.to_string()), value, found);
            }
        }
        Value::Null => found.push((path.to_owned(), String::new())),
        Value::String(text) => found.push((path.to_owned(), text.clone())),
        other => found.push((path.to_owned(), other.to_string())),
    }
}

/// Splits a line of CSV into fields (RFC 4180); a field has no line break.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let field = fields.last_mut();
        match (letter, is_quoted) {
            ('"', true) if letters.peek() == Some(&'"') => {
                letters.next();
                field.expect("begins with one").push('"');
            }
            ('"', _) => is_quoted = !is_quoted,
            (',', false) => fields.push(String::new()),
            (letter, _) => field.expect("begins with one").push(letter),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_is_read_with_its_quotes() {
        let text = "name,\"a, b\",x\n\"one \"\"1\"\"\",2,\ntwo,3,4\n";
        let mut table = Table::csv(text).unwrap();
        assert_eq!(table.column("name").unwrap(), ["one \"1\"", "two"]);
        assert_eq!(table.column("x").unwrap(), ["", "4"]);
        table.only("a, b", "3").unwrap();
        assert_eq!(table.column("name").unwrap(), ["two"]);
        let error = table.column("y").unwrap_err().to_string();
        assert_eq!(error, "no column \"y\", there are name, a, b, x");
        assert!(Table::csv("a,b\n1\n").is_err());
        assert!(Table::csv("").is_err());
    }

    #[test]
    fn cases_are_written_as_they_are_read() {
        let cases = [
            serde_json::json!({ "a": { "b": 1.5 }, "list": [1, 2], "why": "so, \"he\" said" }),
            serde_json::json!({ "a": { "b": null }, "c": true }),
        ];
        let text = csv(&cases);
        assert_eq!(text, "a.b,why,c\n1.5,\"so, \"\"he\"\" said\",\n,,true\n");
        let table = Table::csv(&text).unwrap();
        assert_eq!(table.column("why").unwrap(), ["so, \"he\" said", ""]);
    }

    #[test]
    fn objects_are_rows_by_their_paths() {
        let text = r#"{"cases":[{"a":{"b":1.5},"c":[true,null]},{"d":"x"}]}"#;
        let table = Table::json(text, "cases").unwrap();
        assert_eq!(table.column("a.b").unwrap(), ["1.5", ""]);
        assert_eq!(table.column("c.0").unwrap(), ["true", ""]);
        assert_eq!(table.column("d").unwrap(), ["", "x"]);
        assert!(Table::json(text, "rows").is_err());
        assert!(Table::json("{", "cases").is_err());
    }
}
