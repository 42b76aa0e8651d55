//! Streaming: logs, exec, attach, port-forward and proxies; the API server as a way to the nodes.
//!
//! *Step 5 of a pod's journey, looked at from outside.* Before: `kubectl logs -f web`. After: bytes from the node's kubelet,
//! for as long as both sides like.
//!
//! kubectl can't reach nodes; the API server can. It finds the pod's node, connects to the kubelet there with its own client
//! certificate, and passes bytes on. Logs are an HTTP answer without an end. exec, attach and port-forward *leave* HTTP: the
//! connection is upgraded to SPDY or WebSocket, and from then on the server only copies ([`tunnel`]), except
//! where client and kubelet speak different dialects ([`translate`]).
//!
//! # Invariants
//! 1. What is authorised is what is connected to: the kubelet's URL is made from the request's words and the stored pod,
//!    never from a part of the client's URL.
//!
//! # In Kubernetes
//! `pkg/registry/core/pod/rest/{log,subresources}.go`, `pkg/kubelet/client/kubelet_client.go`,
//! `apimachinery/pkg/util/proxy/`. Left out: `--kubelet-preferred-address-types`.

pub mod kubelet;
pub mod logs;
pub mod pod_network;
pub mod proxy;
pub mod translate;
pub mod tunnel;

use http::Request;
use hyper::body::Incoming;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::status::Status;

use crate::admission::Operation;
use crate::handlers::respond::Answer;
use crate::handlers::write_path::WriteRequest;
use crate::handlers::{Routed, admit};
use crate::request_info::Query;
use crate::table::cells::text;
use crate::watch_cache::At;

pub use kubelet::KubeletClient;

