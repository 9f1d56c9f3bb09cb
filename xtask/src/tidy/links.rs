//! Links of Markdown: what they lead to is there, and the book's list of chapters has every chapter.
//!
//! Documentation inside a crate is included as rustdoc, whose own lints know its links; of those only the
//! ones to files are checked here, and that a file which the book includes too has none to code: they
//! would lead nowhere in the book.

use super::Report;
use crate::tree::{File, Tree};
use std::collections::BTreeSet;

/// The book's chapters, and their list.
const BOOK: &str = "docs/";
const CHAPTERS: &str = "docs/SUMMARY.md";

/// Checks every link to a file or to a heading, every included file, and the list of chapters.
pub(super) fn check(tree: &Tree, report: &mut Report) {
    let mut chapters = BTreeSet::new();
    let included = included(tree);
    for file in tree.files.iter().filter(|file| is_markdown(file)) {
        for (line, target) in links(&file.text) {
            if file.path == CHAPTERS {
                chapters.insert(resolved(&file.path, target));
            }
            if is_code(file, target) && included.contains(&file.path) {
                let message =
                    format!("the link {target} leads nowhere in the book: name it as code");
                report.error(file, line, message);
            } else if let Some(wrong) = wrong(tree, file, target) {
                report.error(file, line, wrong);
            }
        }
    }
    let Some(list) = tree.get(CHAPTERS) else {
        return;
    };
    let inside = |file: &&File| file.path.starts_with(BOOK) && is_markdown(file);
    for file in tree.files.iter().filter(inside) {
        if file.path != CHAPTERS && !chapters.contains(&file.path) {
            report.error(list, 1, format!("the chapter {} is not listed", file.path));
        }
    }
}

fn is_markdown(file: &File) -> bool {
    file.path.ends_with(".md")
}

/// What the book includes from elsewhere.
fn included(tree: &Tree) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let chapters = tree.files.iter();
    for file in chapters.filter(|file| file.path.starts_with(BOOK) && is_markdown(file)) {
        for part in file.text.split("{{#include ").skip(1) {
            let target = part.split('}').next().unwrap_or_default();
            found.insert(resolved(&file.path, target));
        }
    }
    found
}

/// Whether a link of a crate's documentation leads to an item of code, which only rustdoc finds.
fn is_code(file: &File, target: &str) -> bool {
    file.path.starts_with("crates/")
        && !target.contains("://")
        && (target.contains("::") || !target.contains(['.', '/', '#']))
}

/// What is wrong with a link; none if it leads somewhere, or out of the repository.
fn wrong(tree: &Tree, file: &File, target: &str) -> Option<String> {
    let leads_out = ["http://", "https://", "mailto:"];
    if leads_out.iter().any(|scheme| target.starts_with(scheme)) || is_code(file, target) {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => file.path.clone(),
        path => resolved(&file.path, path),
    };
    let folder = format!("{}/", path.trim_end_matches('/'));
    let Some(found) = tree.get(&path) else {
        let is_folder = tree.files.iter().any(|file| file.path.starts_with(&folder));
        return (!is_folder).then(|| format!("the link {target} leads to no file: {path}"));
    };
    let known =
        heading.is_empty() || !is_markdown(found) || headings(&found.text).contains(heading);
    (!known).then(|| format!("the link {target} leads to no heading of {path}"))
}

/// The path from the root of what a file names beside itself.
fn resolved(from: &str, target: &str) -> String {
    let target = target.split_once('#').map_or(target, |(path, _)| path);
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Lines outside of code, from 1, with what is between backticks left out.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut is_code = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        let outside = line.split('`').step_by(2).collect::<String>();
        (!is_code).then_some((number, outside))
    })
}

/// Targets of links, pictures and included files, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let whole = text.lines().nth(number - 1).unwrap_or_default();
        for (open, close) in [("](", ')'), ("{{#include ", '}')] {
            for rest in whole.split(open).skip(1) {
                let target = rest.split([close, ' ']).next().unwrap_or_default();
                // A link in the prose, not one that is shown as code.
                if !target.is_empty() && line.contains(&format!("{open}{target}")) {
                    found.push((number, target));
                }
            }
        }
    }
    found
}

/// The names under which headings can be linked to.
fn headings(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        });
        names.insert(kept.collect());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::testing::errors;
    use super::check;

    #[test]
    fn what_is_there_may_be_linked() {
        let files = [
            (
                "README.md",
                "[a](docs/a.md), [own](#one-two) ![p](docs/img/p.svg)\n\n# One `two`\n",
            ),
            ("docs/SUMMARY.md", "- [A](a.md)\n- [B](deep/b.md)\n"),
            (
                "docs/a.md",
                "[up](../README.md#one-two) [b](deep/b.md) [f](deep) [web](https://a.b)\n",
            ),
            (
                "docs/deep/b.md",
                "{{#include ../../crates/x/src/LECTURE.md}} `[no](link.md)`\n",
            ),
            ("docs/img/p.svg", "<svg/>"),
            (
                "crates/x/src/LECTURE.md",
                "[web](https://a.b/c::d)\n```\n[code](none.md)\n```\n",
            ),
            (
                "crates/x/src/other/LECTURE.md",
                "[`Job`](crate::Job) [T](Table)\n",
            ),
        ];
        assert_eq!(errors(check, &files), [""; 0]);
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (files, message) in [
            (
                vec![("README.md", "a\n[b](docs/none.md)")],
                "README.md:2: the link docs/none.md leads to no file: docs/none.md",
            ),
            (
                vec![("README.md", "[b](#none)\n# Some\n")],
                "README.md:1: the link #none leads to no heading of README.md",
            ),
            (
                vec![
                    ("docs/a.md", "```\n# Not\n```\n[b](b.md#not)"),
                    ("docs/b.md", "# Other"),
                ],
                "docs/a.md:4: the link b.md#not leads to no heading of docs/b.md",
            ),
            (
                vec![("docs/a.md", "{{#include ../gone.md}}")],
                "docs/a.md:1: the link ../gone.md leads to no file: gone.md",
            ),
            (
                vec![
                    ("docs/SUMMARY.md", "[A](a.md)"),
                    ("docs/a.md", ""),
                    ("docs/b.md", ""),
                ],
                "docs/SUMMARY.md:1: the chapter docs/b.md is not listed",
            ),
            (
                vec![
                    ("crates/x/LECTURE.md", "[`Job`](crate::Job)"),
                    ("docs/a.md", "{{#include ../crates/x/LECTURE.md}}"),
                ],
                "crates/x/LECTURE.md:1: the link crate::Job leads nowhere in the book: name it as code",
            ),
            (
                vec![("crates/x/LECTURE.md", "[a](other.md)")],
                "crates/x/LECTURE.md:1: the link other.md leads to no file: crates/x/other.md",
            ),
        ] {
            assert_eq!(errors(check, &files), [message]);
        }
    }
}
