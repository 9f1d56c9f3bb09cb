//! The single signatures that a claim of the protocol requires, each verified under its own key.

use alphorn_exec::{Backend, Exec};
use alphorn_scheme::{Claim, Evidence, Role, Statement, list};
use alphorn_types::{Slot, Validator};

use crate::key::{Purpose, one_time_index};
use crate::params::Set;
use crate::registry::EpochKeys;
use crate::signature::{PublicKey, Signature};
use crate::verify::{Item, verify_batch};

/// A signature to verify for a claim.
pub(crate) struct Wanted<'a> {
    key: &'a PublicKey,
    index: u32,
    message: &'a [u8; 32],
    bytes: &'a [u8],
}

/// The signatures that a claim needs; none if it cannot hold.
pub(crate) fn wanted<'a>(
    set: Set,
    keys: &'a EpochKeys,
    claim: &'a Claim,
) -> Option<Vec<Wanted<'a>>> {
    let one = |role, validator, slot: Slot, message: &'a [u8; 32], bytes: &'a [u8]| {
        Some(Wanted {
            key: keys.registry.key(Purpose::of(role), validator)?,
            index: one_time_index(role, slot.0)?,
            message,
            bytes,
        })
    };
    match claim {
        Claim::One {
            validator,
            role,
            slot,
            message,
            signature,
        } => Some(vec![one(*role, *validator, *slot, message, signature)?]),
        // The scheme has no proofs of selection.
        Claim::Selected { .. } => None,
        Claim::Group {
            statement,
            evidence,
        } => wanted_of_group(set, keys, statement, evidence, one),
    }
}

fn wanted_of_group<'a>(
    set: Set,
    keys: &'a EpochKeys,
    statement: &'a Statement,
    evidence: &'a Evidence,
    one: impl Fn(Role, Validator, Slot, &'a [u8; 32], &'a [u8]) -> Option<Wanted<'a>>,
) -> Option<Vec<Wanted<'a>>> {
    let support = &evidence.support;
    let signers = list::signers(&keys.assignment, statement, support)?;
    let each = set.params().signature_bytes;
    let signatures = list::split(&evidence.bytes, support.signer_count(), each).ok()?;
    let (slot, message) = (statement.slot, &statement.message);
    let votes = signers.zip(signatures);
    votes
        .map(|(validator, bytes)| one(Role::Vote, validator, slot, message, bytes))
        .collect()
}

/// Whether each of the signatures holds.
pub(crate) fn hold(set: Set, backend: Backend, wanted: &[Wanted<'_>]) -> Vec<bool> {
    let decoded: Vec<Option<Signature>> = wanted
        .iter()
        .map(|wanted| Signature::from_bytes(set, wanted.bytes).ok())
        .collect();
    let pairs = wanted.iter().zip(&decoded);
    let items: Vec<Item<'_>> = pairs
        .filter_map(|(wanted, signature)| {
            Some(Item {
                key: wanted.key,
                index: wanted.index,
                message: wanted.message,
                signature: signature.as_ref()?,
            })
        })
        .collect();
    let mut verdicts = verify_batch(set, &items, Exec::new(backend, None)).into_iter();
    decoded
        .iter()
        // Only decoded signatures were verified, so each of them takes the next verdict.
        .map(|signature| signature.is_some() && verdicts.next().unwrap_or(false))
        .collect()
}
