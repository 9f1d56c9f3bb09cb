//! A key as two files: the resident part of its tree, and the secret seed.
//!
//! The tree file holds the nodes of the lowest resident level, so startup hashes a few hundred nodes and no
//! leaves. It is not secret. The secret file holds a seed and the active indices, from which everything can be
//! restored; a lost tree file costs the time of a key generation. Both end with a SHA-256 checksum, which detects
//! damage but proves nothing.

use std::ops::Range;

use alphorn_exec::{Backend, Exec};
use alphorn_stark::Fp;
use alphorn_types::{DecodeError, Reader};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::durable::{CHECKSUM_BYTES, seal, unseal};
use crate::hash::Digest;
use crate::key::{KeyError, Purpose, SecretKey};
use crate::params::Set;
use crate::prf::Prf;
use crate::tree::Source;

const TREE_MAGIC: &[u8; 4] = b"AXT1";
const SECRET_MAGIC: &[u8; 4] = b"AXS1";

/// Maximum number of active indices of a key in files: 2^28 indices are 2^20 nodes, 32 MiB.
pub const FILE_INDICES_MAX: u64 = 1 << 28;

/// Size of a secret file in bytes.
pub const SECRET_FILE_BYTES: usize = 4 + 2 + 2 * 8 + 32 + CHECKSUM_BYTES;

/// Size of the largest tree file in bytes.
// A range that begins inside a block touches one block more.
pub const TREE_FILE_BYTES_MAX: usize =
    4 + 2 + 2 * 8 + 4 * 5 + 32 * ((FILE_INDICES_MAX >> 8) as usize + 1) + CHECKSUM_BYTES;

/// Why the files are not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyFileError {
    /// The content does not match its checksum, or is too short to have one.
    #[error("the checksum does not fit: the file is damaged or of another kind")]
    Checksum,
    /// The file has the wrong magic bytes.
    #[error("not a {0} file")]
    Magic(&'static str),
    /// A field is out of bounds.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The two files differ in set, purpose or active indices, or in the parameter derived from the seed.
    #[error("the tree file belongs to another key than the secret file")]
    Mismatch,
    /// The tree cannot be rebuilt.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl SecretKey {
    /// The content of the tree file.
    pub fn to_tree_file(&self) -> Vec<u8> {
        let (source, params) = (self.source(), self.source().set.params());
        let mut out = TREE_MAGIC.to_vec();
        out.extend([source.set as u8, self.purpose() as u8]);
        out.extend(source.active.start.to_le_bytes());
        out.extend(source.active.end.to_le_bytes());
        let parameter = &source.parameter[..params.parameter];
        let nodes = self.resident().lowest_row().iter();
        let nodes = nodes.flat_map(|node| &node[..params.digest]);
        out.extend(parameter.iter().chain(nodes).flat_map(|x| x.to_bytes()));
        seal(out)
    }

    /// The content of the secret file.
    pub fn to_secret_file(&self) -> Zeroizing<Vec<u8>> {
        // At full length with the checksum: growing would leave a copy of the seed behind.
        let mut out = Vec::with_capacity(SECRET_FILE_BYTES);
        out.extend_from_slice(SECRET_MAGIC);
        let source = self.source();
        out.extend([source.set as u8, self.purpose() as u8]);
        out.extend(source.active.start.to_le_bytes());
        out.extend(source.active.end.to_le_bytes());
        out.extend_from_slice(source.prf.seed());
        Zeroizing::new(seal(out))
    }

    /// Restores the key from its two files. The root is taken from the tree file, so compare the public key with a
    /// known one.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn from_files(
        tree: &[u8],
        secret: &[u8],
        backend: Backend,
    ) -> Result<SecretKey, KeyFileError> {
        let Secret { about, seed } = read_secret(secret)?;
        let mut reader = open(tree, TREE_MAGIC, "key tree")?;
        if About::read(&mut reader)? != about {
            return Err(KeyFileError::Mismatch);
        }
        let About { set, .. } = about;
        let parameter = elements::<5>(&mut reader, set.params().parameter)?;
        // With the tree of another key, signing would work but no signature would verify.
        let prf = Prf::new(set, &seed);
        if parameter != prf.parameter(backend) {
            return Err(KeyFileError::Mismatch);
        }
        let source = Source {
            set,
            prf,
            parameter,
            active: about.active,
        };
        let digest = set.params().digest;
        let count = usize::try_from(source.resident()).unwrap_or(usize::MAX);
        let needed = count.saturating_mul(4 * digest);
        // Checked before the nodes are allocated.
        if reader.left() < needed {
            let left = reader.left();
            return Err(DecodeError::Truncated { needed, left }.into());
        }
        let nodes: Result<Vec<Digest>, KeyFileError> =
            (0..count).map(|_| elements(&mut reader, digest)).collect();
        end(&reader)?;
        let resident = source.restore(backend, nodes?);
        Ok(SecretKey::of(about.purpose, source, resident))
    }

    /// Restores the key from its secret file alone. The tree is rebuilt, which takes as long as generating a new
    /// key. `progress` receives the number of indices done.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn from_secret_file(
        secret: &[u8],
        exec: Exec<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<SecretKey, KeyFileError> {
        let Secret { about, seed } = read_secret(secret)?;
        let About {
            set,
            purpose,
            active,
        } = about;
        Ok(SecretKey::generate(
            set, purpose, &seed, active, exec, progress,
        )?)
    }
}

