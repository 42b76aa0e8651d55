//! Worlds for tests: a healthy cluster, and the small changes that break it.
//!
//! # In Kubernetes
//! No counterpart.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::facts::{Facts, Missing, Unseen};
use super::finding::{Finding, ObjectRef};
use super::rule::Rule;
use super::trouble::{Alternative, Credential, Trouble, TroubleKind};
use crate::object::Object;

/// The server's time in every world.
pub const NOW: &str = "2026-01-01T12:00:00Z";

/// Objects, and what `Facts` has besides.
#[derive(Debug, Clone)]
pub struct World {
    pub objects: Vec<Object>,
    pub facts: Facts,
    pub focus: Option<Vec<String>>,
}

/// The time so many seconds before [`NOW`].
pub fn ago(seconds: i64) -> String {
    let now: Timestamp = NOW.parse().unwrap();
    (now - SignedDuration::from_secs(seconds)).to_string()
}

pub fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

impl World {
    /// An empty cluster: two nodes, live components.
    pub fn empty() -> World {
        let facts = Facts { now: NOW.parse().unwrap(), ..Facts::default() };
        let mut world = World { objects: Vec::new(), facts, focus: None };
        for name in ["node-1", "node-2"] {
            world.objects.push(node(name));
            world.objects.push(lease("kube-node-lease", name, 40));
        }
        for name in ["kube-scheduler", "kube-controller-manager"] {
            world.objects.push(lease("kube-system", name, 15));
        }
        world
    }

    /// A Deployment `web` of two ready pods behind a Service.
    pub fn healthy() -> World {
        World::empty().app("web", &["a", "b"])
    }

    /// Adds a Deployment with pods and a Service.
    pub fn app(mut self, app: &str, pods: &[&str]) -> World {
        let replicas = pods.len();
        self.objects.push(deployment(app, replicas));
        self.objects.push(replica_set(app, replicas));
        for (at, pod_name) in pods.iter().enumerate() {
            self.objects.push(pod(app, pod_name, at));
        }
        self.objects.push(object(json!({"apiVersion": "v1", "kind": "Service",
            "metadata": meta(app, "Service"),
            "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.7", "selector": {"app": app},
                     "internalTrafficPolicy": "Cluster",
                     "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]}})));
        let endpoints: Vec<Value> =
            pods.iter().enumerate().map(|(at, name)| endpoint(app, name, at)).collect();
        let mut slice_meta = meta(&format!("{app}-slice"), "EndpointSlice");
        slice_meta["labels"] = json!({"kubernetes.io/service-name": app});
        self.objects.push(object(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": slice_meta, "addressType": "IPv4",
            "ports": [{"port": 80, "protocol": "TCP"}], "endpoints": endpoints})));
        self
    }

    /// Adds an object.
    pub fn with(mut self, value: Value) -> World {
        self.objects.push(object(value));
        self
    }

    /// Takes objects away: `Kind/name`.
    pub fn without(mut self, names: &[&str]) -> World {
        self.objects
            .retain(|object| !names.contains(&format!("{}/{}", object.kind(), object.name()).as_str()));
        self
    }

    /// Changes the object `Kind/name`, which must be there.
    pub fn change(mut self, name: &str, change: impl Fn(&mut Object)) -> World {
        let found =
            self.objects.iter_mut().find(|object| format!("{}/{}", object.kind(), object.name()) == name);
        change(found.unwrap_or_else(|| panic!("no {name}")));
        self
    }

    /// Sets a field of `Kind/name`.
    pub fn set(self, name: &str, pointer: &str, value: Value) -> World {
        self.change(name, |object| object.set(pointer, value.clone()))
    }

    /// Sets a field of a pod as its template says: in the pod, its ReplicaSet and its Deployment.
    pub fn asks(self, pod: &str, pointer: &str, value: Value) -> World {
        let template = format!("/spec/template{pointer}");
        self.set(&format!("Pod/{pod}"), pointer, value.clone())
            .set("ReplicaSet/web-5d4", &template, value.clone())
            .set("Deployment/web", &template, value)
    }

    /// Removes a field of `Kind/name`.
    pub fn unset(self, name: &str, pointer: &str) -> World {
        self.change(name, |object| drop(object.remove(pointer)))
    }

    /// Adds an event about `Kind/name`.
    pub fn event(self, about: &str, kind: &str, reason: &str, message: &str) -> World {
        let (involved_kind, name) = about.split_once('/').unwrap();
        let count = self.objects.iter().filter(|object| object.kind() == "Event").count();
        let namespaced = involved_kind != "Node";
        let mut involved = json!({"kind": involved_kind, "name": name});
        if namespaced {
            involved["namespace"] = "default".into();
        }
        self.with(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{count}"), "namespace": "default"},
            "involvedObject": involved, "type": kind, "reason": reason, "message": message,
            "lastTimestamp": ago(3), "count": 1}))
    }

