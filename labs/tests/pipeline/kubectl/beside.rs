//! Ours beside a stock kubectl on one live cluster: what people type must look the same, byte for byte.
//!
//! Both run at the same moment, so ages are equal, too; where a second went by in between, or a heartbeat, the line is tried again.

use std::path::Path;
use std::process::{Command, Stdio};

use super::said;
use crate::cluster::{Pipeline, kubectls, text};

/// One object of every kind.
const ZOO: &str = include_str!("zoo.yaml");
/// The command lines.
const TYPED: &str = include_str!("typed.txt");
/// A line is tried so often before it counts as different.
const TRIES: usize = 4;

/// The kinds of the zoo.
const KINDS: [&str; 37] = [
    "deployments",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
    "daemonsets",
    "jobs",
    "cronjobs",
    "services",
    "endpoints",
    "endpointslices",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "clusterroles/zoo",
    "clusterrolebindings/zoo",
    "resourcequotas",
    "limitranges",
    "storageclasses/fast",
    "persistentvolumes/zoo-pv",
    "persistentvolumeclaims",
    "ingressclasses/zoo",
    "ingresses",
    "networkpolicies",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
    "priorityclasses/zoo-low",
    "leases",
    "runtimeclasses/zoo",
    "csidrivers/zoo.example.com",
    "validatingwebhookconfigurations/zoo",
    "certificatesigningrequests/zoo",
    "customresourcedefinitions/foos.x.y",
    "foos",
    "namespaces/zoo",
    "events",
];

pub(super) fn all(pipeline: &Pipeline) {
    let Some((_, stock)) = kubectls().into_iter().find(|(name, _)| name == "stock 1.32") else {
        println!("skipped: no stock kubectl 1.32");
        return;
    };
    stock_the_zoo(pipeline);
    let node = pipeline.get("nodes", "{.items[0].metadata.name}");
    let web = pipeline.get("pods -l app=web", "{.items[0].metadata.name}");
    let lines = TYPED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut lines: Vec<String> = lines.map(|line| line.replace("NODE", &node).replace("WEB", &web)).collect();
    for kind in KINDS {
        lines.extend(
            ["get {} -n zoo", "get {} -n zoo -o wide", "get {} -n zoo -o yaml", "describe {} -n zoo"]
                .map(|line| line.replace("{}", kind)),
        );
    }
    let differing: Vec<String> = lines.iter().filter_map(|line| differs(pipeline, &stock, line)).collect();
    println!("{} command lines beside a stock kubectl, {} differ", lines.len(), differing.len());
    pipeline.ok(&["delete", "namespace", "zoo", "--wait=false"]);
    pipeline.ok(&["delete", "crd/foos.x.y", "pv/zoo-pv", "csr/zoo"]);
    assert!(differing.is_empty(), "{} of {} differ:\n{}", differing.len(), lines.len(), differing.join("\n"));
}

fn stock_the_zoo(pipeline: &Pipeline) {
    pipeline.apply(ZOO);
    super::objects::signing_request(pipeline, "zoo");
    pipeline.ok(&["wait", "--for=condition=Established", "crd/foos.x.y", "--timeout=30s"]);
    let custom = "apiVersion: x.y/v1\nkind: Foo\nmetadata: {name: foo, namespace: zoo}\nspec: {count: 3, text: a, list: [{k: v}], map: {b: c}}\n";
    pipeline.wait("a custom object is taken", || {
        pipeline.run_with_stdin(&["apply", "-f", "-"], custom).status.success()
    });
    pipeline.wait("the controllers have looked at everything", || {
        let quota =
            said(pipeline, &["get", "quota", "-n", "zoo", "-o", "jsonpath={.items[*].status.used}"]).0;
        let budget =
            said(pipeline, &["get", "pdb", "-n", "zoo", "-o", "jsonpath={.items[*].status.conditions}"]).0;
        !quota.is_empty() && !budget.is_empty()
    });
}

/// Words between spaces; quotes hold words together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in line.split('\'').enumerate() {
        let last = words.last_mut().unwrap();
        if at % 2 == 1 {
            last.push_str(part);
            continue;
        }
        let mut pieces = part.split(' ');
        last.push_str(pieces.next().unwrap());
        words.extend(pieces.map(String::from));
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What differs between the two, if something does.
fn differs(pipeline: &Pipeline, stock: &Path, line: &str) -> Option<String> {
    let arguments = words(line);
    let ours = crate::cluster::binary("kubectl");
    let mut last = String::new();
    for _ in 0..TRIES {
        let [wanted, got] = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| answer(pipeline, stock, &arguments));
            let got = answer(pipeline, &ours, &arguments);
            [theirs.join().unwrap(), got]
        });
        if wanted == got {
            return None;
        }
        last = format!("== kubectl {line}\n{}", difference(&wanted, &got));
    }
    Some(last)
}

fn answer(pipeline: &Pipeline, program: &Path, arguments: &[String]) -> String {
    let mut command = Command::new(program);
    let output = command
        .args(arguments)
        .env_clear()
        .env("KUBECONFIG", pipeline.dir().join("admin.kubeconfig"))
        .env("HOME", pipeline.dir().join("home"))
        .env("PATH", "/usr/bin:/bin")
        .current_dir(pipeline.dir())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let code = output.status.code().unwrap_or(-1);
    let (mut out, mut err) = (text(&output.stdout), text(&output.stderr));
    // An exec has an id of its own each time.
    let id = regex::Regex::new("[0-9a-f]{64}").unwrap();
    err = id.replace_all(&err, "ID").into_owned();
    // Limits of several resources come out of a map there, and events of one second in any order.
    let line = arguments.join(" ");
    let any_order = line.starts_with("describe") && out.contains("Default Limit")
        || line.starts_with("events")
        || line.starts_with("get events --sort-by");
    if any_order {
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        out = lines.join("\n");
    }
    format!("code {code}\n{out}\nstderr:\n{err}")
}

/// The lines that only one of the two has.
fn difference(wanted: &str, got: &str) -> String {
    let (wanted, got): (Vec<&str>, Vec<&str>) = (wanted.lines().collect(), got.lines().collect());
    let only = |mark: &str, own: &[&str], other: &[&str]| -> String {
        let lines = own.iter().filter(|line| !other.contains(line)).take(12);
        lines.map(|line| format!("{mark} {line}\n")).collect()
    };
    let text = only("stock:", &wanted, &got) + &only("ours: ", &got, &wanted);
    if text.is_empty() { "the same lines in another order\n".into() } else { text }
}
