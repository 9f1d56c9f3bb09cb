//! What the service does: jobs over registries.

use crate::registry::{Digest, Known, Registry, proofs};
use alphorn_exec::{Backend, Exec};
use alphorn_scheme::TaskError;
use alphorn_scheme::list::TAG_MERGE;
use alphorn_types::Bitfield;
use alphorn_xmss::{
    BundleEntry, Claimed, Item, ProofRegistry, Proofs, ProveError, Set, Signature, Signed,
    preset_of_evidence, verify_batch,
};
use axum::body::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Maximum number of proofs in one job.
pub(crate) const ENTRIES_MAX: usize = 256;

/// The signed statement, and the registry whose members signed it.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) registry: Arc<Registry>,
    /// The slot, which is the one-time index of the signatures.
    pub(crate) slot: u32,
    pub(crate) message: [u8; 32],
}

/// Signatures over one message.
#[derive(Clone, Debug)]
pub(crate) struct Votes {
    pub(crate) about: About,
    /// The signers, as members of the registry.
    pub(crate) participants: Bitfield,
    /// Their signatures in this order, concatenated.
    pub(crate) signatures: Bytes,
}

/// A proof with its statement.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) about: About,
    pub(crate) participants: Bitfield,
    /// Empty for an entry of a bundle, which has one proof for all entries.
    pub(crate) proof: Bytes,
}

/// The kinds of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Prove,
    Merge,
    Bundle,
    Split,
    VerifySignatures,
    Verify,
    VerifyBundle,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] = [
        Kind::Prove,
        Kind::Merge,
        Kind::Bundle,
        Kind::Split,
        Kind::VerifySignatures,
        Kind::Verify,
        Kind::VerifyBundle,
    ];

    /// Returns the name in paths.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Prove => "prove",
            Kind::Merge => "merge",
            Kind::Bundle => "bundle",
            Kind::Split => "split",
            Kind::VerifySignatures => "verify-signatures",
            Kind::Verify => "verify",
            Kind::VerifyBundle => "verify-bundle",
        }
    }
}

/// The requested work.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// One proof that all of these signed.
    Prove(Votes),
    /// One proof for the union of the signers of several proofs over one message.
    Merge(Vec<Entry>),
    /// One proof that combines proofs over several messages.
    Bundle(Vec<Entry>),
    /// One entry of a bundle as a separate proof.
    Split {
        entries: Vec<Entry>,
        proof: Bytes,
        kept: usize,
    },
    /// Which signatures are invalid.
    VerifySignatures(Votes),
    /// Which proofs are valid.
    Verify(Vec<Entry>),
    /// Whether a bundle is valid.
    VerifyBundle { entries: Vec<Entry>, proof: Bytes },
}

/// A job of the service.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) work: Work,
    /// Whether the first inputs alone are useful if all of them take too long.
    pub(crate) cut: bool,
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// The bytes of a proof.
    Proof(Vec<u8>),
    /// For each proof the reason it is rejected, none if it is valid.
    Verdicts(Vec<Option<String>>),
    /// The invalid signatures, by index, and why.
    Bad(Vec<(usize, String)>),
}

/// What jobs need in addition to their inputs.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) backend: Backend,
    pub(crate) known: Known,
    /// The sets whose circuits are built, one bit each.
    circuits: AtomicU8,
}

impl Env {
    pub(crate) fn new(backend: Backend) -> Env {
        Env {
            backend,
            known: Known::default(),
            circuits: AtomicU8::new(0),
        }
    }

    /// Whether the merge circuits of a set are built in this process.
    pub(crate) fn has_circuits(&self, set: Set) -> bool {
        self.circuits.load(Ordering::Relaxed) >> set as u8 & 1 == 1
    }

    /// Records that they are.
    pub(crate) fn note_circuits(&self, set: Set) {
        self.circuits.fetch_or(1 << set as u8, Ordering::Relaxed);
    }
}

impl Votes {
    pub(crate) fn set(&self) -> Set {
        self.about.registry.set
    }

