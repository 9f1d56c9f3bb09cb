//! XMSS in files: next to a key are its tree, which saves time, and its mark, which it needs.
//!
//! `key.json` holds the secret, `key.tree` the upper nodes of the key's tree, and `key.mark` the first
//! free slot. A lost tree is rebuilt; without its mark, or with an outdated one, a key does not sign.

use super::input::Opened;
use super::keystore::About;
use super::marks::{Marked, asked, beside, ready, reserve};
use super::output::{Access, Staged};
use super::scheme::{
    FileScheme, Form, ProofLimits, PublicHalf, SlotLimits, SlotRanges, decode_each,
};
use super::secret::Secret;
use super::statement::{Claim, Entry, Refusal, ToMerge, ToProve, ToSign, in_slots};
use super::xmss_proof::{Verifier, merge, prove, verify_bundle};
use super::{FileOptions, Proofs};
use crate::error::{Error, Result};
use crate::options::pool;
use crate::progress::Bars;
use alphorn_exec::{Backend, Exec};
use alphorn_lab::proof::{PresetName, proofs};
use alphorn_scheme::list;
use alphorn_xmss::{
    COMMITTEE_MAX, EVIDENCE_BYTES_MAX, FILE_INDICES_MAX, FileWatermark, Item, Params, PublicKey,
    Purpose, SECRET_FILE_BYTES, SecretKey, Set, Signature, TREE_FILE_BYTES_MAX, verify,
    verify_batch,
};
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

/// A parameter set as a type, since file sizes are constants of a scheme.
pub(super) trait SetType {
    const SET: Set;
    const NAME: &'static str;
}

/// The compact set.
pub(super) struct CompactSet;
/// The production set.
pub(super) struct ProdSet;
/// The test set.
pub(super) struct TestSet;

impl SetType for CompactSet {
    const SET: Set = Set::Compact;
    const NAME: &'static str = "xmss-compact";
}

impl SetType for ProdSet {
    const SET: Set = Set::Prod;
    const NAME: &'static str = "xmss-prod";
}

impl SetType for TestSet {
    const SET: Set = Set::Test;
    const NAME: &'static str = "xmss-test";
}

/// The scheme of a set with its threads.
pub(super) struct Xmss<P> {
    pool: rayon::ThreadPool,
    kernel: Backend,
    preset: PresetName,
    set: PhantomData<P>,
}

impl<P: SetType> Xmss<P> {
    const PARAMS: &'static Params = P::SET.params();

    fn exec(&self) -> Exec<'_> {
        Exec::new(self.kernel, Some(&self.pool))
    }

    /// Builds the scheme with this many threads.
    pub(super) fn with_threads(threads: usize, kernel: Backend) -> Result<Self> {
        Ok(Xmss {
            pool: pool(threads)?,
            kernel,
            preset: PresetName::Fast,
            set: PhantomData,
        })
    }

    /// Generates a key from the operating system's random generator, active at some indices.
    fn new_key(
        &self,
        purpose: Purpose,
        indices: Range<u64>,
        bars: &mut Bars,
    ) -> Result<(Secret, SecretKey)> {
        let random = Secret::random(32)?;
        let seed = random.bytes().try_into().context("a seed of 32 bytes")?;
        let total = indices.end - indices.start;
        let key = Self::shown(bars, total, |progress| {
            SecretKey::generate(P::SET, purpose, seed, indices, self.exec(), progress)
        })?;
        Ok((secret_of(&key), key))
    }

    /// Runs something that builds a tree, and shows its progress.
    fn shown<T>(bars: &mut Bars, total: u64, make: impl FnOnce(&(dyn Fn(u64) + Sync)) -> T) -> T {
        let bars = Mutex::new(bars);
        make(&|done| {
            if let Ok(mut bars) = bars.lock() {
                bars.show("indices of the key", done, total);
            }
        })
    }

    /// Returns the signatures that a claim needs, or why it does not hold.
    fn singles<'a>(
        groups: &'a [Vec<PublicKey>],
        claim: &'a Claim<'_, PublicKey>,
    ) -> std::result::Result<Vec<Wanted<'a>>, String> {
        let wanted = |key: &'a PublicKey, slot: Option<u64>, message: &'a [u8], bytes: &[u8]| {
            let slot = slot.ok_or("no slot")?;
            let end = Self::PARAMS.lifetime();
            let index = u32::try_from(slot).ok().filter(|_| slot < end);
            let signature = Signature::from_bytes(P::SET, bytes);
            Ok(Wanted {
                key,
                index: index.ok_or_else(|| format!("slot {slot}: must be below {end}"))?,
                message: message
                    .try_into()
                    .map_err(|_| "a message of another length")?,
                signature: signature.map_err(|error| format!("the signature: {error}"))?,
            })
        };
        match claim {
            Claim::Single {
                key,
                slot,
                message,
                signature,
            } => Ok(vec![wanted(key, *slot, message, signature)?]),
            Claim::Group {
                group,
                support,
                slot,
                message,
                evidence,
            } => {
                let each = Self::PARAMS.signature_bytes;
                let signatures = list::split(evidence, support.signer_count(), each)
                    .map_err(|error| error.to_string())?;
                let signers = support.iter().zip(signatures);
                let wanted = signers.map(|((position, _), bytes)| {
                    wanted(&groups[*group][position], *slot, message, bytes)
                        .map_err(|error: String| format!("signer {position}: {error}"))
                });
                wanted.collect()
            }
        }
    }
}

