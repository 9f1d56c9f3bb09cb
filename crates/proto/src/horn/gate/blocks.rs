//! Block validation: the proposer's signature first, then entry by entry, so that a block of known
//! collections costs one signature, and a forged one no more. Where one piece of evidence proves all
//! entries, it is always verified even if the entries are known, so that a block is the same for all
//! nodes.

use alphorn_scheme::{Bytes, Claim, Class, Item, Op, Outcome, Product, Role, VerifyJob, Work};
use alphorn_types::{Epoch, Peer, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::block_job::{BlockJob, Checks, spawn_block_job};
use super::closed::BlockOrder;
use super::verdicts::failed_claims;
use super::{Awaited, Due, Gate, ITEMS_PER_JOB_MAX, Job, Made, Refusal, check_window};
use crate::horn::batch::Batch;
use crate::horn::deadlines::window_end;
use crate::horn::effects::{Effects, Origin, Request};
use crate::horn::fair::{FairQueue, Room, Waits};
use crate::horn::role::Lent;
use crate::horn::state::{Proposal, SlotState, Standing};
use crate::horn::store::Received;
use crate::horn::task::Purpose;
use crate::horn::view::BlockView;
use crate::slot::Phase;
use crate::wire::{BLOCK_BYTES_MAX, Block, Entry, Header, Kind, Reject, Root, Topic, digest};

/// Limit on blocks awaiting verification of the proposer's signature or of the entries. Room is divided
/// by peer, so copies of a block forged by one peer do not displace other peers' blocks.
pub(in crate::horn) const ROOM: Room = Room {
    items: 64,
    // The largest block takes less than three: as received, its entries in raw planes, its bundle.
    bytes: 4 * BLOCK_BYTES_MAX,
};
/// Maximum number of blocks whose entries are verified at a time. Their bytes have the same limit as
/// those of waiting blocks.
const RUNNING_MAX: usize = 64;
/// Maximum number of these that one proposer signed for one slot: the first, and a second as evidence.
const RUNNING_PER_PROPOSAL_MAX: usize = 2;

/// A block awaiting verification of its proposer's signature, and then of its entries.
pub(in crate::horn) struct WaitingBlock {
    pub(super) origin: Origin,
    pub(in crate::horn) block: Arc<Received<Block>>,
    pub(super) root: Root,
}

impl WaitingBlock {
    pub(super) fn new(lent: &Lent<'_>, origin: Origin, block: Arc<Received<Block>>) -> Self {
        let root = *block.content(lent.config.network(), lent.format);
        Self {
            origin,
            block,
            root,
        }
    }
}

impl Waits for WaitingBlock {
    fn peer(&self) -> Option<Peer> {
        self.origin.map(|(peer, _)| peer)
    }

    fn held_bytes(&self) -> usize {
        let body = &self.block.body;
        let entries = body.entries.iter().map(Entry::raw_bytes);
        size_of::<Self>() + self.block.data.len() + body.bundle.len() + entries.sum::<usize>()
    }
}

/// A block whose entries are being verified.
struct PendingBlock {
    waiting: WaitingBlock,
    /// Number of unfinished jobs.
    jobs_left: usize,
    /// Reject reason from a job that ended.
    failed: Option<Reject>,
    /// A job had no result, so the block cannot be judged.
    unknown: bool,
}

/// Blocks in validation: first the cheap proposer's signature, then the entries. Two blocks with the same
/// root may differ in their signature, and a forged one must not suppress the other.
#[derive(Default)]
pub(in crate::horn) struct Blocks {
    /// Blocks whose signature is not verified yet.
    batch: Batch<WaitingBlock>,
    /// Blocks with a valid signature.
    signed: FairQueue<WaitingBlock>,
    /// Blocks whose entries are being verified, by number.
    running: BTreeMap<u64, PendingBlock>,
    next: u64,
}

impl Blocks {
    /// Bytes of all blocks that are waiting or whose entries are being verified.
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
        // Not only the first in line: a proposer with two blocks in verification does not hold up the
        // blocks of others behind its third.
        self.signed.take(1, fits).pop()
    }
}

