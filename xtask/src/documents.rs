//! Runs the commands that the documents show, as they are written.
//!
//! Each fenced block of `sh` in the README and under `docs/` runs by bash with `-e`; those of a document run one
//! after the other: the README's at the root, those of a chapter in an empty folder with `vectors/`,
//! `examples/` and `tools/` in it, all with an empty home. Lines of comments straight above a block say otherwise:
//!
//! ```text
//! <!-- not run: WHY -->         it is shown alone
//! <!-- run as: COMMAND -->      this runs in its place: the same at a smaller size
//! <!-- prints: TEXT -->         what it prints must contain the text
//! ```
//!
//! A comment `<!-- saved as: NAME -->` above a block of any other language: it becomes that file of the folder, for
//! the commands behind it.
//!
//! A comment `<!-- alphorn COMMAND -->` above a block without a language: the block is what the command
//! prints, times and the machine aside.

use crate::tree::{File, Tree};
use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a fenced block of a document is for.
#[derive(Debug, PartialEq, Eq)]
enum Block {
    /// Commands, what runs in their place, and what they must print.
    Run {
        line: usize,
        script: String,
        prints: Vec<String>,
    },
    /// Shown and not run, and why.
    Shown { line: usize, why: String },
    /// A file for the commands behind it.
    Saved {
        line: usize,
        name: String,
        text: String,
    },
    /// What `alphorn` prints.
    Output {
        line: usize,
        command: String,
        text: String,
    },
}

/// Where commands run.
struct Place<'a> {
    root: &'a Path,
    home: &'a Path,
    /// Folder of the program.
    programs: &'a Path,
    /// Whether what commands print is shown while they run.
    is_loud: bool,
}

/// Runs the commands of the documents that are named, of all chapters if none is; a line for each that failed.
///
/// # Errors
/// If a document is not there or bash cannot be run.
pub(crate) fn run(root: &Path, tree: &Tree, names: &[String]) -> anyhow::Result<Vec<String>> {
    for name in names {
        ensure!(
            tree.get(name).is_some(),
            "{name}: there is no such document"
        );
    }
    let is_wanted = |file: &&File| match names {
        [] => file.path.starts_with("docs/") && file.path.ends_with(".md"),
        names => names.contains(&file.path),
    };
    let home = tempfile::tempdir()?;
    let programs = target(root).join("release");
    let place = Place {
        root,
        home: home.path(),
        programs: &programs,
        is_loud: !names.is_empty(),
    };
    let mut failed = Vec::new();
    for file in tree.files.iter().filter(is_wanted) {
        failed.extend(document(&place, file)?);
    }
    Ok(failed)
}