    /// The pod's only container waits; the pod isn't Ready, and no endpoint.
    pub fn waiting(self, pod: &str, reason: &str, message: &str) -> World {
        self.set(
            &format!("Pod/{pod}"),
            "/status/containerStatuses/0/state",
            json!({"waiting": {"reason": reason, "message": message}}),
        )
        .not_ready(pod)
    }

    /// The pod isn't Ready, so its endpoint isn't.
    pub fn not_ready(self, pod: &str) -> World {
        let mut world = self
            .set(&format!("Pod/{pod}"), "/status/containerStatuses/0/ready", json!(false))
            .set(&format!("Pod/{pod}"), "/status/conditions/1/status", json!("False"));
        for slice in world.objects.iter_mut().filter(|object| object.kind() == "EndpointSlice") {
            let count = slice.get("/endpoints").and_then(Value::as_array).map_or(0, Vec::len);
            for at in 0..count {
                if slice.get_str(&format!("/endpoints/{at}/targetRef/name")) == Some(pod) {
                    slice.set(&format!("/endpoints/{at}/conditions/ready"), false);
                }
            }
        }
        world
    }

    /// The pod's only container has ended before, and waits to be started again.
    pub fn crashed(self, pod: &str, code: i64, reason: &str) -> World {
        self.waiting(pod, "CrashLoopBackOff", "back-off 20s restarting failed container")
            .set(&format!("Pod/{pod}"), "/status/containerStatuses/0/restartCount", json!(4))
            .set(
                &format!("Pod/{pod}"),
                "/status/containerStatuses/0/lastState",
                json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": ago(10)}}),
            )
    }

    /// The pod has no node; `message`: what the scheduler said, if anybody did.
    pub fn unbound(self, pod: &str, message: Option<&str>) -> World {
        let name = format!("Pod/{pod}");
        let conditions = match message {
            None => json!([]),
            Some(message) => {
                json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
                                     "lastTransitionTime": ago(60)}])
            }
        };
        let world = self.not_ready(pod);
        let mut world = world.unset(&name, "/spec/nodeName").set(
            &name,
            "/status",
            json!({"phase": "Pending", "conditions": conditions}),
        );
        for slice in world.objects.iter_mut().filter(|object| object.kind() == "EndpointSlice") {
            if let Some(Value::Array(endpoints)) = slice.as_map_mut().get_mut("endpoints") {
                endpoints.retain(|endpoint| endpoint["targetRef"]["name"] != pod);
            }
        }
        match message {
            None => world,
            Some(message) => world.event(&name, "Warning", "FailedScheduling", message),
        }
    }

    /// The ReplicaSet may not make its pods.
    pub fn create_refused(self, message: &str) -> World {
        self.without(&["Pod/web-a", "Pod/web-b"])
            .set("EndpointSlice/web-slice", "/endpoints", json!([]))
            .set("ReplicaSet/web-5d4", "/status", json!({"replicas": 0, "observedGeneration": 1}))
            .set("Deployment/web", "/status/readyReplicas", json!(0))
            .event("ReplicaSet/web-5d4", "Warning", "FailedCreate", &format!("Error creating: {message}"))
    }

    /// There is no answer.
    pub fn trouble(mut self, kind: TroubleKind, message: &str) -> World {
        self.objects.clear();
        self.facts.trouble = Some(Trouble {
            kind,
            message: message.into(),
            server: "https://127.0.0.1:6444".into(),
            kubeconfig: "admin.kubeconfig".into(),
            context: "six-stages".into(),
            credential: Credential {
                kind: "client certificate".into(),
                subject: "jane".into(),
                not_after: ago(-86_400).parse().ok(),
                ..Credential::default()
            },
            alternatives: Vec::new(),
        });
        self
    }

    /// The client's certificate is past its date.
    pub fn expired(mut self) -> World {
        self.facts.trouble.as_mut().unwrap().credential.not_after = ago(86_400).parse().ok();
        self
    }

    /// Another kubeconfig names another address.
    pub fn alternative(mut self, server: &str, answers: bool) -> World {
        let alternative = Alternative { source: "kubelet.kubeconfig".into(), server: server.into(), answers };
        self.facts.trouble.as_mut().unwrap().alternatives.push(alternative);
        self
    }

    /// Something was asked about and isn't there.
    pub fn missing(mut self, missing: Missing) -> World {
        self.facts.missing.push(missing);
        self
    }

    /// Something could not be read.
    pub fn unseen(mut self, what: &str) -> World {
        self.facts.unseen.push(Unseen { what: what.into(), why: "forbidden".into() });
        self
    }

    /// Only these were asked about: `Kind/name`.
    pub fn focus(mut self, names: &[&str]) -> World {
        self.focus = Some(names.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    /// As the rules get it.
    pub fn facts(self) -> Facts {
        let focus = self.focus.map(|names| {
            let fits = |object: &&Object| names.contains(&format!("{}/{}", object.kind(), object.name()));
            self.objects.iter().filter(fits).map(ObjectRef::of).collect::<BTreeSet<_>>()
        });
        let Facts { now, trouble, missing, unseen, unready, .. } = self.facts;
        Facts { trouble, missing, unseen, unready, ..Facts::new(now, self.objects, focus) }
    }
}

/// What a rule finds in a world.
pub fn find(rule: &Rule, world: World) -> Vec<Finding> {
    (rule.find)(&world.facts())
}

/// The only thing that a rule finds in a world.
pub fn only(rule: &Rule, world: World) -> Finding {
    let mut found = find(rule, world);
    assert_eq!(found.len(), 1, "{}: {found:#?}", rule.id);
    found.remove(0)
}

fn meta(name: &str, kind: &str) -> Value {
    json!({"name": name, "namespace": "default", "uid": format!("{kind}-{name}"), "generation": 1,
           "creationTimestamp": ago(3600), "labels": {"app": name}})
}

fn owned(mut meta: Value, kind: &str, owner: &str) -> Value {
    meta["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": format!("{kind}-{owner}"), "controller": true}]);
    meta
}

