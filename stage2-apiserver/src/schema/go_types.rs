//! Go's side of the types: what a JSON Schema doesn't say.
//!
//! A Go field with `omitempty` drops its zero value unless it is a pointer: `hostNetwork: false` vanishes, `runAsNonRoot: false` stays.
//! A struct that is not a pointer can't vanish: `resources: {}`. A `metav1.Time` that is not a pointer becomes `null`. The published
//! schema has none of this, so it is written down here, one `Struct.field` after the other.
//!
//! # In Kubernetes
//! `staging/src/k8s.io/api/*/types.go`. Left out: pointer fields of alpha kinds.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Optional scalars that are pointers in Go: an explicit zero value is kept. `Struct: field field …`; a group before the struct
/// (`discovery.EndpointPort`, where `discovery` is the next-to-last part of the definition's package) where names clash.
const POINTERS: &[(&str, &str)] = &[
    (
        "SecurityContext",
        "privileged runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem allowPrivilegeEscalation procMount",
    ),
    (
        "PodSecurityContext",
        "runAsUser runAsGroup runAsNonRoot fsGroup fsGroupChangePolicy supplementalGroupsPolicy seLinuxChangePolicy",
    ),
    (
        "PodSpec",
        "automountServiceAccountToken shareProcessNamespace hostUsers setHostnameAsFQDN enableServiceLinks \
      terminationGracePeriodSeconds activeDeadlineSeconds priority runtimeClassName preemptionPolicy",
    ),
    ("ServiceAccount", "automountServiceAccountToken"),
    ("ConfigMap", "immutable"),
    ("Secret", "immutable"),
    ("ConfigMapVolumeSource", "optional defaultMode"),
    ("SecretVolumeSource", "optional defaultMode"),
    ("DownwardAPIVolumeSource", "defaultMode"),
    ("ProjectedVolumeSource", "defaultMode"),
    ("ConfigMapProjection", "optional"),
    ("SecretProjection", "optional"),
    ("ClusterTrustBundleProjection", "optional name signerName"),
    ("ServiceAccountTokenProjection", "expirationSeconds"),
    ("KeyToPath", "mode"),
    ("DownwardAPIVolumeFile", "mode"),
    ("ConfigMapKeySelector", "optional"),
    ("SecretKeySelector", "optional"),
    ("ConfigMapEnvSource", "optional"),
    ("SecretEnvSource", "optional"),
    ("CSIVolumeSource", "readOnly fsType"),
    ("HostPathVolumeSource", "type"),
    ("AzureDiskVolumeSource", "cachingMode fsType readOnly kind"),
    ("FCVolumeSource", "lun"),
    ("ISCSIVolumeSource", "initiatorName"),
    ("ISCSIPersistentVolumeSource", "initiatorName"),
    ("LocalVolumeSource", "fsType"),
    ("OwnerReference", "controller blockOwnerDeletion"),
    ("ObjectMeta", "deletionGracePeriodSeconds"),
    ("Probe", "terminationGracePeriodSeconds"),
    ("GRPCAction", "service"),
    ("VolumeMount", "mountPropagation recursiveReadOnly"),
    ("Toleration", "tolerationSeconds"),
    ("Container", "restartPolicy"),
    ("EphemeralContainer", "restartPolicy"),
    ("Lifecycle", "stopSignal"),
    ("PodDNSConfigOption", "value"),
    ("PodResourceClaim", "resourceClaimName resourceClaimTemplateName"),
    ("SeccompProfile", "localhostProfile"),
    ("AppArmorProfile", "localhostProfile"),
    ("WindowsSecurityContextOptions", "gmsaCredentialSpecName gmsaCredentialSpec runAsUserName hostProcess"),
    ("TopologySpreadConstraint", "minDomains nodeAffinityPolicy nodeTaintsPolicy"),
    ("ContainerStatus", "started"),
    ("PersistentVolumeClaimSpec", "storageClassName volumeMode volumeAttributesClassName"),
    ("PersistentVolumeSpec", "volumeMode volumeAttributesClassName"),
    ("PersistentVolumeClaimStatus", "currentVolumeAttributesClassName"),
    ("TypedLocalObjectReference", "apiGroup"),
    ("TypedObjectReference", "apiGroup namespace"),
    ("DeploymentSpec", "replicas revisionHistoryLimit progressDeadlineSeconds"),
    ("DeploymentStatus", "collisionCount"),
    ("ReplicaSetSpec", "replicas"),
    ("ReplicationControllerSpec", "replicas"),
    ("StatefulSetSpec", "replicas revisionHistoryLimit"),
    ("StatefulSetStatus", "collisionCount"),
    ("RollingUpdateStatefulSetStrategy", "partition"),
    ("DaemonSetSpec", "revisionHistoryLimit"),
    ("DaemonSetStatus", "collisionCount"),
    (
        "JobSpec",
        "parallelism completions activeDeadlineSeconds backoffLimit backoffLimitPerIndex maxFailedIndexes manualSelector \
      ttlSecondsAfterFinished completionMode suspend podReplacementPolicy managedBy",
    ),
    ("JobStatus", "ready terminating failedIndexes"),
    ("SuccessPolicyRule", "succeededIndexes succeededCount"),
    ("PodFailurePolicyOnExitCodesRequirement", "containerName"),
    (
        "CronJobSpec",
        "startingDeadlineSeconds suspend successfulJobsHistoryLimit failedJobsHistoryLimit timeZone",
    ),
    (
        "ServiceSpec",
        "allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy ipFamilyPolicy trafficDistribution",
    ),
    ("ServicePort", "appProtocol"),
    ("ClientIPConfig", "timeoutSeconds"),
    ("LoadBalancerIngress", "ipMode"),
    ("PortStatus", "error"),
    ("Endpoint", "hostname nodeName zone"),
    ("EndpointConditions", "ready serving terminating"),
    ("discovery.EndpointPort", "name protocol port appProtocol"),
    ("core.EndpointPort", "appProtocol"),
    ("EndpointAddress", "nodeName"),
    ("HorizontalPodAutoscalerSpec", "minReplicas targetCPUUtilizationPercentage"),
    ("HorizontalPodAutoscalerStatus", "observedGeneration currentCPUUtilizationPercentage"),
    ("MetricTarget", "averageUtilization"),
    ("MetricValueStatus", "averageUtilization"),
    ("HPAScalingRules", "stabilizationWindowSeconds selectPolicy"),
    ("PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy"),
    ("IngressSpec", "ingressClassName"),
    ("HTTPIngressPath", "pathType"),
    ("IngressClassParametersReference", "apiGroup scope namespace"),
    ("IngressPortStatus", "error"),
    ("NetworkPolicyPort", "protocol endPort"),
    ("PriorityClass", "preemptionPolicy"),
    ("StorageClass", "reclaimPolicy allowVolumeExpansion volumeBindingMode"),
    (
        "CSIDriverSpec",
        "attachRequired podInfoOnMount storageCapacity fsGroupPolicy requiresRepublish seLinuxMount \
      nodeAllocatableUpdatePeriodSeconds",
    ),
    ("VolumeAttachmentSource", "persistentVolumeName"),
    ("VolumeNodeResources", "count"),
    ("VolumeError", "errorCode"),
    ("LeaseSpec", "holderIdentity leaseDurationSeconds leaseTransitions strategy preferredHolder"),
    ("NodeRuntimeHandlerFeatures", "recursiveReadOnlyMounts userNamespaces"),
    ("NodeFeatures", "supplementalGroupsPolicy"),
    ("admissionregistration.WebhookClientConfig", "url"),
    ("WebhookClientConfig", "url"),
    ("ServiceReference", "path port"),
    ("ValidatingWebhook", "failurePolicy matchPolicy sideEffects timeoutSeconds"),
    ("MutatingWebhook", "failurePolicy matchPolicy sideEffects timeoutSeconds reinvocationPolicy"),
    ("RuleWithOperations", "scope"),
    ("NamedRuleWithOperations", "scope"),
    ("ValidatingAdmissionPolicySpec", "failurePolicy"),
    ("Validation", "reason"),
    ("ParamRef", "parameterNotFoundAction"),
    ("MatchResources", "matchPolicy"),
    (
        "JSONSchemaProps",
        "maximum minimum maxLength minLength maxItems minItems multipleOf maxProperties minProperties \
      x-kubernetes-preserve-unknown-fields x-kubernetes-list-type x-kubernetes-map-type",
    ),
    ("CustomResourceDefinitionVersion", "deprecationWarning"),
    ("CustomResourceSubresourceScale", "labelSelectorPath"),
    ("ValidationRule", "optionalOldSelf reason"),
    ("CertificateSigningRequestSpec", "expirationSeconds"),
    ("LimitedPriorityLevelConfiguration", "nominalConcurrencyShares lendablePercent borrowingLimitPercent"),
    ("ExemptPriorityLevelConfiguration", "nominalConcurrencyShares lendablePercent"),
    ("TokenRequestSpec", "expirationSeconds"),
    (
        "DeleteOptions",
        "gracePeriodSeconds orphanDependents propagationPolicy ignoreStoreReadErrorWithClusterBreakingPotential",
    ),
    ("Preconditions", "uid resourceVersion"),
];

