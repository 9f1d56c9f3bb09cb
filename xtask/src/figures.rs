//! Figures of documents: every one is taken from a file under `results/`, by a recipe of `results/recipe.toml`.
//!
//! A document holds blocks
//!
//! ```text
//! <!-- figures FOLDER
//! TEMPLATE
//! -->
//! what the template comes to
//! <!-- /figures -->
//! ```
//!
//! `cargo xtask figures --write` writes the second part anew; `--check` fails if it differs, if a figure's
//! commit is not in the history, if its run failed, if what was not measured is not called what it is in its
//! paragraph, row or head of a column, if a time beside busy programs is not called an upper bound, and on a
//! number in a table of results that is in no template. [`template`] says what stands between braces.

mod measure;
mod results;
mod template;

pub(crate) use measure::measure;

use crate::tree::{File, Tree};
use anyhow::Context;
use results::Results;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Begin of a block, end of its template, end of the block.
const BEGIN: &str = "<!-- figures ";
const MIDDLE: &str = "-->";
const END: &str = "<!-- /figures -->";

/// The page that is to be read in a minute, and what it may hold.
const FRONT: &str = "README.md";
const FRONT_LINES_MAX: usize = 150;
const FRONT_FIGURES_MAX: usize = 40;
/// Pages whose tables hold figures alone.
const PAGES: &str = "docs/results/";

/// What the documents came to.
pub(crate) struct Outcome {
    /// Documents and their new text, where it differs from the old.
    pub(crate) changed: Vec<(String, String)>,
    /// What is wrong, as `path:line: message`.
    pub(crate) errors: Vec<String>,
    /// Figures that were looked up.
    pub(crate) count: usize,
}

/// Looks up every figure of every document.
///
/// # Errors
/// If a file of results is none, or the recipe.
pub(crate) fn look_up(tree: &Tree) -> anyhow::Result<Outcome> {
    let results = Results::read(tree)?;
    let mut outcome = Outcome {
        changed: Vec::new(),
        errors: Vec::new(),
        count: 0,
    };
    // Pictures that are drawn by hand have figures too: a comment of SVG is one of Markdown.
    let has_figures = |file: &&File| [".md", ".svg"].iter().any(|end| file.path.ends_with(end));
    for file in tree.files.iter().filter(has_figures) {
        document(file, &results, &mut outcome);
    }
    Ok(outcome)
}

/// A line of a document with its number, from 1.
type Line<'a> = (usize, &'a str);

fn document(file: &File, results: &Results, outcome: &mut Outcome) {
    let mut text = String::with_capacity(file.text.len());
    let mut lines = (1..).zip(file.text.lines()).peekable();
    let mut figures = 0;
    let mut outside: Vec<Line<'_>> = Vec::new();
    let complain = |outcome: &mut Outcome, line: usize, what: String| {
        outcome.errors.push(format!("{}:{line}: {what}", file.path));
    };
    while let Some((number, line)) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let Some(folder) = line.strip_prefix(BEGIN) else {
            outside.push((number, line));
            continue;
        };
        let mut template: Vec<Line<'_>> = Vec::new();
        let mut is_open = true;
        for (number, line) in lines.by_ref() {
            text.push_str(line);
            text.push('\n');
            if line == MIDDLE {
                is_open = false;
                break;
            }
            template.push((number, line));
        }
        let is_closed = lines.by_ref().any(|(_, line)| line == END);
        if is_open || !is_closed {
            complain(
                outcome,
                number,
                format!("a block of figures without {MIDDLE} or {END}"),
            );
            return;
        }
        let block = template::fill(folder.trim(), &template, results);
        figures += block.figures;
        for (line, what) in block.errors {
            complain(outcome, line, what);
        }
        text.push_str(&block.text);
        text.push_str(END);
        text.push('\n');
    }
    outcome.count += figures;
    if file.path.starts_with(PAGES) || file.path == FRONT {
        for (number, line) in numbers_by_hand(&outside) {
            complain(
                outcome,
                number,
                format!("a number that no file of results has: {line}"),
            );
        }
    }
    if file.path == FRONT {
        for what in front_is_long(file, figures) {
            complain(outcome, 1, what);
        }
    }
    if text != file.text {
        outcome.changed.push((file.path.clone(), text));
    }
}

/// What the page to be read in a minute has too much of.
fn front_is_long(file: &File, figures: usize) -> Vec<String> {
    let counts = [
        (file.text.lines().count(), "lines", FRONT_LINES_MAX),
        (figures, "figures", FRONT_FIGURES_MAX),
    ];
    let long = counts.into_iter().filter(|(count, _, max)| count > max);
    long.map(|(count, what, max)| format!("{count} {what}, at most {max}"))
        .collect()
}

