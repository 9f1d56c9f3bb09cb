//! Secret keys: generating them, signing with them, and never using an index twice.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use alphorn_exec::{Backend, Exec};
use alphorn_scheme::{Reservation, Role};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::hash::{Code, Encoding, Parameter, Walk};
use crate::params::Set;
use crate::prf::{Prf, Value};
use crate::signature::{PublicKey, Signature};
use crate::tree::{Levels, Source};
use crate::wiped::Wiped;

/// Number of tries before a message is given up; fewer than 10^-47 of all messages need this many.
pub(crate) const TRIES_MAX: u64 = 100_000;

/// Number of tries that are hashed together.
// They fill one of the longest vectors.
const TRIES: u64 = 16;

/// Number of leaf blocks kept in memory: the one in use and the next.
const BLOCKS: usize = 2;

/// What a key signs. A single key would need two signatures in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// Votes: the index is the slot.
    Vote = 0,
    /// Duties: the index is 8 x slot + duty.
    Duty = 1,
}

impl Purpose {
    /// The purpose of a role.
    pub(crate) fn of(role: Role) -> Purpose {
        match role.duty() {
            None => Purpose::Vote,
            Some(_) => Purpose::Duty,
        }
    }

    /// Number of one-time indices per slot.
    pub fn indices_per_slot(self) -> u64 {
        match self {
            Purpose::Vote => 1,
            Purpose::Duty => DUTY_INDICES,
        }
    }

    /// The purpose with this number, or none if there is no such purpose.
    pub(crate) fn from_u8(value: u8) -> Option<Purpose> {
        [Purpose::Vote, Purpose::Duty]
            .get(usize::from(value))
            .copied()
    }
}

/// Number of indices per slot for duties; some are spare.
const DUTY_INDICES: u64 = 8;

/// The one-time index of a role in a slot; none above 2^32 − 1.
pub(crate) fn one_time_index(role: Role, slot: u64) -> Option<u32> {
    let index = match role.duty() {
        None => slot,
        Some(duty) => slot
            .checked_mul(DUTY_INDICES)?
            .checked_add(u64::from(duty))?,
    };
    u32::try_from(index).ok()
}

/// Why a key cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The active range is empty or reaches beyond the set's lifetime.
    #[error("active indices {start}..{end}, must be some of 0..{lifetime}")]
    Range {
        /// First active index.
        start: u64,
        /// End of the active indices.
        end: u64,
        /// Number of indices of the set.
        lifetime: u64,
    },
    /// The computation was stopped.
    #[error("stopped")]
    Stopped,
}

/// Why there is no signature. The reservation is consumed regardless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SignError {
    /// The key signs votes and was asked for a duty, or vice versa.
    #[error("a key for {purpose:?} was asked to sign as {role:?}")]
    Role {
        /// What the key signs.
        purpose: Purpose,
        /// The role that was requested.
        role: Role,
    },
    /// The key is not active at this slot.
    #[error("slot {slot} lies outside of the key's active indices {start}..{end}")]
    Inactive {
        /// The requested slot.
        slot: u64,
        /// First active index.
        start: u64,
        /// End of the active indices.
        end: u64,
    },
    /// No randomness gave the message a code.
    #[error("no code after {tries} tries")]
    NoCode {
        /// Number of tries.
        tries: u64,
    },
    /// The computation was stopped.
    #[error("stopped")]
    Stopped,
}

/// A secret key with the resident part of its tree.
pub struct SecretKey {
    purpose: Purpose,
    public: PublicKey,
    source: Source,
    resident: Levels,
    interop: bool,
    blocks: Mutex<VecDeque<(u64, Arc<Levels>)>>,
}

pub(crate) fn check_range(set: Set, active: &Range<u64>) -> Result<(), KeyError> {
    let lifetime = set.params().lifetime();
    if active.start >= active.end || active.end > lifetime {
        return Err(KeyError::Range {
            start: active.start,
            end: active.end,
            lifetime,
        });
    }
    Ok(())
}

