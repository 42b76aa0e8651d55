//! Admission webhooks: programs outside of the API server that change or refuse objects.
//!
//! *Step 3 of a pod's journey through the API server, seen by others.* Before: the built-in plugins had their say. After: every webhook
//! that asked for such a request was called over HTTPS with an `AdmissionReview`, changed the object by a JSON patch, or refused it.
//!
//! Who is to be called says a configuration object: rules (operation, group, version, resource), a selector for namespaces and one
//! for objects ([`matcher`]), and conditions in CEL ([`conditions`]). What is sent and what an answer means is pure ([`review`]); where it is sent and what can go wrong on the
//! way is [`client`]'s; in which order, and what happens when a webhook doesn't answer, [`dispatch`] decides.
//!
//! Mutating webhooks are called one after the other, because each sees what the one before made; validating ones all at once, because
//! none changes anything. The subtle thing is the second round: a webhook that was called early judged an object which a later one then
//! changed. So after a change the built-in plugins run once more, and the webhooks that asked for it (`IfNeeded`) are called once more.
//!
//! # Invariants
//! 1. Webhooks are never called for webhook configurations and policies: a broken one must be removable.
//! 2. A dry run reaches no webhook that doesn't say it has no side effects then.
//! 3. No webhook is called more than twice for one attempt of a write.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/webhook/{generic,mutating,validating}`, `apiserver/pkg/admission/configuration`. Left out:
//! client credentials for webhooks (`--admission-control-config-file`), `admission.k8s.io/v1beta1` reviews.

pub mod client;
pub mod dispatch;
pub mod matcher;
pub mod review;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::Value;
use stage1_kubectl::object::Object;
use stage1_kubectl::selector::LabelSelector;

use super::ObjectReader;
use super::policy::conditions;
use super::policy::expression::Expression;

/// Group of the configurations.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// The two sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// May change the object.
    Mutating,
    /// May only refuse it.
    Validating,
}

impl Sort {
    /// The resource of its configurations.
    pub fn resource(self) -> &'static str {
        match self {
            Sort::Mutating => "mutatingwebhookconfigurations",
            Sort::Validating => "validatingwebhookconfigurations",
        }
    }

    /// How metrics call it.
    pub fn metric_type(self) -> &'static str {
        match self {
            Sort::Mutating => "admit",
            Sort::Validating => "validating",
        }
    }
}

/// `operations`, `apiGroups`, … of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// `CREATE`, `*` …
    pub operations: Vec<String>,
    /// API groups.
    pub groups: Vec<String>,
    /// API versions.
    pub versions: Vec<String>,
    /// `pods`, `pods/exec`, `*/*` …
    pub resources: Vec<String>,
    /// `*`, `Namespaced` or `Cluster`.
    pub scope: String,
    /// Names of objects, which only policies' rules can have; empty: all.
    pub names: Vec<String>,
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this URL.
    Url(String),
    /// Behind this Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Path of the URL.
        path: String,
        /// Port of the Service.
        port: i64,
    },
}

/// One webhook of a configuration.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Name of its configuration object.
    pub configuration: String,
    /// Its own name: `policy.example.com`.
    pub name: String,
    /// What it asked for.
    pub rules: Vec<Rule>,
    /// Namespaces whose objects it wants; `None`: a selector that can't be read.
    pub namespace_selector: Option<LabelSelector>,
    /// Objects that it wants.
    pub object_selector: Option<LabelSelector>,
    /// What must be true of the request, too.
    pub conditions: Vec<Expression>,
    /// Also other versions of the resources that it names.
    pub equivalent: bool,
    /// A call that fails lets the request through.
    pub fail_open: bool,
    /// How long a call may take.
    pub timeout_seconds: u64,
    /// `None`, `NoneOnDryRun`, or (in old objects) more.
    pub side_effects: String,
    /// Call it again when the object changed afterwards.
    pub reinvoke: bool,
    /// Where it is.
    pub place: Place,
    /// CA of its certificate, PEM; the system's when empty.
    pub ca_bundle: Vec<u8>,
}

