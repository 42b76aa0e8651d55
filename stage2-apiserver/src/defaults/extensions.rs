//! Defaults of the kinds that extend the API server itself.
//!
//! # In Kubernetes
//! `pkg/apis/admissionregistration/v1/defaults.go`, `…/flowcontrol`, `…/authentication`, `staging/src/k8s.io/{kube-aggregator,
//! apiextensions-apiserver}/pkg/apis/*/v1/defaults.go`.

use serde_json::{Value, json};

use crate::validation::fields::{at, child, child_mut, default_to, has, items_mut, present_mut, set, text};

/// FlowSchema.
pub fn flow_schema(value: &mut Value) {
    let spec = child_mut(value, "spec");
    if spec["matchingPrecedence"] == json!(0) {
        set(spec, "matchingPrecedence", Value::Null);
    }
    default_to(spec, "matchingPrecedence", 1000);
}

/// PriorityLevelConfiguration.
pub fn priority_level_configuration(value: &mut Value) {
    let spec = child_mut(value, "spec");
    if let Some(exempt) = present_mut(spec, "exempt") {
        default_to(exempt, "nominalConcurrencyShares", 0);
        default_to(exempt, "lendablePercent", 0);
    }
    let Some(limited) = present_mut(spec, "limited") else { return };
    default_to(limited, "nominalConcurrencyShares", 30);
    default_to(limited, "lendablePercent", 0);
    let queuing = present_mut(limited, "limitResponse").and_then(|response| present_mut(response, "queuing"));
    let Some(queuing) = queuing else { return };
    for (name, default) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
        if queuing[name] == json!(0) {
            set(queuing, name, Value::Null);
        }
        default_to(queuing, name, default);
    }
}

/// ValidatingWebhookConfiguration.
pub fn validating_webhooks(value: &mut Value) {
    items_mut(value, "webhooks").for_each(webhook);
}

/// MutatingWebhookConfiguration.
pub fn mutating_webhooks(value: &mut Value) {
    for hook in items_mut(value, "webhooks") {
        webhook(hook);
        default_to(hook, "reinvocationPolicy", "Never");
    }
}

fn webhook(hook: &mut Value) {
    default_to(hook, "failurePolicy", "Fail");
    default_to(hook, "matchPolicy", "Equivalent");
    default_to(hook, "namespaceSelector", json!({}));
    default_to(hook, "objectSelector", json!({}));
    default_to(hook, "timeoutSeconds", 10);
    items_mut(hook, "rules").for_each(|rule| default_to(rule, "scope", "*"));
    if let Some(service) = present_mut(hook, "clientConfig").and_then(|config| present_mut(config, "service"))
    {
        default_to(service, "port", 443);
    }
}

fn match_resources(matches: &mut Value) {
    default_to(matches, "matchPolicy", "Equivalent");
    default_to(matches, "namespaceSelector", json!({}));
    default_to(matches, "objectSelector", json!({}));
    for name in ["resourceRules", "excludeResourceRules"] {
        items_mut(matches, name).for_each(|rule| default_to(rule, "scope", "*"));
    }
}

/// ValidatingAdmissionPolicy.
pub fn validating_admission_policy(value: &mut Value) {
    let spec = child_mut(value, "spec");
    default_to(spec, "failurePolicy", "Fail");
    if let Some(matches) = present_mut(spec, "matchConstraints") {
        match_resources(matches);
    }
}

/// ValidatingAdmissionPolicyBinding.
pub fn validating_admission_policy_binding(value: &mut Value) {
    let spec = child_mut(value, "spec");
    if let Some(matches) = present_mut(spec, "matchResources") {
        match_resources(matches);
    }
    if let Some(parameters) = present_mut(spec, "paramRef") {
        default_to(parameters, "parameterNotFoundAction", "Deny");
    }
}

/// APIService.
pub fn api_service(value: &mut Value) {
    if let Some(service) = present_mut(child_mut(value, "spec"), "service") {
        default_to(service, "port", 443);
    }
}

/// CustomResourceDefinition.
pub fn custom_resource_definition(value: &mut Value) {
    let kind = text(at(value, "/spec/names"), "kind").to_owned();
    let spec = child_mut(value, "spec");
    if !kind.is_empty() {
        let names = child_mut(spec, "names");
        default_to(names, "singular", kind.to_lowercase());
        default_to(names, "listKind", format!("{kind}List"));
    }
    let conversion = child_mut(spec, "conversion");
    default_to(conversion, "strategy", "None");
    let service = present_mut(conversion, "webhook")
        .and_then(|webhook| present_mut(webhook, "clientConfig"))
        .and_then(|config| present_mut(config, "service"));
    if let Some(service) = service {
        default_to(service, "port", 443);
    }
    let versions = child(spec, "versions").clone();
    if !has(child(value, "status"), "storedVersions") {
        let stored = versions.as_array().into_iter().flatten().filter(|v| v["storage"] == true);
        let names: Vec<Value> = stored.map(|version| version["name"].clone()).collect();
        set(child_mut(value, "status"), "storedVersions", names);
    }
}

/// TokenRequest.
pub fn token_request(value: &mut Value) {
    default_to(child_mut(value, "spec"), "expirationSeconds", 3600);
}
