//! Panics unwind in every profile: the worker turns the panic of a job into a typed failure, which
//! an abort would turn into the death of the node.

use toml::Value;

use super::Report;
use super::manifests::Manifests;

/// Checks the profiles of the root manifest.
pub(super) fn check(manifests: &Manifests<'_>, report: &mut Report) {
    let Some((file, root)) = &manifests.root else {
        return;
    };
    let profiles = root.get("profile").and_then(Value::as_table);
    let panic_of = |profile: &Value| profile.get("panic")?.as_str().map(str::to_owned);
    let release = profiles
        .and_then(|profiles| profiles.get("release"))
        .and_then(panic_of);
    if release.is_none() {
        report.error(file, 1, "[profile.release] must say panic = \"unwind\"");
    }
    for (name, profile) in profiles.into_iter().flatten() {
        if let Some(panic) = panic_of(profile)
            && panic != "unwind"
        {
            let message = format!("[profile.{name}] has panic = \"{panic}\", must be \"unwind\"");
            report.error(file, file.line_of(&format!("[profile.{name}]")), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::manifest_errors;

    #[test]
    fn release_must_unwind() {
        let errors = |text: &str| manifest_errors(check, &[("Cargo.toml", text)]);
        assert!(errors("[profile.release]\npanic = \"unwind\"").is_empty());
        assert_eq!(errors("[profile.release]\nlto = true").len(), 1);
        let found = errors("[workspace]\n[profile.release]\npanic = \"abort\"");
        assert_eq!(
            found,
            ["Cargo.toml:2: [profile.release] has panic = \"abort\", must be \"unwind\""]
        );
        let other = "[profile.release]\npanic = \"unwind\"\n[profile.small]\npanic = \"abort\"";
        assert_eq!(errors(other).len(), 1);
    }
}
