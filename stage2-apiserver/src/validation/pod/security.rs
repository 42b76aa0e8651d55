//! Security contexts, and what a pod for Windows may not have.
//!
//! # In Kubernetes
//! `ValidateSecurityContext`, `validatePodSpecSecurityContext`, `validateWindows`, `validateLinux`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::validation::fields::{child, flag, has, list, opt_flag, opt_int, text, texts};
use crate::validation::{Errors, FieldError, field, go_syntax, index, names};

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const SYSCTL: &str = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
static SYSCTL_RE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!("^{SYSCTL}$")).expect("the pattern is fixed"));

/// Fields of `core.SecurityContext` in their order.
const SECURITY_CONTEXT: &[(&str, &str, &str)] = &[
    ("Capabilities", "capabilities", "core.Capabilities"),
    ("Privileged", "privileged", "bool"),
    ("SELinuxOptions", "seLinuxOptions", "core.SELinuxOptions"),
    ("WindowsOptions", "windowsOptions", "core.WindowsSecurityContextOptions"),
    ("RunAsUser", "runAsUser", "int64"),
    ("RunAsGroup", "runAsGroup", "int64"),
    ("RunAsNonRoot", "runAsNonRoot", "bool"),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", "bool"),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", "bool"),
    ("ProcMount", "procMount", "core.ProcMountType"),
    ("SeccompProfile", "seccompProfile", "core.SeccompProfile"),
    ("AppArmorProfile", "appArmorProfile", "core.AppArmorProfile"),
];

fn id(errors: &mut Errors, owner: &Value, name: &str, path: &str) {
    if let Some(id) = opt_int(owner, name).filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
        errors.push(FieldError::invalid(
            field(path, name),
            id,
            names::inclusive_range(0, i64::from(i32::MAX)),
        ));
    }
}

/// A container's.
pub fn container_security_context(container: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let context = child(container, "securityContext");
    id(&mut errors, context, "runAsUser", path);
    id(&mut errors, context, "runAsGroup", path);
    profile(&mut errors, context, "seccompProfile", path, "seccomp");
    if opt_flag(context, "allowPrivilegeEscalation") == Some(false) {
        let shown = || go_syntax::raw(go_syntax::pointers("core.SecurityContext", SECURITY_CONTEXT, context));
        if flag(context, "privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(FieldError::invalid(path, shown(), detail));
        }
        if texts(child(context, "capabilities"), "add").contains(&"CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid(path, shown(), detail));
        }
    }
    profile(&mut errors, context, "appArmorProfile", path, "AppArmor");
    errors
}

/// A seccomp or AppArmor profile.
fn profile(errors: &mut Errors, context: &Value, name: &str, path: &str, what: &str) {
    if !has(context, name) {
        return;
    }
    let (profile, path) = (child(context, name), field(path, name));
    let (kind, localhost) = (text(profile, "type"), child(profile, "localhostProfile"));
    match kind {
        "" => errors
            .push(FieldError::required(field(&path, "type"), format!("type is required when {name} is set"))),
        "Localhost" if localhost.is_null() => {
            let detail = format!("must be set when {what} type is Localhost");
            errors.push(FieldError::required(field(&path, "localhostProfile"), detail));
        }
        "Localhost" => {}
        kind if !PROFILES.contains(&kind) => {
            errors.push(FieldError::not_supported(field(&path, "type"), kind, PROFILES))
        }
        _ if !localhost.is_null() => {
            let detail = format!("can only be set when {what} type is Localhost");
            let value = localhost.as_str().unwrap_or_default();
            errors.push(FieldError::invalid(field(&path, "localhostProfile"), value, detail));
        }
        _ => {}
    }
}

/// A pod's.
pub fn pod_security_context(spec: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let context = child(spec, "securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&mut errors, context, name, path);
    }
    for (at, group) in list(context, "supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or_default();
        if !(0..=i64::from(i32::MAX)).contains(&group) {
            let detail = names::inclusive_range(0, i64::from(i32::MAX));
            errors.push(FieldError::invalid(index(&field(path, "supplementalGroups"), at), group, detail));
        }
    }
    if flag(spec, "hostPID") && flag(spec, "shareProcessNamespace") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(field(path, "shareProcessNamespace"), true, detail));
    }
    sysctls(&mut errors, list(context, "sysctls"), &field(path, "sysctls"));
    crate::validation::values::one_of_if_set(
        &mut errors,
        context,
        "fsGroupChangePolicy",
        path,
        &["Always", "OnRootMismatch"],
    );
    profile(&mut errors, context, "seccompProfile", path, "seccomp");
    profile(&mut errors, context, "appArmorProfile", path, "AppArmor");
    errors
}

fn sysctls(errors: &mut Errors, sysctls: &[Value], path: &str) {
    let mut seen = BTreeSet::new();
    for (at, sysctl) in sysctls.iter().enumerate() {
        let (name, path) = (text(sysctl, "name"), field(&index(path, at), "name"));
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if name.len() > 253 || !SYSCTL_RE.is_match(name) {
            let detail = format!("must have at most 253 characters and match regex ^{SYSCTL}$");
            errors.push(FieldError::invalid(path, name, detail));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(path, name));
        }
    }
}

const NOT_FOR_WINDOWS_POD: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "shareProcessNamespace",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
];
const NOT_FOR_WINDOWS_CONTAINER: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// `os`: a known one, and nothing that it doesn't have.
pub fn os(spec: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    if !has(spec, "os") {
        return errors;
    }
    let forbid = |errors: &mut Errors, context: &Value, names: &[&str], path: &str, kind: &str| {
        for name in names.iter().filter(|name| has(context, name)) {
            errors.push(FieldError::forbidden(field(path, name), format!("cannot be set for a {kind} pod")));
        }
    };
    let name = text(child(spec, "os"), "name");
    let context_path = field(path, "securityContext");
    match name {
        "" => errors.push(FieldError::required(field(&field(path, "os"), "name"), "cannot be empty")),
        "windows" => {
            forbid(
                &mut errors,
                child(spec, "securityContext"),
                NOT_FOR_WINDOWS_POD,
                &context_path,
                "windows",
            );
            forbid(
                &mut errors,
                spec,
                &["hostPID", "hostIPC", "hostUsers", "shareProcessNamespace"],
                &context_path,
                "windows",
            );
        }
        "linux" => {
            forbid(&mut errors, child(spec, "securityContext"), &["windowsOptions"], &context_path, "linux")
        }
        other => errors.push(FieldError::not_supported(field(path, "os"), other, &["linux", "windows"])),
    }
    for containers in ["containers", "initContainers"] {
        for (at, container) in list(spec, containers).iter().enumerate() {
            let path = field(&index(&field(path, containers), at), "securityContext");
            let context = child(container, "securityContext");
            match name {
                "windows" => forbid(&mut errors, context, NOT_FOR_WINDOWS_CONTAINER, &path, "windows"),
                "linux" => forbid(&mut errors, context, &["windowsOptions"], &path, "linux"),
                _ => {}
            }
        }
    }
    errors
}
