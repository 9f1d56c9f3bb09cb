//! YAML files written by hand.

use crate::error::Result;
use crate::input;
use anyhow::Context;
use std::path::Path;

/// Maximum size of a file in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads a YAML file of bounded length.
pub fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = input::text(path, FILE_BYTES_MAX)?;
    let value = serde_saphyr::from_str(&text);
    Ok(value.with_context(|| path.display().to_string())?)
}
