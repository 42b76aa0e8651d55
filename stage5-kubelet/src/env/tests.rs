use serde_json::json;

use super::*;

fn pod(container: serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "x\"y"}},
        "spec": {"nodeName": "node-a", "containers": [container]},
    }))
    .unwrap()
}

fn sources() -> EnvSources {
    EnvSources {
        config_maps: BTreeMap::from([(
            "cm".to_owned(),
            serde_json::from_value(json!({"data": {"E": "fromcm", "A": "loses"}})).unwrap(),
        )]),
        services: vec![
            serde_json::from_value(json!({"metadata": {"name": "kubernetes", "namespace": "default"},
                "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP"}]}}))
            .unwrap(),
        ],
        allocatable: BTreeMap::from([("memory".to_owned(), Quantity("24Gi".to_owned()))]),
        pod_ips: vec!["10.1.1.1".to_owned()],
        ..EnvSources::default()
    }
}

fn make(container: serde_json::Value) -> Result<BTreeMap<String, String>, EnvError> {
    let pod = pod(container);
    make_environment(&pod, &pod.containers()[0], &sources())
}

#[test]
fn later_layers_win_and_references_see_what_was_defined_before() {
    let env = make(json!({"name": "c",
    "envFrom": [{"configMapRef": {"name": "cm"}}, {"prefix": "P_", "configMapRef": {"name": "cm"}}],
    "env": [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(LATE)-$$(A)"},
        {"name": "C", "value": "$(KUBERNETES_SERVICE_HOST):$(E)"},
        {"name": "LATE", "value": "z"},
        {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "M", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]}))
    .unwrap();
    let get = |k: &str| env[k].as_str();
    assert_eq!(get("B"), "1-$(LATE)-$(A)");
    assert_eq!(get("C"), "10.96.0.1:fromcm");
    assert_eq!(get("P_A"), "loses");
    assert_eq!(get("N"), "x\"y");
    assert_eq!(get("IP"), "10.1.1.1");
    assert_eq!(get("M"), "24576");
    assert_eq!(get("KUBERNETES_PORT_443_TCP"), "tcp://10.96.0.1:443");
}

#[test]
fn missing_objects_and_keys_have_the_words_users_know() {
    let key_ref = |kind: &str, name: &str, optional: bool| {
        make(json!({"name": "c", "env": [{"name": "A", "valueFrom":
            {kind: {"name": name, "key": "nokey", "optional": optional}}}]}))
    };
    let text = |r: Result<_, EnvError>| r.unwrap_err().to_string();
    assert_eq!(text(key_ref("configMapKeyRef", "cm", false)), "couldn't find key nokey in ConfigMap ns/cm");
    assert_eq!(text(key_ref("configMapKeyRef", "no", false)), "configmap \"no\" not found");
    assert_eq!(text(key_ref("secretKeyRef", "no", false)), "secret \"no\" not found");
    assert!(!key_ref("secretKeyRef", "no", true).unwrap().contains_key("A"));
}
