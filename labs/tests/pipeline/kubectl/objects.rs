//! kubectl and objects: waiting, rolling out, draining, editing, comparing, rights, and what is more than kubectl.

use std::process::Stdio;

use super::{Running, said};
use crate::cluster::{Pipeline, kubectls, text};

pub(super) fn all(pipeline: &Pipeline) {
    wait(pipeline);
    watch_on_a_terminal(pipeline);
    rollout(pipeline);
    edit(pipeline);
    diff(pipeline);
    dump(pipeline);
    rights(pipeline);
    certificate(pipeline);
    top(pipeline);
    journey(pipeline);
    super::troubles::all(pipeline);
    plugin(pipeline);
    drain(pipeline);
}

/// A kubectl with variables in its environment.
fn with(pipeline: &Pipeline, variables: &[(&str, &str)], args: &[&str]) -> (String, String, i32) {
    let output =
        pipeline.command(args).envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
}

fn wait(pipeline: &Pipeline) {
    let met = pipeline.ok(&["wait", "--for=jsonpath={.status.phase}=Running", "pod/cat", "--timeout=30s"]);
    assert_eq!(met, "pod/cat condition met\n");
    let several = "--for=jsonpath={.spec.containers[*].name}=x";
    let (_, why, code) = said(pipeline, &["wait", several, "pod", "-l", "app=web", "--timeout=2s"]);
    assert_eq!(why, "given jsonpath expression matches more than one value\n".repeat(2));
    assert_eq!(code, 1);
    let (_, why, _) = said(pipeline, &["wait", "--for=condition=Never", "pod/cat", "--timeout=1s"]);
    assert_eq!(why, "error: timed out waiting for the condition on pods/cat\n");
    // Made and gone while somebody waits.
    let mut waiting =
        Running::start(pipeline.command(&["wait", "--for=create", "configmap/late", "--timeout=60s"]));
    pipeline.ok(&["create", "configmap", "late"]);
    assert_eq!(waiting.line(), "configmap/late condition met\n");
    waiting.end();
    let mut waiting =
        Running::start(pipeline.command(&["wait", "--for=delete", "configmap/late", "--timeout=60s"]));
    pipeline.ok(&["delete", "configmap", "late"]);
    // Gone before it was seen is no line.
    let line = waiting.line();
    assert!(line.is_empty() || line.starts_with("configmap/late "), "{line}");
    waiting.end();
}

/// `script` gives kubectl a terminal, where the table is drawn again in its place.
fn watch_on_a_terminal(pipeline: &Pipeline) {
    pipeline.ok(&["create", "configmap", "seen"]);
    let kubectl = pipeline.command(&[]).get_program().to_string_lossy().into_owned();
    let config = pipeline.dir().join("admin.kubeconfig").display().to_string();
    let watch = "get configmaps -w --field-selector=metadata.name=seen";
    let typed = format!("stty rows 30 cols 200; exec {kubectl} {watch} --kubeconfig={config}");
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &typed, "/dev/null"]);
    let mut watching = Running::start(script);
    assert!(watching.line().contains("NAME"));
    assert!(watching.line().starts_with("seen"));
    pipeline.ok(&["delete", "configmap", "seen"]);
    let line = watching.line();
    assert!(line.starts_with("\u{1b}[2A\u{1b}[J") && line.contains("NAME"), "{line:?}");
    watching.end();
}

fn rollout(pipeline: &Pipeline) {
    assert_eq!(pipeline.ok(&["rollout", "pause", "deploy/web"]), "deployment.apps/web paused\n");
    let (_, why, _) = said(pipeline, &["rollout", "pause", "deploy/web"]);
    assert_eq!(why, "error: deployments.apps \"web\" is already paused\n");
    pipeline.ok(&["set", "env", "deploy/web", "-c", "side", "ROUND=2"]);
    assert_eq!(pipeline.ok(&["rollout", "resume", "deploy/web"]), "deployment.apps/web resumed\n");
    pipeline.rolled_out("web");
    let page = pipeline.ok(&["rollout", "history", "deploy/web", "--revision=2"]);
    let head =
        "deployment.apps/web with revision #2\nPod Template:\n  Labels:\tapp=web\n\tpod-template-hash=";
    assert!(page.starts_with(head), "{page}");
    assert!(page.contains("ROUND:\t2"), "{page}");
    let undone = pipeline.ok(&["rollout", "undo", "deploy/web", "--to-revision=1"]);
    assert_eq!(undone, "deployment.apps/web rolled back\n");
    pipeline.rolled_out("web");
    assert!(!pipeline.get("deploy web", "{.spec.template.spec.containers[1].env}").contains("ROUND"));
    assert_eq!(pipeline.ok(&["rollout", "restart", "deploy/web"]), "deployment.apps/web restarted\n");
    pipeline.rolled_out("web");
    pipeline.ok(&["scale", "deploy/web", "--replicas=3", "--timeout=60s"]);
    assert_eq!(pipeline.get("deploy web", "{.status.replicas}"), "3", "waited for");
    pipeline.ok(&["scale", "deploy/web", "--replicas=2", "--timeout=60s"]);
    let (_, why, code) = said(pipeline, &["rollout", "undo", "deploy/web", "--to-revision=99"]);
    assert_eq!((why.as_str(), code), ("error: unable to find specified revision 99 in history\n", 1));
}

