//! Targets of `alphorn-proto`'s broadcast: the decoders of its messages, and its state machine.

use alphorn_scheme::JobId;
use std::sync::{Arc, OnceLock};

use alphorn_broadcast::rlnc::{
    Coding, Cut, Distribution, Generators, Header, Id, Model16, Published, Ristretto, Rs, Strategy,
    Subject,
};
use alphorn_broadcast::{
    Announce, Broadcast, Config, Input, Known, Limits, Message, Output, Place, Policy,
    PolicyChoice, Product, Ranks, Reject, ShardSet, Want, Work,
};
use alphorn_exec::Backend;
use alphorn_proto::Peer;
use alphorn_types::Time;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

const PAYLOAD_BYTES_MAX: u32 = 4096;
const LIMITS: Limits = Limits {
    network_id: [3; 32],
    header_auth_bytes_max: 128,
};
const SUBJECT: Subject = Subject {
    kind: 1,
    slot: 5,
    source: 2,
    index: 0,
};
/// Most broadcasts of the machine that is driven.
const LIVE_MAX: usize = 3;
/// Most messages that may wait in it: eight headers, three orphans and eight notes of each of six
/// peers.
const WAITING_MAX: usize = 6 * (8 + 3 + 8);
const PEERS: u8 = 6;

/// Knows one header or none, and would admit any.
struct Headers(Option<(Id, Header)>);

impl Known for Headers {
    fn header(&self, id: &Id) -> Option<&Header> {
        let (known, header) = self.0.as_ref()?;
        (known == id).then_some(header)
    }

    fn admits(&self, _header: &Header) -> Result<(), Reject> {
        Ok(())
    }
}

fn ristretto() -> &'static Ristretto {
    static CODE: OnceLock<Ristretto> = OnceLock::new();
    CODE.get_or_init(|| Ristretto::new(Generators::new(Backend::Portable, 8), PAYLOAD_BYTES_MAX))
}

fn published<C: Coding>(code: &C, len: u8) -> (Id, Published<C>) {
    let payload: Vec<u8> = (0..len).collect();
    let cut = match code.strategy() {
        Strategy::Rlnc => Cut {
            generations: 1 + u16::from(len % 2),
            ..Cut::rlnc(3)
        },
        Strategy::Rs => Cut::rs(3),
    };
    let published = code.publish(SUBJECT, &payload, cut);
    let published = published.expect("a legal payload");
    (published.header.id(&LIMITS.network_id), published)
}

/// Decodes a message of each code, with and without its header. What is accepted must encode to
/// itself, but for chunks, whose coefficients may be wider than needed, and for the model, which keeps
/// no commitments and is never on a network.
///
/// Input: `code u8 | message`; true if the message is accepted where its header is known.
///
/// # Panics
///
/// If a message has a second encoding or another length than it says.
pub fn broadcast_message(data: &[u8]) -> bool {
    let Some((&which, bytes)) = data.split_first() else {
        return false;
    };
    let len = 102 + which / 3 % 2;
    match which % 3 {
        0 => decodes(ristretto(), len, bytes, true),
        1 => decodes(&Rs::new(PAYLOAD_BYTES_MAX), len, bytes, true),
        _ => decodes(&Model16::new(PAYLOAD_BYTES_MAX), len, bytes, false),
    }
}

fn decodes<C: Coding>(code: &C, len: u8, bytes: &[u8], exact: bool) -> bool {
    let (id, Published { header, .. }) = published(code, len);
    if let Ok(message) = Message::decode(bytes, code, &LIMITS, &Headers(None)) {
        let own = match &message {
            Message::Header(announce) => announce.header.clone(),
            _ => header.clone(),
        };
        let again = message.encode(code, &own);
        assert_eq!(again.len(), bytes.len(), "{}", message.kind());
        assert!(!exact || again == bytes, "{}", message.kind());
    }
    let known = Headers(Some((id, header.clone())));
    let decode = |bytes: &[u8]| Message::decode(bytes, code, &LIMITS, &known);
    match decode(bytes) {
        Ok(Message::Header(_)) => true,
        Ok(message) => {
            let again = message.encode(code, &header);
            let kind = message.kind();
            assert_eq!(message.wire_bytes(), again.len() as u64, "{kind}");
            if kind == "piece" {
                assert!(again.len() <= bytes.len(), "a longer piece");
                let twice = decode(&again).expect("a shorter piece is one too");
                assert_eq!(twice.encode(code, &header), again);
            } else {
                assert!(!exact || again == bytes, "{kind}");
            }
            message.id() == id
        }
        Err(_) => false,
    }
}

