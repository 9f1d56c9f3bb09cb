//! Completions and manual pages, through the binary.

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alphorn"))
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn each_shell_gets_a_script_with_the_commands_that_help_shows() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(output.stderr.is_empty(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["compare", "participation", "completions"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
        assert!(!script.contains("alphorn lane"), "{shell}");
        assert!(!script.contains("alphorn__lane"), "{shell}");
        assert!(!script.contains("alphorn;lane"), "{shell}");
    }
    let output = run(&["completions", "csh"]);
    assert_eq!(output.status.code(), Some(2));
    let refusal = String::from_utf8(output.stderr).unwrap();
    assert!(
        refusal.contains("csh") && refusal.contains("bash"),
        "{refusal}"
    );
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    for _ in 0..2 {
        let output = run(&["man", pages.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0));
    }
    for (page, has) in [
        ("alphorn.1", "alphorn\\-compare(1)"),
        ("alphorn-compare.1", "\\-\\-validators"),
        ("alphorn-sim-run.1", "Examples"),
        ("alphorn-bench-bls-verify.1", "\\-\\-bad"),
    ] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(has), "{page}: no {has}");
    }
    assert!(!pages.join("alphorn-lane.1").exists());
    assert!(!pages.join("alphorn-help.1").exists());

    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = run(&["man", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let refusal = String::from_utf8(output.stderr).unwrap();
    assert!(refusal.contains("cannot make the folder"), "{refusal}");
}
