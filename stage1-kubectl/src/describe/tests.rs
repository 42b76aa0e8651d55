use serde_json::{Value, json};

use super::*;
use expect_test::expect;

fn page(object: Value, lists: &[(&str, Vec<Value>)]) -> String {
    let object = Object::from_value(object).unwrap();
    let mut answers = Answers::default();
    for (resource, items) in lists {
        let items = items.iter().map(|item| Object::from_value(item.clone()).unwrap()).collect();
        answers.add(&Query::new("", "v1", resource, None), items);
    }
    render(&object, &answers, true, "2024-01-01T01:00:00Z".parse().unwrap())
}

#[test]
fn a_secret_shows_sizes_and_no_values() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
        "type": "Opaque", "data": {"pw": "c2VjcmV0"}});
    let page = page(secret, &[]);
    assert!(!page.contains("c2VjcmV0") && !page.contains("secret\n"), "{page}");
    expect![[r#"
        Name:         s
        Namespace:    default
        Labels:       <none>
        Annotations:  <none>

        Type:  Opaque

        Data
        ====
        pw:  6 bytes
    "#]]
    .assert_eq(&page);
}

#[test]
fn a_service_names_three_endpoints_and_counts_the_rest() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.7", "type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}});
    let endpoint = |last: u8, ready: bool| json!({"addresses": [format!("10.0.0.{last}")], "conditions": {"ready": ready}});
    let endpoints: Vec<Value> = (1..=5).map(|last| endpoint(last, last != 2)).collect();
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "web-x"},
        "ports": [{"name": "", "port": 80}], "endpoints": endpoints});
    let page = page(service, &[("endpointslices", vec![slice])]);
    assert!(page.contains("Endpoints:         10.0.0.1:80,10.0.0.3:80,10.0.0.4:80 + 1 more...\n"), "{page}");
}

#[test]
fn events_tell_how_often_and_since_when() {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Warning", "reason": "BackOff",
        "message": "Back-off\n", "count": 4, "firstTimestamp": "2024-01-01T00:58:00Z", "lastTimestamp": "2024-01-01T00:59:57Z",
        "source": {"component": "kubelet"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}});
    let page = page(pod, &[("events", vec![event])]);
    expect![[r#"
        Events:
          Type     Reason   Age              From     Message
          ----     ------   ----             ----     -------
          Warning  BackOff  3s (x4 over 2m)  kubelet  Back-off
    "#]]
    .assert_eq(&page[page.find("Events:").unwrap()..]);
}

#[test]
fn the_events_of_a_node_are_asked_for_in_the_default_namespace() {
    let node = Object::from_value(
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}}),
    )
    .unwrap();
    let query = plan(&node, true).pop().unwrap();
    assert_eq!(query.namespace.as_deref(), Some("default"));
    assert_eq!(query.field_selector, "involvedObject.name=n");
}

#[test]
fn an_object_of_any_kind_is_described_by_its_fields() {
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "uid": "1"},
        "spec": {"maxIPs": 3, "parts": [{"name": "a"}, "b"]}});
    expect![[r#"
        Name:         w
        Namespace:    
        Labels:       <none>
        Annotations:  <none>
        API Version:  example.com/v1
        Kind:         Widget
        Metadata:
          UID:  1
        Spec:
          Max I Ps:  3
          Parts:
            Name:  a
            b
        Events:  <none>
    "#]]
    .assert_eq(&page(widget, &[]));
}

#[test]
fn equal_resources_of_a_role_are_one_line_with_all_verbs() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]}]});
    assert!(
        page(role, &[])
            .contains("  deployments.apps/scale  []                 []              [get patch]\n")
    );
}

#[test]
fn what_a_quota_counts_is_shown_in_the_form_of_its_limit() {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
        "status": {"hard": {"a": "1.5Ki", "b": "2G", "c": "10"}, "used": {"a": "2048", "b": "1Gi", "c": "3"}}});
    let page = page(quota, &[]);
    let cells = |name: &str| -> Vec<String> {
        let line = page.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().map(String::from).collect()
    };
    assert_eq!(cells("a "), ["a", "2Ki", "1536"], "{page}");
    assert_eq!(cells("b "), ["b", "1073741824", "2G"]);
    assert_eq!(cells("c "), ["c", "3", "10"]);
}

#[test]
fn a_part_of_a_byte_is_a_whole_one_in_shares() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"ephemeral-storage": "2", "cpu": "500m"}}}]},
        "status": {"phase": "Running"}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1500m", "ephemeral-storage": "300m"}}});
    let page = page(node, &[("pods", vec![pod])]);
    assert!(page.contains("ephemeral-storage  2 (200%)"), "{page}");
    assert!(page.contains("cpu                500m (33%)"), "{page}");
}