/// The common header of both files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct About {
    set: Set,
    purpose: Purpose,
    active: Range<u64>,
}

impl About {
    fn read(reader: &mut Reader<'_>) -> Result<About, KeyFileError> {
        let (set, purpose) = kind(reader)?;
        let (start, end) = (reader.u64()?, reader.u64()?);
        out_of_range("end of the active indices", end, set.params().lifetime())?;
        // start < end: an empty range has no tree.
        out_of_range("start of the active indices", start.saturating_add(1), end)?;
        out_of_range("active indices", end - start, FILE_INDICES_MAX)?;
        Ok(About {
            set,
            purpose,
            active: start..end,
        })
    }
}

struct Secret {
    about: About,
    seed: Zeroizing<[u8; 32]>,
}

fn read_secret(bytes: &[u8]) -> Result<Secret, KeyFileError> {
    let mut reader = open(bytes, SECRET_MAGIC, "secret key")?;
    let about = About::read(&mut reader)?;
    let seed = Zeroizing::new(reader.array::<32>()?);
    end(&reader)?;
    Ok(Secret { about, seed })
}

fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; 4],
    what: &'static str,
) -> Result<Reader<'a>, KeyFileError> {
    // First, so that a file of another kind is named as such, and not as damaged.
    if !bytes.starts_with(magic) {
        return Err(KeyFileError::Magic(what));
    }
    let content = unseal(bytes).ok_or(KeyFileError::Checksum)?;
    let mut reader = Reader::new(content);
    reader.bytes(magic.len())?;
    Ok(reader)
}

fn kind(reader: &mut Reader<'_>) -> Result<(Set, Purpose), KeyFileError> {
    let unknown = |what, value: u8| DecodeError::UnknownTag {
        what,
        value: value.into(),
    };
    let (set, purpose) = (reader.u8()?, reader.u8()?);
    let set = Set::from_u8(set).ok_or(unknown("set", set))?;
    let purpose = Purpose::from_u8(purpose).ok_or(unknown("purpose", purpose))?;
    Ok((set, purpose))
}

fn out_of_range(what: &'static str, value: u64, max: u64) -> Result<(), KeyFileError> {
    if value > max {
        return Err(DecodeError::OutOfRange { what, value, max }.into());
    }
    Ok(())
}

fn elements<const N: usize>(
    reader: &mut Reader<'_>,
    count: usize,
) -> Result<[Fp; N], KeyFileError> {
    let mut out = [Fp::ZERO; N];
    for out in &mut out[..count] {
        let what = "field element";
        *out = Fp::from_bytes(reader.array()?).ok_or(DecodeError::NotCanonical { what })?;
    }
    Ok(out)
}

