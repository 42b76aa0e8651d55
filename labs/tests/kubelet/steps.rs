//! What the harness did to a pod, done again: commands, patches, files of the node.
//!
//! The bodies of patches were not recorded; they follow from what the next statuses show.
//!
//! # In Kubernetes
//! Nothing like it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};

use crate::case::{Case, Step};
use crate::live::Live;
use crate::machine::Here;
use crate::run::{pods, post};
use crate::{compare, normal};

/// Does one step and says what came out differently.
pub async fn perform(here: &Here, case: &Case, namespace: &str, step: &Step, live: &Live) -> Vec<String> {
    let pod = pods(case).into_iter().next().unwrap_or_default();
    let what = step.what.as_str();
    let outcome = if let Some(rest) = what.strip_prefix("exec ") {
        let (container, command) = rest.split_once(": ").unwrap_or((rest, ""));
        let mut args = vec!["exec", &pod];
        // A step that names no container of the pod is the command alone.
        args.extend(["-c", container, "--", "sh", "-c", command]);
        command_output(here, namespace, &args).await
    } else if let Some(line) = what.strip_prefix("kubectl ") {
        command_output(here, namespace, &line.split_whitespace().collect::<Vec<_>>()).await
    } else if what.starts_with("create ") {
        code(post(here, namespace, step.object.as_ref().unwrap_or(&Value::Null)).await)
    } else if what.starts_with("delete ") {
        let mut args = what.split_whitespace().collect::<Vec<_>>();
        args.splice(1..1, ["pod", pod.as_str()]);
        command_output(here, namespace, &args).await
    } else if let Some((subresource, body)) = patch_body(what) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}{subresource}");
        code(patch(here, &path, &body).await)
    } else if what.starts_with("taint") {
        let taints = match what {
            "taint removed" => Value::Null,
            _ => json!([{"key": "t.test/x", "effect": "NoExecute"}]),
        };
        let path = format!("/api/v1/nodes/{}", here.node);
        code(patch(here, &path, &json!({"spec": {"taints": taints}})).await)
    } else if matches!(what, "cordon" | "uncordon" | "drain") {
        let mut args = vec![what, here.node.as_str()];
        if what == "drain" {
            args.push("--force");
        }
        command_output(here, namespace, &args).await
    } else if what.starts_with("cgroup v1") {
        return cgroup_files(namespace, &pod, step, live);
    } else if what.starts_with("kill -9") {
        kill_first_container(live, &pod);
        return Vec::new();
    } else {
        // Tokens, log layouts: files whose places differ here.
        return Vec::new();
    };
    judge(here, step, &outcome)
}

fn patch_body(what: &str) -> Option<(&'static str, Value)> {
    Some(match what {
        "patch" => ("", json!({"spec": {"activeDeadlineSeconds": 3}})),
        "patch image" => {
            ("", json!({"spec": {"containers": [{"name": "c", "image": "reg.test/named-user:1"}]}}))
        }
        "patch status condition" => {
            ("/status", json!({"status": {"conditions": [{"type": "example.test/gate", "status": "True"}]}}))
        }
        "PATCH pods/p/ephemeralcontainers" => (
            "/ephemeralcontainers",
            json!({"spec": {"ephemeralContainers": [{
                "name": "dbg", "image": "reg.test/busybox:1.35", "targetContainerName": "c",
                "command": ["sh", "-c", "echo hi from dbg; ps; sleep 3; exit 7"],
            }]}}),
        ),
        _ => return None,
    })
}

async fn patch(here: &Here, path: &str, body: &Value) -> Result<Value, stage1_kubectl::client::ClientError> {
    let request = Request::builder().method(Method::PATCH).uri(path);
    let request = request.header("content-type", "application/strategic-merge-patch+json");
    here.client.request(request.body(Bytes::from(body.to_string())).unwrap()).await
}

fn code(answer: Result<Value, stage1_kubectl::client::ClientError>) -> Value {
    match answer {
        Ok(_) => json!("2xx"),
        Err(error) => json!(format!("{error}")),
    }
}

async fn command_output(here: &Here, namespace: &str, args: &[&str]) -> Value {
    let mut command = tokio::process::Command::new(&here.kubectl);
    command.args(args[..1].iter()).args(["-n", namespace]).args(&args[1..]);
    // Where it may keep what it learned of the server.
    let home = here.kubeconfig.parent().unwrap();
    command.env("KUBECONFIG", &here.kubeconfig).env("HOME", home).kill_on_drop(true);
    let run = tokio::time::timeout(std::time::Duration::from_secs(40), command.output());
    let Ok(Ok(out)) = run.await else { return json!("did not end in 40 s") };
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    json!({"stdout": text(&out.stdout), "stderr": text(&out.stderr), "rc": out.status.code()})
}

