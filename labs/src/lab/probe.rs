//! Probes: questions with a yes or no, and what was seen.
//!
//! A lab waits for probes (healthy, broken, repaired), chooses hints by them and explains verdicts with what they saw. The
//! "seen" text is half of the point: `still broken` without it would be an insult.
//!
//! # Invariants
//! 1. What can't be looked at doesn't hold, and the text says why.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use serde::Deserialize;

use super::texts::say;
use super::world::{World, matches, values};

/// A question. In a lab's file each is a map with one key.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Probe {
    /// A value of a subject matches a pattern.
    Value {
        /// As in [`super::world`].
        subject: String,
        /// JSONPath.
        path: String,
        /// Pattern with `*`; an empty one is for "no value".
        is: String,
    },
    /// There is no such subject.
    Absent(String),
    /// There is such a subject.
    Present(String),
    /// A Service answers a request from the node.
    Answers {
        /// Its name.
        service: String,
        /// Its port.
        port: u16,
    },
    /// kubectl with the learner's kubeconfig succeeds, and prints something that matches.
    Kubectl {
        /// Its arguments.
        args: Vec<String>,
        /// Pattern for all that it prints.
        #[serde(default = "anything")]
        prints: String,
    },
    /// kubectl with the learner's kubeconfig fails, and prints something that matches.
    KubectlFails {
        /// Its arguments.
        args: Vec<String>,
        /// Pattern for all that it prints.
        prints: String,
    },
    /// The first pod that matches is Ready and its containers have run for so long without a restart.
    Steady {
        /// `Pod/web-*`.
        pod: String,
        /// How long.
        seconds: i64,
    },
    /// The learner's copy of the source passes its tests.
    SourceCopyPasses,
    /// All of these.
    All(Vec<Probe>),
    /// Not this.
    Not(Box<Probe>),
}

fn anything() -> String {
    "*".to_owned()
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Yes?
    pub holds: bool,
    /// What was seen.
    pub text: String,
}

// ANCHOR: lab-probe
impl Probe {
    /// Looks, and says what was seen.
    pub fn check(&self, world: &dyn World) -> Seen {
        match self {
            Probe::Value { subject, path, is } => look(world, subject, |value| {
                let value = value.map(|value| values(&value, path)).unwrap_or_default();
                let key = if value.is_empty() { "seen.not-set" } else { "seen.value" };
                let text = say(key, &[("subject", subject), ("path", path), ("value", &value)]);
                Seen { holds: matches(is, &value), text }
            }),
            Probe::Absent(subject) => look(world, subject, |value| presence(subject, value.is_some(), false)),
            Probe::Present(subject) => look(world, subject, |value| presence(subject, value.is_some(), true)),
            Probe::Answers { service, port } => match world.http(service, *port) {
                Ok(_) => {
                    Seen { holds: true, text: say("seen.answers", &[("service", service), ("port", port)]) }
                }
                Err(why) => Seen {
                    holds: false,
                    text: say("seen.no-answer", &[("service", service), ("port", port), ("why", &why)]),
                },
            },
            Probe::Kubectl { args, prints } => kubectl(world, args, prints, true),
            Probe::KubectlFails { args, prints } => kubectl(world, args, prints, false),
            Probe::Steady { pod, seconds } => {
                look(world, pod, |value| steady(pod, value, *seconds, world.now_seconds()))
            }
            Probe::SourceCopyPasses => match world.source_copy_passes() {
                Ok(()) => Seen { holds: true, text: say("seen.copy-passes", &[]) },
                Err(why) => Seen { holds: false, text: why },
            },
            Probe::All(probes) => {
                let mut texts = Vec::new();
                for probe in probes {
                    let seen = probe.check(world);
                    if !seen.holds {
                        return seen;
                    }
                    texts.push(seen.text);
                }
                Seen { holds: true, text: texts.join("; ") }
            }
            Probe::Not(probe) => {
                let seen = probe.check(world);
                Seen { holds: !seen.holds, text: seen.text }
            }
        }
    }
}
// ANCHOR_END: lab-probe

fn look(world: &dyn World, subject: &str, judge: impl FnOnce(Option<serde_json::Value>) -> Seen) -> Seen {
    match world.subject(subject) {
        Ok(value) => judge(value),
        Err(why) => Seen { holds: false, text: format!("{subject}: {why}") },
    }
}

fn presence(subject: &str, present: bool, wanted: bool) -> Seen {
    let key = if present { "seen.present" } else { "seen.absent" };
    Seen { holds: present == wanted, text: say(key, &[("subject", &subject)]) }
}

fn kubectl(world: &dyn World, args: &[String], prints: &str, succeeds: bool) -> Seen {
    let (code, output) = world.learner_kubectl(args);
    let shown = output.trim().lines().last().unwrap_or_default();
    Seen {
        holds: (code == 0) == succeeds && matches(prints, output.trim()),
        text: say(
            "seen.kubectl",
            &[("args", &args.join(" ")), ("code", &code), ("shown", &format!("{shown:?}"))],
        ),
    }
}

fn steady(pod: &str, value: Option<serde_json::Value>, seconds: i64, now: i64) -> Seen {
    let Some(value) = value else { return presence(pod, false, true) };
    let ready = values(&value, ".status.conditions[?(@.type==\"Ready\")].status");
    if ready != "True" {
        return Seen { holds: false, text: say("seen.not-ready", &[("pod", &pod)]) };
    }
    let started = values(&value, ".status.containerStatuses[*].state.running.startedAt");
    let newest = started.split(' ').filter_map(|time| time.parse::<jiff::Timestamp>().ok()).max();
    let age = newest.map_or(0, |time| now - time.as_second());
    let restarts = values(&value, ".status.containerStatuses[*].restartCount");
    Seen {
        holds: age >= seconds,
        text: say(
            "seen.steady",
            &[("pod", &pod), ("age", &age), ("restarts", &restarts), ("seconds", &seconds)],
        ),
    }
}

#[cfg(test)]
mod tests;
