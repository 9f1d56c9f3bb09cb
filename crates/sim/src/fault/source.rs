//! Sources that cheat.

use super::{Spoil, Wrap};
use crate::role::coded::Coded;
use crate::role::{Input, Labour, Output, Publish, Role};
use alphorn_broadcast::Message;
use alphorn_broadcast::rlnc::Published;
use alphorn_proto::Peer;
use alphorn_scheme::JobId;
use alphorn_types::Time;

/// A source that sends fewer pieces than are needed, no matter which peers ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deficient {
    left: u16,
}

impl Deficient {
    /// Sends this many pieces.
    pub(crate) fn new(left: u16) -> Self {
        Deficient { left }
    }
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

/// A source that commits to something that is not a payload.
#[derive(Debug)]
pub(crate) struct NoPayload<P, C: Spoil> {
    pub(crate) code: C,
    /// Finds the published data in the product of a job.
    pub(crate) published: fn(&mut P) -> Option<&mut Published<C>>,
}

impl<R: Role, C: Spoil> Wrap<R> for NoPayload<<R::Work as Labour>::Product, C> {
    fn input(&mut self, _: Time, mut input: Input<R>, _: &mut Vec<Output<R>>) -> Option<Input<R>> {
        if let Input::Finished {
            product: Some(product),
            ..
        } = &mut input
            && let Some(published) = (self.published)(product)
        {
            // Replaced before the state machine sees it, so this is what it signs and serves.
            *published = self.code.no_payload(published.clone());
        }
        Some(input)
    }
}

/// A source of two payloads for one duty. A second state machine, next to its own and with a payload that is one
/// byte shorter, serves the neighbours with odd numbers; the first one serves those with even numbers.
#[derive(Debug)]
pub(crate) struct Twin<C: Spoil> {
    second: Coded<C>,
}

/// Jobs of the second state machine are numbered from here.
const TWIN_JOBS: u64 = 1 << 62;

impl<C: Spoil> Twin<C> {
    /// Creates a source with this second state machine.
    pub(crate) fn new(second: Coded<C>) -> Self {
        Twin { second }
    }

    fn is_seconds(peer: Peer) -> bool {
        peer.0 % 2 == 1
    }

    /// Carries out the outputs of the second state machine.
    fn drain(&mut self, own: &mut Vec<Output<Coded<C>>>) {
        while let Some(output) = self.second.poll_output() {
            own.push(match output {
                Output::Spawn { job, request } => Output::Spawn {
                    job: JobId(TWIN_JOBS + job.0),
                    request,
                },
                other => other,
            });
        }
    }
}

impl<C: Spoil> Wrap<Coded<C>> for Twin<C> {
    fn input(
        &mut self,
        now: Time,
        input: Input<Coded<C>>,
        own: &mut Vec<Output<Coded<C>>>,
    ) -> Option<Input<Coded<C>>> {
        let (seconds, firsts) = match input {
            Input::Message { from: peer, .. }
            | Input::SendReady { peer }
            | Input::PeerUp { peer }
            | Input::PeerDown { peer }
                if Self::is_seconds(peer) =>
            {
                (Some(input), None)
            }
            Input::Finished {
                job: JobId(job),
                end,
                product,
                leftover,
            } if job >= TWIN_JOBS => {
                let second = Input::Finished {
                    job: JobId(job - TWIN_JOBS),
                    end,
                    product,
                    leftover,
                };
                (Some(second), None)
            }
            // Both publish. All other inputs belong to one of the two.
            Input::Command(Publish { item, bytes }) => {
                let second = Publish {
                    item,
                    bytes: bytes.saturating_sub(1),
                };
                (Some(Input::Command(second)), Some(input))
            }
            other => (None, Some(other)),
        };
        if let Some(input) = seconds {
            self.second.handle(now, input);
            self.drain(own);
        }
        firsts
    }

    fn next_deadline(&self) -> Option<Time> {
        self.second.next_deadline()
    }

    fn deadline(&mut self, now: Time, own: &mut Vec<Output<Coded<C>>>) {
        self.second.handle(now, Input::Deadline);
        self.drain(own);
    }
}
