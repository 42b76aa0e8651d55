//! Field errors: what is wrong with which field.
//!
//! Validation collects these as values and goes on, so that one answer names every mistake. The texts are part of the
//! interface: people search for `Required value`, tools parse the causes.
//!
//! # Invariants
//! 1. `Display` is `path: kind: value: detail`, with the value only for the kinds that show one.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/validation/field/errors.go`.

use std::fmt;

use serde_json::Value;

/// The kind of complaint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// A reference to something that isn't there.
    NotFound,
    /// Must be set.
    Required,
    /// Must be unique.
    Duplicate,
    /// Has the wrong form.
    Invalid,
    /// Not one of a closed set.
    NotSupported,
    /// Not allowed here, now, or for you.
    Forbidden,
    /// Text over the limit.
    TooLong,
    /// List over the limit.
    TooMany,
    /// Something else went wrong.
    InternalError,
    /// The wrong JSON type.
    TypeInvalid,
}

impl ErrorType {
    /// The text for people.
    pub fn text(self) -> &'static str {
        match self {
            ErrorType::NotFound => "Not found",
            ErrorType::Required => "Required value",
            ErrorType::Duplicate => "Duplicate value",
            ErrorType::Invalid | ErrorType::TypeInvalid => "Invalid value",
            ErrorType::NotSupported => "Unsupported value",
            ErrorType::Forbidden => "Forbidden",
            ErrorType::TooLong => "Too long",
            ErrorType::TooMany => "Too many",
            ErrorType::InternalError => "Internal error",
        }
    }

    /// The word for programs (`causes[].reason`).
    pub fn reason(self) -> &'static str {
        match self {
            ErrorType::NotFound => "FieldValueNotFound",
            ErrorType::Required => "FieldValueRequired",
            ErrorType::Duplicate => "FieldValueDuplicate",
            ErrorType::Invalid => "FieldValueInvalid",
            ErrorType::NotSupported => "FieldValueNotSupported",
            ErrorType::Forbidden => "FieldValueForbidden",
            ErrorType::TooLong => "FieldValueTooLong",
            ErrorType::TooMany => "FieldValueTooMany",
            ErrorType::InternalError => "InternalError",
            ErrorType::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            ErrorType::Required | ErrorType::Forbidden | ErrorType::TooLong | ErrorType::InternalError
        )
    }
}

/// A bad value `{GO_SYNTAX: text}` is shown as that text, unquoted: Kubernetes prints structs, slices and maps with
/// Go's `%#v` (`v1.LabelSelector{…}`), which no JSON value can stand for.
pub const GO_SYNTAX: &str = "%#v";

/// One thing that is wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The kind of complaint.
    pub kind: ErrorType,
    /// The path, `spec.containers[0].image`.
    pub field: String,
    /// The offending value.
    pub bad_value: Value,
    /// What would be right; may be empty.
    pub detail: String,
}

impl FieldError {
    /// From its parts.
    pub fn new(
        kind: ErrorType,
        field: impl Into<String>,
        bad_value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        FieldError { kind, field: field.into(), bad_value: bad_value.into(), detail: detail.into() }
    }

    /// `path: Required value`.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        FieldError::new(ErrorType::Required, field, "", detail)
    }

    /// `path: Invalid value: "x": detail`.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        FieldError::new(ErrorType::Invalid, field, value, detail)
    }

    /// `path: Unsupported value: "x": supported values: "a", "b"`.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| quote(s)).collect();
        let detail = match quoted.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", quoted.join(", ")),
        };
        FieldError::new(ErrorType::NotSupported, field, value, detail)
    }

    /// `path: Duplicate value: "x"`.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        FieldError::new(ErrorType::Duplicate, field, value, "")
    }

    /// `path: Forbidden: detail`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        FieldError::new(ErrorType::Forbidden, field, "", detail)
    }

    /// `path: Too long: may not be more than N bytes`.
    pub fn too_long(field: impl Into<String>, max_length_bytes: usize) -> Self {
        let detail = format!("may not be more than {max_length_bytes} bytes");
        FieldError::new(ErrorType::TooLong, field, "", detail)
    }

    /// `path: Too many: 12: must have at most N items`.
    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        let noun = if max == 1 { "item" } else { "items" };
        FieldError::new(ErrorType::TooMany, field, actual, format!("must have at most {max} {noun}"))
    }

    /// `path: Not found: "x"`.
    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        FieldError::new(ErrorType::NotFound, field, value, "")
    }

    /// The wrong JSON type: `path: Invalid value: "x": detail`.
    pub fn type_invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        FieldError::new(ErrorType::TypeInvalid, field, value, detail)
    }

    /// `path: Internal error: detail`.
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Self {
        FieldError::new(ErrorType::InternalError, field, "", detail)
    }

    /// The message without the path (`causes[].message`).
    pub fn body(&self) -> String {
        let mut text = self.kind.text().to_string();
        if self.kind.shows_value() {
            let value = match &self.bad_value {
                Value::String(s) => quote(s),
                other => match other.get(GO_SYNTAX).and_then(Value::as_str) {
                    Some(literal) => literal.to_string(),
                    None => other.to_string(),
                },
            };
            text = format!("{text}: {value}");
        }
        if !self.detail.is_empty() {
            text = format!("{text}: {}", self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// One message as it is, several distinct ones as `[a, b]`.
pub(super) fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Quotes as Go's `%q` does: double quotes, escapes for control characters.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => quoted.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() || c == '\u{feff}' => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
