//! Options: the query parameters of a verb, read and checked before anything else happens.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::request_info`] decoded the query. After: each handler of
//! [`crate::handlers`] gets typed options and never looks at the query again.
//!
//! A parameter that isn't a number is 400 with Go's words (`strconv.ParseInt: …`); one that contradicts another is 422 with
//! the name of the options kind. Both come before the object is looked up.
//!
//! # In Kubernetes
//! `apimachinery/pkg/apis/meta/v1/validation/validation.go`, `…/meta/internalversion/validation/validation.go`.

use jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::selector::{FieldSelector, LabelSelector};
use stage1_kubectl::status::{FieldError, Status};

use crate::decode::FieldValidation;
use crate::negotiation::BodyFormat;
use crate::protobuf;
use crate::request_info::Query;
use crate::store::deletion::{DeleteRequest, Propagation};

/// Longest fieldManager.
const FIELD_MANAGER_MAX_LENGTH: usize = 128;

/// Options of create, update and patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    /// Everything but the commit.
    pub dry_run: bool,
    /// What happens to unknown fields.
    pub field_validation: FieldValidation,
    /// Who writes, for managedFields.
    pub field_manager: String,
    /// Apply takes fields away from others.
    pub force: bool,
}

/// Options of list, watch and deletecollection.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Labels to match.
    pub label_selector: LabelSelector,
    /// Fields to match.
    pub field_selector: FieldSelector,
    /// `""`, `"0"` or a revision.
    pub resource_version: String,
    /// `""`, `Exact` or `NotOlderThan`.
    pub resource_version_match: String,
    /// Page size, 0 for everything.
    pub limit: i64,
    /// Where the page begins.
    pub continue_token: String,
    /// Stream changes.
    pub watch: bool,
    /// Send bookmarks.
    pub allow_watch_bookmarks: bool,
    /// End the watch after so many seconds.
    pub timeout_seconds: Option<u64>,
    /// Begin the watch with what exists.
    pub send_initial_events: Option<bool>,
}

/// Options of delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Everything but the commit.
    pub dry_run: bool,
    /// Seconds that a graceful object has left.
    pub grace_period_seconds: Option<i64>,
    /// What becomes of dependents.
    pub propagation: Option<Propagation>,
    /// Delete only this incarnation.
    pub uid: Option<String>,
    /// Delete only this version.
    pub resource_version: Option<String>,
}

impl WriteOptions {
    /// Reads the options of a write; `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`.
    ///
    /// # Errors
    /// 422 naming the parameter.
    pub fn parse(query: &Query, kind: &str, is_apply: bool) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let field_manager = query.get("fieldManager").unwrap_or("").to_owned();
        if kind == "PatchOptions" {
            if is_apply && field_manager.is_empty() {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            if !is_apply && query.get("force").is_some() {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        if field_manager.len() > FIELD_MANAGER_MAX_LENGTH {
            errors.push(FieldError::too_long("fieldManager", FIELD_MANAGER_MAX_LENGTH));
        }
        let dry_run = parse_dry_run(query, &mut errors);
        let field_validation = match query.get("fieldValidation").unwrap_or("") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", other, &supported));
                FieldValidation::Warn
            }
        };
        refuse(kind, &errors)?;
        Ok(Self { dry_run, field_validation, field_manager, force: query.flag("force") })
    }
}

fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let mut status = Status::invalid(&format!("{kind}.meta.k8s.io"), "", errors);
    // Of all refusals only dryRun's shows a slice, and Go shows it as `[]string{"Some"}`.
    for shown in errors.iter().filter(|e| e.bad_value.is_array()).map(|e| e.bad_value.to_string()) {
        let go = format!("[]string{{{}}}", shown.trim_matches(['[', ']']));
        status.message = status.message.replace(&shown, &go);
        for cause in status.details.iter_mut().flat_map(|d| &mut d.causes) {
            cause.message = cause.message.replace(&shown, &go);
        }
    }
    Err(status)
}

fn parse_dry_run(query: &Query, errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<&str> = query.all("dryRun").collect();
    dry_run_of(&values, errors)
}

fn dry_run_of(values: &[&str], errors: &mut Vec<FieldError>) -> bool {
    if values.iter().any(|v| *v != "All") {
        errors.push(FieldError::not_supported("dryRun", json!(values), &["All"]));
    }
    !values.is_empty()
}

impl ListOptions {
    /// Reads the options of list, watch and deletecollection.
    ///
    /// # Errors
    /// 400 for what can't be read, 422 for what contradicts.
    pub fn parse(query: &Query, watch: bool) -> Result<Self, Status> {
        let label_selector = query.get("labelSelector").unwrap_or("");
        let field_selector = query.get("fieldSelector").unwrap_or("");
        let options = Self {
            label_selector: LabelSelector::parse(label_selector)
                .map_err(|e| Status::bad_request(e.to_string()))?,
            field_selector: FieldSelector::parse(field_selector)
                .map_err(|e| Status::bad_request(e.to_string()))?,
            resource_version: query.get("resourceVersion").unwrap_or("").into(),
            resource_version_match: query.get("resourceVersionMatch").unwrap_or("").into(),
            limit: integer(query, "limit")?.unwrap_or(0),
            continue_token: query.get("continue").unwrap_or("").into(),
            watch,
            allow_watch_bookmarks: query.flag("allowWatchBookmarks"),
            timeout_seconds: integer(query, "timeoutSeconds")?
                .and_then(|t| u64::try_from(t).ok())
                .filter(|t| *t > 0),
            send_initial_events: query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
        };
        refuse("ListOptions", &options.contradictions())?;
        Ok(options)
    }

