//! /etc/hosts: the file that every container of a pod shares.
//!
//! *Step 5 of a pod's journey.* Before: the sandbox has an address. After: the file is mounted into each container.
//!
//! # Invariants
//! 1. A pod finds its own hostname without DNS.
//!
//! # In Kubernetes
//! `managedHostsFileContent`, `nodeHostsFileContent` and `hostsEntriesFromHostAliases` in `pkg/kubelet/kubelet_pods.go`.

use k8s_openapi::api::core::v1::Pod;

use crate::pod::PodExt;

/// The content for a pod with a network of its own; `domain` is empty for a pod without subdomain.
pub fn managed_hosts_file(pod: &Pod, ips: &[String], hostname: &str, domain: &str) -> String {
    let mut text = String::from(concat!(
        "# Kubernetes-managed hosts file.\n",
        "127.0.0.1\tlocalhost\n",
        "::1\tlocalhost ip6-localhost ip6-loopback\n",
        "fe00::0\tip6-localnet\n",
        "fe00::0\tip6-mcastprefix\n",
        "fe00::1\tip6-allnodes\n",
        "fe00::2\tip6-allrouters\n",
    ));
    for ip in ips {
        match domain {
            "" => text.push_str(&format!("{ip}\t{hostname}\n")),
            domain => text.push_str(&format!("{ip}\t{hostname}.{domain}\t{hostname}\n")),
        }
    }
    text.push_str(&host_aliases(pod));
    text
}

/// The content for a pod on the host's network: the node's file, marked.
pub fn node_hosts_file(pod: &Pod, node_file: &str) -> String {
    format!("# Kubernetes-managed hosts file (host network).\n{node_file}{}", host_aliases(pod))
}

fn host_aliases(pod: &Pod) -> String {
    let aliases = pod.spec_ref().host_aliases.as_deref().unwrap_or_default();
    if aliases.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n# Entries added by HostAliases.\n");
    for a in aliases {
        let names = a.hostnames.as_deref().unwrap_or_default();
        text.push_str(&format!("{}\t{}\n", a.ip, names.join("\t")));
    }
    text
}

/// The pod's hostname and DNS domain (empty without subdomain).
pub fn hostname_and_domain(pod: &Pod, cluster_domain: &str) -> (String, String) {
    let spec = pod.spec_ref();
    let wanted = spec.hostname.as_deref().filter(|h| !h.is_empty()).unwrap_or(pod.pod_name());
    // A hostname has at most 63 characters; what is cut must not end in a separator.
    let cut: String = wanted.chars().take(63).collect();
    let hostname = cut.trim_end_matches(['-', '.']).to_owned();
    let domain = match spec.subdomain.as_deref().filter(|s| !s.is_empty()) {
        Some(sub) => format!("{sub}.{}.svc.{cluster_domain}", pod.pod_namespace()),
        None => String::new(),
    };
    if spec.set_hostname_as_fqdn == Some(true) && !domain.is_empty() {
        return (format!("{hostname}.{domain}"), domain);
    }
    (hostname, domain)
}
