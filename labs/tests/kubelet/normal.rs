//! What differs between two runs of the same thing is replaced: ids, addresses, times, names made at random.
//!
//! # In Kubernetes
//! Nothing like it. The recorded cases are normalised in part; this does the rest, for both sides alike.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

/// What this cluster has in place of the recorded one's.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// `(here, there)`, longest first.
    pub replace: Vec<(String, String)>,
}

static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"<(uid|id|podIP)-\d+>", "<$1>"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r"\b[0-9a-f]{64}\b", "<id>"),
        // An image that was imported with a digest is called by it.
        (r#"[^\s"]+@sha256:<id>"#, "sha256:<id>"),
        (r"\b0/[13] nodes", "0/N nodes"),
        (r"\b[13] Preemption", "N Preemption"),
        (r"\bLM=\d{9,}", "LM=N"),
        (r"kube-api-access-[a-z0-9]{5}\b", "kube-api-access-<rand>"),
        (r"\b10\.(244|201)\.\d+\.\d+\b", "<podIP>"),
        (r"\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+", "..<date>.<rand>"),
        (r"1970-01-01T00:00:00Z", "EPOCH"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|T\+\d+s", "TIME"),
        (r"<date TIME>|[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<date>"),
        (r"Thu, 01 Jan 1970 00:00:00 \+0000", "<date>"),
        (r"[A-Z][a-z]{2} +\d+ (<hh:mm>|\d\d:\d\d)", "<when>"),
        (r"in \S+ \(\S+ including waiting\)", "in D (D including waiting)"),
        (r"Image size: \d+ bytes", "Image size: N bytes"),
        (r":\d+->|:<port>->", ":P->"),
        (r"\b\d+(m\d+)?[smhd] ago", "D ago"),
        (r"snapshots/\d+", "snapshots/N"),
        (r"(?m)^\d+: eth0 (.*?) brd \S+ ", "N: eth0 $1 "),
        (r"(?m)^\d+: eth0 ", "N: eth0 "),
        (r"(?m)^ *\d+ root ", "N root "),
        // Sizes of what is signed, certified or made at random here and there.
        (r"\d+ <when> (\.\.data|tok|token|ca\.crt)\b", "N <when> $1"),
        (r"(?m)^ *\d+ (/var/run/secrets/\S*/(?:token|ca\.crt)|total)$", "N $1"),
    ]
    .map(|(pattern, with)| (Regex::new(pattern).unwrap(), with))
    .into()
});

/// A text with everything accidental replaced.
pub fn text(s: &str, names: &Names) -> String {
    let mut s = s.to_owned();
    for (here, there) in &names.replace {
        s = s.replace(here, there);
    }
    for (rule, with) in RULES.iter() {
        s = rule.replace_all(&s, *with).into_owned();
    }
    s
}

/// A value with all its texts normalised.
pub fn value(v: &Value, names: &Names) -> Value {
    match v {
        Value::String(s) => Value::String(text(s, names)),
        Value::Array(list) => list.iter().map(|v| value(v, names)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), value(v, names))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Runs of spaces as one, ends of lines trimmed: column widths depend on the values.
pub fn squeezed(s: &str) -> String {
    s.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("\n")
}
