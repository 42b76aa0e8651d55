//! Lists: from the cache when the present is asked for, from the store's history when the past is.
//!
//! *Step 2 of a pod's journey.* Before: a reflector's first request. After: it watches from the list's resourceVersion.
//!
//! The first piece of a list in pieces comes from the cache; the `continue` token carries its revision, and the next pieces are
//! read from the store at that revision, so that all pieces together are one moment. When the history is compacted in
//! between, the client is told so (410), with a token that goes on in the present if it can live with that.
//!
//! # In Kubernetes
//! `Cacher.GetList` and `etcd3/store.go` `GetList`.

use std::sync::Arc;

use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::continue_token::{self, ContinueToken};
use super::{At, CachedObject, Cacher, Predicate, status};
use crate::storage::{ListRequest, Revision, StorageError};

/// How many keys are read from the store for one that a selector may keep.
const SELECTOR_CHUNK: usize = 500;

/// What to list.
#[derive(Clone)]
pub struct ListOptions {
    /// A key prefix that ends in a slash, or one whole key.
    pub scope: String,
    /// Which of those.
    pub selector: Option<Predicate>,
    /// As of when.
    pub at: At,
    /// At most so many; 0: all.
    pub limit: usize,
    /// Token of the piece before; empty: the first piece.
    pub continue_token: String,
}

/// A list, or a piece of one.
#[derive(Debug, Default)]
pub struct Listed {
    /// In key order.
    pub items: Vec<Arc<CachedObject>>,
    /// The moment that the list shows.
    pub revision: Revision,
    /// How to get the rest, when there is a rest.
    pub continue_token: Option<String>,
    /// How many follow; unknown with a selector.
    pub remaining: Option<u64>,
}

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

impl Cacher {
    /// Lists.
    ///
    /// # Errors
    /// 400 for a bad token, 410 for a past that is forgotten, 504 for a future that hasn't come.
    pub async fn list(&self, options: &ListOptions) -> Result<Listed, Status> {
        if !options.continue_token.is_empty() {
            let token = continue_token::decode(&options.continue_token, &options.scope)?;
            return self.list_history(options, token.revision, Some(&token)).await;
        }
        if let At::Exact(revision) = options.at {
            self.wait_for(options.at).await?;
            return self.list_history(options, Some(revision), None).await;
        }
        self.wait_for(options.at).await?;
        Ok(self.list_cache(options))
    }

    fn list_cache(&self, options: &ListOptions) -> Listed {
        let state = self.shared.state.lock();
        let window = &state.window;
        // With resourceVersion=0 the limit is ignored, as there: "any" state has no history to go on in.
        let limit = if options.at == At::Any { 0 } else { options.limit };
        let mut listed = Listed { revision: window.revision(), ..Listed::default() };
        let mut rest = window.range(&options.scope, None).filter(|cached| selects(options, &cached.object));
        if limit == 0 {
            listed.items = rest.cloned().collect();
            return listed;
        }
        listed.items = rest.by_ref().take(limit).cloned().collect();
        let following = match options.selector {
            None => rest.count() as u64,
            Some(_) => u64::from(rest.next().is_some()),
        };
        finish(&mut listed, options, following);
        listed
    }

    async fn list_history(
        &self,
        options: &ListOptions,
        revision: Option<Revision>,
        token: Option<&ContinueToken>,
    ) -> Result<Listed, Status> {
        let mut listed = Listed { revision: revision.unwrap_or_default(), ..Listed::default() };
        let mut request = ListRequest {
            prefix: options.scope.clone(),
            start: token.map(|token| token.start.clone()),
            limit: if options.selector.is_some() && options.limit > 0 {
                SELECTOR_CHUNK
            } else {
                options.limit
            },
            revision,
        };
        loop {
            let page = self.storage.list(request.clone()).await.map_err(|error| match (&error, token) {
                (StorageError::Compacted { .. }, Some(token)) => expired(token, &options.scope),
                _ => status(error),
            })?;
            listed.revision = page.revision;
            request.revision = Some(page.revision);
            let last = page.items.last().map(|kv| kv.key.clone());
            let mut following = page.remaining;
            for (at, kv) in page.items.iter().enumerate() {
                let cached = CachedObject::decode(kv.key.as_str(), &kv.value, kv.revision)
                    .map_err(|e| Status::internal(format!("{}: {e}", kv.key)))?;
                if !selects(options, &cached.object) {
                    continue;
                }
                if options.limit > 0 && listed.items.len() == options.limit {
                    following += (page.items.len() - at) as u64;
                    break;
                }
                listed.items.push(Arc::new(cached));
            }
            let full = options.limit > 0 && listed.items.len() == options.limit;
            match last {
                Some(last) if page.remaining > 0 && !full => request.start = Some(format!("{last}\0")),
                _ => {
                    finish(&mut listed, options, following);
                    return Ok(listed);
                }
            }
        }
    }
}

fn selects(options: &ListOptions, object: &Object) -> bool {
    options.selector.as_ref().is_none_or(|selector| selector(object))
}

/// Adds the token for the rest.
fn finish(listed: &mut Listed, options: &ListOptions, following: u64) {
    if following == 0 {
        return;
    }
    let last = listed.items.last().map(|cached| cached.key.clone());
    listed.continue_token =
        last.map(|last| continue_token::encode(Some(listed.revision), &last, &options.scope));
    listed.remaining = options.selector.is_none().then_some(following);
}

fn expired(token: &ContinueToken, prefix: &str) -> Status {
    let mut status = Status::expired(CONTINUE_EXPIRED);
    status.metadata.insert("continue".into(), continue_token::inconsistent(token, prefix).into());
    status
}
