//! Reservations: no (key, role, slot) is ever signed twice.
//!
//! For a scheme with one-time keys, a second signature with the same index reveals the key; for
//! every scheme, a second vote in a slot is an equivocation. A signature therefore needs a
//! [`Reservation`], which a store issues once and only after it is durable, and which signing
//! consumes. The type is not `Clone`, so the compiler enforces single use.

use crate::{SchemeError, SignItem};
use alphorn_types::{Slot, Validator};
use std::sync::{Mutex, PoisonError};

/// The purpose of a signature. The order of the duties is their index `d` in the one-time index `8
/// x slot + d` of schemes with a duty key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Role {
    /// A vote (the vote key; one-time index = slot).
    Vote = 0,
    /// A block.
    Block = 1,
    /// The broadcast header of a block.
    BlockHeader = 2,
    /// The envelope of evidence of level 1.
    Aggregate = 3,
    /// The envelope of evidence of level 2.
    Collection = 4,
    /// The broadcast header of a collection.
    CollectionHeader = 5,
    /// The envelope of evidence of level 3.
    Level3 = 6,
    /// The envelope of evidence of level 4.
    Level4 = 7,
}

impl Role {
    /// Every role, in numeric order.
    pub const ALL: [Role; 8] = [
        Role::Vote,
        Role::Block,
        Role::BlockHeader,
        Role::Aggregate,
        Role::Collection,
        Role::CollectionHeader,
        Role::Level3,
        Role::Level4,
    ];

    /// The role in which the envelope of evidence of a level is signed. A validator may serve at
    /// all levels.
    ///
    /// # Panics
    /// If no layout has such a level.
    pub fn of_level(level: u8) -> Role {
        match level {
            1 => Role::Aggregate,
            2 => Role::Collection,
            3 => Role::Level3,
            4 => Role::Level4,
            _ => panic!("no role of level {level}"),
        }
    }

    /// The duty index d of the role, none for votes.
    pub fn duty(self) -> Option<u8> {
        (self as u8).checked_sub(1)
    }

    /// The role with this number; none if there is none.
    pub fn from_u8(value: u8) -> Option<Role> {
        Role::ALL.get(usize::from(value)).copied()
    }
}

/// Source and target of a vote: neither may go backwards (minimal rule of EIP-3076).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteGuard {
    /// Slot of the source checkpoint.
    pub source: Slot,
    /// Slot of the target checkpoint.
    pub target: Slot,
}

/// The right to make one signature: on one message for (validator, role, slot).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is not consumed burns its slot"]
pub struct Reservation {
    validator: Validator,
    role: Role,
    slot: Slot,
    message: [u8; 32],
    again: bool,
}

impl Reservation {
    /// Creates a reservation. Only a [`Watermark`] calls this, after its mark is durable.
    pub fn issue(slot: Slot, item: &SignItem) -> Self {
        Reservation {
            validator: item.validator,
            role: item.role,
            slot,
            message: item.message,
            again: false,
        }
    }

    /// Creates a reservation for the same message as an earlier one: a caller that lost the
    /// signature makes it again. Not suitable for schemes in which a message has many signatures.
    pub fn issue_again(slot: Slot, item: &SignItem) -> Self {
        Reservation {
            again: true,
            ..Reservation::issue(slot, item)
        }
    }

    /// Whether this signature is permitted.
    pub(crate) fn allows(&self, slot: Slot, item: &SignItem) -> bool {
        // The message as well: a permit for one vote must not serve another vote of the slot.
        let wanted = (item.validator, item.role, slot, item.message);
        (self.validator, self.role, self.slot, self.message) == wanted
    }

    /// Whether it repeats an earlier reservation.
    pub fn is_again(&self) -> bool {
        self.again
    }

