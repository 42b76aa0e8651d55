//! Filters: what every request goes through, in this order, before a handler sees it.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::server`] accepted a connection. After: [`crate::handlers`] runs the verb for
//! somebody who may.
//!
//! ```text
//! panic guard → request info → authenticate → audit → impersonate → priority and fairness → authorize → timeout → handler
//! ```
//!
//! Whatever comes out, an answer or a refusal, is counted and written to the audit log on the way back. Authentication
//! comes before everything that could tell a stranger something; the limit comes before authorisation so that a flood
//! of forbidden requests can't starve the rest.
//!
//! # Invariants
//! 1. No handler runs without a user and an authorisation.
//! 2. A panic in a handler is an answer 500, never a dead connection or a dead server.
//!
//! # In Kubernetes
//! `DefaultBuildHandlerChain` in `apiserver/pkg/server/config.go`. Left out: CORS, HSTS.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock, makes ids")]

pub mod account;
pub mod body_limit;
pub mod fairness;
pub mod in_flight;
pub mod warnings;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header};
use hyper::body::Incoming;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use stage1_kubectl::selector::FieldSelector;
use stage1_kubectl::status::Status;
use uuid::Uuid;

use crate::audit::policy::Chosen;
use crate::authentication::UserInfo;
use crate::authentication::impersonation::{Refusal, impersonate};
use crate::authorization::{Attributes, Authorizer, Decision};
use crate::handlers::respond::{self, Answer};
use crate::handlers::{self, Context, pretty};
use crate::negotiation::{Format, negotiate};
use crate::request_info::{Query, RequestInfo, parse_request_info};
use crate::server::{ApiServer, Peer};
use fairness::Classified;

/// Short requests end after this.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What is known about a request before it is handled.
pub struct Arrival {
    info: RequestInfo,
    query: Query,
    uri: String,
    headers: HeaderMap,
    audit_id: String,
    received: Timestamp,
    started: Instant,
}

/// Takes one request through the chain. Never fails: a refusal is an answer.
pub async fn handle(server: Arc<ApiServer>, peer: Peer, request: Request<Incoming>) -> Answer {
    let arrival = arrive(&request);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let guarded = AssertUnwindSafe(run(&server, &peer, &arrival, request, &seen)).catch_unwind().await;
    let answer = match guarded {
        Ok(Ok(answer)) => answer,
        Ok(Err(status)) => {
            let answer = respond::status(refusal_format(&arrival.headers), &status);
            seen.lock().failure = Some(status);
            answer
        }
        Err(_) => {
            seen.lock().panicked = true;
            tracing::error!(uri = arrival.uri, "A handler panicked");
            let text = "This request caused apiserver to panic. Look in the logs for details.";
            respond::text(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    };
    let encodings = arrival.headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok());
    let mut seen = std::mem::take(&mut *seen.lock());
    let answer = account::keep_response(&arrival, &mut seen, answer).await;
    let is_a_persons = pretty::is_wanted(&arrival.info.path, &arrival.query, &arrival.headers);
    let answer = if is_a_persons { pretty::print(answer).await } else { answer };
    let mut answer = respond::compress(answer, encodings).await;
    add_headers(&mut answer, &arrival, &seen);
    account::answered(&server, &peer, &arrival, &seen, answer)
}

// ANCHOR: filter-chain
/// The chain proper: each step refuses or passes on.
async fn run(
    server: &Arc<ApiServer>,
    peer: &Peer,
    arrival: &Arrival,
    request: Request<Incoming>,
    seen: &Arc<Mutex<Seen>>,
) -> Result<Answer, Status> {
    let authorization = arrival.headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let user = server.authenticator.authenticate(&peer.certificates, authorization, arrival.received).await?;
    {
        let mut seen = seen.lock();
        seen.audit = Some(server.audit.choose(Some(&user), &arrival.info));
        seen.original_user = Some(user.clone());
        account::received(server, peer, arrival, &seen);
    }
    let user = match acting_as(server, user, &arrival.headers) {
        Ok(user) => user,
        Err(Refusal::Forbidden(status)) => return Err(*status),
        Err(Refusal::WithoutUser(why)) => return Ok(internal_error(&arrival.uri, &why)),
    };
    seen.lock().user = Some(user.clone());
    let long_running = is_long_running(&arrival.info);
    let mut _seat = None;
    if let (Some(fairness), false) = (&server.fairness, long_running) {
        let (seat, classified) = fairness.enter(&user, &arrival.info, &server.stores).await?;
        seen.lock().classified = classified;
        _seat = seat;
    }
    let _permit =
        if long_running { None } else { Some(server.in_flight.enter(&arrival.info, &server.metrics)?) };
    let attributes = attributes_of(&user, &arrival.info, &arrival.query);
    let decision = server.authorizer.authorize(&attributes);
    let refusal = (!decision.is_allowed()).then(|| attributes.forbidden(decision.reason()));
    seen.lock().decision = Some(decision);
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let context =
        Context::new(server.clone(), arrival.info.clone(), arrival.query.clone(), user, seen.clone())
            .sent_with(user_agent(arrival));
    let handled = handlers::dispatch(&context, request);
    match long_running {
        true => handled.await,
        false => match tokio::time::timeout(REQUEST_TIMEOUT, handled).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::timeout("request did not complete within the allotted timeout", 0)),
        },
    }
}
// ANCHOR_END: filter-chain

