//! Policies, bindings and what they say.

use serde_json::json;

use super::*;
use crate::admission::tests::{Cluster, create};

fn cluster(policy: Value, binding: Value) -> Cluster {
    let mut spec = json!({"matchConstraints": {"resourceRules": [
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]},
    ]}});
    for (key, value) in policy.as_object().expect("a map") {
        spec[key] = value.clone();
    }
    let mut bound = json!({"policyName": "pol", "validationActions": ["Deny"]});
    for (key, value) in binding.as_object().expect("a map") {
        bound[key] = value.clone();
    }
    Cluster::default()
        .with("validatingadmissionpolicies", json!({"metadata": {"name": "pol"}, "spec": spec}))
        .with("validatingadmissionpolicybindings", json!({"metadata": {"name": "polb"}, "spec": bound}))
}

/// Everybody may create pods, and nobody anything else.
struct OnlyPods;

impl Authorizer for OnlyPods {
    fn authorize(&self, asked: &authorization::Attributes) -> authorization::Decision {
        let reason = format!("{} {} in {}", asked.verb, asked.resource, asked.namespace);
        match (asked.verb.as_str(), asked.resource.as_str()) {
            ("create", "pods") => authorization::Decision::Allow { reason },
            _ => authorization::Decision::NoOpinion { reason },
        }
    }
}

fn judge(cluster: &dyn ObjectReader) -> (Result<(), Status>, Report) {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}});
    let object = Object::from_value(object).expect("a map");
    let mut report = Report::default();
    let (attributes, options) = (create("configmaps", "ConfigMap"), json!({"kind": "CreateOptions"}));
    let question = Question {
        attributes: &attributes,
        objects: Objects { new: Some(&object), old: None },
        options: &options,
        reader: cluster,
        authorizer: &OnlyPods,
    };
    let outcome = Policies::default().present(cluster).validate(question, &mut report);
    (outcome, report)
}

fn message(cluster: &Cluster) -> String {
    judge(cluster).0.expect_err("refused").message
}

const DENIED: &str =
    "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'pol' with binding 'polb' denied request: ";

#[test]
fn a_refusal_has_the_message_that_the_policy_makes() {
    let said = |validation: Value| message(&cluster(json!({"validations": [validation]}), json!({})));
    assert_eq!(
        said(json!({"expression": "object.data.a == '2'"})),
        format!("{DENIED}failed expression: object.data.a == '2'")
    );
    assert_eq!(said(json!({"expression": "false", "message": "m"})), format!("{DENIED}m"));
    let made = json!({"expression": "false", "messageExpression": "'a is ' + object.data.a"});
    assert_eq!(said(made), format!("{DENIED}a is 1"));
    let true_one = cluster(json!({"validations": [{"expression": "object.data.a == '1'"}]}), json!({}));
    assert_eq!(judge(&true_one).0, Ok(()));
    let forbidden = json!({"validations": [{"expression": "false", "reason": "Forbidden"}]});
    let status = judge(&cluster(forbidden, json!({}))).0.expect_err("refused");
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
}

#[test]
fn variables_build_on_each_other() {
    let policy = json!({
        "variables": [
            {"name": "n", "expression": "size(object.data)"},
            {"name": "twice", "expression": "variables.n * 2"},
        ],
        "validations": [{"expression": "variables.twice > 5", "messageExpression": "'twice ' + string(variables.twice)"}],
    });
    assert_eq!(message(&cluster(policy, json!({}))), format!("{DENIED}twice 2"));
}

#[test]
fn an_expression_that_fails_refuses_or_is_ignored() {
    let policy = |failure: &str| json!({"failurePolicy": failure, "validations": [{"expression": "object.data.zz == '1'"}]});
    assert!(
        message(&cluster(policy("Fail"), json!({})))
            .contains("expression 'object.data.zz == '1'' resulted in error: ")
    );
    assert_eq!(judge(&cluster(policy("Ignore"), json!({}))).0, Ok(()));
}

