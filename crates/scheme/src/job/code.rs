//! Encoding of a job, for child processes, input logs and the digest that finds identical work.
//! Jobs that use secret keys, the preparation of key tables, and foreign work have none.

use super::{AggregateJob, BundleEntry, BundleJob, CombineJob, VerifyBundleJob, VerifyJob, Work};
use crate::{Bytes, Claim, Evidence, Item, Layer, Op, Part, Role, Statement};
use alphorn_types::support_code::{self, CellBounds, Coding, Reference, SupportCode};
use alphorn_types::{DecodeError, Epoch, Reader, Slot, Support, VALIDATORS_MAX, Validator, Writer};
use std::sync::Arc;

/// Maximum number of inputs per job.
pub(super) const INPUTS_MAX: u32 = 1 << 20;
/// Maximum number of pieces per combination: 15 picks in each of a committee's 256 cells are 3,840.
const PARTS_MAX: u32 = 1 << 12;
/// Maximum number of collections per bundle: as many as in a block.
const COLLECTIONS_MAX: u32 = 1 << 11;
/// Maximum number of claims per input.
const CLAIMS_MAX: u32 = 1 << 10;
/// Maximum size of a signature or piece of evidence in bytes.
const BYTES_MAX: usize = 16 << 20;
/// Maximum number of positions of a support: one committee of the largest layout.
const POSITIONS_MAX: u32 = VALIDATORS_MAX;
/// Maximum multiplicity in a support.
const MULTIPLICITY_MAX: u8 = 15;

pub(super) fn encode(work: &Work) -> Option<Vec<u8>> {
    let mut w = Writer::with_capacity(256);
    match work {
        Work::Verify(job) => {
            w.u8(0);
            w.u16(job.op.kind());
            w.u64(job.epoch.0);
            w.u32(job.items.len() as u32);
            for item in &job.items {
                w.u32(item.claims.len() as u32);
                item.claims
                    .iter()
                    .for_each(|claim| put_claim(&mut w, claim));
            }
        }
        Work::Aggregate(job) => {
            w.u8(1);
            w.u64(job.epoch.0);
            put_statement(&mut w, &job.statement);
            w.u32(job.votes.len() as u32);
            for (position, signature) in &job.votes {
                w.u32(*position);
                w.bytes_u32_prefixed(signature);
            }
        }
        Work::Combine(job) => {
            w.u8(2);
            w.u16(job.op.kind());
            w.u64(job.epoch.0);
            put_statement(&mut w, &job.statement);
            w.u8(job.multiplicity_max);
            w.u32(job.parts.len() as u32);
            for part in &job.parts {
                put_part(&mut w, part);
            }
        }
        Work::Bundle(job) => {
            w.u8(3);
            w.u32(job.collections.len() as u32);
            for (entry, evidence) in &job.collections {
                put_bundle_entry(&mut w, entry);
                w.bytes_u32_prefixed(evidence);
            }
        }
        Work::VerifyBundle(job) => {
            w.u8(4);
            w.u32(job.entries.len() as u32);
            job.entries
                .iter()
                .for_each(|entry| put_bundle_entry(&mut w, entry));
            w.bytes_u32_prefixed(&job.evidence);
        }
        Work::Sign(_) | Work::Select(_) | Work::Prepare(_) | Work::Foreign(_) => return None,
    }
    Some(w.into_vec())
}

pub(super) fn decode(bytes: &[u8]) -> Result<Work, DecodeError> {
    let mut r = Reader::new(bytes);
    let work = match r.u8()? {
        0 => Work::Verify(VerifyJob {
            op: op(&mut r)?,
            epoch: Epoch(r.u64()?),
            items: list(&mut r, INPUTS_MAX, item)?,
        }),
        1 => Work::Aggregate(AggregateJob {
            epoch: Epoch(r.u64()?),
            statement: statement(&mut r)?,
            votes: list(&mut r, INPUTS_MAX, |r| Ok((r.u32()?, shared(r)?.into())))?,
        }),
        2 => Work::Combine(CombineJob {
            op: op(&mut r)?,
            epoch: Epoch(r.u64()?),
            statement: statement(&mut r)?,
            multiplicity_max: r.u8()?,
            parts: list(&mut r, PARTS_MAX, part)?,
        }),
        3 => Work::Bundle(BundleJob {
            collections: list(&mut r, COLLECTIONS_MAX, |r| {
                Ok((bundle_entry(r)?, shared(r)?))
            })?,
        }),
        4 => Work::VerifyBundle(VerifyBundleJob {
            entries: list(&mut r, COLLECTIONS_MAX, bundle_entry)?,
            evidence: shared(&mut r)?,
        }),
        tag => {
            return Err(DecodeError::OutOfRange {
                what: "job tag",
                value: u64::from(tag),
                max: 4,
            });
        }
    };
    // Bytes behind the job would give it a second digest.
    r.finish()?;
    Ok(work)
}

