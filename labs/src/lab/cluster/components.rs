//! Components: what a file of `components/` says.
//!
//! ```yaml
//! # kept running by `labs cluster`: edit it and the component restarts, move it away and it stops
//! name: kube-scheduler
//! command:
//! - /…/kube-scheduler
//! - --kubeconfig=/…/kube-scheduler.kubeconfig
//! ```
//!
//! # Invariants
//! 1. A file that can't be read as a manifest stops its component and says so in `status.json`; it never stops the others.
//!
//! # In Kubernetes
//! Static pod manifests. Left out: everything of a pod but its command.
#![expect(clippy::disallowed_methods, reason = "shell: reads and writes the manifests")]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use stage1_kubectl::state_dir::{StateDir, make_private};
use stage5_kubelet::pipeline::NodeHandle;

use crate::lab::texts::say;

/// The programs of a cluster.
pub const PROGRAMS: [&str; 6] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"];

/// A component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Its name.
    pub name: String,
    /// The program and its flags.
    pub command: Vec<String>,
}

/// Where the manifests are.
pub fn dir(state_dir: &StateDir) -> PathBuf {
    state_dir.root().join("components")
}

/// The file of a component.
pub fn file(state_dir: &StateDir, name: &str) -> PathBuf {
    dir(state_dir).join(format!("{name}.yaml"))
}

/// Where the supervisor says how the components are.
pub fn status_file(state_dir: &StateDir) -> PathBuf {
    dir(state_dir).join("status.json")
}

/// Takes the cluster for this process.
///
/// # Errors
/// Another one has it.
pub fn lock(state_dir: &StateDir) -> anyhow::Result<Flock<std::fs::File>> {
    make_private(&dir(state_dir))?;
    let path = dir(state_dir).join("lock");
    let file = std::fs::File::options().create(true).truncate(false).write(true).open(&path)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| anyhow::anyhow!("a lab cluster runs already in {}", state_dir.root().display()))
}

/// There while the cluster is ready: its components run, and its node was Ready.
pub fn ready_file(state_dir: &StateDir) -> PathBuf {
    dir(state_dir).join("ready")
}

/// Does a lab cluster run in this state directory?
pub fn running(state_dir: &StateDir) -> bool {
    let Ok(file) = std::fs::File::open(dir(state_dir).join("lock")) else { return false };
    Flock::lock(file, FlockArg::LockSharedNonblock).is_err()
}

impl Manifest {
    fn new(name: &str, prefix: &[String], bin: &Path, flags: &[(&str, String)]) -> Self {
        let program = bin.join(name).display().to_string();
        let flags = flags.iter().map(|(flag, value)| format!("--{flag}={value}"));
        Self {
            name: name.to_owned(),
            command: prefix.iter().cloned().chain([program]).chain(flags).collect(),
        }
    }

    /// The three components of the control plane, the API server first.
    pub fn control_plane(state_dir: &StateDir, bin: &Path, gateway: Ipv4Addr) -> Vec<Self> {
        let kubeconfig = |name: &str| state_dir.kubeconfig(name).display().to_string();
        let free_port = || ("secure-port", "0".to_owned());
        let api = [
            ("state-dir", state_dir.root().display().to_string()),
            free_port(),
            ("bind-address", format!("127.0.0.1,{gateway}")),
            ("advertise-address", gateway.to_string()),
        ];
        let client = |name: &str| Self::new(name, &[], bin, &[("kubeconfig", kubeconfig(name)), free_port()]);
        vec![
            Self::new("kube-apiserver", &[], bin, &api),
            client("kube-controller-manager"),
            client("kube-scheduler"),
        ]
    }

    /// The two components of the node, which run in its network namespace.
    ///
    /// # Errors
    /// The node has no namespace.
    pub fn node(
        state_dir: &StateDir,
        bin: &Path,
        node: &NodeHandle,
        cgroup_root: &str,
        (kubelet, proxy): &(PathBuf, PathBuf),
    ) -> anyhow::Result<Vec<Self>> {
        let netns = node.netns.as_ref().context("the node has no network namespace")?;
        let enter = ["nsenter".to_owned(), format!("--net={}", netns.display())];
        let shown = |path: &Path| path.display().to_string();
        let socket = state_dir.run_dir()?.join(&node.name).join("containerd.sock");
        let flags = [
            ("kubeconfig", shown(kubelet)),
            ("container-runtime-endpoint", format!("unix://{}", socket.display())),
            ("hostname-override", node.name.clone()),
            ("node-ip", node.ip.to_string()),
            ("root-dir", shown(&state_dir.node(&node.name).join("kubelet"))),
            ("cgroup-root", cgroup_root.to_owned()),
            ("client-ca-file", shown(&state_dir.pki().join("ca.crt"))),
        ];
        let proxy_flags = [("kubeconfig", shown(proxy)), ("hostname-override", node.name.clone())];
        Ok(vec![
            Self::new("kubelet", &enter, bin, &flags),
            Self::new("kube-proxy", &enter, bin, &proxy_flags),
        ])
    }
}

