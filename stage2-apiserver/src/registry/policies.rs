//! The registry's entries of the groups that say who may do what, and how.
//!
//! # In Kubernetes
//! `pkg/registry/{policy,rbac,storage,admissionregistration,scheduling,coordination,node,discovery,flowcontrol}/rest/`.

use super::{ResourceInfo as R, STATUS};

const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// In discovery order of the groups.
pub(super) const RESOURCES: &[R] = &[
    R::namespaced(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        "PodDisruptionBudget",
        "/registry/poddisruptionbudgets",
    )
    .short(&["pdb"])
    .sub(&[STATUS]),
    R::cluster(
        RBAC,
        "v1",
        "clusterrolebindings",
        "clusterrolebinding",
        "ClusterRoleBinding",
        "/registry/clusterrolebindings",
    ),
    R::cluster(RBAC, "v1", "clusterroles", "clusterrole", "ClusterRole", "/registry/clusterroles"),
    R::namespaced(RBAC, "v1", "rolebindings", "rolebinding", "RoleBinding", "/registry/rolebindings"),
    R::namespaced(RBAC, "v1", "roles", "role", "Role", "/registry/roles"),
    R::cluster(STORAGE, "v1", "csidrivers", "csidriver", "CSIDriver", "/registry/csidrivers"),
    R::cluster(STORAGE, "v1", "csinodes", "csinode", "CSINode", "/registry/csinodes"),
    R::namespaced(
        STORAGE,
        "v1",
        "csistoragecapacities",
        "csistoragecapacity",
        "CSIStorageCapacity",
        "/registry/csistoragecapacities",
    ),
    R::cluster(STORAGE, "v1", "storageclasses", "storageclass", "StorageClass", "/registry/storageclasses")
        .short(&["sc"]),
    R::cluster(
        STORAGE,
        "v1",
        "volumeattachments",
        "volumeattachment",
        "VolumeAttachment",
        "/registry/volumeattachments",
    )
    .sub(&[STATUS]),
    R::cluster(
        ADMISSION,
        "v1",
        "mutatingwebhookconfigurations",
        "mutatingwebhookconfiguration",
        "MutatingWebhookConfiguration",
        "/registry/mutatingwebhookconfigurations",
    )
    .categories(&["api-extensions"]),
    R::cluster(
        ADMISSION,
        "v1",
        "validatingadmissionpolicies",
        "validatingadmissionpolicy",
        "ValidatingAdmissionPolicy",
        "/registry/validatingadmissionpolicies",
    )
    .categories(&["api-extensions"])
    .sub(&[STATUS]),
    R::cluster(
        ADMISSION,
        "v1",
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
        "ValidatingAdmissionPolicyBinding",
        "/registry/validatingadmissionpolicybindings",
    )
    .categories(&["api-extensions"]),
    R::cluster(
        ADMISSION,
        "v1",
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        "ValidatingWebhookConfiguration",
        "/registry/validatingwebhookconfigurations",
    )
    .categories(&["api-extensions"]),
    R::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "customresourcedefinition",
        "CustomResourceDefinition",
        "/registry/apiextensions.k8s.io/customresourcedefinitions",
    )
    .short(&["crd", "crds"])
    .categories(&["api-extensions"])
    .sub(&[STATUS]),
    R::cluster(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "priorityclass",
        "PriorityClass",
        "/registry/priorityclasses",
    )
    .short(&["pc"]),
    R::namespaced("coordination.k8s.io", "v1", "leases", "lease", "Lease", "/registry/leases"),
    R::cluster(
        "node.k8s.io",
        "v1",
        "runtimeclasses",
        "runtimeclass",
        "RuntimeClass",
        "/registry/runtimeclasses",
    ),
    R::namespaced(
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        "endpointslice",
        "EndpointSlice",
        "/registry/endpointslices",
    ),
    R::cluster(FLOW, "v1", "flowschemas", "flowschema", "FlowSchema", "/registry/flowschemas").sub(&[STATUS]),
    R::cluster(
        FLOW,
        "v1",
        "prioritylevelconfigurations",
        "prioritylevelconfiguration",
        "PriorityLevelConfiguration",
        "/registry/prioritylevelconfigurations",
    )
    .sub(&[STATUS]),
];
