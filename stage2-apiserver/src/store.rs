//! The store: create, read, change and delete objects of one resource.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::handlers`] let the object through all gates. After: [`crate::storage`] has it,
//! and [`crate::watch_cache`] tells the world.
//!
//! Everything above speaks of objects, everything below of keys and bytes; the store is the seam. Its one loop is the
//! optimistic update: read, let the caller make the new object from the current one, write *if nothing came in between*,
//! else again. The first try starts from the watch cache, which is free but may be a moment old: when it fails, with a
//! refusal or with a conflict, it is tried again from the store's own state before anybody hears of it.
//!
//! Deleting is more than writing nothing: a Pod gets time to stop, and an object with finalizers waits for whoever put
//! them there ([`deletion`]). The store removes it in the update that takes the last reason to wait away.
//!
//! # Invariants
//! 1. A write never overwrites a state that its maker hasn't seen.
//! 2. resourceVersion isn't stored: it *is* the revision.
//! 3. An object with finalizers is never removed.
//!
//! # In Kubernetes
//! `apiserver/pkg/registry/generic/registry/store.go` and `storage/etcd3/store.go` `GuaranteedUpdate`. Left out: hooks (`AfterCreate`, …),
//! leases for Events ([`event_ttl`] sweeps).

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use crate::registry::ResourceInfo;
use crate::storage::{Expect, KeyValue, Revision, Storage, StorageError, Write};
use crate::watch_cache::{At, CachedObject, Cacher, Caches, ListOptions, Listed};

pub mod deletion;
pub mod event_ttl;

pub use deletion::{DeletePlan, DeleteRequest, DeletionPolicy};

/// Rounds after which an update gives up; only a writer that never pauses gets us there.
const MAX_ATTEMPTS: usize = 100;

/// All stores, over one storage and its caches.
#[derive(Clone)]
pub struct Stores {
    caches: Arc<Caches>,
}

/// One resource's objects.
#[derive(Clone)]
pub struct Store {
    info: &'static ResourceInfo,
    storage: Arc<dyn Storage>,
    cacher: Arc<Cacher>,
}

/// What an update came to.
#[derive(Debug, Clone)]
pub enum Updated {
    /// The object as it is now (unchanged when the update changed nothing).
    Kept(Arc<CachedObject>),
    /// The update took away the last finalizer of an object that was being deleted: its last state.
    Removed(Arc<CachedObject>),
}

/// What a deletion came to.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// It is gone; its last state.
    Removed(Arc<CachedObject>),
    /// It is still there, marked, until its time is over or its finalizers are gone.
    Pending(Arc<CachedObject>),
}

impl Updated {
    /// The object, there or gone.
    pub fn object(&self) -> &Arc<CachedObject> {
        match self {
            Updated::Kept(object) | Updated::Removed(object) => object,
        }
    }
}

impl Deleted {
    /// The object, there or gone.
    pub fn object(&self) -> &Arc<CachedObject> {
        match self {
            Deleted::Removed(object) | Deleted::Pending(object) => object,
        }
    }
}

impl Stores {
    /// Stores over these caches.
    pub fn new(caches: Arc<Caches>) -> Self {
        Stores { caches }
    }

    /// The store of a resource that is stored.
    pub fn of(&self, info: &'static ResourceInfo) -> Store {
        let prefix = info.key_prefix(None);
        Store { info, storage: self.caches.storage().clone(), cacher: self.caches.of(&prefix) }
    }

    /// The caches below.
    pub fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }
}

/// The bytes that are stored: the object without its resourceVersion.
fn encode(object: &Object) -> Bytes {
    let mut stored = object.clone();
    stored.remove("/metadata/resourceVersion");
    Bytes::from(serde_json::to_vec(stored.as_value()).expect("a JSON value can be written"))
}

