//! The containers of a pod or of a pod template.
//!
//! # In Kubernetes
//! `describeContainers` and `DescribeProbe` in `kubectl/pkg/describe/describe.go`. Left out: container resize status.

use serde_json::Value;

use super::access::{flag, joined, list, number, or_none, pairs, scalar, text, title_bool};
use super::doc::Doc;
use super::pod::write_resources;
use crate::quantity::Quantity;

/// What `fieldRef` and `resourceFieldRef` resolve to: a pod knows, a template doesn't.
pub struct Field<'a>(Option<&'a Value>);

impl<'a> Field<'a> {
    /// Values of this pod.
    pub fn of_pod(pod: &'a Value) -> Self {
        Self(Some(pod))
    }

    /// No values: a template has none yet.
    pub fn unknown() -> Self {
        Self(None)
    }

    fn value(&self, path: &str) -> String {
        let Some(pod) = self.0 else { return String::new() };
        if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
            let pairs = pairs(pod, &format!("/{}", map.replace('.', "/")));
            return pairs
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| scalar(Some(value)))
                .unwrap_or_default();
        }
        scalar(pod.pointer(&format!("/{}", path.replace('.', "/"))))
    }
}

/// Writes the block `label:` with its containers; `space` is what a template's block is indented by.
pub fn write_containers(
    doc: &mut Doc,
    space: &str,
    label: &str,
    containers: &[Value],
    statuses: &[Value],
    field: &Field<'_>,
) {
    doc.line(0, &format!("{space}{label}:{}", if containers.is_empty() { " <none>" } else { "" }));
    for container in containers {
        let name = text(container, "/name");
        let status = statuses.iter().find(|status| text(status, "/name") == name);
        doc.line(1, &format!("{}{name}:", if space.is_empty() { "" } else { " " }));
        write_basics(doc, container, status);
        write_words(doc, "Command", list(container, "/command"));
        write_words(doc, "Args", list(container, "/args"));
        if let Some(status) = status {
            write_status(doc, status);
        }
        write_resources(doc, 2, "Limits", container, "/resources/limits");
        write_resources(doc, 2, "Requests", container, "/resources/requests");
        for (title, pointer) in
            [("Liveness", "/livenessProbe"), ("Readiness", "/readinessProbe"), ("Startup", "/startupProbe")]
        {
            if let Some(probe) = container.pointer(pointer) {
                doc.field(2, title, &probe_text(probe));
            }
        }
        write_environment(doc, container, field);
        write_mounts(doc, container);
    }
}

fn write_basics(doc: &mut Doc, container: &Value, status: Option<&Value>) {
    if let Some(status) = status {
        doc.field(2, "Container ID", text(status, "/containerID"));
    }
    doc.field(2, "Image", text(container, "/image"));
    if let Some(status) = status {
        doc.field(2, "Image ID", text(status, "/imageID"));
    }
    for (title, pointer) in [("Port", "/containerPort"), ("Host Port", "/hostPort")] {
        let ports: Vec<String> = list(container, "/ports")
            .iter()
            .map(|port| {
                let protocol = or_default(text(port, "/protocol"), "TCP");
                format!("{}/{protocol}", number(port, pointer))
            })
            .collect();
        let plural = if ports.len() > 1 { "s" } else { "" };
        doc.field(2, &format!("{title}{plural}"), or_none(&ports.join(", ")));
    }
}

fn or_default<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

fn write_words(doc: &mut Doc, title: &str, words: &[Value]) {
    if words.is_empty() {
        return;
    }
    doc.line(2, &format!("{title}:"));
    for line in words.iter().filter_map(Value::as_str).flat_map(|word| word.split('\n')) {
        doc.line(3, line);
    }
}

fn write_status(doc: &mut Doc, status: &Value) {
    write_state(doc, "State", status.pointer("/state").unwrap_or(&Value::Null));
    if let Some(last) = status.pointer("/lastState").filter(|last| last.get("terminated").is_some()) {
        write_state(doc, "Last State", last);
    }
    doc.field(2, "Ready", title_bool(flag(status, "/ready")));
    doc.field(2, "Restart Count", &number(status, "/restartCount").to_string());
}

fn write_state(doc: &mut Doc, title: &str, state: &Value) {
    if let Some(running) = state.get("running") {
        doc.field(2, title, "Running");
        doc.field(3, "Started", &doc.time(running.get("startedAt")));
    } else if let Some(terminated) = state.get("terminated") {
        doc.field(2, title, "Terminated");
        for (title, pointer) in [("Reason", "/reason"), ("Message", "/message")] {
            if !text(terminated, pointer).is_empty() {
                doc.field(3, title, text(terminated, pointer));
            }
        }
        doc.field(3, "Exit Code", &number(terminated, "/exitCode").to_string());
        if number(terminated, "/signal") > 0 {
            doc.field(3, "Signal", &number(terminated, "/signal").to_string());
        }
        doc.field(3, "Started", &doc.time(terminated.get("startedAt")));
        doc.field(3, "Finished", &doc.time(terminated.get("finishedAt")));
    } else {
        doc.field(2, title, "Waiting");
        let reason = text(state, "/waiting/reason");
        if !reason.is_empty() {
            doc.field(3, "Reason", reason);
        }
    }
}

