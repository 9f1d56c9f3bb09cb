//! The cache of a registry's keys of `alphorn-bls`.

use std::sync::OnceLock;

use alphorn_bls::{InteropKey, Registry, decode_key_cache, write_key_cache};
use alphorn_exec::Exec;
use sha2::{Digest, Sha256};

/// Keys of the registry.
const KEYS: u64 = 3;
/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 32;

/// A registry and the bytes of its cache.
fn cached() -> &'static (Registry, Vec<u8>) {
    static CACHED: OnceLock<(Registry, Vec<u8>)> = OnceLock::new();
    CACHED.get_or_init(|| {
        let keys = (0..KEYS).map(|i| InteropKey::new(i).to_secret_key().public_key());
        let registry = Registry::allowing_duplicates(keys.collect(), Exec::serial())
            .expect("interop keys are valid");
        let path = std::env::temp_dir().join(format!("alphorn-fuzz-{}.cache", std::process::id()));
        write_key_cache(&path, &registry, Exec::serial())
            .expect("the temporary folder is writable");
        let bytes = std::fs::read(&path).expect("the cache was written");
        std::fs::remove_file(&path).ok();
        (registry, bytes)
    })
}

/// Decodes a cache; what is accepted is the registry whose digest was asked for.
///
/// Input: `repair u8 | cache`; with an odd first byte the checksum is made to fit first, so that
/// mutations reach what stands behind it.
///
/// # Panics
///
/// If anything but the intact cache of the registry is accepted.
pub fn key_cache(data: &[u8]) -> bool {
    let (registry, bytes) = cached();
    let Some((&repair, cache)) = data.split_first() else {
        return false;
    };
    let mut cache = cache.to_vec();
    if let (1, Some(end)) = (repair % 2, cache.len().checked_sub(CHECKSUM_BYTES)) {
        let checksum = Sha256::digest(&cache[..end]);
        cache[end..].copy_from_slice(&checksum);
    }
    let Ok(decoded) = decode_key_cache(&cache, registry.digest(), Exec::serial()) else {
        return false;
    };
    assert_eq!(&decoded, registry);
    assert_eq!(&cache, bytes, "a second cache of one registry");
    true
}

/// The intact cache, and one whose checksum is to be repaired.
pub(crate) fn key_cache_seeds() -> Vec<Vec<u8>> {
    let (_, bytes) = cached();
    let mut damaged = bytes.clone();
    let end = damaged.len() - 1;
    damaged[end] ^= 1;
    vec![[&[0], &bytes[..]].concat(), [&[1], &damaged[..]].concat()]
}