    /// The signer.
    pub fn validator(&self) -> Validator {
        self.validator
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The slot.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The digest.
    pub fn message(&self) -> &[u8; 32] {
        &self.message
    }
}

/// Why a store refused a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The slot is below the mark: it was signed, reserved or given up.
    #[error(
        "slot {slot} is used: the next free slot of validator {validator} in role {role:?} is {next}"
    )]
    Used {
        /// The owner of the key.
        validator: u32,
        /// The role.
        role: Role,
        /// The requested slot.
        slot: u64,
        /// The lowest free slot.
        next: u64,
    },
    /// The vote's source or target is before one already signed.
    #[error(
        "vote with source {source_slot} and target {target_slot} goes back behind source {source_min} or target {target_min}"
    )]
    Surrounds {
        /// Source of the vote.
        source_slot: u64,
        /// Target of the vote.
        target_slot: u64,
        /// Highest source signed so far.
        source_min: u64,
        /// Highest target signed so far.
        target_min: u64,
    },
    /// The store does not know the key.
    #[error("the store holds no mark for validator {0}")]
    UnknownKey(u32),
    /// The store could not make the mark durable.
    #[error("the mark could not be made durable")]
    NotDurable,
    /// The store no longer holds its lock, so another process may sign.
    #[error("the lock of the mark was taken away: another process may sign with the key")]
    Unlocked,
}

/// A store of the next free slot per (key, role).
pub trait Watermark: Send + Sync {
    /// Reserves a slot for one signature and returns when the mark is durable.
    ///
    /// # Errors
    /// [`Refused`] if the slot is used, the vote surrounds, the key is unknown, or the mark could
    /// not be written; in that case nothing may be signed.
    fn reserve(&self, slot: Slot, item: &SignItem) -> Result<Reservation, Refused>;
}

/// Reservations for the items of a list, each of which any thread may take once.
pub struct Permits(Vec<Mutex<Option<Reservation>>>);

impl Permits {
    /// Takes the permit for item `i`.
    ///
    /// # Errors
    /// [`SchemeError::WrongReservation`] if it was already taken.
    pub fn take(&self, i: usize, item: &SignItem) -> Result<Reservation, SchemeError> {
        // Poison is ignored: the lock guards one `Option`, which is taken or not, whatever happened to another
        // thread.
        let mut permit = self.0[i].lock().unwrap_or_else(PoisonError::into_inner);
        permit
            .take()
            .ok_or(SchemeError::WrongReservation(item.validator.0))
    }
}

/// Checks that `permits[i]` permits item `i`. Every scheme does this before signing.
///
/// # Errors
/// [`SchemeError::WrongReservation`] naming the first validator whose permit is missing or names
/// another validator, role, slot or message.
pub fn check_permits(
    slot: Slot,
    items: &[SignItem],
    permits: Vec<Reservation>,
) -> Result<Permits, SchemeError> {
    for (i, item) in items.iter().enumerate() {
        let fits = permits
            .get(i)
            .is_some_and(|permit| permit.allows(slot, item));
        if !fits {
            return Err(SchemeError::WrongReservation(item.validator.0));
        }
    }
    let permits = permits.into_iter().map(|permit| Mutex::new(Some(permit)));
    Ok(Permits(permits.collect()))
}

#[derive(Clone, Copy, Default)]
struct Mark {
    slot_next: u64,
    source_max: u64,
    target_max: u64,
}

/// An in-memory store for the simulator and benchmarks. It is lost with the process, so it does not
/// protect a real key.
pub struct MemoryWatermark {
    validators: u32,
    marks: Mutex<Vec<Vec<Mark>>>,
}

impl MemoryWatermark {
    /// Creates a store for validators `0..validators`, with nothing signed yet.
    pub fn new(validators: u32) -> Self {
        MemoryWatermark {
            validators,
            marks: Mutex::new(vec![Vec::new(); Role::ALL.len()]),
        }
    }
}

