//! One proof for many signatures.
#![doc = include_str!("LECTURE.md")]

use std::ops::Range;
use std::sync::Arc;

use alphorn_exec::{Backend, Exec, Stopped, keccak};
use alphorn_labrador::ring::Small;
use alphorn_labrador::schedule::{ParamError, Projections, PublicBounds, Schedule};
use alphorn_labrador::sis::Profile;
use alphorn_labrador::{
    Columns, Invalid, Keys, ProveError, Reject, Relation, StatementError, System, Targets,
};
use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};
use thiserror::Error;

use crate::hash::{self, Hashed};
use crate::key::KeyForm;
use crate::plain::{Refused, open_batch};
use crate::ring::LANES;
use crate::{DEGREE, Flavour, Item, MODULUS, Parameters, PublicKey, SALT_BYTES};

/// Maximum number of signatures per proof, of either degree.
pub const SIGNATURES_MAX: usize = alphorn_labrador::columns::COLUMNS_MAX;

/// Number of signatures from which preset `fast` has one, and two, levels with a block projection after the
/// first. With fewer, the levels are so short that a block projection costs bytes and saves nothing.
const BLOCKS_FROM: [usize; 2] = [512, 1000];

/// Parts of a dense projection under preset `fast`: each additional part costs 0.4 kB per level.
const PARTS: usize = 2;

/// Which of two costs a proof saves; a verifier must know the preset. Both prove the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// Verification time: dense projections are made in two parts, and with many signatures the second and the third
    /// level have a block projection.
    #[default]
    Fast,
    /// Size in bytes.
    Small,
}

impl Preset {
    /// Both presets, starting with the default.
    pub const ALL: [Self; 2] = [Self::Fast, Self::Small];

    /// The name on the command line and in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Small => "small",
        }
    }

    /// Returns the parameters of a proof of this many signatures of Falcon-512.
    ///
    /// # Errors
    /// If there are none.
    pub fn schedule(self, signatures: usize, profile: Profile) -> Result<Schedule, AggregateError> {
        self.schedule_of(DEGREE, signatures, profile)
    }

    /// The same for signatures of a degree.
    ///
    /// # Errors
    /// If there are none.
    ///
    /// # Panics
    /// If the degree is neither 512 nor 1024.
    pub fn schedule_of(
        self,
        degree: usize,
        signatures: usize,
        profile: Profile,
    ) -> Result<Schedule, AggregateError> {
        let bounds = self.bounds(degree, signatures, profile)?;
        Ok(Schedule::derive(&bounds)?)
    }

    fn bounds(
        self,
        degree: usize,
        signatures: usize,
        profile: Profile,
    ) -> Result<PublicBounds, StatementError> {
        let norm_sq = Parameters::of(degree).norm_sq_max;
        let projections = self.projections(signatures);
        Columns::bounds_for(signatures, degree, norm_sq, profile, projections)
    }

    /// Returns how the levels of a proof show that their witnesses are short.
    fn projections(self, signatures: usize) -> Projections {
        let blocks = BLOCKS_FROM.iter().filter(|&&from| signatures >= from);
        match self {
            Self::Fast => Projections {
                block_levels: blocks.count(),
                parts: PARTS,
            },
            Self::Small => Projections::SMALLEST,
        }
    }
}

/// What a proof states about one signature, apart from its existence.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a, const N: usize = DEGREE> {
    /// The signer's key.
    pub key: &'a PublicKey<N>,
    /// The signed message; in flavour `slot` the bytes of [`crate::slot::signed_bytes`].
    pub message: &'a [u8],
    /// The salt of the signature, if the flavour sends one. It is part of the statement, since it decides
    /// the hash.
    pub salt: Option<&'a [u8; SALT_BYTES]>,
}

/// The salts of several signatures, if the flavour sends salts.
pub(crate) type Salts<'a> = Vec<Option<&'a [u8; SALT_BYTES]>>;

/// Splits off the salts of this many signatures of a flavour, which precede a proof, and returns them with the rest.
/// None if the bytes are too short.
#[must_use]
pub fn split_salts(
    flavour: Flavour,
    signatures: usize,
    bytes: &[u8],
) -> Option<(Salts<'_>, &[u8])> {
    let sent = signatures.checked_mul(flavour.salt_bytes())?;
    let (salts, proof) = bytes.split_at_checked(sent)?;
    // Empty where the flavour sends none: then every entry is None.
    let salts = salts.as_chunks().0;
    Some(((0..signatures).map(|i| salts.get(i)).collect(), proof))
}

