//! Constraints of a record beyond the types of its fields, so that a reader can trust it.

use super::{Event, TraceError};
use crate::layout::{CELLS_MAX, COMMITTEES_MAX, SUBCOMMITTEES_MAX};

/// Maximum number of phases of a slot.
pub(crate) const PHASES_MAX: usize = 16;

/// Returns an error that names the field, its value and the bound, unless the condition holds.
fn must(
    holds: bool,
    field: &'static str,
    value: impl Into<i128>,
    bound: impl FnOnce() -> String,
) -> Result<(), TraceError> {
    if holds {
        return Ok(());
    }
    Err(TraceError::Field {
        field,
        value: value.into(),
        bound: bound(),
    })
}

fn at_most(field: &'static str, value: u32, max: u32) -> Result<(), TraceError> {
    must(value <= max, field, value, || format!("at most {max}"))
}

impl Event {
    /// Checks that the fields are consistent and within the bounds of a layout.
    ///
    /// # Errors
    ///
    /// [`TraceError::Field`] for the first field that is out of its bound.
    pub(crate) fn check(&self) -> Result<(), TraceError> {
        match self {
            Event::Genesis {
                committees,
                subs,
                offsets_ms,
                slot_ms,
                ..
            } => check_genesis(*committees, *subs, *slot_ms, offsets_ms),
            Event::Cells {
                from,
                seen,
                aggregated,
                collected,
                ..
            } => {
                let cells = seen.as_slice().len();
                for (field, other) in [("aggregated", aggregated), ("collected", collected)] {
                    let len = other.as_slice().len();
                    must(len == cells, field, len as u64, || {
                        format!("{cells} cells long, as `seen`")
                    })?;
                }
                // In 64 bits, as `from` may be the largest number of 32.
                let end = u64::from(*from) + cells as u64;
                must(end <= u64::from(CELLS_MAX), "from", end, || {
                    format!("at most {CELLS_MAX} with its cells")
                })
            }
            Event::Aggregate { c, s, .. } => {
                at_most("c", u32::from(*c), u32::from(COMMITTEES_MAX) - 1)?;
                at_most("s", u32::from(*s), u32::from(SUBCOMMITTEES_MAX) - 1)
            }
            Event::Collection { c, .. } => {
                at_most("c", u32::from(*c), u32::from(COMMITTEES_MAX) - 1)
            }
            Event::Job {
                t_submit,
                t_start,
                t_end,
                ..
            } => check_order([
                ("t_start", *t_submit, *t_start),
                ("t_end", *t_start, *t_end),
            ]),
            Event::Session {
                open, soft, hard, ..
            } => check_order([("soft", *open, *soft), ("hard", *soft, *hard)]),
            _ => Ok(()),
        }
    }
}

/// Checks that each second value is not before the first.
fn check_order(pairs: [(&'static str, i64, i64); 2]) -> Result<(), TraceError> {
    for (field, before, after) in pairs {
        must(after >= before, field, after, || {
            format!("{before} or later")
        })?;
    }
    Ok(())
}

/// A trace without committees has 0 for both (a network without votes).
fn check_genesis(
    committees: u16,
    subs: u16,
    slot_ms: u64,
    offsets_ms: &[u64],
) -> Result<(), TraceError> {
    at_most(
        "committees",
        u32::from(committees),
        u32::from(COMMITTEES_MAX),
    )?;
    at_most("subs", u32::from(subs), u32::from(SUBCOMMITTEES_MAX))?;
    let cells = u32::from(committees) * u32::from(subs);
    at_most("committees x subs", cells, CELLS_MAX)?;
    let phases = offsets_ms.len();
    must(phases <= PHASES_MAX, "offsets_ms", phases as u64, || {
        format!("at most {PHASES_MAX} phases long")
    })?;
    let mut before = 0;
    for &offset in offsets_ms {
        must(
            (before..=slot_ms).contains(&offset),
            "offsets_ms",
            offset,
            || format!("ascending and at most slot_ms = {slot_ms}"),
        )?;
        before = offset;
    }
    Ok(())
}
