//! DNS: the pod's resolv.conf.
//!
//! *Step 5 of a pod's journey.* Before: `dnsPolicy`, `dnsConfig`, the node's own resolv.conf and the cluster's DNS address. After: the
//! runtime writes the file into the sandbox.
//!
//! `ClusterFirst` asks the cluster's DNS and completes short names with the namespace's domains; `ndots:5` makes the resolver try
//! those before it takes a name literally.
//!
//! # Invariants
//! 1. At most three name servers and 32 search domains: more are ignored by resolvers, so they are cut, with an event.
//! 2. A pod on the host's network gets the node's file, unless it asks for `ClusterFirstWithHostNet`.
//!
//! # In Kubernetes
//! `pkg/kubelet/network/dns/dns.go`. Left out: dual-stack ordering of the cluster's addresses.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

use crate::cri::DnsConfig;
use crate::pod::PodExt;

/// Resolvers read no more `nameserver` lines.
pub const MAX_DNS_NAMESERVERS: usize = 3;
/// Resolvers read no more search domains.
pub const MAX_DNS_SEARCH_PATHS: usize = 32;
/// Nor a longer line.
pub const MAX_DNS_SEARCH_LIST_CHARS: usize = 2048;

/// What a node knows about DNS.
#[derive(Clone, Debug, Default)]
pub struct NodeDns {
    /// `--cluster-dns`
    pub cluster_dns: Vec<IpAddr>,
    /// `--cluster-domain`
    pub cluster_domain: String,
    /// The node's resolv.conf.
    pub host: DnsConfig,
}

/// Reads the lines of a resolv.conf.
pub fn parse_resolv_conf(text: &str) -> DnsConfig {
    let mut dns = DnsConfig::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.servers.extend(words.next().map(str::to_owned)),
            Some("search") => dns.searches = words.map(|w| w.trim_end_matches('.').to_owned()).collect(),
            Some("options") => dns.options.extend(words.map(str::to_owned)),
            _ => {}
        }
    }
    dns
}

/// The pod's DNS configuration, and the messages of `DNSConfigForming` events.
pub fn pod_dns(pod: &Pod, node: &NodeDns) -> (DnsConfig, Vec<String>) {
    let spec = pod.spec_ref();
    let policy = spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
    let cluster = match policy {
        "ClusterFirstWithHostNet" => true,
        "ClusterFirst" => !pod.host_network(),
        _ => false,
    };
    let mut dns = match policy {
        "None" => DnsConfig::default(),
        _ if cluster && !node.cluster_dns.is_empty() => {
            let (ns, domain) = (pod.pod_namespace(), &node.cluster_domain);
            let mut searches = vec![format!("{ns}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
            searches.extend(node.host.searches.iter().cloned());
            DnsConfig {
                servers: node.cluster_dns.iter().map(ToString::to_string).collect(),
                searches: unique(searches),
                options: vec!["ndots:5".to_owned()],
            }
        }
        _ => node.host.clone(),
    };
    if let Some(custom) = &spec.dns_config {
        dns.servers.extend(custom.nameservers.iter().flatten().cloned());
        dns.servers = unique(std::mem::take(&mut dns.servers));
        dns.searches.extend(custom.searches.iter().flatten().cloned());
        dns.searches = unique(std::mem::take(&mut dns.searches));
        let wanted = custom.options.iter().flatten();
        let wanted = wanted.map(|o| (o.name.clone().unwrap_or_default(), o.value.clone()));
        dns.options = merge_options(&dns.options, wanted);
    }
    let events = cut(&mut dns);
    (dns, events)
}

fn unique(list: Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    for x in list {
        if !seen.contains(&x) {
            seen.push(x);
        }
    }
    seen
}

/// Options by name, the pod's over the existing ones.
fn merge_options(existing: &[String], wanted: impl Iterator<Item = (String, Option<String>)>) -> Vec<String> {
    let mut merged: Vec<(String, Option<String>)> = existing
        .iter()
        .map(|o| match o.split_once(':') {
            Some((n, v)) => (n.to_owned(), Some(v.to_owned())),
            None => (o.clone(), None),
        })
        .collect();
    for (name, value) in wanted.filter(|(n, _)| !n.is_empty()) {
        match merged.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = value,
            None => merged.push((name, value)),
        }
    }
    let text = |(n, v): (String, Option<String>)| match v.filter(|v| !v.is_empty()) {
        Some(v) => format!("{n}:{v}"),
        None => n,
    };
    merged.into_iter().map(text).collect()
}

fn cut(dns: &mut DnsConfig) -> Vec<String> {
    let mut events = Vec::new();
    let chars = |s: &[String]| s.iter().map(String::len).sum::<usize>() + s.len().saturating_sub(1);
    if dns.searches.len() > MAX_DNS_SEARCH_PATHS || chars(&dns.searches) > MAX_DNS_SEARCH_LIST_CHARS {
        dns.searches.truncate(MAX_DNS_SEARCH_PATHS);
        while chars(&dns.searches) > MAX_DNS_SEARCH_LIST_CHARS {
            dns.searches.pop();
        }
        events.push(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            dns.searches.join(" ")
        ));
    }
    if dns.servers.len() > MAX_DNS_NAMESERVERS {
        dns.servers.truncate(MAX_DNS_NAMESERVERS);
        events.push(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            dns.servers.join(" ")
        ));
    }
    events
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> NodeDns {
        NodeDns {
            cluster_dns: vec!["10.96.0.10".parse().unwrap()],
            cluster_domain: "cluster.local".to_owned(),
            host: parse_resolv_conf("search example.test\nnameserver 10.210.0.1\noptions timeout:1\n"),
        }
    }

    fn dns(spec: serde_json::Value) -> (DnsConfig, Vec<String>) {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}))
                .unwrap();
        pod_dns(&pod, &node())
    }

    #[test]
    fn cluster_first_merges_the_pods_own_settings() {
        let (d, events) = dns(
            json!({"containers": [], "dnsConfig": {"nameservers": ["9.9.9.9"], "searches": ["extra.test"],
            "options": [{"name": "ndots", "value": "3"}, {"name": "timeout", "value": "2"}]}}),
        );
        assert_eq!(
            d.searches.join(" "),
            "ns.svc.cluster.local svc.cluster.local cluster.local example.test extra.test"
        );
        assert_eq!(d.servers.join(" "), "10.96.0.10 9.9.9.9");
        assert_eq!(d.options.join(" "), "ndots:3 timeout:2");
        assert!(events.is_empty());
    }

    #[test]
    fn host_network_pods_use_the_nodes_file() {
        let (d, _) = dns(json!({"containers": [], "hostNetwork": true}));
        assert_eq!(d, node().host);
    }

    #[test]
    fn a_fourth_name_server_is_cut_and_told() {
        let (d, events) =
            dns(json!({"containers": [], "dnsConfig": {"nameservers": ["9.9.9.1", "9.9.9.2", "9.9.9.3"]}}));
        assert_eq!(d.servers.len(), 3);
        assert_eq!(
            events,
            [
                "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 10.96.0.10 9.9.9.1 9.9.9.2"
            ]
        );
    }
}
