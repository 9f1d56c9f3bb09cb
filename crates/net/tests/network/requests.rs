//! Questions and answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alphorn_net::{CODE_BUSY, Event, Peer, Refused, RequestError};

use crate::machine::{Machine, bytes, connect};

type Answer = Result<Vec<Arc<[u8]>>, RequestError>;

/// The end of a request.
async fn end(machine: &mut Machine, wanted: u64) -> Answer {
    machine
        .wait("end of a request", |event| match event {
            Event::Response { id, result, .. } if *id == wanted => Some(result.clone()),
            _ => None,
        })
        .await
}

/// The next question: from whom, its channel, its bytes.
async fn question(machine: &mut Machine) -> (Peer, u64, Arc<[u8]>) {
    machine
        .wait("question", |event| match event {
            Event::Request {
                peer,
                channel,
                protocol,
                data,
            } => {
                assert_eq!(&**protocol, "echo");
                Some((*peer, *channel, Arc::clone(data)))
            }
            _ => None,
        })
        .await
}

#[tokio::test]
async fn a_question_is_answered_with_chunks_or_a_code() {
    let [mut a, mut b] = Machine::several(|_, _| {});
    let (b_number, a_number) = connect(&mut a, &mut b).await;
    for (id, response, expected) in [
        (1, Ok(vec![bytes(1, 3)]), Ok(vec![bytes(1, 3)])),
        (2, Ok(vec![]), Ok(vec![])),
        (
            3,
            Ok(vec![bytes(1, 2048), bytes(2, 0), bytes(3, 2048)]),
            Ok(vec![bytes(1, 2048), bytes(2, 0), bytes(3, 2048)]),
        ),
        (4, Err(7), Err(RequestError::Refused(7))),
        (5, Ok(vec![bytes(1, 2049)]), Err(RequestError::Malformed)),
        (6, Ok(vec![bytes(1, 1); 5]), Err(RequestError::Malformed)),
        (7, Ok(vec![bytes(1, 1500); 3]), Err(RequestError::Malformed)),
        (8, Err(CODE_BUSY), Err(RequestError::Refused(CODE_BUSY))),
    ] {
        let asked = a.handle.request(b_number, "echo", bytes(id as u8, 5), id);
        assert_eq!(asked, Ok(()));
        let (peer, channel, data) = question(&mut b).await;
        assert_eq!((peer, &*data), (a_number, &[id as u8; 5][..]));
        assert_eq!(b.handle.respond(channel, response), Ok(()));
        assert_eq!(end(&mut a, id).await, expected, "request {id}");
    }
    let status = a.handle.status();
    assert_eq!(status.requests, [0, 8]);
    assert_eq!(b.handle.status().requests, [8, 0]);
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_or_ends_with_its_reason() {
    let [mut a, mut b] = Machine::several(|index, config| {
        config.limits.request_timeout_ms = 500;
        if index == 1 {
            config.requests.truncate(1);
        }
    });
    let (peer, _) = connect(&mut a, &mut b).await;
    let ask = |a: &Machine, name, length, id| a.handle.request(peer, name, bytes(0, length), id);
    assert_eq!(ask(&a, "other", 1, 0), Err(Refused::Protocol));
    assert_eq!(
        ask(&a, "echo", 1025, 0),
        Err(Refused::Long {
            bytes: 1025,
            bytes_max: 1024
        })
    );
    assert_eq!(ask(&a, "none", 1, 1), Ok(()));
    assert_eq!(end(&mut a, 1).await, Err(RequestError::Unsupported));
    assert_eq!(a.handle.request(99, "echo", bytes(0, 1), 2), Ok(()));
    assert_eq!(end(&mut a, 2).await, Err(RequestError::Disconnected));
    // Two in flight with a peer, no more; both run out of time.
    assert_eq!(
        (ask(&a, "echo", 1, 3), ask(&a, "echo", 1, 4)),
        (Ok(()), Ok(()))
    );
    assert!(matches!(ask(&a, "echo", 1, 5), Err(Refused::Full { .. })));
    let (_, channel, _) = question(&mut b).await;
    let started = Instant::now();
    for id in [3, 4] {
        let over = end(&mut a, id).await;
        // Both ends give up after the same time; the other one may be the first.
        assert!(
            matches!(over, Err(RequestError::Timeout | RequestError::Malformed)),
            "{over:?}"
        );
    }
    assert!(started.elapsed() < Duration::from_secs(5));
    // An answer that comes too late harms nobody, and the places are free again.
    assert_eq!(b.handle.respond(channel, Ok(vec![])), Ok(()));
    assert_eq!(ask(&a, "echo", 1, 6), Ok(()));
    b.handle.shutdown();
    let lost = end(&mut a, 6).await;
    assert!(
        matches!(
            lost,
            Err(RequestError::Disconnected | RequestError::Malformed | RequestError::Timeout)
        ),
        "{lost:?}"
    );
}

#[tokio::test]
async fn a_machine_that_is_asked_too_much_says_so() {
    let [mut a, mut b, mut c] = Machine::several(|index, config| {
        if index == 2 {
            config.limits.requests_max = 1;
            config.limits.requests_per_peer_max = 1;
        }
    });
    let address = c.address().await;
    a.handle.dial(address.clone()).expect("room");
    b.handle.dial(address).expect("room");
    let from_a = a.up(&c.handle).await;
    let from_b = b.up(&c.handle).await;
    assert_eq!(a.handle.request(from_a, "echo", bytes(1, 1), 1), Ok(()));
    let (_, channel, _) = question(&mut c).await;
    assert_eq!(b.handle.request(from_b, "echo", bytes(1, 1), 1), Ok(()));
    assert_eq!(end(&mut b, 1).await, Err(RequestError::Refused(CODE_BUSY)));
    // A second question of the first peer has no place beside its own first.
    assert_eq!(a.handle.request(from_a, "echo", bytes(1, 1), 2), Ok(()));
    assert_eq!(end(&mut a, 2).await, Err(RequestError::Malformed));
    assert_eq!(c.handle.respond(channel, Ok(vec![bytes(9, 9)])), Ok(()));
    assert_eq!(end(&mut a, 1).await, Ok(vec![bytes(9, 9)]));
}
