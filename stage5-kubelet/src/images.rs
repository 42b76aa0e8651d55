//! Images: making sure that a container's image is on the node.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::sync_pod`] is about to make a container. After: it knows the image's reference and user.
//!
//! `imagePullPolicy` decides whether the registry is asked at all. Pulls happen one after another: two at a time would only share
//! the same line. A failed pull is not repeated at once; meanwhile the container waits with `ImagePullBackOff`.
//!
//! # Invariants
//! 1. `Never` never talks to a registry, `IfNotPresent` only when the image is absent.
//! 2. Credentials are tried one by one, the most specific registry first, and never logged.
//!
//! # In Kubernetes
//! `pkg/kubelet/images/image_manager.go`, `pkg/credentialprovider`. Left out: credential provider plugins, parallel pulls, image pull
//! credential verification (alpha).
#![expect(clippy::disallowed_methods, reason = "shell: measures the time of a pull")]

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, Secret};
use parking_lot::Mutex;
use stage3_controllers::action::EventText;

use crate::backoff::Backoffs;
use crate::container_spec::ImageUser;
use crate::cri::{CriError, Image};
use crate::kubelet::Kubelet;
use crate::pod::{ContainerKind, PodExt};

mod credentials;
mod reference;
pub use credentials::{Keyring, keyring};
use reference::apply_default_image_tag;

/// What the shell remembers about pulls.
#[derive(Default)]
pub struct ImageManager {
    serial: tokio::sync::Mutex<()>,
    failures: Mutex<HashMap<String, (Timestamp, String)>>,
    backoffs: Mutex<Backoffs>,
}

/// Why there is no image: the waiting reason, its message, and when it may be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageError {
    /// `ErrImagePull`, `ImagePullBackOff`, `ErrImageNeverPull`, `InvalidImageName`
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Not before.
    pub until: Option<Timestamp>,
}

/// What `imagePullPolicy` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullDecision {
    /// Use what is there.
    UsePresent,
    /// Ask the registry.
    Pull,
    /// Nothing can be done.
    NeverPull,
}

/// Whether the registry must be asked.
pub fn pull_decision(container: &Container, present: bool) -> PullDecision {
    match (pull_policy(container), present) {
        ("Always", _) => PullDecision::Pull,
        (_, true) => PullDecision::UsePresent,
        ("Never", false) => PullDecision::NeverPull,
        (_, false) => PullDecision::Pull,
    }
}

fn pull_policy(container: &Container) -> &str {
    let by_tag = || match container.image.as_deref() {
        Some(image)
            if image.ends_with(":latest") || !image.rsplit('/').next().unwrap_or("").contains([':', '@']) =>
        {
            "Always"
        }
        _ => "IfNotPresent",
    };
    container.image_pull_policy.as_deref().filter(|p| !p.is_empty()).unwrap_or_else(by_tag)
}

fn user_of(image: &Image) -> ImageUser {
    match image.uid {
        Some(uid) => ImageUser { uid: Some(uid), username: String::new() },
        None => ImageUser { uid: None, username: image.username.clone() },
    }
}

