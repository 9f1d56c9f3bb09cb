//! Words that have no place in the repository: unfinished work, the author's machine and tools.
//!
//! The words are written in pieces here, so that this file passes its own check.

use super::Report;
use crate::source::find_words;
use crate::tree::{File, Tree};

/// Macros and attributes of unfinished code.
const UNFINISHED: &[&str] = &[
    "todo!",
    "unimplemented!",
    "dbg!",
    "#[ignore",
    "allow(dead_code",
    "expect(dead_code",
];

/// Marks of unfinished text; upper case only.
const MARKS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
];

/// Folders of one machine.
const FOLDERS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// Hosts from which packages come: the tools know them, we do not.
const HOSTS: &[&str] = &[
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("registry.npmjs", ".org"),
    concat!("pypi", ".org"),
    concat!("files.pythonhosted", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("arti", "factory"),
];

/// Tools that wrote text; in lower case, found in any case.
const AUTHORS: &[&str] = &[
    concat!("anth", "ropic"),
    concat!("chat", "gpt"),
    concat!("clau", "de"),
    concat!("co", "pilot"),
    concat!("open", "ai"),
    concat!("ll", "m"),
    concat!("ll", "ms"),
    concat!("language ", "model"),
    concat!("ai ", "agent"),
    concat!("ai ", "assistant"),
    concat!("ai ", "session"),
    concat!("as an ", "ai"),
    concat!("ai-", "generated"),
    concat!("coding ", "agent"),
    concat!("sub", "agent"),
    concat!("system ", "prompt"),
];

/// Names in code that were replaced, and by what: one thing has one name (`docs/glossary.md`).
const RENAMED: &[(&str, &str)] = &[
    ("basket", "decoder"),
    ("chore", "job"),
    ("crew", "pool"),
    ("desk", "scheduler"),
    ("door", "admission"),
    ("errand", "job"),
    ("harvest", "findings"),
    ("laws", "lower_bounds"),
    ("station", "subscription"),
];

/// Checks code for unfinished macros and replaced names, and all text for the other words.
pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in &tree.files {
        for (index, line) in file.source.code.lines().enumerate() {
            let lower = line.to_ascii_lowercase();
            let old = |name: &&(&str, &str)| find_words(&lower, name.0).next().is_some();
            for (name, now) in RENAMED.iter().filter(old) {
                report.error(file, index + 1, format!("`{name}` is called `{now}`"));
            }
            for word in UNFINISHED
                .iter()
                .filter(|word| find_words(line, word).next().is_some())
            {
                report.error(file, index + 1, format!("`{word}` must not be committed"));
            }
        }
        if !is_data(file) {
            check_text(file, report);
        }
    }
}

/// Known answers are taken as they are.
fn is_data(file: &File) -> bool {
    file.path.starts_with("vectors/") && !file.path.ends_with(".md")
}

fn check_text(file: &File, report: &mut Report) {
    for (index, line) in file.text.lines().enumerate() {
        let lower = line.to_ascii_lowercase();
        let marks = MARKS
            .iter()
            .filter(|word| find_words(line, word).next().is_some());
        let authors = AUTHORS
            .iter()
            .filter(|word| find_words(&lower, word).next().is_some());
        let hosts = HOSTS
            .iter()
            .filter(|host| find_words(&lower, host).next().is_some());
        let folders = FOLDERS.iter().filter(|folder| has_absolute(line, folder));
        for word in marks.chain(authors) {
            report.error(
                file,
                index + 1,
                format!("the word `{word}` must not be committed"),
            );
        }
        for host in hosts {
            report.error(
                file,
                index + 1,
                format!("`{host}`: no registry host by name"),
            );
        }
        for folder in folders {
            report.error(
                file,
                index + 1,
                format!("`{folder}`: no path of one machine"),
            );
        }
    }
}

/// Whether an absolute path below `folder` occurs: nothing, or something that is no path, stands
/// before it.
fn has_absolute(line: &str, folder: &str) -> bool {
    let starts_path = |before: Option<char>| {
        before
            .is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '-' | '_' | '~' | '}' | '*'))
    };
    line.match_indices(folder)
        .any(|(at, _)| starts_path(line[..at].chars().next_back()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::errors;

    #[test]
    fn unfinished_code_is_found_in_code_only() {
        for line in [
            "todo!()",
            "x = dbg!(y);",
            "unimplemented!();",
            "#[ignore]",
            "#[ignore = \"\"]",
        ] {
            let found = errors(check, &[("crates/sim/src/a.rs", line)]);
            assert_eq!(found.len(), 1, "{line}: {found:?}");
        }
        assert_eq!(errors(check, &[("a.rs", "#[allow(dead_code)]")]).len(), 1);
        let good = "// `dbg!` is for debugging\nlet a = \"todo!\"; my_todo!(); ignored();";
        assert_eq!(errors(check, &[("a.rs", good)]), Vec::<String>::new());
    }

    #[test]
    fn each_word_is_found_in_any_text() {
        for word in MARKS.iter().chain(AUTHORS).chain(HOSTS) {
            for (path, text) in [
                ("a.rs", format!("// {word}: later")),
                ("b.md", format!("({word})")),
            ] {
                let found = errors(check, &[(path, &text)]);
                assert!(!found.is_empty(), "{word} in {path}");
            }
        }
        let found = errors(
            check,
            &[("a.md", &format!("one\n{}", AUTHORS[0].to_uppercase()))],
        );
        assert!(found[0].starts_with("a.md:2: the word"), "{found:?}");
    }

    #[test]
    fn replaced_names_are_found_in_code_only() {
        for (name, now) in RENAMED {
            let code = format!("fn take({name}: u8) {{}} // the {name}");
            let found = errors(check, &[("crates/sim/src/a.rs", &code)]);
            let expected = format!("crates/sim/src/a.rs:1: `{name}` is called `{now}`");
            assert_eq!(found, [expected], "{name}");
        }
        let good = "// a desk\nlet desktop = \"door\";";
        assert_eq!(errors(check, &[("a.rs", good)]), Vec::<String>::new());
    }

    #[test]
    fn ordinary_words_pass() {
        let good = "The session id, a password prompt, the user agent, hack and promptly.\n\
                    network/home/x ./work/x {dir}/root/x ~/home/y";
        assert_eq!(errors(check, &[("a.md", good)]), Vec::<String>::new());
    }

    #[test]
    fn machine_paths_are_found() {
        for folder in FOLDERS {
            for text in [
                format!("{folder}x"),
                format!("in \"{folder}x\""),
                format!("={folder}a/b"),
            ] {
                assert_eq!(errors(check, &[("a.md", &text)]).len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn known_answers_are_not_read() {
        let text = format!("{} {}", MARKS[0], FOLDERS[0]);
        assert!(errors(check, &[("vectors/a.json", &text)]).is_empty());
        assert_eq!(errors(check, &[("vectors/README.md", &text)]).len(), 2);
    }
}
