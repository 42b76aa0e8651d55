"""An operator made with kopf: a Volume owns a PersistentVolumeClaim of its size, and counts how often it was looked at."""

import kopf
import kubernetes


def claim(spec):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": spec["size"]}}},
    }


@kopf.on.startup()
def startup(**_):
    kubernetes.config.load_kube_config()


@kopf.on.create("volumes.kopf.example.com")
def create(spec, name, namespace, retry, **_):
    # The first try fails as a foreign system does: kopf keeps its progress in the object and comes again.
    if retry == 0:
        raise kopf.TemporaryError("not yet", delay=0.1)
    made = claim(spec)
    kopf.adopt(made)
    made["metadata"]["name"] = name
    kubernetes.client.CoreV1Api().create_namespaced_persistent_volume_claim(namespace, made)
    return {"size": spec["size"]}


@kopf.on.field("volumes.kopf.example.com", field="spec.size")
def resized(old, new, name, body, patch, **_):
    if old is not None:
        kopf.info(body, reason="Resized", message=f"from {old} to {new}")
        patch.status["claim"] = {"name": name, "before": old, "size": new}


@kopf.on.delete("volumes.kopf.example.com")
def delete(name, namespace, **_):
    kubernetes.client.CoreV1Api().delete_namespaced_persistent_volume_claim(name, namespace)


# Without a time to look again, kopf does so a minute later.
@kopf.daemon("volumes.kopf.example.com", cancellation_polling=0.1)
def look(stopped, name, namespace, **_):
    # Runs as long as the object does: its finalizer holds the object until this has returned.
    stopped.wait()
    last = {"metadata": {"name": f"{name}-last-words"}, "data": {"why": str(stopped.reason)}}
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, last)


@kopf.index("configmaps", labels={"indexed": "yes"})
def maps(name, body, **_):
    return {name: body["data"].get("a")}


@kopf.timer("volumes.kopf.example.com", interval=0.5)
def count(maps: kopf.Index, patch, status, **_):
    seen = sorted(value for values in maps.values() for value in values)
    if status.get("maps") != seen:
        patch.status["maps"] = seen
