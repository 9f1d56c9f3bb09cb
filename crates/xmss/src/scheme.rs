//! XMSS as a scheme of the protocol: aggregates are lists of signatures, collections lists or proofs.

use std::ops::Range;
use std::sync::Arc;

use alphorn_scheme::model::Merged;
use alphorn_scheme::watermark::check_permits;
use alphorn_scheme::{
    Abilities, Bytes, Claim, Cost, Ctx, Evidence, EvidenceLength, Form, Layer, Op, Overlap, Part,
    Reservation, Scheme, SchemeError, Security, SignItem, Signatures, Sizes, Statement, list,
};
use alphorn_stark::{Backend, Exec};
use alphorn_types::{Assignment, Slot, Validator};

use crate::claims::{Wanted, hold, wanted};
use crate::collection;
use crate::key::{Purpose, SignError};
use crate::params::Set;
use crate::proof::{ProofRegistry, Proofs};
use crate::registry::{EpochKeys, Registry, Signers};
use crate::watch::Watched;

/// Largest committee: the registry of a statement.
pub const COMMITTEE_MAX: u32 = 1 << 15;

/// Signatures that one thread decodes and verifies at a time: some milliseconds.
const CHUNK: usize = 64;

/// Nanoseconds of one hash on the AVX-512 kernel, building of its input included: measured by
/// `alphorn bench xmss`; the worker learns the factor of the machine at hand.
const HASH_NS: u64 = 300;

/// Tries of a signature on average: 913 in the production set, 834 in the compact one.
const TRIES: usize = 900;

/// XMSS signatures of one set.
#[derive(Clone, Copy, Debug)]
pub struct Xmss {
    set: Set,
    backend: Backend,
    /// What collections are proved by; lists if there is none.
    proofs: Option<Proofs>,
}

/// Whether each claim holds.
pub struct Verdicts(Vec<bool>);

impl Xmss {
    /// The scheme of a set on a kernel, aggregates and collections in lists.
    pub fn new(set: Set, backend: Backend) -> Xmss {
        Xmss {
            set,
            backend,
            proofs: None,
        }
    }

    /// The scheme with collections as proofs.
    pub fn with_proofs(proofs: Proofs, backend: Backend) -> Xmss {
        Xmss {
            set: proofs.set(),
            backend,
            proofs: Some(proofs),
        }
    }

    /// The proofs of evidence of a layer, if it is proofs.
    fn proofs_of(&self, layer: Layer) -> Option<&Proofs> {
        self.proofs.as_ref().filter(|_| layer == Layer::Collection)
    }

    /// The cost of what proofs change.
    fn cost_of_proofs(&self, proofs: &Proofs, op: Op, n: u64, m: u64) -> Option<Cost> {
        let lists = Xmss::new(self.set, self.backend);
        let beside = |m, (ns, memory_bytes): (u64, u64)| {
            let list = lists.cost(op, n, m);
            Cost {
                ns: list.ns.saturating_add(ns),
                memory_bytes: list.memory_bytes.max(memory_bytes),
            }
        };
        Some(match op {
            // Three signatures stand in a collection's message beside the proof.
            Op::VerifyCollections => beside(0, collection::verify_cost(proofs, n, m)),
            // Signatures among the pieces are proved first, and that proof is one piece more.
            Op::Merge if proofs.mergeable() => {
                let pieces = n.saturating_add(u64::from(m > 0));
                let (merge_ns, bytes) = collection::merge_cost(proofs, pieces);
                let (check_ns, _) = collection::merge_verify_cost();
                let raw = match m {
                    0 => Cost::default(),
                    m => self.cost(Op::Collect, 0, m),
                };
                Cost {
                    ns: merge_ns.saturating_add(check_ns).saturating_add(raw.ns),
                    memory_bytes: bytes.max(raw.memory_bytes),
                }
            }
            // The signatures are verified before they are proved, and the proof afterwards.
            Op::Collect | Op::Merge => {
                let (prove_ns, bytes) = collection::prove_cost(proofs, m);
                let (check_ns, _) = collection::verify_cost(proofs, 1, m);
                beside(m, (prove_ns.saturating_add(check_ns), bytes))
            }
            Op::Prepare => {
                let committees = n.div_ceil(u64::from(COMMITTEE_MAX));
                let hashes = committees.saturating_mul(2 * u64::from(COMMITTEE_MAX));
                beside(m, (hashes.saturating_mul(HASH_NS), 0))
            }
            _ => return None,
        })
    }