fn edit(pipeline: &Pipeline) {
    let edit = |editor: &str| with(pipeline, &[("KUBE_EDITOR", editor)], &["edit", "deploy/web"]);
    assert_eq!(edit("false").1, "error: there was a problem with the editor \"false\"\n");
    assert_eq!(edit("no-such-editor").1, "error: unable to launch the editor \"no-such-editor\"\n");
    assert_eq!(edit("true"), (String::new(), "Edit cancelled, no changes made.\n".into(), 0));
    // What is no YAML comes back, too; who leaves it as it is gives up, and the file stays.
    let (_, told, code) = edit("sed -i s/^kind:/{kind:/");
    assert_eq!(code, 1);
    assert!(told.starts_with("error: deployments.apps \"web\" is invalid\n"), "{told}");
    assert!(told.ends_with("error: Edit cancelled, no valid changes were saved.\n"), "{told}");
    let kept = told.split("has been stored to \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert!(std::fs::read_to_string(kept).unwrap().contains("{kind: Deployment"));
    std::fs::remove_file(kept).unwrap();
    // What the server refuses comes back with the reason, and the second try is taken.
    let script = pipeline.dir().join("editor.sh");
    let seen = pipeline.dir().join("second-try.yaml");
    let lines = format!(
        "if grep -q 'was not valid' \"$1\"; then cp \"$1\" {}; sed -i 's/replicas: -2/replicas: 3/' \"$1\"; else sed -i 's/  replicas: 2/  replicas: -2/' \"$1\"; fi\n",
        seen.display()
    );
    std::fs::write(&script, lines).unwrap();
    let (out, told, code) = edit(&format!("sh {}", script.display()));
    assert_eq!((out.as_str(), code), ("deployment.apps/web edited\n", 0), "{told}");
    assert_eq!(told, "error: deployments.apps \"web\" is invalid\n");
    let second = std::fs::read_to_string(&seen).unwrap();
    let reason = "# deployments.apps \"web\" was not valid:\n# * spec.replicas: Invalid value: -2: must be greater than or equal to 0\n#\n";
    assert!(second.contains(reason), "{second}");
    assert_eq!(pipeline.get("deploy web", "{.spec.replicas}"), "3");
    pipeline.ok(&["scale", "deploy/web", "--replicas=2"]);
    // A temporary file with the ends of lines that Windows knows.
    let copied = pipeline.dir().join("crlf");
    let editor = format!("sh -c 'cp $0 {}'", copied.display());
    let variables = [("KUBE_EDITOR", editor.as_str()), ("SHELL", "/bin/sh")];
    let (_, why, code) = with(pipeline, &variables, &["edit", "deploy/web", "--windows-line-endings"]);
    assert_eq!((why.as_str(), code), ("Edit cancelled, no changes made.\n", 0));
    assert!(std::fs::read_to_string(&copied).unwrap().contains("kind: Deployment\r\n"));
}

fn diff(pipeline: &Pipeline) {
    let file = pipeline.dir().join("hidden.yaml");
    let manifest = "apiVersion: v1\nkind: Secret\nmetadata: {name: hidden}\ndata: {a: b25l, b: dHdv}\n";
    std::fs::write(&file, manifest).unwrap();
    let path = file.display().to_string();
    pipeline.ok(&["apply", "-f", &path]);
    assert_eq!(said(pipeline, &["diff", "-f", &path]), (String::new(), String::new(), 0));
    std::fs::write(&file, manifest.replace("dHdv", "dGhyZWU=")).unwrap();
    let (page, _, code) = said(pipeline, &["diff", "-f", &path]);
    assert_eq!(code, 1);
    assert!(page.contains("-  b: '*** (before)'\n+  b: '*** (after)'\n"), "{page}");
    assert!(!page.contains("dHdv") && !page.contains("dGhyZWU"), "no value is shown: {page}");
    let external =
        |program: &str| with(pipeline, &[("KUBECTL_EXTERNAL_DIFF", program)], &["diff", "-f", &path]);
    let (page, _, code) = external("echo -N");
    assert_eq!(code, 0);
    assert!(page.contains("/LIVE-") && page.contains("/MERGED-") && page.ends_with(" -N\n"), "{page}");
    let (_, why, code) = external("no-such-diff");
    let wanted = "error: failed to run \"no-such-diff\": executable file not found in $PATH\n";
    assert_eq!((why.as_str(), code), (wanted, 2));
    pipeline.ok(&["delete", "secret", "hidden"]);
}

fn dump(pipeline: &Pipeline) {
    let dir = pipeline.dir().join("dump");
    let path = dir.display().to_string();
    let said = pipeline.ok(&["cluster-info", "dump", "--output-directory", &path, "--namespaces", "default"]);
    assert_eq!(said, format!("Cluster info dumped to {path}\n"));
    let json = |file: &str| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(dir.join(file)).unwrap()).unwrap()
    };
    assert_eq!(json("nodes.json")["items"].as_array().unwrap().len(), 1);
    assert_eq!(json("default/deployments.json")["items"][0]["metadata"]["name"], "web");
    let log = std::fs::read_to_string(dir.join("default/cat/logs.txt")).unwrap();
    assert!(log.starts_with("==== START logs for container cat of pod default/cat ====\nhello\n"), "{log}");
}

