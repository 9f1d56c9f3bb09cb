//! What aggregates and collections are: lists of signatures, or proofs.

use alphorn_falcon::{Collections, Falcon};
use alphorn_lab::proof::{PresetName, proofs};
use alphorn_xmss::{Set, Xmss};
use serde::{Deserialize, Serialize};

/// What aggregates and collections are.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Layers {
    /// Lists of signatures; also the name of the only form that BLS has
    #[default]
    #[value(name = "list/list")]
    #[serde(rename = "list/list")]
    ListList,
    /// Aggregates are lists, collections are proofs
    #[value(name = "list/proof")]
    #[serde(rename = "list/proof")]
    ListProof,
    /// Aggregates are proofs, which collectors merge; XMSS only
    #[value(name = "proof/proof")]
    #[serde(rename = "proof/proof")]
    ProofProof,
}

impl Layers {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Layers::ListList => "list/list",
            Layers::ListProof => "list/proof",
            Layers::ProofProof => "proof/proof",
        }
    }
}

pub(crate) fn falcon_scheme(layers: Layers, kernel: alphorn_exec::Backend) -> Falcon {
    let collections = match layers {
        Layers::ListList => Collections::Lists,
        // A network of Falcon has no aggregates as proofs (`NetworkFile::check`).
        Layers::ListProof | Layers::ProofProof => Collections::Proofs,
    };
    Falcon::new(collections, kernel)
}

pub(crate) fn xmss_scheme(layers: Layers, kernel: alphorn_exec::Backend) -> Xmss {
    let proofs = || proofs(Set::Compact, PresetName::Fast);
    match layers {
        Layers::ListList => Xmss::new(Set::Compact, kernel),
        Layers::ListProof => Xmss::with_proofs(proofs(), kernel),
        Layers::ProofProof => Xmss::with_proofs_of_cells(proofs(), kernel),
    }
}

/// Builds what a network process needs before its first slot, so that no merge has to wait for it; its
/// memory is part of what a process uses when it is ready.
pub(crate) fn make_circuits(layers: Layers) {
    match layers {
        Layers::ListList | Layers::ListProof => {}
        Layers::ProofProof => proofs(Set::Compact, PresetName::Fast).make_circuits(),
    }
}
