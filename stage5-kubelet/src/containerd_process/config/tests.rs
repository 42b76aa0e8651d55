use super::*;

fn layout() -> Layout {
    Layout {
        node_name: "node-1".to_owned(),
        unique_name: "six0-node-1".to_owned(),
        root: PathBuf::from("/state/nodes/node-1"),
        run: PathBuf::from("/run/six-stages-0/node-1"),
    }
}

fn machine(sys_resource: bool) -> Machine {
    Machine {
        runc: PathBuf::from("/usr/sbin/runc"),
        cni_bin_dir: PathBuf::from("/usr/lib/cni"),
        sys_resource,
        snapshotter: "overlayfs",
    }
}

#[test]
fn oom_scores_are_clamped_only_where_they_cannot_be_lowered() {
    assert!(layout().config_toml(&machine(false)).contains("restrict_oom_score_adj = true"));
    assert!(layout().config_toml(&machine(true)).contains("restrict_oom_score_adj = false"));
}

#[test]
fn capabilities_are_read_from_the_status_file() {
    let status = "Name:\tx\nCapEff:\t000001fffeffffff\n";
    assert_eq!(effective_capabilities(status) & CAP_SYS_RESOURCE, 0);
    let all = "CapEff:\t000001ffffffffff\n";
    assert_ne!(effective_capabilities(all) & CAP_SYS_RESOURCE, 0);
}

#[test]
fn the_pod_network_is_named_after_cluster_and_node_and_turns_hairpins() {
    let conflist = layout().cni_conflist("10.244.3.0/24".parse().unwrap());
    let value: serde_json::Value = serde_json::from_str(&conflist).unwrap();
    assert_eq!(value["name"], "six0-node-1");
    assert_eq!(value["plugins"][0]["hairpinMode"], true);
    assert_eq!(value["plugins"][0]["ipMasq"], false);
    assert_eq!(value["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.244.3.0/24");
}
