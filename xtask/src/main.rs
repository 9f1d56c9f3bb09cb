//! Repository checks: dependencies between crates, circles of imports, where `unsafe` may be, sizes, banned words.
#![forbid(unsafe_code)]

mod documents;
mod figures;
mod source;
mod tidy;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

Commands:
  tidy                check the rules of the house that no compiler lint knows (see CONTRIBUTING.md)
  documents [FILE...] run the commands that the documents show (all chapters of docs/, or the files that are
                      named) with the program in target/release
  figures --check     check every figure of the documents against results/
  figures --write     write every figure of the documents anew from results/
  figures --measure BINARY MACHINE [NAME...]
                      run the recipe results/recipe.toml into results/MACHINE/: what is missing there, or
                      what is named
";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["tidy"] => run_tidy(),
        ["documents", ..] => run_documents(&arguments[1..]),
        ["figures", "--check"] => run_figures(false),
        ["figures", "--write"] => run_figures(true),
        ["figures", "--measure", binary, machine, ..] => {
            let binary = PathBuf::from(binary).canonicalize()?;
            figures::measure(&root_folder()?, &binary, machine, &arguments[4..])?;
            Ok(ExitCode::SUCCESS)
        }
        ["help" | "-h" | "--help"] => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("{USAGE}");
            Ok(ExitCode::from(2))
        }
    }
}

/// Runs all checks; exit code 1 means that at least one of them failed.
fn run_tidy() -> anyhow::Result<ExitCode> {
    let tree = tree::Tree::from_git(&root_folder()?)?;
    let report = tidy::run(&tree)?;
    for warning in &report.warnings {
        println!("warning: {warning}");
    }
    for error in &report.errors {
        println!("error: {error}");
    }
    println!(
        "tidy: {} files, {} errors, {} warnings",
        tree.files.len(),
        report.errors.len(),
        report.warnings.len()
    );
    Ok(if report.errors.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the commands of documents; exit code 1 means that one of them failed.
fn run_documents(names: &[String]) -> anyhow::Result<ExitCode> {
    let root = root_folder()?;
    let tree = tree::Tree::from_git(&root)?;
    let failed = documents::run(&root, &tree, names)?;
    // Once more, all together: what each command printed is long.
    for line in &failed {
        println!("error: {line}");
    }
    println!("documents: {} errors", failed.len());
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Looks up the figures of all documents; with `write`, writes what differs.
fn run_figures(write: bool) -> anyhow::Result<ExitCode> {
    let root = root_folder()?;
    let tree = tree::Tree::from_git(&root)?;
    let outcome = figures::look_up(&tree)?;
    let mut errors = outcome.errors;
    errors.extend(figures::strangers(&root, &tree)?);
    for (path, text) in &outcome.changed {
        if write {
            std::fs::write(root.join(path), text)?;
            println!("figures: {path} written");
        } else {
            errors.push(format!(
                "{path}: not what `cargo xtask figures --write` writes"
            ));
        }
    }
    for error in &errors {
        println!("error: {error}");
    }
    println!(
        "figures: {} looked up, {} errors",
        outcome.count,
        errors.len()
    );
    Ok(if errors.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The workspace root: cargo names this package's folder when it runs us, otherwise we are called
/// by hand from the root.
fn root_folder() -> anyhow::Result<PathBuf> {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => Ok(PathBuf::from(package).join("..").canonicalize()?),
        None => Ok(std::env::current_dir()?),
    }
}
