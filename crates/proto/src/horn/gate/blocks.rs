//! Blocks: the proposer's signature first, then entry by entry, so that a block of known collections
//! costs one signature, and a forged one no more.

use alphorn_scheme::{
    Bytes, Claim, Class, Item, Op, Outcome, Product, Role, SessionId, VerifyJob, Work,
};
use alphorn_types::Epoch;
use std::collections::BTreeMap;

use super::collections::statement;
use super::{Awaited, ITEMS_PER_JOB_MAX, Refusal, failed_claims};
use crate::contract::Peer;
use crate::horn::batch::Batch;
use crate::horn::deadlines::window_end;
use crate::horn::effects::{Origin, Request};
use crate::horn::fair::{FairQueue, Room, Waits};
use crate::horn::machine::{Due, Horn};
use crate::horn::state::Standing;
use crate::horn::task::Purpose;
use crate::horn::view::BlockView;
use crate::slot::Phase;
use crate::wire::{BLOCK_BYTES_MAX, Block, Entry, Header, Kind, Reject, Root, digest};

/// Blocks whose proposer's signature, or whose entries, wait for their verification at most. Room
/// by peer: the copies of a block that one peer forges keep no other peer's out.
pub(in crate::horn) const ROOM: Room = Room {
    items: 64,
    bytes: 4 * BLOCK_BYTES_MAX,
};
/// Blocks whose entries are verified at a time, in as many bytes as wait at most.
const RUNNING_MAX: usize = 64;
/// Those of them that one proposer signed for one slot: the first, and a second as evidence.
const RUNNING_PER_PROPOSAL_MAX: usize = 2;

/// A block that waits for the verification of its proposer's signature, and then of its entries.
pub(in crate::horn) struct WaitingBlock {
    origin: Origin,
    block: Block,
    root: Root,
    data: Bytes,
}

impl Waits for WaitingBlock {
    fn peer(&self) -> Option<Peer> {
        self.origin.map(|(peer, _)| peer)
    }

    fn held_bytes(&self) -> usize {
        let entries = self.block.body.entries.iter().map(Entry::raw_bytes);
        size_of::<Self>() + self.data.len() + entries.sum::<usize>()
    }
}

/// A block whose entries are in verification.
struct PendingBlock {
    waiting: WaitingBlock,
    /// The digest of each entry.
    digests: Vec<[u8; 32]>,
    /// Jobs that have not ended.
    jobs_left: usize,
    /// Why it is not taken, from a job that ended.
    failed: Option<Reject>,
    /// A job had no result, so nothing can be said of the block.
    unknown: bool,
}

/// Blocks on their way: first the proposer's signature, which costs little, then the entries. Two
/// blocks of one root may differ in their signature, and a forged one must not suppress the other.
#[derive(Default)]
pub(in crate::horn) struct Blocks {
    /// Those whose signature is not verified yet.
    batch: Batch<WaitingBlock>,
    /// Those whose signature holds.
    signed: FairQueue<WaitingBlock>,
    /// Those whose entries are in verification, by a number.
    running: BTreeMap<u64, PendingBlock>,
    next: u64,
}

impl Blocks {
    /// Bytes of all blocks that wait or whose entries are in verification.
    pub(in crate::horn) fn bytes(&self) -> usize {
        self.batch.bytes() + self.signed.bytes() + self.running_bytes()
    }

    fn running_bytes(&self) -> usize {
        let running = self.running.values();
        running.map(|pending| pending.waiting.held_bytes()).sum()
    }

    /// The oldest block whose entries can be verified now.
    fn pop(&mut self) -> Option<WaitingBlock> {
        if self.running.len() >= RUNNING_MAX {
            return None;
        }
        let (running, bytes) = (&self.running, self.running_bytes());
        let proposal = |waiting: &WaitingBlock| {
            let Header { slot, proposer, .. } = waiting.block.header;
            (slot, proposer)
        };
        let fits = |waiting: &WaitingBlock| {
            let all = running.values().map(|pending| &pending.waiting);
            let same = all.filter(|other| proposal(other) == proposal(waiting));
            same.count() < RUNNING_PER_PROPOSAL_MAX && bytes + waiting.held_bytes() <= ROOM.bytes
        };
        self.signed.take(1, fits).pop()
    }
}

