//! As much YAML as configurations of BEAMSIM use: maps by indentation, with scalars.

use anyhow::{Result, anyhow, bail};
use std::collections::BTreeMap;

/// Lines at most.
const LINES_MAX: usize = 10_000;
/// Maps in maps at most.
const DEPTH_MAX: usize = 16;

/// The scalars of a document by their dotted path, with the number of their line.
pub(super) fn scalars(text: &str) -> Result<BTreeMap<String, (usize, String)>> {
    let mut found = BTreeMap::new();
    // The maps that are open: their indentation, and the key that opened them.
    let mut open: Vec<(usize, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if number > LINES_MAX {
            bail!("line {number}: more than {LINES_MAX} lines");
        }
        let line = without_comment(line).trim_end();
        let entry = line.trim_start_matches(' ');
        if entry.is_empty() || (entry == "---" && found.is_empty()) {
            continue;
        }
        let indent = line.len() - entry.len();
        let (key, value) = entry
            .split_once(':')
            .filter(|(_, value)| value.is_empty() || value.starts_with(' '))
            .ok_or_else(|| anyhow!("line {number}: expected `key: value`"))?;
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if key.is_empty() || key.starts_with('-') || !key.chars().all(letter) {
            bail!("line {number}: {key:?} is no key; lists and flow style are not read");
        }
        while open.last().is_some_and(|(outer, _)| *outer >= indent) {
            open.pop();
        }
        if open.len() >= DEPTH_MAX {
            bail!("line {number}: more than {DEPTH_MAX} maps in each other");
        }
        let outer: Vec<&str> = open.iter().map(|(_, key)| key.as_str()).collect();
        let path = [&outer[..], &[key]].concat().join(".");
        match scalar(value.trim(), number)? {
            None => open.push((indent, key.to_owned())),
            Some(value) => {
                if found.insert(path.clone(), (number, value)).is_some() {
                    bail!("line {number}: {path} was given before");
                }
            }
        }
    }
    Ok(found)
}

/// The line up to its comment.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '#') if before == ' ' => return &line[..at],
            _ => {}
        }
        before = letter;
    }
    line
}

/// A scalar without its quotes; none where a map begins.
fn scalar(text: &str, line: usize) -> Result<Option<String>> {
    if text.is_empty() {
        return Ok(None);
    }
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return match inner.strip_suffix(quote) {
                Some(inner) if !inner.contains([quote, '\\']) => Ok(Some(inner.to_owned())),
                _ => Err(anyhow!("line {line}: {text} is no plain string")),
            };
        }
    }
    if text.starts_with(['[', '{', '&', '*', '!', '|', '>', '%', '@', '`']) {
        bail!("line {line}: {text}: only numbers, words and quoted strings are read");
    }
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_by_their_indentation() {
        let text = "---\n# a comment\nbackend: ns3  # of NS-3\nroles:\n  group_count: 8\n\n  deep:\n    x: '# 1'\n\
                    topology: \"grid\"\n";
        let found = scalars(text).unwrap();
        let values: Vec<(&str, &str)> = found
            .iter()
            .map(|(k, (_, v))| (k.as_str(), v.as_str()))
            .collect();
        let expected = [
            ("backend", "ns3"),
            ("roles.deep.x", "# 1"),
            ("roles.group_count", "8"),
            ("topology", "grid"),
        ];
        assert_eq!(values, expected);
        assert_eq!(found["topology"].0, 9);
    }

    #[test]
    fn what_is_not_read_is_an_error_with_its_line() {
        for (text, part) in [
            ("a: 1\n- b", "line 2"),
            ("a: [1, 2]", "line 1"),
            ("a: 1\na: 2", "given before"),
            ("a: \"x", "no plain string"),
            ("word", "expected `key: value`"),
            ("a:b", "expected `key: value`"),
            ("\ta: 1", "is no key"),
            ("? a: 1", "is no key"),
        ] {
            let error = scalars(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        let deep: String = (0..20)
            .map(|i| format!("{}k{i}:\n", " ".repeat(i)))
            .collect();
        assert!(
            scalars(&deep)
                .unwrap_err()
                .to_string()
                .contains("maps in each other")
        );
    }
}
