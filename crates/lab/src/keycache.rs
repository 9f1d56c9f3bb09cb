//! Interop keys of a registry, made once and kept in the user's cache folder.
//!
//! Next to the cache file is the digest of the registry, without which the file is not loaded. Some
//! keys of a loaded registry are recomputed and compared, so that keys of a different formula are
//! noticed too. Anything that does not match is made anew; it is never an error.

use crate::error::Result;
use crate::progress::Bars;
use crate::report::{note, write_whole};
use alphorn_bls::{
    InteropKey, PublicKey, Registry, interop_keys, load_key_cache, vartime_interop_public_keys,
    write_key_cache,
};
use alphorn_exec::Exec;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// Overrides the user's cache folder.
const FOLDER_VARIABLE: &str = "ALPHORN_CACHE_DIR";
/// Below this number of validators, making keys is faster than caching them.
const CACHED_VALIDATORS_MIN: u32 = 1 << 13;
/// Validators whose keys are made between two updates of the progress bar.
const STEP: u64 = 1 << 15;
/// Keys of a loaded registry that are recomputed.
const SAMPLES: u64 = 16;

/// A registry of interop keys, and its origin.
pub struct InteropRegistry {
    /// The keys.
    pub registry: Registry,
    /// Whether it was loaded from a file.
    pub from_cache: bool,
}

/// Returns the cache folder; it need not exist.
pub fn folder() -> Result<PathBuf> {
    let folder = std::env::var_os(FOLDER_VARIABLE);
    if let Some(folder) = folder.filter(|folder| !folder.is_empty()) {
        return Ok(PathBuf::from(folder));
    }
    let project = directories::ProjectDirs::from("", "", "alphorn")
        .with_context(|| format!("no home folder: set {FOLDER_VARIABLE}"))?;
    Ok(project.cache_dir().to_owned())
}

/// Returns the registry of interop validators `0..validators`.
pub fn interop_registry(
    validators: u32,
    exec: Exec<'_>,
    bars: &mut Bars,
) -> Result<InteropRegistry> {
    let folder = folder()?;
    let cache = folder.join(format!("bls-interop-{validators}.keys"));
    let digest = folder.join(format!("bls-interop-{validators}.digest"));
    if let Some(registry) = load(&cache, &digest, validators, exec) {
        return Ok(InteropRegistry {
            registry,
            from_cache: true,
        });
    }
    let registry = Registry::allowing_duplicates(make(validators, exec, bars), exec)?;
    if validators >= CACHED_VALIDATORS_MIN {
        // The digest is written last: a crash in between leaves a cache that is not loaded.
        let write = || -> Result<()> {
            std::fs::create_dir_all(&folder)?;
            // Where the umask makes it private, an earlier digest looks like a key.
            let _ = std::fs::remove_file(&digest);
            write_key_cache(&cache, &registry, exec)?;
            write_whole(&digest, hex::encode(registry.digest()).as_bytes())
        };
        if let Err(error) = write() {
            note(&format!(
                "alphorn: keys are not cached in {}: {error}",
                folder.display()
            ));
        }
    }
    Ok(InteropRegistry {
        registry,
        from_cache: false,
    })
}

fn load(cache: &Path, digest: &Path, validators: u32, exec: Exec<'_>) -> Option<Registry> {
    let text = std::fs::read_to_string(digest).ok()?;
    let expected: [u8; 32] = hex::decode(text.trim()).ok()?.try_into().ok()?;
    let registry = load_key_cache(cache, &expected, exec).ok()?;
    let count = u64::from(validators);
    let fits = registry.keys().len() as u64 == count
        && (0..SAMPLES).map(|i| i * count / SAMPLES).all(|i| {
            registry.keys().get(i as usize)
                == Some(&InteropKey::new(i).to_secret_key().public_key())
        });
    fits.then_some(registry)
}

fn make(validators: u32, exec: Exec<'_>, bars: &mut Bars) -> Vec<PublicKey> {
    let count = u64::from(validators);
    let mut keys = Vec::with_capacity(validators as usize);
    for start in (0..count).step_by(STEP as usize) {
        bars.show("keys", start, count);
        let secrets = interop_keys(start..(start + STEP).min(count), exec);
        keys.extend(vartime_interop_public_keys(&secrets, exec));
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_of_other_keys_is_not_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, digest) = (folder.path().join("keys"), folder.path().join("digest"));
        let exec = Exec::serial();
        let write = |first: u64| {
            let secrets = interop_keys(first..first + 40, exec);
            let keys = vartime_interop_public_keys(&secrets, exec);
            let registry = Registry::allowing_duplicates(keys, exec).unwrap();
            write_key_cache(&cache, &registry, exec).unwrap();
            std::fs::write(&digest, hex::encode(registry.digest())).unwrap();
        };
        assert!(load(&cache, &digest, 40, exec).is_none(), "no file");
        write(0);
        assert!(load(&cache, &digest, 40, exec).is_some());
        assert!(
            load(&cache, &digest, 39, exec).is_none(),
            "another number of validators"
        );
        std::fs::write(&digest, hex::encode([0; 32])).unwrap();
        assert!(load(&cache, &digest, 40, exec).is_none(), "another digest");
        write(1);
        assert!(load(&cache, &digest, 40, exec).is_none(), "other keys");
    }
}