/// The folder of cargo's output.
fn target(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

fn document(place: &Place<'_>, file: &File) -> anyhow::Result<Vec<String>> {
    let blocks = blocks(&file.text);
    if blocks.is_empty() {
        return Ok(Vec::new());
    }
    let folder = tempfile::tempdir()?;
    #[cfg(unix)]
    for shown in ["vectors", "examples", "tools"] {
        std::os::unix::fs::symlink(place.root.join(shown), folder.path().join(shown))?;
    }
    let is_chapter = file.path.starts_with("docs/");
    let folder = if is_chapter {
        folder.path()
    } else {
        place.root
    };
    let mut failed = Vec::new();
    for block in blocks {
        let start = Instant::now();
        let (line, what, wrong) = match block {
            Block::Shown { line, why } => {
                println!("-- {}:{line}: not run: {why}", file.path);
                continue;
            }
            Block::Run {
                line,
                script,
                prints,
            } => {
                println!("-- {}:{line}: {}", file.path, script.trim_end());
                let (is_fine, output) = bash(place, folder, &script)?;
                let missing = prints.iter().find(|text| !output.contains(*text));
                let wrong = match missing {
                    _ if !is_fine => Some(format!("failed:\n{output}")),
                    Some(text) => Some(format!("does not print {text:?}:\n{output}")),
                    None => None,
                };
                (line, script, wrong)
            }
            Block::Saved { line, name, text } => {
                println!("-- {}:{line}: saved as {name}", file.path);
                let wrong = save(folder, &name, &text).err();
                (line, name, wrong.map(|error| error.to_string()))
            }
            Block::Output {
                line,
                command,
                text,
            } => {
                println!("-- {}:{line}: alphorn {command}", file.path);
                let (is_fine, output) =
                    bash(place, folder, &format!("alphorn {command} 2>/dev/null\n"))?;
                let wrong = match difference(&text, &output) {
                    _ if !is_fine => Some(format!("failed:\n{output}")),
                    other => other,
                };
                (line, command, wrong)
            }
        };
        println!("   {:.1} s", start.elapsed().as_secs_f64());
        if let Some(wrong) = wrong {
            let first = wrong.lines().next().unwrap_or_default();
            let said = if place.is_loud { first } else { &wrong };
            let of = format!("{}:{line}: {}", file.path, what.trim_end());
            println!("error: {of}: {said}");
            failed.push(format!("{of}: {first}"));
        }
    }
    Ok(failed)
}

/// Writes a file of a document into its folder.
fn save(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    ensure!(
        name.chars().all(is_plain) && !name.starts_with('.'),
        "not a plain name of a file"
    );
    std::fs::write(folder.join(name), text)?;
    Ok(())
}

/// Whether a script ends well, and all that it prints.
fn bash(place: &Place<'_>, folder: &Path, script: &str) -> anyhow::Result<(bool, String)> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command
        .args([
            "-e",
            "-o",
            "pipefail",
            "-c",
            &format!("exec 2>&1\n{script}"),
        ])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", place.programs.display()))
        .stdin(Stdio::null());
    // An empty home, but cargo's own folders are those of who runs this.
    let old_home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    for (name, default) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let here = std::env::var_os(name).map_or_else(|| old_home.join(default), PathBuf::from);
        command.env(name, here);
    }
    command.env("HOME", place.home);
    for name in ["XDG_CACHE_HOME", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    // What cargo tells the programs that it runs is of this one: build scripts would run again for it. And a
    // command of a document has no options but those that stand there.
    for (name, _) in std::env::vars_os() {
        let is_of_others = ["CARGO_PKG_", "CARGO_MANIFEST_", "ALPHORN_"]
            .iter()
            .any(|prefix| name.to_string_lossy().starts_with(prefix));
        if is_of_others {
            command.env_remove(name);
        }
    }
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run bash")?;
    let mut text = String::new();
    let mut lines = BufReader::new(child.stdout.take().context("no output")?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let read = String::from_utf8_lossy(&line);
        if place.is_loud {
            print!("{read}");
        }
        text.push_str(&read);
        line.clear();
    }
    Ok((child.wait()?.success(), text))
}

/// The blocks of a document that are commands or their output.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut notes: Vec<&str> = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((line, content)) = lines.next() {
        if let Some(note) = content
            .strip_prefix("<!-- ")
            .and_then(|c| c.strip_suffix(" -->"))
        {
            notes.push(note);
            continue;
        }
        let Some(language) = content.strip_prefix("```") else {
            notes.clear();
            continue;
        };
        let inside = lines.by_ref().map(|(_, line)| line);
        let inside: Vec<&str> = inside.take_while(|line| !line.starts_with("```")).collect();
        let inside = inside.join("\n") + "\n";
        let of = |prefix: &str| -> Vec<&str> {
            notes
                .iter()
                .filter_map(|note| note.strip_prefix(prefix))
                .collect()
        };
        match language {
            "sh" => found.push(match of("not run: ").first() {
                Some(why) => Block::Shown {
                    line,
                    why: (*why).to_owned(),
                },
                None => Block::Run {
                    line,
                    script: match of("run as: ")[..] {
                        [] => inside,
                        ref instead => instead.join("\n") + "\n",
                    },
                    prints: of("prints: ").into_iter().map(str::to_owned).collect(),
                },
            }),
            "" => {
                let commands = of("alphorn ");
                found.extend(commands.first().map(|command| Block::Output {
                    line,
                    command: (*command).to_owned(),
                    text: inside.clone(),
                }));
            }
            _ => {
                let names = of("saved as: ");
                found.extend(names.first().map(|name| Block::Saved {
                    line,
                    name: (*name).to_owned(),
                    text: inside.clone(),
                }));
            }
        }
        notes.clear();
    }
    found
}

