use super::*;

fn list(query: &str) -> Result<ListOptions, Status> {
    ListOptions::parse(&Query::parse(Some(query)), query.contains("watch=1"))
}

fn message<T: std::fmt::Debug>(result: Result<T, Status>) -> String {
    result.expect_err("refused").message
}

#[test]
fn contradictions_are_refused_in_kubernetes_words() {
    assert_eq!(
        message(list("resourceVersionMatch=Exact")),
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    );
    assert_eq!(
        message(list("watch=1&sendInitialEvents=true")),
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    );
    assert_eq!(message(list("limit=abc")), "strconv.ParseInt: parsing \"abc\": invalid syntax");
}

#[test]
fn dry_run_knows_only_all() {
    let parse = |q: &str| WriteOptions::parse(&Query::parse(Some(q)), "CreateOptions", false);
    assert!(parse("dryRun=All").expect("fine").dry_run);
    assert_eq!(
        message(parse("dryRun=Some")),
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: []string{\"Some\"}: supported values: \"All\""
    );
}

#[test]
fn orphan_and_policy_exclude_each_other() {
    let body = json!({ "propagationPolicy": "Orphan", "orphanDependents": true });
    assert_eq!(
        message(DeleteOptions::parse(&Query::default(), Some(&body))),
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set"
    );
}
