//! XMSS as a scheme of the protocol, in list mode: an aggregate is its signatures.

use std::ops::Range;
use std::sync::Arc;

use alphorn_scheme::watermark::check_permits;
use alphorn_scheme::{
    Abilities, Bytes, Claim, Cost, Ctx, Evidence, EvidenceLength, Form, Layer, Op, Overlap, Part,
    Reservation, Scheme, SchemeError, Security, SignItem, Signatures, Sizes, Statement, list,
};
use alphorn_stark::Backend;
use alphorn_types::{Assignment, Slot, Validator};

use crate::claims::{Wanted, hold, wanted};
use crate::exec::Exec;
use crate::key::{Purpose, SignError};
use crate::params::Set;
use crate::registry::{EpochKeys, Registry, Signers};

/// Largest committee: the registry of a statement.
pub const COMMITTEE_MAX: u32 = 1 << 15;

/// Signatures that one thread decodes and verifies at a time: some milliseconds.
const CHUNK: usize = 64;

/// Nanoseconds of one hash on the AVX-512 kernel, building of its input included: measured by
/// `alphorn bench xmss`; the worker learns the factor of the machine at hand.
const HASH_NS: u64 = 300;

/// Tries of a signature on average: 913 in the production set, 834 in the compact one.
const TRIES: usize = 900;

/// XMSS signatures of one set, in lists.
#[derive(Clone, Copy, Debug)]
pub struct Xmss {
    set: Set,
    backend: Backend,
}

/// Whether each claim holds.
pub struct Verdicts(Vec<bool>);

impl Xmss {
    /// The scheme of a set on a kernel.
    pub fn new(set: Set, backend: Backend) -> Xmss {
        Xmss { set, backend }
    }

    /// The set.
    pub fn set(&self) -> Set {
        self.set
    }

    /// Hashes of one verification, about.
    fn verify_ns(&self) -> u64 {
        let params = self.set.params();
        let levels = usize::from(params.log2_lifetime);
        // Permutations of the code, of the leaf and of the path cost about two of a chain.
        (params.steps() + 2 * (1 + params.chains / 2 + levels)) as u64 * HASH_NS
    }

    /// Tries, chain starts and chains of one signature, about.
    fn sign_ns(&self) -> u64 {
        let params = self.set.params();
        // A try is a hash of the seed and one of the message, about three of a chain together.
        (3 * TRIES + params.chains * 4) as u64 * HASH_NS
    }
}

impl Scheme for Xmss {
    type Registry = Registry;
    type Keys = EpochKeys;
    type Signers = Signers;
    type Prepared = Verdicts;
    type Scratch = ();