/// Structs, and scalars without `omitempty`, that are written although the schema calls them optional.
const PRESENT: &[(&str, &str)] = &[
    ("Container", "resources"),
    ("EphemeralContainer", "resources"),
    ("PodTemplateSpec", "metadata spec"),
    ("JobTemplateSpec", "metadata spec"),
    ("PersistentVolumeClaimTemplate", "metadata spec"),
    ("DeploymentSpec", "strategy template"),
    ("DaemonSetSpec", "updateStrategy template"),
    ("StatefulSetSpec", "updateStrategy template serviceName"),
    ("ReplicaSetSpec", "template"),
    ("PodTemplate", "metadata template"),
    ("ServiceStatus", "loadBalancer"),
    ("Endpoint", "conditions"),
    ("IngressStatus", "loadBalancer"),
    ("NodeStatus", "daemonEndpoints nodeInfo"),
    ("NodeDaemonEndpoints", "kubeletEndpoint"),
    ("PersistentVolumeClaimSpec", "resources"),
    ("ContainerStatus", "state lastState"),
    ("ResourceClaimStatus", ""),
    ("core.Event", "source"),
    ("Event", "involvedObject source"),
    ("events.Event", "regarding"),
    ("NetworkPolicySpec", "podSelector"),
    ("NetworkPolicy", "metadata spec"),
    ("StatefulSetStatus", "availableReplicas"),
    ("CustomResourceDefinitionStatus", "acceptedNames"),
    ("Lease", "spec"),
    ("IngressClass", "spec"),
    ("LimitRange", "spec"),
    ("ValidatingAdmissionPolicy", "spec status"),
    ("ValidatingAdmissionPolicyBinding", "spec"),
    ("Scale", "spec status"),
    ("Scheduling", ""),
    ("FlowSchemaSpec", "priorityLevelConfiguration matchingPrecedence"),
];