impl Store {
    /// The resource.
    pub fn info(&self) -> &'static ResourceInfo {
        self.info
    }

    /// The resource's watch cache.
    pub fn cacher(&self) -> &Arc<Cacher> {
        &self.cacher
    }

    fn not_found(&self, name: &str) -> Status {
        Status::not_found(&self.info.group_resource(), name)
    }

    /// The object as the store has it now, without decoding it again when the cache has the same.
    async fn current(&self, key: &str) -> Result<Option<Arc<CachedObject>>, Status> {
        let found = self.storage.get(key).await.map_err(crate::watch_cache::status)?;
        found.map(|kv| self.decoded(kv)).transpose()
    }

    fn decoded(&self, kv: KeyValue) -> Result<Arc<CachedObject>, Status> {
        match self.cacher.peek(&kv.key) {
            Some(cached) if cached.revision == kv.revision => Ok(cached),
            _ => CachedObject::decode(kv.key.as_str(), &kv.value, kv.revision)
                .map(Arc::new)
                .map_err(|e| Status::internal(format!("{}: {e}", kv.key))),
        }
    }

    /// Reads one object.
    ///
    /// # Errors
    /// 404, or 504 when the cache can't become as fresh as `at` asks.
    pub async fn get(
        &self,
        namespace: Option<&str>,
        name: &str,
        at: At,
    ) -> Result<Arc<CachedObject>, Status> {
        let key = self.info.key(namespace, name);
        let found = match at {
            At::Consistent => self.current(&key).await?,
            at => {
                self.cacher.wait_for(at).await?;
                self.cacher.peek(&key)
            }
        };
        found.ok_or_else(|| self.not_found(name))
    }

    /// Lists; see [`Cacher::list`].
    ///
    /// # Errors
    /// Those of [`Cacher::list`].
    pub async fn list(&self, options: &ListOptions) -> Result<Listed, Status> {
        self.cacher.list(options).await
    }

    /// Stores a new object. uid, creationTimestamp and the like are the caller's business.
    ///
    /// # Errors
    /// 409 `already exists`.
    pub async fn create(&self, object: Object, dry_run: bool) -> Result<Arc<CachedObject>, Status> {
        let name = object.name().to_owned();
        let key = self.info.key(object.namespace(), &name);
        let exists = || Status::already_exists(&self.info.group_resource(), &name);
        if dry_run {
            return match self.current(&key).await? {
                Some(_) => Err(exists()),
                None => {
                    let mut cached = CachedObject::new(key, object, Revision(0));
                    cached.object.remove("/metadata/resourceVersion");
                    Ok(Arc::new(cached))
                }
            };
        }
        let put = Write::Put(encode(&object));
        match self.storage.commit(&key, Expect::Absent, put).await {
            Ok(revision) => Ok(Arc::new(CachedObject::new(key, object, revision))),
            Err(StorageError::Conflict { .. }) => Err(exists()),
            Err(error) => Err(crate::watch_cache::status(error)),
        }
    }

    /// Changes an object: `change` makes the new state from the current one, and may be called several times. It may wait
    /// (for admission); it refuses by an error, for example with [`Status::modified`] when the client's resourceVersion isn't the
    /// current one.
    ///
    /// # Errors
    /// 404, what `change` refuses with, or 409 when others never stop writing.
    // ANCHOR: guaranteed-update
    pub async fn update<F, Fut>(
        &self,
        namespace: Option<&str>,
        name: &str,
        dry_run: bool,
        mut change: F,
    ) -> Result<Updated, Status>
    where
        F: FnMut(Arc<CachedObject>) -> Fut + Send,
        Fut: Future<Output = Result<Object, Status>> + Send,
    {
        let key = self.info.key(namespace, name);
        let mut cached = self.cacher.peek(&key);
        for _ in 0..MAX_ATTEMPTS {
            let from_cache = cached.is_some();
            let current = match cached.take() {
                Some(cached) => cached,
                None => self.current(&key).await?.ok_or_else(|| self.not_found(name))?,
            };
            let changed = match change(current.clone()).await {
                Ok(changed) => changed,
                // The refusal may be about a state that is no longer true.
                Err(_) if from_cache => continue,
                Err(refusal) => return Err(refusal),
            };
            match self.write(&current, changed, dry_run).await {
                Ok(updated) => return Ok(updated),
                Err(StorageError::Conflict { .. }) => {}
                Err(error) => return Err(crate::watch_cache::status(error)),
            }
        }
        Err(Status::modified(&self.info.group_resource(), name))
    }
    // ANCHOR_END: guaranteed-update

    async fn write(
        &self,
        current: &Arc<CachedObject>,
        mut changed: Object,
        dry_run: bool,
    ) -> Result<Updated, StorageError> {
        let expect = Expect::At(current.revision);
        if deletion::is_over(&current.object, &changed) {
            let revision = match dry_run {
                true => current.revision,
                false => self.storage.commit(&current.key, expect, Write::Delete).await?,
            };
            let removed = CachedObject::new(current.key.clone(), changed, revision);
            return Ok(Updated::Removed(Arc::new(removed)));
        }
        changed.set_resource_version(&current.revision.to_string());
        if changed == current.object {
            // "Unchanged" must be about the present, or a stale cache would swallow a write.
            let now = self.storage.get(&current.key).await?;
            match now {
                Some(now) if now.revision == current.revision => {}
                now => return Err(StorageError::Conflict { key: current.key.to_string(), current: now }),
            }
            if dry_run || !self.storage.is_outdated(&current.key).await? {
                return Ok(Updated::Kept(current.clone()));
            }
        }
        let revision = match dry_run {
            true => current.revision,
            false => self.storage.commit(&current.key, expect, Write::Put(encode(&changed))).await?,
        };
        Ok(Updated::Kept(Arc::new(CachedObject::new(current.key.clone(), changed, revision))))
    }

    /// Deletes an object, or marks it so that it goes when it can. `admit` is asked with each state that is about to
    /// be deleted.
    ///
    /// # Errors
    /// 404, 409 when a precondition isn't met, what `admit` refuses with.
    pub async fn delete<F, Fut>(
        &self,
        namespace: Option<&str>,
        name: &str,
        request: &DeleteRequest,
        policy: &DeletionPolicy,
        mut admit: F,
    ) -> Result<Deleted, Status>
    where
        F: FnMut(Arc<CachedObject>) -> Fut + Send,
        Fut: Future<Output = Result<(), Status>> + Send,
    {
        let key = self.info.key(namespace, name);
        for _ in 0..MAX_ATTEMPTS {
            let current = self.current(&key).await?.ok_or_else(|| self.not_found(name))?;
            admit(current.clone()).await?;
            let plan = deletion::plan(&current.object, request, policy, self.info.kind)?;
            let expect = Expect::At(current.revision);
            let written = match plan {
                DeletePlan::Wait => return Ok(Deleted::Pending(current)),
                DeletePlan::Remove(_) | DeletePlan::Mark(_) if request.dry_run => Ok(current.revision),
                DeletePlan::Remove(ref last) if was_given_no_time(last, &current.object) => {
                    self.mark_and_remove(&key, expect, last).await
                }
                DeletePlan::Remove(_) => self.storage.commit(&key, expect, Write::Delete).await,
                DeletePlan::Mark(ref marked) => {
                    self.storage.commit(&key, expect, Write::Put(encode(marked))).await
                }
            };
            match (written, plan) {
                (Ok(revision), DeletePlan::Mark(marked)) => {
                    return Ok(Deleted::Pending(Arc::new(CachedObject::new(key, marked, revision))));
                }
                (Ok(revision), DeletePlan::Remove(last)) => {
                    return Ok(Deleted::Removed(Arc::new(CachedObject::new(key, last, revision))));
                }
                (Ok(_), DeletePlan::Wait) => return Ok(Deleted::Pending(current)),
                (Err(StorageError::Conflict { .. }), _) => {}
                (Err(error), _) => return Err(crate::watch_cache::status(error)),
            }
        }
        Err(Status::modified(&self.info.group_resource(), name))
    }

    /// Two writes, so that watchers see the object with no time left before they see it gone.
    async fn mark_and_remove(
        &self,
        key: &str,
        expect: Expect,
        last: &Object,
    ) -> Result<Revision, StorageError> {
        let marked = self.storage.commit(key, expect, Write::Put(encode(last))).await?;
        self.storage.commit(key, Expect::At(marked), Write::Delete).await
    }
}

/// Whether a deletion with a grace period of 0 was decided just now, of a kind that is given time.
fn was_given_no_time(last: &Object, current: &Object) -> bool {
    let grace = "/metadata/deletionGracePeriodSeconds";
    last.get_i64(grace) == Some(0) && current.get_i64(grace) != Some(0) && last.finalizers().is_empty()
}

#[cfg(test)]
mod tests;
