//! What if: small changes to a cluster's objects before they are looked at, never to the cluster.
//!
//! `--with-node FILE` adds the nodes of a file, `--with-node NAME=cpu=4,memory=8Gi,zone=a` makes one up, `--with-node
//! NAME=like=OTHER` copies one; `--without-taint KEY` takes a taint off all nodes; `--replicas N` asks for N pods instead of one.
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
    for wish in &wishes.with_node {
        match wish.split_once('=') {
            Some((name, how)) if !name.contains('/') => {
                let made = made_up(objects, name, how)?;
                objects.push(made);
            }
            _ => objects.extend(read(wish)?.into_iter().filter(|object| object["kind"] == "Node")),
        }
    }
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

fn made_up(objects: &[Value], name: &str, how: &str) -> Result<Value, CommandError> {
    let mut node = json!({"kind": "Node", "metadata": {"labels": {}}, "spec": {}, "status": {"allocatable": {"pods": "110"}}});
    let wrong = |why: String| CommandError::Usage(format!("--with-node {name}={how}: {why}"));
    for part in how.split(',').filter(|part| !part.is_empty()) {
        let Some((key, value)) = part.split_once('=') else {
            return Err(wrong(format!("{part:?} is no KEY=VALUE")));
        };
        if key == "like" {
            let like = objects.iter().find(|o| o["kind"] == "Node" && o["metadata"]["name"] == value);
            let Some(like) = like else { return Err(wrong(format!("there is no node {value:?}"))) };
            node["metadata"]["labels"] = like["metadata"]["labels"].clone();
            node["spec"] = json!({"taints": like["spec"]["taints"]});
            node["status"] = json!({"allocatable": like["status"]["allocatable"]});
        } else if RESOURCES.contains(&key)
            || stage1_kubectl::quantity::Quantity::parse(value).is_ok() && key.contains('/')
        {
            node["status"]["allocatable"][key] = value.into();
        } else {
            node["metadata"]["labels"][key] = value.into();
        }
    }
    node["metadata"]["name"] = name.into();
    node["metadata"]["labels"]["kubernetes.io/hostname"] = name.into();
    Ok(node)
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
        assert!(apply(&mut Vec::new(), &wrong, |_| Ok(Vec::new())).is_err());
    }
}
