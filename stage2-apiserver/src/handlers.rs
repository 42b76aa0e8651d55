//! Handlers: one file a verb or subresource, and the table that sends a request to the right one.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::filters`] let the request through. After: the answer.
//!
//! Routing is a question to the registry: is there such a resource, does the path fit its scope, does it have the
//! subresource, does that have the verb? "No" to the last is 405, to the others 404. What remains is a
//! match on the verb.
//!
//! # Invariants
//! 1. A handler runs only for a resource and verb that discovery lists.
//! 2. Routing comes after authorisation: what isn't served looks the same as what isn't allowed, to those who aren't
//!    allowed.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/installer.go`. Left out: HEAD and OPTIONS (405 there too).

pub mod access;
pub mod admit;
pub mod allocation;
pub mod apply;
pub mod convert;
pub mod create;
pub mod delete;
pub mod field_manager;
pub mod fresh;
pub mod get;
pub mod list;
pub mod namespaces;
pub mod non_resource;
pub mod options;
pub mod patch;
pub mod pods;
pub mod policy;
pub mod prepare;
pub mod pretty;
pub mod respond;
pub mod reviews;
pub mod scale;
pub mod selectors;
pub mod token;
pub mod update;
pub mod watch;
pub mod write_path;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use hyper::body::Incoming;
use jiff::Timestamp;
use parking_lot::Mutex;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use crate::admission::webhook::dispatch::Report;
use crate::aggregation;
use crate::audit::bodies;
use crate::audit::policy::Level;
use crate::authentication::UserInfo;
use crate::authorization::SYSTEM_MASTERS;
use crate::custom_resources::conversion::known::Prepared;
use crate::filters::{Seen, body_limit};
use crate::managed_fields::manager_of_user_agent;
use crate::negotiation::{Negotiated, negotiate};
use crate::protobuf;
use crate::registry::{self, ResourceInfo};
use crate::request_info::{Query, RequestInfo};
use crate::server::ApiServer;
use crate::strategies::Requester;
use crate::streaming;
use crate::table::IncludeObject;

use respond::{Answer, View};

/// What every handler gets: the request's words, its user, and the server.
pub struct Context {
    /// What requests share.
    pub server: Arc<ApiServer>,
    /// What is asked.
    pub info: RequestInfo,
    /// The query, decoded.
    pub query: Query,
    /// Who asks.
    pub user: Arc<UserInfo>,
    /// When it came.
    pub now: Timestamp,
    /// With what program.
    pub user_agent: String,
    /// What programs made of the objects of this request.
    pub prepared: Mutex<Prepared>,
    seen: Arc<Mutex<Seen>>,
}

impl Context {
    /// For one request.
    pub fn new(
        server: Arc<ApiServer>,
        info: RequestInfo,
        query: Query,
        user: Arc<UserInfo>,
        seen: Arc<Mutex<Seen>>,
    ) -> Self {
        let (now, user_agent, prepared) = (clock(), String::new(), Mutex::default());
        Self { server, info, query, user, now, user_agent, prepared, seen }
    }

    /// The same request, sent with a program.
    pub fn sent_with(mut self, user_agent: &str) -> Self {
        self.user_agent = user_agent.to_owned();
        self
    }

    /// Who the request's changes are booked to: `fieldManager`, or the program.
    pub fn field_manager(&self) -> String {
        match self.query.get("fieldManager").unwrap_or("") {
            "" => manager_of_user_agent(&self.user_agent),
            manager => manager.to_owned(),
        }
    }

    /// Tells the client something that is no refusal.
    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        self.seen.lock().warnings.extend(warnings);
    }

    /// Keeps the body for the audit log, if the policy wants it.
    fn keep_body(&self, body: &Bytes) {
        let mut seen = self.seen.lock();
        if seen.audit.as_ref().is_some_and(|chosen| chosen.level >= Level::Request) {
            seen.request_object = bodies::object(body);
        }
    }

    /// Keeps what webhooks and policies said, for the client and for the audit log.
    pub fn report(&self, report: Report) {
        let mut seen = self.seen.lock();
        seen.warnings.extend(report.warnings);
        seen.annotations.extend(report.annotations);
    }

    /// Why the request was authorised. The audit log has no words for masters, as Kubernetes' has none; people want some.
    pub fn authorized_by(&self) -> String {
        let reason =
            self.seen.lock().decision.as_ref().map_or_else(String::new, |said| said.reason().to_owned());
        let is_master = self.user.groups.iter().any(|group| group == SYSTEM_MASTERS);
        match reason.is_empty() && is_master {
            true => format!("the group {SYSTEM_MASTERS} may do everything"),
            false => reason,
        }
    }

    /// The user as objects record it.
    pub fn requester(&self) -> Requester {
        Requester {
            name: self.user.name.clone(),
            uid: self.user.uid.clone(),
            groups: self.user.groups.clone(),
            extra: self.user.extra.clone(),
        }
    }

    /// The namespace of the path, if it names one.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.info.namespace.as_str()).filter(|n| !n.is_empty())
    }
}

