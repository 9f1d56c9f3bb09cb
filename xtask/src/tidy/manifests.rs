//! The manifests of the workspace, parsed once.

use anyhow::Context;
use toml::{Table, Value};

use crate::tree::{File, Tree};

/// The `Cargo.toml` of one member.
pub(super) struct Member<'a> {
    /// The folder under `crates/`, or `xtask`.
    pub(super) folder: &'a str,
    /// The manifest file.
    pub(super) file: &'a File,
    /// The manifest, parsed.
    pub(super) table: Table,
}

/// Which section of a manifest names a dependency.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Section {
    /// `dependencies` and `build-dependencies`: part of what the crate is.
    Normal,
    /// `dev-dependencies`: tests, benches and examples.
    Dev,
}

/// The root manifest and those of the members.
pub(super) struct Manifests<'a> {
    /// The root manifest file and its content; `None` in the tests of other checks.
    pub(super) root: Option<(&'a File, Table)>,
    /// The members, sorted by path.
    pub(super) members: Vec<Member<'a>>,
}

impl<'a> Manifests<'a> {
    /// Parses the root manifest and every `crates/*/Cargo.toml`, and that of `xtask`.
    ///
    /// # Errors
    /// If one of them is not valid TOML.
    pub(super) fn read(tree: &'a Tree) -> anyhow::Result<Self> {
        let parse = |file: &File| {
            file.text
                .parse::<Table>()
                .with_context(|| format!("{} is not valid", file.path))
        };
        let root = match tree.get("Cargo.toml") {
            Some(file) => Some((file, parse(file)?)),
            None => None,
        };
        let mut members = Vec::new();
        for file in &tree.files {
            let Some(folder) = file.path.strip_suffix("/Cargo.toml") else {
                continue;
            };
            let folder = match folder.strip_prefix("crates/") {
                Some(folder) if !folder.contains('/') => folder,
                None if folder == "xtask" => folder,
                _ => continue,
            };
            members.push(Member {
                folder,
                file,
                table: parse(file)?,
            });
        }
        Ok(Self { root, members })
    }

    /// The entry of `[workspace.dependencies]` for `name`.
    pub(super) fn workspace_dependency(&self, name: &str) -> Option<&Value> {
        let (_, root) = self.root.as_ref()?;
        root.get("workspace")?.get("dependencies")?.get(name)
    }

    /// The folder under `crates/` that the workspace dependency `name` points to.
    pub(super) fn crate_of(&self, name: &str) -> Option<&str> {
        self.workspace_dependency(name)?
            .get("path")?
            .as_str()?
            .strip_prefix("crates/")
    }
}

impl Member<'_> {
    /// Every dependency with its section, also those of `[target.*]`.
    pub(super) fn dependencies(&self) -> Vec<(Section, &str, &Value)> {
        let mut tables = vec![&self.table];
        if let Some(Value::Table(targets)) = self.table.get("target") {
            tables.extend(targets.values().filter_map(Value::as_table));
        }
        let sections = [
            ("dependencies", Section::Normal),
            ("build-dependencies", Section::Normal),
            ("dev-dependencies", Section::Dev),
        ];
        let mut found = Vec::new();
        for table in tables {
            for (name, section) in sections {
                let Some(Value::Table(entries)) = table.get(name) else {
                    continue;
                };
                found.extend(
                    entries
                        .iter()
                        .map(|(name, value)| (section, name.as_str(), value)),
                );
            }
        }
        found
    }
}
