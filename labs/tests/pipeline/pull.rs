//! Images from registries: found, not found, forbidden, and what isn't even a name.

use std::path::Path;

use crate::cluster::Pipeline;
use crate::registry::{Kind, Outside, PASSWORD, Registry, USER, skip};

#[test]
fn images_are_pulled_and_refusals_are_told_in_the_words_of_kubernetes() {
    if skip() {
        return;
    }
    let mut pipeline = Pipeline::start(&[]);
    let open = Registry::start(&Kind::default());
    always(&pipeline, &open);
    not_found(&pipeline, &open);
    no_such_host(&pipeline);
    no_name(&pipeline);
    never(&pipeline);
    private(&pipeline, &Registry::start(&Kind { private: true, ..Kind::default() }));
    outside(&pipeline);
    pipeline.stop();
}

/// A pod of that image, which is asked for at each start.
fn run(pipeline: &Pipeline, name: &str, image: &str, more: &str) {
    pipeline.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  terminationGracePeriodSeconds: 1\n{more}  containers:\n  - name: c\n    image: {image:?}\n    imagePullPolicy: Always\n"
    ));
}

fn runs(pipeline: &Pipeline, name: &str, motd: &str) {
    pipeline.wait(&format!("{name} runs"), || {
        pipeline.get(&format!("pod {name}"), "{.status.phase}") == "Running"
    });
    assert_eq!(pipeline.ok(&["exec", name, "--", "cat", "/etc/motd"]).trim(), motd);
}

/// Reason and message of the waiting container, at one moment.
fn waiting(pipeline: &Pipeline, name: &str) -> (String, String) {
    let path = "{.status.containerStatuses[0].state.waiting";
    let both = pipeline.get(&format!("pod {name}"), &format!("{path}.reason}}\n{path}.message}}"));
    let (reason, message) = both.split_once("\n").unwrap_or_default();
    (reason.to_owned(), message.to_owned())
}

/// The pod's events, a line each: `Normal Pulling spec.containers{c} Pulling image …`.
fn events(pipeline: &Pipeline, name: &str) -> String {
    let path = "{range .items[*]}{.type} {.reason} {.involvedObject.fieldPath} {.message}{\"\\n\"}{end}";
    pipeline.get(&format!("events --field-selector involvedObject.name={name}"), path)
}

fn has_event(pipeline: &Pipeline, name: &str, line: &str) {
    pipeline.wait(&format!("{name} has the event {line:?}"), || {
        events(pipeline, name).lines().any(|l| l == line)
    });
}

/// Waits for both reasons of a pull that fails; the message of the first.
fn fails_and_backs_off(pipeline: &Pipeline, name: &str, image: &str) -> String {
    let mut seen: Vec<(String, String)> = vec![];
    let has = |seen: &[(String, String)], reason: &str| seen.iter().any(|(r, _)| r == reason);
    pipeline.wait("ErrImagePull, then ImagePullBackOff", || {
        seen.push(waiting(pipeline, name));
        has(&seen, "ErrImagePull") && has(&seen, "ImagePullBackOff")
    });
    let message = |reason: &str| seen.iter().find(|(r, _)| r == reason).unwrap().1.clone();
    let why = message("ErrImagePull");
    assert_eq!(message("ImagePullBackOff"), format!("Back-off pulling image {image:?}: ErrImagePull: {why}"));
    let at = "spec.containers{c}";
    has_event(pipeline, name, &format!("Normal Pulling {at} Pulling image {image:?}"));
    has_event(pipeline, name, &format!("Warning Failed {at} Failed to pull image {image:?}: {why}"));
    has_event(pipeline, name, &format!("Warning Failed {at} Error: ErrImagePull"));
    has_event(pipeline, name, &format!("Normal BackOff {at} Back-off pulling image {image:?}"));
    has_event(pipeline, name, &format!("Warning Failed {at} Error: ImagePullBackOff"));
    pipeline.ok(&["delete", "pod", name]);
    println!("{name}: {why}");
    why
}

fn always(pipeline: &Pipeline, registry: &Registry) {
    let image = registry.push(pipeline, "lib/app:1", "pulled");
    run(pipeline, "puller", &image, "");
    runs(pipeline, "puller", "pulled");
    assert!(registry.log().contains("/v2/lib/app/blobs/sha256:"), "{}", registry.log());
    let told = events(pipeline, "puller");
    println!("{told}");
    assert!(told.contains(&format!("Normal Pulling spec.containers{{c}} Pulling image {image:?}")), "{told}");
    // `Successfully pulled image "…" in 81ms (82ms including waiting). Image size: 1096542 bytes.`
    let start = format!("Normal Pulled spec.containers{{c}} Successfully pulled image {image:?} in ");
    let pulled = told.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
    let (took, rest) = pulled.split_once(" (").unwrap();
    let (waited, size) = rest.split_once(" including waiting). Image size: ").unwrap();
    assert!(took.ends_with('s') && waited.ends_with('s'), "{pulled}");
    assert!(size.strip_suffix(" bytes.").unwrap().parse::<u64>().unwrap() > 100_000, "{pulled}");
    let id = pipeline.get("pod puller", "{.status.containerStatuses[0].imageID}");
    assert!(id.starts_with(&format!("{}/lib/app@sha256:", registry.address)), "{id}");
    // The same registry by its other name.
    run(pipeline, "by-name", &image.replace("127.0.0.1", "localhost"), "");
    runs(pipeline, "by-name", "pulled");
    pipeline.ok(&["delete", "pod", "puller", "by-name"]);
}

