//! Bombs and forgeries over the wire.
//!
//! # In Kubernetes
//! `test/integration/apiserver`.

use serde_json::{Value, json};

use super::raw::{Raw, cluster};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: (&str, &str) = ("content-type", "application/json");

/// Memory that the whole of this may have needed at most, in kB: bodies are 3 MiB, so nothing here needs more.
const MOST_MEMORY_KB: u64 = 500_000;

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

/// Sends a body that must be refused with one of these codes, and looks whether the server is well.
async fn refused(client: &mut Raw, what: &str, request: (&str, &str, &str), body: Vec<u8>, codes: &[u16]) {
    let (method, path, content_type) = request;
    let answer = client.send(method, path, &[("content-type", content_type)], body).await;
    let said: String = answer.text().chars().take(160).collect();
    println!("{what}: {} {said}", answer.code);
    assert!(codes.contains(&answer.code), "{what}: {} isn't one of {codes:?}: {said}", answer.code);
    assert!(answer.body.len() < 1 << 20, "{what}: the refusal is {} bytes long", answer.body.len());
    assert_eq!(client.get("/readyz").await.code, 200, "{what}");
}

/// Ten lists of ten aliases each, nine deep: 10⁹ strings.
fn yaml_bomb() -> Vec<u8> {
    let mut text = String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [lol]\n");
    for level in 1..10 {
        let inner = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", [inner.as_str(); 10].join(", ")));
    }
    text.into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_grow_or_sink_are_refused() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let deep = |open: &str, close: &str, levels: usize| {
        format!("{}{}", open.repeat(levels), close.repeat(levels)).into_bytes()
    };
    let post = |kind: &'static str| ("POST", MAPS, kind);
    let json = post("application/json");
    refused(&mut client, "a YAML bomb", post("application/yaml"), yaml_bomb(), &[400, 413]).await;
    refused(&mut client, "JSON, 100,000 deep", json, deep("[", "]", 100_000), &[400]).await;
    refused(&mut client, "JSON objects, 100,000 deep", json, deep("{\"a\":", "}", 100_000), &[400]).await;
    let yaml = deep("[", "]", 100_000);
    refused(&mut client, "YAML, 100,000 deep", post("application/yaml"), yaml, &[400]).await;
    let nested = format!(
        "{{\"metadata\":{{\"name\":\"x\"}},\"data\":{}1{}}}",
        "{\"a\":".repeat(5000),
        "}".repeat(5000)
    );
    refused(&mut client, "a field, 5,000 deep", json, nested.into_bytes(), &[400]).await;
    let digits = format!("{{\"metadata\":{{\"name\":\"x\"}},\"data\":{}}}", "9".repeat(1 << 20));
    refused(&mut client, "a number of a million digits", json, digits.into_bytes(), &[400]).await;
    refused(&mut client, "an empty body", json, Vec::new(), &[400]).await;
    refused(&mut client, "zeros", json, vec![0; 1 << 20], &[400]).await;
    let protobuf = post("application/vnd.kubernetes.protobuf");
    let mut lengths = b"k8s\0".to_vec();
    lengths.extend([0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    refused(&mut client, "a protobuf length of 2⁶³", protobuf, lengths, &[400]).await;
    let nested: Vec<u8> =
        b"k8s\0".iter().copied().chain([0x0a, 0x02].into_iter().cycle().take(100_000)).collect();
    refused(&mut client, "protobuf in protobuf", protobuf, nested, &[400]).await;
    no_more_memory_than_bodies_need();
}

fn no_more_memory_than_bodies_need() {
    let status = procfs::process::Process::myself().unwrap().status().unwrap();
    assert!(status.vmhwm.unwrap() < MOST_MEMORY_KB, "{} kB", status.vmhwm.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_that_grow_are_refused_and_change_nothing() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    assert_eq!(client.json("POST", MAPS, &map("kept")).await.code, 201);
    let path = format!("{MAPS}/kept");
    let patch = |kind: &'static str| ("PATCH", path.as_str(), kind);
    let many = vec![json!({ "op": "test", "path": "/data/a", "value": "1" }); 10_001];
    let jsonpatch = patch("application/json-patch+json");
    refused(&mut client, "10,001 operations", jsonpatch, json!(many).to_string().into(), &[413]).await;
    // Each copy doubles what is there: 2⁶⁰ in the end.
    let doubling = |from: &str, to: &str| json!({ "op": "copy", "from": from, "path": to });
    let mut copies = vec![json!({ "op": "add", "path": "/data/b", "value": { "x": "x".repeat(1000) } })];
    copies.extend((0..60).map(|round| doubling("/data", &format!("/data/c{round}"))));
    refused(&mut client, "copies of copies", jsonpatch, json!(copies).to_string().into(), &[400, 413, 422])
        .await;
    let deep = format!("{{\"data\":{}1{}}}", "{\"a\":".repeat(20_000), "}".repeat(20_000));
    for kind in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
        refused(&mut client, "a patch, 20,000 deep", patch(kind), deep.clone().into(), &[400, 422]).await;
    }
    let apply = ("PATCH", &*format!("{MAPS}/bomb?fieldManager=m"), "application/apply-patch+yaml");
    refused(&mut client, "an applied YAML bomb", apply, yaml_bomb(), &[400, 413]).await;
    let kept = client.get(&path).await.json();
    assert_eq!(kept["data"], json!({ "a": "1" }));
    no_more_memory_than_bodies_need();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_lead_nowhere_but_to_their_own_object() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    for namespace in ["a", "ab"] {
        let made = json!({ "metadata": { "name": namespace } });
        assert_eq!(client.json("POST", "/api/v1/namespaces", &made).await.code, 201);
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        assert_eq!(client.json("POST", &path, &map(&format!("of-{namespace}"))).await.code, 201);
    }
    // A namespace that another's name begins with, and a kind whose name another's begins with.
    let of_a = client.get("/api/v1/namespaces/a/configmaps").await.json();
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&of_a), ["of-a"]);
    assert_eq!(names(&client.get("/api/v1/namespaces/a/pods").await.json()), [""; 0]);
    for name in
        ["..", "%2e%2e", "..%2fab%2fof-ab", "%2e%2e%2fab", "of-a%00", "of-a%2f..", "OF-A", "of-a%0d%0aX:y"]
    {
        let answer = client.get(&format!("/api/v1/namespaces/a/configmaps/{name}")).await;
        println!("{name}: {}", answer.code);
        assert!((400..500).contains(&answer.code), "{name}: {}", answer.code);
    }
    for name in ["../x", "a/b", "A", "", "-a", "a\u{0}b", "a\nb", ".", "..", &"a".repeat(254)] {
        let answer = client.json("POST", MAPS, &map(name)).await;
        println!("{name:.20?}: {}", answer.code);
        assert!([400, 422].contains(&answer.code), "{name:?}: {}", answer.code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_and_headers_that_lie_are_refused() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let long = format!("a in ({})", vec!["x"; 5000].join(","));
    for (query, code) in [
        ("labelSelector=a%20in%20(", 400),
        ("labelSelector=%00", 400),
        ("fieldSelector=spec.nonsense%3Dx", 400),
        ("limit=-99999999999999999999", 400),
        // So does Kubernetes.
        ("resourceVersion=-1", 500),
        ("resourceVersion=99999999999999999999", 500),
        ("continue=AAAA", 400),
        ("timeoutSeconds=x&watch=1", 400),
        (&*format!("labelSelector={}", long.replace(' ', "%20")), 200),
    ] {
        let answer = client.get(&format!("{MAPS}?{query}")).await;
        println!("{query:.40}: {} {:.100}", answer.code, answer.text());
        assert_eq!(answer.code, code, "{query:.60}: {}", answer.text());
    }
    // No answer has a header that a request put there.
    let asked = [("accept", "application/json"), ("user-agent", "x"), ("x-remote-user", "system:admin")];
    let answer = client.send("GET", "/apis/authentication.k8s.io", &asked, "").await;
    assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("x-remote")), "{:?}", answer.headers);
    let mut nobody = Raw::with_identity(&cluster, None);
    let forged = [("x-remote-user", "kubernetes-admin"), ("x-remote-group", "system:masters")];
    assert_eq!(
        nobody.send("GET", MAPS, &forged, "").await.code,
        403,
        "a front proxy must show its certificate"
    );
    for token in ["", "a", "a.b.c", "..", &"x".repeat(100_000), "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."] {
        let bearer = format!("Bearer {token}");
        let answer = nobody.send("GET", MAPS, &[("authorization", &bearer)], "").await;
        println!("token {token:.12}: {}", answer.code);
        assert!([400, 401, 403, 431].contains(&answer.code), "{token:.40}: {}", answer.code);
    }
    // An upgrade where there is nothing to upgrade to is an ordinary request, and what follows it isn't smuggled past the gates.
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket"), JSON];
    let smuggled = "GET /api/v1/secrets HTTP/1.1\r\nhost: x\r\n\r\n";
    let answer = nobody.send("GET", "/version", &upgrade, smuggled).await;
    assert_eq!(answer.code, 200);
    assert!(answer.json()["gitVersion"].is_string(), "{}", answer.text());
    assert_eq!(client.get("/readyz").await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_object_is_no_deeper_than_readers_of_its_list_follow() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "wells.ex.io" },
        "spec": { "group": "ex.io", "scope": "Cluster", "names": { "plural": "wells", "kind": "Well" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }] },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.json("POST", definitions, &definition).await.code, 201);
    let wells = "/apis/ex.io/v1/wells";
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while client.get(wells).await.code != 200 {
        assert!(std::time::Instant::now() < deadline, "the kind is never served");
    }
    let well = |name: &str, levels: usize| {
        let spec = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        format!(r#"{{"apiVersion":"ex.io/v1","kind":"Well","metadata":{{"name":"{name}"}},"spec":{spec}}}"#)
    };
    let answer = client.send("POST", wells, &[JSON], well("deep", 99)).await;
    assert_eq!(answer.code, 201, "{}", answer.text());
    refused(&mut client, "a well, 101 deep", ("POST", wells, JSON.1), well("deeper", 101).into(), &[400])
        .await;
    let add =
        json!([{ "op": "add", "path": format!("/spec{}", "/a".repeat(98)), "value": { "a": { "a": 1 } } }]);
    let path = format!("{wells}/deep");
    let patch = ("PATCH", path.as_str(), "application/json-patch+json");
    refused(&mut client, "a well dug deeper", patch, add.to_string().into(), &[422]).await;
    let list = client.get(wells).await;
    let read: Value = serde_json::from_slice(&list.body).expect("a list that can be read");
    assert_eq!(read["items"][0]["metadata"]["name"], "deep");
    assert_eq!(read["items"][0]["metadata"]["managedFields"][0]["operation"], "Update");
}
