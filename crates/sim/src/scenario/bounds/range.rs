//! Checks of one value, and the bounds that several tables share.

use crate::scenario::error::ScenarioError;

/// Maximum virtual time in milliseconds: 10^12 ns are 10^6 ms, and nothing is scheduled later.
pub(super) const TIME_MS_MAX: u64 = 1_000_000;
/// Maximum payload size in bytes.
pub(super) const PAYLOAD_BYTES_MAX: u64 = 1 << 31;

/// The result of a check.
pub(super) type Checked = Result<(), ScenarioError>;

/// Checks that a number is in its bounds.
pub(super) fn range<T: Into<u64>>(key: &str, value: T, min: T, max: T) -> Checked {
    let (value, min, max) = (value.into(), min.into(), max.into());
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ScenarioError::Range {
        key: key.to_owned(),
        value,
        min,
        max,
    })
}

/// A value that is not allowed.
pub(super) fn invalid(key: &str, value: impl ToString, why: impl ToString) -> ScenarioError {
    ScenarioError::Invalid {
        key: key.to_owned(),
        value: value.to_string(),
        why: why.to_string(),
    }
}
