//! Ours beside a stock kubectl: the same generated command lines, the same answers.
//!
//! Where a stock kubectl 1.32 is installed (`STAGES_STOCK_KUBECTL_DIR/kubectl-1.32`), both are run on generated patches, generators'
//! flags, kubeconfigs and YAML, and must print the same, byte for byte. And ours must know every command and every flag of the stock one.
//! Without it the test says so and passes.
#![expect(clippy::disallowed_methods, reason = "a test that starts kubectl")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OURS: &str = env!("CARGO_BIN_EXE_kubectl");

fn stock() -> Option<PathBuf> {
    let dir = std::env::var_os("STAGES_STOCK_KUBECTL_DIR").map(PathBuf::from)?;
    let found = Some(dir.join("kubectl-1.32")).filter(|file| file.exists());
    if found.is_none() {
        println!("skipped: no stock kubectl 1.32");
    }
    found
}

/// Exit code, stdout, stderr.
fn run(kubectl: &Path, dir: &Path, arguments: &[String], stdin: &str) -> (i32, String, String) {
    let mut child = Command::new(kubectl)
        .args(arguments)
        .current_dir(dir)
        .env_clear()
        .env("HOME", dir)
        .env("PATH", "/usr/bin:/bin")
        .env("KUBECONFIG", dir.join("config"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    child.stdin.take().expect("a pipe").write_all(stdin.as_bytes()).expect("kubectl reads");
    let output = child.wait_with_output().expect("kubectl ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// A small seeded generator: the same cases on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }

    fn one<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn some(&mut self, all: &[&str]) -> Vec<String> {
        all.iter().filter(|_| self.below(2) == 0).map(|s| s.to_string()).collect()
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').filter(|word| !word.is_empty()).map(String::from).collect()
}

/// Runs each case with both and tells what differs.
fn compare(stock: &Path, cases: &[(Vec<String>, String)]) {
    let mut differing = Vec::new();
    for (arguments, stdin) in cases {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("d.yaml"), DEPLOYMENT).expect("written");
        let wanted = run(stock, dir.path(), arguments, stdin);
        let got = run(Path::new(OURS), dir.path(), arguments, stdin);
        if wanted != got {
            differing.push(format!("{arguments:?}\n{stdin}\nwant {wanted:#?}\ngot  {got:#?}"));
        }
    }
    let (all, bad) = (cases.len(), differing.len());
    println!("{} of {all} are the same", all - bad);
    assert!(bad == 0, "{bad} of {all} differ, the first:\n{}", differing[..bad.min(3)].join("\n\n"));
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {a: x, b: z}}
spec:
  replicas: 2
  selector: {matchLabels: {a: x}}
  template:
    metadata: {labels: {a: x}}
    spec:
      containers:
      - name: web
        image: nginx
        env: [{name: A, value: one}, {name: B, value: two}]
        ports: [{containerPort: 80}, {containerPort: 443}]
      - {name: side, image: busybox}
      volumes: [{name: v, emptyDir: {}}]
";

#[test]
fn generated_patches_give_the_same_objects() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice(1);
    let mut cases = Vec::new();
    for _ in 0..40 {
        let name = dice.one(&["web", "side", "new"]);
        let value = dice.one(&["null", "\"x\"", "\"y\""]);
        let container = match dice.below(4) {
            0 => format!(r#"{{"name":"{name}","$patch":"delete"}}"#),
            1 => format!(
                r#"{{"name":"{name}","image":"i","env":[{{"name":"{}","value":"3"}}]}}"#,
                dice.one(&["A", "C"])
            ),
            2 => format!(
                r#"{{"name":"{name}","image":"i","ports":[{{"containerPort":{},"name":"p"}}]}}"#,
                dice.one(&["80", "81"])
            ),
            _ => format!(r#"{{"name":"{name}","image":"i"}}"#),
        };
        let patch = match dice.below(4) {
            0 => format!(r#"{{"metadata":{{"labels":{{"{}":{value}}}}}}}"#, dice.one(&["a", "b", "c"])),
            1 => format!(
                r#"{{"spec":{{"replicas":{},"template":{{"spec":{{"containers":[{container}]}}}}}}}}"#,
                dice.below(5)
            ),
            2 => format!(
                r#"{{"spec":{{"template":{{"spec":{{"volumes":[{{"name":"{}","configMap":{{"name":"c"}}}}]}}}}}}}}"#,
                dice.one(&["v", "w"])
            ),
            _ => format!(r#"{{"metadata":{{"annotations":{{"k":{value}}}}},"spec":{{"paused":true}}}}"#),
        };
        let kind = dice.one(&["strategic", "merge"]);
        cases.push((
            ["patch", "--local", "-f", "d.yaml", "--type", kind, "-p", &patch, "-o", "yaml"]
                .map(String::from)
                .to_vec(),
            String::new(),
        ));
    }
    for path in ["/metadata/labels/a", "/spec/template/spec/containers/0", "/spec/none", "/metadata/labels"] {
        for op in ["remove", "replace", "add", "test"] {
            let patch = format!(r#"[{{"op":"{op}","path":"{path}","value":"q"}}]"#);
            let kind = ["patch", "--local", "-f", "d.yaml", "--type", "json", "-p", &patch, "-o", "name"];
            cases.push((kind.map(String::from).to_vec(), String::new()));
        }
    }
    compare(&stock, &cases);
}

#[test]
fn generators_make_the_same_objects() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice(2);
    let mut cases = Vec::new();
    let generators: [(&str, &[&str]); 11] = [
        ("create deployment d --image=nginx", &["--replicas=3", "--port=80", "-n=x"]),
        ("create deployment d --image=a/b:1 --image=c", &["--replicas=0", "-n=x"]),
        (
            "create configmap c",
            &["--from-literal=a=b", "--from-literal=c=d=e", "--from-file=d.yaml", "--append-hash", "-n=x"],
        ),
        (
            "create secret generic s",
            &["--from-literal=a=b", "--from-file=k=d.yaml", "--type=t", "--append-hash"],
        ),
        ("create service clusterip s --tcp=80:8080", &["--clusterip=None", "--tcp=443"]),
        ("create job j --image=busybox", &["-n=x", "-- echo a"]),
        ("create cronjob c --image=busybox --schedule=1", &["--restart=Never", "-- date"]),
        (
            "create ingress i --rule=a.b/c*=s:80",
            &["--rule=d/e=f:http,tls=g", "--class=k", "--annotation=a=b", "--default-backend=x:1"],
        ),
        ("create pdb p --selector=a=b --min-available=50%", &["-n=x", "--save-config"]),
        ("create quota q", &["--hard=pods=1,cpu=1500m", "--scopes=BestEffort,NotTerminating", "-n=x"]),
        (
            "create priorityclass p --value=7",
            &["--global-default", "--description=d", "--preemption-policy=Never"],
        ),
    ];
    for _ in 0..4 {
        for (command, flags) in generators {
            let mut arguments = words(command);
            let chosen = dice.some(flags);
            let (behind, before): (Vec<String>, Vec<String>) =
                chosen.into_iter().partition(|flag| flag.starts_with("-- "));
            arguments.extend(before);
            arguments.extend(words("--dry-run=client -o"));
            arguments.push(dice.one(&["yaml", "json", "name"]).to_string());
            arguments.extend(behind.iter().flat_map(|text| words(text)));
            cases.push((arguments, String::new()));
        }
    }
    compare(&stock, &cases);
}

#[test]
fn yaml_is_read_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice(3);
    let scalars = [
        "yes",
        "No",
        "on",
        "OFF",
        "y",
        "0644",
        "0o17",
        "0x1F",
        "1_000",
        "1e3",
        ".5",
        "1.50",
        "~",
        "null",
        "''",
        "'yes'",
        "\"a\\tb\"",
        "190:20:30",
        "2001-01-01",
        "!!str 5",
        "+7",
        "-0",
        "a b",
        "a#b",
        "a #c",
        "|\n    one\n    two",
        ">\n    one\n    two",
        "|-\n    one",
        "[a, b]",
        "{a: yes, 1: x}",
        "[]",
        "{}",
    ];
    let mut cases = Vec::new();
    for _ in 0..30 {
        let mut text = String::from(dice.one(&["", "---\n", "# c\n", "%YAML 1.1\n---\n"]));
        text += "apiVersion: x.y/v1\nkind: Foo\nmetadata: {name: a}\nspec:\n";
        for key in ["a", "b", "c", "d"] {
            text += &format!("  {key}: {}\n", dice.one(&scalars));
        }
        text += dice.one(&[
            "",
            "  base: &x {k: v}\n  use: *x\n",
            "  base: &x {k: v}\n  use:\n    <<: *x\n    l: m\n",
            "  a: again\n",
        ]);
        text += dice.one(&["", "---\n", "...\n", "---\n# nothing\n"]);
        if dice.below(4) == 0 {
            text = text.replace('\n', "\r\n");
        }
        cases.push((words("annotate --local -f - k=v -o json"), text));
    }
    compare(&stock, &cases);
}

#[test]
fn kubeconfigs_are_written_and_merged_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice(4);
    let commands = [
        "set-cluster a --server=https://a:1",
        "set-cluster b --server=https://b --insecure-skip-tls-verify=true",
        "set-cluster a --tls-server-name=x --proxy-url=http://p:1",
        "set-credentials u --token=t",
        "set-credentials u --username=n --password=p",
        "set-credentials e --exec-command=c --exec-api-version=client.authentication.k8s.io/v1 --exec-arg=a --exec-env=K=V",
        "set-context one --cluster=a --user=u --namespace=n",
        "set-context two --cluster=b --user=e",
        "set-context --current --namespace=z",
        "use-context one",
        "use-context none",
        "set clusters.a.server https://c",
        "set current-context two",
        "unset users.u.token",
        "unset contexts.one",
        "rename-context two three",
        "delete-context one",
        "delete-cluster b",
        "delete-user e",
        "get-contexts",
        "get-contexts -o name",
        "get-clusters",
        "get-users",
        "current-context",
        "view",
        "view --minify",
        "view --raw -o json",
        "view --flatten",
    ];
    for round in 0..12 {
        let (theirs, ours) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        for step in 0..10 {
            let arguments = [words("config"), words(dice.one(&commands))].concat();
            let wanted = run(&stock, theirs.path(), &arguments, "");
            let got = run(Path::new(OURS), ours.path(), &arguments, "");
            let in_place = |text: &str, dir: &Path| text.replace(&dir.display().to_string(), "DIR");
            let (w, g) = (
                (wanted.0, in_place(&wanted.1, theirs.path()), in_place(&wanted.2, theirs.path())),
                (got.0, in_place(&got.1, ours.path()), in_place(&got.2, ours.path())),
            );
            assert_eq!(g, w, "round {round} step {step}: {arguments:?}");
            let file = |dir: &Path| fs::read_to_string(dir.join("config")).unwrap_or_default();
            assert_eq!(
                file(ours.path()),
                file(theirs.path()),
                "round {round} step {step}: the file after {arguments:?}"
            );
        }
    }
}

/// The subcommands and the flags (with their letters) that a stock help text lists.
fn help_of(kubectl: &Path, command: &[String]) -> (Vec<String>, BTreeSet<String>) {
    let dir = tempfile::tempdir().expect("a folder");
    let (_, text, _) = run(kubectl, dir.path(), &[command, &["--help".to_string()]].concat(), "");
    let (mut commands, mut flags, mut part) = (Vec::new(), BTreeSet::new(), "");
    for line in text.lines() {
        if !line.starts_with(' ') && line.ends_with(':') {
            part = if line.contains("ommands") { "commands" } else { line };
        }
        let word = line.split_whitespace().next().unwrap_or_default();
        match part {
            "commands" if line.starts_with("  ") && !line.starts_with("   ") => {
                commands.push(word.to_string())
            }
            "Options:" if line.starts_with("    -") => {
                flags.insert(line.trim().split('=').next().unwrap_or_default().to_string());
            }
            _ => {}
        }
    }
    (commands, flags)
}

#[test]
fn every_stock_command_and_flag_is_known() {
    let Some(stock) = stock() else { return };
    let (mut waiting, mut missing, mut known) = (vec![Vec::<String>::new()], Vec::new(), 0);
    while let Some(command) = waiting.pop() {
        let (commands, flags) = help_of(&stock, &command);
        waiting.extend(
            commands.iter().filter(|c| *c != "kubectl").map(|c| [command.clone(), vec![c.clone()]].concat()),
        );
        let dir = tempfile::tempdir().expect("a folder");
        let (code, ours, _) =
            run(Path::new(OURS), dir.path(), &[&command[..], &["--help".to_string()]].concat(), "");
        if code != 0 || ours.is_empty() {
            missing.push(format!("command {command:?}"));
            continue;
        }
        for flag in flags {
            known += 1;
            // `-f, --filename` and `--filename` are both there, or neither is.
            if !ours.contains(&format!("{flag} "))
                && !ours.contains(&format!("{flag}["))
                && !ours.contains(&format!("{flag}\n"))
            {
                missing.push(format!("{command:?}: {flag}"));
            }
        }
    }
    assert!(known > 850, "the stock help was read: {known} flags");
    assert!(missing.is_empty(), "of {known} flags {} are missing:\n{}", missing.len(), missing.join("\n"));
}