impl Gate {
    pub(super) fn admit_block(
        &mut self,
        lent: &mut Lent<'_>,
        origin: Origin,
        data: &Bytes,
    ) -> Result<(), Refusal> {
        let header = Header::peek(data, lent.format).map_err(Reject::from_decode)?;
        match check_window(lent, header.slot) {
            Ok(()) => {
                lent.ensure_slot(header.slot).ok_or(Refusal::Unprepared)?;
            }
            // It fills a gap. The chain knows whether it is still useful.
            Err(Reject::TooOld) => {}
            Err(reason) => return Err(reason.into()),
        }
        if header.proposer != lent.chain.proposer(header.slot) {
            return Err(Reject::WrongProposer.into());
        }
        if lent.chain.header(&header.parent).is_none() {
            return Err(Refusal::Park(Awaited::Block(header.parent), None));
        }
        // The body is decoded only now: its supports may be coded relative to blocks of the parent's
        // chain.
        let references = |vote: &_, committee| lent.chain.reference(vote, committee);
        let block = lent.store.read(data, lent.format, &references);
        let block = block.map_err(Reject::from_decode)?;
        lent.chain.check_header(&header)?;
        let waiting = WaitingBlock::new(lent, origin, block);
        self.check_proposal(lent, &header, &waiting.root)?;
        check_entries(lent, &waiting.block)?;
        let taken = self.blocks.batch.offer(waiting, ROOM).ok_or(Reject::Full)?;
        if taken.due {
            self.due.insert(Due::Blocks);
        }
        for gone in taken.displaced {
            lent.fx.reject(gone.origin, Reject::Full);
        }
        Ok(())
    }

    /// Check 7: a further block of an equivocator, or of a signer of false evidence, is accepted only if
    /// others build or vote on it: at least as many peers as there were false blocks. What those peers
    /// sent is not verified, so a single peer must not be able to get a false block checked again and
    /// again. A block that the network built on is still accepted, however many false ones there were.
    fn check_proposal(&self, lent: &Lent<'_>, header: &Header, root: &Root) -> Result<(), Reject> {
        let slot = header.slot;
        let (standing, false_blocks) = match lent.slots.get(&slot) {
            Some(state) if state.false_blocks > 0 => (Err(Reject::Duplicate), state.false_blocks),
            Some(state) => (state.admit_block(root).map(|_| ()), 0),
            None => (
                self.closed.admit(slot, root),
                self.closed.false_blocks(slot),
            ),
        };
        let enough = false_blocks.max(1) as usize;
        standing.or_else(|reason| match self.lot.speakers(root) >= enough {
            true => Ok(()),
            false => Err(reason),
        })
    }

    /// Checks that the committees of the entries are ready. Votes of another branch use that branch's
    /// committees, which are expensive to draw. Only a block with a valid proposer signature triggers
    /// that, and waits for them.
    fn check_committees(&mut self, lent: &Lent<'_>, block: &Block) -> Result<(), Refusal> {
        let mut votes = block.body.entries.iter().map(|entry| &entry.vote);
        let Some(vote) = votes.find(|vote| lent.committees_of(vote).is_none()) else {
            return Ok(());
        };
        // One branch at a time. Once its committees are ready the block is admitted again, and if votes
        // of another epoch lack theirs too, it waits again.
        let mix = lent.mix_of(vote).ok_or(Refusal::Unprepared)?;
        self.made.push_back(Made::Branch {
            epoch: vote.slot.epoch(lent.config.epoch_slots),
            mix,
            proposer: block.header.proposer,
        });
        Err(Refusal::Park(Awaited::Committees(mix), None))
    }

    /// Verifies the proposers' signatures of all waiting blocks in one job.
    pub(super) fn verify_proposers(&mut self, lent: &mut Lent<'_>) {
        let blocks = self.blocks.batch.take(ITEMS_PER_JOB_MAX, |_| true);
        if !blocks.is_empty() {
            self.spawn_proposers(lent, blocks, 1);
        }
    }

    pub(super) fn spawn_proposers(
        &mut self,
        lent: &mut Lent<'_>,
        blocks: Vec<WaitingBlock>,
        tries: u8,
    ) {
        // Every key table contains every proposer. Use the session of the newest slot, so that the end of
        // an older one does not cancel the job.
        let (Some(epoch), Some(state)) = (lent.epochs.table(), lent.slots.values().next_back())
        else {
            return self.proposers_verified(lent, blocks, Outcome::Cancelled);
        };
        let signature = |waiting: &WaitingBlock| Claim::One {
            validator: waiting.block.header.proposer,
            role: Role::Block,
            slot: waiting.block.header.slot,
            message: digest::block_message(lent.config.network(), &waiting.root),
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
            // Not a root, so the job has no group in common with one about a single block.
            message: [0xff; 32],
            committee: None,
            subcommittee: None,
            class: Class::Verdict,
            soft: lent.clock.phase_start(state.slot, Phase::Vote),
            hard: window_end(lent.clock, state.slot),
            work: Work::Verify(job),
        };
        lent.fx
            .spawn(request, Purpose::Gate(Job::Proposers { blocks, tries }));
    }

