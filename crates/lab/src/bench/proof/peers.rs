//! What others reach: published, or measured elsewhere on another machine; never of this run.

use crate::report::columns;
use serde::Serialize;
use serde_json::{Value, json};

/// A figure of another system.
#[derive(Serialize)]
struct Peer {
    name: &'static str,
    what: &'static str,
    signatures_per_s: &'static str,
    proof: &'static str,
    verify: &'static str,
    memory: &'static str,
}

/// On two cores of an AMD Zen 5 with AVX-512 and 24 GB.
const PEERS: [Peer; 3] = [
    Peer {
        name: "leanMultisig, Poseidon branch",
        what: "775 signatures, rate 1/4",
        signatures_per_s: "240",
        proof: "276 kB",
        verify: "34-38 ms",
        memory: "6.0 GiB",
    },
    Peer {
        name: "leanMultisig, Poseidon branch",
        what: "775 signatures, rate 1/2",
        signatures_per_s: "320",
        proof: "413 kB",
        verify: "50-52 ms",
        memory: "5.7 GiB",
    },
    Peer {
        name: "hash-sig-agg (other signatures)",
        what: "1024 signatures, no recursion",
        signatures_per_s: "602",
        proof: "1.48 MB",
        verify: "110 ms",
        memory: "0.6 GB",
    },
];

/// Where and how the figures were made.
const MACHINE: &str = "2 threads, AMD Zen 5, native AVX-512 builds";

pub(super) fn printed() -> String {
    let row = |peer: &Peer| {
        let cells = [
            ("cited: not of this run", peer.name),
            ("what", peer.what),
            ("signatures/s", peer.signatures_per_s),
            ("proof", peer.proof),
            ("verify", peer.verify),
            ("memory", peer.memory),
        ];
        cells.map(|(name, cell)| (name, cell.to_owned())).to_vec()
    };
    format!("{}\n({MACHINE})", columns(PEERS.iter().map(row)))
}

pub(super) fn json() -> Value {
    let peer = |peer: &Peer| {
        let mut fields = json!(peer);
        fields["machine"] = json!(MACHINE);
        fields["kind"] = json!("cited");
        fields
    };
    PEERS.iter().map(peer).collect()
}
