//! The log for operators, as events of `tracing`.
//!
//! Events that others can cause as often as they like, such as connections and bad messages, are below the default
//! level: a peer must not be able to fill a disk.

use super::event::Event;
use super::missed::Reason;
use super::summary::Summary;
use crate::telemetry::jobs::outcome;
use alphorn_scheme::Outcome;
use alphorn_types::Slot;
use tracing::{debug, error, info, warn};

pub(super) fn record(event: &Event<'_>) {
    match *event {
        // Nothing is more important to an operator.
        Event::Doppelganger(doppelganger) => error!("{doppelganger}: this node signs nothing"),
        Event::Health { reason, is_on } => match is_on {
            true => warn!(reason = reason.name(), "not well: {}", reason.text()),
            false => info!(reason = reason.name(), "well again"),
        },
        Event::FilesRebuilt(count) => {
            warn!(
                count,
                "node.redb was damaged: it was set aside as node.redb.damaged and made anew"
            );
        }
        Event::CheckpointRefused(error) => {
            warn!(%error, "the checkpoint that was kept is of no use")
        }
        Event::MarksRaised(shown) => {
            let (slot, keys) = (shown.vote.slot.0, shown.validators.len());
            warn!(
                slot,
                keys,
                "the network shows votes that safety.redb does not know of: its marks were raised"
            );
        }
        Event::ClockStep(step) => warn!(?step, "the wall clock was set"),
        Event::Contradiction => warn!("two statements of a validator contradict each other"),
        Event::SourceBlamed { source, slot } => {
            debug!(
                validator = source.0,
                slot = slot.0,
                "a source broadcast no message"
            );
        }
        Event::JobEnded(ended, _) => match &ended.outcome {
            Outcome::Done(_) | Outcome::Cancelled | Outcome::Superseded => {}
            Outcome::Crashed | Outcome::SelfVerifyFailed => {
                let (job, outcome) = (ended.op, outcome(&ended.outcome));
                warn!(job, outcome, slot = ended.group.slot.0, "a job failed");
            }
            Outcome::Invalid(_) | Outcome::Refused(_) => {
                let (job, outcome) = (ended.op, outcome(&ended.outcome));
                debug!(
                    job,
                    outcome,
                    slot = ended.group.slot.0,
                    "a job has no result"
                );
            }
        },
        Event::Listening { address } => info!(address, "listening"),
        Event::ListenerLost {
            address,
            transport,
            reason,
        } => error!(%address, ?transport, reason, "no longer listening; trying again"),
        Event::PeerUp { id, outbound, .. } => debug!(%id, outbound, "peer connected"),
        Event::PeerDown { peer, reason } => {
            debug!(peer, reason = reason.name(), "peer disconnected");
        }
        Event::Reported { peer, reason } => debug!(%peer, reason, "peer reported"),
        Event::Head { head, given_up, .. } => debug!(slot = head.slot.0, given_up, "head"),
        Event::Finalised(checkpoint) => debug!(slot = checkpoint.slot.0, "finalised"),
        Event::TwoThirds { slot, ms, .. } => {
            debug!(
                slot = slot.0,
                ms, "two thirds stand in verified collections"
            );
        }
        _ => {}
    }
}

/// Logs missed duties of one kind in a slot, all for one reason.
pub(super) fn missed(slot: Slot, reason: &Reason) {
    let Reason {
        duty,
        count,
        name,
        why,
    } = reason;
    warn!(
        slot = slot.0,
        duty,
        count,
        reason = name,
        why,
        "duties were missed"
    );
}

/// Logs the start of a slot: outcomes of all duties so far, and the position of the chain.
pub(super) fn slot(summary: &Summary) {
    let all = summary.all_duties();
    info!(
        slot = summary.slot,
        done = all.done,
        late = all.late,
        missed = all.missed,
        peers = summary.peers,
        head = summary.head_slot,
        finalised = summary.finalised_slot,
        "slot"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Doppelganger;
    use crate::health::Reason;
    use crate::lanes::Ended;
    use alphorn_net::DownReason;
    use alphorn_proto::Peer;
    use alphorn_scheme::{Group, JobId};
    use alphorn_types::Validator;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log at the default level.
    fn log(events: &[Event<'_>]) -> String {
        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt().with_writer(move || writer.clone());
        tracing::subscriber::with_default(lines.finish(), || events.iter().for_each(record));
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn what_peers_can_bring_about_is_below_the_default_level() {
        let id = alphorn_net::NodeKey::from_bytes([1; 32]).unwrap().id();
        let group = Group::of_slot(Slot(1));
        let refused = Ended::refused(JobId(1), "verify_votes", group, "full".into());
        let invalid = Ended {
            outcome: Outcome::Invalid(vec![0]),
            ..Ended::refused(JobId(2), "verify_votes", group, String::new())
        };
        let noise = [
            Event::PeerUp {
                peer: 1,
                id: &id,
                outbound: false,
            },
            Event::PeerDown {
                peer: 1,
                reason: DownReason::Banned,
            },
            Event::Reported {
                peer: Peer(1),
                reason: "malformed",
            },
            Event::JobEnded(&refused, None),
            Event::JobEnded(&invalid, None),
        ];
        assert_eq!(log(&noise), "");
    }

    #[test]
    fn what_an_operator_must_act_on_is_an_error() {
        let doppelganger = Doppelganger {
            validator: Validator(3),
            slot: Slot(9),
        };
        let (reason, is_on) = (Reason::ClockPeers, true);
        let text = log(&[Event::Health { reason, is_on }]);
        assert!(
            text.contains("WARN") && text.contains("clock_peers"),
            "{text}"
        );
        let text = log(&[Event::Doppelganger(doppelganger)]);
        assert!(
            text.contains("ERROR") && text.contains("validator 3 in slot 9"),
            "{text}"
        );
    }
}
