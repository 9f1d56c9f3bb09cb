//! Coding work bundled with its code, as scheduled by a worker alongside the jobs of a scheme.

use super::work::{Product, Work};
use crate::rlnc::Coding;
use alphorn_scheme::model::CodeOp;
use alphorn_scheme::{self as scheme, Features, Foreign, Opaque, TaskError};

/// Base of the coding work kinds in [`Features`], above all others; the operation is added.
pub(crate) const KIND_CODED: u16 = 0x200;

/// Nanoseconds per element of a sum over the generators: 1 ms for 380 elements on the portable kernel. A worker learns
/// the factor of its own kernel.
const SUM_NS_PER_ELEMENT: u64 = 2600;
/// Picoseconds per product of scalars in a linear combination, on the portable kernel: 60 µs for 10 rows of 380.
const PRODUCT_PS: u64 = 15_800;
/// Picoseconds per byte hashed, and per byte that Reed-Solomon encodes or restores.
const HASH_PS_PER_BYTE: u64 = 500;
const SHARD_PS_PER_BYTE: u64 = 1_500;
/// Payload bytes per element.
const ELEMENT_BYTES: u64 = 31;

/// Coding work and the code that performs it; the product is an opaque [`Product`]. Signatures are not coding work: a
/// driver passes those to its scheme.
#[derive(Clone, Debug)]
pub struct CodeJob<C: Coding> {
    /// The code.
    pub code: C,
    /// The work.
    pub work: Work<C>,
}

impl<C: Coding> Foreign for CodeJob<C> {
    fn name(&self) -> &'static str {
        self.work.name()
    }

    fn features(&self) -> Features {
        let Some(size) = self.work.size() else {
            return Features {
                kind: KIND_CODED,
                class: 0,
                inputs: 0,
                prior_ns: 0,
                memory_bytes: 0,
            };
        };
        let (n, bytes) = (size.n.max(1), size.payload_bytes);
        let shard_bytes = self.work.shard_bytes();
        let elements = bytes.div_ceil(ELEMENT_BYTES);
        let prior_ns = match size.op {
            // All chunks together have as many elements as the payload.
            CodeOp::RlncCommit => elements * SUM_NS_PER_ELEMENT,
            // One sum over the elements of a chunk, whose number is unknown: at least sixteen.
            CodeOp::RlncVerify => {
                elements.div_ceil(16) * SUM_NS_PER_ELEMENT + n * elements * PRODUCT_PS / 16_000
            }
            CodeOp::RlncRecode => elements * PRODUCT_PS / 1000,
            CodeOp::RlncDecode => n * elements * PRODUCT_PS / 1000,
            CodeOp::RsVerify => n * bytes.div_ceil(16) * HASH_PS_PER_BYTE / 1000,
            CodeOp::RsEncode | CodeOp::RsDecode => shard_bytes * SHARD_PS_PER_BYTE / 1000,
        };
        Features {
            kind: KIND_CODED + 1 + size.op as u16,
            class: bytes.max(1).next_power_of_two().trailing_zeros() as u8,
            inputs: u32::try_from(n).unwrap_or(u32::MAX),
            prior_ns,
            memory_bytes: bytes + bytes.max(shard_bytes),
        }
    }

    /// Performs the work.
    ///
    /// # Errors
    ///
    /// [`TaskError::Refused`] for a signature.
    fn run(&self) -> Result<scheme::Product, TaskError> {
        let product: Option<Product<C>> = self.work.run(&self.code);
        let product = product.map(|product| scheme::Product::Foreign(Opaque::new(product)));
        product.ok_or_else(|| TaskError::Refused(format!("{} is no coding work", self.name())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlnc::{Cut, Rs, Subject};

    const SUBJECT: Subject = Subject {
        kind: 1,
        slot: 0,
        source: 0,
        index: 0,
    };

    #[test]
    fn coding_is_done_and_signatures_are_refused() {
        let code = Rs::new(1000);
        let commit = CodeJob {
            code,
            work: Work::Commit {
                subject: SUBJECT,
                payload: vec![1; 500].into(),
                cut: Cut::rs(4),
            },
        };
        let Ok(scheme::Product::Foreign(shards)) = commit.run() else {
            panic!("shards");
        };
        let Some(Product::<Rs>::Published(Ok(published))) = shards.take() else {
            panic!("shards");
        };
        assert_eq!(published.header.len, 500);
        let features = commit.features();
        assert_eq!((commit.name(), features.inputs), ("rs_encode", 4));
        assert!(features.prior_ns > 0 && features.kind > KIND_CODED);
        // Sixteen shards of 128 bytes, and the payload.
        assert_eq!(features.memory_bytes, 16 * 128 + 500);

        let sign = CodeJob {
            code,
            work: Work::Sign {
                subject: SUBJECT,
                root: [0; 32],
            },
        };
        let refused = TaskError::Refused("broadcast_sign is no coding work".into());
        assert_eq!(sign.run().unwrap_err(), refused);
        assert_eq!(sign.features().kind, KIND_CODED);
    }
}
