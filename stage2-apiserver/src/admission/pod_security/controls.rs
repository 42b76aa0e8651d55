//! The controls: each a question about a pod spec, answered with Kubernetes' words.
//!
//! A control returns what violates it, or nothing. The order is that of the answer: baseline first, by name, then restricted; a restricted
//! control replaces the baseline control of the same matter.
//!
//! # In Kubernetes
//! `pod-security-admission/policy/check_*.go`.

use serde_json::Value;

use super::contexts;
use crate::validation::fields::{at, child, flag, has, int, list, opt_flag, text, texts};

type Control = fn(&Value) -> Option<String>;

const BASELINE: &[(Control, bool)] = &[
    // The second is true if a restricted control replaces it.
    (app_armor, false),
    (capabilities_baseline, true),
    (host_namespaces, false),
    (host_path_volumes, true),
    (host_ports, false),
    (privileged, false),
    (proc_mount, false),
    (se_linux_options, false),
    (seccomp_baseline, true),
    (sysctls, false),
    (windows_host_process, false),
];
const RESTRICTED: &[Control] = &[
    allow_privilege_escalation,
    capabilities_restricted,
    restricted_volumes,
    run_as_non_root,
    run_as_user,
    seccomp_restricted,
];

/// What violates a level.
pub fn violations(level: &str, spec: &Value) -> Vec<String> {
    let restricted = match level {
        "baseline" => false,
        "restricted" => true,
        _ => return Vec::new(),
    };
    let baseline =
        BASELINE.iter().filter(|(_, replaced)| !(restricted && *replaced)).map(|(control, _)| *control);
    let more = RESTRICTED.iter().copied().filter(|_| restricted);
    baseline.chain(more).filter_map(|control| control(spec)).collect()
}

/// `container "a"` or `containers "a", "b"`.
fn named(kind: &str, names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{kind}{plural} {}", quoted.join(", "))
}

/// The containers of which something holds, told by a sentence.
fn offenders(spec: &Value, what: &str, sentence: &str, holds: impl Fn(&Value) -> bool) -> Option<String> {
    let names: Vec<&str> =
        contexts(spec).into_iter().filter(|(_, context)| holds(context)).map(|(name, _)| name).collect();
    (!names.is_empty()).then(|| format!("{what} ({} {sentence})", named("container", &names)))
}

fn app_armor(spec: &Value) -> Option<String> {
    let unconfined = |context: &Value| text(child(context, "appArmorProfile"), "type") == "Unconfined";
    let sentence = "must not set AppArmor profile type to \"Unconfined\"";
    if unconfined(child(spec, "securityContext")) {
        return Some(format!("forbidden AppArmor profile (pod {sentence})"));
    }
    offenders(spec, "forbidden AppArmor profile", sentence, unconfined)
}

const DEFAULT_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn capabilities_baseline(spec: &Value) -> Option<String> {
    let (mut names, mut added) = (Vec::new(), std::collections::BTreeSet::new());
    for (name, context) in contexts(spec) {
        let forbidden: Vec<&str> = texts(child(context, "capabilities"), "add")
            .into_iter()
            .filter(|c| !DEFAULT_CAPABILITIES.contains(c))
            .collect();
        if !forbidden.is_empty() {
            names.push(name);
            added.extend(forbidden);
        }
    }
    let quoted: Vec<String> = added.iter().map(|capability| format!("{capability:?}")).collect();
    (!names.is_empty()).then(|| {
        let who = named("container", &names);
        format!(
            "non-default capabilities ({who} must not include {} in securityContext.capabilities.add)",
            quoted.join(", ")
        )
    })
}

fn host_namespaces(spec: &Value) -> Option<String> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|name| flag(spec, name))
        .map(|name| format!("{name}=true"))
        .collect();
    (!shared.is_empty()).then(|| format!("host namespaces ({})", shared.join(", ")))
}

fn host_path_volumes(spec: &Value) -> Option<String> {
    let names: Vec<&str> =
        list(spec, "volumes").iter().filter(|v| has(v, "hostPath")).map(|v| text(v, "name")).collect();
    (!names.is_empty()).then(|| format!("hostPath volumes ({})", named("volume", &names)))
}

