//! Kubeconfigs: what `config` writes, and how several files become one.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::{Dice, OURS, run_with, stock, words};

const COMMANDS: [&str; 36] = [
    "set-cluster a --server=https://a:1",
    "set-cluster b --server=https://b --insecure-skip-tls-verify=true",
    "set-cluster b --insecure-skip-tls-verify=false",
    "set-cluster a --tls-server-name=x --proxy-url=http://p:1",
    "set-cluster a --certificate-authority=ca.crt",
    "set-cluster a --certificate-authority=ca.crt --embed-certs",
    "set-credentials u --token=t",
    "set-credentials u --username=n --password=p",
    "set-credentials u --client-certificate=c.crt --client-key=c.key",
    "set-credentials e --exec-command=c --exec-api-version=client.authentication.k8s.io/v1 --exec-arg=a --exec-env=K=V",
    "set-credentials e --exec-env=K-",
    "set-context one --cluster=a --user=u --namespace=n",
    "set-context two --cluster=b --user=e",
    "set-context --current --namespace=z",
    "use-context one",
    "use-context none",
    "set clusters.a.server https://c",
    "set current-context two",
    "set users.u.client-key-data a2V5 --set-raw-bytes=false",
    "set contexts.one.namespace q",
    "unset users.u.token",
    "unset contexts.one",
    "unset current-context",
    "unset clusters.none",
    "rename-context two three",
    "rename-context none x",
    "delete-context one",
    "delete-cluster b",
    "delete-user e",
    "get-contexts",
    "get-contexts one --no-headers",
    "get-contexts -o name",
    "get-clusters",
    "get-users",
    "current-context",
    "view",
];

const VIEWS: [&str; 6] = [
    "view",
    "view --minify",
    "view --raw -o json",
    "view --flatten",
    "view --minify --context=two",
    "view -o jsonpath={.clusters[*].name}",
];

/// Runs one command with both, each in its folder.
fn both(stock: &Path, dirs: [&Path; 2], arguments: &[String], config: &[&str]) -> [(i32, String, String); 2] {
    let programs = [stock, Path::new(OURS)];
    [0, 1].map(|at| {
        let dir = dirs[at];
        let paths: Vec<String> = config.iter().map(|name| dir.join(name).display().to_string()).collect();
        let (code, stdout, stderr) = run_with(programs[at], dir, arguments, "", &paths.join(":"));
        let in_place = |text: String| text.replace(&dir.display().to_string(), "DIR");
        let mut stdout = in_place(stdout);
        if arguments.iter().any(|word| word == "get-clusters") {
            // The stock kubectl prints them as they come out of a map.
            let mut lines: Vec<&str> = stdout.lines().collect();
            lines.sort_unstable();
            stdout = lines.join("\n");
        }
        (code, stdout, in_place(stderr))
    })
}

#[test]
fn kubeconfigs_are_written_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(4);
    for round in 0..dice.rounds(100) / 10 {
        let (theirs, ours) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        for dir in [&theirs, &ours] {
            for file in ["ca.crt", "c.crt", "c.key"] {
                fs::write(dir.path().join(file), file).expect("written");
            }
        }
        for step in 0..10 {
            let command = if dice.below(5) == 0 { dice.one(&VIEWS) } else { dice.one(&COMMANDS) };
            let arguments = [words("config"), words(command)].concat();
            let [wanted, got] = both(&stock, [theirs.path(), ours.path()], &arguments, &["config"]);
            assert_eq!(got, wanted, "round {round} step {step}: {arguments:?}");
            let file = |dir: &Path| {
                fs::read_to_string(dir.join("config"))
                    .unwrap_or_default()
                    .replace(&dir.display().to_string(), "DIR")
            };
            assert_eq!(
                file(ours.path()),
                file(theirs.path()),
                "round {round} step {step}: the file after {arguments:?}"
            );
        }
    }
}

