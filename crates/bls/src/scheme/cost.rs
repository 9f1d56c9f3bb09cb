//! Work costs on one thread: nanoseconds per operation of blst 0.3.17 on a 4 GHz Zen 5, and the measured cost
//! of additions. The worker learns the factor of the current host.

use alphorn_scheme::{Cost, Op};

use crate::sums::Costs;

const SIGN_NS: u64 = 255_000;
const DECODE_NS: u64 = 20_000;
const SUBGROUP_NS: u64 = 14_000;
/// Combining one item with 64-bit weights.
const COMBINE_NS: u64 = 13_000;
const HASH_NS: u64 = 128_000;
const MILLER_NS: u64 = 126_000;
/// One final exponentiation, two Miller loops and the hash of the common message.
const TEST_NS: u64 = 640_000;
const G2_ADD_NS: u64 = 600;
/// Signers of a dense collection whose keys share one addition (eight columns per group).
const SIGNERS_PER_ADDITION: f64 = 4.0;
/// Decoded points, weights and encodings per item.
const ITEM_BYTES: u64 = 768;
/// A key in the table, counted twice because both copies exist while the table is built.
const KEY_BYTES: u64 = 2 * (96 + 128);

fn item_ns(n: u64) -> u64 {
    n.saturating_mul(DECODE_NS + SUBGROUP_NS + COMBINE_NS)
}

/// Predicts the cost of an operation.
pub(super) fn predict(costs: &Costs, op: Op, n: u64, m: u64) -> Cost {
    let keys_ns = (m as f64 / SIGNERS_PER_ADDITION * costs.add_ns) as u64;
    let ns = match op {
        Op::Sign | Op::DutySign => n.saturating_mul(SIGN_NS),
        Op::VerifyVotes => TEST_NS + item_ns(n),
        // Duties sign different messages, so each needs a hash and a Miller loop.
        Op::DutyVerify => TEST_NS + item_ns(n) + n.saturating_mul(HASH_NS + MILLER_NS),
        Op::VerifyAggregates | Op::VerifyCollections => {
            let triple = item_ns(n.saturating_mul(3)) + n.saturating_mul(HASH_NS + MILLER_NS);
            TEST_NS + triple + keys_ns
        }
        Op::Aggregate | Op::Collect | Op::Merge => {
            TEST_NS + n.saturating_mul(DECODE_NS + G2_ADD_NS) + keys_ns
        }
        Op::Prepare => 2 * (n as f64 * costs.add_ns) as u64 + n.saturating_mul(200),
        // Each collection carries its own evidence.
        Op::Bundle | Op::VerifyBundle => 0,
    };
    let memory_bytes = match op {
        Op::Prepare => n.saturating_mul(KEY_BYTES),
        _ => n.saturating_mul(ITEM_BYTES) + (2 << 20),
    };
    Cost { ns, memory_bytes }
}
