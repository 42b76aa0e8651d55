//! Params: the objects that a binding hands to a policy, such as the numbers of this namespace's limits.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go` (`CollectParams`). Left out: custom parameters in another
//! version than that which is stored (they are read as they are stored).

use std::sync::Arc;

use serde_json::Value;
use stage1_kubectl::object::Object;

use crate::admission::webhook::selector;
use crate::admission::{Attributes, ObjectReader};
use crate::registry::ResourceInfo;

/// The entry of a kind of parameters.
pub fn resource_of(
    api_version: &str,
    kind: &str,
    reader: &dyn ObjectReader,
) -> Option<&'static ResourceInfo> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    reader.kind(group, version, kind)
}

/// The parameters of a binding; one `None` for a policy or binding without.
///
/// # Errors
/// There is none, and the binding says that this is a refusal.
pub fn collect(
    param_kind: Option<&(String, String)>,
    param_ref: Option<&Value>,
    attributes: &Attributes,
    reader: &dyn ObjectReader,
) -> Result<Vec<Option<Arc<Object>>>, String> {
    let (Some((api_version, kind)), Some(wanted)) = (param_kind, param_ref) else {
        return Ok(vec![None]);
    };
    let found = resource_of(api_version, kind, reader);
    let info = found.ok_or_else(|| {
        format!("failed to find resource referenced by paramKind: '{}'", shown(api_version, kind))
    })?;
    let text = |name: &str| wanted.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let namespace = match (info.namespaced, text("namespace")) {
        (true, given) => given.unwrap_or(&attributes.namespace),
        (false, None) => "",
        (false, Some(_)) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into());
        }
    };
    if info.namespaced && namespace.is_empty() {
        return Err(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into()
        );
    }
    if !reader.is_filled(info) {
        let kind = shown(api_version, kind);
        return Err(format!("paramKind kind `{kind}` not yet synced to use for admission"));
    }
    let (group, resource) = (info.group, info.resource);
    let found: Vec<Arc<Object>> = match text("name") {
        Some(name) => reader.get(group, resource, namespace, name).into_iter().collect(),
        None => {
            let selector =
                selector(wanted.get("selector")).ok_or("the selector of paramRef can't be read")?;
            let mut all = reader.list(group, resource, namespace);
            all.retain(|object| selector.matches(&object.labels()));
            all
        }
    };
    match (found.is_empty(), text("parameterNotFoundAction")) {
        (false, _) => Ok(found.into_iter().map(Some).collect()),
        (true, Some("Deny")) => {
            Err("no params found for policy binding with `Deny` parameterNotFoundAction".into())
        }
        (true, _) => Ok(Vec::new()),
    }
}

/// `example.com/v1, Kind=Limit`.
fn shown(api_version: &str, kind: &str) -> String {
    match api_version.contains('/') {
        true => format!("{api_version}, Kind={kind}"),
        false => format!("/{api_version}, Kind={kind}"),
    }
}
