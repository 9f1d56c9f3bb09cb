//! The effect of a client on the shares of others: results, remembered clients, streams, bodies.

use super::*;
use crate::api::router;
use crate::ask::Refused;
use crate::service::{Parts, Service};
use alphorn_worker::WorkerConfig;
use axum::response::IntoResponse;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

fn end(book: &mut Book, job: u64, output: Output, now: Instant) {
    let finished = Finished {
        outcome: Outcome::Done(output),
        ..finished(job, 0)
    };
    book.end(finished, now);
}

/// Returns the state of a job as its client reads it.
fn snapshot(book: &Book, number: u64) -> Value {
    let record = book.get(number).unwrap();
    serde_json::from_str(&book.snapshot(record, Instant::now()).text()).unwrap()
}

fn bad(count: usize) -> Output {
    Output::Bad(
        (0..count)
            .map(|i| (i, "it does not hold".to_owned()))
            .collect(),
    )
}

#[test]
fn verdicts_count_as_results_and_lists_of_jobs_have_none() {
    let mut book = Book::new(limits(), 1);
    let now = Instant::now();
    let hand = |book: &mut Book, job: u64, output: Output| {
        let number = hand_in(book, asked("a", None, 1), job).unwrap();
        end(book, job, output, now);
        number
    };
    // Some 2,000 bytes of lists each, of which one client may leave 1,000.
    let first = hand(&mut book, 1, bad(100));
    let state = snapshot(&book, first);
    assert_eq!(
        (&state["valid"], &state["bad_count"]),
        (&json!(false), &json!(100))
    );
    assert_eq!(state["bad"], json!((0..100).collect::<Vec<u32>>()));
    assert_eq!(state["reasons"].as_array().map(Vec::len), Some(100));
    // The final event has them too, and counts again.
    let events = alphorn_dashboard::Live::snapshot(&*book.get(first).unwrap().events);
    let last = events.unwrap().lines.pop().unwrap();
    let event: Value = serde_json::from_str(&last.json).unwrap();
    assert_eq!((last.kind, &event["reasons"]), ("ended", &state["reasons"]));
    let kept = book.get(first).unwrap().kept_bytes();
    let lists = json!({"bad": state["bad"], "reasons": state["reasons"]}).to_string();
    assert_eq!(kept, 2 * lists.len());
    let list = book.facts("a", now);
    let text = json!(list).to_string();
    assert_eq!((list.len(), &list[0]["bad_count"]), (1, &json!(100)));
    assert!(text.len() < 1_000 && !text.contains("reasons"), "{text}");
    let second = hand(&mut book, 2, bad(100));
    assert!(book.get(first).is_none(), "two are beyond the share");
    assert!(book.get(second).is_some(), "the last one stays");
    // What is forgotten frees its room: two short ones are kept.
    book.forget(second);
    let short = [3, 4].map(|job| hand(&mut book, job, bad(1)));
    assert!(short.iter().all(|number| book.get(*number).is_some()));
    let verdicts = Output::Verdicts(vec![None, Some("why".to_owned())]);
    let number = hand(&mut book, 5, verdicts);
    let state = snapshot(&book, number);
    assert_eq!(state["valid"], json!([true, false]));
    assert_eq!(state["reasons"], json!([null, "why"]));
    assert_eq!(state["bad_count"], json!(1));
}

#[test]
fn a_client_whose_job_has_just_ended_is_not_the_first_to_be_forgotten() {
    let begin = Instant::now();
    let at = |seconds: u64| begin + Duration::from_secs(seconds);
    for asks in [false, true] {
        let mut book = Book::new(limits(), 1);
        book.admit(&asked("a", None, 1), at(0)).unwrap();
        let number = book.insert(asked("a", None, 1), JobId(1), session(1), at(0));
        let id = format!("{:016x}-{number}", 1);
        match asks {
            // B uploads while the job of A is in progress.
            false => {
                drop(book.upload("b", 10, at(1)).unwrap());
                finish(&mut book, 1, 10, at(2));
            }
            // B arrives after the end, and A queries its job.
            true => {
                finish(&mut book, 1, 10, at(0));
                drop(book.upload("b", 10, at(1)).unwrap());
                assert!(book.find("b", &id, at(2)).is_none());
                assert!(book.find("a", &id, at(2)).is_some());
            }
        }
        drop(book.upload("c", 10, at(3)).unwrap());
        assert!(book.get(number).is_some(), "its result is gone");
        assert_eq!(book.clients(), 2);
        // B and its share were evicted: the next client takes the slot of A.
        drop(book.upload("c", 10, at(4)).unwrap());
        drop(book.upload("b", 10, at(5)).unwrap());
        assert!(book.get(number).is_none());
    }
}

/// The worker uses these numbers to serve clients in turn.
#[test]
fn each_client_has_one_number_of_its_own() {
    let mut book = Book::new(limits(), 1);
    let now = Instant::now();
    let mut number = |client: &str| {
        let (_, number) = book.admit(&asked(client, None, 1), now).unwrap();
        number
    };
    assert_eq!(["a", "b", "a", "b"].map(&mut number), [0, 1, 0, 1]);
}

