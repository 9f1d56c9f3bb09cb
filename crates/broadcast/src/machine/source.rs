//! Own payloads: commit, sign, and send without revealing the source.

use alphorn_scheme::Bytes;
use alphorn_types::Time;
use std::sync::Arc;

use super::{Broadcast, Task};
use crate::config::SourcePrivacy;
use crate::live::{Live, Phase};
use crate::message::{Announce, rides_along};
use crate::rlnc::{Coding, Id, Published, Subject};
use crate::shuffle::{below, shuffle};
use crate::work::{Product, Work};
use crate::{Output, Step, Unpublished};

impl<C: Coding> Broadcast<C> {
    pub(super) fn on_publish(&mut self, now: Time, subject: Subject, payload: Bytes) {
        let own = self.live.iter().filter(|live| live.own);
        // Those still being committed to or signed count too, or many could begin before the first is live.
        let begun = self.jobs.iter().filter_map(|pending| match &pending.task {
            Task::Commit { subject } => Some(*subject),
            Task::Sign { published, .. } => Some(published.header.subject),
            _ => None,
        });
        let begun: Vec<Subject> = begun.chain(own.map(|live| live.header.subject)).collect();
        if begun.contains(&subject) {
            return self.unpublished(subject, Unpublished::Twice);
        }
        if begun.len() >= usize::from(self.config.live_max) {
            return self.unpublished(subject, Unpublished::LiveFull);
        }
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let policy = self.config.policy_for(len);
        let work = Work::Commit {
            subject,
            cut: policy.cut(self.code.strategy(), payload.len()),
            payload,
        };
        let expires = now.saturating_add_ns(self.config.broadcast_ttl_ns);
        self.spawn(expires, Task::Commit { subject }, work);
    }

    pub(super) fn on_committed(
        &mut self,
        now: Time,
        subject: Subject,
        product: Option<Product<C>>,
    ) {
        let published = match product {
            Some(Product::Published(Ok(published))) => Box::new(published),
            Some(Product::Published(Err(error))) => {
                return self.unpublished(subject, Unpublished::Header(error));
            }
            _ => return self.unpublished(subject, Unpublished::Failed),
        };
        let network_id = &self.config.limits.network_id;
        let root = published.header.signing_root(network_id);
        let id = published.header.id(network_id);
        let expires = now.saturating_add_ns(self.config.broadcast_ttl_ns);
        let task = Task::Sign { id, published };
        self.spawn(expires, task, Work::Sign { subject, root });
    }

    pub(super) fn on_signed(
        &mut self,
        now: Time,
        id: Id,
        published: Published<C>,
        product: Option<Product<C>>,
    ) {
        let Published {
            header,
            commitments,
            decoder,
        } = published;
        let subject = header.subject;
        let auth = match product {
            Some(Product::Signed(auth))
                // Other nodes reject a header with a longer one.
                if auth.len() <= usize::from(self.config.limits.header_auth_bytes_max) =>
            {
                auth
            }
            _ => return self.unpublished(subject, Unpublished::Failed),
        };
        if self.find(&id).is_some() {
            return self.unpublished(subject, Unpublished::Twice);
        }
        let Some(going) = self.giving_way(&header, None) else {
            return self.unpublished(subject, Unpublished::LiveFull);
        };
        self.make_room(&going);
        let first = commitments
            .first()
            .filter(|_| rides_along(&self.code, &header));
        let announce = Announce::new(&self.code, id, header, auth, first.cloned());
        let empty = self.code.decoder(&announce.header);
        let mut live = Live::new(&self.code, &self.config, Arc::new(announce), empty, now);
        live.own = true;
        live.phase = Phase::Decoded;
        live.full = live.header.generations;
        let needed = live.needed();
        for (flow, commitments) in live.flows.iter_mut().zip(commitments) {
            flow.commitments = Some(commitments);
            flow.rank = needed;
        }
        live.hold_all(decoder);
        shuffle(&mut live.shard_ties, &mut self.rng);
        self.order_peers(&mut live);
        self.insert(live);
        self.out.push_back(Output::Published { id, subject });
        self.progress(id, Step::Header);
        self.begin_sending(self.live.len() - 1);
        self.adopt(now, &id);
    }

    pub(super) fn insert(&mut self, live: Live<C>) {
        // It has returned.
        self.ended.retain(|ended| ended.id != live.id);
        self.ids.push(live.id);
        self.live.push(live);
        self.due_changed = true;
    }

    /// Starts sending as the source, with its privacy setting.
    fn begin_sending(&mut self, index: usize) {
        match self.config.source_privacy {
            SourcePrivacy::None => {
                self.send_done(index);
                self.push_as_source(index, 1);
            }
            SourcePrivacy::Blend => {
                let live = &mut self.live[index];
                (live.coy, live.blend) = (true, true);
                let first_hop = 1 + below(2, &mut self.rng) as u8;
                self.push_as_source(index, first_hop);
            }
            SourcePrivacy::Stem => {
                let live = &mut self.live[index];
                live.coy = true;
                // The order of peers is random already.
                live.stem = live.order.first().copied();
                if live.stem.is_none() {
                    return self.push_as_source(index, 1);
                }
                let needed = u32::from(live.needed());
                live.owe_rounds(0, needed);
                self.wake = true;
            }
        }
    }

    /// Schedules the source's pieces of every generation.
    pub(super) fn push_as_source(&mut self, index: usize, hop: u8) {
        let live = &mut self.live[index];
        live.owe_rounds(hop, u32::from(live.policy.source_pieces));
        self.wake = true;
    }

    /// Acts as the source once all pieces were received from a hiding source.
    pub(super) fn act_as_source(&mut self, index: usize) {
        if std::mem::take(&mut self.live[index].stem_of) {
            self.push_as_source(index, 1);
        } else {
            self.wake = true;
        }
    }
}

impl<C: Coding> Live<C> {
    /// Schedules this many pieces of every generation to all peers, round robin.
    fn owe_rounds(&mut self, hop: u8, pieces: u32) {
        let peers = self.order.len() as u32;
        for flow in &mut self.flows {
            flow.burst_hop = hop;
            flow.burst_owed = pieces;
            flow.burst_peers = peers;
            flow.burst_repeats = true;
            flow.stuck = false;
        }
    }
}
