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

#[test]
fn a_name_stands_once_in_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let entry = |server: &str| format!("- {{name: a, cluster: {{server: {server}}}}}\n");
    std::fs::write(file.path(), format!("clusters:\n{}{}", entry("https://x"), entry("https://y"))).unwrap();
    let error = load_file(file.path()).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "error converting *[]NamedCluster into *map[string]*api.Cluster: duplicate name \"a\" in list"
        ),
        "{error}"
    );
}

#[test]
fn a_plugin_that_is_a_path_is_found_beside_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = |command: &str| {
        format!(
            "- {{name: {0}, user: {{exec: {{apiVersion: v1, command: {1}}}}}}}\n",
            command.replace('/', ""),
            command
        )
    };
    std::fs::write(dir.path().join("config"), format!("users:\n{}{}", plugin("plug"), plugin("bin/plug2")))
        .unwrap();
    let config = load_file(&dir.path().join("config")).unwrap();
    let commands: Vec<&str> =
        config.users.iter().filter_map(|one| Some(one.user.exec.as_ref()?.command.as_str())).collect();
    assert_eq!(commands, ["plug", dir.path().join("bin/plug2").to_str().unwrap()]);
}

#[test]
fn preferences_and_extensions_of_all_files_count() {
    let config =
        |text: &str| -> Config { serde_json::from_value(serde_yaml::from_str(text).unwrap()).unwrap() };
    let mut first = config("preferences: {}\nextensions: [{name: a, extension: {v: 1}}]\n");
    first.merge(config(
        "preferences: {colors: true, extensions: [{name: p, extension: {}}]}\nextensions: [{name: a, extension: {v: 2}}, {name: b, extension: {}}]\n",
    ));
    let preferences = first.preferences.unwrap();
    assert_eq!(preferences["colors"], true);
    assert_eq!(preferences["extensions"][0]["name"], "p");
    let extensions = first.extensions.unwrap();
    assert_eq!(extensions[0]["extension"]["v"], 1, "the first file's");
    assert_eq!(extensions[1]["name"], "b");
}
