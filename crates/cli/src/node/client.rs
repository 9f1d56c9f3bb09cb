//! Queries to the interface of a node over HTTP/1.0, one request per connection.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Default time limit for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum size of an answer in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// The address of a node's interface, and the token that it requires.
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    /// Time limit for each step of an answer.
    pub(crate) patience: Duration,
}

impl Api {
    /// Returns the response body for a path.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        self.send(&format!("GET {path} HTTP/1.0\r\n\r\n"))
    }

    /// Requests an action.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<String> {
        let (token, body) = (&self.token, body.to_string());
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// Returns the status and the body for a path, whatever the status is.
    pub(crate) fn ask(&self, path: &str) -> Result<(u16, String)> {
        let answer = self.bytes(&format!("GET {path} HTTP/1.0\r\n\r\n"), ANSWER_BYTES_MAX)?;
        let (status, body) = parts(answer).with_context(|| format!("http://{}", self.address))?;
        let body = String::from_utf8(body);
        Ok((
            status,
            body.with_context(|| format!("http://{}", self.address))?,
        ))
    }

    fn send(&self, request: &str) -> Result<String> {
        let bytes = self.bytes(request, ANSWER_BYTES_MAX)?;
        let body = body(bytes).with_context(|| format!("http://{}", self.address))?;
        String::from_utf8(body).with_context(|| format!("http://{}", self.address))
    }

    fn bytes(&self, request: &str, bytes_max: u64) -> Result<Vec<u8>> {
        exchange(self.address, request, self.patience, bytes_max)
    }
}

/// Returns the body of the answer to an HTTP/1.0 request. Its head and body together have at most
/// `bytes_max`, and each step may take `patience`.
pub(crate) fn fetch(
    address: SocketAddr,
    request: &str,
    patience: Duration,
    bytes_max: u64,
) -> Result<Vec<u8>> {
    let answer = exchange(address, request, patience, bytes_max)?;
    body(answer).with_context(|| format!("http://{address}"))
}

/// Sends a request and returns the answer, head and body.
fn exchange(
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
        // By HTTP/1.0 an answer ends with its connection, so neither its length nor chunks have to be understood.
        stream.take(bytes_max).read_to_end(&mut answer)?;
        Ok(answer)
    };
    answer().with_context(|| format!("http://{address}"))
}

/// Splits an answer into status and body.
fn parts(mut answer: Vec<u8>) -> Result<(u16, Vec<u8>)> {
    const END: &[u8] = b"\r\n\r\n";
    let at = answer.windows(END.len()).position(|end| end == END);
    let body = answer.split_off(at.context("no HTTP answer")? + END.len());
    let head = String::from_utf8_lossy(&answer);
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    Ok((status.parse().context("no HTTP status")?, body))
}

/// Returns the body of an answer with status 200.
fn body(answer: Vec<u8>) -> Result<Vec<u8>> {
    let (status, body) = parts(answer)?;
    if status != 200 {
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