/// The events block has ages, and is compared by itself; tables have ages in their last column.
fn cut(what: &str, text: &str) -> String {
    let squeezed = normal::squeezed(text);
    let kept = squeezed.split("\nEvents:").next().unwrap_or_default();
    if what.contains("--previous") || what.contains("--prefix") {
        // Two streams, or two containers: their lines come in any order.
        let mut lines: Vec<&str> = kept.lines().collect();
        lines.sort_unstable();
        return lines.join("\n");
    }
    if !what.starts_with("kubectl get") {
        return kept.to_owned();
    }
    let age = |w: &str| w.len() > 1 && w.ends_with('s') && w.starts_with(|c: char| c.is_ascii_digit());
    let line = |l: &str| l.split(' ').map(|w| if age(w) { "AGE" } else { w }).collect::<Vec<_>>().join(" ");
    kept.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn judge(here: &Here, step: &Step, outcome: &Value) -> Vec<String> {
    let none = normal::Names::default();
    let (mut want, mut have) = (normal::value(&step.result, &none), normal::value(outcome, &here.names));
    if let Some(number) = want.as_i64() {
        want = json!(if (200..300).contains(&number) { "2xx" } else { "refused" });
    }
    if let (Value::String(_), Value::Object(map)) = (&want, &have) {
        have = map["stdout"].clone();
    }
    let cut_all = |v: &mut Value| match v {
        Value::String(s) => *s = cut(&step.what, s),
        Value::Object(map) => {
            for key in ["stdout", "stderr"] {
                if let Some(Value::String(s)) = map.get_mut(key) {
                    *s = cut(&step.what, s);
                }
            }
        }
        _ => {}
    };
    cut_all(&mut want);
    cut_all(&mut have);
    if want == have {
        return Vec::new();
    }
    let lines = |v: &Value| {
        v.get("stdout").unwrap_or(v).as_str().map(|s| s.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let detail = match (lines(&want), lines(&have)) {
        (Some(a), Some(b)) if a != b => {
            let i = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            let stderr = have["stderr"].as_str().unwrap_or_default();
            format!("line {i}: want {:?} have {:?} {stderr}", a.get(i), b.get(i))
        }
        _ => {
            let mut out = Vec::new();
            compare::differences("", &want, &have, &mut out);
            out.join("; ")
        }
    };
    vec![format!("step {:?}: {detail}", step.what)]
}

/// uid of a pod, and its containers' ids, as last seen.
fn ids(live: &Live, pod: &str) -> Vec<(String, String)> {
    let seen = live.pods.lock().unwrap();
    let Some(last) = seen.iter().rev().find(|s| s.pod == pod) else { return Vec::new() };
    let lists = ["initContainerStatuses", "containerStatuses"].map(|l| last.status[l].as_array().cloned());
    let id = |c: &Value| Some(c["containerID"].as_str()?.split_once("://")?.1.to_owned());
    lists
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|c| Some((c["name"].as_str()?.to_owned(), id(&c)?)))
        .collect()
}

/// Folders below one controller's mount in which a container's cgroup lies.
fn cgroup_of(controller: &str, id: &str) -> Option<PathBuf> {
    fn search(dir: &Path, id: &str, depth: u32) -> Option<PathBuf> {
        let entries: Vec<_> = std::fs::read_dir(dir).ok()?.flatten().filter(|e| e.path().is_dir()).collect();
        if let Some(found) = entries.iter().find(|e| e.file_name().to_string_lossy().contains(id)) {
            return Some(found.path());
        }
        entries.iter().filter(|_| depth > 0).find_map(|e| search(&e.path(), id, depth - 1))
    }
    search(&Path::new("/sys/fs/cgroup").join(controller), id, 4)
}

fn kill_first_container(live: &Live, pod: &str) {
    let Some((_, id)) = ids(live, pod).into_iter().next() else { return };
    let Some(dir) = cgroup_of("memory", &id) else { return };
    let procs = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    if let Some(pid) = procs.lines().filter_map(|p| p.parse().ok()).min() {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
}

/// Files of the pod's cgroup and of those below it; what is above depends on the other pods.
fn cgroup_files(_: &str, pod: &str, step: &Step, live: &Live) -> Vec<String> {
    if !Path::new("/sys/fs/cgroup/memory").is_dir() {
        return Vec::new();
    }
    let ids = ids(live, pod);
    let mut problems = Vec::new();
    for (file, want) in step.result.as_object().into_iter().flatten() {
        let want = want.as_str().unwrap_or_default().trim();
        let have = if let Some(name) = file.strip_prefix("oom_score_adj <") {
            let id = ids.iter().find(|(n, _)| n == name.trim_end_matches('>')).map(|(_, id)| id);
            let procs = id.and_then(|id| cgroup_of("memory", id)).map(|d| d.join("cgroup.procs"));
            let pid = procs
                .and_then(|p| std::fs::read_to_string(p).ok())
                .and_then(|t| t.lines().next().map(str::to_owned));
            pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).ok())
        } else {
            let Some((controller, rest)) = file.split_once('/') else { continue };
            let Some((_, below)) = rest.split_once("pod<uid>/") else { continue };
            let some_dir = ids.first().and_then(|(_, id)| cgroup_of(controller, id));
            let Some(of_pod) = some_dir.as_deref().and_then(Path::parent) else { continue };
            let path = match below.split_once('/') {
                None => of_pod.join(below),
                Some(("<sandbox>", _)) => continue,
                Some((name, leaf)) => {
                    let name = name.trim_matches(|c| c == '<' || c == '>');
                    let id = ids.iter().find(|(n, _)| n == name).map(|(_, id)| id.clone());
                    of_pod.join(id.unwrap_or_default()).join(leaf)
                }
            };
            std::fs::read_to_string(path).ok()
        };
        let have = have.unwrap_or_default();
        if have.trim() != want {
            problems.push(format!("cgroup {file}: want {want} have {}", have.trim()));
        }
    }
    problems
}