impl Watermark for MemoryWatermark {
    fn reserve(&self, slot: Slot, item: &SignItem) -> Result<Reservation, Refused> {
        let (validator, role) = (item.validator.0, item.role);
        if validator >= self.validators {
            return Err(Refused::UnknownKey(validator));
        }
        // A poisoned store may hold a half-changed mark, so it refuses everything.
        let mut marks = self.marks.lock().map_err(|_| Refused::NotDurable)?;
        let row = &mut marks[role as usize];
        // A row takes 24 bytes for each validator, so a role in which nobody signs has none.
        if row.is_empty() {
            row.resize(self.validators as usize, Mark::default());
        }
        let mark = &mut row[validator as usize];
        // The maximum slot is never issued: no mark could be above it.
        let next = slot.0.checked_add(1);
        let Some(next) = next.filter(|_| slot.0 >= mark.slot_next) else {
            return Err(Refused::Used {
                validator,
                role,
                slot: slot.0,
                next: mark.slot_next,
            });
        };
        // Nothing changes before both checks have passed: a refused request uses up no slot.
        if let Some(guard) = item.guard {
            // Equal checkpoints are allowed, as votes of successive slots share them. A second vote in one slot
            // was refused above.
            if guard.source.0 < mark.source_max || guard.target.0 < mark.target_max {
                return Err(Refused::Surrounds {
                    source_slot: guard.source.0,
                    target_slot: guard.target.0,
                    source_min: mark.source_max,
                    target_min: mark.target_max,
                });
            }
            mark.source_max = guard.source.0;
            mark.target_max = guard.target.0;
        }
        mark.slot_next = next;
        Ok(Reservation::issue(slot, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_is_taken_once() {
        let store = MemoryWatermark::new(2);
        let item = SignItem::new(Validator(1), Role::Vote, [7; 32]);
        let permit = store.reserve(Slot(5), &item).unwrap();
        let permits = check_permits(Slot(5), &[item], vec![permit]).unwrap();
        assert!(permits.take(0, &item).unwrap().allows(Slot(5), &item));
        let again = permits.take(0, &item);
        assert_eq!(again.unwrap_err(), SchemeError::WrongReservation(1));
    }

    #[test]
    fn a_slot_is_given_out_once_per_role() {
        let store = MemoryWatermark::new(2);
        let item = |validator, role| SignItem::new(Validator(validator), role, [7; 32]);
        let vote = |slot| store.reserve(Slot(slot), &item(1, Role::Vote));
        assert!(vote(5).is_ok());
        assert_eq!(
            vote(5).unwrap_err(),
            Refused::Used {
                validator: 1,
                role: Role::Vote,
                slot: 5,
                next: 6
            }
        );
        assert!(vote(4).is_err());
        assert!(vote(u64::MAX).is_err(), "it could be given out again");
        assert!(vote(u64::MAX - 1).is_ok());
        assert!(vote(u64::MAX - 1).is_err());
        assert!(store.reserve(Slot(5), &item(1, Role::Block)).is_ok());
        assert!(store.reserve(Slot(5), &item(0, Role::Vote)).is_ok());
        let stranger = store.reserve(Slot(5), &item(2, Role::Vote));
        assert_eq!(stranger.unwrap_err(), Refused::UnknownKey(2));
    }

    #[test]
    fn a_vote_never_goes_back() {
        let store = MemoryWatermark::new(1);
        let vote = |slot, source, target| {
            let guard = VoteGuard {
                source: Slot(source),
                target: Slot(target),
            };
            let item = SignItem {
                guard: Some(guard),
                ..SignItem::new(Validator(0), Role::Vote, [7; 32])
            };
            store.reserve(Slot(slot), &item)
        };
        assert!(vote(3, 1, 3).is_ok());
        assert!(matches!(vote(4, 0, 4), Err(Refused::Surrounds { .. })));
        assert!(matches!(vote(4, 1, 2), Err(Refused::Surrounds { .. })));
        assert!(vote(4, 1, 4).is_ok(), "a refusal burns nothing");
    }

    #[test]
    fn duty_indices_follow_the_order_of_use() {
        assert_eq!(Role::Vote.duty(), None);
        assert_eq!(
            Role::ALL.map(Role::duty)[1..],
            [0, 1, 2, 3, 4, 5, 6].map(Some)
        );
        assert_eq!(Role::from_u8(5), Some(Role::CollectionHeader));
        assert_eq!(Role::from_u8(8), None);
    }
}