fn messages<C: Coding>(code: &C, len: u8) -> Vec<Vec<u8>> {
    let (id, source) = published(code, len);
    let header = &source.header;
    let along = (code.commitment_lists(header) == 1).then(|| source.commitments[0].clone());
    let auth = vec![1; 16].into();
    let announce = Announce::new(code, id, header.clone(), auth, along);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut all = vec![Message::Header(Arc::new(announce)), Message::Done { id }];
    for selector in 0..3 {
        if let Some(piece) = code.draw(&source.decoder, selector, Distribution::Fresh, &mut rng) {
            all.push(Message::piece(code, header, id, piece));
        }
    }
    let (ranks, want) = match header.strategy {
        Strategy::Rs => {
            let set = ShardSet::new(header.shards_total, [0, 3]);
            (Ranks::Shards(set.clone()), Want::Shards(set))
        }
        Strategy::Rlnc if header.generations == 1 => (Ranks::One(2), Want::Count(2)),
        Strategy::Rlnc => (Ranks::Many([2, 1].into()), Want::Count(2)),
    };
    all.push(Message::Rank { id, ranks });
    all.push(Message::Need {
        id,
        generation: 0,
        want,
    });
    if header.generations > 1 {
        for (generation, commitments) in (0..).zip(source.commitments) {
            all.push(Message::commits(code, header, id, generation, commitments));
        }
    }
    all.iter()
        .map(|message| message.encode(code, header))
        .collect()
}

/// Every message of every code.
pub(crate) fn broadcast_message_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (which, len) in [(0, 102), (3, 103)] {
        let codes = [
            messages(ristretto(), len),
            messages(&Rs::new(PAYLOAD_BYTES_MAX), len),
            messages(&Model16::new(PAYLOAD_BYTES_MAX), len),
        ];
        for (code, messages) in (which..).zip(codes) {
            seeds.extend(messages.iter().map(|bytes| [&[code], &bytes[..]].concat()));
        }
    }
    seeds
}

/// Feeds a script of messages, peers, times and job results to a node. No input may panic, what
/// lives and waits must stay within the bounds, and no piece leaves that nobody verified.
///
/// Input: `code u8`, then steps `peer u8 | action u8 | length u16 | bytes`; true if every message
/// decodes.
///
/// # Panics
///
/// If a bound is passed or something invalid is sent.
pub fn broadcast_roles(data: &[u8]) -> bool {
    let Some((&which, script)) = data.split_first() else {
        return false;
    };
    match which % 2 {
        0 => drive(Rs::new(PAYLOAD_BYTES_MAX), script, |_| true),
        _ => drive(Model16::new(PAYLOAD_BYTES_MAX), script, |piece| piece.valid),
    }
}

