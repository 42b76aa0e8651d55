"""Runs the operator and looks at what it did, from its CRD's creation to the last object's end."""

import subprocess
import sys
import pathlib
import time

import kubernetes
from kubernetes import client, config, utils
import kopf

HERE = pathlib.Path(__file__).parent
GROUP = ("kopf.example.com", "v1", "default", "volumes")


def wait(what, condition, limit=30):
    end = time.monotonic() + limit
    while True:
        try:
            value = condition()
        except client.ApiException as error:
            if error.status != 404:
                raise
            value = None
        if value:
            return value
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.05)


def gone(read):
    try:
        read()
        return False
    except client.ApiException as error:
        return error.status == 404


def main():
    print("kopf", kopf.__version__ if hasattr(kopf, "__version__") else "?", "kubernetes", kubernetes.__version__)
    config.load_kube_config()
    api, core, objects = client.ApiClient(), client.CoreV1Api(), client.CustomObjectsApi()
    extensions = client.ApiextensionsV1Api()
    crd = str(HERE / "volume_crd.yaml")
    utils.create_from_yaml(api, crd)

    def established():
        found = extensions.read_custom_resource_definition("volumes.kopf.example.com")
        conditions = (found.status and found.status.conditions) or []
        return any(c.type == "Established" and c.status == "True" for c in conditions)

    wait("the CRD is established", established)
    core.create_namespaced_config_map("default", {"metadata": {"name": "i", "labels": {"indexed": "yes"}}, "data": {"a": "1"}})
    operator = subprocess.Popen(
        [sys.executable, "-m", "kopf", "run", "--standalone", "-n", "default", str(HERE / "volume_operator.py")],
        stderr=subprocess.STDOUT,
        stdout=open("operator.log", "w"),
    )
    try:
        drive(core, objects)
        assert operator.poll() is None, "the operator ended"
    finally:
        operator.terminate()
        code = operator.wait(20)
    log = open("operator.log").read()
    assert "Traceback" not in log, log
    print("operator ended with", code)


def drive(core, objects):
    read = lambda: objects.get_namespaced_custom_object(*GROUP, "data")
    status = lambda: read().get("status", {})
    body = {"apiVersion": "kopf.example.com/v1", "kind": "Volume", "metadata": {"name": "data"}, "spec": {"size": "1Gi"}}
    objects.create_namespaced_custom_object(*GROUP, body)
    claim = wait("the claim is there", lambda: core.read_namespaced_persistent_volume_claim("data", "default"))
    assert claim.spec.resources.requests["storage"] == "1Gi"
    owner = claim.metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.uid) == ("Volume", "data", read()["metadata"]["uid"])
    wait("the handler's result is in the status", lambda: status().get("create", {}).get("size") == "1Gi")
    wait("the index is seen", lambda: status().get("maps") == ["1"])
    assert read()["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
    print("created")

    core.patch_namespaced_config_map("i", "default", {"data": {"a": "2"}})
    wait("the index follows", lambda: status().get("maps") == ["2"])
    generation = read()["metadata"]["generation"]
    objects.patch_namespaced_custom_object(*GROUP, "data", {"spec": {"size": "2Gi"}})
    assert read()["metadata"]["generation"] == generation + 1
    found = wait("the change is handled", lambda: status().get("claim"))
    assert found == {"name": "data", "before": "1Gi", "size": "2Gi"}, found
    print("changed")
    try:
        objects.patch_namespaced_custom_object(*GROUP, "data", {"spec": {"size": "much"}})
        raise AssertionError("a size against the schema was taken")
    except client.ApiException as error:
        assert error.status == 422 and "should match '^[0-9]+Gi$'" in error.body, error.body

    events = lambda: core.list_namespaced_event("default", field_selector="involvedObject.kind=Volume").items
    told = wait("the event is told", events)[0]
    assert (told.reason, told.message, told.type) == ("Resized", "from 1Gi to 2Gi", "Normal"), told
    objects.delete_namespaced_custom_object(*GROUP, "data")
    wait("the object is gone", lambda: gone(read))
    assert "DELETED" in core.read_namespaced_config_map("data-last-words", "default").data["why"]
    wait("the claim is being deleted", lambda: gone(lambda: core.read_namespaced_persistent_volume_claim("data", "default"))
         or core.read_namespaced_persistent_volume_claim("data", "default").metadata.deletion_timestamp)
    print("deleted")


main()