impl SecretKey {
    /// Generates the key of a seed, active for a range of indices; the time grows with the range. `progress`
    /// receives the number of indices done. Use a seed for one key only, with one purpose and one range: another
    /// range gives another public key over the same one-time keys, and a vote and a duty of one seed would use one
    /// index twice.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn generate(
        set: Set,
        purpose: Purpose,
        seed: &[u8; 32],
        active: Range<u64>,
        exec: Exec<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<SecretKey, KeyError> {
        check_range(set, &active)?;
        let prf = Prf::new(set, seed);
        let parameter = prf.parameter(exec.backend());
        SecretKey::with_parameter(purpose, prf, set, parameter, active, exec, progress)
    }

    /// The same with a chosen parameter.
    pub(crate) fn with_parameter(
        purpose: Purpose,
        prf: Prf,
        set: Set,
        parameter: Parameter,
        active: Range<u64>,
        exec: Exec<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<SecretKey, KeyError> {
        check_range(set, &active)?;
        let source = Source {
            set,
            prf,
            parameter,
            active,
        };
        let resident = source
            .build(exec, progress)
            .map_err(|_| KeyError::Stopped)?;
        Ok(SecretKey::of(purpose, source, resident))
    }

    pub(crate) fn of(purpose: Purpose, source: Source, resident: Levels) -> SecretKey {
        SecretKey {
            purpose,
            public: PublicKey {
                set: source.set,
                root: resident.root(),
                parameter: source.parameter,
            },
            source,
            resident,
            interop: false,
            blocks: Mutex::default(),
        }
    }

    /// A key that anyone can compute: seed = SHA-256("alphorn-interop-v1" ‖ name ‖ index), where name is `xmss` or
    /// `xmss-duty` and the index is eight little-endian bytes. For tests and devnets.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn interop(
        set: Set,
        purpose: Purpose,
        validator: u32,
        active: Range<u64>,
        exec: Exec<'_>,
    ) -> Result<SecretKey, KeyError> {
        let name = match purpose {
            Purpose::Vote => "xmss",
            Purpose::Duty => "xmss-duty",
        };
        let mut hasher = Sha256::new();
        hasher.update(b"alphorn-interop-v1");
        hasher.update(name);
        hasher.update(u64::from(validator).to_le_bytes());
        let seed = hasher.finalize().into();
        let key = SecretKey::generate(set, purpose, &seed, active, exec, &|_| ())?;
        Ok(SecretKey {
            interop: true,
            ..key
        })
    }

    /// Whether it was made by [`SecretKey::interop`], in which case a second signature reveals nothing new.
    pub fn is_interop(&self) -> bool {
        self.interop
    }

    /// The public key.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// What the key signs.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The indices it can sign with.
    pub fn active(&self) -> Range<u64> {
        self.source.active.clone()
    }