/// A job of a block.
pub(in crate::horn) struct BlockJob {
    number: u64,
    /// Indices of the entries that it verifies.
    entries: Vec<usize>,
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
        if header.proposer != self.chain.proposer(header.slot) {
            return Err(Reject::WrongProposer.into());
        }
        if self.chain.header(&header.parent).is_none() {
            return Err(Refusal::Park(Awaited::Block(header.parent), None));
        }
        let references = |vote: &_, committee| self.reference(vote, committee);
        let block = Block::decode(data, &self.format, &references).map_err(Reject::from_decode)?;
        self.chain.check_header(&header)?;
        let root = header.root();
        self.check_proposal(&header, &root)?;
        self.check_entries(&block)?;
        let waiting = WaitingBlock {
            origin,
            block,
            root,
            data: data.clone(),
        };
        let taken = self.blocks.batch.offer(waiting, ROOM).ok_or(Reject::Full)?;
        if taken.due {
            self.due.insert(Due::Blocks);
        }
        for gone in taken.displaced {
            self.fx.reject(gone.origin, Reject::Full);
        }
        Ok(())
    }

    /// Check 7: a further block of an equivocator is taken only if others build or vote on it.
    fn check_proposal(&self, header: &Header, root: &Root) -> Result<(), Reject> {
        let state = self.slots.get(&header.slot);
        let standing = state.map(|state| state.proposers.admit(header.proposer, root));
        match standing {
            Some(Err(reason)) if !self.lot.awaits(root) => Err(reason),
            _ => Ok(()),
        }
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
                return Err(Refusal::Park(Awaited::Committees(mix), None));
            }
        }
        Ok(())
    }

    /// Verifies the signatures of the proposers of all blocks that wait, in one job.
    pub(super) fn verify_proposers(&mut self) {
        // Every key table knows every proposer. The session is that of the newest slot, so that the
        // end of an older one does not cancel the job.
        let (Some(epoch), Some(state)) = (self.epochs.table(), self.slots.values().next_back())
        else {
            let waiting = self.blocks.batch.give_up(|_| true);
            waiting.iter().for_each(|gone| self.fx.ignore(gone.origin));
            return;
        };
        let blocks = self.blocks.batch.take(ITEMS_PER_JOB_MAX, |_| true);
        if blocks.is_empty() {
            return;
        }
        let signature = |waiting: &WaitingBlock| Claim::One {
            validator: waiting.block.header.proposer,
            role: Role::Block,
            slot: waiting.block.header.slot,
            message: digest::block_message(self.config.network(), &waiting.root),
            signature: waiting.block.signature.clone(),
        };
        let item = |waiting| Item {
            claims: vec![signature(waiting)],
        };
        let job = VerifyJob {
            op: Op::DutyVerify,
            epoch,
            items: blocks.iter().map(item).collect(),
        };
        let request = Request {
            session: state.sessions.verify,
            // No root: the job replaces none about a single block.
            message: [0xff; 32],
            committee: None,
            subcommittee: None,
            class: Class::Verdict,
            soft: self.clock.phase_start(state.slot, Phase::Vote),
            hard: window_end(&self.clock, state.slot),
            work: Work::Verify(job),
        };
        self.fx.spawn(request, Purpose::VerifyProposers { blocks });
    }

    pub(in crate::horn) fn proposers_verified(
        &mut self,
        blocks: Vec<WaitingBlock>,
        outcome: Outcome<Product>,
    ) {
        let failed = failed_claims(outcome, blocks.len());
        self.fx.counters.jobs_failed += u64::from(failed.is_none());
        for (i, waiting) in blocks.into_iter().enumerate() {
            let origin = waiting.origin;
            match &failed {
                None => self.fx.ignore(origin),
                Some(claims) if claims[i].is_some() => self.fx.reject(origin, Reject::BadEnvelope),
                Some(_) => match self.blocks.signed.offer(waiting, ROOM) {
                    Err(_) => self.fx.reject(origin, Reject::Full),
                    Ok(displaced) => {
                        for gone in displaced {
                            self.fx.reject(gone.origin, Reject::Full);
                        }
                    }
                },
            }
        }
        if self.blocks.batch.ended() {
            self.due.insert(Due::Blocks);
        }
        self.verify_blocks();
    }

    /// Verifies the entries of the blocks whose signature holds, as many as there is room for.
    fn verify_blocks(&mut self) {
        while let Some(waiting) = self.blocks.pop() {
            let (origin, header) = (waiting.origin, waiting.block.header);
            // Another one may have been taken meanwhile, and branches come and go.
            let checked = self.chain.check_header(&header);
            let checked = checked.and_then(|()| self.check_proposal(&header, &waiting.root));
            let checked = checked.map_err(Refusal::from);
            match checked.and_then(|()| self.check_entries(&waiting.block)) {
                Ok(()) => self.verify_entries(waiting),
                Err(Refusal::Reject(reason)) => self.fx.reject(origin, reason),
                Err(_) => self.fx.ignore(origin),
            }
        }
    }

    /// One job for each epoch of the block's entries that were not verified before; epochs are named
    /// as their key tables.
    fn verify_entries(&mut self, waiting: WaitingBlock) {
        let header = &waiting.block.header;
        let state = self.slots.get(&header.slot);
        let Some(state) = state.or(self.slots.values().next_back()) else {
            return self.fx.ignore(waiting.origin);
        };
        let session = state.sessions.verify;
        let entries = &waiting.block.body.entries;
        let digests: Vec<_> = entries.iter().map(|one| one.digest(&self.format)).collect();
        let mut by_epoch: BTreeMap<Epoch, Vec<usize>> = BTreeMap::new();
        for (i, entry) in entries.iter().enumerate() {
            if self.verified.contains(&digests[i]) {
                self.fx.counters.evidence_cached += 1;
            } else {
                let committees = self.committees_of(&entry.vote);
                // `check_entries` has seen that they are ready.
                let table = committees.map_or(Epoch(0), |of| of.assignment.epoch());
                by_epoch.entry(table).or_default().push(i);
            }
        }
        if by_epoch.is_empty() {
            return self.take_block(waiting.origin, waiting.block, waiting.data);
        }
        let number = self.blocks.next;
        self.blocks.next += 1;
        let pending = PendingBlock {
            waiting,
            digests,
            jobs_left: by_epoch.len(),
            failed: None,
            unknown: false,
        };
        for (epoch, entries) in by_epoch {
            self.spawn_block_job(&pending, session, epoch, BlockJob { number, entries });
        }
        self.blocks.running.insert(number, pending);
    }

    fn spawn_block_job(
        &mut self,
        pending: &PendingBlock,
        session: SessionId,
        epoch: Epoch,
        job: BlockJob,
    ) {
        let WaitingBlock { block, root, .. } = &pending.waiting;
        let header = &block.header;
        // Jobs of one group replace each other; a forged block must not replace another's.
        let mut message = *root;
        let name = [job.number.to_le_bytes(), epoch.0.to_le_bytes()].concat();
        message[..name.len()].copy_from_slice(&name);
        let item = |i: &usize| {
            let entry = &block.body.entries[*i];
            let message = digest::vote_message(self.config.network(), &entry.vote);
            let claim = Claim::Group {
                statement: statement(&self.config, entry.committee, entry.vote.slot, message),
                evidence: entry.evidence.clone(),
            };
            Item {
                claims: vec![claim],
            }
        };
        let verify = VerifyJob {
            op: Op::VerifyCollections,
            epoch,
            items: job.entries.iter().map(item).collect(),
        };
        let request = Request {
            session,
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
            work: Work::Verify(verify),
        };
        self.fx.spawn(request, Purpose::VerifyBlock(job));
    }

    pub(in crate::horn) fn block_verified(&mut self, job: BlockJob, outcome: Outcome<Product>) {
        let failed = failed_claims(outcome, job.entries.len());
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
                let entries = &pending.waiting.block.body.entries;
                for (&i, claim) in job.entries.iter().zip(&claims) {
                    match claim {
                        None => self
                            .verified
                            .insert(pending.digests[i], entries[i].vote.slot),
                        Some(_) => pending.failed = Some(Reject::BadEvidence),
                    }
                }
            }
        }
        if pending.jobs_left == 0
            && let Some(pending) = self.blocks.running.remove(&job.number)
        {
            let WaitingBlock {
                origin,
                block,
                data,
                ..
            } = pending.waiting;
            match pending.failed {
                Some(reason) => self.fx.reject(origin, reason),
                None if pending.unknown => self.fx.ignore(origin),
                None => self.take_block(origin, block, data),
            }
            self.verify_blocks();
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
