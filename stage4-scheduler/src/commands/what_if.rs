//! What if: small changes to a cluster's objects before they are looked at, never to the cluster.
//!
//! `--with-node FILE` adds the nodes of a file, `--with-node NAME=cpu=4,memory=8Gi,zone=a` makes one up, `--with-node
//! NAME=like=OTHER` copies one; `--without-taint KEY` takes a taint off all nodes; `--replicas N` asks for N pods instead of one.
//!
//! The order of the flags, and of the parts of one flag, changes nothing: what a node is copied from may be made up by a later flag,
//! and what is said beside `like=` wins over the copy.
//!
//! # Invariants
//! 1. A change is made to the objects in memory; nothing is written anywhere.
//!
//! # In Kubernetes
//! Nothing.

use clap::Args;
use serde_json::{Value, json};

use super::CommandError;

/// Names of resources, to tell them from labels.
const RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// The flags.
#[derive(Args, Clone, Debug, Default)]
pub struct WhatIf {
    /// Adds nodes: a file, NAME=cpu=4,memory=8Gi,zone=a (resources and labels), or NAME=like=OTHER
    #[arg(long, value_name = "FILE|NAME=…")]
    pub with_node: Vec<String>,
    /// Takes a taint off all nodes
    #[arg(long, value_name = "KEY")]
    pub without_taint: Vec<String>,
    /// Leaves a node out
    #[arg(long, value_name = "NAME")]
    pub without_node: Vec<String>,
}

/// Makes the changes. `read` reads the objects of a file.
///
/// # Errors
/// A node that can't be made up, a file that can't be read.
pub fn apply(
    objects: &mut Vec<Value>,
    wishes: &WhatIf,
    read: impl Fn(&str) -> Result<Vec<Value>, CommandError>,
) -> Result<(), CommandError> {
    add_nodes(objects, &wishes.with_node, read)?;
    objects.retain(|object| {
        object["kind"] != "Node"
            || !wishes.without_node.iter().any(|name| object["metadata"]["name"] == **name)
    });
    for node in objects.iter_mut().filter(|object| object["kind"] == "Node") {
        for key in &wishes.without_taint {
            if let Some(taints) = node["spec"]["taints"].as_array_mut() {
                taints.retain(|taint| taint["key"] != **key);
            }
            if key == "node.kubernetes.io/unschedulable" {
                node["spec"]["unschedulable"] = false.into();
            }
        }
    }
    Ok(())
}

/// A node to be made up: its name, and what is said of it.
struct Description<'w> {
    name: &'w str,
    like: Option<&'w str>,
    parts: Vec<(&'w str, &'w str)>,
    wish: &'w str,
}

impl<'w> Description<'w> {
    fn wrong(&self, why: &str) -> CommandError {
        CommandError::Usage(format!("--with-node {}: {why}", self.wish))
    }

    fn parse(name: &'w str, how: &'w str, wish: &'w str) -> Result<Self, CommandError> {
        let mut description = Description { name, like: None, parts: Vec::new(), wish };
        for part in how.split(',').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                None => return Err(description.wrong(&format!("{part:?} is no KEY=VALUE"))),
                Some(("like", other)) => description.like = Some(other),
                Some(pair) => description.parts.push(pair),
            }
        }
        Ok(description)
    }
}

/// Adds the nodes in the order of the flags. A copy waits until what it is copied from is there.
fn add_nodes(
    objects: &mut Vec<Value>,
    wishes: &[String],
    read: impl Fn(&str) -> Result<Vec<Value>, CommandError>,
) -> Result<(), CommandError> {
    let mut added: Vec<Vec<Value>> = Vec::new();
    let mut waiting: Vec<(usize, Description<'_>)> = Vec::new();
    for (at, wish) in wishes.iter().enumerate() {
        added.push(Vec::new());
        match wish.split_once('=') {
            Some((name, how)) if !name.contains('/') => {
                waiting.push((at, Description::parse(name, how, wish)?));
            }
            _ => added[at] = read(wish)?.into_iter().filter(|object| object["kind"] == "Node").collect(),
        }
    }
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut left = Vec::new();
        for (at, description) in waiting {
            let known = objects.iter().chain(added.iter().flatten()).filter(|o| o["kind"] == "Node");
            let find = |other: &str| known.clone().find(|node| node["metadata"]["name"] == other);
            let made = match description.like.map(find) {
                None => Some(made_up(&description, None)),
                Some(Some(like)) => Some(made_up(&description, Some(like))),
                Some(None) => None,
            };
            match made {
                Some(node) => added[at].push(node),
                None => left.push((at, description)),
            }
        }
        if left.len() == before {
            let (_, first) = &left[0];
            return Err(first.wrong(&format!("there is no node {:?}", first.like.unwrap_or(""))));
        }
        waiting = left;
    }
    objects.extend(added.into_iter().flatten());
    Ok(())
}

