//! The networks that a point may have: links and processors of its nodes, and how blocks travel.

/// Bandwidth and processors of the nodes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    /// 40 % full nodes (50/15 Mbit/s, 4 cores), 40 % attesters (50/25, 8; EIP-7870), 20 % supernodes (1024, 16)
    Mixed,
    /// Only full nodes
    Full,
    /// Only attesters
    Attester,
    /// 1024 Mbit/s in both directions and 16 cores on every node
    Supernode,
}

/// Name, down and up in Mbit/s, cores.
type Class = (&'static str, u32, u32, u32);

const FULL: Class = ("full", 50, 15, 4);
const ATTESTER: Class = ("attester", 50, 25, 8);
const SUPERNODE: Class = ("supernode", 1024, 1024, 16);

impl Profile {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Profile::Mixed => "mixed",
            Profile::Full => "full",
            Profile::Attester => "attester",
            Profile::Supernode => "supernode",
        }
    }

    /// Returns the TOML tables of the classes.
    pub(super) fn toml(self) -> String {
        let classes: &[(Class, u32)] = match self {
            Profile::Mixed => &[(FULL, 40), (ATTESTER, 40), (SUPERNODE, 20)],
            Profile::Full => &[(FULL, 100)],
            Profile::Attester => &[(ATTESTER, 100)],
            Profile::Supernode => &[(SUPERNODE, 100)],
        };
        let table = |((name, down, up, cores), share): &(Class, u32)| {
            format!(
                "[[class]]\nname = \"{name}\"\nshare_pct = {share}\ndown_mbps = {down}\n\
                 up_mbps = {up}\ncores = {cores}\n"
            )
        };
        classes.iter().map(table).collect()
    }
}

/// How a block travels.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// Whole block over a mesh
    Gossip,
    /// Random linear network coding
    Rlnc,
    /// Reed-Solomon shards
    Rs,
}

impl Transport {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Transport::Gossip => "gossip",
            Transport::Rlnc => "rlnc",
            Transport::Rs => "rs",
        }
    }
}

/// The network of a run: its graph, links and processors, and the nodes that send nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    pub(super) profile: Profile,
    /// Connections of a node.
    pub(super) degree: u32,
    /// Percentage of nodes that send nothing of what they should.
    pub(super) adversary_pct: u32,
}

impl Network {
    /// Returns the tables of a scenario, except for its nodes.
    pub(super) fn toml(&self) -> String {
        let fault = match self.adversary_pct {
            0 => String::new(),
            pct => format!("[[fault]]\nkind = \"withhold\"\nshare_pct = {pct}\nfactor_pct = 100\n"),
        };
        format!(
            "[graph]\nkind = \"permutations\"\ndegree = {}\n\
             [latency]\nkind = \"regions\"\nmatrix = \"libp2p-2025\"\nintra_ms_min = 15\n{}{fault}",
            self.degree,
            self.profile.toml(),
        )
    }
}
