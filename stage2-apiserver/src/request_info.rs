//! What a request asks for: verb, group, version, resource, subresource, namespace and name, out of method and path.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::server`] read the request's head. After: [`crate::authorization`]
//! judges exactly these words, and [`crate::handlers`] run the verb.
//!
//! Every later decision is made on this value and none on the path again: what is authorised is what is done. The path
//! alone doesn't know whether a resource exists; that is the registry's business, and it comes after authorisation, so
//! a stranger can't find out what is served.
//!
//! The subtle thing is `namespaces`: `/api/v1/namespaces/a` is the object `a`, `/api/v1/namespaces/a/pods` is a
//! resource in it, and `/api/v1/namespaces/a/status` is the object again.
//!
//! # Invariants
//! 1. Parsing is the inverse of building: the path of any resource, namespace, name and subresource parses to them.
//! 2. A path that is no resource path is a non-resource request, whose verb is the method in lower case.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/request/requestinfo.go`. Left out: the `proxy` prefix verb, gone since 1.10.

use percent_encoding::percent_decode_str;

// ANCHOR: request-info
/// The words of a request, as RBAC rules and audit logs use them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the path names a resource (`/api/v1/…`) or something else (`/healthz`).
    pub is_resource_request: bool,
    /// The path as sent, without the query.
    pub path: String,
    /// get, list, watch, create, update, patch, delete or deletecollection; or the method in lower case.
    pub verb: String,
    /// API group, `""` for core.
    pub api_group: String,
    /// API version.
    pub api_version: String,
    /// Namespace, `""` if none is named.
    pub namespace: String,
    /// Plural resource name.
    pub resource: String,
    /// Subresource, `""` if none.
    pub subresource: String,
    /// Object name, `""` for collections.
    pub name: String,
    /// Whatever follows the subresource: the path behind `…/proxy`.
    pub rest: Option<String>,
}
// ANCHOR_END: request-info

/// Query parameters, decoded, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(pub Vec<(String, String)>);

impl Query {
    /// Decodes `a=b&c=d`; `+` is a space.
    pub fn parse(raw: Option<&str>) -> Self {
        let decode = |s: &str| percent_decode_str(&s.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = raw.unwrap_or("").split('&').filter(|p| !p.is_empty());
        Self(
            pairs
                .map(|p| p.split_once('=').unwrap_or((p, "")))
                .map(|(k, v)| (decode(k), decode(v)))
                .collect(),
        )
    }

    /// The first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0.iter().filter(move |(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// A boolean as Kubernetes reads it: absent, `false` and `0` are false, everything else is true.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|v| !matches!(v.to_ascii_lowercase().as_str(), "false" | "0"))
    }
}

// ANCHOR: parse-request-info
/// Splits method, path and query into the words of a request.
pub fn parse_request_info(method: &str, path: &str, query: &Query) -> RequestInfo {
    let mut info =
        RequestInfo { path: path.into(), verb: method.to_ascii_lowercase(), ..RequestInfo::default() };
    let decoded: Vec<String> = path.trim_matches('/').split('/').map(decode_segment).collect();
    let mut parts: &[String] = &decoded;
    match parts {
        [api, _, _, ..] if api == "api" => parts = &parts[1..],
        [apis, _, _, _, ..] if apis == "apis" => {
            info.api_group = parts[1].clone();
            parts = &parts[2..];
        }
        _ => return info,
    }
    info.is_resource_request = true;
    info.api_version = parts[0].clone();
    parts = &parts[1..];
    info.verb = verb_of_method(method).into();
    if parts[0] == "watch" && parts.len() > 1 {
        info.verb = "watch".into();
        parts = &parts[1..];
    }
    if parts[0] == "namespaces" && parts.len() > 1 {
        info.namespace = parts[1].clone();
        if parts.len() > 2 && !matches!(parts[2].as_str(), "status" | "finalize") {
            parts = &parts[2..];
        }
    }
    let part = |i: usize| parts.get(i).cloned().unwrap_or_default();
    (info.resource, info.name, info.subresource) = (part(0), part(1), part(2));
    if parts.len() > 3 {
        info.rest = Some(parts[3..].join("/"));
    }
    refine_collection_verb(&mut info, query);
    info
}
// ANCHOR_END: parse-request-info

/// A get or delete without a name is about the collection.
fn refine_collection_verb(info: &mut RequestInfo, query: &Query) {
    if info.verb == "watch" && !info.name.is_empty() {
        return;
    }
    if !info.name.is_empty() {
        return;
    }
    match info.verb.as_str() {
        "get" => {
            info.verb = if query.flag("watch") { "watch" } else { "list" }.into();
            // `fieldSelector=metadata.name=x` is authorised like a request for x, so that `resourceNames` rules cover it.
            if let Some(name) = query.get("fieldSelector").and_then(single_name) {
                info.name = name;
            }
        }
        "delete" => info.verb = "deletecollection".into(),
        _ => {}
    }
}

/// The name in a field selector that asks for exactly one.
fn single_name(selector: &str) -> Option<String> {
    let mut names = selector.split(',').filter_map(|term| {
        let value = term.strip_prefix("metadata.name==").or_else(|| term.strip_prefix("metadata.name="))?;
        (!value.is_empty() && !value.contains(['/', '%', '='])).then(|| value.to_owned())
    });
    match (names.next(), names.next()) {
        (Some(name), None) => Some(name),
        _ => None,
    }
}

fn verb_of_method(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

fn decode_segment(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests;
