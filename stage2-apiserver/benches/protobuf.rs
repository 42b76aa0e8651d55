//! What a pod costs in JSON and in protobuf, read and written. `cargo bench -p stage2-apiserver --bench protobuf`.

use divan::{Bencher, black_box};
use serde_json::{Value, json};
use stage1_kubectl::resource::GroupVersionKind;
use stage2_apiserver::decode::{FieldValidation, decode_body};
use stage2_apiserver::negotiation::BodyFormat;
use stage2_apiserver::protobuf;

fn main() {
    divan::main();
}

/// A pod as a Deployment makes it, with its status: about 2 KiB of JSON.
fn pod() -> Value {
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10});
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example/web:1.2.3", "imagePullPolicy": "IfNotPresent",
            "env": [{"name": "A", "value": "1"}, {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "ports": [{"containerPort": 8080, "protocol": "TCP"}], "readinessProbe": probe,
            "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
            "volumeMounts": [{"mountPath": "/etc/config", "name": "config", "readOnly": true}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    };
    let condition = |name: &str| json!({"type": name, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-5d78c9869d-7xk2p", "namespace": "default", "uid": "1f3c2c5e-7d5b-4a63-a7c0-6a2f6d0d3a11",
            "resourceVersion": "12345", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "5d78c9869d"},
        },
        "spec": {
            "containers": [container("web"), container("sidecar")], "nodeName": "node-1", "restartPolicy": "Always",
            "volumes": [{"name": "config", "configMap": {"name": "web", "defaultMode": 420}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {
            "phase": "Running", "podIP": "10.244.0.7", "podIPs": [{"ip": "10.244.0.7"}], "hostIP": "10.210.0.11",
            "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
        },
    })
}

fn read(bencher: Bencher, body: Vec<u8>, format: BodyFormat) {
    let gvk = GroupVersionKind::new("", "v1", "Pod");
    bencher
        .counter(divan::counter::BytesCount::new(body.len()))
        .bench(|| decode_body(black_box(&body), format, &gvk, FieldValidation::Warn).expect("a pod"));
}

/// A POST's body, as far as the object.
#[divan::bench]
fn read_json(bencher: Bencher) {
    read(bencher, pod().to_string().into_bytes(), BodyFormat::Json);
}

#[divan::bench]
fn read_protobuf(bencher: Bencher) {
    read(bencher, protobuf::encode_object(&pod()).expect("a pod"), BodyFormat::Protobuf);
}

/// An object as the watch cache encodes it, once.
#[divan::bench]
fn write_json(bencher: Bencher) {
    let pod = pod();
    bencher.bench(|| serde_json::to_vec(black_box(&pod)).expect("JSON"));
}

#[divan::bench]
fn write_protobuf(bencher: Bencher) {
    let pod = pod();
    bencher.bench(|| protobuf::encode_object(black_box(&pod)).expect("a message"));
}
