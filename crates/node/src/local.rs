//! Messages that arrive neither by gossip nor by request: those of the last run, and votes
//! submitted over HTTP. They pass the same checks as all others.

use crate::archive::Told;
use crate::engine::Kept;
use alphorn_proto::{Token, Verdict};
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// Maximum number that wait for a verdict.
const LOCAL_MAX: usize = 4_096;

/// The outcome of a submitted vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It was accepted and will survive a crash.
    Durable,
    /// It was accepted and forwarded, but could not be written.
    NotDurable,
    /// It was not accepted.
    Refused(String),
    /// There is no room for more.
    Busy,
}

/// Channel for the outcome.
pub(crate) type Reply = oneshot::Sender<Posted>;

/// What to do with a message once it is accepted.
enum Local {
    /// Nothing: it is on disk, and other nodes had it too.
    Known,
    /// Send it again, because possibly no other node has it.
    Own(Kept),
    /// Store and send it, and report the outcome.
    Posted(Kept, Reply),
}

/// The messages that wait for a verdict.
#[derive(Default)]
pub(crate) struct Locals {
    waiting: BTreeMap<Token, Local>,
    /// Channel for the message that was just rejected. The reason comes with the next report.
    unexplained: Option<Reply>,
}

impl Locals {
    /// How many more may wait.
    pub(crate) fn room(&self) -> usize {
        LOCAL_MAX - self.waiting.len().min(LOCAL_MAX)
    }

    /// Registers a message of the last run under a token.
    pub(crate) fn returns(&mut self, token: Token, kept: Kept) {
        let local = match kept.own {
            true => Local::Own(kept),
            false => Local::Known,
        };
        self.waiting.insert(token, local);
    }

    /// Registers a submitted vote under a token.
    pub(crate) fn posted(&mut self, token: Token, kept: Kept, reply: Reply) {
        self.waiting.insert(token, Local::Posted(kept, reply));
    }

    /// Processes the verdict on a message. Returns what to send now, and where to report durability
    /// if it is to be stored first.
    pub(crate) fn verdict(
        &mut self,
        token: Token,
        verdict: Verdict,
    ) -> Option<(Kept, Option<Told>)> {
        match (self.waiting.remove(&token)?, verdict) {
            (Local::Own(kept), Verdict::Accept) => Some((kept, None)),
            (Local::Posted(kept, reply), Verdict::Accept) => {
                let told: Told = Box::new(|durable| {
                    let posted = match durable {
                        true => Posted::Durable,
                        false => Posted::NotDurable,
                    };
                    // The requester may be gone.
                    let _ = reply.send(posted);
                });
                Some((kept, Some(told)))
            }
            (Local::Posted(_, reply), Verdict::Ignore) => {
                let why = "ignored: known already, too early, too late, or about a block that did \
                           not come";
                let _ = reply.send(Posted::Refused(why.into()));
                None
            }
            (Local::Posted(_, reply), Verdict::Reject) => {
                self.unexplained = Some(reply);
                None
            }
            (Local::Known | Local::Own(_), _) => None,
        }
    }

    /// Reports why the last message was rejected.
    pub(crate) fn explain(&mut self, reason: &str) {
        if let Some(reply) = self.unexplained.take() {
            let _ = reply.send(Posted::Refused(format!("rejected: {reason}")));
        }
    }
}
