//! `-v=6` to `-v=9`: what goes over the wire, in the lines that kubectl's users know from there.
//!
//! *Step 1 of a pod's journey, made visible.* `kubectl apply -v=6` shows that an apply is a `GET` and a `PATCH`; `-v=7` adds headers,
//! `-v=8` bodies up to a length, `-v=9` a curl command that does the same, and longer bodies.
//!
//! The lines are made by pure functions; where they go is the caller's to say ([`RequestLog::write`]).
//!
//! # Invariants
//! 1. No credentials are shown: `Authorization` says the scheme and `<masked>`.
//!
//! # In Kubernetes
//! `DebugWrappers` in `client-go/transport/round_trippers.go`, `logBody` in `client-go/rest/request.go`. Left out: the times of name lookup, dialing and handshake.
#![expect(clippy::disallowed_methods, reason = "shell: a line of a log begins with the time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, StatusCode, header};

/// How much is shown, and where.
#[derive(Clone)]
pub struct RequestLog {
    /// Kubernetes' `-v`, or what `--vmodule` says for `round_trippers`.
    pub level: u8,
    /// Takes one line.
    pub write: Arc<dyn Fn(&str) + Send + Sync>,
}

impl RequestLog {
    /// Before a request is sent; gives the time.
    pub(super) fn request<B: AsRef<[u8]>>(&self, request: &Request<B>) -> Instant {
        if self.level >= 8 {
            self.line("helper.go:105", &body_line("Request Body", request.body().as_ref(), self.level));
        }
        for line in request_lines(self.level, request) {
            self.line("round_trippers.go:470", &line);
        }
        Instant::now()
    }

    /// When the head of the answer is there.
    pub(super) fn response<B>(
        &self,
        request: &Request<B>,
        status: StatusCode,
        headers: &HeaderMap,
        took: Duration,
    ) {
        for line in response_lines(self.level, request, status, headers, took) {
            self.line("round_trippers.go:560", &line);
        }
    }

    /// When the body is there.
    pub(super) fn body(&self, body: &[u8]) {
        if self.level >= 8 {
            self.line("helper.go:246", &body_line("Response Body", body, self.level));
        }
    }

    fn line(&self, place: &str, text: &str) {
        let now = jiff::Zoned::now().strftime("%m%d %H:%M:%S%.6f").to_string();
        (self.write)(&format!("I{now} {:>7} {place}] {text}\n", std::process::id()));
    }
}

fn request_lines<B>(level: u8, request: &Request<B>) -> Vec<String> {
    let mut lines = Vec::new();
    if level >= 9 {
        let headers: String =
            request.headers().iter().map(|(name, value)| format!(" -H \"{}\"", shown(name, value))).collect();
        lines.push(format!("curl -v -X{} {headers} '{}'", request.method(), request.uri()));
    } else if level >= 7 {
        lines.push(format!("{} {}", request.method(), request.uri()));
    }
    if (7..9).contains(&level) {
        lines.push("Request Headers:".into());
        lines.extend(request.headers().iter().map(|(name, value)| format!("    {}", shown(name, value))));
    }
    lines
}

fn response_lines<B>(
    level: u8,
    request: &Request<B>,
    status: StatusCode,
    headers: &HeaderMap,
    took: Duration,
) -> Vec<String> {
    let (word, took) =
        (format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or_default()), took.as_millis());
    let took = format!("{} in {took} milliseconds", word.trim_end());
    let mut lines = match level {
        0..=5 => return Vec::new(),
        6 | 9.. => vec![format!("{} {} {took}", request.method(), request.uri())],
        _ => vec![format!("Response Status: {took}")],
    };
    if level >= 8 {
        lines.push("Response Headers:".into());
        lines.extend(headers.iter().map(|(name, value)| format!("    {}", shown(name, value))));
    }
    lines
}

/// `Accept: application/json`; a secret isn't shown.
fn shown(name: &header::HeaderName, value: &header::HeaderValue) -> String {
    let words: Vec<String> = name
        .as_str()
        .split('-')
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_uppercase() + rest
        })
        .collect();
    let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
    let text = match *name == header::AUTHORIZATION {
        true => format!("{} <masked>", text.split(' ').next().unwrap_or_default()),
        false => text,
    };
    format!("{}: {text}", words.join("-"))
}

/// A body as one line, cut where the level says.
fn body_line(title: &str, body: &[u8], level: u8) -> String {
    let limit = match level {
        0..=8 => 1024,
        9 => 10_240,
        _ => usize::MAX,
    };
    let text = String::from_utf8_lossy(body);
    let kept: String = text.chars().take(limit).collect();
    let more = text.chars().count() - kept.chars().count();
    match more {
        0 => format!("{title:?} body={kept:?}"),
        more => format!("{title:?} body={:?}", format!("{kept} [truncated {more} chars]")),
    }
}

/// The level for a source file of Kubernetes: what `--vmodule` says about it, else `-v`.
///
/// # Errors
/// A part that isn't `pattern=N`.
pub fn level_for(file: &str, v: u8, vmodule: &str) -> Result<u8, String> {
    let mut level = v;
    for part in vmodule.split(',').filter(|part| !part.is_empty()) {
        let bad = || "syntax error: expect comma-separated list of filename=N".to_string();
        let (pattern, number) = part.split_once('=').ok_or_else(bad)?;
        let number = number.parse().map_err(|_| bad())?;
        if fits(pattern, file) {
            level = number;
            break;
        }
    }
    Ok(level)
}

/// Whether a pattern with `*` and `?` fits a name.
fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            fits(&pattern[1..], name)
                || name.chars().next().is_some_and(|c| fits(pattern, &name[c.len_utf8()..]))
        }
        (Some('?'), Some(c)) => fits(&pattern[1..], &name[c.len_utf8()..]),
        (Some(p), Some(c)) if p == c => fits(&pattern[p.len_utf8()..], &name[c.len_utf8()..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_shows_more_and_none_shows_the_token() {
        let request = Request::get("https://a:1/api")
            .header("accept", "x/y")
            .header("authorization", "Bearer secret")
            .body(())
            .unwrap();
        let answer = |level| {
            response_lines(level, &request, StatusCode::OK, &HeaderMap::new(), Duration::from_millis(48))
        };
        assert_eq!(answer(5), [""; 0]);
        assert_eq!(answer(6), ["GET https://a:1/api 200 OK in 48 milliseconds"]);
        assert_eq!(answer(7), ["Response Status: 200 OK in 48 milliseconds"]);
        assert_eq!(request_lines(6, &request), [""; 0]);
        let seven = request_lines(7, &request);
        assert_eq!(
            seven,
            [
                "GET https://a:1/api",
                "Request Headers:",
                "    Accept: x/y",
                "    Authorization: Bearer <masked>"
            ]
        );
        assert_eq!(
            request_lines(9, &request),
            ["curl -v -XGET  -H \"Accept: x/y\" -H \"Authorization: Bearer <masked>\" 'https://a:1/api'"]
        );
        assert_eq!(body_line("Request Body", b"a\"b", 8), r#""Request Body" body="a\"b""#);
        assert!(body_line("Response Body", &[b'x'; 2000], 8).ends_with("[truncated 976 chars]\""));
    }

    #[test]
    fn vmodule_sets_the_level_of_a_file() {
        assert_eq!(level_for("round_trippers", 2, ""), Ok(2));
        assert_eq!(level_for("round_trippers", 2, "loader=9,round*=6"), Ok(6));
        assert_eq!(level_for("round_trippers", 8, "round_tripper?=0"), Ok(0));
        assert!(level_for("round_trippers", 0, "x").is_err());
    }
}
