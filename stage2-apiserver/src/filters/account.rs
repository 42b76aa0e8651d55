//! Account: what is written down about a request: metrics, and the audit log at each stage of its life.
//!
//! A short request is over when it is answered. A watch or a connection is over when its last byte went: the end is noted by the body
//! itself, when it is dropped.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/filters/audit.go`, `…/metrics/metrics.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::time::format_micro_time;

use super::{Arrival, Seen, is_long_running, user_agent};
use crate::audit::policy::{Chosen, Level, Stage};
use crate::audit::{self, AuditEvent, bodies};
use crate::handlers::respond::{self, Answer, BoxError};
use crate::metrics::RequestLabels;
use crate::registry;
use crate::request_info::RequestInfo;
use crate::server::{ApiServer, Peer};

/// Writes that a request came, where the policy wants it.
pub fn received(server: &ApiServer, peer: &Peer, arrival: &Arrival, seen: &Seen) {
    let Some(chosen) = seen.audit.as_ref().filter(|chosen| chosen.writes(Stage::RequestReceived)) else {
        return;
    };
    let event = event(peer, arrival, seen, chosen, Stage::RequestReceived, None);
    write(server, &audit::render(&event));
}

/// Counts an answered request and writes its end, or has it written when it comes.
pub fn answered(
    server: &Arc<ApiServer>,
    peer: &Peer,
    arrival: &Arrival,
    seen: &Seen,
    answer: Answer,
) -> Answer {
    let code = answer.status();
    observe(server, arrival, code);
    let unauthenticated;
    let chosen = match &seen.audit {
        Some(chosen) => chosen,
        None => {
            unauthenticated = server.audit.choose(None, &arrival.info);
            &unauthenticated
        }
    };
    let lasts = is_long_running(&arrival.info) && code.is_success();
    if lasts && chosen.writes(Stage::ResponseStarted) {
        let started = event(peer, arrival, seen, chosen, Stage::ResponseStarted, Some(code));
        write(server, &audit::render(&started));
    }
    let last = if seen.panicked { Stage::Panic } else { Stage::ResponseComplete };
    if !chosen.writes(last) {
        return answer;
    }
    let mut line = audit::render(&event(peer, arrival, seen, chosen, last, Some(code)));
    if !lasts {
        write(server, &line);
        return answer;
    }
    let server = server.clone();
    let at_the_end = move || {
        line["stageTimestamp"] = json!(format_micro_time(Timestamp::now()));
        write(&server, &line);
    };
    let (head, body) = answer.into_parts();
    Response::from_parts(head, Ending { body, at_the_end: Some(Box::new(at_the_end)) }.boxed_unsync())
}

fn write(server: &ApiServer, line: &Value) {
    if server.audit.record(line) {
        server.metrics.audit_events.inc();
    }
}

/// Reads an answer's object, when the policy wants it written.
pub async fn keep_response(arrival: &Arrival, seen: &mut Seen, answer: Answer) -> Answer {
    let wanted = seen.audit.as_ref().is_some_and(|chosen| chosen.level == Level::RequestResponse);
    if !wanted || is_long_running(&arrival.info) || answer.body().size_hint().exact().is_none() {
        return answer;
    }
    let (head, body) = answer.into_parts();
    let Ok(body) = body.collect().await else {
        return respond::text(StatusCode::INTERNAL_SERVER_ERROR, "");
    };
    let body = body.to_bytes();
    seen.response_object = bodies::object(&body);
    Response::from_parts(head, respond::full(body))
}

fn event<'a>(
    peer: &Peer,
    arrival: &'a Arrival,
    seen: &'a Seen,
    chosen: &'a Chosen,
    stage: Stage,
    code: Option<StatusCode>,
) -> AuditEvent<'a> {
    let original = seen.original_user.as_deref();
    let acting = seen.user.as_deref().filter(|user| Some(*user) != original);
    AuditEvent {
        chosen,
        stage,
        audit_id: &arrival.audit_id,
        info: &arrival.info,
        request_uri: &arrival.uri,
        user: original,
        impersonated: acting,
        source_ip: peer.address.ip().to_string(),
        user_agent: user_agent(arrival),
        code: code.map(|code| code.as_u16()),
        failure: seen.failure.as_ref(),
        decision: seen.decision.as_ref(),
        annotations: &seen.annotations,
        request_object: seen.request_object.as_ref(),
        response_object: seen.response_object.as_ref(),
        received: arrival.received,
        at: Timestamp::now(),
    }
}

/// A body that says when it is over.
struct Ending {
    body: respond::Body,
    at_the_end: Option<Box<dyn FnOnce() + Send>>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(at_the_end) = self.at_the_end.take() {
            at_the_end();
        }
    }
}

impl HttpBody for Ending {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn observe(server: &ApiServer, arrival: &Arrival, code: StatusCode) {
    let info = &arrival.info;
    // What no kind has is a client's word, whoever sent it: it must not become a label.
    let found = registry::find(&info.api_group, &info.api_version, &info.resource)
        .or_else(|| server.customs.find(&info.api_group, &info.api_version, &info.resource));
    let known = |word: &str, is_known: bool| if is_known { word.to_owned() } else { String::new() };
    let is_subresource = found.is_some_and(|kind| kind.subresource(&info.subresource).is_some());
    let labels = RequestLabels {
        verb: metrics_verb(info).into(),
        group: known(&info.api_group, found.is_some()),
        version: known(&info.api_version, found.is_some()),
        resource: known(&info.resource, found.is_some()),
        subresource: known(&info.subresource, is_subresource),
        scope: scope(info).into(),
        code: code.as_str().into(),
    };
    let seconds = (!is_long_running(info)).then(|| arrival.started.elapsed().as_secs_f64());
    server.metrics.observe(labels, seconds);
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