    pub(crate) fn len(&self) -> usize {
        self.participants.count_ones()
    }

    /// Returns the signatures of a range of signers, in the order of their positions.
    pub(crate) fn part(&self, signers: Range<usize>) -> Votes {
        let mut participants = Bitfield::new(self.participants.len());
        let some = self.participants.iter_ones().skip(signers.start);
        some.take(signers.len())
            .for_each(|position| participants.set(position));
        let bytes =
            |count: usize| (count * self.set().params().signature_bytes).min(self.signatures.len());
        Votes {
            about: self.about.clone(),
            participants,
            signatures: self
                .signatures
                .slice(bytes(signers.start)..bytes(signers.end)),
        }
    }

    /// Returns the signatures with their positions, or why one cannot be decoded.
    pub(crate) fn decoded(&self) -> Vec<(u32, Result<Signature, String>)> {
        let each = self.set().params().signature_bytes;
        // As many as there are participants: `voted` has checked that.
        let signatures = self.signatures.chunks_exact(each);
        let signatures = self.participants.iter_ones().zip(signatures);
        let decode = |(position, bytes): (usize, &[u8])| {
            let signature = Signature::from_bytes(self.set(), bytes);
            (
                position as u32,
                signature.map_err(|error| error.to_string()),
            )
        };
        signatures.map(decode).collect()
    }

    /// Returns the invalid signatures, by index.
    pub(crate) fn bad(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
        decoded: &[(u32, Result<Signature, String>)],
    ) -> Vec<(usize, String)> {
        let items = decoded.iter().filter_map(|(position, signature)| {
            Some(Item {
                key: registry.key(*position)?,
                index: self.about.slot,
                message: &self.about.message,
                signature: signature.as_ref().ok()?,
            })
        });
        // In step with `decoded`, apart from those that cannot be decoded: every position has a key, since the bitfield
        // is as long as the registry.
        let items: Vec<Item<'_>> = items.collect();
        let mut holds = verify_batch(self.set(), &items, exec).into_iter();
        let bad = decoded.iter().enumerate();
        let bad = bad.filter_map(|(index, (_, signature))| match signature {
            Err(why) => Some((index, why.clone())),
            Ok(_) if holds.next() == Some(true) => None,
            Ok(_) => Some((index, "it does not hold".to_owned())),
        });
        bad.collect()
    }

    pub(crate) fn prove(
        &self,
        exec: Exec<'_>,
        registry: &ProofRegistry,
    ) -> Result<Output, TaskError> {
        let decoded = self.decoded();
        if decoded.iter().any(|(_, signature)| signature.is_err()) {
            // All bad ones are named at once, not only those that cannot be decoded.
            let bad = self.bad(exec, registry, &decoded).into_iter();
            return Err(TaskError::Invalid(bad.map(|(index, _)| index).collect()));
        }
        let signed = decoded.iter().filter_map(|(position, signature)| {
            Some(Signed {
                position: *position,
                signature: signature.as_ref().ok()?,
            })
        });
        let signed: Vec<Signed<'_>> = signed.collect();
        let About { slot, message, .. } = &self.about;
        let proved = proofs(self.set()).prove_evidence(exec, registry, *slot, message, &signed);
        proved.map(Output::Proof).map_err(|error| match error {
            ProveError::InvalidSignatures { positions } => {
                let index = |position: &u32| {
                    // They ascend, as the participants of a bitfield do.
                    let found = signed.binary_search_by_key(position, |one| one.position);
                    found.unwrap_or_default()
                };
                TaskError::Invalid(positions.iter().map(index).collect())
            }
            error => failed(&error),
        })
    }
}

/// Explains why nothing was made of valid inputs.
fn failed(error: &ProveError) -> TaskError {
    match error {
        ProveError::Stopped => TaskError::Stopped,
        error => TaskError::Refused(error.to_string()),
    }
}

