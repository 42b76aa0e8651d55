//! What `kubectl debug` makes: a pod with one more container, a changed copy, or a pod for a node.
//!
//! # Invariants
//! 1. Everything here is a function from flags and the live object to an object.
//!
//! # In Kubernetes
//! `generateDebugContainer`, `generatePodCopyWithDebugContainer` and `generateNodeDebugPod` in `kubectl/pkg/cmd/debug/debug.go`.

use serde_json::{Value, json};

use super::DebugArgs;
use super::profile::{Profile, Style};
use crate::commands::run::is_image;
use crate::failure::Failure;
use crate::object::Object;
use crate::patch;

/// Whether the flags fit together.
pub(super) fn check(args: &DebugArgs, set_images: &[(String, String)]) -> Result<(), Failure> {
    let no = |why: &str| Err(Failure::message(why));
    let (image, command) = (!args.image.is_empty(), !args.command.is_empty());
    if args.attach == Some(true) && !image && args.container.is_empty() {
        return no(
            "you must specify --container or create a new container using --image in order to attach.",
        );
    }
    match args.copy_to.is_empty() {
        false if !image && set_images.is_empty() && !command => {
            return no("you must specify --image, --set-image or command arguments.");
        }
        false if command && args.container.is_empty() && !image => {
            return no("you must specify an existing container or a new image when specifying args.");
        }
        false => {}
        true if args.replace => return no("--replace may only be used with --copy-to."),
        true if args.same_node => return no("--same-node may only be used with --copy-to."),
        true if !set_images.is_empty() => return no("--set-image may only be used with --copy-to."),
        true if !image => return no("you must specify --image when not using --copy-to."),
        true => {}
    }
    let invalid = "invalid reference format";
    if image && !is_image(&args.image) {
        return Err(Failure::message(format!("invalid image name {:?}: {invalid}", args.image)));
    }
    if args.targets.is_empty() && args.files.is_empty() {
        return no("NAME or filename is required for debug");
    }
    if !matches!(args.image_pull_policy.as_str(), "" | "Always" | "IfNotPresent" | "Never") {
        return Err(Failure::message(format!("invalid image pull policy: {}", args.image_pull_policy)));
    }
    if let Some((name, image)) = set_images.iter().find(|(_, image)| !is_image(image)) {
        return Err(Failure::message(format!(
            "invalid image name {image:?} for container {name:?}: {invalid}"
        )));
    }
    if !args.target.is_empty() && !args.copy_to.is_empty() {
        return no("--target is incompatible with --copy-to. Use --share-processes instead.");
    }
    if args.tty && !args.stdin {
        return no("-i/--stdin is required for containers with -t/--tty=true");
    }
    Ok(())
}

/// The flags, read.
pub(super) struct Plan<'a> {
    pub args: &'a DebugArgs,
    pub profile: Profile,
    /// A part of a container that goes over the profile's.
    pub custom: Option<Value>,
    pub set_images: Vec<(String, String)>,
}

