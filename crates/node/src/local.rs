//! Messages that come neither by gossip nor by request: those of the last run, and votes that are
//! handed in over HTTP. They pass the checks of all others.

use crate::archive::Told;
use crate::engine::Kept;
use alphorn_proto::{Token, Verdict};
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// Most of them that wait for a verdict.
const LOCAL_MAX: usize = 4_096;

/// What became of a vote that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It was accepted and will be there after a crash.
    Durable,
    /// It was accepted and sent on, but it could not be written.
    NotDurable,
    /// It was not accepted.
    Refused(String),
    /// There is no room for more.
    Busy,
}

/// Who waits to hear it.
pub(crate) type Reply = oneshot::Sender<Posted>;

/// What is done with a message once it is accepted.
enum Local {
    /// Nothing: it is on disk, and others had it too.
    Known,
    /// It is sent again: nobody may have it.
    Own(Kept),
    /// It is kept and sent, and somebody wants to know.
    Posted(Kept, Reply),
}

/// The messages that wait for a verdict.
#[derive(Default)]
pub(crate) struct Locals {
    waiting: BTreeMap<Token, Local>,
    /// Whose message was just rejected; the reason comes with the next report.
    unexplained: Option<Reply>,
}

impl Locals {
    /// How many more may wait.
    pub(crate) fn room(&self) -> usize {
        LOCAL_MAX - self.waiting.len().min(LOCAL_MAX)
    }

    /// A message of the last run gets a token.
    pub(crate) fn returns(&mut self, token: Token, kept: Kept) {
        let local = match kept.own {
            true => Local::Own(kept),
            false => Local::Known,
        };
        self.waiting.insert(token, local);
    }

    /// A vote that was handed in gets a token.
    pub(crate) fn posted(&mut self, token: Token, kept: Kept, reply: Reply) {
        self.waiting.insert(token, Local::Posted(kept, reply));
    }

    /// The verdict on a message: what is to be sent now, and who hears whether it is durable if it
    /// is to be kept first.
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
                    // Who asked may have gone.
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

    /// Why the last message was rejected.
    pub(crate) fn explain(&mut self, reason: &str) {
        if let Some(reply) = self.unexplained.take() {
            let _ = reply.send(Posted::Refused(format!("rejected: {reason}")));
        }
    }
}
