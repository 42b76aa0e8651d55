use proptest::prelude::*;

use super::*;

fn parse(method: &str, uri: &str) -> RequestInfo {
    let (path, query) = uri.split_once('?').map_or((uri, None), |(p, q)| (p, Some(q)));
    parse_request_info(method, path, &Query::parse(query))
}

fn words(method: &str, uri: &str) -> String {
    let i = parse(method, uri);
    format!(
        "{} g={} v={} ns={} r={} n={} s={}",
        i.verb, i.api_group, i.api_version, i.namespace, i.resource, i.name, i.subresource
    )
}

#[test]
fn paths_become_words() {
    assert_eq!(words("GET", "/api/v1/pods"), "list g= v=v1 ns= r=pods n= s=");
    assert_eq!(words("GET", "/api/v1/pods?watch=1"), "watch g= v=v1 ns= r=pods n= s=");
    assert_eq!(words("GET", "/api/v1/namespaces/a"), "get g= v=v1 ns=a r=namespaces n=a s=");
    assert_eq!(words("PUT", "/api/v1/namespaces/a/status"), "update g= v=v1 ns=a r=namespaces n=a s=status");
    assert_eq!(words("POST", "/api/v1/namespaces/a/pods"), "create g= v=v1 ns=a r=pods n= s=");
    assert_eq!(words("GET", "/api/v1/namespaces/a/pods/p/log"), "get g= v=v1 ns=a r=pods n=p s=log");
    assert_eq!(
        words("DELETE", "/apis/apps/v1/namespaces/a/deployments"),
        "deletecollection g=apps v=v1 ns=a r=deployments n= s="
    );
    assert_eq!(words("GET", "/api/v1/watch/namespaces/a/pods/x"), "watch g= v=v1 ns=a r=pods n=x s=");
    assert_eq!(
        words("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx"),
        "list g= v=v1 ns= r=pods n=x s="
    );
}

#[test]
fn what_is_no_resource_path_keeps_its_method() {
    for path in ["/", "/healthz", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/version"] {
        let info = parse("GET", path);
        assert!(!info.is_resource_request, "{path}");
        assert_eq!(info.verb, "get");
    }
}

#[test]
fn the_rest_of_a_proxy_path_is_kept() {
    assert_eq!(parse("GET", "/api/v1/namespaces/a/services/s:80/proxy/x/y").rest.as_deref(), Some("x/y"));
}

proptest! {
    // Invariant 1, against stage 1's building of paths.
    #[test]
    fn parsing_is_the_inverse_of_building(
        group in "(|apps|batch|rbac\\.authorization\\.k8s\\.io)",
        resource in "(pods|deployments|roles|services)",
        namespace in proptest::option::of("[a-z][a-z0-9-]{0,10}"),
        name in proptest::option::of("[a-z][a-z0-9.:-]{0,10}"),
        subresource in proptest::option::of("(status|scale|log)"),
    ) {
        let gvr = stage1_kubectl::resource::GroupVersionResource { group: group.clone(), version: "v1".into(), resource: resource.clone() };
        let subresource = name.as_ref().and(subresource);
        let path = gvr.path(namespace.as_deref(), name.as_deref(), subresource.as_deref());
        let info = parse("GET", &path);
        prop_assert!(info.is_resource_request);
        prop_assert_eq!(info.api_group, group);
        prop_assert_eq!(info.resource, resource);
        prop_assert_eq!(info.namespace, namespace.unwrap_or_default());
        prop_assert_eq!(info.name, name.unwrap_or_default());
        prop_assert_eq!(info.subresource, subresource.unwrap_or_default());
    }
}
