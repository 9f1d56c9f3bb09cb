//! The trait of a signature scheme.

use crate::{
    Abilities, Bytes, Claim, Cost, Ctx, Evidence, EvidenceLength, Layer, Op, Overlap, Reservation,
    Role, Sizes, Statement, VoteGuard,
};
use alphorn_types::{Assignment, Layout, Slot, Support, Validator};
use std::ops::Range;
use std::sync::Arc;

/// One requested signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignItem {
    /// The signer.
    pub validator: Validator,
    /// The role.
    pub role: Role,
    /// The 32-byte digest to sign.
    pub message: [u8; 32],
    /// For votes: the checkpoints that must not go backwards.
    pub guard: Option<VoteGuard>,
}

impl SignItem {
    /// Creates a request without checkpoints.
    pub fn new(validator: Validator, role: Role, message: [u8; 32]) -> Self {
        SignItem {
            validator,
            role,
            message,
            guard: None,
        }
    }
}

/// Concatenated signatures of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signatures {
    each_bytes: usize,
    data: Vec<u8>,
}

impl Signatures {
    /// Wraps `data`, whose length must be a multiple of `each_bytes`.
    ///
    /// # Panics
    /// If `each_bytes` is 0 or does not divide the length.
    pub fn new(each_bytes: usize, data: Vec<u8>) -> Self {
        assert!(
            each_bytes > 0 && data.len().is_multiple_of(each_bytes),
            "signatures of unequal length"
        );
        Signatures { each_bytes, data }
    }

    /// Number of signatures.
    pub fn len(&self) -> usize {
        // Only the default has signatures of length 0, and no bytes.
        self.data.len().checked_div(self.each_bytes).unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The signatures in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.data.chunks_exact(self.each_bytes.max(1))
    }
}

/// A piece that is combined into a larger piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of the piece's support inside the result's support.
    pub offset: u32,
    /// The layer of the piece.
    pub layer: Layer,
    /// The piece.
    pub evidence: Evidence,
}

impl Part {
    /// What the piece proves when combined into evidence of `whole`.
    pub(crate) fn statement(&self, whole: &Statement) -> Statement {
        Statement {
            layer: self.layer,
            first: whole.first.saturating_add(self.offset),
            len: self.evidence.support.len() as u32,
            ..*whole
        }
    }
}

/// A collection in a bundle: its statement and signers, under the keys of its own epoch.
#[derive(Debug)]
pub struct Bundled<'a, K> {
    /// The key table of its epoch. Collections of one bundle may be from two epochs.
    pub keys: &'a K,
    /// Its statement, about a whole committee.
    pub statement: Statement,
    /// The signers.
    pub support: &'a Support,
}

// Derived implementations would require the same of a key table.
impl<K> Clone for Bundled<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Bundled<'_, K> {}

/// Why a scheme returned no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// The scheme lacks the ability.
    #[error("the scheme {scheme} cannot {what}")]
    Unsupported {
        /// Name of the scheme.
        scheme: &'static str,
        /// The operation requested.
        what: &'static str,
    },
    /// Nothing to aggregate.
    #[error("no input")]
    Empty,
    /// An input does not decode; its index.
    #[error("input {0} is malformed")]
    Malformed(usize),
    /// Inputs overlap more than the ability allows.
    #[error("position {position} would be counted more than {max} times")]
    Overlap {
        /// The first position counted too often.
        position: u32,
        /// The limit.
        max: u8,
    },
    /// The sum is a value that no verifier accepts (for BLS: infinity).
    #[error("the signatures cancel: the aggregate is not a valid signature")]
    Degenerate,
    /// This node does not hold the signer's key.
    #[error("no signer for validator {0}")]
    UnknownSigner(u32),
    /// A reservation does not match the requested signature.
    #[error("the reservation of validator {0} does not fit")]
    WrongReservation(u32),
    /// Keys and assignment do not match.
    #[error("registry has {keys} keys, the assignment {validators} validators")]
    RegistrySize {
        /// Keys in the registry.
        keys: u64,
        /// Validators in the assignment.
        validators: u64,
    },
    /// The committee is larger than the scheme supports.
    #[error("committee of {size} validators, the scheme takes {max}")]
    CommitteeSize {
        /// The requested size.
        size: u32,
        /// The limit.
        max: u32,
    },
    /// More collections than one piece of evidence can prove together.
    #[error("bundle of {value} collections, the scheme takes {max}")]
    BundleSize {
        /// The requested number of collections.
        value: usize,
        /// The limit.
        max: u16,
    },
    /// The task was asked to stop.
    #[error("stopped")]
    Stopped,
}

