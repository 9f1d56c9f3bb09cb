//! Runs the recipe: every command whose figures a document quotes, into `results/MACHINE/`.

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The recipe, from the root.
pub(super) const RECIPE: &str = "results/recipe.toml";

/// Names and commands.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipe {
    figure: Vec<Figure>,
}

impl Recipe {
    /// # Errors
    /// If the text is no recipe.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        toml::from_str(text).context(RECIPE)
    }

    /// Whether the command of a figure may end with an exit code that is not 0.
    pub(super) fn may_fail(&self, name: &str) -> bool {
        let figure = self.figure.iter().find(|figure| figure.name == name);
        figure.is_some_and(|figure| figure.may_fail)
    }
}

/// A command that is run for its `--json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    /// Name of the file, and of the figure.
    name: String,
    /// Words behind `alphorn`.
    line: String,
    /// How often; the median of each number counts.
    #[serde(default = "once")]
    runs: usize,
    /// Seconds to wait before each run of what the last one left behind.
    #[serde(default)]
    rest_s: u64,
    /// Runs in a folder in memory, as those of nodes do that must not wait for a shared disk.
    #[serde(default)]
    memory: bool,
    /// Its exit code may say that something was missed, where the documents say what.
    #[serde(default)]
    may_fail: bool,
    /// Members of the object that no document needs, as long lists.
    #[serde(default)]
    without: Vec<String>,
}

fn once() -> usize {
    1
}

/// Runs what is missing in a folder, or those that are named, and writes their files.
///
/// # Errors
/// If the recipe is none, if a command fails, or if a file cannot be written.
pub(crate) fn measure(
    root: &Path,
    binary: &Path,
    machine: &str,
    names: &[String],
) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(root.join(RECIPE)).context(RECIPE)?;
    let recipe = Recipe::parse(&text)?;
    for name in names {
        let is_there = recipe.figure.iter().any(|figure| figure.name == *name);
        ensure!(is_there, "{RECIPE} has no figure {name}");
    }
    let changed = git(root, &["status", "--porcelain", "--untracked-files=no"])?;
    let changed: Vec<&str> = changed
        .lines()
        .filter(|line| {
            !line
                .get(3..)
                .is_some_and(|path| path.starts_with("results/"))
        })
        .collect();
    ensure!(
        changed.is_empty(),
        "figures are of a commit, and the tree has changes: {changed:?}"
    );
    let folder = root.join("results").join(machine);
    std::fs::create_dir_all(&folder)?;
    for figure in &recipe.figure {
        let path = folder.join(format!("{}.json", figure.name));
        let is_wanted = match names {
            [] => !path.exists(),
            names => names.contains(&figure.name),
        };
        if !is_wanted {
            continue;
        }
        println!("{}: alphorn {}", figure.name, figure.line);
        let start = Instant::now();
        let runs: Vec<Value> = (0..figure.runs)
            .map(|_| run(root, binary, figure))
            .collect::<anyhow::Result<_>>()?;
        let text = serde_json::to_string_pretty(&json!({ "runs": runs }))? + "\n";
        // Whole or not at all: whoever ends the recipe goes on with it later.
        let unfinished = path.with_extension("unfinished");
        std::fs::write(&unfinished, text)?;
        std::fs::rename(&unfinished, &path)?;
        println!("{}: {:.0} s", figure.name, start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// What git prints.
fn git(root: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(args).current_dir(root).output();
    let output = output.context("cannot run git")?;
    ensure!(
        output.status.success(),
        "git {}: {}",
        args.join(" "),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run(root: &Path, binary: &Path, figure: &Figure) -> anyhow::Result<Value> {
    std::thread::sleep(std::time::Duration::from_secs(figure.rest_s));
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("figure.json");
    let mut command = Command::new(binary);
    command.args(figure.line.split_whitespace());
    command.arg("--json").arg(&json).current_dir(root);
    if figure.memory {
        command.env("TMPDIR", "/dev/shm");
    }
    let output = command.output().context("cannot run the program")?;
    // A run that missed what it expects says so with its exit code: its figures are kept where the recipe knows.
    let is_kept = output.status.success() || (figure.may_fail && json.exists());
    if !is_kept {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("alphorn {}: {}\n{text}", figure.line, output.status);
    }
    let mut object: Value = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    object["exit_code"] = json!(output.status.code());
    object["memory_folder"] = json!(figure.memory);
    // Where it ran is nobody's business, what ran is.
    object["line"] = json!(format!("alphorn {}", figure.line));
    for name in &figure.without {
        if let Value::Object(members) = &mut object {
            members.remove(name);
        }
    }
    Ok(object)
}