/// A signature to be verified.
struct Wanted<'a> {
    key: &'a PublicKey,
    index: u32,
    message: &'a [u8; 32],
    signature: Signature,
}

impl Wanted<'_> {
    fn item(&self) -> Item<'_> {
        Item {
            key: self.key,
            index: self.index,
            message: self.message,
            signature: &self.signature,
        }
    }
}

impl<P: SetType> FileScheme for Xmss<P> {
    const NAME: &'static str = P::NAME;
    const SECRET_BYTES: usize = SECRET_FILE_BYTES;
    const PUBLIC_KEY_BYTES: usize = Self::PARAMS.public_key_bytes;
    const POSSESSION_BYTES: usize = 0;
    const SIGNATURE_BYTES: usize = Self::PARAMS.signature_bytes;
    const MESSAGE_BYTES: Option<usize> = Some(32);
    const FORM: Form = Form::List;
    const MULTIPLICITY_MAX: u8 = 1;
    const SIGNERS_MAX: usize = COMMITTEE_MAX as usize;
    const SLOTS: Option<SlotLimits> = Some(SlotLimits {
        end: 1 << Self::PARAMS.log2_lifetime,
        ranges: Some(SlotRanges {
            key_max: FILE_INDICES_MAX,
            interop_max: 1 << 20,
            key_default: 1 << 17,
            interop_default: 64,
        }),
    });

    const PROOFS: Option<ProofLimits> = Some(ProofLimits {
        beside_bytes: 0,
        proof_bytes_max: EVIDENCE_BYTES_MAX,
    });

    const MERGES: bool = true;
    const DUTY_KEYS: bool = true;

    type Key = PublicKey;
    type SecretKey = SecretKey;
    type Prepared = FileWatermark;

    fn open(options: &FileOptions, proofs: Proofs) -> Result<Self> {
        Ok(Xmss {
            pool: pool(options.threads())?,
            kernel: alphorn_stark::KERNELS.measured(),
            preset: proofs.preset.preset(),
            set: PhantomData,
        })
    }

    fn kernels(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([("stark", self.kernel.name().to_owned())])
    }

    fn generate(&self, slots: Option<Range<u64>>, bars: &mut Bars) -> Result<(Secret, SecretKey)> {
        let slots = slots.context("a key has slots")?;
        self.new_key(Purpose::Vote, slots, bars)
    }

    fn generate_duty(
        &self,
        slots: Option<Range<u64>>,
        bars: &mut Bars,
    ) -> Result<(Secret, SecretKey)> {
        let slots = slots.context("a key has slots")?;
        let (per, max) = (Purpose::Duty.indices_per_slot(), FILE_INDICES_MAX);
        let indices = slots.start * per..slots.end * per;
        let (count, max) = (slots.end - slots.start, max / per);
        if count > max {
            return Err(anyhow!("--duties: --slots {count}: allowed are 1 to {max}").into());
        }
        self.new_key(Purpose::Duty, indices, bars)
    }

    fn interop(&self, index: u32, slots: Option<Range<u64>>) -> Result<(Secret, SecretKey)> {
        let slots = slots.context("a key has slots")?;
        let key = SecretKey::interop(P::SET, Purpose::Vote, index, slots, self.exec())?;
        Ok((secret_of(&key), key))
    }

    fn secret_key(&self, secret: &Secret, path: &Path, bars: &mut Bars) -> Result<SecretKey> {
        let tree = beside(path, "tree");
        let key = if tree.exists() {
            let opened = Opened::read(&tree, TREE_FILE_BYTES_MAX)?;
            let key = SecretKey::from_files(&opened.bytes, secret.bytes(), self.kernel);
            key.with_context(|| format!("{}: if it is removed, it is made again", tree.display()))?
        } else {
            let key = Self::shown(bars, 0, |progress| {
                SecretKey::from_secret_file(secret.bytes(), self.exec(), progress)
            });
            key.context("not a secret key of XMSS")?
        };
        let set = key.public_key().set();
        match set == P::SET {
            true => Ok(key),
            false => Err(anyhow!("a key of the set {set}, --set is {}", P::SET).into()),
        }
    }

