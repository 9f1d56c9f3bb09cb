//! Requests to and from peers: status and blocks.

use super::Node;
use crate::archive::Wanted;
use crate::blocks::Stored;
use crate::clock::Source;
use crate::sync::{self, Answer, BLOCKS_BY_RANGE, BLOCKS_BY_ROOT, Question, STATUS, Status};
use crate::telemetry::Event;
use alphorn_net::{CODE_BUSY, Handle};
use alphorn_proto::horn::fetch::Missing;
use alphorn_proto::wire::{Header, Root, Topic};
use alphorn_proto::{Input, Peer, Token};
use alphorn_scheme::Bytes;
use alphorn_types::{Slot, Time};

/// Penalty for a peer whose response is invalid.
const BAD_ANSWER: u32 = 10;
/// How often the loop looks for blocks that messages wait for. A flood of messages must not trigger a look after each
/// of them.
const FETCH_EVERY_NS: u64 = 5_000_000;

/// Responds to a request. If there is no room for the response, it says so, and the requester asks another peer at
/// once.
fn respond(net: &Handle, channel: u64, answer: Result<Vec<Bytes>, u8>) {
    if net.respond(channel, answer).is_err() {
        let _ = net.respond(channel, Err(CODE_BUSY));
    }
}

/// Whether a response with blocks can be sent. A response with many blocks is long, or may be. Without this check, a
/// peer that leaves one unread and keeps asking would cause useless disk reads.
fn is_worth_reading(net: &Handle, channel: u64, wanted: Wanted) -> bool {
    let is_range = matches!(wanted, Wanted::Range { .. });
    net.has_room(channel) && !(is_range && net.has_long(channel))
}

impl<C: Source> Node<C> {
    /// Asks the next peer, if it is time.
    pub(super) fn ask(&mut self, now: Time) {
        let standing = self.standing(now);
        if let Some(mut question) = self.sync.poll(self.clock.monotonic_ns(), standing) {
            question.data = self.status(now).encode().to_vec();
            self.put(&question);
        }
        if self.fetch_at <= now {
            self.fetch_at = now.saturating_add_ns(FETCH_EVERY_NS);
            let missing: Vec<Missing> = self.engine.missing_blocks().collect();
            for question in self.sync.fetch(now, &missing) {
                self.put(&question);
            }
        }
    }

    fn put(&mut self, question: &Question) {
        let data = Bytes::from(question.data.as_slice());
        let net = &self.ports.net;
        if net
            .request(question.peer.0, question.name, data, question.id)
            .is_err()
        {
            self.sync.refused(question.id);
        }
    }

    fn status(&self, now: Time) -> Status {
        let horn = self.engine.horn();
        let (head, finalised) = (horn.head(), horn.chain().finalised());
        let header = horn.chain().header(&head);
        Status {
            network: self.ports.network.0,
            slot: self.slots.slot_at(now).unwrap_or(Slot(0)),
            head_slot: header.map_or(Slot(0), |header| header.slot),
            head,
            finalised_slot: finalised.slot,
            finalised: finalised.root,
            time_ms: now.as_nanos() / 1_000_000,
        }
    }

    pub(super) fn serve(&mut self, now: Time, channel: u64, protocol: &str, data: &[u8]) {
        let net = self.ports.net.clone();
        let wanted = match protocol {
            STATUS => {
                let status = Bytes::from(self.status(now).encode().as_slice());
                return respond(&net, channel, Ok(vec![status]));
            }
            BLOCKS_BY_RANGE => {
                let range = sync::decode_range(data);
                range.map(|(from, count)| Wanted::Range { from, count })
            }
            BLOCKS_BY_ROOT => match Root::try_from(data) {
                Ok(root) => {
                    let Some(header) = self.engine.horn().chain().header(&root) else {
                        return respond(&net, channel, Ok(Vec::new()));
                    };
                    let slot = header.slot;
                    Some(Wanted::Block { slot, root })
                }
                Err(_) => None,
            },
            _ => None,
        };
        // Not what this version sends, but no reason to blame the peer.
        let Some(wanted) = wanted else {
            return respond(&net, channel, Err(CODE_BUSY));
        };
        // Otherwise the archive would read from disk what is never sent.
        if !is_worth_reading(&net, channel, wanted) {
            return respond(&net, channel, Err(CODE_BUSY));
        }
        let answer = move |blocks: Option<Vec<Stored>>| {
            let blocks = blocks.ok_or(CODE_BUSY);
            let chunks = blocks.map(|all| all.into_iter().map(|block| block.data).collect());
            respond(&net, channel, chunks);
        };
        self.ports.archive.serve(wanted, Box::new(answer));
    }

    pub(super) fn take_answer(
        &mut self,
        now: Time,
        peer: Peer,
        id: u64,
        chunks: Option<Vec<Bytes>>,
    ) {
        let standing = self.standing(now);
        let network = self.ports.network.0;
        let chain = self.engine.horn().chain();
        let knows = |root: &Root| chain.header(root).is_some();
        let format = self.engine.horn().format();
        let read = |data: &[u8]| {
            let header = Header::peek(data, format).ok()?;
            Some((header.slot, header.root()))
        };
        let (answer, question) = self.sync.answer(id, chunks, network, standing, knows, read);
        if let Some((status, since_ns)) = self.sync.take_heard() {
            self.hear(now, peer, &status, since_ns);
        }
        match answer {
            Answer::Nothing => {}
            Answer::Malformed => {
                let _ = self.ports.net.report(peer.0, BAD_ANSWER);
            }
            Answer::Block(data) => {
                self.emit(Event::BlocksFetched {
                    count: 1,
                    by_root: true,
                });
                self.feed_block(now, peer, data);
            }
            Answer::Blocks(blocks) => {
                self.emit(Event::BlocksFetched {
                    count: blocks.len() as u64,
                    by_root: false,
                });
                for data in blocks {
                    self.feed_block(now, peer, data);
                }
            }
        }
        if let Some(question) = question {
            self.put(&question);
        }
    }

    /// A block that did not arrive by gossip passes the same checks.
    fn feed_block(&mut self, now: Time, from: Peer, data: Bytes) {
        let token = Token(self.token_next);
        self.token_next += 1;
        let input = Input::Message {
            from,
            topic: Topic::Block,
            token,
            data,
        };
        self.feed(now, input);
    }
}
