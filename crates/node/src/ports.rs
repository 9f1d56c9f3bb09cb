//! The host of an engine and the carrier of its broadcasts in a process: network, lanes, signer, archive and telemetry.

pub(crate) mod outgoing;
mod subscriptions;

use crate::aggregating::Aggregating;
use crate::archive::Archive;
use crate::blocks::Stored;
use crate::cast::{self, Blamed, Carrier};
use crate::engine::{Doppelganger, Host, Judged, Kept, LOCAL};
use crate::lanes::{Ended, Lanes};
use crate::local::Locals;
use crate::signer::Signer;
use crate::telemetry::{Event, Telemetry};
use alphorn_net::{Handle, Priority, Refused};
use alphorn_proto::chain::Anchor;
use alphorn_proto::horn::{Horn, Shown};
use alphorn_proto::wire::{Kind, NetworkDigest, Reject, Root, Topic};
use alphorn_proto::{Evidence, Input, Peer, Spawn, Token, Verdict};
use alphorn_scheme::{Bytes, SessionId, Work};
use alphorn_types::{Layout, Slot, Validator};
use outgoing::{Bounds, Outgoing};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use subscriptions::Subscriptions;
use tokio::sync::Notify;

/// Tokens from here on identify messages that did not arrive by gossip, so gossip does not know them.
pub(crate) const REQUESTED: u64 = 1 << 63;

/// The threads that wait for a disk.
pub(crate) struct Disks {
    pub(crate) signer: Signer,
    pub(crate) archive: Archive,
}

/// Carries out the side effects of an engine.
pub(crate) struct Ports {
    pub(crate) net: Handle,
    pub(crate) network: NetworkDigest,
    pub(crate) lanes: Arc<dyn Lanes>,
    pub(crate) signer: Signer,
    pub(crate) archive: Archive,
    pub(crate) telemetry: Telemetry,
    subscriptions: Subscriptions,
    outgoing: Outgoing,
    /// Jobs that were not accepted and end as refused in the next turn.
    refused: VecDeque<Ended>,
    /// Triggers that turn.
    wake: Arc<Notify>,
    /// Messages of the last run and of the interface that wait for a verdict.
    pub(crate) locals: Locals,
    /// Why nothing is signed at the moment, in addition to what the signer knows.
    pub(crate) hold: Option<&'static str>,
    /// Most configured peers report that the local clock is ahead. Marks of its slots are not made, because they would
    /// use up keys.
    pub(crate) are_peers_behind: bool,
    /// Whether it makes aggregates and collections.
    pub(crate) aggregating: Aggregating,
    cast: cast::Settings,
    /// Own messages to broadcast, messages that arrived by broadcast, and verdicts on them. The loop moves them on
    /// after each input, so there are no more than one input has effects.
    pub(crate) large: VecDeque<(Topic, Bytes)>,
    pub(crate) delivered: VecDeque<Input>,
    pub(crate) verdicts: VecDeque<(Token, Verdict)>,
}

/// What ports are made from.
pub(crate) struct Outlets {
    pub(crate) net: Handle,
    pub(crate) network: NetworkDigest,
    pub(crate) lanes: Arc<dyn Lanes>,
    pub(crate) disks: Disks,
    pub(crate) telemetry: Telemetry,
    pub(crate) cast: cast::Settings,
    /// Triggers another turn of the loop.
    pub(crate) wake: Arc<Notify>,
    /// Bounds of own messages that wait for the network.
    pub(crate) bounds: Bounds,
}

impl Ports {
    pub(crate) fn new(outlets: Outlets) -> Self {
        let Outlets {
            net,
            network,
            lanes,
            disks: Disks { signer, archive },
            telemetry,
            cast,
            wake,
            bounds,
        } = outlets;
        Ports {
            net,
            network,
            lanes,
            signer,
            archive,
            aggregating: Aggregating::new(telemetry.info().is_aggregator),
            telemetry,
            subscriptions: Subscriptions::default(),
            outgoing: Outgoing::new(bounds),
            refused: VecDeque::new(),
            wake,
            locals: Locals::default(),
            hold: None,
            are_peers_behind: false,
            cast,
            large: VecDeque::new(),
            delivered: VecDeque::new(),
            verdicts: VecDeque::new(),
        }
    }

