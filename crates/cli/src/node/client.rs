//! Questions to the interface of a node, over HTTP/1.0: one request a connection.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Where a node's interface is, and the token that it asks for.
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    /// How long each step of an answer may take.
    pub(crate) patience: Duration,
}

impl Api {
    /// What a path says.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        self.send(&format!("GET {path} HTTP/1.0\r\n\r\n"))
    }

    /// Asks for something to be done.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<String> {
        let (token, body) = (&self.token, body.to_string());
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// The status and the body of what a path says, whatever the status is.
    pub(crate) fn ask(&self, path: &str) -> Result<(u16, String)> {
        let text = self.text(&format!("GET {path} HTTP/1.0\r\n\r\n"))?;
        let (status, body) = parts(&text).with_context(|| format!("http://{}", self.address))?;
        Ok((status, body.to_owned()))
    }

    fn send(&self, request: &str) -> Result<String> {
        let text = self.text(request)?;
        body(&text).with_context(|| format!("http://{}", self.address))
    }

    fn text(&self, request: &str) -> Result<String> {
        let (address, patience) = (self.address, self.patience);
        let text = || -> Result<String> {
            let mut stream = TcpStream::connect_timeout(&address, patience)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            stream.write_all(request.as_bytes())?;
            let mut text = String::new();
            stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
            Ok(text)
        };
        text().with_context(|| format!("http://{address}"))
    }
}

/// The status and the body of an answer.
fn parts(text: &str) -> Result<(u16, &str)> {
    let (head, body) = text.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    let status = status.parse().context("no HTTP status")?;
    Ok((status, body))
}

/// The body of an answer that says 200.
fn body(text: &str) -> Result<String> {
    let (status, body) = parts(text)?;
    if status != 200 {
        bail!("status {status}: {body}");
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_says_yes_has_a_body() {
        let answer = |head: &str| body(&format!("{head}\r\nA: b\r\n\r\n{{}}"));
        assert_eq!(answer("HTTP/1.0 200 OK").unwrap(), "{}");
        let refused = answer("HTTP/1.0 401 Unauthorized").unwrap_err();
        assert_eq!(refused.to_string(), "status 401: {}");
        assert!(body("HTTP/1.0 200 OK\r\n").is_err());
        assert!(body("").is_err());
    }
}
