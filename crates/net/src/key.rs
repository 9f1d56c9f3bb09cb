//! The key that identifies a peer: secp256k1, in a file of 64 hexadecimal digits.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use enr::k256::ecdsa::SigningKey;
use libp2p::PeerId;
use libp2p::identity::{Keypair, secp256k1};
use thiserror::Error;
use zeroize::Zeroizing;

/// Longest key file, in bytes: the digits, `0x` and an end of line.
const FILE_BYTES_MAX: u64 = 68;

/// The identity of a peer: the multihash of its public key, in base 58 as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) PeerId);

/// The secret key of a peer. It is erased when dropped, and `Debug` shows only the public part.
#[derive(Clone)]
pub struct NodeKey {
    pair: Keypair,
}

/// Why a key could not be obtained.
#[derive(Debug, Error)]
pub enum KeyError {
    /// Not 64 hexadecimal digits.
    #[error("a node key must be 64 hexadecimal digits, optionally behind 0x")]
    Digits,
    /// Zero, or not below the order of the group.
    #[error("a node key must be a number from 1 to the order of secp256k1 less 1")]
    Range,
    /// The file cannot be read or written.
    #[error("key file {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },
    /// Others can read the file.
    #[error("key file {path} has mode {mode:03o}, must not be open to group or others (chmod 600)")]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Text that is not a [`NodeId`].
    #[error("not the name of a peer: {0}")]
    Id(String),
}

impl NodeKey {
    /// Generates a key from the system's entropy.
    pub fn generate() -> Self {
        Self {
            pair: Keypair::generate_secp256k1(),
        }
    }

