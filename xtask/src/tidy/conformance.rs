//! `conformance.toml` pins the digest of every wire format; here only its form is checked, the
//! digests are compared by the tests of the crates.

use std::collections::BTreeSet;

use anyhow::Context;
use toml::{Table, Value};

use super::Report;
use crate::tree::Tree;

/// The file of pinned digests.
const PINS: &str = "conformance.toml";

/// Checks that every entry has a unique name and a SHA-256 digest.
///
/// # Errors
/// If the file is not valid TOML.
pub(super) fn check(tree: &Tree, report: &mut Report) -> anyhow::Result<()> {
    let Some(file) = tree.get(PINS) else {
        return Ok(());
    };
    let table = file
        .text
        .parse::<Table>()
        .with_context(|| format!("{PINS} is not valid"))?;
    let mut names = BTreeSet::new();
    for (key, value) in &table {
        let Some(entries) = value.as_array() else {
            let message = format!("`{key}` must be an array of tables: [[{key}]]");
            report.error(file, file.line_of(key), message);
            continue;
        };
        for (index, entry) in entries.iter().enumerate() {
            let field = |field: &str| entry.get(field).and_then(Value::as_str);
            let Some(name) = field("name").filter(|name| !name.is_empty()) else {
                report.error(
                    file,
                    file.line_of(key),
                    format!("{key}[{index}] has no name"),
                );
                continue;
            };
            let line = file.line_of(&format!("\"{name}\""));
            if !field("sha256").is_some_and(is_digest) {
                let message = format!("`{name}` needs sha256 = 64 lower-case hexadecimal digits");
                report.error(file, line, message);
            }
            if !names.insert(name) {
                report.error(file, line, format!("`{name}` is pinned twice"));
            }
        }
    }
    Ok(())
}

fn is_digest(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let mut report = Report::default();
        let tree = Tree::from_memory(&[(PINS, text)]);
        check(&tree, &mut report).expect("the example is valid TOML");
        report.errors
    }

    fn pin(name: &str, digest: &str) -> String {
        format!("[[pin]]\nname = \"{name}\"\nsha256 = \"{digest}\"\n")
    }

    #[test]
    fn good_pins_pass() {
        let digest = "0123456789abcdef".repeat(4);
        assert!(errors(&(pin("vote", &digest) + &pin("aggregate", &digest))).is_empty());
        assert!(check(&Tree::from_memory(&[]), &mut Report::default()).is_ok());
    }

    #[test]
    fn bad_pins_are_found() {
        let digest = "0123456789abcdef".repeat(4);
        assert_eq!(errors(&pin("vote", &digest[1..])).len(), 1);
        assert_eq!(errors(&pin("vote", &digest.to_uppercase())).len(), 1);
        assert_eq!(
            errors(&pin("", &digest)),
            ["conformance.toml:1: pin[0] has no name"]
        );
        assert_eq!(
            errors(&(pin("vote", &digest) + &pin("vote", &digest))).len(),
            1
        );
        assert_eq!(errors("vote = 1").len(), 1);
    }

    #[test]
    fn text_that_is_not_toml_is_an_error() {
        let tree = Tree::from_memory(&[(PINS, "[[pin")]);
        assert!(check(&tree, &mut Report::default()).is_err());
    }
}
