//! What isn't a resource: health, version, metrics, discovery and OpenAPI documents.
//!
//! *Step 2 of a pod's journey.* Before: a client that has just connected asks what there is. After: it knows.
//!
//! Health has three questions: `/livez` (should I be restarted?), `/readyz` (should I get requests?) and the older
//! `/healthz`. Each is a list of checks; `?verbose` shows them, `/readyz/etcd` asks for one.
//!
//! # In Kubernetes
//! `apiserver/pkg/server/healthz/`, `…/server/routes/`. Left out: `/debug`.

use http::{Method, Request, StatusCode, header};
use hyper::body::Incoming;
use serde_json::{Value, json};
use stage1_kubectl::status::Status;

use super::Context;
use super::respond::{self, Answer};
use crate::aggregation::discovery as remote;
use crate::authentication::service_account::ISSUER;
use crate::discovery::{self, Generation};
use crate::negotiation::{Format, negotiate};
use crate::registry::Catalog;
use crate::server::ApiServer;
use crate::{openapi, version};

/// Paths that `/` lists, besides discovery's.
const PATHS: [&str; 9] = [
    "/healthz",
    "/livez",
    "/readyz",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/version",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
];

/// What the server does after it began to listen. Here it is one thing (the objects that every cluster has), after which all
/// of it is done; the names are those that people look for.
const HOOKS: [&str; 28] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/aggregator-reload-proxy-client-cert",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// Answers a path that is no resource.
///
/// # Errors
/// 404 and 405.
pub async fn handle(context: &Context, request: Request<Incoming>) -> Result<Answer, Status> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let message = "the server does not allow this method on the requested resource";
        return Err(Status::failure(405, "MethodNotAllowed", message));
    }
    let accept = request.headers().get(header::ACCEPT).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let path = context.info.path.trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts.as_slice() {
        [] => {
            let catalog = served_now(context).await?;
            let mut paths = root_paths(&catalog);
            paths
                .extend(remote::paths(&context.server.aggregator.versions(&context.server.stores, &catalog)));
            paths.sort();
            Ok(respond::indented_document(&json!({ "paths": paths })))
        }
        ["healthz" | "livez" | "readyz", rest @ ..] => Ok(health(context, parts[0], rest).await),
        ["version"] => Ok(respond::indented_document(&version::version())),
        ["metrics"] => Ok(metrics(&context.server)),
        ["openapi", rest @ ..] => {
            let catalog = served_now(context).await?;
            Ok(openapi::handle(&catalog, rest, accept.as_deref()).unwrap_or_else(page_not_found))
        }
        [".well-known", "openid-configuration"] => {
            Ok(respond::json_document(&openid_configuration(&context.server)))
        }
        ["openid", "v1", "jwks"] => {
            let keys = context.server.authenticator.service_accounts.jwks();
            Ok(respond::value(StatusCode::OK, Format::Json, &keys))
        }
        ["api" | "apis", ..] => api(context, &served_now(context).await?, &parts, accept.as_deref()),
        _ => Ok(page_not_found()),
    }
}

/// What is served, with every custom kind that was established before the request came.
async fn served_now(context: &Context) -> Result<Catalog, Status> {
    context.server.customs.settle().await?;
    Ok(context.server.customs.catalog())
}

