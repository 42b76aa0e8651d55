//! A cluster in memory, with just what the recorded cases need, and the write path of the API server without HTTP.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::{GroupVersionKind, GroupVersionResource};
use stage1_kubectl::status::Status;
use stage2_apiserver::admission::{Attributes, Chain, ObjectReader, Operation};
use stage2_apiserver::allocator::service::ServiceAllocators;
use stage2_apiserver::allocator::{DEFAULT_SERVICE_CLUSTER_IP_RANGE, IpAllocator, PortAllocator};
use stage2_apiserver::registry::{self, ResourceInfo};
use stage2_apiserver::schema;
use stage2_apiserver::strategies::update::{Part, before_update_with};
use stage2_apiserver::strategies::{self, Context, Requester, create};

use crate::cases::{Answer, Case};

type Key = (String, String, String, String);

/// The stored objects by group, resource, namespace, name.
#[derive(Default)]
pub struct Stored(BTreeMap<Key, Arc<Object>>);

impl ObjectReader for Stored {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.0.get(&(group.into(), resource.into(), namespace.into(), name.into())).cloned()
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Object>> {
        let of =
            |(g, r, ns, _): &Key| g == group && r == resource && (namespace.is_empty() || ns == namespace);
        self.0.iter().filter(|(key, _)| of(key)).map(|(_, object)| object.clone()).collect()
    }
}

/// The cluster.
pub struct World {
    stored: Stored,
    services: RefCell<ServiceAllocators>,
}

/// A request, taken apart.
struct Request {
    method: String,
    gvr: GroupVersionResource,
    namespace: Option<String>,
    name: Option<String>,
    subresource: String,
    strict: String,
    dry_run: bool,
}

impl Request {
    fn parse(request: &Value) -> Option<Request> {
        let target = request["path"].as_str()?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut parts = path.trim_matches('/').split('/');
        let group = if parts.next()? == "api" { "" } else { parts.next()? };
        let version = parts.next()?;
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = None;
        if rest.len() >= 3 && rest[0] == "namespaces" {
            namespace = Some(rest[1].to_owned());
            rest.drain(..2);
        }
        let option = |name: &str| {
            query.split('&').find_map(|pair| pair.strip_prefix(name)).unwrap_or_default().to_owned()
        };
        Some(Request {
            method: request["method"].as_str()?.to_owned(),
            gvr: GroupVersionResource::new(group, version, rest.first()?),
            namespace,
            name: rest.get(1).map(|name| (*name).to_owned()),
            subresource: rest.get(2).map(|name| (*name).to_owned()).unwrap_or_default(),
            strict: option("fieldValidation="),
            dry_run: option("dryRun=") == "All",
        })
    }
}

impl World {
    /// The namespaces that the case names, each with what the controllers put there.
    pub fn for_case(case: &Case) -> World {
        let ips = IpAllocator::new(DEFAULT_SERVICE_CLUSTER_IP_RANGE).expect("a range");
        let services = RefCell::new(ServiceAllocators { ips, ports: PortAllocator::default() });
        let mut world = World { stored: Stored::default(), services };
        let requests = case.record["setup"].as_array().into_iter().flatten().chain([&case.record["request"]]);
        let mut namespaces: Vec<String> =
            requests.filter_map(Request::parse).filter_map(|request| request.namespace).collect();
        namespaces.extend(["default", "case", "kube-system"].map(str::to_owned));
        for namespace in namespaces.iter().filter(|name| !name.contains('{')) {
            world.put(
                "",
                "namespaces",
                json!({"metadata": {"name": namespace}, "status": {"phase": "Active"}}),
            );
            world.put(
                "",
                "serviceaccounts",
                json!({"metadata": {"name": "default", "namespace": namespace}}),
            );
        }
        for (name, value) in
            [("system-node-critical", 2_000_001_000_i64), ("system-cluster-critical", 2_000_000_000)]
        {
            world.put(
                "scheduling.k8s.io",
                "priorityclasses",
                json!({"metadata": {"name": name}, "value": value}),
            );
        }
        world
    }

