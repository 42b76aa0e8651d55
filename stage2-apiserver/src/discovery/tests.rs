use super::*;

#[test]
fn hashes_are_those_of_a_real_cluster() {
    assert_eq!(storage_version_hash("", "v1", "ConfigMap"), "qFsyl6wFWjQ=");
    assert_eq!(storage_version_hash("", "v1", "Node"), "XwShjMxG9Fs=");
}

#[test]
fn old_and_new_clients_get_their_generation() {
    let kubectl_132 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    assert_eq!(generation(Some(kubectl_132)), Generation::Aggregated("v2"));
    assert_eq!(generation(Some("application/json, */*")), Generation::Legacy);
    assert_eq!(generation(None), Generation::Legacy);
}

#[test]
fn unknown_groups_have_no_document() {
    assert!(api_group(&Catalog::default(), "nope").is_none());
    assert!(api_resource_list(&Catalog::default(), "apps", "v9").is_none());
}
