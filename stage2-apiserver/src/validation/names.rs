//! Names: the forms of names, labels, keys and ports, with the sentences that explain them.
//!
//! Each function returns what is wrong, as Kubernetes says it; empty means valid. The forms come from DNS: a name that becomes part of a
//! host name must be a DNS label or subdomain.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/validation/validation.go`, `apimachinery/pkg/api/validation/{generic,path}`.

use std::sync::LazyLock;

use regex::Regex;

/// A rule for names: what is wrong with the name; `true` if it is only a prefix (`generateName`).
pub type NameRule = fn(&str, bool) -> Vec<String>;

const DNS_1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const CONFIG_MAP_KEY: &str = "[-._a-zA-Z0-9]+";
const WILDCARD: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const HTTP_HEADER: &str = "[-A-Za-z0-9]+";
const C_IDENTIFIER: &str = "[A-Za-z_][A-Za-z0-9_]*";
const PERCENT: &str = "[0-9]+%";

fn whole(pattern: &str) -> Regex {
    Regex::new(&format!("^(?:{pattern})$")).expect("the pattern is fixed")
}

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => { $( static $name: LazyLock<Regex> = LazyLock::new(|| whole($pattern)); )* };
}
patterns! {
    LABEL_RE = DNS_1123_LABEL; SUBDOMAIN_RE = DNS_1123_SUBDOMAIN; DNS_1035_RE = DNS_1035_LABEL; QUALIFIED_RE = QUALIFIED_NAME;
    VALUE_RE = LABEL_VALUE; KEY_RE = CONFIG_MAP_KEY; WILDCARD_RE = WILDCARD; HEADER_RE = HTTP_HEADER; C_RE = C_IDENTIFIER;
    PERCENT_RE = PERCENT;
}

/// `must be no more than N characters`.
pub fn max_length(length: usize) -> String {
    format!("must be no more than {length} characters")
}

/// `must be between A and B, inclusive`.
pub fn inclusive_range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// A lowercase RFC 1123 label.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(max_length(63));
    }
    if !LABEL_RE.is_match(value) {
        errors.push(if SUBDOMAIN_RE.is_match(value) {
            "must not contain dots".to_owned()
        } else {
            let message = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
                           with an alphanumeric character";
            regex_error(message, DNS_1123_LABEL, &["my-name", "123-abc"])
        });
    }
    errors
}

/// A lowercase RFC 1123 subdomain.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 253 {
        errors.push(max_length(253));
    }
    if !SUBDOMAIN_RE.is_match(value) {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
                       end with an alphanumeric character";
        errors.push(regex_error(message, DNS_1123_SUBDOMAIN, &["example.com"]));
    }
    errors
}

/// A wildcard subdomain, `*.example.com`.
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 253 {
        errors.push(max_length(253));
    }
    if !WILDCARD_RE.is_match(value) {
        let message = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower \
                       case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        errors.push(regex_error(message, WILDCARD, &["*.example.com"]));
    }
    errors
}

/// A DNS-1035 label: what Services are called.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(max_length(63));
    }
    if !DNS_1035_RE.is_match(value) {
        let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
                       and end with an alphanumeric character";
        errors.push(regex_error(message, DNS_1035_LABEL, &["my-name", "abc-123"]));
    }
    errors
}

/// A qualified name: `[prefix/]name`, as label and annotation keys and resources have.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name_message = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let examples = ["MyName", "my.name", "123-abc"];
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(
                    dns1123_subdomain(prefix).into_iter().map(|message| format!("prefix part {message}")),
                );
            }
            name
        }
        _ => {
            let text = regex_error(&format!("a qualified name {name_message}"), QUALIFIED_NAME, &examples);
            return vec![format!(
                "{text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", max_length(63)));
    }
    if !QUALIFIED_RE.is_match(name) {
        errors.push(format!("name part {}", regex_error(name_message, QUALIFIED_NAME, &examples)));
    }
    errors
}

/// The value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push(max_length(63));
    }
    if !VALUE_RE.is_match(value) {
        let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
                       end with an alphanumeric character";
        errors.push(regex_error(message, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// A key of a ConfigMap or Secret.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 253 {
        errors.push(max_length(253));
    }
    if !KEY_RE.is_match(value) {
        let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        errors.push(regex_error(message, CONFIG_MAP_KEY, &["key.name", "KEY_NAME", "key-name"]));
    }
    errors.extend(dot_or_dotdot_prefix(value));
    errors
}

fn dot_or_dotdot_prefix(value: &str) -> Option<String> {
    match value {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        value if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// The name of an environment variable (since 1.32: anything printable but `=`).
pub fn env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let printable = value.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    if printable && !value.contains('=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// The prefix of `envFrom`.
pub fn c_identifier(value: &str) -> Vec<String> {
    if C_RE.is_match(value) {
        return Vec::new();
    }
    let message = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
    vec![regex_error(message, C_IDENTIFIER, &["my_name", "MY_NAME", "MyName"])]
}

/// The name of a port (IANA service name).
pub fn port_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 15 {
        errors.push(max_length(15));
    }
    let charset =
        !value.is_empty() && value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !charset {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// A port number.
pub fn port_number(value: i64) -> Vec<String> {
    if (1..=65535).contains(&value) { Vec::new() } else { vec![inclusive_range(1, 65535)] }
}

/// The name of an HTTP header.
pub fn http_header_name(value: &str) -> Vec<String> {
    if HEADER_RE.is_match(value) {
        return Vec::new();
    }
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![regex_error(message, HTTP_HEADER, &["X-Header-Name"])]
}

/// A percentage, `25%`.
pub fn percent(value: &str) -> Vec<String> {
    if PERCENT_RE.is_match(value) {
        return Vec::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(message, PERCENT, &["1%", "93%"])]
}

/// `example.com/path`: a domain with a path, as `spec.managedBy` has.
pub fn domain_prefixed_path(value: &str) -> Vec<String> {
    let Some((domain, path)) =
        value.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        return vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()];
    };
    let bad_path = path.chars().any(|c| !(c.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@%".contains(c)));
    let mut errors = dns1123_subdomain(domain);
    if bad_path {
        errors.push(format!(
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+'): {path}"
        ));
    }
    errors
}

// --- rules for the names of objects -------------------------------------------------------------------------------------------------------

/// A prefix may end in the dash that the generated part follows.
fn mask_trailing_dash(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(rest) if prefix && name.len() > 1 => format!("{rest}a"),
        _ => name.to_owned(),
    }
}

/// Most kinds.
pub fn subdomain_name(name: &str, prefix: bool) -> Vec<String> {
    dns1123_subdomain(&mask_trailing_dash(name, prefix))
}

/// Namespaces, StatefulSets.
pub fn label_name(name: &str, prefix: bool) -> Vec<String> {
    dns1123_label(&mask_trailing_dash(name, prefix))
}

/// Services.
pub fn dns1035_name(name: &str, prefix: bool) -> Vec<String> {
    dns1035_label(&mask_trailing_dash(name, prefix))
}

/// RBAC kinds and whatever else only has to fit into a URL.
pub fn path_segment_name(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ['/', '%'].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}