    fn put(&mut self, group: &str, resource: &str, value: Value) {
        let object = Object::from_value(value).expect("a map");
        let key = (
            group.to_owned(),
            resource.to_owned(),
            object.namespace().unwrap_or_default().to_owned(),
            object.name().to_owned(),
        );
        self.stored.0.insert(key, Arc::new(object));
    }

    /// Runs the set-up and the request.
    pub fn replay(mut self, case: &Case) -> Answer {
        for step in case.record["setup"].as_array().into_iter().flatten() {
            let answer = self.answer(step);
            if answer.code >= 400 {
                return answer;
            }
            let request = Request::parse(step).expect("a path");
            let mut stored = answer.body;
            stored["metadata"]["resourceVersion"] = json!("1");
            self.put(&request.gvr.group.clone(), &request.gvr.resource.clone(), stored);
        }
        self.answer(&case.record["request"])
    }

    fn answer(&self, request: &Value) -> Answer {
        let mut warnings = Vec::new();
        match self.handle(request, &mut warnings) {
            Ok((code, object)) => Answer { code, body: object.into_value(), warnings },
            Err(status) => Answer {
                code: status.code,
                body: serde_json::to_value(&*status).expect("plain data"),
                warnings,
            },
        }
    }

    fn handle(&self, request: &Value, warnings: &mut Vec<String>) -> Result<(u16, Object), Box<Status>> {
        let parsed = Request::parse(request).ok_or_else(Status::generic_not_found)?;
        let info = registry::find(&parsed.gvr.group, &parsed.gvr.version, &parsed.gvr.resource)
            .ok_or_else(Status::generic_not_found)?;
        let gvk = GroupVersionKind::new(info.group, info.version, info.kind);
        let schema =
            schema::schema_for(&gvk).ok_or_else(|| Status::internal(format!("no schema for {gvk}")))?;
        let old = parsed.name.as_ref().map(|name| {
            self.stored.get(info.group, info.resource, parsed.namespace.as_deref().unwrap_or_default(), name)
        });
        let missing =
            || Status::not_found(&info.group_resource(), parsed.name.as_deref().unwrap_or_default());
        let old = old.map(|found| found.ok_or_else(missing)).transpose()?;
        let body = match &request["body"] {
            Value::String(text) => text.clone().into_bytes(),
            Value::Null => changed(old.as_deref(), &request["change"]),
            body => body.to_string().into_bytes(),
        };
        let mut object = decode(&body, &gvk, schema, &parsed.strict, warnings)?;
        let strategy = strategies::for_kind(&gvk, info.namespaced);
        create::ensure_namespace(&mut object, parsed.namespace.as_deref().filter(|_| info.namespaced))?;
        strategy.default(&mut object);
        let user = recorder();
        let context = Context { user: user.clone(), now: "2024-01-02T03:04:05Z".parse().expect("a time") };
        let attributes = Attributes {
            operation: if parsed.method == "PUT" { Operation::Update } else { Operation::Create },
            resource: parsed.gvr.clone(),
            subresource: parsed.subresource.clone(),
            kind: gvk.clone(),
            namespace: parsed.namespace.clone().unwrap_or_default(),
            name: object.name().to_owned(),
            user,
            dry_run: parsed.dry_run,
            now: context.now,
            random: 12345,
        };
        let chain = Chain::recommended();
        if old.is_none() {
            create::fill_object_meta_system_fields(
                &mut object,
                "11111111-2222-3333-4444-555555555555",
                context.now,
                98765,
            );
        }
        chain.admit(&attributes, &mut object, old.as_deref(), &self.stored)?;
        let mut allocate = |object: &mut Object| -> Result<(), Status> {
            if info.kind == "Service" {
                self.services.borrow_mut().allocate(object, old.as_deref(), parsed.dry_run, 424_242)?;
            }
            Ok(())
        };
        let told = match &old {
            None => create::before_create_with(strategy, &mut object, &context, &mut allocate)?,
            Some(old) => {
                same_uid(info, &attributes.namespace, &object, old)?;
                if object.resource_version().is_empty() {
                    let stored = old.resource_version().to_owned();
                    object.set_resource_version(&stored);
                }
                let part = if parsed.subresource == "status" { Part::Status } else { Part::Main };
                before_update_with(strategy, part, &mut object, old, &context, &mut allocate)?
            }
        };
        warnings.extend(told);
        warnings.extend(chain.validate(&attributes, Some(&object), old.as_deref(), &self.stored)?);
        Ok((if old.is_some() { 200 } else { 201 }, object))
    }
}

