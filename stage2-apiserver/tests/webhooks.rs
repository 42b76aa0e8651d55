//! Admission webhooks against a running API server: order, second round, selectors, deletion, failure, Services, metrics, audit.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod support {
    pub mod raw;
    pub mod webhook;
}

use std::sync::Arc;

use serde_json::{Value, json};
use support::raw::{Raw, TestCluster, cluster};
use support::webhook::{Behaviour, Webhook, patch, reply, start};

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A webhook for ConfigMaps at a path of this server.
fn hook(server: &Webhook, name: &str, more: Value) -> Value {
    let mut hook = json!({
        "name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": { "url": format!("https://127.0.0.1:{}/{name}", server.port), "caBundle": server.ca_bundle },
        "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"] }],
    });
    for (key, value) in more.as_object().expect("a map") {
        hook[key] = value.clone();
    }
    hook
}

/// Makes a configuration and waits until admission has it.
async fn configure(client: &mut Raw, kind: &str, name: &str, hooks: Vec<Value>) {
    let path = format!("{HOOKS}/{}s", kind.to_lowercase());
    let body = json!({ "kind": kind, "metadata": { "name": name }, "webhooks": hooks });
    let made = client.json("POST", &path, &body).await;
    assert_eq!(made.code, 201, "{}", made.text());
    client.get(&path).await;
}

fn map(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "a": "1" } })
}

