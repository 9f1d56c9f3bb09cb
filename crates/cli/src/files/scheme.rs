//! What the file tool asks of a signature scheme, and which schemes there are.

use super::bls::Bls;
use super::bundle::Entry;
use super::choice::Choice;
use super::falcon::Falcon;
use super::falcon_flavours::{FnDsa04, NoSalts, Round3};
use super::input::expand;
use super::keystore::{About, Contents, Declared};
use super::marks::{self, Marked};
use super::output::Staged;
use super::secret::Secret;
use super::xmss::{CompactSet, ProdSet, TestSet, Xmss};
use super::{FileOptions, Proofs};
use crate::error::Result;
use crate::overwrite::check_apart;
use crate::progress::Bars;
use alphorn_falcon::Flavour;
use alphorn_scheme::list::TAG_LIST;
use alphorn_types::Support;
use alphorn_xmss::{FileWatermark, Set};
use anyhow::anyhow;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Names of the schemes on the command line.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemeName {
    /// BLS12-381 signatures of Ethereum's consensus layer
    Bls,
    /// Falcon-512: lattices, aggregates are lists or proofs
    Falcon,
    /// XMSS, hash-based: one signature a slot, aggregates are lists or proofs
    Xmss,
}

/// A command of the file tool, for whichever scheme.
pub(super) trait Command {
    /// Its options, which name the scheme.
    fn options(&self) -> &FileOptions;

    /// How it makes and verifies proofs, if it does.
    fn proofs(&self) -> Proofs {
        Proofs::default()
    }

    /// Files that may name the scheme, if the options do not; the first that does decides.
    fn sources(&self) -> Result<Vec<PathBuf>>;

    /// What it reads apart from [`Command::sources`].
    fn others(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// What it writes apart from its report, and never reads.
    fn outputs(&self) -> Result<Vec<PathBuf>>;

    /// Runs it.
    fn run_with<S: FileScheme>(&self) -> Result<()>;
}

/// Decodes each; names the first that cannot be.
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

/// The files of a command, then those of keys.
pub(super) fn with_keys<'a>(
    files: &[PathBuf],
    keys: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<Vec<PathBuf>> {
    let mut sources = expand(files)?;
    sources.extend(keys.into_iter().cloned());
    Ok(sources)
}

/// Runs a command with the scheme that its options or its files name.
pub(super) fn dispatch(command: &impl Command) -> Result<()> {
    let (options, sources, others) = (command.options(), command.sources()?, command.others());
    let outputs = command.outputs()?;
    let read = sources.iter().chain(&others).map(PathBuf::as_path);
    let written = outputs.iter().chain(&options.json).map(PathBuf::as_path);
    check_apart(read, written)?;
    match Choice::of(options, command.proofs(), &sources)? {
        Choice::Bls => command.run_with::<Bls>(),
        Choice::Falcon(Flavour::FnDsa) => command.run_with::<Falcon<FnDsa04>>(),
        Choice::Falcon(Flavour::Original) => command.run_with::<Falcon<Round3>>(),
        Choice::Falcon(Flavour::Slot) => command.run_with::<Falcon<NoSalts>>(),
        Choice::Xmss(Set::Compact) => command.run_with::<Xmss<CompactSet>>(),
        Choice::Xmss(Set::Prod) => command.run_with::<Xmss<ProdSet>>(),
        Choice::Xmss(Set::Test) => command.run_with::<Xmss<TestSet>>(),
    }
}

/// What an aggregate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One signature, however many signers there are; their keys need proofs of possession.
    Sum,
    /// The signatures of all signers, in their order.
    List,
}

/// How long the evidence of a proof may be, behind its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProofLimits {
    /// Bytes of each signer in front of the proof.
    pub(super) beside_bytes: usize,
    /// Bytes of the proof at most.
    pub(super) proof_bytes_max: usize,
}

/// Signatures over one message, and their keys in the same order: positions in a registry.
pub(super) struct ToProve<'a, K> {
    /// The keys.
    pub(super) keys: &'a [K],
    /// The message.
    pub(super) message: &'a [u8],
    /// The signatures.
    pub(super) signatures: &'a [&'a [u8]],
    /// The slot, if keys sign once in each.
    pub(super) slot: Option<u64>,
    /// All keys of the file that names the signers; their own if they are listed.
    pub(super) registry: &'a [K],
    /// Which of them signed.
    pub(super) support: &'a Support,
}

/// Proofs over one message, by positions in a registry.
pub(super) struct ToMerge<'a, K> {
    /// All keys of the file that names the signers.
    pub(super) registry: &'a [K],
    /// The slot, if keys sign once in each.
    pub(super) slot: Option<u64>,
    /// The message.
    pub(super) message: &'a [u8],
    /// Who signed, and the evidence.
    pub(super) pieces: &'a [(Support, Vec<u8>)],
    /// The files of the pieces.
    pub(super) paths: &'a [PathBuf],
}