/// Whose requests were recorded.
fn recorder() -> Requester {
    let credential = "X509SHA256=2eb26c5228d97d5063e31d5dbb89be712955f651a388c6accf116dae69eebda6";
    Requester {
        name: "admin".into(),
        groups: vec!["system:masters".into(), "system:authenticated".into()],
        extra: BTreeMap::from([(
            "authentication.kubernetes.io/credential-id".to_owned(),
            vec![credential.to_owned()],
        )]),
        ..Requester::default()
    }
}

/// An update is about the object that is there.
fn same_uid(info: &ResourceInfo, namespace: &str, new: &Object, old: &Object) -> Result<(), Box<Status>> {
    if new.uid().is_empty() || new.uid() == old.uid() {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /{}/{namespace}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {}, UID in object meta: {}",
        info.resource,
        new.name(),
        new.uid(),
        old.uid()
    );
    Err(Box::new(Status::conflict(&info.group_resource(), new.name(), &why)))
}

/// The stored object with the changed fields.
fn changed(old: Option<&Object>, change: &Value) -> Vec<u8> {
    let mut object = old.cloned().unwrap_or_default();
    for (path, value) in change.as_object().into_iter().flatten() {
        let pointer = format!("/{path}");
        if value == "<removed>" {
            object.remove(&pointer);
        } else {
            object.set(&pointer, value.clone());
        }
    }
    object.into_value().to_string().into_bytes()
}

fn decode(
    body: &[u8],
    gvk: &GroupVersionKind,
    schema: &schema::Schema,
    strict: &str,
    warnings: &mut Vec<String>,
) -> Result<Object, Box<Status>> {
    let unrecognised = |why: String| {
        let json_like = body.first().is_some_and(|byte| *byte == b'{');
        let shown = schema::go_json::shown_bytes(body, json_like);
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({shown})",
            gvk.kind
        ))
    };
    let meta = schema::go_json::interpret(body).map_err(unrecognised)?;
    let kind = if meta.kind.is_empty() { gvk.kind.clone() } else { meta.kind };
    let api_version = if meta.api_version.is_empty() { gvk.api_version() } else { meta.api_version };
    let given = GroupVersionKind::from_api_version(&api_version, &kind);
    let handled = |why: String| {
        Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: {why}",
            given.version, gvk.kind
        ))
    };
    if kind != gvk.kind {
        let hub = if gvk.group.is_empty() { "core" } else { gvk.group.split('.').next().unwrap_or_default() };
        if schema::schema_for(&given).is_none() && !kind.ends_with("List") {
            return Err(Box::new(handled(format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
            ))));
        }
        return Err(Box::new(handled(format!(
            "converting ({}.{kind}) to ({hub}.{}): unknown conversion",
            given.version, gvk.kind
        ))));
    }
    let decoded = schema::decode_slice(body, schema).map_err(|error| handled(error.to_string()))?;
    if let Some(error) = decoded.error {
        return Err(Box::new(handled(error)));
    }
    if !decoded.strict.is_empty() && strict == "Strict" {
        return Err(Box::new(handled(format!("strict decoding error: {}", decoded.strict.join(", ")))));
    }
    if strict == "Warn" || strict.is_empty() {
        warnings.extend(decoded.strict);
    }
    let mut object = Object::from_value(decoded.value).expect("a map");
    object.set_gvk(gvk);
    Ok(object)
}
