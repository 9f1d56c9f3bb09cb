//! No file of a crate imports another that imports it back, directly or through others.
//!
//! A file is understood after what it imports, so there must be a first. Imports of `crate::` and `super::` paths count, outside tests;
//! re-exports do not, nor does what a module takes from its own children.

use super::Report;
use crate::source::{find_words, is_word};
use crate::tree::{File, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// Folders in whose files circles are left. An entry that is no longer needed is an error.
const LEFT: &[&str] = &["crates/proto/src/horn/"];

/// A module, as the names that lead to it from the root of its crate.
type Module = Vec<String>;

/// The imports of a file: the module, and a name that is taken from it.
type Arrows = BTreeMap<Module, String>;

/// Checks every crate.
pub(super) fn check(tree: &Tree, report: &mut Report) {
    check_with(tree, LEFT, report);
}

fn check_with(tree: &Tree, left: &[&str], report: &mut Report) {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &File>> = BTreeMap::new();
    for file in tree.rust() {
        if let Some((name, module)) = module_of(&file.path) {
            crates.entry(name).or_default().insert(module, file);
        }
    }
    let mut unused: BTreeSet<&str> = left.iter().copied().collect();
    for files in crates.values() {
        let arrows: BTreeMap<&Module, Arrows> = files
            .iter()
            .map(|(module, file)| (module, imports(module, file, files)))
            .collect();
        for circle in circles(&arrows) {
            let within = |folder: &&str| {
                let mut paths = circle.iter().map(|module| &files[*module].path);
                paths.all(|path| path.starts_with(*folder))
            };
            let message = words(&circle, &arrows);
            let first = files[circle[0]];
            match left.iter().copied().find(within) {
                Some(folder) => {
                    unused.remove(folder);
                    report.warning(first, 1, message);
                }
                None => report.error(first, 1, message),
            }
        }
    }
    for folder in unused {
        let message = format!("{folder}: tidy expects a circle of imports here, and there is none");
        report.errors.push(message);
    }
}

/// The crate of a source file that is no test, and its module.
fn module_of(path: &str) -> Option<(&str, Module)> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let mut module: Module = rest
        .strip_suffix(".rs")?
        .split('/')
        .map(str::to_owned)
        .collect();
    if module.iter().any(|part| part.ends_with("tests")) {
        return None;
    }
    if matches!(module.last()?.as_str(), "mod" | "lib" | "main") {
        module.pop();
    }
    Some((name, module))
}

/// What a file takes from other files of its crate.
fn imports(module: &Module, file: &File, files: &BTreeMap<Module, &File>) -> Arrows {
    let tests = file.source.test_lines();
    let is_test = |line: usize| tests.iter().any(|lines| lines.contains(&line));
    let lines = file.source.code.lines().enumerate();
    let code: Vec<&str> = lines
        .map(|(line, text)| if is_test(line) { "" } else { text })
        .collect();
    let code = code.join("\n");
    let mut arrows = Arrows::new();
    for at in find_words(&code, "use") {
        let before = code[..at].trim_end();
        let is_reexport = before.ends_with("pub") || before.ends_with(')');
        let rest = &code[at + "use".len()..];
        let Some(end) = rest.find(';') else { continue };
        if is_reexport || !rest.starts_with(char::is_whitespace) {
            continue;
        }
        for path in flatten(&rest[..end]) {
            let Some(path) = absolute(module, &path) else {
                continue;
            };
            let lengths = (1..=path.len()).rev();
            let target = lengths
                .map(|length| path[..length].to_vec())
                .find(|m| files.contains_key(m));
            if let Some(target) = target.filter(|target| target != module) {
                let name = path
                    .get(target.len())
                    .map_or("items", String::as_str)
                    .to_owned();
                arrows.entry(target).or_insert(name);
            }
        }
    }
    arrows
}

