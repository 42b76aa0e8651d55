//! Service variables: how a container finds Services without DNS.
//!
//! *Step 5 of a pod's journey.* Before: the Services that existed when the container was made. After: `WEB_SERVICE_HOST` and its kin.
//!
//! # Invariants
//! 1. `default/kubernetes` is always there, for every namespace.
//! 2. Headless Services have no variables.
//!
//! # In Kubernetes
//! `pkg/kubelet/envvars/envvars.go`, `getServiceEnvVarMap` in `kubelet_pods.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;

/// The variables of all Services that a pod in `namespace` sees.
pub fn service_variables(services: &[Service], namespace: &str, links: bool) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    // The master service first: one of the same name in the pod's own namespace replaces it.
    for own_namespace in [false, true] {
        for s in services {
            let (ns, name) = (s.metadata.namespace.as_deref(), s.metadata.name.as_deref());
            let wanted = match own_namespace {
                false => ns == Some("default") && name == Some("kubernetes"),
                true => links && ns == Some(namespace),
            };
            if wanted {
                add(&mut env, s, name.unwrap_or_default());
            }
        }
    }
    env
}

fn add(env: &mut BTreeMap<String, String>, service: &Service, name: &str) {
    let Some(spec) = &service.spec else { return };
    let Some(ip) = spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None") else { return };
    let prefix = variable_name(name);
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    env.insert(format!("{prefix}_SERVICE_HOST"), ip.to_owned());
    for (i, port) in spec.ports.iter().flatten().enumerate() {
        let number = port.port;
        if i == 0 {
            env.insert(format!("{prefix}_SERVICE_PORT"), number.to_string());
        }
        if let Some(name) = port.name.as_deref().filter(|n| !n.is_empty()) {
            env.insert(format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), number.to_string());
        }
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let url = format!("{}://{host}:{number}", protocol.to_lowercase());
        if i == 0 {
            env.insert(format!("{prefix}_PORT"), url.clone());
        }
        let link = format!("{prefix}_PORT_{number}_{}", protocol.to_uppercase());
        env.insert(format!("{link}_PROTO"), protocol.to_lowercase());
        env.insert(format!("{link}_PORT"), number.to_string());
        env.insert(format!("{link}_ADDR"), ip.to_owned());
        env.insert(link, url);
    }
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}
