//! What objects look like: JSONPath, Go templates, custom columns, `describe`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Case, Dice, compare, stock};

/// An object with something of everything that a path can meet.
fn world() -> BTreeMap<String, Value> {
    let item = |name: &str, n: i64, more: Value| {
        json!({"apiVersion": "x.y/v1", "kind": "Foo", "metadata": {"name": name, "namespace": "default", "labels": {"app": "web", "a.b/c": "d"}},
            "spec": {"n": n, "half": 0.5, "yes": true, "no": false, "nothing": Value::Null, "text": "a b", "empty": "",
                "list": [1, 2, 3, 4], "none": [], "map": {}, "big": 12_345_678_901_i64,
                "items": [{"k": "x", "v": 1}, {"k": "y", "v": 2, "w": [5, 6]}, {"k": "z"}], "more": more}})
    };
    let items = vec![
        item("a", 1, json!("m")),
        item("b", 2, json!({"deep": [{"er": 1}, {"er": "2"}]})),
        item("c", 3, json!([[1, 2], [3]])),
    ];
    let one = items[1].clone();
    let list = json!({"apiVersion": "x.y/v1", "kind": "FooList", "metadata": {"resourceVersion": "1"}, "items": items});
    let base = "/apis/x.y/v1/namespaces/default/foos";
    BTreeMap::from([(base.to_string(), list), (format!("{base}/b"), one)])
}

const FIELDS: [&str; 22] = [
    "metadata", "name", "labels", "app", "spec", "n", "half", "yes", "no", "nothing", "text", "empty",
    "list", "none", "map", "big", "items", "k", "v", "w", "more", "zzz",
];

/// Steps behind `.items[*].spec`.
fn steps(dice: &mut Dice, depth: usize) -> String {
    let mut path = String::new();
    for _ in 0..dice.below(depth + 1) {
        path += &match dice.below(14) {
            0..=5 => format!(".{}", dice.one(&FIELDS)),
            6 => format!("..{}", dice.one(&FIELDS)),
            7 => "[*]".to_string(),
            8 => ".*".to_string(),
            9 => format!("['{}']", dice.one(&FIELDS)),
            10 => format!("[{}]", dice.one(&["0", "1", "-1", "5", "-9", "0,1", "1,0,-1", "'k','v'"])),
            11 => format!(
                "[{}]",
                dice.one(&["0:2", "1:", ":2", "-2:", "::2", "0:4:2", "3:1", "-1:0", ":", "1:1", "0:9"])
            ),
            // A filter wants a list: what isn't one is an error there, and finds nothing here.
            12 => format!(".items[?({})]", condition(dice)),
            _ => dice
                .one(&[
                    ".metadata.labels.a\\.b/c",
                    ".metadata.labels['a\\.b/c']",
                    ".spec.items",
                    ".spec.list",
                ])
                .to_string(),
        };
    }
    path
}

fn condition(dice: &mut Dice) -> String {
    let left = dice.one(&["@.k", "@.v", "@.er", "@", "@.spec.n", "@.metadata.name", "@.w[0]", "@.zzz"]);
    let right = dice.one(&["1", "2", "\"x\"", "'y'", "\"b\"", "true", "1.5", "@.v", "\"2\"", "0"]);
    match dice.below(5) {
        0 => left.to_string(),
        _ => format!("{left}{}{right}", dice.one(&["==", "!=", "<", "<=", ">", ">=", " == ", " > "])),
    }
}

fn expression(dice: &mut Dice) -> String {
    let start = dice.one(&["", "$", ".items", ".items[*]", "$.items[1]", ".items[*].spec", "..spec", "@"]);
    format!("{{{start}.spec{}}}", steps(dice, 3))
}

fn template(dice: &mut Dice) -> String {
    match dice.below(8) {
        0 => format!("{}{}", expression(dice), expression(dice)),
        1 => format!(
            "{{range .items[*]}}{{.metadata.name}}{{\"\\t\"}}{{.spec{}}}{{\"\\n\"}}{{end}}",
            steps(dice, 3)
        ),
        2 => format!("a={} {{\"b\\n\"}}{{'c'}}", expression(dice)),
        3 => {
            format!(
                "{{range .items[*]}}{{range .spec.items[*]}}{{.k}} {{end}}{{.spec{}}}{{end}}",
                steps(dice, 2)
            )
        }
        4 => format!(
            "{{{}",
            dice.one(&[
                ".items[",
                ".items[0",
                "range .items",
                ".items[?(@.k",
                "\"a",
                ".items[x]}",
                ".items[0:1:2:3]}",
                "}",
                "end}",
                ".a b}",
                "range .a}"
            ])
        ),
        _ => expression(dice),
    }
}

