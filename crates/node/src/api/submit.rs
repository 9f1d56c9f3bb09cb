//! `POST /alphorn/v0/votes`: a vote with another party's key, answered with 200 once it would survive a crash.

use super::{Api, HANDLER_TIME_MAX, busy, problem, too_late};
use crate::local::Posted;
use crate::run::Control;
use alphorn_scheme::Bytes;
use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long to wait for the outcome: a vote may wait two seconds for its block, then for a lane.
const WAIT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Submission {
    /// The vote as on its topic, in hexadecimal with `0x`.
    vote: String,
}

pub(crate) async fn votes(State(api): State<Api>, request: Request) -> Response {
    // Before the body, so that nothing is read without a token.
    if !api.admits(request.headers()) {
        return problem(StatusCode::UNAUTHORIZED, "the token of api.token is needed");
    }
    let body = match timeout(HANDLER_TIME_MAX, String::from_request(request, &())).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return problem(error.status(), error.body_text()),
        Err(_) => return too_late(),
    };
    let submission = match serde_json::from_str::<Submission>(&body) {
        Ok(submission) => submission,
        Err(error) => return problem(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let bytes = submission.vote.strip_prefix("0x").map(hex::decode);
    let Some(Ok(bytes)) = bytes else {
        let message = "vote: must be hexadecimal digits after 0x";
        return problem(StatusCode::BAD_REQUEST, message);
    };
    let (reply, answer) = oneshot::channel();
    let vote = Control::Vote(Bytes::from(bytes.as_slice()), reply);
    if api.control.try_send(vote).is_err() {
        return busy("too many commands wait");
    }
    match timeout(WAIT, answer).await {
        Ok(Ok(Posted::Durable)) => Json(json!({"data": "durable"})).into_response(),
        Ok(Ok(Posted::Refused(why))) => problem(StatusCode::BAD_REQUEST, why),
        Ok(Ok(Posted::NotDurable)) => busy("accepted and sent on, but not written"),
        Ok(Ok(Posted::Busy)) => busy("too many votes wait"),
        Ok(Err(_)) => busy("the node ends"),
        Err(_) => busy("no verdict yet; it may still be accepted"),
    }
}
