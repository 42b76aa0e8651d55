//! Checks of a pod template: images, resources, probes, volumes, rights.
//!
//! # In Kubernetes
//! "Configuration Best Practices", "Pod Security Standards" (baseline and restricted).

use serde_json::Value;

use super::image::{image_age, image_tag, pull_policy};
use super::{Check, Complaint, Subject};
use crate::why::Severity::{Error, Info, Warning};

/// The checks of a pod template.
pub const CHECKS: &[Check] = &[
    Check {
        id: "image-tag",
        title: "each image has an explicit tag or digest",
        reason: "latest is another program tomorrow, and nobody can say which one ran yesterday",
        severity: Error,
        check: image_tag,
    },
    Check {
        id: "image-age",
        title: "images are not too old",
        reason: "security fixes come with new images only",
        severity: Warning,
        check: image_age,
    },
    Check {
        id: "pull-policy",
        title: "the pull policy fits the tag",
        reason: "a tag that moves needs Always; Never works only on nodes that have the image by chance",
        severity: Warning,
        check: pull_policy,
    },
    Check {
        id: "requests",
        title: "each container requests CPU and memory",
        reason: "the scheduler counts requests: without them nodes are filled until they fail",
        severity: Error,
        check: requests,
    },
    Check {
        id: "memory-limit",
        title: "each container has a memory limit",
        reason: "without one a leak takes the whole node with it",
        severity: Error,
        check: memory_limit,
    },
    Check {
        id: "limit-fits-request",
        title: "memory limit and request are near each other",
        reason: "a limit far above the request promises memory that the node may not have",
        severity: Info,
        check: limit_fits_request,
    },
    Check {
        id: "readiness-probe",
        title: "each container says when it is ready",
        reason: "without a readiness probe traffic arrives before the program listens, at every rollout",
        severity: Warning,
        check: readiness_probe,
    },
    Check {
        id: "liveness-probe",
        title: "a liveness probe, and one of its own",
        reason: "the same probe for both restarts a container that is only busy",
        severity: Info,
        check: liveness_probe,
    },
    Check {
        id: "restart-policy",
        title: "the restart policy fits the kind",
        reason: "a bare pod that ends, or whose node ends, stays away",
        severity: Warning,
        check: restart_policy,
    },
    Check {
        id: "host-path",
        title: "no host paths",
        reason: "a host path ties the pod to one node and opens the node to the pod",
        severity: Warning,
        check: host_path,
    },
    Check {
        id: "empty-dir-limit",
        title: "emptyDir volumes have a size limit",
        reason: "without one a full volume is a full node, and pods are evicted",
        severity: Info,
        check: empty_dir_limit,
    },
    Check {
        id: "privileged",
        title: "no privileged containers, no host namespaces",
        reason: "either is root on the node",
        severity: Error,
        check: privileged,
    },
    Check {
        id: "run-as-non-root",
        title: "containers don't run as root",
        reason: "root in a container is root when it gets out",
        severity: Warning,
        check: run_as_non_root,
    },
    Check {
        id: "privilege-escalation",
        title: "no privilege escalation, no capabilities that aren't needed",
        reason: "a setuid program would give more rights than the container began with",
        severity: Warning,
        check: privilege_escalation,
    },
    Check {
        id: "read-only-root",
        title: "the root file system is read-only",
        reason: "what can't be written can't be replaced",
        severity: Info,
        check: read_only_root,
    },
    Check {
        id: "plain-secrets",
        title: "no secrets in plain environment variables",
        reason: "a manifest is read by many, kept in git, and shown by describe",
        severity: Warning,
        check: plain_secrets,
    },
    Check {
        id: "grace-period",
        title: "the pod may end in peace",
        reason: "with a grace period of 0 requests in flight are cut off",
        severity: Warning,
        check: grace_period,
    },
];

fn requests(subject: &Subject<'_>) -> Vec<Complaint> {
    each(subject, false, |at, name, container| {
        let missing: Vec<&str> = ["cpu", "memory"]
            .into_iter()
            .filter(|one| {
                let has = |list: &str| !container["resources"][list][one].is_null();
                // A limit is the request where none is given.
                !has("requests") && !has("limits")
            })
            .collect();
        let message = format!("{name} requests no {}", missing.join(" and no "));
        (!missing.is_empty()).then(|| subject.complain(&format!("{at}/resources/requests"), message))
    })
}