    fn name(&self) -> &'static str {
        "xmss"
    }

    fn abilities(&self) -> Abilities {
        let (classical_bits, quantum_bits, source) = match self.set {
            Set::Prod => (
                128,
                64,
                "as published with the lean consensus specification",
            ),
            Set::Compact => (
                124,
                62,
                "as claimed with the compact set, without a full proof",
            ),
            Set::Test => (0, 0, "a set for tests: none"),
        };
        Abilities {
            unique: false,
            one_time: true,
            overlap: [Overlap::Union; 2],
            layers: [Form::List; 2],
            committee_max: Some(COMMITTEE_MAX),
            security: Security {
                classical_bits,
                quantum_bits,
                assumption: format!(
                    "Poseidon over KoalaBear (8 full and 20 or 23 partial rounds) behaves like a \
                     random tweakable hash; {source}"
                ),
                proven: "a verdict is exact: every signature of a list is verified; the reduction \
                         of the scheme is its authors', nothing is proven here"
                    .to_owned(),
            },
        }
    }

    fn sizes(&self) -> Sizes {
        let params = self.set.params();
        Sizes {
            public_key_bytes: params.public_key_bytes,
            signature_bytes: params.signature_bytes,
            duty_signature_bytes: params.signature_bytes,
            selection_proof_bytes: None,
        }
    }

    fn evidence_length(&self, _layer: Layer, n: u32) -> EvidenceLength {
        EvidenceLength::Max(list::list_bytes(
            n as usize,
            self.set.params().signature_bytes,
        ))
    }

    fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        let each = self.set.params().signature_bytes as u64;
        let verify = |count: u64| count.saturating_mul(self.verify_ns());
        let copy = |count: u64| count.saturating_mul(each / 4);
        let (ns, signatures) = match op {
            Op::Sign | Op::DutySign => (n.saturating_mul(self.sign_ns()), n),
            Op::VerifyVotes | Op::DutyVerify => (verify(n), n),
            // Three signatures stand in an aggregate's or a collection's message beside the list.
            Op::VerifyAggregates | Op::VerifyCollections => {
                let all = n.saturating_mul(3).saturating_add(m);
                (verify(all), all)
            }
            // The job verifies what it made.
            Op::Aggregate => (copy(n) + verify(n), n),
            Op::Collect | Op::Merge => {
                let all = n.saturating_add(m);
                (copy(all) + verify(all), all)
            }
            Op::Prepare => (1_000 + n, 0),
        };
        Cost {
            ns,
            memory_bytes: signatures.saturating_mul(2 * each) + (1 << 20),
        }
    }

    fn portable(&self) -> Xmss {
        Xmss::new(self.set, Backend::portable())
    }

    fn keys(
        &self,
        registry: &Arc<Registry>,
        assignment: &Arc<Assignment>,
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<EpochKeys, SchemeError> {
        let layout = assignment.layout();
        if registry.len() != layout.validators() as usize {
            return Err(SchemeError::RegistrySize {
                keys: registry.len() as u64,
                validators: u64::from(layout.validators()),
            });
        }
        let largest = (0..layout.committees())
            .map(|c| layout.committee_len(c))
            .max();
        let size = largest.unwrap_or(0);
        if size > COMMITTEE_MAX {
            let max = COMMITTEE_MAX;
            return Err(SchemeError::CommitteeSize { size, max });
        }
        Ok(EpochKeys {
            registry: registry.clone(),
            assignment: assignment.clone(),
        })
    }

    fn assignment<'k>(&self, keys: &'k EpochKeys) -> &'k Assignment {
        &keys.assignment
    }

    fn sign(
        &self,
        signers: &Signers,
        slot: Slot,
        items: &[SignItem],
        permits: Vec<Reservation>,
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<Signatures, SchemeError> {
        check_permits(slot, items, &permits)?;
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_pulse(&pulse);
        let one_thread = Exec::new(self.backend, None).with_pulse(&pulse);
        let permits: Vec<_> = permits
            .into_iter()
            .map(|p| std::sync::Mutex::new(Some(p)))
            .collect();
        let signed = exec.map(items.len(), |i| {
            let item = &items[i];
            let wrong = SchemeError::WrongReservation(item.validator.0);
            let key = signers.key(item.validator, Purpose::of(item.role));
            let key = key.ok_or(SchemeError::UnknownSigner(item.validator.0))?;
            // Each permit is taken once: the list is walked once.
            let permit = permits[i].lock().ok().and_then(|mut permit| permit.take());
            let signature = key.sign(permit.ok_or(wrong.clone())?, &item.message, one_thread);
            match signature {
                Ok(signature) => Ok(signature.to_bytes()),
                Err(SignError::Stopped) => Err(SchemeError::Stopped),
                Err(_) => Err(wrong),
            }
        });
        let signed = signed.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Signatures::new(
            self.set.params().signature_bytes,
            signed.concat(),
        ))
    }

    fn select(
        &self,
        _signers: &Signers,
        _message: &[u8; 32],
        _validators: &[Validator],
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<Signatures, SchemeError> {
        Err(SchemeError::Unsupported {
            scheme: "xmss",
            what: "select: its signatures are not unique",
        })
    }

    fn prepare(
        &self,
        keys: &EpochKeys,
        claims: &[Claim],
        _secret: &[u8; 32],
        ctx: &mut Ctx<'_, ()>,
    ) -> Verdicts {
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_pulse(&pulse);
        let mut verdicts = vec![true; claims.len()];
        let mut all = Vec::new();
        for (i, claim) in claims.iter().enumerate() {
            match wanted(self.set, keys, claim, i) {
                Some(list) => all.extend(list),
                None => verdicts[i] = false,
            }
        }
        let chunks: Vec<&[Wanted<'_>]> = all.chunks(CHUNK).collect();
        let held = exec.map(chunks.len(), |i| match exec.stopped() {
            true => vec![false; chunks[i].len()],
            false => hold(self.set, self.backend, chunks[i]),
        });
        for (wanted, holds) in all.iter().zip(held.concat()) {
            verdicts[wanted.claim] &= holds;
        }
        Verdicts(verdicts)
    }

    fn check(&self, _keys: &EpochKeys, prepared: &Verdicts, range: Range<usize>) -> bool {
        prepared.0[range].iter().all(|holds| *holds)
    }

    fn locate(
        &self,
        _keys: &EpochKeys,
        prepared: &Verdicts,
        _ctx: &mut Ctx<'_, ()>,
    ) -> Option<Vec<usize>> {
        let verdicts = prepared.0.iter().enumerate();
        Some(
            verdicts
                .filter(|(_, holds)| !**holds)
                .map(|(i, _)| i)
                .collect(),
        )
    }

    fn aggregate(
        &self,
        _keys: &EpochKeys,
        statement: &Statement,
        votes: &[(u32, Bytes)],
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        list::aggregate(statement, votes, self.set.params().signature_bytes)
    }

    fn combine(
        &self,
        _keys: &EpochKeys,
        statement: &Statement,
        parts: &[Part],
        _multiplicity_max: u8,
        _ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        list::union(statement, parts, self.set.params().signature_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    /// Slots of the battery's small world.
    const SLOTS: Range<u64> = 0..8;
    /// Most validators that it asks for.
    const VALIDATORS: u32 = 32;

    static PUBLIC: LazyLock<Registry> = LazyLock::new(|| keys(VALIDATORS).1);

    fn keys(validators: u32) -> (Signers, Registry) {
        let exec = Exec::new(Backend::measured(), None);
        Signers::interop(Set::Compact, validators, SLOTS, exec).unwrap()
    }

    struct Compact;

    impl alphorn_scheme::battery::Fixture for Compact {
        type S = Xmss;

        fn scheme(&self) -> Xmss {
            Xmss::new(Set::Compact, Backend::measured())
        }

        fn registry(&self, validators: u32) -> Registry {
            assert!(validators <= VALIDATORS, "the fixture has fewer keys");
            let n = validators as usize;
            let keys = |purpose| {
                let key = |i| *PUBLIC.key(purpose, Validator(i as u32)).unwrap();
                (0..n).map(key).collect()
            };
            Registry::new(keys(Purpose::Vote), keys(Purpose::Duty))
        }

        fn signers(&self, validators: u32) -> Signers {
            keys(validators).0
        }
    }

    alphorn_scheme::battery!(compact_lists, Compact);

    #[test]
    fn committees_above_the_maximum_are_refused() {
        let validators = COMMITTEE_MAX + 1;
        let layout = alphorn_types::Layout::new(validators, 1, 1).unwrap();
        let members = (0..validators).collect();
        let assignment = Assignment::new(alphorn_types::Epoch(0), layout, members).unwrap();
        let keys = vec![*PUBLIC.key(Purpose::Vote, Validator(0)).unwrap(); validators as usize];
        let registry = Arc::new(Registry::new(keys.clone(), keys));
        let scheme = Xmss::new(Set::Compact, Backend::portable());
        let refused = scheme.keys(&registry, &Arc::new(assignment), &mut Ctx::single(&mut ()));
        let expected = SchemeError::CommitteeSize {
            size: COMMITTEE_MAX + 1,
            max: COMMITTEE_MAX,
        };
        assert_eq!(refused.err(), Some(expected));
    }
}
