//! What stands before the handlers, by flags: an identity provider, bootstrap tokens, the audit policy, encryption at rest, fairness.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod support {
    pub mod raw;
    pub mod webhook;
}

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use stage2_apiserver::options::ClusterFlags;
use stage2_apiserver::pipeline::{self, StoreKind};
use support::raw::{Answer, Raw, TestCluster};
use support::webhook::{self, Behaviour};

/// A cluster whose flags a test has changed.
async fn cluster_with(change: impl FnOnce(&mut ClusterFlags, &Path)) -> TestCluster {
    let directory = tempfile::tempdir().unwrap();
    let mut flags = ClusterFlags {
        state_dir: Some(directory.path().to_owned()),
        store: Some(StoreKind::Memory),
        secure_port: 0,
        ..ClusterFlags::default()
    };
    change(&mut flags, directory.path());
    TestCluster::new(pipeline::start(&flags).await.unwrap(), directory)
}

/// Who the server thinks that a bearer is.
async fn who(cluster: &TestCluster, token: &str) -> Answer {
    let mut client = Raw::with_identity(cluster, None);
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    client.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &headers, "{}").await
}

fn key_pair() -> EcdsaKeyPair {
    let der = rcgen::KeyPair::generate().unwrap().serialize_der();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new()).unwrap()
}

fn jwks(id: &str, key: &EcdsaKeyPair) -> Value {
    let part = |from: usize| URL_SAFE_NO_PAD.encode(&key.public_key().as_ref()[from..from + 32]);
    json!({ "keys": [{ "kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": part(1), "y": part(33) }] })
}

