//! Typed access to one resource.
//!
//! `client.namespaced::<Pod>("default").get("web")`: the resource is known from the type. For kinds that are not compiled
//! in, [`Client::objects`] takes the resource as a value and gives [`Object`]s.
//!
//! # Invariants
//! 1. Objects in a list have `apiVersion` and `kind`, though servers leave them out there.
//!
//! # In Kubernetes
//! The generated clientsets of client-go, and `client-go/dynamic`.

use std::marker::PhantomData;

use bytes::Bytes;
use futures::Stream;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Client, ClientError};
use crate::object::Object;
use crate::request::{self, DeleteParams, ListParams, Patch, WatchParams};
use crate::resource::{ApiResource, ApiType, of};
use crate::watch::{WatchEvent, decode_events};

/// What an [`Api`] can carry: any type of k8s-openapi, or [`Object`].
pub trait ApiObject: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Fills in what a list leaves out.
    fn complete(&mut self, _: &ApiResource) {}
}

impl<K: k8s_openapi::Resource + Serialize + DeserializeOwned + Send + Sync + 'static> ApiObject for K {}

impl ApiObject for Object {
    fn complete(&mut self, resource: &ApiResource) {
        if self.kind().is_empty() {
            self.set_gvk(&resource.gvk());
        }
    }
}

/// A list and the version that it is from.
#[derive(Debug, Clone, Deserialize)]
#[serde(bound = "K: DeserializeOwned")]
pub struct List<K> {
    /// Version and continuation.
    #[serde(default)]
    pub metadata: ListMeta,
    /// The objects.
    #[serde(default = "Vec::new", deserialize_with = "null_is_empty")]
    pub items: Vec<K>,
}

/// Go writes an empty list as null.
fn null_is_empty<'de, D: serde::Deserializer<'de>, K: Deserialize<'de>>(d: D) -> Result<Vec<K>, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

/// What a list says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The version that a watch goes on from.
    pub resource_version: String,
    /// The rest of the list, empty at its end.
    #[serde(rename = "continue")]
    pub continue_: String,
    /// How many more there are, where the server knows.
    pub remaining_item_count: Option<i64>,
}

/// Access to one resource, in one namespace or in all.
pub struct Api<K> {
    client: Client,
    resource: ApiResource,
    namespace: Option<String>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        let Api { client, resource, namespace, kind } = self;
        Api { client: client.clone(), resource: resource.clone(), namespace: namespace.clone(), kind: *kind }
    }
}

impl Client {
    /// A cluster-scoped resource, or a namespaced one in all namespaces.
    pub fn api<K: ApiType>(&self) -> Api<K> {
        Api { client: self.clone(), resource: of::<K>(), namespace: None, kind: PhantomData }
    }

    /// A resource in one namespace.
    pub fn namespaced<K: ApiType>(&self, namespace: &str) -> Api<K> {
        Api { namespace: Some(namespace.to_string()), ..self.api() }
    }

    /// Any resource, as JSON.
    pub fn objects(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<Object> {
        let namespace = namespace.map(String::from);
        Api { client: self.clone(), resource: resource.clone(), namespace, kind: PhantomData }
    }
}
impl<K: ApiObject> Api<K> {
    /// Reads one object.
    pub async fn get(&self, name: &str) -> Result<K, ClientError> {
        self.call(request::get(&self.resource, self.namespace(), name, None)).await
    }

    /// Reads many.
    pub async fn list(&self, params: &ListParams) -> Result<List<K>, ClientError> {
        let request = request::list(&self.resource, self.namespace(), params);
        let mut list: List<K> = self.client.request(request).await?;
        list.items.iter_mut().for_each(|item| item.complete(&self.resource));
        Ok(list)
    }

    /// Hears about changes; the stream ends when the server ends it.
    pub async fn watch(
        &self,
        params: &WatchParams,
    ) -> Result<impl Stream<Item = Result<WatchEvent<K>, ClientError>> + Send + use<K>, ClientError> {
        let request = request::watch(&self.resource, self.namespace(), params);
        let response = self.client.stream(request).await?;
        Ok(decode_events(response.into_body(), self.client.config().server.clone()))
    }

    /// Creates an object.
    pub async fn create(&self, object: &K) -> Result<K, ClientError> {
        self.call(request::create(&self.resource, self.namespace(), encode(object)?)).await
    }

    /// Replaces a whole object.
    pub async fn replace(&self, name: &str, object: &K) -> Result<K, ClientError> {
        self.call(request::replace(&self.resource, self.namespace(), name, None, encode(object)?)).await
    }

    /// Replaces an object's status.
    pub async fn replace_status(&self, name: &str, object: &K) -> Result<K, ClientError> {
        let body = encode(object)?;
        self.call(request::replace(&self.resource, self.namespace(), name, Some("status"), body)).await
    }

    /// Changes part of an object.
    pub async fn patch(&self, name: &str, patch: &Patch) -> Result<K, ClientError> {
        self.call(request::patch(&self.resource, self.namespace(), name, None, patch)).await
    }

    /// Changes part of a subresource (`status`, `scale`).
    pub async fn patch_subresource(
        &self,
        name: &str,
        subresource: &str,
        patch: &Patch,
    ) -> Result<K, ClientError> {
        self.call(request::patch(&self.resource, self.namespace(), name, Some(subresource), patch)).await
    }

    /// Deletes an object; the answer is the object while it goes, or a `Status`.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Value, ClientError> {
        self.call(request::delete(&self.resource, self.namespace(), name, params)).await
    }

    /// Reads a subresource (`scale`) as a type of its own.
    pub async fn get_subresource<T: DeserializeOwned>(
        &self,
        name: &str,
        subresource: &str,
    ) -> Result<T, ClientError> {
        self.call(request::get(&self.resource, self.namespace(), name, Some(subresource))).await
    }

    /// Replaces a subresource with a type of its own (`scale`).
    pub async fn replace_subresource<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        subresource: &str,
        body: &T,
    ) -> Result<T, ClientError> {
        let body = encode(body)?;
        self.call(request::replace(&self.resource, self.namespace(), name, Some(subresource), body)).await
    }

    /// Posts to a subresource (`binding`, `eviction`, `token`) and decodes what comes back.
    pub async fn create_subresource<B: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        subresource: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        let body = encode(body)?;
        self.call(request::post_subresource(&self.resource, self.namespace(), name, subresource, body)).await
    }

    /// The resource.
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// The namespace, `None` for all.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    async fn call<T: DeserializeOwned>(&self, request: http::Request<Bytes>) -> Result<T, ClientError> {
        self.client.request(request).await
    }
}

fn encode<T: Serialize>(object: &T) -> Result<Bytes, ClientError> {
    let body = serde_json::to_vec(object);
    body.map(Bytes::from).map_err(|e| ClientError::Encode(std::any::type_name::<T>().to_string(), e))
}