    pub(super) fn proposers_verified(
        &mut self,
        lent: &mut Lent<'_>,
        blocks: Vec<WaitingBlock>,
        outcome: Outcome<Product>,
    ) {
        let failed = failed_claims(outcome, blocks.len());
        lent.fx.counters.jobs_failed += u64::from(failed.is_none());
        for (i, waiting) in blocks.into_iter().enumerate() {
            let origin = waiting.origin;
            match &failed {
                None => lent.fx.ignore(origin),
                Some(claims) if claims[i].is_some() => lent.fx.reject(origin, Reject::BadEnvelope),
                Some(_) => match self.blocks.signed.offer(waiting, ROOM) {
                    Err(_) => lent.fx.reject(origin, Reject::Full),
                    Ok(displaced) => {
                        for gone in displaced {
                            lent.fx.reject(gone.origin, Reject::Full);
                        }
                    }
                },
            }
        }
        if self.blocks.batch.ended() {
            self.due.insert(Due::Blocks);
        }
        self.verify_blocks(lent);
    }

    /// Verifies the entries of blocks with a valid signature, as many as there is room for. A block of
    /// known entries goes to the chain, and the next one is judged after the chain's verdict on it.
    fn verify_blocks(&mut self, lent: &mut Lent<'_>) {
        while let Some(waiting) = self.blocks.pop() {
            let (origin, header) = (waiting.origin, waiting.block.header);
            // Another block may have been accepted in the meantime, and branches come and go.
            let checked = lent.chain.check_header(&header);
            let checked = checked.and_then(|()| self.check_proposal(lent, &header, &waiting.root));
            let checked = checked.and_then(|()| check_entries(lent, &waiting.block));
            let checked = checked.map_err(Refusal::from);
            match checked.and_then(|()| self.check_committees(lent, &waiting.block)) {
                Ok(()) => {
                    if let Some(known) = self.verify_entries(lent, waiting) {
                        return self.made.push_back(Made::Block(known));
                    }
                }
                Err(refusal) => {
                    let data = waiting.block.data.clone();
                    self.refuse(lent, refusal, Topic::Block, origin, data);
                }
            }
        }
    }

    /// Spawns one job per epoch of the block's entries not verified before, with epochs named after their
    /// key tables, or one job for all entries if one piece of evidence proves them. Returns the block if
    /// there is nothing to verify.
    fn verify_entries(
        &mut self,
        lent: &mut Lent<'_>,
        waiting: WaitingBlock,
    ) -> Option<WaitingBlock> {
        let header = &waiting.block.header;
        // A block that fills a gap has no open slot of its own, and uses a session of the newest one.
        let state = lent.slots.get(&header.slot);
        let Some(state) = state.or(lent.slots.values().next_back()) else {
            lent.fx.ignore(waiting.origin);
            return None;
        };
        let session = state.sessions.verify;
        let jobs = match lent.format.bundle {
            _ if waiting.block.body.entries.is_empty() => Vec::new(),
            Some(_) => vec![Checks::Bundle],
            None => self.unknown_entries(lent, &waiting),
        };
        if jobs.is_empty() {
            return Some(waiting);
        }
        let number = self.blocks.next;
        self.blocks.next += 1;
        let pending = PendingBlock {
            waiting,
            jobs_left: jobs.len(),
            failed: None,
            unknown: false,
        };
        for what in jobs {
            spawn_block_job(lent, &pending.waiting, session, BlockJob { number, what });
        }
        self.blocks.running.insert(number, pending);
        None
    }

    /// The entries whose own evidence was not verified before, by epoch.
    fn unknown_entries(&self, lent: &mut Lent<'_>, waiting: &WaitingBlock) -> Vec<Checks> {
        let claims = waiting.block.claims(lent.format, lent.store);
        let mut by_epoch: BTreeMap<Epoch, Vec<usize>> = BTreeMap::new();
        for (i, claimed) in claims.iter().enumerate() {
            if self.verified.contains(claimed) {
                lent.fx.counters.evidence_cached += 1;
            } else {
                by_epoch
                    .entry(lent.table_of(&claimed.entry))
                    .or_default()
                    .push(i);
            }
        }
        let jobs = by_epoch.into_iter();
        jobs.map(|(epoch, entries)| Checks::Entries(epoch, entries))
            .collect()
    }