pub(super) fn put_claim(w: &mut Writer, claim: &Claim) {
    match claim {
        Claim::One {
            validator,
            role,
            slot,
            message,
            signature,
        } => {
            w.u8(0);
            w.u32(validator.0);
            w.u8(*role as u8);
            w.u64(slot.0);
            w.bytes(message);
            w.bytes_u32_prefixed(signature);
        }
        Claim::Selected {
            validator,
            message,
            proof,
        } => {
            w.u8(1);
            w.u32(validator.0);
            w.bytes(message);
            w.bytes_u32_prefixed(proof);
        }
        Claim::Group {
            statement,
            evidence,
        } => {
            w.u8(2);
            put_statement(w, statement);
            put_evidence(w, evidence);
        }
    }
}

pub(super) fn put_part(w: &mut Writer, part: &Part) {
    w.u32(part.offset);
    w.u8(part.layer as u8);
    put_evidence(w, &part.evidence);
}

pub(super) fn put_statement(w: &mut Writer, statement: &Statement) {
    w.u8(statement.layer as u8);
    w.u32(statement.first);
    w.u32(statement.len);
    w.u64(statement.slot.0);
    w.bytes(&statement.message);
}

pub(super) fn put_evidence(w: &mut Writer, evidence: &Evidence) {
    put_support(w, &evidence.support);
    w.bytes_u32_prefixed(&evidence.bytes);
}

pub(super) fn put_bundle_entry(w: &mut Writer, entry: &BundleEntry) {
    w.u64(entry.epoch.0);
    put_statement(w, &entry.statement);
    put_support(w, &entry.support);
}

fn put_support(w: &mut Writer, support: &Support) {
    w.u32(support.len() as u32);
    w.bytes(&support_code::encode(support, Coding::Raw, None));
}