/// The slots of a scheme whose keys sign once in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotLimits {
    /// Slots are below.
    pub(super) end: u64,
    /// How many of them a key is made for; none if it signs in all.
    pub(super) ranges: Option<SlotRanges>,
}

/// Numbers of slots that a key is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotRanges {
    /// Slots of a key at most.
    pub(super) key_max: u64,
    /// Slots of an interop key at most: whoever reads its file makes its tree.
    pub(super) interop_max: u64,
    /// Slots of a key if nothing is said.
    pub(super) key_default: u64,
    /// Slots of an interop key if nothing is said.
    pub(super) interop_default: u64,
}

/// The public half of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublicHalf {
    /// The public key.
    pub(super) public_key: Vec<u8>,
    /// Proof that its owner has the secret key; empty if the scheme needs none.
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

/// A statement that a verification decides. There is a slot if keys sign once in each.
pub(super) enum Claim<'a, K> {
    /// One key signed.
    Single {
        key: K,
        slot: Option<u64>,
        message: &'a [u8],
        signature: &'a [u8],
    },
    /// Members of a group signed, each as often as the support says.
    Group {
        group: usize,
        support: &'a Support,
        slot: Option<u64>,
        message: &'a [u8],
        evidence: &'a [u8],
    },
}

/// What a key signs, and where its file is.
pub(super) struct ToSign<'a> {
    /// The file of the key.
    pub(super) path: &'a Path,
    /// The slot, if keys sign once in each.
    pub(super) slot: Option<u64>,
    /// The message.
    pub(super) message: &'a [u8],
}

/// A scheme whose keys, signatures and aggregates lie in files.
pub(super) trait FileScheme: Sized {
    /// The name in files.
    const NAME: &'static str;
    /// Bytes of a secret key in a keystore.
    const SECRET_BYTES: usize;
    /// Bytes of a public key.
    const PUBLIC_KEY_BYTES: usize;
    /// Bytes of a proof of possession, 0 if keys need none.
    const POSSESSION_BYTES: usize;
    /// Bytes of a signature.
    const SIGNATURE_BYTES: usize;
    /// Bytes of a message, if only one length is signed.
    const MESSAGE_BYTES: Option<usize>;
    /// What an aggregate is.
    const FORM: Form;
    /// How often one key may count in an aggregate.
    const MULTIPLICITY_MAX: u8;
    /// Signers of an aggregate at most.
    const SIGNERS_MAX: usize;
    /// The slots of a key, if it signs once in each.
    const SLOTS: Option<SlotLimits>;
    /// What proofs of aggregates may be; none if there are no proofs.
    const PROOFS: Option<ProofLimits> = None;
    /// Whether proofs merge.
    const MERGES: bool = false;
    /// Whether a validator has a second key, which signs its duties.
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
    /// What one signature takes beside the key.
    type Prepared;

    /// The scheme with its options.
    fn open(options: &FileOptions, proofs: Proofs) -> Result<Self>;

    /// Kernels in use, for reports.
    fn kernels(&self) -> BTreeMap<&'static str, String>;

    /// A new key from the operating system's random generator, for slots if keys have them.
    fn generate(
        &self,
        slots: Option<Range<u64>>,
        bars: &mut Bars,
    ) -> Result<(Secret, Self::SecretKey)>;

    /// As [`FileScheme::generate`], the key for duties in these slots.
    fn generate_duty(
        &self,
        _slots: Option<Range<u64>>,
        _bars: &mut Bars,
    ) -> Result<(Secret, Self::SecretKey)> {
        Err(anyhow!("{} signs duties with the key of votes", Self::NAME).into())
    }

    /// The key of an interop validator, which everyone can compute.
    fn interop(&self, index: u32, slots: Option<Range<u64>>) -> Result<(Secret, Self::SecretKey)>;

    /// The key of a secret; an error says why the bytes are none. `path` is that of its file: what
    /// lies beside it may save work.
    fn secret_key(&self, secret: &Secret, path: &Path, bars: &mut Bars) -> Result<Self::SecretKey>;

    /// Whether a key signs duties, and no votes.
    fn signs_duties(_key: &Self::SecretKey) -> bool {
        false
    }

    /// The public half of a secret key.
    fn public_half(&self, key: &Self::SecretKey) -> PublicHalf;

    /// What a keystore says of its key, for a person.
    fn about(key: &Self::SecretKey) -> About;

