//! Zero values: what Go prints of a typed object although nobody set it.
//!
//! *Step 1 of a pod's journey*, where kubectl makes an object itself (`run`, `create deployment`, `set image --local`). Its
//! Go structs mark most fields "omit when empty", but not all: every typed object has a `creationTimestamp: null`, every
//! container `resources: {}`, every Deployment `strategy: {}` and `status: {}`. People have these lines in their files,
//! so we print them too. Objects that were only read (`get`, `apply`) are never touched.
//!
//! The types are a table: each names the fields that are always printed, and those that lead to types with such fields.
//!
//! # Invariants
//! 1. A field that is set is never changed; a null goes, unless Go prints it.
//! 2. Filling twice is the same as filling once.
//!
//! # In Kubernetes
//! The `json` tags in `staging/src/k8s.io/api/*/v1/types.go`. Left out: kinds that kubectl doesn't make.

use serde_json::{Map, Value, json};

/// How a field of a struct is printed.
#[derive(Debug, Clone, Copy)]
enum Field {
    /// `null` when it isn't set.
    Null,
    /// `0`.
    Zero,
    /// `""`.
    Text,
    /// A struct: printed even when nothing in it is set.
    Struct(&'static str),
    /// A struct behind a pointer: printed when it is set.
    Pointer(&'static str),
    /// A list: printed when it has elements.
    List(&'static str),
    /// A list that is `null` when it isn't set.
    NullList(&'static str),
}

use Field::{List, Null, NullList, Pointer, Struct, Text, Zero};

type Fields = &'static [(&'static str, Field)];

const METADATA: (&str, Field) = ("metadata", Struct("ObjectMeta"));
const PLAIN: Fields = &[METADATA];

// ANCHOR: zero-values
/// The fields of a type that matter here; kinds are types too.
fn fields(type_name: &str) -> Option<Fields> {
    Some(match type_name {
        "" => &[],
        "ObjectMeta" => &[("creationTimestamp", Null)],
        "ConfigMap" | "Secret" | "ServiceAccount" | "Endpoints" => PLAIN,
        "Pod" => &[METADATA, ("spec", Struct("PodSpec")), ("status", Struct(""))],
        "PodTemplateSpec" => &[METADATA, ("spec", Struct("PodSpec"))],
        "PodSpec" => &[
            ("containers", NullList("Container")),
            ("initContainers", List("Container")),
            ("ephemeralContainers", List("Container")),
        ],
        "Container" => &[("name", Text), ("resources", Struct("")), ("ports", List("ContainerPort"))],
        "ContainerPort" => &[("containerPort", Zero)],
        "Deployment" => &[METADATA, ("spec", Struct("DeploymentSpec")), ("status", Struct(""))],
        "DeploymentSpec" => {
            &[("selector", Null), ("strategy", Struct("")), ("template", Struct("PodTemplateSpec"))]
        }
        "ReplicaSet" => &[METADATA, ("spec", Struct("ReplicaSetSpec")), ("status", Struct("ReplicasStatus"))],
        "ReplicaSetSpec" => &[("selector", Null), ("template", Struct("PodTemplateSpec"))],
        "ReplicationController" => {
            &[METADATA, ("spec", Struct("ControllerSpec")), ("status", Struct("ReplicasStatus"))]
        }
        "ControllerSpec" => &[("template", Pointer("PodTemplateSpec"))],
        "ReplicasStatus" => &[("replicas", Zero)],
        "DaemonSet" => &[METADATA, ("spec", Struct("DaemonSetSpec")), ("status", Struct("DaemonSetStatus"))],
        "DaemonSetSpec" => {
            &[("selector", Null), ("template", Struct("PodTemplateSpec")), ("updateStrategy", Struct(""))]
        }
        "DaemonSetStatus" => &[
            ("currentNumberScheduled", Zero),
            ("desiredNumberScheduled", Zero),
            ("numberMisscheduled", Zero),
            ("numberReady", Zero),
        ],
        "StatefulSet" => {
            &[METADATA, ("spec", Struct("StatefulSetSpec")), ("status", Struct("StatefulStatus"))]
        }
        "StatefulSetSpec" => &[
            ("selector", Null),
            ("serviceName", Text),
            ("template", Struct("PodTemplateSpec")),
            ("updateStrategy", Struct("")),
            ("volumeClaimTemplates", List("PersistentVolumeClaim")),
        ],
        "StatefulStatus" => &[("availableReplicas", Zero), ("replicas", Zero)],
        "Job" => &[METADATA, ("spec", Struct("JobSpec")), ("status", Struct(""))],
        "JobSpec" => &[("template", Struct("PodTemplateSpec"))],
        "CronJob" => &[METADATA, ("spec", Struct("CronJobSpec")), ("status", Struct(""))],
        "CronJobSpec" => &[("jobTemplate", Struct("JobTemplateSpec")), ("schedule", Text)],
        "JobTemplateSpec" => &[METADATA, ("spec", Struct("JobSpec"))],
        other => return fields_of_the_rest(other),
    })
}
// ANCHOR_END: zero-values

/// Kinds without pods.
fn fields_of_the_rest(type_name: &str) -> Option<Fields> {
    Some(match type_name {
        "Namespace" | "ResourceQuota" | "PersistentVolume" => {
            &[METADATA, ("spec", Struct("")), ("status", Struct(""))]
        }
        "PersistentVolumeClaim" => &[METADATA, ("spec", Struct("ClaimSpec")), ("status", Struct(""))],
        "ClaimSpec" => &[("resources", Struct(""))],
        "Service" => &[METADATA, ("spec", Struct("ServiceSpec")), ("status", Struct("BalancerStatus"))],
        "ServiceSpec" => &[("ports", List("ServicePort"))],
        "ServicePort" => &[("port", Zero), ("targetPort", Zero)],
        "BalancerStatus" => &[("loadBalancer", Struct(""))],
        "Ingress" => &[METADATA, ("spec", Struct("")), ("status", Struct("BalancerStatus"))],
        "NetworkPolicy" => &[METADATA, ("spec", Struct("NetworkPolicySpec"))],
        "NetworkPolicySpec" => &[("podSelector", Struct(""))],
        "PodDisruptionBudget" => &[METADATA, ("spec", Struct("")), ("status", Struct("BudgetStatus"))],
        "BudgetStatus" => &[
            ("currentHealthy", Zero),
            ("desiredHealthy", Zero),
            ("disruptionsAllowed", Zero),
            ("expectedPods", Zero),
        ],
        "PriorityClass" => &[METADATA, ("value", Zero)],
        "Role" | "ClusterRole" => &[METADATA, ("rules", NullList("PolicyRule"))],
        "PolicyRule" => &[("verbs", Null)],
        "RoleBinding" | "ClusterRoleBinding" => &[METADATA, ("roleRef", Struct("RoleRef"))],
        "RoleRef" => &[("apiGroup", Text), ("kind", Text), ("name", Text)],
        _ => return None,
    })
}

/// Makes an object look as if Go had printed it from its struct. Kinds that aren't built in stay as they are.
pub fn fill(object: &mut Value) {
    if object["kind"] == "List" {
        return object["items"].as_array_mut().into_iter().flatten().for_each(fill);
    }
    let kind = object["kind"].as_str().unwrap_or_default().to_string();
    if fields(&kind).is_some() && !kind.is_empty() {
        fill_type(object, &kind);
    }
}

/// The same for a part: `PodTemplateSpec`.
pub fn fill_type(value: &mut Value, type_name: &str) {
    drop_nulls(value);
    fill_struct(value, type_name);
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn fill_struct(value: &mut Value, type_name: &str) {
    let Value::Object(map) = value else { return };
    for (name, field) in fields(type_name).unwrap_or_default() {
        fill_field(map, name, *field);
    }
}

fn fill_field(map: &mut Map<String, Value>, name: &str, field: Field) {
    let zero = match field {
        Null | NullList(_) => Some(Value::Null),
        Zero => Some(json!(0)),
        Text => Some(json!("")),
        Struct(_) => Some(json!({})),
        Pointer(_) | List(_) => None,
    };
    if let Some(zero) = zero {
        map.entry(name).or_insert(zero);
    }
    match (field, map.get_mut(name)) {
        (Struct(inner) | Pointer(inner), Some(value)) => fill_struct(value, inner),
        (List(inner) | NullList(inner), Some(Value::Array(items))) => {
            items.iter_mut().for_each(|item| fill_struct(item, inner));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_gets_what_go_prints() {
        let mut object = json!({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": null,
            "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}});
        fill(&mut object);
        let wanted = json!({
            "kind": "Deployment", "metadata": {"name": "web", "creationTimestamp": null}, "status": {},
            "spec": {"selector": null, "strategy": {}, "template": {"metadata": {"creationTimestamp": null},
                "spec": {"containers": [{"name": "a", "image": "b", "resources": {}}]}}},
        });
        assert_eq!(object, wanted);
    }

    #[test]
    fn invariant_2_filling_twice_is_filling_once() {
        let mut once = json!({"kind": "StatefulSet", "spec": {"volumeClaimTemplates": [{"spec": {}}]}});
        fill(&mut once);
        let mut twice = once.clone();
        fill(&mut twice);
        assert_eq!(once, twice);
        assert_eq!(once["spec"]["volumeClaimTemplates"][0]["spec"]["resources"], json!({}));
    }

    #[test]
    fn custom_kinds_stay_as_they_are() {
        let mut widget = json!({"kind": "Widget", "spec": {"a": null}});
        fill(&mut widget);
        assert_eq!(widget, json!({"kind": "Widget", "spec": {"a": null}}));
    }
}