fn memory_limit(subject: &Subject<'_>) -> Vec<Complaint> {
    each(subject, false, |at, name, container| {
        let none = container["resources"]["limits"]["memory"].is_null();
        none.then(|| {
            subject.complain(&format!("{at}/resources/limits/memory"), format!("{name} has no memory limit"))
        })
    })
}

fn limit_fits_request(subject: &Subject<'_>) -> Vec<Complaint> {
    each(subject, false, |at, name, container| {
        let amount = |list: &str| {
            let text = container["resources"][list]["memory"].as_str()?;
            crate::quantity::Quantity::parse(text).ok().map(|amount| amount.as_f64())
        };
        let (request, limit) = (amount("requests")?, amount("limits")?);
        let times = limit / request;
        (request > 0.0 && times > 4.0).then(|| {
            subject.complain(
                &format!("{at}/resources/limits/memory"),
                format!("the memory limit of {name} is {times:.0} times its request"),
            )
        })
    })
}

fn readiness_probe(subject: &Subject<'_>) -> Vec<Complaint> {
    if subject.ends() {
        return Vec::new();
    }
    each(subject, false, |at, name, container| {
        let serves = container["ports"].as_array().is_some_and(|ports| !ports.is_empty());
        (serves && container["readinessProbe"].is_null()).then(|| {
            subject.complain(
                &format!("{at}/readinessProbe"),
                format!("{name} listens on a port, but has no readiness probe"),
            )
        })
    })
}

fn liveness_probe(subject: &Subject<'_>) -> Vec<Complaint> {
    if subject.ends() {
        return Vec::new();
    }
    each(subject, false, |at, name, container| {
        let (live, ready) = (&container["livenessProbe"], &container["readinessProbe"]);
        let message = match (live.is_null(), live == ready) {
            (true, _) => format!("{name} has no liveness probe: a deadlock is never noticed"),
            (false, true) => format!("{name} has the same probe for liveness and readiness"),
            (false, false) => return None,
        };
        Some(subject.complain(&format!("{at}/livenessProbe"), message))
    })
}

fn restart_policy(subject: &Subject<'_>) -> Vec<Complaint> {
    let bare = subject.object.kind() == "Pod" && subject.object.owner_references().is_empty();
    let policy = subject.spec("/restartPolicy").and_then(Value::as_str).unwrap_or("Always");
    match (bare, policy) {
        (true, "Always") => {
            vec![subject.complain(
                "/restartPolicy",
                "a bare pod isn't made again when its node goes: use a Deployment",
            )]
        }
        (true, other) => vec![subject.complain(
            "/restartPolicy",
            format!("a bare pod with restartPolicy {other} isn't made again: use a Job"),
        )],
        _ => Vec::new(),
    }
}

fn host_path(subject: &Subject<'_>) -> Vec<Complaint> {
    volumes(subject, |at, volume| {
        let path = volume["hostPath"]["path"].as_str()?;
        Some(subject.complain(
            &format!("{at}/hostPath"),
            format!("volume {} is the node's {path}", volume["name"].as_str().unwrap_or_default()),
        ))
    })
}

fn empty_dir_limit(subject: &Subject<'_>) -> Vec<Complaint> {
    volumes(subject, |at, volume| {
        let none = volume.get("emptyDir").is_some_and(|dir| dir["sizeLimit"].is_null());
        let name = volume["name"].as_str().unwrap_or_default();
        none.then(|| {
            subject.complain(&format!("{at}/emptyDir/sizeLimit"), format!("volume {name} has no size limit"))
        })
    })
}