    /// A key from its 32 bytes, big-endian.
    ///
    /// # Errors
    ///
    /// [`KeyError::Range`] if the number is zero or not below the order of the group.
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new(bytes);
        let secret =
            secp256k1::SecretKey::try_from_bytes(&mut bytes[..]).map_err(|_| KeyError::Range)?;
        let pair = secp256k1::Keypair::from(secret).into();
        Ok(Self { pair })
    }

    /// A key from 64 hexadecimal digits, with or without `0x`.
    ///
    /// # Errors
    ///
    /// The text has another form, or the number is out of range.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let mut bytes = Zeroizing::new([0; 32]);
        hex::decode_to_slice(digits, &mut bytes[..]).map_err(|_| KeyError::Digits)?;
        Self::from_bytes(*bytes)
    }

    /// Reads a key file. On Unix a file that group or others may open is refused unless
    /// `insecure_permissions`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is open to others, or holds no key.
    pub fn read(path: &Path, insecure_permissions: bool) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File {
            path: path.to_owned(),
            source,
        };
        let file = fs::File::open(path).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
            if mode & 0o077 != 0 && !insecure_permissions {
                return Err(KeyError::Mode {
                    path: path.to_owned(),
                    mode,
                });
            }
        }
        #[cfg(not(unix))]
        let _ = insecure_permissions;
        // One byte more than a key file can have, so that a longer file fails the check for 64 digits.
        let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_MAX as usize + 1));
        file.take(FILE_BYTES_MAX + 1)
            .read_to_string(&mut text)
            .map_err(failed)?;
        Self::from_hex(text.trim())
    }

    /// Writes a new key file that only the owner may open. An existing file is never overwritten. The file gets its
    /// name only once it is complete and durable, because a node with a truncated key could no longer start.
    ///
    /// # Errors
    ///
    /// If the file exists or cannot be written.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        let failed = |source| KeyError::File {
            path: path.to_owned(),
            source,
        };
        let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // On Unix only its owner may open it, from its creation on.
        let mut new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let text = Zeroizing::new(format!("{}\n", self.to_hex().as_str()));
        new.write_all(text.as_bytes()).map_err(failed)?;
        new.as_file().sync_all().map_err(failed)?;
        new.persist_noclobber(path)
            .map_err(|error| failed(error.error))?;
        #[cfg(unix)]
        fs::File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed)?;
        Ok(())
    }

    /// The identity of this key.
    pub fn id(&self) -> NodeId {
        NodeId(self.pair.public().to_peer_id())
    }

    /// The key in libp2p's form.
    pub(crate) fn pair(&self) -> &Keypair {
        &self.pair
    }

    /// The key in the form that signs node records.
    pub(crate) fn signing_key(&self) -> SigningKey {
        SigningKey::from_slice(&self.to_bytes()[..]).expect("every constructor checks the range")
    }

    fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(*self.to_bytes()))
    }

    fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        let pair = self.pair.clone().try_into_secp256k1();
        let pair = pair.expect("every constructor makes a secp256k1 key");
        Zeroizing::new(pair.secret().to_bytes())
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.id())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for NodeId {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        // The text of an identity key has 53 characters. Nothing much longer is worth decoding.
        if text.len() > 128 {
            return Err(KeyError::Id("longer than 128 characters".to_owned()));
        }
        text.parse()
            .map(Self)
            .map_err(|_| KeyError::Id(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: usize = 200;

    #[test]
    fn a_key_survives_its_file_and_a_second_one_does_not_replace_it() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("node.key");
        let key = NodeKey::generate();
        key.write_new(&path).expect("written");
        let read = NodeKey::read(&path, false).expect("read");
        assert_eq!(read.id(), key.id());
        assert_eq!(fs::metadata(&path).expect("metadata").len(), 65);
        assert!(matches!(
            NodeKey::generate().write_new(&path),
            Err(KeyError::File { .. })
        ));
        assert_eq!(
            NodeKey::read(&path, false).expect("read again").id(),
            key.id()
        );
        assert_eq!(
            key.id().to_string().parse::<NodeId>().expect("id"),
            key.id()
        );
        assert!(!format!("{key:?}").contains(key.to_hex().as_str()));
    }

    /// A process may end at any moment. Whatever has a key file's name then is a valid key.
    #[test]
    fn a_key_file_is_never_there_in_part() {
        let folder = tempfile::tempdir().expect("folder");
        let path = |index: usize| folder.path().join(format!("{index}.key"));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for index in 0..KEYS {
                    NodeKey::generate()
                        .write_new(&path(index))
                        .expect("written");
                }
            });
            for index in 0..KEYS {
                while !path(index).exists() {}
                let read = NodeKey::read(&path(index), false);
                assert!(read.is_ok(), "key {index}: {read:?}");
            }
        });
        let files = fs::read_dir(folder.path()).expect("readable").count();
        assert_eq!(files, KEYS, "nothing else is left there");
        let taken = NodeKey::generate().write_new(&path(0));
        assert!(matches!(taken, Err(KeyError::File { .. })));
        let files = fs::read_dir(folder.path()).expect("readable").count();
        assert_eq!(files, KEYS, "not after a failure either");
    }

    /// The public key of the secret 1 is the base point (SEC 2, 2.4.1), whose compressed form is in the identity
    /// multihash of the name.
    #[test]
    fn the_key_one_has_the_base_point_as_its_name() {
        let key = NodeKey::from_hex(&format!("0x{:064x}", 1)).expect("key");
        let hex = hex::encode(key.id().0.to_bytes());
        assert!(
            hex.ends_with("0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"),
            "{hex}"
        );
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in [
            "",
            "0x",
            "01",
            &"g".repeat(64),
            &"0".repeat(63),
            &"0".repeat(66),
        ] {
            assert!(
                matches!(NodeKey::from_hex(text), Err(KeyError::Digits)),
                "{text}"
            );
        }
        assert!(matches!(NodeKey::from_bytes([0; 32]), Err(KeyError::Range)));
        assert!(matches!(
            NodeKey::from_bytes([0xff; 32]),
            Err(KeyError::Range)
        ));
        assert!("not a name".parse::<NodeId>().is_err());
        assert!("1".repeat(1000).parse::<NodeId>().is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_open_to_others_is_refused_unless_asked_for() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("node.key");
        NodeKey::generate().write_new(&path).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("mode");
        let error = NodeKey::read(&path, false).expect_err("open to the group");
        assert!(
            matches!(error, KeyError::Mode { mode: 0o640, .. }),
            "{error}"
        );
        assert!(NodeKey::read(&path, true).is_ok());
        fs::write(&path, "0".repeat(10_000)).expect("long file");
        assert!(matches!(NodeKey::read(&path, true), Err(KeyError::Digits)));
    }
}
