//! Available: whether the server behind an APIService is there, asked from time to time and noted in its status.
//!
//! The question is for the list of resources, so that the answer is good for discovery, too. A server that is there is asked twice a minute;
//! one that isn't, and one whose APIService, Service or endpoints changed, within a second or a few.
//!
//! # Invariants
//! 1. A condition is written only when it says something else than before.
//!
//! # In Kubernetes
//! `kube-aggregator/pkg/controllers/status/remote/remote_available_controller.go`. Left out: five attempts at once for one server.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock, chooses endpoints by chance")]

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::{Request, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::time::format_time;

use super::{GROUP, is_remote};
use crate::admission::ObjectReader;
use crate::registry;
use crate::server::ApiServer;
use crate::watch_cache::{At, CachedObject};

/// Pause between two looks at whether there is something to ask.
const TICK: Duration = Duration::from_secs(1);
/// Pause between two questions to a server that is there, and to one that isn't.
const PAUSE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5));
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Servers that are asked at the same time.
const AT_ONCE: usize = 8;

/// What was found out: `Passed`, or another reason with its message.
type Finding = Result<Arc<Value>, (&'static str, String)>;

/// When a server was asked last, about what, and whether it was there.
struct Asked {
    at: Instant,
    version: String,
    available: bool,
}

/// Asks until the server stops.
pub async fn run(server: Arc<ApiServer>) {
    let mut asked: HashMap<String, Asked> = HashMap::new();
    loop {
        tokio::time::sleep(TICK).await;
        let services: Vec<Arc<Object>> = server
            .stores
            .list(GROUP, "apiservices", "")
            .into_iter()
            .filter(|service| is_remote(service))
            .collect();
        let is_there = |name: &String| services.iter().any(|service| service.name() == name);
        asked.retain(|name, _| is_there(name));
        server.aggregator.known.lock().retain(|name, _| is_there(name));
        let due = services.into_iter().filter_map(|service| {
            let version = world_of(&service, &server);
            let is_due = asked.get(service.name()).is_none_or(|last| {
                let pause = if last.available { PAUSE.0 } else { PAUSE.1 };
                last.version != version || last.at.elapsed() >= pause
            });
            is_due.then_some((service, version))
        });
        let due: Vec<(Arc<Object>, String)> = due.collect();
        let server = &server;
        let look = |(service, version): (Arc<Object>, String)| async move {
            let finding = ask(server, &service).await;
            let available = finding.is_ok();
            note(server, &service, finding).await;
            (service.name().to_owned(), Asked { at: Instant::now(), version, available })
        };
        asked.extend(side_by_side(due, look).await);
    }
}

/// Does something for each, for a few at once: one that doesn't answer mustn't hold up the others.
async fn side_by_side<T, R, F: Future<Output = R>>(all: Vec<T>, look: impl FnMut(T) -> F) -> Vec<R> {
    stream::iter(all).map(look).buffer_unordered(AT_ONCE).collect().await
}

/// What an answer depends on: the APIService, its Service and that one's endpoints.
fn world_of(service: &Object, server: &ApiServer) -> String {
    let (namespace, name) = place(service);
    let version =
        |object: Option<Arc<Object>>| object.map_or_else(String::new, |o| o.resource_version().to_owned());
    let slices = server.stores.list("discovery.k8s.io", "endpointslices", namespace);
    let slices = slices.into_iter().filter(|slice| slice.label("kubernetes.io/service-name") == Some(name));
    let mut parts = vec![
        // Not its version: our own note would be a change.
        service.get("/spec").map(ToString::to_string).unwrap_or_default(),
        version(server.stores.get("", "services", namespace, name)),
    ];
    parts.extend(slices.map(|slice| slice.resource_version().to_owned()));
    parts.join("\n")
}

fn place(service: &Object) -> (&str, &str) {
    let text = |field: &str| service.get_str(field).unwrap_or("");
    (text("/spec/service/namespace"), text("/spec/service/name"))
}

async fn ask(server: &ApiServer, service: &Object) -> Finding {
    let (namespace, name) = place(service);
    if server.stores.get("", "services", namespace, name).is_none() {
        return Err(("ServiceNotFound", format!("service/{name} in {namespace:?} is not present")));
    }
    let target = server.aggregator.target(service, &server.stores, rand::random());
    let target = target.map_err(|why| match why.starts_with("no service port") {
        true => {
            let port = service.get_i64("/spec/service/port").unwrap_or(443);
            ("ServicePortError", format!("service/{name} in {namespace:?} is not listening on port {port}"))
        }
        false => {
            ("MissingEndpoints", format!("endpoints for service/{name} in {namespace:?} have no addresses"))
        }
    })?;
    let text = |field: &str| service.get_str(field).unwrap_or("");
    let path = format!("/apis/{}/{}", text("/spec/group"), text("/spec/version"));
    let url = format!("https://{}{path}", target.address);
    let failed =
        |why: String| ("FailedDiscoveryCheck", format!("failing or missing response from {url}: {why}"));
    let request = Request::get(&path)
        .header(header::ACCEPT, "application/json")
        .header(header::HOST, &target.host)
        .header("x-remote-user", "system:kube-aggregator")
        .header("x-remote-group", "system:masters")
        .body(Bytes::new())
        .map_err(|error| failed(error.to_string()))?;
    match tokio::time::timeout(PATIENCE, target.client.send(request)).await {
        Err(_) => Err(failed(format!("Get {url:?}: context deadline exceeded"))),
        Ok(Err(error)) => Err(failed(error.to_string())),
        // Whoever answers is there, even if this is no list.
        Ok(Ok(answer)) => Ok(Arc::new(serde_json::from_slice(answer.body()).unwrap_or_default())),
    }
}

/// Keeps what the server serves, and writes the condition if it is another one.
async fn note(server: &ApiServer, service: &Object, finding: Finding) {
    let (status, reason, message) = match finding {
        Ok(list) => {
            server.aggregator.known.lock().insert(service.name().to_owned(), list);
            ("True", "Passed", "all checks passed".to_owned())
        }
        Err((reason, message)) => ("False", reason, message),
    };
    let info = registry::find_group_resource(GROUP, "apiservices").expect("a built-in resource");
    let now = format_time(Timestamp::now());
    let change = |current: Arc<CachedObject>| {
        std::future::ready(Ok(with_condition(&current.object, status, reason, &message, &now)))
    };
    let written = server.stores.of(info).update(None, service.name(), false, change).await;
    if let Err(error) = written {
        tracing::debug!(api_service = service.name(), %error, "The condition of an APIService wasn't written");
    }
    // The next look sees what was written now.
    let _ = server.stores.of(info).cacher().wait_for(At::Any).await;
}

/// The APIService with this condition, unless it says so already.
fn with_condition(service: &Object, status: &str, reason: &str, message: &str, now: &str) -> Object {
    let mut conditions =
        service.get("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let before = conditions.iter().position(|one| one["type"] == "Available");
    let since = before.map(|at| &conditions[at]).filter(|one| one["status"] == status);
    let since = since.and_then(|one| one["lastTransitionTime"].as_str()).unwrap_or(now).to_owned();
    let condition = json!({
        "type": "Available", "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    match before {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    let mut changed = service.clone();
    changed.set("/status/conditions", Value::Array(conditions));
    changed
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn several_servers_are_asked_at_once_but_not_all() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Opens when so many wait at it: asked one after the other, they would wait for ever.
        let gate = tokio::sync::Barrier::new(AT_ONCE);
        let (now, most, gate) = (&now, &most, &gate);
        let look = |n: usize| async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            gate.wait().await;
            now.fetch_sub(1, Ordering::SeqCst);
            n
        };
        let mut found = side_by_side((0..2 * AT_ONCE).collect(), look).await;
        found.sort_unstable();
        assert_eq!(found, (0..2 * AT_ONCE).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let bare = Object::from_value(json!({ "metadata": { "name": "v1.a" } })).expect("a map");
        let down = with_condition(&bare, "False", "ServiceNotFound", "no", "2026-01-01T00:00:00Z");
        let still = with_condition(&down, "False", "MissingEndpoints", "none", "2026-01-02T00:00:00Z");
        let up = with_condition(&still, "True", "Passed", "all checks passed", "2026-01-03T00:00:00Z");
        let of = |object: &Object| object.get("/status/conditions/0").cloned().expect("a condition");
        assert_eq!(of(&still)["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(of(&still)["reason"], "MissingEndpoints");
        assert_eq!(of(&up)["lastTransitionTime"], "2026-01-03T00:00:00Z");
        assert_eq!(with_condition(&up, "True", "Passed", "all checks passed", "2027-01-01T00:00:00Z"), up);
    }
}
