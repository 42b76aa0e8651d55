//! Which runtime a pipeline's nodes get: the wanted one, or the most real one that can work here.
//!
//! *Step 5 of a pod's journey.* Before: flags and a machine. After: a choice, and the words that say why it is no better one.
//!
//! # Invariants
//! 1. A runtime that was asked for is never silently replaced.
//!
//! # In Kubernetes
//! No counterpart: a kubelet is told its runtime's endpoint.

use stage1_kubectl::state_dir::StateDir;

#[cfg(feature = "containerd")]
use crate::containerd_process::config::Machine;
use crate::options::RuntimeKind;

/// Which runtime, and why not a more real one.
#[derive(Clone, Debug)]
pub struct RuntimeChoice {
    /// The runtime.
    pub kind: RuntimeKind,
    /// For the first lines of the log: what was found, or what to install.
    pub why: String,
    #[cfg(feature = "containerd")]
    pub(super) machine: Option<Machine>,
}

impl RuntimeChoice {
    /// Takes the wanted runtime, or containerd where it can work, else the simulation.
    ///
    /// # Errors
    /// The wanted one can't work here.
    pub fn new(wanted: Option<RuntimeKind>, state_dir: &StateDir) -> anyhow::Result<Self> {
        let sim = |why: String| Self {
            kind: RuntimeKind::Sim,
            why,
            #[cfg(feature = "containerd")]
            machine: None,
        };
        match wanted {
            Some(RuntimeKind::Sim) => {
                return Ok(sim("asked for".to_owned()));
            }
            Some(RuntimeKind::Embedded) => {
                anyhow::bail!("the embedded runtime doesn't exist yet: use containerd or sim")
            }
            Some(RuntimeKind::Containerd) | None => {}
        }
        match Self::containerd(state_dir) {
            Ok(choice) => Ok(choice),
            Err(why) if wanted.is_some() => anyhow::bail!("containerd can't be used: {why}"),
            Err(why) => Ok(sim(why)),
        }
    }

    #[cfg(feature = "containerd")]
    fn containerd(state_dir: &StateDir) -> Result<Self, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("containerd needs root".to_owned());
        }
        let machine = Machine::detect(state_dir.root())
            .map_err(|why| format!("{why} (apt-get install containerd runc containernetworking-plugins)"))?;
        let why = format!("containerd, runc {}, {}", machine.runc.display(), machine.snapshotter);
        Ok(Self { kind: RuntimeKind::Containerd, why, machine: Some(machine) })
    }

    #[cfg(not(feature = "containerd"))]
    fn containerd(_: &StateDir) -> Result<Self, String> {
        Err("built without containerd (cargo feature `real`)".to_owned())
    }
}