    /// The next finished job, from any source.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        let refused = self.refused.pop_front();
        refused
            .or_else(|| self.signer.poll())
            .or_else(|| self.lanes.poll())
    }

    /// Offers the network the topics for which its queue had no room. Returns how many are left.
    pub(crate) fn offer_topics(&mut self) -> u64 {
        let (net, network) = (&self.net, self.network);
        self.subscriptions.offer(|topic, is_wanted| {
            let name = topic.named(network).to_string();
            match is_wanted {
                true => net.subscribe(&name),
                false => net.unsubscribe(&name),
            }
        })
    }

    /// Offers the network the own messages for which its queue had no room, in the current slot.
    pub(crate) fn offer_messages(&mut self, slot: Slot) {
        let put = publisher(&self.net, self.network);
        let given_up = self.outgoing.offer(slot, put);
        if given_up > 0 {
            self.telemetry.emit(&Event::PublishRefused(given_up));
        }
    }
}

impl Host for Ports {
    fn publish(&mut self, topic: Topic, data: Bytes) {
        self.telemetry.published(topic, &data);
        match self.cast.takes(topic, data.len()) {
            true => self.large.push_back((topic, data)),
            false => self.gossip(topic, data),
        }
    }

    fn subscribe(&mut self, topics: &BTreeSet<Topic>) {
        self.subscriptions.want(topics);
        let refused = self.offer_topics();
        self.telemetry.emit(&Event::PublishRefused(refused));
    }

    fn verdict(&mut self, token: Token, verdict: Verdict) {
        self.telemetry.emit(&Event::Verdict { token, verdict });
        // Tested first, since tokens of broadcasts are above all others.
        if token.0 >= cast::TOKENS {
            return self.verdicts.push_back((token, verdict));
        }
        if token.0 >= REQUESTED {
            if let Some((kept, told)) = self.locals.verdict(token, verdict) {
                if told.is_some() {
                    self.archive.keep_message(kept.clone(), told);
                }
                self.publish(kept.topic, kept.data);
            }
            return;
        }
        let verdict = match verdict {
            Verdict::Accept => alphorn_net::Verdict::Accept,
            Verdict::Ignore => alphorn_net::Verdict::Ignore,
            Verdict::Reject => alphorn_net::Verdict::Reject,
        };
        // A verdict that finds no room comes too late anyway, since gossip forgets the message.
        let _ = self.net.verdict(token.0, verdict);
    }

    fn report(&mut self, peer: Peer, reason: Reject) {
        if peer == LOCAL {
            self.locals.explain(reason.name());
            return;
        }
        // For messages that arrived by broadcast, the source is held responsible by the verdict.
        if peer.0 >= cast::SOURCES {
            return;
        }
        let name = reason.name();
        self.telemetry.emit(&Event::Reported { peer, reason: name });
        let _ = self.net.report(peer.0, points(reason));
    }

    fn spawn(&mut self, spawn: Spawn) {
        // Noted now, since the job is gone once a signer or a lane has refused it.
        let (job, op, group) = (spawn.job, spawn.work.name(), spawn.group);
        self.telemetry.job_spawned(&spawn);
        let refused = match &spawn.work {
            work if self.aggregating.refuses(work).is_some() => self.aggregating.refuses(work),
            Work::Sign(_) if self.telemetry.has_doppelganger() => {
                // Rights of the next slot may have been granted already.
                Some("another process signs with a key of this node".to_owned())
            }
            Work::Sign(_) if !self.signer.is_alive() => Some("the signer has ended".to_owned()),
            Work::Sign(_) if self.archive.counters().ended.load(Ordering::Relaxed) => {
                // Own votes would not be stored, and be missing after a restart.
                Some("the thread that keeps blocks has ended".to_owned())
            }
            Work::Sign(_) if self.hold.is_some() => self.hold.map(str::to_owned),
            Work::Sign(_) => self
                .signer
                .sign(spawn)
                .err()
                .map(|_| "the signer is full".to_owned()),
            _ => self.lanes.submit(spawn).err(),
        };
        if let Some(why) = refused {
            self.refused.push_back(Ended::refused(job, op, group, why));
            // No other job may be in flight whose end would wake the loop.
            self.wake.notify_one();
        }
    }

