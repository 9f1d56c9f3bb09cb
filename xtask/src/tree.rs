//! The files that belong to the repository, read once for all checks.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::source::Source;

/// One file of the repository.
pub(crate) struct File {
    /// Path from the root, with forward slashes.
    pub(crate) path: String,
    /// Size on disk.
    pub(crate) bytes: u64,
    /// The content, or an empty string if it is not UTF-8.
    pub(crate) text: String,
    /// The code view of a Rust file, empty for all others.
    pub(crate) source: Source,
}

impl File {
    fn new(path: &str, bytes: u64, text: String) -> Self {
        let source = if path.ends_with(".rs") {
            Source::new(&text)
        } else {
            Source::default()
        };
        Self {
            path: path.to_owned(),
            bytes,
            text,
            source,
        }
    }

    /// Whether the file is Rust code.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The folder under `crates/` that holds the file.
    pub(crate) fn crate_folder(&self) -> Option<&str> {
        self.path
            .strip_prefix("crates/")?
            .split_once('/')
            .map(|(folder, _)| folder)
    }

    /// The file name without its extension.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.split_once('.').map_or(name, |(stem, _)| stem)
    }

    /// The number (from 1) of the first line that contains `needle`; 1 if none does.
    pub(crate) fn line_of(&self, needle: &str) -> usize {
        self.text
            .lines()
            .position(|line| line.contains(needle))
            .map_or(1, |index| index + 1)
    }
}

/// All files of the repository, sorted by path.
pub(crate) struct Tree {
    /// The files.
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// Reads every file that git tracks or would track.
    ///
    /// # Errors
    /// If git cannot list the files or one of them cannot be read.
    pub(crate) fn from_git(root: &Path) -> anyhow::Result<Self> {
        let listing = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .context("cannot run git")?;
        ensure!(
            listing.status.success(),
            "git ls-files failed: {}",
            String::from_utf8_lossy(&listing.stderr)
        );
        let names = String::from_utf8(listing.stdout).context("a file name is not UTF-8")?;
        let mut files = Vec::new();
        for name in names
            .split('\0')
            .filter(|name| !name.is_empty())
            .collect::<BTreeSet<_>>()
        {
            let path = root.join(name);
            // A file deleted but not yet committed is still listed.
            if !path.is_file() {
                continue;
            }
            let content = std::fs::read(&path).with_context(|| format!("cannot read {name}"))?;
            let bytes = content.len() as u64;
            files.push(File::new(
                name,
                bytes,
                String::from_utf8(content).unwrap_or_default(),
            ));
        }
        Ok(Self { files })
    }

    /// A tree held in memory, for the tests of the checks.
    #[cfg(test)]
    pub(crate) fn from_memory(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File::new(path, text.len() as u64, text.into());
        Self {
            files: files.iter().map(file).collect(),
        }
    }

    /// The file at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_its_crate_stem_and_lines() {
        let tree = Tree::from_memory(&[("crates/bls/src/avx2.rs", "one\ntwo\n")]);
        let file = &tree.files[0];
        assert_eq!(file.crate_folder(), Some("bls"));
        assert_eq!(file.stem(), "avx2");
        assert_eq!(file.line_of("two"), 2);
        assert!(tree.get("crates/bls/src/avx512.rs").is_none());
    }
}