fn host_ports(spec: &Value) -> Option<String> {
    let (mut names, mut ports) = (Vec::new(), std::collections::BTreeSet::new());
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list(spec, kind) {
            let used: Vec<i64> = list(container, "ports")
                .iter()
                .map(|port| int(port, "hostPort"))
                .filter(|port| *port != 0)
                .collect();
            if !used.is_empty() {
                names.push(text(container, "name"));
                ports.extend(used);
            }
        }
    }
    let shown: Vec<String> = ports.iter().map(i64::to_string).collect();
    let (verb, noun) = (
        if names.len() == 1 { "uses" } else { "use" },
        if ports.len() == 1 { "hostPort" } else { "hostPorts" },
    );
    (!names.is_empty())
        .then(|| format!("hostPort ({} {verb} {noun} {})", named("container", &names), shown.join(", ")))
}

fn privileged(spec: &Value) -> Option<String> {
    offenders(spec, "privileged", "must not set securityContext.privileged=true", |context| {
        flag(context, "privileged")
    })
}

fn proc_mount(spec: &Value) -> Option<String> {
    let unmasked = |context: &Value| !matches!(text(context, "procMount"), "" | "Default");
    offenders(spec, "procMount", "must not set securityContext.procMount to \"Unmasked\"", unmasked)
}

fn se_linux_options(spec: &Value) -> Option<String> {
    const TYPES: &[&str] = &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
    let mut bad = Vec::new();
    let mut look = |context: &Value| {
        let options = child(context, "seLinuxOptions");
        let before = bad.len();
        if !TYPES.contains(&text(options, "type")) {
            bad.push(format!("type {:?}", text(options, "type")));
        }
        for name in ["user", "role"].iter().filter(|name| !text(options, name).is_empty()) {
            bad.push(format!("{name} may not be set"));
        }
        bad.len() > before
    };
    let pod = look(child(spec, "securityContext"));
    let names: Vec<&str> =
        contexts(spec).into_iter().filter(|(_, context)| look(context)).map(|(name, _)| name).collect();
    let who = match (pod, names.is_empty()) {
        (false, true) => return None,
        (true, true) => "pod".to_owned(),
        (true, false) => format!("pod and {}", named("container", &names)),
        (false, false) => named("container", &names),
    };
    bad.dedup();
    Some(format!("seLinuxOptions ({who} set forbidden securityContext.seLinuxOptions: {})", bad.join("; ")))
}

fn seccomp_baseline(spec: &Value) -> Option<String> {
    let bad = |context: &Value| text(child(context, "seccompProfile"), "type") == "Unconfined";
    let sentence = "must not set securityContext.seccompProfile.type to \"Unconfined\"";
    if bad(child(spec, "securityContext")) {
        return Some(format!("seccompProfile (pod {sentence})"));
    }
    offenders(spec, "seccompProfile", sentence, bad)
}

fn sysctls(spec: &Value) -> Option<String> {
    const SAFE: &[&str] = &[
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    ];
    let set = list(child(spec, "securityContext"), "sysctls");
    let bad: Vec<&str> =
        set.iter().map(|sysctl| text(sysctl, "name")).filter(|name| !SAFE.contains(name)).collect();
    (!bad.is_empty()).then(|| format!("forbidden sysctls ({})", bad.join(", ")))
}

fn windows_host_process(spec: &Value) -> Option<String> {
    let bad = |context: &Value| flag(child(context, "windowsOptions"), "hostProcess");
    let sentence = "must not set securityContext.windowsOptions.hostProcess=true";
    if bad(child(spec, "securityContext")) {
        return Some(format!("hostProcess (pod {sentence})"));
    }
    offenders(spec, "hostProcess", sentence, bad)
}

/// Rules about Linux don't bind a pod for Windows.
fn for_windows(spec: &Value) -> bool {
    at(spec, "/os/name") == "windows"
}

fn allow_privilege_escalation(spec: &Value) -> Option<String> {
    if for_windows(spec) {
        return None;
    }
    let sentence = "must set securityContext.allowPrivilegeEscalation=false";
    offenders(spec, "allowPrivilegeEscalation != false", sentence, |context| {
        opt_flag(context, "allowPrivilegeEscalation") != Some(false)
    })
}

fn capabilities_restricted(spec: &Value) -> Option<String> {
    if for_windows(spec) {
        return None;
    }
    let (mut undropped, mut adding) = (Vec::new(), Vec::new());
    let mut added = std::collections::BTreeSet::new();
    for (name, context) in contexts(spec) {
        let capabilities = child(context, "capabilities");
        if !texts(capabilities, "drop").contains(&"ALL") {
            undropped.push(name);
        }
        let forbidden: Vec<&str> =
            texts(capabilities, "add").into_iter().filter(|c| *c != "NET_BIND_SERVICE").collect();
        if !forbidden.is_empty() {
            adding.push(name);
            added.extend(forbidden);
        }
    }
    let mut parts = Vec::new();
    if !undropped.is_empty() {
        parts.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            named("container", &undropped)
        ));
    }
    if !adding.is_empty() {
        let quoted: Vec<String> = added.iter().map(|capability| format!("{capability:?}")).collect();
        let who = named("container", &adding);
        parts.push(format!(
            "{who} must not include {} in securityContext.capabilities.add",
            quoted.join(", ")
        ));
    }
    (!parts.is_empty()).then(|| format!("unrestricted capabilities ({})", parts.join("; ")))
}

