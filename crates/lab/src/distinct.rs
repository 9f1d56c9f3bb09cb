//! Lists of options, which name nothing twice.

use crate::error::Result;

/// Rejects a list with duplicates, as a case would be run and reported twice.
///
/// # Errors
/// If two entries are equal.
pub fn distinct<T: PartialEq>(option: &str, list: &[T]) -> Result<()> {
    for (at, entry) in list.iter().enumerate() {
        if let Some(first) = list[..at].iter().position(|other| other == entry) {
            let (first, again) = (first + 1, at + 1);
            let why = format!("entry {again} of the list is entry {first} once more");
            return Err(anyhow::anyhow!("{option}: {why}").into());
        }
    }
    Ok(())
}