const ROLES: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: User, name: eve, apiGroup: rbac.authorization.k8s.io}]
";

fn rights(pipeline: &Pipeline) {
    let reconcile = |manifest: &str| {
        let output = pipeline.run_with_stdin(&["auth", "reconcile", "-f", "-"], manifest);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout) + &text(&output.stderr)
    };
    assert!(reconcile(ROLES).contains("role.rbac.authorization.k8s.io/reader reconciled"));
    assert_eq!(pipeline.ok(&["auth", "can-i", "get", "pods", "--as=eve"]), "yes\n");
    assert_eq!(said(pipeline, &["auth", "can-i", "list", "pods", "--as=eve"]).2, 1);
    let told = reconcile(&ROLES.replace("[get]", "[list]"));
    assert!(told.contains("missing rules added"), "{told}");
    assert_eq!(pipeline.ok(&["auth", "can-i", "list", "pods", "--as=eve"]), "yes\n");
    assert_eq!(pipeline.ok(&["auth", "can-i", "get", "pods", "--as=eve"]), "yes\n", "what was granted stays");
    let page = pipeline.ok(&["describe", "role", "reader"]);
    assert!(page.contains("pods       []                 []              [get list]"), "{page}");
    let (answer, warned, _) = said(pipeline, &["auth", "can-i", "zap", "pods"]);
    assert_eq!(answer, "yes\n");
    assert_eq!(warned, "Warning: verb 'zap' is not a known verb\n\n");
}

/// Asks for a certificate.
pub(super) fn signing_request(pipeline: &Pipeline, name: &str) {
    let key = pipeline.dir().join(format!("{name}.key"));
    let request = std::process::Command::new("openssl")
        .args([
            "req",
            "-new",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            &format!("/O=zoo/CN={name}"),
            "-keyout",
        ])
        .arg(&key)
        .output()
        .unwrap();
    let encoded = data_encoding::BASE64.encode(&request.stdout);
    pipeline.apply(&format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: {name}}}\nspec: {{signerName: kubernetes.io/kube-apiserver-client, usages: [client auth], request: {encoded}}}\n"
    ));
}

fn certificate(pipeline: &Pipeline) {
    signing_request(pipeline, "eve");
    let approved = pipeline.ok(&["certificate", "approve", "eve"]);
    assert_eq!(approved, "certificatesigningrequest.certificates.k8s.io/eve approved\n");
    assert_eq!(pipeline.get("csr eve", "{.status.conditions[0].type}"), "Approved");
    let (_, why, code) = said(pipeline, &["certificate", "deny", "nobody"]);
    assert_eq!(code, 1);
    assert!(why.contains("certificatesigningrequests.certificates.k8s.io \"nobody\" not found"), "{why}");
}

fn top(pipeline: &Pipeline) {
    for what in ["pod", "node"] {
        let (_, why, code) = said(pipeline, &["top", what]);
        assert_eq!((why.as_str(), code), ("error: Metrics API not available\n", 1));
    }
}