/// Reason why there is no aggregate, or why it is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AggregateError {
    /// The signatures include a key of another flavour.
    #[error("signature {index} is of flavour {found}, the first is of flavour {expected}")]
    Flavours {
        /// The first signature of another flavour.
        index: usize,
        /// The flavour of that signature.
        found: &'static str,
        /// The flavour of the first signature.
        expected: &'static str,
    },
    /// There is a salt where the flavour sends none, or no salt where it sends one.
    #[error(
        "signature {index} of flavour {flavour} has {found} bytes of salt instead of {expected}"
    )]
    Salt {
        /// Index of the signature.
        index: usize,
        /// Flavour of the signature.
        flavour: &'static str,
        /// Bytes of salt given.
        found: usize,
        /// Bytes of salt that signatures of the flavour have.
        expected: usize,
    },
    /// The number of signatures differs from the one that the aggregator was made for.
    #[error("{signatures} signatures, the aggregator is for {expected}")]
    Count {
        /// Signatures given.
        signatures: usize,
        /// Signatures of the aggregator.
        expected: usize,
    },
    /// A signature is not valid by itself.
    #[error("signature {index} is not valid: {reason}")]
    Invalid {
        /// Index of the signature.
        index: usize,
        /// Reason for the refusal.
        reason: Refused,
    },
    /// Signatures are valid but cannot be part of a proof: `(s1 + s2 h - c) / q` is too long, which never happens
    /// with an honest key. The other signatures can be proven.
    #[error(
        "signatures {indices:?} are valid, but the quotients of their relations are too long to be proven"
    )]
    Unprovable {
        /// All of their indices, ascending.
        indices: Vec<usize>,
    },
    /// There are no parameters for this many signatures.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// There are no parameters for this many signatures.
    #[error(transparent)]
    Parameters(#[from] ParamError),
    /// The prover failed.
    #[error(transparent)]
    Prove(#[from] ProveError),
    /// The verifier rejects.
    #[error(transparent)]
    Reject(#[from] Reject),
    /// Stopped because the result is no longer needed.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Parameters and commitment keys for proofs over a fixed number of signatures, of degree 512 or 1024.
pub struct Aggregator<const N: usize = DEGREE> {
    preset: Preset,
    system: System,
    signatures: usize,
    profile: Profile,
    backend: Backend,
}

impl<const N: usize> Aggregator<N> {
    /// Creates an aggregator for proofs over `signatures` signatures, 1 to [`SIGNATURES_MAX`].
    ///
    /// # Errors
    /// If there are no parameters for this many.
    pub fn new(
        signatures: usize,
        profile: Profile,
        backend: Backend,
    ) -> Result<Self, AggregateError> {
        Self::with_preset(Preset::default(), signatures, profile, backend)
    }

    /// Creates an aggregator for proofs of a preset.
    ///
    /// # Errors
    /// If there are no parameters for this many.
    pub fn with_preset(
        preset: Preset,
        signatures: usize,
        profile: Profile,
        backend: Backend,
    ) -> Result<Self, AggregateError> {
        Self::make(preset, signatures, profile, backend, None)
    }

    /// Creates an aggregator for proofs of the default preset, over these commitment keys if they are long enough.
    ///
    /// # Errors
    /// If there are no parameters for this many.
    pub(crate) fn with_keys(
        signatures: usize,
        profile: Profile,
        backend: Backend,
        keys: &Arc<Keys>,
    ) -> Result<Self, AggregateError> {
        Self::make(Preset::default(), signatures, profile, backend, Some(keys))
    }

    fn make(
        preset: Preset,
        signatures: usize,
        profile: Profile,
        backend: Backend,
        keys: Option<&Arc<Keys>>,
    ) -> Result<Self, AggregateError> {
        let bounds = preset.bounds(N, signatures, profile)?;
        let schedule = Schedule::derive(&bounds)?;
        // Longer keys begin with the elements of shorter ones, so both choices make the same proofs.
        let keys = match keys.filter(|keys| keys.serve(&schedule)) {
            Some(keys) => keys.clone(),
            None => Arc::new(Keys::expand(&schedule, backend)),
        };
        Ok(Self {
            preset,
            system: System::with_keys(&bounds, schedule, keys),
            signatures,
            profile,
            backend,
        })
    }

    /// Runs on the calling thread, with the kernel that the aggregator was made for.
    fn serial(&self) -> Exec<'static> {
        Exec::new(self.backend, None)
    }

    /// Returns the commitment keys.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> &Arc<Keys> {
        self.system.keys()
    }

    /// Returns the parameters of the proofs.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        self.system.schedule()
    }

    /// Verifies every signature plainly and proves that they exist. Returns the salts in order, none if the
    /// flavour sends none, and the proof. `context` is bound to the proof, and the verifier must know it.
    ///
    /// # Errors
    /// The first signature that is not valid, all signatures that cannot be part of a proof, or the reason why there
    /// is no proof.
    pub fn prove(
        &self,
        items: &[Item<'_, N>],
        context: &[u8],
    ) -> Result<(Vec<[u8; SALT_BYTES]>, Vec<u8>), AggregateError> {
        self.prove_on(items, context, self.serial())
    }

    /// Proves as [`Aggregator::prove`] does, on the kernel and threads of `exec`. The number of threads does not
    /// change the proof.
    ///
    /// # Errors
    /// Those of [`Aggregator::prove`], or that `exec` is stopped.
    pub fn prove_on(
        &self,
        items: &[Item<'_, N>],
        context: &[u8],
        exec: Exec<'_>,
    ) -> Result<(Vec<[u8; SALT_BYTES]>, Vec<u8>), AggregateError> {
        exec.step("plain verification")?;
        let parts = exec.try_map(items.len().div_ceil(LANES), |tile| {
            let rest = &items[tile * LANES..];
            open_batch(&rest[..rest.len().min(LANES)], exec.backend())
        })?;
        let mut salts = Vec::with_capacity(items.len());
        let mut targets = Vec::with_capacity(items.len());
        let mut witness = Vec::with_capacity(items.len() * 2 * N / alphorn_labrador::ring::DEGREE);
        for (index, opened) in parts.into_iter().flatten().enumerate() {
            let opened = opened.map_err(|reason| AggregateError::Invalid { index, reason })?;
            for part in [&opened.s1, &opened.s2] {
                witness.extend(part.as_chunks().0.iter().map(|&c| Small(c)));
            }
            salts.push(opened.salt);
            targets.push(opened.target);
        }
        let signed: Vec<Signed<'_, N>> = (items.iter().zip(&salts))
            .map(|(item, salt)| Signed {
                key: item.key,
                message: item.message,
                salt: salt.as_ref(),
            })
            .collect();
        let flavour = self.flavour(&signed)?;
        let targets = targets.iter().map(|target| &target[..]).collect();
        let relation = relation(&signed, Targets::Given(targets), exec)?;
        exec.step("digest of the statement")?;
        let digest = digest(flavour, &hashed(&signed), context, exec)?;
        let statement = self.statement(&relation, digest)?;
        // Nothing is left to check: s1 was computed from key, target and s2, and its norm was compared.
        let proof = self.system.prove_unchecked_on(&statement, &witness, exec);
        let proof = proof.map_err(|error| match error {
            ProveError::Witness(Invalid::Quotients { columns, .. }) => {
                AggregateError::Unprovable { indices: columns }
            }
            error => AggregateError::Prove(error),
        })?;
        Ok((salts.into_iter().flatten().collect(), proof))
    }

    /// Verifies a proof that each key signed its message with its salt.
    ///
    /// # Errors
    /// [`AggregateError::Reject`] with the check that fails; all other errors concern the statement
    /// itself.
    pub fn verify(
        &self,
        signed: &[Signed<'_, N>],
        context: &[u8],
        proof: &[u8],
    ) -> Result<(), AggregateError> {
        self.verify_on(signed, context, proof, self.serial())
    }

    /// Verifies as [`Aggregator::verify`] does, on the kernel and threads of `exec`.
    ///
    /// # Errors
    /// Those of [`Aggregator::verify`], or that `exec` is stopped.
    pub fn verify_on(
        &self,
        signed: &[Signed<'_, N>],
        context: &[u8],
        proof: &[u8],
        exec: Exec<'_>,
    ) -> Result<(), AggregateError> {
        let flavour = self.flavour(signed)?;
        // Checked before keys and messages are hashed, so that bytes that are no proof do not cost that work.
        self.system.check_frame(proof)?;
        exec.enter(|| {
            // Made when they are read: a verifier needs each target once, and 10,000 of them are 10 MB.
            let targets = |columns: Range<usize>| targets(&signed[columns], exec.backend());
            let relation = relation(signed, Targets::Made(&targets), exec)?;
            exec.step("digest of the statement")?;
            let digest = digest(flavour, &hashed(signed), context, exec)?;
            let statement = self.statement(&relation, digest)?;
            Ok(self.system.verify_on(&statement, proof, exec)?)
        })
    }

    /// Returns the common flavour of the signatures. Checks that there are as many as the proof covers, each with a
    /// salt if the flavour sends one.
    fn flavour(&self, signed: &[Signed<'_, N>]) -> Result<Flavour, AggregateError> {
        let expected = self.signatures;
        if signed.len() != expected {
            let signatures = signed.len();
            return Err(AggregateError::Count {
                signatures,
                expected,
            });
        }
        let flavour = signed
            .first()
            .map_or(Flavour::default(), |s| s.key.flavour());
        // The digest names one flavour for all signatures.
        let other = signed.iter().position(|s| s.key.flavour() != flavour);
        if let Some(index) = other {
            return Err(AggregateError::Flavours {
                index,
                found: signed[index].key.flavour().name(),
                expected: flavour.name(),
            });
        }
        let salted = |s: &Signed<'_, N>| s.salt.is_some() == flavour.is_salted();
        if let Some(index) = signed.iter().position(|s| !salted(s)) {
            return Err(AggregateError::Salt {
                index,
                flavour: flavour.name(),
                found: signed[index].salt.map_or(0, |salt| salt.len()),
                expected: flavour.salt_bytes(),
            });
        }
        Ok(flavour)
    }

    /// Returns the statement of a relation. `digest` binds everything public.
    fn statement<'a>(
        &self,
        relation: &'a Relation<'a>,
        digest: Vec<u8>,
    ) -> Result<Columns<'a>, StatementError> {
        let projections = self.preset.projections(self.signatures);
        let norm_sq = const { Parameters::of(N) }.norm_sq_max;
        Columns::new(norm_sq, self.profile, projections, relation, digest)
    }
}

fn hashed<'a, const N: usize>(signed: &[Signed<'a, N>]) -> Vec<Hashed<'a>> {
    let each = |signed: &Signed<'a, N>| Hashed::new(signed.key, signed.salt, signed.message);
    signed.iter().map(each).collect()
}

