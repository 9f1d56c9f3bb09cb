//! Host names that a node answers to over HTTP.
//!
//! A page that a browser loaded from anywhere can point its own name to this host (DNS rebinding),
//! and would then read and send requests as if it came from here, since the browser sees one
//! origin. It cannot change the name that the browser sends as `Host`. The node therefore answers
//! only to IP addresses, which no name server can redirect, to `localhost`, and to names listed by
//! the operator.

use crate::api::problem;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// Most names that an operator may list.
pub(crate) const NAMES_MAX: usize = 64;

/// An invalid list of names.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Too many names.
    #[error("{value} names of hosts, must be at most {NAMES_MAX}")]
    Count {
        /// Their number.
        value: usize,
    },
    /// Not a valid host name.
    #[error("{0:?} is no name of a host, as node.example.org")]
    Name(String),
}

/// The names that a node answers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAllowList {
    bound: IpAddr,
    names: BTreeSet<String>,
}

impl HostAllowList {
    /// The listening address, `localhost`, loopback addresses and these names, with any port, since
    /// a port may be forwarded. A node that listens on all addresses answers to every address.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn new(bound: IpAddr, names: impl IntoIterator<Item = String>) -> Result<Self, HostError> {
        let lower = |name: String| match is_name(&name) {
            true => Ok(name.to_ascii_lowercase()),
            false => Err(HostError::Name(name)),
        };
        let names = names.into_iter().map(lower);
        let names = names.collect::<Result<BTreeSet<String>, HostError>>()?;
        match names.len() {
            0..=NAMES_MAX => Ok(HostAllowList { bound, names }),
            value => Err(HostError::Count { value }),
        }
    }

    /// Whether the value of a `Host` field names this node.
    pub(crate) fn admits(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        if authority.as_str().contains('@') {
            return false;
        }
        let name = authority.host().to_ascii_lowercase();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        match address.parse::<IpAddr>() {
            Ok(address) => {
                self.bound.is_unspecified() || address.is_loopback() || address == self.bound
            }
            Err(_) => name == "localhost" || self.names.contains(&name),
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        !label.is_empty() && label.chars().all(is_letter)
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Serves the same paths, but responds with 403 to requests that name another host. A request
/// without a name does not come from a browser, and passes.
pub fn guard(app: Router, hosts: HostAllowList) -> Router {
    app.layer(middleware::from_fn_with_state(Arc::new(hosts), check))
}

async fn check(State(hosts): State<Arc<HostAllowList>>, request: Request, next: Next) -> Response {
    let fields = request.headers().get_all(header::HOST).iter();
    let named = fields.map(|field| field.to_str().unwrap_or_default());
    let target = request.uri().authority().map(Authority::as_str);
    let mut named = named.chain(target);
    if named.all(|host| hosts.admits(host)) {
        return next.run(request).await;
    }
    let why = "no answer to that name: ask by address, as localhost, or by a name of --http-allow-host, \
               where the command has it";
    problem(StatusCode::FORBIDDEN, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Limits, serve};
    use axum::routing::get;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn hosts(bound: &str, names: &[&str]) -> HostAllowList {
        let names = names.iter().map(|name| (*name).to_owned());
        HostAllowList::new(bound.parse().unwrap(), names).unwrap()
    }

    #[test]
    fn addresses_and_listed_names_are_answered_and_no_others() {
        let local = hosts("127.0.0.1", &["Node.Example.org"]);
        for good in [
            "127.0.0.1",
            "127.0.0.1:5052",
            "[::1]:5052",
            "localhost",
            "LOCALHOST:80",
            "node.example.org:9",
        ] {
            assert!(local.admits(good), "{good}");
        }
        for bad in [
            "",
            "evil.example.org",
            "localhost.evil.org",
            "evil.org#localhost",
            "user@localhost",
            "127.0.0.1.evil.org",
            "192.0.2.1",
            "node.example.org.",
            "local host",
        ] {
            assert!(!local.admits(bad), "{bad}");
        }
        let all = hosts("0.0.0.0", &[]);
        assert!(all.admits("192.0.2.1:5052") && !all.admits("node.example.org"));
        assert!(hosts("192.0.2.7", &[]).admits("192.0.2.7"));
    }

    #[test]
    fn a_list_that_is_none_is_refused() {
        let new = |names: Vec<String>| HostAllowList::new([127, 0, 0, 1].into(), names);
        for wrong in ["", "a b", "http://a", "a:80", "*.example.org"] {
            let refused = new(vec![wrong.to_owned()]);
            assert_eq!(refused, Err(HostError::Name(wrong.to_owned())));
        }
        let many = (0..=NAMES_MAX).map(|i| format!("host-{i}")).collect();
        assert_eq!(
            new(many),
            Err(HostError::Count {
                value: NAMES_MAX + 1
            })
        );
    }

    #[test]
    fn a_rebound_name_gets_nothing() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/", get(|| async { "here" }));
        serve(
            listener,
            guard(app, hosts("127.0.0.1", &[])),
            Limits::default(),
        )
        .unwrap();
        let ask = |head: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "{head}\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let good = format!("GET / HTTP/1.1\r\nHost: {address}");
        assert!(ask(&good).ends_with("here"));
        assert!(ask("GET / HTTP/1.0").ends_with("here"), "no browser");
        for bad in [
            "GET / HTTP/1.1\r\nHost: evil.example.org",
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.org",
            "GET http://evil.example.org/ HTTP/1.1\r\nHost: localhost",
        ] {
            let answer = ask(bad);
            assert!(!answer.ends_with("here"), "{bad}: {answer}");
        }
    }
}
