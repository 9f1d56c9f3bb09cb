//! Collections as proofs: made and verified on the threads of a lane.

use std::sync::{Arc, PoisonError};

use alphorn_exec::Exec;
use alphorn_labrador::{Invalid, ProveError};
use alphorn_scheme::{Evidence, SchemeError, Statement, list};
use alphorn_types::Support;

use super::{AGGREGATORS_MAX, Falcon, PROOF_BYTES_MAX, signers, voted};
use crate::Item;
use crate::aggregate::{AggregateError, Aggregator, Signed, split_salts};
use crate::registry::EpochKeys;

/// What a proof is bound to beside keys, salts and message: where the signers stand.
fn context(statement: &Statement, support: &Support) -> Vec<u8> {
    let mut out = b"alphorn/falcon/group/v1".to_vec();
    out.extend(statement.first.to_le_bytes());
    out.extend(statement.len.to_le_bytes());
    for (position, _) in support.iter() {
        out.extend((position as u32).to_le_bytes());
    }
    out
}

impl Falcon {
    /// The aggregator for so many signatures. Those of the last numbers are kept, and their
    /// commitment keys, which are most of the work, serve all smaller ones.
    pub(super) fn aggregator(&self, signatures: usize) -> Result<Arc<Aggregator>, AggregateError> {
        let kept = || {
            self.aggregators
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let mut longest: Option<Arc<Aggregator>> = None;
        for (number, aggregator) in kept().iter() {
            if *number == signatures {
                return Ok(aggregator.clone());
            }
            if longest
                .as_ref()
                .is_none_or(|l| l.keys().bytes() < aggregator.keys().bytes())
            {
                longest = Some(aggregator.clone());
            }
        }
        let keys = longest.as_ref().map(|aggregator| aggregator.keys());
        let made = Aggregator::with_keys(signatures, self.profile, self.backend, keys)?;
        let made = Arc::new(made);
        let mut kept = kept();
        kept.truncate(AGGREGATORS_MAX - 1);
        kept.push_front((signatures, made.clone()));
        Ok(made)
    }

    /// Whether a proof shows that the signers of a group signed.
    pub(super) fn proof_holds(
        &self,
        keys: &EpochKeys,
        statement: &Statement,
        evidence: &Evidence,
        exec: Exec<'_>,
    ) -> bool {
        let Some(keys) = signers(keys, statement, &evidence.support) else {
            return false;
        };
        let Some((&list::TAG_PROOF, rest)) = evidence.bytes.split_first() else {
            return false;
        };
        let Some((salts, proof)) = split_salts(self.flavour, keys.len(), rest) else {
            return false;
        };
        if proof.len() > PROOF_BYTES_MAX {
            return false;
        }
        let voted = voted(statement);
        let message = self.flavour.message_of(&voted);
        let signed: Vec<Signed<'_>> = (keys.iter().zip(salts))
            .map(|(key, salt)| Signed { key, message, salt })
            .collect();
        let context = context(statement, &evidence.support);
        self.aggregator(signed.len()).is_ok_and(|aggregator| {
            let verdict = aggregator.verify_on(&signed, &context, proof, exec);
            verdict.is_ok()
        })
    }

    /// The proof of a list.
    pub(super) fn prove(
        &self,
        keys: &EpochKeys,
        statement: &Statement,
        evidence: &Evidence,
        exec: Exec<'_>,
    ) -> Result<Evidence, SchemeError> {
        let malformed = || SchemeError::Malformed(0);
        let signers = signers(keys, statement, &evidence.support).ok_or_else(malformed)?;
        let each = self.flavour.signature_bytes();
        let signatures = list::split(&evidence.bytes, signers.len(), each);
        let voted = voted(statement);
        let message = self.flavour.message_of(&voted);
        let items: Vec<Item<'_>> = (signers.iter().zip(signatures.map_err(|_| malformed())?))
            .map(|(key, signature)| Item {
                key,
                message,
                signature,
            })
            .collect();
        let context = context(statement, &evidence.support);
        let refused = |error: AggregateError| match error {
            AggregateError::Invalid { index, .. } => SchemeError::Malformed(index),
            AggregateError::Stopped(_)
            | AggregateError::Prove(
                ProveError::Stopped(_) | ProveError::Witness(Invalid::Stopped(_)),
            ) => SchemeError::Stopped,
            _ => SchemeError::Unsupported {
                scheme: "falcon",
                what: "prove so many signatures",
            },
        };
        let aggregator = self.aggregator(items.len()).map_err(refused)?;
        let (salts, proof) = aggregator
            .prove_on(&items, &context, exec)
            .map_err(refused)?;
        let mut bytes = vec![list::TAG_PROOF];
        bytes.extend(salts.as_flattened());
        bytes.extend(proof);
        Ok(Evidence {
            support: evidence.support.clone(),
            bytes: bytes.into(),
        })
    }
}
