//! kubectl against containers that run: streams here, objects in [`objects`]; all on one pipeline.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::cluster::{Pipeline, binary, skip, text};

mod beside;
mod objects;
mod troubles;

/// Two pods of two containers behind a Service, a pod that ends once, and one that answers what it is told.
const WORLD: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: nginx, image: 'nginx:1.25', ports: [{containerPort: 80, name: http}]}
      - {name: side, image: 'busybox:1.36', command: [sh, -c, 'echo side; exec sleep 3600']}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 8000, targetPort: http, name: main}]
---
apiVersion: v1
kind: Pod
metadata: {name: once}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, 'if [ -e /d/second ]; then echo second; exec sleep 3600; fi; echo first; until [ -e /d/go ]; do sleep 1; done; touch /d/second; exit 3']
    volumeMounts: [{name: d, mountPath: /d}]
  volumes: [{name: d, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: cat}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: cat, image: 'busybox:1.36', stdin: true, command: [sh, -c, 'echo hello; cat; exec sleep 3600']}
";

#[test]
#[ignore = "four hundred commands beside a stock kubectl, thirty troubles: some minutes, by hand"]
fn every_command_works_on_a_live_cluster() {
    if skip() {
        return;
    }
    let mut pipeline = Pipeline::start(&[]);
    pipeline.apply(WORLD);
    pipeline.rolled_out("web");
    pipeline.ok(&["wait", "--for=condition=Ready", "pod/once", "pod/cat", "--timeout=60s"]);
    let web = pipeline.get("pods -l app=web", "{.items[0].metadata.name}");
    logs(&pipeline, &web);
    copy(&pipeline, &web);
    in_cluster(&pipeline, &web);
    attach(&pipeline);
    run(&pipeline);
    debug(&pipeline);
    port_forward(&pipeline);
    proxy(&pipeline);
    beside::all(&pipeline);
    objects::all(&pipeline);
    pipeline.stop();
}

/// A command that goes on, and its output line by line.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    fn end(mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

/// Stdout, stderr and the exit code of a command.
fn said(pipeline: &Pipeline, args: &[&str]) -> (String, String, i32) {
    let output = pipeline.run(args);
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
}

fn logs(pipeline: &Pipeline, web: &str) {
    let mut follower = Running::start(pipeline.command(&["logs", "-f", "once"]));
    assert_eq!(follower.line(), "first\n");
    pipeline.ok(&["exec", "once", "--", "touch", "/d/go"]);
    assert_eq!(follower.line(), "second\n", "the log goes on in the container's next instance");
    follower.end();
    pipeline.wait("once is restarted", || {
        pipeline.get("pod once", "{.status.containerStatuses[0].restartCount}") == "1"
    });
    assert_eq!(pipeline.ok(&["logs", "once"]), "second\n");
    assert_eq!(pipeline.ok(&["logs", "once", "--previous"]), "first\n");
    let all = pipeline.ok(&["logs", "-l", "app=web", "--all-containers", "--prefix", "--tail=1"]);
    assert_eq!(all.matches("/side] side\n").count(), 2, "{all}");
    assert!(all.contains(&format!("[pod/{web}/side] side\n")), "{all}");
    let (_, why, code) =
        said(pipeline, &["logs", "-f", "-l", "app=web", "--all-containers", "--max-log-requests=3"]);
    let wanted = "error: you are attempting to follow 4 log streams, but maximum allowed concurrency is 3, use --max-log-requests to increase the limit\n";
    assert_eq!((why.as_str(), code), (wanted, 1));
    assert_eq!(pipeline.ok(&["logs", "cat", "--limit-bytes=3"]), "hel");
    let (_, why, _) = said(pipeline, &["logs", "cat", "--previous"]);
    assert!(why.contains("previous terminated container \"cat\" in pod \"cat\" not found"), "{why}");
    // A workload without pods is waited for, as long as it is wanted.
    pipeline.ok(&["create", "deployment", "none", "--image=busybox:1.36", "--replicas=0"]);
    let (_, why, code) = said(pipeline, &["logs", "deploy/none", "--pod-running-timeout=1s"]);
    assert_eq!((why.as_str(), code), ("error: timed out waiting for the condition\n", 1));
    pipeline.ok(&["delete", "deployment", "none"]);
}

