//! The page being written: lines with tabs, aligned when it is finished.
//!
//! # In Kubernetes
//! `PrefixWriter` and the `print…Multiline` functions of `kubectl/pkg/describe/describe.go`, and Go's `text/tabwriter`, whose
//! counterpart is the crate `tabwriter`.

use std::fmt::Write as _;
use std::io::Write as _;

use jiff::Timestamp;
use serde_json::Value;

use super::access::{pairs, scalar, text};
use crate::printers::terminal::escaped;
use crate::time::human_duration;

/// An annotation longer than this gets lines of its own.
const MAX_ANNOTATION_LEN: usize = 140;
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A page in the making.
#[derive(Debug)]
pub struct Doc {
    text: String,
    /// The time that ages are measured from.
    pub now: Timestamp,
}

impl Doc {
    /// An empty page.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { text: String::new(), now }
    }

    /// A line at a level; every level is two spaces.
    pub fn line(&mut self, level: usize, line: &str) {
        let _ = writeln!(self.text, "{:indent$}{line}", "", indent = level * 2);
    }

    /// `title:<tab>value`.
    pub fn field(&mut self, level: usize, title: &str, value: &str) {
        self.line(level, &format!("{title}:\t{value}"));
    }

    /// Name, and the namespace of a namespaced object.
    pub fn head(&mut self, object: &Value) {
        self.field(0, "Name", text(object, "/metadata/name"));
        if object.pointer("/metadata/namespace").is_some() {
            self.field(0, "Namespace", text(object, "/metadata/namespace"));
        }
    }

    /// `Labels:` and `Annotations:` of an object.
    pub fn labels_and_annotations(&mut self, object: &Value) {
        self.map(0, "Labels", object, "/metadata/labels");
        self.annotations(0, object, "/metadata/annotations");
    }

    /// A map, a pair a line under the first one.
    pub fn map(&mut self, level: usize, title: &str, object: &Value, pointer: &str) {
        let lines: Vec<String> = pairs(object, pointer)
            .iter()
            .map(|(key, value)| format!("{key}={}", scalar(Some(value))))
            .collect();
        self.multiline(level, title, &lines);
    }

    /// Lines under each other in the second column, `<none>` when there is none.
    pub fn multiline(&mut self, level: usize, title: &str, lines: &[String]) {
        let Some((first, rest)) = lines.split_first() else { return self.field(level, title, "<none>") };
        self.field(level, title, first);
        // Without the indent of the first, as kubectl writes them: it shows where columns aren't aligned.
        for line in rest {
            self.line(0, &format!("\t{line}"));
        }
    }

    /// Annotations; long and multi-line ones get lines of their own, and what `apply` wrote for itself is left out.
    pub fn annotations(&mut self, level: usize, object: &Value, pointer: &str) {
        let mut lines = Vec::new();
        for (key, value) in pairs(object, pointer).into_iter().filter(|(key, _)| *key != LAST_APPLIED) {
            let value = scalar(Some(value));
            let value = value.strip_suffix('\n').unwrap_or(&value);
            if value.len() + key.len() + 2 > MAX_ANNOTATION_LEN || value.contains('\n') {
                lines.push(format!("{key}:"));
                lines.extend(
                    value.split('\n').map(|line| format!("  {}", shorten(line, MAX_ANNOTATION_LEN - 2))),
                );
            } else {
                lines.push(format!("{key}: {value}"));
            }
        }
        self.multiline(level, "Annotations", &lines);
    }

    /// A time of the API, as RFC 1123 with a numeric zone.
    #[must_use]
    pub fn time(&self, value: Option<&Value>) -> String {
        rfc1123z(&scalar(value))
    }

    /// How long ago a time of the API was; `<unknown>` when it is missing.
    #[must_use]
    pub fn since(&self, time: &str) -> String {
        time.parse::<Timestamp>()
            .map_or_else(|_| "<unknown>".to_owned(), |then| human_duration(self.now.duration_since(then)))
    }

    /// The page as it was written, its columns separated by tabs.
    #[must_use]
    pub fn unaligned(self) -> String {
        escaped(&self.text).into_owned()
    }

    /// The aligned page.
    #[must_use]
    pub fn finish(self) -> String {
        const IN_MEMORY: &str = "aligning in memory can't fail";
        let mut writer = tabwriter::TabWriter::new(Vec::new()).minwidth(0).padding(2);
        writer.write_all(escaped(&self.text).as_bytes()).expect(IN_MEMORY);
        let bytes = writer.into_inner().expect(IN_MEMORY);
        String::from_utf8(bytes).expect("alignment only adds spaces")
    }
}

fn shorten(line: &str, max: usize) -> String {
    if line.chars().count() > max {
        format!("{}...", line.chars().take(max).collect::<String>())
    } else {
        line.to_owned()
    }
}

/// `Mon, 02 Jan 2006 15:04:05 -0700`; Go prints its zero time for a missing one.
pub fn rfc1123z(time: &str) -> String {
    time.parse::<Timestamp>().map_or_else(
        |_| "Mon, 01 Jan 0001 00:00:00 +0000".to_owned(),
        |time| time.strftime("%a, %d %b %Y %H:%M:%S %z").to_string(),
    )
}
