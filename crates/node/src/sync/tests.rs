//! Requests and responses, one by one.

mod formats;

use super::*;
use alphorn_proto::horn::fetch;

const NETWORK: [u8; 4] = [1, 2, 3, 4];
const HERE: Standing = Standing {
    slot: Slot(9),
    finalised_slot: Slot(5),
};

fn status(head: u8, head_slot: u64) -> Status {
    Status {
        network: NETWORK,
        slot: Slot(9),
        head_slot: Slot(head_slot),
        head: [head; 32],
        finalised_slot: Slot(4),
        finalised: [7; 32],
        time_ms: 1_234,
    }
}

fn chunk(status: Status) -> Option<Vec<Arc<[u8]>>> {
    Some(vec![Arc::from(status.encode().as_slice())])
}

fn knows(root: &Root) -> bool {
    root[0] < 10
}

/// A block of these tests is its slot. Its root begins with a tenth of it.
fn read(block: &[u8]) -> Option<(Slot, Root)> {
    let slot = u64::from_le_bytes(block.try_into().ok()?);
    Some((Slot(slot), [(slot / 10) as u8; 32]))
}

#[test]
fn what_is_encoded_comes_back() {
    let one = status(3, 8);
    assert_eq!(Status::decode(&one.encode()), Some(one));
    assert_eq!(Status::decode(&[0; STATUS_BYTES - 1]), None);
    assert_eq!(
        decode_range(&encode_range(Slot(77), 9)),
        Some((Slot(77), 9))
    );
    assert_eq!(decode_range(&[0; RANGE_BYTES + 1]), None);
}

#[test]
fn an_unknown_head_is_followed_by_a_question_for_blocks() {
    let mut sync = Sync::default();
    assert_eq!(sync.poll(0, HERE), None, "nobody to ask");
    sync.peer_up(Peer(3), false);
    let asked = sync.poll(0, HERE).unwrap();
    assert_eq!((asked.peer, asked.name), (Peer(3), STATUS));
    assert_eq!(sync.poll(0, HERE), None, "one question at a time");
    let (answer, more) = sync.answer(asked.id, chunk(status(20, 8)), NETWORK, HERE, knows, read);
    let more = more.unwrap();
    assert_eq!((answer, more.name), (Answer::Nothing, BLOCKS_BY_RANGE));
    assert_eq!(decode_range(&more.data), Some((Slot(6), BLOCKS_ASKED)));
    let blocks = vec![Arc::from([1u8].as_slice())];
    let late = sync.answer(asked.id, Some(blocks.clone()), NETWORK, HERE, knows, read);
    assert_eq!(late, (Answer::Nothing, None), "an answer is taken once");
    let (answer, none) = sync.answer(more.id, Some(blocks.clone()), NETWORK, HERE, knows, read);
    assert_eq!((answer, none), (Answer::Blocks(blocks), None));
}

#[test]
fn more_blocks_than_were_asked_for_are_not_taken() {
    let mut sync = Sync::default();
    sync.peer_up(Peer(3), false);
    let asked = sync.poll(0, HERE).unwrap();
    let (_, more) = sync.answer(asked.id, chunk(status(20, 8)), NETWORK, HERE, knows, read);
    let slots: Vec<u64> = (6..6 + 2 * u64::from(BLOCKS_ASKED)).collect();
    let Answer::Blocks(taken) = answered(&mut sync, more.unwrap().id, Some(&slots)) else {
        panic!("a range was asked for");
    };
    let first = slots[..usize::from(BLOCKS_ASKED)].iter();
    assert!(
        taken
            .iter()
            .map(|block| read(block).unwrap().0.0)
            .eq(first.copied())
    );
}

