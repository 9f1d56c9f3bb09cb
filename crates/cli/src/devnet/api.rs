//! Questions to the interface of a node, over HTTP/1.0: one request a connection.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take that is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Where a node's interface is, and the token that it asks for.
pub(super) struct Api {
    pub(super) address: SocketAddr,
    pub(super) token: String,
    /// How long each step of an answer may take.
    pub(super) patience: Duration,
}

impl Api {
    /// What a path says.
    pub(super) fn get(&self, path: &str) -> Result<String> {
        self.send(&format!("GET {path} HTTP/1.0\r\n\r\n"))
    }

    /// Asks for something to be done.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<String> {
        let (token, body) = (&self.token, body.to_string());
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    fn send(&self, request: &str) -> Result<String> {
        let body = fetch(self.address, request, self.patience, ANSWER_BYTES_MAX)?;
        String::from_utf8(body).with_context(|| format!("http://{}", self.address))
    }
}

/// The body of the answer to a request of HTTP/1.0, whose head and body have at most `bytes_max`
/// together; each step may take `patience`.
pub(crate) fn fetch(
    address: SocketAddr,
    request: &str,
    patience: Duration,
    bytes_max: u64,
) -> Result<Vec<u8>> {
    let answer = || -> Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(bytes_max).read_to_end(&mut answer)?;
        body(answer)
    };
    answer().with_context(|| format!("http://{address}"))
}

/// The body of an answer that says 200.
fn body(mut answer: Vec<u8>) -> Result<Vec<u8>> {
    const END: &[u8] = b"\r\n\r\n";
    let at = answer.windows(END.len()).position(|end| end == END);
    let body = answer.split_off(at.context("no HTTP answer")? + END.len());
    let head = String::from_utf8_lossy(&answer);
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status != "200" {
        bail!("status {status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_says_yes_has_a_body() {
        let answer = |head: &str| body(format!("{head}\r\nA: b\r\n\r\n{{}}").into());
        assert_eq!(answer("HTTP/1.0 200 OK").unwrap(), b"{}");
        let refused = answer("HTTP/1.0 401 Unauthorized").unwrap_err();
        assert_eq!(refused.to_string(), "status 401: {}");
        assert!(body("HTTP/1.0 200 OK\r\n".into()).is_err());
        assert!(body(Vec::new()).is_err());
    }
}
