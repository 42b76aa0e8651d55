use serde_json::json;

use super::*;

fn options() -> TableOptions {
    TableOptions {
        api_version: "meta.k8s.io/v1".into(),
        include_object: IncludeObject::Metadata,
        no_headers: false,
        now: "2024-01-01T01:00:00Z".parse().expect("a time"),
        columns: None,
    }
}

fn cells_of(group: &str, kind: &str, object: &Value) -> Vec<Value> {
    let table = render_table(group, kind, &[object], json!({}), &options());
    table["rows"][0]["cells"].as_array().expect("cells").clone()
}

#[test]
fn a_crashing_pod_says_so() {
    let pod = json!({
        "metadata": { "name": "p", "creationTimestamp": "2024-01-01T00:00:00Z" },
        "spec": { "containers": [{ "name": "c" }] },
        "status": { "phase": "Running", "containerStatuses": [{
            "name": "c", "restartCount": 4, "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": { "finishedAt": "2024-01-01T00:55:00Z" } }
        }] },
    });
    assert_eq!(
        cells_of("", "Pod", &pod)[..5],
        [json!("p"), json!("0/1"), json!("CrashLoopBackOff"), json!("4 (5m ago)"), json!("60m")]
    );
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    for info in crate::registry::all() {
        let printer = printer_for(info.group, info.kind);
        let empty = json!({ "metadata": { "name": "x" } });
        assert_eq!((printer.row)(&empty, options().now).len(), printer.columns.len(), "{}", info.kind);
    }
}

#[test]
fn a_kind_without_a_printer_shows_its_creation() {
    let role = json!({ "metadata": { "name": "r", "creationTimestamp": "2024-01-01T00:00:00Z" } });
    assert_eq!(
        cells_of("rbac.authorization.k8s.io", "Role", &role),
        [json!("r"), json!("2024-01-01T00:00:00Z")]
    );
}