    /// The slots in which it can sign everything its purpose requires.
    pub fn slots(&self) -> Range<u64> {
        let (per, active) = (self.purpose.indices_per_slot(), &self.source.active);
        // Rounded inwards: a slot counts only if all of its indices are active.
        active.start.div_ceil(per)..active.end / per
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn resident(&self) -> &Levels {
        &self.resident
    }

    /// Computes the leaves around an index if they are not in memory, so that a later signature there does not
    /// have to.
    ///
    /// # Errors
    /// [`SignError::Inactive`], [`SignError::Stopped`].
    pub fn warm(&self, index: u64, exec: Exec<'_>) -> Result<(), SignError> {
        self.check_active(index, index)?;
        self.block(index, exec).map(|_| ())
    }

    fn check_active(&self, slot: u64, index: u64) -> Result<(), SignError> {
        let Range { start, end } = self.source.active;
        if !(start..end).contains(&index) {
            return Err(SignError::Inactive { slot, start, end });
        }
        Ok(())
    }

    /// The levels below the resident ones around an index, if there are any.
    fn block(&self, index: u64, exec: Exec<'_>) -> Result<Option<Arc<Levels>>, SignError> {
        let top = self.source.lowest();
        if top == 0 {
            return Ok(None);
        }
        let wanted = index >> top;
        // A panic elsewhere does no harm: the list holds only what can be computed again.
        let lock = || {
            self.blocks
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        };
        let known = lock()
            .iter()
            .find(|(i, _)| *i == wanted)
            .map(|(_, block)| block.clone());
        if known.is_some() {
            return Ok(known);
        }
        // Computed without the lock, since 256 leaves take long. Two threads may compute the same block.
        let block = self.source.block(exec, top, wanted);
        let block = Arc::new(block.map_err(|_| SignError::Stopped)?);
        let mut blocks = lock();
        // Slots grow, so the block made first is the one that is no longer needed.
        if blocks.len() == BLOCKS {
            blocks.pop_front();
        }
        blocks.push_back((wanted, block.clone()));
        Ok(Some(block))
    }

    /// Makes the signature that was reserved. The same key, slot and message always give the same signature.
    ///
    /// # Errors
    /// [`SignError`]; the reservation is consumed regardless.
    pub fn sign(&self, permit: Reservation, exec: Exec<'_>) -> Result<Signature, SignError> {
        let (role, slot) = (permit.role(), permit.slot().0);
        if Purpose::of(role) != self.purpose {
            let purpose = self.purpose;
            return Err(SignError::Role { purpose, role });
        }
        let Range { start, end } = self.source.active;
        // A slot whose index does not fit 32 bits is outside of every active range.
        let inactive = SignError::Inactive { slot, start, end };
        let index = one_time_index(role, slot).ok_or(inactive)?;
        self.check_active(slot, index.into())?;
        self.sign_index(index, permit.message(), exec)
    }

    /// Signs with an active index.
    pub(crate) fn sign_index(
        &self,
        index: u32,
        message: &[u8; 32],
        exec: Exec<'_>,
    ) -> Result<Signature, SignError> {
        let backend = exec.backend();
        let block = self.block(index.into(), exec)?;
        let (randomness, code) = self.find_code(index, message, exec)?;
        let source = &self.source;
        let params = source.set.params();
        let chains = 0..params.chains as u8;
        let wanted: Vec<Value<'_>> = chains
            .map(|chain| Value::Start { slot: index, chain })
            .collect();
        let starts = source.prf.values(backend, &wanted);
        let steps = starts.iter().zip(code).enumerate();
        let walks = steps.map(|(chain, (digest, digit))| Walk {
            parameter: source.parameter,
            slot: index,
            chain: chain as u8,
            from: 0,
            to: digit,
            digest: *digest,
        });
        // Before the walk these are the chains' starts, from which any message could be signed at this index.
        let mut walks: Wiped<Walk> = Wiped(walks.collect());
        source.set.instance().walk(backend, &mut walks);
        Ok(Signature {
            set: source.set,
            randomness,
            hashes: walks.iter().map(|walk| walk.digest).collect(),
            path: source.path(backend, &self.resident, block.as_deref(), index.into()),
        })
    }

    /// The first randomness that gives the message a code, and that code.
    fn find_code(
        &self,
        index: u32,
        message: &[u8; 32],
        exec: Exec<'_>,
    ) -> Result<([alphorn_stark::Fp; 7], Code), SignError> {
        let backend: Backend = exec.backend();
        let source = &self.source;
        let instance = source.set.instance();
        let elements = instance.message(backend, message);
        // Counted from zero, with randomness from the seed: signing a message again gives the same signature and
        // reveals nothing new.
        for first in (0..TRIES_MAX).step_by(TRIES as usize) {
            if exec.stopped() {
                return Err(SignError::Stopped);
            }
            let wanted: Vec<Value<'_>> = (first..first + TRIES)
                .map(|counter| Value::Randomness {
                    slot: index,
                    message,
                    counter,
                })
                .collect();
            let drawn = source.prf.values(backend, &wanted);
            let encoding = |drawn: &crate::hash::Digest| Encoding {
                parameter: source.parameter,
                slot: index,
                message: elements,
                randomness: std::array::from_fn(|i| drawn[i]),
            };
            let encodings: Vec<Encoding> = drawn.iter().map(encoding).collect();
            let codes = instance.encode(backend, &encodings);
            let found = encodings.iter().zip(codes);
            let mut found = found.filter_map(|(e, code)| Some((e.randomness, code?)));
            if let Some(found) = found.next() {
                return Ok(found);
            }
        }
        Err(SignError::NoCode { tries: TRIES_MAX })
    }
}