    fn cancel(&mut self, session: SessionId) {
        self.lanes.cancel(session);
    }

    fn reserve(&mut self, slot: Slot) {
        if !self.are_peers_behind {
            self.signer.reserve(slot);
        }
    }

    fn evidence(&mut self, evidence: Evidence) {
        self.telemetry.contradiction(evidence);
    }

    fn keep_block(&mut self, slot: Slot, root: Root, data: Bytes) {
        self.telemetry
            .emit(&Event::BlockAccepted { slot, root: &root });
        self.archive.keep(Stored { slot, root, data });
    }

    fn keep_message(&mut self, kept: Kept) {
        self.archive.keep_message(kept, None);
    }

    fn doppelganger(&mut self, doppelganger: Doppelganger) {
        self.telemetry.emit(&Event::Doppelganger(doppelganger));
        self.signer.stop_for(doppelganger);
    }

    fn raise(&mut self, shown: Shown) {
        self.telemetry.emit(&Event::MarksRaised(&shown));
        self.signer.raise(&shown);
    }

    fn keep_anchor(&mut self, anchor: Anchor) {
        self.archive.keep_anchor(anchor);
    }

    fn judged(&mut self, judged: Judged) {
        let judged = self.aggregating.judge(judged);
        self.telemetry.emit(&Event::Judged(&judged));
    }
}

impl Carrier for Ports {
    fn send_frame(&mut self, peer: Peer, id: u64, data: Bytes) -> bool {
        self.net.send_frame(peer.0, data, id).is_ok()
    }

    fn cancel_frames(&mut self, peer: Peer, id: u64) {
        self.net.cancel_frame(peer.0, id);
    }

    fn run(&mut self, spawn: Spawn) {
        self.spawn(spawn);
    }

    fn gossip(&mut self, topic: Topic, data: Bytes) {
        let put = publisher(&self.net, self.network);
        let given_up = self.outgoing.send(topic, data, put);
        if given_up > 0 {
            self.telemetry.emit(&Event::PublishRefused(given_up));
        }
    }

    fn deliver(&mut self, from: Peer, topic: Topic, token: Token, data: Bytes) {
        self.telemetry.emit(&Event::Delivered { topic });
        self.telemetry.arrived(topic, &data, token);
        self.delivered.push_back(Input::Message {
            from,
            topic,
            token,
            data,
        });
    }

    fn blame_peer(&mut self, peer: Peer, reason: alphorn_broadcast::Reject, points: u32) {
        let name = reason.name();
        self.telemetry.emit(&Event::Reported { peer, reason: name });
        let _ = self.net.report(peer.0, points);
    }

    fn blame_source(&mut self, blamed: &Blamed) {
        let (source, slot) = (blamed.subject.source, blamed.subject.slot);
        self.telemetry.emit(&Event::SourceBlamed {
            source: Validator(source),
            slot: Slot(slot),
        });
    }

    fn equivocated(&mut self, evidence: Evidence) {
        self.evidence(evidence);
    }
}

/// Sends own messages to the network.
fn publisher(
    net: &Handle,
    network: NetworkDigest,
) -> impl Fn(Topic, Bytes) -> Result<(), Refused> + '_ {
    move |topic, data| net.publish(&topic.named(network).to_string(), data, Priority::Duty)
}

