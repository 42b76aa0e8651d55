//! The rules: every fault that operators know, one a file.
//!
//! *Beside a pod's journey.* The list is in the order of the stages; within a stage the faults that have a lab come first. The
//! book's triage page and the crate's README are compared with this list by tests.
//!
//! To add one: a file with `RULE` and a world with its fault, a line here, a line on the triage page.
//!
//! # In Kubernetes
//! No counterpart.

use super::rule::Rule;

/// ① it is there, in another namespace.
pub mod wrong_namespace;
/// ① the kubeconfig names a port where nobody listens, and the server is elsewhere.
pub mod endpoint_wrong;
/// ① the client's certificate or token is past its date.
pub mod credential_expired;
/// ① two writers set the same field.
pub mod field_ownership_conflict;
/// ① the server doesn't serve this API version.
pub mod api_version_removed;
/// ① the server doesn't know the client's credentials.
pub mod credential_rejected;
/// ① the kubeconfig can't be used.
pub mod kubeconfig_unusable;
/// ① it was never sent to this cluster.
pub mod not_applied;
/// ① the server's name has no address.
pub mod server_name_unresolved;
/// ① no answer comes from the server's address.
pub mod server_unreachable;
/// ① client and server don't trust each other.
pub mod tls_mismatch;
/// ② nobody listens where the API server should be.
pub mod apiserver_down;
/// ② a binding names a subject that there isn't.
pub mod rbac_subject;
/// ② an admission webhook doesn't answer, and its policy is to fail.
pub mod webhook_unreachable;
/// ② the pod isn't what its template says: admission changed it.
pub mod silent_mutation;
/// ② a ResourceQuota has no room for the pods.
pub mod quota_exceeded;
/// ② a component lives, but hears of no changes any more.
pub mod watch_not_resumed;
/// ② the API server answers, but isn't well.
pub mod apiserver_failing;
/// ② the API server refuses the pods.
pub mod create_refused;
/// ② no role allows the request.
pub mod forbidden;
/// ② a LimitRange forbids the pod's requests or limits.
pub mod limit_range;
/// ② the namespace's pod security level forbids the pod.
pub mod pod_security;
/// ② the pod's service account isn't there.
pub mod service_account_missing;
/// ② an admission webhook refuses the pods.
pub mod webhook_denied;
/// ③ the controller manager is gone.
pub mod controller_manager_down;
/// ③ one loop of a living controller manager doesn't run.
pub mod loop_disabled;
/// ③ a controller takes a pod for its own by its labels.
pub mod selector_overlap;
/// ③ a finalizer waits for somebody who never comes.
pub mod finalizer_blocks;
/// ③ the update strategy can't be satisfied.
pub mod rollout_deadlock;
/// ③ a claim has no volume.
pub mod claim_pending;
/// ③ a Job has given up.
pub mod job_failed;
/// ③ somebody has stopped the workload on purpose.
pub mod paused;
/// ③ a rollout doesn't get on.
pub mod rollout_stuck;
/// ④ the scheduler is gone.
pub mod scheduler_down;
/// ④ no scheduler has the name that the pod asks for.
pub mod scheduler_unknown;
/// ④ no node has room for what the pod requests.
pub mod insufficient_resource;
/// ④ nodes are tainted, and the pod doesn't tolerate it.
pub mod taint_not_tolerated;
/// ④ no node has the labels that the pod asks for.
pub mod affinity_unsatisfied;
/// ④ a scheduling gate was never lifted.
pub mod scheduling_gated;
/// ④ the pod names its node itself, and the node isn't there or doesn't fit.
pub mod scheduler_bypassed;
/// ④ the kubelet refuses a pod that the scheduler bound to it.
pub mod node_refused;
/// ④ no node has the neighbours that the pod asks for.
pub mod neighbours_unsatisfied;
/// ④ the cluster has no nodes.
pub mod no_nodes;
/// ④ nodes are closed for new pods.
pub mod node_cordoned;
/// ④ the host port is taken on every node.
pub mod ports_taken;
/// ④ the pod's volumes can't be had on any node.
pub mod volume_unavailable;
/// ⑤ the node's kubelet is gone.
pub mod kubelet_down;
/// ⑤ the node can't give pods a network.
pub mod network_not_ready;
/// ⑤ a volume names a ConfigMap, Secret or key that isn't there.
pub mod volume_missing;
/// ⑤ the registry has no such image or tag.
pub mod image_not_found;
/// ⑤ the kernel killed the container at its memory limit.
pub mod oom_killed;
/// ⑤ a probe kills a container that does its work.
pub mod liveness_kills;
/// ⑤ the container's command can't be started.
pub mod start_error;
/// ⑤ an environment variable names a ConfigMap, Secret or key that isn't there.
pub mod config_missing;
/// ⑤ an init container doesn't end.
pub mod init_blocked;
/// ⑤ the node ran short and put the pod out.
pub mod evicted;
/// ⑤ the readiness probe fails: the pod runs and gets no traffic.
pub mod readiness_fails;
/// ⑤ the program ends by itself again and again.
pub mod crash_loop;
/// ⑤ the runtime can't make the container.
pub mod create_failed;
/// ⑤ the pod had more time than it was given.
pub mod deadline_exceeded;
/// ⑤ the registry wants other credentials.
pub mod image_denied;
/// ⑤ the image's name can't be one.
pub mod image_name_invalid;
/// ⑤ the image may not be pulled, and the node doesn't have it.
pub mod image_never;
/// ⑤ a volume can't be mounted.
pub mod mount_failed;
/// ⑤ a pod isn't ready, and nobody says why.
pub mod not_ready;
/// ⑤ somebody else must set a condition, and hasn't.
pub mod readiness_gate;
/// ⑤ the node can't reach the registry.
pub mod registry_unreachable;
/// ⑤ the container runtime can't make the pod's sandbox.
pub mod sandbox_failed;
/// ⑤ the pod's security settings don't fit its image or node.
pub mod security_context;
/// ⑤ a pod has been told to end and is still there.
pub mod terminating_stuck;
/// ⑥ the Service's selector fits no pod.
pub mod selector_mismatch;
/// ⑥ the Service sends to a port where the pods don't listen.
pub mod port_mismatch;
/// ⑥ a node has no kube-proxy.
pub mod kube_proxy_down;
/// ⑥ a NetworkPolicy lets nothing in.
pub mod policy_denies;
/// ⑥ nobody answers for names.
pub mod dns_down;
/// ⑥ only pods on the same node are asked.
pub mod traffic_policy_local;
/// ⑥ traffic is sent to an address that no pod has.
pub mod stale_endpoint;
/// ⑥ an Ingress names a Service or port that there isn't.
pub mod backend_missing;
/// ⑥ nobody gives the Service an outside address.
pub mod load_balancer_pending;
/// ⑥ the Service's pods aren't ready.
pub mod no_ready_endpoints;

