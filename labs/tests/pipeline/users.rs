//! What a user types in the second terminal, with our kubectl and with stock ones.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use crate::cluster::{Pipeline, kubectls, skip, text};

const NGINX_POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: nginx\nspec:\n  containers:\n  - name: nginx\n    image: nginx:1.25\n    ports:\n    - containerPort: 80\n";

const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: nginx
        image: nginx:1.25
        readinessProbe:
          httpGet: {path: /, port: 80}
          periodSeconds: 1
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
  - port: 80
";

#[test]
fn every_kubectl_does_what_tutorials_ask() {
    if skip() {
        return;
    }
    let mut pipeline = Pipeline::start(&[]);
    for (name, program) in kubectls() {
        println!("== kubectl: {name}");
        pipeline.with_kubectl(&program);
        bare_pod(&pipeline);
        deployment(&pipeline);
    }
    pipeline.stop();
}

fn bare_pod(pipeline: &Pipeline) {
    assert!(pipeline.ok(&["get", "nodes"]).contains("Ready"));
    let file = pipeline.dir().join("nginx_pod.yaml");
    std::fs::write(&file, NGINX_POD).unwrap();
    assert_eq!(pipeline.ok(&["create", "-f", file.to_str().unwrap()]), "pod/nginx created\n");
    pipeline.wait("nginx runs", || pipeline.get("pod nginx", "{.status.phase}") == "Running");
    let wide = pipeline.ok(&["get", "pods", "-o", "wide"]);
    assert!(wide.contains("1/1") && wide.contains("10.244."), "{wide}");
    let page = pipeline.ok(&["describe", "pod", "nginx"]);
    for part in [
        "Successfully assigned default/nginx to",
        "Container image \"nginx:1.25\" already present on machine",
        "Started container nginx",
    ] {
        assert!(page.contains(part), "no {part:?} in\n{page}");
    }
    assert!(pipeline.ok(&["logs", "nginx"]).contains("start worker process"));
    follow_logs(pipeline);
    exec(pipeline);
    port_forward(pipeline);
    let events = pipeline.ok(&["get", "events"]);
    assert!(events.contains("Scheduled") && events.contains("pod/nginx"), "{events}");
    assert!(pipeline.ok(&["delete", "pod", "nginx", "--grace-period=1"]).contains("pod \"nginx\" deleted"));
}

/// A request makes a line in the access log, and the follower shows it.
fn follow_logs(pipeline: &Pipeline) {
    let mut follower =
        pipeline.command(&["logs", "-f", "nginx", "--tail=0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap());
    pipeline.ok(&[
        "exec",
        "nginx",
        "--",
        "sh",
        "-c",
        "for i in 1 2 3; do wget -qO- http://127.0.0.1/followed >/dev/null 2>&1; sleep 1; done; true",
    ]);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("followed"), "{line:?}");
    follower.kill().unwrap();
    follower.wait().unwrap();
}

/// Output, exit code, and stdin to its end.
fn exec(pipeline: &Pipeline) {
    let output = pipeline.run(&["exec", "nginx", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(
        (text(&output.stdout).as_str(), output.status.code()),
        ("out\n", Some(7)),
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stderr).starts_with("err\n"), "{}", text(&output.stderr));
    let output = pipeline.run_with_stdin(&["exec", "-i", "nginx", "--", "wc", "-c"], "twelve bytes");
    assert_eq!(
        text(&output.stdout).trim(),
        "12",
        "stdin's end reaches the container: {}",
        text(&output.stderr)
    );
    // `script` gives kubectl a terminal.
    let config = pipeline.dir().join("admin.kubeconfig");
    let kubectl = pipeline.command(&[]).get_program().to_string_lossy().into_owned();
    let typed = format!(
        "KUBECONFIG={} {kubectl} exec -it nginx -- sh -c 'test -t 0 && echo terminal'",
        config.display()
    );
    let output = std::process::Command::new("script")
        .args(["-qec", &typed, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(text(&output.stdout).contains("terminal"), "{}", text(&output.stdout));
}

fn port_forward(pipeline: &Pipeline) {
    let mut child =
        pipeline.command(&["port-forward", "pod/nginx", ":80"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // Held open: kubectl prints a line for each connection and would die of a closed pipe.
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let port: u16 =
        line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("Welcome to nginx!"), "{answer}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn deployment(pipeline: &Pipeline) {
    let applied = pipeline.apply(WEB);
    assert_eq!(applied, "deployment.apps/web created\nservice/web created\n");
    pipeline.rolled_out("web");
    let all = pipeline.ok(&["get", "deploy,rs,pods,svc,endpointslices"]);
    for part in [
        "deployment.apps/web",
        "replicaset.apps/web-",
        "pod/web-",
        "service/web",
        "endpointslice.discovery.k8s.io/web-",
    ] {
        assert!(all.contains(part), "no {part} in\n{all}");
    }
    assert!(pipeline.apply(WEB).contains("deployment.apps/web unchanged"));
    assert!(pipeline.ok(&["scale", "deployment/web", "--replicas=3"]).contains("deployment.apps/web scaled"));
    pipeline.rolled_out("web");
    pipeline.ok(&["set", "image", "deployment/web", "nginx=nginx:1.26"]);
    pipeline.rolled_out("web");
    let images = pipeline.get("pods -l app=web", "{.items[*].spec.containers[0].image}");
    assert!(
        images.contains("nginx:1.26") && !pipeline.get("deployment web", "{.spec.template}").contains("1.25"),
        "{images}"
    );
    let history = pipeline.ok(&["rollout", "history", "deployment/web"]);
    assert!(history.contains("REVISION") && history.contains('2'), "{history}");
    pipeline.ok(&["rollout", "undo", "deployment/web"]);
    pipeline.rolled_out("web");
    assert!(
        pipeline.get("deployment web", "{.spec.template.spec.containers[0].image}").contains("nginx:1.25")
    );
    pipeline.apply(&WEB.replace("nginx:1.25", "nginx:1.27"));
    pipeline.rolled_out("web");
    pipeline.ok(&["delete", "deployment/web", "service/web"]);
    pipeline.wait("the pods of web are gone", || {
        pipeline.get("pods -l app=web", "{.items[*].metadata.name}").is_empty()
    });
}
