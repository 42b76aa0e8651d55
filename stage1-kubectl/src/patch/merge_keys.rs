//! Merge keys: which lists are really maps, and by which key.
//!
//! In Kubernetes this knowledge sits in Go struct tags (`patchStrategy:"merge" patchMergeKey:"name"`). Here it is one
//! table: a row per field that is special, or that leads to one. A field without a row merges if it is a map and is
//! replaced if it is a list.
//!
//! # Invariants
//! 1. The table covers every tag of the built-in types of release 1.33.
//!
//! # In Kubernetes
//! The struct tags in `k8s.io/api/*/types.go`, read by `strategicpatch/meta.go`.

use crate::resource::GroupVersionKind;

/// How a field of a type is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldRule {
    /// The type of the field, or of the list's elements; `""` when nothing below it is special.
    pub type_name: &'static str,
    /// How the field itself merges.
    pub strategy: MergeStrategy,
    /// Whether a patch names all fields that stay (`$retainKeys`), for unions.
    pub retain_keys: bool,
}

/// How a field merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeStrategy {
    /// Maps merge field by field, lists are replaced.
    Default,
    /// Replaced as a whole, even a map.
    Replace,
    /// A list of maps merges by this key.
    MergeBy(&'static str),
    /// A list of scalars is a set.
    MergeSet,
}

/// A field without a row.
const PLAIN: FieldRule = FieldRule { type_name: "", strategy: MergeStrategy::Default, retain_keys: false };

const fn to(type_name: &'static str) -> FieldRule {
    FieldRule { type_name, ..PLAIN }
}

const fn by(key: &'static str, type_name: &'static str) -> FieldRule {
    FieldRule { type_name, strategy: MergeStrategy::MergeBy(key), retain_keys: false }
}

const fn union_by(key: &'static str, type_name: &'static str) -> FieldRule {
    FieldRule { retain_keys: true, ..by(key, type_name) }
}

const SET: FieldRule = FieldRule { strategy: MergeStrategy::MergeSet, ..PLAIN };
const REPLACE: FieldRule = FieldRule { strategy: MergeStrategy::Replace, ..PLAIN };
const UNION: FieldRule = FieldRule { retain_keys: true, ..PLAIN };

/// (type, field, rule). `spec` and `status` of a kind lead to `KindSpec` and `KindStatus` without a row.
const RULES: &[(&str, &str, FieldRule)] = &[
    ("ObjectMeta", "finalizers", SET),
    ("ObjectMeta", "ownerReferences", by("uid", "")),
    ("PodSpec", "containers", by("name", "Container")),
    ("PodSpec", "ephemeralContainers", by("name", "Container")),
    ("PodSpec", "hostAliases", by("ip", "")),
    ("PodSpec", "imagePullSecrets", by("name", "")),
    ("PodSpec", "initContainers", by("name", "Container")),
    ("PodSpec", "resourceClaims", union_by("name", "")),
    ("PodSpec", "schedulingGates", by("name", "")),
    ("PodSpec", "topologySpreadConstraints", by("topologyKey", "")),
    ("PodSpec", "volumes", union_by("name", "Volume")),
    ("Container", "env", by("name", "")),
    ("Container", "ports", by("containerPort", "")),
    ("Container", "volumeDevices", by("devicePath", "")),
    ("Container", "volumeMounts", by("mountPath", "")),
    ("ServiceSpec", "ports", by("port", "")),
    ("Volume", "ephemeral", to("EphemeralVolumeSource")),
    ("EphemeralVolumeSource", "volumeClaimTemplate", to("PersistentVolumeClaimTemplate")),
    ("PersistentVolumeClaimTemplate", "metadata", to("ObjectMeta")),
    ("PodTemplate", "template", to("PodTemplateSpec")),
    ("PodTemplateSpec", "metadata", to("ObjectMeta")),
    ("PodTemplateSpec", "spec", to("PodSpec")),
    ("PodStatus", "conditions", by("type", "")),
    ("PodStatus", "hostIPs", by("ip", "")),
    ("PodStatus", "podIPs", by("ip", "")),
    ("PodStatus", "resourceClaimStatuses", union_by("name", "")),
    ("DaemonSetSpec", "template", to("PodTemplateSpec")),
    ("DaemonSetStatus", "conditions", by("type", "")),
    ("DeploymentSpec", "strategy", UNION),
    ("DeploymentSpec", "template", to("PodTemplateSpec")),
    ("DeploymentStatus", "conditions", by("type", "")),
    ("ReplicaSetSpec", "template", to("PodTemplateSpec")),
    ("ReplicaSetStatus", "conditions", by("type", "")),
    ("ReplicationControllerSpec", "template", to("PodTemplateSpec")),
    ("ReplicationControllerStatus", "conditions", by("type", "")),
    ("StatefulSetSpec", "template", to("PodTemplateSpec")),
    ("StatefulSetStatus", "conditions", by("type", "")),
    ("JobSpec", "template", to("PodTemplateSpec")),
    ("JobStatus", "conditions", by("type", "")),
    ("CronJobSpec", "jobTemplate", to("JobTemplateSpec")),
    ("JobTemplateSpec", "metadata", to("ObjectMeta")),
    ("JobTemplateSpec", "spec", to("JobSpec")),
    ("NamespaceStatus", "conditions", by("type", "")),
    ("NodeSpec", "podCIDRs", SET),
    ("NodeStatus", "addresses", by("type", "")),
    ("NodeStatus", "conditions", by("type", "")),
    ("PersistentVolumeClaimStatus", "conditions", by("type", "")),
    ("ServiceAccount", "secrets", by("name", "")),
    ("ServiceStatus", "conditions", by("type", "")),
    ("ComponentStatus", "conditions", by("type", "")),
    ("HorizontalPodAutoscalerStatus", "conditions", by("type", "")),
    ("PodDisruptionBudgetSpec", "selector", REPLACE),
    ("PodDisruptionBudgetStatus", "conditions", by("type", "")),
    ("CSINodeSpec", "drivers", by("name", "")),
    ("FlowSchemaStatus", "conditions", by("type", "")),
    ("PriorityLevelConfigurationStatus", "conditions", by("type", "")),
    ("APIServiceStatus", "conditions", by("type", "")),
    ("MutatingWebhookConfiguration", "webhooks", by("name", "Webhook")),
    ("ValidatingWebhookConfiguration", "webhooks", by("name", "Webhook")),
    ("Webhook", "matchConditions", by("name", "")),
    ("ValidatingAdmissionPolicySpec", "matchConditions", by("name", "")),
    ("ValidatingAdmissionPolicySpec", "variables", by("name", "")),
    ("ResourceClaimStatus", "reservedFor", by("uid", "")),
];

