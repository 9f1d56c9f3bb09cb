//! The verdict of `alphorn verify` on each file.

use super::{aligned, header};
use crate::text::printable;
use serde::Serialize;
use serde_json::Value;

/// Maximum number of rows for which a table includes valid files.
const ROWS_MAX: usize = 64;

/// Maximum length of a reason in a table, in characters: it may quote a file.
const REASON_CHARS_MAX: usize = 1_000;

/// The result for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Valid,
    /// Well-formed, but does not hold.
    Invalid(String),
    /// Malformed, or undecidable.
    Refused(String),
}

impl Verdict {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Verdict::Valid => "valid",
            Verdict::Invalid(_) => "INVALID",
            Verdict::Refused(_) => "refused",
        }
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            Verdict::Valid => "",
            Verdict::Invalid(reason) | Verdict::Refused(reason) => reason,
        }
    }
}

/// A file and its verdict.
#[derive(Serialize)]
pub(super) struct Checked {
    pub(super) file: String,
    pub(super) kind: &'static str,
    pub(super) signers: usize,
    pub(super) verdict: &'static str,
    pub(super) reason: String,
    /// The votes of a bundle.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) entries: Value,
}

/// Formats all rows if they are few, otherwise those that do not verify.
pub(super) fn verdict_table(checked: &[Checked]) -> String {
    let all = checked.len() <= ROWS_MAX;
    let shown = checked
        .iter()
        .filter(|row| all || row.verdict != Verdict::Valid.name());
    let mut rows = vec![header(&["file", "kind", "signers", "verdict", "reason"])];
    rows.extend(shown.map(|row| {
        let signers = match row.signers {
            0 => String::new(),
            signers => signers.to_string(),
        };
        vec![
            row.file.clone(),
            row.kind.to_owned(),
            signers,
            row.verdict.to_owned(),
            printable(&row.reason, REASON_CHARS_MAX),
        ]
    }));
    let rest = match checked.len() + 1 - rows.len() {
        0 => String::new(),
        rest => format!("\n{rest} more files are valid"),
    };
    format!("{}{rest}", aligned(&rows))
}