    fn signs_duties(key: &SecretKey) -> bool {
        key.purpose() == Purpose::Duty
    }

    fn public_half(&self, key: &SecretKey) -> PublicHalf {
        PublicHalf {
            public_key: key.public_key().to_bytes(),
            possession: Vec::new(),
        }
    }

    fn about(key: &SecretKey) -> About {
        About {
            description: Some(format!(
                "{}{}, {}",
                P::NAME,
                match key.purpose() {
                    Purpose::Vote => "",
                    Purpose::Duty => " for duties",
                },
                in_slots(&key.slots())
            )),
            ..About::default()
        }
    }

    fn marked(key: &SecretKey) -> Option<&dyn Marked> {
        Some(key)
    }

    fn add_beside(key: &SecretKey, path: &Path, staged: &mut Staged) -> Result<()> {
        let tree = path.with_extension("tree");
        staged.add(&tree, Access::Public, &key.to_tree_file())
    }

    fn prepare(&self, key: &SecretKey, what: &ToSign<'_>) -> Result<FileWatermark> {
        let (slot, _) = asked(what)?;
        let path = what.path.display();
        if key.purpose() != Purpose::Vote {
            return Err(anyhow!("{path}: a key for duties, not for votes").into());
        }
        let active = key.active();
        if !active.contains(&slot) {
            let active = in_slots(&active);
            return Err(anyhow!("{path}: slot {slot}: the key signs in {active}").into());
        }
        let store = ready(key, what)?;
        key.warm(slot, self.exec())?;
        Ok(store)
    }

    fn sign(&self, key: &SecretKey, store: FileWatermark, what: &ToSign<'_>) -> Result<Vec<u8>> {
        let (slot, message) = asked(what)?;
        let path = what.path.display();
        let permit = reserve(&store, what)?;
        let signature = key.sign(permit, self.exec())?;
        let item = Item {
            key: key.public_key(),
            index: slot as u32,
            message,
            signature: &signature,
        };
        if !verify(item, self.kernel) {
            let tree = beside(what.path, "tree");
            let tree = tree.display();
            return Err(Error::Check(format!(
                "{path}: the signature does not hold, {tree} is damaged; if it is removed, it is \
                 made again"
            )));
        }
        Ok(signature.to_bytes())
    }

    fn decode_keys(&self, encoded: &[&[u8]]) -> std::result::Result<Vec<PublicKey>, Refusal> {
        decode_each(encoded, |bytes| PublicKey::from_bytes(P::SET, bytes))
    }

    fn merge_proofs(&self, what: &ToMerge<'_, PublicKey>) -> Result<Vec<u8>> {
        merge(P::SET, self.exec(), what)
    }

    fn prove(&self, what: &ToProve<'_, PublicKey>) -> Result<Vec<u8>> {
        prove(&proofs(P::SET, self.preset), self.exec(), what)
    }

    fn verify(
        &self,
        groups: &[Vec<PublicKey>],
        claims: &[Claim<'_, PublicKey>],
    ) -> Result<Vec<std::result::Result<(), String>>> {
        let mut verifier = Verifier {
            set: P::SET,
            exec: self.exec(),
            registry: None,
        };
        let mut decide = |claim: &Claim<'_, PublicKey>| {
            if let Claim::Group {
                group,
                support,
                slot,
                message,
                evidence,
            } = claim
                && evidence.first() != Some(&list::TAG_LIST)
            {
                let keys = &groups[*group];
                return verifier.verify(*group, keys, support, *slot, message, evidence);
            }
            let wanted = Self::singles(groups, claim)?;
            let items: Vec<Item<'_>> = wanted.iter().map(Wanted::item).collect();
            let verdicts = verify_batch(P::SET, &items, self.exec());
            match (verdicts.iter().position(|holds| !holds), claim) {
                (None, _) => Ok(()),
                (Some(_), Claim::Single { .. }) => Err("the signature does not verify".to_owned()),
                (Some(bad), Claim::Group { support, .. }) => {
                    let position = support
                        .iter()
                        .nth(bad)
                        .map_or(bad, |(position, _)| position);
                    Err(format!(
                        "the signature of signer {position} does not verify"
                    ))
                }
            }
        };
        Ok(claims.iter().map(&mut decide).collect())
    }

    fn verify_bundle(
        &self,
        groups: &[Vec<PublicKey>],
        entries: &[(usize, Entry)],
        proof: &[u8],
    ) -> std::result::Result<(), String> {
        verify_bundle(P::SET, self.exec(), groups, entries, proof)
    }
}

fn secret_of(key: &SecretKey) -> Secret {
    Secret::new(std::mem::take(&mut *key.to_secret_file()))
}