fn end(reader: &Reader<'_>) -> Result<(), KeyFileError> {
    match reader.left() {
        0 => Ok(()),
        bytes => Err(DecodeError::Trailing { bytes }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_exec::Exec;
    use alphorn_stark::KERNELS;

    fn key(set: Set, active: std::ops::Range<u64>) -> SecretKey {
        let exec = Exec::new(KERNELS.measured(), None);
        SecretKey::interop(set, Purpose::Duty, 5, active, exec).unwrap()
    }

    fn read(tree: &[u8], secret: &[u8]) -> Result<SecretKey, KeyFileError> {
        SecretKey::from_files(tree, secret, Backend::Portable)
    }

    #[test]
    fn a_key_round_trips() {
        for (set, active) in [
            (Set::Compact, 700..1800),
            (Set::Test, 3..200),
            (Set::Prod, 9..10),
        ] {
            let key = key(set, active.clone());
            let (tree, secret) = (key.to_tree_file(), key.to_secret_file());
            assert_eq!(secret.len(), SECRET_FILE_BYTES);
            let back = read(&tree, &secret).unwrap();
            assert_eq!(back.public_key(), key.public_key());
            assert_eq!((back.purpose(), back.active()), (Purpose::Duty, active));
            assert_eq!(back.resident(), key.resident());
            let exec = Exec::new(KERNELS.measured(), None);
            let again = SecretKey::from_secret_file(&secret, exec, &|_| ()).unwrap();
            assert_eq!(again.to_tree_file(), tree);
        }
    }

    #[test]
    fn every_damaged_byte_is_found() {
        let key = key(Set::Test, 0..16);
        let (tree, secret) = (key.to_tree_file(), key.to_secret_file());
        for i in 0..tree.len() {
            let mut tree = tree.clone();
            tree[i] ^= 0x10;
            assert!(read(&tree, &secret).is_err(), "byte {i} of the tree");
            assert!(read(&tree[..i], &secret).is_err(), "{i} bytes of the tree");
        }
        for i in 0..secret.len() {
            let mut secret = secret.clone();
            secret[i] ^= 0x10;
            assert!(read(&tree, &secret).is_err(), "byte {i} of the secret");
            assert!(
                read(&tree, &secret[..i]).is_err(),
                "{i} bytes of the secret"
            );
        }
    }

    /// The two files may agree in their headers although the tree belongs to another seed.
    #[test]
    fn the_tree_of_another_key_is_refused() {
        let exec = Exec::new(KERNELS.measured(), None);
        let of = |set, validator| {
            SecretKey::interop(set, Purpose::Vote, validator, 0..16, exec).unwrap()
        };
        for set in [Set::Compact, Set::Test] {
            let (ours, other) = (of(set, 6), of(set, 5));
            let secret = ours.to_secret_file();
            assert!(read(&ours.to_tree_file(), &secret).is_ok());
            let refused = read(&other.to_tree_file(), &secret).err();
            assert_eq!(refused, Some(KeyFileError::Mismatch), "{set}");
        }
    }

    /// Fields are checked even if the checksums match.
    #[test]
    fn fields_have_bounds() {
        let key = key(Set::Test, 0..16);
        let (tree, secret) = (key.to_tree_file(), key.to_secret_file());
        let patched = |file: &[u8], at: usize, bytes: &[u8]| {
            let mut content = unseal(file).unwrap().to_vec();
            content[at..at + bytes.len()].copy_from_slice(bytes);
            seal(content)
        };
        // A well-formed tree with another purpose or range than the secret.
        for (at, byte) in [(5, 0), (6, 1), (14, 15), (14, 17)] {
            let refused = read(&patched(&tree, at, &[byte]), &secret).err();
            assert_eq!(refused, Some(KeyFileError::Mismatch), "{at} {byte}");
        }
        // Both files agree in a field that is out of bounds, or in a range that does not match the nodes.
        for (at, bytes) in [
            (4, vec![9]),
            (5, vec![2]),
            (6, vec![16]),
            (6, vec![0xff; 8]),
            (14, vec![0; 8]),
            (14, vec![0xff; 8]),
            (14, vec![1, 1]),
            (14, vec![17]),
            (14, vec![15]),
        ] {
            let refused = read(&patched(&tree, at, &bytes), &patched(&secret, at, &bytes)).err();
            let decode = matches!(refused, Some(KeyFileError::Decode(_)));
            assert!(decode, "{at} {bytes:?} {refused:?}");
        }
        for at in [22, 42] {
            let refused = read(&patched(&tree, at, &[0xff; 4]), &secret).err();
            assert!(matches!(refused, Some(KeyFileError::Decode(_))), "{at}");
        }
        // 2^32 indices would be a file of half a gigabyte.
        let compact = crate::tests::compact_key(0..1);
        let mut content = unseal(&compact.to_tree_file()).unwrap().to_vec();
        content[14..22].copy_from_slice(&(1u64 << 32).to_le_bytes());
        let refused = read(&seal(content), &compact.to_secret_file()).err();
        let (what, value, max) = ("active indices", 1 << 32, FILE_INDICES_MAX);
        let expected = DecodeError::OutOfRange { what, value, max };
        assert_eq!(refused, Some(KeyFileError::Decode(expected)));
    }
}
