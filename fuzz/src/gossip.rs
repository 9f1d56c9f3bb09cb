//! Target of `alphorn-proto`'s gossip: its decoder and its state machine.

use std::sync::Arc;

use alphorn_proto::gossip::{
    Config, ContentId, Gossip, Ids, Input, Limits, Message, Output, PEERS_MAX,
};
use alphorn_proto::{Peer, Token, Verdict};
use alphorn_scheme::Bytes;
use alphorn_types::Time;

const TOPIC: &[u8] = b"topic";

/// Most messages that a machine of [`config`] may ever let wait.
const WAITING_MAX: usize = 8;

/// Feeds a script of messages, verdicts, peers and times to a node. Whatever decodes must encode to
/// itself; no input may panic, and what waits and is answered must stay within the bounds.
///
/// Input: steps `peer u8 | action u8 | length u8 | bytes`; true if every message decodes.
///
/// # Panics
///
/// If a message has a second encoding or a bound is passed.
pub fn gossip_message(data: &[u8]) -> bool {
    let mut node: Gossip<ContentId, Bytes> = Gossip::new(Arc::new(config()), 7);
    let (mut now, mut rest, mut all_decode) = (Time::from_millis(1), data, true);
    let mut tokens = Vec::new();
    while let [peer, action, length, tail @ ..] = rest {
        let (bytes, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        let peer = Peer(u64::from(*peer));
        let input = match action % 8 {
            0 => Input::PeerUp { peer },
            1 => Input::PeerDown { peer },
            2 => {
                now = now.saturating_add_ns(u64::from(*length) << 22);
                Input::Deadline
            }
            3 => Input::Verdict {
                token: tokens.pop().unwrap_or(Token(u64::from(*length))),
                verdict: [Verdict::Accept, Verdict::Ignore, Verdict::Reject]
                    [usize::from(*length % 3)],
            },
            4 => Input::Publish {
                id: ContentId::of(TOPIC, bytes),
                payload: bytes.into(),
            },
            _ => match decode(bytes) {
                Ok(message) => Input::Message {
                    from: peer,
                    message,
                },
                Err(error) => {
                    all_decode = false;
                    Input::Malformed { from: peer, error }
                }
            },
        };
        node.handle(now, input);
        drain(&mut node, &mut tokens);
        assert!(
            tokens.len() <= WAITING_MAX,
            "{} messages wait",
            tokens.len()
        );
        assert!(
            node.mesh().minus(node.peers()).is_empty(),
            "a stranger in the mesh"
        );
    }
    all_decode && !data.is_empty()
}

/// Decodes a message; what is accepted must encode to itself.
fn decode(bytes: &[u8]) -> Result<Message<ContentId, Bytes>, alphorn_types::DecodeError> {
    let message = Message::decode(bytes, TOPIC, &config().limits)?;
    assert_eq!(
        message.encode(),
        bytes,
        "{} has a second encoding",
        message.kind()
    );
    assert_eq!(message.wire_bytes(), bytes.len() as u64);
    Ok(message)
}

fn drain(node: &mut Gossip<ContentId, Bytes>, tokens: &mut Vec<Token>) {
    while let Some(output) = node.poll_output() {
        match output {
            Output::Validate { token, .. } => tokens.push(token),
            Output::Send { to, .. } => {
                assert!(!to.is_empty() && to.iter().all(|peer| peer.0 < PEERS_MAX as u64));
            }
            Output::Cancel { .. } | Output::Deliver { .. } | Output::Report { .. } => {}
        }
    }
}

/// Small bounds, so that short scripts pass them.
fn config() -> Config {
    Config {
        degree: 3,
        degree_low: 2,
        degree_high: 4,
        refuse_above_bytes: Some(8),
        history_max: 6,
        history_bytes_max: 64,
        waiting_max: WAITING_MAX as u16,
        waiting_peer_max: 3,
        announced_beat_max: 6,
        announcements_beat_max: 3,
        refused_beat_max: 6,
        ahead_peer_max: 4,
        answers_beat_max: 6,
        answer_bytes_beat_max: 20,
        limits: Limits {
            payload_bytes_max: 64,
            ids_max: 5,
        },
        ..Config::default()
    }
}

/// A script with every kind of message and every action.
pub(crate) fn gossip_message_seeds() -> Vec<Vec<u8>> {
    let payload: Bytes = vec![5; 20].into();
    let id = ContentId::of(TOPIC, &payload);
    let other = ContentId::of(TOPIC, &[6]);
    let pair = Ids::new(vec![id, other]).expect("two names");
    let messages = [
        Message::IHave(pair.clone()),
        Message::Data {
            id,
            payload: payload.clone(),
        },
        Message::IDontWant(pair),
        Message::IWant(Ids::one(id)),
        Message::Graft,
        Message::Prune,
        Message::Relay { id, payload },
    ];
    let mut script = Vec::new();
    let mut step = |peer: u8, action: u8, bytes: &[u8]| {
        script.extend([peer, action, bytes.len() as u8]);
        script.extend(bytes);
    };
    (0..6).for_each(|peer| step(peer, 0, &[]));
    step(0, 2, &[0; 255]);
    for message in &messages {
        step(1, 5, &message.encode());
        step(0, 3, &[]);
        step(0, 2, &[0; 255]);
    }
    step(0, 4, &[6]);
    step(0, 2, &[0; 255]);
    step(2, 5, &Message::<_, Bytes>::IWant(Ids::one(other)).encode());
    step(1, 1, &[]);
    let mut seeds = vec![script];
    seeds.extend(messages.iter().map(|message| {
        let bytes = message.encode();
        [&[1, 0, 0, 1, 5, bytes.len() as u8], &bytes[..]].concat()
    }));
    seeds
}
