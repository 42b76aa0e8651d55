//! Health: what a cluster without a lab looks like, and how it gets there again.
//!
//! The healthy control of every lab: all components run, the node is Ready, the learner is let in, and no lab's namespace is left. A
//! start begins only from here and a reset ends only here, so that no lab inherits another one's fault.
//!
//! # Invariants
//! 1. [`restore`] twice is [`restore`] once.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: waits and reads the clock")]

use std::time::Instant;

use anyhow::ensure;
use stage1_kubectl::state_dir::StateDir;

use super::{PATIENCE, PERIOD, wait};
use crate::lab::cluster::{NODE, components};
use crate::lab::probe::Probe;
use crate::lab::real_world::RealWorld;
use crate::lab::texts::say;
use crate::lab::variation::NAMESPACE_PREFIX;
use crate::lab::{learner, source_copy};

/// Labs need the lab cluster.
pub(super) fn ensure_running(state_dir: &StateDir) -> anyhow::Result<()> {
    let dir = state_dir.root().display();
    ensure!(components::running(state_dir), say("cluster.none", &[("dir", &dir)]));
    ensure!(components::ready_file(state_dir).exists(), say("cluster.starting", &[("dir", &dir)]));
    Ok(())
}

/// What is still wrong with a cluster without a lab; the healthy control of every lab.
pub(super) fn unhealthy(world: &RealWorld) -> Option<String> {
    let component = |name: &str| Probe::Value {
        subject: format!("Component/{name}"),
        path: ".status".into(),
        is: "running".into(),
    };
    let mut probes: Vec<Probe> =
        components::PROGRAMS.iter().filter(|name| **name != "kubectl").map(|name| component(name)).collect();
    let ready = ".status.conditions[?(@.type==\"Ready\")].status";
    probes.push(Probe::Value { subject: format!("Node/{NODE}"), path: ready.into(), is: "True".into() });
    probes.push(Probe::Kubectl { args: vec!["auth".into(), "whoami".into()], prints: "*".into() });
    let seen = Probe::All(probes).check(world);
    if !seen.holds {
        return Some(seen.text);
    }
    match lab_namespaces(world) {
        Ok(left) if left.is_empty() => None,
        Ok(left) => Some(say("health.namespace", &[("names", &left.join(", "))])),
        Err(error) => Some(format!("{error:#}")),
    }
}

fn lab_namespaces(world: &RealWorld) -> anyhow::Result<Vec<String>> {
    let names = world.kubectl(&["get", "namespaces", "-o", "name"].map(str::to_owned))?;
    let names = names.lines().filter_map(|line| line.strip_prefix("namespace/"));
    Ok(names.filter(|name| name.starts_with(NAMESPACE_PREFIX)).map(str::to_owned).collect())
}

/// Components, kubeconfig, taints and namespaces as they were.
pub(super) fn restore(world: &RealWorld) -> anyhow::Result<()> {
    let state_dir = world.state_dir();
    ensure_running(state_dir)?;
    for name in components::PROGRAMS.iter().filter(|name| **name != "kubectl") {
        components::restore(state_dir, name)?;
    }
    learner::write(state_dir, &learner::server(state_dir)?)?;
    source_copy::remove(state_dir)?;
    wait(
        &Probe::Value { subject: format!("Node/{NODE}"), path: ".metadata.name".into(), is: NODE.into() },
        world,
    )?;
    for name in lab_namespaces(world)? {
        let all =
            ["delete", "pods", "--all", "--grace-period=1", "--wait=false", "-n", &name].map(str::to_owned);
        world.kubectl(&all)?;
        world.kubectl(&["delete", "namespace", &name, "--wait=false"].map(str::to_owned))?;
    }
    let taints =
        ["patch", "node", NODE, "--type=merge", "-p", r#"{"spec":{"taints":null,"unschedulable":null}}"#];
    world.kubectl(&taints.map(str::to_owned))?;
    let start = Instant::now();
    while let Some(why) = unhealthy(world) {
        ensure!(start.elapsed() < PATIENCE, say("reset.unhealthy", &[("why", &why)]));
        std::thread::sleep(PERIOD);
    }
    Ok(())
}
