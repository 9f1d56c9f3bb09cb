//! Event streams: `GET …/events?topics=head,block`.
//!
//! Topics are mandatory, and an unknown one is an error. Each event has its topic, an ID and one
//! line of JSON. The other behaviour of a stream is described in [`alphorn_dashboard`].

use super::{Api, bad, busy};
use crate::telemetry::{ATTESTATION, BEACON_TOPICS, LEAN_TOPICS};
use alphorn_dashboard::{ClientAddress, Clients, Live, Wanted, follow};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use std::sync::Arc;

type Asker = Option<Extension<ClientAddress>>;
type Asked = Result<Query<Vec<(String, String)>>, QueryRejection>;

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/eth/v1/events", get(beacon))
        .route("/lean/v0/events", get(lean))
}

async fn beacon(State(api): State<Api>, from: Asker, headers: HeaderMap, query: Asked) -> Response {
    let source = api.window.streams.beacon.clone();
    stream(&of(&api, from), source, &headers, query, &BEACON_TOPICS)
}

async fn lean(State(api): State<Api>, from: Asker, headers: HeaderMap, query: Asked) -> Response {
    let source = api.window.streams.lean.clone();
    stream(&of(&api, from), source, &headers, query, &LEAN_TOPICS)
}

/// The stream slots for the address of a request.
fn of(api: &Api, from: Asker) -> Clients {
    api.clients.of(from.map(|Extension(address)| address))
}

fn stream(
    clients: &Clients,
    source: Arc<dyn Live>,
    headers: &HeaderMap,
    query: Asked,
    known: &[&'static str],
) -> Response {
    let wanted = query
        .map_err(|error| error.body_text())
        .and_then(|Query(query)| topics(&query, known));
    match wanted {
        Ok(wanted) => follow(source, clients, headers, wanted)
            .unwrap_or_else(|| busy("too many clients read streams")),
        Err(why) => bad(why).into_response(),
    }
}

/// The topics of a query, given once or several times, separated by commas.
fn topics(query: &[(String, String)], known: &[&'static str]) -> Result<Wanted, String> {
    let values = query.iter().filter(|(name, _)| name == "topics");
    let names = values.flat_map(|(_, value)| value.split(','));
    let mut kinds: Vec<&'static str> = Vec::new();
    for name in names {
        match known.iter().find(|known| **known == name) {
            Some(kind) if kinds.contains(kind) => {}
            Some(kind) => kinds.push(kind),
            None => {
                let all = known.join(", ");
                return Err(format!("topics has {name:?}, must be of {all}"));
            }
        }
    }
    if kinds.is_empty() {
        return Err(format!(
            "topics is missing, must be of {}",
            known.join(", ")
        ));
    }
    let has_high = kinds.contains(&ATTESTATION);
    Ok(Wanted::Kinds { kinds, has_high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_known_names_given_once() {
        let ask = |values: &[&str]| {
            let pair = |value: &&str| ("topics".to_owned(), (*value).to_owned());
            let query: Vec<(String, String)> = values.iter().map(pair).collect();
            topics(&query, &BEACON_TOPICS)
        };
        let expected = Wanted::Kinds {
            kinds: vec!["head", "block"],
            has_high: false,
        };
        assert_eq!(ask(&["head,block"]), Ok(expected.clone()));
        assert_eq!(ask(&["head", "block,head"]), Ok(expected));
        assert!(matches!(
            ask(&["attestation"]),
            Ok(Wanted::Kinds { has_high: true, .. })
        ));
        let unknown = ask(&["head,heads"]).unwrap_err();
        assert!(unknown.starts_with("topics has \"heads\", must be of head, block"));
        assert!(ask(&[""]).is_err() && ask(&["head,"]).is_err());
        assert!(ask(&[]).unwrap_err().starts_with("topics is missing"));
    }
}
