//! The interface over a socket, with made-up snapshots.

use super::*;
use crate::http::{Limits, serve};
use crate::telemetry::{CommitteeRecord, Event, NodeInfo, Pair, SlotRecord, Streams, hex};
use alphorn_net::{NodeKey, PeerStatus, Status};
use alphorn_proto::Evidence;
use alphorn_proto::chain::Weighed;
use alphorn_proto::wire::{Checkpoint, Header};
use alphorn_types::{Bitfield, Slot, Time, Validator};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// An interface, and a stand-in for the loop.
struct Rig {
    address: SocketAddr,
    summary: watch::Sender<Arc<Summary>>,
    streams: Streams,
    commands: mpsc::Receiver<Control>,
    latest: Latest,
    _snapshots: watch::Sender<Arc<Snapshot>>,
}

fn slot_note() -> SlotRecord {
    let mut coverage = Bitfield::new(24);
    coverage.set_range(0..13);
    SlotRecord {
        slot: Slot(5),
        proposer: Validator(5),
        block: Some(([2; 32], 1_000, 2)),
        votes_seen: 40,
        votes_verified: 38,
        aggregates: 4,
        collections: 2,
        vote: None,
        committees: vec![CommitteeRecord {
            coverage,
            collections: Vec::new(),
        }],
    }
}

fn rig() -> Rig {
    let peer = |outbound| PeerStatus {
        peer: 1,
        id: NodeKey::from_bytes([7; 32]).unwrap().id(),
        address: ([192, 0, 2, 1], 9000).into(),
        outbound,
        client: "alphorn/0.1.0".into(),
        score: 1.5,
        bytes_in: 10,
        bytes_out: 20,
    };
    let block = |slot: u64, byte: u8, parent: u8, weight| Weighed {
        root: [byte; 32],
        header: Header {
            slot: Slot(slot),
            proposer: Validator(byte.into()),
            parent: [parent; 32],
            ..Header::default()
        },
        weight,
    };
    let at = |slot: u64, byte: u8| Checkpoint {
        slot: Slot(slot),
        root: [byte; 32],
    };
    let snapshot = Snapshot {
        head: at(5, 6),
        justified: at(4, 3),
        finalised: at(3, 2),
        tree: [
            block(3, 2, 1, 48),
            block(4, 3, 2, 47),
            block(5, 5, 3, 7),
            block(5, 6, 3, 40),
        ]
        .into(),
        evidence: [Arc::new(Pair {
            number: 9,
            at: Time::from_millis(5),
            evidence: Evidence {
                first: Arc::from([1, 2].as_slice()),
                second: Arc::from([3].as_slice()),
            },
        })]
        .into(),
        slots: [(5, Arc::new(slot_note()))].into(),
        net: Status {
            peers: [peer(true), peer(false)].into(),
            ..Status::default()
        },
        addresses: vec!["/ip4/127.0.0.1/udp/9000".into()],
        ..Snapshot::default()
    };
    let summary = Summary {
        slot: 6,
        head_slot: 5,
        finalised_slot: 3,
        can_sign: true,
        is_aggregator: true,
        ..Summary::default()
    };
    let (snapshots, snapshot) = watch::channel(Arc::new(snapshot));
    let (summary, last) = watch::channel(Arc::new(summary));
    let (control, commands) = mpsc::channel(1);
    let kept = Latest::default();
    let latest = kept.clone();
    let streams = Streams::new(10);
    let api = Api {
        summary: last,
        window: Window {
            info: Arc::new(NodeInfo::example()),
            snapshot,
            streams: streams.clone(),
            counted: Arc::default(),
        },
        control,
        token: "secret".into(),
        clients: Clients::new(),
        doctor: Arc::new(json!({"cores": 2})),
        checkpoint: kept,
    };
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    serve(listener, api.router(), Limits::default()).unwrap();
    Rig {
        address,
        summary,
        streams,
        commands,
        latest,
        _snapshots: snapshots,
    }
}

impl Rig {
    fn emit(&self, event: &Event<'_>) {
        let layout = NodeInfo::example().config.layout;
        self.streams.clone().record(event, &layout);
    }