/// Kinds whose spec and status are structs, not pointers: both always appear.
const SPEC_AND_STATUS: &str = "Namespace Pod Node Service ReplicationController PersistentVolume PersistentVolumeClaim ResourceQuota \
    Deployment ReplicaSet StatefulSet DaemonSet Job CronJob HorizontalPodAutoscaler PodDisruptionBudget Ingress VolumeAttachment \
    CertificateSigningRequest FlowSchema PriorityLevelConfiguration CustomResourceDefinition APIService ServiceCIDR \
    TokenReview TokenRequest SelfSubjectReview SubjectAccessReview SelfSubjectAccessReview LocalSubjectAccessReview SelfSubjectRulesReview";

/// Times that are not pointers, and lists without `omitempty`: `null` when absent.
const NULLS: &[(&str, &str)] = &[
    ("ObjectMeta", "creationTimestamp"),
    ("EndpointSlice", "ports"),
    ("Role", "rules"),
    ("ClusterRole", "rules"),
    ("TypedLocalObjectReference", "apiGroup"),
    ("TypedObjectReference", "apiGroup"),
    ("core.Event", "firstTimestamp lastTimestamp eventTime"),
    ("Event", "firstTimestamp lastTimestamp eventTime"),
    ("PodCondition", "lastProbeTime lastTransitionTime"),
    ("NodeCondition", "lastHeartbeatTime lastTransitionTime"),
    ("DeploymentCondition", "lastUpdateTime lastTransitionTime"),
    ("ReplicaSetCondition", "lastTransitionTime"),
    ("ReplicationControllerCondition", "lastTransitionTime"),
    ("StatefulSetCondition", "lastTransitionTime"),
    ("DaemonSetCondition", "lastTransitionTime"),
    ("JobCondition", "lastProbeTime lastTransitionTime"),
    ("PersistentVolumeClaimCondition", "lastProbeTime lastTransitionTime"),
    ("HorizontalPodAutoscalerCondition", "lastTransitionTime"),
    ("NamespaceCondition", "lastTransitionTime"),
    ("CustomResourceDefinitionCondition", "lastTransitionTime"),
    ("CertificateSigningRequestCondition", "lastTransitionTime"),
    ("APIServiceCondition", "lastTransitionTime"),
    ("FlowSchemaCondition", "lastTransitionTime"),
    ("ContainerStateRunning", "startedAt"),
    ("ContainerStateTerminated", "startedAt finishedAt"),
    ("Condition", "lastTransitionTime"),
    ("CustomResourceDefinitionStatus", "conditions storedVersions"),
    ("autoscaling.HorizontalPodAutoscalerStatus", "currentMetrics"),
];

