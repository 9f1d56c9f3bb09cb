//! Jobs as tasks of a worker.

use crate::job::{About, ENTRIES_MAX, Entries, Env, Job, Kind, Output, Work};
use crate::registry::{Digest, Registry, proofs};
use crate::ssz;
use alphorn_exec::{Backend, Exec};
use alphorn_scheme::{Ctx, Features, Op, Scheme, Task, TaskError};
use alphorn_types::{DecodeError, Reader, Writer};
use alphorn_xmss::{COMMITTEE_MAX, EVIDENCE_BYTES_MAX, Set, Xmss};
use axum::body::Bytes;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Interval at which a job that prepares its process reports that it is alive.
const BEAT: Duration = Duration::from_millis(50);
/// Maximum bytes of the keys of a registry.
const KEYS_BYTES_MAX: usize = COMMITTEE_MAX as usize * 64;

fn exec<'a>(env: &Env, ctx: &Ctx<'a, ()>, pulse: &'a alphorn_exec::Pulse) -> Exec<'a> {
    Exec::new(env.backend, ctx.pool()).with_watch(pulse)
}

/// Runs work that does not check for cancellation, and sends heartbeats in the meantime: on a busy host
/// it is slow, not hung.
fn beating(ctx: &Ctx<'_, ()>, work: impl FnOnce() + Send) {
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _done = done;
            work();
        });
        while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            ctx.beat();
        }
    });
}

impl Job {
    /// Makes what a process makes once: commitments to its registries, and circuits where they may be
    /// needed.
    fn prepare_process(&self, env: &Env, ctx: &Ctx<'_, ()>) {
        let registries = self.registries().into_iter();
        let registries: Vec<Arc<Registry>> = registries
            .map(|registry| env.known.same(registry))
            .collect();
        let signatures = matches!(self.work, Work::Prove(_) | Work::VerifySignatures(_));
        let set = self.about().map_or(Set::Prod, |about| about.registry.set);
        let circuits = !signatures && !env.has_circuits(set);
        if !circuits && registries.iter().all(|registry| registry.is_committed()) {
            return;
        }
        beating(ctx, || {
            for registry in &registries {
                // Errors in a registry are reported when it is used.
                let _ = registry.committed(Exec::new(env.backend, ctx.pool()));
            }
            if circuits {
                proofs(set).make_circuits();
                env.note_circuits(set);
            }
        });
    }
}

impl Task for Job {
    type Env = Env;
    type Output = Output;
    type Scratch = ();
    /// Whether each proof to be merged or bundled is valid.
    type Prepared = Vec<bool>;

    fn features(&self, env: &Env) -> Features {
        let set = self.about().map_or(Set::Prod, |about| about.registry.set);
        let scheme = Xmss::with_proofs_of_cells(proofs(set), env.backend);
        let inputs = self.inputs() as u64;
        let signers = self.entries().iter();
        let signers = signers.map(|entry| entry.participants.count_ones() as u64);
        let (op, n, m) = match &self.work {
            Work::Prove(_) => (Op::Aggregate, inputs, 0),
            Work::Merge(_) => (Op::Collect, inputs, signers.sum()),
            Work::Bundle(_) => (Op::Bundle, inputs, signers.sum()),
            // A merge of one proof.
            Work::Split { .. } => (Op::Merge, 1, 0),
            Work::VerifySignatures(_) => (Op::VerifyVotes, inputs, 0),
            Work::Verify(_) => (Op::VerifyAggregates, inputs, signers.sum()),
            Work::VerifyBundle { .. } => (Op::VerifyBundle, inputs, signers.sum()),
        };
        let cost = scheme.cost(op, n, m);
        Features {
            // Factors are learned by kind, and sets differ in cost. Codes of operations fit into the low byte.
            kind: op.kind() | (set as u16) << 8,
            class: inputs.max(1).next_power_of_two().trailing_zeros() as u8,
            inputs: u32::try_from(inputs).unwrap_or(u32::MAX),
            prior_ns: cost.ns,
            memory_bytes: cost.memory_bytes,
        }
    }