/// Rows of tables outside of all blocks with a digit behind their first column.
fn numbers_by_hand<'a>(lines: &[Line<'a>]) -> Vec<Line<'a>> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (at, &(number, line)) in lines.iter().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        let is_header = lines
            .get(at + 1)
            .is_some_and(|(_, next)| next.starts_with("|-"));
        if !is_code && !is_header && template::has_figure_by_hand(line) {
            found.push((number, line));
        }
    }
    found
}

/// Words of a document that are names of commits, with their lines: seven to twelve digits of hex, a letter and
/// a number among them, behind the word `commit` in the same line, or in a column of that name.
fn named_commits(text: &str) -> Vec<Line<'_>> {
    let is_commit = |word: &&str| {
        let is_hex = |sign: char| sign.is_ascii_digit() || ('a'..='f').contains(&sign);
        (7..=12).contains(&word.len())
            && word.chars().all(is_hex)
            && word.contains(|sign: char| sign.is_ascii_digit())
            && word.contains(|sign: char| sign.is_ascii_lowercase())
    };
    let mut found = Vec::new();
    let mut column = None;
    for (number, line) in (1..).zip(text.lines()) {
        let cells = || line.split('|').map(str::trim);
        column = match line.starts_with('|') {
            true => column.or_else(|| cells().position(|cell| cell == "commit")),
            false => None,
        };
        let behind = line.split_once("commit").map(|(_, behind)| behind);
        let there = behind.or_else(|| cells().nth(column?)).unwrap_or_default();
        let words = there.split(|sign: char| !sign.is_ascii_alphanumeric());
        found.extend(words.filter(is_commit).map(|word| (number, word)));
    }
    found
}