    pub(super) fn block_verified(
        &mut self,
        lent: &mut Lent<'_>,
        job: BlockJob,
        outcome: Outcome<Product>,
    ) {
        let verdicts = match &job.what {
            Checks::Entries(_, entries) => entries.len(),
            Checks::Bundle => 1,
        };
        let failed = failed_claims(outcome, verdicts);
        let Some(pending) = self.blocks.running.get_mut(&job.number) else {
            return;
        };
        pending.jobs_left -= 1;
        match failed {
            None => {
                lent.fx.counters.jobs_failed += 1;
                pending.unknown = true;
            }
            Some(claims) => {
                if claims.iter().any(Option::is_some) {
                    pending.failed = Some(Reject::BadEvidence);
                }
                if let Checks::Entries(_, entries) = &job.what {
                    // True entries are remembered even if another one makes the block false.
                    let claimed = pending.waiting.block.claims(lent.format, lent.store);
                    let judged = entries.iter().zip(&claims);
                    for (&i, _) in judged.filter(|(_, claim)| claim.is_none()) {
                        self.verified.insert(&claimed[i]);
                    }
                }
            }
        }
        // Not before all jobs have ended: each is answered exactly once, and the answer finds its block
        // by this number.
        if pending.jobs_left == 0
            && let Some(pending) = self.blocks.running.remove(&job.number)
        {
            match pending.failed {
                // One false entry is proof enough, even if another job had no result.
                Some(reason) => {
                    self.note_false(lent, pending.waiting.block.header.slot);
                    lent.fx.reject(pending.waiting.origin, reason);
                }
                None if pending.unknown => lent.fx.ignore(pending.waiting.origin),
                None => return self.made.push_back(Made::Block(pending.waiting)),
            }
            self.verify_blocks(lent);
        }
    }

    /// Handles the chain's verdict on a verified block, or on one made here: check 11.
    ///
    /// The second block of a proposer is evidence and is not forwarded, but the chain accepts it: others
    /// may have seen it first, and a node that rejected it could never follow their votes.
    pub(super) fn imported(
        &mut self,
        lent: &mut Lent<'_>,
        taken: WaitingBlock,
        result: Result<(), Reject>,
    ) {
        match result.and_then(|()| self.note_proposal(lent, &taken)) {
            Ok(()) => lent.fx.accept(Kind::Block, taken.origin),
            Err(reason) => lent.fx.reject(taken.origin, reason),
        }
        if result.is_ok() {
            self.unpark(lent, &Awaited::Block(taken.root));
        }
        self.verify_blocks(lent);
    }

    /// Records that the proposer of a slot signed a block with invalid evidence.
    fn note_false(&mut self, lent: &mut Lent<'_>, slot: Slot) {
        match lent.slots.get_mut(&slot) {
            Some(state) => state.false_blocks += 1,
            None if slot > lent.chain.finalised().slot => self.closed.note_false(slot, 1),
            None => {}
        }
    }

    /// Records a block as its proposer's first, or the pair as evidence.
    fn note_proposal(&mut self, lent: &mut Lent<'_>, taken: &WaitingBlock) -> Result<(), Reject> {
        let slot = taken.block.header.slot;
        if let Some(state) = lent.slots.get_mut(&slot) {
            return note_in_slot(state, lent.fx, taken);
        }
        if slot <= lent.chain.finalised().slot {
            return Ok(());
        }
        let data = &taken.block.data;
        match self.closed.take(slot, taken.root, data)? {
            BlockOrder::First => Ok(()),
            BlockOrder::Second(first) => {
                if let Some(first) = first {
                    lent.fx.evidence(slot, first, data.clone());
                }
                Err(Reject::Duplicate)
            }
        }
    }
}

/// Checks that the entries can be included, before anything is verified.
fn check_entries(lent: &Lent<'_>, block: &Block) -> Result<(), Reject> {
    let Header { slot, parent, .. } = &block.header;
    if block.body.entries.len() > usize::from(lent.config.collections_per_block_max) {
        return Err(Reject::InvalidBlock);
    }
    for entry in &block.body.entries {
        if entry.evidence.support.is_empty() {
            return Err(Reject::NoSigner);
        }
        lent.chain.check_inclusion(&entry.vote, *slot, parent)?;
    }
    Ok(())
}

/// Records a block of a slot whose messages are accepted.
fn note_in_slot(
    state: &mut SlotState,
    fx: &mut Effects,
    taken: &WaitingBlock,
) -> Result<(), Reject> {
    let data = &taken.block.data;
    if let Standing::Second(first) = state.admit_block(&taken.root)? {
        fx.evidence(state.slot, first.data.clone(), data.clone());
        if let Some(first) = &mut state.block {
            first.equivocated = true;
        }
        return Err(Reject::Duplicate);
    }
    let view = BlockView {
        root: taken.root,
        bytes: data.len(),
        entries: taken.block.body.entries.len(),
    };
    state.block = Some(Proposal {
        view,
        data: data.clone(),
        equivocated: false,
    });
    Ok(())
}
