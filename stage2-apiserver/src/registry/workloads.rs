//! The registry's entries of the workload groups: apps, events, reviews, autoscaling, batch, certificates, networking.
//!
//! # In Kubernetes
//! `pkg/registry/{apps,events,authentication,authorization,autoscaling,batch,certificates,networking}/rest/`.

use super::{CREATE, GET_PATCH_UPDATE, ResourceInfo as R, SCALE, STATUS, Subresource as S};

const ALL: &[&str] = &["all"];
const AUTHN: &str = "authentication.k8s.io";
const AUTHZ: &str = "authorization.k8s.io";
const NET: &str = "networking.k8s.io";

/// In discovery order of the groups.
pub(super) const RESOURCES: &[R] = &[
    R::cluster(
        "apiregistration.k8s.io",
        "v1",
        "apiservices",
        "apiservice",
        "APIService",
        "/registry/apiregistration.k8s.io/apiservices",
    )
    .categories(&["api-extensions"])
    .sub(&[STATUS]),
    R::namespaced(
        "apps",
        "v1",
        "controllerrevisions",
        "controllerrevision",
        "ControllerRevision",
        "/registry/controllerrevisions",
    ),
    R::namespaced("apps", "v1", "daemonsets", "daemonset", "DaemonSet", "/registry/daemonsets")
        .short(&["ds"])
        .categories(ALL)
        .sub(&[STATUS]),
    R::namespaced("apps", "v1", "deployments", "deployment", "Deployment", "/registry/deployments")
        .short(&["deploy"])
        .categories(ALL)
        .sub(&[SCALE, STATUS]),
    R::namespaced("apps", "v1", "replicasets", "replicaset", "ReplicaSet", "/registry/replicasets")
        .short(&["rs"])
        .categories(ALL)
        .sub(&[SCALE, STATUS]),
    R::namespaced("apps", "v1", "statefulsets", "statefulset", "StatefulSet", "/registry/statefulsets")
        .short(&["sts"])
        .categories(ALL)
        .sub(&[SCALE, STATUS]),
    // The same objects as core's events, in another dress.
    R::namespaced("events.k8s.io", "v1", "events", "event", "Event", "/registry/events")
        .short(&["ev"])
        .stored_as("", "v1"),
    R::cluster(AUTHN, "v1", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview", "")
        .verbs(CREATE)
        .virtual_kind(),
    R::cluster(AUTHN, "v1", "tokenreviews", "tokenreview", "TokenReview", "").verbs(CREATE).virtual_kind(),
    R::namespaced(
        AUTHZ,
        "v1",
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
        "LocalSubjectAccessReview",
        "",
    )
    .verbs(CREATE)
    .virtual_kind(),
    R::cluster(
        AUTHZ,
        "v1",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        "SelfSubjectAccessReview",
        "",
    )
    .verbs(CREATE)
    .virtual_kind(),
    R::cluster(
        AUTHZ,
        "v1",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        "SelfSubjectRulesReview",
        "",
    )
    .verbs(CREATE)
    .virtual_kind(),
    R::cluster(AUTHZ, "v1", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview", "")
        .verbs(CREATE)
        .virtual_kind(),
    R::namespaced(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        "HorizontalPodAutoscaler",
        "/registry/horizontalpodautoscalers",
    )
    .short(&["hpa"])
    .categories(ALL)
    .sub(&[STATUS]),
    R::namespaced(
        "autoscaling",
        "v1",
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        "HorizontalPodAutoscaler",
        "/registry/horizontalpodautoscalers",
    )
    .short(&["hpa"])
    .categories(ALL)
    .sub(&[STATUS])
    .stored_as("autoscaling", "v2"),
    R::namespaced("batch", "v1", "cronjobs", "cronjob", "CronJob", "/registry/cronjobs")
        .short(&["cj"])
        .categories(ALL)
        .sub(&[STATUS]),
    R::namespaced("batch", "v1", "jobs", "job", "Job", "/registry/jobs").categories(ALL).sub(&[STATUS]),
    R::cluster(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "certificatesigningrequest",
        "CertificateSigningRequest",
        "/registry/certificatesigningrequests",
    )
    .short(&["csr"])
    .sub(&[S::own("approval", GET_PATCH_UPDATE), STATUS]),
    R::cluster(NET, "v1", "ingressclasses", "ingressclass", "IngressClass", "/registry/ingressclasses"),
    R::namespaced(NET, "v1", "ingresses", "ingress", "Ingress", "/registry/ingress")
        .short(&["ing"])
        .sub(&[STATUS]),
    R::cluster(NET, "v1", "ipaddresses", "ipaddress", "IPAddress", "/registry/ipaddresses").short(&["ip"]),
    R::namespaced(
        NET,
        "v1",
        "networkpolicies",
        "networkpolicy",
        "NetworkPolicy",
        "/registry/networkpolicies",
    )
    .short(&["netpol"]),
    R::cluster(NET, "v1", "servicecidrs", "servicecidr", "ServiceCIDR", "/registry/servicecidrs")
        .sub(&[STATUS]),
];