fn made_up(description: &Description<'_>, like: Option<&Value>) -> Value {
    let mut node = json!({"kind": "Node", "metadata": {"labels": {}}, "spec": {}, "status": {"allocatable": {"pods": "110"}}});
    if let Some(like) = like {
        node["metadata"]["labels"] = like["metadata"]["labels"].clone();
        node["spec"] = json!({"taints": like["spec"]["taints"]});
        node["status"] = json!({"allocatable": like["status"]["allocatable"]});
    }
    for (key, value) in &description.parts {
        let extended = key.contains('/') && stage1_kubectl::quantity::Quantity::parse(value).is_ok();
        if RESOURCES.contains(key) || extended {
            node["status"]["allocatable"][*key] = (*value).into();
        } else {
            node["metadata"]["labels"][*key] = (*value).into();
        }
    }
    node["metadata"]["name"] = description.name.into();
    node["metadata"]["labels"]["kubernetes.io/hostname"] = description.name.into();
    node
}

/// As many pods like this one, with numbers in their names.
pub fn replicas(pod: &Value, count: usize) -> Vec<Value> {
    let name = pod["metadata"]["name"].as_str().unwrap_or("pod").to_owned();
    let copy = |number: usize| {
        let mut copy = pod.clone();
        copy["metadata"]["name"] = format!("{name}-{number}").into();
        if let Some(metadata) = copy["metadata"].as_object_mut() {
            metadata.remove("uid");
        }
        copy
    };
    (0..count).map(copy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_added_copied_left_out_and_relieved_of_taints() {
        let old = json!({"kind": "Node", "metadata": {"name": "old", "labels": {"disk": "ssd"}},
            "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}, {"key": "x", "effect": "NoSchedule"}]}, "status": {"allocatable": {"cpu": "8"}}});
        let mut objects = vec![old];
        let wishes = WhatIf {
            with_node: vec![
                "made=cpu=4,topology.kubernetes.io/zone=a,zone=b".into(),
                "twin=like=old".into(),
                "f.yaml".into(),
            ],
            without_taint: vec!["gpu".into()],
            without_node: vec!["old".into()],
        };
        apply(&mut objects, &wishes, |_| Ok(vec![json!({"kind": "Node", "metadata": {"name": "file"}})]))
            .unwrap();
        let names: Vec<_> = objects.iter().map(|node| node["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["made", "twin", "file"]);
        assert_eq!(objects[0]["status"]["allocatable"]["cpu"], "4");
        assert_eq!(objects[0]["metadata"]["labels"]["zone"], "b");
        assert_eq!(objects[0]["metadata"]["labels"]["topology.kubernetes.io/zone"], "a");
        assert_eq!(objects[1]["spec"]["taints"], json!([{"key": "x", "effect": "NoSchedule"}]));
        assert_eq!(objects[1]["metadata"]["labels"]["disk"], "ssd");
        let wrong = WhatIf { with_node: vec!["a=like=none".into()], ..WhatIf::default() };
        let error = apply(&mut Vec::new(), &wrong, |_| Ok(Vec::new())).unwrap_err();
        assert_eq!(error.to_string(), "--with-node a=like=none: there is no node \"none\"");
    }

    #[test]
    fn the_order_of_flags_and_of_their_parts_changes_nothing() {
        let old = json!({"kind": "Node", "metadata": {"name": "old", "labels": {"disk": "ssd"}}, "status": {"allocatable": {"cpu": "8"}}});
        let nodes = |with_node: [&str; 3]| {
            let mut objects = vec![old.clone()];
            let wishes = WhatIf { with_node: with_node.map(str::to_owned).to_vec(), ..WhatIf::default() };
            apply(&mut objects, &wishes, |_| Ok(Vec::new())).unwrap();
            objects.sort_by_key(|node| node["metadata"]["name"].to_string());
            objects
        };
        let forward = nodes(["a=like=old,cpu=4,disk=hdd", "b=like=a,memory=1Gi", "c=like=b"]);
        assert_eq!(forward, nodes(["c=like=b", "b=memory=1Gi,like=a", "a=cpu=4,disk=hdd,like=old"]));
        assert_eq!(forward[0]["status"]["allocatable"]["cpu"], "4");
        assert_eq!(forward[2]["metadata"]["labels"]["disk"], "hdd");
        assert_eq!(forward[2]["status"]["allocatable"]["memory"], "1Gi");
        let circle = WhatIf { with_node: vec!["a=like=b".into(), "b=like=a".into()], ..WhatIf::default() };
        assert!(
            apply(&mut Vec::new(), &circle, |_| Ok(Vec::new())).is_err(),
            "two that are copies of each other"
        );
    }
}
