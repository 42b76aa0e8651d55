use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn refusals_have_kubernetes_words() {
    let lines: Vec<String> = [
        Status::not_found("pods", "web"),
        Status::already_exists("deployments.apps", "web"),
        Status::modified("pods", "web"),
        Status::invalid("Pod", "web", &[FieldError::required("spec.containers[0].image", "")]),
        Status::forbidden(
            "pods",
            "",
            "User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"",
        ),
        Status::forbidden("pods", "web", "no"),
        Status::too_old_resource_version(5, 17),
        Status::generic_not_found(),
        Status::internal("x"),
        Status::method_not_allowed("pods", "create"),
        Status::timeout("slow", 1),
        Status::too_large("limit is 3145728"),
    ]
    .iter()
    .map(|s| format!("{} {}: {}\n", s.code, s.reason, s))
    .collect();
    expect![[r#"
        404 NotFound: pods "web" not found
        409 AlreadyExists: deployments.apps "web" already exists
        409 Conflict: Operation cannot be fulfilled on pods "web": the object has been modified; please apply your changes to the latest version and try again
        422 Invalid: Pod "web" is invalid: spec.containers[0].image: Required value
        403 Forbidden: pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"
        403 Forbidden: pods "web" is forbidden: no
        410 Expired: too old resource version: 5 (17)
        404 NotFound: the server could not find the requested resource
        500 InternalError: Internal error occurred: x
        405 MethodNotAllowed: create is not supported on resources of kind "pods"
        504 Timeout: Timeout: slow
        413 RequestEntityTooLarge: Request entity too large: limit is 3145728
    "#]]
    .assert_eq(&lines.concat());
}

#[test]
fn several_field_errors_are_joined_and_each_is_a_cause() {
    let errors = [
        FieldError::invalid("spec.replicas", json!(-1), "must be greater than or equal to 0"),
        FieldError::not_supported("spec.restartPolicy", "x", &["Always", "Never"]),
        FieldError::not_supported("spec.restartPolicy", "x", &["Always", "Never"]),
        FieldError::duplicate("spec.ports[1]", json!({"port": 80})),
    ];
    let status = Status::invalid("Deployment.apps", "web", &errors);
    expect![[r#"Deployment.apps "web" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, spec.restartPolicy: Unsupported value: "x": supported values: "Always", "Never", spec.ports[1]: Duplicate value: {"port":80}]"#]]
        .assert_eq(&status.message);
    assert_eq!(status.causes().len(), 4);
    assert_eq!(status.details.unwrap().group, "apps");
}

#[test]
fn a_status_goes_over_the_wire_and_back() {
    let status = Status::not_found("pods", "web");
    let text = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
}
