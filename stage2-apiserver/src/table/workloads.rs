//! Rows of what runs pods.
//!
//! # In Kubernetes
//! `printDeployment`, `printJob`, `printHorizontalPodAutoscaler` … in `pkg/printers/internalversion/printers.go`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{self, list, number, text, text_or};
use super::{AGE, Column, NAME, Printer, boolean, integer, string};

const CONTAINERS: Column = string("Containers", "Names of each container in the template.").wide();
const IMAGES: Column = string("Images", "Images referenced by each container in the template.").wide();
const SELECTOR: Column = string("Selector", "A label query over pods that are managed.").wide();
const TEMPLATE: &str = "/spec/template/spec/containers";

static DEPLOYMENT: Printer = Printer::new(
    &[
        NAME,
        string("Ready", "Number of the pod with ready state"),
        string(
            "Up-to-date",
            "Total number of non-terminated pods targeted by this deployment that have the desired template spec.",
        ),
        string(
            "Available",
            "Total number of available pods (ready for at least minReadySeconds) targeted by this deployment.",
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |o, now| {
        let [names, images] = cells::containers(o, TEMPLATE);
        vec![
            cells::name(o),
            json!(format!("{}/{}", number(o, "/status/readyReplicas"), number(o, "/spec/replicas"))),
            json!(number(o, "/status/updatedReplicas")),
            json!(number(o, "/status/availableReplicas")),
            cells::age(o, now),
            names,
            images,
            json!(cells::selector(o, "/spec/selector")),
        ]
    },
);
const REPLICA_COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "Replicas is the number of desired replicas."),
    integer("Current", "Replicas is the most recently observed number of replicas."),
    integer("Ready", "The number of ready replicas for this controller."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
static REPLICA_SET: Printer =
    Printer::new(REPLICA_COLUMNS, |o, now| replica_row(o, now, cells::selector(o, "/spec/selector")));
static REPLICATION_CONTROLLER: Printer =
    Printer::new(REPLICA_COLUMNS, |o, now| replica_row(o, now, cells::labels(o, "/spec/selector")));
static STATEFUL_SET: Printer = Printer::new(
    &[NAME, string("Ready", "Number of the pod with ready state"), AGE, CONTAINERS, IMAGES],
    |o, now| {
        let [names, images] = cells::containers(o, TEMPLATE);
        let ready = format!("{}/{}", number(o, "/status/readyReplicas"), number(o, "/spec/replicas"));
        vec![cells::name(o), json!(ready), cells::age(o, now), names, images]
    },
);
static DAEMON_SET: Printer = Printer::new(
    &[
        NAME,
        integer("Desired", "The total number of nodes that should be running the daemon pod."),
        integer(
            "Current",
            "The number of nodes that are running at least 1 daemon pod and are supposed to run the daemon pod.",
        ),
        integer(
            "Ready",
            "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running and ready.",
        ),
        integer("Up-to-date", "The total number of nodes that are running updated daemon pod"),
        integer(
            "Available",
            "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running and available.",
        ),
        string(
            "Node Selector",
            "NodeSelector is a selector which must be true for the pod to fit on a node.",
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |o, now| {
        let [names, images] = cells::containers(o, TEMPLATE);
        let status = |field: &str| json!(number(o, &format!("/status/{field}")));
        vec![
            cells::name(o),
            status("desiredNumberScheduled"),
            status("currentNumberScheduled"),
            status("numberReady"),
            status("updatedNumberScheduled"),
            status("numberAvailable"),
            json!(cells::labels(o, "/spec/template/spec/nodeSelector")),
            cells::age(o, now),
            names,
            images,
            json!(cells::selector(o, "/spec/selector")),
        ]
    },
);
static JOB: Printer = Printer::new(
    &[
        NAME,
        string("Status", "Status of the job."),
        string(
            "Completions",
            "Completions specifies the desired number of successfully finished pods the job should be run with.",
        ),
        string("Duration", "Time required to complete the job."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    job_row,
);
static CRON_JOB: Printer = Printer::new(
    &[
        NAME,
        string("Schedule", "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron."),
        string(
            "Timezone",
            "The time zone name for the given schedule, see https://en.wikipedia.org/wiki/List_of_tz_database_time_zones.",
        ),
        boolean("Suspend", "This flag tells the controller to suspend subsequent executions."),
        integer("Active", "A list of pointers to currently running jobs."),
        string("Last Schedule", "Information when was the last time the job was successfully scheduled."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |o, now| {
        let [names, images] = cells::containers(o, "/spec/jobTemplate/spec/template/spec/containers");
        let last = match text(o, "/status/lastScheduleTime") {
            "" => "<none>".to_owned(),
            time => cells::since(time, now),
        };
        vec![
            cells::name(o),
            json!(text(o, "/spec/schedule")),
            json!(text_or(o, "/spec/timeZone", "<none>")),
            json!(cells::capital(cells::truth(o, "/spec/suspend"))),
            json!(cells::count(o, "/status/active")),
            json!(last),
            cells::age(o, now),
            names,
            images,
            json!(cells::selector(o, "/spec/jobTemplate/spec/selector")),
        ]
    },
);
static AUTOSCALER: Printer = Printer::new(
    &[
        NAME,
        string("Reference", "reference to scaled resource"),
        string("Targets", "The metrics that are used to compute the number of replicas"),
        string(
            "MinPods",
            "minReplicas is the lower limit for the number of replicas to which the autoscaler can scale down.",
        ),
        string(
            "MaxPods",
            "maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up.",
        ),
        string(
            "Replicas",
            "currentReplicas is current number of replicas of pods managed by this autoscaler.",
        ),
        AGE,
    ],
    autoscaler_row,
);
static CONTROLLER_REVISION: Printer = Printer::new(
    &[
        NAME,
        string("Controller", "Controller of the object"),
        string("Revision", "revision indicates the revision of the state represented by Data."),
        AGE,
    ],
    |o, now| vec![cells::name(o), json!(controller(o)), json!(number(o, "/revision")), cells::age(o, now)],
);
static POD_TEMPLATE: Printer = Printer::new(
    &[
        NAME,
        string("Containers", "Names of each container in the template."),
        string("Images", "Images referenced by each container in the template."),
        string("Pod Labels", "The labels for the pod template."),
    ],
    |o, _| {
        let [names, images] = cells::containers(o, "/template/spec/containers");
        vec![cells::name(o), names, images, json!(cells::labels(o, "/template/metadata/labels"))]
    },
);

pub(super) fn core_printer(kind: &str) -> Option<&'static Printer> {
    match kind {
        "ReplicationController" => Some(&REPLICATION_CONTROLLER),
        "PodTemplate" => Some(&POD_TEMPLATE),
        _ => None,
    }
}

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "Deployment" => &DEPLOYMENT,
        "ReplicaSet" => &REPLICA_SET,
        "StatefulSet" => &STATEFUL_SET,
        "DaemonSet" => &DAEMON_SET,
        "Job" => &JOB,
        "CronJob" => &CRON_JOB,
        "HorizontalPodAutoscaler" => &AUTOSCALER,
        "ControllerRevision" => &CONTROLLER_REVISION,
        _ => return None,
    })
}

fn replica_row(object: &Value, now: Timestamp, selector: String) -> Vec<Value> {
    let [names, images] = cells::containers(object, TEMPLATE);
    vec![
        cells::name(object),
        json!(number(object, "/spec/replicas")),
        json!(number(object, "/status/replicas")),
        json!(number(object, "/status/readyReplicas")),
        cells::age(object, now),
        names,
        images,
        json!(selector),
    ]
}

fn job_row(job: &Value, now: Timestamp) -> Vec<Value> {
    let succeeded = number(job, "/status/succeeded");
    let parallelism = number(job, "/spec/parallelism");
    let completions = match job.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let start = text(job, "/status/startTime");
    let end = text(job, "/status/completionTime").parse::<Timestamp>().unwrap_or(now);
    let duration = if start.is_empty() { String::new() } else { cells::since(start, end) };
    let [names, images] = cells::containers(job, TEMPLATE);
    vec![
        cells::name(job),
        json!(job_status(job)),
        json!(completions),
        json!(duration),
        cells::age(job, now),
        names,
        images,
        json!(cells::selector(job, "/spec/selector")),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let has = |kind: &str| {
        list(job, "/status/conditions")
            .iter()
            .any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
    };
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if !text(job, "/metadata/deletionTimestamp").is_empty() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn autoscaler_row(hpa: &Value, now: Timestamp) -> Vec<Value> {
    let reference =
        format!("{}/{}", text(hpa, "/spec/scaleTargetRef/kind"), text(hpa, "/spec/scaleTargetRef/name"));
    let min = hpa
        .pointer("/spec/minReplicas")
        .and_then(Value::as_i64)
        .map_or("<unset>".to_owned(), |n| n.to_string());
    vec![
        cells::name(hpa),
        json!(reference),
        json!(autoscaler_targets(hpa)),
        json!(min),
        json!(number(hpa, "/spec/maxReplicas")),
        json!(number(hpa, "/status/currentReplicas")),
        cells::age(hpa, now),
    ]
}

/// Current over wanted of the first two metrics.
fn autoscaler_targets(hpa: &Value) -> String {
    // The v1 form has one metric, and a place of its own for it.
    if let Some(target) = hpa.pointer("/spec/targetCPUUtilizationPercentage").and_then(Value::as_i64) {
        let current = hpa.pointer("/status/currentCPUUtilizationPercentage").and_then(Value::as_i64);
        return format!("cpu: {}/{target}%", current.map_or("<unknown>".to_owned(), |c| format!("{c}%")));
    }
    let specs = list(hpa, "/spec/metrics");
    if specs.is_empty() {
        return "<none>".into();
    }
    let statuses = list(hpa, "/status/currentMetrics");
    let shown: Vec<String> =
        specs.iter().enumerate().map(|(i, s)| metric_target(s, statuses.get(i))).collect();
    match shown.len() {
        0..=2 => shown.join(", "),
        n => format!("{} + {} more...", shown[..2].join(", "), n - 2),
    }
}

fn metric_target(spec: &Value, status: Option<&Value>) -> String {
    let (field, named) = match text(spec, "/type") {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        _ => return "<unknown type>".into(),
    };
    let target = |name: &str| spec.pointer(&format!("/{field}/target/{name}"));
    let current = |name: &str| status.and_then(|s| s.pointer(&format!("/{field}/current/{name}")));
    let quantity = |value: Option<&Value>| cells::int_or_string(value).unwrap_or_else(|| "<unknown>".into());
    if named {
        let name = text(spec, &format!("/{field}/name"));
        if target("averageValue").is_some() {
            return format!(
                "{name}: {}/{}",
                quantity(current("averageValue")),
                quantity(target("averageValue"))
            );
        }
        let percent = |value: Option<&Value>, nothing: &str| match value.and_then(Value::as_i64) {
            Some(n) => format!("{n}%"),
            None => nothing.to_owned(),
        };
        let now = percent(current("averageUtilization"), "<unknown>");
        return format!("{name}: {now}/{}", percent(target("averageUtilization"), "<auto>"));
    }
    let (name, suffix) = match (target("averageValue").is_some(), field) {
        (true, "pods") => ("averageValue", ""),
        (true, _) => ("averageValue", " (avg)"),
        (false, _) => ("value", ""),
    };
    format!("{}/{}{suffix}", quantity(current(name)), quantity(target(name)))
}

fn controller(object: &Value) -> String {
    let owners = list(object, "/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|o| cells::truth(o, "/controller")) else { return "<none>".into() };
    let group =
        text(owner, "/apiVersion").split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    format!("{}{group}/{}", text(owner, "/kind").to_lowercase(), text(owner, "/name"))
}