/// Where the next request starts after a response with the blocks of some slots.
fn next_from(sync: &mut Sync, standing: Standing, slots: &[u64]) -> Slot {
    let ask = |sync: &mut Sync| {
        let asked = sync.poll(0, standing).unwrap();
        let answer = chunk(status(20, 900));
        let (_, more) = sync.answer(asked.id, answer, NETWORK, standing, knows, read);
        more.unwrap()
    };
    sync.peer_up(Peer(1), false);
    let more = ask(sync);
    let blocks = slots
        .iter()
        .map(|slot| Arc::from(slot.to_le_bytes().as_slice()));
    let blocks = Some(blocks.collect());
    sync.answer(more.id, blocks, NETWORK, standing, knows, read);
    sync.peer_up(Peer(1), false);
    let (from, count) = decode_range(&ask(sync).data).unwrap();
    assert_eq!(count, BLOCKS_ASKED);
    from
}

#[test]
fn a_long_gap_is_filled_piece_by_piece() {
    // Blocks of slots below 100 are in the chain.
    let mut sync = Sync::default();
    assert_eq!(next_from(&mut sync, HERE, &[6, 8, 40, 90]), Slot(91));
    let mut sync = Sync::default();
    assert_eq!(next_from(&mut sync, HERE, &[50, 98, 101, 120]), Slot(99));
    // Of another branch, or nothing, or not a block at all: from the start.
    for slots in [&[200, 201][..], &[]] {
        let mut sync = Sync::default();
        assert_eq!(next_from(&mut sync, HERE, slots), Slot(6));
    }
    // What has become final in the meantime is not requested.
    let mut sync = Sync::default();
    let later = Standing {
        finalised_slot: Slot(95),
        ..HERE
    };
    assert_eq!(next_from(&mut sync, later, &[40, 50]), Slot(96));
}

/// From where blocks are requested of a peer that names an unknown head, and then responds like this.
fn piece(sync: &mut Sync, peer: u64, slots: Option<&[u64]>) -> u64 {
    sync.peer_up(Peer(peer), false);
    let asked = sync.poll(0, HERE).unwrap();
    assert_eq!(asked.peer, Peer(peer));
    let head = chunk(status(20, 900));
    let (_, more) = sync.answer(asked.id, head, NETWORK, HERE, knows, read);
    let more = more.unwrap();
    answered(sync, more.id, slots);
    decode_range(&more.data).unwrap().0.0
}

#[test]
fn a_peer_that_brings_nothing_of_use_has_nothing_asked_again_of_others() {
    let lies: [Option<&[u64]>; 3] = [None, Some(&[]), Some(&[200])];
    for lie in lies {
        let mut sync = Sync::default();
        assert_eq!(piece(&mut sync, 1, Some(&[6, 20])), 6);
        piece(&mut sync, 2, lie);
        assert_eq!(piece(&mut sync, 1, Some(&[21, 40])), 21, "{lie:?}");
        piece(&mut sync, 2, lie);
        assert_eq!(piece(&mut sync, 3, Some(&[41, 60])), 41, "{lie:?}");
        piece(&mut sync, 2, lie);
        assert_eq!(piece(&mut sync, 1, None), 61, "{lie:?}");
        sync.peer_down(Peer(3));
        assert_eq!(piece(&mut sync, 1, None), 41, "{lie:?}");
    }
}

/// A block that is known here, far ahead on another branch, is not what the others' blocks follow.
#[test]
fn a_known_block_far_ahead_costs_every_peer_one_question() {
    let mut sync = Sync::default();
    for peer in [1, 3] {
        piece(&mut sync, 2, Some(&[98]));
        assert_eq!(piece(&mut sync, peer, Some(&[200])), 99);
        for (from, brought) in [(6, [10, 30]), (31, [40, 60]), (61, [70, 90])] {
            piece(&mut sync, 2, Some(&[98]));
            assert_eq!(piece(&mut sync, peer, Some(&brought)), from);
        }
    }
    // A peer with a known head starts over, where the others are.
    sync.peer_up(Peer(1), false);
    let asked = sync.poll(0, HERE).unwrap();
    sync.answer(asked.id, chunk(status(2, 8)), NETWORK, HERE, knows, read);
    assert_eq!(piece(&mut sync, 1, None), 99);
}