impl Webhook {
    /// All webhooks of a configuration, in its order.
    pub fn of_configuration(configuration: &Object) -> Vec<Webhook> {
        let hooks = configuration.get("/webhooks").and_then(Value::as_array);
        hooks.into_iter().flatten().map(|hook| Webhook::read(configuration.name(), hook)).collect()
    }

    /// A program that is asked for something else than admission: only where it is matters.
    pub fn of_client_config(name: &str, config: &Value) -> Webhook {
        Webhook::read(
            name,
            &serde_json::json!({ "name": name, "clientConfig": config, "timeoutSeconds": 30 }),
        )
    }

    fn read(configuration: &str, hook: &Value) -> Webhook {
        let text = |pointer: &str| hook.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
        let number =
            |pointer: &str, default| hook.pointer(pointer).and_then(Value::as_i64).unwrap_or(default);
        let place = match hook.pointer("/clientConfig/service").filter(|service| service.is_object()) {
            None => Place::Url(text("/clientConfig/url")),
            Some(_) => Place::Service {
                namespace: text("/clientConfig/service/namespace"),
                name: text("/clientConfig/service/name"),
                path: text("/clientConfig/service/path"),
                port: number("/clientConfig/service/port", 443),
            },
        };
        Webhook {
            configuration: configuration.to_owned(),
            name: text("/name"),
            rules: rules(hook.pointer("/rules")),
            namespace_selector: selector(hook.pointer("/namespaceSelector")),
            object_selector: selector(hook.pointer("/objectSelector")),
            conditions: conditions::read(hook.pointer("/matchConditions")),
            equivalent: text("/matchPolicy") != "Exact",
            fail_open: text("/failurePolicy") == "Ignore",
            timeout_seconds: number("/timeoutSeconds", 10).clamp(1, 30).unsigned_abs(),
            side_effects: text("/sideEffects"),
            reinvoke: text("/reinvocationPolicy") == "IfNeeded",
            place,
            ca_bundle: STANDARD.decode(text("/clientConfig/caBundle")).unwrap_or_default(),
        }
    }
}

/// The rules of a webhook or a policy.
pub fn rules(list: Option<&Value>) -> Vec<Rule> {
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let rule = |rule: &Value| Rule {
        operations: texts(&rule["operations"]),
        groups: texts(&rule["apiGroups"]),
        versions: texts(&rule["apiVersions"]),
        resources: texts(&rule["resources"]),
        scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
        names: texts(&rule["resourceNames"]),
    };
    list.and_then(Value::as_array).into_iter().flatten().map(rule).collect()
}

/// A selector; one that is absent selects everything.
pub fn selector(value: Option<&Value>) -> Option<LabelSelector> {
    match value {
        None | Some(Value::Null) => Some(LabelSelector::everything()),
        Some(value) => LabelSelector::from_match(&serde_json::from_value(value.clone()).ok()?).ok(),
    }
}

/// Names and versions of the configurations, and the webhooks that were read from them.
type Parsed = (Vec<(String, String)>, Arc<Vec<Webhook>>);

/// The webhooks of one sort, read again only when their configurations changed.
#[derive(Default)]
pub struct Configured {
    last: Mutex<Parsed>,
}

impl Configured {
    /// All webhooks, ordered by the name of their configuration.
    pub fn webhooks(&self, sort: Sort, reader: &dyn ObjectReader) -> Arc<Vec<Webhook>> {
        let versions = reader.versions(GROUP, sort.resource());
        let mut last = self.last.lock();
        if last.0 != versions {
            let mut configurations = reader.list(GROUP, sort.resource(), "");
            configurations.sort_by(|a, b| a.name().cmp(b.name()));
            let webhooks = configurations.iter().flat_map(|c| Webhook::of_configuration(c)).collect();
            *last = (versions, Arc::new(webhooks));
        }
        last.1.clone()
    }
}

#[cfg(test)]
mod tests;