fn entry(dice: &mut Dice, list: &str) -> Value {
    let name = dice.one(&["a", "b", "c"]);
    let inner = match list {
        "clusters" => match dice.below(4) {
            0 => json!({"server": dice.one(&["https://one", "https://two:6443/x", "http://three"])}),
            1 => {
                json!({"server": "https://one", "certificate-authority": dice.one(&["ca.crt", "sub/ca.crt", "/etc/ca.crt"])})
            }
            2 => json!({"server": "https://two", "insecure-skip-tls-verify": true, "tls-server-name": "n"}),
            _ => {
                json!({"certificate-authority-data": "Y2E=", "extensions": [{"name": "e", "extension": {"k": "v"}}]})
            }
        },
        "users" => match dice.below(5) {
            0 => json!({"token": dice.one(&["t", "u"])}),
            1 => json!({"client-certificate": "c.crt", "client-key": "c.key"}),
            2 => json!({"username": "n", "password": "p"}),
            3 => {
                json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": dice.one(&["plug", "./plug", "bin/plug"]), "interactiveMode": "Never"}})
            }
            _ => json!({"as": "x", "as-groups": ["g"], "tokenFile": "tok"}),
        },
        _ => {
            json!({"cluster": dice.one(&["a", "b", "none"]), "user": dice.one(&["a", "b"]), "namespace": dice.one(&["", "n"])})
        }
    };
    let field = list.trim_end_matches('s');
    json!({"name": name, field: inner})
}

/// A file as people have it: lists in any order, names twice, parts missing.
fn file(dice: &mut Dice) -> Value {
    let mut config = json!({"apiVersion": "v1", "kind": "Config"});
    for list in ["clusters", "users", "contexts"] {
        if dice.below(4) > 0 {
            let mut entries: Vec<Value> = (0..dice.below(3)).map(|_| entry(dice, list)).collect();
            // Two of one name are refused with a dump of Go's structs, addresses and all.
            entries.dedup_by(|a, b| a["name"] == b["name"]);
            config[list] = entries.into();
        }
    }
    if dice.below(2) == 0 {
        config["current-context"] = dice.one(&["a", "b", "c", "none", ""]).into();
    }
    if dice.below(5) == 0 {
        config["preferences"] = json!({"colors": true});
    }
    config
}

#[test]
fn kubeconfigs_are_merged_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(5);
    let commands = [
        "view",
        "view --raw",
        "view --raw -o json",
        "view --minify",
        "view --minify --raw",
        "get-contexts",
        "get-clusters",
        "get-users",
        "current-context",
        "view --minify --context=b",
        "use-context b",
        "set-context a --namespace=m",
        "set-context new --user=a",
        "set-cluster b --server=https://s",
        "delete-context a",
        "unset users.a",
        "view --merge=false",
        "rename-context a z",
        "set current-context q",
    ];
    for round in 0..dice.rounds(25) {
        let (theirs, ours) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let all = ["config", "sub/second", "third", "missing"];
        let names: Vec<&str> = all.iter().copied().filter(|_| dice.below(4) > 0).collect();
        for name in names.iter().filter(|name| **name != "missing") {
            let text = file(&mut dice).to_string();
            for dir in [theirs.path(), ours.path()] {
                let path = dir.join(name);
                fs::create_dir_all(path.parent().expect("inside the folder")).expect("made");
                fs::write(path, &text).expect("written");
            }
        }
        let arguments = [words("config"), words(dice.one(&commands))].concat();
        let [wanted, got] = both(&stock, [theirs.path(), ours.path()], &arguments, &names);
        let texts = |dir: &Path| {
            names
                .iter()
                .map(|name| {
                    fs::read_to_string(dir.join(name))
                        .unwrap_or_default()
                        .replace(&dir.display().to_string(), "DIR")
                })
                .collect::<Vec<_>>()
        };
        let before = texts(theirs.path());
        assert_eq!(got, wanted, "round {round}: {arguments:?} with {names:?}\n{before:#?}");
        assert_eq!(texts(ours.path()), before, "round {round}: the files after {arguments:?}");
    }
}
