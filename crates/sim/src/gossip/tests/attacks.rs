//! Attacks by hostile peers are counted, bounded and reported, and honest messages still arrive.

use super::world::{Node, random};
use crate::gossip::{
    Config, DenseId, Ids, Input, Machine, Message, Output, PeerSet, Peers, Priority, Reject,
};
use crate::role::flood::{Blob, FloodMessage};
use alphorn_proto::{Peer, Token, Verdict};
use alphorn_types::Time;
use std::sync::Arc;

const ATTACKER: Peer = Peer(0);
const HONEST: Peer = Peer(1);

/// A node with `peers` peers, including the attacker, all of them in its mesh if `meshed`.
fn node(peers: u64, meshed: bool, config: Config) -> Node {
    let mut node = Node::new(Arc::new(config), 1);
    for peer in (0..peers).map(Peer) {
        node.handle(Time::ZERO, Input::PeerUp { peer });
        if meshed {
            node.adopt(PeerSet::one(peer));
        }
    }
    drain(&mut node);
    node
}

fn drain(node: &mut Node) -> Vec<Output<Blob>> {
    std::iter::from_fn(|| node.poll_output()).collect()
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn data(id: u32) -> FloodMessage {
    Message::Data {
        id: DenseId(id),
        payload: Blob {
            bytes: 100,
            valid: true,
        },
    }
}

fn ids(range: std::ops::Range<u32>) -> Ids {
    Ids::new(range.map(DenseId).collect()).expect("not empty")
}

fn give(node: &mut Node, at: Time, from: Peer, message: FloodMessage) -> Vec<Output<Blob>> {
    node.handle(at, Input::Message { from, message });
    drain(node)
}

fn reports(outputs: &[Output<Blob>], of: Peer) -> Vec<Reject> {
    let report = |output: &Output<_>| match output {
        Output::Report { peer, reason } if *peer == of => Some(*reason),
        _ => None,
    };
    outputs.iter().filter_map(report).collect()
}

fn token(outputs: &[Output<Blob>]) -> Option<Token> {
    outputs.iter().find_map(|output| match output {
        Output::Validate { token, .. } => Some(*token),
        _ => None,
    })
}

/// Runs the heartbeats up to `until`.
fn beat(node: &mut Node, until: Time) -> Vec<Output<Blob>> {
    let mut outputs = Vec::new();
    while let Some(due) = node.next_deadline().filter(|due| *due <= until) {
        node.handle(due, Input::Deadline);
        outputs.extend(drain(node));
    }
    outputs
}

#[test]
fn invalid_messages_graylist_all_who_sent_them_and_no_one_else() {
    let mut node = node(8, true, Config::default());
    let accomplice = Peer(2);
    for id in 0..4 {
        let outputs = give(&mut node, ms(1), ATTACKER, data(id));
        let token = token(&outputs).expect("a verdict is asked for");
        give(&mut node, ms(1), accomplice, data(id));
        let verdict = Verdict::Reject;
        node.handle(ms(2), Input::Verdict { token, verdict });
        let outputs = drain(&mut node);
        let first = if id == 0 { 1 } else { 0 };
        assert_eq!(
            reports(&outputs, ATTACKER).len(),
            first,
            "one report a beat"
        );
        assert_eq!(reports(&outputs, accomplice).len(), first);
        assert_eq!(reports(&outputs, HONEST), []);
        assert!(
            !outputs
                .iter()
                .any(|output| matches!(output, Output::Send { .. }))
        );
    }
    assert_eq!((node.penalty(ATTACKER), node.penalty(HONEST)), (80, 0));
    assert_eq!(node.refused().count(Reject::Invalid), 8);
    assert!(give(&mut node, ms(3), ATTACKER, data(9)).is_empty());
    assert_eq!(node.refused().count(Reject::Graylisted), 1);
    beat(&mut node, ms(2_000));
    assert!(!node.mesh().contains(ATTACKER) && node.mesh().contains(HONEST));
    assert!(token(&give(&mut node, ms(2_001), HONEST, data(9))).is_some());
}

#[test]
fn penalties_are_forgiven_in_ten_minutes() {
    let mut node = node(8, true, Config::default());
    let relay = || {
        let Message::Data { id, payload } = data(0) else {
            unreachable!("data is made as such")
        };
        Message::Relay { id, payload }
    };
    let mut outputs = give(&mut node, ms(1), ATTACKER, relay());
    outputs.extend(give(&mut node, ms(1), ATTACKER, relay()));
    assert_eq!(node.penalty(ATTACKER), 20);
    assert_eq!(reports(&outputs, ATTACKER), [Reject::Unexpected]);
    beat(&mut node, ms(590_000));
    assert!(node.penalty(ATTACKER) > 0);
    beat(&mut node, ms(620_000));
    assert_eq!((node.penalty(ATTACKER), node.next_deadline()), (0, None));
}

#[test]
fn strangers_are_counted_and_not_heard() {
    let mut node = node(4, true, Config::default());
    for peer in [Peer(5), Peer(127), Peer(128), Peer(u64::MAX)] {
        assert!(give(&mut node, ms(1), peer, data(0)).is_empty());
        node.handle(ms(1), Input::PeerDown { peer });
    }
    node.handle(ms(1), Input::PeerUp { peer: Peer(128) });
    assert_eq!(node.refused().count(Reject::Stranger), 5);
    let token = Token(3);
    let verdict = Verdict::Accept;
    node.handle(ms(1), Input::Verdict { token, verdict });
    assert_eq!(node.refused().count(Reject::UnknownToken), 1);
    assert!(drain(&mut node).is_empty());
}

#[test]
fn announcements_are_bounded_and_lies_are_found() {
    let mut node = node(8, true, Config::default());
    let mut asked = 0;
    for k in 0..50 {
        let announcement = Message::IHave(ids(k * 1000..k * 1000 + 1000));
        for output in give(&mut node, ms(1), ATTACKER, announcement) {
            match output {
                Output::Send {
                    message: Message::IWant(ids),
                    ..
                } => asked += ids.as_slice().len(),
                Output::Report { peer, reason } => {
                    assert_eq!((peer, reason), (ATTACKER, Reject::AnnouncementFlood));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(asked, usize::from(Config::default().ahead_peer_max));
    assert_eq!(node.penalty(ATTACKER), 5, "one flood a heartbeat");
    // Another peer announces one of them: it is not asked while the first still has time.
    let again = || Message::IHave(ids(0..1));
    assert!(give(&mut node, ms(2), HONEST, again()).is_empty());
    let outputs = beat(&mut node, ms(6_000));
    assert!(reports(&outputs, ATTACKER).contains(&Reject::BrokenPromise));
    assert_eq!(reports(&outputs, HONEST), []);
    // No record of it is left, and the message can be requested elsewhere.
    let outputs = give(&mut node, ms(6_001), HONEST, again());
    assert!(matches!(
        outputs[..],
        [Output::Send {
            to: Peers::Set { .. },
            message: Message::IWant(_),
            priority: Priority::Control,
        }]
    ));
}

#[test]
fn a_peer_that_sends_what_it_announced_keeps_its_name() {
    let mut node = node(8, true, Config::default());
    give(&mut node, ms(1), HONEST, Message::IHave(ids(0..50)));
    give(&mut node, ms(2_500), HONEST, data(7));
    let outputs = beat(&mut node, ms(4_000));
    assert_eq!(reports(&outputs, HONEST), []);
}

#[test]
fn requests_are_answered_once_and_within_bounds() {
    let config = Config {
        validate: false,
        answers_beat_max: 30,
        answer_bytes_beat_max: 2_000,
        ..Config::default()
    };
    let mut node = node(3, false, config);
    for id in 0..100 {
        give(&mut node, ms(1), HONEST, data(id));
    }
    let outputs = beat(&mut node, ms(700));
    let announced = |output: &Output<_>| matches!(output, Output::Send { message: Message::IHave(ids), .. } if ids.as_slice().len() == 100);
    // All three peers were grafted; there is none left to announce to until one is pruned.
    assert!(!outputs.iter().any(announced));
    give(&mut node, ms(701), ATTACKER, Message::Prune);
    let outputs = beat(&mut node, ms(1_400));
    assert!(outputs.iter().any(announced));

    let answers = |outputs: &[Output<Blob>]| {
        let data = |output: &&Output<_>| {
            matches!(
                output,
                Output::Send {
                    message: Message::Data { .. },
                    priority: Priority::Answer,
                    to: Peers::One(ATTACKER),
                }
            )
        };
        outputs.iter().filter(data).count()
    };
    let outputs = give(&mut node, ms(1_401), ATTACKER, Message::IWant(ids(0..100)));
    assert_eq!(answers(&outputs), 20, "2,000 bytes");
    assert_eq!(reports(&outputs, ATTACKER), [Reject::RequestFlood]);
    assert_eq!(node.refused().count(Reject::AnswersFull), 10);
    beat(&mut node, ms(2_101));
    let outputs = give(&mut node, ms(2_102), ATTACKER, Message::IWant(ids(0..25)));
    assert_eq!(answers(&outputs), 5);
    assert_eq!(node.refused().count(Reject::RequestReplay), 20);
    assert_eq!(reports(&outputs, ATTACKER), [Reject::RequestReplay]);
    let unknown = give(&mut node, ms(2_103), HONEST, Message::IWant(ids(500..510)));
    assert!(unknown.is_empty());
}

#[test]
fn refusals_are_bounded_and_spare_only_the_one_who_refused() {
    let mut node = node(8, true, Config::default());
    for k in 0..20 {
        let refusal = Message::IDontWant(ids(1 + k * 1000..1001 + k * 1000));
        give(&mut node, ms(1), ATTACKER, refusal);
    }
    assert!(node.refused().count(Reject::RefusalFlood) > 0);
    assert_eq!(node.penalty(ATTACKER), 5);
    let outputs = give(&mut node, ms(2), HONEST, data(1));
    let token = token(&outputs).expect("a verdict is asked for");
    let verdict = Verdict::Accept;
    node.handle(ms(3), Input::Verdict { token, verdict });
    let outputs = drain(&mut node);
    let forwarded = outputs.iter().find_map(|output| match output {
        Output::Send { to, .. } => Some(to.iter().collect::<Vec<_>>()),
        _ => None,
    });
    let forwarded = forwarded.expect("the message is forwarded");
    assert_eq!(
        forwarded.len(),
        6,
        "neither to the sender nor to who refused"
    );
    assert!(!forwarded.contains(&ATTACKER) && !forwarded.contains(&HONEST));
    // Once the message has been sent, a refusal removes it from the queue.
    let late = give(&mut node, ms(4), Peer(3), Message::IDontWant(ids(1..2)));
    assert!(matches!(
        late[..],
        [Output::Cancel {
            peer: Peer(3),
            id: DenseId(1)
        }]
    ));
    // Five points take 151 s; the records of refused messages are dropped long before.
    beat(&mut node, ms(160_000));
    assert_eq!(node.next_deadline(), None);
}

#[test]
fn a_graft_flood_is_reported_and_answered_once_a_heartbeat() {
    let mut node = node(20, false, Config::default());
    give(&mut node, ms(1), ATTACKER, Message::Graft);
    assert!(node.mesh().contains(ATTACKER));
    give(&mut node, ms(2), ATTACKER, Message::Prune);
    let mut prunes = 0;
    for _ in 0..1000 {
        let outputs = give(&mut node, ms(3), ATTACKER, Message::Graft);
        let prune = |output: &&Output<_>| {
            matches!(
                output,
                Output::Send {
                    message: Message::Prune,
                    ..
                }
            )
        };
        prunes += outputs.iter().filter(prune).count();
    }
    assert_eq!((prunes, node.penalty(ATTACKER)), (1, 5));
    assert_eq!(node.refused().count(Reject::GraftFlood), 1000);
    assert!(!node.mesh().contains(ATTACKER));
    // A full mesh accepts no peer.
    for peer in 1..20 {
        give(&mut node, ms(4), Peer(peer), Message::Graft);
    }
    assert_eq!(node.mesh().len(), 12);
}

#[test]
fn a_flood_leaves_places_for_messages_of_others() {
    let config = Config {
        waiting_max: 100,
        waiting_peer_max: 40,
        ..Config::default()
    };
    let mut node = node(8, true, config);
    for id in 0..1000 {
        give(&mut node, ms(1), ATTACKER, data(id));
    }
    assert_eq!(node.refused().count(Reject::WaitingFull), 950);
    for id in 2000..2040 {
        assert!(token(&give(&mut node, ms(2), HONEST, data(id))).is_some());
    }
    // A message for which there was no room was not remembered, so it can arrive again.
    assert!(token(&give(&mut node, ms(3), Peer(2), data(999))).is_some());
}

#[test]
fn honest_messages_arrive_through_a_network_with_attackers() {
    let mut world = random(60, 20, Config::default(), 11);
    world.run_ms(5_000);
    let attackers: Vec<u32> = (0..12).collect();
    let (mut id, mut junk) = (0, 10_000);
    for _ in 0..20 {
        for &attacker in &attackers {
            for peer in (0..world.graph().peers(attacker).len() as u64).map(Peer) {
                junk += 1;
                let payload = Blob {
                    bytes: 5_000,
                    valid: false,
                };
                let invalid = Message::Data {
                    id: DenseId(junk),
                    payload,
                };
                let lies = ids(id..id + 5);
                for message in [
                    invalid,
                    Message::IHave(ids(junk + 1000..junk + 1500)),
                    Message::IWant(lies.clone()),
                    Message::IDontWant(lies),
                    Message::Graft,
                ] {
                    world.send(attacker, &Peers::One(peer), message);
                }
            }
        }
        for _ in 0..5 {
            world.publish(20 + id % 40, id, 2_000);
            id += 1;
        }
        world.run_ms(500);
    }
    world.run_ms(5_000);
    for id in 0..id {
        let has = world.everyone_has(id, 20 + id % 40, &attackers);
        assert!(has, "message {id}");
    }
    let reports = &world.probe().1;
    for (node, blamed, reason) in reports {
        let honest = !attackers.contains(node);
        assert!(
            !honest || attackers.contains(blamed),
            "{blamed} blamed for {reason}"
        );
    }
    assert!(reports.len() > 100);
}