#[test]
fn a_known_head_ends_it_and_peers_take_turns() {
    let mut sync = Sync::default();
    sync.peer_up(Peer(3), false);
    sync.peer_up(Peer(8), false);
    for (slot, peer) in [(9, 3), (9, 8), (10, 3), (11, 8), (12, 3)] {
        let here = Standing {
            slot: Slot(slot),
            ..HERE
        };
        let asked = sync.poll(0, here).unwrap();
        assert_eq!(asked.peer, Peer(peer), "slot {slot}");
        let (answer, more) = sync.answer(asked.id, chunk(status(2, 8)), NETWORK, here, knows, read);
        assert_eq!((answer, more), (Answer::Nothing, None));
    }
    assert_eq!(
        sync.poll(
            0,
            Standing {
                slot: Slot(12),
                ..HERE
            }
        ),
        None,
        "once a slot"
    );
}

#[test]
fn a_bad_answer_or_none_leaves_the_way_free() {
    let mut sync = Sync::default();
    sync.peer_up(Peer(1), false);
    let id = sync.poll(0, HERE).unwrap().id;
    let other = Status {
        network: [9; 4],
        ..status(20, 8)
    };
    let answer = sync.answer(id, chunk(other), NETWORK, HERE, knows, read);
    assert_eq!(answer, (Answer::Malformed, None));
    sync.peer_up(Peer(2), false);
    let id = sync.poll(0, HERE).unwrap().id;
    assert_eq!(
        sync.answer(id, None, NETWORK, HERE, knows, read),
        (Answer::Nothing, None)
    );
    sync.peer_up(Peer(4), false);
    assert_eq!(sync.poll(0, HERE).unwrap().peer, Peer(4));
    sync.peer_down(Peer(4));
    sync.peer_up(Peer(5), false);
    let refused = sync.poll(0, HERE).unwrap();
    assert_eq!(
        refused.peer,
        Peer(5),
        "a peer that went away is not waited for"
    );
    sync.refused(refused.id);
    sync.peer_up(Peer(6), false);
    assert!(sync.poll(0, HERE).is_some());
}

fn missing(root: u8, peers: &[u64]) -> Missing {
    Missing {
        root: [root; 32],
        peers: peers.iter().map(|peer| Peer(*peer)).collect(),
        held: false,
    }
}

/// Peers 1 to `count` are connected.
fn among(count: u64) -> Sync {
    let mut sync = Sync::default();
    (1..=count).for_each(|peer| sync.peer_up(Peer(peer), false));
    sync
}

/// The peers that a node asks, and for which roots.
fn whom(questions: &[Question]) -> Vec<(u64, u8)> {
    let one = |question: &Question| (question.peer.0, question.data[0]);
    questions.iter().map(one).collect()
}

fn answered(sync: &mut Sync, id: u64, slots: Option<&[u64]>) -> Answer {
    let blocks = slots.map(|slots| {
        let block = |slot: &u64| Arc::from(slot.to_le_bytes().as_slice());
        slots.iter().map(block).collect()
    });
    sync.answer(id, blocks, NETWORK, HERE, knows, read).0
}

const MS: u64 = 1_000_000;

#[test]
fn a_missing_block_is_asked_of_one_who_spoke_of_it_then_of_the_next() {
    let mut sync = among(5);
    let wanted = [missing(20, &[3, 2]), missing(21, &[3])];
    let at = |ms: u64| Time::from_millis(ms);
    let first = sync.fetch(at(0), &wanted);
    assert_eq!(whom(&first), [(3, 20)], "one block of a peer at a time");
    assert_eq!(sync.fetch(at(0), &wanted), [], "no root twice at a time");
    let patience = fetch::PATIENCE_NS / MS;
    assert_eq!(sync.fetch(at(patience - 1), &wanted), []);
    let second = sync.fetch(at(patience), &wanted);
    assert_eq!(whom(&second), [(2, 20)]);
    // A late response is accepted: the block of slot 200 has a root of twenties.
    let late = answered(&mut sync, first[0].id, Some(&[200]));
    assert!(matches!(late, Answer::Block(_)));
    assert_eq!(
        answered(&mut sync, first[0].id, Some(&[200])),
        Answer::Nothing
    );
    assert_eq!(whom(&sync.fetch(at(patience), &wanted[1..])), [(3, 21)]);
}

