//! The real world: looking at (and changing) the lab cluster as the lab's own user.
//!
//! It types what a person would type: kubectl with the lab's kubeconfig. A component is looked at where the supervisor writes, the learner's
//! kubeconfig as a file, and a Service is asked from inside the node's network namespace.
//!
//! # Invariants
//! 1. Looking changes nothing.
//! 2. A question waits a few seconds at most; the compiler of the source copy a minute.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: runs kubectl, reads files and the clock")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use stage1_kubectl::state_dir::StateDir;

use super::cluster::supervisor::ComponentStatus;
use super::cluster::{Machine, components};
use super::texts::say;
use super::world::{World, matches};
use super::{learner, source_copy};
use crate::programs;

/// How long a question may take.
const PATIENCE: &str = "5";
/// Enough for the last line.
const END_OF_LOG: u64 = 4096;

/// The lab cluster of a state directory, seen from one namespace.
pub struct RealWorld {
    state_dir: StateDir,
    namespace: String,
    kubectl: PathBuf,
}

impl RealWorld {
    /// The cluster of a state directory.
    ///
    /// # Errors
    /// Our kubectl isn't beside this program.
    pub fn new(state_dir: StateDir, namespace: String) -> anyhow::Result<Self> {
        Ok(Self { state_dir, namespace, kubectl: programs::folder_with(&["kubectl"])?.join("kubectl") })
    }

    /// The state directory.
    pub fn state_dir(&self) -> &StateDir {
        &self.state_dir
    }

    /// Runs kubectl as the lab, in the lab's namespace; answers with what it printed.
    ///
    /// # Errors
    /// It can't be run, or fails.
    pub fn kubectl(&self, args: &[String]) -> anyhow::Result<String> {
        let output = self.run(&learner::harness_kubeconfig(&self.state_dir), args, None)?;
        if !output.status.success() {
            bail!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Applies objects as the lab.
    ///
    /// # Errors
    /// As [`Self::kubectl`].
    pub fn apply(&self, objects: &str) -> anyhow::Result<()> {
        let args = ["apply", "-f", "-"].map(str::to_owned);
        let output = self.run(&learner::harness_kubeconfig(&self.state_dir), &args, Some(objects))?;
        match output.status.success() {
            true => Ok(()),
            false => bail!("kubectl apply: {}", String::from_utf8_lossy(&output.stderr).trim()),
        }
    }

    fn run(&self, kubeconfig: &Path, args: &[String], stdin: Option<&str>) -> anyhow::Result<Output> {
        let mut child = Command::new(&self.kubectl)
            .arg(format!("--namespace={}", self.namespace))
            .arg(format!("--request-timeout={PATIENCE}s"))
            .args(args)
            .env("KUBECONFIG", kubeconfig)
            .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| self.kubectl.display().to_string())?;
        if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
            pipe.write_all(text.as_bytes())?;
        }
        Ok(child.wait_with_output()?)
    }

    /// An object of the lab's namespace; or, as `kube-system/Lease/NAME`, of another.
    fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, String> {
        let (namespace, kind, name) = match name.split_once('/') {
            Some((inner, name)) => (kind, inner, name),
            None => (self.namespace.as_str(), kind, name),
        };
        let there = format!("--namespace={namespace}");
        let args = if name.contains('*') {
            vec![kind, &there]
        } else {
            vec![kind, name, "--ignore-not-found", &there]
        };
        let args: Vec<String> =
            ["get"].iter().chain(&args).chain(&["-o", "json"]).map(|arg| (*arg).to_owned()).collect();
        let printed = self.kubectl(&args).map_err(|error| format!("{error:#}"))?;
        if printed.trim().is_empty() {
            return Ok(None);
        }
        let value: Value = serde_json::from_str(&printed).map_err(|error| error.to_string())?;
        if !name.contains('*') {
            return Ok(Some(value));
        }
        Ok(first_alive(&value, name))
    }

    fn component(&self, name: &str) -> Result<Option<Value>, String> {
        if !components::PROGRAMS.contains(&name) {
            return Ok(None);
        }
        let manifests = components::read(&self.state_dir).map_err(|error| error.to_string())?;
        let text = std::fs::read_to_string(components::status_file(&self.state_dir)).unwrap_or_default();
        let all: std::collections::BTreeMap<String, ComponentStatus> =
            serde_json::from_str(&text).unwrap_or_default();
        let manifest = manifests.get(name);
        let status = all.get(name);
        let state = match (manifest, status) {
            (Some(_), Some(status)) => status.status.as_str(),
            (Some(_), None) => "starting",
            (None, Some(_)) => "stopping",
            (None, None) => "absent",
        };
        let log = self.state_dir.logs().join(format!("{name}.log"));
        let log = end_of(&log).unwrap_or_default();
        let command =
            manifest.and_then(|manifest| manifest.as_ref().ok()).map(|manifest| manifest.command.join(" "));
        Ok(Some(json!({
            "status": state,
            "restarts": status.map_or(0, |status| status.restarts),
            "message": status.map(|status| status.message.clone()).unwrap_or_default(),
            "command": command.unwrap_or_default(),
            "lastLog": log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default(),
        })))
    }

