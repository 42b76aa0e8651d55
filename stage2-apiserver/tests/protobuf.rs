//! Each kind with all its fields as Kubernetes wrote it: in JSON, YAML and protobuf.
//!
//! The files are in `../shared/cases/api-roundtrip` (or `STAGES_CASES_DIR`); without them the test is skipped. A case passes if the
//! three are one object, and if we write that object as the same bytes. The other tests ask a running server.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod support {
    pub mod raw;
}

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stage1_kubectl::resource::GroupVersionKind;
use stage2_apiserver::decode::{FieldValidation, decode_body};
use stage2_apiserver::negotiation::BodyFormat;
use stage2_apiserver::{protobuf, schema};
use support::raw::{Answer, Raw, cluster};

/// All of them.
const FLOOR: usize = 81;

fn cases() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let root = std::env::var_os("STAGES_CASES_DIR").map_or(workspace.join("../shared/cases"), PathBuf::from);
    Some(root.join("api-roundtrip")).filter(|directory| directory.is_dir())
}

/// What is wrong with a case.
fn check(json: &[u8], yaml: &[u8], bytes: &[u8], kind: &str) -> Result<(), String> {
    let mut expected: Value = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    let text = std::str::from_utf8(yaml).map_err(|e| e.to_string())?;
    let same: Value = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
    if same != expected {
        return Err("YAML and JSON differ".to_owned());
    }
    let envelope = protobuf::open(bytes).map_err(|e| e.to_string())?;
    let message = protobuf::message_of(&envelope.api_version, kind).ok_or("no message")?;
    let raw = protobuf::encode_raw(&envelope.api_version, kind, &expected).map_err(|e| e.to_string())?;
    let fields = expected.as_object_mut().ok_or("no map")?;
    fields.retain(|name, _| !matches!(name.as_str(), "kind" | "apiVersion"));
    let decoded = protobuf::decode_raw(message, envelope.raw).map_err(|e| e.to_string())?;
    if &decoded != fields {
        return Err(format!("decoded otherwise: {}", difference(&Value::Object(decoded), &expected)));
    }
    if protobuf::seal(&envelope.api_version, &envelope.kind, &raw) != bytes {
        return Err("encoded otherwise".to_owned());
    }
    let gvk = GroupVersionKind::from_api_version(&envelope.api_version, kind);
    if schema::schema_for(&gvk).is_none() {
        return Ok(());
    }
    let read = |body, format| {
        decode_body(body, format, &gvk, FieldValidation::Strict).map(|d| d.object).map_err(|e| e.message)
    };
    let of_json = read(json, BodyFormat::Json)?;
    match read(bytes, BodyFormat::Protobuf)? == of_json && read(yaml, BodyFormat::Yaml)? == of_json {
        true => Ok(()),
        false => Err("the server reads the three otherwise".to_owned()),
    }
}

