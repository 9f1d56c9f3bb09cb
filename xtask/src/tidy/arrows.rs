//! Which crate may use which: a floor uses only floors below it, and some dependencies have one
//! home.

use super::Report;
use super::manifests::{Manifests, Member, Section};

/// One crate of the house.
struct Room {
    /// Folder under `crates/`.
    folder: &'static str,
    /// Crates of the same or a higher floor are out of reach, also for tests.
    floor: u8,
    /// The crates that it may use outside tests.
    uses: &'static [&'static str],
}

const fn room(folder: &'static str, floor: u8, uses: &'static [&'static str]) -> Room {
    Room {
        folder,
        floor,
        uses,
    }
}

/// The house as drawn in ARCHITECTURE.md. `cli` and `xtask` are not listed: the first uses
/// everything, the second no crate of ours.
const ROOMS: &[Room] = &[
    // What is compared with peers is compared here, so that no other crate needs a library for that alone.
    room(
        "bench",
        6,
        &[
            "lab", "bls", "exec", "falcon", "labrador", "net", "proto", "rlnc", "scheme", "sim",
            "stark", "types", "xmss",
        ],
    ),
    // For programs that serve proofs by themselves; `alphorn worker` is one.
    room(
        "service",
        5,
        &[
            "dashboard",
            "node",
            "worker",
            "xmss",
            "stark",
            "scheme",
            "types",
            "exec",
        ],
    ),
    room(
        "lab",
        5,
        &[
            "bls", "exec", "falcon", "labrador", "proto", "rlnc", "scheme", "sim", "stark",
            "types", "xmss",
        ],
    ),
    // For callers in other languages. `bindings` is the one safe layer under them: two users, and what they
    // may not do (signing without a permit) is impossible there. `capi` is by itself because it has
    // unsafe code.
    room("capi", 4, &["bindings"]),
    // It has the interpreter's headers, and what a user of Python expects of a package.
    room("python", 4, &["bindings"]),
    room(
        "bindings",
        3,
        &["bls", "xmss", "stark", "rlnc", "scheme", "types", "exec"],
    ),
    room(
        "node",
        4,
        &[
            "proto",
            "broadcast",
            "worker",
            "net",
            "dashboard",
            "scheme",
            "types",
        ],
    ),
    room(
        "sim",
        4,
        &["proto", "broadcast", "worker", "scheme", "types", "exec"],
    ),
    room("proto", 3, &["broadcast", "scheme", "types"]),
    // Useful without Horn: it knows no votes, committees or blocks.
    room("broadcast", 2, &["scheme", "rlnc", "types"]),
    room("worker", 2, &["scheme", "types", "exec"]),
    room("net", 2, &["types"]),
    room("dashboard", 2, &["types"]),
    room("bls", 2, &["scheme", "types", "exec"]),
    room("falcon", 2, &["labrador", "scheme", "types", "exec"]),
    room("xmss", 2, &["stark", "scheme", "types", "exec"]),
    room("scheme", 1, &["types", "exec"]),
    room("labrador", 1, &["exec"]),
    room("stark", 1, &["exec"]),
    room("rlnc", 1, &["exec"]),
    room("types", 0, &[]),
    room("exec", 0, &[]),
];

/// External crates that only some of ours may use outside tests; a trailing `*` matches a family.
const HOMES: &[(&str, &[&str])] = &[
    ("anyhow", &["bench", "cli", "lab", "xtask"]),
    ("blst", &["bls"]),
    ("cbindgen", &[]),
    ("clap*", &["bench", "cli", "lab"]),
    ("curve25519-dalek*", &["rlnc", "bench"]),
    ("libp2p*", &["net"]),
    ("pyo3", &["python"]),
    ("redb", &["node"]),
    ("reed-solomon*", &["rlnc", "bench"]),
    (
        "tokio*",
        &["bench", "cli", "dashboard", "net", "node", "service"],
    ),
];

/// Names of crates that say where code lies instead of what it does.
const BANNED_NAMES: &[&str] = &[
    "common", "core", "helpers", "misc", "shared", "util", "utils",
];

/// Checks names, floors, arrows and homes.
pub(super) fn check(manifests: &Manifests<'_>, report: &mut Report) {
    for member in &manifests.members {
        check_name(member, report);
        for (section, name, _) in member.dependencies() {
            let problem = match manifests.crate_of(name) {
                Some(used) => arrow_problem(member.folder, section, used),
                None => home_problem(member.folder, section, name),
            };
            if let Some(problem) = problem {
                report.error(member.file, member.file.line_of(name), problem);
            }
        }
    }
}

fn find(folder: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.folder == folder)
}

fn check_name(member: &Member<'_>, report: &mut Report) {
    let folder = member.folder;
    if BANNED_NAMES.contains(&folder) || folder.ends_with("-api") || folder.ends_with("_api") {
        let message = format!("`{folder}` says nothing: name the crate after what it does");
        report.error(member.file, 1, message);
    } else if find(folder).is_none() && !matches!(folder, "cli" | "xtask") {
        let message = format!(
            "crate `{folder}` has no room in the house: a new crate needs a floor and its arrows \
             in xtask/src/tidy/arrows.rs and in ARCHITECTURE.md"
        );
        report.error(member.file, 1, message);
    }
    let expected = match folder {
        "cli" => "alphorn".to_owned(),
        "xtask" => "xtask".to_owned(),
        _ => format!("alphorn-{folder}"),
    };
    let name = member
        .table
        .get("package")
        .and_then(|package| package.get("name"));
    if name.and_then(|name| name.as_str()) != Some(&expected) {
        let message = format!("the package of folder `{folder}` must be named `{expected}`");
        report.error(member.file, member.file.line_of("name"), message);
    }
}

