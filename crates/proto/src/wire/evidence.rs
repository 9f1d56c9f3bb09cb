//! Supports and proofs inside messages.

use alphorn_scheme::{Bytes, Evidence, EvidenceLength};
use alphorn_types::support_code::{CellBounds, Reference, SupportCode};
use alphorn_types::{Bitfield, DecodeError, Reader, Support, Unit, Writer};
use std::sync::Arc;

use super::{Context, MissingReference, References, Vote, WireFormat, write_fixed};

impl WireFormat {
    /// The part of the committee's reference that applies to a support; none outside
    /// [`Context::Chain`].
    fn reference(
        &self,
        vote: &Vote,
        unit: Unit,
        references: References<'_>,
    ) -> Result<Option<Bitfield>, MissingReference> {
        if self.context == Context::None {
            return Ok(None);
        }
        let committee = unit.committee;
        let whole = references(vote, committee).ok_or(MissingReference {
            head: vote.head,
            committee,
        })?;
        let range = self.layout.unit_in_committee(unit);
        Ok(Some(
            whole.extract(range.start as usize..range.end as usize),
        ))
    }

    pub(super) fn write_evidence(
        &self,
        writer: &mut Writer,
        evidence: &Evidence,
        vote: &Vote,
        unit: Unit,
        references: References<'_>,
    ) -> Result<(), MissingReference> {
        self.write_support(writer, &evidence.support, vote, unit, references)?;
        write_proof(writer, &evidence.bytes, self.evidence(unit.level));
        Ok(())
    }

    pub(super) fn read_evidence(
        &self,
        reader: &mut Reader<'_>,
        vote: &Vote,
        unit: Unit,
        references: References<'_>,
    ) -> Result<Evidence, DecodeError> {
        let support = self.read_support(reader, vote, unit, references)?;
        let bytes = read_proof(reader, self.evidence(unit.level))?;
        Ok(Evidence { support, bytes })
    }

    pub(super) fn write_support(
        &self,
        writer: &mut Writer,
        support: &Support,
        vote: &Vote,
        unit: Unit,
        references: References<'_>,
    ) -> Result<(), MissingReference> {
        let reference = self.reference(vote, unit, references)?;
        let cells = CellBounds::unit(&self.layout, unit);
        let code = self.support_code(unit, &cells, reference.as_ref());
        writer.bytes(&code.encode(support));
        Ok(())
    }

    pub(super) fn read_support(
        &self,
        reader: &mut Reader<'_>,
        vote: &Vote,
        unit: Unit,
        references: References<'_>,
    ) -> Result<Arc<Support>, DecodeError> {
        // Not malformed: the block may still arrive (`Reject::from_decode`).
        let reference =
            self.reference(vote, unit, references)
                .map_err(|_| DecodeError::Missing {
                    what: "block of the vote's head",
                })?;
        let cells = CellBounds::unit(&self.layout, unit);
        let code = self.support_code(unit, &cells, reference.as_ref());
        Ok(Arc::new(code.decode_prefix(reader)?))
    }

    fn support_code<'a>(
        &self,
        unit: Unit,
        cells: &'a CellBounds,
        reference: Option<&'a Bitfield>,
    ) -> SupportCode<'a> {
        let reference = reference.map_or(Reference::None, Reference::Chain);
        SupportCode::new(self.coding, self.multiplicity(unit.level), cells, reference)
    }
}

/// Writes a proof, prefixed by its length if the scheme does not fix it.
pub(super) fn write_proof(writer: &mut Writer, bytes: &[u8], length: EvidenceLength) {
    match length {
        EvidenceLength::Fixed(expected) => write_fixed(writer, bytes, expected, "evidence"),
        EvidenceLength::Max(max) => {
            assert!(bytes.len() <= max, "evidence of {} bytes", bytes.len());
            writer.bytes_u32_prefixed(bytes);
        }
    }
}

pub(super) fn read_proof(
    reader: &mut Reader<'_>,
    length: EvidenceLength,
) -> Result<Bytes, DecodeError> {
    let bytes = match length {
        EvidenceLength::Fixed(bytes) => reader.bytes(bytes)?,
        EvidenceLength::Max(max) => reader.bytes_u32_prefixed(max)?,
    };
    Ok(bytes.into())
}