#[expect(clippy::disallowed_methods, reason = "shell: stamps the request, and the events of a watch")]
fn clock() -> Timestamp {
    Timestamp::now()
}

/// A request whose resource was found.
pub struct Routed<'a> {
    /// Its context.
    pub context: &'a Context,
    /// Its resource.
    pub resource: &'static ResourceInfo,
    /// Its headers.
    pub headers: HeaderMap,
    /// How to answer.
    pub negotiated: Negotiated,
}

impl Routed<'_> {
    /// The storage key of the object that the path names.
    pub fn key(&self) -> String {
        self.resource.key(self.context.namespace(), &self.context.info.name)
    }

    /// How errors name the resource.
    pub fn group_resource(&self) -> String {
        self.resource.group_resource()
    }

    /// 404 for the object that the path names.
    pub fn not_found(&self) -> Status {
        Status::not_found(&self.group_resource(), &self.context.info.name)
    }

    /// How objects are rendered.
    pub fn view(&self) -> View {
        View {
            group: self.resource.group,
            kind: self.resource.kind,
            include_object: match self.context.query.get("includeObject") {
                Some("None") => IncludeObject::None,
                Some("Object") => IncludeObject::Object,
                _ => IncludeObject::Metadata,
            },
            now: self.context.now,
            columns: self.resource.custom_kind().map(|kind| kind.columns.clone()),
        }
    }

    /// An object as the resource serves it.
    pub fn served<'a>(&self, stored: &'a Object) -> Cow<'a, Object> {
        convert::to_served(self.resource, stored, &self.context.prepared.lock())
    }

    /// Answers with an object of this resource.
    pub fn answer(&self, code: StatusCode, object: &Object) -> Answer {
        let served = self.served(object);
        respond::object(code, &self.negotiated, &self.view(), served.as_value())
    }

    /// Answers with an object of a subresource's kind.
    pub fn answer_plain(&self, code: StatusCode, object: &Object) -> Answer {
        respond::value(code, self.negotiated.format, object.as_value())
    }

    /// The Content-Type of the body.
    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok())
    }
}

// ANCHOR: dispatch
/// Sends a request to its handler.
///
/// # Errors
/// Whatever the handler refuses, 404 and 405.
pub async fn dispatch(context: &Context, request: Request<Incoming>) -> Result<Answer, Status> {
    if let Some(service) = answered_elsewhere(context) {
        return aggregation::proxy::pass_on(context, &service, request).await;
    }
    if !context.info.is_resource_request {
        return non_resource::handle(context, request).await;
    }
    let Some(resource) = find(context).await? else {
        let is_unknown_group = context.server.customs.catalog().versions(&context.info.api_group).is_empty();
        return match is_unknown_group {
            true => Ok(non_resource::page_not_found()),
            false => Err(Status::generic_not_found()),
        };
    };
    route(&context.info, resource)?;
    custom_kind_speaks(context, resource)?;
    let (head, body) = request.into_parts();
    let accept = head.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let has_message = protobuf::message_of(&resource.group_version(), resource.kind).is_some();
    let negotiated = negotiate(accept, context.info.verb == "watch", has_message)?;
    let routed = Routed { context, resource, headers: head.headers.clone(), negotiated };
    if streaming::handles(&context.info.subresource) {
        return streaming::handle(&routed, Request::from_parts(head, body)).await;
    }
    let body = body_limit::read(body).await?;
    context.keep_body(&body);
    match context.info.subresource.as_str() {
        "" => main_resource(&routed, &body).await,
        subresource => subresource_of(&routed, subresource, &body).await,
    }
}
// ANCHOR_END: dispatch