impl SchemeError {
    /// Checks that a registry has exactly one key per validator of a layout.
    ///
    /// # Errors
    /// [`SchemeError::RegistrySize`].
    pub fn check_registry(keys: usize, layout: &Layout) -> Result<(), SchemeError> {
        let (keys, validators) = (keys as u64, u64::from(layout.validators()));
        match keys == validators {
            true => Ok(()),
            false => Err(SchemeError::RegistrySize { keys, validators }),
        }
    }

    /// Checks that no committee of a layout has more than `max` validators.
    ///
    /// # Errors
    /// [`SchemeError::CommitteeSize`].
    pub fn check_committees(layout: &Layout, max: u32) -> Result<(), SchemeError> {
        match layout.committee_len_max() {
            size if size > max => Err(SchemeError::CommitteeSize { size, max }),
            _ => Ok(()),
        }
    }
}

/// A signature scheme, as the protocol sees it.
///
/// Everything is deterministic: the same inputs and secret give the same bytes and verdicts for
/// every thread count and kernel.
pub trait Scheme: Send + Sync + Sized + 'static {
    /// The public keys of all validators, validated once.
    type Registry: Send + Sync + 'static;
    /// The public keys of an epoch in committee order, ready for summation.
    type Keys: Send + Sync + 'static;
    /// The secret keys held here.
    type Signers: Send + Sync + 'static;
    /// Claims decoded once, so that any range of them can be tested.
    type Prepared: Send + Sync + 'static;
    /// Scratch memory of a lane.
    type Scratch: Default + Send + 'static;

    /// Name on the command line and in files.
    fn name(&self) -> &'static str;

    /// The abilities of the scheme.
    fn abilities(&self) -> Abilities;

    /// Sizes on the wire.
    fn sizes(&self) -> Sizes;

    /// Length of evidence over a support of `n` positions.
    fn evidence_length(&self, layer: Layer, n: u32) -> EvidenceLength;

    /// The scheme's own cost estimate for the kernel in use, with `n` and `m` as defined by [`Op`].
    fn cost(&self, op: Op, n: u64, m: u64) -> Cost;

    /// The same scheme on its portable kernel, for a retry after a doubtful result.
    fn portable(&self) -> Self;

    /// Creates the key table of an epoch.
    ///
    /// # Errors
    /// [`SchemeError::RegistrySize`] or [`SchemeError::CommitteeSize`].
    fn keys(
        &self,
        registry: &Arc<Self::Registry>,
        assignment: &Arc<Assignment>,
        ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Result<Self::Keys, SchemeError>;

    /// The assignment for which a key table was made.
    fn assignment<'k>(&self, keys: &'k Self::Keys) -> &'k Assignment;

    /// Signs. Item `i` consumes `permits[i]`, which must name its validator, role and slot. The
    /// items must be all votes or all duties, so that the signatures have equal length.
    ///
    /// # Errors
    /// [`SchemeError::UnknownSigner`], [`SchemeError::WrongReservation`]; in that case no signature
    /// is returned and all permits are burnt.
    fn sign(
        &self,
        signers: &Self::Signers,
        slot: Slot,
        items: &[SignItem],
        permits: Vec<Reservation>,
        ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Result<Signatures, SchemeError>;

    /// Creates proofs of selection: unique signatures on a message that is neither a vote nor a
    /// duty.
    ///
    /// # Errors
    /// [`SchemeError::Unsupported`] if signatures are not unique, which is the default;
    /// [`SchemeError::UnknownSigner`].
    fn select(
        &self,
        _signers: &Self::Signers,
        _message: &[u8; 32],
        _validators: &[Validator],
        _ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Result<Signatures, SchemeError> {
        Err(SchemeError::Unsupported {
            scheme: self.name(),
            what: "select: its signatures are not unique",
        })
    }

    /// Decodes claims for testing. `secret` makes random weights unpredictable to the author of the
    /// claims. It never changes a verdict, except with the probability stated by the scheme.
    fn prepare(
        &self,
        keys: &Self::Keys,
        claims: &[Claim],
        secret: &[u8; 32],
        ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Self::Prepared;

    /// Whether all claims of a range hold.
    fn check(&self, keys: &Self::Keys, prepared: &Self::Prepared, range: Range<usize>) -> bool;

    /// Returns exactly the claims that do not hold, ascending; none if the scheme has no better way
    /// than testing ranges.
    fn locate(
        &self,
        keys: &Self::Keys,
        prepared: &Self::Prepared,
        ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Option<Vec<usize>>;

    /// Makes an aggregate from verified votes, given as (position in the support, signature), in
    /// ascending position order.
    ///
    /// # Errors
    /// [`SchemeError::Empty`], [`SchemeError::Malformed`], [`SchemeError::Degenerate`].
    fn aggregate<B: AsRef<[u8]>>(
        &self,
        keys: &Self::Keys,
        statement: &Statement,
        votes: &[(u32, B)],
        ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Result<Evidence, SchemeError>;

    /// Combines verified pieces into evidence of the statement. Pieces may overlap as permitted by
    /// the scheme's [`crate::Overlap`]; multiplicities reach at most `multiplicity_max`.
    ///
    /// # Errors
    /// [`SchemeError::Empty`], [`SchemeError::Malformed`], [`SchemeError::Overlap`],
    /// [`SchemeError::Degenerate`].
    fn combine(
        &self,
        keys: &Self::Keys,
        statement: &Statement,
        parts: &[Part],
        multiplicity_max: u8,
        ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Result<Evidence, SchemeError>;

    /// Length of the evidence of a bundle of at most this many collections, excluding their
    /// supports.
    fn bundle_length(&self, _collections: u16) -> EvidenceLength {
        EvidenceLength::Max(0)
    }

    /// Makes one piece of evidence from verified collections, each with the bytes that prove it, in
    /// this order. A committee may occur more than once.
    ///
    /// # Errors
    /// [`SchemeError::Unsupported`] without [`Abilities::bundle_max`]; [`SchemeError::Empty`],
    /// [`SchemeError::BundleSize`]; [`SchemeError::Malformed`] for a collection that cannot be
    /// bundled although it may be valid, detected before any expensive step.
    fn bundle(
        &self,
        _collections: &[(Bundled<'_, Self::Keys>, &[u8])],
        _ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> Result<Bytes, SchemeError> {
        Err(SchemeError::Unsupported {
            scheme: self.name(),
            what: "prove several collections together",
        })
    }

    /// Whether a piece of evidence proves exactly these collections, in this order.
    fn verify_bundle(
        &self,
        _collections: &[Bundled<'_, Self::Keys>],
        _evidence: &[u8],
        _ctx: &mut Ctx<'_, Self::Scratch>,
    ) -> bool {
        false
    }
}

/// Exact verdict on each claim: one test of everything and, only if it fails, the scheme's own
/// search or, if it has none, a test of each claim.
pub fn verify_claims<S: Scheme>(
    scheme: &S,
    keys: &S::Keys,
    claims: &[Claim],
    secret: &[u8; 32],
    ctx: &mut Ctx<'_, S::Scratch>,
) -> Vec<bool> {
    let mut verdicts = vec![true; claims.len()];
    if claims.is_empty() {
        return verdicts;
    }
    let prepared = scheme.prepare(keys, claims, secret, ctx);
    if scheme.check(keys, &prepared, 0..claims.len()) {
        return verdicts;
    }
    match scheme.locate(keys, &prepared, ctx) {
        Some(bad) => bad.into_iter().for_each(|i| verdicts[i] = false),
        None => {
            for (i, verdict) in verdicts.iter_mut().enumerate() {
                *verdict = scheme.check(keys, &prepared, i..i + 1);
            }
        }
    }
    verdicts
}

/// The support of combined parts under an overlap ability: a sum of multiplicities, a union, or a
/// disjoint union.
///
/// # Errors
/// [`SchemeError::Empty`], [`SchemeError::Malformed`] for a part outside the statement,
/// [`SchemeError::Overlap`].
pub fn combined_support(
    overlap: Overlap,
    statement: &Statement,
    parts: &[Part],
    multiplicity_max: u8,
) -> Result<Support, SchemeError> {
    let len = statement.len as usize;
    let mut sum = Support::new(len);
    let max = match overlap {
        Overlap::Counted { max } => max.min(multiplicity_max),
        Overlap::None | Overlap::Union => 1,
    };
    for (i, part) in parts.iter().enumerate() {
        let (support, offset) = (&part.evidence.support, part.offset as usize);
        // Checked here, because `place` panics on a part that does not fit.
        if offset + support.len() > len || support.is_empty() {
            return Err(SchemeError::Malformed(i));
        }
        let placed = support.place(len, offset);
        // A union forgets multiplicities, so it has no bound to exceed.
        sum = if overlap == Overlap::Union {
            let mut signers = sum.signers();
            signers.union_with(&placed.signers());
            Support::from_bits(signers)
        } else {
            sum.add(&placed, max)
                .map_err(|error| SchemeError::Overlap {
                    position: error.position as u32,
                    max,
                })?
        };
    }
    // Every part has signers, so this is an empty list of parts.
    if sum.is_empty() {
        Err(SchemeError::Empty)
    } else {
        Ok(sum)
    }
}
