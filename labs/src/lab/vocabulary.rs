//! Vocabulary: the mechanisms that a diagnosis may name.
//!
//! A closed list keeps an answer gradable without guessing at prose, and teaches the words: two faults with one symptom
//! differ in their mechanism. `healthy` is one of them, because sometimes nothing is broken.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; words are Kubernetes' own where it has them.

/// Every mechanism: the word, and what it means.
pub const MECHANISMS: [(&str, &str); 42] = [
    ("healthy", "nothing is broken"),
    ("client-wrong-namespace", "the kubeconfig's context looks into another namespace"),
    ("wrong-endpoint", "the kubeconfig names a server that isn't there"),
    ("credential-expired", "the client's certificate or token is past its end"),
    ("field-ownership-conflict", "two managers set one field"),
    ("removed-api-version", "the manifest names an API version that is no longer served"),
    ("bad-flag", "a component is started with a flag that it doesn't know or can't use"),
    ("component-not-running", "a component's process isn't there"),
    ("rbac-subject", "a binding names a subject that nobody is"),
    ("webhook-unreachable", "an admission webhook that fails closed doesn't answer"),
    ("silent-mutation", "an admission webhook changes what was asked for"),
    ("quota-exceeded", "a ResourceQuota refuses the creation"),
    ("watch-not-resumed", "a watch that ended with 410 Gone isn't started again from a list"),
    ("storage-quota", "the store is full"),
    ("loop-disabled", "one controller of the controller manager is switched off"),
    ("selector-overlap", "two owners select the same pods"),
    ("finalizer-orphaned", "an object waits for a finalizer whose owner is gone"),
    ("rollout-deadlock", "the update strategy can't be satisfied"),
    ("hot-loop", "a controller wakes itself with its own writes"),
    ("unknown-scheduler", "the pod asks for a scheduler that doesn't exist"),
    ("insufficient-resource", "no node has as much left as the pod requests"),
    ("taint-not-tolerated", "every node has a taint that the pod doesn't tolerate"),
    ("affinity-unsatisfied", "no node has the labels that the pod requires"),
    ("scheduling-gated", "a scheduling gate was never lifted"),
    ("scheduler-bypassed", "spec.nodeName names a node that isn't there"),
    ("double-bind", "the scheduler forgot what it had promised"),
    ("network-not-ready", "the node's pod network isn't configured"),
    ("missing-reference", "the pod names a ConfigMap, Secret or key that isn't there"),
    ("image-not-found", "the registry or node has no image of that name"),
    ("oom-killed", "the container needs more memory than its limit"),
    ("probe-misconfigured", "a probe asks the wrong question of a healthy program"),
    ("start-error", "the container's command can't be run"),
    ("init-blocked", "an init container never ends"),
    ("eviction-threshold", "the kubelet evicts at a threshold that is set wrong"),
    ("selector-mismatch", "the Service selects labels that no pod has"),
    ("port-mismatch", "the Service sends to a port where nothing listens"),
    ("policy-denied", "a NetworkPolicy forbids the traffic"),
    ("dns-down", "names don't resolve, addresses work"),
    ("traffic-policy-local", "the traffic policy keeps to one node's own pods"),
    ("packet-drop", "a packet filter of the node drops the traffic"),
    ("stale-endpoint", "a slice lists an address that no pod has"),
    ("imbalance", "the rules send too much to some endpoints"),
];

/// Is this one of the words?
pub fn is_mechanism(word: &str) -> bool {
    MECHANISMS.iter().any(|(known, _)| *known == word)
}

/// The stages' names, ① first; 0 is "none, it is healthy".
pub const STAGES: [&str; 7] =
    ["healthy", "kubectl", "kube-apiserver", "controller-manager", "scheduler", "kubelet", "kube-proxy"];
