//! Encryption at rest: what the store keeps of some resources is unreadable without a key that is kept elsewhere.
//!
//! *Step 2 of a pod's journey, its last metre.* Before: an object is bytes. After: they are sealed with the first key of the provider
//! file and go to the store under a prefix that says by which provider and key: `k8s:enc:secretbox:v1:key1:`.
//!
//! A wrapper around any [`Storage`], so that everything above works with plain objects and every store below keeps sealed ones. Reading takes
//! the provider and key that the prefix names; that makes rotation possible: put a new key first, write every Secret once
//! (`kubectl get secrets -A -o json | kubectl replace -f -`), take the old key away. The subtle thing is that such a write changes nothing
//! about the object, and must be made nevertheless: [`Storage::is_outdated`] says so.
//!
//! # Invariants
//! 1. A value of a resource that the file names is never stored plain, unless `identity` is its first provider.
//! 2. A sealed value is never handed out as if it were plain.
//! 3. AES-GCM binds a value to its key in the store: exchanging two Secrets' bytes makes both unreadable.
//!
//! # In Kubernetes
//! `apiserver/pkg/server/options/encryptionconfig`, `apiserver/pkg/storage/value`. Left out: `kms`, reloading the file while running,
//! AES-192 for aesgcm.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

pub mod config;
pub mod provider;

use super::{
    Expect, Freshness, KeyValue, ListRequest, Page, Revision, Storage, StorageError, WatchItem, WatchStream,
    Write,
};
use provider::Provider;

/// The providers of keys with a prefix; the first one writes.
#[derive(Debug, Clone)]
pub struct Rule {
    /// `/registry/secrets/`
    pub prefix: String,
    /// In the order of the file.
    pub providers: Vec<Provider>,
}

impl Rule {
    /// What is stored of a value.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn seal(&self, key: &str, value: &[u8]) -> Result<Bytes, String> {
        self.providers.first().expect("a rule has a provider").seal(key, value)
    }

    /// The value of what is stored, and whether it isn't as [`Rule::seal`] would store it.
    ///
    /// # Errors
    /// Nobody can read it.
    pub fn open(&self, key: &str, stored: &[u8]) -> Result<(Bytes, bool), String> {
        for (index, provider) in self.providers.iter().enumerate() {
            if let Some(opened) = provider.open(key, stored) {
                let (value, outdated) = opened?;
                return Ok((value, outdated || index > 0));
            }
        }
        Err("no matching prefix found".into())
    }
}

/// A store that keeps some values sealed.
pub struct EncryptedStorage {
    inner: Arc<dyn Storage>,
    rules: Arc<Vec<Rule>>,
}

impl EncryptedStorage {
    /// Around a store; the first rule whose prefix fits a key is its rule.
    pub fn new(inner: Arc<dyn Storage>, rules: Vec<Rule>) -> Self {
        EncryptedStorage { inner, rules: Arc::new(rules) }
    }
}

fn rule_of<'a>(rules: &'a [Rule], key: &str) -> Option<&'a Rule> {
    rules.iter().find(|rule| key.starts_with(&rule.prefix))
}

fn failed(key: &str, why: &str) -> StorageError {
    StorageError::Unavailable(format!("unable to transform key {key:?}: {why}"))
}

fn opened(rules: &[Rule], mut found: KeyValue) -> Result<KeyValue, StorageError> {
    if let Some(rule) = rule_of(rules, &found.key) {
        found.value = rule.open(&found.key, &found.value).map_err(|why| failed(&found.key, &why))?.0;
    }
    Ok(found)
}

fn opened_conflict(rules: &[Rule], error: StorageError) -> StorageError {
    match error {
        StorageError::Conflict { key, current: Some(current) } => match opened(rules, current) {
            Ok(current) => StorageError::Conflict { key, current: Some(current) },
            Err(error) => error,
        },
        other => other,
    }
}

fn opened_item(rules: &[Rule], mut item: WatchItem) -> Result<WatchItem, StorageError> {
    if let (Some(rule), Some(value)) = (rule_of(rules, &item.key), &item.value) {
        item.value = Some(rule.open(&item.key, value).map_err(|why| failed(&item.key, &why))?.0);
    }
    item.previous = item.previous.map(|previous| opened(rules, previous)).transpose()?;
    Ok(item)
}

impl Storage for EncryptedStorage {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<KeyValue>, StorageError>> {
        async move { self.inner.get(key).await?.map(|found| opened(&self.rules, found)).transpose() }.boxed()
    }

    fn list<'a>(&'a self, request: ListRequest) -> BoxFuture<'a, Result<Page, StorageError>> {
        async move {
            let mut page = self.inner.list(request).await?;
            let items = std::mem::take(&mut page.items).into_iter().map(|item| opened(&self.rules, item));
            page.items = items.collect::<Result<_, _>>()?;
            Ok(page)
        }
        .boxed()
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        write: Write,
    ) -> BoxFuture<'a, Result<Revision, StorageError>> {
        async move {
            let write = match (write, rule_of(&self.rules, key)) {
                (Write::Put(value), Some(rule)) => {
                    Write::Put(rule.seal(key, &value).map_err(|why| failed(key, &why))?)
                }
                (write, _) => write,
            };
            let committed = self.inner.commit(key, expect, write).await;
            committed.map_err(|error| opened_conflict(&self.rules, error))
        }
        .boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> WatchStream {
        let rules = self.rules.clone();
        let items = self.inner.watch(prefix, after);
        items.map(move |item| item.and_then(|item| opened_item(&rules, item))).boxed()
    }

    fn freshness<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Freshness, StorageError>> {
        self.inner.freshness(prefix)
    }

    fn compact(&self, at: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        self.inner.compact(at)
    }

    fn is_outdated<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<bool, StorageError>> {
        async move {
            let Some(rule) = rule_of(&self.rules, key) else { return Ok(false) };
            let Some(found) = self.inner.get(key).await? else { return Ok(false) };
            Ok(rule.open(key, &found.value).map_err(|why| failed(key, &why))?.1)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
