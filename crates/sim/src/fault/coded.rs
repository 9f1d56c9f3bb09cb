//! Adversaries among nodes that broadcast in pieces.

use super::{
    Adversary, Deficient, Flooding, Interval, NoPayload, Paced, Parameters, Spoil, Twin, Wrap,
};
use crate::gossip::Peers;
use crate::role::caster::FORGED;
use crate::role::coded::Coded;
use crate::role::{Input, Output};
use crate::scenario::{FailsAt, FaultKind};
use alphorn_broadcast::{Announce, Message, Priority, Product, Unread};
use alphorn_types::Time;
use std::sync::Arc;

/// Maximum number of pieces that are repeated.
const REPEATS_MAX: u32 = 1 << 12;
/// Bytes of an unreadable message, if the scenario does not give a number.
const GARBAGE_BYTES: u64 = 1000;
/// The tag of a chunk, and that of a shard.
const TAGS: [u8; 2] = [3, 4];

impl<C: Spoil> Adversary for Coded<C> {
    fn forge(&self, kind: FaultKind, parameters: &Parameters) -> Option<Box<dyn Wrap<Self>>> {
        let interval = parameters.interval;
        let payload = parameters.fails_at == FailsAt::Payload;
        Some(match kind {
            FaultKind::InvalidFlood if payload && parameters.rate == 0 => {
                // Sends pieces that do not verify instead of those that it has.
                let other = spoiled;
                Box::new(Swap { interval, other })
            }
            FaultKind::InvalidFlood => {
                let flood = PieceFlood::new(self.clone_code(), parameters);
                Box::new(Paced::new(parameters, flood))
            }
            // The lies replace reports that are due anyway, so they have no rate of their own.
            FaultKind::FalseFeedback if parameters.rate > 0 => return None,
            FaultKind::FalseFeedback => {
                let other = satisfied;
                Box::new(Swap { interval, other })
            }
            FaultKind::Grief => Box::new(Repeat {
                interval,
                peers: parameters.everyone(),
                // Two such neighbours would otherwise return each other's pieces for ever.
                left: REPEATS_MAX,
            }),
            FaultKind::RankDeficientSource => {
                // One piece short of a generation.
                Box::new(Deficient::new(parameters.chunks.saturating_sub(1)))
            }
            FaultKind::NonCodewordSource => Box::new(NoPayload {
                code: self.clone_code(),
                published: |product| match product {
                    Some(Product::Published(published)) => published.as_mut().ok(),
                    _ => None,
                },
            }),
            FaultKind::Equivocate => Box::new(Twin::new(self.twin(parameters.seed))),
            _ => return None,
        })
    }
}

/// Sends invalid messages to all its neighbours at a fixed rate, in the broadcast that it heard of last: pieces
/// that do not verify, unreadable bytes, or headers with a forged signature.
#[derive(Clone, Debug)]
pub(crate) struct PieceFlood<C: Spoil> {
    code: C,
    fails_at: FailsAt,
    bytes: u64,
    /// The broadcast it heard of last.
    announce: Option<Arc<Announce<C>>>,
    piece: Option<Message<C>>,
    /// Makes every forged header different.
    count: u64,
}

impl<C: Spoil> PieceFlood<C> {
    fn new(code: C, parameters: &Parameters) -> Self {
        PieceFlood {
            code,
            fails_at: parameters.fails_at,
            bytes: match parameters.bytes {
                0 => GARBAGE_BYTES,
                bytes => bytes,
            },
            announce: None,
            piece: None,
            // Each node of the fault counts in a range of its own, so no two of them forge the same header.
            count: parameters.number << 32,
        }
    }

    fn forged(&mut self, announce: &Announce<C>) -> Message<C> {
        self.count += 1;
        let mut header = announce.header.clone();
        // The id covers the hash, so each forged header names a broadcast of its own and is checked anew.
        header.payload_hash[..8].copy_from_slice(&self.count.to_le_bytes());
        let id = header.id(&[0; 32]);
        let mut auth = announce.auth.to_vec();
        if let Some(first) = auth.first_mut() {
            *first = FORGED;
        }
        let commitments = announce.commitments.clone();
        Message::Header(Arc::new(Announce::new(
            &self.code,
            id,
            header,
            auth.into(),
            commitments,
        )))
    }