    fn contradictions(&self) -> Vec<FieldError> {
        let forbidden = |why: &str| FieldError::forbidden("resourceVersionMatch", why);
        let mut errors = Vec::new();
        let matching = self.resource_version_match.as_str();
        if self.watch {
            match (self.send_initial_events, matching) {
                (None, "") => {}
                (None, _) => errors.push(forbidden(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                )),
                (Some(_), "") => errors.push(forbidden(
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                )),
                (Some(_), "NotOlderThan") => {}
                (Some(_), other) => {
                    errors.push(FieldError::not_supported("resourceVersionMatch", other, &["NotOlderThan"]))
                }
            }
            return errors;
        }
        if self.send_initial_events.is_some() {
            errors
                .push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        if matching.is_empty() {
            return errors;
        }
        if self.resource_version.is_empty() {
            errors.push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !self.continue_token.is_empty() {
            errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(
                "resourceVersionMatch",
                matching,
                &["Exact", "NotOlderThan", ""],
            ));
        }
        if matching == "Exact" && self.resource_version == "0" {
            errors.push(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
        }
        errors
    }
}

fn integer(query: &Query, name: &str) -> Result<Option<i64>, Status> {
    query.get(name).filter(|v| !v.is_empty()).map(parse_int).transpose()
}

fn parse_int(text: &str) -> Result<i64, Status> {
    text.parse()
        .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
}

impl DeleteOptions {
    /// As the store takes it.
    pub fn request(&self, now: Timestamp) -> DeleteRequest {
        DeleteRequest {
            grace_period_seconds: self.grace_period_seconds,
            propagation: self.propagation,
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
            dry_run: self.dry_run,
            now,
        }
    }

    /// As the object that admission sees.
    pub fn to_value(&self) -> Value {
        let mut options = json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1" });
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = json!(format!("{propagation:?}"));
        }
        for (name, value) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(value) = value {
                options["preconditions"][name] = json!(value);
            }
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }

    /// Reads the options from the body when there is one, else from the query.
    ///
    /// # Errors
    /// 400 for what can't be read, 422 for what contradicts.
    pub fn parse(query: &Query, body: Option<&Value>) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let mut options = Self::default();
        let (policy, orphan);
        match body {
            Some(body) => {
                let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
                options.grace_period_seconds = body.pointer("/gracePeriodSeconds").and_then(Value::as_i64);
                options.uid = text("/preconditions/uid");
                options.resource_version = text("/preconditions/resourceVersion");
                policy = text("/propagationPolicy");
                orphan = body.pointer("/orphanDependents").and_then(Value::as_bool);
                let values = body.pointer("/dryRun").and_then(Value::as_array).cloned().unwrap_or_default();
                let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
                options.dry_run = dry_run_of(&values, &mut errors);
            }
            None => {
                options.grace_period_seconds = integer(query, "gracePeriodSeconds")?;
                policy = query.get("propagationPolicy").map(str::to_owned);
                orphan = query.get("orphanDependents").map(|_| query.flag("orphanDependents"));
                options.dry_run = parse_dry_run(query, &mut errors);
            }
        }
        options.propagation = propagation_of(policy.as_deref(), orphan, &mut errors);
        refuse("DeleteOptions", &errors)?;
        Ok(options)
    }
}

/// Reads the body of a DELETE.
///
/// # Errors
/// 400 for another kind or what can't be read.
pub fn read_delete_options(body: &[u8], format: BodyFormat) -> Result<Value, Status> {
    let value: Result<Value, String> = match format {
        BodyFormat::Json => serde_json::from_slice(body).map_err(|e| e.to_string()),
        BodyFormat::Yaml => std::str::from_utf8(body)
            .map_err(|e| e.to_string())
            .and_then(|text| serde_yaml::from_str(text).map_err(|e| e.to_string())),
        BodyFormat::Protobuf => delete_options_of_protobuf(body),
    };
    let value = value.map_err(|e| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type DeleteOptions): {e}"
        ))
    })?;
    match value.get("kind").and_then(Value::as_str) {
        None | Some("" | "DeleteOptions") => Ok(value),
        Some(_) => Err(Status::failure(500, "", "decoded object cannot be converted to DeleteOptions")),
    }
}

fn delete_options_of_protobuf(body: &[u8]) -> Result<Value, String> {
    let envelope = protobuf::open(body).map_err(|e| e.to_string())?;
    if !matches!(envelope.kind.as_str(), "" | "DeleteOptions") {
        return Ok(json!({ "kind": envelope.kind }));
    }
    let message = protobuf::message_of("v1", "DeleteOptions").expect("the table has DeleteOptions");
    protobuf::decode_raw(message, envelope.raw).map(Value::Object).map_err(|e| e.to_string())
}

fn propagation_of(
    policy: Option<&str>,
    orphan: Option<bool>,
    errors: &mut Vec<FieldError>,
) -> Option<Propagation> {
    if let (Some(policy), Some(_)) = (policy, orphan) {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", policy, why));
    }
    match (policy, orphan) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (None, None) => None,
        (Some(other), _) => {
            let supported = ["Background", "Foreground", "Orphan"];
            errors.push(FieldError::not_supported("propagationPolicy", other, &supported));
            None
        }
    }
}

#[cfg(test)]
mod tests;
