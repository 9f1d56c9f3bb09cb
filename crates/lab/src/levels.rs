//! Lists of kernel levels: `auto`, `portable,avx512`, `rlnc=avx2`.

use crate::error::Result;
use anyhow::{Context, bail};
use std::str::FromStr;

/// Reads `--kernel` for one crate: a case for each level asked, `auto` being what `measured` finds.
///
/// An entry `CRATE=LEVEL` of another crate is an error that names the crate, so a slip is not ignored.
pub(crate) fn levels<B: FromStr>(
    name: &str,
    texts: &[String],
    measured: impl Fn() -> B,
) -> Result<Vec<B>>
where
    B::Err: std::error::Error + Send + Sync + 'static,
{
    let read = |text: &String| -> anyhow::Result<B> {
        let level = match text.split_once('=') {
            None => text.as_str(),
            Some((found, level)) if found == name => level,
            Some((found, _)) => {
                bail!("--kernel {text}: no crate {found:?} has kernels here; {name} has")
            }
        };
        match level {
            "auto" => Ok(measured()),
            level => level.parse().with_context(|| format!("--kernel {text}")),
        }
    };
    Ok(texts.iter().map(read).collect::<anyhow::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_rlnc::Backend;

    fn read(texts: &[&str]) -> Result<Vec<Backend>> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        levels("rlnc", &texts, Backend::portable)
    }

    #[test]
    fn levels_are_read_in_order_and_slips_are_named() {
        let portable = Backend::portable();
        assert_eq!(read(&["auto", "rlnc=portable"]).unwrap(), [portable; 2]);
        assert!(
            read(&["bls=portable"])
                .unwrap_err()
                .to_string()
                .contains("bls")
        );
        assert!(read(&["sse9"]).is_err());
        assert!(read(&[""]).is_err());
    }
}
