//! XMSS as a scheme of the protocol: aggregates and collections are lists of signatures, or collections are
//! proofs, or both are.

mod cost;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use alphorn_exec::{Backend, Exec};
use alphorn_scheme::model::Merged;
use alphorn_scheme::watermark::check_permits;
use alphorn_scheme::{
    Abilities, Bundled, Bytes, Claim, Cost, Ctx, Evidence, EvidenceLength, Form, Layer, Op,
    Overlap, Part, Reservation, Scheme, SchemeError, Security, SignItem, Signatures, Sizes,
    Statement,
    list::{self, Needed, Verdicts},
};
use alphorn_stark::security::Table;
use alphorn_types::{Assignment, Layout, Slot, Validator};

use crate::claims::{Wanted, hold, wanted};
use crate::collection::{self, block};
use crate::key::{Purpose, SignError};
use crate::params::Set;
use crate::proof::{ProofRegistry, Proofs};
use crate::registry::{EpochKeys, Registry, Signers};

/// Size of the largest committee, which is the registry of a statement.
pub const COMMITTEE_MAX: u32 = 1 << 15;

/// Number of signatures that one thread decodes and verifies at a time; takes some milliseconds.
const CHUNK: usize = 64;

/// XMSS signatures of one set.
#[derive(Clone, Copy, Debug)]
pub struct Xmss {
    set: Set,
    backend: Backend,
    /// The proofs used for evidence; lists if there are none.
    proofs: Option<Proofs>,
    /// The first layer whose evidence is proved.
    proved_from: Layer,
}

impl Xmss {
    /// The scheme of a set on a kernel, with aggregates and collections as lists.
    pub fn new(set: Set, backend: Backend) -> Xmss {
        Xmss {
            set,
            backend,
            proofs: None,
            proved_from: Layer::Collection,
        }
    }

    /// The scheme with collections as proofs.
    pub fn with_proofs(proofs: Proofs, backend: Backend) -> Xmss {
        Xmss {
            set: proofs.set(),
            backend,
            proofs: Some(proofs),
            proved_from: Layer::Collection,
        }
    }

    /// The scheme with aggregates as proofs, which collections merge, so a collector does not verify any vote's
    /// signature. A cell has at most [`Proofs::mergeable_max`] validators.
    ///
    /// # Panics
    /// If proofs under this preset cannot be merged: only those under the preset `fast` can.
    pub fn with_proofs_of_cells(proofs: Proofs, backend: Backend) -> Xmss {
        assert!(
            collection::merges_cells(&proofs),
            "proofs of the set {} under the preset {} do not merge",
            proofs.set(),
            proofs.preset().name
        );
        Xmss {
            proved_from: Layer::Aggregate,
            ..Xmss::with_proofs(proofs, backend)
        }
    }

    /// The proofs for evidence of a layer, if its evidence is proofs.
    fn proofs_of(&self, layer: Layer) -> Option<&Proofs> {
        // Layers are ordered: where aggregates are proofs, so are the collections above them.
        self.proofs.as_ref().filter(|_| layer >= self.proved_from)
    }

    /// The proofs of collections if those of a block are bundled: where evidence of cells is proofs, evidence of
    /// committees is one proof with a circuit.
    fn bundles(&self) -> Option<&Proofs> {
        self.proofs_of(Layer::Aggregate)
    }

    /// Whether evidence can be made for all units of a layout.
    ///
    /// # Errors
    /// [`SchemeError::CommitteeSize`]; [`SchemeError::Unsupported`] for cells too large for a proof, and for more
    /// levels than merges have.
    pub fn check_layout(&self, layout: &Layout) -> Result<(), SchemeError> {
        SchemeError::check_committees(layout, COMMITTEE_MAX)?;
        let unsupported = |what| SchemeError::Unsupported {
            scheme: "xmss",
            what,
        };
        if let Some(proofs) = self.proofs_of(Layer::Aggregate)
            && layout.cell_len_max() as usize > proofs.mergeable_max()
        {
            let what =
                "prove cells of more validators than a merged proof may have: use more cells";
            return Err(unsupported(what));
        }
        // With two levels all levels of merges are those of collections, so there is nothing to divide.
        let top = layout.levels();
        let Some(proofs) = self.proofs.filter(|p| p.mergeable() && top > 2) else {
            return Ok(());
        };
        if !collection::merges_cells(&proofs) {
            let what = "merge proofs of groups under this preset: use fast, or two levels";
            return Err(unsupported(what));
        }
        match collection::merges_max(&proofs, layout, top) {
            Some(_) => Ok(()),
            None => Err(unsupported(
                "merge proofs as often as this layout asks for: use fewer levels",
            )),
        }
    }

