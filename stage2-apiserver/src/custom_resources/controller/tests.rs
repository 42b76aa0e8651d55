//! Two API servers on one store.

use std::sync::Arc;

use serde_json::json;
use stage1_kubectl::object::Object;
use tokio_util::sync::CancellationToken;

use super::super::CustomResources;
use crate::custom_resources::definitions_info;
use crate::storage::Storage;
use crate::storage::memory::MemoryStorage;
use crate::store::Stores;
use crate::watch_cache::{At, Caches};

fn server(storage: &Arc<dyn Storage>) -> Arc<CustomResources> {
    CustomResources::new(Stores::new(Caches::new(storage.clone())))
}

#[tokio::test]
async fn a_kind_that_one_server_established_is_known_to_the_other_at_once() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let (one, two) = (server(&storage), server(&storage));
    let stop = CancellationToken::new();
    let task = super::run(one.clone(), stop.clone());
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { stop.run_until_cancelled(task).await }
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "ws.example.com", "uid": "1" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "ws", "singular": "w", "kind": "W", "listKind": "WList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
        "status": { "conditions": null, "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": ["v1"] },
    });
    one.definitions.create(Object::from_value(definition).unwrap(), false).await.unwrap();
    let established = tokio::time::timeout(std::time::Duration::from_secs(10), async {
        loop {
            let found = one.definitions.get(None, "ws.example.com", At::Consistent).await.unwrap();
            if super::super::definition::is_true(&found.object, "Established") {
                break;
            }
            tokio::task::yield_now().await;
        }
    });
    established.await.expect("established in time");
    assert!(two.find("example.com", "v1", "ws").is_none(), "the other server wasn't asked yet");
    assert!(two.find_fresh("example.com", "v1", "ws").await.unwrap().is_some());
    assert!(two.find_fresh("example.com", "v1", "vs").await.unwrap().is_none());
    assert_eq!(two.catalog().versions("example.com"), ["v1"]);
    assert_eq!(definitions_info().kind, "CustomResourceDefinition");
    stop.cancel();
    running.await.unwrap();
}
