//! Filters: what every request goes through, in this order, before a handler sees it.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::server`] accepted a connection. After: [`crate::handlers`] runs the verb for
//! somebody who may.
//!
//! ```text
//! panic guard → request info → authenticate → impersonate → in-flight limit → authorize → timeout → handler
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
//! `DefaultBuildHandlerChain` in `apiserver/pkg/server/config.go`. Left out: CORS, HSTS, priority and fairness (the plain
//! in-flight limit stands in for it).
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock, makes ids")]

pub mod body_limit;
pub mod in_flight;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header};
use hyper::body::Incoming;
use jiff::Timestamp;
use parking_lot::Mutex;
use stage1_kubectl::selector::FieldSelector;
use stage1_kubectl::status::Status;
use uuid::Uuid;

use crate::audit::AuditEvent;
use crate::authentication::UserInfo;
use crate::authentication::impersonation::{Refusal, impersonate};
use crate::authorization::{Attributes, Authorizer, Decision};
use crate::handlers::respond::{self, Answer};
use crate::handlers::{self, Context};
use crate::metrics::RequestLabels;
use crate::negotiation::{Format, negotiate};
use crate::request_info::{Query, RequestInfo, parse_request_info};
use crate::server::{ApiServer, Peer};

/// Short requests end after this.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What is known about a request before it is handled.
struct Arrival {
    info: RequestInfo,
    query: Query,
    uri: String,
    headers: HeaderMap,
    audit_id: String,
    received: Timestamp,
    started: Instant,
}

// ANCHOR: filter-chain
/// Takes one request through the chain. Never fails: a refusal is an answer.
pub async fn handle(server: Arc<ApiServer>, peer: Peer, request: Request<Incoming>) -> Answer {
    let arrival = arrive(&request);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let guarded = AssertUnwindSafe(run(&server, &peer, &arrival, request, &seen)).catch_unwind().await;
    let answer = match guarded {
        Ok(Ok(answer)) => answer,
        Ok(Err(status)) => respond::status(refusal_format(&arrival.headers), &status),
        Err(_) => {
            tracing::error!(uri = arrival.uri, "A handler panicked");
            let text = "This request caused apiserver to panic. Look in the logs for details.";
            respond::text(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    };
    let encodings = arrival.headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok());
    let mut answer = respond::compress(answer, encodings).await;
    let seen = std::mem::take(&mut *seen.lock());
    add_headers(&mut answer, &arrival, &seen);
    account(&server, &peer, &arrival, &seen, answer.status());
    answer
}

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
    let user = match acting_as(server, Arc::new(user), &arrival.headers) {
        Ok(user) => user,
        Err(Refusal::Forbidden(status)) => return Err(*status),
        Err(Refusal::WithoutUser(why)) => return Ok(internal_error(&arrival.uri, &why)),
    };
    seen.lock().user = Some(user.clone());
    let long_running = is_long_running(&arrival.info);
    let _permit =
        if long_running { None } else { Some(server.in_flight.enter(&arrival.info, &server.metrics)?) };
    let reason = authorize(server, &user, &arrival.info, &arrival.query)?;
    seen.lock().authorized_by = reason;
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
    /// Who asked.
    pub user: Option<Arc<UserInfo>>,
    /// Why it was allowed.
    pub authorized_by: String,
    /// Warnings for the client.
    pub warnings: Vec<String>,
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

/// Asks the authorizers.
///
/// # Errors
/// 403 in Kubernetes' words.
fn authorize(
    server: &ApiServer,
    user: &Arc<UserInfo>,
    info: &RequestInfo,
    query: &Query,
) -> Result<String, Status> {
    let attributes = attributes_of(user, info, query);
    match server.authorizer.authorize(&attributes) {
        Decision::Allow { reason } => Ok(reason),
        Decision::Deny { reason } | Decision::NoOpinion { reason } => Err(attributes.forbidden(&reason)),
    }
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
    let mut sent: Vec<&String> = Vec::new();
    for warning in &seen.warnings {
        if sent.contains(&warning) {
            continue;
        }
        sent.push(warning);
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            headers.append(header::WARNING, value);
        }
    }
}

/// The program that sent the request.
fn user_agent(arrival: &Arrival) -> &str {
    arrival.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("")
}

/// Metrics and the audit line.
fn account(server: &ApiServer, peer: &Peer, arrival: &Arrival, seen: &Seen, code: StatusCode) {
    let info = &arrival.info;
    let labels = RequestLabels {
        verb: metrics_verb(info).into(),
        group: info.api_group.clone(),
        version: info.api_version.clone(),
        // An unknown resource is a client's word; it must not become a label.
        resource: if code == StatusCode::NOT_FOUND && info.name.is_empty() {
            String::new()
        } else {
            info.resource.clone()
        },
        subresource: info.subresource.clone(),
        scope: scope(info).into(),
        code: code.as_str().into(),
    };
    let seconds = (!is_long_running(info)).then(|| arrival.started.elapsed().as_secs_f64());
    server.metrics.observe(labels, seconds);
    let written = server.audit.record(&AuditEvent {
        audit_id: &arrival.audit_id,
        info,
        request_uri: &arrival.uri,
        user: seen.user.as_deref(),
        source_ip: peer.address.ip().to_string(),
        user_agent: user_agent(arrival),
        code: code.as_u16(),
        decision: &seen.authorized_by,
        received: arrival.received,
        answered: Timestamp::now(),
    });
    if written {
        server.metrics.audit_events.inc();
    }
}

fn metrics_verb(info: &RequestInfo) -> &'static str {
    match (info.verb.as_str(), info.subresource.as_str()) {
        (_, "exec" | "attach" | "portforward" | "proxy" | "log") => "CONNECT",
        ("create" | "post", _) => "POST",
        ("update" | "put", _) => "PUT",
        ("patch", _) => "PATCH",
        ("delete", _) => "DELETE",
        ("deletecollection", _) => "DELETECOLLECTION",
        ("list", _) => "LIST",
        ("watch", _) => "WATCH",
        ("get", _) => "GET",
        _ => "other",
    }
}

fn scope(info: &RequestInfo) -> &'static str {
    match () {
        () if !info.is_resource_request => "",
        () if !info.name.is_empty() => "resource",
        () if !info.namespace.is_empty() => "namespace",
        () => "cluster",
    }
}