fn id_token(id: &str, key: &EcdsaKeyPair, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({ "alg": "ES256", "kid": id })), part(claims));
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_provider_vouches_for_its_users() {
    let first = key_pair();
    let document = Arc::new(Mutex::new((String::new(), jwks("1", &first))));
    let shown = document.clone();
    let behaviour: Behaviour = Arc::new(move |path, _| {
        let (issuer, keys) = &*shown.lock();
        match path {
            "/.well-known/openid-configuration" => {
                (200, json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys") }).to_string())
            }
            "/keys" => (200, keys.to_string()),
            _ => (404, String::new()),
        }
    });
    let provider = webhook::start(&["127.0.0.1"], behaviour).await;
    let issuer = format!("https://127.0.0.1:{}", provider.port);
    document.lock().0.clone_from(&issuer);
    let cluster = cluster_with(|flags, directory| {
        let ca = directory.join("idp-ca.crt");
        std::fs::write(&ca, STANDARD.decode(&provider.ca_bundle).unwrap()).unwrap();
        flags.oidc.oidc_issuer_url = Some(issuer.clone());
        flags.oidc.oidc_client_id = Some("kubernetes".into());
        flags.oidc.oidc_ca_file = Some(ca);
        flags.oidc.oidc_groups_claim = "groups".into();
        flags.oidc.oidc_groups_prefix = "idp:".into();
        flags.oidc.oidc_signing_algs = vec!["ES256".into()];
    })
    .await;
    let now = jiff::Timestamp::now().as_second();
    let claims = |change: Value| {
        let mut claims =
            json!({ "iss": issuer, "aud": "kubernetes", "sub": "jane", "groups": ["dev"], "exp": now + 600 });
        for (key, value) in change.as_object().unwrap() {
            claims[key] = value.clone();
        }
        claims
    };
    let answer = who(&cluster, &id_token("1", &first, &claims(json!({})))).await;
    assert_eq!(answer.code, 201, "{}", answer.text());
    let user = answer.json()["status"]["userInfo"].clone();
    assert_eq!(user["username"], format!("{issuer}#jane"));
    assert_eq!(user["groups"], json!(["idp:dev", "system:authenticated"]));
    for wrong in [json!({ "exp": now - 60 }), json!({ "aud": "other" }), json!({ "iss": "https://else" })] {
        assert_eq!(who(&cluster, &id_token("1", &first, &claims(wrong))).await.code, 401);
    }
    assert_eq!(who(&cluster, &id_token("1", &key_pair(), &claims(json!({})))).await.code, 401);
    // The provider changes its key: a key id that isn't known makes the server look again.
    let second = key_pair();
    document.lock().1 = jwks("2", &second);
    let token = id_token("2", &second, &claims(json!({})));
    let deadline = Instant::now() + Duration::from_secs(20);
    while who(&cluster, &token).await.code != 201 {
        assert!(Instant::now() < deadline, "the new key was never fetched");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_joining_node_is_known_by_its_bootstrap_token_until_the_secret_goes() {
    let cluster = cluster_with(|flags, _| flags.enable_bootstrap_token_auth = true).await;
    let mut admin = Raw::admin(&cluster);
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let secret = json!({
        "metadata": { "name": "bootstrap-token-abcdef" }, "type": "bootstrap.kubernetes.io/token",
        "stringData": { "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true" },
    });
    let made = admin.json("POST", secrets, &secret).await;
    assert_eq!(made.code, 201, "{}", made.text());
    admin.get(secrets).await;
    let node = who(&cluster, "abcdef.0123456789abcdef").await;
    assert_eq!(node.json()["status"]["userInfo"]["username"], "system:bootstrap:abcdef", "{}", node.text());
    assert_eq!(
        node.json()["status"]["userInfo"]["groups"],
        json!(["system:bootstrappers", "system:authenticated"])
    );
    assert_eq!(who(&cluster, "abcdef.0123456789abcdeX").await.code, 401);
    admin.json("DELETE", &format!("{secrets}/bootstrap-token-abcdef"), &json!({})).await;
    admin.get(secrets).await;
    assert_eq!(who(&cluster, "abcdef.0123456789abcdef").await.code, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_policy_says_how_much_is_written() {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
        - {level: RequestResponse, resources: [{group: '', resources: [configmaps]}], namespaces: [default]}\n\
        - {level: Metadata, resources: [{group: '', resources: [secrets]}]}\n";
    let cluster = cluster_with(|flags, directory| {
        let file = directory.join("policy.yaml");
        std::fs::write(&file, policy).unwrap();
        flags.audit.audit_policy_file = Some(file);
    })
    .await;
    let mut admin = Raw::admin(&cluster);
    let map = json!({ "metadata": { "name": "m" }, "data": { "k": "v" } });
    admin.json("POST", "/api/v1/namespaces/default/configmaps", &map).await;
    let secret = json!({ "metadata": { "name": "s" }, "stringData": { "k": "hidden-word" } });
    let headers = [("content-type", "application/json"), ("impersonate-user", "jane")];
    admin.send("POST", "/api/v1/namespaces/default/secrets", &headers, secret.to_string()).await;
    admin.get("/api/v1/namespaces/default/pods").await;
    let stranger = [("authorization", "Bearer nobody-knows-it")];
    let unknown = Raw::with_identity(&cluster, None).send("GET", "/api/v1/secrets", &stranger, "").await;
    assert_eq!(unknown.code, 401);
    admin.get("/api/v1/namespaces/default/secrets/absent").await;
    let log = cluster.cluster.state_dir.logs().join("audit.log");
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let absent = |line: &Value| line["requestURI"].as_str().is_some_and(|uri| uri.ends_with("absent"));
    support::raw::wait_for("the last line", || lines().iter().any(absent)).await;
    let lines = lines();
    let of = |resource: &str| {
        lines.iter().find(|l| l["objectRef"]["resource"] == resource && l["verb"] == "create").unwrap()
    };
    let map = of("configmaps");
    assert_eq!((&map["level"], &map["requestObject"]["data"]["k"]), (&json!("RequestResponse"), &json!("v")));
    assert_eq!(map["responseObject"]["metadata"]["name"], "m");
    let secret = of("secrets");
    assert_eq!(
        (&secret["level"], &secret["requestObject"], &secret["responseStatus"]["reason"]),
        (&json!("Metadata"), &Value::Null, &json!("Forbidden"))
    );
    assert_eq!(
        (&secret["user"]["username"], &secret["impersonatedUser"]["username"]),
        (&json!("kubernetes-admin"), &json!("jane"))
    );
    assert!(!lines.iter().any(|line| line["objectRef"]["resource"] == "pods"), "no rule is for pods");
    assert!(!std::fs::read_to_string(&log).unwrap().contains("hidden-word"));
    let missing = lines.iter().find(|line| absent(line)).unwrap();
    assert_eq!(missing["responseStatus"]["message"], "secrets \"absent\" not found");
    let stranger = lines.iter().find(|line| line["responseStatus"]["code"] == 401).unwrap();
    let decided =
        [secret, missing, stranger].map(|line| &line["annotations"]["authorization.k8s.io/decision"]);
    assert_eq!(decided, [&json!("forbid"), &json!("allow"), &Value::Null]);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_sealed_in_the_store_and_plain_to_clients() {
    let word = "a-word-that-occurs-nowhere-else";
    let cluster = cluster_with(|flags, directory| {
        let file = directory.join("encryption.yaml");
        let key = STANDARD.encode([7; 32]);
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - secretbox: {{keys: [{{name: k1, secret: {key}}}]}}\n  - identity: {{}}\n"
        );
        std::fs::write(&file, text).unwrap();
        flags.encryption_provider_config = Some(file);
        flags.store = Some(StoreKind::Embedded);
    })
    .await;
    let mut admin = Raw::admin(&cluster);
    let path = "/api/v1/namespaces/default/secrets";
    let secret = json!({ "metadata": { "name": "s" }, "data": { "k": STANDARD.encode(word) } });
    assert_eq!(admin.json("POST", path, &secret).await.code, 201);
    let map = json!({ "metadata": { "name": "m" }, "data": { "k": "a-plain-word" } });
    assert_eq!(admin.json("POST", "/api/v1/namespaces/default/configmaps", &map).await.code, 201);
    let read = admin.get(&format!("{path}/s")).await;
    assert_eq!(read.json()["data"]["k"], STANDARD.encode(word));
    assert_eq!(admin.get(path).await.json()["items"][0]["data"]["k"], STANDARD.encode(word));
    let stored = std::fs::read(cluster.cluster.state_dir.store().join("store.redb")).unwrap();
    let holds = |text: &str| stored.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("a-plain-word") && holds("k8s:enc:secretbox:v1:k1:"));
    assert!(!holds(&STANDARD.encode(word)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_without_seats_makes_its_own_wait_and_nobody_else() {
    let hook = webhook::start(&["127.0.0.1"], Arc::new(|_, _| (200, "slow".into()))).await;
    let cluster = cluster_with(|flags, _| {
        // One seat a level.
        (flags.max_requests_inflight, flags.max_mutating_requests_inflight) = (1, 1);
    })
    .await;
    let mut admin = Raw::admin(&cluster);
    let configuration = json!({ "metadata": { "name": "slow" }, "webhooks": [{
        "name": "slow.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 3, "failurePolicy": "Ignore",
        "clientConfig": { "url": format!("https://127.0.0.1:{}/", hook.port), "caBundle": hook.ca_bundle },
        "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }],
    }] });
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(admin.json("POST", hooks, &configuration).await.code, 201);
    admin.get(hooks).await;
    let grant = json!({
        "metadata": { "name": "all" }, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated" }],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(admin.json("POST", bindings, &grant).await.code, 201);
    let as_user = |user: &'static str| [("content-type", "application/json"), ("impersonate-user", user)];
    let mut jane = Raw::admin(&cluster);
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(jane.send_when_allowed("GET", pods, &as_user("jane"), "").await.code, 200);
    let running = tokio::spawn(async move {
        let map = json!({ "metadata": { "name": "m" } }).to_string();
        jane.send("POST", "/api/v1/namespaces/default/configmaps", &as_user("jane"), map).await
    });
    support::raw::wait_for("the webhook to be asked", || !hook.seen.lock().is_empty()).await;
    // The only seat of jane's level is taken. joe waits for it, the administrator's level is another.
    let began = Instant::now();
    let other = admin.get("/api/v1/namespaces/default/pods").await;
    assert_eq!(other.code, 200);
    assert!(!other.header("x-kubernetes-pf-flowschema-uid").is_empty());
    let mut joe = Raw::admin(&cluster);
    let waited = joe.send("GET", "/api/v1/namespaces/default/pods", &as_user("joe"), "").await;
    assert_eq!(waited.code, 200);
    assert!(running.is_finished() || began.elapsed() > Duration::from_secs(1), "joe overtook jane");
    assert_eq!(running.await.unwrap().code, 201);
    // A level that lets nobody wait sends them away.
    let reject = json!({ "spec": { "limited": { "nominalConcurrencyShares": 0, "limitResponse": { "type": "Reject", "queuing": null } } } });
    let level = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
    let merge = [("content-type", "application/merge-patch+json")];
    let patched = admin.send("PATCH", &format!("{level}/global-default"), &merge, reject.to_string()).await;
    assert_eq!(patched.code, 200, "{}", patched.text());
    admin.get(level).await;
    let refused = joe.send("GET", "/api/v1/namespaces/default/pods", &as_user("joe"), "").await;
    assert_eq!((refused.code, refused.header("retry-after").as_str()), (429, "1"), "{}", refused.text());
    // What no kind has never becomes a label.
    admin.get("/apis/made.example/v7/words/x/parts").await;
    admin.get("/api/v1/namespaces/default/pods/x/inventions").await;
    let metrics = admin.get("/metrics").await.text();
    assert!(!metrics.contains("made.example") && !metrics.contains("inventions"), "{metrics}");
    let counted = r#"apiserver_flowcontrol_rejected_requests_total{priority_level="global-default",flow_schema="global-default",reason="concurrency-limit"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
}
