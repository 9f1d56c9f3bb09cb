//! Adversaries among nodes that broadcast in pieces.

use super::{Adversary, Interval, Parameters, Wrap};
use crate::role::coded::Coded;
use crate::role::{Input, Output};
use crate::scenario::FaultKind;
use alphorn_proto::Peer;
use alphorn_proto::broadcast::{Class, Message};
use alphorn_proto::gossip::Peers;
use alphorn_proto::rlnc::{Coding, Model16, Ristretto, Rs};
use alphorn_types::Time;
use std::sync::Arc;

/// Most pieces that are sent once more.
const REPEATS_MAX: u32 = 1 << 12;

/// A code whose pieces can be made invalid.
pub trait Spoil: Coding {
    /// The piece, such that its verification fails.
    fn spoil(piece: &Self::Piece) -> Self::Piece;
}

impl Spoil for Model16 {
    fn spoil(piece: &Self::Piece) -> Self::Piece {
        let mut piece = piece.clone();
        piece.valid = false;
        piece
    }
}

impl Spoil for Ristretto {
    fn spoil(piece: &Self::Piece) -> Self::Piece {
        let mut chunk = piece.as_ref().clone();
        // The data of other coefficients.
        chunk.data = chunk.coefficients.clone();
        Arc::new(chunk)
    }
}

impl Spoil for Rs {
    fn spoil(piece: &Self::Piece) -> Self::Piece {
        let mut shard = piece.clone();
        shard.index ^= 1;
        shard
    }
}

impl<C: Spoil> Adversary for Coded<C> {
    fn forge(kind: FaultKind, parameters: &Parameters) -> Option<Box<dyn Wrap<Self>>> {
        let interval = parameters.interval;
        let peers: Peers = Peers::List((0..parameters.peers).map(Peer).collect());
        match kind {
            FaultKind::InvalidFlood => Some(Box::new(Spoiler { interval })),
            FaultKind::FalseFeedback => Some(Box::new(Liar { interval })),
            FaultKind::Grief => Some(Box::new(Repeat {
                interval,
                peers,
                left: REPEATS_MAX,
            })),
            FaultKind::RankDeficientSource => Some(Box::new(Deficient {
                left: parameters.chunks.saturating_sub(1),
            })),
            _ => None,
        }
    }
}

/// Sends pieces that do not verify in place of those that it has.
#[derive(Clone, Copy, Debug)]
pub struct Spoiler {
    interval: Interval,
}

impl<C: Spoil> Wrap<Coded<C>> for Spoiler {
    fn output(&mut self, now: Time, output: Output<Coded<C>>, outputs: &mut Vec<Output<Coded<C>>>) {
        outputs.push(match output {
            Output::Send {
                to,
                message:
                    Message::Piece {
                        id,
                        piece,
                        wire_bytes,
                    },
                class,
            } if self.interval.contains(now) => Output::Send {
                to,
                message: Message::Piece {
                    id,
                    piece: C::spoil(&piece),
                    wire_bytes,
                },
                class,
            },
            other => other,
        });
    }
}

/// Says that it needs nothing more whenever it should say what it has.
#[derive(Clone, Copy, Debug)]
pub struct Liar {
    interval: Interval,
}

impl<C: Spoil> Wrap<Coded<C>> for Liar {
    fn output(&mut self, now: Time, output: Output<Coded<C>>, outputs: &mut Vec<Output<Coded<C>>>) {
        outputs.push(match output {
            Output::Send {
                to,
                message: Message::Rank { id, .. },
                class,
            } if self.interval.contains(now) => Output::Send {
                to,
                message: Message::Done { id },
                class,
            },
            other => other,
        });
    }
}

/// Sends every piece that it gets to all its neighbours, which learn nothing from it.
#[derive(Clone, Debug)]
pub struct Repeat {
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
                class: Class::Rest as u8,
            });
        }
        Some(input)
    }
}

/// A source that gives fewer pieces than are needed, whoever asks.
#[derive(Clone, Copy, Debug)]
pub struct Deficient {
    left: u16,
}

impl<C: Spoil> Wrap<Coded<C>> for Deficient {
    fn output(&mut self, _: Time, output: Output<Coded<C>>, outputs: &mut Vec<Output<Coded<C>>>) {
        if let Output::Send {
            message: Message::Piece { .. },
            ..
        } = &output
        {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
        }
        outputs.push(output);
    }
}