fn drive<C: Coding>(code: C, script: &[u8], is_valid: fn(&C::Piece) -> bool) -> bool {
    let duties = Arc::new(|subject: &Subject| subject.slot == SUBJECT.slot);
    let mut node = Broadcast::new(code, Arc::new(config()), duties, [5; 32]);
    let (mut now, mut rest, mut all_decode) = (Time::from_millis(1), script, true);
    let mut jobs: Vec<(JobId, Box<Work<C>>)> = Vec::new();
    while let [peer, action, low, high, tail @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let (bytes, tail) = tail.split_at(length.min(tail.len()));
        rest = tail;
        let peer = Peer(u64::from(*peer % (PEERS + 1)));
        let input = match action % 12 {
            0 if length % 4 == 3 => match Place::new(u16::from(*low), u16::from(*high)) {
                Some(place) => Input::Placed { peer, place },
                None => continue,
            },
            0 => Input::PeerUp { peer },
            1 => Input::PeerDown { peer },
            2 => Input::SendReady { peer },
            3 => {
                now = now.saturating_add_ns((length as u64) << 22);
                Input::Deadline
            }
            4 => Input::Publish {
                subject: SUBJECT,
                payload: bytes.into(),
            },
            5 => Input::Finished {
                job: JobId(length as u64),
                product: None,
            },
            6 | 7 if jobs.is_empty() => continue,
            6 | 7 => {
                let (job, work) = jobs.swap_remove(length % jobs.len());
                let product = finish(node.code(), &work, *action % 12 == 6);
                Input::Finished { job, product }
            }
            _ => match node.decode(peer, bytes) {
                Ok(message) => Input::Message {
                    from: peer,
                    message,
                },
                Err(reason) => {
                    all_decode = false;
                    Input::Malformed { from: peer, reason }
                }
            },
        };
        node.handle(now, input);
        while let Some(output) = node.poll_output() {
            match output {
                Output::Spawn { job, work, .. } => jobs.push((job, work)),
                Output::Send { peer, message, .. } => {
                    assert!(peer.0 < u64::from(PEERS), "a message to a stranger");
                    if let Message::Piece { piece, .. } = &message {
                        assert!(is_valid(piece), "an invalid piece is sent");
                    }
                }
                _ => {}
            }
        }
        // A second header of each subject.
        assert!(node.live_count() <= 2 * LIVE_MAX, "too many broadcasts");
        assert!(node.waiting_count() <= WAITING_MAX, "too much waits");
    }
    all_decode && script.len() >= 4
}

/// The result of a job; signatures are those of one byte, 1.
fn finish<C: Coding>(code: &C, work: &Work<C>, done: bool) -> Option<Product<C>> {
    if !done {
        return None;
    }
    match work {
        Work::Sign { .. } => Some(Product::Signed(vec![1; 16].into())),
        Work::VerifyHeader { announce, .. } => {
            Some(Product::Header(announce.auth.first() == Some(&1)))
        }
        work => work.run(code),
    }
}

/// Small bounds, so that short scripts pass them.
fn config() -> Config {
    Config {
        limits: LIMITS,
        payload_bytes_max: PAYLOAD_BYTES_MAX,
        policy: PolicyChoice::Fixed(Policy {
            chunks: 3,
            // Payloads of the seeds take one generation and two.
            chunk_bytes_max: 34,
            burst: [4, 3, 2],
            credit_milli: 700,
            push_pct: 0,
            source_pieces: 6,
            headers: 1,
            source_run: 2,
            gather_ns: 4_000_000,
            feedback: true,
        }),
        places: 2,
        peers_max: u16::from(PEERS),
        live_max: LIVE_MAX as u16,
        orphans_peer_max: 3,
        unverified_peer_max: 2,
        broadcast_ttl_ns: 3_000_000_000,
        ..Config::default()
    }
}

/// Scripts in which a broadcast begins, is received, asked for, decoded and over.
pub(crate) fn broadcast_roles_seeds() -> Vec<Vec<u8>> {
    let scripts = [
        messages(&Rs::new(PAYLOAD_BYTES_MAX), 102),
        messages(&Model16::new(PAYLOAD_BYTES_MAX), 102),
        messages(&Rs::new(PAYLOAD_BYTES_MAX), 103),
        messages(&Model16::new(PAYLOAD_BYTES_MAX), 103),
    ];
    let script = |(which, messages): (usize, Vec<Vec<u8>>)| {
        let mut script = vec![which as u8];
        let mut step = |peer: u8, action: u8, bytes: &[u8]| {
            script.extend([peer, action]);
            script.extend((bytes.len() as u16).to_le_bytes());
            script.extend(bytes);
        };
        (0..PEERS).for_each(|peer| step(peer, 0, &[]));
        for message in &messages {
            step(1, 8, message);
            step(0, 6, &[]);
            step(2, 8, message);
            step(0, 6, &[]);
            step(3, 2, &[]);
        }
        step(0, 4, &[7; 200]);
        (0..6).for_each(|_| step(0, 6, &[]));
        (0..PEERS).for_each(|peer| step(peer, 2, &[]));
        step(4, 8, &messages[1]);
        step(0, 3, &[0; 200]);
        step(1, 1, &[]);
        step(0, 3, &[0; 2000]);
        script
    };
    scripts.into_iter().enumerate().map(script).collect()
}
