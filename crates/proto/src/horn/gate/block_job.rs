//! Verification of a block after its proposer's signature.

use alphorn_scheme::{Claim, Class, Item, Op, SessionId, VerifyBundleJob, VerifyJob, Work};
use alphorn_types::Epoch;

use super::Job;
use super::blocks::WaitingBlock;
use crate::horn::deadlines::window_end;
use crate::horn::effects::Request;
use crate::horn::role::Lent;
use crate::horn::task::Purpose;
use crate::slot::Phase;
use crate::wire::Block;

/// A job of a block.
pub(in crate::horn) struct BlockJob {
    pub(super) number: u64,
    pub(super) what: Checks,
}

/// What a job of a block verifies.
pub(super) enum Checks {
    /// Entries of one epoch, by index, each with its own evidence.
    Entries(Epoch, Vec<usize>),
    /// The shared evidence of all entries.
    Bundle,
}

/// Spawns a job for a block with a valid proposer signature.
pub(super) fn spawn_block_job(
    lent: &mut Lent<'_>,
    waiting: &WaitingBlock,
    session: SessionId,
    job: BlockJob,
) {
    let WaitingBlock { block, root, .. } = waiting;
    let header = &block.header;
    let (epoch, work) = match &job.what {
        Checks::Entries(epoch, entries) => (*epoch, verify_entries(lent, block, *epoch, entries)),
        // Its entries may be of several epochs. The number is only used in the name below.
        Checks::Bundle => (Epoch(0), verify_bundle(lent, block)),
    };
    // A driver may let a newer job of a group replace one that waits. A forged block must not
    // replace another block's job.
    let mut message = *root;
    let name = [job.number.to_le_bytes(), epoch.0.to_le_bytes()].concat();
    message[..name.len()].copy_from_slice(&name);
    let request = Request {
        session,
        message,
        committee: None,
        subcommittee: None,
        class: Class::Verdict,
        soft: lent.clock.phase_start(header.slot, Phase::Vote),
        // Later than the slot's own end if it fills a gap.
        hard: window_end(
            lent.clock,
            header
                .slot
                .max(lent.clock.slot_at(lent.now).unwrap_or_default()),
        ),
        work,
    };
    lent.fx.spawn(request, Purpose::Gate(Job::Block(job)));
}

fn verify_entries(lent: &Lent<'_>, block: &Block, epoch: Epoch, entries: &[usize]) -> Work {
    let item = |i: &usize| {
        let entry = &block.body.entries[*i];
        let claim = Claim::Group {
            statement: lent.statement_of(entry),
            evidence: entry.evidence.clone(),
        };
        Item {
            claims: vec![claim],
        }
    };
    Work::Verify(VerifyJob {
        op: Op::VerifyCollections,
        epoch,
        items: entries.iter().map(item).collect(),
    })
}

fn verify_bundle(lent: &Lent<'_>, block: &Block) -> Work {
    let entries = block.body.entries.iter();
    Work::VerifyBundle(VerifyBundleJob {
        entries: entries.map(|entry| lent.bundle_entry(entry)).collect(),
        evidence: block.body.bundle.clone(),
    })
}