    fn part(&self, inputs: Range<usize>) -> Option<Self> {
        if !self.cut || inputs.is_empty() || inputs.end > self.inputs() {
            return None;
        }
        let work = match &self.work {
            Work::Prove(votes) => Work::Prove(votes.part(inputs)),
            Work::Merge(entries) => Work::Merge(entries[inputs].to_vec()),
            Work::Bundle(entries) => Work::Bundle(entries[inputs].to_vec()),
            _ => return None,
        };
        Some(Job { work, cut: true })
    }

    fn run(&self, env: &Env, ctx: &mut Ctx<'_, ()>) -> Result<Output, TaskError> {
        self.prepare_process(env, ctx);
        let pulse = ctx.pulse();
        let exec = exec(env, ctx, &pulse);
        let entries = Entries::of(env, self.entries());
        match &self.work {
            Work::Prove(votes) | Work::VerifySignatures(votes) => {
                let registry = env.known.same(&votes.about.registry);
                let registry = registry.committed(exec).map_err(TaskError::Refused)?;
                if matches!(self.work, Work::Prove(_)) {
                    return votes.prove(exec, registry);
                }
                let bad = votes.bad(exec, registry, &votes.decoded());
                exec.go_on().map_err(|_| TaskError::Stopped)?;
                Ok(Output::Bad(bad))
            }
            Work::Merge(_) => entries.merge(exec),
            Work::Bundle(_) => entries.bundle(exec),
            Work::Split { proof, kept, .. } => entries.split(exec, proof, *kept),
            Work::Verify(_) => entries.refused(exec).map(Output::Verdicts),
            Work::VerifyBundle { proof, .. } => {
                let refused = entries.bundle_refused(exec, proof)?;
                Ok(Output::Verdicts(vec![refused]))
            }
        }
    }

    /// Proving verifies every signature and names the bad ones before the expensive work; proofs are
    /// verified first.
    fn prepare(&self, env: &Env, ctx: &mut Ctx<'_, ()>) -> Option<Vec<bool>> {
        if !matches!(self.work, Work::Merge(_) | Work::Bundle(_)) {
            return None;
        }
        self.prepare_process(env, ctx);
        let pulse = ctx.pulse();
        let exec = exec(env, ctx, &pulse);
        let refused = Entries::of(env, self.entries()).refused(exec).ok()?;
        Some(refused.iter().map(Option::is_none).collect())
    }

    fn check(&self, _: &Env, prepared: &Vec<bool>, range: Range<usize>) -> bool {
        prepared[range].iter().all(|holds| *holds)
    }

    fn locate(&self, _: &Env, prepared: &Vec<bool>, _: &mut Ctx<'_, ()>) -> Option<Vec<usize>> {
        let places = 0..prepared.len();
        Some(places.filter(|place| !prepared[*place]).collect())
    }

    fn verify_output(&self, env: &Env, output: &Output, ctx: &mut Ctx<'_, ()>) -> bool {
        let pulse = ctx.pulse();
        let exec = exec(env, ctx, &pulse);
        let proof = match output {
            Output::Proof(proof) => proof,
            Output::Verdicts(verdicts) if self.kind() == Kind::VerifyBundle => {
                return verdicts.len() == 1;
            }
            // Verdicts could only be checked by verifying everything again.
            Output::Verdicts(verdicts) => return verdicts.len() == self.inputs(),
            Output::Bad(_) => return self.kind() == Kind::VerifySignatures,
        };
        if let Work::Bundle(entries) = &self.work {
            let refused = Entries::of(env, entries).bundle_refused(exec, proof);
            return refused == Ok(None);
        }
        let Some(entry) = self.made(proof) else {
            return false;
        };
        let entries = [entry];
        Entries::of(env, &entries).refused(exec) == Ok(vec![None])
    }

    fn isolate(&self, _: &Env) -> bool {
        matches!(
            self.kind(),
            Kind::Prove | Kind::Merge | Kind::Bundle | Kind::Split
        )
    }

    fn verifies(&self) -> bool {
        matches!(
            self.kind(),
            Kind::VerifySignatures | Kind::Verify | Kind::VerifyBundle
        )
    }

