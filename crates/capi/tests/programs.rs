//! Programs in C against the static library: the examples, and what the border promises, under valgrind too.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Compiles a program with all warnings as errors.
fn compile(folder: &Path, source: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // In the folder of this test, where cargo has put the library for it.
    let here = std::env::current_exe().unwrap();
    let library = here.parent().unwrap().join("libalphorn_capi.a");
    let program = folder.join("program");
    let made = Command::new("cc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-g",
            "-O1",
        ])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .expect("a C compiler, as alphorn needs one anyway");
    assert!(made.status.success(), "{source}:\n{}", text(&made));
    program
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        text(&output)
    );
    text(&output)
}

#[test]
fn the_examples_run() {
    let folder = tempfile::tempdir().unwrap();
    let printed = run(&mut Command::new(compile(
        folder.path(),
        "examples/committee.c",
    )));
    assert_eq!(
        printed,
        "3 votes: verdict 0; a changed message: verdict 4 (collection 1 does not hold: verdict 4)\n"
    );
    let program = compile(folder.path(), "examples/one_time.c");
    let printed = run(Command::new(program).arg(folder.path().join("marks")));
    assert_eq!(
        printed,
        "1171 bytes: the signature holds\nagain: slot 5 is used: the next free slot of validator 0 in \
         role Vote is 6\n"
    );
    // It measures, and runs in tools/call_overhead.sh.
    compile(folder.path(), "examples/calls.c");
}

#[test]
fn the_border_holds() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "tests/border.c");
    run(Command::new(program).arg(folder.path()).arg("proofs"));
}

/// Without proofs, which take minutes under valgrind: those are in the soak tier.
#[test]
fn valgrind_finds_nothing() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "tests/border.c");
    let mut command = Command::new("valgrind");
    let command = command
        .args([
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
            "--show-leak-kinds=definite,indirect",
            "-q",
            // Forked processes end in the midst of the work.
            "--child-silent-after-fork=yes",
        ])
        .arg(program)
        .arg(folder.path());
    if cfg!(feature = "soak") {
        command.arg("proofs");
    }
    assert_eq!(run(command), "0 failures\n");
}