fn copy(pipeline: &Pipeline, web: &str) {
    let dir = pipeline.dir().join("copy");
    std::fs::create_dir_all(dir.join("tree/sub")).unwrap();
    std::fs::write(dir.join("tree/one"), "one").unwrap();
    std::fs::write(dir.join("tree/sub/two"), "two").unwrap();
    let big: Vec<u8> = (0..8_000_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    std::fs::write(dir.join("big"), &big).unwrap();
    let here = |name: &str| dir.join(name).display().to_string();
    let there = |path: &str| format!("default/{web}:{path}");
    let cp = |from: &str, to: &str| said(pipeline, &["cp", from, to, "-c", "nginx"]);

    assert_eq!(cp(&here("tree"), &there("/tmp")).2, 0);
    let found =
        pipeline.ok(&["exec", web, "-c", "nginx", "--", "sh", "-c", "cat /tmp/tree/one /tmp/tree/sub/two"]);
    assert_eq!(found, "onetwo");
    assert_eq!(cp(&here("big"), &there("/tmp/big")).2, 0);
    assert_eq!(cp(&there("/tmp/big"), &here("back")).2, 0);
    assert!(std::fs::read(dir.join("back")).unwrap() == big, "eight million bytes there and back");
    assert_eq!(cp(&there("/tmp/tree"), &here("tree-back")).2, 0);
    assert_eq!(std::fs::read_to_string(dir.join("tree-back/sub/two")).unwrap(), "two");

    // What the container's side made up lands nowhere but in the target.
    let evil = "mkdir -p /tmp/evil && cd /tmp/evil && ln -sf /etc/passwd link && echo ok > ok";
    pipeline.ok(&["exec", web, "-c", "nginx", "--", "sh", "-c", evil]);
    let (_, warned, code) = cp(&there("/tmp/evil"), &here("evil"));
    assert_eq!(code, 0, "{warned}");
    assert!(warned.contains("warning: skipping symlink:"), "{warned}");
    assert!(!dir.join("evil/link").exists() && dir.join("evil/ok").exists());
    let (_, why, code) = cp(&there("/tmp/../../../none"), &here("none"));
    assert!(code != 0 && why.contains("No such file or directory"), "{why}");
    assert!(!dir.join("none").exists());
    let (_, why, _) = cp(&here("nothing"), &there("/tmp"));
    assert_eq!(why, format!("error: {} doesn't exist in local filesystem\n", here("nothing")));
    // Without a tar in the container nothing can be copied, and the words say what is missing.
    pipeline.ok(&["exec", web, "-c", "side", "--", "sh", "-c", "rm -f /bin/tar /usr/bin/tar"]);
    let (_, why, code) = said(pipeline, &["cp", &here("big"), &there("/tmp/big"), "-c", "side"]);
    assert!(code != 0 && why.contains("\"tar\": executable file not found in $PATH"), "{why}");
}

/// Inside of a pod, kubectl finds the server and the pod's account by itself.
fn in_cluster(pipeline: &Pipeline, web: &str) {
    let program = binary("kubectl");
    let needed = text(&Command::new("ldd").arg(&program).output().unwrap().stdout);
    let libraries = needed.lines().filter_map(|line| line.split(" => ").nth(1)?.split(' ').next());
    for file in libraries.chain([program.to_str().unwrap()]) {
        let name = Path::new(file).file_name().unwrap().to_str().unwrap();
        let file = std::fs::canonicalize(file).unwrap().display().to_string();
        pipeline.ok(&["cp", &file, &format!("{web}:/tmp/{name}"), "-c", "nginx"]);
    }
    let inside = |command: &str| {
        let command = format!("LD_LIBRARY_PATH=/tmp /tmp/kubectl {command}");
        said(pipeline, &["exec", web, "-c", "nginx", "--", "sh", "-c", &command])
    };
    let who = inside("auth whoami -o jsonpath={.status.userInfo.username}").0;
    assert_eq!(who, "system:serviceaccount:default:default");
    let (out, why, code) = inside("get pods");
    let words = "Error from server (Forbidden): pods is forbidden: User \"system:serviceaccount:default:default\" cannot list resource \"pods\"";
    assert!(code == 1 && why.starts_with(words), "exit code {code}: {out}{why}");
}

fn attach(pipeline: &Pipeline) {
    let mut attached = Running::start(pipeline.command(&["attach", "-i", "cat", "-q"]));
    let mut input = attached.child.stdin.take().unwrap();
    // The container hears what is said after it has been joined; until then there is nobody to hear it.
    let (sender, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while heard.try_recv().is_err() {
            if input.write_all(b"echo\n").and_then(|()| input.flush()).is_err() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    });
    assert_eq!(attached.line(), "echo\n");
    sender.send(()).unwrap();
    attached.end();
    let (_, why, code) = said(pipeline, &["attach", "cat", "-c", "no"]);
    let wanted = "error: cannot attach to the container: container no not found in pod cat\n";
    assert_eq!((why.as_str(), code), (wanted, 1));
}

fn run(pipeline: &Pipeline) {
    let args = ["run", "told", "--image=busybox:1.36", "--restart=Never", "--rm", "-i", "-q", "--", "cat"];
    let output = pipeline.run_with_stdin(&args, "twelve bytes");
    assert_eq!(text(&output.stdout), "twelve bytespod \"told\" deleted\n", "{}", text(&output.stderr));
    let args = [
        "run",
        "ends",
        "--image=busybox:1.36",
        "--restart=Never",
        "--rm",
        "-i",
        "-q",
        "--",
        "sh",
        "-c",
        "exit 4",
    ];
    let (_, why, code) = said(pipeline, &args);
    assert_eq!(code, 4, "the container's exit code is kubectl's: {why}");
    assert!(why.contains("pod default/ends terminated (Error)"), "{why}");
    // `script` gives kubectl a terminal, and the container gets one, too.
    let kubectl = pipeline.command(&[]).get_program().to_string_lossy().into_owned();
    let config = pipeline.dir().join("admin.kubeconfig");
    let typed = format!(
        "KUBECONFIG={} {kubectl} run seen --image=busybox:1.36 --restart=Never --rm -it -- sh -c 'test -t 0 && echo terminal; read x; echo got $x'",
        config.display()
    );
    let mut script = Command::new("script")
        .args(["-qec", &typed, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    script.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    let page = text(&script.wait_with_output().unwrap().stdout);
    assert!(page.contains("got typed") && page.contains("pod \"seen\" deleted"), "{page}");
}

fn debug(pipeline: &Pipeline) {
    let (_, why, code) = said(
        pipeline,
        &[
            "debug",
            "cat",
            "--image=busybox:1.36",
            "-c",
            "look",
            "--target=cat",
            "--profile=general",
            "--",
            "sh",
            "-c",
            "echo looked; exec sleep 3600",
        ],
    );
    assert_eq!(code, 0, "{why}");
    pipeline.wait("the ephemeral container has looked", || {
        text(&pipeline.run(&["logs", "cat", "-c", "look"]).stdout) == "looked\n"
    });
    let node = pipeline.get("nodes", "{.items[0].metadata.name}");
    let look = ["sh", "-c", "ls -d /host/etc; exec sleep 3600"];
    let args = ["debug", &format!("node/{node}"), "--image=busybox:1.36", "--profile=general", "-q", "--"];
    let (_, why, code) = said(pipeline, &[args.as_slice(), look.as_slice()].concat());
    assert_eq!(code, 0, "{why}");
    let pods = pipeline.get("pods", "{.items[*].metadata.name}");
    let debugger =
        pods.split(' ').find(|name| name.starts_with("node-debugger-")).expect("a pod on the node");
    pipeline.wait("the node's files are there", || {
        text(&pipeline.run(&["logs", debugger]).stdout) == "/host/etc\n"
    });
    pipeline.ok(&["delete", "pod", debugger, "--now"]);
}

/// The answer of a web server at a local port; empty when the connection is cut.
fn ask(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// The port in `Forwarding from 127.0.0.1:40123 -> 80`; the line for IPv6 is read, too, where there is one.
fn forwarded(running: &mut Running) -> u16 {
    loop {
        let line = running.line();
        assert!(line.starts_with("Forwarding from "), "{line}");
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        if let Some(port) = port {
            return port;
        }
    }
}

fn port_forward(pipeline: &Pipeline) {
    let mut service = Running::start(pipeline.command(&["port-forward", "svc/web", ":main"]));
    let port = forwarded(&mut service);
    assert!(ask(port).contains("Welcome to nginx!"), "a Service's port by its name");
    service.end();
    let mut command = pipeline.command(&["port-forward", "deploy/web", ":80", ":81"]);
    let noise = pipeline.dir().join("port-forward.err");
    command.stderr(std::fs::File::create(&noise).unwrap());
    let mut deployment = Running::start(command);
    let (open, shut) = (forwarded(&mut deployment), forwarded(&mut deployment));
    for _ in 0..4 {
        assert_eq!(ask(shut), "", "nobody listens at 81");
        assert!(ask(open).contains("Welcome to nginx!"), "the other port goes on");
    }
    pipeline.wait("the refusal is told", || read(&noise).contains("error forwarding port 81"));
    deployment.end();
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn proxy(pipeline: &Pipeline) {
    let mut proxy = Running::start(pipeline.command(&["proxy", "--port=0"]));
    let line = proxy.line();
    let port: u16 =
        line.trim().rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    let get = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/api/v1/namespaces/default/pods/cat").contains("\"name\":\"cat\""));
    assert!(get("/api/v1/namespaces/default/services/web:main/proxy/").contains("Welcome to nginx!"));
    let refused = get("/api/v1/namespaces/default/pods/cat/exec?command=id");
    assert!(
        refused.starts_with("HTTP/1.") && refused.contains(" 403 "),
        "no commands through a proxy: {refused}"
    );
    proxy.end();
}