/// Required in the schema, but left out when empty.
const OMITTED: &[(&str, &str)] = &[
    ("HorizontalPodAutoscalerStatus", "currentReplicas"),
    ("HorizontalPodAutoscalerStatus", "conditions"),
    ("GRPCAction", "service"),
    ("PodStatus", ""),
];

/// Required structs that are pointers in Go, and are therefore absent rather than empty.
const STRUCT_POINTERS: &str = "DeploymentSpec.selector ReplicaSetSpec.selector StatefulSetSpec.selector DaemonSetSpec.selector \
    PersistentVolumeSpec.nodeAffinity CSIPersistentVolumeSource.controllerPublishSecretRef";

/// Named string types, as type mismatches print them.
const NAMED_STRINGS: &[(&str, &str)] = &[
    ("Container.imagePullPolicy", "v1.PullPolicy"),
    ("Container.terminationMessagePolicy", "v1.TerminationMessagePolicy"),
    ("Container.restartPolicy", "v1.ContainerRestartPolicy"),
    ("ContainerPort.protocol", "v1.Protocol"),
    ("ServicePort.protocol", "v1.Protocol"),
    ("PodSpec.restartPolicy", "v1.RestartPolicy"),
    ("PodSpec.dnsPolicy", "v1.DNSPolicy"),
    ("ServiceSpec.type", "v1.ServiceType"),
    ("ServiceSpec.sessionAffinity", "v1.ServiceAffinity"),
    ("Secret.type", "v1.SecretType"),
    ("Toleration.operator", "v1.TolerationOperator"),
    ("Toleration.effect", "v1.TaintEffect"),
    ("Taint.effect", "v1.TaintEffect"),
    ("EmptyDirVolumeSource.medium", "v1.StorageMedium"),
    ("HTTPGetAction.scheme", "v1.URIScheme"),
    ("HostPathVolumeSource.type", "v1.HostPathType"),
    ("ObjectMeta.uid", "types.UID"),
    ("OwnerReference.uid", "types.UID"),
    ("DeploymentStrategy.type", "v1.DeploymentStrategyType"),
];

fn set(pairs: &[(&str, &str)]) -> HashSet<String> {
    let join = |(owner, fields): &(&str, &str)| -> Vec<String> {
        fields.split_whitespace().map(|field| format!("{owner}.{field}")).collect()
    };
    pairs.iter().flat_map(join).collect()
}

static POINTER_SET: LazyLock<HashSet<String>> = LazyLock::new(|| set(POINTERS));
static NULL_SET: LazyLock<HashSet<String>> = LazyLock::new(|| set(NULLS));
static OMITTED_SET: LazyLock<HashSet<String>> = LazyLock::new(|| set(OMITTED));
static NAMED: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| NAMED_STRINGS.iter().copied().collect());
static PRESENT_SET: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let roots = SPEC_AND_STATUS
        .split_whitespace()
        .flat_map(|kind| ["spec", "status"].map(|field| format!("{kind}.{field}")));
    set(PRESENT).into_iter().chain(roots).collect()
});

/// The field is a pointer to a scalar.
pub fn is_pointer(key: &str) -> bool {
    POINTER_SET.contains(key)
}

/// The field is a pointer to a struct although the schema requires it.
pub fn is_struct_pointer(key: &str) -> bool {
    STRUCT_POINTERS.split_whitespace().any(|known| known == key)
}

/// The field is written even when it is empty.
pub fn always_present(key: &str) -> bool {
    PRESENT_SET.contains(key) || key.ends_with(".metadata")
}

/// The field is `null` when it is absent.
pub fn null_when_absent(key: &str) -> bool {
    NULL_SET.contains(key)
}

/// The field is left out although the schema requires it.
pub fn omits_although_required(key: &str) -> bool {
    OMITTED_SET.contains(key)
}

/// The Go name of a named string type.
pub fn named_string(key: &str) -> Option<&'static str> {
    NAMED.get(key).copied()
}
