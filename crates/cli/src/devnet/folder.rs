//! The folder of a devnet, and the nodes whose files are in it.

use super::{Args, NODES_MAX};
use crate::error::Result;
use crate::node::files::{NetworkFile, NodeEntry, read_nodes};
use crate::node::network::{NodeSpec, write_network};
use crate::report::not_beside;
use alphorn_net::{Address, NodeId, NodeKey};
use anyhow::anyhow;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

/// The folder of a devnet, removed at the end unless it is to be kept.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    temporary: Option<tempfile::TempDir>,
}

impl Folder {
    /// Uses an existing folder, which is kept.
    pub(super) fn given(path: &Path) -> Self {
        Folder {
            path: path.to_owned(),
            temporary: None,
        }
    }

    /// Creates a new one.
    ///
    /// # Errors
    /// If that of `--dir` already exists, or none can be created.
    pub(super) fn new(args: &Args) -> Result<Self> {
        match &args.dir {
            Some(path) => {
                std::fs::create_dir(path).map_err(|error| {
                    let why = match error.kind() {
                        ErrorKind::NotFound => not_beside(path, &error).to_string(),
                        _ => format!("must be a folder that is not there yet: {error}"),
                    };
                    anyhow!("--dir {}: {why}", path.display())
                })?;
                Ok(Folder {
                    path: path.clone(),
                    temporary: None,
                })
            }
            None => {
                let folder = tempfile::Builder::new()
                    .prefix("alphorn-devnet-")
                    .tempdir()?;
                let path = folder.path().to_owned();
                let temporary = match args.keep {
                    true => {
                        let _ = folder.keep();
                        None
                    }
                    false => Some(folder),
                };
                Ok(Folder { path, temporary })
            }
        }
    }

    /// Whether it is removed at the end.
    pub(super) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// Keeps the folder.
    pub(super) fn keep(self) -> PathBuf {
        if let Some(folder) = self.temporary {
            let _ = folder.keep();
        }
        self.path
    }
}

/// A node of a devnet.
pub(super) struct Member {
    pub(super) node: NodeEntry,
    pub(super) id: NodeId,
    /// The port of its interface, the same after each start.
    pub(super) api_port: u16,
}

/// Writes keys and files, and returns the nodes.
pub(super) fn prepare(folder: &Path, count: u16, network: &NetworkFile) -> Result<Vec<Member>> {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let specs = free_ports(usize::from(count))?.into_iter();
    let specs: Vec<NodeSpec> = specs
        .enumerate()
        .map(|(index, (peers, api))| NodeSpec::new(index, local(peers), local(api)))
        .collect();
    let made = write_network(folder, network, "devnet", &specs)?;
    let members = made.into_iter().zip(&specs).map(|(made, spec)| Member {
        node: made.node,
        id: made.id,
        api_port: spec.api.port(),
    });
    Ok(members.collect())
}

/// Returns the nodes of a folder that `alphorn genesis` made: all of them on this host, none of them
/// started before.
pub(super) fn adopt(folder: &Path, network: &NetworkFile) -> Result<Vec<Member>> {
    let entries = read_nodes(folder, network)?;
    if entries.len() > usize::from(NODES_MAX) {
        let (count, folder) = (entries.len(), folder.display());
        return Err(anyhow!("--genesis {folder}: {count} nodes, at most {NODES_MAX}").into());
    }
    let ports = free_ports(entries.len())?;
    let member = |(node, (_, free)): (NodeEntry, (u16, u16))| {
        let (name, home) = (&node.name, folder.join(&node.name));
        let address: Address = node.address.parse()?;
        let key = home.join("node.key");
        let id = NodeKey::read(&key, false)?.id();
        if address.id() != id {
            let (key, theirs) = (key.display(), address.id());
            return Err(anyhow!("nodes.yaml: {name} is {theirs}, {key} is that of {id}").into());
        }
        if !address.socket().ip().is_loopback() {
            let address = &node.address;
            return Err(anyhow!("nodes.yaml: {name} is at {address}, must be loopback").into());
        }
        if home.join("data").exists() {
            let home = home.display();
            return Err(anyhow!("{home}: has run before, its `data` must not be there").into());
        }
        let api_port = node.api_port.unwrap_or(free);
        // Only an attempt: the listener is dropped at once, and the node opens its own.
        if let Err(error) = TcpListener::bind((Ipv4Addr::LOCALHOST, api_port)) {
            let what = format!("nodes.yaml: {name} has the api_port {api_port}: {error}");
            return Err(anyhow!("{what}; `alphorn genesis --api-port` writes others").into());
        }
        Ok(Member { node, id, api_port })
    };
    entries.into_iter().zip(ports).map(member).collect()
}

/// Returns ports that are free now for both UDP and TCP. If another process takes one in the meantime,
/// a node fails to start.
fn free_ports(count: usize) -> Result<Vec<(u16, u16)>> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    let open = || Ok((UdpSocket::bind(any)?, TcpListener::bind(any)?));
    let sockets = (0..count).map(|_| open());
    // All stay open until every port is known, so that the system assigns none of them twice.
    let sockets: Vec<(UdpSocket, TcpListener)> = sockets.collect::<std::io::Result<_>>()?;
    let ports = sockets
        .iter()
        .map(|(udp, tcp)| Ok((udp.local_addr()?.port(), tcp.local_addr()?.port())));
    ports.collect()
}
