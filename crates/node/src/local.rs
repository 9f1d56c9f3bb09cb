//! Messages that come neither by gossip nor by request: those of the last run, and votes that are
//! handed in over HTTP. They pass the checks of all others.

use crate::archive::{Archive, Told};
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
    Own,
    /// It is kept and sent, and somebody wants to know.
    Posted(Reply),
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
    pub(crate) fn returns(&mut self, token: Token, own: bool) {
        let local = if own { Local::Own } else { Local::Known };
        self.waiting.insert(token, local);
    }

    /// A vote that was handed in gets a token.
    pub(crate) fn posted(&mut self, token: Token, reply: Reply) {
        self.waiting.insert(token, Local::Posted(reply));
    }

    /// A message was accepted: it is kept, unless it is on disk, and given back to be sent, if it
    /// shall be.
    pub(crate) fn keep(
        &mut self,
        token: Option<Token>,
        kept: Kept,
        archive: &Archive,
    ) -> Option<Kept> {
        match token.and_then(|token| self.waiting.remove(&token)) {
            None => {
                archive.keep_message(kept, None);
                None
            }
            Some(Local::Known) => None,
            Some(Local::Own) => Some(kept),
            Some(Local::Posted(reply)) => {
                let told: Told = Box::new(|durable| {
                    let posted = if durable {
                        Posted::Durable
                    } else {
                        Posted::NotDurable
                    };
                    // Who asked may have gone.
                    let _ = reply.send(posted);
                });
                archive.keep_message(kept.clone(), Some(told));
                Some(kept)
            }
        }
    }

    /// The verdict on a message that was not kept.
    pub(crate) fn verdict(&mut self, token: Token, verdict: Verdict) {
        let Some(Local::Posted(reply)) = self.waiting.remove(&token) else {
            return;
        };
        let posted = match verdict {
            Verdict::Accept => Posted::NotDurable,
            Verdict::Ignore => Posted::Refused(
                "ignored: known already, too early, too late, or about a block that did not come"
                    .into(),
            ),
            Verdict::Reject => {
                self.unexplained = Some(reply);
                return;
            }
        };
        let _ = reply.send(posted);
    }

    /// Why the last message was rejected.
    pub(crate) fn explain(&mut self, reason: &str) {
        if let Some(reply) = self.unexplained.take() {
            let _ = reply.send(Posted::Refused(format!("rejected: {reason}")));
        }
    }
}