/// What Go's own HTTP server says.
pub(super) fn page_not_found() -> Answer {
    respond::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Where others find the key that service account tokens are signed with.
fn openid_configuration(server: &ApiServer) -> Value {
    json!({
        "issuer": ISSUER,
        "jwks_uri": format!("https://{}/openid/v1/jwks", server_address(server)),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}

fn root_paths(catalog: &Catalog) -> Vec<String> {
    let mut paths: Vec<String> = PATHS.iter().map(|p| (*p).to_owned()).collect();
    paths.extend(["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned(), "/apis/".to_owned()]);
    for group in catalog.groups() {
        paths.push(format!("/apis/{group}"));
        paths.extend(catalog.versions(group).iter().map(|v| format!("/apis/{group}/{v}")));
    }
    paths.sort();
    paths
}

fn api(context: &Context, catalog: &Catalog, parts: &[&str], accept: Option<&str>) -> Result<Answer, Status> {
    let others = context.server.aggregator.versions(&context.server.stores, catalog);
    let groups_of_others = remote::groups(&others);
    let aggregated = |core: bool, version: &'static str| {
        let mut document = discovery::aggregated(catalog, core, version);
        if let (false, Some(items)) = (core, document["items"].as_array_mut()) {
            items.extend(groups_of_others.iter().map(|group| remote::aggregated_group(&others, group)));
        }
        let mut answer = respond::json_document(&document);
        let content_type = match version {
            "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        };
        answer.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
        answer.headers_mut().insert(header::VARY, http::HeaderValue::from_static("Accept"));
        answer
    };
    let generation = discovery::generation(accept);
    let document = match (parts, generation) {
        (["api"], Generation::Aggregated(version)) => return Ok(aggregated(true, version)),
        (["apis"], Generation::Aggregated(version)) => return Ok(aggregated(false, version)),
        (["api"], Generation::Legacy) => Some(discovery::api_versions(&server_address(&context.server))),
        (["apis"], Generation::Legacy) => {
            let mut document = discovery::api_group_list(catalog);
            let groups =
                groups_of_others.iter().filter_map(|group| remote::group(&others, group)).map(Value::Object);
            if let Some(list) = document["groups"].as_array_mut() {
                list.extend(groups);
            }
            Some(document)
        }
        (["api", version], _) => discovery::api_resource_list(catalog, "", version),
        (["apis", group], _) => {
            discovery::api_group(catalog, group).or_else(|| remote::group_document(&others, group))
        }
        (["apis", group, version], _) => discovery::api_resource_list(catalog, group, version),
        _ => None,
    };
    let document: Value = document.ok_or_else(Status::generic_not_found)?;
    let format = negotiate(accept, false, true).map_or(Format::Json, |n| n.format);
    Ok(respond::value(StatusCode::OK, format, &document))
}

fn server_address(server: &ApiServer) -> String {
    server.addresses.read().first().map(ToString::to_string).unwrap_or_default()
}

fn metrics(server: &ApiServer) -> Answer {
    respond::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", server.metrics.render())
}

/// The checks of one question, in order.
async fn checks(server: &ApiServer, question: &str) -> Vec<(&'static str, bool)> {
    let store_is_there = server.stores.caches().storage().freshness("/registry/").await.is_ok();
    let started = server.ready.is_cancelled();
    let mut checks = vec![("ping", true), ("log", true), ("etcd", store_is_there)];
    if question == "readyz" {
        checks.push(("etcd-readiness", store_is_there));
        checks.push(("informer-sync", started));
    }
    checks.extend(HOOKS.iter().map(|hook| (*hook, started)));
    if question == "readyz" {
        checks.push(("shutdown", !server.shutdown.is_cancelled()));
    }
    checks
}

async fn health(context: &Context, question: &str, rest: &[&str]) -> Answer {
    let mut checks = checks(&context.server, question).await;
    let excluded: Vec<&str> = context.query.all("exclude").collect();
    if !rest.is_empty() {
        let name = rest.join("/");
        checks.retain(|(check, _)| *check == name);
        if checks.is_empty() {
            return page_not_found();
        }
    }
    checks.retain(|(name, _)| !excluded.contains(name));
    let healthy = checks.iter().all(|(_, ok)| *ok);
    if healthy && (!context.query.0.iter().any(|(k, _)| k == "verbose") || !rest.is_empty()) {
        return respond::text(StatusCode::OK, "ok");
    }
    let mut text = String::new();
    for (name, ok) in &checks {
        text.push_str(&if *ok {
            format!("[+]{name} ok\n")
        } else {
            format!("[-]{name} failed: reason withheld\n")
        });
    }
    let code = if healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    text.push_str(&format!("{question} check {}\n", if healthy { "passed" } else { "failed" }));
    respond::text(code, text)
}