/// The first line in which two outputs differ, those with times or a machine aside. Lines are compared word by word:
/// a column of times is as wide as the widest of them, and its heading with it.
fn difference(shown: &str, printed: &str) -> Option<String> {
    let steady = |text: &str| -> Vec<String> {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = text.lines().map(words);
        lines
            .filter(|line| !line.is_empty() && !is_of_this_run(line))
            .collect()
    };
    let (shown, printed) = (steady(shown), steady(printed));
    let most = shown.len().max(printed.len());
    let line = |lines: &[String], at: usize| lines.get(at).cloned().unwrap_or_default();
    (0..most)
        .find(|&at| line(&shown, at) != line(&printed, at))
        .map(|at| {
            format!(
                "shows {:?}, prints {:?}",
                line(&shown, at),
                line(&printed, at)
            )
        })
}

/// Whether a line names the machine or a time.
fn is_of_this_run(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_time = |pair: &[&str]| {
        let unit = pair[1].trim_end_matches(|sign: char| !sign.is_alphanumeric());
        pair[0].parse::<f64>().is_ok() && matches!(unit, "s" | "ms" | "us" | "ns")
    };
    line.contains("commit ") || words.windows(2).any(is_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_with_what_stands_above_them() {
        let text = "# Page\n\n<!-- prints: hello -->\n```sh\necho hello\n```\n\n<!-- not run: an hour -->\n```sh\n\
                    sleep 3600\n```\n<!-- run as: sleep 0 -->\n```sh\nsleep 60\n```\n```rust\nx\n```\n\
                    <!-- alphorn doctor -->\n```\nfine\n```\n<!-- not run: x -->\ntext\n```sh\nls\n```\n";
        let run = |line, script: &str, prints: &[&str]| Block::Run {
            line,
            script: script.into(),
            prints: prints.iter().map(|text| (*text).to_owned()).collect(),
        };
        let expected = [
            run(4, "echo hello\n", &["hello"]),
            Block::Shown {
                line: 9,
                why: "an hour".into(),
            },
            run(13, "sleep 0\n", &[]),
            Block::Output {
                line: 20,
                command: "doctor".into(),
                text: "fine\n".into(),
            },
            run(25, "ls\n", &[]),
        ];
        assert_eq!(blocks(text), expected);
    }

    #[test]
    fn times_and_machines_may_differ_and_nothing_else() {
        assert_eq!(difference("a 1\nin 3.2 ms\n", "a 1\nin 4.5 ms\n"), None);
        assert_eq!(difference("a 1\n\n", "a 1"), None);
        let wider = ("n  time\n1  9 us\n", "n   time\n1  10 us\n");
        assert_eq!(difference(wider.0, wider.1), None);
        assert!(difference("a 1\n", "a 2\n").is_some());
        assert!(difference("a 1\nb\n", "a 1\n").is_some());
    }

    #[test]
    fn a_command_that_fails_or_prints_something_else_is_found() {
        let home = tempfile::tempdir().unwrap();
        let place = Place {
            root: home.path(),
            home: home.path(),
            programs: home.path(),
            is_loud: false,
        };
        let page = |text: &str| {
            let tree = Tree::from_memory(&[("docs/page.md", text)]);
            document(&place, &tree.files[0]).unwrap().len()
        };
        assert_eq!(page("```sh\ntrue\n```\n"), 0);
        assert_eq!(page("```sh\nfalse\ntrue\n```\n"), 1);
        assert_eq!(page("<!-- prints: yes -->\n```sh\necho yes\n```\n"), 0);
        assert_eq!(page("<!-- prints: yes -->\n```sh\necho no\n```\n"), 1);
        assert_eq!(page("```sh\necho x > here\n```\n```sh\ncat here\n```\n"), 0);
        let saved = |name: &str| {
            page(&format!(
                "<!-- saved as: {name} -->\n```c\nint x;\n```\n<!-- prints: int x; -->\n```sh\ncat {name}\n```\n"
            ))
        };
        assert_eq!(saved("x.c"), 0);
        assert!(saved("../x.c") > 0 && saved(".bashrc") > 0);
        assert_eq!(page("```c\nint x;\n```\n"), 0);
    }
}