/// Penalty for misbehaviour. At 100 the sender is banned.
pub(crate) fn points(reason: Reject) -> u32 {
    match reason {
        Reject::Malformed(_) => 10,
        Reject::BadSelection | Reject::BadEnvelope => 20,
        Reject::BadEvidence => 50,
        _ => 5,
    }
}

/// Maximum length of a message of each kind, in the network's form.
pub fn topic_bytes(format: &alphorn_proto::wire::WireFormat) -> alphorn_net::PerKind<usize> {
    alphorn_net::PerKind {
        block: format.bytes_max(Kind::Block),
        collection: format.bytes_max(Kind::Collection),
        aggregate: format.bytes_max(Kind::Aggregate),
        vote: format.bytes_max(Kind::Vote),
    }
}

/// Topics that a peer may subscribe to at once. One that hosts `seats` validators serves in at most this many units of
/// each level, and has the topics of an ending epoch, of the current one and of the next. Where that is few, others may
/// observe.
pub fn topics_max(layout: &Layout, seats: u32) -> usize {
    let units = |level| layout.units(level).count();
    // The two are the topics of blocks and of collections.
    let all = 2 + (1..=layout.levels()).map(units).sum::<usize>();
    let of_seats = (seats as usize).saturating_mul(usize::from(layout.levels()) * EPOCHS_MAX);
    let least = alphorn_net::Limits::default().subscriptions_max;
    let max = all.min(2 + of_seats).max(least);
    max.min(alphorn_net::SUBSCRIPTIONS_LIMIT)
}

/// Messages that wait for the loop of a node: all votes of the cells that it subscribes to arrive almost at once, in
/// addition to other messages.
pub fn inbox_messages_max(horn: &Horn) -> usize {
    let layout = &horn.config().layout;
    let seats = horn.local().validators().len() * EPOCHS_MAX;
    let cells = seats.min(layout.cells_count() as usize);
    let votes = cells.saturating_mul(layout.cell_len_max() as usize);
    let all = votes.min(layout.validators() as usize);
    let more = alphorn_net::Limits::default().inbox_messages_max;
    // Each of them has a token.
    // One kind has three quarters of the slots at most, so a third more holds all votes.
    let places = all.saturating_add(all.div_ceil(3)).saturating_add(more);
    places.min(alphorn_net::TOKENS_LIMIT)
}