fn restricted_volumes(spec: &Value) -> Option<String> {
    const ALLOWED: &[&str] = &[
        "name",
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
        "image",
    ];
    let (mut names, mut kinds) = (Vec::new(), std::collections::BTreeSet::new());
    for volume in list(spec, "volumes") {
        let source = volume
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .find(|name| !ALLOWED.contains(name));
        if let Some(kind) = source {
            names.push(text(volume, "name"));
            kinds.insert(kind);
        }
    }
    let quoted: Vec<String> = kinds.iter().map(|kind| format!("{kind:?}")).collect();
    let (verb, noun) =
        (if names.len() == 1 { "uses" } else { "use" }, if kinds.len() == 1 { "type" } else { "types" });
    (!names.is_empty()).then(|| {
        format!(
            "restricted volume types ({} {verb} restricted volume {noun} {})",
            named("volume", &names),
            quoted.join(", ")
        )
    })
}

fn run_as_non_root(spec: &Value) -> Option<String> {
    let pod = opt_flag(child(spec, "securityContext"), "runAsNonRoot");
    let what = "runAsNonRoot != true";
    let explicit: Vec<&str> = contexts(spec)
        .into_iter()
        .filter(|(_, c)| opt_flag(c, "runAsNonRoot") == Some(false))
        .map(|(name, _)| name)
        .collect();
    let mut parts = Vec::new();
    if pod == Some(false) {
        parts.push("pod must not set securityContext.runAsNonRoot=false".to_owned());
    }
    if !explicit.is_empty() {
        parts.push(format!(
            "{} must not set securityContext.runAsNonRoot=false",
            named("container", &explicit)
        ));
    }
    if !parts.is_empty() {
        return Some(format!("{what} ({})", parts.join("; ")));
    }
    let silent: Vec<&str> = contexts(spec)
        .into_iter()
        .filter(|(_, c)| opt_flag(c, "runAsNonRoot").is_none())
        .map(|(name, _)| name)
        .collect();
    (pod.is_none() && !silent.is_empty()).then(|| {
        format!("{what} (pod or {} must set securityContext.runAsNonRoot=true)", named("container", &silent))
    })
}

fn run_as_user(spec: &Value) -> Option<String> {
    let root = |context: &Value| context.get("runAsUser").and_then(Value::as_i64) == Some(0);
    let mut who = Vec::new();
    if root(child(spec, "securityContext")) {
        who.push("pod".to_owned());
    }
    let names: Vec<&str> =
        contexts(spec).into_iter().filter(|(_, context)| root(context)).map(|(name, _)| name).collect();
    if !names.is_empty() {
        who.push(named("container", &names));
    }
    (!who.is_empty()).then(|| format!("runAsUser=0 ({} must not set runAsUser=0)", who.join(" and ")))
}

fn seccomp_restricted(spec: &Value) -> Option<String> {
    if for_windows(spec) {
        return None;
    }
    let kind = |context: &Value| text(child(context, "seccompProfile"), "type").to_owned();
    let good = |kind: &str| matches!(kind, "RuntimeDefault" | "Localhost");
    let pod = kind(child(spec, "securityContext"));
    if !pod.is_empty() && !good(&pod) {
        return Some(format!(
            "seccompProfile (pod must not set securityContext.seccompProfile.type to {pod:?})"
        ));
    }
    let bad = |context: &Value| !kind(context).is_empty() && !good(&kind(context));
    if let Some(told) = offenders(
        spec,
        "seccompProfile",
        "must not set securityContext.seccompProfile.type to \"Unconfined\"",
        bad,
    ) {
        return Some(told);
    }
    let silent: Vec<&str> = contexts(spec)
        .into_iter()
        .filter(|(_, context)| kind(context).is_empty())
        .map(|(name, _)| name)
        .collect();
    (pod.is_empty() && !silent.is_empty()).then(|| {
        let who = named("container", &silent);
        format!("seccompProfile (pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")")
    })
}
