//! Sealed values: unreadable in the store, readable above, rotated by writing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::config::parse;
use super::*;
use crate::storage::memory::MemoryStorage;

const KEY: &str = "/registry/secrets/default/s";

fn file(providers: &str) -> String {
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n";
    format!("{head}- resources: [secrets]\n  providers:\n{providers}")
}

fn keys(algorithm: &str, names: &[(&str, u8, usize)]) -> String {
    let mut text = format!("  - {algorithm}:\n      keys:\n");
    for (name, byte, length) in names {
        let secret = STANDARD.encode(vec![*byte; *length]);
        text.push_str(&format!("      - {{name: {name}, secret: {secret}}}\n"));
    }
    text
}

fn storage(inner: &Arc<dyn Storage>, providers: &str) -> EncryptedStorage {
    EncryptedStorage::new(inner.clone(), parse(&file(providers)).expect("a file"))
}

async fn put(storage: &dyn Storage, key: &str, value: &'static str) {
    let write = Write::Put(Bytes::from_static(value.as_bytes()));
    storage.commit(key, Expect::Anything, write).await.expect("written");
}

async fn get(storage: &dyn Storage, key: &str) -> Result<String, StorageError> {
    let found = storage.get(key).await?.expect("there");
    Ok(String::from_utf8_lossy(&found.value).into_owned())
}

#[tokio::test]
async fn every_provider_seals_and_opens() {
    for (algorithm, length) in
        [("aesgcm", 16), ("aesgcm", 32), ("aescbc", 24), ("aescbc", 32), ("secretbox", 32)]
    {
        let inner: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
        let storage = storage(&inner, &keys(algorithm, &[("k1", 1, length)]));
        put(&storage, KEY, "{\"top\":\"secret\"}").await;
        put(&storage, "/registry/configmaps/default/c", "plain").await;
        let stored = get(&*inner, KEY).await.expect("there");
        assert!(stored.starts_with(&format!("k8s:enc:{algorithm}:v1:k1:")), "{stored}");
        assert!(!stored.contains("secret\""));
        assert_eq!(get(&storage, KEY).await.expect("opened"), "{\"top\":\"secret\"}");
        assert_eq!(get(&*inner, "/registry/configmaps/default/c").await.expect("there"), "plain");
        let page = storage.list(ListRequest::all("/registry/secrets/")).await.expect("listed");
        assert_eq!(page.items[0].value, "{\"top\":\"secret\"}");
        let mut watch = storage.watch("/registry/secrets/", Revision(0));
        assert_eq!(
            watch.next().await.expect("an event").expect("opened").value.expect("a value"),
            "{\"top\":\"secret\"}"
        );
    }
}

#[tokio::test]
async fn an_old_key_still_opens_and_a_write_takes_the_new_one() {
    let inner: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    put(&storage(&inner, "  - identity: {}\n"), KEY, "{}").await;
    let first = format!("{}  - identity: {{}}\n", keys("secretbox", &[("old", 1, 32)]));
    let storage_with_old = storage(&inner, &first);
    assert_eq!(get(&storage_with_old, KEY).await.expect("plain"), "{}");
    assert!(storage_with_old.is_outdated(KEY).await.expect("known"));
    put(&storage_with_old, KEY, "{}").await;
    assert!(!storage_with_old.is_outdated(KEY).await.expect("known"));
    let rotated = storage(&inner, &keys("secretbox", &[("new", 2, 32), ("old", 1, 32)]));
    assert_eq!(get(&rotated, KEY).await.expect("opened"), "{}");
    assert!(rotated.is_outdated(KEY).await.expect("known"));
    put(&rotated, KEY, "{}").await;
    assert!(get(&*inner, KEY).await.expect("there").starts_with("k8s:enc:secretbox:v1:new:"));
    let without = storage(&inner, &keys("secretbox", &[("old", 1, 32)]));
    let error = get(&without, KEY).await.expect_err("nobody has the key");
    assert!(error.to_string().contains("no matching key was found for the provided secretbox transformer"));
    let plain_only = storage(&inner, "  - identity: {}\n");
    assert!(
        get(&plain_only, KEY).await.expect_err("sealed").to_string().contains("no matching prefix found")
    );
}

#[tokio::test]
async fn changed_or_exchanged_bytes_are_noticed() {
    let inner: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let storage = storage(&inner, &keys("aesgcm", &[("k", 1, 32)]));
    put(&storage, KEY, "{}").await;
    let stored = inner.get(KEY).await.expect("read").expect("there").value;
    let other = "/registry/secrets/default/other";
    inner.commit(other, Expect::Absent, Write::Put(stored.clone())).await.expect("copied");
    assert!(get(&storage, other).await.is_err());
    let mut changed = stored.to_vec();
    *changed.last_mut().expect("bytes") ^= 1;
    inner.commit(KEY, Expect::Anything, Write::Put(changed.into())).await.expect("written");
    assert!(get(&storage, KEY).await.is_err());
}

#[test]
fn a_wrong_file_is_refused_without_showing_a_key() {
    let refused = |text: &str| parse(text).expect_err(text);
    let short = refused(&file(&keys("secretbox", &[("k", 7, 16)])));
    assert!(
        short.contains("resources[0].providers[0].secretbox.keys[0].secret")
            && short.contains("expected length")
    );
    assert!(!short.contains(&STANDARD.encode([7; 16])));
    assert!(refused(&file("  - kms: {name: x}\n")).contains("kms"));
    assert!(refused(&file("  - {}\n")).contains("provider does not contain any"));
    let both = format!("{}    identity: {{}}\n", keys("secretbox", &[("k", 7, 32)]));
    assert!(refused(&file(&both)).contains("more than one provider"));
    assert!(refused("apiVersion: v1\nkind: Secret\nresources: []\n").contains("unexpected Secret"));
    let rules =
        parse(&file("  - identity: {}\n").replace("secrets", "secrets, '*.apps', widgets.example.com"));
    let prefixes: Vec<String> = rules.expect("a file").into_iter().map(|rule| rule.prefix).collect();
    assert!(prefixes.contains(&"/registry/deployments/".to_owned()), "{prefixes:?}");
    assert_eq!(
        (prefixes[0].as_str(), prefixes.last().map(String::as_str)),
        ("/registry/secrets/", Some("/registry/example.com/widgets/"))
    );
    let rules = parse(&file("  - identity: {}\n").replace("secrets", "'*.example.com'")).expect("a file");
    assert_eq!(rules[0].prefix, "/registry/example.com/");
    let refused = parse(&file("  - identity: {}\n").replace("secrets", "secrts"));
    assert_eq!(
        refused.err().as_deref(),
        Some("resources[0].resources: Invalid value: \"secrts\": no such resource")
    );
}
