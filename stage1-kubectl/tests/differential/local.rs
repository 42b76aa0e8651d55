//! What needs no server: patches, generators, YAML.

use std::collections::BTreeMap;

use crate::{Case, Dice, compare, stock, words};

fn container_patch(dice: &mut Dice) -> String {
    let name = dice.one(&["web", "side", "new"]);
    match dice.below(6) {
        0 => format!(r#"{{"name":"{name}","$patch":"delete"}}"#),
        1 => format!(
            r#"{{"name":"{name}","image":"i","env":[{{"name":"{}","value":"3"}}]}}"#,
            dice.one(&["A", "C"])
        ),
        2 => format!(
            r#"{{"name":"{name}","image":"i","ports":[{{"containerPort":{},"name":"p"}}]}}"#,
            dice.one(&["80", "81"])
        ),
        3 => format!(
            r#"{{"name":"{name}","env":[{{"$patch":"replace"}},{{"name":"{}"}}]}}"#,
            dice.one(&["A", "C"])
        ),
        4 => format!(
            r#"{{"$setElementOrder/env":[{{"name":"B"}},{{"name":"A"}}],"name":"{name}","env":[{{"name":"A","$patch":"delete"}}]}}"#
        ),
        _ => format!(r#"{{"name":"{name}","image":"i"}}"#),
    }
}

#[test]
fn generated_patches_give_the_same_objects() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(1);
    let cases = dice.cases(30, |dice| {
        let value = dice.one(&["null", "\"x\"", "\"y\""]);
        let pointer = dice.one(&["/metadata/labels/a", "/metadata/labels/new", "/spec/template/spec/containers/0", "/spec/template/spec/containers/-", "/spec/none",
            "/metadata/labels", "/spec/replicas", "/spec/template/spec/containers/7", "", "/spec/template/spec/containers/0/env/1"]);
        let patch = match dice.below(8) {
            0 => format!(r#"{{"metadata":{{"labels":{{"{}":{value}}}}}}}"#, dice.one(&["a", "b", "c"])),
            1 => format!(r#"{{"spec":{{"replicas":{},"template":{{"spec":{{"containers":[{}]}}}}}}}}"#, dice.below(5), container_patch(dice)),
            2 => format!(r#"{{"spec":{{"template":{{"spec":{{"containers":[{},{}]}}}}}}}}"#, container_patch(dice), container_patch(dice)),
            3 => format!(r#"{{"spec":{{"template":{{"spec":{{"volumes":[{{"name":"{}","configMap":{{"name":"c"}}}}]}}}}}}}}"#, dice.one(&["v", "w"])),
            4 => format!(r#"{{"metadata":{{"annotations":{{"k":{value}}}}},"spec":{{"paused":true}}}}"#),
            5 => format!("spec:\n  strategy: {{type: {}}}\n", dice.one(&["Recreate", "RollingUpdate"])),
            6 => dice.one(&["{", "[]", "3", "null", "{\"spec\": {\"template\": null}}", "{\"$patch\":\"delete\"}", "{\"metadata\":{\"$patch\":\"replace\",\"name\":\"n\"}}"]).to_string(),
            _ => {
                let op = dice.one(&["remove", "replace", "add", "test", "move", "copy"]);
                format!(r#"[{{"op":"{op}","path":"{pointer}","value":"q","from":"{}"}}]"#, dice.one(&["/metadata/labels/b", "/none", "/spec/replicas"]))
            }
        };
        let kind = match patch.starts_with("[{\"op") {
            true => "json",
            false => dice.one(&["strategic", "merge", "strategic"]),
        };
        let form = dice.one(&["yaml", "json", "name", "yaml"]);
        Case::local(["patch", "--local", "-f", "d.yaml", "--type", kind, "-p", &patch, "-o", form].map(String::from).to_vec(), String::new())
    });
    compare(&stock, &cases, &BTreeMap::new());
}

/// A generator with what it can't do without, and flags to choose from.
const GENERATORS: [(&str, &[&str]); 24] = [
    ("create deployment d --image=nginx", &["--replicas=3", "--port=80", "-n=x", "-- sleep 1"]),
    ("create deployment d --image=a/b:1 --image=c", &["--replicas=0", "-n=x", "--port=99999"]),
    (
        "create configmap c",
        &[
            "--from-literal=a=b",
            "--from-literal=c=d=e",
            "--from-file=d.yaml",
            "--append-hash",
            "-n=x",
            "--from-literal=bad",
            "--from-literal=a=b",
        ],
    ),
    (
        "create secret generic s",
        &["--from-literal=a=b", "--from-file=k=d.yaml", "--type=t", "--append-hash", "--from-file=none"],
    ),
    (
        "create secret docker-registry s --docker-server=r --docker-username=u --docker-password=p",
        &["--docker-email=e@f", "--append-hash"],
    ),
    ("create secret tls s", &["--cert=none", "--key=none"]),
    (
        "create service clusterip s",
        &["--clusterip=None", "--tcp=443", "--tcp=80:8080", "--tcp=5678:web", "--tcp=a:b"],
    ),
    ("create service nodeport s --tcp=80:8080", &["--node-port=30080", "--node-port=1"]),
    ("create service loadbalancer s", &["--tcp=80:8080", "--tcp=1-2"]),
    ("create service externalname s --external-name=a.b", &["--tcp=80", "--tcp=90:91"]),
    ("create job j --image=busybox", &["-n=x", "-- echo a", "--from=cronjob/a"]),
    ("create cronjob c --image=busybox --schedule=1", &["--restart=Never", "-- date", "--restart=Always"]),
    (
        "create ingress i",
        &[
            "--rule=a.b/c*=s:80",
            "--rule=d/e=f:http,tls=g",
            "--class=k",
            "--annotation=a=b",
            "--default-backend=x:1",
            "--rule=bad",
            "--rule=/p=s:80,tls",
            "--annotation=bad",
        ],
    ),
    (
        "create pdb p --selector=a=b",
        &["-n=x", "--save-config", "--min-available=50%", "--max-unavailable=1", "--min-available=x"],
    ),
    (
        "create quota q",
        &[
            "--hard=pods=1,cpu=1500m",
            "--scopes=BestEffort,NotTerminating",
            "-n=x",
            "--scopes=None",
            "--hard=bad",
        ],
    ),
    (
        "create priorityclass p --value=7",
        &["--global-default", "--description=d", "--preemption-policy=Never", "--preemption-policy=x"],
    ),
    ("create namespace n", &["--save-config"]),
    ("create serviceaccount a", &["-n=x", "--save-config"]),
    (
        "create clusterrole r --verb=get",
        &[
            "--verb=list,watch",
            "--resource-name=a",
            "--non-resource-url=/m",
            "--aggregation-rule=a=b",
            "--verb=*",
        ],
    ),
    (
        "create rolebinding b --role=r",
        &["--user=u", "--group=g", "--serviceaccount=n:s", "--serviceaccount=bad", "--clusterrole=c"],
    ),
    (
        "create clusterrolebinding b --clusterrole=r",
        &["--user=u", "--group=g,h", "--serviceaccount=n:s", "--serviceaccount=a"],
    ),
    (
        "create token a",
        &["--duration=10m", "--audience=x", "--bound-object-kind=Pod", "--bound-object-name=p"],
    ),
    (
        "run r --image=i",
        &[
            "--port=80",
            "--labels=a=b,c=d",
            "--restart=Never",
            "--command",
            "-- sleep 1",
            "--annotations=k=v",
            "--expose",
            "--privileged",
            "--image-pull-policy=Never",
        ],
    ),
    (
        "run r --image=i",
        &[
            "--overrides={\"spec\":{\"hostNetwork\":true}}",
            "--override-type=strategic",
            "--restart=x",
            "-i",
            "-t",
            "--rm",
            "--labels=bad",
        ],
    ),
];

#[test]
fn generators_make_the_same_objects() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(2);
    let mut turn = 0;
    let cases = (0..dice.rounds(72)).map(|_| {
        let (command, flags) = GENERATORS[turn % GENERATORS.len()];
        turn += 1;
        let mut arguments = words(command);
        let mut chosen = dice.some(flags);
        if dice.below(3) > 0 {
            chosen.truncate(2);
        }
        let (behind, before): (Vec<String>, Vec<String>) =
            chosen.into_iter().partition(|flag| flag.starts_with("-- "));
        arguments.extend(before);
        arguments.extend(words("--dry-run=client -o"));
        arguments.push(dice.one(&["yaml", "json", "name"]).to_string());
        arguments.extend(behind.iter().flat_map(|text| words(text)));
        Case::local(arguments, String::new())
    });
    let cases: Vec<Case> = cases.filter(|case| case.arguments[1] != "token").collect();
    compare(&stock, &cases, &BTreeMap::new());
}

const SCALARS: [&str; 54] = [
    "yes",
    "No",
    "on",
    "OFF",
    "y",
    "n",
    "0644",
    "0o17",
    "0x1F",
    "1_000",
    "1e3",
    ".5",
    "1.50",
    "~",
    "null",
    "Null",
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
    "0b101",
    "0.1e-7",
    "12345678901234567890",
    "-9223372036854775808",
    "1.",
    "0x",
    "08",
    "!!int '3'",
    "!!float 2",
    "!!bool 'no'",
    "!!binary aGk=",
    "2001-12-14t21:59:43.10-05:00",
    "'it''s'",
    "\"\\u00e9\\x41\"",
    ">-\n    a\n\n    b\n      c",
    "|+\n    x\n\n",
    "&a v",
    "<<",
    "=",
    "{a: [1, {b: c}], d}",
];

#[test]
fn yaml_is_read_the_same() {
    let Some(stock) = stock() else { return };
    let mut dice = Dice::new(3);
    let cases = dice.cases(30, |dice| {
        let mut text =
            String::from(dice.one(&["", "---\n", "# c\n", "%YAML 1.1\n---\n", "\u{feff}", "--- # c\n"]));
        text += "apiVersion: x.y/v1\nkind: Foo\nmetadata: {name: a}\nspec:\n";
        let keys = ["a", "b", "c", "'d e'", "1", "1.5", "\"q\""];
        for _ in 0..4 {
            text += &format!("  {}: {}\n", dice.one(&keys), dice.one(&SCALARS));
        }
        if dice.below(3) == 0 {
            text += &format!("  list:\n  - {}\n  - {}\n", dice.one(&SCALARS), dice.one(&SCALARS));
        }
        text += dice.one(&[
            "",
            "",
            "  base: &x {k: v}\n  use: *x\n",
            "  base: &x {k: v}\n  use:\n    <<: *x\n    l: m\n",
            "  a: again\n",
            "  base: &x {k: v}\n  other: &y {k: w, z: 1}\n  use: {<<: [*x, *y], q: r}\n",
        ]);
        text += dice.one(&[
            "",
            "---\n",
            "...\n",
            "---\n# nothing\n",
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n",
            "---\nkind: x\n",
        ]);
        if dice.below(4) == 0 {
            text = text.replace('\n', "\r\n");
        }
        Case::local(words("annotate --local -f - k=v -o json"), text)
    });
    compare(&stock, &cases, &BTreeMap::new());
}