    fn event(&self, reason: &str) -> Result<Option<Value>, String> {
        let args = ["get", "events", "-o", "json"].map(str::to_owned);
        let printed = self.kubectl(&args).map_err(|error| format!("{error:#}"))?;
        let list: Value = serde_json::from_str(&printed).map_err(|error| error.to_string())?;
        let events = list["items"].as_array().into_iter().flatten();
        Ok(events
            .filter(|event| event["reason"] == reason)
            .max_by_key(|event| event["lastTimestamp"].to_string())
            .cloned())
    }

    /// The learner's kubeconfig, with the end of its certificate.
    fn learner_config(&self) -> Result<Option<Value>, String> {
        let path = learner::kubeconfig(&self.state_dir);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let documents =
            stage1_kubectl::manifest::documents(&text, "kubeconfig").map_err(|error| error.to_string())?;
        let mut config = documents.into_iter().next().unwrap_or_default();
        let data = config
            .pointer("/users/0/user/client-certificate-data")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if let Some(end) = certificate_end(data) {
            config["certificateNotAfter"] = json!(end);
        }
        if let Some(user) = config.pointer_mut("/users/0/user").and_then(Value::as_object_mut) {
            // A key is nothing to print.
            user.remove("client-key-data");
        }
        Ok(Some(config))
    }
}

/// The last bytes of a file that only grows.
fn end_of(path: &Path) -> std::io::Result<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END_OF_LOG)))?;
    let mut bytes = Vec::new();
    file.take(END_OF_LOG).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first object of a list whose name matches and that isn't being deleted.
fn first_alive(list: &Value, pattern: &str) -> Option<Value> {
    let items = list["items"].as_array()?;
    let fits = |item: &&Value| {
        item.pointer("/metadata/name").and_then(Value::as_str).is_some_and(|name| matches(pattern, name))
    };
    let alive = |item: &&&Value| item.pointer("/metadata/deletionTimestamp").is_none();
    let fitting: Vec<&Value> = items.iter().filter(fits).collect();
    fitting
        .iter()
        .max_by_key(|item| (alive(item), item.pointer("/metadata/creationTimestamp").map(Value::to_string)))
        .map(|item| (**item).clone())
}

fn certificate_end(base64: &str) -> Option<String> {
    let pem = data_encoding::BASE64.decode(base64.as_bytes()).ok()?;
    let info = stage2_apiserver::pki::inspect(std::str::from_utf8(&pem).ok()?)?;
    Some(info.not_after.to_string())
}

impl World for RealWorld {
    fn subject(&self, subject: &str) -> Result<Option<Value>, String> {
        match subject.split_once('/') {
            None if subject == "Kubeconfig" => self.learner_config(),
            None if subject == "Trace" => {
                let path = source_copy::dir(&self.state_dir).join("trace.json");
                Ok(std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()))
            }
            Some((kind, name)) if kind.eq_ignore_ascii_case("component") => self.component(name),
            Some((kind, reason)) if kind.eq_ignore_ascii_case("event") => self.event(reason),
            Some((kind, name)) => self.get(kind, name),
            None => Err(say("seen.no-subject", &[])),
        }
    }

    fn http(&self, service: &str, port: u16) -> Result<String, String> {
        let service = self
            .get("service", service)?
            .ok_or_else(|| say("seen.absent", &[("subject", &format!("Service/{service}"))]))?;
        let ip = service.pointer("/spec/clusterIP").and_then(Value::as_str).unwrap_or_default();
        let machine = Machine::read(&self.state_dir).map_err(|error| format!("{error:#}"))?;
        let started = Instant::now();
        let output = Command::new("nsenter")
            .arg(format!("--net={}", machine.netns.display()))
            .args(["timeout", "1", "busybox", "wget", "-qO-"])
            .arg(format!("http://{ip}:{port}/"))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        match output.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Some(124) => {
                let seconds = format!("{:.0}", started.elapsed().as_secs_f64());
                Err(say("seen.too-slow", &[("seconds", &seconds)]))
            }
            _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    fn learner_kubectl(&self, args: &[String]) -> (i32, String) {
        match self.run(&learner::kubeconfig(&self.state_dir), args, None) {
            Ok(output) => {
                let text = [output.stdout, output.stderr].concat();
                (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
            }
            Err(error) => (-1, format!("{error:#}")),
        }
    }

    fn now_seconds(&self) -> i64 {
        jiff::Timestamp::now().as_second()
    }

    fn source_copy_passes(&self) -> Result<(), String> {
        source_copy::check(&self.state_dir)
    }
}
