//! The HTTP interface of a node that runs.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// What the node with the folder `home/data` answers to a path, without the head of the answer.
pub(crate) fn get(home: &Path, path: &str) -> String {
    let ready = std::fs::read_to_string(home.join("data/ready.json")).unwrap();
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let mut stream = TcpStream::connect(ready["api"].as_str().unwrap()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200"), "{path}: {head}");
    body.to_owned()
}