fn not_found(pipeline: &Pipeline, registry: &Registry) {
    let image = format!("{}/lib/app:none", registry.address);
    run(pipeline, "none", &image, "");
    let why = fails_and_backs_off(pipeline, "none", &image);
    assert_eq!(
        why,
        format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image {image:?}: failed to resolve reference {image:?}: {image}: not found"
        )
    );
}

/// Asked by the host, through the pipeline's process: the text is Go's all the same.
fn no_such_host(pipeline: &Pipeline) {
    run(pipeline, "nowhere", "registry.invalid/app:1", "");
    let why = fails_and_backs_off(pipeline, "nowhere", "registry.invalid/app:1");
    let expected = "failed to do request: Head \"https://registry.invalid/v2/app/manifests/1\": dial tcp: lookup registry.invalid: ";
    assert!(why.contains(expected), "{why}");
}

fn no_name(pipeline: &Pipeline) {
    run(pipeline, "misnamed", "Bad_Ref::x", "");
    pipeline.wait("the name is refused", || waiting(pipeline, "misnamed").0 == "InvalidImageName");
    let why = "Failed to apply default image tag \"Bad_Ref::x\": couldn't parse image name \"Bad_Ref::x\": invalid reference format: repository name (library/Bad_Ref) must be lowercase";
    assert_eq!(waiting(pipeline, "misnamed").1, why);
    has_event(pipeline, "misnamed", &format!("Warning InspectFailed spec.containers{{c}} {why}"));
    has_event(pipeline, "misnamed", "Warning Failed spec.containers{c} Error: InvalidImageName");
    pipeline.ok(&["delete", "pod", "misnamed"]);
}

fn never(pipeline: &Pipeline) {
    pipeline.ok(&["run", "never", "--image=absent.test/app:1", "--image-pull-policy=Never"]);
    pipeline.wait("nothing is pulled", || waiting(pipeline, "never").0 == "ErrImageNeverPull");
    let why = "Container image \"absent.test/app:1\" is not present with pull policy of Never";
    assert_eq!(waiting(pipeline, "never").1, why);
    has_event(pipeline, "never", &format!("Warning ErrImageNeverPull spec.containers{{never}} {why}"));
    has_event(pipeline, "never", "Warning Failed spec.containers{never} Error: ErrImageNeverPull");
    pipeline.ok(&["delete", "pod", "never", "--grace-period=1"]);
}

fn private(pipeline: &Pipeline, registry: &Registry) {
    let image = registry.push(pipeline, "team/app:1", "private");
    run(pipeline, "stranger", &image, "");
    let why = fails_and_backs_off(pipeline, "stranger", &image);
    // containerd 1.6, and those after it.
    assert!(why.contains("401 Unauthorized") || why.contains("authorization failed"), "{why}");

    run(pipeline, "forgetful", &image, "  imagePullSecrets: [{name: nope}]\n");
    let text =
        "Unable to retrieve some image pull secrets (nope); attempting to pull the image may not succeed.";
    has_event(pipeline, "forgetful", &format!("Warning FailedToRetrieveImagePullSecret  {text}"));
    pipeline.ok(&["delete", "pod", "forgetful"]);

    pipeline.ok(&[
        "create",
        "secret",
        "docker-registry",
        "registry",
        &format!("--docker-server={}", registry.address),
        &format!("--docker-username={USER}"),
        &format!("--docker-password={PASSWORD}"),
    ]);
    run(pipeline, "member", &image, "  imagePullSecrets: [{name: registry}]\n");
    runs(pipeline, "member", "private");

    let secrets = r#"{"imagePullSecrets":[{"name":"registry"}]}"#;
    pipeline.ok(&["create", "serviceaccount", "builder"]);
    pipeline.ok(&["patch", "serviceaccount", "builder", "-p", secrets]);
    run(pipeline, "by-account", &image, "  serviceAccountName: builder\n");
    runs(pipeline, "by-account", "private");
    assert_eq!(pipeline.get("pod by-account", "{.spec.imagePullSecrets[*].name}"), "registry");
    pipeline.ok(&["delete", "pod", "member", "by-account"]);
}

/// A registry that only the host reaches, over TLS.
fn outside(pipeline: &Pipeline) {
    let network = Outside::new();
    let pki = pipeline.dir().join("pki");
    let tls = (pki.join("apiserver.crt"), pki.join("apiserver.key"));
    let registry = Registry::start(&Kind {
        tls: Some((&tls.0, &tls.1)),
        elsewhere: Some((network.namespace(), Outside::ADDRESS)),
        ..Kind::default()
    });
    trust(pipeline, &registry.address);
    let image = registry.push(pipeline, "far/app:1", "from outside");
    run(pipeline, "traveller", &image, "");
    runs(pipeline, "traveller", "from outside");
    pipeline.ok(&["delete", "pod", "traveller"]);
}

/// Tells containerd not to look at a registry's certificate.
fn trust(pipeline: &Pipeline, registry: &str) {
    let folder: &Path = &pipeline.dir().join("nodes/node-1/certs.d").join(registry);
    std::fs::create_dir_all(folder).unwrap();
    let text =
        format!("server = \"https://{registry}\"\n[host.\"https://{registry}\"]\n  skip_verify = true\n");
    std::fs::write(folder.join("hosts.toml"), text).unwrap();
}