#[test]
fn actions_warn_and_note_without_refusing() {
    let policy = json!({
        "validations": [{"expression": "false", "message": "m"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'v'"}],
    });
    let (outcome, report) = judge(&cluster(policy, json!({"validationActions": ["Warn", "Audit"]})));
    assert_eq!(outcome, Ok(()));
    assert_eq!(
        report.warnings,
        ["Validation failed for ValidatingAdmissionPolicy 'pol' with binding 'polb': m"]
    );
    let keys: Vec<&str> = report.annotations.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, [FAILURE_KEY, "pol/k"]);
    let failure = r#"[{"binding":"polb","expressionIndex":0,"message":"m","policy":"pol","validationActions":["Warn","Audit"]}]"#;
    let said: Value = serde_json::from_str(&report.annotations[0].1).expect("JSON");
    assert_eq!(said, serde_json::from_str::<Value>(failure).expect("JSON"));
}

#[test]
fn parameters_come_from_the_binding() {
    let policy = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.data.a == params.data.wanted"}],
    });
    let with = |param: Value, action: &str| {
        let reference =
            json!({"paramRef": {"name": "p", "namespace": "ns", "parameterNotFoundAction": action}});
        let cluster = cluster(policy.clone(), reference);
        if param.is_null() { cluster } else { cluster.with("configmaps", param) }
    };
    let param =
        |wanted: &str| json!({"metadata": {"name": "p", "namespace": "ns"}, "data": {"wanted": wanted}});
    assert_eq!(judge(&with(param("1"), "Deny")).0, Ok(()));
    assert!(judge(&with(param("2"), "Deny")).0.is_err());
    assert_eq!(judge(&with(Value::Null, "Allow")).0, Ok(()));
    assert!(message(&with(Value::Null, "Deny")).contains("no params found"));
}

#[test]
fn conditions_and_excluded_rules_keep_a_policy_silent() {
    let condition = json!({
        "matchConditions": [{"name": "c", "expression": "request.operation == 'DELETE'"}],
        "validations": [{"expression": "false"}],
    });
    assert_eq!(judge(&cluster(condition, json!({}))).0, Ok(()));
    let excluded = json!({"matchResources": {"excludeResourceRules": [
        {"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps"]},
    ]}});
    assert_eq!(judge(&cluster(json!({"validations": [{"expression": "false"}]}), excluded)).0, Ok(()));
}

#[test]
fn rules_may_name_their_objects() {
    let rule = |names: Value| json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "resourceNames": names}]);
    let judged = |names: Value| {
        let policy = json!({"matchConstraints": {"resourceRules": rule(names)}, "validations": [{"expression": "false"}]});
        judge(&cluster(policy, json!({}))).0
    };
    assert!(judged(json!(["b", "a"])).is_err());
    assert!(judged(json!([])).is_err());
    assert_eq!(judged(json!(["b"])), Ok(()));
    let excluded = |names: Value| {
        let binding = json!({"matchResources": {"excludeResourceRules": rule(names)}});
        judge(&cluster(json!({"validations": [{"expression": "false"}]}), binding)).0
    };
    assert_eq!(excluded(json!(["a"])), Ok(()));
    assert!(excluded(json!(["b"])).is_err());
}

#[test]
fn what_is_excluded_is_so_in_every_version() {
    let scope = |match_policy: &str| {
        let rule = |version: &str| json!([{"operations": ["*"], "apiGroups": ["autoscaling"], "apiVersions": [version], "resources": ["horizontalpodautoscalers"]}]);
        json!({"resourceRules": rule("*"), "excludeResourceRules": rule("v1"), "matchPolicy": match_policy})
    };
    let attributes = |version: &str| {
        let mut attributes = create("horizontalpodautoscalers", "HorizontalPodAutoscaler");
        (attributes.resource.group, attributes.resource.version) = ("autoscaling".into(), version.into());
        attributes
    };
    let is_judged = |match_policy: &str, version: &str| {
        let (attributes, cluster) = (attributes(version), Cluster::default());
        let objects = Objects { new: None, old: None };
        let question = Question {
            attributes: &attributes,
            objects,
            options: &Value::Null,
            reader: &cluster,
            authorizer: &OnlyPods,
        };
        Match::read(Some(&scope(match_policy))).fits(&question).expect("no selectors").is_some()
    };
    assert!(!is_judged("Exact", "v1") && is_judged("Exact", "v2"));
    assert!(!is_judged("Equivalent", "v1") && !is_judged("Equivalent", "v2"));
}

