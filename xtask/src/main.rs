//! Checks the house: arrows between crates, unsafe only in its rooms, sizes, banned words.
#![forbid(unsafe_code)]

mod source;
mod tidy;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

Commands:
  tidy    check the rules of the house that no compiler lint knows (see STYLE.md)
";

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("tidy"), None) => run_tidy(),
        (Some("help" | "-h" | "--help"), None) => {
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

/// The workspace root: cargo names this package's folder when it runs us, otherwise we are called
/// by hand from the root.
fn root_folder() -> anyhow::Result<PathBuf> {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => Ok(PathBuf::from(package).join("..").canonicalize()?),
        None => Ok(std::env::current_dir()?),
    }
}
