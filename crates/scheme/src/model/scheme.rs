//! A scheme without cryptography. Every object has the size given by the table, every operation its
//! cost, and verdicts are exact because tags are recomputed. It protects nothing: anyone can
//! compute any tag. It is used for protocol tests and large simulations.

use super::{CostTable, TableError};
use crate::{
    Abilities, Bundled, Bytes, Claim, Cost, Ctx, Evidence, EvidenceLength, Form, Layer, Op,
    Overlap, Part, Reservation, Role, Scheme, SchemeError, SignItem, Signatures, Sizes, Statement,
    combined_support, list,
};
use alphorn_types::{Assignment, Slot, Support, Validator};
use std::ops::Range;
use std::sync::Arc;

/// A scheme that charges a cost table.
#[derive(Clone, Debug)]
pub struct Model {
    table: Arc<CostTable>,
}

/// The registry of the model: a number of validators.
#[derive(Clone, Copy, Debug)]
pub struct ModelRegistry {
    /// Number of validators.
    pub validators: u32,
}

/// The key table of the model: the committees.
#[derive(Clone, Debug)]
pub struct ModelKeys {
    assignment: Arc<Assignment>,
}

/// The signers of the model: all validators below a count.
#[derive(Clone, Copy, Debug)]
pub struct ModelSigners {
    /// Number of validators.
    pub validators: u32,
}

/// Used in place of a role for drawing a ticket.
// Far above the numbers of all roles, so no ticket is also a signature.
const TICKET: u64 = u64::MAX;
/// An odd number without a pattern, the golden ratio, to distinguish words before mixing.
pub(super) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A message signed by many, mixed once for all of them. A tag is not a digest: collisions are easy
/// to find. It costs some nanoseconds, because simulations compute as many as a network has
/// signatures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject(pub(super) u64);

impl Subject {
    pub(super) fn new(role: u64, slot: u64, message: &[u8; 32]) -> Self {
        let words = message.chunks_exact(8).map(|chunk| {
            let word = chunk.try_into().expect("chunks of 8 bytes");
            u64::from_le_bytes(word)
        });
        let words = [role, slot].into_iter().chain(words);
        Subject(words.fold(STEP, |state, word| mixed(state.wrapping_add(STEP) ^ word)))
    }

    /// The tag of one signer.
    fn tag(self, Validator(validator): Validator) -> [u64; 4] {
        let own = mixed(self.0 ^ u64::from(validator).wrapping_mul(STEP));
        [1, 2, 3, 4].map(|i: u64| mixed(own.wrapping_add(STEP.wrapping_mul(i))))
    }
}

/// A permutation of 64 bits in which each bit of the input changes half of the output (D. Stafford,
/// "Better bit mixing", variant 13, 2011).
pub(super) fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