/// A cluster whose caches of parameters are empty because nobody could fill them.
struct Unfilled(Cluster);

impl ObjectReader for Unfilled {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.0.get(group, resource, namespace, name)
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Object>> {
        self.0.list(group, resource, namespace)
    }

    fn is_filled(&self, _: &'static crate::registry::ResourceInfo) -> bool {
        false
    }
}

#[test]
fn parameters_that_are_not_known_yet_are_no_parameters_that_are_not_there() {
    let judged = |failure: &str| {
        let policy = json!({
            "failurePolicy": failure, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "true"}],
        });
        let binding =
            json!({"paramRef": {"name": "p", "namespace": "ns", "parameterNotFoundAction": "Allow"}});
        judge(&Unfilled(cluster(policy, binding))).0
    };
    let why = "failed to configure binding: paramKind kind `/v1, Kind=ConfigMap` not yet synced to use for admission";
    assert_eq!(judged("Fail").expect_err("nobody knows").message, format!("{DENIED}{why}"));
    assert_eq!(judged("Ignore"), Ok(()));
}

#[test]
fn expressions_may_ask_who_may_do_what() {
    let said =
        |expression: &str| judge(&cluster(json!({"validations": [{"expression": expression}]}), json!({}))).0;
    assert_eq!(
        said("authorizer.group('').resource('pods').namespace('x').check('create').allowed()"),
        Ok(())
    );
    assert!(said("authorizer.requestResource.check('create').allowed()").is_err());
    let reason = "authorizer.requestResource.check('get').reason() == 'get configmaps in ns'";
    assert_eq!(said(reason), Ok(()));
    let three = (0..3).map(|n| format!("authorizer.path('/{n}').check('get').allowed()")).collect::<Vec<_>>();
    let refused = said(&format!("!({})", three.join(" || "))).expect_err("too costly");
    assert!(
        refused.message.ends_with("operation cancelled: actual cost limit exceeded"),
        "{}",
        refused.message
    );
}

#[test]
fn a_variable_that_nobody_looks_at_cannot_fail() {
    let policy = |expression: &str| {
        let variables =
            json!([{"name": "bad", "expression": "object.data.zz"}, {"name": "n", "expression": "1"}]);
        json!({"variables": variables, "validations": [{"expression": expression}]})
    };
    let said = |expression: &str| judge(&cluster(policy(expression), json!({}))).0;
    assert_eq!(said("variables.n == 1 || variables.bad == 'x'"), Ok(()));
    let why = "expression 'variables.bad == 'x'' resulted in error: composited variable \"bad\" fails to evaluate: no such key: zz";
    assert_eq!(said("variables.bad == 'x'").expect_err("it is needed").message, format!("{DENIED}{why}"));
}

#[test]
fn a_condition_that_fails_refuses_unless_another_is_false() {
    let policy =
        |conditions: Value| json!({"matchConditions": conditions, "validations": [{"expression": "true"}]});
    let bad = json!({"name": "bad", "expression": "object.data.zz == '1'"});
    let why = "expression 'object.data.zz == '1'' resulted in error: no such key: zz";
    assert_eq!(message(&cluster(policy(json!([bad])), json!({}))), format!("{DENIED}{why}"));
    let both = policy(json!([bad, {"name": "no", "expression": "false"}]));
    assert_eq!(judge(&cluster(both, json!({}))).0, Ok(()));
}