    /// What merged collections are; none for sets whose proofs do not merge, and for lists.
    pub fn merged(&self) -> Option<Merged> {
        let proofs = self.proofs.as_ref().filter(|proofs| proofs.mergeable())?;
        let (merge_ns, _) = collection::merge_verify_cost();
        // Three signatures stand in a message beside the merge.
        let lists = Xmss::new(self.set, self.backend);
        let beside = lists.cost(Op::VerifyCollections, 1, 0).ns;
        Some(Merged {
            bytes: 1 + proofs.merge_bytes_max() as u64,
            verify_ns: beside.saturating_add(merge_ns),
        })
    }

    fn security(&self) -> Security {
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
        let hash = "Poseidon over KoalaBear (8 full and 20 or 23 partial rounds) behaves like a";
        let list = "every signature of a list is verified; the reduction of the scheme is its \
                    authors', nothing is proven here";
        let Some(proofs) = &self.proofs else {
            return Security {
                classical_bits,
                quantum_bits,
                assumption: format!("{hash} random tweakable hash; {source}"),
                proven: format!("a verdict is exact: {list}"),
            };
        };
        let bits = proofs.security().least_bits();
        Security {
            // The least of all rounds, rounded down.
            classical_bits: classical_bits.min(bits as u32),
            quantum_bits,
            assumption: format!(
                "{hash} random tweakable hash and, for proofs, like a random oracle; \
                 Reed-Solomon codes have mutual correlated agreement up to the Johnson bound; \
                 {source}"
            ),
            proven: format!(
                "{list}; a proof has {bits:.1} bits in its weakest round by our own account of \
                 each round, without a complete written proof or review"
            ),
        }
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
        let (form, overlap) = match self.proofs {
            None => (Form::List, Overlap::Union),
            Some(proofs) if proofs.mergeable() => (Form::Proof, Overlap::Union),
            Some(_) => (Form::Proof, Overlap::None),
        };
        Abilities {
            unique: false,
            one_time: true,
            overlap: [Overlap::Union, overlap],
            layers: [Form::List, form],
            committee_max: Some(COMMITTEE_MAX),
            security: self.security(),
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

    fn evidence_length(&self, layer: Layer, n: u32) -> EvidenceLength {
        let n = n as usize;
        EvidenceLength::Max(match self.proofs_of(layer) {
            Some(proofs) => proofs.evidence_bytes_max(n),
            None => list::list_bytes(n, self.set.params().signature_bytes),
        })
    }

    fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        let each = self.set.params().signature_bytes as u64;
        let verify = |count: u64| count.saturating_mul(self.verify_ns());
        let copy = |count: u64| count.saturating_mul(each / 4);
        if let Some(proofs) = &self.proofs
            && let Some(cost) = self.cost_of_proofs(proofs, op, n, m)
        {
            return cost;
        }
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
        Xmss {
            backend: Backend::portable(),
            ..*self
        }
    }

    fn keys(
        &self,
        registry: &Arc<Registry>,
        assignment: &Arc<Assignment>,
        ctx: &mut Ctx<'_, ()>,
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
        let pulse = Watched(ctx.pulse());
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        Ok(EpochKeys {
            committees: match &self.proofs {
                Some(proofs) => committees(proofs, registry, assignment, exec)?,
                None => Vec::new(),
            },
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
        let pulse = Watched(ctx.pulse());
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        let one_thread = Exec::new(self.backend, None).with_watch(&pulse);
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
        let pulse = Watched(ctx.pulse());
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        let mut verdicts = vec![true; claims.len()];
        let (mut all, mut proved) = (Vec::new(), Vec::new());
        for (i, claim) in claims.iter().enumerate() {
            if let Claim::Group {
                statement,
                evidence,
            } = claim
                && let Some(proofs) = self.proofs_of(statement.layer)
            {
                proved.push((i, proofs, statement, evidence));
                continue;
            }
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
        let one_thread = Exec::new(self.backend, None).with_watch(&pulse);
        let held = exec.map(proved.len(), |i| {
            let (_, proofs, statement, evidence) = proved[i];
            !exec.stopped() && collection::holds(proofs, one_thread, keys, statement, evidence)
        });
        for ((claim, ..), holds) in proved.iter().zip(held) {
            verdicts[*claim] = holds;
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

    /// The union of lists, as a list or as a proof; proofs, with a proof of the lists among them, merge to
    /// a proof of the union.
    fn combine(
        &self,
        keys: &EpochKeys,
        statement: &Statement,
        parts: &[Part],
        _multiplicity_max: u8,
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        let is_proof = |part: &Part| self.proofs_of(part.layer).is_some();
        let pulse = Watched(ctx.pulse());
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        if let Some(proofs) = &self.proofs
            && parts.iter().any(is_proof)
        {
            let (proved, lists): (Vec<_>, Vec<_>) = parts.iter().partition(|part| is_proof(part));
            let lists: Vec<Part> = lists.into_iter().cloned().collect();
            let listed = match lists.is_empty() {
                true => None,
                false => {
                    let each = self.set.params().signature_bytes;
                    let union = list::union(statement, &lists, each)?;
                    let all = (&union, &lists[..]);
                    Some(collection::prove(proofs, exec, keys, statement, all)?)
                }
            };
            return collection::merge(proofs, exec, keys, statement, (&proved, listed));
        }
        let union = list::union(statement, parts, self.set.params().signature_bytes)?;
        match self.proofs_of(statement.layer) {
            None => Ok(union),
            Some(proofs) => collection::prove(proofs, exec, keys, statement, (&union, parts)),
        }
    }
}

/// The registries of all committees.
fn committees(
    proofs: &Proofs,
    registry: &Registry,
    assignment: &Assignment,
    exec: Exec<'_>,
) -> Result<Vec<ProofRegistry>, SchemeError> {
    let layout = assignment.layout();
    let members = assignment.members();
    let of_committee = |committee: u16| {
        if exec.stopped() {
            return Err(SchemeError::Stopped);
        }
        let range = layout.committee_range(committee);
        let (start, end) = (range.start as usize, range.end as usize);
        let key = |member: &u32| registry.key(Purpose::Vote, Validator(*member)).copied();
        let keys: Option<Vec<_>> = members[start..end].iter().map(key).collect();
        // Members are below the registry's size, which was compared, and so was the committee's.
        let made = keys.and_then(|keys| proofs.registry(exec, keys, committee.into()).ok());
        made.ok_or(SchemeError::Unsupported {
            scheme: "xmss",
            what: "prove votes under keys of another set",
        })
    };
    (0..layout.committees()).map(of_committee).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::Preset;
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

    /// The compact set, with or without proofs.
    struct Compact {
        proofs: bool,
    }

    fn scheme(proofs: bool) -> Xmss {
        let backend = Backend::measured();
        match proofs {
            false => Xmss::new(Set::Compact, backend),
            true => Xmss::with_proofs(Proofs::new(Set::Compact, Preset::FAST), backend),
        }
    }

    impl alphorn_scheme::battery::Fixture for Compact {
        type S = Xmss;

        fn scheme(&self) -> Xmss {
            scheme(self.proofs)
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

    alphorn_scheme::battery!(compact_lists, Compact { proofs: false });
    alphorn_scheme::battery!(compact_proofs, Compact { proofs: true });

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

    /// The keys of a layout with members in order, and lists of votes of its cells at slot 3.
    struct Small {
        scheme: Xmss,
        keys: EpochKeys,
        parts: Vec<Part>,
        statement: Statement,
    }

    const MESSAGE: [u8; 32] = [4; 32];

    fn small() -> Small {
        let scheme = scheme(true);
        let layout = alphorn_types::Layout::new(12, 1, 3).unwrap();
        let members = (0..12).collect();
        let assignment =
            Arc::new(Assignment::new(alphorn_types::Epoch(0), layout, members).unwrap());
        let (signers, registry) = keys(12);
        let mut scratch = ();
        let mut ctx = Ctx::single(&mut scratch);
        let keys = scheme
            .keys(&Arc::new(registry), &assignment, &mut ctx)
            .unwrap();
        let exec = Exec::new(Backend::measured(), None);
        let vote = |validator: u32| -> Bytes {
            let key = signers.key(Validator(validator), Purpose::Vote).unwrap();
            key.sign_index(3, &MESSAGE, exec).unwrap().to_bytes().into()
        };
        let statement = Statement {
            layer: Layer::Collection,
            first: 0,
            len: 12,
            slot: Slot(3),
            message: MESSAGE,
        };
        let parts = (0..3u32).map(|cell| {
            let offset = 4 * cell;
            let cell = Statement {
                layer: Layer::Aggregate,
                first: offset,
                len: 4,
                ..statement
            };
            let votes: Vec<_> = (1..4).map(|i| (i, vote(offset + i))).collect();
            let evidence = scheme.aggregate(&keys, &cell, &votes, &mut Ctx::single(&mut ()));
            Part {
                offset,
                layer: Layer::Aggregate,
                evidence: evidence.unwrap(),
            }
        });
        let parts = parts.collect();
        Small {
            scheme,
            keys,
            parts,
            statement,
        }
    }

    #[test]
    fn a_list_that_does_not_hold_is_named_before_anything_is_proved() {
        let Small {
            scheme,
            keys,
            mut parts,
            statement,
        } = small();
        let combine = |parts: &[Part], statement: &Statement| {
            scheme.combine(&keys, statement, parts, 1, &mut Ctx::single(&mut ()))
        };
        let honest = parts[2].evidence.bytes.to_vec();
        for (at, change) in [(honest.len() / 2, 1), (honest.len() - 1, 0xff)] {
            let mut bytes = honest.clone();
            bytes[at] ^= change;
            parts[2].evidence.bytes = bytes.into();
            let refused = combine(&parts, &statement);
            assert_eq!(refused, Err(SchemeError::Malformed(2)), "byte {at}");
        }
        let elsewhere = Statement {
            len: 13,
            ..statement
        };
        let refused = combine(&parts[..1], &elsewhere).unwrap_err();
        assert!(refused.to_string().contains("no committee"), "{refused}");
    }

    #[test]
    fn proofs_merge_to_the_union_and_a_stop_is_obeyed() {
        let Small {
            scheme,
            keys,
            parts,
            statement,
        } = small();
        let combine =
            |parts: &[Part]| scheme.combine(&keys, &statement, parts, 1, &mut Ctx::single(&mut ()));
        let proved = |evidence: Evidence| Part {
            offset: 0,
            layer: Layer::Collection,
            evidence,
        };
        // Two proofs that overlap in a cell, and the list of the third cell.
        let first = proved(combine(&parts[..2]).unwrap());
        let second = proved(combine(&parts[1..2]).unwrap());
        let merged = combine(&[first.clone(), second, parts[2].clone()]).unwrap();
        assert_eq!(merged.support.signer_count(), 9);
        assert_eq!(merged.bytes[0], list::TAG_MERGE);
        let holds = |evidence: &Evidence| {
            let claim = Claim::Group {
                statement,
                evidence: evidence.clone(),
            };
            let prepared = scheme.prepare(&keys, &[claim], &[0; 32], &mut Ctx::single(&mut ()));
            scheme.check(&keys, &prepared, 0..1)
        };
        assert!(holds(&merged));
        let mut fewer = merged.clone();
        fewer.support = first.evidence.support.clone();
        assert!(!holds(&fewer));
        let mut broken = first;
        let mut bytes = broken.evidence.bytes.to_vec();
        bytes[90_000] ^= 1;
        broken.evidence.bytes = bytes.into();
        let refused = combine(&[proved(merged), broken]);
        assert_eq!(refused, Err(SchemeError::Malformed(1)));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let stop = alphorn_scheme::Stop::default();
        stop.stop();
        let pool = pool.unwrap();
        let mut scratch = ();
        let mut ctx = Ctx::pooled(&pool, stop, Arc::default(), &mut scratch);
        let stopped = scheme.combine(&keys, &statement, &parts, 1, &mut ctx);
        assert_eq!(stopped, Err(SchemeError::Stopped));
    }

    #[test]
    fn costs_of_proofs_have_the_steps_of_their_filling() {
        let (lists, proofs) = (scheme(false), scheme(true));
        let collect = |m| proofs.cost(Op::Collect, 1, m).ns - lists.cost(Op::Collect, 1, m).ns;
        assert_eq!(collect(1), collect(63));
        assert!(collect(65) > collect(64) + 50_000_000, "a group");
        assert!(collect(1473) > collect(1472) + 500_000_000, "a proof");
        // What is merged has its own cost, whatever was proved before; signatures beside are proved first.
        let merge = |n, m| proofs.cost(Op::Merge, n, m).ns;
        assert!(merge(2, 0) < merge(4, 0) && merge(4, 0) < merge(7, 0));
        let second_level = merge(8, 0) - merge(7, 0);
        assert!(
            second_level > merge(2, 0),
            "eight are two merges and one of both"
        );
        assert!(merge(2, 500) > merge(3, 0) + collect(500), "raw signatures");
        let merged = proofs.merged().unwrap();
        assert!(merged.verify_ns > proofs.cost(Op::VerifyCollections, 1, 700).ns);
        assert!(merged.bytes < 250_000 && lists.merged().is_none());
        let verify = |n, m| proofs.cost(Op::VerifyCollections, n, m).ns;
        assert!(verify(1, 20_000) > 10 * verify(1, 1000));
        assert!(verify(1, 1000) < lists.cost(Op::VerifyCollections, 1, 1000).ns);
        let abilities = proofs.abilities();
        assert_eq!(abilities.overlap, [Overlap::Union, Overlap::Union]);
        assert_eq!(abilities.security.classical_bits, 120);
    }
}