#[test]
fn an_answer_without_the_block_is_followed_by_the_next_question_at_once() {
    let mut sync = among(5);
    let wanted = [missing(20, &[1, 2, 3, 4])];
    let lies: [(Option<&[u64]>, Answer); 3] = [
        (None, Answer::Nothing),
        (Some(&[]), Answer::Nothing),
        (Some(&[9]), Answer::Malformed),
    ];
    for (peer, (slots, answer)) in (1..).zip(lies) {
        let asked = sync.fetch(Time::ZERO, &wanted);
        assert_eq!(whom(&asked), [(peer, 20)]);
        assert_eq!(answered(&mut sync, asked[0].id, slots), answer);
    }
    // No peer is asked for the same block twice, and others do not know of it.
    assert_eq!(whom(&sync.fetch(Time::ZERO, &wanted)), [(4, 20)]);
    sync.peer_down(Peer(4));
    assert_eq!(sync.fetch(Time::from_millis(9_000), &wanted), []);
}

#[test]
fn roots_of_one_peer_take_one_place_and_those_who_never_answer_few() {
    let mut sync = among(100);
    let mut wanted: Vec<Missing> = (0..90).map(|root| missing(100 + root, &[1])).collect();
    wanted.push(missing(20, &[2]));
    assert_eq!(whom(&sync.fetch(Time::ZERO, &wanted)), [(1, 100), (2, 20)]);
    // Ever more peers that never respond: each is one, and the last still gets its turn.
    let mut sync = among(100);
    let invented: Vec<Missing> = (0..90)
        .map(|peer| missing(100 + peer as u8, &[1 + peer]))
        .collect();
    let asked = sync.fetch(Time::ZERO, &invented);
    assert!(asked.len() < FETCHES_MAX);
    for question in &asked {
        assert_eq!(answered(&mut sync, question.id, None), Answer::Nothing);
    }
    let doubted: Vec<Missing> = (0..asked.len() as u64)
        .map(|peer| missing(200 + peer as u8, &[1 + peer]))
        .collect();
    let again = sync.fetch(Time::from_millis(1), &doubted).len();
    assert!(again > 0 && again < asked.len() / 2, "{again} places");
    let honest = [missing(20, &[99])];
    assert_eq!(whom(&sync.fetch(Time::from_millis(2), &honest)), [(99, 20)]);
}

#[test]
fn a_root_that_two_speak_of_is_asked_for_however_many_one_invents() {
    let mut sync = among(3);
    let mut wanted: Vec<Missing> = (0..1_100u16)
        .map(|root| {
            let mut missing = missing(100, &[1]);
            missing.root[1..3].copy_from_slice(&root.to_be_bytes());
            missing
        })
        .collect();
    assert_eq!(whom(&sync.fetch(Time::ZERO, &wanted)), [(1, 100)]);
    // The most wanted comes first, whatever its root.
    wanted.insert(0, missing(0xff, &[2, 3]));
    assert_eq!(whom(&sync.fetch(Time::ZERO, &wanted)), [(2, 0xff)]);
}

#[test]
fn a_block_that_is_being_checked_is_asked_for_after_a_while() {
    let mut sync = among(3);
    let held = [Missing {
        held: true,
        ..missing(20, &[1])
    }];
    assert_eq!(sync.fetch(Time::ZERO, &held), []);
    let later = Time::ZERO.saturating_add_ns(fetch::HELD_NS);
    assert_eq!(whom(&sync.fetch(later, &held)), [(1, 20)]);
}

