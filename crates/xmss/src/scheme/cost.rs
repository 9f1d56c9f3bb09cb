//! Cost of the scheme's operations: formulas with measured factors.

use super::{COMMITTEE_MAX, Xmss};
use crate::collection::{self, block};
use crate::proof::Proofs;
use alphorn_scheme::{Cost, Layer, Op};

/// Nanoseconds per hash on the AVX-512 kernel, including building its input, as measured by `alphorn bench xmss`.
/// The worker learns the factor of the local host.
const HASH_NS: u64 = 300;

/// Average number of tries per signature: 913 in the production set, 834 in the compact one.
const TRIES: usize = 900;

impl Xmss {
    /// Predicted time and memory of an operation.
    pub(super) fn cost_of(&self, op: Op, n: u64, m: u64) -> Cost {
        let each = self.set.params().signature_bytes as u64;
        let verify = |count: u64| count.saturating_mul(self.verify_ns());
        let copy = |count: u64| count.saturating_mul(each / 4);
        if let Some(proofs) = &self.proofs
            && let Some(cost) = self.cost_of_proofs(proofs, op, n, m)
        {
            return cost;
        }
        let (ns, signatures) = match op {
            Op::Sign | Op::DutySign => (n.saturating_mul(self.sign_ns()), n),
            Op::VerifyVotes | Op::DutyVerify => (verify(n), n),
            // A message of an aggregate or collection holds three signatures next to the list.
            Op::VerifyAggregates | Op::VerifyCollections => {
                let all = n.saturating_mul(3).saturating_add(m);
                (verify(all), all)
            }
            // The job verifies its own result.
            Op::Aggregate => (copy(n) + verify(n), n),
            Op::Collect | Op::Merge => {
                let all = n.saturating_add(m);
                (copy(all) + verify(all), all)
            }
            Op::Prepare => (1_000 + n, 0),
            // Each collection carries its own evidence.
            Op::Bundle | Op::VerifyBundle => (0, 0),
        };
        Cost {
            ns,
            memory_bytes: signatures.saturating_mul(2 * each) + (1 << 20),
        }
    }

    /// The cost of operations that proofs change.
    fn cost_of_proofs(&self, proofs: &Proofs, op: Op, n: u64, m: u64) -> Option<Cost> {
        let lists = Xmss::new(self.set, self.backend);
        let beside = |m, (ns, memory_bytes): (u64, u64)| {
            let list = lists.cost_of(op, n, m);
            Cost {
                ns: list.ns.saturating_add(ns),
                memory_bytes: list.memory_bytes.max(memory_bytes),
            }
        };
        // Signatures are verified before they are proved, and the proof is verified afterwards.
        let proved = |signatures: u64| {
            let (prove_ns, bytes) = collection::prove_cost(proofs, signatures);
            let (check_ns, _) = collection::verify_cost(proofs, 1, signatures);
            (prove_ns.saturating_add(check_ns), bytes)
        };
        let merged = |pieces: u64| {
            let (merge_ns, memory_bytes) = collection::merge_cost(proofs, pieces);
            let (check_ns, _) = collection::merge_verify_cost();
            Cost {
                ns: merge_ns.saturating_add(check_ns),
                memory_bytes,
            }
        };
        let cells = self.proved_from == Layer::Aggregate;
        let cost = |(ns, memory_bytes)| Cost { ns, memory_bytes };
        Some(match op {
            // A message holds three signatures next to the proof.
            Op::VerifyAggregates | Op::VerifyCollections if cells => {
                beside(0, collection::verify_merging_cost(proofs, n, m))
            }
            Op::VerifyCollections => beside(0, collection::verify_cost(proofs, n, m)),
            Op::Aggregate if cells => beside(m, proved(n)),
            Op::Collect if cells => merged(n),
            Op::Bundle if cells => cost(block::bundle_cost(proofs, n)),
            Op::VerifyBundle if cells => cost(block::bundle_verify_cost(n)),
            // Signatures among the pieces are proved first, and that proof becomes one more piece.
            Op::Merge if proofs.mergeable() => {
                let merged = merged(n.saturating_add(u64::from(m > 0)));
                let raw = match m {
                    0 => Cost::default(),
                    m => beside(m, proved(m)),
                };
                Cost {
                    ns: merged.ns.saturating_add(raw.ns),
                    memory_bytes: merged.memory_bytes.max(raw.memory_bytes),
                }
            }
            Op::Collect | Op::Merge => beside(m, proved(m)),
            Op::Prepare => {
                let committees = n.div_ceil(u64::from(COMMITTEE_MAX));
                let hashes = committees.saturating_mul(2 * u64::from(COMMITTEE_MAX));
                beside(m, (hashes.saturating_mul(HASH_NS), 0))
            }
            _ => return None,
        })
    }

    /// Approximate time of the hashes in one verification.
    fn verify_ns(&self) -> u64 {
        let params = self.set.params();
        let levels = usize::from(params.log2_lifetime);
        // Each permutation of the code, the leaf and the path costs about two chain hashes.
        (params.steps() + 2 * (1 + params.chains / 2 + levels)) as u64 * HASH_NS
    }

    /// Approximate time of the tries, chain starts and chains of one signature.
    fn sign_ns(&self) -> u64 {
        let params = self.set.params();
        // A try is one hash of the seed and one of the message, together about three chain hashes.
        (3 * TRIES + params.chains * 4) as u64 * HASH_NS
    }
}
