//! The interface between the file tool and a signature scheme, and the list of schemes.

use super::keystore::{About, Contents, Declared};
use super::marks::{self, Marked};
use super::output::Staged;
use super::secret::Secret;
use super::statement::{Claim, Entry, Refusal, ToMerge, ToProve, ToSign};
use super::{FileOptions, Proofs};
use crate::error::Result;
use crate::progress::Bars;
use alphorn_scheme::list::TAG_LIST;
use alphorn_xmss::FileWatermark;
use anyhow::anyhow;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Names of the schemes on the command line.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemeName {
    /// BLS12-381 signatures as in Ethereum's consensus layer
    Bls,
    /// Falcon-512, lattice-based: aggregates are lists or proofs
    Falcon,
    /// XMSS, hash-based: one signature per slot, aggregates are lists or proofs
    Xmss,
}

/// Decodes each entry; the error names the first one that fails to decode.
pub(super) fn decode_each<T, E: ToString>(
    encoded: &[&[u8]],
    decode: impl Fn(&[u8]) -> std::result::Result<T, E>,
) -> std::result::Result<Vec<T>, Refusal> {
    let decode = |(index, bytes): (usize, &&[u8])| {
        decode(bytes).map_err(|error| Refusal::Malformed {
            index,
            reason: error.to_string(),
        })
    };
    encoded.iter().enumerate().map(decode).collect()
}

/// The form of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One signature, regardless of the number of signers; their keys need proofs of possession.
    Sum,
    /// The signatures of all signers, in order.
    List,
}

/// Bounds on the length of a proof's evidence after its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProofLimits {
    /// Bytes per signer in front of the proof.
    pub(super) beside_bytes: usize,
    /// Maximum size of the proof in bytes.
    pub(super) proof_bytes_max: usize,
}

/// Slot limits of a scheme whose keys sign once per slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotLimits {
    /// Exclusive upper bound on slots.
    pub(super) end: u64,
    /// Number of slots that a key is made for; none if it signs in all slots.
    pub(super) ranges: Option<SlotRanges>,
}

/// Numbers of slots that a key is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotRanges {
    /// Maximum number of slots of a key.
    pub(super) key_max: u64,
    /// Maximum number of slots of an interop key: its tree is built by every process that reads its file.
    pub(super) interop_max: u64,
    /// Default number of slots of a key.
    pub(super) key_default: u64,
    /// Default number of slots of an interop key.
    pub(super) interop_default: u64,
}

/// The public half of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublicHalf {
    /// The public key.
    pub(super) public_key: Vec<u8>,
    /// Proof that the owner has the secret key; empty if the scheme needs none.
    pub(super) possession: Vec<u8>,
}

/// A scheme whose keys, signatures and aggregates are stored in files.
pub(super) trait FileScheme: Sized {
    /// Name of the scheme in files.
    const NAME: &'static str;
    /// Bytes of a secret key in a keystore.
    const SECRET_BYTES: usize;
    /// Bytes of a public key.
    const PUBLIC_KEY_BYTES: usize;
    /// Bytes of a proof of possession, 0 if keys need none.
    const POSSESSION_BYTES: usize;
    /// Bytes of a signature.
    const SIGNATURE_BYTES: usize;
    /// Bytes of a message, if only one length can be signed.
    const MESSAGE_BYTES: Option<usize>;
    /// The form of an aggregate.
    const FORM: Form;
    /// How often one key may count in an aggregate.
    const MULTIPLICITY_MAX: u8;
    /// Maximum number of signers of an aggregate.
    const SIGNERS_MAX: usize;
    /// The slot limits of a key, if it signs once per slot.
    const SLOTS: Option<SlotLimits>;
    /// Limits on proofs of aggregates; none if there are no proofs.
    const PROOFS: Option<ProofLimits> = None;
    /// Whether proofs can be merged.
    const MERGES: bool = false;
    /// Whether a validator has a second key that signs its duties.
    const DUTY_KEYS: bool = false;
    /// How keystores name the scheme, if they do.
    const DECLARED: Option<Declared> = None;
    /// What keystores hold.
    const KEYSTORE: Contents = Contents {
        secret_bytes: Self::SECRET_BYTES,
        declared: Self::DECLARED,
    };

    /// A public key, decoded.
    type Key: Clone;
    /// A secret key that is ready to sign.
    type SecretKey;
    /// What one signature needs in addition to the key.
    type Prepared;

    /// Opens the scheme with its options.
    fn open(options: &FileOptions, proofs: Proofs) -> Result<Self>;

    /// Kernels in use, for reports.
    fn kernels(&self) -> BTreeMap<&'static str, String>;

    /// Generates a key from the operating system's random generator, for the given slots if keys have
    /// slots.
    fn generate(
        &self,
        slots: Option<Range<u64>>,
        bars: &mut Bars,
    ) -> Result<(Secret, Self::SecretKey)>;

    /// Like [`FileScheme::generate`], for the key that signs duties in these slots.
    fn generate_duty(
        &self,
        _slots: Option<Range<u64>>,
        _bars: &mut Bars,
    ) -> Result<(Secret, Self::SecretKey)> {
        Err(anyhow!("{} signs duties with the key of votes", Self::NAME).into())
    }

    /// Returns the key of an interop validator, which anyone can compute.
    fn interop(&self, index: u32, slots: Option<Range<u64>>) -> Result<(Secret, Self::SecretKey)>;

