//! ValidatingAdmissionPolicies and match conditions against a running API server: refusals, warnings, notes, parameters, rights.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod support {
    pub mod raw;
    pub mod webhook;
}

use std::sync::Arc;

use serde_json::{Value, json};
use support::raw::{Answer, Raw, cluster, wait_for};
use support::webhook::{Behaviour, reply, start};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn make(client: &mut Raw, kind: &str, path: &str, name: &str, spec: Value) {
    let body = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    let made = client.json("POST", path, &body).await;
    assert_eq!(made.code, 201, "{}", made.text());
}

/// Makes a policy for ConfigMaps and binds it.
async fn bind(client: &mut Raw, name: &str, policy: Value, binding: Value) {
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"] }]);
    let mut spec = json!({ "matchConstraints": { "resourceRules": rules } });
    for (key, value) in policy.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let mut bound = json!({ "policyName": name, "validationActions": ["Deny"] });
    for (key, value) in binding.as_object().unwrap() {
        bound[key] = value.clone();
    }
    let path = format!("{GROUP}/validatingadmissionpolicies");
    make(client, "ValidatingAdmissionPolicy", &path, name, spec).await;
    make(
        client,
        "ValidatingAdmissionPolicyBinding",
        &format!("{GROUP}/validatingadmissionpolicybindings"),
        name,
        bound,
    )
    .await;
}

