//! A scheme without cryptography: every object has the size of the table, every operation its
//! cost, and verdicts are exact because tags are recomputed. It protects nothing: anyone can
//! compute any tag. It carries protocol tests and large simulations.

use super::{CostTable, TableError};
use crate::{
    Abilities, Bytes, Claim, Cost, Ctx, Evidence, EvidenceLength, Form, Layer, Op, Overlap, Part,
    Reservation, Role, Scheme, SchemeError, SignItem, Signatures, Sizes, Statement,
    combined_support, list,
};
use alphorn_types::{Assignment, Slot, Support, Validator};
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::sync::Arc;

/// The scheme that charges a cost table.
#[derive(Clone, Debug)]
pub struct Model {
    table: Arc<CostTable>,
}

/// The registry of the model: a count.
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

    /// The table.
    pub fn table(&self) -> &CostTable {
        &self.table
    }

    fn tag(parts: &[&[u8]]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"alphorn-model-v1");
        parts.iter().for_each(|part| hash.update(part));
        hash.finalize().into()
    }

    fn padded(&self, head: &[u8], bytes: usize) -> Vec<u8> {
        let mut object = head.to_vec();
        object.resize(bytes.max(head.len()), 0);
        object
    }

    fn signature(
        &self,
        validator: Validator,
        role: Role,
        slot: Slot,
        message: &[u8; 32],
    ) -> Vec<u8> {
        // A scheme with one-time keys signs over the slot; for the others it is not in the tag,
        // so that a test which forgets it fails with one of the two.
        let slot = if self.table.abilities.one_time {
            slot.0
        } else {
            0
        };
        let tag = Self::tag(&[
            &validator.0.to_le_bytes(),
            &[role as u8],
            &slot.to_le_bytes(),
            message,
        ]);
        let bytes = match role {
            Role::Vote => self.table.sizes.signature,
            _ => self.table.sizes.duty_signature,
        };
        self.padded(&tag, bytes as usize)
    }

    fn ticket(&self, validator: Validator, message: &[u8; 32]) -> Vec<u8> {
        let tag = Self::tag(&[b"select", &validator.0.to_le_bytes(), message]);
        self.padded(&tag, self.table.sizes.signature as usize)
    }

    /// The only bytes that verify for a support: a sum of vote tags with multiplicities, a list of
    /// signatures, or a tag over the signer set.
    fn evidence(
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
        if !counted && support.max_multiplicity() > 1 {
            return None;
        }
        let mut sum = [0u64; 4];
        let mut list = vec![list::TAG_LIST];
        for (position, multiplicity) in support.iter() {
            let member = keys
                .assignment
                .members()
                .get(statement.first as usize + position)?;
            let signature = self.signature(
                Validator(*member),
                Role::Vote,
                statement.slot,
                &statement.message,
            );
            if form == Form::List {
                list.extend_from_slice(&signature);
            }
            for (word, part) in sum.iter_mut().zip(signature.chunks_exact(8)) {
                let part = u64::from_le_bytes(part.try_into().ok()?);
                *word = word.wrapping_add(part.wrapping_mul(u64::from(multiplicity)));
            }
        }
        if form == Form::List {
            return Some(list);
        }
        let head: Vec<u8> = sum.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes = self
            .table
            .evidence_bytes(statement.layer, support.signer_count() as u64)
            as usize;
        Some(match form {
            Form::Proof => self.padded(&[&[list::TAG_PROOF], head.as_slice()].concat(), bytes),
            _ => self.padded(&head, bytes),
        })
    }

    /// What a real scheme's sum would be: evidence that verifies if all inputs are genuine, and
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
                validator.0 < validators
                    && self.signature(*validator, *role, *slot, message) == signature.as_ref()
            }
            Claim::Selected {
                validator,
                message,
                proof,
            } => {
                let unique = self.table.abilities.unique;
                unique
                    && validator.0 < validators
                    && self.ticket(*validator, message) == proof.as_ref()
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
        self.table.cost(op, n, m)
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
        if registry.validators != layout.validators() {
            return Err(SchemeError::RegistrySize {
                keys: u64::from(registry.validators),
                validators: u64::from(layout.validators()),
            });
        }
        if let Some(max) = self.table.abilities.committee_max
            && layout.committee_len_max() > max
        {
            return Err(SchemeError::CommitteeSize {
                size: layout.committee_len_max(),
                max,
            });
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
        crate::watermark::check_permits(slot, items, &permits)?;
        let mut data = Vec::new();
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

    fn aggregate(
        &self,
        keys: &ModelKeys,
        statement: &Statement,
        votes: &[(u32, Bytes)],
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        let listed = list::aggregate(statement, votes, self.table.sizes.signature as usize)?;
        if self.table.abilities.form(statement.layer) == Form::List {
            return Ok(listed);
        }
        let members = keys.assignment.members();
        let genuine = votes.iter().all(|(position, signature)| {
            let position = statement.first.saturating_add(*position) as usize;
            let Some(member) = members.get(position) else {
                return false;
            };
            let claim = Claim::One {
                validator: Validator(*member),
                role: Role::Vote,
                slot: statement.slot,
                message: statement.message,
                signature: signature.clone(),
            };
            self.holds(keys, &claim)
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
}
