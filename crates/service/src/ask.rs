//! What all requests share: authentication, bodies and their formats, errors.

use crate::book::{Problem, Room};
use crate::service::Service;
use alphorn_dashboard::ClientAddress;
use alphorn_node::api::{bears, problem};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;

/// Maximum length of an error message in bytes: it may quote the request, which is as long as a body
/// may be.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Ssz,
}

/// The client, by the name of its token or by its address.
pub(crate) struct Who(pub(crate) String);

/// An error response.
pub(crate) struct Refused(Box<Response>);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        *self.0
    }
}

impl From<Problem> for Refused {
    fn from((code, mut why): Problem) -> Self {
        if why.len() > MESSAGE_BYTES_MAX {
            let mut ends = (0..=MESSAGE_BYTES_MAX).rev();
            let end = ends.find(|end| why.is_char_boundary(*end));
            why.truncate(end.unwrap_or(0));
            why.push('…');
        }
        let answer = problem(code, why);
        Refused(Box::new(match code {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                ([(header::RETRY_AFTER, "1")], answer).into_response()
            }
            _ => answer,
        }))
    }
}

pub(crate) fn bad(why: impl Into<String>) -> Refused {
    (StatusCode::BAD_REQUEST, why.into()).into()
}

pub(crate) fn missing(what: &str) -> Refused {
    (StatusCode::NOT_FOUND, format!("there is no {what}")).into()
}

impl FromRequestParts<Arc<Service>> for Who {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Who, Refused> {
        let tokens = &service.tokens.0;
        if tokens.is_empty() {
            let address = parts.extensions.get::<ClientAddress>();
            let ClientAddress(address) =
                address.ok_or_else(|| bad("a request without an address"))?;
            return Ok(Who(address.to_string()));
        }
        // All are compared, so that the timing does not reveal which one is close.
        let named = tokens.iter().fold(None, |named, (name, token)| {
            bears(&parts.headers, token).then_some(name).or(named)
        });
        let named = named.ok_or_else(|| {
            let answer = problem(
                StatusCode::UNAUTHORIZED,
                "a token of --token-file is needed",
            );
            let answer = ([(header::WWW_AUTHENTICATE, "Bearer")], answer);
            Refused(Box::new(answer.into_response()))
        })?;
        Ok(Who(named.clone()))
    }
}

/// The last part of a path, if it is a name.
pub(crate) struct Name(pub(crate) String);

impl FromRequestParts<Arc<Service>> for Name {
    type Rejection = Refused;

    async fn from_request_parts(
        parts: &mut Parts,
        service: &Arc<Service>,
    ) -> Result<Name, Refused> {
        let path = Path::<String>::from_request_parts(parts, service).await;
        path.map(|Path(name)| Name(name))
            .map_err(|error| bad(error.body_text()))
    }
}

/// Returns the format of a body, and its bytes while there is room for them.
pub(crate) async fn body(
    service: &Service,
    who: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Format, Bytes, Room), Refused> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let media = text(header::CONTENT_TYPE).unwrap_or_default();
    let format = match media.split(';').next().unwrap_or_default().trim() {
        "application/json" => Format::Json,
        "application/octet-stream" => Format::Ssz,
        other => {
            let why = format!(
                "content type {other:?}, must be application/json or application/octet-stream"
            );
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into());
        }
    };
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    let length = length.ok_or((
        StatusCode::LENGTH_REQUIRED,
        "a body needs a Content-Length".to_owned(),
    ))?;
    // Reserved by the announced length, before any of the body is read.
    let room = service.book().upload(who, length, Instant::now())?;
    let bytes = to_bytes(body, length).await;
    let bytes = bytes.map_err(|error| bad(format!("the body: {error}")))?;
    Ok((format, bytes, room))
}

/// Decodes a body off the serving thread, as many at a time as there are `decoders` and one of each client. If the
/// client hangs up, the work continues and keeps its slot and its room.
pub(crate) async fn aside<T: Send + 'static>(
    decoders: &Arc<Semaphore>,
    room: Room,
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    // Its own turn first: each client then waits for a decoder with one body, whatever it sends.
    let own = room.turn.clone().acquire_owned().await;
    let turn = decoders.clone().acquire_owned().await;
    let done = tokio::task::spawn_blocking(move || {
        let result = work();
        drop((room, own, turn));
        result
    });
    let done = done.await;
    // A panic ends there.
    done.unwrap_or_else(|_| {
        let why = "the request could not be read".to_owned();
        Err((StatusCode::INTERNAL_SERVER_ERROR, why).into())
    })
}

pub(crate) fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Refused> {
    let query = query.map_err(|error| bad(error.body_text()))?;
    Ok(query.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::{Book, Limits};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    /// Otherwise a client that hangs up and asks again could have any number of bodies decoded at a time, and take all
    /// decoders from the others.
    #[test]
    fn work_whose_client_hung_up_keeps_its_turn_and_no_more() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let decoders = Arc::new(Semaphore::new(2));
        let mut book = Book::new(Limits::default(), 1);
        let mut room = |client| book.upload(client, 1, Instant::now()).unwrap();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let is_open = Arc::new(AtomicBool::new(false));
        let work = || {
            let (running, most, is_open) = (running.clone(), most.clone(), is_open.clone());
            move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                while !is_open.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        };
        runtime.block_on(async {
            for _ in 0..8 {
                let hung_up = Duration::from_millis(20);
                let asked = tokio::time::timeout(hung_up, aside(&decoders, room("a"), work()));
                assert!(asked.await.is_err());
            }
            // Another client does not wait for any of them.
            let other = aside(&decoders, room("b"), || Ok(()));
            let other = tokio::time::timeout(Duration::from_secs(30), other).await;
            assert!(other.is_ok_and(|done| done.is_ok()));
            is_open.store(true, Ordering::SeqCst);
            assert!(aside(&decoders, room("a"), work()).await.is_ok());
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }
}
