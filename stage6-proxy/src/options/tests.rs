use std::io::Write as _;

use super::*;

fn flags(arguments: &[&str]) -> ProxyFlags {
    ProxyFlags::parse_from(["kube-proxy"].iter().chain(arguments))
}

fn with_file(text: &str, arguments: &[&str]) -> Result<Config, OptionsError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    Config::new(&flags(&[arguments, &["--config", path]].concat()), DEFAULT_CLUSTER_CIDR, "host")
}

#[test]
fn flags_alone_give_a_working_configuration() {
    let config = Config::new(
        &flags(&["--proxy-mode", "iptables", "--hostname-override", "Node-1"]),
        DEFAULT_CLUSTER_CIDR,
        "host",
    )
    .unwrap();
    assert_eq!((config.mode, config.node_name.as_str()), (Some(ProxyMode::Iptables), "node-1"));
    assert_eq!(config.local_detector, LocalDetector::ClusterCidr("10.244.0.0/16".parse().unwrap()));
}

#[test]
fn a_kubeadm_configuration_is_read() {
    let config = with_file(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: 10.1.0.0/16\n\
         mode: nftables\nnodePortAddresses: null\nhealthzBindAddress: 127.0.0.1\n\
         clientConnection:\n  kubeconfig: /k\niptables:\n  masqueradeAll: true\n  minSyncPeriod: 2s\n",
        &[],
    )
    .unwrap();
    assert_eq!(config.mode, Some(ProxyMode::Nftables));
    assert_eq!(config.local_detector, LocalDetector::ClusterCidr("10.1.0.0/16".parse().unwrap()));
    assert_eq!(config.healthz_bind_address, Some(SocketAddr::from(([127, 0, 0, 1], 10256))));
    assert_eq!(config.kubeconfig, Some(PathBuf::from("/k")));
    assert!(config.masquerade_all && config.min_sync_period == Duration::from_secs(2));
}

#[test]
fn what_makes_no_sense_is_named() {
    let wrong = with_file("kind: KubeProxyConfiguration\nmode: ipvs\n", &[]).unwrap_err();
    assert_eq!(wrong.to_string(), "invalid mode \"ipvs\"");
    let other = with_file("kind: Pod\n", &[]).unwrap_err();
    assert!(other.to_string().contains("not KubeProxyConfiguration"), "{other}");
    assert!(Config::new(&flags(&["--nodeport-addresses", "x"]), DEFAULT_CLUSTER_CIDR, "host").is_err());
}