/// A duration as Go prints it: `40ms`, `1.234s`.
fn go_duration(d: std::time::Duration) -> String {
    let ms = d.as_millis();
    if ms < 1000 {
        return format!("{ms}ms");
    }
    let text = format!("{:.3}", d.as_secs_f64());
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

impl Kubelet {
    /// Makes sure that the container's image is here; returns its reference and the user it is meant to run as.
    ///
    /// # Errors
    /// With the waiting reason that users see.
    pub async fn ensure_image_exists(
        &self,
        pod: &Pod,
        kind: ContainerKind,
        container: &Container,
        keyring: &Keyring,
    ) -> Result<(String, ImageUser), ImageError> {
        let name = container.image.as_deref().unwrap_or_default();
        let event = |text| self.container_event(pod, kind, &container.name, text);
        let reference = apply_default_image_tag(name).map_err(|why| {
            let message = format!(
                "Failed to apply default image tag {name:?}: couldn't parse image name {name:?}: {why}"
            );
            event(EventText::warning("InspectFailed", message.clone()));
            ImageError { reason: "InvalidImageName", message, until: None }
        })?;
        let inspect =
            |e: CriError| ImageError { reason: "ImageInspectError", message: e.to_string(), until: None };
        let present = self.runtime.image_status(&reference).await.map_err(inspect)?;
        match (pull_decision(container, present.is_some()), present) {
            (PullDecision::UsePresent, Some(image)) => {
                event(EventText::normal(
                    "Pulled",
                    format!("Container image \"{name}\" already present on machine"),
                ));
                Ok((image.id.clone(), user_of(&image)))
            }
            (PullDecision::NeverPull, _) => {
                let message = format!("Container image \"{name}\" is not present with pull policy of Never");
                event(EventText::warning("ErrImageNeverPull", message.clone()));
                Err(ImageError { reason: "ErrImageNeverPull", message, until: None })
            }
            _ => self.pull(pod, kind, container, &reference, keyring).await,
        }
    }

    async fn pull(
        &self,
        pod: &Pod,
        kind: ContainerKind,
        container: &Container,
        reference: &str,
        keyring: &Keyring,
    ) -> Result<(String, ImageUser), ImageError> {
        let name = container.image.as_deref().unwrap_or_default();
        let event = |text| self.container_event(pod, kind, &container.name, text);
        let key = format!("{}_{reference}", pod.pod_uid());
        if let Some(error) = self.images.waits(&key, name, Timestamp::now()) {
            event(EventText::normal("BackOff", format!("Back-off pulling image \"{name}\"")));
            return Err(error);
        }
        event(EventText::normal("Pulling", format!("Pulling image \"{name}\"")));
        let asked = std::time::Instant::now();
        let turn = self.images.serial.lock().await;
        let started = std::time::Instant::now();
        let pulled = self.pull_with_credentials(reference, keyring).await;
        let took = (started.elapsed(), asked.elapsed());
        drop(turn);
        match pulled {
            Ok(image_ref) => {
                self.images.succeeded(&key);
                let image = self.runtime.image_status(reference).await.ok().flatten().unwrap_or_default();
                let text = format!(
                    "Successfully pulled image \"{name}\" in {} ({} including waiting). Image size: {} bytes.",
                    go_duration(took.0),
                    go_duration(took.1),
                    image.size_bytes
                );
                event(EventText::normal("Pulled", text));
                Ok((if image.id.is_empty() { image_ref } else { image.id.clone() }, user_of(&image)))
            }
            Err(error) => {
                let message = error.to_string();
                event(EventText::warning("Failed", format!("Failed to pull image \"{name}\": {message}")));
                let now = Timestamp::now();
                self.images.failed(&key, &message, now);
                // Soon, so that the waiting reason becomes ImagePullBackOff.
                let until = Some(now + jiff::SignedDuration::from_secs(1));
                Err(ImageError { reason: "ErrImagePull", message, until })
            }
        }
    }

    async fn pull_with_credentials(&self, reference: &str, keyring: &Keyring) -> Result<String, CriError> {
        let credentials = keyring.lookup(reference);
        if credentials.is_empty() {
            return self.runtime.pull_image(reference, None).await;
        }
        let mut last = None;
        for auth in &credentials {
            match self.runtime.pull_image(reference, Some(auth)).await {
                Ok(image_ref) => return Ok(image_ref),
                Err(e) => last = Some(e),
            }
        }
        Err(last.expect("there is at least one credential"))
    }

    /// The credentials of the pod's pull secrets; a missing secret is told in an event.
    pub async fn pull_keyring(&self, pod: &Pod) -> Keyring {
        let names = pod.spec_ref().image_pull_secrets.iter().flatten().map(|r| r.name.as_str());
        let api = self.client.namespaced::<Secret>(pod.pod_namespace());
        let (mut secrets, mut missing) = (Vec::new(), Vec::new());
        for name in names.filter(|n| !n.is_empty()) {
            match api.get(name).await {
                Ok(secret) => secrets.push(secret),
                Err(_) => missing.push(name),
            }
        }
        if !missing.is_empty() {
            let text = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                missing.join(", ")
            );
            self.pod_event(pod, EventText::warning("FailedToRetrieveImagePullSecret", text));
        }
        keyring(&secrets)
    }
}

impl ImageManager {
    fn waits(&self, key: &str, name: &str, now: Timestamp) -> Option<ImageError> {
        let (failed_at, why) = self.failures.lock().get(key).cloned()?;
        let (until, _) = self.backoffs.lock().until(key, failed_at, now)?;
        let message = format!("Back-off pulling image \"{name}\": ErrImagePull: {why}");
        Some(ImageError { reason: "ImagePullBackOff", message, until: Some(until) })
    }

    fn failed(&self, key: &str, why: &str, now: Timestamp) {
        self.backoffs.lock().next(key, now, now);
        self.failures.lock().insert(key.to_owned(), (now, why.to_owned()));
    }

    fn succeeded(&self, key: &str) {
        self.failures.lock().remove(key);
    }

    /// Forgets old failures.
    pub fn collect_garbage(&self, now: Timestamp) {
        self.backoffs.lock().collect_garbage(now);
        self.failures.lock().retain(|_, (at, _)| now.duration_since(*at) < crate::backoff::MAX_BACK_OFF * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_and_the_tag_decide_whether_the_registry_is_asked() {
        let decide = |image: &str, policy: Option<&str>, present| {
            let c = Container {
                image: Some(image.into()),
                image_pull_policy: policy.map(Into::into),
                ..Container::default()
            };
            pull_decision(&c, present)
        };
        assert_eq!(decide("a:1", None, true), PullDecision::UsePresent);
        assert_eq!(decide("a:1", None, false), PullDecision::Pull);
        assert_eq!(decide("host:5000/a", None, true), PullDecision::Pull);
        assert_eq!(decide("a:1", Some("Never"), false), PullDecision::NeverPull);
        assert_eq!(decide("a:1", Some("Always"), true), PullDecision::Pull);
    }
}
