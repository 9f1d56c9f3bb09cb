//! Lists of kernel levels: `auto`, `portable,avx512dq`, `rlnc=avx2`.

use crate::distinct::distinct;
use crate::error::Result;
use crate::kernel_times::fastest;
use alphorn_exec::{Backend, Kernels};
use anyhow::{Context, bail};

/// Parses `--kernel` for one crate: a case for each requested level, `auto` being the fastest one here
/// on this
/// many threads at once.
///
/// An entry `CRATE=LEVEL` of another crate is an error that names the crate, so a typo is not ignored.
/// A duplicate is also an error.
pub fn levels(kernels: &Kernels, texts: &[String], threads: usize) -> Result<Vec<Backend>> {
    let name = kernels.of;
    let read = |text: &String| -> anyhow::Result<Backend> {
        let level = match text.split_once('=') {
            None => text.as_str(),
            Some((found, level)) if found == name => level,
            Some((found, _)) => {
                bail!("--kernel {text}: no crate {found:?} has kernels here; {name} has")
            }
        };
        if level == "auto" {
            return Ok(fastest(kernels, threads));
        }
        kernels
            .parse(level)
            .with_context(|| format!("--kernel {text}"))
    };
    distinct("--kernel", texts)?;
    Ok(texts.iter().map(read).collect::<anyhow::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Vec<Backend>> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        levels(&alphorn_rlnc::KERNELS, &texts, 1)
    }

    #[test]
    fn levels_are_read_in_order_and_slips_are_named() {
        let portable = read(&["portable", "rlnc=portable"]).unwrap();
        assert_eq!(portable, [Backend::Portable; 2]);
        assert_eq!(read(&["auto", "rlnc=auto"]).unwrap().len(), 2);
        assert!(
            read(&["bls=portable"])
                .unwrap_err()
                .to_string()
                .contains("bls")
        );
        assert!(read(&["sse9"]).is_err());
        assert!(read(&[""]).is_err());
        assert!(read(&["portable", "auto", "portable"]).is_err());
    }
}
