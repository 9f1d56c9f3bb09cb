//! Blocks: verified entry by entry, so that a block of known collections costs one signature.

use alphorn_scheme::{
    Bytes, Claim, Class, Item, Op, Outcome, Product, Role, SessionId, VerifyJob, Work,
};
use alphorn_types::Epoch;
use std::collections::BTreeMap;

use super::collections::statement;
use super::{Awaited, Refusal, failed_claims};
use crate::horn::deadlines::window_end;
use crate::horn::effects::{Origin, Request};
use crate::horn::machine::Horn;
use crate::horn::state::Standing;
use crate::horn::task::Purpose;
use crate::horn::view::BlockView;
use crate::slot::Phase;
use crate::wire::{Block, Header, Kind, Reject, Root, digest};

/// Blocks in verification at a time.
const RUNNING_MAX: usize = 64;

/// A block whose jobs run.
pub(in crate::horn) struct PendingBlock {
    origin: Origin,
    session: SessionId,
    block: Block,
    root: Root,
    data: Bytes,
    /// The digest of each entry.
    digests: Vec<[u8; 32]>,
    /// Jobs that have not ended.
    jobs_left: usize,
    /// Why it is not taken, from a job that ended.
    failed: Option<Reject>,
    /// A job had no result, so nothing can be said of the block.
    unknown: bool,
}

/// Blocks whose jobs run, by a number: two blocks of one root may differ in their signature, and a
/// forged one must not suppress the other.
#[derive(Default)]
pub(in crate::horn) struct Blocks {
    running: BTreeMap<u64, PendingBlock>,
    next: u64,
}

/// A job of a block.
pub(in crate::horn) struct BlockJob {
    number: u64,
    /// Indices of the entries that it verifies; the proposer's signature comes before them, if
    /// this is the block's first job.
    entries: Vec<usize>,
    signature: bool,
}

impl Horn {
    pub(super) fn admit_block(&mut self, origin: Origin, data: &Bytes) -> Result<(), Refusal> {
        let header = Header::peek(data, &self.format).map_err(Reject::from_decode)?;
        match self.check_window(header.slot) {
            Ok(()) => {
                self.ensure_slot(header.slot).ok_or(Refusal::Unprepared)?;
            }
            // It fills a gap; the chain knows whether it is still of use.
            Err(Reject::TooOld) => {}
            Err(reason) => return Err(reason.into()),
        }
        if self.chain.header(&header.parent).is_none() {
            return Err(Refusal::Park(Awaited::Block(header.parent)));
        }
        let references = |vote: &_, committee| self.reference(vote, committee);
        let block = Block::decode(data, &self.format, &references).map_err(Reject::from_decode)?;
        self.chain.check_header(&header)?;
        let root = header.root();
        let state = self.slots.get(&header.slot);
        if let Some(state) = state {
            let standing = state.proposers.admit(header.proposer, &root);
            // A further block of an equivocator is taken only if others build or vote on it.
            standing
                .map(|_| ())
                .or_else(|reason| match self.lot.awaits(&root) {
                    true => Ok(()),
                    false => Err(reason),
                })?;
        }
        let session = state
            .or(self.slots.values().next_back())
            .ok_or(Refusal::Unprepared)?
            .sessions
            .verify;
        self.check_entries(&block)?;
        if self.blocks.running.len() >= RUNNING_MAX {
            return Err(Reject::Full.into());
        }
        let digests = block
            .body
            .entries
            .iter()
            .map(|entry| entry.digest(&self.format))
            .collect();
        self.verify_block(PendingBlock {
            origin,
            session,
            block,
            root,
            data: data.clone(),
            digests,
            jobs_left: 0,
            failed: None,
            unknown: false,
        });
        Ok(())
    }

    /// Whether the entries can be included, before anything is verified. The votes of another branch
    /// are of its own committees.
    fn check_entries(&mut self, block: &Block) -> Result<(), Refusal> {
        let Header { slot, parent, .. } = &block.header;
        if block.body.entries.len() > usize::from(self.config.collections_per_block_max) {
            return Err(Reject::InvalidBlock.into());
        }
        for entry in &block.body.entries {
            if entry.evidence.support.is_empty() {
                return Err(Reject::NoSigner.into());
            }
            self.chain.check_inclusion(&entry.vote, *slot, parent)?;
            if self.committees_of(&entry.vote).is_none() {
                let mix = self.mix_of(&entry.vote).ok_or(Refusal::Unprepared)?;
                let epoch = entry.vote.slot.epoch(self.config.epoch_slots);
                self.prepare_branch(epoch, mix);
                return Err(Refusal::Park(Awaited::Committees(mix)));
            }
        }
        Ok(())
    }

    /// One job for each epoch of the block's entries that were not verified before; the signature
    /// of the proposer goes with the first. Epochs are named as their key tables.
    fn verify_block(&mut self, mut pending: PendingBlock) {
        let mut by_epoch: BTreeMap<Epoch, Vec<usize>> = BTreeMap::new();
        for (i, entry) in pending.block.body.entries.iter().enumerate() {
            if self.verified.contains(&pending.digests[i]) {
                self.fx.counters.evidence_cached += 1;
            } else {
                let committees = self.committees_of(&entry.vote);
                // `check_entries` has seen that they are ready.
                let table = committees.map_or(Epoch(0), |of| of.assignment.epoch());
                by_epoch.entry(table).or_default().push(i);
            }
        }
        // The signature goes where there is work anyway; every key table knows the proposer.
        let last = by_epoch.keys().next_back().copied();
        let signature_epoch = last.or(self.epochs.table()).unwrap_or(Epoch(0));
        by_epoch.entry(signature_epoch).or_default();
        let number = self.blocks.next;
        self.blocks.next += 1;
        pending.jobs_left = by_epoch.len();
        for (epoch, entries) in by_epoch {
            let signature = epoch == signature_epoch;
            let job = BlockJob {
                number,
                entries,
                signature,
            };
            self.spawn_block_job(&pending, epoch, job);
        }
        self.blocks.running.insert(number, pending);
    }

