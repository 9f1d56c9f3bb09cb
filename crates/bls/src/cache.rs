//! The key cache `keys.cache`: the keys of a registry in uncompressed form, so that startup takes a fraction of
//! a second instead of half a minute of square roots and subgroup checks.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic `ALPHKEYS` |
//! | 4 | version, u32 little-endian |
//! | 8 | number of keys, u64 little-endian |
//! | 32 | SHA-256 of the concatenated compressed keys: identifies the registry |
//! | 96 each | x and y, big-endian |
//! | 32 | SHA-256 of everything before |
//!
//! The file is an optimisation, not a source of truth. If anything is wrong with it, it is not loaded and the
//! caller rebuilds it. It is not trusted either: the records are compressed and hashed again, and the result
//! must be the digest that the caller passes. A record on the curve is determined by its compressed form, so
//! the keys are those of the registry, including subgroup membership and proof of possession, regardless of who
//! wrote the file. The checksum distinguishes damage from a file of another registry.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use alphorn_exec::Exec;
use sha2::{Digest, Sha256};

use crate::blst_ffi::points::g1;
use crate::error::DecodeError;
use crate::keys::PublicKey;
use crate::registry::{REGISTRY_KEYS_MAX, Registry};

const MAGIC: &[u8; 8] = b"ALPHKEYS";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 8 + 4 + 8 + 32;
const CHECKSUM_BYTES: usize = 32;
const RECORD_BYTES: usize = g1::UNCOMPRESSED_BYTES;
/// Records decoded by one task of a pool.
const RECORDS_PER_TASK: usize = 1024;

/// Why a cache file is not loaded. In every case the caller should rebuild it.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The file cannot be read or written.
    #[error("the key cache cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// Not a key cache of this version.
    #[error("no key cache of version {VERSION}")]
    Format,
    /// Its header or its records belong to another registry.
    #[error("the key cache belongs to another registry")]
    OtherRegistry,
    /// The length does not match the number of keys.
    #[error("the key cache has {got} bytes, {expected} belong to its count of keys")]
    Length {
        /// Bytes found.
        got: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// The checksum does not match.
    #[error("the key cache is damaged: its checksum does not fit")]
    Checksum,
    /// A record is not a point of the curve, or is the identity.
    #[error("record {index} of the key cache is no key: {error}")]
    Record {
        /// Position of the record.
        index: usize,
        /// What is wrong.
        error: DecodeError,
    },
}

/// Writes the cache of a registry: to a temporary file next to it, synced, then renamed. Each call uses its own
/// temporary name, so several processes may write the same cache at once.
///
/// # Errors
/// [`CacheError::Io`].
pub fn write_key_cache(path: &Path, registry: &Registry, exec: Exec<'_>) -> Result<(), CacheError> {
    let (temporary, file) = create_beside(path)?;
    let result = write_file(file, registry, exec)
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_folder(path));
    if result.is_err() {
        // Best effort: the caller needs to see the write error.
        let _ = fs::remove_file(&temporary);
    }
    Ok(result?)
}

