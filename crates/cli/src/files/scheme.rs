//! What the file tool asks of a signature scheme, and which schemes there are.

use super::secret::Secret;
use crate::error::Result;
use alphorn_types::Support;
use std::collections::BTreeMap;

/// Names of the schemes on the command line. A command dispatches once, to the [`FileScheme`].
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemeName {
    /// BLS12-381 signatures of Ethereum's consensus layer
    Bls,
}

/// The public half of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublicHalf {
    /// The public key.
    pub(super) public_key: Vec<u8>,
    /// Proof that its owner has the secret key.
    pub(super) possession: Vec<u8>,
}

/// Why an entry of a list is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The bytes are no value of their kind.
    Malformed { index: usize, reason: String },
    /// The proof of possession does not hold.
    Possession { index: usize },
}

/// A statement that a verification decides.
pub(super) enum Claim<'a, K> {
    /// One key signed.
    Single {
        key: K,
        message: &'a [u8],
        signature: &'a [u8],
    },
    /// Members of a group signed, each as often as the support says.
    Group {
        group: usize,
        support: &'a Support,
        message: &'a [u8],
        signature: &'a [u8],
    },
}

/// A scheme whose keys, signatures and aggregates lie in files.
///
/// Messages are byte strings. A scheme whose signatures use up an index (XMSS) takes slot and
/// reservation with the secret, in [`FileScheme::sign`] alone: no other operation knows of them.
pub(super) trait FileScheme: Sized {
    /// The name in files and on the command line.
    const NAME: &'static str;
    /// Bytes of a secret key.
    const SECRET_BYTES: usize;
    /// Bytes of a public key.
    const PUBLIC_KEY_BYTES: usize;
    /// Bytes of a proof of possession.
    const POSSESSION_BYTES: usize;
    /// Bytes of a signature, and of the evidence of an aggregate.
    const SIGNATURE_BYTES: usize;
    /// How often one key may count in an aggregate; 1 means that only disjoint ones merge.
    const MULTIPLICITY_MAX: u8;

    /// A public key, decoded.
    type Key: Clone;

    /// The scheme on `threads` threads.
    fn open(threads: usize) -> Result<Self>;

    /// Kernels in use, for reports.
    fn kernels(&self) -> BTreeMap<&'static str, String>;

    /// A new key from the operating system's random generator.
    fn generate(&self) -> Result<Secret>;

    /// The key of an interop validator, which everyone can compute.
    fn interop(&self, index: u32) -> Secret;

    /// The public half of a secret key; an error says why the bytes are no secret key.
    fn public_half(&self, secret: &Secret) -> Result<PublicHalf>;

    /// Signs in constant time.
    fn sign(&self, secret: &Secret, message: &[u8]) -> Result<Vec<u8>>;

    /// Decodes public keys; names the first that is none.
    fn decode_keys(&self, encoded: &[&[u8]]) -> std::result::Result<Vec<Self::Key>, Refusal>;

    /// As [`FileScheme::decode_keys`], and every proof of possession holds.
    fn decode_proven(
        &self,
        encoded: &[(&[u8], &[u8])],
    ) -> std::result::Result<Vec<Self::Key>, Refusal>;

    /// The signature of all signers of `signatures`; `None` if they cancel, which no honest ones
    /// do.
    fn combine(&self, signatures: &[&[u8]]) -> std::result::Result<Option<Vec<u8>>, Refusal>;

    /// Decides each claim exactly as if it were alone; `Err` says what is wrong. `groups` are the
    /// lists of keys that claims name.
    fn verify(
        &self,
        groups: &[Vec<Self::Key>],
        claims: &[Claim<'_, Self::Key>],
    ) -> Result<Vec<std::result::Result<(), String>>>;
}
