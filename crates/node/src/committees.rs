//! Wire format of an epoch's committees, for lane processes and for records.

use alphorn_types::{
    Assignment, AssignmentError, DecodeError, Epoch, Layout, LayoutError, Reader, VALIDATORS_MAX,
    Writer,
};

/// Bytes that are not committees.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitteesError {
    /// They end too early, or a number is too large.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Committees and cells do not match.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The members do not include each validator exactly once.
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
}

pub(crate) fn put(w: &mut Writer, assignment: &Assignment) {
    let layout = assignment.layout();
    w.u64(assignment.epoch().0);
    w.u32(layout.validators());
    w.u16(layout.committees());
    let fan_out = layout.fan_out();
    w.u8(fan_out.len() as u8);
    fan_out.iter().for_each(|units| w.u16(*units));
    assignment
        .members()
        .iter()
        .for_each(|member| w.u32(*member));
}

pub(crate) fn read(r: &mut Reader<'_>) -> Result<Assignment, CommitteesError> {
    let epoch = Epoch(r.u64()?);
    let validators = r.u32_at_most("validators", VALIDATORS_MAX)?;
    let (committees, inner) = (r.u16()?, r.u8()?);
    let fan_out: Vec<u16> = (0..inner).map(|_| r.u16()).collect::<Result<_, _>>()?;
    let layout = Layout::with_fan_out(validators, committees, &fan_out)?;
    let members = (0..validators).map(|_| r.u32());
    let members = members.collect::<Result<Vec<u32>, DecodeError>>()?;
    Ok(Assignment::new(epoch, layout, members)?)
}
