//! The statements decided by a batch verification.

use crate::{Bytes, Layer, Role};
use alphorn_types::{Layout, Slot, Support, Unit, Validator};
use std::sync::Arc;

/// What evidence proves: the validators of its support, all within a range of the epoch order,
/// signed the same vote message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Aggregate or collection; determines the form of the evidence.
    pub layer: Layer,
    /// Epoch position of the support's first entry: the start of a unit of the layout.
    pub first: u32,
    /// Number of positions: the size of that unit.
    pub len: u32,
    /// The slot that the votes belong to.
    pub slot: Slot,
    /// The 32-byte digest that was signed.
    pub message: [u8; 32],
}

impl Statement {
    /// The unit with these positions: any except a committee for an aggregate (with one level a
    /// committee is a cell), any except a cell for a collection. None if no such unit has this
    /// range.
    pub fn unit(&self, layout: &Layout) -> Option<Unit> {
        if self.len == 0 || self.first >= layout.validators() {
            return None;
        }
        // From here on `first` is a position of the layout, which `unit_at` requires.
        let top = layout.levels();
        let unit = |level| layout.unit_at(level, self.first);
        let is_whole = |level: &u8| {
            let range = layout.unit_range(unit(*level));
            range.start == self.first && range.end - range.start == self.len
        };
        // If units of several levels have the same range, either is returned: what is proved is the
        // same.
        let level = match self.layer {
            Layer::Aggregate => (1..top.max(2)).find(is_whole),
            Layer::Collection => (2..=top).rev().find(is_whole),
        };
        level.map(unit)
    }
}

/// A support and the bytes that prove it: the content of an aggregate or a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Multiplicity of each validator.
    pub support: Arc<Support>,
    /// The proof, opaque.
    pub bytes: Bytes,
}

/// One claim about signatures, with the bytes offered as proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A validator signed a message in a role.
    One {
        /// The signer.
        validator: Validator,
        /// Selects the key and, for one-time keys, the index used.
        role: Role,
        /// The slot that the signature belongs to.
        slot: Slot,
        /// The 32-byte digest that was signed.
        message: [u8; 32],
        /// The signature.
        signature: Bytes,
    },
    /// A proof that a validator holds a lottery ticket; only for schemes with unique signatures.
    Selected {
        /// The ticket holder.
        validator: Validator,
        /// The lottery's message, the same for all validators of a slot and role.
        message: [u8; 32],
        /// The proof.
        proof: Bytes,
    },
    /// All validators of a support signed a vote's message.
    Group {
        /// What the evidence claims to prove.
        statement: Statement,
        /// The signers and the proof.
        evidence: Evidence,
    },
}

impl Claim {
    /// Number of signers named by the claim.
    pub fn signer_count(&self) -> u64 {
        match self {
            Claim::One { .. } | Claim::Selected { .. } => 1,
            Claim::Group { evidence, .. } => evidence.support.signer_count() as u64,
        }
    }

    /// The signed message.
    pub fn message(&self) -> &[u8; 32] {
        match self {
            Claim::One { message, .. } | Claim::Selected { message, .. } => message,
            Claim::Group { statement, .. } => &statement.message,
        }
    }
}

/// The claims of one protocol message, in the order in which failures are reported (proof of
/// selection, envelope, evidence).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The claims; an item is valid if all hold.
    pub claims: Vec<Claim>,
}

/// The verdict on one [`Item`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every claim holds.
    Valid,
    /// The first claim that is false.
    Invalid {
        /// Index into [`Item::claims`].
        claim: usize,
    },
}

impl Verdict {
    /// Whether the item is valid.
    pub fn is_valid(self) -> bool {
        self == Verdict::Valid
    }
}