pub(super) fn bytes_of(words: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

impl Model {
    /// A model that charges `table`.
    ///
    /// # Errors
    /// [`TableError`] if the table is out of bounds.
    pub fn new(table: CostTable) -> Result<Self, TableError> {
        table.check()?;
        Ok(Model {
            table: Arc::new(table),
        })
    }

    /// Returns the table.
    pub fn table(&self) -> &CostTable {
        &self.table
    }

    pub(super) fn padded(&self, head: &[u8], bytes: usize) -> Vec<u8> {
        let mut object = head.to_vec();
        object.resize(bytes.max(head.len()), 0);
        object
    }

    /// The part shared by all signers of a message in a role.
    fn subject(&self, role: Role, slot: Slot, message: &[u8; 32]) -> Subject {
        // A scheme with one-time keys signs over the slot. For the others the slot is not in the
        // tag, so that a test that forgets it fails with one of the two.
        let slot = if self.table.abilities.one_time {
            slot.0
        } else {
            0
        };
        Subject::new(role as u64, slot, message)
    }

    fn signature_bytes(&self, role: Role) -> usize {
        let bytes = match role {
            Role::Vote => self.table.sizes.signature,
            _ => self.table.sizes.duty_signature,
        };
        bytes as usize
    }

    fn signature(
        &self,
        validator: Validator,
        role: Role,
        slot: Slot,
        message: &[u8; 32],
    ) -> Vec<u8> {
        let tag = self.subject(role, slot, message).tag(validator);
        self.padded(&bytes_of(tag), self.signature_bytes(role))
    }

    /// Whether bytes are a tag and nothing else.
    fn is_tag(bytes: &[u8], tag: [u64; 4], length: usize) -> bool {
        let Some((head, rest)) = bytes.split_first_chunk() else {
            return false;
        };
        // The padding is compared too, or a signature would have many encodings.
        bytes.len() == length && *head == bytes_of(tag) && rest.iter().all(|byte| *byte == 0)
    }

    fn ticket(&self, validator: Validator, message: &[u8; 32]) -> Vec<u8> {
        let tag = Subject::new(TICKET, 0, message).tag(validator);
        self.padded(&bytes_of(tag), self.table.sizes.signature as usize)
    }

    /// The only bytes that verify for a support: a sum of vote tags with multiplicities, a list of
    /// signatures, or a tag over the signer set.
    pub(super) fn evidence(
        &self,
        keys: &ModelKeys,
        statement: &Statement,
        support: &Support,
    ) -> Option<Vec<u8>> {
        if support.len() as u64 != u64::from(statement.len) || support.is_empty() {
            return None;
        }
        let form = self.table.abilities.form(statement.layer);
        let counted = matches!(
            self.table.abilities.overlap(statement.layer),
            Overlap::Counted { .. }
        );
        // Only a sum can contain a signer several times.
        if !counted && support.max_multiplicity() > 1 {
            return None;
        }
        let subject = self.subject(Role::Vote, statement.slot, &statement.message);
        let signature_bytes = self.signature_bytes(Role::Vote);
        let mut sum = [0u64; 4];
        let mut list = vec![list::TAG_LIST];
        for (position, multiplicity) in support.iter() {
            let member = keys
                .assignment
                .members()
                .get(statement.first as usize + position)?;
            let tag = subject.tag(Validator(*member));
            if form == Form::List {
                list.extend_from_slice(&self.padded(&bytes_of(tag), signature_bytes));
            }
            for (word, part) in sum.iter_mut().zip(tag) {
                *word = word.wrapping_add(part.wrapping_mul(u64::from(multiplicity)));
            }
        }
        if form == Form::List {
            return Some(list);
        }
        let head = bytes_of(sum);
        let bytes = self
            .table
            .evidence_bytes(statement.layer, support.signer_count() as u64)
            as usize;
        Some(match form {
            Form::Proof => self.padded(&[&[list::TAG_PROOF], head.as_slice()].concat(), bytes),
            _ => self.padded(&head, bytes),
        })
    }

    /// The equivalent of a real scheme's sum: evidence that verifies if all inputs are genuine, and
    /// bytes that do not if one is not.
    fn sum(
        &self,
        keys: &ModelKeys,
        statement: &Statement,
        support: Arc<Support>,
        genuine: bool,
    ) -> Result<Evidence, SchemeError> {
        let mut bytes = self
            .evidence(keys, statement, &support)
            .ok_or(SchemeError::Degenerate)?;
        if !genuine {
            // The first byte of a proof is its tag, the second one belongs to the sum in every
            // form.
            bytes[1] ^= 0xff;
        }
        Ok(Evidence {
            support,
            bytes: bytes.into(),
        })
    }

    fn holds(&self, keys: &ModelKeys, claim: &Claim) -> bool {
        let validators = keys.assignment.layout().validators();
        match claim {
            Claim::One {
                validator,
                role,
                slot,
                message,
                signature,
            } => {
                let tag = self.subject(*role, *slot, message).tag(*validator);
                validator.0 < validators
                    && Self::is_tag(signature, tag, self.signature_bytes(*role))
            }
            Claim::Selected {
                validator,
                message,
                proof,
            } => {
                let tag = Subject::new(TICKET, 0, message).tag(*validator);
                self.table.abilities.unique
                    && validator.0 < validators
                    && Self::is_tag(proof, tag, self.table.sizes.signature as usize)
            }
            Claim::Group {
                statement,
                evidence,
            } => self
                .evidence(keys, statement, &evidence.support)
                .is_some_and(|bytes| bytes == evidence.bytes.as_ref()),
        }
    }
}

impl Scheme for Model {
    type Registry = ModelRegistry;
    type Keys = ModelKeys;
    type Signers = ModelSigners;
    type Prepared = Vec<bool>;
    type Scratch = ();

    fn name(&self) -> &'static str {
        "model"
    }

    fn abilities(&self) -> Abilities {
        self.table.abilities.clone()
    }

    fn sizes(&self) -> Sizes {
        let sizes = &self.table.sizes;
        Sizes {
            public_key_bytes: sizes.public_key as usize,
            signature_bytes: sizes.signature as usize,
            duty_signature_bytes: sizes.duty_signature as usize,
            selection_proof_bytes: self
                .table
                .abilities
                .unique
                .then_some(sizes.signature as usize),
        }
    }

    fn evidence_length(&self, layer: Layer, n: u32) -> EvidenceLength {
        match self.table.abilities.form(layer) {
            Form::Point => EvidenceLength::Fixed(self.table.evidence_bytes(layer, 1) as usize),
            Form::List => EvidenceLength::Max(list::list_bytes(
                n as usize,
                self.table.sizes.signature as usize,
            )),
            Form::Proof => {
                EvidenceLength::Max(self.table.evidence_bytes(layer, u64::from(n)) as usize)
            }
        }
    }

    fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        match op {
            Op::Bundle | Op::VerifyBundle => self.table.bundle_cost(op, n, m),
            op => self.table.cost(op, n, m),
        }
    }

    fn portable(&self) -> Self {
        self.clone()
    }

    fn keys(
        &self,
        registry: &Arc<ModelRegistry>,
        assignment: &Arc<Assignment>,
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<ModelKeys, SchemeError> {
        let layout = assignment.layout();
        SchemeError::check_registry(registry.validators as usize, layout)?;
        if let Some(max) = self.table.abilities.committee_max {
            SchemeError::check_committees(layout, max)?;
        }
        Ok(ModelKeys {
            assignment: assignment.clone(),
        })
    }

    fn assignment<'k>(&self, keys: &'k ModelKeys) -> &'k Assignment {
        &keys.assignment
    }

    fn sign(
        &self,
        signers: &ModelSigners,
        slot: Slot,
        items: &[SignItem],
        permits: Vec<Reservation>,
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<Signatures, SchemeError> {
        crate::watermark::check_permits(slot, items, permits)?;
        let mut data = Vec::new();
        // `Signatures` needs a positive length even if there is nothing to sign.
        let mut each = self.table.sizes.signature as usize;
        for item in items {
            if item.validator.0 >= signers.validators {
                return Err(SchemeError::UnknownSigner(item.validator.0));
            }
            let signature = self.signature(item.validator, item.role, slot, &item.message);
            each = signature.len();
            data.extend_from_slice(&signature);
        }
        Ok(Signatures::new(each, data))
    }

    fn select(
        &self,
        signers: &ModelSigners,
        message: &[u8; 32],
        validators: &[Validator],
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<Signatures, SchemeError> {
        if !self.table.abilities.unique {
            return Err(SchemeError::Unsupported {
                scheme: "model",
                what: "prove selection",
            });
        }
        if let Some(unknown) = validators
            .iter()
            .find(|validator| validator.0 >= signers.validators)
        {
            return Err(SchemeError::UnknownSigner(unknown.0));
        }
        let data = validators
            .iter()
            .flat_map(|validator| self.ticket(*validator, message))
            .collect();
        Ok(Signatures::new(self.table.sizes.signature as usize, data))
    }

    fn prepare(
        &self,
        keys: &ModelKeys,
        claims: &[Claim],
        _secret: &[u8; 32],
        _ctx: &mut Ctx<'_, ()>,
    ) -> Vec<bool> {
        claims.iter().map(|claim| self.holds(keys, claim)).collect()
    }

    fn check(&self, _keys: &ModelKeys, prepared: &Vec<bool>, range: Range<usize>) -> bool {
        prepared[range].iter().all(|good| *good)
    }

    fn locate(
        &self,
        _keys: &ModelKeys,
        _prepared: &Vec<bool>,
        _ctx: &mut Ctx<'_, ()>,
    ) -> Option<Vec<usize>> {
        None
    }

    fn aggregate<B: AsRef<[u8]>>(
        &self,
        keys: &ModelKeys,
        statement: &Statement,
        votes: &[(u32, B)],
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        // Checks order, positions and lengths of the votes, whatever the form of the result.
        let listed = list::aggregate(statement, votes, self.table.sizes.signature as usize)?;
        if self.table.abilities.form(statement.layer) == Form::List {
            return Ok(listed);
        }
        let members = keys.assignment.members();
        // A false vote is no error here: as with a real sum, only the verifier notices.
        let genuine = votes.iter().all(|(position, signature)| {
            let position = statement.first.saturating_add(*position) as usize;
            let subject = self.subject(Role::Vote, statement.slot, &statement.message);
            members.get(position).is_some_and(|member| {
                let tag = subject.tag(Validator(*member));
                Self::is_tag(signature.as_ref(), tag, self.signature_bytes(Role::Vote))
            })
        });
        self.sum(keys, statement, listed.support, genuine)
    }

    fn combine(
        &self,
        keys: &ModelKeys,
        statement: &Statement,
        parts: &[Part],
        multiplicity_max: u8,
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        if self.table.abilities.form(statement.layer) == Form::List {
            return list::union(statement, parts, self.table.sizes.signature as usize);
        }
        // Whether pieces may overlap depends on what they are, not on what they become: aggregates become a
        // collection.
        let layer = parts.first().map_or(statement.layer, |part| part.layer);
        let overlap = self.table.abilities.overlap(layer);
        let support = combined_support(overlap, statement, parts, multiplicity_max)?;
        let genuine = parts.iter().all(|part| {
            let claim = Claim::Group {
                statement: part.statement(statement),
                evidence: part.evidence.clone(),
            };
            self.holds(keys, &claim)
        });
        self.sum(keys, statement, Arc::new(support), genuine)
    }

    fn bundle_length(&self, collections: u16) -> EvidenceLength {
        EvidenceLength::Max(self.bundle_bytes(collections))
    }

    fn bundle(
        &self,
        collections: &[(Bundled<'_, ModelKeys>, &[u8])],
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<Bytes, SchemeError> {
        self.make_bundle(collections)
    }

    fn verify_bundle(
        &self,
        collections: &[Bundled<'_, ModelKeys>],
        evidence: &[u8],
        _ctx: &mut Ctx<'_, ()>,
    ) -> bool {
        let made = self.bundle_evidence(collections);
        made.is_some_and(|made| made == evidence)
    }
}