impl Plan<'_> {
    /// Sets what the flags say about the container.
    fn fill(&self, container: &mut Value) {
        let args = self.args;
        if !args.command.is_empty() {
            let field = if args.arguments_only { "args" } else { "command" };
            if !args.arguments_only {
                container.as_object_mut().map(|fields| fields.remove("args"));
            }
            container[field] = json!(args.command);
        }
        if !args.env.is_empty() {
            let mut env: Vec<(&str, &str)> =
                args.env.iter().filter_map(|pair| pair.split_once('=')).collect();
            env.sort_unstable();
            container["env"] =
                env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        }
        if !args.image.is_empty() {
            container["image"] = args.image.clone().into();
        }
        if !args.image_pull_policy.is_empty() {
            container["imagePullPolicy"] = args.image_pull_policy.clone().into();
        }
        for (field, on) in [("stdin", args.stdin), ("tty", args.tty)] {
            match on {
                true => container[field] = true.into(),
                false => drop(container.as_object_mut().map(|fields| fields.remove(field))),
            }
        }
    }

    /// Profile and custom profile, for the container of this name.
    fn finish(&self, style: Style, list: &str, name: &str, pod: &mut Value) -> Result<Object, String> {
        let containers = pod["spec"][list].as_array_mut().into_iter().flatten();
        for container in containers.filter(|container| container["name"] == name) {
            self.profile.apply_to_container(style, container);
        }
        self.profile.apply_to_pod(style, &self.args.keep, pod);
        if let Some(custom) = &self.custom {
            let mut container = custom.clone();
            container["name"] = name.into();
            let gvk = crate::resource::GroupVersionKind::new("", "v1", "Pod");
            let over = json!({"spec": {list: [container]}});
            patch::apply_strategic(pod, &over, &gvk).map_err(|e| e.to_string())?;
        }
        Object::from_value(pod.take()).map_err(|e| e.to_string())
    }

    /// The pod with one more ephemeral container.
    pub(super) fn with_ephemeral_container(&self, live: &Object, name: &str) -> Result<Object, String> {
        let mut pod = live.as_value().clone();
        let mut container = json!({"name": name, "resources": {}, "terminationMessagePolicy": "File"});
        self.fill(&mut container);
        if !self.args.target.is_empty() {
            container["targetContainerName"] = self.args.target.clone().into();
        }
        match pod["spec"]["ephemeralContainers"].as_array_mut() {
            Some(list) => list.push(container),
            None => pod["spec"]["ephemeralContainers"] = json!([container]),
        }
        self.finish(Style::Ephemeral, "ephemeralContainers", name, &mut pod)
    }

    /// The copy, and the container to attach to (empty when only images change).
    pub(super) fn copy(
        &self,
        live: &Object,
        name: impl FnOnce() -> String,
    ) -> Result<(Object, String), Failure> {
        let args = self.args;
        let mut metadata = json!({"name": args.copy_to, "namespace": live.namespace()});
        for field in ["annotations", "labels"] {
            if let Some(map) = live.get("/metadata").map(|m| &m[field]).filter(|m| m.is_object()) {
                metadata[field] = map.clone();
            }
        }
        let mut spec = live.get("/spec").cloned().unwrap_or_else(|| json!({}));
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("ephemeralContainers");
            if !args.same_node {
                fields.remove("nodeName");
            }
            if let Some(shared) = args.share_processes {
                fields.insert("shareProcessNamespace".into(), shared.into());
            }
        }
        let image_of = |container: &str| {
            let of = |wanted: &str| {
                self.set_images.iter().find(|(name, _)| name == wanted).map(|(_, image)| image)
            };
            of(container).or_else(|| of("*"))
        };
        let mut there = false;
        for container in spec["containers"].as_array_mut().into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default();
            there |= name == args.container;
            if let Some(image) = image_of(name) {
                container["image"] = image.clone().into();
            }
        }
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        if !there && args.image.is_empty() {
            if self.set_images.is_empty() {
                return Err(Failure::message("you must specify image when creating new container"));
            }
            let pod = Object::from_value(pod).map_err(|e| Failure::message(e.to_string()))?;
            return Ok((pod, String::new()));
        }
        let name = if there { args.container.clone() } else { name() };
        let containers = pod["spec"]["containers"].as_array_mut();
        let containers = containers.ok_or_else(|| Failure::message("pod has no containers"))?;
        if !there {
            containers.push(json!({"name": name, "terminationMessagePolicy": "File"}));
        }
        containers.iter_mut().filter(|container| container["name"] == name).for_each(|c| self.fill(c));
        let pod = self.finish(Style::Copy, "containers", &name, &mut pod).map_err(Failure::message)?;
        Ok((pod, name))
    }

    /// The pod for a node.
    pub(super) fn for_node(&self, node: &Object, suffix: &str) -> Result<Object, String> {
        let name = if self.args.container.is_empty() { "debugger" } else { &self.args.container };
        let mut container = json!({"name": name, "terminationMessagePolicy": "File"});
        self.fill(&mut container);
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("node-debugger-{}-{suffix}", node.name())},
            "spec": {
                "containers": [container], "nodeName": node.name(), "restartPolicy": "Never",
                "tolerations": [{"operator": "Exists"}],
            },
        });
        self.finish(Style::Node, "containers", name, &mut pod)
    }
}

/// Whether the pod has a container of this name, of any sort.
pub(super) fn has_container(pod: &Object, name: &str) -> bool {
    let lists = ["/spec/containers", "/spec/initContainers", "/spec/ephemeralContainers"];
    let all = lists.iter().filter_map(|list| pod.get(list)?.as_array()).flatten();
    all.into_iter().any(|container| container["name"] == name)
}

/// Whether a container runs (`true`) or is over (`false`); nothing when it hasn't begun.
pub(super) fn container_runs(pod: &Object, name: &str) -> Option<bool> {
    let lists =
        ["/status/containerStatuses", "/status/initContainerStatuses", "/status/ephemeralContainerStatuses"];
    let mut all = lists.iter().filter_map(|list| pod.get(list)?.as_array()).flatten();
    let state = &all.find(|status| status["name"] == name)?["state"];
    match (state.get("running"), state.get("terminated")) {
        (Some(_), _) => Some(true),
        (_, Some(_)) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
