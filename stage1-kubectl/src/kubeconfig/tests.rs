#![expect(clippy::disallowed_methods, reason = "tests write the files that are read")]

use super::*;

const FIRST: &str = r#"
apiVersion: v1
kind: Config
current-context: ""
clusters:
- name: a
  cluster: {server: "https://one:6443", certificate-authority: pki/ca.crt}
users:
- name: me
  user: {tokenFile: /etc/token}
contexts:
- name: here
  context: {cluster: a, user: me, namespace: dev}
"#;
const SECOND: &str = r#"
current-context: here
clusters:
- name: a
  cluster: {server: "https://two:6443"}
- name: b
  cluster: {server: "https://b"}
users: null
contexts:
- name: broken
  context: {cluster: nowhere, user: me}
"#;

fn write_and_load() -> Config {
    let dir = tempfile::tempdir().unwrap();
    let paths = [dir.path().join("first"), dir.path().join("missing"), dir.path().join("second")];
    std::fs::write(&paths[0], FIRST).unwrap();
    std::fs::write(&paths[2], SECOND).unwrap();
    let config = load(&paths).unwrap();
    let ca = config.clusters[0].cluster.certificate_authority.clone().unwrap();
    assert_eq!(ca, dir.path().join("pki/ca.crt").to_string_lossy());
    config
}

#[test]
fn files_are_merged_and_the_first_definition_wins() {
    let resolved = write_and_load().resolve(None).unwrap();
    assert_eq!(resolved.cluster.server, "https://one:6443");
    assert_eq!(resolved.namespace.as_deref(), Some("dev"));
    assert_eq!(resolved.user.token_file.as_deref(), Some("/etc/token"));
}

#[test]
fn names_that_lead_nowhere_are_reported() {
    let config = write_and_load();
    assert!(matches!(config.resolve(Some("nope")), Err(ConfigError::NoContext(_))));
    assert!(matches!(config.resolve(Some("broken")), Err(ConfigError::NoCluster(_))));
    assert!(matches!(Config::default().resolve(None), Err(ConfigError::Empty)));
    assert!(matches!(load_file(Path::new("/nonexistent/x")), Err(ConfigError::Read { .. })));
}