    /// Encodes the kind, the registries with their keys, and the body as clients send it.
    fn encode(&self) -> Option<Vec<u8>> {
        let body = ssz::encode(&self.work);
        let registries = self.registries();
        let mut w = Writer::with_capacity(body.len() + 64);
        w.u8(Kind::ALL.iter().position(|kind| *kind == self.kind())? as u8);
        w.u8(u8::from(self.cut));
        w.u32(match &self.work {
            Work::Split { kept, .. } => u32::try_from(*kept).ok()?,
            _ => 0,
        });
        w.u32(registries.len() as u32);
        for registry in registries {
            w.u8(registry.set as u8);
            w.u32(registry.number);
            w.bytes_u32_prefixed(&registry.keys);
        }
        w.bytes(&body);
        Some(w.into_vec())
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let unknown = |what, value: u8| DecodeError::UnknownTag {
            what,
            value: u64::from(value),
        };
        let mut r = Reader::new(bytes);
        let (kind, cut, kept) = (r.u8()?, r.u8()?, r.u32()?);
        let kind = Kind::ALL
            .get(usize::from(kind))
            .ok_or(unknown("kind of a job", kind))?;
        let count = r.u32_at_most("registries", ENTRIES_MAX as u32)?;
        let mut registries = BTreeMap::new();
        for _ in 0..count {
            let set = r.u8()?;
            let found = Set::ALL.into_iter().find(|one| *one as u8 == set);
            let found = found.ok_or(unknown("set", set))?;
            let (number, keys) = (r.u32()?, r.bytes_u32_prefixed(KEYS_BYTES_MAX)?);
            let registry = Registry::new(found, number, Bytes::copy_from_slice(keys));
            let registry = registry.map_err(|_| unknown("keys of a registry", set))?;
            registries.insert(registry.digest, Arc::new(registry));
        }
        let body = Bytes::copy_from_slice(r.rest());
        let lookup = |digest: &Digest| registries.get(digest).cloned();
        let work = ssz::decode(*kind, &body, kept as usize, &lookup);
        let work = work.map_err(|_| DecodeError::Missing {
            what: "body of a job",
        })?;
        Ok(Job {
            work,
            cut: cut == 1,
        })
    }

    fn encode_output(&self, output: &Output) -> Option<Vec<u8>> {
        match output {
            Output::Proof(proof) => Some(proof.clone()),
            // Only jobs that make a proof run in a process (`isolate`).
            Output::Verdicts(_) | Output::Bad(_) => None,
        }
    }

    fn decode_output(&self, bytes: &[u8]) -> Result<Output, DecodeError> {
        match bytes.len() {
            0..=EVIDENCE_BYTES_MAX => Ok(Output::Proof(bytes.to_vec())),
            value => Err(DecodeError::TooLong {
                what: "proof",
                value: value as u64,
                max: EVIDENCE_BYTES_MAX as u64,
            }),
        }
    }

    fn portable(_: &Env) -> Option<Env> {
        Some(Env::new(Backend::Portable))
    }

    fn input_digest(&self, index: usize) -> Option<[u8; 32]> {
        let mut hasher = Sha256::new();
        let about = |hasher: &mut Sha256, about: &About| {
            hasher.update(about.registry.digest);
            hasher.update(about.slot.to_le_bytes());
            hasher.update(about.message);
        };
        match &self.work {
            Work::Prove(votes) => {
                let each = votes.set().params().signature_bytes;
                let position = votes.participants.iter_ones().nth(index)?;
                about(&mut hasher, &votes.about);
                hasher.update((position as u32).to_le_bytes());
                hasher.update(votes.signatures.chunks_exact(each).nth(index)?);
            }
            Work::Merge(entries) | Work::Bundle(entries) => {
                let entry = entries.get(index)?;
                about(&mut hasher, &entry.about);
                hasher.update(entry.participants.to_bytes());
                hasher.update(&entry.proof);
            }
            _ => return None,
        }
        Some(hasher.finalize().into())
    }
}