async fn create(client: &mut Raw, name: &str, data: Value) -> Answer {
    client.json("POST", MAPS, &json!({ "metadata": { "name": name }, "data": data })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_policy_refuses_creates_updates_and_deletions_in_its_words() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let policy = json!({
        "variables": [{ "name": "now", "expression": "object == null ? oldObject.data : object.data" }],
        "validations": [
            { "expression": "request.operation != 'DELETE' || !('keep' in variables.now)", "message": "it is kept", "reason": "Forbidden" },
            { "expression": "request.operation == 'DELETE' || variables.now.size() < 3",
              "messageExpression": "'it has ' + string(variables.now.size()) + ' entries'" },
        ],
    });
    bind(&mut client, "small", policy, json!({})).await;
    let many = create(&mut client, "a", json!({ "a": "1", "b": "2", "c": "3" })).await;
    let denied = "ValidatingAdmissionPolicy 'small' with binding 'small' denied request:";
    assert_eq!((many.code, many.json()["reason"].as_str().unwrap()), (422, "Invalid"));
    assert_eq!(many.json()["message"], format!("configmaps \"a\" is forbidden: {denied} it has 3 entries"));
    assert_eq!(
        many.json()["details"]["causes"],
        json!([{ "message": format!("{denied} it has 3 entries") }])
    );
    assert_eq!(create(&mut client, "a", json!({ "keep": "" })).await.code, 201);
    let merge = [("content-type", "application/merge-patch+json")];
    let more = client.send("PATCH", &format!("{MAPS}/a"), &merge, r#"{"data":{"b":"","c":""}}"#).await;
    assert_eq!(more.code, 422, "{}", more.text());
    let kept = client.json("DELETE", &format!("{MAPS}/a"), &json!({})).await;
    assert_eq!((kept.code, kept.json()["reason"].as_str().unwrap()), (403, "Forbidden"));
    assert_eq!(kept.json()["message"], format!("configmaps \"a\" is forbidden: {denied} it is kept"));
    // Without its binding a policy judges nothing.
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/small");
    assert_eq!(client.json("DELETE", &binding, &json!({})).await.code, 200);
    let gone = || async { Raw::admin(&cluster).json("DELETE", &format!("{MAPS}/a"), &json!({})).await.code };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while gone().await != 200 {
        assert!(std::time::Instant::now() < deadline, "the binding is gone, and the policy still judges");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_warns_and_notes_instead() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let policy = json!({
        "validations": [{ "expression": "object.data.a == '2'" }],
        "auditAnnotations": [{ "key": "was", "valueExpression": "'a was ' + object.data.a" }],
    });
    bind(&mut client, "look", policy, json!({ "validationActions": ["Warn", "Audit"] })).await;
    let made = create(&mut client, "a", json!({ "a": "1" })).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let warning = "299 - \"Validation failed for ValidatingAdmissionPolicy 'look' with binding 'look': failed expression: object.data.a == '2'\"";
    assert_eq!(made.header("warning"), warning);
    let log = cluster.cluster.state_dir.logs().join("audit.log");
    let noted = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let line = text.lines().find(|line| line.contains(r#""look/was":"a was 1""#)).map(str::to_owned);
        line.is_some_and(|line| line.contains("validation.policy.admission.k8s.io/validation_failure"))
    };
    wait_for("an audit line with what the policy says", noted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_custom_objects_of_the_requests_namespace() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let schema = json!({ "type": "object", "properties": { "most": { "type": "integer" } } });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "limits.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": "limits", "singular": "limit", "kind": "Limit" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }] },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.json("POST", path, &definition).await.code, 201);
    let policy = json!({
        "paramKind": { "apiVersion": "example.com/v1", "kind": "Limit" },
        "validations": [{ "expression": "object.data.size() <= params.most", "messageExpression": "'at most ' + string(params.most)" }],
    });
    let reference = json!({ "paramRef": { "selector": {}, "parameterNotFoundAction": "Deny" } });
    bind(&mut client, "limited", policy, reference).await;
    let nothing = create(&mut client, "a", json!({})).await;
    let text = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'limited' with binding 'limited' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(nothing.json()["message"], text);
    let limits = "/apis/example.com/v1/namespaces/default/limits";
    let limit =
        json!({ "apiVersion": "example.com/v1", "kind": "Limit", "metadata": { "name": "l" }, "most": 1 });
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while client.json("POST", limits, &limit).await.code != 201 {
        assert!(std::time::Instant::now() < deadline, "the kind isn't served");
    }
    client.get(limits).await;
    assert_eq!(create(&mut client, "a", json!({ "a": "" })).await.code, 201);
    let two = create(&mut client, "b", json!({ "a": "", "b": "" })).await;
    assert!(two.text().contains("denied request: at most 1"), "{}", two.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_decide_whether_a_webhook_is_called() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let behaviour: Behaviour = Arc::new(|_, request| reply(request, json!({ "allowed": false })));
    let server = start(&["127.0.0.1"], behaviour).await;
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }]);
    let conditions = json!([
        { "name": "marked", "expression": "object.data.a == 'ask'" },
        { "name": "may-write-secrets", "expression": "authorizer.group('').resource('secrets').namespace(request.namespace).check('create').allowed()" },
    ]);
    let hook = json!({
        "name": "w.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": rules, "matchConditions": conditions,
        "clientConfig": { "url": format!("https://127.0.0.1:{}/", server.port), "caBundle": server.ca_bundle },
    });
    let configuration = json!({ "metadata": { "name": "w" }, "webhooks": [hook] });
    let path = format!("{GROUP}/validatingwebhookconfigurations");
    assert_eq!(client.json("POST", &path, &configuration).await.code, 201);
    assert_eq!(create(&mut client, "a", json!({ "a": "no" })).await.code, 201);
    assert!(server.seen.lock().is_empty());
    let asked = create(&mut client, "b", json!({ "a": "ask" })).await;
    assert!(
        asked.text().contains("admission webhook \\\"w.example.com\\\" denied the request"),
        "{}",
        asked.text()
    );
    let broken = create(&mut client, "c", json!({ "b": "" })).await;
    let why = "configmaps \"c\" is forbidden: expression 'object.data.a == 'ask'' resulted in error: no such key: a";
    assert_eq!((broken.code, broken.json()["message"].as_str().unwrap()), (403, why));
    assert_eq!(server.seen.lock().len(), 1);
}