/// What the chain and the handler learn on the way, for headers, metrics and audit.
#[derive(Debug, Default)]
pub struct Seen {
    /// As whom the request acts.
    pub user: Option<Arc<UserInfo>>,
    /// Who sent it.
    pub original_user: Option<Arc<UserInfo>>,
    /// What the audit policy says, once the user is known.
    pub audit: Option<Chosen>,
    /// The body, if it is to be written.
    pub request_object: Option<Value>,
    /// The answer's body, if it is to be written.
    pub response_object: Option<Value>,
    /// The refusal.
    pub failure: Option<Status>,
    /// The handler failed.
    pub panicked: bool,
    /// Flow and level.
    pub classified: Classified,
    /// What the authorizers said, if they were asked.
    pub decision: Option<Decision>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// What admission adds to the audit line.
    pub annotations: Vec<(String, String)>,
}

fn arrive(request: &Request<Incoming>) -> Arrival {
    let query = Query::parse(request.uri().query());
    let info = parse_request_info(request.method().as_str(), request.uri().path(), &query);
    let given = request.headers().get("audit-id").and_then(|v| v.to_str().ok()).map(str::to_owned);
    Arrival {
        info,
        query,
        uri: request.uri().path_and_query().map(|p| p.as_str().to_owned()).unwrap_or_default(),
        headers: request.headers().clone(),
        audit_id: given.unwrap_or_else(|| Uuid::new_v4().to_string()),
        received: Timestamp::now(),
        started: Instant::now(),
    }
}

/// Watches and connections last as long as the client likes.
fn is_long_running(info: &RequestInfo) -> bool {
    info.verb == "watch"
        || matches!(info.subresource.as_str(), "log" | "exec" | "attach" | "portforward" | "proxy")
}

/// The user whom the request acts as: itself, or whom it may impersonate.
fn acting_as(server: &ApiServer, user: Arc<UserInfo>, headers: &HeaderMap) -> Result<Arc<UserInfo>, Refusal> {
    Ok(impersonate(headers, &user, &*server.authorizer)?.map_or(user, Arc::new))
}

/// What filters answer that know nothing of Status yet.
fn internal_error(uri: &str, why: &str) -> Answer {
    let text = format!("Internal Server Error: {uri:?}: {why}\n");
    respond::text(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// A request's words as the authorizers take them.
pub fn attributes_of(user: &Arc<UserInfo>, info: &RequestInfo, query: &Query) -> Attributes {
    let selector =
        query.get("fieldSelector").and_then(|text| FieldSelector::parse(text).ok()).unwrap_or_default();
    let equalities = selector.terms.into_iter().filter(|(_, _, equal)| *equal);
    Attributes {
        user: user.clone(),
        verb: info.verb.clone(),
        is_resource: info.is_resource_request,
        group: info.api_group.clone(),
        version: info.api_version.clone(),
        resource: info.resource.clone(),
        subresource: info.subresource.clone(),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        path: info.path.clone(),
        fields: equalities.map(|(field, value, _)| (field, value)).collect(),
    }
}

/// Refusals come in the form that the answer would have had, or in JSON if there is none.
fn refusal_format(headers: &HeaderMap) -> Format {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    negotiate(accept, false, true).map_or(Format::Json, |negotiated| negotiated.format)
}

fn add_headers(answer: &mut Answer, arrival: &Arrival, seen: &Seen) {
    let headers = answer.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&arrival.audit_id) {
        headers.insert(HeaderName::from_static("audit-id"), value);
    }
    let uids = [
        ("x-kubernetes-pf-flowschema-uid", &seen.classified.flow_schema),
        ("x-kubernetes-pf-prioritylevel-uid", &seen.classified.priority_level),
    ];
    for (name, uid) in uids.into_iter().filter(|(_, uid)| !uid.is_empty()) {
        if let Ok(value) = HeaderValue::from_str(uid) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    for warning in warnings::headers(&seen.warnings) {
        headers.append(header::WARNING, warning);
    }
}

/// The program that sent the request.
fn user_agent(arrival: &Arrival) -> &str {
    arrival.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("")
}