/// A service of two clients, alice and bob, over a socket.
fn service() -> (Arc<Service>, SocketAddr) {
    let tokens = ["alice", "bob"].map(|name| (name.to_owned(), name.to_owned()));
    let service = Service::start(Parts {
        lanes: WorkerConfig::for_cores(2),
        tokens: Tokens(tokens.into()),
        sets: vec![SET],
        backend: env().backend,
        limits: Limits {
            clients_max: 8,
            body_bytes_max: 2 << 20,
            result_bytes_max: 1 << 20,
            ..limits()
        },
        instance: 1,
        commit: "",
    });
    let service = service.unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let limits = alphorn_node::http::Limits::default();
    alphorn_node::http::serve(listener, router(service.clone()), limits).unwrap();
    (service, address)
}

/// Returns the head of an answer, and the stream of the rest.
fn ask(address: SocketAddr, client: &str, request: &str, body: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.0\r\nAuthorization: Bearer {client}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    (String::from_utf8(head).unwrap(), stream)
}

#[test]
fn streams_of_one_client_leave_places_for_others_and_end_with_their_jobs() {
    let (service, address) = service();
    for (client, job) in [("alice", 1), ("bob", 2)] {
        hand_in(&mut service.book(), asked(client, None, 1), job).unwrap();
    }
    let events = |client: &str, number: u64| {
        let path = format!("GET /worker/v1/jobs/{:016x}-{number}/events", 1);
        ask(address, client, &path, "")
    };
    let mut open = Vec::new();
    let refused = loop {
        let (head, stream) = events("alice", 1);
        if !head.starts_with("HTTP/1.0 200") {
            break head;
        }
        open.push(stream);
        assert!(open.len() <= 64, "one client takes all places");
    };
    assert_eq!((open.len(), service.readers_max()), (8, 8));
    assert!(refused.starts_with("HTTP/1.0 429"), "{refused}");
    assert!(
        events("bob", 2).0.starts_with("HTTP/1.0 200"),
        "bob's share"
    );
    finish(&mut service.book(), 1, 10, Instant::now());
    for mut stream in open {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.contains("event: ended"), "{text}");
    }
    // A reader that connects after the end is notified, and its stream ends.
    let (head, mut late) = events("alice", 1);
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    let mut text = String::new();
    late.read_to_string(&mut text).unwrap();
    assert!(text.contains("event: ended"), "{text}");
}

#[test]
fn a_proof_is_given_to_each_reader_without_a_copy() {
    let mut book = Book::new(limits(), 1);
    let number = hand_in(&mut book, asked("a", None, 1), 1).unwrap();
    let proof = vec![7; 10];
    let made = proof.as_ptr();
    end(&mut book, 1, Output::Proof(proof), Instant::now());
    let given = |book: &Book| book.get(number).unwrap().proof().unwrap().clone();
    assert!(
        [given(&book), given(&book)]
            .iter()
            .all(|one| one.as_ptr() == made)
    );
}

/// A body is rejected as soon as it exceeds the maximum, whatever its content.
#[test]
fn lists_end_where_nothing_more_is_taken() {
    let keys = |count: usize| {
        format!(
            "{{\"set\":\"test\",\"keys\":[{}]}}",
            vec!["\"\""; count].join(",")
        )
    };
    let most = 1 << 15;
    assert_eq!(
        texts::registry(keys(most).as_bytes()).unwrap().keys.len(),
        most
    );
    let why = texts::registry(keys(most + 1).as_bytes()).err().unwrap();
    assert!(why.contains("more than 32768"), "{why}");
    let votes = in_json(&Work::Prove(cast(0, &[1, 4])));
    for field in ["participants", "signatures"] {
        let mut body = votes.clone();
        body[field] = match field {
            "participants" => json!(vec![0; most + 1]),
            _ => json!(vec![""; most + 1]),
        };
        let why = texts::decode(Kind::Prove, body.to_string().as_bytes(), 0, &lookup);
        assert!(why.unwrap_err().contains("more than 32768"), "{field}");
    }
    let one = in_json(&Work::Verify(vec![entry(0, &[0], &[1])]));
    let many = json!({"entries": vec![one["entries"][0].clone(); 257]}).to_string();
    let why = texts::decode(Kind::Verify, many.as_bytes(), 0, &lookup).unwrap_err();
    assert!(why.contains("more than 256"), "{why}");
}

#[test]
fn an_error_quotes_no_more_than_anybody_reads() {
    let (_, address) = service();
    let long = "\u{1}é".repeat(1 << 17);
    for body in [
        json!({"set": long, "keys": []}),
        json!({(long.clone()): 1}),
        json!({"set": "test", "keys": [], "number": long}),
    ] {
        let body = body.to_string();
        let (head, mut rest) = ask(address, "alice", "POST /worker/v1/registries", &body);
        let mut answer = String::new();
        rest.read_to_string(&mut answer).unwrap();
        assert!(head.starts_with("HTTP/1.0 400"), "{head}");
        assert!(answer.len() < 8 << 10, "{} bytes", answer.len());
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(!answer["message"].as_str().unwrap().is_empty());
    }
    let short = Refused::from((StatusCode::BAD_REQUEST, "é".repeat(600))).into_response();
    assert_eq!(
        short.status(),
        StatusCode::BAD_REQUEST,
        "cut between characters"
    );
}
