//! Pretty: JSON with lines and indents, for people.
//!
//! *Step 2 of a pod's journey.* Before: an answer is made. After: who reads it with their own eyes can.
//!
//! Programs want few bytes, people want lines. `?pretty=true` asks for them, and what people use (curl, wget, a browser) is taken for a
//! wish, too, unless the query says no. An answer's bytes come out of a cache that all share, so lines are put in afterwards, between its
//! bytes: nothing is read and written anew, and no number changes its form.
//!
//! # Invariants
//! 1. Without its white space, the answer is the same.
//!
//! # In Kubernetes
//! `isPrettyPrint` in `apiserver/pkg/endpoints/handlers/negotiation/negotiate.go`.

use http::{HeaderMap, Response, header};
use http_body::Body as _;
use http_body_util::BodyExt;

use super::respond::{Answer, full};
use crate::negotiation::parse_accept;
use crate::request_info::Query;

/// How the programs begin whose user is a person.
const PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];
/// Documents that are the same for everybody.
const NEVER: [&str; 3] = ["/openapi/", "/openid/", "/.well-known/"];

/// Marks an answer that another server made: it is passed on as it came.
#[derive(Debug, Clone, Copy)]
pub struct PassedOn;

/// Whether a request is a person's.
pub fn is_wanted(path: &str, query: &Query, headers: &HeaderMap) -> bool {
    if NEVER.iter().any(|prefix| path.starts_with(prefix)) {
        return false;
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let accept = text(header::ACCEPT);
    if accept.contains("pretty") {
        let wishes = parse_accept(accept);
        let json = wishes.iter().find(|wish| wish.media_type == "application/json");
        if json.is_some_and(|wish| wish.parameter("pretty") == "1") {
            return true;
        }
    }
    match query.get("pretty").unwrap_or("") {
        "" => PEOPLE.iter().any(|program| text(header::USER_AGENT).starts_with(program)),
        said => matches!(said, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
}

/// The answer for a person, if it is a whole JSON document of ours.
pub async fn print(answer: Answer) -> Answer {
    let content_type = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_json = content_type.is_some_and(|of| of.split(';').next() == Some("application/json"));
    let is_passed_on = answer.extensions().get::<PassedOn>().is_some();
    if !is_json || is_passed_on || answer.body().size_hint().exact().is_none() {
        return answer;
    }
    let (head, body) = answer.into_parts();
    match body.collect().await {
        Ok(whole) => Response::from_parts(head, full(indent(&whole.to_bytes()))),
        Err(_) => Response::from_parts(head, full("")),
    }
}

/// A JSON text with a line for each member.
fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    let new_line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_text {
            out.push(byte);
            in_text = byte != b'"' || is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            continue;
        }
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b'{' | b'[' => {
                out.push(byte);
                match bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                in_text = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn wanted(query: &str, user_agent: &str, accept: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_str(user_agent).unwrap());
        headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
        is_wanted("/api/v1/pods", &Query::parse(Some(query)), &headers)
    }

    #[test]
    fn people_get_lines_unless_they_say_no() {
        assert!(wanted("", "curl/8.5.0", "*/*") && wanted("", "Mozilla/5.0 (X11)", "*/*"));
        assert!(wanted("", "Wget/1.21", "*/*") && !wanted("", "kubectl/v1.33.0", "*/*"));
        assert!(wanted("pretty=true", "kubectl/v1.33.0", "*/*") && wanted("pretty=1", "", "*/*"));
        assert!(!wanted("pretty=false", "curl/8.5.0", "*/*") && !wanted("pretty=yes", "curl/8.5.0", "*/*"));
        assert!(wanted("pretty=", "curl/8.5.0", "*/*"));
        assert!(wanted("", "", "application/json;pretty=1") && !wanted("", "", "application/json;pretty=0"));
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static("curl/8.5.0"));
        assert!(!is_wanted("/openapi/v2", &Query::parse(None), &headers));
    }

    #[test]
    fn every_member_has_a_line() {
        let text = r#"{"kind":"A","n":1.50,"empty":{},"none":[],"list":[1,{"t":"a\"{,:\\"}]}"#;
        let expected = "{\n  \"kind\": \"A\",\n  \"n\": 1.50,\n  \"empty\": {},\n  \"none\": [],\n  \"list\": [\n    1,\n    {\n      \"t\": \"a\\\"{,:\\\\\"\n    }\n  ]\n}";
        assert_eq!(String::from_utf8(indent(text.as_bytes())).unwrap(), expected);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(|n| json!(n)),
            any::<String>().prop_map(Value::String)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_what_serde_calls_pretty(value in value()) {
            let shown = String::from_utf8(indent(value.to_string().as_bytes())).unwrap();
            prop_assert_eq!(shown, serde_json::to_string_pretty(&value).unwrap());
        }
    }
}
