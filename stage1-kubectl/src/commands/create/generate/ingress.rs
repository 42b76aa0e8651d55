//! `create ingress`: rules as text, `host/path=service:port,tls=secret`.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/create/create_ingress.go`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Common, object};
use crate::failure::Failure;

/// Flags of `kubectl create ingress`.
#[derive(Debug, Args)]
pub struct IngressArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// Rule in format host/path=service:port[,tls=secretname].
    #[arg(long)]
    pub rule: Vec<String>,
    /// Default service for backend, in format of svcname:port.
    #[arg(long)]
    pub default_backend: Option<String>,
    /// Ingress Class to be used.
    #[arg(long)]
    pub class: Option<String>,
    /// Annotation to insert in the ingress object, in the format annotation=value.
    #[arg(long)]
    pub annotation: Vec<String>,
}

/// One rule as it was written.
struct Rule<'a> {
    host: &'a str,
    path: &'a str,
    service: &'a str,
    port: &'a str,
    /// The certificate's Secret, perhaps unnamed.
    tls: Option<&'a str>,
}

fn parse(text: &str) -> Result<Rule<'_>, Failure> {
    let why = "is invalid and should be in format host/path=svcname:svcport[,tls[=secret]]";
    let wrong = || Failure::message(format!("rule {text} {why}"));
    let (address, backend) = text.split_once('=').ok_or_else(wrong)?;
    let (backend, tls) =
        backend.split_once(',').map_or((backend, None), |(backend, tls)| (backend, Some(tls)));
    let (service, port) =
        backend.split_once(':').filter(|(s, p)| !s.is_empty() && !p.is_empty()).ok_or_else(wrong)?;
    let (host, path) = match address.find('/') {
        Some(at) => address.split_at(at),
        None => (address, ""),
    };
    let tls = match tls {
        None => None,
        Some("tls") => Some(""),
        Some(named) => Some(named.strip_prefix("tls=").ok_or_else(wrong)?),
    };
    Ok(Rule { host, path, service, port, tls })
}

fn backend(service: &str, port: &str) -> Value {
    let port = match port.parse::<i32>() {
        Ok(number) => json!({"number": number}),
        Err(_) => json!({"name": port}),
    };
    json!({"service": {"name": service, "port": port}})
}

/// An Ingress; rules of one host become one.
///
/// # Errors
/// A rule, backend or annotation that is none, or nothing at all.
pub fn ingress(args: &IngressArgs) -> Result<Value, Failure> {
    let name = args.common.name("ingress")?;
    if args.rule.is_empty() && args.default_backend.is_none() {
        return Err(Failure::message(
            "not enough information provided: every ingress has to either specify a default-backend (which catches all traffic) or a list of rules (which catch specific paths)",
        ));
    }
    let parsed = args.rule.iter().map(|rule| parse(rule)).collect::<Result<Vec<_>, _>>()?;
    let mut ingress = object("networking.k8s.io/v1", "Ingress", name);
    let mut annotations = Map::new();
    for annotation in &args.annotation {
        let why = || {
            Failure::message(format!(
                "annotation {annotation} is invalid and should be in format key=[value]"
            ))
        };
        let (key, value) = annotation.split_once('=').ok_or_else(why)?;
        annotations.insert(key.to_string(), value.into());
    }
    if !annotations.is_empty() {
        ingress["metadata"]["annotations"] = annotations.into();
    }
    let mut spec = Map::new();
    if let Some(text) = &args.default_backend {
        let wrong = || Failure::message("default-backend should be in format servicename:serviceport");
        let (service, port) =
            text.split_once(':').filter(|(s, p)| !s.is_empty() && !p.is_empty()).ok_or_else(wrong)?;
        spec.insert("defaultBackend".into(), backend(service, port));
    }
    if let Some(class) = &args.class {
        spec.insert("ingressClassName".into(), class.clone().into());
    }
    for (field, list) in [("rules", rules(&parsed)), ("tls", tls(&parsed))] {
        if !list.is_empty() {
            spec.insert(field.into(), list.into());
        }
    }
    (ingress["spec"], ingress["status"]) = (spec.into(), json!({"loadBalancer": {}}));
    Ok(ingress)
}

/// A rule a host, in the order in which the hosts came.
fn rules(parsed: &[Rule<'_>]) -> Vec<Value> {
    let mut hosts: Vec<(&str, Vec<Value>)> = Vec::new();
    for rule in parsed {
        let (path, path_type) = match rule.path.strip_suffix('*') {
            Some(prefix) => (prefix, "Prefix"),
            None => (rule.path, "Exact"),
        };
        let mut entry = json!({"backend": backend(rule.service, rule.port), "pathType": path_type});
        if !path.is_empty() {
            entry["path"] = path.into();
        }
        match hosts.iter_mut().find(|(host, _)| *host == rule.host) {
            Some((_, paths)) => paths.push(entry),
            None => hosts.push((rule.host, vec![entry])),
        }
    }
    let rule = |(host, paths): (&str, Vec<Value>)| {
        let mut rule = json!({"http": {"paths": paths}});
        if !host.is_empty() {
            rule["host"] = host.into();
        }
        rule
    };
    hosts.into_iter().map(rule).collect()
}

/// A certificate a host; the first rule of a host names it.
fn tls(parsed: &[Rule<'_>]) -> Vec<Value> {
    let (mut seen, mut entries) = (Vec::new(), Vec::new());
    for rule in parsed {
        let Some(secret) = rule.tls else { continue };
        let mut entry = Map::new();
        if !rule.host.is_empty() {
            if seen.contains(&rule.host) {
                continue;
            }
            seen.push(rule.host);
            entry.insert("hosts".into(), json!([rule.host]));
        }
        if !secret.is_empty() {
            entry.insert("secretName".into(), secret.into());
        }
        entries.push(Value::Object(entry));
    }
    entries
}