/// Whether a subresource streams.
pub fn handles(subresource: &str) -> bool {
    matches!(subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
}

/// Answers a streaming subresource.
///
/// # Errors
/// 400 and 404 for what can't be connected to, and what the kubelet refuses.
pub async fn handle(routed: &Routed<'_>, request: Request<Incoming>) -> Result<Answer, Status> {
    match routed.context.info.subresource.as_str() {
        "log" => logs::handle(routed).await,
        "proxy" => proxy::handle(routed, request).await,
        subresource => {
            let pod = pod(routed).await?;
            let query = &routed.context.query;
            let container = match subresource {
                "portforward" => None,
                _ => Some(container_name(&pod, query.get("container").unwrap_or(""))?),
            };
            if pod.get_str("/spec/nodeName").unwrap_or("").is_empty() {
                return Err(Status::bad_request(format!("pod {} does not have a host assigned", pod.name())));
            }
            admit_connect(routed).await?;
            let path = kubelet_path(subresource, &pod, container.as_deref(), query);
            let client = kubelet::client_of_pod(routed, &pod).await?;
            tunnel::handle(routed, client, &path, request).await
        }
    }
}

/// The pod that the path names.
///
/// # Errors
/// 404.
pub async fn pod(routed: &Routed<'_>) -> Result<Object, Status> {
    let store = routed.context.server.stores.of(routed.resource);
    let found = store.get(routed.context.namespace(), &routed.context.info.name, At::Consistent).await?;
    Ok(found.object.clone())
}

/// What the query asks for, as the object that admission sees.
fn connect_options(kind: &str, query: &Query) -> Object {
    let mut options = json!({ "kind": kind, "apiVersion": "v1" });
    for name in ["stdin", "stdout", "stderr", "tty"] {
        if query.get(name).is_some() {
            options[name] = json!(query.flag(name));
        }
    }
    if let Some(container) = query.get("container") {
        options["container"] = json!(container);
    }
    let command: Vec<&str> = query.all("command").collect();
    if !command.is_empty() {
        options["command"] = json!(command);
    }
    Object::from_value(options).expect("a map")
}

async fn admit_connect(routed: &Routed<'_>) -> Result<(), Status> {
    let info = &routed.context.info;
    let request = WriteRequest {
        context: routed.context,
        resource: routed.resource,
        name: info.name.clone(),
        subresource: info.subresource.as_str(),
        dry_run: false,
    };
    let kind =
        routed.resource.subresource(&info.subresource).and_then(|s| s.kind).unwrap_or(routed.resource.kind);
    let attributes = request.attributes(Operation::Connect, GroupVersionKind::new("", "v1", kind));
    admit::connect(routed.context, &attributes, connect_options(kind, &routed.context.query)).await
}

/// The container that is meant: the one that is named, or the only one.
///
/// # Errors
/// 400 when there is a choice, or no such container.
pub fn container_name(pod: &Object, asked: &str) -> Result<String, Status> {
    let names = |field: &str| -> Vec<String> {
        let containers = pod.get(&format!("/spec/{field}")).and_then(Value::as_array);
        containers.into_iter().flatten().map(|c| text(c, "/name").to_owned()).collect()
    };
    let (containers, init, ephemeral) =
        (names("containers"), names("initContainers"), names("ephemeralContainers"));
    if !asked.is_empty() {
        let known = containers.iter().chain(&init).chain(&ephemeral).any(|c| c == asked);
        return match known {
            true => Ok(asked.to_owned()),
            false => {
                Err(Status::bad_request(format!("container {asked} is not valid for pod {}", pod.name())))
            }
        };
    }
    if let [only] = containers.as_slice() {
        return Ok(only.clone());
    }
    let mut message = format!(
        "a container name must be specified for pod {}, choose one of: [{}]",
        pod.name(),
        containers.join(" ")
    );
    if !init.is_empty() {
        message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
    }
    if !ephemeral.is_empty() {
        message.push_str(&format!(" or one of the ephemeral containers: [{}]", ephemeral.join(" ")));
    }
    Err(Status::bad_request(message))
}

/// The kubelet's path and query for an upgraded subresource.
pub fn kubelet_path(subresource: &str, pod: &Object, container: Option<&str>, query: &Query) -> String {
    let place = format!("{}/{}", pod.namespace().unwrap_or("default"), pod.name());
    if subresource == "portforward" {
        let ports: Vec<String> = query.all("ports").map(|p| format!("port={}", escape(p))).collect();
        return join_query(&format!("/portForward/{place}"), &ports);
    }
    let mut parameters: Vec<String> = Vec::new();
    for (ours, kubelets) in [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")] {
        if query.flag(ours) {
            parameters.push(format!("{kubelets}=1"));
        }
    }
    if subresource == "exec" {
        parameters.extend(query.all("command").map(|c| format!("command={}", escape(c))));
    }
    join_query(&format!("/{subresource}/{place}/{}", container.unwrap_or("")), &parameters)
}

/// Percent-encodes a query value.
pub fn escape(value: &str) -> String {
    percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A path with a query, if there is one.
pub fn join_query(path: &str, parameters: &[String]) -> String {
    match parameters.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", parameters.join("&")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(containers: &[&str]) -> Object {
        let containers: Vec<Value> = containers.iter().map(|name| json!({ "name": name })).collect();
        let pod = json!({
            "metadata": { "name": "multi", "namespace": "err" }, "spec": { "containers": containers },
        });
        Object::from_value(pod).expect("object")
    }

    #[test]
    fn the_only_container_needs_no_name() {
        assert_eq!(container_name(&pod(&["a"]), "").expect("one"), "a");
        assert_eq!(
            container_name(&pod(&["a", "b"]), "").expect_err("a choice").message,
            "a container name must be specified for pod multi, choose one of: [a b]"
        );
        assert_eq!(
            container_name(&pod(&["a"]), "x").expect_err("unknown").message,
            "container x is not valid for pod multi"
        );
    }

    #[test]
    fn kubelets_have_names_of_their_own_for_streams() {
        let query = Query::parse(Some("command=ls&command=-l%20a&stdin=true&stdout=true&tty=false"));
        assert_eq!(
            kubelet_path("exec", &pod(&["a"]), Some("a"), &query),
            "/exec/err/multi/a?input=1&output=1&command=ls&command=%2Dl%20a"
        );
    }
}