/// Every rule.
pub const ALL: &[&Rule] = &[
    &wrong_namespace::RULE,
    &endpoint_wrong::RULE,
    &credential_expired::RULE,
    &field_ownership_conflict::RULE,
    &api_version_removed::RULE,
    &credential_rejected::RULE,
    &kubeconfig_unusable::RULE,
    &not_applied::RULE,
    &server_name_unresolved::RULE,
    &server_unreachable::RULE,
    &tls_mismatch::RULE,
    &apiserver_down::RULE,
    &rbac_subject::RULE,
    &webhook_unreachable::RULE,
    &silent_mutation::RULE,
    &quota_exceeded::RULE,
    &watch_not_resumed::RULE,
    &apiserver_failing::RULE,
    &create_refused::RULE,
    &forbidden::RULE,
    &limit_range::RULE,
    &pod_security::RULE,
    &service_account_missing::RULE,
    &webhook_denied::RULE,
    &controller_manager_down::RULE,
    &loop_disabled::RULE,
    &selector_overlap::RULE,
    &finalizer_blocks::RULE,
    &rollout_deadlock::RULE,
    &claim_pending::RULE,
    &job_failed::RULE,
    &paused::RULE,
    &rollout_stuck::RULE,
    &scheduler_down::RULE,
    &scheduler_unknown::RULE,
    &insufficient_resource::RULE,
    &taint_not_tolerated::RULE,
    &affinity_unsatisfied::RULE,
    &scheduling_gated::RULE,
    &scheduler_bypassed::RULE,
    &node_refused::RULE,
    &neighbours_unsatisfied::RULE,
    &no_nodes::RULE,
    &node_cordoned::RULE,
    &ports_taken::RULE,
    &volume_unavailable::RULE,
    &kubelet_down::RULE,
    &network_not_ready::RULE,
    &volume_missing::RULE,
    &image_not_found::RULE,
    &oom_killed::RULE,
    &liveness_kills::RULE,
    &start_error::RULE,
    &config_missing::RULE,
    &init_blocked::RULE,
    &evicted::RULE,
    &readiness_fails::RULE,
    &crash_loop::RULE,
    &create_failed::RULE,
    &deadline_exceeded::RULE,
    &image_denied::RULE,
    &image_name_invalid::RULE,
    &image_never::RULE,
    &mount_failed::RULE,
    &not_ready::RULE,
    &readiness_gate::RULE,
    &registry_unreachable::RULE,
    &sandbox_failed::RULE,
    &security_context::RULE,
    &terminating_stuck::RULE,
    &selector_mismatch::RULE,
    &port_mismatch::RULE,
    &kube_proxy_down::RULE,
    &policy_denies::RULE,
    &dns_down::RULE,
    &traffic_policy_local::RULE,
    &stale_endpoint::RULE,
    &backend_missing::RULE,
    &load_balancer_pending::RULE,
    &no_ready_endpoints::RULE,
];