/// A Deployment's way is told while it happens.
fn journey(pipeline: &Pipeline) {
    let mut command = pipeline.command(&["journey", "deployment/trip", "-w"]);
    command.stderr(Stdio::null());
    pipeline.ok(&["create", "deployment", "trip", "--image=nginx:1.25"]);
    let mut watching = Running::start(command);
    let mut told = String::new();
    for stage in ["③", "④", "⑤"] {
        while !told.contains(stage) {
            let line = watching.line();
            assert!(!line.is_empty(), "the journey ends before {stage}:\n{told}");
            told += &line;
        }
    }
    watching.end();
    pipeline.rolled_out("trip");
    let output = pipeline.ok(&["journey", "deployment/trip", "-o", "json"]);
    let journey: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert!(journey.to_string().contains("trip"), "{journey}");
    pipeline.ok(&["delete", "deployment", "trip"]);
}

/// As `kubectl-why` beside a stock kubectl, with the token of an account that may read and nothing else.
fn plugin(pipeline: &Pipeline) {
    let Some((_, stock)) = kubectls().into_iter().find(|(name, _)| name == "stock 1.32") else {
        println!("skipped: no stock kubectl 1.32");
        return;
    };
    pipeline.ok(&["create", "serviceaccount", "reader"]);
    let role = ["--clusterrole=view", "--serviceaccount=default:reader"];
    pipeline.ok(&[&["create", "clusterrolebinding", "reader"], role.as_slice()].concat());
    pipeline.ok(&["run", "ends", "--image=busybox:1.36", "--command", "--", "sh", "-c", "exit 3"]);
    let dir = pipeline.dir().join("bin");
    std::fs::create_dir_all(&dir).unwrap();
    std::os::unix::fs::symlink(crate::cluster::binary("kubectl"), dir.join("kubectl-why")).unwrap();
    let token = pipeline.ok(&["create", "token", "reader"]);
    let config = reader_config(pipeline, token.trim());
    let why = |about: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", dir.display());
        let mut command = std::process::Command::new(&stock);
        let output =
            command.arg("why").args(about).env("PATH", path).env("KUBECONFIG", &config).output().unwrap();
        (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
    };
    pipeline.wait("the plugin blames the program", || why(&["pod/ends"]).0.contains("crash-loop"));
    let (page, noise, code) = why(&["deployment/web"]);
    assert_eq!((page.as_str(), code), ("", 0), "a healthy workload, seen with few rights: {noise}");
    // The account really may not do more than read.
    let mut command = pipeline.command(&["delete", "pod", "ends"]);
    let refused = text(&command.env("KUBECONFIG", &config).output().unwrap().stderr);
    let words = "User \"system:serviceaccount:default:reader\" cannot delete resource \"pods\"";
    assert!(refused.contains(words), "{refused}");
    pipeline.ok(&["delete", "pod", "ends", "--now"]);
}

/// A kubeconfig that holds a token and no certificate.
pub(super) fn reader_config(pipeline: &Pipeline, token: &str) -> std::path::PathBuf {
    let file = pipeline.dir().join("reader.kubeconfig");
    let view = pipeline.ok(&["config", "view", "--raw", "--flatten", "-o", "json"]);
    let mut config: serde_json::Value = serde_json::from_str(&view).unwrap();
    for user in config["users"].as_array_mut().unwrap() {
        user["user"] = serde_json::json!({"token": token});
    }
    std::fs::write(&file, config.to_string()).unwrap();
    file
}

fn drain(pipeline: &Pipeline) {
    let node = pipeline.get("nodes", "{.items[0].metadata.name}");
    let (_, why, code) = said(pipeline, &["drain", &node, "--dry-run=client"]);
    assert_eq!(code, 1);
    let words =
        "cannot delete cannot delete Pods that declare no controller (use --force to override): default/cat";
    assert!(why.contains(words), "{why}");
    let flags = ["--force", "--delete-emptydir-data", "--grace-period=1", "--timeout=90s"];
    let (out, why, code) = said(pipeline, &[&["drain", &node], flags.as_slice()].concat());
    assert_eq!(code, 0, "{out}{why}");
    assert!(out.contains("pod/cat evicted\n") && out.ends_with(&format!("node/{node} drained\n")), "{out}");
    pipeline.wait("why blames the cordon", || {
        let found = super::troubles::blamed(pipeline, &["deployment/web"]);
        found.contains(&"node-cordoned".to_string())
    });
    let running = "pods --field-selector=status.phase=Running";
    assert_eq!(pipeline.get(running, "{.items[*].metadata.name}"), "");
    assert_eq!(pipeline.ok(&["uncordon", &node]), format!("node/{node} uncordoned\n"));
    pipeline.rolled_out("web");
}
