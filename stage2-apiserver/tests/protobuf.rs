//! Each kind with all its fields as Kubernetes wrote it: in JSON, YAML and protobuf.
//!
//! The files are in `../shared/cases/api-roundtrip` (or `STAGES_CASES_DIR`); without them the test is skipped. A case passes if the
//! three are one object, and if we write that object as the same bytes.

use std::path::{Path, PathBuf};

use serde_json::Value;
use stage1_kubectl::resource::GroupVersionKind;
use stage2_apiserver::decode::{FieldValidation, decode_body};
use stage2_apiserver::negotiation::BodyFormat;
use stage2_apiserver::{protobuf, schema};

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