/// The first path where two values differ.
fn difference(found: &Value, wanted: &Value) -> String {
    match (found, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            let differs = keys.into_iter().find(|k| a.get(*k) != b.get(*k));
            differs.map_or_else(String::new, |key| {
                let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                format!(".{key}{}", difference(a, b))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
            format!("[{at}]{}", difference(&a[at], &b[at]))
        }
        _ => format!(": {found} instead of {wanted}"),
    }
}

#[test]
fn json_yaml_and_protobuf_are_one_object() {
    let Some(directory) = cases() else {
        println!("skipped: no cases");
        return;
    };
    let mut failed = Vec::new();
    let mut passed = 0;
    let files = std::fs::read_dir(&directory).expect("a folder").filter_map(|entry| Some(entry.ok()?.path()));
    for path in files.filter(|path| path.extension().is_some_and(|e| e == "pb")) {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let read = |extension: &str| {
            std::fs::read(path.with_file_name(format!("{name}.{extension}"))).expect("a file")
        };
        let kind = name.rsplit('.').next().expect("a kind");
        match check(&read("json"), &read("yaml"), &read("pb"), kind) {
            Ok(()) => passed += 1,
            Err(why) => failed.push(format!("  {name}: {why}")),
        }
    }
    failed.sort();
    println!("{}\napi-roundtrip: {passed} passed, {} failed, 0 not yet", failed.join("\n"), failed.len());
    assert!(passed >= FLOOR, "api-roundtrip: {passed} passed, the floor is {FLOOR}\n{}", failed.join("\n"));
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCEPT: (&str, &str) = ("accept", "application/vnd.kubernetes.protobuf,application/json");

/// The object of a body.
fn object_of(body: &[u8]) -> Value {
    let envelope = protobuf::open(body).expect("an envelope");
    let message = protobuf::message_of(&envelope.api_version, &envelope.kind).expect("a built-in kind");
    let mut fields = protobuf::decode_raw(message, envelope.raw).expect("a message");
    fields.insert("apiVersion".into(), json!(envelope.api_version));
    fields.insert("kind".into(), json!(envelope.kind));
    Value::Object(fields)
}

fn read(answer: &Answer) -> Value {
    assert_eq!(answer.header("content-type"), PROTOBUF, "{}", answer.text());
    object_of(&answer.body)
}

async fn post(client: &mut Raw, path: &str, object: &Value) -> Answer {
    let body = protobuf::encode_object(object).expect("the object has a message");
    client.send("POST", path, &[("content-type", PROTOBUF), ACCEPT], body).await
}

fn pod() -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": "500m"}}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}})
}

async fn with_account(client: &mut Raw) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let created = post(client, "/api/v1/namespaces/default/serviceaccounts", &account).await;
    assert!(matches!(created.code, 201 | 409), "{}", created.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_the_same_in_both_languages() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    with_account(&mut client).await;
    let created = post(&mut client, PODS, &pod()).await;
    assert_eq!(created.code, 201, "{}", created.text());
    let path = format!("{PODS}/p");
    let in_json = client.get(&path).await.json();
    assert_eq!(in_json["spec"]["containers"][0]["resources"]["limits"]["cpu"], "500m");
    assert_eq!(read(&created)["metadata"]["uid"], in_json["metadata"]["uid"]);
    let got = client.send("GET", &path, &[ACCEPT], "").await;
    assert_eq!(read(&got), in_json);
    let listed = read(&client.send("GET", PODS, &[ACCEPT], "").await);
    assert_eq!((&listed["kind"], &listed["items"][0]["spec"]), (&json!("PodList"), &in_json["spec"]));
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let partial = read(&client.send("GET", PODS, &[("accept", accept)], "").await);
    assert_eq!(partial["items"][0], json!({"metadata": in_json["metadata"]}));
    let accept = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json;as=Table;g=meta.k8s.io;v=v1";
    let table = client.send("GET", PODS, &[("accept", accept)], "").await;
    assert_eq!(table.json()["kind"], "Table");
}

#[tokio::test(flavor = "multi_thread")]
async fn bindings_evictions_deletions_and_refusals_are_protobuf_too() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    with_account(&mut client).await;
    assert_eq!(post(&mut client, PODS, &pod()).await.code, 201);
    let again = post(&mut client, PODS, &pod()).await;
    let status = read(&again);
    assert_eq!((again.code, &status["message"]), (409, &json!("pods \"p\" already exists")));
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let bound = read(&post(&mut client, &format!("{PODS}/p/binding"), &binding).await);
    assert_eq!((&bound["kind"], &bound["code"]), (&json!("Status"), &json!(201)));
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 7},
    });
    let evicted = post(&mut client, &format!("{PODS}/p/eviction"), &eviction).await;
    assert_eq!(evicted.code, 201, "{}", evicted.text());
    let marked = client.get(&format!("{PODS}/p")).await.json();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 7);
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let body = protobuf::encode_object(&options).expect("encodes");
    let headers = [("content-type", PROTOBUF), ACCEPT];
    assert_eq!(client.send("DELETE", &format!("{PODS}/p"), &headers, body).await.code, 200);
    assert_eq!(client.get(&format!("{PODS}/p")).await.code, 404);
    let noise = client.send("POST", PODS, &headers, &b"k8s\0\x0a\x7f"[..]).await;
    assert_eq!((noise.code, &read(&noise)["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_frames_of_envelopes() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let path = "/api/v1/namespaces?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let answer = client.send("GET", path, &[ACCEPT], "").await;
    assert_eq!(answer.header("content-type"), "application/vnd.kubernetes.protobuf;stream=watch");
    let mut rest = &answer.body[..];
    let mut events = Vec::new();
    while let Some((length, frames)) = rest.split_first_chunk::<4>() {
        let (frame, next) = frames.split_at(u32::from_be_bytes(*length) as usize);
        let message = protobuf::message_of("v1", "WatchEvent").expect("a message");
        events.push(Value::Object(protobuf::decode_raw(message, frame).expect("a frame")));
        rest = next;
    }
    let names =
        events.iter().filter(|e| e["type"] == "ADDED").map(|e| e["object"]["metadata"]["name"].clone());
    assert!(names.collect::<Vec<_>>().contains(&json!("default")));
    let bookmark = events.iter().find(|e| e["type"] == "BOOKMARK").expect("a bookmark");
    assert_eq!(bookmark["object"]["kind"], "Namespace");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}
