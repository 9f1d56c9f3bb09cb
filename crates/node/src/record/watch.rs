//! A host that digests effects on their way to the host that carries them out.

use super::entry::put_topic;
use crate::engine::{Doppelganger, Host, Judged, Kept};
use alphorn_proto::chain::Anchor;
use alphorn_proto::horn::Shown;
use alphorn_proto::job::AssignJob;
use alphorn_proto::wire::{Reject, Root, Topic};
use alphorn_proto::{Evidence, Peer, Spawn, Token, Verdict};
use alphorn_scheme::{Bytes, SessionId, Work};
use alphorn_types::{Slot, Writer};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Digests effects, and passes them on to a host if there is one.
pub(super) struct Watch<'a> {
    pub(super) host: Option<&'a mut dyn Host>,
    pub(super) digest: &'a mut Sha256,
}

impl Watch<'_> {
    /// Digests an effect: its number, and bytes that distinguish it from all others of that number.
    fn note(&mut self, kind: u8, write: impl FnOnce(&mut Writer)) {
        let mut w = Writer::with_capacity(128);
        write(&mut w);
        self.digest.update([kind]);
        self.digest
            .update((w.as_slice().len() as u64).to_le_bytes());
        self.digest.update(w.as_slice());
    }
}

fn put_session(w: &mut Writer, session: &SessionId) {
    w.u64(session.slot.0);
    w.u32(session.seq);
}

fn put_work(w: &mut Writer, work: &Work) {
    w.bytes_u32_prefixed(work.name().as_bytes());
    match work {
        Work::Foreign(_) => {
            // The protocol of a node has no other.
            if let Some(job) = work.foreign::<AssignJob>() {
                w.u64(job.epoch.0);
                w.bytes(&job.mix);
            }
        }
        Work::Sign(job) => {
            w.u64(job.slot.0);
            for item in &job.items {
                w.u32(item.validator.0);
                w.u8(item.role as u8);
                w.bytes(&item.message);
                let guard = item.guard.map(|guard| [guard.source.0, guard.target.0]);
                for slot in guard.into_iter().flatten() {
                    w.u64(slot);
                }
            }
        }
        Work::Select(job) => {
            w.bytes(&job.message);
            job.validators.iter().for_each(|one| w.u32(one.0));
        }
        Work::Prepare(job) => crate::committees::put(w, &job.assignment),
        Work::Verify(_)
        | Work::Aggregate(_)
        | Work::Combine(_)
        | Work::Bundle(_)
        | Work::VerifyBundle(_) => {
            w.bytes(&work.to_bytes().unwrap_or_default());
        }
    }
}

impl Host for Watch<'_> {
    fn publish(&mut self, topic: Topic, data: Bytes) {
        self.note(0, |w| {
            put_topic(w, topic);
            w.bytes(&data);
        });
        if let Some(host) = &mut self.host {
            host.publish(topic, data);
        }
    }

    fn subscribe(&mut self, topics: &BTreeSet<Topic>) {
        self.note(1, |w| topics.iter().for_each(|topic| put_topic(w, *topic)));
        if let Some(host) = &mut self.host {
            host.subscribe(topics);
        }
    }

    fn verdict(&mut self, token: Token, verdict: Verdict) {
        self.note(2, |w| {
            w.u64(token.0);
            w.u8(verdict as u8);
        });
        if let Some(host) = &mut self.host {
            host.verdict(token, verdict);
        }
    }

    fn report(&mut self, peer: Peer, reason: Reject) {
        self.note(3, |w| {
            w.u64(peer.0);
            w.bytes(reason.name().as_bytes());
        });
        if let Some(host) = &mut self.host {
            host.report(peer, reason);
        }
    }

    fn spawn(&mut self, spawn: Spawn) {
        self.note(4, |w| {
            w.u64(spawn.job.0);
            put_session(w, &spawn.session);
            w.u64(spawn.group.slot.0);
            w.bytes(&spawn.group.message);
            let places = [spawn.group.committee, spawn.group.subcommittee];
            for place in places {
                w.u32(place.map_or(u32::MAX, u32::from));
            }
            w.u8(spawn.class as u8);
            w.u64(spawn.soft.as_nanos());
            w.u64(spawn.hard.as_nanos());
            put_work(w, &spawn.work);
        });
        if let Some(host) = &mut self.host {
            host.spawn(spawn);
        }
    }

    fn cancel(&mut self, session: SessionId) {
        self.note(5, |w| put_session(w, &session));
        if let Some(host) = &mut self.host {
            host.cancel(session);
        }
    }

    fn reserve(&mut self, slot: Slot) {
        self.note(6, |w| w.u64(slot.0));
        if let Some(host) = &mut self.host {
            host.reserve(slot);
        }
    }

    fn evidence(&mut self, evidence: Evidence) {
        self.note(7, |w| {
            w.bytes_u32_prefixed(&evidence.first);
            w.bytes_u32_prefixed(&evidence.second);
        });
        if let Some(host) = &mut self.host {
            host.evidence(evidence);
        }
    }

    fn keep_block(&mut self, slot: Slot, root: Root, data: Bytes) {
        self.note(8, |w| {
            w.u64(slot.0);
            w.bytes(&root);
            w.bytes(&data);
        });
        if let Some(host) = &mut self.host {
            host.keep_block(slot, root, data);
        }
    }

    fn keep_message(&mut self, kept: Kept) {
        self.note(10, |w| {
            w.u64(kept.slot.0);
            put_topic(w, kept.topic);
            w.u8(kept.own.into());
            w.bytes(&kept.data);
        });
        if let Some(host) = &mut self.host {
            host.keep_message(kept);
        }
    }

    fn doppelganger(&mut self, doppelganger: Doppelganger) {
        self.note(11, |w| {
            w.u32(doppelganger.validator.0);
            w.u64(doppelganger.slot.0);
        });
        if let Some(host) = &mut self.host {
            host.doppelganger(doppelganger);
        }
    }

    fn raise(&mut self, shown: Shown) {
        self.note(12, |w| {
            w.bytes(&shown.vote.encode());
            shown.validators.iter().for_each(|one| w.u32(one.0));
        });
        if let Some(host) = &mut self.host {
            host.raise(shown);
        }
    }

    fn keep_anchor(&mut self, anchor: Anchor) {
        // Its contents follow from the inputs.
        self.note(13, |w| w.u64(anchor.finalised().slot.0));
        if let Some(host) = &mut self.host {
            host.keep_anchor(anchor);
        }
    }

    fn judged(&mut self, judged: Judged) {
        // The text has every field, also one that is added later.
        self.note(9, |w| w.bytes(format!("{judged:?}").as_bytes()));
        if let Some(host) = &mut self.host {
            host.judged(judged);
        }
    }
}
