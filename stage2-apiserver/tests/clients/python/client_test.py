"""The Python client's ways of reading and writing: typed, dynamic and custom objects, patches of each kind, watches, tokens."""

import datetime
import sys
import threading

import kubernetes
import yaml
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client import ApiException
from kubernetes.dynamic.exceptions import BadRequestError, ConflictError, NotFoundError

NS = "python"


def refused(code, call, text=""):
    try:
        call()
    except ApiException as error:
        assert error.status == code, (error.status, error.body)
        assert text in (error.body or error.reason), (error.reason, error.body)
        return error
    raise AssertionError(f"nothing refused with {code}")


def config_map(name, **labels):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data={"a": "1"})


def lists_and_watches(core):
    for n in range(7):
        core.create_namespaced_config_map(NS, config_map(f"m{n}", app="web", n=str(n)))
    seen, token = [], None
    while True:
        page = core.list_namespaced_config_map(NS, limit=3, _continue=token, label_selector="app=web")
        seen += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
        assert page.metadata.remaining_item_count is None, "a selector leaves the rest uncounted"
    assert seen == [f"m{n}" for n in range(7)], seen
    chosen = core.list_namespaced_config_map(NS, label_selector="app in (web),n notin (1,2),!x", field_selector="metadata.name!=m0")
    assert [item.metadata.name for item in chosen.items] == ["m3", "m4", "m5", "m6"]

    version = core.list_namespaced_config_map(NS).metadata.resource_version
    writer = threading.Thread(target=changes, args=(core,))
    writer.start()
    stream, events = watch.Watch(), []
    for event in stream.stream(core.list_namespaced_config_map, NS, resource_version=version, label_selector="app=web", timeout_seconds=20):
        events.append((event["type"], event["object"].metadata.name))
        if len(events) == 4:
            stream.stop()
    writer.join()
    assert events == [("MODIFIED", "m0"), ("DELETED", "m1"), ("DELETED", "m2"), ("ADDED", "m9")], events
    refused(410, lambda: next(watch.Watch().stream(core.list_namespaced_config_map, NS, resource_version="1")), "Expired: too old resource version: 1 (")
    bookmarks = core.list_config_map_for_all_namespaces(
        watch=True, send_initial_events=True, allow_watch_bookmarks=True, resource_version_match="NotOlderThan", timeout_seconds=1,
        _preload_content=False)
    last = bookmarks.data.decode().strip().splitlines()[-1]
    assert '"k8s.io/initial-events-end":"true"' in last, last


def changes(core):
    core.patch_namespaced_config_map("m0", NS, {"data": {"b": "2"}})
    core.delete_namespaced_config_map("m1", NS, body=client.V1DeleteOptions(preconditions=client.V1Preconditions(
        uid=core.read_namespaced_config_map("m1", NS).metadata.uid)))
    # Leaves the selector: for this watch it is gone.
    core.patch_namespaced_config_map("m2", NS, {"metadata": {"labels": {"app": None}}})
    core.create_namespaced_config_map(NS, config_map("m9", app="web"))