/// Creates a new file in the folder of `path` under a unique name.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static CREATED: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    loop {
        // Nothing but different numbers is needed.
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let beside = path.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()));
        // An existing file, left behind by a process with the same id, is not touched.
        match File::create_new(&beside) {
            Ok(file) => return Ok((beside, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn write_file(file: File, registry: &Registry, exec: Exec<'_>) -> io::Result<()> {
    let keys = registry.keys();
    let records = exec.map(keys.len(), |i| g1::serialize(keys[i].point()));
    let mut hasher = Sha256::new();
    let mut file = BufWriter::new(file);
    let mut put = |bytes: &[u8]| {
        hasher.update(bytes);
        file.write_all(bytes)
    };
    put(MAGIC)?;
    put(&VERSION.to_le_bytes())?;
    put(&(keys.len() as u64).to_le_bytes())?;
    put(registry.digest())?;
    records.iter().try_for_each(|record| put(record))?;
    file.write_all(&hasher.finalize())?;
    file.into_inner()?.sync_all()
}

/// Makes the rename itself durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Loads the cache of the registry with this digest (see [`crate::registry_digest`]).
///
/// # Errors
/// If the file is anything but the intact cache of that registry.
pub fn load_key_cache(
    path: &Path,
    registry_digest: &[u8; 32],
    exec: Exec<'_>,
) -> Result<Registry, CacheError> {
    let mut file = File::open(path)?;
    let mut header = [0; HEADER_BYTES];
    file.read_exact(&mut header)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => CacheError::Format,
            _ => CacheError::Io(error),
        })?;
    let count = check_header(&header, registry_digest)?;
    check_length(file.metadata()?.len(), count)?;
    // The length is now known to match the count, which is bounded.
    let mut bytes = vec![0; bytes_of(count)];
    bytes[..HEADER_BYTES].copy_from_slice(&header);
    file.read_exact(&mut bytes[HEADER_BYTES..])?;
    decode_key_cache(&bytes, registry_digest, exec)
}

/// Decodes the registry with this digest from the bytes of its cache.
///
/// # Errors
/// If the bytes are anything but the intact cache of that registry.
pub fn decode_key_cache(
    bytes: &[u8],
    registry_digest: &[u8; 32],
    exec: Exec<'_>,
) -> Result<Registry, CacheError> {
    let (header, rest) = bytes
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or(CacheError::Format)?;
    let count = check_header(header, registry_digest)?;
    check_length(bytes.len() as u64, count)?;
    let (records, checksum) = rest.split_at(count * RECORD_BYTES);
    let (checksum_fits, keys) = exec.join(
        || {
            Sha256::new()
                .chain_update(header)
                .chain_update(records)
                .finalize()[..]
                == *checksum
        },
        || decode_records(records, exec),
    );
    // Reported before a bad record, which damage would explain.
    if !checksum_fits {
        return Err(CacheError::Checksum);
    }
    let registry = Registry::allowing_duplicates(keys?, exec).map_err(|_| CacheError::Format)?;
    if registry.digest() != registry_digest {
        return Err(CacheError::OtherRegistry);
    }
    Ok(registry)
}

/// Size in bytes of a cache of `count` keys; the count is within the bound.
fn bytes_of(count: usize) -> usize {
    HEADER_BYTES + count * RECORD_BYTES + CHECKSUM_BYTES
}

fn check_length(got: u64, count: usize) -> Result<(), CacheError> {
    let expected = bytes_of(count) as u64;
    if got == expected {
        Ok(())
    } else {
        Err(CacheError::Length { got, expected })
    }
}

/// Returns the number of keys if this is the header of the registry's cache.
fn check_header(
    header: &[u8; HEADER_BYTES],
    registry_digest: &[u8; 32],
) -> Result<usize, CacheError> {
    let (magic, rest) = header.split_at(8);
    let (version, rest) = rest.split_at(4);
    let (count, digest) = rest.split_at(8);
    if magic != MAGIC || version != VERSION.to_le_bytes() {
        return Err(CacheError::Format);
    }
    if digest != registry_digest {
        return Err(CacheError::OtherRegistry);
    }
    let count = count
        .iter()
        .rev()
        .fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    usize::try_from(count)
        .ok()
        .filter(|&count| count <= REGISTRY_KEYS_MAX)
        .ok_or(CacheError::Format)
}

fn decode_records(records: &[u8], exec: Exec<'_>) -> Result<Vec<PublicKey>, CacheError> {
    let chunks: Vec<&[u8]> = records.chunks(RECORDS_PER_TASK * RECORD_BYTES).collect();
    let decoded = exec.map(chunks.len(), |c| {
        chunks[c]
            .as_chunks::<RECORD_BYTES>()
            .0
            .iter()
            .enumerate()
            .map(|(i, record)| {
                g1::deserialize(record)
                    .and_then(PublicKey::from_point)
                    .map_err(|error| CacheError::Record {
                        index: c * RECORDS_PER_TASK + i,
                        error,
                    })
            })
            .collect::<Result<Vec<PublicKey>, CacheError>>()
    });
    let mut keys = Vec::with_capacity(records.len() / RECORD_BYTES);
    for chunk in decoded {
        keys.extend(chunk?);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InteropKey;
    use alphorn_exec::Backend;

    fn registry(first: u64) -> Registry {
        let keys = (first..first + 5)
            .map(|i| InteropKey::new(i).to_secret_key().public_key())
            .collect();
        Registry::allowing_duplicates(keys, Exec::serial()).unwrap()
    }

    #[test]
    fn a_cache_gives_back_its_registry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.cache");
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .unwrap();
        for registry in [
            registry(0),
            Registry::allowing_duplicates(vec![], Exec::serial()).unwrap(),
        ] {
            write_key_cache(&path, &registry, Exec::serial()).unwrap();
            assert_eq!(
                load_key_cache(&path, registry.digest(), Exec::serial()).unwrap(),
                registry
            );
            let pooled = load_key_cache(
                &path,
                registry.digest(),
                Exec::new(Backend::Portable, Some(&pool)),
            )
            .unwrap();
            assert_eq!(pooled, registry);
        }
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn writers_at_once_leave_one_whole_cache() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.cache");
        let registries: Vec<Registry> = (0..4).map(registry).collect();
        // A file that a process with this id may have left behind is kept.
        let left = folder
            .path()
            .join(format!(".keys.cache.{}-0.tmp", std::process::id()));
        fs::write(&left, b"left").unwrap();
        std::thread::scope(|scope| {
            for registry in &registries {
                scope.spawn(|| {
                    for _ in 0..10 {
                        write_key_cache(&path, registry, Exec::serial()).unwrap();
                    }
                });
            }
        });
        let loads = |registry: &Registry| {
            load_key_cache(&path, registry.digest(), Exec::serial())
                .is_ok_and(|loaded| loaded == *registry)
        };
        assert_eq!(
            registries.iter().filter(|registry| loads(registry)).count(),
            1
        );
        assert_eq!(fs::read(&left).unwrap(), b"left");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn trap_25_a_damaged_or_foreign_cache_is_never_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.cache");
        let registry = registry(0);
        assert!(matches!(
            load_key_cache(&path, registry.digest(), Exec::serial()),
            Err(CacheError::Io(_))
        ));
        write_key_cache(&path, &registry, Exec::serial()).unwrap();
        let other = [1; 32];
        assert!(matches!(
            load_key_cache(&path, &other, Exec::serial()),
            Err(CacheError::OtherRegistry)
        ));
        let good = fs::read(&path).unwrap();
        let loads = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            load_key_cache(&path, registry.digest(), Exec::serial())
        };
        for length in 0..good.len() {
            assert!(loads(&good[..length]).is_err(), "truncated to {length}");
        }
        assert!(
            loads(&[good.as_slice(), &[0]].concat()).is_err(),
            "one byte too many"
        );
        for position in 0..good.len() {
            let mut flipped = good.clone();
            flipped[position] ^= 1 << (position % 8);
            assert!(loads(&flipped).is_err(), "bit of byte {position} flipped");
        }
        assert_eq!(loads(&good).unwrap(), registry);
    }

    #[test]
    fn trap_25_keys_of_another_registry_behind_its_header_and_checksum_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.cache");
        let (ours, theirs) = (registry(0), registry(9));
        write_key_cache(&path, &theirs, Exec::serial()).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[HEADER_BYTES - 32..HEADER_BYTES].copy_from_slice(ours.digest());
        let body = bytes.len() - CHECKSUM_BYTES;
        let checksum = Sha256::digest(&bytes[..body]);
        bytes[body..].copy_from_slice(&checksum);
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(
            load_key_cache(&path, ours.digest(), Exec::serial()),
            Err(CacheError::OtherRegistry)
        ));
    }

    #[test]
    fn trap_25_a_point_off_the_curve_is_refused_even_with_a_fitting_checksum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.cache");
        let registry = registry(0);
        write_key_cache(&path, &registry, Exec::serial()).unwrap();
        let good = fs::read(&path).unwrap();
        let with_record = |record: &[u8]| {
            let mut bytes = good[..good.len() - CHECKSUM_BYTES].to_vec();
            let from = HEADER_BYTES + 3 * RECORD_BYTES;
            bytes[from..from + RECORD_BYTES].copy_from_slice(record);
            bytes.extend_from_slice(&Sha256::digest(&bytes));
            fs::write(&path, bytes).unwrap();
            load_key_cache(&path, registry.digest(), Exec::serial())
        };
        let mut off = good[HEADER_BYTES..HEADER_BYTES + RECORD_BYTES].to_vec();
        off[95] ^= 1;
        assert!(matches!(
            with_record(&off),
            Err(CacheError::Record {
                index: 3,
                error: DecodeError::NotOnCurve
            })
        ));
        let mut infinity = [0; RECORD_BYTES];
        infinity[0] = 0x40;
        assert!(matches!(
            with_record(&infinity),
            Err(CacheError::Record {
                index: 3,
                error: DecodeError::Infinity
            })
        ));
    }
}
