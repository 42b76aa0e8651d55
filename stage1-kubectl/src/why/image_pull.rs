//! Pulls that failed: what kind of trouble is it?
//!
//! *Step 5 of a pod's journey.* Before: the kubelet asked the runtime for an image. After: a waiting reason, and a text that comes
//! from a registry through containerd.
//!
//! Three faults share one reason, `ErrImagePull`: no such image, no right to it, no way to the registry. The text tells them
//! apart. On a machine without a way to any registry even a typo in a tag reads "no such host", so a tag that nobody has,
//! beside another tag of the same image that runs, counts as not found.
//!
//! # Invariants
//! 1. Each failed pull has exactly one problem.
//!
//! # In Kubernetes
//! `pkg/kubelet/images/{image_manager,types}.go`; texts of `containerd/remotes/docker`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Finding;
use super::container::{Container, containers};
use super::facts::Facts;

/// What kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullProblem {
    /// The registry answers that there is no such image or tag.
    NotFound,
    /// The registry answers that we may not.
    Denied,
    /// No answer.
    Unreachable,
    /// The name can't be one.
    InvalidName,
    /// It may not be pulled.
    NeverPulled,
}

/// A container that waits for its image.
#[derive(Debug, Clone)]
pub struct FailedPull<'a> {
    /// The container.
    pub container: Container<'a>,
    /// The image.
    pub image: &'a str,
    /// What kind of trouble.
    pub problem: PullProblem,
    /// Other tags of the same image that run, or lie on nodes.
    pub others: BTreeSet<String>,
}

impl FailedPull<'_> {
    /// `; nginx:1.25 is here`, or nothing.
    #[must_use]
    pub fn known_tags(&self) -> String {
        match self.others.iter().next() {
            None => String::new(),
            Some(first) => format!("; {first} is here"),
        }
    }
}

/// A finding for each pull with this problem: at the image, with the kubelet's words as proof.
#[must_use]
pub fn findings(
    facts: &Facts,
    problem: PullProblem,
    message: impl Fn(&FailedPull<'_>) -> String,
) -> Vec<Finding> {
    let failed = failed_pulls(facts).into_iter().filter(|pull| pull.problem == problem);
    failed
        .map(|pull| {
            let pod = pull.container.pod;
            pull.container
                .finding(facts, "/image")
                .proof(pod, &pull.container.status_pointer("/state/waiting/message"))
                .event(facts.event(pod, "Failed", "Failed to pull image"))
                .message(message(&pull))
        })
        .collect()
}

/// Every container that waits for an image in vain.
#[must_use]
pub fn failed_pulls(facts: &Facts) -> Vec<FailedPull<'_>> {
    let waiting = facts.pods().flat_map(containers).filter_map(|container| {
        let (reason, message) = container.waiting()?;
        let image = container.spec_str("/image");
        let text = match message.contains("rror") || reason == "InvalidImageName" {
            true => message.to_owned(),
            // Older kubelets only say `Back-off pulling image`; the cause is in an event.
            false => {
                let event = facts.event(container.pod, "Failed", "Failed to pull image");
                format!("{message} {}", event.and_then(|event| event.get_str("/message")).unwrap_or_default())
            }
        };
        let others = other_tags(facts, image);
        let problem = problem(reason, &text, !others.is_empty())?;
        Some(FailedPull { container, image, problem, others })
    });
    waiting.collect()
}

/// Reads the problem from the waiting reason and its text.
#[must_use]
pub fn problem(reason: &str, text: &str, other_tag_is_known: bool) -> Option<PullProblem> {
    let has = |words: &[&str]| words.iter().any(|word| text.to_lowercase().contains(word));
    match reason {
        "InvalidImageName" => return Some(PullProblem::InvalidName),
        "ErrImageNeverPull" => return Some(PullProblem::NeverPulled),
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "ImageInspectError" => {}
        _ => return None,
    }
    if has(&[
        "unauthorized",
        "authentication required",
        "denied",
        "forbidden",
        "insufficient_scope",
        "authorization failed",
    ]) {
        return Some(PullProblem::Denied);
    }
    let no_answer = [
        "dial tcp",
        "no such host",
        "connection refused",
        "i/o timeout",
        "no route to host",
        "network is unreachable",
        "tls:",
        "x509",
        "deadline exceeded",
        "http response to https",
        "connection reset",
        "eof",
        "dns",
        "unreachable",
        "error sending request",
    ];
    if has(&no_answer) {
        return Some(if other_tag_is_known { PullProblem::NotFound } else { PullProblem::Unreachable });
    }
    Some(PullProblem::NotFound)
}

/// Other tags of the same repository that run in the cluster, or that a node reports.
fn other_tags(facts: &Facts, image: &str) -> BTreeSet<String> {
    let repository = repository(image);
    let running = facts
        .all("Pod")
        .iter()
        .flat_map(containers)
        .filter(|one| one.is_running() || one.last_end().is_some());
    let running = running.map(|one| one.spec_str("/image").to_owned());
    let on_nodes = facts.all("Node").iter().flat_map(|node| {
        let images = node.get("/status/images").and_then(Value::as_array).into_iter().flatten();
        images
            .flat_map(|image| image["names"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .map(short)
    });
    running
        .chain(on_nodes)
        .filter(|other| {
            super::image_pull::repository(other) == repository && other != image && !other.contains('@')
        })
        .collect()
}

/// `docker.io/library/nginx:1` is what people call `nginx:1`.
fn short(name: &str) -> String {
    name.trim_start_matches("docker.io/").trim_start_matches("library/").to_owned()
}

/// The image's name without tag and digest.
fn repository(image: &str) -> String {
    let name = image.split('@').next().unwrap_or(image);
    let tag = name.rfind(':').filter(|colon| !name[*colon..].contains('/'));
    short(tag.map_or(name, |colon| &name[..colon]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registrys_words_tell_three_problems_apart() {
        let of = |text: &str| problem("ErrImagePull", text, false);
        assert_eq!(
            of("failed to resolve reference \"r/x:1\": r/x:1: not found"),
            Some(PullProblem::NotFound)
        );
        assert_eq!(
            of("pull access denied, repository does not exist or may require authorization"),
            Some(PullProblem::Denied)
        );
        assert_eq!(of("dial tcp: lookup r: no such host"), Some(PullProblem::Unreachable));
        assert_eq!(
            problem("ErrImagePull", "dial tcp: lookup r: no such host", true),
            Some(PullProblem::NotFound)
        );
        assert_eq!(problem("CrashLoopBackOff", "", false), None);
    }

    #[test]
    fn the_tag_is_cut_off_and_the_port_is_not() {
        assert_eq!(repository("127.0.0.1:9/a/b:1"), "127.0.0.1:9/a/b");
        assert_eq!(repository("docker.io/library/nginx:1.25"), "nginx");
        assert_eq!(repository("nginx@sha256:00"), "nginx");
    }
}
