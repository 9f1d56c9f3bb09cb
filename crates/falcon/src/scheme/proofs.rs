//! Collections as proofs, made and verified on the threads of a lane.

use std::sync::{Arc, PoisonError};

use alphorn_exec::Exec;
use alphorn_labrador::{Invalid, Keys, ProveError, System};
use alphorn_scheme::{Evidence, Part, SchemeError, Statement, list};
use alphorn_types::Support;

use super::{
    AGGREGATORS_MAX, Aggregators, Falcon, KEY_LENGTHS, Kept, PROOF_BYTES_MAX, PROOF_BYTES_MIN,
    signers, voted,
};
use crate::Item;
use crate::aggregate::{AggregateError, Aggregator, Signed, split_salts};
use crate::registry::EpochKeys;

/// Data that a proof is bound to in addition to keys, salts and message: the positions of the signers.
fn context(statement: &Statement, support: &Support) -> Vec<u8> {
    let mut out = b"alphorn/falcon/group/v1".to_vec();
    out.extend(statement.first.to_le_bytes());
    out.extend(statement.len.to_le_bytes());
    // Two validators may have the same key, and keys alone would not say which of them signed.
    for (position, _) in support.iter() {
        out.extend((position as u32).to_le_bytes());
    }
    out
}

/// Returns the kept aggregator for this many signatures and moves it to the front, so that it is evicted last.
fn recall(kept: &mut Kept, signatures: usize) -> Option<Arc<Aggregator>> {
    let place = kept.iter().position(|(number, _)| *number == signatures)?;
    let found = kept.remove(place)?;
    kept.push_front(found);
    kept.front().map(|(_, aggregator)| aggregator.clone())
}

/// Returns a list without the signers at these indices, given in ascending order.
fn without(
    statement: &Statement,
    from: &Evidence,
    places: &[usize],
    signature_bytes: usize,
) -> Result<Evidence, SchemeError> {
    let signers = from.support.signer_count();
    let signatures = list::split(&from.bytes, signers, signature_bytes);
    let signatures = signatures.map_err(|_| SchemeError::Malformed(0))?;
    let all = from.support.iter().zip(signatures).enumerate();
    let kept = all.filter(|(place, _)| places.binary_search(place).is_err());
    let kept = kept.map(|(_, ((position, _), signature))| (position as u32, signature));
    list::aggregate(statement, &kept.collect::<Vec<_>>(), signature_bytes)
}

/// Returns the part that a signer of a union comes from: the first that contains it, as in [`list::union`].
fn part_of(parts: &[Part], union: &Support, signer: usize) -> Option<usize> {
    let (position, _) = union.iter().nth(signer)?;
    parts.iter().position(|part| {
        let (support, offset) = (&part.evidence.support, part.offset as usize);
        let within = position.checked_sub(offset);
        within.is_some_and(|at| at < support.len() && support.contains(at))
    })
}

/// Converts the reason why there is no proof if no input is at fault.
fn refused(error: &AggregateError) -> SchemeError {
    match error {
        AggregateError::Stopped(_)
        | AggregateError::Prove(
            ProveError::Stopped(_) | ProveError::Witness(Invalid::Stopped(_)),
        ) => SchemeError::Stopped,
        _ => SchemeError::Unsupported {
            scheme: "falcon",
            what: "prove so many signatures",
        },
    }
}

impl Falcon {
    /// Returns the aggregator for this many signatures. The most recently used ones are kept, and all share the
    /// commitment keys, which take most of the memory.
    pub(super) fn aggregator(&self, signatures: usize) -> Result<Arc<Aggregator>, AggregateError> {
        let Aggregators { keys, kept } = &*self.aggregators;
        // A cache of finished entries, so a panic elsewhere leaves nothing half done.
        let kept = || kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = recall(&mut kept(), signatures) {
            return Ok(known);
        }
        // The lock is not held here: drawing keys and deriving parameters take long, and other threads need other
        // entries.
        let keys = keys.get_or_init(|| {
            let (inner, outer) = KEY_LENGTHS;
            Arc::new(Keys::with_lengths(inner, outer, self.backend))
        });
        let made = Aggregator::with_keys(signatures, self.profile, self.backend, keys)?;
        let mut kept = kept();
        // Another thread may have made the same one in the meantime; keeping both would take twice the memory.
        if let Some(known) = recall(&mut kept, signatures) {
            return Ok(known);
        }
        let made = Arc::new(made);
        // Drops the one used longest ago, if there is no room for another.
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
        // Checked before parameters are derived, so that a sender of bytes that are no proof does not cause that
        // work.
        let header = System::check_header(self.profile, proof);
        if header.is_err() || !(PROOF_BYTES_MIN..=PROOF_BYTES_MAX).contains(&proof.len()) {
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

    /// Proves a union of parts, leaving out signatures that are valid but cannot be part of a proof. The maker of
    /// such a signature must not be able to prevent a proof of the rest of a committee.
    pub(super) fn prove(
        &self,
        keys: &EpochKeys,
        statement: &Statement,
        parts: &[Part],
        union: Evidence,
        exec: Exec<'_>,
    ) -> Result<Evidence, SchemeError> {
        let malformed = || SchemeError::Malformed(0);
        let each = self.flavour.signature_bytes();
        let voted = voted(statement);
        let message = self.flavour.message_of(&voted);
        let mut left = union;
        // All signatures to remove are named at once, so this loop runs at most twice.
        loop {
            let signers = signers(keys, statement, &left.support).ok_or_else(malformed)?;
            let signatures = list::split(&left.bytes, signers.len(), each);
            let items: Vec<Item<'_>> = (signers.iter().zip(signatures.map_err(|_| malformed())?))
                .map(|(key, signature)| Item {
                    key,
                    message,
                    signature,
                })
                .collect();
            let context = context(statement, &left.support);
            let aggregator = self.aggregator(items.len());
            let made = aggregator.and_then(|a| a.prove_on(&items, &context, exec));
            let (salts, proof) = match made {
                Ok(made) => made,
                Err(AggregateError::Unprovable { indices }) => {
                    left = without(statement, &left, &indices, each)?;
                    continue;
                }
                Err(AggregateError::Invalid { index, .. }) => {
                    let part = part_of(parts, &left.support, index);
                    return Err(SchemeError::Malformed(part.unwrap_or_default()));
                }
                Err(error) => return Err(refused(&error)),
            };
            let mut bytes = vec![list::TAG_PROOF];
            bytes.extend(salts.as_flattened());
            bytes.extend(proof);
            return Ok(Evidence {
                support: left.support.clone(),
                bytes: bytes.into(),
            });
        }
    }
}
