//! The state machines see time, randomness and the outside world only through their inputs.
//!
//! The same input log must give the same bytes on every machine, so the files checked here know no
//! clock, entropy, socket, file or thread, no container with a random order, and no function whose
//! result depends on the platform's mathematical library.

use super::Report;
use crate::source::{block_bytes, find_words};
use crate::tree::{File, Tree};

/// Folders whose every source file is pure.
const PURE_FOLDERS: &[&str] = &["crates/broadcast/src/", "crates/proto/src/"];

/// Modules that are pure: a file `NAME.rs` or a folder `NAME/`.
const PURE_MODULES: &[&str] = &[
    "crates/worker/src/plan",
    "crates/worker/src/cost",
    "crates/worker/src/bisect",
];

/// What is not pure, and why.
const IMPURE: &[(&str, &str)] = &[
    ("Instant", "reads a clock"),
    ("SystemTime", "reads a clock"),
    ("HashMap", "has a random order; use BTreeMap"),
    ("HashSet", "has a random order; use BTreeSet"),
    ("RandomState", "is random"),
    ("OsRng", "reads entropy"),
    ("getrandom", "reads entropy"),
    ("rand::", "reads entropy"),
    ("tokio", "runs threads"),
    ("rayon", "runs threads"),
];

/// Modules of `std` that reach outside.
const OUTSIDE: &[&str] = &["env", "fs", "io", "net", "os", "process", "thread"];

/// Methods of `f64` that the platform's library computes; `libm` gives the same bits everywhere.
const INEXACT: &[&str] = &[
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "exp",
    "exp2", "exp_m1", "hypot", "ln", "ln_1p", "log", "log10", "log2", "powf", "powi", "sin",
    "sin_cos", "sinh", "tan", "tanh",
];

/// Checks the code of pure files.
pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in tree.rust().filter(|file| is_pure(&file.path)) {
        for (index, line) in file.source.code.lines().enumerate() {
            check_line(file, index + 1, line, report);
        }
        check_grouped_imports(file, report);
    }
}

fn is_pure(path: &str) -> bool {
    let in_module = |module: &&str| {
        path.strip_prefix(*module)
            .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    PURE_FOLDERS.iter().any(|folder| path.starts_with(folder)) || PURE_MODULES.iter().any(in_module)
}

fn check_line(file: &File, number: usize, line: &str, report: &mut Report) {
    for (word, reason) in IMPURE.iter().filter(|(word, _)| has_path(line, word)) {
        report.error(
            file,
            number,
            format!("`{word}` {reason}; this module must be pure"),
        );
    }
    for module in OUTSIDE
        .iter()
        .filter(|module| has_path(line, &format!("std::{module}")))
    {
        let message = format!("`std::{module}` reaches outside; this module must be pure");
        report.error(file, number, message);
    }
    for method in INEXACT {
        let call = format!(".{method}(");
        let paths = ["f32", "f64"].map(|float| format!("{float}::{method}"));
        if line.contains(&call) || paths.iter().any(|path| has_path(line, path)) {
            let message =
                format!("`{method}` of a float differs by platform; use `libm::{method}`");
            report.error(file, number, message);
        }
    }
}

/// Whether `path` occurs as whole words.
fn has_path(line: &str, path: &str) -> bool {
    // A path that ends in `::` may be followed by a word.
    match path.strip_suffix("::") {
        Some(stem) => find_words(line, stem).any(|at| line[at + stem.len()..].starts_with("::")),
        None => find_words(line, path).next().is_some(),
    }
}

/// Finds `use std::{fs, ...}`, which no single line shows.
fn check_grouped_imports(file: &File, report: &mut Report) {
    let code = &file.source.code;
    for at in find_words(code, "std::{") {
        let open = at + "std::".len();
        let group = &code[open + 1..open + block_bytes(&code[open..])];
        let mut depth = 0_usize;
        let mut item = open + 1;
        let ends = group.char_indices().chain([(group.len(), ',')]);
        for (offset, c) in ends {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    let end = open + 1 + offset;
                    check_import(file, item, &code[item..end], report);
                    item = end + 1;
                }
                _ => {}
            }
        }
    }
}

fn check_import(file: &File, at: usize, item: &str, report: &mut Report) {
    let first = item
        .trim_start()
        .split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default();
    if OUTSIDE.contains(&first) {
        let blank = item.len() - item.trim_start().len();
        let line = file.source.code[..at + blank].matches('\n').count() + 1;
        let message = format!("`std::{first}` reaches outside; this module must be pure");
        report.error(file, line, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::errors;

    #[test]
    fn impure_code_is_found() {
        for line in [
            "let now = Instant::now();",
            "use std::time::SystemTime;",
            "use std::collections::HashMap;",
            "use std::collections::{BTreeMap, HashSet};",
            "let file = std::fs::read(path);",
            "use std::{fs, fmt};",
            "use std::{fmt, thread::{self, spawn}};",
            "let x = rand::random();",
            "let y = x.ln();",
            "let y = f64::powf(x, 2.0);",
        ] {
            for path in ["crates/proto/src/horn/a.rs", "crates/worker/src/plan.rs"] {
                let found = errors(check, &[(path, line)]);
                assert_eq!(found.len(), 1, "{line}: {found:?}");
            }
        }
    }

    #[test]
    fn the_line_of_a_grouped_import_is_named() {
        let text = "use std::{\n    fmt,\n    net::IpAddr,\n};";
        let found = errors(check, &[("crates/proto/src/a.rs", text)]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/proto/src/a.rs:3: `std::net`"),
            "{found:?}"
        );
    }

    #[test]
    fn pure_code_and_other_modules_pass() {
        let good = "use std::collections::{BTreeMap, VecDeque};\nuse std::{fmt, time::Duration};\n\
                    // an Instant, a HashMap\nlet y = libm::log(x) + x.sqrt();\nlet operand::X = z;\n\
                    let n = count.ilog2();";
        assert_eq!(
            errors(check, &[("crates/proto/src/a.rs", good)]),
            Vec::<String>::new()
        );
        let clock = "let now = Instant::now();";
        assert!(errors(check, &[("crates/worker/src/lane.rs", clock)]).is_empty());
        assert!(errors(check, &[("crates/worker/src/planner.rs", clock)]).is_empty());
    }
}
