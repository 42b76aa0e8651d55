//! Mechanisms: the closed list of words for *how* something is broken.
//!
//! A diagnosis has a stage, an object, a mechanism and evidence. The mechanism is one word of this list: the labs' answer form
//! offers the same list, so a learner's answer and a rule's finding can be compared by equality. A word names the fault, not
//! the symptom: `oom-killed`, not `crash-loop`.
//!
//! # Invariants
//! 1. A word never changes its spelling: answers that were written down stay comparable.
//!
//! # In Kubernetes
//! No counterpart; the nearest are the reasons of conditions and events, which name symptoms.

use serde::{Deserialize, Serialize};

macro_rules! mechanisms {
    ($($name:ident $word:literal $meaning:literal,)*) => {
        /// How something is broken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Mechanism {
            $(#[doc = $meaning] #[serde(rename = $word)] $name,)*
        }

        impl Mechanism {
            /// Every word, in the order of the stages.
            pub const ALL: &[Mechanism] = &[$(Mechanism::$name),*];

            /// The word: `oom-killed`.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Mechanism::$name => $word),* }
            }

            /// What the word means, in one sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Mechanism::$name => $meaning),* }
            }
        }
    };
}

mechanisms! {
    ClientWrongNamespace "client-wrong-namespace" "The client looks in another namespace than the object is in.",
    WrongEndpoint "wrong-endpoint" "The kubeconfig names an address where no API server listens, and there is one elsewhere.",
    NameUnresolved "name-unresolved" "The server's name has no address.",
    ServerUnreachable "server-unreachable" "No answer comes from the server's address.",
    TlsMismatch "tls-mismatch" "Client and server don't trust each other's certificates.",
    CredentialExpired "credential-expired" "The client's certificate or token is past its date.",
    CredentialRejected "credential-rejected" "The server doesn't know the client's credentials.",
    FieldOwnershipConflict "field-ownership-conflict" "Two writers set the same field.",
    RemovedApiVersion "removed-api-version" "The manifest names an API version that the server doesn't serve.",
    NotApplied "not-applied" "The object was never sent to this cluster.",
    BadFlag "bad-flag" "A component doesn't start because of its configuration.",
    RbacDenied "rbac-denied" "No role allows the request.",
    RbacSubject "rbac-subject" "A binding names a subject that there isn't.",
    WebhookUnreachable "webhook-unreachable" "An admission webhook doesn't answer, and its policy is to fail.",
    WebhookDenied "webhook-denied" "An admission webhook refuses the object.",
    SilentMutation "silent-mutation" "Admission changed the object on its way in.",
    QuotaExceeded "quota-exceeded" "A ResourceQuota has no room for the object.",
    LimitRangeViolated "limit-range-violated" "A LimitRange forbids the object's requests or limits.",
    PodSecurityViolated "pod-security-violated" "The namespace's pod security level forbids the pod.",
    AdmissionRefused "admission-refused" "Validation or an admission plugin refuses the object.",
    StorageQuota "storage-quota" "The store has no room for writes.",
    WatchNotResumed "watch-not-resumed" "A component lives, but hears of no changes any more.",
    ComponentNotRunning "component-not-running" "A process that should act is gone.",
    LoopDisabled "loop-disabled" "One loop of a living component doesn't run.",
    SelectorOverlap "selector-overlap" "A controller takes a pod for its own by its labels.",
    FinalizerOrphaned "finalizer-orphaned" "A finalizer waits for somebody who never comes.",
    RolloutDeadlock "rollout-deadlock" "The update strategy can't be satisfied.",
    HotLoop "hot-loop" "A controller answers its own writes.",
    Paused "paused" "Somebody has stopped the workload on purpose.",
    VolumeUnbound "volume-unbound" "A claim has no volume.",
    UnknownScheduler "unknown-scheduler" "No scheduler has the name that the pod asks for.",
    InsufficientResource "insufficient-resource" "No node has room for what the pod requests.",
    TaintNotTolerated "taint-not-tolerated" "Nodes are tainted, and the pod doesn't tolerate it.",
    NodeCordoned "node-cordoned" "Nodes are closed for new pods.",
    AffinityUnsatisfied "affinity-unsatisfied" "No node has the labels, or the neighbours, that the pod asks for.",
    PortConflict "port-conflict" "The node port or host port is taken.",
    VolumeConflict "volume-conflict" "The pod's volumes can't be had on any node.",
    NoNodes "no-nodes" "The cluster has no nodes.",
    SchedulingGated "scheduling-gated" "A scheduling gate was never lifted.",
    SchedulerBypassed "scheduler-bypassed" "The pod names its node itself, and the node isn't there or doesn't fit.",
    DoubleBind "double-bind" "More was bound to a node than fits.",
    NetworkNotReady "network-not-ready" "The node can't give pods a network.",
    RuntimeFailed "runtime-failed" "The container runtime can't make what the kubelet asks for.",
    MissingReference "missing-reference" "A ConfigMap, Secret, key, claim or account that is named isn't there.",
    MountFailed "mount-failed" "A volume can't be mounted.",
    ImageNotFound "image-not-found" "The registry has no such image or tag.",
    ImageDenied "image-denied" "The registry wants other credentials.",
    RegistryUnreachable "registry-unreachable" "The node can't reach the registry.",
    ImageNameInvalid "image-name-invalid" "The image's name can't be one.",
    ImageNotPresent "image-not-present" "The image may not be pulled, and the node doesn't have it.",
    OomKilled "oom-killed" "The kernel killed the container at its memory limit.",
    ProbeMisconfigured "probe-misconfigured" "A probe asks the wrong thing, and the kubelet believes it.",
    StartError "start-error" "The container's command can't be started.",
    AppError "app-error" "The program ends by itself with an error.",
    AppExits "app-exits" "The program ends without an error, though it should run for ever.",
    InitBlocked "init-blocked" "An init container doesn't end.",
    SecurityContext "security-context" "The pod's security settings don't fit its image or node.",
    EvictionThreshold "eviction-threshold" "The node ran short and put pods out.",
    DeadlineExceeded "deadline-exceeded" "The time that was allowed is over.",
    ReadinessGate "readiness-gate" "Somebody else must set a condition, and hasn't.",
    GracePeriod "grace-period" "The pod has been told to end and doesn't.",
    SelectorMismatch "selector-mismatch" "The selector fits no pod.",
    PortMismatch "port-mismatch" "Traffic is sent to a port where nothing listens.",
    NoReadyEndpoints "no-ready-endpoints" "The pods that are selected aren't ready.",
    PolicyDenied "policy-denied" "A NetworkPolicy lets nothing in.",
    DnsDown "dns-down" "Nobody answers for names.",
    TrafficPolicyLocal "traffic-policy-local" "Only pods on the same node are asked.",
    PacketDrop "packet-drop" "Something on the node throws packets away.",
    StaleEndpoint "stale-endpoint" "Traffic is sent to an address that no pod has.",
    Imbalance "imbalance" "The rules spread traffic unevenly.",
    LoadBalancerPending "load-balancer-pending" "Nobody gives the Service an outside address.",
    BackendMissing "backend-missing" "An Ingress names a Service or port that there isn't.",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_word_is_unique_and_reads_back_as_itself() {
        let words: BTreeSet<&str> = Mechanism::ALL.iter().map(|one| one.word()).collect();
        assert_eq!(words.len(), Mechanism::ALL.len());
        for one in Mechanism::ALL {
            let json = serde_json::to_value(one).unwrap();
            assert_eq!(json, one.word());
            assert_eq!(serde_json::from_value::<Mechanism>(json).unwrap(), *one);
            assert!(one.meaning().ends_with('.'));
        }
    }
}