#[test]
fn jsonpath_templates_print_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(10);
    let cases = dice.cases(25, |dice| {
        let form = dice.one(&["jsonpath", "jsonpath", "jsonpath", "jsonpath-as-json"]);
        let text = if form == "jsonpath" { template(dice) } else { expression(dice) };
        let what: &[&str] = if dice.below(4) == 0 { &["foos", "b"] } else { &["foos"] };
        let strict = dice.below(6) == 0;
        let output = format!("{form}={text}");
        let mut words: Vec<&str> =
            ["get"].into_iter().chain(what.iter().copied()).chain(["-o", &output]).collect();
        if strict {
            words.push("--allow-missing-template-keys=false");
        }
        Case { outcome: true, ..Case::asking(&words) }
    });
    compare(&stock, &cases, &world());
}

#[test]
fn custom_columns_print_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(11);
    let cases = dice.cases(25, |dice| {
        let columns: Vec<String> = (0..=dice.below(3))
            .map(|at| {
                let start = dice.one(&[
                    "",
                    ".metadata",
                    ".spec",
                    ".spec.items[*]",
                    ".spec.more",
                    "{.metadata",
                    "metadata",
                ]);
                let close = if start.starts_with('{') { "}" } else { "" };
                format!(
                    "{}:{start}{}{close}",
                    dice.one(&["A", "NAME", "Two", "x"]).repeat(at + 1),
                    steps(dice, 2)
                )
            })
            .collect();
        let output = format!("custom-columns={}", columns.join(","));
        let mut words = vec!["get", "foos", "-o", &output];
        if dice.below(4) == 0 {
            words.push("--no-headers");
        }
        if dice.below(4) == 0 {
            words.insert(2, "b");
        }
        if dice.below(5) == 0 {
            words.extend([
                "--sort-by",
                dice.one(&[".spec.n", "{.metadata.name}", ".spec.text", ".spec.zzz", ".spec.half"]),
            ]);
        }
        Case { outcome: true, ..Case::asking(&words) }
    });
    compare(&stock, &cases, &world());
}

fn operand(dice: &mut Dice) -> String {
    dice.one(&[
        ".kind",
        ".metadata.name",
        ".spec.n",
        ".spec.half",
        ".spec.yes",
        ".spec.no",
        ".spec.text",
        ".spec.list",
        ".spec.map",
        ".spec.zzz",
        ".spec.nothing",
        "1",
        "\"s\"",
        "`raw`",
        "true",
        "(len .spec.list)",
        "(index .spec.list 1)",
        "(index .metadata.labels \"app\")",
        ".spec.big",
        "$",
    ])
    .to_string()
}

fn pipeline(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => format!("printf \"%s|%v\" {} {}", operand(dice), operand(dice)),
        1 => format!(
            "printf \"{}\" {}",
            dice.one(&["%d", "%5d", "%q", "%x", "%t", "%-8sx", "%05.1f", "%T", "%%"]),
            operand(dice)
        ),
        2 => format!("{} {} {}", dice.one(&["eq", "ne"]), operand(dice), operand(dice)),
        3 => format!("{} {} {}", dice.one(&["lt", "le", "gt", "ge"]), operand(dice), operand(dice)),
        4 => format!("{} {} {}", dice.one(&["and", "or"]), operand(dice), operand(dice)),
        5 => format!("not {}", operand(dice)),
        6 => format!("len {}", operand(dice)),
        7 => format!("index {} {}", operand(dice), dice.one(&["0", "1", "9", "\"app\"", "\"k\""])),
        8 => format!(
            "{} | {}",
            operand(dice),
            dice.one(&["len", "printf \"%v\"", "html", "js", "urlquery", "print", "println", "not"])
        ),
        9 => format!("exists {} \"k\"", operand(dice)),
        10 => format!("slice {} {}", operand(dice), dice.one(&["1", "0 2", "1 1"])),
        _ => operand(dice),
    }
}

fn go_template(dice: &mut Dice, depth: usize) -> String {
    let mut text = String::new();
    for _ in 0..=dice.below(2) {
        let (open, close) = (dice.one(&["{{", "{{", "{{- "]), dice.one(&["}}", "}}", " -}}"]));
        text += &match dice.below(if depth == 0 { 3 } else { 9 }) {
            0 | 1 => format!("{open}{}{close}", pipeline(dice)),
            2 => dice.one(&[" a ", "\n", "{{/* c */}}", "x{{ \"\\n\" }}"]).to_string(),
            3 => format!(
                "{{{{if {}}}}}{}{{{{else}}}}{}{{{{end}}}}",
                pipeline(dice),
                go_template(dice, depth - 1),
                go_template(dice, depth - 1)
            ),
            4 => format!("{{{{range {}}}}}{{{{.}}}},{{{{else}}}}none{{{{end}}}}", operand(dice)),
            5 => format!(
                "{{{{range $i, $e := .spec.items}}}}{{{{$i}}}}={{{{$e.k}}}}{}{{{{end}}}}",
                dice.one(&["", "{{if $e.v}}!{{end}}"])
            ),
            6 => format!("{{{{with {}}}}}{{{{.}}}}{{{{else}}}}without{{{{end}}}}", pipeline(dice)),
            7 => format!("{{{{$x := {}}}}}[{{{{$x}}}}]", pipeline(dice)),
            _ => format!("{{{{if {}}}}}A{{{{else if {}}}}}B{{{{end}}}}", pipeline(dice), pipeline(dice)),
        };
    }
    text
}