/// Reads a counted list. Memory grows with the data actually present, not with the count.
pub(super) fn list<T>(
    r: &mut Reader<'_>,
    max: u32,
    mut one: impl FnMut(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = r.u32_at_most("list length", max)?;
    (0..count).map(|_| one(r)).collect()
}

fn item(r: &mut Reader<'_>) -> Result<Item, DecodeError> {
    Ok(Item {
        claims: list(r, CLAIMS_MAX, claim)?,
    })
}

fn claim(r: &mut Reader<'_>) -> Result<Claim, DecodeError> {
    Ok(match r.u8()? {
        0 => Claim::One {
            validator: Validator(r.u32()?),
            role: role(r)?,
            slot: Slot(r.u64()?),
            message: r.array()?,
            signature: shared(r)?,
        },
        1 => Claim::Selected {
            validator: Validator(r.u32()?),
            message: r.array()?,
            proof: shared(r)?,
        },
        2 => Claim::Group {
            statement: statement(r)?,
            evidence: evidence(r)?,
        },
        tag => {
            return Err(DecodeError::OutOfRange {
                what: "claim tag",
                value: u64::from(tag),
                max: 2,
            });
        }
    })
}

fn part(r: &mut Reader<'_>) -> Result<Part, DecodeError> {
    Ok(Part {
        offset: r.u32()?,
        layer: layer(r)?,
        evidence: evidence(r)?,
    })
}

fn statement(r: &mut Reader<'_>) -> Result<Statement, DecodeError> {
    Ok(Statement {
        layer: layer(r)?,
        first: r.u32()?,
        // A job that makes evidence allocates memory for this many positions.
        len: r.u32_at_most("positions of a statement", POSITIONS_MAX)?,
        slot: Slot(r.u64()?),
        message: r.array()?,
    })
}

pub(super) fn evidence(r: &mut Reader<'_>) -> Result<Evidence, DecodeError> {
    Ok(Evidence {
        support: support(r)?,
        bytes: shared(r)?,
    })
}

fn bundle_entry(r: &mut Reader<'_>) -> Result<BundleEntry, DecodeError> {
    Ok(BundleEntry {
        epoch: Epoch(r.u64()?),
        statement: statement(r)?,
        support: support(r)?,
    })
}

fn support(r: &mut Reader<'_>) -> Result<Arc<Support>, DecodeError> {
    let len = r.u32_at_most("support positions", POSITIONS_MAX)?;
    // Only the raw code, as written by `encode`: a shorter one would let a few bytes expand to
    // millions of positions, and give one job two encodings.
    let cells = CellBounds::one(len);
    let code = SupportCode::new(Coding::Raw, MULTIPLICITY_MAX, &cells, Reference::None);
    Ok(Arc::new(code.decode_prefix(r)?))
}

pub(super) fn shared(r: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    Ok(r.bytes_u32_prefixed(BYTES_MAX)?.into())
}

fn layer(r: &mut Reader<'_>) -> Result<Layer, DecodeError> {
    match r.u8()? {
        0 => Ok(Layer::Aggregate),
        1 => Ok(Layer::Collection),
        value => Err(DecodeError::OutOfRange {
            what: "layer",
            value: u64::from(value),
            max: 1,
        }),
    }
}

fn role(r: &mut Reader<'_>) -> Result<Role, DecodeError> {
    let value = r.u8()?;
    Role::from_u8(value).ok_or(DecodeError::OutOfRange {
        what: "role",
        value: u64::from(value),
        max: Role::ALL.len() as u64 - 1,
    })
}

fn op(r: &mut Reader<'_>) -> Result<Op, DecodeError> {
    let value = r.u16()?;
    let max = Op::ALL.len() as u64 - 1;
    Op::ALL
        .get(usize::from(value))
        .copied()
        .ok_or(DecodeError::OutOfRange {
            what: "operation",
            value: u64::from(value),
            max,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(len: u32, support: &[u8]) -> Vec<u8> {
        let mut w = Writer::with_capacity(128);
        w.u8(0);
        w.u16(Op::VerifyCollections.kind());
        w.u64(0);
        w.u32(1);
        w.u32(1);
        w.u8(2);
        let statement = Statement {
            layer: Layer::Collection,
            first: 0,
            len,
            slot: Slot(0),
            message: [0; 32],
        };
        put_statement(&mut w, &statement);
        w.u32(len.min(POSITIONS_MAX));
        w.bytes(support);
        w.bytes_u32_prefixed(&[]);
        w.into_vec()
    }

    /// Half a megabyte of bits encoded in a few bytes, a million times over, would be a
    /// decompression bomb.
    #[test]
    fn only_the_raw_code_of_a_support_is_a_job() {
        for len in [3, POSITIONS_MAX] {
            let support = alphorn_types::Support::new(len as usize);
            let raw = group(len, &support_code::encode(&support, Coding::Raw, None));
            let work = decode(&raw).expect("what `encode` writes");
            assert_eq!(encode(&work).as_deref(), Some(raw.as_slice()));
        }
        let support = alphorn_types::Support::new(POSITIONS_MAX as usize);
        let short = support_code::encode(&support, Coding::Rice, None);
        assert!(short.len() < 64, "{} bytes", short.len());
        let refused = decode(&group(POSITIONS_MAX, &short)).map(|work| work.name());
        assert!(matches!(refused, Err(DecodeError::UnknownTag { .. })));
    }

    #[test]
    fn a_combination_has_no_more_pieces_than_a_committee_has_picks() {
        let combine = |parts: u32| {
            let mut w = Writer::with_capacity(64);
            w.u8(2);
            w.u16(Op::Collect.kind());
            w.u64(1);
            let statement = Statement {
                layer: Layer::Collection,
                first: 0,
                len: 1,
                slot: Slot(0),
                message: [0; 32],
            };
            put_statement(&mut w, &statement);
            w.u8(1);
            w.u32(parts);
            decode(&w.into_vec()).map(|work| work.name())
        };
        assert_eq!(combine(0), Ok(Op::Collect.name()));
        // Within the bound, the pieces themselves are missing.
        assert!(matches!(
            combine(PARTS_MAX),
            Err(DecodeError::Truncated { .. })
        ));
        assert!(matches!(
            combine(PARTS_MAX + 1),
            Err(DecodeError::TooLong { .. } | DecodeError::OutOfRange { .. })
        ));
    }

    #[test]
    fn a_statement_has_no_more_positions_than_a_layout() {
        let support = alphorn_types::Support::new(POSITIONS_MAX as usize);
        let raw = support_code::encode(&support, Coding::Raw, None);
        let refused = decode(&group(POSITIONS_MAX + 1, &raw)).map(|work| work.name());
        let (value, max) = (u64::from(POSITIONS_MAX) + 1, u64::from(POSITIONS_MAX));
        assert!(matches!(
            refused,
            Err(DecodeError::OutOfRange { value: v, max: m, .. }) if (v, m) == (value, max)
        ));
    }
}
