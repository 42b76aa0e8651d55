//! What is sent: selectors, three-way patches.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{Case, Dice, compare, stock};

fn label(dice: &mut Dice) -> String {
    dice.one(&[
        "a",
        "app",
        "a.b/c",
        "x-y",
        "A_1",
        "1",
        "",
        "a b",
        "é",
        "-a",
        "a/b/c",
        "app.kubernetes.io/name",
        "in",
        "notin",
        "a=",
        "!a",
        "veryveryveryveryveryveryveryveryveryveryveryveryveryveryverylongname",
    ])
    .to_string()
}

fn requirement(dice: &mut Dice) -> String {
    let gap = dice.one(&["", "", " ", "  "]);
    let key = label(dice);
    match dice.below(9) {
        0 => key,
        1 => format!("!{gap}{key}"),
        2 | 3 => format!("{key}{gap}{}{gap}{}", dice.one(&["=", "==", "!="]), label(dice)),
        4 => format!("{key} in ({}{gap},{})", label(dice), label(dice)),
        5 => format!("{key} notin ({})", label(dice)),
        6 => format!(
            "{key}{}{}",
            dice.one(&[">", "<", " > "]),
            dice.one(&["1", "x", "-3", "9999999999999999999", ""])
        ),
        7 => format!(
            "{key} {}",
            dice.one(&["in", "in (", "in (a", "in a)", "in ()", "=", "!", "exists", "in (a,)", "(a)"])
        ),
        _ => format!("{key}={}", label(dice)),
    }
}

#[test]
fn selectors_are_read_and_sent_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(20);
    let list =
        json!({"apiVersion": "x.y/v1", "kind": "FooList", "metadata": {"resourceVersion": "1"}, "items": []});
    let world = BTreeMap::from([("/apis/x.y/v1/namespaces/default/foos".to_string(), list)]);
    let cases = dice.cases(25, |dice| {
        let parts: Vec<String> = (0..=dice.below(2)).map(|_| requirement(dice)).collect();
        let selector = parts.join(dice.one(&[",", ", ", ",,"]));
        match dice.below(4) {
            0 => Case::asking(&["get", "foos", &format!("--field-selector={}", selector), "-o", "name"]),
            1 => Case::asking(&["delete", "foos", "-l", &selector]),
            _ => Case::asking(&["get", "foos", "-l", &selector, "-o", "name"]),
        }
    });
    compare(&stock, &cases, &world);
}

fn container(dice: &mut Dice) -> Value {
    let mut one = json!({"name": dice.one(&["a", "b", "c"]), "image": dice.one(&["i", "j"])});
    if dice.below(2) == 0 {
        let names = ["A", "B", "C"].into_iter().filter(|_| dice.below(2) == 0).collect::<Vec<_>>();
        one["env"] = names.iter().map(|name| json!({"name": name, "value": dice.one(&["1", "2"])})).collect();
    }
    if dice.below(2) == 0 {
        let ports = [80, 81, 82].into_iter().filter(|_| dice.below(2) == 0).collect::<Vec<_>>();
        one["ports"] = ports
            .iter()
            .map(|port| json!({"containerPort": port, "protocol": dice.one(&["TCP", "UDP"])}))
            .collect();
    }
    if dice.below(3) == 0 {
        one["args"] = dice.some(&["x", "y", "z"]).into();
    }
    if dice.below(3) == 0 {
        one["volumeMounts"] = ["/a", "/b"]
            .into_iter()
            .filter(|_| dice.below(2) == 0)
            .map(|path| json!({"name": "v", "mountPath": path}))
            .collect();
    }
    if dice.below(4) == 0 {
        one["resources"] = json!({"limits": {"cpu": dice.one(&["1", "2"])}});
    }
    one
}

fn labels(dice: &mut Dice) -> Value {
    let mut map = Map::new();
    for key in dice.some(&["a", "b", "c"]) {
        map.insert(
            key,
            match dice.below(6) {
                0 => Value::Null,
                _ => dice.one(&["1", "2"]).into(),
            },
        );
    }
    map.into()
}

/// A Deployment as somebody might write it.
fn deployment(dice: &mut Dice) -> Value {
    let mut names = Vec::new();
    let mut containers: Vec<Value> = (0..=dice.below(2)).map(|_| container(dice)).collect();
    containers.retain(|one| {
        !names.contains(&one["name"]) && {
            names.push(one["name"].clone());
            true
        }
    });
    let volume = match dice.below(3) {
        0 => json!({"name": "v", "emptyDir": {}}),
        1 => json!({"name": "v", "configMap": {"name": dice.one(&["c", "d"])}}),
        _ => json!({"name": "w", "secret": {"secretName": "s"}}),
    };
    let mut spec = json!({"containers": containers, "volumes": [volume]});
    if dice.below(2) == 0 {
        spec["tolerations"] = [json!({"key": "k", "operator": "Exists"}), json!({"key": "l", "value": "m"})]
            .into_iter()
            .filter(|_| dice.below(2) == 0)
            .collect();
    }
    if dice.below(2) == 0 {
        spec["imagePullSecrets"] = dice.some(&["p", "q"]).iter().map(|name| json!({"name": name})).collect();
    }
    if dice.below(2) == 0 {
        spec["nodeSelector"] = labels(dice);
    }
    if dice.below(3) == 0 {
        spec["hostAliases"] = json!([{"ip": "1.1.1.1", "hostnames": dice.some(&["h", "i"])}]);
    }
    let strategy = dice.one(&[
        r#"{"type":"Recreate"}"#,
        r#"{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}"#,
        "null",
    ]);
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default", "labels": labels(dice)},
        "spec": {"selector": {"matchLabels": {"a": "1"}}, "template": {"metadata": {"labels": labels(dice)}, "spec": spec}}});
    if dice.below(2) == 0 {
        object["spec"]["replicas"] = dice.below(4).into();
    }
    if dice.below(2) == 0 {
        object["spec"]["strategy"] = serde_json::from_str(strategy).expect("JSON");
    }
    if dice.below(3) == 0 {
        object["metadata"]["annotations"] = labels(dice);
    }
    if dice.below(4) == 0 {
        object["metadata"]["finalizers"] = dice.some(&["x/y", "z/w"]).into();
    }
    object
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

#[test]
fn three_way_patches_are_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(21);
    for _ in 0..dice.rounds(20) {
        let (last, now, mut live) = (deployment(&mut dice), deployment(&mut dice), deployment(&mut dice));
        without_nulls(&mut live);
        live["metadata"]["uid"] = "u".into();
        live["metadata"]["resourceVersion"] = "7".into();
        live["metadata"]["creationTimestamp"] = "2024-01-01T00:00:00Z".into();
        if dice.below(6) > 0 {
            live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
                format!("{last}\n").into();
        }
        let (mut now, mut path) = (now, "/apis/apps/v1/namespaces/default/deployments".to_string());
        if dice.below(3) == 0 {
            // A custom kind has no merge keys.
            for one in [&mut now, &mut live] {
                one["apiVersion"] = "x.y/v1".into();
                one["kind"] = "Foo".into();
            }
            path = "/apis/x.y/v1/namespaces/default/foos".into();
        }
        let world = BTreeMap::from([(format!("{path}/d"), live)]);
        let mut words = vec!["apply", "--validate=false", "-f", "-"];
        if dice.below(4) == 0 {
            words.push("--overwrite=false");
        }
        let case = Case { stdin: now.to_string(), ..Case::asking(&words) };
        compare(&stock, &[case], &world);
    }
}
