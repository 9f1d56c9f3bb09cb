//! The worker as a service, from outside: the built program, clients of other languages, and clients
//! that mean harm.

mod bench;

use alphorn_types::support_code::{CellBounds, Reference, SupportCode};
use alphorn_types::{Bitfield, Coding, Support};
use bench::Bench;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(240);

/// A worker that runs.
struct Service {
    child: Child,
    api: String,
    token: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    fn start(bench: &Bench, options: &str) -> Service {
        let ready = bench.path("ready.json");
        let _ = fs::remove_file(&ready);
        let child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
            .args(["worker", "--listen=127.0.0.1:0", "--ready-file=ready.json"])
            .args(["--exit-on-stdin-eof", "--threads=2"])
            .args(options.split(' ').filter(|word| !word.is_empty()))
            .current_dir(bench.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let until = Instant::now() + PATIENCE;
        let mut service = Service {
            child,
            api: String::new(),
            token: String::new(),
        };
        while service.api.is_empty() {
            assert!(Instant::now() < until, "the worker does not start");
            std::thread::sleep(Duration::from_millis(50));
            let answer = fs::read(&ready).unwrap_or_default();
            let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
            service.api = answer["api"].as_str().unwrap_or_default().to_owned();
        }
        service
    }

    fn url(&self) -> String {
        format!("http://{}", self.api)
    }

    /// An answer: its status, and its body.
    fn raw(&self, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let Ok(mut stream) = TcpStream::connect(&self.api) else {
            return (0, Vec::new());
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            return (0, answer);
        };
        let status = std::str::from_utf8(&answer[9..12]).unwrap();
        (status.parse().unwrap(), answer[end + 4..].to_vec())
    }

    fn ask(&self, request: &str, media: &str, body: &[u8]) -> (u16, Value) {
        let bearer = match self.token.as_str() {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let media = match media {
            "" => String::new(),
            media => format!("Content-Type: {media}\r\n"),
        };
        let length = body.len();
        let head = format!("{request} HTTP/1.0\r\n{bearer}{media}Content-Length: {length}\r\n\r\n");
        let (status, body) = self.raw(&head, body);
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.ask(&format!("GET {path}"), "", b"")
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        self.ask(&format!("POST {path}"), "application/json", body.as_bytes())
    }

    /// Ends the worker by the end of its standard input.
    fn stop(mut self) {
        drop(self.child.stdin.take());
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "the worker does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{status}");
    }
}

fn example(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/worker");
    format!("{folder}/{name}")
}

fn passed(output: &Output) -> String {
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{answer}{errors}");
    answer
}

/// Votes of the set `prod` in files, of eight interop keys in slot 7.
fn prod_votes(bench: &Bench) -> Vec<String> {
    const PROD: &str = "--scheme xmss --set prod";
    let message = hex0x(&[0x56; 32]);
    bench
        .run(&format!(
            "keys new {PROD} --interop 0 --count 8 --slots 8 --out keys"
        ))
        .expect(0, "INSECURE");
    let keys: Vec<String> = (0..8).map(|i| format!("keys/interop-{i}.json")).collect();
    bench
        .run(&format!(
            "sign {PROD} --slot 7 --message {message} --key {} --out-dir votes",
            keys.join(" ")
        ))
        .expect(0, "");
    (0..8)
        .map(|i| format!("votes/interop-{i}.signature.json"))
        .collect()
}

fn is_there(program: &str, option: &str) -> bool {
    let tried = Command::new(program)
        .arg(option)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// What the clients do is in them: signatures of `prod` are checked, proved in halves, merged and
/// verified; jobs are followed, named, cancelled. What they got holds for the file tool, too.
#[test]
fn clients_without_rust_get_proofs_of_prod() {
    let bench = Bench::new();
    let files = prod_votes(&bench);
    let service = Service::start(&bench, "--sets prod");
    let python = Command::new("python3")
        .arg(example("client.py"))
        .args([&service.url(), "keys/public-keys.json"])
        .args(&files)
        .args(["--out", "proof.bin"])
        .current_dir(bench.path("."))
        .output()
        .expect("python3 is needed for this test");
    let answer = passed(&python);
    assert!(answer.contains("verified: [True, False]"), "{answer}");
    assert!(answer.contains("8 signatures in"), "{answer}");
    assert!(
        answer.contains("running: "),
        "no progress was reported: {answer}"
    );

    // The proof in a file, as the file tool reads it.
    let keys = bench.json("keys/public-keys.json");
    let keys: Vec<Vec<u8>> = (0..8)
        .map(|i| unhex(&keys["keys"][i]["public_key"]))
        .collect();
    let support = Support::from_bits(Bitfield::ones(8));
    let cells = CellBounds::one(8);
    let code = SupportCode::new(Coding::Rice, 1, &cells, Reference::None);
    let proof = fs::read(bench.path("proof.bin")).unwrap();
    let vote = bench.json(&files[0]);
    let file = json!({
        "schema": "alphorn-aggregate-v1",
        "scheme": "xmss-prod",
        "slot": 7,
        "message": vote["message"],
        "registry": {
            "digest": hex0x(&sha256(&keys.concat())),
            "keys": 8,
            "support": hex0x(&code.encode(&support)),
        },
        "signature": hex0x(&proof),
    });
    fs::write(bench.path("proof.json"), file.to_string()).unwrap();
    bench
        .run("verify proof.json --scheme xmss --set prod --keys keys/public-keys.json")
        .expect(0, "valid");

    if is_there("go", "version") {
        let go = Command::new("go")
            .args(["run", &example("client.go"), &service.url()])
            .arg("keys/public-keys.json")
            .args(&files)
            .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-cache"))
            .env("GOFLAGS", "-mod=mod")
            .current_dir(bench.path("."))
            .output()
            .unwrap();
        let answer = passed(&go);
        assert!(answer.contains("8 signatures in"), "{answer}");
        assert!(answer.contains("the second job is cancelled"), "{answer}");
    } else {
        println!("skipped: the client in Go, there is no go on this machine");
    }
    service.stop();
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).to_vec()
}

fn hex0x(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

fn unhex(text: &Value) -> Vec<u8> {
    hex::decode(&text.as_str().unwrap()[2..]).unwrap()
}

/// Keys, slot, message and signature that the lean specification's own Python made, and the same with one
/// thing changed each.
#[test]
fn signatures_of_the_lean_specification_are_proved_and_its_bad_ones_named() {
    let bench = Bench::new();
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/xmss/lean-prod.json");
    let vectors: Value = serde_json::from_slice(&fs::read(vectors).unwrap()).unwrap();
    let service = Service::start(&bench, "--sets prod --isolation thread");
    let upload = |key: &Value| {
        let body = json!({"set": "prod", "keys": [format!("0x{}", key.as_str().unwrap())]});
        let (code, answer) = service.post("/worker/v1/registries", &body);
        assert!(code == 201 || code == 200, "{answer}");
        answer["digest"].clone()
    };
    let job = |kind: &str, one: &Value| {
        let body = json!({
            "registry": upload(&one["pk"]),
            "slot": one["slot"],
            "message": format!("0x{}", one["message"].as_str().unwrap()),
            "participants": [0],
            "signatures": [format!("0x{}", one["sig"].as_str().unwrap())],
        });
        service.post(&format!("/worker/v1/jobs/{kind}?wait_ms=20000"), &body)
    };
    let valid = vectors["valid"].as_array().unwrap();
    for one in valid {
        let (code, answer) = job("verify-signatures", one);
        assert_eq!((code, &answer["valid"]), (200, &json!(true)), "{answer}");
    }
    let (mut malformed, mut wrong) = (0, 0);
    for one in vectors["mutated"].as_array().unwrap() {
        let is_whole =
            |field: &str, bytes: usize| one[field].as_str().map(str::len) == Some(2 * bytes);
        if !is_whole("pk", 52) || !is_whole("sig", 2536) || !is_whole("message", 32) {
            continue;
        }
        let body = json!({"set": "prod", "keys": [format!("0x{}", one["pk"].as_str().unwrap())]});
        if service.post("/worker/v1/registries", &body).0 == 400 {
            malformed += 1;
            continue;
        }
        let (_, answer) = job("verify-signatures", one);
        assert_eq!(answer["bad"], json!([0]), "{one}: {answer}");
        let why = answer["reasons"][0].as_str().unwrap();
        match why {
            "it does not hold" => wrong += 1,
            _ => malformed += 1,
        }
    }
    assert!(
        malformed > 0 && wrong > 0,
        "{malformed} malformed, {wrong} wrong"
    );
    // A proof of one signature, and of one that does not hold.
    let (_, answer) = job("prove", &valid[0]);
    assert_eq!(answer["state"], "done", "{answer}");
    let mut other = valid[0].clone();
    other["message"] = valid[1]["message"].clone();
    let (_, answer) = job("prove", &other);
    assert_eq!(
        (&answer["state"], &answer["bad"]),
        (&json!("invalid"), &json!([0]))
    );
    service.stop();
}

#[test]
fn what_makes_no_sense_is_refused_and_harms_nobody() {
    let bench = Bench::new();
    let service = Service::start(&bench, "--sets test --isolation thread --body-max 1");
    let (code, about) = service.get("/worker/v1");
    assert_eq!((code, &about["sets"][0]["set"]), (200, &json!("test")));
    for (request, media, body, code) in [
        ("GET /worker/v2", "", &b""[..], 404),
        ("PUT /worker/v1/jobs", "", b"", 405),
        ("POST /worker/v1/jobs/sign", "application/json", b"{}", 404),
        ("POST /worker/v1/jobs/prove", "", b"{}", 415),
        ("POST /worker/v1/jobs/prove", "text/plain", b"{}", 415),
        ("POST /worker/v1/jobs/prove", "application/json", b"", 400),
        ("POST /worker/v1/jobs/prove", "application/json", b"[]", 400),
        (
            "POST /worker/v1/jobs/prove",
            "application/json",
            &[b'['; 4_000],
            400,
        ),
        (
            "POST /worker/v1/jobs/prove",
            "application/octet-stream",
            &[0xff; 4_000],
            400,
        ),
        (
            "POST /worker/v1/jobs/merge",
            "application/octet-stream",
            &[0, 0, 0, 0x80],
            400,
        ),
        (
            "POST /worker/v1/jobs/merge",
            "application/octet-stream",
            &[4, 0, 0, 0, 0, 0, 0, 0x40],
            400,
        ),
        (
            "POST /worker/v1/jobs/prove?soft_ms=0",
            "application/json",
            b"{}",
            400,
        ),
        (
            "POST /worker/v1/jobs/prove?nothing=1",
            "application/json",
            b"{}",
            400,
        ),
        (
            "POST /worker/v1/registries",
            "application/octet-stream",
            &[1; 52],
            400,
        ),
        (
            "POST /worker/v1/registries?set=prod",
            "application/octet-stream",
            &[1; 52],
            400,
        ),
        (
            "POST /worker/v1/registries?set=test",
            "application/octet-stream",
            &[1; 51],
            400,
        ),
        (
            "POST /worker/v1/registries?set=test",
            "application/octet-stream",
            &[0xff; 52],
            400,
        ),
        (
            "POST /worker/v1/registries?set=test&number=-1",
            "application/octet-stream",
            &[1; 52],
            400,
        ),
        ("GET /worker/v1/jobs/1", "", b"", 404),
        ("GET /worker/v1/jobs/0-1/proof", "", b"", 404),
        ("GET /worker/v1/jobs/%ff/events", "", b"", 400),
        ("DELETE /worker/v1/registries/0x00", "", b"", 400),
        ("DELETE /worker/v1/sessions/a%20b", "", b"", 400),
    ] {
        let (got, why) = service.ask(request, media, body);
        assert_eq!(
            (got, &why["code"]),
            (code, &json!(code)),
            "{request}: {why}"
        );
        let text = why["message"].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{request}: {why}");
    }
    // No length, a wrong one, a name that a browser was led to.
    let post = "POST /worker/v1/registries?set=test HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/octet-stream\r\n";
    let chunked = format!("{post}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    assert_eq!(service.raw(&chunked, b"").0, 411);
    let long = format!("{post}Content-Length: {}\r\n\r\n", (1 << 20) + 1);
    assert_eq!(service.raw(&long, b"").0, 413);
    let rebound = "GET /worker/v1 HTTP/1.1\r\nHost: evil.example.org\r\nConnection: close\r\n\r\n";
    assert_eq!(service.raw(rebound, b"").0, 403);
    // A client that announces much takes no more than its own share, and others are served.
    let promise = format!("{post}Content-Length: 1000000\r\n\r\n");
    let mut slow = TcpStream::connect(&service.api).unwrap();
    slow.write_all(promise.as_bytes()).unwrap();
    slow.write_all(b"x").unwrap();
    let until = Instant::now() + PATIENCE;
    let upload = "POST /worker/v1/registries?set=test";
    while service
        .ask(upload, "application/octet-stream", &[1; 104_000])
        .0
        != 429
    {
        assert!(Instant::now() < until, "one client's bodies have no bound");
    }
    drop(slow);
    assert_eq!(service.get("/worker/v1/health").0, 200);
    service.stop();
}

#[test]
fn tokens_tell_clients_apart_and_are_needed_beyond_loopback() {
    let bench = Bench::new();
    bench
        .run("worker --listen 0.0.0.0:0 --sets test")
        .expect(2, "--token-file is needed");
    // What is wrong, and what a worker has no use for, is refused before it makes its circuits.
    for (option, part) in [
        ("--json report.json", "unexpected argument '--json'"),
        ("--seed 2", "unexpected argument '--seed'"),
        ("--threads 0", "--threads 0: allowed are 1 to"),
        ("--kernel bogus", "bogus"),
    ] {
        let ran = bench.run(&format!(
            "worker --listen 127.0.0.1:0 --exit-on-stdin-eof --sets test {option}"
        ));
        ran.expect(2, part);
        assert!(!ran.stdout.contains("circuits"), "{option}");
    }
    bench.write_secret("tokens", "alice short\n");
    bench
        .run("worker --sets test --token-file tokens")
        .expect(2, "a token of 5 characters, at least 32");
    let (alice, bob) = ("a".repeat(32), "b".repeat(32));
    bench.write_secret("tokens", &format!("alice {alice}\n\nbob {bob}\n"));
    let mut service = Service::start(&bench, "--sets test --token-file tokens");
    assert_eq!(service.get("/worker/v1").0, 401);
    assert_eq!(service.get("/metrics").0, 401);
    assert_eq!(service.get("/worker/v1/health").0, 200, "it needs none");
    service.token = "c".repeat(32);
    assert_eq!(service.get("/worker/v1").0, 401);
    service.token = alice.clone();
    let keys = [0_u8; 104];
    let upload = "POST /worker/v1/registries?set=test";
    let (code, answer) = service.ask(upload, "application/octet-stream", &keys);
    assert_eq!(code, 201, "{answer}");
    let path = format!(
        "/worker/v1/registries/{}",
        answer["digest"].as_str().unwrap()
    );
    assert_eq!(service.get(&path).1["keys"], 2);
    service.token = bob;
    assert_eq!(
        service.get(&path).0,
        404,
        "what is another client's is not there"
    );
    service.token = alice;
    let (code, _) = service.ask(upload, "application/octet-stream", &keys);
    assert_eq!(code, 200, "it is there already");
    service.stop();
}

/// A job that is under way when the worker is asked to end is ended in its time, and a client that waits hears
/// of it.
#[test]
fn a_worker_that_ends_gives_what_it_has() {
    let bench = Bench::new();
    let files = prod_votes(&bench);
    let mut service = Service::start(&bench, "--sets prod --grace 120");
    let keys = bench.json("keys/public-keys.json");
    let keys: Vec<Value> = (0..8)
        .map(|i| keys["keys"][i]["public_key"].clone())
        .collect();
    let (_, answer) = service.post(
        "/worker/v1/registries",
        &json!({"set": "prod", "keys": keys}),
    );
    let signatures: Vec<Value> = files
        .iter()
        .map(|file| bench.json(file)["signature"].clone())
        .collect();
    let body = json!({
        "registry": answer["digest"],
        "slot": 7,
        "message": bench.json(&files[0])["message"],
        "participants": (0..8).collect::<Vec<u32>>(),
        "signatures": signatures,
    });
    let (code, job) = service.post("/worker/v1/jobs/prove", &body);
    assert_eq!(code, 202, "{job}");
    let path = format!("/worker/v1/jobs/{}/events", job["id"].as_str().unwrap());
    let mut events = TcpStream::connect(&service.api).unwrap();
    events.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(events, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut lines = BufReader::new(events).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "event: queued"));
    drop(service.child.stdin.take());
    let until = Instant::now() + PATIENCE;
    while service.get("/worker/v1/health").0 != 503 {
        assert!(
            Instant::now() < until,
            "the worker takes jobs while it ends"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let (code, why) = service.post("/worker/v1/jobs/prove", &body);
    assert_eq!(code, 503, "{why}");
    let ended = lines
        .find(|line| line.contains("\"state\":\"done\""))
        .expect("the job ends before the worker");
    assert!(ended.contains("proof_sha256"), "{ended}");
    service.stop();
}
