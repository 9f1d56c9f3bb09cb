//! Each crate is one sentence, the same in its manifest, its first line, the page of its package and the map.

use super::Report;
use super::manifests::Manifests;
use crate::tree::Tree;

/// The map of the house.
const MAP: &str = "ARCHITECTURE.md";

/// Checks the sentence of every crate under `crates/` and of `xtask`.
pub(super) fn check(tree: &Tree, manifests: &Manifests<'_>, report: &mut Report) {
    let map = tree.get(MAP).map(|file| (file, one_line(&file.text)));
    for member in &manifests.members {
        let folder = member.file.path.trim_end_matches("/Cargo.toml");
        let description = member
            .table
            .get("package")
            .and_then(|package| package.get("description"));
        let Some(sentence) = description.and_then(|description| description.as_str()) else {
            report.error(
                member.file,
                1,
                "no description: say in one sentence what the crate does",
            );
            continue;
        };
        if !sentence.ends_with('.') {
            let line = member.file.line_of("description");
            report.error(
                member.file,
                line,
                "the description must be a sentence with a full stop",
            );
        }
        let roots = ["lib.rs", "main.rs"].map(|name| format!("{folder}/src/{name}"));
        let Some(root) = roots.iter().find_map(|path| tree.get(path)) else {
            report.error(member.file, 1, "no src/lib.rs and no src/main.rs");
            continue;
        };
        let first = root.text.lines().next().unwrap_or_default();
        if first != format!("//! {sentence}") {
            let message = format!("the first line must be `//! {sentence}` as in Cargo.toml");
            report.error(root, 1, message);
        }
        let page = tree.get(&format!("{folder}/README.md"));
        let has_sentence = page.is_some_and(|page| one_line(&page.text).contains(sentence));
        if folder != "xtask" && !has_sentence {
            let message = format!("{folder}/README.md must be there and say \"{sentence}\"");
            report.error(member.file, 1, message);
        }
        if let Some((file, text)) = &map
            && folder != "xtask"
            && !text.contains(sentence)
        {
            let message = format!("the sentence of {folder} is missing: \"{sentence}\"");
            report.error(file, 1, message);
        }
    }
}

/// The text with every run of white space as one space, so that a sentence may be wrapped.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = (
        "crates/types/Cargo.toml",
        "[package]\nname = \"x\"\ndescription = \"Names things.\"",
    );

    const PAGE: (&str, &str) = (
        "crates/types/README.md",
        "# x\n\nNames\nthings. And more.\n",
    );

    fn errors(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::from_memory(files);
        let manifests = Manifests::read(&tree).expect("the example is valid TOML");
        let mut report = Report::default();
        check(&tree, &manifests, &mut report);
        report.errors
    }

    #[test]
    fn the_same_sentence_everywhere_passes() {
        let root = ("crates/types/src/lib.rs", "//! Names things.\n");
        assert!(errors(&[MANIFEST, PAGE, root]).is_empty());
        let map = ("ARCHITECTURE.md", "- `types`: Names\n  things.\n");
        assert!(errors(&[MANIFEST, PAGE, root, map]).is_empty());
    }

    #[test]
    fn other_sentences_are_found() {
        let found = errors(&[
            MANIFEST,
            PAGE,
            ("crates/types/src/lib.rs", "//! Names stuff.\n"),
        ]);
        assert_eq!(
            found,
            [
                "crates/types/src/lib.rs:1: the first line must be `//! Names things.` as in Cargo.toml"
            ]
        );
        let root = ("crates/types/src/lib.rs", "//! Names things.\n");
        let found = errors(&[MANIFEST, PAGE, root, ("ARCHITECTURE.md", "- `types`\n")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("ARCHITECTURE.md:1: "), "{found:?}");
        for page in [
            None,
            Some(("crates/types/README.md", "# x\n\nNames stuff.\n")),
        ] {
            let files: Vec<_> = [MANIFEST, root].into_iter().chain(page).collect();
            let found = errors(&files);
            assert_eq!(found.len(), 1);
            assert!(found[0].contains("README.md must be there"), "{found:?}");
        }
    }

    #[test]
    fn a_missing_or_open_sentence_is_found() {
        let bare = ("crates/types/Cargo.toml", "[package]\nname = \"x\"");
        assert!(errors(&[bare])[0].contains("no description"));
        let open = (
            "crates/types/Cargo.toml",
            "[package]\ndescription = \"Names things\"",
        );
        let found = errors(&[
            open,
            PAGE,
            ("crates/types/src/lib.rs", "//! Names things\n"),
        ]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/types/Cargo.toml:2: "),
            "{found:?}"
        );
    }
}