/// The APIService of a path that another server answers; what is served here never is.
fn answered_elsewhere(context: &Context) -> Option<Arc<Object>> {
    let (info, server) = (&context.info, &context.server);
    let is_ours = server.customs.find(&info.api_group, &info.api_version, &info.resource).is_some();
    if is_ours { None } else { aggregation::service_of(&info.path, &server.stores) }
}

/// Finds the entry of a path: a built-in one at once, a custom one as the store knows it now.
async fn find(context: &Context) -> Result<Option<&'static ResourceInfo>, Status> {
    let info = &context.info;
    let (group, version, resource) = (&info.api_group, &info.api_version, &info.resource);
    match registry::find(group, version, resource) {
        Some(found) => Ok(Some(found)),
        None => context.server.customs.find_fresh(group, version, resource).await,
    }
}

/// A custom kind that is deprecated says so with each answer; one that is going takes nothing new.
fn custom_kind_speaks(context: &Context, resource: &'static ResourceInfo) -> Result<(), Status> {
    let Some(kind) = resource.custom_kind() else { return Ok(()) };
    context.warn(kind.deprecation_warning.clone());
    if kind.terminating && context.info.verb == "create" {
        let mut refusal = Status::method_not_allowed(&resource.group_resource(), "create");
        refusal.message = "create not allowed while custom resource definition is terminating".into();
        return Err(refusal);
    }
    Ok(())
}

/// Checks that path and method fit an entry.
fn route(info: &RequestInfo, resource: &'static ResourceInfo) -> Result<(), Status> {
    let is_namespace = resource.resource == "namespaces" && resource.group.is_empty();
    if !resource.namespaced && !info.namespace.is_empty() && !is_namespace {
        return Err(Status::generic_not_found());
    }
    let has_name = !info.name.is_empty() && !matches!(info.verb.as_str(), "list" | "watch");
    if resource.namespaced && info.namespace.is_empty() {
        if has_name {
            return Err(Status::generic_not_found());
        }
        if !matches!(info.verb.as_str(), "list" | "watch") {
            return Err(method_not_allowed());
        }
    }
    let verbs = match info.subresource.as_str() {
        "" => resource.verbs,
        name => resource.subresource(name).ok_or_else(Status::generic_not_found)?.verbs,
    };
    let fits = match info.verb.as_str() {
        "create" => info.subresource.is_empty() != has_name,
        "update" | "patch" | "delete" | "get" => has_name,
        _ => true,
    };
    match fits && verbs.contains(&info.verb.as_str()) {
        true => Ok(()),
        false => Err(method_not_allowed()),
    }
}

/// 405 in the words of the path, not of a kind.
fn method_not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    let mut status = Status::failure(405, "MethodNotAllowed", message);
    status.details = Some(Default::default());
    status
}

async fn main_resource(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    if routed.resource.storage.is_none() {
        return virtual_resource(routed, body).await;
    }
    match routed.context.info.verb.as_str() {
        "get" => get::handle(routed).await,
        "list" => list::handle(routed).await,
        "watch" => watch::handle(routed).await,
        "create" => create::handle(routed, body).await,
        "update" => update::handle(routed, body).await,
        "patch" => patch::handle(routed, body).await,
        "delete" => delete::handle(routed, body).await,
        "deletecollection" => delete::handle_collection(routed, body).await,
        _ => Err(method_not_allowed()),
    }
}

/// Kinds that are answered and forgotten.
async fn virtual_resource(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    match routed.resource.resource {
        "bindings" => pods::bind(routed, body).await,
        "componentstatuses" => list::component_statuses(routed),
        _ => reviews::handle(routed, body).await,
    }
}

async fn subresource_of(routed: &Routed<'_>, subresource: &str, body: &Bytes) -> Result<Answer, Status> {
    let verb = routed.context.info.verb.as_str();
    match (subresource, verb) {
        ("scale", _) => scale::handle(routed, body).await,
        ("binding", _) => pods::bind(routed, body).await,
        ("eviction", _) => pods::evict(routed, body).await,
        ("token", _) => token::handle(routed, body).await,
        ("finalize", _) => namespaces::finalize(routed, body).await,
        (_, "get") => get::handle(routed).await,
        (_, "update") => update::handle(routed, body).await,
        (_, "patch") => patch::handle(routed, body).await,
        _ => Err(method_not_allowed()),
    }
}