/// The groups whose kinds are compiled into kubectl.
const BUILT_IN_GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Whether strategic merge patch knows the kind. Custom kinds take merge patches.
pub fn is_built_in(gvk: &GroupVersionKind) -> bool {
    BUILT_IN_GROUPS.contains(&gvk.group.as_str())
}

/// A place in an object: which type's fields stand here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema<'a> {
    /// The object itself.
    Kind(&'a str),
    /// `spec` or `status` of a kind.
    Part(&'a str, &'static str),
    /// A named type; `""` has no special fields.
    Type(&'static str),
}

impl<'a> Schema<'a> {
    /// The rule for a field that stands here, and the schema of what it holds.
    pub fn field(self, name: &str) -> (FieldRule, Schema<'a>) {
        let part = match self {
            Schema::Kind(_) if name == "metadata" => return (to("ObjectMeta"), Schema::Type("ObjectMeta")),
            Schema::Kind(kind) if name == "spec" => Some(Schema::Part(kind, "Spec")),
            Schema::Kind(kind) if name == "status" => Some(Schema::Part(kind, "Status")),
            _ => None,
        };
        if let Some(part) = part {
            return (PLAIN, part);
        }
        let rule = RULES.iter().find(|(owner, field, _)| *field == name && self.is(owner));
        let rule = rule.map_or(PLAIN, |(_, _, rule)| *rule);
        (rule, Schema::Type(rule.type_name))
    }

    fn is(self, type_name: &str) -> bool {
        match self {
            Schema::Kind(kind) => kind == type_name,
            Schema::Part(kind, part) => type_name.strip_prefix(kind) == Some(part),
            Schema::Type(name) => name == type_name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: &str, path: &[&str]) -> FieldRule {
        let mut at = (PLAIN, Schema::Kind(kind));
        for name in path {
            at = at.1.field(name);
        }
        at.0
    }

    #[test]
    fn a_container_is_found_by_name_wherever_pods_are_made() {
        let template = ["spec", "template", "spec", "containers"];
        for kind in ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "ReplicationController"] {
            assert_eq!(rule(kind, &template).strategy, MergeStrategy::MergeBy("name"), "{kind}");
        }
        let cron = ["spec", "jobTemplate", "spec", "template", "spec", "containers", "ports"];
        assert_eq!(rule("CronJob", &cron).strategy, MergeStrategy::MergeBy("containerPort"));
        assert_eq!(rule("Pod", &["spec", "tolerations"]).strategy, MergeStrategy::Default);
        assert_eq!(rule("ConfigMap", &["metadata", "finalizers"]).strategy, MergeStrategy::MergeSet);
        assert!(rule("Deployment", &["spec", "strategy"]).retain_keys);
    }
}
