//! Blocks and messages of the last run, and votes submitted locally.

use super::Node;
use crate::clock::Source;
use crate::engine::{Kept, LOCAL};
use crate::local::{Posted, Reply};
use alphorn_proto::wire::{Topic, VoteMsg};
use alphorn_proto::{Input, Token};
use alphorn_scheme::Bytes;
use alphorn_types::{Slot, Time};

/// Messages of the last run processed at a time, so that a turn stays short.
const RETURN_MAX: usize = 256;

impl<C: Source> Node<C> {
    /// Processes some messages of the last run, once there are committees to check them against.
    pub(super) fn take_returning(&mut self, now: Time) {
        let horn = self.engine.horn();
        let slot = self.slots.slot_at(now).unwrap_or(Slot(0));
        let epoch = slot.epoch(horn.config().epoch_slots);
        if self.returning.len() == 0 || horn.assignment(epoch).is_none() {
            return;
        }
        for _ in 0..RETURN_MAX.min(self.ports.locals.room()) {
            let Some(kept) = self.returning.next() else {
                return;
            };
            let token = self.local_token();
            let (topic, data) = (kept.topic, kept.data.clone());
            self.ports.locals.returns(token, kept);
            self.feed_local(now, token, topic, data);
        }
    }

    /// Processes a vote submitted over HTTP.
    pub(super) fn take_vote(&mut self, now: Time, data: Bytes, reply: Reply) {
        let kept = match self.read_vote(&data) {
            Ok(kept) if self.ports.locals.room() > 0 => kept,
            refused => {
                let posted = refused.map_or_else(Posted::Refused, |_| Posted::Busy);
                // The requester may be gone.
                let _ = reply.send(posted);
                return;
            }
        };
        let token = self.local_token();
        let topic = kept.topic;
        self.ports.locals.posted(token, kept, reply);
        self.feed_local(now, token, topic, data);
    }

    /// A vote with its topic, as stored.
    fn read_vote(&self, data: &Bytes) -> Result<Kept, String> {
        let horn = self.engine.horn();
        let message = VoteMsg::decode(data, horn.format()).map_err(|error| error.to_string())?;
        let epoch = message.vote.slot.epoch(horn.config().epoch_slots);
        let committees = horn.assignment(epoch);
        let committees = committees.ok_or_else(|| {
            format!(
                "slot {}: its committees are not known here",
                message.vote.slot
            )
        })?;
        // The format bounds the index.
        let cell = committees.cell_of(message.validator);
        let cell = cell.ok_or_else(|| format!("validator {} has no cell", message.validator))?;
        Ok(Kept {
            slot: message.vote.slot,
            topic: Topic::Vote { cell },
            data: data.clone(),
            own: false,
        })
    }

    fn local_token(&mut self) -> Token {
        let token = Token(self.token_next);
        self.token_next += 1;
        token
    }

    fn feed_local(&mut self, now: Time, token: Token, topic: Topic, data: Bytes) {
        let input = Input::Message {
            from: LOCAL,
            topic,
            token,
            data,
        };
        self.feed(now, input);
    }
}
