//! Rust in the README is compiled: each of its blocks stands in the page of a crate, whose blocks are doctests.

use super::Report;
use crate::tree::Tree;

/// The page of the whole.
const FRONT: &str = "README.md";

/// Checks every block of Rust in the README.
pub(super) fn check(tree: &Tree, report: &mut Report) {
    let Some(front) = tree.get(FRONT) else { return };
    let is_page = |path: &str| path.starts_with("crates/") && path.ends_with("/README.md");
    let pages: Vec<_> = tree
        .files
        .iter()
        .filter(|file| is_page(&file.path))
        .collect();
    for block in front.text.split("```rust\n").skip(1) {
        let code = block.split("```").next().unwrap_or_default();
        if pages.iter().any(|page| page.text.contains(code)) {
            continue;
        }
        let line = front.line_of(code.lines().next().unwrap_or_default());
        report.error(
            front,
            line,
            "this example is in no crate's README.md, so nothing compiles it",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::errors;
    use super::check;

    #[test]
    fn an_example_that_nothing_compiles_is_found() {
        let page = "# alphorn\n```rust\nlet a = 1;\n```\n";
        let good = [("README.md", page), ("crates/bls/README.md", page)];
        assert!(errors(check, &good).is_empty());
        let found = errors(
            check,
            &[("README.md", page), ("crates/bls/README.md", "none")],
        );
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("README.md:3:"), "{found:?}");
    }
}