/// Each rule's world with its fault.
#[cfg(test)]
pub(crate) fn faults() -> Vec<(&'static str, super::worlds::World)> {
    vec![
        (wrong_namespace::RULE.id, wrong_namespace::fault()),
        (endpoint_wrong::RULE.id, endpoint_wrong::fault()),
        (credential_expired::RULE.id, credential_expired::fault()),
        (field_ownership_conflict::RULE.id, field_ownership_conflict::fault()),
        (api_version_removed::RULE.id, api_version_removed::fault()),
        (credential_rejected::RULE.id, credential_rejected::fault()),
        (kubeconfig_unusable::RULE.id, kubeconfig_unusable::fault()),
        (not_applied::RULE.id, not_applied::fault()),
        (server_name_unresolved::RULE.id, server_name_unresolved::fault()),
        (server_unreachable::RULE.id, server_unreachable::fault()),
        (tls_mismatch::RULE.id, tls_mismatch::fault()),
        (apiserver_down::RULE.id, apiserver_down::fault()),
        (rbac_subject::RULE.id, rbac_subject::fault()),
        (webhook_unreachable::RULE.id, webhook_unreachable::fault()),
        (silent_mutation::RULE.id, silent_mutation::fault()),
        (quota_exceeded::RULE.id, quota_exceeded::fault()),
        (watch_not_resumed::RULE.id, watch_not_resumed::fault()),
        (apiserver_failing::RULE.id, apiserver_failing::fault()),
        (create_refused::RULE.id, create_refused::fault()),
        (forbidden::RULE.id, forbidden::fault()),
        (limit_range::RULE.id, limit_range::fault()),
        (pod_security::RULE.id, pod_security::fault()),
        (service_account_missing::RULE.id, service_account_missing::fault()),
        (webhook_denied::RULE.id, webhook_denied::fault()),
        (controller_manager_down::RULE.id, controller_manager_down::fault()),
        (loop_disabled::RULE.id, loop_disabled::fault()),
        (selector_overlap::RULE.id, selector_overlap::fault()),
        (finalizer_blocks::RULE.id, finalizer_blocks::fault()),
        (rollout_deadlock::RULE.id, rollout_deadlock::fault()),
        (claim_pending::RULE.id, claim_pending::fault()),
        (job_failed::RULE.id, job_failed::fault()),
        (paused::RULE.id, paused::fault()),
        (rollout_stuck::RULE.id, rollout_stuck::fault()),
        (scheduler_down::RULE.id, scheduler_down::fault()),
        (scheduler_unknown::RULE.id, scheduler_unknown::fault()),
        (insufficient_resource::RULE.id, insufficient_resource::fault()),
        (taint_not_tolerated::RULE.id, taint_not_tolerated::fault()),
        (affinity_unsatisfied::RULE.id, affinity_unsatisfied::fault()),
        (scheduling_gated::RULE.id, scheduling_gated::fault()),
        (scheduler_bypassed::RULE.id, scheduler_bypassed::fault()),
        (node_refused::RULE.id, node_refused::fault()),
        (neighbours_unsatisfied::RULE.id, neighbours_unsatisfied::fault()),
        (no_nodes::RULE.id, no_nodes::fault()),
        (node_cordoned::RULE.id, node_cordoned::fault()),
        (ports_taken::RULE.id, ports_taken::fault()),
        (volume_unavailable::RULE.id, volume_unavailable::fault()),
        (kubelet_down::RULE.id, kubelet_down::fault()),
        (network_not_ready::RULE.id, network_not_ready::fault()),
        (volume_missing::RULE.id, volume_missing::fault()),
        (image_not_found::RULE.id, image_not_found::fault()),
        (oom_killed::RULE.id, oom_killed::fault()),
        (liveness_kills::RULE.id, liveness_kills::fault()),
        (start_error::RULE.id, start_error::fault()),
        (config_missing::RULE.id, config_missing::fault()),
        (init_blocked::RULE.id, init_blocked::fault()),
        (evicted::RULE.id, evicted::fault()),
        (readiness_fails::RULE.id, readiness_fails::fault()),
        (crash_loop::RULE.id, crash_loop::fault()),
        (create_failed::RULE.id, create_failed::fault()),
        (deadline_exceeded::RULE.id, deadline_exceeded::fault()),
        (image_denied::RULE.id, image_denied::fault()),
        (image_name_invalid::RULE.id, image_name_invalid::fault()),
        (image_never::RULE.id, image_never::fault()),
        (mount_failed::RULE.id, mount_failed::fault()),
        (not_ready::RULE.id, not_ready::fault()),
        (readiness_gate::RULE.id, readiness_gate::fault()),
        (registry_unreachable::RULE.id, registry_unreachable::fault()),
        (sandbox_failed::RULE.id, sandbox_failed::fault()),
        (security_context::RULE.id, security_context::fault()),
        (terminating_stuck::RULE.id, terminating_stuck::fault()),
        (selector_mismatch::RULE.id, selector_mismatch::fault()),
        (port_mismatch::RULE.id, port_mismatch::fault()),
        (kube_proxy_down::RULE.id, kube_proxy_down::fault()),
        (policy_denies::RULE.id, policy_denies::fault()),
        (dns_down::RULE.id, dns_down::fault()),
        (traffic_policy_local::RULE.id, traffic_policy_local::fault()),
        (stale_endpoint::RULE.id, stale_endpoint::fault()),
        (backend_missing::RULE.id, backend_missing::fault()),
        (load_balancer_pending::RULE.id, load_balancer_pending::fault()),
        (no_ready_endpoints::RULE.id, no_ready_endpoints::fault()),
    ]
}
