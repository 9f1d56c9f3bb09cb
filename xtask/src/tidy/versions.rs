//! Every version stands once, in the root manifest, and is exact enough to mean something.

use toml::Value;

use super::Report;
use super::manifests::Manifests;

/// Checks `[workspace.dependencies]` and that members refer to it.
pub(super) fn check(manifests: &Manifests<'_>, report: &mut Report) {
    if let Some((file, root)) = &manifests.root {
        let dependencies = root
            .get("workspace")
            .and_then(|table| table.get("dependencies"));
        for (name, value) in dependencies.and_then(Value::as_table).into_iter().flatten() {
            let version = value.as_str().or_else(|| value.get("version")?.as_str());
            let problem = match version {
                None => Some(format!("`{name}` has no version")),
                Some(version) if !is_pinned(version) => Some(format!(
                    "`{name}` has version \"{version}\": give major.minor.patch, no wildcard or range"
                )),
                Some(_) if value.get("git").is_some() => {
                    Some(format!("`{name}` comes from git: only published crates"))
                }
                Some(_) => None,
            };
            if let Some(problem) = problem {
                report.error(file, file.line_of(&format!("{name} = ")), problem);
            }
        }
    }
    for member in &manifests.members {
        for (_, name, value) in member.dependencies() {
            if value.get("workspace").and_then(Value::as_bool) != Some(true) {
                let message = format!("`{name}` must be `{name}.workspace = true`");
                report.error(member.file, member.file.line_of(name), message);
            }
        }
    }
}

/// Three numbers, with an optional `=` in front and an optional pre-release behind.
fn is_pinned(version: &str) -> bool {
    let version = version.strip_prefix('=').unwrap_or(version);
    let numbers = version.split(['-', '+']).next().unwrap_or(version);
    let mut count = 0;
    for number in numbers.split('.') {
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return false;
        }
        count += 1;
    }
    count == 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::manifest_errors;

    #[test]
    fn pinned_versions_pass() {
        let root = "[workspace.dependencies]\na = \"1.2.3\"\nb = { version = \"=0.3.17\" }\n\
                    c = { path = \"crates/c\", version = \"0.1.0\" }\nd = \"1.0.0-rc.1\"";
        let member = "[dependencies]\na.workspace = true\nb = { workspace = true }";
        let files = [("Cargo.toml", root), ("crates/types/Cargo.toml", member)];
        assert_eq!(manifest_errors(check, &files), Vec::<String>::new());
    }

    #[test]
    fn loose_versions_are_found() {
        for entry in [
            "\"*\"",
            "\"1\"",
            "\"1.2\"",
            "\">=1.2.3\"",
            "\"1.*.0\"",
            "{ path = \"x\" }",
        ] {
            let root = format!("[workspace.dependencies]\na = {entry}");
            let found = manifest_errors(check, &[("Cargo.toml", &root)]);
            assert_eq!(found.len(), 1, "{entry}: {found:?}");
            assert!(found[0].starts_with("Cargo.toml:2: `a` has "), "{found:?}");
        }
        let git = "[workspace.dependencies]\na = { git = \"x\", version = \"1.2.3\" }";
        assert_eq!(manifest_errors(check, &[("Cargo.toml", git)]).len(), 1);
    }

    #[test]
    fn a_version_in_a_member_is_found() {
        for entry in [
            "\"1.2.3\"",
            "{ version = \"1.2.3\" }",
            "{ path = \"../x\" }",
        ] {
            let member = format!("[dev-dependencies]\nserde = {entry}");
            let found = manifest_errors(check, &[("crates/types/Cargo.toml", &member)]);
            assert_eq!(found.len(), 1, "{entry}: {found:?}");
            assert!(found[0].contains("`serde` must be `serde.workspace = true`"));
        }
    }
}
