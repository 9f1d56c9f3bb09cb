//! Bytes by formula: no message is built.

use alphorn_proto::horn::Config;
use alphorn_proto::wire::{ENTRY_HEAD_BYTES, HEADER_BYTES, VOTE_BYTES, WireFormat};
use alphorn_types::support_code::HEADER_BYTES as SUPPORT_HEAD_BYTES;
use alphorn_types::{Cell, Layout};

/// Bytes of the fields that do not depend on a committee's size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    /// What Horn's proposal counts in addition to bits: the inner and the envelope signature.
    signatures: u64,
    /// Fields of an aggregate other than the bits of its support.
    aggregate: u64,
    /// Fields of a collection other than the bits of its support.
    collection: u64,
    /// Fields of a block entry other than the bits of its support.
    entry: u64,
    /// Fields of a block other than its entries.
    block: u64,
}

impl Fields {
    /// Returns the fields of a format whose evidence has a fixed length.
    pub(super) fn of(format: &WireFormat) -> Self {
        let proof = format.selection_proof_bytes.unwrap_or(0);
        let (evidence, envelope) = (format.evidence(2).max_bytes(), format.duty_signature_bytes);
        let (version_kind, unit, sender, count) = (2, 5, 4, 4);
        let message =
            version_kind + VOTE_BYTES + unit + sender + proof + SUPPORT_HEAD_BYTES + envelope;
        Fields {
            signatures: (evidence + envelope) as u64,
            aggregate: (message + format.evidence(1).max_bytes()) as u64,
            collection: (message + evidence) as u64,
            entry: (ENTRY_HEAD_BYTES + SUPPORT_HEAD_BYTES + evidence) as u64,
            block: (version_kind + HEADER_BYTES + envelope + 2 * count) as u64,
        }
    }
}

/// Messages and bytes of a scheme of aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Formula {
    pub(super) planes: u64,
    pub(super) messages: u64,
    /// Bits and two signatures.
    pub(super) horn_bytes: u64,
    /// All fields.
    pub(super) full_bytes: u64,
}

/// Returns the number of binary planes for multiplicities up to `m`.
pub(super) fn planes(m: u8) -> u64 {
    u64::from(u8::BITS - m.leading_zeros())
}

fn bits_bytes(members: u32) -> u64 {
    u64::from(members.div_ceil(8))
}

/// Returns the messages of groups of these sizes. Apart from its bits a message has `signatures` bytes
/// as Horn counts them, and `fields` in full.
fn total(
    groups: impl Iterator<Item = u32>,
    senders: u16,
    planes: u64,
    signatures: u64,
    fields: u64,
) -> Formula {
    let mut formula = Formula {
        planes,
        messages: 0,
        horn_bytes: 0,
        full_bytes: 0,
    };
    for members in groups {
        let bits = planes * bits_bytes(members);
        formula.messages += u64::from(senders);
        formula.horn_bytes += u64::from(senders) * (bits + signatures);
        formula.full_bytes += u64::from(senders) * (bits + fields);
    }
    formula
}

/// Returns the aggregates of all cells of the first `committees`, from `senders` each.
pub(super) fn aggregates(
    layout: &Layout,
    committees: u16,
    senders: u16,
    fields: &Fields,
) -> Formula {
    let in_range = move |cell: &Cell| cell.committee < committees;
    let groups = layout
        .cells()
        .filter(in_range)
        .map(|cell| layout.cell_len(cell));
    total(groups, senders, 1, fields.signatures, fields.aggregate)
}

/// Returns the collections of all committees, from `senders` each, in `planes` planes.
pub(super) fn collections(layout: &Layout, senders: u16, planes: u64, fields: &Fields) -> Formula {
    let groups = (0..layout.committees()).map(|c| layout.committee_len(c));
    total(
        groups,
        senders,
        planes,
        fields.signatures,
        fields.collection,
    )
}

/// The largest block of a configuration, with supports in raw planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockFormula {
    pub(super) entries: u64,
    /// Only the entries, as Horn counts them.
    pub(super) entries_bytes: u64,
    /// Including header and signature.
    pub(super) block_bytes: u64,
}

/// Builds a block of as many entries as it may have, from the committees in turn, while they fit the cap.
pub(super) fn block(config: &Config, fields: &Fields) -> BlockFormula {
    let layout = &config.layout;
    let planes = planes(config.multiplicity_max);
    let mut formula = BlockFormula {
        entries: 0,
        entries_bytes: 0,
        block_bytes: fields.block,
    };
    let available = u64::from(layout.committees()) * u64::from(config.levels[1].publishers);
    for i in 0..u64::from(config.collections_per_block_max).min(available) {
        let c = (i % u64::from(layout.committees())) as u16;
        let entry = fields.entry + planes * bits_bytes(layout.committee_len(c));
        if formula.block_bytes + entry > config.block_bytes_max as u64 {
            break;
        }
        formula.entries += 1;
        formula.entries_bytes += entry;
        formula.block_bytes += entry;
    }
    formula
}