/// A probe on one line.
pub fn probe_text(probe: &Value) -> String {
    let attributes = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        number(probe, "/initialDelaySeconds"),
        number(probe, "/timeoutSeconds"),
        number(probe, "/periodSeconds"),
        number(probe, "/successThreshold"),
        number(probe, "/failureThreshold")
    );
    if let Some(exec) = probe.get("exec") {
        return format!("exec [{}] {attributes}", joined(list(exec, "/command"), " "));
    }
    if let Some(http) = probe.get("httpGet") {
        let (scheme, host, path) =
            (text(http, "/scheme").to_lowercase(), text(http, "/host"), text(http, "/path"));
        let port = scalar(http.get("port"));
        let slash = if path.starts_with('/') || path.is_empty() { "" } else { "/" };
        return format!("http-get {scheme}://{host}:{port}{slash}{path} {attributes}");
    }
    if let Some(tcp) = probe.get("tcpSocket") {
        return format!("tcp-socket {}:{} {attributes}", text(tcp, "/host"), scalar(tcp.get("port")));
    }
    if let Some(grpc) = probe.get("grpc") {
        return format!("grpc <pod>:{} {} {attributes}", number(grpc, "/port"), text(grpc, "/service"));
    }
    format!("unknown {attributes}")
}

fn write_environment(doc: &mut Doc, container: &Value, field: &Field<'_>) {
    let from = list(container, "/envFrom");
    if !from.is_empty() {
        doc.line(2, "Environment Variables from:");
        for source in from {
            let (kind, reference) = match (source.get("configMapRef"), source.get("secretRef")) {
                (Some(reference), _) => ("ConfigMap", reference),
                (None, Some(reference)) => ("Secret", reference),
                (None, None) => continue,
            };
            let prefix = text(source, "/prefix");
            let with = if prefix.is_empty() { String::new() } else { format!(" with prefix '{prefix}'") };
            doc.line(
                3,
                &format!(
                    "{}\t{kind}{with}\tOptional: {}",
                    text(reference, "/name"),
                    flag(reference, "/optional")
                ),
            );
        }
    }
    let env = list(container, "/env");
    doc.line(2, if env.is_empty() { "Environment:\t<none>" } else { "Environment:" });
    for variable in env {
        let name = text(variable, "/name");
        match variable.get("valueFrom") {
            None => {
                for (at, line) in text(variable, "/value").split('\n').enumerate() {
                    doc.line(3, &if at == 0 { format!("{name}:\t{line}") } else { format!("\t{line}") });
                }
            }
            Some(from) => doc.line(3, &format!("{name}:\t{}", source_text(from, container, field))),
        }
    }
}

/// Where a variable's value comes from, and what it is where that can be known.
fn source_text(from: &Value, container: &Value, field: &Field<'_>) -> String {
    if let Some(reference) = from.get("fieldRef") {
        let path = text(reference, "/fieldPath");
        let version = or_default(text(reference, "/apiVersion"), "v1");
        return format!("{} ({version}:{path})", field.value(path));
    }
    if let Some(reference) = from.get("resourceFieldRef") {
        let resource = text(reference, "/resource");
        let (list, name) = resource.split_once('.').unwrap_or((resource, ""));
        let quantity = scalar(container.pointer(&format!("/resources/{list}/{}", name.replace('/', "~1"))));
        let shown = match (quantity.as_str(), resource) {
            ("", "limits.cpu" | "limits.memory") => "node allocatable",
            ("", _) => "0",
            (quantity, _) => quantity,
        };
        let divisor = scalar(reference.get("divisor"));
        return format!("{} ({resource})", in_units(shown, &divisor));
    }
    let optional = |reference: &Value| format!("Optional: {}", flag(reference, "/optional"));
    if let Some(reference) = from.get("secretKeyRef") {
        let (key, name) = (text(reference, "/key"), text(reference, "/name"));
        return format!("<set to the key '{key}' in secret '{name}'>\t{}", optional(reference));
    }
    let reference = from.get("configMapKeyRef").unwrap_or(&Value::Null);
    let (key, name) = (text(reference, "/key"), text(reference, "/name"));
    format!("<set to the key '{key}' of config map '{name}'>\t{}", optional(reference))
}

/// A quantity in units of a divisor, rounded up; by default in whole ones.
fn in_units(quantity: &str, divisor: &str) -> String {
    let divisor = match divisor {
        "" | "0" => "1",
        given => given,
    };
    let milli = |text: &str| Quantity::parse(text).map(|quantity| i128::from(quantity.milli_value()));
    match (milli(quantity), milli(divisor)) {
        (Ok(of), Ok(by)) if by > 0 => ((of + by - 1) / by).to_string(),
        _ => quantity.to_owned(),
    }
}

fn write_mounts(doc: &mut Doc, container: &Value) {
    let mut mounts: Vec<&Value> = list(container, "/volumeMounts").iter().collect();
    mounts.sort_by_key(|mount| text(mount, "/mountPath"));
    doc.line(2, if mounts.is_empty() { "Mounts:\t<none>" } else { "Mounts:" });
    for mount in mounts {
        let access = if flag(mount, "/readOnly") { "ro" } else { "rw" };
        let sub_path = match text(mount, "/subPath") {
            "" => String::new(),
            path => format!(",path=\"{path}\""),
        };
        doc.line(
            3,
            &format!("{} from {} ({access}{sub_path})", text(mount, "/mountPath"), text(mount, "/name")),
        );
    }
    let devices = list(container, "/volumeDevices");
    if !devices.is_empty() {
        doc.line(2, "Devices:");
        for device in devices {
            doc.line(3, &format!("{} from {}", text(device, "/devicePath"), text(device, "/name")));
        }
    }
}