#[test]
fn somebody_is_asked_where_all_who_spoke_of_a_block_are_gone() {
    let mut sync = among(3);
    let wanted = [missing(20, &[50]), missing(21, &[51])];
    let first = sync.fetch(Time::ZERO, &wanted);
    assert_eq!(whom(&first), [(1, 20)], "one such question at a time");
    answered(&mut sync, first[0].id, Some(&[]));
    assert_eq!(whom(&sync.fetch(Time::ZERO, &wanted)), [(2, 20)]);
}

#[test]
fn a_question_without_room_is_asked_again() {
    let mut sync = among(2);
    let wanted = [missing(20, &[1])];
    let first = sync.fetch(Time::ZERO, &wanted);
    sync.refused(first[0].id);
    assert_eq!(whom(&sync.fetch(Time::ZERO, &wanted)), [(1, 20)]);
}

#[test]
fn a_peer_without_an_answer_does_not_use_up_the_question_of_the_slot() {
    let mut sync = among(9);
    for peer in 1..=9 {
        // New ones are asked once each.
        let asked = sync.poll(0, HERE).unwrap();
        assert_eq!(asked.peer, Peer(peer));
        sync.answer(asked.id, chunk(status(2, 8)), NETWORK, HERE, knows, read);
    }
    let next = Standing {
        slot: Slot(10),
        ..HERE
    };
    let mut asked = Vec::new();
    while let Some(question) = sync.poll(0, next) {
        asked.push(question.peer.0);
        sync.answer(question.id, None, NETWORK, next, knows, read);
    }
    assert_eq!(asked, [1, 2, 3, 4]);
}

/// An address has five connections and drops each for the next one. Its peers say nothing, or that they have blocks,
/// and then nothing.
#[test]
fn an_endless_row_of_new_peers_keeps_no_other_from_being_asked() {
    for silent in [true, false] {
        let mut sync = among(1);
        let first = sync.poll(0, HERE).unwrap();
        sync.answer(first.id, chunk(status(2, 8)), NETWORK, HERE, knows, read);
        let mut asked = vec![0];
        for ms in 0..60_000 {
            if ms % 1_000 == 0 {
                let peer = 100 + ms / 1_000;
                sync.peer_up(Peer(peer), false);
                sync.peer_down(Peer(peer - 5));
            }
            let here = Standing {
                slot: Slot(10 + ms / 4_000),
                ..HERE
            };
            while let Some(question) = sync.poll(ms * MS, here) {
                let is_first = question.peer == Peer(1);
                let head = if is_first { 2 } else { 20 };
                if is_first {
                    asked.push(ms);
                }
                if is_first || !silent {
                    let status = chunk(status(head, 8));
                    sync.answer(question.id, status, NETWORK, here, knows, read);
                }
                assert!(sync.open.len() <= OPEN_MAX);
            }
        }
        asked.push(60_000);
        let longest = asked.windows(2).map(|two| two[1] - two[0]).max();
        assert!(longest <= Some(8_000), "{longest:?} ms");
    }
}

#[test]
fn a_status_that_is_late_is_taken_and_its_peer_asked_for_nothing_else() {
    let mut sync = among(2);
    let slow = sync.poll(0, HERE).unwrap();
    let at = PATIENCE_NS;
    assert_eq!(sync.poll(at - 1, HERE), None);
    let next = sync.poll(at, HERE).unwrap();
    assert_eq!(next.peer, Peer(2));
    sync.answer(next.id, chunk(status(2, 8)), NETWORK, HERE, knows, read);
    let later = Standing {
        slot: Slot(10),
        ..HERE
    };
    assert_eq!(sync.poll(at, later).map(|asked| asked.peer), Some(Peer(2)));
    let (_, more) = sync.answer(slow.id, chunk(status(20, 8)), NETWORK, HERE, knows, read);
    assert_eq!(more.map(|asked| asked.peer), Some(Peer(1)));
    assert_eq!(sync.take_heard(), Some((status(20, 8), 0)));
}