/// Writes manifests, and a copy of each beside them (`.sound`) that a reset puts back.
///
/// # Errors
/// A file can't be written.
pub fn write(state_dir: &StateDir, manifests: &[Manifest]) -> anyhow::Result<()> {
    for manifest in manifests {
        let path = file(state_dir, &manifest.name);
        let text = text(manifest)?;
        for path in [path.with_extension("yaml.sound"), path] {
            replace(&path, &text)?;
        }
    }
    Ok(())
}

/// Changes a component's manifest; the sound copy stays.
///
/// # Errors
/// The file can't be written.
pub fn edit(state_dir: &StateDir, manifest: &Manifest) -> anyhow::Result<()> {
    replace(&file(state_dir, &manifest.name), &text(manifest)?)
}

fn text(manifest: &Manifest) -> anyhow::Result<String> {
    let head = say("cluster.manifest", &[]);
    Ok(format!("# {head}\n{}", stage1_kubectl::yaml::to_yaml(&serde_json::to_value(manifest)?)))
}

/// Puts a component's sound manifest back.
///
/// # Errors
/// A file can't be read or written.
pub fn restore(state_dir: &StateDir, name: &str) -> anyhow::Result<()> {
    let path = file(state_dir, name);
    let sound = path.with_extension("yaml.sound");
    let text = std::fs::read_to_string(&sound).with_context(|| sound.display().to_string())?;
    if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
        replace(&path, &text)?;
    }
    Ok(())
}

/// Written beside and renamed: the supervisor never reads half a file.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text).with_context(|| new.display().to_string())?;
    std::fs::rename(&new, path).with_context(|| path.display().to_string())
}

/// What tells a file from an older one of its name: replaced, edited, or grown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    path: PathBuf,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

/// The folder of manifests, read anew only when one of its files has changed.
#[derive(Debug, Default)]
pub struct Folder {
    seen: Option<Vec<Entry>>,
    manifests: BTreeMap<String, Result<Manifest, String>>,
}

impl Folder {
    /// The manifests as they are now.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn look(
        &mut self,
        state_dir: &StateDir,
    ) -> std::io::Result<&BTreeMap<String, Result<Manifest, String>>> {
        use std::os::unix::fs::MetadataExt as _;
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(dir(state_dir))? {
            let path = entry?.path();
            // A file that goes away between the two calls is no longer there.
            let Ok(file) = std::fs::metadata(&path) else { continue };
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let changed = (file.ctime(), file.ctime_nsec());
                entries.push(Entry { path, inode: file.ino(), length: file.len(), changed });
            }
        }
        if self.seen.as_ref() != Some(&entries) {
            self.manifests = read(state_dir)?;
            self.seen = Some(entries);
        }
        Ok(&self.manifests)
    }
}

/// Reads the manifests; what can't be read is told by its name.
///
/// # Errors
/// The folder can't be read.
pub fn read(state_dir: &StateDir) -> std::io::Result<BTreeMap<String, Result<Manifest, String>>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir(state_dir))? {
        let path = entry?.path();
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let manifest = std::fs::read_to_string(&path)
                .map_err(anyhow::Error::from)
                .and_then(|text| parse(&stem, &text));
            found.insert(stem, manifest.map_err(|error| format!("{}: {error:#}", path.display())));
        }
    }
    Ok(found)
}

fn parse(name: &str, text: &str) -> anyhow::Result<Manifest> {
    let documents = stage1_kubectl::manifest::documents(text, name)?;
    let [document] =
        <[_; 1]>::try_from(documents).map_err(|_| anyhow::anyhow!("one document is expected"))?;
    let manifest: Manifest = serde_json::from_value(document)?;
    if manifest.name != name {
        bail!("the file is called {name}, the component {}", manifest.name);
    }
    if manifest.command.is_empty() {
        bail!("the command is empty");
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_a_replaced_a_new_and_a_removed_manifest_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(Some(dir.path().to_owned())).unwrap();
        let mut folder = Folder::default();
        assert!(folder.look(&state_dir).is_err(), "no folder is not an empty folder");
        make_private(&super::dir(&state_dir)).unwrap();
        let manifest =
            |flag: &str| Manifest { name: "a".to_owned(), command: vec!["a".to_owned(), flag.to_owned()] };
        let mut look = || folder.look(&state_dir).unwrap().get("a").cloned();
        assert_eq!(look(), None);
        write(&state_dir, &[manifest("--x")]).unwrap();
        assert_eq!(look(), Some(Ok(manifest("--x"))));
        assert_eq!(look(), Some(Ok(manifest("--x"))));
        edit(&state_dir, &manifest("--y")).unwrap();
        assert_eq!(look(), Some(Ok(manifest("--y"))));
        std::fs::write(file(&state_dir, "a"), "nonsense: [").unwrap();
        assert!(look().unwrap().is_err());
        restore(&state_dir, "a").unwrap();
        assert_eq!(look(), Some(Ok(manifest("--x"))));
        std::fs::remove_file(file(&state_dir, "a")).unwrap();
        assert_eq!(look(), None);
    }
}