/// Why `folder` must not use our crate `used`.
fn arrow_problem(folder: &str, section: Section, used: &str) -> Option<String> {
    match (folder, find(folder), find(used)) {
        ("cli", _, Some(_)) => None,
        ("xtask", _, _) => Some(format!(
            "`xtask` uses no crate of the house, so not `{used}`"
        )),
        (_, _, None) => Some(format!("nothing may depend on `{used}`")),
        (_, None, _) => None, // reported by `check_name`
        (_, Some(room), Some(target)) if target.floor >= room.floor => Some(format!(
            "`{folder}` (floor {}) must not use `{used}` (floor {}): arrows point down, also in \
             tests",
            room.floor, target.floor
        )),
        (_, Some(room), Some(_)) => {
            let allowed = section == Section::Dev || room.uses.contains(&used);
            (!allowed).then(|| {
                format!(
                    "`{folder}` must not use `{used}`; it may use {:?}",
                    room.uses
                )
            })
        }
    }
}

/// Why `folder` must not use the external crate `name`.
fn home_problem(folder: &str, section: Section, name: &str) -> Option<String> {
    let matches = |pattern: &str| match pattern.strip_suffix('*') {
        Some(family) => name.starts_with(family),
        None => name == pattern,
    };
    let (_, homes) = HOMES.iter().find(|(pattern, _)| matches(pattern))?;
    let allowed = section == Section::Dev || homes.contains(&folder);
    (!allowed).then(|| format!("`{name}` may be used by {homes:?} only, not by `{folder}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::manifest_errors;

    const ROOT: (&str, &str) = (
        "Cargo.toml",
        "[workspace.dependencies]\n\
         alphorn-types = { path = \"crates/types\" }\n\
         alphorn-sim = { path = \"crates/sim\" }\n\
         alphorn-bls = { path = \"crates/bls\" }\n\
         libp2p = \"0.56.0\"\n",
    );

    fn errors(path: &str, manifest: &str) -> Vec<String> {
        manifest_errors(check, &[ROOT, (path, manifest)])
    }

    #[test]
    fn the_table_points_down() {
        for room in ROOMS {
            for used in room.uses {
                let target = find(used).expect("each used crate has a room");
                assert!(target.floor < room.floor, "{} -> {used}", room.folder);
            }
        }
    }

    #[test]
    fn legal_arrows_pass() {
        let proto = "[package]\nname = \"alphorn-proto\"\n[dependencies]\n\
                     alphorn-types.workspace = true\n[dev-dependencies]\nlibp2p.workspace = true";
        assert_eq!(
            errors("crates/proto/Cargo.toml", proto),
            Vec::<String>::new()
        );
        let cli = "[package]\nname = \"alphorn\"\n[dependencies]\n\
                   alphorn-sim.workspace = true\nalphorn-bls.workspace = true";
        assert_eq!(errors("crates/cli/Cargo.toml", cli), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_up_is_found_in_every_section() {
        for section in [
            "dependencies",
            "dev-dependencies",
            "target.'cfg(unix)'.dependencies",
        ] {
            let proto = format!(
                "[package]\nname = \"alphorn-proto\"\n[{section}]\nalphorn-sim.workspace = true"
            );
            let found = errors("crates/proto/Cargo.toml", &proto);
            assert_eq!(found.len(), 1, "{section}: {found:?}");
            assert!(found[0].starts_with("crates/proto/Cargo.toml:4: `proto` (floor 3) must not"));
        }
    }

    #[test]
    fn a_scheme_is_out_of_reach_of_the_simulator() {
        let sim = "[package]\nname = \"alphorn-sim\"\n[dependencies]\nalphorn-bls.workspace = true";
        let found = errors("crates/sim/Cargo.toml", sim);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`sim` must not use `bls`"), "{found:?}");
    }

    #[test]
    fn a_firewalled_dependency_has_one_home() {
        let proto = "[package]\nname = \"alphorn-proto\"\n[dependencies]\nlibp2p.workspace = true";
        let found = errors("crates/proto/Cargo.toml", proto);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("`libp2p` may be used by [\"net\"] only"),
            "{found:?}"
        );
    }

    #[test]
    fn names_without_meaning_and_rooms_without_a_floor_are_found() {
        let found = errors(
            "crates/utils/Cargo.toml",
            "[package]\nname = \"alphorn-utils\"",
        );
        assert!(found[0].contains("says nothing"), "{found:?}");
        let found = errors(
            "crates/attic/Cargo.toml",
            "[package]\nname = \"alphorn-attic\"",
        );
        assert!(found[0].contains("has no room"), "{found:?}");
        let found = errors("crates/types/Cargo.toml", "[package]\nname = \"types\"");
        assert!(
            found[0].contains("must be named `alphorn-types`"),
            "{found:?}"
        );
    }
}
