//! What others reach: published, or measured elsewhere on another machine; never of this run.

use alphorn_falcon::DEGREE;
use serde_json::{Value, json};

/// A figure of another system for so many signatures of Falcon-512.
pub(super) struct Peer {
    pub(super) signatures: u32,
    pub(super) name: &'static str,
    pub(super) machine: &'static str,
    pub(super) prove_s: f64,
    pub(super) verify_s: f64,
    /// Building the statement, outside of the timer of verification.
    setup_s: Option<f64>,
    /// Its own estimate of the entropy of a proof: it writes no bytes, and counts no salts.
    pub(super) size_kib: f64,
}

const LIBRARY: &str = "lattice-dogs/labrador 8b6626b, LOGQ = 48";
const STUDY: &str = "study of ethresear.ch 24431, lattice-dogs/labrador";
const ZEN: &str = "one thread of an AMD Zen 5, AVX-512";

/// The library at four sizes, and the figures of the study that uses it.
const PEERS: [Peer; 5] = [
    library(1000, 0.43, 0.24, None, 71.1),
    library(3000, 1.32, 0.69, None, 77.0),
    library(5000, 2.22, 1.13, None, 72.6),
    library(10_000, 7.28, 2.28, Some(0.49), 74.13),
    Peer {
        signatures: 10_000,
        name: STUDY,
        machine: "one thread of an Intel i5-11400H",
        prove_s: 5.96,
        verify_s: 2.65,
        setup_s: None,
        size_kib: 74.07,
    },
];

const fn library(
    signatures: u32,
    prove_s: f64,
    verify_s: f64,
    setup_s: Option<f64>,
    size_kib: f64,
) -> Peer {
    Peer {
        signatures,
        name: LIBRARY,
        machine: ZEN,
        prove_s,
        verify_s,
        setup_s,
        size_kib,
    }
}

/// The peers with figures for so many signatures of a degree.
pub(super) fn of(degree: usize, signatures: u32) -> impl Iterator<Item = &'static Peer> {
    let peers = PEERS.iter();
    peers.filter(move |peer| degree == DEGREE && peer.signatures == signatures)
}

/// The fields of a peer.
pub(super) fn json(peer: &Peer) -> Value {
    let fields = json!({
        "name": peer.name,
        "machine": peer.machine,
        "prove_s": peer.prove_s,
        "verify_s": peer.verify_s,
        "size_kib": peer.size_kib,
        "kind": "cited",
    });
    with_setup(fields, peer.setup_s)
}

/// The fields, and the set-up that stands outside of their times if there is one.
pub(super) fn with_setup(mut fields: Value, setup_s: Option<f64>) -> Value {
    if let (Some(setup_s), Some(fields)) = (setup_s, fields.as_object_mut()) {
        fields.insert("setup_s".into(), json!(setup_s));
    }
    fields
}
