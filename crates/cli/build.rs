//! Tells the binary which commit and compiler it was built from, so that every figure can name them.

use std::process::Command;

fn main() {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|text| !text.is_empty());
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    println!(
        "cargo::rustc-env=ALPHORN_COMMIT={commit}{}",
        if dirty { "-dirty" } else { "" }
    );
    // Cargo names the compiler that it uses.
    let compiler = std::env::var("RUSTC").ok().and_then(|rustc| {
        let output = Command::new(rustc).arg("--version").output().ok()?;
        String::from_utf8(output.stdout).ok()
    });
    let compiler = compiler.unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=ALPHORN_COMPILER={}", compiler.trim());
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/refs/heads");
    // What is dirty may be any crate.
    println!("cargo::rerun-if-changed=..");
}