async fn begin(names: &[&str], behaviour: Behaviour) -> (TestCluster, Raw, Webhook) {
    let cluster = cluster().await;
    let client = Raw::admin(&cluster);
    (cluster, client, start(names, behaviour).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_change_in_order_and_those_that_asked_for_it_look_again() {
    // Each adds a letter to `data.way`; `first` is called again after `second` changed what it had seen.
    let behaviour: Behaviour = Arc::new(|path, request| {
        let way = request["object"]["data"]["way"].as_str().unwrap_or("").to_owned();
        match path {
            "/first" | "/second" => {
                let value = format!("{way}{}", &path[1..2]);
                patch(request, json!([{ "op": "add", "path": "/data/way", "value": value }]))
            }
            _ => reply(request, json!({ "allowed": true, "warnings": [format!("went {way}")] })),
        }
    });
    let (_cluster, mut client, server) = begin(&["127.0.0.1"], behaviour).await;
    let again = json!({ "reinvocationPolicy": "IfNeeded" });
    let hooks = vec![hook(&server, "first", again), hook(&server, "second", json!({}))];
    configure(&mut client, "MutatingWebhookConfiguration", "m", hooks).await;
    configure(&mut client, "ValidatingWebhookConfiguration", "v", vec![hook(&server, "see", json!({}))])
        .await;
    let made = client.json("POST", MAPS, &map("a")).await;
    assert_eq!(made.json()["data"]["way"], "fsf", "{}", made.text());
    assert_eq!(made.header("warning"), "299 - \"went fsf\"");
    let paths: Vec<String> = server.seen.lock().iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(paths, ["/first", "/second", "/first", "/see"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_moves_no_object_into_another_namespace() {
    let behaviour: Behaviour = Arc::new(|_, request| {
        patch(request, json!([{ "op": "replace", "path": "/metadata/namespace", "value": "kube-system" }]))
    });
    let (_cluster, mut client, server) = begin(&["127.0.0.1"], behaviour).await;
    let hooks = vec![hook(&server, "move", json!({}))];
    configure(&mut client, "MutatingWebhookConfiguration", "m", hooks).await;
    let refused = client.json("POST", MAPS, &map("a")).await;
    assert_eq!(refused.code, 400, "{}", refused.text());
    assert!(
        refused.text().contains("does not match the namespace sent on the request"),
        "{}",
        refused.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_fails_refuses_or_not_and_a_dry_run_has_no_side_effects() {
    let (_cluster, mut client, server) = begin(&["127.0.0.1"], Arc::new(|_, _| (500, String::new()))).await;
    let open = json!({ "failurePolicy": "Ignore" });
    configure(&mut client, "ValidatingWebhookConfiguration", "v", vec![hook(&server, "open", open)]).await;
    assert_eq!(client.json("POST", MAPS, &map("a")).await.code, 201);
    let metrics = client.get("/metrics").await.text();
    let counted =
        r#"apiserver_admission_webhook_fail_open_count_total{name="open.example.com",type="validating"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
    configure(&mut client, "ValidatingWebhookConfiguration", "w", vec![hook(&server, "shut", json!({}))])
        .await;
    let refused = client.json("POST", MAPS, &map("b")).await;
    assert_eq!(refused.code, 500);
    let text = "Internal error occurred: failed calling webhook \"shut.example.com\": failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding";
    assert_eq!(refused.json()["message"], text);
    // A configuration can always be removed, whatever its webhooks say.
    let path = format!("{HOOKS}/validatingwebhookconfigurations/w");
    assert_eq!(client.json("DELETE", &path, &json!({})).await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_end_is_not_read_to_its_end() {
    let (_cluster, mut client, server) =
        begin(&["127.0.0.1"], Arc::new(|_, _| (200, format!("\"{}\"", "x".repeat(17 << 20))))).await;
    configure(&mut client, "ValidatingWebhookConfiguration", "v", vec![hook(&server, "long", json!({}))])
        .await;
    let refused = client.json("POST", MAPS, &map("a")).await;
    assert_eq!(refused.code, 500);
    let text = refused.text();
    assert!(
        text.contains("failed calling webhook \\\"long.example.com\\\"") && text.contains("limit"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_evictions_and_scales_are_asked_about() {
    let behaviour: Behaviour = Arc::new(|_, request| {
        let allowed = request["operation"] != "DELETE";
        reply(
            request,
            json!({ "allowed": allowed, "status": { "message": "keep it" }, "auditAnnotations": { "k": "v" } }),
        )
    });
    let (cluster, mut client, server) = begin(&["127.0.0.1"], behaviour).await;
    let rules = json!([{ "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps", "deployments/scale"] }]);
    configure(
        &mut client,
        "ValidatingWebhookConfiguration",
        "v",
        vec![hook(&server, "all", json!({ "rules": rules }))],
    )
    .await;
    assert_eq!(client.json("POST", MAPS, &map("a")).await.code, 201);
    let options = json!({ "gracePeriodSeconds": 5, "propagationPolicy": "Background" });
    let kept = client.json("DELETE", &format!("{MAPS}/a"), &options).await;
    assert_eq!(
        (kept.code, kept.json()["message"].as_str().unwrap()),
        (400, "admission webhook \"all.example.com\" denied the request: keep it")
    );
    let review = server.seen.lock().last().unwrap().1["request"].clone();
    assert_eq!((&review["operation"], &review["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!(review["oldObject"]["data"]["a"], "1");
    let sent = json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 5, "propagationPolicy": "Background" });
    assert_eq!(review["options"], sent);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let spec = json!({ "replicas": 1, "selector": { "matchLabels": { "a": "b" } }, "template": template });
    let made = client.json("POST", deployments, &json!({ "metadata": { "name": "d" }, "spec": spec })).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let merge = [("content-type", "application/merge-patch+json")];
    let scaled =
        client.send("PATCH", &format!("{deployments}/d/scale"), &merge, r#"{"spec":{"replicas":3}}"#).await;
    assert_eq!(scaled.code, 200, "{}", scaled.text());
    let review = server.seen.lock().last().unwrap().1["request"].clone();
    assert_eq!(review["kind"], json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" }));
    assert_eq!((&review["subResource"], &review["object"]["spec"]["replicas"]), (&json!("scale"), &json!(3)));
    assert_eq!(
        (&review["oldObject"]["spec"]["replicas"], &review["options"]["kind"]),
        (&json!(1), &json!("PatchOptions"))
    );
    let log = cluster.cluster.state_dir.logs().join("audit.log");
    let line = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains(r#""all.example.com/k":"v""#));
    support::raw::wait_for("an audit line with the webhook's annotation", line).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_called_at_its_endpoints_by_its_own_name() {
    let behaviour: Behaviour = Arc::new(|_, request| {
        patch(request, json!([{ "op": "add", "path": "/data/by", "value": "service" }]))
    });
    let (_cluster, mut client, server) = begin(&["hook.default.svc"], behaviour).await;
    let service = json!({ "metadata": { "name": "hook" }, "spec": { "ports": [{ "port": 443, "targetPort": server.port }] } });
    assert_eq!(client.json("POST", "/api/v1/namespaces/default/services", &service).await.code, 201);
    let place = json!({ "service": { "namespace": "default", "name": "hook", "path": "/m" }, "caBundle": server.ca_bundle });
    let hooks = vec![hook(&server, "m", json!({ "clientConfig": place }))];
    configure(&mut client, "MutatingWebhookConfiguration", "m", hooks).await;
    let nobody = client.json("POST", MAPS, &map("a")).await;
    let text = "Internal error occurred: failed calling webhook \"m.example.com\": failed to call webhook: Post \"https://hook.default.svc:443/m?timeout=10s\": no endpoints available for service \"hook\"";
    assert_eq!(nobody.json()["message"], text);
    // Loopback is no address of an endpoint, so the Service names the machine.
    let alias = json!({ "spec": { "type": "ExternalName", "externalName": "localhost", "ports": null, "clusterIP": null, "clusterIPs": null } });
    let merge = [("content-type", "application/merge-patch+json")];
    let named =
        client.send("PATCH", "/api/v1/namespaces/default/services/hook", &merge, alias.to_string()).await;
    assert_eq!(named.code, 200, "{}", named.text());
    client.get("/api/v1/namespaces/default/services").await;
    let place =
        json!([{ "op": "replace", "path": "/webhooks/0/clientConfig/service/port", "value": server.port }]);
    let json_patch = [("content-type", "application/json-patch+json")];
    let path = format!("{HOOKS}/mutatingwebhookconfigurations");
    let moved = client.send("PATCH", &format!("{path}/m"), &json_patch, place.to_string()).await;
    assert_eq!(moved.code, 200, "{}", moved.text());
    client.get(&path).await;
    let made = client.json("POST", MAPS, &map("a")).await;
    assert_eq!(made.json()["data"]["by"], "service", "{}", made.text());
}
