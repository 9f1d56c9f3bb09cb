//! Parameters of the two-level model, as a scenario gives them.

use super::TwoLevelError;
use crate::horn::Way;
use serde::{Deserialize, Serialize};

/// Parameters; the defaults are those of the published runs (BEAMSIM, qdrvm/beamsim at c3c34fc), where a
/// range is published its middle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TwoLevel {
    /// Groups; validator i is in group i mod `groups`. Each node is a validator.
    pub groups: u32,
    /// Share of a group that aggregates its signatures, in percent.
    pub local_aggregators_pct: u32,
    /// Nodes that aggregate proofs.
    pub global_aggregators: u32,
    /// How signatures travel in their group: `gossip`, `grid` or `direct`.
    pub signatures: String,
    /// How proofs travel among global aggregators.
    pub proofs: String,
    /// Whether proofs are announced and asked for, in place of sent at once.
    pub pull: bool,
    /// Peers of a mesh.
    pub mesh: u32,
    /// Peers that are told identities.
    pub lazy: u32,
    /// Time to sign.
    pub signing_ms: u64,
    /// A signature.
    pub signature_bytes: u64,
    /// A proof.
    pub proof_bytes: u64,
    /// An announcement, or a request.
    pub announcement_bytes: u64,
    /// Share of its group whose signatures a local aggregator waits for, in percent.
    pub local_start_pct: u32,
    /// Signatures that a local aggregator proves in a second.
    pub signatures_per_s: u64,
    /// Share of all signers that a global aggregator waits for, in percent.
    pub final_pct: u32,
    /// Proofs that a global aggregator proves in a second.
    pub proofs_per_s: u64,
    /// Time to verify a signature.
    pub verify_signature_us: u64,
    /// Time to verify a proof.
    pub verify_proof_us: u64,
    /// The time that was published for this case, to compare; 0 for none.
    pub published_ms: u64,
}

impl Default for TwoLevel {
    fn default() -> Self {
        TwoLevel {
            groups: 8,
            local_aggregators_pct: 10,
            global_aggregators: 102,
            signatures: "gossip".into(),
            proofs: "gossip".into(),
            pull: true,
            mesh: 8,
            lazy: 4,
            signing_ms: 20,
            signature_bytes: 3072,
            proof_bytes: 131_072,
            announcement_bytes: 64,
            local_start_pct: 90,
            signatures_per_s: 1000,
            final_pct: 66,
            proofs_per_s: 10,
            verify_signature_us: 16,
            verify_proof_us: 6000,
            published_ms: 0,
        }
    }
}

impl TwoLevel {
    /// Checks every bound, for so many nodes.
    ///
    /// # Errors
    /// [`TwoLevelError::Range`], which names the key.
    pub fn check(&self, nodes: u32) -> Result<(), TwoLevelError> {
        const BYTES_MAX: u64 = 1 << 30;
        const RATE_MAX: u64 = 1_000_000_000;
        const TIME_MAX: u64 = 1_000_000;
        let nodes = u64::from(nodes);
        for (key, value, min, max) in [
            ("groups", self.groups.into(), 1, nodes),
            (
                "local_aggregators_pct",
                self.local_aggregators_pct.into(),
                1,
                100,
            ),
            (
                "global_aggregators",
                self.global_aggregators.into(),
                1,
                nodes,
            ),
            ("mesh", self.mesh.into(), 1, 60),
            ("lazy", self.lazy.into(), 0, 60),
            ("signing_ms", self.signing_ms, 0, TIME_MAX),
            ("signature_bytes", self.signature_bytes, 1, BYTES_MAX),
            ("proof_bytes", self.proof_bytes, 1, BYTES_MAX),
            ("announcement_bytes", self.announcement_bytes, 1, BYTES_MAX),
            ("local_start_pct", self.local_start_pct.into(), 1, 100),
            ("signatures_per_s", self.signatures_per_s, 1, RATE_MAX),
            ("final_pct", self.final_pct.into(), 1, 100),
            ("proofs_per_s", self.proofs_per_s, 1, RATE_MAX),
            ("verify_signature_us", self.verify_signature_us, 0, TIME_MAX),
            ("verify_proof_us", self.verify_proof_us, 0, TIME_MAX),
            ("published_ms", self.published_ms, 0, TIME_MAX),
        ] {
            if !(min..=max).contains(&value) {
                return Err(TwoLevelError::Range {
                    key,
                    value,
                    min,
                    max,
                });
            }
        }
        self.ways().map(|_| ())
    }

    /// How signatures and proofs travel.
    ///
    /// # Errors
    /// [`TwoLevelError::Way`], which names the key.
    pub fn ways(&self) -> Result<[Way; 2], TwoLevelError> {
        let way = |key, text: &String| match text.as_str() {
            "gossip" => Ok(Way::Gossip),
            "grid" => Ok(Way::Grid),
            "direct" => Ok(Way::Direct),
            value => Err(TwoLevelError::Way {
                key,
                value: value.to_owned(),
            }),
        };
        Ok([
            way("signatures", &self.signatures)?,
            way("proofs", &self.proofs)?,
        ])
    }
}