/// The paths of an import, with braces written out and new names left out.
fn flatten(import: &str) -> Vec<Vec<String>> {
    let import = import.split(" as ").next().unwrap_or_default().trim();
    let Some(open) = import.find('{') else {
        let parts = import.split("::").map(|part| part.trim().to_owned());
        return vec![parts.collect()];
    };
    let close = import.rfind('}').unwrap_or(import.len());
    let head: Vec<String> = import[..open]
        .split("::")
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect();
    let (mut depth, mut start, mut items) = (0_usize, open + 1, Vec::new());
    for (at, c) in import.char_indices().skip(open + 1) {
        match c {
            '{' => depth += 1,
            '}' if at < close => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                items.push(&import[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&import[start..close]);
    let items = items.into_iter().filter(|item| item.contains(is_word));
    items
        .flat_map(flatten)
        .map(|tail| [head.clone(), tail].concat())
        .collect()
}

/// A path from the root of the crate; none for a path into another crate, or of a child.
fn absolute(module: &Module, path: &[String]) -> Option<Vec<String>> {
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" => {
            let up = path.iter().take_while(|part| *part == "super").count();
            let kept = module.len().checked_sub(up)?;
            Some([&module[..kept], &path[up..]].concat())
        }
        _ => None,
    }
}

/// Sets of modules that reach each other.
fn circles<'a>(arrows: &BTreeMap<&'a Module, Arrows>) -> Vec<Vec<&'a Module>> {
    let reached = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = next.pop() {
            for target in arrows[&module].keys() {
                if seen.insert(target.clone()) {
                    next.push(target.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&Module, BTreeSet<Module>> =
        arrows.keys().map(|m| (*m, reached(m))).collect();
    let mut done = BTreeSet::new();
    let mut circles = Vec::new();
    for module in arrows.keys() {
        if !reach[*module].contains(*module) || done.contains(*module) {
            continue;
        }
        let back =
            |other: &&&Module| reach[*module].contains(**other) && reach[**other].contains(*module);
        let circle: Vec<&Module> = arrows.keys().filter(back).copied().collect();
        done.extend(circle.iter().copied());
        circles.push(circle);
    }
    circles
}

/// The arrows of a circle, in words.
fn words(circle: &[&Module], arrows: &BTreeMap<&Module, Arrows>) -> String {
    let mut text = format!("{} files import each other in a circle:", circle.len());
    let mut count = 0;
    for module in circle {
        for (target, name) in &arrows[*module] {
            if !circle.contains(&target) {
                continue;
            }
            count += 1;
            if count <= 6 {
                let [from, to] = [module.join("/"), target.join("/")];
                text += &format!(" {from} takes {name} from {to};");
            }
        }
    }
    match count {
        0..=6 => text,
        _ => format!("{text} and {} more", count - 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::errors;

    fn found(files: &[(&str, &str)], left: &[&str]) -> Vec<String> {
        errors(|tree, report| check_with(tree, left, report), files)
    }

    #[test]
    fn a_circle_is_found_through_braces_folders_and_others() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\npub use a::A;"),
            (
                "crates/x/src/a.rs",
                "use crate::{b::{self, B}, c as d};\npub struct A;",
            ),
            ("crates/x/src/b/mod.rs", "mod deep;\nuse std::fmt;"),
            ("crates/x/src/b/deep.rs", "use super::super::c::{\n  C,\n};"),
            ("crates/x/src/c.rs", "use crate::b::deep::D;"),
        ];
        let found = found(&files, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("crates/x/src/b/deep.rs:1: 2 files"),
            "{found:?}"
        );
        assert!(
            found[0].contains("b/deep takes C from c; c takes D from b/deep;"),
            "{found:?}"
        );
    }

    #[test]
    fn tests_reexports_children_and_other_crates_close_no_circle() {
        let files = [
            (
                "crates/x/src/a.rs",
                "mod deep;\nuse deep::D;\nuse crate::b::B;",
            ),
            ("crates/x/src/a/deep.rs", "use super::A;\nuse std::a::B;"),
            (
                "crates/x/src/b.rs",
                "pub use crate::a::A;\npub(crate) use crate::a::C;\n#[cfg(test)]\nmod tests {\n    use crate::a::D;\n}\n",
            ),
            ("crates/x/src/b/tests.rs", "use crate::a::A;"),
            ("crates/y/src/b.rs", "use crate::a::A;"),
            ("crates/y/src/a.rs", "fn use_of() { let user = 1; }"),
        ];
        assert_eq!(found(&files, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_circle_that_is_left_is_no_error_until_it_is_gone() {
        let files = [
            ("crates/x/src/f/a.rs", "use super::b::B;"),
            ("crates/x/src/f/b.rs", "use super::a::A;"),
        ];
        assert_eq!(found(&files, &["crates/x/src/f/"]), Vec::<String>::new());
        let gone = found(&files[..1], &["crates/x/src/f/"]);
        assert!(gone[0].contains("there is none"), "{gone:?}");
    }
}