    /// Decodes the key of a secret; the error says why the bytes are invalid. `path` is that of its
    /// file: files next to it may save work.
    fn secret_key(&self, secret: &Secret, path: &Path, bars: &mut Bars) -> Result<Self::SecretKey>;

    /// Whether a key signs duties rather than votes.
    fn signs_duties(_key: &Self::SecretKey) -> bool {
        false
    }

    /// Returns the public half of a secret key.
    fn public_half(&self, key: &Self::SecretKey) -> PublicHalf;

    /// Returns the human-readable description that a keystore holds of its key.
    fn about(key: &Self::SecretKey) -> About;

    /// Returns the key as one with a mark, if keys have slots.
    fn marked(_key: &Self::SecretKey) -> Option<&dyn Marked> {
        None
    }

    /// Adds the mark of a key at `path`, if keys have slots, with no free slot below `floor`. Without a
    /// floor the key is new and starts at its first slot.
    fn add_mark(
        key: &Self::SecretKey,
        path: &Path,
        floor: Option<u64>,
        staged: &mut Staged,
    ) -> Result<()> {
        Self::marked(key).map_or(Ok(()), |key| marks::add_mark(key, path, floor, staged))
    }

    /// Adds any other files stored next to a key at `path`.
    fn add_beside(_key: &Self::SecretKey, _path: &Path, _staged: &mut Staged) -> Result<()> {
        Ok(())
    }

    /// Returns the slot from which a key at `path` may sign, and the exclusive right to do so, which
    /// lasts as long as the returned value. There is no right if keys have no slots, if there is no
    /// record at `path`, or if that record cannot be trusted and a `floor` is given. In the last case
    /// the slot is still returned, as far as it is known.
    fn hold(
        &self,
        key: &Self::SecretKey,
        path: &Path,
        floor: Option<u64>,
    ) -> Result<(Option<u64>, Option<FileWatermark>)> {
        Self::marked(key).map_or(Ok((None, None)), |key| marks::hold(key, path, floor))
    }

    /// Notes that the key has moved and signs from `floor` on at its new location. Revokes the right of
    /// the old location or, where nothing is known of one, records that the key may have signed below
    /// the floor; returns the floor in force.
    fn hand_over(
        &self,
        key: &Self::SecretKey,
        held: Option<FileWatermark>,
        floor: u64,
    ) -> Result<u64> {
        Self::marked(key).map_or(Ok(floor), |key| marks::hand_over(key, held, floor))
    }

    /// Returns what the files next to a key say about it.
    fn describe_beside(path: &Path) -> Map<String, Value> {
        match Self::SLOTS {
            Some(_) => marks::describe(path),
            None => Map::new(),
        }
    }

    /// Checks everything that could prevent a signature, without using anything up. For keys that sign
    /// once per slot, it checks that the slot is free and reserves it for this process while the result
    /// lives.
    fn prepare(&self, key: &Self::SecretKey, what: &ToSign<'_>) -> Result<Self::Prepared>;

    /// Signs in constant time. A slot is used up for good before the signature is returned.
    fn sign(
        &self,
        key: &Self::SecretKey,
        prepared: Self::Prepared,
        what: &ToSign<'_>,
    ) -> Result<Vec<u8>>;

    /// Decodes public keys; the error names the first invalid one.
    fn decode_keys(&self, encoded: &[&[u8]]) -> std::result::Result<Vec<Self::Key>, Refusal>;

    /// Like [`FileScheme::decode_keys`], and also checks every proof of possession where the scheme has
    /// them.
    fn decode_proven(
        &self,
        encoded: &[(&[u8], &[u8])],
    ) -> std::result::Result<Vec<Self::Key>, Refusal> {
        let keys: Vec<&[u8]> = encoded.iter().map(|(key, _)| *key).collect();
        self.decode_keys(&keys)
    }

    /// Combines one signature or piece of evidence per part, in the order of the signers, into the
    /// evidence of an aggregate: a list, where they are not added. `None` if they cancel, which honest
    /// ones never do.
    fn combine(&self, parts: &[&[u8]]) -> std::result::Result<Option<Vec<u8>>, Refusal> {
        let mut evidence = vec![TAG_LIST];
        evidence.extend(parts.concat());
        Ok(Some(evidence))
    }

    /// Returns the evidence of a proof that all signatures exist. The caller must have verified them.
    fn prove(&self, _what: &ToProve<'_, Self::Key>) -> Result<Vec<u8>> {
        Err(anyhow!("--form proof: {} has no proofs", Self::NAME).into())
    }

    /// Returns the evidence of a proof that the given proofs hold; all of them are already verified.
    fn merge_proofs(&self, _what: &ToMerge<'_, Self::Key>) -> Result<Vec<u8>> {
        Err(anyhow!("proofs of {} do not merge", Self::NAME).into())
    }

    /// Decides each claim exactly as if it were alone; `Err` says what is wrong. `groups` are the key
    /// lists that claims refer to.
    fn verify(
        &self,
        groups: &[Vec<Self::Key>],
        claims: &[Claim<'_, Self::Key>],
    ) -> Result<Vec<std::result::Result<(), String>>>;

    /// Decides whether one proof holds for all entries of a bundle; entries refer to groups.
    fn verify_bundle(
        &self,
        _groups: &[Vec<Self::Key>],
        _entries: &[(usize, Entry)],
        _proof: &[u8],
    ) -> std::result::Result<(), String> {
        Err(format!("{} has no bundles", Self::NAME))
    }
}