/// Commits of figures that the history does not have, with a file of each; none where the history is cut off.
///
/// # Errors
/// If git cannot be asked.
pub(crate) fn strangers(root: &Path, tree: &Tree) -> anyhow::Result<Vec<String>> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let output = command.args(arguments).current_dir(root).output();
        output.context("cannot run git")
    };
    let shallow = git(&["rev-parse", "--is-shallow-repository"])?;
    if String::from_utf8_lossy(&shallow.stdout).trim() == "true" {
        println!("figures: the history is cut off, so commits are not looked for");
        return Ok(Vec::new());
    }
    let results = Results::read(tree)?;
    let documents = tree.files.iter().filter(|file| file.path.ends_with(".md"));
    let mut errors = Vec::new();
    for file in documents.clone() {
        for (line, text) in (1..).zip(file.text.lines()) {
            if text.contains("commit ") && text.contains("-dirty") {
                errors.push(format!(
                    "{}:{line}: of a program with uncommitted changes",
                    file.path
                ));
            }
        }
    }
    let named = documents.flat_map(|file| {
        let of = named_commits(&file.text).into_iter();
        of.map(move |(line, commit)| (format!("{}:{line}", file.path), commit))
    });
    let commits = results.commits();
    let all = commits
        .map(|(path, commit)| (path.to_owned(), commit))
        .chain(named);
    let mut known = BTreeSet::new();
    for (path, commit) in all {
        if known.contains(commit) {
            continue;
        }
        let is_there = git(&["merge-base", "--is-ancestor", commit, "HEAD"])?;
        if is_there.status.success() {
            known.insert(commit);
        } else {
            errors.push(format!("{path}: commit {commit} is not in the history"));
        }
    }
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = r#"{"kind": "measured", "commit": "abc", "ours_s": 0.0123, "peer_s": 0.0246, "none": 0,
        "cases": [{"op": "sign", "s": 2e-4}, {"op": "verify", "s": 1.0, "kind": "modelled"},
        {"s": 5e-3, "set": {"protocol.strategy": "\"rs\""}}],
        "sweep": [{"set": {"a.b": "\"x\""}, "seed": 1, "ms": 8100, "slot": {"ns": 1500}, "fits": true},
            {"set": {"a.b": "\"x\""}, "seed": 2, "ms": 8300, "slot": null},
            {"set": {"a.b": "\"x\""}, "seed": 3, "ms": 8200, "slot": null}]}"#;
    const RUNS: &str = r#"{"runs": [{"kind": "measured", "commit": "abc", "s": 0.3, "t": 0.1, "ns": 1500},
        {"kind": "measured", "commit": "abc", "s": 0.1, "t": 0.1, "ns": 2000},
        {"kind": "measured", "commit": "abc", "s": 0.2, "t": 0.2, "ns": 1000}]}"#;
    const OTHER_RUNS: &str = r#"{"runs": [{"kind": "measured", "commit": "abd", "s": 0.1},
        {"kind": "measured", "commit": "abd", "s": 0.2}, {"kind": "measured", "commit": "abd", "s": 0.9}]}"#;

    const BUSY: &str = r#"{"kind": "measured", "load": {"others": 0.24}, "s": 0.3, "bytes": 7,
        "modelled": {"kind": "modelled", "s": 1}}"#;
    const FAILED: &str = r#"{"kind": "measured", "exit_code": 1, "s": 0.3}"#;
    const RECIPE: &str = "[[figure]]\nname = \"known\"\nline = \"devnet\"\nmay_fail = true\n";

    fn look(page: &str) -> Outcome {
        let tree = Tree::from_memory(&[
            ("docs/results/page.md", page),
            ("results/box/one.json", RESULT),
            ("results/box/three.json", RUNS),
            ("results/box/others.json", OTHER_RUNS),
            ("results/box/busy.json", BUSY),
            ("results/box/failed.json", FAILED),
            ("results/box/known.json", FAILED),
            ("results/recipe.toml", RECIPE),
            (
                "results/targets.json",
                r#"{"kind": "target", "ours_s": 0.01}"#,
            ),
        ]);
        look_up(&tree).unwrap()
    }

    fn block(template: &str) -> String {
        format!("<!-- figures box\n{template}\n-->\nold\n<!-- /figures -->\n")
    }

    /// What a template comes to.
    fn filled(template: &str) -> (String, Vec<String>) {
        let outcome = look(&block(template));
        let text = outcome.changed.first().map_or("", |(_, text)| text);
        let filled = text.split_once("\n-->\n").map_or("", |(_, rest)| rest);
        let filled = filled.trim_end().trim_end_matches(END).trim_end();
        (filled.to_owned(), outcome.errors)
    }

    #[test]
    fn figures_come_from_results() {
        let none: Vec<String> = Vec::new();
        for (template, text) in [
            ("It takes {one#/ours_s:time}.", "It takes 12.3 ms."),
            ("{one#/peer_s // one#/ours_s:x}", "2.0x"),
            ("{one#/cases[op=sign]/s:time}", "200 µs"),
            ("{one#/ours_s + one#/peer_s // one#/ours_s:x}", "3.0x"),
            ("{one#/cases[protocol.strategy=rs]/s:time}", "5.00 ms"),
            ("{one#/sweep[a.b=x,seed=1]/slot/ns:ns}", "1.50 µs"),
            ("{one#/sweep[a.b=x,seed=1]/fits:text}", "yes"),
            ("{one#/sweep[a.b=x,seed=2]/slot/ns:time}", "never"),
            ("{one#/sweep[a.b=x,seed=2]/slot/ns:bytes}", "-"),
            ("{one#/sweep[a.b=x,seed=*]/ms:ms}", "8.20 s"),
            (
                "{one#/sweep[a.b=x,seed=*]/ms - one#/sweep[seed=1]/ms:ms}",
                "100 ms",
            ),
            ("{one#/cases[op=sign]/s:odds}", "1 in 5,000"),
            ("{three#/s:time}", "200 ms"),
            ("{three#/s:range}", "100 to 300 ms"),
            ("{three#/s:mean}", "200 ± 100 ms"),
            ("{three#/ns:ns-range}", "1.00 to 2.00 µs"),
            ("{one#/ours_s:mean}", "12.3 ± - ms"),
            ("{three#/s:time>8}|", "  200 ms|"),
            (
                "{one#/ours_s <= /targets#/ours_s:verdict}",
                "missed by 23 %",
            ),
            ("{one#/none <= one#/none:verdict}", "met"),
            ("{one#/ours_s <= one#/none:verdict}", "missed"),
            ("{/targets#/ours_s:time}", "10.0 ms"),
        ] {
            assert_eq!(
                filled(template),
                (text.to_owned(), none.clone()),
                "{template}"
            );
        }
    }

    #[test]
    fn only_runs_of_one_file_pair() {
        for (ratio, text) in [
            // 3, 1 and 1 run by run; of the medians it would be 2.
            ("{three#/s // three#/t:x}", "1.0x"),
            ("{three#/s // three#/t:x-range}", "1.0x to 3.0x"),
            // The medians, of 200 ms each; run by run it would be 0.5.
            ("{three#/s // others#/s:x}", "1.0x"),
            ("{three#/s // /box/others#/s:x}", "1.0x"),
        ] {
            assert_eq!(filled(ratio), (text.to_owned(), Vec::new()), "{ratio}");
        }
        let (_, errors) = filled("{three#/s + others#/s:time}");
        assert!(errors[0].contains("parts of different runs"), "{errors:?}");
    }

    #[test]
    fn what_was_not_measured_is_called_what_it_is() {
        let bare = filled("{one#/cases[op=verify]/s:time}");
        assert!(
            bare.1[0].contains("is modelled, and not called so"),
            "{bare:?}"
        );
        let named = filled("{one#/cases[op=verify]/s:time}, modelled");
        assert_eq!(named, ("1.00 s, modelled".to_owned(), Vec::new()));
        let table = "| what | here (modelled) | there |\n|---|---|---|\n| verify | X | Y |";
        let figure = "{one#/cases[op=verify]/s:time}";
        assert_eq!(filled(&table.replace('X', figure)).1, Vec::<String>::new());
        assert_eq!(filled(&table.replace('Y', figure)).1.len(), 1);
        // A sentence about a column is not enough, nor one about another paragraph; one about all is.
        for (lead, errors) in [
            ("The last column is modelled.", 1),
            ("All of this is *modelled*:", 0),
            ("All of it is real. One column is modelled.", 1),
        ] {
            let table = format!("{lead}\n\n{}", table.replace('Y', figure));
            assert_eq!(filled(&table).1.len(), errors, "{lead}");
            assert_eq!(filled(&format!("{lead}\n\n{figure}")).1.len(), errors);
        }
        let mixed = filled("{one#/cases[op=verify]/s - one#/ours_s:time} (modelled)");
        assert!(mixed.1[0].contains("different kinds"), "{mixed:?}");
        let plan = filled("{one#/cases[op=verify]/s - /targets#/ours_s:time} (modelled)");
        assert_eq!(plan.1, Vec::<String>::new());
    }

    #[test]
    fn times_beside_busy_programs_are_upper_bounds_and_failed_runs_are_none() {
        for (template, wrong) in [
            ("{busy#/s:time}", "not called an upper bound"),
            ("{busy#/s // one#/ours_s:time}", "not called an upper bound"),
            ("{failed#/s:time}", "results/box/failed.json failed"),
        ] {
            let errors = filled(template).1;
            assert!(errors.len() == 1 && errors[0].contains(wrong), "{errors:?}");
        }
        for template in [
            "{busy#/s:time}, an upper bound",
            "{busy#/s // one#/ours_s:x}",
            "{busy#/bytes:bytes}",
            "{busy#/modelled/s:time}, modelled",
            "| took | other programs |\n|---|---|\n| {busy#/s:time} | {busy#/load/others:pct} |",
            "{known#/s:time}",
        ] {
            assert_eq!(filled(template).1, Vec::<String>::new(), "{template}");
        }
    }

    #[test]
    fn numbers_by_hand_are_found() {
        let table = "| what | s |\n|---|---|\n| 512 votes | 3.2 |\n";
        assert_eq!(look(table).errors.len(), 1);
        assert_eq!(look(&table.replace("3.2", "-")).errors.len(), 0);
        assert_eq!(look(&block(table.trim())).errors.len(), 1);
        assert_eq!(look(&format!("```\n{table}```\n")).errors.len(), 0);
        assert!(look("<!-- figures box\n").errors[0].contains("without"));
        for (template, text) in [
            ("{one#/nothing:time}", "/nothing"),
            ("{zero#/ours_s:time}", "results/box/zero.json"),
            ("{one#/ours_s:weeks}", "weeks"),
            ("{one#/cases[op=hash]/s:time}", "op=hash"),
            ("{one#/cases[op=*]/s:time}", "measured and modelled"),
            (
                "{one#/sweep[a.b=x,seed=2]/slot/ns <= /targets#/ours_s:verdict}",
                "no verdict",
            ),
            (
                "{/targets#/ours_s <= one#/sweep[a.b=x,seed=2]/slot/ns:verdict}",
                "no verdict",
            ),
        ] {
            let errors = filled(template).1;
            assert!(errors.len() == 1 && errors[0].contains(text), "{errors:?}");
        }
    }

    #[test]
    fn documents_name_commits_of_the_history() {
        let text = "at commit 81c49c1, and aa9c728\nabc1234 alone\nsee commit 12345678 or commit deadbeef\n";
        assert_eq!(named_commits(text), [(1, "81c49c1"), (1, "aa9c728")]);
        let table = "| run | commit | figure |\n|---|---|---|\n| abc1234 | 81c49c1 | abc1234 |\n\n| run | at |\n\
                     |---|---|\n| x | abc1234 |\n";
        assert_eq!(named_commits(table), [(3, "81c49c1")]);
    }

    #[test]
    fn what_was_written_is_not_written_again() {
        let outcome = look(&block("It takes {one#/ours_s:time}."));
        let (_, text) = &outcome.changed[0];
        assert!(look(text).changed.is_empty());
        assert_eq!(outcome.count, 1);
    }
}