/// Returns the hashed messages, centred, one after another.
fn targets<const N: usize>(signed: &[Signed<'_, N>], backend: Backend) -> Vec<i16> {
    hash::targets(N, &hashed(signed), backend)
}

/// Returns the relation `s1 + s2 h = c` modulo `q` of signatures with these hashed messages.
fn relation<'a, const N: usize>(
    signed: &[Signed<'a, N>],
    targets: Targets<'a>,
    exec: Exec<'_>,
) -> Result<Relation<'a>, AggregateError> {
    let keys: Vec<&PublicKey<N>> = signed.iter().map(|s| s.key).collect();
    PublicKey::prepare(&keys, KeyForm::Coefficients, exec)?;
    let keys = keys.iter().map(|key| &key.coefficients()[..]).collect();
    Ok(Relation::of_centred(N, u64::from(MODULUS), keys, targets)?)
}

/// Signatures per run. The bytes of a run are hashed sequentially, in parallel with seven other runs.
const RUN: usize = 16;

/// Returns SHAKE256 of flavour, context and the digests of all runs. The digest of a run is SHAKE256 of the keys,
/// salts and messages of [`RUN`] signatures in order; the last run may have fewer. Each part is prefixed with its
/// length. A salt that is not sent has length 0, since it is derived from key and message alone.
fn digest(
    flavour: Flavour,
    signed: &[Hashed<'_>],
    context: &[u8],
    exec: Exec<'_>,
) -> Result<Vec<u8>, Stopped> {
    // One run for each lane of the hash.
    let batches = exec.try_map(signed.len().div_ceil(RUN * keccak::LANES), |batch| {
        let rest = &signed[batch * RUN * keccak::LANES..];
        let batch = &rest[..rest.len().min(RUN * keccak::LANES)];
        let runs: Vec<Vec<u8>> = batch.chunks(RUN).map(encoded).collect();
        let runs: Vec<&[u8]> = runs.iter().map(|run| &run[..]).collect();
        hash::digests(&runs, exec.backend())
    })?;
    let digests: Vec<u8> = batches.iter().flatten().flatten().copied().collect();
    let mut hash = Shake256::default();
    // Lengths precede the parts, so that no byte can move from one part to the next.
    let mut part = |data: &[u8]| {
        hash.update(&(data.len() as u64).to_le_bytes());
        hash.update(data);
    };
    part(b"alphorn/falcon/aggregate/v2");
    part(&[flavour.id()]);
    part(context);
    part(&(signed.len() as u64).to_le_bytes());
    part(&digests);
    let mut out = vec![0; 64];
    hash.finalize_xof().read(&mut out);
    Ok(out)
}

/// Returns the bytes that are hashed for a run.
fn encoded(run: &[Hashed<'_>]) -> Vec<u8> {
    let each = 3 * 8 + 64 + SALT_BYTES;
    let messages: usize = run.iter().map(|signed| signed.message.len()).sum();
    let mut out = Vec::with_capacity(64 + run.len() * each + messages);
    // The label is constant and needs no length.
    out.extend(b"alphorn/falcon/aggregate/run/v2");
    for signed in run {
        let salt = signed.salt.map_or(&[][..], |salt| salt);
        // The digest stands for the key: it is known already, and much shorter.
        for part in [&signed.digest[..], salt, signed.message] {
            out.extend((part.len() as u64).to_le_bytes());
            out.extend(part);
        }
    }
    out
}

#[cfg(test)]
mod tests;