/// A stranger that connects first claims to have an unknown block, and does not send it.
#[test]
fn a_stranger_that_owes_blocks_keeps_no_other_from_being_asked() {
    let mut sync = among(1);
    let asked = sync.poll(0, HERE).unwrap();
    let (_, more) = sync.answer(asked.id, chunk(status(20, 8)), NETWORK, HERE, knows, read);
    assert_eq!(more.unwrap().name, BLOCKS_BY_RANGE);
    sync.peer_up(Peer(2), false);
    assert_eq!(sync.poll(0, HERE), None, "one question at a time");
    assert_eq!(sync.poll(BLOCKS_PATIENCE_NS - 1, HERE), None);
    let next = sync.poll(BLOCKS_PATIENCE_NS, HERE).unwrap();
    assert_eq!((next.peer, next.name), (Peer(2), STATUS));
}

/// The network allows four responses with blocks at a time. Strangers that claim to have blocks, and send none, do not
/// hold all of them.
#[test]
fn strangers_that_owe_blocks_leave_an_answer_for_a_configured_peer() {
    let mut sync = among(20);
    let mut ranges = Vec::new();
    let mut now_ns = 0;
    for _ in 0..40 {
        if let Some(asked) = sync.poll(now_ns, HERE) {
            let head = chunk(status(20, 8));
            let (_, more) = sync.answer(asked.id, head, NETWORK, HERE, knows, read);
            ranges.extend(more);
        }
        now_ns += BLOCKS_PATIENCE_NS;
    }
    assert_eq!(ranges.len(), ANSWERS_MAX - 1);
    sync.peer_up(Peer(99), true);
    let asked = sync.poll(now_ns, HERE).unwrap();
    let head = chunk(status(20, 8));
    let (_, more) = sync.answer(asked.id, head, NETWORK, HERE, knows, read);
    assert_eq!(more.map(|more| more.peer), Some(Peer(99)));
    // An answered one frees its own.
    answered(&mut sync, ranges[0].id, None);
    assert_eq!(sync.ranges(), ANSWERS_MAX - 1);
}

#[test]
fn a_question_for_blocks_without_room_has_another_peer_asked_in_the_slot() {
    let mut sync = among(2);
    for _ in 0..2 {
        let asked = sync.poll(0, HERE).unwrap();
        sync.answer(asked.id, chunk(status(2, 8)), NETWORK, HERE, knows, read);
    }
    let next = Standing {
        slot: Slot(10),
        ..HERE
    };
    let asked = sync.poll(0, next).unwrap();
    let head = chunk(status(20, 8));
    let (_, more) = sync.answer(asked.id, head, NETWORK, next, knows, read);
    sync.refused(more.unwrap().id);
    let other = sync.poll(0, next).map(|asked| asked.peer);
    assert!(other.is_some_and(|other| other != asked.peer));
}

/// However many strangers are connected and owe a response, a configured peer is asked when it connects.
#[test]
fn a_configured_peer_is_asked_at_once_whatever_strangers_owe() {
    let last = u64::from(alphorn_net::PEERS_MAX);
    let mut sync = among(last - 1);
    let mut now_ns = 0;
    for _ in 0..4 * OPEN_MAX {
        if let Some(asked) = sync.poll(now_ns, HERE).filter(|asked| asked.id % 2 == 0) {
            let status = chunk(status(20, 8));
            sync.answer(asked.id, status, NETWORK, HERE, knows, read);
        }
        now_ns += PATIENCE_NS;
    }
    assert_eq!(sync.open.len(), OPEN_MAX, "no room");
    sync.peer_up(Peer(last), true);
    let asked = sync.poll(now_ns, HERE).unwrap();
    assert_eq!((asked.peer, asked.name), (Peer(last), STATUS));
    assert_eq!(sync.poll(now_ns, HERE), None);
    // They have their own bound.
    (last + 1..last + 100).for_each(|peer| sync.peer_up(Peer(peer), true));
    while sync.poll(now_ns, HERE).is_some() {}
    assert_eq!(sync.open.len(), 2 * OPEN_MAX);
}
