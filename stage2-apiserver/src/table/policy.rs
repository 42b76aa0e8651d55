//! Rows of the groups that say who may do what, and how.
//!
//! # In Kubernetes
//! `printRoleBinding`, `printPriorityClass`, `printCertificateSigningRequest` … in
//! `pkg/printers/internalversion/printers.go`.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use stage1_kubectl::time::human_duration;

use super::cells::{self, count, list, number, text, text_or, truth};
use super::{AGE, Column, NAME, Printer, boolean, integer, string};

static BUDGET: Printer = Printer::new(
    &[
        NAME,
        string("Min Available", "The minimum number of pods that must be available."),
        string("Max Unavailable", "The maximum number of pods that may be unavailable."),
        integer("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
        AGE,
    ],
    |o, now| {
        let bound = |field: &str| {
            cells::int_or_string(o.pointer(&format!("/spec/{field}"))).unwrap_or_else(|| "N/A".into())
        };
        vec![
            cells::name(o),
            json!(bound("minAvailable")),
            json!(bound("maxUnavailable")),
            json!(number(o, "/status/disruptionsAllowed")),
            cells::age(o, now),
        ]
    },
);
const BINDING_COLUMNS: &[Column] = &[
    NAME,
    string(
        "Role",
        "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace.",
    ),
    AGE,
    string("Users", "Users in the binding").wide(),
    string("Groups", "Groups in the binding").wide(),
    string("ServiceAccounts", "ServiceAccounts in the binding").wide(),
];
static BINDING: Printer = Printer::new(BINDING_COLUMNS, binding_row);
static PRIORITY_CLASS: Printer = Printer::new(
    &[
        NAME,
        integer("Value", "value represents the integer value of this priority class."),
        boolean(
            "Global-Default",
            "globalDefault specifies whether this PriorityClass should be considered as the default priority for pods that do not have any priority class.",
        ),
        AGE,
        string("PreemptionPolicy", "preemptionPolicy is the Policy for preempting pods with lower priority."),
    ],
    |o, now| {
        vec![
            cells::name(o),
            json!(number(o, "/value")),
            json!(truth(o, "/globalDefault")),
            cells::age(o, now),
            json!(text(o, "/preemptionPolicy")),
        ]
    },
);
static SIGNING_REQUEST: Printer = Printer::new(
    &[
        NAME,
        AGE,
        string("SignerName", "Requested signer for the request."),
        string("Requestor", "Base64-encoded PKCS#10 CSR data"),
        string(
            "RequestedDuration",
            "expirationSeconds is the requested duration of validity of the issued certificate.",
        ),
        string("Condition", "Conditions applied to the request, such as approval or denial."),
    ],
    signing_request_row,
);
static LEASE: Printer = Printer::new(
    &[NAME, string("Holder", "holderIdentity contains the identity of the holder of a current lease."), AGE],
    |o, now| vec![cells::name(o), json!(text(o, "/spec/holderIdentity")), cells::age(o, now)],
);
static RUNTIME_CLASS: Printer = Printer::new(&[NAME, string("Handler", ""), AGE], |o, now| {
    vec![cells::name(o), json!(text(o, "/handler")), cells::age(o, now)]
});
static WEBHOOKS: Printer = Printer::new(
    &[
        NAME,
        integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ],
    |o, now| vec![cells::name(o), json!(count(o, "/webhooks")), cells::age(o, now)],
);
static ADMISSION_POLICY: Printer = Printer::new(
    &[
        NAME,
        integer(
            "Validations",
            "Validations indicates the number of validation rules defined in this configuration",
        ),
        string("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
        AGE,
    ],
    |o, now| {
        let param_kind = match text(o, "/spec/paramKind/kind") {
            "" => "<unset>".to_owned(),
            kind => format!("{}/{kind}", text(o, "/spec/paramKind/apiVersion")),
        };
        vec![cells::name(o), json!(count(o, "/spec/validations")), json!(param_kind), cells::age(o, now)]
    },
);
static ADMISSION_POLICY_BINDING: Printer = Printer::new(
    &[
        NAME,
        string("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
        string("ParamRef", "ParamRef indicates the param resource which sets the configration param"),
        AGE,
    ],
    |o, now| {
        let param_ref = match (text(o, "/spec/paramRef/namespace"), text(o, "/spec/paramRef/name")) {
            ("", "") => "<unset>".to_owned(),
            ("", name) => format!("*/{name}"),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        vec![cells::name(o), json!(text(o, "/spec/policyName")), json!(param_ref), cells::age(o, now)]
    },
);
static FLOW_SCHEMA: Printer = Printer::new(
    &[
        NAME,
        string(
            "PriorityLevel",
            "`name` is the name of the priority level configuration being referenced Required.",
        ),
        string(
            "MatchingPrecedence",
            "`matchingPrecedence` is used to choose among the FlowSchemas that match a given request.",
        ),
        string(
            "DistinguisherMethod",
            "`distinguisherMethod` defines how to compute the flow distinguisher for requests that match this schema.",
        ),
        AGE,
        string("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
    ],
    |o, now| {
        let dangling = list(o, "/status/conditions").iter().find(|c| text(c, "/type") == "Dangling");
        vec![
            cells::name(o),
            json!(text(o, "/spec/priorityLevelConfiguration/name")),
            json!(number(o, "/spec/matchingPrecedence")),
            json!(text_or(o, "/spec/distinguisherMethod/type", "<none>")),
            cells::age(o, now),
            json!(dangling.map_or("False", |c| text(c, "/status"))),
        ]
    },
);
static PRIORITY_LEVEL: Printer = Printer::new(
    &[
        NAME,
        string(
            "Type",
            "`type` indicates whether this priority level is subject to limitation on request execution.",
        ),
        string(
            "NominalConcurrencyShares",
            "`nominalConcurrencyShares` contributes to the computation of the NominalConcurrencyLimit of this level.",
        ),
        string("Queues", "`queues` is the number of queues for this priority level."),
        string(
            "HandSize",
            "`handSize` is a small positive number that configures the shuffle sharding of requests into queues.",
        ),
        string(
            "QueueLengthLimit",
            "`queueLengthLimit` is the maximum number of requests allowed to be waiting in a given queue of this priority level at a time.",
        ),
        AGE,
    ],
    priority_level_row,
);
static API_SERVICE: Printer = Printer::new(
    &[
        NAME,
        string("Service", "The reference to the service that hosts this API endpoint."),
        string("Available", "Whether this service is available."),
        AGE,
    ],
    api_service_row,
);

pub(super) fn printer(group: &str, kind: &str) -> Option<&'static Printer> {
    Some(match (group, kind) {
        ("policy", "PodDisruptionBudget") => &BUDGET,
        (_, "RoleBinding" | "ClusterRoleBinding") => &BINDING,
        (_, "PriorityClass") => &PRIORITY_CLASS,
        (_, "CertificateSigningRequest") => &SIGNING_REQUEST,
        (_, "Lease") => &LEASE,
        (_, "RuntimeClass") => &RUNTIME_CLASS,
        (_, "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => &WEBHOOKS,
        (_, "ValidatingAdmissionPolicy") => &ADMISSION_POLICY,
        (_, "ValidatingAdmissionPolicyBinding") => &ADMISSION_POLICY_BINDING,
        (_, "FlowSchema") => &FLOW_SCHEMA,
        (_, "PriorityLevelConfiguration") => &PRIORITY_LEVEL,
        (_, "APIService") => &API_SERVICE,
        _ => return None,
    })
}

fn binding_row(binding: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| -> String {
        let of_kind = list(binding, "/subjects").iter().filter(|s| text(s, "/kind") == kind);
        let named = of_kind.map(|s| match kind {
            "ServiceAccount" => format!("{}/{}", text(s, "/namespace"), text(s, "/name")),
            _ => text(s, "/name").to_owned(),
        });
        named.collect::<Vec<_>>().join(", ")
    };
    let role = format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
    vec![
        cells::name(binding),
        json!(role),
        cells::age(binding, now),
        json!(subjects("User")),
        json!(subjects("Group")),
        json!(subjects("ServiceAccount")),
    ]
}

fn signing_request_row(csr: &Value, now: Timestamp) -> Vec<Value> {
    let has = |kind: &str| list(csr, "/status/conditions").iter().any(|c| text(c, "/type") == kind);
    let mut condition = match () {
        () if has("Denied") => "Denied".to_owned(),
        () if has("Approved") => "Approved".to_owned(),
        () => "Pending".to_owned(),
    };
    if has("Failed") {
        condition.push_str(",Failed");
    }
    if !text(csr, "/status/certificate").is_empty() {
        condition.push_str(",Issued");
    }
    let duration = match csr.pointer("/spec/expirationSeconds").and_then(Value::as_i64) {
        Some(seconds) => human_duration(SignedDuration::from_secs(seconds)),
        None => "<none>".into(),
    };
    vec![
        cells::name(csr),
        cells::age(csr, now),
        json!(text_or(csr, "/spec/signerName", "<none>")),
        json!(text(csr, "/spec/username")),
        json!(duration),
        json!(condition),
    ]
}

fn priority_level_row(level: &Value, now: Timestamp) -> Vec<Value> {
    let cell = |pointer: &str| level.pointer(pointer).cloned().unwrap_or_else(|| json!("<none>"));
    let shares = match text(level, "/spec/type") {
        "Exempt" => cell("/spec/exempt/nominalConcurrencyShares"),
        _ => cell("/spec/limited/nominalConcurrencyShares"),
    };
    vec![
        cells::name(level),
        json!(text(level, "/spec/type")),
        shares,
        cell("/spec/limited/limitResponse/queuing/queues"),
        cell("/spec/limited/limitResponse/queuing/handSize"),
        cell("/spec/limited/limitResponse/queuing/queueLengthLimit"),
        cells::age(level, now),
    ]
}

fn api_service_row(service: &Value, now: Timestamp) -> Vec<Value> {
    let target = match text(service, "/spec/service/name") {
        "" => "Local".to_owned(),
        name => format!("{}/{name}", text(service, "/spec/service/namespace")),
    };
    let condition = list(service, "/status/conditions").iter().find(|c| text(c, "/type") == "Available");
    let available = match condition {
        Some(c) if text(c, "/status") == "True" => "True".to_owned(),
        Some(c) => format!("{} ({})", text(c, "/status"), text(c, "/reason")),
        None => "Unknown".to_owned(),
    };
    vec![cells::name(service), json!(target), json!(available), cells::age(service, now)]
}
