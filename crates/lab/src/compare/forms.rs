//! The forms that are compared: each scheme in each of its settings.

use super::Row;

/// Returns the first case of each form.
pub(super) fn forms(rows: &[Row]) -> Vec<&Row> {
    let mut forms: Vec<&Row> = Vec::new();
    for row in rows {
        if forms.iter().all(|form| form.name != row.name) {
            forms.push(row);
        }
    }
    forms
}

/// Whether every form was measured at a size, since forms are compared only there.
pub(super) fn is_common(rows: &[Row], votes: u32) -> bool {
    rows.iter().filter(|row| row.case.votes == votes).count() == forms(rows).len()
}
