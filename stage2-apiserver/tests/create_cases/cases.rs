//! Recorded cases: loading them, and comparing an answer with the recorded one.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

/// One record.
pub struct Case {
    /// File name without `.json`.
    pub name: String,
    /// Kind of the request, for the summary.
    pub kind: String,
    /// The whole record.
    pub record: Value,
}

/// What we answered.
pub struct Answer {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

/// A group's folder, if the cases are there.
pub fn folder(group: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let root = std::env::var_os("STAGES_CASES_DIR").map_or(beside, PathBuf::from);
    Some(root.join(group)).filter(|folder| folder.is_dir())
}

/// All records of a folder, by name.
pub fn load(folder: &Path) -> Vec<Case> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    let json = paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "json"));
    json.filter_map(|path| {
        let text = std::fs::read_to_string(&path).expect("readable");
        // A record of a request with NaN isn't JSON itself.
        let record: Value = serde_json::from_str(&text).ok()?;
        let record = expand(record);
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let kind =
            record["request"]["path"].as_str().and_then(|path| path.split('?').next()).unwrap_or_default();
        let kind = kind.split('/').nth(if kind.contains("/namespaces/") {
            kind.split('/').position(|p| p == "namespaces").unwrap() + 2
        } else {
            kind.split('/').count() - 1
        });
        Some(Case { name, kind: kind.unwrap_or_default().to_owned(), record })
    })
    .collect()
}

/// `<x repeated 3>` → `xxx`.
fn expand(value: Value) -> Value {
    static FILLER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"<(.) repeated (\d+)>").expect("fixed"));
    let expand_text = |text: &str| {
        FILLER
            .replace_all(text, |found: &regex::Captures| found[1].repeat(found[2].parse().expect("digits")))
            .into_owned()
    };
    match value {
        Value::String(text) => Value::String(expand_text(&text)),
        Value::Array(items) => items.into_iter().map(expand).collect(),
        Value::Object(map) => {
            map.into_iter().map(|(k, v)| (expand_text(&k), expand(v))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

/// Compares with the record.
pub fn compare(case: &Case, answer: &Answer) -> Result<(), String> {
    let response = &case.record["response"];
    if response["code"] != json!(answer.code) {
        return Err(format!(
            "code {} instead of {}\n  ours:   {}\n  theirs: {}",
            answer.code,
            response["code"],
            brief(&answer.body),
            brief(&response["body"])
        ));
    }
    if answer.code >= 400 {
        return compare_refusal(response, answer);
    }
    let mut theirs = response["body"].clone();
    let mut ours = answer.body.clone();
    for body in [&mut theirs, &mut ours] {
        if let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("managedFields");
            meta.remove("resourceVersion");
        }
    }
    if response_is_of_update(case) {
        // Controllers ran between the set-up and the request.
        for body in [&mut theirs, &mut ours] {
            if matches!(body["kind"].as_str(), Some("Deployment" | "Job")) {
                body["status"] = Value::Null;
                body["metadata"]["annotations"] = Value::Null;
            }
        }
    }
    if ours["kind"] == "Pod" {
        // 1.33 counts generations of pods, the recorded 1.32 didn't.
        ours["metadata"].as_object_mut().expect("a map").remove("generation");
    }
    let mut differences = Vec::new();
    diff(&ours, &theirs, "", &mut differences);
    if !differences.is_empty() {
        return Err(format!("\n  {}", differences.join("\n  ")));
    }
    compare_warnings(response, answer)
}

fn response_is_of_update(case: &Case) -> bool {
    case.record["request"]["method"] == "PUT"
}

fn compare_warnings(response: &Value, answer: &Answer) -> Result<(), String> {
    let recorded: Vec<String> = response["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(unquote)
        .collect();
    // 1.33 says more about gitRepo than the recorded 1.32.
    let ours: Vec<String> =
        answer.warnings.iter().map(|text| text.replace(", and disabled by default in v1.33+", "")).collect();
    if recorded == ours {
        return Ok(());
    }
    if recorded == answer.warnings {
        return Ok(());
    }
    Err(format!("warnings {:?} instead of {recorded:?}", answer.warnings))
}

/// `299 - "text"` → text.
fn unquote(header: &str) -> String {
    let quoted = header.split_once(" - ").map_or(header, |(_, text)| text);
    serde_json::from_str(quoted).unwrap_or_else(|_| quoted.to_owned())
}

fn compare_refusal(response: &Value, answer: &Answer) -> Result<(), String> {
    let (ours, theirs) = (&answer.body["message"], &response["body"]["message"]);
    let (ours, theirs) = (ours.as_str().unwrap_or_default(), theirs.as_str().unwrap_or_default());
    if matches(ours, theirs) {
        let causes = |body: &Value| body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let (mine, recorded) = (causes(&answer.body), causes(&response["body"]));
        let same = mine.len() == recorded.len()
            && mine.iter().zip(&recorded).all(|(a, b)| {
                ["reason", "field", "message"]
                    .iter()
                    .all(|name| matches(a[name].as_str().unwrap_or(""), b[name].as_str().unwrap_or("")))
            });
        return if same {
            Ok(())
        } else {
            Err(format!("causes\n  ours:   {mine:?}\n  theirs: {recorded:?}"))
        };
    }
    Err(format!("message\n  ours:   {ours}\n  theirs: {theirs}"))
}

/// Equal where the record has no placeholder; lists of unknown fields as sets.
pub fn matches(ours: &str, theirs: &str) -> bool {
    if ours == theirs {
        return true;
    }
    if let (Some((a, ours)), Some((b, theirs))) =
        (ours.split_once("strict decoding error: "), theirs.split_once("strict decoding error: "))
    {
        let set = |text: &str| {
            let mut parts: Vec<String> = text.split(", ").map(str::to_owned).collect();
            parts.sort();
            parts
        };
        return a == b && set(ours) == set(theirs);
    }
    // Names and addresses that the server chose for the set-up are in the record as they were.
    let chosen =
        |text: &str| (text.len() == 21 && text.starts_with("kube-api-access-")) || text.starts_with("10.96.");
    if chosen(ours) && chosen(theirs) {
        return true;
    }
    if !theirs.contains('<') {
        return false;
    }
    static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"<(uid|rv|time|ptr|rand5|clusterIP|nodePort|ca|pem)(\\?-\d+)?>").expect("fixed")
    });
    let pattern = PLACEHOLDER.replace_all(&regex::escape(theirs), ".*?").into_owned();
    Regex::new(&format!("(?s)^{pattern}$")).is_ok_and(|pattern| pattern.is_match(ours))
}

fn brief(body: &Value) -> String {
    let text = body["message"].as_str().map_or_else(|| body.to_string(), str::to_owned);
    text.chars().take(1500).collect()
}

fn diff(ours: &Value, theirs: &Value, path: &str, out: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let at = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(x), Some(y)) => diff(x, y, &at, out),
                    (Some(x), None) => out.push(format!("{at}: extra {x}")),
                    (None, Some(y)) => out.push(format!("{at}: missing {y}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (x, y)) in a.iter().zip(b).enumerate() {
                diff(x, y, &format!("{path}[{at}]"), out);
            }
        }
        (Value::String(a), Value::String(b)) if matches(a, b) => {}
        (Value::Number(_), Value::String(b)) if b == "<nodePort>" => {}
        (Value::Null, Value::String(b)) if b == "<time>" => {}
        (Value::Number(_), Value::Number(_)) if path.ends_with(".nodePort") => {}
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{path}: {a} instead of {b}")),
    }
}
