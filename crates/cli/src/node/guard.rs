//! What a node refuses to start with, because others could then act in its name: a data folder that
//! others can write to or that is not where it appears to be, and a key that is not the node's.

use super::files::NodeEntry;
use super::{Args, addresses};
use crate::error::Result;
use crate::overwrite::folder_of;
use crate::report::not_beside;
use alphorn_net::{Address, NodeKey};
use anyhow::{Context, anyhow};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Files of a data folder that are opened by name.
const FILES: [&str; 4] = ["safety.redb", "node.redb", "api.token", "summary.json"];

/// Checks the data folder, if it exists.
///
/// # Errors
/// If it is a symbolic link or not a folder, or users other than its owner can write to it, or one of
/// its files is a symbolic link.
pub(super) fn check_data_folder(path: &Path) -> Result<()> {
    // A trailing slash would make it follow a link.
    let path: PathBuf = path.components().collect();
    let shown = path.display();
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(anyhow!("--data-dir {shown}: {error}").into()),
    };
    if found.is_symlink() {
        let why = "is a symbolic link, which can be turned to another folder";
        return Err(anyhow!("--data-dir {shown}: {why}; name the folder itself").into());
    }
    if !found.is_dir() {
        return Err(anyhow!("--data-dir {shown}: is no folder").into());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = found.permissions().mode() & 0o7777;
        if mode & 0o022 != 0 {
            let why = format!("mode {mode:04o} lets others write in it");
            return Err(anyhow!("--data-dir {shown}: {why}; chmod go-w {shown}").into());
        }
    }
    for name in FILES {
        let file = path.join(name);
        if file.symlink_metadata().is_ok_and(|file| file.is_symlink()) {
            let why = format!("{name} is a symbolic link, must be a file of the folder");
            return Err(anyhow!("--data-dir {shown}: {why}").into());
        }
    }
    Ok(())
}

/// Creates the data folder, accessible only to its owner, or checks the existing one.
///
/// # Errors
/// Those of [`check_data_folder`], and of the system.
pub(super) fn data_folder(path: &Path) -> Result<()> {
    check_data_folder(path)?;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.create(path);
    Ok(made.with_context(|| format!("--data-dir {}", path.display()))?)
}

/// Checks that the data folder, or files in it if it exists, can be created; leaves nothing behind.
pub(super) fn check_can_write(data_dir: &Path) -> Result<()> {
    let mut folders = data_dir.ancestors();
    let there = folders.find(|folder| folder.symlink_metadata().is_ok());
    // A relative path has the empty path as its last ancestor, which the system does not find.
    check_place("--data-dir", data_dir, there.unwrap_or(Path::new(".")))
}

/// Checks that a file does not exist and can be created; leaves nothing behind.
pub(super) fn check_new(option: &str, file: Option<&Path>) -> Result<()> {
    let Some(file) = file else {
        return Ok(());
    };
    if file.symlink_metadata().is_ok() {
        return Err(anyhow!("{option} {}: must be a new file", file.display()).into());
    }
    check_place(option, file, folder_of(file))
}

fn check_place(option: &str, path: &Path, folder: &Path) -> Result<()> {
    let made = tempfile::tempfile_in(folder);
    let made = made.map_err(|error| not_beside(&folder.join("new"), &error));
    made.with_context(|| format!("{option} {}", path.display()))?;
    Ok(())
}

/// Rejects a shared port for the HTTP interface and the metrics, as the second listener would fail
/// after the node has started.
pub(super) fn check_ports(args: &Args, own: &NodeEntry) -> Result<()> {
    let api = addresses::interface(args, own);
    let Some(metrics) = addresses::metrics_address(args) else {
        return Ok(());
    };
    let (one, other) = (api.ip(), metrics.ip());
    // A wildcard IPv6 address also covers IPv4 addresses.
    let has = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let is_one_address = one == other || has(one, other) || has(other, one);
    if metrics.port() == api.port() && metrics.port() != 0 && is_one_address {
        let why = "the HTTP interface has that port, which --api-port takes elsewhere";
        return Err(anyhow!("--metrics-port {}: {why}", metrics.port()).into());
    }
    Ok(())
}

/// Reads the key of a node.
///
/// # Errors
/// If it cannot be read, or `nodes.yaml` has another one for the node, under which others dial it.
pub(super) fn key(path: &Path, own: &NodeEntry) -> Result<NodeKey> {
    let key = NodeKey::read(path, false)?;
    let named = own.address.parse::<Address>()?.id();
    if key.id() != named {
        let (name, shown, id) = (&own.name, path.display(), key.id());
        let why = format!("is that of {id}, nodes.yaml: {name} is {named}");
        return Err(anyhow!("--node-key {shown}: {why}").into());
    }
    Ok(key)
}

/// Disables core files of this process, which would contain secret keys. A system that pipes cores to a
/// program ignores the limit; so where keys are not public (`has_secrets`), core dumps are disabled
/// altogether, and no process of another user's debugger can read this one's memory.
pub(super) fn no_core_dumps(has_secrets: bool) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{
            DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit,
        };
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        // A limit can always be lowered.
        let _ = setrlimit(Resource::Core, none);
        if has_secrets {
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = has_secrets;
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_is_made_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("a/data");
        data_folder(&data).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&data), 0o700);
        data_folder(&data).unwrap();
    }

    #[test]
    fn a_folder_that_others_can_change_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let set = |mode| std::fs::set_permissions(&data, PermissionsExt::from_mode(mode)).unwrap();
        for (mode, is_refused) in [(0o777, true), (0o1777, true), (0o775, true), (0o755, false)] {
            set(mode);
            let checked = check_data_folder(&data);
            assert_eq!(checked.is_err(), is_refused, "{mode:o}");
            if let Err(error) = checked {
                assert!(error.to_string().contains("lets others write"), "{error}");
            }
        }
        let link = home.path().join("link");
        symlink(&data, &link).unwrap();
        for named in [link.clone(), link.join("")] {
            let error = check_data_folder(&named).unwrap_err().to_string();
            assert!(error.contains("symbolic link"), "{error}");
        }
        symlink(home.path().join("elsewhere"), data.join("safety.redb")).unwrap();
        let error = check_data_folder(&data).unwrap_err().to_string();
        assert!(error.contains("safety.redb is a symbolic link"), "{error}");
        let file = home.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(data_folder(&file).is_err());
    }

    #[test]
    fn a_key_of_another_node_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("node.key");
        let key = NodeKey::generate();
        key.write_new(&path).unwrap();
        let node = |id| NodeEntry {
            name: "node-0".into(),
            address: format!("/ip4/127.0.0.1/udp/9000/quic-v1/p2p/{id}"),
            first_validator: 0,
            validators: 1,
            validator_step: 1,
            api_port: None,
        };
        assert_eq!(super::key(&path, &node(key.id())).unwrap().id(), key.id());
        let other = NodeKey::generate().id();
        let error = super::key(&path, &node(other)).unwrap_err().to_string();
        assert!(error.contains(&key.id().to_string()), "{error}");
        assert!(error.contains(&format!("node-0 is {other}")), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn no_core_is_written() {
        use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
        for (has_secrets, expected) in [
            (false, DumpableBehavior::Dumpable),
            (true, DumpableBehavior::NotDumpable),
        ] {
            no_core_dumps(has_secrets);
            assert_eq!(dumpable_behavior().unwrap(), expected);
        }
        // The other tests of this process can be traced again.
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        assert_eq!(words[4..6], ["0", "0"], "{line:?}");
    }
}
