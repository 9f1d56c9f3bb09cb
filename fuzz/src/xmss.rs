//! The decoders of `alphorn-xmss`: signatures, public keys, and the files of a key.

use std::sync::OnceLock;

use alphorn_exec::{Backend, Exec};
use alphorn_scheme::{MemoryWatermark, Role, SignItem, Watermark};
use alphorn_types::{Slot, Validator};
use alphorn_xmss::{FileWatermark, Marks, PublicKey, Purpose, SecretKey, Set, Signature};
use sha2::{Digest, Sha256};

/// Bytes of the checksum at the end of a file.
const CHECKSUM_BYTES: usize = 32;
/// Active indices of the keys.
const ACTIVE: std::ops::Range<u64> = 3..11;

/// A short-lived key of a set.
fn key(set: Set) -> SecretKey {
    let exec = Exec::new(Backend::Portable, None);
    SecretKey::interop(set, Purpose::Vote, 0, ACTIVE, exec).expect("a legal range")
}

/// A vote at an active slot.
pub(crate) fn vote(key: &SecretKey, slot: u32) -> Signature {
    let permit = MemoryWatermark::new(1)
        .reserve(
            Slot(slot.into()),
            &SignItem::new(Validator(0), Role::Vote, [1; 32]),
        )
        .expect("a fresh slot");
    let exec = Exec::new(Backend::Portable, None);
    key.sign(permit, exec).expect("an active slot")
}

/// Decodes a signature or a public key; what is accepted is encoded to the same bytes.
///
/// Input: `set and kind u8 | bytes`.
///
/// # Panics
///
/// If accepted bytes are not the ones that the encoder writes.
pub fn xmss_bytes(data: &[u8]) -> bool {
    let Some((&selector, bytes)) = data.split_first() else {
        return false;
    };
    let set = Set::ALL[usize::from(selector) / 2 % Set::ALL.len()];
    let again = match selector % 2 {
        0 => Signature::from_bytes(set, bytes).map(|signature| signature.to_bytes()),
        _ => PublicKey::from_bytes(set, bytes).map(|key| key.to_bytes()),
    };
    if let Ok(again) = &again {
        assert_eq!(again, bytes, "two encodings of one object");
    }
    again.is_ok()
}

/// A signature and a key of each set.
pub(crate) fn xmss_bytes_seeds() -> Vec<Vec<u8>> {
    let of_set = |(i, set): (usize, Set)| {
        let key = key(set);
        let signature = vote(&key, ACTIVE.start as u32);
        let selector = 2 * i as u8;
        [
            [&[selector], &signature.to_bytes()[..]].concat(),
            [&[selector + 1], &key.public_key().to_bytes()[..]].concat(),
        ]
    };
    Set::ALL.into_iter().enumerate().flat_map(of_set).collect()
}

/// The tree file, the secret file and the marks of a key.
fn files() -> &'static [Vec<u8>; 3] {
    static FILES: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    FILES.get_or_init(|| {
        let key = key(Set::Test);
        let path = std::env::temp_dir().join(format!("alphorn-fuzz-{}.mark", std::process::id()));
        let store = FileWatermark::create(&path, None, Validator(0), key.public_key(), Slot(7));
        drop(store.expect("the temporary folder is writable"));
        let marks = std::fs::read(&path).expect("the marks were written");
        std::fs::remove_file(&path).ok();
        std::fs::remove_file(path.with_extension("mark.lock")).ok();
        [key.to_tree_file(), key.to_secret_file().to_vec(), marks]
    })
}

/// Decodes a file of a key; what is accepted is encoded to the same bytes.
///
/// Input: `kind and repair u8 | file`; unless the first byte is divisible by four the checksum is made
/// to fit first, so that mutations reach what stands before it.
///
/// # Panics
///
/// If accepted bytes are not the ones that the encoder writes.
pub fn xmss_files(data: &[u8]) -> bool {
    let Some((&selector, file)) = data.split_first() else {
        return false;
    };
    let mut file = file.to_vec();
    if let (1.., Some(end)) = (selector % 4, file.len().checked_sub(CHECKSUM_BYTES)) {
        let checksum = Sha256::digest(&file[..end]);
        file[end..].copy_from_slice(&checksum);
    }
    let [tree, secret, _] = files();
    let again = match selector / 4 % 3 {
        0 => SecretKey::from_files(&file, secret, Backend::Portable)
            .ok()
            .map(|key| key.to_tree_file()),
        1 => SecretKey::from_files(tree, &file, Backend::Portable)
            .ok()
            .map(|key| key.to_secret_file().to_vec()),
        _ => Marks::from_bytes(&file).ok().map(|marks| marks.to_bytes()),
    };
    if let Some(again) = &again {
        assert_eq!(again, &file, "two encodings of one file");
    }
    again.is_some()
}

/// The intact files, and each once more with a checksum that is to be repaired.
pub(crate) fn xmss_files_seeds() -> Vec<Vec<u8>> {
    let of_file = |(i, file): (usize, &Vec<u8>)| {
        let selector = 4 * i as u8;
        [
            [&[selector], &file[..]].concat(),
            [&[selector + 1], &file[..]].concat(),
        ]
    };
    files().iter().enumerate().flat_map(of_file).collect()
}