impl Entry {
    fn claimed(&self) -> Claimed<'_> {
        Claimed {
            slot: self.about.slot,
            message: &self.about.message,
            signers: &self.participants,
        }
    }

    /// Returns why a proof does not prove that its participants signed; none if it does.
    fn refused(&self, exec: Exec<'_>, registry: &ProofRegistry) -> Option<String> {
        let Some(preset) = preset_of_evidence(registry.len(), &self.proof) else {
            return Some("the proof begins with no header of a proof".to_owned());
        };
        let proofs = Proofs::new(self.about.registry.set, preset);
        let verified = proofs.verify_evidence(exec, registry, &self.claimed(), &self.proof);
        verified.err().map(|error| error.to_string())
    }
}

/// Entries with their keys, in the form that proofs take.
pub(crate) struct Entries<'a> {
    entries: &'a [Entry],
    registries: Vec<Arc<Registry>>,
}

impl<'a> Entries<'a> {
    pub(crate) fn of(env: &Env, entries: &'a [Entry]) -> Entries<'a> {
        let registries = entries.iter();
        let registries = registries.map(|entry| env.known.same(&entry.about.registry));
        Entries {
            entries,
            registries: registries.collect(),
        }
    }

    fn proofs(&self) -> Proofs {
        let first = self.entries.first();
        proofs(first.map_or(Set::Prod, |entry| entry.about.registry.set))
    }

    fn committed(&self, exec: Exec<'_>) -> Result<Vec<&ProofRegistry>, TaskError> {
        let registries = self.registries.iter();
        let registries = registries.map(|registry| registry.committed(exec));
        registries
            .collect::<Result<_, _>>()
            .map_err(TaskError::Refused)
    }

    fn bundled(&self, exec: Exec<'_>) -> Result<Vec<BundleEntry<'_>>, TaskError> {
        let registries = self.committed(exec)?.into_iter();
        let entries = self.entries.iter().zip(registries);
        let entries = entries.map(|(entry, registry)| BundleEntry {
            registry,
            claimed: entry.claimed(),
        });
        Ok(entries.collect())
    }

    /// Returns for each entry why its proof is rejected.
    pub(crate) fn refused(&self, exec: Exec<'_>) -> Result<Vec<Option<String>>, TaskError> {
        let registries = self.committed(exec)?;
        // A single proof is verified by all threads, several in parallel by one thread each.
        let inner = match self.entries.len() {
            1 => exec,
            _ => exec.on_this_thread(),
        };
        let refused = exec.map(self.entries.len(), |i| {
            self.entries[i].refused(inner, registries[i])
        });
        exec.go_on().map_err(|_| TaskError::Stopped)?;
        Ok(refused)
    }

    pub(crate) fn merge(&self, exec: Exec<'_>) -> Result<Output, TaskError> {
        let registries = self.committed(exec)?;
        let (Some(first), Some(registry)) = (self.entries.first(), registries.first()) else {
            return Err(failed(&ProveError::Empty));
        };
        let pieces = self.entries.iter();
        let pieces = pieces.map(|entry| (&entry.participants, &entry.proof[..]));
        let pieces: Vec<(&Bitfield, &[u8])> = pieces.collect();
        let About { slot, message, .. } = &first.about;
        let merged = self
            .proofs()
            .merge_evidence(exec, registry, *slot, message, &pieces);
        merged.map(Output::Proof).map_err(|error| failed(&error))
    }

    pub(crate) fn bundle(&self, exec: Exec<'_>) -> Result<Output, TaskError> {
        let proofs = self.proofs();
        let mut bare = Vec::with_capacity(self.entries.len());
        for (i, entry) in self.entries.iter().enumerate() {
            let parts = proofs.evidence_parts(&entry.participants, &entry.proof);
            match parts.as_deref() {
                Ok([part]) => bare.push(part.proof),
                // They are valid, but this one covers more signatures than one proof has room for.
                _ => {
                    let why = format!("entry {i} is several proofs: merge them to one first");
                    return Err(TaskError::Refused(why));
                }
            }
        }
        let parts: Vec<_> = self.bundled(exec)?.into_iter().zip(bare).collect();
        let made = proofs.bundle(exec, &parts);
        made.map(Output::Proof).map_err(|error| failed(&error))
    }

    pub(crate) fn split(
        &self,
        exec: Exec<'_>,
        proof: &[u8],
        kept: usize,
    ) -> Result<Output, TaskError> {
        let bundled = self.bundled(exec)?;
        let split = self.proofs().split(exec, &bundled, proof, kept);
        let split = split.map_err(|error| failed(&error))?;
        // In the form of evidence, which begins with a tag, so that it can be verified and merged like any other proof.
        Ok(Output::Proof([vec![TAG_MERGE], split].concat()))
    }

    /// Returns why a bundle does not prove exactly these entries; none if it does.
    pub(crate) fn bundle_refused(
        &self,
        exec: Exec<'_>,
        proof: &[u8],
    ) -> Result<Option<String>, TaskError> {
        let bundled = self.bundled(exec)?;
        let verified = self.proofs().verify_bundle(exec, &bundled, proof);
        exec.go_on().map_err(|_| TaskError::Stopped)?;
        Ok(verified.err().map(|error| error.to_string()))
    }
}

impl Job {
    pub(crate) fn kind(&self) -> Kind {
        match &self.work {
            Work::Prove(_) => Kind::Prove,
            Work::Merge(_) => Kind::Merge,
            Work::Bundle(_) => Kind::Bundle,
            Work::Split { .. } => Kind::Split,
            Work::VerifySignatures(_) => Kind::VerifySignatures,
            Work::Verify(_) => Kind::Verify,
            Work::VerifyBundle { .. } => Kind::VerifyBundle,
        }
    }

    /// Returns the number of signatures or proofs.
    pub(crate) fn inputs(&self) -> usize {
        match &self.work {
            Work::Prove(votes) | Work::VerifySignatures(votes) => votes.len(),
            Work::Merge(entries)
            | Work::Bundle(entries)
            | Work::Verify(entries)
            | Work::Split { entries, .. }
            | Work::VerifyBundle { entries, .. } => entries.len(),
        }
    }

    /// Returns the signed statement; the first one if there are several.
    pub(crate) fn about(&self) -> Option<&About> {
        match &self.work {
            Work::Prove(votes) | Work::VerifySignatures(votes) => Some(&votes.about),
            _ => self.entries().first().map(|entry| &entry.about),
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.work {
            Work::Prove(_) | Work::VerifySignatures(_) => &[],
            Work::Merge(entries)
            | Work::Bundle(entries)
            | Work::Verify(entries)
            | Work::Split { entries, .. }
            | Work::VerifyBundle { entries, .. } => entries,
        }
    }

    /// Returns its registries, each once.
    pub(crate) fn registries(&self) -> Vec<&Arc<Registry>> {
        let entries = self.entries().iter().map(|entry| &entry.about.registry);
        let votes = match &self.work {
            Work::Prove(votes) | Work::VerifySignatures(votes) => Some(&votes.about.registry),
            _ => None,
        };
        let all = votes.into_iter().chain(entries);
        let by_digest: BTreeMap<Digest, &Arc<Registry>> =
            all.map(|registry| (registry.digest, registry)).collect();
        by_digest.into_values().collect()
    }

    /// Returns the statement of the proof it makes; none for a bundle or a job that makes no proof.
    pub(crate) fn made(&self, proof: &[u8]) -> Option<Entry> {
        let (about, participants) = match &self.work {
            Work::Prove(votes) => (&votes.about, votes.participants.clone()),
            Work::Merge(entries) => {
                let first = entries.first()?;
                let mut union = Bitfield::new(first.participants.len());
                let all = entries.iter();
                all.for_each(|entry| union.union_with(&entry.participants));
                (&first.about, union)
            }
            Work::Split { entries, kept, .. } => {
                let entry = entries.get(*kept)?;
                (&entry.about, entry.participants.clone())
            }
            _ => return None,
        };
        Some(Entry {
            about: about.clone(),
            participants,
            proof: Bytes::copy_from_slice(proof),
        })
    }
}