fn privileged(subject: &Subject<'_>) -> Vec<Complaint> {
    let hosts = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|name| subject.spec(&format!("/{name}")) == Some(&true.into()));
    let mut found: Vec<Complaint> = hosts
        .map(|name| {
            subject.complain(&format!("/{name}"), format!("the pod shares the node's namespace ({name})"))
        })
        .collect();
    found.extend(each(subject, true, |at, name, container| {
        (container["securityContext"]["privileged"] == true).then(|| {
            subject.complain(&format!("{at}/securityContext/privileged"), format!("{name} is privileged"))
        })
    }));
    found
}

fn run_as_non_root(subject: &Subject<'_>) -> Vec<Complaint> {
    let of_pod = subject.spec("/securityContext").cloned().unwrap_or_default();
    each(subject, true, |at, name, container| {
        let own = &container["securityContext"];
        let set = |field: &str| if own[field].is_null() { of_pod[field].clone() } else { own[field].clone() };
        let user = set("runAsUser").as_i64();
        let safe = set("runAsNonRoot") == true || user.is_some_and(|user| user > 0);
        (!safe).then(|| {
            subject.complain(&format!("{at}/securityContext/runAsNonRoot"), format!("{name} may run as root"))
        })
    })
}

fn privilege_escalation(subject: &Subject<'_>) -> Vec<Complaint> {
    each(subject, true, |at, name, container| {
        let own = &container["securityContext"];
        let dropped =
            own["capabilities"]["drop"].as_array().is_some_and(|all| all.iter().any(|one| one == "ALL"));
        let what = match (own["allowPrivilegeEscalation"] == false, dropped) {
            (true, true) => return None,
            (false, _) => "allows privilege escalation",
            (true, false) => "keeps capabilities that it may not need (drop ALL, add what is needed)",
        };
        Some(subject.complain(&format!("{at}/securityContext"), format!("{name} {what}")))
    })
}

fn read_only_root(subject: &Subject<'_>) -> Vec<Complaint> {
    each(subject, false, |at, name, container| {
        (container["securityContext"]["readOnlyRootFilesystem"] != true).then(|| {
            subject.complain(
                &format!("{at}/securityContext/readOnlyRootFilesystem"),
                format!("{name} may write to its root file system"),
            )
        })
    })
}

fn plain_secrets(subject: &Subject<'_>) -> Vec<Complaint> {
    let words = ["PASSWORD", "PASSWD", "SECRET", "TOKEN", "API_KEY", "PRIVATE_KEY"];
    let containers = subject.containers(true).into_iter();
    let entries = containers.flat_map(|(at, name, container)| {
        let env = container["env"].as_array().into_iter().flatten().enumerate();
        env.map(move |(index, entry)| (format!("{at}/env/{index}/value"), name, entry)).collect::<Vec<_>>()
    });
    entries
        .filter_map(|(at, container, entry)| {
            let name = entry["name"].as_str()?;
            let plain = entry["value"].as_str().is_some_and(|value| !value.is_empty());
            let secret = words.iter().any(|word| name.to_uppercase().contains(word))
                && !name.to_uppercase().ends_with("_FILE");
            // The value itself is never shown.
            (plain && secret).then(|| {
                subject.complain(&at, format!("{name} of {container} stands in the manifest: use a Secret"))
            })
        })
        .collect()
}

fn grace_period(subject: &Subject<'_>) -> Vec<Complaint> {
    match subject.spec("/terminationGracePeriodSeconds").and_then(Value::as_i64) {
        Some(0) => {
            vec![subject.complain(
                "/terminationGracePeriodSeconds",
                "the grace period is 0: the pod is killed at once",
            )]
        }
        _ => Vec::new(),
    }
}

pub(super) fn each(
    subject: &Subject<'_>,
    with_init: bool,
    check: impl Fn(&str, &str, &Value) -> Option<Complaint>,
) -> Vec<Complaint> {
    subject
        .containers(with_init)
        .into_iter()
        .filter_map(|(at, name, container)| check(&at, name, container))
        .collect()
}

fn volumes(subject: &Subject<'_>, check: impl Fn(&str, &Value) -> Option<Complaint>) -> Vec<Complaint> {
    let all = subject.spec("/volumes").and_then(Value::as_array).into_iter().flatten().enumerate();
    all.filter_map(|(at, volume)| check(&format!("/volumes/{at}"), volume)).collect()
}
