//! Files in YAML that a person writes.

use crate::error::Result;
use anyhow::{Context, bail};
use std::path::Path;

/// Most bytes of a file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads a YAML file of bounded length.
pub fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = || -> anyhow::Result<String> {
        let bytes = std::fs::metadata(path)?.len();
        if bytes > FILE_BYTES_MAX {
            bail!("{bytes} bytes, must be at most {FILE_BYTES_MAX}");
        }
        Ok(std::fs::read_to_string(path)?)
    };
    let text = text().with_context(|| path.display().to_string())?;
    let value = serde_saphyr::from_str(&text);
    Ok(value.with_context(|| path.display().to_string())?)
}
