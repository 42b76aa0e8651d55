//! Pager: a whole list, piece by piece.
//!
//! A server gives a long list in pieces (`limit`, `continue`), so that neither side must hold all of it as text at once. Who needs the
//! whole list asks here. A token lives some minutes; when one has expired on the way, the list is asked for anew in one piece,
//! since the pieces before are of a version that nobody has any more.
//!
//! # In Kubernetes
//! `client-go/tools/pager/pager.go`. Left out: buffering of the next piece while one is worked on.

use serde_json::Value;

use super::{Client, ClientError};
use crate::request::{self, ListParams};
use crate::resource::ApiResource;

impl Client {
    /// Every object of a collection as JSON; items that don't say their kind get that of the list, or of the resource.
    ///
    /// # Errors
    /// What the server refused.
    pub async fn list_all(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<Vec<Value>, ClientError> {
        let (mut objects, mut params) = (Vec::new(), params.clone());
        loop {
            let answer = self.request::<Value>(request::list(resource, namespace, &params)).await;
            let mut list = match answer {
                Err(error) if error.is_gone() && params.continue_token.is_some() => {
                    objects.clear();
                    (params.continue_token, params.limit) = (None, None);
                    continue;
                }
                answer => answer?,
            };
            let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let kind = list["kind"].as_str().and_then(|kind| kind.strip_suffix("List"));
            let kind = kind.unwrap_or(&resource.kind);
            for mut item in items {
                if item.get("kind").is_none() {
                    item["apiVersion"] = resource.gvr.api_version().into();
                    item["kind"] = kind.into();
                }
                objects.push(item);
            }
            match list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token.to_string()),
                None => return Ok(objects),
            }
        }
    }
}