#[test]
fn go_templates_print_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(12);
    let cases = dice.cases(25, |dice| {
        let text = match dice.below(15) {
            0 => dice.one(&["{{", "{{.a", "{{if}}", "{{end}}", "{{.a | zzz}}", "{{range .x}}", "{{template \"n\"}}", "{{\"a}}", "{{.a.b.c}}", "{{(1}}"]).to_string(),
            1 => "{{define \"t\"}}<{{.}}>{{end}}{{template \"t\" .kind}}{{range .spec.list}}{{template \"t\" .}}{{end}}".to_string(),
            _ => go_template(dice, 2),
        };
        Case { outcome: true, ..Case::asking(&["get", "foos", "b", "-o", &format!("go-template={text}")]) }
    });
    compare(&stock, &cases, &world());
}

fn quantity(dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => format!("{}m", dice.below(5000)),
        1 => format!("{}{}", dice.below(3000), dice.one(&["", "Ki", "Mi", "Gi", "k", "M"])),
        2 => format!("{}.5{}", dice.below(9), dice.one(&["Ki", "Mi", "Gi"])),
        _ => dice.one(&["0", "1024", "1500m", "1.5Gi", "100m", "1", "2k"]).to_string(),
    }
}

fn resources(dice: &mut Dice) -> Value {
    let mut map = serde_json::Map::new();
    for name in ["cpu", "memory", "ephemeral-storage", "x.y/gpu"] {
        if dice.below(2) == 0 {
            map.insert(name.into(), quantity(dice).into());
        }
    }
    map.into()
}

#[test]
fn quantities_are_described_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(13);
    for _ in 0..dice.rounds(8) {
        let pods: Vec<Value> = (0..3)
            .map(|at| {
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{at}"), "namespace": "default", "creationTimestamp": "2024-01-01T00:00:00Z"},
                    "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": {"requests": resources(&mut dice), "limits": resources(&mut dice)}},
                        {"name": "d", "image": "i", "resources": {"requests": resources(&mut dice)}}],
                        "initContainers": [{"name": "e", "image": "i", "resources": {"requests": resources(&mut dice)}}]},
                    "status": {"phase": "Running", "qosClass": "Burstable"}})
            })
            .collect();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "status": {"capacity": {"cpu": "4", "memory": quantity(&mut dice), "pods": "110"}, "allocatable": {"cpu": "3900m", "memory": "8Gi", "ephemeral-storage": quantity(&mut dice), "pods": "110", "x.y/gpu": "8"}}});
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
            "status": {"hard": {"cpu": quantity(&mut dice), "requests.memory": quantity(&mut dice), "pods": "10"}, "used": {"cpu": quantity(&mut dice), "requests.memory": quantity(&mut dice), "pods": "3"}}});
        let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "default"},
            "spec": {"limits": [{"type": "Container", "max": resources(&mut dice), "min": resources(&mut dice), "default": resources(&mut dice), "defaultRequest": resources(&mut dice), "maxLimitRequestRatio": {"cpu": quantity(&mut dice)}}]}});
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n", "namespace": "kube-node-lease"}, "spec": {"holderIdentity": "n"}});
        let empty = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "1"}, "items": []});
        let mut world = BTreeMap::from([
            ("/api/v1/nodes/n".to_string(), node),
            ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n".to_string(), lease.clone()),
            (
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases".to_string(),
                json!({"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": {"resourceVersion": "1"}, "items": [lease]}),
            ),
            (
                "/api/v1/pods".to_string(),
                json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": pods.clone()}),
            ),
            ("/api/v1/events".to_string(), empty("EventList")),
            ("/api/v1/namespaces/default/events".to_string(), empty("EventList")),
            ("/api/v1/namespaces/default/resourcequotas/q".to_string(), quota),
            ("/api/v1/namespaces/default/limitranges/l".to_string(), limits),
        ]);
        for (at, pod) in pods.into_iter().enumerate() {
            world.insert(format!("/api/v1/namespaces/default/pods/p{at}"), pod);
        }
        let asked: [&[&str]; 4] = [
            &["describe", "node", "n"],
            &["describe", "pod", "p1"],
            &["describe", "quota", "q"],
            &["describe", "limitrange", "l"],
        ];
        let asked = asked.map(|words| {
            words
                .iter()
                .map(|word| match *word {
                    "quota" => "resourcequota",
                    word => word,
                })
                .collect::<Vec<_>>()
        });
        let cases: Vec<Case> =
            asked.iter().map(|words| Case { ages: true, loose: true, ..Case::asking(words) }).collect();
        compare(&stock, &cases, &world);
    }
}