    fn spawn_block_job(&mut self, pending: &PendingBlock, epoch: Epoch, job: BlockJob) {
        let header = &pending.block.header;
        // Jobs of one group replace each other; a forged block must not replace another's.
        let mut message = pending.root;
        let name = [job.number.to_le_bytes(), epoch.0.to_le_bytes()].concat();
        message[..name.len()].copy_from_slice(&name);
        let signature = job.signature.then(|| Claim::One {
            validator: header.proposer,
            role: Role::Block,
            slot: header.slot,
            message: digest::block_message(self.config.network(), &pending.root),
            signature: pending.block.signature.clone(),
        });
        let entry = |i: &usize| {
            let entry = &pending.block.body.entries[*i];
            let message = digest::vote_message(self.config.network(), &entry.vote);
            Claim::Group {
                statement: statement(&self.config, entry.committee, entry.vote.slot, message),
                evidence: entry.evidence.clone(),
            }
        };
        let claims = signature.into_iter().chain(job.entries.iter().map(entry));
        let items = claims
            .map(|claim| Item {
                claims: vec![claim],
            })
            .collect();
        let op = if job.entries.is_empty() {
            Op::DutyVerify
        } else {
            Op::VerifyCollections
        };
        let request = Request {
            session: pending.session,
            message,
            committee: None,
            subcommittee: None,
            class: Class::Verdict,
            soft: self.clock.phase_start(header.slot, Phase::Vote),
            // Later than the slot's own end where it fills a gap.
            hard: window_end(
                &self.clock,
                header
                    .slot
                    .max(self.clock.slot_at(self.now).unwrap_or_default()),
            ),
            work: Work::Verify(VerifyJob { op, epoch, items }),
        };
        self.fx.spawn(request, Purpose::VerifyBlock(job));
    }

    pub(in crate::horn) fn block_verified(&mut self, job: BlockJob, outcome: Outcome<Product>) {
        let signed = usize::from(job.signature);
        let failed = failed_claims(outcome, signed + job.entries.len());
        let Some(pending) = self.blocks.running.get_mut(&job.number) else {
            return;
        };
        pending.jobs_left -= 1;
        match failed {
            None => {
                self.fx.counters.jobs_failed += 1;
                pending.unknown = true;
            }
            Some(claims) => {
                let good = |(&i, claim): (&usize, &Option<usize>)| claim.is_none().then_some(i);
                let entries = &pending.block.body.entries;
                for i in job.entries.iter().zip(&claims[signed..]).filter_map(good) {
                    self.verified
                        .insert(pending.digests[i], entries[i].vote.slot);
                }
                if job.signature && claims[0].is_some() {
                    pending.failed = Some(Reject::BadEnvelope);
                } else if claims.iter().any(Option::is_some) {
                    pending.failed = pending.failed.or(Some(Reject::BadEvidence));
                }
            }
        }
        if pending.jobs_left == 0
            && let Some(pending) = self.blocks.running.remove(&job.number)
        {
            match pending.failed {
                Some(reason) => self.fx.reject(pending.origin, reason),
                None if pending.unknown => self.fx.ignore(pending.origin),
                None => self.take_block(pending.origin, pending.block, pending.data),
            }
        }
    }

    /// Takes a verified block, or an own one: check 11, then the chain.
    ///
    /// The second block of a proposer is evidence and is not forwarded, but the chain takes it:
    /// others may have seen it first, and a machine that refused it could never follow their
    /// votes.
    pub(in crate::horn) fn take_block(&mut self, origin: Origin, block: Block, data: Bytes) {
        let (header, root) = (block.header, block.header.root());
        if let Err(reason) = self.import(&block) {
            return self.fx.reject(origin, reason);
        }
        if self.is_first_proposal(&header, root, &data) {
            self.fx.accept(Kind::Block, origin);
            if let Some(state) = self.slots.get_mut(&header.slot) {
                let entries = block.body.entries.len();
                state.block.get_or_insert(BlockView {
                    root,
                    bytes: data.len(),
                    entries,
                });
            }
        } else {
            self.fx.reject(origin, Reject::Duplicate);
        }
        self.unpark(&Awaited::Block(root));
    }

    /// Records a block as its proposer's first, or the pair as evidence.
    fn is_first_proposal(&mut self, header: &Header, root: Root, data: &Bytes) -> bool {
        let Some(state) = self.slots.get_mut(&header.slot) else {
            return true;
        };
        match state.proposers.admit(header.proposer, &root) {
            Ok(Standing::First) => {
                state.proposers.insert(header.proposer, data.clone(), root);
                true
            }
            Ok(Standing::Second(first)) => {
                self.fx.evidence(header.slot, first.clone(), data.clone());
                state.proposers.mark_equivocated(header.proposer);
                false
            }
            Err(_) => false,
        }
    }
}