    /// The key as one with a mark, if its keys have slots.
    fn marked(_key: &Self::SecretKey) -> Option<&dyn Marked> {
        None
    }

    /// Adds the mark that a key at `path` signs by, if its keys have slots: none below `floor`. Without
    /// a floor the key is new, and begins with its first slot.
    fn add_mark(
        key: &Self::SecretKey,
        path: &Path,
        floor: Option<u64>,
        staged: &mut Staged,
    ) -> Result<()> {
        Self::marked(key).map_or(Ok(()), |key| marks::add_mark(key, path, floor, staged))
    }

    /// Adds what else lies beside a key at `path`.
    fn add_beside(_key: &Self::SecretKey, _path: &Path, _staged: &mut Staged) -> Result<()> {
        Ok(())
    }

    /// Where a key at `path` may sign from now on, and the right to do so, which nobody else has as long
    /// as it lives. No right if keys have no slots, if nothing there says so, or if what does is not to be
    /// trusted and a `floor` is given; then the slot is what is known all the same.
    fn hold(
        &self,
        key: &Self::SecretKey,
        path: &Path,
        floor: Option<u64>,
    ) -> Result<(Option<u64>, Option<FileWatermark>)> {
        Self::marked(key).map_or(Ok((None, None)), |key| marks::hold(key, path, floor))
    }

    /// The key has another place, and signs there from `floor` on. Takes the right away from the old
    /// place, or says where nothing is known that the key signed below; returns the floor that holds.
    fn hand_over(
        &self,
        key: &Self::SecretKey,
        held: Option<FileWatermark>,
        floor: u64,
    ) -> Result<u64> {
        Self::marked(key).map_or(Ok(floor), |key| marks::hand_over(key, held, floor))
    }

    /// What lies beside a key says of it.
    fn describe_beside(path: &Path) -> Map<String, Value> {
        match Self::SLOTS {
            Some(_) => marks::describe(path),
            None => Map::new(),
        }
    }

    /// Checks all that could refuse a signature and takes nothing away. Of keys that sign once in
    /// each slot: the slot is free, and stays so for this process as long as the result lives.
    fn prepare(&self, key: &Self::SecretKey, what: &ToSign<'_>) -> Result<Self::Prepared>;

    /// Signs in constant time. A slot is used up for good before the signature is returned.
    fn sign(
        &self,
        key: &Self::SecretKey,
        prepared: Self::Prepared,
        what: &ToSign<'_>,
    ) -> Result<Vec<u8>>;

    /// Decodes public keys; names the first that is none.
    fn decode_keys(&self, encoded: &[&[u8]]) -> std::result::Result<Vec<Self::Key>, Refusal>;

    /// As [`FileScheme::decode_keys`], and every proof of possession holds, where the scheme has them.
    fn decode_proven(
        &self,
        encoded: &[(&[u8], &[u8])],
    ) -> std::result::Result<Vec<Self::Key>, Refusal> {
        let keys: Vec<&[u8]> = encoded.iter().map(|(key, _)| *key).collect();
        self.decode_keys(&keys)
    }

    /// The evidence of an aggregate from one signature or evidence of each part, in the order of
    /// the signers: a list of them, where they are not added. `None` if they cancel, which no honest ones do.
    fn combine(&self, parts: &[&[u8]]) -> std::result::Result<Option<Vec<u8>>, Refusal> {
        let mut evidence = vec![TAG_LIST];
        evidence.extend(parts.concat());
        Ok(Some(evidence))
    }

    /// The evidence of a proof that all signatures exist. They hold: who calls this verified them.
    fn prove(&self, _what: &ToProve<'_, Self::Key>) -> Result<Vec<u8>> {
        Err(anyhow!("--form proof: {} has no proofs", Self::NAME).into())
    }

    /// The evidence of a proof that proofs hold, all of which are verified.
    fn merge_proofs(&self, _what: &ToMerge<'_, Self::Key>) -> Result<Vec<u8>> {
        Err(anyhow!("proofs of {} do not merge", Self::NAME).into())
    }

    /// Decides each claim exactly as if it were alone; `Err` says what is wrong. `groups` are the
    /// lists of keys that claims name.
    fn verify(
        &self,
        groups: &[Vec<Self::Key>],
        claims: &[Claim<'_, Self::Key>],
    ) -> Result<Vec<std::result::Result<(), String>>>;

    /// Decides whether one proof holds for all entries of a bundle; entries name groups.
    fn verify_bundle(
        &self,
        _groups: &[Vec<Self::Key>],
        _entries: &[(usize, Entry)],
        _proof: &[u8],
    ) -> std::result::Result<(), String> {
        Err(format!("{} has no bundles", Self::NAME))
    }
}
