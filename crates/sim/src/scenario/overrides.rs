//! Replaces values of a scenario by dotted path, for `--set` and sweeps.

use super::error::ScenarioError;
use toml::{Table, Value};

/// A value for a dotted path such as `link.loss_ppm` or `class.attester.up_mbps`.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The path. Tables in an array are addressed by name, or by index if none has that name.
    pub path: String,
    /// The value.
    pub value: Value,
}

/// Parses `path=value`, where the value is TOML or a bare word.
///
/// # Errors
/// [`ScenarioError::Invalid`] if `=` or the path is missing.
pub fn parse_override(text: &str) -> Result<Override, ScenarioError> {
    let Some((path, value)) = text.split_once('=') else {
        return Err(wrong(text, "", "expected PATH=VALUE".into()));
    };
    let (path, value) = (path.trim(), value.trim());
    if path.is_empty() || value.is_empty() {
        return Err(wrong(path, value, "expected PATH=VALUE".into()));
    }
    let parsed = toml::from_str::<Table>(&format!("v = {value}"));
    let value = match parsed {
        // A value with a line break could define further keys; it is then taken as a word.
        Ok(mut table) if table.len() == 1 => table.remove("v"),
        _ => None,
    };
    let bare = || {
        Value::String(
            text.split_once('=')
                .map_or("", |(_, v)| v)
                .trim()
                .to_owned(),
        )
    };
    Ok(Override {
        path: path.to_owned(),
        value: value.unwrap_or_else(bare),
    })
}

/// Replaces or adds the value at a path.
pub(super) fn apply(table: &mut Table, change: &Override) -> Result<(), ScenarioError> {
    let mut keys: Vec<&str> = change.path.split('.').collect();
    let last = keys.pop().unwrap_or_default();
    let mut place = table;
    let mut rest = keys.into_iter();
    while let Some(key) = rest.next() {
        let entry = place
            .entry(key)
            .or_insert_with(|| Value::Table(Table::new()));
        place = match entry {
            Value::Table(table) => table,
            Value::Array(items) => {
                // After an array, the next part of the path is not a key but the name or index of a table in
                // it.
                let name = rest.next().unwrap_or(last);
                let found = find(items, name);
                found.ok_or_else(|| unknown(change, format!("no {key} {name:?}")))?
            }
            _ => return Err(unknown(change, format!("{key} is no table"))),
        };
    }
    place.insert(last.to_owned(), change.value.clone());
    Ok(())
}

/// Finds a table in an array by its name first and then by its index, because a name may be a
/// number.
fn find<'a>(items: &'a mut [Value], name: &str) -> Option<&'a mut Table> {
    let named = |item: &Value| item.get("name").and_then(Value::as_str) == Some(name);
    let position = items.iter().position(named).or_else(|| name.parse().ok())?;
    items.get_mut(position)?.as_table_mut()
}

fn unknown(change: &Override, why: String) -> ScenarioError {
    wrong(&change.path, &change.value.to_string(), why)
}

fn wrong(key: &str, value: &str, why: String) -> ScenarioError {
    ScenarioError::Invalid {
        key: key.to_owned(),
        value: value.to_owned(),
        why,
    }
}
