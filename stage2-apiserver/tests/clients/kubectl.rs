//! Stock kubectls of several versions: what they print for what this server answers.

use std::path::Path;

use tokio::process::Command;

use super::raw::cluster;
use super::stock;

const MANIFEST: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: 'nginx:1.25', ports: [{containerPort: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {a: "1"}
"#;

/// What is typed, the first minor version that knows it, and a part of what must be printed.
const TYPED: &[(&str, u32, &str)] = &[
    ("apply -f all.yaml", 0, "deployment.apps/web created\nconfigmap/m created\n"),
    ("apply -f all.yaml", 0, "deployment.apps/web unchanged\nconfigmap/m unchanged\n"),
    ("diff -f changed.yaml", 0, "-  a: \"1\"\n+  a: \"2\"\n"),
    (
        "apply --server-side -f changed.yaml",
        0,
        "deployment.apps/web serverside-applied\nconfigmap/m serverside-applied\n",
    ),
    (
        "apply --server-side --field-manager=other -f all.yaml",
        0,
        "Apply failed with 1 conflict: conflict with \"kubectl\": .data.a",
    ),
    (
        "apply --server-side --field-manager=other --force-conflicts -f all.yaml",
        0,
        "configmap/m serverside-applied",
    ),
    ("get deploy -o wide", 0, "web    0/2     0            0           "),
    (
        "get deploy web -o jsonpath={.spec.replicas}/{.spec.template.spec.containers[*].image}",
        0,
        "2/nginx:1.25",
    ),
    ("get cm -o custom-columns=N:.metadata.name,A:.data.a --no-headers", 0, "m     1\n"),
    ("label cm m a=b", 0, "configmap/m labeled"),
    ("get cm -l a=b -o name", 0, "configmap/m\n"),
    ("annotate cm m a=b", 0, "configmap/m annotated"),
    (
        r#"patch deploy web -p {"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"x"}]}]}}}}"#,
        0,
        "deployment.apps/web patched",
    ),
    (
        r#"patch cm m --type=json -p [{"op":"replace","path":"/data/a","value":"3"}]"#,
        0,
        "configmap/m patched",
    ),
    (r#"patch cm m --type=merge -p {"data":{"b":null}}"#, 0, "configmap/m patched (no change)"),
    ("wait --for=jsonpath={.data.a}=3 cm/m --timeout=20s", 23, "configmap/m condition met"),
    ("scale deploy web --replicas=4", 0, "deployment.apps/web scaled"),
    ("set image deploy/web c=nginx:1.26", 0, "deployment.apps/web image updated"),
    ("set env deploy/web B=2", 0, "deployment.apps/web env updated"),
    ("rollout restart deploy/web", 0, "deployment.apps/web restarted"),
    ("rollout pause deploy/web", 0, "deployment.apps/web paused"),
    ("edit deploy web", 0, "deployment.apps/web edited"),
    (
        "get deploy web -o jsonpath={..image}/{.spec.replicas}/{..env}/{.spec.paused}",
        0,
        r#"nginx:1.27/4/[{"name":"A","value":"x"},{"name":"B","value":"2"}]/true"#,
    ),
    ("expose deploy web --port=80", 0, "service/web exposed"),
    ("describe svc web", 0, "TargetPort:"),
    ("create secret generic s --from-literal=a=b", 0, "secret/s created"),
    ("create job j --image=busybox", 0, "job.batch/j created"),
    ("create ingress i --rule=x.io/*=web:80", 0, "ingress.networking.k8s.io/i created"),
    ("autoscale deploy web --max=5", 0, "horizontalpodautoscaler.autoscaling/web autoscaled"),
    ("auth can-i get pods --as=system:serviceaccount:typed:bot", 0, "no"),
    ("create serviceaccount bot", 0, "serviceaccount/bot created"),
    ("create role r --verb=get --resource=pods", 0, "role.rbac.authorization.k8s.io/r created"),
    (
        "create rolebinding r --role=r --serviceaccount=typed:bot",
        0,
        "rolebinding.rbac.authorization.k8s.io/r created",
    ),
    ("create token bot", 24, "ey"),
    ("explain deployment.spec.replicas", 0, "Number of desired pods."),
    ("explain pods --recursive", 0, "terminationMessagePolicy"),
    ("api-resources --api-group=apps -o name", 0, "deployments.apps\n"),
    ("api-versions", 0, "flowcontrol.apiserver.k8s.io/v1\n"),
    (
        "create -f all.yaml",
        0,
        "Error from server (AlreadyExists): error when creating \"all.yaml\": deployments.apps \"web\" already exists",
    ),
    ("get pod none", 0, "Error from server (NotFound): pods \"none\" not found"),
    ("get wrongs", 0, "error: the server doesn't have a resource type \"wrongs\""),
    ("taint node none a=b:NoSchedule", 0, "Error from server (NotFound): nodes \"none\" not found"),
    ("create quota q --hard=pods=2 --dry-run=server -o name", 0, "resourcequota/q\n"),
    ("get quota", 0, "No resources found in typed namespace."),
    ("replace -f all.yaml", 0, "deployment.apps/web replaced\nconfigmap/m replaced\n"),
    ("delete -f all.yaml", 0, "configmap \"m\" deleted"),
    ("get cm m --ignore-not-found -o name", 0, ""),
    ("get --raw /readyz", 0, "ok"),
];

struct Kubectl<'a> {
    program: &'a Path,
    kubeconfig: std::path::PathBuf,
    home: tempfile::TempDir,
}

impl Kubectl<'_> {
    async fn says(&self, typed: &str) -> String {
        let mut command = Command::new(self.program);
        command.args(typed.split(' ')).args(["-n", "typed"]).current_dir(self.home.path());
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", self.home.path());
        command.env("EDITOR", "sed -i s/nginx:1.26/nginx:1.27/").env("TMPDIR", self.home.path());
        let output = command.output().await.unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectls_of_all_ages_print_what_is_expected() {
    for (version, program) in stock::programs("kubectl") {
        let minor: u32 = version.trim_start_matches("1.").parse().unwrap();
        let cluster = cluster().await;
        let kubeconfig = cluster.cluster.kubeconfig("admin").unwrap();
        let kubectl = Kubectl { program: &program, kubeconfig, home: tempfile::tempdir().unwrap() };
        println!("{}", kubectl.says("version").await.trim());
        std::fs::write(kubectl.home.path().join("all.yaml"), MANIFEST).unwrap();
        std::fs::write(kubectl.home.path().join("changed.yaml"), MANIFEST.replace("\"1\"", "\"2\"")).unwrap();
        assert_eq!(kubectl.says("create namespace typed").await, "namespace/typed created\n");
        for (typed, since, expected) in TYPED {
            if minor >= *since {
                let said = kubectl.says(typed).await;
                let fits = if expected.is_empty() { said.is_empty() } else { said.contains(expected) };
                assert!(fits, "kubectl {version} {typed}: no {expected:?} in\n{said}");
            }
        }
        watched(&kubectl).await;
        cluster.cluster.stop().await;
    }
}

/// `--watch` begins with what is there, and tells what comes.
async fn watched(kubectl: &Kubectl<'_>) {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    kubectl.says("create configmap first").await;
    let mut command = Command::new(kubectl.program);
    command.args(["get", "cm", "--watch", "--output-watch-events", "--no-headers", "-n", "typed"]);
    command.args(["--field-selector", "metadata.name!=kube-root-ca.crt"]);
    command.env("KUBECONFIG", &kubectl.kubeconfig).env("HOME", kubectl.home.path());
    let mut child = command.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(std::time::Duration::from_secs(20), lines.next_line());
        let line = line.await.expect("a line in time").unwrap().expect("a line");
        line.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(next().await, "ADDED first 0");
    kubectl.says("create configmap second --from-literal=a=b").await;
    assert_eq!(next().await, "ADDED second 1");
    kubectl.says("label configmap first a=b").await;
    assert_eq!(next().await, "MODIFIED first 0");
    kubectl.says("delete configmap first").await;
    assert_eq!(next().await, "DELETED first 0");
}
