//! Encoding of a job's result, and digests of its inputs: what a child process returns, and how an input that crashed
//! one is recognised. Signatures and key tables have no encoding; they are made where the secrets are.

use super::code::{
    INPUTS_MAX, evidence, list, put_bundle_entry, put_claim, put_evidence, put_part, put_statement,
    shared,
};
use super::{Product, Work};
use crate::Verdict;
use alphorn_types::{DecodeError, Reader, Writer};
use sha2::{Digest, Sha256};

const VERDICTS: u8 = 0;
const EVIDENCE: u8 = 1;
const BUNDLE: u8 = 2;

/// Used for [`Verdict::Valid`] in place of the index of the first bad claim.
// No input has so many claims.
const VALID: u32 = u32::MAX;

pub(super) fn encode(product: &Product) -> Option<Vec<u8>> {
    let mut w = Writer::with_capacity(256);
    match product {
        Product::Verdicts(verdicts) => {
            w.u8(VERDICTS);
            w.u32(u32::try_from(verdicts.len()).ok()?);
            for verdict in verdicts {
                w.u32(match verdict {
                    Verdict::Valid => VALID,
                    Verdict::Invalid { claim } => u32::try_from(*claim).ok()?,
                });
            }
        }
        Product::Evidence(made) => {
            w.u8(EVIDENCE);
            put_evidence(&mut w, made);
        }
        Product::Bundle { count, bytes } => {
            w.u8(BUNDLE);
            w.u32(u32::try_from(*count).ok()?);
            w.bytes_u32_prefixed(bytes);
        }
        Product::Signed(_)
        | Product::Selected(_)
        | Product::Prepared(_)
        | Product::Assigned(_)
        | Product::Foreign(_) => return None,
    }
    Some(w.into_vec())
}

pub(super) fn decode(bytes: &[u8]) -> Result<Product, DecodeError> {
    let mut r = Reader::new(bytes);
    let product = match r.u8()? {
        VERDICTS => Product::Verdicts(list(&mut r, INPUTS_MAX, |r| {
            Ok(match r.u32()? {
                VALID => Verdict::Valid,
                claim => Verdict::Invalid {
                    claim: claim as usize,
                },
            })
        })?),
        EVIDENCE => Product::Evidence(evidence(&mut r)?),
        BUNDLE => Product::Bundle {
            // Not bounded here: `BundleJob::holds` compares it with the collections of the job.
            count: r.u32()? as usize,
            bytes: shared(&mut r)?,
        },
        value => {
            return Err(DecodeError::UnknownTag {
                what: "product",
                value: u64::from(value),
            });
        }
    };
    r.finish()?;
    Ok(product)
}

/// SHA-256 of the claims of an input, including the statement and the key table against which it is judged.
pub(super) fn input_digest(work: &Work, index: usize) -> Option<[u8; 32]> {
    let mut w = Writer::with_capacity(256);
    match work {
        Work::Verify(job) => {
            let item = job.items.get(index)?;
            // The number of the kind keeps inputs of two kinds apart even if the rest of their bytes agree.
            w.u8(0);
            w.u64(job.epoch.0);
            item.claims
                .iter()
                .for_each(|claim| put_claim(&mut w, claim));
        }
        Work::Aggregate(job) => {
            let (position, signature) = job.votes.get(index)?;
            w.u8(1);
            w.u64(job.epoch.0);
            put_statement(&mut w, &job.statement);
            w.u32(*position);
            w.bytes_u32_prefixed(signature);
        }
        Work::Combine(job) => {
            let part = job.parts.get(index)?;
            w.u8(2);
            w.u64(job.epoch.0);
            put_statement(&mut w, &job.statement);
            put_part(&mut w, part);
        }
        Work::Bundle(job) => {
            let (entry, evidence) = job.collections.get(index)?;
            w.u8(3);
            put_bundle_entry(&mut w, entry);
            w.bytes_u32_prefixed(evidence);
        }
        Work::VerifyBundle(_) => return None,
        Work::Sign(_) | Work::Select(_) | Work::Prepare(_) | Work::Foreign(_) => return None,
    }
    Some(Sha256::digest(w.as_slice()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AggregateJob, Claim, Evidence, Item, Layer, Op, Role, Statement, VerifyJob};
    use alphorn_types::{Bitfield, Epoch, Slot, Support, Validator};
    use std::sync::Arc;

    fn evidence_of(signers: usize) -> Product {
        let mut bits = Bitfield::new(70);
        (0..signers).for_each(|i| bits.set(i));
        Product::Evidence(Evidence {
            support: Arc::new(Support::from_bits(bits)),
            bytes: vec![7; 96].into(),
        })
    }

    #[test]
    fn results_come_back_from_their_bytes() {
        let verdicts = vec![Verdict::Valid, Verdict::Invalid { claim: 3 }];
        let bundle = Product::Bundle {
            count: 3,
            bytes: vec![8; 40].into(),
        };
        for product in [
            Product::Verdicts(verdicts),
            evidence_of(9),
            evidence_of(70),
            bundle,
        ] {
            let bytes = encode(&product).expect("has bytes");
            assert_eq!(decode(&bytes).as_ref(), Ok(&product));
            for cut in 0..bytes.len() {
                assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
        assert_eq!(encode(&Product::Prepared(Epoch(1))), None);
        assert!(matches!(
            decode(&[3]),
            Err(DecodeError::UnknownTag { value: 3, .. })
        ));
    }

    #[test]
    fn inputs_are_named_by_what_they_claim() {
        let job = |message: u8, votes: &[u8]| {
            Work::Aggregate(AggregateJob {
                epoch: Epoch(0),
                statement: Statement {
                    layer: Layer::Aggregate,
                    first: 0,
                    len: 8,
                    slot: Slot(1),
                    message: [message; 32],
                },
                votes: votes
                    .iter()
                    .map(|v| (0, crate::Bytes::from(vec![*v; 8]).into()))
                    .collect(),
            })
        };
        let (one, two, other) = (job(1, &[5, 6]), job(1, &[6]), job(2, &[6]));
        assert_eq!(input_digest(&one, 1), input_digest(&two, 0));
        assert_ne!(input_digest(&one, 0), input_digest(&one, 1));
        assert_ne!(input_digest(&two, 0), input_digest(&other, 0));
        assert_eq!(input_digest(&two, 1), None);
        let in_epoch = |epoch| {
            let claim = Claim::One {
                validator: Validator(1),
                role: Role::Vote,
                slot: Slot(1),
                message: [1; 32],
                signature: vec![5; 8].into(),
            };
            let votes = Work::Verify(VerifyJob {
                op: Op::VerifyVotes,
                epoch: Epoch(epoch),
                items: vec![Item {
                    claims: vec![claim],
                }],
            });
            let aggregate = match job(1, &[5]) {
                Work::Aggregate(job) => Work::Aggregate(AggregateJob {
                    epoch: Epoch(epoch),
                    ..job
                }),
                other => other,
            };
            [votes, aggregate].map(|work| input_digest(&work, 0))
        };
        let [before, after] = [0, 1].map(in_epoch);
        assert!(before.iter().zip(&after).all(|(one, other)| one != other));
    }
}