    fn head(&self, slot: u64, byte: u8, is_other_epoch: bool) {
        let head = Checkpoint {
            slot: Slot(slot),
            root: [byte; 32],
        };
        self.emit(&Event::Head {
            head,
            is_other_epoch,
            given_up: None,
        });
    }

    fn open(&self, request: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let wait = Duration::from_secs(60);
        stream.set_read_timeout(Some(wait)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{request} HTTP/1.0\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        stream
    }

    fn ask(&self, request: &str, headers: &str, body: &str) -> (u16, Value) {
        let mut text = String::new();
        let mut stream = self.open(request, headers, body);
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let code = head[9..12].parse().unwrap();
        (code, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.ask(&format!("GET {path}"), "", "")
    }

    fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let token = "Authorization: Bearer secret\r\n";
        self.ask(&format!("POST {path}"), token, body)
    }
}

#[test]
fn the_beacon_names_have_the_beacon_shapes() {
    let rig = rig();
    let data = |path: &str| {
        let (code, value) = rig.get(path);
        assert_eq!(code, 200, "{path}: {value}");
        value["data"].clone()
    };
    let identity = data("/eth/v1/node/identity");
    assert_eq!(identity["peer_id"], NodeInfo::example().id.to_string());
    assert_eq!(identity["p2p_addresses"][0], "/ip4/127.0.0.1/udp/9000");
    let record = identity["enr"].as_str().unwrap();
    let address: alphorn_net::Address = record.parse().unwrap();
    assert_eq!(address.id(), NodeInfo::example().id);
    let expected = json!({
        "head_slot": "5", "sync_distance": "1", "is_syncing": false,
        "is_optimistic": false, "el_offline": false,
    });
    assert_eq!(data("/eth/v1/node/syncing"), expected);
    let genesis = data("/eth/v1/beacon/genesis");
    assert_eq!(genesis["genesis_time"], "1770407233");
    assert_eq!(genesis["genesis_fork_version"], "0x0a1bff00");
    let spec = data("/eth/v1/config/spec");
    assert_eq!(spec["SECONDS_PER_SLOT"], "4");
    assert_eq!(spec["SLOTS_PER_EPOCH"], "4");
    assert!(spec.as_object().unwrap().values().all(Value::is_string));
    let (_, peers) = rig.get("/eth/v1/node/peers");
    assert_eq!(peers["meta"]["count"], 2);
    assert_eq!(peers["data"][0]["direction"], "outbound");
    let count =
        |query: &str| rig.get(&format!("/eth/v1/node/peers?{query}")).1["meta"]["count"].clone();
    assert_eq!(count("direction=inbound"), 1);
    assert_eq!(count("state=connected&direction=inbound,outbound"), 2);
    assert_eq!(count("state=disconnected"), 0);
    let (code, why) = rig.get("/eth/v1/node/peers?state=gone");
    assert_eq!((code, &why["code"]), (400, &json!(400)));
    let (code, why) = rig.get("/eth/v2/validator/aggregate_attestation");
    assert_eq!((code, &why["code"]), (501, &json!(501)));
}

#[test]
fn the_lean_names_have_the_lean_shapes() {
    let rig = rig();
    let ask = |path: &str| {
        let (code, value) = rig.get(path);
        assert_eq!(code, 200, "{path}: {value}");
        value
    };
    let health = json!({"status": "healthy", "service": "lean-rpc-api"});
    assert_eq!(ask("/lean/v0/health"), health);
    let genesis = json!({"genesis_time": 1_770_407_233, "validator_count": 48});
    assert_eq!(ask("/lean/v0/genesis"), genesis);
    let root = format!("0x{}", "03".repeat(32));
    let justified = json!({"slot": 4, "root": root});
    assert_eq!(ask("/lean/v0/checkpoints/justified"), justified);
    let syncing = json!({
        "is_syncing": false, "head_slot": 5, "sync_distance": 1, "finalized_slot": 3,
    });
    assert_eq!(ask("/lean/v0/node/syncing"), syncing);
    let spec = ask("/lean/v0/config/spec");
    let figures = (&spec["MILLISECONDS_PER_SLOT"], &spec["INTERVALS_PER_SLOT"]);
    assert_eq!(figures, (&json!(4_000), &json!(5)));
    assert_eq!(spec["MILLISECONDS_PER_INTERVAL"], 800);
    assert_eq!(spec["FORK_DIGEST"], "0a1bff00");
    assert_eq!(ask("/lean/v0/node/identity")["version"], VERSION);
    // Far behind the clock, and then unable to sign.
    let state = |slot, health: &[Reason]| Summary {
        slot,
        head_slot: 5,
        health: health.to_vec(),
        ..Summary::default()
    };
    rig.summary
        .send_replace(Arc::new(state(9, &[Reason::Behind])));
    assert_eq!(rig.get("/lean/v0/health").0, 206);
    assert_eq!(ask("/lean/v0/node/syncing")["is_syncing"], true);
    assert_eq!(rig.get("/eth/v1/node/health").0, 206);
    for reason in Reason::ALL
        .iter()
        .filter(|reason| **reason != Reason::Behind)
    {
        let both = [*reason, Reason::Behind];
        rig.summary.send_replace(Arc::new(state(6, &both)));
        for path in ["/lean/v0/health", "/eth/v1/node/health"] {
            let (code, body) = rig.get(path);
            assert_eq!(code, 503, "{path}: {body}");
            assert_eq!(body["reasons"][0]["reason"], reason.name());
            assert_eq!(body["reasons"][0]["text"], reason.text());
        }
    }
}

#[test]
fn a_slot_and_its_committees_are_told_as_far_as_they_are_known() {
    let rig = rig();
    let (code, slot) = rig.get("/alphorn/v0/slots/5");
    assert_eq!(code, 200, "{slot}");
    let votes = json!({"seen": 40, "verified": 38, "collected": 13, "included": null});
    assert_eq!(slot["votes"], votes);
    assert_eq!(slot["block"]["collections"], 2);
    let (_, committee) = rig.get("/alphorn/v0/slots/5/committees/0");
    assert_eq!(committee["coverage"], "0xff1f0001");
    let cells = json!([
        {"subcommittee": 0, "validators": 12, "covered": 12},
        {"subcommittee": 1, "validators": 12, "covered": 1},
    ]);
    assert_eq!(committee["subcommittees"], cells);
    for (path, code) in [
        ("slots/4", 404),
        ("slots/18446744073709551616", 400),
        ("slots/+5", 400),
        ("slots/x", 400),
        ("slots/%ff", 400),
        ("slots/5/committees/1", 404),
        ("slots/5/committees/-1", 400),
        ("slots/5/committees", 404),
    ] {
        let (got, why) = rig.get(&format!("/alphorn/v0/{path}"));
        assert_eq!((got, &why["code"]), (code, &json!(code)), "{path}: {why}");
        assert!(why["message"].as_str().is_some_and(|why| !why.is_empty()));
    }
    for path in [
        "status", "summary", "doctor", "sessions", "jobs", "cost", "peers",
    ] {
        let (code, value) = rig.get(&format!("/alphorn/v0/{path}"));
        assert!(code == 200 && value.is_object(), "{path}: {value}");
    }
    assert_eq!(rig.get("/alphorn/v0/doctor").1["machine"]["cores"], 2);
}

#[test]
fn what_cannot_be_answered_is_said_in_json() {
    let mut rig = rig();
    for (request, code) in [
        ("GET /eth/v1/nothing", 404),
        ("POST /", 405),
        ("POST /alphorn/v0/status", 405),
        ("DELETE /lean/v0/health", 405),
        ("GET /alphorn/v0/admin/shutdown", 405),
        ("GET /eth/v1/events", 400),
        ("GET /eth/v1/events?topics=head,heads", 400),
        ("GET /lean/v0/events?topics=attestation", 400),
        ("POST /alphorn/v0/admin/shutdown", 401),
        ("POST /lean/v0/admin/aggregator", 401),
        ("POST /alphorn/v0/votes", 401),
        ("GET /alphorn/v0/votes", 405),
    ] {
        let (got, why) = rig.ask(request, "", "");
        assert_eq!(
            (got, &why["code"]),
            (code, &json!(code)),
            "{request}: {why}"
        );
    }
    for body in [
        "",
        "{}",
        r#"{"enabled":1}"#,
        r#"{"enabled":"true"}"#,
        "[true]",
    ] {
        assert_eq!(rig.post("/lean/v0/admin/aggregator", body).0, 400, "{body}");
    }
    let (code, role) = rig.post("/lean/v0/admin/aggregator", r#"{"enabled":true}"#);
    assert_eq!((code, &role["previous"]), (200, &json!(true)));
    assert_eq!(rig.get("/lean/v0/admin/aggregator").1["enabled"], true);
    let (code, role) = rig.post("/lean/v0/admin/aggregator", r#"{"enabled":false}"#);
    assert_eq!((code, &role["previous"]), (200, &json!(true)));
    assert_eq!(role["is_aggregator"], false);
    assert!(matches!(
        rig.commands.try_recv(),
        Ok(Control::Aggregate(false))
    ));
    let (code, _) = rig.post("/alphorn/v0/admin/peers", &"x".repeat(BODY_BYTES_MAX + 1));
    assert_eq!(code, 413);
    assert_eq!(
        rig.post("/alphorn/v0/admin/peers", r#"{"block":"x"}"#).0,
        400
    );
    assert!(rig.commands.try_recv().is_err(), "nothing was let through");
    assert_eq!(rig.post("/alphorn/v0/admin/shutdown", "").0, 200);
    assert_eq!(
        rig.post("/alphorn/v0/admin/shutdown", "").0,
        503,
        "one waits"
    );
    assert!(matches!(rig.commands.try_recv(), Ok(Control::Shutdown)));
}

#[test]
fn the_root_leads_to_the_page() {
    let rig = rig();
    let answer = read_until(&mut rig.open("GET /", "", ""), "\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 307"), "{answer}");
    assert!(answer.contains("location: /dashboard/\r\n"), "{answer}");
}

#[test]
fn a_body_that_does_not_come_is_given_up() {
    let rig = rig();
    // The heads announce a body of nine bytes, none of which arrives.
    let open = |path: &str, token: &str| {
        let mut stream = TcpStream::connect(rig.address).unwrap();
        let wait = Duration::from_secs(60);
        stream.set_read_timeout(Some(wait)).unwrap();
        let head = format!("POST {path} HTTP/1.0\r\n{token}Content-Length: 9\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let token = "Authorization: Bearer secret\r\n";
    let paths = ["/alphorn/v0/admin/peers", "/alphorn/v0/votes"];
    let streams = paths.map(|path| open(path, token));
    // A client without a token is refused, and no part of a body is waited for.
    let began = Instant::now();
    let mut text = String::new();
    let mut without = open("/alphorn/v0/votes", "");
    without.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.0 401"), "{text}");
    assert!(began.elapsed() < HANDLER_TIME_MAX, "{text}");
    for mut stream in streams {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.0 408"), "{text}");
    }
}

/// What a stream returned until it contains `end`.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut part = [0; 4_096];
    while !text.contains(end) {
        let read = stream.read(&mut part).unwrap();
        assert_ne!(read, 0, "the stream ended: {text}");
        text.push_str(std::str::from_utf8(&part[..read]).unwrap());
    }
    text
}

#[test]
fn events_are_of_the_topics_that_were_asked_for() {
    let rig = rig();
    let mut heads = rig.open("GET /eth/v1/events?topics=head", "", "");
    let mut lean = rig.open("GET /lean/v0/events?topics=block&topics=head", "", "");
    for stream in [&mut heads, &mut lean] {
        let head = read_until(stream, "retry: ");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
    }
    rig.emit(&Event::BlockAccepted {
        slot: Slot(7),
        root: &[1; 32],
    });
    rig.head(7, 1, false);
    let text = read_until(&mut heads, "event: head\nid: a-2\ndata: {");
    assert!(!text.contains("event: block"), "{text}");
    read_until(&mut lean, "event: head\nid: a-2\ndata: {");
    // A client that reconnects gets what it missed.
    rig.head(8, 2, true);
    let known = "Last-Event-ID: a-1\r\n";
    let mut again = rig.open("GET /eth/v1/events?topics=head", known, "");
    let text = read_until(&mut again, "id: a-3\n");
    assert!(
        text.contains("id: a-2\n") && !text.contains("dropped"),
        "{text}"
    );
}

/// A client from another loopback address.
fn from_elsewhere(to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn readers_of_one_address_leave_places_for_those_of_others() {
    let rig = rig();
    let open = |_| {
        let mut stream = rig.open("GET /eth/v1/events?topics=block", "", "");
        read_until(&mut stream, "retry: ");
        stream
    };
    let places = alphorn_dashboard::CLIENTS_OF_ADDRESS_MAX;
    let readers: Vec<TcpStream> = (0..places).map(open).collect();
    let (code, why) = rig.get("/lean/v0/events?topics=block");
    assert_eq!((code, &why["code"]), (503, &json!(503)));
    let mut other = from_elsewhere(rig.address);
    write!(other, "GET /lean/v0/events?topics=block HTTP/1.0\r\n\r\n").unwrap();
    read_until(&mut other, "retry: ");
    drop(readers);
}

#[test]
fn the_checkpoint_is_given_to_whoever_asks_with_the_digest_that_the_status_says() {
    let rig = rig();
    let (code, why) = rig.get("/alphorn/v0/checkpoint");
    assert_eq!((code, &why["code"]), (404, &json!(404)));
    assert_eq!(rig.get("/alphorn/v0/status").1["checkpoint"], Value::Null);
    // Bytes that are JSON, so that the rig can read them.
    let kept = crate::blocks::Checkpoint::new(Slot(64), Slot(63), b"[1,2]".to_vec());
    let digest = hex(&kept.digest);
    rig.latest.set(Some(kept));
    assert_eq!(rig.get("/alphorn/v0/checkpoint"), (200, json!([1, 2])));
    let told = json!({"slot": 64, "digest": digest, "bytes": 5});
    assert_eq!(rig.get("/alphorn/v0/status").1["checkpoint"], told);
}

#[test]
fn the_fork_choice_is_told_as_lean_tells_it() {
    let rig = rig();
    let mut summary = (**rig.summary.borrow()).clone();
    summary.two_thirds_ms.insert(4, 2_400.0);
    rig.summary.send_replace(Arc::new(summary));
    let (code, told) = rig.get("/lean/v0/fork_choice");
    assert_eq!(code, 200, "{told}");
    let root = |byte: &str| json!(format!("0x{}", byte.repeat(32)));
    assert_eq!(told["head"], root("06"));
    assert_eq!(told["justified"], json!({"slot": 4, "root": root("03")}));
    assert_eq!(told["finalized"], json!({"slot": 3, "root": root("02")}));
    assert_eq!(told["safe_target"], root("03"), "the head is not");
    assert_eq!(told["validator_count"], 48);
    let head = json!({
        "root": root("06"), "slot": 5, "parent_root": root("03"), "proposer_index": 6, "weight": 40,
    });
    assert_eq!(told["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(told["nodes"][3], head);
    assert_eq!(rig.get("/lean/v0/states/finalized").0, 501);
}

#[test]
fn what_contradicts_itself_can_be_read() {
    let rig = rig();
    let (code, told) = rig.get("/alphorn/v0/evidence");
    assert_eq!(
        (code, &told["pairs"][0]["number"]),
        (200, &json!(9)),
        "{told}"
    );
    assert_eq!(told["pairs"][0]["first"]["bytes"], 2);
    let mut stream = rig.open("GET /alphorn/v0/evidence/9/first", "", "");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert!(bytes.starts_with(b"HTTP/1.0 200") && bytes.ends_with(b"\r\n\r\n\x01\x02"));
    for (path, code) in [("8/first", 404), ("9/third", 400), ("x/first", 400)] {
        assert_eq!(
            rig.get(&format!("/alphorn/v0/evidence/{path}")).0,
            code,
            "{path}"
        );
    }
}

#[test]
fn metrics_are_in_the_form_that_is_asked_for() {
    let rig = rig();
    let ask = |headers: &str| {
        let mut text = String::new();
        rig.open("GET /metrics", headers, "")
            .read_to_string(&mut text)
            .unwrap();
        text
    };
    let plain = ask("");
    assert!(
        plain.contains("content-type: text/plain; version=0.0.4"),
        "{plain}"
    );
    assert!(
        !plain.contains("# EOF") && plain.contains("\nlean_head_slot 5"),
        "{plain}"
    );
    let open = ask("Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n");
    assert!(
        open.contains("content-type: application/openmetrics-text"),
        "{open}"
    );
    assert!(open.ends_with("# EOF\n"));
}