fn node(name: &str) -> Object {
    object(json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "creationTimestamp": ago(7200), "labels": {"kubernetes.io/hostname": name, "disk": "ssd"}},
        "spec": {},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
                   "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"},
                                  {"type": "DiskPressure", "status": "False"}]}}))
}

fn lease(namespace: &str, name: &str, duration: i64) -> Object {
    object(
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": format!("{name}_1"), "leaseDurationSeconds": duration, "renewTime": ago(2)}}),
    )
}

/// The pod template of every app.
pub fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}},
           "spec": {"schedulerName": "default-scheduler", "serviceAccountName": "default", "restartPolicy": "Always",
                    "containers": [{"name": "c", "image": "nginx:1.25", "ports": [{"containerPort": 80, "name": "http"}],
                        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                        "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
                        "livenessProbe": {"httpGet": {"path": "/", "port": 80}}}]}})
}

fn deployment(app: &str, replicas: usize) -> Object {
    object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(app, "Deployment"),
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template(app)},
        "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
                   "updatedReplicas": replicas,
                   "conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]}}))
}

fn replica_set(app: &str, replicas: usize) -> Object {
    object(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": owned(meta(&format!("{app}-5d4"), "ReplicaSet"), "Deployment", app),
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template(app)},
        "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas}}))
}

fn pod(app: &str, name: &str, at: usize) -> Object {
    let mut meta = owned(meta(&format!("{app}-{name}"), "Pod"), "ReplicaSet", &format!("{app}-5d4"));
    meta["labels"] = json!({"app": app});
    let mut spec = template(app)["spec"].clone();
    spec["nodeName"] = format!("node-{}", at % 2 + 1).into();
    object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec,
        "status": {"phase": "Running", "podIP": format!("10.244.0.{}", at + 2), "startTime": ago(3590),
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(3595)},
                           {"type": "Ready", "status": "True", "lastTransitionTime": ago(3500)}],
            "containerStatuses": [{"name": "c", "image": "nginx:1.25", "ready": true, "started": true, "restartCount": 0,
                "state": {"running": {"startedAt": ago(3590)}}, "lastState": {}}]}}))
}

fn endpoint(app: &str, name: &str, at: usize) -> Value {
    let name = format!("{app}-{name}");
    json!({"addresses": [format!("10.244.0.{}", at + 2)], "conditions": {"ready": true, "serving": true},
           "nodeName": format!("node-{}", at % 2 + 1),
           "targetRef": {"kind": "Pod", "namespace": "default", "name": name, "uid": format!("Pod-{name}")}})
}
