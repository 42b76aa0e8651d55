//! Server-side apply over HTTPS: subresources, versions, rights, and stock kubectl's own commands.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test: runs kubectl")]

mod support {
    pub mod raw;
}

use std::path::PathBuf;

use serde_json::{Value, json};
use stage2_apiserver::pki::Identity;
use support::raw::{Answer, Raw, cluster};

const APPLY: &str = "application/apply-patch+yaml";

async fn apply(client: &mut Raw, path: &str, body: &Value) -> Answer {
    client.send("PATCH", path, &[("content-type", APPLY)], body.to_string()).await
}

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "a": "d" } },
            "template": {
                "metadata": { "labels": { "a": "d" } },
                "spec": { "containers": [{ "name": "c", "image": "nginx" }] },
            },
        },
    })
}

/// manager, operation, subresource → fieldsV1.
fn owner(object: &Value, manager: &str, subresource: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let same = |e: &&Value| e["manager"] == manager && e["subresource"].as_str().unwrap_or("") == subresource;
    entries.iter().find(same).map(|e| e["fieldsV1"].clone()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn scale_and_status_are_booked_and_applied_by_themselves() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    let created = apply(&mut client, &format!("{path}?fieldManager=me"), &deployment(1)).await;
    assert_eq!(created.code, 201, "{}", created.text());
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "d" }, "spec": { "replicas": 4 },
    });
    let put = client.json("PUT", &format!("{path}/scale?fieldManager=scaler"), &scale).await;
    assert_eq!(put.code, 200, "{}", put.text());
    let object = client.get(path).await.json();
    assert_eq!(owner(&object, "scaler", "scale"), json!({ "f:spec": { "f:replicas": {} } }));
    assert_eq!(owner(&object, "me", "")["f:spec"].get("f:replicas"), None);
    let mut other = scale.clone();
    other["spec"]["replicas"] = json!(5);
    let refused = apply(&mut client, &format!("{path}/scale?fieldManager=hpa"), &other).await;
    let conflict = "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" using autoscaling/v1: .spec.replicas";
    assert_eq!(refused.json()["message"], conflict);
    let forced = apply(&mut client, &format!("{path}/scale?fieldManager=hpa&force=true"), &other).await;
    assert_eq!(forced.json()["spec"]["replicas"], 5, "{}", forced.text());
    let status = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
        "spec": { "replicas": 9 }, "status": { "observedGeneration": 3 },
    });
    let applied = apply(&mut client, &format!("{path}/status?fieldManager=ctl"), &status).await.json();
    assert_eq!(applied["status"]["observedGeneration"], 3);
    assert_eq!(applied["spec"]["replicas"], 5);
    assert_eq!(owner(&applied, "ctl", "status"), json!({ "f:status": { "f:observedGeneration": {} } }));
    assert_eq!(owner(&applied, "hpa", "scale"), json!({ "f:spec": { "f:replicas": {} } }));
    let missing = apply(&mut client, &format!("{path}ifferent/status?fieldManager=ctl"), &status).await;
    assert_eq!(missing.code, 404, "{}", missing.text());
    cluster.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_list_in_a_put_empties_the_books() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({ "metadata": { "name": "m" }, "data": { "a": "1" } });
    let mut object = client.json("POST", maps, &map).await.json();
    assert_ne!(owner(&object, "oracle", ""), Value::Null);
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    let kept = client.json("PUT", &format!("{maps}/m"), &object).await.json();
    assert_ne!(owner(&kept, "oracle", ""), Value::Null, "{kept}");
    object["metadata"]["managedFields"] = json!([]);
    let emptied = client.json("PUT", &format!("{maps}/m"), &object).await.json();
    assert_eq!(emptied["metadata"].get("managedFields"), None, "{emptied}");
    cluster.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sending_an_object_back_as_it_was_read_changes_nothing() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }], "automountServiceAccountToken": false },
    });
    assert_eq!(client.json("POST", pods, &pod).await.code, 201);
    let path = format!("{pods}/p");
    let mut running = client.get(&path).await.json();
    assert!(owner(&running, "oracle", "")["f:spec"].is_object(), "{running}");
    running["status"]["phase"] = json!("Running");
    let status = format!("{path}/status?fieldManager=kubelet");
    let written = client.json("PUT", &status, &running).await.json();
    assert_eq!(owner(&written, "kubelet", "status"), json!({ "f:status": { "f:phase": {} } }));
    assert_ne!(written["metadata"]["resourceVersion"], running["metadata"]["resourceVersion"]);
    for same in [&path, &format!("{path}?fieldManager=other"), &status] {
        assert_eq!(client.json("PUT", same, &written).await.json(), written, "{same}");
    }
    // Nor does a client that knows no books lose them.
    let mut bookless = written.clone();
    bookless["metadata"].as_object_mut().unwrap().remove("managedFields");
    for same in [&path, &status] {
        assert_eq!(client.json("PUT", same, &bookless).await.json(), written, "{same}");
    }
    let empty = json!({ "metadata": { "labels": {} } });
    let patched = client
        .send(
            "PATCH",
            &format!("{path}?fieldManager=other"),
            &[("content-type", "application/merge-patch+json")],
            empty.to_string(),
        )
        .await;
    assert_eq!(patched.json(), written);
    cluster.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_that_speak_different_versions_share_an_autoscaler() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let path = |version: &str, manager: &str| {
        format!(
            "/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/h?fieldManager={manager}"
        )
    };
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" });
    let v1 = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "h" },
        "spec": { "maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 50 },
    });
    let created = apply(&mut client, &path("v1", "one"), &v1).await;
    assert_eq!(created.code, 201, "{}", created.text());
    let v2 = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "h" },
        "spec": { "maxReplicas": 4 },
    });
    let refused = apply(&mut client, &path("v2", "two"), &v2).await;
    assert_eq!(
        refused.json()["message"],
        "Apply failed with 1 conflict: conflict with \"one\": .spec.maxReplicas"
    );
    let forced = apply(&mut client, &format!("{}&force=true", path("v2", "two")), &v2).await.json();
    let kept = &owner(&forced, "one", "")["f:spec"];
    assert_eq!(kept, &json!({ "f:scaleTargetRef": {}, "f:targetCPUUtilizationPercentage": {} }));
    assert_eq!(forced["spec"]["maxReplicas"], 4);
    assert_eq!(forced["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    cluster.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_create_may_not_create_by_applying() {
    let cluster = cluster().await;
    let mut admin = Raw::admin(&cluster);
    let role = json!({
        "metadata": { "name": "patcher" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"] }],
    });
    admin.json("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
    let binding = json!({
        "metadata": { "name": "patcher" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "patcher" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane" }],
    });
    admin.json("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
    let jane = cluster.cluster.pki().client("jane", &Identity::new("jane", &[])).unwrap();
    let mut jane = Raw::with_identity(&cluster, Some((jane.certificate_pem, jane.key_pem)));
    let path = "/api/v1/namespaces/default/configmaps/x?fieldManager=jane";
    let map =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" }, "data": { "a": "1" } });
    // Until the authorizer has heard of the binding, she can't even patch.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let refused = loop {
        let refused = apply(&mut jane, path, &map).await;
        if !refused.text().contains("cannot patch resource") || std::time::Instant::now() > deadline {
            break refused;
        }
    };
    assert_eq!(refused.code, 403, "{}", refused.text());
    assert!(refused.text().contains("cannot create resource"), "{}", refused.text());
    assert_eq!(apply(&mut admin, &path.replace("=jane", "=admin"), &map).await.code, 201);
    assert_eq!(apply(&mut jane, path, &map).await.code, 200);
    cluster.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_there_twice_is_warned_of_or_refused() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let path = "/api/v1/namespaces/default/configmaps/x?fieldManager=m";
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: '1'\n  a: '2'\n";
    let strict = format!("{path}&fieldValidation=Strict");
    let refused = client.send("PATCH", &strict, &[("content-type", APPLY)], body).await;
    assert_eq!(refused.code, 400);
    let told = "yaml: unmarshal errors:\n  line 6: key \"a\" already set in map";
    let message = format!("error strict decoding YAML: error converting YAML to JSON: {told}");
    assert_eq!(refused.json()["message"], message);
    let warned = client.send("PATCH", path, &[("content-type", APPLY)], body).await;
    assert_eq!(warned.json()["data"]["a"], "2");
    assert_eq!(warned.header("warning"), r#"299 - "line 6: key \"a\" already set in map""#);
    cluster.cluster.stop().await;
}

/// kubectl 1.32, if it is there.
fn kubectl_program() -> Option<PathBuf> {
    let named = std::env::var_os("STAGES_STOCK_KUBECTL").unwrap_or_default();
    let found = std::env::split_paths(&named).find(|p| p.is_file() && p.to_string_lossy().contains("1.32"));
    if found.is_none() {
        println!("skipped: no kubectl 1.32");
    }
    found
}

const MANIFEST: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: shared}
data: {a: '1', b: '1'}
";

#[tokio::test(flavor = "multi_thread")]
async fn stock_kubectl_applies_on_the_server_and_migrates_from_its_own_past() {
    let Some(program) = kubectl_program() else { return };
    let cluster = cluster().await;
    let kubeconfig = cluster.cluster.kubeconfig("admin").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("all.yaml");
    let run = async |arguments: &[&str], manifest: &str| {
        std::fs::write(&file, manifest).unwrap();
        let mut command = tokio::process::Command::new(&program);
        command.args(arguments).env("KUBECONFIG", &kubeconfig).env("HOME", directory.path());
        if !manifest.is_empty() {
            command.arg("-f").arg(&file);
        }
        let output = command.output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (_, said, error) = run(&["apply"], MANIFEST).await;
    assert_eq!(said, "configmap/shared created\n", "{error}");
    let changed = MANIFEST.replace("b: '1'", "b: '2'");
    let (code, difference, error) = run(&["diff", "--server-side"], &changed).await;
    assert_eq!(code, Some(1), "{error}");
    assert!(difference.contains("+  b: \"2\""), "{difference}");
    let (_, said, error) = run(&["apply", "--server-side"], &changed).await;
    assert_eq!(said, "configmap/shared serverside-applied\n", "{error}");
    let shown = ["get", "configmap", "shared", "-o", "json", "--show-managed-fields"];
    let object: Value = serde_json::from_str(&run(&shown, "").await.1).unwrap();
    let owned = owner(&object, "kubectl", "");
    assert!(owned["f:data"].get("f:b").is_some(), "{owned}");
    assert_eq!(owner(&object, "kubectl-client-side-apply", ""), Value::Null);
    let less = MANIFEST.replace(", b: '1'", "");
    run(&["apply", "--server-side"], &less).await;
    let object: Value = serde_json::from_str(&run(&shown, "").await.1).unwrap();
    assert_eq!(object["data"], json!({ "a": "1" }));
    let (_, said, error) = run(
        &["apply", "--server-side", "--field-manager=rival"],
        MANIFEST.replace("a: '1'", "a: '9'").as_str(),
    )
    .await;
    assert_eq!(said, "");
    assert!(error.contains("Apply failed with 1 conflict: conflict with \"kubectl\": .data.a"), "{error}");
    let forced = ["apply", "--server-side", "--field-manager=rival", "--force-conflicts"];
    let (_, said, error) = run(&forced, MANIFEST.replace("a: '1'", "a: '9'").as_str()).await;
    assert_eq!(said, "configmap/shared serverside-applied\n", "{error}");
    cluster.cluster.stop().await;
}
