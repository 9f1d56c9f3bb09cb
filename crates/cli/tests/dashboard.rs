//! `alphorn dashboard`, from outside.
#![cfg(unix)]

use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn open(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// An answer that is not read, half a request and a client that says nothing: the page ends all the same.
#[test]
fn nobody_keeps_the_page_from_ending() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let detail = "x".repeat(40_000);
    let line = json!({"t": 0, "n": "a", "k": "fault", "kind": "test", "detail": detail});
    // More than sockets hold.
    std::fs::write(&trace, format!("{line}\n").repeat(600)).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
        .args(["dashboard", "--port=0", "--trace"])
        .arg(&trace)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut said).unwrap();
    let address = said.trim().strip_prefix("http://");
    let address = address
        .and_then(|rest| rest.strip_suffix("/dashboard/"))
        .unwrap();
    let mut rebound = open(
        address,
        "GET /dashboard/ HTTP/1.0\r\nHost: evil.example.org\r\n\r\n",
    );
    let mut refused = String::new();
    rebound.read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("HTTP/1.0 403"), "{refused}");
    let held = [
        "GET /dashboard/trace HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /dashboard/ HT",
        "",
    ]
    .map(|request| open(address, request));
    std::thread::sleep(Duration::from_millis(500));
    let pid = child.id().to_string();
    let asked = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(asked.success());
    let until = Instant::now() + Duration::from_secs(2);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() >= until {
            child.kill().unwrap();
            panic!("the page does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    drop(held);
}

#[test]
fn what_cannot_be_served_is_named_once_and_has_a_code_of_its_own() {
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_alphorn"));
        let output = command.arg("dashboard").args(args).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (output.status.code(), text)
    };
    let (code, text) = run(&["--trace", "nonexistent.jsonl"]);
    assert_eq!(code, Some(2), "{text}");
    assert_eq!(text.matches("nonexistent.jsonl").count(), 1, "{text}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, text) = run(&["--port", &port]);
    assert_eq!(code, Some(3), "{text}");
    let (_, help) = run(&["--help"]);
    assert!(help.contains("3 cannot listen"), "{help}");
}
