//! The rules of the house that no compiler lint knows, one file a rule.
//!
//! Each check takes the tree and adds what it finds to a [`Report`]; each has a test with a bad
//! example that it must find and a good one that it must leave alone.

mod arrows;
mod circles;
mod conformance;
mod examples;
mod links;
mod manifests;
mod profiles;
mod purity;
mod scheme_names;
mod sentences;
mod sizes;
mod unsafe_rooms;
mod versions;
mod words;

use crate::tree::{File, Tree};
use manifests::Manifests;

/// What the checks found, as `path:line: message`.
#[derive(Default)]
pub(crate) struct Report {
    /// Broken rules.
    pub(crate) errors: Vec<String>,
    /// Soft limits passed.
    pub(crate) warnings: Vec<String>,
}

impl Report {
    /// A broken rule at `line` (from 1) of `file`.
    fn error(&mut self, file: &File, line: usize, message: impl AsRef<str>) {
        self.errors
            .push(format!("{}:{line}: {}", file.path, message.as_ref()));
    }

    /// A soft limit passed at `line` (from 1) of `file`.
    fn warning(&mut self, file: &File, line: usize, message: impl AsRef<str>) {
        self.warnings
            .push(format!("{}:{line}: {}", file.path, message.as_ref()));
    }
}

/// Runs every check.
///
/// # Errors
/// If a `Cargo.toml` or `conformance.toml` is not valid TOML.
pub(crate) fn run(tree: &Tree) -> anyhow::Result<Report> {
    let manifests = Manifests::read(tree)?;
    let mut report = Report::default();
    arrows::check(&manifests, &mut report);
    circles::check(tree, &mut report);
    versions::check(&manifests, &mut report);
    profiles::check(&manifests, &mut report);
    sentences::check(tree, &manifests, &mut report);
    unsafe_rooms::check(tree, &mut report);
    sizes::check(tree, &mut report);
    words::check(tree, &mut report);
    links::check(tree, &mut report);
    examples::check(tree, &mut report);
    scheme_names::check(tree, &mut report);
    purity::check(tree, &mut report);
    conformance::check(tree, &mut report)?;
    Ok(report)
}

/// What the tests of the checks share.
#[cfg(test)]
mod testing {
    use super::*;

    /// The errors of one check over a tree in memory.
    pub(super) fn errors(
        check: impl Fn(&Tree, &mut Report),
        files: &[(&str, &str)],
    ) -> Vec<String> {
        let mut report = Report::default();
        check(&Tree::from_memory(files), &mut report);
        report.errors
    }

    /// The errors of one check of manifests over a tree in memory.
    pub(super) fn manifest_errors(
        check: impl Fn(&Manifests<'_>, &mut Report),
        files: &[(&str, &str)],
    ) -> Vec<String> {
        let tree = Tree::from_memory(files);
        let manifests = Manifests::read(&tree).expect("the example is valid TOML");
        let mut report = Report::default();
        check(&manifests, &mut report);
        report.errors
    }
}
