//! Turns the state machine's requests into jobs of lanes and signer, and their results into its
//! products.

use super::{Cast, JOBS};
use alphorn_broadcast::CodeJob;
use alphorn_broadcast::rlnc::{Coding, Subject};
use alphorn_proto::Spawn;
use alphorn_proto::horn::KIND_BLOCK;
use alphorn_scheme::{
    Claim, Group, Item, JobId, Op, Outcome, Product, Role, SessionId, SignItem, SignJob, VerifyJob,
    Work,
};
use alphorn_types::{Slot, Time, Validator};

/// The session of a slot's broadcasts, alongside those of the protocol.
const SESSION: u32 = u32::MAX - 1;

/// A job as requested by the state machine.
pub(super) struct Asked<C: Coding> {
    pub(super) job: JobId,
    pub(super) expires: Time,
    pub(super) work: Box<alphorn_broadcast::Work<C>>,
}

/// The result of starting a job.
pub(super) enum Begun<C: Coding> {
    /// A job for signer or lanes.
    Job(Spawn),
    /// No job is needed: the result.
    Ended(Option<alphorn_broadcast::Product<C>>),
}

impl<C: Coding> Asked<C> {
    /// Turns it into a job, if it needs one.
    pub(super) fn begin(self, now: Time, cast: &Cast<C>) -> Begun<C> {
        let Asked { job, expires, work } = self;
        let (subject, class) = (work.subject(), work.class());
        let work = match *work {
            alphorn_broadcast::Work::Sign { subject, root } => {
                let item = SignItem {
                    validator: Validator(subject.source),
                    role: role(&subject),
                    message: root,
                    guard: None,
                };
                Work::Sign(SignJob::new(Slot(subject.slot), vec![item]))
            }
            alphorn_broadcast::Work::VerifyHeader { announce, root } => {
                if announce.auth.len() != cast.format.duty_signature_bytes {
                    // Bad whatever the key is, so no lane is kept busy with it.
                    return Begun::Ended(Some(alphorn_broadcast::Product::Header(false)));
                }
                // Not ready, or no longer: nothing can be said about the signature.
                let Some(epoch) = cast.sources.key_table(Slot(subject.slot)) else {
                    return Begun::Ended(None);
                };
                let claim = Claim::One {
                    validator: Validator(subject.source),
                    role: role(&subject),
                    slot: Slot(subject.slot),
                    message: root,
                    signature: announce.auth.clone(),
                };
                let items = vec![Item {
                    claims: vec![claim],
                }];
                Work::Verify(VerifyJob {
                    op: Op::DutyVerify,
                    epoch,
                    items,
                })
            }
            work => {
                let code = cast.machine.code().clone();
                Work::Foreign(Box::new(CodeJob { code, work }))
            }
        };
        let slot = Slot(subject.slot);
        let mut message = [0; 32];
        // The job's number, so that no two jobs have a group in common.
        message[..8].copy_from_slice(&job.0.to_le_bytes());
        let clock = &cast.clock;
        let phase = clock
            .phase_at(now)
            .map(|phase| clock.start(clock.after(phase)));
        Begun::Job(Spawn {
            // The bit distinguishes these jobs from the protocol's when they end. `Cast::finished` removes it again.
            job: JobId(JOBS | job.0),
            session: SessionId { slot, seq: SESSION },
            group: Group {
                slot,
                message,
                committee: None,
                subcommittee: None,
            },
            class,
            soft: phase.unwrap_or(expires).min(expires),
            hard: expires,
            work,
        })
    }
}

/// The role in which a source signs its header.
fn role(subject: &Subject) -> Role {
    match subject.kind {
        KIND_BLOCK => Role::BlockHeader,
        _ => Role::CollectionHeader,
    }
}

/// The product of a job. None if it was not run or failed.
pub(super) fn product<C: Coding>(
    outcome: Outcome<Product>,
) -> Option<alphorn_broadcast::Product<C>> {
    match outcome {
        Outcome::Done(Product::Foreign(product)) => product.take(),
        Outcome::Done(Product::Signed(signatures)) => {
            let signature = signatures.iter().next()?;
            Some(alphorn_broadcast::Product::Signed(signature.into()))
        }
        Outcome::Done(Product::Verdicts(verdicts)) => {
            let is_valid = verdicts.first()?.is_valid();
            Some(alphorn_broadcast::Product::Header(is_valid))
        }
        _ => None,
    }
}