/// Epochs whose topics are subscribed to at once.
const EPOCHS_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive;
    use crate::blocks::Blocks;
    use crate::lanes::Pool;
    use crate::safety::{Opening, SafetyStore};
    use crate::telemetry::NodeInfo;
    use alphorn_net::{DropReason, Events, NodeKey};
    use alphorn_proto::horn::{Local, SchemeInfo};
    use alphorn_scheme::model::{CostTable, Model, ModelRegistry};
    use alphorn_scheme::{Class, Env, Group, JobId, Outcome, Role, SignItem, SignJob};
    use alphorn_types::{Cell, Time};
    use alphorn_worker::WorkerConfig;
    use redb::backends::InMemoryBackend;
    use std::time::{Duration, Instant};

    /// Ports of a node that no peer dials, with the notification that wakes its loop.
    fn ports() -> (Ports, Arc<Notify>, Events) {
        let info = NodeInfo::example();
        let (layout, network) = (info.config.layout, info.config.network());
        let model = Model::new(CostTable::example()).unwrap();
        let of_scheme = SchemeInfo::of(&model, &layout);
        let horn = Horn::new(info.config.clone(), of_scheme, Local::observer(&layout)).unwrap();
        let registry = Arc::new(ModelRegistry {
            validators: layout.validators(),
        });
        let env = Env::new(Arc::new(model), registry, [1; 32]);
        let lanes = Arc::new(Pool::start(env, WorkerConfig::default(), || ()).unwrap());
        let opening = Opening {
            now_ms: 0,
            slot: Slot(0),
            before_genesis: true,
            resume: false,
        };
        let safety = SafetyStore::open_backend(InMemoryBackend::new, [].into(), opening).unwrap();
        let blocks = Blocks::open_backend(InMemoryBackend::new).unwrap();
        let mut config = alphorn_net::Config::new(NodeKey::from_bytes([1; 32]).unwrap(), network);
        config.limits.outbox_messages_max = 16;
        config.limits.outbox_reserved = 0;
        let (net, events) = alphorn_net::start(config).unwrap();
        let disks = Disks {
            signer: Signer::start(Arc::new(safety), lanes.clone(), None, || 0, || ()).unwrap(),
            archive: Archive::start(blocks, archive::queue_max(0), || None).unwrap(),
        };
        let wake = Arc::new(Notify::new());
        let telemetry = Telemetry::new(info, &horn);
        (
            Ports::new(Outlets {
                net,
                network,
                lanes,
                disks,
                telemetry,
                cast: cast::Settings::default(),
                wake: wake.clone(),
                bounds: Bounds::of(&horn),
            }),
            wake,
            events,
        )
    }

    /// No other job is running whose end would trigger another turn, but a job that is not accepted still ends.
    #[test]
    fn a_job_that_is_refused_brings_a_turn_in_which_it_ends() {
        let (mut ports, wake, _events) = ports();
        ports.hold = Some("the clock is not believed");
        let slot = Slot(1);
        let item = SignItem {
            validator: Validator(0),
            role: Role::Vote,
            message: [1; 32],
            guard: None,
        };
        ports.spawn(Spawn {
            job: JobId(7),
            session: SessionId { slot, seq: 0 },
            group: Group::of_slot(slot),
            class: Class::Duty,
            soft: Time::MAX,
            hard: Time::MAX,
            work: Work::Sign(SignJob::new(slot, vec![item])),
        });
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().unwrap();
        let woken = async { tokio::time::timeout(Duration::from_secs(1), wake.notified()).await };
        runtime.block_on(woken).expect("the loop sleeps on");
        let ended = ports.ended().expect("it ends");
        assert_eq!(ended.job, JobId(7));
        assert!(matches!(ended.outcome, Outcome::Refused(_)));
        assert!(ports.ended().is_none());
    }

    /// A signing job produces thousands of votes at once, more than the network's queue can take.
    #[test]
    fn all_votes_of_a_large_committee_reach_the_network() {
        let (mut ports, _, _events) = ports();
        let cell = Cell {
            committee: 0,
            subcommittee: 0,
        };
        for vote in 0..900_u16 {
            ports.gossip(Topic::Vote { cell }, vote.to_le_bytes().as_slice().into());
        }
        // No peer is connected, so each one that reached gossip is counted there.
        let arrived = |ports: &Ports| ports.net.status().dropped(DropReason::NoPeers);
        let until = Instant::now() + Duration::from_secs(20);
        while arrived(&ports) < 900 && Instant::now() < until {
            ports.offer_messages(Slot(0));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(arrived(&ports), 900);
    }

    /// 64 committees of 128 cells. A node with all validators subscribes to more topics than the default allows a peer,
    /// and is heard by the others. One with a few validators needs no more.
    #[test]
    fn a_peer_may_receive_the_topics_of_its_validators() {
        let large = Layout::new(1 << 20, 64, 128).unwrap();
        let all = 2 + large.units(1).count() + large.units(2).count();
        assert_eq!(all, 2 + 64 * 128 + 64);
        assert_eq!(topics_max(&large, 1 << 20), all);
        assert_eq!(topics_max(&large, 1_000), 2 + 1_000 * 2 * 3);
        let default = alphorn_net::Limits::default().subscriptions_max;
        assert_eq!(
            [1, 600].map(|seats| topics_max(&large, seats)),
            [default; 2]
        );
        let small = Layout::new(64, 2, 2).unwrap();
        assert_eq!(topics_max(&small, 64), default);
    }

    #[test]
    fn the_network_carries_every_frame_of_a_broadcast() {
        let frame_bytes_max = alphorn_net::Limits::default().frame_bytes_max;
        assert!(frame_bytes_max >= alphorn_broadcast::MESSAGE_BYTES_MAX);
    }
}