def writes(core, apps):
    found = core.read_namespaced_config_map("m3", NS)
    found.data["c"] = "3"
    replaced = core.replace_namespaced_config_map("m3", NS, found)
    assert replaced.data == {"a": "1", "c": "3"}
    refused(409, lambda: core.replace_namespaced_config_map("m3", NS, found), "the object has been modified")
    patched = core.patch_namespaced_config_map("m3", NS, [{"op": "remove", "path": "/data/c"}])
    assert patched.data == {"a": "1"}
    refused(422, lambda: core.create_namespaced_config_map(NS, config_map("No")), "a lowercase RFC 1123 subdomain")
    refused(409, lambda: core.create_namespaced_config_map(NS, config_map("m3")), "AlreadyExists")
    refused(404, lambda: core.read_namespaced_config_map("none", NS), '"reason":"NotFound"')
    dry = core.create_namespaced_config_map(NS, config_map("dry"), dry_run="All")
    assert dry.metadata.uid
    refused(404, lambda: core.read_namespaced_config_map("dry", NS))

    labels = {"app": "web"}
    pod = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx:1.25", ports=[client.V1ContainerPort(container_port=80)])]))
    made = apps.create_namespaced_deployment(NS, client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1DeploymentSpec(replicas=1, selector=client.V1LabelSelector(match_labels=labels), template=pod)))
    assert made.spec.strategy.type == "RollingUpdate" and made.spec.template.spec.dns_policy == "ClusterFirst"
    # A dict is a strategic merge patch: the container keeps its image.
    changed = apps.patch_namespaced_deployment("web", NS, {"spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}}}})
    container = changed.spec.template.spec.containers[0]
    assert (container.image, container.env[0].value, changed.metadata.generation) == ("nginx:1.25", "1", 2)
    scale = apps.patch_namespaced_deployment_scale("web", NS, {"spec": {"replicas": 3}})
    assert (scale.kind, scale.spec.replicas, scale.status.selector) == ("Scale", 3, "app=web")
    status = apps.patch_namespaced_deployment_status("web", NS, {"status": {"replicas": 3}, "spec": {"replicas": 9}})
    assert (status.spec.replicas, status.status.replicas) == (3, 3)
    core.delete_collection_namespaced_config_map(NS, label_selector="app=web")
    assert core.list_namespaced_config_map(NS, label_selector="app=web").items == []
    apps.delete_namespaced_deployment("web", NS, propagation_policy="Foreground")
    assert apps.read_namespaced_deployment("web", NS).metadata.finalizers == ["foregroundDeletion"]


def identity(api, core):
    core.create_namespaced_service_account(NS, {"metadata": {"name": "bot"}})
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = core.create_namespaced_service_account_token("bot", NS, request).status.token
    own = client.Configuration()
    own.host, own.ssl_ca_cert = api.configuration.host, api.configuration.ssl_ca_cert
    own.api_key = {"authorization": f"Bearer {token}"}
    bot = client.ApiClient(own)
    me = client.AuthenticationV1Api(bot).create_self_subject_review({}).status.user_info
    assert me.username == f"system:serviceaccount:{NS}:bot" and "system:serviceaccounts" in me.groups, me
    refused(403, lambda: client.CoreV1Api(bot).list_namespaced_config_map(NS), f'cannot list resource \\"configmaps\\" in API group \\"\\" in the namespace \\"{NS}\\"')
    rbac = client.RbacAuthorizationV1Api(api)
    rbac.create_namespaced_role(NS, {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]})
    rbac.create_namespaced_role_binding(NS, {"metadata": {"name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": NS}],
                                             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}})
    may = lambda verb: client.AuthorizationV1Api(bot).create_self_subject_access_review(
        {"spec": {"resourceAttributes": {"namespace": NS, "verb": verb, "resource": "configmaps"}}}).status.allowed
    for _ in range(1000):
        if may("list"):
            break
    assert may("list") and not may("delete")
    client.CoreV1Api(bot).list_namespaced_config_map(NS)
    lease = client.CoordinationV1Api(api)
    now = datetime.datetime.now(datetime.timezone.utc)
    lease.create_namespaced_lease(NS, client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=client.V1LeaseSpec(
        holder_identity="me", acquire_time=now, renew_time=now, lease_duration_seconds=15)))
    assert lease.read_namespaced_lease("l", NS).spec.renew_time == now, "microseconds are kept"


MANIFEST = f"""
apiVersion: v1
kind: Service
metadata: {{name: s, namespace: {NS}}}
spec: {{selector: {{app: web}}, ports: [{{port: 80, name: http}}]}}
---
apiVersion: v1
kind: List
items:
- {{apiVersion: v1, kind: Secret, metadata: {{name: s, namespace: {NS}}}, stringData: {{a: b}}}}
- {{apiVersion: batch/v1, kind: CronJob, metadata: {{name: c, namespace: {NS}}}, spec: {{schedule: "*/5 * * * *", jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: a}}]}}}}}}}}}}}}
"""


def dynamically(api, core):
    utils.create_from_yaml(api, yaml_objects=yaml.safe_load_all(MANIFEST))
    assert core.read_namespaced_secret("s", NS).data == {"a": "Yg=="}
    dyn = dynamic.DynamicClient(api)
    print("server", dyn.version["kubernetes"]["gitVersion"])
    services = dyn.resources.get(api_version="v1", kind="Service")
    assert services.get(name="s", namespace=NS).spec.ports[0].protocol == "TCP"
    maps = dyn.resources.get(api_version="v1", kind="ConfigMap")
    try:
        maps.create({"metadata": {"name": "x", "namespace": NS}, "dta": {}}, query_params=[("fieldValidation", "Strict")])
        raise AssertionError("an unknown field was taken")
    except BadRequestError as error:
        assert 'unknown field \\"dta\\"' in error.body, error.body
    applied = lambda value, manager, **more: maps.server_side_apply(
        body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa", "namespace": NS}, "data": {"a": value}},
        field_manager=manager, **more)
    applied("1", "one")
    try:
        applied("2", "two")
        raise AssertionError("no conflict")
    except ConflictError as error:
        assert 'conflict with \\"one\\"' in error.body, error.body
    owned = applied("2", "two", force_conflicts=True)
    assert owned.data.a == "2"
    assert [(m.manager, m.operation) for m in owned.metadata.managedFields if "f:data" in m.fieldsV1.to_dict()] == [("two", "Apply")]
    try:
        maps.get(name="none", namespace=NS)
        raise AssertionError("found nothing")
    except NotFoundError:
        pass
    pods = dyn.resources.get(api_version="v1", kind="Pod")
    assert {"log", "exec", "status", "eviction"} <= set(pods.subresources), pods.subresources
    wide = [r for group in dyn.resources for r in group]
    assert len(wide) > 60, len(wide)


def main():
    print("python", sys.version.split()[0], "kubernetes", kubernetes.__version__)
    config.load_kube_config()
    api = client.ApiClient()
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    core.create_namespace({"metadata": {"name": NS}})
    lists_and_watches(core)
    writes(core, apps)
    identity(api, core)
    dynamically(api, core)
    print("passed")


main()