    fn garbage(&mut self, announce: &Announce<C>) -> Message<C> {
        let tag = TAGS[usize::from(self.code.strategy() == alphorn_broadcast::rlnc::Strategy::Rs)];
        let id = announce.id;
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&id.0);
        bytes.resize(
            usize::try_from(self.bytes)
                .unwrap_or(usize::MAX)
                .max(bytes.len()),
            0xff,
        );
        Message::Unread(Arc::new(Unread {
            id,
            bytes: bytes.into(),
        }))
    }
}

impl<C: Spoil> Wrap<Coded<C>> for PieceFlood<C> {
    fn input(
        &mut self,
        _: Time,
        input: Input<Coded<C>>,
        _: &mut Vec<Output<Coded<C>>>,
    ) -> Option<Input<Coded<C>>> {
        match &input {
            Input::Message {
                message: Message::Header(announce),
                ..
            } => self.announce = Some(announce.clone()),
            Input::Message { message, .. } if matches!(message, Message::Piece { .. }) => {
                self.piece = Some(message.clone());
            }
            _ => {}
        }
        Some(input)
    }
}

impl<C: Spoil> Flooding<Coded<C>> for PieceFlood<C> {
    const PRIORITY: u8 = Priority::Control as u8;

    fn messages(&mut self, _: Time) -> Vec<Message<C>> {
        let announce = self.announce.clone();
        let message = match (self.fails_at, &self.piece, announce) {
            (FailsAt::Payload, Some(piece), _) => spoiled::<C>(piece),
            (FailsAt::Decoding, _, Some(announce)) => Some(self.garbage(&announce)),
            (FailsAt::Signature, _, Some(announce)) => Some(self.forged(&announce)),
            _ => None,
        };
        message.into_iter().collect()
    }
}

/// The same piece, altered so that it does not verify.
fn spoiled<C: Spoil>(message: &Message<C>) -> Option<Message<C>> {
    match message {
        Message::Piece {
            id,
            piece,
            wire_bytes,
        } => Some(Message::Piece {
            id: *id,
            piece: C::spoil(piece),
            wire_bytes: *wire_bytes,
        }),
        _ => None,
    }
}

/// Replaces a message with another one, where there is a replacement.
#[derive(Clone, Copy, Debug)]
struct Swap<C: Spoil> {
    interval: Interval,
    other: fn(&Message<C>) -> Option<Message<C>>,
}

impl<C: Spoil> Wrap<Coded<C>> for Swap<C> {
    fn output(
        &mut self,
        now: Time,
        mut output: Output<Coded<C>>,
        outputs: &mut Vec<Output<Coded<C>>>,
    ) {
        if self.interval.contains(now)
            && let Output::Send { message, .. } = &mut output
            && let Some(other) = (self.other)(message)
        {
            *message = other;
        }
        outputs.push(output);
    }
}

/// Claims to need nothing more whenever it should report what it has.
fn satisfied<C: Spoil>(message: &Message<C>) -> Option<Message<C>> {
    match message {
        Message::Rank { id, .. } => Some(Message::Done { id: *id }),
        _ => None,
    }
}

/// Sends every piece that it receives to all its neighbours, to which it adds nothing.
#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    interval: Interval,
    peers: Peers,
    left: u32,
}

impl<C: Spoil> Wrap<Coded<C>> for Repeat {
    fn input(
        &mut self,
        now: Time,
        input: Input<Coded<C>>,
        own: &mut Vec<Output<Coded<C>>>,
    ) -> Option<Input<Coded<C>>> {
        if let Input::Message { message, .. } = &input
            && matches!(message, Message::Piece { .. })
            && self.interval.contains(now)
            && self.left > 0
        {
            self.left -= 1;
            own.push(Output::Send {
                to: self.peers.clone(),
                message: message.clone(),
                priority: Priority::Rest as u8,
            });
        }
        Some(input)
    }
}