    /// The form of merged collections; none for lists.
    pub fn merged(&self) -> Option<Merged> {
        let proofs = self.proofs.as_ref().filter(|proofs| proofs.mergeable())?;
        let (merge_ns, _) = collection::merge_verify_cost();
        // A message holds three signatures next to the merge.
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
        let tables = [Some(proofs.security()), proofs.merge_security()];
        let bits = tables.iter().flatten().map(Table::least_bits);
        let bits = bits.fold(f64::INFINITY, f64::min);
        Security {
            // The least over all rounds, rounded down.
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
        let proofs = [Layer::Aggregate, Layer::Collection].map(|layer| self.proofs_of(layer));
        Abilities {
            unique: false,
            one_time: true,
            overlap: proofs.map(|proofs| match proofs {
                Some(proofs) if !proofs.mergeable() => Overlap::None,
                _ => Overlap::Union,
            }),
            layers: proofs.map(|proofs| match proofs {
                Some(_) => Form::Proof,
                None => Form::List,
            }),
            committee_max: Some(COMMITTEE_MAX),
            bundle_max: self.bundles().map(|_| block::COLLECTIONS_MAX),
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
        self.cost_of(op, n, m)
    }

    fn portable(&self) -> Xmss {
        Xmss {
            backend: Backend::Portable,
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
        SchemeError::check_registry(registry.len(), layout)?;
        self.check_layout(layout)?;
        let pulse = ctx.pulse();
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
        let permits = check_permits(slot, items, permits)?;
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        let one_thread = Exec::new(self.backend, None).with_watch(&pulse);
        let signed = exec.map(items.len(), |i| {
            let item = &items[i];
            let key = signers.key(item.validator, Purpose::of(item.role));
            let key = key.ok_or(SchemeError::UnknownSigner(item.validator.0))?;
            // Each permit is taken once because the list is walked once.
            match key.sign(permits.take(i, item)?, one_thread) {
                Ok(signature) => Ok(signature.to_bytes()),
                Err(SignError::Stopped) => Err(SchemeError::Stopped),
                // The key cannot use this reservation, which is spent.
                Err(_) => Err(SchemeError::WrongReservation(item.validator.0)),
            }
        });
        let bytes = self.set.params().signature_bytes;
        let mut all = Vec::with_capacity(items.len() * bytes);
        for signature in signed {
            all.extend_from_slice(&signature?);
        }
        Ok(Signatures::new(bytes, all))
    }

    fn prepare(
        &self,
        keys: &EpochKeys,
        claims: &[Claim],
        // Other schemes weigh claims randomly to test them together. Here each signature is verified by itself.
        _secret: &[u8; 32],
        ctx: &mut Ctx<'_, ()>,
    ) -> Verdicts {
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        let one_thread = Exec::new(self.backend, None).with_watch(&pulse);
        let proof_holds = |statement: &Statement, evidence: &Evidence| {
            let proofs = self.proofs_of(statement.layer);
            proofs.is_some_and(|proofs| {
                collection::holds(proofs, one_thread, keys, statement, evidence)
            })
        };
        let hold = |wanted: &[Wanted<'_>]| hold(self.set, self.backend, wanted);
        list::decide(
            claims,
            exec,
            CHUNK,
            |_, claim| match claim {
                Claim::Group { statement, .. } if self.proofs_of(statement.layer).is_some() => {
                    Needed::Proof
                }
                claim => wanted(self.set, keys, claim).map_or(Needed::Nothing, Needed::Signatures),
            },
            hold,
            proof_holds,
        )
    }

    fn check(&self, _keys: &EpochKeys, prepared: &Verdicts, range: Range<usize>) -> bool {
        prepared.hold(range)
    }

    fn locate(
        &self,
        _keys: &EpochKeys,
        prepared: &Verdicts,
        _ctx: &mut Ctx<'_, ()>,
    ) -> Option<Vec<usize>> {
        Some(prepared.failed())
    }

    fn aggregate<B: AsRef<[u8]>>(
        &self,
        keys: &EpochKeys,
        statement: &Statement,
        votes: &[(u32, B)],
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        let list = list::aggregate(statement, votes, self.set.params().signature_bytes)?;
        let Some(proofs) = self.proofs_of(statement.layer) else {
            return Ok(list);
        };
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        // Votes ascend in position, or `list::aggregate` would have refused them.
        let vote_of = |position| votes.partition_point(|(before, _)| *before < position);
        collection::prove(proofs, exec, keys, statement, &list, &vote_of)
    }

    /// The union of lists, as a list or as a proof. Proofs are merged into a proof of the union, together with a
    /// proof of the lists among them.
    fn combine(
        &self,
        keys: &EpochKeys,
        statement: &Statement,
        parts: &[Part],
        // A union counts each signer once.
        _multiplicity_max: u8,
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        match &self.proofs {
            Some(proofs) if parts.iter().any(|part| self.is_proof(part)) => {
                self.merge(proofs, exec, keys, statement, parts)
            }
            _ => self.unite(exec, keys, statement, parts),
        }
    }

    fn bundle_length(&self, collections: u16) -> EvidenceLength {
        let proofs = self.bundles();
        EvidenceLength::Max(proofs.map_or(0, |p| p.bundle_bytes_max(collections.into())))
    }

    fn bundle(
        &self,
        collections: &[(Bundled<'_, EpochKeys>, &[u8])],
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<Bytes, SchemeError> {
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        match self.bundles() {
            Some(proofs) => block::bundle(proofs, exec, collections),
            None => Err(SchemeError::Unsupported {
                scheme: "xmss",
                what: "prove several collections together: only proofs of cells do",
            }),
        }
    }

    fn verify_bundle(
        &self,
        collections: &[Bundled<'_, EpochKeys>],
        evidence: &[u8],
        ctx: &mut Ctx<'_, ()>,
    ) -> bool {
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        let proofs = self.bundles();
        proofs.is_some_and(|proofs| block::verify(proofs, exec, collections, evidence))
    }
}

impl Xmss {
    fn is_proof(&self, part: &Part) -> bool {
        self.proofs_of(part.layer).is_some()
    }

    /// The union of lists, proved if the statement's layer is proved.
    fn unite(
        &self,
        exec: Exec<'_>,
        keys: &EpochKeys,
        statement: &Statement,
        lists: &[Part],
    ) -> Result<Evidence, SchemeError> {
        let union = list::union(statement, lists, self.set.params().signature_bytes)?;
        let list_of = |position| collection::part_with(lists, position);
        match self.proofs_of(statement.layer) {
            None => Ok(union),
            Some(proofs) => collection::prove(proofs, exec, keys, statement, &union, &list_of),
        }
    }

    /// The merge of proofs and of a proof of the lists among them.
    fn merge(
        &self,
        proofs: &Proofs,
        exec: Exec<'_>,
        keys: &EpochKeys,
        statement: &Statement,
        parts: &[Part],
    ) -> Result<Evidence, SchemeError> {
        let (proved, listed): (Vec<_>, Vec<_>) =
            (0..).zip(parts).partition(|(_, part)| self.is_proof(part));
        let listed = match listed.is_empty() {
            true => None,
            false => {
                let lists: Vec<Part> = listed.iter().map(|(_, part)| (*part).clone()).collect();
                let united = self.unite(exec, keys, statement, &lists);
                Some(united.map_err(|error| match error {
                    // `unite` numbers the lists, the caller all parts.
                    SchemeError::Malformed(i) => SchemeError::Malformed(listed[i].0),
                    error => error,
                })?)
            }
        };
        collection::merge(proofs, exec, keys, statement, &proved, listed)
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
        // Members are below the registry's size, which was compared, as was the committee's.
        let made = keys.and_then(|keys| proofs.registry(exec, keys, committee.into()).ok());
        made.ok_or(SchemeError::Unsupported {
            scheme: "xmss",
            what: "prove votes under keys of another set",
        })
    };
    (0..layout.committees()).map(of_committee).collect()
}
